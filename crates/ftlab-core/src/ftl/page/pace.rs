//! Collection ahead of need: the copies of a victim are spread over the writes that its space will take.

use super::PageFtl;
use crate::cause::Cause;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::blocks::paced::Begun;
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::policy::Placement;
use crate::geometry::PlaneId;

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> PageFtl<V, L, T, CACHED> {
    /// A page is written in `plane` next: copy its share of the victim under way, and begin one where that is due.
    #[cold]
    #[inline(never)]
    pub(super) fn collect_ahead<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
    ) -> FlashResult<()> {
        // Planes that are compared take turns: if only the one that is written gained, it would be written for ever.
        let die = self.geometry.die_of(plane);
        let plane = if self.standing.compares_planes { self.blocks.turn_ahead(die) } else { plane };
        if self.blocks.may_begin_paced(plane) {
            self.begin_ahead(flash, plane)?;
        }
        let Some(pages) = self.blocks.next_share(plane) else { return Ok(()) };
        flash.check_interrupt()?;
        self.copy_first(flash, plane, pages)?;
        // Copies may have opened the block that was one too many.
        if self.blocks.is_low(die) {
            self.collect(flash, die)?;
        }
        Ok(())
    }

    /// Begin a victim in `plane`, if one is to be had.
    fn begin_ahead<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
    ) -> FlashResult<()> {
        let mut turns = self.blocks.turns(self.geometry.die_of(plane), true);
        loop {
            match self.blocks.begin_paced(&flash.nand, plane, &mut turns) {
                Begun::Nothing => return Ok(()),
                Begun::InVain(victim) => {
                    flash.check_interrupt()?;
                    self.collect_block(flash, plane, victim, false)?;
                }
                Begun::Paced(victim) => {
                    self.counters.gc.collections += 1;
                    self.placement.collected(victim);
                    self.blocks.number_paced(plane, flash.new_internal());
                    return Ok(());
                }
            }
        }
    }

    /// Empty the victim of `plane` under way, if there is one. Says whether there was.
    #[cold]
    #[inline(never)]
    pub(super) fn finish_ahead<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
    ) -> FlashResult<bool> {
        self.copy_first(flash, plane, self.geometry.data_pages_per_block)
    }

    /// Copy the first live units of the victim under way, as many as fill `pages` pages, and erase it when none is left. Says
    /// whether there is a victim.
    ///
    /// A lane is first in, first out: the erase comes after the copies of all steps.
    fn copy_first<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        pages: u32,
    ) -> FlashResult<bool> {
        let Some((victim, work)) = self.blocks.paced(plane) else { return Ok(false) };
        let writer = flash.resume_internal(work);
        let mut survivors = std::mem::take(&mut self.survivors);
        survivors.clear();
        let most = (pages * self.geometry.slots_per_page) as usize;
        flash.nand.collect_first_valid(victim, most, &mut survivors);
        self.counters.gc.pages_copied += survivors.len() as u64;
        let to = (plane, self.standing.copy_slot);
        let copied = self.copy_survivors(flash, to, victim, &survivors, true, Cause::Gc)?;
        self.survivors = survivors;
        if flash.nand.valid_units(victim) > 0 {
            flash.end_internal(writer);
        } else {
            let copied = self.before_erase(flash, victim, copied)?;
            flash.end_internal(writer);
            self.blocks.erase(flash, victim, Cause::Gc, copied)?;
            self.blocks.end_paced(plane);
            self.level_wear(flash, plane)?;
        }
        self.pages_taken(&flash.nand, plane);
        Ok(true)
    }
}
