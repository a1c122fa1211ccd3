//! Time series of a run: one row an interval.

use crate::mapcache::cache::CacheReport;
use crate::metrics::summary::MapPenalty;
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
    /// What a mapping cache tells, by name of the column; empty without one:
    ///
    /// - `map_lookups`: lookups in the interval
    /// - `map_hit_ratio`: hits / lookups in the interval; NaN when there were none
    /// - `map_penalty_mean_ns`: mean penalty of a lookup in the interval; NaN when there were none
    /// - `map_penalty_PART_mean_ns`: of it `fetch`, `program`, `rest`, and `probe` once data were predicted wrongly
    /// - `map_fetch_mean_bytes`: mean size of a fetch in the interval; NaN when there were none
    /// - `map_window_NAME`: misses in the interval for which the window was chosen
    /// - `map_score_NAME`: score of the window at the end of the interval
    /// - `map_content_bytes_NAME`: bytes of memory with that kind of content at the end of the interval
    pub map_cache: Vec<(String, Vec<f64>)>,
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
            ("iops", Column::Real(&self.iops)),
            ("bytes_per_second", Column::Real(&self.bytes_per_second)),
            ("latency_mean_ns", Column::Real(&self.latency_mean_ns)),
            ("latency_max_ns", Column::Whole(&self.latency_max_ns)),
            ("write_amplification", Column::Real(&self.write_amplification)),
            ("erases", Column::Whole(&self.erases)),
            ("free_blocks", Column::Whole(&self.free_blocks)),
        ];
        columns.extend(self.map_cache.iter().map(|(name, values)| (name.as_str(), Column::Real(values))));
        columns
    }
}

/// What a mapping cache has come to at the end of an interval.
#[derive(Debug, Clone, Default)]
pub(crate) struct MapTotals {
    pub(crate) lookups: u64,
    pub(crate) hits: u64,
    pub(crate) fetches: u64,
    pub(crate) fetch_bytes: u64,
    pub(crate) penalty_ns: MapPenalty,
    pub(crate) insight: CacheReport,
}

/// Running totals at the end of an interval.
#[derive(Debug, Clone, Default)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) reads: u64,
    pub(crate) writes: u64,
    pub(crate) bytes: u64,
    pub(crate) write_units: u64,
    pub(crate) programmed_units: u64,
    pub(crate) erases: u64,
    pub(crate) free_blocks: u64,
    pub(crate) map_cache: Option<MapTotals>,
}

/// What one interval added up to.
#[derive(Debug, Clone)]
struct Row {
    end: Time,
    totals: Totals,
    latency_sum: u128,
    latency_count: u64,
    latency_max: Time,
}

/// Rows kept by [`SeriesEvery::Auto`] before neighbours are joined.
const AUTO_ROWS: usize = 1000;

/// Collects a series while a run goes on.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    every: SeriesEvery,
    /// Interval in requests; doubles in automatic mode.
    requests: u64,
    next_requests: u64,
    next_time: Time,
    rows: Vec<Row>,
    latency_sum: u128,
    latency_count: u64,
    latency_max: Time,
}

impl Recorder {
    pub(crate) fn new(every: SeriesEvery) -> Self {
        let (requests, next_requests, next_time) = match every {
            SeriesEvery::Requests(count) => (count.max(1), count.max(1), Time::NEVER),
            SeriesEvery::Time(span) => (0, u64::MAX, span.max(Time(1))),
            SeriesEvery::Auto => (1, 1, Time::NEVER),
        };
        let rows = Vec::with_capacity(AUTO_ROWS + 1);
        Self {
            every,
            requests,
            next_requests,
            next_time,
            rows,
            latency_sum: 0,
            latency_count: 0,
            latency_max: Time::ZERO,
        }
    }

