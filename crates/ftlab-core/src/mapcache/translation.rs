//! The table in flash: a mapping cache, what its choices cost, and what translation pages hold.

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::DeviceConfig;
use crate::geometry::Lpn;
use crate::mapcache::MapCacheKind;
use crate::mapcache::cache::{Lookup, MapCache, MapOp};
use crate::mapcache::layout::TranslationLayout;
use crate::mapcache::prices::Prices;
use crate::mapcache::superblock_order::SuperblockOrder;
use crate::metrics::report::Counts;
use crate::metrics::series::{Reading, Readings};
use crate::time::{Rate, Time};

/// The object `map_cache` of the summary. Penalties are what its steps take on an idle drive, added up (equations 1 to
/// 4 of the IEEK paper 2012-50-3-10). What they cost a request among others shows in its latency.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MapCacheSummary {
    /// `map_cache.kind`.
    pub kind: String,
    /// Memory that it may use.
    pub bytes: u64,
    /// Memory in use at the end.
    pub used_bytes: u64,
    /// Translation pages of the drive.
    pub translation_pages: u32,
    /// Looks into the table: one for each mapping unit that is read, written or trimmed below buffer and non-volatile cache.
    /// With `nvm.kind = "cdm"`, one more for each copy that is given up as the host writes, but none for what collection skips.
    pub lookups: u64,
    /// Lookups for which nothing had to be fetched.
    pub hits: u64,
    /// `hits / lookups`.
    pub hit_ratio: f64,
    /// Reads of translation pages from flash, for whatever reason; those of data pages predicted wrongly are none.
    pub flash_reads: u64,
    /// Translation pages programmed, copies included.
    pub flash_programs: u64,
    /// `penalty_ns.total / lookups`.
    pub mean_penalty_ns: f64,
    /// `penalty_ns.total / (lookups - hits)`.
    pub mean_miss_penalty_ns: f64,
    /// Penalties in all, by part.
    pub penalty_ns: MapPenalty,
    /// Reads that answered misses. A translation page that was never written is not read, and such a miss costs nothing.
    pub fetches: u64,
    /// Bytes that they brought.
    pub fetch_bytes: u64,
    /// Translation pages written because changed entries left memory.
    pub write_backs: u64,
    /// Of these, those of which a rest had to be read first.
    pub rest_reads: u64,
    /// Lookups whose prediction was wrong (`leaftl`); absent when there are none.
    #[serde(skip_serializing_if = "none_of")]
    pub mispredictions: u64,
    /// Translation pages written because collection moved data whose entries were not in memory.
    pub gc_updates: u64,
    /// Of `gc.collections`, those of blocks of translation pages.
    pub collections: u64,
    /// Translation pages that were copied out of them (`gc.pages_copied` counts mapping units).
    pub pages_copied: u64,
    /// Misses by the window chosen (`bsb`, `ghosts`), or by what they brought (`cftl`, `tpftl`). Of `tpftl`: the `entry` alone, those
    /// of the same `request`, or `selective` prefetching.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub windows: BTreeMap<String, u64>,
    /// Scores of the windows at the end (`bsb`); blocks that are block-mapped, and bytes that their entries may take (`cftl`).
    /// Of `ghosts`: recent penalties in nanoseconds as the ghosts of the windows estimate them. `regret` is by which part
    /// more was paid than by the ghost that would have paid least.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub scores: BTreeMap<String, f64>,
    /// Memory in use at the end by kind of content, for schemes that have several.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub content_bytes: BTreeMap<String, u64>,
}

impl Counts for MapCacheSummary {
    const NAME: &'static str = "map_cache";
}

