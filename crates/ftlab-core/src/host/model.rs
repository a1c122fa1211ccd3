//! The host with a clock: what happens to a request between its arrival and its completion.
//!
//! A request arrives, waits at the host while as many others as it allows are in the drive, and is handed over: its
//! latency counts from there. The fixed time of each request comes first, and occupies nothing. A write then crosses the link whole before its pages are taken up; a read's data cross
//! when the last page has been read. Commands and completions take no link time, but need the direction that they
//! travel in to be free. With a half-duplex link both directions are one, and completions go first.
//!
//! Where requests come from is the business of a [`Feeder`]: the workload of a run (`timed.rs`), or whoever holds a
//! session (`session.rs`).

use std::collections::VecDeque;

use crate::access::Access;
use crate::cause::CommandCounts;
use crate::config::{HostConfig, LinkDuplex};
use crate::error::{FlashResult, RunError};
use crate::flash::clock::{Clock, Step};
use crate::geometry::SECTOR_BYTES;
use crate::host::Drive;
use crate::host::request::{Op, Request};
use crate::host::run_metrics::RunMetrics;
use crate::host::split::Splitter;
use crate::host::waiting::Waiting;
use crate::layer::Layer;
use crate::metrics::RequestRecord;
use crate::metrics::explain::told::{Completed, RequestBits, Told};
use crate::time::{Time, Transfers};

/// Timers of the clock.
const ARRIVAL: u32 = 0;
const LINK: [u32; 2] = [1, 2];
const OVERHEAD: u32 = 3;

/// Directions of the link; with half duplex there is only the first.
const IN: usize = 0;

/// Requests for which there is room from the start, where the number in the drive is not limited to fewer.
const ROOM: usize = 1 << 16;

/// Gives the host its requests one by one, and hears of completions.
pub(crate) trait Feeder {
    /// Whether the host stops at every completion, so that an answer to it comes before anything else.
    const PAUSES: bool;

    /// Whether each completion brings the next request, which arrives at once.
    fn is_closed(&self) -> bool;

    /// Whether nothing that begins with the arrival of the request taken last belongs to the run.
    ///
    /// # Errors
    /// When the source cannot go on.
    fn ends_run(&mut self) -> Result<bool, RunError>;

    /// Take the next request. False when there is none so far.
    ///
    /// # Errors
    /// When the source cannot go on, or the drive cannot take the request.
    fn take<L: Layer<C>, C: Clock>(
        &mut self,
        drive: &Drive<L, C>,
        splitter: &Splitter,
    ) -> Result<bool, RunError>;

    /// The request taken last, as the drive sees it.
    fn request(&self) -> &Request;

    /// Its number.
    fn index(&self) -> u64;

    /// When it arrives, unless completions bring requests.
    fn arrival(&self) -> Time;

    /// Whether [`completed`](Self::completed) is wanted.
    fn wants_completions(&self) -> bool;

    /// A request has completed.
    fn completed(&mut self, record: &RequestRecord);

    /// Whether somebody is to be told what requests wait for, by the teller of the port.
    fn wants_parts(&self) -> bool {
        false
    }
}

/// A request between hand-over (or arrival) and completion.
///
/// The parts of the [`Request`] stand in another order than there, so that they are copied one by one. A part read soon
/// after it was written with others at once would wait for every store ahead of it. That takes some 60 cycles a
/// request.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Slot {
    lba: u64,
    index: u64,
    arrival_ns: u64,
    arrival: Time,
    start: Time,
    sectors: u32,
    /// Times that the clock will still report it.
    pending: u32,
    op: Op,
    fua: bool,
    stream: u16,
}

impl Slot {
    #[inline(always)]
    fn request(&self) -> Request {
        let Slot { lba, arrival_ns, sectors, op, fua, stream, .. } = *self;
        Request { arrival_ns, lba, sectors, op, stream, fua }
    }

    /// What is known of it when it completes.
    #[inline(always)]
    fn record(&self, end: Time) -> RequestRecord {
        let Slot { index, arrival, start, .. } = *self;
        RequestRecord { index, request: self.request(), arrival, start, end }
    }
}

