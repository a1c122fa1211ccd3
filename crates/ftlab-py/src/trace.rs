//! Trace files: what they are, what is in them, and conversion.

use std::path::PathBuf;

use ftlab_core::host::request::{Request, RequestSource};
use ftlab_trace::{FORMATS, OpenOptions, TraceFile, create, open};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;

/// Requests between two looks at signals: some milliseconds of decoding.
const BATCH: usize = 1 << 16;

/// Open a trace; `format` is recognised when it is `None`.
pub(crate) fn opened(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    volume: Option<u16>,
) -> PyResult<TraceFile> {
    py.detach(|| open(path, &OpenOptions { format, volume })).map_err(|error| errors::input(&error))
}

/// The trace formats: dictionaries with `name`, `summary`, `columns`, `units`, `writable` and `example`.
#[pyfunction]
pub(crate) fn formats(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let describe = |format: &&'static ftlab_trace::Format| {
        let dict = PyDict::new(py);
        dict.set_item("name", format.name)?;
        dict.set_item("summary", format.summary)?;
        dict.set_item("columns", format.columns)?;
        dict.set_item("units", format.units)?;
        dict.set_item("writable", format.is_writable())?;
        dict.set_item("example", format.example)?;
        Ok(dict)
    };
    FORMATS.iter().map(describe).collect()
}

/// The format and the compression of a trace file, by name.
#[pyfunction]
#[pyo3(signature = (path, format = None))]
pub(crate) fn trace_info(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
) -> PyResult<(&'static str, String)> {
    let trace = opened(py, path, format, None)?;
    Ok((trace.format().name, format!("{:?}", trace.compression()).to_lowercase()))
}

type Row = (u64, &'static str, u64, u32, u16);

/// The first `count` requests of a trace: tuples of `arrival_ns`, `op`, `lba`, `sectors` and `stream`.
#[pyfunction]
#[pyo3(signature = (path, count, format = None, volume = None))]
pub(crate) fn trace_head(
    py: Python<'_>,
    path: PathBuf,
    count: usize,
    format: Option<String>,
    volume: Option<u16>,
) -> PyResult<Vec<Row>> {
    let trace = opened(py, path, format, volume)?;
    let mut reader = trace.reader().map_err(|error| errors::input(&error))?;
    let mut rows = Vec::new();
    each_batch(py, reader.as_mut(), None, count, |requests| {
        rows.extend(requests.iter().map(|r| (r.arrival_ns, r.op.name(), r.lba, r.sectors, r.stream)));
        Ok(())
    })?;
    Ok(rows)
}

/// Write a trace in another format; extensions such as `.gz` and `.zst` compress it. Returns the number of requests.
///
/// `progress` is called with the fraction done, or `None`, and the number of requests.
#[pyfunction]
#[pyo3(signature = (path, target, target_format, *, format = None, volume = None, requests = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn trace_convert(
    py: Python<'_>,
    path: PathBuf,
    target: PathBuf,
    target_format: &str,
    format: Option<String>,
    volume: Option<u16>,
    requests: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<usize> {
    let trace = opened(py, path, format, volume)?;
    let mut reader = trace.reader().map_err(|error| errors::input(&error))?;
    let mut output = create(&target, target_format).map_err(|error| errors::input(&error))?;
    let limit = requests.unwrap_or(usize::MAX);
    let count = each_batch(py, reader.as_mut(), progress.as_ref(), limit, |requests| {
        output.write(requests).map_err(|error| errors::input(&error))
    })?;
    output.finish().map_err(|error| errors::input(&error))?;
    Ok(count)
}

/// Read a source to its end, or `limit` requests of it, looking after signals and progress between batches.
pub(crate) fn each_batch(
    py: Python<'_>,
    source: &mut dyn RequestSource,
    progress: Option<&Py<PyAny>>,
    limit: usize,
    mut take: impl FnMut(&[Request]) -> PyResult<()> + Send,
) -> PyResult<usize> {
    let mut batch = Vec::new();
    let mut count = 0;
    while count < limit {
        batch.clear();
        let filled = py.detach(|| {
            let filled =
                source.fill(&mut batch, BATCH.min(limit - count)).map_err(|error| errors::input(&error))?;
            take(&batch)?;
            Ok::<usize, PyErr>(filled)
        })?;
        if filled == 0 {
            break;
        }
        count += filled;
        py.check_signals()?;
        if let Some(progress) = progress {
            progress.call1(py, (source.fraction_done(), count))?;
        }
    }
    Ok(count)
}
