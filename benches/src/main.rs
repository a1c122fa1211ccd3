//! `make bench`: the same work every time, with a hash of its result and its ratio to a stated limit.
//!
//! Times are of the measured requests alone, from the first one that the drive asks its workload for; a drive is built and
//! preconditioned before that. `--smoke` does a hundredth of the work, so that the benches cannot rot; `--only overwrites`,
//! `--only reference`, `--only session`, `--only mapping`, `--only cuts`, `--only backups`, `--only merges`,
//! `--only buffers`, `--only evictions`, `--only nvm`, `--only parts`, `--only peers` or `--only fill` does one part.
//! `--rows TEXT` does only those rows of `mapping` whose names have the text, such as `"zipf, bsb"`.
#![allow(clippy::print_stdout, reason = "a bench prints its results")]

mod buffers;
mod fill;
mod limit;
mod merges;
#[path = "../../crates/ftlab-core/tests/common/nothing.rs"]
mod nothing;
mod nvm;
mod parts;
mod peers;
mod power;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate, simulate_layered};
use ftlab_core::error::RunError;
use ftlab_core::host::request::{Request, RequestSource, SourceError, SourceFactory};
use ftlab_core::host::session::{Session, SessionError, SessionOptions};
use ftlab_core::mapcache::MapCacheKind;
use ftlab_core::mapcache::translation::MapCacheSummary;
use ftlab_core::time::Time;
use ftlab_validation::{load, load_source, settings};
use limit::Limit;

struct Scale {
    /// Requests of the drive that is overwritten, and its pages.
    requests: u64,
    pages: usize,
    /// Requests of the reference drive.
    reference_requests: u64,
    repeats: u32,
    /// Runs of which the times are compared.
    rounds: u32,
}

const FULL: Scale =
    Scale { requests: 20_000_000, pages: 6_400_000, reference_requests: 5_000_000, repeats: 3, rounds: 9 };
const SMOKE: Scale =
    Scale { requests: 200_000, pages: 64_000, reference_requests: 50_000, repeats: 1, rounds: 1 };

fn main() {
    let smoke = std::env::args().any(|arg| arg == "--smoke");
    let scale = if smoke { SMOKE } else { FULL };
    let value = |flag: &str| std::env::args().skip_while(|arg| arg != flag).nth(1);
    let only = value("--only");
    let wanted = |part: &str| only.as_ref().is_none_or(|only| only == part);
    // First, as it tells what memory the process takes.
    if wanted("fill") {
        fill::large_drives(&scale);
    }
    if wanted("overwrites") {
        overwrites(&scale);
    }
    if wanted("reference") {
        reference_drive(&scale);
    }
    if wanted("session") {
        sessions(&scale);
    }
    if wanted("mapping") {
        mapping_caches(&scale, &value("--rows").unwrap_or_default());
    }
    if wanted("cuts") {
        power::cuts(&scale);
    }
    if wanted("backups") {
        power::backups(&scale);
    }
    if wanted("merges") {
        merges::merges(&scale);
    }
    if wanted("buffers") {
        buffers::buffers(&scale);
    }
    if wanted("evictions") {
        buffers::evictions(&scale);
    }
    if wanted("nvm") {
        nvm::caches(&scale);
    }
    if wanted("parts") {
        parts::parts(&scale);
    }
    if wanted("peers") {
        peers::peers(&scale);
    }
}

/// A workload that notes when its first measured request is asked for.
struct Noting {
    inner: Arc<dyn SourceFactory>,
    start: Arc<OnceLock<Instant>>,
}

struct NotingSource {
    inner: Box<dyn RequestSource>,
    start: Arc<OnceLock<Instant>>,
}

impl SourceFactory for Noting {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let inner = self.inner.open(pass)?;
        Ok(if pass == 0 { Box::new(NotingSource { inner, start: self.start.clone() }) } else { inner })
    }
}

impl RequestSource for NotingSource {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        self.start.get_or_init(Instant::now);
        self.inner.fill(out, max)
    }
    fn ignore_arrivals(&mut self) {
        self.inner.ignore_arrivals();
    }
    fn total_requests(&self) -> Option<u64> {
        self.inner.total_requests()
    }
}

/// How time is kept.
#[derive(Clone, Copy, PartialEq)]
enum Clock {
    None,
    /// By the port that a run takes by itself.
    Chosen,
    /// By the port that goes event by event.
    Events,
}

