//! d-choices: the best of a few blocks drawn at random.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::gc::random::SealedSet;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;
use crate::scheme::{Contrast, Scheme};
use crate::tape::{Tape, Taped};

/// Draws with replacement, as the mean-field analysis assumes; the first of equally good draws wins. `d` = 1 is
/// random, about 10 is close to greedy. MQSim calls it RGA.
#[derive(Debug, Clone)]
pub struct DChoices {
    sealed: SealedSet,
    valid: Vec<u16>,
    choices: u32,
    rng: Rng,
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DChoicesKeys {
    /// Candidates that are drawn.
    ///
    /// Default: ten draws come close to greedy (Van Houdt, 2013).
    pub gc_choices: u32,
}

impl Default for DChoicesKeys {
    fn default() -> Self {
        Self { gc_choices: 10 }
    }
}

impl Scheme for DChoices {
    const SUMMARY: &'static str = "The best of `gc_choices` sealed blocks drawn at random, with replacement.";
    const SOURCE: &'static str = "B. Van Houdt, SIGMETRICS 2013, doi 10.1145/2494232.2465543";
    const CONTRASTS: &'static [Contrast] = &[Contrast { key: "gc_choices", value: "2", with: &[] }];
    type Keys = DChoicesKeys;
}

/// Each is drawn: more would take long and find what `greedy` finds.
const MOST_CHOICES: u32 = 1 << 16;

impl VictimPolicy for DChoices {
    fn new(geometry: &Geometry, keys: &DChoicesKeys, rng: Rng) -> Self {
        let valid = vec![0; geometry.blocks() as usize];
        Self { sealed: SealedSet::new(geometry), valid, choices: keys.gc_choices, rng }
    }

    fn check_keys(keys: &DChoicesKeys) -> Result<(), ConfigError> {
        if keys.gc_choices == 0 {
            return refuse("gc_choices", 0, "must be at least 1");
        }
        if keys.gc_choices > MOST_CHOICES {
            return refuse("gc_choices", keys.gc_choices, format!("must be at most {MOST_CHOICES}"));
        }
        Ok(())
    }

    fn on_seal(&mut self, block: BlockId, valid: u32) {
        self.sealed.insert(block);
        self.valid[block.index()] = valid as u16;
    }

    #[inline]
    fn on_invalidate(&mut self, block: BlockId, valid: u32) {
        self.valid[block.index()] = valid as u16;
    }

    fn on_revalidate(&mut self, block: BlockId, valid: u32) {
        self.valid[block.index()] = valid as u16;
    }

    fn pick(&mut self, plane: PlaneId) -> Option<BlockId> {
        let mut best = self.sealed.draw(plane, &mut self.rng)?;
        for _ in 1..self.choices {
            let other = self.sealed.draw(plane, &mut self.rng)?;
            if self.valid[other.index()] < self.valid[best.index()] {
                best = other;
            }
        }
        self.sealed.remove(best);
        Some(best)
    }

    fn remove(&mut self, block: BlockId, _: u32) {
        self.sealed.remove(block);
    }

    fn table_bytes(&self) -> u64 {
        self.sealed.table_bytes() + self.valid.len() as u64 * 2
    }

    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { sealed, valid, rng, choices: _ } = self;
        sealed.tape(tape)?;
        valid.tape(tape)?;
        rng.tape(tape)
    }
}
