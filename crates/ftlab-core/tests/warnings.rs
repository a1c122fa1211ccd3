//! Warnings on runs of known state: drives that were aged by their workload or not, and hosts that ask for less or more than
//! the drive can do.

use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate, simulate_aged};
use ftlab_core::error::SourceError;
use ftlab_core::host::aged::{Aged, AgedDrives};
use ftlab_core::host::request::{Op, Remark, Request, RequestSource, SourceFactory, VecSource};
use ftlab_core::host::warnings::{ADDRESS_UNIT, LOST_EVENTS, Times, UNUSED_EVENTS, WARNINGS};
use ftlab_core::metrics::summary::Summary;
use ftlab_core::rng::Rng;
use serde_json::{Value, json};

use crate::common::{device, merged, request, run};

/// Which units the host writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pattern {
    Uniform,
    /// Nine tenths of the writes go to a tenth of the drive.
    Hot,
    /// Three tenths of the drive, uniformly: the rest never changes.
    Part,
    Sequential,
}

/// Requests of one unit.
#[derive(Debug, Clone, Copy)]
struct Load {
    pattern: Pattern,
    units: u64,
    count: u64,
    read_share: f64,
    /// Mean time between arrivals; 0 where completions bring requests.
    gap_ns: f64,
    seed: u64,
}

impl Load {
    fn requests(&self, pass: u64) -> Vec<Request> {
        let mut rng = Rng::for_path(self.seed, &[pass]);
        let (mut now, mut next) = (0.0, 0);
        let each = |_| {
            now -= self.gap_ns * (1.0 - rng.unit()).ln();
            let op = if rng.unit() < self.read_share { Op::Read } else { Op::Write };
            let tenth = self.units / 10;
            let unit = match self.pattern {
                Pattern::Uniform => rng.below(self.units),
                Pattern::Hot if rng.below(10) > 0 => rng.below(tenth),
                Pattern::Hot => tenth + rng.below(self.units - tenth),
                Pattern::Part => rng.below(3 * tenth),
                Pattern::Sequential => next,
            };
            next = (next + 1) % self.units;
            Request { arrival_ns: now as u64, ..request(0.0, op, unit * 8, 8) }
        };
        (0..self.count).map(each).collect()
    }
}

impl SourceFactory for Load {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        VecSource::new(self.requests(pass)).open(0)
    }
}

/// One request, from an input that says something of itself.
struct Saying(&'static str);

impl SourceFactory for Saying {
    fn open(&self, _pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        Ok(Box::new(Said { requests: VecSource::new(vec![request(0.0, Op::Read, 0, 8)]), code: self.0 }))
    }
}

struct Said {
    requests: VecSource,
    code: &'static str,
}

impl RequestSource for Said {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        self.requests.fill(out, max)
    }

    fn remarks(&self) -> Vec<Remark> {
        let told = |code| Remark { code, text: "so".into(), advice: "do".into(), found: vec![("all", 1.0)] };
        vec![told(None), told(Some(self.code))]
    }
}

/// Four dies of 128 blocks of 16 pages, three tenths more than the host sees.
fn drive(changes: Value) -> DeviceConfig {
    let base = json!({
        "geometry": { "channels": 2, "ways": 2, "blocks_per_plane": 128, "pages_per_block": 16, "page_bytes": 4096 },
        "ftl": { "over_provisioning": 0.3, "gc_low_free_blocks": 1 },
        "host": { "arrival": "closed", "queue_depth": 16 },
    });
    device(merged(base, changes))
}

/// The same for requests that arrive at their own times.
fn open_drive(changes: Value, host: Value) -> DeviceConfig {
    let host = serde_json::from_value(merged(json!({ "arrival": "open" }), host)).unwrap();
    let config = DeviceConfig { host, ..drive(changes) };
    config.validate().unwrap();
    config
}

fn simulated(config: &DeviceConfig, load: &Load, timing: bool) -> RunOutcome {
    let options = RunOptions { timing, seed: load.seed, ..RunOptions::default() };
    let outcome = simulate(config, load, &options, &RunControl::default(), &mut ()).unwrap();
    assert_eq!(outcome.error, None);
    outcome
}

