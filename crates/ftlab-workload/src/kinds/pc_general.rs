//! A personal computer, by mechanism: one user who browses, works on documents and copies files, and an operating
//! system that reads and writes between.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::applications::{self, Application, Applications, ApplicationsConfig};
use super::web_cache::{WebCache, WebCacheConfig};
use crate::common::CommonKeys;
use crate::key_set::keys;
use crate::kind::{Kind, PLACED, Plan};
use crate::layout::Scatter;
use crate::process::{
    AddressRange, BLOCK, Emitter, NS_PER_US, Pareto, Process, chance, exponential, geometric,
};
use crate::refusal::{as_in_file, refuse};
use crate::size::{LARGEST_WEIGHT, RequestBytes, SizeClass, Sizes};
use crate::zipf::{Permutation, Zipf};
use ftlab_core::rng::Rng;

/// What makes requests on a personal computer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PcStream {
    /// What the operating system does by itself.
    System,
    /// A browser's cache and databases.
    Browser,
    /// Documents that are read and saved.
    Documents,
    /// Files that are copied.
    Copies,
}

/// Where a new file goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// Behind the one before, with some room between; around the area and over the oldest ones.
    NextFit,
    /// Anywhere, over whatever lies there.
    Random,
}

/// Keys of kind `pc_general`. Requests carry the number of what makes them as stream: 0 for the operating system, 1 for
/// the browser, 2 for documents, 3 for copies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PcConfig {
    /// Bytes that are used at all, in regions of 4 MiB that lie scattered over the footprint. 7 GiB when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    #[serde(deserialize_with = "quantity::bytes")]
    pub active_bytes: u64,
    /// First sector of the partition that `partition` names: 63 on old systems, where nothing begins at a multiple of 4 KiB.
    /// Everything else lies on a second partition, which begins at one. Requests are moved by this many sectors. Where
    /// it is no multiple of 64, those of a region's last 63 sectors move by fewer, and stay in it. 0 when absent.
    ///
    /// Default: partitions of today begin at multiples of 4 KiB.
    pub partition_sector: u64,
    /// What lies on that partition, each named once. All but the copies when absent.
    ///
    /// Default: copies go to another partition, as to a second drive.
    pub partition: Vec<PcStream>,
    /// Weight of the requests of the browser. 8 when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    pub browser: f64,
    /// Weight of the requests of documents. 20.7 when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    pub documents: f64,
    /// Weight of the requests of the operating system. 36 when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    pub system: f64,
    /// Weight of the requests of copies. 37.5 when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    pub copies: f64,
    /// Share of the operating system's bursts that read a file; the others write one. 0.36 when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    pub system_read_fraction: f64,
    /// Share of the operating system's bursts that only update a directory. 0.29 when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    pub system_hot_fraction: f64,
    /// Exponent of Zipf's law of the popularity of the operating system's files. 0.32 when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    pub theta: f64,
    /// Files of a directory of 4 MiB, each as likely to be used, from its begin on. 4 when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    pub directory_files: u64,
    /// Sizes of what the operating system reads and writes at once. When absent: 4 KiB (a page), 16 KiB (what a page
    /// fault brings in) and 32 KiB, 60 to 38 to 3.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    pub system_bytes: RequestBytes,
    /// Bytes of a directory's record, at most 4 KiB: what is written when a file was used or changed. When absent it
    /// is 4 KiB, a page of the file cache, or 1 KiB without a file cache between.
    ///
    /// Default: a page of the file cache, which is what an operating system writes.
    #[serde(deserialize_with = "quantity::bytes")]
    pub record_bytes: u64,
    /// Largest request: the operating system cuts what is larger into pieces of this size. 64 KiB when absent.
    ///
    /// Default: half of the writes of a recorded desktop computer have this size, the largest.
    #[serde(deserialize_with = "quantity::bytes")]
    pub transfer_bytes: u64,
    /// Share of copied requests that read. A copy reads what it writes, unless it comes from elsewhere or goes there. When
    /// absent, of 100 copies 23 read what they write: 23 of 123.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    pub copy_read_fraction: f64,
    /// Largest file that is copied: they have from 64 KiB to this, in steps of 64 KiB, each as likely. 192 KiB when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    #[serde(deserialize_with = "quantity::bytes")]
    pub copy_most_bytes: u64,
    /// Bytes of the place that files are copied to, at most a tenth of `active_bytes`. 455 MiB when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    #[serde(deserialize_with = "quantity::bytes")]
    pub copy_space_bytes: u64,
    /// Where copies are put. `next_fit` when absent.
    ///
    /// Default: fitted with the other shares to a recording of a desktop computer (`like-desktop`).
    pub copy_placement: Placement,
    /// Mean time between two bursts of work, by Pareto's law. 2 s when absent.
    ///
    /// Default: assumed: a user who does the next thing after two seconds.
    #[serde(deserialize_with = "quantity::micros")]
    pub pause_us: f64,
}

