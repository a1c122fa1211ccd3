//! Sessions: a drive that Python feeds while it runs.

use std::sync::{Mutex, MutexGuard, TryLockError};

use ftlab_core::device::{RunControl, RunError, RunOutcome};
use ftlab_core::host::request::{Op, Request};
use ftlab_core::host::session::{self, SessionError, SessionOptions};
use ftlab_core::metrics::RequestRecord;
use ftlab_core::time::Time;
use pyo3::exceptions::PyKeyboardInterrupt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::beside::run_without_gil;
use crate::device::Device;
use crate::errors;
use crate::run::explained;
use crate::source::Source;

/// Requests up to which a table is sent at once, so fast that nobody could interrupt it.
const FEW: usize = 4096;

/// Id, operation, first sector, sectors, stream; arrival, hand-over to the drive and end in nanoseconds; FUA.
type Row = (u64, u8, u64, u32, u16, f64, f64, f64, bool);

fn row(record: &RequestRecord) -> Row {
    let Request { lba, sectors, op, stream, fua, .. } = record.request;
    let ns = Time::as_ns_f64;
    (record.index, op as u8, lba, sectors, stream, ns(record.arrival), ns(record.start), ns(record.end), fua)
}

fn raised(error: &SessionError) -> PyErr {
    match error {
        SessionError::Device(error) => errors::ConfigError::new_err(error.to_string()),
        SessionError::Run(error) => errors::RunError::new_err(error.to_string()),
        SessionError::Interrupted => PyKeyboardInterrupt::new_err(error.to_string()),
        refused => errors::SessionError::new_err(refused.to_string()),
    }
}

/// A drive that stands still between calls.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct Session {
    inner: Mutex<session::Session>,
}

impl Session {
    /// Two threads cannot feed a session at once: the second is told so, and does not wait with the interpreter's lock.
    fn lock(&self) -> PyResult<MutexGuard<'_, session::Session>> {
        match self.inner.try_lock() {
            Ok(session) => Ok(session),
            Err(TryLockError::WouldBlock) => {
                Err(errors::SessionError::new_err("the session is in use by another thread"))
            }
            Err(TryLockError::Poisoned(_)) => {
                Err(errors::RunError::new_err("the session has failed with an internal error before"))
            }
        }
    }

    /// Let time pass, without the interpreter's lock.
    fn pass<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut session::Session) -> Result<T, SessionError> + Send,
    ) -> PyResult<T> {
        let mut session = self.lock()?;
        let session = &mut *session;
        py.detach(|| work(session)).map_err(|error| raised(&error))
    }
}

impl Session {
    /// Send what `source` gives, as `send` does. Ctrl-C ends it when what is in the drive has completed.
    fn send_all<'py>(
        &self,
        py: Python<'py>,
        source: &Source,
        send: impl FnOnce(
            &mut session::Session,
            &[Request],
            &RunControl,
        ) -> Result<Vec<RequestRecord>, SessionError>
        + Send,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut session = self.lock()?;
        let (session, control) = (&mut *session, RunControl::default());
        let mut requests = Vec::new();
        let mut source = source.factory.open(0).map_err(|error| errors::input(&error))?;
        while source.fill(&mut requests, FEW).map_err(|error| errors::input(&error))? > 0 {}
        let few = requests.len() <= FEW;
        let work = || send(session, &requests, &control);
        let (records, stopped) = if few {
            (py.detach(work), None)
        } else {
            run_without_gil(py, work, |_| Ok(()), || control.cancel())?
        };
        if let Some(error) = stopped {
            session.give_back(records.unwrap_or_default());
            return Err(error);
        }
        columns(py, &records.map_err(|error| raised(&error))?)
    }
}

fn request(op: u8, lba: u64, sectors: u32, stream: u16, fua: bool) -> PyResult<Request> {
    let Some(op) = Op::ALL.get(usize::from(op)).copied() else {
        return Err(errors::SessionError::new_err(format!("op = {op}: expected 0 to 3")));
    };
    Ok(Request { arrival_ns: 0, lba, sectors, op, stream, fua: fua && op == Op::Write })
}

