//! Workloads by description: the `[workload]` table, and the generators behind it.

mod applications;
mod client;
mod database;
mod disksim;
mod financial;
pub mod fit;
mod fitted;
pub(crate) mod fitted_model;
mod generate;
mod jesd219;
mod layout;
mod pc;
mod phone;
mod process;
mod quota;
pub(crate) mod regions;
mod search;
mod size;
pub mod stand_in;
mod volume;
mod web;
mod zipf;

use std::path::Path;
use std::sync::Arc;

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::{Op, Request, RequestSource, SECTOR_BYTES, SourceError, SourceFactory};
use ftlab_core::quantity;
use ftlab_trace::keys::{SizeSchema, TimeSchema, optional_micros};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use disksim::{DiskSimStream, FOOTPRINT_BYTES};
use fitted::{Fitted, FittedShape};
use ftlab_trace::transform::{self, Step};
use ftlab_trace::{Layout, OpenOptions, TraceCache, on_own_thread, open};
use generate::{Arrivals, Generator, Length, Phased, Picker, Shape, Zones};
use process::{Acted, Actor, Area, Hyperexponential, Merged};
use size::{Sizes, size_text};
use stand_in::{Calibration, StandIn};

pub use applications::{Application, ApplicationsConfig};
pub use database::DatabaseConfig;
pub use financial::FinancialConfig;
pub use fitted_model::{FittedModel, FittedPhase, FittedStream};
pub use jesd219::{Alignment, Jesd219Config, Profile};
pub use pc::{PcConfig, PcStream, Placement};
pub use phone::{Activity, Discard, MediaConfig, SqliteConfig};
pub use quota::PageQuota;
pub use search::SearchConfig;
pub use size::{RequestBytes, SizeClass};
pub use volume::VolumeList;
pub use web::WebCacheConfig;

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
    /// What the workload stands for, when it is made to take the place of a recording that not everybody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<StandIn>,
    /// Statistics that the workload must have; a test holds the presets to theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
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
    /// Requests that resemble a trace, drawn from what `ftlab trace fit` found in it (`fitted`).
    Fitted,
    /// A share 1 - `pareto_h` of the requests goes to a share `pareto_h` of the footprint, and so on inside it.
    Pareto,
    /// By a bell around the middle of the footprint.
    Normal,
    /// Uniform inside `zones`, each with its share of the requests.
    Zoned,
    /// The endurance workloads of JESD219: see the table `jesd219`.
    Jesd219,
    /// Several workloads at once, by arrival: see `parts`.
    Merge,
    /// A database under a TPC-C load: log, buffer pool, checkpoints. See the table `db`.
    Db,
    /// Applications of a smartphone that store in SQLite: see the table `phone_sqlite`.
    PhoneSqlite,
    /// Camera, installations and games of a smartphone: see the table `phone_media`.
    PhoneMedia,
    /// The disk cache of a web browser: see the table `web_cache`.
    WebCache,
    /// A personal computer: browser, documents, operating system, copies. See the table `pc_general`.
    PcGeneral,
    /// The index of a web search engine: see the table `web_search`.
    WebSearch,
    /// Transactions of a financial institution: see the table `oltp_financial`.
    OltpFinancial,
    /// A benchmark of office and picture applications: see the table `applications`.
    Applications,
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
    /// Many short spans and few long ones, with a coefficient of variation of `gap_cv`.
    Bursty,
}

/// Times with arrivals and times without, by turns; their lengths follow Pareto's law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Mean time with arrivals.
    #[serde(deserialize_with = "quantity::micros")]
    pub on_us: f64,
    /// Mean time without.
    #[serde(deserialize_with = "quantity::micros")]
    pub off_us: f64,
    /// Exponent of the times with arrivals, above 1; the smaller, the more they differ. 1.5 when absent.
    #[serde(default = "default_on_alpha")]
    pub on_alpha: f64,
    /// Exponent of the times without, above 1. 1.2 when absent.
    #[serde(default = "default_off_alpha")]
    pub off_alpha: f64,
}

const fn default_on_alpha() -> f64 {
    1.5
}

const fn default_off_alpha() -> f64 {
    1.2
}

/// A pause after every so many requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// Requests between two pauses.
    pub every_requests: u64,
    /// Length of a pause.
    #[serde(deserialize_with = "quantity::micros")]
    pub pause_us: f64,
}

/// A zone of kind `zoned`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Share of the requests.
    pub access_fraction: f64,
    /// Share of the footprint.
    pub space_fraction: f64,
}

