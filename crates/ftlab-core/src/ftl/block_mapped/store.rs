//! clustered blocks in flash: what a block-mapped layer asks for, done.

use crate::access::{self, Access, PageRun};
use crate::cause::Cause;
use crate::config::DeviceConfig;
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::flash::role::Role;
use crate::ftl::block_mapped::capacity;
use crate::ftl::blocks::free_blocks::FreeBlocks;
use crate::ftl::hybrid::scheme::{ClusteredBlock, Place, Purpose, Shape, Store, View};
use crate::ftl::journal::Journal;
use crate::geometry::{BlockId, Divider, Geometry, Lpn, PageAt, PlaneId, Ppn};
use crate::plane_order::PlaneOrder;
use crate::table::Table;

/// The entry of a page without data.
pub(super) const UNMAPPED: u32 = u32::MAX;

/// Where units and pages are.
///
/// A layer knows blocks; where each page of a log block is, it would look up in the log's own table. Here one table has the
/// newest place of every page, and layers are held against it.
#[derive(Debug, Clone)]
pub(super) struct Units {
    pub(super) geometry: Geometry,
    pub(super) shape: Shape,
    /// The planes, cluster after cluster.
    planes: Vec<PlaneId>,
    /// Where each plane stands among these.
    stands: Vec<u32>,
    width: Divider,
    rows: Divider,
    /// By cluster.
    pub(super) free: Vec<FreeBlocks>,
    /// The newest place of each logical page.
    pub(super) table: Table<u32>,
    copyback: bool,
    /// Why pages are copied.
    pub(super) cause: Cause,
    /// Pages written in part whose rest was read first.
    pub(super) read_modify_writes: u64,
}

impl Units {
    pub(super) fn new(config: &DeviceConfig, geometry: &Geometry) -> Self {
        let shape = capacity::shape(config);
        let order = PlaneOrder::new(geometry, config.ftl.allocation, true);
        let planes: Vec<PlaneId> = (0..order.len()).map(|turn| order.at(turn)).collect();
        let mut stands = vec![0; planes.len()];
        for (at, plane) in (0..).zip(&planes) {
            stands[plane.index()] = at;
        }
        Self {
            planes,
            stands,
            width: Divider::new(shape.layout.width),
            rows: Divider::new(shape.units_per_cluster),
            free: (0..shape.clusters).map(|_| FreeBlocks::new(geometry, &config.ftl)).collect(),
            table: vec![UNMAPPED; geometry.logical_units as usize].into(),
            copyback: config.timing.copyback,
            cause: Cause::Merge,
            read_modify_writes: 0,
            shape,
            geometry: geometry.clone(),
        }
    }

    /// The blocks of a unit.
    pub(super) fn blocks(&self, unit: ClusteredBlock) -> impl Iterator<Item = BlockId> + use<'_> {
        (0..self.shape.layout.width).map(move |column| self.block(unit, column))
    }

    #[inline]
    fn block(&self, unit: ClusteredBlock, column: u32) -> BlockId {
        let cluster = self.rows.quotient(unit.0);
        let plane = self.planes[(cluster * self.shape.layout.width + column) as usize];
        self.geometry.block(plane, self.rows.remainder(unit.0))
    }

    #[inline]
    pub(super) fn page(&self, place: Place) -> PageAt {
        let column = self.width.remainder(place.page);
        PageAt { block: self.block(place.unit, column), index: self.width.quotient(place.page) }
    }

    #[inline]
    pub(super) fn place_of(&self, ppn: Ppn) -> Place {
        let page = self.geometry.page_of(ppn);
        let stands = self.stands[self.geometry.plane_of(page.block).index()];
        let (cluster, column) = (self.width.quotient(stands), self.width.remainder(stands));
        Place {
            unit: ClusteredBlock(cluster * self.shape.units_per_cluster + self.geometry.row_of(page.block)),
            page: page.index * self.shape.layout.width + column,
        }
    }

    #[inline]
    pub(super) fn lookup(&self, lpn: Lpn) -> Option<Ppn> {
        Some(Ppn(self.table[lpn.index()])).filter(|ppn| ppn.0 != UNMAPPED)
    }

    /// The planes of a cluster.
    pub(super) fn planes(&self, cluster: u32) -> &[PlaneId] {
        let width = self.shape.layout.width as usize;
        &self.planes[cluster as usize * width..][..width]
    }

    /// All units.
    pub(super) fn all(&self) -> impl Iterator<Item = ClusteredBlock> + use<> {
        (0..self.shape.units()).map(ClusteredBlock)
    }

    pub(super) fn table_bytes(&self) -> u64 {
        let free: u64 = self.free.iter().map(FreeBlocks::table_bytes).sum();
        free + 4 * (self.table.len() + self.planes.capacity() + self.stands.capacity()) as u64
    }
}

