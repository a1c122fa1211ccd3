//! The events of the port that keeps time event by event: which comes next.

use std::collections::VecDeque;
use std::hint::select_unpredictable;

use crate::time::Time;

/// Lines of events: timers of the host, ends of transfers, and from here on ends of the work of arrays.
pub(super) const HOST_LINE: usize = 0;
pub(super) const BUS_LINE: usize = 1;
pub(super) const ARRAY_LINES: usize = 2;

/// The events to come, each in the line of its kind.
///
/// What takes equally long ends in the order in which it began: nearly always, an event joins the end of its line. The next of
/// all is the first of one of few lines: there are those that were asked for. Any other order is right too, and only slower.
#[derive(Debug, Clone)]
pub(super) struct EventQueue {
    /// Sorted.
    lines: Vec<VecDeque<Event>>,
    /// The first of each line.
    firsts: Vec<Event>,
    /// The line with the next event; `UNKNOWN` after that has happened.
    next: usize,
    /// Events of a line for which there is room at first.
    room: usize,
}

/// When an event comes. Earlier ones win; of equal times, the one with the lower number; of equal numbers, the lane before
/// its channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    time: u64,
    /// The number, then the source.
    order: u64,
}

const UNKNOWN: usize = usize::MAX;
const SOURCE_BITS: u32 = 20;

impl Event {
    const NEVER: Self = Self { time: Time::NEVER.0, order: u64::MAX };

    #[inline(always)]
    fn rank(self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.order)
    }
}

impl EventQueue {
    /// No events, of `sources` sources that have at most one each.
    pub(super) fn new(sources: u32) -> Self {
        assert!(sources < 1 << SOURCE_BITS, "validated: fewer lanes and channels");
        let mut queue =
            Self { lines: Vec::new(), firsts: Vec::new(), next: 0, room: sources.min(256) as usize };
        queue.reach(BUS_LINE);
        queue
    }

    /// Let there be a line of this number.
    fn reach(&mut self, line: usize) {
        self.lines.resize_with(line + 1, || VecDeque::with_capacity(self.room));
        self.firsts.resize(line + 1, Event::NEVER);
    }

    /// The next event: when, its number and its source.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(Time, u64, u32)> {
        if self.next == UNKNOWN {
            let mut next = 0;
            let mut first = self.firsts[0].rank();
            for (line, event) in self.firsts.iter().enumerate().skip(1) {
                // No jumps: which line is next cannot be foreseen.
                let rank = event.rank();
                let is_before = rank < first;
                next = select_unpredictable(is_before, line, next);
                first = select_unpredictable(is_before, rank, first);
            }
            self.next = next;
        }
        let Event { time, order } = self.firsts[self.next];
        let source = order as u32 & ((1 << SOURCE_BITS) - 1);
        (time != Event::NEVER.time).then_some((Time(time), order >> SOURCE_BITS, source))
    }

    /// The event that is next happens now.
    #[inline]
    pub(super) fn consume(&mut self) {
        let line = std::mem::replace(&mut self.next, UNKNOWN);
        self.lines[line].pop_front();
        self.firsts[line] = self.lines[line].front().copied().unwrap_or(Event::NEVER);
    }

    /// There is an event at `at`, in `line`, of a source that has none.
    #[inline(always)]
    pub(super) fn schedule(&mut self, line: usize, source: u32, at: Time, number: u64) {
        let event = Event { time: at.0, order: number << SOURCE_BITS | u64::from(source) };
        if let Some(others) = self.lines.get_mut(line) {
            match others.back() {
                Some(last) if last.rank() < event.rank() => return others.push_back(event),
                Some(_) => {}
                None => {
                    others.push_back(event);
                    return self.note_first(line, event);
                }
            }
        }
        self.insert(line, event);
    }

    /// An event that does not join the end of a line that is known.
    #[cold]
    #[inline(never)]
    fn insert(&mut self, line: usize, event: Event) {
        if line >= self.lines.len() {
            self.reach(line);
        }
        let others = &mut self.lines[line];
        let at = others.partition_point(|other| other.rank() < event.rank());
        others.insert(at, event);
        if at == 0 {
            self.note_first(line, event);
        }
    }

    /// An event has become the first of its line.
    #[inline(always)]
    fn note_first(&mut self, line: usize, event: Event) {
        self.firsts[line] = event;
        if self.next != UNKNOWN && event.rank() < self.firsts[self.next].rank() {
            self.next = line;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_numbers() {
        for (sources, lines) in [(1, 1), (3, 2), (11, 1), (17, 5), (100, 12)] {
            let mut queue = EventQueue::new(sources);
            let mut list: Vec<(u64, u64, u32)> = Vec::new();
            let mut rng = crate::rng::Rng::new(sources.into(), "events");
            let (mut now, mut number) = (0, 0);
            for _ in 0..20_000 {
                let source = rng.below(sources.into()) as u32;
                if list.iter().all(|(_, _, other)| *other != source) {
                    // Numbers need not ascend, nor times in a line.
                    number += 1 + rng.below(3) * 7;
                    let at = now + rng.below(5);
                    let number = number ^ rng.below(8);
                    queue.schedule(rng.below(lines as u64) as usize, source, Time(at), number);
                    list.push((at, number, source));
                } else {
                    let expected = *list.iter().min().unwrap();
                    assert_eq!(queue.next(), Some((Time(expected.0), expected.1, expected.2)));
                    queue.consume();
                    now = expected.0;
                    list.retain(|event| *event != expected);
                }
            }
        }
    }
}
