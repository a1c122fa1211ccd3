//! Every parameter of a device, once: the types that device files are read into.
//!
//! A key's documentation here is the documentation that users see (`ftlab config schema`), with the unit, the
//! default and its reason. [`DeviceConfig::validate`] refuses what makes no physical sense, in a sentence.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

pub use crate::error::ConfigError;
use crate::flash::cell::{CellKind, PageClass, PageOrder, page_classes};
use crate::ftl::gc::VictimKind;
use crate::geometry::SECTOR_BYTES;
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::{MapCacheKind, cftl, leaftl};
pub use crate::plane_order::AllocationOrder;
use crate::quantity;

/// A drive: what a device file says. Sections that are left out take their defaults, but `geometry` has none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// Name in reports; a preset's file name.
    #[serde(default)]
    pub name: String,
    /// What the drive is, and where its numbers come from.
    #[serde(default)]
    pub description: String,
    /// How the flash is organised.
    pub geometry: GeometryConfig,
    /// How long commands and transfers take.
    #[serde(default)]
    pub timing: TimingConfig,
    /// Bits per cell and the classes of pages.
    #[serde(default)]
    pub cell: CellConfig,
    /// The flash translation layer.
    #[serde(default)]
    pub ftl: FtlConfig,
    /// Where the mapping table lives.
    #[serde(default)]
    pub map_cache: MapCacheConfig,
    /// The volatile write buffer.
    #[serde(default)]
    pub buffer: BufferConfig,
    /// The non-volatile cache.
    #[serde(default)]
    pub nvm: NvmConfig,
    /// How requests reach the drive.
    #[serde(default)]
    pub host: HostConfig,
    /// What the drive has lived through before the first request.
    #[serde(default)]
    pub precondition: PreconditionConfig,
}

/// How the flash is organised: channel > way > die > plane > block > page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GeometryConfig {
    /// Channels: buses that move one transfer at a time.
    pub channels: u32,
    /// Chips (chip enables) on each channel.
    pub ways: u32,
    /// Dies in each chip.
    #[serde(default = "one")]
    pub dies: u32,
    /// Planes in each die.
    #[serde(default = "one")]
    pub planes: u32,
    /// Erase blocks in each plane.
    pub blocks_per_plane: u32,
    /// Pages in each block.
    pub pages_per_block: u32,
    /// Data bytes of a page, a power of two.
    #[serde(deserialize_with = "quantity::bytes")]
    pub page_bytes: u64,
    /// Spare bytes of a page, beyond `page_bytes`. They cross the bus when `timing.transfer_spare` says so.
    #[serde(default, deserialize_with = "quantity::bytes")]
    pub spare_bytes: u64,
    /// Bytes that one mapping entry covers, a power of two that divides `page_bytes`; 0 (the default) means a whole
    /// page. Modern drives map 4 KiB in 16 KiB pages.
    #[serde(default, deserialize_with = "quantity::bytes")]
    pub mapping_unit_bytes: u64,
}

fn one() -> u32 {
    1
}

/// How long commands and transfers take. Times are microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimingConfig {
    /// Array read (tR): one number, or one for each page class: `{ lsb = 50, msb = 75 }`.
    #[schemars(with = "LatencySchema")]
    pub read_us: ClassTimes,
    /// Array program (tPROG) of one page, as `read_us`.
    #[schemars(with = "LatencySchema")]
    pub program_us: ClassTimes,
    /// Block erase (tBERS).
    #[serde(deserialize_with = "quantity::micros")]
    pub erase_us: f64,
    /// Channel rate in million bytes a second (an 8-bit bus at 333 MT/s moves 333); 0 makes transfers free.
    pub bus_mb_per_s: f64,
    /// Command and address cycles, on the bus, before each command.
    #[serde(deserialize_with = "quantity::micros")]
    pub command_us: f64,
    /// Copy pages inside a plane without crossing the bus.
    pub copyback: bool,
    /// Whether spare bytes cross the bus along with the data bytes they belong to.
    pub transfer_spare: bool,
    /// Whether the planes of a die work independently. Off (the default): a die runs one command at a time.
    pub independent_planes: bool,
}

impl Default for TimingConfig {
    /// SLC of the DiskSim age: the values that most published FTL studies assume.
    fn default() -> Self {
        Self {
            read_us: ClassTimes::uniform(25.0),
            program_us: ClassTimes::uniform(200.0),
            erase_us: 1500.0,
            bus_mb_per_s: 40.0,
            command_us: 0.0,
            copyback: false,
            transfer_spare: false,
            independent_planes: false,
        }
    }
}

/// A time for each page class, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassTimes {
    times: [Option<f64>; 4],
}

/// What a latency key may hold, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the accepted forms to schema readers; never constructed")]
enum LatencySchema {
    /// Microseconds for every class.
    Number(f64),
    /// A string with a unit, for every class.
    Text(String),
    /// Microseconds for each class.
    Classes { lsb: Option<f64>, csb: Option<f64>, msb: Option<f64>, tsb: Option<f64> },
}

const CLASS_KEYS: [&str; 4] = ["lsb", "csb", "msb", "tsb"];

impl ClassTimes {
    /// The same time for every class.
    pub const fn uniform(us: f64) -> Self {
        Self { times: [Some(us); 4] }
    }

    /// Microseconds for `class`, when the table has an entry for it.
    pub fn get(&self, class: PageClass) -> Option<f64> {
        self.times[class as usize]
    }
}

impl Serialize for ClassTimes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let [Some(first), ..] = self.times
            && self.times.iter().all(|t| *t == Some(first))
        {
            return serializer.serialize_f64(first);
        }
        serializer.collect_map(CLASS_KEYS.iter().zip(self.times).filter_map(|(k, t)| t.map(|t| (*k, t))))
    }
}

