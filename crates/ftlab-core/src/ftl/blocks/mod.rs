//! Blocks: opened, appended to, sealed, emptied and worn. The one way to put a page somewhere, shared by all translation
//! layers.

use std::sync::Arc;

use crate::access::{Access, PageRun};
use crate::cause::Cause;
use crate::config::{FtlConfig, WearLevelingChoice};
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::filled::Filled;
use crate::flash::nand::NandArray;
use crate::flash::port::FlashPort;
use crate::flash::role::Role;
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::policy::OpenSlot;
use crate::geometry::{BlockId, DieId, Geometry, Lpn, PageAt, PlaneId, Ppn};
use crate::tape::{Tape, Taped, taped};

pub(crate) mod free_blocks;
pub(super) mod paced;
pub(super) mod page_map;

use free_blocks::FreeBlocks;
use paced::Paced;
use page_map::PageMap;

/// Most mapping units of a page, by validation.
pub const MAX_SLOTS: usize = 16;

#[derive(Debug, Clone)]
struct Plane {
    free: FreeBlocks,
    /// By slot; `None` until the next page needs one.
    open: Vec<Option<BlockId>>,
    erases: u32,
    /// A victim that is emptied over several writes.
    paced: Option<Paced>,
}

taped! { Plane { free, open, erases, paced } else {} }

#[derive(Debug, Clone, Copy, Default)]
struct Die {
    /// Planes, as bits, with too few free blocks.
    low: u64,
    /// Planes, as bits, that have a victim which is emptied over several writes, or may begin one.
    ahead: u64,
    /// The plane (within the die) whose turn to be collected it is.
    next_collected: u32,
    /// The same for victims that are begun ahead of need, where planes are compared.
    next_ahead: u32,
}

taped! { Die { low, ahead, next_collected, next_ahead } else {} }

/// Where a page is appended: the next one of an open block.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Its plane.
    pub plane: PlaneId,
    /// Which of the plane's open blocks it is.
    pub slot: OpenSlot,
    /// The block.
    pub block: BlockId,
}

/// What a page that is appended holds.
#[derive(Debug, Clone, Copy)]
pub enum Data<'a> {
    /// What an access writes.
    Written(&'a Access<'a>),
    /// Copies of the old places. Those in `victim`, which is being emptied, are no candidates of collection.
    Copies {
        /// The block that is being emptied.
        victim: Option<BlockId>,
        /// The page that all of them fill: it is copied inside its plane. Otherwise they have been read.
        copyback: Option<PageAt>,
    },
    /// A translation page; with verification, the entries that it holds.
    Table(Option<&'a [u32]>),
}

/// A page to be appended.
#[derive(Debug, Clone, Copy)]
pub struct Append<'a> {
    /// Where to.
    pub place: Place,
    /// The units that it holds, in its first slots; the rest of the page stays without data.
    pub units: &'a [Lpn],
    /// Where each of them was, if anywhere: stale from now on, or kept by the caller.
    pub old: &'a [Option<Ppn>],
    /// Whether the old places stay live.
    pub keeps_old: bool,
    /// What they are.
    pub data: Data<'a>,
    /// Why.
    pub cause: Cause,
}

/// The blocks of a drive: free, open and sealed, with the policy `V` that knows which of the sealed to empty.
#[derive(Debug, Clone)]
pub struct Blocks<V> {
    geometry: Geometry,
    low_free_blocks: u32,
    high_free_blocks: u32,
    /// Up to so many, a victim is begun ahead of need, if at all.
    ahead_free_blocks: Option<u32>,
    summary_page: bool,
    /// Static wear levelling moves data beyond this difference of erases.
    level_beyond: Option<u32>,
    /// What the block that is open in each slot is for.
    roles: Box<[Role]>,
    planes: Vec<Plane>,
    dies: Vec<Die>,
    /// Live units of each block that the policy takes for stale; empty where there are none.
    discounts: Vec<u16>,
    /// Chooses which sealed block is emptied.
    pub victims: V,
}