fn has(summary: &Summary, code: &str) -> bool {
    summary.warnings.iter().any(|warning| warning.code == code)
}

fn aged(pattern: &str) -> Value {
    json!({ "precondition": { "kind": "steady", "pattern": pattern, "tolerance": 0.02 } })
}

fn load(pattern: Pattern, units: u64, capacities: f64, seed: u64) -> Load {
    let count = (capacities * units as f64) as u64;
    Load { pattern, units, count, read_share: 0.0, gap_ns: 0.0, seed }
}

/// Write amplification in the long run: of thirty capacities, the last twenty.
fn long_run(pattern: Pattern) -> f64 {
    let config = drive(aged("workload"));
    let units = config.logical_pages();
    let all = simulated(&config, &load(pattern, units, 30.0, 77), false);
    let begin = simulated(&config, &load(pattern, units, 10.0, 77), false);
    let programmed = |outcome: &RunOutcome, share: f64| {
        outcome.summary.write_amplification.as_ref().unwrap().total * share
    };
    (programmed(&all, 30.0) - programmed(&begin, 10.0)) / 20.0
}

/// A hundred runs whose state is known. Those of a drive that its own workload has aged are steady. Those of a new, a full or
/// an otherwise aged drive are not. Runs of thirty capacities show that it is so.
#[test]
fn runs_that_are_not_steady_say_so_and_no_others() {
    let patterns = [Pattern::Uniform, Pattern::Hot, Pattern::Part];
    let truth = patterns.map(long_run);
    let (mut alarms, mut misses, mut steady, mut moving) = (Vec::new(), Vec::new(), 0, 0);
    for seed in 0..51_u64 {
        let which = seed as usize % 3;
        let pattern = patterns[which];
        let off = |summary: &Summary| {
            (summary.write_amplification.as_ref().unwrap().total / truth[which] - 1.0).abs()
        };
        // Steady: from half a capacity to six, with and without reads.
        let config = drive(aged("workload"));
        let units = config.logical_pages();
        let capacities = [0.5, 1.0, 2.0, 6.0][seed as usize % 4];
        let read_share = if seed % 5 == 0 { 0.5 } else { 0.0 };
        let outcome =
            simulated(&config, &Load { read_share, ..load(pattern, units, capacities, seed) }, false);
        steady += 1;
        // By construction, and so that nobody could tell: a tenth off is what the others are at least.
        let error = off(&outcome.summary);
        assert!(error < 0.1, "{error:.3} off: {pattern:?}, {capacities}, {seed}");
        if has(&outcome.summary, "not_steady") {
            alarms.push((pattern, capacities, seed, outcome.summary.warnings.clone()));
        }
        // Not: a new drive, a full one, and one that other writes have aged.
        let fill = json!({ "precondition": { "kind": "fill" } });
        let (new, other) = match pattern {
            // A part of a new drive has all the rest for spare space, for ever.
            Pattern::Part => (fill.clone(), aged("uniform")),
            _ => (json!({}), aged("sequential")),
        };
        let before = [new, fill, other][seed as usize / 3 % 3].clone();
        // A small part of the drive is soon as it stays, and a new drive has to be filled first.
        let long = match (pattern, before.as_object().is_some_and(serde_json::Map::is_empty)) {
            (_, true) => [0.5, 1.5, 3.0, 5.0],
            (Pattern::Part, _) => [0.05, 0.1, 0.2, 0.3],
            _ => [0.3, 0.6, 0.9, 1.3],
        };
        let capacities = long[seed as usize % 4];
        let config = drive(before.clone());
        let outcome = simulated(&config, &load(pattern, units, capacities, seed), false);
        if off(&outcome.summary) < 0.1 {
            // Close to the long run by chance: neither one nor the other.
            continue;
        }
        moving += 1;
        if !has(&outcome.summary, "not_steady") {
            misses.push((pattern, before, capacities, seed, off(&outcome.summary)));
        }
    }
    assert!(moving >= 45, "{moving} of {steady}");
    assert!(alarms.len() * 50 <= steady, "{alarms:?}");
    assert!(misses.len() * 50 <= moving, "{misses:?}");
}

