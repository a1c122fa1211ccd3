//! Who waits for the commands of a lane.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::ticket::{NEVER, Waiter};

/// Those who wait, by the turn of the command that they wait for. Of one turn they are told in the order in which they came, or
/// backwards.
///
/// Most wait for the command that was submitted last, or are the only one who waits: they stand in a line. Who waits for a command
/// that was submitted long ago goes into a heap: a drive that is offered more than it does has long lines.
#[derive(Debug, Clone)]
pub(super) struct Waiters {
    /// The first turn that somebody waits for, and who was the first to come.
    turn: u64,
    first: Waiter,
    /// Others, by turn. Those of a turn have come before those of the same turn in `late`.
    line: VecDeque<(u64, Waiter)>,
    late: BinaryHeap<Reverse<(u64, u64, Waiter)>>,
    /// The last turn in `late`, and who came last to it: for which turn, after how many others, and who.
    last_late: u64,
    newest: (u64, u64, Waiter),
}

impl Waiters {
    /// Nobody, with room for so many.
    pub(super) fn new(room: usize) -> Self {
        Self {
            turn: NEVER,
            first: Waiter::NOBODY,
            line: VecDeque::with_capacity(room),
            late: BinaryHeap::with_capacity(room / 4),
            last_late: 0,
            newest: (NEVER, 0, Waiter::NOBODY),
        }
    }

    /// Bytes for which there is room.
    pub(super) fn bytes(&self) -> usize {
        self.line.capacity() * size_of::<(u64, Waiter)>()
            + self.late.capacity() * size_of::<(u64, u64, Waiter)>()
    }

    /// Whether somebody waits for this turn; nobody waits for one before it.
    #[inline]
    pub(super) fn are_of(&self, turn: u64) -> bool {
        self.turn == turn
    }

    /// One more.
    #[inline]
    pub(super) fn add(&mut self, turn: u64, waiter: Waiter) {
        if self.turn == NEVER {
            (self.turn, self.first) = (turn, waiter);
        } else {
            self.add_beside(turn, waiter);
        }
    }

    /// The same, unless it is seen to be there: it was the last of all in the line, or in the heap. Returns whether it was not.
    #[inline]
    pub(super) fn add_once(&mut self, turn: u64, waiter: Waiter) -> bool {
        if self.turn == NEVER {
            (self.turn, self.first) = (turn, waiter);
            return true;
        }
        let is_late = !self.late.is_empty() && (self.newest.0, self.newest.2) == (turn, waiter);
        let last = self.line.back().copied().unwrap_or((self.turn, self.first));
        let is_new = last != (turn, waiter) && !is_late;
        if is_new {
            self.add_beside(turn, waiter);
        }
        is_new
    }

    fn add_beside(&mut self, turn: u64, waiter: Waiter) {
        if turn < self.turn {
            self.line.push_front((self.turn, self.first));
            (self.turn, self.first) = (turn, waiter);
            return;
        }
        let last = self.line.back().map_or(self.turn, |(turn, _)| *turn);
        if turn >= last && turn > self.last_late {
            self.line.push_back((turn, waiter));
        } else {
            self.newest = (turn, self.newest.1 + 1, waiter);
            self.last_late = self.last_late.max(turn);
            self.late.push(Reverse(self.newest));
        }
    }

    /// Take out the first who waits for the first turn.
    #[inline]
    pub(super) fn take(&mut self) -> Waiter {
        let first = self.first;
        if self.late.is_empty() {
            (self.turn, self.first) = self.line.pop_front().unwrap_or((NEVER, Waiter::NOBODY));
        } else {
            self.take_next();
        }
        first
    }

    #[cold]
    #[inline(never)]
    fn take_next(&mut self) {
        let in_line = self.line.front().map_or(NEVER, |(turn, _)| *turn);
        let in_heap = self.late.peek().map_or(NEVER, |Reverse((turn, ..))| *turn);
        let next = if in_line <= in_heap {
            self.line.pop_front()
        } else {
            self.late.pop().map(|Reverse((turn, _, waiter))| (turn, waiter))
        };
        (self.turn, self.first) = next.unwrap_or((NEVER, Waiter::NOBODY));
        if self.late.is_empty() {
            self.last_late = 0;
        }
    }
}
