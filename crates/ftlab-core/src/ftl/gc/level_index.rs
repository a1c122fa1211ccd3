//! Blocks of a plane by their number of live units: the lowest level, and the lowest or highest block in it, in a
//! few steps however many blocks there are.

use crate::config::TieBreak;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::table;

/// One bitmap of rows a level, with a summary above it. A bit for each mapping unit of the drive in all.
///
/// The words of 64 rows stand together for all levels, so that a block that loses a unit stays in its cache line.
#[derive(Debug)]
pub struct LevelIndex {
    geometry: Geometry,
    levels: u32,
    /// For each plane, for each 64 rows, a word a level.
    rows: Vec<u64>,
    words_per_plane: usize,
    /// For each plane and level, which words of `rows` have a bit.
    summary: Vec<u64>,
    words_per_level: usize,
    /// No level of the plane below this has a block.
    lowest: Vec<u32>,
    /// The row after the last one taken (`TieBreak::Next`).
    next_row: Vec<u32>,
    tie: TieBreak,
}

impl LevelIndex {
    /// An empty index.
    pub fn new(geometry: &Geometry, tie: TieBreak) -> Self {
        let groups = (geometry.blocks_per_plane() as usize).div_ceil(64);
        let words_per_level = groups.div_ceil(64);
        let levels = geometry.data_units_per_block() + 1;
        let words_per_plane = groups * levels as usize;
        let planes = geometry.planes() as usize;
        Self {
            levels,
            rows: table::filled(planes * words_per_plane, 0),
            words_per_plane,
            summary: table::filled(planes * levels as usize * words_per_level, 0),
            words_per_level,
            next_row: vec![0; planes],
            lowest: vec![levels; planes],
            tie,
            geometry: geometry.clone(),
        }
    }

    /// The word of a block's row at level 0, and the row.
    #[inline(always)]
    fn place(&self, block: BlockId) -> (PlaneId, usize, u32) {
        let plane = self.geometry.plane_of(block);
        let row = block.0 - plane.0 * self.geometry.blocks_per_plane();
        (plane, plane.index() * self.words_per_plane + row as usize / 64 * self.levels as usize, row)
    }

    /// Where the summary of a level starts.
    #[inline(always)]
    fn summary_of(&self, plane: PlaneId, level: u32) -> usize {
        (plane.index() * self.levels as usize + level as usize) * self.words_per_level
    }

    /// Add a block that is not in the index.
    #[inline]
    pub fn insert(&mut self, block: BlockId, level: u32) {
        let (plane, base, row) = self.place(block);
        self.set(plane, base, row, level);
    }

    #[inline(always)]
    fn set(&mut self, plane: PlaneId, base: usize, row: u32, level: u32) {
        let word = &mut self.rows[base + level as usize];
        debug_assert!(*word >> (row % 64) & 1 == 0, "a block is in the index once");
        let was_empty = *word == 0;
        *word |= 1 << (row % 64);
        if was_empty {
            let at = self.summary_of(plane, level);
            let group = row as usize / 64;
            self.summary[at + group / 64] |= 1 << (group % 64);
        }
        let lowest = &mut self.lowest[plane.index()];
        *lowest = (*lowest).min(level);
    }

    /// Take out a block that is in the index at `level`.
    #[inline]
    pub fn remove(&mut self, block: BlockId, level: u32) {
        let (plane, base, row) = self.place(block);
        self.unset(plane, base, row, level);
    }

    #[inline(always)]
    fn unset(&mut self, plane: PlaneId, base: usize, row: u32, level: u32) {
        let word = &mut self.rows[base + level as usize];
        debug_assert!(*word >> (row % 64) & 1 == 1, "the block is in the index at its level");
        *word &= !(1 << (row % 64));
        if *word == 0 {
            let at = self.summary_of(plane, level);
            let group = row as usize / 64;
            self.summary[at + group / 64] &= !(1 << (group % 64));
        }
    }

    /// Move a block from the level above `level` to `level`.
    #[inline]
    pub fn lower(&mut self, block: BlockId, level: u32) {
        let (plane, base, row) = self.place(block);
        self.unset(plane, base, row, level + 1);
        self.set(plane, base, row, level);
    }

    /// A block at `level` will be lowered soon: ask the processor for its place.
    #[inline]
    pub fn prefetch(&self, block: BlockId, level: u32) {
        let (_, base, _) = self.place(block);
        table::prefetch(&self.rows, base + level as usize);
    }

    /// The block that [`pop`](Self::pop) would take out, and its level.
    pub fn lowest(&self, plane: PlaneId) -> Option<(BlockId, u32)> {
        let mut levels = self.lowest[plane.index()]..self.levels;
        levels.find_map(|level| Some((self.geometry.block(plane, self.first_row(plane, level)?), level)))
    }

    /// Take out a block of the lowest level of `plane` and return it with its level.
    pub fn pop(&mut self, plane: PlaneId) -> Option<(BlockId, u32)> {
        let Some((block, level)) = self.lowest(plane) else {
            self.lowest[plane.index()] = self.levels;
            return None;
        };
        self.lowest[plane.index()] = level;
        self.next_row[plane.index()] = self.geometry.row_of(block) + 1;
        self.remove(block, level);
        Some((block, level))
    }

    fn first_row(&self, plane: PlaneId, level: u32) -> Option<u32> {
        let groups = &self.summary[self.summary_of(plane, level)..][..self.words_per_level];
        let word = |group: usize| {
            self.rows[plane.index() * self.words_per_plane + group * self.levels as usize + level as usize]
        };
        let row = |group: usize, bits: u64| (group * 64) as u32 + bits.trailing_zeros();
        let from = |first: usize| {
            let start = groups.get(first / 64).map_or(0, |bits| bits & (u64::MAX << (first % 64)));
            let later = groups.iter().enumerate().skip(first / 64 + 1).map(|(at, bits)| (at, *bits));
            let found = std::iter::once((first / 64, start)).chain(later).find(|(_, bits)| *bits != 0);
            found.map(|(at, bits)| at * 64 + bits.trailing_zeros() as usize)
        };
        match self.tie {
            TieBreak::Lowest => from(0).map(|group| row(group, word(group))),
            TieBreak::Highest => {
                let at = groups.iter().rposition(|bits| *bits != 0)?;
                let group = at * 64 + 63 - groups[at].leading_zeros() as usize;
                Some((group * 64 + 63) as u32 - word(group).leading_zeros())
            }
            TieBreak::Next => {
                let next = self.next_row[plane.index()] as usize;
                let first = next / 64;
                // The rest of the cursor's own word, then the words after it, then all from the start.
                let own = groups.get(first / 64).is_some_and(|bits| bits >> (first % 64) & 1 == 1);
                let bits = if own { word(first) & (u64::MAX << (next % 64)) } else { 0 };
                if bits != 0 {
                    return Some(row(first, bits));
                }
                from(first + 1).or_else(|| from(0)).map(|group| row(group, word(group)))
            }
        }
    }

    /// Bytes of the tables.
    pub fn table_bytes(&self) -> u64 {
        ((self.rows.len() + self.summary.len()) * 8 + self.lowest.len() * 8) as u64
    }
}
