//! Real drives: a file or block device that Python sends requests to.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, TryLockError};

use ftlab_core::host::request::{Op, Request};
use ftlab_device::{DeviceError, Measured, Options, Pace, Span, Target, Wait};
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::beside::run_without_gil;
use crate::errors;

fn raised(error: &DeviceError) -> PyErr {
    let text = error.to_string();
    match error {
        DeviceError::Unsupported(_) | DeviceError::Refused { .. } => errors::ConfigError::new_err(text),
        DeviceError::Batch(_) => errors::InputError::new_err(text),
        DeviceError::Failed(failed) if failed.cause == ftlab_device::Cause::Interrupted => {
            PyKeyboardInterrupt::new_err(text)
        }
        DeviceError::Failed(_) => errors::RunError::new_err(text),
    }
}

fn closed() -> PyErr {
    errors::SessionError::new_err("the target is closed")
}

/// Starts, ends and whether each request completed, as columns; and why the batch ended early, if it did.
type Sent<'py> = (Bound<'py, PyBytes>, Bound<'py, PyBytes>, Bound<'py, PyBytes>, Option<String>);

fn columns<'py>(py: Python<'py>, spans: &[Option<Span>], why: Option<String>) -> Sent<'py> {
    let times = |of: fn(&Span) -> u64| {
        let bytes: Vec<u8> =
            spans.iter().flat_map(|span| span.as_ref().map_or(0, of).to_le_bytes()).collect();
        PyBytes::new(py, &bytes)
    };
    let done: Vec<u8> = spans.iter().map(|span| span.is_some().into()).collect();
    (times(|span| span.start_ns), times(|span| span.end_ns), PyBytes::new(py, &done), why)
}

fn numbers(column: &[u8]) -> impl Iterator<Item = u64> {
    column.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

fn requests(op: &[u8], lba: &[u8], sectors: &[u8], at_ns: Option<&[u8]>) -> PyResult<Vec<Request>> {
    let mut times = at_ns.map(numbers);
    let columns = op.iter().zip(numbers(lba)).zip(numbers(sectors));
    let request = |(index, ((op, lba), sectors)): (usize, ((&u8, u64), u64))| {
        let wrong = |text: String| errors::InputError::new_err(format!("request {index}: {text}"));
        let op =
            *Op::ALL.get(usize::from(*op)).ok_or_else(|| wrong(format!("op = {op}: expected 0 to 3")))?;
        let sectors =
            u32::try_from(sectors).map_err(|_| wrong(format!("sectors = {sectors}: expected below 2^32")))?;
        let arrival_ns = times.as_mut().and_then(Iterator::next).unwrap_or(0);
        Ok(Request { arrival_ns, lba, sectors, op, stream: 0, fua: false })
    };
    columns.enumerate().map(request).collect()
}

/// A file or block device, opened past the page cache. Linux only.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct BlockDevice {
    /// `None` once it is closed.
    inner: Mutex<Option<Target>>,
}

impl BlockDevice {
    fn lock(&self) -> PyResult<MutexGuard<'_, Option<Target>>> {
        match self.inner.try_lock() {
            Ok(target) => Ok(target),
            Err(TryLockError::WouldBlock) => {
                Err(errors::SessionError::new_err("the target is in use by another thread"))
            }
            Err(TryLockError::Poisoned(_)) => {
                Err(errors::RunError::new_err("the target has failed with an internal error before"))
            }
        }
    }

    fn look<T>(&self, at: impl FnOnce(&Target) -> T) -> PyResult<T> {
        self.lock()?.as_ref().map(at).ok_or_else(closed)
    }

    /// Use the target without the interpreter's lock. Ctrl-C asks for an early end.
    fn work<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut Target, &AtomicBool) -> Result<T, DeviceError> + Send,
    ) -> PyResult<Result<T, DeviceError>> {
        let mut target = self.lock()?;
        let (target, stop) = (target.as_mut().ok_or_else(closed)?, AtomicBool::new(false));
        let (done, stopped) =
            run_without_gil(py, || work(target, &stop), |_| Ok(()), || stop.store(true, Ordering::Relaxed))?;
        stopped.map_or(Ok(done), Err)
    }
}

