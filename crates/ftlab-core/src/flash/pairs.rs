//! LSB backup: before a program that endangers earlier pages of its word line, those are copied that could be missed.
//!
//! It lies below every translation layer, in [`Flash`]: every program and copyback comes past it. The rule is that of RSFTL
//! (Hwang, Shin; `lsb-backup`, section 3). An endangered page needs a backup unless
//!
//! - it holds nothing that is live: what overwrote it has been promised, or has at least been programmed;
//! - the request that is being written has written it: torn, that request was never completed;
//! - its backup still exists, from an earlier program of the same word line;
//! - a non-volatile cache that works with the flash has a clean copy of it, which is as good as a backup.
//!
//! A skip is a claim about order, and the cut comes in time. So the program waits until what made a page stale is durable, or
//! the copy in the cache is. And the cache keeps such a copy until the program has ended.
//!
//! A copy of collection is a request of its own for each victim, whose data stand in the victim until it is erased. So are the
//! copies of merges, from one erase to the next.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{BackupArea, CopyKeys, DeviceConfig, InvalidateAt};
use crate::error::FlashResult;
use crate::flash::cell::{PageClass, WordLines};
use crate::flash::nand::NandArray;
use crate::flash::open_blocks::OpenBlocks;
use crate::flash::port::{FlashPort, Ticket};
use crate::flash::role::Role;
use crate::flash::{Cause, Command, Flash};
use crate::geometry::{BlockId, Geometry, Lpn, PageAt, PageId, PlaneId, Ppn};
use crate::metrics::report::Counts;

/// LSB backup: the object `lsb_backup` of the summary. Each page that a program endangered is in one of the first five.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupCounts {
    /// Pages that were copied into a backup block.
    pub pages: u64,
    /// Pages that held nothing live (the paper's invalidated LSB pages).
    pub skipped_stale: u64,
    /// Pages that the request being written had written itself.
    pub skipped_same_request: u64,
    /// Pages whose backup still existed.
    pub skipped_kept: u64,
    /// Pages of which a non-volatile cache had a clean copy.
    pub skipped_cached: u64,
    /// Backup blocks that were erased.
    pub erases: u64,
}

impl Counts for BackupCounts {
    const NAME: &'static str = "lsb_backup";
}

/// Who writes: a request of the host, or a piece of internal work such as the cleaning of a victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Writer {
    /// Nobody that is known: what was there before a mount.
    #[default]
    Unknown,
    /// A group of accesses.
    Group(u32),
    /// The n-th piece of internal work, in a count that may begin again.
    Internal(u32),
    /// Merges of a block-mapped layer, from the n-th erase to the next.
    Merge(u32),
}

/// A page of a block that is being filled.
#[derive(Debug, Clone, Copy)]
struct Page<T> {
    writer: Writer,
    /// The round of its area in which it was copied; 0 if it never was.
    kept: u32,
    /// When what made it stale is durable.
    stale: T,
}

impl<T> Page<T> {
    /// Of which nothing is known.
    const fn unknown(stale: T) -> Self {
        Self { writer: Writer::Unknown, kept: 0, stale }
    }
}

/// The backup blocks of a lane, filled in turn.
#[derive(Debug, Clone)]
struct Area {
    blocks: Vec<BlockId>,
    current: usize,
    /// The number of the fill of the current one, from 1.
    round: u32,
    /// Pages used of the current one, among those that may be.
    used: usize,
}

impl Area {
    /// Whether what was copied in `round` still exists: since then, no block but those beside it was taken.
    fn has(&self, round: u32) -> bool {
        round > 0 && self.round - round < self.blocks.len() as u32
    }
}

/// What a non-volatile cache above has clean copies of, where it says so.
#[derive(Debug, Clone)]
struct CleanCopies<T> {
    /// By physical unit.
    units: Vec<u64>,
    /// By block: when the programs have ended that may tear a page of it which only the cache has then.
    relied_on: Vec<T>,
    /// The program that comes next is one of them.
    relies: bool,
}

