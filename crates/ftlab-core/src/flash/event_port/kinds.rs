//! The kinds of commands that a drive runs: few, so that queues hold their numbers.

use crate::cause::Command;
use crate::config::DeviceConfig;
use crate::flash::clock::Spans;
use crate::flash::port::Submission;
use crate::metrics::explain::told;
use crate::metrics::parts::Work;
use crate::time::Time;

/// Commands that differ in lane and page only.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// On page 0 of lane 0.
    pub(super) submission: Submission,
    /// How long it needs the bus, the array, and the bus again.
    pub(super) bus_in: Time,
    pub(super) array: Time,
    pub(super) bus_out: Time,
    /// Line of events for the end of its array's work.
    pub(super) line: u32,
    /// It moves no data and needs no time to be sent.
    pub(super) needs_no_bus: bool,
    /// Its data cross the bus before the array works.
    pub(super) brings_data: bool,
}

impl Kind {
    /// How long it takes when nobody else uses the bus.
    pub(super) fn span(&self) -> Time {
        self.bus_in + self.array + self.bus_out
    }

    /// Whether both are for one cause, for which nobody waits command by command.
    pub(super) fn is_collection_of(&self, other: &Self) -> bool {
        self.submission.is_background() && self.submission.cause() == other.submission.cause()
    }

    /// What of it matters to whoever explains what requests wait for.
    pub(super) fn told(&self) -> told::Kind {
        told::Kind {
            work: Work::of(self.submission.command(), self.submission.cause()),
            is_background: self.submission.is_background(),
            array: self.array,
            transfer: self.bus_in + self.bus_out,
            bus_out: self.bus_out,
        }
    }

    /// How long the array works for `count` of them in a row.
    #[inline]
    pub(super) fn row(&self, count: u32) -> Time {
        Time(self.array.0 * u64::from(count))
    }
}

/// All kinds that were asked for so far, by number.
#[derive(Debug, Clone)]
pub(super) struct Kinds {
    all: Vec<Kind>,
    /// Where to look for the number of a kind: at its hash, and then at what follows. Half of it is empty at least.
    places: Vec<u32>,
    spans: Spans,
    /// The work of arrays by how long it takes, one line of events for each: what takes equally long ends in the order in which it
    /// begins.
    lines: Vec<Option<Time>>,
}

const NOTHING: u32 = u32::MAX;

impl Kinds {
    pub(super) fn new(config: &DeviceConfig) -> Self {
        let spans = Spans::new(config);
        Self { all: Vec::with_capacity(64), places: vec![NOTHING; 256], spans, lines: Vec::new() }
    }

    #[inline(always)]
    pub(super) fn get(&self, kind: u32) -> &Kind {
        &self.all[kind as usize]
    }

    /// Those with this number, and after.
    pub(super) fn from(&self, number: u32) -> &[Kind] {
        &self.all[number as usize..]
    }

    /// Whether copies within a plane are sent in no time.
    pub(super) fn copies_need_no_bus(&self) -> bool {
        self.spans.command == Time::ZERO
    }

    /// The number of the kind of a command.
    #[inline]
    pub(super) fn number_of(&mut self, submission: Submission) -> u32 {
        let submission = submission.without_place();
        let mut at = self.place(submission);
        loop {
            let number = self.places[at];
            if number == NOTHING {
                return self.add(submission, at);
            }
            if self.all[number as usize].submission == submission {
                return number;
            }
            at = (at + 1) & (self.places.len() - 1);
        }
    }

    #[inline]
    fn place(&self, submission: Submission) -> usize {
        let (what, how_much) = submission.words();
        let hash = (what ^ how_much >> 8).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (hash >> 32) as usize & (self.places.len() - 1)
    }

    #[cold]
    #[inline(never)]
    fn add(&mut self, submission: Submission, at: usize) -> u32 {
        let number = self.all.len() as u32;
        let (bus_in, array, bus_out) = self.spans.parts(submission);
        let takes = self.spans.array_of(submission);
        let line = self.lines.iter().position(|known| *known == takes).unwrap_or_else(|| {
            self.lines.push(takes);
            self.lines.len() - 1
        });
        self.all.push(Kind {
            submission,
            bus_in,
            array,
            bus_out,
            line: line as u32,
            brings_data: submission.command() == Command::Program,
            needs_no_bus: self.spans.command == Time::ZERO
                && matches!(submission.command(), Command::Copyback | Command::Erase),
        });
        self.places[at] = number;
        if self.all.len() * 2 > self.places.len() {
            self.places = vec![NOTHING; self.places.len() * 2];
            for number in 0..self.all.len() {
                let mut at = self.place(self.all[number].submission);
                while self.places[at] != NOTHING {
                    at = (at + 1) & (self.places.len() - 1);
                }
                self.places[at] = number as u32;
            }
        }
        number
    }
}
