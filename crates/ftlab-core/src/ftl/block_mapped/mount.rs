//! After a power cut: what a block-mapped drive finds out from its flash.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::BlockFtl;
use super::store::{Seen, UNMAPPED};
use crate::cause::Cause;
use crate::config::DeviceConfig;
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::pairs::newest_of_torn;
use crate::flash::port::{FlashPort, Ticket};
use crate::flash::role::Role;
use crate::ftl::hybrid::scheme::{ClusteredBlock, Found, Place, Purpose, Store, View};
use crate::geometry::{Lpn, PageAt, PlaneId, Ppn};

/// A page that was found.
#[derive(Debug, Clone, Copy)]
struct Page {
    lpn: Lpn,
    ppn: Ppn,
    /// When its data were written, and when they came here.
    age: (u32, u32),
}

/// A unit with pages, as a scan finds it.
#[derive(Debug)]
struct Scanned {
    unit: ClusteredBlock,
    /// `None` when nothing of it can be read, or nobody can have written it.
    purpose: Option<Purpose>,
    /// When it was opened.
    opened: u32,
    /// The one logical block of its pages.
    block: Option<u32>,
    pages: Vec<Page>,
}

/// Pages that the power has torn and that have backups, with those.
type Saved = BTreeMap<Ppn, Ppn>;

impl<T: Ticket> BlockFtl<T> {
    /// Start again after a power cut, from what flash holds.
    ///
    /// Every programmed page is read, with cause `recovery`. A block that a merge was writing is given up, unless it has all
    /// that its sources have, or has passed it over: these are erased after the last copy. Of several places of a page, the
    /// one has its data that was written last; of copies, the latest. Units without live data are erased. Trims that are not
    /// in the journal are gone: what was trimmed may come back.
    ///
    /// A torn page that has a backup counts as if it could be read. When the units to be erased are, each unit with such pages
    /// is written to a free one, and then backups are not needed any more.
    ///
    /// # Errors
    /// When flash does not keep its past, and as a write.
    pub(super) fn mounted<P: FlashPort<Ticket = T>>(
        config: &DeviceConfig,
        flash: &mut Flash<P>,
    ) -> FlashResult<Self> {
        if !flash.nand.keeps_past() {
            let text = "a mount needs the order in which pages were programmed, which flash keeps when it was asked to";
            return Err(Box::new(RunError::Rule(text.into())));
        }
        flash.forget(config);
        let geometry = flash.geometry().clone();
        let mut new = Self::new(config, &geometry, flash.port.ready());
        new.units.cause = Cause::Recovery;
        flash.nand.forget_validity();
        let trimmed = match &mut new.journal {
            Some(journal) => journal.read(flash)?.0,
            None => Vec::new(),
        };
        let saved = new.find_backups(flash)?;
        let mut scanned = new.scan(flash, &saved)?;
        scanned.sort_by_key(|found| found.opened);
        let mut dropped = Self::twice(&scanned);
        let once: Vec<&Scanned> = scanned.iter().filter(|found| !dropped.contains(&found.unit)).collect();
        dropped.extend(new.dropped(&flash.nand, &once));
        new.find_pages(flash, scanned.iter().filter(|found| !dropped.contains(&found.unit)), &trimmed);
        let mut kept = new.erase_dead(flash, scanned)?;
        new.restore(flash, &mut kept, &saved)?;
        kept.sort_by_key(|found| (found.unit.0 / new.units.shape.units_per_cluster, found.opened));
        let found: Vec<Found> = kept.iter().map(|scanned| new.describe(flash, scanned)).collect();
        let since = flash.port.ready();
        let (layer, mut store) = new.at_work(flash, since);
        layer.found(&mut store, &found)?;
        new.units.cause = Cause::Merge;
        new.layer.reset_counts();
        Ok(new)
    }

    /// Read what backup blocks hold.
    fn find_backups<P: FlashPort<Ticket = T>>(&self, flash: &mut Flash<P>) -> FlashResult<Saved> {
        let ready = flash.port.ready();
        let geometry = &self.units.geometry;
        let mut backups = Vec::new();
        for block in (0..geometry.planes()).flat_map(|plane| geometry.backup_blocks(PlaneId(plane))) {
            for index in 0..flash.nand.next_page(block) {
                let page = PageAt { block, index };
                if flash.nand.is_skipped(page) {
                    continue;
                }
                flash.read(page, 0, Cause::Recovery, ready)?;
                backups.extend(Some(geometry.unit(page)).filter(|ppn| flash.nand.lpn(*ppn).is_some()));
            }
        }
        let saved = newest_of_torn(&flash.nand, &backups).into_iter();
        let unit = |page| geometry.unit(geometry.page_at(page));
        Ok(saved.map(|(home, backup)| (unit(home), unit(backup))).collect())
    }

