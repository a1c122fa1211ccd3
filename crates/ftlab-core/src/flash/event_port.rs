//! The port that keeps time, event by event.
//!
//! Resources: each channel moves one transfer at a time. Each lane runs one command at a time, from its first use of
//! the bus until it ends. A lane is a die, or a plane where planes work independently. Phases:
//!
//! | command  | bus               | array            | bus  |
//! |----------|-------------------|------------------|------|
//! | read     | command           | tR               | data |
//! | program  | command and data  | tPROG            |      |
//! | erase    | command           | tBERS            |      |
//! | copyback | command           | tR + tPROG       |      |
//!
//! A phase that takes no time is left out.
//!
//! Order: a lane runs its commands in order of submission, so the pages of a block are programmed in order. It waits
//! with the first one until what that one depends on has ended. A bus goes first to a lane that only has a command to
//! send, since that sets an array to work while data cross. Otherwise it goes to the lane that has been ready for it
//! longest. Lanes ask when they could transfer now, so a bus never idles while one is ready, and a later transfer never
//! blocks an earlier one. At equal times, the lane comes first that has been busy longest. That counts from the
//! submission of the command with which it began to work without a pause. The end of a command may make several
//! ready. Lanes come first whose commands waited for it alone, then those that had waited for several ends, and then its
//! own. Of each kind, the last to wait comes before others. Timers of the host count from when they were set.
//!
//! A bus that is used before the array works is free at a time that is known. The end of the array's work is known,
//! too. There is an event for the first only when somebody waits for the bus.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::cause::{Command, CommandCounts};
use crate::config::DeviceConfig;
use crate::flash::clock::{Clock, Ledger, Pages, Servers, Step, TIMERS};
use crate::flash::event_queue::{ARRAY_LINES, BUS_LINE, EventQueue, HOST_LINE};
use crate::flash::line::NONE;
use crate::flash::port::{FlashPort, Gathering, Memory, Submission};
use crate::geometry::{DieId, Geometry, PageId, PlaneId};
use crate::metrics::explain::told::{Teller, Told};
use crate::time::Time;

mod beside;
mod commands;
mod ends;
mod kinds;
mod lane;
mod ticket;
mod waiters;

use ends::{Node, Stands};
use kinds::{Kind, Kinds};
use lane::{Channel, Commands, Lane, Phase};
use ticket::{Edge, Item, Waiter};

pub use ticket::Ticket;

/// Keeps simulated time, for drives whose lanes share channels or not.
#[derive(Debug, Clone)]
pub struct EventPort {
    now: Time,
    events: EventQueue,
    lanes: Vec<Lane>,
    channels: Vec<Channel>,
    kinds: Kinds,
    nodes: Vec<Node>,
    /// The lane after each in a line for its channel.
    next_lane: Vec<u32>,
    free_nodes: Vec<u32>,
    edges: Vec<Edge>,
    free_edges: Vec<u32>,
    /// Lanes to be started when the host has had its say.
    starts: Vec<u32>,
    /// Free channels to be granted after that.
    grants: Vec<u32>,
    /// How many commands were submitted and timers set.
    numbers: u64,
    /// Number of the event that happens.
    number: u64,
    /// Joins that have ended, and whose waiters are to be told.
    ended: Vec<u32>,
    /// Watchers that have been told.
    finished: Vec<u32>,
    /// Those who are being told of one end.
    telling: Vec<Waiter>,
    /// Whether nobody comes to wait for a command that has begun, neither another lane nor a flush: commands may be one event then.
    runs_rows: bool,
    servers: Servers,
    /// What ends beside flash: when, the number that decides among equal times, and the node.
    beside: BinaryHeap<Reverse<(Time, u64, u32)>>,
    pages: Pages<Ticket>,
    ledger: Ledger,
    /// With a log: for each lane, the pages of the commands that have not ended, and the requests that they are for.
    logged: Vec<VecDeque<(PageId, Option<u64>)>>,
    /// What somebody waited for last, and the node that adds up how long.
    last_wait: (Ticket, Ticket),
    /// Where somebody asks what requests wait for.
    teller: Option<Box<Teller>>,
    /// Bytes of the tables of the port in whose place this one stands because of a log.
    bytes_in_its_place: Option<u64>,
}

