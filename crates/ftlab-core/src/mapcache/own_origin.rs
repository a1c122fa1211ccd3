//! What each window of the score board would have in memory, had all misses been its own.
//!
//! A window keeps the aligned blocks of entries that were used last, as many as memory holds of what it fetches. All
//! windows see the same accesses, so they share one log of them. A block is kept where its last access is not older than
//! the oldest that its window still has.
//!
//! An access touches a block of every window. Of windows whose blocks lie in each other, the times of all blocks that lie
//! in one of the largest are in one line of a processor's cache.
//!
//! Source: specification of the mapping-cache paper, sections 8.1 and 8.2.

use crate::geometry::Lpn;
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::runs::{Window, first_set_from};
use crate::table;

/// Places of the log for each block that a window may keep: it is closed up once in as many accesses at least.
const PLACES_PER_BLOCK: usize = 2;

/// Times in a line of a processor's cache.
const LINE: usize = 64 / size_of::<u32>();

/// Times for lanes without a window.
const UNUSED: usize = 2 * LINE;

/// Windows that take each step together: without jumps, which could not be guessed, and several in one instruction.
const LANES: usize = 8;

/// Times above it are made small again when the log is closed up.
const LATEST: u32 = 1 << 31;

/// A number for each of some windows.
type Each<T> = [T; LANES];

/// Some windows. What is yes or no is all bits or none. Where there are fewer than lanes, the others never have anything.
#[derive(Debug, Clone)]
struct Lanes {
    /// Base-2 logarithm of the entries of a block.
    shift: Each<u32>,
    /// The same of the entries of a line, and the blocks of one less 1.
    line_shift: Each<u32>,
    in_line: Each<u32>,
    /// Where the first block is in `OwnOrigin::last`.
    first: Each<usize>,
    /// Whether a block is what it fetches: halves and whole pages.
    is_block: Each<u32>,
    /// Otherwise how far it reaches ahead of its origin.
    reach: Each<u32>,
    /// Blocks whose last access is from this time on are in memory; of the one before, none is.
    since: Each<u32>,
    /// Blocks for which there is still room.
    room: Each<u32>,
    /// Whether there is no room for all.
    is_bounded: Each<u32>,
    /// Its first word in `OwnOrigin::is_last`.
    words: Each<usize>,
}

impl Lanes {
    /// Where the block of a logical unit is in `OwnOrigin::last`.
    #[inline(always)]
    fn at(&self, lane: usize, lpn: u32) -> usize {
        let line = (lpn >> self.line_shift[lane]) as usize * LINE;
        self.first[lane] + line + (lpn >> self.shift[lane] & self.in_line[lane]) as usize
    }

    /// An access to `lpn` at the time `now`; `origins` are those of its translation page. A bit for each window that did not
    /// have its block, and has not room for all.
    #[inline(always)]
    fn access(
        &mut self,
        lpn: u32,
        origins: &mut Each<u32>,
        (scores, weight): (&mut Each<f64>, f64),
        (last, is_last): (&mut [u32], &mut [u64]),
        (base, now): (u32, u32),
    ) -> u32 {
        let at: Each<usize> = std::array::from_fn(|lane| self.at(lane, lpn));
        let before = at.map(|at| last[at]);
        let mut covered = [0; LANES];
        let mut unsure = 0;
        let mut missed = 0;
        let mut places = [0; LANES];
        for lane in 0..LANES {
            let since = self.since[lane];
            let held = all_or_none(before[lane] >= since);
            let from = origins[lane].wrapping_sub(1);
            let reached = all_or_none(lpn.wrapping_sub(from) <= self.reach[lane])
                & all_or_none(origins[lane] != 0)
                & !self.is_block[lane];
            covered[lane] = held & (self.is_block[lane] | reached);
            unsure |= reached & !held & 1 << lane;
            missed |= !held & self.is_bounded[lane] & 1 << lane;
            // What left has no place any more: the one before all others stands for it.
            let latest = if before[lane] >= since { before[lane] } else { since - 1 };
            places[lane] = latest.wrapping_sub(base) & self.is_bounded[lane];
        }
        // Where an access is reached from an origin, but in a block that is not there, that of the origin may be.
        while unsure != 0 {
            let lane = unsure.trailing_zeros() as usize % LANES;
            covered[lane] = all_or_none(last[self.at(lane, origins[lane] - 1)] >= self.since[lane]);
            unsure &= unsure - 1;
        }
        for lane in 0..LANES {
            origins[lane] = origins[lane] & covered[lane] | (lpn + 1) & !covered[lane];
            scores[lane] = scores[lane] * weight + f64::from((covered[lane] & 1).cast_signed());
        }
        for lane in 0..LANES {
            last[at[lane]] = now;
            if let Some(word) = is_last.get_mut(self.words[lane] + places[lane] as usize / 64) {
                *word &= !(1 << (places[lane] % 64));
            }
        }
        missed
    }

