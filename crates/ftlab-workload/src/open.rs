//! From a workload to a factory of its requests.

use std::path::Path;
use std::sync::Arc;

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::{Remark, Request, RequestSource, SourceError, SourceFactory};
use ftlab_trace::transform::transformed;
use ftlab_trace::{TraceCache, VolumeLayout, on_own_thread, open};

use crate::common::{DEFAULT_REQUESTS, DEFAULT_SEED};
use crate::config::WorkloadConfig;
use crate::kind::Plan;

/// How the requests of a workload are made. None of it changes them.
#[derive(Debug, Clone, Default)]
pub struct GenerateOptions {
    /// Traces are decoded once for all who name this; each reads for itself when absent.
    pub traces: Option<TraceCache>,
    /// Whether generators work on the thread that asks for requests, as is best where every core runs a simulation of
    /// its own. Long workloads are made on a thread of their own otherwise.
    pub on_caller_thread: bool,
    /// Whether others who name the same `traces` take other volumes of the trace: then all of them are read apart in
    /// one pass. Only a trace of which one volume is read knows the difference.
    pub fleet: bool,
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

impl WorkloadConfig {
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
        self.factory_by(capacity_bytes, seed, requests, &GenerateOptions::default())
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
        options: &GenerateOptions,
    ) -> Result<Arc<dyn SourceFactory>, WorkloadError> {
        let mut config = self.clone();
        config.common.requests = requests.or(config.common.requests);
        if self.transform.is_empty() {
            return config.untransformed(capacity_bytes, seed, options);
        }
        // Steps may drop requests or add some: what they are given is not what is asked for.
        if self.recorded.trace.is_some() {
            config.common.requests = self.common.requests;
        } else if let Some(stated) = requests {
            config.common.requests = Some(stated.max(self.common.requests.unwrap_or(DEFAULT_REQUESTS)));
        }
        let whole = transformed(config.untransformed(capacity_bytes, seed, options)?, &self.transform);
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
        options: &GenerateOptions,
    ) -> Result<Arc<dyn SourceFactory>, WorkloadError> {
        self.validate()?;
        if let Some(path) = &self.recorded.trace {
            return self.open_trace(Path::new(path), options);
        }
        let plan = self.plan(capacity_bytes)?;
        Ok(Arc::new(GeneratorFactory {
            seed: seed.or(self.common.seed).unwrap_or(DEFAULT_SEED),
            requests: self.common.requests.unwrap_or(plan.default_requests()),
            on_caller_thread: options.on_caller_thread,
            plan,
        }))
    }

    fn open_trace(
        &self,
        path: &Path,
        options: &GenerateOptions,
    ) -> Result<Arc<dyn SourceFactory>, WorkloadError> {
        let how = self.recorded.open_options();
        let one_of_many = options.fleet && how.volumes.len() == 1 && how.layout == VolumeLayout::Overlay;
        let inner: Arc<dyn SourceFactory> = match &options.traces {
            Some(cache) if one_of_many => Arc::new(cache.open_volume(path, &how)?),
            Some(cache) => Arc::new(cache.open(path, &how)?),
            None => Arc::new(open(path, &how)?),
        };
        Ok(match self.common.requests {
            None => inner,
            Some(requests) => Arc::new(Limited { inner, requests }),
        })
    }
}

struct GeneratorFactory {
    plan: Plan,
    seed: u64,
    requests: u64,
    on_caller_thread: bool,
}

/// Minimum length of a preconditioning pass, so short workloads are not restarted constantly.
const AGING_REQUESTS: u64 = 1 << 22;

/// From so many requests on, a workload is made on a thread of its own, beside the simulation.
const REQUESTS_WORTH_A_THREAD: u64 = 1 << 18;

impl SourceFactory for GeneratorFactory {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let longer = pass > 0 && self.plan.may_age_longer();
        let requests = if longer { self.requests.max(AGING_REQUESTS) } else { self.requests };
        let generator = self.plan.open(self.seed, pass, requests);
        if self.on_caller_thread || requests < REQUESTS_WORTH_A_THREAD {
            return Ok(generator);
        }
        on_own_thread("workload".into(), generator)
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

    fn ignore_arrivals(&mut self) {
        self.inner.ignore_arrivals();
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

    fn remarks(&self) -> Vec<Remark> {
        self.inner.remarks()
    }
}
