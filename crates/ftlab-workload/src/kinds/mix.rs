//! Sequential and random requests, mixed.

use ftlab_core::config::ConfigError;

use crate::common::CommonKeys;
use crate::generate::{GeneratorConfig, Picker};
use crate::key_set::keys;
use crate::kind::{DRAWN, Kind, Plan};
use crate::refusal::check_fractions;

const DEFAULT_RANDOM: f64 = 0.5;

keys! {
    /// Keys of kind `mix` alone.
    pub struct Keys {
        /// Kind `mix`: share of requests that go anywhere. 0.5 when absent.
        pub random_fraction: Option<f64>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "Uniform with probability `random_fraction`, else the next address of one sequential stream, which random requests do not move.";
    const COMMON: &'static [&'static [&'static str]] = DRAWN;
    const CHANGES: &'static [&'static str] = &[r#"{"random_fraction":0.1}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        check_fractions(&[("random_fraction", self.random_fraction)])
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let random = self.random_fraction.unwrap_or(DEFAULT_RANDOM);
        let config = GeneratorConfig::new(common, capacity_bytes, |_| Picker::Mix { random })?;
        Ok(Plan::drawn(config))
    }
}
