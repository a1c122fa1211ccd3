//! Addresses by Zipf's law.

use ftlab_core::config::ConfigError;

use crate::common::CommonKeys;
use crate::generate::{GeneratorConfig, Picker};
use crate::key_set::keys;
use crate::kind::{ARRIVALS, Kind, OPERATIONS, PLACED, Plan, SIZES, STREAMS};
use crate::refusal::refuse;

const DEFAULT_THETA: f64 = 0.99;

keys! {
    /// Keys of kind `zipf` alone.
    pub struct Keys {
        /// Kind `zipf`: the exponent, above 0 and below 10. 0.99 when absent.
        ///
        /// Default: 0.99, the constant of YCSB.
        pub theta: Option<f64>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "The address of rank k has probability proportional to k^-`theta`.";
    const COMMON: &'static [&'static [&'static str]] =
        &[PLACED, OPERATIONS, SIZES, ARRIVALS, STREAMS, &["scramble"]];
    const CHANGES: &'static [&'static str] = &[r#"{"theta":0.5}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        match self.theta.filter(|theta| !(*theta > 0.0 && *theta < 10.0)) {
            Some(theta) => refuse("theta", theta, "must be above 0 and below 10"),
            None => Ok(()),
        }
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let scramble = common.scramble.unwrap_or(true);
        let theta = self.theta.unwrap_or(DEFAULT_THETA);
        let config =
            GeneratorConfig::new(common, capacity_bytes, |slots| Picker::zipf(slots, theta, scramble))?;
        Ok(Plan::drawn(config))
    }
}
