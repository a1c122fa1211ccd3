//! A run from outside: what it is asked, what it leaves, and the watch over it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use crate::error::RunError;
use crate::interrupt::Interrupt;
use crate::metrics::series::{Series, SeriesEvery, SeriesFeed};
use crate::metrics::summary::Summary;

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
    /// Keep time event by event even where a faster port tells the same: to compare the two.
    pub event_by_event: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { seed: 1, requests: None, verify: false, timing: true, series: None, event_by_event: false }
    }
}

/// Shared with a thread that watches a run: progress out, interruption in.
#[derive(Debug, Default)]
pub struct RunControl {
    interrupt: Interrupt,
    preconditioning: AtomicU8,
    completed: AtomicU64,
    /// Share of the input consumed, in millionths; `u64::MAX` while unknown.
    millionths: AtomicU64,
    feed: Option<Arc<SeriesFeed>>,
}

impl RunControl {
    /// One that the rows of the series are handed to while the run goes on.
    pub fn with_rows() -> Self {
        Self { feed: Some(Arc::default()), ..Self::default() }
    }
    /// The rows that are complete since they were last taken, each as a series of one row.
    pub fn take_rows(&self) -> Vec<Series> {
        self.feed.as_ref().map(|feed| feed.take()).unwrap_or_default()
    }
    pub(crate) fn feed(&self) -> Option<Arc<SeriesFeed>> {
        self.feed.clone()
    }
    /// Ask the run to end soon; it returns what it has measured, marked partial.
    pub fn cancel(&self) {
        self.interrupt.ask();
    }
    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.interrupt.is_asked()
    }
    /// For what looks by itself: it hears of [`cancel`](Self::cancel) too.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
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

/// What a run leaves.
#[derive(Debug, Clone)]
pub struct RunOutcome {
    /// Everything measured until the end, or until `error`.
    pub summary: Summary,
    /// Time series, when asked for.
    pub series: Option<Series>,
    /// The time series that every run keeps, in 256 rows at most and without the columns of parts.
    pub coarse: Series,
    /// Why the run ended early, if it did. Interruption is no error: `summary.partial` tells.
    pub error: Option<RunError>,
}
