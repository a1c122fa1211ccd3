//! The contract of a mapping cache.

use std::fmt::Debug;
use std::ops::Range;

use dyn_clone::DynClone;

use crate::geometry::{BlockId, Lpn};
use crate::mapcache::layout::TranslationLayout;
use crate::mapcache::prices::Prices;
use crate::mapcache::superblock_order::SuperblockOrder;

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

impl MapOp {
    /// Fetch a whole translation page of the page table.
    pub(super) const fn fetch_page(layout: TranslationLayout, tpn: u32) -> Self {
        Self::Fetch { tpn, bytes: layout.page_bytes(), units: (layout.first(tpn), layout.last(tpn)) }
    }
}

/// Statistics that only some schemes have.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CacheReport {
    /// How often each fetch window was chosen, by name; or what else a miss brought.
    pub windows: Vec<(String, u64)>,
    /// Scores of the windows now, by name; or what else it goes by.
    pub scores: Vec<(String, f64)>,
    /// Bytes of memory by kind of content.
    pub content_bytes: Vec<(String, u64)>,
}

/// A mapping cache.
///
/// Order of calls: [`lookup`](Self::lookup) for every access of the host, before the data. After a write or trim, when
/// the table has changed, [`changed`](Self::changed) for the same entry. Collection, and lookups for other entries of
/// the same access, may come in between. When collection has moved data, [`moved`](Self::moved) for each, and
/// [`rewritten`](Self::rewritten) for the translation pages that were written for those that are not in memory. What it
/// wants in order is reported by [`PlacementWishes::gathered`] instead.
///
/// `table` is the truth of the translation pages that were looked up: one physical unit for each logical one
/// (`u32::MAX`: none). It is empty where the drive does not keep one and there are no [`wishes`](Self::wishes). Nothing
/// may be allocated for each lookup once warm. Required: `lookup`, `moved`, `is_dirty`, `used_bytes`, `check` and
/// `table_bytes`.
pub trait MapCache: Debug + Send + DynClone {
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

    /// What it wants of placement, if it looks at physical addresses. Without, `table` may be empty.
    fn wishes(&self) -> Option<&dyn PlacementWishes> {
        None
    }

    /// The same, to tell it what became of blocks.
    fn wishes_mut(&mut self) -> Option<&mut dyn PlacementWishes> {
        None
    }

    /// `lpn` will be looked up in a few requests: ask the processor for what that will touch. Stages are those of
    /// [`Layer::prefetch`](crate::layer::Layer::prefetch).
    fn look_ahead(&self, lpn: Lpn, stage: u32) {
        let _ = (lpn, stage);
    }

    /// What its steps take, for a scheme that goes by it. Told once, before the first lookup.
    fn set_prices(&mut self, prices: Prices) {
        let _ = prices;
    }

    /// Start counting choices at zero, if it counts them; what memory holds stays.
    fn reset_counts(&mut self) {}

    /// Statistics that only some schemes have.
    fn report(&self) -> CacheReport {
        CacheReport::default()
    }

    /// Recount its tables.
    ///
    /// # Errors
    /// The first disagreement.
    fn check(&self) -> Result<(), String>;

    /// Bytes of its tables in this program, which differ from what it would take in a drive.
    fn table_bytes(&self) -> u64;
}

/// What a mapping cache that looks at physical addresses wants of placement, and hears of it.
///
/// Order of calls: [`set_plane_order`](Self::set_plane_order) once, before the first lookup; then [`opened`](Self::opened)
/// for every block, in the order in which blocks are opened. Required: `set_plane_order` and `opened`.
pub trait PlacementWishes {
    /// The order in which planes are written.
    fn set_plane_order(&mut self, order: SuperblockOrder);

    /// A block was opened, for data of the host, or for copies and translation pages.
    fn opened(&mut self, block: BlockId, by_host: bool);

    /// Which logical units around `lpn`, which collection has just moved, should lie in one block in order: a whole logical
    /// block. The translation layer moves them there when it has room, and says so to [`gathered`](Self::gathered); `table`
    /// says where they are.
    fn wants_gathered(&self, lpn: Lpn, table: &[u32]) -> Option<Range<u32>> {
        let _ = (lpn, table);
        None
    }

    /// Units that it wanted gathered lie in order now, by `table`. For none of them is [`MapCache::moved`] called.
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

    /// Whether collection should copy the survivors of a block in order of their logical units.
    fn wants_sorted_copies(&self) -> bool {
        false
    }

    /// How many changes the drive should gather, to write their data in order of their logical units.
    fn sorts_batches(&self) -> Option<usize> {
        None
    }
}

dyn_clone::clone_trait_object!(MapCache);
