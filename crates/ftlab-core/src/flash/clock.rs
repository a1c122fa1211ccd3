//! Ports that keep time, as the host drives them: its own timers ring among the events of flash.

use std::collections::VecDeque;

use crate::cause::{CAUSES, Cause, Command, CommandCounts};
use crate::config::{ClassTimes, DeviceConfig};
use crate::flash::cell::PageClass;
use crate::flash::port::{FlashPort, Memory, Submission};
use crate::geometry::SECTOR_BYTES;
use crate::metrics::explain::told::Teller;
use crate::metrics::{CommandRecord, MemoryEvent, MemoryRecord};
use crate::time::{Rate, Time, Transfers, nearest};

/// Timers of the host.
pub const TIMERS: u32 = 4;

/// What [`Clock::step_before`] met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A timer of the host.
    Timer(u32),
    /// A ticket of this watcher ended.
    Ended(u32),
    /// Tickets of several watchers ended with one command; see [`Clock::finished`].
    Several,
}

/// A port that keeps time.
///
/// Order of calls: the host submits through the translation layer, watches the tickets, then calls `step_before`. At
/// equal times, the lane goes first that has been busy longest. That counts from the number of the command with which
/// the lane began to work without a pause. Commands are numbered as they are submitted, and timers of the host among
/// them as they are set. All methods but `set_timer`, `cut` and `teller` are required.
pub trait Clock: FlashPort {
    /// Gathers the tickets of one watcher.
    type Watch: Copy + Default;

    /// The present.
    fn now(&self) -> Time;

    /// A number of the order in which commands are submitted and timers set.
    fn draw_number(&mut self) -> u64;

    /// Ring timer `timer` (below [`TIMERS`]) at `at`, which must not have passed, as if it had been set when `number` was
    /// drawn. A timer rings once.
    fn set_timer_as(&mut self, timer: u32, at: Time, number: u64);

    /// Ring timer `timer` at `at`; it is set now.
    #[inline(always)]
    fn set_timer(&mut self, timer: u32, at: Time) {
        let number = self.draw_number();
        self.set_timer_as(timer, at, number);
    }

    /// Let `watcher` wait for `ticket` too.
    fn watch(&mut self, watch: &mut Self::Watch, ticket: Self::Ticket, watcher: u32);

    /// All tickets of `watcher` are in `watch`: how many times [`step_before`](Self::step_before) will report it. 0 when all have ended
    /// already.
    fn arm(&mut self, watch: Self::Watch, watcher: u32) -> u32;

    /// Where the port tells what requests wait for, and the host tells of requests; `None` of ports that do not.
    fn teller(&mut self) -> Option<&mut Teller> {
        None
    }

    /// After [`Step::Several`]: exchange the list of those watchers, in any order, for an empty one.
    fn finished(&mut self, list: &mut Vec<u32>);

    /// Start what has become able to start, go to the next event before `until` that concerns the host, and let it happen.
    /// `None` when there is none: all that comes before `until` has happened.
    fn step_before(&mut self, until: Time) -> Option<Step>;

    /// Go on to `at`, before which nothing happens any more: [`step_before`](Self::step_before) has said so.
    fn move_to(&mut self, at: Time);

    /// When all that was submitted has ended.
    fn idle_from(&self) -> Time;

    /// Nothing happens any more: whether something was submitted that would end later than any time.
    fn never_ends(&self) -> bool;

    /// The run ends now, and nothing is submitted any more: take back what was accounted for ahead of time. Returns the
    /// commands that have not ended. By default there are none: a port that knows every end from the start is for runs
    /// that go on until the drive is idle.
    fn cut(&mut self) -> CommandCounts {
        CommandCounts::default()
    }

    /// What the commands so far have cost.
    fn ledger(&mut self) -> &mut Ledger;

    /// Bytes of the tables.
    fn table_bytes(&self) -> u64;
}

/// What commands have cost.
#[derive(Debug, Clone)]
pub struct Ledger {
    /// Time of each lane by cause, in picoseconds.
    pub busy_ps: Vec<[u64; CAUSES]>,
    /// Time of each channel, in picoseconds.
    pub channel_busy_ps: Vec<u64>,
    /// Commands that have run since the log was last emptied, if one is kept.
    pub log: Option<Vec<CommandRecord>>,
    /// The same of memory beside flash.
    pub memory_log: Option<Vec<MemoryRecord>>,
    /// What evictions of a buffer have cost.
    pub events: EventLedger,
    /// When what was noted has ended; never, for what has not.
    pub ends: Vec<Time>,
}

