//! How many other pages are touched between two accesses to a page, and what a cache would miss.

use serde::Serialize;

use super::access_order::AccessOrder;
use super::bins::{Bins, bin_of, bin_start};
use super::pages::{GROUP, PageMap};
use super::recent::{RECENT, Recent};
use super::sample::Sample;

/// 8 sizes of cache to the octave.
const BITS: u32 = 3;
const SLOTS: usize = 1 << 12;
/// So many pages are sampled at least, if there are.
const LEAST_PAGES: usize = 1 << 13;

/// Page accesses of a burst, in which short distances are looked at, and from the start of one burst to that of the next.
const BURST: u64 = 1 << 14;
const PERIOD: u64 = 1 << 16;
/// Page accesses before the first burst, all of which are looked at.
const ALL: u64 = 1 << 19;

/// Short distances, once not all pages are sampled: those of all pages, for a while always and then in bursts.
#[derive(Debug)]
struct Short {
    recent: Recent,
    /// Page accesses that are left until bursts begin.
    all: u64,
    /// Page accesses since the last burst began.
    age: u64,
    /// Below [`RECENT`], and of how many accesses: of reads and of writes.
    distances: [Bins; 2],
    measured: [u64; 2],
    /// Accesses before the first burst.
    before: [u64; 2],
}

impl Short {
    /// Whether a page that is not found was not accessed for [`RECENT`] others, or for long.
    #[inline(always)]
    fn is_warm(&self) -> bool {
        self.age >= BURST / 2 || self.recent.pages() >= RECENT as usize
    }

    #[inline(always)]
    fn pass(&mut self, pages: u64) {
        self.age += pages;
        if self.all > 0 {
            self.all = self.all.saturating_sub(pages);
            self.age = 0;
        } else if self.age >= PERIOD {
            self.age = 0;
            self.recent.clear();
        }
    }

    /// Take an access to the pages `from..=to` of a group. `exact` takes what is known of all.
    fn touch(&mut self, key: u64, from: u64, to: u64, kind: usize, exact: &mut Bins) {
        let warm = self.is_warm();
        let distances = if self.all > 0 { exact } else { &mut self.distances[kind] };
        let place = self.recent.group(key);
        if !self.recent.access_new(place, from, to) {
            for page in from..=to {
                let distance = self.recent.access(place, page as usize);
                if let Some(distance) = distance.filter(|_| warm) {
                    distances.add(distance, 1);
                }
            }
        }
        self.measured[kind] += if warm && self.all == 0 { to - from + 1 } else { 0 };
    }
}

/// Stack distances (Olken's way, over an [`AccessOrder`]) of all pages, or of a spatial sample.
///
/// With a sample, short distances are those of all pages in bursts. A few hot pages get most of the short ones, and
/// would be in a sample or not.
#[derive(Debug)]
pub(super) struct Reuse {
    sample: Sample,
    slots: PageMap,
    line: AccessOrder,
    /// Once not all pages are sampled.
    short: Option<Short>,
    /// Of reads and of writes.
    distances: [Bins; 2],
    references: [u64; 2],
}

impl Reuse {
    /// `most_pages` bounds the sample; `None` looks at every page.
    pub(super) fn new(most_pages: Option<usize>) -> Self {
        Self {
            sample: Sample::new(most_pages, LEAST_PAGES),
            slots: PageMap::default(),
            line: AccessOrder::new(SLOTS),
            short: None,
            distances: [Bins::new(BITS), Bins::new(BITS)],
            references: [0; 2],
        }
    }

    /// Note that a request, the last of `requests`, has accessed `pages` pages.
    #[inline(always)]
    pub(super) fn end(&mut self, write: bool, pages: u64, requests: u64) {
        self.references[usize::from(write)] += pages;
        if let Some(short) = &mut self.short {
            if short.all > 0 {
                short.before = self.references;
            }
            short.pass(pages);
        }
        if self.sample.adapt(self.slots.len(), requests) {
            self.forget();
        }
    }

    /// Take an access to the pages `from..=to` of a group whose first page has the scattered name `key`.
    #[inline(always)]
    pub(super) fn touch(&mut self, key: u64, from: u64, to: u64, write: bool) {
        if let Some(short) = self.short.as_mut().filter(|short| short.age < BURST) {
            let kind = usize::from(write);
            short.touch(key, from, to, kind, &mut self.distances[kind]);
        }
        if self.sample.has(key) {
            (from..=to).for_each(|page| self.touch_sampled(key + page, write));
        }
    }

