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

use std::collections::VecDeque;

use super::ticket::Item;
use crate::cause::{CAUSES, Cause};
use crate::flash::port::Submission;
use crate::metrics::parts::{Part, Parts, Work};
use crate::time::Time;

/// Stands for no request.
pub(super) const NO_REQUEST: u64 = u64::MAX;

/// In the place of a body, with the number of a lane: of steps of collections, which have none.
const LANE: u32 = 1 << 31;

/// The bit of the host among those of causes.
const HOST: u32 = 1 << Cause::Host as u32;

/// What a lane has done, in picoseconds, by cause.
type Busy = [u64; CAUSES];

/// By cause, when its last command ended.
type LastOf = [Time; CAUSES];

/// Whether what a part stands for may have been at work after `since`: who came later did not wait for it.
fn may_be(part: Part, last_of: &LastOf, since: Time) -> bool {
    part.cause().is_none_or(|cause| last_of[cause as usize] >= since)
}

/// What a lane is doing.
#[derive(Debug, Clone, Copy)]
pub(super) enum UnderWay {
    Nothing,
    Bus(Time),
    /// Since then, at the command with this turn. Commands in a row are all for one cause, and those ahead of the last are
    /// counted when they begin: it may begin later than now.
    Work(Submission, Time, u64),
}

/// How a command ran, once it has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ran {
    /// It has held its lane since then.
    pub(super) started: Time,
    pub(super) end: Time,
    pub(super) array: Time,
    pub(super) transfer: Time,
}

/// What a lane has done for a request, in picoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    read: u64,
    program: u64,
    /// Of both, what the array did for each of them, and what the bus did.
    read_array: u64,
    program_array: u64,
    transfer: u64,
    /// Of both, for a part of a page.
    updates: u64,
}

impl Own {
    /// Add to `parts` the last `read` and `program` of it.
    #[inline]
    fn last(&self, read: u64, program: u64, parts: &mut Parts) {
        let (mut reads, mut programs, mut transfer) = (self.read_array, self.program_array, self.transfer);
        let (read_before, program_before) = (self.read - read, self.program - program);
        if read_before + program_before > 0 {
            // The array of a read works before its data cross the bus, that of a program after.
            let of_reads = read_before.min(reads);
            let of_programs = (self.program - self.program_array).min(program_before);
            reads -= of_reads;
            programs -= program_before - of_programs;
            transfer = transfer.saturating_sub(read_before - of_reads + of_programs);
        }
        parts.add(Part::OwnRead, reads);
        parts.add(Part::OwnProgram, programs);
        transfer = transfer.min(read + program - reads - programs);
        parts.add(Part::Transfer, transfer);
        parts.add(Part::BusWait, read + program - reads - programs - transfer);
    }
}

/// What a lane has done beside [`Busy`].
#[derive(Debug, Clone)]
struct Lane {
    /// The steps that have not ended and are no collection's, by turn; with a log, all.
    steps: VecDeque<(u64, Step)>,
    /// Of the time for the host.
    read: u64,
    /// Of the time for the host: for requests that write a part of a page.
    updates: u64,
    /// A command waited for the bus, and the die with it.
    bus_wait: u64,
    /// When its queue was filled last.
    filled: Time,
    /// It was free, and the first of its queue waited for something: for what.
    has_held_up: bool,
    held_up: Parts,
    /// The request that the last host command was for, and what the lane has done for it.
    request: u64,
    own: Own,
}

/// A step: a command, several in a row, or something beside flash.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// The request during whose submission it came.
    request: u64,
    body: u32,
    work: Work,
    /// It reads or programs a page of which the request writes a part.
    is_update: bool,
}

impl Step {
    const NOTHING: Self = Self { request: NO_REQUEST, body: LANE, work: Work::Buffer, is_update: false };
}

/// What else is known of a step.
#[derive(Debug, Clone, Copy)]
struct Body {
    began: Time,
    ready: Time,
    /// How long it waited for the bus that it needed first, or for its turn at memory beside flash.
    queued: Time,
    /// When it was ready, its lane had something to do first: it had done so much by then. Of the host and the causes that have
    /// a bit; those that were unknown had done nothing.
    had_to_wait: bool,
    knows_held_up: bool,
    /// It had to wait for other steps: for what stands in `parts`.
    had_others: bool,
    known: u32,
    read: u64,
    updates: u64,
    bus_wait: u64,
    busy: Busy,
    parts: Parts,
    held_up: Parts,
}

