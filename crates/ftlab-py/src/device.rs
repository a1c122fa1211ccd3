//! Devices, presets and schemes.

use ftlab_config::{Document, Kind, Problems, load_device, presets as preset_files, read_device, to_toml};
use ftlab_core::config::DeviceConfig;
use ftlab_core::memory::{bytes_at_first, bytes_at_most, fills_by_formula};
use ftlab_core::scheme::{AxisInfo, KeyInfo};
use ftlab_workload::WorkloadFile;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors;

/// A drive whose description has been checked.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct Device {
    pub(crate) document: Document,
    pub(crate) config: DeviceConfig,
}

impl Device {
    fn checked(document: Document) -> PyResult<Self> {
        let config = read_device(&document).map_err(|problems| errors::config(&problems))?;
        Ok(Self { document, config })
    }
}

pub(crate) fn parsed_json(json: &str) -> PyResult<serde_json::Value> {
    serde_json::from_str(json).map_err(|error| errors::ConfigError::new_err(error.to_string()))
}

#[pymethods]
impl Device {
    /// Load a preset by name or a TOML file by path, and lay `overrides` (`"ftl.gc=fifo"`) over it.
    #[staticmethod]
    #[pyo3(signature = (source, overrides = Vec::new()))]
    fn load(source: &str, overrides: Vec<String>) -> PyResult<Self> {
        let loaded: Result<_, Problems> = load_device(source, &overrides);
        let (document, config) = loaded.map_err(|problems| errors::config(&problems))?;
        Ok(Self { document, config })
    }

    /// Parse TOML text; `name` is what errors call it.
    #[staticmethod]
    fn parse(text: &str, name: &str) -> PyResult<Self> {
        Self::checked(
            Document::parse(Kind::Device, text, name).map_err(|problems| errors::config(&problems))?,
        )
    }

    /// A device from a JSON object with the sections of a device file; `label` is their place in errors.
    #[staticmethod]
    fn from_json(json: &str, label: &str) -> PyResult<Self> {
        let refused = |problems: Problems| errors::config(&problems);
        let mut document = Document::parse(Kind::Device, "", label).map_err(refused)?;
        document.merge_json(label, &parsed_json(json)?).map_err(refused)?;
        Self::checked(document)
    }

    /// A device with `overrides` (`"ftl.gc=fifo"`) laid over this one.
    fn set(&self, overrides: Vec<String>) -> PyResult<Self> {
        let mut document = self.document.clone();
        let layer = overrides.iter().map(|assignment| (assignment.as_str(), None));
        document.set(layer).map_err(|problems| errors::config(&problems))?;
        Self::checked(document)
    }

    /// A device with the sections of a JSON object laid over this one; `label` is their place in errors.
    fn merge(&self, json: &str, label: &str) -> PyResult<Self> {
        let mut document = self.document.clone();
        document.merge_json(label, &parsed_json(json)?).map_err(|problems| errors::config(&problems))?;
        Self::checked(document)
    }

    /// A device with one layer laid over this one, whose parts come from several places: pairs of a JSON object and its
    /// place in errors.
    fn layered(&self, layers: Vec<(String, String)>) -> PyResult<Self> {
        let mut document = self.document.clone();
        let parsed: Vec<_> = layers.iter().map(|(json, _)| parsed_json(json)).collect::<PyResult<_>>()?;
        let layer = layers.iter().map(|(_, label)| label.as_str()).zip(&parsed);
        document.merge_layer(layer).map_err(|problems| errors::config(&problems))?;
        Self::checked(document)
    }

    /// Its name in reports.
    #[getter]
    fn name(&self) -> &str {
        &self.config.name
    }

    /// What it is.
    #[getter]
    fn description(&self) -> &str {
        &self.config.description
    }

    /// Bytes that the host sees.
    #[getter]
    fn logical_bytes(&self) -> u64 {
        self.config.logical_pages() * self.config.unit_bytes()
    }

    /// Bytes of flash, spare areas not counted.
    #[getter]
    fn physical_bytes(&self) -> u64 {
        let g = &self.config.geometry;
        [g.channels, g.ways, g.dies, g.planes, g.blocks_per_plane, g.pages_per_block]
            .into_iter()
            .map(u64::from)
            .product::<u64>()
            * g.page_bytes
    }

