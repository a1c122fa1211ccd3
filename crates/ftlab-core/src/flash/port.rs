//! The way to flash: the translation layer says *what* happens and *after what*; a port says *when*.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::cause::Memory;
use crate::cause::{Cause, Command};
use crate::flash::cell::PageClass;
use crate::geometry::PageId;
use crate::time::Time;

/// A command on its way to flash. The array has accepted it already.
///
/// Two words, so that it travels in registers. Written to memory field by field and read back whole, it would wait for
/// every cache miss ahead of it. That takes some 100 ns a command.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    /// command, cause, class, source class: a byte each; then the lane.
    what: u64,
    /// The page, then the bytes.
    how_much: u64,
}

impl Submission {
    /// A command for page `page` (the first of the block for an erase) of `lane`: a die, or a plane where planes work
    /// independently, device-wide. `class` is that of the page (the destination of a copyback), `source_class` that
    /// of the page that a copyback reads. `bytes` cross the bus, spare bytes included.
    #[inline]
    pub const fn new(
        command: Command,
        cause: Cause,
        (class, source_class): (PageClass, PageClass),
        lane: u32,
        page: PageId,
        bytes: u32,
    ) -> Self {
        let kinds = command as u64 | (cause as u64) << 8 | (class as u64) << 16 | (source_class as u64) << 24;
        Self { what: kinds | (lane as u64) << 32, how_much: page.0 as u64 | (bytes as u64) << 32 }
    }

    /// What to do.
    #[inline]
    pub const fn command(self) -> Command {
        match self.what as u8 {
            0 => Command::Read,
            1 => Command::Program,
            2 => Command::Erase,
            _ => Command::Copyback,
        }
    }

    /// Why.
    #[inline]
    pub const fn cause(self) -> Cause {
        Cause::ALL[self.cause_index()]
    }

    /// Why, as an index.
    #[inline]
    pub const fn cause_index(self) -> usize {
        (self.what >> 8) as u8 as usize
    }

    /// Whether it gains space or spreads wear.
    #[inline]
    pub(super) const fn is_background(self) -> bool {
        // As a mask: a table would be asked for the cause of every command.
        const BACKGROUND: u64 = {
            let (mut mask, mut at) = (0, 0);
            while at < Cause::ALL.len() {
                mask |= (Cause::ALL[at].is_background() as u64) << at;
                at += 1;
            }
            mask
        };
        BACKGROUND >> (self.cause_index() & 63) & 1 != 0
    }

    /// Class of the page, as an index.
    #[inline]
    pub const fn class(self) -> usize {
        (self.what >> 16) as u8 as usize
    }

    /// Class of the page that a copyback reads, as an index.
    #[inline]
    pub const fn source_class(self) -> usize {
        (self.what >> 24) as u8 as usize
    }

    /// Die, or plane where planes work independently, device-wide.
    #[inline]
    pub const fn lane(self) -> u32 {
        (self.what >> 32) as u32
    }

    /// The page; the first of the block for an erase.
    #[inline]
    pub const fn page(self) -> PageId {
        PageId(self.how_much as u32)
    }

    /// Both words.
    pub(super) const fn words(self) -> (u64, u64) {
        (self.what, self.how_much)
    }

    /// Bytes that cross the bus.
    #[inline]
    pub const fn bytes(self) -> u32 {
        (self.how_much >> 32) as u32
    }

    /// The same command, of page 0 of lane 0.
    #[inline]
    #[must_use]
    pub(super) const fn without_place(self) -> Self {
        Self { what: self.what & u32::MAX as u64, how_much: self.how_much & !(u32::MAX as u64) }
    }

    /// The same command, `pages` pages further on.
    #[inline]
    #[must_use]
    pub const fn ahead(self, pages: u32) -> Self {
        Self { how_much: self.how_much + pages as u64, ..self }
    }
}

impl std::fmt::Debug for Submission {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (command, cause) = (self.command().name(), self.cause().name());
        write!(
            f,
            "{command} page {} of lane {} for {cause}, {} bytes",
            self.page().0,
            self.lane(),
            self.bytes()
        )
    }
}

/// Stands for the moment when a command, or several, have ended. It may be kept for ever and copied.
pub trait Ticket: Copy + Send + std::fmt::Debug + 'static {
    /// The same in the bytes that most need, for tables of many.
    type Short: Copy + Send + std::fmt::Debug + 'static;

    /// `None` where it needs more.
    fn short(self) -> Option<Self::Short>;

    /// The ticket of which it is short.
    fn long(short: Self::Short) -> Self;
}

