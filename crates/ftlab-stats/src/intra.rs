//! Where in a cached translation page the accesses go that follow the one which brought it in.

use ftlab_core::host::request::{Op, Request, SECTOR_BYTES};
use serde::Serialize;

use super::has_address;
use super::pages::PageNames;

/// Bytes of an entry of a translation page.
pub(super) const ENTRY_BYTES: u64 = 4;
const NONE: u32 = u32::MAX;

#[derive(Debug, Clone, Copy)]
struct Unit {
    page: u64,
    /// The entry whose miss brought the page in.
    origin: u32,
    older: u32,
    newer: u32,
    /// The next one of the same bucket.
    next: u32,
}

/// A mapping cache of whole translation pages with least-recently-used eviction.
#[derive(Debug)]
pub(super) struct IntraDistance {
    /// Powers of two: sectors of a page, and pages of a translation page.
    page_shift: u32,
    entries_shift: u32,
    capacity: usize,
    cache_bytes: u64,
    names: PageNames,
    units: Vec<Unit>,
    /// The first unit of each bucket of names; so many that hardly two units have the same.
    buckets: Vec<u32>,
    oldest: u32,
    newest: u32,
    /// Differences between neighbouring bins of the histogram, so that a run of pages takes two steps.
    steps: Vec<i64>,
    accesses: [u64; 2],
    hits: u64,
    misses: u64,
}

impl IntraDistance {
    /// A cache of `cache_bytes`, at least one translation page, for logical pages of `page_bytes`, a power of two.
    pub(super) fn new(page_bytes: u64, cache_bytes: u64) -> Self {
        let entries = page_bytes / ENTRY_BYTES;
        Self {
            page_shift: (page_bytes / u64::from(SECTOR_BYTES)).ilog2(),
            entries_shift: entries.ilog2(),
            capacity: (cache_bytes / page_bytes).max(1) as usize,
            cache_bytes,
            names: PageNames::default(),
            units: Vec::new(),
            buckets: vec![NONE; 1 << 14],
            oldest: NONE,
            newest: NONE,
            steps: vec![0; 2 * entries as usize + 1],
            accesses: [0; 2],
            hits: 0,
            misses: 0,
        }
    }

    /// Take the reads and writes among requests.
    pub(super) fn add(&mut self, requests: &[Request]) {
        for request in requests.iter().filter(|request| has_address(request) && request.op != Op::Trim) {
            let end = request.lba.saturating_add(u64::from(request.sectors));
            self.add_one(request.stream, request.lba, end, request.op == Op::Write);
        }
    }

    /// Take an access to the sectors from `lba` to before `end`.
    #[inline(always)]
    fn add_one(&mut self, volume: u16, lba: u64, end: u64, write: bool) {
        let (first, last) = (lba >> self.page_shift, (end - 1) >> self.page_shift);
        self.accesses[usize::from(write)] += last - first + 1;
        let inside = (1 << self.entries_shift) - 1;
        for table in first >> self.entries_shift..=last >> self.entries_shift {
            let start = table << self.entries_shift;
            let from = (first.max(start) - start) as u32;
            let to = (last.min(start + inside) - start) as u32;
            let mut name = 0;
            self.names.ranges(volume, table, table, |first, _| name = first);
            self.touch(name, from, to);
        }
    }

    #[inline(always)]
    fn touch(&mut self, name: u64, from: u32, to: u32) {
        let newest = self.units.get(self.newest as usize);
        let unit = match newest {
            Some(unit) if unit.page == name => self.newest,
            _ => self.find(name),
        };
        let (origin, first) = if unit == NONE {
            self.load(name, from);
            (from, from + 1)
        } else {
            if unit != self.newest {
                self.unlink(unit);
                self.link(unit);
            }
            (self.units[unit as usize].origin, from)
        };
        if first <= to {
            let middle = 1i64 << self.entries_shift;
            let bin = |entry: u32| (middle + i64::from(entry) - i64::from(origin)) as usize;
            self.steps[bin(first)] += 1;
            self.steps[bin(to) + 1] -= 1;
            self.hits += u64::from(to - first) + 1;
        }
    }

