//! Page mapping: any logical unit may be anywhere.
//!
//! Every access to a die first looks whether one of its planes is short of free blocks and collects there, one victim
//! at a time and planes in turn. A write then takes the next page of an open block of the plane that allocation
//! names. Copies of collection stay in their plane.
//!
//! With a mapping cache (`CACHED`) the table is in flash as well: translation pages are units behind the logical ones,
//! so that the table of units is their directory too, and blocks of their own take them. They are collected as data
//! are. Data that collection moves change entries in memory where they are there; for the others their translation
//! pages are written, each once, after the collection. Where the mapping cache wants logical blocks in order, collection
//! finds them, and they go to open blocks of their own, each logical block to the plane that its number says: so planes
//! get as much as they give, and none gets more than leaves it half of its spare space. Where writes bring it beyond that
//! all the same, because they take apart what others have, they go to the next plane.

use std::ops::Range;

use crate::config::{DeviceConfig, FtlConfig, GcOpenBlock, GcWhen, PlaneChoice, Striping, WearLeveling};
use crate::device::RunError;
use crate::flash::nand::{NandArray, Outcome};
use crate::flash::port::FlashPort;
use crate::flash::{Cause, Flash};
use crate::ftl::allocator::{FreeBlocks, OpenBlock, OpenSlot, PlaneOrder};
use crate::ftl::gc::{VictimPolicy, Victims};
use crate::ftl::{Ftl, FtlCounters, PageOp};
use crate::geometry::{BlockId, DieId, Geometry, Lpn, PageAt, PlaneId, Ppn};
use crate::mapcache::cftl::follow;
use crate::mapcache::translation::Translation;
use crate::mapcache::{Intent, Lookup, MapOp};
use crate::rng::Rng;
use crate::table;

/// Entry of a logical unit that holds nothing.
const UNMAPPED: u32 = u32::MAX;

/// Most slots of a page, by validation.
const MAX_SLOTS: usize = 16;

/// Runs to be put in order that wait at a time.
const MAX_SCATTERED: usize = 64;

#[derive(Debug)]
struct Plane {
    free: FreeBlocks,
    /// One for each stream, then one for copies unless they share the first, one for logical blocks in order if the mapping
    /// cache gathers them, and one for translation pages.
    open: Vec<OpenBlock>,
    erases: u32,
    /// Live units when they were last counted, and `erases` then.
    live: (u64, u32),
}

/// What `plane_choice = "most_free"` compares of a plane.
#[derive(Debug, Clone, Copy)]
struct Room {
    /// Free pages, those of the block opened last included.
    pages: u32,
    /// The block opened last, where pages are written now; `u32::MAX` when there was none.
    newest: u32,
    /// When that was; `u32::MAX` when there was none.
    opened: u32,
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
#[derive(Debug)]
pub struct PageFtl<V = Victims, const CACHED: bool = false> {
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

impl<V: VictimPolicy, const CACHED: bool> PageFtl<V, CACHED> {
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
            high_free_blocks: ftl.gc_high_free_blocks.max(ftl.gc_low_free_blocks + 1),
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

    /// Start again after a power cut, from what flash holds: `self` is what was in memory, of which only the configuration
    /// is used (and what translation pages hold, which is kept there instead of in the array).
    ///
    /// The spare area of every programmed page is read, with cause `recovery`; of several pages of a unit, the one that was
    /// programmed last has its data. Blocks that were being filled are filled on. Translation pages that do not have what
    /// is found are written again. Trims are not in flash: what was trimmed may come back.
    ///
    /// # Errors
    /// When flash was made without verification, and so does not know in which order it was programmed; and as a write.
    pub fn mount<P: FlashPort>(
        self,
        config: &DeviceConfig,
        seed: u64,
        flash: &mut Flash<P>,
    ) -> Outcome<Self> {
        if !flash.nand.verifies() {
            let text = "a mount needs the order in which pages were programmed, which flash keeps with verification only";
            return Err(Box::new(RunError::Rule(text.into())));
        }
        let mut new = Self::new(config, &self.geometry, seed, true);
        if let (Some(new), Some(old)) = (&mut new.translation, self.translation) {
            new.inherit(old);
        }
        new.find_data(flash)?;
        for plane in (0..new.geometry.planes()).map(PlaneId) {
            new.find_blocks(flash, plane)?;
        }
        let Self { translation, map, geometry, .. } = &mut new;
        if let Some(translation) = translation {
            translation.find_outdated(&map[..geometry.logical_units as usize]);
        }
        new.settle(flash)?;
        Ok(new)
    }

    /// Where every unit is, by the spare areas.
    fn find_data<P: FlashPort>(&mut self, flash: &mut Flash<P>) -> Outcome<()> {
        let ready = flash.port.ready();
        flash.nand.forget_validity();
        for block in (0..self.geometry.blocks()).map(BlockId) {
            for index in 0..flash.nand.next_page(block) {
                let page = PageAt { block, index };
                if !flash.nand.is_written(page) {
                    continue;
                }
                flash.read(page, 0, Cause::Recovery, ready)?;
                let first = self.geometry.unit(page).0;
                for ppn in (first..first + self.geometry.slots_per_page).map(Ppn) {
                    let Some(lpn) = flash.nand.lpn(ppn) else { continue };
                    if CACHED && lpn.0 >= self.geometry.logical_units {
                        self.map_blocks[block.index()] = true;
                    }
                    let known = self.lookup(lpn);
                    if known.is_none_or(|known| flash.nand.order(known) < flash.nand.order(ppn)) {
                        self.map[lpn.index()] = ppn.0;
                    }
                }
            }
        }
        for entry in self.map.iter().filter(|entry| **entry != UNMAPPED) {
            flash.nand.revive(Ppn(*entry));
        }
        Ok(())
    }

