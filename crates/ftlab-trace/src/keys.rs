//! Sizes and times as the keys of workload files have them: numbers, or strings with a unit.

use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::Deserializer;

/// Size in bytes, as a number or a string with a unit.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum SizeSchema {
    /// Bytes.
    Number(u64),
    /// A string with a unit.
    Text(String),
}

/// Time, as microseconds or a string with a unit.
#[derive(JsonSchema)]
#[serde(untagged)]
pub enum TimeSchema {
    /// Microseconds.
    Number(f64),
    /// A string with a unit.
    Text(String),
}

/// Read a time as microseconds.
///
/// # Errors
/// When it is neither a number nor a string with a unit of time.
pub fn optional_micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    quantity::micros(deserializer).map(Some)
}
