//! Requests one after the other.

use ftlab_core::config::ConfigError;

use crate::common::CommonKeys;
use crate::generate::{GeneratorConfig, Picker};
use crate::key_set::keys;
use crate::kind::{DRAWN, Kind, Plan};

keys! {
    /// Keys of kind `sequential` alone.
    pub struct Keys {
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "Each request begins where the one before ended, or at the next multiple of `alignment_bytes`, and wraps around the \
         footprint.";
    const COMMON: &'static [&'static [&'static str]] = DRAWN;
    const CHANGES: &'static [&'static str] = &[];

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let config = GeneratorConfig::new(common, capacity_bytes, |_| Picker::Sequential)?;
        Ok(Plan::drawn(config))
    }
}
