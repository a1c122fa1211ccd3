//! Request striping: small requests go to the blocks of a group in turn, so that those that meet in a word line are far apart.
//!
//! Between two requests that meet in a block of the group, as many others come as it has blocks. If one of them rewrites what
//! stands in the LSB pages, these need no backup when their MSB pages are programmed. Large requests, which are rewritten
//! less, have a block of their own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policy::{OpenSlot, Placement, Setting};
use crate::access::Access;
use crate::error::{ConfigError, refuse};
use crate::flash::nand::NandArray;
use crate::geometry::{BlockId, Geometry, Lpn, PlaneId, Ppn};
use crate::plane_order::PlaneOrder;
use crate::quantity;
use crate::scheme::{Contrast, Scheme};
use crate::tape::{Tape, Taped};

/// Its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RsftlKeys {
    /// Blocks of the group in each plane. Each is an open block.
    ///
    /// Default: few, since each block of the group takes spare space; the paper has up to 128.
    pub group_blocks: u32,
    /// Requests up to this size go to the group, larger ones to a block of their own. Each mapping unit that a request touches
    /// counts in full.
    ///
    /// Default: the best threshold of the paper.
    #[serde(deserialize_with = "quantity::bytes")]
    pub small_request_bytes: u64,
}

impl Default for RsftlKeys {
    fn default() -> Self {
        Self { group_blocks: 4, small_request_bytes: 8192 }
    }
}

impl Scheme for Rsftl {
    const SUMMARY: &'static str =
        "Small requests whole to the blocks of a group in turn, large ones to a block of their own.";
    const SOURCE: &'static str = "RSFTL (Hwang, Shin)";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast { key: "group_blocks", value: "2", with: &["ftl.over_provisioning=1.0"] },
        Contrast { key: "small_request_bytes", value: "16384", with: &["ftl.over_provisioning=1.0"] },
    ];
    type Keys = RsftlKeys;
}

/// See the module. Each plane has the open blocks of its part of the group, and one for large requests behind them.
#[derive(Debug, Clone)]
pub struct Rsftl {
    order: PlaneOrder,
    group_blocks: u32,
    /// Units of the largest small request.
    small_units: u64,
    copy_slot: OpenSlot,
    /// The request that is being written.
    request: Option<u32>,
    /// Turn and slot of the last small request.
    turn: u32,
    slot: u32,
    /// The turn of the next page of a large request.
    large_turn: u32,
}

impl Placement for Rsftl {
    fn new(geometry: &Geometry, keys: &RsftlKeys, setting: Setting) -> Self {
        let order = PlaneOrder::new(geometry, setting.allocation, true);
        Self {
            group_blocks: keys.group_blocks,
            small_units: keys.small_request_bytes / u64::from(geometry.unit_bytes),
            copy_slot: if setting.copies_apart { keys.group_blocks as usize + 1 } else { 0 },
            request: None,
            // The first small request moves on to the first block of the first plane.
            turn: order.len() - 1,
            slot: keys.group_blocks - 1,
            large_turn: 0,
            order,
        }
    }

    fn check_keys(keys: &RsftlKeys) -> Result<(), ConfigError> {
        if keys.group_blocks == 0 || keys.group_blocks > 4096 {
            return refuse("group_blocks", keys.group_blocks, "must be from 1 to 4096");
        }
        Ok(())
    }

    fn host_slots(keys: &RsftlKeys) -> u32 {
        keys.group_blocks + 1
    }

    fn goes_by_turn(_: &RsftlKeys) -> bool {
        true
    }

    fn slots(&self) -> usize {
        self.copy_slot.max(self.group_blocks as usize) + 1
    }

    fn is_for_host(&self, slot: OpenSlot) -> bool {
        slot <= self.group_blocks as usize
    }

    #[inline(always)]
    fn copy_slot(&self) -> OpenSlot {
        self.copy_slot
    }

    #[inline(always)]
    fn order(&self) -> &PlaneOrder {
        &self.order
    }

    #[inline(never)]
    fn host(&mut self, access: &Access<'_>, _: impl Fn(Lpn) -> Option<Ppn>) -> (u32, OpenSlot) {
        let request = Some(access.group.id);
        let is_new = std::mem::replace(&mut self.request, request) != request;
        if u64::from(access.group.units) > self.small_units {
            return (self.large_turn, self.group_blocks as usize);
        }
        if is_new {
            // Planes take turns first, then the blocks of the group.
            self.turn += 1;
            if self.turn == self.order.len() {
                self.turn = 0;
                self.slot = if self.slot + 1 == self.group_blocks { 0 } else { self.slot + 1 };
            }
        }
        (self.turn, self.slot as usize)
    }

    fn may_go_on(&self) -> bool {
        true
    }

    #[inline(always)]
    fn plane(&mut self, _: &NandArray, plane: PlaneId, _: impl FnOnce() -> Option<Ppn>) -> PlaneId {
        plane
    }

    fn placed(&mut self, slot: OpenSlot, turn: u32) {
        if slot == self.group_blocks as usize {
            self.large_turn = if turn + 1 == self.order.len() { 0 } else { turn + 1 };
        }
    }

    fn opened(&mut self, _: &NandArray, _: PlaneId, _: OpenSlot, _: BlockId) {}

    fn found(&mut self, _: &NandArray, _: PlaneId, _: Option<BlockId>, _: u32) {}

    fn pages_taken(&mut self, _: &NandArray, _: PlaneId, _: u32) {}

    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { request, turn, slot, large_turn, order: _, group_blocks: _, small_units: _, copy_slot: _ } =
            self;
        request.tape(tape)?;
        turn.tape(tape)?;
        slot.tape(tape)?;
        large_turn.tape(tape)
    }
}
