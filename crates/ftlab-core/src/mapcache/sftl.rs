//! S-FTL: whole translation pages, compressed by runs of consecutive physical addresses.
//!
//! A page in memory stores an address only for the head of each run. It stores two bits for each entry: whether it is a
//! head, and whether it is newer than in flash. A write into a run makes new heads, writes in order take heads away,
//! and the least recent pages leave when memory is full. A page is whole in memory, so it is written without being
//! read. If few of its entries have changed, they go to a write buffer instead, 8 bytes each, with their logical
//! numbers. When the buffer is full, the translation page with most entries in it is read, changed and written.
//!
//! Interpretation: the size of a page (4 bytes for each head, 2 bits for each entry, 4 bytes) is that of a public
//! implementation. Unmapped entries that follow each other are a run. On a drive whose planes take turns
//! (`ftl.striping = "dynamic"`), addresses are consecutive in the order of turns ([`SuperblockOrder`]). Where the
//! address names the plane, an entry continues the run of the entry that was the turn before in its plane. The paper
//! has one plane, where that is the entry before. The units of a NAND page continue each other. The write buffer is a
//! fixed share of memory, and pages with at most `sparse_entries` changes go there: the paper fixes neither.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::geometry::{BlockId, Lpn};
use crate::mapcache::cache::{CacheReport, Lookup, MapCache, MapOp, PlacementWishes};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::scheme::{MapCacheScheme, PageSizes, TableBytes};
use crate::mapcache::superblock_order::SuperblockOrder;
use crate::quantity;
use crate::recency::{Links, List, NONE};
use crate::scheme::{Contrast, Scheme};

/// Bytes of an entry in the write buffer: both addresses.
const BUFFERED_BYTES: u32 = 8;

#[derive(Debug, Clone, Copy)]
struct Page {
    /// Runs that it consists of; 0 before they are counted for the first time.
    heads: u32,
    /// Entries that are newer than in flash.
    changed: u32,
    in_memory: bool,
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SftlKeys {
    /// Share of memory for the write buffer of single entries, from 0 (none) to 0.5.
    ///
    /// Default: a tenth, as the paper calls it small.
    #[serde(deserialize_with = "quantity::share")]
    pub sparse_fraction: f64,
    /// A page that leaves memory with at most this many changed entries leaves them in the write buffer.
    ///
    /// Default: 32 take as much there as the bit maps of a page of 4 KiB.
    pub sparse_entries: u32,
}

impl Default for SftlKeys {
    fn default() -> Self {
        Self { sparse_fraction: 0.1, sparse_entries: 32 }
    }
}

impl SftlKeys {
    /// Entries that the write buffer takes, out of `bytes` of memory.
    fn buffered_at_most(&self, bytes: u64) -> u32 {
        (bytes as f64 * self.sparse_fraction / f64::from(BUFFERED_BYTES)).min(f64::from(1 << 28)) as u32
    }
}

impl Scheme for Sftl {
    const SUMMARY: &'static str = "Whole translation pages, compressed by runs of consecutive physical addresses; few \
                                   changes wait in a buffer.";
    const SOURCE: &'static str = "Jiang, Zhang, Yuan, Hu, Chen, MSST 2011";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast { key: "sparse_fraction", value: "0.2", with: &["map_cache.bytes=16384"] },
        Contrast { key: "sparse_entries", value: "4", with: &["map_cache.bytes=16384"] },
    ];
    type Keys = SftlKeys;
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Sftl {
    layout: TranslationLayout,
    /// Bytes for pages, and those in use.
    capacity: u64,
    used: u64,
    /// Entries that the write buffer takes, and those in it.
    buffer_capacity: u32,
    buffered: u32,
    sparse_entries: u32,
    /// Where planes take turns.
    plane_order: Option<SuperblockOrder>,
    pages: Vec<Page>,
    links: Links,
    /// Pages in memory.
    recent: List,
    /// Pages that are not in memory, by their entries in the write buffer.
    by_buffered: Vec<List>,
    /// No list above this one has a page.
    fullest: u32,
    /// A bit for each entry of each page: whether it is newer than in flash, in its page or in the write buffer.
    newer: Vec<u64>,
    /// And whether it is the head of a run.
    is_head: Vec<u64>,
    words: usize,
}

impl MapCacheScheme for Sftl {
    fn new(keys: &SftlKeys, bytes: u64, layout: TranslationLayout) -> Self {
        let (pages, words) = (layout.pages() as usize, (layout.entries() as usize).div_ceil(64));
        let buffer_capacity = keys.buffered_at_most(bytes);
        let sparse_entries = keys.sparse_entries.min(layout.entries());
        let mut links = Links::default();
        links.reach(layout.pages() - 1);
        Self {
            layout,
            capacity: bytes - u64::from(buffer_capacity * BUFFERED_BYTES),
            used: 0,
            buffer_capacity,
            buffered: 0,
            sparse_entries,
            plane_order: None,
            pages: vec![Page { heads: 0, changed: 0, in_memory: false }; pages],
            links,
            recent: List::new(),
            by_buffered: (0..=sparse_entries).map(|_| List::new()).collect(),
            fullest: 0,
            newer: vec![0; pages * words],
            is_head: vec![0; pages * words],
            words,
        }
    }

