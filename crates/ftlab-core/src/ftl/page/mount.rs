//! After a power cut: what a drive finds out from the spare areas of its flash.

use super::table::UNMAPPED;
use super::translate::unit_of_translation;
use super::{PageFtl, lost};
use crate::cause::Cause;
use crate::config::DeviceConfig;
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::blocks::{Append, Data, MAX_SLOTS, Place};
use crate::ftl::gc::VictimChoice;
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::PlacementChoice;
use crate::ftl::placement::policy::{OpenSlot, Placement};
use crate::geometry::{BlockId, Lpn, PageAt, PlaneId, Ppn};

/// A page of which a backup has what is nowhere else.
struct Saved {
    /// Where it stands.
    plane: PlaneId,
    /// The open block that it goes to.
    slot: OpenSlot,
    /// Backups, and whose.
    units: Vec<(Ppn, Lpn)>,
}

impl<
    V: VictimPolicy<Keys = VictimChoice>,
    L: Placement<Keys = PlacementChoice>,
    T: Ticket,
    const CACHED: bool,
> PageFtl<V, L, T, CACHED>
{
    /// Start again after a power cut, from what flash holds.
    ///
    /// Every programmed page is read, with cause `recovery`. Of several places of a unit, the one has its data that was
    /// written last, whatever was copied later. Pages that the power has torn say nothing. Blocks that were being filled
    /// are filled on. Translation pages are read, and those written again that do not have what is found. Trims are not in
    /// flash: what was trimmed may come back.
    ///
    /// # Errors
    /// When flash does not keep its past, and as a write.
    pub(super) fn mounted<P: FlashPort<Ticket = T>>(
        config: &DeviceConfig,
        seed: u64,
        flash: &mut Flash<P>,
    ) -> FlashResult<Self> {
        if !flash.nand.keeps_past() {
            let text = "a mount needs the order in which pages were programmed, which flash keeps when it was asked to";
            return Err(Box::new(RunError::Rule(text.into())));
        }
        flash.forget(config);
        let geometry = flash.geometry().clone();
        let mut new = Self::new(config, &geometry, seed, true, &flash.interrupt);
        flash.check_interrupt()?;
        new.table = new.table.with_port(&flash.port);
        let backups = new.find_data(flash)?;
        let planes = (0..new.geometry.planes()).map(PlaneId);
        let extra: Vec<Vec<BlockId>> = planes.clone().map(|plane| new.find_blocks(flash, plane)).collect();
        // Before anything else is programmed: that may need backup blocks, too.
        let restored = new.restore(flash, &backups)?;
        for (plane, extra) in planes.zip(extra) {
            new.complete_blocks(flash, plane, extra)?;
        }
        new.find_table(flash)?;
        new.settle(flash)?;
        flash.forget_backups(restored)?;
        Ok(new)
    }

    /// Write again what stands in backup blocks only. Returns when that is durable.
    fn restore<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, backups: &[Ppn]) -> FlashResult<T> {
        let mut restored = flash.port.ready();
        let mut needed: Vec<Saved> = Vec::new();
        for page in
            backups.chunk_by(|one, other| self.geometry.page_of(*one) == self.geometry.page_of(*other))
        {
            let mut units = Vec::new();
            for backup in page {
                let lpn = flash.nand.lpn(*backup).ok_or_else(|| lost(*backup))?;
                let is_newer = |known: Ppn| flash.nand.age(known).0 >= flash.nand.age(*backup).0;
                if self.lookup(lpn).is_some_and(is_newer) {
                    continue;
                }
                // Of several backups, the newest.
                let other = needed.iter_mut().find_map(|saved| {
                    let at = saved.units.iter().position(|unit| unit.1 == lpn)?;
                    Some((&mut saved.units, at))
                });
                if let Some((others, at)) = other {
                    if flash.nand.age(others[at].0) >= flash.nand.age(*backup) {
                        continue;
                    }
                    others.remove(at);
                }
                units.push((*backup, lpn));
            }
            let is_table = units.first().is_some_and(|unit| unit.1.0 >= self.geometry.logical_units);
            let slot = if is_table { self.map_slot() } else { self.placement.copy_slot() };
            needed.push(Saved {
                plane: self.geometry.plane_of(self.geometry.block_of(page[0])),
                slot,
                units,
            });
        }
        needed.retain(|saved| !saved.units.is_empty());
        // By plane and slot, so that few blocks are taken.
        needed.sort_by_key(|saved| (saved.plane, saved.slot));
        let mut blocks: Vec<BlockId> =
            needed.iter().map(|saved| self.geometry.block_of(saved.units[0].0)).collect();
        blocks.dedup();
        flash.set_backups_apart(&blocks)?;
        let writer = flash.begin_internal();
        for pages in needed.chunk_by(|one, other| (one.plane, one.slot) == (other.plane, other.slot)) {
            let done = self.restore_pages(flash, pages, &blocks)?;
            restored = flash.port.join(restored, done);
        }
        flash.end_internal(writer);
        Ok(restored)
    }

    /// Write pages of one plane and slot again from their backups, which stand in the blocks `needed`. A backup on the way
    /// that has to stand beside theirs could take them with it, torn. Then they go where nothing is endangered but
    /// themselves, or into an erased block, if there is one.
    fn restore_pages<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        pages: &[Saved],
        needed: &[BlockId],
    ) -> FlashResult<T> {
        let (home, slot) = (pages[0].plane, pages[0].slot);
        // With the summary page of a block that they fill.
        let count = pages.len() as u32 + 1;
        let planes = self.geometry.planes();
        let mut turns = (0..planes).map(|step| PlaneId((home.0 + step) % planes));
        let opened = turns.find_map(|plane| {
            let open = self.blocks.opened(plane, slot);
            let is_unsafe = |block: &BlockId| {
                !flash.backs_up_apart(needed, *block, count) && flash.endangers_live(*block, count)
            };
            let waiting = open.filter(is_unsafe);
            if waiting.is_some() {
                self.blocks.set_opened(plane, slot, None);
            }
            let block = self.open_block(&mut flash.nand, plane, slot, 0);
            if block.is_none() && waiting.is_some() {
                self.blocks.set_opened(plane, slot, waiting);
                return Some((plane, None));
            }
            block.map(|_| (plane, waiting))
        });
        let Some((plane, waiting)) = opened else {
            return Err(self.full(home, "what was saved by a backup"));
        };
        let mut restored = flash.port.ready();
        for saved in pages {
            let Some(block) = self.open_block(&mut flash.nand, plane, slot, 0) else {
                return Err(self.full(plane, "what was saved by a backup"));
            };
            let page = self.geometry.page_of(saved.units[0].0);
            let ready = flash.port.ready();
            let sectors = self.geometry.sectors_per_unit * saved.units.len() as u32;
            let read = flash.read(page, sectors, Cause::Recovery, ready)?;
            let mut units = [Lpn(0); MAX_SLOTS];
            let mut old = [None; MAX_SLOTS];
            for (at, (backup, lpn)) in saved.units.iter().enumerate() {
                // An older version that was found is stale.
                if let Some(known) = self.lookup(*lpn) {
                    self.blocks.invalidate(flash, known)?;
                }
                flash.nand.revive(*backup);
                (units[at], old[at]) = (*lpn, Some(*backup));
            }
            let (units, old) = (&units[..saved.units.len()], &old[..saved.units.len()]);
            let data = Data::Copies { victim: Some(page.block), copyback: None };
            let place = Place { plane, slot, block };
            let append = Append { place, units, old, data, cause: Cause::Recovery };
            let done = self.blocks.append(flash, &append, &mut self.table.map, read, |_, _, _| {})?;
            restored = flash.port.join(restored, done);
        }
        if let Some(waiting) = waiting
            && let Some(block) = self.blocks.set_opened(plane, slot, Some(waiting))
        {
            self.blocks.pad(flash, block, Cause::Recovery)?;
        }
        Ok(restored)
    }

    /// What translation pages hold, and which of them do not say what was found.
    fn find_table<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        let Some(translation) = &mut self.table.translation else { return Ok(()) };
        let ready = flash.port.ready();
        let sectors = self.geometry.sectors_per_unit * self.geometry.slots_per_page;
        for tpn in 0..translation.layout.all_pages() {
            let entry = self.table.map[unit_of_translation(&self.geometry, tpn).index()];
            if entry == UNMAPPED {
                continue;
            }
            flash.check_interrupt()?;
            flash.read(self.geometry.page_of(Ppn(entry)), sectors, Cause::Recovery, ready)?;
            if let Some(entries) = flash.nand.table_at(Ppn(entry)) {
                translation.found(tpn, entries);
            }
        }
        translation.find_outdated(&self.table.map[..self.geometry.logical_units as usize]);
        Ok(())
    }

    /// Where every unit is, by the spare areas. Returns the backups.
    fn find_data<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> FlashResult<Vec<Ppn>> {
        let ready = flash.port.ready();
        let mut backups = Vec::new();
        flash.nand.forget_validity();
        for block in (0..self.geometry.blocks()).map(BlockId) {
            flash.check_interrupt()?;
            for index in 0..flash.nand.next_page(block) {
                let page = PageAt { block, index };
                if flash.nand.is_skipped(page) {
                    continue;
                }
                flash.read(page, 0, Cause::Recovery, ready)?;
                let first = self.geometry.unit(page).0;
                for ppn in (first..first + self.geometry.slots_per_page).map(Ppn) {
                    let Some(lpn) = flash.nand.lpn(ppn) else { continue };
                    if self.geometry.is_for_backups(block) {
                        backups.push(ppn);
                        continue;
                    }
                    if CACHED && lpn.0 >= self.geometry.logical_units {
                        self.map_blocks[block.index()] = true;
                    }
                    let known = self.lookup(lpn);
                    if known.is_none_or(|known| flash.nand.age(known) < flash.nand.age(ppn)) {
                        self.table.map[lpn.index()] = ppn.0;
                    }
                }
            }
        }
        for entry in self.table.map.iter().filter(|entry| **entry != UNMAPPED) {
            flash.nand.revive(Ppn(*entry));
        }
        Ok(backups)
    }

    /// Which blocks of `plane` are free, full, and being filled. Returns those that are being filled and have no place.
    fn find_blocks<P: FlashPort<Ticket = T>>(&mut self, flash: &Flash<P>, plane: PlaneId) -> Vec<BlockId> {
        self.blocks.forget_free(plane);
        let data_slots = self.blocks.slots() - usize::from(CACHED);
        let mut filling = Vec::new();
        for (row, block) in (0..).zip(self.geometry.data_blocks(plane)) {
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
        extra
    }

    /// Fill the blocks of `plane` that have no place, and let it have a free one.
    fn complete_blocks<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        extra: Vec<BlockId>,
    ) -> FlashResult<()> {
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

    /// The power went while the last free block of `plane` was taking copies. What was left of their victim fits there
    /// still, or the copies are given up: the victim has all of them.
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
        let blocks = self.geometry.data_blocks(plane);
        let victim = blocks.filter(fits).min_by_key(|block| flash.nand.valid_units(*block));
        if let Some((victim, slot)) = victim.map(|victim| (victim, slot_for(victim))) {
            self.blocks.victims.remove(victim, flash.nand.valid_units(victim));
            return self.empty_block(flash, plane, victim, slot, Cause::Recovery);
        }
        let mut blocks = self.geometry.data_blocks(plane);
        let copies = blocks.find_map(|block| Some((block, self.sources(&flash.nand, block)?)));
        let Some((block, sources)) = copies else { return Ok(()) };
        let slot = (0..self.blocks.slots()).find(|slot| self.blocks.opened(plane, *slot) == Some(block));
        match slot {
            Some(slot) => _ = self.blocks.set_opened(plane, slot, None),
            None => self.blocks.victims.remove(block, flash.nand.valid_units(block)),
        }
        for (copy, source) in sources {
            let lpn = flash.nand.lpn(copy).ok_or_else(|| lost(copy))?;
            flash.nand.invalidate(copy)?;
            self.table.map[lpn.index()] = source.0;
            let home = self.geometry.block_of(source);
            let before = flash.nand.valid_units(home);
            flash.nand.revive(source);
            if self.blocks.is_full(&flash.nand, home) {
                self.blocks.victims.remove(home, before);
                self.blocks.victims.on_seal(home, before + 1);
            }
        }
        let ready = flash.port.ready();
        self.blocks.erase(flash, block, Cause::Recovery, ready)
    }

    /// For each live unit of `block`, another place that has the same data; `None` unless all have one.
    fn sources(&self, nand: &NandArray, block: BlockId) -> Option<Vec<(Ppn, Ppn)>> {
        let mut live = Vec::new();
        nand.collect_valid(block, &mut live, |_| {});
        let plane = self.geometry.plane_of(block);
        let others = self.geometry.data_blocks(plane);
        let others: Vec<BlockId> = others.filter(|other| *other != block).collect();
        let same = |copy: Ppn, ppn: Ppn| {
            nand.lpn(ppn) == nand.lpn(copy)
                && nand.age(ppn).0 == nand.age(copy).0
                && nand.is_written(self.geometry.page_of(ppn))
        };
        let source_of = |copy: Ppn| {
            others.iter().find_map(|other| {
                let first = self.geometry.first_unit(*other).0;
                (first..first + self.geometry.units_per_block()).map(Ppn).find(|ppn| same(copy, *ppn))
            })
        };
        live.iter().map(|copy| Some((*copy, source_of(*copy)?))).collect()
    }
}
