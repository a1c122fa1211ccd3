//! How many other pages are touched between two accesses to a page, and what a cache would miss.

use serde::Serialize;

use super::bins::{Bins, bin_of, bin_start};
use super::pages::{GROUP, PageMap};
use super::recent::{RECENT, Recent};
use super::sample::Sample;
use super::timeline::Timeline;

/// 8 sizes of cache to the octave.
const BITS: u32 = 3;
const SLOTS: usize = 1 << 12;

/// Stack distances (Olken's way, over a [`Timeline`]) of all pages; or of a spatial sample, and of all pages where they
/// are short: a few hot pages get most of the short ones, and would be in a sample or not.
#[derive(Debug)]
pub(super) struct Reuse {
    sample: Sample,
    slots: PageMap,
    line: Timeline,
    /// Once not all pages are sampled.
    recent: Option<Recent>,
    /// Of reads and of writes.
    distances: [Bins; 2],
    first_touches: [u64; 2],
    references: [u64; 2],
}

impl Reuse {
    /// `most_pages` bounds the sample; `None` looks at every page.
    pub(super) fn new(most_pages: Option<usize>) -> Self {
        Self {
            sample: Sample::new(most_pages),
            slots: PageMap::default(),
            line: Timeline::new(SLOTS),
            recent: None,
            distances: [Bins::new(BITS), Bins::new(BITS)],
            first_touches: [0; 2],
            references: [0; 2],
        }
    }

    /// Note that a request, the last of `requests`, has accessed `pages` pages, `first` of which for the first time.
    #[inline(always)]
    pub(super) fn end(&mut self, write: bool, pages: u64, first: u64, requests: u64) {
        self.references[usize::from(write)] += pages;
        self.first_touches[usize::from(write)] += first;
        if self.sample.adapt(self.slots.len(), requests) {
            self.forget();
        }
    }

    /// Take an access to the pages `from..=to` of a group whose first page has the scattered name `key`.
    #[inline(always)]
    pub(super) fn touch(&mut self, key: u64, from: u64, to: u64, write: bool) {
        let sampled = self.sample.has(key);
        let Some(recent) = &mut self.recent else {
            (from..=to).for_each(|page| self.touch_sampled(key + page, write, false));
            return;
        };
        let place = recent.group(key);
        if recent.access_new(place, from, to) {
            if sampled {
                (from..=to).for_each(|page| self.touch_sampled(key + page, write, false));
            }
            return;
        }
        for page in from..=to {
            let recent = self.recent.as_mut().and_then(|recent| recent.access(place, page as usize));
            if let Some(distance) = recent {
                self.distances[usize::from(write)].add(distance, 1);
            }
            if sampled {
                self.touch_sampled(key + page, write, recent.is_some());
            }
        }
    }

    /// Take an access to a page of the sample; whether its distance is known is told.
    fn touch_sampled(&mut self, key: u64, write: bool, known: bool) {
        let distances = &mut self.distances[usize::from(write)];
        self.sample.look();
        if self.line.is_full() {
            let (line, moved) = self.line.renumbered(SLOTS);
            self.slots.update(|slot| moved(slot as usize) as u32);
            self.line = line;
        }
        let weight = self.sample.weight();
        let (place, new) = self.slots.entry(key);
        if !new {
            let slot = self.slots.value(place) as usize;
            if !known {
                let least = if self.recent.is_some() { RECENT } else { 0 };
                distances.add((self.line.after(slot) as u64 * weight).max(least), weight);
            }
            if self.line.is_latest(slot) {
                return;
            }
            self.line.remove(slot);
        }
        self.slots.set(place, self.line.push() as u32);
    }

