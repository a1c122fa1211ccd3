//! What requests wait for, step by step.
//!
//! The time of a request in the drive is that of its chain of steps that ends last. Each step begins when the last one ends
//! that it depends on. On a lane it adds what the lane did while the step waited, by totals of the lane then and now, and
//! then its own work. So the parts leave nothing out.
//!
//! What a command took is found when it ends: until then little is kept of it. Who hears of an end does so in the same event,
//! so one place holds the parts of whatever ended last.
//!
//! Nobody but collection itself waits for a part of it: who waits for one waits for all of it. Most commands may be such,
//! and nothing is kept of them.
//!
//! All this follows from what is told while the run goes on (`told.rs`), and changes nothing in it. So an observer may find it out
//! on another thread: see [`Observer::take_over`].

use std::collections::VecDeque;

use crate::geometry::SECTOR_BYTES;
use crate::host::request::{Op, Request};
use crate::metrics::parts::{Part, Parts, WORKS, Work};
use crate::metrics::{Observer, RequestRecord};
use crate::time::{Rate, Time};

pub(crate) mod explainer;
pub(crate) mod told;

pub use told::Batch;
use told::{Completed, Kind, NO_REQUEST, RequestBits, Told, Turn};

/// In the place of a body, with the number of a lane: of steps of collections, which have none.
const LANE: u32 = 1 << 31;

/// By [`Work`], when the last of its commands ended that was told of. Where a row is under way, that may be later than now.
type LastOf = [Time; WORKS];

/// Whether what a part stands for may have been at work after `since`: who came later did not wait for it.
fn may_be(part: Part, last_of: &LastOf, since: Time) -> bool {
    part.cause().is_none_or(|cause| last_of[Work::for_cause(cause).index()] >= since)
}

/// How a command ran, once it has ended.
#[derive(Debug, Clone, Copy)]
struct Ran {
    /// It has held its lane since then.
    started: Time,
    end: Time,
    array: Time,
    transfer: Time,
}

/// Of flash work for the host, the places.
const READ: usize = Work::READ.index();
const PROGRAM: usize = Work::PROGRAM.index();

/// What a lane has done for a request, in picoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    /// Reads and programs.
    spans: [u64; 2],
    /// Of both, what the array did; the rest was on the bus.
    arrays: [u64; 2],
    /// Of both, for a part of a page.
    updates: u64,
    /// How long reads have waited for the bus with their data, which is in none of those.
    bus_wait: u64,
}

impl Own {
    /// Add to `parts` the last `read` and `program` of it.
    #[inline]
    fn last(&self, read: u64, program: u64, parts: &mut Parts) {
        let [mut reads, mut programs] = self.arrays;
        let (read_before, program_before) = (self.spans[READ] - read, self.spans[PROGRAM] - program);
        if read_before + program_before > 0 {
            // The array of a read works before its data cross the bus, that of a program after.
            let of_reads = read_before.min(reads);
            let of_programs = (self.spans[PROGRAM] - self.arrays[PROGRAM]).min(program_before);
            reads -= of_reads;
            programs -= program_before - of_programs;
        }
        parts.add(Part::OwnRead, reads);
        parts.add(Part::OwnProgram, programs);
        parts.add(Part::Transfer, read + program - reads - programs);
    }
}

/// What a lane has to do, and has done.
#[derive(Debug, Clone)]
struct Lane {
    /// The turns and bodies of the steps that have not ended and are no collection's.
    steps: VecDeque<(Turn, u32)>,
    /// The bodies of those that have come to wait for it since a command ended.
    newcomers: Vec<u32>,
    /// The last collection of which commands were counted, and the end of these: that may come later than now.
    collected: (Work, Time),
    /// How long it has worked, in picoseconds, by [`Work`].
    worked: [u64; WORKS],
    /// Of what it did for the host: for requests that write a part of a page.
    updates: u64,
    /// A command waited for the bus, and the die with it.
    bus_wait: u64,
    /// It was free, and the first of its queue waited for something: for what.
    has_held_up: bool,
    held_up: Parts,
    /// The request that the last host command was for, and what the lane has done for it.
    request: RequestBits,
    own: Own,
}

/// What ends: the body of a step, or the lane of one of a collection and what it did.
#[derive(Debug, Clone, Copy)]
struct Ended {
    body: u32,
    work: Work,
}

impl Ended {
    const NOTHING: Self = Self { body: LANE, work: Work::BUFFER };
}

