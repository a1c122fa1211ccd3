//! The table in flash: lookups through the mapping cache, and reading and writing of translation pages.

use super::PageFtl;
use super::table::PageTable;
use crate::access::Access;
use crate::cause::Cause;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::flash::role::Role;
use crate::ftl::blocks::{Append, Data, MAX_SLOTS, Place};
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::policy::{OpenSlot, Placement};
use crate::geometry::{BlockId, Geometry, Lpn, PageAt, Ppn};
use crate::mapcache::cache::{Intent, Lookup, MapOp};
use crate::mapcache::translation::Translation;

/// The first unit of a translation page, among all units.
pub(super) fn unit_of_translation(geometry: &Geometry, tpn: u32) -> Lpn {
    Lpn(geometry.logical_units + tpn * geometry.slots_per_page)
}

/// Whether `block` takes translation pages.
#[inline]
pub(super) fn holds_translation(nand: &NandArray, block: BlockId) -> bool {
    nand.role(block) == Some(Role::Map)
}

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> PageFtl<V, L, T, CACHED> {
    /// Where translation pages are written.
    #[inline]
    pub(super) fn map_slot(&self) -> OpenSlot {
        self.blocks.slots() - 1
    }

    fn unit_of_translation(&self, tpn: u32) -> Lpn {
        unit_of_translation(&self.geometry, tpn)
    }

    /// Look up the entries of an access's units. The ticket is that of the moment when they are known.
    #[inline(always)]
    pub(super) fn translate<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        intent: Intent,
        after: T,
    ) -> FlashResult<T> {
        let mut after = after;
        if CACHED {
            for index in 0..access.units {
                after = self.translate_one(flash, access, index, intent, after)?;
            }
        }
        Ok(after)
    }

    pub(super) fn translate_one<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        index: u32,
        intent: Intent,
        after: T,
    ) -> FlashResult<T> {
        let Some(translation) = &mut self.table.translation else { return Ok(after) };
        let rest = access.rest + access.units - 1 - index;
        let lookup = Lookup { lpn: access.lpn_at(index), intent, rest };
        translation.lookup(lookup, PageTable::<T, CACHED>::logical(&self.table.map, &self.geometry));
        let ops = std::mem::take(&mut translation.ops);
        // It may be on its way for an earlier access.
        let mut done = self.wait_for_entry(&mut flash.port, lookup.lpn, after);
        if ops.is_empty() {
            if let Some(translation) = &mut self.table.translation {
                translation.ops = ops;
            }
            return Ok(done);
        }
        // One after the other: memory must have room before it is filled.
        for op in &ops {
            let existed;
            (done, existed) = self.step(flash, *op, done)?;
            if let Some(translation) = &mut self.table.translation {
                translation.account(*op, existed);
            }
        }
        if let Some(translation) = &mut self.table.translation {
            translation.ops = ops;
        }
        self.settle(flash)?;
        Ok(done)
    }

    /// The moment, not before `after`, when the entry of `lpn` is there, which memory has or is to have.
    #[inline]
    fn wait_for_entry<P: FlashPort<Ticket = T>>(&self, port: &mut P, lpn: Lpn, after: T) -> T {
        let Some(fetches) = &self.table.fetches else { return after };
        fetches.of(lpn).into_iter().flatten().fold(after, |done, fetch| port.join(done, fetch))
    }

    /// Do a step of a lookup; and whether there was a version of its translation page to read.
    fn step<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        op: MapOp,
        after: T,
    ) -> FlashResult<(T, bool)> {
        Ok(match op {
            MapOp::Fetch { tpn, bytes, units } => {
                let (fetched, existed) = self.read_translation(flash, tpn, bytes, after)?;
                if let Some(fetches) = &mut self.table.fetches {
                    fetches.fetch_issued(units, fetched);
                }
                (fetched, existed)
            }
            MapOp::WriteBack { tpn, rest_bytes } => {
                let (read, existed) = if rest_bytes > 0 {
                    self.read_translation(flash, tpn, rest_bytes, after)?
                } else {
                    (after, false)
                };
                (self.write_translation(flash, tpn, read)?, existed)
            }
            MapOp::Probe { predicted, actual } => {
                (self.probe(flash, Ppn(predicted), Ppn(actual), after)?, true)
            }
        })
    }

    /// Read the unit that was taken for `actual`. Spare areas name the units of their own block: when the prediction left
    /// it, its page nearest to the prediction is read as well. A page that was never
    /// written, or that the power has torn, has nothing to say.
    #[cold]
    fn probe<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        predicted: Ppn,
        actual: Ppn,
        after: T,
    ) -> FlashResult<T> {
        let mut done = after;
        let home = self.geometry.block_of(actual);
        let first = self.geometry.first_unit(home);
        let pages = self.geometry.data_pages_per_block;
        let edge = if predicted < first { 0 } else { pages - 1 };
        let mut tried = predicted.0 < self.geometry.physical_units();
        let mut page =
            if tried { self.geometry.page_of(predicted) } else { PageAt { block: home, index: edge } };
        loop {
            if flash.nand.is_written(page) {
                done = flash.read(page, self.geometry.sectors_per_unit, Cause::Map, done)?;
            }
            if !tried || page.block == home {
                return Ok(done);
            }
            (tried, page) = (false, PageAt { block: home, index: edge });
        }
    }

    /// Read a part of a translation page, and tell whether it exists; one that was never written says that nothing is mapped,
    /// and costs nothing.
    fn read_translation<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        tpn: u32,
        bytes: u32,
        after: T,
    ) -> FlashResult<(T, bool)> {
        let Some(ppn) = self.lookup(self.unit_of_translation(tpn)) else { return Ok((after, false)) };
        if let Some(translation) = &mut self.table.translation {
            translation.counts.flash_reads += 1;
        }
        Ok((flash.read_translation(self.geometry.page_of(ppn), bytes, after)?, true))
    }

    /// Write a translation page. What collection moves for it stays pending.
    pub(super) fn write_translation<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        tpn: u32,
        after: T,
    ) -> FlashResult<T> {
        let slot = self.map_slot();
        let turns = self.standing.order.len();
        let mut chosen = None;
        for step in 0..turns {
            let plane = self.standing.order.at((tpn + step) % turns);
            let die = self.geometry.die_of(plane);
            if self.blocks.is_low(die) {
                self.collect_die(flash, die, true)?;
            }
            if let Some(block) = self.open_block(&mut flash.nand, plane, slot, 1) {
                chosen = Some(Place { plane, slot, block });
                break;
            }
        }
        let Some(place) = chosen else {
            return Err(self.full(self.standing.order.at(tpn % turns), "translation pages"));
        };
        let slots = self.geometry.slots_per_page;
        let first = self.unit_of_translation(tpn);
        // Looked up after collection, which may have moved it.
        let old = self.lookup(first);
        let mut units = [Lpn(0); MAX_SLOTS];
        let mut places = [None; MAX_SLOTS];
        for at in 0..slots {
            units[at as usize] = Lpn(first.0 + at);
            places[at as usize] = old.map(|old| Ppn(old.0 + at));
        }
        let (units, old) = (&units[..slots as usize], &places[..slots as usize]);
        let PageTable { map, translation, .. } = &mut self.table;
        let Some(translation) = translation else { return Ok(after) };
        translation.counts.flash_programs += 1;
        let entries = translation.written(tpn, map.plain());
        let append =
            Append { place, units, old, keeps_old: false, data: Data::Table(entries), cause: Cause::Map };
        let writer = flash.begin_internal();
        let done = self.blocks.append(flash, &append, map, after, |_, _, _| {})?;
        flash.end_internal(writer);
        Ok(done)
    }

    /// Write the translation pages of moved data whose entries are not in memory.
    ///
    /// Collections on the way may move more. But each of data has fewer pages of stale data to find, and nothing makes new
    /// ones here. Those of translation pages move no data, and so this ends.
    pub(super) fn settle<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        let ready = flash.port.ready();
        while let Some(tpn) = self.table.translation.as_mut().and_then(Translation::next_pending) {
            flash.check_interrupt()?;
            let bytes = self.geometry.page_bytes;
            let (read, _) = self.read_translation(flash, tpn, bytes, ready)?;
            if let Some(translation) = &mut self.table.translation {
                translation.cache.rewritten(tpn);
            }
            self.write_translation(flash, tpn, read)?;
            if let Some(translation) = &mut self.table.translation {
                translation.counts.gc_updates += 1;
            }
        }
        Ok(())
    }
}
