//! Data blocks, and how logs are merged with them: shared by all block-mapped layers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::error::FlashResult;
use crate::ftl::hybrid::scheme::{ClusteredBlock, Homes, Place, Purpose, Shape, Store, View};
use crate::geometry::Lpn;
use crate::metrics::report::Counts;

/// No unit, block or cluster.
pub(crate) const NONE: u32 = u32::MAX;

/// Merges by kind, since the last reset.
///
/// A switch makes a log block the data block. A partial merge fills the log block up from the data block first. A full
/// merge writes the newest version of each page to a free block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MergeCounts {
    /// Log blocks that became data blocks as they were.
    pub switch: u64,
    /// Log blocks that became data blocks after the missing pages were copied there.
    pub partial: u64,
    /// Logical blocks that were written to a free block.
    pub full: u64,
    /// Log blocks in whose place others were needed, and that were erased without a merge, since nothing in them was live. Those
    /// that a trim has emptied are not among them: they are erased at once.
    pub dead: u64,
    /// Pages that were copied. The mark of an end that was trimmed is programmed as well, and is no copy.
    pub pages_copied: u64,
    /// Pages that were rewritten to fill up a row of a clustered block.
    pub pages_padded: u64,
    /// Log blocks that were given up, by a merge or as their pages were moved to another log block; of `fast`, those for
    /// random writes.
    pub victims: u64,
    /// Logical blocks that had live pages in such a log block, on average.
    pub associativity_mean: f64,
    /// Log blocks that there may be, in blocks of one memory: what `ftl.log_blocks` comes to.
    pub log_blocks: u64,
}

impl Counts for MergeCounts {
    const NAME: &'static str = "merges";
}

impl MergeCounts {
    /// A log block is given up in which `blocks` logical blocks have live pages.
    pub(super) fn give_up(&mut self, blocks: u32) {
        let sum = self.associativity_mean * self.victims as f64 + f64::from(blocks);
        self.victims += 1;
        self.associativity_mean = sum / self.victims as f64;
    }
}

/// A page that a merge takes in on its way: what an access writes, and its offset.
pub(super) type Included<'a, 'b> = Option<(&'a Access<'b>, u32)>;

/// The data block of each logical block.
#[derive(Debug, Clone)]
pub(crate) struct DataBlocks {
    shape: Shape,
    /// By logical block.
    units: Vec<u32>,
    /// The cluster of each logical block, where it is chosen; empty where its number says it.
    clusters: Vec<u32>,
    /// Logical blocks of each cluster, where it is chosen.
    in_cluster: Vec<u32>,
    pub(super) counts: MergeCounts,
}

impl DataBlocks {
    /// Those of an erased drive.
    pub(super) fn new(shape: &Shape) -> Self {
        let blocks = shape.logical_blocks() as usize;
        let is_chosen = shape.layout.homes == Homes::Dynamic;
        Self {
            units: vec![NONE; blocks],
            clusters: vec![NONE; if is_chosen { blocks } else { 0 }],
            in_cluster: vec![0; if is_chosen { shape.clusters as usize } else { 0 }],
            counts: MergeCounts::default(),
            shape: *shape,
        }
    }

    /// The logical block of a page, and the offset in it.
    #[inline]
    pub(super) fn split(&self, lpn: Lpn) -> (u32, u32) {
        (lpn.0 / self.shape.pages, lpn.0 % self.shape.pages)
    }

    /// Whether each of these pages of a logical block can be programmed at its offset in the data block.
    pub(super) fn is_free<S: View>(&self, store: &S, block: u32, mut offsets: std::ops::Range<u32>) -> bool {
        self.of(block).is_some_and(|unit| offsets.all(|page| store.is_free(Place { unit, page })))
    }

    fn lpn(&self, block: u32, offset: u32) -> Lpn {
        Lpn(block * self.shape.pages + offset)
    }

    /// The offsets of a logical block.
    fn offsets(&self, block: u32) -> u32 {
        self.shape.pages.min(self.shape.logical_pages - block * self.shape.pages)
    }

    /// The data block, if there is one.
    #[inline]
    pub(super) fn of(&self, block: u32) -> Option<ClusteredBlock> {
        Some(ClusteredBlock(self.units[block as usize])).filter(|unit| unit.0 != NONE)
    }