impl Default for PcConfig {
    fn default() -> Self {
        Self {
            active_bytes: 7 << 30,
            partition_sector: 0,
            partition: vec![PcStream::System, PcStream::Browser, PcStream::Documents],
            browser: 8.0,
            documents: 20.7,
            system: 36.0,
            copies: 37.5,
            system_read_fraction: 0.36,
            system_hot_fraction: 0.29,
            theta: 0.32,
            directory_files: 4,
            system_bytes: system_bytes(),
            record_bytes: 4096,
            transfer_bytes: 65_536,
            copy_read_fraction: 0.23 / 1.23,
            copy_most_bytes: 192 << 10,
            copy_space_bytes: 455 << 20,
            copy_placement: Placement::NextFit,
            pause_us: 2e6,
        }
    }
}

const REGION: u64 = 4 << 11;
/// What a partition's first sector is beyond a multiple of this stays inside regions; all regions are moved by the rest.
const TRACK: u64 = 64;
/// Shares of the used space: operating system, browser, documents, copies.
const SPACE: [f64; 4] = [0.56, 0.14, 0.1, 0.2];
const BROWSER_CACHE: u64 = 320_000_000;
/// Share of objects that the browser asked for before. 56 of 100 objects are in its cache: `like-pc` and `like-general` are
/// calibrated with this.
const BROWSER_REVISITS: f64 = 0.6;
/// Mean number of requests of the operating system to a file.
const FILE_REQUESTS: f64 = 5.0;
/// Pages by which a file could as well be longer.
const LONGER: u64 = 8;
/// Where in its region a directory's record is, unless it takes the whole block: the file follows behind it.
const RECORD_AT: u64 = 2;
const COPY_SECTORS: u64 = 128;
const PAUSE_ALPHA: f64 = 1.5;
const GAP_NS: f64 = 1e6;

fn system_bytes() -> RequestBytes {
    let class = |bytes, weight| SizeClass { min_bytes: bytes, max_bytes: bytes, step_bytes: bytes, weight };
    RequestBytes::Weighted(vec![class(4096, 60.0), class(16_384, 38.0), class(32_768, 3.0)])
}