/// Run a preset device on a preset workload; returns the seconds that the requests took.
fn run(device: &str, changes: &[String], workload: &str, keys: &[String], clock: Clock) -> (f64, RunOutcome) {
    timed(device, changes, workload, keys, clock, |device, source, options| {
        simulate(device, source, options, &RunControl::default(), &mut ())
    })
}

/// The same through `simulate`, whatever that does.
fn timed(
    device: &str,
    changes: &[String],
    workload: &str,
    keys: &[String],
    clock: Clock,
    simulate: impl Fn(&DeviceConfig, &dyn SourceFactory, &RunOptions) -> Result<RunOutcome, RunError>,
) -> (f64, RunOutcome) {
    let device = load(device, changes);
    let start = Arc::new(OnceLock::new());
    let source = Noting { inner: load_source(&device, workload, keys), start: start.clone() };
    let options = RunOptions {
        timing: clock != Clock::None,
        event_by_event: clock == Clock::Events,
        ..RunOptions::default()
    };
    let outcome = simulate(&device, &source, &options).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.error, None);
    (start.get().map_or(0.0, |start| start.elapsed().as_secs_f64()), outcome)
}

/// The fastest of several runs: noise only ever adds.
fn best(scale: &Scale, mut once: impl FnMut() -> (f64, RunOutcome)) -> (f64, RunOutcome) {
    let mut best = once();
    for _ in 1..scale.repeats {
        let next = once();
        assert_eq!(hash(&next.1), hash(&best.1), "the same run gives the same result");
        if next.0 < best.0 {
            best = next;
        }
    }
    best
}

/// Two runs in turn: the fastest of each, and the median of the ratios of their times, the second over the first. The pace of
/// a machine changes within a second, and what runs next to each other shares it.
fn in_turn(
    scale: &Scale,
    mut one: impl FnMut() -> (f64, RunOutcome),
    mut other: impl FnMut() -> (f64, RunOutcome),
) -> ((f64, RunOutcome), (f64, RunOutcome), f64) {
    let mut ratios = Vec::new();
    let mut round = || {
        let (one, other) = (one(), other());
        ratios.push(other.0 / one.0);
        (one, other)
    };
    let (mut first, mut second) = round();
    for _ in 1..scale.rounds {
        let next = round();
        for (best, next) in [(&mut first, next.0), (&mut second, next.1)] {
            assert_eq!(hash(&next.1), hash(&best.1), "the same run gives the same result");
            if next.0 < best.0 {
                *best = next;
            }
        }
    }
    ratios.sort_by(f64::total_cmp);
    (first, second, ratios[ratios.len() / 2])
}

/// FNV-1a over the summary document without its wall time.
fn hash(outcome: &RunOutcome) -> u64 {
    fnv(&serde_json::to_string(&outcome.summary).unwrap_or_default())
}

fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn commands(outcome: &RunOutcome) -> u64 {
    let flash = &outcome.summary.flash;
    [&flash.reads, &flash.programs, &flash.erases, &flash.copybacks].iter().map(|by| by.total).sum()
}

/// Uniform random single-page overwrites, greedy, 6.4 million pages, spare factor 0.08.
fn overwrites(scale: &Scale) {
    let pages = scale.pages;
    let blocks = (pages as f64 / 64.0 / 0.92).floor() as usize + 32;
    let device = |ways: usize| {
        settings(&[
            ("geometry.ways", &ways),
            ("geometry.blocks_per_plane", &(blocks / ways)),
            ("ftl.logical_pages", &pages),
            ("ftl.gc_low_free_blocks", &(32 / ways - 1)),
            ("precondition.kind", &"steady"),
            ("precondition.pattern", &"uniform"),
            ("precondition.max_drive_writes", &4),
        ])
    };
    println!(
        "uniform random single-page overwrites, greedy, {} million pages, spare factor 0.08",
        pages as f64 / 1e6
    );
    let mut copies = 4.87;
    // What is asked for of the plain kernel, and of the prefetching one.
    for (name, clock, ways, floors) in [
        ("(a) without a clock", Clock::None, 1, [0.5, 0.7]),
        ("(b) with a clock, one die", Clock::Chosen, 1, [1.0 / 3.0, 0.45]),
        ("(b) with a clock, one die, event by event", Clock::Events, 1, [1.0 / 3.0, 0.4]),
        ("(b) with a clock, four dies on one channel, event by event", Clock::Chosen, 4, [1.0 / 3.0, 0.4]),
    ] {
        let keys = settings(&[("requests", &scale.requests)]);
        let (seconds, outcome) = best(scale, || run("ideal-page", &device(ways), "uniform", &keys, clock));
        let summary = &outcome.summary;
        let amplification = summary.write_amplification.as_ref().map_or(0.0, |wa| wa.total);
        copies = if amplification > 1.0 { amplification - 1.0 } else { copies };
        let ns = seconds * 1e9 / scale.requests as f64;
        println!(
            "{name}: {ns:.1} ns a request, {:.2} M requests/s, {:.1} M commands/s, write amplification {amplification:.4}, \
             {:.2} bytes a page, hash {:016x}",
            scale.requests as f64 / seconds / 1e6,
            commands(&outcome) as f64 / seconds / 1e6,
            summary.memory.bytes_per_page,
            hash(&outcome)
        );
        around(scale, &device(ways), &keys, clock, seconds, hash(&outcome));
        for (kernel, limit, floor) in [
            ("plain kernel", kernel::<false>(scale, blocks, copies), floors[0]),
            ("prefetching kernel", kernel::<true>(scale, blocks, copies), floors[1]),
        ] {
            let ratio = limit.ns_per_write / ns;
            println!(
                "    {kernel}: {:.1} ns a request, hash {:016x}: we reach {ratio:.2} of it (asked for: {floor:.2})",
                limit.ns_per_write, limit.hash
            );
        }
    }
}