fn role_of(purpose: Purpose) -> Role {
    match purpose {
        Purpose::Data => Role::Data,
        Purpose::Log => Role::Log,
        Purpose::Sequential => Role::Sequential,
    }
}

/// What a layer sees of flash.
pub(super) struct Seen<'a> {
    pub(super) units: &'a Units,
    pub(super) nand: &'a NandArray,
}

impl View for Seen<'_> {
    fn shape(&self) -> &Shape {
        &self.units.shape
    }

    #[inline]
    fn place(&self, lpn: Lpn) -> Option<Place> {
        self.units.lookup(lpn).map(|ppn| self.units.place_of(ppn))
    }

    #[inline]
    fn page_at(&self, place: Place) -> Option<Lpn> {
        let page = self.units.page(place);
        // What an earlier life of the block has left in a spare area says nothing.
        if !self.nand.is_written(page) {
            return None;
        }
        self.nand.lpn(self.units.geometry.unit(page))
    }

    fn live(&self, unit: ClusteredBlock) -> u32 {
        self.units.blocks(unit).map(|block| self.nand.valid_units(block)).sum()
    }

    #[inline]
    fn is_free(&self, place: Place) -> bool {
        let page = self.units.page(place);
        page.index >= self.nand.next_page(page.block)
    }

    fn next_page(&self, unit: ClusteredBlock) -> u32 {
        let width = self.units.shape.layout.width;
        let filled = (0..).zip(self.units.blocks(unit)).map(|(column, block)| {
            let pages = self.nand.next_page(block);
            if pages == 0 { 0 } else { (pages - 1) * width + column + 1 }
        });
        filled.max().unwrap_or(0)
    }

    fn free_units(&self, cluster: u32) -> u32 {
        self.units.free[cluster as usize].len()
    }
}

/// When clustered blocks are erased in all memories; nothing elsewhere.
#[derive(Debug, Clone)]
pub(super) struct Erased<T> {
    /// By unit: from when on it may be programmed. What made room for it has ended then, too.
    units: Vec<T>,
    /// By cluster: when all that was given up so far is erased.
    clusters: Vec<T>,
}

impl<T: Ticket> Erased<T> {
    pub(super) fn new(shape: &Shape, ready: T) -> Self {
        let is_clustered = shape.layout.width > 1;
        let each = |count: u32| vec![ready; if is_clustered { count as usize } else { 0 }];
        Self { units: each(shape.units()), clusters: each(shape.clusters) }
    }

    pub(super) fn table_bytes(&self) -> u64 {
        (size_of_val::<[T]>(&self.units) + size_of_val::<[T]>(&self.clusters)) as u64
    }
}

/// What a layer does to flash.
pub(super) struct OnFlash<'a, P: FlashPort> {
    pub(super) units: &'a mut Units,
    pub(super) flash: &'a mut Flash<P>,
    pub(super) journal: &'a mut Option<Box<Journal<P::Ticket>>>,
    pub(super) erased: &'a mut Erased<P::Ticket>,
    /// What the access under way waits for: its merges wait for that, too.
    pub(super) since: P::Ticket,
}

