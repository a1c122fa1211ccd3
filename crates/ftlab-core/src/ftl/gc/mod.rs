//! Garbage collection: which block is the victim.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schemes::Scheme;

/// stub
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum VictimKind {
    Greedy,
    Fifo,
    Random,
    DChoices,
    CostBenefit,
    WindowedGreedy,
}

/// stub
pub fn schemes() -> Vec<Scheme> {
    Vec::new()
}
