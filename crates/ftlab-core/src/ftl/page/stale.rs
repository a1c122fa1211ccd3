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
        self.is_trimmed_beyond(lpn, nand.age(ppn).0.saturating_sub(1))
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
}

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> PageFtl<V, L, T, CACHED> {
    /// Find out which requests were completed, and map what those wrote. `grouped` are the units of requests of several pages;
    /// the others are mapped already. `backups` are the units of backup blocks.
    ///
    /// A request was completed if each of its units is there, or has a newer version that was completed, or was trimmed later.
    /// Nothing of a completed request is erased before one of these holds in flash.
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
            newest[lpn.index()] = nand.age(ppn).0;
        }
        for ppn in backups.iter().filter(|ppn| nand.group_of(**ppn).is_none()) {
            if let Some(newest) = nand.lpn(*ppn).and_then(|lpn| newest.get_mut(lpn.index())) {
                *newest = nand.age(*ppn).0.max(*newest);
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
        let mut is_trimmed = false;
        for (lpn, key) in &stale.torn_units {
            match self.lookup(*lpn) {
                Some(ppn) if flash.nand.age(ppn).0 <= *key => self.write_again(flash, *lpn, ppn)?,
                None if !stale.is_trimmed_beyond(*lpn, *key) => {
                    let Some(journal) = &mut self.journal else { continue };
                    journal.trimmed(*lpn, None);
                    is_trimmed = true;
                }
                _ => {}
            }
        }
        if is_trimmed {
            self.write_journal(flash)?;
        }
        Ok(())
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
        if self.geometry.slots_per_page == 1 {
            self.write_one(flash, &access, read)?;
        } else {
            self.write_several(flash, &access, read)?;
        }
        flash.end_internal(writer);
        Ok(())
    }
}

/// Apart from the layer, or it would be compiled for each drive.
fn newest_first(grouped: &mut [(u32, Lpn, Ppn)]) {
    grouped.sort_unstable_by_key(|(key, ..)| Reverse(*key));
}