impl Ledger {
    pub(super) fn new(lanes: usize, channels: usize, log: bool) -> Self {
        Self {
            busy_ps: vec![[0; CAUSES]; lanes],
            channel_busy_ps: vec![0; channels],
            log: log.then(Vec::new),
            memory_log: log.then(Vec::new),
            events: EventLedger::new(lanes, channels),
            ends: Vec::new(),
        }
    }

    /// Data crossed a memory.
    #[inline]
    pub(super) fn moved(&mut self, memory: Memory, (start, end): (Time, Time)) {
        if let Some(log) = &mut self.memory_log {
            log.push(MemoryRecord { what: MemoryEvent::Move(memory), start, end });
        }
    }

    /// An eviction took flash from `start` to `end`.
    pub(super) fn evicted(&mut self, used: Used, start: Time, end: Time) {
        if let Some(log) = &mut self.memory_log {
            let Used { lanes, channels, .. } = used;
            log.push(MemoryRecord { what: MemoryEvent::Eviction { dies: lanes, channels }, start, end });
        }
    }
}

/// What worked for an eviction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Used {
    lanes: u32,
    channels: u32,
    /// The work of the lane that worked longest, in picoseconds: all of it, and that of collections and merges.
    longest: (u64, u64),
}

/// An eviction under way, or one that has ended while another that began before it has not.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    used: Used,
    since: Time,
    has_ended: bool,
}

/// What evictions have cost: from the decision until all of it has ended.
///
/// The time of each is divided between writes and collection as on the lane that worked longest for it (channel-aware buffer
/// study, section 7). Of evictions that overlap, time counts for the one that was decided first.
#[derive(Debug, Clone, Default)]
pub struct EventLedger {
    /// An eviction is being submitted.
    pub(super) is_open: bool,
    /// For each lane, what the eviction under way asks of it in picoseconds, and how much of that is collection.
    work: Vec<(u64, u64)>,
    /// Lanes that it uses, and how many channels.
    lanes: Vec<u32>,
    channels: u32,
    /// For each channel, the number of the last eviction that used it.
    last_of_channel: Vec<u64>,
    /// Evictions that took flash time.
    pub events: u64,
    /// Sum over them of the lanes used.
    pub lanes_used: u64,
    /// Sum over them of the channels used.
    pub channels_used: u64,
    /// How long one or more of them were under way, in picoseconds.
    pub elapsed_ps: u64,
    /// Of that, collections and merges.
    pub gc_ps: u64,
    /// When the last that was counted has ended.
    until: Time,
    /// Those under way, in the order in which they began, and how many began before the first of them.
    under_way: VecDeque<UnderWay>,
    ended: u64,
    /// Sum over writes of how long they waited for frames, in picoseconds.
    pub waited_ps: u128,
}

impl EventLedger {
    fn new(lanes: usize, channels: usize) -> Self {
        Self {
            work: vec![(0, 0); lanes],
            lanes: Vec::with_capacity(lanes),
            last_of_channel: vec![0; channels],
            ..Self::default()
        }
    }

    /// A command of the eviction under way, which takes `span`.
    #[cold]
    #[inline(never)]
    pub(super) fn note(&mut self, submission: Submission, channel: u32, span: Time) {
        let lane = submission.lane();
        let work = &mut self.work[lane as usize];
        if work.0 == 0 {
            self.lanes.push(lane);
            let last = &mut self.last_of_channel[channel as usize];
            self.channels += u32::from(*last <= self.events);
            *last = self.events + 1;
        }
        work.0 = work.0.saturating_add(span.0);
        if matches!(submission.cause(), Cause::Gc | Cause::Merge | Cause::WearLevel) {
            work.1 = work.1.saturating_add(span.0);
        }
    }

    /// All of the eviction was submitted. What works for it; `None` if it takes no flash time.
    pub(super) fn close(&mut self) -> Option<Used> {
        self.is_open = false;
        if self.lanes.is_empty() {
            return None;
        }
        self.events += 1;
        let (lanes, channels) = (self.lanes.len() as u32, std::mem::take(&mut self.channels));
        self.lanes_used += u64::from(lanes);
        self.channels_used += u64::from(channels);
        let mut longest = (0, 0);
        for lane in self.lanes.drain(..) {
            longest = std::mem::take(&mut self.work[lane as usize]).max(longest);
        }
        Some(Used { lanes, channels, longest })
    }

    /// An eviction begins. Returns its number.
    pub(super) fn begin(&mut self, used: Used, now: Time) -> u64 {
        self.under_way.push_back(UnderWay { used, since: now, has_ended: false });
        self.ended + self.under_way.len() as u64 - 1
    }

