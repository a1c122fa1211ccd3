//! Where requests come from.

use std::path::PathBuf;
use std::sync::Arc;

use ftlab_config::{Problems, read_step, step_from_json};
use ftlab_core::host::request::{Op, Request, SourceFactory, VecSource};
use ftlab_stats::{StatsCollector, StatsOptions};
use ftlab_trace::MAX_SECTORS;
use ftlab_trace::transform::{STEPS, Step, transformed};
use ftlab_workload::fit::{fit, to_toml};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::beside::Interruption;
use crate::device::parsed_json;
use crate::trace::ReadOptions;
use crate::{errors, trace};

/// Requests to run: a trace file, a generated workload, or a table.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct Source {
    pub(crate) factory: Arc<dyn SourceFactory>,
    pub(crate) name: String,
}

/// A step of a pipeline: a JSON object, or text such as `scale_time factor=0.5`.
fn step(text: &str) -> PyResult<Step> {
    let step: Result<Step, Problems> = if text.trim_start().starts_with('{') {
        step_from_json("transform", &parsed_json(text)?)
    } else {
        read_step(text)
    };
    step.map_err(|problems| errors::config(&problems))
}

pub(crate) fn steps(texts: &[String]) -> PyResult<Vec<Step>> {
    texts.iter().map(|text| step(text)).collect()
}

/// A step of a pipeline, as JSON: `text` is such an object, or a name with keys such as `scale_time factor=0.5`.
#[pyfunction]
pub(crate) fn transform_step(text: &str) -> PyResult<String> {
    Ok(serde_json::to_string(&step(text)?).expect("a step is plain data"))
}

/// The steps of pipelines: dictionaries with `name`, `summary` and `example`.
#[pyfunction]
pub(crate) fn transform_steps(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let describe = |step: &ftlab_trace::transform::StepInfo| {
        let dict = PyDict::new(py);
        dict.set_item("name", step.name)?;
        dict.set_item("summary", step.summary)?;
        dict.set_item("example", step.example)?;
        Ok(dict)
    };
    STEPS.iter().map(describe).collect()
}

fn column<T: Element + Default + Clone>(
    py: Python<'_>,
    name: &str,
    values: &Bound<'_, PyAny>,
) -> PyResult<Vec<T>> {
    let wrong = |error: PyErr| errors::InputError::new_err(format!("column {name}: {error}"));
    let buffer = PyBuffer::<T>::get(values).map_err(wrong)?;
    let mut copy = vec![T::default(); buffer.item_count()];
    buffer.copy_to_slice(py, &mut copy).map_err(wrong)?;
    Ok(copy)
}

