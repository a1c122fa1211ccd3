//! Ports that keep time, as the host drives them: its own timers ring among the events of flash.

use crate::cause::{CAUSES, Command, CommandCounts};
use crate::config::{ClassTimes, DeviceConfig};
use crate::flash::cell::PageClass;
use crate::flash::port::{FlashPort, Submission};
use crate::geometry::SECTOR_BYTES;
use crate::metrics::CommandRecord;
use crate::time::{Rate, Time};

/// Timers of the host.
pub const TIMERS: u32 = 3;

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
/// them as they are set. All methods but `set_timer` and `cut` are required.
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

    /// After [`Step::Several`]: exchange the list of those watchers, in any order, for an empty one.
    fn finished(&mut self, list: &mut Vec<u32>);

    /// Start what has become able to start, go to the next event before `until` that concerns the host, and let it happen.
    /// `None` when there is none: all that comes before `until` has happened.
    fn step_before(&mut self, until: Time) -> Option<Step>;

    /// Go on to `at`, before which nothing happens any more: [`step_before`](Self::step_before) has said so.
    fn move_to(&mut self, at: Time);

    /// When all that was submitted has ended.
    fn idle_from(&self) -> Time;

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
}

impl Ledger {
    pub(super) fn new(lanes: usize, channels: usize, log: bool) -> Self {
        Self {
            busy_ps: vec![[0; CAUSES]; lanes],
            channel_busy_ps: vec![0; channels],
            log: log.then(Vec::new),
        }
    }
}

/// How long the parts of commands take.
#[derive(Debug, Clone)]
pub(super) struct Spans {
    read: [Time; 4],
    program: [Time; 4],
    erase: Time,
    pub(super) command: Time,
    bus: Rate,
    /// The span of the last number of bytes asked for: most transfers have one size.
    last: (u32, Time),
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
            bus: Rate::from_mb_per_s(timing.bus_mb_per_s),
            last: (0, Time::ZERO),
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

    #[inline]
    fn transfer(&mut self, bytes: u32) -> Time {
        if self.last.0 != bytes {
            self.measure(bytes);
        }
        self.last.1
    }

    #[cold]
    fn measure(&mut self, bytes: u32) {
        self.last = (bytes, self.bus.span(bytes.into()));
    }

    /// How long the bus is needed, the array works, and the bus is needed again.
    #[inline]
    pub(super) fn parts(&mut self, submission: Submission) -> (Time, Time, Time) {
        let class = submission.class();
        let (bus_in, array, bus_out) = match submission.command() {
            Command::Read => (Time::ZERO, self.read[class], self.transfer(submission.bytes())),
            Command::Program => (self.transfer(submission.bytes()), self.program[class], Time::ZERO),
            Command::Erase => (Time::ZERO, self.erase, Time::ZERO),
            Command::Copyback => {
                (Time::ZERO, self.read[submission.source_class()] + self.program[class], Time::ZERO)
            }
        };
        (self.command + bus_in, array, bus_out)
    }

    /// How long the bus is needed before the array works.
    #[inline]
    pub(super) fn bus_in(&mut self, submission: Submission) -> Time {
        match submission.command() {
            Command::Program => self.command + self.transfer(submission.bytes()),
            Command::Read | Command::Erase | Command::Copyback => self.command,
        }
    }

    /// How long the bus is needed after the array has worked.
    #[inline]
    pub(super) fn bus_out(&mut self, submission: Submission) -> Time {
        match submission.command() {
            Command::Read => self.transfer(submission.bytes()),
            Command::Program | Command::Erase | Command::Copyback => Time::ZERO,
        }
    }

    /// How long the array works.
    #[inline]
    pub(super) fn array(&self, submission: Submission) -> Time {
        match submission.command() {
            Command::Read => self.read[submission.class()],
            Command::Program => self.program[submission.class()],
            Command::Erase => self.erase,
            Command::Copyback => self.read[submission.source_class()] + self.program[submission.class()],
        }
    }
}
