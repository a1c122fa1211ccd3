//! When requests arrive, and how they would queue.

use ftlab_core::host::request::Request;
use serde::Serialize;

use super::bins::{BinRow, Bins, Spread};

/// 32 bins to the octave: percentiles of time are off by 3 % at most.
const TIME_BITS: u32 = 5;
const DEPTH_BITS: u32 = 3;
const WINDOWS_NS: [u64; 4] = [1_000_000, 10_000_000, 100_000_000, 1_000_000_000];

#[derive(Debug, Clone, Copy, Default)]
struct Window {
    /// When the window ends.
    end_ns: u64,
    /// Arrivals in it, without the last ones of the shortest window.
    count: u64,
    most: u64,
    /// Of windows that have ended: arrivals, and the sum of their squares.
    ended: u64,
    squares: f64,
}

/// Spans between arrivals, arrivals in windows of time, and the queue before a server of fixed speed.
#[derive(Debug)]
pub(super) struct Arrivals {
    service_ns: u64,
    first_ns: Option<u64>,
    /// When the first request arrived, the earliest or not.
    begin_ns: u64,
    last_ns: u64,
    /// The latest arrival so far: what is out of order arrives then.
    now_ns: u64,
    unsorted: u64,
    requests: u64,
    gaps: Bins,
    backlog_ns: u64,
    depths: Bins,
    /// Depths that most requests find, counted one by one.
    few: [u64; 8],
    windows: [Window; WINDOWS_NS.len()],
    /// Arrivals in the shortest window.
    in_shortest: u64,
}

impl Arrivals {
    pub(super) fn new(service_ns: u64) -> Self {
        Self {
            service_ns,
            first_ns: None,
            begin_ns: 0,
            last_ns: 0,
            now_ns: 0,
            unsorted: 0,
            requests: 0,
            gaps: Bins::new(TIME_BITS),
            backlog_ns: 0,
            depths: Bins::new(DEPTH_BITS),
            few: [0; 8],
            windows: [Window::default(); WINDOWS_NS.len()],
            in_shortest: 0,
        }
    }

    /// Take requests.
    pub(super) fn add(&mut self, requests: &[Request]) {
        for request in requests {
            self.add_one(request.arrival_ns);
        }
    }

    #[inline(always)]
    fn add_one(&mut self, arrival_ns: u64) {
        if self.requests == 0 {
            self.begin_ns = arrival_ns;
        }
        let first = self.first_ns.get_or_insert(arrival_ns);
        *first = (*first).min(arrival_ns);
        self.last_ns = self.last_ns.max(arrival_ns);
        self.unsorted += u64::from(arrival_ns < self.now_ns);
        let gap = arrival_ns.saturating_sub(self.now_ns);
        if self.requests > 0 {
            self.gaps.add(gap, 1);
            self.backlog_ns = self.backlog_ns.saturating_sub(gap);
        }
        self.now_ns = self.now_ns.max(arrival_ns);
        // Most find nothing or one request, which takes no division.
        let depth = match self.backlog_ns {
            0 => 0,
            backlog if backlog <= self.service_ns => 1,
            backlog => backlog.div_ceil(self.service_ns),
        };
        match self.few.get_mut(depth as usize) {
            Some(few) => *few += 1,
            None => self.depths.add(depth, 1),
        }
        self.backlog_ns = self.backlog_ns.saturating_add(self.service_ns);
        self.requests += 1;
        // A longer window never ends before a shorter one.
        if self.now_ns >= self.windows[0].end_ns {
            self.next_window();
        }
        self.in_shortest += 1;
    }

    /// End the shortest window, and the longer ones that end too.
    fn next_window(&mut self) {
        for (window, window_ns) in self.windows.iter_mut().zip(WINDOWS_NS) {
            window.count += self.in_shortest;
            if self.now_ns >= window.end_ns {
                let after = (self.now_ns - self.begin_ns) / window_ns + 1;
                window.end_ns = self.begin_ns.saturating_add(after.saturating_mul(window_ns));
                window.end();
            }
        }
        self.in_shortest = 0;
    }

    pub(super) fn duration_ns(&self) -> u64 {
        self.first_ns.map_or(0, |first| self.last_ns - first)
    }

    pub(super) fn unsorted(&self) -> u64 {
        self.unsorted
    }

    pub(super) fn gaps(&self) -> Option<GapStats> {
        let spread = self.gaps.spread()?;
        let coefficient_of_variation = (spread.mean > 0.0).then(|| spread.stdev / spread.mean);
        Some(GapStats { coefficient_of_variation, spread, histogram: self.gaps.rows() })
    }

