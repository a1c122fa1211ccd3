//! Generated workloads.

use ftlab_config::{
    Document, Kind, Origin, Problem, Problems, load_workload, read_workload, to_toml, within_workload,
};
use ftlab_core::error::ConfigError;
use ftlab_core::quantity::parse_bytes;
use ftlab_workload::stand_in::{Expected, Target};
use ftlab_workload::{GenerateOptions, KindInfo, WorkloadError, WorkloadFile, kinds};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use serde_json::json;

use crate::device::{Device, parsed_json};
use crate::errors;
use crate::source::{Source, steps};
use crate::study::TraceCache;

/// The kinds of workloads: dictionaries with `name`, `summary`, `own_keys` (those that no other kind has) and
/// `common_keys` (those of several kinds that it has).
#[pyfunction]
pub(crate) fn workload_kinds(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let describe = |kind: KindInfo| {
        let dict = PyDict::new(py);
        dict.set_item("name", kind.name)?;
        dict.set_item("summary", kind.summary)?;
        dict.set_item("own_keys", kind.own_keys)?;
        dict.set_item("common_keys", kind.common_keys)?;
        Ok(dict)
    };
    kinds().into_iter().map(describe).collect()
}

/// A workload whose description has been checked.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct Workload {
    document: Document,
    file: WorkloadFile,
}

impl Workload {
    fn checked(document: Document) -> PyResult<Self> {
        let file = read_workload(&document).map_err(|problems| errors::config(&problems))?;
        Ok(Self { document, file })
    }
}

#[pymethods]
impl Workload {
    /// Load a preset by name or a TOML file by path, and lay `overrides` (`"requests=10"`) over it.
    #[staticmethod]
    #[pyo3(signature = (source, overrides = Vec::new()))]
    fn load(source: &str, overrides: Vec<String>) -> PyResult<Self> {
        let loaded: Result<_, Problems> = load_workload(source, &overrides);
        let (document, file) = loaded.map_err(|problems| errors::config(&problems))?;
        Ok(Self { document, file })
    }

    /// Parse TOML text; `name` is what errors call it.
    #[staticmethod]
    fn parse(text: &str, name: &str) -> PyResult<Self> {
        Self::checked(
            Document::parse(Kind::Workload, text, name).map_err(|problems| errors::config(&problems))?,
        )
    }

    /// A workload from the keys of its section as a JSON object; `label` is their place in errors. `name` is its name in
    /// reports, that of its kind when absent.
    #[staticmethod]
    #[pyo3(signature = (json, label, name = None))]
    fn from_json(json: &str, label: &str, name: Option<String>) -> PyResult<Self> {
        let refused = |problems: Problems| errors::config(&problems);
        let mut document = Document::parse(Kind::Workload, "", label).map_err(refused)?;
        let keys = serde_json::json!({ "workload": parsed_json(json)? });
        document.merge_json(label, &keys).map_err(refused)?;
        let mut workload = Self::checked(document)?;
        let config = &workload.file.workload;
        workload.file.name =
            name.unwrap_or_else(|| config.kind.map_or("trace", |kind| kind.name()).to_owned());
        Ok(workload)
    }

    /// A workload with several layers laid over this one and checked at the end: pairs of a JSON object with keys and its
    /// place in errors.
    fn layered(&self, layers: Vec<(String, String)>) -> PyResult<Self> {
        let mut document = self.document.clone();
        let parse = |(json, label): &(String, String)| {
            Ok((label.clone(), serde_json::json!({ "workload": parsed_json(json)? })))
        };
        let layers = layers.iter().map(parse).collect::<PyResult<Vec<_>>>()?;
        let parts = layers.iter().map(|(label, keys)| (label.as_str(), keys));
        document.merge_layer(parts).map_err(|problems| errors::config(&problems))?;
        let mut workload = Self::checked(document)?;
        workload.file.name.clone_from(&self.file.name);
        Ok(workload)
    }

    /// A workload with `overrides` (`"requests=10"`) laid over this one.
    fn set(&self, overrides: Vec<String>) -> PyResult<Self> {
        let mut document = self.document.clone();
        let layer = overrides.iter().map(|assignment| (assignment.as_str(), within_workload(assignment)));
        document.set(layer).map_err(|problems| errors::config(&problems))?;
        let name = self.file.name.clone();
        let mut workload = Self::checked(document)?;
        workload.file.name = name;
        Ok(workload)
    }

