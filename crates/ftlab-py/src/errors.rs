//! Errors as the exceptions of `ftlab.errors`.

use ftlab_config::Problems;
use ftlab_core::host::request::SourceError;
use pyo3::PyErr;

pyo3::import_exception!(ftlab.errors, ConfigError);
pyo3::import_exception!(ftlab.errors, InputError);
pyo3::import_exception!(ftlab.errors, RunError);
pyo3::import_exception!(ftlab.errors, SessionError);

pub(crate) fn config(problems: &Problems) -> PyErr {
    ConfigError::new_err(problems.to_string())
}

pub(crate) fn input(error: &SourceError) -> PyErr {
    InputError::new_err(error.to_string())
}
