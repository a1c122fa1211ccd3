//! Log blocks that serve one logical block each, over blocks of one memory or clustered blocks: what BAST, SubGroup and
//! MCsplit have in common.

use std::marker::PhantomData;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::error::{ConfigError, FlashResult};
use crate::ftl::hybrid::logs::LogBlocks;
use crate::ftl::hybrid::merge::{DataBlocks, MergeCounts};
use crate::ftl::hybrid::scheme::{
    BlockMapped, ClusteredBlock, Found, Homes, Layout, Place, Purpose, Shape, Store, View,
};
use crate::geometry::Lpn;
use crate::scheme::{Contrast, Scheme};

/// What layers with log blocks of one logical block differ in.
pub trait Exclusive: Scheme + Clone + Send + 'static {
    /// As [`BlockMapped::check_keys`].
    ///
    /// # Errors
    /// The first value beyond its limits.
    fn check_keys(keys: &Self::Keys) -> Result<(), ConfigError> {
        let _ = keys;
        Ok(())
    }

    /// How it cuts up a drive of so many memories.
    fn layout(keys: &Self::Keys, memories: u32) -> Layout;

    /// What is done with the rest of a row, where blocks are clustered.
    fn partial_row(keys: &Self::Keys) -> PartialRow;

    /// Whether pages go to log blocks even where the data block has room.
    fn log_always(keys: &Self::Keys) -> bool {
        let _ = keys;
        false
    }
}

/// What is done with the rest of a row of a clustered log block of which only some pages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PartialRow {
    /// It is read where it is and written again: rows are the unit of writing.
    #[default]
    Pad,
    /// The next pages that are written take it.
    Fill,
}

/// The layout over clusters of `width` memories, with as many bytes of logs as `log_blocks` single blocks have.
pub(super) fn clustered(width: u32, log_blocks: u32, rows: PartialRow) -> Layout {
    let width = width.max(1);
    Layout {
        width,
        log_units: if log_blocks == 0 { 0 } else { (log_blocks / width).max(1) },
        has_logs_in_each: false,
        least_logs: 1,
        shares_logs: false,
        homes: Homes::Static,
        pages_move: width > 1 && rows == PartialRow::Fill,
    }
}

/// A row of a log block that is being written.
#[derive(Debug, Clone, Default)]
struct Row {
    is_open: bool,
    block: u32,
    unit: u32,
    /// First page of the row, in the log block and in the logical block.
    at: u32,
    offset: u32,
    group: u32,
    is_written: Vec<bool>,
}

/// The layer, for the rule `R`.
///
/// Each log block serves one logical block, which has one at most. A full log block is merged when the next write finds it
/// full. Where all are taken, the one that was written longest ago is merged. All blocks of a logical block are in one
/// memory, so merges copy inside it; or in the same cluster of memories, if blocks are clustered.
#[derive(Debug, Clone)]
pub struct WithExclusiveLogs<R> {
    width: u32,
    rows: PartialRow,
    log_always: bool,
    data: DataBlocks,
    logs: LogBlocks,
    row: Row,
    rule: PhantomData<R>,
}

impl<R: Exclusive> Scheme for WithExclusiveLogs<R> {
    const SUMMARY: &'static str = R::SUMMARY;
    const SOURCE: &'static str = R::SOURCE;
    const CONTRASTS: &'static [Contrast] = R::CONTRASTS;
    type Keys = R::Keys;
}

impl<R: Exclusive> WithExclusiveLogs<R> {
    fn has_rows(&self) -> bool {
        self.width > 1 && self.rows == PartialRow::Pad
    }

    /// Whether a page can stand at its offset in the data block, and so can those of its row that may follow it in the same
    /// group. Otherwise the row would be divided, and its first pages written once more to fill it up.
    fn stays_in_place<S: View>(&self, store: &S, (block, offset): (u32, u32), rest: u32) -> bool {
        let columns = if self.has_rows() { self.width - offset % self.width } else { 1 };
        self.data.is_free(store, block, offset..offset + columns.min(rest + 1))
    }

