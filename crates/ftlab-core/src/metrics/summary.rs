//! The summary document (schema 1): what a run says about itself.
//!
//! Keys are added freely and never renamed. Units stand last in a key; ratios are fractions. The object of a part
//! that the device does not have is absent, and so is every time when the run kept no clock.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::cause::{CAUSES, Cause, Command};

/// Version of this document.
pub const SCHEMA: u32 = 1;

/// What a run says about itself.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// [`SCHEMA`].
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
    /// Garbage collection.
    pub gc: GcSummary,
    /// The mapping cache. Absent when the whole table is in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub map_cache: Option<MapCacheSummary>,
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
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A workload that takes the place of a recording.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
    /// Of `read_pages`, those that were not mapped: answered with zeros, without flash.
    pub unmapped_read_pages: u64,
    /// Of `write_pages`, those written in part, whose rest was read from flash first.
    pub read_modify_writes: u64,
    /// Requests cut off or wrapped at the end of the drive.
    pub out_of_range: u64,
    /// Requests that arrived before the one ahead of them (`host.unsorted_times = "clamp"`).
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
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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

/// A count in all and by cause; the parts sum to the whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ByCause {
    /// In all.
    pub total: u64,
    /// Host reads and writes.
    pub host: u64,
    /// Evictions of a write buffer.
    pub cache_flush: u64,
    /// Copies and erases of garbage collection.
    pub gc: u64,
    /// Merges of log blocks.
    pub merge: u64,
    /// Translation pages.
    pub map: u64,
    /// Summary pages and other metadata.
    pub metadata: u64,
    /// Backups of LSB pages.
    pub lsb_backup: u64,
    /// Wear levelling.
    pub wear_level: u64,
    /// Recovery after a power cut.
    pub recovery: u64,
}

impl ByCause {
    /// From one count a cause, in the order of [`Cause`].
    pub fn from_counts(counts: [u64; CAUSES]) -> Self {
        let at = |cause: Cause| counts[cause as usize];
        Self {
            total: counts.iter().sum(),
            host: at(Cause::Host),
            cache_flush: at(Cause::CacheFlush),
            gc: at(Cause::Gc),
            merge: at(Cause::Merge),
            map: at(Cause::Map),
            metadata: at(Cause::Metadata),
            lsb_backup: at(Cause::LsbBackup),
            wear_level: at(Cause::WearLevel),
            recovery: at(Cause::Recovery),
        }
    }
}

/// Flash commands by cause. A copyback is counted as itself and not as a read and a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FlashSummary {
    /// Page reads.
    pub reads: ByCause,
    /// Page programs.
    pub programs: ByCause,
    /// Block erases.
    pub erases: ByCause,
    /// Page copies inside a plane, without the bus.
    pub copybacks: ByCause,
}

impl FlashSummary {
    /// From one count a (command, cause).
    pub fn from_counts(counts: &[[u64; CAUSES]; Command::COUNT]) -> Self {
        let of = |command: Command| ByCause::from_counts(counts[command as usize]);
        Self {
            reads: of(Command::Read),
            programs: of(Command::Program),
            erases: of(Command::Erase),
            copybacks: of(Command::Copyback),
        }
    }
}

/// Flash pages programmed (copybacks included) / pages that the host wrote, by cause; the parts sum to `total`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct WriteAmplification {
    /// In all.
    pub total: f64,
    /// Host writes.
    pub host: f64,
    /// Evictions of a write buffer.
    pub cache_flush: f64,
    /// Garbage collection.
    pub gc: f64,
    /// Merges of log blocks.
    pub merge: f64,
    /// Translation pages.
    pub map: f64,
    /// Summary pages and other metadata.
    pub metadata: f64,
    /// Backups of LSB pages.
    pub lsb_backup: f64,
    /// Wear levelling.
    pub wear_level: f64,
    /// Recovery after a power cut.
    pub recovery: f64,
}

/// Garbage collection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct GcSummary {
    /// Victims collected.
    pub collections: u64,
    /// Valid mapping units moved out of victims.
    pub pages_copied: u64,
    /// Valid mapping units that need not be moved because another copy exists.
    pub pages_skipped: u64,
}