/// Penalties by part; the parts sum to `total`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct MapPenalty {
    /// In all.
    pub total: f64,
    /// Fetching what is missing (T_rm).
    pub fetch: f64,
    /// Writing translation pages back (T_pf).
    pub program: f64,
    /// Reading the rest of the page of each run that is written back (T_rf), whatever other runs of it are in memory.
    pub rest: f64,
    /// Reading data that were predicted wrongly (`leaftl`): one page for each, also where a drive reads two or none.
    #[serde(skip_serializing_if = "nothing")]
    pub probe: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn none_of(count: &u64) -> bool {
    *count == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn nothing(ns: &f64) -> bool {
    *ns == 0.0
}

/// What steps on translation pages take in a drive where nothing else is going on.
pub fn prices(config: &DeviceConfig) -> Prices {
    let timing = &config.timing;
    let classes = config.cell.kind.kind().classes();
    // Translation pages come to lie on pages of every class.
    let mean = |times: &crate::config::ClassTimes| {
        let sum: f64 = classes.iter().filter_map(|class| times.get(*class)).sum();
        Time::from_us(sum / classes.len() as f64 + timing.command_us)
    };
    Prices {
        read: mean(&timing.read_us),
        program: mean(&timing.program_us),
        bus: Rate::from_mb_per_s(timing.bus_mb_per_s),
    }
}

/// Counted since the last reset.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MapCounts {
    pub(crate) lookups: u64,
    pub(crate) hits: u64,
    pub(crate) fetches: u64,
    pub(crate) fetch_bytes: u64,
    pub(crate) write_backs: u64,
    pub(crate) rest_reads: u64,
    pub(crate) mispredictions: u64,
    /// Picoseconds by equations.
    pub(crate) fetch_ps: u128,
    pub(crate) probe_ps: u128,
    pub(crate) program_ps: u128,
    pub(crate) rest_ps: u128,
    /// Translation pages written for data that collection moved.
    pub(crate) gc_updates: u64,
    /// Commands that went to flash.
    pub(crate) flash_reads: u64,
    pub(crate) flash_programs: u64,
    /// Victims that held translation pages, and the pages copied out of them.
    pub(crate) collections: u64,
    pub(crate) pages_copied: u64,
}

/// The entries of the page table and of the block table in flash.
#[derive(Debug, Clone)]
struct Persisted {
    units: Vec<u32>,
    blocks: Vec<u32>,
}

/// A mapping cache over a table in flash.
#[derive(Debug, Clone)]
pub struct Translation {
    pub(crate) cache: Box<dyn MapCache>,
    pub(crate) layout: TranslationLayout,
    /// What the last lookup takes.
    pub(crate) ops: Vec<MapOp>,
    pub(crate) counts: MapCounts,
    kind: MapCacheKind,
    capacity_bytes: u64,
    unit_bytes: u32,
    prices: Prices,
    /// With verification: what the translation pages in flash hold.
    persisted: Option<Persisted>,
    /// Translation pages to be written because collection moved data, each once.
    pending: Vec<u32>,
    is_pending: Vec<bool>,
}

impl Translation {
    /// For a validated configuration, whose translation pages have this `layout` and whose data are written in this
    /// `order`; `None` when the table is in memory.
    pub(crate) fn new(
        config: &DeviceConfig,
        layout: TranslationLayout,
        order: SuperblockOrder,
        verify: bool,
    ) -> Option<Self> {
        let prices = prices(config);
        let cache = config.map_cache.kind.build(layout, order, prices)?;
        let pages = layout.all_pages();
        let unmapped = |entries: u32| vec![u32::MAX; entries as usize];
        Some(Self {
            cache,
            layout,
            ops: Vec::with_capacity(64),
            counts: MapCounts::default(),
            kind: config.map_cache.kind.kind(),
            capacity_bytes: config.map_cache.kind.bytes(),
            unit_bytes: config.unit_bytes() as u32,
            prices,
            persisted: verify.then(|| Persisted {
                units: unmapped(layout.logical_units),
                blocks: unmapped(layout.blocks()),
            }),
            pending: Vec::with_capacity(pages as usize),
            is_pending: vec![false; pages as usize],
        })
    }

    /// Look up an entry. What it takes is in `ops` then; who does that accounts for it.
    #[inline]
    pub(crate) fn lookup(&mut self, lookup: Lookup, table: &[u32]) {
        self.ops.clear();
        self.counts.lookups += 1;
        let hit = self.cache.lookup(lookup, table, &mut self.ops);
        self.counts.hits += u64::from(hit);
    }

