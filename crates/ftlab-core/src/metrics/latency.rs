//! Distributions of time.

use hdrhistogram::Histogram;

use crate::metrics::summary::LatencySummary;
use crate::time::Time;

/// Collects spans: exact moments, and a histogram with three significant digits for percentiles.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
    sum_ps: u128,
    sum_of_squares: f64,
    /// Squares are summed about this value, so that a narrow distribution far from zero loses no digits.
    pivot: f64,
    min: Time,
    max: Time,
    /// The last sample, and how often in a row it came: it is entered when another one comes. Requests that find the drive
    /// idle all take equally long.
    last: Time,
    repeats: u64,
}

impl Latency {
    /// Without samples.
    pub fn new() -> Self {
        // It grows with the longest span: with room for all it would take 376 KiB, more than a short run needs otherwise.
        let histogram = Histogram::new(3).expect("three digits are valid");
        Self {
            histogram,
            sum_ps: 0,
            sum_of_squares: 0.0,
            pivot: 0.0,
            min: Time::NEVER,
            max: Time::ZERO,
            last: Time::ZERO,
            repeats: 0,
        }
    }

    /// Add a sample.
    #[inline]
    pub fn record(&mut self, span: Time) {
        self.record_many(span, 1);
    }

    /// Add the sample `span` `count` times.
    #[inline]
    pub fn record_many(&mut self, span: Time, count: u64) {
        if span != self.last {
            self.enter();
            self.last = span;
        }
        self.repeats += count;
    }

    fn enter(&mut self) {
        let Self { last, repeats, .. } = *self;
        if repeats == 0 {
            return;
        }
        if self.histogram.is_empty() {
            self.pivot = last.0 as f64;
        }
        self.histogram.record_n(last.as_ns(), repeats).expect("spans are below 2^55 ns");
        self.sum_ps += u128::from(last.0) * u128::from(repeats);
        let deviation = last.0 as f64 - self.pivot;
        self.sum_of_squares += deviation * deviation * repeats as f64;
        self.min = self.min.min(last);
        self.max = self.max.max(last);
        self.repeats = 0;
    }

    /// The same with all samples entered.
    fn entered(&self) -> Self {
        let mut all = self.clone();
        all.enter();
        all
    }

    /// Add all samples of `other`.
    pub fn merge(&mut self, other: &Latency) {
        if other.count() == 0 {
            return;
        }
        self.enter();
        let other = &other.entered();
        if self.count() == 0 {
            self.pivot = other.pivot;
        }
        // sum (x - p)^2 = sum (x - q)^2 + 2 (q - p) sum (x - q) + n (q - p)^2
        let (count, shift) = (other.count() as f64, other.pivot - self.pivot);
        let sum_about_other = other.sum_ps as f64 - count * other.pivot;
        self.sum_of_squares += other.sum_of_squares + 2.0 * shift * sum_about_other + count * shift * shift;
        self.sum_ps += other.sum_ps;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.histogram.add(&other.histogram).expect("spans are below 2^55 ns");
    }

    /// Samples so far.
    pub fn count(&self) -> u64 {
        self.histogram.len() + self.repeats
    }

    /// The sum of all samples, in picoseconds.
    pub fn sum_ps(&self) -> u128 {
        self.sum_ps + u128::from(self.last.0) * u128::from(self.repeats)
    }

    /// What was collected, in nanoseconds; zeros without samples.
    pub fn summary(&self) -> LatencySummary {
        let count = self.count();
        if count == 0 {
            return LatencySummary::default();
        }
        if self.repeats > 0 {
            return self.entered().summary();
        }
        let mean_ps = self.sum_ps as f64 / count as f64;
        let shift = mean_ps - self.pivot;
        let variance = (self.sum_of_squares / count as f64 - shift * shift).max(0.0);
        // The histogram answers with the upper end of a bucket, which may lie above the largest sample.
        let at = |quantile| self.histogram.value_at_quantile(quantile).min(self.max.as_ns());
        LatencySummary {
            count,
            mean: mean_ps / 1000.0,
            stdev: variance.sqrt() / 1000.0,
            min: self.min.as_ns(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: self.max.as_ns(),
        }
    }
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact_and_percentiles_close() {
        let mut latency = Latency::new();
        for us in 1..=1000_u64 {
            latency.record(Time::from_ns(us * 1000));
        }
        let summary = latency.summary();
        assert_eq!((summary.count, summary.min, summary.max), (1000, 1000, 1_000_000));
        assert!((summary.mean - 500_500.0).abs() < 1e-6);
        // Uniform on 1..n: variance (n^2 - 1) / 12.
        assert!((summary.stdev - (999_999.0_f64 / 12.0).sqrt() * 1000.0).abs() < 1e-3);
        for (found, expected) in [(summary.p50, 500e3), (summary.p90, 900e3), (summary.p99, 990e3)] {
            assert!((found as f64 / expected - 1.0).abs() < 1e-3, "{found} {expected}");
        }
    }

    #[test]
    fn merging_equals_recording_everything_in_one() {
        let (mut one, mut two, mut all) = (Latency::new(), Latency::new(), Latency::new());
        for i in 0..2000_u64 {
            let span = Time(i * i * 1_000_003 % 90_000_000);
            if i % 3 == 0 {
                one.record(span);
            } else {
                two.record(span);
            }
            all.record(span);
        }
        one.merge(&two);
        let (merged, expected) = (one.summary(), all.summary());
        assert!((merged.stdev / expected.stdev - 1.0).abs() < 1e-9);
        assert_eq!(LatencySummary { stdev: 0.0, ..merged }, LatencySummary { stdev: 0.0, ..expected });
    }

    #[test]
    fn a_narrow_distribution_keeps_its_deviation() {
        let mut latency = Latency::new();
        for i in 0..1_000_000_u64 {
            latency.record(Time(3_000_000_000_000 + i % 2));
        }
        assert!((latency.summary().stdev - 0.0005).abs() < 1e-9);
    }
}
