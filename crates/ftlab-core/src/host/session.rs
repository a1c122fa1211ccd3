//! A drive that is fed while it runs.
//!
//! Requests come one by one, and completions are reported one by one. The drive with its clock can be copied at any
//! moment.
//!
//! A session has the host and the drive of a run. The same requests at the same times complete at the same times, to
//! the picosecond, and in the same order. Time stands still between calls. There are two ways to send a request:
//!
//! - [`Session::submit`] for a time that has not come: it arrives as a request of a run with open arrivals does. It may be
//!   submitted any time before the session goes past its arrival.
//! - [`Session::submit_now`] for the present: it arrives before anything else happens. Called with each completion that
//!   [`Session::next_event`] tells, and for the first few requests at the start, this is a closed loop.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use dyn_clone::DynClone;

use crate::config::{DeviceConfig, Model, OutOfRange, PreconditionPattern};
use crate::error::{ConfigError, RunError};
use crate::flash::Flash;
use crate::flash::clock::Clock;
use crate::flash::event_port::EventPort;
use crate::flash::port::CountingPort;
use crate::flash::reservation_port::ReservationPort;
use crate::ftl::{self, FtlVisitor};
use crate::geometry::Geometry;
use crate::host::admission::{AdmissionCounts, Fit, fit};
use crate::host::model::{Feeder, HostModel};
use crate::host::request::{Op, Request, VecSource};
use crate::host::run_metrics::RunMetrics;
use crate::host::run_metrics::measured;
use crate::host::split::Splitter;
use crate::host::{Drive, precondition};
use crate::interrupt::Interrupt;
use crate::layer::{Bare, Ftl, Layer};
use crate::metrics::RequestRecord;
use crate::run::{RunControl, RunOutcome};
use crate::time::{LATEST_DAYS, LATEST_NS, Time, nearest};
use crate::verify::ShadowStore;

/// What a session does beyond what the device says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOptions {
    /// Seed of every random choice inside the drive.
    pub seed: u64,
    /// Keep a version for every sector and check every read against it.
    pub verify: bool,
}

impl Default for SessionOptions {
    fn default() -> Self {
        Self { seed: 1, verify: false }
    }
}

/// Why a session refused a call. Nothing has changed then, and the session goes on; but after [`SessionError::Run`] it takes
/// no more requests.
#[derive(Debug, Clone, PartialEq)]
pub enum SessionError {
    /// The device makes no sense, or cannot have a session.
    Device(ConfigError),
    /// The drive has failed, or could not be preconditioned.
    Run(RunError),
    /// Preconditioning was interrupted.
    Interrupted,
    /// The session was closed.
    Closed,
    /// A request is to arrive before one that was submitted earlier, or before the present.
    Unordered {
        /// When it is to arrive.
        at: Time,
        /// The earliest time that it may.
        earliest: Time,
    },
    /// A time after [`LATEST_NS`], the longest run.
    TooLate(Time),
    /// A read, write or trim of no sectors.
    Empty,
    /// A request beyond the end of the drive, which `host.out_of_range` does not make fit. Of a table, one of which it leaves
    /// nothing is counted instead.
    Beyond {
        /// Its first sector.
        lba: u64,
        /// Its sectors.
        sectors: u32,
        /// Sectors of the drive.
        drive_sectors: u64,
    },
    /// No request has this number, or its completion was told already.
    UnknownRequest(u64),
    /// Time cannot go back.
    Backwards {
        /// Where to.
        until: Time,
        /// The present.
        now: Time,
    },
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SessionError::Device(error) => error.fmt(f),
            SessionError::Run(error) => error.fmt(f),
            SessionError::Interrupted => f.write_str("preconditioning was interrupted"),
            SessionError::Closed => f.write_str("the session is closed"),
            SessionError::Unordered { at, earliest } => write!(
                f,
                "a request cannot arrive at {} ns: the last one arrives, or the present is, at {} ns",
                at.as_ns_f64(),
                earliest.as_ns_f64()
            ),
            SessionError::TooLate(at) => {
                write!(f, "{} ns is after more than {LATEST_DAYS} days, the longest session", at.as_ns_f64())
            }
            SessionError::Empty => f.write_str("a read, write or trim needs at least one sector"),
            SessionError::Beyond { lba, sectors, drive_sectors } => write!(
                f,
                "{sectors} sectors at sector {lba} reach beyond the end of the drive, sector {drive_sectors}"
            ),
            SessionError::UnknownRequest(id) => {
                write!(f, "request {id} does not exist, or its completion was told already")
            }
            SessionError::Backwards { until, now } => {
                write!(f, "time cannot go back to {} ns: it is {} ns", until.as_ns_f64(), now.as_ns_f64())
            }
        }
    }
}

