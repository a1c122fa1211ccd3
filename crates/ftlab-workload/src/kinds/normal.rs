//! Addresses by a bell.

use ftlab_core::config::ConfigError;

use crate::common::CommonKeys;
use crate::generate::{GeneratorConfig, Picker};
use crate::key_set::keys;
use crate::kind::{DRAWN, Kind, Plan};
use crate::refusal::{check_fractions, refuse};

const DEFAULT_MEAN_FRACTION: f64 = 0.5;
const DEFAULT_DEVIATION: f64 = 0.1;

keys! {
    /// Keys of kind `normal` alone.
    pub struct Keys {
        /// Kind `normal`: where in the footprint the middle of the bell is. 0.5 when absent.
        ///
        /// Default: the middle of the footprint.
        pub mean_fraction: Option<f64>,
        /// Kind `normal`: standard deviation as a share of the footprint. 0.1 when absent.
        ///
        /// Default: a fifth of the footprint then gets two thirds of the requests.
        pub deviation_fraction: Option<f64>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "By a bell around the middle of the footprint.";
    const COMMON: &'static [&'static [&'static str]] = DRAWN;
    const CHANGES: &'static [&'static str] = &[r#"{"mean_fraction":0.3}"#, r#"{"deviation_fraction":0.3}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        check_fractions(&[("mean_fraction", self.mean_fraction)])?;
        match self.deviation_fraction.filter(|share| !(*share >= 1e-6 && *share <= 10.0)) {
            Some(share) => refuse("deviation_fraction", share, "must be from 0.000001 to 10"),
            None => Ok(()),
        }
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let mean = self.mean_fraction.unwrap_or(DEFAULT_MEAN_FRACTION);
        let deviation = self.deviation_fraction.unwrap_or(DEFAULT_DEVIATION);
        let config = GeneratorConfig::new(common, capacity_bytes, |slots| Picker::Normal {
            slots,
            mean: slots as f64 * mean,
            deviation: slots as f64 * deviation,
        })?;
        Ok(Plan::drawn(config))
    }
}
