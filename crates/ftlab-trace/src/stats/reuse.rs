//! How many other pages are touched between two accesses to a page, and what a cache would miss.

use serde::Serialize;

use super::bins::{Bins, bin_start};
use super::pages::PageMap;
use super::sample::Sample;
use super::timeline::Timeline;

/// 8 sizes of cache to the octave.
const BITS: u32 = 3;
const SLOTS: usize = 1 << 12;

/// Stack distances (Olken's way, over a [`Timeline`]) of all pages or of a spatial sample.
#[derive(Debug)]
pub(super) struct Reuse {
    sample: Sample,
    slots: PageMap,
    line: Timeline,
    /// Of reads and of writes.
    distances: [Bins; 2],
    first_touches: [u64; 2],
    seen: [u64; 2],
    references: [u64; 2],
}

impl Reuse {
    /// `most_pages` bounds the sample; `None` looks at every page.
    pub(super) fn new(most_pages: Option<usize>) -> Self {
        Self {
            sample: Sample::new(most_pages),
            slots: PageMap::default(),
            line: Timeline::new(SLOTS),
            distances: [Bins::new(BITS), Bins::new(BITS)],
            first_touches: [0; 2],
            seen: [0; 2],
            references: [0; 2],
        }
    }

    /// The bits that are clear in the scattered names of the pages to be given to [`touch`](Self::touch).
    #[inline(always)]
    pub(super) fn mask(&self) -> u64 {
        self.sample.mask()
    }

    /// Note that a request, the last of `requests`, has accessed `pages` pages.
    #[inline(always)]
    pub(super) fn end(&mut self, write: bool, pages: u64, requests: u64) {
        self.references[usize::from(write)] += pages;
        if self.sample.adapt(self.slots.len(), requests) {
            self.forget();
        }
    }

    /// Take an access to a page of the sample.
    pub(super) fn touch(&mut self, key: u64, write: bool) {
        let kind = usize::from(write);
        self.sample.look();
        if self.line.is_full() {
            let (line, moved) = self.line.renumbered(SLOTS);
            self.slots.update(|slot| moved(slot as usize) as u32);
            self.line = line;
        }
        let weight = self.sample.weight();
        self.seen[kind] += weight;
        let (place, new) = self.slots.entry(key);
        if new {
            self.first_touches[kind] += weight;
        } else {
            let slot = self.slots.value(place) as usize;
            if self.line.is_latest(slot) {
                self.distances[kind].add(0, weight);
                return;
            }
            self.distances[kind].add(self.line.after(slot) as u64 * weight, weight);
            self.line.remove(slot);
        }
        self.slots.set(place, self.line.push() as u32);
    }

    /// Drop the pages that left the sample.
    #[cold]
    fn forget(&mut self) {
        let mut kept = PageMap::default();
        for (key, slot) in self.slots.iter() {
            if self.sample.has(key) {
                let (place, _) = kept.entry(key);
                kept.set(place, slot);
            } else {
                self.line.remove(slot as usize);
            }
        }
        self.slots = kept;
        let (line, moved) = self.line.renumbered(SLOTS);
        self.slots.update(|slot| moved(slot as usize) as u32);
        self.line = line;
    }

    pub(super) fn finish(&self) -> Option<ReuseStats> {
        let references: u64 = self.references.iter().sum();
        if references == 0 {
            return None;
        }
        // A sample has a little too much or too little of the hottest pages; what differs from the known number of
        // references is theirs, and has the shortest distances (SHARDS-adj).
        let count = |kind: usize, bin: usize| {
            let count = self.distances[kind].counts().get(bin).copied().unwrap_or(0) as f64;
            let missing = self.references[kind] as f64 - self.seen[kind] as f64;
            if bin == 0 { count + missing } else { count }
        };
        let bins = self.distances.iter().map(|bins| bins.counts().len()).max().unwrap_or(0);
        let mut curve = MissRatioCurve::default();
        let mut hits = [0.0; 2];
        for bin in 0..=bins {
            let missed = [0, 1].map(|kind| (self.references[kind] as f64 - hits[kind]).max(0.0));
            let ratio = |missed: f64, all: u64| (all > 0).then(|| (missed / all as f64).min(1.0));
            // Without a cache every access misses.
            curve.cache_pages.push(bin_start(BITS, bin));
            curve.all.push(ratio(missed[0] + missed[1], references).unwrap_or(1.0));
            curve.read.push(ratio(missed[0], self.references[0]));
            curve.write.push(ratio(missed[1], self.references[1]));
            hits = [0, 1].map(|kind| hits[kind] + count(kind, bin));
        }
        let first_touches: u64 = self.first_touches.iter().sum();
        let mut distances = Bins::new(BITS);
        for bins in &self.distances {
            for (bin, count) in bins.counts().iter().enumerate().filter(|(_, count)| **count > 0) {
                distances.add(bin_start(BITS, bin), *count);
            }
        }
        let percentile = |part: f64| (distances.total() > 0).then(|| distances.quantile(part));
        Some(ReuseStats {
            sample_rate: 1.0 / self.sample.weight() as f64,
            sampled_pages: self.slots.len() as u64,
            references,
            first_touches,
            p50_distance_pages: percentile(0.5),
            p90_distance_pages: percentile(0.9),
            miss_ratio_curve: curve,
        })
    }
}

