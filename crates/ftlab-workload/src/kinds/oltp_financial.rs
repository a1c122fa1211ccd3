//! Transactions of a financial institution, as the SPC trace Financial1 shows them.
//!
//! There are many small requests at odd addresses, a log, a counter that is written again and again, and records of
//! very different popularity.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::Op;
use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::CommonKeys;
use crate::key_set::keys;
use crate::kind::{Kind, PLACED, Plan};
use crate::layout::Scatter;
use crate::process::{
    AddressRange, BLOCK, Emitter, Hyperexponential, NS_PER_S, Process, chance, choose, shares,
};
use crate::refusal::refuse;
use crate::size::{RequestBytes, SizeClass, Sizes};
use crate::zipf::{Permutation, Zipf};
use ftlab_core::rng::{Rng, splitmix};

/// Keys of kind `oltp_financial`. Requests carry the number of their logical unit (ASU) as stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FinancialConfig {
    /// Share of requests that read. 0.232 when absent.
    ///
    /// Default: that of Financial1.
    pub read_fraction: f64,
    /// Whether reads come as writes: for studies that treat all accesses as writes. False when absent.
    ///
    /// Default: reads stay reads, as they were recorded.
    pub all_writes: bool,
    /// Bytes that log, counter and records use at all; they lie scattered over the footprint. Scans of tables and of a
    /// backup read more: all of the footprint that is their units'. Each of 24 units has whole regions of 128 KiB, so that it
    /// may be up to 3 MiB more. 512 MiB when absent.
    ///
    /// Default: 0.5 GB, which Financial1 uses of its 16 GB (published).
    #[serde(deserialize_with = "quantity::bytes")]
    pub working_set_bytes: u64,
    /// Exponent of Zipf's law of the popularity of records. 0.9 when absent.
    ///
    /// Default: 80 % of the accesses go to 20 % of the records.
    pub theta: f64,
    /// Records of like popularity lie together in places of this size, as those of a busy table do. The places lie scattered
    /// over the unit's space; within one, records lie anywhere. 4 KiB when absent.
    ///
    /// Default: a page: each record lies anywhere in its unit, as nothing is published about where they lie.
    #[serde(deserialize_with = "quantity::bytes")]
    pub place_bytes: u64,
    /// Requests a second. 122 when absent.
    ///
    /// Default: that of Financial1, 5.3 million requests in 43,700 s.
    pub requests_per_second: f64,
    /// Standard deviation / mean of the gaps between requests, at least 1. 3.2 when absent.
    ///
    /// Default: as in the first 10,000 requests of Financial1.
    pub gap_cv: f64,
    /// Sizes of requests to records. Ten sizes from 512 bytes to 48 KiB, with a mean of 3.4 KB, when absent.
    ///
    /// Default: sizes of the first requests of Financial1, weighted for the published mean of the whole.
    pub record_bytes: RequestBytes,
    /// Share of requests that append 3,584 bytes to the log, in the first logical unit; at most 0.14. Of what a
    /// backup (`scan_fraction`) leaves. 0.08 when absent.
    ///
    /// Default: assumed: fewer than in the first 10,000 requests of Financial1, which are not typical.
    pub log_fraction: f64,
    /// Share of requests that write the counter, in the second logical unit; at most 0.14. Of what a backup leaves.
    /// 0.012 when absent.
    ///
    /// Default: assumed: fewer than in the first 10,000 requests of Financial1, which are not typical.
    pub counter_fraction: f64,
    /// Share of requests to records that go on where the one before in their unit ended: scans of indices, records in
    /// pieces. Of 100 of them, 3 to 10 meet the end of a region of the working set and begin elsewhere. Regions have
    /// 128 KiB, or `place_bytes` if that is more. Where records have more than 6 KiB on average or more than 48 KiB at most, regions have room for 64 of
    /// them. More begin elsewhere where a unit's part of the working set has room for fewer. 0.4 when absent.
    ///
    /// Default: between two parts of Financial1, of which 45 % and 2 % are published.
    pub sequential_fraction: f64,
    /// Share of the writes to records (before `all_writes`) that write back what was read or written just before in their
    /// unit. 0.2 when absent.
    ///
    /// Default: assumed: a record that was read or written is often written again at once.
    pub rewrite_fraction: f64,
    /// Share of requests that read tables from their begin to their end, 8 KiB at a time, in two logical units. As with log and
    /// counter, of what a backup (`scan_fraction`) leaves. 0 when absent.
    ///
    /// Default: none: only the first requests of Financial1 are known to scan tables.
    pub table_scan_fraction: f64,
    /// Share of all requests that belong to a backup: reads of 64 KiB, from the begin of the footprint to its end and
    /// again. 0 when absent.
    ///
    /// Default: none, as the published shares of Financial1 name no backup.
    pub scan_fraction: f64,
}