    fn check_keys(keys: &SftlKeys, _: PageSizes) -> Result<(), ConfigError> {
        if !(0.0..=0.5).contains(&keys.sparse_fraction) {
            return refuse("sparse_fraction", keys.sparse_fraction, "must be from 0 to 0.5");
        }
        if keys.sparse_entries == 0 {
            let expected = "must be at least 1 (sparse_fraction = 0: no buffer)";
            return refuse("sparse_entries", 0, expected);
        }
        if keys.sparse_entries != SftlKeys::default().sparse_entries && keys.sparse_fraction == 0.0 {
            let expected = "has no effect with map_cache.sparse_fraction = 0: there is no write buffer";
            return refuse("sparse_entries", keys.sparse_entries, expected);
        }
        Ok(())
    }

    /// For a page that has no runs at all.
    fn least_bytes(keys: &SftlKeys, bytes: u64, layout: TranslationLayout) -> u64 {
        let page = u64::from(layout.page_bytes());
        page + page / 16 + 4 + u64::from(keys.buffered_at_most(bytes) * BUFFERED_BYTES)
    }

    fn whole_table_bytes(keys: &SftlKeys, layout: TranslationLayout) -> u64 {
        let [units, pages, entries] = [layout.logical_units, layout.pages(), layout.entries()].map(u64::from);
        // A write makes three heads at most of one.
        let bytes = 4 * units + pages * (entries / 4 + 4) + 3 * 4;
        (bytes as f64 / (1.0 - keys.sparse_fraction)).ceil() as u64
    }

    fn table_bytes_at_most(keys: &SftlKeys, _: TranslationLayout) -> TableBytes {
        let more = 16 * u64::from(keys.sparse_entries);
        TableBytes { per_unit: 1, per_node: 0, node_bytes: 1, per_page: 40, more }
    }
}

impl Sftl {
    /// The word and the bit of an entry.
    #[inline]
    fn bit(&self, lpn: Lpn) -> (usize, u64) {
        let offset = lpn.0 & (self.layout.entries() - 1);
        (self.layout.tpn(lpn) as usize * self.words + offset as usize / 64, 1 << (offset % 64))
    }

    fn bytes(&self, tpn: u32) -> u64 {
        u64::from(self.pages[tpn as usize].heads * ENTRY_BYTES + self.layout.entries() / 4 + 4)
    }

    /// Whether an entry is the head of a run, by the addresses of `table`.
    #[inline]
    fn starts_run(&self, lpn: u32, table: &[u32]) -> bool {
        if let Some(plane_order) = &self.plane_order {
            return self.starts_run_of_turns(lpn, table, plane_order);
        }
        let TranslationLayout { slots, planes, .. } = self.layout;
        let offset = lpn & (self.layout.entries() - 1);
        // How far back the entry is that it may continue, and how far its address is on.
        let (back, step) = if offset & (slots - 1) == 0 { (slots * planes, slots) } else { (1, 1) };
        if offset < back {
            return true;
        }
        let (before, here) = (table[(lpn - back) as usize], table[lpn as usize]);
        if before == u32::MAX {
            here != before
        } else {
            here == u32::MAX || here != before.wrapping_add(step)
        }
    }

