//! How long what is written lives: until it is overwritten or trimmed.

use serde::Serialize;

use super::bins::{BinRow, Bins, Spread};
use super::pages::{GROUP, PageMap, SAMPLE_BIT, scatter};
use super::sample::Sample;

const BITS: u32 = 3;
/// So many pages are watched at least, if they are written.
const LEAST_PAGES: usize = 1 << 12;

/// A write that is watched until its data die.
#[derive(Debug, Clone, Copy)]
struct Life {
    page: u64,
    /// The scattered number of the write, by which it is in the sample.
    write: u64,
    /// [`DEAD`] once the page is trimmed, until it is written again.
    born_ns: u64,
    born_bytes: u64,
}

const DEAD: u64 = u64::MAX;
/// What a life that has ended has for a page.
const NO_PAGE: u64 = u64::MAX;
/// What a page that is no longer watched has for a place.
const NO_LIFE: u32 = u32::MAX;
/// Groups of pages that may be watched have their bit set: 64 KiB of bits.
const FILTER_BITS: u32 = 19;

/// How long written pages live: of all writes, or of a sample of writes, each of which is watched until its page is
/// written next. So pages count by how often they are written, and a few hot ones do not decide.
#[derive(Debug)]
pub(super) struct Lifetimes {
    sample: Sample,
    /// Places in `lives`, or [`NO_LIFE`].
    pages: PageMap,
    filter: Vec<u64>,
    lives: Vec<Life>,
    /// Places in `lives` that are free.
    free: Vec<u32>,
    /// Lives that ended since the filter was made.
    ended: usize,
    /// Writes of groups of pages, and of pages.
    writes: u64,
    page_writes: u64,
    times: Bins,
    bytes: Bins,
    /// Data that were overwritten, and writes of trimmed pages.
    overwritten: u64,
    reborn: u64,
    /// Of the pages that are watched, those that are trimmed.
    dead: u64,
}

#[inline(always)]
fn filter_place(key: u64) -> (usize, u64) {
    let bit = (key >> SAMPLE_BIT) as usize & ((1 << FILTER_BITS) - 1);
    (bit / 64, 1 << (bit % 64))
}

impl Lifetimes {
    /// Watch at most `most_pages` at a time; `None` watches all.
    pub(super) fn new(most_pages: Option<usize>) -> Self {
        Self {
            sample: Sample::new(most_pages, LEAST_PAGES),
            pages: PageMap::default(),
            filter: vec![0; (1 << FILTER_BITS) / 64],
            lives: Vec::new(),
            free: Vec::new(),
            ended: 0,
            writes: 0,
            page_writes: 0,
            times: Bins::new(BITS),
            bytes: Bins::new(BITS),
            overwritten: 0,
            reborn: 0,
            dead: 0,
        }
    }

    /// Take a write of the pages `first..=last`, all of the group with the scattered name `key`; `bytes` were written
    /// before the request.
    #[inline(always)]
    pub(super) fn write(&mut self, key: u64, first: u64, last: u64, now_ns: u64, bytes: u64) {
        self.writes += 1;
        self.page_writes += last - first + 1;
        let write = scatter(self.writes * GROUP);
        let (word, bit) = filter_place(key);
        if self.sample.has(write) || self.filter[word] & bit != 0 {
            for page in first..=last {
                self.write_page(Life { page, write, born_ns: now_ns.min(DEAD - 1), born_bytes: bytes });
            }
        }
    }

    fn write_page(&mut self, life: Life) {
        self.sample.look();
        let key = scatter(life.page);
        let known = self.pages.find(key);
        if let Some(index) = known.map(|place| self.pages.value(place)).filter(|index| *index != NO_LIFE) {
            if self.die(index, life.born_ns, life.born_bytes) {
                self.overwritten += self.sample.weight();
            } else {
                self.reborn += self.sample.weight();
                self.dead -= 1;
            }
            self.lives[index as usize].page = NO_PAGE;
            self.free.push(index);
            self.ended += 1;
        }
        if self.sample.has(life.write) {
            let index = self.free.pop().unwrap_or(self.lives.len() as u32);
            match self.lives.get_mut(index as usize) {
                Some(place) => *place = life,
                None => self.lives.push(life),
            }
            self.watch(key, index);
        } else if let Some(place) = known {
            self.pages.set(place, NO_LIFE);
        }
    }

    fn watch(&mut self, key: u64, index: u32) {
        let (word, bit) = filter_place(key);
        self.filter[word] |= bit;
        let (place, _) = self.pages.entry(key);
        self.pages.set(place, index);
    }

    /// Count the end of a life, unless the page is dead.
    fn die(&mut self, index: u32, now_ns: u64, bytes: u64) -> bool {
        let life = self.lives[index as usize];
        if life.born_ns == DEAD {
            return false;
        }
        self.times.add(now_ns.saturating_sub(life.born_ns), self.sample.weight());
        self.bytes.add(bytes - life.born_bytes, self.sample.weight());
        true
    }