impl std::error::Error for SessionError {}

/// A request on its way to the host.
#[derive(Debug, Clone, Copy)]
struct Arriving {
    request: Request,
    id: u64,
    at: Time,
}

/// Feeds the host with what a client has submitted.
#[derive(Debug, Clone)]
struct ClientFeeder {
    queue: VecDeque<Arriving>,
    taken: Arriving,
    /// The completion at which the host has stopped.
    completed: Option<RequestRecord>,
}

impl ClientFeeder {
    fn new() -> Self {
        let request = Request { arrival_ns: 0, lba: 0, sectors: 0, op: Op::Flush, stream: 0, fua: false };
        let taken = Arriving { request, id: u64::MAX, at: Time::ZERO };
        Self { queue: VecDeque::new(), taken, completed: None }
    }
}

impl Feeder for ClientFeeder {
    const PAUSES: bool = true;

    fn is_closed(&self) -> bool {
        false
    }

    fn ends_run(&mut self) -> Result<bool, RunError> {
        Ok(false)
    }

    #[inline]
    fn take<L: Layer<C>, C: Clock>(&mut self, _: &Drive<L, C>, _: &Splitter) -> Result<bool, RunError> {
        let next = self.queue.pop_front();
        self.taken = next.unwrap_or(self.taken);
        Ok(next.is_some())
    }

    #[inline]
    fn request(&self) -> &Request {
        &self.taken.request
    }

    #[inline]
    fn index(&self) -> u64 {
        self.taken.id
    }

    #[inline]
    fn arrival(&self) -> Time {
        self.taken.at
    }

    fn wants_completions(&self) -> bool {
        true
    }

    #[inline]
    fn completed(&mut self, record: &RequestRecord) {
        debug_assert!(self.completed.is_none(), "the host stops at each completion");
        self.completed = Some(*record);
    }
}

/// The host and drive of a session, whatever they are made of.
trait SessionCore: DynClone + Send {
    /// The present, as far as events go.
    fn now(&self) -> Time;
    /// A request will arrive at a time that has not come.
    fn submit(&mut self, arriving: Arriving);
    /// A request arrives at `arriving.at`: the present, or later with nothing before it.
    fn submit_now(&mut self, arriving: Arriving);
    /// Go on to the next completion before `until`, if there is one.
    fn next_completion(&mut self, until: Time) -> Option<RequestRecord>;
    /// Whether a request was submitted and has not completed.
    fn holds(&self, id: u64) -> bool;
    /// What went wrong inside the drive.
    fn failure(&self) -> Option<&RunError>;
    /// See [`HostModel::check_clock_overflow`].
    fn check_clock_overflow(&self) -> Result<(), RunError>;
    /// What was measured so far.
    fn measured(&mut self, config: &DeviceConfig, counts: AdmissionCounts) -> RunOutcome;
}

dyn_clone::clone_trait_object!(SessionCore);

