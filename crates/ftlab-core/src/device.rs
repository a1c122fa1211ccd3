//! Composition: a described drive, put together and run.

use crate::config::{DeviceConfig, Model, Stop};
pub use crate::error::RunError;
use crate::error::refuse;
use crate::flash::Flash;
use crate::flash::clock::Clock;
use crate::flash::event_port::EventPort;
use crate::flash::port::CountingPort;
use crate::flash::reservation_port::ReservationPort;
use crate::ftl::{self, FtlVisitor};
use crate::geometry::{Geometry, PlaneId};
use crate::host::admission::Admission;
use crate::host::aged::{self, Aged, Readied};
use crate::host::request::{RequestSource, SourceFactory};
use crate::host::run_metrics::{RunMetrics, audited, measured};
use crate::host::split::Splitter;
use crate::host::{Drive, cache_alone, timed, untimed};
use crate::interrupt::Interrupt;
use crate::layer::{Bare, Ftl, Layer, Layering};
use crate::metrics::Observer;
use crate::metrics::explain::explainer::Explainer;
use crate::metrics::explain::{Explanations, HostTimes};
use crate::metrics::summary::PreconditionSummary;
pub use crate::run::{RunControl, RunOptions, RunOutcome};
use crate::time::{Rate, Time};
use crate::verify::ShadowStore;

