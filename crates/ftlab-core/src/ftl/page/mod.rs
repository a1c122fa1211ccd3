//! Page mapping: any logical unit may be anywhere.
//!
//! Every access to a die first looks whether one of its planes is short of free blocks and collects there, one victim
//! at a time and planes in turn. A write then takes the next page of an open block of the plane that allocation
//! names. Copies of collection stay in their plane.
//!
//! With a mapping cache (`CACHED`) the table is in flash as well: translation pages are units behind the logical ones,
//! so that the table of units is their directory too, and blocks of their own take them. They are collected as data
//! are. Data that collection moves change entries in memory where they are there; for the others their translation
//! pages are written, each once, after the collection.
//!
//! This file has the state and the paths of the host; the other files of the folder have one concern each.

use std::ops::Range;

use crate::access::Access;
use crate::cause::Cause;
use crate::config::{DeviceConfig, FtlConfig, GcOpenBlock, GcWhen, PlaneChoice, Striping};
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::allocator::{FreeBlocks, OpenBlock, OpenSlot};
use crate::ftl::gc::Victims;
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, Geometry, Lpn, PageAt, PlaneId, Ppn};
use crate::layer::{Ftl, FtlCounters, Layer};
use crate::mapcache::cache::Intent;
use crate::mapcache::translation::Translation;
use crate::plane_order::PlaneOrder;
use crate::rng::Rng;
use crate::table;

mod collect;
mod fetches;
mod gather;
mod mount;
mod rooms;
mod translate;

use fetches::PendingFetches;
use gather::MAX_SCATTERED;
use rooms::Room;

/// Entry of a logical unit that holds nothing.
const UNMAPPED: u32 = u32::MAX;

/// Most slots of a page, by validation.
const MAX_SLOTS: usize = 16;

#[derive(Debug, Clone)]
struct Plane {
    free: FreeBlocks,
    /// One for each stream, then one for copies unless they share the first, one for logical blocks in order if the mapping
    /// cache gathers them, and one for translation pages.
    open: Vec<OpenBlock>,
    erases: u32,
    /// Live units when they were last counted, and `erases` then.
    live: (u64, u32),
}

#[derive(Debug, Clone, Copy, Default)]
struct Die {
    /// Planes, as bits, with too few free blocks.
    low: u64,
    /// The plane (within the die) whose turn to be collected it is.
    next_collected: u32,
    /// The plane (within the die) whose turn to be written it is (`plane_choice = "most_free"`).
    next_written: u32,
    /// The most free pages that a plane has, and which planes have them, as bits (`plane_choice = "most_free"`).
    most_room: u32,
    roomiest: u64,
    /// No other plane has more.
    second_room: u32,
    /// The least `opened` of its planes.
    oldest_open: u32,
}

/// The page-mapping translation layer, over the victim policy `V`; `CACHED`: with a mapping cache.
#[derive(Debug, Clone)]
pub struct PageFtl<V = Victims, T = (), const CACHED: bool = false> {
    geometry: Geometry,
    config: FtlConfig,
    copyback: bool,
    high_free_blocks: u32,
    gc_slot: OpenSlot,
    /// Pages of a logical block that the mapping cache wants in order; 0 when it wants none.
    ordered_pages: u32,
    /// Live units up to which a plane takes them.
    ordered_limit: u64,
    /// Where each logical unit is, then each unit of a translation page.
    map: Vec<u32>,
    translation: Option<Translation>,
    /// With a port that keeps time and a mapping cache.
    fetches: Option<PendingFetches<T>>,
    /// Blocks of translation pages.
    map_blocks: Vec<bool>,
    planes: Vec<Plane>,
    rooms: Vec<Room>,
    dies: Vec<Die>,
    victims: V,
    order: PlaneOrder,
    next_turn: u32,
    counters: FtlCounters,
    /// Live units of the victim under way.
    survivors: Vec<Ppn>,
    /// Logical blocks that the mapping cache wants in order: found while collecting.
    scattered: Vec<Range<u32>>,
    /// Those of the victim under way that are in order.
    ordered: Vec<Range<u32>>,
}

