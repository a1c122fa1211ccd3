//! What goes from the buffer to flash: evictions, flushes, and the rest at the end of a run.

use super::{NOBODY, Scratch, WriteBuffer, add_parts};
use crate::access::{Access, Group, bits};
use crate::buffer::front::select::{DEPTH, keep_distinct};
use crate::buffer::keys::{Select, Wait};
use crate::buffer::order::{FrameId, VictimUnit};
use crate::cause::Cause;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::port::{FlashPort, Gathering, Ticket};
use crate::geometry::Lpn;
use crate::layer::Layer;

impl<T: Ticket> WriteBuffer<T> {
    /// Make room: as many victims leave as the rate says, none before `after`. The page `protect` is being served. Returns
    /// when all of them have left.
    pub(super) fn evict<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        protect: Lpn,
        after: T,
    ) -> FlashResult<T> {
        self.begin_event(flash);
        let mut event = Gathering::new(flash.port.ready());
        // The host waits for an eviction, so that the next one begins after it.
        let after = match self.wait {
            Wait::Event => flash.port.join(after, self.draining),
            Wait::Frame => after,
        };
        if self.select == Select::Distinct {
            let mut chosen = std::mem::take(&mut self.scratch.candidates);
            self.choose_distinct(below, protect, &mut chosen);
            let is_page = self.victim_unit == VictimUnit::Page;
            if is_page {
                // All of them first: none may fill up the page of another.
                for frame in &chosen {
                    self.order.take(self.frames.page(*frame), self.frames.pages(), &mut self.scratch.leaving);
                    self.scratch.leaving.clear();
                }
            }
            let (mut victims, mut frames) = (0, 0);
            for frame in chosen.drain(..) {
                if is_page {
                    self.scratch.leaving.push(frame);
                    self.fill_page(protect);
                } else if self.rate.is_met(victims, frames) {
                    break;
                } else {
                    self.order.take(self.frames.page(frame), self.frames.pages(), &mut self.scratch.leaving);
                }
                victims += 1;
                frames += self.scratch.leaving.len() as u32;
                let done = self.write_victim(flash, below, after)?;
                flash.port.gather(&mut event, done);
            }
            self.scratch.candidates = chosen;
        } else {
            let (mut victims, mut frames) = (0, 0);
            while !self.rate.is_met(victims, frames) && self.next_victim(protect) {
                victims += 1;
                frames += self.scratch.leaving.len() as u32;
                let done = self.write_victim(flash, below, after)?;
                flash.port.gather(&mut event, done);
            }
        }
        let event = event.moment();
        self.end_event(flash, event);
        self.look_at_victims(flash, below);
        Ok(event)
    }

    /// Ask the processor for what the next victims will touch.
    fn look_at_victims<P: FlashPort<Ticket = T>, L: Layer<P>>(&self, flash: &Flash<P>, below: &L) {
        let frames = self.order.likely_next();
        self.frames.prefetch_victims(frames, |lpn, stage| below.prefetch(&flash.nand, &[lpn], stage));
        self.order.prefetch(NOBODY, frames.last().copied().map(FrameId), 1, self.frames.pages());
    }

    fn begin_event<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) {
        self.counts.events += 1;
        self.frames.begin_event();
        flash.port.begin_event();
    }

    /// All victims of an eviction are on their way: their frames are free when it ends.
    fn end_event<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, event: T) {
        if self.wait == Wait::Event && !self.is_ending {
            self.frames.end_event(&mut flash.port, event);
        }
        self.draining = flash.port.join(self.draining, event);
        flash.port.end_event(event);
    }

    /// A page of each victim of the next eviction, at most one for each unit that runs commands.
    fn choose_distinct<P: FlashPort, L: Layer<P>>(
        &mut self,
        below: &L,
        protect: Lpn,
        chosen: &mut Vec<FrameId>,
    ) {
        chosen.clear();
        let depth = (DEPTH * self.rate.count) as usize;
        chosen.reserve_exact(depth.min(self.shape.frames as usize));
        self.order.candidates(protect, depth, self.frames.pages(), chosen);
        let home = |frame| below.home(self.frames.page(frame).lpn);
        keep_distinct(chosen, self.rate.count, &mut self.scratch.homes, home);
    }

    /// Let the next victim leave: its frames are those `leaving`. False: there is none.
    fn next_victim(&mut self, protect: Lpn) -> bool {
        if !self.order.victim(protect, self.frames.pages(), &mut self.scratch.leaving) {
            return false;
        }
        self.fill_page(protect);
        true
    }

    /// A victim that is a page takes the next ones with it, as many as a NAND page has slots.
    fn fill_page(&mut self, protect: Lpn) {
        if self.victim_unit == VictimUnit::Page {
            while self.scratch.leaving.len() < self.rate.slots as usize
                && self.order.victim(protect, self.frames.pages(), &mut self.scratch.leaving)
            {}
        }
    }

    /// Write what is dirty of the frames that are `leaving`; they are free when the eviction ends. Returns when it is in
    /// flash.
    fn write_victim<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        after: T,
    ) -> FlashResult<T> {
        self.counts.victims += 1;
        if let ([frame], VictimUnit::Page) = (&self.scratch.leaving[..], self.victim_unit) {
            let frame = *frame;
            self.scratch.leaving.clear();
            return self.write_victim_frame(flash, below, frame, after);
        }
        let mut leaving = std::mem::take(&mut self.scratch.leaving);
        let before = self.before_leaving(flash);
        let done = self.write_frames(flash, below, &mut leaving, after)?;
        for frame in leaving.drain(..) {
            let dirty = self.frames.dirty(frame);
            if dirty == 0 {
                self.left_clean(flash, frame);
            } else {
                self.left(flash, frame, dirty, before, done);
            }
        }
        self.scratch.leaving = leaving;
        Ok(done)
    }

    /// The same for a victim that is one frame: most are.
    fn write_victim_frame<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        frame: FrameId,
        after: T,
    ) -> FlashResult<T> {
        let dirty = self.frames.dirty(frame);
        if dirty == 0 {
            self.left_clean(flash, frame);
            return Ok(flash.port.ready());
        }
        let before = self.before_leaving(flash);
        self.counts.pages_evicted += 1;
        self.group = self.group.wrapping_sub(1);
        let group = Group { id: self.group, units: 1 };
        let done = self.write_page(flash, below, &[frame], (group, 0), after)?;
        self.left(flash, frame, dirty, before, done);
        Ok(done)
    }

    /// A clean frame is free now, or when the data are in flash that a flush or FUA has left in it.
    #[inline]
    fn left_clean<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, frame: FrameId) {
        self.counts.clean_evicted += 1;
        self.frames.hold(&mut flash.port, frame);
        self.frames.leave(frame);
    }

    /// What was dirty of a frame has left it: it is free when the eviction ends.
    #[inline]
    fn left<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        frame: FrameId,
        dirty: u64,
        before: usize,
        done: T,
    ) {
        self.note_left(flash, self.frames.page(frame).lpn, dirty, before, done);
        // All victims of an event are waited for together.
        if self.wait == Wait::Frame && !self.is_ending {
            self.frames.set_ready(&flash.port, frame, done);
        }
        self.frames.leave(frame);
    }

    /// Write what is dirty of `frames` as one group, pages ascending. Returns when it is in flash.
    fn write_frames<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        frames: &mut [FrameId],
        after: T,
    ) -> FlashResult<T> {
        // Clean ones as well: the frames of a victim become free by page.
        if frames.len() > 1 {
            self.frames.sort_by_page(frames);
        }
        let dirty = frames.iter().filter(|frame| self.frames.dirty(**frame) != 0).count() as u32;
        if dirty == 0 {
            return Ok(flash.port.ready());
        }
        self.counts.pages_evicted += u64::from(dirty);
        self.group = self.group.wrapping_sub(1);
        let id = self.group;
        if self.victim_unit == VictimUnit::Block {
            let per_block = self.shape.units_per_block;
            let start = self.frames.page(frames[0]).lpn.0 / per_block * per_block;
            let of = per_block.min(self.shape.logical_units - start);
            if self.order.pads(frames.len() as u32, of) {
                return self.write_padded(flash, below, frames, start..start + of, after);
            }
        }
        let (mut done, mut rest) = (Gathering::new(flash.port.ready()), dirty);
        let mut at = 0;
        while rest > 0 {
            let count = self.frames_of_page(&frames[at..]);
            let page = &frames[at..at + count];
            at += count;
            let units = page.iter().filter(|frame| self.frames.dirty(**frame) != 0).count() as u32;
            if units == 0 {
                continue;
            }
            rest -= units;
            let group = Group { id, units: dirty };
            let written = self.write_page(flash, below, page, (group, rest), after)?;
            flash.port.gather(&mut done, written);
        }
        Ok(done.moment())
    }

    /// How many of `frames` go into one NAND page: all of them for a victim that is a page, and those of one aligned group of
    /// units for a block.
    fn frames_of_page(&self, frames: &[FrameId]) -> usize {
        if self.victim_unit == VictimUnit::Page {
            return frames.len();
        }
        let page = |frame: &FrameId| self.frames.page(*frame).lpn.0 >> self.page_shift;
        let first = page(&frames[0]);
        frames.iter().take_while(|frame| page(frame) == first).count()
    }

    /// Write what is dirty of `frames` as one access of `group`, of which `rest` units follow: whole units where frames hold
    /// them.
    #[inline(always)]
    fn write_page<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        frames: &[FrameId],
        (group, rest): (Group, u32),
        after: T,
    ) -> FlashResult<T> {
        if let ([frame], false) = (frames, flash.nand.verifies())
            && let Some(sectors) = self.frames.leaving_span(*frame)
        {
            let after = flash.port.join(after, self.frames.ready(&flash.port, *frame));
            let access = Access {
                lpn: self.frames.page(*frame).lpn,
                units: 1,
                first_sector: sectors.start,
                sectors: sectors.end - sectors.start,
                rest,
                group,
                stream: 0,
                cause: Cause::CacheFlush,
                fua: false,
                parts: &[],
                versions: &[],
            };
            return below.write(flash, &access, after);
        }
        self.write_gathered(flash, below, frames, (group, rest), after)
    }

    /// The same for frames of several units, or with sectors that do not follow each other, or with versions.
    #[inline(never)]
    fn write_gathered<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        frames: &[FrameId],
        (group, rest): (Group, u32),
        after: T,
    ) -> FlashResult<T> {
        let context = Access { group, rest, cause: Cause::CacheFlush, ..Access::span(Lpn(0), 1, 0, 1) };
        let mut after = after;
        let (mut parts, mut versions) =
            (std::mem::take(&mut self.scratch.parts), std::mem::take(&mut self.scratch.versions));
        parts.clear();
        versions.clear();
        for frame in frames {
            let leaving = self.frames.completed(*frame, self.frames.dirty(*frame));
            if leaving == 0 {
                continue;
            }
            after = flash.port.join(after, self.frames.ready(&flash.port, *frame));
            add_parts(self.frames.page(*frame).lpn, leaving, &mut parts);
            let held = self.frames.versions(*frame).iter().enumerate();
            versions
                .extend(held.filter(|(sector, _)| (leaving >> sector) & 1 == 1).map(|(_, version)| *version));
        }
        let access =
            Access::gathered(&parts, &versions, &context).spanning(self.per_unit, 1 << self.page_shift);
        let done = below.write(flash, &access, after);
        (self.scratch.parts, self.scratch.versions) = (parts, versions);
        done
    }

    /// Write the `units` of a block, of which `frames` have some, as a whole and in order. All that no frame holds is read
    /// first.
    fn write_padded<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        frames: &[FrameId],
        units: std::ops::Range<u32>,
        after: T,
    ) -> FlashResult<T> {
        let group = Group { id: self.group, units: units.end - units.start };
        let (full, slots) = (bits(&(0..self.per_unit)), 1 << self.page_shift);
        let mut scratch = std::mem::take(&mut self.scratch);
        let Scratch { parts, versions, found, .. } = &mut scratch;
        found.clear();
        let mut read = std::mem::take(&mut self.read);
        // The pages of flash, each with how many of the frames it has, and how many units follow it.
        let (units, held) = (&units, &self.frames);
        let pages = || {
            let (mut first, mut later) = (units.start, frames);
            std::iter::from_fn(move || {
                let end = ((first / slots + 1) * slots).min(units.end);
                let page = std::mem::replace(&mut first, end)..end;
                let count = later.partition_point(|frame| held.page(*frame).lpn.0 < end);
                let own;
                (own, later) = later.split_at(count);
                let context = Access {
                    group,
                    rest: units.end - end,
                    cause: Cause::CacheFlush,
                    ..Access::span(Lpn(page.start), end - page.start, 0, 0)
                };
                (!page.is_empty()).then_some((page, own, context))
            })
        };
        for (page, frames, context) in pages() {
            parts.clear();
            let mut ready = after;
            let mut frames = frames.iter().peekable();
            for lpn in page.map(Lpn) {
                let frame = frames.next_if(|frame| self.frames.page(**frame).lpn == lpn);
                let held = frame.map_or(0, |frame| self.frames.held(*frame));
                let dirty = frame.map_or(0, |frame| self.frames.dirty(*frame));
                if let Some(frame) = frame {
                    ready = flash.port.join(ready, self.frames.ready(&flash.port, *frame));
                }
                self.counts.padding_reads += u64::from(held != full);
                self.counts.padding_writes += u64::from(dirty == 0);
                add_parts(lpn, full & !held, parts);
            }
            if !parts.is_empty() {
                ready = below.read(flash, &Access::gathered(parts, &[], &context), found, ready)?;
            }
            read.push(ready);
        }
        let (mut done, mut found) = (Gathering::new(flash.port.ready()), found.iter().copied());
        for ((page, frames, context), read) in pages().zip(read.drain(..)) {
            versions.clear();
            if flash.nand.verifies() {
                self.merge_versions(frames, page.clone(), &mut found, versions);
            }
            let sectors = (page.end - page.start) * self.per_unit;
            let written = below.write(flash, &Access { sectors, versions, ..context }, read)?;
            flash.port.gather(&mut done, written);
        }
        (self.scratch, self.read) = (scratch, read);
        Ok(done.moment())
    }

    /// The versions of all sectors of `units`: those that `frames` hold, and the others as they were `found`.
    fn merge_versions(
        &self,
        frames: &[FrameId],
        units: std::ops::Range<u32>,
        found: &mut impl Iterator<Item = u32>,
        versions: &mut Vec<u32>,
    ) {
        let mut frames = frames.iter().peekable();
        for lpn in units {
            let frame = frames.next_if(|frame| self.frames.page(**frame).lpn.0 == lpn);
            let held = frame.map_or(0, |frame| self.frames.held(*frame));
            let known = frame.map_or(&[][..], |frame| self.frames.versions(*frame));
            versions.extend((0..self.per_unit as usize).map(|sector| {
                if (held >> sector) & 1 == 1 { known[sector] } else { found.next().unwrap_or(0) }
            }));
        }
    }

    /// Everything acknowledged goes to flash. Returns when it is there.
    pub(super) fn flush<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        after: T,
    ) -> FlashResult<T> {
        self.counts.flushes += 1;
        if self.has_capacitor {
            return Ok(after);
        }
        if self.frames.dirty_frames() > 0 {
            self.begin_event(flash);
            let event = if self.keeps_reads {
                self.clean_all(flash, below, after)?
            } else {
                let mut event = Gathering::new(flash.port.ready());
                while self.next_victim(NOBODY) {
                    let done = self.write_victim(flash, below, after)?;
                    flash.port.gather(&mut event, done);
                }
                event.moment()
            };
            self.end_event(flash, event);
        }
        // With `wait = "event"` the next eviction waits for all of the flush.
        self.draining = flash.port.join(self.draining, self.displaced);
        Ok(flash.port.join(after, self.draining))
    }

    /// Write all that is dirty, in the order in which it would leave, and keep it.
    fn clean_all<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        after: T,
    ) -> FlashResult<T> {
        let mut frames = std::mem::take(&mut self.scratch.candidates);
        frames.clear();
        frames.reserve_exact(self.shape.frames as usize);
        self.order.candidates(NOBODY, self.shape.frames as usize, self.frames.pages(), &mut frames);
        let mut event = Gathering::new(flash.port.ready());
        let mut pending = frames.drain(..).peekable();
        let mut chosen = std::mem::take(&mut self.scratch.leaving);
        while let Some(frame) = pending.next() {
            if self.victim_unit == VictimUnit::Block {
                let per_block = self.shape.units_per_block;
                let start = self.frames.page(frame).lpn.0 / per_block * per_block;
                let end = (start + per_block).min(self.shape.logical_units);
                chosen.extend((start..end).filter_map(|lpn| self.frames.find(Lpn(lpn))));
            } else if self.frames.dirty(frame) != 0 {
                chosen.push(frame);
            }
            let is_full = self.victim_unit == VictimUnit::Block || chosen.len() == self.rate.slots as usize;
            if chosen.is_empty() || !(is_full || pending.peek().is_none()) {
                continue;
            }
            self.counts.victims += 1;
            let done = self.write_frames(flash, below, &mut chosen, after)?;
            flash.port.gather(&mut event, done);
            for frame in chosen.drain(..) {
                if self.frames.dirty(frame) != 0 {
                    self.frames.clean(frame);
                    self.order.on_clean(self.frames.page(frame));
                }
            }
        }
        drop(pending);
        (self.scratch.candidates, self.scratch.leaving) = (frames, chosen);
        let event = event.moment();
        self.frames.end_cleaning(&mut flash.port, event);
        Ok(event)
    }

    /// The run has ended: write what is left, at the same rate, one eviction after the other.
    pub(super) fn drain<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
    ) -> FlashResult<()> {
        if !self.drains {
            return Ok(());
        }
        let before = self.counts.pages_evicted;
        self.is_ending = true;
        let mut after = flash.port.ready();
        while self.frames.dirty_frames() > 0 {
            flash.check_interrupt()?;
            after = self.evict(flash, below, NOBODY, after)?;
        }
        self.counts.drained_pages += self.counts.pages_evicted - before;
        Ok(())
    }
}
