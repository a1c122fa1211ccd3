//! Zones of the address space, each with its share of the requests.

use ftlab_core::config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::CommonKeys;
use crate::generate::{GeneratorConfig, Picker, Zones};
use crate::key_set::keys;
use crate::kind::{DRAWN, Kind, Plan};
use crate::refusal::refuse;

/// A zone of kind `zoned`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Share of the requests, above 0.
    pub access_fraction: f64,
    /// Share of the footprint.
    pub space_fraction: f64,
}

keys! {
    /// Keys of kind `zoned` alone.
    pub struct Keys {
        /// Kind `zoned`: zones from the begin of the footprint on. Shares of requests and of space each add up to 1.
        pub zones: Option<Vec<Zone>>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "Uniform inside `zones`, each with its share of the requests.";
    const COMMON: &'static [&'static [&'static str]] = DRAWN;
    const EXAMPLE: &'static str = r#"{"zones":[{"access_fraction":0.6,"space_fraction":0.1},{"access_fraction":0.4,"space_fraction":0.9}]}"#;
    const CHANGES: &'static [&'static str] = &[r#"{"zones":[{"access_fraction":1,"space_fraction":1}]}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        let zones = self.zones.as_deref().unwrap_or_default();
        if zones.is_empty() || zones.len() > 1000 {
            return refuse("zones", zones.len(), "kind \"zoned\" needs from 1 to 1000 zones");
        }
        for (key, shares) in [
            ("access_fraction", zones.iter().map(|zone| zone.access_fraction).collect::<Vec<f64>>()),
            ("space_fraction", zones.iter().map(|zone| zone.space_fraction).collect()),
        ] {
            if let Some(share) = shares.iter().find(|share| !(**share > 0.0 && **share <= 1.0)) {
                return refuse("zones", share, format!("{key} must be above 0 and at most 1"));
            }
            let sum: f64 = shares.iter().sum();
            if (sum - 1.0).abs() > 1e-6 {
                return refuse("zones", sum, format!("the zones' {key} must add up to 1"));
            }
        }
        Ok(())
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let zones = self.zones.iter().flatten();
        let zones: Vec<_> = zones.map(|zone| (zone.access_fraction, zone.space_fraction)).collect();
        let config = GeneratorConfig::new(common, capacity_bytes, |slots| Picker::Zoned {
            zones: Zones::new(slots, &zones, 0.0),
            natural: false,
        })?;
        Ok(Plan::drawn(config))
    }
}