#[pymethods]
impl BlockDevice {
    /// Open `path`, which `destroy` must name as well.
    #[new]
    #[pyo3(signature = (path, destroy, *, seed, verify, wait, least_bytes, buffer_bytes))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        destroy: Option<PathBuf>,
        seed: u64,
        verify: bool,
        wait: &str,
        least_bytes: u64,
        buffer_bytes: usize,
    ) -> PyResult<Self> {
        let Some(wait) = Wait::ALL.into_iter().find(|way| way.name() == wait) else {
            let names = Wait::ALL.map(Wait::name).join(" or ");
            return Err(errors::ConfigError::new_err(format!("wait = {wait:?}: expected {names}")));
        };
        let options = Options { destroy, seed, verify, wait, least_bytes, buffer_bytes };
        let target = py.detach(|| Target::open(&path, &options)).map_err(|error| raised(&error))?;
        Ok(Self { inner: Mutex::new(Some(target)) })
    }

    /// What the system said of the target when it was opened.
    fn facts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let facts = self.look(|target| target.facts().clone())?;
        let dict = PyDict::new(py);
        dict.set_item("kind", facts.kind.name())?;
        dict.set_item("path", facts.path.display().to_string())?;
        dict.set_item("real_path", facts.real_path.display().to_string())?;
        for (name, text) in [
            ("file_system", facts.file_system.as_deref()),
            ("device", facts.device.as_deref()),
            ("model", facts.model.as_deref()),
            ("scheduler", facts.scheduler.as_deref()),
            ("merges", facts.merges),
            ("write_cache", facts.write_cache.as_deref()),
            ("power_state", facts.power_state.as_deref()),
            ("power_control", facts.power_control.as_deref()),
        ] {
            dict.set_item(name, text)?;
        }
        for (name, number) in [
            ("bytes", Some(facts.bytes)),
            ("allocated_bytes", facts.allocated_bytes),
            ("logical_block_bytes", facts.logical_block_bytes),
            ("physical_block_bytes", facts.physical_block_bytes),
            ("minimum_io_bytes", facts.minimum_io_bytes),
            ("optimal_io_bytes", facts.optimal_io_bytes),
            ("max_request_bytes", facts.max_request_bytes),
            ("queue_requests", facts.queue_requests),
            ("discard_bytes", facts.discard_bytes),
            ("discard_granularity_bytes", facts.discard_granularity_bytes),
        ] {
            dict.set_item(name, number)?;
        }
        dict.set_item("rotational", facts.rotational)?;
        dict.set_item("fua", facts.fua)?;
        dict.set_item("read_only", facts.read_only)?;
        dict.set_item("warnings", facts.warnings())?;
        Ok(dict)
    }

    /// Send requests, given by column: operations in a byte each, the rest in eight. With `at_ns` at their own times, else
    /// so that `queue_depth` are outstanding.
    #[pyo3(signature = (op, lba, sectors, at_ns, queue_depth, gap_ns))]
    #[expect(clippy::too_many_arguments, reason = "columns of one table")]
    fn send<'py>(
        &self,
        py: Python<'py>,
        op: &[u8],
        lba: &[u8],
        sectors: &[u8],
        at_ns: Option<&[u8]>,
        queue_depth: u32,
        gap_ns: u64,
    ) -> PyResult<Sent<'py>> {
        let pace = if at_ns.is_some() { Pace::Own } else { Pace::Closed { queue_depth, gap_ns } };
        let batch = requests(op, lba, sectors, at_ns)?;
        match self.work(py, |target, stop| target.send(&batch, pace, stop))? {
            Ok(spans) => {
                let spans: Vec<Option<Span>> = spans.into_iter().map(Some).collect();
                Ok(columns(py, &spans, None))
            }
            Err(DeviceError::Failed(failed)) => {
                let Measured { spans } = failed.measured.clone();
                Ok(columns(py, &spans, Some(DeviceError::Failed(failed).to_string())))
            }
            Err(error) => Err(raised(&error)),
        }
    }

    /// Send nothing for a while.
    fn idle(&self, py: Python<'_>, ns: u64) -> PyResult<()> {
        self.work(py, |target, stop| target.idle(ns, stop))?.map_err(|error| raised(&error))
    }

    /// Give the target back to others.
    fn close(&self) -> PyResult<()> {
        *self.lock()? = None;
        Ok(())
    }

    /// Bytes of these sectors that lie in the page cache.
    fn cached_bytes(&self, lba: u64, sectors: u64) -> PyResult<u64> {
        self.look(|target| target.cached_bytes(lba, sectors))?.map_err(|error| raised(&error))
    }

    /// What the system has counted of a block device; `None` for a file.
    #[getter]
    fn device_counts<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let Some(counts) = self.look(Target::device_counts)? else { return Ok(None) };
        let dict = PyDict::new(py);
        for (name, count) in [
            ("reads", counts.reads),
            ("merged_reads", counts.merged_reads),
            ("read_sectors", counts.read_sectors),
            ("writes", counts.writes),
            ("merged_writes", counts.merged_writes),
            ("written_sectors", counts.written_sectors),
        ] {
            dict.set_item(name, count)?;
        }
        Ok(Some(dict))
    }

    /// Sectors read that were compared, and sectors read of which nothing was known.
    #[getter]
    fn proofs(&self) -> PyResult<(u64, u64)> {
        let proofs = self.look(Target::proofs)?;
        Ok((proofs.verified, proofs.unknown))
    }

    /// Sectors that the target has.
    #[getter]
    fn sectors(&self) -> PyResult<u64> {
        self.look(Target::sectors)
    }

    /// Addresses and lengths are multiples of this many sectors.
    #[getter]
    fn unit_sectors(&self) -> PyResult<u64> {
        self.look(Target::unit_sectors)
    }

    /// Whether the target takes trims.
    #[getter]
    fn can_trim(&self) -> PyResult<bool> {
        self.look(Target::can_trim)
    }
}
