//! The endurance workloads of JESD219. Distributions as published by fio's example job, tool vendors and pynvme.

use ftlab_core::config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::CommonKeys;
use crate::generate::{Arrivals, GeneratorConfig, Picker, Zones};
use crate::jesd219_client::Client;
use crate::key_set::keys;
use crate::kind::{ARRIVALS, Kind, OPERATIONS, PLACED, Plan};
use crate::refusal::refuse;
use crate::size::{RequestBytes, SizeClass};

/// Which of the workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Twelve sizes, three zones: fully specified by its distributions. 40 % reads when `read_fraction` is absent.
    #[default]
    Enterprise,
    /// A stand-in for the client workload, which is a recording of writes, trims and flushes whose statistics are not
    /// published. Files are written next-fit over the footprint, a hot tenth is rewritten, and deletions are trims. 4 %
    /// trims and 8 % flushes when `trim_fraction` and `flush_fraction` are absent.
    Client,
}

/// Where requests of profile `enterprise` begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Alignment {
    /// All at multiples of 4 KiB, small ones too, as fio's example job.
    #[default]
    #[serde(rename = "4KiB")]
    Block,
    /// Small ones at multiples of their size, as pynvme.
    Size,
}

/// Keys of kind `jesd219`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Jesd219Config {
    /// Which of the workloads. `enterprise` when absent.
    ///
    /// Default: its distributions are published as a whole; those of the client are not.
    pub profile: Profile,
    /// Profile `enterprise`: where requests begin. `4KiB` when absent.
    ///
    /// Default: as in fio's job file, corrected by a maker of drives to meet the standard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alignment: Option<Alignment>,
    /// Profile `enterprise`: the number of the drive under test, 0 to 19; its hot zone begins at 5 % of the space times
    /// this. 0 when absent.
    ///
    /// Default: one drive under test; the standard moves the zone for each further one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone_shift: Option<u32>,
    /// Profile `enterprise`: no request smaller than 4 KiB, for drives with sectors of 4 KiB. False when absent.
    ///
    /// Default: off: drives with sectors of 512 bytes get all sizes of the standard.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub large_sectors: Option<bool>,
}

const READS: f64 = 0.4;
/// Bytes and percent of requests.
const SIZES: [(u64, f64); 12] = [
    (512, 4.0),
    (1024, 1.0),
    (1536, 1.0),
    (2048, 1.0),
    (2560, 1.0),
    (3072, 1.0),
    (3584, 1.0),
    (4096, 67.0),
    (8192, 10.0),
    (16_384, 7.0),
    (32_768, 3.0),
    (65_536, 3.0),
];
/// What is smaller than 4 KiB becomes 4 KiB.
const LARGE_SIZES: [(u64, f64); 5] =
    [(4096, 77.0), (8192, 10.0), (16_384, 7.0), (32_768, 3.0), (65_536, 3.0)];
/// Shares of requests and of space.
const ZONES: [(f64, f64); 3] = [(0.5, 0.05), (0.3, 0.15), (0.2, 0.8)];
/// How far the hot zone moves from one drive under test to the next.
const SHIFT: f64 = 0.05;

impl Jesd219Config {
    fn validate(&self, common: &CommonKeys) -> Result<(), ConfigError> {
        if let Some(shift) = self.zone_shift.filter(|shift| *shift > 19) {
            return refuse(
                "jesd219.zone_shift",
                shift,
                "must be from 0 to 19: the zones come round after 20 drives",
            );
        }
        if self.profile == Profile::Enterprise {
            for (key, value) in
                [("trim_fraction", common.trim_fraction), ("flush_fraction", common.flush_fraction)]
            {
                if let Some(value) = value {
                    return refuse(
                        key,
                        value,
                        "profile \"enterprise\" has only reads and writes; leave it out",
                    );
                }
            }
            return Ok(());
        }
        let mine = [
            ("alignment", self.alignment.is_some()),
            ("zone_shift", self.zone_shift.is_some()),
            ("large_sectors", self.large_sectors.is_some()),
        ];
        if let Some((key, _)) = mine.iter().find(|(_, given)| *given) {
            let expected = "profile \"client\" does not use this key; leave it out";
            return refuse(&format!("jesd219.{key}"), "a value", expected);
        }
        if let Some(share) = common.read_fraction {
            return refuse("read_fraction", share, "profile \"client\" has no reads; leave it out");
        }
        Ok(())
    }

    /// Profile `enterprise`: sizes and zones of its own.
    fn enterprise(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<GeneratorConfig, ConfigError> {
        let large = self.large_sectors == Some(true);
        let sizes: &[(u64, f64)] = if large { &LARGE_SIZES } else { &SIZES };
        let class = |(bytes, weight): &(u64, f64)| SizeClass {
            min_bytes: *bytes,
            max_bytes: *bytes,
            step_bytes: *bytes,
            weight: *weight,
        };
        let common = CommonKeys {
            read_fraction: Some(common.read_fraction.unwrap_or(READS)),
            request_bytes: Some(RequestBytes::Weighted(sizes.iter().map(class).collect())),
            alignment_bytes: Some(if self.alignment == Some(Alignment::Size) && !large { 512 } else { 4096 }),
            ..common.clone()
        };
        let mut config = GeneratorConfig::new(&common, capacity_bytes, |_| Picker::Uniform)?;
        config.picker = Picker::Zoned {
            zones: Zones::new(
                config.whole_slots().max(1),
                &ZONES,
                SHIFT * f64::from(self.zone_shift.unwrap_or(0)),
            ),
            natural: self.alignment == Some(Alignment::Size),
        };
        Ok(config)
    }
}

keys! {
    /// Keys of kind `jesd219` alone.
    pub struct Keys {
        /// Keys of kind `jesd219`.
        pub jesd219: Option<Jesd219Config>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "The endurance workloads of JESD219: see the table `jesd219`.";
    const COMMON: &'static [&'static [&'static str]] = &[PLACED, OPERATIONS, ARRIVALS];
    const CHANGES: &'static [&'static str] = &[r#"{"jesd219":{"profile":"client"}}"#];

    fn validate(&self, common: &CommonKeys) -> Result<(), ConfigError> {
        self.jesd219.clone().unwrap_or_default().validate(common)
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let table = self.jesd219.clone().unwrap_or_default();
        match table.profile {
            Profile::Enterprise => Ok(Plan::drawn(table.enterprise(common, capacity_bytes)?)),
            Profile::Client => {
                let client =
                    Client::new(common, common.address_range(capacity_bytes)?, Arrivals::new(common))?;
                Ok(Plan::of_process(move |seed, pass| client.start(seed, pass)))
            }
        }
    }
}
