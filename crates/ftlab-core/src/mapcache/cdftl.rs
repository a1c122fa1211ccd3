//! CDFTL: two levels of caches, single entries over whole translation pages.
//!
//! The first level holds entries in LRU order, for what is asked for again; the second one holds translation pages in LRU
//! order, for what lies nearby. An entry that is in neither is fetched with its page, into both; one that is only in its
//! page is taken into the first level. The least recent entry leaves the first level. That costs nothing if it has not
//! changed, or if its page is in the second level, which takes the change. Otherwise the page is read, and written with
//! every change of it that the first level has; the others stay there as unchanged.
//!
//! Interpretation: the memory of the first level is `entry_fraction` of all, and what whole pages leave over; the paper
//! has fixed sizes (its successor adapts them). A change whose page is not in memory leaves when it is the least recent
//! entry, as any other. If it had to wait for its page, changes to pages that never come back would fill the first
//! level for good. A hit in the first level does not count as a use of the page. The order of the second level is plain
//! LRU; a page that leaves unchanged is dropped even if changes of its entries are in the first level. With
//! `flush_coalesce` those go along also when the second level or collection writes the page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::geometry::Lpn;
use crate::mapcache::cache::{CacheReport, Lookup, MapCache, MapOp};
use crate::mapcache::dftl::check_entry_bytes;
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::scheme::{MapCacheScheme, PageSizes, TableBytes};
use crate::quantity;
use crate::recency::{Groups, Links, List, NONE};
use crate::scheme::{Contrast, Scheme};

#[derive(Debug, Clone, Copy)]
struct Entry {
    lpn: u32,
    dirty: bool,
}

/// A translation page in the second level.
#[derive(Debug, Clone, Copy)]
struct Page {
    in_memory: bool,
    dirty: bool,
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CdftlKeys {
    /// Bytes of memory that an entry takes: 4 for the physical address alone, 8 with the logical one.
    ///
    /// Default: the address alone, as in the mapping-cache paper: its place says which entry it is.
    #[serde(deserialize_with = "quantity::few_bytes")]
    pub entry_bytes: u32,
    /// Share of memory for single entries, the rest being for whole pages.
    ///
    /// Default: a quarter leaves room for several pages in the smallest memories of the mapping-cache paper (16 KiB).
    #[serde(deserialize_with = "quantity::share")]
    pub entry_fraction: f64,
    /// Whether all changed entries of a translation page are written when it is.
    ///
    /// Default: off, as the mapping-cache paper does not mention it.
    pub flush_coalesce: bool,
}

impl Default for CdftlKeys {
    fn default() -> Self {
        Self { entry_bytes: ENTRY_BYTES, entry_fraction: 0.25, flush_coalesce: false }
    }
}

impl Scheme for Cdftl {
    const SUMMARY: &'static str =
        "Single entries over whole translation pages, which take the changes of entries that leave.";
    const SOURCE: &'static str = "Qin, Wang, Liu, Shao, RTAS 2011";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast { key: "entry_bytes", value: "8", with: &["map_cache.bytes=24000"] },
        Contrast { key: "entry_fraction", value: "0.7", with: &["map_cache.bytes=24000"] },
        Contrast { key: "flush_coalesce", value: "true", with: &["map_cache.bytes=24000"] },
    ];
    type Keys = CdftlKeys;
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Cdftl {
    layout: TranslationLayout,
    entry_bytes: u32,
    coalesce: bool,
    /// Entries that the first level takes.
    entry_capacity: u32,
    entries: Vec<Entry>,
    entry_links: Links,
    order: List,
    /// For each logical unit its entry plus 1, or 0. Only what was touched takes memory.
    entry_of: Vec<u32>,
    /// By translation page.
    changed: Groups,
    /// Pages that the second level takes.
    page_capacity: u32,
    pages: Vec<Page>,
    page_links: Links,
    recent: List,
}

impl MapCacheScheme for Cdftl {
    fn new(keys: &CdftlKeys, bytes: u64, layout: TranslationLayout) -> Self {
        let page_bytes = u64::from(layout.page_bytes());
        // One entry at least has room.
        let for_pages =
            ((bytes as f64 * (1.0 - keys.entry_fraction)) as u64).min(bytes - u64::from(keys.entry_bytes));
        let page_capacity = (for_pages / page_bytes).clamp(1, layout.pages().into());
        let for_entries = bytes - page_capacity * page_bytes;
        let mut page_links = Links::default();
        page_links.reach(layout.pages() - 1);
        Self {
            layout,
            entry_bytes: keys.entry_bytes,
            coalesce: keys.flush_coalesce,
            entry_capacity: (for_entries / u64::from(keys.entry_bytes)).min(layout.logical_units.into())
                as u32,
            entries: Vec::new(),
            entry_links: Links::default(),
            order: List::new(),
            entry_of: vec![0; layout.logical_units as usize],
            changed: Groups::new(layout.pages()),
            page_capacity: page_capacity as u32,
            pages: vec![Page { in_memory: false, dirty: false }; layout.pages() as usize],
            page_links,
            recent: List::new(),
        }
    }

