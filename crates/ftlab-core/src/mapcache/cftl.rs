//! CFTL: entries that answer for runs, and logical blocks mapped by one entry where data are read often and written rarely.
//!
//! Page mapping is the usual thing. The cached page mapping table (CPMT) has entries of 10 bytes: logical unit 4,
//! physical unit 4, and a count 2. The count says how many of the units that follow lie in the places that follow. A
//! miss scans its translation page for these units: what crosses the bus is the run and the entry that ends it. A
//! change within a run splits it; a changed unit that follows a changed run joins it. Where there are several planes,
//! the places that follow are those in the order in which planes are written ([`SuperblockOrder`]) or those in one
//! plane. A bit of the entry says which, and a miss takes the longer run.
//!
//! A logical block of `cftl_block_pages` units becomes *block-mapped* when collection finds it read-hot and write-cold
//! and has put it in order. From then on one entry of the block table in flash, the place of its first unit, stands for
//! all of its units. Their entries in the page table are left as they are, and not looked at. The cached block mapping
//! table (CBMT) has entries of 8 bytes. A bit for each logical block, in memory and charged, says which table to look
//! into. A write or trim within the block makes it page-mapped again, and so does collection when it moves its units
//! apart. What is known of them becomes changed runs of page entries, and the entry in the block table changes to none.
//! Collection that moves the block as a whole changes its block entry.
//!
//! Two groups of four Bloom filters say how hot a block is for reads and for writes. A filter has 2048 bits and two
//! hashes; a group takes 1 KiB, which is charged. An access enters the block in the first filter, from the current one
//! on, that does not have it. Every 512 accesses the oldest filter is emptied and becomes the current one. Filters that
//! have the block count 2, 1.5, 1 and 0.5, from the youngest to the oldest. 4 is hot; cold is what no filter has.
//!
//! What is interpretation:
//! - The border between CPMT and CBMT, each of which has an LRU order. The papers say that it adapts. Here each cache
//!   counts its hits among its least recent entries, as many as take a sixteenth of the memory for both. Every 1024
//!   lookups the border moves by that much in favour of the cache with more hits, if that one fills its part. Each
//!   keeps a sixteenth, and one that does not need its part lends it to the other.
//! - The papers have one plane, and so one order of places.
//! - To be taken apart counts as a write, so that no block is gathered again before 1536 more units were written.
//! - A translation page that is written keeps what it said of block-mapped units.
//! - After a power cut every block is page-mapped.
//! - The model of the cache alone has no collection, and so nothing is block-mapped there; nor is it where logical blocks
//!   are larger than blocks, or smaller than pages. Then there are no bits and no block table.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::geometry::{BlockId, Lpn};
use crate::mapcache::cache::{CacheReport, Intent, Lookup, MapCache, MapOp, PlacementWishes};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::scheme::{MapCacheScheme, PageSizes, TableBytes};
use crate::mapcache::superblock_order::SuperblockOrder;
use crate::recency::{Groups, Links, NONE, TailedList};
use crate::scheme::{Contrast, Scheme};

/// The parts of memory: page entries and block entries.
const PAGES: usize = 0;
const BLOCKS: usize = 1;
/// Bytes of an entry of each part.
const BYTES: [u64; 2] = [10, 8];

/// No physical unit.
const UNMAPPED: u32 = u32::MAX;

const FILTERS: usize = 4;
const WORDS: usize = 32;
const PERIOD: u32 = 512;
/// 4, in halves.
const HOT: u32 = 8;

/// Lookups from one look at the border to the next.
const BORDER_PERIOD: u32 = 1024;
/// The border moves by this part of the memory for entries.
const BORDER_STEPS: u64 = 16;

fn fixed_bytes(layout: TranslationLayout) -> u64 {
    2 * Heat::BYTES + u64::from(layout.blocks().div_ceil(8))
}

/// How often logical blocks were accessed of late.
#[derive(Debug, Clone)]
struct Heat {
    filters: [[u64; WORDS]; FILTERS],
    current: usize,
    accesses: u32,
}

impl Heat {
    const BYTES: u64 = (FILTERS * WORDS * 8) as u64;

    fn new() -> Self {
        Self { filters: [[0; WORDS]; FILTERS], current: 0, accesses: 0 }
    }