/// A phase of a workload: keys that hold for a time or for a number of requests. Phases take turns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Phase {
    /// How many requests it lasts. Either this or `duration_us`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// How long it lasts. Either this or `requests`.
    #[serde(deserialize_with = "optional_micros", skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<f64>,
    /// What is different in it: keys of the workload with their values.
    pub with: Box<WorkloadConfig>,
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
    pub const ALL: [WorkloadKind; 20] = [
        WorkloadKind::Sequential,
        WorkloadKind::Uniform,
        WorkloadKind::Zipf,
        WorkloadKind::Hotcold,
        WorkloadKind::Mix,
        WorkloadKind::Disksim,
        WorkloadKind::Fitted,
        WorkloadKind::Pareto,
        WorkloadKind::Normal,
        WorkloadKind::Zoned,
        WorkloadKind::Jesd219,
        WorkloadKind::Merge,
        WorkloadKind::Db,
        WorkloadKind::PhoneSqlite,
        WorkloadKind::PhoneMedia,
        WorkloadKind::WebCache,
        WorkloadKind::PcGeneral,
        WorkloadKind::WebSearch,
        WorkloadKind::OltpFinancial,
        WorkloadKind::Applications,
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
            WorkloadKind::Fitted => "fitted",
            WorkloadKind::Pareto => "pareto",
            WorkloadKind::Normal => "normal",
            WorkloadKind::Zoned => "zoned",
            WorkloadKind::Jesd219 => "jesd219",
            WorkloadKind::Merge => "merge",
            WorkloadKind::Db => "db",
            WorkloadKind::PhoneSqlite => "phone_sqlite",
            WorkloadKind::PhoneMedia => "phone_media",
            WorkloadKind::WebCache => "web_cache",
            WorkloadKind::PcGeneral => "pc_general",
            WorkloadKind::WebSearch => "web_search",
            WorkloadKind::OltpFinancial => "oltp_financial",
            WorkloadKind::Applications => "applications",
        }
    }

    /// Whether requests are drawn one by one, by the keys of the workload itself.
    const fn is_drawn(self) -> bool {
        matches!(
            self,
            WorkloadKind::Sequential
                | WorkloadKind::Uniform
                | WorkloadKind::Zipf
                | WorkloadKind::Hotcold
                | WorkloadKind::Mix
                | WorkloadKind::Pareto
                | WorkloadKind::Normal
                | WorkloadKind::Zoned
        )
    }

    /// Whether this kind looks at a key.
    fn uses(self, key: &str) -> bool {
        match key {
            "kind" | "requests" => true,
            "trace" => false,
            key if TRACE_KEYS.contains(&key) => false,
            "access" => self == WorkloadKind::Disksim,
            "read_fraction" if self == WorkloadKind::Disksim => true,
            _ if self == WorkloadKind::Disksim => false,
            "seed" => true,
            "parts" => self == WorkloadKind::Merge,
            _ if self == WorkloadKind::Merge => false,
            "footprint_bytes" | "offset_bytes" => true,
            "theta" => self == WorkloadKind::Zipf,
            "scramble" => matches!(self, WorkloadKind::Zipf | WorkloadKind::Pareto),
            "hot_space_fraction" | "hot_access_fraction" => self == WorkloadKind::Hotcold,
            "random_fraction" => self == WorkloadKind::Mix,
            "pareto_h" => self == WorkloadKind::Pareto,
            "mean_fraction" | "deviation_fraction" => self == WorkloadKind::Normal,
            "zones" => self == WorkloadKind::Zoned,
            "page_quota" => {
                matches!(self, WorkloadKind::Db | WorkloadKind::PcGeneral | WorkloadKind::OltpFinancial)
            }
            "interarrival" | "gap_cv" | "mean_interarrival_us" | "rate_iops" | "bursts" | "think" => {
                self.is_drawn() || self == WorkloadKind::Jesd219
            }
            "read_fraction" | "trim_fraction" | "flush_fraction" if self == WorkloadKind::Jesd219 => true,
            _ if WorkloadKind::ALL.iter().any(|kind| kind.name() == key) => self.name() == key,
            _ => self.is_drawn(),
        }
    }
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
    /// Share of requests that trim. 0 when absent. Their addresses are drawn as those of writes, but see kind `uniform`:
    /// there, a trim becomes a write where nothing is in use, and goes anywhere if there are no writes at all.
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
    /// Kind `fitted`: what `ftlab trace fit` found in a trace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted: Option<Box<FittedModel>>,
    /// Steps that change the requests, in order: each begins with `step`, its name, and has the keys of that step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub transform: Vec<Step>,
    /// Sizes of reads, as `request_bytes`, which they take the place of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<RequestBytes>,
    /// Sizes of writes, as `request_bytes`, which they take the place of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_bytes: Option<RequestBytes>,
    /// Sizes of trims, as `request_bytes`, which they take the place of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trim_bytes: Option<RequestBytes>,
    /// With `interarrival = "bursty"`: standard deviation of spans / mean span, from 1 to 100. 3 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_cv: Option<f64>,
    /// Arrivals come in bursts; `mean_interarrival_us` and `rate_iops` stay those of the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    /// Pauses, on top of the spans between arrivals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// Phases that take turns, from the first one on. None when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phases: Option<Vec<Phase>>,
    /// Kind `pareto`: share of the footprint that gets all requests but as large a share. Above 0 and below 0.5; 0.2
    /// (80 % to 20 %) when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pareto_h: Option<f64>,
    /// Kind `normal`: where in the footprint the middle of the bell is. 0.5 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_fraction: Option<f64>,
    /// Kind `normal`: standard deviation as a share of the footprint. 0.1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation_fraction: Option<f64>,
    /// Kind `zoned`: zones from the begin of the footprint on. Shares of requests and of space each add up to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zones: Option<Vec<Zone>>,
    /// Kind `merge`: the workloads; each has arrivals of its own, and none has `requests` or a `trace`. Requests carry
    /// the number of their part as stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<Vec<WorkloadConfig>>,
    /// Keys of kind `jesd219`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jesd219: Option<Jesd219Config>,
    /// Keys of kind `db`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub db: Option<DatabaseConfig>,
    /// Keys of kind `phone_sqlite`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phone_sqlite: Option<SqliteConfig>,
    /// Keys of kind `phone_media`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phone_media: Option<MediaConfig>,
    /// Keys of kind `web_cache`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_cache: Option<WebCacheConfig>,
    /// Keys of kind `pc_general`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pc_general: Option<PcConfig>,
    /// Keys of kind `web_search`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub web_search: Option<SearchConfig>,
    /// Keys of kind `oltp_financial`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oltp_financial: Option<FinancialConfig>,
    /// Keys of kind `applications`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applications: Option<ApplicationsConfig>,
    /// Kinds `db`, `pc_general` and `oltp_financial`: how many page accesses so many requests are, exactly. What the
    /// mechanism makes when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_quota: Option<PageQuota>,
}

