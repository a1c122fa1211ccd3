//! After a power cut: what a drive finds out from the spare areas of its flash.

use std::collections::BTreeMap;

use super::PageFtl;
use super::stale::Stale;
use super::table::PageTable;
use super::translate::{holds_translation, unit_of_translation};
use crate::cause::Cause;
use crate::config::DeviceConfig;
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::pairs::newest_of_torn;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::blocks::{Append, Data, Place};
use crate::ftl::gc::VictimChoice;
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::PlacementChoice;
use crate::ftl::placement::policy::{OpenSlot, Placement};
use crate::geometry::{BlockId, Lpn, PageAt, PageId, PlaneId, Ppn};
use crate::layer::Newer;

/// A torn page of which a backup has what is nowhere else.
struct Saved {
    /// The page that was torn.
    home: PageAt,
    /// Where its backup stands.
    backup: PageAt,
    /// Those of its units that are needed.
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
    /// are filled on. What a cache above has is not rescued from backups. Translation pages are read, and those written again that do not have what is found. Trims that are not in
    /// the journal are gone: what was trimmed may come back.
    ///
    /// # Errors
    /// When flash does not keep its past, and as a write.
    pub(super) fn mounted<P: FlashPort<Ticket = T>>(
        config: &DeviceConfig,
        seed: u64,
        flash: &mut Flash<P>,
        newer: &[Newer],
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
        let mut stale = Stale::default();
        if let Some(journal) = &mut new.journal {
            (stale.trimmed, stale.given_up) = journal.read(flash)?;
        }
        stale.cache_has(&geometry, newer);
        let backups = new.find_data(flash, &mut stale)?;
        let backups = newest_of_torn(&flash.nand, &backups);
        if new.erase_copies(flash, &backups, &stale)? {
            // With a free block in each plane, from the beginning.
            return Self::mounted(config, seed, flash, newer);
        }
        let planes = (0..new.geometry.planes()).map(PlaneId);
        let mut extra: Vec<Vec<BlockId>> =
            planes.clone().map(|plane| new.find_blocks(flash, plane)).collect();
        // Before anything else is programmed: that may need backup blocks, too.
        let restored = new.restore(flash, &backups, &stale, &mut extra)?;
        flash.forget_backups(restored)?;
        for (plane, extra) in planes.zip(extra) {
            new.complete_blocks(flash, plane, extra)?;
        }
        new.find_table(flash)?;
        new.settle(flash)?;
        new.bury_torn(flash, &stale)?;
        Ok(new)
    }