impl<T: Ticket> CleanCopies<T> {
    fn new(geometry: &Geometry, ready: T) -> Self {
        Self {
            units: vec![0; (geometry.physical_units() as usize).div_ceil(64)],
            relied_on: vec![ready; geometry.blocks() as usize],
            relies: false,
        }
    }

    fn has(&self, ppn: Ppn) -> bool {
        (self.units[ppn.index() / 64] >> (ppn.0 % 64)) & 1 == 1
    }

    fn put(&mut self, ppn: Ppn, is: bool) {
        if self.has(ppn) != is {
            self.units[ppn.index() / 64] ^= 1 << (ppn.0 % 64);
        }
    }

    fn table_bytes(&self) -> u64 {
        (self.units.len() * 8 + size_of_val::<[T]>(&self.relied_on)) as u64
    }
}

/// Watches over programs.
#[derive(Debug, Clone)]
pub(super) struct PairGuard<T> {
    keys: CopyKeys,
    lines: WordLines,
    /// The last page of a block.
    last_page: u32,
    /// Pages of a backup block that take backups.
    usable: Vec<u32>,
    /// By lane.
    areas: Vec<Area>,
    /// Pages of blocks that are being filled.
    open: OpenBlocks<Page<T>>,
    /// With a cache that works with the flash.
    cached: Option<CleanCopies<T>>,
    writer: Writer,
    internal: u32,
    /// What the request of the host that is being written has made stale so far, in blocks that are being filled.
    uncommitted: Vec<Ppn>,
    /// What was trimmed, in blocks that are being filled, and has to be found until the journal says so.
    trimmed: Vec<Ppn>,
    /// The blocks that hold old versions of what it has written.
    old_blocks: Vec<BlockId>,
    /// A block that held such an old version was erased, or the journal has left it out: the request is no longer one that may
    /// be thrown away.
    old_is_gone: bool,
    /// When all that the request has written so far is durable.
    written: T,
    /// Erases so far, which divide merges.
    erases: u32,
    /// What merges have moved out of blocks that are being filled, since the last erase.
    moved: Vec<Ppn>,
    /// When all that merges have written since then is durable.
    merged: T,
    /// A mount writes what stands elsewhere too.
    restoring: bool,
    pub(super) counts: BackupCounts,
}

impl<T: Ticket> PairGuard<T> {
    /// For a validated configuration; `None` where nothing is backed up.
    pub(super) fn new(
        config: &DeviceConfig,
        nand: &NandArray,
        classes: &[PageClass],
        ready: T,
    ) -> Option<Self> {
        let keys = config.lsb_backup.copies()?;
        let geometry = nand.geometry();
        let takes = |page: &u32| keys.area == BackupArea::Pairs || classes[*page as usize] == PageClass::Lsb;
        let usable: Vec<u32> = (0..geometry.pages_per_block()).filter(takes).collect();
        let planes_per_lane = if config.timing.independent_planes { 1 } else { geometry.planes_per_die() };
        let areas = (0..geometry.planes()).step_by(planes_per_lane as usize).map(|first| {
            let planes = (first..first + planes_per_lane).map(PlaneId);
            let blocks: Vec<BlockId> = planes.flat_map(|plane| geometry.backup_blocks(plane)).collect();
            // A mount goes on where the last life has stopped.
            let begun = |at: &usize| {
                let first = PageAt { block: blocks[*at], index: usable[0] };
                (nand.next_page(first.block) > 0).then(|| nand.age(geometry.unit(first)))
            };
            let current = (0..blocks.len()).rev().max_by_key(begun).unwrap_or(0);
            let used = usable.partition_point(|page| *page < nand.next_page(blocks[current]));
            Area { blocks, current, round: 1, used }
        });
        Some(Self {
            areas: areas.collect(),
            lines: WordLines::new(classes),
            last_page: geometry.pages_per_block() - 1,
            open: OpenBlocks::new(geometry),
            cached: config.nvm.cooperates().then(|| CleanCopies::new(geometry, ready)),
            writer: Writer::Unknown,
            internal: 0,
            uncommitted: Vec::new(),
            trimmed: Vec::new(),
            old_blocks: Vec::new(),
            old_is_gone: false,
            written: ready,
            erases: 0,
            moved: Vec::new(),
            merged: ready,
            restoring: false,
            counts: BackupCounts::default(),
            keys,
            usable,
        })
    }