    /// The same where planes take turns.
    fn starts_run_of_turns(&self, lpn: u32, table: &[u32], plane_order: &SuperblockOrder) -> bool {
        if lpn & (self.layout.entries() - 1) == 0 {
            return true;
        }
        match (table[lpn as usize - 1], table[lpn as usize]) {
            (u32::MAX, here) => here != u32::MAX,
            (_, u32::MAX) => true,
            (before, here) => plane_order.number(here) != plane_order.number(before).wrapping_add(1),
        }
    }

    /// Look again whether an entry is a head.
    #[inline]
    fn judge(&mut self, lpn: u32, table: &[u32]) {
        let head = self.starts_run(lpn, table);
        let (word, bit) = self.bit(Lpn(lpn));
        if head == (self.is_head[word] & bit != 0) {
            return;
        }
        self.is_head[word] ^= bit;
        let page = &mut self.pages[self.layout.tpn(Lpn(lpn)) as usize];
        let bytes = u64::from(page.in_memory) * u64::from(ENTRY_BYTES);
        if head {
            page.heads += 1;
            self.used += bytes;
        } else {
            page.heads -= 1;
            self.used -= bytes;
        }
    }

    /// The address of `lpn` is another: it and those that may continue it.
    #[inline]
    fn address_changed(&mut self, lpn: Lpn, table: &[u32]) {
        let tpn = self.layout.tpn(lpn);
        if self.pages[tpn as usize].heads == 0 {
            return;
        }
        let TranslationLayout { slots, planes, .. } = self.layout;
        self.judge(lpn.0, table);
        let room = self.layout.last(tpn).0 - lpn.0;
        if (self.plane_order.is_some() || lpn.0 & (slots - 1) != slots - 1) && room > 0 {
            self.judge(lpn.0 + 1, table);
        }
        if self.plane_order.is_none() && lpn.0 & (slots - 1) == 0 && room >= slots * planes {
            self.judge(lpn.0 + slots * planes, table);
        }
    }

    /// Count the runs of a page that comes into memory for the first time.
    fn count_heads(&mut self, tpn: u32, table: &[u32]) {
        if self.pages[tpn as usize].heads == 0 {
            for lpn in self.layout.first(tpn).0..=self.layout.last(tpn).0 {
                if self.starts_run(lpn, table) {
                    let (word, bit) = self.bit(Lpn(lpn));
                    self.is_head[word] |= bit;
                    self.pages[tpn as usize].heads += 1;
                }
            }
        }
    }

    #[inline]
    fn set_newer(&mut self, lpn: Lpn) {
        let (word, bit) = self.bit(lpn);
        let page = &mut self.pages[self.layout.tpn(lpn) as usize];
        page.changed += u32::from(self.newer[word] & bit == 0);
        self.newer[word] |= bit;
    }

    /// Flash has every entry of the page as it is.
    fn clean(&mut self, tpn: u32) {
        self.newer[tpn as usize * self.words..][..self.words].fill(0);
        self.pages[tpn as usize].changed = 0;
    }

    /// Take the entries of a page out of the write buffer.
    fn leave_buffer(&mut self, tpn: u32) {
        let changed = self.pages[tpn as usize].changed;
        if changed > 0 {
            self.by_buffered[changed as usize].remove(&mut self.links, tpn);
            self.buffered -= changed;
        }
    }

    /// Let the least recent pages but `kept` go until `need` more bytes fit.
    #[inline]
    fn make_room(&mut self, need: u64, kept: u32, ops: &mut Vec<MapOp>) {
        while self.used + need > self.capacity && self.recent.oldest != kept {
            self.evict(self.recent.oldest, ops);
        }
    }