impl<'de> Deserialize<'de> for ClassTimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ClassVisitor;
        impl<'de> de::Visitor<'de> for ClassVisitor {
            type Value = ClassTimes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "microseconds, a string such as \"1.5ms\", or a table such as { lsb = 50, msb = 75 }",
                )
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<ClassTimes, E> {
                self.visit_f64(v as f64)
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<ClassTimes, E> {
                self.visit_f64(v as f64)
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<ClassTimes, E> {
                if !(v.is_finite() && v >= 0.0) {
                    return Err(E::invalid_value(de::Unexpected::Float(v), &self));
                }
                Ok(ClassTimes::uniform(v))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<ClassTimes, E> {
                quantity::parse_us(v).map(ClassTimes::uniform).map_err(E::custom)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<ClassTimes, A::Error> {
                let mut times = [None; 4];
                while let Some(key) = map.next_key::<String>()? {
                    let Some(at) = CLASS_KEYS.iter().position(|k| *k == key) else {
                        return Err(de::Error::unknown_field(&key, &CLASS_KEYS));
                    };
                    times[at] = Some(map.next_value::<Micros>()?.0);
                }
                Ok(ClassTimes { times })
            }
        }
        deserializer.deserialize_any(ClassVisitor)
    }
}

#[derive(Deserialize)]
struct Micros(#[serde(deserialize_with = "quantity::micros")] f64);

/// Bits per cell and the classes of pages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CellConfig {
    /// Bits per cell.
    pub kind: CellKind,
    /// Which page of a block has which class; no effect on `slc`.
    pub page_order: PageOrder,
    /// Program/erase cycles that a block is rated for; 0 (the default) means not stated. Wear is reported as a
    /// share of it; blocks do not fail.
    pub rated_pe_cycles: u32,
}

/// The kind of flash translation layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FtlKind {
    /// Page mapping: any logical page may be anywhere.
    #[default]
    Page,
    /// The mapping cache alone: what lookups cost, added up one after the other. No data, no collection, no clock.
    MapOnly,
}

/// Where a page is written, channel > way > die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Striping {
    /// The logical address decides: reads that were written together are spread as their addresses are.
    #[default]
    Static,
    /// The next in turn: consecutive writes are spread, whatever their addresses.
    Dynamic,
}

/// Which plane of the chosen die takes a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlaneChoice {
    /// As `striping` says, by the plane's letter in `allocation`.
    #[default]
    Ordered,
    /// The plane with most free pages, ties in turn, among those whose open block is newer than the block that
    /// holds the page now (the Microsoft extension of DiskSim).
    MostFree,
}

/// Which of the victims that a policy likes equally is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TieBreak {
    /// The next higher block number after the victim before, cyclically: all blocks of a level get their turn.
    #[default]
    Next,
    /// The lowest block number.
    Lowest,
    /// The highest block number.
    Highest,
}

/// Where pages that garbage collection copies are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GcOpenBlock {
    /// Into an open block of their own, so that cold pages gather.
    #[default]
    Separate,
    /// Into the block that host writes fill.
    Shared,
}

/// When garbage collection looks whether it is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GcWhen {
    /// Before a write to a die.
    #[default]
    OnWrite,
    /// Before a read or a write to a die.
    OnAccess,
}

/// Which free block is opened next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FreeBlockChoice {
    /// The block that has been free longest.
    #[default]
    Fifo,
    /// The next higher block number that is free, cyclically.
    NextFit,
}

/// How erases are spread over blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WearLeveling {
    /// Not at all beyond `free_block`.
    #[default]
    None,
    /// Open the least worn free block.
    Dynamic,
    /// As `dynamic`, and move cold data out of the least worn block when wear differs too much.
    Static,
}

/// The flash translation layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FtlConfig {
    /// The kind of translation layer.
    pub kind: FtlKind,
    /// Spare space: (physical - logical) / logical. Exactly one of this, `logical_bytes` and `logical_pages` may be
    /// given; with none of them it is 0.07 (a "256 GB" drive of 256 GiB flash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_provisioning: Option<f64>,
    /// Bytes that the host sees.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "quantity::optional_bytes")]
    pub logical_bytes: Option<u64>,
    /// Mapping units that the host sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logical_pages: Option<u64>,
    /// How garbage collection chooses its victim.
    pub gc: VictimKind,
    /// Collection starts when a plane has this many free blocks or fewer.
    pub gc_low_free_blocks: u32,
    /// Collection stops when the plane has this many free blocks; 0 (the default) means one more than
    /// `gc_low_free_blocks`.
    pub gc_high_free_blocks: u32,
    /// Candidates that `gc = "d_choices"` draws.
    pub gc_choices: u32,
    /// Oldest blocks among which `gc = "windowed_greedy"` chooses, in each plane.
    pub gc_window: u32,
    /// Which of equally good victims is taken (`greedy` and `windowed_greedy`).
    pub gc_tie: TieBreak,
    /// Where copied pages go.
    pub gc_open_block: GcOpenBlock,
    /// When collection looks whether it is due.
    pub gc_when: GcWhen,
    /// The order in which consecutive pages use channel, way, die and plane: the first letter varies fastest.
    pub allocation: AllocationOrder,
    /// Whether the address or the turn decides.
    pub striping: Striping,
    /// Which plane of the chosen die takes a page.
    pub plane_choice: PlaneChoice,
    /// Open blocks for host writes in each plane; a request's stream number, modulo this, chooses.
    pub streams: u32,
    /// Which free block is opened next (`wear_leveling = "none"`).
    pub free_block: FreeBlockChoice,
    /// Keep the last page of each block for a summary, programmed with one sector when the block is full.
    pub summary_page: bool,
    /// How erases are spread.
    pub wear_leveling: WearLeveling,
    /// `static`: move data when a plane's erase counts differ by more than this.
    pub wear_leveling_threshold: u32,
}

impl FtlConfig {
    /// Free blocks at which collection of a plane stops.
    pub fn gc_high(&self) -> u32 {
        self.gc_high_free_blocks.max(self.gc_low_free_blocks.saturating_add(1))
    }
}

impl Default for FtlConfig {
    fn default() -> Self {
        Self {
            kind: FtlKind::Page,
            over_provisioning: None,
            logical_bytes: None,
            logical_pages: None,
            gc: VictimKind::Greedy,
            gc_low_free_blocks: 2,
            gc_high_free_blocks: 0,
            gc_choices: 10,
            gc_window: 64,
            gc_tie: TieBreak::Next,
            gc_open_block: GcOpenBlock::Separate,
            gc_when: GcWhen::OnWrite,
            allocation: AllocationOrder::default(),
            striping: Striping::Static,
            plane_choice: PlaneChoice::Ordered,
            streams: 1,
            free_block: FreeBlockChoice::Fifo,
            summary_page: false,
            wear_leveling: WearLeveling::None,
            wear_leveling_threshold: 100,
        }
    }
}

