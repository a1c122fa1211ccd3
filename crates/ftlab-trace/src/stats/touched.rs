//! Every touched page: how many there are, and how unevenly they are used.

use std::collections::BTreeMap;

use serde::Serialize;

use super::PAGE_BYTES;
use super::intra::ENTRY_BYTES;
use super::pages::{CHUNK_BITS, GROUP, KEY_BITS, NumberMap, PageMap, Place, chunk_key};

/// Pages of a chunk, whose groups lie side by side in memory, because requests often go on from one to the next: 64 KiB.
const CHUNK: u64 = 1 << CHUNK_BITS;
/// Chunks wait in so many parts of all keys, and so many accesses in each.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 8;
const WAITING: usize = 128;
/// A bit for each page of a group: the lowest and the highest one of its byte.
const LOW: u32 = 0x0101_0101;
const HIGH: u32 = 0x8080_8080;
/// A count of 7 bits goes from 0 to 127, and then from 1 on again.
const LAP: u64 = 127;
/// So many laps are counted beside each other, before they are counted elsewhere.
const LAPS: u64 = 255;

/// How many bits of [`LOW`] are set.
#[inline(always)]
fn count(low: u32) -> u64 {
    u64::from(low.wrapping_mul(LOW) >> 24)
}

/// An access to pages of a chunk.
#[derive(Debug, Clone, Copy, Default)]
struct Visit {
    chunk: u64,
    /// A bit for each page.
    pages: u16,
    write: bool,
}

/// Counts accesses to every page. Exact: at most 16 bytes a page where no two are neighbours, 4 where all are; and as
/// much again for pages with more than 127 accesses.
///
/// Accesses wait until there are many to one part of all keys: their groups are near each other in memory, and many are
/// asked for at once.
#[derive(Debug)]
pub(super) struct Touched {
    /// Of each page of a group 7 bits of its count, and above them whether it was written.
    groups: PageMap,
    /// Of each page of a group 8 bits of how often its count went round.
    laps: PageMap,
    /// How often that went round, by key and page.
    more: NumberMap<u64, u64>,
    /// [`WAITING`] for each part, of which the first `waits` are in use.
    waiting: Vec<Visit>,
    waits: [u8; PARTS],
    /// By reads and by writes.
    first_touches: [u64; 2],
    written: u64,
    /// Of reads and of writes.
    accesses: [u64; 2],
}

impl Default for Touched {
    fn default() -> Self {
        Self {
            groups: PageMap::default(),
            laps: PageMap::default(),
            more: NumberMap::default(),
            waiting: vec![Visit::default(); WAITING * PARTS],
            waits: [0; PARTS],
            first_touches: [0; 2],
            written: 0,
            accesses: [0; 2],
        }
    }
}

impl Touched {
    /// Count an access to the pages named `first..=last`; [`settle`](Self::settle) makes it known.
    #[inline(always)]
    pub(super) fn add(&mut self, first: u64, last: u64, write: bool) {
        self.accesses[usize::from(write)] += last - first + 1;
        let mut from = first;
        loop {
            let to = last.min(from | (CHUNK - 1));
            let pages = (u16::MAX << (from % CHUNK)) & (u16::MAX >> (CHUNK - 1 - to % CHUNK));
            let chunk = chunk_key(from / CHUNK);
            let part = (chunk >> (KEY_BITS - PART_BITS)) as usize;
            let waits = usize::from(self.waits[part]);
            self.waiting[part * WAITING + waits] = Visit { chunk, pages, write };
            self.waits[part] = waits as u8 + 1;
            if waits + 1 == WAITING {
                self.settle_part(part);
            }
            if to == last {
                return;
            }
            from = to + 1;
        }
    }

    /// Take all accesses that wait.
    pub(super) fn settle(&mut self) {
        (0..PARTS).for_each(|part| self.settle_part(part));
    }