impl<V: VictimPolicy, T: Ticket, const CACHED: bool> PageFtl<V, T, CACHED> {
    /// An empty drive of a validated configuration.
    ///
    /// # Panics
    /// When `CACHED` is not what the configuration says.
    pub fn new(config: &DeviceConfig, geometry: &Geometry, seed: u64, verify: bool) -> Self {
        let translation = Translation::new(config, verify);
        assert_eq!(translation.is_some(), CACHED, "map_cache.kind and the type agree");
        let units = u64::from(geometry.logical_units) + config.translation_units();
        let ftl = config.ftl.clone();
        let slots = config.open_blocks_per_plane() as usize;
        let plane = || Plane {
            free: FreeBlocks::new(geometry, &ftl),
            open: vec![None; slots],
            erases: 0,
            live: (0, u32::MAX),
        };
        let pages = geometry.blocks_per_plane() * geometry.pages_per_block();
        let die = Die {
            most_room: pages,
            roomiest: u64::MAX >> (64 - geometry.planes_per_die()),
            oldest_open: u32::MAX,
            ..Die::default()
        };
        Self {
            copyback: config.timing.copyback,
            high_free_blocks: ftl.gc_high(),
            gc_slot: if ftl.gc_open_block == GcOpenBlock::Separate { ftl.streams as usize } else { 0 },
            ordered_pages: if config.gathers() {
                config.map_cache.cftl_block_pages / geometry.slots_per_page
            } else {
                0
            },
            // Half of what a plane has beyond its share.
            ordered_limit: units.div_ceil(geometry.planes().into()).midpoint(config.usable_units_per_plane()),
            map: table::filled(units as usize, UNMAPPED),
            translation,
            fetches: None,
            map_blocks: vec![false; if CACHED { geometry.blocks() as usize } else { 0 }],
            planes: (0..geometry.planes()).map(|_| plane()).collect(),
            rooms: vec![Room { pages, newest: u32::MAX, opened: u32::MAX }; geometry.planes() as usize],
            dies: vec![die; geometry.dies() as usize],
            victims: V::new(geometry, &ftl, Rng::new(seed, "gc")),
            order: PlaneOrder::new(geometry, ftl.allocation, ftl.plane_choice == PlaneChoice::Ordered),
            next_turn: 0,
            counters: FtlCounters::default(),
            survivors: Vec::with_capacity(geometry.units_per_block() as usize),
            scattered: Vec::with_capacity(MAX_SCATTERED),
            ordered: Vec::new(),
            geometry: geometry.clone(),
            config: ftl,
        }
    }

    #[inline(always)]
    fn lookup(&self, lpn: Lpn) -> Option<Ppn> {
        let entry = self.map[lpn.index()];
        (entry != UNMAPPED).then_some(Ppn(entry))
    }

    /// The turn of an access in the order of planes: its group of units, or the next.
    #[inline(always)]
    fn turn_of(&self, lpn: Lpn) -> u32 {
        match self.config.striping {
            Striping::Static => lpn.0 >> self.geometry.slots_per_page.trailing_zeros(),
            Striping::Dynamic => self.next_turn,
        }
    }

    /// Take a free block of `plane` for `slot`.
    fn open(&mut self, nand: &mut NandArray, plane: PlaneId, slot: OpenSlot, row: u32) -> BlockId {
        let block = self.geometry.block(plane, row);
        nand.open(block);
        if CACHED {
            self.map_blocks[block.index()] = slot == self.map_slot();
            if let Some(translation) = &mut self.translation {
                translation.cache.opened(block, slot < self.config.streams as usize);
            }
        }
        self.planes[plane.index()].open[slot] = Some(block);
        let room = &mut self.rooms[plane.index()];
        (room.newest, room.opened) = (block.0, nand.sequence(block));
        let die = self.geometry.die_of(plane);
        let first = self.geometry.first_plane(die);
        if self.config.plane_choice == PlaneChoice::MostFree {
            self.compare_rooms(die, first);
        }
        if self.planes[plane.index()].free.len() <= self.config.gc_low_free_blocks {
            self.dies[die.index()].low |= 1 << (plane.0 - first.0);
        }
        block
    }

    /// The block of `plane` that takes the next page for `slot`. Host writes leave the last free block for copies.
    #[inline(always)]
    fn open_block(
        &mut self,
        nand: &mut NandArray,
        plane: PlaneId,
        slot: OpenSlot,
        keep: u32,
    ) -> Option<BlockId> {
        let state = &mut self.planes[plane.index()];
        if let Some(block) = state.open[slot] {
            return Some(block);
        }
        if state.free.len() <= keep {
            return None;
        }
        let row = state.free.take()?;
        Some(self.open(nand, plane, slot, row))
    }

