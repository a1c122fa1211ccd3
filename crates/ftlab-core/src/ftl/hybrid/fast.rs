//! FAST: log blocks for everybody, and one for a sequence.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::error::{ConfigError, FlashResult, refuse};
use crate::ftl::hybrid::bast::Allocator;
use crate::ftl::hybrid::merge::{DataBlocks, MergeCounts};
use crate::ftl::hybrid::scheme::{
    BlockMapped, ClusteredBlock, Found, Layout, Place, Purpose, Shape, Store, View,
};
use crate::ftl::hybrid::shared::{SharedLogs, logs_of_each};
use crate::geometry::Lpn;
use crate::scheme::{Contrast, Scheme};

/// Log blocks that a memory needs: one for sequences, one for all else.
const LEAST_LOGS: u32 = 2;

/// Keys of FAST.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FastKeys {
    /// Log blocks of the drive, in blocks of one memory; 0 (the default): as many as over-provisioning leaves. Where memories
    /// or clusters share them, they are rounded to what divides evenly: `merges.log_blocks` says how many there are.
    /// Each memory has at least two, one of them for sequences.
    ///
    /// Default: spare blocks serve nothing else in a block-mapped layer.
    pub log_blocks: u32,
    /// Which memory takes a logical block.
    ///
    /// Default: neighbouring logical blocks use different channels, and no table is needed.
    pub allocator: Allocator,
}

/// The log block of a sequence.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    block: u32,
    unit: ClusteredBlock,
    /// Its next page, which is also its length.
    next: u32,
}

/// The logs of one memory.
#[derive(Debug, Clone, Default)]
struct Logs {
    sequence: Option<Sequence>,
    /// Log blocks for pages of any logical block; the last is being filled.
    random: VecDeque<ClusteredBlock>,
}

/// Each memory has a log block for a sequence, which begins with the first page of a logical block. All other pages share
/// its other log blocks. The oldest of these is given up when all are full: every logical block with live pages there is
/// merged in full, after its sequence, if it has one.
#[derive(Debug, Clone)]
pub struct Fast {
    data: DataBlocks,
    logs: Vec<Logs>,
    shared: SharedLogs,
    /// Log blocks of a memory, without the one for sequences.
    random_units: usize,
    pages: u32,
}

impl Scheme for Fast {
    const SUMMARY: &'static str =
        "Block mapping with log blocks that all logical blocks of a memory share, and one for sequences.";
    const SOURCE: &'static str =
        "S.-W. Lee, D.-J. Park, T.-S. Chung, D.-H. Lee, S. Park and H.-J. Song, ACM TECS 6(3), 2007";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast {
            key: "log_blocks",
            value: "2",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
        Contrast {
            key: "allocator",
            value: "\"dynamic\"",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
    ];
    type Keys = FastKeys;
}

impl Fast {
    /// Merge the log block of the sequence, with a page of the same logical block if one is included.
    fn merge_sequence<S: Store>(
        &mut self,
        store: &mut S,
        cluster: u32,
        included: Option<(&Access<'_>, u32, S::Ticket)>,
    ) -> FlashResult<S::Ticket> {
        let ready = store.ready();
        let Some(Sequence { block, unit, next }) = self.logs[cluster as usize].sequence.take() else {
            return Ok(ready);
        };
        let (page, after) = match included {
            Some((access, offset, after)) => (Some((access, offset)), after),
            None => (None, ready),
        };
        let live = store.live(unit);
        if live == 0 && page.is_none() {
            self.data.counts.dead += 1;
            return store.erase(unit, ready);
        }
        if page.is_none_or(|(_, offset)| offset > next) {
            return self.data.promote(store, block, (unit, next), (page, after));
        }
        self.data.rewrite(store, block, &[unit], (page, after))
    }

    /// Let the random logs of `cluster` have room for a page; the unit and its next page.
    fn make_room<S: Store>(
        &mut self,
        store: &mut S,
        cluster: u32,
    ) -> FlashResult<(ClusteredBlock, u32, S::Ticket)> {
        let done = store.ready();
        if let Some(unit) = self.logs[cluster as usize].random.back() {
            let next = store.next_page(*unit);
            if next < self.pages {
                return Ok((*unit, next, done));
            }
        }
        let mut done = done;
        while self.logs[cluster as usize].random.len() >= self.random_units {
            let Some(victim) = self.logs[cluster as usize].random.pop_front() else { break };
            let merged = self.give_up(store, victim)?;
            done = store.join(done, merged);
        }
        let unit = store.open(cluster, Purpose::Log)?;
        self.logs[cluster as usize].random.push_back(unit);
        Ok((unit, 0, done))
    }

    /// Merge every logical block that has live pages in `victim`, and erase that.
    fn give_up<S: Store>(
        &mut self,
        store: &mut S,
        victim: ClusteredBlock,
    ) -> FlashResult<S::Ticket> {
        let blocks = self.shared.blocks_of(store, &self.data, victim);
        self.data.counts.give_up(blocks.len() as u32);
        let ready = store.ready();
        if blocks.is_empty() {
            self.data.counts.dead += 1;
        }
        let mut done = ready;
        for block in &blocks {
            // Since a mount, it may be that of another memory.
            let home = self.data.cluster(*block);
            if self.logs[home as usize].sequence.is_some_and(|sequence| sequence.block == *block) {
                let merged = self.merge_sequence(store, home, None)?;
                done = store.join(done, merged);
            }
            let merged = self.data.rewrite(store, *block, &[], (None, ready))?;
            done = store.join(done, merged);
        }
        self.shared.give_back(blocks);
        store.erase(victim, done)
    }
}

impl BlockMapped for Fast {
    fn check_keys(keys: &FastKeys) -> Result<(), ConfigError> {
        if keys.log_blocks == 1 {
            return refuse(
                "log_blocks",
                1,
                "must be at least 2: one for sequences, one for all else; 0 takes what there is",
            );
        }
        Ok(())
    }

