//! Crash tests: a run is recorded once, and its power cuts are examined on several threads.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use ftlab_core::crash::{CrashOptions, CutAt, Examined, LossKind, Recording, record};
use ftlab_core::device::RunControl;
use ftlab_trace::until;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::beside::{Interruption, quietly, run_without_gil};
use crate::device::Device;
use crate::errors;
use crate::run::{explained, tell};
use crate::source::Source;

/// A run whose power can be cut at any of its points.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct CrashRecording {
    recording: Recording,
    at: CutAt,
}

#[pymethods]
impl CrashRecording {
    /// Run `source` on `device` and record it. `at` is `"command"` or `"time"`; `nested` is at how many commands of
    /// each mount the power is cut again. `progress` is called as that of a run.
    #[staticmethod]
    #[pyo3(signature = (device, source, *, seed = 1, requests = None, at = "command", nested = 0, progress = None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn record(
        py: Python<'_>,
        device: &Device,
        source: &Source,
        seed: u64,
        requests: Option<u64>,
        at: &str,
        nested: u32,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let at = match at {
            "command" => CutAt::Command,
            "time" => CutAt::Time,
            _ => {
                return Err(errors::ConfigError::new_err(format!(
                    "at = {at:?}: expected \"command\" or \"time\""
                )));
            }
        };
        let options = CrashOptions { seed, requests, at, nested };
        let control = RunControl::default();
        let stop = Arc::new(AtomicBool::new(false));
        let work =
            || until(stop.clone(), || record(&device.config, source.factory.as_ref(), &options, &control));
        let look = |py: Python<'_>| match &progress {
            Some(call) if !control.is_cancelled() => tell(py, call, &control),
            _ => Ok(()),
        };
        let (recorded, stopped) = run_without_gil(py, work, look, || {
            control.cancel();
            stop.store(true, Ordering::Relaxed);
        })?;
        if let Some(error) = stopped {
            return Err(error);
        }
        let recording = recorded.map_err(|error| explained(device, &error))?;
        Ok(Self { recording, at })
    }

    /// How many points there are at which the power can be cut.
    #[getter]
    fn points(&self) -> u64 {
        self.recording.points()
    }

    /// The summary document of the run, as JSON.
    #[getter]
    fn summary_json(&self) -> String {
        serde_json::to_string(self.recording.summary()).expect("a summary is plain data")
    }

    /// `count` of all points, evenly spread; the last one is after the last command.
    fn spread(&self, count: u64) -> Vec<u64> {
        self.recording.spread(count).collect()
    }

    /// Cut the power at `points`, which ascend, on `workers` threads.
    ///
    /// Returns the columns of the cuts in order of their points, what each lost, and whether Ctrl-C came before all were
    /// done. A loss is the number of its row, `"lost"` or `"foreign"`, the first sector, how many sectors, the versions
    /// found and promised, and the request that promised. `progress` is called with the points done.
    #[pyo3(signature = (points, workers, progress = None))]
    fn examine<'py>(
        &self,
        py: Python<'py>,
        points: Vec<u64>,
        workers: u64,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<(Bound<'py, PyDict>, Vec<LossRow>, bool)> {
        let control = RunControl::default();
        let done = AtomicU64::new(0);
        let of_part = |part: Range<usize>| {
            let mut found: Vec<Examined> = Vec::new();
            let interrupted =
                self.recording.examine(points[part].iter().copied(), &control, &mut |examined| {
                    if examined.cut.nested_at.is_none() {
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    found.push(examined);
                });
            // The end was asked for, and nothing else can go wrong: what was examined stands.
            (found, interrupted.is_err())
        };
        let look = |py: Python<'_>| match &progress {
            Some(call) if !control.is_cancelled() => {
                call.call1(py, (done.load(Ordering::Relaxed),)).map(drop)
            }
            _ => Ok(()),
        };
        let work = || in_parts(points.len() as u64, workers, of_part);
        let (parts, stopped) = run_without_gil(py, work, look, || control.cancel())?;
        if let Some(error) = stopped.filter(|error| !error.is_instance_of::<PyKeyboardInterrupt>(py)) {
            return Err(error);
        }
        let parts = parts?;
        let interrupted = parts.iter().any(|(_, interrupted)| *interrupted);
        let mut all: Vec<Examined> = parts.into_iter().flat_map(|(found, _)| found).collect();
        // The core tells the cuts of a mount before the one that led to it.
        all.sort_by_key(|one| (one.cut.point, one.cut.nested_at));
        let (columns, losses) = self.columns(py, &all)?;
        Ok((columns, losses, interrupted))
    }

    /// At which commands of the mount after a cut at `point` the power can be cut again.
    fn second_points(&self, py: Python<'_>, point: u64) -> PyResult<Vec<u64>> {
        Interruption::new(py).watch(|| Ok(self.recording.second_points(point)))
    }

    /// Cut the power at `point`, and again at the command `nested_at` of the mount: columns and losses as those of
    /// `examine`. No row when the mount has no such command that changes flash.
    fn examine_second<'py>(
        &self,
        py: Python<'py>,
        point: u64,
        nested_at: u64,
    ) -> PyResult<(Bound<'py, PyDict>, Vec<LossRow>)> {
        let control = RunControl::default();
        let found = Interruption::new(py).watch(|| {
            let examined = self.recording.examine_second(point, nested_at, &control);
            examined.map_err(|error| errors::RunError::new_err(error.to_string()))
        })?;
        self.columns(py, found.as_slice())
    }

    /// How long a mount takes after a cut at each of `points`, with a clock, on `workers` threads; `None` where the drive
    /// cannot be mounted.
    fn mount_ns(&self, py: Python<'_>, points: Vec<u64>, workers: u64) -> PyResult<Vec<Option<u64>>> {
        let stop = AtomicBool::new(false);
        let of_part = |part: Range<usize>| {
            let each = points[part].iter().take_while(|_| !stop.load(Ordering::Relaxed));
            each.map(|point| self.recording.mount_ns(*point).ok()).collect::<Vec<_>>()
        };
        let work = || in_parts(points.len() as u64, workers, of_part);
        let (parts, stopped) = run_without_gil(py, work, |_| Ok(()), || stop.store(true, Ordering::Relaxed))?;
        stopped.map_or(Ok(()), Err)?;
        Ok(parts?.into_iter().flatten().collect())
    }
}

