//! The port that keeps time where nothing is shared: one lane on each channel.
//!
//! A lane runs its commands in order, and its bus is free whenever it wants it. So the end of a command is known when
//! it is submitted: the ticket is that time. Nothing is queued, and a request is one event however many pages it has.
//! The results are those of [`EventPort`](super::event_port::EventPort), down to the order of what ends at equal times.
//! But work is accounted for when it is submitted. A run that may end before the drive is idle has it remember what
//! has not ended yet, to take that back. And two commands of a lane must not end at one time, so each has to take some.

use std::collections::VecDeque;

use crate::cause::{Command, CommandCounts};
use crate::config::DeviceConfig;
use crate::flash::clock::{Clock, Ledger, Pages, Servers, Spans, Step, TIMERS};
use crate::flash::port::{FlashPort, Memory, Submission, Ticket};
use crate::geometry::Geometry;
use crate::metrics::CommandRecord;
use crate::time::Time;

/// When a command ends, and the number of the command with which its lane began to work without a pause: of equal times,
/// the lower number goes first.
///
/// One number, the time in its upper half: as a pair it would be written in halves, read as a whole, and waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct End(u128);

impl End {
    #[inline(always)]
    fn new(at: Time, number: u64) -> Self {
        Self(u128::from(at.0) << 64 | u128::from(number))
    }

    #[inline(always)]
    fn at(self) -> Time {
        Time((self.0 >> 64) as u64)
    }

    #[inline(always)]
    fn number(self) -> u64 {
        self.0 as u64
    }
}

impl Ticket for End {
    /// Both halves of the time, and a number of a command that is among the first 2^32.
    type Short = [u32; 3];

    #[inline]
    fn short(self) -> Option<[u32; 3]> {
        let number = u32::try_from(self.number()).ok()?;
        Some([self.at().0 as u32, (self.at().0 >> 32) as u32, number])
    }

    #[inline]
    fn long([low, high, number]: [u32; 3]) -> Self {
        Self::new(Time(u64::from(high) << 32 | u64::from(low)), number.into())
    }
}

/// Requests that will end: the earliest, and a binary heap of the others.
///
/// Ends and watchers stand in arrays of their own: an entry written word by word and then moved as a whole would wait
/// for every store ahead of it.
#[derive(Debug, Clone)]
struct Ends {
    /// [`Time::NEVER`] when there is none.
    first: Time,
    first_watcher: u32,
    first_number: u64,
    ends: Vec<Time>,
    watchers: Vec<u32>,
    /// What decides between equal ends, by watcher.
    numbers: Vec<u64>,
}

impl Ends {
    /// With room for `watchers`; more may come.
    fn new(watchers: usize) -> Self {
        Self {
            first: Time::NEVER,
            first_watcher: 0,
            first_number: 0,
            ends: Vec::with_capacity(watchers),
            watchers: Vec::with_capacity(watchers),
            numbers: vec![0; watchers],
        }
    }

    #[inline]
    fn is_before(&self, a: usize, b: usize) -> bool {
        let (first, second) = (self.ends[a], self.ends[b]);
        first < second || (first == second && self.number(a) < self.number(b))
    }

    fn number(&self, at: usize) -> u64 {
        self.numbers[self.watchers[at] as usize]
    }

    #[inline]
    fn swap(&mut self, a: usize, b: usize) {
        self.ends.swap(a, b);
        self.watchers.swap(a, b);
    }

    /// `end` comes before [`Time::NEVER`].
    #[inline]
    fn push(&mut self, mut end: Time, number: u64, mut watcher: u32) {
        if self.numbers.len() <= watcher as usize {
            self.make_room(watcher);
        }
        self.numbers[watcher as usize] = number;
        if self.first == Time::NEVER {
            (self.first, self.first_watcher, self.first_number) = (end, watcher, number);
            return;
        }
        if end < self.first || (end == self.first && number < self.first_number) {
            self.first_number = number;
            std::mem::swap(&mut end, &mut self.first);
            std::mem::swap(&mut watcher, &mut self.first_watcher);
        }
        self.push_behind(end, watcher);
    }

