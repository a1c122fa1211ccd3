//! Greedy: the fewest live units.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ftl::gc::level_index::{LevelIndex, TieBreak};
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;
use crate::scheme::{Contrast, Scheme};
use crate::tape::{Tape, Taped};

/// Optimal for memoryless uniform traffic (Yang, Misra and Rubenstein, 2015).
#[derive(Debug, Clone)]
pub struct Greedy {
    sealed: LevelIndex,
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GreedyKeys {
    /// Which of equally good victims is taken.
    ///
    /// Default: each block of a level gets its turn, so that none wears faster.
    pub gc_tie: TieBreak,
}

impl Scheme for Greedy {
    const SUMMARY: &'static str = "The sealed block with the fewest live units; ties by `gc_tie`.";
    const SOURCE: &'static str = "M. Rosenblum and J. Ousterhout, ACM TOCS 10(1), 1992";
    const CONTRASTS: &'static [Contrast] = &[Contrast { key: "gc_tie", value: "\"highest\"", with: &[] }];
    type Keys = GreedyKeys;
}

impl VictimPolicy for Greedy {
    fn new(geometry: &Geometry, keys: &GreedyKeys, _: Rng) -> Self {
        Self { sealed: LevelIndex::new(geometry, keys.gc_tie) }
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

    fn into_copy(self) -> Self {
        self
    }

    fn table_bytes(&self) -> u64 {
        self.sealed.table_bytes()
    }

    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { sealed } = self;
        sealed.tape(tape)
    }
}
