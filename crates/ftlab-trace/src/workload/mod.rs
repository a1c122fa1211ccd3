//! Workloads by description: the `[workload]` table, and the generators behind it.

mod disksim;
mod generate;
mod size;
mod volume;
mod zipf;

use std::path::Path;
use std::sync::Arc;

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::{Op, Request, RequestSource, SECTOR_BYTES, SourceError, SourceFactory};
use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::background::Background;
use crate::open::{OpenOptions, open};
use crate::shared::TraceCache;
use crate::transform::{self, Step};
use crate::volumes::Layout;
use disksim::{DiskSimStream, FOOTPRINT_BYTES};
use generate::{Arrivals, Generator, Picker, Shape};
pub use size::RequestBytes;
pub use volume::VolumeList;

/// A workload file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// Name in reports; a preset's file name.
    #[serde(default)]
    pub name: String,
    /// What the workload is, and where its numbers come from.
    #[serde(default)]
    pub description: String,
    /// The workload.
    pub workload: WorkloadConfig,
}

/// How addresses and operations are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadKind {
    /// Each request begins where the one before ended, and wraps around the footprint.
    Sequential,
    /// Every address is equally likely. Trims (`trim_fraction`) go to what is in use, equally likely, as in the
    /// models of trim in the literature; at first everything counts as in use, as on a drive that has been filled.
    Uniform,
    /// The address of rank k has probability proportional to k^-`theta`.
    Zipf,
    /// The first `hot_space_fraction` of the footprint gets `hot_access_fraction` of the requests.
    Hotcold,
    /// Uniform with probability `random_fraction`, else the next address of one sequential stream, which random
    /// requests do not move.
    Mix,
    /// The exact request streams of the validation of DiskSim's solid-state drive model: seeds, sizes (geometric,
    /// mean 1.58 pages of 4 KiB), arrivals (uniform, mean 0.5 ms) and addresses (3.6 GB) are fixed.
    Disksim,
}

/// Which of the streams of kind `disksim`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Every request anywhere.
    Random,
    /// One sequential stream, which jumps only at the end of the address space.
    Sequential,
}

/// Spans between arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interarrival {
    /// All requests arrive at time 0, for hosts that do not look at arrival times.
    Asap,
    /// Always the mean.
    Fixed,
    /// Exponential: arrivals at random, as of many independent users.
    #[default]
    Poisson,
    /// Uniform from 0 to twice the mean.
    Uniform,
}

/// Where the volumes of a trace lie in the address space of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Volumes {
    /// On top of each other.
    #[default]
    Overlay,
    /// One behind the other: in the order of their numbers, or with `volume_bytes` in that of `volume`, or else of
    /// their first requests.
    Concat,
}

/// Keys of traces that no generator has.
const TRACE_KEYS: [&str; 5] = ["format", "volume", "volumes", "volume_bytes", "skip_bad"];

impl WorkloadKind {
    /// All kinds.
    pub const ALL: [WorkloadKind; 6] = [
        WorkloadKind::Sequential,
        WorkloadKind::Uniform,
        WorkloadKind::Zipf,
        WorkloadKind::Hotcold,
        WorkloadKind::Mix,
        WorkloadKind::Disksim,
    ];

    /// The name used in files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            WorkloadKind::Sequential => "sequential",
            WorkloadKind::Uniform => "uniform",
            WorkloadKind::Zipf => "zipf",
            WorkloadKind::Hotcold => "hotcold",
            WorkloadKind::Mix => "mix",
            WorkloadKind::Disksim => "disksim",
        }
    }
}

/// Size in bytes, as a number or a string with a unit.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum SizeSchema {
    /// Bytes.
    Number(u64),
    /// A string with a unit.
    Text(String),
}

/// Time, as microseconds or a string with a unit.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) enum TimeSchema {
    /// Microseconds.
    Number(f64),
    /// A string with a unit.
    Text(String),
}

pub(crate) fn optional_micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    quantity::micros(deserializer).map(Some)
}

