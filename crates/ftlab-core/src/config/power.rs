//! `[power]`: what the drive promises for the moment when the power is cut.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What of a write is there as a whole after a power cut, or not at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Atomic {
    /// Each mapping unit: of a request that was under way, some units may be new and others old.
    #[default]
    Unit,
    /// The whole request. Its old data are kept until its last page has been written, which takes spare space.
    Request,
}

/// From when on what was trimmed cannot come back after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DurableTrims {
    /// Never: trims are in memory only.
    #[default]
    Volatile,
    /// From the next flush on, which writes them into a journal in flash.
    Flush,
}

/// What the drive promises for the moment when the power is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PowerConfig {
    /// What of a write is there as a whole after a power cut, or not at all.
    ///
    /// Default: NVMe asks for no more than a logical block; whole requests take spare space.
    pub atomic: Atomic,
    /// From when on what was trimmed cannot come back after a power cut.
    ///
    /// Default: off, since the journal costs programs at each flush.
    pub trim: DurableTrims,
    /// Whether a capacitor saves what is in the write buffer when the power is cut.
    ///
    /// Default: off, as in drives of personal computers; acknowledged writes may be lost until a flush.
    pub capacitor: bool,
}

/// Words at the front of a journal page that say what it is.
pub(crate) const JOURNAL_HEADER_WORDS: u64 = 5;

/// The journal of trims: two areas of equal size, one of which is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JournalShape {
    /// Pages that say of every logical unit whether it holds anything.
    pub(crate) snapshot_pages: u64,
    /// Blocks of an area.
    pub(crate) area_blocks: u64,
}

impl JournalShape {
    /// For pages of `page_bytes`, of which a block has `usable_pages` that no later program endangers. An area holds two
    /// snapshots: one, and as many pages of single trims.
    pub(crate) fn new(logical_units: u64, page_bytes: u64, usable_pages: u64) -> Self {
        let words = page_bytes / 4 - JOURNAL_HEADER_WORDS;
        let snapshot_pages = logical_units.div_ceil(32).div_ceil(words).max(1);
        Self { snapshot_pages, area_blocks: (2 * snapshot_pages).div_ceil(usable_pages) }
    }
}

impl JournalShape {
    /// Most commands of one writing: a page of single trims that may not be the last, a snapshot, and the erase of an area.
    pub(crate) fn most_commands(self) -> u64 {
        2 + self.snapshot_pages + self.area_blocks
    }
}

impl PowerConfig {
    /// Whether trims are written to flash: because a flush promises them, or because requests could not be told from torn ones
    /// otherwise.
    pub fn has_journal(self) -> bool {
        self.trim == DurableTrims::Flush || self.atomic == Atomic::Request
    }
}
