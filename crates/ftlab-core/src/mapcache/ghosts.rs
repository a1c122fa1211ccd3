//! Windows chosen by ghosts: for each window a cache without entries, which tells what its misses would have cost.
//!
//! The score board counts hits. But a miss that fetches a whole page costs more than one that fetches an entry, and
//! writing back costs much more than both. A ghost is billed for all of that. It sees a sample of the table, so that all
//! ghosts together take a few percent of the memory; that is taken from the entries.
//!
//! A fetch is billed when it happens. Of a write-back, two fifths are billed when the run turns dirty. Billed only when
//! it leaves, a ghost that is still filling would look free; billed only when it turns dirty, one that never evicts
//! would look dear.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::geometry::Lpn;
use crate::mapcache::cache::{CacheReport, Lookup, MapCache, MapOp};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::places::Places;
use crate::mapcache::prices::Prices;
use crate::mapcache::runs::{Runs, Window, half, header_bytes};
use crate::mapcache::scheme::{MapCacheScheme, PageSizes, TableBytes};
use crate::mapcache::windows::{CandidateWindow, check_candidates};
use crate::quantity;
use crate::recency::{Links, List, NONE};
use crate::scheme::{Contrast, Scheme};
use crate::table;

/// What a ghost takes for a run in a drive: first entry 4, length 2, flags 2, neighbours 2 each.
const RUN_BYTES: u64 = 12;
/// A ghost is thinned out while it takes more than one part in so many of the memory.
const SHARE: u64 = 50;
/// But not below so many bytes of entries, in which too few runs would speak for all.
const LEAST_GHOST_BYTES: u64 = 512;
/// Units that are sampled together, as a base-2 logarithm.
const GROUP_SHIFT: u32 = 8;
/// Levels of a group: with each, half of the groups are left.
const LEVELS: usize = 10;
/// The least of what is added to every bill that is compared, in nanoseconds: for drives on which nothing takes time.
const LEAST_PRIOR_NS: f64 = 1.0;
/// Estimates that differ by less are of equal sums, rounded in another order: the smaller window is taken.
const EQUAL: f64 = 1e-9;
/// The share of a write-back that is billed when a run turns dirty; the rest when it leaves.
const BILLED_EARLY: f64 = 0.4;
/// The window to begin with is the smallest with so many bytes, or the largest.
const FIRST_BYTES: u32 = 260;
const MOST_CANDIDATES: usize = 16;

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GhostsKeys {
    /// The windows to choose from.
    ///
    /// Default: fewer than the eight of the paper, as each ghost takes memory and neighbours cost about the same.
    pub candidates: Vec<CandidateWindow>,
    /// Whether the ghosts of small windows see only a sample of the table, which takes less memory.
    ///
    /// Default: on: all ghosts together then take about 5 % of the memory.
    pub sampling: bool,
    /// Whether what the ghosts take is taken from the entries.
    ///
    /// Default: on, since a drive has no other memory for them.
    pub charge_ghosts: bool,
    /// Accesses from one choice of a window to the next.
    ///
    /// Default: ours: rare enough to cost nothing, and often enough to follow phases of a workload.
    pub interval: u32,
    /// By which part another window must be cheaper to be chosen.
    ///
    /// Default: ours, so that windows do not change for gains that a sample cannot tell from chance.
    #[serde(deserialize_with = "quantity::share")]
    pub hysteresis: f64,
    /// What the bills of the ghosts are multiplied by after each choice; 1 never forgets.
    ///
    /// Default: ours: with an `interval` of 128, half is forgotten in some 18,000 accesses.
    #[serde(deserialize_with = "quantity::share")]
    pub decay: f64,
    /// Whether each run of entries takes 8 bytes more, for its place and state.
    ///
    /// Default: off, as the mapping-cache paper counts entries alone.
    pub charge_headers: bool,
}

impl Default for GhostsKeys {
    fn default() -> Self {
        use CandidateWindow::{Forward, Full, Half};
        Self {
            candidates: vec![Forward(16), Forward(64), Forward(256), Half, Full],
            sampling: true,
            charge_ghosts: true,
            interval: 128,
            hysteresis: 0.05,
            decay: 0.995,
            charge_headers: false,
        }
    }
}

impl GhostsKeys {
    fn header(&self) -> u32 {
        header_bytes(self.charge_headers)
    }

    /// How thin the ghost of a run of `run_bytes` is in a memory of `bytes`: it sees one group in two to this power.
    fn level(&self, run_bytes: u32, bytes: u64) -> u8 {
        let run = u64::from(run_bytes);
        let mut level = 0;
        while self.sampling
            && usize::from(level) < LEVELS - 1
            && SHARE * RUN_BYTES > run << level
            && bytes >> (level + 1) >= LEAST_GHOST_BYTES.max(2 * (run + u64::from(self.header())))
        {
            level += 1;
        }
        level
    }