impl Default for FinancialConfig {
    fn default() -> Self {
        Self {
            read_fraction: 0.232,
            all_writes: false,
            working_set_bytes: 512 << 20,
            theta: 0.9,
            place_bytes: 4096,
            requests_per_second: 122.0,
            gap_cv: 3.2,
            record_bytes: record_bytes(),
            log_fraction: 0.08,
            counter_fraction: 0.012,
            sequential_fraction: 0.4,
            rewrite_fraction: 0.2,
            table_scan_fraction: 0.0,
            scan_fraction: 0.0,
        }
    }
}

/// Requests of the logical units in percent, log and counter among them. The first eight are as in the first requests
/// of the trace; the rest falls off as they do.
const UNITS: [f64; 24] = [
    14.2, 14.0, 10.0, 8.0, 7.0, 7.0, 6.6, 6.4, 4.2, 3.6, 3.0, 2.6, 2.2, 1.9, 1.6, 1.4, 1.2, 1.0, 0.9, 0.8,
    0.7, 0.6, 0.6, 0.5,
];
/// Largest share of the log and of the counter: what their units get.
const MOST: f64 = 0.14;
const LOG_UNIT: usize = 0;
const COUNTER_UNIT: usize = 1;
/// Sectors of a log append and of the counter.
const LOG_SECTORS: u64 = 7;
const COUNTER_SECTORS: u64 = 6;
/// The log goes around in this part of the working set.
const LOG_SPACE: f64 = 1.0 / 32.0;
/// Bytes and weights of requests to records. The kinds are those of the trace, the weights are not. With the weights of
/// its first requests (three of ten have 8 KiB), the mean would not be the published 3.4 KB. Nor would a request touch
/// 1.72 pages.
const SIZES: [(u64, f64); 10] = [
    (512, 27.0),
    (1024, 17.0),
    (1536, 4.0),
    (2048, 5.0),
    (2560, 5.0),
    (3072, 7.0),
    (3584, 4.0),
    (4096, 9.0),
    (8192, 20.0),
    (49_152, 0.9),
];
/// Share of records that begin at a multiple of 4 KiB, in percent.
const ALIGNED: u64 = 2;
/// Sectors of a region of the working set, at least.
const REGION: u64 = 256;
/// Records of at most this mean and of at most this size have such regions. With larger ones, too many of those that go
/// on would meet the end of one. So a region then has room for this many of them.
const MEAN_SECTORS: f64 = 12.0;
const LARGEST_SECTORS: u64 = 96;
const REGION_RECORDS: u64 = 64;
const TWO_PAGES: u64 = 2 * BLOCK;
const SCAN_SECTORS: u64 = 128;
/// The logical units whose tables are scanned, and sectors of a read.
const TABLE_UNITS: [usize; 2] = [19, 20];
const TABLE_SECTORS: u64 = 16;
/// A table begins behind its file's header, at an odd address as records do.
const TABLE_BEGIN: u64 = 3;

fn record_bytes() -> RequestBytes {
    let class = |(bytes, weight)| SizeClass { min_bytes: bytes, max_bytes: bytes, step_bytes: bytes, weight };
    RequestBytes::Weighted(SIZES.map(class).to_vec())
}

