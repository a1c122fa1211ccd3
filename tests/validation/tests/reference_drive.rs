//! The reference simulator's drive, every printed digit.
//!
//! Source: DiskSim 4.0 with the Microsoft SSD extension: its six synthetic validation runs, and a trace of IOzone where
//! that is at hand. Its runs end at the arrival of the last request, which is then not served.
#![allow(clippy::print_stdout, reason = "measured values, shown with --nocapture")]

use ftlab_config::load_workload;
use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate};
use ftlab_core::flash::Command;
use ftlab_core::ftl::page::GcCounts;
use ftlab_core::metrics::{CommandRecord, Observer};
use ftlab_validation::{is_long, load, run, settings};

/// What the reference prints: mean, deviation and maximum of the response in ms; requests; collections and pages moved.
struct Published {
    name: &'static str,
    mean: f64,
    stdev: f64,
    max: f64,
    handled: u64,
    collections: u64,
    moved: u64,
}

const fn row(
    name: &'static str,
    response: [f64; 3],
    handled: u64,
    collections: u64,
    moved: u64,
) -> Published {
    let [mean, stdev, max] = response;
    Published { name, mean, stdev, max, handled, collections, moved }
}

const RUNS: [Published; 6] = [
    row("disksim-sr250k", [0.132_511, 0.000_072, 0.135_805], 249_999, 0, 0),
    row("disksim-sw250k", [0.310_895, 0.026_646, 0.522_476], 249_999, 0, 0),
    row("disksim-rr250k", [0.136_118, 0.015_205, 0.485_446], 249_999, 0, 0),
    row("disksim-rw250k", [0.329_458, 0.068_898, 1.579_052], 249_999, 0, 0),
    row("disksim-sw5m", [0.334_365, 0.184_392, 2.100_248], 4_999_999, 77_493, 0),
    row("disksim-rw5m", [0.593_438, 0.970_446, 6.518_651], 4_999_999, 143_179, 1_929_239),
];

fn assert_every_digit(outcome: &RunOutcome, published: &Published) {
    let summary = &outcome.summary;
    let latency = &summary.latency_ns.as_ref().unwrap().all;
    let name = published.name;
    for (what, ns, ms) in [
        ("mean", latency.mean, published.mean),
        ("deviation", latency.stdev, published.stdev),
        ("maximum", latency.max as f64, published.max),
    ] {
        assert!((ns / 1e6 - ms).abs() <= 0.51e-6, "{name}: {what} {} ms instead of {ms}", ns / 1e6);
    }
    assert_eq!(latency.count, published.handled, "{name}");
    // Collections are decided when a request is handed out, the reference's when it is served: those for requests still
    // waiting at the end are counted here and not there.
    assert!(
        summary.parts.get::<GcCounts>().unwrap().collections - published.collections
            <= summary.host.unfinished,
        "{name}"
    );
    assert_eq!(summary.parts.get::<GcCounts>().unwrap().pages_copied, published.moved, "{name}");
}

fn assert_run(published: &Published) {
    let last_arrival = settings(&[("host.stop", &"last_arrival")]);
    assert_every_digit(&run("msr-ssd", &last_arrival, published.name, &[], true), published);
}

#[test]
fn short_runs() {
    RUNS[..4].iter().for_each(assert_run);
}

#[test]
#[ignore = "a long test: make test-long"]
fn five_million_sequential_writes() {
    assert_run(&RUNS[4]);
}

/// Erases of each block.
struct Erases(Vec<u32>);

impl Observer for Erases {
    fn wants_commands(&self) -> bool {
        true
    }
    fn on_command(&mut self, record: &CommandRecord) {
        if record.command == Command::Erase {
            self.0[(record.page / 64) as usize] += 1;
        }
    }
}