    /// Take an access to a page of the sample.
    fn touch_sampled(&mut self, key: u64, write: bool) {
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
            let is_latest = self.line.is_latest(slot);
            let distance = if is_latest { 0 } else { self.line.after(slot) as u64 * weight };
            if self.short.is_none() || distance >= RECENT {
                distances.add(distance, weight);
            }
            if is_latest {
                return;
            }
            self.line.remove(slot);
        }
        self.slots.set(place, self.line.push() as u32);
    }

    /// Drop the pages that left the sample.
    #[cold]
    fn forget(&mut self) {
        if self.short.is_none() {
            self.short = Some(Short {
                recent: self.most_recent(),
                all: ALL,
                age: 0,
                distances: [Bins::new(BITS), Bins::new(BITS)],
                measured: [0; 2],
                before: self.references,
            });
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

    /// What an LRU cache would miss, given how many pages reads and writes were the first to access.
    pub(super) fn finish(&self, first_touches: [u64; 2]) -> Option<ReuseStats> {
        let references: u64 = self.references.iter().sum();
        if references == 0 {
            return None;
        }
        // First touches are known, and so is how many distances there are; how many are short, the bursts say. What the sample
        // has of long ones is scaled to the rest.
        let border = bin_of(BITS, RECENT);
        let of = |bins: &[Bins; 2], kind: usize, bin: usize| {
            bins[kind].counts().get(bin).copied().unwrap_or(0) as f64
        };
        let estimate = |kind: usize, bin: usize| {
            let exact = of(&self.distances, kind, bin);
            match &self.short {
                Some(short) if bin < border && short.measured[kind] > 0 => {
                    let share = of(&short.distances, kind, bin) / short.measured[kind] as f64;
                    exact + share * (self.references[kind] - short.before[kind]) as f64
                }
                _ => exact,
            }
        };
        let scales = [0, 1].map(|kind| {
            let all = (self.references[kind] - first_touches[kind]) as f64;
            let short: f64 = (0..border).map(|bin| estimate(kind, bin)).sum();
            let long: f64 =
                (border..self.distances[kind].counts().len()).map(|bin| estimate(kind, bin)).sum();
            let few = if long == 0.0 || short > all { all / short.max(1.0) } else { 1.0 };
            [few, if long == 0.0 { 1.0 } else { (all - short * few) / long }]
        });
        let count = |kind: usize, bin: usize| estimate(kind, bin) * scales[kind][usize::from(bin >= border)];
        let bins = self.distances.iter().map(|bins| bins.counts().len()).max().unwrap_or(0).max(border);
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
        let first_touches: u64 = first_touches.iter().sum();
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
    /// Share of the pages that were looked at: 1 is exact. Below 1, distances from 4096 pages on are those of a spatial
    /// sample, and shorter ones those of all pages a quarter of the time. The curve is then off by about 0.01 at most, unless
    /// the accesses repeat themselves in step with those quarters.
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
    use crate::pages::scatter;
    use crate::{ReuseMethod, StatsCollector, StatsOptions};
    use ftlab_workload::{CommonKeys, RequestBytes, WorkloadConfig, WorkloadKind};
    use proptest::prelude::*;
    use std::collections::HashSet;

    fn access(reuse: &mut Reuse, page: u64, write: bool) {
        let within = page % GROUP;
        reuse.touch(scatter(page - within), within, within, write);
        reuse.end(write, 1, 0);
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
            let (mut seen, mut first_touches) = (HashSet::new(), [0; 2]);
            for page in &accesses {
                let write = page % 3 == 0;
                access(&mut reuse, *page, write);
                first_touches[usize::from(write)] += u64::from(seen.insert(*page));
            }
            let curve = reuse.finish(first_touches).unwrap().miss_ratio_curve;
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
        collectors.map(|mut collector| collector.finish().reuse.unwrap())
    }

    /// What docs/notes/trace-statistics.md says.
    #[test]
    #[ignore = "a long test: make test-long"]
    fn samples_are_near_the_exact_curve() {
        let config = |kind, read_fraction, requests, footprint_bytes| {
            let common = CommonKeys {
                read_fraction: Some(read_fraction),
                requests: Some(requests),
                footprint_bytes: Some(footprint_bytes),
                ..CommonKeys::default()
            };
            WorkloadConfig::new(kind, common)
        };
        let zipf = |theta, read_fraction, requests, footprint_bytes| {
            let mut config = config(WorkloadKind::Zipf, read_fraction, requests, footprint_bytes);
            config.own.zipf.theta = Some(theta);
            config
        };
        let mut few = zipf(0.9, 0.5, 4_000_000, 128 << 20);
        few.common.request_bytes = Some(RequestBytes::Fixed(12_288));
        few.common.alignment_bytes = Some(4096);
        let workloads = [
            ("zipf 0.99", zipf(0.99, 0.0, 1_000_000, 8 << 30)),
            ("zipf 1.2", zipf(1.2, 0.3, 1_000_000, 8 << 30)),
            ("hot and cold", config(WorkloadKind::Hotcold, 0.5, 1_000_000, 8 << 30)),
            // Few pages that cost much: three to a request.
            ("few pages", few),
        ];
        // Each takes seconds: the first of them with one seed, all with three in `make test-long`.
        let (count, seeds) = if std::env::var_os("FTLAB_LONG").is_some() { (4, 3) } else { (1, 1) };
        for (name, workload) in &workloads[..count] {
            for seed in 1..=seeds {
                let [exact, sampled] = curves(workload, seed);
                assert!(sampled.sample_rate <= 1.0 / 2.0, "{name}: {}", sampled.sample_rate);
                assert_eq!(exact.first_touches, sampled.first_touches);
                let (exact, sampled) = (exact.miss_ratio_curve, sampled.miss_ratio_curve);
                let mean = exact.mean_difference(&sampled);
                let most = (0..200).map(|step| libm::exp2(f64::from(step) / 8.0) as u64);
                let most = most.map(|pages| (exact.at(pages) - sampled.at(pages)).abs()).fold(0.0, f64::max);
                assert!(mean < 0.002 && most < 0.01, "{name}, seed {seed}: mean {mean}, most {most}");
            }
        }
    }
}
