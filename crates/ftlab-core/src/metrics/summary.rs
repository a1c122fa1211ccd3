//! The summary document (schema 1): what a run says about itself.
//!
//! Keys are added freely and never renamed. Units stand last in a key; ratios are fractions. The object of a part
//! that the device does not have is absent, and so is every time when the run kept no clock.

use schemars::JsonSchema;
use serde::Serialize;

use crate::cause::{Command, CommandCounts, PerCause};
use crate::metrics::report::Report;
use crate::metrics::warning::Warning;
use crate::tape::taped;

/// Version of this document.
pub const SCHEMA: u32 = 1;

/// What a run says about itself.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Summary {
    /// Version of this document: 1.
    pub schema: u32,
    /// Version of ftlab.
    pub version: String,
    /// Name of the device.
    pub device: String,
    /// Name of the workload or trace; filled in by the caller, who opened it.
    pub workload: String,
    /// What the workload stands for. Absent for workloads that are no stand-ins; filled in by the caller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<StandInSummary>,
    /// Seed of the run.
    pub seed: u64,
    /// Whether the run ended early: interrupted, or stopped by the error beside this summary.
    pub partial: bool,
    /// From time 0 to the completion of the last request; 0 without a clock.
    pub simulated_ns: u64,
    /// Filled in by the caller: the core has no wall clock.
    pub wall_seconds: f64,
    /// What the host asked and got.
    pub host: HostSummary,
    /// From the hand-over of a request to the drive until its completion. Absent without a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_ns: Option<LatencyByOp>,
    /// From arrival until hand-over: the wait for a place among `host.outstanding`. Absent where nothing can wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_wait_ns: Option<LatencySummary>,
    /// Commands by cause.
    pub flash: FlashSummary,
    /// Die time by cause. Absent without a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_ns: Option<ByCause>,
    /// Flash pages programmed / pages that the host wrote. Absent when the host wrote nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<WriteAmplification>,
    /// What the parts of the drive have counted, an object for each: `gc`, `map_cache` and those of other layers.
    #[serde(flatten)]
    pub parts: Report,
    /// Erase counts over all blocks.
    pub wear: WearSummary,
    /// How busy the parts were, on average. Absent without a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<ParallelismSummary>,
    /// What preconditioning did. Absent with `precondition.kind = "none"`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precondition: Option<PreconditionSummary>,
    /// Absent without `verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<VerifySummary>,
    /// Memory that the model of the drive occupies, without `verify`.
    pub memory: MemorySummary,
    /// What a reader of these numbers must know; empty when there is nothing.
    pub warnings: Vec<Warning>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A workload that takes the place of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StandInSummary {
    /// The recording.
    pub stands_for: String,
    /// Why the requests need not have the statistics of the recording; absent when they are those of the calibrated
    /// stand-in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncalibrated: Option<String>,
    /// The file that was run because it is the recording; absent when the requests were generated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recording: Option<String>,
}

/// What the host asked and got. `requests = completed + rejected + unfinished`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct HostSummary {
    /// Requests taken from the workload.
    pub requests: u64,
    /// Requests completed.
    pub completed: u64,
    /// Requests wholly beyond the end of the drive (`host.out_of_range = "clip"`).
    pub rejected: u64,
    /// Requests in flight or waiting when the run ended early or at its last arrival.
    pub unfinished: u64,
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Completed trims.
    pub trims: u64,
    /// Completed flushes.
    pub flushes: u64,
    /// Bytes that completed reads brought.
    pub read_bytes: u64,
    /// Bytes that completed writes stored.
    pub write_bytes: u64,
    /// Bytes that completed trims named.
    pub trim_bytes: u64,
    /// Pages (mapping units) that host writes touched, in part or whole.
    pub write_pages: u64,
    /// Pages (mapping units) that host reads touched, in part or whole.
    pub read_pages: u64,
    /// Of `read_pages`, and of what a buffer read ahead, those that were not mapped: answered with zeros, without flash.
    pub unmapped_read_pages: u64,
    /// Of `write_pages`, those written in part, whose rest was read from flash first.
    pub read_modify_writes: u64,
    /// Requests that reach beyond the end of the drive: wrapped, cut off, or rejected because nothing is left of them.
    pub out_of_range: u64,
    /// Requests that arrived before one ahead of them (`host.unsorted_times = "clamp"`).
    pub unsorted: u64,
    /// Bad records of a trace that were left out because the user allowed it; absent when there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped_records: u64,
    /// When the first request arrived; 0 without a clock.
    pub first_arrival_ns: u64,
    /// Completed requests a second between the first arrival and the last completion; 0 without a clock.
    pub iops: f64,
    /// Bytes read and written a second, over the same time; 0 without a clock.
    pub bytes_per_second: f64,
}

/// Latency of all requests and of each operation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct LatencyByOp {
    /// Every request.
    pub all: LatencySummary,
    /// Reads.
    pub read: LatencySummary,
    /// Writes.
    pub write: LatencySummary,
    /// Trims.
    pub trim: LatencySummary,
    /// Flushes.
    pub flush: LatencySummary,
}

/// A distribution of times. Mean and standard deviation (population form) are exact; percentiles are those of a
/// histogram with three significant digits.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LatencySummary {
    /// Samples.
    pub count: u64,
    /// Mean.
    pub mean: f64,
    /// Population standard deviation.
    pub stdev: f64,
    /// Smallest.
    pub min: u64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest.
    pub max: u64,
}

