//! `[geometry]`: how the flash is organised.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::geometry::SECTOR_BYTES;
use crate::quantity;

/// How the flash is organised: channel > way > die > plane > block > page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeometryConfig {
    /// Channels: buses that move one transfer at a time.
    pub channels: u32,
    /// Chips (chip enables) on each channel.
    pub ways: u32,
    /// Dies in each chip.
    ///
    /// Default: one, the plainest chip.
    #[serde(default = "one")]
    pub dies: u32,
    /// Planes in each die.
    ///
    /// Default: one, the plainest die.
    #[serde(default = "one")]
    pub planes: u32,
    /// Erase blocks in each plane.
    pub blocks_per_plane: u32,
    /// Pages in each block.
    pub pages_per_block: u32,
    /// Data bytes of a page, a power of two.
    #[serde(deserialize_with = "quantity::bytes")]
    pub page_bytes: u64,
    /// Spare bytes of a page, beyond `page_bytes`. They cross the bus when `timing.transfer_spare` says so.
    ///
    /// Default: none, as they change nothing unless they cross the bus.
    #[serde(default, deserialize_with = "quantity::bytes")]
    pub spare_bytes: u64,
    /// Bytes that one mapping entry covers, a power of two that divides `page_bytes`; 0 (the default) means a whole
    /// page. Modern drives map 4 KiB in 16 KiB pages.
    ///
    /// Default: a page, as in most FTL studies.
    #[serde(default, deserialize_with = "quantity::bytes")]
    pub mapping_unit_bytes: u64,
}

fn one() -> u32 {
    1
}

/// Largest number of mapping units in a drive: they are counted in 32 bits, a few values of which are reserved.
pub const MAX_UNITS: u64 = u32::MAX as u64 - 16;

impl GeometryConfig {
    /// Bytes of one mapping unit.
    pub fn unit_bytes(&self) -> u64 {
        match self.mapping_unit_bytes {
            0 => self.page_bytes,
            bytes => bytes,
        }
    }

    /// Mapping units of a page.
    pub fn slots_per_page(&self) -> u64 {
        self.page_bytes / self.unit_bytes()
    }

    /// Planes of the drive.
    pub fn all_planes(&self) -> u64 {
        u64::from(self.channels) * u64::from(self.ways) * u64::from(self.dies) * u64::from(self.planes)
    }

    /// Check its limits.
    ///
    /// # Errors
    /// The first value beyond them.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        let g = self;
        for (key, value, max) in [
            ("geometry.channels", g.channels, 1024),
            ("geometry.ways", g.ways, 1024),
            ("geometry.dies", g.dies, 1024),
            ("geometry.planes", g.planes, 64),
            ("geometry.blocks_per_plane", g.blocks_per_plane, u32::MAX - 16),
            ("geometry.pages_per_block", g.pages_per_block, 16_384),
        ] {
            if value == 0 || value > max {
                return refuse(key, value, format!("must be from 1 to {max}"));
            }
        }
        if !g.page_bytes.is_power_of_two() || g.page_bytes < SECTOR_BYTES.into() || g.page_bytes > 1 << 24 {
            return refuse(
                "geometry.page_bytes",
                g.page_bytes,
                "must be a power of two from 512 bytes to 16 MiB",
            );
        }
        if g.spare_bytes > g.page_bytes {
            return refuse("geometry.spare_bytes", g.spare_bytes, "must not exceed geometry.page_bytes");
        }
        let unit = self.unit_bytes();
        if !unit.is_power_of_two() || unit < SECTOR_BYTES.into() || unit > g.page_bytes {
            let expected = "must be a power of two from 512 bytes to geometry.page_bytes";
            return refuse("geometry.mapping_unit_bytes", unit, expected);
        }
        if g.page_bytes / unit > 16 {
            return refuse(
                "geometry.mapping_unit_bytes",
                unit,
                "must be at least a sixteenth of geometry.page_bytes",
            );
        }
        let block_units = u64::from(g.pages_per_block) * (g.page_bytes / unit);
        if block_units > u64::from(u16::MAX) {
            let found = format!("{block_units} mapping units in a block");
            return refuse("geometry.pages_per_block", found, "a block may have at most 65535 mapping units");
        }
        let dies = u64::from(g.channels) * u64::from(g.ways) * u64::from(g.dies);
        if dies * u64::from(g.planes) > 65_536 {
            let found = format!("{} planes in all", dies * u64::from(g.planes));
            return refuse(
                "geometry.channels",
                found,
                "channels x ways x dies x planes must not exceed 65536",
            );
        }
        let blocks = self.all_planes() * u64::from(g.blocks_per_plane);
        let units = blocks.saturating_mul(block_units);
        if units > MAX_UNITS {
            let found = format!("{units} mapping units of {unit} bytes in all");
            let expected = format!(
                "the drive may have at most {MAX_UNITS} mapping units; raise geometry.mapping_unit_bytes or make it smaller"
            );
            return refuse("geometry.blocks_per_plane", found, expected);
        }
        Ok(())
    }
}