    #[inline]
    fn places(block: u32) -> [usize; 2] {
        let hash = (u64::from(block) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        [(hash >> 53) as usize, (hash >> 32) as usize % (WORDS * 64)]
    }

    #[inline]
    fn has(filter: &[u64; WORDS], places: [usize; 2]) -> bool {
        places.iter().all(|place| filter[place / 64] >> (place % 64) & 1 == 1)
    }

    /// A block was accessed.
    #[inline]
    fn record(&mut self, block: u32) {
        self.mark(block);
        self.accesses += 1;
        if self.accesses == PERIOD {
            self.accesses = 0;
            self.current = (self.current + 1) % FILTERS;
            self.filters[self.current] = [0; WORDS];
        }
    }

    /// Enter a block as if it was accessed.
    #[inline]
    fn mark(&mut self, block: u32) {
        let places = Self::places(block);
        for step in 0..FILTERS {
            let filter = &mut self.filters[(self.current + step) % FILTERS];
            if !Self::has(filter, places) {
                for place in places {
                    filter[place / 64] |= 1 << (place % 64);
                }
                break;
            }
        }
    }

    /// In halves.
    fn weight(&self, block: u32) -> u32 {
        let places = Self::places(block);
        let weight = |age: usize| {
            let filter = &self.filters[(self.current + FILTERS - age) % FILTERS];
            if Self::has(filter, places) { (FILTERS - age) as u32 } else { 0 }
        };
        (0..FILTERS).map(weight).sum()
    }

    fn is_hot(&self, block: u32) -> bool {
        self.weight(block) >= HOT
    }

    fn is_cold(&self, block: u32) -> bool {
        self.weight(block) == 0
    }
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    low: u32,
    high: u32,
    /// Where `low` is: the physical unit, or its number in the order in which planes are written.
    place: u32,
    /// Which of the two. The units behind it have the places that follow.
    striped: bool,
    /// `PAGES` or `BLOCKS`.
    part: usize,
    dirty: bool,
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CftlKeys {
    /// Units that a block entry answers for, a power of two. Where they do not
    /// fit in a block of the drive, or do not fill a page, there are no block entries.
    ///
    /// Default: 64, the pages of a block of the paper's flash.
    pub cftl_block_pages: u32,
    /// Whether all changed entries of a translation page are written when it is.
    ///
    /// Default: off, as the mapping-cache paper does not mention it.
    pub flush_coalesce: bool,
}

impl Default for CftlKeys {
    fn default() -> Self {
        Self { cftl_block_pages: 64, flush_coalesce: false }
    }
}

impl Scheme for Cftl {
    const SUMMARY: &'static str = "Entries for runs of units, and for blocks that are read often and written rarely, \
                                   which collection puts in order.";
    const SOURCE: &'static str = "CFTL: Park, Debnath, Du, SIGMETRICS 2010";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast { key: "cftl_block_pages", value: "2", with: &["map_cache.bytes=3072"] },
        Contrast { key: "flush_coalesce", value: "true", with: &["map_cache.bytes=3072"] },
    ];
    type Keys = CftlKeys;
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Cftl {
    layout: TranslationLayout,
    block_shift: u32,
    fixed_bytes: u64,
    /// For entries.
    memory: u64,
    /// How much of it block entries may take when it is full.
    border: u64,
    step: u64,
    coalesce: bool,
    entries: Vec<Entry>,
    unused: Vec<u32>,
    links: Links,
    parts: [TailedList; 2],
    /// Hits among the least recent entries of each part, and lookups, since the last look at the border.
    tail_hits: [u32; 2],
    lookups: u32,
    /// For each logical unit its page entry plus 1, or 0. Only what was touched takes memory.
    page_entry_of: Vec<u32>,
    /// For each logical block its block entry plus 1, or 0.
    block_entry_of: Vec<u32>,
    /// Which logical blocks are block-mapped, as bits, and how many.
    mapped: Vec<u64>,
    mapped_blocks: u32,
    /// By translation page, those of the block table behind those of the page table.
    changed: Groups,
    reads: Heat,
    writes: Heat,
    /// Where there are several planes.
    plane_order: Option<SuperblockOrder>,
    /// Misses that brought an entry of each part.
    fetched: [u64; 2],
    /// A unit that was not where its entry says.
    wrong: Option<u32>,
}

impl MapCacheScheme for Cftl {
    fn new(keys: &CftlKeys, bytes: u64, layout: TranslationLayout) -> Self {
        let fixed_bytes = fixed_bytes(layout);
        let memory = bytes - fixed_bytes;
        let step = (memory / BORDER_STEPS).max(BYTES[PAGES]);
        let blocks = layout.logical_units.div_ceil(keys.cftl_block_pages) as usize;
        Self {
            layout,
            block_shift: keys.cftl_block_pages.trailing_zeros(),
            fixed_bytes,
            memory,
            border: memory / 2,
            step,
            coalesce: keys.flush_coalesce,
            entries: Vec::new(),
            unused: Vec::new(),
            links: Links::default(),
            parts: BYTES.map(|bytes| TailedList::new((step / bytes) as u32)),
            tail_hits: [0; 2],
            lookups: 0,
            page_entry_of: vec![0; layout.logical_units as usize],
            block_entry_of: vec![0; blocks],
            mapped: vec![0; blocks.div_ceil(64)],
            mapped_blocks: 0,
            changed: Groups::new(layout.all_pages()),
            reads: Heat::new(),
            writes: Heat::new(),
            plane_order: None,
            fetched: [0; 2],
            wrong: None,
        }
    }

    fn check_keys(keys: &CftlKeys, page: PageSizes) -> Result<(), ConfigError> {
        let (entries, units) = (page.page_bytes / u64::from(ENTRY_BYTES), keys.cftl_block_pages);
        if !units.is_power_of_two() || units == 1 || u64::from(units) > entries {
            let expected = format!("must be a power of two, from 2 to the entries of a page ({entries})");
            return refuse("cftl_block_pages", units, expected);
        }
        Ok(())
    }

    /// Filters, bits of blocks, and what a change in the middle of a block makes of it.
    fn least_bytes(_: &CftlKeys, _: u64, layout: TranslationLayout) -> u64 {
        fixed_bytes(layout) + 3 * BYTES[PAGES] + BYTES[BLOCKS]
    }

    fn whole_table_bytes(_: &CftlKeys, layout: TranslationLayout) -> u64 {
        let [units, blocks] = [layout.logical_units, layout.blocks()].map(u64::from);
        2048 + blocks.div_ceil(8) + 8 * blocks + 10 * units
    }

    fn table_bytes_at_most(_: &CftlKeys, _: TranslationLayout) -> TableBytes {
        TableBytes { per_unit: 5, per_node: 56, node_bytes: 8, per_page: 8, more: 0 }
    }

    fn block_units(keys: &CftlKeys) -> u32 {
        keys.cftl_block_pages
    }
}

impl Cftl {
    /// Bytes of the entries of a part.
    #[inline]
    fn bytes(&self, part: usize) -> u64 {
        u64::from(self.parts[part].len()) * BYTES[part]
    }

    #[inline]
    fn find(&self, lpn: u32) -> u32 {
        self.page_entry_of[lpn as usize].wrapping_sub(1)
    }

    #[inline]
    fn find_block(&self, block: u32) -> u32 {
        self.block_entry_of[block as usize].wrapping_sub(1)
    }

    #[inline]
    fn is_mapped(&self, block: u32) -> bool {
        self.mapped_blocks > 0 && self.mapped[block as usize / 64] >> (block % 64) & 1 == 1
    }

    fn units_of(&self, block: u32) -> Range<u32> {
        block << self.block_shift..(block + 1) << self.block_shift
    }

    /// The translation page that has an entry.
    #[inline]
    fn page_of(&self, entry: &Entry) -> u32 {
        if entry.part == PAGES {
            self.layout.tpn(Lpn(entry.low))
        } else {
            self.layout.pages() + (entry.low >> self.block_shift >> self.layout.shift)
        }
    }

    /// The place of a physical unit, in the one order or the other.
    #[inline]
    fn place(&self, ppn: u32, striped: bool) -> u32 {
        match &self.plane_order {
            Some(plane_order) if striped && ppn != UNMAPPED => plane_order.number(ppn),
            _ => ppn,
        }
    }

    /// Whether two physical units follow each other.
    #[inline]
    fn follow(&self, before: u32, ppn: u32, striped: bool) -> bool {
        before != UNMAPPED
            && ppn != UNMAPPED
            && self.place(before, striped).wrapping_add(1) == self.place(ppn, striped)
    }

    /// The longest run from `low` on, to `last` at most and as far as `may_follow` lets it.
    fn run(&self, low: u32, last: u32, table: &[u32], may_follow: impl Fn(u32) -> bool) -> Entry {
        let of_order = |striped: bool| {
            let (place, mut high) = (self.place(table[low as usize], striped), low);
            let follows = |unit: u32| {
                let ppn = table[unit as usize];
                ppn != UNMAPPED && self.place(ppn, striped) == place.wrapping_add(unit - low)
            };
            if table[low as usize] != UNMAPPED {
                while high < last && follows(high + 1) && may_follow(high + 1) {
                    high += 1;
                }
            }
            Entry { low, high, place, striped, part: PAGES, dirty: false }
        };
        let run = of_order(false);
        if self.plane_order.is_none() || run.high == last {
            return run;
        }
        let striped = of_order(true);
        if striped.high > run.high { striped } else { run }
    }

    /// Enter an entry as the most recent.
    fn enter(&mut self, entry: Entry) {
        let Entry { low, high, part, dirty, .. } = entry;
        let entry = Entry { dirty: false, ..entry };
        let node = if let Some(node) = self.unused.pop() {
            self.entries[node as usize] = entry;
            node
        } else {
            self.entries.push(entry);
            let node = self.entries.len() as u32 - 1;
            self.links.reach(node);
            self.changed.reach(node);
            for order in &mut self.parts {
                order.reach(node);
            }
            node
        };
        self.parts[part].enter(&mut self.links, node);
        self.point(low, high, part, node + 1);
        if dirty {
            self.set_dirty(node);
        }
    }

    fn leave(&mut self, node: u32) {
        if self.entries[node as usize].dirty {
            self.set_clean(node);
        }
        let Entry { low, high, part, .. } = self.entries[node as usize];
        self.point(low, high, part, 0);
        self.parts[part].remove(&mut self.links, node);
        self.unused.push(node);
    }

    #[inline]
    fn point(&mut self, low: u32, high: u32, part: usize, to: u32) {
        if part == PAGES {
            self.page_entry_of[low as usize..=high as usize].fill(to);
        } else {
            self.block_entry_of[(low >> self.block_shift) as usize] = to;
        }
    }

    fn set_dirty(&mut self, node: u32) {
        self.entries[node as usize].dirty = true;
        self.changed.enter(self.page_of(&self.entries[node as usize]), node);
    }

    fn set_clean(&mut self, node: u32) {
        self.entries[node as usize].dirty = false;
        self.changed.leave(self.page_of(&self.entries[node as usize]), node);
    }

    /// Flash has all that was changed of a translation page. That a block is not block-mapped is known without an entry.
    fn clean(&mut self, tpn: u32) {
        while self.changed.first(tpn) != NONE {
            let node = self.changed.first(tpn);
            self.set_clean(node);
            let Entry { part, place, .. } = self.entries[node as usize];
            if part == BLOCKS && place == UNMAPPED {
                self.leave(node);
            }
        }
    }

    /// Take `low` to `high` out of a run; what is left on either side stays.
    fn cut(&mut self, node: u32, low: u32, high: u32) {
        let run = self.entries[node as usize];
        self.leave(node);
        if run.low < low {
            self.enter(Entry { high: low - 1, ..run });
        }
        if run.high > high {
            let place = run.place.wrapping_add(high + 1 - run.low);
            self.enter(Entry { low: high + 1, place, ..run });
        }
    }

    /// The page entry of `lpn`, which has one, is changed: it stands alone, and the most recent.
    fn change(&mut self, lpn: u32, ppn: u32) {
        let node = self.find(lpn);
        let run = &mut self.entries[node as usize];
        if run.low == lpn && run.high == lpn && run.dirty {
            (run.place, run.striped) = (ppn, false);
            self.parts[PAGES].touch(&mut self.links, node);
            return;
        }
        self.cut(node, lpn, lpn);
        self.enter(Entry { low: lpn, high: lpn, place: ppn, striped: false, part: PAGES, dirty: true });
    }

    /// The entry of `block` in the block table, whose units lie in order from `ppn` on.
    fn block_entry(&self, block: u32, ppn: u32) -> Entry {
        let Range { start, end } = self.units_of(block);
        Entry { low: start, high: end - 1, place: ppn, striped: false, part: BLOCKS, dirty: false }
    }

    /// The entry of `block` in the block table changes.
    fn change_block(&mut self, block: u32, ppn: u32) {
        let node = self.find_block(block);
        if node == NONE {
            self.enter(Entry { dirty: true, ..self.block_entry(block, ppn) });
        } else {
            self.entries[node as usize].place = ppn;
            if !self.entries[node as usize].dirty {
                self.set_dirty(node);
            }
        }
    }

    /// A block-mapped block becomes page-mapped, its units being where `table` says.
    fn scatter(&mut self, block: u32, table: &[u32]) {
        self.mapped[block as usize / 64] &= !(1 << (block % 64));
        self.mapped_blocks -= 1;
        self.writes.mark(block);
        self.change_block(block, UNMAPPED);
        let units = self.units_of(block);
        let mut low = units.start;
        while low < units.end {
            let run = self.run(low, units.end - 1, table, |_| true);
            low = run.high + 1;
            self.enter(Entry { dirty: true, ..run });
        }
    }

    /// Let the least recent entries go until `need` more bytes of `part` fit.
    fn make_room(&mut self, part: usize, need: u64, ops: &mut Vec<MapOp>) {
        while self.bytes(PAGES) + self.bytes(BLOCKS) + need > self.memory {
            let blocks = self.bytes(BLOCKS) + if part == BLOCKS { need } else { 0 };
            let prefer = if blocks > self.border { BLOCKS } else { PAGES };
            let from = if self.parts[prefer].len() > 0 { prefer } else { 1 - prefer };
            let node = self.parts[from].oldest();
            let entry = self.entries[node as usize];
            self.leave(node);
            if entry.dirty {
                let tpn = self.page_of(&entry);
                let known = if from == PAGES { entry.high - entry.low + 1 } else { 1 };
                let rest_bytes = self.layout.page_bytes() - known * ENTRY_BYTES;
                ops.push(MapOp::WriteBack { tpn, rest_bytes });
                if self.coalesce {
                    self.clean(tpn);
                }
            }
        }
    }

    /// Serve a miss of a block-mapped block.
    fn fetch_block(&mut self, block: u32, table: &[u32], ops: &mut Vec<MapOp>) {
        let entry = self.block_entry(block, table[(block << self.block_shift) as usize]);
        self.make_room(BLOCKS, BYTES[BLOCKS], ops);
        ops.push(MapOp::Fetch {
            tpn: self.page_of(&entry),
            bytes: ENTRY_BYTES,
            units: (Lpn(entry.low), Lpn(entry.high)),
        });
        self.enter(entry);
        self.fetched[BLOCKS] += 1;
    }

    /// Serve a miss of a unit that is page-mapped.
    fn fetch(&mut self, lpn: Lpn, table: &[u32], ops: &mut Vec<MapOp>) {
        let tpn = self.layout.tpn(lpn);
        let last = self.layout.last(tpn).0;
        let is_other = |unit: u32| self.find(unit) != NONE || self.is_mapped(unit >> self.block_shift);
        let run = self.run(lpn.0, last, table, |unit| !is_other(unit));
        self.make_room(PAGES, BYTES[PAGES], ops);
        let scanned = (run.high - lpn.0 + 2).min(last - lpn.0 + 1);
        ops.push(MapOp::Fetch { tpn, bytes: scanned * ENTRY_BYTES, units: (lpn, Lpn(run.high)) });
        self.enter(run);
        self.fetched[PAGES] += 1;
    }

    /// Now and then, move the border to the side of the part that would lose more hits if it were smaller.
    fn adapt(&mut self) {
        self.lookups += 1;
        if self.lookups < BORDER_PERIOD {
            return;
        }
        self.lookups = 0;
        let [pages, blocks] = std::mem::take(&mut self.tail_hits);
        let (step, most) = (self.step, self.memory - self.step);
        if blocks > pages && self.bytes(BLOCKS) + step > self.border {
            self.border = (self.border + step).min(most);
        } else if pages > blocks && self.bytes(PAGES) + step > self.memory - self.border {
            self.border = self.border.saturating_sub(step).max(step);
        }
    }
}

/// Whether the places follow each other.
pub(crate) fn follow(places: &[u32]) -> bool {
    places.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]))
}

