//! Page mapping: any logical unit may be anywhere.
//!
//! Every access to a die first looks whether one of its planes is short of free blocks and collects there, one victim
//! at a time and planes in turn. A write then takes the next page of an open block of the plane that allocation
//! names. Copies of collection stay in their plane.
//!
//! With a mapping cache (`CACHED`) the table is in flash as well. Translation pages are units behind the logical ones,
//! so that the table of units is their directory too. Blocks of their own take them. They are collected as data are.
//! Data that collection moves change entries in memory where they are there; for the others their translation pages are
//! written, each once, after the collection.
//!
//! This file has the state and the paths of the host; the other files of the folder have one concern each.

use crate::access::Access;
use crate::cause::Cause;
use crate::config::{DeviceConfig, DurableTrims, FtlConfig, GcOpenBlock, GcWhen};
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::flash::role::Role;
use crate::ftl::blocks::{Append, Blocks, Data, MAX_SLOTS, Place};
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::gc::{VictimChoice, Victims};
use crate::ftl::journal::Journal;
use crate::ftl::placement::policy::{OpenSlot, Placement, Setting};
use crate::ftl::placement::{PlacementChoice, Placements};
use crate::geometry::{BlockId, Geometry, Lpn, PageAt, PlaneId, Ppn};
use crate::interrupt::Interrupt;
use crate::layer::{Ftl, Layer, Newer};
use crate::mapcache::cache::Intent;
use crate::metrics::report::Report;
use crate::metrics::series::Readings;
use crate::plane_order::PlaneOrder;
use crate::rng::Rng;
use crate::tape::{Tape, Taped, taped};

pub mod capacity;
mod collect;
mod commit;
mod fetches;
mod fill;
mod gather;
mod mount;
mod pace;
mod removable;
mod retained;
mod skip;
mod sorting;
mod stale;
mod table;
mod translate;

pub use collect::GcCounts;
use gather::BlockGathering;
use removable::RemovablePages;
use retained::Retained;
use sorting::CopySorting;
use table::PageTable;

/// Counted since the last reset.
#[derive(Debug, Clone, Default)]
struct Counters {
    gc: GcCounts,
    /// Units read that were not mapped.
    unmapped_reads: u64,
    /// Units written in part whose rest was read first.
    read_modify_writes: u64,
}

taped! { Counters { gc, unmapped_reads, read_modify_writes } else {} }

/// What a placement says once for a drive, so that nobody has to ask the one that was chosen for each page.
#[derive(Debug, Clone)]
struct Standing {
    order: PlaneOrder,
    copy_slot: OpenSlot,
    /// Base-2 logarithm of the units of a page.
    page_shift: u32,
    goes_by_address: bool,
    /// The same, but pages gathered by a write buffer have units of other planes as well.
    strays: bool,
    goes_by_turn: bool,
    fills_in_turn: bool,
    compares_planes: bool,
    sorts_copies: bool,
    table_bytes: u64,
}

/// The page-mapping translation layer, over the victim policy `V` and the placement `L`; `T` is a ticket of its port.
/// `CACHED`: with a mapping cache.
#[derive(Debug, Clone)]
pub struct PageFtl<V = Victims, L = Placements, T = (), const CACHED: bool = false> {
    geometry: Geometry,
    config: FtlConfig,
    copyback: bool,
    independent_planes: bool,
    table: PageTable<T, CACHED>,
    blocks: Blocks<V>,
    placement: L,
    standing: Standing,
    gathering: BlockGathering,
    retained: Retained,
    journal: Option<Box<Journal<T>>>,
    /// With a cache above that works with the flash.
    removable: Option<Box<RemovablePages>>,
    /// Whether a flush writes the journal.
    flushes_trims: bool,
    counters: Counters,
    /// Live units of the victim under way.
    survivors: Vec<Ppn>,
    sorting: CopySorting,
}

impl<
    V: VictimPolicy<Keys = VictimChoice>,
    L: Placement<Keys = PlacementChoice>,
    T: Ticket,
    const CACHED: bool,
