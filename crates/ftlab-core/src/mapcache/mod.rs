//! Mapping caches: which part of a table that lives in flash is in memory.
//!
//! A scheme is one file with one type that implements [`MapCache`], and one line in the list at the end of this file
//! (and `mod`, as for every Rust file). From that line come its name in device files, its row in `ftlab schemes`, and
//! its place in every test that loops over the list.
//!
//! The table itself is kept by the translation layer and is the truth. A scheme says what its choices cost
//! ([`MapOp`]), and can corrupt nothing: with verification, the translation layer keeps what its translation pages
//! hold in flash, and finds a scheme that loses a change.

use std::fmt::Debug;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{DeviceConfig, FtlKind, Striping};
use crate::geometry::{BlockId, Geometry, Lpn};
use crate::plane_order::PlaneOrder;
use crate::schemes::Scheme;

mod bsb;
mod cdftl;
pub(crate) mod cftl;
mod dftl;
mod full_page;
mod half_page;
pub(crate) mod leaftl;
mod lru;
pub(crate) mod sftl;
mod tafp;
pub(crate) mod tpftl;
pub mod translation;
mod units;

/// How translation pages divide the logical space: `tpn = lpn / entries`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Logical units of the drive.
    pub logical_units: u32,
    /// Base-2 logarithm of the entries in a translation page.
    pub shift: u32,
    /// Mapping units of a NAND page, a power of two.
    pub slots: u32,
    /// Planes that data written in order go round; 1 for the endless log of `ftl.kind = "map_only"`.
    pub planes: u32,
    /// Units of a logical block, of which a second table in flash has the places, one entry each: its translation pages have
    /// the numbers behind those of the page table. 0 where nothing is put in order ([`DeviceConfig::gathers`]).
    pub block_units: u32,
}

/// Bytes of an entry in a translation page: the physical address; the logical one follows from its place.
pub const ENTRY_BYTES: u32 = 4;

impl Shape {
    /// For the drive that a validated configuration describes: a translation page is a NAND page.
    pub fn new(config: &DeviceConfig) -> Self {
        let entries = config.geometry.page_bytes as u32 / ENTRY_BYTES;
        let g = &config.geometry;
        let (slots, planes) = match config.ftl.kind {
            FtlKind::MapOnly => (1, 1),
            FtlKind::Page => {
                ((g.page_bytes / config.unit_bytes()) as u32, g.channels * g.ways * g.dies * g.planes)
            }
        };
        let block_units = if config.gathers() { config.map_cache.cftl_block_pages } else { 0 };
        let logical_units = config.logical_pages() as u32;
        Self { logical_units, shift: entries.trailing_zeros(), slots, planes, block_units }
    }

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

    /// A whole translation page of the page table is fetched.
    const fn fetch_all(self, tpn: u32) -> MapOp {
        MapOp::Fetch { tpn, bytes: self.page_bytes(), units: (self.first(tpn), self.last(tpn)) }
    }
}

/// Numbers for physical units in the order in which planes are written: first the slots of a page, then the pages with
/// the same place in each plane, then the places, and then rows of blocks that were opened together. What the host
/// writes in order round the planes has consecutive numbers.
#[derive(Debug, Clone, Default)]
pub struct Stripe {
    /// Whether writes go to the plane whose turn it is, and not where their address says.
    pub dynamic: bool,
    units_per_block: u32,
    blocks_per_plane: u32,
    slots: u32,
    /// For each plane its turn.
    turns: Vec<u32>,
    /// For each block its row. Those that the host fills have even ones, others odd ones.
    rows: Vec<u32>,
    /// For each plane, the row of the block that was opened last for the host, and for others.
    last: Vec<[u32; 2]>,
    /// The latest of all rows of the host.
    front: u32,
    /// Rows that there are numbers for; they go round, far behind those in use. 0 where numbers are too few for that
    /// (above a thousand million units): each block keeps the row that it has in its plane.
    row_count: u32,
}