    /// This workload with more steps at the end of its pipeline, each a JSON object or text such as
    /// `scale_time factor=0.5`.
    fn transform(&self, transform: Vec<String>) -> PyResult<Self> {
        let mut all = self.file.workload.transform.clone();
        all.extend(steps(&transform)?);
        let mut document = self.document.clone();
        let keys = serde_json::json!({ "workload": { "transform": all } });
        document.merge_json("transform", &keys).map_err(|problems| errors::config(&problems))?;
        let mut workload = Self::checked(document)?;
        workload.file.name.clone_from(&self.file.name);
        Ok(workload)
    }

    /// Its name in reports.
    #[getter]
    fn name(&self) -> &str {
        &self.file.name
    }

    /// What it is.
    #[getter]
    fn description(&self) -> &str {
        &self.file.description
    }

    /// What it stands for, as JSON; `None` when it is no stand-in.
    #[getter]
    fn stand_in_json(&self) -> Option<String> {
        let stand_in = self.file.stand_in.as_ref()?;
        Some(serde_json::to_string(stand_in).expect("a stand-in is plain data"))
    }

    /// The statistics that it must have, as JSON: `source`, `targets` (`statistic`, `expected`, `least`, `most`),
    /// `footprint_unit_bytes`, and `shape`, a list of names; `None` when none are stated.
    #[getter]
    fn calibration_json(&self) -> Option<String> {
        let calibration = self.file.calibration.as_ref()?;
        let target = |target: Target| {
            let (least, most) = target.bounds;
            json!({ "statistic": target.statistic.as_ref(), "expected": target.expected, "least": least, "most": most })
        };
        let targets: Vec<_> = calibration.targets().into_iter().map(target).collect();
        let all = json!({
            "source": calibration.source,
            "targets": targets,
            "footprint_unit_bytes": calibration.footprint_unit_bytes.unwrap_or(Expected::Value(4096.0)),
            "shape": calibration.shape,
        });
        Some(all.to_string())
    }

    /// The parameters that are stated, as JSON.
    fn to_json(&self) -> String {
        serde_json::to_string(&self.file.workload).expect("a workload is plain data")
    }

    /// The text of a workload file with the parameters that are stated.
    fn to_toml(&self) -> PyResult<String> {
        to_toml(&self.file).map_err(|problems| errors::config(&problems))
    }

    /// Its requests for a device; `seed` and `requests` replace those of the description. `traces` decodes a trace once
    /// for all. `in_line` makes the requests on the thread of the run, however many there are. `fleet` says that others
    /// take other volumes of the trace.
    #[pyo3(signature = (device, seed = None, requests = None, traces = None, in_line = false, fleet = false))]
    fn source(
        &self,
        device: &Device,
        seed: Option<u64>,
        requests: Option<u64>,
        traces: Option<&TraceCache>,
        in_line: bool,
        fleet: bool,
    ) -> PyResult<Source> {
        let capacity = device.config.logical_pages() * device.config.unit_bytes();
        let traces = traces.map(|traces| traces.cache.clone());
        let options = GenerateOptions { traces, on_caller_thread: in_line, fleet };
        self.sized(capacity, seed, requests, &options)
    }

    /// Its requests for a drive of `capacity`, a size such as `"64GiB"`; `seed` and `requests` as for `source`.
    #[pyo3(signature = (capacity, seed = None, requests = None))]
    fn source_of_capacity(
        &self,
        capacity: &str,
        seed: Option<u64>,
        requests: Option<u64>,
    ) -> PyResult<Source> {
        let bytes = parse_bytes(capacity)
            .map_err(|problem| errors::ConfigError::new_err(format!("capacity = {capacity:?}: {problem}")))?;
        self.sized(bytes, seed, requests, &GenerateOptions::default())
    }
}

impl Workload {
    /// What is wrong, where `requests` replaced those of the description.
    fn problem(&self, error: &ConfigError, requests: Option<u64>) -> Problem {
        let Some(requests) = requests.filter(|_| error.key == "workload.requests") else {
            return self.document.explain(error);
        };
        let origin = Some(Origin::Override(format!("requests = {requests}").into()));
        Problem { origin, ..self.document.explain(error) }
    }

    fn sized(
        &self,
        capacity: u64,
        seed: Option<u64>,
        requests: Option<u64>,
        options: &GenerateOptions,
    ) -> PyResult<Source> {
        let made = self.file.workload.factory_by(capacity, seed, requests, options);
        let factory = made.map_err(|error| match error {
            WorkloadError::Config(error) => errors::config(&self.problem(&error, requests).into()),
            WorkloadError::Source(error) => errors::input(&error),
        })?;
        Ok(Source { factory, name: self.file.name.clone() })
    }
}