/// A workload: a `kind` of generator with its keys, or a `trace`. A key that the kind does not use is refused.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WorkloadConfig {
    /// How addresses and operations are chosen. Either this or `trace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<WorkloadKind>,
    /// Path of a trace file, taken from the current folder. Either this or `kind`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<String>,
    /// Format of the trace; recognised by its content when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Take only this volume (ASU, disk or device number) of the trace, or these: `[0, 3]`. All when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<VolumeList>,
    /// Where the volumes of the trace lie. `overlay` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volumes: Option<Volumes>,
    /// Volumes `concat`: size of the region of each volume. The trace is read once more to find sizes when absent.
    #[serde(deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub volume_bytes: Option<u64>,
    /// Bad records of the trace that are left out; the next one ends the run. 0 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skip_bad: Option<u64>,
    /// How many requests. 1,000,000 when absent; of a trace, all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// Bytes that requests address. The rest of the drive from `offset_bytes` when absent.
    #[serde(deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub footprint_bytes: Option<u64>,
    /// Where the footprint begins. 0 when absent.
    #[serde(deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub offset_bytes: Option<u64>,
    /// Share of requests that read. 0 when absent; what is no read, trim or flush is a write. Kind `disksim` takes 0 or 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_fraction: Option<f64>,
    /// Share of requests that trim. 0 when absent. Their addresses are drawn as those of writes, but see kind `uniform`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trim_fraction: Option<f64>,
    /// Share of requests that flush. 0 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_fraction: Option<f64>,
    /// Size of a request, or a table of sizes with weights: `{ "4KiB" = 3, "64KiB" = 1 }`. 4 KiB when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_bytes: Option<RequestBytes>,
    /// Requests begin at multiples of this. The smallest size when absent.
    #[serde(deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<SizeSchema>")]
    pub alignment_bytes: Option<u64>,
    /// Spans between arrivals. `poisson` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interarrival: Option<Interarrival>,
    /// Mean span between arrivals. 1000 (1,000 requests a second) when absent: most drives keep up with it.
    #[serde(deserialize_with = "optional_micros", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TimeSchema>")]
    pub mean_interarrival_us: Option<f64>,
    /// Arrivals a second: the other way to say `mean_interarrival_us`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_iops: Option<f64>,
    /// Streams: the footprint is cut into as many equal parts, each with a generator of its own, which take turns. Their
    /// requests carry the number of the stream. 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<u16>,
    /// Seed of all random choices. 1 when absent; the seed of a run replaces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Kind `zipf`: the exponent, above 0 and below 10. 0.99 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theta: Option<f64>,
    /// Kind `zipf`: whether ranks are scattered over the footprint rather than lie in order. True when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scramble: Option<bool>,
    /// Kind `hotcold`: share of the footprint that is hot. 0.2 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_space_fraction: Option<f64>,
    /// Kind `hotcold`: share of requests that go there. 0.8 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot_access_fraction: Option<f64>,
    /// Kind `mix`: share of requests that go anywhere. 0.5 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random_fraction: Option<f64>,
    /// Kind `disksim`: which stream. `random` when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// Steps that change the requests, in order: each begins with `step`, its name, and has the keys of that step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transform: Vec<Step>,
}

/// Requests of a workload that says no number.
pub const DEFAULT_REQUESTS: u64 = 1_000_000;
/// Size of a request in a workload that says none.
pub const DEFAULT_REQUEST_BYTES: u64 = 4096;
/// Mean span between arrivals in a workload that says none.
pub const DEFAULT_MEAN_INTERARRIVAL_US: f64 = 1000.0;
/// Seed of a workload that says none.
pub const DEFAULT_SEED: u64 = 1;
/// Simulated time is 64 bits of picoseconds, 213 days; random arrivals may be a little late.
const MAX_DAYS: f64 = 200.0;
const DEFAULT_THETA: f64 = 0.99;
const DEFAULT_HOT_SPACE: f64 = 0.2;
const DEFAULT_HOT_ACCESS: f64 = 0.8;
const DEFAULT_RANDOM: f64 = 0.5;

/// How the requests of a workload are made. None of it changes them.
#[derive(Debug, Clone, Default)]
pub struct Making {
    /// Traces are decoded once for all who name this; each reads for itself when absent.
    pub traces: Option<TraceCache>,
    /// Whether generators work on the thread that asks for requests, as is best where every core runs a simulation of
    /// its own. Long workloads are made on a thread of their own otherwise.
    pub in_line: bool,
}

