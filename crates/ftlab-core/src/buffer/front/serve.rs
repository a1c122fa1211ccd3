//! What the host asks of the buffer: writes, reads and trims.

use super::{Happened, WriteBuffer, add_parts};
use crate::access::{Access, Part, UnitAccess, bits};
use crate::buffer::order::FrameId;
use crate::cause::Command;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::port::{FlashPort, Memory, Ticket};
use crate::geometry::{Lpn, SECTOR_BYTES};
use crate::layer::Layer;
use crate::time::Time;

/// The sectors of a set, ascending.
fn sectors_of(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let sector = mask.trailing_zeros() as usize;
        (mask != 0).then(|| {
            mask &= mask - 1;
            sector
        })
    })
}

/// Why a write goes past the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Past {
    /// Everything does; frames get copies.
    Through,
    /// It must be durable before it is acknowledged.
    Durable,
    /// It is long and sequential.
    Sequential,
}

/// Data of an access of the host, on their way between it and frames.
struct Moved<T> {
    /// Not before this.
    arrived: T,
    /// How long it takes.
    span: Time,
    /// Where the buffer moves one page at a time: when it is done, with nothing else to wait for.
    served: Option<T>,
}

impl<T: Ticket> Moved<T> {
    /// When it is over, if the frames are ready at `ready`.
    #[inline(always)]
    fn done<P: FlashPort<Ticket = T>>(&self, flash: &mut Flash<P>, ready: T) -> T {
        let moment = flash.port.join(self.arrived, ready);
        let done = flash.port.delay(moment, self.span);
        self.served.map_or(done, |served| flash.port.join(done, served))
    }
}

