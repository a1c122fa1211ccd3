//! A personal computer, by mechanism: one user who browses, works on documents and copies files, and an operating
//! system that reads and writes between.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::applications::{self, Application, Applications, ApplicationsConfig};
use super::layout::Scatter;
use super::process::{Actor, Area, BLOCK, NS_PER_US, Script, chance, geometric, pareto};
use super::refuse;
use super::size::{RequestBytes, SizeClass, Sizes};
use super::web::{WebCache, WebCacheConfig};
use super::zipf::{Permutation, Zipf};
use crate::rng::Rng;

/// Keys of kind `pc_general`. Requests carry the number of what makes them as stream: 0 for the operating system, 1 for
/// the browser, 2 for documents, 3 for copies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PcConfig {
    /// Bytes that are used at all, in regions of 4 MiB that lie scattered over the footprint. 12 GiB when absent.
    #[serde(deserialize_with = "quantity::bytes")]
    pub active_bytes: u64,
    /// First sector of the partition that all but the copies use: 63 on old systems, where nothing begins at a multiple of
    /// 4 KiB. Copies lie on a second partition, which begins at one. 0 when absent.
    pub partition_sector: u64,
    /// Weight of the requests of the browser. 15 when absent.
    pub browser: f64,
    /// Weight of the requests of documents. 25 when absent.
    pub documents: f64,
    /// Weight of the requests of the operating system. 35 when absent.
    pub system: f64,
    /// Weight of the requests of copies. 25 when absent.
    pub copies: f64,
    /// Share of the operating system's bursts that read a file; the others write one. 0.3 when absent.
    pub system_read_fraction: f64,
    /// Share of the operating system's bursts that only update a directory. 0.4 when absent.
    pub system_hot_fraction: f64,
    /// Share of copied requests that read; a copy reads what it writes, unless it comes from elsewhere. 0.4 when absent.
    pub copy_read_fraction: f64,
    /// Mean time between two bursts of work, by Pareto's law. 2 s when absent.
    #[serde(deserialize_with = "quantity::micros")]
    pub pause_us: f64,
}

impl Default for PcConfig {
    fn default() -> Self {
        Self {
            active_bytes: 12 << 30,
            partition_sector: 0,
            browser: 15.0,
            documents: 25.0,
            system: 35.0,
            copies: 25.0,
            system_read_fraction: 0.3,
            system_hot_fraction: 0.4,
            copy_read_fraction: 0.4,
            pause_us: 2e6,
        }
    }
}

const REGION: u64 = 4 << 11;
/// Shares of the used space: operating system, browser, documents, copies.
const SPACE: [f64; 4] = [0.56, 0.14, 0.1, 0.2];
const BROWSER_CACHE: u64 = 320_000_000;
/// Bytes and weights of what the operating system reads and writes at once.
const SYSTEM_SIZES: [(u64, f64); 5] =
    [(4096, 62.0), (8192, 10.0), (16_384, 18.0), (32_768, 6.0), (65_536, 4.0)];
/// How unevenly files are used.
const THETA: f64 = 0.6;
/// Mean number of requests of the operating system to a file.
const FILE_REQUESTS: f64 = 5.0;
/// Pages by which a file could as well be longer.
const LONGER: u64 = 8;
/// A directory's record in sectors, and where in its region it is: the file follows behind it.
const RECORD: u64 = 2;
const RECORD_AT: u64 = 2;
const COPY_SECTORS: u64 = 128;
/// Files that are copied: 64 KiB to 1 MiB.
const COPY_MOST: u64 = 16;
const PAUSE_ALPHA: f64 = 1.5;
const GAP_NS: f64 = 1e6;