impl PcConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        for (key, share) in [
            ("system_read_fraction", self.system_read_fraction),
            ("system_hot_fraction", self.system_hot_fraction),
            ("copy_read_fraction", self.copy_read_fraction),
        ] {
            if !(0.0..=1.0).contains(&share) {
                return refuse(&format!("pc_general.{key}"), share, "must be a fraction from 0 to 1");
            }
        }
        for (key, weight) in self.weights_by_name() {
            if !(0.0..=LARGEST_WEIGHT).contains(&weight) {
                return refuse(&format!("pc_general.{key}"), weight, "must be a weight, from 0 to 1e15");
            }
        }
        if self.weights_by_name().iter().all(|(_, weight)| *weight == 0.0) {
            return refuse("pc_general.system", 0, "one of the weights must be above 0");
        }
        if self.active_bytes < 7 << 30 || self.active_bytes > 64 << 40 {
            return refuse("pc_general.active_bytes", self.active_bytes, "must be from 7 GiB to 64 TiB");
        }
        if !(self.theta > 0.0 && self.theta < 10.0) {
            return refuse("pc_general.theta", self.theta, "must be above 0 and below 10");
        }
        if !(1..=16).contains(&self.directory_files) {
            return refuse("pc_general.directory_files", self.directory_files, "must be from 1 to 16");
        }
        if let Some((found, expected)) = self.system_bytes.refusal() {
            return refuse("pc_general.system_bytes", found, expected);
        }
        if self.system_bytes.largest() > 65_536 {
            let found = self.system_bytes.largest();
            return refuse("pc_general.system_bytes", found, "must be at most 64 KiB");
        }
        if !matches!(self.record_bytes, 512 | 1024 | 2048 | 4096) {
            return refuse("pc_general.record_bytes", self.record_bytes, "must be 512, 1024, 2048 or 4096");
        }
        if !self.transfer_bytes.is_multiple_of(4096) || !(4096..=1 << 30).contains(&self.transfer_bytes) {
            let expected = "must be a multiple of 4 KiB, at most 1 GiB";
            return refuse("pc_general.transfer_bytes", self.transfer_bytes, expected);
        }
        if !self.copy_most_bytes.is_multiple_of(COPY_SECTORS * 512)
            || !(65_536..=64 << 20).contains(&self.copy_most_bytes)
        {
            let expected = "must be a multiple of 64 KiB, at most 64 MiB";
            return refuse("pc_general.copy_most_bytes", self.copy_most_bytes, expected);
        }
        let (least, most) = (2 * self.copy_most_bytes, self.active_bytes / 10);
        if !(least..=most).contains(&self.copy_space_bytes) {
            let expected = "must be at least twice copy_most_bytes and at most a tenth of active_bytes";
            return refuse("pc_general.copy_space_bytes", self.copy_space_bytes, expected);
        }
        if self.partition_sector >= REGION {
            let expected = "must be below 8192: the partition begins in the first 4 MiB";
            return refuse("pc_general.partition_sector", self.partition_sector, expected);
        }
        self.validate_partition()?;
        if !(self.pause_us >= 0.001 && self.pause_us <= 1e12) {
            return refuse("pc_general.pause_us", self.pause_us, "must be from a nanosecond to 11 days");
        }
        Ok(())
    }

    fn validate_partition(&self) -> Result<(), ConfigError> {
        let refuse_list = |expected| refuse("pc_general.partition", as_in_file(&self.partition), expected);
        if self.partition_sector == 0 && self.partition != Self::default().partition {
            return refuse_list(
                "it begins at sector 0, where it makes no difference: state partition_sector",
            );
        }
        if self.partition.is_empty() {
            return refuse_list("nothing lies on it: name what does, or leave partition_sector out");
        }
        let twice = |(place, stream)| self.partition[..place].contains(stream);
        if self.partition.iter().enumerate().any(twice) {
            return refuse_list("each of system, browser, documents and copies can be named once");
        }
        Ok(())
    }

    fn weights_by_name(&self) -> [(&'static str, f64); 4] {
        [
            ("system", self.system),
            ("browser", self.browser),
            ("documents", self.documents),
            ("copies", self.copies),
        ]
    }

    pub(crate) fn fits(&self, area: AddressRange) -> Result<(), ConfigError> {
        let needs = (self.active_bytes / 512).next_multiple_of(REGION) + REGION;
        if area.sectors < needs {
            let expected = format!("what is used needs {} bytes", needs * 512);
            return refuse("footprint_bytes", area.sectors * 512, expected);
        }
        Ok(())
    }
}

/// What the operating system does by itself: each region has a directory and, behind it, files that are used from their
/// begin on.
struct System {
    area: AddressRange,
    sizes: Sizes,
    rng: Rng,
    now_ns: f64,
    reads: f64,
    hot: f64,
    /// Sectors of a directory's record, and where in its region it begins.
    record: u64,
    record_at: u64,
    /// Files of a directory.
    files: u64,
    popularity: Zipf,
    order: Permutation,
}

impl System {
    fn push(&mut self, op: Op, lba: u64, sectors: u64, emitter: &mut Emitter) {
        self.now_ns += exponential(&mut self.rng) * GAP_NS;
        emitter.push(self.now_ns, op, lba, sectors);
    }
}

impl Process for System {
    fn act(&mut self, emitter: &mut Emitter) {
        let region = self.order.map(self.popularity.draw(&mut self.rng));
        let start = self.area.start + region * REGION;
        if chance(&mut self.rng, self.hot) {
            self.push(Op::Write, start + self.record_at, self.record, emitter);
            return;
        }
        let op = if chance(&mut self.rng, self.reads) { Op::Read } else { Op::Write };
        self.push(Op::Read, start + self.record_at, self.record, emitter);
        let room = REGION / self.files;
        let file = if self.files > 1 { self.rng.below_unbiased(self.files) } else { 0 };
        let mut at = start + BLOCK + file * room;
        // What a quota adds stays in the file as well.
        let end = start + (file + 1) * room - LONGER * BLOCK;
        for _ in 0..geometric(&mut self.rng, FILE_REQUESTS).min(40) {
            let sectors = u64::from(self.sizes.draw(&mut self.rng));
            if at + sectors > end {
                break;
            }
            self.push(op, at, sectors, emitter);
            at += sectors;
        }
        emitter.may_stretch(LONGER);
        // The time of access or of change.
        self.push(Op::Write, start + self.record_at, self.record, emitter);
    }
}

