//! What a drive has lived through before the first request: written without a clock, and not measured.

use crate::access::{Access, Group, Part};
use crate::cause::Cause;
use crate::config::{AgedWhen, Aging as Wear, Arrival, DeviceConfig, FillLayout, PreconditionPattern};
use crate::error::{ConfigError, RunError};
use crate::flash::port::CountingPort;
use crate::geometry::Lpn;
use crate::host::admission::Admission;
use crate::host::request::{Op, SourceFactory};
use crate::host::split::Splitter;
use crate::host::{AHEAD, CONTROL_INTERVAL, Drive, GROUP};
use crate::layer::Ftl;
use crate::metrics::summary::PreconditionSummary;
use crate::rng::Rng;
use crate::run::RunControl;

/// Opening a workload takes about as long as reading this many requests of it.
const OPENING: u64 = 1000;

/// So many requests are read in some seconds: that may always be, as an aged drive is kept.
const MOMENT: u64 = 100_000_000;

/// Windows of a steady state.
const STEADY_WINDOWS: u64 = 4;

/// A pass over the workload writes `written` units in `requests` requests, and aging needs `least`.
fn too_short(written: u64, requests: u64, least: u64) -> ConfigError {
    ConfigError {
        key: "precondition.pattern".into(),
        found: "\"workload\"".into(),
        expected: format!(
            "this workload writes {written} pages in {requests} requests, and aging needs {least} pages at least: reading it so often takes longer than precondition.max_drive_writes allows; choose \"uniform\" or \"sequential\", a workload that writes more, or precondition.kind = \"fill\""
        ),
    }
}

/// Ages a drive, and reports how far it got.
struct Aging<'r, F> {
    drive: &'r mut Drive<F, CountingPort>,
    control: &'r RunControl,
    splitter: Splitter,
    /// Where a write buffer brings units from anywhere to one page, the units of the page that is not full yet: a drive ages
    /// as it is used later. `None` where units are written as they come.
    gathered: Option<Vec<Part>>,
    /// Units written, the fill included.
    written: u64,
    /// Requests begun so far.
    requests: u32,
    bound: u64,
    until_control: u64,
    interrupted: bool,
}

/// Precondition `drive` as `config` says. Returns how far it got (`None` when nothing is asked for), and what ended it
/// early: the workload could not be read, or the drive filled up.
pub(crate) fn run<F: Ftl<CountingPort>>(
    config: &DeviceConfig,
    drive: &mut Drive<F, CountingPort>,
    workload: &dyn SourceFactory,
    seed: u64,
    control: &RunControl,
) -> (Option<PreconditionSummary>, Option<RunError>) {
    let wanted = &config.precondition;
    let Some(layout) = wanted.layout() else { return (None, None) };
    let kind = wanted.kind.kind().name();
    let logical = u64::from(drive.flash.geometry().logical_units);
    let splitter = Splitter::new(drive.flash.geometry());
    let wear = wanted.aging();
    let mut aging = Aging {
        splitter,
        gathered: config.gathers().then(Vec::new),
        written: 0,
        requests: 0,
        bound: wear.map_or(u64::MAX, |wear| (wear.max_drive_writes * logical as f64) as u64),
        until_control: CONTROL_INTERVAL,
        interrupted: false,
        drive,
        control,
    };
    let mut goal = Goal::new(wear.map(|wear| wear.until), config.ftl.kept_free(), logical);
    let mut result = aging.fill(layout).and_then(|()| aging.settle());
    goal.reached = wear.is_none() && result.is_ok() && !aging.interrupted;
    if let Some(Wear { pattern, .. }) = wear
        && result.is_ok()
        && !aging.interrupted
    {
        goal.start(aging.drive);
        result = aging.age(config, pattern, workload, seed, &mut goal).and_then(|()| aging.settle());
    }
    let summary = PreconditionSummary {
        kind: kind.into(),
        reached: goal.reached && result.is_ok(),
        pages_written: aging.written,
        write_amplification: goal.write_amplification(),
        free_blocks_max: aging.drive.top.most_free_blocks(),
    };
    (Some(summary), result.err())
}

/// When aging is enough.
struct Goal {
    /// `None`: after the fill.
    until: Option<AgedWhen>,
    window: u64,
    /// Units written and programmed at the start of the window.
    window_start: (u64, u64),
    /// Write amplification of the windows so far, and of how many.
    windows: Vec<f64>,
    reached: bool,
}

impl Goal {
    fn new(until: Option<AgedWhen>, least_free: u32, window: u64) -> Self {
        let until = match until {
            Some(AgedWhen::FreeBlocks(0)) => Some(AgedWhen::FreeBlocks(least_free)),
            other => other,
        };
        Self { until, window, window_start: (0, 0), windows: Vec::new(), reached: false }
    }

    fn start<F: Ftl<CountingPort>>(&mut self, drive: &Drive<F, CountingPort>) {
        self.window_start = (0, programmed(drive));
    }

