//! `[ftl]`: the flash translation layer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::ftl::gc::VictimChoice;
use crate::ftl::kinds::FtlChoice;
use crate::ftl::placement::PlacementChoice;
use crate::plane_order::AllocationOrder;
use crate::quantity;
use crate::scheme::{Choice, NoKeys, axis};

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

/// How fast garbage collection empties a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GcPace {
    /// At once, when the plane is short of free blocks.
    #[default]
    Block,
    /// Page by page, ahead of need: its copies are spread evenly over the writes that its space will take.
    Even,
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

axis! {
    /// How erases are spread over blocks.
    ///
    /// Default: off, since moving cold data costs writes that studies of collection leave out.
    "wear_leveling" in "ftl": WearLeveling, WearLevelingChoice {
        /// Not at all beyond `free_block`.
        "none" None(FreeBlockKeys);
        /// Open the least worn free block.
        "dynamic" Dynamic(NoKeys);
        /// As `dynamic`, and move cold data out of the least worn block when wear differs too much.
        "static" Static(StaticKeys);
    }
}

/// Keys of drives without wear levelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FreeBlockKeys {
    /// Which free block is opened next.
    ///
    /// Default: blocks rest for as long as they can, which spreads erases by itself.
    pub free_block: FreeBlockChoice,
}

/// Keys of static wear levelling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StaticKeys {
    /// Move data when a plane's erase counts differ by more than this.
    ///
    /// Default: 100, as in MQSim.
    pub wear_leveling_threshold: u32,
}

impl Default for StaticKeys {
    fn default() -> Self {
        Self { wear_leveling_threshold: 100 }
    }
}

/// What no drive has as a fraction, and some have as per cent: tiny drives of tests need up to 4.
pub(super) const TOO_MUCH_SPARE: f64 = 5.0;

/// The flash translation layer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FtlConfig {
    /// The kind of translation layer.
    #[serde(flatten)]
    pub kind: FtlChoice,
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
    #[serde(flatten)]
    pub gc: VictimChoice,
    /// Collection starts when a plane has this many free blocks or fewer.
    ///
    /// Default: one block for the host and one for copies; more that are kept free are spare space lost.
    pub gc_low_free_blocks: u32,
    /// Collection stops when the plane has this many free blocks; 0 (the default) means one more than
    /// `gc_low_free_blocks`.
    ///
    /// Default: one victim at a time: what is collected ahead is copied before it can turn stale.
    pub gc_high_free_blocks: u32,
    /// Where copied pages go.
    ///
    /// Default: apart, since cold pages gather there; it costs an open block in each plane.
    pub gc_open_block: GcOpenBlock,
    /// When collection looks whether it is due.
    ///
    /// Default: at writes, as only they need free blocks; collecting at reads would delay them.
    pub gc_when: GcWhen,
    /// How fast collection empties a victim.
    ///
    /// With `even`, a plane begins a victim before it is short: while it has at most `gc_low_free_blocks` free blocks
    /// and one for each block that it has open. Each page written there then waits for a share of the victim's copies.
    /// A plane that is short all the same collects as with `block`. As more blocks are kept free, it copies a little more. It needs `map_cache.kind = "ideal"`, and neither
    /// `nvm.kind = "cdm"` nor copies that are sorted by units.
    ///
    /// Default: whole blocks, as in most simulators; reads then wait for whole victims.
    pub gc_pace: GcPace,
    /// The order in which consecutive pages use channel, way, die and plane: the first letter varies fastest.
    ///
    /// Default: channels first, as in MQSim's files: consecutive pages then use all buses.
    pub allocation: AllocationOrder,
    /// Which plane and which open block takes a page.
    #[serde(flatten)]
    pub placement: PlacementChoice,
    /// Keep the last page of each block for a summary, programmed with one sector when the block is full.
    ///
    /// Default: off, since it takes a page of each block; DiskSim's model of drives has it.
    pub summary_page: bool,
    /// How erases are spread.
    #[serde(flatten)]
    pub wear_leveling: WearLevelingChoice,
}

/// Keys of `[ftl]` that serve page mapping alone, beside those that choose a victim policy and a placement.
const KEYS_OF_PAGE_MAPPING: &[&str] =
    &["gc_low_free_blocks", "gc_high_free_blocks", "gc_open_block", "gc_when", "gc_pace", "summary_page"];