/// Files that are copied from one place to another: read in parts of 64 KiB, then written.
struct Copies {
    area: AddressRange,
    rng: Rng,
    now_ns: f64,
    reads: f64,
    /// Parts of the largest file.
    most: u64,
    placement: Placement,
    /// Parts of the place that they are copied to.
    space: u64,
    /// Where the next copy goes, in parts.
    next: u64,
}

impl Process for Copies {
    fn act(&mut self, emitter: &mut Emitter) {
        let parts = 1 + self.rng.below_unbiased(self.most);
        let half = self.area.sectors / 2 / COPY_SECTORS;
        let from = self.area.start + self.rng.below_unbiased(half - parts) * COPY_SECTORS;
        let place = match self.placement {
            Placement::Random => self.rng.below_unbiased(self.space - parts),
            Placement::NextFit => {
                let place = if self.next + parts > self.space { 0 } else { self.next };
                self.next = place + parts + 1;
                place
            }
        };
        let to = self.area.start + (half + place) * COPY_SECTORS;
        // Whether this copy reads at all, writes at all, or does both: two requests then, where the others make one.
        let less = self.reads.min(1.0 - self.reads);
        let both = less / (1.0 - less);
        let kind = self.rng.unit();
        let (reads, writes) = (kind < both || self.reads > 0.5, kind < both || self.reads <= 0.5);
        for (start, op) in [(from, Op::Read), (to, Op::Write)]
            .into_iter()
            .zip([reads, writes])
            .filter_map(|(step, done)| done.then_some(step))
        {
            for part in 0..parts {
                self.now_ns += GAP_NS;
                emitter.push(self.now_ns, op, start + part * COPY_SECTORS, COPY_SECTORS);
            }
        }
    }
}

struct PcActivity {
    process: Box<dyn Process>,
    share: f64,
    made: u64,
    emitter: Emitter,
}

/// One thing after the other; the shares of the streams hold at any time, to within a burst.
pub(crate) struct Pc {
    streams: Vec<PcActivity>,
    made: u64,
    rng: Rng,
    now_ns: f64,
    pauses: Pareto,
    scatter: Scatter,
    /// First sector of the partition of each stream.
    partitions: [u64; 4],
    transfer: u64,
}

impl Process for Pc {
    fn act(&mut self, emitter: &mut Emitter) {
        let behind = |stream: &PcActivity| stream.share * (self.made + 1) as f64 - stream.made as f64;
        let Some(index) = (0..self.streams.len())
            .max_by(|a, b| behind(&self.streams[*a]).total_cmp(&behind(&self.streams[*b])))
        else {
            return;
        };
        let stream = &mut self.streams[index];
        stream.emitter.clear();
        stream.process.act(&mut stream.emitter);
        let Some(first) = stream.emitter.requests.first().map(|request| request.arrival_ns) else { return };
        self.now_ns += self.pauses.draw(&mut self.rng);
        let begin = self.now_ns;
        let mut elastic = stream.emitter.elastic.iter().peekable();
        for (place, request) in stream.emitter.requests.iter().enumerate() {
            // Recordings of personal computers show neither flushes nor trims.
            if !matches!(request.op, Op::Read | Op::Write) {
                continue;
            }
            self.now_ns = begin + (request.arrival_ns - first) as f64;
            let sectors = u64::from(request.sectors);
            let shift = self.partitions[index];
            let within = shift % TRACK;
            let lba = self.scatter.map(request.lba, sectors + within) + shift;
            let mut rest = AddressRange { start: lba, sectors };
            let mut last = rest;
            while rest.sectors > 0 {
                last = rest.take(self.transfer);
                emitter.requests.push(Request {
                    arrival_ns: self.now_ns as u64,
                    lba: last.start,
                    sectors: last.sectors as u32,
                    stream: index as u16,
                    ..*request
                });
                stream.made += 1;
                self.made += 1;
            }
            if let Some(elastic) = elastic.next_if(|elastic| elastic.index == place) {
                emitter.may_stretch(elastic.more.min((self.transfer - last.sectors) / BLOCK));
            }
        }
    }
}