    /// What all ghosts take of a memory of `bytes`. A single window has none: there is nothing to choose.
    fn ghost_bytes(&self, bytes: u64, layout: TranslationLayout) -> u64 {
        if self.candidates.len() < 2 || !self.charge_ghosts {
            return 0;
        }
        let each = self.candidates.iter().map(|candidate| {
            let run = candidate.window(false).bytes(layout);
            RUN_BYTES * (bytes >> self.level(run, bytes)).div_ceil(u64::from(run + self.header()))
        });
        each.sum()
    }

    /// What the largest fetch takes.
    fn largest_fetch(&self, layout: TranslationLayout) -> u64 {
        let bytes = self.candidates.iter().map(|candidate| match candidate {
            CandidateWindow::Request(_) => layout.page_bytes(),
            other => other.window(false).bytes(layout),
        });
        u64::from(bytes.max().unwrap_or(0) + self.header())
    }

    /// A memory of `from` bytes or more that leaves `need` beside the ghosts; `step` by `step`, the least such.
    fn memory_for(&self, need: u64, layout: TranslationLayout, (from, step): (u64, u64)) -> u64 {
        let mut bytes = need.max(from);
        if !self.sampling {
            // Without sampling most of it goes to the ghosts: no less can do.
            let share = self.whole_share(layout.page_bytes());
            bytes = bytes.max((need as f64 / (1.0 - share) * 0.999) as u64);
        }
        while bytes < need + self.ghost_bytes(bytes, layout) {
            bytes += step;
        }
        bytes
    }

    /// Of any memory, the part that the ghosts take without sampling, in pages of `page_bytes`.
    fn whole_share(&self, page_bytes: u32) -> f64 {
        if self.candidates.len() < 2 || !self.charge_ghosts {
            return 0.0;
        }
        let each = self.candidates.iter().map(|candidate| {
            let run = candidate.window(false).bytes_of(page_bytes) + self.header();
            RUN_BYTES as f64 / f64::from(run)
        });
        each.sum()
    }
}

impl Scheme for Ghosts {
    const SUMMARY: &'static str =
        "Chooses the prefetch window whose ghost, a sampled cache without entries, has the least penalty.";
    const SOURCE: &'static str = "of this project; sampling as in SHARDS, FAST 2015";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast {
            key: "candidates",
            value: "[\"tafp_16\", \"half_page\"]",
            with: &["map_cache.bytes=16384"],
        },
        Contrast {
            key: "sampling",
            value: "false",
            with: &["map_cache.bytes=16384", "map_cache.candidates=[\"tafp_64\", \"full_page\"]"],
        },
        Contrast { key: "charge_ghosts", value: "false", with: &["map_cache.bytes=16384"] },
        Contrast { key: "interval", value: "32", with: &["map_cache.bytes=16384"] },
        Contrast { key: "hysteresis", value: "0.9", with: &["map_cache.bytes=16384"] },
        Contrast { key: "decay", value: "0.2", with: &["map_cache.bytes=16384"] },
        Contrast { key: "charge_headers", value: "true", with: &["map_cache.bytes=16384"] },
    ];
    type Keys = GhostsKeys;
}

/// A run of a ghost.
#[derive(Debug, Clone, Copy)]
struct GhostRun {
    low: u32,
    high: u32,
    dirty: bool,
}

impl GhostRun {
    const fn entries(&self) -> u32 {
        self.high - self.low + 1
    }
}

/// Nanoseconds of what an access takes.
#[derive(Debug, Clone, Copy, Default)]
struct Bill {
    /// With write-backs in two parts.
    spread: f64,
    /// With write-backs when they happen.
    paid: f64,
}

/// Sums for each level of a group.
#[derive(Debug, Clone, Copy, Default)]
struct ByLevel([f64; LEVELS]);

impl ByLevel {
    /// Over groups of at least this level.
    fn from(&self, level: u8) -> f64 {
        self.0[usize::from(level)..].iter().sum()
    }
}

/// What steps take, in nanoseconds, by the number of entries.
#[derive(Debug, Clone)]
struct Costs {
    fetch: Vec<f64>,
    /// Of a part of a translation page; of a whole one, the last.
    write_back: Vec<f64>,
}

impl Costs {
    fn new(prices: Prices, layout: TranslationLayout) -> Self {
        let bytes = (0..=layout.entries()).map(|entries| entries * ENTRY_BYTES);
        let program = prices.program(layout.page_bytes());
        let write_back = |bytes: u32| match layout.page_bytes() - bytes {
            0 => ns(program),
            rest => ns(program + prices.read(rest)),
        };
        Self {
            fetch: bytes.clone().map(|bytes| ns(prices.read(bytes))).collect(),
            write_back: bytes.map(write_back).collect(),
        }
    }

