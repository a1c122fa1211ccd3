//! How translation pages divide the logical space.

use crate::geometry::Lpn;

/// How translation pages divide the logical space: `tpn = lpn / entries`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TranslationLayout {
    /// Logical units of the drive.
    pub logical_units: u32,
    /// Base-2 logarithm of the entries in a translation page.
    pub shift: u32,
    /// Mapping units of a NAND page, a power of two.
    pub slots: u32,
    /// Planes that data written in order go round; 1 for the endless log of the mapping cache alone.
    pub planes: u32,
    /// Units of a logical block, of which a second table in flash has the places, one entry each: its translation pages have
    /// the numbers behind those of the page table. 0 where nothing is put in order.
    pub block_units: u32,
}

/// Bytes of an entry in a translation page: the physical address; the logical one follows from its place.
pub const ENTRY_BYTES: u32 = 4;

impl TranslationLayout {
    /// Entries in a translation page, a power of two.
    pub const fn entries(self) -> u32 {
        1 << self.shift
    }

    /// Bytes of a translation page.
    pub const fn page_bytes(self) -> u32 {
        self.entries() * ENTRY_BYTES
    }

    /// Translation pages of the page table. The last may be in use only in part; it is read and written whole.
    pub const fn pages(self) -> u32 {
        self.logical_units.div_ceil(1 << self.shift)
    }

    /// Logical blocks that have an entry in the block table.
    pub const fn blocks(self) -> u32 {
        if self.block_units == 0 { 0 } else { self.logical_units.div_ceil(self.block_units) }
    }

    /// Translation pages of the drive: of the page table, then of the block table.
    pub const fn all_pages(self) -> u32 {
        self.pages() + self.blocks().div_ceil(1 << self.shift)
    }

    /// The translation page of a logical unit.
    #[inline]
    pub const fn tpn(self, lpn: Lpn) -> u32 {
        lpn.0 >> self.shift
    }

    /// First logical unit of a translation page.
    #[inline]
    pub const fn first(self, tpn: u32) -> Lpn {
        Lpn(tpn << self.shift)
    }

    /// Last logical unit of a translation page.
    #[inline]
    pub const fn last(self, tpn: u32) -> Lpn {
        let last = (tpn << self.shift) + (self.entries() - 1);
        if last < self.logical_units { Lpn(last) } else { Lpn(self.logical_units - 1) }
    }
}
