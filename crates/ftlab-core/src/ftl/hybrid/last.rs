//! LAST: logs for sequences, and hot and cold logs for all else.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::error::{ConfigError, FlashResult, refuse};
use crate::ftl::hybrid::bast::Allocator;
use crate::ftl::hybrid::logs::LogBlocks;
use crate::ftl::hybrid::merge::{DataBlocks, MergeCounts};
use crate::ftl::hybrid::scheme::{
    BlockMapped, ClusteredBlock, Found, Layout, Place, Purpose, Shape, Store, View,
};
use crate::ftl::hybrid::shared::{SharedLogs, logs_of_each};
use crate::geometry::{Lpn, SECTOR_BYTES};
use crate::quantity;
use crate::scheme::{Contrast, Scheme};

/// Log blocks that a memory needs: one for sequences, one hot, one cold.
const LEAST_LOGS: u32 = 3;

/// Keys of LAST.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LastKeys {
    /// Log blocks of the drive, in blocks of one memory; 0 (the default): as many as over-provisioning leaves. Where memories
    /// or clusters share them, they are rounded to what divides evenly: `merges.log_blocks` says how many there are.
    /// Each memory has at least three: for sequences, hot and cold pages.
    ///
    /// Default: spare blocks serve nothing else in a block-mapped layer.
    pub log_blocks: u32,
    /// Which memory takes a logical block.
    ///
    /// Default: neighbouring logical blocks use different channels, and no table is needed.
    pub allocator: Allocator,
    /// Requests of this size or more are sequences. Whole pages count, as many as a request touches: where a page is as
    /// large as this, all requests are sequences.
    ///
    /// Default: 8 sectors, the threshold with which LAST is described.
    #[serde(deserialize_with = "quantity::bytes")]
    pub sequential_bytes: u64,
    /// Share of the log blocks that takes sequences, above 0 and below 1.
    ///
    /// Default: ours, as no share is published: most of the log serves small writes.
    #[serde(deserialize_with = "quantity::share")]
    pub sequential_share: f64,
}

impl Default for LastKeys {
    fn default() -> Self {
        Self {
            log_blocks: 0,
            allocator: Allocator::default(),
            sequential_bytes: 4096,
            sequential_share: 0.25,
        }
    }
}

/// The random log blocks of one memory, by the partition they are in; the last of each is being filled.
#[derive(Debug, Clone)]
struct Logs {
    hot: VecDeque<ClusteredBlock>,
    cold: VecDeque<ClusteredBlock>,
    /// Log blocks that the hot partition may have.
    most_hot: u32,
    /// Log blocks for sequences in use.
    sequential: u32,
}

/// Requests of `sequential_bytes` and more go to log blocks of one logical block each, as in BAST. All others go to log
/// blocks that all logical blocks of the memory share, in two partitions. A page is hot if it was written within as many
/// random page writes as the hot partition has pages.
///
/// A log block without live pages is erased first. Without one, the oldest hot block moves its live pages to the cold
/// partition when there are too many hot blocks. Otherwise the cold block with pages of the fewest logical blocks is merged.
/// The hot partition grows by a block when a dead block is found, and shrinks by one when none is: our reading of the paper's
/// rule.
#[derive(Debug, Clone)]
pub struct Last {
    data: DataBlocks,
    sequential: LogBlocks,
    logs: Vec<Logs>,
    shared: SharedLogs,
    sequential_bytes: u64,
    sequential_units: u32,
    random_units: u32,
    pages: u32,
    page_bytes: u32,
    /// Random page writes so far.
    now: u32,
    /// By logical page: the number of its last random write, from 1.
    written: Vec<u32>,
}

