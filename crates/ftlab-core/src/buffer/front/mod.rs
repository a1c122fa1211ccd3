//! The write buffer itself: frames between the host and the layer below.
//!
//! An order ([`BufferOrder`](crate::buffer::order::BufferOrder)) says who leaves, `rate.rs` how many, `select.rs` which of
//! the next ones. None of them sees the others. Decisions are made when an access needs a frame and there is none, in the
//! order of accesses, and never by time. Tickets say from when on a frame may be written.
//!
//! `serve.rs` has the paths of the host, `evict.rs` what goes to flash, `frames.rs` what is where.

mod counts;
mod directory;
mod evict;
pub(crate) mod frames;
mod moments;
mod notes;
mod rate;
mod select;
mod serve;

use crate::access::{Access, Part, bits};
use crate::buffer::Orders;
use crate::buffer::front::rate::Rate;
use crate::buffer::keys::{Select, Wait, WriteMode};
use crate::buffer::order::{FrameId, Shape, VictimUnit};
use crate::config::DeviceConfig;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::geometry::{Lpn, Ppn, SECTOR_BYTES};
use crate::layer::Layer;
use crate::metrics::report::Report;
use crate::metrics::series::{Reading, Readings};
use crate::time::{Rate as Speed, Time};

pub use counts::BufferCounts;
pub(crate) use frames::Frames;
pub(crate) use notes::{Happened, Note};

/// No page: nothing is protected from being a victim.
pub(crate) const NOBODY: Lpn = Lpn(u32::MAX);

/// The top of every drive: a layer with a write buffer over it, or without one.
///
/// One type for both, so that there are no more compiled drives for it. Without a buffer it passes on what it gets.
#[derive(Debug, Clone)]
pub struct Front<L, T: Ticket> {
    below: L,
    buffer: Option<Box<WriteBuffer<T>>>,
}

impl<L, T: Ticket> Front<L, T> {
    /// The buffer of a validated configuration over `below`, empty, or none.
    pub fn new<P: FlashPort<Ticket = T>>(config: &DeviceConfig, below: L, flash: &Flash<P>) -> Self
    where
        L: Layer<P>,
    {
        let buffer = WriteBuffer::new(config, &below, flash).map(Box::new);
        Self { below, buffer }
    }

    /// The layer below.
    pub(crate) fn below_mut(&mut self) -> &mut L {
        &mut self.below
    }

    /// Keep notes from now on, if there is a buffer.
    pub(crate) fn keep_notes(&mut self) {
        if let Some(buffer) = &mut self.buffer {
            buffer.notes = Some(Vec::new());
        }
    }

    /// What was noted.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        self.buffer.as_mut().and_then(|buffer| buffer.notes.take()).unwrap_or_default()
    }
}

impl<P: FlashPort, L: Layer<P>> Layer<P> for Front<L, P::Ticket> {
    #[inline]
    fn read(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        found: &mut Vec<u32>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        match &mut self.buffer {
            None => self.below.read(flash, access, found, after),
            Some(buffer) => buffer.read(flash, &mut self.below, access, found, after),
        }
    }

    #[inline(always)]
    fn write(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        match &mut self.buffer {
            None => self.below.write(flash, access, after),
            Some(buffer) => buffer.write(flash, &mut self.below, access, after),
        }
    }

    fn trim(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        if let Some(buffer) = &mut self.buffer {
            buffer.trim(flash, access);
        }
        self.below.trim(flash, access, after)
    }

    fn flush(&mut self, flash: &mut Flash<P>, after: P::Ticket) -> FlashResult<P::Ticket> {
        let Some(buffer) = &mut self.buffer else { return self.below.flush(flash, after) };
        let written = buffer.flush(flash, &mut self.below, after)?;
        let done = self.below.flush(flash, after)?;
        Ok(flash.port.join(written, done))
    }

    fn drain(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        if let Some(buffer) = &mut self.buffer {
            buffer.drain(flash, &mut self.below)?;
        }
        self.below.drain(flash)
    }

