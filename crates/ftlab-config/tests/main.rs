//! The tests of device and workload files, as one program: a new file is one line here.

mod errors;
mod financial;
mod presets;
mod stand_ins;
mod workload_kinds;
