//! The NAND array: it alone holds pages, and refuses what real flash refuses.

use std::cell::Cell;
use std::sync::Arc;

use crate::access::{PageRun, UnitAccess};
use crate::cause::{Cause, Command};
use crate::error::{FlashResult, RunError};
use crate::flash::cell::WordLines;
use crate::flash::contents::Contents;
use crate::flash::filled::Filled;
use crate::flash::history::{Change, GroupMark, History, Home};
use crate::flash::role::{Purpose, Role};
use crate::geometry::{BlockId, Geometry, Lpn, PageAt, Ppn};
use crate::table::{self, Table};
use crate::tape::{Tape, Taped, taped};

/// Spare area of a unit of which nothing was entered. In a page that was programmed, the formula of the fill says what it
/// is. Spare areas are kept as complements of logical units: memory as the system gives it is an erased drive, or a filled
/// one.
const AS_FILLED: u32 = 0;
/// Spare area of a page that was passed over: a later one of its block was programmed.
const SKIPPED: u32 = 1;
/// Spare area of a page that the power has torn, and of those that it took with it.
const UNREADABLE: u32 = 2;
/// Spare area of a slot that was programmed without data: its page was not full.
const PADDING: u32 = 3;
/// Spare area of the slots of a summary page.
const METADATA: u32 = 4;

/// What of a block was not entered, since the formula of the fill says it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum ByFormula {
    #[default]
    Nothing,
    Spare,
    SpareAndValidity,
}

impl Taped for ByFormula {
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let mut byte = *self as u8;
        byte.tape(tape)?;
        let all = [Self::Nothing, Self::Spare, Self::SpareAndValidity];
        *self = *all.get(usize::from(byte)).ok_or(std::io::ErrorKind::InvalidData)?;
        Ok(())
    }
}

/// The state of a block.
#[derive(Debug, Clone, Copy, Default)]
struct Block {
    /// Mapping units whose data are live.
    valid: u16,
    /// Lowest page that may be programmed next.
    next_page: u16,
    /// Erases so far.
    erases: u32,
    /// When the block was opened, in a count of openings: newer blocks have higher numbers.
    sequence: u32,
}

taped! { Block { valid, next_page, erases, sequence } else {} }

/// All pages of a drive: spare areas, validity and wear.
///
/// The rules: a page is programmed once between erases, and ascending in its block (pages may be skipped). Only
/// programmed pages are read. A block with live data is not erased. The array takes 4 bytes and a bit for each mapping
/// unit, and 13 bytes for each block.
#[derive(Debug, Clone)]
pub struct NandArray {
    geometry: Geometry,
    spare: Table<u32>,
    valid: Table<u64>,
    blocks: Vec<Block>,
    /// What each block is for, while it has pages or is open.
    purposes: Vec<Purpose>,
    openings: u32,
    /// How the drive was filled, if nobody has written that.
    filled: Option<Arc<Filled>>,
    /// By block; empty where there is no such fill.
    by_formula: Vec<ByFormula>,
    /// With verification.
    contents: Option<Contents>,
}

impl Taped for NandArray {
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { geometry, spare, valid, blocks, purposes, openings, filled, by_formula, contents } = self;
        Filled::tape(filled, geometry, tape)?;
        by_formula.tape(tape)?;
        if by_formula.len() != if filled.is_some() { blocks.len() } else { 0 } {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
        tape.table(spare)?;
        tape.table(valid)?;
        tape.each(blocks)?;
        tape.each(purposes)?;
        openings.tape(tape)?;
        contents.as_mut().map_or(Ok(()), |contents| contents.tape(tape))
    }
}

impl NandArray {
    /// Erased flash. With `verify`, it also holds what each sector contains.
    pub fn new(geometry: &Geometry, verify: bool) -> Self {
        let units = geometry.physical_units() as usize;
        Self {
            spare: Table::sparse_zeros(units),
            valid: Table::sparse_zeros(units.div_ceil(64)),
            blocks: table::zeros(geometry.blocks() as usize),
            purposes: vec![Purpose::default(); geometry.blocks() as usize],
            openings: 0,
            filled: None,
            by_formula: Vec::new(),
            contents: verify.then(|| Contents::new(geometry)),
            geometry: geometry.clone(),
        }
    }