impl FinancialConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        for (key, share) in [
            ("read_fraction", self.read_fraction),
            ("scan_fraction", self.scan_fraction),
            ("table_scan_fraction", self.table_scan_fraction),
            ("sequential_fraction", self.sequential_fraction),
            ("rewrite_fraction", self.rewrite_fraction),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return refuse(&format!("oltp_financial.{key}"), share, "must be a fraction from 0 to 1");
            }
        }
        for (key, share) in [("log_fraction", self.log_fraction), ("counter_fraction", self.counter_fraction)]
        {
            if !(0.0..=MOST).contains(&share) {
                return refuse(&format!("oltp_financial.{key}"), share, "must be a fraction from 0 to 0.14");
            }
        }
        if self.scan_fraction > self.read_fraction {
            let expected = "a backup reads: must not be above read_fraction";
            return refuse("oltp_financial.scan_fraction", self.scan_fraction, expected);
        }
        if self.scan_share() > self.read_fraction {
            let expected = "scans read: must not be above read_fraction, with those of a backup";
            return refuse("oltp_financial.table_scan_fraction", self.table_scan_fraction, expected);
        }
        let writes = self.log_fraction + self.counter_fraction;
        if self.table_scan_fraction + writes >= 1.0 {
            let expected = format!("must be below {:.3}, what log and counter leave", 1.0 - writes);
            return refuse("oltp_financial.table_scan_fraction", self.table_scan_fraction, expected);
        }
        if self.sequential_fraction + self.rewrite_fraction > 1.0 {
            let expected = "must be at most 1 together with sequential_fraction";
            return refuse("oltp_financial.rewrite_fraction", self.rewrite_fraction, expected);
        }
        if let Some((found, expected)) = self.record_bytes.refusal() {
            return refuse("oltp_financial.record_bytes", found, expected);
        }
        if self.record_bytes.largest() > REGION * 512 {
            let found = self.record_bytes.largest();
            return refuse("oltp_financial.record_bytes", found, "must be at most 128 KiB");
        }
        let most = self.scan_fraction + (1.0 - self.scan_fraction) * (1.0 - writes);
        if self.read_fraction > most {
            let expected = format!("log and counter write: must not be above {most:.3}");
            return refuse("oltp_financial.read_fraction", self.read_fraction, expected);
        }
        if !(self.theta > 0.0 && self.theta < 10.0) {
            return refuse("oltp_financial.theta", self.theta, "must be above 0 and below 10");
        }
        if !self.place_bytes.is_multiple_of(4096) || !(4096..=1 << 30).contains(&self.place_bytes) {
            let expected = "must be a multiple of 4 KiB, at most 1 GiB";
            return refuse("oltp_financial.place_bytes", self.place_bytes, expected);
        }
        if !(self.requests_per_second >= 1e-3 && self.requests_per_second <= 1e9) {
            let expected = "must be from 0.001 to 10^9";
            return refuse("oltp_financial.requests_per_second", self.requests_per_second, expected);
        }
        if !(1.0..=100.0).contains(&self.gap_cv) {
            return refuse("oltp_financial.gap_cv", self.gap_cv, "must be from 1 to 100");
        }
        if self.working_set_bytes < 16 << 20 || self.working_set_bytes > 1 << 40 {
            let expected = "must be from 16 MiB to 1 TiB";
            return refuse("oltp_financial.working_set_bytes", self.working_set_bytes, expected);
        }
        Ok(())
    }

    pub(crate) fn fits(&self, area: AddressRange) -> Result<(), ConfigError> {
        let needs = self.unit_sectors() * UNITS.len() as u64;
        if area.sectors < needs {
            let expected = format!("the working set needs {} bytes", needs * 512);
            return refuse("footprint_bytes", area.sectors * 512, expected);
        }
        Ok(())
    }

    /// Room for the working set of one logical unit.
    fn unit_sectors(&self) -> u64 {
        (self.working_set_bytes / 512 / UNITS.len() as u64).next_multiple_of(REGION)
    }

    /// How many regions the working set of a logical unit has, and sectors of one.
    fn regions(&self) -> (u64, u64) {
        let (mean, largest) = (self.record_bytes.mean() / 512.0, self.record_bytes.largest() / 512);
        let wanted = if mean <= MEAN_SECTORS && largest <= LARGEST_SECTORS {
            REGION
        } else {
            (REGION_RECORDS * (mean.ceil() as u64)).max(8 * largest).max(REGION)
        };
        // A place lies in one piece.
        let wanted = wanted.max(self.place_bytes / 512);
        let count = (self.unit_sectors() / wanted).max(1);
        (count, self.unit_sectors() / count / BLOCK * BLOCK)
    }

    /// Share of all requests that scan.
    fn scan_share(&self) -> f64 {
        self.scan_fraction + (1.0 - self.scan_fraction) * self.table_scan_fraction
    }
}

