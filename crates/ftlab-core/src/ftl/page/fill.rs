//! Sequential fills of an erased drive, by formula where nothing looks at each write.

use std::sync::Arc;

use super::PageFtl;
use crate::access::PageRun;
use crate::cause::Cause;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::filled::Filled;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::blocks::Place;
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::policy::Placement;
use crate::geometry::{Lpn, PlaneId};
use crate::plane_order::PlaneOrder;

/// So many units of a fill are written between two looks at whether it is still wanted.
const FILLED_AT_ONCE: u32 = 1 << 22;

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> PageFtl<V, L, T, CACHED> {
    /// Whether something looks at each write of a fill: a formula would escape it.
    fn is_fill_watched<P: FlashPort<Ticket = T>>(&self, flash: &Flash<P>) -> bool {
        CACHED || P::LISTENS || self.retained.is_on || flash.has_backup() || flash.nand.verifies()
    }

    /// Block after block: a page of each die in turn, and the next plane of the die when a block is full.
    pub(super) fn fill_block_by_block<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        cause: Cause,
        versions: &[u32],
    ) -> FlashResult<()> {
        let ready = flash.port.ready();
        // A plane that has addresses of its own has room for no others.
        let homes = if self.placement.may_go_on() {
            PlaneOrder::new(&self.geometry, self.config.allocation, false)
        } else {
            self.standing.order.clone()
        };
        let planes = self.geometry.planes() / homes.len();
        let filled =
            (!self.is_fill_watched(flash)).then(|| Arc::new(Filled::new(&self.geometry, &homes, planes)));
        let logical = self.geometry.logical_units;
        let pages = self.geometry.data_pages_per_block;
        // The n-th page of a die goes to its block n / pages, which stands in plane block mod planes. Dies take turns,
        // so that neighbouring units are written soon after each other.
        let (mut starts, mut places) = (Vec::new(), Vec::new());
        for round in 0..logical.div_ceil(homes.len() * pages) {
            flash.check_interrupt()?;
            starts.clear();
            let left = logical - round * homes.len() * pages;
            let mut is_as_filled = left >= homes.len() * pages;
            for turn in 0..homes.len().min(left) {
                let plane = PlaneId(homes.at(turn).0 + round % planes);
                let count = (left - turn).div_ceil(homes.len()).min(pages);
                let Some(block) = self.open_block(&mut flash.nand, plane, 0, 1) else {
                    return Err(self.full(plane, "the fill"));
                };
                let start = logical - left + turn;
                let run = PageRun { first: Lpn(start), stride: homes.len(), pages: count };
                let place = Place { plane, slot: 0, block };
                let formula = filled.as_ref().filter(|filled| filled.block(round, turn) == block);
                is_as_filled &= formula.is_some();
                starts.push(match formula.filter(|_| count == pages) {
                    Some(filled) => self.blocks.append_as_filled(flash, place, filled, cause)?,
                    None => self.blocks.append_new(flash, place, run, versions, cause)?,
                });
            }
            let units = logical - left..logical - left + left.min(homes.len() * pages);
            match filled.as_ref().filter(|_| is_as_filled) {
                Some(filled) => self.table.map.set_as_filled(units.end, filled),
                None => self.table.map.set_in_turn(units, &starts, 1, &mut places),
            }
        }
        for plane in (0..self.geometry.planes()).map(PlaneId) {
            self.open_block(&mut flash.nand, plane, 0, 1);
            self.pages_taken(&flash.nand, plane);
        }
        // The host goes on where the fill has ended.
        let (dies, last) = (homes.len(), logical - 1);
        let last = PlaneId(homes.at(last % dies).0 + last / dies / pages % planes);
        let turn = (0..self.standing.order.len()).find(|turn| self.standing.order.at(*turn) == last);
        if let Some(turn) = turn {
            self.placement.placed(0, turn);
        }
        if CACHED {
            for tpn in 0..self.table.translation.as_ref().map_or(0, |translation| translation.layout.pages())
            {
                self.write_translation(flash, tpn, ready)?;
            }
        }
        Ok(())
    }

    /// The next units from `from` on, as if pages were written in turn over all planes; how many. The rest, if any, is written.
    pub(super) fn fill_page_by_page<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        from: Lpn,
        cause: Cause,
    ) -> FlashResult<u32> {
        if self.is_fill_watched(flash) || !self.standing.fills_in_turn {
            return Ok(0);
        }
        let slots = self.geometry.slots_per_page;
        let turns = self.standing.order.len();
        let filled = Arc::new(Filled::new(&self.geometry, &self.standing.order, 1));
        // A row is a page in each plane, and a round all rows of a block in each plane.
        let row = turns * slots;
        let mut next = from.0;
        let (mut starts, mut places) = (Vec::new(), Vec::new());
        while next - from.0 < FILLED_AT_ONCE && self.blocks.have_one_each() {
            let pages = ((self.geometry.logical_units - next) / row).min(self.geometry.data_pages_per_block);
            if pages == 0 {
                break;
            }
            // As pages come in turn: all blocks are opened before the first of them is full.
            for turn in 0..turns {
                let plane = self.standing.order.at(turn);
                if self.open_block(&mut flash.nand, plane, 0, 1).is_none() {
                    return Err(self.full(plane, "the fill"));
                }
            }
            starts.clear();
            let mut is_as_filled = pages == self.geometry.data_pages_per_block;
            for turn in 0..turns {
                let plane = self.standing.order.at(turn);
                let Some(block) = self.blocks.opened(plane, 0) else {
                    return Err(self.full(plane, "the fill"));
                };
                let run = PageRun { first: Lpn(next + turn * slots), stride: row, pages };
                let place = Place { plane, slot: 0, block };
                is_as_filled &= filled.block(next / filled.units_per_round(), turn) == block;
                starts.push(if is_as_filled {
                    self.blocks.append_as_filled(flash, place, &filled, cause)?
                } else {
                    self.blocks.append_new(flash, place, run, &[], cause)?
                });
            }
            let units = next..next + pages * row;
            next = units.end;
            if is_as_filled {
                self.table.map.set_as_filled(next, &filled);
            } else {
                self.table.map.set_in_turn(units, &starts, slots, &mut places);
            }
        }
        Ok(next - from.0)
    }
}
