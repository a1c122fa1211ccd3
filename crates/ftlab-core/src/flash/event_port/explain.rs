//! What requests wait for, step by step.
//!
//! The time of a request in the drive is that of its chain of steps that ends last. Each step begins when the last one ends
//! that it depends on. A step carries what the chain consists of so far. On a die it adds what the die did while the
//! step waited, by totals of the die then and now, and then its own work. So the parts leave nothing out.

use crate::flash::clock::Spans;
use crate::flash::port::Submission;
use crate::metrics::parts::{Part, Parts, WORKS, Work};
use crate::time::Time;

/// Stands for no request.
pub(super) const NO_REQUEST: u64 = u64::MAX;

/// What a die has done, in picoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    work: [u64; WORKS],
    /// A command waited for the bus, and the die with it.
    bus_wait: u64,
}

impl Totals {
    /// With what is under way, or without what was counted ahead of time.
    fn with(mut self, under_way: UnderWay, now: Time) -> Self {
        match under_way {
            UnderWay::Nothing => {}
            UnderWay::Bus(since) => self.bus_wait += now.since(since).0,
            UnderWay::Work(work, since) => {
                let total = &mut self.work[work.index()];
                *total = total.wrapping_add(now.0.wrapping_sub(since.0));
            }
        }
        self
    }
}

/// What a lane is doing.
#[derive(Debug, Clone, Copy)]
pub(super) enum UnderWay {
    Nothing,
    Bus(Time),
    /// Since then. Commands in a row are all for one cause, and those ahead of the last are counted when they begin: it may
    /// begin later than now.
    Work(Work, Time),
}

#[derive(Debug, Clone, Copy)]
struct LaneTotals {
    totals: Totals,
    /// The request that the last host command was for, and what the lane has read and programmed for it.
    request: u64,
    own: [u64; 2],
}

/// A step: a command, several in a row, or something beside flash.
#[derive(Debug, Clone, Copy)]
struct Explained {
    /// The request during whose submission it came.
    request: u64,
    work: Work,
    /// Its parts are complete. Those of collections are not: whoever waits for one waits for all of it.
    is_whole: bool,
    began: Time,
    ready: Time,
    /// What its lane had done by then.
    at_ready: Totals,
    parts: Parts,
}

impl Explained {
    const NONE: Self = Self {
        request: NO_REQUEST,
        work: Work::Buffer,
        is_whole: false,
        began: Time::ZERO,
        ready: Time::ZERO,
        at_ready: Totals { work: [0; WORKS], bus_wait: 0 },
        parts: Parts::NONE,
    };
}

/// What is known of steps, lanes and watchers.
#[derive(Debug, Clone)]
pub(super) struct Explanations {
    /// The request that was handed to the drive last: what is submitted is for it.
    pub(super) request: u64,
    steps: Vec<Explained>,
    lanes: Vec<LaneTotals>,
    /// Of each watcher, the request that it watches for, and the node that it has heard of last.
    told: Vec<(u64, u32)>,
    /// The node that is ending.
    pub(super) ending: u32,
}

// Called from the middle of the hot loop, and seldom wanted there: kept out of it.
impl Explanations {
    pub(super) fn new(lanes: usize) -> Self {
        let lane = LaneTotals { totals: Totals::default(), request: NO_REQUEST, own: [0; 2] };
        Self { request: NO_REQUEST, steps: Vec::new(), lanes: vec![lane; lanes], told: Vec::new(), ending: 0 }
    }

    /// The request for which the step of a node was submitted.
    pub(super) fn request_of(&self, node: u32) -> Option<u64> {
        let request = self.steps.get(node as usize).map(|step| step.request);
        request.filter(|request| *request != NO_REQUEST)
    }

    /// A step begins to exist.
    #[cold]
    #[inline(never)]
    pub(super) fn submitted(&mut self, node: u32, work: Option<Work>, now: Time) {
        if self.steps.len() <= node as usize {
            self.steps.resize(node as usize + 1, Explained::NONE);
        }
        // Nobody but collection itself waits for a part of it.
        let is_whole = !matches!(work, Some(Work::For(cause)) if cause.is_background());
        let step = &mut self.steps[node as usize];
        step.request = self.request;
        step.work = work.unwrap_or(Work::Buffer);
        step.is_whole = is_whole;
        (step.began, step.ready) = (now, now);
        if is_whole {
            step.parts = Parts::NONE;
        }
    }

    /// The last of what `node` waits for has ended with the node that is ending now. A join is no work of its own.
    #[cold]
    #[inline(never)]
    pub(super) fn released(&mut self, node: u32, is_join: bool, now: Time) {
        let before = self.steps[self.ending as usize];
        let step = &mut self.steps[node as usize];
        step.ready = now;
        if is_join {
            step.work = before.work;
        }
        if !step.is_whole {
            return;
        }
        if before.request == step.request && before.is_whole && before.began == step.began {
            step.parts = before.parts;
        } else {
            step.parts = Parts::NONE;
            step.parts.add(before.work.behind(), now.since(step.began).0);
        }
    }

