//! `[nvm]`: non-volatile memory beside flash.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kinds of non-volatile cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NvmKind {
    /// No non-volatile cache.
    #[default]
    None,
}

/// The non-volatile cache.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NvmConfig {
    /// The kind of cache.
    pub kind: NvmKind,
}
