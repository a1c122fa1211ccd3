//! A run that is recorded: everything that commands change, and everything that the host was told.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::buffer::front::Note;
use crate::cause::Command;
use crate::config::{DeviceConfig, Model, PowerConfig};
use crate::crash::{CrashOptions, CutAt};
use crate::error::{RunError, refuse};
use crate::flash::Flash;
use crate::flash::clock::Clock;
use crate::flash::event_port::EventPort;
use crate::flash::history::{Change, History};
use crate::flash::nand::NandArray;
use crate::flash::port::{CountingPort, NumberingPort};
use crate::ftl::{self, FtlVisitor};
use crate::geometry::{BlockId, Geometry, PageAt};
use crate::host::admission::Admission;
use crate::host::request::SourceFactory;
use crate::host::run_metrics::{RunMetrics, audited, measured};
use crate::host::split::Splitter;
use crate::host::{Drive, precondition, timed, untimed};
use crate::interrupt::Interrupt;
use crate::layer::{Bare, Ftl};
use crate::metrics::summary::Summary;
use crate::metrics::{CommandRecord, Observer, RequestRecord};
use crate::nvm::cache::{Diary, Kept};
use crate::run::{RunControl, RunOptions};
use crate::verify::{Asked, Flush, ShadowStore};

/// When a change never happened.
pub(super) const NEVER: u64 = u64::MAX;

/// From when until when something lasts: picoseconds, or twice the number of a command.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// A run, and flash as it was before it.
#[derive(Debug)]
pub struct Recording {
    pub(super) config: DeviceConfig,
    pub(super) options: CrashOptions,
    /// What the drive promises.
    pub(super) promised: PowerConfig,
    /// Flash before the first request.
    pub(super) before: NandArray,
    pub(super) history: History,
    /// When each change was done.
    pub(super) spans: Vec<Span>,
    /// Changes in the order in which they ended.
    pub(super) by_end: Vec<u32>,
    /// Changes of each lane, in their order.
    pub(super) lanes: Vec<Vec<u32>>,
    /// The newest version of each sector before the first request, and the last version of all.
    pub(super) newest: Vec<u32>,
    pub(super) last_version: u32,
    pub(super) asked: Vec<Asked>,
    /// When each request was served, by its number; [`NEVER`] for those that were not.
    pub(super) served: Vec<Span>,
    /// Each flush, and when it was served; by its end.
    pub(super) flushes: Vec<(Flush, Span)>,
    /// Where the power can be cut.
    pub(super) moments: Vec<u64>,
    /// Whether each request, by its number, was to be durable before it was acknowledged.
    pub(super) fua: Vec<bool>,
    /// What happened in a write buffer whose frames a capacitor saves.
    pub(super) notes: Vec<Note>,
    /// What happened in a non-volatile cache.
    diary: Option<Diary>,
    /// When what was noted of buffer and cache has ended, by the number of the note.
    ends: Vec<u64>,
    pub(super) summary: Summary,
}

/// Run `workload` on the drive of `config`, and record it.
///
/// # Errors
/// When the drive makes no sense or the workload fails, or the end was asked for.
pub fn record(
    config: &DeviceConfig,
    workload: &dyn SourceFactory,
    options: &CrashOptions,
    control: &RunControl,
) -> Result<Recording, RunError> {
    config.validate().map_err(RunError::Config)?;
    if config.model != Model::Drive {
        let found = format!("{:?}", config.model.name());
        let expected = "has no flash that could lose anything: choose \"drive\"";
        return refuse("model", found, expected).map_err(RunError::Config);
    }
    let geometry = config.to_geometry();
    let run = Record { config, geometry: &geometry, workload, options, control };
    ftl::build(config, &geometry, options.seed, true, run)
}

struct Record<'a> {
    config: &'a DeviceConfig,
    geometry: &'a Geometry,
    workload: &'a dyn SourceFactory,
    options: &'a CrashOptions,
    control: &'a RunControl,
}

/// What was heard of a run.
#[derive(Default)]
struct Heard {
    /// With a clock: commands that change something, of each lane.
    commands: Vec<Vec<(Change, Span)>>,
    served: Vec<Span>,
    fua: Vec<bool>,
    /// Without one: how many commands there were so far.
    number: Option<Arc<AtomicU64>>,
    last: u64,
    pages_per_block: u32,
}

impl Observer for Heard {
    fn wants_commands(&self) -> bool {
        true
    }

    fn wants_requests(&self) -> bool {
        true
    }