    #[cold]
    fn make_room(&mut self, watcher: u32) {
        self.numbers.resize(watcher as usize + 1, 0);
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
        self.first_number = self.numbers[self.first_watcher as usize];
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

/// Commands of a lane that may not have ended, one after the other.
#[derive(Debug, Clone, Copy)]
struct Recent {
    submission: Submission,
    count: u32,
    start: Time,
    /// As [`End`]'s.
    number: u64,
}

/// Keeps simulated time for drives with one lane on each channel.
#[derive(Debug, Clone)]
pub struct ReservationPort {
    now: Time,
    /// When the last command that each lane was given ends.
    ends_at: Vec<Time>,
    /// When the last of what goes on beside flash ends.
    beside_ends_at: Time,
    /// Number of the command since which each lane has worked without a pause.
    rows: Vec<u64>,
    /// When each timer rings, and its number.
    timers: [(Time, u64); TIMERS as usize],
    /// The timer that rings next.
    next_timer: usize,
    ends: Ends,
    /// Requests that end with one command.
    finished: Vec<u32>,
    /// How many commands were submitted and timers set.
    numbers: u64,
    /// Number of the event that happens.
    number: u64,
    spans: Spans,
    servers: Servers,
    pages: Pages<End>,
    ledger: Ledger,
    /// For each lane what may have to be taken back; nothing where runs go on until the drive is idle.
    recent: Vec<VecDeque<Recent>>,
}

impl ReservationPort {
    /// Whether the drive has one lane on each channel, and every command takes time.
    pub fn suits(config: &DeviceConfig, geometry: &Geometry) -> bool {
        let lanes = if config.timing.independent_planes { geometry.planes() } else { geometry.dies() };
        lanes == geometry.channels && Spans::new(config).are_above_zero(config.cell.kind.kind().classes())
    }

    /// An idle drive at time 0, which this port [`suits`](Self::suits). With `log`, commands are collected.
    pub fn new(config: &DeviceConfig, geometry: &Geometry, log: bool) -> Self {
        Self {
            now: Time::ZERO,
            ends_at: vec![Time::ZERO; geometry.channels as usize],
            beside_ends_at: Time::ZERO,
            rows: vec![0; geometry.channels as usize],
            timers: [(Time::NEVER, 0); TIMERS as usize],
            next_timer: 0,
            ends: Ends::new(config.host.depth().unwrap_or(64).min(1 << 16) as usize),
            finished: Vec::new(),
            numbers: 0,
            number: 0,
            spans: Spans::new(config),
            servers: Servers::new(config),
            pages: Pages::new(config, geometry.channels as usize),
            ledger: Ledger::new(geometry.channels as usize, geometry.channels as usize, log),
            recent: Vec::new(),
        }
    }

    /// For a run that may be [cut](Clock::cut), without a log and without evictions.
    #[must_use]
    pub fn for_cuts(mut self) -> Self {
        self.recent = vec![VecDeque::new(); self.ends_at.len()];
        self
    }

    /// A command was submitted, or `count` in a row.
    #[inline(never)]
    fn remember(&mut self, submission: Submission, count: u32, start: Time, number: u64) {
        let recent = &mut self.recent[submission.lane() as usize];
        // What follows an end that has passed: that is all of the front.
        while recent.len() > 1 && recent[1].start < self.now {
            recent.pop_front();
        }
        recent.push_back(Recent { submission, count, start, number });
    }

    /// Take back the last of `recent` that have not ended now; returns how many.
    fn take_back(&mut self, recent: Recent) -> u32 {
        let Recent { submission, count, start, number } = recent;
        let (bus_in, array, bus_out) = self.spans.parts(submission);
        let (one, bus) = (bus_in + array + bus_out, bus_in + bus_out);
        // Of equal times, ends of lower numbers come first. Where no bus is needed, none of them is an event of its own.
        let is_event = self.spans.command > Time::ZERO
            || !matches!(submission.command(), Command::Copyback | Command::Erase);
        let is_over = |at: Time| at < self.now || (at == self.now && (!is_event || number <= self.number));
        let after = |commands: u64| start + Time(one.0 * commands);
        let mut ended = (self.now.since(start).0 / one.0).min(count.into());
        if ended > 0 && !is_over(after(ended)) {
            ended -= 1;
        }
        let left = u64::from(count) - ended;
        if left == 0 {
            return 0;
        }
        let lane = submission.lane() as usize;
        self.ledger.busy_ps[lane][submission.cause_index()] -= one.0 * left;
        let has_come_in = bus_in > Time::ZERO && is_over(after(ended) + bus_in);
        self.ledger.channel_busy_ps[lane] -= bus.0 * left - if has_come_in { bus_in.0 } else { 0 };
        left as u32
    }

    /// Something beside flash ends then.
    #[inline]
    fn beside(&mut self, end: Time) -> End {
        self.numbers += 1;
        self.beside_ends_at = self.beside_ends_at.max(end);
        End::new(end, self.numbers)
    }

    /// The earliest of several ends is now, and concerns `watcher`; perhaps more requests end with the same command.
    #[inline(never)]
    fn end_first(&mut self, watcher: u32) -> Step {
        self.ends.move_up();
        if self.ends.first == self.now && self.ends.first_number == self.number {
            return self.end_several(watcher);
        }
        Step::Ended(watcher)
    }

    /// More requests end with the command that `watcher` has waited for.
    #[cold]
    #[inline(never)]
    fn end_several(&mut self, watcher: u32) -> Step {
        self.finished.push(watcher);
        while self.ends.first == self.now && self.ends.first_number == self.number {
            let watcher = self.ends.pop();
            self.finished.push(watcher);
        }
        Step::Several
    }

    /// Run a command, not before `after`.
    #[inline(always)]
    fn submit_now(&mut self, submission: Submission, after: End) -> End {
        let lane = submission.lane() as usize;
        let free = self.ends_at[lane];
        let start = free.max(after.at()).max(self.now);
        let (bus_in, array, bus_out) = self.spans.parts(submission);
        let worked = start + bus_in + array;
        let end = worked + bus_out;
        self.numbers += 1;
        // A lane that has never worked has been free since 0.
        if start > free || free == Time::ZERO {
            self.rows[lane] = self.numbers;
        }
        self.ends_at[lane] = end;
        self.ledger.busy_ps[lane][submission.cause_index()] += (end - start).0;
        self.ledger.channel_busy_ps[lane] += (bus_in + bus_out).0;
        if self.ledger.events.is_open {
            self.ledger.events.note(submission, submission.lane(), end - start);
        }
        if !self.recent.is_empty() {
            self.remember(submission, 1, start, self.rows[lane]);
        }
        if self.ledger.log.is_some() {
            let transfer = if bus_out > Time::ZERO { (worked, end) } else { (start, start + bus_in) };
            self.note(submission, start, end, transfer);
        }
        End::new(end, self.rows[lane])
    }

    /// As `submit`, while a page that the buffer moves is awaited.
    #[cold]
    #[inline(never)]
    fn submit_page(&mut self, submission: Submission, after: End) -> End {
        let (bus_in, array, bus_out) = self.spans.parts(submission);
        let Some((request, exposed, before)) = self.pages.take(submission, bus_in + array + bus_out) else {
            return self.submit_now(submission, after);
        };
        let begins = before.map_or(after, |before| before.max(after));
        let begins = self.delay(begins, exposed);
        let done = self.submit_now(submission, begins);
        self.pages.note(submission.lane(), request, done);
        done
    }

    #[cold]
    fn note(&mut self, submission: Submission, start: Time, end: Time, transfer: (Time, Time)) {
        let Some(log) = &mut self.ledger.log else { return };
        log.push(CommandRecord {
            command: submission.command(),
            cause: submission.cause(),
            die: submission.lane(),
            channel: submission.lane(),
            page: u64::from(submission.page().0),
            start,
            end,
            transfer,
            request: None,
        });
    }
}

impl FlashPort for ReservationPort {
    type Ticket = End;

    #[inline]
    fn ready(&self) -> End {
        End::default()
    }

    #[inline]
    fn join(&mut self, first: End, second: End) -> End {
        first.max(second)
    }

    #[inline(always)]
    fn submit(&mut self, submission: Submission, after: End) -> End {
        if self.pages.is_awaited() {
            return self.submit_page(submission, after);
        }
        self.submit_now(submission, after)
    }

    fn submit_run(&mut self, submission: Submission, count: u32, after: End) -> End {
        if count <= 1 || self.ledger.log.is_some() {
            return (0..count).map(|at| self.submit(submission.ahead(at), after)).max().unwrap_or(after);
        }
        let first = self.submit(submission, after);
        let lane = submission.lane() as usize;
        let (bus_in, array, bus_out) = self.spans.parts(submission);
        let rest = Time((bus_in + array + bus_out).0 * u64::from(count - 1));
        let end = first.at() + rest;
        if !self.recent.is_empty() {
            self.remember(submission, count - 1, first.at(), first.number());
        }
        self.ends_at[lane] = end;
        self.ledger.busy_ps[lane][submission.cause_index()] += rest.0;
        self.ledger.channel_busy_ps[lane] += (bus_in + bus_out).0 * u64::from(count - 1);
        if self.ledger.events.is_open {
            self.ledger.events.note(submission, submission.lane(), rest);
        }
        End::new(end, first.number())
    }

    #[inline]
    fn has_passed(&self, ticket: End) -> bool {
        ticket.at() < self.now || ticket == self.ready()
    }

    fn delay(&mut self, after: End, span: Time) -> End {
        if span == Time::ZERO {
            return after;
        }
        self.beside(after.at().max(self.now) + span)
    }

    fn memory(&mut self, memory: Memory, bytes: u32) -> End {
        let Some(at) = self.servers.serve(memory, bytes, self.now) else { return self.ready() };
        self.ledger.moved(memory, at);
        self.beside(at.1)
    }

    fn occupy(&mut self, memory: Memory, span: Time) -> End {
        let Some(at) = self.servers.occupy(memory, span, self.now) else { return self.ready() };
        self.ledger.moved(memory, at);
        self.beside(at.1)
    }

    fn begin_page(&mut self, command: Command, span: Time, request: u32) {
        self.pages.begin(command, span, request);
    }

    fn end_page(&mut self) {
        self.pages.end();
    }

    fn begin_event(&mut self) {
        self.ledger.events.is_open = true;
    }

    fn end_event(&mut self, done: End) {
        if let Some(used) = self.ledger.events.close() {
            self.ledger.events.count(used, self.now, done.at());
            self.ledger.evicted(used, self.now, done.at().max(self.now));
        }
    }

    fn count_wait(&mut self, until: End) {
        self.ledger.events.waited_ps += u128::from(until.at().since(self.now).0);
    }
}

impl Clock for ReservationPort {
    /// The latest end.
    type Watch = End;

    #[inline]
    fn now(&self) -> Time {
        self.now
    }

    #[inline]
    fn draw_number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    #[inline]
    fn set_timer_as(&mut self, timer: u32, at: Time, number: u64) {
        debug_assert!(self.timers[timer as usize].0 == Time::NEVER, "a timer is set once");
        let ring = (at, number);
        self.timers[timer as usize] = ring;
        if ring < self.timers[self.next_timer] {
            self.next_timer = timer as usize;
        }
    }

    #[inline]
    fn watch(&mut self, watch: &mut End, ticket: End, _: u32) {
        *watch = ticket.max(*watch);
    }

    #[inline]
    fn arm(&mut self, watch: End, watcher: u32) -> u32 {
        // Most end later: one comparison then.
        if watch.at() <= self.now && (watch.at() < self.now || watch.number() <= self.number) {
            return 0;
        }
        if watch.at() == Time::NEVER {
            return 1;
        }
        self.ends.push(watch.at(), watch.number(), watcher);
        1
    }

    fn finished(&mut self, list: &mut Vec<u32>) {
        std::mem::swap(list, &mut self.finished);
    }

    #[inline(always)]
    fn step_before(&mut self, until: Time) -> Option<Step> {
        let (rings, number) = self.timers[self.next_timer];
        let end = self.ends.first;
        if end.min(rings) >= until {
            return None;
        }
        if end < rings || (end == rings && self.ends.first_number < number) {
            (self.now, self.number) = (end, self.ends.first_number);
            let watcher = self.ends.first_watcher;
            if !self.ends.ends.is_empty() {
                return Some(self.end_first(watcher));
            }
            self.ends.first = Time::NEVER;
            return Some(Step::Ended(watcher));
        }
        let timer = self.next_timer;
        self.timers[timer] = (Time::NEVER, 0);
        let (mut next, mut ring) = (0, self.timers[0]);
        for (at, other) in self.timers.iter().enumerate().skip(1) {
            if *other < ring {
                (next, ring) = (at, *other);
            }
        }
        self.next_timer = next;
        (self.now, self.number) = (rings, number);
        Some(Step::Timer(timer as u32))
    }

    fn move_to(&mut self, at: Time) {
        // Nothing of this time has happened yet.
        (self.now, self.number) = (at, 0);
    }

    fn never_ends(&self) -> bool {
        self.idle_from() == Time::NEVER
    }

    fn idle_from(&self) -> Time {
        self.ends_at.iter().copied().fold(self.now.max(self.beside_ends_at), Time::max)
    }

    fn cut(&mut self) -> CommandCounts {
        let mut counts = CommandCounts::default();
        if self.recent.is_empty() {
            // Nothing is taken back, and so time goes on until all of it has ended.
            return counts;
        }
        for recent in std::mem::take(&mut self.recent).into_iter().flatten() {
            let left = self.take_back(recent);
            counts[recent.submission.command() as usize][recent.submission.cause_index()] += u64::from(left);
        }
        for end in self.ends_at.iter_mut().chain([&mut self.beside_ends_at]) {
            *end = self.now.min(*end);
        }
        counts
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    fn table_bytes(&self) -> u64 {
        self.ends_at.len() as u64 * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_short_while_numbers_are() {
        for time in [0, 1, u64::MAX] {
            for number in [0, 7, u32::MAX.into()] {
                let end = End::new(Time(time), number);
                assert_eq!(end.short().map(End::long), Some(end));
            }
            assert_eq!(End::new(Time(time), 1 << 32).short(), None);
        }
    }
}