/// When the drive had done a request that has not completed yet, and what the time until then consists of.
#[derive(Debug, Clone, Copy)]
struct Done {
    at: Option<Time>,
    parts: Parts,
}

impl Done {
    const NOTHING: Self = Self { at: None, parts: Parts::NONE };
}

/// A step: a command, several in a row, or something beside flash.
#[derive(Debug, Clone, Copy)]
struct Body {
    /// The request during whose submission it came.
    request: RequestBits,
    work: Work,
    /// It reads or programs a page of which the request writes a part.
    is_update: bool,
    began: Time,
    ready: Time,
    /// How long it waited for the bus that it needed first, or for its turn at memory beside flash.
    queued: Time,
    /// When it was ready, its lane had something to do first: it had done so much by then.
    had_to_wait: bool,
    knows_held_up: bool,
    /// It had to wait for other steps: for what stands in `parts`.
    had_others: bool,
    worked: [u64; WORKS],
    updates: u64,
    bus_wait: u64,
    parts: Parts,
    held_up: Parts,
}

/// What the host takes for a request beside the drive.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostTimes {
    pub(crate) overhead: Time,
    pub(crate) link: Rate,
}

impl HostTimes {
    /// How long the data of a request cross the link.
    fn on_link(&self, request: &Request) -> Time {
        if self.link.is_instant() || !matches!(request.op, Op::Read | Op::Write) {
            return Time::ZERO;
        }
        self.link.span(u64::from(request.sectors) * u64::from(SECTOR_BYTES))
    }
}

/// What is known of kinds, steps, lanes and watchers.
#[derive(Debug)]
pub struct Explanations {
    times: HostTimes,
    kinds: Vec<Kind>,
    /// The request for which something was submitted last.
    request: RequestBits,
    /// The lanes and turns of what it reads: if it programs next, these are pages of which it writes a part.
    reads: Vec<(u32, Turn)>,
    /// How many of `reads` are of this request.
    read_count: usize,
    /// The bodies of nodes.
    nodes: Vec<u32>,
    bodies: Vec<Body>,
    /// Those of steps that have ended, which stay as they are until the next submission. The one that was used last is used
    /// first, so that few lines of memory are touched.
    free: Vec<u32>,
    /// A bit for each kind of work that any command did so far: few have one. And when the last one ended.
    works: u32,
    last_of: LastOf,
    lanes: Vec<Lane>,
    /// What each watcher has heard of last.
    heard: Vec<Ended>,
    /// By watcher.
    done: Vec<Done>,
    ending: Ended,
    /// The parts of the last step that ended and was no join, whose it is, and how long it went on without a pause at the end.
    latest: Parts,
    latest_body: u32,
    latest_run: Time,
    /// The lane that it was on; `LANE` for one beside flash.
    latest_lane: u32,
    /// What a watcher waited for that was somebody else's.
    of_others: Parts,
}

impl Explanations {
    /// Of a drive with so many lanes.
    pub(crate) fn new(lanes: usize, times: HostTimes) -> Self {
        let lane = Lane {
            steps: VecDeque::new(),
            newcomers: Vec::new(),
            collected: (Work::BUFFER, Time::ZERO),
            worked: [0; WORKS],
            updates: 0,
            bus_wait: 0,
            has_held_up: false,
            held_up: Parts::NONE,
            request: NO_REQUEST,
            own: Own::default(),
        };
        Self {
            times,
            kinds: Vec::new(),
            request: NO_REQUEST,
            reads: Vec::new(),
            read_count: 0,
            nodes: Vec::new(),
            bodies: Vec::new(),
            free: Vec::new(),
            works: 0,
            last_of: [Time::ZERO; WORKS],
            lanes: vec![lane; lanes],
            heard: Vec::new(),
            done: Vec::new(),
            ending: Ended::NOTHING,
            latest: Parts::NONE,
            latest_body: LANE,
            latest_run: Time::ZERO,
            latest_lane: 0,
            of_others: Parts::NONE,
        }
    }

    /// Hear of what was told, batch by batch, and tell `observer` of requests that complete, each after its parts. The batch is
    /// empty afterwards.
    pub fn hear(&mut self, batch: &mut Batch, observer: &mut dyn Observer) {
        self.kinds.append(&mut batch.kinds);
        let mut from = 0;
        for completed in batch.completed.iter().map(Some).chain([None]) {
            let to = completed.map_or(batch.told.len(), |completed| completed.after as usize);
            for told in &batch.told[from..to] {
                self.hear_of(told);
            }
            if let Some(completed) = completed {
                self.completed(completed, observer);
            }
            from = to;
        }
        batch.clear();
    }