    /// The page after the last data page was just written: close the block.
    fn seal<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        slot: OpenSlot,
        block: BlockId,
        after: T,
    ) -> FlashResult<T> {
        let mut done = after;
        if self.config.summary_page {
            done =
                flash.program_metadata(PageAt { block, index: self.geometry.data_pages_per_block }, after)?;
        }
        self.planes[plane.index()].open[slot] = None;
        self.victims.on_seal(block, flash.nand.valid_units(block));
        Ok(done)
    }

    /// Whether the block takes no more data.
    #[inline(always)]
    fn is_full(&self, nand: &NandArray, block: BlockId) -> bool {
        nand.next_page(block) >= self.geometry.data_pages_per_block
    }

    /// The data at `ppn` are stale.
    #[inline(always)]
    fn invalidate<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, ppn: Ppn) -> FlashResult<()> {
        let (block, valid) = flash.invalidate(ppn)?;
        if self.is_full(&flash.nand, block) {
            self.victims.on_invalidate(block, valid);
        }
        Ok(())
    }

    fn count_free(&self) -> u64 {
        self.planes.iter().map(|plane| u64::from(plane.free.len())).sum()
    }

    #[cold]
    fn full(&self, plane: PlaneId, what: &str) -> Box<RunError> {
        Box::new(RunError::Full(format!(
            "the drive is full: plane {} has no block worth collecting and too few free ones ({}) for {what}; \
             leave more spare space (ftl.over_provisioning) or use a smaller footprint",
            plane.0,
            self.planes[plane.index()].free.len(),
        )))
    }

    /// Write an access to pages of one unit.
    #[inline(always)]
    fn write_one<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        slot: OpenSlot,
        after: T,
    ) -> FlashResult<T> {
        let after = self.translate(flash, access, Intent::Write, after)?;
        let (plane, block) = self.place(flash, access.lpn, slot)?;
        // Looked up after collection, which may have moved it.
        let old = self.lookup(access.lpn);
        let mut after = after;
        let missing = self.geometry.sectors_per_unit - access.sectors;
        if let (Some(old), true) = (old, missing > 0) {
            after = flash.read(self.geometry.page_of(old), missing, access.cause, after)?;
            self.counters.read_modify_writes += 1;
        }
        let page = PageAt { block, index: flash.nand.next_page(block) };
        let mut done = flash.program(page, std::slice::from_ref(&access.lpn), access.cause, after)?;
        let new = self.geometry.unit(page);
        flash.store(new, access, 0, old);
        // Sealed before the old data become stale: they may be in the same block.
        if page.index + 1 == self.geometry.data_pages_per_block {
            done = self.seal(flash, plane, slot, block, done)?;
        }
        if let Some(old) = old {
            self.invalidate(flash, old)?;
        }
        self.map[access.lpn.index()] = new.0;
        self.entry_changed(access.lpn, old);
        self.measure_room(&flash.nand, plane);
        Ok(done)
    }

    /// Write an access to a page of several units; the slots that it does not fill stay empty.
    fn write_several<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        slot: OpenSlot,
        after: T,
    ) -> FlashResult<T> {
        let per_unit = self.geometry.sectors_per_unit;
        let mut after = self.translate(flash, access, Intent::Write, after)?;
        let (plane, block) = self.place(flash, access.lpn, slot)?;
        // Old data are looked up after collection, which may have moved them.
        let mut old = [None; MAX_SLOTS];
        let mut units = [Lpn(0); MAX_SLOTS];
        for index in 0..access.units {
            let lpn = access.lpn_at(index);
            units[index as usize] = lpn;
            old[index as usize] = self.lookup(lpn);
        }
        let (old, units) = (&old[..access.units as usize], &units[..access.units as usize]);
        if access.sectors < access.units * per_unit {
            let mut reads = PageReads::new();
            for (index, old) in (0..).zip(old) {
                let missing = per_unit - access.sectors_of(index, per_unit);
                if let (Some(old), true) = (old, missing > 0) {
                    reads.add(self.geometry.page_of(*old), missing);
                    self.counters.read_modify_writes += 1;
                }
            }
            after = reads.send(flash, access.cause, after)?;
        }
        let page = PageAt { block, index: flash.nand.next_page(block) };
        let mut done = flash.program(page, units, access.cause, after)?;
        let first = self.geometry.unit(page);
        for (index, old) in (0..).zip(old) {
            flash.store(Ppn(first.0 + index), access, index, *old);
        }
        // Sealed before the old data become stale: they may be in the same block.
        if page.index + 1 == self.geometry.data_pages_per_block {
            done = self.seal(flash, plane, slot, block, done)?;
        }
        for (index, (lpn, old)) in (0..).zip(units.iter().zip(old)) {
            let new = Ppn(first.0 + index);
            if let Some(old) = old {
                self.invalidate(flash, *old)?;
            }
            self.map[lpn.index()] = new.0;
            self.entry_changed(*lpn, *old);
        }
        if CACHED {
            self.settle(flash)?;
        }
        self.measure_room(&flash.nand, plane);
        Ok(done)
    }

    /// Read an access to one unit.
    #[inline(always)]
    fn read_one<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        versions: &mut Vec<u32>,
        after: T,
    ) -> FlashResult<T> {
        let found = self.lookup(access.lpn);
        let done = if let Some(ppn) = found {
            flash.read(self.geometry.page_of(ppn), access.sectors, access.cause, after)?
        } else {
            self.counters.unmapped_reads += 1;
            after
        };
        flash.load(found, access, 0, versions);
        Ok(done)
    }

    /// A plane that can take a page of `lpn`, and its open block.
    #[inline(always)]
    fn place<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        lpn: Lpn,
        slot: OpenSlot,
    ) -> FlashResult<(PlaneId, BlockId)> {
        let mut turn = self.turn_of(lpn);
        let gathers = CACHED && self.ordered_pages > 0;
        let turns = self.order.len();
        for step in 0..if gathers { 2 * turns } else { turns } {
            let first = self.order.at(turn);
            // Once round without planes that were given too much.
            if gathers && step < turns && self.live_units(&flash.nand, first) > self.ordered_limit {
                turn = if turn + 1 == turns { 0 } else { turn + 1 };
                continue;
            }
            let die = self.geometry.die_of(first);
            if self.dies[die.index()].low != 0 {
                self.collect(flash, die)?;
                // The translation pages that collection writes may take what it has freed.
                let mut again = if CACHED { self.geometry.blocks_per_plane() } else { 0 };
                while again > 0 && self.dies[die.index()].low != 0 {
                    self.collect(flash, die)?;
                    again -= 1;
                }
            }
            let plane = self.plane_for(&flash.nand, first, lpn);
            if let Some(block) = self.open_block(&mut flash.nand, plane, slot, 1) {
                if self.config.striping == Striping::Dynamic {
                    self.next_turn = if turn + 1 == self.order.len() { 0 } else { turn + 1 };
                }
                return Ok((plane, block));
            }
            if self.config.striping == Striping::Static && !gathers {
                return Err(self.full(plane, "host writes"));
            }
            turn = if turn + 1 == self.order.len() { 0 } else { turn + 1 };
        }
        Err(self.full(self.order.at(turn), "host writes"))
    }
}

