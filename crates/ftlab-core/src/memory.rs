//! How much memory the tables of a drive take at most, before it is made.

use crate::config::{DeviceConfig, FtlKind};
use crate::geometry::SECTOR_BYTES;
use crate::mapcache::MapCacheKind;
use crate::mapcache::layout::ENTRY_BYTES;

/// Tables of a drive for each physical mapping unit, without its mapping cache. `tests/allocations.rs` holds it.
const BYTES_PER_UNIT: u64 = 12;
/// With verification: a version for each sector.
const VERIFY_BYTES_PER_SECTOR: u64 = 8;
/// With verification: when a unit was programmed, and what translation pages say of it.
const VERIFY_BYTES_PER_UNIT: u64 = 8;

/// What the tables of a mapping cache take in this program, at most. `tests/allocations.rs` holds it for every kind.
struct CacheTables {
    /// For each logical unit.
    per_unit: u64,
    /// For each entry or run of entries that memory may hold.
    per_node: u64,
    /// The least memory of the drive that such an entry or run takes.
    node_bytes: u64,
    /// For each translation page.
    per_page: u64,
}

fn cache_tables(config: &DeviceConfig) -> CacheTables {
    use MapCacheKind::{Bsb, Cdftl, Cftl, Dftl, FullPage, HalfPage, Ideal, Leaftl, Sftl, Tafp, Tpftl};
    let entry = u64::from(config.map_cache.entry_bytes);
    let (run, page) = (u64::from(ENTRY_BYTES), config.geometry.page_bytes);
    let (per_unit, per_node, node_bytes, per_page) = match config.map_cache.kind {
        Ideal => (0, 0, 1, 0),
        Dftl => (4, 24, entry, 8),
        Cdftl => (4, 24, entry, 24),
        Tpftl => (4, 28, run, 64),
        FullPage => (5, 40, page, 24),
        HalfPage => (5, 40, page / 2, 24),
        Tafp => (5, 40, run, 24),
        Bsb => (5, 40, run, 24 + 3 * 24),
        Sftl => (1, 0, 1, 40),
        Cftl => (5, 56, 8, 8),
        // All segments stay in the tables, in memory of the drive or not: one for each unit, at worst.
        Leaftl => (48, 0, 1, 64),
    };
    CacheTables { per_unit, per_node, node_bytes, per_page }
}

fn cache_bytes(config: &DeviceConfig) -> u64 {
    if config.map_cache.kind == MapCacheKind::Ideal {
        return 0;
    }
    let logical = config.logical_pages();
    let pages = logical.div_ceil(config.geometry.page_bytes / u64::from(ENTRY_BYTES));
    let tables = cache_tables(config);
    // Tables that grow double.
    let nodes = (config.map_cache.bytes / tables.node_bytes).min(logical).next_power_of_two();
    // Where translation pages are, and which of them are to be written.
    let directory = 16 * pages;
    let learning = if config.map_cache.kind == MapCacheKind::Leaftl {
        64 * u64::from(config.map_cache.leaftl_batch_pages).min(logical)
    } else {
        0
    };
    let sparse = if config.map_cache.kind == MapCacheKind::Sftl {
        16 * u64::from(config.map_cache.sparse_entries)
    } else {
        0
    };
    let planes = u64::from(config.geometry.channels)
        * u64::from(config.geometry.ways)
        * u64::from(config.geometry.dies)
        * u64::from(config.geometry.planes);
    tables.per_unit * logical
        + tables.per_node * nodes
        + tables.per_page * pages
        + directory
        + learning
        + sparse
        + 16 * planes
        + (64 << 10)
}

/// Bytes that the tables of a drive take at most. Call after [`DeviceConfig::validate`].
pub fn bytes_at_most(config: &DeviceConfig, verify: bool) -> u64 {
    if config.ftl.kind == FtlKind::MapOnly {
        // No flash: the physical addresses that some caches look at, and what waits to be sorted.
        return 8 * config.logical_pages() + cache_bytes(config);
    }
    let units = config.physical_units();
    let sectors = units * (config.unit_bytes() / u64::from(SECTOR_BYTES));
    let verifying = sectors * VERIFY_BYTES_PER_SECTOR + units * VERIFY_BYTES_PER_UNIT;
    units * BYTES_PER_UNIT + if verify { verifying } else { 0 } + cache_bytes(config)
}
