//! Recording: the file accesses of a command and of all that it starts, as requests to one flat address space.
//!
//! It sees system calls, by `ptrace`: no kernel module and no privileges are needed. It does not see what becomes of them
//! below: the page cache, the file system's own data, the scheduler of the block layer. [`Cache`] stands for the first of
//! these on request.

mod cache;
mod layout;
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linux;
mod recorder;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ftlab_core::host::request::Request;

pub use cache::Cache;
pub use layout::{FileId, Layout, PAGE};
pub use recorder::{Counts, Mode, Recorder};

/// What to record.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Bytes of page cache that stand between the command and the device; 0 for none: every call is a request.
    pub cache_bytes: u64,
    /// Only files under these folders, or that match these patterns (`*`, `?`, `[...]` over the whole path); all when
    /// empty.
    pub include: Vec<String>,
    /// Not these, even if they are included.
    pub exclude: Vec<String>,
    /// Send the standard output of the command to standard error.
    pub output_to_stderr: bool,
    /// What runs, for whoever wants it to end.
    pub processes: Processes,
}

/// The processes that are being recorded. Clones speak of the same ones.
#[derive(Debug, Clone, Default)]
pub struct Processes(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    running: BTreeSet<i32>,
    /// A signal that came before the first of them.
    waiting: Option<i32>,
}

impl Processes {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Send a signal to all of them; when none runs yet, to the first.
    pub fn signal(&self, signal: i32) {
        let mut state = self.state();
        if state.running.is_empty() {
            state.waiting = Some(signal);
        }
        for pid in &state.running {
            send(*pid, signal);
        }
    }

    #[cfg(target_os = "linux")]
    fn begun(&self, pid: i32) {
        let mut state = self.state();
        if state.running.insert(pid)
            && let Some(signal) = state.waiting.take()
        {
            send(pid, signal);
        }
    }

    #[cfg(target_os = "linux")]
    fn ended(&self, pid: i32) {
        self.state().running.remove(&pid);
    }
}

#[cfg(target_os = "linux")]
fn send(pid: i32, signal: i32) {
    // SAFETY: a process that is traced, whose end has not been waited for. It may have ended, which is an error of no
    // interest.
    unsafe { libc::kill(pid, signal) };
}

#[cfg(not(target_os = "linux"))]
fn send(_: i32, _: i32) {}

/// What was recorded.
#[derive(Debug, Clone, Default)]
pub struct Recorded {
    /// Exit status of the command; 128 and the number of the signal that ended it.
    pub status: i32,
    /// What came out.
    pub counts: Counts,
    /// From the start of the command to the end of the last process that it left, in nanoseconds.
    pub duration_ns: u64,
    /// Mappings of files that the command could write to memory through, which is not seen.
    pub shared_mappings: u64,
    /// Batches of asynchronous calls (`io_uring`, `io_submit`), which are not seen.
    pub asynchronous_calls: u64,
}

/// Why nothing was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordError {
    /// The system does not allow it, or it is none that can be recorded on.
    Unsupported(String),
    /// The command could not be started.
    Command(String),
    /// Whoever takes the requests could not go on.
    Output(String),
}

impl std::fmt::Display for RecordError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RecordError::Unsupported(text) | RecordError::Command(text) | RecordError::Output(text) => {
                f.write_str(text)
            }
        }
    }
}

impl std::error::Error for RecordError {}

/// Run `command` and give its requests to `take`, in batches and in order of arrival, until it and all that it started
/// have ended. Arrivals are nanoseconds from the start.
///
/// The calling thread must have no other children: it waits for all of them.
///
/// # Errors
/// When recording is not possible here, the command cannot be started, or `take` says so; then what runs is ended.
pub fn record(
    command: &[OsString],
    options: &Options,
    take: &mut dyn FnMut(&[Request]) -> Result<(), String>,
) -> Result<Recorded, RecordError> {
    #[cfg(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    {
        linux::record(command, options, take)
    }
    #[cfg(not(all(
        target_os = "linux",
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )))]
    {
        let _ = (command, options, take);
        Err(RecordError::Unsupported(
            "recording needs Linux with the GNU C library, on x86-64 or 64-bit ARM".into(),
        ))
    }
}
