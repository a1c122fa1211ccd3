//! What the host asks of the cache: reads, writes and trims.

use super::{Nvm, WHOLE};
use crate::access::{Access, Part};
use crate::buffer::order::FrameId;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::port::{FlashPort, Memory, Ticket};
use crate::geometry::{Lpn, SECTOR_BYTES};
use crate::layer::Layer;

impl<T: Ticket> Nvm<T> {
    #[inline(never)]
    pub(super) fn read<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        access: &Access<'_>,
        found: &mut Vec<u32>,
        after: T,
    ) -> FlashResult<T> {
        let mut missing = std::mem::take(&mut self.scratch.missing);
        missing.clear();
        let (mut moment, mut sectors, mut done) = (after, 0, after);
        for index in 0..access.units {
            let (lpn, unit) = (access.lpn_at(index), access.unit(index, self.per_unit));
            let start = found.len() as u32;
            if flash.nand.verifies() {
                found.extend(std::iter::repeat_n(0, unit.sectors as usize));
            }
            if let Some(frame) = self.frames.find(lpn) {
                self.counts.read_hits += 1;
                self.counts.read_hits_clean += u64::from(!self.is_dirty(frame));
                self.order.on_hit(self.frames.page(frame), false, self.frames.pages());
                moment = flash.port.join(moment, self.frames.ready(&flash.port, frame));
                sectors += unit.sectors;
                if flash.nand.verifies() {
                    let held = self.frames.versions(frame);
                    let of = unit.ranges().flatten().map(|sector| held[sector as usize]);
                    found[start as usize..].iter_mut().zip(of).for_each(|(found, held)| *found = held);
                }
            } else {
                self.counts.read_misses += 1;
                if below.copy_of(lpn).is_some() {
                    missing.push((lpn, start));
                } else {
                    self.counts.read_misses_unmapped += 1;
                    let nothing = self.read_nothing(flash, below, access, lpn, after)?;
                    done = flash.port.join(done, nothing);
                }
            }
        }
        if sectors > 0 {
            let moved = flash.port.memory(Memory::Nvm, sectors * SECTOR_BYTES);
            let moment = flash.port.join(moment, moved);
            let read = flash.port.delay(moment, self.read);
            done = flash.port.join(done, read);
        }
        if !missing.is_empty() {
            let read = self.fill(flash, below, access, &missing, found, after)?;
            done = flash.port.join(done, read);
        }
        self.scratch.missing = missing;
        self.fetch_removed(below);
        Ok(done)
    }

    /// Read a page that holds nothing: it is not kept, and costs what the layer below says.
    fn read_nothing<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        access: &Access<'_>,
        lpn: Lpn,
        after: T,
    ) -> FlashResult<T> {
        let mut brought = std::mem::take(&mut self.scratch.brought);
        brought.clear();
        let read = self.read_whole(flash, below, access, std::iter::once(lpn), &mut brought, after);
        self.scratch.brought = brought;
        self.fetch_removed(below);
        read
    }

    /// Bring `missing` pages of a read from flash, whole, and keep them. Returns when the host has what it asked for.
    fn fill<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        access: &Access<'_>,
        missing: &[(Lpn, u32)],
        found: &mut [u32],
        after: T,
    ) -> FlashResult<T> {
        while self.frames.free() < missing.len() {
            self.evict(flash, below, missing[0].0)?;
        }
        let mut brought = std::mem::take(&mut self.scratch.brought);
        brought.clear();
        let read =
            self.read_whole(flash, below, access, missing.iter().map(|page| page.0), &mut brought, after)?;
        for (at, (lpn, start)) in missing.iter().enumerate() {
            let frame = self.free_frame(&flash.port);
            self.enter(frame, *lpn, false);
            self.counts.frame_writes += 1;
            let moment = flash.port.join(self.frames.ready(&flash.port, frame), read);
            self.frames.set_ready(&flash.port, frame, moment);
            if flash.nand.verifies() {
                let per_unit = self.per_unit as usize;
                self.frames.versions_mut(frame).copy_from_slice(&brought[at * per_unit..][..per_unit]);
                let index = (0..access.units).find(|index| access.lpn_at(*index) == *lpn).unwrap_or(0);
                let held = self.frames.versions(frame);
                let wanted = access.unit(index, self.per_unit);
                let of = wanted.ranges().flatten().map(|sector| held[sector as usize]);
                found[*start as usize..].iter_mut().zip(of).for_each(|(found, held)| *found = held);
            }
            self.note_clean(flash, frame, below.copy_of(*lpn), moment);
            if self.cooperates {
                let told = self.message(flash);
                let since = flash.port.join(moment, told);
                below.set_removable(flash, *lpn, true, since);
            }
        }
        self.scratch.brought = brought;
        Ok(read)
    }

    /// Read whole pages from flash, for `access`. Returns when they are here.
    fn read_whole<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        access: &Access<'_>,
        pages: impl Iterator<Item = Lpn>,
        brought: &mut Vec<u32>,
        after: T,
    ) -> FlashResult<T> {
        let mut parts = std::mem::take(&mut self.scratch.parts);
        parts.clear();
        parts.extend(pages.map(|lpn| Part { lpn, first_sector: 0, sectors: self.per_unit }));
        let whole = Access::gathered(&parts, &[], access).spanning(self.per_unit, self.slots);
        let read = below.read(flash, &whole, brought, after);
        self.scratch.parts = parts;
        read
    }

    /// A free frame. When it may be written is known of the frame itself here.
    fn free_frame<P: FlashPort<Ticket = T>>(&mut self, port: &P) -> FrameId {
        self.frames.take_free(port).expect("an eviction frees a frame").0
    }

    #[inline(never)]
    pub(super) fn write<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        access: &Access<'_>,
        after: T,
    ) -> FlashResult<T> {
        let moved = flash.port.memory(Memory::Nvm, access.sectors * SECTOR_BYTES);
        let arrived = flash.port.join(moved, after);
        let mut done = arrived;
        for index in 0..access.units {
            let written = self.write_unit(flash, below, access, index, arrived)?;
            done = flash.port.join(done, written);
        }
        Ok(done)
    }

    /// Write what an access touches of its `index`-th unit, which has `arrived`. Returns when it is durable.
    fn write_unit<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        access: &Access<'_>,
        index: u32,
        arrived: T,
    ) -> FlashResult<T> {
        let (lpn, unit) = (access.lpn_at(index), access.unit(index, self.per_unit));
        let mut arrived = arrived;
        let known = self.frames.find(lpn);
        let copy = below.copy_of(lpn);
        let was_dirty = known.is_some_and(|frame| self.is_dirty(frame));
        let frame = if let Some(frame) = known {
            self.counts.write_hits += 1;
            self.counts.write_hits_clean += u64::from(!was_dirty);
            self.order.on_hit(self.frames.page(frame), true, self.frames.pages());
            frame
        } else {
            self.counts.write_misses += 1;
            self.counts.write_misses_unmapped += u64::from(copy.is_none());
            if self.frames.free() == 0 {
                self.evict(flash, below, lpn)?;
            }
            let mut brought = std::mem::take(&mut self.scratch.brought);
            brought.clear();
            if unit.sectors < self.per_unit && copy.is_some() {
                self.read_modify_writes += 1;
                arrived =
                    self.read_whole(flash, below, access, std::iter::once(lpn), &mut brought, arrived)?;
            }
            let frame = self.free_frame(&flash.port);
            self.enter(frame, lpn, true);
            if flash.nand.verifies() {
                brought.resize(self.per_unit as usize, 0);
                self.frames.versions_mut(frame).copy_from_slice(&brought);
            }
            self.scratch.brought = brought;
            frame
        };
        self.counts.frame_writes += 1;
        let moment = flash.port.join(arrived, self.frames.ready(&flash.port, frame));
        let done = flash.port.delay(moment, self.write);
        self.frames.set_ready(&flash.port, frame, done);
        self.frames.set_dirty(frame, WHOLE);
        self.by_collector.put(frame.0, false);
        if flash.nand.verifies() {
            let held = self.frames.versions_mut(frame);
            for (sector, version) in unit.ranges().flatten().zip(unit.versions) {
                held[sector as usize] = *version;
            }
        }
        self.note_written(flash, frame);
        if self.cooperates && !was_dirty && below.copy_of(lpn).is_some() {
            self.counts.copies_dropped += 1;
            let told = self.message(flash);
            let since = flash.port.join(done, told);
            below.drop_copy(flash, lpn, since)?;
        }
        self.fetch_removed(below);
        Ok(done)
    }

    pub(super) fn trim<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &L,
        access: &Access<'_>,
    ) {
        for index in 0..access.units {
            if access.sectors_of(index, self.per_unit) != self.per_unit {
                continue;
            }
            let lpn = access.lpn_at(index);
            let frame = self.frames.find(lpn);
            let in_flash = below.copy_of(lpn).is_some();
            // What was never written has no older version.
            if frame.is_none() && !in_flash && !self.is_aged_by_trims {
                continue;
            }
            self.put_tombstone(flash, lpn);
            let Some(frame) = frame else {
                self.counts.trimmed_in_flash += u64::from(in_flash);
                continue;
            };
            let dirty = self.is_dirty(frame);
            self.counts.trimmed_dirty += u64::from(dirty);
            self.counts.trimmed_clean += u64::from(!dirty);
            self.order.on_leave(self.frames.page(frame), self.frames.pages());
            self.frames.hold(&mut flash.port, frame);
            self.set_free(flash, frame);
        }
    }
}
