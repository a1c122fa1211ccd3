//! The host: requests, and how they reach the drive.

pub mod admission;
pub mod aged;
pub(crate) mod cache_alone;
pub(crate) mod model;
pub(crate) mod precondition;
pub mod request;
pub(crate) mod run_metrics;
pub mod session;
pub mod split;
pub(crate) mod timed;
pub(crate) mod untimed;
mod waiting;
pub mod warnings;

use crate::access::{Access, Group, Part};
use crate::buffer::front::Front;
use crate::cause::{Cause, Command};
use crate::config::DeviceConfig;
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::port::{CountingPort, FlashPort};
use crate::geometry::Lpn;
use crate::host::admission::Admission;
use crate::host::request::Op;
use crate::host::split::Splitter;
use crate::layer::Ftl;
use crate::layer::{Layer, Layering, STAGES};
use crate::metrics::series::Totals;
use crate::nvm::cache::Cached;
use crate::tape::{Tape, Taped};
use crate::verify::ShadowStore;

/// Requests between two looks at the control of a run.
const CONTROL_INTERVAL: u64 = 4096;

/// A drive under way: the parts that every way of driving it shares.
#[derive(Clone)]
pub(crate) struct Drive<L, P: FlashPort> {
    pub(crate) top: L,
    pub(crate) flash: Flash<P>,
    pub(crate) shadow: Option<ShadowStore>,
    /// With verification, the versions of the access under way.
    versions: Vec<u32>,
}

/// The topmost layer over the translation layer `L`.
pub(crate) type TopOf<B, L, P> = <B as Layering>::Top<P, FrontOf<L, P>>;

/// The write buffer and the non-volatile cache of every drive, over the translation layer `L`.
pub(crate) type FrontOf<L, P> = Front<Cached<L, <P as FlashPort>::Ticket>, <P as FlashPort>::Ticket>;

/// How many requests ahead of an access each stage of [`Ftl::prefetch`] is, at least.
const AHEAD: [usize; STAGES] = [24, 16, 8];

/// Requests looked at together: every so many, the next ones of each stage.
const GROUP: usize = 4;

/// Call `ask` with the units of requests that come soon, and the stage of [`Layer::prefetch`] that it is time for.
#[inline(always)]
pub(crate) fn look_ahead(
    admission: &Admission,
    splitter: &Splitter,
    stages: impl Fn() -> usize,
    mut ask: impl FnMut(&[Lpn], u32),
) {
    if !admission.position().is_multiple_of(GROUP) {
        return;
    }
    for (stage, ahead) in (0..).zip(AHEAD).take(stages()) {
        let (mut units, mut count) = ([Lpn(0); GROUP], 0);
        for request in admission.peek::<GROUP>(ahead) {
            units[count] = splitter.unit(request.lba);
            count += usize::from(request.lba < splitter.sectors());
        }
        ask(&units[..count], stage);
    }
}

impl<L, P: FlashPort> Drive<L, P> {
    /// A drive whose topmost layer is `top`.
    pub(crate) fn new(top: L, flash: Flash<P>, shadow: Option<ShadowStore>) -> Self {
        Self { top, flash, shadow, versions: Vec::new() }
    }
}

impl<L: Layer<P>, P: FlashPort> Drive<L, P> {
    /// A workload tells the future: ask the processor for what its next requests will touch.
    #[inline(always)]
    pub(crate) fn look_ahead(&self, admission: &Admission, splitter: &Splitter) {
        let ask = |lpns: &[Lpn], stage| self.top.prefetch(&self.flash.nand, lpns, stage);
        look_ahead(admission, splitter, || self.top.prefetch_stages(), ask);
    }

    /// Add what the drive has come to.
    pub(crate) fn sample(&self, totals: &mut Totals) {
        self.sample_flash(totals);
        self.top.sample(&mut totals.parts);
    }

    /// The same without the columns of its parts, which take memory.
    pub(crate) fn sample_flash(&self, totals: &mut Totals) {
        let Self { top, flash, .. } = self;
        totals.programmed_units = flash.pages_programmed() * u64::from(flash.geometry().slots_per_page);
        totals.erases = flash.counts[Command::Erase as usize].iter().sum();
        totals.free_blocks = top.free_blocks();
    }

    /// Let the topmost layer do one access that starts at sector `lba`, and verify what a read brings.
    #[inline(always)]
    pub(crate) fn access(
        &mut self,
        op: Op,
        lba: u64,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        if self.shadow.is_some() {
            return self.access_checked(op, lba, access, after);
        }
        // Most are writes, or what they do takes longer: a comparison is cheaper than a jump through a table.
        if op == Op::Write {
            return self.top.write(&mut self.flash, access, after);
        }
        self.access_other(op, access, after)
    }

