//! The way to flash: the translation layer says *what* happens and *after what*; a port says *when*.

use crate::flash::cell::PageClass;
use crate::flash::{Cause, Command};
use crate::geometry::PageId;

/// A command on its way to flash. The array has accepted it already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Submission {
    /// What to do.
    pub command: Command,
    /// Why.
    pub cause: Cause,
    /// Class of the page (the destination of a copyback); LSB for an erase.
    pub class: PageClass,
    /// Class of the page that a copyback reads.
    pub source_class: PageClass,
    /// Die (or plane, where planes work independently), device-wide.
    pub unit: u32,
    /// The page; the first of the block for an erase.
    pub page: PageId,
    /// Bytes that cross the bus, spare bytes included.
    pub bytes: u32,
}

/// Decides when commands run.
///
/// Order of calls: [`admit`](Self::admit) before the array changes, then [`submit`](Self::submit) at once. Commands
/// of one unit run in the order of submission. A ticket stands for the end of a command; it may be kept for ever
/// and copied. Required: all methods but `admit`.
pub trait FlashPort {
    /// Stands for the moment when a command, or several, have ended.
    type Ticket: Copy + std::fmt::Debug;

    /// A moment that has passed already.
    fn ready(&self) -> Self::Ticket;

    /// The later of two moments.
    fn join(&mut self, first: Self::Ticket, second: Self::Ticket) -> Self::Ticket;

    /// Run a command, not before `after`.
    fn submit(&mut self, submission: &Submission, after: Self::Ticket) -> Self::Ticket;

    /// Whether the next command may still happen: a port that cuts the power refuses, and the array stays as it is.
    #[inline(always)]
    fn admit(&mut self, command: Command) -> bool {
        let _ = command;
        true
    }
}

/// Counts and keeps no time: tickets are empty, and the translation layer runs at full speed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count;

impl FlashPort for Count {
    type Ticket = ();

    #[inline(always)]
    fn ready(&self) {}

    #[inline(always)]
    fn join(&mut self, (): (), (): ()) {}

    #[inline(always)]
    fn submit(&mut self, _: &Submission, (): ()) {}
}

/// Remembers every command and its dependencies, for tests.
#[derive(Debug, Clone, Default)]
pub struct Record {
    /// Commands in order of submission, each with the commands that it waits for.
    pub commands: Vec<(Submission, Vec<usize>)>,
    sets: Vec<Vec<usize>>,
}

impl Record {
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

impl FlashPort for Record {
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

    fn submit(&mut self, submission: &Submission, after: usize) -> usize {
        let waits = self.set(after);
        self.commands.push((*submission, waits));
        self.add(vec![self.commands.len() - 1])
    }
}

/// Cuts the power: admits a number of commands and refuses every one after them.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Commands that still happen.
    pub commands_left: u64,
}

impl FlashPort for Cut {
    type Ticket = ();

    fn ready(&self) {}

    fn join(&mut self, (): (), (): ()) {}

    fn submit(&mut self, _: &Submission, (): ()) {}

    fn admit(&mut self, _: Command) -> bool {
        let on = self.commands_left > 0;
        self.commands_left -= u64::from(on);
        on
    }
}