    fn evict(&mut self, tpn: u32, ops: &mut Vec<MapOp>) {
        self.recent.remove(&mut self.links, tpn);
        self.used -= self.bytes(tpn);
        let page = &mut self.pages[tpn as usize];
        page.in_memory = false;
        let changed = page.changed;
        if changed == 0 {
            return;
        }
        if changed > self.sparse_entries.min(self.buffer_capacity) {
            ops.push(MapOp::WriteBack { tpn, rest_bytes: 0 });
            self.clean(tpn);
            return;
        }
        while self.buffered + changed > self.buffer_capacity {
            while self.by_buffered[self.fullest as usize].oldest == NONE {
                self.fullest -= 1;
            }
            let flushed = self.by_buffered[self.fullest as usize].oldest;
            ops.push(MapOp::WriteBack {
                tpn: flushed,
                rest_bytes: self.layout.page_bytes() - self.fullest * ENTRY_BYTES,
            });
            self.leave_buffer(flushed);
            self.clean(flushed);
        }
        self.by_buffered[changed as usize].enter(&mut self.links, tpn);
        self.buffered += changed;
        self.fullest = self.fullest.max(changed);
    }
}

impl MapCache for Sftl {
    fn lookup(&mut self, lookup: Lookup, table: &[u32], ops: &mut Vec<MapOp>) -> bool {
        let tpn = self.layout.tpn(lookup.lpn);
        // A change makes heads of the entry and of the two at most that may have continued it.
        let growth = if lookup.changes() { 3 * u64::from(ENTRY_BYTES) } else { 0 };
        let in_memory = self.pages[tpn as usize].in_memory;
        let hit = in_memory || self.is_dirty(lookup.lpn);
        if in_memory {
            self.recent.touch(&mut self.links, tpn);
            self.make_room(growth, tpn, ops);
        } else if hit {
            // In the write buffer, and changed again there if at all.
            self.make_room(0, NONE, ops);
        } else {
            self.leave_buffer(tpn);
            self.count_heads(tpn, table);
            let bytes = self.bytes(tpn);
            self.make_room(bytes + growth, NONE, ops);
            ops.push(MapOp::fetch_page(self.layout, tpn));
            self.pages[tpn as usize].in_memory = true;
            self.recent.enter(&mut self.links, tpn);
            self.used += bytes;
        }
        if lookup.changes() {
            self.set_newer(lookup.lpn);
        }
        hit
    }

    fn changed(&mut self, lpn: Lpn, _: u32, table: &[u32]) {
        self.address_changed(lpn, table);
    }

    fn moved(&mut self, lpn: Lpn, table: &[u32]) -> bool {
        self.address_changed(lpn, table);
        if self.pages[self.layout.tpn(lpn) as usize].in_memory {
            self.set_newer(lpn);
            return true;
        }
        self.is_dirty(lpn)
    }

    fn rewritten(&mut self, tpn: u32) {
        if !self.pages[tpn as usize].in_memory {
            self.leave_buffer(tpn);
        }
        self.clean(tpn);
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        let (word, bit) = self.bit(lpn);
        self.newer[word] & bit != 0
    }

    fn used_bytes(&self) -> u64 {
        self.used + u64::from(self.buffered * BUFFERED_BYTES)
    }

    fn wishes(&self) -> Option<&dyn PlacementWishes> {
        Some(self)
    }

    fn wishes_mut(&mut self) -> Option<&mut dyn PlacementWishes> {
        Some(self)
    }