    /// The same behind another port. Everything that was submitted to the old one has ended.
    pub(super) fn with_ready<U: Ticket>(self, ready: U) -> PairGuard<U> {
        PairGuard {
            open: self.open.map(|page| Page { writer: page.writer, kept: page.kept, stale: ready }),
            cached: self.cached.map(|cached| CleanCopies {
                relied_on: vec![ready; cached.relied_on.len()],
                units: cached.units,
                relies: false,
            }),
            keys: self.keys,
            lines: self.lines,
            last_page: self.last_page,
            usable: self.usable,
            areas: self.areas,
            writer: self.writer,
            internal: self.internal,
            uncommitted: self.uncommitted,
            trimmed: self.trimmed,
            old_blocks: self.old_blocks,
            old_is_gone: self.old_is_gone,
            written: ready,
            erases: self.erases,
            moved: self.moved,
            merged: ready,
            restoring: false,
            counts: BackupCounts::default(),
        }
    }

    /// A request of the host is written from now on: the one before is committed. When that is durable is `known` with a clock
    /// only.
    #[inline]
    fn begin(
        &mut self,
        geometry: &Geometry,
        writer: Writer,
        known: bool,
        ready: T,
        mut join: impl FnMut(T, T) -> T,
    ) {
        if self.writer == writer {
            return;
        }
        self.writer = writer;
        for ppn in self.uncommitted.drain(..).filter(|_| known) {
            let page = geometry.page_of(ppn);
            if let Some(page) = self.open.get_mut(page) {
                // Requests before may have overwritten other units of the page.
                page.stale = join(page.stale, self.written);
            }
        }
        self.old_blocks.clear();
        self.old_is_gone = false;
        self.written = ready;
    }

    /// The page at `ppn` is stale because of what was programmed last.
    #[inline(always)]
    fn superseded(&mut self, geometry: &Geometry, ppn: Ppn) {
        let block = geometry.block_of(ppn);
        match self.writer {
            Writer::Group(_) => {
                if self.open.is_open(block) {
                    self.uncommitted.push(ppn);
                }
                if self.old_blocks.last() != Some(&block) {
                    self.old_blocks.push(block);
                }
            }
            Writer::Merge(_) if self.open.is_open(block) => self.moved.push(ppn),
            Writer::Merge(_) | Writer::Internal(_) | Writer::Unknown => {}
        }
    }

    /// A block is erased: what merges have copied before stands nowhere else any more.
    fn end_merges(&mut self, geometry: &Geometry, ready: T, mut join: impl FnMut(T, T) -> T) {
        self.erases = self.erases.wrapping_add(1);
        for ppn in self.moved.drain(..) {
            if let Some(page) = self.open.get_mut(geometry.page_of(ppn)) {
                page.stale = join(page.stale, self.merged);
            }
        }
        self.merged = ready;
    }

    /// The last page that is under way and may tear `page`: what was written with it has no backup. What comes later makes one.
    pub(super) fn torn_until(&self, page: PageAt, next_page: u32) -> u32 {
        self.lines.last_of_line(page.index).min(next_page - 1)
    }

    /// `page` is programmed next.
    #[inline(always)]
    fn programmed(&mut self, page: PageAt, ready: T) {
        self.open.entry(page, Page::unknown(ready)).writer = self.writer;
        if page.index == self.last_page {
            self.open.close(page.block);
        }
    }

    /// `count` pages from `page` on are programmed next.
    fn programmed_all(&mut self, page: PageAt, count: u32, ready: T) {
        let pages = self.open.open(page.block, Page::unknown(ready));
        let (first, end) = (page.index as usize, (page.index + count) as usize);
        for page in &mut pages[first..end] {
            page.writer = self.writer;
        }
        if end == pages.len() {
            self.open.close(page.block);
        }
    }