    #[inline(always)]
    fn bucket(&self, name: u64) -> usize {
        (name.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    fn find(&self, name: u64) -> u32 {
        let mut place = self.buckets[self.bucket(name)];
        while let Some(unit) = self.units.get(place as usize).filter(|unit| unit.page != name) {
            place = unit.next;
        }
        place
    }

    /// Put a unit into the bucket of its name.
    #[inline(always)]
    fn enter(&mut self, place: u32) {
        let bucket = self.bucket(self.units[place as usize].page);
        self.units[place as usize].next = std::mem::replace(&mut self.buckets[bucket], place);
    }

    /// Take a unit out of the bucket of its name.
    #[inline(always)]
    fn leave(&mut self, place: u32) {
        let Unit { page, next, .. } = self.units[place as usize];
        let bucket = self.bucket(page);
        let mut before = self.buckets[bucket];
        if before == place {
            self.buckets[bucket] = next;
            return;
        }
        while self.units[before as usize].next != place {
            before = self.units[before as usize].next;
        }
        self.units[before as usize].next = next;
    }

    fn load(&mut self, name: u64, origin: u32) {
        self.misses += 1;
        let unit = Unit { page: name, origin, older: NONE, newer: NONE, next: NONE };
        let place = if self.units.len() < self.capacity {
            self.units.push(unit);
            if 8 * self.units.len() > self.buckets.len() {
                self.buckets = vec![NONE; 2 * self.buckets.len()];
                (0..self.units.len() as u32 - 1).for_each(|place| self.enter(place));
            }
            self.units.len() as u32 - 1
        } else {
            let place = self.oldest;
            self.unlink(place);
            self.leave(place);
            self.units[place as usize] = unit;
            place
        };
        self.enter(place);
        self.link(place);
    }

    fn unlink(&mut self, place: u32) {
        let Unit { older, newer, .. } = self.units[place as usize];
        match self.units.get_mut(older as usize) {
            Some(unit) => unit.newer = newer,
            None => self.oldest = newer,
        }
        match self.units.get_mut(newer as usize) {
            Some(unit) => unit.older = older,
            None => self.newest = older,
        }
    }

    fn link(&mut self, place: u32) {
        let newest = self.newest;
        match self.units.get_mut(newest as usize) {
            Some(unit) => unit.newer = place,
            None => self.oldest = place,
        }
        let unit = &mut self.units[place as usize];
        (unit.older, unit.newer) = (newest, NONE);
        self.newest = place;
    }

    /// Page reads and page writes.
    pub(super) fn accesses(&self) -> [u64; 2] {
        self.accesses
    }

    pub(super) fn finish(&self) -> Option<IntraDistanceStats> {
        let mut count = 0;
        let mut rows = Vec::new();
        for (bin, step) in self.steps.iter().enumerate() {
            count += step;
            if count > 0 {
                let distance = bin.cast_signed() as i64 - (1i64 << self.entries_shift);
                rows.push(DistanceRow { distance, count: count.cast_unsigned() });
            }
        }
        let share = |wanted: fn(i64) -> bool| {
            let sum: u64 = rows.iter().filter(|row| wanted(row.distance)).map(|row| row.count).sum();
            (self.hits > 0).then(|| sum as f64 / self.hits as f64)
        };
        let [zero_fraction, ahead_fraction, behind_fraction, within_64_fraction] = [
            |distance| distance == 0,
            |distance| distance > 0,
            |distance| distance < 0,
            |distance: i64| distance.abs() <= 64,
        ]
        .map(share);
        (self.hits + self.misses > 0).then_some(IntraDistanceStats {
            cache_bytes: self.cache_bytes,
            hits: self.hits,
            misses: self.misses,
            zero_fraction,
            ahead_fraction,
            behind_fraction,
            within_64_fraction,
            histogram: rows,
        })
    }
}

/// How far page accesses that hit a translation page are from the access that brought it in, in a mapping cache of
/// whole translation pages (least recently used leaves). The accesses that miss are not counted in the histogram.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct IntraDistanceStats {
    /// Size of the cache.
    pub cache_bytes: u64,
    /// Page accesses that found their translation page.
    pub hits: u64,
    /// Page accesses that did not.
    pub misses: u64,
    /// Share of the hits at distance 0.
    pub zero_fraction: Option<f64>,
    /// Share of the hits at higher addresses.
    pub ahead_fraction: Option<f64>,
    /// Share of the hits at lower addresses.
    pub behind_fraction: Option<f64>,
    /// Share of the hits at most 64 pages away.
    pub within_64_fraction: Option<f64>,
    /// Hits by distance in pages, ascending, without empty rows.
    pub histogram: Vec<DistanceRow>,
}

/// Hits at one distance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DistanceRow {
    /// Pages from the access that brought the translation page in.
    pub distance: i64,
    /// Hits.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn pages(intra: &mut IntraDistance, first: u64, count: u64) {
        intra.add_one(0, first * 8, (first + count) * 8, false);
    }

    #[test]
    fn distances_count_from_the_miss() {
        let mut intra = IntraDistance::new(4096, 8192);
        pages(&mut intra, 1, 1);
        pages(&mut intra, 1023, 2);
        pages(&mut intra, 1, 1);
        pages(&mut intra, 5000, 1);
        pages(&mut intra, 1025, 1);
        let stats = intra.finish().unwrap();
        let rows: Vec<(i64, u64)> = stats.histogram.iter().map(|row| (row.distance, row.count)).collect();
        // 1024 and 5000 miss, and 5000 takes the place of what holds 1024, so that 1025 misses too.
        assert_eq!(rows, [(0, 1), (1022, 1)]);
        assert_eq!((stats.hits, stats.misses), (2, 4));
    }

    proptest! {
        #[test]
        fn agrees_with_page_by_page(requests in prop::collection::vec((0..12_000u64, 1..1500u64), 1..80)) {
            let mut intra = IntraDistance::new(4096, 3 * 4096);
            let mut cache: Vec<(u64, u64)> = Vec::new();
            let mut plain = BTreeMap::<i64, u64>::new();
            for (first, count) in requests {
                pages(&mut intra, first, count);
                for page in first..first + count {
                    let unit = match cache.iter().position(|(table, _)| *table == page / 1024) {
                        Some(place) => {
                            let unit = cache.remove(place);
                            *plain.entry(page.cast_signed() - unit.1.cast_signed()).or_default() += 1;
                            unit
                        }
                        None => (page / 1024, page),
                    };
                    cache.push(unit);
                    if cache.len() > 3 {
                        cache.remove(0);
                    }
                }
            }
            let stats = intra.finish().unwrap();
            let rows: Vec<(i64, u64)> = stats.histogram.iter().map(|row| (row.distance, row.count)).collect();
            prop_assert_eq!(rows, plain.into_iter().collect::<Vec<_>>());
        }
    }
}