    /// Which blocks of `plane` are free, full, and being filled.
    fn find_blocks<P: FlashPort>(&mut self, flash: &mut Flash<P>, plane: PlaneId) -> Outcome<()> {
        while self.planes[plane.index()].free.take().is_some() {}
        let mut extra = Vec::new();
        for row in 0..self.geometry.blocks_per_plane() {
            let block = self.geometry.block(plane, row);
            if flash.nand.next_page(block) == 0 {
                self.planes[plane.index()].free.give(row, flash.nand.erases(block));
            } else if self.is_full(&flash.nand, block) {
                self.victims.on_seal(block, flash.nand.valid_units(block));
            } else {
                // That for copies first: copies need a place before anything else does.
                let open = &self.planes[plane.index()].open;
                let data_slots = open.len() - usize::from(CACHED);
                let is_free = |slot: &OpenSlot| open[*slot].is_none();
                let slot = if self.holds_translation(block) {
                    Some(self.map_slot()).filter(is_free)
                } else {
                    std::iter::once(self.gc_slot).chain((0..data_slots).rev()).find(is_free)
                };
                match slot {
                    Some(slot) => self.planes[plane.index()].open[slot] = Some(block),
                    None => extra.push(block),
                }
            }
        }
        // Wear levelling may have had one more than there are places for.
        for block in extra {
            self.pad(flash, block, Cause::Recovery)?;
        }
        if self.planes[plane.index()].free.is_empty() {
            self.finish_collection(flash, plane)?;
        }
        let die = self.geometry.die_of(plane);
        if self.planes[plane.index()].free.len() <= self.config.gc_low_free_blocks {
            self.dies[die.index()].low |= 1 << (plane.0 - self.geometry.first_plane(die).0);
        }
        if let Some(block) = self.planes[plane.index()].open[0] {
            let room = &mut self.rooms[plane.index()];
            (room.newest, room.opened) = (block.0, flash.nand.sequence(block));
        }
        self.measure_room(&flash.nand, plane);
        if self.config.plane_choice == PlaneChoice::MostFree {
            self.compare_rooms(die, self.geometry.first_plane(die));
        }
        Ok(())
    }

