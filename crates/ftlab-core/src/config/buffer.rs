//! `[buffer]`: the volatile write buffer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::BufferChoice;
use crate::buffer::keys::{CommonKeys, Select, WriteMode};
use crate::buffer::order::VictimUnit;
use crate::config::timing::{HOUR_US, check_rate};
use crate::error::{ConfigError, refuse};
use crate::geometry::SECTOR_BYTES;

/// The volatile write buffer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BufferConfig {
    /// The kind of buffer, with its keys.
    #[serde(flatten)]
    pub kind: BufferChoice,
}

/// What the limits of a buffer depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BufferSetting {
    pub(crate) page_bytes: u64,
    pub(crate) unit_bytes: u64,
    /// Mapping units of the block that block-level orders think in.
    pub(crate) block_units: u32,
    /// Units that run commands at the same time.
    pub(crate) lanes: u32,
    /// What lets the address of a page decide which of them it goes to; `None` when it does.
    pub(crate) lets_addresses_decide: Option<&'static str>,
}

impl BufferConfig {
    /// The keys that every order shares; `None` when there is no buffer.
    pub fn keys(&self) -> Option<&CommonKeys> {
        self.kind.common().filter(|keys| keys.bytes > 0)
    }

    /// Whether there is a buffer.
    pub fn is_on(&self) -> bool {
        self.keys().is_some()
    }

    /// Whether there is a buffer, and an acknowledged write may be nowhere else.
    pub fn writes_back(&self) -> bool {
        self.keys().is_some_and(|keys| keys.write == WriteMode::Back)
    }

    /// Check its limits.
    ///
    /// # Errors
    /// The first value beyond them.
    pub(crate) fn check(&self, setting: BufferSetting) -> Result<(), ConfigError> {
        self.kind.check_own()?;
        let Some(keys) = self.kind.common() else { return Ok(()) };
        if !(keys.access_us >= 0.0 && keys.access_us <= HOUR_US) {
            return refuse("buffer.access_us", keys.access_us, "must be at most an hour, in microseconds");
        }
        check_rate("buffer.mb_per_s", keys.mb_per_s)?;
        if let Some(hiding) = keys.hiding
            && !(0.0..=1.0).contains(&hiding)
        {
            return refuse("buffer.hiding", hiding, "must be a share from 0 to 1");
        }
        if keys.bytes == 0 {
            return Ok(());
        }
        let BufferSetting { page_bytes, unit_bytes, block_units, lanes, lets_addresses_decide } = setting;
        if keys.bytes < page_bytes {
            let expected = format!("must hold a NAND page, {page_bytes} bytes, or be 0 for no buffer");
            return refuse("buffer.bytes", keys.bytes, expected);
        }
        let most = 64 * u64::from(SECTOR_BYTES);
        if unit_bytes > most {
            let expected = format!(
                "keeps account of at most 64 sectors a page: geometry.mapping_unit_bytes is {unit_bytes}, choose {most} or less"
            );
            return refuse("buffer.kind", format!("{:?}", self.kind.kind().name()), expected);
        }
        if keys.block_pages > 0 && !self.kind.looks_at_blocks() {
            let expected = "is about blocks, which this order does not look at: choose 0";
            return refuse("buffer.block_pages", keys.block_pages, expected);
        }
        let block_units = if keys.block_pages > 0 { keys.block_pages } else { block_units };
        let frames = keys.bytes / unit_bytes;
        let is_block = self.kind.victim_unit() == VictimUnit::Block;
        if is_block && frames < block_units.into() {
            let least = u64::from(block_units) * unit_bytes;
            let expected = format!("must hold a block, as this order takes blocks: at least {least} bytes");
            return refuse("buffer.bytes", keys.bytes, expected);
        }
        let rate = keys.rate.count(lanes);
        if frames < rate.into() {
            let least = u64::from(rate) * unit_bytes;
            let expected = format!("takes {rate} frames at a time: buffer.bytes must be at least {least}");
            return refuse("buffer.rate", keys.rate, expected);
        }
        if let (Select::Distinct, Some(change)) = (keys.select, lets_addresses_decide) {
            let expected = format!(
                "needs pages whose address decides their die: choose {change}, or buffer.select = \"order\""
            );
            return refuse("buffer.select", "\"distinct\"", expected);
        }
        if u64::from(keys.prefetch_pages) >= frames && self.kind.keeps_reads() {
            let expected = format!("would give up what it has just read: must be below the {frames} frames");
            return refuse("buffer.prefetch_pages", keys.prefetch_pages, expected);
        }
        self.check_reads(keys)
    }

    fn check_reads(&self, keys: &CommonKeys) -> Result<(), ConfigError> {
        if self.kind.keeps_reads() {
            return Ok(());
        }
        // This order keeps what is read if it is told to, or never does.
        let change = if matches!(self.kind, BufferChoice::Lru(_)) {
            "buffer.keep_reads = true"
        } else {
            "buffer.kind = \"lru\""
        };
        let keeps = "keeps nothing with this order, which does not keep what is read";
        if keys.write == WriteMode::Through {
            let expected = format!("{keeps}: choose \"back\", or {change}");
            return refuse("buffer.write", "\"through\"", expected);
        }
        if keys.prefetch_pages > 0 {
            let expected = format!("{keeps}: choose 0, or {change}");
            return refuse("buffer.prefetch_pages", keys.prefetch_pages, expected);
        }
        Ok(())
    }
}