    fn on_request(&mut self, record: &RequestRecord) {
        let at = record.index as usize;
        if self.served.len() <= at {
            self.served.resize(at + 1, Span { start: NEVER, end: NEVER });
            self.fua.resize(at + 1, false);
        }
        self.fua[at] = record.request.fua;
        self.served[at] = match &self.number {
            Some(number) => {
                let end = 2 * number.load(Ordering::Relaxed);
                Span { start: std::mem::replace(&mut self.last, end), end }
            }
            None => Span { start: record.start.0, end: record.end.0 },
        };
    }

    fn on_command(&mut self, record: &CommandRecord) {
        let lane = record.die as usize;
        if self.commands.len() <= lane {
            self.commands.resize(lane + 1, Vec::new());
        }
        let block = BlockId((record.page / u64::from(self.pages_per_block)) as u32);
        let index = (record.page % u64::from(self.pages_per_block)) as u32;
        let change = match record.command {
            Command::Read => return,
            Command::Erase => Change::Erase(block),
            Command::Program | Command::Copyback => Change::Program(PageAt { block, index }),
        };
        self.commands[lane].push((change, Span { start: record.start.0, end: record.end.0 }));
    }
}

impl FtlVisitor for Record<'_> {
    type Output = Result<Recording, RunError>;

    fn interrupt(&self) -> Interrupt {
        self.control.interrupt()
    }

    fn visit<F: Ftl<CountingPort>>(self, ftl: F) -> Self::Output {
        let Record { config, geometry, workload, options, control } = self;
        // What the last requests were promised is known only when they have ended.
        let mut config = config.clone();
        config.host.drain();
        let config = &config;
        let splitter = Splitter::new(geometry);
        let sectors = splitter.sectors();
        let source = workload.open(0).map_err(RunError::Source)?;
        let mut flash = Flash::new(config, geometry, true, CountingPort);
        flash.interrupt = control.interrupt();
        flash.nand.keep_past();
        let mut drive = Drive::new(ftl, flash, Some(ShadowStore::new(sectors)));
        let (precondition, failed) = precondition::run(config, &mut drive, workload, options.seed, control);
        if let Some(error) = failed {
            return Err(error);
        }
        drive.top.reset_counters();
        let mut admission = Admission::new(source, config, sectors, options.requests);
        let before = drive.flash.nand.clone();
        drive.flash.nand.start_history();
        let (newest, last_version) = drive.shadow.as_mut().map(ShadowStore::keep_asked).unwrap_or_default();
        let mut metrics = RunMetrics::new(None, precondition);
        let mut heard = Heard { pages_per_block: geometry.pages_per_block(), ..Heard::default() };
        let saves = config.power.capacitor && config.buffer.writes_back();
        let (outcome, changes, mut nand, shadow, notes, (diary, ends)) = match options.at {
            CutAt::Command => {
                let port = NumberingPort::default();
                heard.number = Some(port.commands.clone());
                let mut drive = drive.behind(config, &Bare, port);
                if saves {
                    drive.top.keep_notes();
                }
                let (observer, counts) = (&mut heard, &mut metrics);
                let result =
                    untimed::run(config, &mut drive, &splitter, &mut admission, counts, control, observer);
                let outcome = audited(config, &drive, admission.counts(), &mut metrics, None, result.err());
                let (notes, diary) = (drive.top.take_notes(), drive.top.below_mut().take_diary());
                let Flash { port, nand, .. } = drive.flash;
                let ends = port.notes.iter().map(|commands| 2 * commands).collect();
                (outcome, Some(port.changes), nand, drive.shadow, notes, (diary, ends))
            }
            CutAt::Time => {
                let mut drive = drive.behind(config, &Bare, EventPort::new(config, geometry, true));
                if saves {
                    drive.top.keep_notes();
                }
                let run = RunOptions { seed: options.seed, verify: true, ..RunOptions::default() };
                let (mut model, result) =
                    timed::run(config, drive, admission, metrics, &run, control, (&mut heard, None));
                let counts = model.feeder.admission.counts();
                let outcome = measured(config, &mut model, counts, result.err());
                let Drive { mut top, mut flash, shadow, .. } = model.drive;
                let ends: Vec<u64> = flash.port.ledger().ends.iter().map(|end| end.0).collect();
                let diary = top.below_mut().take_diary();
                (outcome, None, flash.nand, shadow, top.take_notes(), (diary, ends))
            }
        };
        if let Some(error) = outcome.error {
            return Err(error);
        }
        if control.is_cancelled() {
            return Err(RunError::Interrupted);
        }
        let history = nand.take_history();
        let (lanes, spans) = spans(config, geometry, &history, changes.as_deref(), &heard.commands);
        let by_end = by_end(&spans);
        let (asked, taken_up) = shadow.map(|mut shadow| shadow.take_asked()).unwrap_or_default();
        let served = |flush: Flush| heard.served.get(flush.group as usize).map(|span| (flush, *span));
        let mut flushes: Vec<(Flush, Span)> = taken_up.into_iter().filter_map(served).collect();
        flushes.sort_by_key(|(_, span)| span.end);
        let moments = match &heard.number {
            Some(number) => (0..=number.load(Ordering::Relaxed)).map(|number| 2 * number + 1).collect(),
            None => instants(&spans, &ends),
        };
        Ok(Recording {
            config: config.clone(),
            options: *options,
            promised: config.power,
            before,
            history,
            spans,
            by_end,
            lanes,
            newest,
            last_version,
            asked,
            served: heard.served,
            fua: heard.fua,
            notes,
            diary,
            ends,
            flushes,
            moments,
            summary: outcome.summary,
        })
    }
}

