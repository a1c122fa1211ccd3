//! Block-mapped translation layers over flash: the paths of the host, and what all of them share.
//!
//! A layer of `ftl/hybrid` decides. `store.rs` does it, `capacity.rs` says what fits, `mount.rs` finds everything again.

use crate::access::Access;
use crate::cause::Cause;
use crate::config::DeviceConfig;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::blocks::free_blocks::FreeBlocks;
use crate::ftl::hybrid::BlockLayer;
use crate::ftl::hybrid::merge::MergeCounts;
use crate::ftl::journal::Journal;
use crate::geometry::{BlockId, Geometry, Lpn, Ppn};
use crate::layer::{Ftl, Layer, Newer};
use crate::metrics::report::Report;
use crate::table;

pub mod capacity;
mod mount;
mod store;

use store::{Erased, OnFlash, Seen, UNMAPPED, Units};

/// A drive whose translation layer maps blocks. `T` is a ticket of the port.
#[derive(Debug, Clone)]
pub struct BlockFtl<T> {
    units: Units,
    layer: BlockLayer,
    /// Where trims are written, on drives that promise them.
    journal: Option<Box<Journal<T>>>,
    erased: Erased<T>,
    independent_planes: bool,
    unmapped_reads: u64,
}

impl<T: Ticket> BlockFtl<T> {
    /// An empty drive of a validated configuration.
    ///
    /// # Panics
    /// When the layer is page mapping.
    pub fn new(config: &DeviceConfig, geometry: &Geometry, ready: T) -> Self {
        let units = Units::new(config, geometry);
        let layer = BlockLayer::new(&config.ftl.kind, &units.shape).expect("the layer is block-mapped");
        Self {
            erased: Erased::new(&units.shape, ready),
            units,
            layer,
            journal: Journal::new(config, geometry).map(Box::new),
            independent_planes: config.timing.independent_planes,
            unmapped_reads: 0,
        }
    }

    /// The layer, and what it works on for an access that waits for `since`.
    fn at_work<'a, P: FlashPort<Ticket = T>>(
        &'a mut self,
        flash: &'a mut Flash<P>,
        since: T,
    ) -> (&'a mut BlockLayer, OnFlash<'a, P>) {
        let Self { units, layer, journal, erased, .. } = self;
        (layer, OnFlash { units, flash, journal, erased, since })
    }

    /// The unit that runs the commands of a page, if its logical block decides that.
    fn lane(&self, lpn: Lpn) -> Option<u32> {
        let [plane] = self.units.planes(self.layer.cluster_of(lpn)?) else { return None };
        Some(if self.independent_planes { plane.0 } else { self.units.geometry.die_of(*plane).0 })
    }

    fn free_units(&self) -> impl Iterator<Item = u32> + '_ {
        self.units.free.iter().map(FreeBlocks::len)
    }
}

impl<P: FlashPort> Layer<P> for BlockFtl<P::Ticket> {
    fn read(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        found: &mut Vec<u32>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let place = self.units.lookup(access.lpn);
        let done = if let Some(ppn) = place {
            let page = self.units.geometry.page_of(ppn);
            flash.read(page, access.sectors, access.cause, after)?
        } else {
            self.unmapped_reads += u64::from(access.cause == Cause::Host);
            after
        };
        flash.load(place, access, 0, found);
        Ok(done)
    }

    fn write(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        flash.begin_group(access.group.id);
        let (layer, mut store) = self.at_work(flash, after);
        layer.write(&mut store, access, after)
    }

    fn trim(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        flash.begin_group(access.group.id);
        let (layer, mut store) = self.at_work(flash, after);
        let done = layer.end_group(&mut store, after)?;
        if access.sectors_of(0, store.units.geometry.sectors_per_unit) < store.units.geometry.sectors_per_unit
        {
            return Ok(done);
        }
        if let Some(was) = store.forget(access.lpn)? {
            layer.trimmed(&mut store, access.lpn, was)?;
        }
        store.end_trim()?;
        Ok(done)
    }

    /// Nothing is buffered: what was acknowledged is in flash, but for trims, which the journal takes if there is one.
    fn flush(&mut self, flash: &mut Flash<P>, after: P::Ticket) -> FlashResult<P::Ticket> {
        let (layer, mut store) = self.at_work(flash, after);
        let done = layer.end_group(&mut store, after)?;
        let durable = store.flush_trims()?;
        Ok(flash.port.join(done, durable))
    }

    fn copy_of(&self, lpn: Lpn) -> Option<Ppn> {
        self.units.lookup(lpn)
    }

    fn home(&self, lpn: Lpn) -> Option<u32> {
        self.lane(lpn)
    }

    fn natural_block(&self) -> u32 {
        self.units.shape.pages
    }

    fn log_blocks(&self) -> u32 {
        self.units.shape.log_units()
    }