    #[inline(always)]
    fn hear_of(&mut self, told: &Told) {
        match *told {
            Told::Submitted { lane, kind, turn, request, waits, at } => {
                let kind = self.kinds[kind as usize];
                let body = self.submitted(request, kind.work, at);
                self.lanes[lane as usize].steps.push_back((turn, body));
                self.reads_next(lane, turn, kind.work);
                if waits {
                    self.has_to_wait(body, lane, at);
                }
            }
            Told::Released { lane, turn, waits, at } => {
                if let Some(body) = self.body_of(lane, turn) {
                    self.released(body, false, at);
                    if waits {
                        self.has_to_wait(body, lane, at);
                    }
                }
            }
            Told::HeldUp { lane, kind, span } => self.held_up(lane, self.kinds[kind as usize], span),
            Told::HasBus { lane, kind, waited, at } => {
                self.has_bus(self.kinds[kind as usize], lane, (waited, at));
            }
            Told::Ended { lane, kind, count, started, end } => {
                self.ended(lane, self.kinds[kind as usize], count, (started, end));
            }
            Told::Beside { node, request, at } => {
                let body = self.submitted(request, Work::BUFFER, at);
                put(&mut self.nodes, node, body, 0);
            }
            Told::WaitsForTurn { node, span } => {
                self.bodies[self.nodes[node as usize] as usize].queued = span;
            }
            // A join is no work of its own.
            Told::ReleasedNode { node, is_join, at } => self.released(self.nodes[node as usize], is_join, at),
            Told::Moved { node, at } => self.moved(node, at),
            Told::EndedBeside { node, is_awaited } => self.ended_beside(node, is_awaited),
            Told::Heard { watcher } => put(&mut self.heard, watcher, self.ending, Ended::NOTHING),
            Told::Done { watcher, request, begun, at } => {
                let parts = *self.parts((watcher, request), begun, at);
                put(&mut self.done, watcher, Done { at: Some(at), parts }, Done::NOTHING);
            }
            Told::DoneAtOnce { watcher, at } => {
                put(&mut self.done, watcher, Done { at: Some(at), ..Done::NOTHING }, Done::NOTHING);
            }
        }
    }

    /// A request completes: add to its parts what is the host's.
    fn completed(&mut self, completed: &Completed, observer: &mut dyn Observer) {
        let Completed { watcher, begun, hears, .. } = *completed;
        let record = completed.record();
        let RequestRecord { index, arrival, start, end, ref request } = record;
        if hears {
            put(&mut self.heard, watcher, self.ending, Ended::NOTHING);
        }
        let HostTimes { overhead, .. } = self.times;
        let link = self.times.on_link(request);
        let before = self.done.get_mut(watcher as usize);
        let (done, parts) = match before.and_then(|done| Some((done.at.take()?, &mut done.parts))) {
            Some(before) => before,
            // What ends now says them.
            None => (end, self.parts((watcher, index as RequestBits), begun, end)),
        };
        parts.add(Part::HostQueue, start.since(arrival).0);
        parts.add(Part::Overhead, overhead.0);
        parts.add(Part::Link, link.0);
        parts.add(Part::LinkWait, (begun.since(start) - overhead + end.since(done) - link).0);
        observer.on_parts(parts);
        observer.on_request(&record);
    }

    /// The body of a command that has not ended, unless it is a collection's.
    fn body_of(&self, lane: u32, turn: Turn) -> Option<u32> {
        let steps = &self.lanes[lane as usize].steps;
        let (first, _) = *steps.front()?;
        let behind = |turn: Turn| turn.wrapping_sub(first);
        let at = steps.binary_search_by_key(&behind(turn), |(turn, _)| behind(*turn)).ok()?;
        Some(steps[at].1)
    }

    /// A step begins to exist. Returns its body.
    #[inline(always)]
    fn submitted(&mut self, request: RequestBits, work: Work, now: Time) -> u32 {
        let body = self.free.pop().unwrap_or_else(|| self.new_body());
        if request != self.request {
            (self.request, self.read_count) = (request, 0);
        }
        let is_update = self.read_count > 0 && work == Work::PROGRAM;
        if is_update {
            self.read_for_update();
        }
        let state = &mut self.bodies[body as usize];
        (state.request, state.work, state.is_update) = (request, work, is_update);
        (state.began, state.ready, state.queued) = (now, now, Time::ZERO);
        (state.had_to_wait, state.had_others) = (false, false);
        body
    }