impl MapCache for Cftl {
    fn lookup(&mut self, lookup: Lookup, table: &[u32], ops: &mut Vec<MapOp>) -> bool {
        let lpn = lookup.lpn;
        let block = lpn.0 >> self.block_shift;
        let heat = if lookup.intent == Intent::Read { &mut self.reads } else { &mut self.writes };
        heat.record(block);
        let by_block = self.is_mapped(block);
        let node = if by_block { self.find_block(block) } else { self.find(lpn.0) };
        let hit = node != NONE;
        if hit {
            let Entry { low, place, striped, part, .. } = self.entries[node as usize];
            self.tail_hits[part] += u32::from(self.parts[part].touch(&mut self.links, node));
            if place.wrapping_add(lpn.0 - low) != self.place(table[lpn.index()], striped) {
                self.wrong = Some(lpn.0);
            }
        } else if by_block {
            self.fetch_block(block, table, ops);
        } else {
            self.fetch(lpn, table, ops);
        }
        if lookup.changes() {
            if by_block {
                self.scatter(block, table);
            }
            self.change(lpn.0, table[lpn.index()]);
        }
        self.adapt();
        // A change takes up to three entries more, of which that of this unit is the most recent.
        self.make_room(PAGES, 0, ops);
        hit
    }

    fn look_ahead(&self, lpn: Lpn, stage: u32) {
        self.links.look_ahead_for(&self.entries, &self.page_entry_of, lpn.index(), stage);
    }

