//! What is measured: counters, latency, series over time, and the hooks of logs.

pub mod drift;
pub mod explain;
pub mod latency;
pub mod parts;
pub mod report;
pub mod series;
pub(crate) mod spread;
pub mod summary;
pub mod warning;

use crate::cause::{Cause, Command, Memory};
use crate::host::request::Request;
use crate::metrics::explain::{Batch, Explanations};
use crate::metrics::parts::Parts;
use crate::time::Time;

/// A request that has completed, for request logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestRecord {
    /// Its number in the workload, from 0.
    pub index: u64,
    /// The request as the drive saw it (wrapped or clipped).
    pub request: Request,
    /// Arrival, scaled.
    pub arrival: Time,
    /// Hand-over to the drive.
    pub start: Time,
    /// Completion.
    pub end: Time,
}

/// A flash command that has run, for event logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandRecord {
    /// What it was.
    pub command: Command,
    /// Why.
    pub cause: Cause,
    /// Die (or plane, where planes work independently), device-wide.
    pub die: u32,
    /// Channel.
    pub channel: u32,
    /// Flat physical page (block times pages per block, plus page; the first page of the block for an erase).
    pub page: u64,
    /// When the die was taken.
    pub start: Time,
    /// When the die was free again.
    pub end: Time,
    /// When its data crossed the bus: start and end, equal when nothing crossed.
    pub transfer: (Time, Time),
    /// Number of the request during whose submission it came, where somebody [asks for parts](Observer::wants_parts).
    pub request: Option<u64>,
}

/// Something that happened in memory beside flash, for event logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRecord {
    /// What it was.
    pub what: MemoryEvent,
    /// When it began.
    pub start: Time,
    /// When it was over.
    pub end: Time,
}

/// What memory beside flash does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryEvent {
    /// Data, or a message, moved through it: one at a time.
    Move(Memory),
    /// Victims left the write buffer together, from the decision until all of them were in flash. Several may be under way.
    Eviction {
        /// Dies (or planes, where planes work independently) that worked for it.
        dies: u32,
        /// Channels of these.
        channels: u32,
    },
}

/// Listens to a run. Every method does nothing by default; none may change the run.
pub trait Observer {
    /// Whether [`on_command`](Self::on_command) is wanted: collecting commands costs time.
    fn wants_commands(&self) -> bool {
        false
    }
    /// Whether [`on_request`](Self::on_request) is wanted.
    fn wants_requests(&self) -> bool {
        false
    }
    /// Whether [`on_parts`](Self::on_parts) is wanted, and the requests of commands.
    fn wants_parts(&self) -> bool {
        false
    }
    /// Before the first request, where parts are wanted: whoever finds them out keeps the explanations, maybe for another thread.
    /// It hears of [`on_told`](Self::on_told) then, and neither of parts nor of requests. Others give them back.
    fn take_over(&mut self, explanations: Box<Explanations>) -> Option<Box<Explanations>> {
        Some(explanations)
    }
    /// More was told, for [`Explanations::hear`]. What is left in the batch is told again, so it may be exchanged for another one.
    fn on_told(&mut self, batch: &mut Batch) {
        batch.clear();
    }
    /// The run has ended, and nothing more is told.
    fn on_told_all(&mut self) {}
    /// The first request comes next. Of each block, which has `pages_per_block`, whether something is programmed in it;
    /// `None` for those that hold no data of units. Where commands are wanted.
    fn on_start(&mut self, blocks: Vec<Option<bool>>, pages_per_block: u32) {
        let _ = (blocks, pages_per_block);
    }
    /// What the time of a request consists of that completes now: [`on_request`](Self::on_request) follows.
    fn on_parts(&mut self, parts: &Parts) {
        let _ = parts;
    }
    /// A request completed. In order of completion.
    fn on_request(&mut self, record: &RequestRecord) {
        let _ = record;
    }
    /// A flash command ended. In order of start on each die; dies are interleaved.
    fn on_command(&mut self, record: &CommandRecord) {
        let _ = record;
    }
    /// Something in memory beside flash was decided, or ended. In no order. Where commands are wanted.
    fn on_memory(&mut self, record: &MemoryRecord) {
        let _ = record;
    }
}

impl Observer for () {}