    pub(super) fn queue(&self) -> Option<QueueStats> {
        let mut depths = self.depths.clone();
        (0..).zip(self.few).for_each(|(depth, count)| depths.add(depth, count));
        let depth = depths.spread()?;
        let served = self.requests as f64 * self.service_ns as f64;
        let span = self.now_ns - self.begin_ns;
        let bursts = WINDOWS_NS.iter().zip(self.windows).map(|(window_ns, window)| {
            // Also those in which nothing arrives, and not the last one, which the end of the trace cuts off.
            let windows = (self.now_ns - self.begin_ns) / window_ns;
            let mean = (windows > 0).then(|| window.ended as f64 / windows as f64);
            let dispersion = mean.filter(|_| windows > 1).map(|mean| {
                let squares = (window.squares - windows as f64 * mean * mean).max(0.0);
                squares / (windows - 1) as f64 / mean
            });
            let max = window.most.max(window.count + self.in_shortest);
            Burst { window_ns: *window_ns, mean, max, dispersion }
        });
        Some(QueueStats {
            service_ns: self.service_ns,
            utilization: (span > 0).then(|| served / span as f64),
            depth,
            bursts: bursts.collect(),
        })
    }
}

impl Window {
    fn end(&mut self) {
        self.most = self.most.max(self.count);
        self.ended += self.count;
        self.squares += self.count as f64 * self.count as f64;
        self.count = 0;
    }
}

/// Spans between one arrival and the next. What arrives before its predecessor counts as arriving with it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GapStats {
    /// Standard deviation / mean: 1 for random arrivals, above for bursts.
    pub coefficient_of_variation: Option<f64>,
    /// Nanoseconds.
    #[serde(flatten)]
    pub spread: Spread,
    /// Nanoseconds, by row.
    pub histogram: Vec<BinRow>,
}

/// How requests would queue. An estimate from arrival times alone: what the recorded device did is not known.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct QueueStats {
    /// The assumption: one request is served at a time, first come first served, and each takes so long.
    pub service_ns: u64,
    /// Service times / time from the first arrival to the latest. Near 1 and above, the server falls behind and `depth` says little.
    pub utilization: Option<f64>,
    /// Requests that an arriving one finds before it.
    pub depth: Spread,
    /// Arrivals within windows of time, without any assumption.
    pub bursts: Vec<Burst>,
}

/// Arrivals in windows of one length, one after the other from the first arrival on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Burst {
    /// Length of a window.
    pub window_ns: u64,
    /// Mean arrivals in a window that has ended before the trace has.
    pub mean: Option<f64>,
    /// Most arrivals in a window, also in the last one.
    pub max: u64,
    /// Variance / mean of those that have ended, two at least: 1 for random arrivals, above for bursts, 0 for regular ones.
    pub dispersion: Option<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_queues_and_bursts_by_hand() {
        let mut arrivals = Arrivals::new(1_000_000);
        for arrival in [0, 0, 500_000, 5_000_000, 4_000_000, 25_000_000] {
            arrivals.add_one(arrival);
        }
        let gaps = arrivals.gaps().unwrap();
        assert_eq!((gaps.spread.count, gaps.spread.mean, gaps.spread.max), (5, 5_000_000.0, 20_000_000));
        assert_eq!((arrivals.unsorted(), arrivals.duration_ns()), (1, 25_000_000));
        let queue = arrivals.queue().unwrap();
        // Found before them: 0, 1, 2 (one of them half served), 0, 1, 0.
        assert_eq!((queue.depth.mean, queue.depth.max), (4.0 / 6.0, 2));
        assert_eq!(queue.bursts.iter().map(|burst| burst.max).collect::<Vec<_>>(), [3, 5, 6, 6]);
        // Of 10 ms two have ended: five in the first, none in the second.
        assert_eq!((queue.bursts[1].mean, queue.bursts[1].dispersion), (Some(2.5), Some(12.5 / 2.5)));
        assert_eq!((queue.bursts[2].mean, queue.bursts[2].dispersion), (None, None));
        // Windows begin with the first arrival: these are in one.
        let mut arrivals = Arrivals::new(1000);
        for arrival in [900_000, 1_100_000] {
            arrivals.add_one(arrival);
        }
        let burst = &arrivals.queue().unwrap().bursts[0];
        assert_eq!((burst.mean, burst.max, burst.dispersion), (None, 2, None));
    }

    #[test]
    fn what_comes_late_comes_with_the_one_before() {
        let mut arrivals = Arrivals::new(1000);
        for arrival in [100, 50] {
            arrivals.add_one(arrival);
        }
        assert_eq!((arrivals.duration_ns(), arrivals.queue().unwrap().utilization), (50, None));
    }

    #[test]
    fn what_the_end_of_a_trace_cuts_off_is_no_burst() {
        let mut arrivals = Arrivals::new(1000);
        for at in 0..1100 {
            arrivals.add_one(at * 1_000_000 + 900_000_000);
        }
        for burst in &arrivals.queue().unwrap().bursts[..3] {
            assert_eq!(burst.dispersion, Some(0.0), "{} ns", burst.window_ns);
        }
        let longest = arrivals.queue().unwrap().bursts[3].clone();
        assert_eq!((longest.mean, longest.max, longest.dispersion), (Some(1000.0), 1000, None));
    }
}