    fn layout(keys: &FastKeys, memories: u32) -> Layout {
        Layout {
            width: 1,
            log_units: logs_of_each(keys.log_blocks, memories, LEAST_LOGS),
            has_logs_in_each: true,
            least_logs: LEAST_LOGS,
            shares_logs: true,
            homes: keys.allocator.homes(),
            // A mount may give a block whose pages are all in logs another memory.
            pages_move: keys.allocator == Allocator::Dynamic,
        }
    }

    fn new(_: &FastKeys, shape: &Shape) -> Self {
        Self {
            data: DataBlocks::new(shape),
            logs: vec![Logs::default(); shape.clusters as usize],
            shared: SharedLogs::new(shape),
            random_units: shape.layout.log_units as usize - 1,
            pages: shape.pages,
        }
    }

    fn write<S: Store>(
        &mut self,
        store: &mut S,
        access: &Access<'_>,
        after: S::Ticket,
    ) -> FlashResult<S::Ticket> {
        let (block, offset) = self.data.split(access.lpn);
        self.data.data_unit(store, block)?;
        if let Some(written) = self.data.write_in_place(store, access, after)? {
            return Ok(written);
        }
        let cluster = self.data.cluster(block);
        let own = self.logs[cluster as usize].sequence.filter(|sequence| sequence.block == block);
        if offset == 0 {
            let merged = self.merge_sequence(store, cluster, None)?;
            let unit = store.open(cluster, Purpose::Sequential)?;
            self.logs[cluster as usize].sequence = Some(Sequence { block, unit, next: 1 });
            let start = store.join(after, merged);
            return store.write(access, Place { unit, page: 0 }, start);
        }
        match own {
            Some(Sequence { unit, next, .. }) if next == offset => {
                self.logs[cluster as usize].sequence = Some(Sequence { block, unit, next: next + 1 });
                store.write(access, Place { unit, page: offset }, after)
            }
            Some(_) => self.merge_sequence(store, cluster, Some((access, offset, after))),
            None => {
                let (unit, page, made) = self.make_room(store, cluster)?;
                let start = store.join(after, made);
                store.write(access, Place { unit, page }, start)
            }
        }
    }

    fn trimmed<S: Store>(&mut self, store: &mut S, lpn: Lpn, _: Place) -> FlashResult<()> {
        let block = self.data.split(lpn).0;
        // Since a mount, it may be with another memory.
        for logs in &mut self.logs {
            let own = logs.sequence.filter(|sequence| sequence.block == block);
            let Some(Sequence { unit, .. }) = own else { continue };
            // A data block that is opened beside a sequence would look like a merge to a mount.
            if store.live(unit) > 0 {
                return Ok(());
            }
            logs.sequence = None;
            let ready = store.ready();
            store.erase(unit, ready)?;
        }
        self.data.erase_dead(store, block)
    }

    fn found<S: Store>(&mut self, store: &mut S, units: &[Found]) -> FlashResult<()> {
        let logs = &mut self.logs;
        SharedLogs::found(store, &mut self.data, units, |cluster, found| {
            let logs = &mut logs[cluster as usize];
            match found {
                (Found { unit, filled, .. }, Some(block)) if logs.sequence.is_none() => {
                    logs.sequence = Some(Sequence { block, unit, next: filled });
                }
                (Found { unit, .. }, _) => logs.random.push_back(unit),
            }
        })
    }

    fn data_unit<S: Store>(&mut self, store: &mut S, block: u32) -> FlashResult<ClusteredBlock> {
        self.data.data_unit(store, block)
    }

    fn cluster_of(&self, lpn: Lpn) -> Option<u32> {
        self.data.known_cluster(self.data.split(lpn).0)
    }

    fn verify<S: View>(&self, store: &S, claims: &mut dyn FnMut(ClusteredBlock)) -> Result<(), String> {
        self.data.verify(store, claims)?;
        for logs in &self.logs {
            logs.random.iter().for_each(|unit| claims(*unit));
            if let Some(sequence) = logs.sequence {
                claims(sequence.unit);
            }
        }
        Ok(())
    }

    fn counts(&self) -> MergeCounts {
        self.data.counts
    }

    fn reset_counts(&mut self) {
        self.data.counts = MergeCounts::default();
    }

    fn table_bytes(&self) -> u64 {
        let logs: usize = self.logs.iter().map(|logs| logs.random.capacity() * 4).sum();
        self.data.table_bytes() + self.shared.table_bytes() + logs as u64
    }
}
