//! Garbage collection and wear levelling: victims, and where their survivors go.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::table::PageTable;
use super::translate::holds_translation;
use super::{PageFtl, lost};
use crate::cause::Cause;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::blocks::{Append, Data, MAX_SLOTS, Place};
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::policy::{OpenSlot, Placement};
use crate::geometry::{BlockId, DieId, Lpn, PageAt, PlaneId, Ppn};
use crate::mapcache::cache::PlacementWishes;
use crate::metrics::report::Counts;
use crate::tape::taped;

/// Garbage collection: the object `gc` of the summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GcCounts {
    /// Victims chosen; with `ftl.gc_pace = "even"` the last ones may not have been erased yet.
    pub collections: u64,
    /// Valid mapping units moved out of victims.
    pub pages_copied: u64,
    /// Valid mapping units that were not moved, since a non-volatile cache has a copy of them.
    pub pages_skipped: u64,
}

taped! {
    GcCounts {
        collections,
        pages_copied,
        pages_skipped
    } else {}
}

impl Counts for GcCounts {
    const NAME: &'static str = "gc";
}

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> PageFtl<V, L, T, CACHED> {
    /// Collect in `die`, and write the translation pages that this takes.
    #[cold]
    #[inline(never)]
    pub(super) fn collect<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        die: DieId,
    ) -> FlashResult<()> {
        self.collect_die(flash, die, false)?;
        if CACHED {
            self.settle(flash)?;
            // Translation pages may have taken what was gained.
            while self.blocks.is_low(die) && self.collect_die(flash, die, true)? {
                self.settle(flash)?;
            }
        }
        Ok(())
    }

    /// Collect in `die` until none of its planes is short of free blocks, or nothing can be gained. Says whether anything
    /// was. `settling`: for translation pages, where only what gains is done. Whatever else moves data makes more of them.
    pub(super) fn collect_die<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        die: DieId,
        settling: bool,
    ) -> FlashResult<bool> {
        let mut turns = self.blocks.turns(die, !settling);
        while let Some(plane) = self.blocks.next_turn(&turns) {
            flash.check_interrupt()?;
            if !CACHED && self.finish_ahead(flash, plane)? {
                turns.gained = true;
                self.blocks.end_turn(&mut turns, plane, true);
                continue;
            }
            let victim = self.blocks.next_victim(&flash.nand, plane, &mut turns);
            if let Some(victim) = victim {
                self.collect_block(flash, plane, victim, settling)?;
            }
            self.blocks.end_turn(&mut turns, plane, victim.is_some());
        }
        Ok(turns.gained)
    }

    /// Empty a victim of `plane`, with what goes with it.
    pub(super) fn collect_block<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        victim: BlockId,
        settling: bool,
    ) -> FlashResult<()> {
        let valid = flash.nand.valid_units(victim);
        let pages = valid.div_ceil(self.geometry.slots_per_page);
        self.counters.gc.collections += 1;
        self.counters.gc.pages_copied += u64::from(valid);
        if CACHED && holds_translation(&flash.nand, victim) {
            if let Some(translation) = &mut self.table.translation {
                translation.counts.collections += 1;
                translation.counts.pages_copied += u64::from(pages);
            }
            self.empty_block(flash, plane, victim, self.map_slot(), Cause::Map)?;
        } else {
            self.placement.collected(victim);
            self.empty_block(flash, plane, victim, self.standing.copy_slot, Cause::Gc)?;
        }
        if !settling {
            if CACHED && self.gathering.has_pending() {
                self.gather_pending(flash)?;
            }
            self.level_wear(flash, plane)?;
        }
        if let Some(next) = self.blocks.victims.likely_next(plane) {
            flash.nand.prefetch_block(next);
        }
        self.pages_taken(&flash.nand, plane);
        Ok(())
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
        let writer = flash.begin_internal();
        let mut survivors = std::mem::take(&mut self.survivors);
        survivors.clear();
        let map = &self.table.map;
        flash.nand.collect_valid(victim, &mut survivors, |lpn| map.prefetch(lpn));
        let mut copied = flash.port.ready();
        if self.removable.is_some() {
            copied = self.skip_removable(flash, victim, &mut survivors, cause)?;
        }
        let sorted = CACHED
            && !holds_translation(&flash.nand, victim)
            && self.table.wishes().is_some_and(PlacementWishes::wants_sorted_copies);
        if sorted {
            flash.nand.sort_by_lpn(&mut survivors);
        }
        let gathers = CACHED && self.gathering.is_on() && cause == Cause::Gc && slot != self.map_slot();
        let mut rest = survivors.as_slice();
        if gathers {
            self.set_contiguous_apart(&flash.nand, &mut survivors);
            // What is too little for a logical block takes others.
            let left = self.blocks.pages_left(&flash.nand, plane, self.gathered_slot());
            let units = if left < self.gathering.pages { left * self.geometry.slots_per_page } else { 0 };
            let front;
            (front, rest) = survivors.split_at(survivors.len().min(units as usize));
            let done = self.copy_units(flash, plane, self.gathered_slot(), front, false, cause)?;
            copied = flash.port.join(copied, done);
        }
        let done = self.copy_survivors(flash, (plane, slot), victim, rest, !sorted && !gathers, cause)?;
        copied = flash.port.join(copied, done);
        self.units_moved(&flash.nand, victim, &survivors);
        if gathers {
            let done = self.copy_contiguous(flash, plane, victim, slot, &mut survivors)?;
            copied = flash.port.join(copied, done);
        }
        self.survivors = survivors;
        copied = self.before_erase(flash, victim, copied)?;
        flash.end_internal(writer);
        self.blocks.erase(flash, victim, cause, copied)
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
            let place = match self.open_block(&mut flash.nand, plane, slot, 0) {
                Some(block) => Place { plane, slot, block },
                None => self.place_for_copies(plane, slot)?,
            };
            let (done, count) =
                if self.copyback && self.geometry.slots_per_page == 1 && all && self.retained.is_empty() {
                    self.blocks.append_copies(flash, place, rest, &mut self.table.map, cause)?
                } else {
                    self.copy_page(flash, place, rest, &mut read, cause)?
                };
            rest = &rest[count..];
            copied = flash.port.join(copied, done);
        }
        Ok(copied)
    }

    /// Move the first units of `rest`, as many as fit, into the next page of an open block; and how many those are. `read`
    /// is the page of flash that was read last for those before them, and when: what moves of it from here on was brought
    /// along.
    fn copy_page<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        place: Place,
        rest: &[Ppn],
        read: &mut Option<(PageAt, T)>,
        cause: Cause,
    ) -> FlashResult<(T, usize)> {
        let moving = &rest[..rest.len().min(self.geometry.slots_per_page as usize)];
        let mut units = [Lpn(0); MAX_SLOTS];
        let mut old = [None; MAX_SLOTS];
        for ((unit, old), ppn) in units.iter_mut().zip(&mut old).zip(moving) {
            *unit = flash.nand.lpn(*ppn).ok_or_else(|| lost(*ppn))?;
            *old = Some(*ppn);
        }
        let from = self.geometry.page_of(moving[0]);
        // The command moves a page as it is: it serves when all that moves is the front of one page.
        let whole =
            moving.iter().enumerate().all(|(at, ppn)| ppn.0 == self.geometry.unit(from).0 + at as u32);
        let copyback = (self.copyback && whole).then_some(from);
        let known = if copyback.is_some() {
            flash.port.ready()
        } else {
            self.read_moving(flash, rest, moving.len(), read, cause)?
        };
        let data = Data::Copies { victim: Some(self.geometry.block_of(moving[0])), copyback };
        let (units, old) = (&units[..moving.len()], &old[..moving.len()]);
        let append = Append { place, units, old, keeps_old: false, data, cause };
        let page = PageAt { block: place.block, index: flash.nand.next_page(place.block) };
        let done = self.blocks.append(flash, &append, &mut self.table.map, known, |_, _, _| {})?;
        if !self.retained.is_empty() {
            self.retained.moved(old, self.geometry.unit(page));
        }
        Ok((done, moving.len()))
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
        if holds_translation(nand, victim) {
            let pages = u64::from(survivors.len() as u32 / self.geometry.slots_per_page);
            if let Some(translation) = &mut self.table.translation {
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
        let Some(translation) = &mut self.table.translation else { return };
        let map = PageTable::<T, CACHED>::logical(&self.table.map, &self.geometry);
        translation.moved(lpn, map);
        if self.gathering.is_on()
            && let Some(wishes) = translation.cache.wishes()
        {
            self.gathering.note(|| wishes.wants_gathered(lpn, map));
        }
    }

    /// Static wear levelling: now and then, empty the least worn block of a plane into its most worn free one.
    pub(super) fn level_wear<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
    ) -> FlashResult<()> {
        let (map_slot, copy_slot) = (self.map_slot(), self.standing.copy_slot);
        let slot_of = |nand: &NandArray, block: BlockId| {
            if CACHED && holds_translation(nand, block) { map_slot } else { copy_slot }
        };
        let Some(levelling) = self.blocks.next_levelling(&mut flash.nand, plane, slot_of) else {
            return Ok(());
        };
        self.block_opened(&flash.nand, plane, levelling.slot, levelling.worn);
        self.empty_block(flash, plane, levelling.coldest, levelling.slot, Cause::WearLevel)?;
        self.blocks.end_levelling(flash, plane, &levelling)
    }
}
