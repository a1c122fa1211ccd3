//! Addresses of flash, and the only place that divides them.
//!
//! channel > way > die > plane > block > page. A page holds `slots_per_page` mapping units: 1 in the classic FTLs,
//! 4 in a drive that maps 4 KiB in 16 KiB pages. [`Lpn`] and [`Ppn`] count mapping units; [`PageId`] counts NAND
//! pages; the types keep them apart.

use crate::tape::{Tape, Taped};

/// Bytes of one host sector, the unit of addresses and lengths in every trace and device.
pub const SECTOR_BYTES: u32 = 512;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u32);

        impl Taped for $name {
            fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
                self.0.tape(tape)
            }
        }

        impl $name {
            /// As an index into a table with one entry for each.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// Logical mapping unit of the host's address space.
    Lpn
);
id!(
    /// Physical mapping unit, flat over the device: a slot of a NAND page.
    Ppn
);
id!(
    /// NAND page, flat over the device.
    PageId
);
id!(
    /// Erase block, flat over the device.
    BlockId
);
id!(
    /// Plane, flat over the device.
    PlaneId
);
id!(
    /// Die, flat over the device.
    DieId
);
id!(
    /// Channel.
    ChannelId
);

/// A page of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageAt {
    /// The block.
    pub block: BlockId,
    /// The page within it, from 0.
    pub index: u32,
}

/// Exact division of 32-bit numbers by a number known at load time: a multiplication instead of a division.
#[derive(Debug, Clone, Copy)]
pub struct Divider {
    divisor: u32,
    /// ceil(2^63 / divisor): exact for all divisors up to 2^31, as `divisor * magic` exceeds 2^63 by less than 2^31.
    magic: u64,
}

impl Divider {
    /// Divide by `divisor`, from 1 to 2^31.
    pub fn new(divisor: u32) -> Self {
        assert!(divisor != 0 && divisor <= 1 << 31, "division by zero, or by too much");
        Self { divisor, magic: (1_u64 << 63).div_ceil(u64::from(divisor)) }
    }

    /// What it divides by.
    pub const fn divisor(self) -> u32 {
        self.divisor
    }

    /// `n / divisor`.
    #[inline]
    pub const fn quotient(self, n: u32) -> u32 {
        ((n as u128 * self.magic as u128) >> 63) as u32
    }

    /// `n % divisor`.
    #[inline]
    pub const fn remainder(self, n: u32) -> u32 {
        n - self.quotient(n) * self.divisor
    }
}

/// The shape of a drive.
#[derive(Debug, Clone)]
pub struct Geometry {
    /// Channels.
    pub channels: u32,
    /// Ways of each channel.
    pub ways: u32,
    /// Dies of each way.
    pub dies_per_way: u32,
    /// Mapping units of a page.
    pub slots_per_page: u32,
    /// Bytes of a mapping unit.
    pub unit_bytes: u32,
    /// Host sectors of a mapping unit.
    pub sectors_per_unit: u32,
    /// Data bytes of a page.
    pub page_bytes: u32,
    /// Spare bytes of a page.
    pub spare_bytes: u32,
    /// Pages that may hold data in each block: all, or all but the summary page.
    pub data_pages_per_block: u32,
    /// Mapping units that the host sees.
    pub logical_units: u32,
    /// Blocks of each plane, its last ones, that hold backups and no data.
    pub backup_blocks_per_plane: u32,
    /// Blocks of each plane, those before the ones for backups, that hold a journal and no data.
    pub journal_blocks_per_plane: u32,
    planes_per_die: Divider,
    blocks_per_plane: Divider,
    pages_per_block: u32,
    units_per_block: Divider,
    dies_per_channel: Divider,
}

