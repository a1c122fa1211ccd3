//! What a trace is like, in one pass: a small collector for each question, and [`StatsCollector`] over all of them.

pub mod access_order;
mod arrivals;
pub mod bins;
mod distinct;
mod growth;
mod intra;
mod lifetime;
mod page_counter;
pub mod pages;
mod recent;
mod reuse;
mod sample;
mod sequence;
mod sizes;
mod touched;

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::{Op, Request, RequestSource, SECTOR_BYTES, SourceError};
use ftlab_core::quantity;
use serde::{Deserialize, Serialize};

pub use arrivals::{Burst, GapStats, QueueStats};
pub use bins::{BinRow, Spread};
pub use growth::GrowthRow;
pub use intra::{DistanceRow, IntraDistanceStats};
pub use lifetime::LifetimeStats;
pub use reuse::{MissRatioCurve, ReuseStats};
pub use sequence::SequenceStats;
pub use sizes::{AlignmentRow, SizeRow};
pub use touched::{Hotness, HotnessPoint};

use arrivals::Arrivals;
use distinct::Distinct;
use growth::Growth;
use intra::IntraDistance;
use lifetime::Lifetimes;
use page_counter::{PageCounter, PageCounts};
use pages::{GROUP, PageNames, scatter};
use reuse::Reuse;
use sequence::Sequence;
use sizes::Sizes;

const PAGE_BYTES: u64 = 4096;
const PAGE_SECTORS: u64 = PAGE_BYTES / SECTOR_BYTES as u64;
/// Pages that are looked at one by one: about 2 MB of memory for reuse, 4 MB for lifetimes.
const SAMPLED_PAGES: usize = 1 << 16;

/// How reuse distances are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReuseMethod {
    /// Of every page: up to 16 more bytes a page, and some hundred nanoseconds an access.
    Exact,
    /// Of every page while there are at most 65,536, then of a spatial sample of them.
    #[default]
    Sampled,
    /// Not at all.
    Off,
}

/// What statistics need to know beside the trace.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StatsOptions {
    /// Logical page of the drive, for FTL requests and translation pages. 4096; a power of two from 512 to 1 MiB.
    #[serde(deserialize_with = "quantity::bytes")]
    pub page_bytes: u64,
    /// Mapping cache of the intra-distance histogram. 4 MiB; at least a page.
    #[serde(deserialize_with = "quantity::bytes")]
    pub map_cache_bytes: u64,
    /// Reuse distances.
    pub reuse: ReuseMethod,
    /// Service time of the queue estimate in microseconds, or as a string with a unit. 100: a read of a fast drive.
    #[serde(deserialize_with = "quantity::micros")]
    pub service_us: f64,
}

impl Default for StatsOptions {
    fn default() -> Self {
        Self { page_bytes: 4096, map_cache_bytes: 4 << 20, reuse: ReuseMethod::default(), service_us: 100.0 }
    }
}

