//! The journal of trims: units that hold nothing, in flash, so that a mount does not bring back what was trimmed.
//!
//! It has two areas of reserved blocks, in SLC mode. A log page says which units have been trimmed, or what a mount gave up; a
//! snapshot says of every unit whether it holds anything. When an area is full, a snapshot goes to the other one, and then the
//! full one is erased.
//! Each page says up to which program its statement holds: what was programmed later is newer than the trim.
//!
//! A block that holds the last data of a trimmed unit must not be erased before its trim is in the journal. Otherwise older
//! data of the unit could come back, and a request with such a unit would look as if it had never been completed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cause::Cause;
use crate::config::{DeviceConfig, JOURNAL_HEADER_WORDS, JournalShape};
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::geometry::{BlockId, Geometry, Lpn, PageAt, PlaneId};
use crate::metrics::report::Counts;

/// The first word of a page: what it says. Then up to which program, and for a snapshot its number, the place of the page in
/// it, and how many pages it has.
const LOG: u32 = 1;
const SNAPSHOT: u32 = 2;
const GIVEN_UP: u32 = 3;

/// The journal of trims: the object `journal` of the summary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JournalCounts {
    /// Pages programmed.
    pub pages: u64,
    /// Snapshots among them: each time that an area was full.
    pub snapshots: u64,
    /// Blocks erased.
    pub erases: u64,
}

impl Counts for JournalCounts {
    const NAME: &'static str = "journal";
}

/// See the module. `T` is a ticket of the port.
#[derive(Debug, Clone)]
pub struct Journal<T> {
    shape: JournalShape,
    areas: [Vec<PageAt>; 2],
    /// The area in use, and how many of its pages are used.
    area: usize,
    used: usize,
    /// The number of the last snapshot.
    number: u32,
    /// Words of a page behind its header.
    words: usize,
    /// Units trimmed and not written yet: the first, and how many.
    pending: Vec<(u32, u32)>,
    /// Blocks, as bits, that hold the last data of what was trimmed and not written yet.
    marked: Vec<u64>,
    /// Whether anything was trimmed since the last flush.
    has_trims: bool,
    /// When all that was trimmed and written, or written again meanwhile, is durable; `None` where that has passed.
    settled: Option<T>,
    /// When all that was written is durable, and what was said of units that a cache above holds may be said; `None` where that
    /// has passed.
    last: Option<T>,
    page: Vec<u32>,
    counts: JournalCounts,
}

impl<T: Ticket> Journal<T> {
    /// An empty journal; `None` for drives that have none.
    pub fn new(config: &DeviceConfig, geometry: &Geometry) -> Option<Self> {
        let shape = config.journal()?;
        let lsb_pages: Vec<u32> = config.cell.lsb_pages(geometry.pages_per_block()).collect();
        let rows = 0..geometry.journal_blocks_per_plane as usize;
        // Planes take turns, so that an area need not lie in one of them.
        let blocks = rows.flat_map(|row| {
            let planes = (0..geometry.planes()).map(PlaneId);
            planes.filter_map(move |plane| geometry.journal_blocks(plane).nth(row))
        });
        let blocks: Vec<BlockId> = blocks.collect();
        let area = |at: usize| {
            let blocks = &blocks[at * shape.area_blocks as usize..(at + 1) * shape.area_blocks as usize];
            let pages = |block: &BlockId| {
                let block = *block;
                lsb_pages.iter().map(move |index| PageAt { block, index: *index })
            };
            blocks.iter().flat_map(pages).collect()
        };
        let words = (u64::from(geometry.page_bytes) / 4 - JOURNAL_HEADER_WORDS) as usize;
        Some(Self {
            areas: [area(0), area(1)],
            area: 0,
            used: 0,
            number: 0,
            words,
            pending: Vec::with_capacity(words / 2 + 1),
            marked: vec![0; (geometry.blocks() as usize).div_ceil(64)],
            has_trims: false,
            settled: None,
            last: None,
            page: Vec::with_capacity(words + JOURNAL_HEADER_WORDS as usize),
            counts: JournalCounts::default(),
            shape,
        })
    }

    /// The same behind another port. Everything that was submitted to the old one has ended.
    pub fn with_port<U: Ticket>(self) -> Journal<U> {
        Journal {
            shape: self.shape,
            areas: self.areas,
            area: self.area,
            used: self.used,
            number: self.number,
            words: self.words,
            pending: self.pending,
            marked: self.marked,
            has_trims: self.has_trims,
            settled: None,
            last: None,
            page: self.page,
            counts: self.counts,
        }
    }

    /// `lpn` was trimmed; its last data are in `block`, if anywhere.
    pub fn trimmed(&mut self, lpn: Lpn, block: Option<BlockId>) {
        self.has_trims = true;
        match self.pending.last_mut() {
            Some((first, count)) if *first + *count == lpn.0 => *count += 1,
            _ => self.pending.push((lpn.0, 1)),
        }
        if let Some(block) = block {
            self.marked[block.index() / 64] |= 1 << (block.0 % 64);
        }
    }