    /// What writing a run back takes.
    #[inline]
    fn of_writing(&self, run: GhostRun, layout: TranslationLayout) -> f64 {
        let tpn = layout.tpn(Lpn(run.low));
        // The last page may have fewer entries.
        let whole = (run.low == layout.first(tpn).0) & (run.high == layout.last(tpn).0);
        self.write_back[if whole { layout.entries() } else { run.entries() } as usize]
    }
}

/// Where the runs of a ghost are found.
#[derive(Debug, Clone)]
enum Index {
    /// Those that begin anywhere: a bit for each logical unit with which a run begins, and the runs by that unit.
    Starts { starts: Vec<u64>, places: Places },
    /// Whole pages or halves: the run of each that has so many units, as a base-2 logarithm; or `NONE`.
    Parts { shift: u32, runs: Vec<u32> },
}

impl Index {
    /// Nothing yet. `most`: so many runs at most, where none is cut.
    fn new(window: Window, most: u64, layout: TranslationLayout) -> Self {
        let parts = |shift: u32| Self::Parts {
            shift,
            runs: vec![NONE; layout.logical_units.div_ceil(1 << shift) as usize],
        };
        match window {
            Window::Forward(_) => Self::Starts {
                starts: vec![0; (layout.logical_units as usize).div_ceil(64)],
                places: Places::new(most.min(layout.logical_units.into())),
            },
            Window::Half => parts(layout.shift - 1),
            Window::Full => parts(layout.shift),
        }
    }

    /// The run that has `lpn`, or `NONE`. None begins before `from`.
    #[inline]
    fn find(&self, lpn: u32, from: u32, runs: &[GhostRun]) -> u32 {
        match self {
            Self::Starts { starts, places } => {
                let Some(low) = last_start(starts, from, lpn) else { return NONE };
                let run = places.find(low, |run| runs[run as usize].low);
                if runs[run as usize].high >= lpn { run } else { NONE }
            }
            Self::Parts { shift, runs } => runs[(lpn >> shift) as usize],
        }
    }

    /// The last unit from `from` to `high` that is in front of all runs that begin later than `from`.
    #[inline]
    fn free_from(&self, from: u32, high: u32) -> u32 {
        match self {
            Self::Starts { starts, .. } => first_start(starts, from + 1, high).map_or(high, |next| next - 1),
            Self::Parts { .. } => high,
        }
    }

    #[inline]
    fn enter(&mut self, run: u32, runs: &[GhostRun]) {
        let low = runs[run as usize].low;
        match self {
            Self::Starts { starts, places } => {
                starts[low as usize / 64] ^= 1 << (low % 64);
                places.enter(run, |run| runs[run as usize].low);
            }
            Self::Parts { shift, runs } => runs[(low >> *shift) as usize] = run,
        }
    }

    #[inline]
    fn leave(&mut self, run: u32, low: u32) {
        match self {
            Self::Starts { starts, places } => {
                starts[low as usize / 64] ^= 1 << (low % 64);
                places.leave(run, low);
            }
            Self::Parts { shift, runs } => runs[(low >> *shift) as usize] = NONE,
        }
    }

    /// `lpn` will be looked up: ask the processor for what that touches. A table of parts is small.
    #[inline]
    fn look_ahead(&self, lpn: Lpn) {
        if let Self::Starts { starts, .. } = self {
            table::prefetch(starts, lpn.index() / 64);
        }
    }

    /// A run that begins with `low` will leave: ask the processor for what that touches.
    #[inline]
    fn look_at_victim(&self, low: u32) {
        if let Self::Starts { starts, places } = self {
            table::prefetch(starts, low as usize / 64);
            places.prefetch(low);
        }
    }

    /// How many runs it has.
    fn len(&self) -> usize {
        match self {
            Self::Starts { places, .. } => places.len(),
            Self::Parts { runs, .. } => runs.iter().filter(|run| **run != NONE).count(),
        }
    }

    fn table_bytes(&self) -> u64 {
        match self {
            Self::Starts { starts, places } => starts.capacity() as u64 * 8 + places.table_bytes(),
            Self::Parts { runs, .. } => runs.capacity() as u64 * 4,
        }
    }
}

/// The first unit from `from` to `to` that has a bit.
#[inline]
fn first_start(starts: &[u64], from: u32, to: u32) -> Option<u32> {
    if from > to {
        return None;
    }
    let mut at = from as usize / 64;
    let mut word = starts[at] & u64::MAX << (from % 64);
    while word == 0 {
        at += 1;
        if at > to as usize / 64 {
            return None;
        }
        word = starts[at];
    }
    let found = at as u32 * 64 + word.trailing_zeros();
    (found <= to).then_some(found)
}

