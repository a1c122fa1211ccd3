//! The tests of formats, generators and fits from outside, as one program: a new file is one line here.

mod binary;
mod catalog;
mod fit;
mod readers;
mod real;
mod samples;