    /// How many of the next `most` pages from `page` on endanger nothing but each other, where that needs no backup: what is
    /// written now has written them. Also how many pages they endanger.
    fn apart(&self, page: PageAt, most: u32) -> (u32, u32) {
        // What copies are of stands until all of them have been programmed.
        let is_own = self.keys.exempt_same_request && matches!(self.writer, Writer::Internal(_));
        let (mut count, mut endangered) = (0, 0);
        while count < most {
            let pages = self.lines.endangered(page.index + count);
            if pages.first().is_some_and(|first| !is_own || u32::from(*first) < page.index) {
                break;
            }
            count += 1;
            endangered += pages.len() as u32;
        }
        (count, endangered)
    }
}

/// What a page needs before a program that endangers it.
enum Need<T> {
    /// It holds no data.
    Nothing,
    /// The request being written has written it.
    Own,
    /// A backup exists.
    Kept,
    /// That what made it stale is durable.
    Wait(T),
    /// That the copy in a cache is durable.
    Cached(T),
    /// A copy of so many units.
    Backup(u32),
}

impl<P: FlashPort> Flash<P> {
    /// The host writes group `id` from now on.
    #[inline(always)]
    pub(crate) fn begin_group(&mut self, id: u32) {
        if self.has_backup() {
            self.begin_writer(Writer::Group(id));
        }
    }

    #[inline(never)]
    fn begin_writer(&mut self, writer: Writer) {
        let ready = self.port.ready();
        if let Some(pairs) = &mut self.pairs {
            let geometry = self.nand.geometry();
            pairs.begin(geometry, writer, P::LISTENS, ready, |one, other| self.port.join(one, other));
        }
    }

    /// Internal work begins, which is written apart from what was being written; [`end_internal`](Self::end_internal) goes on
    /// with that.
    #[inline]
    pub(crate) fn begin_internal(&mut self) -> Writer {
        let Some(pairs) = &mut self.pairs else { return Writer::Unknown };
        pairs.internal = pairs.internal.wrapping_add(1);
        std::mem::replace(&mut pairs.writer, Writer::Internal(pairs.internal))
    }

    /// The number of a piece of internal work that is done in steps; see [`resume_internal`](Self::resume_internal).
    pub(crate) fn new_internal(&mut self) -> u32 {
        let Some(pairs) = &mut self.pairs else { return 0 };
        pairs.internal = pairs.internal.wrapping_add(1);
        pairs.internal
    }

    /// A step of internal work `number`: what all its steps have copied stands elsewhere until the last has ended.
    /// [`end_internal`](Self::end_internal) goes on with what was being written.
    pub(crate) fn resume_internal(&mut self, number: u32) -> Writer {
        let Some(pairs) = &mut self.pairs else { return Writer::Unknown };
        std::mem::replace(&mut pairs.writer, Writer::Internal(number))
    }

    /// A merge copies a page, or closes what it has written: what it has copied since the last erase stands elsewhere until the
    /// next. [`end_internal`](Self::end_internal) goes on with what was being written.
    #[inline]
    pub(crate) fn begin_copy(&mut self) -> Writer {
        let Some(pairs) = &mut self.pairs else { return Writer::Unknown };
        std::mem::replace(&mut pairs.writer, Writer::Merge(pairs.erases))
    }

    /// Go on with what `begin_internal` has interrupted.
    #[inline]
    pub(crate) fn end_internal(&mut self, writer: Writer) {
        if let Some(pairs) = &mut self.pairs {
            pairs.writer = writer;
        }
    }

    /// What LSB backup has counted, if there is any.
    pub(crate) fn backup_counts(&self) -> Option<BackupCounts> {
        self.pairs.as_ref().map(|pairs| pairs.counts)
    }

