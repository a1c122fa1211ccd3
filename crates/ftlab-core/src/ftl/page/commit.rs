//! What `power` promises beyond single units: requests as a whole, and trims that do not come back.

use super::PageFtl;
use crate::access::Access;
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::blocks::Place;
use crate::ftl::gc::policy::VictimPolicy;
use crate::ftl::placement::policy::Placement;
use crate::geometry::{BlockId, Lpn, Ppn};

impl<V: VictimPolicy, L: Placement, T: Ticket, const CACHED: bool> PageFtl<V, L, T, CACHED> {
    /// Append what an access writes, and keep what its request overwrites until all of it has been written.
    #[cold]
    #[inline(never)]
    pub(super) fn append_retaining<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        place: Place,
        access: &Access<'_>,
        units: &[Lpn],
        old: &[Option<Ppn>],
        after: T,
    ) -> FlashResult<T> {
        if access.rest + access.units >= access.group.units {
            self.begin_request(flash, access)?;
        }
        let keeps_old = self.retained.keeps(access);
        if keeps_old && self.retained.is_empty() {
            flash.begin_marks();
        }
        let done = self.append_plain(flash, place, access, units, (old, keeps_old), after)?;
        self.retain(flash, access, units, old)?;
        Ok(done)
    }

    /// The first access of a request comes: what was written before is complete.
    fn begin_request<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
    ) -> FlashResult<()> {
        self.commit(flash)?;
        let (units, most) = (u64::from(access.group.units), self.retained.most);
        if self.retained.keeps(access) && units > most {
            return Err(Box::new(RunError::Request(format!(
                "a request writes {units} mapping units from unit {} on, but this drive can keep the old data of {most} at \
                 most, as power.atomic = \"request\" asks: choose a larger ftl.over_provisioning, or \
                 power.atomic = \"unit\"",
                access.lpn.0
            ))));
        }
        Ok(())
    }

    /// `units` of `access` have been written, which were at `old`. Those stay live until the whole request has been written, and
    /// in flash until that is durable: what comes after it may be dropped.
    fn retain<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        access: &Access<'_>,
        units: &[Lpn],
        old: &[Option<Ppn>],
    ) -> FlashResult<()> {
        if !self.retained.keeps(access) {
            for old in old.iter().flatten() {
                flash.guard(self.geometry.block_of(*old));
            }
            return Ok(());
        }
        self.retained.units.extend(units.iter().copied().zip(old.iter().copied()));
        if access.rest == 0 { self.commit(flash) } else { Ok(()) }
    }

    /// The whole request has been written: the old versions are stale.
    fn commit<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        while let Some((_, old)) = self.retained.units.pop() {
            if let Some(old) = old {
                self.blocks.invalidate(flash, old)?;
                flash.guard(self.geometry.block_of(old));
            }
        }
        Ok(())
    }

    /// `lpn`, which was at `ppn`, has been trimmed.
    pub(super) fn note_trimmed<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        lpn: Lpn,
        ppn: Ppn,
    ) {
        let Some(journal) = &mut self.journal else { return };
        journal.trimmed(lpn, Some(self.geometry.block_of(ppn)));
        flash.hold_trimmed(ppn);
    }

    /// Units have been trimmed: write that when there is enough of it.
    pub(super) fn end_trim<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> FlashResult<()> {
        if self.journal.as_ref().is_some_and(|journal| journal.is_due()) {
            self.write_journal(flash)?;
        }
        Ok(())
    }

    /// Make trims durable. Returns when they are.
    pub(super) fn flush_trims<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> FlashResult<T> {
        if self.journal.as_ref().is_some_and(|journal| journal.has_trims()) {
            self.write_journal(flash)?;
        }
        let Some(journal) = &mut self.journal else { return Ok(flash.port.ready()) };
        journal.promise();
        Ok(journal.settled().unwrap_or_else(|| flash.port.ready()))
    }

    /// Write into the journal what was trimmed. Returns when that is durable.
    pub(super) fn write_journal<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>) -> FlashResult<T> {
        let Some(journal) = &mut self.journal else { return Ok(flash.port.ready()) };
        // A request under way may still turn out never to have been: the journal is of the time before it.
        let since = if self.retained.is_empty() { flash.nand.programmed() } else { flash.group_key() };
        let mut fresh: Vec<u32> = Vec::new();
        fresh.extend(self.retained.units.iter().filter(|(_, old)| old.is_none()).map(|(lpn, _)| lpn.0));
        fresh.sort_unstable();
        let map = &self.table.map;
        let is_empty = |lpn: u32| map.get(Lpn(lpn)).is_none() || fresh.binary_search(&lpn).is_ok();
        let written = journal.write(flash, since, is_empty)?;
        flash.release_trimmed(written);
        Ok(written)
    }

    /// `victim` is about to be erased, after `copied`: what it holds the last data of must be trimmed in flash as well.
    #[inline]
    pub(super) fn before_erase<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        victim: BlockId,
        copied: T,
    ) -> FlashResult<T> {
        let superseded = flash.superseded(victim, |lpn| self.lookup(lpn));
        let copied = flash.port.join(copied, superseded);
        if self.journal.as_ref().is_some_and(|journal| journal.marks(victim)) {
            self.write_journal(flash)?;
        }
        let settled = self.journal.as_ref().and_then(|journal| journal.settled());
        Ok(settled.map_or(copied, |settled| flash.port.join(copied, settled)))
    }
}
