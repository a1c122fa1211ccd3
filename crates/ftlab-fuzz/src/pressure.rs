//! A drive under pressure: ten drive writes at random, each access within its bound of commands; then the power goes, again
//! and again.
//!
//! A drive at its largest size can copy thousands of pages for each that is written. So writing ends early after
//! [`MOST_COMMANDS`], the cuts after as many again, and the campaign says how often that was.

use ftlab_core::access::Access;
use ftlab_core::config::{DeviceConfig, DurableTrims};
use ftlab_core::error::{FlashResult, RunError};
use ftlab_core::flash::Flash;
use ftlab_core::flash::port::{CountingPort, FlashPort, PowerCutPort};
use ftlab_core::ftl::{self, FtlVisitor};
use ftlab_core::geometry::Lpn;
use ftlab_core::layer::{Ftl, Layer};

use crate::drive::Dice;

/// Flash commands after which a drive has been written enough, or has lost its power often enough.
const MOST_COMMANDS: u64 = 400_000;

/// Times that the power goes, at most.
const CUTS: u32 = 20;

/// What a drive has gone through.
#[derive(Debug, Default, Clone)]
pub struct Lived {
    /// Flash commands of the access that took most.
    pub most_commands: u64,
    /// Flash commands of the mount that took most.
    pub most_commands_of_mount: u64,
    /// Most that its bound allows.
    pub bound: u64,
    /// Power cuts.
    pub cuts: u32,
    /// Whether it served fewer than ten drive writes or lost its power less often, because that took too many commands.
    pub cut_short: bool,
}

/// Put the drive of case `seed` under pressure.
///
/// # Errors
/// What did not hold.
pub fn press(config: &DeviceConfig, seed: u64) -> Result<Lived, String> {
    ftl::build(config, &config.to_geometry(), seed, true, Press { config, seed })
}

struct Press<'a> {
    config: &'a DeviceConfig,
    seed: u64,
}

/// What the host knows of a sector.
#[derive(Clone, Copy, Default)]
struct Sector {
    acknowledged: u32,
    in_flight: Option<u32>,
    trimmed: bool,
}

impl Sector {
    fn see(&mut self, found: u32) -> Result<(), String> {
        let Self { acknowledged, in_flight, trimmed } = *self;
        if found != acknowledged && in_flight != Some(found) && !trimmed {
            return Err(format!(
                "found version {found}, acknowledged {acknowledged}, in flight {in_flight:?}"
            ));
        }
        *self = Self { acknowledged: found, in_flight: None, trimmed: trimmed && found == 0 };
        Ok(())
    }
}

struct Host {
    dice: Dice,
    sectors: Vec<Sector>,
    version: u32,
    units: u32,
    /// Share of the space that most writes go to, as one in so many.
    hot: u64,
    trims: bool,
    /// Whether a flush promises them.
    flushes_trims: bool,
    /// Write in order.
    next: Option<u32>,
}

enum Ended {
    Well,
    Cut,
}

fn commands<P: FlashPort>(flash: &Flash<P>) -> u64 {
    flash.counts.iter().flatten().sum()
}

impl Host {
    fn write<L: Layer<P>, P: FlashPort>(
        &mut self,
        top: &mut L,
        flash: &mut Flash<P>,
        lpn: u32,
        units: u32,
        whole: bool,
    ) -> Result<Ended, String> {
        let per_unit = flash.geometry().sectors_per_unit;
        let first = if whole { 0 } else { self.dice.below(u64::from(per_unit)) as u32 };
        let sectors = units * per_unit - first;
        self.version += 1;
        let versions = vec![self.version; sectors as usize];
        let start = (lpn * per_unit + first) as usize;
        let range = start..start + sectors as usize;
        for sector in &mut self.sectors[range.clone()] {
            sector.in_flight = Some(self.version);
        }
        let stream = self.dice.below(3) as u16;
        let access = Access { versions: &versions, stream, ..Access::span(Lpn(lpn), units, first, sectors) };
        let after = flash.port.ready();
        match ended(top.write(flash, &access, after).map(|_| ()))? {
            Ended::Cut => Ok(Ended::Cut),
            Ended::Well => {
                for sector in &mut self.sectors[range] {
                    *sector = Sector { acknowledged: self.version, ..Sector::default() };
                }
                Ok(Ended::Well)
            }
        }
    }

    /// One access of any kind; most write.
    fn access<L: Layer<P>, P: FlashPort>(
        &mut self,
        top: &mut L,
        flash: &mut Flash<P>,
        written: &mut u64,
    ) -> Result<Ended, String> {
        let (slots, per_unit) = (flash.geometry().slots_per_page, flash.geometry().sectors_per_unit);
        let range = if self.dice.once_in(5) {
            u64::from(self.units)
        } else {
            u64::from(self.units).div_ceil(self.hot)
        };
        let mut lpn = self.dice.below(range) as u32;
        if let Some(next) = &mut self.next {
            lpn = *next;
            *next = (*next + 1) % self.units;
        }
        let room = (slots - lpn % slots).min(self.units - lpn);
        let units = if self.dice.once_in(2) { 1 } else { 1 + self.dice.below(u64::from(room)) as u32 };
        match self.dice.below(10) {
            0 if self.trims && !(self.flushes_trims && self.dice.once_in(4)) => {
                let start = (lpn * per_unit) as usize;
                for sector in &mut self.sectors[start..start + (units * per_unit) as usize] {
                    *sector = Sector { trimmed: true, ..Sector::default() };
                }
                let after = flash.port.ready();
                let access = Access::span(Lpn(lpn), units, 0, units * per_unit);
                ended(top.trim(flash, &access, after).map(|_| ()))
            }
            0 if self.flushes_trims => {
                let after = flash.port.ready();
                let done = ended(top.flush(flash, after).map(|_| ()))?;
                if matches!(done, Ended::Well) {
                    for sector in self.sectors.iter_mut().filter(|sector| sector.trimmed) {
                        *sector = Sector::default();
                    }
                }
                Ok(done)
            }
            1 => {
                let mut found = Vec::new();
                let after = flash.port.ready();
                let access = Access::span(Lpn(lpn), units, 0, units * per_unit);
                let done = ended(top.read(flash, &access, &mut found, after).map(|_| ()))?;
                let start = (lpn * per_unit) as usize;
                if matches!(done, Ended::Well) {
                    for (found, sector) in found.iter().zip(&mut self.sectors[start..]) {
                        sector.see(*found)?;
                    }
                }
                Ok(done)
            }
            _ => {
                *written += u64::from(units);
                let whole = !self.dice.once_in(8);
                self.write(top, flash, lpn, units, whole)
            }
        }
    }
}