    #[inline]
    fn prefetch(&self, nand: &NandArray, lpns: &[Lpn], stage: u32) {
        for lpn in lpns {
            if stage == 0 {
                table::prefetch(&self.units.table, lpn.index());
            } else if let Some(ppn) = self.units.lookup(*lpn) {
                nand.prefetch(ppn);
            }
        }
    }

    fn report(&self, report: &mut Report) {
        report.unmapped_reads += self.unmapped_reads;
        report.read_modify_writes += self.units.read_modify_writes;
        let shape = &self.units.shape;
        let log_blocks = u64::from(shape.log_units()) * u64::from(shape.layout.width);
        report.add(&MergeCounts { log_blocks, ..self.layer.counts() });
        if let Some(journal) = &self.journal {
            report.add(&journal.counts());
        }
    }

    fn reset_counters(&mut self) {
        self.unmapped_reads = 0;
        self.units.read_modify_writes = 0;
        self.layer.reset_counts();
        if let Some(journal) = &mut self.journal {
            journal.reset_counters();
        }
    }

    fn free_blocks(&self) -> u64 {
        let width = u64::from(self.units.shape.layout.width);
        self.free_units().map(|units| u64::from(units) * width).sum()
    }

    fn verify(&self, nand: &NandArray) -> Result<(), String> {
        nand.verify()?;
        let mut mapped = 0;
        for (lpn, entry) in (0..).map(Lpn).zip(self.units.table.iter()) {
            let ppn = Ppn(*entry);
            if ppn.0 == UNMAPPED {
                continue;
            }
            mapped += 1;
            if !nand.is_valid(ppn) || nand.lpn(ppn) != Some(lpn) {
                return Err(format!("logical page {} is mapped to {}, which does not hold it", lpn.0, ppn.0));
            }
        }
        let blocks = (0..self.units.geometry.blocks()).map(BlockId);
        let live: u64 = blocks.map(|block| u64::from(nand.valid_units(block))).sum();
        if live != mapped {
            return Err(format!("{mapped} logical pages are mapped, but {live} physical ones are live"));
        }
        let seen = Seen { units: &self.units, nand };
        let mut claims = vec![0_u32; self.units.shape.units() as usize];
        self.layer.verify(&seen, &mut |unit| claims[unit.0 as usize] += 1)?;
        for unit in self.units.all() {
            let is_used = self.units.blocks(unit).any(|block| nand.next_page(block) > 0);
            match claims[unit.0 as usize] {
                0 if is_used => {
                    return Err(format!("clustered block {} holds pages and serves nothing", unit.0));
                }
                0 | 1 => {}
                more => return Err(format!("clustered block {} serves {more} purposes", unit.0)),
            }
        }
        let claimed: u64 = claims.iter().map(|claims| u64::from(*claims)).sum();
        let free: u64 = self.free_units().map(u64::from).sum();
        if claimed + free != u64::from(self.units.shape.units()) {
            return Err(format!(
                "{claimed} clustered blocks are in use and {free} are free, which is not all"
            ));
        }
        Ok(())
    }

    fn table_bytes(&self) -> u64 {
        let journal = self.journal.as_ref().map_or(0, |journal| journal.table_bytes());
        self.units.table_bytes() + self.layer.table_bytes() + journal + self.erased.table_bytes()
    }
}

impl<P: FlashPort> Ftl<P> for BlockFtl<P::Ticket> {
    type On<Q: FlashPort> = BlockFtl<Q::Ticket>;

    fn with_port<Q: FlashPort>(self, port: &Q) -> BlockFtl<Q::Ticket> {
        BlockFtl {
            erased: Erased::new(&self.units.shape, port.ready()),
            units: self.units,
            layer: self.layer,
            journal: self.journal.map(|journal| Box::new(journal.with_port())),
            independent_planes: self.independent_planes,
            unmapped_reads: self.unmapped_reads,
        }
    }

    fn fill_blocks(&mut self, flash: &mut Flash<P>, cause: Cause, versions: &[u32]) -> FlashResult<()> {
        let (pages, logical) = (self.units.shape.pages, self.units.shape.logical_pages);
        for block in 0..self.units.shape.logical_blocks() {
            flash.check_interrupt()?;
            let since = flash.port.ready();
            let (layer, mut store) = self.at_work(flash, since);
            let unit = layer.data_unit(&mut store, block)?;
            let first = block * pages;
            store.fill(unit, (Lpn(first), pages.min(logical - first)), versions, cause)?;
        }
        Ok(())
    }

    fn mount(config: &DeviceConfig, _: u64, flash: &mut Flash<P>, _: &[Newer]) -> FlashResult<Self> {
        Self::mounted(config, flash)
    }

    fn most_free_blocks(&self) -> u32 {
        self.free_units().max().unwrap_or(0)
    }

    fn most_commands_of_access(config: &DeviceConfig) -> u64 {
        capacity::most_commands_of_access(config)
    }
}