    /// A block came to a window that has not room for all.
    #[inline(always)]
    fn make_room(&mut self, lane: usize, base: u32, is_last: &[u64]) {
        if self.room[lane] > 0 {
            self.room[lane] -= 1;
            return;
        }
        // The least recent block leaves. There is one, since there is no room.
        let words = &is_last[self.words[lane]..];
        if let Some(place) = first_set_from(words, (self.since[lane] - base) as usize) {
            self.since[lane] = base + place as u32 + 1;
        }
    }
}

#[inline(always)]
fn all_or_none(is_so: bool) -> u32 {
    u32::from(is_so).wrapping_neg()
}

/// Windows whose blocks share lines.
#[derive(Debug, Default)]
struct Lines {
    /// Base-2 logarithm of the entries of a line.
    shift: u32,
    /// The windows, each with the place in a line where its blocks begin.
    windows: Vec<(usize, usize)>,
}

impl Lines {
    /// Blocks of the windows in a line.
    fn places(&self, shifts: &[u32], shift: u32) -> usize {
        self.windows.iter().map(|(window, _)| 1_usize << (shift - shifts[*window])).sum()
    }
}

/// Windows by the base-2 logarithms of the entries of their blocks, the smallest first, as many together as a line has
/// places for.
fn lines(shifts: &[u32]) -> Vec<Lines> {
    let mut order: Vec<usize> = (0..shifts.len()).collect();
    order.sort_by_key(|window| shifts[*window]);
    let mut all: Vec<Lines> = Vec::new();
    for window in order {
        let shift = shifts[window];
        match all.last_mut().filter(|last| last.places(shifts, shift) < LINE) {
            Some(last) => {
                last.shift = shift;
                last.windows.push((window, 0));
            }
            None => all.push(Lines { shift, windows: vec![(window, 0)] }),
        }
    }
    for lines in &mut all {
        // Several of the largest block, where there is room.
        lines.shift += (LINE / lines.places(shifts, lines.shift)).ilog2();
        let mut next = 0;
        for (window, first) in &mut lines.windows {
            *first = next;
            next += 1 << (lines.shift - shifts[*window]);
        }
    }
    all
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct OwnOrigin {
    weight: f64,
    /// Logical units of the drive.
    units: u32,
    /// How many windows there are.
    count: usize,
    lanes: Vec<Lanes>,
    scores: Vec<Each<f64>>,
    /// For each translation page, for each window, the logical unit plus 1 whose miss would have fetched last, or 0.
    origins: Vec<Each<u32>>,
    /// For each block of each window, the time of its last access, or 0: line by line.
    last: Vec<u32>,
    /// Of lines of the same windows, the base-2 logarithm of their entries, and the first of them in `last`.
    lines: Vec<(u32, usize)>,
    /// The accesses after the time `base`, in order. Empty where all windows have room for all blocks.
    log: Vec<u32>,
    /// For each window that has not, for each place in the log, whether it is the last access to its block. Places that
    /// were not written yet say yes. Nobody asks the last of them, which is for all other windows.
    is_last: Vec<u64>,
    base: u32,
    /// The time of the latest access.
    now: u32,
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

    /// Blocks of the drive, by the base-2 logarithm of their entries.
    fn blocks(shift: u32, layout: TranslationLayout) -> usize {
        ((layout.logical_units - 1) >> shift) as usize + 1
    }

    /// Of all lines, of what lies before the first and of lanes without a window.
    fn times(lines: &[Lines], layout: TranslationLayout) -> usize {
        let lines: usize = lines.iter().map(|lines| Self::blocks(lines.shift, layout)).sum();
        (LINE - 1) + lines * LINE + UNUSED
    }

    /// For each window, the blocks that it may keep. Scores are multiplied by `weight` at each access.
    pub(super) fn new(windows: &[(Window, u32)], weight: f64, layout: TranslationLayout) -> Self {
        let shifts: Vec<u32> = windows.iter().map(|(window, _)| Self::shift(*window, layout)).collect();
        let is_bounded = |at: usize| (windows[at].1 as usize) < Self::blocks(shifts[at], layout);
        let bounded = (0..windows.len()).filter(|at| is_bounded(*at));
        let held: usize = bounded.clone().map(|at| windows[at].1 as usize).sum();
        let words_each = if held > 0 { (PLACES_PER_BLOCK * held).div_ceil(64) + 1 } else { 0 };
        let groups = lines(&shifts);
        let last = vec![0; Self::times(&groups, layout)];
        let no_words = bounded.count() * words_each;
        let none = Lanes {
            shift: [31; LANES],
            line_shift: [31; LANES],
            in_line: [0; LANES],
            first: [last.len() - UNUSED; LANES],
            is_block: [u32::MAX; LANES],
            reach: [0; LANES],
            since: [u32::MAX; LANES],
            room: [u32::MAX; LANES],
            is_bounded: [0; LANES],
            words: [no_words; LANES],
        };
        let mut all = vec![none; windows.len().div_ceil(LANES)];
        let mut next_words = 0;
        for (at, (window, held)) in windows.iter().enumerate() {
            let (lanes, lane) = (&mut all[at / LANES], at % LANES);
            (lanes.shift[lane], lanes.since[lane]) = (shifts[at], 1);
            if let Window::Forward(more) = window {
                (lanes.is_block[lane], lanes.reach[lane]) = (0, *more);
            }
            if is_bounded(at) {
                lanes.is_bounded[lane] = u32::MAX;
                (lanes.room[lane], lanes.words[lane]) = ((*held).max(1), next_words);
                next_words += words_each;
            }
        }
        // Lines begin where those of the processor do.
        let mut first = last.as_ptr().align_offset(64).min(LINE - 1);
        let mut lines = Vec::new();
        for Lines { shift, windows } in &groups {
            lines.push((*shift, first));
            for (at, in_line) in windows {
                let (lanes, lane) = (&mut all[at / LANES], at % LANES);
                (lanes.line_shift[lane], lanes.first[lane]) = (*shift, first + in_line);
                lanes.in_line[lane] = (1 << (shift - shifts[*at])) - 1;
            }
            first += Self::blocks(*shift, layout) * LINE;
        }
        Self {
            weight,
            units: layout.logical_units,
            count: windows.len(),
            origins: vec![[0; LANES]; layout.pages() as usize * all.len()],
            scores: vec![[0.0; LANES]; all.len()],
            lanes: all,
            last,
            lines,
            log: vec![0; words_each * 64],
            is_last: vec![u64::MAX; no_words + words_each],
            base: 0,
            // Where there is no log, all times are the same.
            now: u32::from(held == 0),
            kept: vec![0; words_each],
            new_is_last: vec![0; words_each],
        }
    }

    /// Bytes of all this at most: for each byte of memory that runs may take in it 1/`ENTRY_BYTES` of the first number, and the second.
    pub(super) fn bytes_at_most(windows: &[Window], layout: TranslationLayout) -> (u64, u64) {
        let count = windows.len() as u64;
        let place_bits = 32 + count + 3;
        let block = |window: Window| u64::from((window.bytes(layout) - ENTRY_BYTES).max(ENTRY_BYTES));
        let per_block = (PLACES_PER_BLOCK as u64 * place_bits).div_ceil(8);
        let per_entry = |window: &Window| per_block * u64::from(ENTRY_BYTES) / block(*window) + 1;
        let shifts: Vec<u32> = windows.iter().map(|window| Self::shift(*window, layout)).collect();
        let times = Self::times(&lines(&shifts), layout) as u64;
        let lanes = count.next_multiple_of(LANES as u64);
        let more = 4 * (times + lanes * u64::from(layout.pages())) + place_bits * 16 + 64 * lanes;
        (windows.iter().map(per_entry).sum(), more)
    }

    /// Ask the processor for what an access to `lpn`, of the translation page `tpn`, changes.
    #[inline]
    pub(super) fn look_ahead(&self, lpn: Lpn, tpn: u32) {
        table::prefetch(&self.origins, tpn as usize * self.lanes.len());
        for (shift, first) in &self.lines {
            table::prefetch(&self.last, first + (lpn.0 >> shift) as usize * LINE);
        }
    }

    /// An access to `lpn`, of the translation page `tpn`: a point for each window that would have it in memory. All windows
    /// have it then.
    #[inline]
    pub(super) fn access(&mut self, lpn: Lpn, tpn: u32) {
        self.enter(lpn);
        let origins = &mut self.origins[tpn as usize * self.lanes.len()..][..self.lanes.len()];
        for ((lanes, origins), scores) in self.lanes.iter_mut().zip(origins).zip(&mut self.scores) {
            let tables = (&mut self.last[..], &mut self.is_last[..]);
            let scores = (scores, self.weight);
            let mut missed = lanes.access(lpn.0, origins, scores, tables, (self.base, self.now));
            while missed != 0 {
                lanes.make_room(missed.trailing_zeros() as usize % LANES, self.base, &self.is_last);
                missed &= missed - 1;
            }
        }
    }

    /// The scores of all windows.
    #[inline]
    pub(super) fn scores(&self) -> &[f64] {
        &self.scores.as_flattened()[..self.count]
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
        for at in 0..self.count {
            let (lanes, lane) = (&self.lanes[at / LANES], at % LANES);
            if lanes.is_bounded[lane] == 0 {
                continue;
            }
            let words = &mut self.is_last[lanes.words[lane]..][..words_each];
            let first = (lanes.since[lane] - base) as usize;
            words[..first / 64].fill(0);
            words[first / 64] &= u64::MAX << (first % 64);
            self.kept.iter_mut().zip(words).for_each(|(kept, word)| *kept |= *word);
        }
        let all: u32 = self.kept.iter().map(|word| word.count_ones()).sum();
        // Place 0 stays without an access.
        self.base = self.now - all;
        for at in 0..self.count {
            let (lanes, lane) = (&mut self.lanes[at / LANES], at % LANES);
            if lanes.is_bounded[lane] == 0 {
                continue;
            }
            let words = &mut self.is_last[lanes.words[lane]..][..words_each];
            self.new_is_last.fill(0);
            let mut before = 1;
            for (at, kept) in self.kept.iter().enumerate() {
                let mut word = words[at];
                while word != 0 {
                    let bit = word.trailing_zeros();
                    let place = before + (kept & ((1 << bit) - 1)).count_ones();
                    self.new_is_last[place as usize / 64] |= 1 << (place % 64);
                    let lpn = self.log[at * 64 + bit as usize];
                    self.last[lanes.at(lane, lpn)] = self.base + place;
                    word &= word - 1;
                }
                before += kept.count_ones();
            }
            lanes.since[lane] = lanes.since[lane].max(self.base + 1);
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
        for at in 0..self.count {
            let (lanes, lane) = (&mut self.lanes[at / LANES], at % LANES);
            let since = lanes.since[lane];
            for lpn in (0..self.units).step_by(1 << lanes.shift[lane]) {
                let last = &mut self.last[lanes.at(lane, lpn)];
                // Where there is room for all, any time will do.
                *last = if *last >= since { last.saturating_sub(base).max(1) } else { 0 };
            }
            lanes.since[lane] = since.saturating_sub(base).max(1);
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
            for _ in 0..rng.below(18) {
                windows.push(Window::Forward(rng.below(70) as u32));
            }
            let windows: Vec<(Window, u32)> =
                windows.into_iter().map(|window| (window, 1 + rng.below(most) as u32)).collect();
            let weight = 0.99;
            let mut all = OwnOrigin::new(&windows, weight, LAYOUT);
            // Soon times are too large.
            if !all.log.is_empty() && seed % 3 == 0 {
                (all.base, all.now) = (LATEST - 700, LATEST - 700);
                for at in 0..all.count {
                    all.lanes[at / LANES].since[at % LANES] = all.base + 1;
                }
            }
            let naive = |&(window, held): &(Window, u32)| Naive {
                window,
                held: held as usize,
                blocks: Vec::new(),
                origins: vec![None; LAYOUT.pages() as usize],
            };
            let mut naive: Vec<Naive> = windows.iter().map(naive).collect();
            let mut scores = vec![0.0; windows.len()];
            let mut lpn = 0;
            for at in 0..4000 {
                lpn = match rng.below(4) {
                    0 => rng.below(4000) as u32,
                    1 => rng.below(40) as u32,
                    2 => lpn,
                    _ => (lpn + 1) % 4000,
                };
                all.access(Lpn(lpn), lpn >> LAYOUT.shift);
                for (score, naive) in scores.iter_mut().zip(&mut naive) {
                    *score = *score * weight + f64::from(u8::from(naive.access(lpn)));
                }
                assert_eq!(all.scores(), scores, "seed {seed}, access {at}: {windows:?}");
            }
            assert!(all.now < LATEST);
        }
    }
}