    #[inline(always)]
    fn prefetch(&self, nand: &NandArray, lpns: &[Lpn], stage: u32) {
        if let Some(buffer) = &self.buffer {
            if buffer.frames.count() > frames::FEW {
                for lpn in lpns {
                    buffer.look_ahead(*lpn, stage);
                }
            }
            // What is below is touched by misses, and evictions ask for what they touch.
            if stage > 0 && !buffer.writes_through {
                return;
            }
        }
        self.below.prefetch(nand, lpns, stage);
    }

    #[inline(always)]
    fn prefetch_stages(&self) -> usize {
        match &self.buffer {
            Some(buffer) if buffer.frames.count() <= frames::FEW && !buffer.writes_through => 1,
            _ => self.below.prefetch_stages(),
        }
    }

    fn home(&self, lpn: Lpn) -> Option<u32> {
        self.below.home(lpn)
    }

    fn copy_of(&self, lpn: Lpn) -> Option<Ppn> {
        self.below.copy_of(lpn)
    }

    fn natural_block(&self) -> u32 {
        self.below.natural_block()
    }

    fn log_blocks(&self) -> u32 {
        self.below.log_blocks()
    }

    fn report(&self, report: &mut Report) {
        self.below.report(report);
        if let Some(buffer) = &self.buffer {
            let table_bytes = buffer.table_bytes();
            report.add(&BufferCounts { table_bytes, ..buffer.counts.clone() }.with_ratios());
        }
    }

    fn sample(&self, readings: &mut Readings) {
        self.below.sample(readings);
        if let Some(buffer) = &self.buffer {
            buffer.sample(readings);
        }
    }

    fn reset_counters(&mut self) {
        self.below.reset_counters();
        if let Some(buffer) = &mut self.buffer {
            buffer.counts = BufferCounts { frames: buffer.counts.frames, ..BufferCounts::default() };
        }
    }

    fn free_blocks(&self) -> u64 {
        self.below.free_blocks()
    }

    fn verify(&self, nand: &NandArray) -> Result<(), String> {
        if let Some(buffer) = &self.buffer {
            buffer.verify()?;
        }
        self.below.verify(nand)
    }

    fn table_bytes(&self) -> u64 {
        self.below.table_bytes() + self.buffer.as_ref().map_or(0, |buffer| buffer.table_bytes())
    }
}

/// The write buffer of a drive: every scheme is one type.
#[derive(Debug, Clone)]
struct WriteBuffer<T: Ticket> {
    frames: Frames<T>,
    order: Orders,
    /// Nothing comes any more: nobody asks when a frame is free.
    is_ending: bool,
    /// When all evictions so far have ended.
    draining: T,
    /// When what was written past the buffer is in flash, in the place of sectors that were dirty: a flush waits for it as well.
    displaced: T,
    victim_unit: VictimUnit,
    rate: Rate,
    select: Select,
    wait: Wait,
    writes_through: bool,
    keeps_reads: bool,
    /// What is acknowledged is durable, in frames as well.
    has_capacitor: bool,
    access: Time,
    /// Moves one page at a time, and says what of that is hidden behind flash: the rate of its memory then.
    by_page: Option<Speed>,
    drains: bool,
    bypass_sectors: u64,
    prefetch_units: u32,
    shape: Shape,
    per_unit: u32,
    /// Base-2 logarithm of the mapping units of a NAND page.
    page_shift: u32,
    /// The sector behind the last write, and how many were written in a row until there.
    writes_until: (u64, u64),
    /// Whether the request of which accesses are still to come goes past the buffer, if any are.
    going_past: Option<bool>,
    /// Whether what that request has written so far takes the place of dirty sectors.
    takes_place: bool,
    /// The sector behind the last read.
    reads_until: u64,
    /// The number of the next group of evicted pages. Counts down, so that no request has it.
    group: u32,
    counts: BufferCounts,
    /// The request that is served, and what happened, for those who want to know.
    serving: u32,
    notes: Option<Vec<Note>>,
    /// Whether what leaves goes to a non-volatile cache.
    over_cache: bool,
    scratch: Scratch,
    /// When the padding of each page of a victim has been read; empty otherwise.
    read: Vec<T>,
}