    /// The shape of the drive.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// Live mapping units of a block.
    #[inline]
    pub fn valid_units(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].valid.into()
    }

    /// Lowest page of a block that may be programmed; `pages_per_block` when it is full.
    #[inline]
    pub fn next_page(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].next_page.into()
    }

    /// Erases of a block so far.
    #[inline]
    pub fn erases(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].erases
    }

    /// When a block was opened: the count of openings of the drive at that moment.
    #[inline]
    pub fn sequence(&self, block: BlockId) -> u32 {
        self.blocks[block.index()].sequence
    }

    /// Whether the data of a mapping unit are live.
    #[inline]
    pub fn is_valid(&self, ppn: Ppn) -> bool {
        self.valid[ppn.index() / 64] >> (ppn.0 % 64) & 1 == 1 || self.is_valid_by_formula(ppn)
    }

    #[cold]
    fn is_valid_by_formula(&self, ppn: Ppn) -> bool {
        let PageAt { block, index } = self.geometry.page_of(ppn);
        self.by_formula_of(block) == ByFormula::SpareAndValidity && index < self.geometry.data_pages_per_block
    }

    fn by_formula_of(&self, block: BlockId) -> ByFormula {
        self.by_formula.get(block.index()).copied().unwrap_or_default()
    }

    /// The logical unit that the spare area of `ppn` names; `None` when it holds no data.
    #[inline]
    pub fn lpn(&self, ppn: Ppn) -> Option<Lpn> {
        let spare = self.spare[ppn.index()];
        if spare > METADATA { Some(Lpn(!spare)) } else { self.lpn_by_formula(ppn) }
    }

    #[cold]
    fn lpn_by_formula(&self, ppn: Ppn) -> Option<Lpn> {
        self.filled.as_ref().filter(|_| self.is_as_filled(self.geometry.page_of(ppn)))?.lpn(ppn)
    }

    /// Enter the validity of a block, which is as the fill has left it.
    #[cold]
    #[inline(never)]
    fn enter_validity(&mut self, block: BlockId) {
        if self.by_formula_of(block) == ByFormula::SpareAndValidity {
            self.set_valid(
                self.geometry.first_unit(block).index(),
                self.geometry.data_units_per_block() as usize,
            );
            self.by_formula[block.index()] = ByFormula::Spare;
            self.valid.touched(1);
        }
    }

    /// Enter everything of a block that the formula says.
    #[cold]
    #[inline(never)]
    fn enter_all(&mut self, block: BlockId) {
        self.enter_validity(block);
        if self.by_formula_of(block) == ByFormula::Nothing {
            return;
        }
        self.by_formula[block.index()] = ByFormula::Nothing;
        let Some(filled) = self.filled.clone() else { return };
        let units = self.geometry.units_per_block() as usize;
        let spare = &mut self.spare[self.geometry.first_unit(block).index()..][..units];
        let (data, rest) = spare.split_at_mut(self.geometry.data_units_per_block() as usize);
        let pages = self.geometry.data_pages_per_block;
        let run = PageRun { first: filled.first(block), stride: filled.stride(), pages };
        enter_run(data, run, self.geometry.slots_per_page);
        rest.fill(METADATA);
    }

    /// In ascending order of what their spare areas name.
    pub(crate) fn sort_by_lpn(&self, ppns: &mut [Ppn]) {
        ppns.sort_unstable_by_key(|ppn| self.lpn(*ppn));
    }

    /// The emptiest block first; of equal ones, in the order that was given.
    pub(crate) fn sort_by_next_page(&self, blocks: &mut [BlockId]) {
        blocks.sort_by_key(|block| self.next_page(*block));
    }

    /// How new the data of `ppn` are: first by when they were programmed for the first time, then by when they came
    /// here. Copies keep the first number. Both are 0 unless flash keeps its past.
    #[inline]
    pub fn age(&self, ppn: Ppn) -> (u32, u32) {
        self.contents.as_ref().map_or((0, 0), |contents| contents.age(ppn))
    }

    /// With verification: the entries of the table that the page at `ppn` holds, if it is a translation page.
    pub(crate) fn table_at(&self, ppn: Ppn) -> Option<&[u32]> {
        self.contents.as_ref()?.table(self.geometry.page_id(self.geometry.page_of(ppn)))
    }

    /// The power was cut: which data are live was known in memory only.
    pub(crate) fn forget_validity(&mut self) {
        for block in (0..self.by_formula.len() as u32).map(BlockId) {
            self.enter_all(block);
        }
        self.valid.fill(0);
        for block in &mut self.blocks {
            block.valid = 0;
        }
    }

    /// The data of `ppn` are live: a mount has found out.
    pub(crate) fn revive(&mut self, ppn: Ppn) {
        self.valid[ppn.index() / 64] |= 1 << (ppn.0 % 64);
        self.blocks[self.geometry.block_of(ppn).index()].valid += 1;
    }

    /// Ask the processor for the state of `ppn`, which will be needed soon.
    #[inline]
    pub fn prefetch(&self, ppn: Ppn) {
        table::prefetch(&self.valid, ppn.index() / 64);
        table::prefetch(&self.blocks, self.geometry.block_of(ppn).index());
    }

    /// Ask the processor for the spare areas, the validity and the state of `block`, which will be collected soon.
    pub fn prefetch_block(&self, block: BlockId) {
        const ENTRIES_PER_LINE: usize = 16;
        table::prefetch(&self.blocks, block.index());
        table::prefetch(&self.purposes, block.index());
        table::prefetch(&self.by_formula, block.index());
        let first = self.geometry.first_unit(block).index();
        table::prefetch(&self.valid, first / 64);
        // A line of the processor's cache at a time; beyond 64 of them others would be driven out.
        let units = (self.geometry.units_per_block() as usize).min(64 * ENTRIES_PER_LINE);
        for entry in (first..first + units).step_by(ENTRIES_PER_LINE) {
            table::prefetch(&self.spare, entry);
        }
    }

    /// Number the opening of an erased block, which is for `role` from its first program on.
    pub fn open(&mut self, block: BlockId, role: Role) {
        self.openings += 1;
        // A formula may stand for what is programmed in a block that was never erased: that touches nothing.
        if self.filled.is_none() || self.erases(block) > 0 {
            let units = self.geometry.units_per_block();
            self.spare.touched(units);
            self.valid.touched(units);
        }
        self.blocks[block.index()].sequence = self.openings;
        self.purposes[block.index()] = Purpose::new(role, false);
    }

    /// An erased block takes the place of another, which was opened as the `sequence`-th.
    pub(crate) fn open_again(&mut self, block: BlockId, role: Role, sequence: u32) {
        self.blocks[block.index()].sequence = sequence;
        self.purposes[block.index()] = Purpose::new(role, false);
    }

    /// An erased block that holds no data of units is for `role`; in SLC mode only its LSB pages are.
    pub(super) fn reserve(&mut self, block: BlockId, role: Role, lsb_only: bool) {
        self.purposes[block.index()] = Purpose::new(role, lsb_only);
    }

    /// What a block is for; `None` when it is erased and not open, or when nothing of it can be read.
    #[inline]
    pub fn role(&self, block: BlockId) -> Option<Role> {
        self.purposes[block.index()].role()
    }

    /// Check that `page` is of a block for `role`, as far as that can be read.
    #[cold]
    pub(super) fn check_role(&self, page: PageAt, role: Role, cause: Cause) -> FlashResult<()> {
        match self.role(page.block) {
            Some(other) if other != role => {
                let why = format!("the block is for {}, not for {}", other.name(), role.name());
                Err(self.refuse(Command::Program, page, cause, &why))
            }
            _ => Ok(()),
        }
    }

    /// Whether a block is in SLC mode: only its LSB pages are used.
    pub fn is_lsb_only(&self, block: BlockId) -> bool {
        self.purposes[block.index()].is_lsb_only()
    }

    /// How many pages were programmed, in flash that keeps its past; 0 elsewhere.
    pub(crate) fn programmed(&self) -> u32 {
        self.contents.as_ref().map_or(0, Contents::programmed)
    }

    /// Pages that are programmed from now on come after `programs` others, whether or not those are in flash.
    pub(crate) fn count_from(&mut self, programs: u32) {
        if let Some(contents) = &mut self.contents {
            contents.count_from(programs);
        }
    }

    /// The group of several pages that the data of `ppn` were written in, where flash keeps that.
    pub(crate) fn group_of(&self, ppn: Ppn) -> Option<GroupMark> {
        self.contents.as_ref()?.group_of(ppn)
    }

    /// When the data of `ppn` were first programmed, also where a mount has written them again since: unlike
    /// [`age`](Self::age), which counts from there.
    pub(crate) fn data_age(&self, ppn: Ppn) -> u32 {
        self.contents.as_ref().map_or(0, |contents| contents.data_age(ppn))
    }

    /// With verification: the data of `ppn` were written in this group.
    pub(super) fn store_group(&mut self, ppn: Ppn, mark: GroupMark) {
        if let Some(contents) = &mut self.contents {
            contents.store_group(ppn, mark);
        }
    }

    /// The data of `ppn` are stale from now on. Returns the block and its live units that remain.
    ///
    /// # Errors
    /// When they were not live.
    #[inline(always)]
    pub fn invalidate(&mut self, ppn: Ppn) -> FlashResult<(BlockId, u32)> {
        let (at, bit) = (ppn.index() / 64, 1_u64 << (ppn.0 % 64));
        if self.valid[at] & bit == 0 {
            self.enter_validity(self.geometry.block_of(ppn));
            if self.valid[at] & bit == 0 {
                return Err(broken(format!("physical unit {} was invalidated twice", ppn.0)));
            }
        }
        self.valid[at] ^= bit;
        let block = self.geometry.block_of(ppn);
        let state = &mut self.blocks[block.index()];
        state.valid -= 1;
        Ok((block, state.valid.into()))
    }

    /// The live units of a block, ascending; for those who need not be fast.
    pub fn valid_of(&self, block: BlockId) -> impl Iterator<Item = Ppn> {
        let first = self.geometry.first_unit(block).0;
        let is_all = self.by_formula_of(block) == ByFormula::SpareAndValidity;
        let units =
            if is_all { self.geometry.data_units_per_block() } else { self.geometry.units_per_block() };
        let is_entered = |ppn: &Ppn| self.valid[ppn.index() / 64] >> (ppn.0 % 64) & 1 == 1;
        (first..first + units).map(Ppn).filter(move |ppn| is_all || is_entered(ppn))
    }

    /// Append the live units of `block` to `out`, ascending, and tell `visit` whose they are.
    #[inline]
    pub fn collect_valid(&mut self, block: BlockId, out: &mut Vec<Ppn>, mut visit: impl FnMut(Lpn)) {
        if !self.by_formula.is_empty() {
            self.enter_all(block);
        }
        let first = self.geometry.first_unit(block).0;
        let units = self.geometry.units_per_block();
        let spare = &self.spare[first as usize..(first + units) as usize];
        let start = out.len();
        // All of it is there at once, so that the loop need not look.
        out.resize(start + units as usize, Ppn(0));
        let (list, mut count) = (&mut out[start..], 0);
        let mut at = 0;
        while at < units {
            let shift = (first + at) % 64;
            let span = (64 - shift).min(units - at);
            let mut word = self.valid[(first + at) as usize / 64] >> shift;
            if span < 64 {
                word &= (1 << span) - 1;
            }
            while word != 0 {
                let offset = at + word.trailing_zeros();
                visit(Lpn(!spare[offset as usize]));
                list[count] = Ppn(first + offset);
                count += 1;
                word &= word - 1;
            }
            at += span;
        }
        out.truncate(start + count);
    }

    /// Append the first live units of `block` to `out`, at most `most`, ascending.
    pub fn collect_first_valid(&mut self, block: BlockId, most: usize, out: &mut Vec<Ppn>) {
        if !self.by_formula.is_empty() {
            self.enter_all(block);
        }
        let first = self.geometry.first_unit(block).0;
        let (mut at, end, full) = (first, first + self.geometry.units_per_block(), out.len() + most);
        while at < end {
            let mut word = self.valid[at as usize / 64] & (u64::MAX << (at % 64));
            while word != 0 && out.len() < full {
                let unit = at / 64 * 64 + word.trailing_zeros();
                if unit >= end {
                    return;
                }
                out.push(Ppn(unit));
                word &= word - 1;
            }
            if out.len() == full {
                return;
            }
            at = (at / 64 + 1) * 64;
        }
    }

    /// Whether `page` was programmed since the last erase of its block, and can be read.
    #[inline]
    pub fn is_written(&self, page: PageAt) -> bool {
        page.index < self.next_page(page.block) && self.spare[self.geometry.unit(page).index()] > UNREADABLE
            || self.is_as_filled(page)
    }

    /// Whether the fill has written `page`, and nobody since.
    #[cold]
    fn is_as_filled(&self, page: PageAt) -> bool {
        let spare = self.spare[self.geometry.unit(page).index()];
        spare == AS_FILLED && self.by_formula_of(page.block) != ByFormula::Nothing
    }

    /// The first unit of `page`, and those that it holds, for a page that was programmed and can be read.
    #[inline]
    pub(super) fn held(&self, page: PageAt) -> Option<(Ppn, impl Iterator<Item = Option<Lpn>> + use<'_>)> {
        let first = self.geometry.unit(page);
        let units = (first.0..first.0 + self.geometry.slots_per_page).map(|ppn| self.lpn(Ppn(ppn)));
        self.is_written(page).then_some((first, units))
    }

    /// Whether `page` was passed over: a later page of its block was programmed, and it was not.
    pub(crate) fn is_skipped(&self, page: PageAt) -> bool {
        self.spare[self.geometry.unit(page).index()] == SKIPPED
    }

    /// Check that `page` may be read.
    #[inline]
    pub(super) fn check_read(&self, page: PageAt, cause: Cause) -> FlashResult<()> {
        if !self.is_written(page) {
            return self.check_unreadable(page, cause);
        }
        Ok(())
    }

    /// A mount tries every page.
    #[cold]
    fn check_unreadable(&self, page: PageAt, cause: Cause) -> FlashResult<()> {
        match (self.is_torn(page), cause) {
            (true, Cause::Recovery) => Ok(()),
            (true, _) => Err(self.refuse(Command::Read, page, cause, "the power has torn the page")),
            (false, _) => Err(self.refuse(Command::Read, page, cause, "the page was never written")),
        }
    }

    /// Program a page with `units` live logical units in its first slots; the other slots stay without data.
    #[inline(always)]
    pub(super) fn program(&mut self, page: PageAt, units: &[Lpn], cause: Cause) -> FlashResult<()> {
        let slots = self.geometry.slots_per_page as usize;
        let first = self.take_pages(page, 1, Command::Program, cause)?;
        debug_assert!(units.len() <= slots);
        for (slot, lpn) in units.iter().enumerate() {
            self.spare[first + slot] = !lpn.0;
            self.valid[(first + slot) / 64] |= 1 << ((first + slot) % 64);
        }
        if units.len() < slots {
            self.spare[first + units.len()..first + slots].fill(PADDING);
        }
        self.blocks[page.block.index()].valid += units.len() as u16;
        Ok(())
    }

    /// Program a page with copies of the units of the page `home`, which stay where they are.
    pub(super) fn program_backup(&mut self, page: PageAt, home: PageAt, cause: Cause) -> FlashResult<()> {
        if !self.by_formula.is_empty() {
            self.enter_all(home.block);
        }
        let first = self.take_pages(page, 1, Command::Program, cause)?;
        let of = self.geometry.unit(home).index();
        for slot in 0..self.geometry.slots_per_page as usize {
            self.spare[first + slot] = self.spare[of + slot];
        }
        if let Some(contents) = &mut self.contents {
            let opening = self.blocks[home.block.index()].sequence;
            let home = Home { page: self.geometry.page_id(home), opening };
            contents.store_home(self.geometry.page_id(page), home);
        }
        Ok(())
    }

    /// The page that the one at `backup` is a backup of, in flash that keeps its past; `None` where that was erased since.
    pub(crate) fn home_of(&self, backup: PageAt) -> Option<PageAt> {
        let home = self.contents.as_ref()?.home(self.geometry.page_id(backup))?;
        let page = self.geometry.page_at(home.page);
        (self.sequence(page.block) == home.opening).then_some(page)
    }

    /// Whether the power has torn `page`.
    pub(crate) fn is_torn(&self, page: PageAt) -> bool {
        page.index < self.next_page(page.block) && self.spare[self.geometry.unit(page).index()] == UNREADABLE
    }

    /// Program whole pages of live units, from `page` on.
    pub(super) fn program_run(&mut self, page: PageAt, run: PageRun, cause: Cause) -> FlashResult<usize> {
        let first = self.take_pages(page, run.pages, Command::Program, cause)?;
        let count = (run.pages * self.geometry.slots_per_page) as usize;
        enter_run(&mut self.spare[first..first + count], run, self.geometry.slots_per_page);
        self.set_valid(first, count);
        self.blocks[page.block.index()].valid += count as u16;
        Ok(first)
    }

    /// Program the data pages of an erased block as `filled` says. Nothing of them is entered.
    ///
    /// # Panics
    /// With verification, which must know what pages hold.
    pub(super) fn program_as_filled(
        &mut self,
        block: BlockId,
        filled: &Arc<Filled>,
        cause: Cause,
    ) -> FlashResult<usize> {
        assert!(self.contents.is_none(), "verification looks at each page");
        if self.by_formula.is_empty() {
            self.by_formula = table::zeros(self.blocks.len());
            self.filled = Some(Arc::clone(filled));
        }
        let pages = self.geometry.data_pages_per_block;
        let first = self.take_pages(PageAt { block, index: 0 }, pages, Command::Program, cause)?;
        self.blocks[block.index()].valid = self.geometry.data_units_per_block() as u16;
        self.by_formula[block.index()] = ByFormula::SpareAndValidity;
        Ok(first)
    }

    /// Program a page of a block for `role` that holds `words`.
    pub(super) fn program_words(&mut self, page: PageAt, words: &[u32], cause: Cause) -> FlashResult<()> {
        self.program_metadata(page, cause)?;
        let page = self.geometry.page_id(page);
        if let Some(contents) = &mut self.contents {
            contents.store_table(page, words.to_vec());
        }
        Ok(())
    }

    /// Program a page that holds no host data.
    pub(super) fn program_metadata(&mut self, page: PageAt, cause: Cause) -> FlashResult<()> {
        let first = self.take_pages(page, 1, Command::Program, cause)?;
        // The formula knows the summary page of a block that it fills.
        if self.by_formula_of(page.block) != ByFormula::SpareAndValidity {
            self.spare[first..first + self.geometry.slots_per_page as usize].fill(METADATA);
        }
        Ok(())
    }

    /// Move whole pages, each of one live unit. `from` are pages of one block, ascending, and all that are live between
    /// the first and the last of them. They go to as many pages from `to` on. What was moved is stale in its old place;
    /// `remap` hears where each unit is now.
    #[inline]
    pub(super) fn relocate(
        &mut self,
        from: &[Ppn],
        to: PageAt,
        cause: Cause,
        mut remap: impl FnMut(Lpn, Ppn),
    ) -> FlashResult<()> {
        debug_assert_eq!(self.geometry.slots_per_page, 1, "pages of several units are moved one by one");
        let (Some(&start), Some(&last)) = (from.first(), from.last()) else { return Ok(()) };
        let count = from.len();
        let first = self.take_pages(to, count as u32, Command::Copyback, cause)?;
        let source = self.geometry.block_of(start);
        if !self.by_formula.is_empty() {
            self.enter_all(source);
        }
        let base = self.geometry.first_unit(source).0;
        let areas = Cell::from_mut(&mut *self.spare).as_slice_of_cells();
        let old = &areas[base as usize..(base + self.geometry.units_per_block()) as usize];
        let new = &areas[first..first + count];
        #[allow(
            clippy::needless_range_loop,
            reason = "over three zipped iterators the loop takes twice the instructions"
        )]
        for at in 0..count {
            let spare = old[(from[at].0 - base) as usize].get();
            new[at].set(spare);
            remap(Lpn(!spare), Ppn((first + at) as u32));
        }
        self.clear_valid(start, last, count)?;
        self.set_valid(first, count);
        self.blocks[to.block.index()].valid += count as u16;
        self.blocks[source.index()].valid -= count as u16;
        if self.contents.is_some() {
            for (new, old) in (first..).zip(from) {
                self.store_copy(*old, Ppn(new as u32));
            }
        }
        Ok(())
    }

    /// The live units from `start` to `last` are stale from now on; they must be `count`.
    #[inline]
    fn clear_valid(&mut self, start: Ppn, last: Ppn, count: usize) -> FlashResult<()> {
        let (mut at, mut live) = (start.index(), 0);
        while at <= last.index() {
            let span = (64 - at % 64).min(last.index() + 1 - at);
            let mask = (u64::MAX >> (64 - span)) << (at % 64);
            let word = &mut self.valid[at / 64];
            live += (*word & mask).count_ones() as usize;
            *word &= !mask;
            at += span;
        }
        if live == count {
            return Ok(());
        }
        Err(broken(format!(
            "flash refused to move {count} physical units from {} to {}: {live} hold live data there",
            start.0, last.0
        )))
    }

    #[inline]
    fn set_valid(&mut self, first: usize, count: usize) {
        let mut at = first;
        let end = first + count;
        while at < end {
            let span = (64 - at % 64).min(end - at);
            self.valid[at / 64] |= (u64::MAX >> (64 - span)) << (at % 64);
            at += span;
        }
    }

    /// Check that `count` pages from `page` on may be programmed and count them; returns the first unit.
    #[inline(always)]
    fn take_pages(&mut self, page: PageAt, count: u32, command: Command, cause: Cause) -> FlashResult<usize> {
        let state = &mut self.blocks[page.block.index()];
        let next = u32::from(state.next_page);
        let end = page.index + count;
        if page.index < next || end > self.geometry.pages_per_block() {
            let why = format!("pages of block {} are programmed up to {next} already", page.block.0);
            return Err(self.refuse(command, page, cause, &why));
        }
        state.next_page = end as u16;
        if page.index > next {
            // Skipped pages lose what an earlier life of the block left in their spare areas.
            let from = self.geometry.unit(PageAt { index: next, ..page }).index();
            self.spare[from..self.geometry.unit(page).index()].fill(SKIPPED);
        }
        if self.contents.is_some() {
            self.note_pages(page, count);
        }
        Ok(self.geometry.unit(page).index())
    }

    /// With verification: pages are being programmed.
    fn note_pages(&mut self, page: PageAt, count: u32) {
        self.keep_changed();
        let first = self.geometry.page_id(page);
        if let Some(contents) = &mut self.contents {
            contents.number(first, count);
            if let Some(history) = &mut contents.history {
                history.programmed(page, count);
            }
        }
    }

    /// Keep what the last commands have left in their pages, while it is there.
    fn keep_changed(&mut self) {
        let Some(contents) = &mut self.contents else { return };
        let Some(mut history) = contents.history.take() else { return };
        for page in history.open_pages() {
            let first = self.geometry.unit(page).index();
            let slots = self.geometry.slots_per_page as usize;
            let block = page.block.index();
            let (sequence, purpose) = (self.blocks[block].sequence, self.purposes[block]);
            if let Some(held) = contents.of_page(self.geometry.page_id(page)) {
                history.keep((sequence, purpose), &self.spare[first..first + slots], held);
            }
        }
        contents.history = Some(history);
    }

    /// From here on, a mount will find what it needs: when pages were programmed, and what translation pages hold. This
    /// takes 8 bytes for each mapping unit, and flash must be erased and made with verification.
    pub fn keep_past(&mut self) {
        if let Some(contents) = &mut self.contents {
            contents.keep_past();
        }
    }

    /// Whether [`keep_past`](Self::keep_past) was called.
    pub fn keeps_past(&self) -> bool {
        self.contents.as_ref().is_some_and(Contents::keeps_past)
    }

    /// Remember every change from now on, of flash that keeps its past.
    pub(crate) fn start_history(&mut self) {
        if let Some(contents) = &mut self.contents {
            contents.history = Some(History::default());
        }
    }

    /// How many changes the history has; 0 when there is none.
    pub(crate) fn changes(&self) -> usize {
        let history = self.contents.as_ref().and_then(|contents| contents.history.as_ref());
        history.map_or(0, History::len)
    }

    /// Everything that has changed since [`start_history`](Self::start_history).
    pub(crate) fn take_history(&mut self) -> History {
        self.keep_changed();
        self.contents.as_mut().and_then(|contents| contents.history.take()).unwrap_or_default()
    }

    /// Do the `index`-th change of `history` again, on the array that it was a change of. Which data are live is not known
    /// then.
    pub(crate) fn redo(&mut self, history: &History, index: usize) {
        match history.change(index) {
            Change::Erase(block) => {
                let state = &mut self.blocks[block.index()];
                // What is torn next says nothing of when it was opened.
                (state.next_page, state.sequence) = (0, 0);
                state.erases += 1;
                self.purposes[block.index()] = Purpose::default();
            }
            Change::Program(page) => {
                self.skip_to(page);
                let kept = history.kept(index, self.geometry.slots_per_page);
                let first = self.geometry.unit(page).index();
                self.spare[first..first + kept.spare.len()].copy_from_slice(kept.spare);
                let state = &mut self.blocks[page.block.index()];
                state.sequence = kept.sequence;
                self.purposes[page.block.index()] = kept.purpose;
                self.openings = self.openings.max(kept.sequence);
                let id = self.geometry.page_id(page);
                if let Some(contents) = &mut self.contents {
                    contents.restore(id, &kept);
                }
            }
        }
    }

    /// The power goes while `change` is done: a program leaves its page unreadable, and those of its word line that came
    /// before; an erase the whole block.
    pub(crate) fn tear(&mut self, change: Change, lines: &WordLines) {
        let slots = self.geometry.slots_per_page as usize;
        match change {
            Change::Erase(block) => {
                let first = self.geometry.first_unit(block).index();
                self.spare[first..first + self.geometry.units_per_block() as usize].fill(UNREADABLE);
                let state = &mut self.blocks[block.index()];
                // Nothing says any more when it was opened.
                (state.next_page, state.sequence) = (self.geometry.pages_per_block() as u16, 0);
                self.purposes[block.index()] = Purpose::default();
            }
            Change::Program(page) => {
                self.skip_to(page);
                for index in
                    lines.endangered(page.index).iter().map(|index| u32::from(*index)).chain([page.index])
                {
                    let first = self.geometry.unit(PageAt { index, ..page }).index();
                    // What was skipped was not programmed.
                    if index == page.index || self.spare[first] != SKIPPED {
                        self.spare[first..first + slots].fill(UNREADABLE);
                    }
                }
            }
        }
    }

    /// `page` is the next to be programmed in its block, and is.
    fn skip_to(&mut self, page: PageAt) {
        let next = self.next_page(page.block);
        if page.index > next {
            let from = self.geometry.unit(PageAt { index: next, ..page }).index();
            self.spare[from..self.geometry.unit(page).index()].fill(SKIPPED);
        }
        self.blocks[page.block.index()].next_page = page.index as u16 + 1;
    }

    /// Erase a block.
    pub(super) fn erase(&mut self, block: BlockId, cause: Cause) -> FlashResult<()> {
        let valid = self.blocks[block.index()].valid;
        if valid != 0 {
            let why = format!("{valid} live units would be lost");
            return Err(self.refuse(Command::Erase, PageAt { block, index: 0 }, cause, &why));
        }
        if self.contents.is_some() {
            // Before anything of the block is forgotten: the last program may have been one of its pages.
            self.keep_changed();
            if let Some(history) = self.contents.as_mut().and_then(|contents| contents.history.as_mut()) {
                history.erased(block);
            }
        }
        let state = &mut self.blocks[block.index()];
        // Nothing says any more when it was opened, also not when its next program is torn.
        (state.next_page, state.sequence) = (0, 0);
        state.erases += 1;
        self.purposes[block.index()] = Purpose::default();
        if let Some(by_formula) = self.by_formula.get_mut(block.index()) {
            *by_formula = ByFormula::Nothing;
        }
        Ok(())
    }

    /// With verification: what a write leaves in `ppn`. The sectors of `unit` hold its versions, the others what `merged`
    /// holds, or nothing.
    pub(super) fn store(&mut self, ppn: Ppn, unit: &UnitAccess<'_>, merged: Option<Ppn>) {
        if let Some(contents) = &mut self.contents {
            contents.store(ppn, unit, merged);
        }
    }

    /// With verification: `to` holds what `from` holds.
    #[inline]
    pub(super) fn store_copy(&mut self, from: Ppn, to: Ppn) {
        if let Some(contents) = &mut self.contents {
            contents.store_copy(from, to);
        }
    }

    /// With verification: the translation page at `ppn` holds these entries.
    pub(super) fn store_table(&mut self, ppn: Ppn, entries: Vec<u32>) {
        let page = self.geometry.page_id(self.geometry.page_of(ppn));
        if let Some(contents) = &mut self.contents {
            contents.store_table(page, entries);
        }
    }

    /// With verification: the versions of the sectors `range` of `ppn`.
    pub(super) fn load(&self, ppn: Ppn, range: std::ops::Range<u32>) -> &[u32] {
        self.contents.as_ref().map_or(&[], |contents| contents.load(ppn, range))
    }

    /// Whether sector versions are kept.
    #[inline]
    pub fn verifies(&self) -> bool {
        self.contents.is_some()
    }

    /// Recount validity from scratch.
    ///
    /// # Errors
    /// The first block whose count differs, or whose live units are not programmed data.
    pub fn verify(&self) -> Result<(), String> {
        for block in (0..self.geometry.blocks()).map(BlockId) {
            let (counted, live) = (self.valid_units(block), self.valid_of(block).count() as u32);
            if live != counted {
                return Err(format!("block {} counts {counted} live units but has {live}", block.0));
            }
            for ppn in self.valid_of(block) {
                if self.lpn(ppn).is_none() || self.geometry.page_of(ppn).index >= self.next_page(block) {
                    return Err(format!("physical unit {} is live but holds no data", ppn.0));
                }
            }
        }
        Ok(())
    }

    /// Bytes of the tables, without what verification adds.
    pub fn table_bytes(&self) -> u64 {
        let blocks = self.blocks.len() * (size_of::<Block>() + size_of::<Purpose>());
        (self.spare.len() * 4 + self.valid.len() * 8 + blocks) as u64
    }

    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&self, command: Command, page: PageAt, cause: Cause, why: &str) -> Box<RunError> {
        let PageAt { block, index } = page;
        broken(format!(
            "flash refused {} of page {index} of block {} (row {} of plane {}) for {}: {why}",
            command.name(),
            block.0,
            self.geometry.row_of(block),
            self.geometry.plane_of(block).0,
            cause.name(),
        ))
    }
}

