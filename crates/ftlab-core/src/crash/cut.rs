//! One cut: flash as it stood, a mount, an audit, and going on.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::access::Access;
use crate::cause::{Command, CommandCounts};
use crate::config::{DeviceConfig, DurableTrims};
use crate::crash::promises::{Promises, Torn, Verdict};
use crate::crash::record::Recording;
use crate::crash::saved::Saved;
use crate::error::{FlashResult, RunError};
use crate::flash::Flash;
use crate::flash::cell::{WordLines, page_classes};
use crate::flash::clock::Clock;
use crate::flash::event_port::EventPort;
use crate::flash::history::History;
use crate::flash::nand::NandArray;
use crate::flash::port::{CountingPort, FlashPort, NumberingPort};
use crate::ftl::{self, FtlVisitor};
use crate::geometry::Lpn;
use crate::layer::{Ftl, Layer};
use crate::nvm::cache::{Cached, Kept};
use crate::rng::Rng;
use crate::run::RunControl;
use crate::time::Time;

/// Units that a drive takes after each mount.
const GOES_ON: u32 = 8;

/// Most losses of a cut that are told one by one: each of consecutive sectors.
const MOST_TOLD: usize = 16;

/// Commands of a mount, all with cause `recovery` or those of the collections that it needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MountCost {
    /// Pages read.
    pub reads: u64,
    /// Pages programmed, copies inside a plane included.
    pub programs: u64,
    /// Blocks erased.
    pub erases: u64,
}

/// What is wrong with a sector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossKind {
    /// A completed write is gone: what is found is older, or nothing.
    Lost,
    /// What is found was never written to this sector.
    Foreign,
    /// What had been promised to be trimmed is found again.
    Returned,
    /// A write that was under way is there in part.
    Torn,
}

/// A promise that a cut broke.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// What is wrong.
    pub kind: LossKind,
    /// The first logical sector.
    pub sector: u64,
    /// How many sectors from there on have lost the same.
    pub sectors: u64,
    /// The version found; 0 for nothing.
    pub found: u32,
    /// The version promised.
    pub promised: u32,
    /// The request that promised it; `None` for what the drive held before the run.
    pub request: Option<u64>,
}

/// What came of one cut.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cut {
    /// Which of the points of the recording.
    pub point: u64,
    /// When: the number of the command that it interrupts, or picoseconds.
    pub at: u64,
    /// With nested cuts: the command of the recovery that the second one interrupts.
    pub nested_at: Option<u64>,
    /// Programs and erases under way.
    pub torn: u32,
    /// Sectors whose promised data are gone, or that hold data of others.
    pub lost_sectors: u64,
    /// Those that hold data that were never written to them.
    pub foreign_sectors: u64,
    /// Sectors that hold again what had been promised to be trimmed.
    pub returned_sectors: u64,
    /// Writes that were under way and are there in part: requests where these are promised as a whole, units elsewhere.
    pub torn_writes: u64,
    /// Mapping units with lost sectors.
    pub lost_units: u64,
    /// Sectors that had been trimmed, and hold the data of the last write before that again.
    pub untrimmed_sectors: u64,
    /// The same with data older than the last write.
    pub untrimmed_older_sectors: u64,
    /// Sectors whose last acknowledged write is gone, though no promise is broken: no flush had promised it.
    pub unflushed_sectors: u64,
    /// What the mount took.
    pub mount: MountCost,
    /// Why the drive could not be mounted, did not hold together, or did not go on.
    pub failure: Option<String>,
}

impl Cut {
    /// Whether every promise was kept, and the drive goes on.
    pub fn is_survived(&self) -> bool {
        self.lost_sectors + self.returned_sectors + self.torn_writes == 0 && self.failure.is_none()
    }
}

/// A cut, and the first of the promises that it broke.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Examined {
    /// What came of it.
    pub cut: Cut,
    /// At most sixteen, each of consecutive sectors.
    pub losses: Vec<Loss>,
}

