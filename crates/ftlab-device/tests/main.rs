//! The tests of targets from outside, as one program: a new file is one line here.

#![cfg(target_os = "linux")]

mod target;
