//! Windowed greedy: the best of the oldest blocks.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::ftl::gc::level_index::{LevelIndex, TieBreak};
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;
use crate::scheme::{Contrast, Scheme};
use crate::tape::{Tape, Taped, taped};

/// Between FIFO (a window of 1) and greedy (a window of all).
#[derive(Debug, Clone)]
pub struct WindowedGreedy {
    geometry: Geometry,
    window: LevelIndex,
    window_size: u32,
    planes: Vec<Pool>,
    valid: Vec<u16>,
    in_window: Vec<u64>,
}

#[derive(Debug, Clone)]
struct Pool {
    in_window: u32,
    /// Sealed blocks that are too young for the window, oldest first.
    young: VecDeque<BlockId>,
}

taped! { Pool { in_window, young } else {} }

impl WindowedGreedy {
    fn is_in_window(&self, block: BlockId) -> bool {
        self.in_window[block.index() / 64] >> (block.0 % 64) & 1 == 1
    }

    fn enter(&mut self, block: BlockId) {
        self.in_window[block.index() / 64] |= 1 << (block.0 % 64);
        self.window.insert(block, self.valid[block.index()].into());
        self.planes[self.geometry.plane_of(block).index()].in_window += 1;
    }

    /// A block has left the window: the next oldest takes its place.
    fn leave(&mut self, block: BlockId) {
        self.in_window[block.index() / 64] &= !(1 << (block.0 % 64));
        let pool = &mut self.planes[self.geometry.plane_of(block).index()];
        pool.in_window -= 1;
        if let Some(next) = pool.young.pop_front() {
            self.enter(next);
        }
    }
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WindowedGreedyKeys {
    /// Oldest blocks among which it chooses, in each plane.
    ///
    /// Default: a value to begin a sweep with: 1 is FIFO, and all blocks of a plane are greedy.
    pub gc_window: u32,
    /// Which of equally good victims is taken.
    ///
    /// Default: each block of a level gets its turn, so that none wears faster.
    pub gc_tie: TieBreak,
}

impl Default for WindowedGreedyKeys {
    fn default() -> Self {
        Self { gc_window: 64, gc_tie: TieBreak::default() }
    }
}

impl Scheme for WindowedGreedy {
    const SUMMARY: &'static str =
        "The block with the fewest live units among the `gc_window` that were sealed first.";
    const SOURCE: &'static str = "X.-Y. Hu et al., SYSTOR 2009";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast { key: "gc_window", value: "3", with: &[] },
        Contrast { key: "gc_tie", value: "\"highest\"", with: &[] },
    ];
    type Keys = WindowedGreedyKeys;
}

impl VictimPolicy for WindowedGreedy {
    fn new(geometry: &Geometry, keys: &WindowedGreedyKeys, _: Rng) -> Self {
        let pool =
            || Pool { in_window: 0, young: VecDeque::with_capacity(geometry.blocks_per_plane() as usize) };
        let blocks = geometry.blocks() as usize;
        Self {
            window: LevelIndex::new(geometry, keys.gc_tie),
            window_size: keys.gc_window,
            planes: (0..geometry.planes()).map(|_| pool()).collect(),
            valid: vec![0; blocks],
            in_window: vec![0; blocks.div_ceil(64)],
            geometry: geometry.clone(),
        }
    }

    fn check_keys(keys: &WindowedGreedyKeys) -> Result<(), ConfigError> {
        if keys.gc_window == 0 {
            return refuse("gc_window", 0, "must be at least 1");
        }
        Ok(())
    }

    fn on_seal(&mut self, block: BlockId, valid: u32) {
        self.valid[block.index()] = valid as u16;
        let pool = &mut self.planes[self.geometry.plane_of(block).index()];
        if pool.in_window < self.window_size {
            self.enter(block);
        } else {
            pool.young.push_back(block);
        }
    }

    #[inline]
    fn on_invalidate(&mut self, block: BlockId, valid: u32) {
        self.valid[block.index()] = valid as u16;
        if self.is_in_window(block) {
            self.window.lower(block, valid);
        }
    }

    fn on_revalidate(&mut self, block: BlockId, valid: u32) {
        self.valid[block.index()] = valid as u16;
        if self.is_in_window(block) {
            self.window.remove(block, valid - 1);
            self.window.insert(block, valid);
        }
    }

    fn pick(&mut self, plane: PlaneId) -> Option<BlockId> {
        let (victim, _) = self.window.pop(plane)?;
        self.leave(victim);
        Some(victim)
    }

    fn remove(&mut self, block: BlockId, valid: u32) {
        if self.is_in_window(block) {
            self.window.remove(block, valid);
            self.leave(block);
        } else {
            let young = &mut self.planes[self.geometry.plane_of(block).index()].young;
            if let Some(at) = young.iter().position(|other| *other == block) {
                young.remove(at);
            }
        }
    }

    fn table_bytes(&self) -> u64 {
        let young: usize = self.planes.iter().map(|pool| pool.young.capacity() * 4).sum();
        self.window.table_bytes() + (young + self.valid.len() * 2 + self.in_window.len() * 8) as u64
    }

    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { window, planes, valid, in_window, geometry: _, window_size: _ } = self;
        window.tape(tape)?;
        tape.each(planes)?;
        valid.tape(tape)?;
        in_window.tape(tape)
    }
}