    /// The power went while the last free block of `plane` was taking copies: what was left of their victim fits there still.
    fn finish_collection<P: FlashPort>(&mut self, flash: &mut Flash<P>, plane: PlaneId) -> Outcome<()> {
        let pages = |valid: u32| valid.div_ceil(self.geometry.slots_per_page);
        let slot_for =
            |block: BlockId| if self.holds_translation(block) { self.map_slot() } else { self.gc_slot };
        let fits = |block: &BlockId| {
            let valid = flash.nand.valid_units(*block);
            let room = self.planes[plane.index()].open[slot_for(*block)]
                .map_or(0, |open| self.geometry.data_pages_per_block - flash.nand.next_page(open));
            self.is_full(&flash.nand, *block) && pages(valid) <= room
        };
        let blocks = (0..self.geometry.blocks_per_plane()).map(|row| self.geometry.block(plane, row));
        let victim = blocks.filter(fits).min_by_key(|block| flash.nand.valid_units(*block));
        if let Some((victim, slot)) = victim.map(|victim| (victim, slot_for(victim))) {
            self.victims.remove(victim, flash.nand.valid_units(victim));
            self.empty_block(flash, plane, victim, slot, Cause::Recovery)?;
        }
        Ok(())
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

    /// Which plane takes the page that `lpn` is written to, when it is the turn of `plane` or of its die.
    #[inline(always)]
    fn plane_for(&mut self, nand: &NandArray, plane: PlaneId, lpn: Lpn) -> PlaneId {
        match self.config.plane_choice {
            PlaneChoice::Ordered => plane,
            PlaneChoice::MostFree => self.most_free_plane(nand, self.geometry.die_of(plane), lpn),
        }
    }

    /// The plane with most free pages among those whose open block is newer than where `lpn` is now.
    #[inline]
    fn most_free_plane(&mut self, nand: &NandArray, die: DieId, lpn: Lpn) -> PlaneId {
        // Openings have different numbers: an open block of the same number is the place itself. Without a current place
        // every open block is newer.
        let age = self.lookup(lpn).map_or(0, |ppn| nand.sequence(self.geometry.block_of(ppn)));
        let first = self.geometry.first_plane(die);
        let Die { next_written: start, roomiest, oldest_open, .. } = self.dies[die.index()];
        let chosen = if oldest_open >= age {
            // The first from `start` on, and round.
            let from = roomiest >> start;
            if from != 0 { start + from.trailing_zeros() } else { roomiest.trailing_zeros() }
        } else {
            self.most_free_newer(first, start, age)
        };
        let next = chosen + 1;
        self.dies[die.index()].next_written = if next == self.geometry.planes_per_die() { 0 } else { next };
        PlaneId(first.0 + chosen)
    }

    /// The same where not every open block is newer than `age`.
    fn most_free_newer(&self, first: PlaneId, start: u32, age: u32) -> u32 {
        let count = self.geometry.planes_per_die();
        // Without a newer open block (every one is older than a copy just made) the next in turn has to do.
        let (mut chosen, mut most) = (start, 0);
        for at in (start..count).chain(0..start) {
            let Room { pages, opened, .. } = self.rooms[first.index() + at as usize];
            if opened >= age && pages > most {
                (chosen, most) = (at, pages);
            }
        }
        chosen
    }

    /// The free pages of `plane` have changed.
    #[inline(always)]
    fn measure_room(&mut self, nand: &NandArray, plane: PlaneId) {
        if self.config.plane_choice == PlaneChoice::MostFree {
            self.count_room(nand, plane);
        }
    }

    fn count_room(&mut self, nand: &NandArray, plane: PlaneId) {
        let room = &mut self.rooms[plane.index()];
        // A full block counts the page of its summary as room: so does the rule's source.
        let open = if room.newest == u32::MAX {
            0
        } else {
            let next = nand.next_page(BlockId(room.newest));
            self.geometry.pages_per_block() - next.min(self.geometry.data_pages_per_block)
        };
        let pages = self.planes[plane.index()].free.len() * self.geometry.pages_per_block() + open;
        room.pages = pages;
        let die = self.geometry.die_of(plane);
        let first = self.geometry.first_plane(die);
        let bit = 1 << (plane.0 - first.0);
        let state = &mut self.dies[die.index()];
        if pages < state.most_room && state.roomiest != bit {
            state.roomiest &= !bit;
            state.second_room = state.second_room.max(pages);
        } else if pages > state.second_room && pages < state.most_room {
            state.most_room = pages;
        } else {
            self.compare_rooms(die, first);
        }
    }

    /// Find the planes of `die` with most free pages.
    fn compare_rooms(&mut self, die: DieId, first: PlaneId) {
        let rooms = &self.rooms[first.index()..][..self.geometry.planes_per_die() as usize];
        let state = &mut self.dies[die.index()];
        state.most_room = rooms.iter().map(|room| room.pages).max().unwrap_or(0);
        let has_most = |room: &Room| u64::from(room.pages == state.most_room);
        state.roomiest = rooms.iter().rev().fold(0, |bits, room| bits << 1 | has_most(room));
        let others = rooms.iter().map(|room| room.pages).filter(|pages| *pages != state.most_room);
        state.second_room = others.max().unwrap_or(0);
        state.oldest_open = rooms.iter().map(|room| room.opened).min().unwrap_or(0);
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
    fn seal<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        slot: OpenSlot,
        block: BlockId,
        after: P::Ticket,
    ) -> Outcome<P::Ticket> {
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
    fn invalidate<P: FlashPort>(&mut self, flash: &mut Flash<P>, ppn: Ppn) -> Outcome<()> {
        let (block, valid) = flash.invalidate(ppn)?;
        if self.is_full(&flash.nand, block) {
            self.victims.on_invalidate(block, valid);
        }
        Ok(())
    }

    /// Where translation pages are written.
    #[inline]
    fn map_slot(&self) -> OpenSlot {
        self.planes[0].open.len() - 1
    }

    fn holds_translation(&self, block: BlockId) -> bool {
        CACHED && self.map_blocks[block.index()]
    }

    /// The first unit of a translation page, among all units.
    fn unit_of_translation(&self, tpn: u32) -> Lpn {
        Lpn(self.geometry.logical_units + tpn * self.geometry.slots_per_page)
    }

    /// Look up the entries of an access's units. The ticket is that of the moment when they are known.
    #[inline(always)]
    fn translate<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        op: &PageOp,
        intent: Intent,
        after: P::Ticket,
    ) -> Outcome<P::Ticket> {
        let mut after = after;
        if CACHED {
            for index in 0..op.units {
                after = self.translate_one(flash, op, index, intent, after)?;
            }
        }
        Ok(after)
    }

    fn translate_one<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        op: &PageOp,
        index: u32,
        intent: Intent,
        after: P::Ticket,
    ) -> Outcome<P::Ticket> {
        let Some(translation) = &mut self.translation else { return Ok(after) };
        let lookup = Lookup { lpn: Lpn(op.lpn.0 + index), intent, rest: op.rest + op.units - 1 - index };
        translation.lookup(lookup, &self.map[..self.geometry.logical_units as usize]);
        if translation.ops.is_empty() {
            return Ok(after);
        }
        let ops = std::mem::take(&mut translation.ops);
        let mut done = after;
        // One after the other: memory must have room before it is filled.
        for op in &ops {
            done = match *op {
                MapOp::Fetch { tpn, bytes } => self.read_translation(flash, tpn, bytes, done)?,
                MapOp::WriteBack { tpn, rest_bytes } => {
                    let read = if rest_bytes > 0 {
                        self.read_translation(flash, tpn, rest_bytes, done)?
                    } else {
                        done
                    };
                    self.write_translation(flash, tpn, read)?
                }
                MapOp::Probe { predicted, actual } => self.probe(flash, Ppn(predicted), Ppn(actual), done)?,
            };
        }
        if let Some(translation) = &mut self.translation {
            translation.ops = ops;
        }
        self.settle(flash)?;
        Ok(done)
    }

    /// Read the unit that was taken for `actual`. Spare areas name the units of their own block: when the prediction left
    /// it, its page nearest to the prediction is read as well. A page that was never written has nothing to say.
    #[cold]
    fn probe<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        predicted: Ppn,
        actual: Ppn,
        after: P::Ticket,
    ) -> Outcome<P::Ticket> {
        let mut done = after;
        let home = self.geometry.block_of(actual);
        let first = self.geometry.first_unit(home);
        let pages = self.geometry.data_pages_per_block;
        let edge = if predicted < first { 0 } else { pages - 1 };
        let mut tried = predicted.0 < self.geometry.physical_units();
        let mut page =
            if tried { self.geometry.page_of(predicted) } else { PageAt { block: home, index: edge } };
        loop {
            if page.index < flash.nand.next_page(page.block) {
                done = flash.read(page, self.geometry.sectors_per_unit, Cause::Map, done)?;
            }
            if !tried || page.block == home {
                return Ok(done);
            }
            (tried, page) = (false, PageAt { block: home, index: edge });
        }
    }

    /// Read a part of a translation page; one that was never written says that nothing is mapped, and costs nothing.
    fn read_translation<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        tpn: u32,
        bytes: u32,
        after: P::Ticket,
    ) -> Outcome<P::Ticket> {
        let Some(ppn) = self.lookup(self.unit_of_translation(tpn)) else { return Ok(after) };
        if let Some(translation) = &mut self.translation {
            translation.counts.flash_reads += 1;
        }
        flash.read_translation(self.geometry.page_of(ppn), bytes, after)
    }

