//! The balanced score board: at each miss, the window that would have served the recent accesses best.
//!
//! Each access gives a point to every window that would have had its entry in memory, had all misses been its own. So
//! each window has an origin of its own in every translation page, and a list of what it would have used last. Nothing
//! of what is in memory is looked at: a choice cannot confirm itself.
//!
//! `board = "nearest_run"` takes the paper at its word instead. The window must reach from where the nearest run in
//! memory was fetched to the entry, and that run must be recent enough. Once whole pages are in memory, only they get
//! points.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{ConfigError, refuse};
use crate::geometry::Lpn;
use crate::mapcache::cache::{CacheReport, Lookup, MapCache, MapOp};
use crate::mapcache::layout::TranslationLayout;
use crate::mapcache::own_origin::OwnOrigin;
use crate::mapcache::runs::{Runs, Window, half, header_bytes};
use crate::mapcache::scheme::{MapCacheScheme, PageSizes, TableBytes};
use crate::mapcache::windows::{CandidateWindow, check_candidates};
use crate::quantity;
use crate::recency::{NONE, Recent};
use crate::scheme::{Contrast, Scheme};

/// What `bsb` compares an access with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Board {
    /// What each window would have in memory, had all misses been its own.
    #[default]
    OwnOrigin,
    /// The nearest run that is in memory.
    NearestRun,
}

/// Whose recency `bsb` compares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RankBy {
    /// That of the translation page for `full_page`, of the half for `half_page`, of the run for `tafp_N`.
    #[default]
    Distinct,
    /// That of the run for every window.
    Units,
}

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BsbKeys {
    /// The windows to choose from.
    ///
    /// Default: the eight windows of the paper; of `ghosts`, tafp_16, tafp_64, tafp_256, half_page and full_page.
    pub candidates: Vec<CandidateWindow>,
    /// What an access is compared with to give points: what each window would have in memory, or the nearest run.
    ///
    /// Default: the reading of the paper that does not lock into one window for ever.
    pub board: Board,
    /// What a score is multiplied by at each access: 0.999 forgets half of it in 693 accesses.
    ///
    /// Default: ours, as the paper says only that it is below 1: half is forgotten in 693 accesses.
    #[serde(deserialize_with = "quantity::share")]
    pub score_weight: f64,
    /// Accesses from one choice of a window to the next; 1 is a choice at every miss.
    ///
    /// Default: at each miss, as in the paper.
    pub decision_interval: u32,
    /// Whether a window gets points only for what it would still have in memory.
    ///
    /// Default: as in the paper: large windows otherwise get points for what memory could not hold.
    pub balanced: bool,
    /// With `board = "nearest_run"`: whose recency says whether it would.
    ///
    /// Default: each window is judged by the recency of what it would have fetched.
    pub rank: RankBy,
    /// Whether the entry asked for counts among the bytes of the window.
    ///
    /// Default: off, as the paper says that these bytes are cached in addition.
    pub window_inclusive: bool,
    /// Whether each run of entries takes 8 bytes more, for its place and state.
    ///
    /// Default: off, as the mapping-cache paper counts entries alone.
    pub charge_headers: bool,
    /// Whether all changed entries of a translation page are written when it is.
    ///
    /// Default: off, as the mapping-cache paper does not mention it.
    pub flush_coalesce: bool,
}

impl Default for BsbKeys {
    fn default() -> Self {
        use CandidateWindow::{Forward, Full, Half};
        Self {
            candidates: vec![
                Forward(8),
                Forward(16),
                Forward(32),
                Forward(64),
                Forward(128),
                Forward(256),
                Half,
                Full,
            ],
            board: Board::OwnOrigin,
            score_weight: 0.999,
            decision_interval: 1,
            balanced: true,
            rank: RankBy::Distinct,
            window_inclusive: false,
            charge_headers: false,
            flush_coalesce: false,
        }
    }
}

impl BsbKeys {
    fn window(&self, candidate: CandidateWindow) -> Window {
        candidate.window(self.window_inclusive)
    }