impl Examined {
    /// Keep a loss of one sector, unless there are enough, or it goes on with the one before.
    fn tell(&mut self, loss: Loss) {
        let continued = self.losses.last_mut().filter(|last| {
            (last.kind, last.found, last.promised) == (loss.kind, loss.found, loss.promised)
                && last.sector + last.sectors == loss.sector
        });
        if let Some(last) = continued {
            last.sectors += 1;
        } else if self.losses.len() < MOST_TOLD {
            self.losses.push(loss);
        }
    }
}

/// Where the power is cut again, while the drive is mounted after a cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Second {
    /// At so many of the commands that change flash, evenly spread; and not at all.
    Spread(u32),
    /// At the command of this number, and nowhere else.
    At(u64),
}

/// Flash as it stands at a moment that moves forward.
struct Moving<'r> {
    recording: &'r Recording,
    lines: WordLines,
    nand: NandArray,
    /// Changes of `by_end` that have ended.
    ended: usize,
    /// The first change of each lane that has not.
    next: Vec<usize>,
}

impl<'r> Moving<'r> {
    fn new(recording: &'r Recording) -> Self {
        Self {
            lines: word_lines(&recording.config),
            nand: recording.before.clone(),
            ended: 0,
            next: vec![0; recording.lanes.len()],
            recording,
        }
    }

    /// Go on to `moment`, and cut the power there: flash as it is then, and how many commands were under way.
    fn cut_at(&mut self, moment: u64) -> (NandArray, u32) {
        let Recording { history, spans, by_end, lanes, .. } = self.recording;
        while let Some(index) = by_end.get(self.ended).filter(|index| spans[**index as usize].end <= moment) {
            self.nand.redo(history, *index as usize);
            self.ended += 1;
        }
        let (mut nand, mut torn) = (self.nand.clone(), 0);
        for (lane, next) in lanes.iter().zip(&mut self.next) {
            while lane.get(*next).is_some_and(|index| spans[*index as usize].end <= moment) {
                *next += 1;
            }
            if let Some(index) = lane.get(*next).filter(|index| spans[**index as usize].start < moment) {
                nand.tear(history.change(*index as usize), &self.lines);
                torn += 1;
            }
        }
        (nand, torn)
    }
}

fn word_lines(config: &DeviceConfig) -> WordLines {
    let pages = config.geometry.pages_per_block;
    let classes = page_classes(config.cell.kind.kind(), config.cell.page_order(), pages);
    WordLines::new(&classes.unwrap_or_default())
}

/// What a cut leaves beside flash: what a non-volatile cache keeps, and the frames that a capacitor saves.
struct Left {
    kept: Kept,
    saved: Saved,
}

/// Examines cuts, as soon as the translation layer is known.
struct Examine<'a, 'r, I> {
    recording: &'r Recording,
    points: I,
    second: Second,
    control: &'a RunControl,
    out: &'a mut dyn FnMut(Examined),
}

pub(super) fn examine(
    recording: &Recording,
    points: impl Iterator<Item = u64>,
    second: Second,
    control: &RunControl,
    out: &mut dyn FnMut(Examined),
) -> Result<(), RunError> {
    let Recording { config, options, .. } = recording;
    let examine = Examine { recording, points, second, control, out };
    ftl::build(config, &config.to_geometry(), options.seed, true, examine)
}

impl<I: Iterator<Item = u64>> FtlVisitor for Examine<'_, '_, I> {
    type Output = Result<(), RunError>;

