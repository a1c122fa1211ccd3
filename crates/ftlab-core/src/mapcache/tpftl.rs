//! TPFTL: the entries of a translation page hang together, and the coldest page gives way.
//!
//! There are two levels of lists. Each translation page with entries in memory has a node, and nodes are ordered by the
//! average recency of their entries. In each node, its entries stand from the most to the least recent. A miss loads
//! the entries of the rest of its request (request-level prefetching). When the number of nodes has fallen by
//! `selective_threshold`, accesses are taken to be sequential until it has risen by as many. Meanwhile a miss also
//! loads as many entries as consecutive predecessors are in memory (selective prefetching). Neither crosses the
//! translation page, nor takes more room than the coldest node has. That node loses its least recent entry that has not
//! changed (clean first). If all have, they are written together and stay as unchanged (batch update), except the one
//! that leaves.
//!
//! An entry takes 6 bytes, as in the paper: its place in the translation page and its address.
//!
//! Interpretation: a node takes 4 bytes, for the number of its translation page. An entry's time is that of the lookup
//! that last asked for it or loaded it. Of the two prefetches the longer one counts. Entries that are in memory already
//! stay as they are. What a miss reads is one span, from the entry asked for to the last one loaded. An entry that
//! collection changes keeps its time, and leaves after the changed ones of its node. When collection writes a translation
//! page, the changes of its node go along.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::geometry::Lpn;
use crate::mapcache::cache::{CacheReport, Lookup, MapCache, MapOp};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::scheme::{MapCacheScheme, TableBytes};
use crate::recency::{Links, List, NONE};
use crate::scheme::{Contrast, Scheme};
use crate::table;

/// What an entry and a node take.
const CACHED_BYTES: u32 = 6;
const NODE_BYTES: u32 = 4;

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Of the last access.
    time: u64,
    lpn: u32,
    dirty: bool,
}

/// The entries of a translation page.
#[derive(Debug, Clone)]
struct Node {
    clean: List,
    dirty: List,
    /// The sum of their times.
    times: u64,
}

impl Node {
    const fn len(&self) -> u32 {
        self.clean.len + self.dirty.len
    }

    /// What node `tpn` is ordered by: hotness, of which the bits order as it does since it is above 0, and number. As one
    /// number, so that nodes are compared without a jump.
    fn rank(&self, tpn: u32) -> u128 {
        let hotness = self.times as f64 / f64::from(self.len());
        u128::from(hotness.to_bits()) << 32 | u128::from(tpn)
    }
}

/// Nodes with entries, the coldest first: a heap.
#[derive(Debug, Clone)]
struct Order {
    ranks: Vec<u128>,
    /// For each node where it is among them, or `NONE`.
    place_of: Vec<u32>,
}

impl Order {
    fn new(nodes: u32) -> Self {
        Self { ranks: Vec::with_capacity(nodes as usize), place_of: vec![NONE; nodes as usize] }
    }

    const fn tpn(rank: u128) -> u32 {
        rank as u32
    }

    /// The coldest node, or `NONE`.
    #[inline]
    fn coldest(&self) -> u32 {
        self.ranks.first().map_or(NONE, |rank| Self::tpn(*rank))
    }

    #[inline]
    fn has(&self, tpn: u32) -> bool {
        self.place_of[tpn as usize] != NONE
    }

    #[inline]
    fn put(&mut self, place: usize, rank: u128) {
        self.ranks[place] = rank;
        self.place_of[Self::tpn(rank) as usize] = place as u32;
    }