#[pymethods]
impl Source {
    /// Requests from columns of equal length: `arrival_ns` (u64), `op` (u8: 0 read, 1 write, 2 trim, 3 flush), `lba`
    /// (u64), `sectors` (u32), `stream` (u16) and `fua` (u8: 0 or 1). Only writes are FUA.
    #[staticmethod]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn from_columns(
        py: Python<'_>,
        arrival_ns: &Bound<'_, PyAny>,
        op: &Bound<'_, PyAny>,
        lba: &Bound<'_, PyAny>,
        sectors: &Bound<'_, PyAny>,
        stream: &Bound<'_, PyAny>,
        fua: &Bound<'_, PyAny>,
        name: String,
    ) -> PyResult<Self> {
        let arrival_ns: Vec<u64> = column(py, "arrival_ns", arrival_ns)?;
        let op: Vec<u8> = column(py, "op", op)?;
        let lba: Vec<u64> = column(py, "lba", lba)?;
        let sectors: Vec<u32> = column(py, "sectors", sectors)?;
        let stream: Vec<u16> = column(py, "stream", stream)?;
        let fua: Vec<u8> = column(py, "fua", fua)?;
        let rows = arrival_ns.len();
        if [op.len(), lba.len(), sectors.len(), stream.len(), fua.len()].iter().any(|length| *length != rows)
        {
            return Err(errors::InputError::new_err("the columns of a table of requests differ in length"));
        }
        let mut requests = Vec::with_capacity(rows);
        for row in 0..rows {
            let Some(op) = Op::ALL.get(usize::from(op[row])).copied() else {
                return Err(errors::InputError::new_err(format!(
                    "row {row}: op = {}, expected 0 to 3",
                    op[row]
                )));
            };
            // As in files.
            let end = lba[row].checked_add(u64::from(sectors[row]));
            if op != Op::Flush && sectors[row] == 0 {
                return Err(errors::InputError::new_err(format!(
                    "row {row}: sectors = 0, expected a size above 0: nothing can be read or written in 0 sectors"
                )));
            }
            if op != Op::Flush && end.is_none_or(|end| end > MAX_SECTORS) {
                return Err(errors::InputError::new_err(format!(
                    "row {row}: lba = {}, expected a request that ends below sector 2^54",
                    lba[row]
                )));
            }
            requests.push(Request {
                arrival_ns: arrival_ns[row],
                lba: lba[row],
                sectors: sectors[row],
                op,
                stream: stream[row],
                fua: op == Op::Write && fua[row] != 0,
            });
        }
        Ok(Self { factory: Arc::new(VecSource::new(requests)), name })
    }

    /// Requests of a trace file, after the steps that `reading` names.
    #[staticmethod]
    #[pyo3(signature = (path, reading = None))]
    fn from_trace(py: Python<'_>, path: PathBuf, reading: Option<&ReadOptions>) -> PyResult<Self> {
        let trace = trace::opened(py, path, reading)?;
        let name =
            trace.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { factory: trace::transformed_trace(trace, reading), name })
    }

    /// These requests after more steps of a pipeline, each a JSON object or text such as `scale_time factor=0.5`.
    fn transform(&self, transform: Vec<String>) -> PyResult<Self> {
        Ok(Self { factory: transformed(self.factory.clone(), &steps(&transform)?), name: self.name.clone() })
    }

    /// Its first `count` requests, as `trace_head` gives those of a trace.
    fn head(&self, py: Python<'_>, count: usize) -> PyResult<trace::Head> {
        trace::head(py, &*self.factory, count)
    }

    /// Write its requests, or the first `requests` of them, as a trace. The rest is as for `trace_convert`.
    #[pyo3(signature = (target, target_format, *, requests = None, progress = None))]
    fn write(
        &self,
        py: Python<'_>,
        target: PathBuf,
        target_format: &str,
        requests: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<trace::Written> {
        let interruption = Interruption::new(py);
        let mut source =
            interruption.watch(|| self.factory.open(0).map_err(|error| errors::input(&error)))?;
        let limit = requests.unwrap_or(usize::MAX);
        let (count, lost) = trace::write_all(
            &interruption,
            source.as_mut(),
            &target,
            target_format,
            &self.name,
            limit,
            progress.as_ref(),
        )?;
        Ok((count, source.skipped_records(), lost, trace::remarks(source.as_ref())))
    }

    /// Describe its requests, or the first `requests` of them. `options` are those of the statistics as JSON; the
    /// result is JSON too. `progress` is called with the fraction done, or `None`, and the number of requests.
    #[pyo3(signature = (options, requests = None, progress = None))]
    fn stats(
        &self,
        py: Python<'_>,
        options: &str,
        requests: Option<usize>,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let refused = |problem: String| errors::ConfigError::new_err(format!("statistics: {problem}"));
        // Line and column would be those of the JSON, which the caller has not written.
        let told = |error: serde_json::Error| {
            let text = error.to_string();
            text.split(" at line ").next().map(str::to_owned).unwrap_or(text)
        };
        let options: StatsOptions = serde_json::from_str(options).map_err(|error| refused(told(error)))?;
        let mut collector = StatsCollector::new(options).map_err(|error| refused(error.to_string()))?;
        let interruption = Interruption::new(py);
        let mut source =
            interruption.watch(|| self.factory.open(0).map_err(|error| errors::input(&error)))?;
        let limit = requests.unwrap_or(usize::MAX);
        trace::each_batch(&interruption, source.as_mut(), progress.as_ref(), limit, |requests| {
            collector.add(requests);
            Ok(())
        })?;
        let mut found = serde_json::to_value(collector.finish()).expect("statistics are plain data");
        found["skipped_records"] = source.skipped_records().into();
        found["remarks"] = trace::remarks(source.as_ref()).into();
        Ok(found.to_string())
    }

    /// The text of a workload file of kind `fitted` whose requests resemble the first `requests` of these, which must
    /// be as many as there are or fewer.
    fn fit(&self, py: Python<'_>, requests: u64, description: &str) -> PyResult<String> {
        let factory = self.factory.clone();
        let fitted = Interruption::new(py).watch(|| {
            fit(&*factory, requests).map_err(|mut error| {
                if error.origin.is_empty() {
                    error.origin.clone_from(&self.name);
                }
                errors::input(&error)
            })
        })?;
        Ok(to_toml(description, &fitted))
    }

    /// Its name in reports.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
}
