//! The non-volatile cache itself: frames between the host (or its write buffer) and the translation layer.
//!
//! A page has one of the states of the paper (section III): only in flash, in both and clean, or only in the cache. With
//! `cdm`, the layer below hears of every change: it need not copy what is clean here, and what is newer here is stale
//! there. With `basic` it hears of nothing.
//!
//! | event | `basic` | `cdm` |
//! |---|---|---|
//! | a read that missed fills a frame | | `set_removable(on)` |
//! | a write to a page that is not dirty here | | `drop_copy` |
//! | a clean victim | dropped | `set_removable(off)`, then dropped |
//! | a dirty victim | written | written |
//! | collection has not copied a page | | fetched after each call: it is dirty now |
//!
//! A frame always has a whole page: a write in part reads the rest first. Decisions follow the order of accesses. A frame
//! may be used again when what it held is in flash, with all that was evicted with it. A clean one may when no program is
//! under way that could tear its page in flash. A page comes in after the ones that leave for it.

mod counts;
mod kept;
mod serve;

use crate::access::{Access, Group, Part};
use crate::buffer::front::{Frames, NOBODY};
use crate::buffer::order::{FrameId, Shape};
use crate::buffer::{BufferChoice, Orders};
use crate::cause::Cause;
use crate::config::{DeviceConfig, PreconditionPattern};
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Memory, Ticket};
use crate::geometry::{Lpn, Ppn};
use crate::layer::Layer;
use crate::metrics::report::Report;
use crate::metrics::series::{Reading, Readings};
use crate::nvm::{BasicFlush, NvmChoice};
use crate::time::Time;

pub use counts::NvmCounts;
pub(crate) use kept::{Diary, Kept};

/// The first number of a group of evicted pages. They count down, away from those of requests and of a write buffer.
const FIRST_GROUP: u32 = u32::MAX / 4 * 3;

/// What a frame holds, and what of it is dirty: all of its page.
const WHOLE: u64 = 1;

/// A translation layer with a non-volatile cache over it, or without one.
#[derive(Debug, Clone)]
pub struct Cached<L, T: Ticket> {
    below: L,
    nvm: Option<Box<Nvm<T>>>,
}

impl<L, T: Ticket> Cached<L, T> {
    /// The cache of a validated configuration over `below`, empty, or none.
    pub fn new<P: FlashPort<Ticket = T>>(config: &DeviceConfig, below: L, flash: &Flash<P>) -> Self
    where
        L: Layer<P>,
    {
        let nvm = Nvm::new(config, &below, flash).map(Box::new);
        Self { below, nvm }
    }
}

impl<P: FlashPort, L: Layer<P>> Layer<P> for Cached<L, P::Ticket> {
    #[inline(always)]
    fn read(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        found: &mut Vec<u32>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        match &mut self.nvm {
            None => self.below.read(flash, access, found, after),
            Some(nvm) => nvm.read(flash, &mut self.below, access, found, after),
        }
    }

    #[inline(always)]
    fn write(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        match &mut self.nvm {
            None => self.below.write(flash, access, after),
            Some(nvm) => nvm.write(flash, &mut self.below, access, after),
        }
    }

    fn trim(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let Some(nvm) = &mut self.nvm else { return self.below.trim(flash, access, after) };
        nvm.trim(flash, &self.below, access);
        let done = self.below.trim(flash, access, after)?;
        nvm.fetch_removed(&mut self.below);
        Ok(done)
    }

    fn flush(&mut self, flash: &mut Flash<P>, after: P::Ticket) -> FlashResult<P::Ticket> {
        let Some(nvm) = &mut self.nvm else { return self.below.flush(flash, after) };
        let written = nvm.flush(flash, &mut self.below, after)?;
        let done = self.below.flush(flash, after)?;
        nvm.fetch_removed(&mut self.below);
        Ok(flash.port.join(written, done))
    }

    fn drain(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        self.below.drain(flash)
    }

    #[inline(always)]
    fn prefetch(&self, nand: &NandArray, lpns: &[Lpn], stage: u32) {
        if let Some(nvm) = &self.nvm {
            for lpn in lpns {
                let frame = nvm.frames.prefetch(*lpn, stage);
                nvm.order.prefetch(*lpn, frame, stage, nvm.frames.pages());
            }
        }
        self.below.prefetch(nand, lpns, stage);
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
        if let Some(nvm) = &self.nvm {
            report.read_modify_writes += nvm.read_modify_writes;
            report.add(&nvm.report());
        }
    }

    fn sample(&self, readings: &mut Readings) {
        self.below.sample(readings);
        if let Some(nvm) = &self.nvm {
            nvm.sample(readings);
        }
    }

