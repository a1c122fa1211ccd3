//! Simulated time.

use std::ops::{Add, AddAssign, Sub};

/// A point in simulated time, or a span of it, in whole picoseconds.
///
/// Picoseconds, because bus and link rates give fractions of a nanosecond: 25 ns for a byte at 40 MB/s, but 3.003 ns at
/// 333 MB/s. A rounded bus is a wrong bus. Every span is rounded once, when it is made. 2^64 ps are 213 days of
/// simulated time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

/// Latest arrival of a run, in nanoseconds: half of the range of time is left for the work after it.
pub const LATEST_NS: u64 = 9_200_000_000_000_000;
/// The same in whole days.
pub const LATEST_DAYS: u64 = LATEST_NS / (86_400 * 1_000_000_000);

impl Time {
    /// The start of the simulation, or an empty span.
    pub const ZERO: Time = Time(0);
    /// Later than everything.
    pub const NEVER: Time = Time(u64::MAX);

    /// `ns` nanoseconds; saturates at [`Time::NEVER`].
    pub const fn from_ns(ns: u64) -> Self {
        Time(ns.saturating_mul(1000))
    }

    /// `us` microseconds, rounded to the picosecond. Negative and absurd values are refused by the configuration.
    pub fn from_us(us: f64) -> Self {
        Time(nearest(us * 1e6))
    }

    /// Nanoseconds, rounded to the nearest.
    pub const fn as_ns(self) -> u64 {
        self.0 / 1000 + (self.0 % 1000) / 500
    }

    /// Nanoseconds with their fraction.
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / 1000.0
    }

    /// `self - earlier`, or zero when `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Time {
    type Output = Time;
    /// Saturates at [`Time::NEVER`], at which nothing happens: the host notices what stays unfinished.
    #[inline]
    fn add(self, rhs: Time) -> Time {
        Time(self.0.saturating_add(rhs.0))
    }
}

impl AddAssign for Time {
    fn add_assign(&mut self, rhs: Time) {
        *self = *self + rhs;
    }
}

impl Sub for Time {
    type Output = Time;
    #[inline]
    fn sub(self, rhs: Time) -> Time {
        Time(self.0 - rhs.0)
    }
}

/// Half of the range, which whole numbers with a sign still have.
const LARGE: f64 = (1_u64 << 63) as f64;

/// The whole number nearest to `x`, which is not negative; halves round up. The same as `x.round() as u64`.
#[inline]
pub fn nearest(x: f64) -> u64 {
    if x < LARGE {
        // Rounded by hand: without the instructions of newer processors, `round` and unsigned numbers are detours.
        let whole = x as i64;
        (whole + i64::from(x - whole as f64 >= 0.5)) as u64
    } else {
        x.round() as u64
    }
}

/// A transfer rate that gives exact spans: bytes to picoseconds, rounded once per transfer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    ps_per_byte: f64,
}

impl Rate {
    /// Transfers take no time.
    pub const INSTANT: Self = Self { ps_per_byte: 0.0 };

    /// `mb_per_s` million bytes a second; 0 means that transfers take no time.
    pub fn from_mb_per_s(mb_per_s: f64) -> Self {
        Self { ps_per_byte: if mb_per_s == 0.0 { 0.0 } else { 1e6 / mb_per_s } }
    }

    /// How long `bytes` take.
    #[inline]
    pub fn span(self, bytes: u64) -> Time {
        Time(nearest(bytes as f64 * self.ps_per_byte))
    }

    /// Whether transfers take no time at all.
    #[inline]
    pub fn is_instant(self) -> bool {
        self.ps_per_byte == 0.0
    }
}

/// Transfers at a rate. Most have one size: how long the last one takes is kept.
#[derive(Debug, Clone, Copy)]
pub struct Transfers {
    rate: Rate,
    /// Bytes, and how long they take.
    last: (u64, Time),
}

impl Transfers {
    /// At `mb_per_s` million bytes a second; 0 means that they take no time.
    pub fn from_mb_per_s(mb_per_s: f64) -> Self {
        Self { rate: Rate::from_mb_per_s(mb_per_s), last: (0, Time::ZERO) }
    }

    /// How long `bytes` take: see [`Rate::span`].
    #[inline(always)]
    pub fn span(&mut self, bytes: u64) -> Time {
        if self.last.0 != bytes {
            self.measure(bytes);
        }
        self.last.1
    }

    #[cold]
    fn measure(&mut self, bytes: u64) {
        self.last = (bytes, self.rate.span(bytes));
    }

    /// Whether they take no time at all.
    pub fn are_instant(&self) -> bool {
        self.rate.is_instant()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_buses_are_not_free() {
        // A rate turned into whole nanoseconds per two bytes would give 0 above 1000 MT/s.
        let rate = Rate::from_mb_per_s(2400.0);
        assert_eq!(rate.span(16384), Time(6_826_667));
        assert_eq!(Rate::from_mb_per_s(40.0).span(4224).as_ns(), 105_600);
    }

    #[test]
    fn the_nearest_number_is_that_of_the_library() {
        let mut rng = crate::rng::Rng::new(1, "nearest");
        let halves = (0..200).map(|half| f64::from(half) / 2.0);
        let edges = [
            0.499_999_999_999_999_94,
            4_503_599_627_370_495.5,
            9_007_199_254_740_993.0,
            9.3e18,
            1.8e19,
            2e19,
        ];
        let others = (0..10_000).map(|_| rng.unit() * 2.0_f64.powi(rng.below(66) as i32));
        for x in halves.chain(edges).chain(others) {
            assert_eq!(nearest(x), x.round() as u64, "{x}");
        }
    }

    #[test]
    fn nanoseconds_round_to_nearest() {
        assert_eq!(Time(1_907_200).as_ns(), 1907);
        assert_eq!(Time(1_907_500).as_ns(), 1908);
    }
}