    /// Drop the pages that left the sample.
    #[cold]
    fn forget(&mut self) {
        if self.recent.is_none() {
            self.recent = Some(self.most_recent());
        }
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

    /// The pages that were accessed last, while the sample has them all.
    fn most_recent(&self) -> Recent {
        let mut pages: Vec<(u32, u64)> = self.slots.iter().map(|(key, slot)| (slot, key)).collect();
        pages.sort_unstable();
        let mut recent = Recent::new();
        for (_, key) in &pages[pages.len().saturating_sub(RECENT as usize)..] {
            let place = recent.group(key & !(GROUP - 1));
            recent.access(place, (key % GROUP) as usize);
        }
        recent
    }

    pub(super) fn finish(&self) -> Option<ReuseStats> {
        let references: u64 = self.references.iter().sum();
        if references == 0 {
            return None;
        }
        // First touches and short distances are known, and so is how many distances are longer: what the sample has of
        // them is scaled to it.
        let border = bin_of(BITS, RECENT);
        let scales = [0, 1].map(|kind| {
            let counts = self.distances[kind].counts();
            let short: u64 = counts.iter().take(border).sum();
            let long: u64 = counts.iter().skip(border).sum();
            let all = self.references[kind] - self.first_touches[kind];
            if long == 0 { 1.0 } else { all.saturating_sub(short) as f64 / long as f64 }
        });
        let count = |kind: usize, bin: usize| {
            let count = self.distances[kind].counts().get(bin).copied().unwrap_or(0) as f64;
            if bin < border { count } else { count * scales[kind] }
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
        for bin in 0..bins {
            let count = (count(0, bin) + count(1, bin)).round() as u64;
            if count > 0 {
                distances.add(bin_start(BITS, bin), count);
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
    /// Share of the pages that were looked at: 1 is exact. Else distances from 4096 pages on are those of a spatial
    /// sample, and the curve is off by less than 0.01 there; below it is exact.
    pub sample_rate: f64,
    /// Pages that were looked at in the end.
    pub sampled_pages: u64,
    /// Page accesses of reads and writes.
    pub references: u64,
    /// Page accesses that are the first of their page.
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
    use crate::stats::pages::scatter;
    use crate::stats::{ReuseMethod, StatsCollector, StatsOptions};
    use crate::workload::{WorkloadConfig, WorkloadKind};
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn access(reuse: &mut Reuse, seen: &mut HashSet<u64>, page: u64, write: bool, request: u64) {
        let within = page % GROUP;
        reuse.touch(scatter(page - within), within, within, write);
        reuse.end(write, 1, seen.insert(page).into(), request);
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
            let (mut reuse, mut seen) = (Reuse::new(None), HashSet::new());
            for page in &accesses {
                access(&mut reuse, &mut seen, *page, page % 3 == 0, 0);
            }
            let curve = reuse.finish().unwrap().miss_ratio_curve;
            for size in [0, 1, 2, 5, 14, 60, 224, 512] {
                let misses = naive(&accesses[..], size);
                prop_assert_eq!(curve.at(size as u64), misses as f64 / accesses.len() as f64, "size {}", size);
            }
        }
    }

    /// The curves of a generated workload, exact and sampled.
    fn curves(workload: &WorkloadConfig, seed: u64) -> [ReuseStats; 2] {
        let mut source = workload.factory(1 << 40, Some(seed), None).unwrap().open(0).unwrap();
        let of = |reuse| StatsCollector::new(StatsOptions { reuse, ..StatsOptions::default() }).unwrap();
        let mut collectors = [of(ReuseMethod::Exact), of(ReuseMethod::Sampled)];
        let mut batch = Vec::new();
        while source.fill(&mut batch, 4096).unwrap() > 0 {
            for collector in &mut collectors {
                collector.add(&batch);
            }
            batch.clear();
        }
        collectors.map(|collector| collector.finish().reuse.unwrap())
    }

    /// What docs/trace-statistics.md says.
    #[test]
    fn samples_are_near_the_exact_curve() {
        let config = |kind, theta, read_fraction| WorkloadConfig {
            kind: Some(kind),
            theta,
            read_fraction: Some(read_fraction),
            requests: Some(1_000_000),
            footprint_bytes: Some(8 << 30),
            ..WorkloadConfig::default()
        };
        let workloads = [
            ("zipf 0.99", config(WorkloadKind::Zipf, Some(0.99), 0.0)),
            ("zipf 1.2", config(WorkloadKind::Zipf, Some(1.2), 0.3)),
            ("hot and cold", config(WorkloadKind::Hotcold, None, 0.5)),
        ];
        for (name, workload) in &workloads {
            for seed in 1..=3 {
                let [exact, sampled] = curves(workload, seed);
                assert!(sampled.sample_rate <= 1.0 / 2.0, "{name}: {}", sampled.sample_rate);
                assert_eq!(exact.first_touches, sampled.first_touches);
                let (exact, sampled) = (exact.miss_ratio_curve, sampled.miss_ratio_curve);
                let mean = exact.mean_difference(&sampled);
                let most = (0..200).map(|step| libm::exp2(f64::from(step) / 8.0) as u64);
                let most = most.map(|pages| (exact.at(pages) - sampled.at(pages)).abs()).fold(0.0, f64::max);
                assert!(mean < 0.002 && most < 0.01, "{name}, seed {seed}: mean {mean}, most {most}");
                for pages in [1, 16, 256, 2048, 4095] {
                    assert_eq!(exact.at(pages), sampled.at(pages), "{name}, seed {seed}, {pages} pages");
                }
            }
        }
    }
}
