//! What a non-volatile cache above has a clean copy of need not be copied: marks, and what collection does with them.

use super::PageFtl;
use crate::access::Access;
use crate::cause::Cause;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::port::{FlashPort, Memory, Ticket};
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::policy::Placement;
use crate::geometry::{BlockId, Lpn, Ppn};
use crate::mapcache::cache::Intent;

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> PageFtl<V, L, T, CACHED> {
    /// A cache has a clean copy of what is at `ppn`, or gives it up.
    pub(super) fn mark_removable<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        ppn: Ppn,
        is: bool,
    ) {
        let Some(removable) = &mut self.removable else { return };
        if removable.has(ppn) == is {
            return;
        }
        removable.flip(ppn);
        flash.note_cached(ppn, is);
        self.blocks.discount(&flash.nand, self.geometry.block_of(ppn), is);
    }

    /// A cache above has newer data of `lpn`, durable from `since` on.
    pub(super) fn drop_stale<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        lpn: Lpn,
        since: T,
    ) -> FlashResult<()> {
        let Some(ppn) = self.table.lookup(lpn) else { return Ok(()) };
        // First, so that a collection for the table copies it like any other.
        self.mark_removable(flash, ppn, false);
        if CACHED {
            let access = Access {
                cause: Cause::CacheFlush,
                ..Access::span(lpn, 1, 0, self.geometry.sectors_per_unit)
            };
            let ready = flash.port.ready();
            self.translate_one(flash, &access, 0, Intent::Trim, ready)?;
        }
        let Some(ppn) = self.table.lookup(lpn) else { return Ok(()) };
        flash.hold_until(ppn, since);
        if let Some(journal) = &mut self.journal {
            journal.wait_for_cache(flash, since);
        }
        self.blocks.invalidate(flash, ppn)?;
        self.table.forget(&self.geometry, lpn, ppn);
        Ok(())
    }

    /// Take what the cache has out of `survivors` of `victim`: it is stale now, and the cache has the only copy. Returns
    /// when a cache in the host has confirmed that.
    pub(super) fn skip_removable<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        victim: BlockId,
        survivors: &mut Vec<Ppn>,
        cause: Cause,
    ) -> FlashResult<T> {
        let mut confirmed = flash.port.ready();
        let Some(mut removable) = self.removable.take() else { return Ok(confirmed) };
        let mut kept = 0;
        let (mut result, count) = (Ok(()), survivors.len());
        for at in 0..count {
            let ppn = survivors[at];
            if !removable.has(ppn) {
                survivors[kept] = ppn;
                kept += 1;
                continue;
            }
            removable.flip(ppn);
            flash.note_cached(ppn, false);
            self.blocks.forget_discount(victim);
            if removable.confirms {
                let told = flash.port.memory(Memory::Link, 1);
                confirmed = flash.port.join(confirmed, told);
            }
            if let Some(lpn) = flash.nand.lpn(ppn) {
                self.table.map.clear(lpn);
                if CACHED {
                    self.unit_moved(lpn);
                }
                removable.removed.push(lpn);
            }
            self.counters.gc.pages_skipped += 1;
            if cause == Cause::Gc {
                self.counters.gc.pages_copied -= 1;
            }
            result = result.and(flash.invalidate(ppn).map(|_| ()));
        }
        if let Some(journal) = self.journal.as_mut().filter(|_| kept < count) {
            // Their frames may still be on their way.
            let filled = flash.guard_of(victim);
            let since = flash.port.join(filled, confirmed);
            journal.wait_for_cache(flash, since);
        }
        survivors.truncate(kept);
        self.removable = Some(removable);
        result.map(|()| confirmed)
    }

    /// Take the marks off pages that move together though they are live: bit by bit which had one. Also until when the blocks
    /// that they leave are guarded, and until when the cache must keep its copies.
    pub(super) fn take_marks<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        leaving: &[Option<Ppn>],
    ) -> (u64, T, T) {
        let (mut marks, mut until, mut kept) = (0, flash.port.ready(), flash.port.ready());
        for (at, ppn) in leaving.iter().enumerate() {
            let Some(ppn) = *ppn else { continue };
            if self.removable.as_ref().is_some_and(|removable| removable.has(ppn)) {
                marks |= 1 << at;
                let block = self.geometry.block_of(ppn);
                until = flash.port.join(until, flash.guard_of(block));
                kept = flash.port.join(kept, flash.relied_on(block));
                self.mark_removable(flash, ppn, false);
            }
        }
        (marks, until, kept)
    }

    /// Put marks that were taken off `units` on the places where those are now.
    pub(super) fn put_marks<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        units: &[Lpn],
        (marks, until, kept): (u64, T, T),
    ) {
        if marks == 0 {
            return;
        }
        for (at, lpn) in units.iter().enumerate() {
            if (marks >> at) & 1 == 1
                && let Some(ppn) = self.lookup(*lpn)
            {
                self.mark_removable(flash, ppn, true);
                let block = self.geometry.block_of(ppn);
                flash.guard_until(block, until);
                flash.rely_until(block, kept);
            }
        }
    }

    pub(super) fn take_skipped(&mut self, removed: &mut Vec<Lpn>) {
        if let Some(removable) = &mut self.removable {
            removed.append(&mut removable.removed);
        }
    }

    /// Hold the marks against the array.
    pub(super) fn verify_removable(&self, is_valid: impl Fn(Ppn) -> bool) -> Result<(), String> {
        let Some(removable) = &self.removable else { return Ok(()) };
        let mut counts = vec![0; self.geometry.blocks() as usize];
        for ppn in (0..self.geometry.physical_units()).map(Ppn) {
            if removable.has(ppn) {
                if !is_valid(ppn) {
                    return Err(format!("physical unit {} may be skipped, but is stale", ppn.0));
                }
                counts[self.geometry.block_of(ppn).index()] += 1;
            }
        }
        self.blocks.verify_discounts(&counts)
    }
}