    /// Let `cluster` have a unit besides the one for merges.
    fn make_room<S: Store>(&mut self, store: &mut S, cluster: u32) -> FlashResult<S::Ticket> {
        let mut done = store.ready();
        while store.free_units(cluster) <= 1 {
            let Some(block) = self.logs.oldest(Some(cluster), &self.data) else { break };
            let merged = self.logs.merge(store, &mut self.data, block)?;
            done = store.join(done, merged);
        }
        Ok(done)
    }

    /// Let `block` have a log block with room. Returns when what that took has ended.
    fn make_log<S: Store>(&mut self, store: &mut S, block: u32) -> FlashResult<S::Ticket> {
        let mut done = store.ready();
        if self.logs.has_room(block) {
            return Ok(done);
        }
        if self.logs.has(block) {
            done = self.logs.merge(store, &mut self.data, block)?;
        }
        while self.logs.is_full() {
            let Some(oldest) = self.logs.oldest(None, &self.data) else { break };
            let merged = self.logs.merge(store, &mut self.data, oldest)?;
            done = store.join(done, merged);
        }
        let cluster = self.data.cluster(block);
        let room = self.make_room(store, cluster)?;
        let unit = self.logs.open(store, block, cluster)?;
        done = store.join(done, room);
        store.hold(unit, done);
        Ok(done)
    }

    /// Write again what is missing of the row under way.
    fn end_row<S: Store>(&mut self, store: &mut S, access: &Access<'_>) -> FlashResult<S::Ticket> {
        let mut done = store.ready();
        let ready = done;
        if !std::mem::take(&mut self.row.is_open) {
            return Ok(done);
        }
        let first = self.row.block * store.shape().pages + self.row.offset;
        let logical = store.shape().logical_pages;
        for column in 0..self.width {
            let lpn = Lpn(first + column);
            if self.row.is_written[column as usize] || lpn.0 >= logical || store.place(lpn).is_none() {
                continue;
            }
            let to = Place { unit: ClusteredBlock(self.row.unit), page: self.row.at + column };
            let padded = store.pad(access, lpn, to, ready)?;
            self.data.counts.pages_padded += 1;
            done = store.join(done, padded);
        }
        Ok(done)
    }

    fn write_row<S: Store>(
        &mut self,
        store: &mut S,
        access: &Access<'_>,
        (block, offset): (u32, u32),
        after: S::Ticket,
    ) -> FlashResult<S::Ticket> {
        let column = offset % self.width;
        let row = offset - column;
        if !self.row.is_open {
            let (unit, at) = self.logs.unit(block).expect("a log was opened");
            self.logs.take_row(block, at..at + self.width, at == row);
            self.row.is_written.clear();
            self.row.is_written.resize(self.width as usize, false);
            let is_written = std::mem::take(&mut self.row.is_written);
            let group = access.group.id;
            self.row = Row { is_open: true, block, unit: unit.0, at, offset: row, group, is_written };
        }
        self.row.is_written[column as usize] = true;
        let to = Place { unit: ClusteredBlock(self.row.unit), page: self.row.at + column };
        store.write(access, to, after)
    }
}

impl<R: Exclusive> BlockMapped for WithExclusiveLogs<R> {
    fn check_keys(keys: &R::Keys) -> Result<(), ConfigError> {
        R::check_keys(keys)
    }

    fn layout(keys: &R::Keys, memories: u32) -> Layout {
        R::layout(keys, memories)
    }

    fn new(keys: &R::Keys, shape: &Shape) -> Self {
        Self {
            width: shape.layout.width,
            rows: R::partial_row(keys),
            log_always: R::log_always(keys),
            data: DataBlocks::new(shape),
            logs: LogBlocks::new(shape, shape.layout.log_units, Purpose::Log),
            row: Row::default(),
            rule: PhantomData,
        }
    }