    /// One that had begun has ended. Returns what worked for it, and when it began.
    pub(super) fn end(&mut self, number: u64, now: Time) -> (Used, Time) {
        let eviction = &mut self.under_way[(number - self.ended) as usize];
        eviction.has_ended = true;
        let UnderWay { used, since, .. } = *eviction;
        if number == self.ended {
            self.count(used, since, now);
            // Those that ended before it have no time of their own.
            while self.under_way.front().is_some_and(|first| first.has_ended) {
                self.under_way.pop_front();
                self.ended += 1;
            }
        }
        (used, since)
    }

    /// Count an eviction from `since` to `end`. They are counted in the order in which they began.
    pub(super) fn count(&mut self, used: Used, since: Time, end: Time) {
        let start = since.max(self.until);
        if end <= start {
            return;
        }
        let span = end.since(start).0;
        let (work, gc) = used.longest;
        let of_gc = (u128::from(span) * u128::from(gc)).checked_div(work.into()).unwrap_or(0);
        self.elapsed_ps += span;
        self.gc_ps += of_gc as u64;
        self.until = end;
    }
}

/// Memory beside flash: when each is free.
#[derive(Debug, Clone)]
pub(super) struct Servers {
    rates: [Rate; Memory::COUNT],
    free: [Time; Memory::COUNT],
}

impl Servers {
    pub(super) fn new(config: &DeviceConfig) -> Self {
        let buffer = config.buffer.keys().map_or(0.0, |keys| keys.mb_per_s);
        let nvm = config.nvm.keys().map_or(0.0, |keys| keys.mb_per_s);
        // A message is a byte: it holds the link for so many microseconds.
        let message = config.nvm.message_us();
        let link = if message > 0.0 { 1.0 / message } else { 0.0 };
        Self { rates: [buffer, nvm, link].map(Rate::from_mb_per_s), free: [Time::ZERO; Memory::COUNT] }
    }

    /// From when to when `bytes` that come now are moved; `None` when that takes no time.
    #[inline(always)]
    pub(super) fn serve(&mut self, memory: Memory, bytes: u32, now: Time) -> Option<(Time, Time)> {
        let rate = self.rates[memory as usize];
        if rate.is_instant() { None } else { self.occupy(memory, rate.span(bytes.into()), now) }
    }

    /// From when to when something goes on that comes now and takes `span`; `None` when that takes no time.
    pub(super) fn occupy(&mut self, memory: Memory, span: Time, now: Time) -> Option<(Time, Time)> {
        if span == Time::ZERO {
            return None;
        }
        let free = &mut self.free[memory as usize];
        let start = now.max(*free);
        *free = start + span;
        Some((start, *free))
    }
}

/// Pages that a buffer moves beside flash, and how much of its time is hidden.
///
/// Of buffer time B and flash time F of a page, `hiding` times the shorter one is hidden. So a page takes B more, less what
/// is hidden, than flash alone. What is not hidden comes before the command, and the die is free for others meanwhile.
/// The pages of one request on one lane follow each other: the next one begins when flash has done the last.
#[derive(Debug, Clone)]
pub(super) struct Pages<T> {
    hiding: f64,
    /// What of a page is still to come: its command, the time of the buffer, and the request.
    awaited: Option<(Command, Time, u32)>,
    /// The last request of each lane with such a page, and when flash had done that; empty where the buffer hides nothing.
    last: Vec<Option<(u32, T)>>,
}

impl<T: Copy> Pages<T> {
    pub(super) fn new(config: &DeviceConfig, lanes: usize) -> Self {
        let hiding = config.buffer.keys().and_then(|keys| keys.hiding);
        let last = if hiding.is_some() { vec![None; lanes] } else { Vec::new() };
        Self { hiding: hiding.unwrap_or(1.0), awaited: None, last }
    }

    #[inline(always)]
    pub(super) fn is_awaited(&self) -> bool {
        self.awaited.is_some()
    }

    pub(super) fn begin(&mut self, command: Command, span: Time, request: u32) {
        self.awaited = Some((command, span, request));
    }

    pub(super) fn end(&mut self) {
        self.awaited = None;
    }

    /// If `submission`, which takes `flash` by itself, is what moves the page: the request, what of the buffer's time is not
    /// hidden, and what it has to wait for. There is one for each page.
    pub(super) fn take(&mut self, submission: Submission, flash: Time) -> Option<(u32, Time, Option<T>)> {
        let (_, buffer, request) = self
            .awaited
            .take_if(|(command, ..)| *command == submission.command() && submission.cause() == Cause::Host)?;
        let hidden = Time(nearest(buffer.min(flash).0 as f64 * self.hiding));
        let before = self.last[submission.lane() as usize].filter(|(of, _)| *of == request);
        Some((request, buffer - hidden, before.map(|(_, ticket)| ticket)))
    }

    pub(super) fn note(&mut self, lane: u32, request: u32, done: T) {
        self.last[lane as usize] = Some((request, done));
    }
}

