//! Every parameter of a device, once: the types that device files are read into, a file for each section.
//!
//! A key's documentation here, or in the file of its scheme, is the documentation that users see (`ftlab config schema`),
//! with the unit, the default and its reason. `DeviceConfig::validate` refuses what makes no physical sense, in a sentence.

use schemars::JsonSchema;
use serde::ser::{Error as _, SerializeMap};
use serde::{Deserialize, Serialize, Serializer};

use crate::buffer::keys::{CommonKeys, Wait, WriteMode};
use crate::ftl::kinds::FtlKind;
use crate::geometry::{Geometry, GeometryNumbers};

mod buffer;
mod cell;
mod ftl;
mod geometry;
mod host;
mod lsb_backup;
mod map_cache;
mod model;
mod nvm;
mod power;
mod precondition;
mod timing;

pub use crate::buffer::{BufferChoice, BufferKind};
pub use crate::error::ConfigError;
pub use crate::nvm::{NvmChoice, NvmKind};
pub use crate::plane_order::AllocationOrder;
pub use buffer::BufferConfig;
pub(crate) use buffer::BufferSetting;
pub use cell::CellConfig;
pub use ftl::{
    FreeBlockChoice, FreeBlockKeys, FtlConfig, GcOpenBlock, GcPace, GcWhen, StaticKeys, WearLeveling,
    WearLevelingChoice, serves_page_mapping,
};
pub use geometry::{GeometryConfig, MAX_UNITS};
pub use host::{
    Arrival, ArrivalChoice, ClosedKeys, HostConfig, LinkDuplex, OpenKeys, OutOfRange, Scheduler, Stop,
    UnsortedTimes,
};
pub use lsb_backup::{BackupArea, CopyKeys, InvalidateAt, LsbBackup, LsbBackupChoice, LsbBackupConfig};
pub use map_cache::MapCacheConfig;
pub use model::{KEYS_OF_MAPPING_CACHE, Model, takes};
pub use nvm::NvmConfig;
pub use power::{Atomic, DurableTrims, PowerConfig};
pub(crate) use power::{JOURNAL_HEADER_WORDS, JournalShape};
pub use precondition::{
    AgedWhen, Aging, FillKeys, FillLayout, FreeBlocksKeys, PreconditionChoice, PreconditionConfig,
    PreconditionKind, PreconditionPattern, SteadyKeys,
};
pub use timing::{ClassTimes, TimingConfig};

/// A drive: what a device file says. Sections that are left out take their defaults, but `geometry` has none.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// Name in reports; a preset's file name.
    ///
    /// Default: the name of the file, without its ending.
    #[serde(default)]
    pub name: String,
    /// What the drive is, and where its numbers come from.
    ///
    /// Default: empty, as a file that is read once needs none.
    #[serde(default)]
    pub description: String,
    /// What of the drive is modelled.
    ///
    /// Default: the whole drive: the mapping cache alone has no data, no collection and no clock.
    #[serde(default)]
    pub model: Model,
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
    /// What saves data from a torn program of their word line.
    #[serde(default)]
    pub lsb_backup: LsbBackupConfig,
    /// What the drive promises for the moment when the power is cut.
    #[serde(default)]
    pub power: PowerConfig,
    /// The volatile write buffer.
    #[serde(default)]
    pub buffer: BufferConfig,
    /// The non-volatile cache.
    #[serde(default)]
    pub nvm: NvmConfig,
    /// How requests reach the drive.
    #[serde(default)]
    pub host: HostConfig,
    /// State of the drive before the measured run.
    #[serde(default)]
    pub precondition: PreconditionConfig,
}