/// The last one.
#[inline]
fn last_start(starts: &[u64], from: u32, to: u32) -> Option<u32> {
    let mut at = to as usize / 64;
    let mut word = starts[at] & u64::MAX >> (63 - to % 64);
    while word == 0 {
        if at == from as usize / 64 {
            return None;
        }
        at -= 1;
        word = starts[at];
    }
    let found = at as u32 * 64 + 63 - word.leading_zeros();
    (found >= from).then_some(found)
}

/// A cache of one window, without entries.
#[derive(Debug, Clone)]
struct Ghost {
    window: Window,
    /// Entries of its longest run.
    longest: u32,
    /// It sees groups of at least this level.
    level: u8,
    capacity: u64,
    used: u64,
    header: u32,
    runs: Vec<GhostRun>,
    unused: Vec<u32>,
    links: Links,
    order: List,
    index: Index,
    /// Bills since the start, which are forgotten in time.
    bills: ByLevel,
    /// What it would have paid since the last reset.
    paid: ByLevel,
}

impl Ghost {
    fn new(candidate: CandidateWindow, keys: &GhostsKeys, bytes: u64, layout: TranslationLayout) -> Self {
        let window = candidate.window(false);
        let level = keys.level(window.bytes(layout), bytes);
        let capacity = bytes >> level;
        let entries = window.bytes(layout) / ENTRY_BYTES;
        let longest = match candidate {
            // A request may be longer than a ghost that sees little: half of it is for others.
            CandidateWindow::Request(_) => {
                let most = if level == 0 { capacity } else { capacity / 2 };
                let most = most.saturating_sub(keys.header().into()) / u64::from(ENTRY_BYTES);
                most.clamp(entries.into(), layout.entries().max(entries).into()) as u32
            }
            _ => entries,
        };
        let most = capacity / u64::from(window.bytes(layout) + keys.header());
        Self {
            window,
            longest,
            level,
            capacity,
            used: 0,
            header: keys.header(),
            runs: Vec::new(),
            unused: Vec::new(),
            links: Links::default(),
            order: List::new(),
            index: Index::new(window, most, layout),
            bills: ByLevel::default(),
            paid: ByLevel::default(),
        }
    }

    /// The run that has `lpn`, or `NONE`.
    #[inline]
    fn find(&self, lpn: u32, first: u32) -> u32 {
        let newest = self.order.newest;
        if newest != NONE {
            let run = self.runs[newest as usize];
            if lpn.wrapping_sub(run.low) < run.entries() {
                return newest;
            }
        }
        self.index.find(lpn, first.max(lpn.saturating_sub(self.longest - 1)), &self.runs)
    }

    /// Look up as the cache would; what that takes, where it takes anything.
    #[inline]
    fn access(&mut self, lookup: Lookup, layout: TranslationLayout, costs: &Costs) -> Option<Bill> {
        let lpn = lookup.lpn;
        let tpn = layout.tpn(lpn);
        let first = layout.first(tpn).0;
        let aligned = match self.window {
            Window::Half => first + half(layout, lpn) * (layout.entries() / 2),
            _ => first,
        };
        let run = self.find(lpn.0, first);
        if run == NONE {
            return Some(self.fetch(lookup, aligned, layout, costs));
        }
        self.order.touch(&mut self.links, run);
        let hit = &mut self.runs[run as usize];
        if !lookup.changes() || hit.dirty {
            return None;
        }
        hit.dirty = true;
        Some(Bill { spread: BILLED_EARLY * costs.of_writing(*hit, layout), paid: 0.0 })
    }

    fn fetch(&mut self, lookup: Lookup, aligned: u32, layout: TranslationLayout, costs: &Costs) -> Bill {
        let lpn = lookup.lpn.0;
        let last = layout.last(layout.tpn(lookup.lpn)).0;
        let (low, high) = match self.window {
            Window::Forward(more) => {
                // Of other windows no run is longer than the window.
                // A window may reach further than a page.
                let most = self.longest - 1;
                let reach = lookup.rest.clamp(more.min(most), most);
                let high = lpn.saturating_add(reach).min(last);
                (lpn, self.index.free_from(lpn, high))
            }
            Window::Half | Window::Full => {
                (aligned, (aligned + (self.window.bytes(layout) / ENTRY_BYTES - 1)).min(last))
            }
        };
        let mut bill = Bill::default();
        let run = GhostRun { low, high, dirty: lookup.changes() };
        let need = self.bytes(run);
        // Whether a run has changed cannot be guessed: what it would cost is reckoned either way.
        let of_changed = |run: GhostRun| f64::from(u8::from(run.dirty)) * costs.of_writing(run, layout);
        while self.used + need > self.capacity && self.order.oldest != NONE {
            let price = of_changed(self.drop_oldest());
            bill.spread += (1.0 - BILLED_EARLY) * price;
            bill.paid += price;
        }
        let fetch = costs.fetch[run.entries() as usize];
        bill.spread += fetch;
        bill.paid += fetch;
        bill.spread += BILLED_EARLY * of_changed(run);
        self.enter(run);
        bill
    }