/// The host and its drive.
#[derive(Clone)]
pub(crate) struct HostModel<L, C: Clock, F> {
    pub(crate) drive: Drive<L, C>,
    pub(crate) metrics: RunMetrics,
    pub(crate) feeder: F,
    splitter: Splitter,
    closed: bool,
    samples: bool,
    wants_requests: bool,
    wants_parts: bool,
    /// Whether requests may be handed to the drive later than they start.
    begins_late: bool,
    /// By slot: when its request was handed to the drive. Where parts are wanted, and that may be late.
    begun: Vec<Time>,
    /// Most requests in the drive.
    depth: usize,
    can_wait: bool,
    link: Transfers,
    link_is_instant: bool,
    out: usize,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    pub(crate) in_drive: usize,
    /// Waiting at the host.
    waiting: Waiting,
    /// How long host and firmware take for each request.
    overhead: Time,
    /// Handed over, in that time: when it is over, and the number that the timer had then.
    beginning: VecDeque<(Time, u64, u32)>,
    /// Waiting for the way in.
    entering: VecDeque<u32>,
    /// Served, waiting for the way out.
    leaving: VecDeque<u32>,
    /// Who is on the link, by direction.
    on_link: [Option<u32>; 2],
    /// Served at one moment: empty between events.
    finished: Vec<u32>,
    /// The waiting lines are being drained: whoever comes now joins them.
    draining: bool,
    /// The direction of the link on which the request crossed at whose completion the host stopped.
    paused_link: Option<usize>,
    /// With a feeder that pauses: the number that the timer of the next arrival has, drawn when the last one arrived.
    /// `None` while that timer is set.
    next_number: Option<u64>,
    /// The run ended with the arrival of its last request.
    pub(crate) stopped: bool,
    /// No more requests are handed over: the run ends when the drive is idle, so that the summary holds together.
    pub(crate) closing: bool,
    /// Commands that had not ended when the run did.
    pub(crate) unfinished: CommandCounts,
    /// How long it took to write what was held back at the end.
    pub(crate) drain_time: Time,
    /// What went wrong first.
    pub(crate) error: Option<RunError>,
    /// It was the drive: what is in it and has not begun stays.
    broken: bool,
}

impl<L, C: Clock, F: Feeder> HostModel<L, C, F> {
    /// A host that has `depth` requests in the drive at most. With `samples`, there is a row of the series when one is due.
    pub(crate) fn new(
        host: &HostConfig,
        depth: Option<u32>,
        drive: Drive<L, C>,
        metrics: RunMetrics,
        samples: bool,
        feeder: F,
    ) -> Self {
        let limit = depth.map_or(usize::MAX, |depth| depth as usize);
        // Lines of requests in the drive never grow beyond this; without a limit, and at the host, they may.
        let room = limit.min(ROOM);
        let link = Transfers::from_mb_per_s(host.link_mb_per_s);
        let closed = feeder.is_closed();
        Self {
            splitter: Splitter::new(drive.flash.geometry()),
            closed,
            samples,
            wants_requests: feeder.wants_completions(),
            wants_parts: feeder.wants_parts(),
            begins_late: !link.are_instant() || host.overhead_us > 0.0,
            begun: Vec::new(),
            depth: limit,
            can_wait: !closed && depth.is_some(),
            link,
            link_is_instant: link.are_instant(),
            out: usize::from(host.link_duplex == LinkDuplex::Full),
            slots: Vec::with_capacity(room),
            free_slots: Vec::with_capacity(room),
            in_drive: 0,
            waiting: Waiting::new(host.scheduler()),
            overhead: Time::from_us(host.overhead_us),
            beginning: VecDeque::with_capacity(if host.overhead_us > 0.0 { room } else { 0 }),
            entering: VecDeque::with_capacity(room),
            leaving: VecDeque::with_capacity(room),
            on_link: [None; 2],
            finished: Vec::with_capacity(room),
            draining: false,
            paused_link: None,
            next_number: None,
            stopped: false,
            closing: false,
            unfinished: CommandCounts::default(),
            drain_time: Time::ZERO,
            error: None,
            broken: false,
            drive,
            metrics,
            feeder,
        }
    }
}

