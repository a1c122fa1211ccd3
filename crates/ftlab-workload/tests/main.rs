//! The tests of workloads and fits from outside, as one program: a new file is one line here.

mod descriptions;
mod fit;
mod kinds;
mod mechanisms;
#[allow(dead_code, reason = "the tests of statistics use the rest")]
#[path = "../../ftlab-stats/tests/real/mod.rs"]
mod real;
