//! A sequential fill that nobody writes: a formula says where each unit of it is.
//!
//! Spare areas, validity and the table of units are not entered for it. Memory as the system gives it, zeros, stands for
//! what the formula says, until something else is entered. So a filled drive takes memory for what was touched since.

use std::sync::Arc;

use crate::geometry::{BlockId, Geometry, Lpn, PageAt, PlaneId, Ppn};
use crate::plane_order::PlaneOrder;
use crate::tape::{Tape, Taped};

/// Pages of a fill take turns over planes, and fill a block of each in a round; the next round takes the next row.
#[derive(Debug, Clone)]
pub struct Filled {
    geometry: Geometry,
    /// The plane of each turn: the first of those that take its blocks.
    turns: Vec<PlaneId>,
    /// So many planes beside each other take the blocks of a turn, one after the other.
    beside: u32,
    /// By plane, its turn.
    turn_of: Vec<u32>,
}

impl Filled {
    /// The fill of a drive of this shape. Planes take turns in this `order`, each with `beside - 1` that follow it.
    pub fn new(geometry: &Geometry, order: &PlaneOrder, beside: u32) -> Self {
        Self::of_turns(geometry, (0..order.len()).map(|turn| order.at(turn)).collect(), beside)
    }

    fn of_turns(geometry: &Geometry, turns: Vec<PlaneId>, beside: u32) -> Self {
        let mut turn_of = vec![0; geometry.planes() as usize];
        for (turn, plane) in (0..).zip(&turns) {
            turn_of[plane.index()..][..beside as usize].fill(turn);
        }
        Self { geometry: geometry.clone(), turns, beside, turn_of }
    }

    /// Units of a round: a block of each turn.
    pub fn units_per_round(&self) -> u32 {
        self.turns.len() as u32 * self.geometry.data_units_per_block()
    }

    /// From the first unit of a page to that of the next one in its block.
    pub fn stride(&self) -> u32 {
        self.turns.len() as u32 * self.geometry.slots_per_page
    }

    /// The block that is filled at `turn` of `round`.
    pub fn block(&self, round: u32, turn: u32) -> BlockId {
        let plane = PlaneId(self.turns[turn as usize].0 + round % self.beside);
        self.geometry.block(plane, round / self.beside)
    }

    /// Where the fill puts a unit.
    pub fn place(&self, lpn: Lpn) -> Ppn {
        let slots = self.geometry.slots_per_page;
        let (page, turns) = (lpn.0 / slots, self.turns.len() as u32);
        let (nth, pages) = (page / turns, self.geometry.data_pages_per_block);
        let at = PageAt { block: self.block(nth / pages, page % turns), index: nth % pages };
        Ppn(self.geometry.unit(at).0 + lpn.0 % slots)
    }

    /// The unit that the fill puts first into a block.
    pub fn first(&self, block: BlockId) -> Lpn {
        let plane = self.geometry.plane_of(block);
        let turn = self.turn_of[plane.index()];
        let round = self.geometry.row_of(block) * self.beside + plane.0 - self.turns[turn as usize].0;
        Lpn(round * self.units_per_round() + turn * self.geometry.slots_per_page)
    }

    /// The unit that the fill puts there; `None` for the units of a summary page.
    pub fn lpn(&self, ppn: Ppn) -> Option<Lpn> {
        let page = self.geometry.page_of(ppn);
        let slot = ppn.0 % self.geometry.slots_per_page;
        (page.index < self.geometry.data_pages_per_block)
            .then(|| Lpn(self.first(page.block).0 + page.index * self.stride() + slot))
    }

    /// Write a formula to a tape, or read it from there, for a drive of this shape.
    ///
    /// # Errors
    /// When the tape fails, or has what cannot be.
    pub(crate) fn tape(
        formula: &mut Option<Arc<Self>>,
        geometry: &Geometry,
        tape: &mut Tape<'_>,
    ) -> std::io::Result<()> {
        let known = formula.as_deref();
        let mut turns: Vec<PlaneId> = known.map_or_else(Vec::new, |known| known.turns.clone());
        let mut beside = known.map_or(0, |known| known.beside);
        turns.tape(tape)?;
        beside.tape(tape)?;
        let ends = |plane: &PlaneId| plane.0.checked_add(beside).is_some_and(|end| end <= geometry.planes());
        if !turns.iter().all(ends) || turns.is_empty() != (beside == 0) {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        *formula = (beside > 0).then(|| Arc::new(Self::of_turns(geometry, turns, beside)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DeviceConfig;
    use crate::plane_order::AllocationOrder;

    /// Every block of a shape, filled page by page.
    fn check(text: &str, beside: u32) {
        let config: DeviceConfig = serde_json::from_str(text).unwrap();
        let geometry = config.to_geometry();
        let order = PlaneOrder::new(&geometry, AllocationOrder::default(), beside == 1);
        let filled = Filled::new(&geometry, &order, beside);
        let slots = geometry.slots_per_page;
        let mut next = 0;
        for round in 0..geometry.blocks_per_plane() * beside {
            for index in 0..geometry.data_pages_per_block {
                for turn in 0..order.len() {
                    let block = filled.block(round, turn);
                    for slot in 0..slots {
                        let ppn = Ppn(geometry.unit(PageAt { block, index }).0 + slot);
                        assert_eq!((filled.place(Lpn(next)), filled.lpn(ppn)), (ppn, Some(Lpn(next))));
                        next += 1;
                    }
                }
            }
        }
        // Every data page has been there.
        assert_eq!(next, geometry.blocks() * geometry.data_units_per_block());
    }

    #[test]
    fn places_are_those_of_pages_written_in_turn() {
        let shape = |more: &str| {
            format!(
                r#"{{ "geometry": {{ "channels": 3, "ways": 2, "dies": 1, "planes": 2, "blocks_per_plane": 7,
                "pages_per_block": 12, "page_bytes": 16384 {more}"#
            )
        };
        check(&shape("} }"), 1);
        check(&shape("} }"), 2);
        check(&shape(r#", "mapping_unit_bytes": 4096 } }"#), 1);
        check(&shape(r#"}, "ftl": { "summary_page": true } }"#), 2);
        let summary = shape(r#"}, "ftl": { "summary_page": true } }"#);
        let geometry = serde_json::from_str::<DeviceConfig>(&summary).unwrap().to_geometry();
        let filled = Filled::new(&geometry, &PlaneOrder::new(&geometry, AllocationOrder::default(), true), 1);
        assert_eq!(filled.lpn(Ppn(11)), None);
    }
}
