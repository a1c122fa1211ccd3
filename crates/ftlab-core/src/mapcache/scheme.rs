//! What the file of a mapping cache says of it beside what it does: limits of its keys, and memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;
use crate::mapcache::cache::MapCache;
use crate::mapcache::layout::TranslationLayout;
use crate::quantity;
use crate::scheme::Scheme;

/// The keys of a mapping cache, and its memory.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CacheKeys<K> {
    /// Memory for entries. The directory of translation pages is not counted.
    ///
    /// Default: none: the size is what mapping caches are compared by, and has to be said.
    #[serde(default, deserialize_with = "quantity::bytes")]
    pub bytes: u64,
    /// Those that only it has.
    #[serde(flatten)]
    pub own: K,
}

/// The pages in which the table lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageSizes {
    /// Data bytes of a page.
    pub page_bytes: u64,
    /// Spare bytes of a page.
    pub spare_bytes: u64,
}

/// What the tables of a mapping cache take in this program, at most: memory of the machine that runs it, not of the drive.
/// `tests/allocations.rs` holds it for every kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableBytes {
    /// For each logical unit.
    pub per_unit: u64,
    /// For each entry or run of entries that memory may hold.
    pub per_node: u64,
    /// The least memory of the drive that such an entry or run takes.
    pub node_bytes: u64,
    /// For each translation page.
    pub per_page: u64,
    /// Beside all that.
    pub more: u64,
}

/// A mapping cache that device files can name: its file implements this, and the list names it.
pub trait MapCacheScheme: Scheme + MapCache + Sized + 'static {
    /// What the least memory must hold, as errors say it.
    const LEAST: &'static str = "one fetch";

    /// Empty, with `bytes` of memory.
    fn new(keys: &Self::Keys, bytes: u64, layout: TranslationLayout) -> Self;

    /// Check the limits of its keys; keys in errors are without their section.
    ///
    /// # Errors
    /// The first value beyond them.
    fn check_keys(keys: &Self::Keys, page: PageSizes) -> Result<(), ConfigError> {
        let _ = (keys, page);
        Ok(())
    }

    /// The least memory that holds one fetch, when `bytes` of it are given.
    fn least_bytes(keys: &Self::Keys, bytes: u64, layout: TranslationLayout) -> u64;

    /// Memory that holds the whole table, however it is fragmented: every lookup but the first of an entry hits then.
    fn whole_table_bytes(keys: &Self::Keys, layout: TranslationLayout) -> u64;

    /// What its tables take in this program, at most.
    fn table_bytes_at_most(keys: &Self::Keys, layout: TranslationLayout) -> TableBytes;

    /// Units of the logical blocks that it wants in order; 0: none.
    fn block_units(keys: &Self::Keys) -> u32 {
        let _ = keys;
        0
    }
}