    pub(super) fn set(&mut self, block: u32, unit: Option<ClusteredBlock>) {
        self.units[block as usize] = unit.map_or(NONE, |unit| unit.0);
    }

    /// The cluster of a logical block, if it is known.
    pub(super) fn known_cluster(&self, block: u32) -> Option<u32> {
        match self.clusters.get(block as usize) {
            None => Some(block % self.shape.clusters),
            Some(cluster) => Some(*cluster).filter(|cluster| *cluster != NONE),
        }
    }

    /// The cluster of a logical block, which is chosen here if it has none.
    pub(super) fn cluster(&mut self, block: u32) -> u32 {
        if let Some(cluster) = self.known_cluster(block) {
            return cluster;
        }
        let fewest = (0..).zip(&self.in_cluster).min_by_key(|(_, blocks)| **blocks);
        let cluster = fewest.map_or(0, |(cluster, _)| cluster);
        self.set_cluster(block, cluster);
        cluster
    }

    fn set_cluster(&mut self, block: u32, cluster: u32) {
        self.clusters[block as usize] = cluster;
        self.in_cluster[cluster as usize] += 1;
    }

    /// A mount has found a unit of `block` in `cluster`.
    pub(super) fn found_cluster(&mut self, block: u32, cluster: u32) {
        if self.known_cluster(block).is_none() {
            self.set_cluster(block, cluster);
        }
    }

    /// Write a page to its offset in the data block, which is opened if there is none. `None` when it cannot be there.
    pub(super) fn write_in_place<S: Store>(
        &self,
        store: &mut S,
        access: &Access<'_>,
        after: S::Ticket,
    ) -> FlashResult<Option<S::Ticket>> {
        let (block, page) = self.split(access.lpn);
        let Some(unit) = self.of(block) else { return Ok(None) };
        let to = Place { unit, page };
        if !store.is_free(to) {
            return Ok(None);
        }
        store.write(access, to, after).map(Some)
    }

    /// Copy the newest versions of the pages of `block` with these offsets to the same offsets of `to`.
    pub(super) fn copy_on<S: Store>(
        &mut self,
        store: &mut S,
        block: u32,
        offsets: std::ops::Range<u32>,
        to: ClusteredBlock,
    ) -> FlashResult<S::Ticket> {
        let mut done = store.ready();
        let ready = done;
        for page in offsets.start..offsets.end.min(self.offsets(block)) {
            let lpn = self.lpn(block, page);
            if store.place(lpn).is_some() {
                let copied = store.copy(lpn, Place { unit: to, page }, ready)?;
                done = store.join(done, copied);
                self.counts.pages_copied += 1;
            }
        }
        Ok(done)
    }

    /// As `copy_on`, with a page on the way that is written and not copied.
    fn copy_with<S: Store>(
        &mut self,
        store: &mut S,
        block: u32,
        from: u32,
        to: ClusteredBlock,
        (included, after): (Included<'_, '_>, S::Ticket),
    ) -> FlashResult<S::Ticket> {
        let Some((access, offset)) = included else {
            return self.copy_on(store, block, from..self.shape.pages, to);
        };
        let before = self.copy_on(store, block, from..offset, to)?;
        let written = store.write(access, Place { unit: to, page: offset }, after)?;
        let behind = self.copy_on(store, block, offset + 1..self.shape.pages, to)?;
        let done = store.join(before, written);
        Ok(store.join(done, behind))
    }

    /// The log `unit` of `block` holds the first `filled` pages in order: it becomes the data block, filled up if need be.
    pub(super) fn promote<S: Store>(
        &mut self,
        store: &mut S,
        block: u32,
        (unit, filled): (ClusteredBlock, u32),
        included: (Included<'_, '_>, S::Ticket),
    ) -> FlashResult<S::Ticket> {
        let old = self.of(block);
        if filled < self.offsets(block) && (old.is_some() || included.0.is_some()) {
            self.counts.partial += 1;
        } else {
            self.counts.switch += 1;
        }
        let copied = self.copy_with(store, block, filled, unit, included)?;
        self.set(block, Some(unit));
        match old {
            Some(old) => store.erase(old, copied),
            None => Ok(copied),
        }
    }