    /// Pages that are watched.
    fn watched(&self) -> usize {
        self.lives.len() - self.free.len()
    }

    /// Note the end of a write, the last of `requests` requests.
    #[inline(always)]
    pub(super) fn end(&mut self, requests: u64) {
        /// Ended lives beside those that are watched, before the filter is made anew.
        const ENDED: usize = 1 << 14;
        let halved = self.sample.adapt(self.watched(), requests);
        if halved || self.ended > ENDED + self.lives.len() {
            self.forget();
        }
    }

    /// Take a trim of the pages named `first..=last`: whole pages only.
    pub(super) fn trim(&mut self, first: u64, last: u64, now_ns: u64, bytes: u64) {
        /// Lives that can be looked through while one page is looked up.
        const LIVES: u64 = 8;
        if last - first < self.lives.len() as u64 / LIVES {
            for page in first..=last {
                let key = scatter(page);
                if let Some(index) = self.pages.get(key).filter(|index| *index != NO_LIFE) {
                    self.bury(index, now_ns, bytes);
                }
            }
        } else {
            for index in 0..self.lives.len() {
                if (first..=last).contains(&self.lives[index].page) {
                    self.bury(index as u32, now_ns, bytes);
                }
            }
        }
    }

    fn bury(&mut self, index: u32, now_ns: u64, bytes: u64) {
        if self.die(index, now_ns, bytes) {
            self.dead += 1;
            self.lives[index as usize].born_ns = DEAD;
        }
    }

    /// Drop the lives that left the sample, and what is known of pages that are no longer watched.
    #[cold]
    fn forget(&mut self) {
        let sample = &self.sample;
        self.lives.retain(|life| life.page != NO_PAGE && sample.has(life.write));
        self.dead = self.lives.iter().filter(|life| life.born_ns == DEAD).count() as u64;
        self.free.clear();
        self.ended = 0;
        self.filter.fill(0);
        self.pages = PageMap::default();
        for index in 0..self.lives.len() {
            self.watch(scatter(self.lives[index].page), index as u32);
        }
    }

    /// Every write is overwritten, trimmed or alive, and every page that was written is alive or dead. So writes beyond the first
    /// of a page, whose number is exact, followed data that they overwrote, or a trim: only their shares need the sample.
    fn ends(&self, written_pages: u64) -> Ends {
        let later = self.page_writes - written_pages;
        let seen = self.overwritten + self.reborn;
        let share = if seen > 0 { self.overwritten as f64 / seen as f64 } else { 1.0 };
        let overwritten = (later as f64 * share).round() as u64;
        let dead = (self.dead * self.sample.weight()).min(written_pages);
        Ends { overwritten, trimmed: later - overwritten + dead, alive: written_pages - dead }
    }

    /// What is known, given how many distinct pages were written.
    pub(super) fn finish(&self, written_pages: u64) -> Option<LifetimeStats> {
        if self.page_writes == 0 {
            return None;
        }
        let weight = self.sample.weight();
        let Ends { overwritten, trimmed, alive } = self.ends(written_pages);
        let died = self.page_writes - alive;
        let scale = died as f64 / (self.times.total().max(1)) as f64;
        let (times, bytes) = (self.times.scaled(scale), self.bytes.scaled(scale));
        Some(LifetimeStats {
            sample_rate: 1.0 / weight as f64,
            page_writes: self.page_writes,
            overwritten,
            trimmed,
            alive,
            time_ns: times.spread(),
            written_bytes: bytes.spread(),
            time_histogram: times.rows(),
            bytes_histogram: bytes.rows(),
        })
    }
}

/// How page writes have ended.
#[derive(Debug)]
struct Ends {
    overwritten: u64,
    trimmed: u64,
    alive: u64,
}