#[cold]
fn lost(ppn: Ppn) -> Box<RunError> {
    Box::new(RunError::Rule(format!(
        "physical unit {} is live but its spare area names no logical unit",
        ppn.0
    )))
}

/// Reads of the units of one access, gathered so that each page of flash is read once.
struct PageReads {
    pages: [(PageAt, u32); MAX_SLOTS],
    count: usize,
}

impl PageReads {
    fn new() -> Self {
        Self { pages: [(PageAt { block: BlockId(0), index: 0 }, 0); MAX_SLOTS], count: 0 }
    }

    /// `sectors` of `page` are wanted; of not more than [`MAX_SLOTS`] pages.
    #[inline]
    fn add(&mut self, page: PageAt, sectors: u32) {
        // From the back: neighbours are often of one page.
        if let Some(known) = self.pages[..self.count].iter_mut().rev().find(|known| known.0 == page) {
            known.1 += sectors;
        } else {
            self.pages[self.count] = (page, sectors);
            self.count += 1;
        }
    }

    /// Read what was added, in the order in which it was.
    #[inline]
    fn send<P: FlashPort>(
        &self,
        flash: &mut Flash<P>,
        cause: Cause,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let mut done = after;
        for (page, sectors) in &self.pages[..self.count] {
            let read = flash.read(*page, *sectors, cause, after)?;
            done = flash.port.join(done, read);
        }
        Ok(done)
    }
}