/// A hundred hosts that ask for a known share of what the drive can do.
#[test]
fn hosts_that_ask_for_too_much_are_told_so_and_no_others() {
    let (mut alarms, mut misses) = (Vec::new(), Vec::new());
    let mut asked = 0;
    for seed in 0..10_u64 {
        let pattern = [Pattern::Uniform, Pattern::Hot][seed as usize % 2];
        let read_share = [0.0, 0.7][seed as usize / 2 % 2];
        let before = json!({ "precondition": { "kind": "steady", "tolerance": 0.05 } });
        let closed = drive(merged(before.clone(), json!({ "host": { "queue_depth": 256 } })));
        let units = closed.logical_pages();
        let able = Load { read_share, ..load(pattern, units, 1.5, seed) };
        let most = simulated(&closed, &able, true).summary.host.iops;
        let open = open_drive(before, json!({}));
        for share in [0.3, 0.5, 0.6, 0.7, 0.8, 1.2, 1.3, 1.5, 2.0, 5.0] {
            let load = Load { gap_ns: 1e9 / (most * share), ..able };
            let summary = simulated(&open, &load, true).summary;
            asked += 1;
            match (has(&summary, "overloaded"), share > 1.0) {
                (true, false) => alarms.push((pattern, read_share, share, seed)),
                (false, true) => misses.push((pattern, read_share, share, seed)),
                _ => {}
            }
        }
    }
    assert!(alarms.len() * 100 <= asked, "{alarms:?}");
    assert!(misses.len() * 100 <= asked, "{misses:?}");
}

/// A new drive that is as fast as the host until collection begins, after more than half of the run.
#[test]
fn a_drive_that_becomes_too_slow_is_told_so() {
    let config = open_drive(json!({}), json!({}));
    let units = config.logical_pages();
    let of = |gap_ns| Load { gap_ns, ..load(Pattern::Uniform, units, 2.2, 3) };
    // Four dies that take 220 us for a page would take one every 55 us.
    let summary = simulated(&config, &of(80_000.0), true).summary;
    assert!(has(&summary, "overloaded"), "{:#?}", summary.warnings);
    assert!(!has(&simulated(&config, &of(800_000.0), true).summary, "overloaded"));
}