    fn check_keys(keys: &CdftlKeys, _: PageSizes) -> Result<(), ConfigError> {
        check_entry_bytes(keys.entry_bytes)?;
        if !(keys.entry_fraction > 0.0 && keys.entry_fraction < 1.0) {
            return refuse("entry_fraction", keys.entry_fraction, "must be above 0 and below 1");
        }
        Ok(())
    }

    fn least_bytes(keys: &CdftlKeys, _: u64, layout: TranslationLayout) -> u64 {
        u64::from(layout.page_bytes()) + u64::from(keys.entry_bytes)
    }

    fn whole_table_bytes(keys: &CdftlKeys, layout: TranslationLayout) -> u64 {
        let bytes = u64::from(layout.pages()) * u64::from(layout.page_bytes());
        (bytes as f64 / (1.0 - keys.entry_fraction)).ceil() as u64
    }

    fn table_bytes_at_most(keys: &CdftlKeys, _: TranslationLayout) -> TableBytes {
        TableBytes { per_unit: 4, per_node: 24, node_bytes: keys.entry_bytes.into(), per_page: 24, more: 0 }
    }
}

impl Cdftl {
    #[inline]
    fn find(&self, lpn: Lpn) -> u32 {
        self.entry_of[lpn.index()].wrapping_sub(1)
    }

    #[inline]
    fn tpn_of(&self, entry: u32) -> u32 {
        self.layout.tpn(Lpn(self.entries[entry as usize].lpn))
    }

    #[inline]
    fn set_dirty(&mut self, node: u32) {
        let Entry { lpn, dirty } = self.entries[node as usize];
        if !dirty {
            self.changed.enter(self.layout.tpn(Lpn(lpn)), node);
            self.entries[node as usize].dirty = true;
        }
    }

    fn set_clean(&mut self, node: u32) {
        let tpn = self.layout.tpn(Lpn(self.entries[node as usize].lpn));
        self.changed.leave(tpn, node);
        self.entries[node as usize].dirty = false;
    }

    /// Flash has every change of the page that is in the first level. How many.
    fn clean(&mut self, tpn: u32) -> u32 {
        let mut count = 0;
        while self.changed.first(tpn) != NONE {
            self.set_clean(self.changed.first(tpn));
            count += 1;
        }
        count
    }

    /// Take an entry into the first level, whose page is in the second level or comes into it.
    fn admit(&mut self, lpn: Lpn, ops: &mut Vec<MapOp>) -> u32 {
        let node = if (self.entries.len() as u32) < self.entry_capacity {
            let node = self.entries.len() as u32;
            self.entry_links.reach(node);
            self.changed.reach(node);
            self.entries.push(Entry { lpn: 0, dirty: false });
            node
        } else {
            let node = self.order.oldest;
            self.let_go(node, self.layout.tpn(lpn), ops);
            node
        };
        self.entries[node as usize].lpn = lpn.0;
        self.entry_of[lpn.index()] = node + 1;
        self.order.enter(&mut self.entry_links, node);
        node
    }

    /// An entry leaves the first level; page `coming` is in the second one, or about to be.
    fn let_go(&mut self, node: u32, coming: u32, ops: &mut Vec<MapOp>) {
        let Entry { lpn, dirty } = self.entries[node as usize];
        if dirty {
            let tpn = self.layout.tpn(Lpn(lpn));
            let page = &mut self.pages[tpn as usize];
            if page.in_memory || tpn == coming {
                page.dirty = true;
                self.set_clean(node);
            } else {
                let rest_bytes = self.layout.page_bytes() - self.clean(tpn) * ENTRY_BYTES;
                ops.push(MapOp::WriteBack { tpn, rest_bytes });
            }
        }
        self.order.remove(&mut self.entry_links, node);
        self.entry_of[lpn as usize] = 0;
        self.order.look_at_victims(&self.entry_links, &self.entries, &self.entry_of, |entry| entry.lpn);
    }

