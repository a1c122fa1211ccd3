//! The port that keeps time where nothing is shared: one unit on each channel.
//!
//! A unit runs its commands in order and its bus is free whenever it wants it, so the end of a command is known when it
//! is submitted: the ticket is that time. Nothing is queued, and a request is one event however many pages it has. The
//! results are those of [`Timeline`](super::timeline::Timeline), which has to go event by event; but work is accounted
//! for when it is submitted, so a run has to go on until the drive is idle.

use crate::config::DeviceConfig;
use crate::flash::clock::{Clock, Ledger, Spans, Step, TIMERS};
use crate::flash::port::{FlashPort, Submission};
use crate::geometry::Geometry;
use crate::metrics::CommandRecord;
use crate::time::Time;

/// What decides between equal ends: the command that started first; of equal starts, that of the unit whose command before
/// did; then that of the unit that has been busy longest. So they come if each is scheduled when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tie {
    start: Time,
    /// When the command before on the unit started, if this one followed at once; else `start`.
    before: Time,
    /// Number of the submission that found the unit idle and began the row of commands that this one is part of.
    row: u64,
}

impl Tie {
    const NONE: Tie = Tie { start: Time::NEVER, before: Time::NEVER, row: u64::MAX };
}

/// The last command of each unit. Each of its numbers has an array of its own: written apart and then read together, they
/// would wait for every store ahead of them.
#[derive(Debug)]
struct Last {
    end: Vec<Time>,
    start: Vec<Time>,
    before: Vec<Time>,
    row: Vec<u64>,
}

impl Last {
    fn new(units: usize) -> Self {
        let times = || vec![Time::ZERO; units];
        Self { end: times(), start: times(), before: times(), row: vec![0; units] }
    }

    #[inline]
    fn tie(&self, unit: usize) -> Tie {
        Tie { start: self.start[unit], before: self.before[unit], row: self.row[unit] }
    }
}

/// Requests that will end: the earliest, and a binary heap of the others.
///
/// Ends and watchers stand in arrays of their own: an entry written word by word and then moved as a whole would wait
/// for every store ahead of it.
#[derive(Debug)]
struct Ends {
    /// [`Time::NEVER`] when there is none.
    first: Time,
    first_watcher: u32,
    ends: Vec<Time>,
    watchers: Vec<u32>,
    /// By watcher.
    ties: Vec<Tie>,
}

impl Ends {
    /// With room for `watchers`; more may come.
    fn new(watchers: usize) -> Self {
        Self {
            first: Time::NEVER,
            first_watcher: 0,
            ends: Vec::with_capacity(watchers),
            watchers: Vec::with_capacity(watchers),
            ties: vec![Tie::NONE; watchers],
        }
    }

    fn first_tie(&self) -> &Tie {
        &self.ties[self.first_watcher as usize]
    }

