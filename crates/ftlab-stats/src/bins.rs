//! Counts by size of a value, in bins that grow with it.

use serde::Serialize;

/// A histogram of whole numbers: `2^bits` bins to the octave, and each number below `2^bits` alone.
#[derive(Debug, Clone)]
pub(crate) struct Bins {
    bits: u32,
    counts: Vec<u64>,
    total: u64,
    sum: f64,
    squares: f64,
    least: u64,
    most: u64,
}

/// The bin of `value`.
#[inline(always)]
pub fn bin_of(bits: u32, value: u64) -> usize {
    let octave = (value | 1).ilog2();
    if octave < bits {
        return value as usize;
    }
    let within = (value >> (octave - bits)) & ((1 << bits) - 1);
    (((octave - bits + 1) as u64) << bits | within) as usize
}

/// The least value of a bin.
pub fn bin_start(bits: u32, bin: usize) -> u64 {
    let (octave, within) = (bin >> bits, (bin & ((1 << bits) - 1)) as u64);
    if octave == 0 {
        return within;
    }
    let start = u128::from(1u64 << bits | within) << (octave - 1);
    u64::try_from(start).unwrap_or(u64::MAX)
}

impl Bins {
    pub(crate) fn new(bits: u32) -> Self {
        Self { bits, counts: Vec::new(), total: 0, sum: 0.0, squares: 0.0, least: u64::MAX, most: 0 }
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, value: u64, weight: u64) {
        if weight == 0 {
            return;
        }
        let bin = bin_of(self.bits, value);
        if bin >= self.counts.len() {
            self.counts.resize(bin + 1, 0);
        }
        self.counts[bin] += weight;
        self.total += weight;
        let (value_f, weight_f) = (value as f64, weight as f64);
        self.sum += value_f * weight_f;
        self.squares += value_f * value_f * weight_f;
        self.least = self.least.min(value);
        self.most = self.most.max(value);
    }

    /// The histogram with all counts multiplied by `factor`, and rounded.
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        let counts: Vec<u64> =
            self.counts.iter().map(|count| (*count as f64 * factor).round() as u64).collect();
        let total = counts.iter().sum();
        // The mean stays what it was.
        let part = total as f64 / self.total.max(1) as f64;
        Self { counts, total, sum: self.sum * part, squares: self.squares * part, ..*self }
    }

    /// Counts by bin; bins behind the last are empty.
    pub(crate) fn counts(&self) -> &[u64] {
        &self.counts
    }

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    pub(crate) fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum / self.total as f64)
    }

    /// The value below which the share `part` lies, as if values were spread evenly within a bin.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let wanted = part * self.total as f64;
        let mut below = 0.0;
        for (bin, count) in self.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let count = *count as f64;
            if below + count >= wanted {
                let start = bin_start(self.bits, bin);
                // The last value of a bin, so that a bin of one value gives that value.
                let last = bin_start(self.bits, bin + 1) - 1;
                let value = start as f64 + (last - start) as f64 * ((wanted - below) / count);
                return value.clamp(self.least as f64, self.most as f64);
            }
            below += count;
        }
        self.most as f64
    }

    /// Mean, deviation and percentiles; absent without values.
    pub(crate) fn spread(&self) -> Option<Spread> {
        let mean = self.mean()?;
        let variance = (self.squares / self.total as f64 - mean * mean).max(0.0);
        let at = |part| self.quantile(part);
        Some(Spread {
            count: self.total,
            mean,
            stdev: variance.sqrt(),
            min: self.least,
            p10: at(0.10),
            p25: at(0.25),
            p50: at(0.50),
            p75: at(0.75),
            p90: at(0.90),
            p99: at(0.99),
            p999: at(0.999),
            max: self.most,
        })
    }

    /// The rows that are not empty.
    pub(crate) fn rows(&self) -> Vec<BinRow> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let row = |(bin, count): (usize, &u64)| BinRow {
            min: bin_start(self.bits, bin),
            max: bin_start(self.bits, bin + 1) - 1,
            count: *count,
        };
        filled.map(row).collect()
    }
}

/// How values spread. Percentiles are interpolated within bins: to 3 % for times, to 12 % for numbers of things.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Spread {
    /// How many values.
    pub count: u64,
    /// Mean, exact.
    pub mean: f64,
    /// Standard deviation, exact.
    pub stdev: f64,
    /// Least value.
    pub min: u64,
    /// A tenth lies below.
    pub p10: f64,
    /// A quarter lies below.
    pub p25: f64,
    /// Median.
    pub p50: f64,
    /// Three quarters lie below.
    pub p75: f64,
    /// Nine tenths lie below.
    pub p90: f64,
    /// 99 % lie below.
    pub p99: f64,
    /// 99.9 % lie below.
    pub p999: f64,
    /// Greatest value.
    pub max: u64,
}

/// Values from `min` to `max`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BinRow {
    /// Least value of the row.
    pub min: u64,
    /// Greatest value of the row.
    pub max: u64,
    /// How many values; an estimate where values are sampled.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_are_in_order_and_hold_their_values() {
        for bits in [2, 3, 5] {
            let mut last = 0;
            for value in (0..5000).chain([1 << 20, (1 << 40) + 12_345, u64::MAX - 1, u64::MAX]) {
                let bin = bin_of(bits, value);
                assert!(bin >= last && bin_start(bits, bin) <= value, "{bits} {value}");
                assert!(value < bin_start(bits, bin + 1) || value >= u64::MAX - 1, "{bits} {value}");
                last = bin;
            }
        }
    }

    #[test]
    fn percentiles_are_near() {
        let mut bins = Bins::new(5);
        (1..=10_000).for_each(|value| bins.add(value, 1));
        let spread = bins.spread().unwrap();
        assert_eq!((spread.mean, spread.min, spread.max), (5000.5, 1, 10_000));
        assert!((spread.p50 - 5000.0).abs() < 20.0 && (spread.p99 - 9900.0).abs() < 20.0, "{spread:?}");
        assert!((spread.stdev - 2886.7).abs() < 1.0);
    }
}
