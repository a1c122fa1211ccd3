//! After a power cut: what a drive finds out from the spare areas of its flash.

use super::{PageFtl, UNMAPPED};
use crate::cause::Cause;
use crate::config::{DeviceConfig, PlaneChoice};
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::allocator::OpenSlot;
use crate::ftl::gc::VictimChoice;
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, PageAt, PlaneId, Ppn};

impl<V: VictimPolicy<Keys = VictimChoice>, T: Ticket, const CACHED: bool> PageFtl<V, T, CACHED> {
    /// Start again after a power cut, from what flash holds: `self` is what was in memory, of which only the configuration
    /// is used (and what translation pages hold, which is kept there instead of in the array).
    ///
    /// The spare area of every programmed page is read, with cause `recovery`; of several pages of a unit, the one that was
    /// programmed last has its data. Blocks that were being filled are filled on. Translation pages that do not have what
    /// is found are written again. Trims are not in flash: what was trimmed may come back.
    ///
    /// # Errors
    /// When flash was made without verification, and so does not know in which order it was programmed; and as a write.
    pub(super) fn mounted<P: FlashPort<Ticket = T>>(
        self,
        config: &DeviceConfig,
        seed: u64,
        flash: &mut Flash<P>,
    ) -> FlashResult<Self> {
        if !flash.nand.verifies() {
            let text = "a mount needs the order in which pages were programmed, which flash keeps with verification only";
            return Err(Box::new(RunError::Rule(text.into())));
        }
        let mut new = Self::new(config, &self.geometry, seed, true);
        if let (Some(new), Some(old)) = (&mut new.translation, self.translation) {
            new.inherit(old);
        }
        new.find_data(flash)?;
        for plane in (0..new.geometry.planes()).map(PlaneId) {
            new.find_blocks(flash, plane)?;
        }
        let Self { translation, map, geometry, .. } = &mut new;
        if let Some(translation) = translation {
            translation.find_outdated(&map[..geometry.logical_units as usize]);
        }
        new.settle(flash)?;
        Ok(new)
    }

    /// Where every unit is, by the spare areas.
    fn find_data<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        let ready = flash.port.ready();
        flash.nand.forget_validity();
        for block in (0..self.geometry.blocks()).map(BlockId) {
            for index in 0..flash.nand.next_page(block) {
                let page = PageAt { block, index };
                if !flash.nand.is_written(page) {
                    continue;
                }
                flash.read(page, 0, Cause::Recovery, ready)?;
                let first = self.geometry.unit(page).0;
                for ppn in (first..first + self.geometry.slots_per_page).map(Ppn) {
                    let Some(lpn) = flash.nand.lpn(ppn) else { continue };
                    if CACHED && lpn.0 >= self.geometry.logical_units {
                        self.map_blocks[block.index()] = true;
                    }
                    let known = self.lookup(lpn);
                    if known.is_none_or(|known| flash.nand.order(known) < flash.nand.order(ppn)) {
                        self.map[lpn.index()] = ppn.0;
                    }
                }
            }
        }
        for entry in self.map.iter().filter(|entry| **entry != UNMAPPED) {
            flash.nand.revive(Ppn(*entry));
        }
        Ok(())
    }

    /// Which blocks of `plane` are free, full, and being filled.
    fn find_blocks<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
    ) -> FlashResult<()> {
        while self.planes[plane.index()].free.take().is_some() {}
        let mut extra = Vec::new();
        for row in 0..self.geometry.blocks_per_plane() {
            let block = self.geometry.block(plane, row);
            if flash.nand.next_page(block) == 0 {
                self.planes[plane.index()].free.give(row, flash.nand.erases(block));
            } else if self.is_full(&flash.nand, block) {
                self.victims.on_seal(block, flash.nand.valid_units(block));
            } else {
                // That for copies first: copies need a place before anything else does.
                let open = &self.planes[plane.index()].open;
                let data_slots = open.len() - usize::from(CACHED);
                let is_free = |slot: &OpenSlot| open[*slot].is_none();
                let slot = if self.holds_translation(block) {
                    Some(self.map_slot()).filter(is_free)
                } else {
                    std::iter::once(self.gc_slot).chain((0..data_slots).rev()).find(is_free)
                };
                match slot {
                    Some(slot) => self.planes[plane.index()].open[slot] = Some(block),
                    None => extra.push(block),
                }
            }
        }
        // Wear levelling may have had one more than there are places for.
        for block in extra {
            self.pad(flash, block, Cause::Recovery)?;
        }
        if self.planes[plane.index()].free.is_empty() {
            self.finish_collection(flash, plane)?;
        }
        let die = self.geometry.die_of(plane);
        if self.planes[plane.index()].free.len() <= self.config.gc_low_free_blocks {
            self.dies[die.index()].low |= 1 << (plane.0 - self.geometry.first_plane(die).0);
        }
        if let Some(block) = self.planes[plane.index()].open[0] {
            let room = &mut self.rooms[plane.index()];
            (room.newest, room.opened) = (block.0, flash.nand.sequence(block));
        }
        self.measure_room(&flash.nand, plane);
        if self.config.plane_choice == PlaneChoice::MostFree {
            self.compare_rooms(die, self.geometry.first_plane(die));
        }
        Ok(())
    }

    /// The power went while the last free block of `plane` was taking copies: what was left of their victim fits there still.
    fn finish_collection<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
    ) -> FlashResult<()> {
        let pages = |valid: u32| valid.div_ceil(self.geometry.slots_per_page);
        let slot_for =
            |block: BlockId| if self.holds_translation(block) { self.map_slot() } else { self.gc_slot };
        let fits = |block: &BlockId| {
            let valid = flash.nand.valid_units(*block);
            let room = self.planes[plane.index()].open[slot_for(*block)]
                .map_or(0, |open| self.geometry.data_pages_per_block - flash.nand.next_page(open));
            self.is_full(&flash.nand, *block) && pages(valid) <= room
        };
        let blocks = (0..self.geometry.blocks_per_plane()).map(|row| self.geometry.block(plane, row));
        let victim = blocks.filter(fits).min_by_key(|block| flash.nand.valid_units(*block));
        if let Some((victim, slot)) = victim.map(|victim| (victim, slot_for(victim))) {
            self.victims.remove(victim, flash.nand.valid_units(victim));
            self.empty_block(flash, plane, victim, slot, Cause::Recovery)?;
        }
        Ok(())
    }
}