    #[inline]
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (first, second) = (self.ends[a], self.ends[b]);
        first < second || (first == second && self.tie(a) < self.tie(b))
    }

    fn tie(&self, at: usize) -> Tie {
        self.ties[self.watchers[at] as usize]
    }

    #[inline]
    fn swap(&mut self, a: usize, b: usize) {
        self.ends.swap(a, b);
        self.watchers.swap(a, b);
    }

    /// `end` comes before [`Time::NEVER`].
    #[inline]
    fn push(&mut self, mut end: Time, tie: Tie, mut watcher: u32) {
        if self.ties.len() <= watcher as usize {
            self.make_room(watcher);
        }
        self.ties[watcher as usize] = tie;
        if self.first == Time::NEVER {
            (self.first, self.first_watcher) = (end, watcher);
            return;
        }
        if end < self.first || (end == self.first && tie < *self.first_tie()) {
            std::mem::swap(&mut end, &mut self.first);
            std::mem::swap(&mut watcher, &mut self.first_watcher);
        }
        self.push_behind(end, watcher);
    }

    #[cold]
    fn make_room(&mut self, watcher: u32) {
        self.ties.resize(watcher as usize + 1, Tie::NONE);
    }

    fn push_behind(&mut self, end: Time, watcher: u32) {
        let mut at = self.ends.len();
        self.ends.push(end);
        self.watchers.push(watcher);
        while at > 0 && self.is_before(at, (at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    /// The watcher that the earliest end concerns. There is one.
    #[inline]
    fn pop(&mut self) -> u32 {
        let watcher = self.first_watcher;
        if self.ends.is_empty() {
            self.first = Time::NEVER;
        } else {
            self.move_up();
        }
        watcher
    }

    /// The first of the heap is the earliest of all now.
    fn move_up(&mut self) {
        let last = self.ends.len() - 1;
        self.swap(0, last);
        self.first = self.ends.pop().unwrap_or(Time::NEVER);
        self.first_watcher = self.watchers.pop().unwrap_or(0);
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut first = at;
            if left < last && self.is_before(left, first) {
                first = left;
            }
            if right < last && self.is_before(right, first) {
                first = right;
            }
            if first == at {
                return;
            }
            self.swap(at, first);
            at = first;
        }
    }
}

/// Keeps simulated time for drives with one unit on each channel.
#[derive(Debug)]
pub struct Direct {
    now: Time,
    /// The last command that each unit was given.
    last: Last,
    /// When each timer rings, and since when that is settled.
    timers: [(Time, Time); TIMERS as usize],
    /// The timer that rings next.
    next_timer: usize,
    ends: Ends,
    /// The unit that was given a command last.
    latest: usize,
    submitted: u64,
    spans: Spans,
    ledger: Ledger,
}

impl Direct {
    /// Whether the drive has one unit on each channel.
    pub fn suits(config: &DeviceConfig, geometry: &Geometry) -> bool {
        let units = if config.timing.independent_planes { geometry.planes() } else { geometry.dies() };
        units == geometry.channels
    }

    /// An idle drive at time 0, which this port [`suits`](Self::suits). With `log`, commands are collected.
    pub fn new(config: &DeviceConfig, geometry: &Geometry, log: bool) -> Self {
        Self {
            now: Time::ZERO,
            last: Last::new(geometry.channels as usize),
            timers: [(Time::NEVER, Time::NEVER); TIMERS as usize],
            next_timer: 0,
            ends: Ends::new(config.host.depth().unwrap_or(64).min(1 << 16) as usize),
            latest: 0,
            submitted: 0,
            spans: Spans::new(config),
            ledger: Ledger::new(geometry.channels as usize, geometry.channels as usize, log),
        }
    }

    #[cold]
    fn note(&mut self, submission: Submission, start: Time, end: Time, transfer: (Time, Time)) {
        let Some(log) = &mut self.ledger.log else { return };
        log.push(CommandRecord {
            command: submission.command(),
            cause: submission.cause(),
            die: submission.unit(),
            channel: submission.unit(),
            page: u64::from(submission.page().0),
            start,
            end,
            transfer,
        });
    }
}

impl FlashPort for Direct {
    /// When the command ends.
    type Ticket = Time;

    #[inline]
    fn ready(&self) -> Time {
        Time::ZERO
    }

    #[inline]
    fn join(&mut self, first: Time, second: Time) -> Time {
        first.max(second)
    }

    #[inline]
    fn submit(&mut self, submission: Submission, after: Time) -> Time {
        let unit = submission.unit() as usize;
        let free = self.last.end[unit];
        let start = free.max(after).max(self.now);
        let (bus_in, array, bus_out) = self.spans.parts(submission);
        let worked = start + bus_in + array;
        let end = worked + bus_out;
        self.submitted += 1;
        // A unit that has never worked has been free since 0.
        if start == free && free > Time::ZERO {
            self.last.before[unit] = self.last.start[unit];
        } else {
            self.last.before[unit] = start;
            self.last.row[unit] = self.submitted;
        }
        self.last.start[unit] = start;
        self.last.end[unit] = end;
        self.latest = unit;
        self.ledger.busy_ps[unit][submission.cause_index()] += (end - start).0;
        self.ledger.channel_busy_ps[unit] += (bus_in + bus_out).0;
        if self.ledger.log.is_some() {
            let transfer = if bus_out > Time::ZERO { (worked, end) } else { (start, start + bus_in) };
            self.note(submission, start, end, transfer);
        }
        end
    }

    fn submit_run(&mut self, submission: Submission, count: u32, after: Time) -> Time {
        if count <= 1 || self.ledger.log.is_some() {
            return (0..count).map(|at| self.submit(submission.ahead(at), after)).max().unwrap_or(after);
        }
        let end = self.submit(submission, after);
        let unit = submission.unit() as usize;
        let one = end - self.last.start[unit];
        let rest = Time(one.0 * u64::from(count - 1));
        let end = end + rest;
        self.last.end[unit] = end;
        self.last.start[unit] = Time(end.0 - one.0);
        self.last.before[unit] = Time(end.0 - 2 * one.0);
        let bus = self.spans.bus_in(submission) + self.spans.bus_out(submission);
        self.ledger.busy_ps[unit][submission.cause_index()] += rest.0;
        self.ledger.channel_busy_ps[unit] += bus.0 * u64::from(count - 1);
        end
    }
}

/// The latest end of a watcher's tickets, and the unit where that is.
#[derive(Debug, Clone, Copy, Default)]
pub struct LatestEnd {
    end: Time,
    unit: usize,
}

impl Clock for Direct {
    type Watch = LatestEnd;

    #[inline]
    fn now(&self) -> Time {
        self.now
    }

    #[inline]
    fn set_timer(&mut self, timer: u32, at: Time) {
        debug_assert!(self.timers[timer as usize].0 == Time::NEVER, "a timer is set once");
        let ring = (at, self.now);
        self.timers[timer as usize] = ring;
        let next = (self.timers[self.next_timer], self.next_timer);
        if (ring, timer as usize) < next {
            self.next_timer = timer as usize;
        }
    }

    /// The command that ends an access is the last one submitted for it.
    #[inline]
    fn watch(&mut self, watch: &mut LatestEnd, ticket: Time, _: u32) {
        if ticket > watch.end
            || (ticket == watch.end && self.last.tie(self.latest) > self.last.tie(watch.unit))
        {
            watch.end = ticket;
            watch.unit = self.latest;
        }
    }

    #[inline]
    fn arm(&mut self, watch: LatestEnd, watcher: u32) -> u32 {
        if watch.end <= self.now {
            return 0;
        }
        if watch.end == Time::NEVER {
            return 1;
        }
        self.ends.push(watch.end, self.last.tie(watch.unit), watcher);
        1
    }

    #[inline]
    fn step(&mut self) -> Option<Step> {
        let (rings, settled) = self.timers[self.next_timer];
        let end = self.ends.first;
        if end < rings || (end == rings && end < Time::NEVER && self.ends.first_tie().start <= settled) {
            self.now = end;
            return Some(Step::Ended(self.ends.pop()));
        }
        if rings == Time::NEVER {
            return None;
        }
        let timer = self.next_timer;
        self.timers[timer] = (Time::NEVER, Time::NEVER);
        self.next_timer = 0;
        for timer in 1..self.timers.len() {
            if self.timers[timer] < self.timers[self.next_timer] {
                self.next_timer = timer;
            }
        }
        self.now = rings;
        Some(Step::Timer(timer as u32))
    }

    fn idle_from(&self) -> Time {
        self.last.end.iter().copied().fold(self.now, Time::max)
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn table_bytes(&self) -> u64 {
        self.last.end.len() as u64 * 32
    }
}
