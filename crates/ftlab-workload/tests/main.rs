//! The tests of workloads and fits from outside, as one program: a new file is one line here.

mod fit;
mod kinds;
#[allow(dead_code, reason = "deviations from the catalogue concern statistics only")]
#[path = "../../ftlab-trace/tests/real/mod.rs"]
mod real;