/// The same under a layer that does nothing: it must change no byte, and cost next to nothing.
fn around(
    scale: &Scale,
    device: &[String],
    keys: &[String],
    clock: Clock,
    bare_seconds: f64,
    bare_hash: u64,
) {
    let (seconds, outcome) = best(scale, || {
        timed("ideal-page", device, "uniform", keys, clock, |device, source, options| {
            simulate_layered(device, &nothing::Empty, source, options, &RunControl::default(), &mut ())
        })
    });
    assert_eq!(hash(&outcome), bare_hash, "a layer that does nothing changes nothing");
    println!(
        "    under a layer that does nothing: {:.3} of the time (asked for: 1.02)",
        seconds / bare_seconds
    );
}

/// The fastest of several runs of the limit kernel.
fn kernel<const PREFETCH: bool>(scale: &Scale, blocks: usize, copies: f64) -> Limit {
    let once = || limit::run::<PREFETCH>(scale.pages, blocks * 64, copies, scale.requests / 4);
    (1..scale.repeats)
        .map(|_| once())
        .fold(once(), |best, next| if next.ns_per_write < best.ns_per_write { next } else { best })
}

/// The reference simulator's drive and its longest random run, which takes the reference 38 s on two such cores.
fn reference_drive(scale: &Scale) {
    const REFERENCE_SECONDS: f64 = 38.0;
    let requests = scale.reference_requests;
    let keys = settings(&[("requests", &requests)]);
    // The whole run, as the reference's time is: building and filling the drive included.
    let (seconds, outcome) = best(scale, || {
        let start = Instant::now();
        let (_, outcome) = run("msr-ssd", &[], "disksim-rw5m", &keys, Clock::Chosen);
        (start.elapsed().as_secs_f64(), outcome)
    });
    let mean = outcome.summary.latency_ns.as_ref().map_or(0.0, |latency| latency.all.mean / 1e6);
    println!(
        "(c) msr-ssd, {requests} random writes, timed: {seconds:.2} s in all, {:.2} M requests/s, {:.1} M commands/s, mean \
         {mean:.6} ms, hash {:016x}",
        requests as f64 / seconds / 1e6,
        commands(&outcome) as f64 / seconds / 1e6,
        hash(&outcome)
    );
    if requests == FULL.reference_requests {
        println!(
            "    the reference takes {REFERENCE_SECONDS} s: {:.0} times as fast (asked for: 50)",
            REFERENCE_SECONDS / seconds
        );
    }
}

