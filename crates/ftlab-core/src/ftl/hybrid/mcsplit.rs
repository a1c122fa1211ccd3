//! MCsplit: BAST over all memories at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ftl::hybrid::exclusive::{Exclusive, PartialRow, WithExclusiveLogs, clustered};
use crate::ftl::hybrid::scheme::Layout;
use crate::scheme::{Contrast, Scheme};

/// Keys of MCsplit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct McsplitKeys {
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

/// A clustered block has a block of every memory. A logical block is as large, and its pages go round the memories. So one
/// sequential write uses all of them, and a merge moves that much.
#[derive(Debug, Clone, Copy)]
pub struct AllMemories;

/// MCsplit.
pub type Mcsplit = WithExclusiveLogs<AllMemories>;

impl Scheme for AllMemories {
    const SUMMARY: &'static str = "BAST over clustered blocks that reach over all memories.";
    const SOURCE: &'static str = "as compared with in S. K. Park, Y. Park, G. Shim and K. H. Park, SAC 2011";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast {
            key: "log_blocks",
            value: "2",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
        Contrast {
            key: "partial_row",
            value: "\"fill\"",
            with: &["geometry.mapping_unit_bytes=8192", "ftl.wear_leveling=\"none\""],
        },
    ];
    type Keys = McsplitKeys;
}

impl Exclusive for AllMemories {
    fn layout(keys: &McsplitKeys, memories: u32) -> Layout {
        clustered(memories, keys.log_blocks, keys.partial_row)
    }

    fn partial_row(keys: &McsplitKeys) -> PartialRow {
        keys.partial_row
    }
}