impl<V: VictimPolicy> Taped for Blocks<V> {
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self {
            geometry: _,
            low_free_blocks: _,
            high_free_blocks: _,
            ahead_free_blocks: _,
            summary_page: _,
            level_beyond: _,
            roles: _,
            planes,
            dies,
            discounts,
            victims,
        } = self;
        tape.each(planes)?;
        tape.each(dies)?;
        tape.each(discounts)?;
        victims.tape(tape)
    }
}

impl<V: VictimPolicy> Blocks<V> {
    /// From now on live units may be [discounted](Self::discount).
    pub fn keep_discounts(&mut self) {
        self.discounts = vec![0; self.geometry.blocks() as usize];
    }

    /// A live unit of `block` is taken for stale by the policy, or for live again.
    pub fn discount(&mut self, nand: &NandArray, block: BlockId, is: bool) {
        if self.discounts.is_empty() {
            return;
        }
        let before = self.heard(nand, block);
        let discount = &mut self.discounts[block.index()];
        *discount = if is { *discount + 1 } else { *discount - 1 };
        if !self.is_full(nand, block) {
            return;
        }
        if is {
            self.victims.on_invalidate(block, before - 1);
        } else {
            self.victims.on_revalidate(block, before + 1);
        }
    }

    /// A discounted unit of a block that is being emptied is stale.
    pub fn forget_discount(&mut self, block: BlockId) {
        if let Some(discount) = self.discounts.get_mut(block.index()) {
            *discount -= 1;
        }
    }

    /// Compare with units counted anew, by block.
    ///
    /// # Errors
    /// The first difference.
    pub fn verify_discounts(&self, counts: &[u32]) -> Result<(), String> {
        let differs = |(discount, count): (&u16, &u32)| u32::from(*discount) != *count;
        match self.discounts.iter().zip(counts).position(differs) {
            Some(block) => Err(format!(
                "block {block} has {} discounted units, not {}",
                counts[block], self.discounts[block]
            )),
            None => Ok(()),
        }
    }

    /// Live units of a block as the policy hears of them.
    #[inline(always)]
    fn heard(&self, nand: &NandArray, block: BlockId) -> u32 {
        let valid = nand.valid_units(block);
        if self.discounts.is_empty() { valid } else { valid - u32::from(self.discounts[block.index()]) }
    }

    /// The blocks of erased flash, with an open one for each of `roles` in each plane.
    pub fn new(geometry: &Geometry, config: &FtlConfig, roles: &[Role], victims: V) -> Self {
        let open = vec![None; roles.len()];
        let plane =
            || Plane { free: FreeBlocks::new(geometry, config), open: open.clone(), erases: 0, paced: None };
        Self {
            low_free_blocks: config.gc_low_free_blocks,
            high_free_blocks: config.gc_high(),
            ahead_free_blocks: config.gc_ahead(),
            summary_page: config.summary_page,
            level_beyond: match &config.wear_leveling {
                WearLevelingChoice::Static(keys) => Some(keys.wear_leveling_threshold),
                WearLevelingChoice::None(_) | WearLevelingChoice::Dynamic(_) => None,
            },
            roles: roles.into(),
            planes: (0..geometry.planes()).map(|_| plane()).collect(),
            dies: vec![Die::default(); geometry.dies() as usize],
            discounts: Vec::new(),
            victims,
            geometry: geometry.clone(),
        }
    }

    /// These as a copy of them would be, whose lists have no more room than they need.
    #[must_use]
    pub fn into_copy(self) -> Self {
        Self { planes: self.planes.clone(), victims: self.victims.into_copy(), ..self }
    }

    /// Open blocks of each plane.
    pub fn slots(&self) -> usize {
        self.roles.len()
    }

    /// Free blocks of a plane.
    #[inline(always)]
    pub fn free(&self, plane: PlaneId) -> u32 {
        self.planes[plane.index()].free.len()
    }

    /// Free blocks of the drive.
    pub fn free_in_all(&self) -> u64 {
        self.planes.iter().map(|plane| u64::from(plane.free.len())).sum()
    }

