//! Percentiles of the intervals of a series: distributions that are emptied in a moment and joined without loss.
//!
//! A bucket is at most 1/128 wide for what it holds, as in a histogram of two significant digits. `hdrhistogram` has such
//! ones, but goes over all of its buckets to empty one or to list what is in it; intervals may be as short as a request.

use crate::time::Time;

/// Buckets of an octave are 2 to this.
const OCTAVE_BITS: u32 = 7;
/// Spans are below 2^55 ns.
const BUCKETS: usize = (55 - OCTAVE_BITS as usize + 1) << OCTAVE_BITS;
/// Bits of an entry that count; the number of the bucket is above them.
const COUNT_BITS: u32 = 51;
/// Samples that a percentile has beyond it, or else the warning `few_samples`; in a series it is left out then.
pub(crate) const LEAST_BEYOND: u64 = 10;

/// The percentiles of a series, in thousandths, as the summary has them.
pub(crate) const LEVELS: [u64; 4] = [500, 900, 990, 999];

/// A percentile for each of the levels; NaN where there is none.
pub(crate) type Levels = [f64; LEVELS.len()];

#[inline]
fn bucket(ns: u64) -> usize {
    let shift = (u64::BITS - 1 - (ns | 1).leading_zeros()).saturating_sub(OCTAVE_BITS);
    ((shift as usize) << OCTAVE_BITS) + (ns >> shift) as usize
}

/// The largest span of a bucket.
fn highest(bucket: usize) -> u64 {
    let octave = 1 << OCTAVE_BITS;
    let shift = (bucket >> OCTAVE_BITS).saturating_sub(1);
    let lowest = (bucket - (shift << OCTAVE_BITS)) as u64;
    debug_assert!(lowest < 2 * octave);
    ((lowest + 1) << shift) - 1
}

/// So many samples of a bucket: entries sort by bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry(u64);

impl Entry {
    fn new(bucket: u16, count: u64) -> Self {
        Self(u64::from(bucket) << COUNT_BITS | count)
    }

    fn bucket(self) -> usize {
        (self.0 >> COUNT_BITS) as usize
    }

    fn count(self) -> u64 {
        self.0 & ((1 << COUNT_BITS) - 1)
    }
}

/// The samples of an interval.
#[derive(Debug, Clone)]
pub(crate) struct Spread {
    counts: Box<[u64]>,
    /// Buckets that are not empty.
    touched: Vec<u16>,
}

impl Spread {
    pub(crate) fn new() -> Self {
        Self { counts: vec![0; BUCKETS].into(), touched: Vec::with_capacity(1 << OCTAVE_BITS) }
    }

    #[inline]
    pub(crate) fn record(&mut self, span: Time) {
        let bucket = bucket(span.as_ns());
        let count = &mut self.counts[bucket];
        if *count == 0 {
            self.touched.push(bucket as u16);
        }
        *count += 1;
    }

    /// Move all samples to the end of `out`, in order.
    pub(crate) fn move_to(&mut self, out: &mut Vec<Entry>) {
        self.touched.sort_unstable();
        let counts = &mut self.counts;
        out.extend(
            self.touched
                .drain(..)
                .map(|bucket| Entry::new(bucket, std::mem::take(&mut counts[usize::from(bucket)]))),
        );
    }
}

/// Add the samples of two intervals to the end of `out`, in order.
pub(crate) fn join(mut one: &[Entry], mut two: &[Entry], out: &mut Vec<Entry>) {
    while let (Some(a), Some(b)) = (one.first(), two.first()) {
        let (from_one, from_two) = (a.bucket() <= b.bucket(), b.bucket() <= a.bucket());
        out.push(match (from_one, from_two) {
            (true, true) => Entry(a.0 + b.count()),
            (true, false) => *a,
            _ => *b,
        });
        one = &one[usize::from(from_one)..];
        two = &two[usize::from(from_two)..];
    }
    out.extend(one.iter().chain(two));
}

/// Intervals since the last one that has a percentile of some level.
#[derive(Debug, Clone)]
struct Window {
    counts: Box<[u64]>,
    count: u64,
    max: Time,
}

impl Window {
    fn new() -> Self {
        Self { counts: vec![0; BUCKETS].into(), count: 0, max: Time::ZERO }
    }

