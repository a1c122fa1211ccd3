//! Sequential and random requests, mixed.

use ftlab_core::config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::CommonKeys;
use crate::generate::{GeneratorConfig, Picker};
use crate::key_set::keys;
use crate::kind::{DRAWN, Kind, Plan};
use crate::refusal::check_fractions;

const DEFAULT_RANDOM: f64 = 0.5;

/// What the requests that do not go anywhere go on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Continues {
    /// One stream, which requests that go anywhere do not move.
    #[default]
    Stream,
    /// The last request, wherever it went: runs from random places. The synthetic generator of DiskSim does this.
    Last,
}

keys! {
    /// Keys of kind `mix` alone.
    pub struct Keys {
        /// Kind `mix`: share of requests that go anywhere. 0.5 when absent.
        ///
        /// Default: half, so that neither part decides alone.
        pub random_fraction: Option<f64>,
        /// Kind `mix`: what the other requests go on from. `stream` when absent.
        ///
        /// Default: the two parts stay apart; the other choice is that of DiskSim's generator.
        pub continues: Option<Continues>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "Uniform with probability `random_fraction`, else the next address: of one sequential stream, or after the last request.";
    const COMMON: &'static [&'static [&'static str]] = DRAWN;
    const CHANGES: &'static [&'static str] = &[r#"{"random_fraction":0.1}"#, r#"{"continues":"last"}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        check_fractions(&[("random_fraction", self.random_fraction)])
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let random = self.random_fraction.unwrap_or(DEFAULT_RANDOM);
        let jumps = self.continues == Some(Continues::Last);
        let config = GeneratorConfig::new(common, capacity_bytes, |_| Picker::Mix { random, jumps })?;
        Ok(Plan::drawn(config))
    }
}
