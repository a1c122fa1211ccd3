//! Which plane has most free pages (`plane_choice = "most_free"`).

use super::{Die, PageFtl};
use crate::config::PlaneChoice;
use crate::flash::nand::NandArray;
use crate::flash::port::Ticket;
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, DieId, Lpn, PlaneId};

/// What `plane_choice = "most_free"` compares of a plane.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Free pages, those of the block opened last included.
    pub(super) pages: u32,
    /// The block opened last, where pages are written now; `u32::MAX` when there was none.
    pub(super) newest: u32,
    /// When that was; `u32::MAX` when there was none.
    pub(super) opened: u32,
}

impl<V: VictimPolicy, T: Ticket, const CACHED: bool> PageFtl<V, T, CACHED> {
    /// Which plane takes the page that `lpn` is written to, when it is the turn of `plane` or of its die.
    #[inline(always)]
    pub(super) fn plane_for(&mut self, nand: &NandArray, plane: PlaneId, lpn: Lpn) -> PlaneId {
        match self.config.plane_choice {
            PlaneChoice::Ordered => plane,
            PlaneChoice::MostFree => self.most_free_plane(nand, self.geometry.die_of(plane), lpn),
        }
    }

    /// The plane with most free pages among those whose open block is newer than where `lpn` is now.
    #[inline]
    fn most_free_plane(&mut self, nand: &NandArray, die: DieId, lpn: Lpn) -> PlaneId {
        // Openings have different numbers: an open block of the same number is the place itself. Without a current place
        // every open block is newer.
        let age = self.lookup(lpn).map_or(0, |ppn| nand.sequence(self.geometry.block_of(ppn)));
        let first = self.geometry.first_plane(die);
        let Die { next_written: start, roomiest, oldest_open, .. } = self.dies[die.index()];
        let chosen = if oldest_open >= age {
            // The first from `start` on, and round.
            let from = roomiest >> start;
            if from != 0 { start + from.trailing_zeros() } else { roomiest.trailing_zeros() }
        } else {
            self.most_free_newer(first, start, age)
        };
        let next = chosen + 1;
        self.dies[die.index()].next_written = if next == self.geometry.planes_per_die() { 0 } else { next };
        PlaneId(first.0 + chosen)
    }

    /// The same where not every open block is newer than `age`.
    fn most_free_newer(&self, first: PlaneId, start: u32, age: u32) -> u32 {
        let count = self.geometry.planes_per_die();
        // Without a newer open block (every one is older than a copy just made) the next in turn has to do.
        let (mut chosen, mut most) = (start, 0);
        for at in (start..count).chain(0..start) {
            let Room { pages, opened, .. } = self.rooms[first.index() + at as usize];
            if opened >= age && pages > most {
                (chosen, most) = (at, pages);
            }
        }
        chosen
    }

    /// The free pages of `plane` have changed.
    #[inline(always)]
    pub(super) fn measure_room(&mut self, nand: &NandArray, plane: PlaneId) {
        if self.config.plane_choice == PlaneChoice::MostFree {
            self.count_room(nand, plane);
        }
    }

    fn count_room(&mut self, nand: &NandArray, plane: PlaneId) {
        let room = &mut self.rooms[plane.index()];
        // A full block counts the page of its summary as room: so does the rule's source.
        let open = if room.newest == u32::MAX {
            0
        } else {
            let next = nand.next_page(BlockId(room.newest));
            self.geometry.pages_per_block() - next.min(self.geometry.data_pages_per_block)
        };
        let pages = self.planes[plane.index()].free.len() * self.geometry.pages_per_block() + open;
        room.pages = pages;
        let die = self.geometry.die_of(plane);
        let first = self.geometry.first_plane(die);
        let bit = 1 << (plane.0 - first.0);
        let state = &mut self.dies[die.index()];
        if pages < state.most_room && state.roomiest != bit {
            state.roomiest &= !bit;
            state.second_room = state.second_room.max(pages);
        } else if pages > state.second_room && pages < state.most_room {
            state.most_room = pages;
        } else {
            self.compare_rooms(die, first);
        }
    }

    /// Find the planes of `die` with most free pages.
    pub(super) fn compare_rooms(&mut self, die: DieId, first: PlaneId) {
        let rooms = &self.rooms[first.index()..][..self.geometry.planes_per_die() as usize];
        let state = &mut self.dies[die.index()];
        state.most_room = rooms.iter().map(|room| room.pages).max().unwrap_or(0);
        let has_most = |room: &Room| u64::from(room.pages == state.most_room);
        state.roomiest = rooms.iter().rev().fold(0, |bits, room| bits << 1 | has_most(room));
        let others = rooms.iter().map(|room| room.pages).filter(|pages| *pages != state.most_room);
        state.second_room = others.max().unwrap_or(0);
        state.oldest_open = rooms.iter().map(|room| room.opened).min().unwrap_or(0);
    }
}
