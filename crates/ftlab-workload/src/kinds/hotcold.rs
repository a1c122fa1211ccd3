//! A hot part and a cold one.

use ftlab_core::config::ConfigError;

use crate::common::CommonKeys;
use crate::generate::{GeneratorConfig, Picker};
use crate::key_set::keys;
use crate::kind::{DRAWN, Kind, Plan};
use crate::refusal::{check_fractions, refuse};

const DEFAULT_HOT_SPACE: f64 = 0.2;
const DEFAULT_HOT_ACCESS: f64 = 0.8;

keys! {
    /// Keys of kind `hotcold` alone.
    pub struct Keys {
        /// Kind `hotcold`: share of the footprint that is hot. 0.2 when absent.
        ///
        /// Default: the 80/20 rule, also that of a published simulator (Desnoyers, 2012).
        pub hot_space_fraction: Option<f64>,
        /// Kind `hotcold`: share of requests that go there. 0.8 when absent.
        ///
        /// Default: the 80/20 rule, also that of a published simulator (Desnoyers, 2012).
        pub hot_access_fraction: Option<f64>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str =
        "The first `hot_space_fraction` of the footprint gets `hot_access_fraction` of the requests.";
    const COMMON: &'static [&'static [&'static str]] = DRAWN;
    const CHANGES: &'static [&'static str] =
        &[r#"{"hot_space_fraction":0.4}"#, r#"{"hot_access_fraction":0.5}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        check_fractions(&[("hot_access_fraction", self.hot_access_fraction)])?;
        match self.hot_space_fraction.filter(|share| !(*share > 0.0 && *share < 1.0)) {
            Some(share) => refuse("hot_space_fraction", share, "must be a fraction above 0 and below 1"),
            None => Ok(()),
        }
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let space = self.hot_space_fraction.unwrap_or(DEFAULT_HOT_SPACE);
        let access = self.hot_access_fraction.unwrap_or(DEFAULT_HOT_ACCESS);
        let config =
            GeneratorConfig::new(common, capacity_bytes, |slots| Picker::hot_cold(slots, space, access))?;
        Ok(Plan::drawn(config))
    }
}
