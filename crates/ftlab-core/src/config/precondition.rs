//! `[precondition]`: the state of the drive before the measured run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::quantity;
use crate::scheme::{NoKeys, axis};

axis! {
    /// State of the drive before the measured run.
    ///
    /// Default: none, since ageing may take longer than the run; the warning `not_steady` says what is missing.
    "kind" in "precondition": PreconditionKind, PreconditionChoice {
        /// Nothing: fresh from the factory.
        "none" None(NoKeys);
        /// Every logical page was written once, in order.
        "fill" Fill(FillKeys);
        /// `fill`, then `pattern` writes until no plane has more than `free_blocks` free blocks.
        "free_blocks" FreeBlocks(FreeBlocksKeys);
        /// `fill`, then `pattern` writes until write amplification is steady.
        "steady" Steady(SteadyKeys);
    }
}

/// Keys of `fill`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FillKeys {
    /// How `fill` lays pages out.
    ///
    /// Default: as a host fills a drive; the other layout is DiskSim's.
    pub layout: FillLayout,
}

/// Keys of `free_blocks`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FreeBlocksKeys {
    /// How `fill` lays pages out.
    ///
    /// Default: as a host fills a drive; the other layout is DiskSim's.
    pub layout: FillLayout,
    /// Which writes age the drive.
    ///
    /// Default: random writes leave stale pages in every block, whatever the workload is.
    pub pattern: PreconditionPattern,
    /// Free blocks a plane to go down to. 0, the default: as many as collection leaves, which is also the least
    /// (`ftl.gc_high_free_blocks`).
    ///
    /// Default: as far down as it goes, so that the first write of the run may have to collect.
    pub free_blocks: u32,
    /// Give up after writing the logical capacity this many times; the summary says so. With `pattern = "workload"` also
    /// after reading as many requests, or a hundred millions if that is more. A workload that writes too little for that is
    /// refused after its first pass.
    ///
    /// Default: far more than drives need, so that only those that never settle are given up.
    pub max_drive_writes: f64,
}

impl Default for FreeBlocksKeys {
    fn default() -> Self {
        Self {
            layout: FillLayout::Written,
            pattern: PreconditionPattern::Uniform,
            free_blocks: 0,
            max_drive_writes: MAX_DRIVE_WRITES,
        }
    }
}

/// Keys of `steady`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SteadyKeys {
    /// How `fill` lays pages out.
    ///
    /// Default: as a host fills a drive; the other layout is DiskSim's.
    pub layout: FillLayout,
    /// Which writes age the drive.
    ///
    /// Default: random writes leave stale pages in every block, whatever the workload is.
    pub pattern: PreconditionPattern,
    /// Write amplification is steady when its mean over the last two windows differs from that of the two before by at
    /// most this share. Each window is one logical capacity of writes.
    ///
    /// Default: 0.2 %, less than the policies that one compares differ by.
    #[serde(deserialize_with = "quantity::share")]
    pub tolerance: f64,
    /// Give up after writing the logical capacity this many times; the summary says so. With `pattern = "workload"` also
    /// after reading as many requests, or a hundred millions if that is more. A workload that writes too little for that is
    /// refused after its first pass.
    ///
    /// Default: far more than drives need, so that only those that never settle are given up.
    pub max_drive_writes: f64,
}

impl Default for SteadyKeys {
    fn default() -> Self {
        Self {
            layout: FillLayout::Written,
            pattern: PreconditionPattern::Uniform,
            tolerance: 0.002,
            max_drive_writes: MAX_DRIVE_WRITES,
        }
    }
}

const MAX_DRIVE_WRITES: f64 = 50.0;

/// How `fill` lays pages out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FillLayout {
    /// As the translation layer places sequential writes.
    #[default]
    Written,
    /// Block after block: consecutive pages of a die fill a whole block, then one in the next plane (DiskSim). Where each
    /// plane has addresses of its own, consecutive pages of a plane do.
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

/// State of the drive before the measured run. None of it takes simulated time or is measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PreconditionConfig {
    /// What the drive has lived through.
    #[serde(flatten)]
    pub kind: PreconditionChoice,
}

/// What writes after the fill are for, and when they end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aging {
    /// Which writes.
    pub pattern: PreconditionPattern,
    /// Write the logical capacity at most this many times.
    pub max_drive_writes: f64,
    /// When it is enough.
    pub until: AgedWhen,
}

/// When a drive has aged enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AgedWhen {
    /// No plane has more than this many free blocks; 0: as many as collection leaves.
    FreeBlocks(u32),
    /// Write amplification changes by at most this share from one pair of windows to the next.
    Steady(f64),
}

impl PreconditionConfig {
    /// How the drive is filled; `None` when it is fresh from the factory.
    pub fn layout(&self) -> Option<FillLayout> {
        match &self.kind {
            PreconditionChoice::None(_) => None,
            PreconditionChoice::Fill(keys) => Some(keys.layout),
            PreconditionChoice::FreeBlocks(keys) => Some(keys.layout),
            PreconditionChoice::Steady(keys) => Some(keys.layout),
        }
    }

    /// What is written after the fill.
    pub fn aging(&self) -> Option<Aging> {
        match &self.kind {
            PreconditionChoice::None(_) | PreconditionChoice::Fill(_) => None,
            PreconditionChoice::FreeBlocks(keys) => Some(Aging {
                pattern: keys.pattern,
                max_drive_writes: keys.max_drive_writes,
                until: AgedWhen::FreeBlocks(keys.free_blocks),
            }),
            PreconditionChoice::Steady(keys) => Some(Aging {
                pattern: keys.pattern,
                max_drive_writes: keys.max_drive_writes,
                until: AgedWhen::Steady(keys.tolerance),
            }),
        }
    }

    /// Check its limits: collection leaves `least` free blocks, and `plain` drives have one stream of whole pages.
    ///
    /// # Errors
    /// The first value beyond them.
    pub(crate) fn check(&self, least: u32, plain: bool) -> Result<(), ConfigError> {
        if let Some(aging) = self.aging() {
            if !(aging.max_drive_writes > 0.0 && aging.max_drive_writes <= 1e6) {
                return refuse(
                    "precondition.max_drive_writes",
                    aging.max_drive_writes,
                    "must be above 0 and at most 1e6",
                );
            }
            match aging.until {
                AgedWhen::Steady(tolerance) if !(tolerance > 0.0 && tolerance < 1.0) => {
                    return refuse("precondition.tolerance", tolerance, "must be between 0 and 1");
                }
                AgedWhen::FreeBlocks(blocks) if blocks != 0 && blocks < least => {
                    let expected = format!(
                        "must be at least {least}, or 0: collection brings every plane back to that (ftl.gc_high_free_blocks, ftl.gc_pace)"
                    );
                    return refuse("precondition.free_blocks", blocks, expected);
                }
                _ => {}
            }
        }
        if self.layout() == Some(FillLayout::Blocks) && !plain {
            let expected = "lays out one stream of whole pages: needs ftl.placement = \"stripe\", ftl.streams = 1 and no smaller mapping unit";
            return refuse("precondition.layout", "\"blocks\"", expected);
        }
        Ok(())
    }
}
