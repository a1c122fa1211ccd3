//! LRU: the page that was not used for longest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::order::{BufferOrder, Buffered, FrameId, Shape, VictimUnit};
use crate::geometry::Lpn;
use crate::scheme::{Contrast, Scheme};

const NONE: u32 = u32::MAX;

/// Pages from the least to the most recently used.
#[derive(Debug, Clone)]
pub struct Lru {
    /// For each frame, its page and its neighbours: less and more recently used.
    nodes: Vec<Node>,
    oldest: u32,
    newest: u32,
}

#[derive(Debug, Clone, Copy)]
struct Node {
    lpn: Lpn,
    older: u32,
    newer: u32,
}

/// Its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LruKeys {
    /// Whether pages that a read missed are kept, clean. Without them, the buffer holds nothing but writes.
    pub keep_reads: bool,
}

impl Default for LruKeys {
    fn default() -> Self {
        Self { keep_reads: true }
    }
}

impl Lru {
    fn enter(&mut self, frame: u32) {
        let node = &mut self.nodes[frame as usize];
        (node.older, node.newer) = (self.newest, NONE);
        match self.newest {
            NONE => self.oldest = frame,
            newest => self.nodes[newest as usize].newer = frame,
        }
        self.newest = frame;
    }

    fn unlink(&mut self, frame: u32) {
        let Node { older, newer, .. } = self.nodes[frame as usize];
        match older {
            NONE => self.oldest = newer,
            older => self.nodes[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.nodes[newer as usize].older = older,
        }
    }

    /// From the oldest on, without `protect`.
    fn oldest_first(&self, protect: Lpn) -> impl Iterator<Item = Buffered> {
        let mut at = self.oldest;
        let all = std::iter::from_fn(move || {
            let frame = at;
            let node = self.nodes.get(frame as usize)?;
            at = node.newer;
            Some(Buffered { frame: FrameId(frame), lpn: node.lpn })
        });
        all.filter(move |page| page.lpn != protect)
    }
}

impl Scheme for Lru {
    const SUMMARY: &'static str = "The page that was not used for longest.";
    const SOURCE: &'static str = "the usual baseline of buffer studies";
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
        let node = Node { lpn: Lpn(NONE), older: NONE, newer: NONE };
        Self { nodes: vec![node; shape.frames as usize], oldest: NONE, newest: NONE }
    }

    fn keeps_reads(keys: &LruKeys) -> bool {
        keys.keep_reads
    }

    fn on_insert(&mut self, page: Buffered, _: bool) {
        self.nodes[page.frame.0 as usize].lpn = page.lpn;
        self.enter(page.frame.0);
    }

    fn on_hit(&mut self, page: Buffered, _: bool) {
        if self.newest != page.frame.0 {
            self.unlink(page.frame.0);
            self.enter(page.frame.0);
        }
    }

    fn on_clean(&mut self, _: Buffered) {}

    fn on_leave(&mut self, page: Buffered) {
        self.unlink(page.frame.0);
    }

    fn victim(&mut self, protect: Lpn, frames: &mut Vec<FrameId>) -> bool {
        let Some(page) = self.oldest_first(protect).next() else { return false };
        self.take(page, frames);
        true
    }

    fn candidates(&self, protect: Lpn, depth: usize, pages: &mut Vec<Buffered>) {
        pages.extend(self.oldest_first(protect).take(depth));
    }

    fn take(&mut self, page: Buffered, frames: &mut Vec<FrameId>) {
        self.unlink(page.frame.0);
        frames.push(page.frame);
    }

    fn table_bytes(&self) -> u64 {
        self.nodes.capacity() as u64 * 12
    }
}