    fn settle_part(&mut self, part: usize) {
        /// Enough that memory has answered by then.
        const AHEAD: usize = 12;
        let waits = usize::from(std::mem::take(&mut self.waits[part]));
        let start = part * WAITING;
        for visit in &self.waiting[start..start + waits.min(AHEAD)] {
            self.groups.expect(visit.chunk);
        }
        for index in start..start + waits {
            if index + AHEAD < start + waits {
                self.groups.expect(self.waiting[index + AHEAD].chunk);
            }
            self.take(self.waiting[index]);
        }
    }

    #[inline(always)]
    fn take(&mut self, visit: Visit) {
        let first = u64::from(visit.pages.trailing_zeros()) / GROUP;
        let mut key = visit.chunk + first;
        let mut pages = u32::from(visit.pages) >> (first * GROUP);
        let (mut place, _) = self.groups.entry(key);
        loop {
            let ones = (pages & 1) | (pages & 2) << 7 | (pages & 4) << 14 | (pages & 8) << 21;
            self.count(place, key, ones, visit.write);
            pages >>= GROUP;
            if pages == 0 {
                return;
            }
            key += 1;
            (place, _) = self.groups.entry_after(place, key);
        }
    }

    /// Count an access to pages of the group `key`, which is at `place`; `ones` has a bit of [`LOW`] for each.
    #[inline(always)]
    fn count(&mut self, place: Place, key: u64, ones: u32, write: bool) {
        let tops = ones << 7;
        let mut counts = self.groups.value(place);
        let untouched = !((counts & !HIGH) + !HIGH) & tops;
        self.first_touches[usize::from(write)] += count(untouched >> 7);
        if write {
            self.written += count((!counts & tops) >> 7);
            counts |= tops;
        }
        let full = ((counts & !HIGH) + LOW) & tops;
        if full != 0 {
            // From 127 to 1: the same as from 0.
            counts &= !(full - (full >> 7));
            self.count_laps(key, full >> 7);
        }
        self.groups.set(place, counts + ones);
    }

    #[cold]
    fn count_laps(&mut self, key: u64, ones: u32) {
        let (place, _) = self.laps.entry(key);
        let mut laps = self.laps.value(place).to_le_bytes();
        for (page, (laps, one)) in laps.iter_mut().zip(ones.to_le_bytes()).enumerate() {
            *laps += one;
            if u64::from(*laps) == LAPS {
                *laps = 0;
                *self.more.entry(key * GROUP + page as u64).or_insert(0) += 1;
            }
        }
        self.laps.set(place, u32::from_le_bytes(laps));
    }

    /// Page accesses of reads and of writes.
    pub(super) fn accesses(&self) -> [u64; 2] {
        self.accesses
    }

    /// Distinct pages.
    pub(super) fn pages(&self) -> u64 {
        self.first_touches.iter().sum()
    }

    /// Distinct pages by what accessed them first: reads and writes.
    pub(super) fn first_touches(&self) -> [u64; 2] {
        self.first_touches
    }

    /// Distinct translation pages of `page_bytes`, a power of two from 512, for logical pages of as many bytes.
    pub(super) fn translation_pages(&self, page_bytes: u64) -> u64 {
        self.groups.blocks((page_bytes / ENTRY_BYTES * page_bytes / PAGE_BYTES).ilog2())
    }

    /// Distinct pages that were written.
    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn finish(&self) -> Option<Hotness> {
        let mut few = [0; LAP as usize + 1];
        let mut by_count = BTreeMap::new();
        for (key, counts) in self.groups.iter() {
            let counts = (counts & !HIGH).to_le_bytes();
            let laps = if self.laps.len() == 0 { None } else { self.laps.get(key) };
            for (page, (count, laps)) in counts.into_iter().zip(laps.unwrap_or(0).to_le_bytes()).enumerate() {
                let more = self.more.get(&(key * GROUP + page as u64)).copied().unwrap_or(0);
                let laps = u64::from(laps) + LAPS * more;
                if laps == 0 {
                    few[usize::from(count)] += 1;
                } else {
                    *by_count.entry(u64::from(count) + LAP * laps).or_default() += 1;
                }
            }
        }
        let few = (0..).zip(few).skip(1);
        by_count.extend(few.filter(|(_, pages)| *pages > 0));
        (self.pages() > 0).then(|| Hotness::new(&by_count, self.pages(), self.accesses.iter().sum()))
    }
}

