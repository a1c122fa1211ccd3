//! What ends beside flash: memory that moves data, and the ends that somebody wants to know.

use std::cmp::Reverse;

use super::{DELAY, EVENT, EventPort, Node, Ticket, WAIT};
use crate::flash::clock::Used;
use crate::flash::port::Submission;
use crate::time::Time;

impl EventPort {
    /// A node beside flash that begins when `after` has ended.
    pub(super) fn beside_after(&mut self, lane: u32, words: (u64, u64), after: Ticket) -> Ticket {
        let ticket = self.new_node(lane, 1, Submission::of_words(words.0, words.1));
        self.wait_for(ticket.node, after);
        if self.nodes[ticket.node as usize].pending == 0 {
            self.begin_beside(ticket.node);
        }
        ticket
    }

    /// A node beside flash that begins and ends at these times.
    pub(super) fn ends_at(&mut self, (start, end): (Time, Time)) -> Ticket {
        let ticket = self.new_node(DELAY, 1, Submission::of_words(0, 0));
        if let Some(explain) = &mut self.explain {
            explain.waits_for_turn(ticket.node, start.since(self.now));
        }
        self.beside.push(Reverse((end, self.numbers, ticket.node)));
        ticket
    }

    /// An eviction, of which all was submitted, ends with `done`.
    pub(super) fn end_event_beside(&mut self, done: Ticket) {
        if let Some(used) = self.ledger.events.close()
            && !self.has_ended(done)
        {
            self.ledger.events.begin(self.now);
            self.beside_after(EVENT, (self.now.0, used.word()), done);
        }
    }

    /// Add up how long somebody waits for `until`.
    pub(super) fn wait_beside(&mut self, until: Ticket) {
        if self.has_ended(until) {
            return;
        }
        // The pages of a request often wait for the same eviction.
        let (of, wait) = self.last_wait;
        let (since, count) =
            self.nodes.get(wait.node as usize).map_or((0, 0), |node| node.submission.words());
        if of == until && !self.has_ended(wait) && since == self.now.0 {
            self.nodes[wait.node as usize].submission = Submission::of_words(since, count + 1);
        } else {
            self.last_wait = (until, self.beside_after(WAIT, (self.now.0, 1), until));
        }
    }

    /// What a node beside flash waits for has ended.
    #[cold]
    pub(super) fn begin_beside(&mut self, node: u32) {
        let Node { lane, number, submission, .. } = self.nodes[node as usize];
        let (first, second) = submission.words();
        if lane == DELAY {
            self.beside.push(Reverse((self.now + Time(first), number, node)));
            return;
        }
        match lane {
            EVENT => {
                self.ledger.events.end(self.now);
                self.ledger.evicted(Used::of_word(second), Time(first), self.now);
            }
            WAIT => self.ledger.events.waited_ps += second * self.now.since(Time(first)).0,
            _ => self.ledger.ends[first as usize] = self.now,
        }
        self.end(node);
    }

    /// Whether the next thing that ends does so beside flash, and not as `event`; then when.
    #[inline(never)]
    pub(super) fn next_beside(&self, event: Option<(Time, u64, u32)>) -> Option<Time> {
        let Reverse((time, number, _)) = self.beside.peek()?;
        let is_first = event.is_none_or(|(at, other, _)| (*time, *number) < (at, other));
        is_first.then_some(*time)
    }

    /// The first of what ends beside flash does so now.
    pub(super) fn end_beside(&mut self) {
        if let Some(Reverse((time, number, node))) = self.beside.pop() {
            (self.now, self.number) = (time, number);
            if let Some(explain) = &mut self.explain {
                explain.moved(node, time);
            }
            self.end(node);
        }
    }
}