/// Every warning that the core gives, and none of them where there is nothing to say.
#[test]
fn every_warning_has_its_run() {
    let mut given = Vec::new();
    let mut expect = |code: &'static str, summary: &Summary| {
        let warning = summary.warnings.iter().find(|warning| warning.code == code);
        let warning = warning.unwrap_or_else(|| panic!("{code}: {:#?}", summary.warnings));
        assert!(
            !warning.text.is_empty() && !warning.advice.is_empty() && !warning.found.is_empty(),
            "{warning:?}"
        );
        given.push(code);
    };
    let writes = |config: &DeviceConfig, capacities| {
        simulated(config, &load(Pattern::Uniform, config.logical_pages(), capacities, 1), true).summary
    };
    let fresh = drive(json!({}));
    expect("not_steady", &writes(&fresh, 0.5));
    expect("few_samples", &writes(&fresh, 0.01));
    let hurried =
        json!({ "precondition": { "kind": "steady", "max_drive_writes": 1.5, "tolerance": 0.0001 } });
    expect("not_aged", &writes(&drive(hurried), 0.1));
    let tight = json!({ "geometry": { "blocks_per_plane": 62 }, "ftl": { "over_provisioning": 0.1 } });
    expect("little_spare", &writes(&drive(tight), 0.5));
    // A victim is begun ahead of need while more blocks are free.
    let of_pace = |pace: &str| {
        let ahead = json!({ "geometry": { "blocks_per_plane": 62 }, "ftl": { "over_provisioning": 0.13, "gc_pace": pace } });
        writes(&drive(ahead), 0.5)
    };
    assert!(!has(&of_pace("block"), "little_spare"));
    expect("little_spare", &of_pace("even"));

    let open = |requests: &[Request], host: Value| run(&open_drive(json!({}), host), requests).0.summary;
    let every = |us: f64, count: u64, unit: fn(u64) -> u64| -> Vec<Request> {
        (0..count).map(|at| request(us * at as f64, Op::Write, unit(at) * 8, 8)).collect()
    };
    expect("overloaded", &open(&every(0.0, 100, |at| at), json!({})));
    expect("time_unit", &open(&every(0.001, 2000, |at| at), json!({})));
    expect("time_unit", &open(&every(100e6, 200, |at| at), json!({})));
    expect("out_of_range", &open(&every(1000.0, 50, |at| at * 1000), json!({ "out_of_range": "wrap" })));
    let mut turned = every(1000.0, 50, |at| at);
    turned.reverse();
    expect("moved_in_time", &open(&turned, json!({ "unsorted_times": "clamp" })));
    expect("not_drained", &open(&every(1.0, 50, |at| at), json!({ "stop": "last_arrival" })));

    let reads_after = |written: u64| {
        let writes = (0..written).map(|at| request(0.0, Op::Write, at * 8, 8));
        let requests: Vec<Request> =
            writes.chain((0..100).map(|at| request(0.0, Op::Read, at * 8, 8))).collect();
        run(&fresh, &requests).0.summary
    };
    expect("unwritten_reads", &reads_after(89));
    assert!(!has(&reads_after(90), "unwritten_reads"), "a tenth");
    // What is read ahead, nobody has asked for.
    let ahead = json!({ "buffer": { "kind": "lru", "bytes": 1 << 20, "prefetch_pages": 64 } });
    let writes = (0..100).map(|at| request(0.0, Op::Write, at * 8, 8));
    let requests: Vec<Request> = writes.chain((0..100).map(|at| request(0.0, Op::Read, at * 8, 8))).collect();
    let summary = run(&drive(ahead), &requests).0.summary;
    assert!(summary.host.unmapped_read_pages > 0 && !has(&summary, "unwritten_reads"), "{summary:#?}");

    let one = drive(json!({ "ftl": { "striping": "static" } }));
    let requests: Vec<Request> = (0..3000).map(|at| request(0.0, Op::Write, at % 50 * 4 * 8, 8)).collect();
    expect("uneven_dies", &run(&one, &requests).0.summary);

    for code in [ADDRESS_UNIT, LOST_EVENTS, UNUSED_EVENTS] {
        let (options, control) = (RunOptions::default(), RunControl::default());
        expect(code, &simulate(&fresh, &Saying(code), &options, &control, &mut ()).unwrap().summary);
    }

    for kind in WARNINGS {
        assert!(given.contains(&kind.code) || kind.code == "stand_in", "{} has no run", kind.code);
    }
    // Sequential writes of a full drive never copy anything: steady once they have gone round twice.
    let config = drive(json!({ "precondition": { "kind": "fill" } }));
    let round = simulated(&config, &load(Pattern::Sequential, config.logical_pages(), 2.5, 1), false);
    assert!(!has(&round.summary, "not_steady"), "{:#?}", round.summary.warnings);
    let config = drive(aged("workload"));
    let quiet = Load { read_share: 0.4, ..load(Pattern::Uniform, config.logical_pages(), 5.0, 1) };
    assert_eq!(simulated(&config, &quiet, true).summary.warnings, []);
    // The same with the address deciding: no die has more than others.
    let by_address = drive(merged(aged("workload"), json!({ "ftl": { "striping": "static" } })));
    assert_eq!(simulated(&by_address, &quiet, true).summary.warnings, []);
}

