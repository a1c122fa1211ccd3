//! Every touched page: how many there are, and how unevenly they are used.

use std::collections::BTreeMap;

use serde::Serialize;

use super::PAGE_BYTES;
use super::intra::ENTRY_BYTES;
use super::pages::{GROUP, NumberMap, PageMap, Place, scatter_in_unit};

/// What 8 bits cannot count is counted elsewhere.
const FULL: u32 = 0xff;

/// Groups that lie side by side in memory, because requests often go on from one to the next: 64 KiB of addresses.
const CHUNK: u64 = GROUP * GROUP;

/// Counts accesses to every page, with 8 bits and a flag for each page of a group. Exact: at most 16 bytes a page where no two are neighbours, 4 where all are.
#[derive(Debug, Default)]
pub(super) struct Touched {
    groups: PageMap,
    beyond: NumberMap<u64, u64>,
    pages: u64,
    written: u64,
    accesses: u64,
}

impl Touched {
    /// Count an access to the pages named `first..=last`.
    #[inline(always)]
    pub(super) fn add(&mut self, first: u64, last: u64, write: bool) {
        self.accesses += last - first + 1;
        let mut key = scatter_in_unit(first / GROUP);
        let (mut place, _) = self.groups.entry(key);
        let mut from = first;
        loop {
            let to = last.min(from | (GROUP - 1));
            self.count(place, from, to, write);
            if to == last {
                return;
            }
            from = to + 1;
            if from.is_multiple_of(CHUNK) {
                key = scatter_in_unit(from / GROUP);
                (place, _) = self.groups.entry(key);
            } else {
                key += 1;
                (place, _) = self.groups.entry_after(place, key);
            }
        }
    }

    /// Count an access to the pages named `first..=last`, which are of the group at `place`.
    #[inline(always)]
    fn count(&mut self, place: Place, first: u64, last: u64, write: bool) {
        let mask = (0xf_u32 << (first % GROUP)) & (0xf >> (GROUP - 1 - last % GROUP));
        let counts = self.groups.value(place);
        if counts & 0x8080_8080 == 0 {
            // No count is near its end: all four at once. Bit 7 of `taken` says that the count is not 0.
            let ones = (mask & 1) | (mask & 2) << 7 | (mask & 4) << 14 | (mask & 8) << 21;
            let taken = counts + 0x7f7f_7f7f;
            self.pages += u64::from((!taken & ones << 7).count_ones());
            self.groups.set(place, counts + ones);
        } else {
            self.count_slowly(place, first / GROUP, mask);
        }
        if write {
            let new = mask & !self.groups.flags(place);
            if new != 0 {
                self.written += u64::from(new.count_ones());
                self.groups.flag(place, new);
            }
        }
    }

    /// Bring what [`add`](Self::add) will need near to the processor, unless it is much.
    #[inline(always)]
    pub(super) fn expect(&self, first: u64, last: u64) {
        const MOST_CHUNKS: u64 = 4;
        for chunk in first / CHUNK..=(last / CHUNK).min(first / CHUNK + MOST_CHUNKS) {
            self.groups.expect(scatter_in_unit(chunk * GROUP));
        }
    }

    fn count_slowly(&mut self, place: Place, group: u64, mask: u32) {
        let mut counts = self.groups.value(place);
        for page in 0..GROUP as u32 {
            if mask >> page & 1 == 0 {
                continue;
            }
            let count = counts >> (8 * page) & FULL;
            if count == FULL {
                *self.beyond.entry(group * GROUP + u64::from(page)).or_insert(0) += 1;
            } else {
                self.pages += u64::from(count == 0);
                counts += 1 << (8 * page);
            }
        }
        self.groups.set(place, counts);
    }

    pub(super) fn pages(&self) -> u64 {
        self.pages
    }

    /// Distinct translation pages of `page_bytes`, a power of two from 512, for logical pages of as many bytes.
    pub(super) fn translation_pages(&self, page_bytes: u64) -> u64 {
        self.groups.blocks((page_bytes / ENTRY_BYTES * page_bytes / PAGE_BYTES).ilog2())
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn finish(&self) -> Option<Hotness> {
        let mut few = vec![0u64; FULL as usize + 1];
        for (_, counts) in self.groups.iter() {
            for count in counts.to_le_bytes() {
                few[usize::from(count)] += 1;
            }
        }
        few[0] = 0;
        few[FULL as usize] -= self.beyond.len() as u64;
        let counted = few.iter().enumerate().map(|(count, pages)| (count as u64, *pages));
        let mut by_count: BTreeMap<u64, u64> = counted.filter(|(_, pages)| *pages > 0).collect();
        for more in self.beyond.values() {
            *by_count.entry(u64::from(FULL) + more).or_default() += 1;
        }
        (self.pages > 0).then(|| Hotness::new(&by_count, self.pages, self.accesses))
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
            ranges in prop::collection::vec((0..500u64, 0..40u64, any::<bool>(), 1..60u32), 1..150)
        ) {
            let mut touched = Touched::default();
            let (mut counts, mut written) = (BTreeMap::<u64, u64>::new(), std::collections::BTreeSet::new());
            for (first, more, write, times) in ranges {
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