    /// Bytes of the tables of LSB backup.
    pub(super) fn backup_table_bytes(&self) -> u64 {
        self.pairs.as_ref().map_or(0, |pairs| {
            pairs.open.table_bytes() + pairs.cached.as_ref().map_or(0, CleanCopies::table_bytes)
        })
    }

    /// Whether programs are watched over.
    #[inline(always)]
    pub(crate) fn has_backup(&self) -> bool {
        self.pairs.is_some()
    }

    /// `page` is programmed next, with `units`: save what that endangers. Returns from when on it may be.
    #[inline(always)]
    pub(super) fn before_program(
        &mut self,
        page: PageAt,
        units: &[Lpn],
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        if self.has_backup() { self.look_after(page, units, after) } else { Ok(after) }
    }

    #[inline(always)]
    fn look_after(&mut self, page: PageAt, units: &[Lpn], after: P::Ticket) -> FlashResult<P::Ticket> {
        let mut after = after;
        if let Some(pairs) = &self.pairs
            && pairs.lines.count_endangered(page.index) > 0
        {
            after = self.save_endangered(page, units, after)?;
        }
        let ready = self.port.ready();
        if let Some(pairs) = &mut self.pairs {
            pairs.programmed(page, ready);
        }
        Ok(after)
    }

    /// [`copyback_all`](Self::copyback_all) where programs are watched over: those that endanger what was there before are done
    /// one by one.
    #[inline(never)]
    pub(super) fn copyback_watched(
        &mut self,
        from: &[Ppn],
        to: PageAt,
        cause: Cause,
        after: P::Ticket,
        mut remap: impl FnMut(Lpn, Ppn),
    ) -> FlashResult<P::Ticket> {
        let ready = self.port.ready();
        let (mut done, mut at) = (after, 0);
        while at < from.len() {
            let page = PageAt { index: to.index + at as u32, ..to };
            let most = (from.len() - at) as u32;
            let Some(pairs) = &mut self.pairs else { break };
            let (mut count, endangered) = pairs.apart(page, most);
            let mut after = after;
            if count > 0 {
                pairs.counts.skipped_same_request += u64::from(endangered);
                pairs.programmed_all(page, count, ready);
            } else {
                count = 1;
                let lpn = self.nand.lpn(from[at]);
                after = self.before_program(page, lpn.as_slice(), after)?;
            }
            let moving = &from[at..at + count as usize];
            let copied = self.copyback_run(moving, page, cause, after, &mut remap)?;
            done = self.port.join(done, copied);
            at += moving.len();
        }
        Ok(done)
    }

    /// Back up what a program of `page` endangers and has to be kept. Returns from when on it may be programmed.
    #[inline(never)]
    fn save_endangered(&mut self, page: PageAt, units: &[Lpn], after: P::Ticket) -> FlashResult<P::Ticket> {
        let Some(mut pairs) = self.pairs.take() else { return Ok(after) };
        let result = self.save_each(&mut pairs, page, units, after);
        self.pairs = Some(pairs);
        result
    }

    #[inline]
    fn save_each(
        &mut self,
        pairs: &mut PairGuard<P::Ticket>,
        page: PageAt,
        units: &[Lpn],
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let most = pairs.lines.count_endangered(page.index);
        let lane = self.lane_of(page.block) as usize;
        let left = pairs.usable.len() - pairs.areas[lane].used;
        // All backups of a word line fit, or a new block takes them: otherwise the second could erase the first.
        if left < most as usize && left < self.backups_needed(pairs, page, lane, units) {
            self.next_backup_block(pairs, lane)?;
        }
        let mut after = after;
        for at in 0..most {
            let endangered = PageAt { index: pairs.lines.nth_endangered(page.index, at), ..page };
            after = self.save(pairs, endangered, lane, units, after)?;
        }
        Ok(after)
    }