/// The completions by column: for each its NumPy type and its values as bytes.
fn columns<'py>(py: Python<'py>, records: &[RequestRecord]) -> PyResult<Bound<'py, PyDict>> {
    fn whole<'py>(
        py: Python<'py>,
        records: &[RequestRecord],
        of: impl Fn(&RequestRecord) -> u64,
    ) -> PyResult<(&'static str, Bound<'py, PyBytes>)> {
        let bytes = PyBytes::new_with(py, records.len() * size_of::<u64>(), |bytes| {
            for (place, record) in bytes.as_chunks_mut().0.iter_mut().zip(records) {
                *place = of(record).to_le_bytes();
            }
            Ok(())
        })?;
        Ok(("<u8", bytes))
    }
    let dict = PyDict::new(py);
    let ops: Vec<u8> = records.iter().map(|record| record.request.op as u8).collect();
    dict.set_item("id", whole(py, records, |record| record.index)?)?;
    dict.set_item("arrival_ns", whole(py, records, |record| record.arrival.as_ns())?)?;
    dict.set_item("start_ns", whole(py, records, |record| record.start.as_ns())?)?;
    dict.set_item("end_ns", whole(py, records, |record| record.end.as_ns())?)?;
    dict.set_item("latency_ns", whole(py, records, |record| record.end.since(record.start).as_ns())?)?;
    dict.set_item("op", ("u1", PyBytes::new(py, &ops)))?;
    dict.set_item("lba", whole(py, records, |record| record.request.lba)?)?;
    dict.set_item("sectors", whole(py, records, |record| record.request.sectors.into())?)?;
    dict.set_item("stream", whole(py, records, |record| record.request.stream.into())?)?;
    let fua: Vec<u8> = records.iter().map(|record| record.request.fua.into()).collect();
    dict.set_item("fua", ("?", PyBytes::new(py, &fua)))?;
    Ok(dict)
}

/// The summary document as JSON, and why the drive failed, if it did.
fn told(outcome: &RunOutcome) -> (String, Option<String>) {
    let json = serde_json::to_string(&outcome.summary).expect("a summary is plain data");
    (json, outcome.error.as_ref().map(ToString::to_string))
}