    /// Write the newest version of each page of `block` to a free unit, which becomes the data block. The old one is erased,
    /// and so are its `logs`.
    pub(super) fn rewrite<S: Store>(
        &mut self,
        store: &mut S,
        block: u32,
        logs: &[ClusteredBlock],
        (included, after): (Included<'_, '_>, S::Ticket),
    ) -> FlashResult<S::Ticket> {
        self.counts.full += 1;
        let mut after = after;
        if self.shape.layout.shares_logs {
            for source in self.of(block).iter().chain(logs) {
                store.settle_trims(*source)?;
            }
            let settled = store.ready();
            after = store.join(after, settled);
        }
        let cluster = self.cluster(block);
        let new = store.open(cluster, Purpose::Data)?;
        let copied = self.copy_with(store, block, 0, new, (included, after))?;
        self.replace(store, block, new, logs, copied)
    }

    /// `new` has all of `block`: it is the data block from now on, when that is durable. The old one and the logs are erased.
    pub(super) fn replace<S: Store>(
        &mut self,
        store: &mut S,
        block: u32,
        new: ClusteredBlock,
        logs: &[ClusteredBlock],
        copied: S::Ticket,
    ) -> FlashResult<S::Ticket> {
        let old = self.of(block);
        self.set(block, Some(new));
        let sources = || old.iter().chain(logs).copied();
        let marked = self.mark_end(store, new, sources)?;
        let mut done = store.join(copied, marked);
        for source in sources() {
            done = store.erase(source, done)?;
        }
        Ok(done)
    }

    /// Let a mount see that `new` is complete: of what its `sources` hold, it has everything up to their ends. Trimmed pages
    /// above its own end would look as if they were still to be copied.
    fn mark_end<S: Store, I: Iterator<Item = ClusteredBlock>>(
        &self,
        store: &mut S,
        new: ClusteredBlock,
        sources: impl Fn() -> I,
    ) -> FlashResult<S::Ticket> {
        let mut done = store.ready();
        let pages = self.shape.pages;
        // The highest one of each memory will do: those below are passed over.
        loop {
            let held =
                sources().flat_map(|unit| (0..store.next_page(unit)).map(move |page| Place { unit, page }));
            let lpns = held.filter_map(|place| store.page_at(place));
            let homes = lpns.map(|lpn| Place { unit: new, page: lpn.0 % pages });
            let Some(last) = homes.filter(|home| store.is_free(*home)).max_by_key(|home| home.page) else {
                return Ok(done);
            };
            let marked = store.mark(last)?;
            done = store.join(done, marked);
        }
    }

    /// Erase the data block of `block` if nothing in it is live: a trim has left it so.
    pub(super) fn erase_dead<S: Store>(&mut self, store: &mut S, block: u32) -> FlashResult<()> {
        if let Some(unit) = self.of(block)
            && store.live(unit) == 0
        {
            self.set(block, None);
            let ready = store.ready();
            store.erase(unit, ready)?;
        }
        Ok(())
    }

    /// The data block of `block`, opened if there is none.
    pub(super) fn data_unit<S: Store>(&mut self, store: &mut S, block: u32) -> FlashResult<ClusteredBlock> {
        if let Some(unit) = self.of(block) {
            return Ok(unit);
        }
        let cluster = self.cluster(block);
        let unit = store.open(cluster, Purpose::Data)?;
        self.set(block, Some(unit));
        Ok(unit)
    }

    /// Check that each data block is its own, and holds pages of its logical block at their offsets.
    pub(super) fn verify<S: View>(
        &self,
        store: &S,
        claims: &mut dyn FnMut(ClusteredBlock),
    ) -> Result<(), String> {
        for (block, _) in (0..).zip(&self.units) {
            let Some(unit) = self.of(block) else { continue };
            claims(unit);
            for page in 0..store.next_page(unit) {
                let held = store.page_at(Place { unit, page });
                if held.is_some_and(|lpn| lpn != self.lpn(block, page)) {
                    return Err(format!("page {page} of the data block of block {block} holds another page"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn table_bytes(&self) -> u64 {
        4 * (self.units.capacity() + self.clusters.capacity() + self.in_cluster.capacity()) as u64
    }
}
