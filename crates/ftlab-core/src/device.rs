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
use crate::geometry::Geometry;
use crate::host::admission::Admission;
use crate::host::request::SourceFactory;
use crate::host::run_metrics::{RunMetrics, audited, measured};
use crate::host::split::Splitter;
use crate::host::{Drive, cache_alone, precondition, timed, untimed};
use crate::interrupt::Interrupt;
use crate::layer::{Bare, Ftl, Layer, Layering};
use crate::metrics::Observer;
pub use crate::run::{RunControl, RunOptions, RunOutcome};
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
    if config.model == Model::MappingCache {
        config.validate().map_err(RunError::Config)?;
        return cache_alone::run(config, workload, options, control, observer);
    }
    simulate_layered(config, &Bare, workload, options, control, observer)
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
    let geometry = config.to_geometry();
    let (seed, verify) = (options.seed, options.verify);
    let run = Run { config, geometry: &geometry, layering, workload, options, control, observer };
    ftl::build(config, &geometry, seed, verify, run)
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
}

impl<B: Layering> FtlVisitor for Run<'_, B> {
    type Output = Result<RunOutcome, RunError>;

    fn interrupt(&self) -> Interrupt {
        self.control.interrupt()
    }

    fn visit<F: Ftl<CountingPort>>(self, ftl: F) -> Self::Output {
        if self.control.is_cancelled() {
            return Err(RunError::Interrupted);
        }
        let Run { config, geometry, layering, workload, options, control, observer } = self;
        let splitter = Splitter::new(geometry);
        let sectors = splitter.sectors();
        let source = workload.open(0).map_err(RunError::Source)?;
        let mut flash = Flash::new(config, geometry, options.verify, CountingPort);
        flash.interrupt = control.interrupt();
        let shadow = options.verify.then(|| ShadowStore::new(sectors));
        let mut drive = Drive::new(ftl, flash, shadow);
        let (precondition, failed) = precondition::run(config, &mut drive, workload, options.seed, control);
        let interrupted = control.is_cancelled() || failed.is_some();
        drive.top.reset_counters();
        let limit = if interrupted { Some(0) } else { options.requests };
        let mut admission = Admission::new(source, config, sectors, limit);
        let mut metrics = RunMetrics::new(options.series);
        let log = observer.wants_commands();
        let mut outcome = if !options.timing {
            let mut drive = drive.behind(layering, CountingPort);
            let result =
                untimed::run(config, &mut drive, &splitter, &mut admission, &mut metrics, control, observer);
            let error = result.err();
            audited(config, &drive, admission.counts(), &mut metrics, None, error)
        } else if ReservationPort::suits(config, geometry)
            && config.host.stop() == Stop::Drained
            && !options.event_by_event
        {
            let drive = drive.behind(layering, ReservationPort::new(config, geometry, log));
            run_timed(config, drive, admission, metrics, options, control, observer)
        } else {
            let drive = drive.behind(layering, EventPort::new(config, geometry, log));
            run_timed(config, drive, admission, metrics, options, control, observer)
        };
        outcome.summary.seed = options.seed;
        outcome.summary.precondition = precondition;
        outcome.error = failed.or(outcome.error).filter(|error| *error != RunError::Interrupted);
        outcome.summary.partial = outcome.error.is_some() || control.is_cancelled();
        Ok(outcome)
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
    observer: &mut dyn Observer,
) -> RunOutcome {
    let (mut model, result) = timed::run(config, drive, admission, metrics, options, control, observer);
    let counts = model.feeder.admission.counts();
    measured(config, &mut model, counts, result.err())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::request::{Op, Request, VecSource};
    use crate::host::session::{Session, SessionError, SessionOptions};
    use crate::metrics::RequestRecord;
    use crate::rng::Rng;

    #[derive(Default)]
    struct Log(Vec<RequestRecord>);

    impl Observer for Log {
        fn wants_requests(&self) -> bool {
            true
        }
        fn on_request(&mut self, record: &RequestRecord) {
            self.0.push(*record);
        }
    }

    struct OnClock<'a, M> {
        config: &'a DeviceConfig,
        requests: &'a [Request],
        clock: M,
    }

    impl<C: Clock, M: Fn(&Geometry) -> C> FtlVisitor for OnClock<'_, M> {
        type Output = (RunOutcome, Log);

        fn visit<F: Ftl<CountingPort>>(self, ftl: F) -> (RunOutcome, Log) {
            let geometry = self.config.to_geometry();
            let control = RunControl::default();
            let source = Box::new(VecSource::new(self.requests.to_vec()));
            let admission = Admission::new(source, self.config, Splitter::new(&geometry).sectors(), None);
            let flash = Flash::new(self.config, &geometry, false, CountingPort);
            let drive = Drive::new(ftl, flash, None).behind(&Bare, (self.clock)(&geometry));
            let (mut log, options) = (Log::default(), RunOptions::default());
            let outcome = {
                let metrics = RunMetrics::new(None);
                run_timed(self.config, drive, admission, metrics, &options, &control, &mut log)
            };
            (outcome, log)
        }
    }

    fn run_on<C: Clock>(
        config: &DeviceConfig,
        requests: &[Request],
        clock: impl Fn(&Geometry) -> C,
    ) -> (RunOutcome, Log) {
        ftl::build(config, &config.to_geometry(), 1, false, OnClock { config, requests, clock })
    }

    /// A drive with one unit on each channel and whole numbers of microseconds: many things happen at equal times.
    fn drive_without_sharing(rng: &mut Rng) -> DeviceConfig {
        fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
            of[rng.below(of.len() as u64) as usize]
        }
        let host = match rng.below(3) {
            0 => format!(r#""arrival": "closed", "queue_depth": {}"#, pick(rng, &[1, 3, 8, 32])),
            _ => format!(r#""outstanding": {}"#, pick(rng, &[0, 1, 4])),
        };
        let text = format!(
            r#"{{ "geometry": {{ "channels": {channels}, "ways": 1, "planes": {planes}, "blocks_per_plane": 24,
                "pages_per_block": 8, "page_bytes": {page}, "mapping_unit_bytes": 4096 }},
            "timing": {{ "copyback": {copyback}, "read_us": {read}, "program_us": 200, "erase_us": 1000,
                "command_us": {command}, "bus_mb_per_s": {bus} }},
            "ftl": {{ "over_provisioning": 0.6, "summary_page": {summary}, "striping": "{striping}" }},
            "host": {{ {host}, "link_mb_per_s": {link}, "link_duplex": "{duplex}" }} }}"#,
            channels = 1 + rng.below(6),
            planes = pick(rng, &[1, 2]),
            page = pick(rng, &[4096, 8192]),
            copyback = rng.below(2) == 0,
            read = pick(rng, &[25, 50, 100]),
            command = pick(rng, &[0.0, 0.1, 1.0]),
            bus = pick(rng, &[0.0, 40.96, 409.6, 100.0]),
            summary = rng.below(2) == 0,
            striping = pick(rng, &["static", "dynamic"]),
            link = pick(rng, &[0.0, 300.0, 409.6]),
            duplex = pick(rng, &["half", "full"]),
        );
        let config: DeviceConfig =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
        config.validate().unwrap_or_else(|problems| panic!("{problems:?} in {text}"));
        config
    }

    /// A channel with one unit is only a faster case of any channel: every request takes the same time on both ports, and
    /// requests complete in the same order.
    #[test]
    fn the_direct_port_tells_the_same_times_as_the_timeline() {
        let rounds = if std::env::var_os("FTLAB_LONG").is_some() { 20_000 } else { 300 };
        for seed in 0..rounds {
            let mut rng = Rng::new(seed, "ports");
            let config = drive_without_sharing(&mut rng);
            let sectors = config.logical_pages() * 8;
            let (gap_ns, most, aligned) =
                ([0, 25_000, 50_000, 400_000][rng.below(4) as usize], 1 + rng.below(60), rng.below(2) == 0);
            let mut arrival_ns = 0;
            let requests: Vec<Request> = (0..300)
                .map(|_| {
                    arrival_ns += rng.below(3) * gap_ns;
                    let round = |sectors: u64| if aligned { sectors.next_multiple_of(8) } else { sectors };
                    let asked = round(1 + rng.below(most));
                    Request {
                        arrival_ns,
                        lba: if aligned {
                            rng.below((sectors - asked) / 8) * 8
                        } else {
                            rng.below(sectors - asked)
                        },
                        sectors: asked as u32,
                        op: [Op::Write, Op::Read, Op::Write, Op::Trim][rng.below(4) as usize],
                        stream: 0,
                        fua: false,
                    }
                })
                .collect();
            let (direct, fast) =
                run_on(&config, &requests, |geometry| ReservationPort::new(&config, geometry, false));
            let (timeline, slow) =
                run_on(&config, &requests, |geometry| EventPort::new(&config, geometry, false));
            assert_eq!((&direct.error, &timeline.error), (&None, &None), "seed {seed}");
            for (fast, slow) in fast.0.iter().zip(&slow.0) {
                assert_eq!(fast, slow, "seed {seed}, {config:?}");
            }
            assert_eq!(direct.summary.busy_ns, timeline.summary.busy_ns, "seed {seed}");
            assert_eq!(direct.summary.parallelism, timeline.summary.parallelism, "seed {seed}");
            assert_eq!(direct.summary.flash, timeline.summary.flash, "seed {seed}");
        }
    }

    /// A drive that validation refuses, as it fills up: one sector to a page of eight, which packing cannot free.
    fn too_full(precondition: &str) -> DeviceConfig {
        let text = format!(
            r#"{{ "geometry": {{ "channels": 1, "ways": 1, "blocks_per_plane": 32, "pages_per_block": 2,
                "page_bytes": 4096, "mapping_unit_bytes": 512 }},
            "ftl": {{ "over_provisioning": 0.3 }},
            "host": {{ "arrival": "closed", "queue_depth": 4 }},
            "precondition": {{ "kind": "{precondition}" }} }}"#
        );
        let config: DeviceConfig = serde_json::from_str(&text).unwrap();
        let error = config.validate().unwrap_err();
        assert!(error.expected.starts_with("at most "), "{error}");
        config
    }

    fn fail(config: &DeviceConfig, requests: &[Request]) -> (RunOutcome, Log) {
        let (mut log, options) = (Log::default(), RunOptions::default());
        let (geometry, control) = (config.to_geometry(), RunControl::default());
        let run = Run {
            config,
            geometry: &geometry,
            layering: &Bare,
            workload: &VecSource::new(requests.to_vec()),
            options: &options,
            control: &control,
            observer: &mut log,
        };
        let outcome = ftl::build(config, &geometry, options.seed, options.verify, run);
        (outcome.unwrap(), log)
    }

    #[test]
    fn a_drive_that_fills_up_while_it_is_preconditioned_keeps_its_report() {
        let (outcome, _) = fail(&too_full("steady"), &[]);
        assert!(outcome.error.unwrap().to_string().contains("full"));
        let report = outcome.summary.precondition.unwrap();
        assert!(!report.reached && report.pages_written > 0 && outcome.summary.partial);
    }

    /// A drive that fails says so after it has told what it had begun; then it takes no more requests.
    #[test]
    fn a_session_with_a_drive_that_fails_tells_it_at_the_end() {
        let config = too_full("none");
        let sectors = config.logical_pages();
        let sector = |at: u64| Request {
            arrival_ns: 0,
            lba: at * 17 % sectors,
            sectors: 1,
            op: Op::Write,
            stream: 0,
            fua: false,
        };
        let requests: Vec<Request> = (0..4 * sectors).map(sector).collect();
        let (outcome, log) = fail(&config, &requests);
        let expected = outcome.error.unwrap();
        let RunError::Full(text) = &expected else { panic!("{expected:?}") };
        assert!(text.contains("full") && text.contains("plane 0"), "{text}");
        let options = SessionOptions { seed: 1, verify: false };
        let mut session = Session::open(&config, &options, &RunControl::default()).unwrap();
        let (mut records, mut left) = (Vec::new(), requests.iter());
        for request in left.by_ref().take(4) {
            session.submit_now(*request).unwrap();
        }
        let failure = loop {
            match session.next_event() {
                Ok(Some(record)) => {
                    records.push(record);
                    // Refused once the drive has failed.
                    let _ = session.submit_now(*left.next().unwrap());
                }
                Ok(None) => panic!("the drive has failed"),
                Err(error) => break error,
            }
        };
        let SessionError::Run(error) = failure else { panic!("{failure}") };
        assert_eq!(error, expected);
        assert_eq!(records, log.0);
        assert_eq!(session.submit_now(requests[0]), Err(SessionError::Run(error.clone())));
        assert_eq!(session.close().unwrap().error, Some(error));
    }

    /// An interruption is heard in the middle of a request, and is no error.
    #[test]
    fn an_interruption_ends_a_long_request_and_keeps_what_was_measured() {
        struct Interrupting<'a>(&'a RunControl);
        impl Observer for Interrupting<'_> {
            fn wants_requests(&self) -> bool {
                true
            }
            fn on_request(&mut self, _: &RequestRecord) {
                self.0.cancel();
            }
        }
        let text = r#"{ "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 64, "pages_per_block": 64,
                "page_bytes": 4096 }, "host": { "arrival": "closed", "queue_depth": 1 } }"#;
        let config: DeviceConfig = serde_json::from_str(text).unwrap();
        let long = Request { arrival_ns: 0, lba: 0, sectors: 8 * 3000, op: Op::Write, stream: 0, fua: false };
        for timing in [false, true] {
            let (control, options) = (RunControl::default(), RunOptions { timing, ..RunOptions::default() });
            let source = VecSource::new(vec![long; 3]);
            let outcome =
                simulate(&config, &source, &options, &control, &mut Interrupting(&control)).unwrap();
            assert_eq!(outcome.error, None);
            assert!(outcome.summary.partial);
            // The first request ended, and nothing of the second one was done.
            assert_eq!(outcome.summary.host.completed, 1);
            assert_eq!(outcome.summary.flash.programs.total, 3000);
        }
    }

    /// Requests that start together at time 0 and end together complete in the order in which they came.
    #[test]
    fn the_ports_agree_about_equal_times_from_the_start() {
        let text = r#"{ "geometry": { "channels": 5, "ways": 1, "blocks_per_plane": 24, "pages_per_block": 8,
                "page_bytes": 4096 },
            "ftl": { "over_provisioning": 0.6 },
            "host": { "arrival": "closed", "queue_depth": 5 } }"#;
        let config: DeviceConfig = serde_json::from_str(text).unwrap();
        let write = |page: u64| Request {
            arrival_ns: 0,
            lba: page * 8,
            sectors: 8,
            op: Op::Write,
            stream: 0,
            fua: false,
        };
        let requests: Vec<Request> = (0..100).map(write).collect();
        let (_, direct) =
            run_on(&config, &requests, |geometry| ReservationPort::new(&config, geometry, false));
        let (_, timeline) = run_on(&config, &requests, |geometry| EventPort::new(&config, geometry, false));
        assert_eq!(direct.0, timeline.0);
        assert!(direct.0.is_sorted_by_key(|record| record.index));
    }
}