    /// A command was submitted: it may read for a program that comes next.
    #[inline(always)]
    fn reads_next(&mut self, lane: u32, turn: Turn, work: Work) {
        // Without a jump: whether a command reads or programs cannot be foreseen.
        if self.read_count == self.reads.len() {
            self.reads.resize(2 * self.read_count + 1, (lane, turn));
        }
        self.reads[self.read_count] = (lane, turn);
        self.read_count += usize::from(work == Work::READ);
    }

    /// What was read is of pages of which the request writes a part.
    #[cold]
    #[inline(never)]
    fn read_for_update(&mut self) {
        for at in 0..std::mem::take(&mut self.read_count) {
            let (lane, turn) = self.reads[at];
            if let Some(body) = self.body_of(lane, turn) {
                self.bodies[body as usize].is_update = true;
            }
        }
    }

    #[cold]
    fn new_body(&mut self) -> u32 {
        self.bodies.push(Body {
            request: NO_REQUEST,
            work: Work::BUFFER,
            is_update: false,
            began: Time::ZERO,
            ready: Time::ZERO,
            queued: Time::ZERO,
            had_to_wait: false,
            knows_held_up: false,
            had_others: false,
            worked: [0; WORKS],
            updates: 0,
            bus_wait: 0,
            parts: Parts::NONE,
            held_up: Parts::NONE,
        });
        self.bodies.len() as u32 - 1
    }

    /// A step beside flash ends, or a join.
    #[inline]
    fn ended_beside(&mut self, node: u32, is_awaited: bool) {
        let body = self.nodes[node as usize];
        self.free.push(body);
        if is_awaited {
            self.ending = Ended { body, work: self.bodies[body as usize].work };
        }
    }

    /// The last of what a step waits for has ended with what is ending now.
    #[cold]
    #[inline(never)]
    fn released(&mut self, body: u32, is_join: bool, now: Time) {
        let last = self.ending;
        if is_join {
            let is_update = self.bodies.get(last.body as usize).is_some_and(|last| last.is_update);
            let state = &mut self.bodies[body as usize];
            (state.work, state.is_update) = (last.work, is_update);
        }
        let Body { request, began, .. } = self.bodies[body as usize];
        let parts = match self.parts_of(last, request, began) {
            Some(parts) => *parts,
            None => self.waited_for(last, request, began, now),
        };
        let state = &mut self.bodies[body as usize];
        (state.ready, state.had_others, state.parts) = (now, true, parts);
        if self.latest_body == body {
            self.latest_body = LANE;
        }
    }

    /// The parts of a step that ends now, if it is of the same request, and goes back to when that began to wait.
    #[inline]
    fn parts_of(&mut self, last: Ended, request: RequestBits, began: Time) -> Option<&mut Parts> {
        let body = self.bodies.get_mut(last.body as usize)?;
        if body.request != request || body.began != began {
            return None;
        }
        Some(if last.body == self.latest_body { &mut self.latest } else { &mut body.parts })
    }

