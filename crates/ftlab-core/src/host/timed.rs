//! Driving with a clock: arrivals, the host link, and completions, among the events of flash.
//!
//! A request arrives, waits at the host while `host.outstanding` others are in the drive, and is handed over: its
//! latency counts from there. A write crosses the link whole before its pages are taken up; a read's data cross
//! when the last page has been read. Commands and completions take no link time, but need the direction that they
//! travel in to be free. With a half-duplex link both directions are one, and completions go first.

use std::collections::VecDeque;

use crate::access::Access;
use crate::config::{DeviceConfig, LinkDuplex, Stop};
use crate::device::RunOptions;
use crate::error::{FlashResult, RunError};
use crate::flash::clock::{Clock, Step};
use crate::geometry::SECTOR_BYTES;
use crate::host::admission::Admission;
use crate::host::request::{Op, Request};
use crate::host::split::Splitter;
use crate::host::{CONTROL_INTERVAL, Drive};
use crate::layer::Layer;
use crate::metrics::run::RunMetrics;
use crate::metrics::{Observer, RequestRecord};
use crate::time::{Rate, Time};

/// Timers of the clock.
const ARRIVAL: u32 = 0;
const LINK: [u32; 2] = [1, 2];

/// Directions of the link; with half duplex there is only the first.
const IN: usize = 0;

/// Requests for which there is room from the start, where the number in the drive is not limited to fewer.
const ROOM: usize = 1 << 16;

/// A request between hand-over (or arrival) and completion.
///
/// The parts of the [`Request`] stand in another order than there, so that they are copied one by one: a part read soon
/// after it was written with others at once would wait for every store ahead of it, some 60 cycles a request.
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
    stream: u16,
}

impl Slot {
    #[inline(always)]
    fn request(&self) -> Request {
        let Slot { lba, arrival_ns, sectors, op, stream, .. } = *self;
        Request { arrival_ns, lba, sectors, op, stream }
    }
}

/// Everything that happens between source and flash.
struct Driver<'r, 'a, L, C: Clock> {
    drive: &'r mut Drive<'a, L, C>,
    admission: &'r mut Admission,
    metrics: &'r mut RunMetrics,
    observer: &'r mut dyn Observer,
    splitter: Splitter,
    closed: bool,
    samples: bool,
    wants_requests: bool,
    /// Most requests in the drive.
    depth: usize,
    can_wait: bool,
    link: Rate,
    link_is_instant: bool,
    out: usize,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    in_drive: usize,
    /// Waiting at the host.
    waiting: VecDeque<u32>,
    /// Handed over, waiting for the way in.
    entering: VecDeque<u32>,
    /// Served, waiting for the way out.
    leaving: VecDeque<u32>,
    /// Who is on the link, by direction.
    on_link: [Option<u32>; 2],
    /// Served at one moment: empty between events.
    finished: Vec<u32>,
    /// The waiting lines are being emptied: whoever comes now joins them.
    emptying: bool,
    stopped: bool,
    /// No more requests are handed over: the run ends when the drive is idle, so that the summary holds together.
    closing: bool,
    /// What went wrong first.
    error: Option<RunError>,
    /// It was the drive: what is in it and has not begun stays.
    broken: bool,
}

/// Run all requests of `admission`. What was measured stays in `metrics` whether or not this ends in an error.
///
/// # Errors
/// When a request, the source or the drive is at fault.
pub(crate) fn run<L: Layer<C>, C: Clock>(
    config: &DeviceConfig,
    drive: &mut Drive<'_, L, C>,
    admission: &mut Admission,
    metrics: &mut RunMetrics,
    options: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let host = &config.host;
    let closed = host.open().is_none();
    let depth = host.depth().map_or(usize::MAX, |depth| depth as usize);
    // Lines of requests in the drive never grow beyond this; without a limit, and at the host, they may.
    let room = depth.min(ROOM);
    let link = Rate::from_mb_per_s(host.link_mb_per_s);
    let splitter = Splitter::new(drive.flash.geometry());
    let mut driver = Driver {
        admission,
        metrics,
        splitter,
        closed,
        samples: options.series.is_some(),
        wants_requests: observer.wants_requests(),
        observer,
        depth,
        can_wait: !closed && depth != usize::MAX,
        link,
        link_is_instant: link.is_instant(),
        out: usize::from(host.link_duplex == LinkDuplex::Full),
        slots: Vec::with_capacity(room),
        free_slots: Vec::with_capacity(room),
        in_drive: 0,
        waiting: VecDeque::new(),
        entering: VecDeque::with_capacity(room),
        leaving: VecDeque::with_capacity(room),
        on_link: [None; 2],
        finished: Vec::with_capacity(room),
        emptying: false,
        stopped: false,
        closing: false,
        error: None,
        broken: false,
        drive,
    };
    driver.go(host.stop());
    driver.pass_on_commands(true);
    driver.error.take().map_or_else(|| driver.beyond_time(), Err)
}