    fn changed(&mut self, lpn: Lpn, _: u32, table: &[u32]) {
        let block = lpn.0 >> self.block_shift;
        if self.is_mapped(block) {
            self.scatter(block, table);
            return;
        }
        let (node, ppn) = (self.find(lpn.0), table[lpn.index()]);
        if node == NONE {
            return;
        }
        self.change(lpn.0, ppn);
        // A changed run that ends here goes on.
        let before =
            if lpn.0 > self.layout.first(self.layout.tpn(lpn)).0 { self.find(lpn.0 - 1) } else { NONE };
        if before == NONE || ppn == UNMAPPED {
            return;
        }
        let mut run = self.entries[before as usize];
        let last = table[lpn.index() - 1];
        if run.low == run.high {
            // In either order.
            run.striped = self.plane_order.is_some() && self.follow(last, ppn, true);
            run.place = self.place(last, run.striped);
        }
        if run.dirty && self.follow(last, ppn, run.striped) {
            self.leave(self.find(lpn.0));
            self.entries[before as usize] = Entry { high: lpn.0, ..run };
            self.page_entry_of[lpn.index()] = before + 1;
            self.parts[PAGES].touch(&mut self.links, before);
        }
    }

    fn moved(&mut self, lpn: Lpn, table: &[u32]) -> bool {
        let block = lpn.0 >> self.block_shift;
        if self.is_mapped(block) {
            let units = self.units_of(block);
            let node = self.find_block(block);
            let known = |node: u32| self.entries[node as usize].place.wrapping_add(lpn.0 - units.start);
            if node == NONE || known(node) != table[lpn.index()] {
                let places = &table[units.start as usize..units.end as usize];
                if follow(places) {
                    self.change_block(block, places[0]);
                } else {
                    self.scatter(block, table);
                }
            }
            return true;
        }
        let found = self.find(lpn.0) != NONE;
        if found {
            self.change(lpn.0, table[lpn.index()]);
        }
        found
    }