impl<L: Layer<C>, C: Clock, F: Feeder> HostModel<L, C, F> {
    /// The first requests arrive, or the first arrival is waited for.
    pub(crate) fn begin(&mut self) {
        if !self.closed {
            self.arm_arrival();
            return;
        }
        for _ in 0..self.depth {
            if self.closing || !self.take() {
                break;
            }
            self.arrive_taken();
        }
    }

    #[cold]
    fn fail(&mut self, error: RunError) {
        self.error.get_or_insert(error);
        self.closing = true;
    }

    /// The last request has completed and the drive is idle: write what is held back.
    pub(crate) fn drain(&mut self) {
        self.metrics
            .close_series(|totals| self.drive.sample(totals), |totals| self.drive.sample_flash(totals));
        if self.closing || self.stopped {
            return;
        }
        let idle = self.drive.flash.port.idle_from();
        if idle > self.now() {
            self.drive.flash.port.move_to(idle);
        }
        if let Err(error) = self.drive.top.drain(&mut self.drive.flash) {
            self.fail(*error);
        }
        while self.drive.flash.port.step_before(Time::NEVER).is_some() {}
        self.drain_time = self.drive.flash.port.idle_from().since(idle);
        if self.in_drive == 0 && self.drive.flash.port.never_ends() {
            self.unfinished = self.drive.flash.port.cut();
            self.fail(too_long("the last writes of what the buffer held back"));
        }
    }

    /// Requests that stay in a drive in which nothing happens any more wait for a time that cannot be counted.
    pub(crate) fn check_clock_overflow(&self) -> Result<(), RunError> {
        if self.in_drive == 0 || self.stopped {
            return Ok(());
        }
        Err(too_long(&format!("{} requests", self.in_drive)))
    }

    /// Go to the next event before `until` that concerns the host, and let it happen. False when there is none.
    #[inline(always)]
    pub(crate) fn step_before(&mut self, until: Time) -> bool {
        match self.drive.flash.port.step_before(until) {
            None => return false,
            Some(Step::Timer(ARRIVAL)) => self.on_arrival(),
            Some(Step::Timer(OVERHEAD)) => self.on_begun(),
            Some(Step::Timer(timer)) => {
                self.on_link_free(if timer == LINK[IN] { IN } else { self.out });
            }
            Some(Step::Ended(at)) => self.on_ended(at),
            Some(Step::Several) => self.on_finished(),
        }
        true
    }

    /// Go on with what the last completion has interrupted, up to the next one.
    pub(crate) fn resume(&mut self) {
        if let Some(direction) = self.paused_link.take() {
            self.release_link(direction);
        } else if self.draining {
            self.drain_link_now();
        }
    }

    /// Take the next request of the feeder. False when there is none, or it cannot be had.
    #[inline(always)]
    fn take(&mut self) -> bool {
        self.feeder.take(&self.drive, &self.splitter).unwrap_or_else(|error| {
            self.fail(error);
            false
        })
    }

    #[inline(always)]
    pub(crate) fn now(&self) -> Time {
        self.drive.flash.port.now()
    }

    /// The timer will ring when the next request of the feeder arrives. If that is not known yet, the timer counts from
    /// now all the same. Completions and arrivals at equal times must not depend on when the feeder hears of a request.
    #[inline(always)]
    fn arm_arrival(&mut self) {
        if !self.closing && self.take() {
            self.drive.flash.port.set_timer(ARRIVAL, self.feeder.arrival());
        } else if F::PAUSES {
            self.next_number = Some(self.drive.flash.port.draw_number());
        }
    }

    /// The feeder, which had no request when the last one arrived, has one now.
    pub(crate) fn arm_late_arrival(&mut self) {
        if let Some(number) = self.next_number
            && !self.closing
            && self.take()
        {
            self.next_number = None;
            self.drive.flash.port.set_timer_as(ARRIVAL, self.feeder.arrival(), number);
        }
    }

    fn on_arrival(&mut self) {
        if self.closing {
            return;
        }
        match self.feeder.ends_run() {
            Ok(false) => {}
            Ok(true) => {
                self.stopped = true;
                return;
            }
            Err(error) => return self.fail(error),
        }
        self.arrive_taken();
        self.arm_arrival();
    }

    /// The request that was taken last is at the host now.
    #[inline(always)]
    fn arrive_taken(&mut self) {
        let arrival = if self.closed { self.now() } else { self.feeder.arrival() };
        self.arrive(*self.feeder.request(), self.feeder.index(), arrival);
    }