    /// Most free blocks of any plane.
    pub fn most_free(&self) -> u32 {
        self.planes.iter().map(|plane| plane.free.len()).max().unwrap_or(0)
    }

    /// Erases of a plane so far.
    pub fn erases(&self, plane: PlaneId) -> u32 {
        self.planes[plane.index()].erases
    }

    /// Whether the block takes no more data.
    #[inline(always)]
    pub fn is_full(&self, nand: &NandArray, block: BlockId) -> bool {
        nand.next_page(block) >= self.geometry.data_pages_per_block
    }

    /// The open block of a slot.
    #[inline(always)]
    pub fn opened(&self, plane: PlaneId, slot: OpenSlot) -> Option<BlockId> {
        self.planes[plane.index()].open[slot]
    }

    /// Put another open block into a slot, or none.
    pub fn set_opened(&mut self, plane: PlaneId, slot: OpenSlot, block: Option<BlockId>) -> Option<BlockId> {
        std::mem::replace(&mut self.planes[plane.index()].open[slot], block)
    }

    /// Pages that the open block of a slot has left; none when there is no such block.
    pub fn pages_left(&self, nand: &NandArray, plane: PlaneId, slot: OpenSlot) -> u32 {
        let open = self.opened(plane, slot);
        open.map_or(0, |block| self.geometry.data_pages_per_block - nand.next_page(block))
    }

    /// Take a free block of `plane` for `slot`, if there are more than `keep`.
    pub fn open(
        &mut self,
        nand: &mut NandArray,
        plane: PlaneId,
        slot: OpenSlot,
        keep: u32,
    ) -> Option<BlockId> {
        let free = &mut self.planes[plane.index()].free;
        if free.len() <= keep {
            return None;
        }
        let row = free.take()?;
        Some(self.open_row(nand, plane, slot, row))
    }

    fn open_row(&mut self, nand: &mut NandArray, plane: PlaneId, slot: OpenSlot, row: u32) -> BlockId {
        let block = self.geometry.block(plane, row);
        nand.open(block, self.roles[slot]);
        self.planes[plane.index()].open[slot] = Some(block);
        self.note_if_low(plane);
        block
    }

    /// Collection is due in the plane if it has too few free blocks, and may be begun if it has few.
    pub fn note_if_low(&mut self, plane: PlaneId) {
        if self.free(plane) <= self.low_free_blocks {
            let die = self.geometry.die_of(plane);
            self.dies[die.index()].low |= 1 << (plane.0 - self.geometry.first_plane(die).0);
        }
        self.note_if_ahead(plane);
    }

    /// Append a page: program it, seal its block when that is full, make the old places stale, and change the `map`, in
    /// this order. `moved` hears of each unit and where it was, when the map has changed. Returns when the page is durable.
    ///
    /// # Errors
    /// When a rule of flash was broken or the power was cut.
    #[inline(always)]
    pub fn append<P: FlashPort, const PLAIN: bool>(
        &mut self,
        flash: &mut Flash<P>,
        append: &Append<'_>,
        map: &mut PageMap<PLAIN>,
        after: P::Ticket,
        mut moved: impl FnMut(&PageMap<PLAIN>, Lpn, Option<Ppn>),
    ) -> FlashResult<P::Ticket> {
        let Append { place, units, old, keeps_old, data, cause } = *append;
        let page = PageAt { block: place.block, index: flash.nand.next_page(place.block) };
        if let Data::Copies { victim: Some(victim), .. } = data {
            flash.copies_from(victim);
        }
        let mut done = match data {
            Data::Copies { copyback: Some(from), .. } => flash.copyback(from, page, units, cause, after)?,
            _ => flash.program(page, units, cause, after)?,
        };
        let first = self.geometry.unit(page).0;
        for (index, old) in (0..).zip(old) {
            match (data, old) {
                (Data::Written(access), old) => flash.store(Ppn(first + index), access, index, *old),
                (Data::Copies { .. }, Some(old)) => flash.store_copy(*old, Ppn(first + index)),
                (Data::Copies { .. }, None) | (Data::Table(_), _) => {}
            }
        }
        if let Data::Table(Some(entries)) = data {
            flash.store_table(Ppn(first), entries.to_vec());
        }
        // Sealed before the old data become stale: they may be in the same block.
        if page.index + 1 == self.geometry.data_pages_per_block {
            done = self.seal(flash, place, done)?;
        }
        for (new, (lpn, old)) in (first..).zip(units.iter().zip(old)) {
            // A copy may be of an old version that is kept: the map has the newer one.
            let is_kept = |old: Ppn| matches!(data, Data::Copies { .. }) && map.get(*lpn) != Some(old);
            let is_current = !old.is_some_and(is_kept);
            if let Some(old) = old.filter(|_| !keeps_old) {
                match data {
                    Data::Copies { victim: Some(victim), .. } if self.geometry.block_of(old) == victim => {
                        flash.invalidate(old)?;
                    }
                    _ => self.invalidate(flash, old)?,
                }
            }
            if is_current {
                map.set(*lpn, Ppn(new));
                moved(map, *lpn, *old);
            }
        }
        Ok(done)
    }