impl StatsOptions {
    /// Check the options.
    ///
    /// # Errors
    /// The first that makes no sense, with what was expected.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let refuse = |key: &str, found: String, expected: &str| {
            Err(ConfigError { key: key.into(), found, expected: expected.into() })
        };
        let page_bytes = self.page_bytes;
        if !page_bytes.is_power_of_two() || page_bytes < SECTOR_BYTES.into() || page_bytes > 1 << 20 {
            return refuse(
                "page_bytes",
                page_bytes.to_string(),
                "must be a power of two, from 512 bytes to 1 MiB",
            );
        }
        if self.map_cache_bytes < page_bytes || self.map_cache_bytes > 1 << 40 {
            return refuse(
                "map_cache_bytes",
                self.map_cache_bytes.to_string(),
                "must be from one page to 1 TiB",
            );
        }
        if !(self.service_us >= 0.001 && self.service_us <= 1e9) {
            return refuse("service_us", self.service_us.to_string(), "must be from 1 ns to 1000 s");
        }
        Ok(())
    }
}

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
    /// Writes that must be durable before they complete (FUA), where the trace says so.
    pub fua_writes: u64,
    /// Reads / (reads + writes).
    pub read_fraction: Option<f64>,
    /// Bytes that reads ask for, in whole sectors.
    pub read_bytes: u64,
    /// Bytes that writes store, in whole sectors.
    pub write_bytes: u64,
    /// Bytes that trims name, in whole sectors.
    pub trim_bytes: u64,
    /// Bytes of reads / bytes of reads and writes.
    pub read_bytes_fraction: Option<f64>,
    /// Mean size of reads and writes.
    pub mean_request_bytes: Option<f64>,
    /// Mean size of reads.
    pub mean_read_bytes: Option<f64>,
    /// Mean size of writes.
    pub mean_write_bytes: Option<f64>,
    /// First byte of any request that has an address.
    pub lowest_byte: Option<u64>,
    /// End of the request that reaches furthest: the first byte behind it.
    pub highest_byte: Option<u64>,
    /// From the lowest byte to the highest: the actual address range of the literature. Volumes lie on top of each other.
    pub address_range_bytes: u64,
    /// Bytes of the distinct pages of 4 KiB that reads and writes touch: the actual request range of the literature.
    pub footprint_bytes: u64,
    /// Distinct pages of 4 KiB that reads and writes touch, in part or whole; volumes are counted apart.
    pub footprint_pages_4k: u64,
    /// Distinct pages of 4 KiB that writes touch, in part or whole; volumes are counted apart.
    pub footprint_written_pages_4k: u64,
    /// Page writes / distinct written pages: how often a page is written on average.
    pub overwrite_factor: Option<f64>,
    /// Size of the logical pages that FTL requests count: `page_bytes` of the options.
    pub ftl_page_bytes: u64,
    /// FTL requests: logical pages that reads and writes touch, one by one.
    pub ftl_requests: u64,
    /// FTL requests of reads.
    pub ftl_reads: u64,
    /// FTL requests of writes.
    pub ftl_writes: u64,
    /// FTL requests / (reads + writes).
    pub ftl_requests_per_request: Option<f64>,
    /// Distinct translation pages that they need, of `ftl_page_bytes` / 4 entries each; 4 MiB of addresses at 4 KiB.
    pub footprint_translation_pages: u64,
    /// From the earliest arrival to the latest.
    pub duration_ns: u64,
    /// Mean span between arrivals: duration / (requests - 1).
    pub mean_interarrival_ns: Option<f64>,
    /// Requests that arrive before one ahead of them; a run would move them to the time of the latest.
    pub unsorted: u64,
    /// Share of requests with an address whose begin and end are multiples of 4 KiB.
    pub aligned_4k_fraction: Option<f64>,
    /// Share of requests with an address whose begin is a multiple of 4 KiB.
    pub aligned_start_4k_fraction: Option<f64>,
    /// Share of requests with an address that begin where the one before on the same volume ended.
    pub sequential_fraction: Option<f64>,
    /// Distinct volumes (ASUs, disks, devices or streams).
    pub volumes: u64,
    /// Distinct addresses at which reads, writes and trims begin; volumes are counted apart.
    pub distinct_starts: u64,
    /// Whether `distinct_starts` is exact. From 65,536 on it is an estimate, to about 0.5 %.
    pub distinct_starts_exact: bool,
    /// Requests by size, in powers of two: ascending, without empty rows.
    pub size_histogram: Vec<SizeRow>,
    /// The most frequent sizes, most frequent first; at most 10.
    pub common_sizes: Vec<SizeRow>,
    /// Requests by the largest power of two that their begin is a multiple of.
    pub alignment_histogram: Vec<AlignmentRow>,
    /// Sequential runs.
    pub sequence: Option<SequenceStats>,
    /// Spans between arrivals.
    pub interarrival: Option<GapStats>,
    /// Queues and bursts.
    pub queue: Option<QueueStats>,
    /// How unevenly pages are used.
    pub hotness: Option<Hotness>,
    /// Reuse distances and the miss-ratio curve.
    pub reuse: Option<ReuseStats>,
    /// How long written data live.
    pub lifetime: Option<LifetimeStats>,
    /// Distances within cached translation pages.
    pub intra_distance: Option<IntraDistanceStats>,
    /// What the trace had done at moments of it.
    pub growth: Vec<GrowthRow>,
}

/// Gathers [`TraceStats`]. Memory is at most 16 bytes for each distinct page, and some 10 MB.
#[derive(Debug)]
pub struct StatsCollector {
    options: StatsOptions,
    requests: u64,
    fua_writes: u64,
    names: PageNames,
    counter: PageCounter,
    reuse: Option<Reuse>,
    lifetimes: Lifetimes,
    intra: IntraDistance,
    arrivals: Arrivals,
    sizes: Sizes,
    sequence: Sequence,
    distinct: Distinct,
    growth: Growth,
}

/// The first and the last page of 4 KiB that a request with an address touches.
#[inline(always)]
pub fn pages_of(request: &Request) -> (u64, u64) {
    let last = request.lba.saturating_add(u64::from(request.sectors) - 1);
    (request.lba / PAGE_SECTORS, last / PAGE_SECTORS)
}

/// The first and the last page of 4 KiB that a request with an address covers, if there is any.
pub fn whole_pages_of(request: &Request) -> Option<(u64, u64)> {
    let end = request.lba.saturating_add(u64::from(request.sectors));
    let (first, behind) = (request.lba.div_ceil(PAGE_SECTORS), end / PAGE_SECTORS);
    (first < behind).then(|| (first, behind - 1))
}

