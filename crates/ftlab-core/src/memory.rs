//! How much memory the tables of a drive take at most, before it is made.

use crate::config::{Atomic, DeviceConfig, FillLayout, Model};
use crate::ftl::kinds::FtlKind;
use crate::ftl::page::capacity::{open_blocks_per_plane, translation_layout};
use crate::geometry::SECTOR_BYTES;
use crate::mapcache::alone;
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};

/// Tables of a drive for each physical mapping unit, without its mapping cache. `tests/allocations.rs` holds it.
const BYTES_PER_UNIT: u64 = 12;
/// The same of page mapping: where a unit is, its spare area, and a bit each for its validity and among the victims.
const BYTES_PER_MAPPED_UNIT: f64 = 8.25;
/// With page mapping, for each block and for each level of the victims of a plane.
const BYTES_PER_BLOCK: u64 = 64;
const BYTES_PER_LEVEL: u64 = 16;
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

/// A frame of a non-volatile cache, with its place in the order. `tests/allocations.rs` holds it.
const BYTES_PER_CACHE_FRAME: u64 = 48;

/// Frames of a non-volatile cache, and for each logical unit whether it was trimmed. A cache that works with the flash
/// also keeps a bit for each physical unit and a count for each block.
fn nvm_bytes(config: &DeviceConfig, verify: bool) -> u64 {
    let Some(keys) = config.nvm.keys() else { return 0 };
    let frames = (keys.bytes / config.unit_bytes()).min(config.logical_pages());
    let versions = if verify { 4 * config.unit_bytes() / u64::from(SECTOR_BYTES) } else { 0 };
    let removable = if config.nvm.cooperates() { config.physical_units() } else { 0 };
    frames * (BYTES_PER_CACHE_FRAME + versions) + config.logical_pages() / 8 + removable + (4 << 10)
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
    frames * (config.buffer.kind.bytes_per_frame() + versions) + (4 << 10)
}

/// Tables of units and of blocks.
fn of_units(config: &DeviceConfig, units: u64) -> u64 {
    if config.ftl.kind.kind() != FtlKind::Page || config.map_cache.kind.is_cache() {
        return units * BYTES_PER_UNIT;
    }
    (units as f64 * BYTES_PER_MAPPED_UNIT) as u64 + of_blocks(config)
}

fn of_blocks(config: &DeviceConfig) -> u64 {
    let g = &config.geometry;
    let levels = config.physical_units() / g.all_planes() / u64::from(g.blocks_per_plane) + 1;
    let of_plane = u64::from(g.blocks_per_plane) * BYTES_PER_BLOCK + levels * BYTES_PER_LEVEL;
    g.all_planes() * of_plane + (64 << 10)
}

/// Whether a first fill of the drive takes no memory of units: a formula says where they are, and nothing looks at each
/// write.
pub fn fills_by_formula(config: &DeviceConfig, verify: bool) -> bool {
    let in_turn = config.ftl.placement.fills_in_turn() && !config.strays();
    config.model != Model::MappingCache
        && !verify
        && config.ftl.kind.kind() == FtlKind::Page
        && !config.map_cache.kind.is_cache()
        && config.lsb_backup.copies().is_none()
        && config.power.atomic != Atomic::Request
        && (in_turn || config.precondition.layout() == Some(FillLayout::Blocks))
}

/// Bytes that the tables of a drive take before its first request, if the rest is taken only where requests touch it; `None`
/// where they take all at once. Call after [`DeviceConfig::validate`].
pub fn bytes_at_first(config: &DeviceConfig, verify: bool) -> Option<u64> {
    let is_aged = config.precondition.aging().is_some();
    if is_aged || !fills_by_formula(config, verify) {
        return None;
    }
    let all = bytes_at_most(config, verify);
    let units = config.physical_units();
    // The last pages of a fill, less than a round of blocks over all planes, are written.
    let round = units / u64::from(config.geometry.blocks_per_plane);
    Some(all - of_units(config, units) + of_units(config, round.min(units)))
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
    of_units(config, units)
        + config.ftl.placement.table_bytes(config.logical_pages(), blocks)
        + if verify { verifying } else { 0 }
        + cache_bytes(config, translation_layout(config))
        + backup_bytes(config)
        + buffer_bytes(config, verify)
        + nvm_bytes(config, verify)
}