impl Stripe {
    /// For the drive that a validated configuration describes.
    pub fn new(config: &DeviceConfig) -> Self {
        let shape = Shape::new(config);
        if shape.planes == 1 {
            return Self::default();
        }
        let geometry = Geometry::new(config);
        let order = PlaneOrder::new(&geometry, config.ftl.allocation, true);
        let mut turns = vec![0; shape.planes as usize];
        for turn in 0..order.len() {
            turns[order.at(turn).index()] = turn;
        }
        let (units_per_block, blocks_per_plane) = (geometry.units_per_block(), geometry.blocks_per_plane());
        let row_count = u32::MAX / (units_per_block * shape.planes) / 2 * 2;
        let (row_count, step) = if row_count < 4 * blocks_per_plane { (0, 1) } else { (row_count, 2) };
        let last = 2 * (blocks_per_plane - 1);
        Self {
            dynamic: config.ftl.striping == Striping::Dynamic,
            units_per_block,
            blocks_per_plane,
            slots: shape.slots,
            turns,
            rows: (0..geometry.blocks()).map(|block| step * (block % blocks_per_plane)).collect(),
            last: vec![[last, last + 1]; shape.planes as usize],
            front: last,
            row_count,
        }
    }

    /// Planes that are written in turn; fewer than 2: there is nothing to number anew.
    pub fn planes(&self) -> u32 {
        self.turns.len() as u32
    }

    /// A block was opened, for data of the host or for others.
    pub fn opened(&mut self, block: BlockId, by_host: bool) {
        if self.row_count == 0 {
            return;
        }
        let [host, others] = &mut self.last[(block.0 / self.blocks_per_plane) as usize];
        if by_host {
            if *host == self.front {
                self.front = (self.front + 2) % self.row_count;
            }
            *host = self.front;
            self.rows[block.index()] = *host;
        } else {
            *others = (*others + 2) % self.row_count;
            self.rows[block.index()] = *others;
        }
    }

    /// The number of a physical unit.
    #[inline]
    pub fn number(&self, ppn: u32) -> u32 {
        let (block, unit) = (ppn / self.units_per_block, ppn % self.units_per_block);
        let turn = self.turns[(block / self.blocks_per_plane) as usize];
        let place = (self.rows[block as usize] * self.units_per_block + unit) / self.slots;
        (place * self.planes() + turn) * self.slots + unit % self.slots
    }

    /// The turn of the plane that a unit of this number lies in.
    #[inline]
    pub fn plane(&self, number: u32) -> u32 {
        number / self.slots % self.planes()
    }

    /// Bytes of its tables.
    pub fn table_bytes(&self) -> u64 {
        (self.turns.capacity() + self.rows.capacity()) as u64 * 4 + self.last.capacity() as u64 * 8
    }
}

/// Why an entry is looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intent {
    /// To read the data.
    Read,
    /// To write the data: the old place is needed to make it stale, and the entry will change.
    Write,
    /// To forget the data: as a write.
    Trim,
}

/// A look into the mapping table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lookup {
    /// Whose entry is needed.
    pub lpn: Lpn,
    /// What for.
    pub intent: Intent,
    /// Logical units of the same host request that follow this one.
    pub rest: u32,
}

impl Lookup {
    /// Whether the entry will change.
    #[inline]
    pub fn changes(self) -> bool {
        self.intent != Intent::Read
    }
}

/// What a scheme asks of flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapOp {
    /// Read `bytes` of a translation page, to answer a lookup.
    Fetch {
        /// The translation page.
        tpn: u32,
        /// Bytes that cross the bus.
        bytes: u32,
        /// The first and the last logical unit whose entries it brings: they may be used when it has ended.
        units: (Lpn, Lpn),
    },
    /// Write a translation page. `rest_bytes` of its old version are read first: what memory does not hold of it; with
    /// 0, all is known and nothing is read.
    WriteBack {
        /// The translation page.
        tpn: u32,
        /// Bytes of the old version that cross the bus.
        rest_bytes: u32,
    },
    /// Read the data page that was taken for the right one: its spare area, or that of its neighbour at the border of a
    /// block, tells which is.
    Probe {
        /// The physical unit that was predicted.
        predicted: u32,
        /// Where the data are.
        actual: u32,
    },
}

