//! CLC: clusters by recency while they are young, and by size when they are cold.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::block_chains::BlockChains;
use crate::buffer::order::{BufferOrder, Buffered, FrameId, LOOKED_AT, Pages, Shape, VictimUnit};
use crate::buffer::size_lists::SizeLists;
use crate::error::{ConfigError, refuse};
use crate::geometry::Lpn;
use crate::quantity;
use crate::recency::{List, NONE};
use crate::scheme::{Contrast, Scheme};

/// A *cluster* is the buffered pages of a block. Recent clusters stand in one list by recency, whatever their size; the
/// others in a list for each size. A cluster that is new or hit becomes the most recent. What the list of the recent has too
/// much goes over to the list of its size. The largest of those leaves, of equals the one that came there first. Where
/// there are none, the least recent leaves. What a read missed is not kept: the paper buffers writes, in NVRAM.
///
/// Ours to say: the share of the recent is one of the clusters that are buffered, rounded up. It is looked at when a cluster
/// is new or hit, and not between the victims of one event. A read of a page that has a frame is a hit. A cluster that a
/// trim made smaller is the last of its new size.
#[derive(Debug, Clone)]
pub struct Clc {
    /// The mark of a block is `RECENT` or 0.
    chains: BlockChains,
    recent: List,
    sizes: SizeLists,
    share_millionths: u64,
}

const RECENT: u32 = 1;
const MILLION: u64 = 1_000_000;

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClcKeys {
    /// Share of the buffered clusters that are ordered by recency alone, from 0 (largest first) to 1 (recency), in millionths.
    /// It is looked at when a block is new or hit, and not between the victims of one eviction.
    ///
    /// Default: a tenth, with which CLC is described, as a value to tune.
    #[serde(deserialize_with = "quantity::share")]
    pub recent: f64,
}

impl Default for ClcKeys {
    fn default() -> Self {
        Self { recent: 0.1 }
    }
}

impl Clc {
    #[inline]
    fn head_of(&self, page: Buffered, pages: Pages<'_>) -> u32 {
        self.chains.head(self.chains.block_of(page.lpn), |frame| pages.of(frame))
    }

    /// Take the cluster of `head` out of its list.
    #[inline]
    fn unlist(&mut self, head: u32) {
        if self.chains.mark(head) == RECENT {
            self.recent.remove(&mut self.chains.links, head);
        } else {
            self.sizes.remove(&mut self.chains, head);
        }
    }

    /// Enter the cluster of `head`, which is in no list, among the recent ones.
    #[inline]
    fn enter_recent(&mut self, head: u32) {
        self.chains.set_mark(head, RECENT);
        self.recent.enter(&mut self.chains.links, head);
        let most = (u64::from(self.chains.blocks) * self.share_millionths).div_ceil(MILLION);
        while u64::from(self.recent.len) > most {
            let cold = self.recent.oldest;
            self.recent.remove(&mut self.chains.links, cold);
            self.chains.set_mark(cold, 0);
            self.sizes.enter(&mut self.chains, cold);
        }
    }

    fn remove(&mut self, head: u32, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
        self.unlist(head);
        let block = self.chains.block_of(pages.of(head));
        self.chains.forget(block, head, |frame| frames.push(FrameId(frame)));
    }

    /// All clusters, the next victim first.
    fn heads(&self) -> impl Iterator<Item = u32> {
        let lists = self.sizes.largest_first().chain(std::iter::once(&self.recent));
        lists.flat_map(|list| list.iter_oldest(&self.chains.links))
    }

    /// The victims to come.
    fn others(&self, protect: Lpn, pages: Pages<'_>) -> impl Iterator<Item = u32> {
        let served = self.chains.block_of(protect);
        self.heads().filter(move |head| self.chains.block_of(pages.of(*head)) != served)
    }
}

impl Scheme for Clc {
    const SUMMARY: &'static str = "The block with the most buffered pages among those that are not of the `recent` share; without \
        them the least recent block. Buffers writes only.";
    const SOURCE: &'static str = "S. Kang et al., IEEE Transactions on Computers 58(6), 2009";
    const CONTRASTS: &'static [Contrast] =
        &[Contrast { key: "recent", value: "0.9", with: &["buffer.kind=\"clc\"", "buffer.bytes=131072"] }];
    type Keys = ClcKeys;
}

impl BufferOrder for Clc {
    const UNIT: VictimUnit = VictimUnit::Block;

    fn new(keys: &ClcKeys, shape: &Shape) -> Self {
        Self {
            chains: BlockChains::new(shape, shape.frames),
            recent: List::new(),
            sizes: SizeLists::new(shape.units_per_block, shape.frames),
            share_millionths: (keys.recent * MILLION as f64).round() as u64,
        }
    }

    fn check_keys(keys: &ClcKeys) -> Result<(), ConfigError> {
        if !(0.0..=1.0).contains(&keys.recent) {
            return refuse("recent", keys.recent, "must be from 0 to 1: a share of the buffered clusters");
        }
        Ok(())
    }

    fn keeps_reads(_: &ClcKeys) -> bool {
        false
    }

    #[inline]
    fn on_insert(&mut self, page: Buffered, _: bool, pages: Pages<'_>) {
        let (head, frame) = (self.head_of(page, pages), page.frame.0);
        if head == NONE {
            self.chains.enter_first(frame, self.chains.block_of(page.lpn));
            return self.enter_recent(frame);
        }
        self.unlist(head);
        self.chains.enter(frame, head);
        self.enter_recent(head);
    }

    #[inline]
    fn on_hit(&mut self, page: Buffered, _: bool, pages: Pages<'_>) {
        let head = self.head_of(page, pages);
        self.unlist(head);
        self.enter_recent(head);
    }

    fn on_clean(&mut self, _: Buffered) {}

    fn on_leave(&mut self, page: Buffered, pages: Pages<'_>) {
        let head = self.head_of(page, pages);
        let newer = List::newer(&self.chains.links, head);
        self.unlist(head);
        let head = self.chains.leave(page.frame.0, self.chains.block_of(page.lpn), head);
        if head != NONE && self.chains.mark(head) == RECENT {
            self.recent.enter_below(&mut self.chains.links, head, newer);
        } else if head != NONE {
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