    /// A request is at the host now.
    #[inline(always)]
    pub(crate) fn arrive(&mut self, request: Request, index: u64, arrival: Time) {
        let at = self.free_slots.pop().unwrap_or_else(|| self.new_slot());
        self.metrics.arrived(arrival);
        let slot = &mut self.slots[at as usize];
        let Request { arrival_ns, lba, sectors, op, stream, fua } = request;
        (slot.lba, slot.sectors, slot.op, slot.fua, slot.stream) = (lba, sectors, op, fua, stream);
        (slot.index, slot.arrival_ns, slot.arrival) = (index, arrival_ns, arrival);
        if self.in_drive < self.depth {
            self.hand_over(at);
        } else {
            self.waiting.push(at, lba, index);
        }
    }

    #[cold]
    fn new_slot(&mut self) -> u32 {
        self.slots.push(Slot {
            lba: 0,
            index: 0,
            arrival_ns: 0,
            arrival: Time::ZERO,
            start: Time::ZERO,
            sectors: 0,
            pending: 0,
            op: Op::Read,
            fua: false,
            stream: 0,
        });
        self.slots.len() as u32 - 1
    }

    #[inline]
    fn op(&self, at: u32) -> Op {
        self.slots[at as usize].op
    }

    #[inline(always)]
    fn hand_over(&mut self, at: u32) {
        let now = self.now();
        let slot = &mut self.slots[at as usize];
        slot.start = now;
        self.waiting.passes(slot.lba);
        self.in_drive += 1;
        if self.overhead > Time::ZERO {
            return self.begin_with_overhead(at);
        }
        self.ask_way_in(at);
    }

    #[inline(never)]
    fn begin_with_overhead(&mut self, at: u32) {
        let (end, number) = (self.now() + self.overhead, self.drive.flash.port.draw_number());
        if self.beginning.is_empty() {
            self.drive.flash.port.set_timer_as(OVERHEAD, end, number);
        }
        self.beginning.push_back((end, number, at));
    }

    /// The fixed time of a request is over. All take as long, so that they go on in the order in which they came.
    fn on_begun(&mut self) {
        let Some((_, _, at)) = self.beginning.pop_front() else { return };
        if let Some((end, number, _)) = self.beginning.front() {
            self.drive.flash.port.set_timer_as(OVERHEAD, *end, *number);
        }
        self.ask_way_in(at);
    }

    #[inline(always)]
    fn ask_way_in(&mut self, at: u32) {
        // While the lines are being drained, whoever leaves goes first.
        let leaves = self.draining && !self.leaving.is_empty();
        if leaves || self.on_link[IN].is_some() || !self.entering.is_empty() {
            self.entering.push_back(at);
            return;
        }
        self.enter(at);
        self.drain_link();
    }

    /// The way in is free for this request.
    #[inline(always)]
    fn enter(&mut self, at: u32) {
        if !self.link_is_instant && self.op(at) == Op::Write {
            self.take_link(IN, at);
        } else {
            self.dispatch(at);
        }
    }

    #[inline(always)]
    fn take_link(&mut self, direction: usize, at: u32) {
        let sectors = self.slots[at as usize].sectors;
        let span = self.link.span(u64::from(sectors) * u64::from(SECTOR_BYTES));
        self.on_link[direction] = Some(at);
        let end = self.now() + span;
        self.drive.flash.port.set_timer(LINK[direction], end);
    }

    fn on_link_free(&mut self, direction: usize) {
        // Whoever comes meanwhile finds the link busy and joins the lines, which are drained next.
        if let Some(at) = self.on_link[direction] {
            if self.op(at) == Op::Write {
                self.dispatch(at);
            } else {
                self.complete(at);
                if F::PAUSES {
                    self.paused_link = Some(direction);
                    return;
                }
            }
        }
        self.release_link(direction);
    }

    #[inline(always)]
    fn release_link(&mut self, direction: usize) {
        self.on_link[direction] = None;
        self.drain_link();
    }

    /// Let completions out and requests in, as far as the link allows.
    #[inline(always)]
    fn drain_link(&mut self) {
        if !(self.draining || (self.leaving.is_empty() && self.entering.is_empty())) {
            self.drain_link_now();
        }
    }