/// What a scheme tells of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Insight {
    /// How often each fetch window was chosen, by name; or what else a miss brought.
    pub windows: Vec<(String, u64)>,
    /// Scores of the windows now, by name; or what else it goes by.
    pub scores: Vec<(String, f64)>,
    /// Bytes of memory by kind of content.
    pub content_bytes: Vec<(String, u64)>,
}

/// A mapping cache.
///
/// Order of calls: [`lookup`](Self::lookup) for every access of the host, before the data; after a write or trim, when
/// the table has changed, [`changed`](Self::changed) for the same entry; collection and lookups for other entries of the
/// same access may come in between. When collection has moved data,
/// [`moved`](Self::moved) for each, and [`rewritten`](Self::rewritten) for the translation pages that were written for
/// those that are not in memory. What it wants in order ([`wants_gathered`](Self::wants_gathered)) is told of by
/// [`gathered`](Self::gathered) instead. `table` is the truth, one physical unit for each logical one (`u32::MAX`: none), of
/// the translation pages that were looked up; it is empty where the drive does not keep one and
/// [`wants_table`](Self::wants_table) is false. Nothing may be allocated for each lookup once warm. Required: `lookup`,
/// `moved`, `is_dirty`, `used_bytes`, `check` and `table_bytes`.
pub trait MapCache: Debug + Send {
    /// Find the entry of `lookup.lpn`, and append to `ops` what that takes, in order. True for a hit: nothing had to be
    /// fetched. After a lookup that changes the entry, the entry in memory is newer than the one in flash.
    fn lookup(&mut self, lookup: Lookup, table: &[u32], ops: &mut Vec<MapOp>) -> bool;

    /// The entry that was just looked up for a write or trim has changed to what `table` says; before, it was `old`.
    fn changed(&mut self, lpn: Lpn, old: u32, table: &[u32]) {
        let _ = (lpn, old, table);
    }

    /// Collection has moved the data of `lpn` (`table` says where to). True when its entry is in memory: it is changed
    /// there, and newer than in flash from now on. False when it must be changed in flash.
    fn moved(&mut self, lpn: Lpn, table: &[u32]) -> bool;

    /// The translation page was written for entries that are not in memory. A scheme may count on its own changes of that
    /// page having gone along, or keep them as they are.
    fn rewritten(&mut self, tpn: u32) {
        let _ = tpn;
    }

    /// Whether the entry is newer in memory than in flash.
    fn is_dirty(&self, lpn: Lpn) -> bool;

    /// Bytes of memory in use, as the scheme counts them; at most `map_cache.bytes` after a lookup.
    fn used_bytes(&self) -> u64;

    /// Which logical units around `lpn`, which collection has just moved, should lie in one block in order: a whole logical
    /// block. The translation layer moves them there when it has room, and says so to [`gathered`](Self::gathered); `table`
    /// says where they are.
    fn wants_gathered(&self, lpn: Lpn, table: &[u32]) -> Option<Range<u32>> {
        let _ = (lpn, table);
        None
    }

    /// Told once, before the first lookup: how planes take turns.
    fn lay_out(&mut self, stripe: Stripe) {
        let _ = stripe;
    }

    /// A block was opened, for data of the host, or for copies and translation pages.
    fn opened(&mut self, block: BlockId, by_host: bool) {
        let _ = (block, by_host);
    }

    /// Units that it wanted gathered lie in order now, by `table`. For none of them is [`moved`](Self::moved) called.
    fn gathered(&mut self, units: Range<u32>, table: &[u32]) {
        let _ = (units, table);
    }

    /// Whether the units of a logical block are found by its entry in the block table, the place of the first of them. The
    /// page table in flash need not be right for them then. The entry of every other block says that there is none.
    fn is_block_mapped(&self, block: u32) -> bool {
        let _ = block;
        false
    }

    /// Whether the entry of a logical block is newer in memory than in flash.
    fn is_block_dirty(&self, block: u32) -> bool {
        let _ = block;
        false
    }

    /// Whether it looks at physical addresses.
    fn wants_table(&self) -> bool {
        false
    }