impl<L, C> SessionCore for HostModel<L, C, ClientFeeder>
where
    L: Layer<C> + Clone + Send + 'static,
    C: Clock + Clone + Send + 'static,
{
    fn now(&self) -> Time {
        HostModel::now(self)
    }

    fn submit(&mut self, arriving: Arriving) {
        self.feeder.queue.push_back(arriving);
        self.arm_late_arrival();
    }

    fn submit_now(&mut self, arriving: Arriving) {
        if arriving.at > HostModel::now(self) {
            self.drive.flash.port.move_to(arriving.at);
        }
        self.arrive_at_once(arriving.request, arriving.id);
    }

    fn next_completion(&mut self, until: Time) -> Option<RequestRecord> {
        if self.feeder.completed.is_none() {
            self.resume();
        }
        while self.feeder.completed.is_none() && self.step_before(until) {}
        self.feeder.completed.take()
    }

    fn holds(&self, id: u64) -> bool {
        let awaited = self.awaits_arrival() && self.feeder.taken.id == id;
        // A request that takes no time has completed as it came.
        let told_next = self.feeder.completed.is_some_and(|record| record.index == id);
        awaited || told_next || self.feeder.queue.iter().any(|arriving| arriving.id == id) || self.has(id)
    }

    fn failure(&self) -> Option<&RunError> {
        self.error.as_ref()
    }

    fn check_clock_overflow(&self) -> Result<(), RunError> {
        HostModel::check_clock_overflow(self)
    }

    fn measured(&mut self, config: &DeviceConfig, counts: AdmissionCounts) -> RunOutcome {
        let error = self.error.clone();
        measured(config, self, counts, error)
    }
}

/// A drive that stands still between calls. See the module.
#[derive(Clone)]
pub struct Session {
    /// `None` when closed.
    core: Option<Box<dyn SessionCore>>,
    config: Arc<DeviceConfig>,
    seed: u64,
    sectors: u64,
    /// Requests submitted; the next one has this number.
    submitted: u64,
    /// Requests whose completion the core has not told.
    outstanding: u64,
    out_of_range: u64,
    /// Of those, requests of which nothing was left.
    rejected: u64,
    /// Why time cannot go on, if that is so.
    failed: Option<RunError>,
    /// The last time that a request was submitted for.
    latest: Time,
    /// Nothing happens before this time any more.
    reached: Time,
    /// Completed while another request was waited for.
    untold: VecDeque<RequestRecord>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("device", &self.config.name)
            .field("submitted", &self.submitted)
            .field("outstanding", &self.outstanding)
            .field("closed", &self.core.is_none())
            .finish_non_exhaustive()
    }
}

/// What a new session is made of, as soon as its translation layer is known.
struct Opening<'a> {
    config: &'a DeviceConfig,
    geometry: &'a Geometry,
    options: SessionOptions,
    control: &'a RunControl,
}

impl FtlVisitor for Opening<'_> {
    type Output = Result<Box<dyn SessionCore>, SessionError>;

    fn interrupt(&self) -> Interrupt {
        self.control.interrupt()
    }

    fn visit<F: Ftl<CountingPort>>(self, ftl: F) -> Self::Output {
        let Opening { config, geometry, options, control } = self;
        if control.is_cancelled() {
            return Err(SessionError::Interrupted);
        }
        let shadow = options.verify.then(|| ShadowStore::new(Splitter::new(geometry).sectors()));
        let mut flash = Flash::new(config, geometry, options.verify, CountingPort);
        flash.interrupt = control.interrupt();
        let mut drive = Drive::new(ftl, flash, shadow);
        let no_workload = VecSource::new(Vec::new());
        let (precondition, failed) =
            precondition::run(config, &mut drive, &no_workload, options.seed, control);
        match failed {
            None => {}
            Some(RunError::Interrupted) => return Err(SessionError::Interrupted),
            Some(error) => return Err(SessionError::Run(error)),
        }
        // From here on, whoever is interrupted goes on later: no request ends in the middle.
        drive.flash.interrupt = Interrupt::default();
        if control.is_cancelled() {
            return Err(SessionError::Interrupted);
        }
        drive.top.reset_counters();
        let metrics = RunMetrics::new(None, precondition);
        let core = if ReservationPort::suits(config, geometry) {
            opened(
                config,
                drive.behind(config, &Bare, ReservationPort::new(config, geometry, false)),
                metrics,
            )
        } else {
            opened(config, drive.behind(config, &Bare, EventPort::new(config, geometry, false)), metrics)
        };
        Ok(core)
    }
}

