//! The tests of formats from outside, as one program: a new file is one line here.

mod aged_files;
mod binary;
mod detection;
mod fua;
mod readers;
mod samples;
mod tracepoints;
