//! DFTL: single entries on demand, in a segmented LRU order.
//!
//! An entry comes into the probationary segment; asked for again, it goes to the protected one, whose least recent entry
//! makes room for it by going back. The least recent probationary entry leaves. With `protected_fraction = 0` the order
//! is plain LRU.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::geometry::Lpn;
use crate::mapcache::cache::{Lookup, MapCache, MapOp};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::scheme::{MapCacheScheme, PageSizes, TableBytes};
use crate::quantity;
use crate::recency::{Groups, Links, List, NONE};
use crate::scheme::{Contrast, Scheme};

#[derive(Debug, Clone, Copy)]
struct Entry {
    lpn: u32,
    protected: bool,
    dirty: bool,
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DftlKeys {
    /// Bytes of memory that an entry takes: 4 for the physical address alone, 8 with the logical one.
    ///
    /// Default: the address alone, as in the mapping-cache paper: its place says which entry it is.
    #[serde(deserialize_with = "quantity::few_bytes")]
    pub entry_bytes: u32,
    /// Share of the entries in the protected segment; 0 is plain LRU.
    ///
    /// Default: as in the original simulator, which protects 6,552 of 8,192 entries.
    #[serde(deserialize_with = "quantity::share")]
    pub protected_fraction: f64,
    /// Whether all changed entries of a translation page are written when it is.
    ///
    /// Default: off, as the mapping-cache paper does not mention it.
    pub flush_coalesce: bool,
}

impl Default for DftlKeys {
    fn default() -> Self {
        Self { entry_bytes: ENTRY_BYTES, protected_fraction: 0.8, flush_coalesce: false }
    }
}

/// Refuse sizes of an entry that no table has.
pub(super) fn check_entry_bytes(entry_bytes: u32) -> Result<(), ConfigError> {
    match entry_bytes {
        4 | 8 => Ok(()),
        _ => refuse("entry_bytes", entry_bytes, "must be 4 or 8"),
    }
}

impl Scheme for Dftl {
    const SUMMARY: &'static str = "Single entries on demand, in a segmented LRU order.";
    const SOURCE: &'static str = "Gupta, Kim, Urgaonkar, ASPLOS 2009";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast { key: "entry_bytes", value: "8", with: &["map_cache.bytes=4096"] },
        Contrast { key: "protected_fraction", value: "0.5", with: &["map_cache.bytes=4096"] },
        Contrast { key: "flush_coalesce", value: "true", with: &["map_cache.bytes=4096"] },
    ];
    type Keys = DftlKeys;
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Dftl {
    layout: TranslationLayout,
    entry_bytes: u32,
    capacity: u32,
    protected_capacity: u32,
    coalesce: bool,
    entries: Vec<Entry>,
    links: Links,
    protected: List,
    probationary: List,
    /// For each logical unit its entry plus 1, or 0. Only what was touched takes memory.
    entry_of: Vec<u32>,
    /// By translation page.
    changed: Groups,
}

impl MapCacheScheme for Dftl {
    fn new(keys: &DftlKeys, bytes: u64, layout: TranslationLayout) -> Self {
        let capacity = (bytes / u64::from(keys.entry_bytes)).min(u64::from(layout.logical_units)) as u32;
        Self {
            layout,
            entry_bytes: keys.entry_bytes,
            capacity,
            // One entry at least can leave.
            protected_capacity: ((f64::from(capacity) * keys.protected_fraction) as u32).min(capacity - 1),
            coalesce: keys.flush_coalesce,
            entries: Vec::new(),
            links: Links::default(),
            protected: List::new(),
            probationary: List::new(),
            entry_of: vec![0; layout.logical_units as usize],
            changed: Groups::new(layout.pages()),
        }
    }

    fn check_keys(keys: &DftlKeys, _: PageSizes) -> Result<(), ConfigError> {
        check_entry_bytes(keys.entry_bytes)?;
        if !(0.0..1.0).contains(&keys.protected_fraction) {
            return refuse("protected_fraction", keys.protected_fraction, "must be from 0 to below 1");
        }
        Ok(())
    }

    fn least_bytes(keys: &DftlKeys, _: u64, _: TranslationLayout) -> u64 {
        keys.entry_bytes.into()
    }

    fn whole_table_bytes(keys: &DftlKeys, layout: TranslationLayout) -> u64 {
        u64::from(keys.entry_bytes) * u64::from(layout.logical_units)
    }

