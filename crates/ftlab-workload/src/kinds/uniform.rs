//! Addresses that are all equally likely, with the model of trim of the literature.

use ftlab_core::config::ConfigError;

use crate::common::{CommonKeys, SECTOR};
use crate::generate::{GeneratorConfig, Picker};
use crate::key_set::keys;
use crate::kind::{DRAWN, Kind, Plan};
use crate::refusal::refuse;
use crate::size::{RequestBytes, size_text};

keys! {
    /// Keys of kind `uniform` alone.
    pub struct Keys {
    }
}

/// Whether trims choose among what is in use.
fn trims_in_use(common: &CommonKeys) -> bool {
    common.fractions()[1] > 0.0
}

/// Refuse sizes of requests that differ: what is in use is counted in requests.
fn check_one_size(common: &CommonKeys) -> Result<(), ConfigError> {
    let alignment = common.alignment();
    let differs = |bytes: &RequestBytes| (bytes.smallest(), bytes.largest()) != (alignment, alignment);
    let other = common.sizes().into_iter().flatten().find(|(_, bytes)| differs(bytes));
    let Some((key, bytes)) = other else { return Ok(()) };
    let stated = key != "request_bytes" || common.request_bytes.is_some();
    let key = if stated { key } else { "alignment_bytes" };
    let found = if key == "alignment_bytes" { size_text(alignment) } else { bytes.to_string() };
    let expected = format!(
        "kind \"uniform\" with trims needs one size for all requests, here {}, with alignment_bytes the same: what is \
         in use is counted in requests",
        size_text(if key == "alignment_bytes" { bytes.smallest() } else { alignment })
    );
    refuse(key, found, expected)
}

impl Kind for Keys {
    const SUMMARY: &'static str = "Every address is equally likely. Trims (`trim_fraction`) go to what is in use, equally \
        likely, as in the models of trim in the literature. At first everything counts as in use, as on a drive that has \
        been filled.";
    const COMMON: &'static [&'static [&'static str]] = DRAWN;
    const CHANGES: &'static [&'static str] = &[];

    fn validate(&self, common: &CommonKeys) -> Result<(), ConfigError> {
        if trims_in_use(common) { check_one_size(common) } else { Ok(()) }
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let trims_in_use = trims_in_use(common);
        let picker = if trims_in_use { Picker::UniformInUse } else { Picker::Uniform };
        let config = GeneratorConfig::new(common, capacity_bytes, |_| picker)?;
        if trims_in_use && config.whole_slots() >= u64::from(u32::MAX) {
            let expected =
                "what is in use is counted in 32 bits: take larger requests or a smaller footprint";
            let footprint = config.part_sectors * u64::from(config.streams) * SECTOR;
            return refuse("footprint_bytes", footprint, expected);
        }
        Ok(Plan::drawn(config))
    }
}
