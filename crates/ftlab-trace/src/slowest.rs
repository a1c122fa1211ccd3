//! The slowest requests of a run, for logs that keep no more than what happened meanwhile.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use ftlab_core::metrics::{Observer, RequestRecord};
use ftlab_core::time::Time;

/// Latency, how late it completed, its number, its start: in the order of how slow requests are.
type Found = (Time, Reverse<u64>, u64, Time);

/// Finds them. Of requests that take equally long, those count that completed first.
pub struct Slowest {
    count: usize,
    /// The least slow of them is on top.
    found: BinaryHeap<Reverse<Found>>,
    completed: u64,
}

impl Slowest {
    /// Nothing yet, and `count` requests at most.
    pub fn new(count: usize) -> Self {
        Self { count, found: BinaryHeap::with_capacity(count.min(1 << 16) + 1), completed: 0 }
    }

    /// What they are.
    pub fn spans(self) -> Spans {
        let mut found: Vec<_> = self.found.into_iter().map(|Reverse(one)| one).collect();
        found.sort_unstable_by_key(|(latency, late, ..)| Reverse((*latency, *late)));
        let ranks = (1..).zip(&found).map(|(rank, (_, _, index, _))| (*index, rank)).collect();
        let mut times: Vec<_> =
            found.iter().map(|(latency, .., start)| (*start, *start + *latency)).collect();
        times.sort_unstable();
        let mut apart: Vec<(Time, Time)> = Vec::new();
        for (start, end) in times {
            match apart.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => apart.push((start, end)),
            }
        }
        Spans { apart, ranks }
    }
}

impl Observer for Slowest {
    fn wants_requests(&self) -> bool {
        true
    }

    fn on_request(&mut self, record: &RequestRecord) {
        let latency = record.end.since(record.start);
        self.completed += 1;
        self.found.push(Reverse((latency, Reverse(self.completed), record.index, record.start)));
        if self.found.len() > self.count {
            self.found.pop();
        }
    }
}

/// When the slowest requests were under way.
pub struct Spans {
    /// Ascending, none touching another.
    apart: Vec<(Time, Time)>,
    /// Of the slowest, 1, and so on, by their numbers.
    ranks: HashMap<u64, u32>,
}

impl Spans {
    /// Whether one of them was under way at some time between `from` and `to`.
    pub fn touch(&self, from: Time, to: Time) -> bool {
        let next = self.apart.partition_point(|(_, end)| *end <= from);
        self.apart.get(next).is_some_and(|(start, _)| *start < to)
    }

    /// How many requests are slower than this one, and one; `None` where it is none of the slowest.
    pub fn rank(&self, request: u64) -> Option<u32> {
        self.ranks.get(&request).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftlab_core::host::request::{Op, Request};

    #[test]
    fn the_slowest_and_when_they_were_under_way() {
        let mut slowest = Slowest::new(3);
        let request = Request { arrival_ns: 0, lba: 0, sectors: 8, op: Op::Read, stream: 0, fua: false };
        let times = [(0, 5), (3, 9), (20, 26), (22, 24), (30, 35), (50, 50)];
        for (index, (start, end)) in (0..).zip(times) {
            let (arrival, start, end) = (Time(start), Time(start), Time(end));
            slowest.on_request(&RequestRecord { index, request, arrival, start, end });
        }
        let spans = slowest.spans();
        assert_eq!([0, 1, 2, 3, 4].map(|index| spans.rank(index)), [Some(3), Some(1), Some(2), None, None]);
        assert_eq!(spans.apart, [(Time(0), Time(9)), (Time(20), Time(26))]);
        let touched = [(0, 1), (9, 12), (10, 12), (12, 20), (27, 100), (0, 100)];
        let expected = [true, false, false, false, false, true];
        assert_eq!(touched.map(|(from, to)| spans.touch(Time(from), Time(to))), expected);
        assert!(!Slowest::new(3).spans().touch(Time(0), Time(9)));
    }
}
