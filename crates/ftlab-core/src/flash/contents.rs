//! With verification: what pages hold, and when it came there.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use crate::access::UnitAccess;
use crate::flash::history::{GroupMark, History, Home, Kept, PageContents};
use crate::geometry::{Geometry, PageId, Ppn};
use crate::table;
use crate::tape::{Tape, Taped};

/// What flash holds beside the numbers of units. Real flash has all of it; here it takes memory that runs without
/// verification need not spend.
#[derive(Debug, Clone)]
pub(super) struct Contents {
    slots: usize,
    sectors_per_unit: usize,
    /// The version of each physical sector.
    versions: Vec<u32>,
    /// What only a mount asks for.
    past: Option<Past>,
    /// All that has changed since somebody asked.
    pub(super) history: Option<History>,
}

impl Taped for Contents {
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { slots: _, sectors_per_unit: _, versions, past, history } = self;
        tape.absent(past.as_ref())?;
        tape.absent(history.as_ref())?;
        tape.each(versions)
    }
}

/// When pages were programmed, and what those hold that are not the host's.
#[derive(Debug, Clone)]
struct Past {
    /// When each unit was programmed, in a count of programmed pages.
    orders: Vec<u32>,
    /// The same of the program that its data came with: copies keep it.
    origins: Vec<u32>,
    /// The entries that translation pages hold, by page; empty until there is one.
    tables: Vec<Option<Arc<[u32]>>>,
    /// What backups are of, by page.
    homes: BTreeMap<PageId, Home>,
    /// The group of each unit; empty until there is one.
    groups: Vec<GroupMark>,
    programmed: u32,
}

impl Past {
    /// The group of each unit, to be written.
    fn groups(&mut self) -> &mut [GroupMark] {
        if self.groups.is_empty() {
            self.groups.resize(self.orders.len(), GroupMark::default());
        }
        &mut self.groups
    }
}

impl Contents {
    /// Those of erased flash.
    pub(super) fn new(geometry: &Geometry) -> Self {
        let units = geometry.physical_units() as usize;
        Self {
            slots: geometry.slots_per_page as usize,
            sectors_per_unit: geometry.sectors_per_unit as usize,
            versions: table::zeros(units * geometry.sectors_per_unit as usize),
            past: None,
            history: None,
        }
    }

    /// From here on, a mount will find what it needs. Flash is erased.
    pub(super) fn keep_past(&mut self) {
        let units = self.versions.len() / self.sectors_per_unit;
        let (orders, origins) = (table::zeros(units), table::zeros(units));
        let (tables, homes, groups) = (Vec::new(), BTreeMap::new(), Vec::new());
        self.past = Some(Past { orders, origins, tables, homes, groups, programmed: 0 });
    }

    pub(super) fn programmed(&self) -> u32 {
        self.past.as_ref().map_or(0, |past| past.programmed)
    }

    /// Programs from now on come after `programs` others.
    pub(super) fn count_from(&mut self, programs: u32) {
        if let Some(past) = &mut self.past {
            past.programmed = past.programmed.max(programs);
        }
    }

    /// The group of the data of `ppn`, if it has several pages.
    pub(super) fn group_of(&self, ppn: Ppn) -> Option<GroupMark> {
        let mark = *self.past.as_ref()?.groups.get(ppn.index())?;
        (mark.units > 0 && mark.units != GroupMark::AGAIN).then_some(mark)
    }

    /// When the data of `ppn` were first programmed, also where a mount has written them again since.
    pub(super) fn data_age(&self, ppn: Ppn) -> u32 {
        let mark = self.past.as_ref().and_then(|past| past.groups.get(ppn.index()));
        mark.filter(|mark| mark.units == GroupMark::AGAIN).map_or_else(|| self.age(ppn).0, |mark| mark.key)
    }

    pub(super) fn store_group(&mut self, ppn: Ppn, mark: GroupMark) {
        if let Some(past) = &mut self.past {
            past.groups()[ppn.index()] = mark;
        }
    }

    pub(super) fn keeps_past(&self) -> bool {
        self.past.is_some()
    }

    fn units(&self, page: PageId) -> Range<usize> {
        page.0 as usize * self.slots..(page.0 as usize + 1) * self.slots
    }

    fn sectors(&self, ppn: Ppn) -> Range<usize> {
        ppn.index() * self.sectors_per_unit..(ppn.index() + 1) * self.sectors_per_unit
    }

    /// When the data of `ppn` were first programmed, and when they came there.
    pub(super) fn age(&self, ppn: Ppn) -> (u32, u32) {
        self.past.as_ref().map_or((0, 0), |past| (past.origins[ppn.index()], past.orders[ppn.index()]))
    }

