//! What requests wait for, step by step.
//!
//! The time of a request in the drive is that of its chain of steps that ends last. Each step begins when the last one ends
//! that it depends on. A step carries what the chain consists of so far. On a die it adds what the die did while the
//! step waited, by totals of the die then and now, and then its own work. So the parts leave nothing out.
//!
//! Nobody but collection itself waits for a part of it: who waits for one waits for all of it. Most commands may be such,
//! and nothing is kept of them.

use crate::cause::{CAUSES, Cause};
use crate::flash::clock::Spans;
use crate::flash::port::Submission;
use crate::metrics::parts::{Part, Parts, Work};
use crate::time::Time;

/// Stands for no request.
pub(super) const NO_REQUEST: u64 = u64::MAX;

/// In the place of a body: of steps of collections, which have none.
const NONE: u32 = u32::MAX;

/// What a lane has done, in picoseconds, by cause.
pub(super) type Busy = [u64; CAUSES];

/// What a lane is doing.
#[derive(Debug, Clone, Copy)]
pub(super) enum UnderWay {
    Nothing,
    Bus(Time),
    /// Since then. Commands in a row are all for one cause, and those ahead of the last are counted when they begin: it may
    /// begin later than now.
    Work(Submission, Time),
}

/// What a lane has done beside [`Busy`].
#[derive(Debug, Clone, Copy)]
struct Lane {
    /// Of the time for the host.
    read: u64,
    /// The request that the last host command was for, and what the lane has read and programmed for it.
    request: u64,
    own: [u64; 2],
    /// A command waited for the bus, and the die with it.
    bus_wait: u64,
}

/// A step: a command, several in a row, or something beside flash.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// The request during whose submission it came.
    request: u64,
    body: u32,
    work: Work,
}

impl Step {
    const NOTHING: Self = Self { request: NO_REQUEST, body: NONE, work: Work::Buffer };
}

/// What else is known of a step.
#[derive(Debug, Clone, Copy)]
struct Body {
    began: Time,
    ready: Time,
    /// What it waited for last that was not memory beside flash, and since when only such memory was at work.
    before: Work,
    moving_since: Time,
    parts: Parts,
    /// When it was ready, its lane had something to do first: it had done so much by then. Of the causes that have a bit;
    /// those that were unknown had done nothing.
    had_to_wait: bool,
    known: u32,
    bus_wait: u64,
    busy: Busy,
    read: u64,
}

/// What is known of steps, lanes and watchers.
#[derive(Debug, Clone)]
pub(super) struct Explanations {
    /// The request that was handed to the drive last: what is submitted is for it.
    pub(super) request: u64,
    /// By node; what stands there of a node of a collection is another one's.
    steps: Vec<Step>,
    bodies: Vec<Body>,
    /// Bodies of nodes that have ended, which stay as they are until the next submission. The one that was used last is used
    /// first, so that few lines of memory are touched.
    free: Vec<u32>,
    /// A bit for each cause that any command had so far. As [`Parts`], totals by cause are read one by one.
    causes: u32,
    lanes: Vec<Lane>,
    /// What each watcher has heard of last.
    told: Vec<Step>,
    /// What is ending.
    ending: Step,
}

// Called from the middle of the hot loop, and seldom wanted there: kept out of it.
impl Explanations {
    pub(super) fn new(lanes: usize) -> Self {
        let lane = Lane { read: 0, request: NO_REQUEST, own: [0; 2], bus_wait: 0 };
        Self {
            request: NO_REQUEST,
            steps: Vec::new(),
            bodies: Vec::new(),
            free: Vec::new(),
            causes: 0,
            lanes: vec![lane; lanes],
            told: Vec::new(),
            ending: Step::NOTHING,
        }
    }

    /// The request for which the step of a node was submitted.
    pub(super) fn request_of(&self, node: u32) -> Option<u64> {
        let request = self.steps.get(node as usize).map(|step| step.request);
        request.filter(|request| *request != NO_REQUEST)
    }

    /// A command is submitted.
    #[inline]
    pub(super) fn knows(&mut self, submission: Submission) {
        self.causes |= 1 << submission.cause_index();
    }

