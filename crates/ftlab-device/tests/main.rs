//! The tests of targets from outside, as one program: a new file is one line here.

#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

mod target;
