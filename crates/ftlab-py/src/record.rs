//! Recording the file accesses of a command.

use std::ffi::OsString;
use std::path::PathBuf;

use ftlab_core::host::request::Op;
use ftlab_record::{Options, Processes, RecordError};
use ftlab_trace::create;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::beside::run_without_gil;
use crate::errors;

/// SIGTERM.
const TERMINATE: i32 = 15;

/// Run `command` and write what it does to files as the trace `target`. `cache` is the size of a page cache in between, 0
/// for none. `asked` is called about ten times a second, and gives the number of a signal for the command. Linux only.
///
/// Returns a dictionary: `status` of the command, `reads`, `writes`, `trims`, `flushes`, `calls`, `files`, `space_bytes`
/// and `duration_ns`. `shared_mappings` and `asynchronous_calls` count what could not be seen. `lost` has sentences that
/// say what the format could not hold.
#[pyfunction]
#[pyo3(signature = (command, target, target_format, *, cache = "0", include = Vec::new(), exclude = Vec::new(),
    output_to_stderr = false, asked = None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn record<'py>(
    py: Python<'py>,
    command: Vec<OsString>,
    target: PathBuf,
    target_format: &str,
    cache: &str,
    include: Vec<String>,
    exclude: Vec<String>,
    output_to_stderr: bool,
    asked: Option<Py<PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let cache_bytes = ftlab_core::quantity::parse_bytes(cache)
        .map_err(|expected| errors::ConfigError::new_err(format!("cache: {expected}, or none")))?;
    let mut output = create(&target, target_format).map_err(|error| errors::input(&error))?;
    // What a format cannot express must not cost what else was recorded.
    output.leave_out_the_rest();
    let processes = Processes::default();
    let options = Options { cache_bytes, include, exclude, output_to_stderr, processes: processes.clone() };
    let work = || {
        let mut take = |requests: &[_]| output.write(requests).map_err(|error| error.to_string());
        let recorded = ftlab_record::record(&command, &options, &mut take)?;
        let lost = output.finish().map_err(|error| RecordError::Output(error.to_string()))?;
        Ok::<_, RecordError>((recorded, lost))
    };
    let look = |py: Python<'_>| {
        let signal = asked.as_ref().map(|asked| asked.call0(py)?.extract::<Option<i32>>(py)).transpose()?;
        signal.flatten().into_iter().for_each(|signal| processes.signal(signal));
        Ok(())
    };
    // On a thread of its own also because recording waits for all children of its thread, and the interpreter may have others.
    let (recorded, stopped) = run_without_gil(py, work, look, || processes.signal(TERMINATE))?;
    if let Some(error) = stopped {
        return Err(error);
    }
    let (recorded, lost) = recorded.map_err(|error| errors::InputError::new_err(error.to_string()))?;
    let dict = PyDict::new(py);
    dict.set_item("status", recorded.status)?;
    for (name, op) in
        [("reads", Op::Read), ("writes", Op::Write), ("trims", Op::Trim), ("flushes", Op::Flush)]
    {
        dict.set_item(name, recorded.counts.requests[op as usize])?;
    }
    dict.set_item("calls", recorded.counts.calls)?;
    dict.set_item("files", recorded.counts.files)?;
    dict.set_item("space_bytes", recorded.counts.space_bytes)?;
    dict.set_item("duration_ns", recorded.duration_ns)?;
    dict.set_item("shared_mappings", recorded.shared_mappings)?;
    dict.set_item("asynchronous_calls", recorded.asynchronous_calls)?;
    dict.set_item("lost", lost)?;
    Ok(dict)
}
