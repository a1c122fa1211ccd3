//! What stands for the end of something, and who waits for it.

use crate::flash::port::whole_tickets;

/// Stands for the end of a command or of several.
///
/// Of a command it is the lane and the turn: how many commands its lane has been given by then. Of a node it is the
/// place and the generation: once it has ended, its place is used again, with the next generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(u64);

whole_tickets!(Ticket);

/// What ends: a command of a lane, or a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Item {
    Command { lane: u32, turn: u64 },
    Node(u32),
}

/// Of a turn: no command has it.
pub(super) const NEVER: u64 = u64::MAX;

const IS_NODE: u64 = 1 << 63;
const IS_WATCHER: u64 = 1 << 62;
const TURN_BITS: u32 = 43;
const GENERATION_BITS: u32 = 31;

impl Ticket {
    /// Of a moment that has passed: turns begin with 1.
    pub(super) const READY: Self = Self(0);

    #[inline]
    pub(super) fn of_command(lane: u32, turn: u64) -> Self {
        Self(u64::from(lane) << TURN_BITS | turn)
    }

    #[inline]
    pub(super) fn of_node(node: u32, generation: u32) -> Self {
        Self(IS_NODE | u64::from(generation) << 32 | u64::from(node))
    }

    #[inline]
    pub(super) fn item(self) -> Item {
        if self.0 & IS_NODE == 0 {
            Item::Command { lane: (self.0 >> TURN_BITS) as u32, turn: self.0 & ((1 << TURN_BITS) - 1) }
        } else {
            Item::Node(self.0 as u32)
        }
    }

    /// Of a ticket of a node.
    #[inline]
    pub(super) fn generation(self) -> u32 {
        (self.0 >> 32) as u32 & ((1 << GENERATION_BITS) - 1)
    }

    /// The generation that follows this one.
    #[inline]
    pub(super) fn next_generation(generation: u32) -> u32 {
        (generation + 1) & ((1 << GENERATION_BITS) - 1)
    }
}

/// A command, a node, or a watcher of the host: one word, which is read soon after it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Waiter(u64);

impl Waiter {
    pub(super) const NOBODY: Waiter = Waiter(u64::MAX);

    #[inline]
    pub(super) fn command(lane: u32, turn: u64) -> Self {
        Self(Ticket::of_command(lane, turn).0)
    }

    #[inline]
    pub(super) fn node(node: u32) -> Self {
        Self(Ticket::of_node(node, 0).0)
    }

    #[inline]
    pub(super) fn watcher(watcher: u32) -> Self {
        Self(IS_NODE | IS_WATCHER | u64::from(watcher))
    }

    /// The watcher, or what else it is.
    #[inline]
    pub(super) fn who(self) -> Result<u32, Item> {
        if self.0 & (IS_NODE | IS_WATCHER) == IS_NODE | IS_WATCHER {
            Ok(self.0 as u32)
        } else {
            Err(Ticket(self.0).item())
        }
    }
}

/// Who else waits for a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Edge {
    pub(super) waiter: Waiter,
    pub(super) next: u32,
}
