//! What a study needs of the engine: traces and aged drives shared by its runs, warnings, and the places of the values of
//! its file.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ftlab_core::host::aged;
use ftlab_core::host::warnings::WARNINGS;
use ftlab_trace::{OpenOptions, aged_files};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::beside::Interruption;
use crate::errors;
use crate::trace::{Size, Volume};

/// Traces that are decoded once for all runs that name this.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct TraceCache {
    pub(crate) cache: ftlab_trace::TraceCache,
}

#[pymethods]
impl TraceCache {
    /// Keep at most `limit_bytes` of decoded requests; what does not fit is decoded by each run for itself.
    #[staticmethod]
    fn of(limit_bytes: u64) -> Self {
        Self { cache: ftlab_trace::TraceCache::new(limit_bytes) }
    }

    /// Bytes of decoded requests that are kept.
    #[getter]
    fn used_bytes(&self) -> u64 {
        self.cache.used_bytes()
    }

    /// How many times a trace was read from its beginning.
    #[getter]
    fn passes(&self) -> u64 {
        self.cache.passes()
    }

    /// The volumes of a trace as `trace_volumes` gives them, and kept apart for the runs that take one of them.
    #[pyo3(signature = (path, format = None, skip_bad = 0))]
    fn volumes(
        &self,
        py: Python<'_>,
        path: PathBuf,
        format: Option<String>,
        skip_bad: u64,
    ) -> PyResult<(Vec<Volume>, u64)> {
        let options = OpenOptions { format, skip_bad, ..OpenOptions::default() };
        let read = || self.cache.volumes(&path, &options).map_err(|error| errors::input(&error));
        Interruption::new(py).watch(read)
    }
}

/// Aged drives that runs which name this use again.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct AgedDrives {
    pub(crate) drives: Arc<aged::AgedDrives>,
}

#[pymethods]
impl AgedDrives {
    /// Keep drives of `limit_bytes` in all at most; those that were used last stay.
    #[staticmethod]
    fn of(limit_bytes: u64) -> Self {
        Self { drives: Arc::new(aged::AgedDrives::new(limit_bytes)) }
    }

    /// How many runs have begun with a drive that was there.
    #[getter]
    fn reused(&self) -> u64 {
        self.drives.reused()
    }

    /// Bytes of the drives that are kept.
    #[getter]
    fn used_bytes(&self) -> u64 {
        self.drives.used_bytes()
    }
}

/// Aged drives in a folder, for runs of other processes.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct AgedFiles {
    pub(crate) files: Arc<aged_files::AgedFiles>,
}

#[pymethods]
impl AgedFiles {
    /// Keep drives of this engine in `folder`, of `limit` bytes in all at most, that took `least_seconds` to age at least.
    #[staticmethod]
    fn of(folder: PathBuf, limit: Size, least_seconds: f64) -> PyResult<Self> {
        let limit_bytes = limit.bytes().map_err(PyValueError::new_err)?;
        let least = Duration::try_from_secs_f64(least_seconds)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let files = aged_files::AgedFiles::new(folder, limit_bytes, crate::engine(), least);
        Ok(Self { files: Arc::new(files) })
    }

    /// What went wrong first, told once; no run is the worse for it.
    fn take_trouble(&self) -> Option<String> {
        self.files.take_trouble()
    }
}

/// Every warning that a summary may have: its name, when it is given, and why its bound is where it is.
#[pyfunction]
pub(crate) fn warnings() -> Vec<(&'static str, &'static str, &'static str)> {
    WARNINGS.iter().map(|kind| (kind.code, kind.when, kind.why)).collect()
}

/// Where each value of a TOML text was written (`"study.toml:3:1"`), by dotted key; elements of arrays by number
/// (`axes.ftl.gc.0`). `name` is what errors call the text.
#[pyfunction]
pub(crate) fn places(text: &str, name: &str) -> PyResult<BTreeMap<String, String>> {
    let found = ftlab_config::places(text, name).map_err(|problems| errors::config(&problems))?;
    Ok(found.into_iter().map(|(key, origin)| (key, origin.to_string())).collect())
}