    /// Nothing but its lane holds a command back from now on.
    #[cold]
    #[inline(never)]
    pub(super) fn is_ready(&mut self, node: u32, lane: u32, under_way: UnderWay, now: Time) {
        let step = &mut self.steps[node as usize];
        if step.is_whole {
            step.at_ready = self.lanes[lane as usize].totals.with(under_way, now);
        }
    }

    /// A command begins on its lane, which was doing nothing.
    #[cold]
    #[inline(never)]
    pub(super) fn started(&mut self, node: u32, lane: u32, now: Time) {
        let step = &mut self.steps[node as usize];
        if !step.is_whole || step.ready == now {
            return;
        }
        let lane = &self.lanes[lane as usize];
        let mut idle = now.since(step.ready).0;
        let own = if lane.request == step.request { lane.own } else { [0; 2] };
        for index in 0..WORKS {
            let mut waited = lane.totals.work[index].wrapping_sub(step.at_ready.work[index]);
            if waited == 0 {
                continue;
            }
            idle -= waited;
            if let Some(own) = own.get(index) {
                let own = waited.min(*own);
                step.parts.add(Work::ALL[index].own(), own);
                waited -= own;
            }
            step.parts.add(Work::ALL[index].behind(), waited);
        }
        let bus_wait = lane.totals.bus_wait - step.at_ready.bus_wait;
        step.parts.add(Part::BusWait, bus_wait);
        step.parts.add(Part::Order, idle - bus_wait);
    }

    /// A command has the bus that it has waited for since `asked`.
    #[cold]
    #[inline(never)]
    pub(super) fn has_bus(&mut self, node: u32, lane: u32, asked: Time, now: Time) {
        let waited = now.since(asked).0;
        self.lanes[lane as usize].totals.bus_wait += waited;
        let step = &mut self.steps[node as usize];
        let part = if matches!(step.work, Work::For(_)) { step.work.own() } else { Part::BusWait };
        step.parts.add(part, waited);
    }

    /// A command ends, which its lane has worked on since `started`.
    #[cold]
    #[inline(never)]
    pub(super) fn worked(
        &mut self,
        (node, submission): (u32, Submission),
        lane: u32,
        spans: &mut Spans,
        started: Time,
        now: Time,
    ) {
        let lane = &mut self.lanes[lane as usize];
        let step = &mut self.steps[node as usize];
        let busy = now.since(started).0;
        lane.totals.work[step.work.index()] += busy;
        if !step.is_whole {
            return;
        }
        if !matches!(step.work, Work::Read | Work::Program) {
            return step.parts.add(step.work.own(), busy);
        }
        if lane.request != step.request {
            (lane.request, lane.own) = (step.request, [0; 2]);
        }
        lane.own[step.work.index()] += busy;
        let (bus_in, array, bus_out) = spans.parts(submission);
        step.parts.add(step.work.own(), array.0);
        step.parts.add(Part::Transfer, (bus_in + bus_out).0);
        step.parts.add(Part::BusWait, busy - (bus_in + array + bus_out).0);
    }

    /// What goes on beside flash for a node ends now.
    #[cold]
    #[inline(never)]
    pub(super) fn moved(&mut self, node: u32, now: Time) {
        let step = &mut self.steps[node as usize];
        step.parts.add(Part::Buffer, now.since(step.ready).0);
    }

    /// A watcher waits for something on behalf of the request that was handed over last.
    #[cold]
    #[inline(never)]
    pub(super) fn watched(&mut self, watcher: u32) {
        if self.told.len() <= watcher as usize {
            self.told.resize(watcher as usize + 1, (NO_REQUEST, 0));
        }
        self.told[watcher as usize].0 = self.request;
    }

    /// A watcher hears of the node that is ending.
    #[cold]
    #[inline(never)]
    pub(super) fn tell(&mut self, watcher: u32) {
        self.told[watcher as usize].1 = self.ending;
    }

    /// What the time since `since` consists of, for a watcher that has just heard of the last thing that it waited for. Nothing
    /// was submitted since then: the node is still that one's.
    pub(super) fn parts_of(&self, watcher: u32, since: Time, now: Time) -> Parts {
        let (request, node) = self.told[watcher as usize];
        let last = &self.steps[node as usize];
        if last.request == request && last.is_whole && last.began == since {
            return last.parts;
        }
        let mut parts = Parts::default();
        parts.add(last.work.behind(), now.since(since).0);
        parts
    }
}
