//! Placement: which plane and which open block takes a page.
//!
//! A placement is one file with one type that implements [`Placement`] and [`Scheme`], and one line in the list at the end of
//! this file. From that line come its module, its name and keys in device files, its row in `ftlab schemes`, and its place in
//! every test that loops over the list.

use crate::access::Access;
use crate::error::ConfigError;
use crate::flash::nand::NandArray;
use crate::ftl::placement::policy::{OpenSlot, Placement, Setting};
use crate::geometry::{BlockId, Geometry, Lpn, PlaneId, Ppn};
use crate::plane_order::PlaneOrder;
use crate::scheme::{Scheme, axis};
use crate::tape::Tape;

mod most_free;
pub mod policy;

macro_rules! placements {
    ($($file:ident :: $kind:ident;)+) => {
        $(pub mod $file;)+

        axis! { @
            ["Which plane and which open block takes a page that is written. Default: in turn, the plainest way to keep all dies busy."]
            "placement" in "ftl": PlacementKind, PlacementChoice {
                $(["See the file of this name."] stringify!($file), $kind(<$file::$kind as Scheme>::Keys),
                    $file::$kind::SUMMARY, $file::$kind::SOURCE, $file::$kind::CONTRASTS;)+
            }
        }

        /// The placement that a device file names: chosen once, at the edge.
        #[derive(Debug, Clone)]
        pub enum Placements {
            $(#[doc = "See the file of this name."] $kind($file::$kind),)+
        }

        impl Scheme for Placements {
            const SUMMARY: &'static str = "The placement that a device file names.";
            const SOURCE: &'static str = "";
            type Keys = PlacementChoice;
        }

        impl Placement for Placements {
            fn new(geometry: &Geometry, keys: &PlacementChoice, setting: Setting) -> Self {
                match keys {
                    $(PlacementChoice::$kind(keys) => {
                        Placements::$kind($file::$kind::new(geometry, keys, setting))
                    })+
                }
            }
            fn check_keys(keys: &PlacementChoice) -> Result<(), ConfigError> {
                match keys { $(PlacementChoice::$kind(keys) => $file::$kind::check_keys(keys),)+ }
            }
            fn host_slots(keys: &PlacementChoice) -> u32 {
                match keys { $(PlacementChoice::$kind(keys) => $file::$kind::host_slots(keys),)+ }
            }
            fn copy_slots(keys: &PlacementChoice, apart: bool) -> u32 {
                match keys { $(PlacementChoice::$kind(keys) => $file::$kind::copy_slots(keys, apart),)+ }
            }
            fn sorts_copies(keys: &PlacementChoice) -> bool {
                match keys { $(PlacementChoice::$kind(keys) => $file::$kind::sorts_copies(keys),)+ }
            }
            fn table_bytes(keys: &PlacementChoice, units: u64, blocks: u64) -> u64 {
                match keys { $(PlacementChoice::$kind(keys) => $file::$kind::table_bytes(keys, units, blocks),)+ }
            }
            fn goes_by_address(keys: &PlacementChoice) -> bool {
                match keys { $(PlacementChoice::$kind(keys) => $file::$kind::goes_by_address(keys),)+ }
            }
            fn goes_by_turn(keys: &PlacementChoice) -> bool {
                match keys { $(PlacementChoice::$kind(keys) => $file::$kind::goes_by_turn(keys),)+ }
            }
            fn fills_in_turn(keys: &PlacementChoice) -> bool {
                match keys { $(PlacementChoice::$kind(keys) => $file::$kind::fills_in_turn(keys),)+ }
            }
            fn compares_planes(keys: &PlacementChoice) -> bool {
                match keys { $(PlacementChoice::$kind(keys) => $file::$kind::compares_planes(keys),)+ }
            }
            fn slots(&self) -> usize {
                match self { $(Placements::$kind(placement) => placement.slots(),)+ }
            }
            fn is_for_host(&self, slot: OpenSlot) -> bool {
                match self { $(Placements::$kind(placement) => placement.is_for_host(slot),)+ }
            }
            #[inline(always)]
            fn copy_slot(&self) -> OpenSlot {
                match self { $(Placements::$kind(placement) => placement.copy_slot(),)+ }
            }
            #[inline(always)]
            fn order(&self) -> &PlaneOrder {
                match self { $(Placements::$kind(placement) => placement.order(),)+ }
            }
            #[inline(always)]
            fn host(&mut self, access: &Access<'_>, current: impl Fn(Lpn) -> Option<Ppn>) -> (u32, OpenSlot) {
                match self { $(Placements::$kind(placement) => placement.host(access, current),)+ }
            }
            fn may_go_on(&self) -> bool {
                match self { $(Placements::$kind(placement) => placement.may_go_on(),)+ }
            }
            #[inline(always)]
            fn plane(
                &mut self,
                nand: &NandArray,
                plane: PlaneId,
                current: impl FnOnce() -> Option<Ppn>,
            ) -> PlaneId {
                match self { $(Placements::$kind(placement) => placement.plane(nand, plane, current),)+ }
            }
            #[inline(always)]
            fn placed(&mut self, slot: OpenSlot, turn: u32) {
                match self { $(Placements::$kind(placement) => placement.placed(slot, turn),)+ }
            }
            fn opened(&mut self, nand: &NandArray, plane: PlaneId, slot: OpenSlot, block: BlockId) {
                match self { $(Placements::$kind(placement) => placement.opened(nand, plane, slot, block),)+ }
            }
            fn collected(&mut self, victim: BlockId) {
                match self { $(Placements::$kind(placement) => placement.collected(victim),)+ }
            }
            fn copied(&self, victim: BlockId, lpn: Lpn) -> OpenSlot {
                match self { $(Placements::$kind(placement) => placement.copied(victim, lpn),)+ }
            }
            fn found(&mut self, nand: &NandArray, plane: PlaneId, block: Option<BlockId>, free: u32) {
                match self { $(Placements::$kind(placement) => placement.found(nand, plane, block, free),)+ }
            }
            #[inline(always)]
            fn pages_taken(&mut self, nand: &NandArray, plane: PlaneId, free: u32) {
                match self { $(Placements::$kind(placement) => placement.pages_taken(nand, plane, free),)+ }
            }
            fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
                match self { $(Placements::$kind(placement) => placement.tape(tape),)+ }
            }
        }
    };
}