/// Lists that are empty between two accesses, kept so that nothing is allocated for each.
#[derive(Debug, Clone, Default)]
struct Scratch {
    /// The victim that leaves.
    leaving: Vec<FrameId>,
    candidates: Vec<FrameId>,
    homes: Vec<u32>,
    parts: Vec<Part>,
    versions: Vec<u32>,
    /// What was read to fill up a block.
    found: Vec<u32>,
    /// What a read misses, and what was brought for it.
    missing: Vec<Part>,
    brought: Vec<u32>,
}

impl<T: Ticket> WriteBuffer<T> {
    fn new<P: FlashPort<Ticket = T>, L: Layer<P>>(
        config: &DeviceConfig,
        below: &L,
        flash: &Flash<P>,
    ) -> Option<Self> {
        let keys = config.buffer.keys()?;
        let geometry = flash.geometry();
        let frames = (keys.bytes / config.unit_bytes()).min(geometry.logical_units.into()) as u32;
        let shape = Shape {
            frames,
            logical_units: geometry.logical_units,
            units_per_block: match keys.block_pages {
                0 => below.natural_block(),
                pages => pages,
            },
            log_blocks: below.log_blocks(),
        };
        let ready = flash.port.ready();
        let rate = Rate {
            count: keys.rate.count(config.lanes()),
            unit: keys.rate_unit,
            slots: geometry.slots_per_page,
        };
        let per_unit = geometry.sectors_per_unit;
        let versions_each = if flash.nand.verifies() { per_unit } else { 0 };
        let victim_unit = config.buffer.kind.victim_unit();
        let victim_frames = match victim_unit {
            VictimUnit::Page => geometry.slots_per_page,
            VictimUnit::Block => shape.units_per_block.min(frames),
        };
        let page_sectors = (geometry.slots_per_page * per_unit) as usize;
        Some(Self {
            // Orders that look at blocks know more of each frame than others.
            frames: Frames::new(
                frames,
                shape.logical_units,
                per_unit,
                versions_each,
                ready,
                config.buffer.kind.looks_at_blocks(),
            ),
            order: config.buffer.kind.build(&shape)?,
            is_ending: false,
            draining: ready,
            displaced: ready,
            victim_unit,
            rate,
            select: keys.select,
            wait: keys.wait,
            writes_through: keys.write == WriteMode::Through,
            keeps_reads: config.buffer.kind.keeps_reads(),
            has_capacitor: config.power.capacitor,
            access: Time::from_us(keys.access_us),
            by_page: keys.hiding.map(|_| Speed::from_mb_per_s(keys.mb_per_s)),
            drains: keys.drain_at_end,
            bypass_sectors: keys.bypass_bytes.div_ceil(SECTOR_BYTES.into()),
            prefetch_units: keys.prefetch_pages,
            shape,
            per_unit,
            page_shift: geometry.slots_per_page.trailing_zeros(),
            writes_until: (0, 0),
            going_past: None,
            takes_place: false,
            reads_until: u64::MAX,
            group: u32::MAX,
            counts: BufferCounts { frames: frames.into(), ..BufferCounts::default() },
            serving: 0,
            notes: None,
            over_cache: config.nvm.is_on(),
            scratch: Scratch {
                leaving: Vec::with_capacity(victim_frames as usize),
                parts: Vec::with_capacity(page_sectors),
                missing: Vec::with_capacity(page_sectors),
                ..Scratch::default()
            },
            read: Vec::new(),
        })
    }

    /// `lpn` will be accessed soon: ask the processor for what that will touch.
    #[inline]
    fn look_ahead(&self, lpn: Lpn, stage: u32) {
        let frame = self.frames.prefetch(lpn, stage);
        self.order.prefetch(lpn, frame, stage, self.frames.pages());
    }