/// The reference drive again, each request handed over when its time has come, and each completion fetched: (open); and a
/// closed loop, in which each completion is answered with the next request.
fn sessions(scale: &Scale) {
    const FLOOR: f64 = 1e6;
    let count = scale.reference_requests as usize;
    let keys = settings(&[("requests", &count)]);
    for (name, depth) in
        [("open arrivals", None), ("closed, depth 1", Some(1)), ("closed, depth 32", Some(32))]
    {
        let device = load("msr-ssd", &[]);
        let mut source =
            load_source(&device, "disksim-rw5m", &keys).open(0).unwrap_or_else(|error| panic!("{error}"));
        let mut requests = Vec::with_capacity(count);
        while source.fill(&mut requests, 4096).unwrap_or_else(|error| panic!("{error}")) > 0 {}
        let mut once = || {
            let control = RunControl::default();
            let session = Session::new(&device, &SessionOptions::default(), &control);
            let mut session = session.unwrap_or_else(|error| panic!("{error}"));
            let start = Instant::now();
            let told = match depth {
                None => feed(&mut session, &requests),
                Some(depth) => feed_closed(&mut session, &requests, depth),
            };
            let told = told.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(told, requests.len());
            let seconds = start.elapsed().as_secs_f64();
            (seconds, session.close().unwrap_or_else(|error| panic!("{error}")))
        };
        let (seconds, outcome) = best(scale, &mut once);
        println!(
            "(d) a session with msr-ssd, {count} random writes, {name}: {:.2} M requests/s (asked for: {:.0}), hash {:016x}",
            count as f64 / seconds / 1e6,
            FLOOR / 1e6,
            hash(&outcome)
        );
    }
}

/// Returns the number of completions.
fn feed(session: &mut Session, requests: &[Request]) -> Result<usize, SessionError> {
    let mut told = 0;
    for request in requests {
        let at = Time::from_ns(request.arrival_ns);
        told += session.advance(at)?.len();
        session.submit(*request, at)?;
    }
    while session.next_event()?.is_some() {
        told += 1;
    }
    Ok(told)
}

/// Returns the number of completions.
fn feed_closed(session: &mut Session, requests: &[Request], depth: usize) -> Result<usize, SessionError> {
    let (mut told, mut left) = (0, requests.iter());
    for request in left.by_ref().take(depth) {
        session.submit_now(*request)?;
    }
    while session.next_event()?.is_some() {
        told += 1;
        if let Some(request) = left.next() {
            session.submit_now(*request)?;
        }
    }
    Ok(told)
}

/// Lookups in every mapping cache, without flash, on a footprint of a million pages; of those rows whose names have `wanted`.
fn mapping_caches(scale: &Scale, wanted: &str) {
    const PAGES: u64 = 1_000_000;
    println!("mapping caches, a million pages, 256 KiB, half of the accesses write");
    let mut done = 0;
    for (workload, keys) in [
        ("uniform", settings(&[("read_fraction", &0.5)])),
        ("zipf", settings(&[("read_fraction", &0.5)])),
        ("sequential", settings(&[("read_fraction", &0.5)])),
    ] {
        let mut keys = keys;
        keys.extend(settings(&[("requests", &(scale.requests / 4)), ("footprint_bytes", &(PAGES * 4096))]));
        let kinds = MapCacheKind::ALL.iter().filter(|kind| **kind != MapCacheKind::Ideal);
        let rows = kinds.map(|kind| {
            let floor = match kind {
                MapCacheKind::Dftl | MapCacheKind::FullPage => 8.0,
                _ => 4.0,
            };
            (kind.name(), "", Vec::new(), floor)
        });
        let more = [
            ("bsb", " by the nearest run", settings(&[("map_cache.board", &"nearest_run")]), 4.0),
            (
                "ghosts",
                " without sampling",
                settings(&[("map_cache.sampling", &false), ("map_cache.charge_ghosts", &false)]),
                1.0,
            ),
        ];
        for (kind, how, own, floor) in rows.chain(more) {
            let row = format!("{workload}, {kind}{how}");
            if !row.contains(wanted) {
                continue;
            }
            done += 1;
            let mut device = settings(&[("map_cache.kind", &kind), ("map_cache.bytes", &(256 << 10))]);
            device.extend(own);
            let (seconds, outcome) =
                best(scale, || run("map-cache-model", &device, workload, &keys, Clock::None));
            let cache = outcome.summary.parts.get::<MapCacheSummary>();
            let (lookups, hit_ratio) = cache.map_or((0, 0.0), |cache| (cache.lookups, cache.hit_ratio));
            println!(
                "    {row}: {:.1} M lookups/s (asked for: {floor:.0}), hit ratio {hit_ratio:.4}, hash {:016x}",
                lookups as f64 / seconds / 1e6,
                hash(&outcome)
            );
        }
    }
    assert!(done > 0, "--rows: no row of mapping has {wanted:?} in its name; without --rows all are printed");
}

#[cfg(test)]
mod tests {
    #[test]
    #[ignore = "a long test: make test-long"]
    fn every_part_runs() {
        super::overwrites(&super::SMOKE);
        super::reference_drive(&super::SMOKE);
        super::sessions(&super::SMOKE);
        super::mapping_caches(&super::SMOKE, "");
    }
}
