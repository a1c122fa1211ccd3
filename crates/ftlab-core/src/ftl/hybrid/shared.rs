//! Log blocks that hold pages of several logical blocks: what FAST and LAST have in common.

use crate::error::FlashResult;
use crate::ftl::hybrid::merge::DataBlocks;
use crate::ftl::hybrid::scheme::{ClusteredBlock, Found, Place, Purpose, Shape, Store, View};

/// The log units of each memory, for layers with logs of their own in each.
pub(super) fn logs_of_each(log_blocks: u32, memories: u32, least: u32) -> u32 {
    if log_blocks == 0 { 0 } else { (log_blocks / memories.max(1)).max(least) }
}

/// Tells which logical blocks have live pages in a log block.
#[derive(Debug, Clone)]
pub(super) struct SharedLogs {
    pages: u32,
    /// For lists of blocks, which come often.
    list: Vec<u32>,
}

impl SharedLogs {
    pub(super) fn new(shape: &Shape) -> Self {
        Self { pages: shape.pages, list: Vec::with_capacity(shape.pages as usize) }
    }

    /// Logical blocks with live pages in `unit`, in the order of their first ones. To be given back.
    pub(super) fn blocks_of<S: View>(
        &mut self,
        store: &S,
        data: &DataBlocks,
        unit: ClusteredBlock,
    ) -> Vec<u32> {
        let mut list = std::mem::take(&mut self.list);
        list.clear();
        for page in 0..self.pages {
            if let Some(block) = live_block(store, data, Place { unit, page })
                && !list.contains(&block)
            {
                list.push(block);
            }
        }
        list
    }

    pub(super) fn give_back(&mut self, list: Vec<u32>) {
        self.list = list;
    }

    /// Whether `block` has a live page in `unit`.
    pub(super) fn has_live_page<S: View>(
        &self,
        store: &S,
        data: &DataBlocks,
        unit: ClusteredBlock,
        block: u32,
    ) -> bool {
        (0..self.pages).any(|page| live_block(store, data, Place { unit, page }) == Some(block))
    }

    /// A mount has found these units. Data blocks take their places; `log` hears of all others, with the logical block of a
    /// sequence. A sequence that the power has torn is merged at once: it cannot go on.
    pub(super) fn found<S: Store>(
        store: &mut S,
        data: &mut DataBlocks,
        units: &[Found],
        mut log: impl FnMut(u32, (Found, Option<u32>)),
    ) -> FlashResult<()> {
        let per_cluster = store.shape().units_per_cluster;
        let is_data = |found: &&Found| found.purpose == Purpose::Data && found.block.is_some();
        for found in units.iter().filter(is_data) {
            let Some(block) = found.block else { continue };
            data.found_cluster(block, found.unit.0 / per_cluster);
            data.set(block, Some(found.unit));
        }
        for found in units.iter().filter(|found| !is_data(found)) {
            let cluster = found.unit.0 / per_cluster;
            match (found.purpose, found.block) {
                (Purpose::Sequential, Some(block)) => {
                    data.found_cluster(block, cluster);
                    // Alone, it has become the data block.
                    let is_first = data.of(block).is_none();
                    if is_first && found.is_at_home {
                        data.set(block, Some(found.unit));
                    } else if is_first || !found.is_in_order {
                        let ready = store.ready();
                        data.rewrite(store, block, &[found.unit], (None, ready))?;
                    } else {
                        log(cluster, (*found, Some(block)));
                    }
                }
                _ => log(cluster, (*found, None)),
            }
        }
        Ok(())
    }

    pub(super) fn table_bytes(&self) -> u64 {
        4 * self.list.capacity() as u64
    }
}

/// The logical block of the page at `place`, if it is the newest version.
pub(super) fn live_block<S: View>(store: &S, data: &DataBlocks, place: Place) -> Option<u32> {
    let lpn = store.page_at(place)?;
    (store.place(lpn) == Some(place)).then(|| data.split(lpn).0)
}