    fn visit<F: Ftl<CountingPort>>(self, _: F) -> Self::Output {
        let Examine { recording, points, second, control, out } = self;
        let mut moving = Moving::new(recording);
        let mut promises = Promises::new(recording);
        for point in points {
            if control.is_cancelled() {
                return Err(RunError::Interrupted);
            }
            let moment = recording.moments[point as usize];
            let (nand, torn) = moving.cut_at(moment);
            promises.move_to(moment);
            let left = Left { kept: recording.kept_at(moment), saved: Saved::at(recording, moment) };
            let at = if recording.is_timed() { moment } else { moment / 2 };
            let cut = Cut { point, at, torn, ..Cut::default() };
            if second != Second::Spread(0) {
                for (nested_at, nand) in second_cuts::<F>(recording, &nand, &left.kept, &moving.lines, second)
                {
                    let cut = Cut { nested_at: Some(nested_at), ..cut.clone() };
                    out(look::<F>(recording, nand, (&promises, &left), cut));
                }
            }
            if matches!(second, Second::Spread(_)) {
                out(look::<F>(recording, nand, (&promises, &left), cut));
            }
        }
        Ok(())
    }
}

impl Recording {
    fn is_timed(&self) -> bool {
        self.options.at == super::CutAt::Time
    }

    /// The drive of this recording whose flash holds `nand`.
    fn flash<P: FlashPort>(&self, nand: NandArray, port: P) -> Flash<P> {
        Flash::around(&self.config, nand, port)
    }
}

/// What a mount of `nand` changes: the history, and the numbers of the commands. `None` when the mount fails.
fn changes_of_mount<F: Ftl<CountingPort>>(
    recording: &Recording,
    nand: &NandArray,
    kept: &Kept,
) -> Option<(History, Vec<u64>)> {
    let mut flash = recording.flash(nand.clone(), NumberingPort::default());
    flash.nand.start_history();
    mount::<F::On<NumberingPort>, _>(recording, &mut flash, kept).ok()?;
    Some((flash.nand.take_history(), flash.port.changes))
}

/// Flash as it stands when the power is cut again during the mount of `nand`, with the number of the command.
///
/// Only what changes flash can do harm.
fn second_cuts<F: Ftl<CountingPort>>(
    recording: &Recording,
    nand: &NandArray,
    kept: &Kept,
    lines: &WordLines,
    second: Second,
) -> Vec<(u64, NandArray)> {
    // A mount that fails is told by the first cut.
    let mounted = caught(|| changes_of_mount::<F>(recording, nand, kept).ok_or_else(String::new));
    let Ok((history, numbers)) = mounted else { return Vec::new() };
    let changes = numbers.len() as u64;
    let chosen: Vec<usize> = match second {
        Second::Spread(count) => {
            let count = u64::from(count).min(changes);
            (0..count).map(|at| (at * changes / count) as usize).collect()
        }
        Second::At(number) => numbers.iter().position(|each| *each == number).into_iter().collect(),
    };
    let mut state = nand.clone();
    let mut done = 0;
    chosen
        .into_iter()
        .map(|at| {
            while done < at {
                state.redo(&history, done);
                done += 1;
            }
            let mut torn = state.clone();
            torn.tear(history.change(at), lines);
            (numbers[at], torn)
        })
        .collect()
}

struct MountChanges<'r> {
    recording: &'r Recording,
    nand: NandArray,
    kept: Kept,
}

impl FtlVisitor for MountChanges<'_> {
    type Output = Vec<u64>;

    fn visit<F: Ftl<CountingPort>>(self, _: F) -> Self::Output {
        let Self { recording, nand, kept } = self;
        let mounted = caught(|| changes_of_mount::<F>(recording, &nand, &kept).ok_or_else(String::new));
        mounted.map(|(_, numbers)| numbers).unwrap_or_default()
    }
}

pub(super) fn second_points(recording: &Recording, point: u64) -> Vec<u64> {
    let Recording { config, options, .. } = recording;
    let moment = recording.moments[point as usize];
    let (nand, _) = Moving::new(recording).cut_at(moment);
    let changes = MountChanges { recording, nand, kept: recording.kept_at(moment) };
    ftl::build(config, &config.to_geometry(), options.seed, true, changes)
}

fn cost(counts: &CommandCounts) -> MountCost {
    let of = |command: Command| counts[command as usize].iter().sum::<u64>();
    MountCost {
        reads: of(Command::Read),
        programs: of(Command::Program) + of(Command::Copyback),
        erases: of(Command::Erase),
    }
}

