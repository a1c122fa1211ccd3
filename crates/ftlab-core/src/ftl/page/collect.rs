//! Garbage collection and wear levelling: victims, and where their survivors go.

use super::gather::MAX_SCATTERED;
use super::{MAX_SLOTS, PageFtl, lost};
use crate::cause::Cause;
use crate::config::{StaticKeys, WearLevelingChoice};
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::allocator::OpenSlot;
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, DieId, Lpn, PageAt, PlaneId, Ppn};
use crate::mapcache::translation::Translation;
use crate::table;

impl<V: VictimPolicy, T: Ticket, const CACHED: bool> PageFtl<V, T, CACHED> {
    /// Collect in `die`, and write the translation pages that this takes.
    #[cold]
    #[inline(never)]
    pub(super) fn collect<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        die: DieId,
    ) -> FlashResult<()> {
        self.collect_die(flash, die)?;
        if CACHED { self.settle(flash) } else { Ok(()) }
    }

    /// Collect in `die` until none of its planes is short of free blocks, or nothing can be gained.
    pub(super) fn collect_die<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        die: DieId,
    ) -> FlashResult<()> {
        let count = self.geometry.planes_per_die();
        let first = self.geometry.first_plane(die);
        let mut untried = self.dies[die.index()].low;
        // Policies that draw blindly may find wholly live victims again and again: a full drive would go on for ever.
        let mut attempts = 8 * u64::from(self.geometry.blocks_per_plane()) * u64::from(count);
        while untried != 0 && attempts > 0 {
            attempts -= 1;
            let turn = self.dies[die.index()].next_collected;
            let at = (turn..count).chain(0..turn).find(|at| untried >> at & 1 == 1).unwrap_or(0);
            self.dies[die.index()].next_collected = if at + 1 == count { 0 } else { at + 1 };
            let plane = PlaneId(first.0 + at);
            let collected = self.collect_one(flash, plane)?;
            if self.planes[plane.index()].free.len() >= self.high_free_blocks {
                self.dies[die.index()].low &= !(1 << at);
                untried &= !(1 << at);
            } else if !collected {
                untried &= !(1 << at);
            }
        }
        Ok(())
    }

    /// Collect one victim of `plane`. False when there is none, or none worth it.
    fn collect_one<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
    ) -> FlashResult<bool> {
        let Some(victim) = self.victims.pick(plane) else { return Ok(false) };
        let valid = flash.nand.valid_units(victim);
        // Survivors are packed into whole pages, the last of which may stay partly empty. The emptiest block that would
        // fill as many pages again gains nothing, and no other one does.
        let pages = valid.div_ceil(self.geometry.slots_per_page);
        if pages == self.geometry.data_pages_per_block && self.victims.picks_emptiest() {
            self.victims.on_seal(victim, valid);
            return Ok(false);
        }
        self.counters.gc.collections += 1;
        self.counters.gc.pages_copied += u64::from(valid);
        if self.holds_translation(victim) {
            if let Some(translation) = &mut self.translation {
                translation.counts.collections += 1;
                translation.counts.pages_copied += u64::from(pages);
            }
            self.empty_block(flash, plane, victim, self.map_slot(), Cause::Map)?;
        } else {
            self.empty_block(flash, plane, victim, self.gc_slot, Cause::Gc)?;
        }
        if CACHED && !self.scattered.is_empty() {
            self.put_in_order(flash)?;
        }
        self.level_wear(flash, plane)?;
        if let Some(next) = self.victims.likely_next(plane) {
            flash.nand.prefetch_block(next);
        }
        self.measure_room(&flash.nand, plane);
        Ok(true)
    }

    /// Move the live units of `victim` into the open block `slot` of the same plane, and erase it.
    pub(super) fn empty_block<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        victim: BlockId,
        slot: OpenSlot,
        cause: Cause,
    ) -> FlashResult<()> {
        let mut survivors = std::mem::take(&mut self.survivors);
        survivors.clear();
        let map = &self.map;
        flash.nand.collect_valid(victim, &mut survivors, |lpn| table::prefetch(map, lpn.index()));
        let sorted = |translation: &Translation| translation.cache.wants_sorted_copies();
        let sorted =
            CACHED && !self.map_blocks[victim.index()] && self.translation.as_ref().is_some_and(sorted);
        if sorted {
            survivors.sort_unstable_by_key(|ppn| flash.nand.lpn(*ppn));
        }
        let gathers = CACHED && self.ordered_pages > 0 && cause == Cause::Gc && slot != self.map_slot();
        let mut copied = flash.port.ready();
        let mut rest = survivors.as_slice();
        if gathers {
            self.set_ordered_apart(&flash.nand, &mut survivors);
            // What is too little for a logical block takes others.
            let room = self.ordered_room(&flash.nand, plane);
            let units = if room < self.ordered_pages { room * self.geometry.slots_per_page } else { 0 };
            let front;
            (front, rest) = survivors.split_at(survivors.len().min(units as usize));
            copied = self.copy_units(flash, plane, self.ordered_slot(), front, false, cause)?;
        }
        let done = self.copy_units(flash, plane, slot, rest, !sorted && !gathers, cause)?;
        copied = flash.port.join(copied, done);
        self.units_moved(&flash.nand, victim, &survivors);
        if gathers {
            let done = self.copy_ordered(flash, plane, victim, slot, &mut survivors)?;
            copied = flash.port.join(copied, done);
        }
        self.survivors = survivors;
        flash.erase(victim, cause, copied)?;
        let erases = flash.nand.erases(victim);
        let state = &mut self.planes[plane.index()];
        state.free.give(self.geometry.row_of(victim), erases);
        state.erases += 1;
        Ok(())
    }

    /// Move the units `survivors` into the open block `slot` of their plane. `all`: they are the live ones of a block, in
    /// order.
    #[inline(always)]
    pub(super) fn copy_units<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        slot: OpenSlot,
        survivors: &[Ppn],
        all: bool,
        cause: Cause,
    ) -> FlashResult<T> {
        let mut copied = flash.port.ready();
        let mut rest = survivors;
        let mut read = None;
        while !rest.is_empty() {
            let Some(block) = self.open_block(&mut flash.nand, plane, slot, 0) else {
                return Err(self.full(plane, "copies of garbage collection"));
            };
            let mut done;
            if self.copyback && self.geometry.slots_per_page == 1 && all {
                let to = PageAt { block, index: flash.nand.next_page(block) };
                let room = (self.geometry.data_pages_per_block - to.index) as usize;
                let moving;
                (moving, rest) = rest.split_at(room.min(rest.len()));
                let map = self.map.as_mut_slice();
                let ready = flash.port.ready();
                done = flash.copyback_all(moving, to, cause, ready, |lpn, ppn| map[lpn.index()] = ppn.0)?;
            } else {
                done = self.copy_page(flash, block, rest, &mut read, cause)?;
                (_, rest) = rest.split_at((self.geometry.slots_per_page as usize).min(rest.len()));
            }
            if self.is_full(&flash.nand, block) {
                done = self.seal(flash, plane, slot, block, done)?;
            }
            copied = flash.port.join(copied, done);
        }
        Ok(copied)
    }

    /// Move the first units of `rest`, as many as fit, into the next page of `block`. `read` is the page of flash that was
    /// read last for those before them, and when: what moves of it from here on was brought along.
    fn copy_page<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        block: BlockId,
        rest: &[Ppn],
        read: &mut Option<(PageAt, T)>,
        cause: Cause,
    ) -> FlashResult<T> {
        let moving = &rest[..rest.len().min(self.geometry.slots_per_page as usize)];
        let mut units = [Lpn(0); MAX_SLOTS];
        for (unit, ppn) in units.iter_mut().zip(moving) {
            *unit = flash.nand.lpn(*ppn).ok_or_else(|| lost(*ppn))?;
        }
        let units = &units[..moving.len()];
        let to = PageAt { block, index: flash.nand.next_page(block) };
        let from = self.geometry.page_of(moving[0]);
        let ready = flash.port.ready();
        // The command moves a page as it is: it serves when all that moves is the front of one page.
        let whole =
            moving.iter().enumerate().all(|(at, ppn)| ppn.0 == self.geometry.unit(from).0 + at as u32);
        let done = if self.copyback && whole {
            flash.copyback(from, to, units, cause, ready)?
        } else {
            let known = self.read_moving(flash, rest, moving.len(), read, cause)?;
            flash.program(to, units, cause, known)?
        };
        let destination = self.geometry.unit(to);
        for (at, (lpn, ppn)) in units.iter().zip(moving).enumerate() {
            let new = Ppn(destination.0 + at as u32);
            flash.store_copy(*ppn, new);
            flash.invalidate(*ppn)?;
            self.map[lpn.index()] = new.0;
        }
        Ok(done)
    }

    /// Read the pages of flash that the first `count` units of `rest` are on. With the page of the last of them comes what
    /// follows of it, and `read` remembers that.
    fn read_moving<P: FlashPort<Ticket = T>>(
        &self,
        flash: &mut Flash<P>,
        rest: &[Ppn],
        count: usize,
        read: &mut Option<(PageAt, T)>,
        cause: Cause,
    ) -> FlashResult<T> {
        let (moving, next) = rest.split_at(count);
        let ready = flash.port.ready();
        let (mut known, before) = (ready, *read);
        for (at, ppn) in moving.iter().enumerate() {
            let page = self.geometry.page_of(*ppn);
            let is_of_page = |ppn: &&Ppn| self.geometry.page_of(**ppn) == page;
            if moving[..at].iter().any(|ppn| is_of_page(&ppn)) {
                continue;
            }
            let is_last = moving.last().is_some_and(|last| is_of_page(&last));
            let done = if let Some((_, done)) = before.filter(|before| before.0 == page) {
                done
            } else {
                let later = if is_last { next.iter().take_while(is_of_page).count() } else { 0 };
                let units = moving[at..].iter().filter(is_of_page).count() + later;
                flash.read(page, units as u32 * self.geometry.sectors_per_unit, cause, ready)?
            };
            if is_last {
                *read = Some((page, done));
            }
            known = flash.port.join(known, done);
        }
        Ok(known)
    }

    /// Tell the mapping cache of units that were moved out of `victim`.
    fn units_moved(&mut self, nand: &NandArray, victim: BlockId, survivors: &[Ppn]) {
        if !CACHED {
            return;
        }
        if self.map_blocks[victim.index()] {
            let pages = u64::from(survivors.len() as u32 / self.geometry.slots_per_page);
            if let Some(translation) = &mut self.translation {
                translation.counts.flash_reads += pages;
                translation.counts.flash_programs += pages;
            }
            return;
        }
        // Their old places still name them.
        for lpn in survivors.iter().filter_map(|ppn| nand.lpn(*ppn)) {
            self.unit_moved(lpn);
        }
    }

    pub(super) fn unit_moved(&mut self, lpn: Lpn) {
        let Some(translation) = &mut self.translation else { return };
        let table = &self.map[..self.geometry.logical_units as usize];
        translation.moved(lpn, table);
        if self.ordered_pages > 0
            && self.scattered.len() < MAX_SCATTERED
            && let Some(units) = translation.cache.wants_gathered(lpn, table)
            && !self.scattered.contains(&units)
        {
            self.scattered.push(units);
        }
    }

    /// Static wear levelling: now and then, empty the least worn block of a plane into its most worn free one.
    fn level_wear<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
    ) -> FlashResult<()> {
        // A look at every block of the plane, once in a sixteenth as many erases: sixteen steps an erase.
        let interval = (self.geometry.blocks_per_plane() / 16).max(1);
        let WearLevelingChoice::Static(StaticKeys { wear_leveling_threshold }) = self.config.wear_leveling
        else {
            return Ok(());
        };
        if !self.planes[plane.index()].erases.is_multiple_of(interval) {
            return Ok(());
        }
        let state = &self.planes[plane.index()];
        if state.free.len() < 2 {
            return Ok(());
        }
        let blocks = (0..self.geometry.blocks_per_plane()).map(|row| self.geometry.block(plane, row));
        let most = blocks.clone().map(|block| flash.nand.erases(block)).max().unwrap_or(0);
        let sealed = blocks.filter(|block| self.is_full(&flash.nand, *block));
        let Some(coldest) = sealed.min_by_key(|block| flash.nand.erases(*block)) else { return Ok(()) };
        if most - flash.nand.erases(coldest) <= wear_leveling_threshold {
            return Ok(());
        }
        let Some(row) = self.planes[plane.index()].free.take_most_worn() else { return Ok(()) };
        self.victims.remove(coldest, flash.nand.valid_units(coldest));
        let slot = if self.holds_translation(coldest) { self.map_slot() } else { self.gc_slot };
        // The worn block takes cold data only; the open block for copies waits meanwhile.
        let waiting = self.planes[plane.index()].open[slot].take();
        self.open(&mut flash.nand, plane, slot, row);
        self.empty_block(flash, plane, coldest, slot, Cause::WearLevel)?;
        let worn = std::mem::replace(&mut self.planes[plane.index()].open[slot], waiting);
        if let Some(worn) = worn {
            // Cold data rarely fill a block to the last page, and only full blocks are collected.
            if waiting.is_none() {
                self.planes[plane.index()].open[slot] = Some(worn);
            } else {
                self.pad(flash, worn, Cause::WearLevel)?;
            }
        }
        Ok(())
    }

    /// Fill the rest of `block` with pages without data, and seal it.
    pub(super) fn pad<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        block: BlockId,
        cause: Cause,
    ) -> FlashResult<()> {
        let ready = flash.port.ready();
        while !self.is_full(&flash.nand, block) {
            let page = PageAt { block, index: flash.nand.next_page(block) };
            flash.program(page, &[], cause, ready)?;
        }
        if self.config.summary_page {
            flash.program_metadata(PageAt { block, index: self.geometry.data_pages_per_block }, ready)?;
        }
        self.victims.on_seal(block, flash.nand.valid_units(block));
        Ok(())
    }
}
