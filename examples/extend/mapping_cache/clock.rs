//! CLOCK: single entries in a ring; one that was asked for again is passed over a few times before it leaves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::geometry::Lpn;
use crate::mapcache::cache::{Lookup, MapCache, MapOp};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::scheme::{MapCacheScheme, PageSizes, TableBytes};
use crate::scheme::{Contrast, Scheme};

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClockKeys {
    /// How often an entry is passed over after it was asked for again; 0 is first in, first out.
    pub clock_chances: u32,
}

impl Default for ClockKeys {
    fn default() -> Self {
        Self { clock_chances: 1 }
    }
}

impl Scheme for Clock {
    const SUMMARY: &'static str = "Single entries on demand, in the order of a clock with second chances.";
    const SOURCE: &'static str = "F. Corbató, 1968, of page replacement";
    const CONTRASTS: &'static [Contrast] =
        &[Contrast { key: "clock_chances", value: "0", with: &["map_cache.bytes=4096"] }];
    type Keys = ClockKeys;
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    lpn: u32,
    dirty: bool,
    chances: u32,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Clock {
    layout: TranslationLayout,
    capacity: usize,
    chances: u32,
    ring: Vec<Entry>,
    hand: usize,
    /// For each logical unit its place in the ring plus 1, or 0.
    place_of: Vec<u32>,
}

impl Clock {
    fn find(&self, lpn: Lpn) -> Option<usize> {
        (self.place_of[lpn.index()] as usize).checked_sub(1)
    }

    /// A place for a new entry: an unused one, or that of the entry that leaves.
    fn make_room(&mut self, ops: &mut Vec<MapOp>) -> usize {
        if self.ring.len() < self.capacity {
            self.ring.push(Entry { lpn: 0, dirty: false, chances: 0 });
            return self.ring.len() - 1;
        }
        loop {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.capacity;
            let entry = &mut self.ring[at];
            if entry.chances > 0 {
                entry.chances -= 1;
                continue;
            }
            if entry.dirty {
                let rest_bytes = self.layout.page_bytes() - ENTRY_BYTES;
                ops.push(MapOp::WriteBack { tpn: self.layout.tpn(Lpn(entry.lpn)), rest_bytes });
            }
            self.place_of[entry.lpn as usize] = 0;
            return at;
        }
    }
}

impl MapCacheScheme for Clock {
    fn new(keys: &ClockKeys, bytes: u64, layout: TranslationLayout) -> Self {
        let capacity = (bytes / u64::from(ENTRY_BYTES)).min(layout.logical_units.into()) as usize;
        let place_of = vec![0; layout.logical_units as usize];
        Self { layout, capacity, chances: keys.clock_chances, ring: Vec::new(), hand: 0, place_of }
    }

    fn check_keys(keys: &ClockKeys, _: PageSizes) -> Result<(), ConfigError> {
        if keys.clock_chances > 16 {
            return refuse("clock_chances", keys.clock_chances, "must be at most 16");
        }
        Ok(())
    }

    fn least_bytes(_: &ClockKeys, _: u64, _: TranslationLayout) -> u64 {
        ENTRY_BYTES.into()
    }

    fn whole_table_bytes(_: &ClockKeys, layout: TranslationLayout) -> u64 {
        u64::from(ENTRY_BYTES) * u64::from(layout.logical_units)
    }

    fn table_bytes_at_most(_: &ClockKeys, _: TranslationLayout) -> TableBytes {
        let per_node = size_of::<Entry>() as u64;
        TableBytes { per_unit: 4, per_node, node_bytes: ENTRY_BYTES.into(), per_page: 0, more: 0 }
    }
}

impl MapCache for Clock {
    fn lookup(&mut self, lookup: Lookup, _: &[u32], ops: &mut Vec<MapOp>) -> bool {
        let Lookup { lpn, .. } = lookup;
        if let Some(at) = self.find(lpn) {
            self.ring[at].chances = self.chances;
            self.ring[at].dirty |= lookup.changes();
            return true;
        }
        let at = self.make_room(ops);
        ops.push(MapOp::Fetch { tpn: self.layout.tpn(lpn), bytes: ENTRY_BYTES, units: (lpn, lpn) });
        self.ring[at] = Entry { lpn: lpn.0, dirty: lookup.changes(), chances: 0 };
        self.place_of[lpn.index()] = at as u32 + 1;
        false
    }

    fn moved(&mut self, lpn: Lpn, _: &[u32]) -> bool {
        let found = self.find(lpn);
        found.inspect(|at| self.ring[*at].dirty = true).is_some()
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        self.find(lpn).is_some_and(|at| self.ring[at].dirty)
    }

    fn used_bytes(&self) -> u64 {
        self.ring.len() as u64 * u64::from(ENTRY_BYTES)
    }

    fn check(&self) -> Result<(), String> {
        let found = self.ring.iter().zip(1..).filter(|(entry, at)| self.place_of[entry.lpn as usize] == *at);
        let (found, told) = (found.count(), self.place_of.iter().filter(|place| **place != 0).count());
        if (found, told) != (self.ring.len(), self.ring.len()) {
            return Err(format!("{found} of {} entries are found, {told} are told of", self.ring.len()));
        }
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        (self.ring.capacity() * size_of::<Entry>() + self.place_of.capacity() * 4) as u64
    }
}