    /// The same as an [`append`](Self::append) of copies for each of `from`, and much faster. `from` are whole pages of
    /// one unit each in a block, ascending, and all that are live between the first and the last of them. They are
    /// copied inside their plane. Appends as many as the block has room for, and returns how many.
    ///
    /// # Errors
    /// As `append`.
    #[inline(always)]
    pub fn append_copies<P: FlashPort, const PLAIN: bool>(
        &mut self,
        flash: &mut Flash<P>,
        place: Place,
        from: &[Ppn],
        map: &mut PageMap<PLAIN>,
        cause: Cause,
    ) -> FlashResult<(P::Ticket, usize)> {
        let to = PageAt { block: place.block, index: flash.nand.next_page(place.block) };
        let room = (self.geometry.data_pages_per_block - to.index) as usize;
        let moving = &from[..room.min(from.len())];
        let ready = flash.port.ready();
        if let Some(first) = moving.first() {
            flash.copies_from(self.geometry.block_of(*first));
        }
        let mut done = flash.copyback_all(moving, to, cause, ready, |lpn, ppn| map.set(lpn, ppn))?;
        if self.is_full(&flash.nand, place.block) {
            done = self.seal(flash, place, done)?;
        }
        Ok((done, moving.len()))
    }

    /// The same as an [`append`](Self::append) for each page of `run`, and much faster: their units had no place before, and
    /// the caller enters those that they have now. `versions` are those of all logical sectors, with verification. Returns
    /// where the first unit is.
    ///
    /// # Errors
    /// As `append`.
    pub fn append_new<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        place: Place,
        run: PageRun,
        versions: &[u32],
        cause: Cause,
    ) -> FlashResult<Ppn> {
        let ready = flash.port.ready();
        let page = PageAt { block: place.block, index: flash.nand.next_page(place.block) };
        let slots = self.geometry.slots_per_page;
        let first = self.geometry.unit(page);
        if flash.has_backup() {
            for (page_at, lpn) in (page.index..).zip(run.firsts()) {
                let units: [Lpn; MAX_SLOTS] = std::array::from_fn(|slot| Lpn(lpn.0 + slot as u32));
                let units = &units[..slots as usize];
                flash.program(PageAt { index: page_at, ..page }, units, cause, ready)?;
                // The next program may need a copy of it.
                for (unit, ppn) in units.iter().zip(first.0 + (page_at - page.index) * slots..) {
                    flash.store_unit(Ppn(ppn), *unit, versions);
                }
            }
        } else {
            flash.program_run(page, run, cause, ready)?;
            if flash.nand.verifies() {
                for (lpn, ppn) in run.placed(slots, first) {
                    flash.store_unit(ppn, lpn, versions);
                }
            }
        }
        if self.is_full(&flash.nand, place.block) {
            self.seal(flash, place, ready)?;
        }
        Ok(first)
    }

    /// The same as an [`append_new`](Self::append_new) of a whole block, which `filled` describes.
    ///
    /// # Errors
    /// As `append`.
    pub fn append_as_filled<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        place: Place,
        filled: &Arc<Filled>,
        cause: Cause,
    ) -> FlashResult<Ppn> {
        let first = flash.program_as_filled(place.block, filled, cause)?;
        let ready = flash.port.ready();
        self.seal(flash, place, ready)?;
        Ok(first)
    }

    /// Whether each plane may open another block before collection is due anywhere.
    pub fn have_one_each(&self) -> bool {
        let due = self.ahead_free_blocks.unwrap_or(self.low_free_blocks);
        self.planes.iter().all(|plane| plane.free.len() > due.saturating_add(1))
    }

    /// The page after the last data page was just written: close the block.
    fn seal<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        place: Place,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        self.planes[place.plane.index()].open[place.slot] = None;
        self.finish(flash, place.block, after)
    }

    /// The block is full: write its summary, and let collection have it.
    fn finish<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        block: BlockId,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let mut done = after;
        if self.summary_page {
            let page = PageAt { block, index: self.geometry.data_pages_per_block };
            done = flash.program_metadata(page, after)?;
        }
        let valid = self.heard(&flash.nand, block);
        self.victims.on_seal(block, valid);
        Ok(done)
    }

    /// Fill the rest of `block`, which is in no slot, with pages without data, and seal it.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn pad<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        block: BlockId,
        cause: Cause,
    ) -> FlashResult<()> {
        let ready = flash.port.ready();
        while !self.is_full(&flash.nand, block) {
            let page = PageAt { block, index: flash.nand.next_page(block) };
            flash.program(page, &[], cause, ready)?;
        }
        self.finish(flash, block, ready)?;
        Ok(())
    }

    /// The data at `ppn` are stale.
    ///
    /// # Errors
    /// When they were stale already.
    #[inline(always)]
    pub fn invalidate<P: FlashPort>(&mut self, flash: &mut Flash<P>, ppn: Ppn) -> FlashResult<()> {
        let (block, mut valid) = flash.invalidate(ppn)?;
        if self.is_full(&flash.nand, block) {
            if self.ahead_free_blocks.is_some() && self.is_paced(block) {
                return Ok(());
            }
            if !self.discounts.is_empty() {
                valid = self.heard(&flash.nand, block);
            }
            self.victims.on_invalidate(block, valid);
        }
        Ok(())
    }

    /// Erase a block that has been emptied: it is free from now on.
    ///
    /// # Errors
    /// When it holds live data, or the power was cut.
    pub fn erase<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        block: BlockId,
        cause: Cause,
        after: P::Ticket,
    ) -> FlashResult<()> {
        flash.erase(block, cause, after)?;
        let erases = flash.nand.erases(block);
        let state = &mut self.planes[self.geometry.plane_of(block).index()];
        state.free.give(self.geometry.row_of(block), erases);
        state.erases += 1;
        Ok(())
    }

    /// Whether a plane of the die has too few free blocks.
    #[inline(always)]
    pub fn is_low(&self, die: DieId) -> bool {
        self.dies[die.index()].low != 0
    }

    /// A round of collection in `die`. With `in_vain`, each plane may empty as many wholly live blocks as it has blocks.
    pub(super) fn turns(&self, die: DieId, in_vain: bool) -> Turns {
        let planes = self.geometry.planes_per_die();
        Turns {
            die,
            untried: self.dies[die.index()].low,
            in_vain: if in_vain { self.geometry.blocks_per_plane() * planes } else { 0 },
            can_win: 0,
            gained: false,
        }
    }

    /// The next plane of a die that is to be collected.
    pub(super) fn next_turn(&mut self, turns: &Turns) -> Option<PlaneId> {
        if turns.untried == 0 {
            return None;
        }
        let count = self.geometry.planes_per_die();
        let state = &mut self.dies[turns.die.index()];
        let turn = state.next_collected;
        let at = (turn..count).chain(0..turn).find(|at| turns.untried >> at & 1 == 1).unwrap_or(0);
        state.next_collected = if at + 1 == count { 0 } else { at + 1 };
        Some(PlaneId(self.geometry.first_plane(turns.die).0 + at))
    }

    /// The block of `plane` that is emptied next, which is no candidate any more. `None` when nothing can be gained.
    ///
    /// A wholly live block gains nothing. A policy may choose one, and later finds others; but a full drive would go on
    /// for ever. So each round has a number of them, and none where no block could be won in the end. After that the emptiest
    /// block is taken.
    pub(super) fn next_victim(
        &mut self,
        nand: &NandArray,
        plane: PlaneId,
        turns: &mut Turns,
    ) -> Option<BlockId> {
        let victim = self.victims.pick(plane)?;
        let valid = self.heard(nand, victim);
        if self.gains(valid) {
            turns.gained = true;
            return Some(victim);
        }
        if !self.victims.picks_emptiest() && turns.in_vain > 0 && self.can_win(nand, plane, turns) {
            turns.in_vain -= 1;
            return Some(victim);
        }
        self.victims.on_seal(victim, valid);
        if self.victims.picks_emptiest() {
            return None;
        }
        let blocks = self.geometry.data_blocks(plane);
        let sealed = blocks.filter(|block| self.is_full(nand, *block));
        let emptiest = sealed.min_by_key(|block| self.heard(nand, *block))?;
        let valid = self.heard(nand, emptiest);
        if !self.gains(valid) {
            return None;
        }
        self.victims.remove(emptiest, valid);
        turns.gained = true;
        Some(emptiest)
    }

    /// Whether a block could be won in `plane`: its full blocks have as many stale pages.
    fn can_win(&self, nand: &NandArray, plane: PlaneId, turns: &mut Turns) -> bool {
        let bit = 1 << (plane.0 - self.geometry.first_plane(turns.die).0);
        if turns.can_win & bit == 0 {
            let mut stale = 0;
            let wins =
                self.geometry.data_blocks(plane).filter(|block| self.is_full(nand, *block)).any(|block| {
                    let live = nand.valid_units(block).div_ceil(self.geometry.slots_per_page);
                    stale += self.geometry.data_pages_per_block - live;
                    stale >= self.geometry.data_pages_per_block
                });
            turns.can_win |= if wins { bit } else { 0 };
        }
        turns.can_win & bit != 0
    }

    /// Whether the live units of a block fill fewer pages than it has. The last page that they fill may stay partly empty.
    fn gains(&self, valid: u32) -> bool {
        valid.div_ceil(self.geometry.slots_per_page) < self.geometry.data_pages_per_block
    }

    /// A plane was collected, if it `had_victim`.
    pub(super) fn end_turn(&mut self, turns: &mut Turns, plane: PlaneId, had_victim: bool) {
        let bit = 1 << (plane.0 - self.geometry.first_plane(turns.die).0);
        if self.free(plane) >= self.high_free_blocks {
            self.dies[turns.die.index()].low &= !bit;
            turns.untried &= !bit;
        } else if !had_victim {
            turns.untried &= !bit;
        }
    }

    /// Static wear levelling, now and then: the least worn full block of a plane that holds data, and the most worn free one.
    /// The data should move. The free one is open in `slot_of` the full one from now on. Also the block that was open there.
    pub(super) fn next_levelling(
        &mut self,
        nand: &mut NandArray,
        plane: PlaneId,
        slot_of: impl Fn(&NandArray, BlockId) -> OpenSlot,
    ) -> Option<Levelling> {
        // A look at every block of the plane, once in a sixteenth as many erases: sixteen steps an erase.
        let interval = (self.geometry.blocks_per_plane() / 16).max(1);
        let threshold = self.level_beyond?;
        let state = &self.planes[plane.index()];
        if !state.erases.is_multiple_of(interval) || state.free.len() < 2 {
            return None;
        }
        let blocks = self.geometry.data_blocks(plane);
        let most = blocks.clone().map(|block| nand.erases(block)).max().unwrap_or(0);
        // From where nothing is live, nothing moves.
        let sealed = blocks.filter(|block| self.is_full(nand, *block) && self.heard(nand, *block) > 0);
        let coldest = sealed.min_by_key(|block| nand.erases(*block))?;
        if most - nand.erases(coldest) <= threshold {
            return None;
        }
        let row = self.planes[plane.index()].free.take_most_worn()?;
        let valid = self.heard(nand, coldest);
        self.victims.remove(coldest, valid);
        let slot = slot_of(nand, coldest);
        // The worn block takes cold data only; the open block of the slot waits meanwhile.
        let waiting = self.set_opened(plane, slot, None);
        let worn = self.open_row(nand, plane, slot, row);
        Some(Levelling { coldest, worn, slot, waiting })
    }

    /// The cold data have moved: the block that waited is open again.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub(super) fn end_levelling<P: FlashPort>(
        &mut self,
        flash: &mut Flash<P>,
        plane: PlaneId,
        levelling: &Levelling,
    ) -> FlashResult<()> {
        let worn = self.set_opened(plane, levelling.slot, levelling.waiting);
        let Some(worn) = worn else { return Ok(()) };
        // Cold data rarely fill a block to the last page, and only full blocks are collected.
        if levelling.waiting.is_none() {
            self.set_opened(plane, levelling.slot, Some(worn));
            return Ok(());
        }
        self.pad(flash, worn, Cause::WearLevel)
    }

    /// A mount begins: nothing is known to be free in `plane`.
    pub(super) fn forget_free(&mut self, plane: PlaneId) {
        while self.planes[plane.index()].free.take().is_some() {}
    }

    /// A mount has found an erased block.
    pub(super) fn found_free(&mut self, nand: &NandArray, plane: PlaneId, row: u32) {
        let erases = nand.erases(self.geometry.block(plane, row));
        self.planes[plane.index()].free.give(row, erases);
    }

    /// Compare with the array: as many erased blocks as are free or open.
    ///
    /// # Errors
    /// The numbers that differ.
    pub fn verify(&self, nand: &NandArray) -> Result<(), String> {
        let blocks = (0..self.geometry.planes()).flat_map(|plane| self.geometry.data_blocks(PlaneId(plane)));
        let erased = blocks.filter(|block| nand.next_page(*block) == 0).count();
        let open = self.planes.iter().flat_map(|plane| plane.open.iter().flatten());
        let open_erased = open.filter(|block| nand.next_page(**block) == 0).count() as u64;
        if erased as u64 == self.free_in_all() + open_erased {
            return Ok(());
        }
        Err(format!("{erased} blocks are erased, but {} are free and {open_erased} open", self.free_in_all()))
    }

    /// Bytes of the tables.
    pub fn table_bytes(&self) -> u64 {
        let plane = |plane: &Plane| plane.free.table_bytes() + plane.open.capacity() as u64 * 8;
        self.planes.iter().map(plane).sum::<u64>()
            + self.victims.table_bytes()
            + self.discounts.len() as u64 * 2
    }
}

/// A round of collection in a die.
#[derive(Debug)]
pub(super) struct Turns {
    die: DieId,
    /// Planes, as bits, where something may be gained.
    untried: u64,
    /// Wholly live blocks that may still be emptied.
    in_vain: u32,
    /// Planes, as bits, where a block could be won when somebody asked.
    can_win: u64,
    /// Whether a block that was not wholly live has been emptied.
    pub(super) gained: bool,
}

/// Cold data on their way to a worn block.
#[derive(Debug)]
pub(super) struct Levelling {
    /// The block that is emptied.
    pub(super) coldest: BlockId,
    /// The block that takes its data.
    pub(super) worn: BlockId,
    /// Where that is open.
    pub(super) slot: OpenSlot,
    /// What was open there before.
    waiting: Option<BlockId>,
}