impl<L: Layer<C>, C: Clock> Driver<'_, '_, L, C> {
    fn begin(&mut self) {
        if !self.closed {
            if self.take() {
                self.expect();
            }
            return;
        }
        for _ in 0..self.depth {
            if self.closing || !self.take() {
                break;
            }
            self.arrive();
        }
    }

    #[cold]
    fn fail(&mut self, error: RunError) {
        self.error.get_or_insert(error);
        self.closing = true;
    }

    /// Requests that stay in a drive in which nothing happens any more wait for a time that cannot be counted.
    fn beyond_time(&self) -> Result<(), RunError> {
        if self.in_drive == 0 || self.stopped {
            return Ok(());
        }
        let text = format!(
            "{} requests would end after more than 213 days, the longest time that is simulated",
            self.in_drive
        );
        Err(RunError::Request(text))
    }

    fn go(&mut self, stop: Stop) {
        self.begin();
        let mut until_control = CONTROL_INTERVAL;
        loop {
            match self.drive.flash.port.step() {
                None => return,
                Some(Step::Timer(ARRIVAL)) => self.on_arrival(stop),
                Some(Step::Timer(timer)) => {
                    self.on_link_free(if timer == LINK[IN] { IN } else { self.out });
                }
                Some(Step::Ended(at)) => self.on_ended(at),
                Some(Step::Several) => self.on_finished(),
            }
            until_control -= 1;
            if until_control == 0 || self.stopped {
                until_control = CONTROL_INTERVAL;
                self.pass_on_commands(false);
                let control = self.drive.control;
                control.report(false, self.admission.counts().requests, self.admission.fraction());
                self.closing |= control.is_cancelled();
                if self.stopped {
                    return;
                }
            }
        }
    }

    /// Take the next request of the admission. False when there is none, or it cannot be had.
    #[inline(always)]
    fn take(&mut self) -> bool {
        self.drive.look_ahead(self.admission, &self.splitter);
        self.admission.take().unwrap_or_else(|error| {
            self.fail(error);
            false
        })
    }

    fn now(&self) -> Time {
        self.drive.flash.port.now()
    }

    /// The timer will ring when the current request of the admission arrives.
    fn expect(&mut self) {
        self.drive.flash.port.set_timer(ARRIVAL, self.admission.arrival());
    }

    fn on_arrival(&mut self, stop: Stop) {
        if self.closing {
            return;
        }
        if stop == Stop::LastArrival {
            match self.admission.has_more() {
                Ok(true) => {}
                Ok(false) => {
                    self.stopped = true;
                    return;
                }
                Err(error) => return self.fail(error),
            }
        }
        self.arrive();
        if !self.closing && self.take() {
            self.expect();
        }
    }