/// A mapping cache over a table in flash. Penalties are what its steps take on an idle drive, added up (equations 1 to 4
/// of the IEEK paper 2012-50-3-10); what they cost a request among others shows in its latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MapCacheSummary {
    /// `map_cache.kind`.
    pub kind: &'static str,
    /// Memory that it may use.
    pub bytes: u64,
    /// Memory in use at the end.
    pub used_bytes: u64,
    /// Translation pages of the drive.
    pub translation_pages: u32,
    /// Looks into the table: one for each mapping unit that the host reads, writes or trims.
    pub lookups: u64,
    /// Lookups for which nothing had to be fetched.
    pub hits: u64,
    /// `hits / lookups`.
    pub hit_ratio: f64,
    /// Reads of translation pages from flash, for whatever reason; those of data pages predicted wrongly are none.
    pub flash_reads: u64,
    /// Translation pages programmed, copies included.
    pub flash_programs: u64,
    /// `penalty_ns.total / lookups`.
    pub mean_penalty_ns: f64,
    /// `penalty_ns.total / (lookups - hits)`.
    pub mean_miss_penalty_ns: f64,
    /// Penalties in all, by part.
    pub penalty_ns: MapPenalty,
    /// Reads that answered misses. A translation page that was never written is not read.
    pub fetches: u64,
    /// Bytes that they brought.
    pub fetch_bytes: u64,
    /// Translation pages written because changed entries left memory.
    pub write_backs: u64,
    /// Of these, those of which a rest had to be read first.
    pub rest_reads: u64,
    /// Lookups whose prediction was wrong (`leaftl`).
    #[serde(skip_serializing_if = "none_of")]
    pub mispredictions: u64,
    /// Translation pages written because collection moved data whose entries were not in memory.
    pub gc_updates: u64,
    /// Of `gc.collections`, those of blocks of translation pages.
    pub collections: u64,
    /// Translation pages that were copied out of them (`gc.pages_copied` counts mapping units).
    pub pages_copied: u64,
    /// Misses by the window chosen (`bsb`), or by what they brought (`cftl`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub windows: BTreeMap<String, u64>,
    /// Scores of the windows at the end (`bsb`); blocks that are block-mapped, and bytes that their entries may take (`cftl`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, f64>,
    /// Memory in use at the end by kind of content, for schemes that have several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub content_bytes: BTreeMap<String, u64>,
}

/// Penalties by part; the parts sum to `total`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct MapPenalty {
    /// In all.
    pub total: f64,
    /// Fetching what is missing (T_rm).
    pub fetch: f64,
    /// Writing translation pages back (T_pf).
    pub program: f64,
    /// Reading what memory does not hold of them (T_rf).
    pub rest: f64,
    /// Reading data that were predicted wrongly (`leaftl`): one page for each, also where a drive reads two or none.
    #[serde(skip_serializing_if = "nothing")]
    pub probe: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn none_of(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn nothing(ns: &f64) -> bool {
    *ns == 0.0
}

/// Erase counts over all blocks, preconditioning included.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ParallelismSummary {
    /// Channels that transfer.
    pub mean_busy_channels: f64,
    /// Dies (or planes, where they work independently) that run a command.
    pub mean_busy_dies: f64,
    /// From the first arrival until the drive is idle.
    pub span_ns: u64,
    /// How long each channel transferred.
    pub channel_busy_ns: Vec<u64>,
    /// How long each die ran commands, in the order of channel, way, die (then plane, where they work independently).
    pub die_busy_ns: Vec<u64>,
}

/// What preconditioning did, and how far it got.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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

/// What verification checked.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VerifySummary {
    /// Sectors of host reads compared with the newest write.
    pub reads_checked: u64,
    /// Sectors that differed.
    pub mismatches: u64,
    /// Whether the recount of all tables at the end agreed.
    pub tables_agree: bool,
}

/// Memory that the model occupies.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MemorySummary {
    /// Tables of flash and translation layer.
    pub table_bytes: u64,
    /// The same for each physical mapping unit; for each logical one with `ftl.kind = "map_only"`.
    pub bytes_per_page: f64,
}
