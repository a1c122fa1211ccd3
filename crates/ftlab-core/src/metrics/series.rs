//! Time series of a run: one row an interval.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::host::request::Op;
use crate::metrics::spread::{self, Entry, LEVELS, Levels, Spread, Windows};
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

/// The columns of percentiles.
const READ: [&str; LEVELS.len()] = ["read_p50_ns", "read_p90_ns", "read_p99_ns", "read_p999_ns"];
const WRITE: [&str; LEVELS.len()] = ["write_p50_ns", "write_p90_ns", "write_p99_ns", "write_p999_ns"];

/// So many of the columns that every series has stand behind them.
const AFTER_PERCENTILES: usize = 3;

/// Percentiles of latency over time, of one kind of request. One stands in a row with which ten requests are slower, and is
/// over all since the last row that has one. It is NaN in others, and without a clock. It is at most 1/128 above the exact one.
/// The coarse series has none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Percentiles {
    /// Of half of the requests.
    pub p50_ns: Vec<f64>,
    /// Of nine tenths.
    pub p90_ns: Vec<f64>,
    /// Of all but a hundredth.
    pub p99_ns: Vec<f64>,
    /// Of all but a thousandth.
    pub p999_ns: Vec<f64>,
}

impl Percentiles {
    /// With their names.
    fn columns(&self, names: [&'static str; LEVELS.len()]) -> [(&str, Column<'_>); LEVELS.len()] {
        let columns = [&self.p50_ns, &self.p90_ns, &self.p99_ns, &self.p999_ns];
        std::array::from_fn(|at| (names[at], Column::Real(columns[at])))
    }

    fn push(&mut self, row: Levels) {
        let columns = [&mut self.p50_ns, &mut self.p90_ns, &mut self.p99_ns, &mut self.p999_ns];
        for (column, value) in columns.into_iter().zip(row) {
            column.push(value);
        }
    }
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
    /// Pages that the host wrote in the interval, counted when a request is handed to the drive: of these
    /// [`write_amplification`](Self::write_amplification) is the mean.
    pub write_pages: Vec<u64>,
    /// The same of all that was programmed in the interval; a NAND page counts as many as it has room for.
    pub programmed_pages: Vec<u64>,
    /// Requests a second in the interval (0 without a clock).
    pub iops: Vec<f64>,
    /// Bytes read and written a second in the interval (0 without a clock).
    pub bytes_per_second: Vec<f64>,
    /// Mean latency in the interval (0 without a clock).
    pub latency_mean_ns: Vec<f64>,
    /// Largest latency in the interval (0 without a clock).
    pub latency_max_ns: Vec<u64>,
    /// Percentiles of the latency of reads.
    pub read: Percentiles,
    /// Percentiles of the latency of writes.
    pub write: Percentiles,
    /// Flash pages programmed / pages that the host wrote in the interval; NaN when it wrote none.
    pub write_amplification: Vec<f64>,
    /// Blocks erased in the interval.
    pub erases: Vec<u64>,
    /// Free blocks of the whole drive at the end of the interval.
    pub free_blocks: Vec<u64>,
    /// The columns that the parts of the drive have, by name: those of the mapping cache begin with `map_`.
    pub parts: Vec<(String, Vec<f64>)>,
}