impl EventPort {
    /// An idle drive at time 0. With `log`, commands are collected.
    pub fn new(config: &DeviceConfig, geometry: &Geometry, log: bool) -> Self {
        let timing = &config.timing;
        let lanes = if timing.independent_planes { geometry.planes() } else { geometry.dies() };
        let channel_of = |lane: u32| {
            let die = if timing.independent_planes { geometry.die_of(PlaneId(lane)) } else { DieId(lane) };
            geometry.channel_of(die).0
        };
        // Collection and wear levelling put a read and a program for each page of a block into the queue of a lane: so many
        // blocks of each plane, at once. Queues that need more take it later.
        const BLOCKS: u32 = 8;
        let planes = geometry.planes() / lanes;
        let burst = 2 * BLOCKS * geometry.pages_per_block() * planes;
        let room = burst.min((1 << 20) / lanes) as usize;
        let most = (lanes as usize * 64).min(1 << 12);
        let kinds = Kinds::new(config);
        Self {
            now: Time::ZERO,
            events: EventQueue::new(TIMERS + lanes + geometry.channels),
            lanes: (0..lanes).map(|lane| Lane::idle(channel_of(lane), room)).collect(),
            channels: vec![Channel::IDLE; geometry.channels as usize],
            kinds,
            nodes: Vec::with_capacity(most),
            next_lane: vec![NONE; lanes as usize],
            free_nodes: Vec::with_capacity(most),
            edges: Vec::with_capacity(most),
            free_edges: Vec::with_capacity(most),
            starts: Vec::with_capacity(lanes as usize),
            grants: Vec::with_capacity(geometry.channels as usize),
            numbers: 0,
            number: 0,
            ended: Vec::new(),
            finished: Vec::new(),
            telling: Vec::new(),
            runs_rows: !config.moves_between_lanes() && !config.has_frames() && !config.power.has_journal(),
            servers: Servers::new(config),
            beside: BinaryHeap::with_capacity(if config.has_frames() { 1024 } else { 0 }),
            pages: Pages::new(config, lanes as usize),
            ledger: Ledger::new(lanes as usize, geometry.channels as usize, log),
            logged: if log { vec![VecDeque::new(); lanes as usize] } else { Vec::new() },
            last_wait: (Ticket::READY, Ticket::READY),
            teller: None,
            bytes_in_its_place: None,
        }
    }

    /// The same, but it tells what requests wait for.
    #[must_use]
    pub fn telling_all(mut self) -> Self {
        self.teller = Some(Box::new(Teller::new(self.lanes.len())));
        self
    }

    /// Dies, or planes where they work independently.
    pub(crate) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// It stands for a port with tables of this size, because of a log: what logs add is no part of the drive's.
    #[must_use]
    pub fn in_place_of(mut self, table_bytes: Option<u64>) -> Self {
        self.bytes_in_its_place = table_bytes;
        self
    }

    #[inline]
    fn mark(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        if !state.marked {
            state.marked = true;
            self.starts.push(lane);
        }
    }

    /// Start the next command of an idle lane, if it may go. `last`: no other lane starts before the next event, and no
    /// channel is to be granted so far.
    #[inline(always)]
    fn start(&mut self, lane: u32, last: bool) {
        let now = self.now;
        let state = &mut self.lanes[lane as usize];
        if state.phase != Phase::Idle || !state.may_begin() {
            return;
        }
        let free_since = state.free_since;
        // A lane that has never worked has been free since 0.
        let has_paused = now > free_since || state.begun == 0;
        // Any other begins as soon as its lane is free: it holds nobody up.
        let was_held = state.is_next_held();
        let number = state.begin();
        state.started = now;
        if has_paused {
            state.row_number = number;
        }
        state.transfer = (now, now);
        if was_held {
            self.tell_held_up(lane, free_since);
        }
        let state = &mut self.lanes[lane as usize];
        if self.kinds.get(state.current.kind).bus_in == Time::ZERO {
            self.start_array(lane);
            return;
        }
        state.phase = Phase::BusIn;
        let channel = &self.channels[state.channel as usize];
        if last && !channel.is_wanted() && channel.is_free(self.now, self.number) {
            // The same as asking for it and being the only one to be granted.
            self.bring_in(lane);
        } else {
            self.ask_bus(lane);
        }
    }