/// Where the record of each rank of popularity lies, in pages: ranks that follow each other share a place.
struct Order {
    /// Pages of a place.
    place: u64,
    places: Permutation,
    within: Permutation,
}

impl Order {
    fn new(pages: u64, place: u64, seed: u64) -> Self {
        let place = place.min(pages);
        Self { place, places: Permutation::new(pages / place, seed), within: Permutation::new(place, seed) }
    }

    fn map(&self, rank: u64) -> u64 {
        let (index, inside) = (rank / self.place, rank % self.place);
        // The least popular, for which no whole place is left, lie behind all others.
        if index >= self.places.size() {
            return rank;
        }
        self.places.map(index) * self.place + self.within.map(inside)
    }
}

pub(crate) struct Financial {
    table: FinancialConfig,
    rng: Rng,
    gaps: Hyperexponential,
    now_ns: f64,
    ends: Vec<f64>,
    sizes: Sizes,
    /// Share of requests to records that read.
    record_reads: f64,
    popularity: Zipf,
    region: u64,
    units: Vec<(Scatter, Order)>,
    /// The last request to a record of each unit, from the begin of its working set.
    last: Vec<(u64, u64)>,
    log_at: u64,
    log_sectors: u64,
    area: AddressRange,
    scan_at: u64,
    /// Where the scans of tables are: the units' rooms, and how far.
    tables: [AddressRange; 2],
    table_at: [u64; 2],
}

impl Financial {
    pub(crate) fn new(table: &FinancialConfig, area: AddressRange, seed: u64, pass: u64) -> Self {
        let (count, region) = table.regions();
        let own = count * region;
        // A place that is no smaller than a region is one: only regions lie in one piece.
        let place = table.place_bytes / 512;
        let place = if place < REGION { place } else { region } / BLOCK;
        let share = area.sectors / UNITS.len() as u64 / REGION * REGION;
        let units = (0..UNITS.len() as u64).map(|unit| {
            let room = AddressRange { start: area.start + unit * share, sectors: share };
            let scatter = Scatter::new(own, region, room, &mut Rng::for_path(seed, &[u64::MAX, unit]));
            let blocks = scatter.sectors() / BLOCK;
            (scatter, Order::new(blocks, place, seed ^ unit << 32))
        });
        let units: Vec<_> = units.collect();
        let mut of_records = UNITS;
        of_records[LOG_UNIT] -= 100.0 * table.log_fraction;
        of_records[COUNTER_UNIT] -= 100.0 * table.counter_fraction;
        let records = (1.0 - table.scan_fraction)
            * (1.0 - table.log_fraction - table.counter_fraction - table.table_scan_fraction);
        Self {
            rng: Rng::for_path(seed, &[pass]),
            gaps: Hyperexponential::new(table.gap_cv),
            now_ns: 0.0,
            ends: shares(&of_records),
            sizes: Sizes::new(&table.record_bytes),
            record_reads: if records > 0.0 {
                ((table.read_fraction - table.scan_share()) / records).clamp(0.0, 1.0)
            } else {
                0.0
            },
            popularity: Zipf::new(own / BLOCK, table.theta),
            region,
            last: vec![(0, 0); UNITS.len()],
            units,
            log_at: 0,
            log_sectors: ((table.working_set_bytes as f64 * LOG_SPACE) as u64 / 512).clamp(LOG_SECTORS, own),
            tables: TABLE_UNITS
                .map(|unit| AddressRange { start: area.start + unit as u64 * share, sectors: share }),
            table_at: [TABLE_BEGIN; 2],
            area,
            scan_at: 0,
            table: table.clone(),
        }
    }

    fn push(&mut self, emitter: &mut Emitter, op: Op, unit: usize, lba: u64, sectors: u64) {
        let op = if self.table.all_writes { Op::Write } else { op };
        emitter.push(self.now_ns, op, lba, sectors);
        if let Some(request) = emitter.requests.last_mut() {
            request.stream = unit as u16;
        }
    }