    /// Read every page that was programmed. Erased units become free.
    fn scan<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        saved: &Saved,
    ) -> FlashResult<Vec<Scanned>> {
        for free in &mut self.units.free {
            while free.take().is_some() {}
        }
        let ready = flash.port.ready();
        let mut scanned = Vec::new();
        let pages_per_unit = self.units.shape.pages;
        for unit in self.units.all() {
            flash.check_interrupt()?;
            let blocks: Vec<_> = self.units.blocks(unit).collect();
            if blocks.iter().all(|block| flash.nand.next_page(*block) == 0) {
                let (cluster, row) = (
                    unit.0 / self.units.shape.units_per_cluster,
                    unit.0 % self.units.shape.units_per_cluster,
                );
                self.units.free[cluster as usize].give(row, flash.nand.erases(blocks[0]));
                continue;
            }
            let mut found = Scanned { unit, purpose: None, opened: 0, block: None, pages: Vec::new() };
            for block in blocks {
                for index in 0..flash.nand.next_page(block) {
                    let page = PageAt { block, index };
                    if flash.nand.is_skipped(page) {
                        continue;
                    }
                    flash.read(page, 0, Cause::Recovery, ready)?;
                    let ppn = self.units.geometry.unit(page);
                    let source = saved.get(&ppn).copied().unwrap_or(ppn);
                    let Some(lpn) = flash.nand.lpn(source) else { continue };
                    found.pages.push(Page { lpn, ppn, age: flash.nand.age(source) });
                    found.opened = found.opened.max(flash.nand.sequence(block));
                    found.purpose = match flash.nand.role(block) {
                        Some(Role::Data) => Some(Purpose::Data),
                        Some(Role::Log) => Some(Purpose::Log),
                        Some(Role::Sequential) => Some(Purpose::Sequential),
                        _ => found.purpose,
                    };
                }
            }
            let of = |page: &Page| page.lpn.0 / pages_per_unit;
            found.block = found.pages.first().map(of);
            if found.pages.iter().any(|page| Some(of(page)) != found.block) {
                found.block = None;
            }
            scanned.push(found);
        }
        Ok(scanned)
    }

    /// An earlier mount has begun to write a unit to a free one, and the power was cut again: one of both says nothing. It is
    /// the new one, unless that has all that is left of the old one: the erase of that may have begun.
    fn twice(scanned: &[Scanned]) -> Vec<ClusteredBlock> {
        let latest = |found: &Scanned| found.pages.iter().map(|page| page.age.1).max();
        let mut dropped = Vec::new();
        for both in scanned.chunk_by(|one, other| one.opened == other.opened) {
            let mut both: Vec<&Scanned> = both.iter().filter(|found| found.opened > 0).collect();
            both.sort_by_key(|found| Reverse(latest(found)));
            let [new, old] = both[..] else { continue };
            let is_copy = |page: &Page, copy: &Page| (copy.lpn, copy.age.0) == (page.lpn, page.age.0);
            let is_there = |page: &Page| new.pages.iter().any(|copy| is_copy(page, copy));
            dropped.push(if old.pages.iter().all(is_there) { old.unit } else { new.unit });
        }
        dropped
    }

    /// Units that say nothing. The last data unit of a logical block, if a merge was writing it: earlier units of that block
    /// have what it has not. Otherwise those earlier units, which were to be erased.
    fn dropped(&self, nand: &NandArray, scanned: &[&Scanned]) -> Vec<ClusteredBlock> {
        let shares_logs = self.units.shape.layout.shares_logs;
        let mut by_block: BTreeMap<u32, Vec<&Scanned>> = BTreeMap::new();
        for found in scanned.iter().copied() {
            let is_of_one = match found.purpose {
                Some(Purpose::Data | Purpose::Sequential) => true,
                Some(Purpose::Log) => !shares_logs,
                None => false,
            };
            if let Some(block) = found.block.filter(|_| is_of_one) {
                by_block.entry(block).or_default().push(found);
            }
        }
        let mut dropped = Vec::new();
        for units in by_block.values() {
            let Some((last, earlier)) = units.split_last() else { continue };
            if last.purpose != Some(Purpose::Data) {
                continue;
            }
            let written: BTreeMap<Lpn, u32> = last.pages.iter().map(|page| (page.lpn, page.age.0)).collect();
            let seen = Seen { units: &self.units, nand };
            let has = |page: &Page| {
                let home = Place { unit: last.unit, page: page.lpn.0 % self.units.shape.pages };
                // What was passed over had been trimmed.
                let is_passed = !seen.is_free(home) && !nand.is_torn(self.units.page(home));
                written.get(&page.lpn).map_or(is_passed, |age| *age >= page.age.0)
            };
            if earlier.iter().flat_map(|unit| &unit.pages).all(has) {
                dropped.extend(earlier.iter().map(|unit| unit.unit));
            } else {
                dropped.push(last.unit);
            }
        }
        dropped
    }

    /// Where the newest version of each page is. `trimmed`: up to which program versions of it were trimmed, by the journal.
    fn find_pages<'a, P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        scanned: impl Iterator<Item = &'a Scanned>,
        trimmed: &[u32],
    ) {
        let is_trimmed =
            |page: &&Page| trimmed.get(page.lpn.index()).is_some_and(|until| page.age.0 <= *until);
        let mut ages = vec![(0, 0); self.units.table.len()];
        for page in scanned.flat_map(|found| &found.pages).filter(|page| !is_trimmed(page)) {
            let known = self.units.table[page.lpn.index()] != UNMAPPED;
            if !known || ages[page.lpn.index()] < page.age {
                self.units.table[page.lpn.index()] = page.ppn.0;
                ages[page.lpn.index()] = page.age;
            }
        }
        for entry in self.units.table.iter().filter(|entry| **entry != UNMAPPED) {
            flash.nand.revive(Ppn(*entry));
        }
    }

    /// Erase the units in which nothing is live.
    fn erase_dead<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        scanned: Vec<Scanned>,
    ) -> FlashResult<Vec<Scanned>> {
        let mut kept = Vec::new();
        let ready = flash.port.ready();
        for found in scanned {
            let (_, mut store) = self.at_work(flash, ready);
            if store.live(found.unit) > 0 {
                kept.push(found);
            } else {
                store.erase(found.unit, ready)?;
            }
        }
        Ok(kept)
    }

    /// Write each unit that has pages only in backups to a free one, each page where it was, and let the backups go. Stale ones
    /// go along: a later mount must not miss them while the old unit is there.
    ///
    /// All of it stands elsewhere meanwhile, and nothing else is in the free unit: no program needs a backup. When the power
    /// goes again, what was written is given up.
    fn restore<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        scanned: &mut [Scanned],
        saved: &Saved,
    ) -> FlashResult<()> {
        let ready = flash.port.ready();
        let mut restored = ready;
        let writer = flash.begin_internal();
        flash.set_restoring(true);
        for found in scanned {
            let is_live = |page: &Page| self.units.lookup(page.lpn) == Some(page.ppn);
            if !found.pages.iter().any(|page| saved.contains_key(&page.ppn) && is_live(page)) {
                continue;
            }
            let purpose = found.purpose.unwrap_or(Purpose::Log);
            let (_, mut store) = self.at_work(flash, ready);
            let new = store.open_again(found.unit, purpose, found.opened)?;
            let mut copied = ready;
            // In the order of each memory.
            found.pages.sort_unstable_by_key(|page| page.ppn);
            for page in &mut found.pages {
                let is_live = store.units.lookup(page.lpn) == Some(page.ppn);
                let source = saved.get(&page.ppn).copied().unwrap_or(page.ppn);
                let to = store.units.page(Place { unit: new, ..store.units.place_of(page.ppn) });
                let (geometry, flash) = (&store.units.geometry, &mut *store.flash);
                let from = geometry.page_of(source);
                let read = flash.read(from, geometry.sectors_per_unit, Cause::Recovery, ready)?;
                let done = flash.program(to, &[page.lpn], Cause::Recovery, read)?;
                copied = flash.port.join(copied, done);
                let target = geometry.unit(to);
                flash.store_copy(source, target);
                if is_live {
                    store.moved(page.lpn, Some(page.ppn), target)?;
                } else {
                    store.flash.invalidate(target)?;
                }
                page.ppn = target;
            }
            restored = store.flash.port.join(restored, copied);
            store.erase(found.unit, copied)?;
            found.unit = new;
        }
        flash.set_restoring(false);
        flash.end_internal(writer);
        flash.forget_backups(restored)
    }

    fn describe<P: FlashPort<Ticket = T>>(&self, flash: &Flash<P>, scanned: &Scanned) -> Found {
        let seen = Seen { units: &self.units, nand: &flash.nand };
        let width = self.units.shape.layout.width;
        // Rows of clustered blocks are begun together.
        let filled = seen.next_page(scanned.unit).next_multiple_of(width);
        let lpn = |page| scanned.block.map(|block| Lpn(block * self.units.shape.pages + page));
        let held = |page| seen.page_at(Place { unit: scanned.unit, page });
        let is_at_home = |page: u32| held(page).is_none_or(|held| lpn(page) == Some(held));
        let is_nowhere_else = |page: u32| {
            let has_none = |lpn: Lpn| lpn.0 >= self.units.shape.logical_pages || seen.place(lpn).is_none();
            held(page).is_some() || lpn(page).is_none_or(has_none)
        };
        let is_all_at_home = scanned.block.is_some() && (0..filled).all(is_at_home);
        Found {
            unit: scanned.unit,
            purpose: scanned.purpose.unwrap_or(Purpose::Log),
            block: scanned.block,
            filled,
            is_at_home: is_all_at_home,
            is_in_order: is_all_at_home && (0..filled).all(is_nowhere_else),
        }
    }
}
