//! Greedy: the fewest live units.

use crate::config::FtlConfig;
use crate::ftl::gc::level_index::LevelIndex;
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;

/// Optimal for memoryless uniform traffic (Yang, Misra and Rubenstein, 2015).
#[derive(Debug, Clone)]
pub struct Greedy {
    sealed: LevelIndex,
}

impl VictimPolicy for Greedy {
    fn new(geometry: &Geometry, config: &FtlConfig, _: Rng) -> Self {
        Self { sealed: LevelIndex::new(geometry, config.gc_tie) }
    }

    fn on_seal(&mut self, block: BlockId, valid: u32) {
        self.sealed.insert(block, valid);
    }

    #[inline]
    fn on_invalidate(&mut self, block: BlockId, valid: u32) {
        self.sealed.lower(block, valid);
    }

    fn pick(&mut self, plane: PlaneId) -> Option<BlockId> {
        self.sealed.pop(plane).map(|(block, _)| block)
    }

    fn remove(&mut self, block: BlockId, valid: u32) {
        self.sealed.remove(block, valid);
    }

    #[inline]
    fn prefetch(&self, block: BlockId, valid: u32) {
        self.sealed.prefetch(block, valid);
    }

    fn likely_next(&self, plane: PlaneId) -> Option<BlockId> {
        self.sealed.lowest(plane).map(|(block, _)| block)
    }

    fn picks_emptiest(&self) -> bool {
        true
    }

    fn table_bytes(&self) -> u64 {
        self.sealed.table_bytes()
    }
}