impl PlacementChoice {
    /// Check its keys.
    ///
    /// # Errors
    /// The first value beyond its limits.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        Placements::check_keys(self).map_err(|error| error.within("ftl"))
    }

    /// Open blocks of each plane for the host.
    pub fn host_slots(&self) -> u32 {
        Placements::host_slots(self)
    }

    /// Open blocks of each plane for copies alone. `apart`: whether the drive wants any.
    pub fn copy_slots(&self, apart: bool) -> u32 {
        Placements::copy_slots(self, apart)
    }

    /// Whether it tells apart what is copied out of a block.
    pub fn sorts_copies(&self) -> bool {
        Placements::sorts_copies(self)
    }

    /// Bytes of its tables on a drive of so many logical units and blocks.
    pub fn table_bytes(&self, units: u64, blocks: u64) -> u64 {
        Placements::table_bytes(self, units, blocks)
    }

    /// Whether pages go to the plane whose turn it is, and not where their address says.
    pub fn goes_by_turn(&self) -> bool {
        Placements::goes_by_turn(self)
    }

    /// Whether pages of a first, sequential fill take turns over all planes.
    pub fn fills_in_turn(&self) -> bool {
        Placements::fills_in_turn(self)
    }

    /// Whether the address of a page decides where it goes.
    pub fn goes_by_address(&self) -> bool {
        Placements::goes_by_address(self)
    }

    /// Whether it compares the one open block of each plane with those of others.
    pub fn compares_planes(&self) -> bool {
        Placements::compares_planes(self)
    }
}

// In the order in which they are listed everywhere; the first is the default.
placements! {
    stripe::Stripe;
    rsftl::Rsftl;
    sepbit::Sepbit;
}