    /// Whether the last transfer of a channel has ended.
    #[inline(always)]
    fn is_free(&self, channel: u32) -> bool {
        self.channels[channel as usize].is_free(self.now, self.number)
    }

    /// Let the array of a lane work. Commands that need no bus and for which nobody waits follow at once, as one
    /// event: garbage collection by copyback is many commands and few instants that anyone can see.
    fn start_array(&mut self, lane: u32) {
        let Commands { kind, count } = self.lanes[lane as usize].current;
        let mut end = self.now + self.kinds.get(kind).row(count);
        while self.runs_rows && self.is_followed_at_once(lane) {
            self.account(lane, end);
            let state = &mut self.lanes[lane as usize];
            state.begin();
            state.started = end;
            state.transfer = (end, end);
            let Commands { kind, count } = state.current;
            end += self.kinds.get(kind).row(count);
        }
        let state = &mut self.lanes[lane as usize];
        state.phase = Phase::Array;
        let line = ARRAY_LINES + self.kinds.get(state.current.kind).line as usize;
        self.events.schedule(line, TIMERS + lane, end, state.row_number);
    }

    /// Whether the next command of a lane may follow the one that begins as part of the same event.
    fn is_followed_at_once(&self, lane: u32) -> bool {
        let state = &self.lanes[lane as usize];
        let kind = self.kinds.get(state.current.kind);
        if !kind.needs_no_bus || state.waiters.are_of(state.begun) || !state.may_begin() {
            return false;
        }
        let next = self.kinds.get(state.next_kind());
        next.needs_no_bus && (self.teller.is_none() || kind.is_collection_of(next))
    }

    /// The event of a lane: its array has worked, or its data are out.
    #[inline(always)]
    fn lane_done(&mut self, lane: u32) {
        let Lane { phase, current, channel, .. } = self.lanes[lane as usize];
        if phase == Phase::BusOut {
            self.channels[channel as usize].is_out = false;
            self.complete(lane);
            self.mark_channel(channel);
        } else if self.kinds.get(current.kind).bus_out > Time::ZERO {
            self.lanes[lane as usize].phase = Phase::BusOut;
            self.ask_bus(lane);
        } else {
            self.complete(lane);
        }
    }

    fn ask_bus(&mut self, lane: u32) {
        let Lane { phase, current, channel, .. } = self.lanes[lane as usize];
        let has_data = phase == Phase::BusOut || self.kinds.get(current.kind).brings_data;
        let state = &mut self.channels[channel as usize];
        if has_data {
            state.data.push(lane, &mut self.next_lane);
        } else {
            state.commands.push(lane, &mut self.next_lane);
        }
        if self.is_free(channel) {
            self.mark_channel(channel);
        } else {
            self.await_channel(channel);
        }
    }

    /// Somebody waits for the transfer under way to end.
    fn await_channel(&mut self, channel: u32) {
        let source = TIMERS + self.lanes.len() as u32 + channel;
        let state = &mut self.channels[channel as usize];
        if !state.is_out && !state.rings {
            state.rings = true;
            self.events.schedule(BUS_LINE, source, state.until, state.number);
        }
    }

    #[inline]
    fn mark_channel(&mut self, channel: u32) {
        let state = &mut self.channels[channel as usize];
        if !state.marked {
            state.marked = true;
            self.grants.push(channel);
        }
    }

    fn start_transfer(&mut self, channel: u32, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        if state.phase == Phase::BusIn {
            self.bring_in(lane);
            if self.channels[channel as usize].is_wanted() {
                self.await_channel(channel);
            }
        } else {
            let span = self.kinds.get(state.current.kind).bus_out;
            let end = self.now + span;
            state.transfer = (self.now, end);
            let number = state.row_number;
            self.use_bus(channel, (end, number), span, true);
            self.events.schedule(BUS_LINE, TIMERS + lane, end, number);
        }
    }