/// Why a workload cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkloadError {
    /// Its description makes no sense, or does not fit the drive.
    Config(ConfigError),
    /// Its trace cannot be opened.
    Source(SourceError),
}

impl std::fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WorkloadError::Config(error) => error.fmt(f),
            WorkloadError::Source(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for WorkloadError {}

impl From<ConfigError> for WorkloadError {
    fn from(error: ConfigError) -> Self {
        WorkloadError::Config(error)
    }
}

impl From<SourceError> for WorkloadError {
    fn from(error: SourceError) -> Self {
        WorkloadError::Source(error)
    }
}

fn refuse<T>(
    key: &str,
    found: impl std::fmt::Display,
    expected: impl Into<String>,
) -> Result<T, ConfigError> {
    Err(ConfigError { key: format!("workload.{key}"), found: found.to_string(), expected: expected.into() })
}

const SECTOR: u64 = SECTOR_BYTES as u64;

impl WorkloadConfig {
    /// The keys that are given, with their values in words.
    fn given(&self) -> Vec<(&'static str, String)> {
        fn text<T: std::fmt::Debug>(value: Option<&T>) -> Option<String> {
            value.map(|value| format!("{value:?}"))
        }
        let all = [
            ("kind", text(self.kind.as_ref())),
            ("trace", text(self.trace.as_ref())),
            ("format", text(self.format.as_ref())),
            ("volume", text(self.volume.as_ref())),
            ("volumes", text(self.volumes.as_ref())),
            ("volume_bytes", text(self.volume_bytes.as_ref())),
            ("skip_bad", text(self.skip_bad.as_ref())),
            ("requests", text(self.requests.as_ref())),
            ("footprint_bytes", text(self.footprint_bytes.as_ref())),
            ("offset_bytes", text(self.offset_bytes.as_ref())),
            ("read_fraction", text(self.read_fraction.as_ref())),
            ("trim_fraction", text(self.trim_fraction.as_ref())),
            ("flush_fraction", text(self.flush_fraction.as_ref())),
            ("request_bytes", text(self.request_bytes.as_ref())),
            ("alignment_bytes", text(self.alignment_bytes.as_ref())),
            ("interarrival", text(self.interarrival.as_ref())),
            ("mean_interarrival_us", text(self.mean_interarrival_us.as_ref())),
            ("rate_iops", text(self.rate_iops.as_ref())),
            ("streams", text(self.streams.as_ref())),
            ("seed", text(self.seed.as_ref())),
            ("theta", text(self.theta.as_ref())),
            ("scramble", text(self.scramble.as_ref())),
            ("hot_space_fraction", text(self.hot_space_fraction.as_ref())),
            ("hot_access_fraction", text(self.hot_access_fraction.as_ref())),
            ("random_fraction", text(self.random_fraction.as_ref())),
            ("access", text(self.access.as_ref())),
        ];
        all.into_iter().filter_map(|(key, value)| value.map(|value| (key, value))).collect()
    }

    /// Refuse keys that would have no effect.
    fn validate_keys(&self) -> Result<(), ConfigError> {
        let usable = |key: &str| match self.kind {
            None => TRACE_KEYS.contains(&key) || matches!(key, "trace" | "requests"),
            Some(WorkloadKind::Disksim) => matches!(key, "kind" | "requests" | "read_fraction" | "access"),
            Some(kind) => match key {
                "trace" | "access" => false,
                key if TRACE_KEYS.contains(&key) => false,
                "theta" | "scramble" => kind == WorkloadKind::Zipf,
                "hot_space_fraction" | "hot_access_fraction" => kind == WorkloadKind::Hotcold,
                "random_fraction" => kind == WorkloadKind::Mix,
                _ => true,
            },
        };
        for (key, value) in self.given() {
            if !usable(key) {
                let user = self.kind.map_or("a trace".into(), |kind| format!("kind {:?}", kind.name()));
                return refuse(key, value, format!("{user} does not use this key; leave it out"));
            }
        }
        Ok(())
    }

    /// Check what can be checked without a drive.
    ///
    /// # Errors
    /// The first key that makes no sense, with what was found and what was expected.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match (self.kind, &self.trace) {
            (None, None) => {
                let kinds = WorkloadKind::ALL.map(WorkloadKind::name).join(", ");
                return refuse("kind", "nothing", format!("state a kind ({kinds}) or a trace"));
            }
            (Some(kind), Some(trace)) => {
                return refuse(
                    "trace",
                    format!("{trace:?}"),
                    format!("kind = {:?} is given too: state one", kind.name()),
                );
            }
            _ => {}
        }
        self.validate_keys()?;
        if self.requests == Some(0) {
            return refuse("requests", 0, "must be at least 1");
        }
        if let Some(bytes) = self.volume_bytes.filter(|_| self.volumes != Some(Volumes::Concat)) {
            return refuse(
                "volume_bytes",
                bytes,
                "is the size of regions: state volumes = \"concat\", or leave it out",
            );
        }
        if let Some(bytes) = self.volume_bytes.filter(|bytes| *bytes == 0 || bytes % SECTOR != 0) {
            return refuse("volume_bytes", bytes, "must be above 0 and a multiple of 512 bytes");
        }
        for (index, step) in self.transform.iter().enumerate() {
            step.validate(&format!("workload.transform[{index}]"))?;
        }
        self.validate_fractions()?;
        self.validate_sizes()?;
        self.validate_arrivals()
    }

    fn validate_fractions(&self) -> Result<(), ConfigError> {
        for (key, value) in [
            ("read_fraction", self.read_fraction),
            ("trim_fraction", self.trim_fraction),
            ("flush_fraction", self.flush_fraction),
            ("hot_access_fraction", self.hot_access_fraction),
            ("random_fraction", self.random_fraction),
        ] {
            if let Some(value) = value.filter(|value| !(0.0..=1.0).contains(value)) {
                return refuse(key, value, "must be a fraction from 0 to 1");
            }
        }
        let sum = self.fractions().iter().sum::<f64>();
        if sum > 1.0 + 1e-9 {
            return refuse("read_fraction", sum, "read, trim and flush fractions must not exceed 1 together");
        }
        if let Some(share) = self.hot_space_fraction.filter(|share| !(*share > 0.0 && *share < 1.0)) {
            return refuse("hot_space_fraction", share, "must be a fraction above 0 and below 1");
        }
        if let Some(theta) = self.theta.filter(|theta| !(*theta > 0.0 && *theta < 10.0)) {
            return refuse("theta", theta, "must be above 0 and below 10");
        }
        let disksim = self.kind == Some(WorkloadKind::Disksim);
        if let Some(share) = self.read_fraction.filter(|share| disksim && *share > 0.0 && *share < 1.0) {
            let expected = "must be 0 or 1: the streams of kind \"disksim\" only write or only read";
            return refuse("read_fraction", share, expected);
        }
        Ok(())
    }

    fn validate_sizes(&self) -> Result<(), ConfigError> {
        let sizes = self.sizes();
        for (bytes, weight) in &sizes {
            if *bytes == 0 || bytes % SECTOR != 0 || *bytes > 1 << 40 {
                return refuse(
                    "request_bytes",
                    bytes,
                    "must be a multiple of 512 bytes, above 0 and at most 1 TiB",
                );
            }
            if !(weight.is_finite() && *weight > 0.0) {
                return refuse("request_bytes", weight, "weights must be above 0");
            }
        }
        if sizes.is_empty() || sizes.len() > 1000 {
            return refuse("request_bytes", sizes.len(), "must name from 1 to 1000 sizes");
        }
        for (key, value) in
            [("alignment_bytes", self.alignment_bytes), ("footprint_bytes", self.footprint_bytes)]
        {
            if let Some(bytes) = value.filter(|bytes| *bytes == 0 || bytes % SECTOR != 0) {
                return refuse(key, bytes, "must be a multiple of 512 bytes, above 0");
            }
        }
        if let Some(bytes) = self.offset_bytes.filter(|bytes| bytes % SECTOR != 0) {
            return refuse("offset_bytes", bytes, "must be a multiple of 512 bytes");
        }
        if self.streams == Some(0) {
            return refuse("streams", 0, "must be at least 1");
        }
        let fixed = sizes.len() == 1 && self.alignment() == sizes[0].0;
        if self.trims_in_use() && !fixed {
            let expected = "kind \"uniform\" with trims needs one request size, with alignment_bytes the same: \
                            what is in use is counted in requests";
            return refuse("request_bytes", format!("{sizes:?} aligned to {}", self.alignment()), expected);
        }
        Ok(())
    }

    fn validate_arrivals(&self) -> Result<(), ConfigError> {
        const YEAR_US: f64 = 3.2e13;
        if let (Some(mean), Some(_)) = (self.mean_interarrival_us, self.rate_iops) {
            return refuse("mean_interarrival_us", mean, "rate_iops is given too: state one");
        }
        if self.interarrival == Some(Interarrival::Asap) {
            for (key, value) in
                [("mean_interarrival_us", self.mean_interarrival_us), ("rate_iops", self.rate_iops)]
            {
                if let Some(value) = value {
                    return refuse(key, value, "interarrival = \"asap\" does not use this key; leave it out");
                }
            }
        }
        if let Some(mean) = self.mean_interarrival_us.filter(|mean| !(*mean > 0.0 && *mean < YEAR_US)) {
            return refuse("mean_interarrival_us", mean, "must be above 0 and below a year");
        }
        if let Some(rate) = self.rate_iops.filter(|rate| !(*rate >= 1e-6 && *rate <= 1e12)) {
            return refuse("rate_iops", rate, "must be from 0.000001 to 10^12 requests a second");
        }
        let days = self.mean_interarrival_us() * self.requests.unwrap_or(DEFAULT_REQUESTS) as f64 / 86.4e9;
        let timed = self.kind.is_some_and(|kind| kind != WorkloadKind::Disksim);
        if timed && self.interarrival != Some(Interarrival::Asap) && days > MAX_DAYS {
            let expected = format!(
                "the last request would arrive after {days:.0} days; simulated time ends after {MAX_DAYS}"
            );
            return refuse("mean_interarrival_us", self.mean_interarrival_us(), expected);
        }
        Ok(())
    }

    fn mean_interarrival_us(&self) -> f64 {
        let by_rate = self.rate_iops.map(|rate| 1e6 / rate);
        by_rate.or(self.mean_interarrival_us).unwrap_or(DEFAULT_MEAN_INTERARRIVAL_US)
    }

    /// Shares of reads, trims and flushes.
    fn fractions(&self) -> [f64; 3] {
        [self.read_fraction, self.trim_fraction, self.flush_fraction].map(|share| share.unwrap_or(0.0))
    }

    fn sizes(&self) -> Vec<(u64, f64)> {
        match &self.request_bytes {
            None => vec![(DEFAULT_REQUEST_BYTES, 1.0)],
            Some(RequestBytes::Fixed(bytes)) => vec![(*bytes, 1.0)],
            Some(RequestBytes::Weighted(sizes)) => sizes.clone(),
        }
    }

    fn alignment(&self) -> u64 {
        let smallest = self.sizes().iter().map(|(bytes, _)| *bytes).min();
        self.alignment_bytes.or(smallest).unwrap_or(DEFAULT_REQUEST_BYTES)
    }

    fn trims_in_use(&self) -> bool {
        self.kind == Some(WorkloadKind::Uniform) && self.fractions()[1] > 0.0
    }

    /// How its trace is read.
    fn open_options(&self) -> OpenOptions {
        let layout = match self.volumes.unwrap_or_default() {
            Volumes::Overlay => Layout::Overlay,
            Volumes::Concat => Layout::Concat { volume_bytes: self.volume_bytes },
        };
        let volumes = self.volume.clone().map_or(Vec::new(), |VolumeList(volumes)| volumes);
        OpenOptions { format: self.format.clone(), volumes, layout, skip_bad: self.skip_bad.unwrap_or(0) }
    }

    /// What makes the requests, for a drive of `capacity_bytes`. `seed` and `requests` replace those of the
    /// description; a trace and the fixed streams of kind `disksim` have no seed. Where there are steps of `transform`,
    /// `requests` counts what comes out of them, and the description's what goes in.
    ///
    /// # Errors
    /// When the description makes no sense or does not fit the drive, or the trace cannot be opened.
    pub fn factory(
        &self,
        capacity_bytes: u64,
        seed: Option<u64>,
        requests: Option<u64>,
    ) -> Result<Arc<dyn SourceFactory>, WorkloadError> {
        self.factory_by(capacity_bytes, seed, requests, &Making::default())
    }

    /// As [`factory`](Self::factory), and says how the requests are made.
    ///
    /// # Errors
    /// As [`factory`](Self::factory).
    pub fn factory_by(
        &self,
        capacity_bytes: u64,
        seed: Option<u64>,
        requests: Option<u64>,
        making: &Making,
    ) -> Result<Arc<dyn SourceFactory>, WorkloadError> {
        let mut config = self.clone();
        config.requests = requests.or(config.requests);
        if self.transform.is_empty() {
            return config.untransformed(capacity_bytes, seed, making);
        }
        // Steps may drop requests or add some: what they are given is not what is asked for.
        if self.trace.is_some() {
            config.requests = self.requests;
        } else if let Some(stated) = requests {
            config.requests = Some(stated.max(self.requests.unwrap_or(DEFAULT_REQUESTS)));
        }
        let whole =
            transform::transformed(config.untransformed(capacity_bytes, seed, making)?, &self.transform);
        Ok(match requests {
            None => whole,
            Some(requests) => Arc::new(Limited { inner: whole, requests }),
        })
    }

    /// As [`factory`](Self::factory), before the steps of `transform`.
    fn untransformed(
        &self,
        capacity_bytes: u64,
        seed: Option<u64>,
        making: &Making,
    ) -> Result<Arc<dyn SourceFactory>, WorkloadError> {
        self.validate()?;
        if let Some(path) = &self.trace {
            let options = self.open_options();
            let path = Path::new(path);
            let inner: Arc<dyn SourceFactory> = match &making.traces {
                Some(cache) => Arc::new(cache.open(path, &options)?),
                None => Arc::new(open(path, &options)?),
            };
            return Ok(match self.requests {
                None => inner,
                Some(requests) => Arc::new(Limited { inner, requests }),
            });
        }
        let requests = self.requests.unwrap_or(DEFAULT_REQUESTS);
        if self.kind == Some(WorkloadKind::Disksim) {
            if capacity_bytes < FOOTPRINT_BYTES {
                let expected = format!(
                    "kind \"disksim\" addresses {FOOTPRINT_BYTES} bytes; the drive has {capacity_bytes}"
                );
                refuse::<()>("kind", "\"disksim\"", expected)?;
            }
            let op = if self.fractions()[0] > 0.0 { Op::Read } else { Op::Write };
            let sequential = self.access == Some(Access::Sequential);
            return Ok(Arc::new(DiskSimFactory { sequential, op, requests, in_line: making.in_line }));
        }
        let seed = seed.or(self.seed).unwrap_or(DEFAULT_SEED);
        let in_line = making.in_line;
        Ok(Arc::new(GeneratorFactory { shape: self.shape(capacity_bytes)?, seed, requests, in_line }))
    }

    /// The generator, with every default filled in.
    fn shape(&self, capacity_bytes: u64) -> Result<Shape, ConfigError> {
        let (sizes, alignment) = (self.sizes(), self.alignment());
        let streams = u64::from(self.streams.unwrap_or(1));
        let offset = self.offset_bytes.unwrap_or(0);
        let room = capacity_bytes.saturating_sub(offset) / SECTOR * SECTOR;
        if room == 0 {
            return refuse("offset_bytes", offset, format!("the drive has only {capacity_bytes} bytes"));
        }
        if let Some(footprint) = self.footprint_bytes.filter(|footprint| *footprint > room) {
            let expected =
                format!("only {room} bytes follow offset_bytes on a drive of {capacity_bytes} bytes");
            return refuse("footprint_bytes", footprint, expected);
        }
        let footprint = self.footprint_bytes.unwrap_or(room);
        let part = footprint / streams / SECTOR * SECTOR;
        let largest = sizes.iter().map(|(bytes, _)| *bytes).max().unwrap_or(alignment);
        if largest > part {
            let expected = format!("a request must fit the footprint of a stream, which has {part} bytes");
            return refuse("request_bytes", largest, expected);
        }
        let slots = part.div_ceil(alignment).max(1);
        if self.trims_in_use() && part / alignment >= u64::from(u32::MAX) {
            let expected =
                "what is in use is counted in 32 bits: take larger requests or a smaller footprint";
            return refuse("footprint_bytes", footprint, expected);
        }
        let picker = match self.kind {
            Some(WorkloadKind::Zipf) => {
                Picker::zipf(slots, self.theta.unwrap_or(DEFAULT_THETA), self.scramble.unwrap_or(true))
            }
            Some(WorkloadKind::Hotcold) => Picker::hot_cold(
                slots,
                self.hot_space_fraction.unwrap_or(DEFAULT_HOT_SPACE),
                self.hot_access_fraction.unwrap_or(DEFAULT_HOT_ACCESS),
            ),
            Some(WorkloadKind::Mix) => Picker::Mix { random: self.random_fraction.unwrap_or(DEFAULT_RANDOM) },
            Some(WorkloadKind::Sequential) => Picker::Sequential,
            _ if self.trims_in_use() => Picker::UniformInUse,
            _ => Picker::Uniform,
        };
        let mean_ns = self.mean_interarrival_us() * 1000.0;
        let [reads, trims, flushes] = self.fractions();
        Ok(Shape {
            offset_sectors: offset / SECTOR,
            part_sectors: part / SECTOR,
            alignment_sectors: alignment / SECTOR,
            sizes: sizes.iter().map(|(bytes, weight)| ((bytes / SECTOR) as u32, *weight)).collect(),
            reads,
            trims,
            flushes,
            picker,
            arrivals: Arrivals { kind: self.interarrival.unwrap_or_default(), mean_ns },
            streams: self.streams.unwrap_or(1),
        })
    }
}