    /// Runs of this window that `bytes` of memory hold, with their headers.
    fn held(&self, window: Window, bytes: u64, layout: TranslationLayout) -> u32 {
        let run = window.bytes(layout) + header_bytes(self.charge_headers);
        (bytes / u64::from(run)).clamp(1, 1 << 30) as u32
    }

    /// Keys that another one leaves without effect.
    fn check_pairs(&self) -> Result<(), ConfigError> {
        let is_forward = |window: &CandidateWindow| matches!(window, CandidateWindow::Forward(_));
        if self.window_inclusive && !self.candidates.iter().any(is_forward) {
            let expected = "has no effect without a window \"tafp_N\" in map_cache.candidates";
            return refuse("window_inclusive", true, expected);
        }
        if self.flush_coalesce && self.candidates == [CandidateWindow::Full] {
            let expected =
                "has no effect with map_cache.candidates = [\"full_page\"]: a page is written whole anyway";
            return refuse("flush_coalesce", true, expected);
        }
        if self.rank != RankBy::default() && self.board == Board::OwnOrigin {
            let expected = "has no effect with map_cache.board = \"own_origin\": no runs are compared";
            return refuse("rank", "\"units\"", expected);
        }
        if self.rank != RankBy::default() && !self.balanced {
            let expected = "has no effect with map_cache.balanced = false: no recency is asked for";
            return refuse("rank", "\"units\"", expected);
        }
        if self.rank != RankBy::default() && self.candidates.iter().all(is_forward) {
            let expected = "has no effect without \"half_page\" or \"full_page\" in map_cache.candidates: the others go by runs";
            return refuse("rank", "\"units\"", expected);
        }
        Ok(())
    }
}

impl Scheme for Bsb {
    const SUMMARY: &'static str = "Chooses the prefetch window with the highest score at each miss.";
    const SOURCE: &'static str = "balanced score board, IEEK paper 2012-50-3-10";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast {
            key: "candidates",
            value: "[\"tafp_16\", \"half_page\"]",
            with: &["map_cache.bytes=16384"],
        },
        Contrast { key: "board", value: "\"nearest_run\"", with: &["map_cache.bytes=16384"] },
        Contrast { key: "score_weight", value: "0.9", with: &["map_cache.bytes=16384"] },
        Contrast { key: "decision_interval", value: "50", with: &["map_cache.bytes=16384"] },
        Contrast { key: "balanced", value: "false", with: &["map_cache.bytes=16384"] },
        Contrast {
            key: "rank",
            value: "\"units\"",
            with: &["map_cache.bytes=16384", "map_cache.board=\"nearest_run\""],
        },
        Contrast { key: "window_inclusive", value: "true", with: &["map_cache.bytes=16384"] },
        Contrast { key: "charge_headers", value: "true", with: &["map_cache.bytes=16384"] },
        Contrast {
            key: "flush_coalesce",
            value: "true",
            with: &["map_cache.bytes=4096", "map_cache.candidates=[\"tafp_64\"]"],
        },
    ];
    type Keys = BsbKeys;
}

#[derive(Debug, Clone)]
struct Candidate {
    name: String,
    window: Window,
    bytes: u32,
    /// Runs of this size that memory holds, with their headers.
    held: u32,
    chosen: u64,
}

/// Where points come from.
#[derive(Debug, Clone)]
enum Points {
    OwnOrigin(OwnOrigin),
    NearestRun {
        /// For each candidate.
        scores: Vec<f64>,
        balanced: bool,
        by_runs: bool,
        /// The most recent translation pages and halves of them, as many as memory holds.
        pages: Recent,
        halves: Recent,
    },
}