/// A window that the score board may choose: `"tafp_8"` and the like, `"half_page"` or `"full_page"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CandidateWindow {
    /// `tafp` with this many bytes.
    Forward(u32),
    /// `half_page`.
    Half,
    /// `full_page`.
    Full,
}

impl CandidateWindow {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "half_page" => Some(Self::Half),
            "full_page" => Some(Self::Full),
            _ => {
                let bytes = text.strip_prefix("tafp_")?.parse().ok()?;
                (bytes > 0 && bytes % ENTRY_BYTES == 0).then_some(Self::Forward(bytes))
            }
        }
    }
}

impl fmt::Display for CandidateWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward(bytes) => write!(f, "tafp_{bytes}"),
            Self::Half => f.write_str("half_page"),
            Self::Full => f.write_str("full_page"),
        }
    }
}

impl Serialize for CandidateWindow {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CandidateWindow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(format!(
                "{text:?} is no window: expected \"full_page\", \"half_page\", or \"tafp_N\" with N bytes, a multiple of 4"
            ))
        })
    }
}

impl JsonSchema for CandidateWindow {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CandidateWindow".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^(full_page|half_page|tafp_[0-9]+)$" })
    }
}

/// Whose recency `bsb` compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RankBy {
    /// That of the translation page for `full_page`, of the half for `half_page`, of the run for `tafp_N`.
    #[default]
    Distinct,
    /// That of the run for every window.
    Units,
}

/// Where the mapping table lives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MapCacheConfig {
    /// The kind of mapping cache.
    pub kind: MapCacheKind,
    /// Memory for entries; needed by every kind but `ideal`. The directory of translation pages is not counted.
    #[serde(deserialize_with = "quantity::bytes")]
    pub bytes: u64,
    /// Bytes of memory that an entry takes (`dftl`, `cdftl`): 4 for the physical address alone, 8 with the logical one.
    pub entry_bytes: u32,
    /// Share of the entries in the protected segment (`dftl`); 0 is plain LRU.
    pub protected_fraction: f64,
    /// Bytes of further entries that a miss brings (`tafp`), a page at most; the window ends with its translation page.
    pub window_bytes: u32,
    /// Whether the entry asked for counts among the bytes of the window (`tafp`, `bsb`).
    pub window_inclusive: bool,
    /// Whether each run of entries takes 8 bytes more, for its place and state (`full_page`, `half_page`, `tafp`, `bsb`).
    pub charge_headers: bool,
    /// Whether all changed entries of a translation page are written when it is.
    pub flush_coalesce: bool,
    /// The windows to choose from (`bsb`).
    pub candidates: Vec<CandidateWindow>,
    /// What a score is multiplied by at each access (`bsb`): 0.999 forgets half of it in 693 accesses.
    pub score_weight: f64,
    /// Accesses from one choice of a window to the next (`bsb`); 1 is a choice at every miss.
    pub decision_interval: u32,
    /// Whether a window gets points only for what it would still have in memory (`bsb`).
    pub balanced: bool,
    /// Whose recency says whether it would (`bsb`).
    pub rank: RankBy,
    /// Share of memory for the write buffer of single entries (`sftl`), from 0 (none) to 0.5. It is described as small: a
    /// tenth.
    pub sparse_fraction: f64,
    /// A page that leaves memory with at most this many changed entries leaves them in the write buffer (`sftl`). 32
    /// take as much there as the bit maps of a page of 4 KiB.
    pub sparse_entries: u32,
    /// By how many translation pages memory must have fewer, or more again, for accesses to count as sequential, or not
    /// (`tpftl`); 0 is without selective prefetching. 3 is the paper's.
    pub selective_threshold: u32,
    /// Share of memory for single entries, the rest being for whole pages (`cdftl`). A quarter leaves room for several pages
    /// in the smallest memories of the mapping-cache paper (16 KiB).
    pub entry_fraction: f64,
    /// How far from the right physical unit a prediction may be (`leaftl`). The spare area of a page names as many
    /// neighbours on each side, at 4 bytes each.
    pub leaftl_gamma: u32,
    /// Changes that are learned together (`leaftl`): those of 8 MB of data of 4 KiB pages in the paper. They never take
    /// more than a quarter of the memory.
    pub leaftl_batch_pages: u32,
    /// Changes learned from one compaction of the groups in memory to the next (`leaftl`).
    pub leaftl_compaction_writes: u64,
    /// Units that a block entry answers for (`cftl`), a power of two: the pages of a block of the paper's flash. Where they
    /// do not fit in a block of the drive, or do not fill a page, there are no block entries.
    pub cftl_block_pages: u32,
}

impl Default for MapCacheConfig {
    fn default() -> Self {
        use CandidateWindow::{Forward, Full, Half};
        Self {
            kind: MapCacheKind::Ideal,
            bytes: 0,
            entry_bytes: ENTRY_BYTES,
            protected_fraction: 0.8,
            window_bytes: 64,
            window_inclusive: false,
            charge_headers: false,
            flush_coalesce: false,
            candidates: vec![
                Forward(8),
                Forward(16),
                Forward(32),
                Forward(64),
                Forward(128),
                Forward(256),
                Half,
                Full,
            ],
            score_weight: 0.999,
            decision_interval: 1,
            balanced: true,
            rank: RankBy::Distinct,
            sparse_fraction: 0.1,
            sparse_entries: 32,
            selective_threshold: 3,
            entry_fraction: 0.25,
            leaftl_gamma: 0,
            leaftl_batch_pages: 2048,
            leaftl_compaction_writes: 1_000_000,
            cftl_block_pages: 64,
        }
    }
}

/// Kinds of volatile write buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BufferKind {
    /// No buffer: a write is acknowledged when its pages are programmed.
    #[default]
    None,
}

/// The volatile write buffer.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BufferConfig {
    /// The kind of buffer.
    pub kind: BufferKind,
}

/// Kinds of non-volatile cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NvmKind {
    /// No non-volatile cache.
    #[default]
    None,
}

/// The non-volatile cache.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NvmConfig {
    /// The kind of cache.
    pub kind: NvmKind,
}

/// How requests arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// At the times of the trace, scaled by `time_scale`.
    #[default]
    Open,
    /// The next as soon as fewer than `queue_depth` are in the drive; the times of the trace are not used.
    Closed,
}

/// Whether data to and from the host share the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkDuplex {
    /// Both directions at once (PCIe).
    #[default]
    Full,
    /// One transfer at a time in either direction (parallel buses, DiskSim).
    Half,
}

