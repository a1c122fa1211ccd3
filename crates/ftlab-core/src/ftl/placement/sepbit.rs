//! SepBIT: units that will become stale at about the same time go to the same blocks.
//!
//! Each plane has six open blocks, one for each class. Time is counted in units that the host has written. `l` is the mean
//! lifetime of the last 16 blocks of class 1 that were collected, from opening to collection. It has no end until there were
//! 16 of them; the paper takes a new mean after every 16 blocks, and here every block changes it.
//!
//! - Class 1: what the host writes again, less than `l` after it was written last.
//! - Class 2: what else the host writes, and the first write of a unit. A page of several units is of class 1 when all of them
//!   are.
//! - Class 3: what collection copies out of a block of class 1.
//! - Classes 4, 5 and 6: what it copies out of others. The host has written it less than 4 `l` ago, less than 16 `l`, or before.
//!
//! The last write of a unit is in its spare area on real drives, and in a table here. What a drive finds at a mount counts as
//! written then, and in blocks of no class. What wear levelling moves is cold: it goes to class 6. Planes take turns by address,
//! as they do with `stripe`. Copies have blocks of their own, whatever `gc_open_block` says.

use super::policy::{OpenSlot, Placement, Setting};
use crate::access::Access;
use crate::flash::nand::NandArray;
use crate::geometry::{BlockId, Geometry, Lpn, PlaneId, Ppn};
use crate::plane_order::PlaneOrder;
use crate::scheme::{NoKeys, Scheme};
use crate::table;
use crate::tape::{Tape, Taped, taped};

/// The open block of each class, and how many there are.
const CLASS_1: OpenSlot = 0;
const CLASS_2: OpenSlot = 1;
const CLASS_3: OpenSlot = 2;
const CLASS_4: OpenSlot = 3;
const CLASS_5: OpenSlot = 4;
const CLASS_6: OpenSlot = 5;
const CLASSES: usize = 6;

/// Collected blocks of class 1 whose mean lifetime decides.
const LIFETIMES: usize = 16;

impl Scheme for Sepbit {
    const SUMMARY: &'static str = "Six classes of blocks, by how long data have lived and will live.";
    const SOURCE: &'static str = "SepBIT (Wang et al., FAST 2022)";
    type Keys = NoKeys;
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Sepbit {
    order: PlaneOrder,
    /// Base-2 logarithm of the units of a page.
    slot_shift: u32,
    lifetimes: Lifetimes,
    /// When the host wrote each unit last; the beginning for those that it has not written. After 2^32 units it begins anew,
    /// and what is older than that seems young.
    written: Vec<u32>,
    /// When each block of class 1 was opened.
    opened: Vec<Option<u32>>,
}

/// The clock, and what `l` is made of.
#[derive(Debug, Clone, Default)]
struct Lifetimes {
    /// Units that the host has written.
    now: u32,
    last: [u32; LIFETIMES],
    collected: u64,
    /// Of `last`.
    sum: u64,
}

taped! { Lifetimes { now, last, collected, sum } else {} }

impl Lifetimes {
    fn since(&self, then: u32) -> u32 {
        self.now.wrapping_sub(then)
    }

    /// A block of class 1 that was opened `then` is collected.
    fn end(&mut self, then: u32) {
        let lifetime = self.since(then);
        let oldest = std::mem::replace(&mut self.last[self.collected as usize % LIFETIMES], lifetime);
        self.sum = self.sum + u64::from(lifetime) - u64::from(oldest);
        self.collected += 1;
    }

    /// Whether `age` is below `times` the mean lifetime.
    fn is_below(&self, age: u32, times: u64) -> bool {
        let has_no_end = self.collected < LIFETIMES as u64;
        has_no_end || u64::from(age) * (LIFETIMES as u64) < times * self.sum
    }
}

impl Placement for Sepbit {
    fn new(geometry: &Geometry, _: &NoKeys, setting: Setting) -> Self {
        Self {
            order: PlaneOrder::new(geometry, setting.allocation, true),
            slot_shift: geometry.slots_per_page.trailing_zeros(),
            lifetimes: Lifetimes::default(),
            written: table::zeros(geometry.logical_units as usize),
            opened: vec![None; geometry.blocks() as usize],
        }
    }

    fn host_slots(_: &NoKeys) -> u32 {
        CLASS_3 as u32
    }

    fn copy_slots(_: &NoKeys, _: bool) -> u32 {
        (CLASSES - CLASS_3) as u32
    }

    fn sorts_copies(_: &NoKeys) -> bool {
        true
    }

    fn table_bytes(_: &NoKeys, units: u64, blocks: u64) -> u64 {
        units * size_of::<u32>() as u64 + blocks * size_of::<Option<u32>>() as u64
    }

    fn slots(&self) -> usize {
        CLASSES
    }

    fn is_for_host(&self, slot: OpenSlot) -> bool {
        slot < CLASS_3
    }

    fn copy_slot(&self) -> OpenSlot {
        CLASS_6
    }

    fn order(&self) -> &PlaneOrder {
        &self.order
    }

    #[inline(never)]
    fn host(&mut self, access: &Access<'_>, current: impl Fn(Lpn) -> Option<Ppn>) -> (u32, OpenSlot) {
        let mut slot = CLASS_1;
        for lpn in (0..access.units).map(|index| access.lpn_at(index)) {
            let written = std::mem::replace(&mut self.written[lpn.index()], self.lifetimes.now);
            if current(lpn).is_none() || !self.lifetimes.is_below(self.lifetimes.since(written), 1) {
                slot = CLASS_2;
            }
            self.lifetimes.now = self.lifetimes.now.wrapping_add(1);
        }
        (access.lpn.0 >> self.slot_shift, slot)
    }

