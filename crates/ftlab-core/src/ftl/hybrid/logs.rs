//! Log blocks of one logical block each, in the order of their last writes.

use crate::access::Access;
use crate::error::FlashResult;
use crate::ftl::hybrid::merge::{DataBlocks, NONE};
use crate::ftl::hybrid::scheme::{ClusteredBlock, Found, Place, Purpose, Shape, Store, View};
use crate::geometry::Lpn;
use crate::recency::{Links, List};

#[derive(Debug, Clone, Copy)]
struct Log {
    block: u32,
    unit: ClusteredBlock,
    /// Its next page.
    next: u32,
    /// Whether it holds the first pages of its block, each once and at its offset.
    is_in_order: bool,
}

/// A pool of log blocks, each of which serves one logical block (BAST).
#[derive(Debug, Clone)]
pub(super) struct LogBlocks {
    pages: u32,
    purpose: Purpose,
    /// Most at a time.
    most: u32,
    /// By logical block: its log.
    of: Vec<u32>,
    logs: Vec<Log>,
    unused: Vec<u32>,
    links: Links,
    recent: List,
}

impl LogBlocks {
    /// An empty pool of at most `most`.
    pub(super) fn new(shape: &Shape, most: u32, purpose: Purpose) -> Self {
        Self {
            pages: shape.pages,
            purpose,
            most,
            of: vec![NONE; shape.logical_blocks() as usize],
            logs: Vec::new(),
            unused: Vec::new(),
            links: Links::default(),
            recent: List::new(),
        }
    }

    /// Whether `block` has a log block.
    #[inline]
    pub(super) fn has(&self, block: u32) -> bool {
        self.of[block as usize] != NONE
    }

    /// Whether another one would be too many.
    pub(super) fn is_full(&self) -> bool {
        self.recent.len >= self.most
    }

    /// The log unit of `block`, with its next page.
    pub(super) fn unit(&self, block: u32) -> Option<(ClusteredBlock, u32)> {
        let log = self.logs.get(self.of[block as usize] as usize)?;
        Some((log.unit, log.next))
    }

    /// Whether the log of `block` takes another page.
    #[inline]
    pub(super) fn has_room(&self, block: u32) -> bool {
        self.logs.get(self.of[block as usize] as usize).is_some_and(|log| log.next < self.pages)
    }

    /// Append what `access` writes to the log of its block, which has room.
    #[inline]
    pub(super) fn append<S: Store>(
        &mut self,
        store: &mut S,
        access: &Access<'_>,
        (block, offset): (u32, u32),
        after: S::Ticket,
    ) -> FlashResult<S::Ticket> {
        let node = self.of[block as usize];
        let log = &mut self.logs[node as usize];
        let to = Place { unit: log.unit, page: log.next };
        log.is_in_order &= log.next == offset;
        log.next += 1;
        self.recent.touch(&mut self.links, node);
        store.write(access, to, after)
    }

    /// The log of `block` goes on at `next`: a row was begun, and all of it is at its offsets or not.
    pub(super) fn take_row(&mut self, block: u32, row: std::ops::Range<u32>, is_in_order: bool) {
        let node = self.of[block as usize];
        let log = &mut self.logs[node as usize];
        log.is_in_order &= is_in_order && log.next == row.start;
        log.next = row.end;
        self.recent.touch(&mut self.links, node);
    }

    /// Take a free unit as the log of `block`.
    pub(super) fn open<S: Store>(
        &mut self,
        store: &mut S,
        block: u32,
        cluster: u32,
    ) -> FlashResult<ClusteredBlock> {
        let unit = store.open(cluster, self.purpose)?;
        self.enter(Log { block, unit, next: 0, is_in_order: true });
        Ok(unit)
    }

    fn enter(&mut self, log: Log) {
        let node = self.unused.pop().unwrap_or(self.logs.len() as u32);
        if node as usize == self.logs.len() {
            self.logs.push(log);
            self.links.reach(node);
        } else {
            self.logs[node as usize] = log;
        }
        self.of[log.block as usize] = node;
        self.recent.enter(&mut self.links, node);
    }

    fn leave(&mut self, block: u32) -> Log {
        let node = std::mem::replace(&mut self.of[block as usize], NONE);
        self.recent.remove(&mut self.links, node);
        self.unused.push(node);
        self.logs[node as usize]
    }

    /// The block whose log was written longest ago, of those in `cluster` if one is given.
    pub(super) fn oldest(&self, cluster: Option<u32>, data: &DataBlocks) -> Option<u32> {
        let mut at = self.recent.oldest;
        while at != crate::recency::NONE {
            let block = self.logs[at as usize].block;
            if cluster.is_none() || data.known_cluster(block) == cluster {
                return Some(block);
            }
            at = List::newer(&self.links, at);
        }
        None
    }

    /// Merge the log of `block` with its data block: by a switch, in part or in full, as its content asks.
    pub(super) fn merge<S: Store>(
        &mut self,
        store: &mut S,
        data: &mut DataBlocks,
        block: u32,
    ) -> FlashResult<S::Ticket> {
        let log = self.leave(block);
        let ready = store.ready();
        let live = store.live(log.unit);
        data.counts.give_up(u32::from(live > 0));
        if live == 0 {
            data.counts.dead += 1;
            return store.erase(log.unit, ready);
        }
        if log.is_in_order {
            return data.promote(store, block, (log.unit, log.next), (None, ready));
        }
        data.rewrite(store, block, &[log.unit], (None, ready))
    }

    /// Erase the log of `block` if nothing in it is live.
    pub(super) fn erase_dead<S: Store>(&mut self, store: &mut S, block: u32) -> FlashResult<()> {
        if let Some((unit, _)) = self.unit(block)
            && store.live(unit) == 0
        {
            self.leave(block);
            let ready = store.ready();
            store.erase(unit, ready)?;
        }
        Ok(())
    }

    /// A mount has found a log of `block`.
    pub(super) fn found(&mut self, block: u32, found: &Found) {
        let Found { unit, filled, is_in_order, .. } = *found;
        self.enter(Log { block, unit, next: filled, is_in_order });
    }

    /// Check that each log holds pages of its own block alone.
    pub(super) fn verify<S: View>(
        &self,
        store: &S,
        claims: &mut dyn FnMut(ClusteredBlock),
    ) -> Result<(), String> {
        for (block, _) in (0..).zip(&self.of) {
            let Some((unit, next)) = self.unit(block) else { continue };
            claims(unit);
            for page in 0..next {
                let held: Option<Lpn> = store.page_at(Place { unit, page });
                if held.is_some_and(|lpn| lpn.0 / self.pages != block) {
                    return Err(format!("page {page} of the log of block {block} belongs to another block"));
                }
            }
        }
        Ok(())
    }

    pub(super) fn table_bytes(&self) -> u64 {
        let logs = self.logs.capacity() * size_of::<Log>() + self.unused.capacity() * 4;
        (4 * self.of.capacity() + logs) as u64 + self.links.table_bytes()
    }
}
