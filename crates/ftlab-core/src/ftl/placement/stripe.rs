//! Pages in turn over the planes, by their addresses or as they come.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::most_free::MostFree;
use super::policy::{OpenSlot, Placement, Setting};
use crate::access::Access;
use crate::error::{ConfigError, refuse};
use crate::flash::nand::NandArray;
use crate::geometry::{BlockId, Geometry, Lpn, PlaneId, Ppn};
use crate::plane_order::PlaneOrder;
use crate::scheme::{Contrast, Scheme};
use crate::tape::{Tape, Taped};

/// Where a page is written, channel > way > die.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Striping {
    /// The logical address decides: reads that were written together are spread as their addresses are. A die whose addresses
    /// are popular has work while others have none.
    Static,
    /// The next in turn: consecutive writes are spread, whatever their addresses. No address keeps a die busy
    /// alone.
    #[default]
    Dynamic,
}

/// Which plane of the chosen die takes a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PlaneChoice {
    /// As `striping` says, by the plane's letter in `allocation`.
    #[default]
    Ordered,
    /// The plane with most free pages, ties in turn, among those whose open block is newer than the block that
    /// holds the page now (the Microsoft extension of DiskSim).
    MostFree,
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StripeKeys {
    /// Whether the address or the turn decides.
    ///
    /// Default: as drives of today do it: no address keeps a die busy alone.
    pub striping: Striping,
    /// Which plane of the chosen die takes a page.
    ///
    /// Default: `allocation` alone decides; the other choice is that of DiskSim's model of drives.
    pub plane_choice: PlaneChoice,
    /// Open blocks for host writes in each plane; a request's stream number, modulo this, chooses.
    ///
    /// Default: one, as most hosts do not name streams.
    pub streams: u32,
}

impl Default for StripeKeys {
    fn default() -> Self {
        Self { striping: Striping::Dynamic, plane_choice: PlaneChoice::Ordered, streams: 1 }
    }
}

impl Scheme for Stripe {
    const SUMMARY: &'static str = "Pages in turn over the planes, by their addresses or as they come.";
    const SOURCE: &'static str =
        "the usual rule; `plane_choice = \"most_free\"` is that of the Microsoft extension of DiskSim";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast { key: "striping", value: "\"static\"", with: &[] },
        Contrast { key: "plane_choice", value: "\"most_free\"", with: &["ftl.gc_open_block=shared"] },
        Contrast { key: "streams", value: "2", with: &[] },
    ];
    type Keys = StripeKeys;
}

/// See the module. Each stream of the host has an open block in each plane.
#[derive(Debug, Clone)]
pub struct Stripe {
    order: PlaneOrder,
    striping: Striping,
    streams: u32,
    copy_slot: OpenSlot,
    /// Base-2 logarithm of the units of a page.
    slot_shift: u32,
    next_turn: u32,
    most_free: Option<MostFree>,
}

impl Placement for Stripe {
    fn new(geometry: &Geometry, keys: &StripeKeys, setting: Setting) -> Self {
        let ordered = keys.plane_choice == PlaneChoice::Ordered;
        Self {
            order: PlaneOrder::new(geometry, setting.allocation, ordered),
            striping: keys.striping,
            streams: keys.streams,
            copy_slot: if setting.copies_apart { keys.streams as usize } else { 0 },
            slot_shift: geometry.slots_per_page.trailing_zeros(),
            next_turn: 0,
            most_free: (!ordered).then(|| MostFree::new(geometry)),
        }
    }

    fn check_keys(keys: &StripeKeys) -> Result<(), ConfigError> {
        if keys.streams == 0 || keys.streams > 64 {
            return refuse("streams", keys.streams, "must be from 1 to 64");
        }
        Ok(())
    }

    fn host_slots(keys: &StripeKeys) -> u32 {
        keys.streams
    }

    fn goes_by_address(keys: &StripeKeys) -> bool {
        keys.striping == Striping::Static && keys.streams == 1
    }

    fn goes_by_turn(keys: &StripeKeys) -> bool {
        keys.striping == Striping::Dynamic
    }

    fn fills_in_turn(keys: &StripeKeys) -> bool {
        keys.plane_choice == PlaneChoice::Ordered
    }

    fn compares_planes(keys: &StripeKeys) -> bool {
        keys.plane_choice == PlaneChoice::MostFree
    }

    fn slots(&self) -> usize {
        self.copy_slot.max(self.streams as usize - 1) + 1
    }

    fn is_for_host(&self, slot: OpenSlot) -> bool {
        slot < self.streams as usize
    }

    #[inline(always)]
    fn copy_slot(&self) -> OpenSlot {
        self.copy_slot
    }

    #[inline(always)]
    fn order(&self) -> &PlaneOrder {
        &self.order
    }

    #[inline(always)]
    fn host(&mut self, access: &Access<'_>, _: impl Fn(Lpn) -> Option<Ppn>) -> (u32, OpenSlot) {
        let slot = if self.streams == 1 { 0 } else { usize::from(access.stream) % self.streams as usize };
        let turn = match self.striping {
            Striping::Static => access.lpn.0 >> self.slot_shift,
            Striping::Dynamic => self.next_turn,
        };
        (turn, slot)
    }

    fn may_go_on(&self) -> bool {
        self.striping == Striping::Dynamic
    }

    #[inline(always)]
    fn plane(&mut self, nand: &NandArray, plane: PlaneId, current: impl FnOnce() -> Option<Ppn>) -> PlaneId {
        match &mut self.most_free {
            None => plane,
            Some(most_free) => most_free.choose(nand, plane, current()),
        }
    }

    #[inline(always)]
    fn placed(&mut self, _: OpenSlot, turn: u32) {
        if self.striping == Striping::Dynamic {
            self.next_turn = if turn + 1 == self.order.len() { 0 } else { turn + 1 };
        }
    }

    fn opened(&mut self, nand: &NandArray, plane: PlaneId, _: OpenSlot, block: BlockId) {
        if let Some(most_free) = &mut self.most_free {
            most_free.opened(nand, plane, block);
        }
    }

    fn found(&mut self, nand: &NandArray, plane: PlaneId, block: Option<BlockId>, free: u32) {
        if let Some(most_free) = &mut self.most_free {
            most_free.found(nand, plane, block, free);
        }
    }

    #[inline(always)]
    fn pages_taken(&mut self, nand: &NandArray, plane: PlaneId, free: u32) {
        if let Some(most_free) = &mut self.most_free {
            most_free.update_free_pages(nand, plane, free);
        }
    }

    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { next_turn, most_free, order: _, striping: _, streams: _, copy_slot: _, slot_shift: _ } =
            self;
        next_turn.tape(tape)?;
        most_free.as_mut().map_or(Ok(()), |most_free| most_free.tape(tape))
    }
}