fn ended(result: FlashResult<()>) -> Result<Ended, String> {
    match result {
        Ok(()) => Ok(Ended::Well),
        Err(error) if *error == RunError::PowerCut => Ok(Ended::Cut),
        Err(error) => Err(error.to_string()),
    }
}

impl FtlVisitor for Press<'_> {
    type Output = Result<Lived, String>;

    fn visit<F: Ftl<CountingPort>>(self, mut ftl: F) -> Result<Lived, String> {
        let Self { config, seed } = self;
        let geometry = config.to_geometry();
        let mut flash = Flash::new(config, &geometry, true, CountingPort);
        flash.nand.keep_past();
        let units = geometry.logical_units;
        let mut dice = Dice::new(seed, "pressure");
        let mut host = Host {
            sectors: vec![Sector::default(); units as usize * geometry.sectors_per_unit as usize],
            version: 0,
            units,
            hot: dice.pick(&[1, 1, 2, 10, 100]),
            trims: dice.once_in(2),
            flushes_trims: config.power.trim == DurableTrims::Flush,
            next: dice.once_in(4).then_some(0),
            dice,
        };
        let mut lived = Lived { bound: F::most_commands_of_access(config), ..Lived::default() };
        let watch = |lived: &mut Lived, before: u64, flash: &Flash<CountingPort>| {
            let took = commands(flash) - before;
            lived.most_commands = lived.most_commands.max(took);
            if took > lived.bound {
                return Err(format!(
                    "an access took {took} commands, more than its bound of {}",
                    lived.bound
                ));
            }
            Ok(())
        };
        // Full first: the least spare space there is.
        if host.dice.once_in(2) {
            for lpn in 0..units {
                let before = commands(&flash);
                host.write(&mut ftl, &mut flash, lpn, 1, true)
                    .map_err(|text| format!("filling unit {lpn}: {text}"))?;
                watch(&mut lived, before, &flash)?;
            }
        }
        let mut written = 0;
        while written < 10 * u64::from(units) {
            let before = commands(&flash);
            if before > MOST_COMMANDS {
                lived.cut_short = true;
                break;
            }
            host.access(&mut ftl, &mut flash, &mut written)
                .map_err(|text| format!("after {written} of {} units: {text}", 10 * units))?;
            watch(&mut lived, before, &flash)?;
        }
        ftl.verify(&flash.nand)?;
        let mut spent = 0;
        for cut in 0..CUTS {
            if spent > MOST_COMMANDS {
                lived.cut_short = true;
                break;
            }
            let most = if cut < CUTS / 2 { 20 } else { 20 * u64::from(geometry.units_per_block()) };
            let commands_left = host.dice.below(most);
            let mut dark = flash.with_port(PowerCutPort { commands_left });
            let mut before = ftl.with_port(&dark.port);
            for _ in 0..=commands_left {
                if let Ended::Cut = host.access(&mut before, &mut dark, &mut written)? {
                    lived.cuts += 1;
                    break;
                }
            }
            flash = dark.with_port(CountingPort);
            let place = |text: String| format!("cut {cut}: {text}");
            ftl =
                F::mount(config, seed, &mut flash, &[]).map_err(|error| place(format!("mount: {error}")))?;
            let took = commands(&flash);
            let most = lived.bound + 3 * u64::from(geometry.physical_units());
            if took > most {
                return Err(place(format!("a mount took {took} commands, more than its bound of {most}")));
            }
            lived.most_commands_of_mount = lived.most_commands_of_mount.max(took);
            ftl.verify(&flash.nand).map_err(|text| place(format!("after the mount: {text}")))?;
            let per_unit = geometry.sectors_per_unit;
            for (lpn, sectors) in (0..).zip(host.sectors.chunks_mut(per_unit as usize)) {
                let mut found = Vec::new();
                let access = Access::span(Lpn(lpn), 1, 0, per_unit);
                ftl.read(&mut flash, &access, &mut found, ()).map_err(|error| place(error.to_string()))?;
                for (found, sector) in found.iter().zip(sectors) {
                    sector.see(*found).map_err(|text| place(format!("unit {lpn}: {text}")))?;
                }
            }
            // It goes on.
            for _ in 0..50 {
                let before = commands(&flash);
                if spent + before > MOST_COMMANDS {
                    break;
                }
                host.access(&mut ftl, &mut flash, &mut written)
                    .map_err(|text| place(format!("going on: {text}")))?;
                watch(&mut lived, before, &flash)?;
            }
            spent += commands(&flash);
        }
        Ok(lived)
    }
}
