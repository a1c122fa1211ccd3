//! LRU-WSR: a second chance for dirty pages, so that writes of hot pages are gathered.

use crate::buffer::order::{BufferOrder, Buffered, FrameId, LOOKED_AT, Pages, Shape, VictimUnit};
use crate::geometry::Lpn;
use crate::recency::{Links, List, NONE};
use crate::scheme::{NoKeys, Scheme};
use crate::table;

/// The least recent page is looked at. It leaves if it is clean, or dirty and cold. A dirty page that is not cold becomes
/// cold and the most recent, and the next is looked at. A hit takes the coldness away.
///
/// Ours to say: a page begins as not cold. The page that is being served is looked at like others, and stays. What `take`
/// takes may stand behind others. Then those at the end of the list that are not cold get their chance first, as they
/// would before the first victim.
///
/// `candidates` are the victims to come: first those that may leave, and behind them those that are cold by then.
#[derive(Debug, Clone)]
pub struct LruWsr {
    /// Whether a page is dirty and not cold.
    hot: Vec<bool>,
    /// Whether a page is dirty.
    dirty: Vec<bool>,
    links: Links,
    list: List,
}

impl LruWsr {
    /// Look at `frame`. The next to look at, if this one has got a second chance.
    #[inline]
    fn second_chance(&mut self, frame: u32) -> Option<u32> {
        std::mem::take(&mut self.hot[frame as usize]).then(|| {
            let next = List::newer(&self.links, frame);
            self.list.touch(&mut self.links, frame);
            // The most recent stays where it is.
            if next == NONE { frame } else { next }
        })
    }

    #[inline]
    fn remove(&mut self, frame: u32, frames: &mut Vec<FrameId>) {
        self.list.remove(&mut self.links, frame);
        frames.push(FrameId(frame));
    }
}

impl Scheme for LruWsr {
    const SUMMARY: &'static str = "The least recent page that is clean or cold; a dirty page becomes cold at its first turn, and \
        stays once more. Keeps what was read.";
    const SOURCE: &'static str = "H. Jung et al., IEEE Transactions on Consumer Electronics 54(3), 2008";
    type Keys = NoKeys;
}

impl BufferOrder for LruWsr {
    const UNIT: VictimUnit = VictimUnit::Page;

    fn new(_: &NoKeys, shape: &Shape) -> Self {
        let frames = shape.frames as usize;
        Self {
            hot: table::zeros(frames),
            dirty: table::zeros(frames),
            links: Links::new(shape.frames),
            list: List::new(),
        }
    }

    fn keeps_reads(_: &NoKeys) -> bool {
        true
    }

    #[inline]
    fn on_insert(&mut self, page: Buffered, dirty: bool, _: Pages<'_>) {
        let frame = page.frame.0 as usize;
        (self.dirty[frame], self.hot[frame]) = (dirty, dirty);
        self.list.enter(&mut self.links, page.frame.0);
    }

    #[inline]
    fn on_hit(&mut self, page: Buffered, write: bool, _: Pages<'_>) {
        let frame = page.frame.0 as usize;
        self.dirty[frame] |= write;
        self.hot[frame] = self.dirty[frame];
        self.list.touch(&mut self.links, page.frame.0);
    }

    fn on_clean(&mut self, page: Buffered) {
        let frame = page.frame.0 as usize;
        (self.dirty[frame], self.hot[frame]) = (false, false);
    }

    fn on_dirty(&mut self, page: Buffered) {
        let frame = page.frame.0 as usize;
        self.hot[frame] |= !self.dirty[frame];
        self.dirty[frame] = true;
    }

    fn on_leave(&mut self, page: Buffered, _: Pages<'_>) {
        self.list.remove(&mut self.links, page.frame.0);
    }

    #[inline]
    fn victim(&mut self, protect: Lpn, pages: Pages<'_>, frames: &mut Vec<FrameId>) -> bool {
        let mut frame = self.list.oldest;
        while frame != NONE {
            if let Some(next) = self.second_chance(frame) {
                frame = next;
            } else if pages.of(frame) == protect {
                frame = List::newer(&self.links, frame);
            } else {
                self.remove(frame, frames);
                return true;
            }
        }
        false
    }

    fn candidates(&self, protect: Lpn, depth: usize, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        let at_turn = |hot| {
            let frames = self.list.iter_oldest(&self.links);
            frames.filter(move |frame| self.hot[*frame as usize] == hot)
        };
        let all = at_turn(false).chain(at_turn(true));
        let all = all.filter(|frame| pages.of(*frame) != protect);
        frames.extend(all.map(FrameId).take(depth));
    }

    fn take(&mut self, page: Buffered, _: Pages<'_>, frames: &mut Vec<FrameId>) {
        while self.second_chance(self.list.oldest).is_some() {}
        self.remove(page.frame.0, frames);
    }

    #[inline]
    fn prefetch(&self, _: Lpn, frame: Option<FrameId>, stage: u32, _: Pages<'_>) {
        self.links.look_ahead(frame.map(|frame| frame.0), stage);
    }

    #[inline]
    fn likely_next(&self) -> [u32; LOOKED_AT] {
        self.list.least_recent(&self.links)
    }

    fn table_bytes(&self) -> u64 {
        let flags = self.hot.capacity() + self.dirty.capacity();
        self.links.table_bytes() + flags as u64
    }
}