    /// All that the last lookup takes was done, and everything that it asks for exists.
    #[inline]
    pub(crate) fn account_all(&mut self) {
        for at in 0..self.ops.len() {
            self.account(self.ops[at], true);
        }
    }

    /// A step of a lookup was done. `existed`: there was a version of the translation page to read.
    pub(crate) fn account(&mut self, op: MapOp, existed: bool) {
        let counts = &mut self.counts;
        match op {
            MapOp::Fetch { bytes, .. } if existed => {
                counts.fetches += 1;
                counts.fetch_bytes += u64::from(bytes);
                counts.fetch_ps += u128::from(self.prices.read(bytes));
            }
            MapOp::Fetch { .. } => {}
            MapOp::WriteBack { rest_bytes, .. } => {
                counts.write_backs += 1;
                counts.program_ps += u128::from(self.prices.program(self.layout.page_bytes()));
                if existed && rest_bytes > 0 {
                    counts.rest_reads += 1;
                    counts.rest_ps += u128::from(self.prices.read(rest_bytes));
                }
            }
            MapOp::Probe { .. } => {
                counts.mispredictions += 1;
                counts.probe_ps += u128::from(self.prices.read(self.unit_bytes));
            }
        }
    }

    /// Penalties since the last reset, by part.
    fn penalty(&self) -> MapPenalty {
        let counts = &self.counts;
        let ns = |ps: u128| ps as f64 / 1000.0;
        MapPenalty {
            total: ns(counts.fetch_ps + counts.program_ps + counts.rest_ps + counts.probe_ps),
            fetch: ns(counts.fetch_ps),
            program: ns(counts.program_ps),
            rest: ns(counts.rest_ps),
            probe: ns(counts.probe_ps),
        }
    }

    /// The host has changed the entry that was looked up for it; before, it was `old`.
    #[inline]
    pub(crate) fn changed(&mut self, lpn: Lpn, old: u32, table: &[u32]) {
        self.cache.changed(lpn, old, table);
        // Since the lookup, its translation page may have been written, or memory may have needed the place.
        if !self.cache.is_dirty(lpn) {
            self.moved(lpn, table);
        }
    }

    /// Collection has moved the data of `lpn`.
    #[inline]
    pub(crate) fn moved(&mut self, lpn: Lpn, table: &[u32]) {
        if !self.cache.moved(lpn, table) {
            let tpn = self.layout.tpn(lpn);
            if !std::mem::replace(&mut self.is_pending[tpn as usize], true) {
                self.pending.push(tpn);
            }
        }
    }

    /// The next translation page that has to be written because collection moved data.
    pub(crate) fn next_pending(&mut self) -> Option<u32> {
        let tpn = self.pending.pop()?;
        self.is_pending[tpn as usize] = false;
        Some(tpn)
    }

    /// Start counting at zero; what memory holds stays.
    pub(crate) fn reset(&mut self) {
        self.counts = MapCounts::default();
        self.cache.reset_counts();
    }

    /// Where the units of the logical block of `lpn` are found by one entry: those units.
    #[inline]
    pub(crate) fn block_of(&self, lpn: Lpn) -> Option<Range<u32>> {
        let size = self.layout.block_units;
        let block = lpn.0.checked_div(size)?;
        let units = block * size..(block + 1) * size;
        self.cache.wishes()?.is_block_mapped(block).then_some(units)
    }

    /// Whether the entry of a logical block is newer in memory than in flash.
    fn is_block_dirty(&self, block: u32) -> bool {
        self.cache.wishes().is_some_and(|wishes| wishes.is_block_dirty(block))
    }

    /// What the entry of a logical block is.
    fn block_entry(&self, block: u32, table: &[u32]) -> u32 {
        self.block_of(Lpn(block * self.layout.block_units))
            .map_or(u32::MAX, |units| table[units.start as usize])
    }