/// Its digits, and collections and wear of each element and plane.
#[test]
#[ignore = "a long test: make test-long"]
fn five_million_random_writes() {
    let config = load("msr-ssd", &settings(&[("host.stop", &"last_arrival")]));
    let (_, workload) = load_workload("disksim-rw5m", &[]).unwrap();
    let capacity = config.to_geometry().logical_bytes();
    let source = workload.workload.factory(capacity, None, None).unwrap();
    let mut erases = Erases(vec![0; 8 * 8 * 2048]);
    let options = RunOptions::default();
    let outcome = simulate(&config, &*source, &options, &RunControl::default(), &mut erases).unwrap();
    assert_every_digit(&outcome, &RUNS[5]);
    let sums =
        |size: usize| erases.0.chunks(size).map(|blocks| blocks.iter().sum::<u32>()).collect::<Vec<_>>();
    assert_eq!(sums(8 * 2048), [17_891, 17_904, 17_895, 17_899, 17_901, 17_922, 17_906, 17_861]);
    assert_eq!(sums(2048)[..8], [2235, 2241, 2239, 2241, 2242, 2232, 2229, 2232]);
    // The reference prints the mean and the variance of what is left of 50 erases.
    let left: Vec<f64> = erases.0[..8 * 2048].iter().map(|erases| 50.0 - f64::from(*erases)).collect();
    let mean = left.iter().sum::<f64>() / left.len() as f64;
    let variance = left.iter().map(|left| (left - mean).powi(2)).sum::<f64>() / (left.len() - 1) as f64;
    assert!((mean - 48.908_020).abs() < 1e-6 && (variance - 3.533_809).abs() < 1e-6, "{mean} {variance}");
}

/// Without the last request a drained run serves the same requests, on the port that keeps time without events.
#[test]
#[ignore = "a long test: make test-long"]
fn the_direct_port_meets_the_same_digits() {
    for published in &RUNS {
        let served = settings(&[("requests", &published.handled)]);
        assert_every_digit(&run("msr-ssd", &[], published.name, &served, true), published);
    }
}

#[test]
fn serving_the_last_request_too_changes_nothing_that_anyone_could_see() {
    // Those of five million requests in `make test-long`.
    for published in if is_long() { &RUNS[..] } else { &RUNS[..4] } {
        let outcome = run("msr-ssd", &[], published.name, &[], true);
        assert_eq!(outcome.summary.host.completed, published.handled + 1);
        let latency = &outcome.summary.latency_ns.as_ref().unwrap().all;
        assert!((latency.mean / 1e6 / published.mean - 1.0).abs() < 1e-4);
        assert!((latency.stdev / 1e6 / published.stdev - 1.0).abs() < 5e-3);
    }
}

#[test]
#[ignore = "a long test: make test-long"]
fn iozone_where_the_trace_is_at_hand() {
    let Some(folder) = ftlab_validation::traces() else {
        println!("skipped: no folder of traces (FTLAB_TRACES)");
        return;
    };
    let path = folder.join("disksim-ssd-valid/ssd-iozone-aligned2-100K.trace.zst");
    let options = ftlab_trace::OpenOptions { format: Some("disksim".into()), ..Default::default() };
    let trace = ftlab_trace::open(&path, &options).unwrap();
    for (stop, handled) in [("last_arrival", 99_997), ("drained", 100_000)] {
        let config = load("msr-ssd", &settings(&[("host.stop", &stop)]));
        let outcome =
            simulate(&config, &trace, &RunOptions::default(), &RunControl::default(), &mut ()).unwrap();
        assert_eq!(outcome.error, None);
        let summary = &outcome.summary;
        let latency = &summary.latency_ns.as_ref().unwrap().all;
        println!("{stop}: mean {:.6} ms, deviation {:.6} ms", latency.mean / 1e6, latency.stdev / 1e6);
        assert_eq!(latency.count, handled);
        if stop == "last_arrival" {
            let published = row("iozone", [6.394_276, 23.417_493, 852.577_2], handled, 129_772, 0);
            assert_every_digit(&outcome, &published);
        } else {
            assert!((latency.mean / 1e6 / 6.394_276 - 1.0).abs() < 1e-3);
        }
    }
}