/// What is known of steps, lanes and watchers.
#[derive(Debug, Clone)]
pub(super) struct Explanations {
    /// The request that was handed to the drive last: what is submitted is for it.
    request: u64,
    /// What it reads: if it programs next, these are pages of which it writes a part.
    reads: Vec<Item>,
    /// By node.
    steps: Vec<Step>,
    bodies: Vec<Body>,
    /// Bodies of nodes that have ended, which stay as they are until the next submission. The one that was used last is used
    /// first, so that few lines of memory are touched.
    free: Vec<u32>,
    /// A bit for each cause that any command had so far: few have one. And when the last one ended.
    causes: u32,
    last_of: LastOf,
    lanes: Vec<Lane>,
    /// What each watcher has heard of last.
    told: Vec<Step>,
    /// What is ending.
    ending: Step,
    /// The parts of the last step that ended and was no join, whose it is, and how long it went on without a pause at the end.
    latest: Parts,
    latest_body: u32,
    latest_run: Time,
    /// The lane that it was on.
    latest_lane: u32,
    /// What a watcher waited for that was somebody else's.
    of_others: Parts,
}

// Called from the middle of the hot loop, and seldom wanted there: kept out of it.
impl Explanations {
    pub(super) fn new(lanes: usize) -> Self {
        let lane = Lane {
            steps: VecDeque::new(),
            read: 0,
            updates: 0,
            bus_wait: 0,
            filled: Time::ZERO,
            has_held_up: false,
            held_up: Parts::NONE,
            request: NO_REQUEST,
            own: Own::default(),
        };
        Self {
            request: NO_REQUEST,
            reads: Vec::new(),
            steps: Vec::new(),
            bodies: Vec::new(),
            free: Vec::new(),
            causes: 0,
            last_of: [Time::ZERO; CAUSES],
            lanes: vec![lane; lanes],
            told: Vec::new(),
            ending: Step::NOTHING,
            latest: Parts::NONE,
            latest_body: LANE,
            latest_run: Time::ZERO,
            latest_lane: 0,
            of_others: Parts::NONE,
        }
    }

    /// What is submitted from now on is for this request.
    pub(super) fn begins(&mut self, request: u64) {
        self.request = request;
        self.reads.clear();
    }

    /// Where the step of a command is among those of its lane.
    fn place(&self, lane: u32, turn: u64) -> Option<usize> {
        self.lanes[lane as usize].steps.binary_search_by_key(&turn, |(turn, _)| *turn).ok()
    }

    /// The step of a command. Most are asked for as the first of their lane.
    #[inline]
    fn step_of(&self, lane: u32, turn: u64) -> Step {
        match self.lanes[lane as usize].steps.front() {
            Some((first, step)) if *first == turn => *step,
            _ => self.place(lane, turn).map_or(Step::NOTHING, |at| self.lanes[lane as usize].steps[at].1),
        }
    }

    #[inline]
    fn step_mut(&mut self, item: Item) -> Option<&mut Step> {
        match item {
            Item::Command { lane, turn } => {
                let at = self.place(lane, turn)?;
                Some(&mut self.lanes[lane as usize].steps[at].1)
            }
            Item::Node(node) => self.steps.get_mut(node as usize),
        }
    }

    /// The request for which a command was submitted.
    pub(super) fn request_of(&self, lane: u32, turn: u64) -> Option<u64> {
        let Step { request, .. } = self.step_of(lane, turn);
        (request != NO_REQUEST).then_some(request)
    }

    /// A command of a collection begins to exist. A log has the request that it is for.
    #[cold]
    pub(super) fn collected(&mut self, lane: u32, turn: u64) {
        let step = Step { request: self.request, ..Step::NOTHING };
        self.lanes[lane as usize].steps.push_back((turn, step));
    }

    /// The first command of a lane ends: it is a collection's.
    #[cold]
    pub(super) fn forget(&mut self, lane: u32) {
        self.lanes[lane as usize].steps.pop_front();
    }

    /// A step beside flash begins to exist, or a join.
    pub(super) fn begins_beside(&mut self, node: u32, now: Time) {
        let _ = self.submitted(Item::Node(node), Work::Buffer, now);
    }

