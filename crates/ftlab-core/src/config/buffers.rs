//! `[buffer]` and `[nvm]`: memory beside flash.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kinds of volatile write buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BufferKind {
    /// No buffer: a write is acknowledged when its pages are programmed.
    #[default]
    None,
}

/// The volatile write buffer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BufferConfig {
    /// The kind of buffer.
    pub kind: BufferKind,
}

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
