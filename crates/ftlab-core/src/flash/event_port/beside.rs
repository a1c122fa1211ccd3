//! What ends beside flash: memory that moves data, and the ends that somebody wants to know.

use std::cmp::Reverse;

use super::EventPort;
use super::ends::{Node, Stands};
use super::ticket::{Item, Ticket};
use crate::metrics::explain::told::Told;
use crate::time::Time;

impl EventPort {
    /// A node beside flash that begins when `after` has ended.
    pub(super) fn beside_after(&mut self, stands: Stands, words: (u64, u64), after: Ticket) -> Ticket {
        let (node, ticket) = self.new_node(stands, words);
        self.wait_for(node, after);
        if self.nodes[node as usize].pending == 0 {
            self.begin_beside(node);
        }
        ticket
    }

    /// What ends `span` after `after`.
    pub(super) fn delayed(&mut self, span: Time, after: Ticket) -> Ticket {
        // The number that the node is going to draw.
        self.beside_after(Stands::Delay, (span.0, self.numbers + 1), after)
    }

    /// A node beside flash that begins and ends at these times.
    pub(super) fn ends_at(&mut self, (start, end): (Time, Time)) -> Ticket {
        let (node, ticket) = self.new_node(Stands::Delay, (0, 0));
        if let Some(teller) = &mut self.teller {
            teller.tell(Told::WaitsForTurn { node, span: start.since(self.now) });
        }
        self.beside.push(Reverse((end, self.numbers, node)));
        ticket
    }

    /// An eviction, of which all was submitted, ends with `done`.
    pub(super) fn end_event_beside(&mut self, done: Ticket) {
        if let Some(used) = self.ledger.events.close()
            && !self.has_ended(done)
        {
            let number = self.ledger.events.begin(used, self.now);
            self.beside_after(Stands::Event, (number, 0), done);
        }
    }

    /// Add up how long somebody waits for `until`.
    pub(super) fn wait_beside(&mut self, until: Ticket) {
        if self.has_ended(until) {
            return;
        }
        // The pages of a request often wait for the same eviction.
        let (of, wait) = self.last_wait;
        if of == until
            && !self.has_ended(wait)
            && let Item::Node(node) = wait.item()
        {
            let (since, count) = &mut self.nodes[node as usize].words;
            if *since == self.now.0 {
                *count += 1;
                return;
            }
        }
        self.last_wait = (until, self.beside_after(Stands::Wait, (self.now.0, 1), until));
    }

    /// What a node beside flash waits for has ended.
    #[cold]
    pub(super) fn begin_beside(&mut self, node: u32) {
        let Node { stands, words: (first, second), .. } = self.nodes[node as usize];
        match stands {
            Stands::Join => {}
            Stands::Delay => return self.beside.push(Reverse((self.now + Time(first), second, node))),
            Stands::Event => {
                let (used, since) = self.ledger.events.end(first, self.now);
                self.ledger.evicted(used, since, self.now);
            }
            Stands::Wait => {
                self.ledger.events.waited_ps +=
                    u128::from(second) * u128::from(self.now.since(Time(first)).0);
            }
            Stands::Note => self.ledger.ends[first as usize] = self.now,
        }
        self.end_node(node);
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
            if let Some(teller) = &mut self.teller {
                teller.tell(Told::Moved { node, at: time });
            }
            self.end_node(node);
        }
    }
}
