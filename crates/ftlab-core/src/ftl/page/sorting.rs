//! What collection copies, where the placement tells it apart: several open blocks take what one victim has.

use super::{PageFtl, lost};
use crate::cause::Cause;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::blocks::Place;
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::policy::{OpenSlot, Placement};
use crate::geometry::{BlockId, PlaneId, Ppn};
use crate::tape::taped;

/// Memory for the sorting of what is copied.
#[derive(Debug, Clone, Default)]
pub(super) struct CopySorting {
    /// The live units of a victim, and where each goes.
    slots: Vec<(OpenSlot, Ppn)>,
    /// Those that go to one open block.
    group: Vec<Ppn>,
    /// Those that fill no page of their own open block.
    rest: Vec<Ppn>,
}

taped! { CopySorting { slots, group, rest } else {} }

impl CopySorting {
    pub(super) fn table_bytes(&self) -> u64 {
        let Self { slots, group, rest } = self;
        (slots.capacity() * size_of::<(OpenSlot, Ppn)>()
            + (group.capacity() + rest.capacity()) * size_of::<Ppn>()) as u64
    }
}

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> PageFtl<V, L, T, CACHED> {
    /// Whether the placement tells apart what is copied: not translation pages, which have a slot of their own.
    #[inline(always)]
    fn sorts_copies_of(&self, slot: OpenSlot) -> bool {
        self.standing.sorts_copies && !(CACHED && slot == self.map_slot())
    }

    /// Move the units `survivors` of `victim` into open blocks of their plane: into `slot`, or what collection copies where the
    /// placement says. `all`: they are all live ones, in order.
    #[inline(always)]
    pub(super) fn copy_survivors<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        (plane, slot): (PlaneId, OpenSlot),
        victim: BlockId,
        survivors: &[Ppn],
        all: bool,
        cause: Cause,
    ) -> FlashResult<T> {
        if self.sorts_copies_of(slot) && cause == Cause::Gc {
            return self.copy_sorted(flash, plane, victim, survivors, all);
        }
        self.copy_units(flash, plane, slot, survivors, all, cause)
    }

    /// Each open block takes whole pages. What is left shares pages: otherwise collection could fill more pages than it frees. A
    /// page of flash whose units part ways is read once for each open block that takes some.
    #[cold]
    #[inline(never)]
    fn copy_sorted<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        victim: BlockId,
        survivors: &[Ppn],
        all: bool,
    ) -> FlashResult<T> {
        let mut copied = flash.port.ready();
        let CopySorting { mut slots, mut group, mut rest } = std::mem::take(&mut self.sorting);
        let most = self.geometry.units_per_block() as usize;
        slots.clear();
        rest.clear();
        slots.reserve(most);
        rest.reserve(most);
        for ppn in survivors {
            let lpn = flash.nand.lpn(*ppn).ok_or_else(|| lost(*ppn))?;
            slots.push((self.placement.copied(victim, lpn), *ppn));
        }
        let per_page = self.geometry.slots_per_page as usize;
        let mut last = self.standing.copy_slot;
        for slot in 0..self.placement.slots() {
            group.clear();
            group.reserve(most);
            group.extend(slots.iter().filter(|unit| unit.0 == slot).map(|unit| unit.1));
            if group.is_empty() {
                continue;
            }
            last = slot;
            let all = all && group.len() == survivors.len();
            rest.extend(group.drain(group.len() / per_page * per_page..));
            let done = self.copy_units(flash, plane, slot, &group, all, Cause::Gc)?;
            copied = flash.port.join(copied, done);
        }
        let done = self.copy_units(flash, plane, last, &rest, false, Cause::Gc)?;
        copied = flash.port.join(copied, done);
        self.sorting = CopySorting { slots, group, rest };
        Ok(copied)
    }

    /// There is no free block for `slot`: another open block for copies takes them. All together have room for a victim, or a
    /// free block would be left.
    #[cold]
    #[inline(never)]
    pub(super) fn place_for_copies(&self, plane: PlaneId, slot: OpenSlot) -> FlashResult<Place> {
        let slots = if self.sorts_copies_of(slot) { self.placement.slots() } else { 0 };
        let mut others = (0..slots).filter(|slot| !self.placement.is_for_host(*slot));
        let found =
            others.find_map(|slot| Some(Place { plane, slot, block: self.blocks.opened(plane, slot)? }));
        found.ok_or_else(|| self.full(plane, "copies of garbage collection"))
    }
}
