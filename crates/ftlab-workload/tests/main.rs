//! The tests of workloads and fits from outside, as one program: a new file is one line here.

mod fit;
mod kinds;
#[path = "../../ftlab-trace/tests/real/mod.rs"]
mod real;
