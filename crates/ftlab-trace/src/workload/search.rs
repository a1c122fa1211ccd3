//! The index of a web search engine: queries read lists of hits, large and small, from several devices.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::Request;
use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::process::{Actor, Area, Hyperexponential, NS_PER_S, Script, chance};
use super::refuse;
use super::size::{RequestBytes, SizeClass, Sizes};
use crate::rng::Rng;

/// Keys of kind `web_search`. Measured on the first requests of the SPC trace WebSearch1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchConfig {
    /// Devices, which become streams; each has an equal part of the index. 6 when absent.
    pub devices: u16,
    /// Bytes of the index. 16 GiB when absent, or all of the footprint where that is less.
    #[serde(deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    pub index_bytes: Option<u64>,
    /// Reads a second. 413 when absent.
    pub reads_per_second: f64,
    /// Share of reads that go on where the one before on the same device ended. 0.096 when absent.
    pub sequential_fraction: f64,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self { devices: 6, index_bytes: None, reads_per_second: 413.0, sequential_fraction: 0.096 }
    }
}

/// Sectors of the unit in which lists are stored.
const UNIT: u64 = 16;
/// The smallest index: some lists for each device.
pub(super) const SECTORS: u64 = 1 << 17;
const INDEX_BYTES: u64 = 16 << 30;
const GAP_CV: f64 = 1.33;
/// Bytes and percent of reads.
const SIZES: [(u64, f64); 4] = [(8192, 60.0), (16_384, 12.0), (24_576, 8.0), (32_768, 20.0)];

impl SearchConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.devices == 0 || self.devices > 1000 {
            return refuse("web_search.devices", self.devices, "must be from 1 to 1000");
        }
        if let Some(bytes) = self.index_bytes.filter(|bytes| *bytes < SECTORS * 512) {
            return refuse("web_search.index_bytes", bytes, "must be at least 64 MiB");
        }
        if !(self.reads_per_second >= 1e-3 && self.reads_per_second <= 1e9) {
            return refuse(
                "web_search.reads_per_second",
                self.reads_per_second,
                "must be from 0.001 to 10^9",
            );
        }
        if !(0.0..=1.0).contains(&self.sequential_fraction) {
            let expected = "must be a fraction from 0 to 1";
            return refuse("web_search.sequential_fraction", self.sequential_fraction, expected);
        }
        Ok(())
    }

    pub(super) fn fits(&self, area: Area) -> Result<(), ConfigError> {
        if let Some(bytes) = self.index_bytes.filter(|bytes| bytes / 512 > area.sectors) {
            let expected = format!(
                "the footprint has only {} bytes: make one of them fit the other",
                area.sectors * 512
            );
            return refuse("web_search.index_bytes", bytes, expected);
        }
        Ok(())
    }
}

pub(super) struct Search {
    rng: Rng,
    sizes: Sizes,
    gaps: Hyperexponential,
    mean_ns: f64,
    sequential: f64,
    now_ns: f64,
    area: Area,
    part: u64,
    /// Where the last read of each device ended, from the begin of its part.
    ends: Vec<u64>,
}

impl Search {
    pub(super) fn new(table: &SearchConfig, area: Area, seed: u64, pass: u64) -> Self {
        let classes = SIZES.map(|(bytes, weight)| SizeClass {
            min_bytes: bytes,
            max_bytes: bytes,
            step_bytes: bytes,
            weight,
        });
        let sectors = area.sectors.min(table.index_bytes.unwrap_or(INDEX_BYTES) / 512);
        Self {
            rng: Rng::new(seed, &[pass]),
            sizes: Sizes::new(&RequestBytes::Weighted(classes.to_vec())),
            gaps: Hyperexponential::new(GAP_CV),
            mean_ns: NS_PER_S / table.reads_per_second,
            sequential: table.sequential_fraction,
            now_ns: 0.0,
            area,
            part: sectors / u64::from(table.devices) / UNIT * UNIT,
            ends: vec![0; usize::from(table.devices)],
        }
    }
}

impl Actor for Search {
    fn act(&mut self, script: &mut Script) {
        self.now_ns += self.gaps.draw(&mut self.rng) * self.mean_ns;
        let device = self.rng.below(self.ends.len() as u64) as usize;
        let sectors = u64::from(self.sizes.draw(&mut self.rng));
        let goes_on = chance(&mut self.rng, self.sequential) && self.ends[device] + sectors <= self.part;
        let at =
            if goes_on { self.ends[device] } else { self.rng.below((self.part - sectors) / UNIT + 1) * UNIT };
        self.ends[device] = at + sectors;
        script.read(self.now_ns, self.area.start + device as u64 * self.part + at, sectors);
        if let Some(Request { stream, .. }) = script.requests.last_mut() {
            *stream = device as u16;
        }
    }
}