/// The values of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Column<'a> {
    /// Counts and times.
    Whole(&'a [u64]),
    /// Means and rates.
    Real(&'a [f64]),
}

impl Series {
    /// Every column with its name, in the order of the fields.
    pub fn columns(&self) -> Vec<(&str, Column<'_>)> {
        let mut columns = vec![
            ("simulated_ns", Column::Whole(&self.simulated_ns)),
            ("requests", Column::Whole(&self.requests)),
            ("reads", Column::Whole(&self.reads)),
            ("writes", Column::Whole(&self.writes)),
            ("write_pages", Column::Whole(&self.write_pages)),
            ("programmed_pages", Column::Whole(&self.programmed_pages)),
            ("iops", Column::Real(&self.iops)),
            ("bytes_per_second", Column::Real(&self.bytes_per_second)),
            ("latency_mean_ns", Column::Real(&self.latency_mean_ns)),
            ("latency_max_ns", Column::Whole(&self.latency_max_ns)),
            ("write_amplification", Column::Real(&self.write_amplification)),
            ("erases", Column::Whole(&self.erases)),
            ("free_blocks", Column::Whole(&self.free_blocks)),
        ];
        let at = columns.len() - AFTER_PERCENTILES;
        let percentiles = self.read.columns(READ).into_iter().chain(self.write.columns(WRITE));
        columns.splice(at..at, percentiles.filter(|_| !self.read.p50_ns.is_empty()));
        columns.extend(self.parts.iter().map(|(name, values)| (name.as_str(), Column::Real(values))));
        columns
    }
}

/// What a part of a drive has come to at the end of an interval: an entry of its column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// So many until now; the column has those of the interval.
    Count(f64),
    /// The column has the value at the end of the interval.
    Level(f64),
    /// A sum and what it is the sum of, until now; the column has the mean over the interval, NaN when there was nothing.
    Mean {
        /// The sum.
        total: f64,
        /// How many it is the sum of.
        count: f64,
    },
    /// As a mean, of what most drives never have: the column begins when the sum is above 0, and has 0 before.
    RareMean {
        /// The sum.
        total: f64,
        /// How many it is the sum of.
        count: f64,
    },
}

/// The readings of all columns that parts have, by name.
pub type Readings = Vec<(String, Reading)>;

/// Rows of a series for whoever watches the run, each as a series of one row. With [`SeriesEvery::Auto`] there are none:
/// its rows are joined later.
#[derive(Debug, Default)]
pub struct SeriesFeed(Mutex<Vec<Series>>);

impl SeriesFeed {
    fn push(&self, row: Series) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    }

    /// The rows since they were last taken, in order.
    pub fn take(&self) -> Vec<Series> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Running totals at the end of an interval.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    /// Requests that have arrived, completed or not; 0 without a clock.
    pub(crate) arrived: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) bytes: u64,
    pub(crate) write_units: u64,
    pub(crate) programmed_units: u64,
    pub(crate) erases: u64,
    pub(crate) free_blocks: u64,
    pub(crate) parts: Readings,
}

/// What one interval added up to.
#[derive(Debug, Clone)]
struct Row {
    end: Time,
    totals: Totals,
    latency_sum: u128,
    latency_count: u64,
    latency_max: Time,
    samples: [Samples; KINDS],
    percentiles: Option<[Levels; KINDS]>,
}

/// Percentiles are of reads, and of writes.
const KINDS: usize = 2;

/// The latencies of one kind of request in an interval.
#[derive(Debug, Clone, Default)]
struct Samples {
    /// Where they are among the entries of all rows.
    entries: Range<usize>,
    max: Time,
}

/// Rows kept by [`SeriesEvery::Auto`] before neighbours are joined.
const AUTO_ROWS: usize = 1000;

/// Rows of the coarse series before neighbours are joined, so that there are 128 or more: MSER-5 needs 100.
const COARSE_ROWS: usize = 256;

/// What the percentiles of a series are of.
#[derive(Debug, Clone)]
struct Distributions {
    /// Of the interval.
    spreads: [Spread; KINDS],
    most: [Time; KINDS],
    /// Of all rows that may yet be joined; of none where rows stay as they are.
    entries: Vec<Entry>,
    /// What these become while rows are joined.
    joined: Vec<Entry>,
    windows: [Windows; KINDS],
}

impl Distributions {
    fn new() -> Self {
        Self {
            spreads: std::array::from_fn(|_| Spread::new()),
            most: [Time::ZERO; KINDS],
            entries: Vec::new(),
            joined: Vec::new(),
            windows: Default::default(),
        }
    }

    #[inline]
    fn sample(&mut self, op: Op, span: Time) {
        let kind = match op {
            Op::Read => 0,
            Op::Write => 1,
            Op::Trim | Op::Flush => return,
        };
        self.spreads[kind].record(span);
        self.most[kind] = self.most[kind].max(span);
    }

    /// Move the samples of the interval to those of rows.
    fn end_interval(&mut self) -> [Samples; KINDS] {
        std::array::from_fn(|kind| {
            let from = self.entries.len();
            self.spreads[kind].move_to(&mut self.entries);
            Samples { entries: from..self.entries.len(), max: std::mem::take(&mut self.most[kind]) }
        })
    }

