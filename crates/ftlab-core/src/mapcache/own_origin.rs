//! What each window of the score board would have in memory, had all misses been its own.
//!
//! A window keeps the aligned blocks of entries that were used last, as many as memory holds of what it fetches. All
//! windows see the same accesses, so they share one log of them. A block is kept where its last access is not older than
//! the oldest that its window still has.
//!
//! Source: specification of the mapping-cache paper, sections 8.1 and 8.2.

use crate::geometry::Lpn;
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::runs::{Window, first_set_from};
use crate::table;

/// Places of the log for each block that a window may keep: it is closed up once in as many accesses at least.
const PLACES_PER_BLOCK: usize = 2;

/// The bits of 1.
const ONE: u64 = 1.0_f64.to_bits();

/// Times above it are made small again when the log is closed up.
const LATEST: u32 = 1 << 31;

/// One window.
#[derive(Debug, Clone)]
struct Alone {
    /// Base-2 logarithm of the entries of a block.
    shift: u32,
    /// Whether a block is what it fetches: halves and whole pages.
    is_block: bool,
    /// Otherwise how far it reaches ahead of its origin.
    reach: u32,
    /// Its first block in `OwnOrigin::last`.
    blocks: usize,
    /// Blocks whose last access is from this time on are in memory; of the one before, none is.
    since: u32,
    /// Blocks for which there is still room.
    room: u32,
    /// Whether there is no room for all.
    is_bounded: bool,
    /// Its first word in `OwnOrigin::is_last`.
    words: usize,
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct OwnOrigin {
    windows: Vec<Alone>,
    /// For each translation page, for each window, the logical unit plus 1 whose miss would have fetched last, or 0.
    origins: Vec<u32>,
    /// For each window, for each block, the time of its last access, or 0.
    last: Vec<u32>,
    /// The accesses after the time `base`, in order. Empty where all windows have room for all blocks.
    log: Vec<u32>,
    /// For each window, for each place in the log, whether it is the last access to its block. Places that were not written
    /// yet say yes. Nobody asks where a window has room for all.
    is_last: Vec<u64>,
    base: u32,
    /// The time of the latest access.
    now: u32,
    /// The windows that did not have the block of the latest access.
    missed: Vec<usize>,
    /// For each window, whether it had it: 1 or 0.
    points: Vec<f64>,
    /// While the log is closed up: whether any window keeps a place, and what `is_last` of one window becomes.
    kept: Vec<u64>,
    new_is_last: Vec<u64>,
}

impl OwnOrigin {
    fn shift(window: Window, layout: TranslationLayout) -> u32 {
        match window {
            Window::Forward(more) => more.max(1).next_power_of_two().trailing_zeros(),
            Window::Half => layout.shift - 1,
            Window::Full => layout.shift,
        }
    }

    /// Blocks of the drive.
    fn blocks(window: Window, layout: TranslationLayout) -> u32 {
        ((layout.logical_units - 1) >> Self::shift(window, layout)) + 1
    }

    /// For each window, the blocks that it may keep.
    pub(super) fn new(windows: &[(Window, u32)], layout: TranslationLayout) -> Self {
        let is_bounded = |window: Window, held: u32| held < Self::blocks(window, layout);
        let bounded = windows.iter().filter(|(window, held)| is_bounded(*window, *held));
        let held: usize = bounded.clone().map(|(_, held)| *held as usize).sum();
        let words_each = if held > 0 { (PLACES_PER_BLOCK * held).div_ceil(64) + 1 } else { 0 };
        let (mut blocks, mut words) = (0, 0);
        let alone = |&(window, held): &(Window, u32)| {
            let (is_block, reach) =
                if let Window::Forward(more) = window { (false, more) } else { (true, 0) };
            let bounded = is_bounded(window, held);
            let alone = Alone {
                shift: Self::shift(window, layout),
                is_block,
                reach,
                blocks,
                since: 1,
                room: if bounded { held.max(1) } else { u32::MAX },
                is_bounded: bounded,
                words,
            };
            blocks += Self::blocks(window, layout) as usize;
            words += words_each;
            alone
        };
        let alone: Vec<Alone> = windows.iter().map(alone).collect();
        Self {
            origins: vec![0; layout.pages() as usize * alone.len()],
            windows: alone,
            last: vec![0; blocks],
            log: vec![0; words_each * 64],
            is_last: vec![u64::MAX; words],
            base: 0,
            // Where there is no log, all times are the same.
            now: u32::from(held == 0),
            missed: vec![0; windows.len()],
            points: vec![0.0; windows.len()],
            kept: vec![0; words_each],
            new_is_last: vec![0; words_each],
        }
    }

