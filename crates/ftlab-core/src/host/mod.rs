//! The host: requests, and how they reach the drive.

pub mod intake;
pub(crate) mod precondition;
pub mod request;
pub mod split;
pub(crate) mod timed;
pub(crate) mod untimed;

use crate::device::RunControl;
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::port::FlashPort;
use crate::ftl::{Ftl, PageOp};
use crate::host::intake::Intake;
use crate::host::request::{Op, Request};
use crate::host::split::Splitter;
use crate::verify::Oracle;

/// Requests between two looks at the control of a run.
const CONTROL_INTERVAL: u64 = 4096;

/// A drive under way: the parts that every way of driving it shares.
pub(crate) struct Drive<'a, F, P: FlashPort> {
    pub(crate) ftl: F,
    pub(crate) flash: Flash<P>,
    pub(crate) oracle: Option<Oracle>,
    pub(crate) control: &'a RunControl,
}

/// How many requests ahead of an access each stage of [`Ftl::prefetch`] is, at least.
const AHEAD: [usize; 3] = [24, 16, 8];

/// Requests looked at together: every so many, the next ones of each stage.
const GROUP: usize = 4;

impl<F: Ftl, P: FlashPort> Drive<'_, F, P> {
    /// A workload tells the future: ask the processor for what its next requests will touch.
    #[inline(always)]
    pub(crate) fn look_ahead(&self, intake: &Intake, splitter: &Splitter) {
        if intake.position().is_multiple_of(GROUP) {
            self.look_at(intake.peek::<GROUP>(AHEAD[0]), splitter, 0);
            self.look_at(intake.peek::<GROUP>(AHEAD[1]), splitter, 1);
            self.look_at(intake.peek::<GROUP>(AHEAD[2]), splitter, 2);
        }
    }

    #[inline(always)]
    fn look_at(&self, requests: &[Request], splitter: &Splitter, stage: u32) {
        for request in requests {
            if request.lba < splitter.sectors() {
                self.ftl.prefetch(&self.flash.nand, splitter.unit(request.lba), stage);
            }
        }
    }

    /// Let the translation layer do one access that starts at sector `lba`, and verify what a read brings.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        op: Op,
        lba: u64,
        page: &PageOp,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        if self.oracle.is_some() {
            return self.witnessed(op, lba, page, after);
        }
        // Most are writes, or what they do takes longer: a comparison is cheaper than a jump through a table.
        if op == Op::Write {
            return self.ftl.write(&mut self.flash, page, after);
        }
        self.other_access(op, page, after)
    }

    fn other_access(&mut self, op: Op, page: &PageOp, after: P::Ticket) -> FlashResult<P::Ticket> {
        match op {
            Op::Write => self.ftl.write(&mut self.flash, page, after),
            Op::Read => self.ftl.read(&mut self.flash, page, after),
            Op::Trim => self.ftl.trim(&mut self.flash, page, after),
            Op::Flush => self.ftl.flush(&mut self.flash, after),
        }
    }

    fn witnessed(&mut self, op: Op, lba: u64, page: &PageOp, after: P::Ticket) -> FlashResult<P::Ticket> {
        let Some(oracle) = &mut self.oracle else { return Ok(after) };
        let range = lba..lba + u64::from(page.sectors);
        match op {
            Op::Write => {
                self.flash.write_version = oracle.write(range);
                self.ftl.write(&mut self.flash, page, after)
            }
            Op::Read => {
                self.flash.delivered.clear();
                let done = self.ftl.read(&mut self.flash, page, after)?;
                let checked = oracle.check(range, &self.flash.delivered);
                checked.map_err(|text| Box::new(RunError::Mismatch(text)))?;
                Ok(done)
            }
            Op::Trim => {
                let per_unit = self.flash.geometry().sectors_per_unit;
                for index in 0..page.units {
                    let covered = page.sectors_of(index, per_unit);
                    if covered.len() as u32 == per_unit {
                        let start = (u64::from(page.lpn.0) + u64::from(index)) * u64::from(per_unit);
                        oracle.trim(start..start + u64::from(per_unit));
                    }
                }
                self.ftl.trim(&mut self.flash, page, after)
            }
            Op::Flush => self.ftl.flush(&mut self.flash, after),
        }
    }
}
