//! SubGroup: BAST over clusters of some memories.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::ftl::hybrid::exclusive::{Exclusive, PartialRow, WithExclusiveLogs, clustered};
use crate::ftl::hybrid::scheme::Layout;
use crate::scheme::{Contrast, Scheme};

/// Keys of SubGroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SubgroupKeys {
    /// Memories of a cluster; they must divide those of the drive. 1 is BAST, all of them are MCsplit.
    ///
    /// Default: BAST itself, which is what larger clusters are compared with.
    pub cluster_memories: u32,
    /// Log blocks of the drive, in blocks of one memory; 0 (the default): as many as over-provisioning leaves. Where memories
    /// or clusters share them, they are rounded to what divides evenly: `merges.log_blocks` says how many there are.
    ///
    /// Default: spare blocks serve nothing else in a block-mapped layer.
    pub log_blocks: u32,
    /// What is done with the rest of a row that is written in part.
    ///
    /// Default: rows are read and written as a whole, as clustered pages are in the paper on MCsplit.
    pub partial_row: PartialRow,
}

impl Default for SubgroupKeys {
    fn default() -> Self {
        Self { cluster_memories: 1, log_blocks: 0, partial_row: PartialRow::default() }
    }
}

/// Memories form clusters of `cluster_memories`, and the blocks of each a clustered block. A logical block is as large, and
/// its pages go round the memories of its cluster.
#[derive(Debug, Clone, Copy)]
pub struct SomeMemories;

/// SubGroup.
pub type Subgroup = WithExclusiveLogs<SomeMemories>;

impl Scheme for SomeMemories {
    const SUMMARY: &'static str =
        "BAST over clustered blocks: pages of a logical block go round the memories of a cluster.";
    const SOURCE: &'static str = "as compared with in S. K. Park, Y. Park, G. Shim and K. H. Park, SAC 2011";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast {
            key: "cluster_memories",
            value: "2",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
        Contrast {
            key: "log_blocks",
            value: "2",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
        Contrast {
            key: "partial_row",
            value: "\"fill\"",
            with: &[
                "geometry.mapping_unit_bytes=8192",
                "ftl.wear_leveling=\"none\"",
                "ftl.cluster_memories=2",
            ],
        },
    ];
    type Keys = SubgroupKeys;
}

impl Exclusive for SomeMemories {
    fn check_keys(keys: &SubgroupKeys) -> Result<(), ConfigError> {
        match keys.cluster_memories {
            0 => refuse("cluster_memories", 0, "must be at least 1"),
            _ => Ok(()),
        }
    }

    fn layout(keys: &SubgroupKeys, _: u32) -> Layout {
        clustered(keys.cluster_memories, keys.log_blocks, keys.partial_row)
    }

    fn partial_row(keys: &SubgroupKeys) -> PartialRow {
        keys.partial_row
    }
}
