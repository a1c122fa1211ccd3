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
//! submission of the command with which it began to work without a pause. Timers of the host count from when they were
//! set.
//!
//! A bus that is used before the array works is free at a time that is known. The end of the array's work is known,
//! too. There is an event for the first only when somebody waits for the bus.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::cause::{Cause, Command, CommandCounts};
use crate::config::DeviceConfig;
use crate::flash::cell::PageClass;
use crate::flash::clock::{ArrayLines, Clock, Ledger, Pages, Servers, Spans, Step, TIMERS};
use crate::flash::event_queue::{ARRAY_LINES, BUS_LINE, EventQueue, HOST_LINE};
use crate::flash::line::NONE;
use crate::flash::port::{FlashPort, Gathering, Memory, Submission};
use crate::flash::waiter::{Edge, Waiter};
use crate::geometry::{DieId, Geometry, PageId, PlaneId};
use crate::metrics::parts::Parts;
use crate::time::Time;

mod beside;
mod commands;
mod explain;
mod lane;

use explain::Explanations;
use lane::{Channel, Lane, Phase};

/// In the place of the lane of a node: it ends a time after what it waits for, or adds up a time or notes it then.
const DELAY: u32 = NONE - 1;
const EVENT: u32 = NONE - 2;
const WAIT: u32 = NONE - 3;
const NOTE: u32 = NONE - 4;

/// Stands for the end of a command or of several. Once that has happened the number of its node is used again, with
/// the next generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket {
    node: u32,
    generation: u32,
}

impl Ticket {
    /// Of a moment that has passed.
    const READY: Self = Self { node: NONE, generation: 0 };
}

/// Something that ends: a command, several in a row, or the join of others.
#[derive(Debug, Clone, Copy)]
struct Node {
    generation: u32,
    /// Nodes that must end first.
    pending: u32,
    /// Who waits for this one: the last to come.
    waiter: Waiter,
    /// First edge to the others who wait for this one; most nodes have none.
    edges: u32,
    /// Lane of a command; `NONE` for a join, and `DELAY`, `EVENT`, `WAIT` or `NOTE`.
    lane: u32,
    /// Position in the order in which commands were submitted and timers set.
    number: u64,
    /// Commands in a row, on consecutive pages: more than 1 only where they need no bus.
    count: u32,
    submission: Submission,
}

impl Node {
    /// Whether it is known what it waits for: nobody waits for a single command of a collection.
    #[inline]
    fn is_explained(&self) -> bool {
        self.lane >= NOTE || !self.submission.is_background()
    }
}

