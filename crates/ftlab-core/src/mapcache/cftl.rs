//! CFTL: entries that answer for runs, and block entries for data that are read often and written rarely.
//!
//! The cached page mapping table (CPMT) has entries of 10 bytes: logical unit 4, physical unit 4, and how many of the units
//! that follow lie in the places that follow, 2. A miss scans its translation page for them: what crosses the bus is the run and
//! the entry that ends it. A change within a run splits it; a changed unit that follows a changed run joins it. The cached
//! block mapping table (CBMT) has entries of 8 bytes for a logical block of `cftl_block_pages` units. Two groups of four
//! Bloom filters (2048 bits each, two hashes; 1 KiB a group, charged) tell how hot a block is for reads and for writes: an
//! access enters the block in the first filter, from the current one on, that does not have it; every 512 accesses
//! the oldest filter is emptied and becomes the current one. Filters that have the block count 2, 1.5, 1 and 0.5, from
//! the youngest to the oldest, and 4 is hot.
//!
//! What is interpretation, and what is missing:
//! - Conversion: when collection moves a unit of a logical block that is read-hot and write-cold, the translation layer is
//!   asked to gather the block in order (`wants_gathered`), which it does when the block for copies has room. A miss in
//!   such a block brings a block entry when its units follow each other in flash. The first write to it makes it page-mapped
//!   again. The translation layer underneath stays a page mapping. The model of the cache alone has no collection, and so no
//!   conversion.
//! - A block entry is read from the translation page of its units: there is no block table in flash.
//! - Page and block entries share one LRU order over all bytes, which divides memory as recency does. The paper has two
//!   caches and moves the border between them.
//! - A block with a changed entry gets no block entry; a change within one makes runs of it.

use std::ops::Range;

use crate::config::MapCacheConfig;
use crate::geometry::Lpn;
use crate::mapcache::lru::{Groups, Links, List, NONE};
use crate::mapcache::{ENTRY_BYTES, Insight, Intent, Lookup, MapCache, MapOp, Shape};

/// Bytes of a page entry and of a block entry.
const PAGE_BYTES: u64 = 10;
const BLOCK_BYTES: u64 = 8;

/// No physical unit.
const UNMAPPED: u32 = u32::MAX;

const FILTERS: usize = 4;
const WORDS: usize = 32;
const PERIOD: u32 = 512;
/// 4, in halves.
const HOT: u32 = 8;

/// The least memory that will do: the filters, and what a change in the middle of a run makes of it.
pub const LEAST_BYTES: u64 = 2 * Heat::BYTES + 3 * PAGE_BYTES;

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

    #[inline]
    fn record(&mut self, block: u32) {
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
        self.accesses += 1;
        if self.accesses == PERIOD {
            self.accesses = 0;
            self.current = (self.current + 1) % FILTERS;
            self.filters[self.current] = [0; WORDS];
        }
    }

    fn is_hot(&self, block: u32) -> bool {
        let places = Self::places(block);
        let weight = |age: usize| {
            let filter = &self.filters[(self.current + FILTERS - age) % FILTERS];
            if Self::has(filter, places) { (FILTERS - age) as u32 } else { 0 }
        };
        (0..FILTERS).map(weight).sum::<u32>() >= HOT
    }
}

#[derive(Debug, Clone, Copy)]
struct Run {
    low: u32,
    high: u32,
    /// Where `low` is.
    ppn: u32,
    /// A block entry.
    block: bool,
    dirty: bool,
}

impl Run {
    fn bytes(&self) -> u64 {
        if self.block { BLOCK_BYTES } else { PAGE_BYTES }
    }
}

/// See the module.
#[derive(Debug)]
pub struct Cftl {
    shape: Shape,
    block_shift: u32,
    capacity: u64,
    used: u64,
    coalesce: bool,
    runs: Vec<Run>,
    unused: Vec<u32>,
    links: Links,
    order: List,
    /// For each logical unit its run plus 1, or 0. Only what was touched takes memory.
    run_of: Vec<u32>,
    /// By translation page.
    changed: Groups,
    reads: Heat,
    writes: Heat,
    /// A unit that was not where its run says.
    wrong: Option<u32>,
}