    /// Take a page into the second level.
    fn enter_page(&mut self, tpn: u32, ops: &mut Vec<MapOp>) {
        if self.recent.len == self.page_capacity {
            let left = self.recent.oldest;
            self.recent.remove(&mut self.page_links, left);
            let page = &mut self.pages[left as usize];
            page.in_memory = false;
            if std::mem::replace(&mut page.dirty, false) {
                ops.push(MapOp::WriteBack { tpn: left, rest_bytes: 0 });
                if self.coalesce {
                    self.clean(left);
                }
            }
        }
        self.recent.enter(&mut self.page_links, tpn);
        self.pages[tpn as usize].in_memory = true;
    }
}

impl MapCache for Cdftl {
    fn lookup(&mut self, lookup: Lookup, _: &[u32], ops: &mut Vec<MapOp>) -> bool {
        let found = self.find(lookup.lpn);
        if found != NONE {
            self.order.touch(&mut self.entry_links, found);
            if lookup.changes() {
                self.set_dirty(found);
            }
            return true;
        }
        let tpn = self.layout.tpn(lookup.lpn);
        // First, so that a page that is about to leave can take the change of the entry that does.
        let node = self.admit(lookup.lpn, ops);
        let hit = self.pages[tpn as usize].in_memory;
        if hit {
            self.recent.touch(&mut self.page_links, tpn);
        } else {
            self.enter_page(tpn, ops);
        }
        if lookup.changes() {
            self.set_dirty(node);
        }
        if !hit {
            ops.push(MapOp::fetch_page(self.layout, tpn));
        }
        hit
    }

    fn look_ahead(&self, lpn: Lpn, stage: u32) {
        self.entry_links.look_ahead_for(&self.entries, &self.entry_of, lpn.index(), stage);
    }

    fn moved(&mut self, lpn: Lpn, _: &[u32]) -> bool {
        let found = self.find(lpn);
        if found != NONE {
            self.set_dirty(found);
            return true;
        }
        let page = &mut self.pages[self.layout.tpn(lpn) as usize];
        page.dirty |= page.in_memory;
        page.in_memory
    }

    fn rewritten(&mut self, tpn: u32) {
        if self.coalesce {
            self.clean(tpn);
            self.pages[tpn as usize].dirty = false;
        }
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        let found = self.find(lpn);
        // A change may be in the page alone, with an equal entry in the first level.
        self.pages[self.layout.tpn(lpn) as usize].dirty || found != NONE && self.entries[found as usize].dirty
    }

    fn used_bytes(&self) -> u64 {
        u64::from(self.order.len) * u64::from(self.entry_bytes)
            + u64::from(self.recent.len) * u64::from(self.layout.page_bytes())
    }