impl PcConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
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
            if !(weight.is_finite() && weight >= 0.0) {
                return refuse(&format!("pc_general.{key}"), weight, "must be a weight, 0 or more");
            }
        }
        if self.weights_by_name().iter().all(|(_, weight)| *weight == 0.0) {
            return refuse("pc_general.system", 0, "one of the weights must be above 0");
        }
        if self.active_bytes < 7 << 30 || self.active_bytes > 64 << 40 {
            return refuse("pc_general.active_bytes", self.active_bytes, "must be from 7 GiB to 64 TiB");
        }
        if self.partition_sector >= REGION {
            let expected = "must be below 8192: the partition begins in the first 4 MiB";
            return refuse("pc_general.partition_sector", self.partition_sector, expected);
        }
        if !(self.pause_us >= 0.001 && self.pause_us <= 1e12) {
            return refuse("pc_general.pause_us", self.pause_us, "must be from a nanosecond to 11 days");
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

    pub(super) fn fits(&self, area: Area) -> Result<(), ConfigError> {
        let needs = (self.active_bytes / 512).next_multiple_of(REGION) + REGION;
        if area.sectors < needs {
            let expected = format!("what is used needs {} bytes", needs * 512);
            return refuse("footprint_bytes", area.sectors * 512, expected);
        }
        Ok(())
    }
}

/// What the operating system does by itself: each region has a directory and, behind it, a file that is used from its
/// begin on.
struct System {
    area: Area,
    sizes: Sizes,
    rng: Rng,
    now_ns: f64,
    reads: f64,
    hot: f64,
    popularity: Zipf,
    order: Permutation,
}

impl System {
    fn push(&mut self, op: Op, lba: u64, sectors: u64, script: &mut Script) {
        self.now_ns += self.rng.exponential() * GAP_NS;
        script.push(self.now_ns, op, lba, sectors);
    }
}

impl Actor for System {
    fn act(&mut self, script: &mut Script) {
        let region = self.order.map(self.popularity.draw(&mut self.rng));
        let start = self.area.start + region * REGION;
        if chance(&mut self.rng, self.hot) {
            self.push(Op::Write, start + RECORD_AT, RECORD, script);
            return;
        }
        let op = if chance(&mut self.rng, self.reads) { Op::Read } else { Op::Write };
        self.push(Op::Read, start + RECORD_AT, RECORD, script);
        let mut at = start + BLOCK;
        for _ in 0..geometric(&mut self.rng, FILE_REQUESTS).min(40) {
            let sectors = u64::from(self.sizes.draw(&mut self.rng));
            self.push(op, at, sectors, script);
            at += sectors;
        }
        script.may_stretch(LONGER);
        // The time of access or of change.
        self.push(Op::Write, start + RECORD_AT, RECORD, script);
    }
}

/// Files that are copied from one place to another: read in parts of 64 KiB, then written.
struct Copies {
    area: Area,
    rng: Rng,
    now_ns: f64,
    reads: f64,
}

impl Actor for Copies {
    fn act(&mut self, script: &mut Script) {
        let parts = 1 + self.rng.below(COPY_MOST);
        let half = self.area.sectors / 2 / COPY_SECTORS;
        let from = self.area.start + self.rng.below(half - parts) * COPY_SECTORS;
        let to = self.area.start + (half + self.rng.below(half - parts)) * COPY_SECTORS;
        // Whether this copy reads at all, writes at all, or does both.
        let both = 2.0 * self.reads.min(1.0 - self.reads);
        let kind = self.rng.unit();
        let (reads, writes) = (kind < both || self.reads > 0.5, kind < both || self.reads <= 0.5);
        for (start, op) in [(from, Op::Read), (to, Op::Write)]
            .into_iter()
            .zip([reads, writes])
            .filter_map(|(step, done)| done.then_some(step))
        {
            for part in 0..parts {
                self.now_ns += GAP_NS;
                script.push(self.now_ns, op, start + part * COPY_SECTORS, COPY_SECTORS);
            }
        }
    }
}

struct Stream {
    actor: Box<dyn Actor>,
    share: f64,
    made: u64,
    script: Script,
}

/// One thing after the other; the shares of the streams hold at any time, to within a burst.
pub(super) struct Pc {
    streams: Vec<Stream>,
    made: u64,
    rng: Rng,
    now_ns: f64,
    pause_ns: f64,
    scatter: Scatter,
    partition: u64,
}