/// Does something with every key of a workload.
macro_rules! every_key {
    ($action:ident) => {
        $action!(
            kind,
            trace,
            format,
            volume,
            volumes,
            volume_bytes,
            skip_bad,
            requests,
            footprint_bytes,
            offset_bytes,
            read_fraction,
            trim_fraction,
            flush_fraction,
            request_bytes,
            alignment_bytes,
            interarrival,
            mean_interarrival_us,
            rate_iops,
            streams,
            seed,
            theta,
            scramble,
            hot_space_fraction,
            hot_access_fraction,
            random_fraction,
            access,
            fitted,
            read_bytes,
            write_bytes,
            trim_bytes,
            gap_cv,
            bursts,
            think,
            phases,
            pareto_h,
            mean_fraction,
            deviation_fraction,
            zones,
            parts,
            jesd219,
            db,
            phone_sqlite,
            phone_media,
            web_cache,
            pc_general,
            web_search,
            oltp_financial,
            applications,
            page_quota
        )
    };
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
const DEFAULT_GAP_CV: f64 = 3.0;
const DEFAULT_PARETO_H: f64 = 0.2;
const DEFAULT_MEAN_FRACTION: f64 = 0.5;
const DEFAULT_DEVIATION: f64 = 0.1;

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

/// A value as a workload file says it; tables with more than a few keys are not shown.
fn as_in_file(value: &impl Serialize) -> String {
    fn text(value: &serde_json::Value) -> String {
        match value {
            serde_json::Value::Array(values) => {
                format!("[{}]", values.iter().map(text).collect::<Vec<_>>().join(", "))
            }
            serde_json::Value::Object(table) if table.len() > 4 => "{...}".into(),
            serde_json::Value::Object(table) => {
                let entries: Vec<_> =
                    table.iter().map(|(key, value)| format!("{key} = {}", text(value))).collect();
                format!("{{ {} }}", entries.join(", "))
            }
            scalar => scalar.to_string(),
        }
    }
    serde_json::to_value(value).map_or_else(|error| error.to_string(), |value| text(&value))
}

const SECTOR: u64 = SECTOR_BYTES as u64;

impl WorkloadConfig {
    /// The keys that are given, with their values in words.
    fn given(&self) -> Vec<(&'static str, String)> {
        fn text<T: Serialize>(value: Option<&T>) -> Option<String> {
            value.map(as_in_file)
        }
        macro_rules! list {
            ($($key:ident),*) => { [$((stringify!($key), text(self.$key.as_ref()))),*] };
        }
        let all = every_key!(list);
        let shown = |key: &str, value: String| if key == "fitted" { "a model".into() } else { value };
        all.into_iter().filter_map(|(key, value)| value.map(|value| (key, shown(key, value)))).collect()
    }

    /// These keys laid over those of `base`. Keys of `base` that the kind does not use are left out, and so is what
    /// says the same in another way.
    fn over(&self, base: &WorkloadConfig) -> WorkloadConfig {
        let kind = self.kind.or(base.kind);
        let rate = self.rate_iops.is_some() || self.mean_interarrival_us.is_some();
        let keep = |key: &str| {
            kind.is_none_or(|kind| kind.uses(key))
                && !(rate && matches!(key, "rate_iops" | "mean_interarrival_us"))
                && !(self.request_bytes.is_some()
                    && matches!(key, "read_bytes" | "write_bytes" | "trim_bytes"))
                && key != "phases"
        };
        macro_rules! lay {
            ($($key:ident),*) => {
                WorkloadConfig {
                    $($key: self.$key.clone().or_else(|| {
                        base.$key.clone().filter(|_| keep(stringify!($key)))
                    }),)*
                    transform: Vec::new(),
                }
            };
        }
        every_key!(lay)
    }

    /// Refuse keys that would have no effect.
    fn validate_keys(&self) -> Result<(), ConfigError> {
        let usable = |key: &str| match self.kind {
            None => TRACE_KEYS.contains(&key) || matches!(key, "trace" | "requests"),
            Some(kind) => kind.uses(key),
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
        if self.phases.is_none() {
            self.validate_own_sizes()?;
        }
        self.validate_values()
    }

    /// Sizes of operations that are never made would have no effect.
    fn validate_own_sizes(&self) -> Result<(), ConfigError> {
        let [reads, trims, flushes] = self.fractions();
        let writes = 1.0 - reads - trims - flushes;
        for (key, sizes, share) in [
            ("read_bytes", &self.read_bytes, reads),
            ("write_bytes", &self.write_bytes, writes),
            ("trim_bytes", &self.trim_bytes, trims),
        ] {
            if let Some(sizes) = sizes
                && share <= 1e-9
            {
                return refuse(key, sizes, "there are no such requests; leave it out");
            }
        }
        Ok(())
    }

    fn validate_values(&self) -> Result<(), ConfigError> {
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
        self.validate_fitted()?;
        self.validate_fractions()?;
        self.validate_zones()?;
        self.validate_sizes()?;
        self.validate_arrivals()?;
        self.validate_tables()?;
        self.validate_phases()?;
        self.validate_parts()
    }

    fn validate_zones(&self) -> Result<(), ConfigError> {
        if self.kind != Some(WorkloadKind::Zoned) {
            return Ok(());
        }
        let zones = self.zones.as_deref().unwrap_or_default();
        if zones.is_empty() || zones.len() > 1000 {
            return refuse("zones", zones.len(), "kind \"zoned\" needs from 1 to 1000 zones");
        }
        for (key, shares) in [
            ("access_fraction", zones.iter().map(|zone| zone.access_fraction).collect::<Vec<f64>>()),
            ("space_fraction", zones.iter().map(|zone| zone.space_fraction).collect()),
        ] {
            if let Some(share) = shares.iter().find(|share| !(**share > 0.0 && **share <= 1.0)) {
                return refuse("zones", share, format!("{key} must be above 0 and at most 1"));
            }
            let sum: f64 = shares.iter().sum();
            if (sum - 1.0).abs() > 1e-6 {
                return refuse("zones", sum, format!("the zones' {key} must add up to 1"));
            }
        }
        Ok(())
    }

    /// The tables of the kinds that have one.
    fn validate_tables(&self) -> Result<(), ConfigError> {
        if self.kind == Some(WorkloadKind::Jesd219) {
            self.jesd219.clone().unwrap_or_default().validate(self)?;
        }
        if let Some(table) = &self.db {
            table.validate()?;
        }
        if let Some(table) = &self.phone_sqlite {
            table.validate()?;
        }
        if let Some(table) = &self.phone_media {
            table.validate()?;
        }
        if let Some(table) = &self.web_cache {
            table.validate()?;
        }
        if let Some(table) = &self.pc_general {
            table.validate()?;
        }
        if let Some(table) = &self.web_search {
            table.validate()?;
        }
        if let Some(table) = &self.oltp_financial {
            table.validate()?;
        }
        if let Some(table) = &self.applications {
            table.validate()?;
        }
        if let Some(quota) = &self.page_quota {
            quota.validate()?;
        }
        Ok(())
    }

    fn validate_phases(&self) -> Result<(), ConfigError> {
        let Some(phases) = &self.phases else { return Ok(()) };
        if phases.is_empty() || phases.len() > 1000 {
            return refuse("phases", phases.len(), "must name from 1 to 1000 phases");
        }
        let mut requests_a_round = 0.0;
        for (index, phase) in phases.iter().enumerate() {
            let key = |name: &str| format!("phases[{index}].{name}");
            for (name, _) in phase.with.given() {
                if matches!(
                    name,
                    "requests" | "trace" | "format" | "volume" | "seed" | "streams" | "phases" | "parts"
                ) {
                    return refuse(
                        &key("with"),
                        name,
                        "holds for the whole workload and cannot change with a phase",
                    );
                }
            }
            if !phase.with.transform.is_empty() {
                return refuse(&key("with.transform"), "steps", "steps are for the whole workload");
            }
            let merged = phase.with.over(self);
            if !merged.kind.is_some_and(WorkloadKind::is_drawn) {
                return refuse(
                    &key("with.kind"),
                    merged.kind.map_or("nothing", WorkloadKind::name),
                    "a phase cannot be of this kind",
                );
            }
            match (phase.requests, phase.duration_us) {
                (Some(0), None) => return refuse(&key("requests"), 0, "must be at least 1"),
                (Some(requests), None) => requests_a_round += requests as f64,
                (None, Some(us)) if us >= 0.001 => {
                    requests_a_round += us / merged.mean_us_with_pauses();
                    if merged.interarrival == Some(Interarrival::Asap) {
                        return refuse(
                            &key("duration_us"),
                            us,
                            "requests that arrive at once take no time: state requests",
                        );
                    }
                }
                (None, Some(us)) => return refuse(&key("duration_us"), us, "must be at least a nanosecond"),
                _ => return refuse(&key("requests"), "both or none", "state either requests or duration_us"),
            }
            merged.validate_keys().and_then(|()| merged.validate_values()).map_err(|error| {
                let inner = error.key.strip_prefix("workload.").unwrap_or(&error.key).to_owned();
                ConfigError { key: format!("workload.{}", key(&format!("with.{inner}"))), ..error }
            })?;
        }
        if requests_a_round < 0.001 {
            let expected = "the phases are so short that hardly any request comes in a thousand rounds";
            return refuse("phases", requests_a_round, expected);
        }
        Ok(())
    }

    fn validate_parts(&self) -> Result<(), ConfigError> {
        if self.kind != Some(WorkloadKind::Merge) {
            return Ok(());
        }
        let parts = self.parts.as_deref().unwrap_or_default();
        if parts.is_empty() || parts.len() > 1000 {
            return refuse("parts", parts.len(), "kind \"merge\" needs from 1 to 1000 parts");
        }
        for (index, part) in parts.iter().enumerate() {
            let key = |name: &str| format!("parts[{index}].{name}");
            for (name, value) in part.given() {
                if matches!(name, "requests" | "trace" | "format" | "volume" | "seed") {
                    return refuse(&key(name), value, "cannot be said of a part; leave it out");
                }
            }
            if !part.transform.is_empty() {
                return refuse(&key("transform"), "steps", "steps are for the whole workload");
            }
            if matches!(part.kind, Some(WorkloadKind::Disksim | WorkloadKind::Fitted))
                || part.interarrival == Some(Interarrival::Asap)
            {
                return refuse(
                    &key("kind"),
                    "\"disksim\", \"fitted\" or asap",
                    "a part must have arrivals that can be merged with others",
                );
            }
            part.validate().map_err(|error| {
                let inner = error.key.strip_prefix("workload.").unwrap_or(&error.key).to_owned();
                ConfigError { key: format!("workload.{}", key(&inner)), ..error }
            })?;
        }
        Ok(())
    }

    fn validate_fitted(&self) -> Result<(), ConfigError> {
        let Some(model) = &self.fitted else {
            if self.kind == Some(WorkloadKind::Fitted) {
                return refuse(
                    "fitted",
                    "nothing",
                    "kind \"fitted\" needs the model that `ftlab trace fit` writes",
                );
            }
            return Ok(());
        };
        model.validate()?;
        if let Some(requests) = self.requests.filter(|requests| *requests > model.requests()) {
            let expected =
                format!("the model has {} requests; fewer are the first of them", model.requests());
            return refuse("requests", requests, expected);
        }
        Ok(())
    }

    fn validate_fractions(&self) -> Result<(), ConfigError> {
        for (key, value) in [
            ("read_fraction", self.read_fraction),
            ("trim_fraction", self.trim_fraction),
            ("flush_fraction", self.flush_fraction),
            ("hot_access_fraction", self.hot_access_fraction),
            ("random_fraction", self.random_fraction),
            ("mean_fraction", self.mean_fraction),
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
        if let Some(h) = self.pareto_h.filter(|h| !(*h > 0.0 && *h < 0.5)) {
            return refuse("pareto_h", h, "must be above 0 and below 0.5");
        }
        if let Some(share) = self.deviation_fraction.filter(|share| !(*share >= 1e-6 && *share <= 10.0)) {
            return refuse("deviation_fraction", share, "must be from 0.000001 to 10");
        }
        let disksim = self.kind == Some(WorkloadKind::Disksim);
        if let Some(share) = self.read_fraction.filter(|share| disksim && *share > 0.0 && *share < 1.0) {
            let expected = "must be 0 or 1: the streams of kind \"disksim\" only write or only read";
            return refuse("read_fraction", share, expected);
        }
        Ok(())
    }

    fn validate_sizes(&self) -> Result<(), ConfigError> {
        for (key, sizes) in [
            ("request_bytes", &self.request_bytes),
            ("read_bytes", &self.read_bytes),
            ("write_bytes", &self.write_bytes),
            ("trim_bytes", &self.trim_bytes),
        ] {
            if let Some((found, expected)) = sizes.as_ref().and_then(RequestBytes::refusal) {
                return refuse(key, found, expected);
            }
        }
        if let (Some(sizes), [Some(_), Some(_), Some(_)]) =
            (&self.request_bytes, [&self.read_bytes, &self.write_bytes, &self.trim_bytes])
        {
            let expected = "read_bytes, write_bytes and trim_bytes are all given: leave this out";
            return refuse("request_bytes", sizes, expected);
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
        if self.trims_in_use() {
            let alignment = self.alignment();
            let own = [
                ("read_bytes", &self.read_bytes),
                ("write_bytes", &self.write_bytes),
                ("trim_bytes", &self.trim_bytes),
            ];
            let other = self
                .sizes()
                .into_iter()
                .zip(own)
                .find(|(bytes, _)| (bytes.smallest(), bytes.largest()) != (alignment, alignment));
            if let Some((bytes, (key, own))) = other {
                let key = match (own, &self.request_bytes) {
                    (Some(_), _) => key,
                    (None, Some(_)) => "request_bytes",
                    (None, None) => "alignment_bytes",
                };
                let found = if key == "alignment_bytes" { size_text(alignment) } else { bytes.to_string() };
                let expected = format!(
                    "kind \"uniform\" with trims needs one size for all requests, here {}, with alignment_bytes the \
                     same: what is in use is counted in requests",
                    size_text(if key == "alignment_bytes" { bytes.smallest() } else { alignment })
                );
                return refuse(key, found, expected);
            }
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
        if let Some(cv) = self.gap_cv {
            if self.interarrival != Some(Interarrival::Bursty) {
                return refuse("gap_cv", cv, "needs interarrival = \"bursty\"");
            }
            if !(1.0..=100.0).contains(&cv) {
                return refuse("gap_cv", cv, "must be from 1 to 100");
            }
        }
        if let Some(bursts) = &self.bursts {
            for (key, us) in [("bursts.on_us", bursts.on_us), ("bursts.off_us", bursts.off_us)] {
                if !(0.001..YEAR_US).contains(&us) {
                    return refuse(key, us, "must be at least a nanosecond and below a year");
                }
            }
            for (key, alpha) in [("bursts.on_alpha", bursts.on_alpha), ("bursts.off_alpha", bursts.off_alpha)]
            {
                if !(alpha > 1.0 && alpha <= 100.0) {
                    return refuse(key, alpha, "must be above 1 and at most 100");
                }
            }
        }
        if let Some(think) = &self.think {
            if think.every_requests == 0 {
                return refuse("think.every_requests", 0, "must be at least 1");
            }
            if !(think.pause_us >= 0.001 && think.pause_us < YEAR_US) {
                return refuse(
                    "think.pause_us",
                    think.pause_us,
                    "must be at least a nanosecond and below a year",
                );
            }
        }
        if self.interarrival == Some(Interarrival::Asap) && (self.bursts.is_some() || self.think.is_some()) {
            let key = if self.bursts.is_some() { "bursts" } else { "think" };
            return refuse(key, "{...}", "interarrival = \"asap\" does not use this key; leave it out");
        }
        let days = self.mean_us_with_pauses() * self.requests.unwrap_or(DEFAULT_REQUESTS) as f64 / 86.4e9;
        let timed = self.kind.is_some_and(|kind| kind.uses("rate_iops"));
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

    fn mean_us_with_pauses(&self) -> f64 {
        let pauses = self.think.map_or(0.0, |think| think.pause_us / think.every_requests.max(1) as f64);
        self.mean_interarrival_us() + pauses
    }

    /// Shares of reads, trims and flushes.
    fn fractions(&self) -> [f64; 3] {
        [self.read_fraction, self.trim_fraction, self.flush_fraction].map(|share| share.unwrap_or(0.0))
    }

    /// Sizes of reads, writes and trims.
    fn sizes(&self) -> [RequestBytes; 3] {
        [&self.read_bytes, &self.write_bytes, &self.trim_bytes].map(|own| {
            own.clone()
                .or_else(|| self.request_bytes.clone())
                .unwrap_or(RequestBytes::Fixed(DEFAULT_REQUEST_BYTES))
        })
    }

    fn alignment(&self) -> u64 {
        let smallest = self.sizes().iter().map(RequestBytes::smallest).min();
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
        if let Some(model) = &self.fitted {
            let offset = self.offset_bytes.unwrap_or(0);
            let room = capacity_bytes.saturating_sub(offset);
            let shape = FittedShape::new(model, offset, room, self.footprint_bytes)?;
            let requests = self.requests.unwrap_or(model.requests());
            return Ok(Arc::new(FittedFactory { shape, seed, requests, in_line: making.in_line }));
        }
        Ok(Arc::new(GeneratorFactory {
            plan: self.plan(capacity_bytes)?,
            seed,
            requests,
            in_line: making.in_line,
        }))
    }

    fn plan(&self, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let Some(kind) = self.kind else { return refuse("kind", "nothing", "state a kind") };
        Ok(match kind {
            WorkloadKind::Merge => {
                let parts = self.parts.iter().flatten().enumerate().map(|(index, part)| {
                    part.plan(capacity_bytes).map_err(|error| {
                        let inner = error.key.strip_prefix("workload.").unwrap_or(&error.key).to_owned();
                        ConfigError { key: format!("workload.parts[{index}].{inner}"), ..error }
                    })
                });
                Plan::Merge(parts.collect::<Result<_, _>>()?)
            }
            WorkloadKind::Jesd219 => {
                let table = self.jesd219.clone().unwrap_or_default();
                match table.profile {
                    Profile::Enterprise => {
                        let mut shape = table.enterprise(self).shape(capacity_bytes)?;
                        table.finish(&mut shape);
                        Plan::Draw(shape)
                    }
                    Profile::Client => {
                        Plan::Client(client::Client::new(self, self.area(capacity_bytes)?, self.arrivals())?)
                    }
                }
            }
            WorkloadKind::Db => {
                let table = self.db.clone().unwrap_or_default();
                let area = self.area(capacity_bytes)?;
                table.fits(area)?;
                Plan::Database(table, area, self.page_quota)
            }
            WorkloadKind::PhoneSqlite => {
                let table = self.phone_sqlite.clone().unwrap_or_default();
                Plan::Sqlite(table, self.area_of(capacity_bytes, phone::SQLITE_SECTORS)?)
            }
            WorkloadKind::PhoneMedia => {
                let table = self.phone_media.clone().unwrap_or_default();
                Plan::Media(table, self.area_of(capacity_bytes, phone::MEDIA_SECTORS)?)
            }
            WorkloadKind::WebCache => {
                let table = self.web_cache.clone().unwrap_or_default();
                let needs = table.sectors();
                Plan::Web(table, self.area_of(capacity_bytes, needs)?)
            }
            WorkloadKind::PcGeneral => {
                let table = self.pc_general.clone().unwrap_or_default();
                let area = self.area(capacity_bytes)?;
                table.fits(area)?;
                Plan::Pc(table, area, self.page_quota)
            }
            WorkloadKind::WebSearch => {
                let table = self.web_search.clone().unwrap_or_default();
                let area = self.area_of(capacity_bytes, search::SECTORS)?;
                table.fits(area)?;
                Plan::Search(table, area)
            }
            WorkloadKind::OltpFinancial => {
                let table = self.oltp_financial.clone().unwrap_or_default();
                let area = self.area(capacity_bytes)?;
                table.fits(area)?;
                Plan::Financial(table, area, self.page_quota)
            }
            WorkloadKind::Applications => {
                let table = self.applications.clone().unwrap_or_default();
                Plan::Applications(table, self.area_of(capacity_bytes, applications::SECTORS)?)
            }
            _ => match &self.phases {
                None => Plan::Draw(self.shape(capacity_bytes)?),
                Some(phases) => {
                    let shapes = phases.iter().map(|phase| {
                        let length = phase.requests.map_or_else(
                            || Length::Ns((phase.duration_us.unwrap_or(0.0) * 1e3).round() as u64),
                            Length::Requests,
                        );
                        Ok((phase.with.over(self).shape(capacity_bytes)?, length))
                    });
                    Plan::Phases(shapes.collect::<Result<_, ConfigError>>()?)
                }
            },
        })
    }

    fn arrivals(&self) -> Arrivals {
        let bursts = self.bursts.map_or(1.0, |bursts| bursts.on_us / (bursts.on_us + bursts.off_us));
        Arrivals {
            kind: self.interarrival.unwrap_or_default(),
            mean_ns: self.mean_interarrival_us() * 1000.0 * bursts,
            bursty: Hyperexponential::new(self.gap_cv.unwrap_or(DEFAULT_GAP_CV)),
            bursts: self.bursts,
            think: self.think.map(|think| (think.every_requests, think.pause_us * 1000.0)),
        }
    }

    /// Where a kind with a layout of its own may put it. A stated footprint counts even where the drive is smaller, as
    /// with a recording: then `host.out_of_range` decides.
    fn area(&self, capacity_bytes: u64) -> Result<Area, ConfigError> {
        let offset = self.offset_bytes.unwrap_or(0);
        let room = capacity_bytes.saturating_sub(offset);
        let footprint = self.footprint_bytes.unwrap_or(room);
        if footprint < SECTOR {
            return refuse("offset_bytes", offset, format!("the drive has only {capacity_bytes} bytes"));
        }
        if footprint > 1 << 53 {
            return refuse("footprint_bytes", footprint, "must be at most 8 PiB");
        }
        Ok(Area { start: offset / SECTOR, sectors: footprint / SECTOR })
    }

    fn area_of(&self, capacity_bytes: u64, needs: u64) -> Result<Area, ConfigError> {
        let area = self.area(capacity_bytes)?;
        if area.sectors < needs {
            let kind = self.kind.map_or("", WorkloadKind::name);
            let expected = format!("kind {kind:?} needs {} bytes", needs * SECTOR);
            return refuse("footprint_bytes", area.sectors * SECTOR, expected);
        }
        Ok(area)
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
        let largest = sizes.iter().map(RequestBytes::largest).max().unwrap_or(alignment);
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
            Some(WorkloadKind::Pareto) => Picker::pareto(
                slots,
                self.pareto_h.unwrap_or(DEFAULT_PARETO_H),
                self.scramble.unwrap_or(true),
            ),
            Some(WorkloadKind::Normal) => Picker::Normal {
                slots,
                mean: slots as f64 * self.mean_fraction.unwrap_or(DEFAULT_MEAN_FRACTION),
                deviation: slots as f64 * self.deviation_fraction.unwrap_or(DEFAULT_DEVIATION),
            },
            Some(WorkloadKind::Zoned) => {
                let zones = self.zones.iter().flatten();
                let zones: Vec<_> = zones.map(|zone| (zone.access_fraction, zone.space_fraction)).collect();
                Picker::Zoned { zones: Zones::new(slots, &zones, 0.0), natural: false }
            }
            _ if self.trims_in_use() => Picker::UniformInUse,
            _ => Picker::Uniform,
        };
        let [reads, trims, flushes] = self.fractions();
        Ok(Shape {
            offset_sectors: offset / SECTOR,
            part_sectors: part / SECTOR,
            alignment_sectors: alignment / SECTOR,
            sizes: sizes.each_ref().map(Sizes::new),
            reads,
            trims,
            flushes,
            picker,
            arrivals: self.arrivals(),
            streams: self.streams.unwrap_or(1),
        })
    }
}

/// A workload with every default filled in, ready to be opened.
enum Plan {
    Draw(Shape),
    Phases(Vec<(Shape, Length)>),
    Merge(Vec<Plan>),
    Client(client::Client),
    Database(DatabaseConfig, Area, Option<PageQuota>),
    Sqlite(SqliteConfig, Area),
    Media(MediaConfig, Area),
    Web(WebCacheConfig, Area),
    Pc(PcConfig, Area, Option<PageQuota>),
    Search(SearchConfig, Area),
    Financial(FinancialConfig, Area, Option<PageQuota>),
    Applications(ApplicationsConfig, Area),
}

impl Plan {
    fn open(&self, seed: u64, pass: u64, requests: u64) -> Box<dyn RequestSource> {
        fn acted(actor: impl Actor + 'static, requests: u64) -> Box<dyn RequestSource> {
            Box::new(Acted::new(actor, requests))
        }
        match self {
            Plan::Draw(shape) => Box::new(Generator::new(shape, seed, pass, requests)),
            Plan::Phases(phases) => Box::new(Phased::new(phases, seed, pass, requests)),
            Plan::Merge(parts) => {
                let open = |(part, index): (&Plan, u64)| {
                    let own = ftlab_core::rng::Rng::for_path(seed, &[index]).next_u64();
                    part.open(own, pass, u64::MAX)
                };
                Box::new(Merged::new(parts.iter().zip(0..).map(open).collect(), true, requests))
            }
            Plan::Client(client) => acted(client.start(seed, pass), requests),
            Plan::Database(table, area, quota) => {
                let start = || database::Database::new(table, *area, seed, pass);
                Box::new(Acted::with_quota(start, requests, *quota))
            }
            Plan::Sqlite(table, area) => acted(phone::Sqlite::new(table, *area, seed, pass), requests),
            Plan::Media(table, area) => acted(phone::Media::new(table, *area, seed, pass), requests),
            Plan::Web(table, area) => acted(web::WebCache::new(table, *area, seed, pass), requests),
            Plan::Pc(table, area, quota) => {
                let start = || pc::start(table, *area, seed, pass);
                Box::new(Acted::with_quota(start, requests, *quota))
            }
            Plan::Search(table, area) => acted(search::Search::new(table, *area, seed, pass), requests),
            Plan::Financial(table, area, quota) => {
                let start = || financial::Financial::new(table, *area, seed, pass);
                Box::new(Acted::with_quota(start, requests, *quota))
            }
            Plan::Applications(table, area) => {
                acted(applications::Applications::new(table, *area, seed, pass), requests)
            }
        }
    }
}

struct GeneratorFactory {
    plan: Plan,
    seed: u64,
    requests: u64,
    in_line: bool,
}

/// Fewest requests of a pass that ages a drive: a short workload does not start over again and again.
const AGING_REQUESTS: u64 = 1 << 22;

impl SourceFactory for GeneratorFactory {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let requests = if pass == 0 { self.requests } else { self.requests.max(AGING_REQUESTS) };
        beside(self.in_line, requests, self.plan.open(self.seed, pass, requests))
    }
}

/// From so many requests on, a workload is made on a thread of its own, beside the simulation.
const REQUESTS_WORTH_A_THREAD: u64 = 1 << 18;

fn beside(
    in_line: bool,
    requests: u64,
    generator: Box<dyn RequestSource>,
) -> Result<Box<dyn RequestSource>, SourceError> {
    if in_line || requests < REQUESTS_WORTH_A_THREAD {
        return Ok(generator);
    }
    on_own_thread("workload".into(), generator)
}

/// Gives the same requests again in every pass, as the trace would to which it was fitted.
struct FittedFactory {
    shape: FittedShape,
    seed: u64,
    requests: u64,
    in_line: bool,
}

impl SourceFactory for FittedFactory {
    fn open(&self, _pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        beside(self.in_line, self.requests, Box::new(Fitted::new(&self.shape, self.seed, self.requests)))
    }
}

struct DiskSimFactory {
    sequential: bool,
    op: Op,
    requests: u64,
    in_line: bool,
}

impl SourceFactory for DiskSimFactory {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let stream = DiskSimStream::new(self.sequential, self.op, self.requests, pass);
        beside(self.in_line, self.requests, Box::new(stream))
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
mod mechanisms;
#[cfg(test)]
mod tests;
