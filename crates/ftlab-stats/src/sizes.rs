//! Sizes and alignment of requests.

use std::collections::BTreeMap;

use ftlab_core::host::request::{Request, SECTOR_BYTES};
use serde::Serialize;

use super::pages::NumberMap;
use super::{has_address, ratio};

const SECTOR: u64 = SECTOR_BYTES as u64;
const PAGE_SECTORS: u64 = 4096 / SECTOR;
/// Sizes that are listed one by one.
const COMMON_SIZES: usize = 10;
/// Sizes below 1 MiB are counted in a table.
const SMALL_SECTORS: usize = 2048;
/// Alignments are told apart up to 1 MiB.
const ALIGNMENTS: usize = 12;

/// Requests by size and operation, where they lie, and what their begin is a multiple of.
#[derive(Debug)]
pub(super) struct Sizes {
    ops: [u64; 4],
    lowest: u64,
    highest: u64,
    small: Vec<[u64; 3]>,
    large: NumberMap<u32, [u64; 3]>,
    sectors: [u64; 3],
    starts: [u64; ALIGNMENTS],
    whole: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            ops: [0; 4],
            lowest: u64::MAX,
            highest: 0,
            small: vec![[0; 3]; SMALL_SECTORS],
            large: NumberMap::default(),
            sectors: [0; 3],
            starts: [0; ALIGNMENTS],
            whole: 0,
        }
    }
}

impl Sizes {
    /// Take requests.
    pub(super) fn add(&mut self, requests: &[Request]) {
        for request in requests {
            self.ops[request.op as usize] += 1;
            if has_address(request) {
                self.add_addressed(request);
            }
        }
    }

    #[inline(always)]
    fn add_addressed(&mut self, request: &Request) {
        let Request { lba, sectors, op, .. } = *request;
        self.lowest = self.lowest.min(lba);
        self.highest = self.highest.max(lba.saturating_add(u64::from(sectors)));
        let kind = op as usize;
        match self.small.get_mut(sectors as usize) {
            Some(counts) => counts[kind] += 1,
            None => self.large.entry(sectors).or_default()[kind] += 1,
        }
        self.sectors[kind] += u64::from(sectors);
        self.starts[(lba.trailing_zeros() as usize).min(ALIGNMENTS - 1)] += 1;
        self.whole += u64::from((lba | u64::from(sectors)).is_multiple_of(PAGE_SECTORS));
    }

    /// Reads, writes, trims and flushes.
    pub(super) fn ops(&self) -> [u64; 4] {
        self.ops
    }

    /// The first sector of any request, and the first behind all of them.
    pub(super) fn range(&self) -> Option<(u64, u64)> {
        (self.addressed() > 0).then_some((self.lowest, self.highest))
    }

    /// Bytes of reads, writes and trims.
    pub(super) fn bytes(&self) -> [u64; 3] {
        self.sectors.map(|sectors| sectors * SECTOR)
    }

    pub(super) fn addressed(&self) -> u64 {
        self.starts.iter().sum()
    }

    /// Share of requests that begin and end at multiples of 4 KiB.
    pub(super) fn aligned_4k_fraction(&self) -> Option<f64> {
        ratio(self.whole, self.addressed())
    }

    /// Share of requests that begin at multiples of 4 KiB.
    pub(super) fn aligned_start_4k_fraction(&self) -> Option<f64> {
        let pages = PAGE_SECTORS.trailing_zeros() as usize;
        ratio(self.starts[pages..].iter().sum(), self.addressed())
    }

    pub(super) fn alignment(&self) -> Vec<AlignmentRow> {
        let row =
            |(power, requests): (usize, &u64)| AlignmentRow { bytes: SECTOR << power, requests: *requests };
        self.starts.iter().enumerate().filter(|(_, requests)| **requests > 0).map(row).collect()
    }

    /// Every size, ascending.
    fn rows(&self) -> Vec<SizeRow> {
        let small = self.small.iter().enumerate().map(|(sectors, counts)| (sectors as u64, *counts));
        let mut sizes: Vec<(u64, [u64; 3])> = small.filter(|(_, counts)| *counts != [0; 3]).collect();
        sizes.extend(self.large.iter().map(|(sectors, counts)| (u64::from(*sectors), *counts)));
        sizes.sort_unstable();
        let row = |(sectors, [reads, writes, trims]): (u64, [u64; 3])| SizeRow {
            min_bytes: sectors * SECTOR,
            max_bytes: sectors * SECTOR,
            reads,
            writes,
            trims,
        };
        sizes.into_iter().map(row).collect()
    }

    pub(super) fn histogram(&self) -> Vec<SizeRow> {
        let mut histogram = BTreeMap::new();
        for row in self.rows() {
            let max_bytes = row.max_bytes.next_power_of_two();
            let min_bytes = if max_bytes == SECTOR { max_bytes } else { max_bytes / 2 + 1 };
            let empty = SizeRow { min_bytes, max_bytes, ..SizeRow::default() };
            histogram.entry(max_bytes).or_insert(empty).add(&row);
        }
        histogram.into_values().collect()
    }

    pub(super) fn common(&self) -> Vec<SizeRow> {
        let mut rows = self.rows();
        rows.sort_by(|a, b| b.total().cmp(&a.total()).then(a.min_bytes.cmp(&b.min_bytes)));
        rows.truncate(COMMON_SIZES);
        rows
    }
}

/// Requests whose size is from `min_bytes` to `max_bytes`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct SizeRow {
    /// Smallest size of the row.
    pub min_bytes: u64,
    /// Largest size of the row.
    pub max_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Trims.
    pub trims: u64,
}

impl SizeRow {
    /// Requests of the row.
    pub fn total(&self) -> u64 {
        self.reads + self.writes + self.trims
    }

    fn add(&mut self, other: &SizeRow) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.trims += other.trims;
    }
}

/// Requests that begin at a multiple of `bytes`, and of no larger power of two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlignmentRow {
    /// The power of two; the last row, 1 MiB, has larger ones too.
    pub bytes: u64,
    /// Requests.
    pub requests: u64,
}