    fn enter(&mut self, run: GhostRun) {
        let node = self.unused.pop().unwrap_or(self.runs.len() as u32);
        if node as usize == self.runs.len() {
            self.runs.push(run);
            self.links.reach(node);
        } else {
            self.runs[node as usize] = run;
        }
        self.used += self.bytes(run);
        self.index.enter(node, &self.runs);
        self.order.enter(&mut self.links, node);
    }

    #[inline]
    fn drop_oldest(&mut self) -> GhostRun {
        let node = self.order.oldest;
        let run = self.runs[node as usize];
        self.used -= self.bytes(run);
        self.index.leave(node, run.low);
        self.order.remove(&mut self.links, node);
        self.unused.push(node);
        self.look_at_victims();
        run
    }

    /// The oldest run leaves next, and the one before it then: ask the processor for what that touches.
    #[inline]
    fn look_at_victims(&self) {
        let [run, next] = self.order.least_recent(&self.links);
        if next != NONE {
            let low = self.runs[run as usize].low;
            self.index.look_at_victim(low);
            table::prefetch(&self.runs, next as usize);
            self.links.prefetch(next);
        }
    }

    /// What a run takes of its memory.
    #[inline]
    fn bytes(&self, run: GhostRun) -> u64 {
        (run.entries() * ENTRY_BYTES + self.header).into()
    }

    /// No entry is in two runs, each run is found, and the bytes in use are those of the runs.
    fn check(&self) -> Result<(), String> {
        let mut runs: Vec<GhostRun> =
            self.order.iter(&self.links).map(|node| self.runs[node as usize]).collect();
        runs.sort_unstable_by_key(|run| run.low);
        if let Some(pair) = runs.windows(2).find(|pair| pair[0].high >= pair[1].low) {
            return Err(format!("the ghost has logical unit {} in two runs", pair[1].low));
        }
        let lost = |run: &&GhostRun| {
            let found = self.index.find(run.low, run.low, &self.runs);
            found == NONE
                || (self.runs[found as usize].low, self.runs[found as usize].high) != (run.low, run.high)
        };
        if let Some(run) = runs.iter().find(lost) {
            return Err(format!("the ghost does not find its run from logical unit {}", run.low));
        }
        let used: u64 = runs.iter().map(|run| self.bytes(*run)).sum();
        if used != self.used || used > self.capacity || self.index.len() != runs.len() {
            return Err(format!("the ghost counts {} bytes of {used}, {} at most", self.used, self.capacity));
        }
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        self.links.table_bytes()
            + (self.runs.capacity() * size_of::<GhostRun>()) as u64
            + self.index.table_bytes()
            + self.unused.capacity() as u64 * 4
    }
}

fn ns(ps: u64) -> f64 {
    ps as f64 / 1000.0
}

#[derive(Debug, Clone)]
struct Candidate {
    name: String,
    window: Window,
    /// Whether it reaches at least to the end of the host request.
    by_request: bool,
    bytes: u32,
    chosen: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Ghosts {
    runs: Runs,
    prices: Prices,
    costs: Costs,
    /// From the smallest window to the largest.
    candidates: Vec<Candidate>,
    /// For each; none where there is only one.
    ghosts: Vec<Ghost>,
    /// What they take of the memory.
    ghost_bytes: u64,
    interval: u32,
    until_choice: u32,
    /// What part of the estimate of the current window another one must be below.
    below: f64,
    decay: f64,
    choice: usize,
    /// Since the last reset: accesses by the level of their group, and nanoseconds that misses took.
    seen: [u64; LEVELS],
    paid: f64,
}

/// Estimates for all windows, from the smallest, in the terms of the largest: neighbours are compared by what both have seen.
/// `sums[i]` are of a ghost that sees groups from `levels[i]` on.
fn chain(sums: &[(u8, ByLevel)], largest: f64, prior: f64) -> Vec<f64> {
    let mut estimates = vec![largest + prior; sums.len()];
    for at in (0..sums.len().saturating_sub(1)).rev() {
        let ((level, own), (next_level, next)) = (&sums[at], &sums[at + 1]);
        let both = *level.max(next_level);
        estimates[at] = estimates[at + 1] * (own.from(both) + prior) / (next.from(both) + prior);
    }
    estimates
}

/// The level of the group that a logical unit is in: half of all groups have 0, a quarter 1, and so on.
#[inline]
fn level(lpn: Lpn) -> usize {
    let mut value = lpn.0 >> GROUP_SHIFT;
    value ^= value >> 16;
    value = value.wrapping_mul(0x7feb_352d);
    value ^= value >> 15;
    value = value.wrapping_mul(0x846c_a68b);
    value ^= value >> 16;
    (value.trailing_zeros() as usize).min(LEVELS - 1)
}

impl MapCacheScheme for Ghosts {
    const LEAST: &'static str = "one fetch beside the ghosts";