    fn rewritten(&mut self, tpn: u32) {
        if self.coalesce {
            self.clean(tpn);
        }
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        let node = self.find(lpn.0);
        node != NONE && self.entries[node as usize].dirty
    }

    fn used_bytes(&self) -> u64 {
        self.fixed_bytes + self.bytes(PAGES) + self.bytes(BLOCKS)
    }

    fn wishes(&self) -> Option<&dyn PlacementWishes> {
        Some(self)
    }

    fn wishes_mut(&mut self) -> Option<&mut dyn PlacementWishes> {
        Some(self)
    }

    fn reset_counts(&mut self) {
        self.fetched = [0; 2];
    }

    fn report(&self) -> CacheReport {
        let content_bytes = [
            ("bitmap", self.fixed_bytes - 2 * Heat::BYTES),
            ("block_entries", self.bytes(BLOCKS)),
            ("filters", 2 * Heat::BYTES),
            ("page_entries", self.bytes(PAGES)),
        ];
        let windows = [("block", self.fetched[BLOCKS]), ("run", self.fetched[PAGES])];
        let scores =
            [("block_mapped", f64::from(self.mapped_blocks)), ("block_part_bytes", self.border as f64)];
        CacheReport {
            windows: windows.map(|(name, count)| (name.into(), count)).into(),
            scores: scores.map(|(name, score)| (name.into(), score)).into(),
            content_bytes: content_bytes.map(|(name, bytes)| (name.into(), bytes)).into(),
        }
    }

    fn check(&self) -> Result<(), String> {
        if let Some(lpn) = self.wrong {
            return Err(format!("logical unit {lpn} was not where its entry says"));
        }
        let (mut units, mut blocks, mut dirty) = (0, 0, 0);
        for node in self.parts.iter().flat_map(|order| order.iter(&self.links)) {
            let entry = self.entries[node as usize];
            let Entry { low, high, part, .. } = entry;
            dirty += usize::from(entry.dirty);
            let right = if part == PAGES {
                units += (high - low) as usize + 1;
                self.layout.tpn(Lpn(low)) == self.layout.tpn(Lpn(high))
                    && (low..=high)
                        .all(|lpn| self.find(lpn) == node && !self.is_mapped(lpn >> self.block_shift))
            } else {
                blocks += 1;
                let block = low >> self.block_shift;
                self.find_block(block) == node
                    && self.units_of(block) == (low..high + 1)
                    && self.is_mapped(block) == (entry.place != UNMAPPED)
                    && (entry.dirty || entry.place != UNMAPPED)
            };
            if !right {
                return Err(format!("{entry:?} is not found, or not what it should be"));
            }
        }
        let found = |entries: &[u32]| entries.iter().filter(|entry| **entry != 0).count();
        let told = (found(&self.page_entry_of), found(&self.block_entry_of));
        if told != (units, blocks) {
            return Err(format!("{units} units and {blocks} blocks in entries, {told:?} found"));
        }
        let mapped: u32 = self.mapped.iter().map(|bits| bits.count_ones()).sum();
        if mapped != self.mapped_blocks {
            return Err(format!("{mapped} blocks are block-mapped, {} counted", self.mapped_blocks));
        }
        let mut changed = 0;
        for tpn in 0..self.layout.all_pages() {
            let mut node = self.changed.first(tpn);
            while node != NONE {
                changed += 1;
                node = self.changed.next(node);
            }
        }
        if changed != dirty {
            return Err(format!("{dirty} entries have changed, {changed} are known to have"));
        }
        if self.border < self.step || self.border + self.step > self.memory {
            return Err(format!("the border is at {} of {} bytes", self.border, self.memory));
        }
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        self.links.table_bytes()
            + self.parts.iter().map(TailedList::table_bytes).sum::<u64>()
            + (self.entries.capacity() * size_of::<Entry>()) as u64
            + (self.page_entry_of.capacity() + self.block_entry_of.capacity() + self.unused.capacity()) as u64
                * 4
            + self.mapped.capacity() as u64 * 8
            + self.changed.table_bytes()
            + self.plane_order.as_ref().map_or(0, SuperblockOrder::table_bytes)
            + 2 * size_of::<Heat>() as u64
    }
}

