//! The balanced score board: at each miss, the window that would have served the recent accesses best.
//!
//! Each access gives a point to every window that would have had its entry in memory. The window must reach from where
//! the nearest run was fetched to the entry. The run must be recent enough to be in memory still, had all runs been of
//! that window's size. Points age.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::{ConfigError, refuse};
use crate::geometry::Lpn;
use crate::mapcache::cache::{CacheReport, Lookup, MapCache, MapOp};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::runs::{Runs, Window, check_forward, half, header_bytes};
use crate::mapcache::scheme::{MapCacheScheme, PageSizes, TableBytes};
use crate::recency::{NONE, Recent};
use crate::scheme::{Contrast, Scheme};

/// A window that the score board may choose: `"tafp_8"` and the like, `"half_page"` or `"full_page"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CandidateWindow {
    /// `tafp` with this many bytes.
    Forward(u32),
    /// `half_page`.
    Half,
    /// `full_page`.
    Full,
}

impl CandidateWindow {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "half_page" => Some(Self::Half),
            "full_page" => Some(Self::Full),
            _ => {
                let bytes = text.strip_prefix("tafp_")?.parse().ok()?;
                (bytes > 0 && bytes % ENTRY_BYTES == 0).then_some(Self::Forward(bytes))
            }
        }
    }
}

impl fmt::Display for CandidateWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward(bytes) => write!(f, "tafp_{bytes}"),
            Self::Half => f.write_str("half_page"),
            Self::Full => f.write_str("full_page"),
        }
    }
}

impl Serialize for CandidateWindow {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CandidateWindow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(format!(
                "{text:?} is no window: expected \"full_page\", \"half_page\", or \"tafp_N\" with N bytes, a multiple of 4"
            ))
        })
    }
}

impl JsonSchema for CandidateWindow {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CandidateWindow".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^(full_page|half_page|tafp_[0-9]+)$" })
    }
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
    pub candidates: Vec<CandidateWindow>,
    /// What a score is multiplied by at each access: 0.999 forgets half of it in 693 accesses.
    pub score_weight: f64,
    /// Accesses from one choice of a window to the next; 1 is a choice at every miss.
    pub decision_interval: u32,
    /// Whether a window gets points only for what it would still have in memory.
    pub balanced: bool,
    /// Whose recency says whether it would.
    pub rank: RankBy,
    /// Whether the entry asked for counts among the bytes of the window.
    pub window_inclusive: bool,
    /// Whether each run of entries takes 8 bytes more, for its place and state.
    pub charge_headers: bool,
    /// Whether all changed entries of a translation page are written when it is.
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
        match candidate {
            CandidateWindow::Forward(bytes) => Window::forward(bytes, self.window_inclusive),
            CandidateWindow::Half => Window::Half,
            CandidateWindow::Full => Window::Full,
        }
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
        Contrast { key: "score_weight", value: "0.9", with: &["map_cache.bytes=16384"] },
        Contrast { key: "decision_interval", value: "50", with: &["map_cache.bytes=16384"] },
        Contrast { key: "balanced", value: "false", with: &["map_cache.bytes=16384"] },
        Contrast { key: "rank", value: "\"units\"", with: &["map_cache.bytes=16384"] },
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
    score: f64,
    chosen: u64,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Bsb {
    runs: Runs,
    candidates: Vec<Candidate>,
    weight: f64,
    balanced: bool,
    by_runs: bool,
    /// The most recent translation pages and halves of them, as many as memory holds.
    pages: Recent,
    halves: Recent,
    decision_interval: u32,
    until_decision: u32,
    choice: usize,
}

impl MapCacheScheme for Bsb {
    fn new(keys: &BsbKeys, bytes: u64, layout: TranslationLayout) -> Self {
        let header = header_bytes(keys.charge_headers);
        let held =
            |window: Window| (bytes / u64::from(window.bytes(layout) + header)).clamp(1, 1 << 30) as u32;
        let candidate = |name: &CandidateWindow| {
            let window = keys.window(*name);
            let (bytes, held) = (window.bytes(layout), held(window));
            Candidate { name: name.to_string(), window, bytes, held, score: 0.0, chosen: 0 }
        };
        let candidates: Vec<Candidate> = keys.candidates.iter().map(candidate).collect();
        let ranks = candidates.iter().map(|candidate| candidate.held).collect();
        Self {
            runs: Runs::new(layout, bytes, header, keys.flush_coalesce, ranks),
            weight: keys.score_weight,
            balanced: keys.balanced,
            by_runs: keys.rank == RankBy::Units,
            pages: Recent::new(held(Window::Full), layout.pages()),
            halves: Recent::new(held(Window::Half), layout.pages() * 2),
            decision_interval: keys.decision_interval,
            until_decision: 0,
            // The smallest window: least memory, least time.
            choice: smallest(&candidates),
            candidates,
        }
    }

    fn check_keys(keys: &BsbKeys, page: PageSizes) -> Result<(), ConfigError> {
        if keys.candidates.is_empty() {
            return refuse("candidates", "[]", "needs a window to choose");
        }
        keys.check_pairs()?;
        for (at, candidate) in keys.candidates.iter().enumerate() {
            if let CandidateWindow::Forward(bytes) = candidate {
                check_forward("candidates", *bytes, page)?;
            }
            if keys.candidates[..at].contains(candidate) {
                let expected = "is there twice: each window is chosen and counted once";
                return refuse("candidates", format!("\"{candidate}\""), expected);
            }
        }
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

    fn table_bytes_at_most(_: &BsbKeys, layout: TranslationLayout) -> TableBytes {
        let runs = Runs::table_bytes_at_most(Window::Forward(0), layout);
        TableBytes { per_page: runs.per_page + 3 * 24, ..runs }
    }
}

impl Bsb {
    /// Give points for an access to `lpn` whose nearest run is `run`.
    #[inline]
    fn score(&mut self, lpn: Lpn, run: u32) {
        let layout = self.runs.layout;
        if run == NONE {
            for candidate in &mut self.candidates {
                candidate.score *= self.weight;
            }
            return;
        }
        let origin = Lpn(self.runs.run(run).origin);
        // Everything about the run is asked of where it was fetched for.
        let page_recent = self.pages.has(layout.tpn(origin));
        let half_recent = self.halves.has(layout.tpn(origin) * 2 + half(layout, origin));
        for candidate in &mut self.candidates {
            let in_memory = !self.balanced
                || match candidate.window {
                    Window::Full if !self.by_runs => page_recent,
                    Window::Half if !self.by_runs => half_recent,
                    _ => self.runs.order.is_below(run, candidate.held),
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
        let layout = self.runs.layout;
        let run = self.runs.find(lpn);
        let scored = if run == NONE { self.runs.nearest(lpn) } else { run };
        self.score(lpn, scored);
        if run == NONE {
            let window = self.choose();
            self.runs.fetch(lookup, window, ops);
        } else {
            self.runs.hit(run, lookup.changes());
        }
        self.until_decision = self.until_decision.saturating_sub(1);
        self.pages.touch(layout.tpn(lpn));
        self.halves.touch(layout.tpn(lpn) * 2 + half(layout, lpn));
        run != NONE
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
        let scores = self.candidates.iter().map(|candidate| (candidate.name.clone(), candidate.score));
        CacheReport { windows: windows.collect(), scores: scores.collect(), ..self.runs.report() }
    }

    fn check(&self) -> Result<(), String> {
        self.runs.check()
    }

    fn table_bytes(&self) -> u64 {
        self.runs.table_bytes() + self.pages.table_bytes() + self.halves.table_bytes()
    }
}
