//! How much of the flash a page-mapped drive can use: open blocks, the reserve of collection, translation pages.

use crate::config::{Atomic, DeviceConfig, GcPace, JournalShape, MAX_UNITS};
use crate::error::{ConfigError, refuse};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};

/// Open blocks that a plane may have at a time.
pub fn open_blocks_per_plane(config: &DeviceConfig) -> u32 {
    config.ftl.data_slots()
        + u32::from(config.map_cache.kind.is_cache())
        + u32::from(ordered_units(config) > 0)
}

/// Blocks of a plane that hold no data but what is being written, which collection keeps free, and those for a journal and
/// for backups.
pub fn reserved_blocks(config: &DeviceConfig) -> u64 {
    u64::from(config.ftl.gc_high()) + u64::from(open_blocks_per_plane(config)) - 1
        + u64::from(config.backup_blocks_per_plane())
        + u64::from(config.journal_blocks_per_plane())
}

/// Mapping units of a plane that can be live.
///
/// Collection packs survivors into whole pages. It gains nothing of a block whose live units fill as many pages as the
/// block has, the last one with a single unit at least.
pub fn usable_units_per_plane(config: &DeviceConfig) -> u64 {
    let blocks = u64::from(config.geometry.blocks_per_plane).saturating_sub(reserved_blocks(config));
    let full_pages = u64::from(config.data_pages_per_block()).saturating_sub(1);
    blocks * (full_pages * config.geometry.slots_per_page() + 1)
}

/// Among how many homes pages are dealt out in turn, each of which has to hold its share: planes, or dies whose planes are
/// compared. 1 where a page that finds no room in one place goes to another.
fn homes(config: &DeviceConfig) -> u64 {
    let (placement, geometry) = (&config.ftl.placement, &config.geometry);
    if placement.goes_by_turn() || ordered_units(config) > 0 {
        1
    } else if placement.compares_planes() {
        geometry.all_planes() / u64::from(geometry.planes)
    } else {
        geometry.all_planes()
    }
}

/// Whether as many logical units, and the translation pages that they take, find room.
fn fits(config: &DeviceConfig, logical: u64) -> bool {
    let (slots, homes) = (config.geometry.slots_per_page(), homes(config));
    let pages = logical.div_ceil(slots).div_ceil(homes) + translation_pages(config, logical).div_ceil(homes);
    pages * slots <= usable_units_per_plane(config) * config.geometry.all_planes() / homes
}

/// The largest number that `fits`.
fn most(fits: impl Fn(u64) -> bool, too_many: u64) -> u64 {
    let (mut most, mut too_many) = (0, too_many);
    while too_many - most > 1 {
        let middle = u64::midpoint(most, too_many);
        if fits(middle) {
            most = middle;
        } else {
            too_many = middle;
        }
    }
    most
}

/// Most units of one request of which both the old and the new data find room. Call after `validate`.
pub fn most_units_at_once(config: &DeviceConfig) -> u64 {
    let logical = config.logical_pages();
    most(|units| fits(config, logical + units), config.physical_units().saturating_sub(logical).max(1))
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
    translation_pages(config, config.logical_pages()) * config.geometry.slots_per_page()
}