/// Reuse of 4 KiB pages by reads and writes. Trims neither count nor forget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReuseStats {
    /// Share of the pages that were looked at: 1 is exact, else a spatial sample whose curve is off by about 0.01.
    pub sample_rate: f64,
    /// Pages that were looked at in the end.
    pub sampled_pages: u64,
    /// Page accesses of reads and writes.
    pub references: u64,
    /// Page accesses that are the first of their page; an estimate where pages are sampled.
    pub first_touches: u64,
    /// Median of the reuse distance, in other pages touched in between; first touches do not count.
    pub p50_distance_pages: Option<f64>,
    /// Nine tenths of the reuse distances are below.
    pub p90_distance_pages: Option<f64>,
    /// What an LRU cache of pages would miss.
    pub miss_ratio_curve: MissRatioCurve,
}

/// Miss ratios of one LRU cache for reads and writes, by its size; columns of equal length.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct MissRatioCurve {
    /// Size of the cache in pages of 4 KiB.
    pub cache_pages: Vec<u64>,
    /// Misses / page accesses.
    pub all: Vec<f64>,
    /// Misses of reads / page reads.
    pub read: Vec<Option<f64>>,
    /// Misses of writes / page writes.
    pub write: Vec<Option<f64>>,
}

impl MissRatioCurve {
    /// The miss ratio of a cache of `pages` pages: that of the largest listed size which is no larger.
    pub fn at(&self, pages: u64) -> f64 {
        let place = self.cache_pages.partition_point(|size| *size <= pages);
        if place == 0 { 1.0 } else { self.all[place - 1] }
    }

    /// Mean absolute difference of two curves over the listed sizes, from one page to where both have ended.
    pub fn mean_difference(&self, other: &MissRatioCurve) -> f64 {
        let sizes = if self.cache_pages.len() > other.cache_pages.len() {
            &self.cache_pages
        } else {
            &other.cache_pages
        };
        let sizes: Vec<u64> = sizes.iter().copied().filter(|pages| *pages > 0).collect();
        let sum: f64 = sizes.iter().map(|pages| (self.at(*pages) - other.at(*pages)).abs()).sum();
        if sizes.is_empty() { 0.0 } else { sum / sizes.len() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use crate::stats::pages::scatter;
    use proptest::prelude::*;

    fn access(reuse: &mut Reuse, page: u64, write: bool, request: u64) {
        let key = scatter(page);
        if key & reuse.mask() == 0 {
            reuse.touch(key, write);
        }
        reuse.end(write, 1, request);
    }

    /// Misses of a cache of `size` pages, page by page.
    fn naive(accesses: &[u64], size: usize) -> u64 {
        let mut stack: Vec<u64> = Vec::new();
        let mut misses = 0;
        for page in accesses {
            match stack.iter().rev().position(|other| other == page) {
                Some(distance) if distance < size => {}
                _ => misses += 1,
            }
            stack.retain(|other| other != page);
            stack.push(*page);
        }
        misses
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn exact_curves_are_those_of_a_plain_stack(
            accesses in prop::collection::vec((0..300u64).prop_map(|x| x * x / 300), 1..9000)
        ) {
            let mut reuse = Reuse::new(None);
            for page in &accesses {
                access(&mut reuse, *page, page % 3 == 0, 0);
            }
            let curve = reuse.finish().unwrap().miss_ratio_curve;
            for size in [0, 1, 2, 5, 14, 60, 224, 512] {
                let misses = naive(&accesses[..], size);
                prop_assert_eq!(curve.at(size as u64), misses as f64 / accesses.len() as f64, "size {}", size);
            }
        }
    }

    #[test]
    fn samples_are_near_the_exact_curve() {
        for skew in [1.5, 4.0, 6.0] {
            let mut rng = Rng::new(3, &[]);
            let (mut exact, mut sampled) = (Reuse::new(None), Reuse::new(Some(1 << 15)));
            for request in 0..1_500_000u64 {
                let page = scatter((libm::pow(rng.unit(), skew) * 400_000.0) as u64) >> 20;
                access(&mut exact, page, false, request);
                access(&mut sampled, page, false, request);
            }
            let (exact, sampled) = (exact.finish().unwrap(), sampled.finish().unwrap());
            assert!(sampled.sample_rate <= 1.0 / 4.0, "{}", sampled.sample_rate);
            let off = exact.miss_ratio_curve.mean_difference(&sampled.miss_ratio_curve);
            assert!(off < 0.02, "skew {skew}: {off}");
            let touched = sampled.first_touches as f64 / exact.first_touches as f64;
            assert!((touched - 1.0).abs() < 0.02, "skew {skew}: {touched}");
        }
    }
}
