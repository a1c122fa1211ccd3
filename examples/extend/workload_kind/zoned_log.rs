//! Logs in zones: each zone is written from its begin to its end, then trimmed as a whole and written again.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::Op;
use ftlab_core::quantity;
use ftlab_core::rng::Rng;
use ftlab_trace::keys::SizeSchema;

use crate::common::{CommonKeys, SECTOR};
use crate::generate::{ArrivalClock, Arrivals};
use crate::key_set::keys;
use crate::kind::{ARRIVALS, Kind, PLACED, Plan};
use crate::process::{AddressRange, Emitter, Process};
use crate::refusal::refuse;

const DEFAULT_ZONE_BYTES: u64 = 64 << 20;
/// Sectors of a write: 64 KiB.
const WRITE: u64 = 128;

keys! {
    /// Keys of kind `zoned_log` alone.
    pub struct Keys {
        /// Kind `zoned_log`: size of a zone, a multiple of 64 KiB. 64 MiB when absent.
        #[serde(deserialize_with = "quantity::optional_bytes")]
        #[schemars(with = "Option<SizeSchema>")]
        pub zone_bytes: Option<u64>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str =
        "Logs in zones of `zone_bytes`, each filled in order by writes of 64 KiB and then trimmed.";
    const COMMON: &'static [&'static [&'static str]] = &[PLACED, ARRIVALS];
    const CHANGES: &'static [&'static str] = &[r#"{"zone_bytes":"1MiB"}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        match self.zone_bytes.filter(|bytes| *bytes == 0 || bytes % (WRITE * SECTOR) != 0) {
            Some(bytes) => refuse("zone_bytes", bytes, "must be a multiple of 64 KiB, above 0"),
            None => Ok(()),
        }
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let sectors = self.zone_bytes.unwrap_or(DEFAULT_ZONE_BYTES) / SECTOR;
        let range = common.address_range_of(capacity_bytes, "zoned_log", sectors)?;
        let arrivals = Arrivals::new(common);
        Ok(Plan::of_process(None, move |seed, pass| ZonedLog {
            range,
            sectors,
            filled: vec![0; (range.sectors / sectors) as usize],
            clock: arrivals.clock(Rng::for_path(seed, &[pass, 0])),
            rng: Rng::for_path(seed, &[pass, 1]),
        }))
    }
}

struct ZonedLog {
    range: AddressRange,
    /// Of a zone.
    sectors: u64,
    /// Sectors of each zone that are written.
    filled: Vec<u64>,
    clock: ArrivalClock,
    rng: Rng,
}

impl Process for ZonedLog {
    fn act(&mut self, emitter: &mut Emitter) {
        let zone = self.rng.below_unbiased(self.filled.len() as u64);
        let begin = self.range.start + zone * self.sectors;
        let now_ns = self.clock.tick() as f64;
        let filled = &mut self.filled[zone as usize];
        if *filled == self.sectors {
            emitter.push(now_ns, Op::Trim, begin, self.sectors);
            *filled = 0;
        }
        emitter.push(now_ns, Op::Write, begin + *filled, WRITE);
        *filled += WRITE;
    }
}
