//! How many logical blocks, log blocks and free blocks a block-mapped drive has room for.

use crate::config::{Atomic, DeviceConfig, JournalShape, MAX_UNITS, Model, WearLevelingChoice};
use crate::error::{ConfigError, refuse};
use crate::ftl::hybrid::scheme::{Layout, Shape};
use crate::scheme::Choice;

/// Units of a cluster that are kept free for merges.
const SPARE_UNITS: u32 = 1;

/// How the layer of a validated configuration cuts up its drive.
///
/// # Panics
/// When the layer is page mapping.
pub fn shape(config: &DeviceConfig) -> Shape {
    let mut layout = layout(config).expect("the layer is block-mapped");
    let clusters = memories(config) / layout.width;
    let mut shape = Shape {
        layout,
        clusters,
        pages: config.geometry.pages_per_block * layout.width,
        units_per_cluster: blocks_per_plane(config),
        logical_pages: config.logical_pages() as u32,
        page_bytes: config.geometry.page_bytes as u32,
    };
    if layout.log_units == 0 && layout.least_logs > 0 {
        let left = logs_left(&shape);
        layout.log_units = if layout.has_logs_in_each { left } else { left * clusters };
        shape.layout = layout;
    }
    shape
}

fn memories(config: &DeviceConfig) -> u32 {
    config.geometry.all_planes() as u32
}

/// Blocks of each plane that may hold data or logs: all but those for backups and for the journal of trims.
fn blocks_per_plane(config: &DeviceConfig) -> u32 {
    let others = config.backup_blocks_per_plane().saturating_add(config.journal_blocks_per_plane());
    config.geometry.blocks_per_plane.saturating_sub(others)
}

fn layout(config: &DeviceConfig) -> Option<Layout> {
    config.ftl.kind.layout(memories(config))
}

/// Log units that a layout asks each cluster to have room for.
fn logs_of_each_cluster(layout: &Layout, clusters: u32) -> u32 {
    if layout.has_logs_in_each { layout.log_units } else { layout.log_units.div_ceil(clusters) }
}

/// Log units that each cluster has room for, beside its data and a free unit.
fn logs_left(shape: &Shape) -> u32 {
    let data = shape.logical_blocks().div_ceil(shape.clusters);
    shape.units_per_cluster.saturating_sub(data).saturating_sub(SPARE_UNITS)
}

/// Most flash commands that one access takes: the merges that make room for it. A log block that many share asks for a merge
/// for each of its pages, and after a cut there may be more log blocks than usual.
pub fn most_commands_of_access(config: &DeviceConfig) -> u64 {
    let shape = shape(config);
    let (pages, width) = (u64::from(shape.pages), u64::from(shape.layout.width));
    // Each page read and programmed, and both units erased. Before a program, each earlier page of its word line may be read
    // and copied, and now and then a backup block erased.
    let backups =
        if config.lsb_backup.copies().is_some() { 3 * u64::from(config.cell.kind.kind().bits()) } else { 1 };
    let merge = 2 * pages + 2 * width + 2;
    let blocks = if shape.layout.shares_logs { 2 * pages } else { 1 };
    let logs = u64::from(shape.layout.log_units) + u64::from(shape.clusters) + 2;
    // Before an erase of what was trimmed, and after a trim, the journal may be written.
    let journal = config.journal().map_or(0, JournalShape::most_commands);
    (logs * (blocks * merge + 2 * pages + width) + 2 * width + 2) * backups + 2 * journal
}