fn opened<L, C>(config: &DeviceConfig, drive: Drive<L, C>, metrics: RunMetrics) -> Box<dyn SessionCore>
where
    L: Layer<C> + Clone + Send + 'static,
    C: Clock + Clone + Send + 'static,
{
    let host = &config.host;
    // Where completions bring requests, the client limits how many are in the drive.
    let depth = host.depth().filter(|_| host.open().is_some());
    let mut model = HostModel::new(host, depth, drive, metrics, false, ClientFeeder::new());
    model.begin();
    Box::new(model)
}

fn refused(key: &str, found: &str, expected: &str) -> SessionError {
    SessionError::Device(ConfigError { key: key.into(), found: found.into(), expected: expected.into() })
}

impl Session {
    /// Put a drive together and precondition it. `control` watches that, and may end it.
    ///
    /// Of the keys of `host`, a session heeds `overhead_us`, the link, `out_of_range`, and with `arrival = "open"` the limit `outstanding`:
    /// when requests come is up to the client.
    ///
    /// # Errors
    /// When the device makes no sense, has no clock (`model = "mapping_cache"`), or is preconditioned by a workload.
    pub fn new(
        config: &DeviceConfig,
        options: &SessionOptions,
        control: &RunControl,
    ) -> Result<Self, SessionError> {
        config.validate().map_err(SessionError::Device)?;
        if config.model == Model::MappingCache {
            let expected = "has no clock, so it cannot have a session: choose \"drive\"";
            return Err(refused("model", "\"mapping_cache\"", expected));
        }
        let pattern = config.precondition.aging().map(|aging| aging.pattern);
        if pattern == Some(PreconditionPattern::Workload) {
            let expected =
                "needs a workload, which a session does not have: choose \"uniform\" or \"sequential\"";
            return Err(refused("precondition.pattern", "\"workload\"", expected));
        }
        Self::new_unchecked(config, options, control)
    }

    /// The same for a configuration that has been validated, and in tests for one that fills up.
    ///
    /// # Errors
    /// As `new`.
    #[doc(hidden)]
    pub fn new_unchecked(
        config: &DeviceConfig,
        options: &SessionOptions,
        control: &RunControl,
    ) -> Result<Self, SessionError> {
        let geometry = config.to_geometry();
        let opening = Opening { config, geometry: &geometry, options: *options, control };
        let core = ftl::build(config, &geometry, options.seed, options.verify, opening)?;
        Ok(Self {
            core: Some(core),
            config: Arc::new(config.clone()),
            seed: options.seed,
            sectors: Splitter::new(&geometry).sectors(),
            submitted: 0,
            outstanding: 0,
            out_of_range: 0,
            rejected: 0,
            failed: None,
            latest: Time::ZERO,
            reached: Time::ZERO,
            untold: VecDeque::new(),
        })
    }

    fn core(&self) -> Result<&dyn SessionCore, SessionError> {
        self.core.as_deref().ok_or(SessionError::Closed)
    }

    /// The core, as long as it takes requests.
    fn working(&mut self) -> Result<&mut dyn SessionCore, SessionError> {
        let core = self.core.as_deref_mut().ok_or(SessionError::Closed)?;
        let failure = core.failure().or(self.failed.as_ref()).cloned();
        failure.map_or(Ok(core), |error| Err(SessionError::Run(error)))
    }

    /// Sectors that the host sees.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The present: the time of the last event that was let happen, or as far as [`advance`](Self::advance) went.
    ///
    /// # Errors
    /// When the session is closed.
    pub fn now(&self) -> Result<Time, SessionError> {
        Ok(self.core()?.now().max(self.reached))
    }

