//! BAST: log blocks, each for one logical block.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ftl::hybrid::exclusive::{Exclusive, PartialRow, WithExclusiveLogs};
use crate::ftl::hybrid::scheme::{Homes, Layout};
use crate::scheme::{Contrast, Scheme};

/// Where a logical block that is written for the first time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Allocator {
    /// To the memory that its number says: neighbours use different channels first.
    #[default]
    Static,
    /// To the memory with the fewest logical blocks.
    Dynamic,
}

impl Allocator {
    pub(super) const fn homes(self) -> Homes {
        match self {
            Allocator::Static => Homes::Static,
            Allocator::Dynamic => Homes::Dynamic,
        }
    }
}

/// Keys of BAST.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BastKeys {
    /// Log blocks of the drive, in blocks of one memory; 0 (the default): as many as over-provisioning leaves. Where memories
    /// or clusters share them, they are rounded to what divides evenly: `merges.log_blocks` says how many there are.
    ///
    /// Default: spare blocks serve nothing else in a block-mapped layer.
    pub log_blocks: u32,
    /// Which memory takes a logical block.
    ///
    /// Default: neighbouring logical blocks use different channels, and no table is needed.
    pub allocator: Allocator,
    /// Write to log blocks even where the data block has room, as FlashSim does.
    ///
    /// Default: off, as in the paper on BAST, which fills data blocks first.
    pub log_always: bool,
}

/// The rule of BAST: a log block is a block of one memory.
#[derive(Debug, Clone, Copy)]
pub struct OneMemory;

/// BAST.
pub type Bast = WithExclusiveLogs<OneMemory>;

impl Scheme for OneMemory {
    const SUMMARY: &'static str = "Block mapping with log blocks of one logical block each.";
    const SOURCE: &'static str = "J. Kim, J. M. Kim, S. H. Noh, S. L. Min and Y. Cho, IEEE TCE 48(2), 2002";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast {
            key: "log_blocks",
            value: "2",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
        Contrast {
            key: "allocator",
            value: "\"dynamic\"",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
        Contrast {
            key: "log_always",
            value: "true",
            with: &[
                "geometry.mapping_unit_bytes=8192",
                "ftl.wear_leveling=\"none\"",
                "precondition.kind=\"none\"",
            ],
        },
    ];
    type Keys = BastKeys;
}

impl Exclusive for OneMemory {
    fn layout(keys: &BastKeys, _: u32) -> Layout {
        Layout {
            width: 1,
            log_units: keys.log_blocks,
            has_logs_in_each: false,
            least_logs: 1,
            shares_logs: false,
            homes: keys.allocator.homes(),
            pages_move: false,
        }
    }

    fn partial_row(_: &BastKeys) -> PartialRow {
        PartialRow::Fill
    }

    fn log_always(keys: &BastKeys) -> bool {
        keys.log_always
    }
}