/// What the model takes can be read again: keys that mean nothing to it are left out.
impl Serialize for DeviceConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("description", &self.description)?;
        if self.model != Model::default() {
            map.serialize_entry("model", &self.model)?;
        }
        map.serialize_entry("geometry", &self.geometry)?;
        self.put(&mut map, "timing", &self.timing)?;
        self.put(&mut map, "cell", &self.cell)?;
        self.put_ftl(&mut map)?;
        self.put(&mut map, "map_cache", &self.map_cache)?;
        self.put(&mut map, "lsb_backup", &self.lsb_backup)?;
        self.put(&mut map, "power", &self.power)?;
        self.put(&mut map, "buffer", &self.buffer)?;
        self.put(&mut map, "nvm", &self.nvm)?;
        self.put(&mut map, "host", &self.host)?;
        self.put(&mut map, "precondition", &self.precondition)?;
        map.end()
    }
}

/// Over-provisioning of a device file that states no logical size.
pub const DEFAULT_OVER_PROVISIONING: f64 = 0.07;

impl DeviceConfig {
    fn put_ftl<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if self.ftl.kind.kind() == FtlKind::Page {
            return self.put(map, "ftl", &self.ftl);
        }
        let mut keys = serde_json::to_value(&self.ftl).map_err(M::Error::custom)?;
        if let Some(keys) = keys.as_object_mut() {
            keys.retain(|key, _| !serves_page_mapping(key));
        }
        map.serialize_entry("ftl", &keys)
    }

    fn put<M: SerializeMap>(
        &self,
        map: &mut M,
        name: &'static str,
        section: &impl Serialize,
    ) -> Result<(), M::Error> {
        if self.model == Model::Drive {
            return map.serialize_entry(name, section);
        }
        let mut keys = serde_json::to_value(section).map_err(M::Error::custom)?;
        if let Some(keys) = keys.as_object_mut() {
            keys.retain(|key, _| takes(self.model, name, key));
            if keys.is_empty() {
                return Ok(());
            }
        }
        map.serialize_entry(name, &keys)
    }

    /// The shape that a validated configuration describes.
    pub fn to_geometry(&self) -> Geometry {
        let g = &self.geometry;
        Geometry::new(GeometryNumbers {
            channels: g.channels,
            ways: g.ways,
            dies: g.dies,
            planes: g.planes,
            blocks_per_plane: g.blocks_per_plane,
            pages_per_block: g.pages_per_block,
            data_pages_per_block: self.data_pages_per_block(),
            page_bytes: g.page_bytes as u32,
            spare_bytes: g.spare_bytes as u32,
            unit_bytes: self.unit_bytes() as u32,
            logical_units: self.logical_pages() as u32,
            backup_blocks_per_plane: self.backup_blocks_per_plane(),
            journal_blocks_per_plane: self.journal_blocks_per_plane(),
        })
    }

    /// Bytes of one mapping unit.
    pub fn unit_bytes(&self) -> u64 {
        self.geometry.unit_bytes()
    }

    /// Pages of a block that may hold data: all of them, or all but the summary page.
    pub fn data_pages_per_block(&self) -> u32 {
        self.geometry.pages_per_block - u32::from(self.ftl.summary_page)
    }

    /// Mapping units of the flash. Call after `validate`.
    pub fn physical_units(&self) -> u64 {
        let g = &self.geometry;
        let blocks = g.all_planes() * u64::from(g.blocks_per_plane);
        blocks * u64::from(g.pages_per_block) * g.slots_per_page()
    }

    /// Mapping units of all data pages.
    fn data_units(&self) -> u64 {
        let g = &self.geometry;
        let per_plane = u64::from(g.blocks_per_plane) * u64::from(self.data_pages_per_block());
        g.all_planes() * per_plane * g.slots_per_page()
    }

    /// What to state for at most so many logical mapping units, to follow a sentence that says so: nothing where the units
    /// themselves are stated, or their bytes.
    pub(crate) fn spare_for(&self, logical: u64) -> String {
        let key = self.ftl.size_key();
        // What is over a whole unit is no unit.
        let spare = self.data_units() as f64 / (logical + 1) as f64 - 1.0;
        if key != "ftl.over_provisioning" || logical == 0 || spare >= ftl::TOO_MUCH_SPARE {
            return String::new();
        }
        format!(" ({key} of {} or more)", ((spare * 1000.0).floor() + 1.0) / 1000.0)
    }

    /// Mapping units that the host sees. Call after `validate`.
    pub fn logical_pages(&self) -> u64 {
        let physical = self.data_units();
        match (self.ftl.logical_pages, self.ftl.logical_bytes) {
            (Some(pages), _) => pages,
            (None, Some(bytes)) => bytes / self.unit_bytes(),
            (None, None) => {
                let spare = self.ftl.over_provisioning.unwrap_or(DEFAULT_OVER_PROVISIONING);
                (physical as f64 / (1.0 + spare)).floor() as u64
            }
        }
    }

    /// Blocks of each plane that hold backups and no data.
    pub(crate) fn backup_blocks_per_plane(&self) -> u32 {
        let planes_per_lane = if self.timing.independent_planes { 1 } else { self.geometry.planes };
        self.lsb_backup.blocks_per_plane(planes_per_lane)
    }

    /// What the journal of trims takes, on a drive that has one.
    pub(crate) fn journal(&self) -> Option<JournalShape> {
        let usable = self.cell.lsb_pages(self.geometry.pages_per_block).count() as u64;
        let (logical, page_bytes) = (self.logical_pages(), self.geometry.page_bytes);
        self.power.has_journal().then(|| JournalShape::new(logical, page_bytes, usable))
    }

    /// Blocks of each plane that hold the journal of trims and no data: both areas are dealt out among the planes.
    pub(crate) fn journal_blocks_per_plane(&self) -> u32 {
        let blocks = self.journal().map_or(0, |journal| 2 * journal.area_blocks);
        blocks.div_ceil(self.geometry.all_planes()).min(u32::MAX.into()) as u32
    }

    /// Units that run commands at the same time: dies, or planes where planes work independently.
    pub fn lanes(&self) -> u32 {
        let planes_per_lane = if self.timing.independent_planes { 1 } else { self.geometry.planes };
        (self.geometry.all_planes() / u64::from(planes_per_lane)) as u32
    }

    /// Whether pages leave for flash from frames: of a write buffer, or of a non-volatile cache.
    pub(crate) fn has_frames(&self) -> bool {
        self.buffer.is_on() || self.nvm.is_on()
    }

    /// Whether mapping units from anywhere may come to one NAND page.
    pub(crate) fn gathers(&self) -> bool {
        self.geometry.slots_per_page() > 1 && (self.buffer.writes_back() || self.nvm.is_on())
    }

    /// Whether such pages have units of planes other than their own, where addresses decide.
    pub(crate) fn strays(&self) -> bool {
        self.gathers() && !self.ftl.placement.goes_by_turn() && self.geometry.all_planes() > 1
    }

    /// Whether a unit may be written to another lane (a die, or a plane where planes work independently) than the last time.
    pub(crate) fn moves_between_lanes(&self) -> bool {
        let (g, placement) = (&self.geometry, &self.ftl.placement);
        if let Some(layout) = self.ftl.kind.layout(g.all_planes() as u32) {
            return layout.pages_move && g.all_planes() > 1;
        }
        let one_die = g.all_planes() == u64::from(g.planes);
        let by_turn = placement.goes_by_turn() || self.map_cache.kind.block_units() > 0 || self.gathers();
        if self.timing.independent_planes {
            g.all_planes() > 1 && (by_turn || placement.compares_planes())
        } else {
            by_turn && !one_die
        }
    }

    /// The keys that change nothing because of the value of another, each with the reason.
    pub fn notes(&self) -> Vec<ConfigNote> {
        let mut notes = Vec::new();
        if self.ftl.over_provisioning.is_some_and(|spare| spare > 1.0) {
            let reason = "is a fraction: the spare space is larger than what the host sees. Was per cent meant, such as \"7%\"?";
            notes.push(ConfigNote { key: "ftl.over_provisioning", reason });
        }
        if self.timing.transfer_spare && self.timing.bus_mb_per_s == 0.0 {
            let reason = "has no effect with timing.bus_mb_per_s = 0: transfers take no time";
            notes.push(ConfigNote { key: "timing.transfer_spare", reason });
        }
        let of_array =
            [("timing.read_us", &self.timing.read_us), ("timing.program_us", &self.timing.program_us)];
        for (key, _) in of_array.into_iter().filter(|(_, times)| times.has_others(self.cell.kind.kind())) {
            let reason = "has entries of page classes that these cells do not have, and they have no effect";
            notes.push(ConfigNote { key, reason });
        }
        let moves = self.timing.bus_mb_per_s > 0.0 || self.timing.command_us > 0.0;
        if self.timing.program_includes_transfer && !moves {
            let reason =
                "has no effect with timing.bus_mb_per_s = 0 and timing.command_us = 0: nothing takes the bus";
            notes.push(ConfigNote { key: "timing.program_includes_transfer", reason });
        }
        if self.buffer.kind.common().is_some_and(|keys| keys.bytes == 0) {
            let reason = "has no effect with buffer.bytes = 0: there is no buffer";
            notes.push(ConfigNote { key: "buffer.kind", reason });
        }
        if self.nvm.kind.cache().is_some_and(|keys| keys.bytes == 0) {
            let reason = "has no effect with nvm.bytes = 0: there is no cache";
            notes.push(ConfigNote { key: "nvm.kind", reason });
        }
        let takes_no_time = |keys: &&CommonKeys| keys.access_us == 0.0 && keys.mb_per_s == 0.0;
        if self.buffer.keys().filter(takes_no_time).is_some_and(|keys| keys.hiding.is_some()) {
            let reason =
                "has no effect with buffer.access_us = 0 and buffer.mb_per_s = 0: the buffer takes no time";
            notes.push(ConfigNote { key: "buffer.hiding", reason });
        }
        let through = self.buffer.keys().filter(|keys| keys.write == WriteMode::Through);
        if let Some(keys) = through {
            let unused = [
                (
                    "buffer.bypass_bytes",
                    keys.bypass_bytes > 0,
                    "has no effect with buffer.write = \"through\": every write goes to flash at once",
                ),
                (
                    "buffer.wait",
                    keys.wait != Wait::default(),
                    "has no effect with buffer.write = \"through\": nobody waits for victims, which are clean",
                ),
                (
                    "buffer.drain_at_end",
                    !keys.drain_at_end,
                    "has no effect with buffer.write = \"through\": nothing is left to be written",
                ),
            ];
            let is_set = unused.into_iter().filter(|(_, is_set, _)| *is_set);
            notes.extend(is_set.map(|(key, _, reason)| ConfigNote { key, reason }));
        }
        if self.power.capacitor && !self.buffer.writes_back() {
            let reason = "has no effect without a buffer that writes back: nothing is lost with it";
            notes.push(ConfigNote { key: "power.capacitor", reason });
        }
        if self.host.link_duplex != LinkDuplex::default() && self.host.link_mb_per_s == 0.0 {
            let reason = "has no effect with host.link_mb_per_s = 0: transfers over the link take no time";
            notes.push(ConfigNote { key: "host.link_duplex", reason });
        }
        let messages = matches!(&self.nvm.kind, NvmChoice::Cdm(keys) if keys.message_us > 0.0);
        if messages && !self.nvm.is_in_host() {
            let reason = "has no effect with nvm.place = \"device\": only a cache in the host sends messages";
            notes.push(ConfigNote { key: "nvm.message_us", reason });
        }
        if self.ftl.gc_open_block == GcOpenBlock::Shared && self.ftl.placement.copy_slots(false) > 0 {
            let reason = "has no effect with this placement: its copies have open blocks of their own";
            notes.push(ConfigNote { key: "ftl.gc_open_block", reason });
        }
        notes
    }
}

/// A key that changes nothing as things are. That is no error: a study varies the other key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigNote {
    /// Dotted key.
    pub key: &'static str,
    /// Why, in a sentence without a full stop.
    pub reason: &'static str,
}