impl PlacementWishes for Cftl {
    fn wants_gathered(&self, lpn: Lpn, table: &[u32]) -> Option<Range<u32>> {
        let block = lpn.0 >> self.block_shift;
        let units = self.units_of(block);
        if self.layout.block_units == 0
            || units.end > self.layout.logical_units
            || self.is_mapped(block)
            || !self.reads.is_hot(block)
            || !self.writes.is_cold(block)
        {
            return None;
        }
        (!table[units.start as usize..units.end as usize].contains(&UNMAPPED)).then_some(units)
    }

    fn gathered(&mut self, units: Range<u32>, table: &[u32]) {
        let block = units.start >> self.block_shift;
        for lpn in units.clone() {
            let node = self.find(lpn);
            if node != NONE {
                self.cut(node, units.start, units.end - 1);
            }
        }
        self.mapped[block as usize / 64] |= 1 << (block % 64);
        self.mapped_blocks += 1;
        self.change_block(block, table[units.start as usize]);
    }

    fn is_block_mapped(&self, block: u32) -> bool {
        self.is_mapped(block)
    }

    fn is_block_dirty(&self, block: u32) -> bool {
        let node = self.find_block(block);
        node != NONE && self.entries[node as usize].dirty
    }

    fn set_plane_order(&mut self, plane_order: SuperblockOrder) {
        self.plane_order = (plane_order.planes() > 1).then_some(plane_order);
    }

