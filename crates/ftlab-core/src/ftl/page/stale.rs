//! After a power cut: which versions are stale although none that is newer was found, because they were trimmed, or because
//! the request that wrote them was never completed.

use std::cmp::Reverse;

use super::PageFtl;
use crate::access::Access;
use crate::cause::Cause;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::policy::Placement;
use crate::geometry::{Geometry, Lpn, Ppn};
use crate::layer::Newer;

/// What a mount has found out about versions.
#[derive(Debug, Default)]
pub(super) struct Stale {
    /// For each logical unit, up to which program its versions were trimmed, or are older than in a cache above; empty
    /// where neither is known.
    pub(super) trimmed: Vec<u32>,
    /// Up to which program its versions were given up by an earlier mount, as nothing was there before a request that was
    /// never completed; empty without a journal.
    pub(super) given_up: Vec<u32>,
    /// The same for versions that need no backup, since the cache has them; empty without a cache.
    cached: Vec<u32>,
    /// The requests that were never completed, ascending.
    torn: Vec<u32>,
    /// What they wrote: the unit, and the request.
    torn_units: Vec<(Lpn, u32)>,
}

impl Stale {
    /// Whether the version at `ppn` was trimmed, or is of a request that was never completed.
    pub(super) fn has(&self, nand: &NandArray, ppn: Ppn, lpn: Lpn) -> bool {
        let before = nand.age(ppn).0.saturating_sub(1);
        self.is_trimmed_beyond(lpn, before)
            || self.is_given_up_beyond(lpn, before)
            || nand.group_of(ppn).is_some_and(|mark| self.torn.binary_search(&mark.key).is_ok())
    }

    /// Take in what a cache above has.
    pub(super) fn cache_has(&mut self, geometry: &Geometry, newer: &[Newer]) {
        if newer.is_empty() {
            return;
        }
        self.trimmed.resize(geometry.logical_units as usize, 0);
        self.cached.resize(geometry.logical_units as usize, 0);
        for Newer { lpn, stale, cached } in newer {
            let at = lpn.index();
            self.trimmed[at] = self.trimmed[at].max(*stale);
            self.cached[at] = self.cached[at].max(*cached);
        }
    }

    /// Whether a cache above has what is at `ppn`, or something newer.
    pub(super) fn is_cached(&self, nand: &NandArray, ppn: Ppn, lpn: Lpn) -> bool {
        self.cached.get(lpn.index()).is_some_and(|cached| *cached >= nand.age(ppn).0)
    }

    /// Whether a unit was trimmed after so many programs.
    fn is_trimmed_beyond(&self, lpn: Lpn, programs: u32) -> bool {
        self.trimmed.get(lpn.index()).is_some_and(|trimmed| *trimmed > programs)
    }