    /// Put the samples of two rows behind those that are joined already.
    fn join(&mut self, first: &[Samples; KINDS], second: &[Samples; KINDS]) -> [Samples; KINDS] {
        std::array::from_fn(|kind| {
            let (one, two, from) = (&first[kind], &second[kind], self.joined.len());
            let entries = |samples: &Samples| &self.entries[samples.entries.clone()];
            spread::join(entries(one), entries(two), &mut self.joined);
            Samples { entries: from..self.joined.len(), max: one.max.max(two.max) }
        })
    }

    fn next_percentiles(&mut self, samples: &[Samples; KINDS]) -> [Levels; KINDS] {
        std::array::from_fn(|kind| {
            let Samples { entries, max } = &samples[kind];
            self.windows[kind].next(&self.entries[entries.clone()], *max)
        })
    }
}

/// Collects a series while a run goes on.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    every: SeriesEvery,
    /// Rows kept in automatic mode before neighbours are joined.
    most_rows: usize,
    /// Interval in requests; doubles in automatic mode.
    requests: u64,
    next_requests: u64,
    next_time: Time,
    rows: Vec<Row>,
    latency_sum: u128,
    latency_count: u64,
    latency_max: Time,
    /// What percentiles are of, if there are any.
    distributions: Option<Box<Distributions>>,
    closed: bool,
    pub(crate) feed: Option<Arc<SeriesFeed>>,
}

impl Recorder {
    pub(crate) fn new(every: SeriesEvery) -> Self {
        let distributions = Some(Box::new(Distributions::new()));
        Self { distributions, ..Self::with_rows(every, AUTO_ROWS) }
    }

    /// A series in few rows, which every run keeps: without percentiles, which would cost every run.
    pub(crate) fn coarse() -> Self {
        Self::with_rows(SeriesEvery::Auto, COARSE_ROWS)
    }

    fn with_rows(every: SeriesEvery, most_rows: usize) -> Self {
        let (requests, next_requests, next_time) = match every {
            SeriesEvery::Requests(count) => (count.max(1), count.max(1), Time::NEVER),
            SeriesEvery::Time(span) => (0, u64::MAX, span.max(Time(1))),
            SeriesEvery::Auto => (1, 1, Time::NEVER),
        };
        let rows = Vec::with_capacity(most_rows + 1);
        Self {
            every,
            most_rows,
            requests,
            next_requests,
            next_time,
            rows,
            latency_sum: 0,
            latency_count: 0,
            latency_max: Time::ZERO,
            distributions: None,
            closed: false,
            feed: None,
        }
    }

    #[inline]
    pub(crate) fn latency(&mut self, op: Op, span: Time) {
        if let Some(distributions) = &mut self.distributions {
            distributions.sample(op, span);
        }
        self.latency_sum += u128::from(span.0);
        self.latency_count += 1;
        self.latency_max = self.latency_max.max(span);
    }

    /// The latencies of an interval at once, for whoever adds them up elsewhere.
    pub(crate) fn latencies(&mut self, sum_ps: u128, count: u64, max: Time) {
        (self.latency_sum, self.latency_count, self.latency_max) = (sum_ps, count, max);
    }

    /// Requests from one row to the next.
    pub(crate) fn interval(&self) -> u64 {
        self.requests
    }

