//! How much memory the tables of a drive take at most, before it is made.

use crate::config::{DeviceConfig, Model};
use crate::ftl::kinds::FtlKind;
use crate::ftl::page::capacity::{open_blocks_per_plane, translation_layout};
use crate::geometry::SECTOR_BYTES;
use crate::mapcache::alone;
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};

/// Tables of a drive for each physical mapping unit, without its mapping cache. `tests/allocations.rs` holds it.
const BYTES_PER_UNIT: u64 = 12;
/// With verification: a version for each sector.
const VERIFY_BYTES_PER_SECTOR: u64 = 8;
/// With verification: what translation pages say of a unit.
const VERIFY_BYTES_PER_UNIT: u64 = 4;

fn cache_bytes(config: &DeviceConfig, layout: TranslationLayout) -> u64 {
    let kind = &config.map_cache.kind;
    let Some(tables) = kind.table_bytes_at_most(layout) else { return 0 };
    let logical = config.logical_pages();
    let pages = logical.div_ceil(config.geometry.page_bytes / u64::from(ENTRY_BYTES));
    // Tables that grow double.
    let nodes = (kind.bytes() / tables.node_bytes).min(logical).next_power_of_two();
    // Where translation pages are, and which of them are to be written.
    let directory = 16 * pages;
    tables.per_unit * logical
        + tables.per_node * nodes
        + tables.per_page * pages
        + tables.more
        + directory
        + 16 * config.geometry.all_planes()
        + (64 << 10)
}

/// A page of a block that is being filled, with LSB backup.
const BYTES_PER_OPEN_PAGE: u64 = 32;

/// A frame of a write buffer, with its place in the order. `tests/allocations.rs` holds it.
const BYTES_PER_FRAME: u64 = 64;

/// Frames of a non-volatile cache, and for each logical unit whether it was trimmed. A cache that works with the flash
/// also keeps a bit for each physical unit and a count for each block.
fn nvm_bytes(config: &DeviceConfig, verify: bool) -> u64 {
    let Some(keys) = config.nvm.keys() else { return 0 };
    let frames = (keys.bytes / config.unit_bytes()).min(config.logical_pages());
    let versions = if verify { 4 * config.unit_bytes() / u64::from(SECTOR_BYTES) } else { 0 };
    let removable = if config.nvm.cooperates() { config.physical_units() } else { 0 };
    frames * (BYTES_PER_FRAME + versions) + config.logical_pages() / 8 + removable + (4 << 10)
}

/// What LSB backup remembers of each page of the blocks that are being filled, and of what a non-volatile cache has. Of
/// block-mapped layers any block may be.
fn backup_bytes(config: &DeviceConfig) -> u64 {
    if config.lsb_backup.copies().is_none() {
        return 0;
    }
    let g = &config.geometry;
    let blocks = g.all_planes() * u64::from(g.blocks_per_plane);
    let filled = match config.ftl.kind.kind() {
        FtlKind::Page => g.all_planes() * u64::from(open_blocks_per_plane(config) + 2),
        _ => blocks,
    };
    let cached = if config.nvm.cooperates() { config.physical_units() / 8 + 16 * blocks } else { 0 };
    filled * (u64::from(g.pages_per_block) * BYTES_PER_OPEN_PAGE + 8) + 4 * blocks + cached
}

fn buffer_bytes(config: &DeviceConfig, verify: bool) -> u64 {
    let Some(keys) = config.buffer.keys() else { return 0 };
    let frames = (keys.bytes / config.unit_bytes()).min(config.logical_pages());
    let versions = if verify { 4 * config.unit_bytes() / u64::from(SECTOR_BYTES) } else { 0 };
    frames * (BYTES_PER_FRAME + versions) + (4 << 10)
}

/// Bytes that the tables of a drive take at most. Call after [`DeviceConfig::validate`].
pub fn bytes_at_most(config: &DeviceConfig, verify: bool) -> u64 {
    if config.model == Model::MappingCache {
        return alone::bytes_at_most(config) + cache_bytes(config, alone::layout(config));
    }
    let units = config.physical_units();
    let sectors = units * (config.unit_bytes() / u64::from(SECTOR_BYTES));
    let blocks = config.geometry.all_planes() * u64::from(config.geometry.blocks_per_plane);
    let verifying = sectors * VERIFY_BYTES_PER_SECTOR + units * VERIFY_BYTES_PER_UNIT;
    units * BYTES_PER_UNIT
        + config.ftl.placement.table_bytes(config.logical_pages(), blocks)
        + if verify { verifying } else { 0 }
        + cache_bytes(config, translation_layout(config))
        + backup_bytes(config)
        + buffer_bytes(config, verify)
        + nvm_bytes(config, verify)
}