> PageFtl<V, L, T, CACHED>
{
    /// An empty drive of a validated configuration. Of no use when `interrupt` was asked.
    ///
    /// # Panics
    /// When `CACHED` is not what the configuration says.
    pub fn new(
        config: &DeviceConfig,
        geometry: &Geometry,
        seed: u64,
        verify: bool,
        interrupt: &Interrupt,
    ) -> Self {
        let table = PageTable::new(config, geometry, verify, interrupt);
        assert_eq!(table.translation.is_some(), CACHED, "map_cache.kind and the type agree");
        let ftl = config.ftl.clone();
        let slots = capacity::open_blocks_per_plane(config) as usize;
        let setting =
            Setting { allocation: ftl.allocation, copies_apart: ftl.gc_open_block == GcOpenBlock::Separate };
        let victims = V::new(geometry, &ftl.gc, Rng::new(seed, "gc"));
        let placement = L::new(geometry, &ftl.placement, setting);
        let role = |slot| match slot {
            slot if CACHED && slot + 1 == slots => Role::Map,
            slot if placement.is_for_host(slot) => Role::Data,
            _ => Role::Copies,
        };
        let roles: Vec<Role> = (0..slots).map(role).collect();
        let gathering = BlockGathering::new(config, geometry, table.map.len() as u64);
        let strays = gathering.strays;
        Self {
            copyback: config.timing.copyback,
            independent_planes: config.timing.independent_planes,
            blocks: {
                let mut blocks = Blocks::new(geometry, &ftl, &roles, victims);
                if config.nvm.cooperates() && config.nvm.kind.frees_removable() {
                    blocks.keep_discounts();
                }
                blocks
            },
            standing: Standing {
                order: placement.order().clone(),
                copy_slot: placement.copy_slot(),
                page_shift: geometry.slots_per_page.trailing_zeros(),
                goes_by_address: L::goes_by_address(&ftl.placement) && !strays,
                strays,
                goes_by_turn: L::goes_by_turn(&ftl.placement),
                fills_in_turn: L::fills_in_turn(&ftl.placement) && !strays,
                compares_planes: L::compares_planes(&ftl.placement),
                sorts_copies: L::sorts_copies(&ftl.placement),
                table_bytes: L::table_bytes(
                    &ftl.placement,
                    geometry.logical_units.into(),
                    geometry.blocks().into(),
                ),
            },
            placement,
            gathering,
            table,
            retained: Retained::new(config),
            journal: Journal::new(config, geometry).map(Box::new),
            removable: RemovablePages::new(config, geometry).map(Box::new),
            flushes_trims: config.power.trim == DurableTrims::Flush,
            counters: Counters::default(),
            survivors: Vec::with_capacity(geometry.units_per_block() as usize),
            sorting: CopySorting::default(),
            geometry: geometry.clone(),
            config: ftl,
        }
    }
}

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> Taped for PageFtl<V, L, T, CACHED> {
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self {
            geometry,
            config: _,
            copyback: _,
            independent_planes: _,
            table: PageTable { map, translation, fetches },
            blocks,
            placement,
            standing: _,
            gathering,
            retained,
            journal,
            removable,
            flushes_trims: _,
            counters,
            survivors,
            sorting,
        } = self;
        tape.absent(translation.as_ref())?;
        tape.absent(fetches.as_ref())?;
        tape.absent(Some(&*retained).filter(|retained| retained.is_on))?;
        tape.absent(journal.as_ref())?;
        tape.absent(removable.as_ref())?;
        map.tape(geometry, tape)?;
        blocks.tape(tape)?;
        placement.tape(tape)?;
        gathering.tape(tape)?;
        counters.tape(tape)?;
        survivors.tape(tape)?;
        sorting.tape(tape)
    }
}

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> PageFtl<V, L, T, CACHED> {
    #[inline(always)]
    fn lookup(&self, lpn: Lpn) -> Option<Ppn> {
        self.table.lookup(lpn)
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
        if let Some(block) = self.blocks.opened(plane, slot) {
            return Some(block);
        }
        let block = self.blocks.open(nand, plane, slot, keep)?;
        self.block_opened(nand, plane, slot, block);
        Some(block)
    }

    fn block_opened(&mut self, nand: &NandArray, plane: PlaneId, slot: OpenSlot, block: BlockId) {
        if CACHED && let Some(wishes) = self.table.wishes_mut() {
            wishes.opened(block, self.placement.is_for_host(slot));
        }
        self.placement.opened(nand, plane, slot, block);
    }

    /// Pages of `plane` were taken, or became free.
    #[inline(always)]
    fn pages_taken(&mut self, nand: &NandArray, plane: PlaneId) {
        if self.standing.compares_planes {
            self.placement.pages_taken(nand, plane, self.blocks.free(plane));
        }
    }

    #[cold]
    fn full(&self, plane: PlaneId, what: &str) -> Box<RunError> {
        Box::new(RunError::Full(format!(
            "the drive is full: plane {} has no block worth collecting and too few free ones ({}) for {what}. \
             This is a defect of ftlab: validation leaves room for all that is written",
            plane.0,
            self.blocks.free(plane),
        )))
    }

    /// Write an access to pages of one unit.
    #[inline(always)]
    fn write_one<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: T,
    ) -> FlashResult<T> {
        let after = self.translate(flash, access, Intent::Write, after)?;
        let place = self.place(flash, access)?;
        // Looked up after collection, which may have moved it.
        let old = self.lookup(access.lpn);
        let mut after = after;
        let missing = self.geometry.sectors_per_unit - access.sectors;
        if let (Some(old), true) = (old, missing > 0) {
            after = flash.read(self.geometry.page_of(old), missing, access.cause, after)?;
            after = flash.after_old_requests(after);
            self.counters.read_modify_writes += 1;
        }
        let done = self.append_written(flash, place, access, &[access.lpn], &[old], after)?;
        self.pages_taken(&flash.nand, place.plane);
        Ok(done)
    }

    #[inline(always)]
    fn append_written<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        place: Place,
        access: &Access<'_>,
        units: &[Lpn],
        old: &[Option<Ppn>],
        after: T,
    ) -> FlashResult<T> {
        if self.retained.is_on {
            return self.append_retaining(flash, place, access, units, old, after);
        }
        self.append_plain(flash, place, access, units, (old, false), after)
    }

    /// Append what an access writes; the old places stay live where they are kept.
    #[inline(always)]
    fn append_plain<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        place: Place,
        access: &Access<'_>,
        units: &[Lpn],
        (old, keeps_old): (&[Option<Ppn>], bool),
        after: T,
    ) -> FlashResult<T> {
        let append =
            Append { place, units, old, keeps_old, data: Data::Written(access), cause: access.cause };
        let PageTable { map, translation, .. } = &mut self.table;
        self.blocks.append(flash, &append, map, after, |map, lpn, old| {
            if CACHED {
                PageTable::<T, CACHED>::entry_changed(translation, map, &self.geometry, lpn, old);
            }
        })
    }

    /// Write an access to a page of several units; the slots that it does not fill stay empty.
    fn write_several<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: T,
    ) -> FlashResult<T> {
        let per_unit = self.geometry.sectors_per_unit;
        let mut after = self.translate(flash, access, Intent::Write, after)?;
        let place = self.place(flash, access)?;
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
            after = flash.after_old_requests(after);
        }
        let done = self.append_written(flash, place, access, units, old, after)?;
        if CACHED {
            self.settle(flash)?;
        }
        self.pages_taken(&flash.nand, place.plane);
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
            self.counters.unmapped_reads += u64::from(access.cause == Cause::Host);
            after
        };
        flash.load(found, access, 0, versions);
        Ok(done)
    }

    /// Where the page of an access goes: a plane that can take it, and its open block.
    #[inline(always)]
    fn place<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
    ) -> FlashResult<Place> {
        let (turn, slot) = if self.standing.goes_by_address {
            (access.lpn.0 >> self.standing.page_shift, 0)
        } else if self.standing.strays {
            // Taken apart and put together: what others write as a whole is kept in memory, and waited for.
            let Place { plane, slot, block } = self.place_straying(flash, access)?;
            return Ok(Place { plane, slot, block });
        } else {
            self.ask_placement(access)
        };
        let gathers = CACHED && self.gathering.is_on();
        self.place_from(flash, access, (turn, slot), gathers)
    }

    /// As `place`, where pages of a plane that has addresses of its own have units of other planes as well.
    #[cold]
    #[inline(never)]
    fn place_straying<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
    ) -> FlashResult<Place> {
        let at = self.ask_placement(access);
        self.place_from(flash, access, at, true)
    }

    /// Where a page goes whose turn it is at `turn`; with `gathers`, to no plane that was given too much if there are others.
    #[inline(always)]
    fn place_from<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        (mut turn, slot): (u32, OpenSlot),
        gathers: bool,
    ) -> FlashResult<Place> {
        let turns = self.standing.order.len();
        for step in 0..if gathers { 2 * turns } else { turns } {
            let first = self.standing.order.at(turn);
            // Once round without planes that were given too much.
            if gathers && step < turns && !self.has_room_beyond(&flash.nand, first) {
                turn = if turn + 1 == turns { 0 } else { turn + 1 };
                continue;
            }
            let die = self.geometry.die_of(first);
            if self.blocks.is_low(die) {
                self.collect(flash, die)?;
            }
            let plane = if self.standing.compares_planes {
                let table = &self.table;
                self.placement.plane(&flash.nand, first, || table.lookup(access.lpn))
            } else {
                first
            };
            if !CACHED && self.blocks.is_ahead(die) {
                self.collect_ahead(flash, plane)?;
            }
            if let Some(block) = self.open_block(&mut flash.nand, plane, slot, 1) {
                self.placed(slot, turn);
                return Ok(Place { plane, slot, block });
            }
            if let Some((plane, block)) = self.place_beside(flash, plane, slot) {
                self.placed(slot, turn);
                return Ok(Place { plane, slot, block });
            }
            if !self.placement.may_go_on() && !gathers {
                return Err(self.full(plane, "host writes"));
            }
            turn = if turn + 1 == turns { 0 } else { turn + 1 };
        }
        Err(self.full(self.standing.order.at(turn), "host writes"))
    }

    #[inline(never)]
    fn ask_placement(&mut self, access: &Access<'_>) -> (u32, OpenSlot) {
        let table = &self.table;
        self.placement.host(access, |lpn| table.lookup(lpn))
    }

    #[inline(always)]
    fn placed(&mut self, slot: OpenSlot, turn: u32) {
        if self.standing.goes_by_turn {
            self.placement.placed(slot, turn);
        }
    }

    /// Where planes of a die are compared, one beside `plane`, which is full, can take the page.
    #[cold]
    fn place_beside<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        slot: OpenSlot,
    ) -> Option<(PlaneId, BlockId)> {
        if self.standing.order.len() == self.geometry.planes() {
            return None;
        }
        let first = self.geometry.first_plane(self.geometry.die_of(plane));
        let mut planes = (first.0..first.0 + self.geometry.planes_per_die()).map(PlaneId);
        planes.find_map(|plane| {
            let block = self.open_block(&mut flash.nand, plane, slot, 1)?;
            Some((plane, block))
        })
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

impl<V: VictimPolicy, L: Placement, P: FlashPort, const CACHED: bool> Layer<P>
    for PageFtl<V, L, P::Ticket, CACHED>
{
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
                if self.blocks.is_low(die) {
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
                None => self.counters.unmapped_reads += u64::from(access.cause == Cause::Host),
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
        flash.begin_group(access.group.id);
        if self.geometry.slots_per_page == 1 {
            self.write_one(flash, access, after)
        } else {
            self.write_several(flash, access, after)
        }
    }

    fn trim(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        flash.begin_group(access.group.id);
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
                self.mark_removable(flash, ppn, false);
                self.blocks.invalidate(flash, ppn)?;
                self.table.forget(&self.geometry, lpn, ppn);
                self.note_trimmed(flash, lpn, ppn);
            }
        }
        self.end_trim(flash)?;
        Ok(after)
    }

    /// Nothing is buffered: what was acknowledged is in flash, but for trims.
    fn flush(&mut self, flash: &mut Flash<P>, after: P::Ticket) -> FlashResult<P::Ticket> {
        if !self.flushes_trims {
            return Ok(after);
        }
        let written = self.flush_trims(flash)?;
        Ok(flash.port.join(after, written))
    }

    fn home(&self, lpn: Lpn) -> Option<u32> {
        if !(self.standing.goes_by_address || self.standing.strays) {
            return None;
        }
        let plane = self.standing.order.at(lpn.0 >> self.standing.page_shift);
        Some(if self.independent_planes { plane.0 } else { self.geometry.die_of(plane).0 })
    }

    fn natural_block(&self) -> u32 {
        self.geometry.units_per_block()
    }

    fn copy_of(&self, lpn: Lpn) -> Option<Ppn> {
        self.lookup(lpn)
    }

    fn set_removable(&mut self, flash: &mut Flash<P>, lpn: Lpn, is: bool, since: P::Ticket) -> P::Ticket {
        let Some(ppn) = self.lookup(lpn) else { return flash.port.ready() };
        self.mark_removable(flash, ppn, is);
        let block = self.geometry.block_of(ppn);
        flash.guard_until(block, since);
        flash.relied_on(block)
    }

    fn drop_copy(&mut self, flash: &mut Flash<P>, lpn: Lpn, since: P::Ticket) -> FlashResult<()> {
        self.drop_stale(flash, lpn, since)
    }

    fn take_removed(&mut self, removed: &mut Vec<Lpn>) {
        self.take_skipped(removed);
    }

    #[inline(always)]
    fn prefetch(&self, nand: &NandArray, lpns: &[Lpn], stage: u32) {
        if let Some(translation) = &self.table.translation {
            for lpn in lpns {
                translation.cache.look_ahead(*lpn, stage);
            }
        }
        if stage == 0 {
            for lpn in lpns {
                self.table.map.prefetch(*lpn);
            }
            return;
        }
        for lpn in lpns {
            let Some(ppn) = self.lookup(*lpn) else { continue };
            if stage == 1 {
                nand.prefetch(ppn);
            } else {
                let block = self.geometry.block_of(ppn);
                self.blocks.victims.prefetch(block, nand.valid_units(block));
            }
        }
    }

    fn report(&self, report: &mut Report) {
        report.unmapped_reads += self.counters.unmapped_reads;
        report.read_modify_writes += self.counters.read_modify_writes;
        report.add(&self.counters.gc);
        if let Some(journal) = &self.journal {
            report.add(&journal.counts());
        }
        if let Some(translation) = &self.table.translation {
            report.add(&translation.summary());
        }
    }

    fn sample(&self, readings: &mut Readings) {
        if let Some(translation) = &self.table.translation {
            translation.sample(readings);
        }
    }

    fn reset_counters(&mut self) {
        self.counters = Counters::default();
        if let Some(journal) = &mut self.journal {
            journal.reset_counters();
        }
        if let Some(translation) = &mut self.table.translation {
            translation.reset();
        }
    }

    fn free_blocks(&self) -> u64 {
        self.blocks.free_in_all()
    }

    fn verify(&self, nand: &NandArray) -> Result<(), String> {
        nand.verify()?;
        let mapped = self.table.verify(nand)?;
        let live: u64 =
            (0..self.geometry.blocks()).map(|block| u64::from(nand.valid_units(BlockId(block)))).sum();
        if live != mapped + self.retained.live() {
            return Err(format!("{mapped} logical units are mapped, but {live} physical units are live"));
        }
        self.blocks.verify(nand)?;
        self.verify_removable(|ppn| nand.is_valid(ppn))?;
        match &self.table.translation {
            Some(translation) => translation.verify(self.table.map.plain()),
            None => Ok(()),
        }
    }

    fn table_bytes(&self) -> u64 {
        self.table.table_bytes()
            + self.blocks.table_bytes()
            + self.standing.table_bytes
            + self.survivors.capacity() as u64 * 4
            + self.sorting.table_bytes()
            + self.removable.as_ref().map_or(0, |removable| removable.table_bytes())
            + self.journal.as_ref().map_or(0, |journal| journal.table_bytes())
    }
}