    fn opened(&mut self, block: BlockId, by_host: bool) {
        if let Some(plane_order) = &mut self.plane_order {
            plane_order.opened(block, by_host);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapcache::superblock_order::superblock_order;
    use crate::rng::Rng;

    /// Filters, and a bit for each of 256 blocks.
    const FIXED: u64 = 2 * 1024 + 32;

    /// Two translation pages, and one of the block table.
    fn cache(bytes: u64) -> (Cftl, Vec<u32>) {
        let keys = CftlKeys { cftl_block_pages: 8, ..CftlKeys::default() };
        (
            Cftl::new(
                &keys,
                bytes,
                TranslationLayout { logical_units: 2048, shift: 10, planes: 1, slots: 1, block_units: 8 },
            ),
            (0..2048).collect(),
        )
    }

    fn access(cache: &mut Cftl, lpn: u32, intent: Intent, table: &[u32]) -> (bool, Vec<MapOp>) {
        let mut ops = Vec::new();
        let hit = cache.lookup(Lookup { lpn: Lpn(lpn), intent, rest: 0 }, table, &mut ops);
        cache.check().unwrap();
        (hit, ops)
    }

    fn write(cache: &mut Cftl, lpn: u32, ppn: u32, table: &mut [u32]) -> (bool, Vec<MapOp>) {
        let told = access(cache, lpn, Intent::Write, table);
        let old = std::mem::replace(&mut table[lpn as usize], ppn);
        cache.changed(Lpn(lpn), old, table);
        cache.check().unwrap();
        told
    }

    /// Collection puts a block of eight units in order, from `ppn` on.
    fn gather(cache: &mut Cftl, block: u32, ppn: u32, table: &mut [u32]) {
        for at in 0..8 {
            table[(block * 8 + at) as usize] = ppn + at;
        }
        cache.gathered(block * 8..block * 8 + 8, table);
        cache.check().unwrap();
    }

    fn shrink(cache: &mut Cftl, memory: u64, border: u64) {
        (cache.memory, cache.border, cache.step) = (memory, border, border);
    }

    /// First and last unit of the entries of a part, and whether changed, in order of recency.
    fn entries(cache: &Cftl, part: usize) -> Vec<(u32, u32, bool)> {
        let entry = |node| cache.entries[node as usize];
        let entries = cache.parts[part].iter(&cache.links).map(entry);
        entries.map(|entry| (entry.low, entry.high, entry.dirty)).collect()
    }

    /// As many entries as `entries`, from `first` on, and the one that shows that the run ends.
    fn fetch(first: u32, entries: u32) -> MapOp {
        let scanned = entries + u32::from(first + entries < 1024);
        MapOp::Fetch { tpn: 0, bytes: scanned * 4, units: (Lpn(first), Lpn(first + entries - 1)) }
    }

    #[test]
    fn a_run_is_one_entry_until_a_change_splits_it() {
        let (mut cache, mut table) = cache(1 << 16);
        for entry in &mut table[20..] {
            *entry += 500;
        }
        // From 10 on, until the places jump: ten entries, and the one that shows it.
        assert_eq!(access(&mut cache, 10, Intent::Read, &table), (false, vec![fetch(10, 10)]));
        assert_eq!(access(&mut cache, 19, Intent::Read, &table), (true, vec![]));
        assert_eq!(access(&mut cache, 20, Intent::Read, &table), (false, vec![fetch(20, 1004)]));
        // The run before ends where this one starts.
        assert_eq!(access(&mut cache, 5, Intent::Read, &table), (false, vec![fetch(5, 5)]));
        assert_eq!(cache.used_bytes(), FIXED + 3 * 10);
        assert_eq!(write(&mut cache, 15, 9000, &mut table), (true, vec![]));
        assert_eq!(
            entries(&cache, PAGES),
            [(15, 15, true), (16, 19, false), (10, 14, false), (5, 9, false), (20, 1023, false)]
        );
        // Written after each other: one changed run, at the cost of the clean one.
        assert_eq!(write(&mut cache, 16, 9001, &mut table), (true, vec![]));
        assert_eq!(entries(&cache, PAGES)[..3], [(15, 16, true), (17, 19, false), (10, 14, false)]);
        assert!(cache.is_dirty(Lpn(16)) && !cache.is_dirty(Lpn(17)));
        // The least recent leaves with the rest of its page.
        for lpn in [10, 17, 5, 20] {
            access(&mut cache, lpn, Intent::Read, &table);
        }
        shrink(&mut cache, 50, 10);
        let ops = access(&mut cache, 1500, Intent::Read, &table).1;
        assert_eq!(ops[0], MapOp::WriteBack { tpn: 0, rest_bytes: 4096 - 8 });
    }

    #[test]
    fn runs_go_round_the_planes_or_along_one() {
        let text = r#"{ "geometry": { "channels": 4, "ways": 1, "blocks_per_plane": 8, "pages_per_block": 256,
            "page_bytes": 4096 }, "ftl": { "over_provisioning": 0.7 } }"#;
        let (mut cache, mut table) = cache(1 << 16);
        cache.set_plane_order(superblock_order(text));
        // The first 512 units go round the planes, in blocks that were opened one after the other.
        let rows = [3, 5, 0, 7];
        let block = |plane: u32| plane * 8 + rows[plane as usize];
        (0..4).for_each(|plane| cache.opened(BlockId(block(plane)), true));
        for (lpn, ppn) in (0..512).zip(&mut table) {
            *ppn = block(lpn % 4) * 256 + lpn / 4;
        }
        // The others are in two planes, one after the other.
        for (lpn, ppn) in (0..).zip(&mut table).skip(512) {
            *ppn = (lpn / 256) % 4 * 8 * 256 + lpn % 256;
        }
        assert_eq!(access(&mut cache, 10, Intent::Read, &table), (false, vec![fetch(10, 502)]));
        assert_eq!(access(&mut cache, 511, Intent::Read, &table), (true, vec![]));
        assert_eq!(access(&mut cache, 600, Intent::Read, &table), (false, vec![fetch(600, 168)]));
        // A write takes one unit out of its run, and writes to planes in turn make a run.
        for (lpn, ppn) in [(100, 220), (101, 210), (102, 230)] {
            write(&mut cache, lpn, block(0) * 256 + ppn, &mut table);
        }
        let changed: Vec<_> = entries(&cache, PAGES).into_iter().filter(|(_, _, dirty)| *dirty).collect();
        assert_eq!(changed, [(102, 102, true), (101, 101, true), (100, 100, true)]);
        for lpn in 100..104 {
            write(&mut cache, lpn, block(lpn % 4) * 256 + 200, &mut table);
        }
        for lpn in 700..704 {
            write(&mut cache, lpn, 31 * 256 + lpn - 700, &mut table);
        }
        let changed: Vec<_> = entries(&cache, PAGES).into_iter().filter(|(_, _, dirty)| *dirty).collect();
        assert_eq!(changed, [(700, 703, true), (100, 103, true)]);
        for lpn in [99, 100, 103, 104, 699, 700, 703, 704] {
            assert!(access(&mut cache, lpn, Intent::Read, &table).0, "{lpn}");
        }
        // Collection moves a unit out of the middle, and the rest stays true.
        table[101] = 30 * 256;
        assert!(cache.moved(Lpn(101), &table));
        for lpn in 98..106 {
            assert!(access(&mut cache, lpn, Intent::Read, &table).0, "{lpn}");
        }
        // What was gathered in one plane is one run there.
        gather(&mut cache, 3, 29 * 256, &mut table);
        write(&mut cache, 26, 28 * 256, &mut table);
        let pages = entries(&cache, PAGES);
        assert_eq!(pages[..3], [(26, 26, true), (27, 31, true), (24, 25, true)]);
    }

    #[test]
    fn blocks_that_are_read_often_and_not_written_are_wanted_in_order() {
        let (mut cache, mut table) = cache(1 << 16);
        table[50] = UNMAPPED;
        // Four reads enter a block in four filters; one write is enough not to be cold.
        for _ in 0..4 {
            for lpn in [26, 42, 48] {
                access(&mut cache, lpn, Intent::Read, &table);
            }
        }
        write(&mut cache, 42, 7000, &mut table);
        assert_eq!(cache.wants_gathered(Lpn(28), &table), Some(24..32));
        // Written; a unit missing; not read.
        for lpn in [42, 48, 32] {
            assert_eq!(cache.wants_gathered(Lpn(lpn), &table), None);
        }
        gather(&mut cache, 3, 5000, &mut table);
        assert_eq!(cache.wants_gathered(Lpn(28), &table), None);
    }

