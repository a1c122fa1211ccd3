//! CFLRU: clean pages first, among those that were not accessed for long.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::order::{BufferOrder, Buffered, FrameId, LOOKED_AT, Pages, Shape, VictimUnit};
use crate::error::{ConfigError, refuse};
use crate::geometry::Lpn;
use crate::quantity;
use crate::recency::{Links, List, NONE};
use crate::scheme::{Contrast, Scheme};
use crate::table;

/// One list of clean and dirty pages by recency. The last of them are the clean-first region: the clean page there that is
/// least recent leaves. Without one, the least recent page leaves.
///
/// The paper also tells of a region that adapts to the workload; ours is of a fixed size, as in the public code.
///
/// Every step is O(1) but one: a dirty page that becomes clean inside the region looks for the nearest clean one. That is
/// one step where pages become clean in their order, as a flush has it.
#[derive(Debug, Clone)]
pub struct Cflru {
    region: u32,
    /// `CLEAN` and `IN_REGION`.
    state: Vec<u8>,
    links: Links,
    /// Pages above the region.
    recent: List,
    /// Pages of the region: the last of all, as many as it holds.
    last: List,
    clean_links: Links,
    /// Clean pages of the region, in the same order.
    clean: List,
}

const CLEAN: u8 = 1;
const IN_REGION: u8 = 2;

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CflruKeys {
    /// Share of the frames that the clean-first region has, rounded to whole frames, from 0 (which is LRU) to 1.
    ///
    /// Default: half of the frames, as in the public code of CFLRU.
    #[serde(deserialize_with = "quantity::share")]
    pub clean_first: f64,
}

impl Default for CflruKeys {
    fn default() -> Self {
        Self { clean_first: 0.5 }
    }
}

impl Cflru {
    fn has(&self, frame: u32, flag: u8) -> bool {
        self.state[frame as usize] & flag != 0
    }

    /// The next page moves down into the region where it has room.
    #[inline]
    fn fill_region(&mut self) {
        if self.last.len < self.region && self.recent.len > 0 {
            let frame = self.recent.oldest;
            self.recent.remove(&mut self.links, frame);
            self.last.enter(&mut self.links, frame);
            self.state[frame as usize] |= IN_REGION;
            if self.has(frame, CLEAN) {
                self.clean.enter(&mut self.clean_links, frame);
            }
        }
    }

    #[inline]
    fn enter(&mut self, frame: u32, is_clean: bool) {
        self.state[frame as usize] = if is_clean { CLEAN } else { 0 };
        self.recent.enter(&mut self.links, frame);
        self.fill_region();
    }

    #[inline]
    fn remove(&mut self, frame: u32) {
        if self.has(frame, IN_REGION) {
            self.last.remove(&mut self.links, frame);
            if self.has(frame, CLEAN) {
                self.clean.remove(&mut self.clean_links, frame);
            }
            self.fill_region();
        } else {
            self.recent.remove(&mut self.links, frame);
        }
    }

    /// Enter `frame`, of the region and clean now, at its place among the clean ones.
    fn enter_clean(&mut self, frame: u32) {
        if self.clean.len == 0 {
            return self.clean.enter(&mut self.clean_links, frame);
        }
        let (mut newer, mut older) = (frame, frame);
        loop {
            older = List::older(&self.links, older);
            if older == NONE {
                return self.clean.enter_oldest(&mut self.clean_links, frame);
            }
            if self.has(older, CLEAN) {
                let above = List::newer(&self.clean_links, older);
                return self.clean.enter_below(&mut self.clean_links, frame, above);
            }
            newer = List::newer(&self.links, newer);
            if newer == NONE || self.has(newer, CLEAN) {
                return self.clean.enter_below(&mut self.clean_links, frame, newer);
            }
        }
    }

    /// The least recent of a list that is not `protect`.
    #[inline]
    fn oldest(list: &List, links: &Links, protect: Lpn, pages: Pages<'_>) -> u32 {
        let frame = list.oldest;
        if frame != NONE && pages.of(frame) == protect { List::newer(links, frame) } else { frame }
    }

    fn next(&self, protect: Lpn, pages: Pages<'_>) -> u32 {
        let clean = Self::oldest(&self.clean, &self.clean_links, protect, pages);
        if clean != NONE {
            return clean;
        }
        let last = Self::oldest(&self.last, &self.links, protect, pages);
        if last == NONE { Self::oldest(&self.recent, &self.links, protect, pages) } else { last }
    }
}

impl Scheme for Cflru {
    const SUMMARY: &'static str = "The least recent clean page of the `clean_first` share of the buffer that is least recent; \
        without one the least recent page. Keeps what was read.";
    const SOURCE: &'static str = "S. Park et al., CASES 2006";
    const CONTRASTS: &'static [Contrast] = &[Contrast {
        key: "clean_first",
        value: "0.1",
        with: &["buffer.kind=\"cflru\"", "buffer.bytes=131072"],
    }];
    type Keys = CflruKeys;
}