    fn write<S: Store>(
        &mut self,
        store: &mut S,
        access: &Access<'_>,
        after: S::Ticket,
    ) -> FlashResult<S::Ticket> {
        let (block, offset) = self.data.split(access.lpn);
        let mut done = store.ready();
        if self.row.is_open {
            let Row { block: open, offset: first, group, .. } = self.row;
            let goes_on = open == block
                && group == access.group.id
                && (first..first + self.width).contains(&offset)
                && !self.row.is_written[(offset - first) as usize];
            if !goes_on {
                done = self.end_row(store, access)?;
            }
        }
        // The write that a merge makes room for waits for it; nothing waits for the padding of another row.
        let mut start = after;
        if !self.row.is_open && !self.logs.has(block) && !self.log_always {
            if self.data.of(block).is_none() {
                let cluster = self.data.cluster(block);
                let room = self.make_room(store, cluster)?;
                let unit = self.data.data_unit(store, block)?;
                store.hold(unit, room);
                start = store.join(start, room);
            }
            if self.stays_in_place(store, (block, offset), access.rest)
                && let Some(written) = self.data.write_in_place(store, access, start)?
            {
                return Ok(store.join(done, written));
            }
        }
        if !self.row.is_open {
            let room = self.make_log(store, block)?;
            start = store.join(start, room);
        }
        if !self.has_rows() {
            return self.logs.append(store, access, (block, offset), start);
        }
        let written = self.write_row(store, access, (block, offset), start)?;
        done = store.join(done, written);
        if access.rest == 0 {
            let padded = self.end_row(store, access)?;
            done = store.join(done, padded);
        }
        Ok(done)
    }

    fn trimmed<S: Store>(&mut self, store: &mut S, lpn: Lpn, _: Place) -> FlashResult<()> {
        let block = self.data.split(lpn).0;
        self.logs.erase_dead(store, block)?;
        self.data.erase_dead(store, block)
    }

    fn end_group<S: Store>(&mut self, store: &mut S, after: S::Ticket) -> FlashResult<S::Ticket> {
        let context = Access::span(Lpn(0), 1, 0, 0);
        let done = self.end_row(store, &context)?;
        Ok(store.join(after, done))
    }

    fn found<S: Store>(&mut self, store: &mut S, units: &[Found]) -> FlashResult<()> {
        let units = by_block(units);
        for of_block in units.chunk_by(|one, other| one.block == other.block) {
            let Some(block) = of_block[0].block else { continue };
            for found in of_block {
                self.data.found_cluster(block, found.unit.0 / store.shape().units_per_cluster);
            }
            match of_block {
                [one] if one.is_at_home => {
                    self.data.set(block, Some(one.unit));
                }
                [one] => self.logs.found(block, one),
                // The log may have been opened before the block that a merge has made.
                [log, data] if data.purpose == Purpose::Data => {
                    self.data.set(block, Some(data.unit));
                    self.logs.found(block, log);
                }
                [data, log] if data.is_at_home => {
                    self.data.set(block, Some(data.unit));
                    self.logs.found(block, log);
                }
                // What was to be erased has pages again that were trimmed.
                others => {
                    let logs: Vec<ClusteredBlock> = others.iter().map(|found| found.unit).collect();
                    let ready = store.ready();
                    self.data.rewrite(store, block, &logs, (None, ready))?;
                }
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
        self.data.verify(store, claims)?;
        self.logs.verify(store, claims)
    }

    fn counts(&self) -> MergeCounts {
        self.data.counts
    }

    fn reset_counts(&mut self) {
        self.data.counts = MergeCounts::default();
    }

    fn table_bytes(&self) -> u64 {
        self.data.table_bytes() + self.logs.table_bytes()
    }
}

/// By block, then in the order of opening: the sort is stable. Apart from the layer, or it would be compiled for each drive.
fn by_block(units: &[Found]) -> Vec<&Found> {
    let mut units: Vec<&Found> = units.iter().filter(|found| found.block.is_some()).collect();
    units.sort_by_key(|found| found.block);
    units
}