impl Cftl {
    /// Empty, for a drive of this shape.
    pub fn new(config: &MapCacheConfig, shape: Shape) -> Self {
        Self {
            shape,
            block_shift: config.cftl_block_pages.trailing_zeros(),
            capacity: config.bytes,
            used: 2 * Heat::BYTES,
            coalesce: config.flush_coalesce,
            runs: Vec::new(),
            unused: Vec::new(),
            links: Links::default(),
            order: List::new(),
            run_of: vec![0; shape.logical_units as usize],
            changed: Groups::new(shape.pages()),
            reads: Heat::new(),
            writes: Heat::new(),
            wrong: None,
        }
    }

    #[inline]
    fn find(&self, lpn: u32) -> u32 {
        self.run_of[lpn as usize].wrapping_sub(1)
    }

    /// Enter a run as the most recent.
    fn enter(&mut self, low: u32, high: u32, ppn: u32, block: bool, dirty: bool) {
        let run = Run { low, high, ppn, block, dirty: false };
        self.used += run.bytes();
        let node = if let Some(node) = self.unused.pop() {
            self.runs[node as usize] = run;
            node
        } else {
            self.runs.push(run);
            let node = self.runs.len() as u32 - 1;
            self.links.reach(node);
            self.changed.reach(node);
            node
        };
        self.order.enter(&mut self.links, node);
        self.run_of[low as usize..=high as usize].fill(node + 1);
        if dirty {
            self.set_dirty(node);
        }
    }

    fn leave(&mut self, node: u32) {
        if self.runs[node as usize].dirty {
            self.set_clean(node);
        }
        let run = self.runs[node as usize];
        self.used -= run.bytes();
        self.run_of[run.low as usize..=run.high as usize].fill(0);
        self.order.remove(&mut self.links, node);
        self.unused.push(node);
    }

    fn set_dirty(&mut self, node: u32) {
        let run = &mut self.runs[node as usize];
        run.dirty = true;
        self.changed.enter(self.shape.tpn(Lpn(run.low)), node);
    }

    fn set_clean(&mut self, node: u32) {
        let run = &mut self.runs[node as usize];
        run.dirty = false;
        self.changed.leave(self.shape.tpn(Lpn(run.low)), node);
    }

    fn clean(&mut self, tpn: u32) {
        while self.changed.first(tpn) != NONE {
            self.set_clean(self.changed.first(tpn));
        }
    }

    /// Take `low` to `high` out of a run; what is left on either side stays, as page entries.
    fn cut(&mut self, node: u32, low: u32, high: u32) {
        let run = self.runs[node as usize];
        self.leave(node);
        if run.low < low {
            self.enter(run.low, low - 1, run.ppn, false, run.dirty);
        }
        if run.high > high {
            self.enter(high + 1, run.high, run.ppn + (high + 1 - run.low), false, run.dirty);
        }
    }

    /// The entry of `lpn`, which has one, is changed: it stands alone, and the most recent.
    fn change(&mut self, lpn: u32, ppn: u32) {
        let node = self.find(lpn);
        let run = &mut self.runs[node as usize];
        if run.low == lpn && run.high == lpn && run.dirty && !run.block {
            run.ppn = ppn;
            self.order.touch(&mut self.links, node);
            return;
        }
        self.cut(node, lpn, lpn);
        self.enter(lpn, lpn, ppn, false, true);
    }

    /// Let the least recent entries go until `need` more bytes fit.
    fn make_room(&mut self, need: u64, ops: &mut Vec<MapOp>) {
        while self.used + need > self.capacity && self.order.oldest != NONE {
            let node = self.order.oldest;
            let Run { low, high, dirty, .. } = self.runs[node as usize];
            if dirty {
                let tpn = self.shape.tpn(Lpn(low));
                let rest_bytes = self.shape.page_bytes() - (high - low + 1) * ENTRY_BYTES;
                ops.push(MapOp::WriteBack { tpn, rest_bytes });
                if self.coalesce {
                    self.clean(tpn);
                }
            }
            self.leave(node);
        }
    }