    /// What the time since `began` consists of, when a request began to wait for a step of another one, or of a collection,
    /// which ends now. That other one has waited as well. In which order is not known: a part of its time is divided as all of it.
    /// Of the dies that it waited at before its last command, only one counts that had most of that time. Otherwise who begins a row
    /// of waits names the die for everybody behind it.
    fn waited_for(&self, last: Ended, request: RequestBits, began: Time, now: Time) -> Parts {
        let mut parts = Parts::NONE;
        let mut left = now.since(began).0;
        let Some(body) = self.bodies.get(last.body as usize) else {
            // What the same lane did for the request meanwhile is its own.
            let at = last.body & !LANE;
            let lane = self.lanes.get(at as usize);
            if let Some(Lane { own, .. }) = lane.filter(|lane| lane.request == request) {
                let read = own.spans[READ].min(left);
                let program = own.spans[PROGRAM].min(left - read);
                own.last(read, program, &mut parts);
                let bus_wait = own.bus_wait.min(left - read - program);
                parts.add(Part::BusWait, bus_wait);
                left -= read + program + bus_wait;
            }
            parts.add(last.work.behind(), left);
            parts.waited_at(at, left);
            return parts;
        };
        // The other one's time, from its end back: its last work, what its lane did before that, and what it depended on.
        let run = left.min(self.latest_run.0);
        parts.add(last.work.behind(), run);
        parts.add_updates(if body.is_update { run } else { 0 });
        left -= run;
        let is_latest = last.body == self.latest_body;
        let (all, depended) = match body {
            body if !is_latest => (&body.parts, &Parts::NONE),
            body if body.had_others => (&self.latest, &body.parts),
            _ => (&self.latest, &Parts::NONE),
        };
        // What was beside flash was at no die of its own.
        let lane = Some(self.latest_lane).filter(|lane| *lane != LANE);
        if let Some(lane) = lane {
            parts.waited_at(lane, run);
        }
        let on_lane = all.without(depended).as_waits(last.work, self.latest_run.0);
        let die_of_all = if is_latest { lane.map(|lane| (lane, on_lane.sum())) } else { all.most_wait() };
        let depends = depended.as_waits(last.work, 0);
        for (waits, die) in [(on_lane, die_of_all), (depends, depended.most_wait())] {
            let total = waits.sum();
            let span = left.min(total);
            if span == 0 {
                continue;
            }
            let before = left;
            parts.add_updates(share(waits.behind_updates(), span, total));
            for part in Part::ALL.into_iter().filter(|part| may_be(*part, &self.last_of, began)) {
                let ps = share(waits.get(part), span, total);
                parts.add(part, ps);
                left -= ps;
            }
            if let Some((die, at_die)) = die {
                parts.waited_at(die, share(at_die.min(total), before - left, total));
            }
        }
        parts.add(last.work.behind(), left);
        parts
    }

    /// A command begins on a lane that was free before, and held up those behind it for so long.
    #[cold]
    #[inline(never)]
    fn held_up(&mut self, at: u32, kind: Kind, span: Time) {
        let lane = &mut self.lanes[at as usize];
        let mut left = span.0;
        lane.has_held_up = true;
        if kind.is_background {
            return lane.held_up.add(kind.work.behind(), left);
        }
        let Some((_, body)) = lane.steps.front() else { return };
        let body = &self.bodies[*body as usize];
        let waited = body.ready.since(body.began).0;
        if body.had_others && waited > 0 {
            // Of its own waits it is not known which came first.
            let span = left;
            for part in Part::OF_CAUSES {
                let ps = share(body.parts.get(part), span, waited).min(left);
                lane.held_up.add(part, ps);
                left -= ps;
            }
        }
        lane.held_up.add(Part::Order, left);
        lane.held_up.add_updates(if body.is_update { left } else { 0 });
    }

    /// Nothing but its lane holds a command back from now on, and that has other things to do first.
    #[inline(always)]
    fn has_to_wait(&mut self, waiting: u32, at: u32, now: Time) {
        let lane = &mut self.lanes[at as usize];
        let body = &mut self.bodies[waiting as usize];
        (body.had_to_wait, body.knows_held_up) = (true, lane.has_held_up);
        (body.worked, body.updates, body.bus_wait) = (lane.worked, lane.updates, lane.bus_wait);
        if lane.has_held_up {
            body.held_up = lane.held_up;
        }
        let (work, until) = lane.collected;
        if until > now {
            // What is counted in advance is still to come.
            let total = &mut body.worked[work.index()];
            *total = total.wrapping_sub((until - now).0);
        }
        lane.newcomers.push(waiting);
    }

    /// A command has the bus that it has waited for.
    #[cold]
    #[inline(never)]
    fn has_bus(&mut self, kind: Kind, at: u32, (waited, now): (Time, Time)) {
        let lane = &mut self.lanes[at as usize];
        let work = kind.work.index();
        // Who waits for a collection waits for all of it.
        let total = if kind.is_background { &mut lane.worked[work] } else { &mut lane.bus_wait };
        *total += waited.0;
        let asked = now - waited;
        for &newcomer in &lane.newcomers {
            let body = &mut self.bodies[newcomer as usize];
            let over = body.ready.0.saturating_sub(asked.0);
            let total = if kind.is_background { &mut body.worked[work] } else { &mut body.bus_wait };
            *total = total.wrapping_add(over);
        }
        if !kind.is_background {
            let Some((_, body)) = lane.steps.front() else { return };
            self.bodies[*body as usize].queued = waited;
        }
    }

