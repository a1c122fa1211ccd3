//! What a write buffer counts: the object `buffer` of the summary.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metrics::report::Counts;

/// What the write buffer has done.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BufferCounts {
    /// Frames, each for one mapping unit; at most as many as the drive has logical units.
    pub frames: u64,
    /// Pages that host reads found, every sector that was asked for.
    pub read_hits: u64,
    /// Pages of host reads that were read from flash, in part or whole, or hold nothing.
    pub read_misses: u64,
    /// Pages of host writes that were in the buffer.
    pub write_hits: u64,
    /// Pages of host writes that were not.
    pub write_misses: u64,
    /// Hits / (hits + misses) of reads and writes; 0 without either.
    pub hit_ratio: f64,
    /// The same of reads.
    pub read_hit_ratio: f64,
    /// The same of writes.
    pub write_hit_ratio: f64,
    /// Evictions: a page needed a frame and there was none, a flush, or the end of the run.
    pub events: u64,
    /// Victims: NAND pages, or blocks of the order.
    pub victims: u64,
    /// Victims of an eviction, on average; 0 without one.
    pub victims_per_event: f64,
    /// Pages (mapping units) that went to flash.
    pub pages_evicted: u64,
    /// Pages that left without having been written: they were clean. Some do at the end of the run, among dirty ones
    /// (`buffer.drain_at_end`).
    pub clean_evicted: u64,
    /// Pages (mapping units) of victim blocks that no frame had as a whole. They are read to fill up the block, those without
    /// data from nowhere.
    pub padding_reads: u64,
    /// Pages (mapping units) written to fill up victim blocks.
    pub padding_writes: u64,
    /// Pages of host writes that went past the buffer: long sequential writes, and those that must be durable at once.
    /// Where all writes go through (`buffer.write`), none of the latter count.
    pub bypassed_pages: u64,
    /// Pages (mapping units) read ahead of sequential reads.
    pub prefetched_pages: u64,
    /// Flushes of the host.
    pub flushes: u64,
    /// Of `pages_evicted`, those written at the end of the run (`buffer.drain_at_end`).
    pub drained_pages: u64,
    /// How long that took. Absent without a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_ns: Option<u64>,
    /// How long a page of `write_misses` waited for its frame, on average. One that goes past the buffer waits for none, and
    /// counts as 0. Absent without a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_wait_ns: Option<f64>,
    /// Memory of the model of the buffer. A log may change it a little.
    pub table_bytes: u64,
}

impl Counts for BufferCounts {
    const NAME: &'static str = "buffer";
}

impl BufferCounts {
    /// With the ratios that follow from the numbers.
    #[must_use]
    pub fn with_ratios(mut self) -> Self {
        let ratio = |hits: u64, misses: u64| {
            if hits + misses > 0 { hits as f64 / (hits + misses) as f64 } else { 0.0 }
        };
        self.hit_ratio = ratio(self.read_hits + self.write_hits, self.read_misses + self.write_misses);
        self.read_hit_ratio = ratio(self.read_hits, self.read_misses);
        self.write_hit_ratio = ratio(self.write_hits, self.write_misses);
        self.victims_per_event = if self.events > 0 { self.victims as f64 / self.events as f64 } else { 0.0 };
        self
    }
}