/// What times tell before any drive has seen them: what a run says of them, and nothing of too few.
#[test]
fn times_of_a_trace_are_remarked_on_as_in_a_run() {
    let said = |us: &[f64]| -> Vec<&str> {
        let requests: Vec<Request> = us.iter().map(|us| request(*us, Op::Read, 0, 8)).collect();
        let mut times = Times::default();
        requests.chunks(7).for_each(|some| times.see(some));
        times.remarks().iter().filter_map(|remark| remark.code).collect()
    };
    let every = |us: f64, count: u32| -> Vec<f64> { (0..count).map(|at| us * f64::from(at)).collect() };
    assert_eq!(said(&[]), [""; 0]);
    assert_eq!(said(&every(100.0, 200)), [""; 0]);
    assert_eq!(said(&every(0.0, 200)), [""; 0]);
    assert_eq!(said(&every(0.001, 200)), ["time_unit"]);
    assert_eq!(said(&every(100e6, 200)), ["time_unit"]);
    assert_eq!(said(&every(100e6, 50)), [""; 0]);
    let out_of_order = |one_in: u32| {
        (0..200).map(move |at| f64::from(at) * 100.0 - if at % one_in == 1 { 150.0 } else { 0.0 })
    };
    assert_eq!(said(&out_of_order(5).map(|us| us + 200.0).collect::<Vec<_>>()), ["moved_in_time"]);
    assert_eq!(said(&out_of_order(20).map(|us| us + 200.0).collect::<Vec<_>>()), [""; 0]);
}

/// Every run keeps a series, in few rows however long it is, and nothing else depends on it.
#[test]
fn the_coarse_series_has_the_whole_run() {
    for (capacities, timing) in [(0.001, true), (0.05, true), (3.0, true), (3.0, false)] {
        let config = drive(json!({}));
        let load = Load { read_share: 0.3, ..load(Pattern::Uniform, config.logical_pages(), capacities, 1) };
        let RunOutcome { summary, coarse, .. } = simulated(&config, &load, timing);
        let rows = coarse.requests.len() as u64;
        assert!(rows <= 256 && rows >= load.count.min(128), "{rows} rows of {}", load.count);
        assert_eq!(coarse.requests.last(), Some(&load.count));
        assert_eq!(coarse.writes.iter().sum::<u64>(), summary.host.writes);
        assert_eq!(coarse.reads.iter().sum::<u64>(), summary.host.reads);
        if let Some(latency) = summary.latency_ns {
            assert_eq!(coarse.latency_max_ns.iter().max(), Some(&latency.all.max));
            let counts =
                coarse.requests.iter().scan(0, |before, now| Some(now - std::mem::replace(before, *now)));
            let sum: f64 =
                coarse.latency_mean_ns.iter().zip(counts).map(|(mean, count)| mean * count as f64).sum();
            assert!((sum / load.count as f64 / latency.all.mean - 1.0).abs() < 1e-9);
        }
    }
}

/// Runs that differ in what the host does share an aged drive, and do not tell; others do not.
#[test]
fn an_aged_drive_is_used_again_and_changes_nothing() {
    let drives = AgedDrives::new(64 << 20);
    let mut shared = 0;
    let mut check = |config: &DeviceConfig, seed: u64, workload: Option<&str>, is_shared: bool| {
        let load = load(Pattern::Hot, config.logical_pages(), 0.5, seed);
        let options = RunOptions { seed, verify: true, ..RunOptions::default() };
        let control = RunControl::default();
        let aged = Some(Aged { drives: Some(&drives), store: None, workload });
        let with = simulate_aged(config, &load, &options, &control, &mut (), aged).unwrap();
        let without = simulate(config, &load, &options, &control, &mut ()).unwrap();
        // As text: the series has what is no number.
        let text = |outcome: &RunOutcome| format!("{:?} {:?}", outcome.summary, outcome.coarse);
        assert!(text(&with) == text(&without), "{workload:?}, seed {seed}: not the same");
        shared += u64::from(is_shared);
        assert_eq!(drives.reused(), shared, "{workload:?}, seed {seed}");
    };
    for layer in [json!({}), json!({ "ftl": { "gc": "fifo", "placement": "sepbit" } })] {
        let base = merged(json!({ "precondition": { "kind": "steady", "tolerance": 0.05 } }), layer);
        check(&drive(base.clone()), 1, None, false);
        check(&drive(base.clone()), 1, None, true);
        check(&drive(merged(base.clone(), json!({ "host": { "queue_depth": 2 } }))), 1, None, true);
        let buffer = json!({ "buffer": { "kind": "lru", "bytes": 65536 } });
        check(&drive(merged(base.clone(), buffer)), 1, None, true);
        check(&drive(base.clone()), 2, None, false);
        check(&drive(merged(base.clone(), json!({ "ftl": { "gc": "random" } }))), 1, None, false);
        let own = drive(merged(base, json!({ "precondition": { "pattern": "workload" } })));
        check(&own, 1, None, false);
        check(&own, 1, None, false);
        check(&own, 1, Some("hot"), false);
        check(&own, 1, Some("hot"), true);
    }
    // What a copy of a mapping cache takes is not what the cache takes.
    let cached = json!({ "precondition": { "kind": "steady", "tolerance": 0.05 }, "map_cache": { "kind": "dftl", "bytes": 16384 } });
    for _ in 0..2 {
        check(&drive(cached.clone()), 1, None, false);
    }
    // Too small for any: every run ages its own.
    let none = AgedDrives::new(10);
    let config = drive(json!({ "precondition": { "kind": "steady", "tolerance": 0.05 } }));
    for _ in 0..2 {
        let (options, control) = (RunOptions::default(), RunControl::default());
        let aged = Some(Aged { drives: Some(&none), store: None, workload: None });
        simulate_aged(
            &config,
            &load(Pattern::Hot, config.logical_pages(), 0.1, 1),
            &options,
            &control,
            &mut (),
            aged,
        )
        .unwrap();
    }
    assert_eq!((none.reused(), none.used_bytes()), (0, 0));
    assert!(drives.used_bytes() > 0 && drives.used_bytes() <= 64 << 20);
}

