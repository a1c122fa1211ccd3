//! Times of the calendar, counted from the begin of a trace.

use ftlab_core::host::request::SourceError;

use crate::text::{Cursor, Fault, LineParser, earliest};

/// What may be said about it on the command line, for documentation.
pub(crate) const ARGUMENT: &str = "a time stamp as in the file, which becomes time 0: for files that belong together, or whose first lines are not the \
     earliest";

/// The time stamp from which arrivals are counted.
///
/// Logs are sorted by completion, or only nearly: the earliest request of the first lines is the begin, not the first.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Epoch {
    start_ns: Option<u64>,
}

impl Epoch {
    /// Counting from the time stamp of a calendar's own zero.
    pub(crate) const ZERO: Self = Self { start_ns: Some(0) };

    /// Counting from `text`, in units of 10^`scale` nanoseconds.
    pub(crate) fn given(text: &str, scale: usize, origin: &str) -> Result<Self, SourceError> {
        let bytes = text.as_bytes();
        let mut cursor = Cursor::new(bytes);
        match cursor.decimal(scale, "") {
            Ok(start_ns) if cursor.position() == bytes.len() => Ok(Self { start_ns: Some(start_ns) }),
            _ => Err(SourceError {
                origin: origin.to_owned(),
                found: text.to_owned(),
                expected: format!("{ARGUMENT} (--format NAME:TIME)"),
                ..SourceError::default()
            }),
        }
    }

    /// Settle the begin by the first lines of the file, which `parser` reads with [`Epoch::ZERO`].
    pub(crate) fn settle<P: LineParser>(&mut self, lines: &[u8], parser: P) {
        if self.start_ns.is_none() {
            self.start_ns = earliest(lines, parser);
        }
    }

    /// The arrival of what happened at `time_ns`, which stands at `at`.
    #[inline(always)]
    pub(crate) fn since(&mut self, time_ns: u64, at: usize) -> Result<u64, Fault> {
        time_ns.checked_sub(*self.start_ns.get_or_insert(time_ns)).ok_or_else(|| {
            Cursor::value(
                at,
                "a time not before the begin of the trace (--format NAME:TIME sets another begin)",
            )
        })
    }
}
