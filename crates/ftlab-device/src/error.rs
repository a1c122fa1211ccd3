//! What can go wrong with a target, and what was measured until then.

use std::fmt;

use ftlab_core::host::request::Op;

use crate::batch::Measured;

/// Why a target is not touched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It was not named as the one whose data may be destroyed.
    NotNamed,
    /// There is none.
    Missing,
    /// Neither a block device nor a regular file.
    Kind,
    /// A file system of it, or of one of its partitions, is mounted.
    Mounted,
    /// Something else works with it.
    InUse,
    /// It has partitions, or a table of them.
    Partitioned,
    /// It cannot be written.
    ReadOnly,
    /// Its file system has no way past the page cache.
    NoDirectIo,
    /// It is too small.
    TooSmall,
    /// It is another one than the one that was looked at.
    Changed,
}

/// What ended a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The system answered a request with an error.
    Io {
        /// The operation.
        op: Op,
        /// First sector.
        lba: u64,
        /// Length in sectors.
        sectors: u32,
        /// The number of the error.
        errno: i32,
    },
    /// Fewer bytes came back than were asked for: the target has become shorter.
    Short {
        /// The operation.
        op: Op,
        /// First sector.
        lba: u64,
        /// Length in sectors.
        sectors: u32,
        /// Bytes that were transferred.
        bytes: u64,
    },
    /// A clock that went backwards.
    Clock {
        /// What it showed, in nanoseconds.
        before: u64,
        /// What it showed after that.
        after: u64,
    },
    /// A sector held something else than what was written last.
    Contents {
        /// The sector.
        lba: u64,
        /// What it held instead.
        text: String,
    },
    /// The caller asked for an end.
    Interrupted,
}

fn system(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    // No such device (or address): what the system says when a drive was pulled.
    if errno == 19 || errno == 6 { format!("the device has vanished: {text}") } else { text }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Io { op: Op::Flush, errno, .. } => write!(f, "flush: {}", system(*errno)),
            Cause::Io { op, lba, sectors, errno } => {
                write!(f, "{} of {sectors} sectors at sector {lba}: {}", op.name(), system(*errno))
            }
            Cause::Short { op, lba, sectors, bytes } => write!(
                f,
                "{} of {sectors} sectors at sector {lba}: found {bytes} bytes, expected {}: the target has become shorter",
                op.name(),
                u64::from(*sectors) * 512
            ),
            Cause::Clock { before, after } => {
                write!(f, "the clock of the system went backwards, from {before} to {after} ns")
            }
            Cause::Contents { lba, text } => write!(f, "sector {lba} {text}"),
            Cause::Interrupted => f.write_str("interrupted"),
        }
    }
}

/// A batch that ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// What ended it.
    pub cause: Cause,
    /// The requests that had completed by then.
    pub measured: Measured,
}

/// What can go wrong with a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceError {
    /// The system cannot do it: no Linux, no `io_uring`, no trim.
    Unsupported(String),
    /// The target is not touched.
    Refused {
        /// The reason.
        why: Refusal,
        /// The reason as a sentence.
        text: String,
    },
    /// The batch is wrong, and nothing of it was sent.
    Batch(String),
    /// The batch ended early.
    Failed(Box<Failed>),
}

impl DeviceError {
    pub(crate) fn refused(why: Refusal, text: impl Into<String>) -> Self {
        Self::Refused { why, text: text.into() }
    }

    /// The reason why the target is not touched, if that is the error.
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Refused { why, .. } => Some(*why),
            _ => None,
        }
    }
}

impl fmt::Display for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(text) | Self::Refused { text, .. } | Self::Batch(text) => f.write_str(text),
            Self::Failed(failed) => {
                let done = failed.measured.done();
                write!(
                    f,
                    "{} ({done} of {} requests were measured)",
                    failed.cause,
                    failed.measured.spans.len()
                )
            }
        }
    }
}

impl std::error::Error for DeviceError {}
