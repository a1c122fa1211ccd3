//! Composition: a described drive, put together and run.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use crate::config::{ConfigError, DeviceConfig, FtlKind};
use crate::flash::Flash;
use crate::flash::port::{Count, FlashPort};
use crate::flash::timeline::Timeline;
use crate::ftl::Ftl;
use crate::ftl::gc::Victims;
use crate::ftl::page::PageFtl;
use crate::geometry::Geometry;
use crate::host::intake::Intake;
use crate::host::request::{SourceError, SourceFactory};
use crate::host::split::Splitter;
use crate::host::{Drive, precondition, timed, untimed};
use crate::metrics::Observer;
use crate::metrics::books::{Books, BusyTimes};
use crate::metrics::series::{Series, SeriesEvery};
use crate::metrics::summary::{Summary, VerifySummary};
use crate::verify::Oracle;

/// What a run does beyond what the device says.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOptions {
    /// Seed of every random choice inside the drive.
    pub seed: u64,
    /// Stop after this many requests.
    pub requests: Option<u64>,
    /// Keep a version for every sector and check every read against it.
    pub verify: bool,
    /// Keep simulated time. Without it nothing is timed and write amplification comes out fastest.
    pub timing: bool,
    /// Collect a time series.
    pub series: Option<SeriesEvery>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { seed: 1, requests: None, verify: false, timing: true, series: None }
    }
}

/// Shared with a thread that watches a run: progress out, interruption in.
#[derive(Debug, Default)]
pub struct RunControl {
    cancelled: AtomicBool,
    preconditioning: AtomicU8,
    completed: AtomicU64,
    /// Share of the input consumed, in millionths; `u64::MAX` while unknown.
    millionths: AtomicU64,
}

impl RunControl {
    /// Ask the run to end soon; it returns what it has measured, marked partial.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
    /// Whether the drive is being preconditioned.
    pub fn is_preconditioning(&self) -> bool {
        self.preconditioning.load(Ordering::Relaxed) != 0
    }
    /// Requests taken from the workload so far.
    pub fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }
    /// Share of the phase done, 0 to 1, when it can be told.
    pub fn fraction(&self) -> Option<f64> {
        match self.millionths.load(Ordering::Relaxed) {
            u64::MAX => None,
            millionths => Some(millionths as f64 / 1e6),
        }
    }
    pub(crate) fn report(&self, preconditioning: bool, completed: u64, fraction: Option<f64>) {
        self.preconditioning.store(preconditioning.into(), Ordering::Relaxed);
        self.completed.store(completed, Ordering::Relaxed);
        let millionths = fraction.map_or(u64::MAX, |fraction| (fraction.clamp(0.0, 1.0) * 1e6) as u64);
        self.millionths.store(millionths, Ordering::Relaxed);
    }
}

/// Why a run ended before its workload did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunError {
    /// The device makes no sense. Nothing was run.
    Config(ConfigError),
    /// The workload could not be read on. The message names the place.
    Source(SourceError),
    /// A request that the device cannot take: beyond its end, empty, or out of order.
    Request(String),
    /// The drive has no space left to collect.
    Full(String),
    /// The translation layer broke a rule of flash: a defect of ftlab. Names command, address and cause.
    Rule(String),
    /// Verification found data that is not the newest write: a defect of ftlab.
    Mismatch(String),
    /// The power was cut.
    PowerCut,
}

impl RunError {
    /// Whether the input is at fault (exit status 2) rather than the run (exit status 1).
    pub fn is_input(&self) -> bool {
        matches!(self, RunError::Config(_) | RunError::Source(_) | RunError::Request(_))
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Config(error) => error.fmt(f),
            RunError::Source(error) => error.fmt(f),
            RunError::Request(text)
            | RunError::Full(text)
            | RunError::Rule(text)
            | RunError::Mismatch(text) => f.write_str(text),
            RunError::PowerCut => f.write_str("the power was cut"),
        }
    }
}

impl std::error::Error for RunError {}

/// What a run leaves.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Everything measured until the end, or until `error`.
    pub summary: Summary,
    /// Time series, when asked for.
    pub series: Option<Series>,
    /// Why the run ended early, if it did. Interruption is no error: `summary.partial` tells.
    pub error: Option<RunError>,
}

/// Put the drive together, precondition it, run the workload, and report.
///
/// # Errors
/// Only when nothing could be run: the device makes no sense or the workload cannot be opened. Later errors come
/// inside the [`Outcome`], beside what was measured.
pub fn simulate(
    config: &DeviceConfig,
    workload: &dyn SourceFactory,
    options: &RunOptions,
    control: &RunControl,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    config.validate().map_err(RunError::Config)?;
    match config.ftl.kind {
        FtlKind::Page => {
            let geometry = Geometry::new(config);
            let ftl = PageFtl::<Victims>::new(config, &geometry, options.seed);
            run(config, &geometry, ftl, workload, options, control, observer)
        }
    }
}

fn run<F: Ftl>(
    config: &DeviceConfig,
    geometry: &Geometry,
    ftl: F,
    workload: &dyn SourceFactory,
    options: &RunOptions,
    control: &RunControl,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let sectors = Splitter::new(geometry).sectors();
    let source = workload.open(0).map_err(RunError::Source)?;
    let mut drive = Drive {
        ftl,
        flash: Flash::new(config, geometry, options.verify, Count),
        oracle: options.verify.then(|| Oracle::new(sectors)),
        control,
    };
    let precondition = precondition::run(config, &mut drive, workload, options.seed)?;
    let interrupted = control.is_cancelled();
    drive.ftl.reset_counters();
    let Drive { ftl, flash, oracle, .. } = drive;
    let limit = if interrupted { Some(0) } else { options.requests };
    let mut intake = Intake::new(source, config, sectors, limit);
    let mut books = Books::new(options.series);
    let mut outcome = if options.timing {
        let port = Timeline::new(config, geometry, observer.wants_commands());
        let mut drive = Drive { ftl, flash: flash.with_port(port), oracle, control };
        let result = timed::run(config, &mut drive, &mut intake, &mut books, options, observer);
        let port = &drive.flash.port;
        let busy = BusyTimes {
            by_cause_ps: port.busy_ps(),
            channels_ps: port.channel_busy_ps(),
            port_bytes: port.table_bytes(),
        };
        close(config, drive, &intake, books, Some(busy), result)
    } else {
        let mut drive = Drive { ftl, flash: flash.with_port(Count), oracle, control };
        let result = untimed::run(&mut drive, &mut intake, &mut books, options, observer);
        close(config, drive, &intake, books, None, result)
    };
    outcome.summary.seed = options.seed;
    outcome.summary.precondition = precondition;
    outcome.summary.partial = outcome.error.is_some() || control.is_cancelled();
    Ok(outcome)
}

/// Audit the drive and write its summary.
fn close<F: Ftl, P: FlashPort>(
    config: &DeviceConfig,
    drive: Drive<'_, F, P>,
    intake: &Intake,
    mut books: Books,
    busy: Option<BusyTimes>,
    result: Result<(), RunError>,
) -> Outcome {
    let Drive { ftl, flash, oracle, .. } = drive;
    let mut error = result.err();
    let mut summary = books.summary(config, &ftl, &flash, intake.counts(), busy);
    if let Some(oracle) = oracle {
        let audit = ftl.verify(&flash.nand);
        summary.verify = Some(VerifySummary { tables_agree: audit.is_ok(), ..oracle.counts() });
        error = error.or(audit.err().map(RunError::Mismatch));
    }
    Outcome { summary, series: books.series(&ftl, &flash), error }
}
