//! Requests to a real drive: a Linux file or block device, with the moment at which each one began and ended.
//!
//! Everything that could destroy data is decided before the first request: see [`Refusal`]. What the system says of a drive
//! is read and never changed: see [`Facts`].
//!
//! Reads and writes go past the page cache (`O_DIRECT`) through one `io_uring`. What is written says which sector it
//! belongs to, so every read of it proves the data: see [`pattern`].

#![cfg_attr(
    not(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64"))),
    allow(dead_code, reason = "elsewhere there is nothing to send")
)]

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod absent;
mod batch;
mod error;
mod facts;
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linux;
pub mod pattern;
mod versions;

use std::path::PathBuf;

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
pub use absent::Target;
pub use batch::{MAX_DEPTH, Measured, Pace, Span};
pub use error::{Cause, DeviceError, Failed, Refusal};
pub use facts::{DeviceCounts, Facts, Kind};
#[cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
pub use linux::Target;

/// How the end of a request is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// By looking without a pause. It takes a whole core, and sees an end within a fraction of a microsecond.
    #[default]
    Spin,
    /// By sleeping until the system wakes the thread, as most programs do. What waking takes is part of each latency.
    Sleep,
}

impl Wait {
    /// All ways, in the order of their declaration.
    pub const ALL: [Wait; 2] = [Wait::Spin, Wait::Sleep];

    /// The lower-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Wait::Spin => "spin",
            Wait::Sleep => "sleep",
        }
    }
}

/// How a target is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// The path whose data may be destroyed: it must be the target's, as it is given. `None` refuses every target.
    pub destroy: Option<PathBuf>,
    /// Seed of what is written.
    pub seed: u64,
    /// Compare what is read with what was written last. It takes 4 bytes for each sector that small requests have written.
    pub verify: bool,
    /// How the end of a request is waited for.
    pub wait: Wait,
    /// The least size of a target, in bytes.
    pub least_bytes: u64,
    /// Memory for what requests carry. A batch of more bytes goes in parts, with a pause between them.
    pub buffer_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            destroy: None,
            seed: 1,
            verify: true,
            wait: Wait::Spin,
            least_bytes: 1 << 20,
            buffer_bytes: 64 << 20,
        }
    }
}

/// How many sectors were compared, and how many could not be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Proofs {
    /// Sectors read that had to hold what was written last, and did.
    pub verified: u64,
    /// Sectors read of which nothing is known: never written, trimmed, or written at the time of the read.
    pub unknown: u64,
}