/// Whether a request has an address: reads, writes and trims of at least a sector.
#[inline(always)]
fn has_address(request: &Request) -> bool {
    request.op != Op::Flush && request.sectors > 0
}

pub(crate) fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

impl Default for StatsCollector {
    fn default() -> Self {
        Self::unchecked(StatsOptions::default())
    }
}

impl StatsCollector {
    /// A collector with `options`.
    ///
    /// # Errors
    /// When the options make no sense.
    pub fn new(options: StatsOptions) -> Result<Self, ConfigError> {
        options.validate()?;
        Ok(Self::unchecked(options))
    }

    fn unchecked(options: StatsOptions) -> Self {
        let most_pages = match options.reuse {
            ReuseMethod::Exact => Some(None),
            ReuseMethod::Sampled => Some(Some(SAMPLED_PAGES)),
            ReuseMethod::Off => None,
        };
        Self {
            options,
            requests: 0,
            fua_writes: 0,
            names: PageNames::default(),
            counter: PageCounter::default(),
            reuse: most_pages.map(Reuse::new),
            lifetimes: Lifetimes::new(Some(SAMPLED_PAGES)),
            intra: IntraDistance::new(options.page_bytes, options.map_cache_bytes),
            arrivals: Arrivals::new((options.service_us * 1000.0).round() as u64),
            sizes: Sizes::default(),
            sequence: Sequence::default(),
            distinct: Distinct::default(),
            growth: Growth::default(),
        }
    }

    /// Count requests, in order.
    pub fn add(&mut self, requests: &[Request]) {
        /// What every collector takes in turn: so few that they stay near the processor.
        const ROUND: usize = 256;
        let mut rest = requests;
        while !rest.is_empty() {
            let until_moment = usize::try_from(self.growth.left(self.requests)).unwrap_or(ROUND);
            let (round, later) = rest.split_at(rest.len().min(ROUND).min(until_moment));
            self.add_round(round);
            if self.growth.wants(self.requests) {
                self.counter.moment(self.requests);
                self.growth.add(self.moment());
            }
            rest = later;
        }
    }

    fn add_round(&mut self, requests: &[Request]) {
        let written_bytes = self.sizes.bytes()[Op::Write as usize];
        self.arrivals.add(requests);
        self.sizes.add(requests);
        self.sequence.add(requests);
        self.distinct.add(requests);
        self.intra.add(requests);
        self.add_pages(requests, written_bytes);
        self.requests += requests.len() as u64;
        self.fua_writes += requests.iter().filter(|request| request.fua).count() as u64;
    }

    /// `written_bytes` were written before.
    fn add_pages(&mut self, requests: &[Request], mut written_bytes: u64) {
        let Self { names, counter, reuse, lifetimes, .. } = self;
        for (number, request) in (self.requests + 1..).zip(requests) {
            let Request { arrival_ns, sectors, op, stream, .. } = *request;
            if !has_address(request) {
                continue;
            }
            if op == Op::Trim {
                if let Some((first, last)) = whole_pages_of(request) {
                    names.ranges(stream, first, last, |first, last| {
                        lifetimes.trim(first, last, arrival_ns, written_bytes);
                    });
                }
                continue;
            }
            let write = op == Op::Write;
            let (first, last) = pages_of(request);
            names.ranges(stream, first, last, |first, last| {
                counter.add(first, last, write);
                let mut from = first;
                while from <= last {
                    let (group, to) = (from & !(GROUP - 1), last.min(from | (GROUP - 1)));
                    let key = scatter(group);
                    if let Some(reuse) = reuse {
                        reuse.touch(key, from - group, to - group, write);
                    }
                    if write {
                        lifetimes.write(key, from, to, arrival_ns, written_bytes);
                    }
                    from = to + 1;
                }
            });
            if let Some(reuse) = reuse {
                reuse.end(write, last - first + 1, number);
            }
            if write {
                lifetimes.end(number);
                written_bytes += u64::from(sectors) * u64::from(SECTOR_BYTES);
            }
        }
    }

    fn moment(&self) -> GrowthRow {
        let [read_bytes, write_bytes, _] = self.sizes.bytes();
        GrowthRow {
            requests: self.requests,
            time_ns: self.arrivals.duration_ns(),
            read_bytes,
            write_bytes,
            ..GrowthRow::default()
        }
    }

