//! What a kind of workload is.

use std::any::type_name;
use std::fmt::Debug;

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::RequestSource;

use crate::common::{CommonKeys, DEFAULT_REQUESTS};
use crate::generate::{Generator, GeneratorConfig};
use crate::key_set::KeySet;
use crate::process::{Process, ProcessSource};
use crate::quota::{PageQuota, PageQuotaFilter};

/// Keys that say where a workload lies, and its seed: those of every kind that is laid out by itself.
pub(crate) const PLACED: &[&str] = &["seed", "footprint_bytes", "offset_bytes"];
/// Shares of operations.
pub(crate) const OPERATIONS: &[&str] = &["read_fraction", "trim_fraction", "flush_fraction"];
/// Sizes of requests.
pub(crate) const SIZES: &[&str] =
    &["request_bytes", "read_bytes", "write_bytes", "trim_bytes", "alignment_bytes"];
/// When requests arrive.
pub(crate) const ARRIVALS: &[&str] =
    &["interarrival", "mean_interarrival_us", "rate_iops", "gap_cv", "bursts", "think"];
/// Streams and phases. Kinds that have these are drawn one by one, and can be kinds of phases.
pub(crate) const STREAMS: &[&str] = &["streams", "phases"];
/// All that kinds have whose requests are drawn one by one.
pub(crate) const DRAWN: &[&[&str]] = &[PLACED, OPERATIONS, SIZES, ARRIVALS, STREAMS];

/// A kind of workload, implemented by the set of its own keys.
pub(crate) trait Kind: KeySet {
    /// What it is, in a sentence or two.
    const SUMMARY: &'static str;

    /// Those of the keys that kinds share which this one has. `kind`, `requests` and `transform` are keys of all.
    const COMMON: &'static [&'static [&'static str]];

    /// Keys without which it cannot be tried, as JSON; empty where an example would take a page.
    const EXAMPLE: &'static str = "{}";

    /// Each of its own keys with a value that makes other requests than [`EXAMPLE`](Self::EXAMPLE), as JSON.
    const CHANGES: &'static [&'static str];

    /// Refuse what makes no sense, whatever the drive.
    ///
    /// # Errors
    /// The first key that makes no sense, with what was found and what was expected.
    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        Ok(())
    }

    /// What makes its requests on a drive of `capacity_bytes`, with every default filled in.
    ///
    /// # Errors
    /// When it does not fit the drive.
    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError>;
}

/// A workload with every default filled in, ready to be opened.
pub(crate) enum Plan {
    /// Requests are drawn one by one.
    Drawn(Box<GeneratorConfig>),
    /// A mechanism makes them.
    Made(Box<dyn Maker>),
}

impl Plan {
    /// The requests of pass `pass` for `seed`.
    pub(crate) fn open(&self, seed: u64, pass: u64, requests: u64) -> Box<dyn RequestSource> {
        match self {
            Plan::Drawn(config) => Box::new(Generator::new(config, seed, pass, requests)),
            Plan::Made(maker) => maker.open(seed, pass, requests),
        }
    }

    /// How many requests there are when nobody says.
    pub(crate) fn default_requests(&self) -> u64 {
        match self {
            Plan::Drawn(_) => DEFAULT_REQUESTS,
            Plan::Made(maker) => maker.default_requests(),
        }
    }

    /// Whether a pass that ages a drive may have more requests than the workload.
    pub(crate) fn may_age_longer(&self) -> bool {
        match self {
            Plan::Drawn(_) => true,
            Plan::Made(maker) => maker.may_age_longer(),
        }
    }

    /// The plan of a generator with `config`.
    pub(crate) fn drawn(config: GeneratorConfig) -> Self {
        Plan::Drawn(Box::new(config))
    }

    /// The plan of `maker`.
    pub(crate) fn of(maker: impl Maker + 'static) -> Self {
        Plan::Made(Box::new(maker))
    }

    /// The plan of the process that `start` starts for a seed and a pass.
    pub(crate) fn of_process<P: Process + 'static>(
        start: impl Fn(u64, u64) -> P + Send + Sync + 'static,
    ) -> Self {
        Self::with_quota(None, (), move |(), seed, pass| start(seed, pass))
    }

    /// The same for what a process is made `of`, a seed and a pass, and for nothing else, so that it meets a quota.
    pub(crate) fn with_quota<P: Process + 'static, T: Debug + Send + Sync + 'static>(
        quota: Option<PageQuota>,
        of: T,
        start: impl Fn(&T, u64, u64) -> P + Send + Sync + 'static,
    ) -> Self {
        Self::of(ProcessMaker { start, of, quota })
    }
}

/// Makes the requests of a workload.
pub(crate) trait Maker: Send + Sync {
    /// The requests of pass `pass` for `seed`. Pass 0 is the workload itself; others have its statistics.
    fn open(&self, seed: u64, pass: u64, requests: u64) -> Box<dyn RequestSource>;

    /// How many requests there are when nobody says.
    fn default_requests(&self) -> u64 {
        DEFAULT_REQUESTS
    }

    /// Whether a pass that ages a drive may have more requests than the workload.
    fn may_age_longer(&self) -> bool {
        true
    }
}

struct ProcessMaker<S, T> {
    start: S,
    of: T,
    quota: Option<PageQuota>,
}

impl<P, S, T> Maker for ProcessMaker<S, T>
where
    P: Process + 'static,
    S: Fn(&T, u64, u64) -> P + Send + Sync,
    T: Debug + Send + Sync,
{
    fn open(&self, seed: u64, pass: u64, requests: u64) -> Box<dyn RequestSource> {
        let start = || (self.start)(&self.of, seed, pass);
        let Some(quota) = self.quota else { return Box::new(ProcessSource::new(start(), requests)) };
        let name = format!("{} {:?} {quota:?} {seed} {pass}", type_name::<P>(), self.of);
        let filter = PageQuotaFilter::new(start(), quota, &name);
        Box::new(ProcessSource::with_quota(start(), requests, filter))
    }
}
