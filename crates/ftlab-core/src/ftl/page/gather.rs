//! Logical blocks in order, where the mapping cache wants them.
//!
//! Collection finds them, and they go to open blocks of their own. The number of a logical block says which plane it
//! goes to. So planes get as much as they give, and none gets more than leaves it half of its spare space. Writes may
//! bring a plane beyond that all the same, because they take apart what others have. Then logical blocks go to the next
//! plane.

use std::ops::Range;

use super::capacity;
use super::table::PageTable;
use super::{PageFtl, PageReads};
use crate::cause::Cause;
use crate::config::DeviceConfig;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::blocks::{Append, Data, MAX_SLOTS, Place};
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::policy::{OpenSlot, Placement};
use crate::geometry::{BlockId, Geometry, Lpn, PlaneId, Ppn};
use crate::mapcache::cftl::follow;
use crate::tape::taped;

/// Logical blocks that wait to be put in order, at most.
const MOST_PENDING: usize = 64;

/// Logical blocks on their way to lie in order.
#[derive(Debug, Clone)]
pub(super) struct BlockGathering {
    /// Pages of a logical block; 0 when the mapping cache wants none in order.
    pub(super) pages: u32,
    /// Whether a write buffer brings units from anywhere to planes that have addresses of their own.
    pub(super) strays: bool,
    /// Live units up to which a plane takes them.
    limit: u64,
    /// Those that are not in order: found while collecting.
    pending: Vec<Range<u32>>,
    /// Those of the victim under way that are in order.
    contiguous: Vec<Range<u32>>,
    /// For each plane, its live units when they were last counted, and its erases then.
    live: Vec<(u64, u32)>,
}

taped! { BlockGathering { pending, contiguous, live } else { pages, strays, limit } }

impl BlockGathering {
    /// For a drive on which `units` can be live, translation pages included.
    pub(super) fn new(config: &DeviceConfig, geometry: &Geometry, units: u64) -> Self {
        let pages = capacity::ordered_units(config) / geometry.slots_per_page;
        let strays = config.strays();
        Self {
            pages,
            strays,
            // Half of what a plane has beyond its share.
            limit: units
                .div_ceil(geometry.planes().into())
                .midpoint(capacity::usable_units_per_plane(config)),
            pending: Vec::with_capacity(MOST_PENDING),
            contiguous: Vec::new(),
            live: vec![(0, u32::MAX); if pages > 0 || strays { geometry.planes() as usize } else { 0 }],
        }
    }

    /// Whether the mapping cache wants logical blocks in order.
    #[inline(always)]
    pub(super) fn is_on(&self) -> bool {
        self.pages > 0
    }