/// How long the parts of commands take.
#[derive(Debug, Clone)]
pub(super) struct Spans {
    read: [Time; 4],
    program: [Time; 4],
    erase: Time,
    pub(super) command: Time,
    /// Programs include what crosses the bus for them.
    includes_transfer: bool,
    bus: Transfers,
}

impl Spans {
    pub(super) fn new(config: &DeviceConfig) -> Self {
        const CLASSES: [PageClass; 4] = [PageClass::Lsb, PageClass::Csb, PageClass::Msb, PageClass::Tsb];
        // A class that these cells do not have is never asked for.
        let table =
            |times: &ClassTimes| CLASSES.map(|class| times.get(class).map_or(Time::ZERO, Time::from_us));
        let timing = &config.timing;
        Self {
            read: table(&timing.read_us),
            program: table(&timing.program_us),
            erase: Time::from_us(timing.erase_us),
            command: Time::from_us(timing.command_us),
            includes_transfer: timing.program_includes_transfer,
            bus: Transfers::from_mb_per_s(timing.bus_mb_per_s),
        }
    }

    /// Whether no command on cells with these classes of pages ends when it starts.
    pub(super) fn are_above_zero(&mut self, classes: &[PageClass]) -> bool {
        let bus = self.transfer(SECTOR_BYTES);
        let least = |spans: [Time; 4]| classes.iter().map(|class| spans[*class as usize]).min();
        let (read, program) = (least(self.read).unwrap_or_default(), least(self.program).unwrap_or_default());
        let commands = [read + bus, program + bus, read + program, self.erase];
        self.command > Time::ZERO || commands.iter().all(|span| *span > Time::ZERO)
    }

    #[inline(always)]
    fn transfer(&mut self, bytes: u32) -> Time {
        self.bus.span(bytes.into())
    }

    /// How long the bus is needed, the array works, and the bus is needed again.
    #[inline(always)]
    pub(super) fn parts(&mut self, submission: Submission) -> (Time, Time, Time) {
        let class = submission.class();
        let (bus_in, mut array, bus_out) = match submission.command() {
            Command::Read => (Time::ZERO, self.read[class], self.transfer(submission.bytes())),
            Command::Program => (self.transfer(submission.bytes()), self.program[class], Time::ZERO),
            Command::Erase => (Time::ZERO, self.erase, Time::ZERO),
            Command::Copyback => {
                (Time::ZERO, self.read[submission.source_class()] + self.program[class], Time::ZERO)
            }
        };
        if self.includes_transfer {
            array = array - self.included(submission);
        }
        (self.command + bus_in, array, bus_out)
    }

    /// How long the array works for a read or a program, whatever crosses the bus. `None` of others, which may be several in a
    /// row.
    pub(super) fn array_of(&self, submission: Submission) -> Option<Time> {
        match submission.command() {
            Command::Read => Some(self.read[submission.class()]),
            Command::Program => Some(self.program[submission.class()]),
            Command::Erase | Command::Copyback => None,
        }
    }

    /// What of a program's time has passed when its array begins to work.
    #[cold]
    fn included(&mut self, submission: Submission) -> Time {
        match submission.command() {
            Command::Read | Command::Erase => Time::ZERO,
            Command::Program => self.command + self.bus.span(submission.bytes().into()),
            Command::Copyback => self.command,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Evictions that overlap: time counts for the first, and is divided as its own work is, in whichever order they end.
    #[test]
    fn each_moment_of_evictions_counts_once() {
        let used = |work, gc| Used { lanes: 1, channels: 1, longest: (work, gc) };
        // Work and collection, from when, until when.
        let all = [(10, 0, 0, 100), (7, 7, 20, 60), (4, 1, 30, 152), (5, 5, 152, 160), (0, 0, 200, 210)];
        let mut in_order = EventLedger::new(1, 1);
        for (work, gc, since, end) in all {
            in_order.count(used(work, gc), Time(since), Time(end));
        }
        let mut by_events = EventLedger::new(1, 1);
        let numbers = all.map(|(work, gc, since, _)| by_events.begin(used(work, gc), Time(since)));
        let mut ends: Vec<(u64, u64)> = all.iter().map(|of| of.3).zip(numbers).collect();
        ends.sort_unstable();
        for (end, number) in ends {
            by_events.end(number, Time(end));
        }
        // The first 100; 52 of the third, a quarter of it collection; the fourth, all of it; and 10 without work.
        assert_eq!((in_order.elapsed_ps, in_order.gc_ps), (170, 13 + 8));
        assert_eq!((by_events.elapsed_ps, by_events.gc_ps), (170, 13 + 8));
        assert!(by_events.under_way.is_empty());
    }
}