/// What happens to a request beyond the end of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutOfRange {
    /// The run ends with an error that names the request.
    #[default]
    Error,
    /// The address is taken modulo the drive's size.
    Wrap,
    /// The part beyond the end is cut off; a request wholly beyond it is rejected and counted.
    Clip,
}

/// What happens when a request arrives before the one ahead of it (open arrival only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnsortedTimes {
    /// The run ends with an error that names the request.
    #[default]
    Error,
    /// It arrives at the latest time seen so far; such requests are counted.
    Clamp,
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// When every request has completed.
    #[default]
    Drained,
    /// At the instant at which the last request arrives: it and what is in flight stay unfinished (DiskSim).
    LastArrival,
}

/// How requests reach the drive.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// How requests arrive.
    pub arrival: Arrival,
    /// Requests in the drive at a time (`closed`).
    pub queue_depth: u32,
    /// Factor on the times of the trace (`open`): 0.5 is twice as fast, 0 means that all requests arrive at once.
    pub time_scale: f64,
    /// Most requests that the drive holds (`open`); the rest wait at the host, first come first served. 0 (the
    /// default): no limit.
    pub outstanding: u32,
    /// Rate of the host link in million bytes a second; 0 (the default) makes transfers free.
    pub link_mb_per_s: f64,
    /// Whether the link works in both directions at once.
    pub link_duplex: LinkDuplex,
    /// What happens to a request beyond the end of the drive.
    pub out_of_range: OutOfRange,
    /// What happens when times go backwards.
    pub unsorted_times: UnsortedTimes,
    /// When the run ends (`open`).
    pub stop: Stop,
}

impl HostConfig {
    /// Most requests that are in the drive at once; `None` without a limit.
    pub fn depth(&self) -> Option<u32> {
        match (self.arrival, self.outstanding) {
            (Arrival::Closed, _) => Some(self.queue_depth),
            (Arrival::Open, 0) => None,
            (Arrival::Open, outstanding) => Some(outstanding),
        }
    }
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            arrival: Arrival::Open,
            queue_depth: 1,
            time_scale: 1.0,
            outstanding: 0,
            link_mb_per_s: 0.0,
            link_duplex: LinkDuplex::Full,
            out_of_range: OutOfRange::Error,
            unsorted_times: UnsortedTimes::Error,
            stop: Stop::Drained,
        }
    }
}

/// What a drive has lived through before the first request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreconditionKind {
    /// Nothing: fresh from the factory.
    #[default]
    None,
    /// Every logical page was written once, in order.
    Fill,
    /// `fill`, then `pattern` writes until no plane has more than `free_blocks` free blocks.
    FreeBlocks,
    /// `fill`, then `pattern` writes until write amplification is steady.
    Steady,
}

impl PreconditionKind {
    /// Its name in device files and reports.
    pub const fn name(self) -> &'static str {
        match self {
            PreconditionKind::None => "none",
            PreconditionKind::Fill => "fill",
            PreconditionKind::FreeBlocks => "free_blocks",
            PreconditionKind::Steady => "steady",
        }
    }
}

/// How `fill` lays pages out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FillLayout {
    /// As the translation layer places sequential writes.
    #[default]
    Written,
    /// Block after block: consecutive pages of a die fill a whole block, then one in the next plane (DiskSim).
    Blocks,
}

/// Which writes age a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PreconditionPattern {
    /// Single pages, uniform over the logical space.
    #[default]
    Uniform,
    /// The logical space from start to end, again and again.
    Sequential,
    /// The writes and trims of the workload itself, repeated.
    Workload,
}

/// What a drive has lived through before the first request. None of it takes simulated time or is measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PreconditionConfig {
    /// What the drive has lived through.
    pub kind: PreconditionKind,
    /// How `fill` lays pages out.
    pub layout: FillLayout,
    /// Which writes age the drive (`free_blocks`, `steady`).
    pub pattern: PreconditionPattern,
    /// Free blocks a plane to go down to (`free_blocks`). 0, the default: as many as collection leaves, which is also the
    /// least (`ftl.gc_high_free_blocks`).
    pub free_blocks: u32,
    /// Write amplification is steady when its mean over the last two windows (of one logical capacity of writes
    /// each) differs from that of the two before by at most this share (`steady`).
    pub tolerance: f64,
    /// Give up after writing the logical capacity this many times; the summary says so.
    pub max_drive_writes: f64,
}

impl Default for PreconditionConfig {
    fn default() -> Self {
        Self {
            kind: PreconditionKind::None,
            layout: FillLayout::Written,
            pattern: PreconditionPattern::Uniform,
            free_blocks: 0,
            tolerance: 0.002,
            max_drive_writes: 50.0,
        }
    }
}

fn refuse<T>(key: &str, found: impl fmt::Display, expected: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError { key: key.into(), found: found.to_string(), expected: expected.into() })
}

/// Largest number of mapping units in a drive: they are counted in 32 bits, a few values of which are reserved.
pub const MAX_UNITS: u64 = u32::MAX as u64 - 16;

/// Over-provisioning of a device file that states no logical size.
pub const DEFAULT_OVER_PROVISIONING: f64 = 0.07;

impl DeviceConfig {
    /// Bytes of one mapping unit.
    pub fn unit_bytes(&self) -> u64 {
        match self.geometry.mapping_unit_bytes {
            0 => self.geometry.page_bytes,
            bytes => bytes,
        }
    }

    /// Pages of a block that may hold data: all of them, or all but the summary page.
    pub fn data_pages_per_block(&self) -> u32 {
        self.geometry.pages_per_block - u32::from(self.ftl.summary_page)
    }

    fn planes(&self) -> u64 {
        let g = &self.geometry;
        u64::from(g.channels) * u64::from(g.ways) * u64::from(g.dies) * u64::from(g.planes)
    }

    /// Mapping units of the flash. Call after [`validate`](Self::validate).
    pub fn physical_units(&self) -> u64 {
        let g = &self.geometry;
        let blocks = self.planes() * u64::from(g.blocks_per_plane);
        blocks * u64::from(g.pages_per_block) * (g.page_bytes / self.unit_bytes())
    }