fn translation_pages(config: &DeviceConfig, logical: u64) -> u64 {
    if !config.map_cache.kind.is_cache() {
        return 0;
    }
    let entries = config.geometry.page_bytes / u64::from(ENTRY_BYTES);
    let blocks = match ordered_units(config) {
        0 => 0,
        units => logical.div_ceil(units.into()),
    };
    logical.div_ceil(entries) + blocks.div_ceil(entries)
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

/// Most flash commands that one access takes: what the host waits for, collection, and translation pages.
///
/// A round of collection in a die goes on until each plane has `gc_high_free_blocks`, and every block that it empties gains
/// a page at least. Wholly live blocks, which some policies choose, are as many as the die has. Static wear levelling
/// doubles that. Victims that were begun ahead of need add one for each plane, and one more. An access that finds no room in a die goes on to the next one.
///
/// With a mapping cache, memory may give up each entry of a translation page, and write back each page. Collections of
/// data then move entries of every translation page, but there are no more of them than pages with stale data.
pub fn most_commands_of_access(config: &DeviceConfig) -> u64 {
    let g = &config.geometry;
    let (slots, pages) = (g.slots_per_page(), u64::from(config.data_pages_per_block()));
    let dies = g.all_planes() / u64::from(g.planes);
    let rounds = if homes(config) == 1 { 2 * g.all_planes() } else { 1 }.max(slots.min(dies));
    let ahead = if config.ftl.gc_pace == GcPace::Even { 2 } else { 0 };
    let blocks = u64::from(g.planes)
        * (u64::from(g.blocks_per_plane) + u64::from(config.ftl.gc_high()) * pages + ahead)
        * rounds;
    // Each unit read, each page programmed, the pages of summaries, the erase; and that once more to level wear. Before a
    // program, each earlier page of its word line may be read and copied, and now and then a backup block erased.
    let backups =
        if config.lsb_backup.copies().is_some() { 3 * u64::from(config.cell.kind.kind().bits()) } else { 1 };
    // Before an erase, and after a trim, the journal may be written.
    let journal = config.journal().map_or(0, JournalShape::most_commands);
    let block = 2 * (pages * slots + pages + 3) * backups + journal;
    let access = (2 * slots + 2) * backups + 2 * journal;
    if !config.map_cache.kind.is_cache() {
        return blocks * block + access;
    }
    let translation = translation_pages(config, config.logical_pages());
    let entries = g.page_bytes / u64::from(ENTRY_BYTES);
    let physical = u64::from(g.blocks_per_plane) * pages * g.all_planes();
    let written = slots * (entries + translation) + translation * (2 * blocks + physical);
    (2 * blocks + physical + written).saturating_mul(block) + 4 * written + access
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
    let (backups, journal) = (config.backup_blocks_per_plane(), config.journal_blocks_per_plane());
    let blocks = g.blocks_per_plane.saturating_sub(backups.saturating_add(journal));
    if f.gc_high() >= blocks {
        let found = f.gc_low_free_blocks.max(f.gc_high_free_blocks);
        let for_backups =
            if backups > 0 { format!(" besides the {backups} for backups") } else { String::new() };
        let for_journal =
            if journal > 0 { format!(" besides the {journal} for the journal") } else { String::new() };
        // Collection stops at one free block more, unless that is stated.
        let most = blocks.saturating_sub(if f.gc_high_free_blocks == 0 { 2 } else { 1 });
        let expected = format!(
            "must be at most {most} with the {blocks} blocks of a plane{for_backups}{for_journal} (geometry.blocks_per_plane)"
        );
        return refuse(f.free_blocks_key(), found, expected);
    }
    check_size(config)?;
    let logical = config.logical_pages();
    if !fits(config, logical) {
        let most = most(|units| fits(config, units), logical);
        let per_block = u64::from(config.data_pages_per_block()) * g.slots_per_page();
        let physical = u64::from(g.blocks_per_plane) * per_block * g.all_planes();
        let translation = translation_units(config);
        let pages = if translation > 0 {
            format!(", and translation pages take {translation}")
        } else {
            String::new()
        };
        let for_backups =
            if backups > 0 { format!(", of which {backups} for lsb_backup") } else { String::new() };
        let for_journal = if journal > 0 {
            format!(", of which {journal} for the journal of power")
        } else {
            String::new()
        };
        let expected = format!(
            "at most {most} of the {physical} physical mapping units can be logical{}: each plane of {} blocks keeps \
             {} for open blocks and {}{for_backups}{for_journal}{pages}",
            config.spare_for(most),
            g.blocks_per_plane,
            reserved_blocks(config),
            f.free_blocks_key(),
        );
        return refuse(f.size_key(), format!("{logical} logical mapping units"), expected);
    }
    let least = 2 * g.slots_per_page();
    if config.power.atomic == Atomic::Request && most_units_at_once(config) < least {
        let found = format!("{logical} logical mapping units");
        let most = most(|units| fits(config, units + least), logical);
        let expected = format!(
            "leaves no room for the old data of a request of two pages, as power.atomic = \"request\" asks: at most {most} \
             mapping units can be logical{}",
            config.spare_for(most)
        );
        return refuse(f.size_key(), found, expected);
    }
    Ok(())
}