/// A drive that its workload has aged, and too few writes to show that.
#[test]
fn a_short_run_of_an_aged_drive_is_not_steady() {
    let config = drive(aged("workload"));
    let short = simulated(&config, &load(Pattern::Uniform, config.logical_pages(), 0.003, 1), true);
    let warning = short.summary.warnings.iter().find(|warning| warning.code == "not_steady");
    let warning = warning.unwrap_or_else(|| panic!("{:#?}", short.summary));
    assert!(warning.text.contains("when ageing ended"), "{warning:#?}");
    assert!(!warning.advice.contains("precondition"), "{warning:#?}");
}

/// Memory before flash takes all that is written, so that write amplification is 0: for good only if that is much.
#[test]
fn what_memory_takes_whole_tells_nothing_of_flash() {
    for memory in [
        json!({ "nvm": { "kind": "basic", "bytes": 64 << 20 } }),
        json!({ "buffer": { "kind": "lru", "bytes": 64 << 20, "drain_at_end": false } }),
    ] {
        let config = drive(merged(memory, json!({ "precondition": { "kind": "fill" } })));
        for (capacities, is_known) in [(0.3, false), (1.5, false), (4.0, true)] {
            let load = load(Pattern::Uniform, config.logical_pages(), capacities, 1);
            let summary = simulated(&config, &load, true).summary;
            assert_eq!(summary.write_amplification.as_ref().unwrap().total, 0.0);
            assert_eq!(has(&summary, "not_steady"), !is_known, "{capacities}: {:#?}", summary.warnings);
        }
        let reads = Load { read_share: 1.0, ..load(Pattern::Uniform, config.logical_pages(), 0.5, 1) };
        assert!(!has(&simulated(&config, &reads, true).summary, "not_steady"));
    }
}

/// A busy die is not helped by the striping that the drive has already.
#[test]
fn advice_on_a_busy_die_fits_the_drive() {
    let reads: Vec<Request> = (0..3000).map(|_| request(0.0, Op::Read, 0, 8)).collect();
    for (striping, helps) in [("static", true), ("dynamic", false)] {
        let config = drive(json!({ "ftl": { "striping": striping }, "precondition": { "kind": "fill" } }));
        let summary = run(&config, &reads).0.summary;
        let warning = summary.warnings.iter().find(|warning| warning.code == "uneven_dies").unwrap();
        assert_eq!(warning.advice.contains("ftl.striping"), helps, "{warning:?}");
        assert!(warning.advice.contains("reads"), "{warning:?}");
    }
}