/// Keeps simulated time, for drives whose lanes share channels or not.
#[derive(Debug, Clone)]
pub struct EventPort {
    now: Time,
    events: EventQueue,
    lanes: Vec<Lane>,
    channels: Vec<Channel>,
    nodes: Vec<Node>,
    /// The node after each in the queue of its lane.
    next_node: Vec<u32>,
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
    ended: Vec<u32>,
    finished: Vec<u32>,
    /// Whether nobody of another lane comes to wait for a command that has begun: commands may be one event then.
    runs_rows: bool,
    /// The line of events for each kind of command.
    lines: ArrayLines,
    spans: Spans,
    servers: Servers,
    /// What ends beside flash: when, the number that decides among equal times, and the node.
    beside: BinaryHeap<Reverse<(Time, u64, u32)>>,
    pages: Pages<Ticket>,
    ledger: Ledger,
    /// What somebody waited for last, and the node that adds up how long.
    last_wait: (Ticket, Ticket),
    /// Where somebody asks what requests wait for.
    explain: Option<Box<Explanations>>,
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
        // What collection and wear levelling put into the queue of a lane at once: a read and a program for each page of a
        // block of each plane, twice. Queues that need more take it later.
        let planes = geometry.planes() / lanes;
        let burst = 4 * (geometry.pages_per_block() * planes) as usize + 64;
        let most = (lanes as usize * burst).min(1 << 16);
        let spans = Spans::new(config);
        let lines = ArrayLines::new(&spans);
        Self {
            now: Time::ZERO,
            events: EventQueue::new(TIMERS + lanes + geometry.channels, ARRAY_LINES + lines.count()),
            lanes: (0..lanes).map(|lane| Lane::idle(channel_of(lane))).collect(),
            channels: vec![Channel::IDLE; geometry.channels as usize],
            nodes: Vec::with_capacity(most),
            next_node: Vec::with_capacity(most),
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
            runs_rows: !config.moves_between_lanes() && !config.has_frames(),
            lines,
            spans,
            servers: Servers::new(config),
            beside: BinaryHeap::with_capacity(if config.has_frames() { 1024 } else { 0 }),
            pages: Pages::new(config, lanes as usize),
            ledger: Ledger::new(lanes as usize, geometry.channels as usize, log),
            last_wait: (Ticket::READY, Ticket::READY),
            explain: None,
            bytes_in_its_place: None,
        }
    }

    /// The same, but it knows what requests wait for.
    #[must_use]
    pub fn explaining(mut self) -> Self {
        self.explain = Some(Box::new(Explanations::new(self.lanes.len())));
        self
    }

    /// It stands for a port with tables of this size, because of a log: what logs add is no part of the drive's.
    #[must_use]
    pub fn in_place_of(mut self, table_bytes: Option<u64>) -> Self {
        self.bytes_in_its_place = table_bytes;
        self
    }

    #[inline]
    fn has_ended(&self, ticket: Ticket) -> bool {
        ticket.node == NONE || self.nodes[ticket.node as usize].generation != ticket.generation
    }

    #[inline]
    fn new_node(&mut self, lane: u32, count: u32, submission: Submission) -> Ticket {
        self.numbers += 1;
        let number = self.numbers;
        let node = if let Some(node) = self.free_nodes.pop() {
            node
        } else {
            let waiter = Waiter::NOBODY;
            self.nodes.push(Node {
                generation: 0,
                pending: 0,
                waiter,
                edges: NONE,
                lane,
                number,
                count,
                submission,
            });
            self.next_node.push(NONE);
            self.nodes.len() as u32 - 1
        };
        let state = &mut self.nodes[node as usize];
        state.lane = lane;
        state.number = number;
        state.count = count;
        state.submission = submission;
        let ticket = Ticket { node, generation: state.generation };
        if self.explain.is_some() {
            self.explain_new(node, lane, submission);
        }
        ticket
    }

    #[inline]
    fn add_waiter(&mut self, to: u32, waiter: Waiter) {
        let other = std::mem::replace(&mut self.nodes[to as usize].waiter, waiter);
        if other != Waiter::NOBODY {
            self.add_edge(to, other);
        }
    }

    fn add_edge(&mut self, from: u32, waiter: Waiter) {
        let next = self.nodes[from as usize].edges;
        let edge = Edge { waiter, next };
        let at = if let Some(at) = self.free_edges.pop() {
            self.edges[at as usize] = edge;
            at
        } else {
            self.edges.push(edge);
            self.edges.len() as u32 - 1
        };
        self.nodes[from as usize].edges = at;
    }

    /// Let `ticket` hold back `node` unless it has ended.
    fn wait_for(&mut self, node: u32, ticket: Ticket) {
        if !self.has_ended(ticket) {
            self.add_waiter(ticket.node, Waiter(node));
            self.nodes[node as usize].pending += 1;
        }
    }

    /// A node has ended: tell those who wait, the last to come first, and then those who wait for joins that have ended
    /// by that.
    #[inline(always)]
    fn end(&mut self, node: u32) {
        if self.explain.is_some() {
            self.explain_end(node);
        }
        let state = &mut self.nodes[node as usize];
        state.generation = state.generation.wrapping_add(1);
        self.free_nodes.push(node);
        let waiter = std::mem::replace(&mut state.waiter, Waiter::NOBODY);
        if waiter == Waiter::NOBODY {
            return;
        }
        let has_one = state.edges == NONE;
        match waiter.watcher() {
            Some(watcher) if has_one => self.hear(watcher),
            _ => self.tell(node, waiter),
        }
    }

    #[inline(always)]
    fn hear(&mut self, watcher: u32) {
        self.finished.push(watcher);
        if let Some(explain) = &mut self.explain {
            explain.tell(watcher);
        }
    }

    fn tell(&mut self, mut node: u32, mut waiter: Waiter) {
        loop {
            let mut at = std::mem::replace(&mut self.nodes[node as usize].edges, NONE);
            loop {
                match waiter.watcher() {
                    Some(watcher) => self.hear(watcher),
                    None => self.release(waiter.0),
                }
                if at == NONE {
                    break;
                }
                self.free_edges.push(at);
                Edge { waiter, next: at } = self.edges[at as usize];
            }
            loop {
                let Some(join) = self.ended.pop() else { return };
                if self.explain.is_some() {
                    self.explain_end(join);
                }
                let state = &mut self.nodes[join as usize];
                state.generation = state.generation.wrapping_add(1);
                self.free_nodes.push(join);
                let next = std::mem::replace(&mut state.waiter, Waiter::NOBODY);
                if next != Waiter::NOBODY {
                    (node, waiter) = (join, next);
                    break;
                }
            }
        }
    }

    /// One of the nodes that `node` waits for has ended.
    fn release(&mut self, node: u32) {
        let state = &mut self.nodes[node as usize];
        state.pending -= 1;
        if state.pending > 0 {
            return;
        }
        let lane = state.lane;
        if let Some(explain) = &mut self.explain
            && self.nodes[node as usize].is_explained()
        {
            explain.released(node, lane == NONE, self.now);
        }
        if lane == NONE {
            self.ended.push(node);
        } else if lane >= NOTE {
            self.begin_beside(node);
        } else {
            if self.explain.is_some() {
                self.explain_ready(node, lane);
            }
            if self.lanes[lane as usize].phase == Phase::Idle {
                self.mark(lane);
            }
        }
    }

    /// What the host hears of the event that has just happened.
    #[inline(always)]
    fn told(&mut self) -> Option<Step> {
        match self.finished.as_slice() {
            [] => None,
            &[watcher] => {
                self.finished.clear();
                Some(Step::Ended(watcher))
            }
            _ => Some(Step::Several),
        }
    }

    #[inline]
    fn mark(&mut self, lane: u32) {
        let state = &mut self.lanes[lane as usize];
        if !state.marked {
            state.marked = true;
            self.starts.push(lane);
        }
    }

    #[inline]
    fn submission(&self, node: u32) -> Submission {
        self.nodes[node as usize].submission
    }

    /// How long the array works for a command, or for several in a row.
    #[inline]
    fn array_time(&self, node: u32) -> Time {
        let Node { count, submission, .. } = self.nodes[node as usize];
        let one = self.spans.array(submission);
        Time(one.0 * u64::from(count))
    }

    /// Start the next command of an idle lane, if it may go. `last`: no other lane starts before the next event, and no
    /// channel is to be granted so far.
    #[inline(always)]
    fn start(&mut self, lane: u32, last: bool) {
        let now = self.now;
        let state = &mut self.lanes[lane as usize];
        let node = state.queue.first;
        if state.phase != Phase::Idle || node == NONE || self.nodes[node as usize].pending > 0 {
            return;
        }
        let free_since = state.free_since;
        state.queue.pop(&self.next_node);
        state.started = now;
        // A lane that has never worked has been free since 0.
        if now > state.free_since || now == Time::ZERO {
            state.row_number = self.nodes[node as usize].number;
        }
        state.transfer = (now, now);
        state.current = node;
        state.row = node;
        let submission = self.submission(node);
        if let Some(explain) = &mut self.explain
            && now > free_since
        {
            explain.held_up(node, submission, lane, free_since, now);
        }
        let span = self.spans.bus_in(submission);
        if span == Time::ZERO {
            self.start_array(lane);
            return;
        }
        let state = &mut self.lanes[lane as usize];
        state.phase = Phase::BusIn;
        let channel = state.channel;
        if last && !self.channels[channel as usize].is_wanted() && self.is_free(channel) {
            // The same as asking for it and being the only one to be granted.
            self.bring_in(channel, lane, submission, span);
        } else {
            self.ask_bus(lane);
        }
    }

    /// Whether the last transfer of a channel has ended.
    #[inline(always)]
    fn is_free(&self, channel: u32) -> bool {
        let Channel { until, number, is_out, .. } = self.channels[channel as usize];
        !is_out && (until < self.now || (until == self.now && number <= self.number))
    }

    /// Let the array of a lane work. Commands that need no bus and for which nobody waits follow at once, as one
    /// event: garbage collection by copyback is many commands and few instants that anyone can see.
    fn start_array(&mut self, lane: u32) {
        let mut node = self.lanes[lane as usize].current;
        let mut end = self.now + self.array_time(node);
        // A log has each command when it has ended.
        let may_follow = self.runs_rows && self.ledger.log.is_none();
        while may_follow && self.needs_no_bus(node) && self.nodes[node as usize].waiter == Waiter::NOBODY {
            let next = self.lanes[lane as usize].queue.first;
            if next == NONE || !self.needs_no_bus(next) || self.nodes[next as usize].pending > 0 {
                break;
            }
            if self.explain.is_some() && !self.is_for_the_same(node, next) {
                break;
            }
            self.account(lane, node, end);
            let state = &mut self.lanes[lane as usize];
            state.queue.pop(&self.next_node);
            state.started = end;
            state.transfer = (end, end);
            state.current = next;
            node = next;
            end += self.array_time(node);
        }
        let line = self.lines.of(self.submission(node));
        let state = &mut self.lanes[lane as usize];
        state.phase = Phase::Array;
        self.events.schedule(ARRAY_LINES + line, TIMERS + lane, end, state.row_number);
    }

    /// Whether two commands are for one cause, for which nobody waits command by command.
    fn is_for_the_same(&self, node: u32, next: u32) -> bool {
        let (one, other) = (self.submission(node).cause(), self.submission(next).cause());
        one == other && one.is_background()
    }

    #[inline]
    fn needs_no_bus(&self, node: u32) -> bool {
        self.spans.command == Time::ZERO
            && matches!(self.submission(node).command(), Command::Copyback | Command::Erase)
    }

    /// The event of a lane: its array has worked, or its data are out.
    #[inline(always)]
    fn lane_done(&mut self, lane: u32) {
        let Lane { phase, current, channel, .. } = self.lanes[lane as usize];
        if phase == Phase::BusOut {
            self.channels[channel as usize].is_out = false;
            self.complete(lane);
            self.mark_channel(channel);
        } else if self.spans.bus_out(self.submission(current)) > Time::ZERO {
            self.lanes[lane as usize].phase = Phase::BusOut;
            self.ask_bus(lane);
        } else {
            self.complete(lane);
        }
    }

    fn ask_bus(&mut self, lane: u32) {
        let Lane { phase, current, channel, .. } = self.lanes[lane as usize];
        let has_data = phase == Phase::BusOut || self.submission(current).command() == Command::Program;
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
        let submission = self.submission(self.lanes[lane as usize].current);
        if self.lanes[lane as usize].phase == Phase::BusIn {
            let span = self.spans.bus_in(submission);
            self.bring_in(channel, lane, submission, span);
            if self.channels[channel as usize].is_wanted() {
                self.await_channel(channel);
            }
        } else {
            let span = self.spans.bus_out(submission);
            let (end, number) = self.use_bus(channel, lane, span, true);
            self.events.schedule(BUS_LINE, TIMERS + lane, end, number);
        }
    }

    /// A lane uses the bus for `span`, and then lets its array work.
    #[inline(always)]
    fn bring_in(&mut self, channel: u32, lane: u32, submission: Submission, span: Time) {
        let (until, number) = self.use_bus(channel, lane, span, false);
        let state = &mut self.lanes[lane as usize];
        state.phase = Phase::Array;
        if let Some(explain) = &mut self.explain
            && self.now > state.started
        {
            explain.has_bus(submission, state.current, lane, self.now.since(state.started));
        }
        // A command that waits for the bus does not hold its die yet.
        state.started = self.now;
        let line = ARRAY_LINES + self.lines.of(submission);
        self.events.schedule(line, TIMERS + lane, until + self.spans.array(submission), number);
    }

    /// Returns when the transfer ends, and the number of its lane.
    #[inline(always)]
    fn use_bus(&mut self, channel: u32, lane: u32, span: Time, is_out: bool) -> (Time, u64) {
        let until = self.now + span;
        let holder = &mut self.lanes[lane as usize];
        holder.transfer = (self.now, until);
        let number = holder.row_number;
        let state = &mut self.channels[channel as usize];
        self.ledger.channel_busy_ps[channel as usize] += state.span.0;
        state.until = until;
        state.number = number;
        state.span = span;
        state.is_out = is_out;
        (until, number)
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
        let state = &mut self.lanes[lane as usize];
        let last = std::mem::replace(&mut state.current, NONE);
        let mut node = state.row;
        state.phase = Phase::Idle;
        state.free_since = self.now;
        self.account(lane, last, self.now);
        // Nobody was waiting for those ahead of the last when they were put in a row; who has come since hears of them now.
        while node != last {
            let next = self.next_node[node as usize];
            self.end(node);
            node = next;
        }
        self.end(last);
        if !self.lanes[lane as usize].queue.is_empty() {
            self.mark(lane);
        }
    }

    /// The command that a lane has been running since `started` ends at `end`.
    #[inline(always)]
    fn account(&mut self, lane: u32, node: u32, end: Time) {
        let cause = self.submission(node).cause_index();
        let lane_of = lane as usize;
        let started = self.lanes[lane_of].started;
        if self.explain.is_some() {
            self.explain_work(lane, node, end);
        }
        self.ledger.busy_ps[lane_of][cause] += end.since(started).0;
        if self.ledger.log.is_some() {
            self.note(lane, node, end);
        }
    }

    /// As `submit`, while a page that the buffer moves is awaited.
    #[cold]
    #[inline(never)]
    fn submit_page(&mut self, submission: Submission, after: Ticket) -> Ticket {
        let (bus_in, array, bus_out) = self.spans.parts(submission);
        let Some((request, exposed, before)) = self.pages.take(submission, bus_in + array + bus_out) else {
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
        let lane = submission.lane();
        let ticket = self.new_node(lane, count, submission);
        // What the same lane was given before has ended when this one's turn comes.
        if after.node != NONE && self.nodes[after.node as usize].lane != lane {
            self.wait_for(ticket.node, after);
        }
        if self.ledger.events.is_open {
            let (bus_in, array, bus_out) = self.spans.parts(submission);
            let span = Time((bus_in + array + bus_out).0 * u64::from(count));
            self.ledger.events.note(submission, self.lanes[lane as usize].channel, span);
        }
        if self.explain.is_some() && self.nodes[ticket.node as usize].pending == 0 {
            self.explain_ready(ticket.node, lane);
        }
        let state = &mut self.lanes[lane as usize];
        if let Some(explain) = &mut self.explain
            && state.queue.is_empty()
        {
            explain.fills(lane, self.now);
        }
        state.queue.push(ticket.node, &mut self.next_node);
        if state.phase == Phase::Idle {
            self.mark(lane);
        }
        ticket
    }
}