impl<T: Ticket> WriteBuffer<T> {
    #[inline(never)]
    pub(super) fn write<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        access: &Access<'_>,
        after: T,
    ) -> FlashResult<T> {
        self.serving = access.group.id;
        if let Some(past) = self.goes_past(access) {
            return self.write_past(flash, below, access, past, after);
        }
        let moved = self.move_data(flash, access.sectors, after);
        let mut done = moved.arrived;
        for index in 0..access.units {
            let (lpn, unit) = (access.lpn_at(index), access.unit(index, self.per_unit));
            let written = self.write_unit(flash, below, lpn, &unit, &moved)?;
            done = flash.port.join(done, written);
        }
        Ok(done)
    }

    /// Move data of an access of the host, of which `sectors` are in frames or come to them.
    #[inline(always)]
    fn move_data<P: FlashPort<Ticket = T>>(&self, flash: &mut Flash<P>, sectors: u32, after: T) -> Moved<T> {
        if let Some(span) = self.page_time(sectors) {
            return Moved { arrived: after, span, served: Some(flash.port.occupy(Memory::Buffer, span)) };
        }
        let bytes = flash.port.memory(Memory::Buffer, sectors * SECTOR_BYTES);
        Moved { arrived: flash.port.join(bytes, after), span: self.access, served: None }
    }

    /// How long the buffer takes for an access of the host, if it moves one at a time.
    fn page_time(&self, sectors: u32) -> Option<Time> {
        self.by_page.map(|speed| self.access + speed.span((sectors * SECTOR_BYTES).into()))
    }

    /// Write what an access touches of a unit, which was `moved`, into a frame. Returns when it is there.
    fn write_unit<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        lpn: Lpn,
        unit: &UnitAccess<'_>,
        moved: &Moved<T>,
    ) -> FlashResult<T> {
        let mask = unit.mask();
        let (frame, ready) = if let Some(frame) = self.frames.find(lpn) {
            self.counts.write_hits += 1;
            self.order.on_hit(self.frames.page(frame), true, self.frames.pages());
            (frame, self.frames.ready(&flash.port, frame))
        } else {
            self.counts.write_misses += 1;
            let (frame, ready) = self.take_frame(flash, below, lpn)?;
            flash.port.count_wait(ready);
            self.frames.enter(frame, lpn);
            self.order.on_insert(self.frames.page(frame), true, self.frames.pages());
            (frame, ready)
        };
        let done = moved.done(flash, ready);
        self.frames.set_ready(&flash.port, frame, done);
        self.frames.written(frame, mask);
        self.put_versions(frame, mask, unit.versions);
        self.note(lpn, mask, || Happened::Written(unit.versions.first().copied().unwrap_or(0)));
        Ok(done)
    }

    /// With verification: the sectors `mask` of a frame have `versions`.
    #[inline]
    fn put_versions(&mut self, frame: FrameId, mask: u64, versions: &[u32]) {
        if !versions.is_empty() {
            let held = self.frames.versions_mut(frame);
            for (sector, version) in sectors_of(mask).zip(versions) {
                held[sector] = *version;
            }
        }
    }

    /// A free frame for `lpn`, which has none, and from when on it may be written. Others leave if it must be.
    fn take_frame<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        lpn: Lpn,
    ) -> FlashResult<(FrameId, T)> {
        if self.frames.free() == 0 {
            let ready = flash.port.ready();
            self.evict(flash, below, lpn, ready)?;
        }
        Ok(self
            .frames
            .take_free(&flash.port)
            .expect("validated: more frames than a block has units, so that others can leave"))
    }

    /// Whether a write goes past the buffer.
    fn goes_past(&mut self, access: &Access<'_>) -> Option<Past> {
        if self.writes_through {
            return Some(Past::Through);
        }
        let is_durable = access.fua && !self.has_capacitor;
        if self.bypass_sectors == 0 {
            return is_durable.then_some(Past::Durable);
        }
        let first = u64::from(access.lpn.0) * u64::from(self.per_unit) + u64::from(access.first_sector);
        let (until, run) = self.writes_until;
        let run = if first == until { run } else { 0 } + u64::from(access.sectors);
        self.writes_until = (first + u64::from(access.sectors), run);
        let rest = u64::from(access.rest) * u64::from(self.per_unit);
        // A layer below may owe a part of a request until its last page: one that has begun to go past does so to its end.
        let goes = self.going_past.unwrap_or(run + rest >= self.bypass_sectors);
        self.going_past = (access.rest > 0).then_some(goes);
        if is_durable { Some(Past::Durable) } else { goes.then_some(Past::Sequential) }
    }

    /// Write to the layer below at once.
    fn write_past<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        access: &Access<'_>,
        past: Past,
        after: T,
    ) -> FlashResult<T> {
        if past != Past::Through {
            self.counts.bypassed_pages += u64::from(access.units);
        }
        let before = self.before_leaving(flash);
        let takes_dirty = past != Past::Through && self.takes_dirty(access, past);
        let takes_more = past != Past::Sequential && (takes_dirty || self.completes(access));
        let copied = if past == Past::Through { self.page_time(access.sectors) } else { None };
        let copied = copied.map(|span| {
            flash.port.begin_page(Command::Program, span, access.group.id);
            flash.port.occupy(Memory::Buffer, span)
        });
        let done = if takes_more {
            self.write_with_older(flash, below, access, after)?
        } else {
            below.write(flash, access, after)?
        };
        flash.port.end_page();
        let in_frames = copied.unwrap_or(after);
        // What had been acknowledged is in no frame any more: a flush waits for what has taken its place. A layer below may owe
        // that until the last page of the request.
        self.takes_place |= takes_dirty;
        if self.takes_place {
            self.displaced = flash.port.join(self.displaced, done);
        }
        self.takes_place &= access.rest > 0;
        for index in 0..access.units {
            let (lpn, unit) = (access.lpn_at(index), access.unit(index, self.per_unit));
            self.note(lpn, unit.mask(), || Happened::Written(unit.versions.first().copied().unwrap_or(0)));
            self.note_left(flash, lpn, unit.mask(), before, done);
            match past {
                Past::Through => self.keep_copy(flash, below, lpn, &unit, in_frames)?,
                Past::Durable => self.made_durable(flash, lpn, &unit, done),
                Past::Sequential => self.drop_sectors(flash, lpn, unit.mask()),
            }
        }
        self.frames.end_cleaning(&mut flash.port, done);
        if access.rest == 0 {
            self.note_end_of_group(flash.nand.changes());
        }
        Ok(copied.map_or(done, |copied| flash.port.join(done, copied)))
    }

    /// Whether dirty sectors leave their frames for an access that goes past the buffer: all of a page, or those that it
    /// overwrites.
    fn takes_dirty(&self, access: &Access<'_>, past: Past) -> bool {
        (0..access.units).any(|index| {
            let mask = match past {
                Past::Sequential => access.unit(index, self.per_unit).mask(),
                Past::Through | Past::Durable => u64::MAX,
            };
            let frame = self.frames.find(access.lpn_at(index));
            frame.is_some_and(|frame| self.frames.dirty(frame) & mask != 0)
        })
    }

    /// Whether frames hold the rest of a unit of which an access writes a part.
    fn completes(&self, access: &Access<'_>) -> bool {
        (0..access.units).any(|index| {
            let mask = access.unit(index, self.per_unit).mask();
            let frame = self.frames.find(access.lpn_at(index));
            frame.is_some_and(|frame| self.frames.completed(frame, mask) != mask)
        })
    }

    /// Write an access to the layer below, and with it what is dirty of its pages, and the rest of a unit that a frame holds.
    #[inline(never)]
    fn write_with_older<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        access: &Access<'_>,
        after: T,
    ) -> FlashResult<T> {
        let (mut after, mut has_older) = (after, false);
        let (mut parts, mut versions) =
            (std::mem::take(&mut self.scratch.parts), std::mem::take(&mut self.scratch.versions));
        parts.clear();
        versions.clear();
        for index in 0..access.units {
            let (lpn, unit) = (access.lpn_at(index), access.unit(index, self.per_unit));
            let new = unit.mask();
            let mut mask = new;
            let frame = self.frames.find(lpn);
            if let Some(frame) = frame {
                mask = self.frames.completed(frame, new | self.frames.dirty(frame));
                after = flash.port.join(after, self.frames.ready(&flash.port, frame));
            }
            has_older |= mask != new;
            add_parts(lpn, mask, &mut parts);
            if !access.versions.is_empty() {
                let mut written = unit.versions.iter().copied();
                let older = frame.map_or(&[][..], |frame| self.frames.versions(frame));
                versions.extend(sectors_of(mask).map(|sector| {
                    if (new >> sector) & 1 == 1 { written.next().unwrap_or(0) } else { older[sector] }
                }));
            }
        }
        if has_older {
            after = flash.after_old_requests(after);
        }
        let all = Access::gathered(&parts, &versions, access).spanning(self.per_unit, 1 << self.page_shift);
        let done = below.write(flash, &all, after);
        (self.scratch.parts, self.scratch.versions) = (parts, versions);
        done
    }

    /// What an access has written of a unit is in flash; a copy stays in the buffer.
    fn keep_copy<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        lpn: Lpn,
        unit: &UnitAccess<'_>,
        after: T,
    ) -> FlashResult<()> {
        let mask = unit.mask();
        let (frame, ready) = if let Some(frame) = self.frames.find(lpn) {
            self.counts.write_hits += 1;
            self.order.on_hit(self.frames.page(frame), false, self.frames.pages());
            (frame, self.frames.ready(&flash.port, frame))
        } else {
            self.counts.write_misses += 1;
            let (frame, ready) = self.take_frame(flash, below, lpn)?;
            self.frames.enter(frame, lpn);
            self.order.on_insert(self.frames.page(frame), false, self.frames.pages());
            (frame, ready)
        };
        let moment = flash.port.join(after, ready);
        self.frames.set_ready(&flash.port, frame, moment);
        self.frames.set_held(frame, self.frames.held(frame) | mask);
        self.put_versions(frame, mask, unit.versions);
        Ok(())
    }

    /// A write and all that was dirty of its page are in flash at `done`.
    fn made_durable<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        lpn: Lpn,
        unit: &UnitAccess<'_>,
        done: T,
    ) {
        let Some(frame) = self.frames.find(lpn) else {
            self.counts.write_misses += 1;
            return;
        };
        self.counts.write_hits += 1;
        let mask = unit.mask();
        self.order.on_hit(self.frames.page(frame), true, self.frames.pages());
        self.frames.set_held(frame, self.frames.held(frame) | mask);
        self.put_versions(frame, mask, unit.versions);
        if self.keeps_reads {
            self.frames.clean(frame);
        } else {
            self.frames.set_dirty(frame, 0);
            self.frames.set_ready(&flash.port, frame, done);
        }
        self.cleaned(flash, frame);
    }

    /// The page of a frame is in flash as it is in the frame.
    fn cleaned<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, frame: FrameId) {
        if self.keeps_reads {
            self.order.on_clean(self.frames.page(frame));
        } else {
            self.dropped(flash, frame);
        }
    }

    /// A page leaves its frame, and nothing is written.
    fn dropped<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, frame: FrameId) {
        self.order.on_leave(self.frames.page(frame), self.frames.pages());
        self.frames.hold(&mut flash.port, frame);
        self.frames.leave(frame);
    }

    /// Newer data of these sectors of a page are in flash.
    fn drop_sectors<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, lpn: Lpn, mask: u64) {
        let Some(frame) = self.frames.find(lpn) else {
            self.counts.write_misses += 1;
            return;
        };
        self.counts.write_hits += 1;
        let (held, dirty) = (self.frames.held(frame) & !mask, self.frames.dirty(frame));
        if held == 0 {
            return self.dropped(flash, frame);
        }
        self.frames.set_held(frame, held);
        self.frames.set_dirty(frame, dirty & !mask);
        if dirty != 0 && dirty & !mask == 0 {
            self.cleaned(flash, frame);
        }
    }

    pub(super) fn trim<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, access: &Access<'_>) {
        self.serving = access.group.id;
        for index in 0..access.units {
            if access.sectors_of(index, self.per_unit) != self.per_unit {
                continue;
            }
            let lpn = access.lpn_at(index);
            self.note(lpn, u64::MAX, || Happened::Trimmed);
            if let Some(frame) = self.frames.find(lpn) {
                self.dropped(flash, frame);
            }
        }
    }

    #[inline(never)]
    pub(super) fn read<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        access: &Access<'_>,
        found: &mut Vec<u32>,
        after: T,
    ) -> FlashResult<T> {
        let mut parts = std::mem::take(&mut self.scratch.missing);
        let mut brought = std::mem::take(&mut self.scratch.brought);
        parts.clear();
        brought.clear();
        let start = found.len();
        let (moment, from_frames) = self.look_up(flash, access, &mut parts, found, after);
        if self.keeps_reads {
            self.make_room(flash, below, &parts)?;
        }
        let mut done = after;
        let span = self.page_time(access.sectors);
        if from_frames > 0 {
            let sectors = if span.is_some() { access.sectors } else { from_frames };
            done = self.move_data(flash, sectors, after).done(flash, moment);
        } else if let Some(span) = span {
            done = flash.port.occupy(Memory::Buffer, span);
        }
        if let Some(span) = span {
            flash.port.begin_page(Command::Read, span, access.group.id);
        }
        let mut read = after;
        if from_frames == 0 {
            read = below.read(flash, access, &mut brought, after)?;
        } else if !parts.is_empty() {
            read = below.read(flash, &Access::gathered(&parts, &[], access), &mut brought, after)?;
        }
        flash.port.end_page();
        if flash.nand.verifies() {
            self.put_found(access, &parts, &brought, &mut found[start..]);
        }
        if self.keeps_reads && !parts.is_empty() {
            self.keep_reads(flash, below, &parts, &brought, read)?;
        }
        (self.scratch.missing, self.scratch.brought) = (parts, brought);
        self.prefetch(flash, below, access, after)?;
        Ok(flash.port.join(done, read))
    }

    /// What of an access is in frames: when it is there, and how many sectors. The rest goes to `parts`. With verification,
    /// the versions go to `found`: of the rest, 0.
    fn look_up<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        parts: &mut Vec<Part>,
        found: &mut Vec<u32>,
        after: T,
    ) -> (T, u32) {
        let (mut moment, mut sectors) = (after, 0);
        for index in 0..access.units {
            let (lpn, unit) = (access.lpn_at(index), access.unit(index, self.per_unit));
            let mask = unit.mask();
            let mut held = 0;
            let frame = self.frames.find(lpn);
            if flash.nand.verifies() {
                self.find_versions(&unit, frame, found);
            }
            if let Some(frame) = frame {
                held = self.frames.held(frame) & mask;
                self.order.on_hit(self.frames.page(frame), false, self.frames.pages());
                moment = if held == 0 {
                    moment
                } else {
                    flash.port.join(moment, self.frames.ready(&flash.port, frame))
                };
            }
            sectors += held.count_ones();
            add_parts(lpn, mask & !held, parts);
            if held == mask {
                self.counts.read_hits += 1;
            } else {
                self.counts.read_misses += 1;
            }
        }
        (moment, sectors)
    }

    /// The versions of what is asked of a unit: those that its frame holds, and 0 of the rest.
    #[inline(never)]
    fn find_versions(&self, unit: &UnitAccess<'_>, frame: Option<FrameId>, found: &mut Vec<u32>) {
        let versions = frame.map_or(&[][..], |frame| self.frames.versions(frame));
        let known = frame.map_or(0, |frame| self.frames.held(frame));
        let of = unit.ranges().flatten();
        found.extend(of.map(|at| if (known >> at) & 1 == 1 { versions[at as usize] } else { 0 }));
    }

    /// Frames for the pages of `parts` that have none: others leave before anything is fetched (the buffer's algorithm in the
    /// paper on channel-aware eviction, and that of the non-volatile cache).
    fn make_room<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        parts: &[Part],
    ) -> FlashResult<()> {
        let Some(first) = parts.first() else { return Ok(()) };
        loop {
            let pages = parts.chunk_by(|one, other| one.lpn == other.lpn);
            let missing = pages.filter(|page| self.frames.find(page[0].lpn).is_none()).count();
            let free = self.frames.free();
            if free >= missing {
                return Ok(());
            }
            let ready = flash.port.ready();
            self.evict(flash, below, first.lpn, ready)?;
            if self.frames.free() == free {
                return Ok(());
            }
        }
    }

    /// With verification: the sectors `parts` of an access were `brought`, and their versions go where `found` has none.
    fn put_found(&self, access: &Access<'_>, parts: &[Part], brought: &[u32], found: &mut [u32]) {
        let missing = parts.iter().flat_map(|part| part.range().map(move |sector| (part.lpn, sector)));
        let mut missing = missing.zip(brought).peekable();
        let mut found = found.iter_mut();
        for index in 0..access.units {
            let (lpn, unit) = (access.lpn_at(index), access.unit(index, self.per_unit));
            for (sector, found) in unit.ranges().flatten().zip(&mut found) {
                if let Some((_, version)) = missing.next_if(|(of, _)| *of == (lpn, sector)) {
                    *found = *version;
                }
            }
        }
    }

    /// Keep the sectors `parts`, which were `brought` from flash and are there at `read`.
    fn keep_reads<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        parts: &[Part],
        brought: &[u32],
        read: T,
    ) -> FlashResult<()> {
        let mut at = 0;
        for unit in parts.chunk_by(|one, other| one.lpn == other.lpn) {
            let mask = unit.iter().fold(0, |mask, part| mask | bits(&part.range()));
            let count = mask.count_ones() as usize;
            let versions = brought.get(at..at + count).unwrap_or_default();
            at += count;
            self.keep_unit(flash, below, unit[0].lpn, mask, versions, read)?;
        }
        Ok(())
    }

    /// Keep sectors of a page, which were read from flash.
    fn keep_unit<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        lpn: Lpn,
        mask: u64,
        versions: &[u32],
        read: T,
    ) -> FlashResult<()> {
        let (frame, ready) = if let Some(frame) = self.frames.find(lpn) {
            (frame, self.frames.ready(&flash.port, frame))
        } else {
            let (frame, ready) = self.take_frame(flash, below, lpn)?;
            self.frames.enter(frame, lpn);
            self.order.on_insert(self.frames.page(frame), false, self.frames.pages());
            (frame, ready)
        };
        let moment = flash.port.join(read, ready);
        self.frames.set_ready(&flash.port, frame, moment);
        self.frames.set_held(frame, self.frames.held(frame) | mask);
        self.put_versions(frame, mask, versions);
        Ok(())
    }

    /// Read ahead of reads that follow each other.
    fn prefetch<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        access: &Access<'_>,
        after: T,
    ) -> FlashResult<()> {
        if self.prefetch_units == 0 || !access.parts.is_empty() {
            return Ok(());
        }
        let first = u64::from(access.lpn.0) * u64::from(self.per_unit) + u64::from(access.first_sector);
        let follows = first == self.reads_until;
        self.reads_until = first + u64::from(access.sectors);
        if !follows || access.rest > 0 {
            return Ok(());
        }
        let start = access.lpn.0 + access.units;
        let end = start.saturating_add(self.prefetch_units).min(self.shape.logical_units);
        let mut parts = std::mem::take(&mut self.scratch.missing);
        let mut brought = std::mem::take(&mut self.scratch.brought);
        let (slots, mut next) = (1 << self.page_shift, start);
        while next < end {
            // What one NAND page can hold is read together.
            let page_end = (next | (slots - 1)).saturating_add(1).min(end);
            parts.clear();
            brought.clear();
            let missing = (next..page_end).map(Lpn).filter(|lpn| self.frames.find(*lpn).is_none());
            parts.extend(missing.map(|lpn| Part { lpn, first_sector: 0, sectors: self.per_unit }));
            next = page_end;
            if parts.is_empty() {
                continue;
            }
            self.make_room(flash, below, &parts)?;
            let ahead = Access::gathered(&parts, &[], access).spanning(self.per_unit, slots);
            let read = below.read(flash, &ahead, &mut brought, after)?;
            self.counts.prefetched_pages += parts.len() as u64;
            self.keep_reads(flash, below, &parts, &brought, read)?;
        }
        (self.scratch.missing, self.scratch.brought) = (parts, brought);
        Ok(())
    }
}