    /// Requests whose completion has not been told.
    pub fn outstanding(&self) -> u64 {
        self.outstanding + self.untold.len() as u64
    }

    /// `request` as the drive takes it, and whether it had to be made fit.
    fn fitted(&self, mut request: Request) -> Result<(Request, bool), SessionError> {
        let Request { lba, sectors, op, .. } = request;
        if op == Op::Flush {
            (request.lba, request.sectors) = (0, 0);
            return Ok((request, false));
        }
        if sectors == 0 {
            return Err(SessionError::Empty);
        }
        if lba.checked_add(sectors.into()).is_some_and(|end| end <= self.sectors) {
            return Ok((request, false));
        }
        match fit(&mut request, self.sectors, self.config.host.out_of_range) {
            Fit::Fits => Ok((request, true)),
            Fit::Nothing | Fit::Refused | Fit::LargerThanDrive => {
                Err(SessionError::Beyond { lba, sectors, drive_sectors: self.sectors })
            }
        }
    }

    /// Whether `host.out_of_range = "clip"` leaves nothing of a request of a table: it is counted then, and not sent.
    fn leaves_nothing(&self, request: &Request) -> bool {
        let is_beyond = request.lba >= self.sectors && request.op != Op::Flush && request.sectors > 0;
        is_beyond && self.config.host.out_of_range == OutOfRange::Clip
    }

    /// Whether the requests of a table can be sent.
    fn check_all(&self, requests: &[Request]) -> Result<(), SessionError> {
        let mut kept = requests.iter().filter(|request| !self.leaves_nothing(request));
        kept.try_for_each(|request| self.fitted(*request).map(drop))
    }

    /// Let a request of a table arrive at `at`, or at this moment. False if nothing is left of it.
    fn send_one(&mut self, request: &Request, at: Option<Time>) -> Result<bool, SessionError> {
        if self.leaves_nothing(request) {
            self.working()?;
            self.submitted += 1;
            self.out_of_range += 1;
            self.rejected += 1;
            return Ok(false);
        }
        match at {
            Some(at) => self.submit(*request, at)?,
            None => self.submit_now(*request)?,
        };
        Ok(true)
    }

    /// `request`, which will arrive at `at`, gets its number.
    fn admit(&mut self, request: Request, at: Time) -> Result<Arriving, SessionError> {
        let (request, made_fit) = self.fitted(request)?;
        self.out_of_range += u64::from(made_fit);
        let id = self.submitted;
        self.submitted += 1;
        self.outstanding += 1;
        Ok(Arriving { request, id, at })
    }

    /// Let `request` arrive at `at`, which is not before the present, nor before the time of the last request submitted so.
    /// Its `arrival_ns` means nothing. Returns its number: they count from 0.
    ///
    /// # Errors
    /// When the time or the request is refused, the drive has failed, or the session is closed.
    pub fn submit(&mut self, request: Request, at: Time) -> Result<u64, SessionError> {
        self.working()?;
        let earliest = self.now()?.max(self.latest);
        if at < earliest {
            return Err(SessionError::Unordered { at, earliest });
        }
        if at > Time::from_ns(LATEST_NS) {
            return Err(SessionError::TooLate(at));
        }
        let arriving = self.admit(request, at)?;
        self.latest = at;
        self.working()?.submit(arriving);
        Ok(arriving.id)
    }

    /// Let `request` arrive at this moment, before anything else happens. Returns its number.
    ///
    /// # Errors
    /// As [`submit`](Self::submit).
    pub fn submit_now(&mut self, request: Request) -> Result<u64, SessionError> {
        self.working()?;
        let arriving = self.admit(request, self.now()?)?;
        self.working()?.submit_now(arriving);
        Ok(arriving.id)
    }

