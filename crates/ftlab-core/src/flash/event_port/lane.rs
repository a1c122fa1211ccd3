//! What lanes and channels are doing.

use crate::flash::line::{Line, NONE};
use crate::time::Time;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Idle,
    /// Waiting for the bus before the array works.
    BusIn,
    /// On the bus before the array works, or the array works.
    Array,
    /// Waiting for the bus, or on it, after the array has worked.
    BusOut,
}

#[derive(Debug, Clone)]
pub(super) struct Lane {
    /// Nodes of commands that have not started.
    pub(super) queue: Line,
    /// Node of the command under way; `NONE` when idle.
    pub(super) current: u32,
    /// The first of the commands that end when the one under way does: itself, or one that was before it in the queue.
    pub(super) row: u32,
    pub(super) phase: Phase,
    pub(super) started: Time,
    /// When the last command ended.
    pub(super) free_since: Time,
    /// Number of the command since which the lane has worked without a pause.
    pub(super) row_number: u64,
    pub(super) transfer: (Time, Time),
    pub(super) channel: u32,
    /// In the list of lanes to be started.
    pub(super) marked: bool,
}

impl Lane {
    /// One that has never worked.
    pub(super) fn idle(channel: u32) -> Self {
        Self {
            queue: Line::EMPTY,
            current: NONE,
            row: NONE,
            phase: Phase::Idle,
            started: Time::ZERO,
            free_since: Time::ZERO,
            row_number: 0,
            transfer: (Time::ZERO, Time::ZERO),
            channel,
            marked: false,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Channel {
    /// The last transfer ends then, by the number of its lane among equal times.
    pub(super) until: Time,
    pub(super) number: u64,
    /// How long it takes, until that is accounted for.
    pub(super) span: Time,
    /// It brings data out: its end is an event of its lane, and it is under way until then.
    pub(super) is_out: bool,
    /// The end of the last transfer is an event of the channel.
    pub(super) rings: bool,
    /// Lanes that have a command to send.
    pub(super) commands: Line,
    /// Lanes that have data to transfer.
    pub(super) data: Line,
    /// In the list of channels to be granted.
    pub(super) marked: bool,
}

impl Channel {
    pub(super) const IDLE: Self = Self {
        until: Time::ZERO,
        number: 0,
        span: Time::ZERO,
        is_out: false,
        rings: false,
        commands: Line::EMPTY,
        data: Line::EMPTY,
        marked: false,
    };

    #[inline]
    pub(super) fn is_wanted(&self) -> bool {
        !(self.commands.is_empty() && self.data.is_empty())
    }
}
