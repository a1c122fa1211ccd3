//! The tests of formats from outside, as one program: a new file is one line here.

mod binary;
mod fua;
mod readers;
mod samples;