pub(crate) fn start(table: &PcConfig, area: AddressRange, seed: u64, pass: u64) -> Pc {
    let mut scatter =
        Scatter::new(table.active_bytes / 512, REGION, area, &mut Rng::for_path(seed, &[u64::MAX]));
    if table.partition.contains(&PcStream::Copies) {
        // Copies lie at the end of what is used: nothing else could be moved over the end of the drive.
        scatter.leave_behind(table.partition_sector / TRACK * TRACK, area);
    }
    let mut rest = AddressRange { start: 0, sectors: scatter.sectors() };
    let [system, browser, documents, copies] =
        SPACE.map(|share| rest.take((scatter.sectors() as f64 * share) as u64 / REGION * REGION));
    let seed_of = |index: u64| Rng::for_path(seed, &[index]).next_u64();
    let cache = WebCacheConfig {
        cache_bytes: BROWSER_CACHE,
        revisit_fraction: BROWSER_REVISITS,
        ..WebCacheConfig::default()
    };
    let office = ApplicationsConfig {
        applications: vec![Application::Word, Application::Excel, Application::Powerpoint],
        ..ApplicationsConfig::default()
    };
    debug_assert!(documents.sectors > applications::SECTORS && browser.sectors > cache.sectors());
    let processes: [Box<dyn Process>; 4] = [
        Box::new(System {
            area: system,
            sizes: Sizes::new(&table.system_bytes),
            rng: Rng::for_path(seed_of(0), &[pass]),
            now_ns: 0.0,
            reads: table.system_read_fraction,
            hot: table.system_hot_fraction,
            record: table.record_bytes / 512,
            record_at: RECORD_AT.min(BLOCK - table.record_bytes / 512),
            files: table.directory_files,
            popularity: Zipf::new(system.sectors / REGION, table.theta),
            order: Permutation::new(system.sectors / REGION, seed),
        }),
        Box::new(WebCache::new(&cache, browser, seed_of(1), pass)),
        Box::new(Applications::new(&office, documents, seed_of(2), pass)),
        Box::new(Copies {
            area: copies,
            rng: Rng::for_path(seed_of(3), &[pass]),
            now_ns: 0.0,
            reads: table.copy_read_fraction,
            most: table.copy_most_bytes / 512 / COPY_SECTORS,
            placement: table.copy_placement,
            space: (table.copy_space_bytes / 512).min(copies.sectors / 2) / COPY_SECTORS,
            next: 0,
        }),
    ];
    let mut partitions = [0; 4];
    for stream in &table.partition {
        partitions[*stream as usize] = table.partition_sector;
    }
    let weights = table.weights_by_name().map(|(_, weight)| weight);
    let sum: f64 = weights.iter().sum();
    let streams = processes.into_iter().zip(weights).map(|(process, weight)| PcActivity {
        process,
        share: weight / sum,
        made: 0,
        emitter: Emitter::default(),
    });
    Pc {
        streams: streams.collect(),
        made: 0,
        rng: Rng::for_path(seed, &[pass]),
        now_ns: 0.0,
        pauses: Pareto::new(table.pause_us * NS_PER_US, PAUSE_ALPHA),
        scatter,
        partitions,
        transfer: table.transfer_bytes / 512,
    }
}

keys! {
    /// Keys of kind `pc_general` alone.
    pub struct Keys {
        /// Keys of kind `pc_general`.
        pub pc_general: Option<PcConfig>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str =
        "A personal computer: browser, documents, operating system, copies. See the table `pc_general`.";
    const COMMON: &'static [&'static [&'static str]] = &[PLACED, &["page_quota"]];
    const CHANGES: &'static [&'static str] = &[r#"{"pc_general":{"browser":1}}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        self.pc_general.as_ref().map_or(Ok(()), PcConfig::validate)
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let table = self.pc_general.clone().unwrap_or_default();
        let range = common.address_range(capacity_bytes)?;
        table.fits(range)?;
        Ok(Plan::with_quota(common.page_quota, (table, range), |(table, range), seed, pass| {
            start(table, *range, seed, pass)
        }))
    }
}