/// How unevenly the touched pages are used: page accesses by reads and writes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hotness {
    /// Share of page accesses in the hottest 1 % of the touched pages (at least one page).
    pub top_1_percent: f64,
    /// Share in the hottest 5 %.
    pub top_5_percent: f64,
    /// Share in the hottest 10 %.
    pub top_10_percent: f64,
    /// Share in the hottest 20 %.
    pub top_20_percent: f64,
    /// Accesses to the hottest page.
    pub most_accesses: u64,
    /// Share of the touched pages that were accessed once.
    pub once_fraction: f64,
    /// The curve through these points: shares of the hottest pages, and of the accesses that they get.
    pub curve: Vec<HotnessPoint>,
}

/// A point of the curve of [`Hotness`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotnessPoint {
    /// Share of the touched pages: the hottest ones.
    pub pages_fraction: f64,
    /// Share of the page accesses that they get.
    pub accesses_fraction: f64,
}

impl Hotness {
    fn new(by_count: &BTreeMap<u64, u64>, pages: u64, accesses: u64) -> Self {
        let share = |part: f64| {
            let mut left = ((pages as f64 * part).round() as u64).max(1);
            let mut sum = 0;
            for (count, pages) in by_count.iter().rev() {
                let taken = left.min(*pages);
                sum += taken * count;
                left -= taken;
            }
            sum as f64 / accesses as f64
        };
        // From a thousandth on, in equal ratios.
        const POINTS: u32 = 60;
        let part = |point| libm::pow(10.0, 3.0 * (f64::from(point) / f64::from(POINTS) - 1.0));
        let points = (0..=POINTS).map(part);
        Self {
            top_1_percent: share(0.01),
            top_5_percent: share(0.05),
            top_10_percent: share(0.10),
            top_20_percent: share(0.20),
            most_accesses: by_count.keys().next_back().copied().unwrap_or(0),
            once_fraction: by_count.get(&1).copied().unwrap_or(0) as f64 / pages as f64,
            curve: points
                .map(|part| HotnessPoint { pages_fraction: part, accesses_fraction: share(part) })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_plain_count(
            ranges in prop::collection::vec((0..500u64, 0..40u64, any::<bool>(), 1..60u32), 1..150),
            often in 0..3u32,
        ) {
            let mut touched = Touched::default();
            let (mut counts, mut written) = (BTreeMap::<u64, u64>::new(), std::collections::BTreeSet::new());
            for (number, (first, more, write, times)) in ranges.into_iter().enumerate() {
                let times = if number == 7 { times * [1, 50, 3000][often as usize] } else { times };
                for _ in 0..times {
                    touched.add(first, first + more, write);
                }
                for page in first..=first + more {
                    *counts.entry(page).or_default() += u64::from(times);
                    if write {
                        written.insert(page);
                    }
                }
            }
            touched.settle();
            prop_assert_eq!((touched.pages(), touched.written()), (counts.len() as u64, written.len() as u64));
            let hotness = touched.finish().unwrap();
            let mut sorted: Vec<u64> = counts.into_values().collect();
            sorted.sort_unstable_by(|a, b| b.cmp(a));
            let all: u64 = sorted.iter().sum();
            let tenth = ((sorted.len() as f64 * 0.1).round() as usize).max(1);
            let hottest: u64 = sorted[..tenth].iter().sum();
            prop_assert_eq!(hotness.top_10_percent, hottest as f64 / all as f64);
            prop_assert_eq!(hotness.most_accesses, sorted[0]);
        }
    }
}