    #[inline]
    pub(crate) fn latency(&mut self, span: Time) {
        self.latency_sum += u128::from(span.0);
        self.latency_count += 1;
        self.latency_max = self.latency_max.max(span);
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
                if self.rows.len() >= AUTO_ROWS {
                    self.join_pairs();
                    self.requests *= 2;
                }
                self.next_requests = requests + self.requests;
            }
        }
    }

    fn push(&mut self, now: Time, totals: Totals) {
        self.rows.push(Row {
            end: now,
            totals,
            latency_sum: std::mem::take(&mut self.latency_sum),
            latency_count: std::mem::take(&mut self.latency_count),
            latency_max: std::mem::take(&mut self.latency_max),
        });
    }

    fn join_pairs(&mut self) {
        let pairs = self.rows.len() / 2;
        for at in 0..pairs {
            let (first, second) = (self.rows[2 * at].clone(), self.rows[2 * at + 1].clone());
            self.rows[at] = Row {
                latency_sum: first.latency_sum + second.latency_sum,
                latency_count: first.latency_count + second.latency_count,
                latency_max: first.latency_max.max(second.latency_max),
                ..second
            };
        }
        self.rows.truncate(pairs);
    }

    pub(crate) fn finish(mut self, end: Time, totals: Totals) -> Series {
        if self.rows.last().is_none_or(|row| row.totals.requests < totals.requests) && totals.requests > 0 {
            self.push(end, totals);
        }
        let mut series = Series::default();
        let none = Totals::default();
        let (mut before, mut start) = (&none, Time::ZERO);
        for row in &self.rows {
            let now = &row.totals;
            let seconds = row.end.since(start).0 as f64 / 1e12;
            let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
            let written = now.write_units - before.write_units;
            series.simulated_ns.push(row.end.as_ns());
            series.requests.push(now.requests);
            series.reads.push(now.reads - before.reads);
            series.writes.push(now.writes - before.writes);
            series.iops.push(rate(now.requests - before.requests));
            series.bytes_per_second.push(rate(now.bytes - before.bytes));
            series.latency_mean_ns.push(if row.latency_count > 0 {
                row.latency_sum as f64 / row.latency_count as f64 / 1000.0
            } else {
                0.0
            });
            series.latency_max_ns.push(row.latency_max.as_ns());
            series.write_amplification.push(if written > 0 {
                (now.programmed_units - before.programmed_units) as f64 / written as f64
            } else {
                f64::NAN
            });
            series.erases.push(now.erases - before.erases);
            series.free_blocks.push(now.free_blocks);
            (before, start) = (now, row.end);
        }
        series.map_cache = self.map_columns();
        series
    }

    /// The columns of the mapping cache.
    fn map_columns(&self) -> Vec<(String, Vec<f64>)> {
        let mut columns: Vec<(String, Vec<f64>)> = Vec::new();
        let none = MapTotals::default();
        let mut before = &none;
        for (row, now) in self.rows.iter().filter_map(|row| row.totals.map_cache.as_ref()).enumerate() {
            let mut enter =
                |name: String, value: f64| match columns.iter_mut().find(|column| column.0 == name) {
                    Some(column) => column.1.push(value),
                    // What comes up later than the first row was nothing before.
                    None => columns.push((name, [vec![0.0; row], vec![value]].concat())),
                };
            let ratio = |part: f64, whole: u64| if whole > 0 { part / whole as f64 } else { f64::NAN };
            let lookups = now.lookups - before.lookups;
            enter("map_lookups".into(), lookups as f64);
            enter("map_hit_ratio".into(), ratio((now.hits - before.hits) as f64, lookups));
            let (penalty, earlier) = (&now.penalty_ns, &before.penalty_ns);
            enter("map_penalty_mean_ns".into(), ratio(penalty.total - earlier.total, lookups));
            for (part, all, earlier) in [
                ("fetch", penalty.fetch, earlier.fetch),
                ("program", penalty.program, earlier.program),
                ("rest", penalty.rest, earlier.rest),
                ("probe", penalty.probe, earlier.probe),
            ] {
                if part != "probe" || all > 0.0 {
                    enter(format!("map_penalty_{part}_mean_ns"), ratio(all - earlier, lookups));
                }
            }
            let bytes = (now.fetch_bytes - before.fetch_bytes) as f64;
            enter("map_fetch_mean_bytes".into(), ratio(bytes, now.fetches - before.fetches));
            for (name, chosen) in &now.insight.windows {
                let earlier = before.insight.windows.iter().find(|window| window.0 == *name);
                enter(format!("map_window_{name}"), (chosen - earlier.map_or(0, |window| window.1)) as f64);
            }
            for (name, score) in &now.insight.scores {
                enter(format!("map_score_{name}"), *score);
            }
            for (name, bytes) in &now.insight.content_bytes {
                enter(format!("map_content_bytes_{name}"), *bytes as f64);
            }
            // What is no longer there is nothing.
            for column in &mut columns {
                column.1.resize(row + 1, 0.0);
            }
            before = now;
        }
        columns
    }
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
            recorder.latency(Time(1_000_000));
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
}