impl EventPort {
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

    fn join(&mut self, first: Ticket, second: Ticket) -> Ticket {
        if self.has_ended(first) {
            return second;
        }
        if self.has_ended(second) || first == second {
            return first;
        }
        let (a, b) = (&self.nodes[first.node as usize], &self.nodes[second.node as usize]);
        if a.lane == b.lane && a.lane < NOTE {
            // Lanes run their commands in order: the later one ends last.
            return if b.number > a.number { second } else { first };
        }
        let nothing =
            Submission::new(Command::Read, Cause::Host, (PageClass::Lsb, PageClass::Lsb), 0, PageId(0), 0);
        let ticket = self.new_node(NONE, 0, nothing);
        self.wait_for(ticket.node, first);
        self.wait_for(ticket.node, second);
        ticket
    }

    fn gather(&mut self, all: &mut Gathering<Ticket>, one: Ticket) {
        if all.is_own {
            return self.wait_for(all.moment.node, one);
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
        if self.spans.command == Time::ZERO && submission.command() == Command::Copyback {
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
        self.beside_after(DELAY, (span.0, 0), after)
    }

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
        self.beside_after(NOTE, (note.into(), 0), ticket);
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
        let waiter = Waiter(watcher | Waiter::IS_WATCHER);
        // Pages of a request that wait for the same moment are told once.
        if !self.has_ended(ticket) && self.nodes[ticket.node as usize].waiter != waiter {
            self.add_waiter(ticket.node, waiter);
            *watch += 1;
        }
    }

    fn begin_request(&mut self, index: u64) {
        if let Some(explain) = &mut self.explain {
            explain.begins(index);
        }
    }

    fn parts(&mut self, of: (u32, u64), began: Time) -> Option<&mut Parts> {
        self.explain.as_mut().map(|explain| explain.parts(of, began, self.now))
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
        (self.lanes.len() * (size_of::<Lane>() + 4 + 32 * (size_of::<Node>() + 4))
            + self.channels.len() * size_of::<Channel>()) as u64
    }
}
