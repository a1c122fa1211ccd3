//! Pages in turn over the planes, by their addresses or as they come.

use super::most_free::MostFree;
use super::policy::Placement;
use crate::access::Access;
use crate::config::{FtlConfig, GcOpenBlock, PlaneChoice, Striping};
use crate::flash::nand::NandArray;
use crate::ftl::blocks::OpenSlot;
use crate::geometry::{BlockId, Geometry, PlaneId, Ppn};
use crate::plane_order::PlaneOrder;

/// See the module. Each stream of the host has an open block in each plane.
#[derive(Debug, Clone)]
pub struct Stripe {
    order: PlaneOrder,
    striping: Striping,
    streams: u32,
    copy_slot: OpenSlot,
    /// Base-2 logarithm of the units of a page.
    slot_shift: u32,
    next_turn: u32,
    most_free: Option<MostFree>,
}

impl Placement for Stripe {
    fn new(geometry: &Geometry, config: &FtlConfig) -> Self {
        let ordered = config.plane_choice == PlaneChoice::Ordered;
        Self {
            order: PlaneOrder::new(geometry, config.allocation, ordered),
            striping: config.striping,
            streams: config.streams,
            copy_slot: match config.gc_open_block {
                GcOpenBlock::Separate => config.streams as usize,
                GcOpenBlock::Shared => 0,
            },
            slot_shift: geometry.slots_per_page.trailing_zeros(),
            next_turn: 0,
            most_free: (!ordered).then(|| MostFree::new(geometry)),
        }
    }

    fn slots(&self) -> usize {
        self.copy_slot.max(self.streams as usize - 1) + 1
    }

    fn is_for_host(&self, slot: OpenSlot) -> bool {
        slot < self.streams as usize
    }

    #[inline(always)]
    fn copy_slot(&self) -> OpenSlot {
        self.copy_slot
    }

    #[inline(always)]
    fn order(&self) -> &PlaneOrder {
        &self.order
    }

    #[inline(always)]
    fn host(&self, access: &Access<'_>) -> (u32, OpenSlot) {
        let slot = if self.streams == 1 { 0 } else { usize::from(access.stream) % self.streams as usize };
        let turn = match self.striping {
            Striping::Static => access.lpn.0 >> self.slot_shift,
            Striping::Dynamic => self.next_turn,
        };
        (turn, slot)
    }

    fn may_go_on(&self) -> bool {
        self.striping == Striping::Dynamic
    }

    #[inline(always)]
    fn plane(&mut self, nand: &NandArray, plane: PlaneId, current: impl FnOnce() -> Option<Ppn>) -> PlaneId {
        match &mut self.most_free {
            None => plane,
            Some(most_free) => most_free.choose(nand, plane, current()),
        }
    }

    #[inline(always)]
    fn placed(&mut self, turn: u32) {
        if self.striping == Striping::Dynamic {
            self.next_turn = if turn + 1 == self.order.len() { 0 } else { turn + 1 };
        }
    }

    fn opened(&mut self, nand: &NandArray, plane: PlaneId, block: BlockId) {
        if let Some(most_free) = &mut self.most_free {
            most_free.opened(nand, plane, block);
        }
    }

    fn found(&mut self, nand: &NandArray, plane: PlaneId, block: Option<BlockId>, free: u32) {
        if let Some(most_free) = &mut self.most_free {
            most_free.found(nand, plane, block, free);
        }
    }

    #[inline(always)]
    fn pages_taken(&mut self, nand: &NandArray, plane: PlaneId, free: u32) {
        if let Some(most_free) = &mut self.most_free {
            most_free.update_free_pages(nand, plane, free);
        }
    }
}