    /// A command ends, or several of a collection in a row.
    #[inline(always)]
    fn ended(&mut self, at: u32, kind: Kind, count: u32, (started, end): (Time, Time)) {
        let work = kind.work.index();
        self.works |= 1 << work;
        // Those of a row may end later than others of which is told after them.
        self.last_of[work] = self.last_of[work].max(end);
        let array = Time(kind.array.0 * u64::from(count));
        let lane = &mut self.lanes[at as usize];
        if !lane.newcomers.is_empty() {
            lane.came(&mut self.bodies, kind, array, (started, end));
        }
        if kind.is_background {
            lane.worked[work] += end.since(started).0;
            lane.collected = (kind.work, end);
            self.ending = Ended { body: LANE | at, work: kind.work };
            return;
        }
        self.worked(at, &Ran { started, end, array, transfer: kind.transfer });
    }

    /// A command ends that is no collection's: what is told and released now is so by that.
    #[inline(always)]
    fn worked(&mut self, at: u32, ran: &Ran) {
        let lane = &mut self.lanes[at as usize];
        let Some((_, step)) = lane.steps.pop_front() else { return };
        self.free.push(step);
        let span = ran.end.since(ran.started);
        // With its data, for the bus: so did everybody who waited for the die.
        let work = ran.array + ran.transfer;
        let bus_wait = span - work;
        let body = &self.bodies[step as usize];
        self.ending = Ended { body: step, work: body.work };
        let parts = &mut self.latest;
        if body.had_others {
            *parts = body.parts;
        } else {
            parts.clear();
        }
        let is_own = lane.request == body.request;
        let left = (ran.started - body.queued).since(body.ready).0;
        if left > 0 {
            let own = body.waited(lane, is_own, (self.works, &self.last_of), left, parts);
            parts.waited_at(at, left - own);
        }
        (self.latest_body, self.latest_run, self.latest_lane) = (step, span, at);
        lane.worked[body.work.index()] += work.0;
        lane.bus_wait += bus_wait.0;
        if !body.work.is_of_host() {
            return parts.add(body.work.own(), (span + body.queued).0);
        }
        parts.add(body.work.own(), ran.array.0);
        parts.add(Part::Transfer, ran.transfer.0);
        parts.add(Part::BusWait, (bus_wait + body.queued).0);
        let updates = if body.is_update { work.0 } else { 0 };
        lane.updates += updates;
        if !is_own {
            (lane.request, lane.own) = (body.request, Own::default());
        }
        let (own, kind) = (&mut lane.own, body.work.index() & 1);
        own.spans[kind] += work.0;
        own.bus_wait += bus_wait.0;
        own.arrays[kind] += ran.array.0;
        own.updates += updates;
    }

    /// What goes on beside flash for a node ends now.
    #[cold]
    #[inline(never)]
    fn moved(&mut self, node: u32, now: Time) {
        let at = self.nodes[node as usize];
        let body = &self.bodies[at as usize];
        let span = now.since(body.ready) - body.queued;
        self.latest = if body.had_others { body.parts } else { Parts::NONE };
        self.latest.add(Part::BufferWait, body.queued.0);
        self.latest.add(Part::Buffer, span.0);
        (self.latest_body, self.latest_run, self.latest_lane) = (at, span, LANE);
    }

    /// What the time since `began` consists of, for the watcher of a request that has just heard of the last thing that it
    /// waited for. Nothing was submitted since then: what is known of that stands.
    #[inline]
    fn parts(&mut self, (watcher, request): (u32, RequestBits), began: Time, now: Time) -> &mut Parts {
        let last = self.heard[watcher as usize];
        if self.parts_of(last, request, began).is_none() {
            self.of_others = self.waited_for(last, request, began, now);
            return &mut self.of_others;
        }
        if last.body == self.latest_body {
            &mut self.latest
        } else {
            &mut self.bodies[last.body as usize].parts
        }
    }
}