    fn report(&self) -> CacheReport {
        let content = [("compressed_pages", self.used), ("write_buffer", self.used_bytes() - self.used)];
        CacheReport {
            content_bytes: content.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec(),
            ..CacheReport::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        let mut used = 0;
        for tpn in self.recent.iter(&self.links) {
            if !self.pages[tpn as usize].in_memory {
                return Err(format!("translation page {tpn} is in order and not in memory"));
            }
            used += self.bytes(tpn);
        }
        let mut buffered = 0;
        for (changed, list) in (0..).zip(&self.by_buffered) {
            for tpn in list.iter(&self.links) {
                if self.pages[tpn as usize].in_memory || self.pages[tpn as usize].changed != changed {
                    return Err(format!(
                        "translation page {tpn} does not have {changed} entries in the buffer"
                    ));
                }
                buffered += changed;
            }
        }
        if used != self.used || buffered != self.buffered || buffered > self.buffer_capacity {
            return Err(format!(
                "{} bytes and {} buffered entries counted, {used} and {buffered} in use, {} and {} at most",
                self.used, self.buffered, self.capacity, self.buffer_capacity
            ));
        }
        let mut without = 0;
        for (tpn, page) in (0..).zip(&self.pages) {
            let words = tpn * self.words..(tpn + 1) * self.words;
            let count = |bits: &[u64]| bits.iter().map(|word| word.count_ones()).sum::<u32>();
            let counted = (count(&self.is_head[words.clone()]), count(&self.newer[words]));
            if counted != (page.heads, page.changed) {
                return Err(format!(
                    "translation page {tpn} has {counted:?} heads and changed entries, counted as {page:?}"
                ));
            }
            without += if page.in_memory { 0 } else { page.changed };
        }
        if without != buffered {
            return Err(format!(
                "{without} changed entries of pages outside of memory, {buffered} in the buffer"
            ));
        }
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        self.links.table_bytes()
            + self.plane_order.as_ref().map_or(0, SuperblockOrder::table_bytes)
            + (self.pages.capacity() * size_of::<Page>() + self.by_buffered.capacity() * size_of::<List>())
                as u64
            + (self.newer.capacity() + self.is_head.capacity()) as u64 * 8
    }
}

impl PlacementWishes for Sftl {
    fn set_plane_order(&mut self, plane_order: SuperblockOrder) {
        self.plane_order = plane_order.dynamic.then_some(plane_order);
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
    use crate::mapcache::cache::Intent::{self, Read, Write};
    use crate::mapcache::superblock_order::superblock_order;

    /// Pages of 128 entries: 36 bytes, and 4 for each run.
    const LAYOUT: TranslationLayout =
        TranslationLayout { logical_units: 1024, shift: 7, slots: 1, planes: 1, block_units: 0 };

    struct Drive {
        cache: Sftl,
        table: Vec<u32>,
        next: u32,
    }

    impl Drive {
        fn new(bytes: u64, sparse_fraction: f64, layout: TranslationLayout) -> Self {
            let keys = SftlKeys { sparse_fraction, sparse_entries: 2 };
            Self {
                cache: Sftl::new(&keys, bytes, layout),
                table: (0..layout.logical_units).collect(),
                next: 5000,
            }
        }

        fn access(&mut self, lpn: u32, intent: Intent) -> (bool, Vec<MapOp>) {
            let mut ops = Vec::new();
            let lpn = Lpn(lpn);
            let hit = self.cache.lookup(Lookup { lpn, intent, rest: 0 }, &self.table, &mut ops);
            if intent != Read {
                let old = std::mem::replace(&mut self.table[lpn.index()], self.next);
                self.next += 1;
                self.cache.changed(lpn, old, &self.table);
            }
            self.cache.check().unwrap();
            (hit, ops)
        }
    }

    fn fetch(tpn: u32) -> MapOp {
        MapOp::Fetch { tpn, bytes: 512, units: (Lpn(tpn * 128), Lpn(tpn * 128 + 127)) }
    }

    #[test]
    fn runs_split_and_join() {
        let mut drive = Drive::new(4096, 0.0, LAYOUT);
        assert_eq!(drive.access(10, Read), (false, vec![fetch(0)]));
        // One run: 4 bytes, 2 bits for each of 128 entries, 4 bytes.
        assert_eq!(drive.cache.used_bytes(), 4 + 32 + 4);
        // A write into it: before, here, after.
        assert_eq!(drive.access(50, Write), (true, vec![]));
        assert_eq!(drive.cache.used_bytes(), 3 * 4 + 36);
        // The next write continues the run of the last one, at any distance from the old one.
        drive.access(51, Write);
        assert_eq!(drive.cache.used_bytes(), 3 * 4 + 36);
        // Backwards it continues nothing.
        drive.access(49, Write);
        assert_eq!(drive.cache.used_bytes(), 4 * 4 + 36);
        // The whole page in order: one run again.
        for lpn in 0..128 {
            drive.access(lpn, Write);
        }
        assert_eq!(drive.cache.used_bytes(), 4 + 36);
    }

    #[test]
    fn a_striped_drive_has_a_run_for_each_plane() {
        // Units of NAND pages of 2, which go round 4 planes of 1000 units each.
        let layout = TranslationLayout { slots: 2, planes: 4, ..LAYOUT };
        let mut drive = Drive::new(4096, 0.0, layout);
        for (lpn, ppn) in (0..).zip(&mut drive.table) {
            *ppn = lpn / 2 % 4 * 1000 + lpn / 8 * 2 + lpn % 2;
        }
        drive.access(0, Read);
        assert_eq!(drive.cache.used_bytes(), 4 * 4 + 36);
        // Another place for the first unit of a NAND page: it, the second one, and the page that is next in the plane.
        drive.access(64, Write);
        assert_eq!(drive.cache.used_bytes(), (4 + 3) * 4 + 36);
    }

    #[test]
    fn planes_that_take_turns_have_one_run() {
        let text = r#"{ "geometry": { "channels": 4, "ways": 1, "blocks_per_plane": 8, "pages_per_block": 128,
            "page_bytes": 8192, "mapping_unit_bytes": 4096 }, "ftl": { "striping": "dynamic" } }"#;
        let plane_order = superblock_order(text);
        let mut drive = Drive::new(4096, 0.0, TranslationLayout { slots: 2, planes: 4, ..LAYOUT });
        drive.cache.set_plane_order(plane_order);
        // Pages of 2 units go round from the second plane on, in blocks of another row each, opened one after the other.
        let rows = [3, 5, 0, 7];
        for plane in 0..4 {
            drive.cache.opened(BlockId(plane * 8 + rows[plane as usize]), true);
        }
        for (lpn, ppn) in (0..).zip(&mut drive.table) {
            let turn = lpn / 2 + 1;
            *ppn = (turn % 4 * 8 + rows[turn as usize % 4]) * 256 + turn / 4 * 2 + lpn % 2;
        }
        drive.access(0, Read);
        assert_eq!(drive.cache.used_bytes(), 4 + 36);
        // Another place for a unit: a run of its own, and one behind it.
        drive.access(64, Write);
        assert_eq!(drive.cache.used_bytes(), 3 * 4 + 36);
    }