    /// A lane uses the bus for what its command brings in, and then lets its array work.
    #[inline(always)]
    fn bring_in(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        let Kind { bus_in, array, line, .. } = *self.kinds.get(state.current.kind);
        let until = self.now + bus_in;
        state.transfer = (self.now, until);
        state.phase = Phase::Array;
        // A command that waits for the bus does not hold its die yet.
        let asked = std::mem::replace(&mut state.started, self.now);
        let (channel, number) = (state.channel, state.row_number);
        self.use_bus(channel, (until, number), bus_in, false);
        if self.teller.is_some() && self.now > asked {
            self.tell_bus(lane, asked);
        }
        self.events.schedule(ARRAY_LINES + line as usize, TIMERS + lane, until + array, number);
    }

    /// A transfer of `span` begins, which ends at that time, by the number of its lane among equal ones.
    #[inline(always)]
    fn use_bus(&mut self, channel: u32, (until, number): (Time, u64), span: Time, is_out: bool) {
        let state = &mut self.channels[channel as usize];
        self.ledger.channel_busy_ps[channel as usize] += state.span.0;
        (state.until, state.number, state.span, state.is_out) = (until, number, span, is_out);
    }

    /// The event of a channel: the transfer is over that somebody has waited for.
    fn transfer_done(&mut self, channel: u32) {
        self.channels[channel as usize].rings = false;
        if self.channels[channel as usize].is_wanted() {
            if self.is_free(channel) {
                self.mark_channel(channel);
            } else {
                self.await_channel(channel);
            }
        }
    }

    #[inline(always)]
    fn complete(&mut self, lane: u32) {
        self.account(lane, self.now);
        if self.ledger.log.is_some() {
            self.log_row(lane);
        }
        let state = &mut self.lanes[lane as usize];
        state.phase = Phase::Idle;
        state.free_since = self.now;
        state.complete();
        let (mut turn, last) = (state.ended + 1, state.begun);
        // Nobody was waiting for those ahead of the last when they were put in a row; who has come since hears of them now.
        while turn < last {
            self.end_command(lane, turn);
            // More ends in this event.
            self.pay_watcher();
            turn += 1;
        }
        self.end_command(lane, last);
        if !self.lanes[lane as usize].is_empty() {
            self.mark(lane);
        }
    }

    /// What a lane has been running since `started` ends at `end`.
    #[inline(always)]
    fn account(&mut self, lane: u32, end: Time) {
        let Lane { started, current, .. } = self.lanes[lane as usize];
        if let Some(teller) = &mut self.teller {
            let Commands { kind, count } = current;
            teller.tell(Told::Ended { lane, kind, count, started, end });
        }
        let cause = self.kinds.get(current.kind).submission.cause_index();
        self.ledger.busy_ps[lane as usize][cause] += end.since(started).0;
    }

    /// As `submit`, while a page that the buffer moves is awaited.
    #[cold]
    #[inline(never)]
    fn submit_page(&mut self, submission: Submission, after: Ticket) -> Ticket {
        let kind = self.kinds.number_of(submission);
        let span = self.kinds.get(kind).span();
        let Some((request, exposed, before)) = self.pages.take(submission, span) else {
            return self.enqueue(submission, 1, after);
        };
        let begins = before.map_or(after, |before| self.join(before, after));
        let begins = self.delay(begins, exposed);
        let done = self.enqueue(submission, 1, begins);
        self.pages.note(submission.lane(), request, done);
        done
    }