    /// The smallest span that `level` thousandths of the samples do not exceed, to the upper end of its bucket. No sample is
    /// left. When fewer than ten are beyond it, it is NaN, and all stay.
    fn take(&mut self, level: u64) -> f64 {
        if self.count * (1000 - level) < LEAST_BEYOND * 1000 {
            return f64::NAN;
        }
        let rank = (self.count * level).div_ceil(1000);
        let mut until = 0;
        let found = self.counts.iter().position(|count| {
            until += count;
            until >= rank
        });
        let value = highest(found.unwrap_or(0)).min(self.max.as_ns());
        self.counts[..=bucket(self.max.as_ns())].fill(0);
        (self.count, self.max) = (0, Time::ZERO);
        value as f64
    }
}

/// Percentiles of one kind of request, interval by interval. One stands at the interval with which ten samples are beyond
/// it, and is over all intervals since the last that has one. So what would be chance alone is not there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Windows(Option<Box<[Window; LEVELS.len()]>>);

impl Windows {
    /// The percentiles at the end of an interval, whose longest span is `max`.
    pub(crate) fn next(&mut self, entries: &[Entry], max: Time) -> Levels {
        if entries.is_empty() {
            return [f64::NAN; LEVELS.len()];
        }
        let windows = self.0.get_or_insert_with(|| Box::new(std::array::from_fn(|_| Window::new())));
        std::array::from_fn(|at| {
            let window = &mut windows[at];
            for entry in entries {
                window.counts[entry.bucket()] += entry.count();
                window.count += entry.count();
            }
            window.max = window.max.max(max);
            window.take(LEVELS[at])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spans of all lengths, from 0 to 2^55 ns.
    fn spans(count: u64) -> impl Iterator<Item = Time> {
        let mut state = 1_u64;
        (0..count).map(move |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            Time(state >> ((state >> 33) % 64))
        })
    }

    #[test]
    fn buckets_follow_each_other_and_are_narrow() {
        for at in 0..BUCKETS {
            let most = highest(at);
            assert_eq!(bucket(most), at);
            assert!(most >= (1 << 55) - 1 || bucket(most + 1) == at + 1, "{at}");
            let least = at.checked_sub(1).map_or(0, |below| highest(below) + 1);
            assert!((most - least) as f64 <= most as f64 / 128.0, "{at}: {least} {most}");
        }
        assert_eq!(bucket((1 << 55) - 1), BUCKETS - 1);
        assert!(bucket(Time::NEVER.as_ns()) < BUCKETS);
    }

    #[test]
    fn joined_intervals_are_one_interval() {
        let (mut one, mut two, mut all) = (Spread::new(), Spread::new(), Spread::new());
        for (at, span) in spans(5000).enumerate() {
            if at % 3 == 0 { &mut one } else { &mut two }.record(span);
            all.record(span);
        }
        let mut lists = [Vec::new(), Vec::new(), Vec::new()];
        for (spread, list) in [&mut one, &mut two, &mut all].into_iter().zip(&mut lists) {
            spread.move_to(list);
            let mut again = Vec::new();
            spread.move_to(&mut again);
            assert!(again.is_empty());
        }
        let mut joined = Vec::new();
        join(&lists[0], &lists[1], &mut joined);
        assert_eq!(joined, lists[2]);
        assert_eq!(joined.iter().map(|entry| entry.count()).sum::<u64>(), 5000);
    }

    #[test]
    fn percentiles_are_those_of_sorted_samples_and_wait_for_ten_beyond_them() {
        let all: Vec<u64> = spans(60_000).map(Time::as_ns).collect();
        let (mut spread, mut windows, mut from) = (Spread::new(), Windows::default(), [0; 4]);
        let mut found = [0; 4];
        let mut at = 0;
        // Intervals of 1, 2, ... requests, and one of none after each.
        for size in 1..300 {
            let interval = &all[at..at + size];
            for ns in interval {
                spread.record(Time::from_ns(*ns));
            }
            at += size;
            let mut entries = Vec::new();
            spread.move_to(&mut entries);
            let max = Time::from_ns(*interval.iter().max().unwrap());
            let values = windows.next(&entries, max);
            assert!(windows.next(&[], Time::ZERO).iter().all(|value| value.is_nan()));
            for level in 0..4 {
                let window = &all[from[level]..at];
                let beyond = window.len() as f64 * (1000 - LEVELS[level]) as f64 / 1000.0;
                assert_eq!(values[level].is_nan(), beyond < 10.0, "{beyond}");
                if values[level].is_nan() {
                    continue;
                }
                let mut sorted = window.to_vec();
                sorted.sort_unstable();
                let exact = sorted[(window.len() * LEVELS[level] as usize).div_ceil(1000) - 1] as f64;
                assert!((exact..=exact * (1.0 + 1.0 / 128.0)).contains(&values[level]));
                from[level] = at;
                found[level] += 1;
            }
        }
        assert!(found[3] >= 3 && found[0] > 250, "{found:?}");
    }
}
