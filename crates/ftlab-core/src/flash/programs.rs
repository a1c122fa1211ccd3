//! Programs that may not have ended: which one an erase must wait for on another lane.

use crate::geometry::{BlockId, Geometry, PageAt};

/// The last program of each block, and the last few of each lane with their pages.
///
/// A victim must not be erased before the newer data of what it held are in flash. These may be anywhere in a block that is
/// being filled. To wait for the last program of it would be to wait for data that have nothing to do with the victim.
#[derive(Debug, Clone)]
pub(super) struct Programs<T> {
    /// By block; empty where nobody asks.
    last: Vec<T>,
    /// `KEPT` of each lane, in a ring.
    recent: Vec<Recent<T>>,
    /// By lane: its place that is written next.
    next: Vec<u8>,
    /// By block: how many places have it.
    places: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct Recent<T> {
    block: BlockId,
    /// Pages of the block that are in flash when `done` has passed.
    pages: u32,
    /// Of copies: whose.
    from: Option<BlockId>,
    done: T,
}

/// A lane with more programs under way makes erases wait a little longer than they must.
const KEPT: usize = 32;

impl<T: Copy> Programs<T> {
    /// Of a drive with so many lanes, none of whose programs are under way; with `is_asked` false, of no use.
    pub(super) fn new(geometry: &Geometry, lanes: u32, is_asked: bool, ready: T) -> Self {
        let (blocks, lanes) = if is_asked { (geometry.blocks() as usize, lanes as usize) } else { (0, 0) };
        Self {
            last: vec![ready; blocks],
            // Nobody finds a place that has no pages.
            recent: vec![Recent { block: BlockId(0), pages: 0, from: None, done: ready }; lanes * KEPT],
            next: vec![0; lanes],
            places: vec![0; blocks],
        }
    }

    /// Whether somebody asks.
    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        !self.last.is_empty()
    }

    /// When all that a block has is in flash, there or where it was copied from.
    #[inline]
    pub(super) fn last(&self, block: BlockId) -> T {
        self.last[block.index()]
    }

    /// What the first `pages` of a block of `lane` hold is in flash when `done` has passed. Those from `first` on were
    /// programmed now, and may be copies of what the block `from` had.
    #[inline]
    pub(super) fn note(&mut self, lane: u32, first: PageAt, pages: u32, from: Option<BlockId>, done: T) {
        let block = first.block;
        let before = std::mem::replace(&mut self.last[block.index()], done);
        if self.places[block.index()] == 0 && first.index > 0 {
            // From before the run, or forgotten: they need not wait for this one.
            self.keep(lane, Recent { block, pages: first.index, from: None, done: before });
        }
        let of_lane = &mut self.recent[lane as usize * KEPT..][..KEPT];
        let newest = &mut of_lane[(usize::from(self.next[lane as usize]) + KEPT - 1) % KEPT];
        if from.is_some() && (newest.block, newest.from) == (block, from) {
            // Of one victim there may be many copies.
            (newest.pages, newest.done) = (pages, done);
            return;
        }
        self.keep(lane, Recent { block, pages, from, done });
    }

    /// In place of the oldest of the lane.
    #[inline(always)]
    fn keep(&mut self, lane: u32, recent: Recent<T>) {
        let next = &mut self.next[lane as usize];
        let place = &mut self.recent[lane as usize * KEPT + usize::from(*next)];
        *next = (*next + 1) % KEPT as u8;
        if place.pages > 0 {
            self.places[place.block.index()] -= 1;
        }
        self.places[recent.block.index()] += 1;
        *place = recent;
    }

    /// When what page `index` of a block of `lane` holds is in flash, or a little later.
    #[inline]
    pub(super) fn end_of(&self, lane: u32, block: BlockId, index: u32) -> T {
        if self.places[block.index()] == 0 {
            return self.last[block.index()];
        }
        let of_lane = &self.recent[lane as usize * KEPT..][..KEPT];
        let (older, newer) = of_lane.split_at(self.next[lane as usize].into());
        let mut found = (u32::MAX, self.last[block.index()]);
        // The newest first. More pages than of the one after it are those of an earlier life of the block.
        for recent in older.iter().rev().chain(newer.iter().rev()).filter(|recent| recent.block == block) {
            if recent.pages <= index || recent.pages >= found.0 {
                break;
            }
            found = (recent.pages, recent.done);
        }
        found.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DeviceConfig;

    #[test]
    fn a_page_waits_for_its_own_program_as_long_as_that_is_known() {
        let text = r#"{ "geometry": { "channels": 2, "ways": 1, "dies": 1, "planes": 1, "blocks_per_plane": 8,
            "pages_per_block": 64, "page_bytes": 4096 } }"#;
        let geometry = serde_json::from_str::<DeviceConfig>(text).unwrap().to_geometry();
        assert!(!Programs::new(&geometry, 2, false, 0).is_asked());
        let mut programs = Programs::new(&geometry, 2, true, 0);
        let (one, other) = (BlockId(3), BlockId(9));
        let page = |block, index| PageAt { block, index };
        assert_eq!(programs.end_of(0, one, 0), 0);
        for at in 0..5 {
            programs.note(0, page(one, at), at + 1, None, 10 + at);
            programs.note(1, page(other, 2 * at), 2 * at + 2, None, 20 + at);
        }
        assert_eq!([0, 3, 4].map(|at| programs.end_of(0, one, at)), [10, 13, 14]);
        // Two pages with one program.
        assert_eq!([0, 1, 2, 9].map(|at| programs.end_of(1, other, at)), [20, 20, 21, 24]);
        // The first ones are forgotten: what is known has ended later.
        for at in 5..5 + KEPT as u32 - 2 {
            programs.note(0, page(one, at), at + 1, None, 10 + at);
        }
        assert_eq!([0, 2, 3, 4, 30].map(|at| programs.end_of(0, one, at)), [13, 13, 13, 14, 40]);
        // Another block fills the ring, and the last program of the first one is all that is known of it.
        for at in 0..KEPT as u32 {
            programs.note(0, page(BlockId(4), at), at + 1, None, 100 + at);
        }
        assert_eq!(programs.places[one.index()], 0);
        assert_eq!([0, 30].map(|at| programs.end_of(0, one, at)), [44, 44]);
        // So they do when it goes on.
        programs.note(0, page(one, 35), 36, None, 150);
        assert_eq!([0, 34, 35].map(|at| programs.end_of(0, one, at)), [44, 44, 150]);
        // Nothing waits for what was there when the run began.
        programs.note(0, page(BlockId(5), 7), 8, None, 160);
        assert_eq!([0, 6, 7].map(|at| programs.end_of(0, BlockId(5), at)), [0, 0, 160]);
        // Copies of one victim are one entry.
        for at in 0..KEPT as u32 {
            programs.note(1, page(BlockId(12), at), at + 1, Some(one), 300 + at);
        }
        assert_eq!((programs.end_of(1, BlockId(12), 3), programs.end_of(1, other, 2)), (331, 21));
        // What is known of an earlier life of a block says nothing of the one that follows.
        programs.note(0, page(BlockId(4), 0), 1, None, 200);
        programs.note(0, page(BlockId(4), 1), 2, None, 201);
        assert_eq!([0, 1].map(|at| programs.end_of(0, BlockId(4), at)), [200, 201]);
    }
}
