//! The one seam of a drive: what a part above flash is to the part above it.
//!
//! A layer is a type over the layer below it, and generic over the port, so that it can keep tickets. Write buffers,
//! non-volatile caches and translation layers all have this form; the lowest is a translation layer
//! ([`Ftl`]).

use crate::access::Access;
use crate::cause::Cause;
use crate::config::DeviceConfig;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::FlashPort;
use crate::geometry::{Lpn, Ppn};
use crate::metrics::report::Report;
use crate::metrics::series::Readings;
use crate::tape::Tape;

/// Stages of [`Layer::prefetch`].
pub const STAGES: usize = 3;

/// A part of a drive above flash.
///
/// It decides what happens and in which order, at the moment of the call; the port decides when. Calls come in the order
/// in which the drive serves accesses, and never from below. The ticket returned stands for the end of the access: data in
/// the hands of the caller, or as durable as the layer makes them. Work that nobody asked for (collections, evictions) is
/// put in its place among the commands and not waited for. Decisions follow the order of accesses and never time.
///
/// Every command goes to flash with the cause of the access that it serves, or with a cause of the layer's own. With
/// verification, an access that writes has one version for each of its sectors. A read appends one version for each of
/// its sectors to `found`, in the order of the access. Without verification, both stay empty.
///
/// Only the translation layer changes the array. Required: all methods but `drain`, `prefetch`, `prefetch_stages`, `home`,
/// `natural_block`, `log_blocks`, `sample`, `copy_of`, `set_removable`, `drop_copy` and `take_removed`.
pub trait Layer<P: FlashPort> {
    /// Read what an access touches. What holds nothing costs nothing.
    ///
    /// # Errors
    /// When a rule of flash was broken or the power was cut.
    fn read(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        found: &mut Vec<u32>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket>;

    /// Write what an access touches.
    ///
    /// # Errors
    /// As `read`, and when no space is left to collect.
    fn write(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket>;

    /// Forget the units that the access covers wholly; partly covered ones keep their data.
    ///
    /// # Errors
    /// As `read`.
    fn trim(&mut self, flash: &mut Flash<P>, access: &Access<'_>, after: P::Ticket)
    -> FlashResult<P::Ticket>;

    /// Make everything acknowledged so far durable.
    ///
    /// # Errors
    /// As `write`.
    fn flush(&mut self, flash: &mut Flash<P>, after: P::Ticket) -> FlashResult<P::Ticket>;

    /// The run has ended, and the host has gone: write what is held back.
    ///
    /// # Errors
    /// As `write`.
    fn drain(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        let _ = flash;
        Ok(())
    }

    /// The unit that runs commands (a die, or a plane where planes work independently) to which the address of a page
    /// alone sends it; `None` where something else decides.
    fn home(&self, lpn: Lpn) -> Option<u32> {
        let _ = lpn;
        None
    }

    /// Mapping units of the block that a layer above should think in.
    fn natural_block(&self) -> u32 {
        1
    }

    /// Log blocks; 0 when there are none.
    fn log_blocks(&self) -> u32 {
        0
    }

    /// Where the newest data of `lpn` are in flash; `None` when there are none.
    fn copy_of(&self, lpn: Lpn) -> Option<Ppn> {
        let _ = lpn;
        None
    }

    /// A cache above has a clean copy of `lpn` that is durable from `since` on; or, with `is` false, gives it up. While it
    /// has one, collection need not copy the data, and a program that may tear them needs no backup. Returns until when the
    /// copy must be kept all the same: such programs may be under way. Translation layers that work with a cache have this
    /// method and the next two; others are never asked.
    fn set_removable(&mut self, flash: &mut Flash<P>, lpn: Lpn, is: bool, since: P::Ticket) -> P::Ticket {
        let _ = (lpn, is, since);
        flash.port.ready()
    }

    /// A cache above has newer data of `lpn`, durable from `since` on: what flash has is stale.
    ///
    /// # Errors
    /// As `write`.
    fn drop_copy(&mut self, flash: &mut Flash<P>, lpn: Lpn, since: P::Ticket) -> FlashResult<()> {
        let _ = (flash, lpn, since);
        Ok(())
    }

    /// Append to `removed` what collection has not copied since the last call: the cache above has the only copy.
    fn take_removed(&mut self, removed: &mut Vec<Lpn>) {
        let _ = removed;
    }

    /// `lpns` will be accessed in a few requests: ask the processor for what that will touch, each `stage` for what the
    /// stage before has brought the address of. Stages 0, 1 and 2 come in this order, each closer to the access.
    fn prefetch(&self, nand: &NandArray, lpns: &[Lpn], stage: u32) {
        let _ = (nand, lpns, stage);
    }

    /// How many stages of [`prefetch`](Self::prefetch) ask for anything, from 0 on; at most `STAGES`.
    fn prefetch_stages(&self) -> usize {
        STAGES
    }

    /// Add what was counted since the last reset, after the layers below have.
    fn report(&self, report: &mut Report);

    /// Add the columns of the time series that the layer has, after the layers below have.
    fn sample(&self, readings: &mut Readings) {
        let _ = readings;
    }

    /// Start counting at zero.
    fn reset_counters(&mut self);

    /// Free blocks of the drive.
    fn free_blocks(&self) -> u64;

    /// Recount every table from scratch against the array.
    ///
    /// # Errors
    /// The first disagreement.
    fn verify(&self, nand: &NandArray) -> Result<(), String>;

    /// Bytes of the tables, those of the layers below included.
    fn table_bytes(&self) -> u64;
}

/// What a cache above has of a unit after a power cut. Versions are known by the program that they came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newer {
    /// The unit.
    pub lpn: Lpn,
    /// Versions of flash up to this program are stale. A translation layer may find them all the same.
    pub stale: u32,
    /// Versions up to this program, or newer ones, are in the cache: a torn page of them need not be rescued.
    pub cached: u32,
}

/// A flash translation layer: the lowest layer, which alone changes the array.
///
/// It is made for a port and can be taken to another one between two accesses: a drive is preconditioned without a clock.
/// A copy goes on as the original would: sessions fork.
/// Required: all methods but `fill_in_turn` and `tape`.
pub trait Ftl<P: FlashPort>: Layer<P> + Clone + Send + 'static {
    /// The same translation layer for another port.
    type On<Q: FlashPort>: Ftl<Q, On<P> = Self>;

    /// Go on with another port. Everything that was submitted to the old one has ended.
    fn with_port<Q: FlashPort>(self, port: &Q) -> Self::On<Q>;

    /// Write every logical page once, block after block (`precondition.layout = "blocks"`). The drive is erased. `versions`
    /// has one for each logical sector with verification, and is empty without.
    ///
    /// # Errors
    /// As [`Layer::write`].
    fn fill_blocks(&mut self, flash: &mut Flash<P>, cause: Cause, versions: &[u32]) -> FlashResult<()>;

    /// Begin a sequential fill of an erased drive, or go on with it at unit `from`: the same as writing page after page, and
    /// much faster. Returns how many units it has written, which may be 0: the rest is written page after page.
    ///
    /// # Errors
    /// As [`Layer::write`].
    fn fill_in_turn(&mut self, flash: &mut Flash<P>, from: Lpn, cause: Cause) -> FlashResult<u32> {
        let _ = (flash, from, cause);
        Ok(0)
    }

    /// Start again after a power cut, from what flash holds and what a cache above says that it has.
    ///
    /// # Errors
    /// When flash does not keep its past, and as [`Layer::write`].
    fn mount(config: &DeviceConfig, seed: u64, flash: &mut Flash<P>, newer: &[Newer]) -> FlashResult<Self>;

    /// Write what the layer has come to between two accesses to a tape, or read it from there into one that was made for the
    /// same drive. Layers that leave this out cannot be kept on disk.
    ///
    /// # Errors
    /// When the tape fails, or the layer has something that is not kept.
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        tape.refuse()
    }

    /// Most free blocks of any plane.
    fn most_free_blocks(&self) -> u32;

    /// Most flash commands that one access takes on a drive of this configuration, collection included. It follows from
    /// the configuration alone. A mount takes three times as many as the drive has pages, and as many as this besides.
    fn most_commands_of_access(config: &DeviceConfig) -> u64;
}

/// Puts the layers of a drive on top of its translation layer, whichever that is.
pub trait Layering {
    /// The topmost layer, over the layer `L`.
    type Top<P: FlashPort, L: Layer<P>>: Layer<P>;

    /// Build them over `below`, which has been preconditioned.
    fn build<P: FlashPort, L: Layer<P>>(&self, below: L, flash: &Flash<P>) -> Self::Top<P, L>;
}

/// No layer: the translation layer is the topmost.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bare;

impl Layering for Bare {
    type Top<P: FlashPort, L: Layer<P>> = L;

    fn build<P: FlashPort, L: Layer<P>>(&self, below: L, _: &Flash<P>) -> L {
        below
    }
}
