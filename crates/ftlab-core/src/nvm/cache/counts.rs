//! What a non-volatile cache counts: the object `nvm` of the summary.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metrics::report::Counts;

/// What the non-volatile cache has done. Pages are mapping units.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NvmCounts {
    /// Frames, each for one mapping unit.
    pub frames: u64,
    /// Pages of host reads that the cache had.
    pub read_hits: u64,
    /// Pages of host reads that it had not.
    pub read_misses: u64,
    /// Pages of host reads that the cache had, and flash as well.
    pub read_hits_clean: u64,
    /// Pages of host reads that nobody had: they were never written, or trimmed.
    pub read_misses_unmapped: u64,
    /// Pages of host writes that the cache had.
    pub write_hits: u64,
    /// Pages of host writes that it had not.
    pub write_misses: u64,
    /// Pages of host writes that the cache had, and flash as well.
    pub write_hits_clean: u64,
    /// Pages of host writes that nobody had.
    pub write_misses_unmapped: u64,
    /// Hits / (hits + misses); 0 without either.
    pub hit_ratio: f64,
    /// Pages written back whose last change was a write of the host.
    pub evictions_host_dirty: u64,
    /// Pages written back that the host had not changed: collection had dropped their copy in flash.
    pub evictions_collector_dirty: u64,
    /// Pages that left without having been written: flash has them.
    pub clean_evicted: u64,
    /// Pages in flash that became stale when the cache got newer data.
    pub copies_dropped: u64,
    /// Trimmed pages that the cache had, and flash as well.
    pub trimmed_clean: u64,
    /// Trimmed pages that were newer in the cache than in flash.
    pub trimmed_dirty: u64,
    /// Trimmed pages that only flash had.
    pub trimmed_in_flash: u64,
    /// Flushes of the host.
    pub flushes: u64,
    /// Pages written by flushes, with `basic_flush = "writeback"`.
    pub pages_flushed: u64,
    /// Pages programmed for data, whatever the cause / pages written back that the host had changed; 0 without any. Those
    /// are `evictions_host_dirty` and `pages_flushed`.
    pub write_amplification_primary: f64,
    /// Pages written to frames: by the host, and from flash.
    pub frame_writes: u64,
    /// The same for each frame, on average: what the memory has to endure.
    pub writes_per_frame: f64,
    /// Pages that are clean at the end: flash has them as well.
    pub clean_at_end: u64,
    /// Pages at the end that the host has changed.
    pub host_dirty_at_end: u64,
    /// Pages at the end that only the cache has, though the host has not changed them.
    pub collector_dirty_at_end: u64,
    /// Trims that are remembered, as flash may have older versions of their pages; whether it has any is not looked for. A page that was
    /// written again counts until flash has it.
    pub tombstones: u64,
    /// Messages between a cache in the host and the drive.
    pub messages: u64,
    /// Memory of the model of the cache. A log may change it a little.
    pub table_bytes: u64,
}

impl Counts for NvmCounts {
    const NAME: &'static str = "nvm";
}