/// A count in all and by cause.
pub type ByCause = PerCause<u64>;

/// Flash commands that ran, by cause. A copyback is counted as itself and not as a read and a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FlashSummary {
    /// Page reads.
    pub reads: ByCause,
    /// Page programs.
    pub programs: ByCause,
    /// Block erases.
    pub erases: ByCause,
    /// Page copies inside a plane, without the bus.
    pub copybacks: ByCause,
    /// Commands that had not ended when the run did (`host.stop = "last_arrival"`, or a failure). They are not counted above.
    /// Write amplification, wear and collections count what was decided, which is these too. Absent when there are none.
    #[serde(skip_serializing_if = "is_zero")]
    pub unfinished: u64,
}

impl FlashSummary {
    /// From one count a (command, cause) of what was decided, and of what of that has not ended.
    pub fn from_counts(decided: &CommandCounts, unfinished: &CommandCounts) -> Self {
        let of = |command: Command| {
            let (decided, unfinished) = (decided[command as usize], unfinished[command as usize]);
            ByCause::from_counts(std::array::from_fn(|cause| decided[cause] - unfinished[cause]))
        };
        Self {
            reads: of(Command::Read),
            programs: of(Command::Program),
            erases: of(Command::Erase),
            copybacks: of(Command::Copyback),
            unfinished: unfinished.iter().flatten().sum(),
        }
    }
}

/// Flash pages programmed (copybacks included) / pages that the host wrote, in all and by cause.
pub type WriteAmplification = PerCause<f64>;

/// Erase counts over all blocks, preconditioning included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct WearSummary {
    /// Fewest erases of a block.
    pub erase_min: u32,
    /// Mean.
    pub erase_mean: f64,
    /// Most erases of a block.
    pub erase_max: u32,
    /// Population standard deviation.
    pub erase_stdev: f64,
    /// Mean over the blocks of each die, in the order of channel, way, die.
    pub die_erase_mean: Vec<f64>,
    /// `erase_max` as a share of `cell.rated_pe_cycles`. Absent when that is not stated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rated_share_used: Option<f64>,
}

/// How busy the parts were, from the first arrival until the drive is idle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct ParallelismSummary {
    /// Channels that transfer.
    pub mean_busy_channels: f64,
    /// Dies (or planes, where they work independently) that run a command.
    pub mean_busy_dies: f64,
    /// From the first arrival until the drive is idle.
    pub span_ns: u64,
    /// How long each channel transferred. A run that is cut short leaves out what has not ended.
    pub channel_busy_ns: Vec<u64>,
    /// How long each die ran commands, in the order of channel, way, die (then plane, where they work independently). A run
    /// that is cut short leaves out those that have not ended.
    pub die_busy_ns: Vec<u64>,
    /// What evictions of the write buffer have cost. Absent without a buffer.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub evictions: Option<EvictionSummary>,
}

/// What evictions of the write buffer have cost, from each decision until all of it has ended (channel-aware buffer
/// study). The time of each is divided as the work of the die that worked longest for it; where several overlap, it counts for
/// the first.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct EvictionSummary {
    /// Evictions that took flash time; those of clean pages alone take none. Where a run is cut short, the last ones may not have
    /// ended: their time is left out.
    pub events_timed: u64,
    /// Dies (or planes, where they work independently) that one of them used, on average.
    pub event_dies_mean: f64,
    /// Channels that one of them used, on average.
    pub event_channels_mean: f64,
    /// `execution_ns` / `events_timed`.
    pub event_ns_mean: f64,
    /// How long one or more of them were under way: write time and collection time. With `buffer.wait = "event"` they
    /// come one after the other. Only a flush begins at once, beside what is under way.
    pub execution_ns: u64,
    /// Of `execution_ns`, programs of evicted pages, with what they read.
    pub write_ns: u64,
    /// Of `execution_ns`, collections, merges and wear levelling.
    pub gc_ns: u64,
    /// `gc_ns` / `execution_ns`; 0 when nothing was evicted.
    pub gc_share: f64,
}

/// What preconditioning did, and how far it got.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct PreconditionSummary {
    /// As configured.
    pub kind: String,
    /// Whether its goal was reached; if not, the bound `precondition.max_drive_writes` ended it.
    pub reached: bool,
    /// Mapping units written, the fill included.
    pub pages_written: u64,
    /// Write amplification over its last windows, each as long as the drive is large; absent when none was whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
    /// Most free blocks of any plane at its end.
    pub free_blocks_max: u32,
}

taped! { PreconditionSummary { kind, reached, pages_written, write_amplification, free_blocks_max } else {} }

/// What verification checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct VerifySummary {
    /// Sectors of host reads compared with the newest write.
    pub reads_checked: u64,
    /// Sectors that differed.
    pub mismatches: u64,
    /// Whether the recount of all tables at the end agreed.
    pub tables_agree: bool,
}

/// Memory that the model occupies.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct MemorySummary {
    /// Tables of flash and translation layer, when all of the drive is touched. A large drive takes memory for what was
    /// touched. Room for the commands that have waited on the dies is part of it.
    /// A log may change it a little.
    pub table_bytes: u64,
    /// The same for each physical mapping unit; for each logical one with `model = "mapping_cache"`. At most 12 bytes
    /// without caches, and 20 to 60 more with a large mapping cache. Frames of a buffer or a non-volatile cache come on top.
    pub bytes_per_page: f64,
}