    /// What has been counted.
    pub fn finish(&mut self) -> TraceStats {
        let last = self.moment();
        let PageCounts { touched, moments } = self.counter.finish(self.requests);
        let [reads, writes, trims, flushes] = self.sizes.ops();
        let range = self.sizes.range();
        let [read_bytes, write_bytes, trim_bytes] = self.sizes.bytes();
        let [ftl_reads, ftl_writes] = self.intra.accesses();
        let requests = self.requests;
        let sector = u64::from(SECTOR_BYTES);
        let duration_ns = self.arrivals.duration_ns();
        TraceStats {
            requests,
            reads,
            writes,
            trims,
            flushes,
            fua_writes: self.fua_writes,
            read_fraction: ratio(reads, reads + writes),
            read_bytes,
            write_bytes,
            trim_bytes,
            read_bytes_fraction: ratio(read_bytes, read_bytes + write_bytes),
            mean_request_bytes: ratio(read_bytes + write_bytes, reads + writes),
            mean_read_bytes: ratio(read_bytes, reads),
            mean_write_bytes: ratio(write_bytes, writes),
            lowest_byte: range.map(|(lowest, _)| lowest.saturating_mul(sector)),
            highest_byte: range.map(|(_, highest)| highest.saturating_mul(sector)),
            address_range_bytes: range
                .map_or(0, |(lowest, highest)| (highest - lowest).saturating_mul(sector)),
            footprint_bytes: touched.pages() * PAGE_BYTES,
            footprint_pages_4k: touched.pages(),
            footprint_written_pages_4k: touched.written(),
            overwrite_factor: ratio(touched.accesses()[Op::Write as usize], touched.written()),
            ftl_page_bytes: self.options.page_bytes,
            ftl_requests: ftl_reads + ftl_writes,
            ftl_reads,
            ftl_writes,
            ftl_requests_per_request: ratio(ftl_reads + ftl_writes, reads + writes),
            footprint_translation_pages: touched.translation_pages(self.options.page_bytes),
            duration_ns,
            mean_interarrival_ns: ratio(duration_ns, requests.saturating_sub(1)),
            unsorted: self.arrivals.unsorted(),
            aligned_4k_fraction: self.sizes.aligned_4k_fraction(),
            aligned_start_4k_fraction: self.sizes.aligned_start_4k_fraction(),
            sequential_fraction: self.sequence.fraction(),
            volumes: self.sequence.volumes(),
            distinct_starts: self.distinct.count(),
            distinct_starts_exact: self.distinct.is_exact(),
            size_histogram: self.sizes.histogram(),
            common_sizes: self.sizes.common(),
            alignment_histogram: self.sizes.alignment(),
            sequence: self.sequence.finish(),
            interarrival: self.arrivals.gaps(),
            queue: self.arrivals.queue(),
            hotness: touched.finish(),
            reuse: self.reuse.as_ref().and_then(|reuse| reuse.finish(touched.first_touches())),
            lifetime: self.lifetimes.finish(touched.written()),
            intra_distance: self.intra.finish(),
            growth: self.growth.finish(last, moments),
        }
    }
}

/// Read `source` to its end and say what it is like, with default options.
///
/// # Errors
/// Those of the source.
pub fn stats(source: &mut dyn RequestSource) -> Result<TraceStats, SourceError> {
    collect(source, StatsCollector::default())
}

/// Read `source` to its end into `collector`.
///
/// # Errors
/// Those of the source.
pub fn collect(
    source: &mut dyn RequestSource,
    mut collector: StatsCollector,
) -> Result<TraceStats, SourceError> {
    const BATCH_REQUESTS: usize = 4096;
    let mut batch = Vec::with_capacity(BATCH_REQUESTS);
    while source.fill(&mut batch, BATCH_REQUESTS)? > 0 {
        collector.add(&batch);
        batch.clear();
    }
    Ok(collector.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftlab_core::host::request::VecSource;

    #[test]
    fn a_small_trace_is_counted_by_hand() {
        let request = |arrival_ns, op, lba, sectors, stream| Request {
            arrival_ns,
            lba,
            sectors,
            op,
            stream,
            fua: op == Op::Write && stream == 1,
        };
        let mut source = VecSource::new(vec![
            request(100, Op::Write, 8, 8, 0),
            request(300, Op::Write, 16, 8, 0),
            request(200, Op::Read, 15, 2, 0),
            request(250, Op::Write, 16, 8, 1),
            request(500, Op::Trim, 800, 80, 0),
            request(600, Op::Flush, 0, 0, 2),
            request(700, Op::Write, 24, 1, 1),
        ]);
        let stats = stats(&mut source).unwrap();
        assert_eq!((stats.requests, stats.reads, stats.writes, stats.trims, stats.flushes), (7, 1, 4, 1, 1));
        assert_eq!(stats.fua_writes, 2);
        assert_eq!((stats.read_bytes, stats.write_bytes, stats.trim_bytes), (1024, 25 * 512, 40_960));
        assert_eq!((stats.lowest_byte, stats.highest_byte), (Some(4096), Some(880 * 512)));
        assert_eq!((stats.footprint_pages_4k, stats.footprint_written_pages_4k), (4, 4));
        assert_eq!((stats.duration_ns, stats.mean_interarrival_ns), (600, Some(100.0)));
        assert_eq!((stats.unsorted, stats.volumes), (2, 3));
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