impl Actor for Pc {
    fn act(&mut self, script: &mut Script) {
        let behind = |stream: &Stream| stream.share * (self.made + 1) as f64 - stream.made as f64;
        let Some(index) = (0..self.streams.len())
            .max_by(|a, b| behind(&self.streams[*a]).total_cmp(&behind(&self.streams[*b])))
        else {
            return;
        };
        let stream = &mut self.streams[index];
        stream.script.clear();
        stream.actor.act(&mut stream.script);
        let Some(first) = stream.script.requests.first().map(|request| request.arrival_ns) else { return };
        self.now_ns += pareto(&mut self.rng, self.pause_ns, PAUSE_ALPHA);
        let begin = self.now_ns;
        let mut elastic = stream.script.elastic.iter().peekable();
        for (place, request) in stream.script.requests.iter().enumerate() {
            // Recordings of personal computers show neither flushes nor trims.
            if !matches!(request.op, Op::Read | Op::Write) {
                continue;
            }
            self.now_ns = begin + (request.arrival_ns - first) as f64;
            let sectors = u64::from(request.sectors);
            let shift = if index == COPIES { 0 } else { self.partition };
            script.requests.push(Request {
                arrival_ns: self.now_ns as u64,
                lba: self.scatter.map(request.lba, sectors + shift) + shift,
                stream: index as u16,
                ..*request
            });
            if let Some(elastic) = elastic.next_if(|elastic| elastic.index == place) {
                script.may_stretch(elastic.more);
            }
            stream.made += 1;
            self.made += 1;
        }
    }
}

const COPIES: usize = 3;

pub(super) fn start(table: &PcConfig, area: Area, seed: u64, pass: u64) -> Pc {
    let scatter = Scatter::new(table.active_bytes / 512, REGION, area, &mut Rng::new(seed, &[u64::MAX]));
    let mut rest = Area { start: 0, sectors: scatter.sectors() };
    let [system, browser, documents, copies] =
        SPACE.map(|share| rest.take((scatter.sectors() as f64 * share) as u64 / REGION * REGION));
    let classes = SYSTEM_SIZES.map(|(bytes, weight)| SizeClass {
        min_bytes: bytes,
        max_bytes: bytes,
        step_bytes: bytes,
        weight,
    });
    let seed_of = |index: u64| Rng::new(seed, &[index]).next();
    let cache = WebCacheConfig { cache_bytes: BROWSER_CACHE, ..WebCacheConfig::default() };
    let office = ApplicationsConfig {
        applications: vec![Application::Word, Application::Excel, Application::Powerpoint],
        ..ApplicationsConfig::default()
    };
    debug_assert!(documents.sectors > applications::SECTORS && browser.sectors > cache.sectors());
    let actors: [Box<dyn Actor>; 4] = [
        Box::new(System {
            area: system,
            sizes: Sizes::new(&RequestBytes::Weighted(classes.to_vec())),
            rng: Rng::new(seed_of(0), &[pass]),
            now_ns: 0.0,
            reads: table.system_read_fraction,
            hot: table.system_hot_fraction,
            popularity: Zipf::new(system.sectors / REGION, THETA),
            order: Permutation::new(system.sectors / REGION, seed),
        }),
        Box::new(WebCache::new(&cache, browser, seed_of(1), pass)),
        Box::new(Applications::new(&office, documents, seed_of(2), pass)),
        Box::new(Copies {
            area: copies,
            rng: Rng::new(seed_of(3), &[pass]),
            now_ns: 0.0,
            reads: table.copy_read_fraction,
        }),
    ];
    let weights = table.weights_by_name().map(|(_, weight)| weight);
    let sum: f64 = weights.iter().sum();
    let streams = actors.into_iter().zip(weights).map(|(actor, weight)| Stream {
        actor,
        share: weight / sum,
        made: 0,
        script: Script::default(),
    });
    Pc {
        streams: streams.collect(),
        made: 0,
        rng: Rng::new(seed, &[pass]),
        now_ns: 0.0,
        pause_ns: table.pause_us * NS_PER_US,
        scatter,
        partition: table.partition_sector,
    }
}