    /// `count` pages from `first` on are being programmed.
    pub(super) fn number(&mut self, first: PageId, count: u32) {
        for page in (first.0..first.0 + count).map(PageId) {
            let units = self.units(page);
            let Some(past) = &mut self.past else { return };
            past.programmed += 1;
            past.orders[units.clone()].fill(past.programmed);
            past.origins[units.clone()].fill(past.programmed);
            if let Some(groups) = past.groups.get_mut(units) {
                groups.fill(GroupMark::default());
            }
            if let Some(table) = past.tables.get_mut(page.0 as usize) {
                *table = None;
            }
        }
    }

    /// What a write leaves in `ppn`. The sectors of `unit` hold its versions, the others what `merged` holds, or nothing.
    pub(super) fn store(&mut self, ppn: Ppn, unit: &UnitAccess<'_>, merged: Option<Ppn>) {
        let at = self.sectors(ppn);
        match merged {
            Some(old) => {
                let old = self.sectors(old);
                self.versions.copy_within(old, at.start);
            }
            None => self.versions[at.clone()].fill(0),
        }
        let mut versions = unit.versions;
        for range in unit.ranges() {
            let here;
            (here, versions) = versions.split_at(range.len());
            self.versions[at.start + range.start as usize..at.start + range.end as usize]
                .copy_from_slice(here);
        }
    }

    /// `to` holds what `from` holds.
    #[inline]
    pub(super) fn store_copy(&mut self, from: Ppn, to: Ppn) {
        let (source, target) = (self.sectors(from), self.sectors(to).start);
        self.versions.copy_within(source, target);
        let Some(past) = &mut self.past else { return };
        past.origins[to.index()] = past.origins[from.index()];
        if !past.groups.is_empty() {
            past.groups[to.index()] = past.groups[from.index()];
        }
        if !past.tables.is_empty() && from.index().is_multiple_of(self.slots) {
            let table = past.tables[from.index() / self.slots].clone();
            past.tables[to.index() / self.slots] = table;
        }
    }

    /// The translation page `page` holds these entries.
    pub(super) fn store_table(&mut self, page: PageId, entries: Vec<u32>) {
        let Some(past) = &mut self.past else { return };
        if past.tables.is_empty() {
            past.tables = vec![None; past.orders.len() / self.slots];
        }
        past.tables[page.0 as usize] = Some(entries.into());
    }

    /// The page `backup` is a backup of `home`.
    pub(super) fn store_home(&mut self, backup: PageId, home: Home) {
        if let Some(past) = &mut self.past {
            past.homes.insert(backup, home);
        }
    }

    /// What `backup` is of.
    pub(super) fn home(&self, backup: PageId) -> Option<Home> {
        self.past.as_ref()?.homes.get(&backup).copied()
    }

    /// The entries that `page` holds.
    pub(super) fn table(&self, page: PageId) -> Option<&[u32]> {
        self.past.as_ref()?.tables.get(page.0 as usize)?.as_deref()
    }

    /// The versions of the sectors `range` of `ppn`.
    pub(super) fn load(&self, ppn: Ppn, range: Range<u32>) -> &[u32] {
        let at = self.sectors(ppn).start;
        &self.versions[at + range.start as usize..at + range.end as usize]
    }

    /// All of a page, if a mount is to find it.
    pub(super) fn of_page(&self, page: PageId) -> Option<PageContents<'_>> {
        let units = self.units(page);
        let past = self.past.as_ref()?;
        Some(PageContents {
            order: past.orders[units.start],
            origins: &past.origins[units.clone()],
            groups: past.groups.get(units.clone()).unwrap_or_default(),
            versions: &self.versions[units.start * self.sectors_per_unit..units.end * self.sectors_per_unit],
            table: self.table(page),
            home: self.home(page),
        })
    }

    /// `page` holds what was kept of it.
    pub(super) fn restore(&mut self, page: PageId, kept: &Kept<'_>) {
        let units = self.units(page);
        let PageContents { order, origins, groups, versions, table, home } = kept.contents;
        self.versions[units.start * self.sectors_per_unit..units.end * self.sectors_per_unit]
            .copy_from_slice(versions);
        let Some(past) = &mut self.past else { return };
        past.programmed = past.programmed.max(order);
        past.orders[units.clone()].fill(order);
        past.origins[units.clone()].copy_from_slice(origins);
        if !groups.is_empty() {
            past.groups()[units].copy_from_slice(groups);
        } else if let Some(marks) = past.groups.get_mut(units) {
            marks.fill(GroupMark::default());
        }
        if let Some(home) = home {
            past.homes.insert(page, home);
        }
        if let Some(table) = table {
            self.store_table(page, table.to_vec());
        } else if let Some(table) = past.tables.get_mut(page.0 as usize) {
            *table = None;
        }
    }
}