    /// `written` units have been written since the fill.
    #[inline]
    fn look<F: Ftl<CountingPort>>(&mut self, drive: &Drive<F, CountingPort>, written: u64) {
        if written - self.window_start.0 >= self.window {
            self.close_window(drive, written);
        }
    }

    #[cold]
    fn close_window<F: Ftl<CountingPort>>(&mut self, drive: &Drive<F, CountingPort>, written: u64) {
        let programmed = programmed(drive);
        let (written_before, programmed_before) = self.window_start;
        self.windows.push((programmed - programmed_before) as f64 / (written - written_before) as f64);
        self.window_start = (written, programmed);
        if let [.., a, b, c, d] = self.windows[..] {
            let (before, now) = (a + b, c + d);
            if let Some(AgedWhen::Steady(tolerance)) = self.until {
                self.reached |= ((now - before) / before).abs() <= tolerance;
            }
        }
    }

    fn write_amplification(&self) -> Option<f64> {
        let last = &self.windows[self.windows.len().saturating_sub(2)..];
        (!last.is_empty()).then(|| last.iter().sum::<f64>() / last.len() as f64)
    }
}

fn programmed<F: Ftl<CountingPort>>(drive: &Drive<F, CountingPort>) -> u64 {
    drive.flash.pages_programmed() * u64::from(drive.flash.geometry().slots_per_page)
}