    /// The next completion before `until`; the failure of the drive only when there is none.
    fn next_completion(&mut self, until: Time) -> Result<Option<RequestRecord>, SessionError> {
        if self.outstanding == 0 && until == Time::NEVER {
            self.working()?;
            return Ok(None);
        }
        let core = self.core.as_deref_mut().ok_or(SessionError::Closed)?;
        let record = core.next_completion(until);
        if record.is_some() {
            self.outstanding -= 1;
        } else {
            self.working()?;
            if until == Time::NEVER
                && let Err(error) = self.core()?.check_clock_overflow()
            {
                self.failed = Some(error.clone());
                return Err(SessionError::Run(error));
            }
        }
        Ok(record)
    }

    /// Let time pass until the next request has completed. `None` when none is outstanding; time stands still then.
    ///
    /// # Errors
    /// When the drive has failed and all that it had begun has been told, or the session is closed.
    pub fn next_event(&mut self) -> Result<Option<RequestRecord>, SessionError> {
        self.core()?;
        match self.untold.pop_front() {
            Some(record) => Ok(Some(record)),
            None => self.next_completion(Time::NEVER),
        }
    }

    /// Let time pass until request `id` has completed. What completes meanwhile is told by the next calls.
    ///
    /// # Errors
    /// When there is no such request, or its completion was told already; and as [`next_event`](Self::next_event).
    pub fn wait(&mut self, id: u64) -> Result<RequestRecord, SessionError> {
        let core = self.core()?;
        if let Some(at) = self.untold.iter().position(|record| record.index == id) {
            return self.untold.remove(at).ok_or(SessionError::UnknownRequest(id));
        }
        if !core.holds(id) {
            return Err(SessionError::UnknownRequest(id));
        }
        loop {
            match self.next_completion(Time::NEVER)? {
                Some(record) if record.index == id => return Ok(record),
                Some(record) => self.untold.push_back(record),
                None => return Err(SessionError::UnknownRequest(id)),
            }
        }
    }

    /// Let everything happen that comes before `until`, which becomes the present. Returns the completions, in order.
    ///
    /// What ends at `until` itself comes with the next call: requests may arrive at `until` that go first.
    ///
    /// # Errors
    /// When `until` has passed, and as [`next_event`](Self::next_event).
    pub fn advance(&mut self, until: Time) -> Result<Vec<RequestRecord>, SessionError> {
        let now = self.now()?;
        if until < now {
            return Err(SessionError::Backwards { until, now });
        }
        if until > Time::from_ns(LATEST_NS) {
            return Err(SessionError::TooLate(until));
        }
        let records = self.completions(until)?;
        self.reached = until;
        Ok(records)
    }

    /// Send nothing for `span`. Returns the completions of that time, in order; see [`advance`](Self::advance).
    ///
    /// # Errors
    /// As `advance`.
    pub fn idle(&mut self, span: Time) -> Result<Vec<RequestRecord>, SessionError> {
        self.advance(self.now()? + span)
    }

    /// Let `request` arrive at this moment, and time pass until it has completed.
    ///
    /// # Errors
    /// As [`submit`](Self::submit) and [`wait`](Self::wait).
    pub fn serve(&mut self, request: Request) -> Result<RequestRecord, SessionError> {
        let id = self.submit_now(request)?;
        self.wait(id)
    }

    /// Let everything happen that was submitted, background work included. Returns the completions, in order.
    ///
    /// # Errors
    /// As [`next_event`](Self::next_event).
    pub fn drain(&mut self) -> Result<Vec<RequestRecord>, SessionError> {
        let records = self.completions(Time(Time::NEVER.0 - 1))?;
        // Said by the next call where there are completions.
        if records.is_empty() {
            self.core()?.check_clock_overflow().map_err(SessionError::Run)?;
        }
        Ok(records)
    }

    /// Let the next calls tell these completions again.
    pub fn give_back(&mut self, records: Vec<RequestRecord>) {
        self.untold.extend(records);
        self.untold.make_contiguous().sort_by_key(|record| record.end);
    }

