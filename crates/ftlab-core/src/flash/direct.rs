//! The port that keeps time where nothing is shared: one unit on each channel.
//!
//! A unit runs its commands in order and its bus is free whenever it wants it, so the end of a command is known when it
//! is submitted: the ticket is that time. Nothing is queued, and a request is one event however many pages it has. The
//! results are those of [`Timeline`](super::timeline::Timeline), which has to go event by event.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::config::DeviceConfig;
use crate::flash::CAUSES;
use crate::flash::clock::{Clock, Spans, Step, TIMERS};
use crate::flash::port::{FlashPort, Submission};
use crate::geometry::Geometry;
use crate::metrics::CommandRecord;
use crate::time::Time;

/// Stands for the end of a command. Of equal ends, that of the command that started first comes first; of equal starts
/// too, that of the unit whose command before did, then of the unit that has been busy longest. So they come if each is
/// scheduled when it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Ticket {
    end: Time,
    start: Time,
    /// When the command before on the unit started, if this one followed at once; else `start`.
    before: Time,
    /// Number of the submission that found the unit idle and began the row of commands that this one is part of.
    row: u64,
}

/// When an event comes, since when that is settled, its number in the order of scheduling, and what it is: a timer, or
/// `TIMERS` + watcher. An event that was settled earlier comes first, as if it had been scheduled then.
type Event = Reverse<(Ticket, u64, u32)>;

/// Keeps simulated time for drives with one unit on each channel.
#[derive(Debug)]
pub struct Direct {
    now: Time,
    /// The last command that each unit was given.
    last: Vec<Ticket>,
    events: BinaryHeap<Event>,
    scheduled: u64,
    submitted: u64,
    finished: Vec<u32>,
    spans: Spans,
    busy_ps: [u64; CAUSES],
    channel_busy_ps: u64,
    log: Option<Vec<CommandRecord>>,
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
            last: vec![Ticket::default(); geometry.channels as usize],
            events: BinaryHeap::new(),
            scheduled: 0,
            submitted: 0,
            finished: Vec::new(),
            spans: Spans::new(config),
            busy_ps: [0; CAUSES],
            channel_busy_ps: 0,
            log: log.then(Vec::new),
        }
    }

    #[inline]
    fn schedule(&mut self, what: u32, at: Ticket) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, what)));
    }

    #[cold]
    fn note(&mut self, submission: Submission, start: Time, end: Time, transfer: (Time, Time)) {
        let Some(log) = &mut self.log else { return };
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
    type Ticket = Ticket;

    #[inline]
    fn ready(&self) -> Ticket {
        Ticket::default()
    }

    #[inline]
    fn join(&mut self, first: Ticket, second: Ticket) -> Ticket {
        first.max(second)
    }

    #[inline]
    fn submit(&mut self, submission: Submission, after: Ticket) -> Ticket {
        let unit = submission.unit() as usize;
        let last = self.last[unit];
        let start = last.end.max(after.end).max(self.now);
        let bus_in = self.spans.bus_in(submission);
        let worked = start + bus_in + self.spans.array(submission);
        let bus_out = self.spans.bus_out(submission);
        let end = worked + bus_out;
        self.submitted += 1;
        let (before, row) = if start == last.end { (last.start, last.row) } else { (start, self.submitted) };
        let ticket = Ticket { end, start, before, row };
        self.last[unit] = ticket;
        self.busy_ps[submission.cause() as usize] += (end - start).0;
        self.channel_busy_ps += (bus_in + bus_out).0;
        if self.log.is_some() {
            let transfer = if bus_out > Time::ZERO { (worked, end) } else { (start, start + bus_in) };
            self.note(submission, start, end, transfer);
        }
        ticket
    }

    fn submit_run(&mut self, submission: Submission, count: u32, after: Ticket) -> Ticket {
        if count == 0 {
            return after;
        }
        if self.log.is_some() {
            return (0..count).map(|at| self.submit(submission.ahead(at), after)).max().unwrap_or(after);
        }
        let first = self.submit(submission, after);
        let one = first.end - first.start;
        let rest = Time(one.0 * u64::from(count - 1));
        let bus = self.spans.bus_in(submission) + self.spans.bus_out(submission);
        self.busy_ps[submission.cause() as usize] += rest.0;
        self.channel_busy_ps += bus.0 * u64::from(count - 1);
        if count == 1 {
            return first;
        }
        let end = first.end + rest;
        let start = Time(end.0 - one.0);
        let ticket = Ticket { end, start, before: Time(start.0 - one.0), row: first.row };
        self.last[submission.unit() as usize] = ticket;
        ticket
    }
}

impl Clock for Direct {
    /// The latest end so far.
    type Watch = Ticket;

    #[inline]
    fn now(&self) -> Time {
        self.now
    }

    #[inline]
    fn set_timer(&mut self, timer: u32, at: Time) {
        self.schedule(timer, Ticket { end: at, start: self.now, before: self.now, row: 0 });
    }

    #[inline]
    fn watch(&mut self, watch: &mut Ticket, ticket: Ticket, _: u32) {
        *watch = (*watch).max(ticket);
    }

    #[inline]
    fn arm(&mut self, watch: Ticket, watcher: u32) -> u32 {
        if watch.end <= self.now {
            return 0;
        }
        self.schedule(TIMERS + watcher, watch);
        1
    }

    #[inline]
    fn finished(&mut self) -> &mut Vec<u32> {
        &mut self.finished
    }

    #[inline]
    fn settle(&mut self) {}

    #[inline]
    fn step(&mut self) -> Option<Step> {
        let Reverse((Ticket { end: time, .. }, _, what)) = self.events.pop()?;
        debug_assert!(time >= self.now, "time never goes back");
        self.now = time;
        if what < TIMERS {
            return Some(Step::Timer(what));
        }
        self.finished.push(what - TIMERS);
        Some(Step::Flash)
    }

    fn busy_ps(&self) -> [u64; CAUSES] {
        self.busy_ps
    }

    fn channel_busy_ps(&self) -> u64 {
        self.channel_busy_ps
    }

    fn take_log(&mut self, out: &mut Vec<CommandRecord>) {
        if let Some(log) = &mut self.log {
            out.append(log);
        }
    }

    fn table_bytes(&self) -> u64 {
        (self.last.len() * size_of::<Ticket>()) as u64
    }
}
