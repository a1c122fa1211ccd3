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

/// How often a lone page's count goes round before that is counted elsewhere.
const LONE_LAPS: u32 = 1 << 14;

/// The page whose count has the bytes of its whole group, because it is the only one that was touched and was touched
/// often. The byte beside its own says so, being written but never counted. The other two have laps.
#[inline(always)]
fn lone_page(counts: u32) -> Option<u32> {
    let others = counts ^ HIGH;
    let mark = !(((others & !HIGH) + !HIGH) | others) & HIGH;
    (mark != 0).then(|| (mark.trailing_zeros() / 8) ^ 1)
}

/// The laps of `page`, which is or becomes a lone one: 7 bits in each of the two bytes.
fn lone_laps(counts: u32, page: u32) -> u32 {
    let bits = |page: u32| counts >> (8 * page) & 0x7f;
    bits(page ^ 2) | bits(page ^ 3) << 7
}

/// `counts` with `page` as a lone one that went round `laps` times and is at 0.
fn with_lone_laps(counts: u32, page: u32, laps: u32) -> u32 {
    let byte = |page: u32, bits: u32| bits << (8 * page);
    counts & byte(page, 0x80) | byte(page ^ 1, 0x80) | byte(page ^ 2, laps & 0x7f) | byte(page ^ 3, laps >> 7)
}

/// An access to pages of a chunk.
#[derive(Debug, Clone, Copy, Default)]
struct Visit {
    chunk: u64,
    /// A bit for each page.
    pages: u16,
    write: bool,
}