/// Row, kind, first sector, sectors, found, promised, request.
type LossRow = (usize, &'static str, u64, u64, u32, u32, Option<u64>);

impl CrashRecording {
    fn columns<'py>(
        &self,
        py: Python<'py>,
        all: &[Examined],
    ) -> PyResult<(Bound<'py, PyDict>, Vec<LossRow>)> {
        let dict = PyDict::new(py);
        let number = |name: &str, value: fn(&Examined) -> u64| {
            dict.set_item(name, all.iter().map(value).collect::<Vec<_>>())
        };
        let per_unit = if self.at == CutAt::Time { 1_000 } else { 1 };
        number("point", |one| one.cut.point)?;
        dict.set_item("at", all.iter().map(|one| one.cut.at / per_unit).collect::<Vec<_>>())?;
        dict.set_item("nested_at", all.iter().map(|one| one.cut.nested_at).collect::<Vec<_>>())?;
        number("torn", |one| one.cut.torn.into())?;
        number("lost_sectors", |one| one.cut.lost_sectors)?;
        number("foreign_sectors", |one| one.cut.foreign_sectors)?;
        number("lost_pages", |one| one.cut.lost_units)?;
        number("returned_sectors", |one| one.cut.returned_sectors)?;
        number("torn_writes", |one| one.cut.torn_writes)?;
        number("untrimmed_sectors", |one| one.cut.untrimmed_sectors)?;
        number("untrimmed_older_sectors", |one| one.cut.untrimmed_older_sectors)?;
        number("unflushed_sectors", |one| one.cut.unflushed_sectors)?;
        number("mount_reads", |one| one.cut.mount.reads)?;
        number("mount_programs", |one| one.cut.mount.programs)?;
        number("mount_erases", |one| one.cut.mount.erases)?;
        dict.set_item("failure", all.iter().map(|one| one.cut.failure.as_deref()).collect::<Vec<_>>())?;
        let losses = all.iter().enumerate().flat_map(|(row, one)| {
            one.losses.iter().map(move |loss| {
                let kind = match loss.kind {
                    LossKind::Lost => "lost",
                    LossKind::Foreign => "foreign",
                    LossKind::Returned => "returned",
                    LossKind::Torn => "torn",
                };
                (row, kind, loss.sector, loss.sectors, loss.found, loss.promised, loss.request)
            })
        });
        Ok((dict, losses.collect()))
    }
}

/// Do `work` on as many parts of a list of `count` as there are workers, each on a thread of its own; results are in the
/// order of the list.
fn in_parts<T: Send>(
    count: u64,
    workers: u64,
    work: impl Fn(Range<usize>) -> T + Sync,
) -> std::io::Result<Vec<T>> {
    let parts = workers.clamp(1, count.max(1));
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for part in 0..parts {
            let range = Recording::part(count, part, parts);
            let (work, range) = (&work, range.start as usize..range.end as usize);
            threads.push(thread::Builder::new().spawn_scoped(scope, move || quietly(|| work(range)))?);
        }
        Ok(threads
            .into_iter()
            .map(|thread| thread.join().and_then(|done| done).unwrap_or_else(|panic| resume_unwind(panic)))
            .collect())
    })
}
