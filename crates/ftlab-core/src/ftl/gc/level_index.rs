//! Blocks of a plane by their number of live units: the lowest level, and the lowest or highest block in it, in a
//! few steps however many blocks there are.

use crate::config::TieBreak;
use crate::geometry::{BlockId, Geometry, PlaneId};

/// One bitmap a level, with two levels of summary above it. A bit for each mapping unit of the drive in all.
#[derive(Debug)]
pub struct LevelIndex {
    geometry: Geometry,
    /// `levels` bitmaps for each plane, each `stride` words: bits of rows, then their summary, then its summary.
    words: Vec<u64>,
    levels: u32,
    stride: usize,
    middle: usize,
    top: usize,
    /// No level of the plane below this has a block.
    lowest: Vec<u32>,
    tie: TieBreak,
}

impl LevelIndex {
    /// An empty index.
    pub fn new(geometry: &Geometry, tie: TieBreak) -> Self {
        let rows = geometry.blocks_per_plane() as usize;
        let middle = rows.div_ceil(64);
        let top = middle + middle.div_ceil(64);
        let stride = top + (top - middle).div_ceil(64);
        let levels = geometry.data_units_per_block() + 1;
        let planes = geometry.planes() as usize;
        Self {
            words: vec![0; planes * levels as usize * stride],
            levels,
            stride,
            middle,
            top,
            lowest: vec![levels; planes],
            tie,
            geometry: geometry.clone(),
        }
    }

    #[inline]
    fn base(&self, plane: PlaneId, level: u32) -> usize {
        (plane.index() * self.levels as usize + level as usize) * self.stride
    }

    /// Add a block that is not in the index.
    #[inline]
    pub fn insert(&mut self, block: BlockId, level: u32) {
        let plane = self.geometry.plane_of(block);
        self.set(plane, self.geometry.row_of(block), level);
    }

    #[inline]
    fn set(&mut self, plane: PlaneId, row: u32, level: u32) {
        let base = self.base(plane, level);
        let (low, mid) = (row as usize / 64, row as usize / 4096);
        let word = &mut self.words[base + low];
        debug_assert!(*word >> (row % 64) & 1 == 0, "a block is in the index once");
        let was_empty = *word == 0;
        *word |= 1 << (row % 64);
        if was_empty {
            self.words[base + self.middle + mid] |= 1 << (low % 64);
            self.words[base + self.top + mid / 64] |= 1 << (mid % 64);
        }
        let lowest = &mut self.lowest[plane.index()];
        *lowest = (*lowest).min(level);
    }

    /// Take out a block that is in the index at `level`.
    #[inline]
    pub fn remove(&mut self, block: BlockId, level: u32) {
        let plane = self.geometry.plane_of(block);
        self.unset(plane, self.geometry.row_of(block), level);
    }

    #[inline]
    fn unset(&mut self, plane: PlaneId, row: u32, level: u32) {
        let base = self.base(plane, level);
        let (low, mid) = (row as usize / 64, row as usize / 4096);
        let word = &mut self.words[base + low];
        debug_assert!(*word >> (row % 64) & 1 == 1, "the block is in the index at its level");
        *word &= !(1 << (row % 64));
        if *word == 0 {
            let word = &mut self.words[base + self.middle + mid];
            *word &= !(1 << (low % 64));
            if *word == 0 {
                self.words[base + self.top + mid / 64] &= !(1 << (mid % 64));
            }
        }
    }

    /// Move a block from the level above `level` to `level`.
    #[inline]
    pub fn lower(&mut self, block: BlockId, level: u32) {
        let plane = self.geometry.plane_of(block);
        let row = self.geometry.row_of(block);
        self.unset(plane, row, level + 1);
        self.set(plane, row, level);
    }

    /// Take out a block of the lowest level of `plane` and return it with its level.
    pub fn pop(&mut self, plane: PlaneId) -> Option<(BlockId, u32)> {
        let mut level = self.lowest[plane.index()];
        let row = loop {
            if level == self.levels {
                self.lowest[plane.index()] = level;
                return None;
            }
            if let Some(row) = self.first_row(self.base(plane, level)) {
                break row;
            }
            level += 1;
        };
        self.lowest[plane.index()] = level;
        self.unset(plane, row, level);
        Some((self.geometry.block(plane, row), level))
    }

    fn first_row(&self, base: usize) -> Option<u32> {
        let bit = |word: u64| match self.tie {
            TieBreak::Lowest => word.trailing_zeros() as usize,
            TieBreak::Highest => 63 - word.leading_zeros() as usize,
        };
        let tops = &self.words[base + self.top..base + self.stride];
        let top = match self.tie {
            TieBreak::Lowest => tops.iter().position(|word| *word != 0),
            TieBreak::Highest => tops.iter().rposition(|word| *word != 0),
        }?;
        let mid = top * 64 + bit(tops[top]);
        let low = mid * 64 + bit(self.words[base + self.middle + mid]);
        Some((low * 64 + bit(self.words[base + low])) as u32)
    }

    /// Bytes of the tables.
    pub fn table_bytes(&self) -> u64 {
        (self.words.len() * 8 + self.lowest.len() * 4) as u64
    }
}