    /// The current request of the admission is at the host now.
    #[inline(always)]
    fn arrive(&mut self) {
        let at = self.free_slots.pop().unwrap_or_else(|| self.new_slot());
        let arrival = if self.closed { self.now() } else { self.admission.arrival() };
        self.metrics.arrived(arrival);
        let slot = &mut self.slots[at as usize];
        let Request { arrival_ns, lba, sectors, op, stream } = *self.admission.request();
        (slot.lba, slot.sectors, slot.op, slot.stream) = (lba, sectors, op, stream);
        (slot.index, slot.arrival_ns, slot.arrival) = (self.admission.index(), arrival_ns, arrival);
        if self.in_drive < self.depth {
            self.hand_over(at);
        } else {
            self.waiting.push_back(at);
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
        self.slots[at as usize].start = self.now();
        self.in_drive += 1;
        // While the lines are being emptied, whoever leaves goes first.
        let leaves = self.emptying && !self.leaving.is_empty();
        if leaves || self.on_link[IN].is_some() || !self.entering.is_empty() {
            self.entering.push_back(at);
            return;
        }
        self.enter(at);
        self.empty_lines();
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

    fn take_link(&mut self, direction: usize, at: u32) {
        let sectors = self.slots[at as usize].sectors;
        let span = self.link.span(u64::from(sectors) * u64::from(SECTOR_BYTES));
        self.on_link[direction] = Some(at);
        let end = self.now() + span;
        self.drive.flash.port.set_timer(LINK[direction], end);
    }

    fn on_link_free(&mut self, direction: usize) {
        // Whoever comes meanwhile finds the link busy and joins the lines, which are emptied next.
        if let Some(at) = self.on_link[direction] {
            if self.op(at) == Op::Write {
                self.dispatch(at);
            } else {
                self.complete(at);
            }
        }
        self.on_link[direction] = None;
        self.empty_lines();
    }

    /// Let completions out and requests in, as far as the link allows.
    #[inline(always)]
    fn empty_lines(&mut self) {
        if !(self.emptying || (self.leaving.is_empty() && self.entering.is_empty())) {
            self.empty_some();
        }
    }

    fn empty_some(&mut self) {
        self.emptying = true;
        loop {
            if self.on_link[self.out].is_none()
                && let Some(at) = self.leaving.pop_front()
            {
                if !self.link_is_instant && self.op(at) == Op::Read {
                    self.take_link(self.out, at);
                } else {
                    self.complete(at);
                }
            } else if self.on_link[IN].is_none()
                && let Some(at) = self.entering.pop_front()
            {
                self.enter(at);
            } else {
                break;
            }
        }
        self.emptying = false;
    }

    /// Cut a request into accesses and hand them to the translation layer.
    fn dispatch(&mut self, at: u32) {
        if self.broken {
            return;
        }
        let slot = &self.slots[at as usize];
        let (request, group) = (slot.request(), slot.index as u32);
        let mut watch = C::Watch::default();
        let result = if let Some(access) = self.splitter.single(&request, group) {
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
            self.leaving.push_back(at);
        }
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
            let done = self.drive.top.flush(&mut self.drive.flash, ready)?;
            self.drive.flash.port.watch(watch, done, at);
        }
        for (lba, access) in self.splitter.split(request, group) {
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
            if has_data || self.on_link[self.out].is_some() || !self.leaving.is_empty() {
                self.leaving.push_back(at);
            } else {
                // The same without standing in line.
                self.emptying = true;
                self.complete(at);
                self.emptying = false;
            }
        }
        self.empty_lines();
    }

    /// Several accesses have ended at once.
    fn on_finished(&mut self) {
        let mut finished = std::mem::take(&mut self.finished);
        self.drive.flash.port.finished(&mut finished);
        for at in finished.drain(..) {
            let slot = &mut self.slots[at as usize];
            slot.pending -= 1;
            if slot.pending == 0 {
                self.leaving.push_back(at);
            }
        }
        self.finished = finished;
        self.empty_lines();
    }

    fn complete(&mut self, at: u32) {
        let now = self.now();
        self.free_slots.push(at);
        self.in_drive -= 1;
        let slot = &self.slots[at as usize];
        self.metrics.completed(slot.op, slot.sectors);
        self.metrics.timed(slot.op, slot.arrival, slot.start, now, self.can_wait);
        if self.samples {
            self.metrics.sample(&self.drive.top, &self.drive.flash, now);
        }
        if self.wants_requests {
            let Slot { index, arrival, start, .. } = *slot;
            let request = slot.request();
            self.observer.on_request(&RequestRecord { index, request, arrival, start, end: now });
        }
        if self.closing {
            return;
        }
        if self.closed {
            if self.take() {
                self.arrive();
            }
        } else if let Some(next) = self.waiting.pop_front() {
            self.hand_over(next);
        }
    }

    fn pass_on_commands(&mut self, all: bool) {
        if let Some(log) = &mut self.drive.flash.port.ledger().log
            && (all || log.len() >= 4096)
        {
            for record in log.drain(..) {
                self.observer.on_command(&record);
            }
        }
    }
}
