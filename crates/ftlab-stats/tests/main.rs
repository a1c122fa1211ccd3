//! The tests of statistics from outside, as one program: a new file is one line here.

mod catalog;
#[path = "../../ftlab-trace/tests/real/mod.rs"]
mod real;