    /// Bytes of all this at most: for each byte of memory that runs may take in it 1/`ENTRY_BYTES` of the first number, and the second.
    pub(super) fn bytes_at_most(windows: &[Window], layout: TranslationLayout) -> (u64, u64) {
        let count = windows.len() as u64;
        let place_bits = 32 + count + 2;
        let block = |window: Window| u64::from((window.bytes(layout) - ENTRY_BYTES).max(ENTRY_BYTES));
        let per_block = (PLACES_PER_BLOCK as u64 * place_bits).div_ceil(8);
        let per_entry = |window: &Window| per_block * u64::from(ENTRY_BYTES) / block(*window) + 1;
        let blocks: u64 = windows.iter().map(|window| u64::from(Self::blocks(*window, layout))).sum();
        let origins = count * u64::from(layout.pages());
        let more = 4 * (blocks + origins) + place_bits * 16 + 32 * count;
        (windows.iter().map(per_entry).sum(), more)
    }

    /// Ask the processor for what an access to `lpn`, of the translation page `tpn`, changes.
    #[inline]
    pub(super) fn look_ahead(&self, lpn: Lpn, tpn: u32) {
        table::prefetch(&self.origins, tpn as usize * self.windows.len());
        for alone in &self.windows {
            table::prefetch(&self.last, alone.blocks + (lpn.0 >> alone.shift) as usize);
        }
    }

    /// An access to `lpn`, of the translation page `tpn`: for each window 1 where it would have it in memory, and otherwise 0. All
    /// windows have it then.
    #[inline]
    #[expect(clippy::needless_bitwise_bool, reason = "a jump here cannot be guessed")]
    pub(super) fn access(&mut self, lpn: Lpn, tpn: u32) -> &[f64] {
        self.enter(lpn);
        let (now, base) = (self.now, self.base);
        let (last, is_last) = (&mut self.last[..], &mut self.is_last[..]);
        let origins = &mut self.origins[tpn as usize * self.windows.len()..][..self.windows.len()];
        let mut missed = 0;
        let windows = self.windows.iter().zip(origins).zip(&mut self.points).enumerate();
        for (at, ((alone, origin), point)) in windows {
            let here = alone.blocks + (lpn.0 >> alone.shift) as usize;
            let from = origin.wrapping_sub(1);
            let reached = (*origin != 0) & (lpn.0.wrapping_sub(from) <= alone.reach);
            let origin_block = if reached { alone.blocks + (from >> alone.shift) as usize } else { here };
            let origin_held = last[origin_block] >= alone.since;
            let before = std::mem::replace(&mut last[here], now);
            let held = before >= alone.since;
            let covered = (held & alone.is_block) | (reached & (held | origin_held));
            *origin ^= (*origin ^ (lpn.0 + 1)) & u32::from(covered).wrapping_sub(1);
            *point = f64::from_bits(ONE & u64::from(covered).wrapping_neg());
            self.missed[missed] = at;
            missed += usize::from(!held);
            // What left has no place any more: the one before all others stands for it.
            let place = before.max(alone.since - 1).saturating_sub(base) as usize;
            if let Some(word) = is_last.get_mut(alone.words + place / 64) {
                *word &= !(1 << (place % 64));
            }
        }
        for at in 0..missed {
            self.make_room(self.missed[at]);
        }
        &self.points
    }

    /// Enter an access in the log.
    #[inline]
    fn enter(&mut self, lpn: Lpn) {
        if self.log.is_empty() {
            return;
        }
        if (self.now - self.base) as usize == self.log.len() - 1 {
            self.close_up();
        }
        self.now += 1;
        self.log[(self.now - self.base) as usize] = lpn.0;
    }

    /// A block came to a window.
    #[inline]
    fn make_room(&mut self, window: usize) {
        let alone = &mut self.windows[window];
        if alone.room > 0 {
            alone.room -= 1;
            return;
        }
        // The least recent block leaves. There is one, since there is no room.
        let words = &self.is_last[alone.words..];
        if let Some(place) = first_set_from(words, (alone.since - self.base) as usize) {
            alone.since = self.base + place as u32 + 1;
        }
    }

    /// Forget accesses that are not the last one to a block that is kept. The others become as recent as they can be in
    /// their order, so that what left stays older than what did not.
    #[cold]
    fn close_up(&mut self) {
        if self.now > LATEST {
            self.renumber();
        }
        let (base, len) = (self.base, self.log.len());
        let words_each = len / 64;
        self.kept.fill(0);
        for alone in self.windows.iter().filter(|alone| alone.is_bounded) {
            let words = &mut self.is_last[alone.words..][..words_each];
            let first = (alone.since - base) as usize;
            words[..first / 64].fill(0);
            words[first / 64] &= u64::MAX << (first % 64);
            self.kept.iter_mut().zip(words).for_each(|(kept, word)| *kept |= *word);
        }
        let all: u32 = self.kept.iter().map(|word| word.count_ones()).sum();
        // Place 0 stays without an access.
        self.base = self.now - all;
        for alone in self.windows.iter_mut().filter(|alone| alone.is_bounded) {
            let words = &mut self.is_last[alone.words..][..words_each];
            self.new_is_last.fill(0);
            let mut before = 1;
            for (at, kept) in self.kept.iter().enumerate() {
                let mut word = words[at];
                while word != 0 {
                    let bit = word.trailing_zeros();
                    let place = before + (kept & ((1 << bit) - 1)).count_ones();
                    self.new_is_last[place as usize / 64] |= 1 << (place % 64);
                    let lpn = self.log[at * 64 + bit as usize];
                    self.last[alone.blocks + (lpn >> alone.shift) as usize] = self.base + place;
                    word &= word - 1;
                }
                before += kept.count_ones();
            }
            alone.since = alone.since.max(self.base + 1);
            // What is not written yet.
            let next = all as usize + 1;
            self.new_is_last[next / 64] |= u64::MAX << (next % 64);
            self.new_is_last[next / 64 + 1..].fill(u64::MAX);
            words.copy_from_slice(&self.new_is_last);
        }
        let mut next = 1;
        for at in 0..len {
            if self.kept[at / 64] >> (at % 64) & 1 == 1 {
                self.log[next] = self.log[at];
                next += 1;
            }
        }
    }

