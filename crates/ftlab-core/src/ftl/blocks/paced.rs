//! Victims that are emptied over several writes: chosen ahead of need, and no candidates meanwhile.
//!
//! A victim whose live units fill `copies` pages gains the others of its block. When so many pages have been written in its
//! plane, it must be empty. So each of them waits for its share of the copies.

use super::{Blocks, Turns};
use crate::flash::nand::NandArray;
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, DieId, PlaneId};
use crate::tape::taped;

/// A victim under way, and how far it is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Paced {
    block: BlockId,
    /// Its number among internal works: its copies stand in it as well until it is erased.
    work: u32,
    /// Pages that its live units filled when it was chosen.
    copies: u32,
    /// Pages written in the plane since.
    written: u32,
    /// Pages copied since.
    copied: u32,
}

taped! { Paced { block, work, copies, written, copied } else {} }

/// What became of a choice ahead of need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Begun {
    /// There is nothing to choose.
    Nothing,
    /// This victim is under way.
    Paced(BlockId),
    /// This one is wholly live: a policy that chooses blindly has come to it.
    InVain(BlockId),
}

/// Pages owed when `written` of the `gain` pages that a victim gives are written, of `copies`.
fn owed(written: u32, copies: u32, gain: u32) -> u32 {
    (u64::from(written) * u64::from(copies)).div_ceil(gain.into()).min(copies.into()) as u32
}

impl<V: VictimPolicy> Blocks<V> {
    fn bit(&self, plane: PlaneId) -> (DieId, u64) {
        let die = self.geometry.die_of(plane);
        (die, 1 << (plane.0 - self.geometry.first_plane(die).0))
    }

    /// A victim may be begun in the plane if it has few free blocks.
    pub(super) fn note_if_ahead(&mut self, plane: PlaneId) {
        if self.ahead_free_blocks.is_some_and(|most| self.free(plane) <= most) {
            let (die, bit) = self.bit(plane);
            self.dies[die.index()].ahead |= bit;
        }
    }

    /// Whether a plane of the die has a victim under way, or may begin one.
    #[inline(always)]
    pub(crate) fn is_ahead(&self, die: DieId) -> bool {
        self.dies[die.index()].ahead != 0
    }

    /// Whether `block` is a victim under way.
    pub(super) fn is_paced(&self, block: BlockId) -> bool {
        let paced = &self.planes[self.geometry.plane_of(block).index()].paced;
        paced.is_some_and(|paced| paced.block == block)
    }

    /// The plane of the die whose turn it is.
    pub(crate) fn turn_ahead(&mut self, die: DieId) -> PlaneId {
        let (first, count) = (self.geometry.first_plane(die).0, self.geometry.planes_per_die());
        let next = &mut self.dies[die.index()].next_ahead;
        let at = *next;
        *next = if at + 1 == count { 0 } else { at + 1 };
        PlaneId(first + at)
    }

    /// The victim of `plane` under way, and the number of the work.
    pub(crate) fn paced(&self, plane: PlaneId) -> Option<(BlockId, u32)> {
        self.planes[plane.index()].paced.map(|paced| (paced.block, paced.work))
    }

    /// Number the work on the victim of `plane` that was just begun.
    pub(crate) fn number_paced(&mut self, plane: PlaneId, work: u32) {
        if let Some(paced) = &mut self.planes[plane.index()].paced {
            paced.work = work;
        }
    }

    /// A page is written in `plane` next: how many pages of the victim under way are to be copied before, if there is one.
    pub(crate) fn next_share(&mut self, plane: PlaneId) -> Option<u32> {
        let pages = self.geometry.data_pages_per_block;
        let paced = self.planes[plane.index()].paced.as_mut()?;
        paced.written += 1;
        let owed = owed(paced.written, paced.copies, pages - paced.copies);
        Some(owed - std::mem::replace(&mut paced.copied, owed))
    }

    /// Whether a victim is to be begun in `plane` now. If there is none to be had, nobody asks again until its next block is
    /// opened.
    pub(crate) fn may_begin_paced(&self, plane: PlaneId) -> bool {
        let (die, bit) = self.bit(plane);
        self.dies[die.index()].ahead & bit != 0 && self.planes[plane.index()].paced.is_none()
    }

    /// Choose a victim of `plane`, which is no candidate any more. One that gains something is under way from now on; one that
    /// does not is to be emptied at once, as nothing is ever written in its place.
    pub(in crate::ftl) fn begin_paced(
        &mut self,
        nand: &NandArray,
        plane: PlaneId,
        turns: &mut Turns,
    ) -> Begun {
        let is_ahead = self.ahead_free_blocks.is_some_and(|most| self.free(plane) <= most);
        let Some(victim) = is_ahead.then(|| self.next_victim(nand, plane, turns)).flatten() else {
            let (die, bit) = self.bit(plane);
            self.dies[die.index()].ahead &= !bit;
            return Begun::Nothing;
        };
        let valid = self.heard(nand, victim);
        if !self.gains(valid) {
            return Begun::InVain(victim);
        }
        let copies = valid.div_ceil(self.geometry.slots_per_page);
        self.planes[plane.index()].paced = Some(Paced { block: victim, copies, ..Paced::default() });
        Begun::Paced(victim)
    }

    /// The victim of `plane` under way has been erased.
    pub(crate) fn end_paced(&mut self, plane: PlaneId) {
        let (die, bit) = self.bit(plane);
        self.planes[plane.index()].paced = None;
        self.dies[die.index()].ahead &= !bit;
        self.note_if_ahead(plane);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_victim_is_empty_when_its_space_is_used_up() {
        for pages in 1..40_u32 {
            for copies in 0..pages {
                let gain = pages - copies;
                let most = copies.div_ceil(gain);
                let mut before = 0;
                for written in 1..=gain {
                    let now = owed(written, copies, gain);
                    assert!(now > 0 || copies == 0, "each write must do something");
                    assert!(now - before <= most, "{copies} copies, {gain} gained, {written} written");
                    before = now;
                }
                assert_eq!(before, copies);
                assert_eq!(owed(gain + 7, copies, gain), copies);
            }
        }
    }
}