impl<P: FlashPort> OnFlash<'_, P> {
    #[inline]
    fn seen(&self) -> Seen<'_> {
        Seen { units: self.units, nand: &self.flash.nand }
    }

    #[cold]
    fn full(cluster: u32) -> Box<RunError> {
        Box::new(RunError::Full(format!(
            "the drive is full: memory {cluster} has no free block. This is a defect of ftlab: validation leaves room for \
             all that is written"
        )))
    }

    /// Take a free unit of `cluster`.
    ///
    /// A clustered block is erased in each memory at a time of its own. This one is programmed when all that was given up before
    /// is gone in all of them. A mount would find more units with data than the layer had, and might have no free one.
    fn take(&mut self, cluster: u32) -> FlashResult<ClusteredBlock> {
        let row = self.units.free[cluster as usize].take().ok_or_else(|| Self::full(cluster))?;
        let unit = ClusteredBlock(cluster * self.units.shape.units_per_cluster + row);
        if let Some(from) = self.erased.units.get_mut(unit.0 as usize) {
            *from = self.erased.clusters[cluster as usize];
        }
        Ok(unit)
    }

    /// Take a free unit beside `other`, which it will replace: to a mount it was opened when that was.
    pub(super) fn open_again(
        &mut self,
        other: ClusteredBlock,
        purpose: Purpose,
        opened: u32,
    ) -> FlashResult<ClusteredBlock> {
        let unit = self.take(self.units.rows.quotient(other.0))?;
        for block in self.units.blocks(unit) {
            self.flash.nand.open_again(block, role_of(purpose), opened);
        }
        Ok(unit)
    }

    /// `lpn` is at `to` from now on, as `from` was.
    #[inline]
    pub(super) fn moved(&mut self, lpn: Lpn, from: Option<Ppn>, to: Ppn) -> FlashResult<()> {
        if let Some(from) = from {
            self.flash.invalidate(from)?;
        }
        self.units.table[lpn.index()] = to.0;
        Ok(())
    }

    /// From when on `unit` may be programmed by what begins with `after`.
    #[inline]
    fn when_erased(&mut self, unit: ClusteredBlock, after: P::Ticket) -> P::Ticket {
        match self.erased.units.get(unit.0 as usize) {
            Some(from) => self.flash.port.join(after, *from),
            None => after,
        }
    }

    fn copy_for(&mut self, lpn: Lpn, to: Place, cause: Cause, after: P::Ticket) -> FlashResult<P::Ticket> {
        let Some(from) = self.units.lookup(lpn) else { return Ok(after) };
        let (source, target) = (self.units.geometry.page_of(from), self.units.page(to));
        let after = self.when_erased(to.unit, after);
        let geometry = &self.units.geometry;
        let is_inside = geometry.plane_of(source.block) == geometry.plane_of(target.block);
        let done = if self.units.copyback && is_inside {
            self.flash.copyback(source, target, &[lpn], cause, after)?
        } else {
            let sectors = geometry.sectors_per_unit;
            let read = self.flash.read(source, sectors, cause, after)?;
            self.flash.program(target, &[lpn], cause, read)?
        };
        let to = self.units.geometry.unit(target);
        self.flash.store_copy(from, to);
        self.moved(lpn, Some(from), to)?;
        Ok(done)
    }
}

impl<P: FlashPort> View for OnFlash<'_, P> {
    fn shape(&self) -> &Shape {
        &self.units.shape
    }

    #[inline]
    fn place(&self, lpn: Lpn) -> Option<Place> {
        self.seen().place(lpn)
    }

    #[inline]
    fn page_at(&self, place: Place) -> Option<Lpn> {
        self.seen().page_at(place)
    }

    fn live(&self, unit: ClusteredBlock) -> u32 {
        self.seen().live(unit)
    }

    #[inline]
    fn is_free(&self, place: Place) -> bool {
        self.seen().is_free(place)
    }

    fn next_page(&self, unit: ClusteredBlock) -> u32 {
        self.seen().next_page(unit)
    }

    fn free_units(&self, cluster: u32) -> u32 {
        self.seen().free_units(cluster)
    }
}