/// Counts accesses to every page. Exact: at most 16 bytes a page where no two are neighbours, 4 to 8 where all are.
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
        let mut lone = lone_page(counts);
        if lone.is_some_and(|page| ones != 1 << (8 * page)) {
            counts = self.spread(key, counts);
            lone = None;
        }
        let untouched = !((counts & !HIGH) + !HIGH) & tops;
        self.first_touches[usize::from(write)] += count(untouched >> 7);
        if write {
            self.written += count((!counts & tops) >> 7);
            counts |= tops;
        }
        let full = ((counts & !HIGH) + LOW) & tops;
        if full != 0 {
            counts = self.count_laps(key, counts, full, (tops, lone.is_some()));
        }
        self.groups.set(place, counts + ones);
    }

    /// `counts` with 0 where they are full: `full` has the highest bits of these, `tops` those of all that are touched.
    /// `is_lone` says what [`lone_page`] knew before these were.
    #[cold]
    fn count_laps(&mut self, key: u64, mut counts: u32, full: u32, (tops, is_lone): (u32, bool)) -> u32 {
        let page = full.trailing_zeros() / 8;
        let alone = is_lone || (counts | tops) & !(0xff << (8 * page)) == 0;
        if alone && lone_laps(counts, page) + 1 < LONE_LAPS {
            return with_lone_laps(counts, page, lone_laps(counts, page) + 1);
        }
        if is_lone {
            counts = self.spread(key, counts);
        }
        for page in (0..GROUP as u32).filter(|page| full & 0x80 << (8 * page) != 0) {
            self.add_laps(key, page, 1);
        }
        // All bits of the count, below the highest.
        counts & !(full - (full >> 7))
    }

    /// `counts` of a lone page, whose laps go where there is room for those of other pages.
    #[cold]
    fn spread(&mut self, key: u64, counts: u32) -> u32 {
        let Some(page) = lone_page(counts) else { return counts };
        self.add_laps(key, page, lone_laps(counts, page));
        counts & 0xff << (8 * page)
    }

    fn add_laps(&mut self, key: u64, page: u32, more: u32) {
        let (place, _) = self.laps.entry(key);
        let shift = 8 * page;
        let laps = self.laps.value(place);
        let sum = u64::from(laps >> shift & 0xff) + u64::from(more);
        if sum >= LAPS {
            *self.more.entry(key * GROUP + u64::from(page)).or_insert(0) += sum / LAPS;
        }
        self.laps.set(place, laps & !(0xff << shift) | ((sum % LAPS) as u32) << shift);
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

    /// How many pages were accessed how often.
    fn by_count(&self) -> BTreeMap<u64, u64> {
        // Of the first, second … page of a group apart: most are 0, and one number could not be counted up so fast.
        let mut few = [[0; LAP as usize + 1]; GROUP as usize];
        let mut by_count = BTreeMap::new();
        for (key, counts) in self.groups.iter() {
            let lone = lone_page(counts);
            if lone.is_none() && self.laps.is_empty() {
                for (few, count) in few.iter_mut().zip(counts.to_le_bytes()) {
                    few[usize::from(count & 0x7f)] += 1;
                }
                continue;
            }
            let many = self.laps.get(key).unwrap_or(0);
            for page in (0..GROUP as u32).filter(|page| lone.is_none_or(|lone| lone == *page)) {
                let count = counts >> (8 * page) & !HIGH & 0xff;
                let more = self.more.get(&(key * GROUP + u64::from(page))).copied().unwrap_or(0);
                let laps = u64::from(many >> (8 * page) & 0xff) + LAPS * more;
                let laps = laps + lone.map_or(0, |page| lone_laps(counts, page).into());
                if laps == 0 {
                    few[page as usize][count as usize] += 1;
                } else {
                    *by_count.entry(u64::from(count) + LAP * laps).or_default() += 1;
                }
            }
        }
        for count in 1..=LAP {
            let pages: u64 = few.iter().map(|few| few[count as usize]).sum();
            if pages > 0 {
                by_count.insert(count, pages);
            }
        }
        by_count
    }

    pub(super) fn finish(&self) -> Option<Hotness> {
        (self.pages() > 0).then(|| Hotness::new(&self.by_count(), self.pages(), self.accesses.iter().sum()))
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

    /// Counts page by page.
    fn check(accesses: impl IntoIterator<Item = (u64, u64, bool, u32)>) {
        let mut touched = Touched::default();
        let (mut counts, mut written) = (BTreeMap::<u64, u64>::new(), std::collections::BTreeSet::new());
        for (first, last, write, times) in accesses {
            (0..times).for_each(|_| touched.add(first, last, write));
            for page in first..=last {
                *counts.entry(page).or_default() += u64::from(times);
                if write {
                    written.insert(page);
                }
            }
        }
        touched.settle();
        if counts.is_empty() {
            return assert!(touched.finish().is_none());
        }
        assert_eq!((touched.pages(), touched.written()), (counts.len() as u64, written.len() as u64));
        let mut by_count = BTreeMap::<u64, u64>::new();
        for count in counts.values() {
            *by_count.entry(*count).or_default() += 1;
        }
        assert_eq!(touched.by_count(), by_count);
        let hotness = touched.finish().unwrap();
        let mut sorted: Vec<u64> = counts.into_values().collect();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let tenth = ((sorted.len() as f64 * 0.1).round() as usize).max(1);
        let share = sorted[..tenth].iter().sum::<u64>() as f64 / sorted.iter().sum::<u64>() as f64;
        assert_eq!((hotness.top_10_percent, hotness.most_accesses), (share, sorted[0]));
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_count(
            ranges in prop::collection::vec((0..500u64, 0..40u64, any::<bool>(), 1..60u32), 1..150),
            alone in prop::collection::vec((0..40u64, any::<bool>(), 1..900u32), 0..60),
        ) {
            let ranges = ranges.into_iter().map(|(first, more, write, times)| (first, first + more, write, times));
            check(ranges);
            // Pages that have their group for themselves, for a while.
            check(alone.into_iter().map(|(page, write, times)| (3 * page, 3 * page, write, times)));
        }
    }

    #[test]
    fn hot_pages_are_counted_to_the_end() {
        let most = LAP as u32 * LONE_LAPS;
        for times in [most - 1, most, most + 1, 2 * most + 77] {
            check([(6, 6, false, times), (6, 6, true, 1)]);
            check([(6, 6, true, times), (4, 7, false, 130), (20, 20, true, 127)]);
        }
        // A page that is full when its neighbour is written for the first time.
        for neighbours in [(4, 5), (5, 6), (4, 7)] {
            check([(5, 5, false, 127), (neighbours.0, neighbours.1, true, 1), (4, 7, true, 300)]);
        }
        let most = LAP as u32 * LAPS as u32;
        for times in [most - 1, most, most + 1, 3 * most] {
            check([(4, 6, false, 1), (4, 6, true, times), (5, 5, false, 3)]);
        }
    }

    #[test]
    #[ignore = "a long test: make test-long"]
    fn pages_take_at_most_16_bytes() {
        let pages = if std::env::var_os("FTLAB_LONG").is_some() { 600_000 } else { 150_000 };
        for (far, times) in [(5, 1), (5, 130), (1, 1), (1, 130)] {
            let mut touched = Touched::default();
            for _ in 0..times {
                (0..pages).for_each(|page| touched.add(far * page, far * page, page % 2 == 0));
            }
            touched.settle();
            let bytes = (touched.groups.bytes() + touched.laps.bytes() + 25 * touched.more.capacity()) as u64;
            assert!(bytes <= if far == 1 { 8 } else { 16 } * pages, "{far} {times}: {bytes}");
        }
    }
}