/// Put the drive together, precondition it, run the workload, and report.
///
/// # Errors
/// Only when nothing could be run: the device makes no sense, the workload cannot be opened, or the end was asked for
/// before the drive was there. Later errors come inside the [`RunOutcome`], beside what was measured.
pub fn simulate(
    config: &DeviceConfig,
    workload: &dyn SourceFactory,
    options: &RunOptions,
    control: &RunControl,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, RunError> {
    simulate_aged(config, workload, options, control, observer, None)
}

/// As [`simulate`], with a drive that was aged before, if there is one.
///
/// # Errors
/// As `simulate`.
pub fn simulate_aged(
    config: &DeviceConfig,
    workload: &dyn SourceFactory,
    options: &RunOptions,
    control: &RunControl,
    observer: &mut dyn Observer,
    aged: Option<Aged<'_>>,
) -> Result<RunOutcome, RunError> {
    config.validate().map_err(RunError::Config)?;
    if config.model == Model::MappingCache {
        return cache_alone::run(config, workload, options, control, observer);
    }
    run_layered(config, &Bare, workload, options, control, observer, aged)
}

/// As [`simulate`], with layers of one's own on top of the translation layer.
///
/// # Errors
/// As `simulate`, and when what is modelled is no drive.
pub fn simulate_layered<B: Layering>(
    config: &DeviceConfig,
    layering: &B,
    workload: &dyn SourceFactory,
    options: &RunOptions,
    control: &RunControl,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, RunError> {
    config.validate().map_err(RunError::Config)?;
    if config.model != Model::Drive {
        let found = format!("{:?}", config.model.name());
        let expected = "has no flash for layers to stand on: choose \"drive\"";
        return refuse("model", found, expected).map_err(RunError::Config);
    }
    run_layered(config, layering, workload, options, control, observer, None)
}

/// As [`simulate`], with a drive that validation may have refused: for tests of one that fills up, which no other does.
///
/// # Errors
/// As `simulate`.
#[doc(hidden)]
pub fn simulate_unchecked(
    config: &DeviceConfig,
    workload: &dyn SourceFactory,
    options: &RunOptions,
    control: &RunControl,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, RunError> {
    run_layered(config, &Bare, workload, options, control, observer, None)
}

fn run_layered<B: Layering>(
    config: &DeviceConfig,
    layering: &B,
    workload: &dyn SourceFactory,
    options: &RunOptions,
    control: &RunControl,
    observer: &mut dyn Observer,
    aged: Option<Aged<'_>>,
) -> Result<RunOutcome, RunError> {
    let geometry = config.to_geometry();
    let (seed, verify) = (options.seed, options.verify);
    let looks = true;
    let run =
        Run { config, geometry: &geometry, layering, workload, options, control, observer, aged, looks };
    match ftl::build(config, &geometry, seed, verify, run) {
        Visited::Ran(outcome) => *outcome,
        // Half of another drive is in this one.
        Visited::Spoilt(run) => {
            match ftl::build(config, &geometry, seed, verify, Run { looks: false, ..*run }) {
                Visited::Ran(outcome) => *outcome,
                Visited::Spoilt(_) => unreachable!("a drive that is not looked for is not spoilt"),
            }
        }
    }
}

/// What came of a run.
enum Visited<'a, B> {
    Ran(Box<Result<RunOutcome, RunError>>),
    /// Its drive is of no use, and nothing was done with it yet.
    Spoilt(Box<Run<'a, B>>),
}

/// A run, as soon as its translation layer is known.
struct Run<'a, B> {
    config: &'a DeviceConfig,
    geometry: &'a Geometry,
    layering: &'a B,
    workload: &'a dyn SourceFactory,
    options: &'a RunOptions,
    control: &'a RunControl,
    observer: &'a mut dyn Observer,
    aged: Option<Aged<'a>>,
    /// Whether it looks for an aged drive in the store.
    looks: bool,
}

impl<'a, B: Layering> FtlVisitor for Run<'a, B> {
    type Output = Visited<'a, B>;

    fn interrupt(&self) -> Interrupt {
        self.control.interrupt()
    }

    fn visit<F: Ftl<CountingPort>>(self, ftl: F) -> Self::Output {
        if self.control.is_cancelled() {
            return Visited::Ran(Box::new(Err(RunError::Interrupted)));
        }
        let Run { config, geometry, workload, options, control, aged, looks, .. } = self;
        let sectors = Splitter::new(geometry).sectors();
        let source = match workload.open(0) {
            Ok(source) => source,
            Err(error) => return Visited::Ran(Box::new(Err(RunError::Source(error)))),
        };
        let mut flash = Flash::new(config, geometry, options.verify, CountingPort);
        flash.interrupt = control.interrupt();
        let shadow = options.verify.then(|| ShadowStore::new(sectors));
        let mut drive = Drive::new(ftl, flash, shadow);
        match aged::run(config, &mut drive, workload, options.seed, control, aged, looks) {
            Readied::Ready(precondition, failed) => {
                Visited::Ran(Box::new(Ok(self.measured(drive, source, precondition, failed))))
            }
            Readied::Spoilt => Visited::Spoilt(Box::new(self)),
        }
    }
}

impl<B: Layering> Run<'_, B> {
    /// Run the workload on the preconditioned drive.
    fn measured<F: Ftl<CountingPort>>(
        self,
        mut drive: Drive<F, CountingPort>,
        mut source: Box<dyn RequestSource>,
        precondition: Option<PreconditionSummary>,
        failed: Option<RunError>,
    ) -> RunOutcome {
        let Run { config, geometry, layering, options, control, observer, .. } = self;
        let splitter = Splitter::new(geometry);
        let sectors = splitter.sectors();
        if !options.timing && !observer.wants_requests() {
            source.ignore_arrivals();
        }
        let interrupted = control.is_cancelled() || failed.is_some();
        drive.top.reset_counters();
        let limit = if interrupted { Some(0) } else { options.requests };
        let mut admission = Admission::new(source, config, sectors, limit);
        let mut metrics = RunMetrics::new(options.series, precondition).watched(control);
        let (log, explains) = (observer.wants_commands(), observer.wants_parts());
        if log {
            let planes = (0..geometry.planes()).map(PlaneId);
            let mut blocks = vec![None; geometry.blocks() as usize];
            for block in planes.flat_map(|plane| geometry.data_blocks(plane)) {
                blocks[block.index()] = Some(drive.flash.nand.next_page(block) > 0);
            }
            observer.on_start(blocks, geometry.pages_per_block());
        }
        let may_be_cut = options.timing && config.host.stop() == Stop::LastArrival;
        let reserves = ReservationPort::suits(config, geometry)
            && !(may_be_cut && config.has_frames())
            && !options.event_by_event;
        let mut outcome = if !options.timing {
            let mut drive = drive.behind(config, layering, CountingPort);
            let result =
                untimed::run(config, &mut drive, &splitter, &mut admission, &mut metrics, control, observer);
            let error = result.err();
            audited(config, &drive, admission.counts(), &mut metrics, None, error)
        } else if reserves && !explains && !(may_be_cut && log) {
            let mut port = ReservationPort::new(config, geometry, log);
            if may_be_cut {
                port = port.for_cuts();
            }
            let drive = drive.behind(config, layering, port);
            run_timed(config, drive, admission, metrics, options, control, (observer, None))
        } else {
            let other = reserves.then(|| ReservationPort::new(config, geometry, false).table_bytes());
            let mut port = EventPort::new(config, geometry, log).in_place_of(other);
            let lanes = port.lanes();
            if explains {
                port = port.telling_all();
            }
            let drive = drive.behind(config, layering, port);
            let explainer = explains.then(|| {
                let host = &config.host;
                let overhead = Time::from_us(host.overhead_us);
                let link = Rate::from_mb_per_s(host.link_mb_per_s);
                Explainer::new(Explanations::new(lanes, HostTimes { overhead, link }), observer)
            });
            run_timed(config, drive, admission, metrics, options, control, (observer, explainer))
        };
        outcome.summary.seed = options.seed;
        outcome.error = failed.or(outcome.error).filter(|error| *error != RunError::Interrupted);
        outcome.summary.partial = outcome.error.is_some() || control.is_cancelled();
        outcome
    }
}

/// Run against a clock.
///
/// Kept out of line: inlining costs 10 % per request.
#[inline(never)]
fn run_timed<L: Layer<C>, C: Clock>(
    config: &DeviceConfig,
    drive: Drive<L, C>,
    admission: Admission,
    metrics: RunMetrics,
    options: &RunOptions,
    control: &RunControl,
    listeners: (&mut dyn Observer, Option<Explainer>),
) -> RunOutcome {
    let (mut model, result) = timed::run(config, drive, admission, metrics, options, control, listeners);
    let counts = model.feeder.admission.counts();
    measured(config, &mut model, counts, result.err())
}