    fn record(&mut self, emitter: &mut Emitter) {
        let unit = choose(&mut self.rng, &self.ends);
        let mut sectors = u64::from(self.sizes.draw(&mut self.rng));
        let op = if chance(&mut self.rng, self.record_reads) { Op::Read } else { Op::Write };
        let (last, last_sectors) = self.last[unit];
        let how = self.rng.unit();
        let mut stretch = None;
        let (scatter, order) = &self.units[unit];
        let goes_on = self.table.sequential_fraction;
        let at = if how < goes_on && last + last_sectors + sectors <= scatter.sectors() {
            last + last_sectors
        } else if (goes_on..goes_on + self.table.rewrite_fraction).contains(&how)
            && last_sectors > 0
            && op == Op::Write
        {
            sectors = last_sectors;
            last
        } else {
            let block = order.map(self.popularity.draw(&mut self.rng));
            // A record begins where it begins: the same place at every access.
            let place = splitmix(&mut (block ^ (unit as u64) << 48).clone());
            let odd = if place % 100 < ALIGNED { 0 } else { 1 + (place >> 32) % (BLOCK - 1) };
            let at = (block * BLOCK + odd).min(scatter.sectors() - sectors);
            // Records of a page could as well have two, and records of two pages one.
            let room = self.region.saturating_sub(at % self.region + sectors);
            stretch = match sectors {
                BLOCK => Some(u64::from(room >= BLOCK)),
                TWO_PAGES => Some(0),
                _ => None,
            };
            at
        };
        let lba = scatter.map(at, sectors);
        self.last[unit] = (at, sectors);
        self.push(emitter, op, unit, lba, sectors);
        if let Some(more) = stretch {
            emitter.may_stretch(more);
        }
    }
}

impl Process for Financial {
    fn act(&mut self, emitter: &mut Emitter) {
        self.now_ns += self.gaps.draw(&mut self.rng) * NS_PER_S / self.table.requests_per_second;
        if chance(&mut self.rng, self.table.scan_fraction) {
            let unit = (self.scan_at * UNITS.len() as u64 / self.area.sectors) as usize;
            let sectors = SCAN_SECTORS.min(self.area.sectors - self.scan_at);
            let lba = self.area.start + self.scan_at;
            self.scan_at = (self.scan_at + sectors) % self.area.sectors;
            self.push(emitter, Op::Read, unit, lba, sectors);
            return;
        }
        let FinancialConfig { log_fraction, counter_fraction, table_scan_fraction, .. } = self.table;
        let share = self.rng.unit();
        if share < log_fraction {
            if self.log_at + LOG_SECTORS > self.log_sectors {
                self.log_at = 0;
            }
            let lba = self.units[LOG_UNIT].0.map(self.log_at, LOG_SECTORS);
            self.log_at += LOG_SECTORS;
            self.push(emitter, Op::Write, LOG_UNIT, lba, LOG_SECTORS);
        } else if share < log_fraction + counter_fraction {
            let lba = self.units[COUNTER_UNIT].0.map(0, COUNTER_SECTORS) + 1;
            self.push(emitter, Op::Write, COUNTER_UNIT, lba, COUNTER_SECTORS);
        } else if share < log_fraction + counter_fraction + table_scan_fraction {
            let which = self.rng.below_unbiased(2) as usize;
            let room = self.tables[which];
            if self.table_at[which] + TABLE_SECTORS > room.sectors {
                self.table_at[which] = TABLE_BEGIN;
            }
            let lba = room.start + self.table_at[which];
            self.table_at[which] += TABLE_SECTORS;
            self.push(emitter, Op::Read, TABLE_UNITS[which], lba, TABLE_SECTORS);
        } else {
            self.record(emitter);
        }
    }
}

