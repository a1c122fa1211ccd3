//! Block mapping: a table of blocks and no log.

use crate::access::Access;
use crate::error::FlashResult;
use crate::ftl::hybrid::merge::{DataBlocks, MergeCounts, NONE};
use crate::ftl::hybrid::scheme::{
    BlockMapped, ClusteredBlock, Found, Homes, Layout, Place, Purpose, Shape, Store, View,
};
use crate::geometry::Lpn;
use crate::scheme::{NoKeys, Scheme};

/// A logical block that is being written to a new place, until its group ends.
#[derive(Debug, Clone, Copy)]
struct Moving {
    block: u32,
    to: ClusteredBlock,
    /// The next page of the new place.
    next: u32,
    group: u32,
}

/// Each page has its offset in the block of its logical block. What cannot be programmed there is written to a free block,
/// together with copies of all other pages: once for all pages of a request.
#[derive(Debug, Clone)]
pub struct Block {
    data: DataBlocks,
    moving: Option<Moving>,
}

impl Scheme for Block {
    const SUMMARY: &'static str =
        "Block mapping without logs: an overwrite copies its block, once for each request.";
    const SOURCE: &'static str = "A. Ban, US patent 5,404,485 (1995), with block granularity";
    type Keys = NoKeys;
}

impl Block {
    /// Copy what is left of the block under way, and erase its old place.
    fn finish<S: Store>(&mut self, store: &mut S, after: S::Ticket) -> FlashResult<S::Ticket> {
        let Some(moving) = self.moving.take() else { return Ok(after) };
        let copied = self.data.copy_on(store, moving.block, moving.next..u32::MAX, moving.to)?;
        let copied = store.join(after, copied);
        self.data.replace(store, moving.block, moving.to, &[], copied)
    }
}

impl BlockMapped for Block {
    fn layout(_: &NoKeys, _: u32) -> Layout {
        Layout {
            width: 1,
            log_units: 0,
            has_logs_in_each: false,
            least_logs: 0,
            shares_logs: false,
            homes: Homes::Static,
            pages_move: false,
        }
    }

    fn new(_: &NoKeys, shape: &Shape) -> Self {
        Self { data: DataBlocks::new(shape), moving: None }
    }

    fn write<S: Store>(
        &mut self,
        store: &mut S,
        access: &Access<'_>,
        after: S::Ticket,
    ) -> FlashResult<S::Ticket> {
        let (block, page) = self.data.split(access.lpn);
        let goes_on =
            |moving: &Moving| moving.block == block && moving.group == access.group.id && moving.next <= page;
        let mut done = store.ready();
        if self.moving.is_some_and(|moving| !goes_on(&moving)) {
            done = self.finish(store, done)?;
        }
        if self.moving.is_none() {
            self.data.data_unit(store, block)?;
            if let Some(written) = self.data.write_in_place(store, access, after)? {
                return Ok(store.join(done, written));
            }
            self.data.counts.full += 1;
            let cluster = self.data.cluster(block);
            let to = store.open(cluster, Purpose::Data)?;
            self.moving = Some(Moving { block, to, next: 0, group: access.group.id });
        }
        if let Some(Moving { to, next, .. }) = self.moving {
            let copied = self.data.copy_on(store, block, next..page, to)?;
            let written = store.write(access, Place { unit: to, page }, after)?;
            let mut placed = store.join(copied, written);
            self.moving = Some(Moving { block, to, next: page + 1, group: access.group.id });
            if access.rest == 0 {
                placed = self.finish(store, placed)?;
            }
            done = store.join(done, placed);
        }
        Ok(done)
    }

    fn trimmed<S: Store>(&mut self, store: &mut S, lpn: Lpn, _: Place) -> FlashResult<()> {
        self.data.erase_dead(store, self.data.split(lpn).0)
    }

    fn end_group<S: Store>(&mut self, store: &mut S, after: S::Ticket) -> FlashResult<S::Ticket> {
        self.finish(store, after)
    }

    fn found<S: Store>(&mut self, _: &mut S, units: &[Found]) -> FlashResult<()> {
        for found in units {
            if let Some(block) = found.block {
                self.data.set(block, Some(found.unit));
            }
        }
        Ok(())
    }

    fn data_unit<S: Store>(&mut self, store: &mut S, block: u32) -> FlashResult<ClusteredBlock> {
        self.data.data_unit(store, block)
    }

    fn cluster_of(&self, lpn: Lpn) -> Option<u32> {
        self.data.known_cluster(self.data.split(lpn).0)
    }

    fn verify<S: View>(&self, store: &S, claims: &mut dyn FnMut(ClusteredBlock)) -> Result<(), String> {
        debug_assert!(self.moving.is_none_or(|moving| moving.to.0 != NONE));
        self.data.verify(store, claims)
    }

    fn counts(&self) -> MergeCounts {
        self.data.counts
    }

    fn reset_counts(&mut self) {
        self.data.counts = MergeCounts::default();
    }

    fn table_bytes(&self) -> u64 {
        self.data.table_bytes()
    }
}