/// Tickets that need all their bytes.
macro_rules! whole_tickets {
    ($($ticket:ty),+) => {
        $(impl $crate::flash::port::Ticket for $ticket {
            type Short = Self;

            #[inline(always)]
            fn short(self) -> Option<Self> {
                Some(self)
            }

            #[inline(always)]
            fn long(short: Self) -> Self {
                short
            }
        })+
    };
}

pub(super) use whole_tickets;

whole_tickets!((), usize);

/// The latest of moments that are added one by one, with nothing submitted to wait for it and no time going on meanwhile.
#[derive(Debug, Clone, Copy)]
pub struct Gathering<T> {
    pub(super) moment: T,
    /// The port has made a moment for it that nobody else knows.
    pub(super) is_own: bool,
}

impl<T: Ticket> Gathering<T> {
    /// Nothing so far; `ready` is a moment that has passed.
    pub fn new(ready: T) -> Self {
        Self { moment: ready, is_own: false }
    }

    /// The latest of all: nothing more is added.
    pub fn moment(self) -> T {
        self.moment
    }
}

/// Decides when commands run.
///
/// Order of calls: [`admit`](Self::admit) before the array changes, then [`submit`](Self::submit) at once. Commands
/// of one lane run in the order of submission. A ticket stands for the end of a command; it may be kept for ever
/// and copied. What memory beside flash does is no command. Required: `ready`, `join` and `submit`.
pub trait FlashPort {
    /// Whether submissions do anything: if not, they need not be prepared.
    const LISTENS: bool = true;

    /// Stands for the moment when a command, or several, have ended.
    type Ticket: Ticket;

    /// A moment that has passed already.
    fn ready(&self) -> Self::Ticket;

    /// The later of two moments.
    fn join(&mut self, first: Self::Ticket, second: Self::Ticket) -> Self::Ticket;

    /// The moment of `all` is the later of two from now on: as [`join`](Self::join), for those who add many.
    #[inline(always)]
    fn gather(&mut self, all: &mut Gathering<Self::Ticket>, one: Self::Ticket) {
        all.moment = self.join(all.moment, one);
    }

    /// Run a command, not before `after`.
    fn submit(&mut self, submission: Submission, after: Self::Ticket) -> Self::Ticket;

    /// Run `count` commands, `submission` on its page and the same on each of the pages that follow, none before
    /// `after`. Returns the end of the last one.
    #[inline]
    fn submit_run(&mut self, submission: Submission, count: u32, after: Self::Ticket) -> Self::Ticket {
        let mut done = after;
        for at in 0..count {
            let one = self.submit(submission.ahead(at), after);
            done = self.join(done, one);
        }
        done
    }

    /// A moment `span` after another. Without time it is the same moment.
    #[inline(always)]
    fn delay(&mut self, after: Self::Ticket, span: Time) -> Self::Ticket {
        let _ = span;
        after
    }

    /// Move `bytes` into or out of memory: as soon as it is free, and never waiting for flash.
    #[inline(always)]
    fn memory(&mut self, memory: Memory, bytes: u32) -> Self::Ticket {
        let _ = (memory, bytes);
        self.ready()
    }

    /// Keep memory busy for `span`: as soon as it is free, and never waiting for flash. Returns when that is over.
    #[inline(always)]
    fn occupy(&mut self, memory: Memory, span: Time) -> Self::Ticket {
        let _ = (memory, span);
        self.ready()
    }

    /// The next command of this kind for the host moves a page of `request` which the buffer moves in `span`, and hides as much
    /// of that as the device says. Until [`end_page`](Self::end_page).
    #[inline(always)]
    fn begin_page(&mut self, command: Command, span: Time, request: u32) {
        let _ = (command, span, request);
    }

    /// All commands for the page have been submitted.
    #[inline(always)]
    fn end_page(&mut self) {}

    /// What is submitted from now on belongs to one eviction, until [`end_event`](Self::end_event).
    #[inline(always)]
    fn begin_event(&mut self) {}

    /// All of an eviction has been submitted; it ends at `done`.
    #[inline(always)]
    fn end_event(&mut self, done: Self::Ticket) {
        let _ = done;
    }

