//! What ends, and who is told: nodes, which stand for ends that are no command's, and those who wait.

use super::lane::Phase;
use super::ticket::{Edge, Item, Ticket, Waiter};
use super::{EventPort, NONE};
use crate::flash::clock::Step;
use crate::metrics::explain::told::Told;

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stands {
    /// The last end of others.
    Join,
    /// A time after what it waits for.
    Delay,
    /// The end of an eviction: how long it took is added up.
    Event,
    /// The end of somebody's wait, in the same way.
    Wait,
    /// An end that is noted.
    Note,
}

/// Something that ends and is no command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    /// What is known of it, by what it stands for.
    pub(super) words: (u64, u64),
    /// Who waits for this one: the last to come.
    waiter: Waiter,
    /// First edge to the others who wait for this one; most nodes have none.
    edges: u32,
    generation: u32,
    /// What must end first.
    pub(super) pending: u32,
    pub(super) stands: Stands,
}

impl EventPort {
    #[inline]
    pub(super) fn has_ended(&self, ticket: Ticket) -> bool {
        match ticket.item() {
            Item::Command { lane, turn } => self.lanes[lane as usize].ended >= turn,
            Item::Node(node) => self.nodes[node as usize].generation != ticket.generation(),
        }
    }

    /// A node that waits for nothing so far.
    pub(super) fn new_node(&mut self, stands: Stands, words: (u64, u64)) -> (u32, Ticket) {
        self.numbers += 1;
        let node = self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes.push(Node {
                words,
                waiter: Waiter::NOBODY,
                edges: NONE,
                generation: 0,
                pending: 0,
                stands,
            });
            self.nodes.len() as u32 - 1
        });
        let state = &mut self.nodes[node as usize];
        state.stands = stands;
        state.words = words;
        let ticket = Ticket::of_node(node, state.generation);
        if let Some(teller) = &mut self.teller {
            let request = teller.request_bits();
            teller.tell(Told::Beside { node, request, at: self.now });
        }
        (node, ticket)
    }

    /// Let `node` wait for `ticket` unless that has ended.
    pub(super) fn wait_for(&mut self, node: u32, ticket: Ticket) {
        if !self.has_ended(ticket) {
            self.add_waiter(ticket, Waiter::node(node));
            self.nodes[node as usize].pending += 1;
        }
    }

    /// Let somebody wait for what has not ended.
    #[inline]
    pub(super) fn add_waiter(&mut self, to: Ticket, waiter: Waiter) {
        match to.item() {
            Item::Command { lane, turn } => self.lanes[lane as usize].waiters.add(turn, waiter),
            Item::Node(node) => {
                let other = std::mem::replace(&mut self.nodes[node as usize].waiter, waiter);
                if other != Waiter::NOBODY {
                    self.add_edge(node, other);
                }
            }
        }
    }

    /// The same, unless it is seen to wait for that already. Returns whether it is not.
    #[inline]
    pub(super) fn add_waiter_once(&mut self, to: Ticket, waiter: Waiter) -> bool {
        match to.item() {
            Item::Command { lane, turn } => self.lanes[lane as usize].waiters.add_once(turn, waiter),
            Item::Node(node) => {
                let is_new = self.nodes[node as usize].waiter != waiter;
                if is_new {
                    self.add_waiter(to, waiter);
                }
                is_new
            }
        }
    }

    fn add_edge(&mut self, from: u32, waiter: Waiter) {
        let next = self.nodes[from as usize].edges;
        let edge = Edge { waiter, next };
        let at = if let Some(at) = self.free_edges.pop() {
            self.edges[at as usize] = edge;
            at
        } else {
            self.edges.push(edge);
            self.edges.len() as u32 - 1
        };
        self.nodes[from as usize].edges = at;
    }

    /// A command has ended: tell those who wait, the last to come first, and then those who wait for joins that have
    /// ended by that.
    #[inline(always)]
    pub(super) fn end_command(&mut self, lane: u32, turn: u64) {
        let state = &mut self.lanes[lane as usize];
        state.ended = turn;
        if !state.waiters.are_of(turn) {
            return;
        }
        let waiter = state.waiters.take();
        if state.waiters.are_of(turn) {
            return self.tell_several(lane, turn, waiter);
        }
        match waiter.who() {
            Ok(watcher) => self.hear_alone(watcher),
            Err(item) => {
                self.release(item);
                self.end_joins();
            }
        }
    }

    /// Nobody else waits for what is ending.
    #[inline(always)]
    fn hear_alone(&mut self, watcher: u32) {
        if let Some(teller) = &mut self.teller {
            // Where several watchers hear in one event, the host cannot say of what each has heard.
            if !self.finished.is_empty() {
                return self.hear(watcher);
            }
            teller.owes_watcher = true;
        }
        self.finished.push(watcher);
    }

    /// More ends in the event under way: tell of a watcher that the host would tell of.
    pub(super) fn pay_watcher(&mut self) {
        if let (Some(teller), Some(&watcher)) = (&mut self.teller, self.finished.last()) {
            teller.pay_watcher(watcher);
        }
    }

    #[cold]
    #[inline(never)]
    fn tell_several(&mut self, lane: u32, turn: u64, first: Waiter) {
        let mut telling = std::mem::take(&mut self.telling);
        telling.push(first);
        let state = &mut self.lanes[lane as usize];
        while state.waiters.are_of(turn) {
            telling.push(state.waiters.take());
        }
        while let Some(waiter) = telling.pop() {
            self.tell(waiter);
        }
        self.telling = telling;
        self.end_joins();
    }

    /// A node has ended: as with a command.
    pub(super) fn end_node(&mut self, node: u32) {
        if self.tell_of(node) {
            self.end_joins();
        }
    }

    /// Joins have ended: the last one first.
    fn end_joins(&mut self) {
        while let Some(join) = self.ended.pop() {
            self.tell_of(join);
        }
    }

    /// Returns whether anybody waited for the node.
    fn tell_of(&mut self, node: u32) -> bool {
        let state = &mut self.nodes[node as usize];
        state.generation = Ticket::next_generation(state.generation);
        self.free_nodes.push(node);
        let mut waiter = std::mem::replace(&mut state.waiter, Waiter::NOBODY);
        let mut at = std::mem::replace(&mut state.edges, NONE);
        let is_awaited = waiter != Waiter::NOBODY;
        if let Some(teller) = &mut self.teller {
            teller.tell(Told::EndedBeside { node, is_awaited });
        }
        if !is_awaited {
            return false;
        }
        loop {
            self.tell(waiter);
            if at == NONE {
                return true;
            }
            self.free_edges.push(at);
            Edge { waiter, next: at } = self.edges[at as usize];
        }
    }

    #[inline]
    fn tell(&mut self, waiter: Waiter) {
        match waiter.who() {
            Ok(watcher) => self.hear(watcher),
            Err(item) => self.release(item),
        }
    }

    #[inline(always)]
    fn hear(&mut self, watcher: u32) {
        self.finished.push(watcher);
        if let Some(teller) = &mut self.teller {
            teller.tell(Told::Heard { watcher });
        }
    }

    /// Something has ended that a command or a node waits for.
    fn release(&mut self, item: Item) {
        match item {
            Item::Node(node) => {
                let state = &mut self.nodes[node as usize];
                state.pending -= 1;
                if state.pending > 0 {
                    return;
                }
                let is_join = state.stands == Stands::Join;
                if let Some(teller) = &mut self.teller {
                    teller.tell(Told::ReleasedNode { node, is_join, at: self.now });
                }
                if is_join {
                    self.ended.push(node);
                } else {
                    self.begin_beside(node);
                }
            }
            Item::Command { lane, turn } => {
                self.lanes[lane as usize].release(turn);
                if self.teller.is_some() {
                    self.tell_released(lane, turn);
                }
                if self.lanes[lane as usize].phase == Phase::Idle {
                    self.mark(lane);
                }
            }
        }
    }

    /// What the host hears of the event that has just happened.
    #[inline(always)]
    pub(super) fn told(&mut self) -> Option<Step> {
        match self.finished.as_slice() {
            [] => None,
            &[watcher] => {
                self.finished.clear();
                Some(Step::Ended(watcher))
            }
            _ => Some(Step::Several),
        }
    }
}
