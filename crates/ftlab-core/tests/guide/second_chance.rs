//! Second chance: the block sealed first, unless most of it is live.

use std::collections::VecDeque;

use super::VictimPolicy;
use crate::config::FtlConfig;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;

/// FIFO that passes over a block once in its life: while it waits for its second turn, its pages may become stale.
#[derive(Debug, Clone)]
pub struct SecondChance {
    geometry: Geometry,
    /// The sealed blocks of each plane, the next candidate first.
    queues: Vec<VecDeque<BlockId>>,
    /// Live units of each sealed block.
    valid: Vec<u16>,
    /// Whether a block has had its chance.
    spared: Vec<bool>,
}

impl VictimPolicy for SecondChance {
    fn new(geometry: &Geometry, _: &FtlConfig, _: Rng) -> Self {
        let queue = || VecDeque::with_capacity(geometry.blocks_per_plane() as usize);
        let blocks = geometry.blocks() as usize;
        Self {
            queues: (0..geometry.planes()).map(|_| queue()).collect(),
            valid: vec![0; blocks],
            spared: vec![false; blocks],
            geometry: geometry.clone(),
        }
    }

    fn on_seal(&mut self, block: BlockId, valid: u32) {
        self.queues[self.geometry.plane_of(block).index()].push_back(block);
        self.valid[block.index()] = valid as u16;
        self.spared[block.index()] = false;
    }

    #[inline]
    fn on_invalidate(&mut self, block: BlockId, valid: u32) {
        self.valid[block.index()] = valid as u16;
    }

    fn pick(&mut self, plane: PlaneId) -> Option<BlockId> {
        let queue = &mut self.queues[plane.index()];
        // Each turn either ends the search or uses up a chance that sealing gave: O(1) on average.
        loop {
            let block = queue.pop_front()?;
            let live = u32::from(self.valid[block.index()]);
            if self.spared[block.index()] || 2 * live <= self.geometry.data_units_per_block() {
                return Some(block);
            }
            self.spared[block.index()] = true;
            queue.push_back(block);
        }
    }

    fn remove(&mut self, block: BlockId, _: u32) {
        let queue = &mut self.queues[self.geometry.plane_of(block).index()];
        queue.retain(|sealed| *sealed != block);
    }

    fn table_bytes(&self) -> u64 {
        let queues: usize = self.queues.iter().map(|queue| queue.capacity() * 4).sum();
        (queues + self.valid.len() * 2 + self.spared.len()) as u64
    }
}