/// The numbers of a shape: channels, ways of each, dies of each, planes of each, blocks of each, and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GeometryNumbers {
    /// Channels.
    pub channels: u32,
    /// Ways of each channel.
    pub ways: u32,
    /// Dies of each way.
    pub dies: u32,
    /// Planes of each die.
    pub planes: u32,
    /// Blocks of each plane.
    pub blocks_per_plane: u32,
    /// Pages of each block.
    pub pages_per_block: u32,
    /// Those that may hold data: all, or all but the summary page.
    pub data_pages_per_block: u32,
    /// Data bytes of a page, a power of two.
    pub page_bytes: u32,
    /// Spare bytes of a page.
    pub spare_bytes: u32,
    /// Bytes of a mapping unit, a power of two that divides `page_bytes`.
    pub unit_bytes: u32,
    /// Mapping units that the host sees.
    pub logical_units: u32,
    /// Blocks of each plane that hold backups and no data.
    pub backup_blocks_per_plane: u32,
    /// Blocks of each plane that hold a journal and no data.
    pub journal_blocks_per_plane: u32,
}

impl Geometry {
    /// A shape from its numbers.
    pub fn new(numbers: GeometryNumbers) -> Self {
        let n = numbers;
        let slots_per_page = n.page_bytes / n.unit_bytes;
        Self {
            channels: n.channels,
            ways: n.ways,
            dies_per_way: n.dies,
            slots_per_page,
            unit_bytes: n.unit_bytes,
            sectors_per_unit: n.unit_bytes / SECTOR_BYTES,
            page_bytes: n.page_bytes,
            spare_bytes: n.spare_bytes,
            data_pages_per_block: n.data_pages_per_block,
            logical_units: n.logical_units,
            backup_blocks_per_plane: n.backup_blocks_per_plane,
            journal_blocks_per_plane: n.journal_blocks_per_plane,
            planes_per_die: Divider::new(n.planes),
            blocks_per_plane: Divider::new(n.blocks_per_plane),
            pages_per_block: n.pages_per_block,
            units_per_block: Divider::new(n.pages_per_block * slots_per_page),
            dies_per_channel: Divider::new(n.ways * n.dies),
        }
    }