    fn reset_counters(&mut self) {
        self.below.reset_counters();
        if let Some(nvm) = &mut self.nvm {
            nvm.counts = NvmCounts { frames: nvm.counts.frames, ..NvmCounts::default() };
            nvm.read_modify_writes = 0;
        }
    }

    fn free_blocks(&self) -> u64 {
        self.below.free_blocks()
    }

    fn verify(&self, nand: &NandArray) -> Result<(), String> {
        if let Some(nvm) = &self.nvm {
            nvm.verify(|lpn| self.below.copy_of(lpn))
                .map_err(|text| format!("non-volatile cache: {text}"))?;
        }
        self.below.verify(nand)
    }

    fn table_bytes(&self) -> u64 {
        self.below.table_bytes() + self.nvm.as_ref().map_or(0, |nvm| nvm.table_bytes())
    }
}

/// A set of numbers.
#[derive(Debug, Clone)]
struct Set {
    words: Vec<u64>,
    len: u64,
}

impl Set {
    fn new(most: u32) -> Self {
        Self { words: vec![0; (most as usize).div_ceil(64)], len: 0 }
    }

    fn has(&self, at: u32) -> bool {
        (self.words[at as usize / 64] >> (at % 64)) & 1 == 1
    }

    /// Put a number in, or out.
    fn put(&mut self, at: u32, is: bool) {
        if self.has(at) != is {
            self.words[at as usize / 64] ^= 1 << (at % 64);
            self.len = if is { self.len + 1 } else { self.len - 1 };
        }
    }
}

/// The cache of a drive.
#[derive(Debug, Clone)]
struct Nvm<T: Ticket> {
    frames: Frames<T>,
    order: Orders,
    /// Dirty frames whose page the host has not changed: collection dropped its copy in flash.
    by_collector: Set,
    /// Pages that were trimmed and of which flash may have older versions.
    tombstones: Set,
    /// Whether flash may have versions of pages that nobody below knows of: trims of the workload that has aged the drive
    /// left them.
    is_aged_by_trims: bool,
    /// Whether the layer below is told.
    cooperates: bool,
    flushes_back: bool,
    read: Time,
    write: Time,
    /// Whether changes of state are messages over the link.
    sends: bool,
    /// Mapping units of a NAND page.
    slots: u32,
    per_unit: u32,
    /// The number of the next group of evicted pages.
    group: u32,
    /// Units written in part whose rest was read first.
    read_modify_writes: u64,
    counts: NvmCounts,
    /// For those who cut the power.
    diary: Option<Box<Diary>>,
    scratch: Scratch,
}

/// Lists that are empty between two accesses, kept so that nothing is allocated for each.
#[derive(Debug, Clone, Default)]
struct Scratch {
    leaving: Vec<FrameId>,
    parts: Vec<Part>,
    versions: Vec<u32>,
    /// Pages that a read misses, and where in `found` they belong.
    missing: Vec<(Lpn, u32)>,
    brought: Vec<u32>,
    removed: Vec<Lpn>,
    candidates: Vec<FrameId>,
}

impl<T: Ticket> Nvm<T> {
    fn new<P: FlashPort<Ticket = T>, L: Layer<P>>(
        config: &DeviceConfig,
        below: &L,
        flash: &Flash<P>,
    ) -> Option<Self> {
        let keys = config.nvm.keys()?;
        let geometry = flash.geometry();
        let frames = (keys.bytes / config.unit_bytes()).min(geometry.logical_units.into()) as u32;
        let shape = Shape {
            frames,
            logical_units: geometry.logical_units,
            units_per_block: below.natural_block(),
            log_blocks: 0,
        };
        let versions_each = if flash.nand.verifies() { geometry.sectors_per_unit } else { 0 };
        let flushes_back =
            matches!(&config.nvm.kind, NvmChoice::Basic(keys) if keys.basic_flush == BasicFlush::Writeback);
        Some(Self {
            frames: Frames::new(frames, geometry.logical_units, 1, versions_each, flash.port.ready(), false),
            order: BufferChoice::from(keys.order).build(&shape)?,
            by_collector: Set::new(frames),
            tombstones: Set::new(geometry.logical_units),
            is_aged_by_trims: config
                .precondition
                .aging()
                .is_some_and(|aging| aging.pattern == PreconditionPattern::Workload),
            cooperates: config.nvm.cooperates(),
            flushes_back,
            read: Time::from_us(keys.read_us),
            write: Time::from_us(keys.write_us),
            sends: config.nvm.is_in_host(),
            slots: geometry.slots_per_page,
            per_unit: geometry.sectors_per_unit,
            group: FIRST_GROUP,
            read_modify_writes: 0,
            counts: NvmCounts { frames: frames.into(), ..NvmCounts::default() },
            diary: flash.nand.keeps_past().then(Box::default),
            scratch: Scratch::default(),
        })
    }