impl<P: FlashPort> Store for OnFlash<'_, P> {
    type Ticket = P::Ticket;

    fn ready(&self) -> P::Ticket {
        self.since
    }

    fn join(&mut self, first: P::Ticket, second: P::Ticket) -> P::Ticket {
        self.flash.port.join(first, second)
    }

    fn open(&mut self, cluster: u32, purpose: Purpose) -> FlashResult<ClusteredBlock> {
        let unit = self.take(cluster)?;
        for block in self.units.blocks(unit) {
            self.flash.nand.open(block, role_of(purpose));
        }
        Ok(unit)
    }

    fn hold(&mut self, unit: ClusteredBlock, until: P::Ticket) {
        if let Some(from) = self.erased.units.get_mut(unit.0 as usize) {
            *from = self.flash.port.join(*from, until);
        }
    }

    #[inline]
    fn write(&mut self, access: &Access<'_>, to: Place, after: P::Ticket) -> FlashResult<P::Ticket> {
        let lpn = access.lpn;
        let old = self.units.lookup(lpn);
        let page = self.units.page(to);
        let missing = self.units.geometry.sectors_per_unit - access.sectors;
        let mut after = after;
        if let (Some(old), true) = (old, missing > 0) {
            let page = self.units.geometry.page_of(old);
            after = self.flash.read(page, missing, access.cause, after)?;
            self.units.read_modify_writes += 1;
        }
        let after = self.when_erased(to.unit, after);
        let done = self.flash.program(page, &[lpn], access.cause, after)?;
        let new = self.units.geometry.unit(page);
        self.flash.store(new, access, 0, old);
        self.moved(lpn, old, new)?;
        Ok(done)
    }

    #[inline]
    fn copy(&mut self, lpn: Lpn, to: Place, after: P::Ticket) -> FlashResult<P::Ticket> {
        let writer = self.flash.begin_copy();
        let done = self.copy_for(lpn, to, self.units.cause, after)?;
        self.flash.end_internal(writer);
        Ok(done)
    }

    fn pad(&mut self, access: &Access<'_>, lpn: Lpn, to: Place, after: P::Ticket) -> FlashResult<P::Ticket> {
        self.copy_for(lpn, to, access.cause, after)
    }

    fn mark(&mut self, place: Place) -> FlashResult<P::Ticket> {
        let writer = self.flash.begin_copy();
        let page = self.units.page(place);
        let after = self.when_erased(place.unit, self.since);
        let done = self.flash.program(page, &[], self.units.cause, after)?;
        self.flash.end_internal(writer);
        Ok(done)
    }

    fn settle_trims(&mut self, unit: ClusteredBlock) -> FlashResult<()> {
        let settled = self.trims_before(unit)?;
        self.since = self.flash.port.join(self.since, settled);
        Ok(())
    }

    fn erase(&mut self, unit: ClusteredBlock, after: P::Ticket) -> FlashResult<P::Ticket> {
        let trims = self.trims_before(unit)?;
        let mut start = self.flash.port.join(after, trims);
        for column in 0..self.units.shape.layout.width {
            let block = self.units.block(unit, column);
            let superseded = self.flash.superseded(block, |lpn| self.units.lookup(lpn));
            start = self.flash.port.join(start, superseded);
        }
        let mut done = start;
        for column in 0..self.units.shape.layout.width {
            let block = self.units.block(unit, column);
            let erased = self.flash.erase(block, self.units.cause, start)?;
            done = self.flash.port.join(done, erased);
        }
        let (cluster, row) = (self.units.rows.quotient(unit.0), self.units.rows.remainder(unit.0));
        if let Some(gone) = self.erased.clusters.get_mut(cluster as usize) {
            *gone = self.flash.port.join(*gone, done);
        }
        let erases = self.flash.nand.erases(self.units.block(unit, 0));
        self.units.free[cluster as usize].give(row, erases);
        Ok(done)
    }
}