    fn table_bytes_at_most(keys: &DftlKeys, _: TranslationLayout) -> TableBytes {
        TableBytes { per_unit: 4, per_node: 24, node_bytes: keys.entry_bytes.into(), per_page: 8, more: 0 }
    }
}

impl Dftl {
    #[inline]
    fn find(&self, lpn: Lpn) -> u32 {
        self.entry_of[lpn.index()].wrapping_sub(1)
    }

    #[inline]
    fn promote(&mut self, node: u32) {
        if self.entries[node as usize].protected {
            self.protected.touch(&mut self.links, node);
            return;
        }
        if self.protected_capacity == 0 {
            self.probationary.touch(&mut self.links, node);
            return;
        }
        self.probationary.remove(&mut self.links, node);
        if self.protected.len == self.protected_capacity {
            let demoted = self.protected.oldest;
            self.protected.remove(&mut self.links, demoted);
            self.entries[demoted as usize].protected = false;
            self.probationary.enter(&mut self.links, demoted);
        }
        self.protected.enter(&mut self.links, node);
        self.entries[node as usize].protected = true;
    }

    #[inline]
    fn set_dirty(&mut self, node: u32) {
        let Entry { lpn, dirty, .. } = self.entries[node as usize];
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

    fn clean(&mut self, tpn: u32) {
        while self.changed.first(tpn) != NONE {
            self.set_clean(self.changed.first(tpn));
        }
    }

    /// A node for a new entry: an unused one, or that of the entry that leaves.
    fn make_room(&mut self, ops: &mut Vec<MapOp>) -> u32 {
        if (self.entries.len() as u32) < self.capacity {
            let node = self.entries.len() as u32;
            self.entries.push(Entry { lpn: 0, protected: false, dirty: false });
            self.links.reach(node);
            self.changed.reach(node);
            return node;
        }
        // There is one: the protected segment never takes all.
        let node = self.probationary.oldest;
        let Entry { lpn, dirty, .. } = self.entries[node as usize];
        if dirty {
            let tpn = self.layout.tpn(Lpn(lpn));
            ops.push(MapOp::WriteBack { tpn, rest_bytes: self.layout.page_bytes() - ENTRY_BYTES });
            if self.coalesce {
                self.clean(tpn);
            } else {
                self.set_clean(node);
            }
        }
        self.probationary.remove(&mut self.links, node);
        self.entry_of[lpn as usize] = 0;
        self.probationary.look_at_victims(&self.links, &self.entries, &self.entry_of, |entry| entry.lpn);
        node
    }
}

impl MapCache for Dftl {
    fn lookup(&mut self, lookup: Lookup, _: &[u32], ops: &mut Vec<MapOp>) -> bool {
        let found = self.find(lookup.lpn);
        if found != NONE {
            self.promote(found);
            if lookup.changes() {
                self.set_dirty(found);
            }
            return true;
        }
        let node = self.make_room(ops);
        ops.push(MapOp::Fetch {
            tpn: self.layout.tpn(lookup.lpn),
            bytes: ENTRY_BYTES,
            units: (lookup.lpn, lookup.lpn),
        });
        self.entries[node as usize] = Entry { lpn: lookup.lpn.0, protected: false, dirty: false };
        self.entry_of[lookup.lpn.index()] = node + 1;
        self.probationary.enter(&mut self.links, node);
        if lookup.changes() {
            self.set_dirty(node);
        }
        false
    }

    fn look_ahead(&self, lpn: Lpn, stage: u32) {
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
        if self.coalesce {
            self.clean(tpn);
        }
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        let found = self.find(lpn);
        found != NONE && self.entries[found as usize].dirty
    }

    fn used_bytes(&self) -> u64 {
        u64::from(self.protected.len + self.probationary.len) * u64::from(self.entry_bytes)
    }

    fn check(&self) -> Result<(), String> {
        let nodes = self.protected.iter(&self.links).chain(self.probationary.iter(&self.links));
        let mut counted = 0;
        for node in nodes {
            counted += 1;
            let lpn = self.entries[node as usize].lpn;
            if self.find(Lpn(lpn)) != node {
                return Err(format!("the entry of logical unit {lpn} is not found in its place"));
            }
        }
        let told = self.entry_of.iter().filter(|node| **node != 0).count();
        if counted != self.entries.len() || told != counted || counted > self.capacity as usize {
            return Err(format!(
                "{counted} entries in order, {told} to be found, {} kept, {} at most",
                self.entries.len(),
                self.capacity
            ));
        }
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        self.links.table_bytes()
            + (self.entries.capacity() * size_of::<Entry>()) as u64
            + self.entry_of.capacity() as u64 * 4
            + self.changed.table_bytes()
    }
}