/// Whether a key of `[ftl]` means nothing to block-mapped layers: it is about collection, or about where pages go.
pub fn serves_page_mapping(key: &str) -> bool {
    KEYS_OF_PAGE_MAPPING.contains(&key)
        || VictimChoice::fields().contains(&key)
        || PlacementChoice::fields().contains(&key)
}

impl FtlConfig {
    /// Free blocks at which collection of a plane stops.
    pub fn gc_high(&self) -> u32 {
        self.gc_high_free_blocks.max(self.gc_low_free_blocks.saturating_add(1))
    }

    /// Open blocks that data may have in a plane at a time, those for copies included.
    pub fn data_slots(&self) -> u32 {
        let apart = self.gc_open_block == GcOpenBlock::Separate;
        self.placement.host_slots() + self.placement.copy_slots(apart)
    }

    /// Free blocks of a plane up to which a victim is begun ahead of need; `None` where victims are emptied at once.
    ///
    /// Until the victim is empty, each open block may be replaced once. So a steady plane does not become short.
    pub fn gc_ahead(&self) -> Option<u32> {
        let most = self.gc_low_free_blocks.saturating_add(self.data_slots());
        (self.gc_pace == GcPace::Even).then_some(most)
    }

    /// Free blocks that collection brings every plane back to: at most so many are left in a plane that was written for long.
    pub fn kept_free(&self) -> u32 {
        self.gc_ahead().map_or(0, |ahead| ahead.saturating_add(1)).max(self.gc_high())
    }

    /// The key that says how large the logical space is.
    pub(crate) fn size_key(&self) -> &'static str {
        match (self.logical_pages, self.logical_bytes) {
            (Some(_), _) => "ftl.logical_pages",
            (None, Some(_)) => "ftl.logical_bytes",
            (None, None) => "ftl.over_provisioning",
        }
    }

    /// The key that says how many blocks of a plane collection keeps free.
    pub(crate) fn free_blocks_key(&self) -> &'static str {
        if self.gc_high_free_blocks == 0 { "ftl.gc_low_free_blocks" } else { "ftl.gc_high_free_blocks" }
    }

    /// Check its limits, for mapping units of this size.
    ///
    /// # Errors
    /// The first value beyond them.
    pub(crate) fn check(&self, unit_bytes: u64) -> Result<(), ConfigError> {
        let f = self;
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
            && !(spare > 0.0 && spare < TOO_MUCH_SPARE)
        {
            let question = if spare > 0.0 { " (was per cent meant, such as \"7%\"?)" } else { "" };
            let expected = format!(
                "must be above 0 and below {TOO_MUCH_SPARE}: a fraction of the logical size{question}"
            );
            return refuse("ftl.over_provisioning", spare, expected);
        }
        if let Some(bytes) = f.logical_bytes
            && bytes % unit_bytes != 0
        {
            let expected = format!("must be a multiple of the mapping unit, {unit_bytes} bytes");
            return refuse("ftl.logical_bytes", bytes, expected);
        }
        if f.gc_low_free_blocks == 0 {
            return refuse("ftl.gc_low_free_blocks", 0, "must be at least 1: copies need a free block");
        }
        if f.gc_high_free_blocks != 0 && f.gc_high_free_blocks <= f.gc_low_free_blocks {
            let expected = format!("must be above ftl.gc_low_free_blocks ({}), or 0", f.gc_low_free_blocks);
            return refuse("ftl.gc_high_free_blocks", f.gc_high_free_blocks, expected);
        }
        if let WearLevelingChoice::Static(StaticKeys { wear_leveling_threshold: 0 }) = f.wear_leveling {
            return refuse("ftl.wear_leveling_threshold", 0, "must be at least 1");
        }
        f.gc.check()?;
        f.placement.check()
    }
}

impl Default for FtlConfig {
    fn default() -> Self {
        Self {
            kind: FtlChoice::default(),
            over_provisioning: None,
            logical_bytes: None,
            logical_pages: None,
            gc: VictimChoice::default(),
            gc_low_free_blocks: 2,
            gc_high_free_blocks: 0,
            gc_open_block: GcOpenBlock::Separate,
            gc_when: GcWhen::OnWrite,
            gc_pace: GcPace::Block,
            allocation: AllocationOrder::default(),
            placement: PlacementChoice::default(),
            summary_page: false,
            wear_leveling: WearLevelingChoice::default(),
        }
    }
}