    #[inline]
    fn enqueue(&mut self, submission: Submission, count: u32, after: Ticket) -> Ticket {
        self.numbers += 1;
        let lane = submission.lane();
        let kind = self.kinds.number_of(submission);
        let turn = self.lanes[lane as usize].submitted + 1;
        // What the same lane was given before has ended when this one's turn comes.
        let is_held = match after.item() {
            Item::Command { lane: other, turn } => other != lane && self.lanes[other as usize].ended < turn,
            Item::Node(_) => !self.has_ended(after),
        };
        if self.teller.is_some() {
            self.tell_new(submission, turn, kind, is_held);
        }
        if is_held {
            self.add_waiter(after, Waiter::command(lane, turn));
        }
        if self.ledger.events.is_open {
            let span = Time(self.kinds.get(kind).span().0.saturating_mul(count.into()));
            self.ledger.events.note(submission, self.lanes[lane as usize].channel, span);
        }
        if let Some(logged) = self.logged.get_mut(lane as usize) {
            let request = self.teller.as_ref().and_then(|teller| teller.request());
            logged.push_back((submission.page(), request));
        }
        let state = &mut self.lanes[lane as usize];
        state.submit(Commands { kind, count }, self.numbers, is_held);
        if state.phase == Phase::Idle {
            self.mark(lane);
        }
        Ticket::of_command(lane, turn)
    }
}

impl EventPort {
    /// The later of two moments, of which neither is known to have passed.
    fn join_two(&mut self, first: Ticket, second: Ticket) -> Ticket {
        if self.has_ended(first) {
            return second;
        }
        if self.has_ended(second) {
            return first;
        }
        if let (Item::Command { lane: one, turn: early }, Item::Command { lane: other, turn: late }) =
            (first.item(), second.item())
            && one == other
        {
            // Lanes run their commands in order: the later one ends last.
            return if late > early { second } else { first };
        }
        let (node, ticket) = self.new_node(Stands::Join, (0, 0));
        self.wait_for(node, first);
        self.wait_for(node, second);
        ticket
    }

    /// Start what has become able to start.
    #[inline]
    fn settle(&mut self) {
        let mut at = 0;
        while let Some(&lane) = self.starts.get(at) {
            at += 1;
            self.lanes[lane as usize].marked = false;
            self.start(lane, at == self.starts.len() && self.grants.is_empty());
        }
        self.starts.clear();
        for at in 0..self.grants.len() {
            let channel = self.grants[at];
            let state = &mut self.channels[channel as usize];
            state.marked = false;
            let lane = state.commands.pop(&self.next_lane).or_else(|| state.data.pop(&self.next_lane));
            if let Some(lane) = lane {
                self.start_transfer(channel, lane);
            }
        }
        self.grants.clear();
    }
}

impl FlashPort for EventPort {
    type Ticket = Ticket;

    #[inline]
    fn ready(&self) -> Ticket {
        Ticket::READY
    }

    #[inline]
    fn join(&mut self, first: Ticket, second: Ticket) -> Ticket {
        // Most often there is nothing to wait for, and nobody needs to be asked.
        if first == Ticket::READY || first == second {
            return second;
        }
        if second == Ticket::READY { first } else { self.join_two(first, second) }
    }

    fn gather(&mut self, all: &mut Gathering<Ticket>, one: Ticket) {
        if all.is_own
            && let Item::Node(join) = all.moment.item()
        {
            return self.wait_for(join, one);
        }
        let before = self.numbers;
        all.moment = self.join(all.moment, one);
        // Only a new node draws a number.
        all.is_own = self.numbers != before;
    }

    #[inline]
    fn submit(&mut self, submission: Submission, after: Ticket) -> Ticket {
        if self.pages.is_awaited() {
            return self.submit_page(submission, after);
        }
        self.enqueue(submission, 1, after)
    }

    fn submit_run(&mut self, submission: Submission, count: u32, after: Ticket) -> Ticket {
        if submission.command() == Command::Copyback && self.kinds.copies_need_no_bus() {
            return self.enqueue(submission, count, after);
        }
        let mut done = after;
        for at in 0..count {
            done = self.enqueue(submission.ahead(at), 1, after);
        }
        done
    }

    #[inline]
    fn has_passed(&self, ticket: Ticket) -> bool {
        self.has_ended(ticket)
    }

    fn delay(&mut self, after: Ticket, span: Time) -> Ticket {
        if span == Time::ZERO {
            return after;
        }
        self.delayed(span, after)
    }