    /// Whether collection should copy the survivors of a block in order of their logical units.
    fn wants_sorted_copies(&self) -> bool {
        false
    }

    /// How many changes the drive should gather, to write their data in order of their logical units.
    fn sorts_batches(&self) -> Option<usize> {
        None
    }

    /// Start counting choices at zero, if it counts them; what memory holds stays.
    fn reset_counts(&mut self) {}

    /// What it tells of itself.
    fn insight(&self) -> Insight {
        Insight::default()
    }

    /// Recount its tables.
    ///
    /// # Errors
    /// The first disagreement.
    fn check(&self) -> Result<(), String>;

    /// Bytes of its tables in this program, which differ from what it would take in a drive.
    fn table_bytes(&self) -> u64;
}

macro_rules! map_caches {
    ($($(#[doc = $doc:literal])+ $file:ident :: $kind:ident, $source:literal;)+) => {
        /// The mapping caches that a device file can name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum MapCacheKind {
            /// The whole table is in memory and costs nothing.
            #[default]
            Ideal,
            $($(#[doc = $doc])+ $kind,)+
        }

        impl MapCacheKind {
            /// Every kind.
            pub const ALL: &[MapCacheKind] = &[MapCacheKind::Ideal, $(MapCacheKind::$kind),+];

            /// Its name in device files and reports.
            pub const fn name(self) -> &'static str {
                match self {
                    MapCacheKind::Ideal => "ideal",
                    $(MapCacheKind::$kind => stringify!($file),)+
                }
            }

            /// The cache of a validated configuration; `None` for `ideal`.
            pub fn build(config: &DeviceConfig, shape: Shape) -> Option<Box<dyn MapCache>> {
                let mut cache: Box<dyn MapCache> = match config.map_cache.kind {
                    MapCacheKind::Ideal => return None,
                    $(MapCacheKind::$kind => Box::new($file::$kind::new(&config.map_cache, shape)),)+
                };
                cache.lay_out(Stripe::new(config));
                Some(cache)
            }
        }

        /// For `ftlab schemes`.
        pub(crate) fn schemes() -> Vec<Scheme> {
            vec![
                Scheme {
                    key: "map_cache.kind",
                    name: "ideal",
                    summary: "The whole table is in memory and costs nothing.",
                    source: "the usual assumption",
                },
                $(Scheme {
                    key: "map_cache.kind",
                    name: stringify!($file),
                    summary: concat!($($doc),+).trim_ascii(),
                    source: $source,
                },)+
            ]
        }
    };
}

map_caches! {
    /// Single entries on demand, in a segmented LRU order.
    dftl::Dftl, "Gupta, Kim, Urgaonkar, ASPLOS 2009";
    /// Whole translation pages.
    full_page::FullPage, "the baseline of the IEEK paper 2012-50-3-10";
    /// Aligned halves of translation pages.
    half_page::HalfPage, "the baseline of the IEEK paper 2012-50-3-10";
    /// The entry and `window_bytes` of the ones that follow, within the translation page.
    tafp::Tafp, "translation-page-aware forward prefetching, IEEK paper 2012-50-3-10";
    /// The window that a balanced score board likes best at each miss.
    bsb::Bsb, "balanced score board, IEEK paper 2012-50-3-10";
    /// Whole translation pages, compressed by runs of consecutive physical addresses; few changes wait in a buffer.
    sftl::Sftl, "Jiang, Zhang, Yuan, Hu, Chen, MSST 2011";
    /// Entries that hang together by translation page; prefetching by request and by what came before, batched updates.
    tpftl::Tpftl, "Zhou, Wu, Huang, He, Zhou, Xie, EuroSys 2015";
    /// Single entries over whole translation pages, which take the changes of entries that leave.
    cdftl::Cdftl, "Qin, Wang, Liu, Shao, RTAS 2011";
    /// Segments learned by linear regression, groups of 256 units in LRU order.
    leaftl::Leaftl, "LeaFTL: Sun et al., ASPLOS 2023";
    /// Entries for runs of units, and for blocks that are read often and written rarely, which collection puts in order.
    cftl::Cftl, "CFTL: Park, Debnath, Du, SIGMETRICS 2010";
}
