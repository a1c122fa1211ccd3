//! Groups of accesses that survive a power cut as a whole: what flash keeps of them, and what erases wait for.
//!
//! A group is complete when all its pages have been programmed, on whichever dies. Old versions of its units must not be
//! erased before, so the blocks that hold them are guarded until then. What was programmed earlier has to end as well: that is
//! more than is needed, and one moment serves for all.

use crate::access::Access;
use crate::cause::{Cause, Command};
use crate::config::{Atomic, DeviceConfig};
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::history::GroupMark;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::flash::role::Role;
use crate::geometry::{BlockId, PageAt, Ppn};

/// Watches over what was written together.
#[derive(Debug, Clone)]
pub(super) struct GroupWatch<T> {
    /// Pages that had been programmed when the group under way began.
    key: u32,
    /// Whether groups are told apart in flash.
    marks: bool,
    /// What is written is written again by a mount: when the data were first programmed.
    again: Option<u32>,
    /// When everything that was programmed so far is durable.
    written: T,
}

impl<T: Ticket> GroupWatch<T> {
    /// For a validated configuration; `None` where nothing is promised that takes it.
    pub(super) fn new<P: FlashPort<Ticket = T>>(
        config: &DeviceConfig,
        nand: &NandArray,
        port: &P,
    ) -> Option<Self> {
        let marks = config.power.atomic == Atomic::Request;
        config.power.has_journal().then(|| Self {
            key: nand.programmed(),
            marks,
            again: None,
            written: port.ready(),
        })
    }

    /// The same behind another port. Everything that was submitted to the old one has ended.
    pub(super) fn with_port<P: FlashPort>(self, port: &P) -> GroupWatch<P::Ticket> {
        GroupWatch { key: self.key, marks: self.marks, again: self.again, written: port.ready() }
    }

    pub(super) fn written<P: FlashPort<Ticket = T>>(&mut self, port: &mut P, done: T) {
        self.written = port.join(self.written, done);
    }
}

impl<P: FlashPort> Flash<P> {
    /// The first page of another group of several pages is programmed next. What the journal said before was of the time before
    /// it.
    pub(crate) fn begin_marks(&mut self) {
        if let Some(groups) = &mut self.groups {
            groups.key = self.nand.programmed();
        }
    }

    /// Pages that had been programmed when the group under way began.
    pub(crate) fn group_key(&self) -> u32 {
        self.groups.as_ref().map_or(0, |groups| groups.key)
    }

    /// What is written from now on is written again by a mount, and was first programmed at `since`; with `None` it is not.
    pub(crate) fn set_written_again(&mut self, since: Option<u32>) {
        if let Some(groups) = &mut self.groups {
            groups.again = since;
        }
    }

    /// With verification: the `index`-th unit of `access` went to `ppn`, as a part of its group.
    pub(super) fn store_mark(&mut self, ppn: Ppn, access: &Access<'_>, index: u32) {
        let Some(groups) = self.groups.as_ref().filter(|groups| groups.marks) else { return };
        let (key, again) = (groups.key, groups.again);
        if let Some(key) = again {
            let first = access.lpn_at(index).0;
            self.nand.store_group(ppn, GroupMark { key, first, units: GroupMark::AGAIN });
            return;
        }
        if access.group.units <= access.units || !access.parts.is_empty() {
            return;
        }
        let before = access.group.units - access.rest - access.units + index;
        // It may have gone on from the end of the drive to its start.
        let logical = self.nand.geometry().logical_units;
        let first = (access.lpn_at(index).0 + logical - before % logical) % logical;
        self.nand.store_group(ppn, GroupMark { key, first, units: access.group.units });
    }

    /// When everything that was programmed so far is durable.
    pub(crate) fn all_written(&self) -> P::Ticket {
        self.groups.as_ref().map_or_else(|| self.port.ready(), |groups| groups.written)
    }

    /// `after`, and the end of earlier requests where each is new or old as a whole. What they wrote is written again as a
    /// part of a unit, and must not survive without the rest of them.
    #[inline]
    pub(crate) fn after_old_requests(&mut self, after: P::Ticket) -> P::Ticket {
        match &self.groups {
            Some(groups) if groups.marks => self.port.join(after, groups.written),
            _ => after,
        }
    }

    /// `block` must not be erased before everything that was programmed so far is durable.
    pub(crate) fn guard(&mut self, block: BlockId) {
        let written = self.all_written();
        self.guard_until(block, written);
    }

    /// Program a page of the journal, which holds `words`. Its block is in SLC mode.
    ///
    /// # Errors
    /// When a rule of flash was broken or the power was cut.
    pub(crate) fn program_journal(
        &mut self,
        page: PageAt,
        words: &[u32],
        cause: Cause,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        self.enter(page, Role::Journal, true, cause)?;
        self.admit(Command::Program, cause)?;
        self.nand.program_words(page, words, cause)?;
        let sectors = self.geometry().sectors_per_unit * self.geometry().slots_per_page;
        let submission = self.submission(Command::Program, cause, page, self.bus_bytes(sectors));
        let done = self.port.submit(submission, after);
        self.note_program(page, done);
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::port::CountingPort;
    use crate::geometry::Lpn;

    #[test]
    fn a_block_in_slc_mode_takes_lsb_pages_and_one_role_only() {
        let device = serde_json::json!({
            "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 40, "pages_per_block": 8, "page_bytes": 4096 },
            "cell": { "kind": "mlc", "page_order": "tiles" },
            "ftl": { "over_provisioning": 0.5 },
            "power": { "trim": "flush" },
        });
        let config: DeviceConfig = serde_json::from_value(device).unwrap();
        let geometry = config.to_geometry();
        let mut flash = Flash::new(&config, &geometry, true, CountingPort);
        let block = geometry.journal_blocks(crate::geometry::PlaneId(0)).next().unwrap();
        let page = |index| PageAt { block, index };
        let program = |flash: &mut Flash<CountingPort>, index| {
            flash.program_journal(page(index), &[1, 2], Cause::Metadata, ())
        };
        program(&mut flash, 1).unwrap();
        assert_eq!((flash.nand.role(block), flash.nand.is_lsb_only(block)), (Some(Role::Journal), true));
        let error = program(&mut flash, 2).unwrap_err().to_string();
        assert!(error.contains("the block is in SLC mode"), "{error}");
        program(&mut flash, 4).unwrap();
        let data = BlockId(0);
        flash.nand.open(data, Role::Data);
        flash.program(PageAt { block: data, index: 0 }, &[Lpn(3)], Cause::Host, ()).unwrap();
        let into_data = flash.program_journal(PageAt { block: data, index: 1 }, &[], Cause::Metadata, ());
        let error = into_data.unwrap_err().to_string();
        assert!(error.contains("the block is for data, not for journal"), "{error}");
        // An erase takes the role away.
        flash.erase(block, Cause::Metadata, ()).unwrap();
        assert_eq!((flash.nand.role(block), flash.nand.is_lsb_only(block)), (None, false));
    }
}