    /// Bytes of the tables, without verification.
    fn table_bytes(&self) -> u64 {
        let Scratch { leaving, candidates, .. } = &self.scratch;
        let lists = (leaving.capacity() + candidates.capacity()) * size_of::<FrameId>();
        self.frames.table_bytes() + lists as u64 + self.order.table_bytes()
    }

    fn sample(&self, readings: &mut Readings) {
        let counts = &self.counts;
        let hits = counts.read_hits + counts.write_hits;
        let all = hits + counts.read_misses + counts.write_misses;
        let ratio = Reading::Mean { total: hits as f64, count: all as f64 };
        readings.push(("buffer_accesses".into(), Reading::Count(all as f64)));
        readings.push(("buffer_hit_ratio".into(), ratio));
        readings.push(("buffer_events".into(), Reading::Count(counts.events as f64)));
        readings.push(("buffer_dirty_pages".into(), Reading::Level(self.frames.dirty_frames().into())));
    }

    fn verify(&self) -> Result<(), String> {
        self.frames.verify().map_err(|text| format!("write buffer: {text}"))
    }

    #[inline]
    fn note(&mut self, lpn: Lpn, mask: u64, happened: impl FnOnce() -> Happened) {
        if let Some(notes) = &mut self.notes {
            notes.push(Note { group: self.serving, lpn, mask, happened: happened() });
        }
    }

    /// Something will leave for the layer below: what [`note_left`](Self::note_left) wants to know of the moment before.
    #[inline]
    fn before_leaving<P: FlashPort<Ticket = T>>(&self, flash: &mut Flash<P>) -> usize {
        if self.over_cache && self.notes.is_some() {
            let now = flash.port.ready();
            return flash.port.note_end(now) as usize;
        }
        flash.nand.changes()
    }

    /// Sectors have left for the layer below, since `before`, which is done at `done`.
    #[inline]
    fn note_left<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        lpn: Lpn,
        mask: u64,
        before: usize,
        done: T,
    ) {
        if self.notes.is_some() {
            let happened = if self.over_cache {
                Happened::Moved { begun: before as u32, ended: flash.port.note_end(done) }
            } else {
                Happened::Left(before..flash.nand.changes())
            };
            self.note(lpn, mask, || happened);
        }
    }

    /// The last page of what the host writes past the buffer was written. A layer below may owe a part of it until here, so that
    /// frames hold what they held.
    fn note_end_of_group(&mut self, changes: usize) {
        let Some(notes) = &mut self.notes else { return };
        let first = notes.iter().rposition(|note| note.group != self.serving).map_or(0, |at| at + 1);
        for at in first + 1..notes.len() {
            let (came, left) = notes.split_at_mut(at);
            let past =
                matches!(came[at - 1].happened, Happened::Written(_)) && came[at - 1].lpn == left[0].lpn;
            if let (true, Happened::Left(range)) = (past, &mut left[0].happened) {
                range.end = changes;
            }
        }
    }
}

/// The parts of `lpn` that `mask` names, each of sectors that follow each other.
fn add_parts(lpn: Lpn, mut mask: u64, parts: &mut Vec<Part>) {
    while mask != 0 {
        let first_sector = mask.trailing_zeros();
        let sectors = (!(mask >> first_sector)).trailing_zeros();
        parts.push(Part { lpn, first_sector, sectors });
        mask &= !bits(&(first_sector..first_sector + sectors));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_sectors_and_parts() {
        assert_eq!(
            (bits(&(0..64)), bits(&(3..5)), bits(&(63..64)), bits(&(4..4))),
            (u64::MAX, 24, 1 << 63, 0)
        );
        let mut parts = Vec::new();
        add_parts(Lpn(7), 0b1101_1000 | 1 << 63, &mut parts);
        let of = |part: &Part| (part.first_sector, part.sectors);
        assert_eq!(parts.iter().map(of).collect::<Vec<_>>(), [(3, 2), (6, 2), (63, 1)]);
        parts.clear();
        add_parts(Lpn(7), u64::MAX, &mut parts);
        assert_eq!(parts.iter().map(of).collect::<Vec<_>>(), [(0, 64)]);
    }
}