/// How long written pages of 4 KiB live: from a write to the next write of any part of the page, or to a trim of all of
/// it. What lives at the end counts as alive and has no lifetime. Estimates where writes are sampled.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LifetimeStats {
    /// Share of the page writes whose data were watched in the end; 1 is exact.
    pub sample_rate: f64,
    /// Page writes, exact.
    pub page_writes: u64,
    /// Page writes whose data were overwritten.
    pub overwritten: u64,
    /// Page writes whose data were trimmed.
    pub trimmed: u64,
    /// Page writes whose data live at the end; exact without trims.
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
        lives.write(scatter(page & !(GROUP - 1)), page, page, now_ns, bytes);
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
        let stats = lives.finish(4).unwrap();
        assert_eq!((stats.page_writes, stats.overwritten, stats.trimmed, stats.alive), (6, 1, 2, 3));
        let (time, bytes) = (stats.time_ns.unwrap(), stats.written_bytes.unwrap());
        assert_eq!((time.count, time.min, time.max), (3, 200, 500));
        assert_eq!((bytes.min, bytes.max), (16_384, 24_576));
    }

    #[test]
    fn a_few_trims_of_many_pages_are_a_few() {
        const PAGES: u64 = 200_000;
        for rounds in [1, 2] {
            let mut lives = Lifetimes::new(Some(2048));
            for step in 0..rounds * PAGES {
                write(&mut lives, step % PAGES, step, step * 4096, step);
            }
            lives.trim(0, 499, rounds * PAGES, rounds * PAGES * 4096);
            let stats = lives.finish(PAGES).unwrap();
            assert!(stats.sample_rate < 0.02 && stats.trimmed < 2500, "{stats:?}");
            assert_eq!((stats.overwritten, stats.alive), ((rounds - 1) * PAGES, PAGES - stats.trimmed));
        }
    }

    /// A drive that is written and trimmed again and again, with an overwrite for so many writes, or none.
    #[test]
    fn few_overwrites_do_not_take_up_what_a_sample_is_off() {
        const PAGES: u64 = 40_000;
        for (rounds, every) in (2..8).flat_map(|rounds| [(rounds, None), (rounds, Some(100))]) {
            let mut lives = Lifetimes::new(Some(2048));
            let again = every.map_or(0, |every| PAGES / every);
            let mut at = 0;
            for _ in 0..rounds {
                for page in (0..PAGES).chain((0..again).map(|page| page * 100)) {
                    write(&mut lives, page, at, at * 4096, at);
                    at += 1;
                }
                lives.trim(0, PAGES - 1, at, at * 4096);
            }
            let stats = lives.finish(PAGES).unwrap();
            assert!(stats.sample_rate < 0.1, "{stats:?}");
            assert_eq!(stats.overwritten + stats.trimmed + stats.alive, at);
            let right = rounds * again;
            assert!((right / 2..=right * 2).contains(&stats.overwritten), "{rounds}, {every:?}: {stats:?}");
            assert!(stats.alive < PAGES / 10, "{stats:?}");
        }
    }

    /// What docs/notes/trace-statistics.md says.
    #[test]
    #[ignore = "a long test: make test-long"]
    fn samples_are_near_the_whole() {
        const WRITES: u64 = 1_000_000;
        for (seed, trims) in [(1, false), (2, true), (3, true)] {
            let (mut exact, mut sampled) = (Lifetimes::new(None), Lifetimes::new(Some(2048)));
            let mut rng = ftlab_core::rng::Rng::for_path(seed, &[]);
            let mut written = std::collections::BTreeSet::new();
            for step in 0..WRITES {
                // Some pages get a great part of the writes.
                let page = match rng.below_unbiased(10) {
                    0..3 => rng.below_unbiased(5),
                    3..5 => 100 + rng.below_unbiased(2000),
                    _ => rng.below_unbiased(400) * rng.below_unbiased(400) + rng.below_unbiased(40_000),
                };
                written.insert(page);
                for lives in [&mut exact, &mut sampled] {
                    if trims && step % 50 == 7 {
                        lives.trim(page, page + step % 90, step * 1000, step * 4096);
                    }
                    write(lives, page, step * 1000, step * 4096, step);
                }
            }
            let [exact, sampled] = [exact, sampled].map(|lives| lives.finish(written.len() as u64).unwrap());
            assert_eq!((exact.sample_rate, exact.overwritten + exact.trimmed + exact.alive), (1.0, WRITES));
            assert!(sampled.sample_rate <= 1.0 / 16.0);
            assert_eq!(sampled.overwritten + sampled.trimmed + sampled.alive, WRITES);
            let near = |estimate: f64, whole: f64, part: f64| {
                assert!((estimate - whole).abs() <= part * whole, "seed {seed}: {estimate}, not {whole}");
            };
            near(sampled.overwritten as f64, exact.overwritten as f64, 0.01);
            near(sampled.trimmed as f64, exact.trimmed as f64, 0.05);
            near(sampled.alive as f64, exact.alive as f64, 0.05);
            let shares = |stats: &LifetimeStats, longest: u64| {
                let rows = stats.time_histogram.iter().filter(|row| row.max <= longest);
                let all: u64 = stats.time_histogram.iter().map(|row| row.count).sum();
                rows.map(|row| row.count).sum::<u64>() as f64 / all as f64
            };
            for row in &exact.time_histogram {
                let (whole, part) = (shares(&exact, row.max), shares(&sampled, row.max));
                assert!((whole - part).abs() < 0.01, "seed {seed}: {part} up to {}, not {whole}", row.max);
            }
            let (whole, part) = (exact.time_ns.unwrap(), sampled.time_ns.unwrap());
            near(part.count as f64, whole.count as f64, 0.01);
            near(part.mean, whole.mean, 0.05);
            near(part.p50, whole.p50, 0.1);
        }
    }
}
