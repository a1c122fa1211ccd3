//! Logical blocks in order, where the mapping cache wants them.
//!
//! Collection finds them, and they go to open blocks of their own, each logical block to the plane that its number says: so
//! planes get as much as they give, and none gets more than leaves it half of its spare space. Where writes bring it beyond
//! that all the same, because they take apart what others have, they go to the next plane.

use std::ops::Range;

use super::{MAX_SLOTS, PageFtl, PageReads};
use crate::cause::Cause;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::allocator::OpenSlot;
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, Lpn, PageAt, PlaneId, Ppn};
use crate::mapcache::cftl::follow;

/// Runs to be put in order that wait at a time.
pub(super) const MAX_SCATTERED: usize = 64;

impl<V: VictimPolicy, T: Ticket, const CACHED: bool> PageFtl<V, T, CACHED> {
    /// Move those that were set apart, each as a whole if there is room for it. `scratch` is for their places.
    pub(super) fn copy_ordered<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        victim: BlockId,
        slot: OpenSlot,
        scratch: &mut Vec<Ppn>,
    ) -> FlashResult<T> {
        let mut copied = flash.port.ready();
        while let Some(units) = self.ordered.pop() {
            let done = if let Some(block) = self.block_for_ordered(&mut flash.nand, plane, 1) {
                self.copy_in_order(flash, plane, block, units.clone(), Some(victim))?
            } else {
                scratch.clear();
                scratch.extend(self.map[units.start as usize..units.end as usize].iter().copied().map(Ppn));
                self.copy_units(flash, plane, slot, scratch, false, Cause::Gc)?
            };
            copied = flash.port.join(copied, done);
            for lpn in units.map(Lpn) {
                self.unit_moved(lpn);
            }
        }
        Ok(copied)
    }

    /// Take the logical blocks that are found by one entry, and lie in the victim as a whole, out of `survivors`.
    pub(super) fn set_ordered_apart(&mut self, nand: &NandArray, survivors: &mut Vec<Ppn>) {
        let Some(translation) = &self.translation else { return };
        let (mut at, mut kept) = (0, 0);
        while at < survivors.len() {
            let ppn = survivors[at];
            let starts = |units: &Range<u32>| {
                let last = Ppn(ppn.0 + units.len() as u32 - 1);
                self.map[units.start as usize] == ppn.0 && survivors.get(at + units.len() - 1) == Some(&last)
            };
            let found = nand.lpn(ppn).and_then(|lpn| translation.block_of(lpn)).filter(starts);
            if let Some(units) = found {
                at += units.len();
                self.ordered.push(units);
            } else {
                survivors[kept] = ppn;
                (at, kept) = (at + 1, kept + 1);
            }
        }
        survivors.truncate(kept);
    }

    /// Where logical blocks are put in order.
    pub(super) fn ordered_slot(&self) -> OpenSlot {
        self.map_slot() - 1
    }

    /// Pages of `plane` that the open block for logical blocks in order has left; none when it is not open.
    pub(super) fn ordered_room(&self, nand: &NandArray, plane: PlaneId) -> u32 {
        let open = self.planes[plane.index()].open[self.ordered_slot()];
        open.map_or(0, |block| self.geometry.data_pages_per_block - nand.next_page(block))
    }

    /// The block of `plane` that takes the next logical block in order, if it has room for it or there are more than `keep`
    /// free ones.
    fn block_for_ordered(&mut self, nand: &mut NandArray, plane: PlaneId, keep: u32) -> Option<BlockId> {
        let slot = self.ordered_slot();
        let room = self.ordered_room(nand, plane);
        if room > 0 && room < self.ordered_pages {
            return None;
        }
        self.open_block(nand, plane, slot, keep)
    }

    /// Put the logical blocks in order that collection has found. Only what planes have beyond their need is spent on this.
    pub(super) fn put_in_order<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        let mut scattered = std::mem::take(&mut self.scattered);
        let mut at = 0;
        while at < scattered.len() {
            if self.gather(flash, scattered[at].clone())? {
                scattered.swap_remove(at);
            } else {
                at += 1;
            }
        }
        self.scattered = scattered;
        Ok(())
    }

    /// Live units of `plane`, counted once from one erase in it to the next.
    pub(super) fn live_units(&mut self, nand: &NandArray, plane: PlaneId) -> u64 {
        let state = &mut self.planes[plane.index()];
        if state.live.1 != state.erases {
            let blocks = (0..self.geometry.blocks_per_plane()).map(|row| self.geometry.block(plane, row));
            state.live = (blocks.map(|block| u64::from(nand.valid_units(block))).sum(), state.erases);
        }
        state.live.0
    }

    /// Move the units of a logical block to places that follow each other in one block. False when there is no free block for
    /// it now; what is not wanted any more, or has no place in its plane, is forgotten.
    fn gather<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        units: Range<u32>,
    ) -> FlashResult<bool> {
        let Some(translation) = &self.translation else { return Ok(true) };
        let table = &self.map[..self.geometry.logical_units as usize];
        if translation.cache.wants_gathered(Lpn(units.start), table).as_ref() != Some(&units) {
            return Ok(true);
        }
        let places = &table[units.start as usize..units.end as usize];
        if !follow(places) {
            let plane = self.order.at(units.start / units.len() as u32);
            if self.live_units(&flash.nand, plane) + units.len() as u64 > self.ordered_limit {
                return Ok(true);
            }
            let keep = self.config.gc_low_free_blocks.max(1);
            let Some(block) = self.block_for_ordered(&mut flash.nand, plane, keep) else { return Ok(false) };
            self.planes[plane.index()].live.0 += units.len() as u64;
            self.counters.gc.pages_copied += units.len() as u64;
            self.copy_in_order(flash, plane, block, units.clone(), None)?;
            self.measure_room(&flash.nand, plane);
        }
        if let Some(translation) = &mut self.translation {
            translation.cache.gathered(units, &self.map[..self.geometry.logical_units as usize]);
        }
        Ok(true)
    }

    /// Copy a logical block into the next pages of the open block for such. `victim` is being collected.
    fn copy_in_order<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        block: BlockId,
        units: Range<u32>,
        victim: Option<BlockId>,
    ) -> FlashResult<T> {
        let slots = self.geometry.slots_per_page;
        let ready = flash.port.ready();
        let mut copied = ready;
        for first in units.step_by(slots as usize) {
            let mut lpns = [Lpn(0); MAX_SLOTS];
            let mut old = [Ppn(0); MAX_SLOTS];
            let mut reads = PageReads::new();
            for (at, lpn) in (first..first + slots).map(Lpn).enumerate() {
                (lpns[at], old[at]) = (lpn, Ppn(self.map[lpn.index()]));
                let page = self.geometry.page_of(old[at]);
                reads.add(page, self.geometry.sectors_per_unit);
            }
            let read = reads.send(flash, Cause::Gc, ready)?;
            let page = PageAt { block, index: flash.nand.next_page(block) };
            let mut done = flash.program(page, &lpns[..slots as usize], Cause::Gc, read)?;
            let new = self.geometry.unit(page).0;
            for (ppn, old) in (new..new + slots).map(Ppn).zip(old) {
                flash.store_copy(old, ppn);
            }
            if self.is_full(&flash.nand, block) {
                done = self.seal(flash, plane, self.ordered_slot(), block, done)?;
            }
            copied = flash.port.join(copied, done);
            for ((ppn, old), lpn) in (new..new + slots).map(Ppn).zip(old).zip(lpns) {
                if victim == Some(self.geometry.block_of(old)) {
                    flash.invalidate(old)?;
                } else {
                    self.invalidate(flash, old)?;
                }
                self.map[lpn.index()] = ppn.0;
            }
        }
        Ok(copied)
    }
}