impl Scheme for Last {
    const SUMMARY: &'static str =
        "Block mapping with log blocks for sequences, and hot and cold log blocks for all else.";
    const SOURCE: &'static str =
        "S. Lee, D. Shin, Y.-J. Kim and J. Kim, ACM SIGOPS Operating Systems Review 42(6), 2008";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast {
            key: "log_blocks",
            value: "3",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
        Contrast {
            key: "allocator",
            value: "\"dynamic\"",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
        Contrast {
            key: "sequential_bytes",
            value: "1048576",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
        Contrast {
            key: "sequential_share",
            value: "0.9",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
    ];
    type Keys = LastKeys;
}

/// Which of the random partitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Partition {
    Hot,
    Cold,
}

impl Logs {
    fn of(&mut self, partition: Partition) -> &mut VecDeque<ClusteredBlock> {
        match partition {
            Partition::Hot => &mut self.hot,
            Partition::Cold => &mut self.cold,
        }
    }

    fn count(&self) -> u32 {
        (self.hot.len() + self.cold.len()) as u32
    }
}

impl Last {
    fn is_hot(&self, lpn: Lpn, most_hot: u32) -> bool {
        let last = self.written[lpn.index()];
        last != 0 && self.now.wrapping_sub(last) <= most_hot * self.pages
    }

    /// The unit of a partition that takes the next page.
    fn with_room<S: View>(
        &mut self,
        store: &S,
        cluster: u32,
        partition: Partition,
    ) -> Option<(ClusteredBlock, u32)> {
        let unit = *self.logs[cluster as usize].of(partition).back()?;
        Some((unit, store.next_page(unit))).filter(|(_, next)| *next < self.pages)
    }

    /// Let a partition of `cluster` have room for a page; the unit and its next page.
    fn make_room<S: Store>(
        &mut self,
        store: &mut S,
        cluster: u32,
        partition: Partition,
    ) -> FlashResult<(ClusteredBlock, u32, S::Ticket)> {
        let mut done = store.ready();
        loop {
            if let Some((unit, next)) = self.with_room(store, cluster, partition) {
                return Ok((unit, next, done));
            }
            let logs = &mut self.logs[cluster as usize];
            let is_beyond = partition == Partition::Hot && logs.hot.len() as u32 >= logs.most_hot;
            if logs.count() < self.random_units && !is_beyond {
                let unit = store.open(cluster, Purpose::Log)?;
                self.logs[cluster as usize].of(partition).push_back(unit);
                return Ok((unit, 0, done));
            }
            let reclaimed = self.reclaim(store, cluster)?;
            done = store.join(done, reclaimed);
        }
    }

    /// Let one log block of `cluster` go.
    fn reclaim<S: Store>(&mut self, store: &mut S, cluster: u32) -> FlashResult<S::Ticket> {
        let most = self.random_units - 1;
        let logs = &mut self.logs[cluster as usize];
        for units in [&mut logs.hot, &mut logs.cold] {
            if let Some(at) = units.iter().position(|unit| store.live(*unit) == 0) {
                let dead = units.remove(at).expect("it was found");
                logs.most_hot = (logs.most_hot + 1).min(most);
                self.data.counts.dead += 1;
                self.data.counts.give_up(0);
                let ready = store.ready();
                return store.erase(dead, ready);
            }
        }
        logs.most_hot = (logs.most_hot - 1).max(1);
        if logs.hot.len() as u32 > logs.most_hot || logs.cold.is_empty() {
            return self.cool(store, cluster);
        }
        let mut fewest: Option<(usize, usize)> = None;
        for at in 0..self.logs[cluster as usize].cold.len() {
            let unit = self.logs[cluster as usize].cold[at];
            let blocks = self.shared.blocks_of(store, &self.data, unit);
            if fewest.is_none_or(|(_, least)| blocks.len() < least) {
                fewest = Some((at, blocks.len()));
            }
            self.shared.give_back(blocks);
        }
        let at = fewest.map_or(0, |(at, _)| at);
        let victim = self.logs[cluster as usize].cold.remove(at).expect("the cold partition has a block");
        self.give_up(store, victim)
    }

    /// Move the live pages of the oldest hot block to the cold partition.
    fn cool<S: Store>(&mut self, store: &mut S, cluster: u32) -> FlashResult<S::Ticket> {
        let mut done = store.ready();
        let ready = done;
        let Some(oldest) = self.logs[cluster as usize].hot.pop_front() else { return Ok(done) };
        let blocks = self.shared.blocks_of(store, &self.data, oldest);
        self.data.counts.give_up(blocks.len() as u32);
        self.shared.give_back(blocks);
        for page in 0..self.pages {
            let place = Place { unit: oldest, page };
            let Some(lpn) = store.page_at(place).filter(|lpn| store.place(*lpn) == Some(place)) else {
                continue;
            };
            let (unit, next) = if let Some(room) = self.with_room(store, cluster, Partition::Cold) {
                room
            } else {
                let unit = store.open(cluster, Purpose::Log)?;
                self.logs[cluster as usize].cold.push_back(unit);
                (unit, 0)
            };
            let copied = store.copy(lpn, Place { unit, page: next }, ready)?;
            self.data.counts.pages_copied += 1;
            done = store.join(done, copied);
        }
        store.erase(oldest, done)
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
        let mut done = ready;
        for block in &blocks {
            if self.sequential.has(*block) {
                // Since a mount, it may be that of another memory.
                let home = self.data.cluster(*block);
                let merged = self.merge_sequence(store, home, *block)?;
                done = store.join(done, merged);
            }
            if self.shared.has_live_page(store, &self.data, victim, *block) {
                let merged = self.data.rewrite(store, *block, &[], (None, ready))?;
                done = store.join(done, merged);
            }
        }
        self.shared.give_back(blocks);
        store.erase(victim, done)
    }

    fn merge_sequence<S: Store>(
        &mut self,
        store: &mut S,
        cluster: u32,
        block: u32,
    ) -> FlashResult<S::Ticket> {
        self.logs[cluster as usize].sequential -= 1;
        self.sequential.merge(store, &mut self.data, block)
    }

    fn write_sequence<S: Store>(
        &mut self,
        store: &mut S,
        access: &Access<'_>,
        (block, offset): (u32, u32),
        after: S::Ticket,
    ) -> FlashResult<S::Ticket> {
        let mut done = after;
        if !self.sequential.has_room(block) {
            let cluster = self.data.cluster(block);
            if self.sequential.has(block) {
                let merged = self.merge_sequence(store, cluster, block)?;
                done = store.join(done, merged);
            }
            while self.logs[cluster as usize].sequential >= self.sequential_units {
                let Some(oldest) = self.sequential.oldest(Some(cluster), &self.data) else { break };
                let merged = self.merge_sequence(store, cluster, oldest)?;
                done = store.join(done, merged);
            }
            self.sequential.open(store, block, cluster)?;
            self.logs[cluster as usize].sequential += 1;
        }
        self.sequential.append(store, access, (block, offset), done)
    }
}

impl BlockMapped for Last {
    fn check_keys(keys: &LastKeys) -> Result<(), ConfigError> {
        if !(keys.sequential_share > 0.0 && keys.sequential_share < 1.0) {
            return refuse("sequential_share", keys.sequential_share, "must be above 0 and below 1");
        }
        if keys.sequential_bytes < u64::from(SECTOR_BYTES) {
            return refuse(
                "sequential_bytes",
                keys.sequential_bytes,
                "must be at least a sector, 512: all requests are sequences then",
            );
        }
        if (1..LEAST_LOGS).contains(&keys.log_blocks) {
            return refuse(
                "log_blocks",
                keys.log_blocks,
                "must be at least 3: for sequences, hot and cold pages; 0 takes what there is",
            );
        }
        Ok(())
    }

    fn layout(keys: &LastKeys, memories: u32) -> Layout {
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

    fn new(keys: &LastKeys, shape: &Shape) -> Self {
        let logs = shape.layout.log_units;
        let share = (f64::from(logs) * keys.sequential_share).round() as u32;
        let sequential_units = share.clamp(1, logs - 2);
        let random_units = logs - sequential_units;
        let most_hot = (random_units / 2).max(1);
        let empty = Logs { hot: VecDeque::new(), cold: VecDeque::new(), most_hot, sequential: 0 };
        Self {
            data: DataBlocks::new(shape),
            sequential: LogBlocks::new(shape, sequential_units * shape.clusters, Purpose::Sequential),
            logs: vec![empty; shape.clusters as usize],
            shared: SharedLogs::new(shape),
            sequential_bytes: keys.sequential_bytes,
            sequential_units,
            random_units,
            pages: shape.pages,
            page_bytes: shape.page_bytes,
            now: 0,
            written: vec![0; shape.logical_pages as usize],
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
        if u64::from(access.group.units) * u64::from(self.page_bytes) >= self.sequential_bytes {
            return self.write_sequence(store, access, (block, offset), after);
        }
        let cluster = self.data.cluster(block);
        let most_hot = self.logs[cluster as usize].most_hot;
        let partition = if self.is_hot(access.lpn, most_hot) { Partition::Hot } else { Partition::Cold };
        self.now = self.now.wrapping_add(1).max(1);
        self.written[access.lpn.index()] = self.now;
        let (unit, page, made) = self.make_room(store, cluster, partition)?;
        let start = store.join(after, made);
        store.write(access, Place { unit, page }, start)
    }

    fn trimmed<S: Store>(&mut self, store: &mut S, lpn: Lpn, _: Place) -> FlashResult<()> {
        let block = self.data.split(lpn).0;
        if let Some((unit, _)) = self.sequential.unit(block)
            && store.live(unit) == 0
        {
            let cluster = self.data.cluster(block);
            self.logs[cluster as usize].sequential -= 1;
            self.sequential.erase_dead(store, block)?;
        }
        // A data block that is opened beside a sequence would look like a merge to a mount.
        if self.sequential.has(block) {
            return Ok(());
        }
        self.data.erase_dead(store, block)
    }

    fn found<S: Store>(&mut self, store: &mut S, units: &[Found]) -> FlashResult<()> {
        let Self { data, sequential, logs, .. } = self;
        SharedLogs::found(store, data, units, |cluster, found| {
            let logs = &mut logs[cluster as usize];
            match found {
                (found, Some(block)) if !sequential.has(block) => {
                    logs.sequential += 1;
                    sequential.found(block, &found);
                }
                (found, _) => logs.cold.push_back(found.unit),
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
        self.sequential.verify(store, claims)?;
        for unit in self.logs.iter().flat_map(|logs| logs.hot.iter().chain(&logs.cold)) {
            claims(*unit);
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
        let logs: usize = self.logs.iter().map(|logs| logs.hot.capacity() + logs.cold.capacity()).sum();
        self.data.table_bytes()
            + self.sequential.table_bytes()
            + self.shared.table_bytes()
            + 4 * (logs + self.written.capacity()) as u64
    }
}
