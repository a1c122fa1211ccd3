//! The balanced score board: at each miss, the window that would have served the recent accesses best.
//!
//! Each access gives a point to every window that would have had its entry in memory: the window must reach from where
//! the nearest run was fetched to the entry, and the run must be recent enough to be in memory still, had all runs been
//! of that window's size. Points age.

use crate::config::{CandidateWindow, MapCacheConfig, RankBy};
use crate::geometry::Lpn;
use crate::mapcache::cache::{CacheReport, Lookup, MapCache, MapOp};
use crate::mapcache::layout::TranslationLayout;
use crate::mapcache::lru::{NONE, Recent};
use crate::mapcache::units::{Units, Window, half, header_bytes};

#[derive(Debug, Clone)]
struct Candidate {
    name: String,
    window: Window,
    bytes: u32,
    /// Runs of this size that memory holds, with their headers.
    held: u32,
    score: f64,
    chosen: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Bsb {
    units: Units,
    candidates: Vec<Candidate>,
    weight: f64,
    balanced: bool,
    by_units: bool,
    /// The most recent translation pages and halves of them, as many as memory holds.
    pages: Recent,
    halves: Recent,
    decision_interval: u32,
    until_decision: u32,
    choice: usize,
}

impl Bsb {
    /// Empty, for a drive of this shape.
    pub fn new(config: &MapCacheConfig, layout: TranslationLayout) -> Self {
        let header = header_bytes(config);
        let held = |window: Window| {
            (config.bytes / u64::from(window.bytes(layout) + header)).clamp(1, 1 << 30) as u32
        };
        let candidate = |name: &CandidateWindow| {
            let window = match *name {
                CandidateWindow::Forward(bytes) => Window::forward(bytes, config.window_inclusive),
                CandidateWindow::Half => Window::Half,
                CandidateWindow::Full => Window::Full,
            };
            let (bytes, held) = (window.bytes(layout), held(window));
            Candidate { name: name.to_string(), window, bytes, held, score: 0.0, chosen: 0 }
        };
        let candidates: Vec<Candidate> = config.candidates.iter().map(candidate).collect();
        let ranks = candidates.iter().map(|candidate| candidate.held).collect();
        Self {
            units: Units::new(config, layout, ranks),
            weight: config.score_weight,
            balanced: config.balanced,
            by_units: config.rank == RankBy::Units,
            pages: Recent::new(held(Window::Full), layout.pages()),
            halves: Recent::new(held(Window::Half), layout.pages() * 2),
            decision_interval: config.decision_interval,
            until_decision: 0,
            // The smallest window: least memory, least time.
            choice: smallest(&candidates),
            candidates,
        }
    }

    /// Give points for an access to `lpn` whose nearest run is `unit`.
    #[inline]
    fn score(&mut self, lpn: Lpn, unit: u32) {
        let layout = self.units.layout;
        if unit == NONE {
            for candidate in &mut self.candidates {
                candidate.score *= self.weight;
            }
            return;
        }
        let origin = Lpn(self.units.unit(unit).origin);
        // Everything about the run is asked of where it was fetched for.
        let page_recent = self.pages.has(layout.tpn(origin));
        let half_recent = self.halves.has(layout.tpn(origin) * 2 + half(layout, origin));
        for candidate in &mut self.candidates {
            let in_memory = !self.balanced
                || match candidate.window {
                    Window::Full if !self.by_units => page_recent,
                    Window::Half if !self.by_units => half_recent,
                    _ => self.units.order.is_below(unit, candidate.held),
                };
            let point = in_memory && candidate.window.covers(layout, origin, lpn);
            candidate.score = candidate.score * self.weight + f64::from(u8::from(point));
        }
    }

    /// The window with the highest score; of several, the smallest.
    fn choose(&mut self) -> Window {
        if self.until_decision == 0 {
            let mut best = smallest(&self.candidates);
            for (at, candidate) in self.candidates.iter().enumerate() {
                let chosen = &self.candidates[best];
                // Scores of equal histories are equal to the last bit.
                let equal = candidate.score.to_bits() == chosen.score.to_bits();
                if candidate.score > chosen.score || (equal && candidate.bytes < chosen.bytes) {
                    best = at;
                }
            }
            self.choice = best;
            self.until_decision = self.decision_interval;
        }
        let candidate = &mut self.candidates[self.choice];
        candidate.chosen += 1;
        candidate.window
    }
}

fn smallest(candidates: &[Candidate]) -> usize {
    (0..candidates.len()).min_by_key(|at| candidates[*at].bytes).unwrap_or(0)
}

impl MapCache for Bsb {
    fn lookup(&mut self, lookup: Lookup, _: &[u32], ops: &mut Vec<MapOp>) -> bool {
        let lpn = lookup.lpn;
        let layout = self.units.layout;
        let unit = self.units.find(lpn);
        let scored = if unit == NONE { self.units.nearest(lpn) } else { unit };
        self.score(lpn, scored);
        if unit == NONE {
            let window = self.choose();
            self.units.fetch(lookup, window, ops);
        } else {
            self.units.hit(unit, lookup.changes());
        }
        self.until_decision = self.until_decision.saturating_sub(1);
        self.pages.touch(layout.tpn(lpn));
        self.halves.touch(layout.tpn(lpn) * 2 + half(layout, lpn));
        unit != NONE
    }

    fn moved(&mut self, lpn: Lpn, _: &[u32]) -> bool {
        self.units.change(lpn)
    }

    fn rewritten(&mut self, tpn: u32) {
        self.units.rewritten(tpn);
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        self.units.is_dirty(lpn)
    }

    fn used_bytes(&self) -> u64 {
        self.units.used_bytes()
    }

    fn reset_counts(&mut self) {
        for candidate in &mut self.candidates {
            candidate.chosen = 0;
        }
    }

    fn report(&self) -> CacheReport {
        let windows = self.candidates.iter().map(|candidate| (candidate.name.clone(), candidate.chosen));
        let scores = self.candidates.iter().map(|candidate| (candidate.name.clone(), candidate.score));
        CacheReport { windows: windows.collect(), scores: scores.collect(), ..self.units.report() }
    }

    fn check(&self) -> Result<(), String> {
        self.units.check()
    }

    fn table_bytes(&self) -> u64 {
        self.units.table_bytes() + self.pages.table_bytes() + self.halves.table_bytes()
    }
}
