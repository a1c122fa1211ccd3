//! Running a simulation beside the interpreter.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ftlab_config::{Problem, Problems};
use ftlab_core::config::PreconditionPattern;
use ftlab_core::device::{self, RunOptions, simulate_aged};
use ftlab_core::host::aged::{Aged, AgedDrives as AgedTable, AgedStore};
use ftlab_core::metrics::Observer;
use ftlab_core::metrics::parts::Parts;
use ftlab_core::metrics::series::{Column, Series, SeriesEvery};
use ftlab_core::metrics::summary::StandInSummary;
use ftlab_core::metrics::warning;
use ftlab_core::time::Time;
use ftlab_trace::logs::{EventLog, Logs, RequestLog};
use ftlab_trace::slowest::Slowest;
use ftlab_trace::until;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::beside::{run_here, run_without_gil};
use crate::device::Device;
use crate::errors;
use crate::source::Source;
use crate::study::{AgedDrives, AgedFiles};

/// How a run goes on, seen and ended from another thread.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct RunControl {
    run: Arc<device::RunControl>,
    stop: Arc<AtomicBool>,
}

#[pymethods]
impl RunControl {
    /// For one run.
    #[staticmethod]
    fn of() -> Self {
        Self { run: Arc::default(), stop: Arc::default() }
    }

    /// Share of the requests done, 0 to 1. `None` before the first one, and when it cannot be told.
    #[getter]
    fn fraction(&self) -> Option<f64> {
        if self.run.is_preconditioning() { None } else { self.run.fraction() }
    }

    /// End the run soon.
    fn stop(&self) {
        self.run.cancel();
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// What a run leaves.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct Outcome {
    summary_json: String,
    series: Option<Series>,
    coarse: Series,
    error: Option<(&'static str, String)>,
    interrupted: bool,
}

#[pymethods]
impl Outcome {
    /// The summary document, as JSON.
    #[getter]
    fn summary_json(&self) -> &str {
        &self.summary_json
    }

    /// The time series: for each column its NumPy type and its values as bytes. `None` when not asked for.
    #[getter]
    fn series<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        self.series.as_ref().map(|series| columns(py, series)).transpose()
    }

    /// The time series that every run keeps, in few rows, as `series` gives its columns.
    #[getter]
    fn coarse_series<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        columns(py, &self.coarse)
    }

    /// Why the run ended early: `("input", message)` or `("run", message)`. Or what could not be written of it: `("output", message)`.
    /// `None` when neither is so, and when it was interrupted.
    #[getter]
    fn error(&self) -> Option<(&'static str, &str)> {
        self.error.as_ref().map(|(kind, message)| (*kind, message.as_str()))
    }

    /// Whether Ctrl-C ended the run.
    #[getter]
    fn interrupted(&self) -> bool {
        self.interrupted
    }
}

fn columns<'py>(py: Python<'py>, series: &Series) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (name, column) in series.columns() {
        let (kind, bytes): (_, Vec<u8>) = match column {
            Column::Whole(values) => ("<u8", values.iter().flat_map(|value| value.to_le_bytes()).collect()),
            Column::Real(values) => ("<f8", values.iter().flat_map(|value| value.to_le_bytes()).collect()),
        };
        dict.set_item(name, (kind, PyBytes::new(py, &bytes)))?;
    }
    Ok(dict)
}

fn series_every(series: Option<(&str, u64)>) -> PyResult<Option<SeriesEvery>> {
    Ok(match series {
        None => None,
        Some(("auto", _)) => Some(SeriesEvery::Auto),
        Some((_, 0)) => return Err(errors::ConfigError::new_err("series: the interval must be above 0")),
        Some(("requests", count)) => Some(SeriesEvery::Requests(count)),
        Some(("ns", ns)) => Some(SeriesEvery::Time(Time::from_ns(ns))),
        Some((unit, _)) => {
            return Err(errors::ConfigError::new_err(format!("series: unknown unit {unit:?}")));
        }
    })
}

/// An aged drive that two passes of a run share: 12 bytes for each physical page.
const AGED_BYTES: u64 = 1 << 30;

type Finished = (Result<device::RunOutcome, device::RunError>, Duration);

