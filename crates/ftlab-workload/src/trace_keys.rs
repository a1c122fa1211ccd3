//! Keys of workloads that are recorded traces.

use ftlab_core::config::ConfigError;
use ftlab_core::quantity;
use ftlab_trace::keys::SizeSchema;
use ftlab_trace::{OpenOptions, VolumeLayout};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::SECTOR;
use crate::key_set::{KeySet, keys};
use crate::refusal::refuse;
use crate::volume::VolumeList;

/// Where the volumes of a trace lie in the address space of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Volumes {
    /// On top of each other.
    #[default]
    Overlay,
    /// One behind the other: in the order of their numbers, or with `volume_bytes` in that of `volume`, or else of
    /// their first requests.
    Concat,
}

keys! {
    /// Keys of traces, which no generator has.
    pub struct TraceKeys {
        /// Path of a trace file, taken from the current folder. Either this or `kind`.
        pub trace: Option<String>,
        /// Format of the trace; recognised by its content when absent.
        ///
        /// Default: lines of most formats tell them apart; those that do not are asked for.
        pub format: Option<String>,
        /// Take only this volume (ASU, disk or device number) of the trace, or these: `[0, 3]`. All when absent.
        ///
        /// Default: a recording is replayed whole.
        pub volume: Option<VolumeList>,
        /// Where the volumes of the trace lie. `overlay` when absent.
        ///
        /// Default: addresses stay as they were recorded.
        pub volumes: Option<Volumes>,
        /// Volumes `concat`: size of the region of each volume. The trace is read once more to find sizes when absent.
        ///
        /// Default: no trace states the sizes of its volumes, so the largest addresses tell them.
        #[serde(deserialize_with = "quantity::optional_bytes")]
        #[schemars(with = "Option<SizeSchema>")]
        pub volume_bytes: Option<u64>,
        /// Bad records of the trace that are left out; the next one ends the run. 0 when absent.
        ///
        /// Default: none, so that a damaged recording is noticed.
        pub skip_bad: Option<u64>,
    }
}

impl TraceKeys {
    /// Refuse values that make no sense.
    ///
    /// # Errors
    /// The first of them, with what was found and what was expected.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        let Some(bytes) = self.volume_bytes else { return Ok(()) };
        if self.volumes != Some(Volumes::Concat) {
            let expected = "is the size of regions: state volumes = \"concat\", or leave it out";
            return refuse("volume_bytes", bytes, expected);
        }
        if bytes == 0 || bytes % SECTOR != 0 {
            return refuse("volume_bytes", bytes, "must be above 0 and a multiple of 512 bytes");
        }
        Ok(())
    }

    /// How the trace is read.
    pub(crate) fn open_options(&self) -> OpenOptions {
        let layout = match self.volumes.unwrap_or_default() {
            Volumes::Overlay => VolumeLayout::Overlay,
            Volumes::Concat => VolumeLayout::Concat { volume_bytes: self.volume_bytes },
        };
        let volumes = self.volume.clone().map_or(Vec::new(), |VolumeList(volumes)| volumes);
        OpenOptions { format: self.format.clone(), volumes, layout, skip_bad: self.skip_bad.unwrap_or(0) }
    }
}

/// Whether a workload that is a recorded trace has a key of the `[workload]` table.
pub fn has_trace_key(key: &str) -> bool {
    TraceKeys::NAMES.contains(&key) || matches!(key, "requests" | "transform")
}