    /// Take the block of `lpn` into the block table, when it lies in order and flash knows all of it.
    fn fetch_block(&mut self, lpn: Lpn, table: &[u32], ops: &mut Vec<MapOp>) -> bool {
        let size = 1 << self.block_shift;
        let low = lpn.0 & !(size - 1);
        let high = low + (size - 1);
        if high >= self.shape.logical_units {
            return false;
        }
        let places = &table[low as usize..=high as usize];
        if places[0] == UNMAPPED || !follow(places) {
            return false;
        }
        let changed = |at: u32| {
            let node = self.find(at);
            node != NONE && self.runs[node as usize].dirty
        };
        if (low..=high).any(changed) {
            return false;
        }
        for at in low..=high {
            let node = self.find(at);
            if node != NONE {
                self.cut(node, low, high);
            }
        }
        self.make_room(BLOCK_BYTES, ops);
        ops.push(MapOp::Fetch { tpn: self.shape.tpn(lpn), bytes: ENTRY_BYTES });
        self.enter(low, high, table[low as usize], true, false);
        true
    }

    /// Serve a miss.
    fn fetch(&mut self, lpn: Lpn, table: &[u32], ops: &mut Vec<MapOp>) {
        let block = lpn.0 >> self.block_shift;
        if self.reads.is_hot(block) && !self.writes.is_hot(block) && self.fetch_block(lpn, table, ops) {
            return;
        }
        let tpn = self.shape.tpn(lpn);
        let last = self.shape.last(tpn).0;
        let (ppn, mut high) = (table[lpn.index()], lpn.0);
        if ppn != UNMAPPED {
            while high < last
                && table[high as usize + 1] == ppn + (high + 1 - lpn.0)
                && self.find(high + 1) == NONE
            {
                high += 1;
            }
        }
        self.make_room(PAGE_BYTES, ops);
        let scanned = (high - lpn.0 + 2).min(last - lpn.0 + 1);
        ops.push(MapOp::Fetch { tpn, bytes: scanned * ENTRY_BYTES });
        self.enter(lpn.0, high, ppn, false, false);
    }
}

/// Whether the places follow each other.
fn follow(places: &[u32]) -> bool {
    places.windows(2).all(|pair| pair[0].checked_add(1) == Some(pair[1]))
}

impl MapCache for Cftl {
    fn lookup(&mut self, lookup: Lookup, table: &[u32], ops: &mut Vec<MapOp>) -> bool {
        let lpn = lookup.lpn;
        let heat = if lookup.intent == Intent::Read { &mut self.reads } else { &mut self.writes };
        heat.record(lpn.0 >> self.block_shift);
        let node = self.find(lpn.0);
        let hit = node != NONE;
        if hit {
            self.order.touch(&mut self.links, node);
            let run = self.runs[node as usize];
            if run.ppn.wrapping_add(lpn.0 - run.low) != table[lpn.index()] {
                self.wrong = Some(lpn.0);
            }
        } else {
            self.fetch(lpn, table, ops);
        }
        if lookup.changes() {
            // Up to two entries more; those of this run are the most recent.
            self.change(lpn.0, table[lpn.index()]);
        }
        self.make_room(0, ops);
        hit
    }

    fn changed(&mut self, lpn: Lpn, _: u32, table: &[u32]) {
        let (node, ppn) = (self.find(lpn.0), table[lpn.index()]);
        if node == NONE {
            return;
        }
        self.change(lpn.0, ppn);
        // A changed run that ends here goes on.
        let before =
            if lpn.0 > self.shape.first(self.shape.tpn(lpn)).0 { self.find(lpn.0 - 1) } else { NONE };
        if before == NONE || ppn == UNMAPPED {
            return;
        }
        let run = self.runs[before as usize];
        if run.dirty && run.ppn != UNMAPPED && run.ppn.wrapping_add(lpn.0 - run.low) == ppn {
            self.leave(self.find(lpn.0));
            self.runs[before as usize].high = lpn.0;
            self.run_of[lpn.index()] = before + 1;
            self.order.touch(&mut self.links, before);
        }
    }

