//! LRU: the page that was not accessed for longest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::order::{BufferOrder, Buffered, FrameId, LOOKED_AT, Pages, Shape, VictimUnit};
use crate::geometry::Lpn;
use crate::recency::{Links, List, NONE};
use crate::scheme::{Contrast, Scheme};

/// Its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LruKeys {
    /// Whether pages that a read missed are kept, clean. Without them, the buffer holds nothing but writes.
    ///
    /// Default: plain LRU keeps what was used last, read or written.
    pub keep_reads: bool,
}

impl Default for LruKeys {
    fn default() -> Self {
        Self { keep_reads: true }
    }
}

/// Reads and writes count alike, and clean pages are kept with dirty ones. By inclusion its hit ratio is what a pass over
/// the reuse distances of a workload says (Mattson et al., 1970).
#[derive(Debug, Clone)]
pub struct Lru {
    links: Links,
    list: List,
}

impl Lru {
    #[inline]
    fn remove(&mut self, frame: u32, frames: &mut Vec<FrameId>) {
        self.list.remove(&mut self.links, frame);
        frames.push(FrameId(frame));
    }
}

impl Scheme for Lru {
    const SUMMARY: &'static str = "The page that was accessed least recently.";
    const SOURCE: &'static str = "R. L. Mattson et al., IBM Systems Journal 9(2), 1970";
    const CONTRASTS: &'static [Contrast] = &[Contrast {
        key: "keep_reads",
        value: "false",
        with: &["buffer.kind=\"lru\"", "buffer.bytes=131072"],
    }];
    type Keys = LruKeys;
}

impl BufferOrder for Lru {
    const UNIT: VictimUnit = VictimUnit::Page;

    fn new(_: &LruKeys, shape: &Shape) -> Self {
        Self { links: Links::new(shape.frames), list: List::new() }
    }

    fn keeps_reads(keys: &LruKeys) -> bool {
        keys.keep_reads
    }

    #[inline]
    fn on_insert(&mut self, page: Buffered, _: bool, _: Pages<'_>) {
        self.list.enter(&mut self.links, page.frame.0);
    }

    #[inline]
    fn on_hit(&mut self, page: Buffered, _: bool, _: Pages<'_>) {
        self.list.touch(&mut self.links, page.frame.0);
    }

    fn on_clean(&mut self, _: Buffered) {}

    fn on_leave(&mut self, page: Buffered, _: Pages<'_>) {
        self.list.remove(&mut self.links, page.frame.0);
    }

    #[inline]
    fn victim(&mut self, protect: Lpn, pages: Pages<'_>, frames: &mut Vec<FrameId>) -> bool {
        let mut frame = self.list.oldest;
        if frame != NONE && pages.of(frame) == protect {
            frame = List::newer(&self.links, frame);
        }
        if frame == NONE {
            return false;
        }
        self.remove(frame, frames);
        true
    }

    fn candidates(&self, protect: Lpn, depth: usize, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        let all = self.list.iter_oldest(&self.links);
        let all = all.filter(|frame| pages.of(*frame) != protect);
        frames.extend(all.map(FrameId).take(depth));
    }

    fn take(&mut self, page: Buffered, _: Pages<'_>, frames: &mut Vec<FrameId>) {
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
        self.links.table_bytes()
    }
}