    #[test]
    fn few_changes_wait_in_the_buffer_and_the_fullest_page_is_written() {
        // 36 bytes for 4 buffered entries, and 188 for pages: 4 of one run, or 3 with some room.
        let mut drive = Drive::new(188 + 36, 36.0 / 224.0, LAYOUT);
        drive.access(0, Write);
        drive.access(128, Write);
        drive.access(129, Write);
        drive.access(256, Write);
        assert_eq!(drive.cache.used_bytes(), 3 * (2 * 4 + 36));
        // Pages leave with one, two and one changes.
        for (lpn, buffered) in [(384, 0), (512, 1), (640, 3), (768, 4)] {
            assert_eq!(drive.access(lpn, Read), (false, vec![fetch(lpn / 128)]), "{lpn}");
            assert_eq!(drive.cache.buffered, buffered, "{lpn}");
        }
        // What is there is found there.
        assert_eq!(drive.access(129, Read), (true, vec![]));
        assert_eq!(drive.access(129, Write), (true, vec![]));
        // A page with a change too many is written whole, without a read.
        for lpn in [900, 910, 920] {
            drive.access(lpn, Write);
        }
        assert_eq!(drive.cache.used_bytes(), 3 * 40 + (7 * 4 + 36) + 32);
        for lpn in [384, 512, 640] {
            assert_eq!(drive.access(lpn, Read).1, [fetch(lpn / 128)]);
        }
        assert_eq!(drive.access(768, Read).1, [MapOp::WriteBack { tpn: 7, rest_bytes: 0 }, fetch(6)]);
        // The buffer is full: the next page with a change makes room by the page that has two there.
        drive.access(384, Write);
        for lpn in [512, 640, 768] {
            drive.access(lpn, Read);
        }
        assert_eq!(
            drive.access(900, Read).1,
            [MapOp::WriteBack { tpn: 1, rest_bytes: 512 - 8 }, fetch(7)],
            "page 3 leaves"
        );
        assert_eq!(drive.cache.buffered, 3);
        // A page that comes back takes its changes out of the buffer.
        drive.access(300, Read);
        assert_eq!(drive.cache.buffered, 2);
        assert!(drive.cache.is_dirty(Lpn(256)) && drive.cache.is_dirty(Lpn(384)));
        assert!(!drive.cache.is_dirty(Lpn(129)));
    }
}
