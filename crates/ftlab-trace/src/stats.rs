//! What a trace is like, in one pass.

use std::collections::{BTreeMap, HashMap};

use ftlab_core::host::request::{Op, Request, RequestSource, SECTOR_BYTES, SourceError};
use serde::Serialize;

use crate::footprint::PageSet;

const PAGE_SECTORS: u64 = 4096 / SECTOR_BYTES as u64;
/// Sizes that are listed one by one.
const COMMON_SIZES: usize = 10;

/// What a trace is like. Means and shares over nothing are absent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TraceStats {
    /// Requests in all.
    pub requests: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Trims.
    pub trims: u64,
    /// Flushes.
    pub flushes: u64,
    /// Reads / (reads + writes).
    pub read_fraction: Option<f64>,
    /// Bytes that reads ask for, in whole sectors.
    pub read_bytes: u64,
    /// Bytes that writes store, in whole sectors.
    pub write_bytes: u64,
    /// Bytes that trims name, in whole sectors.
    pub trim_bytes: u64,
    /// Mean size of reads.
    pub mean_read_bytes: Option<f64>,
    /// Mean size of writes.
    pub mean_write_bytes: Option<f64>,
    /// First byte of any request that has an address.
    pub lowest_byte: Option<u64>,
    /// End of the request that reaches furthest: the first byte behind it.
    pub highest_byte: Option<u64>,
    /// Distinct pages of 4 KiB that reads and writes touch, in part or whole; volumes are counted apart.
    pub footprint_pages_4k: u64,
    /// Distinct pages of 4 KiB that writes touch, in part or whole; volumes are counted apart.
    pub footprint_written_pages_4k: u64,
    /// Page writes / distinct written pages: how often a page is written on average.
    pub overwrite_factor: Option<f64>,
    /// From the earliest arrival to the latest.
    pub duration_ns: u64,
    /// Mean span between arrivals: duration / (requests - 1).
    pub mean_interarrival_ns: Option<f64>,
    /// Requests that arrive before the one ahead of them.
    pub unsorted: u64,
    /// Share of requests with an address whose begin and end are multiples of 4 KiB.
    pub aligned_4k_fraction: Option<f64>,
    /// Share of requests with an address that begin where the one before on the same volume ended.
    pub sequential_fraction: Option<f64>,
    /// Distinct volumes (ASUs, disks, devices or streams).
    pub volumes: u64,
    /// Requests by size, in powers of two: ascending, without empty rows.
    pub size_histogram: Vec<SizeRow>,
    /// The most frequent sizes, most frequent first; at most 10.
    pub common_sizes: Vec<SizeRow>,
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
    fn total(&self) -> u64 {
        self.reads + self.writes + self.trims
    }

    fn add(&mut self, other: &SizeRow) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.trims += other.trims;
    }
}