    /// `records`, if all went well; otherwise the next calls tell them.
    fn all_or_later(
        &mut self,
        records: Vec<RequestRecord>,
        result: Result<(), SessionError>,
    ) -> Result<Vec<RequestRecord>, SessionError> {
        if result.is_err() {
            self.give_back(records);
            return result.map(|()| Vec::new());
        }
        Ok(records)
    }

    fn completions(&mut self, until: Time) -> Result<Vec<RequestRecord>, SessionError> {
        self.core()?;
        let mut records: Vec<RequestRecord> = self.untold.drain(..).collect();
        loop {
            match self.next_completion(until) {
                Ok(Some(record)) => records.push(record),
                Ok(None) => return Ok(records),
                // Told by the next call.
                Err(SessionError::Run(_)) if !records.is_empty() => return Ok(records),
                Err(error) => return Err(error),
            }
        }
    }

    /// Send `requests` in a closed loop from now on: `queue_depth` of them are outstanding, and each completion lets the
    /// next one arrive `gap` later. Returns their completions, in order, when all have completed; when `control` is
    /// cancelled, those of the requests that had been sent by then.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), before anything was sent; and when the drive fails. The next calls tell what had completed.
    pub fn send(
        &mut self,
        requests: &[Request],
        queue_depth: usize,
        gap: Time,
        control: &RunControl,
    ) -> Result<Vec<RequestRecord>, SessionError> {
        self.working()?;
        self.check_all(requests)?;
        let (first, now) = (self.submitted, self.now()?);
        if gap > Time::ZERO && self.latest > now {
            return Err(SessionError::Unordered { at: now, earliest: self.latest });
        }
        let (mut left, mut sent) = (requests.iter(), 0);
        while sent < queue_depth
            && let Some(request) = left.next()
        {
            sent += usize::from(self.send_one(request, None)?);
        }
        let mut records = Vec::with_capacity(requests.len());
        let result = self.send_rest((left, sent), first, gap, control, &mut records);
        self.all_or_later(records, result)
    }

