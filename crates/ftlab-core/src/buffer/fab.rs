//! FAB: the block with the most buffered pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::block_chains::BlockChains;
use crate::buffer::order::{BufferOrder, Buffered, FrameId, LOOKED_AT, Pages, Shape, VictimUnit};
use crate::buffer::size_lists::SizeLists;
use crate::geometry::Lpn;
use crate::recency::{List, NONE};
use crate::scheme::{Contrast, Scheme};

/// The block with the most buffered pages leaves with all of them: it needs the fewest copies, and frees the most frames.
/// What a read missed is not kept. A block is accessed by every write, and by every read of a page that has
/// a frame.
///
/// Ours to say: of a block that lost a page to a trim, the trim is an access too.
#[derive(Debug, Clone)]
pub struct Fab {
    chains: BlockChains,
    sizes: SizeLists,
    tie: BlockTie,
}

/// Which of the blocks with the most buffered pages leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BlockTie {
    /// The least recently accessed one. A trim of one of its pages is an access, too.
    #[default]
    LeastRecent,
    /// The most recently accessed one, as in the public code.
    MostRecent,
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FabKeys {
    /// Which of the blocks with the most buffered pages leaves.
    ///
    /// Default: the least recent, as FAB is described; the public code takes the most recent.
    pub tie: BlockTie,
}

impl Fab {
    #[inline]
    fn head_of(&self, page: Buffered, pages: Pages<'_>) -> u32 {
        self.chains.head(self.chains.block_of(page.lpn), |frame| pages.of(frame))
    }

    fn remove(&mut self, head: u32, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        self.sizes.remove(&mut self.chains, head);
        let block = self.chains.block_of(pages.of(head));
        self.chains.forget(block, head, |frame| frames.push(FrameId(frame)));
    }

    /// All blocks, the next victim first.
    fn heads(&self) -> impl Iterator<Item = u32> {
        let links = &self.chains.links;
        let in_list = move |list: &List| {
            let mut next = if self.tie == BlockTie::LeastRecent { list.oldest } else { list.newest };
            std::iter::from_fn(move || {
                let head = next;
                (head != NONE).then(|| {
                    let is_upward = self.tie == BlockTie::LeastRecent;
                    next = if is_upward { List::newer(links, head) } else { List::older(links, head) };
                    head
                })
            })
        };
        self.sizes.largest_first().flat_map(in_list)
    }

    /// The victims to come.
    fn others(&self, protect: Lpn, pages: Pages<'_>) -> impl Iterator<Item = u32> {
        let served = self.chains.block_of(protect);
        self.heads().filter(move |head| self.chains.block_of(pages.of(*head)) != served)
    }
}

impl Scheme for Fab {
    const SUMMARY: &'static str =
        "The block with the most buffered pages; ties by `tie`. Buffers writes only.";
    const SOURCE: &'static str = "H. Jo et al., IEEE Transactions on Consumer Electronics 52(2), 2006";
    const CONTRASTS: &'static [Contrast] = &[Contrast {
        key: "tie",
        value: "\"most_recent\"",
        with: &["buffer.kind=\"fab\"", "buffer.bytes=131072"],
    }];
    type Keys = FabKeys;
}

impl BufferOrder for Fab {
    const UNIT: VictimUnit = VictimUnit::Block;

    fn new(keys: &FabKeys, shape: &Shape) -> Self {
        let sizes = SizeLists::new(shape.units_per_block, shape.frames);
        Self { chains: BlockChains::new(shape, shape.frames), sizes, tie: keys.tie }
    }

    fn keeps_reads(_: &FabKeys) -> bool {
        false
    }

    #[inline]
    fn on_insert(&mut self, page: Buffered, _: bool, pages: Pages<'_>) {
        let (head, frame) = (self.head_of(page, pages), page.frame.0);
        if head == NONE {
            self.chains.enter_first(frame, self.chains.block_of(page.lpn));
            return self.sizes.enter(&mut self.chains, frame);
        }
        self.sizes.remove(&mut self.chains, head);
        self.chains.enter(frame, head);
        self.sizes.enter(&mut self.chains, head);
    }

    #[inline]
    fn on_hit(&mut self, page: Buffered, _: bool, pages: Pages<'_>) {
        let head = self.head_of(page, pages);
        self.sizes.touch(&mut self.chains, head);
    }

    fn on_clean(&mut self, _: Buffered) {}

    fn on_leave(&mut self, page: Buffered, pages: Pages<'_>) {
        let head = self.head_of(page, pages);
        self.sizes.remove(&mut self.chains, head);
        let head = self.chains.leave(page.frame.0, self.chains.block_of(page.lpn), head);
        if head != NONE {
            self.sizes.enter(&mut self.chains, head);
        }
    }

    fn victim(&mut self, protect: Lpn, pages: Pages<'_>, frames: &mut Vec<FrameId>) -> bool {
        let Some(head) = self.others(protect, pages).next() else { return false };
        self.remove(head, pages, frames);
        true
    }

    fn candidates(&self, protect: Lpn, depth: usize, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        frames.extend(self.others(protect, pages).map(FrameId).take(depth));
    }

    fn take(&mut self, page: Buffered, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        self.remove(self.head_of(page, pages), pages, frames);
    }

    #[inline]
    fn prefetch(&self, lpn: Lpn, _: Option<FrameId>, stage: u32, pages: Pages<'_>) {
        self.chains.prefetch(lpn, stage, pages);
    }

    #[inline]
    fn likely_next(&self) -> [u32; LOOKED_AT] {
        let mut heads = self.heads();
        std::array::from_fn(|_| heads.next().unwrap_or(NONE))
    }

    fn table_bytes(&self) -> u64 {
        self.chains.table_bytes() + self.sizes.table_bytes()
    }
}
