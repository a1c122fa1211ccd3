//! The mapping cache alone (`model = "mapping_cache"`): cost of lookups, and nothing else.
//!
//! The model of the IEEK paper 2012-50-3-10: every access looks up its entry and pays what the cache asks for, one after
//! the other. There are no data, no queue and no collection, and all translation pages exist from the start. Schemes
//! that look at physical addresses see those of an endless log: at first each unit lies at its own number, and every
//! write goes to the next place. Where a scheme wants batches sorted, as many writes as it says wait, and then take
//! their places in order of logical numbers.

use crate::access::Access;
use crate::config::DeviceConfig;
use crate::error::{ConfigError, refuse};
use crate::geometry::{Geometry, Lpn};
use crate::mapcache::cache::{Intent, Lookup, PlacementWishes};
use crate::mapcache::layout::{ENTRY_BYTES, TranslationLayout};
use crate::mapcache::scheme::PageSizes;
use crate::mapcache::superblock_order::SuperblockOrder;
use crate::mapcache::translation::{MapCacheSummary, Translation};
use crate::metrics::series::Readings;
use crate::table;

/// How translation pages divide the logical space: without flash there are no planes and no slots to tell apart.
pub fn layout(config: &DeviceConfig) -> TranslationLayout {
    TranslationLayout {
        logical_units: config.logical_pages() as u32,
        shift: (config.geometry.page_bytes as u32 / ENTRY_BYTES).trailing_zeros(),
        slots: 1,
        planes: 1,
        block_units: 0,
    }
}

/// Check that there is a mapping cache, and that its memory suits it.
///
/// # Errors
/// The key that makes no sense, and what would.
pub fn check(config: &DeviceConfig, sizes: PageSizes) -> Result<(), ConfigError> {
    let kind = &config.map_cache.kind;
    if !kind.is_cache() {
        return refuse("model", "\"mapping_cache\"", "is the mapping cache alone: choose map_cache.kind");
    }
    kind.check(sizes, layout(config))
}

/// Bytes that the tables beside the mapping cache take at most: physical addresses, and what waits to be sorted.
pub fn bytes_at_most(config: &DeviceConfig) -> u64 {
    8 * config.logical_pages()
}

/// How many changes ahead of one that takes its place memory is asked for.
const BATCH_AHEAD: usize = 32;

/// Bits of a unit in a batch: it is changed, and it was trimmed last.
const BATCHED: u64 = 1;
const TRIMMED: u64 = 2;
const UNITS_OF_WORD: usize = 32;

/// A mapping cache, and what it sees of a drive that is not there.
#[derive(Debug, Clone)]
pub struct CacheAlone {
    translation: Translation,
    /// Physical addresses, for schemes that look at them, of the translation pages that are `laid_out`: what is never
    /// touched takes no memory.
    table: Vec<u32>,
    laid_out: Vec<bool>,
    next: u32,
    /// For schemes that want sorted batches: changed units, each once; and for each unit, its bits.
    batch: Vec<u32>,
    batched: Vec<u64>,
    batch_size: usize,
    sectors_per_unit: u32,
}

impl CacheAlone {
    /// For a validated configuration; `None` when its table is in memory.
    pub fn new(config: &DeviceConfig, geometry: &Geometry) -> Option<Self> {
        let translation = Translation::new(config, layout(config), SuperblockOrder::default(), false)?;
        let units = geometry.logical_units;
        let table = vec![0; if translation.cache.wishes().is_some() { units as usize } else { 0 }];
        let laid_out = vec![false; translation.layout.pages() as usize];
        let batch_size = translation.cache.wishes().and_then(PlacementWishes::sorts_batches).unwrap_or(0);
        Some(Self {
            translation,
            table,
            laid_out,
            next: units,
            batch: Vec::with_capacity(batch_size),
            batched: vec![0; if batch_size > 0 { (units as usize).div_ceil(UNITS_OF_WORD) } else { 0 }],
            batch_size,
            sectors_per_unit: geometry.sectors_per_unit,
        })
    }