/// Run `source` on `device` on a thread of its own, with the interpreter lock released.
///
/// `series` is `("auto", 0)`, `("requests", n)` or `("ns", n)`. `progress` is called about ten times a second with the
/// phase (`"precondition"` or `"run"`), the fraction done (or `None`) and the number of requests taken. `on_row` is called
/// with each row of the series, in order. `events_slowest` keeps of `events` what goes on during so many requests, the
/// slowest: the run is done twice then. What either raises ends the run. Ctrl-C ends it too, and it returns what it has
/// measured. `stand_in` is what the workload stands for, the recording that runs instead, and why it is not calibrated. `aged`
/// are drives that may be used again, and what tells the workload from others. With a `control` there is no thread, and Ctrl-C
/// is the caller's affair: whoever holds it sees how the run goes on, and ends it. A run that brings this process to more than
/// `memory` bytes ends with what it has measured, where the system says how much that is.
#[pyfunction]
#[pyo3(signature = (
    device, source, *, seed = 1, requests = None, verify = false, timing = true, series = None, request_log = None,
    events = None, events_slowest = None, progress = None, on_row = None, stand_in = None, aged = None,
    aged_files = None, control = None, memory = None
))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn run(
    py: Python<'_>,
    device: &Device,
    source: &Source,
    seed: u64,
    requests: Option<u64>,
    verify: bool,
    timing: bool,
    series: Option<(String, u64)>,
    request_log: Option<PathBuf>,
    events: Option<PathBuf>,
    events_slowest: Option<usize>,
    progress: Option<Py<PyAny>>,
    on_row: Option<Py<PyAny>>,
    stand_in: Option<(String, Option<String>, Option<String>)>,
    aged: Option<(Option<PyRef<'_, AgedDrives>>, Option<String>)>,
    aged_files: Option<&AgedFiles>,
    control: Option<&RunControl>,
    memory: Option<u64>,
) -> PyResult<Outcome> {
    let series = series_every(series.as_ref().map(|(unit, count)| (unit.as_str(), *count)))?;
    let options = RunOptions { seed, requests, verify, timing, series, event_by_event: false };
    let held = control;
    if held.is_some() && (progress.is_some() || on_row.is_some()) {
        return Err(PyValueError::new_err("a run with a control calls nobody"));
    }
    let control = match held {
        Some(held) => held.run.clone(),
        None if on_row.is_some() => Arc::new(device::RunControl::with_rows()),
        None => Arc::default(),
    };
    let mut logs = Logs::default();
    if let Some(path) = events {
        let planes = device.config.timing.independent_planes;
        logs.events = Some(EventLog::create(&path, planes).map_err(|error| errors::input(&error))?);
    }
    if let Some(path) = request_log {
        logs.requests = Some(RequestLog::create(&path).map_err(|error| errors::input(&error))?);
    }
    let observing = logs.wants_commands() || logs.wants_requests();

    let stop = held.map_or_else(Arc::default, |held| held.stop.clone());
    let (drives, named) = aged.unwrap_or_default();
    // The objects outlive the call, and what they hold is shared.
    let (drives, files) =
        (drives.map(|drives| drives.drives.clone()), aged_files.map(|files| files.files.clone()));
    // To know the slowest requests takes a run of its own, with the drive that it has aged.
    let finding = if held.is_some() { control.clone() } else { Arc::default() };
    let own = events_slowest.is_some() && drives.is_none();
    let drives = drives.or_else(|| own.then(|| Arc::new(AgedTable::new(AGED_BYTES))));
    // Both runs of this call have the same workload. Of those of other processes nobody knows, unless it has a name.
    let by_unnamed = named.is_none()
        && device
            .config
            .precondition
            .aging()
            .is_some_and(|aging| aging.pattern == PreconditionPattern::Workload);
    let files = files.filter(|_| !by_unnamed);
    let workload = named.or_else(|| own.then(String::new));
    let work = || -> Finished {
        let aged = || {
            let store = files.as_deref().map(|files| files as &dyn AgedStore);
            Some(Aged { drives: drives.as_deref(), store, workload: workload.as_deref() })
        };
        let start = Instant::now();
        let factory = source.factory.as_ref();
        let result = until(stop.clone(), || {
            if let Some(count) = events_slowest {
                let mut slowest = Slowest::new(count);
                simulate_aged(&device.config, factory, &options, &finding, &mut slowest, aged())?;
                if finding.is_cancelled() {
                    // What was measured has no logs: there is nothing to tell.
                    return Err(device::RunError::Interrupted);
                }
                logs.events = logs.events.take().map(|log| log.only(slowest.spans()));
            }
            let aged = aged();
            if observing {
                simulate_aged(&device.config, factory, &options, &control, &mut logs, aged)
            } else {
                simulate_aged(&device.config, factory, &options, &control, &mut (), aged)
            }
        });
        (result, start.elapsed())
    };
    let end = || {
        finding.cancel();
        control.cancel();
        stop.store(true, Ordering::Relaxed);
    };
    let short = Cell::new(None);
    let look = |py: Python<'_>| {
        if control.is_cancelled() {
            return Ok(());
        }
        let taken = memory.and_then(|most| resident_bytes().filter(|taken| *taken > most));
        if taken.is_some() {
            short.set(taken);
            end();
            return Ok(());
        }
        let under_way =
            if control.completed() == 0 && events_slowest.is_some() { &finding } else { &control };
        progress.as_ref().map_or(Ok(()), |call| tell(py, call, under_way))?;
        on_row.as_ref().map_or(Ok(()), |call| tell_rows(py, call, &control))
    };
    let (finished, stopped) = if held.is_some() {
        let finished = run_here(py, work)?;
        (finished, control.is_cancelled().then(|| PyKeyboardInterrupt::new_err(())))
    } else {
        run_without_gil(py, work, look, end)?
    };
    let short = short.get().map(|taken| format!("memory ran short: this process has {} MiB", taken >> 20));
    let interrupted = match stopped {
        None => false,
        // A run that has no requests yet has nothing to tell.
        Some(error) if error.is_instance_of::<PyKeyboardInterrupt>(py) && finished.0.is_ok() => true,
        Some(error) => return Err(error),
    };
    if let Some(call) = on_row.as_ref().filter(|_| !interrupted && finished.0.is_ok()) {
        tell_rows(py, call, &control)?;
    }
    let written = py.detach(|| logs.finish());

    let (result, wall) = finished;
    let mut outcome = result.map_err(|error| match &short {
        Some(text) => errors::RunError::new_err(text.clone()),
        None => explained(device, &error),
    })?;
    outcome.summary.workload.clone_from(&source.name);
    outcome.summary.stand_in = stand_in.map(|(stands_for, recording, uncalibrated)| StandInSummary {
        stands_for,
        uncalibrated,
        recording,
    });
    outcome.summary.warnings.extend(outcome.summary.stand_in.as_ref().and_then(warning::stand_in));
    outcome.summary.wall_seconds = wall.as_secs_f64();
    // A source that is interrupted fails, which is no news.
    let error = outcome.error.filter(|_| !interrupted && short.is_none());
    let error = error.map(|error| (if error.is_input() { "input" } else { "run" }, error.to_string()));
    let error = error
        .or(short.map(|text| ("run", text + "; what was measured until then is kept")))
        .or(written.err().map(|error| ("output", error.to_string())));
    let summary_json = serde_json::to_string(&outcome.summary).expect("a summary is plain data");
    Ok(Outcome { summary_json, series: outcome.series, coarse: outcome.coarse, error, interrupted })
}