    /// Somebody waits from now on until `until`: ports that keep time add it up.
    #[inline(always)]
    fn count_wait(&mut self, until: Self::Ticket) {
        let _ = until;
    }

    /// Whether `ticket` is of the past, so that [`ready`](Self::ready) says as much. No means that it may be.
    #[inline(always)]
    fn has_passed(&self, ticket: Self::Ticket) -> bool {
        let _ = ticket;
        false
    }

    /// Note when `ticket` ends, for those who cut the power; returns the number of the note. Ports of which nobody asks that
    /// keep none.
    #[inline(always)]
    fn note_end(&mut self, ticket: Self::Ticket) -> u32 {
        let _ = ticket;
        0
    }

    /// Whether the next command may still happen: a port that cuts the power refuses, and the array stays as it is.
    #[inline(always)]
    fn admit(&mut self, command: Command) -> bool {
        let _ = command;
        true
    }
}

/// Counts and keeps no time: tickets are empty, and the translation layer runs at full speed.
#[derive(Debug, Clone, Copy, Default)]
pub struct CountingPort;

impl FlashPort for CountingPort {
    type Ticket = ();
    const LISTENS: bool = false;

    #[inline(always)]
    fn ready(&self) {}

    #[inline(always)]
    fn join(&mut self, (): (), (): ()) {}

    #[inline(always)]
    fn submit(&mut self, _: Submission, (): ()) {}
}

/// Remembers every command and its dependencies, for tests.
#[derive(Debug, Clone, Default)]
pub struct RecordingPort {
    /// Commands in order of submission, each with the commands that it waits for.
    pub commands: Vec<(Submission, Vec<usize>)>,
    sets: Vec<Vec<usize>>,
}

impl RecordingPort {
    fn add(&mut self, set: Vec<usize>) -> usize {
        self.sets.push(set);
        self.sets.len()
    }

    fn set(&self, ticket: usize) -> Vec<usize> {
        if ticket == 0 { Vec::new() } else { self.sets[ticket - 1].clone() }
    }

    /// The indices into [`commands`](Self::commands) that a ticket stands for.
    pub fn resolve(&self, ticket: usize) -> Vec<usize> {
        self.set(ticket)
    }
}

impl FlashPort for RecordingPort {
    /// 0: ready; n: the n-th set of commands.
    type Ticket = usize;

    fn ready(&self) -> usize {
        0
    }

    fn join(&mut self, first: usize, second: usize) -> usize {
        let mut set = self.set(first);
        set.extend(self.set(second));
        set.sort_unstable();
        set.dedup();
        self.add(set)
    }

    fn submit(&mut self, submission: Submission, after: usize) -> usize {
        let waits = self.set(after);
        self.commands.push((submission, waits));
        self.add(vec![self.commands.len() - 1])
    }
}

/// Numbers commands in the order of their submission, and keeps no time.
#[derive(Debug, Clone, Default)]
pub(crate) struct NumberingPort {
    /// Commands so far, for those who listen.
    pub(crate) commands: Arc<AtomicU64>,
    /// The numbers of those that change the array, from 0.
    pub(crate) changes: Vec<u64>,
    /// Commands so far at each note: what had been submitted has ended when the next one begins.
    pub(crate) notes: Vec<u64>,
}

impl FlashPort for NumberingPort {
    type Ticket = ();

    fn ready(&self) {}

    fn join(&mut self, (): (), (): ()) {}

    fn submit(&mut self, submission: Submission, (): ()) {
        let number = self.commands.fetch_add(1, Ordering::Relaxed);
        if submission.command() != Command::Read {
            self.changes.push(number);
        }
    }

    fn note_end(&mut self, (): ()) -> u32 {
        self.notes.push(self.commands.load(Ordering::Relaxed));
        self.notes.len() as u32 - 1
    }
}

/// Cuts the power: admits a number of commands and refuses every one after them.
#[derive(Debug, Clone, Copy)]
pub struct PowerCutPort {
    /// Commands that still happen.
    pub commands_left: u64,
}

impl FlashPort for PowerCutPort {
    type Ticket = ();
    const LISTENS: bool = false;

    fn ready(&self) {}

    fn join(&mut self, (): (), (): ()) {}

    fn submit(&mut self, _: Submission, (): ()) {}

    fn admit(&mut self, _: Command) -> bool {
        let on = self.commands_left > 0;
        self.commands_left -= u64::from(on);
        on
    }
}