    /// Back up `page`, which a program of `units` endangers, if it has to be kept.
    // Not a part of the loop over what a program endangers, which is one page in most cases: all of `pairs` would be loaded before.
    #[inline(never)]
    fn save(
        &mut self,
        pairs: &mut PairGuard<P::Ticket>,
        page: PageAt,
        lane: usize,
        units: &[Lpn],
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let need = self.need(pairs, page, lane, units);
        let counts = &mut pairs.counts;
        match need {
            Need::Nothing => {}
            Need::Own => counts.skipped_same_request += 1,
            Need::Kept => counts.skipped_kept += 1,
            Need::Wait(stale) => {
                counts.skipped_stale += 1;
                return Ok(self.port.join(after, stale));
            }
            Need::Cached(copied) => {
                counts.skipped_cached += 1;
                if let Some(cached) = &mut pairs.cached {
                    cached.relies = true;
                }
                return Ok(self.port.join(after, copied));
            }
            // Of one lane: it ends before the program begins.
            Need::Backup(count) => self.back_up(pairs, lane, page, count)?,
        }
        Ok(after)
    }

    /// How many pages a program of `page` endangers that need a backup.
    #[cold]
    #[inline(never)]
    fn backups_needed(
        &self,
        pairs: &PairGuard<P::Ticket>,
        page: PageAt,
        lane: usize,
        units: &[Lpn],
    ) -> usize {
        let endangered = pairs.lines.endangered(page.index).iter();
        let pages = endangered.map(|index| PageAt { index: u32::from(*index), ..page });
        pages.filter(|page| matches!(self.need(pairs, *page, lane, units), Need::Backup(_))).count()
    }

    /// From here on, a mount writes what stands elsewhere too, and nothing needs a backup; or does so no more.
    pub(crate) fn set_restoring(&mut self, on: bool) {
        if let Some(pairs) = &mut self.pairs {
            pairs.restoring = on;
        }
    }

    /// What `page`, whose backups go to those of `lane`, needs before it is endangered by a program of `units`.
    #[inline(always)]
    fn need(
        &self,
        pairs: &PairGuard<P::Ticket>,
        page: PageAt,
        lane: usize,
        units: &[Lpn],
    ) -> Need<P::Ticket> {
        let Some((first, units_there)) = self.nand.held(page) else { return Need::Nothing };
        let is_live = |ppn: Ppn, lpn: Lpn| match pairs.keys.invalidate_at {
            InvalidateAt::Commit => self.nand.is_valid(ppn) || pairs.uncommitted.contains(&ppn),
            InvalidateAt::Page => self.nand.is_valid(ppn) && !units.contains(&lpn),
        } || pairs.trimmed.contains(&ppn)
            || pairs.moved.contains(&ppn);
        let (mut units_held, mut live, mut are_cached) = (0, false, pairs.cached.is_some());
        for (ppn, lpn) in (first.0..).map(Ppn).zip(units_there) {
            let Some(lpn) = lpn else { continue };
            units_held += 1;
            if is_live(ppn, lpn) {
                live = true;
                are_cached = are_cached && pairs.cached.as_ref().is_some_and(|cached| cached.has(ppn));
            }
        }
        if units_held == 0 {
            return Need::Nothing;
        }
        let state = pairs.open.get(page).copied().unwrap_or_else(|| Page::unknown(self.port.ready()));
        if !live {
            return Need::Wait(state.stale);
        }
        let is_own = state.writer == pairs.writer
            && match state.writer {
                Writer::Unknown => false,
                Writer::Group(_) => !pairs.old_is_gone,
                // Copies: what they are of stands until all of them have been programmed.
                Writer::Internal(_) | Writer::Merge(_) => true,
            };
        if pairs.restoring || pairs.keys.exempt_same_request && is_own {
            return Need::Own;
        }
        if pairs.areas[lane].has(state.kept) {
            return Need::Kept;
        }
        if are_cached { Need::Cached(self.guard_of(page.block)) } else { Need::Backup(units_held) }
    }

    /// A cache has a clean copy of what is at `ppn`, or has it no more.
    pub(crate) fn note_cached(&mut self, ppn: Ppn, is: bool) {
        if let Some(cached) = self.pairs.as_mut().and_then(|pairs| pairs.cached.as_mut()) {
            cached.put(ppn, is);
        }
    }