    /// Make all times as small as they can be.
    fn renumber(&mut self) {
        let base = self.base;
        let ends = self.windows.iter().skip(1).map(|alone| alone.blocks).chain([self.last.len()]);
        let ends: Vec<usize> = ends.collect();
        for (alone, end) in self.windows.iter_mut().zip(ends) {
            for last in &mut self.last[alone.blocks..end] {
                // Where there is room for all, any time will do.
                *last = if *last >= alone.since { last.saturating_sub(base).max(1) } else { 0 };
            }
            alone.since = alone.since.saturating_sub(base).max(1);
        }
        self.now -= base;
        self.base = 0;
    }

    pub(super) fn table_bytes(&self) -> u64 {
        let words = self.is_last.capacity() + self.kept.capacity() + self.new_is_last.capacity();
        let numbers = self.origins.capacity() + self.last.capacity() + self.log.capacity();
        words as u64 * 8 + numbers as u64 * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    const LAYOUT: TranslationLayout =
        TranslationLayout { logical_units: 4000, shift: 9, slots: 1, planes: 1, block_units: 0 };

    /// A window with a list of its blocks, the most recent first.
    struct Naive {
        window: Window,
        held: usize,
        blocks: Vec<u32>,
        origins: Vec<Option<u32>>,
    }

    impl Naive {
        fn access(&mut self, lpn: u32) -> bool {
            let shift = OwnOrigin::shift(self.window, LAYOUT);
            let has = |lpn: u32| self.blocks.contains(&(lpn >> shift));
            let origin = &mut self.origins[(lpn >> LAYOUT.shift) as usize];
            let covered = match (self.window, *origin) {
                (Window::Forward(more), Some(from)) => {
                    lpn >= from && lpn - from <= more && (has(lpn) || has(from))
                }
                (Window::Forward(_), None) => false,
                (Window::Half | Window::Full, _) => has(lpn),
            };
            if !covered {
                *origin = Some(lpn);
            }
            self.blocks.retain(|block| *block != lpn >> shift);
            self.blocks.insert(0, lpn >> shift);
            self.blocks.truncate(self.held);
            covered
        }
    }

    #[test]
    fn agrees_with_lists_whatever_the_times_are() {
        for seed in 0..60 {
            let mut rng = Rng::new(seed, "own origin");
            let most = [2, 12, 300, 5000][seed as usize % 4];
            let mut windows = vec![Window::Full, Window::Half];
            for _ in 0..rng.below(8) {
                windows.push(Window::Forward(rng.below(70) as u32));
            }
            let windows: Vec<(Window, u32)> =
                windows.into_iter().map(|window| (window, 1 + rng.below(most) as u32)).collect();
            let mut all = OwnOrigin::new(&windows, LAYOUT);
            // Soon times are too large.
            if !all.log.is_empty() && seed % 3 == 0 {
                (all.base, all.now) = (LATEST - 700, LATEST - 700);
                for alone in &mut all.windows {
                    alone.since = all.base + 1;
                }
            }
            let naive = |&(window, held): &(Window, u32)| Naive {
                window,
                held: held as usize,
                blocks: Vec::new(),
                origins: vec![None; LAYOUT.pages() as usize],
            };
            let mut naive: Vec<Naive> = windows.iter().map(naive).collect();
            let mut lpn = 0;
            for at in 0..4000 {
                lpn = match rng.below(4) {
                    0 => rng.below(4000) as u32,
                    1 => rng.below(40) as u32,
                    2 => lpn,
                    _ => (lpn + 1) % 4000,
                };
                let points = all.access(Lpn(lpn), lpn >> LAYOUT.shift);
                for ((point, naive), (window, held)) in points.iter().zip(&mut naive).zip(&windows) {
                    let covered = f64::from(u8::from(naive.access(lpn)));
                    assert!(*point == covered, "seed {seed}, access {at}, {window:?} with {held}");
                }
            }
            assert!(all.now < LATEST);
        }
    }
}