/// Do `work`, and give its panic as a failure: a translation layer that panics after one cut has others to be told of.
fn caught<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(format!("panic: {text}"))
    })
}

/// Start the drive of `recording` again.
fn mount<F: Ftl<P>, P: FlashPort>(
    recording: &Recording,
    flash: &mut Flash<P>,
    kept: &Kept,
) -> FlashResult<Cached<F, P::Ticket>> {
    Cached::mounted(&recording.config, recording.options.seed, flash, kept)
}

/// Mount, restore what a capacitor has saved, read every sector, recount, and go on.
fn look<F: Ftl<CountingPort>>(
    recording: &Recording,
    nand: NandArray,
    (promises, left): (&Promises<'_>, &Left),
    cut: Cut,
) -> Examined {
    let mut examined = Examined { cut, losses: Vec::new() };
    let mut flash = recording.flash(nand, CountingPort);
    let result = caught(|| {
        let mounted = mount::<F, _>(recording, &mut flash, &left.kept);
        examined.cut.mount = cost(&flash.counts);
        let mut drive = mounted.map_err(|error| format!("mount: {error}"))?;
        let found = drive.verify(&flash.nand);
        found.map_err(|text| format!("after the mount: {text}"))?;
        let saved = left.saved.restore(&mut drive, &mut flash);
        saved.map_err(|error| format!("restoring the buffer: {error}"))?;
        let held = audit(&mut drive, &mut flash, promises, &mut examined)?;
        drive.verify(&flash.nand).map_err(|text| format!("after the audit: {text}"))?;
        go_on(recording, drive, &mut flash, held, examined.cut.point)
    });
    examined.cut.failure = result.err();
    examined
}

/// Read every sector; returns what each holds.
fn audit<L: Layer<CountingPort>>(
    drive: &mut L,
    flash: &mut Flash<CountingPort>,
    promises: &Promises<'_>,
    examined: &mut Examined,
) -> Result<Vec<u32>, String> {
    let (units, per_unit) = (flash.geometry().logical_units, flash.geometry().sectors_per_unit);
    let mut held = Vec::with_capacity(units as usize * per_unit as usize);
    for lpn in (0..units).map(Lpn) {
        let access = Access::span(lpn, 1, 0, per_unit);
        drive
            .read(flash, &access, &mut held, ())
            .map_err(|error| format!("reading unit {}: {error}", lpn.0))?;
    }
    let mut last_unit = None;
    for (sector, found) in held.iter().enumerate() {
        let (kind, promised) = match promises.see(sector, *found) {
            Verdict::Kept => {
                examined.cut.unflushed_sectors += u64::from(promises.is_unflushed(sector, *found));
                continue;
            }
            Verdict::Untrimmed { is_older } => {
                let count = if is_older {
                    &mut examined.cut.untrimmed_older_sectors
                } else {
                    &mut examined.cut.untrimmed_sectors
                };
                *count += 1;
                continue;
            }
            Verdict::Lost { promised } => (LossKind::Lost, promised),
            Verdict::Foreign => (LossKind::Foreign, 0),
            Verdict::Returned => (LossKind::Returned, 0),
        };
        if kind == LossKind::Returned {
            examined.cut.returned_sectors += 1;
            examined.tell(Loss {
                kind,
                sector: sector as u64,
                sectors: 1,
                found: *found,
                promised,
                request: None,
            });
            continue;
        }
        examined.cut.lost_sectors += 1;
        examined.cut.foreign_sectors += u64::from(kind == LossKind::Foreign);
        let unit = sector / per_unit as usize;
        examined.cut.lost_units += u64::from(last_unit.replace(unit) != Some(unit));
        let request = promises.promised_by(promised);
        examined.tell(Loss { kind, sector: sector as u64, sectors: 1, found: *found, promised, request });
    }
    for torn in promises.torn(&held, per_unit.into()) {
        let Torn { request, sector, found, version } = torn;
        examined.cut.torn_writes += 1;
        let request = Some(request);
        examined.tell(Loss { kind: LossKind::Torn, sector, sectors: 1, found, promised: version, request });
    }
    Ok(held)
}

/// Write some units, and find them and their neighbours as they should be; then start once more, and find them again.
fn go_on<F: Ftl<CountingPort>>(
    recording: &Recording,
    mut drive: Cached<F, ()>,
    flash: &mut Flash<CountingPort>,
    mut held: Vec<u32>,
    point: u64,
) -> Result<(), String> {
    let (units, per_unit) = (flash.geometry().logical_units, flash.geometry().sectors_per_unit);
    let mut rng = Rng::new(recording.options.seed.wrapping_add(point), "crash");
    let newest = recording.asked.last().map_or(recording.last_version, |asked| asked.version);
    let unit = |rng: &mut Rng| {
        let lpn = rng.below(units.into()) as u32;
        (Lpn(lpn), (lpn * per_unit) as usize..((lpn + 1) * per_unit) as usize)
    };
    let going_on = |error: Box<RunError>| format!("going on: {error}");
    for count in 1..=GOES_ON {
        let (lpn, range) = unit(&mut rng);
        held[range.clone()].fill(newest.wrapping_add(count).max(1));
        let access = Access { versions: &held[range], ..Access::span(lpn, 1, 0, per_unit) };
        drive.write(flash, &access, ()).map_err(going_on)?;
    }
    if recording.keeps_trims() || recording.config.power.trim == DurableTrims::Flush {
        let (lpn, range) = unit(&mut rng);
        held[range].fill(0);
        drive.trim(flash, &Access::span(lpn, 1, 0, per_unit), ()).map_err(going_on)?;
        drive.flush(flash, ()).map_err(going_on)?;
    }
    find(&mut drive, flash, &held).map_err(|text| format!("going on: {text}"))?;
    let mounted = mount::<F, _>(recording, flash, &drive.kept());
    let mut drive = mounted.map_err(|error| format!("a second mount: {error}"))?;
    find(&mut drive, flash, &held).map_err(|text| format!("after a second mount: {text}"))
}

/// Find in every sector what is `held`, and recount.
fn find<L: Layer<CountingPort>>(
    drive: &mut L,
    flash: &mut Flash<CountingPort>,
    held: &[u32],
) -> Result<(), String> {
    let mut found = Vec::with_capacity(held.len());
    for lpn in (0..flash.geometry().logical_units).map(Lpn) {
        let access = Access::span(lpn, 1, 0, flash.geometry().sectors_per_unit);
        drive.read(flash, &access, &mut found, ()).map_err(|error| error.to_string())?;
    }
    if let Some(sector) = found.iter().zip(held).position(|(found, held)| found != held) {
        let (found, held) = (found[sector], held[sector]);
        return Err(format!("sector {sector} holds version {found} instead of {held}"));
    }
    drive.verify(&flash.nand)
}

struct MountOnClock<'r> {
    recording: &'r Recording,
    nand: NandArray,
    kept: Kept,
}