    fn is_dirty(&self, frame: FrameId) -> bool {
        self.frames.dirty(frame) != 0
    }

    /// A free frame takes a page.
    fn enter(&mut self, frame: FrameId, lpn: Lpn, dirty: bool) {
        self.frames.enter(frame, lpn);
        self.frames.set_held(frame, WHOLE);
        self.frames.set_dirty(frame, if dirty { WHOLE } else { 0 });
        self.by_collector.put(frame.0, false);
        self.order.on_insert(self.frames.page(frame), dirty, self.frames.pages());
    }

    /// A frame has no page any more; from its moment on it may be written.
    fn set_free<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, frame: FrameId) {
        self.note_free(flash, frame);
        self.by_collector.put(frame.0, false);
        self.frames.leave(frame);
    }

    /// A change of state goes to the drive: when it is there, if that takes a message.
    fn message<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> T {
        if !self.sends {
            return flash.port.ready();
        }
        self.counts.messages += 1;
        flash.port.memory(Memory::Link, 1)
    }

    /// Collection may have relied on copies here: those pages are dirty now, though the host did nothing.
    fn fetch_removed<P: FlashPort<Ticket = T>, L: Layer<P>>(&mut self, below: &mut L) {
        if !self.cooperates {
            return;
        }
        let mut removed = std::mem::take(&mut self.scratch.removed);
        below.take_removed(&mut removed);
        for lpn in removed.drain(..) {
            let Some(frame) = self.frames.find(lpn) else {
                // A trim on its way, which collects for its own map entries: nobody needs the page.
                assert!(self.tombstones.has(lpn.0), "collection skips only what the cache has");
                continue;
            };
            debug_assert!(!self.is_dirty(frame), "what is dirty here has no copy in flash");
            self.counts.messages += u64::from(self.sends);
            self.frames.set_dirty(frame, WHOLE);
            self.by_collector.put(frame.0, true);
            self.order.on_dirty(self.frames.page(frame));
        }
        self.scratch.removed = removed;
    }

    fn report(&self) -> NvmCounts {
        let hits = self.counts.read_hits + self.counts.write_hits;
        let all = hits + self.counts.read_misses + self.counts.write_misses;
        let dirty = u64::from(self.frames.dirty_frames());
        NvmCounts {
            hit_ratio: if all > 0 { hits as f64 / all as f64 } else { 0.0 },
            writes_per_frame: self.counts.frame_writes as f64 / self.counts.frames as f64,
            clean_at_end: u64::from(self.frames.count()) - self.frames.free() as u64 - dirty,
            host_dirty_at_end: dirty - self.by_collector.len,
            collector_dirty_at_end: self.by_collector.len,
            tombstones: self.tombstones.len,
            table_bytes: self.table_bytes(),
            ..self.counts.clone()
        }
    }

    fn sample(&self, readings: &mut Readings) {
        let counts = &self.counts;
        let hits = counts.read_hits + counts.write_hits;
        let all = hits + counts.read_misses + counts.write_misses;
        readings.push(("nvm_accesses".into(), Reading::Count(all as f64)));
        readings.push(("nvm_hit_ratio".into(), Reading::Mean { total: hits as f64, count: all as f64 }));
        readings.push(("nvm_dirty_pages".into(), Reading::Level(self.frames.dirty_frames().into())));
    }

    /// Recount, and hold the state of each page against the table of the paper.
    fn verify(&self, copy_of: impl Fn(Lpn) -> Option<Ppn>) -> Result<(), String> {
        self.frames.verify()?;
        for page in self.frames.in_use() {
            let has_copy = copy_of(page.lpn).is_some();
            if !has_copy && !self.is_dirty(page.frame) {
                return Err(format!("page {} is clean, and flash has no copy", page.lpn.0));
            }
            if self.cooperates && has_copy && self.is_dirty(page.frame) {
                return Err(format!("page {} is dirty, and flash has a copy that is live", page.lpn.0));
            }
            if self.by_collector.has(page.frame.0) && !self.is_dirty(page.frame) {
                return Err(format!("page {} is clean, and was made dirty by collection", page.lpn.0));
            }
        }
        Ok(())
    }

    /// Bytes of the tables, without verification.
    fn table_bytes(&self) -> u64 {
        let words = self.by_collector.words.len() + self.tombstones.words.len();
        self.frames.table_bytes() + words as u64 * 8 + self.order.table_bytes()
    }

    /// Let one victim leave, with as many more as fill a page of flash: their frames are free when they are there.
    fn evict<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        protect: Lpn,
    ) -> FlashResult<()> {
        let mut leaving = std::mem::take(&mut self.scratch.leaving);
        leaving.clear();
        while leaving.len() < self.slots as usize
            && self.order.victim(protect, self.frames.pages(), &mut leaving)
        {}
        assert!(!leaving.is_empty(), "validated: a page of flash has no more units than there are frames");
        // Given up before anything is written: a collection on the way finds each page as it is.
        for frame in &leaving {
            let page = self.frames.page(*frame);
            if self.is_dirty(*frame) {
                let collector = self.by_collector.has(frame.0);
                self.counts.evictions_collector_dirty += u64::from(collector);
                self.counts.evictions_host_dirty += u64::from(!collector);
                continue;
            }
            self.counts.clean_evicted += 1;
            self.frames.hold(&mut flash.port, *frame);
            if self.cooperates {
                let told = self.message(flash);
                let relied_on = below.set_removable(flash, page.lpn, false, told);
                let moment = flash.port.join(self.frames.ready(&flash.port, *frame), told);
                let moment = flash.port.join(moment, relied_on);
                self.frames.set_ready(&flash.port, *frame, moment);
            }
        }
        let done = self.write_back(flash, below, &mut leaving)?;
        for frame in leaving.drain(..) {
            if self.is_dirty(frame) {
                self.end_tombstone(flash, self.frames.page(frame).lpn, done);
                self.frames.set_ready(&flash.port, frame, done);
            }
            self.set_free(flash, frame);
        }
        self.scratch.leaving = leaving;
        self.fetch_removed(below);
        let next = self.order.likely_next();
        self.frames.prefetch_victims(next, |lpn, stage| below.prefetch(&flash.nand, &[lpn], stage));
        self.order.prefetch(NOBODY, next.last().copied().map(FrameId), 1, self.frames.pages());
        Ok(())
    }

    /// Write what is dirty of `frames` to a page of flash. Returns when it is there.
    fn write_back<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        frames: &mut [FrameId],
    ) -> FlashResult<T> {
        // Clean ones as well: as in the write buffer, the frames of a victim become free by page.
        self.frames.sort_by_page(frames);
        if frames.iter().all(|frame| !self.is_dirty(*frame)) {
            return Ok(flash.port.ready());
        }
        let mut after = flash.port.ready();
        let (mut parts, mut versions) =
            (std::mem::take(&mut self.scratch.parts), std::mem::take(&mut self.scratch.versions));
        parts.clear();
        versions.clear();
        for frame in frames.iter().filter(|frame| self.is_dirty(**frame)) {
            after = flash.port.join(after, self.frames.ready(&flash.port, *frame));
            parts.push(Part { lpn: self.frames.page(*frame).lpn, first_sector: 0, sectors: self.per_unit });
            versions.extend_from_slice(self.frames.versions(*frame));
        }
        self.group = self.group.wrapping_sub(1);
        let group = Group { id: self.group, units: parts.len() as u32 };
        let context = Access { group, cause: Cause::CacheFlush, ..Access::span(Lpn(0), 1, 0, 1) };
        let access = Access::gathered(&parts, &versions, &context).spanning(self.per_unit, self.slots);
        let done = below.write(flash, &access, after)?;
        (self.scratch.parts, self.scratch.versions) = (parts, versions);
        Ok(done)
    }

    /// The host wants everything durable, which it is; unless the cache is asked to write back.
    fn flush<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        after: T,
    ) -> FlashResult<T> {
        self.counts.flushes += 1;
        if !self.flushes_back || self.frames.dirty_frames() == 0 {
            return Ok(after);
        }
        let mut frames = std::mem::take(&mut self.scratch.candidates);
        frames.clear();
        self.order.candidates(NOBODY, self.frames.count() as usize, self.frames.pages(), &mut frames);
        frames.retain(|frame| self.is_dirty(*frame));
        let mut done = after;
        let mut chosen = std::mem::take(&mut self.scratch.leaving);
        for together in frames.chunks(self.slots as usize) {
            chosen.clear();
            chosen.extend_from_slice(together);
            let written = self.write_back(flash, below, &mut chosen)?;
            done = flash.port.join(done, written);
            for frame in together {
                let page = self.frames.page(*frame);
                self.counts.pages_flushed += 1;
                self.end_tombstone(flash, page.lpn, written);
                self.frames.clean(page.frame);
                // Clean from the moment on at which flash has it. It can be read before.
                let moment = flash.port.join(self.frames.ready(&flash.port, page.frame), written);
                self.note_clean(flash, page.frame, below.copy_of(page.lpn), moment);
                self.order.on_clean(page);
            }
        }
        (self.scratch.candidates, self.scratch.leaving) = (frames, chosen);
        self.frames.end_cleaning(&mut flash.port, done);
        Ok(done)
    }
}
