//! BPLRU: whole blocks by recency of writes, filled up before they are written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::block_chains::BlockChains;
use crate::buffer::order::{BufferOrder, Buffered, FrameId, LOOKED_AT, Pages, Shape, VictimUnit};
use crate::geometry::Lpn;
use crate::recency::{List, NONE};
use crate::scheme::{Contrast, Scheme};

/// A write makes its block the most recent. A read is served and moves nothing, and what a read missed is not kept: this is
/// a buffer of writes. The least recent block leaves with all its pages. *Padding* fills it up with pages that are read
/// from flash and writes it whole, for which a log block of FAST or BAST needs a switch merge only. Pages without data are
/// written as well, or the block would have gaps: they hold zeros, and are live from then on.
///
/// *Compensation*: a block that was written in sequence will hardly be written again soon, and becomes the least recent.
/// Ours to say: its pages were written one after the other from the first to the last, with no other write to this block
/// and no trim in between. Writes of other blocks may come in between, and pages may have been buffered before.
#[derive(Debug, Clone)]
pub struct Bplru {
    /// The mark of a block is the place that continues its sequence.
    chains: BlockChains,
    list: List,
    padding: Padding,
    compensation: bool,
    logical_units: u32,
}

/// When a block that leaves is filled up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Padding {
    /// Always, as in the paper.
    #[default]
    Always,
    /// If at least half of its pages are buffered, as in the public code.
    Half,
    /// Never: its buffered pages are written alone.
    Never,
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BplruKeys {
    /// When a block that leaves is filled up with pages that are read from flash.
    ///
    /// Default: as in the paper: a whole block in order can be switched instead of merged.
    pub padding: Padding,
    /// Whether a block that was written in sequence leaves next. A sequence begins with the first page of a block. It ends
    /// where a page of the block leaves by a trim, by FUA, or by a write that goes past the buffer.
    ///
    /// Default: as in the paper: what was written in sequence is rarely written again soon.
    pub compensation: bool,
}

impl Default for BplruKeys {
    fn default() -> Self {
        Self { padding: Padding::Always, compensation: true }
    }
}

impl Bplru {
    /// A page of the block of `head` was written.
    #[inline]
    fn on_write(&mut self, head: u32, lpn: Lpn) {
        let offset = self.chains.offset_of(lpn);
        let continues = offset == 0 || offset == self.chains.mark(head);
        let mut next = if continues { offset + 1 } else { 0 };
        // The last block of a drive may be shorter.
        let is_whole = next == self.chains.units_per_block() || continues && lpn.0 + 1 == self.logical_units;
        if is_whole {
            next = 0;
        }
        self.chains.set_mark(head, next);
        if is_whole && self.compensation {
            self.list.remove(&mut self.chains.links, head);
            self.list.enter_oldest(&mut self.chains.links, head);
        } else {
            self.list.touch(&mut self.chains.links, head);
        }
    }

    #[inline]
    fn head_of(&self, page: Buffered, pages: Pages<'_>) -> u32 {
        self.chains.head(self.chains.block_of(page.lpn), |frame| pages.of(frame))
    }

    fn remove(&mut self, head: u32, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        self.list.remove(&mut self.chains.links, head);
        let block = self.chains.block_of(pages.of(head));
        self.chains.forget(block, head, |frame| frames.push(FrameId(frame)));
    }
}

impl Scheme for Bplru {
    const SUMMARY: &'static str = "The block that was written least recently, filled up by `padding`; one that was written in \
        sequence leaves next with `compensation`. Buffers writes only.";
    const SOURCE: &'static str = "H. Kim and S. Ahn, FAST 2008";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast {
            key: "padding",
            value: "\"never\"",
            with: &["buffer.kind=\"bplru\"", "buffer.bytes=131072"],
        },
        Contrast {
            key: "compensation",
            value: "false",
            with: &["buffer.kind=\"bplru\"", "buffer.bytes=131072", "buffer.block_pages=4"],
        },
    ];
    type Keys = BplruKeys;
}

impl BufferOrder for Bplru {
    const UNIT: VictimUnit = VictimUnit::Block;

    fn new(keys: &BplruKeys, shape: &Shape) -> Self {
        let chains = BlockChains::new(shape, shape.frames);
        Self {
            chains,
            list: List::new(),
            padding: keys.padding,
            compensation: keys.compensation,
            logical_units: shape.logical_units,
        }
    }

    fn keeps_reads(_: &BplruKeys) -> bool {
        false
    }

    #[inline]
    fn on_insert(&mut self, page: Buffered, _: bool, pages: Pages<'_>) {
        let mut head = self.head_of(page, pages);
        if head == NONE {
            head = page.frame.0;
            self.chains.enter_first(head, self.chains.block_of(page.lpn));
            self.list.enter(&mut self.chains.links, head);
        } else {
            self.chains.enter(page.frame.0, head);
        }
        self.on_write(head, page.lpn);
    }

    #[inline]
    fn on_hit(&mut self, page: Buffered, write: bool, pages: Pages<'_>) {
        if write {
            self.on_write(self.head_of(page, pages), page.lpn);
        }
    }

    fn on_clean(&mut self, _: Buffered) {}

    fn on_leave(&mut self, page: Buffered, pages: Pages<'_>) {
        let head = self.head_of(page, pages);
        let newer = List::newer(&self.chains.links, head);
        self.list.remove(&mut self.chains.links, head);
        let head = self.chains.leave(page.frame.0, self.chains.block_of(page.lpn), head);
        if head != NONE {
            self.list.enter_below(&mut self.chains.links, head, newer);
            self.chains.set_mark(head, 0);
        }
    }

    fn victim(&mut self, protect: Lpn, pages: Pages<'_>, frames: &mut Vec<FrameId>) -> bool {
        let served = self.chains.block_of(protect);
        let mut head = self.list.oldest;
        if head != NONE && self.chains.block_of(pages.of(head)) == served {
            head = List::newer(&self.chains.links, head);
        }
        if head == NONE {
            return false;
        }
        self.remove(head, pages, frames);
        true
    }

    fn candidates(&self, protect: Lpn, depth: usize, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        let served = self.chains.block_of(protect);
        let heads = self.list.iter_oldest(&self.chains.links);
        let heads = heads.filter(|head| self.chains.block_of(pages.of(*head)) != served);
        frames.extend(heads.map(FrameId).take(depth));
    }

    fn take(&mut self, page: Buffered, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        self.remove(self.head_of(page, pages), pages, frames);
    }

    fn pads(&self, held: u32, of: u32) -> bool {
        match self.padding {
            Padding::Always => true,
            Padding::Half => 2 * held >= of,
            Padding::Never => false,
        }
    }

    #[inline]
    fn prefetch(&self, lpn: Lpn, _: Option<FrameId>, stage: u32, pages: Pages<'_>) {
        self.chains.prefetch(lpn, stage, pages);
    }

    #[inline]
    fn likely_next(&self) -> [u32; LOOKED_AT] {
        self.list.least_recent(&self.chains.links)
    }

    fn table_bytes(&self) -> u64 {
        self.chains.table_bytes()
    }
}