    /// A unit holds nothing here because a cache above has its only data, which are durable from `since` on. To a mount, a page
    /// that is written before would say that it was trimmed.
    pub fn wait_for_cache<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, since: T) {
        self.last = Some(self.last.map_or(since, |last| flash.port.join(last, since)));
    }

    /// Whether anything was trimmed since the last flush.
    pub fn has_trims(&self) -> bool {
        self.has_trims
    }

    /// A flush promises what was trimmed.
    pub fn promise(&mut self) {
        self.has_trims = false;
    }

    /// When all that was trimmed and written, or written again meanwhile, is durable.
    pub fn settled(&self) -> Option<T> {
        self.settled
    }

    /// Whether as much waits as a page holds.
    pub fn is_due(&self) -> bool {
        self.pending.len() >= self.words / 2
    }

    /// Whether `block` holds the last data of something whose trim is not written yet.
    pub fn marks(&self, block: BlockId) -> bool {
        self.marked[block.index() / 64] >> (block.0 % 64) & 1 == 1
    }

    /// What was counted.
    pub fn counts(&self) -> JournalCounts {
        self.counts
    }

    /// Start counting at zero.
    pub fn reset_counters(&mut self) {
        self.counts = JournalCounts::default();
    }

    /// Bytes of the tables.
    pub fn table_bytes(&self) -> u64 {
        let pages = self.areas.iter().map(Vec::len).sum::<usize>();
        (pages * size_of::<PageAt>()
            + self.pending.capacity() * size_of::<(u32, u32)>()
            + self.marked.len() * 8
            + self.page.capacity() * 4) as u64
    }

    /// Write what waits. `is_empty` says which units hold nothing, after `since` programs. Returns when all of it is durable, and
    /// what was written again after its trim: that is not in the journal.
    ///
    /// # Errors
    /// When the power was cut.
    pub fn write<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        since: u32,
        is_empty: impl Fn(u32) -> bool,
    ) -> FlashResult<T> {
        self.write_as(LOG, flash, since, is_empty)
    }

    /// A mount gives up what requests that were never completed have written of `units`, which hold nothing.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn give_up<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        units: &[Lpn],
        is_empty: impl Fn(u32) -> bool,
    ) -> FlashResult<()> {
        for lpn in units {
            self.trimmed(*lpn, None);
        }
        let since = flash.nand.programmed();
        self.write_as(GIVEN_UP, flash, since, is_empty).map(|_| ())
    }

    fn write_as<P: FlashPort<Ticket = T>>(
        &mut self,
        kind: u32,
        flash: &mut Flash<P>,
        since: u32,
        is_empty: impl Fn(u32) -> bool,
    ) -> FlashResult<T> {
        let mut pending = std::mem::take(&mut self.pending);
        let mut open: Option<(u32, u32)> = None;
        self.begin_page(kind, since);
        let mut result = Ok(());
        for lpn in
            pending.iter().flat_map(|(first, count)| *first..first + count).filter(|lpn| is_empty(*lpn))
        {
            match &mut open {
                Some((first, count)) if *first + *count == lpn => *count += 1,
                _ => {
                    result = self.put(flash, open.replace((lpn, 1)), (kind, since), &is_empty);
                    if result.is_err() {
                        break;
                    }
                }
            }
        }
        result = result.and_then(|()| self.put(flash, open, (kind, since), &is_empty));
        if result.is_ok() && self.page.len() > JOURNAL_HEADER_WORDS as usize {
            result = self.program(flash, since, &is_empty);
        }
        pending.clear();
        self.pending = pending;
        self.marked.fill(0);
        result?;
        let all = flash.all_written();
        let settled = self.last.map_or(all, |last| flash.port.join(last, all));
        self.settled = Some(settled);
        Ok(settled)
    }

    fn begin_page(&mut self, kind: u32, since: u32) {
        self.page.clear();
        self.page.extend([kind, since, self.number, 0, 1]);
    }

    /// Put a range of trimmed units into the page, and program that when it is full.
    fn put<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        range: Option<(u32, u32)>,
        (kind, since): (u32, u32),
        is_empty: &impl Fn(u32) -> bool,
    ) -> FlashResult<()> {
        let Some((first, count)) = range else { return Ok(()) };
        self.page.extend([first, count]);
        if self.page.len() + 2 > self.words + JOURNAL_HEADER_WORDS as usize {
            self.program(flash, since, is_empty)?;
            self.begin_page(kind, since);
        }
        Ok(())
    }

    /// Program the log page. Where the area has no room for it, a snapshot says the same and more.
    fn program<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        since: u32,
        is_empty: &impl Fn(u32) -> bool,
    ) -> FlashResult<()> {
        if self.used < self.areas[self.area].len() {
            return self.program_next(flash, Cause::Metadata);
        }
        self.write_snapshot(flash, since, is_empty)
    }

    fn program_next<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        cause: Cause,
    ) -> FlashResult<()> {
        let page = self.areas[self.area][self.used];
        self.used += 1;
        self.counts.pages += 1;
        let after = self.last.unwrap_or_else(|| flash.port.ready());
        self.last = Some(flash.program_journal(page, &self.page, cause, after)?);
        Ok(())
    }

    fn write_snapshot<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        since: u32,
        is_empty: &impl Fn(u32) -> bool,
    ) -> FlashResult<()> {
        // It says nothing of units that were written again after their trims: those data must be there before it is.
        let all = flash.all_written();
        self.last = Some(self.last.map_or(all, |last| flash.port.join(last, all)));
        (self.area, self.used) = (1 - self.area, 0);
        self.number += 1;
        self.counts.snapshots += 1;
        let (units, total) = (flash.geometry().logical_units, self.shape.snapshot_pages as u32);
        for index in 0..total {
            self.page.clear();
            self.page.extend([SNAPSHOT, since, self.number, index, total]);
            // What it says is for a mount; its time is the same without.
            if flash.nand.verifies() {
                let first = index * self.words as u32 * 32;
                let end = (first + self.words as u32 * 32).min(units);
                for first in (first..end).step_by(32) {
                    let bits = (first..end.min(first + 32)).filter(|lpn| is_empty(*lpn));
                    self.page.push(bits.fold(0, |word, lpn| word | 1 << (lpn - first)));
                }
            }
            self.program_next(flash, Cause::Metadata)?;
        }
        self.erase(flash, 1 - self.area, Cause::Metadata)
    }

    /// Erase an area whose statements are not needed any more, or will not be when the snapshot is durable.
    fn erase<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        area: usize,
        cause: Cause,
    ) -> FlashResult<()> {
        let after = self.last.unwrap_or_else(|| flash.port.ready());
        let mut before = None;
        for at in 0..self.areas[area].len() {
            let block = self.areas[area][at].block;
            if before.replace(block) != Some(block) && flash.nand.next_page(block) > 0 {
                flash.erase(block, cause, after)?;
                self.counts.erases += 1;
            }
        }
        Ok(())
    }

    /// After a power cut: for each unit, up to which program what flash has of it was trimmed; and the same of what earlier mounts
    /// gave up. What is left of the area that is not in use is erased.
    ///
    /// # Errors
    /// When the power was cut.
    pub fn read<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
    ) -> FlashResult<(Vec<u32>, Vec<u32>)> {
        let ready = flash.port.ready();
        let sectors = flash.geometry().sectors_per_unit * flash.geometry().slots_per_page;
        for page in self.areas.iter().flatten() {
            if page.index < flash.nand.next_page(page.block) {
                flash.read(*page, sectors, Cause::Recovery, ready)?;
            }
        }
        let newest = (0..2).filter_map(|area| Some((self.newest_snapshot(&flash.nand, area)?, area))).max();
        (self.number, self.area) = newest.unwrap_or((0, 0));
        let is_used = |page: &PageAt| page.index < flash.nand.next_page(page.block);
        self.used = self.areas[self.area].iter().rposition(is_used).map_or(0, |last| last + 1);
        let mut trimmed = vec![0; flash.geometry().logical_units as usize];
        let mut given_up = trimmed.clone();
        for page in &self.areas[self.area] {
            let Some(page) = page_words(&flash.nand, *page) else { continue };
            let (header, words) = page.split_at(JOURNAL_HEADER_WORDS as usize);
            let since = header[1];
            if header[0] != SNAPSHOT {
                let units = if header[0] == LOG { &mut trimmed } else { &mut given_up };
                for range in words.chunks_exact(2) {
                    units[range[0] as usize..(range[0] + range[1]) as usize].fill(since);
                }
            } else if header[2] == self.number {
                let first = header[3] as usize * self.words * 32;
                for (lpn, unit) in trimmed.iter_mut().enumerate().skip(first).take(words.len() * 32) {
                    if words[(lpn - first) / 32] >> ((lpn - first) % 32) & 1 == 1 {
                        *unit = since;
                    }
                }
            }
        }
        self.erase(flash, 1 - self.area, Cause::Recovery)?;
        Ok((trimmed, given_up))
    }

    /// The number of the newest snapshot of an area that is there as a whole.
    fn newest_snapshot(&self, nand: &NandArray, area: usize) -> Option<u32> {
        let pages = self.areas[area].iter().filter_map(|page| page_words(nand, *page));
        let snapshots = pages.filter(|page| page[0] == SNAPSHOT).map(|page| (page[2], page[4]));
        let all: Vec<(u32, u32)> = snapshots.collect();
        let is_whole = |(number, total): &&(u32, u32)| {
            all.iter().filter(|other| other.0 == *number).count() == *total as usize
        };
        all.iter().filter(is_whole).map(|(number, _)| *number).max()
    }
}

/// What a readable page of the journal says.
fn page_words(nand: &NandArray, page: PageAt) -> Option<&[u32]> {
    if nand.is_written(page) { nand.table_at(nand.geometry().unit(page)) } else { None }
}