    /// Until when a cache must keep its clean copies of what is in `block`.
    pub(crate) fn relied_on(&self, block: BlockId) -> P::Ticket {
        let cached = self.pairs.as_ref().and_then(|pairs| pairs.cached.as_ref());
        cached.map_or_else(|| self.port.ready(), |cached| cached.relied_on[block.index()])
    }

    /// What is in `block` from now on must be kept in the cache until `until`.
    pub(crate) fn rely_until(&mut self, block: BlockId, until: P::Ticket) {
        if let Some(cached) = self.pairs.as_mut().and_then(|pairs| pairs.cached.as_mut()) {
            let relied_on = &mut cached.relied_on[block.index()];
            *relied_on = self.port.join(*relied_on, until);
        }
    }

    /// A program of `block` has been submitted, until `done`.
    pub(super) fn note_relied(&mut self, block: BlockId, done: P::Ticket) {
        let cached = self.pairs.as_mut().and_then(|pairs| pairs.cached.as_mut());
        if cached.is_some_and(|cached| std::mem::take(&mut cached.relies)) {
            self.rely_until(block, done);
        }
    }

    /// Copy `page`, which holds `count` units, into the backup block of its lane.
    #[inline]
    fn back_up(
        &mut self,
        pairs: &mut PairGuard<P::Ticket>,
        lane: usize,
        page: PageAt,
        count: u32,
    ) -> FlashResult<()> {
        let ready = self.port.ready();
        let area = &mut pairs.areas[lane];
        let to = PageAt { block: area.blocks[area.current], index: pairs.usable[area.used] };
        area.used += 1;
        if let Some(page) = pairs.open.get_mut(page) {
            page.kept = area.round;
        }
        let sectors = count * self.geometry().sectors_per_unit;
        let read =
            if pairs.keys.read { self.read_held(page, sectors, Cause::LsbBackup, ready)? } else { ready };
        self.enter(to, Role::Backup, pairs.keys.area == BackupArea::Slc, Cause::LsbBackup)?;
        self.admit(Command::Program, Cause::LsbBackup)?;
        self.nand.program_backup(to, page, Cause::LsbBackup)?;
        if self.nand.verifies() {
            // They stand in the first slots.
            let (old, new) = (self.geometry().unit(page).0, self.geometry().unit(to).0);
            for slot in 0..count {
                self.nand.store_copy(Ppn(old + slot), Ppn(new + slot));
            }
        }
        let submission = self.submission(Command::Program, Cause::LsbBackup, to, self.bus_bytes(sectors));
        self.port.submit(submission, read);
        pairs.counts.pages += 1;
        Ok(())
    }

    /// The backup block of a lane is full: the next one takes over. What it holds was needed until programs had ended that came
    /// before.
    fn next_backup_block(&mut self, pairs: &mut PairGuard<P::Ticket>, lane: usize) -> FlashResult<()> {
        let area = &mut pairs.areas[lane];
        area.current = (area.current + 1) % area.blocks.len();
        area.round += 1;
        area.used = 0;
        let block = area.blocks[area.current];
        if self.nand.next_page(block) > 0 {
            let ready = self.port.ready();
            self.erase_backups(block, Cause::LsbBackup, ready)?;
            pairs.counts.erases += 1;
        }
        Ok(())
    }

    fn erase_backups(&mut self, block: BlockId, cause: Cause, after: P::Ticket) -> FlashResult<()> {
        self.admit(Command::Erase, cause)?;
        self.nand.erase(block, cause)?;
        let submission = self.submission(Command::Erase, cause, PageAt { block, index: 0 }, 0);
        self.port.submit(submission, after);
        Ok(())
    }

