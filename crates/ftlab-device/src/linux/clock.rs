//! The clock of the system, which must not go backwards, and waiting for a moment.

use std::time::Duration;

use crate::error::Cause;

/// How long before a moment sleeping ends: the system may wake a thread that late.
const MARGIN_NS: u64 = 200_000;

/// The longest sleep, after which somebody may ask for an end.
const SLEEP_NS: u64 = 50_000_000;

/// What shows nanoseconds.
pub(super) type ClockSource = fn() -> u64;

/// The monotonic clock of the system, which no setting of the time changes.
pub(super) fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call fills `time`, and fails for no clock that exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A clock that was started when the target was opened.
pub(super) struct Clock {
    source: ClockSource,
    origin: u64,
    last: u64,
}

impl Clock {
    pub(super) fn new(source: ClockSource) -> Self {
        let now = source();
        Self { source, origin: now, last: now }
    }

    /// The present.
    ///
    /// # Errors
    /// When it is before the last one.
    #[inline]
    pub(super) fn now(&mut self) -> Result<u64, Cause> {
        let now = (self.source)();
        if now < self.last {
            return Err(Cause::Clock { before: self.last, after: now });
        }
        self.last = now;
        Ok(now - self.origin)
    }

    /// Sleep for a while, until shortly before `due`. Returns whether that moment is so near that looking at the clock is
    /// better.
    ///
    /// # Errors
    /// When the clock goes backwards.
    pub(super) fn sleep_towards(&mut self, due: u64) -> Result<bool, Cause> {
        let left = due.saturating_sub(self.now()?);
        if left <= MARGIN_NS {
            return Ok(true);
        }
        std::thread::sleep(Duration::from_nanos((left - MARGIN_NS).min(SLEEP_NS)));
        Ok(false)
    }
}