    /// Dies of the drive.
    pub const fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel.divisor()
    }
    /// Planes of a die.
    pub const fn planes_per_die(&self) -> u32 {
        self.planes_per_die.divisor()
    }
    /// Planes of the drive.
    pub const fn planes(&self) -> u32 {
        self.dies() * self.planes_per_die()
    }
    /// Blocks of a plane.
    pub const fn blocks_per_plane(&self) -> u32 {
        self.blocks_per_plane.divisor()
    }
    /// Blocks of a plane that may hold data, its first ones: all, but those for a journal and for backups.
    pub const fn data_blocks_per_plane(&self) -> u32 {
        self.blocks_per_plane() - self.backup_blocks_per_plane - self.journal_blocks_per_plane
    }
    /// Whether a block holds backups and no data.
    #[inline]
    pub const fn is_for_backups(&self, block: BlockId) -> bool {
        self.row_of(block) >= self.blocks_per_plane() - self.backup_blocks_per_plane
    }
    /// The blocks of a plane that may hold data.
    pub fn data_blocks(&self, plane: PlaneId) -> impl Iterator<Item = BlockId> + Clone + use<> {
        let first = self.block(plane, 0).0;
        (first..first + self.data_blocks_per_plane()).map(BlockId)
    }
    /// The blocks of a plane for a journal.
    pub fn journal_blocks(&self, plane: PlaneId) -> impl Iterator<Item = BlockId> + use<> {
        let first = self.block(plane, self.data_blocks_per_plane()).0;
        (first..first + self.journal_blocks_per_plane).map(BlockId)
    }
    /// The blocks of a plane for backups.
    pub fn backup_blocks(&self, plane: PlaneId) -> impl Iterator<Item = BlockId> + use<> {
        let first = self.block(plane, 0).0;
        let end = first + self.blocks_per_plane();
        (end - self.backup_blocks_per_plane..end).map(BlockId)
    }
    /// Blocks of the drive.
    pub const fn blocks(&self) -> u32 {
        self.planes() * self.blocks_per_plane()
    }
    /// Pages of a block, the summary page included.
    pub const fn pages_per_block(&self) -> u32 {
        self.pages_per_block
    }
    /// Mapping units of a block, those of a summary page included.
    pub const fn units_per_block(&self) -> u32 {
        self.units_per_block.divisor()
    }
    /// Mapping units of a block that may hold data.
    pub const fn data_units_per_block(&self) -> u32 {
        self.data_pages_per_block * self.slots_per_page
    }
    /// Physical mapping units of the drive.
    pub const fn physical_units(&self) -> u32 {
        self.blocks() * self.units_per_block()
    }
    /// Bytes that the host sees.
    pub const fn logical_bytes(&self) -> u64 {
        self.logical_units as u64 * self.unit_bytes as u64
    }

    /// The block of a mapping unit.
    #[inline]
    pub const fn block_of(&self, ppn: Ppn) -> BlockId {
        BlockId(self.units_per_block.quotient(ppn.0))
    }
    /// The page of a mapping unit.
    #[inline]
    pub const fn page_of(&self, ppn: Ppn) -> PageAt {
        let block = self.block_of(ppn);
        // slots_per_page is a power of two: both sizes are.
        let index = (ppn.0 - block.0 * self.units_per_block()) >> self.slots_per_page.trailing_zeros();
        PageAt { block, index }
    }
    /// The first mapping unit of a block.
    #[inline]
    pub const fn first_unit(&self, block: BlockId) -> Ppn {
        Ppn(block.0 * self.units_per_block())
    }
    /// The number of a page, flat over the device.
    #[inline]
    pub const fn page_id(&self, page: PageAt) -> PageId {
        PageId(page.block.0 * self.pages_per_block + page.index)
    }

    /// Where the page of this number is.
    pub const fn page_at(&self, page: PageId) -> PageAt {
        PageAt { block: BlockId(page.0 / self.pages_per_block), index: page.0 % self.pages_per_block }
    }
    /// The first mapping unit of a page.
    #[inline]
    pub const fn unit(&self, page: PageAt) -> Ppn {
        Ppn(self.page_id(page).0 << self.slots_per_page.trailing_zeros())
    }
    /// The plane of a block.
    #[inline]
    pub const fn plane_of(&self, block: BlockId) -> PlaneId {
        PlaneId(self.blocks_per_plane.quotient(block.0))
    }
    /// Block `row` of a plane.
    #[inline]
    pub const fn block(&self, plane: PlaneId, row: u32) -> BlockId {
        BlockId(plane.0 * self.blocks_per_plane() + row)
    }
    /// The row of a block in its plane.
    #[inline]
    pub const fn row_of(&self, block: BlockId) -> u32 {
        self.blocks_per_plane.remainder(block.0)
    }
    /// The die of a plane.
    #[inline]
    pub const fn die_of(&self, plane: PlaneId) -> DieId {
        DieId(self.planes_per_die.quotient(plane.0))
    }
    /// The first plane of a die.
    #[inline]
    pub const fn first_plane(&self, die: DieId) -> PlaneId {
        PlaneId(die.0 * self.planes_per_die())
    }
    /// The channel of a die.
    #[inline]
    pub const fn channel_of(&self, die: DieId) -> ChannelId {
        ChannelId(self.dies_per_channel.quotient(die.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dividers_are_exact_at_the_edges() {
        for divisor in [1, 2, 3, 5, 7, 63, 64, 1152, 4_096, 108_696, (1 << 31) - 1, 1 << 31] {
            let by = Divider::new(divisor);
            for base in [0, divisor, divisor.saturating_mul(2), u32::MAX / divisor * divisor, u32::MAX - 1] {
                for n in [base.saturating_sub(1), base, base.saturating_add(1)] {
                    assert_eq!(
                        (by.quotient(n), by.remainder(n)),
                        (n / divisor, n % divisor),
                        "{n} / {divisor}"
                    );
                }
            }
        }
    }
}
