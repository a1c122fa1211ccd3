//! Times of the calendar, counted from the begin of a trace.

use ftlab_core::host::request::SourceError;

use crate::input::{Epoch, Input};
use crate::text::{Cursor, Fault, LineParser, earliest};

/// What may be said about it on the command line, for documentation.
pub(crate) const ARGUMENT: &str = "a time stamp as in the file, which becomes time 0: for files that belong together, or whose first lines are not the \
     earliest";

/// Counts arrivals from a time stamp.
///
/// Logs are sorted by completion, or only nearly: the earliest request of the first lines is the begin, not the first.
#[derive(Debug, Default)]
pub(crate) struct Clock(Epoch);

impl Clock {
    /// The clock of `input`.
    pub(crate) fn of(input: &Input) -> Self {
        Self(input.epoch())
    }

    /// Counting from zero.
    pub(crate) fn zero() -> Self {
        Self(Epoch::at(0))
    }

    /// Counting from `text`, in units of 10^`scale` nanoseconds.
    pub(crate) fn given(text: &str, scale: usize, origin: &str) -> Result<Self, SourceError> {
        let bytes = text.as_bytes();
        let mut cursor = Cursor::new(bytes);
        match cursor.decimal(scale, "") {
            Ok(start_ns) if cursor.position() == bytes.len() => Ok(Self(Epoch::at(start_ns))),
            _ => Err(SourceError {
                origin: origin.to_owned(),
                found: text.to_owned(),
                expected: format!("{ARGUMENT} (--format NAME:TIME)"),
                ..SourceError::default()
            }),
        }
    }

    /// Settle the begin by the first lines of the file, which `parser` reads with [`Clock::zero`].
    pub(crate) fn settle<P: LineParser>(&mut self, lines: &[u8], parser: P) {
        if self.0.ticks().is_none()
            && let Some(start_ns) = earliest(lines, parser)
        {
            self.0.since(start_ns, 1);
        }
    }

    /// The begin, if it has been settled.
    pub(crate) fn start_ns(&self) -> Option<u64> {
        self.0.ticks()
    }

    /// The arrival of what happened at `time_ns`, which stands at `at`.
    #[inline(always)]
    pub(crate) fn since(&self, time_ns: u64, at: usize) -> Result<u64, Fault> {
        self.0.since(time_ns, 1).ok_or_else(|| {
            Cursor::value(
                at,
                "a time not before the begin of the trace (--format NAME:TIME sets another begin)",
            )
        })
    }
}
