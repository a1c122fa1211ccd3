//! How much of the flash a page-mapped drive can use: open blocks, the reserve of collection, translation pages.

use crate::config::{DeviceConfig, GcOpenBlock, MAX_UNITS};
use crate::error::{ConfigError, refuse};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};

/// Open blocks that a plane may have at a time.
pub fn open_blocks_per_plane(config: &DeviceConfig) -> u32 {
    config.ftl.placement.host_slots()
        + u32::from(config.ftl.gc_open_block == GcOpenBlock::Separate)
        + u32::from(config.map_cache.kind.is_cache())
        + u32::from(ordered_units(config) > 0)
}

/// Blocks of a plane that hold no data but what is being written: collection keeps them free.
fn reserved_blocks(config: &DeviceConfig) -> u64 {
    u64::from(config.ftl.gc_high()) + u64::from(open_blocks_per_plane(config)) - 1
}

/// Mapping units of a plane that can be live.
pub fn usable_units_per_plane(config: &DeviceConfig) -> u64 {
    let blocks = u64::from(config.geometry.blocks_per_plane).saturating_sub(reserved_blocks(config));
    blocks * u64::from(config.data_pages_per_block()) * config.geometry.slots_per_page()
}

/// Units of the logical blocks that collection puts in order for the mapping cache; 0: none. They must fit in a block, and
/// fill pages.
pub fn ordered_units(config: &DeviceConfig) -> u32 {
    let (units, slots) = (config.map_cache.kind.block_units(), config.geometry.slots_per_page());
    let fits = slots..=u64::from(config.data_pages_per_block()) * slots;
    if fits.contains(&u64::from(units)) { units } else { 0 }
}

/// Mapping units that translation pages take. Call after `validate`.
pub fn translation_units(config: &DeviceConfig) -> u64 {
    if !config.map_cache.kind.is_cache() {
        return 0;
    }
    let entries = config.geometry.page_bytes / u64::from(ENTRY_BYTES);
    let blocks = match ordered_units(config) {
        0 => 0,
        units => config.logical_pages().div_ceil(units.into()),
    };
    (config.logical_pages().div_ceil(entries) + blocks.div_ceil(entries)) * config.geometry.slots_per_page()
}

/// How translation pages divide the logical space of a validated configuration.
pub fn translation_layout(config: &DeviceConfig) -> TranslationLayout {
    let g = &config.geometry;
    TranslationLayout {
        logical_units: config.logical_pages() as u32,
        shift: (g.page_bytes as u32 / ENTRY_BYTES).trailing_zeros(),
        slots: g.slots_per_page() as u32,
        planes: g.all_planes() as u32,
        block_units: ordered_units(config),
    }
}

/// Check that the logical space is one that can be counted, whether or not there is flash to hold it.
///
/// # Errors
/// The key that asks for too much or for nothing.
pub fn check_size(config: &DeviceConfig) -> Result<(), ConfigError> {
    let logical = config.logical_pages();
    if logical == 0 {
        return refuse(config.ftl.size_key(), logical, "the drive would have no logical page");
    }
    if logical > MAX_UNITS {
        let found = format!("{logical} logical mapping units");
        let expected = format!("at most {MAX_UNITS}: mapping units are counted in 32 bits");
        return refuse(config.ftl.size_key(), found, expected);
    }
    Ok(())
}

/// Check that the logical space fits.
///
/// # Errors
/// The key that asks for too much, and what would fit.
pub fn check(config: &DeviceConfig) -> Result<(), ConfigError> {
    let (g, f) = (&config.geometry, &config.ftl);
    // First: otherwise the drive would be called full.
    if f.gc_high() >= g.blocks_per_plane {
        let found = f.gc_low_free_blocks.max(f.gc_high_free_blocks);
        let expected = format!("must stay below the {} blocks of a plane", g.blocks_per_plane);
        return refuse(f.free_blocks_key(), found, expected);
    }
    check_size(config)?;
    let logical = config.logical_pages();
    let translation = translation_units(config);
    let usable = usable_units_per_plane(config) * g.all_planes();
    if logical + translation > usable {
        let per_block = u64::from(config.data_pages_per_block()) * g.slots_per_page();
        let physical = u64::from(g.blocks_per_plane) * per_block * g.all_planes();
        let pages = if translation > 0 {
            format!(", and translation pages take {translation}")
        } else {
            String::new()
        };
        let expected = format!(
            "at most {} of the {physical} physical mapping units can be logical: each plane of {} blocks keeps \
             {} for open blocks and {}{pages}",
            usable.saturating_sub(translation),
            g.blocks_per_plane,
            reserved_blocks(config),
            f.free_blocks_key(),
        );
        return refuse(f.size_key(), format!("{logical} logical mapping units"), expected);
    }
    Ok(())
}