    /// Send what is `left` as others complete, until all since number `first` have, of which `sent` are on their way.
    fn send_rest(
        &mut self,
        (mut left, mut sent): (std::slice::Iter<'_, Request>, usize),
        first: u64,
        gap: Time,
        control: &RunControl,
        records: &mut Vec<RequestRecord>,
    ) -> Result<(), SessionError> {
        while records.len() < sent {
            let Some(record) = self.next_completion(Time::NEVER)? else { break };
            if record.index < first {
                self.untold.push_back(record);
                continue;
            }
            records.push(record);
            if control.is_cancelled() {
                continue;
            }
            let at = (gap > Time::ZERO).then(|| record.end + gap);
            for request in left.by_ref() {
                if self.send_one(request, at)? {
                    sent += 1;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Send `requests` in groups of `together` from now on. All of a group arrive at one instant, and the next group `gap` after
    /// the last of them has completed. Returns their completions, in order; when `control` is cancelled, those of the groups
    /// that had been sent by then.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), before anything was sent; and when the drive fails, or the gap ends too late. The next calls
    /// tell what had completed.
    pub fn send_together(
        &mut self,
        requests: &[Request],
        together: usize,
        gap: Time,
        control: &RunControl,
    ) -> Result<Vec<RequestRecord>, SessionError> {
        self.working()?;
        self.check_all(requests)?;
        let mut records = Vec::with_capacity(requests.len());
        let result = self.send_groups(requests, together, gap, control, &mut records);
        self.all_or_later(records, result)
    }

    fn send_groups(
        &mut self,
        requests: &[Request],
        together: usize,
        gap: Time,
        control: &RunControl,
        records: &mut Vec<RequestRecord>,
    ) -> Result<(), SessionError> {
        for group in requests.chunks(together.max(1)) {
            if control.is_cancelled() {
                break;
            }
            if !records.is_empty() && gap > Time::ZERO {
                let others = self.idle(gap)?;
                self.untold.extend(others);
            }
            let first = self.submitted;
            let mut left = 0;
            for request in group {
                left += usize::from(self.send_one(request, None)?);
            }
            while left > 0 {
                let Some(record) = self.next_completion(Time::NEVER)? else { break };
                if record.index < first {
                    self.untold.push_back(record);
                } else {
                    records.push(record);
                    left -= 1;
                }
            }
        }
        Ok(())
    }

    /// Send `requests` at their own times, counted from now and scaled by `host.time_scale`. Returns their completions, in
    /// order, when all have completed; when `control` is cancelled, those so far: the others stay outstanding.
    ///
    /// # Errors
    /// As [`submit`](Self::submit), before anything was sent; and when the drive fails. The next calls tell what had completed.
    pub fn send_timed(
        &mut self,
        requests: &[Request],
        control: &RunControl,
    ) -> Result<Vec<RequestRecord>, SessionError> {
        self.working()?;
        let (first, now, scale) =
            (self.submitted, self.now()?, self.config.host.open().map_or(1.0, |open| open.time_scale));
        let arrival = |request: &Request| {
            let ns = request.arrival_ns;
            now + Time::from_ns(if scale == 1.0 { ns } else { nearest(ns as f64 * scale) })
        };
        self.check_all(requests)?;
        let mut earliest = self.latest.max(now);
        for request in requests.iter().filter(|request| !self.leaves_nothing(request)) {
            let at = arrival(request);
            if at < earliest {
                return Err(SessionError::Unordered { at, earliest });
            }
            if at > Time::from_ns(LATEST_NS) {
                return Err(SessionError::TooLate(at));
            }
            earliest = at;
        }
        let mut sent = 0;
        for request in requests {
            sent += usize::from(self.send_one(request, Some(arrival(request)))?);
        }
        let mut records = Vec::with_capacity(sent);
        let result = self.wait_for(sent, first, control, &mut records);
        self.all_or_later(records, result)
    }

    /// Let time pass until `count` requests since number `first` have completed.
    fn wait_for(
        &mut self,
        count: usize,
        first: u64,
        control: &RunControl,
        records: &mut Vec<RequestRecord>,
    ) -> Result<(), SessionError> {
        while records.len() < count && !control.is_cancelled() {
            let Some(record) = self.next_completion(Time::NEVER)? else { break };
            if record.index < first {
                self.untold.push_back(record);
            } else {
                records.push(record);
            }
        }
        Ok(())
    }

    /// The same drive in the same state at the same time, again: what is done to one does nothing to the other.
    ///
    /// # Errors
    /// When the session is closed.
    pub fn fork(&self) -> Result<Self, SessionError> {
        self.core()?;
        Ok(self.clone())
    }

    /// What was measured so far. Requests that are outstanding count as unfinished. Where each channel has one die, the
    /// times of flash include the work that has been decided and not yet done.
    ///
    /// # Errors
    /// When the session is closed.
    pub fn outcome(&mut self) -> Result<RunOutcome, SessionError> {
        let counts = AdmissionCounts {
            requests: self.submitted,
            out_of_range: self.out_of_range,
            rejected: self.rejected,
            ..AdmissionCounts::default()
        };
        let core = self.core.as_deref_mut().ok_or(SessionError::Closed)?;
        let mut outcome = core.measured(&self.config, counts);
        outcome.summary.seed = self.seed;
        outcome.summary.partial = outcome.error.is_some();
        Ok(outcome)
    }

    /// Let everything happen that was submitted, and end the session. Returns what was measured; a failure of the drive is
    /// in there.
    ///
    /// # Errors
    /// When the session is closed already.
    pub fn close(&mut self) -> Result<RunOutcome, SessionError> {
        // What completes first says nothing of what does not.
        let failed = match self.drain().and_then(|_| self.drain()) {
            Err(SessionError::Run(error)) => Some(error),
            Err(error) => return Err(error),
            Ok(_) => None,
        };
        let mut outcome = self.outcome()?;
        outcome.error = outcome.error.or(failed);
        outcome.summary.partial = outcome.error.is_some();
        self.core = None;
        Ok(outcome)
    }
}
