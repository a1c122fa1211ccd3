//! The index of a web search engine: queries read lists of hits, large and small, from several devices.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::Request;
use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::CommonKeys;
use crate::key_set::keys;
use crate::kind::{Kind, PLACED, Plan};
use crate::process::{AddressRange, Emitter, Hyperexponential, NS_PER_S, Process};
use crate::refusal::refuse;
use ftlab_core::rng::Rng;

/// Keys of kind `web_search`. Measured on the first requests of the SPC trace WebSearch1.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SearchConfig {
    /// Devices, which become streams; each has an equal part of the index. 6 when absent.
    ///
    /// Default: as many as WebSearch1 has.
    pub devices: u16,
    /// Bytes of the index. 16 GiB when absent, or all of the footprint where that is less.
    ///
    /// Default: the size of the devices of WebSearch1.
    #[serde(deserialize_with = "quantity::optional_bytes", skip_serializing_if = "Option::is_none")]
    pub index_bytes: Option<u64>,
    /// Reads a second. 413 when absent.
    ///
    /// Default: as in the first 24,783 requests of WebSearch1.
    pub reads_per_second: f64,
    /// Share of reads that go on where the one before on the same device ended, as long lists take two; at most 0.5. 0.096
    /// when absent.
    ///
    /// Default: as in the first 24,783 requests of WebSearch1.
    pub sequential_fraction: f64,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self { devices: 6, index_bytes: None, reads_per_second: 413.0, sequential_fraction: 0.096 }
    }
}

/// Sectors of a place of a list: lists have fixed places and sizes.
const PLACE: u64 = 64;
/// The smallest index: some lists for each device.
pub(crate) const SECTORS: u64 = 1 << 17;
const INDEX_BYTES: u64 = 16 << 30;
const GAP_CV: f64 = 1.33;
/// What lists are like is drawn apart from the passes over them.
const LISTS: u64 = u64::MAX;
/// Sectors of lists, or of the two parts of long ones, and how many of a hundred have at most these.
const SIZES: [(u64, u64); 4] = [(16, 60), (32, 72), (48, 80), (64, 100)];

impl SearchConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
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
        if !(0.0..=0.5).contains(&self.sequential_fraction) {
            let expected = "must be a fraction from 0 to 0.5";
            return refuse("web_search.sequential_fraction", self.sequential_fraction, expected);
        }
        Ok(())
    }

    pub(crate) fn fits(&self, area: AddressRange) -> Result<(), ConfigError> {
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

pub(crate) struct Search {
    rng: Rng,
    gaps: Hyperexponential,
    mean_ns: f64,
    /// Share of lists that are read in two parts.
    long: f64,
    /// Draws what lists are like.
    seed: u64,
    now_ns: f64,
    area: AddressRange,
    /// Places of a device.
    places: u64,
    /// The second part of the list that each device has begun.
    rest: Vec<Option<(u64, u64)>>,
}

impl Search {
    pub(crate) fn new(table: &SearchConfig, area: AddressRange, seed: u64, pass: u64) -> Self {
        let sectors = area.sectors.min(table.index_bytes.unwrap_or(INDEX_BYTES) / 512);
        Self {
            rng: Rng::for_path(seed, &[pass]),
            gaps: Hyperexponential::new(GAP_CV),
            mean_ns: NS_PER_S / table.reads_per_second,
            long: table.sequential_fraction / (1.0 - table.sequential_fraction),
            seed,
            now_ns: 0.0,
            area,
            places: sectors / u64::from(table.devices) / (2 * PLACE) * 2,
            rest: vec![None; usize::from(table.devices)],
        }
    }

    /// What is drawn once for a place, for ever: two numbers below 100 and one from 0 to 1.
    fn list(&self, device: usize, place: u64) -> (u64, u64, f64) {
        let mut rng = Rng::for_path(self.seed, &[LISTS, device as u64, place]);
        let drawn = rng.next_u64();
        (drawn % 100, (drawn >> 32) % 100, rng.unit())
    }

    fn sectors(percent: u64) -> u64 {
        SIZES.iter().find(|(_, most)| percent < *most).map_or(PLACE, |(sectors, _)| *sectors)
    }
}

impl Process for Search {
    fn act(&mut self, emitter: &mut Emitter) {
        self.now_ns += self.gaps.draw(&mut self.rng) * self.mean_ns;
        let device = self.rng.below_unbiased(self.rest.len() as u64) as usize;
        let (at, sectors) = self.rest[device].take().unwrap_or_else(|| {
            let mut place = self.rng.below_unbiased(self.places);
            // A long list takes a pair of places.
            let (first, second, share) = self.list(device, place / 2 * 2);
            let long = share < self.long;
            if long {
                place = place / 2 * 2;
            }
            let sectors = if place.is_multiple_of(2) { first } else { self.list(device, place).0 };
            let (at, sectors) = (place * PLACE, Self::sectors(sectors));
            self.rest[device] = long.then(|| (at + sectors, Self::sectors(second)));
            (at, sectors)
        });
        let lba = self.area.start + device as u64 * self.places * PLACE + at;
        emitter.read(self.now_ns, lba, sectors);
        if let Some(Request { stream, .. }) = emitter.requests.last_mut() {
            *stream = device as u16;
        }
    }
}

keys! {
    /// Keys of kind `web_search` alone.
    pub struct Keys {
        /// Keys of kind `web_search`.
        pub web_search: Option<SearchConfig>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "The index of a web search engine: see the table `web_search`.";
    const COMMON: &'static [&'static [&'static str]] = &[PLACED];
    const CHANGES: &'static [&'static str] = &[r#"{"web_search":{"devices":2}}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        self.web_search.as_ref().map_or(Ok(()), SearchConfig::validate)
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let table = self.web_search.clone().unwrap_or_default();
        let range = common.address_range_of(capacity_bytes, "web_search", SECTORS)?;
        table.fits(range)?;
        Ok(Plan::of_process(move |seed, pass| Search::new(&table, range, seed, pass)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_seed_has_lists_of_its_own() {
        let of_seed = |seed| {
            let area = AddressRange { start: 0, sectors: SECTORS };
            let search = Search::new(&SearchConfig { devices: 2, ..SearchConfig::default() }, area, seed, 0);
            let list = |device, place| Search::sectors(search.list(device, place).0);
            [0, 1].map(|device| (0..1024).map(|place| list(device, place)).collect::<Vec<_>>())
        };
        let lists: Vec<_> = [1, 2, 3, 6].map(of_seed).into_iter().flatten().collect();
        for (at, one) in lists.iter().enumerate() {
            for other in &lists[..at] {
                for shift in 0..8 {
                    let same =
                        one.iter().zip(0..).filter(|(size, place)| other[place ^ shift] == **size).count();
                    // By chance: 0.6^2 + 0.12^2 + 0.08^2 + 0.2^2 of them, 431.
                    assert!(
                        (330..530).contains(&same),
                        "{same} of 1,024 are the same, places apart by {shift}"
                    );
                }
            }
        }
    }
}