    #[test]
    fn a_gathered_block_is_one_entry_of_the_block_table() {
        let (mut cache, mut table) = cache(1 << 16);
        access(&mut cache, 20, Intent::Read, &table);
        gather(&mut cache, 3, 24, &mut table);
        // The run around it has lost it; its page entries in flash are nothing to it any more.
        assert_eq!(entries(&cache, PAGES), [(32, 1023, false), (20, 23, false)]);
        assert_eq!(entries(&cache, BLOCKS), [(24, 31, true)]);
        assert!(cache.is_block_mapped(3) && cache.is_block_dirty(3) && !cache.is_dirty(Lpn(24)));
        assert_eq!(cache.used_bytes(), FIXED + 2 * 10 + 8);
        assert_eq!(access(&mut cache, 27, Intent::Read, &table), (true, vec![]));
        // A run that is fetched ends before it, though it lies there.
        cache.leave(cache.find(20));
        shrink(&mut cache, 20, 5);
        let ops = access(&mut cache, 16, Intent::Read, &table).1;
        assert_eq!(ops, [MapOp::WriteBack { tpn: 2, rest_bytes: 4096 - 4 }, fetch(16, 8)]);
        shrink(&mut cache, 1 << 15, 5);
        let block = MapOp::Fetch { tpn: 2, bytes: 4, units: (Lpn(24), Lpn(31)) };
        assert_eq!(access(&mut cache, 30, Intent::Read, &table), (false, vec![block]));
        assert_eq!(entries(&cache, BLOCKS), [(24, 31, false)]);
        assert_eq!(cache.fetched, [2, 1]);
    }

    #[test]
    fn a_write_makes_pages_of_a_block() {
        let (mut cache, mut table) = cache(1 << 16);
        gather(&mut cache, 3, 5000, &mut table);
        assert_eq!(write(&mut cache, 26, 9000, &mut table), (true, vec![]));
        assert_eq!(entries(&cache, PAGES), [(26, 26, true), (27, 31, true), (24, 25, true)]);
        // The entry of the block says that there is none now, and flash is to know.
        assert_eq!(entries(&cache, BLOCKS), [(24, 31, true)]);
        assert!(!cache.is_block_mapped(3) && cache.is_block_dirty(3));
        assert_eq!(write(&mut cache, 26, UNMAPPED, &mut table), (true, vec![]));
        // Once more, and between the lookup of a write and the write.
        gather(&mut cache, 3, 5000, &mut table);
        assert_eq!(entries(&cache, PAGES), []);
        access(&mut cache, 31, Intent::Write, &table);
        gather(&mut cache, 3, 6000, &mut table);
        table[31] = 7000;
        cache.changed(Lpn(31), 6007, &table);
        cache.check().unwrap();
        assert_eq!(entries(&cache, PAGES), [(31, 31, true), (24, 30, true)]);
        assert!(!cache.is_block_mapped(3));
    }

    #[test]
    fn collection_moves_a_block_as_a_whole_or_makes_pages_of_it() {
        let (mut cache, mut table) = cache(1 << 16);
        gather(&mut cache, 3, 5000, &mut table);
        cache.clean(2);
        for at in 0..8 {
            table[24 + at] = 6000 + at as u32;
        }
        assert!((24..32).all(|lpn| cache.moved(Lpn(lpn), &table)));
        assert!(cache.is_block_mapped(3) && cache.is_block_dirty(3));
        // Half of it goes elsewhere.
        for at in 4..8 {
            table[24 + at] = 7000 + at as u32;
        }
        assert!((28..32).all(|lpn| cache.moved(Lpn(lpn), &table)));
        cache.check().unwrap();
        assert!(!cache.is_block_mapped(3));
        let mut pages = entries(&cache, PAGES);
        pages.sort_unstable();
        let singles = (28..32).map(|lpn| (lpn, lpn, true));
        assert_eq!(pages, [(24, 27, true)].into_iter().chain(singles).collect::<Vec<_>>());
        assert!(!cache.moved(Lpn(2000), &table));
        // Flash knows that there is no block: nothing to keep.
        cache.clean(2);
        assert_eq!(entries(&cache, BLOCKS), []);
    }

    #[test]
    #[ignore = "a long test: make test-long"]
    fn the_border_follows_the_hits_that_either_side_would_lose() {
        // 20 page entries and 25 block entries, or all of one kind.
        let (mut cache, mut table) = cache(FIXED + 400);
        for entry in table.iter_mut().rev().step_by(2) {
            *entry += 10_000;
        }
        assert_eq!((cache.border, cache.step), (200, 25));
        // Without block entries, page entries have it all.
        for lpn in 0..100 {
            access(&mut cache, 1000 + lpn, Intent::Read, &table);
        }
        assert_eq!(entries(&cache, PAGES).len(), 40);
        for block in 0..60 {
            gather(&mut cache, block, 30_000 + 8 * block, &mut table);
        }
        let mut rng = Rng::new(1, "reads");
        let mut read = |cache: &mut Cftl, blocks: u64, pages: u64| {
            for _ in 0..10 * BORDER_PERIOD {
                access(cache, rng.below(blocks) as u32 * 8, Intent::Read, &table);
                access(cache, 1000 + rng.below(pages) as u32, Intent::Read, &table);
            }
            [PAGES, BLOCKS].map(|part| entries(cache, part).len())
        };
        // As many reads of few blocks as of many pages: memory is for blocks, and the other way round.
        let [pages, blocks] = read(&mut cache, 30, 500);
        assert!(blocks == 30 && pages == 16, "{pages}, {blocks}");
        let [pages, blocks] = read(&mut cache, 60, 24);
        assert!(pages == 24 && blocks == 20, "{pages}, {blocks}");
    }

    #[test]
    fn heat_fades() {
        let mut heat = Heat::new();
        for _ in 0..4 {
            heat.record(9);
        }
        assert!(heat.is_hot(9));
        // Without an access, a filter is emptied every 512 others: 5 is the weight of all four at first, then less.
        let mut periods = 0;
        while !heat.is_cold(9) {
            for _ in 0..PERIOD {
                heat.record(1 << 20);
            }
            periods += 1;
            assert!(!heat.is_hot(9));
        }
        assert_eq!(periods, FILTERS);
    }
}