    fn moved(&mut self, lpn: Lpn, table: &[u32]) -> bool {
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
        node != NONE && self.runs[node as usize].dirty
    }

    fn used_bytes(&self) -> u64 {
        self.used
    }

    fn wants_gathered(&self, lpn: Lpn, table: &[u32]) -> Option<Range<u32>> {
        let block = lpn.0 >> self.block_shift;
        let units = block << self.block_shift..(block + 1) << self.block_shift;
        if units.end > self.shape.logical_units || !self.reads.is_hot(block) || self.writes.is_hot(block) {
            return None;
        }
        let places = &table[units.start as usize..units.end as usize];
        (!places.contains(&UNMAPPED) && !follow(places)).then_some(units)
    }

    fn wants_table(&self) -> bool {
        true
    }

    fn insight(&self) -> Insight {
        let (mut pages, mut blocks) = (0, 0);
        for node in self.order.iter(&self.links) {
            let run = &self.runs[node as usize];
            *(if run.block { &mut blocks } else { &mut pages }) += run.bytes();
        }
        let content_bytes =
            [("block_entries", blocks), ("filters", 2 * Heat::BYTES), ("page_entries", pages)];
        Insight {
            content_bytes: content_bytes.map(|(name, bytes)| (name.into(), bytes)).into(),
            ..Insight::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        if let Some(lpn) = self.wrong {
            return Err(format!("logical unit {lpn} was not where its run says"));
        }
        let (mut used, mut units) = (2 * Heat::BYTES, 0);
        for node in self.order.iter(&self.links) {
            let run = self.runs[node as usize];
            used += run.bytes();
            units += (run.high - run.low) as usize + 1;
            if (run.low..=run.high).any(|lpn| self.find(lpn) != node) {
                return Err(format!("{run:?} has units that are not found in it"));
            }
            if self.shape.tpn(Lpn(run.low)) != self.shape.tpn(Lpn(run.high)) || (run.block && run.dirty) {
                return Err(format!("{run:?} leaves its translation page, or is a changed block"));
            }
        }
        let told = self.run_of.iter().filter(|run| **run != 0).count();
        if used != self.used || told != units {
            return Err(format!(
                "{used} bytes in use, {} counted; {units} units in runs, {told} found",
                self.used
            ));
        }
        let mut changed = 0;
        for tpn in 0..self.shape.pages() {
            let mut node = self.changed.first(tpn);
            while node != NONE {
                changed += 1;
                node = self.changed.next(node);
            }
        }
        let dirty = self.order.iter(&self.links).filter(|node| self.runs[*node as usize].dirty).count();
        if changed != dirty {
            return Err(format!("{dirty} runs have changed, {changed} are known to have"));
        }
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        self.links.table_bytes()
            + (self.runs.capacity() * size_of::<Run>()) as u64
            + (self.run_of.capacity() + self.unused.capacity()) as u64 * 4
            + self.changed.table_bytes()
            + 2 * size_of::<Heat>() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(bytes: u64) -> (Cftl, Vec<u32>) {
        let config = MapCacheConfig { bytes, cftl_block_pages: 8, ..MapCacheConfig::default() };
        (
            Cftl::new(&config, Shape { logical_units: 2048, shift: 10, planes: 1, slots: 1 }),
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

    /// First and last unit, and whether changed, in order of recency.
    fn runs(cache: &Cftl) -> Vec<(u32, u32, bool)> {
        let run = |node| cache.runs[node as usize];
        cache.order.iter(&cache.links).map(run).map(|run| (run.low, run.high, run.dirty)).collect()
    }

    #[test]
    fn a_run_is_one_entry_until_a_change_splits_it() {
        let (mut cache, mut table) = cache(1 << 16);
        for entry in &mut table[20..] {
            *entry += 500;
        }
        // From 10 on, until the places jump: ten entries, and the one that shows it.
        let fetch = |entries: u32| MapOp::Fetch { tpn: 0, bytes: entries * 4 };
        assert_eq!(access(&mut cache, 10, Intent::Read, &table), (false, vec![fetch(11)]));
        assert_eq!(access(&mut cache, 19, Intent::Read, &table), (true, vec![]));
        assert_eq!(access(&mut cache, 20, Intent::Read, &table), (false, vec![fetch(1004)]));
        // The run before ends where this one starts.
        assert_eq!(access(&mut cache, 5, Intent::Read, &table), (false, vec![fetch(6)]));
        assert_eq!(cache.used_bytes(), 2 * 1024 + 3 * 10);
        assert_eq!(write(&mut cache, 15, 9000, &mut table), (true, vec![]));
        assert_eq!(
            runs(&cache),
            [(15, 15, true), (16, 19, false), (10, 14, false), (5, 9, false), (20, 1023, false)]
        );
        // Written after each other: one changed run, at the cost of the clean one.
        assert_eq!(write(&mut cache, 16, 9001, &mut table), (true, vec![]));
        assert_eq!(runs(&cache)[..3], [(15, 16, true), (17, 19, false), (10, 14, false)]);
        assert!(cache.is_dirty(Lpn(16)) && !cache.is_dirty(Lpn(17)));
        // The least recent leaves with the rest of its page.
        for lpn in [10, 17, 5, 20] {
            access(&mut cache, lpn, Intent::Read, &table);
        }
        cache.capacity = cache.used;
        let ops = access(&mut cache, 1500, Intent::Read, &table).1;
        assert_eq!(ops[0], MapOp::WriteBack { tpn: 0, rest_bytes: 4096 - 8 });
    }

    #[test]
    fn blocks_that_are_read_often_and_written_rarely_take_block_entries() {
        let (mut cache, mut table) = cache(1 << 16);
        let fetch = |entries: u32| MapOp::Fetch { tpn: 0, bytes: entries * 4 };
        for block in [3, 5, 7] {
            for unit in 0..8 {
                table[block * 8 + unit] = 5000 + (block * 100 + unit) as u32;
            }
        }
        // Four reads enter it in four filters.
        for _ in 0..4 {
            access(&mut cache, 26, Intent::Read, &table);
            access(&mut cache, 42, Intent::Read, &table);
        }
        assert!(cache.reads.is_hot(3) && !cache.reads.is_hot(4));
        for _ in 0..4 {
            write(&mut cache, 42, 7000, &mut table);
        }
        assert!(cache.writes.is_hot(5));
        // The run from 26 on is in memory, the start of the block is not.
        assert_eq!(access(&mut cache, 24, Intent::Read, &table), (false, vec![fetch(1)]));
        assert_eq!(runs(&cache)[0], (24, 31, false));
        // The other is written too often, and its places do not follow each other.
        assert_eq!(access(&mut cache, 40, Intent::Read, &table), (false, vec![fetch(3)]));
        // Not hot: a run.
        assert_eq!(access(&mut cache, 56, Intent::Read, &table), (false, vec![fetch(9)]));
        let blocks = |cache: &Cftl| cache.insight().content_bytes[0].clone();
        assert_eq!(blocks(&cache), ("block_entries".into(), 8));
        // Collection moves a unit of the block: page entries again.
        table[28] = 8000;
        assert!(cache.moved(Lpn(28), &table));
        assert_eq!(runs(&cache)[..3], [(28, 28, true), (29, 31, false), (24, 27, false)]);
        assert_eq!(blocks(&cache), ("block_entries".into(), 0));
        assert!(!cache.moved(Lpn(2000), &table));
        cache.check().unwrap();
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
        while heat.is_hot(9) {
            for _ in 0..PERIOD {
                heat.record(1 << 20);
            }
            periods += 1;
        }
        assert!((1..=FILTERS).contains(&periods), "{periods}");
    }
}
