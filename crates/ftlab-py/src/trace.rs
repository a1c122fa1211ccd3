//! Trace files: what they are, what is in them, and conversion.

use std::path::PathBuf;
use std::sync::Arc;

use ftlab_core::host::request::{Request, RequestSource};
use ftlab_trace::stats::StatsCollector;
use ftlab_trace::transform::transformed;
use ftlab_trace::{FORMATS, OpenOptions, TraceFile, create, open};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;
use crate::source::steps;

/// Requests between two looks at signals: some milliseconds of decoding.
const BATCH: usize = 1 << 16;

/// Open a trace; `format` is recognised when it is `None`.
pub(crate) fn opened(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    volume: Option<u16>,
) -> PyResult<TraceFile> {
    let volumes = volume.into_iter().collect();
    py.detach(|| open(path, &OpenOptions { format, volumes, ..OpenOptions::default() }))
        .map_err(|error| errors::input(&error))
}

/// The requests of a trace after the steps of a pipeline; decoded on a thread of their own when `beside`.
fn requests_of(trace: TraceFile, transform: &[String], beside: bool) -> PyResult<Box<dyn RequestSource>> {
    let steps = steps(transform)?;
    let source = if steps.is_empty() && !beside {
        trace.reader()
    } else {
        transformed(Arc::new(trace), &steps).open(0)
    };
    source.map_err(|error| errors::input(&error))
}

/// The trace formats: dictionaries with `name`, `summary`, `columns`, `units`, `cannot_say`, `argument` (`summary`,
/// `example` and `required`, or `None`), `writable` and `example`.
#[pyfunction]
pub(crate) fn formats(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let describe = |format: &&'static ftlab_trace::Format| {
        let dict = PyDict::new(py);
        dict.set_item("name", format.name)?;
        dict.set_item("summary", format.summary)?;
        dict.set_item("columns", format.columns)?;
        dict.set_item("units", format.units)?;
        dict.set_item("cannot_say", format.cannot_say)?;
        let argument = format.argument.as_ref().map(|argument| {
            let dict = PyDict::new(py);
            dict.set_item("summary", argument.summary)?;
            dict.set_item("example", argument.example)?;
            dict.set_item("required", argument.required)?;
            Ok::<_, PyErr>(dict)
        });
        dict.set_item("argument", argument.transpose()?)?;
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

/// The files that are read as one trace, in order of name.
#[pyfunction]
#[pyo3(signature = (path, format = None))]
pub(crate) fn trace_files(py: Python<'_>, path: PathBuf, format: Option<String>) -> PyResult<Vec<PathBuf>> {
    opened(py, path, format, None)?.files().map_err(|error| errors::input(&error))
}

type Row = (u64, &'static str, u64, u32, u16);

/// The first `count` requests of a trace, after the steps of a pipeline: tuples of `arrival_ns`, `op`, `lba`, `sectors` and `stream`.
#[pyfunction]
#[pyo3(signature = (path, count, format = None, volume = None, transform = Vec::new()))]
pub(crate) fn trace_head(
    py: Python<'_>,
    path: PathBuf,
    count: usize,
    format: Option<String>,
    volume: Option<u16>,
    transform: Vec<String>,
) -> PyResult<Vec<Row>> {
    let trace = opened(py, path, format, volume)?;
    let mut reader = requests_of(trace, &transform, false)?;
    let mut rows = Vec::new();
    each_batch(py, reader.as_mut(), None, count, |requests| {
        rows.extend(requests.iter().map(|r| (r.arrival_ns, r.op.name(), r.lba, r.sectors, r.stream)));
        Ok(())
    })?;
    Ok(rows)
}

/// Write a trace in another format; extensions such as `.gz` and `.zst` compress it. Returns the number of requests.
///
/// `transform` has the steps of a pipeline. `progress` is called with the fraction done, or `None`, and the number of requests.
#[pyfunction]
#[pyo3(signature = (path, target, target_format, *, format = None, volume = None, transform = Vec::new(), requests = None, progress = None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn trace_convert(
    py: Python<'_>,
    path: PathBuf,
    target: PathBuf,
    target_format: &str,
    format: Option<String>,
    volume: Option<u16>,
    transform: Vec<String>,
    requests: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<usize> {
    let trace = opened(py, path, format, volume)?;
    let mut reader = requests_of(trace, &transform, false)?;
    let mut output = create(&target, target_format).map_err(|error| errors::input(&error))?;
    let limit = requests.unwrap_or(usize::MAX);
    let count = each_batch(py, reader.as_mut(), progress.as_ref(), limit, |requests| {
        output.write(requests).map_err(|error| errors::input(&error))
    })?;
    output.finish().map_err(|error| errors::input(&error))?;
    Ok(count)
}

/// Describe the requests of a trace; the statistics come as JSON. `transform` and `progress` as for `trace_convert`.
#[pyfunction]
#[pyo3(signature = (path, *, format = None, volume = None, transform = Vec::new(), requests = None, progress = None))]
pub(crate) fn trace_stats(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    volume: Option<u16>,
    transform: Vec<String>,
    requests: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<String> {
    let trace = opened(py, path, format, volume)?;
    let mut reader = requests_of(trace, &transform, true)?;
    let mut collector = StatsCollector::default();
    each_batch(py, reader.as_mut(), progress.as_ref(), requests.unwrap_or(usize::MAX), |requests| {
        for request in requests {
            collector.add(request);
        }
        Ok(())
    })?;
    Ok(serde_json::to_string(&collector.finish()).expect("statistics are plain data"))
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