    /// When each row ends, and what the run had come to by then.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (Time, &Totals)> {
        self.rows.iter().map(|row| (row.end, &row.totals))
    }

    #[inline]
    pub(crate) fn is_due(&self, completed: u64, now: Time) -> bool {
        completed >= self.next_requests || now >= self.next_time
    }

    pub(crate) fn row(&mut self, now: Time, totals: Totals) {
        let requests = totals.requests;
        self.push(now, totals);
        match self.every {
            SeriesEvery::Time(span) => {
                let span = span.max(Time(1)).0;
                self.next_time = Time((now.0 / span + 1).saturating_mul(span));
            }
            SeriesEvery::Requests(_) => self.next_requests = requests + self.requests,
            SeriesEvery::Auto => {
                if self.rows.len() >= self.most_rows {
                    self.join_pairs();
                    self.requests *= 2;
                }
                self.next_requests = requests + self.requests;
            }
        }
    }

    fn push(&mut self, now: Time, totals: Totals) {
        let (mut samples, mut percentiles) = Default::default();
        if let Some(distributions) = &mut self.distributions {
            samples = distributions.end_interval();
            if self.every != SeriesEvery::Auto {
                percentiles = Some(distributions.next_percentiles(&samples));
                distributions.entries.clear();
            }
        }
        self.rows.push(Row {
            end: now,
            totals,
            latency_sum: std::mem::take(&mut self.latency_sum),
            latency_count: std::mem::take(&mut self.latency_count),
            latency_max: std::mem::take(&mut self.latency_max),
            samples,
            percentiles,
        });
        if let Some(feed) = self.feed.as_ref().filter(|_| self.every != SeriesEvery::Auto) {
            feed.push(columns_from(&self.rows, self.rows.len() - 1));
        }
    }

    fn join_pairs(&mut self) {
        let pairs = self.rows.len() / 2;
        for at in 0..pairs {
            let (first, second) = (self.rows[2 * at].clone(), self.rows[2 * at + 1].clone());
            let samples = match &mut self.distributions {
                Some(distributions) => distributions.join(&first.samples, &second.samples),
                None => Default::default(),
            };
            self.rows[at] = Row {
                samples,
                latency_sum: first.latency_sum + second.latency_sum,
                latency_count: first.latency_count + second.latency_count,
                latency_max: first.latency_max.max(second.latency_max),
                ..second
            };
        }
        self.rows.truncate(pairs);
        if let Some(distributions) = &mut self.distributions {
            std::mem::swap(&mut distributions.entries, &mut distributions.joined);
            distributions.joined.clear();
        }
    }

    /// No request completes any more: the last one did at `end`. What the drive has done since then is in the last row, however
    /// long rows are.
    pub(crate) fn close(&mut self, end: Time, totals: Totals) {
        if self.closed {
            return;
        }
        self.closed = true;
        match self.rows.last_mut() {
            Some(row) if row.totals.requests == totals.requests => row.totals = totals,
            _ if totals.requests > 0 => self.push(end, totals),
            _ => {}
        }
    }

    pub(crate) fn finish(mut self, end: Time, totals: Totals) -> Series {
        self.close(end, totals);
        if let (SeriesEvery::Auto, Some(distributions)) = (self.every, &mut self.distributions) {
            for row in &mut self.rows {
                row.percentiles = Some(distributions.next_percentiles(&row.samples));
            }
        }
        columns_from(&self.rows, 0)
    }
}

/// The columns of the rows from `first` on.
fn columns_from(rows: &[Row], first: usize) -> Series {
    let mut series = Series::default();
    let none = Totals::default();
    let earlier = first.checked_sub(1).map(|at| &rows[at]);
    let (mut before, mut start) = earlier.map_or((&none, Time::ZERO), |row| (&row.totals, row.end));
    for row in &rows[first..] {
        let now = &row.totals;
        let seconds = row.end.since(start).0 as f64 / 1e12;
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let written = now.write_units - before.write_units;
        let programmed = now.programmed_units - before.programmed_units;
        series.simulated_ns.push(row.end.as_ns());
        series.requests.push(now.requests);
        series.reads.push(now.reads - before.reads);
        series.writes.push(now.writes - before.writes);
        series.write_pages.push(written);
        series.programmed_pages.push(programmed);
        series.iops.push(rate(now.requests - before.requests));
        series.bytes_per_second.push(rate(now.bytes - before.bytes));
        series.latency_mean_ns.push(if row.latency_count > 0 {
            row.latency_sum as f64 / row.latency_count as f64 / 1000.0
        } else {
            0.0
        });
        series.latency_max_ns.push(row.latency_max.as_ns());
        if let Some([read, write]) = row.percentiles {
            series.read.push(read);
            series.write.push(write);
        }
        series.write_amplification.push(if written > 0 {
            programmed as f64 / written as f64
        } else {
            f64::NAN
        });
        series.erases.push(now.erases - before.erases);
        series.free_blocks.push(now.free_blocks);
        (before, start) = (now, row.end);
    }
    series.parts = part_columns(rows, first);
    series
}