    fn drain_link_now(&mut self) {
        self.draining = true;
        loop {
            if self.on_link[self.out].is_none()
                && let Some(at) = self.leaving.pop_front()
            {
                if !self.link_is_instant && self.op(at) == Op::Read {
                    self.take_link(self.out, at);
                } else {
                    self.complete(at);
                    if F::PAUSES {
                        return;
                    }
                }
            } else if self.on_link[IN].is_none()
                && let Some(at) = self.entering.pop_front()
            {
                self.enter(at);
            } else {
                break;
            }
        }
        self.draining = false;
    }

    /// Cut a request into accesses and hand them to the translation layer.
    fn dispatch(&mut self, at: u32) {
        if self.broken {
            return;
        }
        let slot = &self.slots[at as usize];
        let (request, group) = (slot.request(), slot.index as u32);
        if self.wants_parts {
            self.begin_explained(at);
        }
        let mut watch = C::Watch::default();
        let result = if self.splitter.is_single(&request) {
            let access = self.splitter.single(&request, group);
            self.access(&request, request.lba, &access, &mut watch, at)
        } else {
            self.access_several(&request, group, &mut watch, at)
        };
        let mut pending = self.drive.flash.port.arm(watch, at);
        if let Err(error) = result {
            // What was begun of it ends, and the request itself never does.
            pending += 1;
            self.broken = true;
            self.fail(*error);
        }
        self.slots[at as usize].pending = pending;
        if pending == 0 {
            if self.wants_parts {
                self.tell_done(Told::DoneAtOnce { watcher: at, at: self.now() });
            }
            self.leaving.push_back(at);
        }
    }

    #[inline(always)]
    fn begin_explained(&mut self, at: u32) {
        let Slot { index, start, .. } = self.slots[at as usize];
        if let Some(teller) = self.drive.flash.port.teller() {
            teller.request = index;
        }
        if self.begins_late {
            self.begin_late(at);
        } else {
            debug_assert_eq!(start, self.now(), "nothing keeps a request at the host");
        }
    }

    #[cold]
    #[inline(never)]
    fn begin_late(&mut self, at: u32) {
        self.begun.resize(self.slots.len(), Time::ZERO);
        self.begun[at as usize] = self.now();
    }

    /// When a request was handed to the drive.
    #[inline(always)]
    fn begun(&self, at: u32) -> Time {
        if self.begins_late { self.begun[at as usize] } else { self.slots[at as usize].start }
    }

    /// A request has heard of its last end, and does not complete at once.
    #[cold]
    #[inline(never)]
    fn tell_heard(&mut self, at: u32) {
        if let Some(teller) = self.drive.flash.port.teller() {
            teller.pay_watcher(at);
        }
    }

    /// The drive has done a request that does not leave at once.
    #[cold]
    #[inline(never)]
    fn end_explained(&mut self, at: u32) {
        let request = self.slots[at as usize].index as RequestBits;
        self.tell_done(Told::Done { watcher: at, request, begun: self.begun(at), at: self.now() });
    }

    fn tell_done(&mut self, told: Told) {
        if let Some(teller) = self.drive.flash.port.teller() {
            teller.tell(told);
        }
    }

    /// A request completes now: tell what the host knows of its time.
    #[inline(always)]
    fn tell_completion(&mut self, at: u32, now: Time) {
        let begun = self.begun(at);
        let Slot { lba, index, arrival_ns, arrival, start, sectors, op, fua, stream, .. } =
            self.slots[at as usize];
        let Some(teller) = self.drive.flash.port.teller() else { return };
        teller.completes(Completed {
            lba,
            index,
            arrival_ns,
            arrival,
            start,
            sectors,
            watcher: at,
            op,
            fua,
            stream,
            after: 0,
            begun,
            end: now,
            hears: false,
        });
    }

    #[inline(always)]
    fn access(
        &mut self,
        request: &Request,
        lba: u64,
        access: &Access<'_>,
        watch: &mut C::Watch,
        at: u32,
    ) -> FlashResult<()> {
        let ready = self.drive.flash.port.ready();
        let done = self.drive.access(request.op, lba, access, ready)?;
        self.drive.flash.port.watch(watch, done, at);
        self.metrics.accessed(request.op, access.units);
        Ok(())
    }

