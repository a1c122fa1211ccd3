//! Blocks of a plane by their number of live units: the lowest level, and the lowest or highest block in it, in a
//! few steps however many blocks there are.

use crate::config::TieBreak;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::table;

/// One bitmap of rows a level, with two levels of summary above it. A bit for each mapping unit of the drive in all.
///
/// The words of 64 rows stand together for all levels, so that a block that loses a unit stays in its cache line.
#[derive(Debug)]
pub struct LevelIndex {
    geometry: Geometry,
    levels: u32,
    /// For each plane, for each 64 rows, a word a level.
    rows: Vec<u64>,
    words_per_plane: usize,
    /// For each plane and level, which words of `rows` have a bit, then which of these words have.
    summary: Vec<u64>,
    words_per_level: usize,
    top: usize,
    /// No level of the plane below this has a block.
    lowest: Vec<u32>,
    tie: TieBreak,
}

impl LevelIndex {
    /// An empty index.
    pub fn new(geometry: &Geometry, tie: TieBreak) -> Self {
        let groups = (geometry.blocks_per_plane() as usize).div_ceil(64);
        let top = groups.div_ceil(64);
        let words_per_level = top + top.div_ceil(64);
        let levels = geometry.data_units_per_block() + 1;
        let words_per_plane = groups * levels as usize;
        let planes = geometry.planes() as usize;
        Self {
            levels,
            rows: table::filled(planes * words_per_plane, 0),
            words_per_plane,
            summary: table::filled(planes * levels as usize * words_per_level, 0),
            words_per_level,
            top,
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
            self.summary[at + self.top + group / 4096] |= 1 << (group / 64 % 64);
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
            let word = &mut self.summary[at + group / 64];
            *word &= !(1 << (group % 64));
            if *word == 0 {
                self.summary[at + self.top + group / 4096] &= !(1 << (group / 64 % 64));
            }
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

    /// Take out a block of the lowest level of `plane` and return it with its level.
    pub fn pop(&mut self, plane: PlaneId) -> Option<(BlockId, u32)> {
        let mut level = self.lowest[plane.index()];
        let row = loop {
            if level == self.levels {
                self.lowest[plane.index()] = level;
                return None;
            }
            if let Some(row) = self.first_row(plane, level) {
                break row;
            }
            level += 1;
        };
        self.lowest[plane.index()] = level;
        let block = self.geometry.block(plane, row);
        self.remove(block, level);
        Some((block, level))
    }

    fn first_row(&self, plane: PlaneId, level: u32) -> Option<u32> {
        let bit = |word: u64| match self.tie {
            TieBreak::Lowest => word.trailing_zeros() as usize,
            TieBreak::Highest => 63 - word.leading_zeros() as usize,
        };
        let summary = &self.summary[self.summary_of(plane, level)..][..self.words_per_level];
        let (groups, tops) = summary.split_at(self.top);
        let top = match self.tie {
            TieBreak::Lowest => tops.iter().position(|word| *word != 0),
            TieBreak::Highest => tops.iter().rposition(|word| *word != 0),
        }?;
        let at = top * 64 + bit(tops[top]);
        let group = at * 64 + bit(groups[at]);
        let word =
            self.rows[plane.index() * self.words_per_plane + group * self.levels as usize + level as usize];
        Some((group * 64 + bit(word)) as u32)
    }

    /// Bytes of the tables.
    pub fn table_bytes(&self) -> u64 {
        ((self.rows.len() + self.summary.len()) * 8 + self.lowest.len() * 4) as u64
    }
}
