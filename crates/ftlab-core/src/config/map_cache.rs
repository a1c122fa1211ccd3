//! `[map_cache]`: where the mapping table lives.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mapcache::MapCacheChoice;

/// Where the mapping table lives.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MapCacheConfig {
    /// The kind of mapping cache.
    #[serde(flatten)]
    pub kind: MapCacheChoice,
}