    fn report(&self) -> CacheReport {
        let pages = u64::from(self.recent.len) * u64::from(self.layout.page_bytes());
        let content = [("entries", self.used_bytes() - pages), ("full_page", pages)];
        CacheReport {
            content_bytes: content.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec(),
            ..CacheReport::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        let mut counted = 0;
        let mut dirty = 0;
        for node in self.order.iter(&self.entry_links) {
            let entry = self.entries[node as usize];
            if self.find(Lpn(entry.lpn)) != node {
                return Err(format!("{entry:?} is not in its place"));
            }
            counted += 1;
            dirty += usize::from(entry.dirty);
        }
        let mut chained = 0;
        for tpn in 0..self.layout.pages() {
            let mut node = self.changed.first(tpn);
            while node != NONE {
                if !self.entries[node as usize].dirty || self.tpn_of(node) != tpn {
                    return Err(format!(
                        "an unchanged entry is among the changed ones of translation page {tpn}"
                    ));
                }
                chained += 1;
                node = self.changed.next(node);
            }
        }
        let told = self.entry_of.iter().filter(|node| **node != 0).count();
        if counted != self.entries.len()
            || told != counted
            || counted > self.entry_capacity as usize
            || chained != dirty
        {
            return Err(format!(
                "{counted} entries in order, {told} to be found, {} kept, {} at most; {dirty} changed, {chained} known by page",
                self.entries.len(),
                self.entry_capacity
            ));
        }
        let in_order = self.recent.iter(&self.page_links).filter(|tpn| self.pages[*tpn as usize].in_memory);
        let pages = in_order.count();
        let in_memory = self.pages.iter().filter(|page| page.in_memory).count();
        let lost = self.pages.iter().any(|page| page.dirty && !page.in_memory);
        if pages != in_memory
            || pages != self.recent.len as usize
            || pages > self.page_capacity as usize
            || lost
        {
            return Err(format!(
                "{pages} pages in order, {in_memory} in memory, {} at most",
                self.page_capacity
            ));
        }
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        self.entry_links.table_bytes()
            + self.page_links.table_bytes()
            + (self.entries.capacity() * size_of::<Entry>() + self.pages.capacity() * size_of::<Page>())
                as u64
            + self.entry_of.capacity() as u64 * 4
            + self.changed.table_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapcache::cache::Intent::{self, Read, Write};

    /// Pages of 128 entries; memory for one page and three entries.
    fn cache(flush_coalesce: bool) -> Cdftl {
        let layout = TranslationLayout { logical_units: 1024, shift: 7, slots: 1, planes: 1, block_units: 0 };
        let keys = CdftlKeys { entry_fraction: 0.02, flush_coalesce, ..CdftlKeys::default() };
        Cdftl::new(&keys, 512 + 12, layout)
    }

    fn access(cache: &mut Cdftl, lpn: u32, intent: Intent) -> (bool, Vec<MapOp>) {
        let mut ops = Vec::new();
        let hit = cache.lookup(Lookup { lpn: Lpn(lpn), intent, rest: 0 }, &[], &mut ops);
        cache.check().unwrap();
        (hit, ops)
    }

    fn fetch(tpn: u32) -> MapOp {
        MapOp::Fetch { tpn, bytes: 512, units: (Lpn(tpn * 128), Lpn(tpn * 128 + 127)) }
    }

    #[test]
    fn pages_serve_what_is_near_and_entries_what_comes_again() {
        let mut cache = cache(false);
        assert_eq!(access(&mut cache, 0, Read), (false, vec![fetch(0)]));
        assert_eq!(access(&mut cache, 100, Read), (true, vec![]), "of the page");
        assert_eq!(access(&mut cache, 128, Read), (false, vec![fetch(1)]), "the page of the others leaves");
        assert_eq!(access(&mut cache, 0, Read), (true, vec![]), "of the first level");
        assert_eq!(access(&mut cache, 101, Read), (false, vec![fetch(0)]));
        assert_eq!(cache.used_bytes(), 512 + 3 * 4);
    }

    #[test]
    fn changes_go_down_to_their_page() {
        let mut cache = cache(false);
        access(&mut cache, 0, Write);
        for lpn in 1..4 {
            // The third one pushes the change down into the page.
            assert_eq!(access(&mut cache, lpn, Read), (true, vec![]));
        }
        assert!(cache.find(Lpn(0)) == NONE && cache.is_dirty(Lpn(0)));
        // Which is written when it leaves, without a read; of the first level, clean entries leave.
        let write = MapOp::WriteBack { tpn: 0, rest_bytes: 0 };
        assert_eq!(access(&mut cache, 128, Write), (false, vec![write, fetch(1)]));
        assert!(!cache.is_dirty(Lpn(0)));
        // A page that comes back takes the change of the entry that leaves then.
        access(&mut cache, 256, Read);
        access(&mut cache, 257, Read);
        assert_eq!(access(&mut cache, 129, Read), (false, vec![fetch(1)]));
        assert!(cache.find(Lpn(128)) == NONE && cache.is_dirty(Lpn(128)));
        let write = MapOp::WriteBack { tpn: 1, rest_bytes: 0 };
        assert_eq!(access(&mut cache, 0, Read), (false, vec![write, fetch(0)]));
    }

    #[test]
    fn a_change_without_its_page_leaves_as_the_least_recent_entry_and_takes_the_others_along() {
        let mut cache = cache(false);
        for lpn in [0, 1] {
            access(&mut cache, lpn, Write);
        }
        access(&mut cache, 128, Write);
        let write = MapOp::WriteBack { tpn: 0, rest_bytes: 512 - 8 };
        assert_eq!(access(&mut cache, 256, Read), (false, vec![write, fetch(2)]));
        assert!(cache.find(Lpn(0)) == NONE && cache.find(Lpn(1)) != NONE && !cache.is_dirty(Lpn(1)));
        assert!(cache.is_dirty(Lpn(128)));
    }

    /// Three entries and a page in LRU order hit twice here: unit 129 beside 128 in its page, and 128 again. Between them and
    /// the end, five other units are asked for, so that none of the first three is there then.
    #[test]
    fn both_levels_are_in_lru_order() {
        let mut cache = cache(false);
        let accesses = [
            (128, Write, false),
            (129, Write, true),
            (128, Read, true),
            (256, Read, false),
            (1, Read, false),
            (130, Write, false),
            (0, Write, false),
            (129, Read, false),
        ];
        for (lpn, intent, hit) in accesses {
            assert_eq!(access(&mut cache, lpn, intent).0, hit, "{lpn}");
        }
    }

    #[test]
    fn changes_go_along_with_their_page_if_asked_for() {
        for coalesce in [false, true] {
            let mut cache = cache(coalesce);
            for lpn in [0, 1, 2, 3] {
                access(&mut cache, lpn, Write);
            }
            // The page has the change of 0, takes that of 1, and leaves.
            let write = MapOp::WriteBack { tpn: 0, rest_bytes: 0 };
            assert_eq!(access(&mut cache, 128, Read).1, [write, fetch(1)]);
            assert_eq!([1, 2, 3].map(|lpn| cache.is_dirty(Lpn(lpn))), [false, !coalesce, !coalesce]);
        }
    }
}