    fn new(keys: &GhostsKeys, bytes: u64, layout: TranslationLayout) -> Self {
        let mut windows = keys.candidates.clone();
        let rank = |window: CandidateWindow| match window {
            CandidateWindow::Forward(_) => 0,
            CandidateWindow::Request(_) => 1,
            CandidateWindow::Half => 2,
            CandidateWindow::Full => 3,
        };
        windows.sort_by_key(|window| (window.window(false).bytes(layout), rank(*window)));
        let candidate = |name: &CandidateWindow| {
            let window = name.window(false);
            Candidate {
                name: name.to_string(),
                window,
                by_request: matches!(name, CandidateWindow::Request(_)),
                bytes: window.bytes(layout),
                chosen: 0,
            }
        };
        let candidates: Vec<Candidate> = windows.iter().map(candidate).collect();
        let ghosts = if windows.len() > 1 { windows.as_slice() } else { &[] };
        let first = candidates.iter().position(|candidate| candidate.bytes >= FIRST_BYTES);
        let ghost_bytes = keys.ghost_bytes(bytes, layout);
        Self {
            runs: Runs::new(layout, bytes - ghost_bytes, keys.header(), false, Vec::new()),
            prices: Prices::NONE,
            costs: Costs::new(Prices::NONE, layout),
            ghosts: ghosts.iter().map(|window| Ghost::new(*window, keys, bytes, layout)).collect(),
            ghost_bytes,
            interval: keys.interval,
            until_choice: keys.interval,
            below: (1.0 - keys.hysteresis) * (1.0 - EQUAL),
            decay: keys.decay,
            choice: first.unwrap_or(candidates.len() - 1),
            candidates,
            seen: [0; LEVELS],
            paid: 0.0,
        }
    }

    fn check_keys(keys: &GhostsKeys, page: PageSizes) -> Result<(), ConfigError> {
        check_candidates(&keys.candidates, page)?;
        let count = keys.candidates.len();
        if count > MOST_CANDIDATES {
            let expected = format!("are too many: at most {MOST_CANDIDATES} windows have ghosts");
            return refuse("candidates", format!("{count} windows"), expected);
        }
        if keys.interval == 0 {
            return refuse("interval", 0, "must be at least 1");
        }
        if !(0.0..1.0).contains(&keys.hysteresis) {
            return refuse("hysteresis", keys.hysteresis, "must be at least 0 and below 1");
        }
        if !(0.0..=1.0).contains(&keys.decay) {
            return refuse("decay", keys.decay, "must be from 0 to 1");
        }
        let defaults = GhostsKeys::default();
        let same = |keys: &GhostsKeys| {
            (keys.sampling, keys.charge_ghosts, keys.interval)
                == (defaults.sampling, defaults.charge_ghosts, defaults.interval)
                && keys.hysteresis.to_bits() == defaults.hysteresis.to_bits()
                && keys.decay.to_bits() == defaults.decay.to_bits()
        };
        if count == 1 && !same(keys) {
            let expected =
                "has one window: sampling, charge_ghosts, interval, hysteresis and decay have no effect then";
            return refuse("candidates", format!("[\"{}\"]", keys.candidates[0]), expected);
        }
        if !keys.sampling && keys.whole_share(page.page_bytes as u32) > 0.99 {
            let expected = "leaves no memory beside the ghosts, however much there is: name larger windows, or charge_ghosts = false";
            return refuse("sampling", false, expected);
        }
        Ok(())
    }

    fn least_bytes(keys: &GhostsKeys, bytes: u64, layout: TranslationLayout) -> u64 {
        // Ghosts grow by whole runs: of two memories, the larger may leave less. So this begins at what is given.
        keys.memory_for(keys.largest_fetch(layout), layout, (bytes, 1))
    }

    fn whole_table_bytes(keys: &GhostsKeys, layout: TranslationLayout) -> u64 {
        keys.memory_for(Runs::whole_table_bytes(layout), layout, (0, ENTRY_BYTES.into()))
    }