impl FtlVisitor for MountOnClock<'_> {
    type Output = Result<u64, RunError>;

    fn visit<F: Ftl<CountingPort>>(self, _: F) -> Self::Output {
        let config = &self.recording.config;
        let port = EventPort::new(config, &config.to_geometry(), false);
        let mut flash = self.recording.flash(self.nand, port);
        let mut mounted = || mount::<F::On<EventPort>, _>(self.recording, &mut flash, &self.kept);
        caught(|| mounted().map(|_| ()).map_err(|error| error.to_string())).map_err(RunError::Rule)?;
        while flash.port.step_before(Time::NEVER).is_some() {}
        Ok(flash.port.idle_from().as_ns())
    }
}

pub(super) fn mount_ns(recording: &Recording, point: u64) -> Result<u64, RunError> {
    let Recording { config, options, .. } = recording;
    let moment = recording.moments[point as usize];
    let (nand, _) = Moving::new(recording).cut_at(moment);
    let mount = MountOnClock { recording, nand, kept: recording.kept_at(moment) };
    ftl::build(config, &config.to_geometry(), options.seed, true, mount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Atomic, PowerConfig};
    use crate::crash::{CrashOptions, record};
    use crate::host::request::{Op, Request, VecSource};

    /// A test that finds nothing has no teeth: a drive that promises less is held against more.
    #[test]
    fn what_is_not_promised_is_found_to_be_missing() {
        let device = serde_json::json!({
            "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 32, "pages_per_block": 8, "page_bytes": 4096 },
            "ftl": { "over_provisioning": 0.33 },
        });
        let config: DeviceConfig = serde_json::from_value(device).unwrap();
        let of = |op, lba, sectors| Request { arrival_ns: 0, lba, sectors, op, stream: 0, fua: false };
        let requests = vec![
            of(Op::Write, 0, 32),
            of(Op::Write, 0, 32),
            of(Op::Trim, 0, 16),
            of(Op::Flush, 0, 0),
            of(Op::Write, 64, 8),
        ];
        let control = RunControl::default();
        let options = CrashOptions::default();
        let mut recording = record(&config, &VecSource::new(requests), &options, &control).unwrap();
        let cuts = |recording: &Recording| {
            let mut all = Vec::new();
            recording.examine(0..recording.points(), &control, &mut |one| all.push(one.cut)).unwrap();
            all.iter().map(|cut| (cut.torn_writes, cut.returned_sectors)).collect::<Vec<_>>()
        };
        assert_eq!(cuts(&recording), vec![(0, 0); 10]);
        recording.promised =
            PowerConfig { atomic: Atomic::Request, trim: DurableTrims::Flush, ..PowerConfig::default() };
        // Both writes are torn unless they are cut in their first page. The trim comes after the eighth command, and so
        // does the flush.
        let torn = [0, 1, 1, 1, 0, 1, 1, 1, 0, 0];
        let returned = [0, 0, 0, 0, 0, 0, 0, 0, 16, 16];
        assert_eq!(cuts(&recording), torn.into_iter().zip(returned).collect::<Vec<_>>());
    }

    /// The same of a write buffer: what is in frames is gone, unless a capacitor saves it.
    #[test]
    fn a_volatile_buffer_is_found_to_lose_what_it_holds() {
        let device = serde_json::json!({
            "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 32, "pages_per_block": 8, "page_bytes": 4096 },
            "ftl": { "over_provisioning": 0.33 },
            "buffer": { "kind": "lru", "bytes": 8192 },
        });
        let config: DeviceConfig = serde_json::from_value(device).unwrap();
        let of = |lba| Request { arrival_ns: 0, lba, sectors: 8, op: Op::Write, stream: 0, fua: false };
        let requests = (0..4).map(|page| of(8 * page)).collect();
        let control = RunControl::default();
        let mut recording =
            record(&config, &VecSource::new(requests), &CrashOptions::default(), &control).unwrap();
        let lost = |recording: &Recording| {
            let mut all = Vec::new();
            recording.examine(0..recording.points(), &control, &mut |one| all.push(one.cut)).unwrap();
            all.iter().map(|cut| cut.lost_units).collect::<Vec<_>>()
        };
        assert_eq!(lost(&recording), [0; 5]);
        // Two frames: the first command is the eviction for the third write.
        recording.promised.capacitor = true;
        assert_eq!(lost(&recording), [2, 2, 2, 1, 0]);
    }

    #[test]
    fn a_panic_is_a_failure() {
        assert_eq!(caught(|| Ok(1)), Ok(1));
        assert_eq!(caught::<u32>(|| Err("mount: no".to_owned())), Err("mount: no".to_owned()));
        let number = 3;
        assert_eq!(caught::<u32>(|| panic!("block {number}")), Err("panic: block 3".to_owned()));
        assert_eq!(caught::<u32>(|| panic!("here")), Err("panic: here".to_owned()));
    }
}