/// Check that the drive is one that a block-mapped layer works on, and that all of it fits.
///
/// # Errors
/// The key that asks for too much, and what would fit.
pub fn check(config: &DeviceConfig) -> Result<(), ConfigError> {
    check_parts(config)?;
    let (g, f) = (&config.geometry, &config.ftl);
    let Some(layout) = layout(config) else { return Ok(()) };
    let memories = memories(config);
    if layout.width == 0 || !memories.is_multiple_of(layout.width) {
        let expected = format!("must divide the {memories} memories (planes) of the drive");
        return refuse("ftl.cluster_memories", layout.width, expected);
    }
    let logical = config.logical_pages();
    if logical == 0 {
        return refuse(f.size_key(), logical, "the drive would have no logical page");
    }
    let per_block = u64::from(g.pages_per_block) * u64::from(layout.width);
    let clusters = u64::from(memories / layout.width);
    let blocks = u64::from(blocks_per_plane(config));
    let beside = |logs: u32| {
        let data = blocks.saturating_sub(u64::from(SPARE_UNITS) + u64::from(logs));
        (data * clusters * per_block).min(MAX_UNITS)
    };
    if logical > beside(layout.least_logs) {
        // What would be accepted: with the logs that are asked for, if they fit at all.
        let asked = logs_of_each_cluster(&layout, clusters as u32).max(layout.least_logs);
        let logs = if beside(asked) > 0 { asked } else { layout.least_logs };
        let most_logical = beside(logs);
        let expected = format!(
            "at most {most_logical}{}: of the {} blocks of each memory, {SPARE_UNITS} stays free for merges and {} {} for logs{}",
            config.spare_for(most_logical),
            g.blocks_per_plane,
            logs,
            if logs == 1 { "is" } else { "are" },
            match config.backup_blocks_per_plane() {
                0 => String::new(),
                1 => ", and 1 is for backups".to_owned(),
                more => format!(", and {more} are for backups"),
            } + &match config.journal_blocks_per_plane() {
                0 => String::new(),
                1 => ", and 1 is for the journal of power".to_owned(),
                more => format!(", and {more} are for the journal of power"),
            },
        );
        return refuse(f.size_key(), format!("{logical} logical pages"), expected);
    }
    let shape = shape(config);
    let left = logs_left(&shape);
    let each = logs_of_each_cluster(&shape.layout, shape.clusters);
    if each > left {
        let most = u64::from(left) * clusters * u64::from(layout.width);
        let needed = u64::from(SPARE_UNITS) + u64::from(each);
        let enough = blocks.saturating_sub(needed) * clusters * per_block;
        let expected = match enough {
            0 => format!(
                "over-provisioning leaves room for {most}, and so many have no room on this drive at all"
            ),
            _ => format!(
                "over-provisioning leaves room for {most}; so many would need a drive of at most {enough} logical pages{}",
                config.spare_for(enough),
            ),
        };
        let asked = u64::from(each) * clusters * u64::from(layout.width);
        return refuse("ftl.log_blocks", format!("{asked} log blocks"), expected);
    }
    Ok(())
}

/// What block-mapped layers do not go with.
fn check_parts(config: &DeviceConfig) -> Result<(), ConfigError> {
    let (g, f) = (&config.geometry, &config.ftl);
    let kind = f.kind.kind().name();
    if config.model != Model::Drive {
        return refuse("model", "\"mapping_cache\"", format!("needs ftl.kind = \"page\", not {kind:?}"));
    }
    if g.unit_bytes() != g.page_bytes {
        let expected = format!("ftl.kind = {kind:?} maps whole pages: must be {}, or left out", g.page_bytes);
        return refuse("geometry.mapping_unit_bytes", g.unit_bytes(), expected);
    }
    if config.map_cache.kind.is_cache() {
        let name = format!("{:?}", crate::mapcache::MapCacheChoice::name(config.map_cache.kind.kind()));
        let expected = format!("the table of ftl.kind = {kind:?} is in memory: must be \"ideal\"");
        return refuse("map_cache.kind", name, expected);
    }
    if config.power.atomic == Atomic::Request {
        let expected = format!("needs ftl.kind = \"page\", not {kind:?}: must be \"unit\"");
        return refuse("power.atomic", "\"request\"", expected);
    }
    if let WearLevelingChoice::Static(_) = f.wear_leveling {
        let expected = format!("ftl.kind = {kind:?} moves no cold data: must be \"none\" or \"dynamic\"");
        return refuse("ftl.wear_leveling", "\"static\"", expected);
    }
    Ok(())
}
