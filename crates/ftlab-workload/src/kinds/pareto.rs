//! Addresses by Pareto's law: 80 % of the requests to 20 % of the space.

use ftlab_core::config::ConfigError;

use crate::common::CommonKeys;
use crate::generate::{GeneratorConfig, Picker};
use crate::key_set::keys;
use crate::kind::{ARRIVALS, Kind, OPERATIONS, PLACED, Plan, SIZES, STREAMS};
use crate::refusal::refuse;

const DEFAULT_PARETO_H: f64 = 0.2;

keys! {
    /// Keys of kind `pareto` alone.
    pub struct Keys {
        /// Kind `pareto`: share of the footprint that gets all requests but as large a share. Above 0 and below 0.5; 0.2
        /// (80 % to 20 %) when absent.
        ///
        /// Default: 80 % of the requests go to 20 %; fio, whose law it is, has no default.
        pub pareto_h: Option<f64>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "A share 1 - `pareto_h` of the requests goes to a share `pareto_h` of the footprint, and so on inside it.";
    const COMMON: &'static [&'static [&'static str]] =
        &[PLACED, OPERATIONS, SIZES, ARRIVALS, STREAMS, &["scramble"]];
    const CHANGES: &'static [&'static str] = &[r#"{"pareto_h":0.3}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        match self.pareto_h.filter(|h| !(*h > 0.0 && *h < 0.5)) {
            Some(h) => refuse("pareto_h", h, "must be above 0 and below 0.5"),
            None => Ok(()),
        }
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let scramble = common.scramble.unwrap_or(true);
        let h = self.pareto_h.unwrap_or(DEFAULT_PARETO_H);
        let config =
            GeneratorConfig::new(common, capacity_bytes, |slots| Picker::pareto(slots, h, scramble))?;
        Ok(Plan::drawn(config))
    }
}