impl<P: FlashPort> OnFlash<'_, P> {
    /// Program whole pages of `unit`, from its first on: the `count` first ones of a logical block that has no data yet.
    pub(super) fn fill(
        &mut self,
        unit: ClusteredBlock,
        (first, count): (Lpn, u32),
        versions: &[u32],
        cause: Cause,
    ) -> FlashResult<()> {
        let ready = self.flash.port.ready();
        let width = self.units.shape.layout.width;
        let mut starts = Vec::with_capacity(width as usize);
        for column in 0..width.min(count) {
            let block = self.units.block(unit, column);
            let in_column = (count - column).div_ceil(width);
            let run = PageRun { first: Lpn(first.0 + column), stride: width, pages: in_column };
            let page = PageAt { block, index: 0 };
            let start = self.units.geometry.unit(page);
            if self.flash.has_backup() {
                // Each may endanger what came before it, and a copy is made of what that holds.
                for (index, (lpn, ppn)) in (0..).zip(run.placed(1, start)) {
                    self.flash.program(PageAt { index, ..page }, &[lpn], cause, ready)?;
                    self.flash.store_unit(ppn, lpn, versions);
                }
            } else {
                self.flash.program_run(page, run, cause, ready)?;
                if self.flash.nand.verifies() {
                    for (lpn, ppn) in run.placed(1, start) {
                        self.flash.store_unit(ppn, lpn, versions);
                    }
                }
            }
            starts.push(start);
        }
        let units = first.index()..(first.0 + count) as usize;
        access::enter_in_turn(&mut self.units.table[units], &starts.into_iter(), 1, &mut Vec::new());
        Ok(())
    }

    /// The data of `lpn` are gone; where they were.
    pub(super) fn forget(&mut self, lpn: Lpn) -> FlashResult<Option<Place>> {
        let Some(ppn) = self.units.lookup(lpn) else { return Ok(None) };
        self.flash.invalidate(ppn)?;
        self.units.table[lpn.index()] = UNMAPPED;
        if let Some(journal) = self.journal {
            journal.trimmed(lpn, Some(self.units.geometry.block_of(ppn)));
            self.flash.hold_trimmed(ppn);
        }
        Ok(Some(self.units.place_of(ppn)))
    }

    /// A page has been trimmed: write that when there is enough of it.
    pub(super) fn end_trim(&mut self) -> FlashResult<()> {
        if self.journal.as_ref().is_some_and(|journal| journal.is_due()) {
            self.write_journal()?;
        }
        Ok(())
    }

    /// Make trims durable. Returns when they are.
    pub(super) fn flush_trims(&mut self) -> FlashResult<P::Ticket> {
        if self.journal.as_ref().is_some_and(|journal| journal.has_trims()) {
            self.write_journal()?;
        }
        let Some(journal) = self.journal else { return Ok(self.flash.port.ready()) };
        journal.promise();
        Ok(journal.settled().unwrap_or_else(|| self.flash.port.ready()))
    }

    /// Write into the journal what was trimmed.
    fn write_journal(&mut self) -> FlashResult<()> {
        let Some(journal) = self.journal else { return Ok(()) };
        let (since, table) = (self.flash.nand.programmed(), &self.units.table);
        let written = journal.write(self.flash, since, |lpn| table[lpn as usize] == UNMAPPED)?;
        self.flash.release_trimmed(written);
        Ok(())
    }

    /// `unit` is about to be erased, or replaced: what it holds the last data of must be trimmed in flash as well. Returns when it is.
    fn trims_before(&mut self, unit: ClusteredBlock) -> FlashResult<P::Ticket> {
        let marks = |journal: &Journal<P::Ticket>| self.units.blocks(unit).any(|block| journal.marks(block));
        if self.journal.as_ref().is_some_and(|journal| marks(journal)) {
            self.write_journal()?;
        }
        let settled = self.journal.as_ref().and_then(|journal| journal.settled());
        Ok(settled.unwrap_or_else(|| self.flash.port.ready()))
    }
}