    /// A step begins to exist. Returns its body.
    #[inline]
    pub(super) fn submitted(&mut self, item: Item, work: Work, now: Time) -> u32 {
        let body = self.free.pop().unwrap_or_else(|| self.new_body());
        let is_update = work == Work::Program && !self.reads.is_empty();
        match work {
            Work::Read => self.reads.push(item),
            Work::Program => {
                for at in 0..self.reads.len() {
                    if let Some(step) = self.step_mut(self.reads[at]) {
                        step.is_update = true;
                    }
                }
                self.reads.clear();
            }
            _ => {}
        }
        let step = Step { request: self.request, body, work, is_update };
        match item {
            Item::Command { lane, turn } => self.lanes[lane as usize].steps.push_back((turn, step)),
            Item::Node(node) => {
                if self.steps.len() <= node as usize {
                    self.steps.resize(node as usize + 1, Step::NOTHING);
                }
                self.steps[node as usize] = step;
            }
        }
        let state = &mut self.bodies[body as usize];
        (state.began, state.ready, state.queued) = (now, now, Time::ZERO);
        (state.had_to_wait, state.had_others) = (false, false);
        body
    }

    #[cold]
    fn new_body(&mut self) -> u32 {
        self.bodies.push(Body {
            began: Time::ZERO,
            ready: Time::ZERO,
            queued: Time::ZERO,
            had_to_wait: false,
            knows_held_up: false,
            had_others: false,
            known: 0,
            read: 0,
            updates: 0,
            bus_wait: 0,
            busy: [0; CAUSES],
            parts: Parts::NONE,
            held_up: Parts::NONE,
        });
        self.bodies.len() as u32 - 1
    }

    /// A step beside flash waits for its turn first.
    pub(super) fn waits_for_turn(&mut self, node: u32, span: Time) {
        self.bodies[self.steps[node as usize].body as usize].queued = span;
    }

    /// A step ends: what is told and released now is so by that.
    #[inline]
    pub(super) fn ends(&mut self, item: Item, is_awaited: bool) {
        let step = match item {
            Item::Command { lane, .. } => {
                let first = self.lanes[lane as usize].steps.pop_front();
                first.map_or(Step::NOTHING, |(_, step)| step)
            }
            Item::Node(node) => self.steps[node as usize],
        };
        self.free.push(step.body);
        if is_awaited {
            self.ending = step;
        }
    }

    /// The same for a step of a collection.
    #[inline]
    pub(super) fn ends_collecting(&mut self, cause: Cause, lane: u32) {
        self.ending = Step { body: LANE | lane, work: Work::For(cause), ..Step::NOTHING };
    }

    /// What a command waits for has ended with what is ending now. Returns its body, if it is no collection's.
    pub(super) fn released_command(&mut self, lane: u32, turn: u64, now: Time) -> Option<u32> {
        let body = self.step_of(lane, turn).body;
        if body as usize >= self.bodies.len() {
            return None;
        }
        self.released(Item::Command { lane, turn }, false, now);
        Some(body)
    }