/// Gathers [`TraceStats`]. Memory grows with the footprint, by about 4 bytes a page where it is dense.
#[derive(Debug, Default)]
pub struct StatsCollector {
    ops: [u64; 4],
    sectors: [u64; 4],
    lowest: Option<u64>,
    highest: u64,
    touched: PageSet,
    written: PageSet,
    page_writes: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    previous_ns: u64,
    unsorted: u64,
    aligned: u64,
    sequential: u64,
    ends: HashMap<u16, u64>,
    sizes: HashMap<u32, [u64; 4]>,
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl StatsCollector {
    /// Count one request.
    pub fn add(&mut self, request: &Request) {
        let Request { arrival_ns, lba, sectors, op, stream } = *request;
        self.ops[op as usize] += 1;
        let first = self.first_ns.get_or_insert(arrival_ns);
        *first = (*first).min(arrival_ns);
        self.last_ns = self.last_ns.max(arrival_ns);
        self.unsorted += u64::from(arrival_ns < self.previous_ns);
        self.previous_ns = arrival_ns;
        if op == Op::Flush || sectors == 0 {
            self.ends.entry(stream).or_insert(u64::MAX);
            return;
        }
        let end = lba + u64::from(sectors);
        self.sectors[op as usize] += u64::from(sectors);
        self.lowest = Some(self.lowest.map_or(lba, |lowest| lowest.min(lba)));
        self.highest = self.highest.max(end);
        let (first_page, last_page) = (lba / PAGE_SECTORS, (end - 1) / PAGE_SECTORS);
        if op != Op::Trim {
            self.touched.insert(stream, first_page, last_page);
        }
        if op == Op::Write {
            self.written.insert(stream, first_page, last_page);
            self.page_writes += last_page - first_page + 1;
        }
        self.aligned += u64::from(lba % PAGE_SECTORS == 0 && end % PAGE_SECTORS == 0);
        self.sequential += u64::from(self.ends.insert(stream, end) == Some(lba));
        self.sizes.entry(sectors).or_default()[op as usize] += 1;
    }

    /// What has been counted.
    pub fn finish(&self) -> TraceStats {
        let [reads, writes, trims, flushes] = self.ops;
        let bytes = self.sectors.map(|sectors| sectors * u64::from(SECTOR_BYTES));
        let [read_bytes, write_bytes, trim_bytes, _] = bytes;
        let requests = reads + writes + trims + flushes;
        let addressed = self.sizes.values().flatten().sum();
        let duration_ns = self.first_ns.map_or(0, |first| self.last_ns - first);
        let footprint_written_pages_4k = self.written.len();
        let rows = self.sizes.iter().map(|(sectors, counts)| {
            let bytes = u64::from(*sectors) * u64::from(SECTOR_BYTES);
            let [reads, writes, trims, _] = *counts;
            SizeRow { min_bytes: bytes, max_bytes: bytes, reads, writes, trims }
        });
        let mut common_sizes: Vec<SizeRow> = rows.collect();
        let mut histogram = BTreeMap::new();
        for row in &common_sizes {
            let max_bytes = row.max_bytes.next_power_of_two();
            let min_bytes = if max_bytes == u64::from(SECTOR_BYTES) { max_bytes } else { max_bytes / 2 + 1 };
            let empty = SizeRow { min_bytes, max_bytes, ..SizeRow::default() };
            histogram.entry(max_bytes).or_insert(empty).add(row);
        }
        common_sizes.sort_by(|a, b| b.total().cmp(&a.total()).then(a.min_bytes.cmp(&b.min_bytes)));
        common_sizes.truncate(COMMON_SIZES);
        TraceStats {
            requests,
            reads,
            writes,
            trims,
            flushes,
            read_fraction: ratio(reads, reads + writes),
            read_bytes,
            write_bytes,
            trim_bytes,
            mean_read_bytes: ratio(read_bytes, reads),
            mean_write_bytes: ratio(write_bytes, writes),
            lowest_byte: self.lowest.map(|lba| lba * u64::from(SECTOR_BYTES)),
            highest_byte: self.lowest.map(|_| self.highest * u64::from(SECTOR_BYTES)),
            footprint_pages_4k: self.touched.len(),
            footprint_written_pages_4k,
            overwrite_factor: ratio(self.page_writes, footprint_written_pages_4k),
            duration_ns,
            mean_interarrival_ns: ratio(duration_ns, requests.saturating_sub(1)),
            unsorted: self.unsorted,
            aligned_4k_fraction: ratio(self.aligned, addressed),
            sequential_fraction: ratio(self.sequential, addressed),
            volumes: self.ends.len() as u64,
            size_histogram: histogram.into_values().collect(),
            common_sizes,
        }
    }
}

/// Read `source` to its end and say what it is like.
///
/// # Errors
/// Those of the source.
pub fn stats(source: &mut dyn RequestSource) -> Result<TraceStats, SourceError> {
    const BATCH_REQUESTS: usize = 4096;
    let mut collector = StatsCollector::default();
    let mut batch = Vec::with_capacity(BATCH_REQUESTS);
    while source.fill(&mut batch, BATCH_REQUESTS)? > 0 {
        for request in batch.drain(..) {
            collector.add(&request);
        }
    }
    Ok(collector.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftlab_core::host::request::VecSource;

    #[test]
    fn a_small_trace_is_counted_by_hand() {
        let request = |arrival_ns, op, lba, sectors, stream| Request { arrival_ns, lba, sectors, op, stream };
        let mut source = VecSource::new(vec![
            request(100, Op::Write, 8, 8, 0),
            request(300, Op::Write, 16, 8, 0),
            request(200, Op::Read, 15, 2, 0),
            request(400, Op::Write, 16, 8, 1),
            request(500, Op::Trim, 800, 80, 0),
            request(600, Op::Flush, 0, 0, 2),
            request(700, Op::Write, 24, 1, 1),
        ]);
        let stats = stats(&mut source).unwrap();
        assert_eq!((stats.requests, stats.reads, stats.writes, stats.trims, stats.flushes), (7, 1, 4, 1, 1));
        assert_eq!((stats.read_bytes, stats.write_bytes, stats.trim_bytes), (1024, 25 * 512, 40_960));
        assert_eq!((stats.lowest_byte, stats.highest_byte), (Some(4096), Some(880 * 512)));
        assert_eq!((stats.footprint_pages_4k, stats.footprint_written_pages_4k), (4, 4));
        assert_eq!((stats.duration_ns, stats.mean_interarrival_ns), (600, Some(100.0)));
        assert_eq!((stats.unsorted, stats.volumes), (1, 3));
        assert_eq!((stats.read_fraction, stats.overwrite_factor), (Some(0.2), Some(1.0)));
        assert_eq!(
            (stats.aligned_4k_fraction, stats.sequential_fraction),
            (Some(4.0 / 6.0), Some(2.0 / 6.0))
        );
        let rows: Vec<(u64, u64, u64)> =
            stats.size_histogram.iter().map(|row| (row.min_bytes, row.max_bytes, row.total())).collect();
        assert_eq!(rows, [(512, 512, 1), (513, 1024, 1), (2049, 4096, 3), (32_769, 65_536, 1)]);
        assert_eq!((stats.common_sizes[0].min_bytes, stats.common_sizes[0].writes), (4096, 3));
    }

    #[test]
    fn nothing_gives_no_means() {
        let stats = stats(&mut VecSource::new(Vec::new())).unwrap();
        assert_eq!((stats.requests, stats.read_fraction, stats.lowest_byte), (0, None, None));
        assert_eq!(stats.mean_interarrival_ns, None);
    }
}
