//! How long what is written lives: until it is overwritten or trimmed.

use serde::Serialize;

use super::bins::{BinRow, Bins, Spread};
use super::pages::{PageMap, scatter};
use super::sample::Sample;

const BITS: u32 = 3;

#[derive(Debug, Clone, Copy)]
struct Life {
    page: u64,
    born_ns: u64,
    born_bytes: u64,
}

/// The last write of every page, or of a spatial sample of pages.
#[derive(Debug)]
pub(super) struct Lifetimes {
    sample: Sample,
    /// Places in `lives`.
    pages: PageMap,
    lives: Vec<Life>,
    dead: usize,
    times: Bins,
    bytes: Bins,
    written: u64,
    trimmed: u64,
}

/// What a trimmed page has for a time of birth.
const DEAD: u64 = u64::MAX;

impl Lifetimes {
    pub(super) fn new(most_pages: Option<usize>) -> Self {
        Self {
            sample: Sample::new(most_pages),
            pages: PageMap::default(),
            lives: Vec::new(),
            dead: 0,
            times: Bins::new(BITS),
            bytes: Bins::new(BITS),
            written: 0,
            trimmed: 0,
        }
    }

    /// The bits that are clear in the scattered names of the pages to be given to [`write`](Self::write).
    #[inline(always)]
    pub(super) fn mask(&self) -> u64 {
        self.sample.mask()
    }

    /// Take a write to a page of the sample, whose scattered name is `key`; `bytes` were written before the request.
    pub(super) fn write(&mut self, page: u64, key: u64, now_ns: u64, bytes: u64) {
        self.sample.look();
        let life = Life { page, born_ns: now_ns.min(DEAD - 1), born_bytes: bytes };
        self.written += self.sample.weight();
        let (place, new) = self.pages.entry(key);
        if new {
            self.pages.set(place, self.lives.len() as u32);
            self.lives.push(life);
        } else {
            let index = self.pages.value(place) as usize;
            let before = std::mem::replace(&mut self.lives[index], life);
            self.die(before, now_ns, bytes);
        }
    }

    /// Note the end of a write, the last of `requests` requests.
    #[inline(always)]
    pub(super) fn end(&mut self, requests: u64) {
        if self.sample.adapt(self.lives.len(), requests) {
            self.forget();
        }
    }

    fn die(&mut self, life: Life, now_ns: u64, bytes: u64) -> bool {
        if life.born_ns == DEAD {
            self.dead -= 1;
            return false;
        }
        self.times.add(now_ns.saturating_sub(life.born_ns), self.sample.weight());
        self.bytes.add(bytes - life.born_bytes, self.sample.weight());
        true
    }

    /// Take a trim of the pages named `first..=last`: whole pages only.
    pub(super) fn trim(&mut self, first: u64, last: u64, now_ns: u64, bytes: u64) {
        if last - first < self.lives.len() as u64 {
            for page in first..=last {
                let key = scatter(page);
                if let Some(index) = self.pages.get(key).filter(|_| self.sample.has(key)) {
                    self.bury(index as usize, now_ns, bytes);
                }
            }
        } else {
            for index in 0..self.lives.len() {
                if (first..=last).contains(&self.lives[index].page) {
                    self.bury(index, now_ns, bytes);
                }
            }
        }
    }

    fn bury(&mut self, index: usize, now_ns: u64, bytes: u64) {
        let life = self.lives[index];
        if self.die(life, now_ns, bytes) {
            self.trimmed += self.sample.weight();
        }
        self.lives[index].born_ns = DEAD;
        self.dead += 1;
    }

    #[cold]
    fn forget(&mut self) {
        let sample = &self.sample;
        self.lives.retain(|life| sample.has(scatter(life.page)));
        self.dead = self.lives.iter().filter(|life| life.born_ns == DEAD).count();
        self.pages = PageMap::default();
        for (index, life) in self.lives.iter().enumerate() {
            let (place, _) = self.pages.entry(scatter(life.page));
            self.pages.set(place, index as u32);
        }
    }