    /// Move what stands at `place`, now of `rank`, to where it belongs.
    fn settle(&mut self, mut place: usize, rank: u128) {
        while place > 0 && rank < self.ranks[(place - 1) / 2] {
            self.put(place, self.ranks[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        while let Some(below) = self.ranks.get(2 * place + 1..) {
            let Some(left) = below.first() else { break };
            let right = below.get(1).unwrap_or(left);
            let colder = *left.min(right);
            if colder > rank {
                break;
            }
            let at = 2 * place + 1 + usize::from(right < left);
            self.put(place, colder);
            place = at;
        }
        self.put(place, rank);
    }

    /// Enter a node, or give it another rank.
    #[inline]
    fn set(&mut self, rank: u128) {
        let place = self.place_of[Self::tpn(rank) as usize];
        if place == NONE {
            self.ranks.push(rank);
            self.settle(self.ranks.len() - 1, rank);
        } else {
            self.settle(place as usize, rank);
        }
    }

    fn remove(&mut self, tpn: u32) {
        let place = std::mem::replace(&mut self.place_of[tpn as usize], NONE) as usize;
        if let Some(last) = self.ranks.pop()
            && place < self.ranks.len()
        {
            self.settle(place, last);
        }
    }

    fn table_bytes(&self) -> u64 {
        self.ranks.capacity() as u64 * 16 + self.place_of.capacity() as u64 * 4
    }
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TpftlKeys {
    /// By how many translation pages memory must have fewer, or more again, for accesses to count as sequential, or not; 0
    /// is without selective prefetching.
    ///
    /// Default: 3, as in the paper.
    pub selective_threshold: u32,
}

impl Default for TpftlKeys {
    fn default() -> Self {
        Self { selective_threshold: 3 }
    }
}

impl Scheme for Tpftl {
    const SUMMARY: &'static str = "Two-level LRU: entries clustered by translation page; request-level and selective \
                                   prefetching; batch updates.";
    const SOURCE: &'static str = "Zhou, Wu, Huang, He, Zhou, Xie, EuroSys 2015";
    const CONTRASTS: &'static [Contrast] =
        &[Contrast { key: "selective_threshold", value: "1", with: &["map_cache.bytes=600"] }];
    type Keys = TpftlKeys;
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Tpftl {
    layout: TranslationLayout,
    capacity: u64,
    used: u64,
    now: u64,
    entries: Vec<Entry>,
    unused: Vec<u32>,
    links: Links,
    /// For each logical unit its entry plus 1, or 0. Only what was touched takes memory.
    entry_of: Vec<u32>,
    /// For each translation page.
    nodes: Vec<Node>,
    order: Order,
    selective_threshold: i64,
    /// Nodes that came less nodes that left.
    nodes_change: i64,
    sequential: bool,
    /// Misses by what they loaded.
    single: u64,
    by_request: u64,
    selective: u64,
}

impl MapCacheScheme for Tpftl {
    fn new(keys: &TpftlKeys, bytes: u64, layout: TranslationLayout) -> Self {
        let node = |_| Node { clean: List::new(), dirty: List::new(), times: 0 };
        Self {
            layout,
            capacity: bytes,
            used: 0,
            now: 0,
            entries: Vec::new(),
            unused: Vec::new(),
            links: Links::default(),
            entry_of: vec![0; layout.logical_units as usize],
            nodes: (0..layout.pages()).map(node).collect(),
            order: Order::new(layout.pages()),
            selective_threshold: keys.selective_threshold.into(),
            nodes_change: 0,
            sequential: false,
            single: 0,
            by_request: 0,
            selective: 0,
        }
    }

    fn least_bytes(_: &TpftlKeys, _: u64, _: TranslationLayout) -> u64 {
        (CACHED_BYTES + NODE_BYTES).into()
    }

    fn whole_table_bytes(_: &TpftlKeys, layout: TranslationLayout) -> u64 {
        6 * u64::from(layout.logical_units) + 4 * u64::from(layout.pages())
    }

    fn table_bytes_at_most(_: &TpftlKeys, _: TranslationLayout) -> TableBytes {
        TableBytes { per_unit: 4, per_node: 28, node_bytes: ENTRY_BYTES.into(), per_page: 64, more: 0 }
    }
}

impl Tpftl {
    #[inline]
    fn find(&self, lpn: Lpn) -> u32 {
        self.entry_of[lpn.index()].wrapping_sub(1)
    }

    /// The times of a node's entries have changed.
    #[inline]
    fn reorder(&mut self, tpn: u32) {
        self.order.set(self.nodes[tpn as usize].rank(tpn));
    }

    /// A node with its first entry.
    fn enter_node(&mut self, tpn: u32) {
        self.reorder(tpn);
        self.used += u64::from(NODE_BYTES);
        self.nodes_change += 1;
        if self.nodes_change == self.selective_threshold {
            (self.sequential, self.nodes_change) = (false, 0);
        }
    }

    fn leave_node(&mut self, tpn: u32) {
        self.order.remove(tpn);
        self.used -= u64::from(NODE_BYTES);
        self.nodes_change -= 1;
        if self.nodes_change == -self.selective_threshold {
            (self.sequential, self.nodes_change) = (self.selective_threshold > 0, 0);
        }
    }

    #[inline]
    fn set_dirty(&mut self, entry: u32) {
        let Entry { lpn, dirty, .. } = self.entries[entry as usize];
        if !dirty {
            let node = &mut self.nodes[self.layout.tpn(Lpn(lpn)) as usize];
            node.clean.remove(&mut self.links, entry);
            node.dirty.enter(&mut self.links, entry);
            self.entries[entry as usize].dirty = true;
        }
    }

    /// Flash has every entry of the node as it is.
    fn clean(&mut self, tpn: u32) {
        let Node { clean, dirty, .. } = &mut self.nodes[tpn as usize];
        if dirty.len == 0 {
            return;
        }
        // Two lists in one, by time.
        let mut all = List::new();
        while clean.len + dirty.len > 0 {
            let is_older =
                |a: u32, b: u32| b == NONE || self.entries[a as usize].time <= self.entries[b as usize].time;
            let from = if clean.oldest != NONE && is_older(clean.oldest, dirty.oldest) {
                &mut *clean
            } else {
                &mut *dirty
            };
            let entry = from.oldest;
            from.remove(&mut self.links, entry);
            all.enter(&mut self.links, entry);
            self.entries[entry as usize].dirty = false;
        }
        *clean = all;
    }

    /// One entry of the node leaves; the node with its last one.
    fn evict_from(&mut self, tpn: u32, ops: &mut Vec<MapOp>) {
        let node = &self.nodes[tpn as usize];
        if node.clean.len == 0 {
            let rest_bytes = self.layout.page_bytes() - node.len() * ENTRY_BYTES;
            ops.push(MapOp::WriteBack { tpn, rest_bytes });
            self.clean(tpn);
        }
        let node = &mut self.nodes[tpn as usize];
        let entry = node.clean.oldest;
        let Entry { lpn, time, .. } = self.entries[entry as usize];
        node.clean.remove(&mut self.links, entry);
        node.times -= time;
        self.entry_of[lpn as usize] = 0;
        self.unused.push(entry);
        self.used -= u64::from(CACHED_BYTES);
        if self.nodes[tpn as usize].len() == 0 {
            self.leave_node(tpn);
        } else {
            self.reorder(tpn);
        }
    }

    fn load(&mut self, lpn: u32) {
        let new = Entry { time: self.now, lpn, dirty: false };
        let entry = self.unused.pop().unwrap_or(self.entries.len() as u32);
        if entry as usize == self.entries.len() {
            self.entries.push(new);
            self.links.reach(entry);
        } else {
            self.entries[entry as usize] = new;
        }
        self.entry_of[lpn as usize] = entry + 1;
        self.used += u64::from(CACHED_BYTES);
        let node = &mut self.nodes[self.layout.tpn(Lpn(lpn)) as usize];
        node.clean.enter(&mut self.links, entry);
        node.times += self.now;
    }

    /// The last entry that a miss would like to have.
    fn window(&mut self, lookup: Lookup) -> u32 {
        let lpn = lookup.lpn.0;
        let tpn = self.layout.tpn(lookup.lpn);
        let mut more = lookup.rest;
        let mut loads = if more > 0 { &mut self.by_request } else { &mut self.single };
        if self.sequential {
            let first = self.layout.first(tpn).0;
            let before = self.entry_of[first as usize..lpn as usize].iter().rev();
            let consecutive = before.take_while(|entry| **entry != 0).count() as u32;
            if consecutive > more {
                more = consecutive;
                loads = &mut self.selective;
            }
        }
        *loads += 1;
        lpn.saturating_add(more).min(self.layout.last(tpn).0)
    }

    fn miss(&mut self, lookup: Lookup, ops: &mut Vec<MapOp>) {
        let lpn = lookup.lpn.0;
        let tpn = self.layout.tpn(lookup.lpn);
        let end = self.window(lookup);
        let is_known = self.nodes[tpn as usize].len() > 0;
        // As many as fit when no more than the coldest node goes.
        let coldest = self.order.coldest();
        let mut room = self.capacity - self.used;
        if coldest != NONE {
            room += u64::from(self.nodes[coldest as usize].len() * CACHED_BYTES);
        }
        if coldest != NONE && coldest != tpn {
            room += u64::from(NODE_BYTES);
        }
        let header = if is_known { 0 } else { u64::from(NODE_BYTES) };
        // Validation saw to memory for one.
        let most = (room - header) / u64::from(CACHED_BYTES);
        let count = if end == lpn {
            1
        } else {
            let wanted = self.entry_of[lpn as usize..=end as usize].iter().filter(|entry| **entry == 0);
            wanted.take(most as usize).count() as u64
        };
        loop {
            let header = if self.nodes[tpn as usize].len() > 0 { 0 } else { u64::from(NODE_BYTES) };
            if self.used + header + count * u64::from(CACHED_BYTES) <= self.capacity {
                break;
            }
            self.evict_from(coldest, ops);
        }
        let (mut at, mut left) = (lpn, count);
        while left > 0 && at <= end {
            if self.entry_of[at as usize] == 0 {
                self.load(at);
                left -= 1;
            }
            at += 1;
        }
        ops.push(MapOp::Fetch { tpn, bytes: (at - lpn) * ENTRY_BYTES, units: (Lpn(lpn), Lpn(at - 1)) });
        if self.order.has(tpn) {
            self.reorder(tpn);
        } else {
            self.enter_node(tpn);
        }
        // What was asked for is the most recent of what was loaded.
        let entry = self.find(lookup.lpn);
        self.nodes[tpn as usize].clean.touch(&mut self.links, entry);
        if lookup.changes() {
            self.set_dirty(entry);
        }
        self.look_at_victims();
    }

    /// Entries of the coldest nodes leave next: ask the processor for what that touches.
    #[inline]
    fn look_at_victims(&self) {
        for (at, rank) in self.order.ranks.iter().take(3).enumerate() {
            let victim = self.nodes[Order::tpn(*rank) as usize].clean.oldest;
            self.links.prefetch(victim);
            table::prefetch(&self.entries, victim as usize);
            if let (0, Some(entry)) = (at, self.entries.get(victim as usize)) {
                table::prefetch(&self.entry_of, entry.lpn as usize);
            }
        }
    }
}

impl MapCache for Tpftl {
    fn lookup(&mut self, lookup: Lookup, _: &[u32], ops: &mut Vec<MapOp>) -> bool {
        self.now += 1;
        let found = self.find(lookup.lpn);
        if found == NONE {
            self.miss(lookup, ops);
            return false;
        }
        let tpn = self.layout.tpn(lookup.lpn);
        let entry = &mut self.entries[found as usize];
        let node = &mut self.nodes[tpn as usize];
        node.times += self.now - entry.time;
        entry.time = self.now;
        if entry.dirty {
            node.dirty.touch(&mut self.links, found);
        } else if lookup.changes() {
            self.set_dirty(found);
        } else {
            node.clean.touch(&mut self.links, found);
        }
        self.reorder(tpn);
        true
    }

    fn look_ahead(&self, lpn: Lpn, stage: u32) {
        if stage == 0 {
            table::prefetch(&self.nodes, self.layout.tpn(lpn) as usize);
        }
        self.links.look_ahead_for(&self.entries, &self.entry_of, lpn.index(), stage);
    }

    fn moved(&mut self, lpn: Lpn, _: &[u32]) -> bool {
        let found = self.find(lpn);
        if found != NONE {
            self.set_dirty(found);
        }
        found != NONE
    }

    fn rewritten(&mut self, tpn: u32) {
        self.clean(tpn);
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        let found = self.find(lpn);
        found != NONE && self.entries[found as usize].dirty
    }

    fn used_bytes(&self) -> u64 {
        self.used
    }

    fn reset_counts(&mut self) {
        (self.single, self.by_request, self.selective) = (0, 0, 0);
    }

    fn report(&self) -> CacheReport {
        let windows = [("entry", self.single), ("request", self.by_request), ("selective", self.selective)];
        let dirty: u64 = self.nodes.iter().map(|node| u64::from(node.dirty.len)).sum();
        let nodes = self.order.ranks.len() as u64 * u64::from(NODE_BYTES);
        let dirty = dirty * u64::from(CACHED_BYTES);
        let content =
            [("unchanged_entries", self.used - nodes - dirty), ("changed_entries", dirty), ("nodes", nodes)];
        CacheReport {
            windows: windows.map(|(name, count)| (name.to_owned(), count)).to_vec(),
            content_bytes: content.map(|(name, bytes)| (name.to_owned(), bytes)).to_vec(),
            ..CacheReport::default()
        }
    }

    fn check(&self) -> Result<(), String> {
        let mut used = 0;
        for (tpn, node) in (0..).zip(&self.nodes) {
            let mut times = 0;
            for (list, dirty) in [(&node.clean, false), (&node.dirty, true)] {
                for entry in list.iter(&self.links) {
                    let Entry { time, lpn, dirty: told } = self.entries[entry as usize];
                    if self.find(Lpn(lpn)) != entry || told != dirty || self.layout.tpn(Lpn(lpn)) != tpn {
                        return Err(format!("the entry of logical unit {lpn} is not in its place"));
                    }
                    times += time;
                }
            }
            let in_order = self.order.ranks.get(self.order.place_of[tpn as usize] as usize).copied();
            let right = (node.len() > 0).then(|| node.rank(tpn));
            if times != node.times || in_order != right {
                return Err(format!("node {tpn} stands as {in_order:?} instead of {right:?}"));
            }
            used += u64::from(node.len() * CACHED_BYTES + if node.len() > 0 { NODE_BYTES } else { 0 });
        }
        let ranks = &self.order.ranks;
        if let Some(place) = (1..ranks.len()).find(|place| ranks[*place] < ranks[(place - 1) / 2]) {
            return Err(format!("node {} is colder than one before it", Order::tpn(ranks[place])));
        }
        let told = self.entry_of.iter().filter(|entry| **entry != 0).count();
        if used != self.used || used > self.capacity || told != self.entries.len() - self.unused.len() {
            return Err(format!(
                "{} bytes counted, {used} in use, {} at most; {told} entries to be found",
                self.used, self.capacity
            ));
        }
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        self.links.table_bytes()
            + (self.entries.capacity() * size_of::<Entry>() + self.nodes.capacity() * size_of::<Node>())
                as u64
            + self.order.table_bytes()
            + (self.entry_of.capacity() + self.unused.capacity()) as u64 * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mapcache::cache::Intent::{self, Read, Write};

    /// Pages of 128 entries.
    const LAYOUT: TranslationLayout =
        TranslationLayout { logical_units: 1024, shift: 7, slots: 1, planes: 1, block_units: 0 };

    fn cache(entries: u64, nodes: u64, selective_threshold: u32) -> Tpftl {
        Tpftl::new(&TpftlKeys { selective_threshold }, entries * 6 + nodes * 4, LAYOUT)
    }

    fn access(cache: &mut Tpftl, lpn: u32, intent: Intent, rest: u32) -> (bool, Vec<MapOp>) {
        let mut ops = Vec::new();
        let hit = cache.lookup(Lookup { lpn: Lpn(lpn), intent, rest }, &[], &mut ops);
        cache.check().unwrap();
        (hit, ops)
    }

    fn fetch(first: u32, entries: u32) -> MapOp {
        MapOp::Fetch { tpn: first / 128, bytes: entries * 4, units: (Lpn(first), Lpn(first + entries - 1)) }
    }

    #[test]
    fn a_request_is_loaded_as_a_whole_within_its_page() {
        let mut cache = cache(100, 10, 3);
        assert_eq!(access(&mut cache, 120, Read, 12), (false, vec![fetch(120, 8)]));
        for (left, lpn) in (5..12).rev().zip(121..128) {
            assert_eq!(access(&mut cache, lpn, Read, left), (true, vec![]));
        }
        assert_eq!(access(&mut cache, 128, Read, 4), (false, vec![fetch(128, 5)]));
        assert_eq!(cache.used_bytes(), (8 + 5) * 6 + 2 * 4);
        assert_eq!(
            cache.report().windows,
            [("entry".into(), 0), ("request".into(), 2), ("selective".into(), 0)]
        );
    }

    #[test]
    fn the_coldest_page_loses_clean_entries_first_and_then_writes_all_others_at_once() {
        let mut cache = cache(4, 2, 3);
        access(&mut cache, 0, Write, 0);
        access(&mut cache, 1, Read, 0);
        access(&mut cache, 2, Write, 0);
        access(&mut cache, 128, Read, 0);
        // Page 0 has the times 1, 2, 3 and page 1 has 4: page 0 is colder, and its entry 1 is clean.
        assert_eq!(access(&mut cache, 129, Read, 0), (false, vec![fetch(129, 1)]));
        assert!(cache.find(Lpn(1)) == NONE && cache.find(Lpn(0)) != NONE);
        // Only changed ones are left: both are written with one program, after the rest of the page was read.
        let write = MapOp::WriteBack { tpn: 0, rest_bytes: 512 - 2 * 4 };
        assert_eq!(access(&mut cache, 130, Read, 0), (false, vec![write, fetch(130, 1)]));
        assert!(cache.find(Lpn(0)) == NONE && cache.find(Lpn(2)) != NONE);
        assert!(!cache.is_dirty(Lpn(2)));
        // An average: the times 4, 5 and 6 against 7.
        assert_eq!(access(&mut cache, 2, Read, 0), (true, vec![]));
        access(&mut cache, 3, Read, 0);
        assert!(cache.find(Lpn(128)) == NONE && cache.find(Lpn(2)) != NONE);
    }

    #[test]
    fn a_prefetch_takes_no_more_than_the_coldest_page_gives() {
        let mut cache = cache(6, 3, 0);
        access(&mut cache, 0, Read, 1);
        access(&mut cache, 128, Read, 2);
        // One place is free and the coldest page gives two: three of the eight are loaded.
        assert_eq!(access(&mut cache, 256, Read, 7), (false, vec![fetch(256, 3)]));
        assert_eq!(cache.used_bytes(), 6 * 6 + 2 * 4);
        assert!(cache.find(Lpn(258)) != NONE && cache.find(Lpn(130)) != NONE);
        // A page that is the coldest itself gives its old entries for the new ones, and keeps its node.
        assert_eq!(access(&mut cache, 140, Read, 9), (false, vec![fetch(140, 3)]));
        assert!(cache.find(Lpn(142)) != NONE && cache.find(Lpn(130)) == NONE && cache.find(Lpn(258)) != NONE);
    }

    #[test]
    fn fewer_pages_mean_sequential_accesses() {
        let mut cache = cache(20, 4, 2);
        // Four pages with five entries each fill memory, then one page takes the room of the others.
        for page in 0..4 {
            for lpn in 0..5 {
                access(&mut cache, page * 128 + lpn, Read, 0);
            }
        }
        assert!(!cache.sequential);
        let mut at = 3 * 128 + 5;
        while !cache.sequential {
            assert_eq!(access(&mut cache, at, Read, 0).1, [fetch(at, 1)]);
            at += 1;
        }
        // Two pages are gone, for 10 entries more of page 3, and 8 bytes are free.
        assert_eq!((cache.order.ranks.len(), at), (2, 3 * 128 + 15));
        // 15 predecessors are there: 16 entries are wanted, and 7 fit into those 8 bytes and the 34 of page 2.
        assert_eq!(access(&mut cache, at, Read, 0), (false, vec![fetch(at, 7)]));
        assert_eq!(cache.report().windows[2], ("selective".into(), 1));
        for lpn in at + 1..at + 7 {
            assert_eq!(access(&mut cache, lpn, Read, 0), (true, vec![]));
        }
    }
}