    /// The logical blocks whose entries are in a translation page of the block table.
    fn blocks_in(&self, tpn: u32) -> Range<u32> {
        let first = (tpn - self.layout.pages()) * self.layout.entries();
        first..(first + self.layout.entries()).min(self.layout.blocks())
    }

    /// A translation page is written: flash holds every entry of it that is not newer in memory. Those of the page table
    /// that are not looked at stay what they were. With verification, returns what it holds.
    pub(crate) fn written(&mut self, tpn: u32, table: &[u32]) -> Option<&[u32]> {
        let mut persisted = self.persisted.take()?;
        if tpn < self.layout.pages() {
            for lpn in (self.layout.first(tpn).0..=self.layout.last(tpn).0).map(Lpn) {
                if !self.cache.is_dirty(lpn) && self.block_of(lpn).is_none() {
                    persisted.units[lpn.index()] = table[lpn.index()];
                }
            }
        } else {
            for block in self.blocks_in(tpn) {
                if !self.is_block_dirty(block) {
                    persisted.blocks[block as usize] = self.block_entry(block, table);
                }
            }
        }
        self.persisted = Some(persisted);
        self.held(tpn).map(|held| &*held)
    }

    /// With verification: what a translation page in flash holds.
    fn held(&mut self, tpn: u32) -> Option<&mut [u32]> {
        if tpn < self.layout.pages() {
            let entries = self.layout.first(tpn).index()..=self.layout.last(tpn).index();
            Some(&mut self.persisted.as_mut()?.units[entries])
        } else {
            let blocks = self.blocks_in(tpn);
            Some(&mut self.persisted.as_mut()?.blocks[blocks.start as usize..blocks.end as usize])
        }
    }

    /// A mount has found what a translation page holds.
    pub(crate) fn found(&mut self, tpn: u32, entries: &[u32]) {
        if let Some(held) = self.held(tpn) {
            held.copy_from_slice(entries);
        }
    }

    /// After a power cut: translation pages that do not say what `table` says have to be written. No block is block-mapped.
    pub(crate) fn find_outdated(&mut self, table: &[u32]) {
        let Some(persisted) = &self.persisted else { return };
        for tpn in 0..self.layout.all_pages() {
            let agrees = if tpn < self.layout.pages() {
                let entries = self.layout.first(tpn).index()..=self.layout.last(tpn).index();
                persisted.units[entries.clone()] == table[entries]
            } else {
                let blocks = self.blocks_in(tpn);
                persisted.blocks[blocks.start as usize..blocks.end as usize]
                    .iter()
                    .all(|entry| *entry == u32::MAX)
            };
            if !agrees {
                self.is_pending[tpn as usize] = true;
                self.pending.push(tpn);
            }
        }
    }

    /// Recount the cache, and compare what flash and memory say of the table with the table.
    pub(crate) fn verify(&self, table: &[u32]) -> Result<(), String> {
        let name = self.kind.name();
        self.cache.check().map_err(|text| format!("mapping cache {name}: {text}"))?;
        let Some(persisted) = &self.persisted else { return Ok(()) };
        let differ = |what: &str, number: u32, found: u32, right: u32| {
            Err(format!(
                "mapping cache {name}: the translation page in flash maps logical {what} {number} to {found} instead of {right}, \
                 and memory does not know better",
            ))
        };
        for (lpn, found) in (0..).map(Lpn).zip(&persisted.units) {
            let right = table[lpn.index()];
            if *found != right && !self.cache.is_dirty(lpn) && self.block_of(lpn).is_none() {
                return differ("unit", lpn.0, *found, right);
            }
        }
        for (block, found) in (0..).zip(&persisted.blocks) {
            let right = self.block_entry(block, table);
            if *found != right && !self.is_block_dirty(block) {
                return differ("block", block, *found, right);
            }
            let units = self.block_of(Lpn(block * self.layout.block_units)).unwrap_or(0..0);
            if let Some(lpn) = units.clone().find(|lpn| table[*lpn as usize] != right + (lpn - units.start)) {
                return Err(format!(
                    "mapping cache {name}: logical block {block} is mapped to {right}, but its unit {lpn} is at {}",
                    table[lpn as usize]
                ));
            }
        }
        Ok(())
    }