struct GeneratorFactory {
    shape: Shape,
    seed: u64,
    requests: u64,
    in_line: bool,
}

/// Fewest requests of a pass that ages a drive: a short workload does not start over again and again.
const AGING_REQUESTS: u64 = 1 << 22;

impl SourceFactory for GeneratorFactory {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let requests = if pass == 0 { self.requests } else { self.requests.max(AGING_REQUESTS) };
        beside(self.in_line, requests, Generator::new(&self.shape, self.seed, pass, requests))
    }
}

/// From so many requests on, a workload is made on a thread of its own, beside the simulation.
const REQUESTS_WORTH_A_THREAD: u64 = 1 << 18;

fn beside(
    in_line: bool,
    requests: u64,
    generator: impl RequestSource + 'static,
) -> Result<Box<dyn RequestSource>, SourceError> {
    if in_line || requests < REQUESTS_WORTH_A_THREAD {
        return Ok(Box::new(generator));
    }
    Ok(Box::new(Background::spawn("workload".into(), Box::new(generator), Arc::default())?))
}

struct DiskSimFactory {
    sequential: bool,
    op: Op,
    requests: u64,
    in_line: bool,
}

impl SourceFactory for DiskSimFactory {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        beside(self.in_line, self.requests, DiskSimStream::new(self.sequential, self.op, self.requests, pass))
    }
}

/// The first requests of another workload.
struct Limited {
    inner: Arc<dyn SourceFactory>,
    requests: u64,
}

impl SourceFactory for Limited {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        Ok(Box::new(LimitedSource {
            inner: self.inner.open(pass)?,
            limit: self.requests,
            left: self.requests,
        }))
    }
}

struct LimitedSource {
    inner: Box<dyn RequestSource>,
    limit: u64,
    left: u64,
}

impl RequestSource for LimitedSource {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let max = self.left.min(max as u64) as usize;
        if max == 0 {
            return Ok(0);
        }
        let count = self.inner.fill(out, max)?;
        self.left -= count as u64;
        Ok(count)
    }

    fn total_requests(&self) -> Option<u64> {
        self.inner.total_requests().map(|total| total.min(self.limit))
    }

    fn fraction_done(&self) -> Option<f64> {
        let by_count = (self.limit - self.left) as f64 / self.limit as f64;
        Some(self.inner.fraction_done().map_or(by_count, |share| share.max(by_count)))
    }

    fn skipped_records(&self) -> u64 {
        self.inner.skipped_records()
    }
}

#[cfg(test)]
mod tests;