    #[inline]
    fn memory(&mut self, memory: Memory, bytes: u32) -> Ticket {
        let Some(at) = self.servers.serve(memory, bytes, self.now) else { return self.ready() };
        self.ledger.moved(memory, at);
        self.ends_at(at)
    }

    fn occupy(&mut self, memory: Memory, span: Time) -> Ticket {
        let Some(at) = self.servers.occupy(memory, span, self.now) else { return self.ready() };
        self.ledger.moved(memory, at);
        self.ends_at(at)
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

    fn end_event(&mut self, done: Ticket) {
        self.end_event_beside(done);
    }

    fn count_wait(&mut self, until: Ticket) {
        self.wait_beside(until);
    }

    fn note_end(&mut self, ticket: Ticket) -> u32 {
        let note = self.ledger.ends.len() as u32;
        self.ledger.ends.push(Time::NEVER);
        self.beside_after(Stands::Note, (note.into(), 0), ticket);
        note
    }
}

impl Clock for EventPort {
    /// Tickets that have not ended.
    type Watch = u32;

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
        self.events.schedule(HOST_LINE, timer, at, number);
    }

    #[inline]
    fn watch(&mut self, watch: &mut u32, ticket: Ticket, watcher: u32) {
        // Pages of a request that wait for the same moment are told once.
        if !self.has_ended(ticket) && self.add_waiter_once(ticket, Waiter::watcher(watcher)) {
            *watch += 1;
        }
    }

    #[inline]
    fn teller(&mut self) -> Option<&mut Teller> {
        self.teller.as_deref_mut()
    }

    #[inline]
    fn arm(&mut self, watch: u32, _: u32) -> u32 {
        watch
    }

    fn finished(&mut self, list: &mut Vec<u32>) {
        std::mem::swap(list, &mut self.finished);
    }

    /// Goes on until a timer rings or somebody's ticket ends: nothing else concerns the host.
    #[inline]
    fn step_before(&mut self, until: Time) -> Option<Step> {
        loop {
            self.settle();
            let next = self.events.next();
            if !self.beside.is_empty()
                && let Some(time) = self.next_beside(next)
            {
                if time >= until {
                    return None;
                }
                self.end_beside();
                if let Some(step) = self.told() {
                    return Some(step);
                }
                continue;
            }
            let (time, number, source) = next?;
            if time >= until {
                return None;
            }
            debug_assert!(time >= self.now, "time never goes back");
            self.events.consume();
            self.now = time;
            self.number = number;
            if source < TIMERS {
                return Some(Step::Timer(source));
            }
            let lane = source - TIMERS;
            if (lane as usize) < self.lanes.len() {
                self.lane_done(lane);
            } else {
                self.transfer_done(lane - self.lanes.len() as u32);
            }
            if let Some(step) = self.told() {
                return Some(step);
            }
        }
    }

    fn move_to(&mut self, at: Time) {
        self.now = at;
        // Nothing of this time has happened yet.
        self.number = 0;
    }

    fn never_ends(&self) -> bool {
        !self.beside.is_empty() || self.lanes.iter().any(|lane| lane.phase != Phase::Idle || !lane.is_empty())
    }

    /// The last event is the end of the last command.
    fn idle_from(&self) -> Time {
        self.now
    }

    fn cut(&mut self) -> CommandCounts {
        self.unfinished()
    }

    fn ledger(&mut self) -> &mut Ledger {
        for channel in 0..self.channels.len() {
            if self.is_free(channel as u32) {
                let span = std::mem::take(&mut self.channels[channel].span);
                self.ledger.channel_busy_ps[channel] += span.0;
            }
        }
        &mut self.ledger
    }

    fn table_bytes(&self) -> u64 {
        if let Some(bytes) = self.bytes_in_its_place {
            return bytes;
        }
        let lanes: usize = self.lanes.iter().map(Lane::bytes).sum();
        let nodes = self.nodes.capacity() * size_of::<Node>() + self.edges.capacity() * size_of::<Edge>();
        (lanes + nodes + self.channels.len() * size_of::<Channel>()) as u64
    }
}