    /// Columns of the time series:
    ///
    /// - `map_lookups`: lookups in the interval
    /// - `map_hit_ratio`: hits / lookups in the interval; NaN when there were none
    /// - `map_penalty_mean_ns`: mean penalty of a lookup in the interval; NaN when there were none
    /// - `map_penalty_PART_mean_ns`: of it `fetch`, `program`, `rest`, and `probe` once data were predicted wrongly
    /// - `map_fetches`: fetches in the interval
    /// - `map_fetch_mean_bytes`: mean size of a fetch in the interval; NaN when there were none
    /// - `map_window_NAME`: misses in the interval for which the window was chosen
    /// - `map_score_NAME`: score of the window at the end of the interval
    /// - `map_content_bytes_NAME`: bytes of memory with that kind of content at the end of the interval
    pub(crate) fn sample(&self, readings: &mut Readings) {
        let counts = &self.counts;
        let mean = |total: f64, count: u64| Reading::Mean { total, count: count as f64 };
        let mut enter = |name: &str, reading| readings.push((name.to_owned(), reading));
        enter("map_lookups", Reading::Count(counts.lookups as f64));
        enter("map_hit_ratio", mean(counts.hits as f64, counts.lookups));
        let penalty = self.penalty();
        enter("map_penalty_mean_ns", mean(penalty.total, counts.lookups));
        enter("map_penalty_fetch_mean_ns", mean(penalty.fetch, counts.lookups));
        enter("map_penalty_program_mean_ns", mean(penalty.program, counts.lookups));
        enter("map_penalty_rest_mean_ns", mean(penalty.rest, counts.lookups));
        let probe = Reading::RareMean { total: penalty.probe, count: counts.lookups as f64 };
        enter("map_penalty_probe_mean_ns", probe);
        enter("map_fetches", Reading::Count(counts.fetches as f64));
        enter("map_fetch_mean_bytes", mean(counts.fetch_bytes as f64, counts.fetches));
        let report = self.cache.report();
        for (name, chosen) in &report.windows {
            enter(&format!("map_window_{name}"), Reading::Count(*chosen as f64));
        }
        for (name, score) in &report.scores {
            enter(&format!("map_score_{name}"), Reading::Level(*score));
        }
        for (name, bytes) in &report.content_bytes {
            enter(&format!("map_content_bytes_{name}"), Reading::Level(*bytes as f64));
        }
    }

    pub(crate) fn summary(&self) -> MapCacheSummary {
        let counts = &self.counts;
        let penalty_ns = self.penalty();
        let per = |count: u64| if count > 0 { penalty_ns.total / count as f64 } else { 0.0 };
        let insight = self.cache.report();
        MapCacheSummary {
            kind: self.kind.name().to_owned(),
            bytes: self.capacity_bytes,
            used_bytes: self.cache.used_bytes(),
            translation_pages: self.layout.all_pages(),
            lookups: counts.lookups,
            hits: counts.hits,
            hit_ratio: if counts.lookups > 0 { counts.hits as f64 / counts.lookups as f64 } else { 0.0 },
            flash_reads: counts.flash_reads,
            flash_programs: counts.flash_programs,
            mean_penalty_ns: per(counts.lookups),
            mean_miss_penalty_ns: per(counts.lookups - counts.hits),
            penalty_ns,
            fetches: counts.fetches,
            fetch_bytes: counts.fetch_bytes,
            write_backs: counts.write_backs,
            rest_reads: counts.rest_reads,
            mispredictions: counts.mispredictions,
            gc_updates: counts.gc_updates,
            collections: counts.collections,
            pages_copied: counts.pages_copied,
            windows: insight.windows.into_iter().collect(),
            scores: insight.scores.into_iter().collect(),
            content_bytes: insight.content_bytes.into_iter().collect(),
        }
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        self.cache.table_bytes() + self.pending.capacity() as u64 * 4 + self.is_pending.len() as u64
    }
}