/// Memory that this process has; `None` where the system does not say.
fn resident_bytes() -> Option<u64> {
    const PAGE: u64 = 4096;
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    text.split(' ').nth(1)?.parse::<u64>().ok()?.checked_mul(PAGE)
}

pub(crate) fn tell(py: Python<'_>, progress: &Py<PyAny>, control: &device::RunControl) -> PyResult<()> {
    let phase = if control.is_preconditioning() { "precondition" } else { "run" };
    progress.call1(py, (phase, control.fraction(), control.completed())).map(drop)
}

/// Call with each row that has been completed since.
fn tell_rows(py: Python<'_>, on_row: &Py<PyAny>, control: &device::RunControl) -> PyResult<()> {
    for row in control.take_rows() {
        let dict = PyDict::new(py);
        for (name, column) in row.columns() {
            match column {
                Column::Whole(values) => dict.set_item(name, values[0])?,
                Column::Real(values) => dict.set_item(name, values[0])?,
            }
        }
        on_row.call1(py, (dict,))?;
    }
    Ok(())
}

pub(crate) fn explained(device: &Device, error: &device::RunError) -> PyErr {
    match error {
        device::RunError::Config(error) => {
            let problem: Problem = device.document.explain(error);
            errors::config(&Problems::from(problem))
        }
        error if error.is_input() => errors::InputError::new_err(error.to_string()),
        error => errors::RunError::new_err(error.to_string()),
    }
}

/// What the latency of a request consists of: the name of each part and what it is, in the order of the columns of
/// `requests.parquet`.
#[pyfunction]
pub(crate) fn latency_parts() -> Vec<(&'static str, &'static str)> {
    Parts::default().latency().map(|(part, _)| (part.name(), part.sentence().trim())).collect()
}