    fn access_several(
        &mut self,
        request: &Request,
        group: u32,
        watch: &mut C::Watch,
        at: u32,
    ) -> FlashResult<()> {
        if request.op == Op::Flush {
            let ready = self.drive.flash.port.ready();
            let done = self.drive.flush(group, ready)?;
            self.drive.flash.port.watch(watch, done, at);
        }
        for (lba, access) in self.splitter.split(request, group) {
            self.drive.flash.check_interrupt()?;
            self.access(request, lba, &access, watch, at)?;
        }
        Ok(())
    }

    /// An access has ended: if it was the last one of its request, that may leave.
    #[inline(always)]
    fn on_ended(&mut self, at: u32) {
        let slot = &mut self.slots[at as usize];
        slot.pending -= 1;
        if slot.pending == 0 {
            let has_data = !self.link_is_instant && slot.op == Op::Read;
            if F::PAUSES || has_data || self.on_link[self.out].is_some() || !self.leaving.is_empty() {
                self.leaving.push_back(at);
                if self.wants_parts {
                    self.tell_heard(at);
                    self.end_explained(at);
                }
            } else {
                // The same without standing in line.
                self.draining = true;
                self.complete(at);
                self.draining = false;
            }
        } else if self.wants_parts
            && let Some(teller) = self.drive.flash.port.teller()
        {
            // Only the last end matters.
            teller.owes_watcher = false;
        }
        self.drain_link();
    }

    /// Several accesses have ended at once: requests go in their order.
    fn on_finished(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        self.drive.flash.port.finished(&mut finished);
        if finished.len() > 1 {
            sort_by(&mut finished, &|slot| self.slots[slot as usize].index);
        }
        for at in finished.drain(..) {
            let slot = &mut self.slots[at as usize];
            slot.pending -= 1;
            if slot.pending == 0 {
                self.leaving.push_back(at);
                if self.wants_parts {
                    self.end_explained(at);
                }
            }
        }
        self.finished = finished;
        self.drain_link();
    }

    fn complete(&mut self, at: u32) {
        let now = self.now();
        self.free_slots.push(at);
        self.in_drive -= 1;
        let slot = &self.slots[at as usize];
        self.metrics.completed(slot.op, slot.sectors);
        self.metrics.timed(slot.op, slot.arrival, slot.start, now, self.can_wait);
        if self.metrics.is_coarse_due() {
            self.metrics.sample_coarse(now, |totals| self.drive.sample_flash(totals));
        }
        if self.samples {
            self.metrics.sample(now, |totals| self.drive.sample(totals));
        }
        if self.wants_parts {
            self.tell_completion(at, now);
        } else if self.wants_requests {
            self.feeder.completed(&self.slots[at as usize].record(now));
        }
        if self.closing {
            return;
        }
        if self.closed {
            if self.take() {
                self.arrive_taken();
            }
        } else if let Some(next) = self.waiting.pop() {
            self.hand_over(next);
        }
    }

    /// Whether the timer of the next arrival is set.
    pub(crate) fn awaits_arrival(&self) -> bool {
        self.next_number.is_none()
    }

    /// A request is at the host now, whatever the feeder has.
    pub(crate) fn arrive_at_once(&mut self, request: Request, index: u64) {
        self.arrive(request, index, self.now());
        if self.next_number.is_some() {
            self.next_number = Some(self.drive.flash.port.draw_number());
        }
    }

    /// Whether request `index` is at the host or in the drive.
    pub(crate) fn has(&self, index: u64) -> bool {
        let slots = self.slots.iter().zip(0..);
        slots.filter(|(slot, _)| slot.index == index).any(|(_, at)| !self.free_slots.contains(&at))
    }
}

/// `what` would end later than any time.
fn too_long(what: &str) -> RunError {
    RunError::Request(format!(
        "{what} would end after more than 213 days, the longest time that is simulated"
    ))
}

/// Apart from the model, or it would be compiled for each drive.
fn sort_by(slots: &mut [u32], index: &dyn Fn(u32) -> u64) {
    slots.sort_unstable_by_key(|slot| index(*slot));
}
