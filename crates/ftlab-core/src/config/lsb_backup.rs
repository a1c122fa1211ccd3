//! `[lsb_backup]`: what saves data from a torn program of their word line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::flash::cell::CellKind;
use crate::scheme::{NoKeys, axis};

axis! {
    /// What is done before a program that endangers earlier pages of its word line.
    ///
    /// Default: off, since it costs a read and a program for each page that is saved.
    "kind" in "lsb_backup": LsbBackup, LsbBackupChoice {
        /// Nothing: an interrupted program takes the earlier pages of its word line with it.
        "none" None(NoKeys);
        /// They are copied into backup blocks first, unless nothing of them could be missed.
        "copy" Copy(CopyKeys), "RSFTL (Hwang, Shin), section 2; the exact rule is that of the notes";
    }
}

/// When what was overwritten is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InvalidateAt {
    /// When the whole request that overwrites it has been written: until then it is the only version that was promised.
    #[default]
    Commit,
    /// When the page that takes its place is issued: that program needs no backup of it. Cheaper, and unsafe: a power cut shows it.
    Page,
}

/// What holds the backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackupArea {
    /// All pages of its blocks.
    #[default]
    Pairs,
    /// The LSB pages of its blocks only, which no later program endangers.
    Slc,
}

/// Keys of `copy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CopyKeys {
    /// Whether the page is read over the bus before it is copied. Without it, the drive still has its data in memory.
    ///
    /// Default: on, as only with the read is the gain that the paper reports possible.
    pub read: bool,
    /// When what was overwritten is stale, and needs no backup.
    ///
    /// Default: the safe reading: until the request is whole, its old data are all that was promised.
    pub invalidate_at: InvalidateAt,
    /// Which pages of the backup blocks are used.
    ///
    /// Default: all pages, as in the paper; LSB pages alone hold half as much.
    pub area: BackupArea,
    /// Whether pages that the same request has written need no backup: torn, the request was never completed.
    ///
    /// Default: as in the paper: a request that was interrupted is thrown away and issued again.
    pub exempt_same_request: bool,
}

impl Default for CopyKeys {
    fn default() -> Self {
        Self {
            read: true,
            invalidate_at: InvalidateAt::Commit,
            area: BackupArea::Pairs,
            exempt_same_request: true,
        }
    }
}

/// What saves data from a torn program of their word line.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LsbBackupConfig {
    /// What is done before a program that endangers earlier pages of its word line.
    #[serde(flatten)]
    pub kind: LsbBackupChoice,
}

impl LsbBackupConfig {
    /// The keys of copies into backup blocks, if there are any.
    pub fn copies(&self) -> Option<CopyKeys> {
        match self.kind {
            LsbBackupChoice::None(_) => None,
            LsbBackupChoice::Copy(keys) => Some(keys),
        }
    }

    /// Blocks of each plane that hold backups: a pair for each lane, one in each of its planes if it has several.
    pub(crate) fn blocks_per_plane(&self, planes_per_lane: u32) -> u32 {
        match (self.copies(), planes_per_lane) {
            (None, _) => 0,
            (Some(_), 1) => 2,
            (Some(_), _) => 1,
        }
    }

    /// Check its limits, for blocks of this many pages.
    ///
    /// # Errors
    /// Cells that need no backup, and blocks too small for the backups of a word line.
    pub(crate) fn check(&self, cell: CellKind, pages_per_block: u32) -> Result<(), ConfigError> {
        let Some(_) = self.copies() else { return Ok(()) };
        if cell == CellKind::Slc {
            let expected = "has nothing to save on cells of one bit: choose lsb_backup.kind = \"none\", or cell.kind = \"mlc\"";
            return refuse("lsb_backup.kind", "\"copy\"", expected);
        }
        let least = 4 * cell.bits();
        if pages_per_block < least {
            let expected = format!(
                "needs blocks of at least {least} pages: geometry.pages_per_block is {pages_per_block}"
            );
            return refuse("lsb_backup.kind", "\"copy\"", expected);
        }
        Ok(())
    }
}
