//! What of a drive is modelled, and which keys that leaves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What of a drive is modelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// The whole drive.
    #[default]
    Drive,
    /// The mapping cache alone: what lookups cost, added up one after the other. No data, no collection, no clock.
    MappingCache,
}

impl Model {
    /// Its name in device files.
    pub const fn name(self) -> &'static str {
        match self {
            Model::Drive => "drive",
            Model::MappingCache => "mapping_cache",
        }
    }
}

/// Sections of which the mapping cache alone takes only some keys: those.
pub const KEYS_OF_MAPPING_CACHE: &[(&str, &[&str])] = &[
    ("timing", &["read_us", "program_us", "bus_mb_per_s", "command_us"]),
    ("cell", &["kind"]),
    ("ftl", &["over_provisioning", "logical_bytes", "logical_pages", "summary_page"]),
    ("lsb_backup", &[]),
    ("power", &[]),
    ("buffer", &[]),
    ("nvm", &[]),
    ("host", &["arrival", "out_of_range", "unsorted_times"]),
    ("precondition", &[]),
];

/// Whether `model` takes a key of a section.
pub fn takes(model: Model, section: &str, key: &str) -> bool {
    model == Model::Drive
        || KEYS_OF_MAPPING_CACHE.iter().all(|(name, keys)| *name != section || keys.contains(&key))
}