    pub(super) fn finish(&self) -> Option<LifetimeStats> {
        (self.written > 0).then(|| LifetimeStats {
            sample_rate: 1.0 / self.sample.weight() as f64,
            page_writes: self.written,
            overwritten: self.times.total() - self.trimmed,
            trimmed: self.trimmed,
            alive: (self.lives.len() - self.dead) as u64 * self.sample.weight(),
            time_ns: self.times.spread(),
            written_bytes: self.bytes.spread(),
            time_histogram: self.times.rows(),
            bytes_histogram: self.bytes.rows(),
        })
    }
}

/// How long written pages of 4 KiB live: from a write to the next write of any part of the page, or to a trim of all of
/// it. What lives at the end counts as alive and has no lifetime. Estimates where pages are sampled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LifetimeStats {
    /// Share of the pages that were looked at; 1 is exact.
    pub sample_rate: f64,
    /// Page writes.
    pub page_writes: u64,
    /// Page writes whose data were overwritten.
    pub overwritten: u64,
    /// Page writes whose data were trimmed.
    pub trimmed: u64,
    /// Pages whose data live at the end.
    pub alive: u64,
    /// Lifetimes in nanoseconds.
    pub time_ns: Option<Spread>,
    /// Lifetimes in bytes that the whole trace wrote meanwhile, those of the dying write itself included.
    pub written_bytes: Option<Spread>,
    /// Lifetimes in nanoseconds, by row.
    pub time_histogram: Vec<BinRow>,
    /// Lifetimes in bytes, by row.
    pub bytes_histogram: Vec<BinRow>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(lives: &mut Lifetimes, page: u64, now_ns: u64, bytes: u64, requests: u64) {
        let key = scatter(page);
        if key & lives.mask() == 0 {
            lives.write(page, key, now_ns, bytes);
        }
        lives.end(requests);
    }

    #[test]
    fn lives_end_by_writes_and_trims() {
        let mut lives = Lifetimes::new(None);
        (0..4).for_each(|page| write(&mut lives, page, 100, 0, 0));
        write(&mut lives, 1, 300, 16_384, 0);
        lives.trim(2, 2, 400, 20_480);
        write(&mut lives, 2, 500, 20_480, 0);
        lives.trim(3, 1 << 40, 600, 24_576);
        let stats = lives.finish().unwrap();
        assert_eq!((stats.page_writes, stats.overwritten, stats.trimmed, stats.alive), (6, 1, 2, 3));
        let (time, bytes) = (stats.time_ns.unwrap(), stats.written_bytes.unwrap());
        assert_eq!((time.count, time.min, time.max), (3, 200, 500));
        assert_eq!((bytes.min, bytes.max), (16_384, 24_576));
    }

    #[test]
    fn samples_are_near_the_whole() {
        let (mut exact, mut sampled) = (Lifetimes::new(None), Lifetimes::new(Some(4096)));
        let mut rng = crate::rng::Rng::new(1, &[]);
        for step in 0..600_000u64 {
            let page = rng.below(200) * rng.below(200) + rng.below(20_000);
            for lives in [&mut exact, &mut sampled] {
                write(lives, page, step * 1000, step * 4096, step);
            }
        }
        let (exact, sampled) = (exact.finish().unwrap(), sampled.finish().unwrap());
        assert_eq!(exact.overwritten + exact.alive, 600_000);
        assert!(sampled.sample_rate < 0.3);
        let ratio = |a: f64, b: f64| (a / b - 1.0).abs();
        let (times, estimates) = (exact.time_ns.unwrap(), sampled.time_ns.unwrap());
        assert!(ratio(estimates.p50, times.p50) < 0.1, "{estimates:?} {times:?}");
        assert!(ratio(sampled.alive as f64, exact.alive as f64) < 0.05);
    }
}
