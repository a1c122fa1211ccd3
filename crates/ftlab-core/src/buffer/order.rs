//! The contract of a buffer order: which page or block leaves the buffer next.

use crate::error::ConfigError;
use crate::geometry::Lpn;
use crate::scheme::Scheme;
use crate::table;

/// A frame of the buffer, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FrameId(pub u32);

/// Which page each frame has: what an order looks up and need not keep.
#[derive(Debug, Clone, Copy)]
pub struct Pages<'a>(&'a [u32]);

impl<'a> Pages<'a> {
    /// Of frames by their number. What stands there of a frame without a page means nothing.
    #[inline]
    pub const fn new(lpns: &'a [u32]) -> Self {
        Self(lpns)
    }

    /// The page of a frame that has one.
    #[inline]
    pub fn of(self, frame: u32) -> Lpn {
        Lpn(self.0[frame as usize])
    }

    /// Ask the processor for the page of a frame.
    #[inline]
    pub(super) fn prefetch(self, frame: u32) {
        table::prefetch(self.0, frame as usize);
    }
}

/// A buffered page: a mapping unit and the frame that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Buffered {
    /// The frame.
    pub frame: FrameId,
    /// The page.
    pub lpn: Lpn,
}

/// What leaves together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VictimUnit {
    /// One page.
    Page,
    /// All buffered pages of a logical block.
    Block,
}

/// The buffer that an order works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Frames, each for one mapping unit.
    pub frames: u32,
    /// Mapping units that the host sees.
    pub logical_units: u32,
    /// Mapping units of a logical block: block-level orders think in these. Block of a page: `lpn / units_per_block`.
    pub units_per_block: u32,
    /// Log blocks of the translation layer below; 0 when it has none.
    pub log_blocks: u32,
}

/// Victims that are looked at ahead of time: one for each stage of what it will touch below, and one before them.
pub const LOOKED_AT: usize = 4;

/// Chooses what leaves a buffer that is full.
///
/// An order says *who* leaves and knows nothing of how many leave at a time, of flash or of time. Order of calls for a
/// page: `on_insert` once, then `on_hit`, `on_clean` and `on_dirty` any number of times; then it leaves by `victim`, `take` or
/// `on_leave`, and may come back. The page or block that `protect` belongs to is never a victim: it is being served.
/// `pages` know the page of each frame that has one: also of one that comes or leaves with the call. Every step but
/// `candidates` is O(1) amortised, and allocates nothing once warm. Required: all but `BYTES_PER_FRAME`, `check_keys`,
/// `on_dirty`, `pads`, `prefetch` and `likely_next`.
pub trait BufferOrder: Scheme + Clone + Send + Sized + 'static {
    /// What its victims are.
    const UNIT: VictimUnit;

    /// Bytes at most of a frame of the buffer, of which those of the order are a part. `tests/allocations.rs` holds it.
    const BYTES_PER_FRAME: u64 = 48;

    /// An order of an empty buffer.
    fn new(keys: &Self::Keys, shape: &Shape) -> Self;

    /// Check the limits of its keys; keys in errors are without their section.
    ///
    /// # Errors
    /// The first value beyond them.
    fn check_keys(keys: &Self::Keys) -> Result<(), ConfigError> {
        let _ = keys;
        Ok(())
    }

    /// Whether pages that a read missed are kept, clean.
    fn keeps_reads(keys: &Self::Keys) -> bool;

    /// `page` came into the buffer, by a write (dirty) or by a read that missed (clean).
    fn on_insert(&mut self, page: Buffered, dirty: bool, pages: Pages<'_>);

    /// `page` was accessed where it is; a write makes it dirty.
    fn on_hit(&mut self, page: Buffered, write: bool, pages: Pages<'_>);

    /// `page` was written to flash and stays, clean. Its place in the order is as before.
    fn on_clean(&mut self, page: Buffered);

    /// `page`, which nobody has written, is dirty: its copy in flash is gone. Its place in the order is as before.
    fn on_dirty(&mut self, page: Buffered) {
        let _ = page;
    }

    /// `page` leaves by itself: it was trimmed.
    fn on_leave(&mut self, page: Buffered, pages: Pages<'_>);

    /// Choose the next victim and forget it: its frames are appended to `frames`, in any order. False: there is none.
    fn victim(&mut self, protect: Lpn, pages: Pages<'_>, frames: &mut Vec<FrameId>) -> bool;

    /// Append to `frames` that of a page of each of the next `depth` victims at most, in their order, without changing
    /// anything.
    fn candidates(&self, protect: Lpn, depth: usize, pages: Pages<'_>, frames: &mut Vec<FrameId>);

    /// As `victim`, for the one that `page` (of `candidates`) belongs to.
    fn take(&mut self, page: Buffered, pages: Pages<'_>, frames: &mut Vec<FrameId>);

    /// Whether a victim block with `held` of its `of` pages is filled up with pages read from flash, and written whole.
    fn pads(&self, held: u32, of: u32) -> bool {
        let _ = (held, of);
        false
    }

    /// `lpn` will be accessed soon, and `frame` has it if any has: ask the processor for what that will touch. Stages 0 to 2
    /// come one after the other; the frame is not known in stage 0, and a guess in stage 1.
    fn prefetch(&self, lpn: Lpn, frame: Option<FrameId>, stage: u32, pages: Pages<'_>) {
        let _ = (lpn, frame, stage, pages);
    }

    /// A frame of each of the next victims, `u32::MAX` where that takes long to say. Only what the processor fetches comes
    /// of it.
    fn likely_next(&self) -> [u32; LOOKED_AT] {
        [u32::MAX; LOOKED_AT]
    }

    /// Bytes of the tables.
    fn table_bytes(&self) -> u64;
}