    /// Write a translation page. What collection moves for it stays pending.
    fn write_translation<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        tpn: u32,
        after: P::Ticket,
    ) -> Outcome<P::Ticket> {
        let slot = self.map_slot();
        let turns = self.order.len();
        let mut chosen = None;
        for step in 0..turns {
            let plane = self.order.at((tpn + step) % turns);
            let die = self.geometry.die_of(plane);
            if self.dies[die.index()].low != 0 {
                self.collect_die(flash, die)?;
            }
            if let Some(block) = self.open_block(&mut flash.nand, plane, slot, 1) {
                chosen = Some((plane, block));
                break;
            }
        }
        let Some((plane, block)) = chosen else {
            return Err(self.full(self.order.at(tpn % turns), "translation pages"));
        };
        let slots = self.geometry.slots_per_page;
        let first = self.unit_of_translation(tpn);
        // Looked up after collection, which may have moved it.
        let old = self.lookup(first);
        let mut units = [Lpn(0); MAX_SLOTS];
        for (at, unit) in (0..slots).zip(&mut units) {
            *unit = Lpn(first.0 + at);
        }
        let page = PageAt { block, index: flash.nand.next_page(block) };
        let mut done = flash.program(page, &units[..slots as usize], Cause::Map, after)?;
        if page.index + 1 == self.geometry.data_pages_per_block {
            done = self.seal(flash, plane, slot, block, done)?;
        }
        let new = self.geometry.unit(page);
        for at in 0..slots {
            if let Some(old) = old {
                self.invalidate(flash, Ppn(old.0 + at))?;
            }
            self.map[(first.0 + at) as usize] = new.0 + at;
        }
        if let Some(translation) = &mut self.translation {
            translation.counts.flash_programs += 1;
            translation.written(tpn, &self.map);
        }
        Ok(done)
    }

    /// Write the translation pages of moved data whose entries are not in memory. Collections on the way may move more.
    fn settle<P: FlashPort>(&mut self, flash: &mut Flash<P>) -> Outcome<()> {
        let ready = flash.port.ready();
        // A drive with too little spare space would collect for translation pages for ever.
        let mut left = 64 * u64::from(self.geometry.blocks()) + 64 * self.map.len() as u64;
        while let Some(tpn) = self.translation.as_mut().and_then(Translation::next_pending) {
            let bytes = self.geometry.page_bytes;
            let read = self.read_translation(flash, tpn, bytes, ready)?;
            if let Some(translation) = &mut self.translation {
                translation.counts.gc_updates += 1;
                translation.cache.rewritten(tpn);
            }
            self.write_translation(flash, tpn, read)?;
            left -= 1;
            if left == 0 {
                return Err(self.full(self.order.at(tpn % self.order.len()), "translation pages"));
            }
        }
        Ok(())
    }

    /// Collect in `die`, and write the translation pages that this takes.
    #[cold]
    #[inline(never)]
    fn collect<P: FlashPort>(&mut self, flash: &mut Flash<P>, die: DieId) -> Outcome<()> {
        self.collect_die(flash, die)?;
        if CACHED { self.settle(flash) } else { Ok(()) }
    }

    /// Collect in `die` until none of its planes is short of free blocks, or nothing can be gained.
    fn collect_die<P: FlashPort>(&mut self, flash: &mut Flash<P>, die: DieId) -> Outcome<()> {
        let count = self.geometry.planes_per_die();
        let first = self.geometry.first_plane(die);
        let mut untried = self.dies[die.index()].low;
        // Policies that draw blindly may find wholly live victims again and again: a full drive would go on for ever.
        let mut attempts = 8 * u64::from(self.geometry.blocks_per_plane()) * u64::from(count);
        while untried != 0 && attempts > 0 {
            attempts -= 1;
            let turn = self.dies[die.index()].next_collected;
            let at = (turn..count).chain(0..turn).find(|at| untried >> at & 1 == 1).unwrap_or(0);
            self.dies[die.index()].next_collected = if at + 1 == count { 0 } else { at + 1 };
            let plane = PlaneId(first.0 + at);
            let collected = self.collect_one(flash, plane)?;
            if self.planes[plane.index()].free.len() >= self.high_free_blocks {
                self.dies[die.index()].low &= !(1 << at);
                untried &= !(1 << at);
            } else if !collected {
                untried &= !(1 << at);
            }
        }
        Ok(())
    }

    /// Collect one victim of `plane`. False when there is none, or none worth it.
    fn collect_one<P: FlashPort>(&mut self, flash: &mut Flash<P>, plane: PlaneId) -> Outcome<bool> {
        let Some(victim) = self.victims.pick(plane) else { return Ok(false) };
        let valid = flash.nand.valid_units(victim);
        // Survivors are packed into whole pages, the last of which may stay partly empty. The emptiest block that would
        // fill as many pages again gains nothing, and no other one does.
        let pages = valid.div_ceil(self.geometry.slots_per_page);
        if pages == self.geometry.data_pages_per_block && self.victims.picks_emptiest() {
            self.victims.on_seal(victim, valid);
            return Ok(false);
        }
        self.counters.gc.collections += 1;
        self.counters.gc.pages_copied += u64::from(valid);
        if self.holds_translation(victim) {
            if let Some(translation) = &mut self.translation {
                translation.counts.collections += 1;
                translation.counts.pages_copied += u64::from(valid);
            }
            self.empty_block(flash, plane, victim, self.map_slot(), Cause::Map)?;
        } else {
            self.empty_block(flash, plane, victim, self.gc_slot, Cause::Gc)?;
        }
        if CACHED && !self.scattered.is_empty() {
            self.put_in_order(flash)?;
        }
        self.level_wear(flash, plane)?;
        if let Some(next) = self.victims.likely_next(plane) {
            flash.nand.prefetch_block(next);
        }
        self.measure_room(&flash.nand, plane);
        Ok(true)
    }

    /// Move the live units of `victim` into the open block `slot` of the same plane, and erase it.
    fn empty_block<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        victim: BlockId,
        slot: OpenSlot,
        cause: Cause,
    ) -> Outcome<()> {
        let mut survivors = std::mem::take(&mut self.survivors);
        survivors.clear();
        let map = &self.map;
        flash.nand.collect_valid(victim, &mut survivors, |lpn| table::prefetch(map, lpn.index()));
        let sorted = |translation: &Translation| translation.cache.wants_sorted_copies();
        let sorted =
            CACHED && !self.map_blocks[victim.index()] && self.translation.as_ref().is_some_and(sorted);
        if sorted {
            survivors.sort_unstable_by_key(|ppn| flash.nand.lpn(*ppn));
        }
        let gathers = CACHED && self.ordered_pages > 0 && cause == Cause::Gc && slot != self.map_slot();
        let mut copied = flash.port.ready();
        let mut rest = survivors.as_slice();
        if gathers {
            self.set_ordered_apart(&flash.nand, &mut survivors);
            // What is too little for a logical block takes others.
            let room = self.ordered_room(&flash.nand, plane);
            let units = if room < self.ordered_pages { room * self.geometry.slots_per_page } else { 0 };
            let front;
            (front, rest) = survivors.split_at(survivors.len().min(units as usize));
            copied = self.copy_units(flash, plane, self.ordered_slot(), front, false, cause)?;
        }
        let done = self.copy_units(flash, plane, slot, rest, !sorted && !gathers, cause)?;
        copied = flash.port.join(copied, done);
        self.units_moved(&flash.nand, victim, &survivors);
        if gathers {
            let done = self.copy_ordered(flash, plane, victim, slot, &mut survivors)?;
            copied = flash.port.join(copied, done);
        }
        self.survivors = survivors;
        flash.erase(victim, cause, copied)?;
        let erases = flash.nand.erases(victim);
        let state = &mut self.planes[plane.index()];
        state.free.give(self.geometry.row_of(victim), erases);
        state.erases += 1;
        Ok(())
    }

    /// Move the units `survivors` into the open block `slot` of their plane. `all`: they are the live ones of a block, in
    /// order.
    #[inline(always)]
    fn copy_units<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        slot: OpenSlot,
        survivors: &[Ppn],
        all: bool,
        cause: Cause,
    ) -> Outcome<P::Ticket> {
        let mut copied = flash.port.ready();
        let mut rest = survivors;
        while !rest.is_empty() {
            let Some(block) = self.open_block(&mut flash.nand, plane, slot, 0) else {
                return Err(self.full(plane, "copies of garbage collection"));
            };
            let moving;
            let mut done;
            if self.copyback && self.geometry.slots_per_page == 1 && all {
                let to = PageAt { block, index: flash.nand.next_page(block) };
                let room = (self.geometry.data_pages_per_block - to.index) as usize;
                (moving, rest) = rest.split_at(room.min(rest.len()));
                let map = self.map.as_mut_slice();
                let ready = flash.port.ready();
                done = flash.copyback_all(moving, to, cause, ready, |lpn, ppn| map[lpn.index()] = ppn.0)?;
            } else {
                (moving, rest) = rest.split_at((self.geometry.slots_per_page as usize).min(rest.len()));
                done = self.copy_page(flash, block, moving, cause)?;
            }
            if self.is_full(&flash.nand, block) {
                done = self.seal(flash, plane, slot, block, done)?;
            }
            copied = flash.port.join(copied, done);
        }
        Ok(copied)
    }

    /// Tell the mapping cache of units that were moved out of `victim`.
    fn units_moved(&mut self, nand: &NandArray, victim: BlockId, survivors: &[Ppn]) {
        if !CACHED {
            return;
        }
        if self.map_blocks[victim.index()] {
            let pages = u64::from(survivors.len() as u32 / self.geometry.slots_per_page);
            if let Some(translation) = &mut self.translation {
                translation.counts.flash_reads += pages;
                translation.counts.flash_programs += pages;
            }
            return;
        }
        // Their old places still name them.
        for lpn in survivors.iter().filter_map(|ppn| nand.lpn(*ppn)) {
            self.unit_moved(lpn);
        }
    }

    fn unit_moved(&mut self, lpn: Lpn) {
        let Some(translation) = &mut self.translation else { return };
        let table = &self.map[..self.geometry.logical_units as usize];
        translation.moved(lpn, table);
        if self.ordered_pages > 0
            && self.scattered.len() < MAX_SCATTERED
            && let Some(units) = translation.cache.wants_gathered(lpn, table)
            && !self.scattered.contains(&units)
        {
            self.scattered.push(units);
        }
    }

    /// Move those that were set apart, each as a whole if there is room for it. `scratch` is for their places.
    fn copy_ordered<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        victim: BlockId,
        slot: OpenSlot,
        scratch: &mut Vec<Ppn>,
    ) -> Outcome<P::Ticket> {
        let mut copied = flash.port.ready();
        while let Some(units) = self.ordered.pop() {
            let done = if let Some(block) = self.block_for_ordered(&mut flash.nand, plane, 1) {
                self.copy_in_order(flash, plane, block, units.clone(), Some(victim))?
            } else {
                scratch.clear();
                scratch.extend(self.map[units.start as usize..units.end as usize].iter().copied().map(Ppn));
                self.copy_units(flash, plane, slot, scratch, false, Cause::Gc)?
            };
            copied = flash.port.join(copied, done);
            for lpn in units.map(Lpn) {
                self.unit_moved(lpn);
            }
        }
        Ok(copied)
    }

    /// Take the logical blocks that are found by one entry, and lie in the victim as a whole, out of `survivors`.
    fn set_ordered_apart(&mut self, nand: &NandArray, survivors: &mut Vec<Ppn>) {
        let Some(translation) = &self.translation else { return };
        let (mut at, mut kept) = (0, 0);
        while at < survivors.len() {
            let ppn = survivors[at];
            let starts = |units: &Range<u32>| {
                let last = Ppn(ppn.0 + units.len() as u32 - 1);
                self.map[units.start as usize] == ppn.0 && survivors.get(at + units.len() - 1) == Some(&last)
            };
            let found = nand.lpn(ppn).and_then(|lpn| translation.block_of(lpn)).filter(starts);
            if let Some(units) = found {
                at += units.len();
                self.ordered.push(units);
            } else {
                survivors[kept] = ppn;
                (at, kept) = (at + 1, kept + 1);
            }
        }
        survivors.truncate(kept);
    }

    /// Where logical blocks are put in order.
    fn ordered_slot(&self) -> OpenSlot {
        self.map_slot() - 1
    }

    /// Pages of `plane` that the open block for logical blocks in order has left; none when it is not open.
    fn ordered_room(&self, nand: &NandArray, plane: PlaneId) -> u32 {
        let open = self.planes[plane.index()].open[self.ordered_slot()];
        open.map_or(0, |block| self.geometry.data_pages_per_block - nand.next_page(block))
    }

    /// The block of `plane` that takes the next logical block in order, if it has room for it or there are more than `keep`
    /// free ones.
    fn block_for_ordered(&mut self, nand: &mut NandArray, plane: PlaneId, keep: u32) -> Option<BlockId> {
        let slot = self.ordered_slot();
        let room = self.ordered_room(nand, plane);
        if room > 0 && room < self.ordered_pages {
            return None;
        }
        self.open_block(nand, plane, slot, keep)
    }

    /// Put the logical blocks in order that collection has found. Only what planes have beyond their need is spent on this.
    fn put_in_order<P: FlashPort>(&mut self, flash: &mut Flash<P>) -> Outcome<()> {
        let mut scattered = std::mem::take(&mut self.scattered);
        let mut at = 0;
        while at < scattered.len() {
            if self.gather(flash, scattered[at].clone())? {
                scattered.swap_remove(at);
            } else {
                at += 1;
            }
        }
        self.scattered = scattered;
        Ok(())
    }

    /// Live units of `plane`, counted once from one erase in it to the next.
    fn live_units(&mut self, nand: &NandArray, plane: PlaneId) -> u64 {
        let state = &mut self.planes[plane.index()];
        if state.live.1 != state.erases {
            let blocks = (0..self.geometry.blocks_per_plane()).map(|row| self.geometry.block(plane, row));
            state.live = (blocks.map(|block| u64::from(nand.valid_units(block))).sum(), state.erases);
        }
        state.live.0
    }

    /// Move the units of a logical block to places that follow each other in one block. False when there is no free block for
    /// it now; what is not wanted any more, or has no place in its plane, is forgotten.
    fn gather<P: FlashPort>(&mut self, flash: &mut Flash<P>, units: Range<u32>) -> Outcome<bool> {
        let Some(translation) = &self.translation else { return Ok(true) };
        let table = &self.map[..self.geometry.logical_units as usize];
        if translation.cache.wants_gathered(Lpn(units.start), table).as_ref() != Some(&units) {
            return Ok(true);
        }
        let places = &table[units.start as usize..units.end as usize];
        if !follow(places) {
            let plane = self.order.at(units.start / units.len() as u32);
            if self.live_units(&flash.nand, plane) + units.len() as u64 > self.ordered_limit {
                return Ok(true);
            }
            let keep = self.config.gc_low_free_blocks.max(1);
            let Some(block) = self.block_for_ordered(&mut flash.nand, plane, keep) else { return Ok(false) };
            self.planes[plane.index()].live.0 += units.len() as u64;
            self.counters.gc.pages_copied += units.len() as u64;
            self.copy_in_order(flash, plane, block, units.clone(), None)?;
            self.measure_room(&flash.nand, plane);
        }
        if let Some(translation) = &mut self.translation {
            translation.cache.gathered(units, &self.map[..self.geometry.logical_units as usize]);
        }
        Ok(true)
    }

    /// Copy a logical block into the next pages of the open block for such. `victim` is being collected.
    fn copy_in_order<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        block: BlockId,
        units: Range<u32>,
        victim: Option<BlockId>,
    ) -> Outcome<P::Ticket> {
        let slots = self.geometry.slots_per_page;
        let ready = flash.port.ready();
        let mut copied = ready;
        for first in units.step_by(slots as usize) {
            let mut lpns = [Lpn(0); MAX_SLOTS];
            let mut old = [Ppn(0); MAX_SLOTS];
            let mut reads = PageReads::new(ready);
            for (at, lpn) in (first..first + slots).map(Lpn).enumerate() {
                (lpns[at], old[at]) = (lpn, Ppn(self.map[lpn.index()]));
                let page = self.geometry.page_of(old[at]);
                reads.add(flash, page, self.geometry.sectors_per_unit, Cause::Gc)?;
            }
            let read = reads.finish(flash, Cause::Gc)?;
            let page = PageAt { block, index: flash.nand.next_page(block) };
            let mut done = flash.program(page, &lpns[..slots as usize], Cause::Gc, read)?;
            let new = self.geometry.unit(page).0;
            for (ppn, old) in (new..new + slots).map(Ppn).zip(old) {
                flash.store_copy(old, ppn);
            }
            if self.is_full(&flash.nand, block) {
                done = self.seal(flash, plane, self.ordered_slot(), block, done)?;
            }
            copied = flash.port.join(copied, done);
            for ((ppn, old), lpn) in (new..new + slots).map(Ppn).zip(old).zip(lpns) {
                if victim == Some(self.geometry.block_of(old)) {
                    flash.invalidate(old)?;
                } else {
                    self.invalidate(flash, old)?;
                }
                self.map[lpn.index()] = ppn.0;
            }
        }
        Ok(copied)
    }

    /// Move the units `moving` into the next page of `block`.
    fn copy_page<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        block: BlockId,
        moving: &[Ppn],
        cause: Cause,
    ) -> Outcome<P::Ticket> {
        let mut units = [Lpn(0); MAX_SLOTS];
        for (unit, ppn) in units.iter_mut().zip(moving) {
            *unit = flash.nand.lpn(*ppn).ok_or_else(|| lost(*ppn))?;
        }
        let units = &units[..moving.len()];
        let to = PageAt { block, index: flash.nand.next_page(block) };
        let from = self.geometry.page_of(moving[0]);
        let ready = flash.port.ready();
        // The command moves a page as it is: it serves when all that moves is the front of one page.
        let whole =
            moving.iter().enumerate().all(|(at, ppn)| ppn.0 == self.geometry.unit(from).0 + at as u32);
        let done = if self.copyback && whole {
            flash.copyback(from, to, units, cause, ready)?
        } else {
            let mut reads = PageReads::new(ready);
            for ppn in moving {
                reads.add(flash, self.geometry.page_of(*ppn), self.geometry.sectors_per_unit, cause)?;
            }
            let read = reads.finish(flash, cause)?;
            flash.program(to, units, cause, read)?
        };
        let destination = self.geometry.unit(to);
        for (at, (lpn, ppn)) in units.iter().zip(moving).enumerate() {
            let new = Ppn(destination.0 + at as u32);
            flash.store_copy(*ppn, new);
            flash.invalidate(*ppn)?;
            self.map[lpn.index()] = new.0;
        }
        Ok(done)
    }

    /// Static wear levelling: now and then, empty the least worn block of a plane into its most worn free one.
    fn level_wear<P: FlashPort>(&mut self, flash: &mut Flash<P>, plane: PlaneId) -> Outcome<()> {
        // A look at every block of the plane, once in a sixteenth as many erases: sixteen steps an erase.
        let interval = (self.geometry.blocks_per_plane() / 16).max(1);
        if self.config.wear_leveling != WearLeveling::Static
            || !self.planes[plane.index()].erases.is_multiple_of(interval)
        {
            return Ok(());
        }
        let state = &self.planes[plane.index()];
        if state.free.len() < 2 {
            return Ok(());
        }
        let blocks = (0..self.geometry.blocks_per_plane()).map(|row| self.geometry.block(plane, row));
        let most = blocks.clone().map(|block| flash.nand.erases(block)).max().unwrap_or(0);
        let sealed = blocks.filter(|block| self.is_full(&flash.nand, *block));
        let Some(coldest) = sealed.min_by_key(|block| flash.nand.erases(*block)) else { return Ok(()) };
        if most - flash.nand.erases(coldest) <= self.config.wear_leveling_threshold {
            return Ok(());
        }
        let Some(row) = self.planes[plane.index()].free.take_most_worn() else { return Ok(()) };
        self.victims.remove(coldest, flash.nand.valid_units(coldest));
        let slot = if self.holds_translation(coldest) { self.map_slot() } else { self.gc_slot };
        // The worn block takes cold data only; the open block for copies waits meanwhile.
        let waiting = self.planes[plane.index()].open[slot].take();
        self.open(&mut flash.nand, plane, slot, row);
        self.empty_block(flash, plane, coldest, slot, Cause::WearLevel)?;
        let worn = std::mem::replace(&mut self.planes[plane.index()].open[slot], waiting);
        if let Some(worn) = worn {
            // Cold data rarely fill a block to the last page, and only full blocks are collected.
            if waiting.is_none() {
                self.planes[plane.index()].open[slot] = Some(worn);
            } else {
                self.pad(flash, worn, Cause::WearLevel)?;
            }
        }
        Ok(())
    }

    /// Fill the rest of `block` with pages without data, and seal it.
    fn pad<P: FlashPort>(&mut self, flash: &mut Flash<P>, block: BlockId, cause: Cause) -> Outcome<()> {
        let ready = flash.port.ready();
        while !self.is_full(&flash.nand, block) {
            let page = PageAt { block, index: flash.nand.next_page(block) };
            flash.program(page, &[], cause, ready)?;
        }
        if self.config.summary_page {
            flash.program_metadata(PageAt { block, index: self.geometry.data_pages_per_block }, ready)?;
        }
        self.victims.on_seal(block, flash.nand.valid_units(block));
        Ok(())
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
    fn write_one<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        op: &PageOp,
        slot: OpenSlot,
        after: P::Ticket,
    ) -> Outcome<P::Ticket> {
        let after = self.translate(flash, op, Intent::Write, after)?;
        let (plane, block) = self.place(flash, op.lpn, slot)?;
        // Looked up after collection, which may have moved it.
        let old = self.lookup(op.lpn);
        let mut after = after;
        let missing = self.geometry.sectors_per_unit - op.sectors;
        if let (Some(old), true) = (old, missing > 0) {
            after = flash.read(self.geometry.page_of(old), missing, Cause::Host, after)?;
            self.counters.read_modify_writes += 1;
        }
        let page = PageAt { block, index: flash.nand.next_page(block) };
        let mut done = flash.program(page, std::slice::from_ref(&op.lpn), Cause::Host, after)?;
        let new = self.geometry.unit(page);
        flash.store(new, op.first_sector..op.first_sector + op.sectors, old);
        // Sealed before the old data become stale: they may be in the same block.
        if page.index + 1 == self.geometry.data_pages_per_block {
            done = self.seal(flash, plane, slot, block, done)?;
        }
        if let Some(old) = old {
            self.invalidate(flash, old)?;
        }
        self.map[op.lpn.index()] = new.0;
        self.entry_changed(op.lpn, old);
        self.measure_room(&flash.nand, plane);
        Ok(done)
    }

    /// Write an access to a page of several units; the slots that it does not fill stay empty.
    fn write_several<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        op: &PageOp,
        slot: OpenSlot,
        after: P::Ticket,
    ) -> Outcome<P::Ticket> {
        let per_unit = self.geometry.sectors_per_unit;
        let mut after = self.translate(flash, op, Intent::Write, after)?;
        let (plane, block) = self.place(flash, op.lpn, slot)?;
        // Old data are looked up after collection, which may have moved them.
        let mut old = [None; MAX_SLOTS];
        let mut units = [Lpn(0); MAX_SLOTS];
        let mut partial = false;
        for index in 0..op.units {
            let lpn = Lpn(op.lpn.0 + index);
            units[index as usize] = lpn;
            old[index as usize] = self.lookup(lpn);
            partial |= op.sectors_of(index, per_unit).len() as u32 != per_unit;
        }
        let (old, units) = (&old[..op.units as usize], &units[..op.units as usize]);
        if partial {
            let mut reads = PageReads::new(after);
            for (index, old) in (0..).zip(old) {
                let missing = per_unit - op.sectors_of(index, per_unit).len() as u32;
                if let (Some(old), true) = (old, missing > 0) {
                    reads.add(flash, self.geometry.page_of(*old), missing, Cause::Host)?;
                    self.counters.read_modify_writes += 1;
                }
            }
            after = reads.finish(flash, Cause::Host)?;
        }
        let page = PageAt { block, index: flash.nand.next_page(block) };
        let mut done = flash.program(page, units, Cause::Host, after)?;
        let first = self.geometry.unit(page);
        for (index, old) in (0..).zip(old) {
            flash.store(Ppn(first.0 + index), op.sectors_of(index, per_unit), *old);
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

    /// The host has changed the entry of `lpn`, which was `old`.
    #[inline(always)]
    fn entry_changed(&mut self, lpn: Lpn, old: Option<Ppn>) {
        if let (true, Some(translation)) = (CACHED, &mut self.translation) {
            let old = old.map_or(UNMAPPED, |ppn| ppn.0);
            translation.changed(lpn, old, &self.map[..self.geometry.logical_units as usize]);
        }
    }

    /// A plane that can take a page of `lpn`, and its open block.
    #[inline(always)]
    fn place<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        lpn: Lpn,
        slot: OpenSlot,
    ) -> Outcome<(PlaneId, BlockId)> {
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

/// Reads of neighbouring units, gathered so that each page of flash is read once.
struct PageReads<T> {
    page: Option<PageAt>,
    sectors: u32,
    after: T,
    done: T,
}

impl<T: Copy> PageReads<T> {
    fn new(after: T) -> Self {
        Self { page: None, sectors: 0, after, done: after }
    }

    #[inline]
    fn add<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        page: PageAt,
        sectors: u32,
        cause: Cause,
    ) -> Outcome<()> {
        if self.page != Some(page) {
            self.send(flash, cause)?;
            (self.page, self.sectors) = (Some(page), 0);
        }
        self.sectors += sectors;
        Ok(())
    }

    #[inline]
    fn send<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, cause: Cause) -> Outcome<()> {
        if let Some(page) = self.page {
            let read = flash.read(page, self.sectors, cause, self.after)?;
            self.done = flash.port.join(self.done, read);
        }
        Ok(())
    }

    #[inline]
    fn finish<P: FlashPort<Ticket = T>>(mut self, flash: &mut Flash<P>, cause: Cause) -> Outcome<T> {
        self.send(flash, cause)?;
        Ok(self.done)
    }
}