    /// A mount has written again what was lost, which is durable after `after`: backups are not needed any more.
    ///
    /// # Errors
    /// When the power was cut.
    pub(crate) fn forget_backups(&mut self, after: P::Ticket) -> FlashResult<()> {
        let Some(mut pairs) = self.pairs.take() else { return Ok(()) };
        for area in &mut pairs.areas {
            for block in &area.blocks {
                if self.nand.next_page(*block) > 0 {
                    self.erase_backups(*block, Cause::Recovery, after)?;
                }
            }
            (area.current, area.used) = (0, 0);
            area.round += area.blocks.len() as u32;
        }
        self.pairs = Some(pairs);
        Ok(())
    }

    /// What was programmed last has made `ppn` stale.
    #[inline(never)]
    pub(super) fn note_superseded(&mut self, ppn: Ppn) {
        if let Some(pairs) = &mut self.pairs {
            pairs.superseded(self.nand.geometry(), ppn);
        }
    }

    /// What was trimmed at `ppn` has to be found by a mount until the journal says that it was trimmed. It may be a part of a
    /// request that was completed. And it may stand for an earlier trim, which was promised: the journal leaves out what was
    /// written again.
    pub(crate) fn hold_trimmed(&mut self, ppn: Ppn) {
        if let Some(pairs) = &mut self.pairs
            && pairs.open.is_open(self.nand.geometry().block_of(ppn))
        {
            pairs.trimmed.push(ppn);
        }
    }

    /// The journal says what was trimmed, when `written` has ended.
    pub(crate) fn release_trimmed(&mut self, written: P::Ticket) {
        let Some(pairs) = &mut self.pairs else { return };
        // It leaves out what the request under way has written, which stands for earlier trims from now on.
        pairs.old_is_gone = true;
        for ppn in pairs.trimmed.drain(..) {
            let page = self.nand.geometry().page_of(ppn);
            if let Some(page) = pairs.open.get_mut(page) {
                page.stale = self.port.join(page.stale, written);
            }
        }
    }

    /// Programs of what is being written have been submitted, until `done`.
    pub(super) fn note_written(&mut self, done: P::Ticket) {
        let Some(pairs) = &mut self.pairs else { return };
        match pairs.writer {
            Writer::Group(_) => pairs.written = self.port.join(pairs.written, done),
            Writer::Merge(_) => pairs.merged = self.port.join(pairs.merged, done),
            Writer::Internal(_) | Writer::Unknown => {}
        }
    }

    /// A cache above has newer data of what is at `ppn` from `since` on: no program may tear it before.
    pub(super) fn note_stale_from(&mut self, ppn: Ppn, since: P::Ticket) {
        let page = self.nand.geometry().page_of(ppn);
        if let Some(pairs) = &mut self.pairs
            && let Some(page) = pairs.open.get_mut(page)
        {
            page.stale = self.port.join(page.stale, since);
        }
    }

    /// `block` is erased.
    #[inline(never)]
    pub(super) fn note_erased(&mut self, block: BlockId) {
        let ready = self.port.ready();
        if let Some(pairs) = &mut self.pairs {
            pairs.end_merges(self.nand.geometry(), ready, |one, other| self.port.join(one, other));
            pairs.open.close(block);
            pairs.old_is_gone |= pairs.old_blocks.contains(&block);
            if let Some(cached) = &mut pairs.cached {
                cached.relied_on[block.index()] = ready;
            }
        }
    }
}

/// The pages that the power has torn and that have backups among the units `backups`, with the newest backup of each.
pub(crate) fn newest_of_torn(nand: &NandArray, backups: &[Ppn]) -> BTreeMap<PageId, PageId> {
    let geometry = nand.geometry();
    let mut newest = BTreeMap::new();
    let order = |page: PageId| nand.age(geometry.unit(geometry.page_at(page))).1;
    for backup in backups {
        let page = geometry.page_of(*backup);
        let Some(home) = nand.home_of(page).filter(|home| nand.is_torn(*home)) else { continue };
        let backup = geometry.page_id(page);
        let known = newest.entry(geometry.page_id(home)).or_insert(backup);
        if order(*known) < order(backup) {
            *known = backup;
        }
    }
    newest
}
