//! After a power cut: what a drive finds out from the spare areas of its flash.

use super::PageFtl;
use super::table::{PageTable, UNMAPPED};
use crate::cause::Cause;
use crate::config::DeviceConfig;
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::gc::VictimChoice;
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::PlacementChoice;
use crate::ftl::placement::policy::{OpenSlot, Placement};
use crate::geometry::{BlockId, PageAt, PlaneId, Ppn};

impl<
    V: VictimPolicy<Keys = VictimChoice>,
    L: Placement<Keys = PlacementChoice>,
    T: Ticket,
    const CACHED: bool,
> PageFtl<V, L, T, CACHED>
{
    /// Start again after a power cut, from what flash holds. `self` is what was in memory. Only its configuration is
    /// used, and what translation pages hold, which is kept there instead of in the array.
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
        let mut new = Self::new(config, &self.geometry, seed, true, &flash.interrupt);
        flash.check_interrupt()?;
        new.table = new.table.with_port(&flash.port);
        if let (Some(new), Some(old)) = (&mut new.table.translation, self.table.translation) {
            new.inherit(old);
        }
        new.find_data(flash)?;
        for plane in (0..new.geometry.planes()).map(PlaneId) {
            new.find_blocks(flash, plane)?;
        }
        let PageTable { map, translation, .. } = &mut new.table;
        if let Some(translation) = translation {
            translation.find_outdated(&map[..new.geometry.logical_units as usize]);
        }
        new.settle(flash)?;
        Ok(new)
    }

    /// Where every unit is, by the spare areas.
    fn find_data<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        let ready = flash.port.ready();
        flash.nand.forget_validity();
        for block in (0..self.geometry.blocks()).map(BlockId) {
            flash.check_interrupt()?;
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
                        self.table.map[lpn.index()] = ppn.0;
                    }
                }
            }
        }
        for entry in self.table.map.iter().filter(|entry| **entry != UNMAPPED) {
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
        self.blocks.forget_free(plane);
        let data_slots = self.blocks.slots() - usize::from(CACHED);
        let mut filling = Vec::new();
        for row in 0..self.geometry.blocks_per_plane() {
            let block = self.geometry.block(plane, row);
            if flash.nand.next_page(block) == 0 {
                self.blocks.found_free(&flash.nand, plane, row);
            } else if self.blocks.is_full(&flash.nand, block) {
                self.blocks.victims.on_seal(block, flash.nand.valid_units(block));
            } else {
                filling.push(block);
            }
        }
        // The emptiest takes copies: what the power left of a victim may fit nowhere else.
        filling.sort_by_key(|block| flash.nand.next_page(*block));
        let mut extra = Vec::new();
        for block in filling {
            let is_free = |slot: &OpenSlot| self.blocks.opened(plane, *slot).is_none();
            let slot = if self.holds_translation(block) {
                Some(self.map_slot()).filter(is_free)
            } else {
                std::iter::once(self.placement.copy_slot()).chain((0..data_slots).rev()).find(is_free)
            };
            match slot {
                Some(slot) => _ = self.blocks.set_opened(plane, slot, Some(block)),
                None => extra.push(block),
            }
        }
        // Wear levelling may have had one more than there are places for.
        for block in extra {
            self.blocks.pad(flash, block, Cause::Recovery)?;
        }
        if self.blocks.free(plane) == 0 {
            self.finish_collection(flash, plane)?;
        }
        self.blocks.note_if_low(plane);
        let (open, free) = (self.blocks.opened(plane, 0), self.blocks.free(plane));
        self.placement.found(&flash.nand, plane, open, free);
        Ok(())
    }

    /// The power went while the last free block of `plane` was taking copies: what was left of their victim fits there still.
    fn finish_collection<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
    ) -> FlashResult<()> {
        let pages = |valid: u32| valid.div_ceil(self.geometry.slots_per_page);
        let slot_for = |block: BlockId| {
            if self.holds_translation(block) { self.map_slot() } else { self.placement.copy_slot() }
        };
        let fits = |block: &BlockId| {
            let valid = flash.nand.valid_units(*block);
            let left = self.blocks.pages_left(&flash.nand, plane, slot_for(*block));
            self.blocks.is_full(&flash.nand, *block) && pages(valid) <= left
        };
        let blocks = (0..self.geometry.blocks_per_plane()).map(|row| self.geometry.block(plane, row));
        let victim = blocks.filter(fits).min_by_key(|block| flash.nand.valid_units(*block));
        if let Some((victim, slot)) = victim.map(|victim| (victim, slot_for(victim))) {
            self.blocks.victims.remove(victim, flash.nand.valid_units(victim));
            self.empty_block(flash, plane, victim, slot, Cause::Recovery)?;
        }
        Ok(())
    }
}
