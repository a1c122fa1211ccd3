//! The Python module `ftlab._native`: conversion between Python and the crates, and nothing else.
//!
//! Classes are frozen: a change gives a new object, so that objects may be shared between threads. The
//! interpreter lock is released while anything is simulated or read.

#![expect(clippy::needless_pass_by_value, reason = "arguments of Python functions arrive by value")]

mod beside;
mod block;
mod crash;
mod device;
mod errors;
mod memory;
mod record;
mod run;
mod session;
mod source;
mod study;
mod trace;
mod workload;

use pyo3::pymodule;

/// The engine of ftlab. Use the package `ftlab`, which is built on this module.
#[pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::block::BlockDevice;
    #[pymodule_export]
    use super::crash::CrashRecording;
    #[pymodule_export]
    use super::device::{Device, foreign_words, presets, schema, schemes};
    #[pymodule_export]
    use super::record::record;
    #[pymodule_export]
    use super::run::{Outcome, RunControl, latency_parts, run};
    #[pymodule_export]
    use super::session::Session;
    #[pymodule_export]
    use super::source::{Source, transform_step, transform_steps};
    #[pymodule_export]
    use super::study::{AgedDrives, AgedFiles, TraceCache, places, warnings};
    #[pymodule_export]
    use super::trace::{
        ReadOptions, formats, trace_convert, trace_files, trace_head, trace_info, trace_merge, trace_split,
        trace_volumes,
    };
    #[pymodule_export]
    use super::workload::{Workload, workload_kinds};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::beside::keep_panics_quiet();
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("__engine__", crate::engine())
    }
}

/// The name of the engine. Shortened: enough that two engines never meet, and readable in a table.
fn engine() -> String {
    format!("{}+{}", env!("CARGO_PKG_VERSION"), &env!("FTLAB_ENGINE")[..16])
}