    fn table_bytes_at_most(keys: &GhostsKeys, layout: TranslationLayout) -> TableBytes {
        let runs = Runs::table_bytes_at_most(Window::Forward(0), layout);
        let costs = 16 * u64::from(layout.entries() + 1);
        let (mut per_node, mut more) = (runs.per_node, runs.more + costs);
        for candidate in &keys.candidates {
            // A run of a ghost with its neighbours and its place; every run may have been cut down to one entry.
            const RUN: u64 = (size_of::<GhostRun>() + 8 + 4 + 16) as u64;
            let bytes = candidate.window(false).bytes(layout);
            // As thin as it gets where there is much memory; where there is little, it has few runs.
            let level = keys.level(bytes, 1 << 40);
            let (entries, few) = match candidate {
                CandidateWindow::Forward(_) | CandidateWindow::Request(_) => (1, u64::from(bytes).max(256)),
                _ => (u64::from(bytes / ENTRY_BYTES), 16),
            };
            per_node += (RUN >> level).div_ceil(entries);
            let units = u64::from(layout.logical_units);
            let index = match candidate {
                CandidateWindow::Forward(_) | CandidateWindow::Request(_) => units / 8,
                _ => 4 * units.div_ceil(entries),
            };
            more += index + RUN * few;
        }
        TableBytes { per_node, more, ..runs }
    }
}

impl Ghosts {
    /// Let every ghost that sees it look up, and bill it.
    #[inline]
    fn bill(&mut self, lookup: Lookup) {
        let level = level(lookup.lpn);
        self.seen[level] += 1;
        let layout = self.runs.layout;
        for ghost in &mut self.ghosts {
            if usize::from(ghost.level) <= level
                && let Some(bill) = ghost.access(lookup, layout, &self.costs)
            {
                ghost.bills.0[level] += bill.spread;
                ghost.paid.0[level] += bill.paid;
            }
        }
    }

    /// Added to every bill that is compared, in nanoseconds: a page is read and written back. Little evidence moves no ratio
    /// far, on a drive of any speed.
    fn prior(&self) -> f64 {
        let page = self.runs.layout.page_bytes();
        ns(self.prices.read(page) + self.prices.program(page)).max(LEAST_PRIOR_NS)
    }

    /// What each window would cost, by what the ghosts remember, in nanoseconds.
    fn estimates(&self) -> Vec<f64> {
        let sums: Vec<_> = self.ghosts.iter().map(|ghost| (ghost.level, ghost.bills)).collect();
        let largest = sums.last().map_or(0.0, |(level, bills)| bills.from(*level));
        chain(&sums, largest, self.prior())
    }

    fn choose(&mut self) {
        let estimates = self.estimates();
        let mut best = 0;
        for (at, estimate) in estimates.iter().enumerate() {
            if *estimate < estimates[best] * (1.0 - EQUAL) {
                best = at;
            }
        }
        if estimates[best] < self.below * estimates[self.choice] {
            self.choice = best;
        }
        for ghost in &mut self.ghosts {
            ghost.bills.0.iter_mut().for_each(|bill| *bill *= self.decay);
        }
    }

    /// By which part it has paid more since the last reset than the ghost that would have paid least.
    fn regret(&self) -> f64 {
        let sums: Vec<_> = self.ghosts.iter().map(|ghost| (ghost.level, ghost.paid)).collect();
        let seen = |level: u8| self.seen[usize::from(level)..].iter().sum::<u64>().max(1) as f64;
        let largest = sums.last().map_or(0.0, |(level, paid)| paid.from(*level) * seen(0) / seen(*level));
        let least = chain(&sums, largest, self.prior()).into_iter().fold(f64::INFINITY, f64::min);
        (self.paid + self.prior()) / least - 1.0
    }
}

impl MapCache for Ghosts {
    fn lookup(&mut self, lookup: Lookup, _: &[u32], ops: &mut Vec<MapOp>) -> bool {
        if !self.ghosts.is_empty() {
            self.bill(lookup);
        }
        let run = self.runs.find(lookup.lpn);
        let candidate = &mut self.candidates[self.choice];
        if run == NONE {
            candidate.chosen += 1;
            let window = match candidate.window {
                Window::Forward(more) if candidate.by_request => Window::Forward(more.max(lookup.rest)),
                window => window,
            };
            self.runs.fetch(lookup, window, ops);
            let entries = self.runs.layout.entries();
            for op in &*ops {
                self.paid += match *op {
                    MapOp::Fetch { bytes, .. } => self.costs.fetch[(bytes / ENTRY_BYTES) as usize],
                    MapOp::WriteBack { rest_bytes, .. } => {
                        self.costs.write_back[(entries - rest_bytes / ENTRY_BYTES) as usize]
                    }
                    MapOp::Probe { .. } => 0.0,
                };
            }
        } else {
            let request = lookup.rest.saturating_add(1).saturating_mul(ENTRY_BYTES);
            let most = candidate.bytes.max(request).saturating_mul(2);
            if self.runs.run(run).bytes() > most {
                // A run of a window that was given up ages, however often it is used.
                self.runs.hit_in_place(run, lookup.changes());
            } else {
                self.runs.hit(run, lookup.changes());
            }
        }
        self.until_choice -= 1;
        if self.until_choice == 0 {
            self.until_choice = self.interval;
            if !self.ghosts.is_empty() {
                self.choose();
            }
        }
        run != NONE
    }