    /// A step of a collection begins to exist. A log has the request that it is for.
    #[cold]
    pub(super) fn collected(&mut self, node: u32) {
        if self.steps.len() <= node as usize {
            self.steps.resize(node as usize + 1, Step::NOTHING);
        }
        self.steps[node as usize].request = self.request;
    }

    /// A step begins to exist.
    #[inline]
    pub(super) fn submitted(&mut self, node: u32, work: Work, now: Time) {
        let body = self.free.pop().unwrap_or_else(|| self.new_body());
        if self.steps.len() <= node as usize {
            self.steps.resize(node as usize + 1, Step::NOTHING);
        }
        self.steps[node as usize] = Step { request: self.request, body, work };
        let body = &mut self.bodies[body as usize];
        (body.began, body.ready, body.had_to_wait) = (now, now, false);
        (body.before, body.moving_since) = (Work::Buffer, now);
        body.parts.clear();
    }

    #[cold]
    fn new_body(&mut self) -> u32 {
        self.bodies.push(Body {
            began: Time::ZERO,
            ready: Time::ZERO,
            before: Work::Buffer,
            moving_since: Time::ZERO,
            parts: Parts::NONE,
            had_to_wait: false,
            known: 0,
            bus_wait: 0,
            busy: [0; CAUSES],
            read: 0,
        });
        self.bodies.len() as u32 - 1
    }

    /// A step ends: what is told and released now is so by that. What is known of it is so until the next submission.
    #[inline]
    pub(super) fn ends(&mut self, node: u32, is_awaited: bool) {
        let step = self.steps[node as usize];
        self.free.push(step.body);
        if is_awaited {
            self.ending = step;
        }
    }

    /// The same for a step of a collection.
    #[inline]
    pub(super) fn ends_collecting(&mut self, cause: Cause) {
        self.ending = Step { work: Work::For(cause), ..Step::NOTHING };
    }

    /// The last of what `node` waits for has ended with what is ending now. A join is no work of its own.
    #[cold]
    #[inline(never)]
    pub(super) fn released(&mut self, node: u32, is_join: bool, now: Time) {
        let before = self.ending;
        let step = &mut self.steps[node as usize];
        if is_join {
            step.work = before.work;
        }
        let step = *step;
        let began = self.bodies[step.body as usize].began;
        let mut parts = Parts::NONE;
        self.since(before, step.request, began, now, &mut parts);
        let (cause, moving_since) = match self.bodies.get(before.body as usize) {
            Some(body) if before.work == Work::Buffer => (body.before, body.moving_since),
            _ => (before.work, now),
        };
        let body = &mut self.bodies[step.body as usize];
        (body.ready, body.before, body.moving_since) = (now, cause, moving_since);
        body.parts.copy(&parts);
    }

    /// Write to `parts` what the time since `began` consists of, when a request began to wait for what ends now with `last`.
    #[inline]
    fn since(&self, last: Step, request: u64, began: Time, now: Time, parts: &mut Parts) {
        match self.bodies.get(last.body as usize) {
            Some(body) if last.request == request && body.began == began => parts.copy(&body.parts),
            // Somebody else's data are moved only when what they wait for has ended.
            Some(body) if last.work == Work::Buffer => {
                let (waited, moved) = (now.since(began), now.since(body.moving_since));
                parts.clear();
                parts.add(Part::Buffer, waited.min(moved).0);
                parts.add(body.before.behind(), (waited - waited.min(moved)).0);
            }
            _ => {
                parts.clear();
                parts.add(last.work.behind(), now.since(began).0);
            }
        }
    }

    /// Nothing but its lane holds a command back from now on, and the lane has other things to do first.
    #[inline]
    pub(super) fn has_to_wait(&mut self, node: u32, lane: u32, busy: &Busy, under_way: UnderWay, now: Time) {
        let step = &self.steps[node as usize];
        let body = &mut self.bodies[step.body as usize];
        let lane = &self.lanes[lane as usize];
        (body.had_to_wait, body.known) = (true, self.causes);
        for cause in causes(self.causes) {
            body.busy[cause] = busy[cause];
        }
        body.read = lane.read;
        body.bus_wait = lane.bus_wait;
        match under_way {
            UnderWay::Nothing => {}
            UnderWay::Bus(since) => body.bus_wait += now.since(since).0,
            UnderWay::Work(submission, since) => {
                let work = now.0.wrapping_sub(since.0);
                let total = &mut body.busy[submission.cause_index()];
                *total = total.wrapping_add(work);
                if submission.is_host_read() {
                    body.read = body.read.wrapping_add(work);
                }
            }
        }
    }