impl<
    V: VictimPolicy<Keys = VictimChoice>,
    L: Placement<Keys = PlacementChoice>,
    P: FlashPort,
    const CACHED: bool,
> Ftl<P> for PageFtl<V, L, P::Ticket, CACHED>
{
    type On<Q: FlashPort> = PageFtl<V, L, Q::Ticket, CACHED>;

    fn with_port<Q: FlashPort>(self, port: &Q) -> PageFtl<V, L, Q::Ticket, CACHED> {
        PageFtl {
            geometry: self.geometry,
            config: self.config,
            copyback: self.copyback,
            independent_planes: self.independent_planes,
            table: self.table.with_port(port),
            // Lists that have grown begin anew, as those of a copy do: what a drive takes must not tell whether it is one.
            blocks: self.blocks.into_copy(),
            placement: self.placement,
            standing: self.standing,
            gathering: self.gathering,
            retained: self.retained,
            journal: self.journal.map(|journal| Box::new(journal.with_port())),
            removable: self.removable,
            flushes_trims: self.flushes_trims,
            counters: self.counters,
            survivors: self.survivors.clone(),
            sorting: self.sorting.clone(),
        }
    }

    fn fill_blocks(&mut self, flash: &mut Flash<P>, cause: Cause, versions: &[u32]) -> FlashResult<()> {
        self.fill_block_by_block(flash, cause, versions)
    }

    fn fill_in_turn(&mut self, flash: &mut Flash<P>, from: Lpn, cause: Cause) -> FlashResult<u32> {
        self.fill_page_by_page(flash, from, cause)
    }

    fn mount(config: &DeviceConfig, seed: u64, flash: &mut Flash<P>, newer: &[Newer]) -> FlashResult<Self> {
        Self::mounted(config, seed, flash, newer)
    }

    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        Taped::tape(self, tape)
    }

    fn most_free_blocks(&self) -> u32 {
        self.blocks.most_free()
    }

    fn most_commands_of_access(config: &DeviceConfig) -> u64 {
        capacity::most_commands_of_access(config)
    }
}