/// Enter the spare areas of whole pages.
fn enter_run(spare: &mut [u32], run: PageRun, slots: u32) {
    if slots == 1 {
        let mut lpn = run.first.0;
        for spare in spare {
            *spare = !lpn;
            lpn = lpn.wrapping_add(run.stride);
        }
    } else {
        for (page, index) in spare.chunks_exact_mut(slots as usize).zip(0..) {
            for (spare, lpn) in page.iter_mut().zip(run.first.0 + index * run.stride..) {
                *spare = !lpn;
            }
        }
    }
}

#[cold]
fn broken(text: String) -> Box<RunError> {
    Box::new(RunError::Rule(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::DeviceConfig;
    use crate::plane_order::{AllocationOrder, PlaneOrder};

    /// Spare areas that a formula stands for have not been touched, whatever is counted when blocks are opened.
    #[test]
    fn spare_areas_stay_on_small_pages_as_long_as_a_formula_stands_for_them() {
        let text = r#"{ "geometry": { "channels": 1, "ways": 1, "dies": 1, "planes": 1, "blocks_per_plane": 20000,
            "pages_per_block": 256, "page_bytes": 4096 } }"#;
        let geometry = serde_json::from_str::<DeviceConfig>(text).unwrap().to_geometry();
        let order = PlaneOrder::new(&geometry, AllocationOrder::default(), true);
        let filled = Arc::new(Filled::new(&geometry, &order, 1));
        let mut nand = NandArray::new(&geometry, false);
        let parts = nand.spare.small_parts();
        assert_eq!(parts > 0, cfg!(target_os = "linux"));
        for block in (0..geometry.blocks()).map(BlockId) {
            nand.open(block, Role::Data);
            nand.program_as_filled(block, &filled, Cause::Host).unwrap();
        }
        assert_eq!(nand.spare.small_parts(), parts);
    }
}