    /// See [`MapCache::look_ahead`](crate::mapcache::cache::MapCache::look_ahead).
    #[inline]
    pub(crate) fn look_ahead(&self, lpn: Lpn, stage: u32) {
        if stage == 0 {
            table::prefetch(&self.table, lpn.index());
            table::prefetch(&self.batched, lpn.index() / UNITS_OF_WORD);
        }
        self.translation.cache.look_ahead(lpn, stage);
    }

    /// Look up every unit of an access. A trim forgets those that it covers wholly.
    #[inline(always)]
    pub(crate) fn access(&mut self, access: &Access<'_>, intent: Intent) {
        for index in 0..access.units {
            let whole = || access.sectors_of(index, self.sectors_per_unit) == self.sectors_per_unit;
            if intent != Intent::Trim || whole() {
                self.look_up(access, index, intent);
            }
        }
    }

    #[inline]
    fn look_up(&mut self, access: &Access<'_>, index: u32, intent: Intent) {
        let lpn = access.lpn_at(index);
        let rest = access.rest + access.units - 1 - index;
        if !self.table.is_empty() {
            self.lay_out(self.translation.layout.tpn(lpn));
        }
        self.translation.lookup(Lookup { lpn, intent, rest }, &self.table);
        self.translation.account_all();
        if intent == Intent::Read || self.table.is_empty() {
            return;
        }
        let trim = intent == Intent::Trim;
        if self.batch_size > 0 {
            self.batch(lpn, trim);
        } else {
            self.change(lpn, trim);
        }
    }

    /// At first each unit of a translation page lies at its own number.
    #[inline]
    fn lay_out(&mut self, tpn: u32) {
        if !std::mem::replace(&mut self.laid_out[tpn as usize], true) {
            let layout = self.translation.layout;
            for lpn in layout.first(tpn).0..=layout.last(tpn).0 {
                self.table[lpn as usize] = lpn;
            }
        }
    }

    /// The next place is that of `lpn`, or it has none any more.
    #[inline]
    fn change(&mut self, lpn: Lpn, trim: bool) {
        let old = self.table[lpn.index()];
        self.table[lpn.index()] = if trim { u32::MAX } else { self.next };
        if !trim {
            // A log without an end would run out of numbers: it goes round, far behind what is looked at together.
            self.next = if self.next >= u32::MAX - 1 { 0 } else { self.next + 1 };
        }
        self.translation.cache.changed(lpn, old, &self.table);
    }

    /// Changed units wait for their places.
    fn batch(&mut self, lpn: Lpn, trim: bool) {
        let shift = lpn.index() % UNITS_OF_WORD * 2;
        let word = &mut self.batched[lpn.index() / UNITS_OF_WORD];
        if *word >> shift & BATCHED == 0 {
            self.batch.push(lpn.0);
        }
        *word &= !(TRIMMED << shift);
        *word |= (BATCHED | if trim { TRIMMED } else { 0 }) << shift;
        if self.batch.len() < self.batch_size {
            return;
        }
        self.batch.sort_unstable();
        let mut batch = std::mem::take(&mut self.batch);
        for (at, lpn) in batch.iter().enumerate() {
            if let Some(next) = batch.get(at + BATCH_AHEAD) {
                table::prefetch(&self.table, *next as usize);
            }
            let shift = *lpn as usize % UNITS_OF_WORD * 2;
            let word = &mut self.batched[*lpn as usize / UNITS_OF_WORD];
            let trim = *word >> shift & TRIMMED != 0;
            *word &= !((BATCHED | TRIMMED) << shift);
            self.change(Lpn(*lpn), trim);
        }
        batch.clear();
        self.batch = batch;
    }

    /// What was counted.
    pub fn summary(&self) -> MapCacheSummary {
        let mut cache = self.translation.summary();
        // What would have gone to flash; wrong predictions read data.
        cache.flash_reads = cache.fetches + cache.rest_reads;
        cache.flash_programs = cache.write_backs;
        cache
    }

    /// Add the columns of the time series.
    pub fn sample(&self, readings: &mut Readings) {
        self.translation.sample(readings);
    }

    /// Bytes of the tables.
    pub fn table_bytes(&self) -> u64 {
        self.translation.table_bytes()
            + (self.table.capacity() + self.batch.capacity()) as u64 * 4
            + self.batched.capacity() as u64 * 8
            + self.laid_out.capacity() as u64
    }
}
