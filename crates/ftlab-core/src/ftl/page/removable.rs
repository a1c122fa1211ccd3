//! Pages in flash of which a non-volatile cache above has a clean copy.

use crate::config::DeviceConfig;
use crate::geometry::{Geometry, Lpn, Ppn};

/// Which pages those are. The directory of the cache is the truth; this is what the collector looks at.
#[derive(Debug, Clone)]
pub(super) struct RemovablePages {
    /// By physical unit.
    bits: Vec<u64>,
    /// Skipped since the cache asked last.
    pub(super) removed: Vec<Lpn>,
    /// Whether the cache is at the other end of a link, and has to confirm before a block is erased.
    pub(super) confirms: bool,
}

impl RemovablePages {
    /// For a validated configuration; `None` where no cache works with the flash.
    pub(super) fn new(config: &DeviceConfig, geometry: &Geometry) -> Option<Self> {
        config.nvm.cooperates().then(|| Self {
            bits: vec![0; (geometry.physical_units() as usize).div_ceil(64)],
            removed: Vec::new(),
            confirms: config.nvm.is_in_host(),
        })
    }

    pub(super) fn has(&self, ppn: Ppn) -> bool {
        (self.bits[ppn.index() / 64] >> (ppn.0 % 64)) & 1 == 1
    }

    pub(super) fn flip(&mut self, ppn: Ppn) {
        self.bits[ppn.index() / 64] ^= 1 << (ppn.0 % 64);
    }

    pub(super) fn table_bytes(&self) -> u64 {
        self.bits.len() as u64 * 8
    }
}
