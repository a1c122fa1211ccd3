//! The tests of statistics from outside, as one program: a new file is one line here.

mod catalog;
mod real;