    /// Memory that its tables take at most, in bytes.
    fn memory_bytes(&self, verify: bool) -> u64 {
        bytes_at_most(&self.config, verify)
    }

    /// Memory that they take before the first request, in bytes, if the rest is taken only where requests touch it.
    fn memory_bytes_at_first(&self, verify: bool) -> Option<u64> {
        bytes_at_first(&self.config, verify)
    }

    /// Whether a formula stands for a fill, which takes no time and no memory then.
    fn fills_by_formula(&self, verify: bool) -> bool {
        fills_by_formula(&self.config, verify)
    }

    /// What it says to no effect, a sentence each with its place.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.document.notes(&self.config).iter().map(ToString::to_string).collect()
    }

    /// Every parameter, defaults included, as JSON.
    fn to_json(&self) -> String {
        serde_json::to_string(&self.config).expect("a device is plain data")
    }

    /// Every parameter, defaults included, as the text of a device file.
    fn to_toml(&self) -> PyResult<String> {
        to_toml(&self.config).map_err(|problems| errors::config(&problems))
    }
}

fn kind_of(kind: &str) -> PyResult<Kind> {
    match kind {
        "device" => Ok(Kind::Device),
        "workload" => Ok(Kind::Workload),
        _ => Err(errors::ConfigError::new_err(format!("{kind:?} is neither \"device\" nor \"workload\""))),
    }
}

/// The presets of a kind (`"device"` or `"workload"`): pairs of name and TOML text.
#[pyfunction]
pub(crate) fn presets(kind: &str) -> PyResult<Vec<(&'static str, &'static str)>> {
    Ok(preset_files(kind_of(kind)?).iter().map(|preset| (preset.name, preset.text)).collect())
}

/// Every scheme that a device file can name: dictionaries with `key`, `name`, `summary`, `source`, `keys` and `contrasts`.
///
/// `keys` are dictionaries with `name`, `doc` and the `default` as JSON. `contrasts` are a key, another value, and
/// assignments that make it matter.
#[pyfunction]
pub(crate) fn schemes(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let mut rows = Vec::new();
    for axis in ftlab_core::schemes::axes() {
        for scheme in &axis.schemes {
            let row = PyDict::new(py);
            row.set_item("key", axis.dotted())?;
            row.set_item("name", scheme.name)?;
            row.set_item("summary", &scheme.summary)?;
            row.set_item("source", scheme.source)?;
            row.set_item(
                "keys",
                scheme.keys.iter().map(|key| key_of(py, axis, key)).collect::<PyResult<Vec<_>>>()?,
            )?;
            let contrasts = scheme
                .contrasts
                .iter()
                .map(|contrast| (dotted(axis, contrast.key), contrast.value, contrast.with.to_vec()));
            row.set_item("contrasts", contrasts.collect::<Vec<_>>())?;
            rows.push(row);
        }
    }
    Ok(rows)
}

fn dotted(axis: &AxisInfo, key: &str) -> String {
    if axis.section.is_empty() { key.to_owned() } else { format!("{}.{key}", axis.section) }
}

fn key_of<'py>(py: Python<'py>, axis: &AxisInfo, key: &KeyInfo) -> PyResult<Bound<'py, PyDict>> {
    let row = PyDict::new(py);
    row.set_item("name", dotted(axis, &key.name))?;
    row.set_item("doc", &key.doc)?;
    row.set_item("default", key.default.to_string())?;
    Ok(row)
}

/// The JSON schema of files of a kind (`"device"` or `"workload"`), or of the `"summary"` of a run.
#[pyfunction]
pub(crate) fn schema(kind: &str) -> PyResult<String> {
    if kind == "summary" {
        return Ok(ftlab_core::summary_schema::summary_schema().to_string());
    }
    let schema = match kind_of(kind)? {
        Kind::Device => ftlab_config::schema::<DeviceConfig>("ftlab device"),
        Kind::Workload => ftlab_config::schema::<WorkloadFile>("ftlab workload"),
    };
    Ok(schema.to_string())
}

/// Words of other tools: the tool, its word, whether ftlab has a key for it, and what it has.
#[pyfunction]
pub(crate) fn foreign_words() -> Vec<(&'static str, &'static str, bool, &'static str)> {
    let words = ftlab_config::FOREIGN_WORDS.iter();
    words.map(|(tool, word, answer)| (*tool, *word, answer.is_key(), answer.text())).collect()
}
