//! The mapping cache alone: cost of lookups, and nothing else.
//!
//! The model of the IEEK paper 2012-50-3-10: every access looks up its entry and pays what the cache asks for, one after
//! the other. There are no data, no queue and no collection, and all translation pages exist from the start. Schemes
//! that look at physical addresses see those of an endless log: at first each unit lies at its own number, and every
//! write goes to the next place. Where a scheme wants batches sorted, as many writes as it says wait, and then take
//! their places in order of logical numbers.

use crate::access::Access;
use crate::cause::Cause;
use crate::config::DeviceConfig;
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::FlashPort;
use crate::ftl::page::GcCounts;
use crate::geometry::{Geometry, Lpn};
use crate::layer::{Ftl, Layer};
use crate::mapcache::cache::{Intent, Lookup, PlacementWishes};
use crate::mapcache::translation::Translation;
use crate::metrics::report::Report;
use crate::metrics::series::Readings;

/// See the module.
#[derive(Debug, Clone)]
pub struct MapOnlyFtl {
    translation: Translation,
    /// Physical addresses, for schemes that look at them, of the translation pages that are `laid_out`: what is never
    /// touched takes no memory.
    table: Vec<u32>,
    laid_out: Vec<bool>,
    next: u32,
    /// For schemes that want sorted batches: changed units, each once; for each unit, whether it is one, and whether it was
    /// trimmed last.
    batch: Vec<u32>,
    batched: Vec<(bool, bool)>,
    batch_size: usize,
    sectors_per_unit: u32,
}

impl MapOnlyFtl {
    /// For a validated configuration; `None` when its table is in memory.
    pub fn new(config: &DeviceConfig, geometry: &Geometry) -> Option<Self> {
        let translation = Translation::new(config, false)?;
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
            batched: vec![(false, false); if batch_size > 0 { units as usize } else { 0 }],
            batch_size,
            sectors_per_unit: geometry.sectors_per_unit,
        })
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
        let (batched, _) = std::mem::replace(&mut self.batched[lpn.index()], (true, trim));
        if !batched {
            self.batch.push(lpn.0);
        }
        if self.batch.len() < self.batch_size {
            return;
        }
        self.batch.sort_unstable();
        let mut batch = std::mem::take(&mut self.batch);
        for lpn in batch.drain(..) {
            let (_, trim) = std::mem::take(&mut self.batched[lpn as usize]);
            self.change(Lpn(lpn), trim);
        }
        self.batch = batch;
    }
}

impl<P: FlashPort> Layer<P> for MapOnlyFtl {
    fn read(
        &mut self,
        _: &mut Flash<P>,
        access: &Access<'_>,
        _: &mut Vec<u32>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        for index in 0..access.units {
            self.look_up(access, index, Intent::Read);
        }
        Ok(after)
    }

    fn write(&mut self, _: &mut Flash<P>, access: &Access<'_>, after: P::Ticket) -> FlashResult<P::Ticket> {
        for index in 0..access.units {
            self.look_up(access, index, Intent::Write);
        }
        Ok(after)
    }

    fn trim(&mut self, _: &mut Flash<P>, access: &Access<'_>, after: P::Ticket) -> FlashResult<P::Ticket> {
        for index in 0..access.units {
            if access.sectors_of(index, self.sectors_per_unit) == self.sectors_per_unit {
                self.look_up(access, index, Intent::Trim);
            }
        }
        Ok(after)
    }

    fn flush(&mut self, _: &mut Flash<P>, after: P::Ticket) -> FlashResult<P::Ticket> {
        Ok(after)
    }

    fn report(&self, report: &mut Report) {
        let mut cache = self.translation.summary();
        // What would have gone to flash; wrong predictions read data.
        cache.flash_reads = cache.fetches + cache.rest_reads;
        cache.flash_programs = cache.write_backs;
        report.add(&GcCounts::default());
        report.add(&cache);
    }

    fn sample(&self, readings: &mut Readings) {
        self.translation.sample(readings);
    }

    fn reset_counters(&mut self) {
        self.translation.reset();
    }

    fn free_blocks(&self) -> u64 {
        0
    }

    fn verify(&self, _: &NandArray) -> Result<(), String> {
        self.translation.cache.check()
    }

    fn table_bytes(&self) -> u64 {
        self.translation.table_bytes()
            + (self.table.capacity() + self.batch.capacity()) as u64 * 4
            + self.batched.capacity() as u64 * 2
            + self.laid_out.capacity() as u64
    }
}

impl<P: FlashPort> Ftl<P> for MapOnlyFtl {
    type On<Q: FlashPort> = Self;

    fn with_port<Q: FlashPort>(self, _: &Q) -> Self {
        self
    }

    fn fill_blocks(&mut self, _: &mut Flash<P>, _: Cause, _: &[u32]) -> FlashResult<()> {
        Err(Box::new(RunError::Rule("the model of the mapping cache alone has no blocks to fill".into())))
    }

    fn mount(self, _: &DeviceConfig, _: u64, _: &mut Flash<P>) -> FlashResult<Self> {
        Err(Box::new(RunError::Rule("the model of the mapping cache alone has no flash to mount".into())))
    }

    fn most_free_blocks(&self) -> u32 {
        0
    }
}