#[pymethods]
impl Session {
    /// Put a drive together and precondition it. Ctrl-C ends that.
    #[new]
    #[pyo3(signature = (device, seed = 1, verify = false))]
    fn new(py: Python<'_>, device: &Device, seed: u64, verify: bool) -> PyResult<Self> {
        let (control, options) = (RunControl::default(), SessionOptions { seed, verify });
        let work = || session::Session::new(&device.config, &options, &control);
        let (made, stopped) = run_without_gil(py, work, |_| Ok(()), || control.cancel())?;
        if let Some(error) = stopped {
            return Err(error);
        }
        let inner = made.map_err(|error| match error {
            SessionError::Device(error) => explained(device, &RunError::Config(error)),
            SessionError::Run(error) if error.is_input() => errors::InputError::new_err(error.to_string()),
            error => raised(&error),
        })?;
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// Let a request arrive at `at_ns`, or at this moment with `None`. Returns its id.
    #[pyo3(signature = (op, lba, sectors, stream, fua, at_ns))]
    fn submit(
        &self,
        op: u8,
        lba: u64,
        sectors: u32,
        stream: u16,
        fua: bool,
        at_ns: Option<u64>,
    ) -> PyResult<u64> {
        let request = request(op, lba, sectors, stream, fua)?;
        let mut session = self.lock()?;
        let id = match at_ns {
            Some(at) => session.submit(request, Time::from_ns(at)),
            None => session.submit_now(request),
        };
        id.map_err(|error| raised(&error))
    }

    /// Let time pass until the next request has completed; `None` when none is outstanding.
    fn next_event(&self, py: Python<'_>) -> PyResult<Option<Row>> {
        self.pass(py, |session| Ok(session.next_event()?.as_ref().map(row)))
    }

    /// Let time pass until request `id` has completed.
    fn wait(&self, py: Python<'_>, id: u64) -> PyResult<Row> {
        self.pass(py, |session| Ok(row(&session.wait(id)?)))
    }

    /// Let everything happen before `until_ns`, or everything at all with `None`. Returns the completions by column.
    #[pyo3(signature = (until_ns))]
    fn advance<'py>(&self, py: Python<'py>, until_ns: Option<u64>) -> PyResult<Bound<'py, PyDict>> {
        let records = self.pass(py, |session| match until_ns {
            Some(until) => session.advance(Time::from_ns(until)),
            None => session.drain(),
        })?;
        columns(py, &records)
    }

    /// Send the requests of `source`: with a queue depth in a closed loop with a gap, else at their own times. Returns the
    /// completions by column. Ctrl-C ends it when what is in the drive has completed.
    #[pyo3(signature = (source, queue_depth, gap_ns))]
    fn send<'py>(
        &self,
        py: Python<'py>,
        source: &Source,
        queue_depth: Option<usize>,
        gap_ns: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.send_all(py, source, |session, requests, control| match queue_depth {
            Some(depth) => session.send(requests, depth, Time::from_ns(gap_ns), control),
            None => session.send_timed(requests, control),
        })
    }

    /// Send the requests of `source` in groups of `together`, each at one instant. Otherwise as `send`.
    #[pyo3(signature = (source, together, gap_ns))]
    fn send_together<'py>(
        &self,
        py: Python<'py>,
        source: &Source,
        together: usize,
        gap_ns: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.send_all(py, source, |session, requests, control| {
            session.send_together(requests, together, Time::from_ns(gap_ns), control)
        })
    }

    /// Let a request arrive at this moment, and time pass until it has completed.
    #[pyo3(signature = (op, lba, sectors))]
    fn serve(&self, py: Python<'_>, op: u8, lba: u64, sectors: u32) -> PyResult<Row> {
        let request = request(op, lba, sectors, 0, false)?;
        self.pass(py, |session| Ok(row(&session.serve(request)?)))
    }

    /// Send nothing for `span_ns`. Returns the completions of that time by column.
    #[pyo3(signature = (span_ns))]
    fn idle<'py>(&self, py: Python<'py>, span_ns: u64) -> PyResult<Bound<'py, PyDict>> {
        let records = self.pass(py, |session| session.idle(Time::from_ns(span_ns)))?;
        columns(py, &records)
    }

    /// The same drive in the same state at the same time, again.
    fn fork(&self, py: Python<'_>) -> PyResult<Self> {
        let inner = self.pass(py, |session| session.fork())?;
        Ok(Self { inner: Mutex::new(inner) })
    }

    /// The summary document so far, as JSON, and why the drive failed, if it did.
    fn outcome(&self, py: Python<'_>) -> PyResult<(String, Option<String>)> {
        self.pass(py, |session| Ok(told(&session.outcome()?)))
    }

    /// Let everything happen that was submitted, and end the session. Returns what `outcome` does.
    fn close(&self, py: Python<'_>) -> PyResult<(String, Option<String>)> {
        self.pass(py, |session| Ok(told(&session.close()?)))
    }

    /// The present, in nanoseconds.
    #[getter]
    fn now_ns(&self) -> PyResult<f64> {
        self.lock()?.now().map(Time::as_ns_f64).map_err(|error| raised(&error))
    }

    /// Requests whose completion was not told.
    #[getter]
    fn outstanding(&self) -> PyResult<u64> {
        Ok(self.lock()?.outstanding())
    }

    /// Sectors that the host sees.
    #[getter]
    fn sectors(&self) -> PyResult<u64> {
        Ok(self.lock()?.sectors())
    }
}
