//! Which plane of a die has most free pages (`plane_choice = "most_free"`).

use crate::flash::nand::NandArray;
use crate::geometry::{BlockId, DieId, Geometry, PlaneId, Ppn};
use crate::tape::{Tape, Taped, taped};

/// What is compared of a plane.
#[derive(Debug, Clone, Copy)]
struct FreePages {
    /// Free pages, those of the block opened last included.
    pages: u32,
    /// The block opened last, where pages are written now; `u32::MAX` when there was none.
    newest: u32,
    /// When that was; `u32::MAX` when there was none.
    opened: u32,
}

taped! { FreePages { pages, newest, opened } else {} }

/// The planes of a die by free pages.
#[derive(Debug, Clone, Copy)]
struct Ranking {
    /// The plane (within the die) whose turn to be written it is.
    next_written: u32,
    /// The most free pages that a plane has, and which planes have them, as bits.
    most: u32,
    with_most: u64,
    /// No other plane has more.
    second: u32,
    /// The least `opened` of its planes.
    oldest_open: u32,
}

taped! { Ranking { next_written, most, with_most, second, oldest_open } else {} }

/// Free pages of every plane, and the planes of every die by them.
#[derive(Debug, Clone)]
pub(super) struct MostFree {
    geometry: Geometry,
    planes: Vec<FreePages>,
    dies: Vec<Ranking>,
}

impl Taped for MostFree {
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { geometry: _, planes, dies } = self;
        tape.each(planes)?;
        tape.each(dies)
    }
}

impl MostFree {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let pages = geometry.blocks_per_plane() * geometry.pages_per_block();
        let plane = FreePages { pages, newest: u32::MAX, opened: u32::MAX };
        let die = Ranking {
            next_written: 0,
            most: pages,
            with_most: u64::MAX >> (64 - geometry.planes_per_die()),
            second: 0,
            oldest_open: u32::MAX,
        };
        Self {
            planes: vec![plane; geometry.planes() as usize],
            dies: vec![die; geometry.dies() as usize],
            geometry: geometry.clone(),
        }
    }

    /// The plane with most free pages, of the die of `plane`, among those whose open block is newer than that of `current`.
    #[inline]
    pub(super) fn choose(&mut self, nand: &NandArray, plane: PlaneId, current: Option<Ppn>) -> PlaneId {
        let die = self.geometry.die_of(plane);
        // Openings have different numbers: an open block of the same number is the place itself. Without a current place
        // every open block is newer.
        let age = current.map_or(0, |ppn| nand.sequence(self.geometry.block_of(ppn)));
        let first = self.geometry.first_plane(die);
        let Ranking { next_written: start, with_most, oldest_open, .. } = self.dies[die.index()];
        let chosen = if oldest_open >= age {
            // The first from `start` on, and round.
            let from = with_most >> start;
            if from != 0 { start + from.trailing_zeros() } else { with_most.trailing_zeros() }
        } else {
            self.choose_newer(first, start, age)
        };
        let next = chosen + 1;
        self.dies[die.index()].next_written = if next == self.geometry.planes_per_die() { 0 } else { next };
        PlaneId(first.0 + chosen)
    }

    /// The same where not every open block is newer than `age`.
    fn choose_newer(&self, first: PlaneId, start: u32, age: u32) -> u32 {
        let count = self.geometry.planes_per_die();
        // Without a newer open block (every one is older than a copy just made) the next in turn has to do.
        let (mut chosen, mut most) = (start, 0);
        for at in (start..count).chain(0..start) {
            let FreePages { pages, opened, .. } = self.planes[first.index() + at as usize];
            if opened >= age && pages > most {
                (chosen, most) = (at, pages);
            }
        }
        chosen
    }

    /// `block` was opened in `plane`.
    pub(super) fn opened(&mut self, nand: &NandArray, plane: PlaneId, block: BlockId) {
        let state = &mut self.planes[plane.index()];
        (state.newest, state.opened) = (block.0, nand.sequence(block));
        self.rank_planes(self.geometry.die_of(plane));
    }

    /// A mount has found `plane` with `free` free blocks, and `block` open.
    pub(super) fn found(&mut self, nand: &NandArray, plane: PlaneId, block: Option<BlockId>, free: u32) {
        if let Some(block) = block {
            let state = &mut self.planes[plane.index()];
            (state.newest, state.opened) = (block.0, nand.sequence(block));
        }
        self.update_free_pages(nand, plane, free);
        self.rank_planes(self.geometry.die_of(plane));
    }

    /// The free pages of `plane` have changed; it has `free` free blocks.
    #[inline]
    pub(super) fn update_free_pages(&mut self, nand: &NandArray, plane: PlaneId, free: u32) {
        let state = &mut self.planes[plane.index()];
        // A full block counts the page of its summary as room: so does the rule's source.
        let open = if state.newest == u32::MAX {
            0
        } else {
            let next = nand.next_page(BlockId(state.newest));
            self.geometry.pages_per_block() - next.min(self.geometry.data_pages_per_block)
        };
        let pages = free * self.geometry.pages_per_block() + open;
        state.pages = pages;
        let die = self.geometry.die_of(plane);
        let bit = 1 << (plane.0 - self.geometry.first_plane(die).0);
        let ranking = &mut self.dies[die.index()];
        if pages < ranking.most && ranking.with_most != bit {
            ranking.with_most &= !bit;
            ranking.second = ranking.second.max(pages);
        } else if pages > ranking.second && pages < ranking.most {
            ranking.most = pages;
        } else {
            self.rank_planes(die);
        }
    }

    /// Find the planes of `die` with most free pages.
    fn rank_planes(&mut self, die: DieId) {
        let first = self.geometry.first_plane(die);
        let planes = &self.planes[first.index()..][..self.geometry.planes_per_die() as usize];
        let ranking = &mut self.dies[die.index()];
        ranking.most = planes.iter().map(|plane| plane.pages).max().unwrap_or(0);
        let has_most = |plane: &FreePages| u64::from(plane.pages == ranking.most);
        ranking.with_most = planes.iter().rev().fold(0, |bits, plane| bits << 1 | has_most(plane));
        let others = planes.iter().map(|plane| plane.pages).filter(|pages| *pages != ranking.most);
        ranking.second = others.max().unwrap_or(0);
        ranking.oldest_open = planes.iter().map(|plane| plane.opened).min().unwrap_or(0);
    }
}