    /// Make durable what was acknowledged, for request `group`.
    pub(crate) fn flush(&mut self, group: u32, after: P::Ticket) -> FlashResult<P::Ticket> {
        if let Some(shadow) = &mut self.shadow {
            shadow.flush(group);
        }
        self.top.flush(&mut self.flash, after)
    }

    fn access_other(&mut self, op: Op, access: &Access<'_>, after: P::Ticket) -> FlashResult<P::Ticket> {
        match op {
            Op::Write => self.top.write(&mut self.flash, access, after),
            Op::Read => self.top.read(&mut self.flash, access, &mut self.versions, after),
            Op::Trim => self.top.trim(&mut self.flash, access, after),
            Op::Flush => self.top.flush(&mut self.flash, after),
        }
    }

    fn access_checked(
        &mut self,
        op: Op,
        lba: u64,
        access: &Access<'_>,
        after: P::Ticket,
    ) -> FlashResult<P::Ticket> {
        let Some(shadow) = &mut self.shadow else { return Ok(after) };
        let range = lba..lba + u64::from(access.sectors);
        self.versions.clear();
        match op {
            Op::Write => {
                shadow.write(range, access.group.id, &mut self.versions);
                let access = Access { versions: &self.versions, ..*access };
                self.top.write(&mut self.flash, &access, after)
            }
            Op::Read => {
                let done = self.top.read(&mut self.flash, access, &mut self.versions, after)?;
                let checked = shadow.check(range, &self.versions);
                checked.map_err(|text| Box::new(RunError::Mismatch(text)))?;
                Ok(done)
            }
            Op::Trim => {
                let per_unit = self.flash.geometry().sectors_per_unit;
                for index in 0..access.units {
                    if access.sectors_of(index, per_unit) == per_unit {
                        let start = u64::from(access.lpn_at(index).0) * u64::from(per_unit);
                        shadow.trim(start..start + u64::from(per_unit), access.group.id);
                    }
                }
                self.top.trim(&mut self.flash, access, after)
            }
            Op::Flush => self.top.flush(&mut self.flash, after),
        }
    }
}

impl<F: Ftl<CountingPort>> Drive<F, CountingPort> {
    /// Write it to a tape as it is between two requests, or read it from there.
    pub(crate) fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { top, flash, shadow, versions: _ } = self;
        top.tape(tape)?;
        flash.tape(tape)?;
        shadow.as_mut().map_or(Ok(()), |shadow| shadow.tape(tape))
    }

    /// The preconditioned drive with its write buffer and its layers, behind another port.
    pub(crate) fn behind<B: Layering, P: FlashPort>(
        self,
        config: &DeviceConfig,
        layering: &B,
        port: P,
    ) -> Drive<TopOf<B, F::On<P>, P>, P> {
        let ftl = self.top.with_port(&port);
        let flash = self.flash.with_port(port);
        let cached = Cached::new(config, ftl, &flash);
        let front = Front::new(config, cached, &flash);
        Drive::new(layering.build(front, &flash), flash, self.shadow)
    }

    /// Write units from anywhere, in part or whole, as one page.
    pub(crate) fn write_units(&mut self, parts: &[Part], group: Group) -> FlashResult<()> {
        let mut versions = Vec::new();
        if let Some(shadow) = &mut self.shadow {
            let per_unit = self.flash.geometry().sectors_per_unit;
            for part in parts {
                let first = u64::from(part.lpn.0) * u64::from(per_unit) + u64::from(part.first_sector);
                shadow.write(first..first + u64::from(part.sectors), group.id, &mut self.versions);
                versions.extend_from_slice(&self.versions);
            }
        }
        let geometry = self.flash.geometry();
        let (per_unit, slots) = (geometry.sectors_per_unit, geometry.slots_per_page);
        let context = Access { group, ..Access::span(Lpn(0), 1, 0, 1) };
        let access = Access::gathered(parts, &versions, &context).spanning(per_unit, slots);
        self.top.write(&mut self.flash, &access, ())
    }

    /// Write units from `from` on in order, as many as go much faster together.
    pub(crate) fn fill_in_turn(&mut self, from: Lpn, cause: Cause) -> FlashResult<u32> {
        self.top.fill_in_turn(&mut self.flash, from, cause)
    }

    /// Write every logical page once, block after block.
    pub(crate) fn fill_blocks(&mut self, cause: Cause) -> FlashResult<()> {
        if let Some(shadow) = &mut self.shadow {
            shadow.write(0..shadow.sectors(), 0, &mut self.versions);
        }
        self.top.fill_blocks(&mut self.flash, cause, &self.versions)
    }
}