    /// Let every plane have a free block. Says whether one had none.
    ///
    /// Nothing but copies takes the last free block of a plane: of a victim, or of what an earlier mount has rescued. Either
    /// what they are of still stands where it was, and they are given up; or the power has torn its erase, which is done again.
    fn erase_copies<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        backups: &BTreeMap<PageId, PageId>,
        stale: &Stale,
    ) -> FlashResult<bool> {
        let nand = &flash.nand;
        let mut copies = Vec::new();
        for plane in (0..self.geometry.planes()).map(PlaneId) {
            let mut blocks = self.geometry.data_blocks(plane);
            if blocks.clone().any(|block| nand.next_page(block) == 0) {
                continue;
            }
            // Where the last backup is of, the power has torn what only that has.
            let needed = backups.iter().filter(|(home, backup)| {
                let (home, backup) = (self.geometry.page_at(**home), self.geometry.page_at(**backup));
                self.geometry.plane_of(home.block) == plane && !self.needed_of(nand, backup, stale).is_empty()
            });
            let last = needed
                .max_by_key(|(_, backup)| nand.age(self.geometry.unit(self.geometry.page_at(**backup))).1);
            let torn = last.map(|(home, _)| self.geometry.page_at(*home).block);
            let mut others = blocks.clone().filter(|block| Some(*block) != torn);
            let given_up = others.find(|block| self.has_copies_only(nand, *block, backups));
            let is_torn = |block: &BlockId| {
                let mut pages = 0..self.geometry.pages_per_block();
                pages.all(|index| nand.is_torn(PageAt { block: *block, index }))
            };
            // Where that leaves nothing, the backup is of a unit that was trimmed since.
            let outlived = || torn.filter(|block| self.has_copies_only(nand, *block, backups));
            copies.extend(given_up.or_else(|| blocks.find(is_torn)).or_else(outlived));
        }
        if copies.is_empty() {
            return Ok(false);
        }
        flash.nand.forget_validity();
        let ready = flash.port.ready();
        for block in copies {
            flash.erase(block, Cause::Recovery, ready)?;
        }
        Ok(true)
    }

    /// Whether for each live unit of `block`, another place in its plane has the same data, or the backup of a torn page.
    fn has_copies_only(&self, nand: &NandArray, block: BlockId, backups: &BTreeMap<PageId, PageId>) -> bool {
        let mut live = nand.valid_of(block);
        let others = self.geometry.data_blocks(self.geometry.plane_of(block));
        let others: Vec<BlockId> = others.filter(|other| *other != block).collect();
        let pages = |block: BlockId| {
            (0..nand.next_page(block))
                .map(move |index| PageAt { block, index })
                .filter(|page| nand.is_written(*page))
        };
        live.all(|copy| {
            let same = |ppn: Ppn| nand.lpn(ppn) == nand.lpn(copy) && nand.age(ppn).0 == nand.age(copy).0;
            let has_it = |page: PageAt| {
                let first = self.geometry.unit(page).0;
                (first..first + self.geometry.slots_per_page).map(Ppn).any(same)
            };
            others.iter().flat_map(|block| pages(*block)).any(has_it)
                || backups.values().any(|backup| has_it(self.geometry.page_at(*backup)))
        })
    }

    /// Rescue what stands in backup blocks only. Returns when that is durable.
    ///
    /// The block in which the power has torn a program is emptied into a free one, together with what the backups have of it,
    /// and erased. All of that stands elsewhere meanwhile, and nothing else is in the free block. So no program needs a
    /// backup. When the power goes again, the copies are given up.
    fn restore<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        backups: &BTreeMap<PageId, PageId>,
        stale: &Stale,
        extra: &mut [Vec<BlockId>],
    ) -> FlashResult<T> {
        let mut needed = Vec::new();
        for (home, backup) in backups {
            let (home, backup) = (self.geometry.page_at(*home), self.geometry.page_at(*backup));
            needed.push(Saved { home, backup, units: self.needed_of(&flash.nand, backup, stale) });
        }
        let mut newest: Vec<(Lpn, u32, Ppn)> = needed
            .iter()
            .flat_map(|saved| &saved.units)
            .map(|(backup, lpn)| (*lpn, flash.nand.age(*backup).0, *backup))
            .collect();
        keep_newest(&mut newest);
        for saved in &mut needed {
            saved.units.retain(|(backup, _)| newest.iter().any(|newest| newest.2 == *backup));
        }
        needed.retain(|saved| !saved.units.is_empty());
        let mut restored = flash.port.ready();
        let writer = flash.begin_internal();
        flash.set_restoring(true);
        for saved in needed.chunk_by(|one, other| one.home.block == other.home.block) {
            let plane = self.geometry.plane_of(saved[0].home.block);
            let done = self.rescue(flash, saved, &mut extra[plane.index()])?;
            restored = flash.port.join(restored, done);
        }
        flash.set_restoring(false);
        flash.end_internal(writer);
        Ok(restored)
    }

    /// The units of a backup that are found nowhere else.
    fn needed_of(&self, nand: &NandArray, backup: PageAt, stale: &Stale) -> Vec<(Ppn, Lpn)> {
        let first = self.geometry.unit(backup).0;
        let units = (first..first + self.geometry.slots_per_page).map(Ppn);
        let units = units.filter_map(|ppn| Some((ppn, nand.lpn(ppn)?)));
        let is_newest = |(ppn, lpn): &(Ppn, Lpn)| {
            self.lookup(*lpn).is_none_or(|known| nand.age(known).0 < nand.age(*ppn).0)
                && !stale.has(nand, *ppn, *lpn)
                && !stale.is_cached(nand, *ppn, *lpn)
        };
        units.filter(is_newest).collect()
    }

    /// Empty the block in which the pages `saved` were torn into a free one, together with their backups.
    fn rescue<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        saved: &[Saved],
        extra: &mut Vec<BlockId>,
    ) -> FlashResult<T> {
        let torn = saved[0].home.block;
        let plane = self.geometry.plane_of(torn);
        let is_table = saved[0].units[0].1.0 >= self.geometry.logical_units;
        let slot = if is_table { self.map_slot() } else { self.standing.copy_slot };
        if self.blocks.is_full(&flash.nand, torn) {
            self.blocks.victims.remove(torn, flash.nand.valid_units(torn));
        }
        for (backup, lpn) in saved.iter().flat_map(|saved| &saved.units) {
            // An older version that was found is stale.
            if let Some(known) = self.lookup(*lpn) {
                if self.geometry.block_of(known) == torn {
                    flash.invalidate(known)?;
                } else {
                    self.blocks.invalidate(flash, known)?;
                }
            }
            flash.nand.revive(*backup);
            self.table.map.set(*lpn, *backup);
        }
        let home = (0..self.blocks.slots()).find(|slot| self.blocks.opened(plane, *slot) == Some(torn));
        if let Some(home) = home {
            self.blocks.set_opened(plane, home, None);
        }
        let waiting = self.blocks.set_opened(plane, slot, None);
        let mut survivors = Vec::new();
        flash.nand.collect_valid(torn, &mut survivors, |_| {});
        let mut restored = self.copy_units(flash, plane, slot, &survivors, false, Cause::Recovery)?;
        for saved in saved {
            let Some(block) = self.open_block(&mut flash.nand, plane, slot, 0) else {
                return Err(self.full(plane, "what was saved by a backup"));
            };
            let ready = flash.port.ready();
            let sectors = self.geometry.sectors_per_unit * saved.units.len() as u32;
            let read = flash.read(saved.backup, sectors, Cause::Recovery, ready)?;
            let units: Vec<Lpn> = saved.units.iter().map(|(_, lpn)| *lpn).collect();
            let old: Vec<Option<Ppn>> = saved.units.iter().map(|(backup, _)| Some(*backup)).collect();
            let append = Append {
                place: Place { plane, slot, block },
                units: &units,
                old: &old,
                keeps_old: false,
                data: Data::Copies { victim: Some(saved.backup.block), copyback: None },
                cause: Cause::Recovery,
            };
            let done = self.blocks.append(flash, &append, &mut self.table.map, read, |_, _, _| {})?;
            restored = flash.port.join(restored, done);
        }
        let rescued = self.blocks.set_opened(plane, slot, waiting);
        // In the place of the torn one, unless that is full.
        extra.retain(|block| *block != torn);
        match (home, rescued) {
            (Some(home), Some(_)) => _ = self.blocks.set_opened(plane, home, rescued),
            (None, Some(rescued)) => extra.push(rescued),
            (_, None) => {}
        }
        self.blocks.erase(flash, torn, Cause::Recovery, restored)?;
        Ok(restored)
    }

    /// What translation pages hold, and which of them do not say what was found.
    fn find_table<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        let Some(translation) = &mut self.table.translation else { return Ok(()) };
        let ready = flash.port.ready();
        let sectors = self.geometry.sectors_per_unit * self.geometry.slots_per_page;
        for tpn in 0..translation.layout.all_pages() {
            let Some(ppn) = self.table.map.get(unit_of_translation(&self.geometry, tpn)) else { continue };
            flash.check_interrupt()?;
            flash.read(self.geometry.page_of(ppn), sectors, Cause::Recovery, ready)?;
            if let Some(entries) = flash.nand.table_at(ppn) {
                translation.found(tpn, entries);
            }
        }
        translation.find_outdated(PageTable::<T, CACHED>::logical(&self.table.map, &self.geometry));
        Ok(())
    }

    /// Where every unit is, by the spare areas. Returns the backups.
    fn find_data<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        stale: &mut Stale,
    ) -> FlashResult<Vec<Ppn>> {
        let ready = flash.port.ready();
        let (mut backups, mut grouped) = (Vec::new(), Vec::new());
        flash.nand.forget_validity();
        let planes = (0..self.geometry.planes()).map(PlaneId);
        let geometry = self.geometry.clone();
        for block in planes.flat_map(|plane| geometry.data_blocks(plane).chain(geometry.backup_blocks(plane)))
        {
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
                    let is_backup = self.geometry.is_for_backups(block);
                    if is_backup {
                        backups.push(ppn);
                    }
                    if let Some(mark) = flash.nand.group_of(ppn) {
                        grouped.push((mark.key, lpn, ppn));
                    } else if !is_backup {
                        self.map_if_newer(&flash.nand, lpn, ppn, stale);
                    }
                }
            }
        }
        self.map_completed(&flash.nand, grouped, &backups, stale);
        for (_, ppn) in self.table.map.iter() {
            flash.nand.revive(ppn);
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
        flash.nand.sort_by_next_page(&mut filling);
        let mut extra = Vec::new();
        for block in filling {
            let is_free = |slot: &OpenSlot| self.blocks.opened(plane, *slot).is_none();
            let slot = if CACHED && holds_translation(&flash.nand, block) {
                Some(self.map_slot()).filter(is_free)
            } else {
                std::iter::once(self.standing.copy_slot).chain((0..data_slots).rev()).find(is_free)
            };
            match slot {
                Some(slot) => _ = self.blocks.set_opened(plane, slot, Some(block)),
                None => extra.push(block),
            }
        }
        extra
    }

    /// Fill the blocks of `plane` that have no place.
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
        self.blocks.note_if_low(plane);
        let (open, free) = (self.blocks.opened(plane, 0), self.blocks.free(plane));
        self.placement.found(&flash.nand, plane, open, free);
        Ok(())
    }
}

/// Of several versions of a unit, the newest. Apart from the layer, or it would be compiled for each drive.
fn keep_newest(units: &mut Vec<(Lpn, u32, Ppn)>) {
    units.sort_unstable_by_key(|(lpn, age, _)| (*lpn, std::cmp::Reverse(*age)));
    units.dedup_by_key(|(lpn, ..)| *lpn);
}