    /// The last of what a step waits for has ended with what is ending now. A join is no work of its own.
    #[cold]
    #[inline(never)]
    pub(super) fn released(&mut self, item: Item, is_join: bool, now: Time) {
        let last = self.ending;
        let Some(step) = self.step_mut(item) else { return };
        if is_join {
            (step.work, step.is_update) = (last.work, last.is_update);
        }
        let Step { request, body, .. } = *step;
        let began = self.bodies[body as usize].began;
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
    fn parts_of(&mut self, last: Step, request: u64, began: Time) -> Option<&mut Parts> {
        let body = self.bodies.get_mut(last.body as usize)?;
        if last.request != request || body.began != began {
            return None;
        }
        Some(if last.body == self.latest_body { &mut self.latest } else { &mut body.parts })
    }

    /// What the time since `began` consists of, when a request began to wait for a step of another one, or of a collection,
    /// which ends now. That other one has waited as well. In which order is not known: a part of its time is divided as all of it.
    fn waited_for(&self, last: Step, request: u64, began: Time, now: Time) -> Parts {
        let mut parts = Parts::NONE;
        let mut left = now.since(began).0;
        let Some(body) = self.bodies.get(last.body as usize) else {
            // What the same lane did for the request meanwhile is its own.
            let at = last.body & !LANE;
            let lane = self.lanes.get(at as usize);
            if let Some(Lane { own, .. }) = lane.filter(|lane| lane.request == request) {
                let (read, program) = (own.read.min(left), own.program.min(left - own.read.min(left)));
                own.last(read, program, &mut parts);
                left -= read + program;
            }
            parts.add(last.work.behind(), left);
            parts.waited_at(at, left);
            return parts;
        };
        // The other one's time, from its end back: its last work, what its lane did before that, and what it depended on.
        let run = left.min(self.latest_run.0);
        parts.add(last.work.behind(), run);
        parts.add_updates(if last.is_update { run } else { 0 });
        parts.waited_at(
            if last.body == self.latest_body { self.latest_lane } else { body.parts.longest_wait().0 },
            left,
        );
        left -= run;
        let (all, depended) = match body {
            body if last.body != self.latest_body => (&body.parts, &Parts::NONE),
            body if body.had_others => (&self.latest, &body.parts),
            _ => (&self.latest, &Parts::NONE),
        };
        let on_lane = all.without(depended).as_waits(last.work, self.latest_run.0);
        for waits in [on_lane, depended.as_waits(last.work, 0)] {
            let total = waits.sum();
            let span = left.min(total);
            if span == 0 {
                continue;
            }
            parts.add_updates(share(waits.behind_updates(), span, total));
            for part in Part::ALL.into_iter().filter(|part| may_be(*part, &self.last_of, began)) {
                let ps = share(waits.get(part), span, total);
                parts.add(part, ps);
                left -= ps;
            }
        }
        parts.add(last.work.behind(), left);
        parts
    }

    /// The queue of an idle lane has a command.
    #[inline]
    pub(super) fn fills(&mut self, lane: u32, now: Time) {
        self.lanes[lane as usize].filled = now;
    }

    /// A command begins on a lane that was free since `free`. As long as it was in its queue, it held up those behind it.
    #[cold]
    #[inline(never)]
    pub(super) fn held_up(&mut self, (at, turn): (u32, u64), submission: Submission, free: Time, now: Time) {
        let step = self.step_of(at, turn);
        let lane = &mut self.lanes[at as usize];
        let mut left = now.since(lane.filled.max(free)).0;
        if left == 0 {
            return;
        }
        lane.has_held_up = true;
        if submission.is_background() {
            return lane.held_up.add(Part::OF_CAUSES[submission.cause_index() - 1], left);
        }
        let body = &self.bodies[step.body as usize];
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
        lane.held_up.add_updates(if step.is_update { left } else { 0 });
    }

    /// Nothing but its lane holds a command back from now on, and the lane has other things to do first.
    #[inline]
    pub(super) fn has_to_wait(
        &mut self,
        (at, waiting): (u32, u32),
        busy: &Busy,
        under_way: UnderWay,
        now: Time,
    ) {
        let body = &mut self.bodies[waiting as usize];
        let lane = &self.lanes[at as usize];
        (body.read, body.updates, body.bus_wait) = (lane.read, lane.updates, lane.bus_wait);
        let working = match under_way {
            UnderWay::Work(submission, since, turn) => Some((submission, since, turn)),
            UnderWay::Bus(since) => {
                body.bus_wait += now.since(since).0;
                None
            }
            UnderWay::Nothing => None,
        };
        self.causes |= working.map_or(0, |(submission, ..)| 1 << submission.cause_index());
        (body.had_to_wait, body.known) = (true, self.causes);
        body.knows_held_up = lane.has_held_up;
        if lane.has_held_up {
            body.held_up = lane.held_up;
        }
        body.busy[Cause::Host as usize] = busy[Cause::Host as usize];
        for cause in causes(self.causes & !HOST) {
            body.busy[cause] = busy[cause];
        }
        if let Some((submission, since, turn)) = working {
            let work = now.0.wrapping_sub(since.0);
            let total = &mut body.busy[submission.cause_index()];
            *total = total.wrapping_add(work);
            if submission.is_host_read() {
                body.read = body.read.wrapping_add(work);
            }
            if !submission.is_background() && self.step_of(at, turn).is_update {
                let body = &mut self.bodies[waiting as usize];
                body.updates = body.updates.wrapping_add(work);
            }
        }
    }

    /// A command has the bus that it has waited for.
    #[cold]
    #[inline(never)]
    pub(super) fn has_bus(&mut self, submission: Submission, (lane, turn): (u32, u64), waited: Time) {
        self.lanes[lane as usize].bus_wait += waited.0;
        if !submission.is_background() {
            let body = self.step_of(lane, turn).body;
            self.bodies[body as usize].queued = waited;
        }
    }

    /// A command ends, or several of a collection in a row.
    #[inline]
    pub(super) fn ended(&mut self, cause: usize, end: Time) {
        self.causes |= 1 << cause;
        self.last_of[cause] = end;
    }

    /// A command ends that is no collection's. Its lane had done `busy` when it began.
    #[inline]
    pub(super) fn worked(&mut self, (at, turn): (u32, u64), busy: &Busy, ran: &Ran) {
        let step = self.step_of(at, turn);
        let body = &self.bodies[step.body as usize];
        let lane = &mut self.lanes[at as usize];
        let parts = &mut self.latest;
        if body.had_others {
            *parts = body.parts;
        } else {
            parts.clear();
        }
        let is_own = lane.request == step.request;
        let left = (ran.started - body.queued).since(body.ready).0;
        if left > 0 {
            let own = body.waited((lane, busy), is_own, (self.causes, &self.last_of), left, parts);
            parts.waited_at(at, left - own);
        }
        let span = ran.end.since(ran.started);
        (self.latest_body, self.latest_run, self.latest_lane) = (step.body, span, at);
        if !matches!(step.work, Work::Read | Work::Program) {
            return parts.add(step.work.own(), (span + body.queued).0);
        }
        let is_read = step.work == Work::Read;
        if !is_own {
            (lane.request, lane.own) = (step.request, Own::default());
        }
        let own = &mut lane.own;
        let (read, program) = if is_read { (span.0, 0) } else { (0, span.0) };
        let (read_array, program_array) = if is_read { (ran.array.0, 0) } else { (0, ran.array.0) };
        lane.read += read;
        own.read += read;
        own.program += program;
        own.read_array += read_array;
        own.program_array += program_array;
        own.transfer += ran.transfer.0;
        if step.is_update {
            lane.updates += span.0;
            own.updates += span.0;
        }
        parts.add(Part::OwnRead, read_array);
        parts.add(Part::OwnProgram, program_array);
        parts.add(Part::Transfer, ran.transfer.0);
        parts.add(Part::BusWait, (span - ran.array - ran.transfer + body.queued).0);
    }

    /// What goes on beside flash for a node ends now.
    #[cold]
    #[inline(never)]
    pub(super) fn moved(&mut self, node: u32, now: Time) {
        let at = self.steps[node as usize].body;
        let body = &self.bodies[at as usize];
        let span = now.since(body.ready) - body.queued;
        self.latest = if body.had_others { body.parts } else { Parts::NONE };
        self.latest.add(Part::BufferWait, body.queued.0);
        self.latest.add(Part::Buffer, span.0);
        (self.latest_body, self.latest_run) = (at, span);
    }

    /// A watcher hears of what is ending.
    #[inline]
    pub(super) fn tell(&mut self, watcher: u32) {
        if self.told.len() <= watcher as usize {
            self.told.resize(watcher as usize + 1, Step::NOTHING);
        }
        self.told[watcher as usize] = self.ending;
    }

    /// What the time since `began` consists of, for the watcher of a request that has just heard of the last thing that it
    /// waited for. Nothing was submitted since then: what is known of that stands.
    #[inline]
    pub(super) fn parts(&mut self, (watcher, request): (u32, u64), began: Time, now: Time) -> &mut Parts {
        let last = self.told[watcher as usize];
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

impl Body {
    /// Add to `parts` the `left` until the command began on its lane, as it was ready. Returns what of it the lane worked for the
    /// same request.
    #[inline]
    fn waited(
        &self,
        (lane, busy): (&Lane, &Busy),
        is_own: bool,
        (known, last_of): (u32, &LastOf),
        mut left: u64,
        parts: &mut Parts,
    ) -> u64 {
        let mut of_own = 0;
        if self.had_to_wait {
            for cause in causes(known & !HOST) {
                let before = if self.known >> cause & 1 == 0 { 0 } else { self.busy[cause] };
                let waited = busy[cause].wrapping_sub(before);
                parts.add(Part::OF_CAUSES[cause - 1], waited);
                left = left.wrapping_sub(waited);
            }
            let host = busy[Cause::Host as usize].wrapping_sub(self.busy[Cause::Host as usize]);
            let bus_wait = lane.bus_wait - self.queued.0 - self.bus_wait;
            let read = lane.read.wrapping_sub(self.read);
            let program = host - read;
            let (mut behind_read, mut behind_program) = (read, program);
            let mut updates = lane.updates.wrapping_sub(self.updates);
            if is_own {
                let own = (lane.own.read.min(read), lane.own.program.min(program));
                lane.own.last(own.0, own.1, parts);
                behind_read -= own.0;
                behind_program -= own.1;
                of_own = own.0 + own.1;
                updates -= lane.own.updates.min(updates);
            }
            parts.add_updates(updates.min(behind_read + behind_program));
            parts.add(Part::BehindRead, behind_read);
            parts.add(Part::BehindProgram, behind_program);
            parts.add(Part::BusWait, bus_wait);
            left = left - host - bus_wait;
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

/// Of `span`, as much as `part` is of `whole`.
fn share(part: u64, span: u64, whole: u64) -> u64 {
    (u128::from(part) * u128::from(span) / u128::from(whole)) as u64
}

/// The causes that have a bit.
#[inline]
fn causes(mut bits: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = bits.trailing_zeros() as usize;
        (bits != 0).then(|| {
            bits &= bits - 1;
            at
        })
    })
}
