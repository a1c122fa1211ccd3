//! What steps on translation pages take where nothing else is going on.

use crate::time::{Rate, Time};

/// Command, array and transfer (equations 2 to 4 of the IEEK paper 2012-50-3-10), in picoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Prices {
    /// Reading, without the transfer.
    pub read: Time,
    /// Programming, without the transfer.
    pub program: Time,
    /// The transfer.
    pub bus: Rate,
}

impl Prices {
    /// Everything takes no time.
    pub const NONE: Self = Self { read: Time::ZERO, program: Time::ZERO, bus: Rate::INSTANT };

    /// Reading `bytes` of a page.
    pub fn read(&self, bytes: u32) -> u64 {
        (self.read + self.bus.span(bytes.into())).0
    }

    /// Programming a page of `bytes`.
    pub fn program(&self, bytes: u32) -> u64 {
        (self.program + self.bus.span(bytes.into())).0
    }
}