    /// A command begins on its lane, which was doing nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn started(&mut self, node: u32, lane: u32, busy: &Busy, now: Time) {
        let step = self.steps[node as usize];
        let body = &mut self.bodies[step.body as usize];
        let mut left = now.since(body.ready).0;
        if left == 0 {
            return;
        }
        if body.had_to_wait {
            let lane = &self.lanes[lane as usize];
            let is_own = lane.request == step.request;
            let mut add = |work: Work, waited: u64, own: u64| {
                let own = if is_own { waited.min(own) } else { 0 };
                body.parts.add(work.own(), own);
                body.parts.add(work.behind(), waited - own);
            };
            for cause in causes(self.causes) {
                let before = if body.known >> cause & 1 == 0 { 0 } else { body.busy[cause] };
                let waited = busy[cause].wrapping_sub(before);
                left -= waited;
                if cause == Cause::Host as usize {
                    let read = lane.read.wrapping_sub(body.read);
                    add(Work::Read, read, lane.own[0]);
                    add(Work::Program, waited - read, lane.own[1]);
                } else {
                    add(Work::For(Cause::ALL[cause]), waited, 0);
                }
            }
            let bus_wait = lane.bus_wait - body.bus_wait;
            body.parts.add(Part::BusWait, bus_wait);
            left -= bus_wait;
        }
        body.parts.add(Part::Order, left);
    }

    /// A command has the bus that it has waited for since `asked`.
    #[cold]
    #[inline(never)]
    pub(super) fn has_bus(&mut self, submission: Submission, node: u32, lane: u32, waited: Time) {
        self.lanes[lane as usize].bus_wait += waited.0;
        if submission.is_background() {
            return;
        }
        let step = &self.steps[node as usize];
        let part = if matches!(step.work, Work::For(_)) { step.work.own() } else { Part::BusWait };
        self.bodies[step.body as usize].parts.add(part, waited.0);
    }

    /// A command ends, which its lane has worked on for `busy`.
    #[cold]
    #[inline(never)]
    pub(super) fn worked(
        &mut self,
        (node, submission): (u32, Submission),
        lane: u32,
        spans: &mut Spans,
        busy: Time,
    ) {
        let step = self.steps[node as usize];
        let parts = &mut self.bodies[step.body as usize].parts;
        if !matches!(step.work, Work::Read | Work::Program) {
            return parts.add(step.work.own(), busy.0);
        }
        let is_read = step.work == Work::Read;
        let lane = &mut self.lanes[lane as usize];
        if lane.request != step.request {
            (lane.request, lane.own) = (step.request, [0; 2]);
        }
        lane.own[usize::from(!is_read)] += busy.0;
        lane.read += if is_read { busy.0 } else { 0 };
        let (bus_in, array, bus_out) = spans.parts(submission);
        parts.add(step.work.own(), array.0);
        parts.add(Part::Transfer, (bus_in + bus_out).0);
        parts.add(Part::BusWait, busy.0 - (bus_in + array + bus_out).0);
    }

    /// What goes on beside flash for a node ends now.
    #[cold]
    #[inline(never)]
    pub(super) fn moved(&mut self, node: u32, now: Time) {
        let body = &mut self.bodies[self.steps[node as usize].body as usize];
        body.parts.add(Part::Buffer, now.since(body.ready).0);
    }

    /// A watcher hears of what is ending.
    #[cold]
    #[inline(never)]
    pub(super) fn tell(&mut self, watcher: u32) {
        if self.told.len() <= watcher as usize {
            self.told.resize(watcher as usize + 1, Step::NOTHING);
        }
        self.told[watcher as usize] = self.ending;
    }

    /// Write to `parts` what the time since `since` consists of, for the watcher of a request that has just heard of the last
    /// thing that it waited for. Nothing was submitted since then: what is known of that stands.
    #[inline]
    pub(super) fn parts_of(&self, watcher: u32, request: u64, since: Time, now: Time, parts: &mut Parts) {
        self.since(self.told[watcher as usize], request, since, now, parts);
    }
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
