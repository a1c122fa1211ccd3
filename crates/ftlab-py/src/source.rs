//! Where requests come from.

use std::path::PathBuf;
use std::sync::Arc;

use ftlab_core::host::request::{Op, Request, SourceFactory, VecSource};
use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;

use crate::trace::ReadOptions;
use crate::{errors, trace};

/// Requests to run: a trace file, a generated workload, or a table.
#[pyclass(frozen, module = "ftlab._native")]
pub(crate) struct Source {
    pub(crate) factory: Arc<dyn SourceFactory>,
    pub(crate) name: String,
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
    /// (u64), `sectors` (u32) and `stream` (u16).
    #[staticmethod]
    fn from_columns(
        py: Python<'_>,
        arrival_ns: &Bound<'_, PyAny>,
        op: &Bound<'_, PyAny>,
        lba: &Bound<'_, PyAny>,
        sectors: &Bound<'_, PyAny>,
        stream: &Bound<'_, PyAny>,
        name: String,
    ) -> PyResult<Self> {
        let arrival_ns: Vec<u64> = column(py, "arrival_ns", arrival_ns)?;
        let op: Vec<u8> = column(py, "op", op)?;
        let lba: Vec<u64> = column(py, "lba", lba)?;
        let sectors: Vec<u32> = column(py, "sectors", sectors)?;
        let stream: Vec<u16> = column(py, "stream", stream)?;
        let rows = arrival_ns.len();
        if [op.len(), lba.len(), sectors.len(), stream.len()].iter().any(|length| *length != rows) {
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
            requests.push(Request {
                arrival_ns: arrival_ns[row],
                lba: lba[row],
                sectors: sectors[row],
                op,
                stream: stream[row],
            });
        }
        Ok(Self { factory: Arc::new(VecSource::new(requests)), name })
    }

    /// Requests of a trace file.
    #[staticmethod]
    #[pyo3(signature = (path, reading = None))]
    fn from_trace(py: Python<'_>, path: PathBuf, reading: Option<&ReadOptions>) -> PyResult<Self> {
        let trace = trace::opened(py, path, reading)?;
        let name =
            trace.path().file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok(Self { factory: Arc::new(trace), name })
    }

    /// Its name in reports.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }
}