impl Lane {
    /// A command ends, and others have come to wait since the last one did: for those, what was over of it by then does not count.
    #[inline(always)]
    fn came(&mut self, bodies: &mut [Body], kind: Kind, array: Time, (started, end): (Time, Time)) {
        // With its data, for the bus. A collection waits for nothing that it would not count as work.
        let alone = array + kind.transfer;
        let bus_wait = if kind.is_background { Time::ZERO } else { end.since(started) - alone };
        let is_update = !kind.is_background
            && self.steps.front().is_some_and(|(_, under_way)| bodies[*under_way as usize].is_update);
        for newcomer in self.newcomers.drain(..) {
            let body = &mut bodies[newcomer as usize];
            let over = body.ready.0.saturating_sub(started.0);
            let waited = over.saturating_sub((alone - kind.bus_out).0).min(bus_wait.0);
            let total = &mut body.worked[kind.work.index()];
            *total = total.wrapping_add(over - waited);
            body.bus_wait += waited;
            if is_update {
                body.updates = body.updates.wrapping_add(over - waited);
            }
        }
    }
}

impl Body {
    /// Add to `parts` the `left` until the command began on its lane, as it was ready. Returns what of it the lane worked for the
    /// same request.
    #[inline(always)]
    fn waited(
        &self,
        lane: &Lane,
        is_own: bool,
        (works, last_of): (u32, &LastOf),
        mut left: u64,
        parts: &mut Parts,
    ) -> u64 {
        let mut of_own = 0;
        if self.had_to_wait {
            let of_host = [READ, PROGRAM].map(|work| lane.worked[work].wrapping_sub(self.worked[work]));
            let bus_wait = lane.bus_wait - self.queued.0 - self.bus_wait;
            left = left.wrapping_sub(of_host[READ] + of_host[PROGRAM] + bus_wait);
            for (part, work) in causes(works) {
                let waited = lane.worked[work].wrapping_sub(self.worked[work]);
                parts.add(part, waited);
                left = left.wrapping_sub(waited);
            }
            let [mut behind_read, mut behind_program] = of_host;
            let mut updates = lane.updates.wrapping_sub(self.updates);
            if is_own {
                let own = [READ, PROGRAM].map(|work| lane.own.spans[work].min(of_host[work]));
                lane.own.last(own[READ], own[PROGRAM], parts);
                behind_read -= own[READ];
                behind_program -= own[PROGRAM];
                of_own = own[READ] + own[PROGRAM] + lane.own.bus_wait.min(bus_wait);
                updates -= lane.own.updates.min(updates);
            }
            parts.add_updates(updates.min(behind_read + behind_program));
            parts.add(Part::BehindRead, behind_read);
            parts.add(Part::BehindProgram, behind_program);
            parts.add(Part::BusWait, bus_wait);
        }
        if left > 0 && lane.has_held_up {
            left = self.held_up(lane, last_of, left, parts);
        }
        parts.add(Part::Order, left);
        of_own
    }

    /// Add to `parts` what others waited for that held the command up for `left`. Returns what of it is nothing in particular.
    #[cold]
    #[inline(never)]
    fn held_up(&self, lane: &Lane, last_of: &LastOf, left: u64, parts: &mut Parts) -> u64 {
        let before = if self.knows_held_up { self.held_up } else { Parts::NONE };
        // When it was ready, somebody may have been waiting already: then this is more than its own wait.
        let total = left.max(lane.held_up.sum() - before.sum());
        let mut rest = left;
        for part in Part::OF_CAUSES.into_iter().filter(|part| may_be(*part, last_of, self.ready)) {
            let ps = share(lane.held_up.get(part) - before.get(part), left, total).min(rest);
            parts.add(part, ps);
            rest -= ps;
        }
        let updates = lane.held_up.behind_updates() - before.behind_updates();
        parts.add_updates(share(updates, left, total).min(rest));
        rest
    }
}

/// Put something at a place of a list, with `nothing` at those before it that were never asked for.
#[inline(always)]
fn put<T: Copy>(list: &mut Vec<T>, at: u32, what: T, nothing: T) {
    if list.len() <= at as usize {
        list.resize(at as usize + 1, nothing);
    }
    list[at as usize] = what;
}

/// Of `span`, as much as `part` is of `whole`.
fn share(part: u64, span: u64, whole: u64) -> u64 {
    (u128::from(part) * u128::from(span) / u128::from(whole)) as u64
}

/// The parts and numbers of work that has a bit, and is for causes that the drive has for itself.
#[inline(always)]
fn causes(works: u32) -> impl Iterator<Item = (Part, usize)> {
    let mut bits = works >> Work::FIRST_CAUSE;
    std::iter::from_fn(move || {
        let at = bits.trailing_zeros() as usize;
        (bits != 0).then(|| {
            bits &= bits - 1;
            (Part::OF_CAUSES[at], at + Work::FIRST_CAUSE)
        })
    })
}