    /// Whether some wait.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Remember the logical block that is `wanted`, if there is room.
    pub(super) fn note(&mut self, wanted: impl FnOnce() -> Option<Range<u32>>) {
        if self.pending.len() < MOST_PENDING
            && let Some(units) = wanted()
            && !self.pending.contains(&units)
        {
            self.pending.push(units);
        }
    }
}

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> PageFtl<V, L, T, CACHED> {
    /// Move those that were set apart, each as a whole if there is room for it. `scratch` is for their places.
    pub(super) fn copy_contiguous<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        victim: BlockId,
        slot: OpenSlot,
        scratch: &mut Vec<Ppn>,
    ) -> FlashResult<T> {
        let mut copied = flash.port.ready();
        while let Some(units) = self.gathering.contiguous.pop() {
            let done = if let Some(block) = self.block_for_gathered(&mut flash.nand, plane, 1) {
                self.relocate_block(flash, plane, block, units.clone(), Some(victim))?
            } else {
                let places = &self.table.map.plain()[units.start as usize..units.end as usize];
                scratch.clear();
                scratch.extend(places.iter().copied().map(Ppn));
                self.copy_survivors(flash, (plane, slot), victim, scratch, false, Cause::Gc)?
            };
            copied = flash.port.join(copied, done);
            for lpn in units.map(Lpn) {
                self.unit_moved(lpn);
            }
        }
        Ok(copied)
    }

    /// Take the logical blocks that are found by one entry, and lie in the victim as a whole, out of `survivors`.
    pub(super) fn set_contiguous_apart(&mut self, nand: &NandArray, survivors: &mut Vec<Ppn>) {
        let PageTable { map, translation: Some(translation), .. } = &self.table else { return };
        let map = map.plain();
        let (mut at, mut kept) = (0, 0);
        while at < survivors.len() {
            let ppn = survivors[at];
            let starts = |units: &Range<u32>| {
                let last = Ppn(ppn.0 + units.len() as u32 - 1);
                map[units.start as usize] == ppn.0 && survivors.get(at + units.len() - 1) == Some(&last)
            };
            let found = nand.lpn(ppn).and_then(|lpn| translation.block_of(lpn)).filter(starts);
            if let Some(units) = found {
                at += units.len();
                self.gathering.contiguous.push(units);
            } else {
                survivors[kept] = ppn;
                (at, kept) = (at + 1, kept + 1);
            }
        }
        survivors.truncate(kept);
    }

    /// Where logical blocks are put in order.
    pub(super) fn gathered_slot(&self) -> OpenSlot {
        self.map_slot() - 1
    }

    /// The block of `plane` that takes the next logical block in order, if it has room for it or there are more than `keep`
    /// free ones.
    fn block_for_gathered(&mut self, nand: &mut NandArray, plane: PlaneId, keep: u32) -> Option<BlockId> {
        let slot = self.gathered_slot();
        let left = self.blocks.pages_left(nand, plane, slot);
        if left > 0 && left < self.gathering.pages {
            return None;
        }
        self.open_block(nand, plane, slot, keep)
    }

    /// Put the logical blocks in order that collection has found. Only what planes have beyond their need is spent on this.
    pub(super) fn gather_pending<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
    ) -> FlashResult<()> {
        let mut pending = std::mem::take(&mut self.gathering.pending);
        let mut at = 0;
        while at < pending.len() {
            if self.gather(flash, pending[at].clone())? {
                pending.swap_remove(at);
            } else {
                at += 1;
            }
        }
        self.gathering.pending = pending;
        Ok(())
    }

    /// Live units of `plane`, counted once from one erase in it to the next.
    fn live_units(&mut self, nand: &NandArray, plane: PlaneId) -> u64 {
        let erases = self.blocks.erases(plane);
        let live = &mut self.gathering.live[plane.index()];
        if live.1 != erases {
            let blocks = self.geometry.data_blocks(plane);
            *live = (blocks.map(|block| u64::from(nand.valid_units(block))).sum(), erases);
        }
        live.0
    }

    /// Whether a plane has less than it can take of what is put in order.
    pub(super) fn has_room_beyond(&mut self, nand: &NandArray, plane: PlaneId) -> bool {
        self.live_units(nand, plane) <= self.gathering.limit
    }

    /// Move the units of a logical block to places that follow each other in one block. False when there is no free block for
    /// it now; what is not wanted any more, or has no place in its plane, is forgotten.
    fn gather<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        units: Range<u32>,
    ) -> FlashResult<bool> {
        let Some(wishes) = self.table.wishes() else { return Ok(true) };
        let map = PageTable::<T, CACHED>::logical(&self.table.map, &self.geometry);
        if wishes.wants_gathered(Lpn(units.start), map).as_ref() != Some(&units) {
            return Ok(true);
        }
        if !follow(&map[units.start as usize..units.end as usize]) {
            let plane = self.standing.order.at(units.start / units.len() as u32);
            if self.live_units(&flash.nand, plane) + units.len() as u64 > self.gathering.limit {
                return Ok(true);
            }
            let keep = self.config.gc_low_free_blocks.max(1);
            let Some(block) = self.block_for_gathered(&mut flash.nand, plane, keep) else {
                return Ok(false);
            };
            self.gathering.live[plane.index()].0 += units.len() as u64;
            self.counters.gc.pages_copied += units.len() as u64;
            self.relocate_block(flash, plane, block, units.clone(), None)?;
            self.pages_taken(&flash.nand, plane);
        }
        let PageTable { map, translation, .. } = &mut self.table;
        if let Some(wishes) = translation.as_mut().and_then(|translation| translation.cache.wishes_mut()) {
            wishes.gathered(units, PageTable::<T, CACHED>::logical(map, &self.geometry));
        }
        Ok(true)
    }

    /// Copy a logical block into the next pages of the open block for such. `victim` is being collected.
    fn relocate_block<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        block: BlockId,
        units: Range<u32>,
        victim: Option<BlockId>,
    ) -> FlashResult<T> {
        let slots = self.geometry.slots_per_page;
        let place = Place { plane, slot: self.gathered_slot(), block };
        let data = Data::Copies { victim, copyback: None };
        let ready = flash.port.ready();
        let mut copied = ready;
        for first in units.step_by(slots as usize) {
            let mut lpns = [Lpn(0); MAX_SLOTS];
            let mut old = [None; MAX_SLOTS];
            let mut reads = PageReads::new();
            for (at, lpn) in (first..first + slots).map(Lpn).enumerate() {
                let ppn = Ppn(self.table.map.plain()[lpn.index()]);
                (lpns[at], old[at]) = (lpn, Some(ppn));
                reads.add(self.geometry.page_of(ppn), self.geometry.sectors_per_unit);
            }
            let read = reads.send(flash, Cause::Gc, ready)?;
            let (units, old) = (&lpns[..slots as usize], &old[..slots as usize]);
            let marks = self.take_marks(flash, old);
            let append = Append { place, units, old, keeps_old: false, data, cause: Cause::Gc };
            let done = self.blocks.append(flash, &append, &mut self.table.map, read, |_, _, _| {})?;
            self.put_marks(flash, units, marks);
            copied = flash.port.join(copied, done);
        }
        Ok(copied)
    }
}
