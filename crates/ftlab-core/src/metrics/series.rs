//! Time series of a run: one row an interval.

use crate::time::Time;

/// What an interval is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SeriesEvery {
    /// This many completed requests.
    Requests(u64),
    /// This span of simulated time.
    Time(Time),
    /// Requests, with an interval that doubles so that a run of any length gives 500 to 1,000 rows.
    Auto,
}

/// Columns of equal length, one row an interval.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Series {
    /// End of the interval, nanoseconds of simulated time (0 without a clock).
    pub simulated_ns: Vec<u64>,
    /// Requests completed by then.
    pub requests: Vec<u64>,
    /// Reads completed in the interval.
    pub reads: Vec<u64>,
    /// Writes completed in the interval.
    pub writes: Vec<u64>,
    /// Requests a second in the interval (0 without a clock).
    pub iops: Vec<f64>,
    /// Bytes read and written a second in the interval (0 without a clock).
    pub bytes_per_second: Vec<f64>,
    /// Mean latency in the interval (0 without a clock).
    pub latency_mean_ns: Vec<f64>,
    /// Largest latency in the interval (0 without a clock).
    pub latency_max_ns: Vec<u64>,
    /// Flash pages programmed / pages that the host wrote in the interval; NaN when it wrote none.
    pub write_amplification: Vec<f64>,
    /// Blocks erased in the interval.
    pub erases: Vec<u64>,
    /// Free blocks of the whole drive at the end of the interval.
    pub free_blocks: Vec<u64>,
}