keys! {
    /// Keys of kind `oltp_financial` alone.
    pub struct Keys {
        /// Keys of kind `oltp_financial`.
        pub oltp_financial: Option<FinancialConfig>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "Transactions of a financial institution: see the table `oltp_financial`.";
    const COMMON: &'static [&'static [&'static str]] = &[PLACED, &["page_quota"]];
    const CHANGES: &'static [&'static str] = &[r#"{"oltp_financial":{"gap_cv":3}}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        self.oltp_financial.as_ref().map_or(Ok(()), FinancialConfig::validate)
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let table = self.oltp_financial.clone().unwrap_or_default();
        let range = common.address_range(capacity_bytes)?;
        table.fits(range)?;
        Ok(Plan::with_quota(common.page_quota, (table, range), |(table, range), seed, pass| {
            Financial::new(table, *range, seed, pass)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcessSource;
    use ftlab_core::host::request::{Request, RequestSource};

    fn requests(table: &FinancialConfig, count: u64) -> Vec<Request> {
        let area = AddressRange { start: 0, sectors: 8 << 20 };
        let mut source = ProcessSource::new(Financial::new(table, area, 1, 0), count);
        let mut out = Vec::new();
        while source.fill(&mut out, 4096).unwrap() > 0 {}
        out
    }

    #[test]
    fn the_log_is_appended_and_the_counter_rewritten() {
        let all = requests(&FinancialConfig::default(), 200_000);
        let share = |count: usize| count as f64 / all.len() as f64;
        let counter: Vec<&Request> =
            all.iter().filter(|request| (request.stream, request.lba) == (1, all_counter())).collect();
        assert!((share(counter.len()) - 0.012).abs() < 0.02, "{}", counter.len());
        assert!(counter.iter().filter(|request| request.op == Op::Write).count() * 10 > counter.len() * 9);
        let mut next = None;
        let (mut appends, mut follow) = (0, 0);
        for request in
            all.iter().filter(|request| request.stream == 0 && request.sectors == LOG_SECTORS as u32)
        {
            appends += 1;
            follow += usize::from(next == Some(request.lba));
            next = Some(request.lba + LOG_SECTORS);
        }
        // Some records have the size of an append.
        assert!(share(appends) >= 0.08 - 0.005 && follow * 10 > appends * 7, "{follow} of {appends}");
        let reads = all.iter().filter(|request| request.op == Op::Read).count();
        assert!((share(reads) - 0.232).abs() < 0.005, "{reads}");
    }

    #[test]
    fn ranks_of_a_place_lie_together() {
        for (pages, place) in [(1000, 1), (1000, 32), (1000, 128), (100, 128)] {
            let order = Order::new(pages, place, 7);
            let at: Vec<u64> = (0..pages).map(|rank| order.map(rank)).collect();
            let mut sorted = at.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..pages));
            for ranks in at.chunks(place as usize) {
                assert!(ranks.iter().all(|page| page / place == ranks[0] / place), "{ranks:?}");
            }
        }
        // A page each: as they have always lain.
        let (order, plain) = (Order::new(1000, 1, 7), Permutation::new(1000, 7));
        assert!((0..1000).all(|rank| order.map(rank) == plain.map(rank)));
    }

    #[test]
    fn units_have_their_shares_with_log_and_counter() {
        let all = requests(&FinancialConfig::default(), 200_000);
        for (unit, percent) in UNITS.iter().enumerate() {
            let count = all.iter().filter(|request| usize::from(request.stream) == unit).count();
            let found = 100.0 * count as f64 / all.len() as f64;
            assert!((found - percent).abs() < 0.5, "{unit}: {found} %, expected {percent} %");
        }
    }

    fn all_counter() -> u64 {
        let share = (8 << 20) / 24 / REGION * REGION;
        share + 1
    }

    #[test]
    fn tables_are_read_from_their_begin_on_in_two_units() {
        let table =
            FinancialConfig { table_scan_fraction: 0.3, read_fraction: 0.3, ..FinancialConfig::default() };
        let all = requests(&table, 20_000);
        for unit in TABLE_UNITS {
            let reads =
                all.iter().filter(|request| usize::from(request.stream) == unit && request.op == Op::Read);
            let places: Vec<u64> = reads.map(|request| request.lba).collect();
            assert!(places.windows(2).all(|pair| pair[1] == pair[0] + TABLE_SECTORS));
            assert!((places.len() as f64 / 20_000.0 - 0.15).abs() < 0.01, "{}", places.len());
        }
    }

    #[test]
    fn a_backup_reads_everything_once_before_it_starts_again() {
        let table = FinancialConfig { scan_fraction: 0.2, read_fraction: 0.4, ..FinancialConfig::default() };
        let all = requests(&table, 100_000);
        let scans = all.iter().filter(|request| request.sectors == SCAN_SECTORS as u32);
        for (index, request) in scans.enumerate() {
            assert_eq!(request.lba, index as u64 * SCAN_SECTORS % (8 << 20));
        }
        let writes = requests(&FinancialConfig { all_writes: true, ..table.clone() }, 100_000);
        assert!(writes.iter().zip(&all).all(|(write, other)| {
            write.op == Op::Write && (write.lba, write.sectors) == (other.lba, other.sectors)
        }));
    }
}