impl<V: VictimPolicy, const CACHED: bool> Ftl for PageFtl<V, CACHED> {
    fn read<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        op: &PageOp,
        after: P::Ticket,
    ) -> Outcome<P::Ticket> {
        let mut reads = PageReads::new(self.translate(flash, op, Intent::Read, after)?);
        if self.config.gc_when == GcWhen::OnAccess {
            for index in 0..op.units {
                let Some(ppn) = self.lookup(Lpn(op.lpn.0 + index)) else { continue };
                let die = self.geometry.die_of(self.geometry.plane_of(self.geometry.block_of(ppn)));
                if self.dies[die.index()].low != 0 {
                    self.collect(flash, die)?;
                }
            }
        }
        for index in 0..op.units {
            let sectors = op.sectors_of(index, self.geometry.sectors_per_unit);
            let found = self.lookup(Lpn(op.lpn.0 + index));
            match found {
                Some(ppn) => {
                    reads.add(flash, self.geometry.page_of(ppn), sectors.len() as u32, Cause::Host)?;
                }
                None => self.counters.unmapped_reads += 1,
            }
            flash.deliver(found, sectors);
        }
        reads.finish(flash, Cause::Host)
    }

    #[inline]
    fn write<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        op: &PageOp,
        after: P::Ticket,
    ) -> Outcome<P::Ticket> {
        let slot =
            if self.config.streams == 1 { 0 } else { usize::from(op.stream) % self.config.streams as usize };
        if self.geometry.slots_per_page == 1 {
            self.write_one(flash, op, slot, after)
        } else {
            self.write_several(flash, op, slot, after)
        }
    }

    fn trim<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        op: &PageOp,
        after: P::Ticket,
    ) -> Outcome<P::Ticket> {
        let per_unit = self.geometry.sectors_per_unit;
        let mut after = after;
        for index in 0..op.units {
            let lpn = Lpn(op.lpn.0 + index);
            if op.sectors_of(index, per_unit).len() as u32 != per_unit {
                continue;
            }
            if CACHED {
                after = self.translate_one(flash, op, index, Intent::Trim, after)?;
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
    fn flush<P: FlashPort>(&mut self, _: &mut Flash<P>, after: P::Ticket) -> Outcome<P::Ticket> {
        Ok(after)
    }

    fn fill_blocks<P: FlashPort>(&mut self, flash: &mut Flash<P>) -> Outcome<()> {
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
                let first = flash.program_run(page, count, units.clone(), Cause::Host, ready)?;
                for (lpn, ppn) in units.zip((first.0..).map(Ppn)) {
                    flash.store(ppn, 0..self.geometry.sectors_per_unit, None);
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
            for tpn in 0..self.translation.as_ref().map_or(0, |translation| translation.shape.pages()) {
                self.write_translation(flash, tpn, ready)?;
            }
        }
        Ok(())
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
        self.planes.iter().map(|plane| u64::from(plane.free.len())).sum()
    }

    fn most_free_blocks(&self) -> u32 {
        self.planes.iter().map(|plane| plane.free.len()).max().unwrap_or(0)
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
        if erased != self.free_blocks() + open_erased {
            return Err(format!(
                "{erased} blocks are erased, but {} are free and {open_erased} open",
                self.free_blocks()
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
            + translation
    }
}