    /// Whether a mount gave up what was written of a unit until after so many programs.
    fn is_given_up_beyond(&self, lpn: Lpn, programs: u32) -> bool {
        self.given_up.get(lpn.index()).is_some_and(|given_up| *given_up > programs)
    }
}

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> PageFtl<V, L, T, CACHED> {
    /// Find out which requests were completed, and map what those wrote. `grouped` are the units of requests of several pages;
    /// the others are mapped already. `backups` are the units of backup blocks.
    ///
    /// A request was completed if each of its units is there, or has a newer version that was completed, or was trimmed later.
    /// Nothing of a completed request is erased before one of these holds in flash. What an earlier mount has written again or
    /// given up is no newer than it was. That mount may have come no further, and another torn request may lack just this unit.
    pub(super) fn map_completed(
        &mut self,
        nand: &NandArray,
        mut grouped: Vec<(u32, Lpn, Ppn)>,
        backups: &[Ppn],
        stale: &mut Stale,
    ) {
        if grouped.is_empty() {
            return;
        }
        let logical = self.geometry.logical_units;
        let mut newest = vec![0; logical as usize];
        for (lpn, ppn) in self.table.map.iter().take_while(|(lpn, _)| lpn.0 < logical) {
            newest[lpn.index()] = nand.data_age(ppn);
        }
        for ppn in backups.iter().filter(|ppn| nand.group_of(**ppn).is_none()) {
            if let Some(newest) = nand.lpn(*ppn).and_then(|lpn| newest.get_mut(lpn.index())) {
                *newest = nand.data_age(*ppn).max(*newest);
            }
        }
        newest_first(&mut grouped);
        for group in grouped.chunk_by(|one, other| one.0 == other.0) {
            let key = group[0].0;
            let mark = nand.group_of(group[0].2).unwrap_or_default();
            // A request that reaches the end of the drive may go on at its start.
            let place = |lpn: Lpn| (lpn.0 + logical - mark.first) % logical;
            let mut is_there = vec![false; mark.units.min(logical) as usize];
            for (_, lpn, _) in group {
                is_there[place(*lpn) as usize] = true;
            }
            let is_over = |lpn: Lpn| newest[lpn.index()] > key || stale.is_trimmed_beyond(lpn, key);
            let lpns = (0..).map(|place| Lpn((mark.first + place) % logical));
            let is_whole = lpns.zip(&is_there).all(|(lpn, is_there)| *is_there || is_over(lpn));
            if !is_whole {
                stale.torn.push(key);
                stale.torn_units.extend(group.iter().map(|(_, lpn, _)| (*lpn, key)));
                continue;
            }
            for (_, lpn, ppn) in group {
                newest[lpn.index()] = nand.age(*ppn).0.max(newest[lpn.index()]);
                if !self.geometry.is_for_backups(self.geometry.block_of(*ppn)) {
                    self.map_if_newer(nand, *lpn, *ppn, stale);
                }
            }
        }
        stale.torn.reverse();
    }

    /// `ppn` was found to hold `lpn`.
    pub(super) fn map_if_newer(&mut self, nand: &NandArray, lpn: Lpn, ppn: Ppn, stale: &Stale) {
        let known = self.lookup(lpn);
        if known.is_none_or(|known| nand.age(known) < nand.age(ppn)) && !stale.has(nand, ppn, lpn) {
            self.table.map.set(lpn, ppn);
        }
    }

    /// Nothing of a request that was never completed may come back at a later mount, where newer versions could make it look
    /// complete. What it should have overwritten is written again, or trimmed.
    pub(super) fn bury_torn<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        stale: &Stale,
    ) -> FlashResult<()> {
        for (lpn, key) in &stale.torn_units {
            if let Some(ppn) = self.lookup(*lpn)
                && flash.nand.age(ppn).0 <= *key
            {
                self.write_again(flash, *lpn, ppn)?;
            }
        }
        // After those: a snapshot of the journal says of all units at once which are empty.
        let is_known = |lpn, key| stale.is_trimmed_beyond(lpn, key) || stale.is_given_up_beyond(lpn, key);
        let mut empty: Vec<Lpn> = Vec::new();
        empty.extend(stale.torn_units.iter().filter(|(lpn, key)| !is_known(*lpn, *key)).map(|(lpn, _)| *lpn));
        empty.retain(|lpn| self.lookup(*lpn).is_none());
        let Some(journal) = self.journal.as_mut().filter(|_| !empty.is_empty()) else { return Ok(()) };
        let map = &self.table.map;
        journal.give_up(flash, &empty, |lpn| map.get(Lpn(lpn)).is_none())
    }

    /// Write the unit `lpn`, which is at `old`, as if the host did.
    fn write_again<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        lpn: Lpn,
        old: Ppn,
    ) -> FlashResult<()> {
        let sectors = self.geometry.sectors_per_unit;
        let access = Access { cause: Cause::Recovery, ..Access::span(lpn, 1, 0, sectors) };
        let mut versions = Vec::with_capacity(sectors as usize);
        flash.load(Some(old), &access, 0, &mut versions);
        let access = Access { versions: &versions, ..access };
        let ready = flash.port.ready();
        let read = flash.read(self.geometry.page_of(old), sectors, Cause::Recovery, ready)?;
        let writer = flash.begin_internal();
        flash.set_written_again(Some(flash.nand.data_age(old)));
        if self.geometry.slots_per_page == 1 {
            self.write_one(flash, &access, read)?;
        } else {
            self.write_several(flash, &access, read)?;
        }
        flash.set_written_again(None);
        flash.end_internal(writer);
        Ok(())
    }
}

/// Apart from the layer, or it would be compiled for each drive.
fn newest_first(grouped: &mut [(u32, Lpn, Ppn)]) {
    grouped.sort_unstable_by_key(|(key, ..)| Reverse(*key));
}
