//! `[nvm]`: non-volatile memory beside flash.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::order::VictimUnit;
use crate::buffer::{BufferChoice, BufferKind};
use crate::config::timing::{HOUR_US, check_rate};
use crate::error::{ConfigError, refuse};
use crate::nvm::{CacheKeys, CachePlace, NvmChoice};

/// The non-volatile cache.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NvmConfig {
    /// The kind of cache, with its keys.
    #[serde(flatten)]
    pub kind: NvmChoice,
}

impl NvmConfig {
    /// The keys that every kind shares; `None` when there is no cache.
    pub fn keys(&self) -> Option<&CacheKeys> {
        self.kind.cache().filter(|keys| keys.bytes > 0)
    }

    /// Whether there is a cache.
    pub fn is_on(&self) -> bool {
        self.keys().is_some()
    }

    /// Whether there is a cache that agrees with the flash on who holds the only copy.
    pub fn cooperates(&self) -> bool {
        self.is_on() && self.kind.cooperates()
    }

    /// Whether it is in the host, and each change of state a message.
    pub fn is_in_host(&self) -> bool {
        matches!(&self.kind, NvmChoice::Cdm(keys) if self.is_on() && keys.place == CachePlace::Host)
    }

    /// How long a message of a change of state takes, in microseconds; 0 inside the drive.
    pub fn message_us(&self) -> f64 {
        match &self.kind {
            NvmChoice::Cdm(keys) if self.is_in_host() => keys.message_us,
            _ => 0.0,
        }
    }

    /// Check its limits. `link_mb_per_s`: the rate of the host's link. `cannot_cooperate`: the name of the translation layer,
    /// if it cannot work with a cache.
    ///
    /// # Errors
    /// The first value beyond them.
    pub(crate) fn check(
        &self,
        page_bytes: u64,
        link_mb_per_s: f64,
        cannot_cooperate: Option<&str>,
    ) -> Result<(), ConfigError> {
        let Some(keys) = self.kind.cache() else { return Ok(()) };
        let message_us = if let NvmChoice::Cdm(keys) = &self.kind { keys.message_us } else { 0.0 };
        for (key, value) in
            [("nvm.read_us", keys.read_us), ("nvm.write_us", keys.write_us), ("nvm.message_us", message_us)]
        {
            if !(0.0..=HOUR_US).contains(&value) {
                return refuse(key, value, "must be at most an hour, in microseconds");
            }
        }
        check_rate("nvm.mb_per_s", keys.mb_per_s)?;
        let order = BufferChoice::from(keys.order);
        if keys.order == BufferKind::None || order.victim_unit() != VictimUnit::Page || !order.keeps_reads() {
            let expected = "must take pages and keep what is read: choose \"lru\", \"cflru\" or \"lru_wsr\"";
            return refuse("nvm.order", format!("{:?}", keys.order.name()), expected);
        }
        if keys.bytes == 0 {
            return Ok(());
        }
        if keys.bytes < page_bytes || !keys.bytes.is_multiple_of(page_bytes) {
            let nearest = (keys.bytes / page_bytes).max(1) * page_bytes;
            let expected = format!(
                "must be a multiple of a NAND page, {page_bytes} bytes, such as {nearest}, or 0 for no cache"
            );
            return refuse("nvm.bytes", keys.bytes, expected);
        }
        if self.is_in_host() && link_mb_per_s == 0.0 {
            let expected =
                "needs a link to the drive: set host.link_mb_per_s, such as 2000, or choose \"device\"";
            return refuse("nvm.place", "\"host\"", expected);
        }
        if let (true, Some(layer)) = (self.kind.cooperates(), cannot_cooperate) {
            let expected = format!(
                "needs a translation layer that drops copies, and ftl.kind = {layer:?} does not: choose ftl.kind = \"page\", or nvm.kind = \"basic\""
            );
            return refuse("nvm.kind", "\"cdm\"", expected);
        }
        Ok(())
    }
}