impl<V: VictimPolicy, P: FlashPort, const CACHED: bool> Layer<P> for PageFtl<V, P::Ticket, CACHED> {
    fn read(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        found: &mut Vec<u32>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let after = self.translate(flash, access, Intent::Read, after)?;
        if self.config.gc_when == GcWhen::OnAccess {
            for index in 0..access.units {
                let Some(ppn) = self.lookup(access.lpn_at(index)) else { continue };
                let die = self.geometry.die_of(self.geometry.plane_of(self.geometry.block_of(ppn)));
                if self.dies[die.index()].low != 0 {
                    self.collect(flash, die)?;
                }
            }
        }
        if access.units == 1 {
            return self.read_one(flash, access, found, after);
        }
        let mut reads = PageReads::new();
        for index in 0..access.units {
            let place = self.lookup(access.lpn_at(index));
            match place {
                Some(ppn) => {
                    let sectors = access.sectors_of(index, self.geometry.sectors_per_unit);
                    reads.add(self.geometry.page_of(ppn), sectors);
                }
                None => self.counters.unmapped_reads += 1,
            }
            flash.load(place, access, index, found);
        }
        reads.send(flash, access.cause, after)
    }

    #[inline]
    fn write(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let slot = if self.config.streams == 1 {
            0
        } else {
            usize::from(access.stream) % self.config.streams as usize
        };
        if self.geometry.slots_per_page == 1 {
            self.write_one(flash, access, slot, after)
        } else {
            self.write_several(flash, access, slot, after)
        }
    }

    fn trim(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let per_unit = self.geometry.sectors_per_unit;
        let mut after = after;
        for index in 0..access.units {
            let lpn = access.lpn_at(index);
            if access.sectors_of(index, per_unit) != per_unit {
                continue;
            }
            if CACHED {
                after = self.translate_one(flash, access, index, Intent::Trim, after)?;
            }
            if let Some(ppn) = self.lookup(lpn) {
                self.invalidate(flash, ppn)?;
                self.map[lpn.index()] = UNMAPPED;
                self.entry_changed(lpn, Some(ppn));
            }
        }
        Ok(after)
    }

    /// Nothing is buffered: what was acknowledged is in flash.
    fn flush(&mut self, _: &mut Flash<P>, after: P::Ticket) -> FlashResult<P::Ticket> {
        Ok(after)
    }

    #[inline]
    fn prefetch(&self, nand: &NandArray, lpn: Lpn, stage: u32) {
        if stage == 0 {
            table::prefetch(&self.map, lpn.index());
        } else if let Some(ppn) = self.lookup(lpn) {
            if stage == 1 {
                nand.prefetch(ppn);
            } else {
                let block = self.geometry.block_of(ppn);
                self.victims.prefetch(block, nand.valid_units(block));
            }
        }
    }

    fn map_cache(&self) -> Option<&Translation> {
        self.translation.as_ref()
    }

    fn counters(&self) -> FtlCounters {
        let map_cache = self.translation.as_ref().map(Translation::summary);
        FtlCounters { map_cache, ..self.counters.clone() }
    }

    fn reset_counters(&mut self) {
        self.counters = FtlCounters::default();
        if let Some(translation) = &mut self.translation {
            translation.reset();
        }
    }

    fn free_blocks(&self) -> u64 {
        self.count_free()
    }

    fn verify(&self, nand: &NandArray) -> Result<(), String> {
        nand.verify()?;
        let mut mapped = 0;
        for (lpn, entry) in (0..).zip(&self.map) {
            if *entry == UNMAPPED {
                continue;
            }
            mapped += 1;
            let ppn = Ppn(*entry);
            if !nand.is_valid(ppn) || nand.lpn(ppn) != Some(Lpn(lpn)) {
                let found = nand.lpn(ppn);
                return Err(format!(
                    "logical unit {lpn} maps to physical unit {entry}, which holds {found:?}"
                ));
            }
        }
        let live: u64 =
            (0..self.geometry.blocks()).map(|block| u64::from(nand.valid_units(BlockId(block)))).sum();
        if live != mapped {
            return Err(format!("{mapped} logical units are mapped, but {live} physical units are live"));
        }
        let erased =
            (0..self.geometry.blocks()).filter(|block| nand.next_page(BlockId(*block)) == 0).count() as u64;
        let open = self.planes.iter().flat_map(|plane| plane.open.iter().flatten());
        let open_erased = open.filter(|block| nand.next_page(**block) == 0).count() as u64;
        if erased != self.count_free() + open_erased {
            return Err(format!(
                "{erased} blocks are erased, but {} are free and {open_erased} open",
                self.count_free()
            ));
        }
        match &self.translation {
            Some(translation) => translation.verify(&self.map),
            None => Ok(()),
        }
    }

