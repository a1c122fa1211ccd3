//! Oldest data: the block that was written full first, unless others are much emptier.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;
use crate::scheme::{Contrast, Scheme};

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OldestDataKeys {
    /// Weight of age against emptiness, from 0 to 1: 1 (the default) looks at age alone, 0 at live units alone.
    pub age_weight: f64,
}

impl Default for OldestDataKeys {
    fn default() -> Self {
        Self { age_weight: 1.0 }
    }
}

impl Scheme for OldestData {
    const SUMMARY: &'static str =
        "The block with the oldest data; `age_weight` lets emptier blocks go first.";
    const SOURCE: &'static str = "an example of ftlab's guides";
    const CONTRASTS: &'static [Contrast] = &[Contrast { key: "age_weight", value: "0.2", with: &[] }];
    type Keys = OldestDataKeys;
}

/// Every collection looks at all blocks of a plane. That is simple, and quick with some hundred of them; `greedy` keeps
/// its candidates in order instead.
#[derive(Debug, Clone)]
pub struct OldestData {
    geometry: Geometry,
    age_weight: f64,
    /// The sealed blocks of each plane, the oldest first.
    sealed: Vec<Vec<BlockId>>,
    /// Live units of each block.
    valid: Vec<u16>,
}

impl VictimPolicy for OldestData {
    fn new(geometry: &Geometry, keys: &OldestDataKeys, _: Rng) -> Self {
        let list = || Vec::with_capacity(geometry.blocks_per_plane() as usize);
        Self {
            age_weight: keys.age_weight,
            sealed: (0..geometry.planes()).map(|_| list()).collect(),
            valid: vec![0; geometry.blocks() as usize],
            geometry: geometry.clone(),
        }
    }

    fn check_keys(keys: &OldestDataKeys) -> Result<(), ConfigError> {
        if !(0.0..=1.0).contains(&keys.age_weight) {
            return refuse("age_weight", keys.age_weight, "must be from 0 to 1");
        }
        Ok(())
    }

    fn on_seal(&mut self, block: BlockId, valid: u32) {
        self.valid[block.index()] = valid as u16;
        self.sealed[self.geometry.plane_of(block).index()].push(block);
    }

    #[inline]
    fn on_invalidate(&mut self, block: BlockId, valid: u32) {
        self.valid[block.index()] = valid as u16;
    }

    fn pick(&mut self, plane: PlaneId) -> Option<BlockId> {
        let units = f64::from(self.geometry.data_units_per_block());
        let sealed = &mut self.sealed[plane.index()];
        let count = sealed.len() as f64;
        let score = |at: usize| {
            let age = (count - at as f64) / count;
            let stale = 1.0 - f64::from(self.valid[sealed[at].index()]) / units;
            self.age_weight * age + (1.0 - self.age_weight) * stale
        };
        // Of equals the oldest: the first.
        let best = (0..sealed.len()).reduce(|best, at| if score(at) > score(best) { at } else { best })?;
        Some(sealed.remove(best))
    }

    fn remove(&mut self, block: BlockId, _: u32) {
        self.sealed[self.geometry.plane_of(block).index()].retain(|sealed| *sealed != block);
    }

    fn table_bytes(&self) -> u64 {
        let lists: usize = self.sealed.iter().map(Vec::capacity).sum();
        (lists * 4 + self.valid.len() * 2) as u64
    }
}