    fn look_ahead(&self, lpn: Lpn, stage: u32) {
        if stage == 0 {
            let level = level(lpn);
            for ghost in self.ghosts.iter().filter(|ghost| usize::from(ghost.level) <= level) {
                ghost.index.look_ahead(lpn);
            }
        }
        self.runs.look_ahead(lpn, stage);
    }

    fn set_prices(&mut self, prices: Prices) {
        self.prices = prices;
        self.costs = Costs::new(prices, self.runs.layout);
    }

    fn moved(&mut self, lpn: Lpn, _: &[u32]) -> bool {
        self.runs.change(lpn)
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        self.runs.is_dirty(lpn)
    }

    fn used_bytes(&self) -> u64 {
        self.runs.used_bytes() + self.ghost_bytes
    }

    fn reset_counts(&mut self) {
        for candidate in &mut self.candidates {
            candidate.chosen = 0;
        }
        for ghost in &mut self.ghosts {
            ghost.paid = ByLevel::default();
        }
        self.seen = [0; LEVELS];
        self.paid = 0.0;
    }

    fn report(&self) -> CacheReport {
        let windows = self.candidates.iter().map(|candidate| (candidate.name.clone(), candidate.chosen));
        let mut report = CacheReport { windows: windows.collect(), ..self.runs.report() };
        if !self.ghosts.is_empty() {
            let names = self.candidates.iter().map(|candidate| candidate.name.clone());
            report.scores = names.zip(self.estimates()).collect();
            report.scores.push(("regret".into(), self.regret()));
        }
        if self.ghost_bytes > 0 {
            report.content_bytes.push(("ghosts".into(), self.ghost_bytes));
        }
        report
    }

    fn check(&self) -> Result<(), String> {
        self.runs.check()?;
        self.ghosts.iter().try_for_each(Ghost::check)
    }

    fn table_bytes(&self) -> u64 {
        let costs = (self.costs.fetch.capacity() + self.costs.write_back.capacity()) as u64 * 8;
        self.runs.table_bytes() + self.ghosts.iter().map(Ghost::table_bytes).sum::<u64>() + costs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section 14 of the specification: neighbours are compared on what both have seen.
    #[test]
    fn estimates_are_a_chain_of_ratios() {
        let by_level = |below: f64, above: f64| {
            let mut sums = [0.0; LEVELS];
            (sums[0], sums[2]) = (below, above);
            ByLevel(sums)
        };
        let sums = [(2, by_level(0.0, 90.0)), (0, by_level(620.0, 180.0)), (0, by_level(1000.0, 0.0))];
        let estimates = chain(&sums, 1000.0, 0.0);
        assert!(estimates.iter().zip([400.0, 800.0, 1000.0]).all(|(one, two)| (one - two).abs() < 1e-9));
    }

    /// Ghosts grow by whole runs: what a memory leaves beside them may shrink as it grows. What is taken in leaves room for a
    /// fetch all the same, and so does what is proposed instead.
    #[test]
    fn memory_that_is_taken_in_leaves_room_for_a_fetch() {
        let of = |shift: u32, candidates: &[&str], sampling: bool| {
            let layout =
                TranslationLayout { logical_units: 1000, shift, slots: 1, planes: 1, block_units: 0 };
            let json = serde_json::json!({ "candidates": candidates, "sampling": sampling });
            (serde_json::from_value::<GhostsKeys>(json).unwrap(), layout)
        };
        let mut shrinks = 0;
        for (shift, candidates, sampling) in [
            (10, &["tafp_16", "tafp_32"][..], true),
            (7, &["tafp_16", "tafp_64", "tafp_128"], false),
            (8, &["tafp_32", "half_page", "full_page"], false),
        ] {
            let (keys, layout) = of(shift, candidates, sampling);
            let need = keys.largest_fetch(layout);
            let leaves = |bytes: u64| bytes >= need + keys.ghost_bytes(bytes, layout);
            for bytes in 0..6000 {
                let least = Ghosts::least_bytes(&keys, bytes, layout);
                assert_eq!(least <= bytes, leaves(bytes), "{candidates:?}: {bytes}");
                assert!(leaves(least), "{candidates:?}: {least}, proposed for {bytes}");
                shrinks += u32::from(leaves(bytes) && !leaves(bytes + 1));
            }
        }
        assert!(shrinks > 0);
        // The part of small pages counts: together these would take 1.003 of any memory.
        let page = PageSizes { page_bytes: 1024, spare_bytes: 0 };
        let (keys, _) = of(8, &["tafp_16", "tafp_32", "tafp_256", "half_page"], false);
        assert_eq!(Ghosts::check_keys(&keys, page).unwrap_err().key, "sampling");
    }
}
