//! Chunks of pages in turn over the planes: what is written together lies in few planes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::policy::{OpenSlot, Placement, Setting};
use crate::access::Access;
use crate::error::{ConfigError, refuse};
use crate::flash::nand::NandArray;
use crate::geometry::{BlockId, Geometry, Lpn, PlaneId, Ppn};
use crate::plane_order::PlaneOrder;
use crate::scheme::{Contrast, Scheme};

/// A plane takes a number of pages, then the next one does.
#[derive(Debug, Clone)]
pub struct Chunked {
    order: PlaneOrder,
    copies_apart: bool,
    chunk_pages: u32,
    turn: u32,
    /// Pages that the plane whose turn it is still takes.
    left: u32,
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChunkedKeys {
    /// Pages that a plane takes in its turn.
    pub chunk_pages: u32,
}

impl Default for ChunkedKeys {
    fn default() -> Self {
        Self { chunk_pages: 4 }
    }
}

impl Scheme for Chunked {
    const SUMMARY: &'static str = "`chunk_pages` pages go to a plane before the next one has its turn.";
    const SOURCE: &'static str = "an example";
    const CONTRASTS: &'static [Contrast] = &[Contrast { key: "chunk_pages", value: "1", with: &[] }];
    type Keys = ChunkedKeys;
}

impl Placement for Chunked {
    fn new(geometry: &Geometry, keys: &ChunkedKeys, setting: Setting) -> Self {
        Self {
            order: PlaneOrder::new(geometry, setting.allocation, true),
            copies_apart: setting.copies_apart,
            chunk_pages: keys.chunk_pages,
            turn: 0,
            left: keys.chunk_pages,
        }
    }

    fn check_keys(keys: &ChunkedKeys) -> Result<(), ConfigError> {
        if keys.chunk_pages == 0 {
            return refuse("chunk_pages", 0, "must be at least 1");
        }
        Ok(())
    }

    fn host_slots(_: &ChunkedKeys) -> u32 {
        1
    }

    fn goes_by_turn(_: &ChunkedKeys) -> bool {
        true
    }

    fn slots(&self) -> usize {
        1 + usize::from(self.copies_apart)
    }

    fn is_for_host(&self, slot: OpenSlot) -> bool {
        slot == 0
    }

    fn copy_slot(&self) -> OpenSlot {
        usize::from(self.copies_apart)
    }

    fn order(&self) -> &PlaneOrder {
        &self.order
    }

    fn host(&mut self, _: &Access<'_>, _: impl Fn(Lpn) -> Option<Ppn>) -> (u32, OpenSlot) {
        (self.turn, 0)
    }

    fn may_go_on(&self) -> bool {
        true
    }

    fn plane(&mut self, _: &NandArray, plane: PlaneId, _: impl FnOnce() -> Option<Ppn>) -> PlaneId {
        plane
    }

    fn placed(&mut self, _: OpenSlot, turn: u32) {
        if turn != self.turn {
            // The plane whose turn it was could not take the page.
            (self.turn, self.left) = (turn, self.chunk_pages);
        }
        self.left -= 1;
        if self.left == 0 {
            self.turn = if turn + 1 == self.order.len() { 0 } else { turn + 1 };
            self.left = self.chunk_pages;
        }
    }

    fn opened(&mut self, _: &NandArray, _: PlaneId, _: OpenSlot, _: BlockId) {}

    fn found(&mut self, _: &NandArray, _: PlaneId, _: Option<BlockId>, _: u32) {}

    fn pages_taken(&mut self, _: &NandArray, _: PlaneId, _: u32) {}
}