impl BufferOrder for Cflru {
    const UNIT: VictimUnit = VictimUnit::Page;

    fn new(keys: &CflruKeys, shape: &Shape) -> Self {
        let frames = shape.frames;
        Self {
            region: (keys.clean_first * f64::from(frames)).round() as u32,
            state: table::zeros(frames as usize),
            links: Links::new(frames),
            recent: List::new(),
            last: List::new(),
            clean_links: Links::new(frames),
            clean: List::new(),
        }
    }

    fn check_keys(keys: &CflruKeys) -> Result<(), ConfigError> {
        if !(0.0..=1.0).contains(&keys.clean_first) {
            return refuse("clean_first", keys.clean_first, "must be from 0 to 1: a share of the frames");
        }
        Ok(())
    }

    fn keeps_reads(_: &CflruKeys) -> bool {
        true
    }

    #[inline]
    fn on_insert(&mut self, page: Buffered, dirty: bool, _: Pages<'_>) {
        self.enter(page.frame.0, !dirty);
    }

    #[inline]
    fn on_hit(&mut self, page: Buffered, write: bool, _: Pages<'_>) {
        let is_clean = self.has(page.frame.0, CLEAN) && !write;
        self.remove(page.frame.0);
        self.enter(page.frame.0, is_clean);
    }

    fn on_clean(&mut self, page: Buffered) {
        let frame = page.frame.0;
        if !self.has(frame, CLEAN) {
            self.state[frame as usize] |= CLEAN;
            if self.has(frame, IN_REGION) {
                self.enter_clean(frame);
            }
        }
    }

    fn on_dirty(&mut self, page: Buffered) {
        let frame = page.frame.0;
        if self.has(frame, CLEAN) && self.has(frame, IN_REGION) {
            self.clean.remove(&mut self.clean_links, frame);
        }
        self.state[frame as usize] &= !CLEAN;
    }

    fn on_leave(&mut self, page: Buffered, _: Pages<'_>) {
        self.remove(page.frame.0);
    }

    #[inline]
    fn victim(&mut self, protect: Lpn, pages: Pages<'_>, frames: &mut Vec<FrameId>) -> bool {
        let frame = self.next(protect, pages);
        if frame == NONE {
            return false;
        }
        self.remove(frame);
        frames.push(FrameId(frame));
        true
    }

    fn candidates(&self, protect: Lpn, depth: usize, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        let is_free = |frame: &u32| pages.of(*frame) != protect;
        let all = self.last.iter_oldest(&self.links).chain(self.recent.iter_oldest(&self.links));
        let mut all = all.filter(is_free);
        if self.region <= 1 {
            // The least recent page, clean or dirty.
            return frames.extend(all.take(depth).map(FrameId));
        }
        // Each victim lets the next page into the region. The clean pages that leave next are those of the region, then
        // those that have come in. Only without any the least recent page leaves, which is dirty by then.
        let mut clean = self.clean.iter_oldest(&self.clean_links).filter(is_free);
        let mut coming = self.recent.iter_oldest(&self.links);
        let mut came = 0;
        for _ in 0..depth {
            let mut frame = clean.next();
            while frame.is_none() && came > 0 {
                came -= 1;
                frame = coming.next().filter(|frame| is_free(frame) && self.has(*frame, CLEAN));
            }
            let Some(frame) = frame.or_else(|| all.find(|frame| !self.has(*frame, CLEAN))) else { return };
            frames.push(FrameId(frame));
            came += 1;
        }
    }

    fn take(&mut self, page: Buffered, _: Pages<'_>, frames: &mut Vec<FrameId>) {
        self.remove(page.frame.0);
        frames.push(page.frame);
    }

    #[inline]
    fn prefetch(&self, _: Lpn, frame: Option<FrameId>, stage: u32, _: Pages<'_>) {
        let frame = frame.map(|frame| frame.0);
        self.links.look_ahead(frame, stage);
        if stage == 1 {
            self.clean_links.look_ahead(frame, stage);
        }
    }

    #[inline]
    fn likely_next(&self) -> [u32; LOOKED_AT] {
        match (self.clean.len, self.last.len) {
            (0, 0) => self.recent.least_recent(&self.links),
            (0, _) => self.last.least_recent(&self.links),
            _ => self.clean.least_recent(&self.clean_links),
        }
    }

    fn table_bytes(&self) -> u64 {
        let tables = self.links.table_bytes() + self.clean_links.table_bytes();
        tables + self.state.capacity() as u64
    }
}
