//! Blocks of a plane by their number of live units: the lowest level, and the lowest or highest block in it, in a
//! few steps however many blocks there are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::table::{self, Table};
use crate::tape::{Tape, Taped};

/// Which of the victims that a policy likes equally is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TieBreak {
    /// The next higher block number after the victim before, cyclically: all blocks of a level get their turn.
    #[default]
    Next,
    /// The lowest block number.
    Lowest,
    /// The highest block number.
    Highest,
}

/// One bitmap of rows a level, with two summaries above it. A bit for each mapping unit of the drive in all.
///
/// The words of 64 rows stand together for all levels, so that a block that loses a unit stays in its cache line.
#[derive(Debug, Clone)]
pub struct LevelIndex {
    geometry: Geometry,
    levels: u32,
    /// For each plane, for each 64 rows, a word a level.
    rows: Table<u64>,
    words_per_plane: usize,
    /// For each plane and level, which words of `rows` have a bit.
    summary: Table<u64>,
    words_per_level: usize,
    /// For each plane and level, which words of `summary` have a bit; from the 64th on they share the last bit.
    tops: Table<u64>,
    /// No level of the plane below this has a block.
    lowest: Vec<u32>,
    /// The row after the last one taken (`TieBreak::Next`).
    next_row: Vec<u32>,
    tie: TieBreak,
}

impl Taped for LevelIndex {
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self {
            geometry: _,
            levels: _,
            rows,
            words_per_plane: _,
            summary,
            words_per_level: _,
            tops,
            lowest,
            next_row,
            tie: _,
        } = self;
        tape.table(rows)?;
        tape.table(summary)?;
        tape.table(tops)?;
        lowest.tape(tape)?;
        next_row.tape(tape)
    }
}

/// The bit of `tops` that words of the summary from here on share.
const LAST_TOP: usize = 63;

#[inline]
fn top_bit(word: usize) -> u64 {
    1 << word.min(LAST_TOP)
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
            rows: Table::sparse_zeros(planes * words_per_plane),
            words_per_plane,
            summary: Table::sparse_zeros(planes * levels as usize * words_per_level),
            words_per_level,
            tops: Table::sparse_zeros(planes * levels as usize),
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
        // The others are a 64th of it and less.
        self.rows.touched(1);
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
            self.tops[plane.index() * self.levels as usize + level as usize] |= top_bit(group / 64);
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
            if self.summary[at + group / 64] == 0 {
                self.empty_summary(plane, level, group / 64);
            }
        }
    }

    /// The word `word` of the summary of a level has no bit any more.
    fn empty_summary(&mut self, plane: PlaneId, level: u32, word: usize) {
        let shared = &self.summary[self.summary_of(plane, level)..][..self.words_per_level];
        if word < LAST_TOP || shared[LAST_TOP..].iter().all(|bits| *bits == 0) {
            self.tops[plane.index() * self.levels as usize + level as usize] &= !top_bit(word);
        }
    }

    /// Move a block from the level above `level` to `level`.
    #[inline(always)]
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
        let first = self.lowest[plane.index()] as usize;
        let tops = &self.tops[plane.index() * self.levels as usize..][..self.levels as usize];
        let level = first + tops.get(first..)?.iter().position(|top| *top != 0)?;
        Some((self.geometry.block(plane, self.first_row(plane, level as u32)), level as u32))
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

    /// The row that a level with blocks offers.
    fn first_row(&self, plane: PlaneId, level: u32) -> u32 {
        let words = &self.summary[self.summary_of(plane, level)..][..self.words_per_level];
        let top = self.tops[plane.index() * self.levels as usize + level as usize];
        let rows = |group: usize| {
            self.rows[plane.index() * self.words_per_plane + group * self.levels as usize + level as usize]
        };
        // The first group from `group` on that has a row.
        let from = |group: usize| {
            let at = group / 64;
            let own = words.get(at).map_or(0, |bits| bits & u64::MAX << (group % 64));
            if own != 0 {
                return Some(at * 64 + own.trailing_zeros() as usize);
            }
            let later = top & u64::MAX.checked_shl(at as u32 + 1).unwrap_or(0);
            let mut at = if at < LAST_TOP { later.trailing_zeros() as usize } else { at + 1 };
            while at >= LAST_TOP && words.get(at).is_some_and(|bits| *bits == 0) {
                at += 1;
            }
            words.get(at).map(|bits| at * 64 + bits.trailing_zeros() as usize)
        };
        let lowest = |group: usize| (group * 64) as u32 + rows(group).trailing_zeros();
        match self.tie {
            TieBreak::Lowest => from(0).map_or(0, lowest),
            TieBreak::Highest => {
                let at = words.iter().rposition(|bits| *bits != 0).unwrap_or(0);
                let group = at * 64 + 63 - words[at].leading_zeros() as usize;
                (group * 64 + 63) as u32 - rows(group).leading_zeros()
            }
            TieBreak::Next => {
                let next = self.next_row[plane.index()] as usize;
                let group = next / 64;
                // The rest of the cursor's own word, then the words after it, then all from the start.
                let own = words.get(group / 64).is_some_and(|bits| bits >> (group % 64) & 1 == 1);
                let bits = if own { rows(group) & u64::MAX << (next % 64) } else { 0 };
                if bits != 0 {
                    return (group * 64) as u32 + bits.trailing_zeros();
                }
                from(group + 1).or_else(|| from(0)).map_or(0, lowest)
            }
        }
    }

    /// Bytes of the tables.
    pub fn table_bytes(&self) -> u64 {
        ((self.rows.len() + self.summary.len() + self.tops.len()) * 8 + self.lowest.len() * 8) as u64
    }
}