impl<F: Ftl<CountingPort>> Aging<'_, F> {
    fn fill(&mut self, layout: FillLayout) -> Result<(), RunError> {
        let geometry = self.drive.flash.geometry();
        let (logical, slots, per_unit) =
            (geometry.logical_units, geometry.slots_per_page, geometry.sectors_per_unit);
        if layout == FillLayout::Blocks {
            self.written += u64::from(logical);
            return self.drive.fill_blocks(Cause::Host).map_err(|error| *error);
        }
        let mut lpn = 0;
        while lpn < logical && !self.interrupted {
            let written = self.drive.fill_in_turn(Lpn(lpn), Cause::Host).map_err(|error| *error)?;
            if written == 0 {
                break;
            }
            lpn += written;
            self.written += u64::from(written);
            self.control.report(true, self.written, Some(f64::from(lpn) / f64::from(logical)));
            self.interrupted |= self.control.is_cancelled();
        }
        while lpn < logical && !self.interrupted {
            let units = slots.min(logical - lpn);
            self.write(Lpn(lpn), units, units * per_unit)?;
            lpn += units;
            self.look_up(Some(f64::from(lpn) / f64::from(logical)));
        }
        Ok(())
    }

    fn write(&mut self, lpn: Lpn, units: u32, sectors: u32) -> Result<(), RunError> {
        let group = Group { id: self.new_request(), units };
        let access = Access { group, ..Access::span(lpn, units, 0, sectors) };
        let lba = u64::from(lpn.0) * u64::from(self.drive.flash.geometry().sectors_per_unit);
        self.put(Op::Write, lba, &access)?;
        self.written += u64::from(units);
        Ok(())
    }

    /// The number of a request of its own, and none of the run.
    fn new_request(&mut self) -> u32 {
        let number = self.requests;
        self.requests = number.wrapping_add(1);
        !number
    }

    /// Write or trim now, or with others that fill a page together.
    #[inline(always)]
    fn put(&mut self, op: Op, lba: u64, access: &Access<'_>) -> Result<(), RunError> {
        if self.gathered.is_some() && self.gather(op, access)? {
            return Ok(());
        }
        self.drive.access(op, lba, access, ()).map_err(|error| *error)
    }

    /// Keep the units of a write that fills no page. False when the access is to be done now.
    fn gather(&mut self, op: Op, access: &Access<'_>) -> Result<bool, RunError> {
        let geometry = self.drive.flash.geometry();
        let (slots, per_unit) = (geometry.slots_per_page, geometry.sectors_per_unit);
        let Some(gathered) = &mut self.gathered else { return Ok(false) };
        let range = access.lpn.0..access.lpn.0 + access.units;
        let whole = access.first_sector == 0 && access.sectors == access.units * per_unit;
        if !whole {
            // What is there must be older than this.
            let overlaps = gathered.iter().any(|part| range.contains(&part.lpn.0));
            return if overlaps { self.settle().map(|()| false) } else { Ok(false) };
        }
        gathered.retain(|part| !range.contains(&part.lpn.0));
        if op != Op::Write || access.units == slots {
            return Ok(false);
        }
        for lpn in range.map(Lpn) {
            self.gathered.get_or_insert_default().push(Part { lpn, first_sector: 0, sectors: per_unit });
            if self.gathered.as_ref().is_some_and(|gathered| gathered.len() == slots as usize) {
                self.settle()?;
            }
        }
        Ok(true)
    }

    /// Write what waits for others.
    fn settle(&mut self) -> Result<(), RunError> {
        let Some(mut gathered) = self.gathered.take() else { return Ok(()) };
        if !gathered.is_empty() {
            let group = Group { id: self.new_request(), units: gathered.len() as u32 };
            self.drive.write_units(&gathered, group).map_err(|error| *error)?;
            gathered.clear();
        }
        self.gathered = Some(gathered);
        Ok(())
    }

    fn look_up(&mut self, fraction: Option<f64>) {
        self.until_control -= 1;
        if self.until_control == 0 {
            self.until_control = CONTROL_INTERVAL;
            self.control.report(true, self.written, fraction);
            self.interrupted |= self.control.is_cancelled();
        }
    }

    fn age(
        &mut self,
        config: &DeviceConfig,
        pattern: PreconditionPattern,
        workload: &dyn SourceFactory,
        seed: u64,
        goal: &mut Goal,
    ) -> Result<(), RunError> {
        let geometry = self.drive.flash.geometry();
        let (logical, slots, per_unit) =
            (geometry.logical_units, geometry.slots_per_page, geometry.sectors_per_unit);
        let filled = self.written;
        if pattern == PreconditionPattern::Workload {
            return self.age_by_workload(config, workload, goal, filled);
        }
        if pattern == PreconditionPattern::Uniform {
            return self.age_at_random(seed, goal, filled);
        }
        let mut next = 0;
        while !self.is_over(goal, filled) {
            let units = slots.min(logical - next);
            self.write(Lpn(next), units, units * per_unit)?;
            next = if next + units == logical { 0 } else { next + units };
            self.look_up(None);
        }
        Ok(())
    }

    /// Write units drawn at random, drawn so far ahead that the processor can fetch what each of them will touch.
    fn age_at_random(&mut self, seed: u64, goal: &mut Goal, filled: u64) -> Result<(), RunError> {
        const RING: usize = AHEAD[0].next_power_of_two();
        let geometry = self.drive.flash.geometry();
        let (logical, per_unit) = (u64::from(geometry.logical_units), geometry.sectors_per_unit);
        let mut rng = Rng::new(seed, "precondition");
        let mut upcoming: [Lpn; RING] = std::array::from_fn(|_| Lpn(rng.below(logical) as u32));
        for at in 0_usize.. {
            if self.is_over(goal, filled) {
                break;
            }
            if at.is_multiple_of(GROUP) {
                for (stage, ahead) in (0..).zip(AHEAD) {
                    let soon = &upcoming[(at + ahead) % RING..][..GROUP];
                    self.drive.top.prefetch(&self.drive.flash.nand, soon, stage);
                }
            }
            let lpn = std::mem::replace(&mut upcoming[at % RING], Lpn(rng.below(logical) as u32));
            self.write(lpn, 1, per_unit)?;
            self.look_up(None);
        }
        Ok(())
    }

    fn age_by_workload(
        &mut self,
        config: &DeviceConfig,
        workload: &dyn SourceFactory,
        goal: &mut Goal,
        filled: u64,
    ) -> Result<(), RunError> {
        // Aging takes no time, so times do not matter.
        let mut config = config.clone();
        config.host.arrival = Arrival::Closed.into();
        let least = self.least_writes(goal);
        let most_taken = self.bound.max(MOMENT);
        let mut taken = 0;
        for pass in 1.. {
            let source = workload.open(pass).map_err(RunError::Source)?;
            let mut admission = Admission::new(source, &config, self.splitter.sectors(), None);
            let before = self.written;
            let mut requests = 0;
            while admission.take()? {
                requests += 1;
                let request = *admission.request();
                if matches!(request.op, Op::Write | Op::Trim) {
                    let number = self.new_request();
                    for (lba, access) in self.splitter.split(&request, number) {
                        self.drive.flash.check_interrupt().map_err(|error| *error)?;
                        self.put(request.op, lba, &access)?;
                        if request.op == Op::Write {
                            self.written += u64::from(access.units);
                        }
                    }
                }
                if self.is_over(goal, filled) {
                    return Ok(());
                }
                self.look_up(None);
            }
            let written = self.written - before;
            if written == 0 {
                // A workload that writes nothing leaves the drive as it is: that state is steady.
                goal.reached = matches!(goal.until, Some(AgedWhen::Steady(_)));
                return Ok(());
            }
            taken += requests.max(OPENING);
            if pass == 1 && least.div_ceil(written).saturating_mul(taken) > most_taken {
                return Err(RunError::Config(too_short(written, requests, least)));
            }
            if taken >= most_taken {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Units that must be written before the goal can be reached, at least.
    fn least_writes(&self, goal: &Goal) -> u64 {
        let per_block = u64::from(self.drive.flash.geometry().units_per_block());
        match goal.until {
            Some(AgedWhen::Steady(_)) => STEADY_WINDOWS * goal.window,
            Some(AgedWhen::FreeBlocks(blocks)) => {
                u64::from(self.drive.top.most_free_blocks().saturating_sub(blocks)) * per_block
            }
            None => 0,
        }
    }

    #[inline]
    fn is_over(&mut self, goal: &mut Goal, filled: u64) -> bool {
        goal.look(self.drive, self.written - filled);
        if let Some(AgedWhen::FreeBlocks(free_blocks)) = goal.until {
            goal.reached = self.drive.top.most_free_blocks() <= free_blocks;
        }
        goal.reached || self.written >= self.bound || self.interrupted
    }
}