    /// Mapping units that the host sees. Call after [`validate`](Self::validate).
    pub fn logical_pages(&self) -> u64 {
        let g = &self.geometry;
        let slots = g.page_bytes / self.unit_bytes();
        let physical =
            self.planes() * u64::from(g.blocks_per_plane) * u64::from(self.data_pages_per_block()) * slots;
        match (self.ftl.logical_pages, self.ftl.logical_bytes) {
            (Some(pages), _) => pages,
            (None, Some(bytes)) => bytes / self.unit_bytes(),
            (None, None) => {
                let spare = self.ftl.over_provisioning.unwrap_or(DEFAULT_OVER_PROVISIONING);
                (physical as f64 / (1.0 + spare)).floor() as u64
            }
        }
    }

    /// Open blocks that a plane may have at a time.
    pub fn open_blocks_per_plane(&self) -> u32 {
        self.ftl.streams
            + u32::from(self.ftl.gc_open_block == GcOpenBlock::Separate)
            + u32::from(self.map_cache.kind != MapCacheKind::Ideal)
            + u32::from(self.gathers())
    }

    /// The key that says how many blocks of a plane collection keeps free.
    fn free_blocks_key(&self) -> &'static str {
        if self.ftl.gc_high_free_blocks == 0 { "ftl.gc_low_free_blocks" } else { "ftl.gc_high_free_blocks" }
    }

    /// Blocks of a plane that hold no data but what is being written: collection keeps them free.
    fn reserved_blocks(&self) -> u64 {
        u64::from(self.ftl.gc_high()) + u64::from(self.open_blocks_per_plane()) - 1
    }

    /// Mapping units of a plane that can be live.
    pub fn usable_units_per_plane(&self) -> u64 {
        let slots = self.geometry.page_bytes / self.unit_bytes();
        let blocks = u64::from(self.geometry.blocks_per_plane).saturating_sub(self.reserved_blocks());
        blocks * u64::from(self.data_pages_per_block()) * slots
    }

    /// Whether collection puts logical blocks in order (`cftl`): they must fit in a block, and fill pages. The model of the
    /// cache alone has no collection.
    pub fn gathers(&self) -> bool {
        let slots = self.geometry.page_bytes / self.unit_bytes();
        let block_units = u64::from(self.map_cache.cftl_block_pages);
        let fits = slots..=u64::from(self.data_pages_per_block()) * slots;
        self.ftl.kind == FtlKind::Page
            && self.map_cache.kind == MapCacheKind::Cftl
            && fits.contains(&block_units)
    }

    /// Mapping units that translation pages take. Call after [`validate`](Self::validate).
    pub fn translation_units(&self) -> u64 {
        if self.map_cache.kind == MapCacheKind::Ideal {
            return 0;
        }
        let slots = self.geometry.page_bytes / self.unit_bytes();
        let entries = self.geometry.page_bytes / u64::from(ENTRY_BYTES);
        let block_units = u64::from(self.map_cache.cftl_block_pages);
        let blocks = if self.gathers() { self.logical_pages().div_ceil(block_units) } else { 0 };
        (self.logical_pages().div_ceil(entries) + blocks.div_ceil(entries)) * slots
    }

    /// Check every value, alone and against the others.
    ///
    /// # Errors
    /// The first key that makes no sense, what it holds, and what would.
    pub fn validate(&self) -> Result<(), ConfigError> {
        self.validate_geometry()?;
        self.validate_timing()?;
        self.validate_map_cache()?;
        self.validate_ftl()?;
        self.validate_host()
    }

    fn validate_geometry(&self) -> Result<(), ConfigError> {
        let g = &self.geometry;
        for (key, value, max) in [
            ("geometry.channels", g.channels, 1024),
            ("geometry.ways", g.ways, 1024),
            ("geometry.dies", g.dies, 1024),
            ("geometry.planes", g.planes, 64),
            ("geometry.blocks_per_plane", g.blocks_per_plane, u32::MAX - 16),
            ("geometry.pages_per_block", g.pages_per_block, 16_384),
        ] {
            if value == 0 || value > max {
                return refuse(key, value, format!("must be from 1 to {max}"));
            }
        }
        if !g.page_bytes.is_power_of_two() || g.page_bytes < SECTOR_BYTES.into() || g.page_bytes > 1 << 24 {
            return refuse(
                "geometry.page_bytes",
                g.page_bytes,
                "must be a power of two from 512 bytes to 16 MiB",
            );
        }
        if g.spare_bytes > g.page_bytes {
            return refuse("geometry.spare_bytes", g.spare_bytes, "must not exceed geometry.page_bytes");
        }
        let unit = self.unit_bytes();
        if !unit.is_power_of_two() || unit < SECTOR_BYTES.into() || unit > g.page_bytes {
            let expected = "must be a power of two from 512 bytes to geometry.page_bytes";
            return refuse("geometry.mapping_unit_bytes", unit, expected);
        }
        if g.page_bytes / unit > 16 {
            return refuse(
                "geometry.mapping_unit_bytes",
                unit,
                "must be at least a sixteenth of geometry.page_bytes",
            );
        }
        let block_units = u64::from(g.pages_per_block) * (g.page_bytes / unit);
        if block_units > u64::from(u16::MAX) {
            let found = format!("{block_units} mapping units in a block");
            return refuse("geometry.pages_per_block", found, "a block may have at most 65535 mapping units");
        }
        let dies = u64::from(g.channels) * u64::from(g.ways) * u64::from(g.dies);
        if dies * u64::from(g.planes) > 65_536 {
            let found = format!("{} planes in all", dies * u64::from(g.planes));
            return refuse(
                "geometry.channels",
                found,
                "channels x ways x dies x planes must not exceed 65536",
            );
        }
        let blocks = self.planes() * u64::from(g.blocks_per_plane);
        let units = blocks.saturating_mul(block_units);
        if units > MAX_UNITS {
            let found = format!("{units} mapping units of {unit} bytes in all");
            let expected = format!(
                "the drive may have at most {MAX_UNITS} mapping units; raise geometry.mapping_unit_bytes or make it smaller"
            );
            return refuse("geometry.blocks_per_plane", found, expected);
        }
        Ok(())
    }

    fn validate_timing(&self) -> Result<(), ConfigError> {
        let (t, c) = (&self.timing, &self.cell);
        if page_classes(c.kind, c.page_order, self.geometry.pages_per_block).is_none() {
            let found = format!("{:?}", c.page_order);
            return refuse("cell.page_order", found, format!("is not defined for {:?} cells", c.kind));
        }
        const HOUR_US: f64 = 3.6e9;
        for (key, times) in [("timing.read_us", &t.read_us), ("timing.program_us", &t.program_us)] {
            for class in c.kind.classes() {
                match times.get(*class) {
                    None => {
                        let expected =
                            format!("needs an entry {} for these cells", CLASS_KEYS[*class as usize]);
                        return refuse(key, "a table", expected);
                    }
                    Some(us) if us > HOUR_US => {
                        return refuse(key, us, "must be at most an hour, in microseconds");
                    }
                    Some(_) => {}
                }
            }
        }
        for (key, us) in [("timing.erase_us", t.erase_us), ("timing.command_us", t.command_us)] {
            if us > HOUR_US {
                return refuse(key, us, "must be at most an hour, in microseconds");
            }
        }
        rate("timing.bus_mb_per_s", t.bus_mb_per_s)?;
        if t.transfer_spare && self.geometry.spare_bytes == 0 {
            return refuse("timing.transfer_spare", true, "needs geometry.spare_bytes above 0");
        }
        Ok(())
    }

    fn validate_ftl(&self) -> Result<(), ConfigError> {
        let (g, f) = (&self.geometry, &self.ftl);
        let given = [
            ("ftl.over_provisioning", f.over_provisioning.map(|v| v.to_string())),
            ("ftl.logical_bytes", f.logical_bytes.map(|v| v.to_string())),
            ("ftl.logical_pages", f.logical_pages.map(|v| v.to_string())),
        ];
        let mut given = given.iter().filter_map(|(key, value)| value.as_ref().map(|value| (*key, value)));
        if let (Some((first, _)), Some((second, value))) = (given.next(), given.next()) {
            return refuse(second, value, format!("{first} is given too: state the logical size once"));
        }
        if let Some(spare) = f.over_provisioning
            && !(spare > 0.0 && spare <= 1000.0)
        {
            return refuse(
                "ftl.over_provisioning",
                spare,
                "must be above 0 and at most 1000: a fraction of the logical size",
            );
        }
        if let Some(bytes) = f.logical_bytes
            && bytes % self.unit_bytes() != 0
        {
            let expected = format!("must be a multiple of the mapping unit, {} bytes", self.unit_bytes());
            return refuse("ftl.logical_bytes", bytes, expected);
        }
        if f.summary_page && g.pages_per_block < 2 {
            return refuse("ftl.summary_page", true, "needs at least 2 pages in a block");
        }
        if f.streams == 0 || f.streams > 64 {
            return refuse("ftl.streams", f.streams, "must be from 1 to 64");
        }
        if f.gc_low_free_blocks == 0 {
            return refuse("ftl.gc_low_free_blocks", 0, "must be at least 1: copies need a free block");
        }
        if f.gc_high_free_blocks != 0 && f.gc_high_free_blocks <= f.gc_low_free_blocks {
            let expected = format!("must be above ftl.gc_low_free_blocks ({}), or 0", f.gc_low_free_blocks);
            return refuse("ftl.gc_high_free_blocks", f.gc_high_free_blocks, expected);
        }
        if f.gc == VictimKind::DChoices && f.gc_choices == 0 {
            return refuse("ftl.gc_choices", 0, "must be at least 1");
        }
        if f.gc == VictimKind::WindowedGreedy && f.gc_window == 0 {
            return refuse("ftl.gc_window", 0, "must be at least 1");
        }
        if f.wear_leveling == WearLeveling::Static && f.wear_leveling_threshold == 0 {
            return refuse("ftl.wear_leveling_threshold", 0, "must be at least 1");
        }
        if f.wear_leveling != WearLeveling::None && f.free_block != FreeBlockChoice::Fifo {
            return refuse(
                "ftl.free_block",
                "\"next_fit\"",
                "wear levelling opens the least worn block: remove this key, or set ftl.wear_leveling = \"none\"",
            );
        }
        if f.plane_choice == PlaneChoice::MostFree && self.open_blocks_per_plane() > 1 {
            let expected = "compares the one open block of each plane: needs ftl.streams = 1, ftl.gc_open_block = \"shared\" and map_cache.kind = \"ideal\"";
            return refuse("ftl.plane_choice", "\"most_free\"", expected);
        }
        // First: otherwise the drive would be called full.
        if f.gc_high() >= g.blocks_per_plane {
            let found = f.gc_low_free_blocks.max(f.gc_high_free_blocks);
            let expected = format!("must stay below the {} blocks of a plane", g.blocks_per_plane);
            return refuse(self.free_blocks_key(), found, expected);
        }
        let slots = g.page_bytes / self.unit_bytes();
        let per_block = u64::from(self.data_pages_per_block()) * slots;
        let reserve = self.reserved_blocks();
        let usable = self.usable_units_per_plane() * self.planes();
        let logical = self.logical_pages();
        let key = given_key(f);
        if logical == 0 {
            return refuse(key, logical, "the drive would have no logical page");
        }
        if logical > MAX_UNITS {
            let expected = format!("at most {MAX_UNITS}: mapping units are counted in 32 bits");
            return refuse(key, format!("{logical} logical mapping units"), expected);
        }
        let translation = self.translation_units();
        if logical + translation > usable && self.ftl.kind != FtlKind::MapOnly {
            let physical = u64::from(g.blocks_per_plane) * per_block * self.planes();
            let expected = format!(
                "at most {} of the {physical} physical mapping units can be logical: each plane of {} blocks keeps \
                 {reserve} for open blocks and {}{}",
                usable.saturating_sub(translation),
                g.blocks_per_plane,
                self.free_blocks_key(),
                if translation > 0 {
                    format!(", and translation pages take {translation}")
                } else {
                    String::new()
                }
            );
            return refuse(key, format!("{logical} logical mapping units"), expected);
        }
        Ok(())
    }

    fn validate_map_cache(&self) -> Result<(), ConfigError> {
        let (m, usual) = (&self.map_cache, MapCacheConfig::default());
        use MapCacheKind::{Bsb, Cdftl, Cftl, Dftl, FullPage, HalfPage, Ideal, Leaftl, Sftl, Tafp, Tpftl};
        // Keys that would change nothing are mistakes: name, whether it was changed, which kinds look at it.
        let runs = [FullPage, HalfPage, Tafp, Bsb].as_slice();
        for (key, changed, kinds) in [
            ("entry_bytes", m.entry_bytes != usual.entry_bytes, [Dftl, Cdftl].as_slice()),
            (
                "protected_fraction",
                m.protected_fraction.to_bits() != usual.protected_fraction.to_bits(),
                &[Dftl],
            ),
            ("window_bytes", m.window_bytes != usual.window_bytes, &[Tafp]),
            ("window_inclusive", m.window_inclusive, &[Tafp, Bsb]),
            ("charge_headers", m.charge_headers, runs),
            ("flush_coalesce", m.flush_coalesce, &[Dftl, HalfPage, Tafp, Bsb, Cdftl, Leaftl, Cftl]),
            ("candidates", m.candidates != usual.candidates, &[Bsb]),
            ("score_weight", m.score_weight.to_bits() != usual.score_weight.to_bits(), &[Bsb]),
            ("decision_interval", m.decision_interval != usual.decision_interval, &[Bsb]),
            ("balanced", m.balanced != usual.balanced, &[Bsb]),
            ("rank", m.rank != usual.rank, &[Bsb]),
            ("sparse_fraction", m.sparse_fraction.to_bits() != usual.sparse_fraction.to_bits(), &[Sftl]),
            ("sparse_entries", m.sparse_entries != usual.sparse_entries, &[Sftl]),
            ("selective_threshold", m.selective_threshold != usual.selective_threshold, &[Tpftl]),
            ("entry_fraction", m.entry_fraction.to_bits() != usual.entry_fraction.to_bits(), &[Cdftl]),
            ("leaftl_gamma", m.leaftl_gamma != usual.leaftl_gamma, &[Leaftl]),
            ("leaftl_batch_pages", m.leaftl_batch_pages != usual.leaftl_batch_pages, &[Leaftl]),
            (
                "leaftl_compaction_writes",
                m.leaftl_compaction_writes != usual.leaftl_compaction_writes,
                &[Leaftl],
            ),
            ("cftl_block_pages", m.cftl_block_pages != usual.cftl_block_pages, &[Cftl]),
        ] {
            if changed && !kinds.contains(&m.kind) {
                let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
                let expected = format!(
                    "has no effect with map_cache.kind = \"{}\": it is a key of {}",
                    m.kind.name(),
                    kinds.join(", ")
                );
                return refuse(&format!("map_cache.{key}"), "a value", expected);
            }
        }
        self.validate_map_cache_pairs()?;
        if m.kind == Ideal {
            if m.bytes != 0 {
                let expected = "has no effect with map_cache.kind = \"ideal\": the whole table is in memory";
                return refuse("map_cache.bytes", m.bytes, expected);
            }
            if self.ftl.kind == FtlKind::MapOnly {
                let expected = "is the mapping cache alone: choose map_cache.kind";
                return refuse("ftl.kind", "\"map_only\"", expected);
            }
            return Ok(());
        }
        if self.ftl.kind == FtlKind::MapOnly && self.precondition.kind != PreconditionKind::None {
            let expected = "there is no flash to age with ftl.kind = \"map_only\": choose \"none\"";
            let found = format!("\"{}\"", self.precondition.kind.name());
            return refuse("precondition.kind", found, expected);
        }
        let page = self.geometry.page_bytes;
        if page > 1 << 20 {
            let expected = "translation pages are NAND pages of at most 1 MiB";
            return refuse("geometry.page_bytes", page, expected);
        }
        if m.entry_bytes != 4 && m.entry_bytes != 8 {
            return refuse("map_cache.entry_bytes", m.entry_bytes, "must be 4 or 8");
        }
        if !(0.0..1.0).contains(&m.protected_fraction) {
            return refuse("map_cache.protected_fraction", m.protected_fraction, "must be from 0 to below 1");
        }
        let forward = |key: &str, bytes: u32| {
            if bytes == 0 || !bytes.is_multiple_of(ENTRY_BYTES) || u64::from(bytes) > page {
                let expected = format!("must be a multiple of 4, from 4 to geometry.page_bytes ({page})");
                return refuse(key, bytes, expected);
            }
            Ok(())
        };
        forward("map_cache.window_bytes", m.window_bytes)?;
        if m.kind == Bsb && m.candidates.is_empty() {
            return refuse("map_cache.candidates", "[]", "needs a window to choose");
        }
        for (at, candidate) in m.candidates.iter().enumerate() {
            if let CandidateWindow::Forward(bytes) = candidate {
                forward("map_cache.candidates", *bytes)?;
            }
            if m.candidates[..at].contains(candidate) {
                let expected = "is there twice: each window is chosen and counted once";
                return refuse("map_cache.candidates", format!("\"{candidate}\""), expected);
            }
        }
        if !(m.score_weight > 0.0 && m.score_weight < 1.0) {
            return refuse("map_cache.score_weight", m.score_weight, "must be above 0 and below 1");
        }
        if m.decision_interval == 0 {
            return refuse("map_cache.decision_interval", 0, "must be at least 1");
        }
        if !(0.0..=0.5).contains(&m.sparse_fraction) {
            return refuse("map_cache.sparse_fraction", m.sparse_fraction, "must be from 0 to 0.5");
        }
        if m.sparse_entries == 0 {
            return refuse(
                "map_cache.sparse_entries",
                0,
                "must be at least 1 (sparse_fraction = 0: no buffer)",
            );
        }
        if !(m.entry_fraction > 0.0 && m.entry_fraction < 1.0) {
            return refuse("map_cache.entry_fraction", m.entry_fraction, "must be above 0 and below 1");
        }
        let spare = self.geometry.spare_bytes;
        let named = (2 * u64::from(m.leaftl_gamma) + 1) * u64::from(ENTRY_BYTES);
        if m.leaftl_gamma > 0 && named > spare {
            let expected = format!(
                "needs {named} bytes for the logical numbers of neighbours, but geometry.spare_bytes is {spare}"
            );
            return refuse("map_cache.leaftl_gamma", m.leaftl_gamma, expected);
        }
        if m.leaftl_batch_pages == 0 {
            return refuse("map_cache.leaftl_batch_pages", 0, "must be at least 1");
        }
        if m.leaftl_compaction_writes == 0 {
            return refuse("map_cache.leaftl_compaction_writes", 0, "must be at least 1");
        }
        let entries = page / u64::from(ENTRY_BYTES);
        let blocks = m.cftl_block_pages;
        if m.kind == Cftl && (!blocks.is_power_of_two() || blocks == 1 || u64::from(blocks) > entries) {
            let expected = format!("must be a power of two, from 2 to the entries of a page ({entries})");
            return refuse("map_cache.cftl_block_pages", blocks, expected);
        }
        let header = if m.charge_headers { 8 } else { 0 };
        let most = |window: CandidateWindow| match window {
            CandidateWindow::Forward(bytes) if m.window_inclusive => u64::from(bytes),
            CandidateWindow::Forward(bytes) => u64::from(bytes + ENTRY_BYTES).min(page),
            CandidateWindow::Half => page / 2,
            CandidateWindow::Full => page,
        };
        let least = match m.kind {
            FullPage => page + header,
            HalfPage => page / 2 + header,
            Tafp => most(CandidateWindow::Forward(m.window_bytes)) + header,
            Bsb => m.candidates.iter().map(|window| most(*window)).max().unwrap_or(0) + header,
            Sftl => crate::mapcache::sftl::Sftl::least_bytes(m, page),
            Cdftl => page + u64::from(m.entry_bytes),
            Tpftl => crate::mapcache::tpftl::Tpftl::LEAST_BYTES.into(),
            Cftl => cftl::least_bytes(TranslationLayout::new(self)),
            Leaftl => leaftl::least_bytes(TranslationLayout::new(self)),
            _ => u64::from(m.entry_bytes),
        };
        if m.bytes < least {
            let expected = format!("must be at least {least}: what one miss brings");
            return refuse("map_cache.bytes", m.bytes, expected);
        }
        Ok(())
    }

    /// Keys of the mapping cache that another of its keys leaves without effect.
    fn validate_map_cache_pairs(&self) -> Result<(), ConfigError> {
        let (m, usual) = (&self.map_cache, MapCacheConfig::default());
        let is_forward = |window: &CandidateWindow| matches!(window, CandidateWindow::Forward(_));
        let board = m.kind == MapCacheKind::Bsb && !m.candidates.is_empty();
        if board && m.window_inclusive && !m.candidates.iter().any(is_forward) {
            let expected = "has no effect without a window \"tafp_N\" in map_cache.candidates";
            return refuse("map_cache.window_inclusive", true, expected);
        }
        if board && m.flush_coalesce && m.candidates == [CandidateWindow::Full] {
            let expected =
                "has no effect with map_cache.candidates = [\"full_page\"]: a page is written whole anyway";
            return refuse("map_cache.flush_coalesce", true, expected);
        }
        if m.rank != usual.rank && !m.balanced {
            let expected = "has no effect with map_cache.balanced = false: no recency is asked for";
            return refuse("map_cache.rank", "\"units\"", expected);
        }
        if board && m.rank != usual.rank && m.candidates.iter().all(is_forward) {
            let expected = "has no effect without \"half_page\" or \"full_page\" in map_cache.candidates: the others go by runs";
            return refuse("map_cache.rank", "\"units\"", expected);
        }
        if m.sparse_entries != usual.sparse_entries && m.sparse_fraction == 0.0 {
            let expected = "has no effect with map_cache.sparse_fraction = 0: there is no write buffer";
            return refuse("map_cache.sparse_entries", m.sparse_entries, expected);
        }
        Ok(())
    }

    fn validate_host(&self) -> Result<(), ConfigError> {
        let (h, p) = (&self.host, &self.precondition);
        if h.queue_depth == 0 || h.queue_depth > 65_536 {
            return refuse("host.queue_depth", h.queue_depth, "must be from 1 to 65536");
        }
        if h.outstanding > 65_536 {
            return refuse("host.outstanding", h.outstanding, "must be at most 65536, or 0 for no limit");
        }
        if h.arrival == Arrival::Open && h.queue_depth != 1 {
            let expected = "has no effect with host.arrival = \"open\": use host.outstanding, or host.arrival = \"closed\"";
            return refuse("host.queue_depth", h.queue_depth, expected);
        }
        if h.arrival == Arrival::Closed && h.outstanding != 0 {
            let expected =
                "has no effect with host.arrival = \"closed\": host.queue_depth is the limit there";
            return refuse("host.outstanding", h.outstanding, expected);
        }
        if h.arrival == Arrival::Closed && h.stop == Stop::LastArrival {
            return refuse("host.stop", "\"last_arrival\"", "needs host.arrival = \"open\"");
        }
        if !(h.time_scale >= 0.0 && h.time_scale <= 1e9) {
            return refuse("host.time_scale", h.time_scale, "must be from 0 to 1e9");
        }
        rate("host.link_mb_per_s", h.link_mb_per_s)?;
        if !(p.tolerance > 0.0 && p.tolerance < 1.0) {
            return refuse("precondition.tolerance", p.tolerance, "must be between 0 and 1");
        }
        if !(p.max_drive_writes > 0.0 && p.max_drive_writes <= 1e6) {
            return refuse(
                "precondition.max_drive_writes",
                p.max_drive_writes,
                "must be above 0 and at most 1e6",
            );
        }
        let least = self.ftl.gc_high();
        if p.kind == PreconditionKind::FreeBlocks && p.free_blocks != 0 && p.free_blocks < least {
            let expected = format!(
                "must be at least {least}, or 0: collection brings every plane back to that (ftl.gc_high_free_blocks)"
            );
            return refuse("precondition.free_blocks", p.free_blocks, expected);
        }
        if p.layout == FillLayout::Blocks
            && (self.ftl.streams > 1 || self.unit_bytes() != self.geometry.page_bytes)
        {
            let expected =
                "lays out one stream of whole pages: needs ftl.streams = 1 and no smaller mapping unit";
            return refuse("precondition.layout", "\"blocks\"", expected);
        }
        Ok(())
    }
}

fn rate(key: &str, mb_per_s: f64) -> Result<(), ConfigError> {
    if mb_per_s == 0.0 || (0.001..=1e7).contains(&mb_per_s) {
        return Ok(());
    }
    refuse(
        key,
        mb_per_s,
        "must be from 0.001 to 1e7 million bytes a second, or 0 for transfers that take no time",
    )
}

fn given_key(f: &FtlConfig) -> &'static str {
    match (f.logical_pages, f.logical_bytes) {
        (Some(_), _) => "ftl.logical_pages",
        (None, Some(_)) => "ftl.logical_bytes",
        (None, None) => "ftl.over_provisioning",
    }
}
