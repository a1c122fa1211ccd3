//! The free blocks of a plane.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::config::{FreeBlockChoice, FtlConfig, WearLevelingChoice};
use crate::geometry::Geometry;
use crate::tape::{Tape, Taped};

/// The free blocks of one plane.
#[derive(Debug, Clone)]
pub enum FreeBlocks {
    /// In the order in which they became free.
    Fifo(VecDeque<u32>),
    /// By row, from a cursor upwards and around.
    NextFit {
        /// A bit for each row.
        rows: Vec<u64>,
        /// Rows that are free.
        count: u32,
        /// Where the search starts.
        cursor: u32,
    },
    /// The least worn first, then the lowest row.
    LeastWorn(BinaryHeap<Reverse<(u32, u32)>>),
}

impl Taped for FreeBlocks {
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        match self {
            FreeBlocks::Fifo(queue) => queue.tape(tape),
            FreeBlocks::NextFit { rows, count, cursor } => {
                rows.tape(tape)?;
                count.tape(tape)?;
                cursor.tape(tape)
            }
            FreeBlocks::LeastWorn(heap) => heap.tape(tape),
        }
    }
}

impl FreeBlocks {
    /// All rows of a plane of erased flash are free.
    pub fn new(geometry: &Geometry, config: &FtlConfig) -> Self {
        let rows = geometry.data_blocks_per_plane();
        let WearLevelingChoice::None(keys) = config.wear_leveling else {
            return FreeBlocks::LeastWorn((0..rows).map(|row| Reverse((0, row))).collect());
        };
        match keys.free_block {
            FreeBlockChoice::Fifo => FreeBlocks::Fifo((0..rows).collect()),
            FreeBlockChoice::NextFit => {
                let mut bits = vec![u64::MAX; (rows as usize).div_ceil(64)];
                if !rows.is_multiple_of(64) {
                    *bits.last_mut().expect("a plane has a block") = (1 << (rows % 64)) - 1;
                }
                FreeBlocks::NextFit { rows: bits, count: rows, cursor: 0 }
            }
        }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> u32 {
        match self {
            FreeBlocks::Fifo(queue) => queue.len() as u32,
            FreeBlocks::NextFit { count, .. } => *count,
            FreeBlocks::LeastWorn(heap) => heap.len() as u32,
        }
    }

    /// Take the next row.
    pub fn take(&mut self) -> Option<u32> {
        match self {
            FreeBlocks::Fifo(queue) => queue.pop_front(),
            FreeBlocks::LeastWorn(heap) => heap.pop().map(|Reverse((_, row))| row),
            FreeBlocks::NextFit { rows, count, cursor } => {
                if *count == 0 {
                    return None;
                }
                let start = *cursor as usize / 64;
                let above = rows.get(start).map_or(0, |word| word & (u64::MAX << (*cursor % 64)));
                let row = if above != 0 {
                    start as u32 * 64 + above.trailing_zeros()
                } else {
                    let word = (start + 1..rows.len())
                        .chain(0..=start.min(rows.len() - 1))
                        .find(|at| rows[*at] != 0)?;
                    word as u32 * 64 + rows[word].trailing_zeros()
                };
                rows[row as usize / 64] &= !(1 << (row % 64));
                *count -= 1;
                *cursor = row + 1;
                Some(row)
            }
        }
    }

    /// Give back a row whose block has been erased `erases` times.
    pub fn give(&mut self, row: u32, erases: u32) {
        match self {
            FreeBlocks::Fifo(queue) => queue.push_back(row),
            FreeBlocks::LeastWorn(heap) => heap.push(Reverse((erases, row))),
            FreeBlocks::NextFit { rows, count, .. } => {
                rows[row as usize / 64] |= 1 << (row % 64);
                *count += 1;
            }
        }
    }

    /// Take the most worn row: cold data go there (wear levelling only).
    pub fn take_most_worn(&mut self) -> Option<u32> {
        match self {
            FreeBlocks::LeastWorn(heap) => {
                let Reverse(most) = *heap.iter().min()?;
                heap.retain(|Reverse(block)| *block != most);
                Some(most.1)
            }
            FreeBlocks::Fifo(_) | FreeBlocks::NextFit { .. } => self.take(),
        }
    }

    /// Bytes of the table.
    pub fn table_bytes(&self) -> u64 {
        match self {
            FreeBlocks::Fifo(queue) => queue.capacity() as u64 * 4,
            FreeBlocks::NextFit { rows, .. } => rows.len() as u64 * 8,
            FreeBlocks::LeastWorn(heap) => heap.capacity() as u64 * 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{DeviceConfig, FreeBlockKeys, WearLeveling};

    fn geometry() -> Geometry {
        let text = r#"{ "geometry": { "channels": 2, "ways": 3, "dies": 2, "planes": 2, "blocks_per_plane": 70,
            "pages_per_block": 4, "page_bytes": 4096 } }"#;
        serde_json::from_str::<DeviceConfig>(text).unwrap().to_geometry()
    }

    #[test]
    fn next_fit_goes_round() {
        let next_fit = WearLevelingChoice::None(FreeBlockKeys { free_block: FreeBlockChoice::NextFit });
        let mut config = FtlConfig { wear_leveling: next_fit, ..FtlConfig::default() };
        let mut free = FreeBlocks::new(&geometry(), &config);
        assert_eq!((0..69).map(|_| free.take().unwrap()).collect::<Vec<_>>(), (0..69).collect::<Vec<_>>());
        free.give(3, 1);
        free.give(66, 1);
        assert_eq!([free.take(), free.take(), free.take(), free.take()], [Some(69), Some(3), Some(66), None]);
        config.wear_leveling = WearLeveling::Dynamic.into();
        let mut free = FreeBlocks::new(&geometry(), &config);
        assert_eq!(free.take(), Some(0));
        free.give(0, 1);
        assert_eq!((free.take_most_worn(), free.len()), (Some(0), 69));
        assert_eq!(free.take(), Some(1));
    }
}