impl Points {
    /// For each candidate.
    fn scores(&self) -> &[f64] {
        match self {
            Points::OwnOrigin(windows) => windows.scores(),
            Points::NearestRun { scores, .. } => scores,
        }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Bsb {
    runs: Runs,
    /// From the smallest window to the largest.
    candidates: Vec<Candidate>,
    weight: f64,
    points: Points,
    decision_interval: u32,
    until_decision: u32,
    choice: usize,
}

impl MapCacheScheme for Bsb {
    fn new(keys: &BsbKeys, bytes: u64, layout: TranslationLayout) -> Self {
        let held = |window: Window| keys.held(window, bytes, layout);
        let candidate = |name: &CandidateWindow| {
            let window = keys.window(*name);
            let (bytes, held) = (window.bytes(layout), held(window));
            Candidate { name: name.to_string(), window, bytes, held, chosen: 0 }
        };
        let mut candidates: Vec<Candidate> = keys.candidates.iter().map(candidate).collect();
        candidates.sort_by_key(|candidate| candidate.bytes);
        let (points, ranks) = match keys.board {
            Board::OwnOrigin => {
                let alone = |candidate: &Candidate| {
                    (candidate.window, if keys.balanced { candidate.held } else { u32::MAX })
                };
                let windows: Vec<_> = candidates.iter().map(alone).collect();
                (Points::OwnOrigin(OwnOrigin::new(&windows, keys.score_weight, layout)), Vec::new())
            }
            Board::NearestRun => {
                let points = Points::NearestRun {
                    scores: vec![0.0; candidates.len()],
                    balanced: keys.balanced,
                    by_runs: keys.rank == RankBy::Units,
                    pages: Recent::new(held(Window::Full), layout.pages()),
                    halves: Recent::new(held(Window::Half), layout.pages() * 2),
                };
                (points, candidates.iter().map(|candidate| candidate.held).collect())
            }
        };
        let header = header_bytes(keys.charge_headers);
        Self {
            runs: Runs::new(layout, bytes, header, keys.flush_coalesce, ranks),
            weight: keys.score_weight,
            points,
            decision_interval: keys.decision_interval,
            until_decision: 0,
            // The smallest window: least memory, least time.
            choice: 0,
            candidates,
        }
    }

    fn check_keys(keys: &BsbKeys, page: PageSizes) -> Result<(), ConfigError> {
        check_candidates(&keys.candidates, page)?;
        let request = |window: &&CandidateWindow| matches!(window, CandidateWindow::Request(_));
        if let Some(window) = keys.candidates.iter().find(request) {
            let expected =
                "goes by the request, and the board by windows of one size: choose kind = \"ghosts\"";
            return refuse("candidates", format!("\"{window}\""), expected);
        }
        keys.check_pairs()?;
        if !(keys.score_weight > 0.0 && keys.score_weight < 1.0) {
            return refuse("score_weight", keys.score_weight, "must be above 0 and below 1");
        }
        if keys.decision_interval == 0 {
            return refuse("decision_interval", 0, "must be at least 1");
        }
        Ok(())
    }

    fn least_bytes(keys: &BsbKeys, _: u64, layout: TranslationLayout) -> u64 {
        let largest = keys.candidates.iter().map(|candidate| keys.window(*candidate).bytes(layout)).max();
        u64::from(largest.unwrap_or(0)) + u64::from(header_bytes(keys.charge_headers))
    }

    fn whole_table_bytes(_: &BsbKeys, layout: TranslationLayout) -> u64 {
        Runs::whole_table_bytes(layout)
    }

    fn table_bytes_at_most(keys: &BsbKeys, layout: TranslationLayout) -> TableBytes {
        let runs = Runs::table_bytes_at_most(Window::Forward(0), layout);
        match keys.board {
            Board::NearestRun => TableBytes { per_page: runs.per_page + 3 * 24, ..runs },
            Board::OwnOrigin => {
                let windows: Vec<Window> =
                    keys.candidates.iter().map(|candidate| keys.window(*candidate)).collect();
                let (per_node, more) = OwnOrigin::bytes_at_most(&windows, layout);
                TableBytes { per_node: runs.per_node + per_node, more: runs.more + more, ..runs }
            }
        }
    }
}

impl Bsb {
    /// Give points for an access to `lpn`, which is in `run` or in none.
    #[inline]
    fn score(&mut self, lpn: Lpn, run: u32) {
        let layout = self.runs.layout;
        let weight = self.weight;
        match &mut self.points {
            Points::OwnOrigin(windows) => windows.access(lpn, layout.tpn(lpn)),
            Points::NearestRun { scores, balanced, by_runs, pages, halves } => {
                let run = if run == NONE { self.runs.nearest(lpn) } else { run };
                if run == NONE {
                    for score in scores.iter_mut() {
                        *score *= weight;
                    }
                } else {
                    let origin = Lpn(self.runs.run(run).origin);
                    // Everything about the run is asked of where it was fetched for.
                    let page_recent = pages.has(layout.tpn(origin));
                    let half_recent = halves.has(layout.tpn(origin) * 2 + half(layout, origin));
                    for (score, candidate) in scores.iter_mut().zip(&self.candidates) {
                        let in_memory = !*balanced
                            || match candidate.window {
                                Window::Full if !*by_runs => page_recent,
                                Window::Half if !*by_runs => half_recent,
                                _ => self.runs.order.is_below(run, candidate.held),
                            };
                        let point = in_memory && candidate.window.covers(layout, origin, lpn);
                        *score = *score * weight + f64::from(u8::from(point));
                    }
                }
                pages.touch(layout.tpn(lpn));
                halves.touch(layout.tpn(lpn) * 2 + half(layout, lpn));
            }
        }
    }

    /// The window with the highest score; of several, the smallest.
    fn choose(&mut self) -> Window {
        if self.until_decision == 0 {
            // Scores of equal histories are equal to the last bit. Without jumps, which nothing could foresee.
            let scores = self.points.scores();
            let highest = scores.iter().fold(0.0, |highest: f64, score| highest.max(*score));
            let smallest = scores.iter().position(|score| score.to_bits() == highest.to_bits());
            self.choice = smallest.unwrap_or(0);
            self.until_decision = self.decision_interval;
        }
        let candidate = &mut self.candidates[self.choice];
        candidate.chosen += 1;
        candidate.window
    }
}

impl MapCache for Bsb {
    fn lookup(&mut self, lookup: Lookup, _: &[u32], ops: &mut Vec<MapOp>) -> bool {
        let run = self.runs.find(lookup.lpn);
        self.score(lookup.lpn, run);
        if run == NONE {
            let window = self.choose();
            self.runs.fetch(lookup, window, ops);
        } else {
            self.runs.hit(run, lookup.changes());
        }
        self.until_decision = self.until_decision.saturating_sub(1);
        run != NONE
    }

    fn look_ahead(&self, lpn: Lpn, stage: u32) {
        if stage == 0
            && let Points::OwnOrigin(windows) = &self.points
        {
            windows.look_ahead(lpn, self.runs.layout.tpn(lpn));
        }
        self.runs.look_ahead(lpn, stage);
    }

    fn moved(&mut self, lpn: Lpn, _: &[u32]) -> bool {
        self.runs.change(lpn)
    }

    fn rewritten(&mut self, tpn: u32) {
        self.runs.rewritten(tpn);
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        self.runs.is_dirty(lpn)
    }

    fn used_bytes(&self) -> u64 {
        self.runs.used_bytes()
    }

    fn reset_counts(&mut self) {
        for candidate in &mut self.candidates {
            candidate.chosen = 0;
        }
    }

    fn report(&self) -> CacheReport {
        let windows = self.candidates.iter().map(|candidate| (candidate.name.clone(), candidate.chosen));
        let scores = self.points.scores().iter().copied();
        let names = self.candidates.iter().map(|candidate| candidate.name.clone());
        CacheReport { windows: windows.collect(), scores: names.zip(scores).collect(), ..self.runs.report() }
    }

    fn check(&self) -> Result<(), String> {
        self.runs.check()
    }

    fn table_bytes(&self) -> u64 {
        let board = match &self.points {
            Points::OwnOrigin(windows) => windows.table_bytes(),
            Points::NearestRun { pages, halves, .. } => pages.table_bytes() + halves.table_bytes(),
        };
        self.runs.table_bytes() + board
    }
}