    fn may_go_on(&self) -> bool {
        false
    }

    fn plane(&mut self, _: &NandArray, plane: PlaneId, _: impl FnOnce() -> Option<Ppn>) -> PlaneId {
        plane
    }

    fn placed(&mut self, _: OpenSlot, _: u32) {}

    fn opened(&mut self, _: &NandArray, _: PlaneId, slot: OpenSlot, block: BlockId) {
        self.opened[block.index()] = (slot == CLASS_1).then_some(self.lifetimes.now);
    }

    fn collected(&mut self, victim: BlockId) {
        if let Some(opened) = self.opened[victim.index()] {
            self.lifetimes.end(opened);
        }
    }

    fn copied(&self, victim: BlockId, lpn: Lpn) -> OpenSlot {
        let age = self.lifetimes.since(self.written[lpn.index()]);
        match self.opened[victim.index()] {
            Some(_) => CLASS_3,
            None if self.lifetimes.is_below(age, 4) => CLASS_4,
            None if self.lifetimes.is_below(age, 16) => CLASS_5,
            None => CLASS_6,
        }
    }

    fn found(&mut self, _: &NandArray, _: PlaneId, _: Option<BlockId>, _: u32) {}

    fn pages_taken(&mut self, _: &NandArray, _: PlaneId, _: u32) {}

    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { lifetimes, written, opened, order: _, slot_shift: _ } = self;
        lifetimes.tape(tape)?;
        written.tape(tape)?;
        opened.tape(tape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AllocationOrder, DeviceConfig};

    fn sepbit() -> Sepbit {
        let text = r#"{ "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 32, "pages_per_block": 8,
            "page_bytes": 8192, "mapping_unit_bytes": 4096 } }"#;
        let geometry = serde_json::from_str::<DeviceConfig>(text).unwrap().to_geometry();
        let setting = Setting { allocation: AllocationOrder::default(), copies_apart: true };
        Sepbit::new(&geometry, &NoKeys {}, setting)
    }

    /// The class of a write of `units`, which were all there before or not.
    fn write(sepbit: &mut Sepbit, first: u32, units: u32, known: bool) -> OpenSlot {
        let access = Access::span(Lpn(first), units, 0, 8 * units);
        sepbit.host(&access, |_| known.then_some(Ppn(0))).1
    }

    #[test]
    fn classes_of_a_few_writes_with_known_ages() {
        let mut sepbit = sepbit();
        assert_eq!(write(&mut sepbit, 7, 1, false), CLASS_2, "a first write");
        assert_eq!(write(&mut sepbit, 7, 1, true), CLASS_1, "no age is above what has no end");
        // Sixteen blocks of class 1, opened at 2 and collected at 12: `l` is 10.
        sepbit.lifetimes.now = 12;
        for block in 0..16 {
            assert!(sepbit.lifetimes.is_below(u32::MAX, 1), "{block} blocks are too few");
            sepbit.opened[block] = Some(2);
            sepbit.collected(BlockId(block as u32));
        }
        // Last written at 1: the age is 11. Then, at 13, it is 1; at 22 it is 9 and at 32 it is 10.
        assert_eq!(write(&mut sepbit, 7, 1, true), CLASS_2);
        assert_eq!(write(&mut sepbit, 7, 1, true), CLASS_1);
        sepbit.lifetimes.now = 22;
        assert_eq!(write(&mut sepbit, 7, 1, true), CLASS_1);
        sepbit.lifetimes.now = 32;
        assert_eq!(write(&mut sepbit, 7, 1, true), CLASS_2);
        assert_eq!(write(&mut sepbit, 7, 1, false), CLASS_2, "what was trimmed is new");
        // Copies of what was written at 33.
        let at = |sepbit: &mut Sepbit, now: u32| {
            sepbit.lifetimes.now = now;
            sepbit.copied(BlockId(20), Lpn(7))
        };
        assert_eq!([at(&mut sepbit, 72), at(&mut sepbit, 73)], [CLASS_4, CLASS_5]);
        assert_eq!([at(&mut sepbit, 192), at(&mut sepbit, 193)], [CLASS_5, CLASS_6]);
        assert_eq!(sepbit.copied(BlockId(3), Lpn(7)), CLASS_3);
        // A page is short-lived as a whole or not at all.
        write(&mut sepbit, 8, 2, false);
        assert_eq!(write(&mut sepbit, 8, 2, true), CLASS_1);
        sepbit.lifetimes.now += 20;
        write(&mut sepbit, 8, 1, true);
        assert_eq!(write(&mut sepbit, 8, 2, true), CLASS_2);
    }

    #[test]
    fn the_mean_is_that_of_the_last_sixteen() {
        let mut lifetimes = Lifetimes { now: 100, ..Lifetimes::default() };
        (0..16).for_each(|_| lifetimes.end(0));
        assert_eq!([99, 100].map(|age| lifetimes.is_below(age, 1)), [true, false]);
        (0..8).for_each(|_| lifetimes.end(80));
        assert_eq!([59, 60].map(|age| lifetimes.is_below(age, 1)), [true, false]);
        // The clock may begin anew.
        lifetimes.now = 3;
        assert_eq!(lifetimes.since(u32::MAX), 4);
    }
}
