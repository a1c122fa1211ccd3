//! Flash translation layers.

use std::ops::Range;

use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::FlashPort;
use crate::geometry::Lpn;
use crate::mapcache::translation::Translation;
use crate::metrics::summary::{GcSummary, MapCacheSummary};

pub mod allocator;
pub mod gc;
pub mod kinds;
pub mod map_only;
pub mod page;

/// A host access to one NAND page's worth of logical space, or a part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageOp {
    /// First mapping unit touched.
    pub lpn: Lpn,
    /// Mapping units touched: at most `slots_per_page`, and within one aligned group of that many.
    pub units: u32,
    /// First sector touched, within the first unit.
    pub first_sector: u32,
    /// Sectors touched.
    pub sectors: u32,
    /// Stream of the request.
    pub stream: u16,
    /// Mapping units of the same request that follow this access.
    pub rest: u32,
}

impl PageOp {
    /// The sectors that the access touches in its `index`-th unit.
    #[inline]
    pub fn sectors_of(&self, index: u32, sectors_per_unit: u32) -> Range<u32> {
        let start = if index == 0 { self.first_sector } else { 0 };
        let end = (self.first_sector + self.sectors - index * sectors_per_unit).min(sectors_per_unit);
        start..end
    }
}

/// What a translation layer has counted since the last [`Ftl::reset_counters`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FtlCounters {
    /// Garbage collection.
    pub gc: GcSummary,
    /// Units read that were not mapped.
    pub unmapped_reads: u64,
    /// Units written in part whose rest was read first.
    pub read_modify_writes: u64,
    /// The mapping cache, when there is one.
    pub map_cache: Option<MapCacheSummary>,
}

/// A flash translation layer.
///
/// It decides what happens to flash and in which order, at the moment of the call; the port decides when. Calls come
/// in the order in which the drive serves accesses. The ticket returned stands for the end of the access: data in the
/// host's hands, or durable. Background work (collection) is put in its place among the commands and not waited for.
/// Only the translation layer changes the array. Required: all methods but `prefetch` and `map_cache`.
pub trait Ftl {
    /// Read an access's units; those that are not mapped cost nothing.
    ///
    /// # Errors
    /// When a rule of flash was broken or the power was cut.
    fn read<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        op: &PageOp,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket>;

    /// Write an access's units.
    ///
    /// # Errors
    /// As `read`, and when no space is left to collect.
    fn write<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        op: &PageOp,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket>;

    /// Forget the units that the access covers wholly; partly covered ones keep their data.
    ///
    /// # Errors
    /// As `read`.
    fn trim<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        op: &PageOp,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket>;

    /// Make everything acknowledged so far durable.
    ///
    /// # Errors
    /// As `write`.
    fn flush<P: FlashPort>(&mut self, flash: &mut Flash<P>, after: P::Ticket) -> FlashResult<P::Ticket>;

    /// Write every logical page once, block after block (`precondition.layout = "blocks"`). The drive is erased.
    ///
    /// # Errors
    /// As `write`.
    fn fill_blocks<P: FlashPort>(&mut self, flash: &mut Flash<P>) -> FlashResult<()>;

    /// `lpn` will be accessed in a few requests: ask the processor for what that will touch, each `stage` for what the
    /// stage before has brought the address of. Stages 0, 1 and 2 come in this order, each closer to the access.
    fn prefetch(&self, nand: &NandArray, lpn: Lpn, stage: u32) {
        let _ = (nand, lpn, stage);
    }

    /// The mapping cache, when there is one.
    fn map_cache(&self) -> Option<&Translation> {
        None
    }

    /// Counters since the last reset.
    fn counters(&self) -> FtlCounters;

    /// Start counting at zero.
    fn reset_counters(&mut self);

    /// Free blocks of the drive.
    fn free_blocks(&self) -> u64;

    /// Most free blocks of any plane.
    fn most_free_blocks(&self) -> u32;

    /// Recount every table from scratch against the array.
    ///
    /// # Errors
    /// The first disagreement.
    fn verify(&self, nand: &NandArray) -> Result<(), String>;

    /// Bytes of the tables.
    fn table_bytes(&self) -> u64;
}