impl Recording {
    /// Whether an acknowledged write may be in memory only, and gone when the power is.
    pub(super) fn is_volatile(&self) -> bool {
        self.config.buffer.writes_back() && !self.promised.capacitor
    }

    /// Whether a trim is durable when it is acknowledged.
    pub(super) fn keeps_trims(&self) -> bool {
        self.config.nvm.is_on()
    }

    /// What a non-volatile cache had kept at `moment`.
    pub(super) fn kept_at(&self, moment: u64) -> Kept {
        self.diary.as_ref().map(|diary| diary.kept(|note| self.is_over(note, moment))).unwrap_or_default()
    }

    /// Whether what was noted had ended at `moment`.
    pub(super) fn is_over(&self, note: u32, moment: u64) -> bool {
        self.ends[note as usize] <= moment
    }

    /// Whether these changes had ended at `moment`.
    pub(super) fn have_ended(&self, changes: Range<usize>, moment: u64) -> bool {
        self.spans[changes].iter().all(|span| span.end <= moment)
    }
}

/// The changes of each lane, and when each was done: by the `numbers` of its command, or as the commands of its lane tell.
fn spans(
    config: &DeviceConfig,
    geometry: &Geometry,
    history: &History,
    numbers: Option<&[u64]>,
    commands: &[Vec<(Change, Span)>],
) -> (Vec<Vec<u32>>, Vec<Span>) {
    let mut lanes: Vec<Vec<u32>> = Vec::new();
    let of_lane = |index: usize, lanes: &mut Vec<Vec<u32>>| {
        let change = history.change(index);
        let block = match change {
            Change::Erase(block) => block,
            Change::Program(page) => page.block,
        };
        let plane = geometry.plane_of(block);
        let lane =
            if config.timing.independent_planes { plane.index() } else { geometry.die_of(plane).index() };
        if lanes.len() <= lane {
            lanes.resize(lane + 1, Vec::new());
        }
        let at = lanes[lane].len();
        lanes[lane].push(index as u32);
        if let Some(numbers) = numbers {
            return Span { start: 2 * numbers[index], end: 2 * numbers[index] + 2 };
        }
        let seen = commands.get(lane).and_then(|commands| commands.get(at));
        seen.map_or(Span { start: NEVER, end: NEVER }, |(seen, span)| {
            assert_eq!(*seen, change, "a lane runs its commands in the order of submission");
            *span
        })
    };
    let spans = (0..history.len()).map(|index| of_lane(index, &mut lanes)).collect();
    (lanes, spans)
}

/// The spans in the order in which they end. Apart from the visitor, or it would be compiled for each drive.
fn by_end(spans: &[Span]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..spans.len() as u32).collect();
    order.sort_by_key(|index| spans[*index as usize].end);
    order
}

/// A moment between any two at which a change begins or ends, or what was noted does, and one after the last.
fn instants(spans: &[Span], ends: &[u64]) -> Vec<u64> {
    let mut times: Vec<u64> = spans.iter().flat_map(|span| [span.start, span.end]).collect();
    times.extend(ends);
    times.retain(|time| *time != NEVER);
    times.push(0);
    times.sort_unstable();
    times.dedup();
    let between = times.windows(2).filter(|pair| pair[1] - pair[0] > 1);
    let mut moments: Vec<u64> = between.map(|pair| pair[0].midpoint(pair[1])).collect();
    moments.push(times.last().map_or(1, |last| last + 1));
    moments
}