/// The columns of the parts of the drive.
fn part_columns(rows: &[Row], first: usize) -> Vec<(String, Vec<f64>)> {
    let mut columns: Vec<(String, Vec<f64>)> = Vec::new();
    let none = Readings::new();
    let mut before = first.checked_sub(1).map_or(&none, |at| &rows[at].totals.parts);
    for (row, now) in rows[first..].iter().map(|row| &row.totals.parts).enumerate() {
        for (name, reading) in now {
            if let Reading::RareMean { total: 0.0, .. } = reading {
                continue;
            }
            let earlier = before.iter().find(|other| other.0 == *name).map(|other| other.1);
            let value = match (*reading, earlier) {
                (Reading::Count(now), Some(Reading::Count(before))) => now - before,
                (
                    Reading::Mean { total, count } | Reading::RareMean { total, count },
                    Some(
                        Reading::Mean { total: sum, count: of } | Reading::RareMean { total: sum, count: of },
                    ),
                ) => mean(total - sum, count - of),
                (Reading::Count(value) | Reading::Level(value), _) => value,
                (Reading::Mean { total, count } | Reading::RareMean { total, count }, _) => {
                    mean(total, count)
                }
            };
            match columns.iter_mut().find(|column| column.0 == *name) {
                Some(column) => column.1.push(value),
                // What comes up later than the first row was nothing before.
                None => columns.push((name.clone(), [vec![0.0; row], vec![value]].concat())),
            }
        }
        // What is no longer there is nothing.
        for column in &mut columns {
            column.1.resize(row + 1, 0.0);
        }
        before = now;
    }
    columns
}

fn mean(total: f64, count: f64) -> f64 {
    if count > 0.0 { total / count } else { f64::NAN }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn automatic_intervals_keep_every_request_in_few_rows() {
        let mut recorder = Recorder::new(SeriesEvery::Auto);
        let mut totals = Totals::default();
        for n in 1..=100_000_u64 {
            totals.requests = n;
            totals.writes = n;
            totals.write_units = n;
            totals.programmed_units = 2 * n;
            recorder.latency(Op::Write, Time(1_000_000));
            if recorder.is_due(n, Time(n)) {
                recorder.row(Time(n), totals.clone());
            }
        }
        let series = recorder.finish(Time(100_000), totals);
        assert!((500..=1001).contains(&series.requests.len()), "{}", series.requests.len());
        assert_eq!(series.requests.last(), Some(&100_000));
        assert_eq!(series.writes.iter().sum::<u64>(), 100_000);
        assert!(series.write_amplification.iter().all(|wa| (*wa - 2.0).abs() < 1e-12));
        assert!(series.latency_mean_ns.iter().all(|ns| (*ns - 1000.0).abs() < 1e-9));
    }

    #[test]
    fn the_feed_has_the_rows_of_the_series_as_they_come() {
        for every in [SeriesEvery::Requests(7), SeriesEvery::Time(Time(11)), SeriesEvery::Auto] {
            let mut recorder = Recorder::new(every);
            let feed = Arc::new(SeriesFeed::default());
            recorder.feed = Some(feed.clone());
            let mut totals = Totals::default();
            let mut told = Vec::new();
            for n in 1..=100_u64 {
                totals.requests = n;
                totals.writes = n;
                totals.write_units = n;
                totals.programmed_units = n * n;
                totals.parts = vec![
                    ("count".into(), Reading::Count((n * n) as f64)),
                    ("mean".into(), Reading::Mean { total: (n * n) as f64, count: n as f64 }),
                ];
                recorder.latency(Op::ALL[n as usize % 2], Time(1000 * n));
                if recorder.is_due(n, Time(n)) {
                    recorder.row(Time(n), totals.clone());
                    told.extend(feed.take());
                    assert_eq!(told.len(), if every == SeriesEvery::Auto { 0 } else { recorder.rows.len() });
                }
            }
            let series = recorder.finish(Time(100), totals);
            told.extend(feed.take());
            let rows = series.columns();
            for (at, row) in told.iter().enumerate() {
                for ((name, all), (told_name, one)) in rows.iter().zip(row.columns()) {
                    assert_eq!(*name, told_name);
                    match (all, one) {
                        (Column::Whole(all), Column::Whole(one)) => assert_eq!(all[at], one[0]),
                        (Column::Real(all), Column::Real(one)) => {
                            let same = (all[at] - one[0]).abs() < 1e-9 || all[at].is_nan() && one[0].is_nan();
                            assert!(same, "{name}: {} {}", all[at], one[0]);
                        }
                        _ => panic!("{name} has two kinds"),
                    }
                }
            }
            assert_eq!(told.len(), if every == SeriesEvery::Auto { 0 } else { series.requests.len() });
        }
    }
}