    fn table_bytes(&self) -> u64 {
        let planes: u64 =
            self.planes.iter().map(|plane| plane.free.table_bytes() + plane.open.capacity() as u64 * 8).sum();
        let translation = self.translation.as_ref().map_or(0, Translation::table_bytes);
        self.map.len() as u64 * 4
            + planes
            + self.victims.table_bytes()
            + self.survivors.capacity() as u64 * 4
            + self.map_blocks.len() as u64
            + self.fetches.as_ref().map_or(0, PendingFetches::table_bytes)
            + translation
    }
}

impl<V: VictimPolicy, P: FlashPort, const CACHED: bool> Ftl<P> for PageFtl<V, P::Ticket, CACHED> {
    type On<Q: FlashPort> = PageFtl<V, Q::Ticket, CACHED>;

    fn with_port<Q: FlashPort>(self, port: &Q) -> PageFtl<V, Q::Ticket, CACHED> {
        let shape = self.translation.as_ref().map(|translation| translation.layout);
        PageFtl {
            fetches: shape.filter(|_| Q::LISTENS).map(|shape| PendingFetches::new(shape, port.ready())),
            geometry: self.geometry,
            config: self.config,
            copyback: self.copyback,
            high_free_blocks: self.high_free_blocks,
            gc_slot: self.gc_slot,
            ordered_pages: self.ordered_pages,
            ordered_limit: self.ordered_limit,
            map: self.map,
            translation: self.translation,
            map_blocks: self.map_blocks,
            planes: self.planes,
            rooms: self.rooms,
            dies: self.dies,
            victims: self.victims,
            order: self.order,
            next_turn: self.next_turn,
            counters: self.counters,
            survivors: self.survivors,
            scattered: self.scattered,
            ordered: self.ordered,
        }
    }

    fn fill_blocks(&mut self, flash: &mut Flash<P>, cause: Cause, versions: &[u32]) -> FlashResult<()> {
        let ready = flash.port.ready();
        let dies = PlaneOrder::new(&self.geometry, self.config.allocation, false);
        let planes = self.geometry.planes_per_die();
        let logical = self.geometry.logical_units;
        let pages = self.geometry.data_pages_per_block;
        // The n-th page of a die goes to its block n / pages, which stands in plane block mod planes. Dies take turns,
        // so that neighbouring units are written soon after each other.
        for round in 0..logical.div_ceil(dies.len() * pages) {
            let left = logical - round * dies.len() * pages;
            for turn in 0..dies.len().min(left) {
                let plane = PlaneId(dies.at(turn).0 + round % planes);
                let count = (left - turn).div_ceil(dies.len()).min(pages);
                let Some(block) = self.open_block(&mut flash.nand, plane, 0, 1) else {
                    return Err(self.full(plane, "the fill"));
                };
                let page = PageAt { block, index: flash.nand.next_page(block) };
                let start = logical - left + turn;
                let units = (0..count).map(|at| Lpn(start + at * dies.len()));
                let first = flash.program_run(page, count, units.clone(), cause, ready)?;
                for (lpn, ppn) in units.zip((first.0..).map(Ppn)) {
                    flash.store_unit(ppn, lpn, versions);
                    self.map[lpn.index()] = ppn.0;
                }
                if self.is_full(&flash.nand, block) {
                    self.seal(flash, plane, 0, block, ready)?;
                }
            }
        }
        for plane in (0..self.geometry.planes()).map(PlaneId) {
            self.open_block(&mut flash.nand, plane, 0, 1);
            self.measure_room(&flash.nand, plane);
        }
        if CACHED {
            for tpn in 0..self.translation.as_ref().map_or(0, |translation| translation.layout.pages()) {
                self.write_translation(flash, tpn, ready)?;
            }
        }
        Ok(())
    }

    fn mount(self, config: &DeviceConfig, seed: u64, flash: &mut Flash<P>) -> FlashResult<Self> {
        self.mounted(config, seed, flash)
    }

    fn most_free_blocks(&self) -> u32 {
        self.planes.iter().map(|plane| plane.free.len()).max().unwrap_or(0)
    }
}
