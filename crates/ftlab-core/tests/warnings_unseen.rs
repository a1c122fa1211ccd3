//! Warnings judged on runs that no bound was chosen on: other drives, requests, loads and seeds than those of `warnings.rs`.
//!
//! What the first set showed changed two rules, for reasons that `host/warnings.rs` states. The others are judged as they come,
//! the fourth after the last change.
//! The long tests judge all sets, and print every wrong answer with its case. The short ones take a few runs of each.

use std::collections::HashMap;
use std::ops::Range;

use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_core::error::SourceError;
use ftlab_core::host::request::{Op, Request, RequestSource, SourceFactory, VecSource};
use ftlab_core::metrics::summary::Summary;
use ftlab_core::metrics::warning::Warning;
use ftlab_core::rng::Rng;
use serde_json::{Value, json};

use crate::common::drives::is_long;
use crate::common::{device, merged, request};

/// Which units the host writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Pattern {
    /// By Zipf's law with the exponent 0.9, popular units side by side.
    Zipf,
    /// 95 % of the requests go to a twentieth of the drive.
    VeryHot,
    /// Six tenths of the drive, uniformly.
    Most,
    /// Half sequential, half anywhere.
    Mixed,
    /// Anywhere in requests of four units.
    Large,
    /// Seven tenths of the requests go to three tenths of the drive, which lie in its middle.
    Middle,
    /// Anywhere, and then on for sixteen requests.
    Runs,
    /// By Zipf's law with the exponent 1.2.
    Steep,
    /// Anywhere in four fifths of the drive, and around in the last fifth.
    Ring,
}

impl Pattern {
    /// Units of a request.
    fn length(self) -> f64 {
        if self == Pattern::Large { 4.0 } else { 1.0 }
    }
}

/// What the runs of a set are made of.
struct Set {
    drives: Range<usize>,
    patterns: &'static [Pattern],
    steadiness: Range<u64>,
    loads: Range<u64>,
    /// Shares of what a drive can do that hosts ask for.
    shares: &'static [f64],
}

const FIRST: Set = Set {
    drives: 0..5,
    patterns: &[Pattern::Zipf, Pattern::VeryHot, Pattern::Most, Pattern::Mixed, Pattern::Large],
    steadiness: 1000..1120,
    loads: 2000..2020,
    shares: &[0.25, 0.45, 0.65, 0.75, 0.85, 1.15, 1.25, 1.6, 3.0, 8.0],
};

/// Drives with the patterns of the other set.
const THIRD: Set = Set {
    drives: 0..9,
    patterns: &[
        Pattern::Ring,
        Pattern::Zipf,
        Pattern::Middle,
        Pattern::Mixed,
        Pattern::Runs,
        Pattern::Large,
        Pattern::Steep,
        Pattern::VeryHot,
    ],
    steadiness: 9000..9120,
    loads: 9500..9520,
    shares: &[0.2, 0.5, 0.6, 0.78, 0.86, 1.15, 1.22, 1.5, 2.5, 6.0],
};

const SECOND: Set = Set {
    drives: 5..9,
    patterns: &[Pattern::Middle, Pattern::Runs, Pattern::Steep, Pattern::Ring, Pattern::Most],
    steadiness: 5000..5120,
    loads: 6000..6020,
    shares: &[0.3, 0.55, 0.7, 0.8, 0.87, 1.15, 1.2, 1.4, 2.0, 4.0],
};

/// All drives and all patterns.
const FOURTH: Set = Set {
    drives: 0..9,
    patterns: &[
        Pattern::Most,
        Pattern::Steep,
        Pattern::Mixed,
        Pattern::Ring,
        Pattern::VeryHot,
        Pattern::Runs,
        Pattern::Zipf,
        Pattern::Large,
        Pattern::Middle,
    ],
    steadiness: 31_000..31_120,
    loads: 30_000..30_020,
    shares: &[0.35, 0.58, 0.68, 0.77, 0.88, 1.15, 1.3, 1.7, 2.2, 5.0],
};

/// When requests come.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Gaps {
    /// As completions bring them.
    None,
    /// At random, so many nanoseconds apart on average.
    Poisson(f64),
    /// Fifty at a tenth of this distance, then a pause that keeps the average.
    Bursts(f64),
}

/// A host.
#[derive(Debug, Clone, Copy)]
struct Host {
    pattern: Pattern,
    /// What it goes over to after half of the requests.
    then: Pattern,
    units: u64,
    count: u64,
    read_share: f64,
    gaps: Gaps,
    seed: u64,
}

impl Host {
    fn new(pattern: Pattern, units: u64, capacities: f64, seed: u64) -> Self {
        let count = (capacities * units as f64 / pattern.length()) as u64;
        Self { pattern, then: pattern, units, count, read_share: 0.0, gaps: Gaps::None, seed }
    }

    fn requests(&self, pass: u64) -> Vec<Request> {
        let mut rng = Rng::for_path(self.seed, &[pass, 77]);
        let by_rank = zipf(self.units, if self.pattern == Pattern::Steep { 1.2 } else { 0.9 });
        let (mut now, mut next) = (0.0, 0);
        let each = |at: u64| {
            now += match self.gaps {
                Gaps::None => 0.0,
                Gaps::Poisson(mean) => -mean * (1.0 - rng.unit()).ln(),
                Gaps::Bursts(mean) if at.is_multiple_of(50) => mean * (50.0 - 4.9),
                Gaps::Bursts(mean) => mean * 0.1,
            };
            let op = if rng.unit() < self.read_share { Op::Read } else { Op::Write };
            let pattern = if at < self.count / 2 { self.pattern } else { self.then };
            let (unit, length) = match pattern {
                Pattern::Zipf | Pattern::Steep => {
                    let drawn = rng.unit();
                    (by_rank.partition_point(|sum| *sum <= drawn) as u64, 1)
                }
                Pattern::VeryHot if rng.below(20) > 0 => (rng.below(self.units / 20), 1),
                Pattern::VeryHot => (self.units / 20 + rng.below(self.units - self.units / 20), 1),
                Pattern::Most => (rng.below(self.units * 6 / 10), 1),
                Pattern::Mixed if rng.below(2) == 0 => {
                    next = (next + 1) % self.units;
                    (next, 1)
                }
                Pattern::Mixed => (rng.below(self.units), 1),
                Pattern::Large => (rng.below(self.units / 4) * 4, 4),
                Pattern::Middle => {
                    let (begin, length) = (self.units * 35 / 100, self.units * 3 / 10);
                    let drawn = rng.below(self.units - length);
                    if rng.below(10) < 7 {
                        (begin + rng.below(length), 1)
                    } else {
                        (if drawn < begin { drawn } else { drawn + length }, 1)
                    }
                }
                Pattern::Runs => {
                    next =
                        if at.is_multiple_of(16) { rng.below(self.units) } else { (next + 1) % self.units };
                    (next, 1)
                }
                Pattern::Ring if rng.below(5) > 0 => (rng.below(self.units * 8 / 10), 1),
                Pattern::Ring => {
                    next = (next + 1) % (self.units / 5);
                    (self.units * 8 / 10 + next, 1)
                }
            };
            let unit = unit.min(self.units - length);
            Request { arrival_ns: now as u64, ..request(0.0, op, unit * 8, 8 * length as u32) }
        };
        (0..self.count).map(each).collect()
    }
}

/// Sums of the shares of ranks.
fn zipf(units: u64, exponent: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut sums: Vec<f64> = (1..=units)
        .map(|rank| {
            sum += (rank as f64).powf(-exponent);
            sum
        })
        .collect();
    for each in &mut sums {
        *each /= sum;
    }
    sums
}

impl SourceFactory for Host {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        VecSource::new(self.requests(pass)).open(0)
    }
}

/// Drives that differ in everything that collection depends on.
fn drive(which: usize) -> Value {
    let drives = [
        json!({
            "geometry": { "channels": 1, "ways": 2, "blocks_per_plane": 256, "pages_per_block": 32, "page_bytes": 4096 },
            "ftl": { "over_provisioning": 0.15 },
        }),
        json!({
            "geometry": { "channels": 4, "ways": 2, "blocks_per_plane": 96, "pages_per_block": 24, "page_bytes": 4096 },
            "ftl": { "over_provisioning": 0.28, "gc": "cost_benefit" },
        }),
        json!({
            "geometry": {
                "channels": 2, "ways": 1, "planes": 2, "blocks_per_plane": 160, "pages_per_block": 16, "page_bytes": 4096,
            },
            "ftl": { "over_provisioning": 0.5, "gc": "fifo" },
        }),
        json!({
            "geometry": {
                "channels": 2, "ways": 2, "blocks_per_plane": 100, "pages_per_block": 16, "page_bytes": 16384,
                "mapping_unit_bytes": 4096,
            },
            "ftl": { "over_provisioning": 0.2 },
            "timing": { "read_us": 60, "program_us": 700, "erase_us": 3500, "bus_mb_per_s": 800 },
        }),
        json!({
            "geometry": { "channels": 2, "ways": 3, "blocks_per_plane": 90, "pages_per_block": 48, "page_bytes": 4096 },
            "cell": { "kind": "tlc" },
            "ftl": { "over_provisioning": 0.22, "gc": "d_choices", "striping": "static" },
            "timing": { "read_us": 60, "program_us": 500, "erase_us": 3500, "bus_mb_per_s": 400 },
        }),
        json!({
            "geometry": { "channels": 3, "ways": 1, "blocks_per_plane": 200, "pages_per_block": 20, "page_bytes": 4096 },
            "ftl": { "over_provisioning": 0.12, "gc": "windowed_greedy", "gc_window": 40 },
        }),
        json!({
            "geometry": {
                "channels": 2, "ways": 2, "blocks_per_plane": 120, "pages_per_block": 16, "page_bytes": 8192,
                "mapping_unit_bytes": 4096,
            },
            "ftl": { "over_provisioning": 0.35, "gc": "random" },
            "timing": { "read_us": 40, "program_us": 400, "erase_us": 2000, "bus_mb_per_s": 200 },
        }),
        json!({
            "geometry": { "channels": 1, "ways": 4, "blocks_per_plane": 128, "pages_per_block": 32, "page_bytes": 4096 },
            "cell": { "kind": "mlc" },
            "ftl": { "over_provisioning": 0.25, "gc_open_block": "shared", "gc_low_free_blocks": 4 },
            "timing": { "read_us": 50, "program_us": 600, "erase_us": 3000, "bus_mb_per_s": 100 },
        }),
        json!({
            "geometry": {
                "channels": 2, "ways": 2, "planes": 2, "blocks_per_plane": 80, "pages_per_block": 24, "page_bytes": 4096,
            },
            "ftl": { "over_provisioning": 0.18, "gc": "cost_benefit" },
            "timing": { "independent_planes": true },
        }),
    ];
    let host = json!({ "host": { "arrival": "closed", "queue_depth": 32 } });
    merged(drives[which].clone(), host)
}

fn opened(which: usize, changes: Value) -> DeviceConfig {
    device(merged(drive(which), changes))
}

fn simulated(config: &DeviceConfig, host: &Host, timing: bool) -> Summary {
    let options = RunOptions { timing, seed: host.seed, ..RunOptions::default() };
    let outcome = simulate(config, host, &options, &RunControl::default(), &mut ()).unwrap();
    assert_eq!(outcome.error, None);
    outcome.summary
}

fn has(summary: &Summary, code: &str) -> bool {
    summary.warnings.iter().any(|warning| warning.code == code)
}

fn amplification(summary: &Summary) -> f64 {
    summary.write_amplification.as_ref().unwrap().total
}

fn aged(pattern: &str) -> Value {
    json!({ "precondition": { "kind": "steady", "pattern": pattern, "tolerance": 0.01 } })
}

/// Write amplification in the long run: of thirty capacities, the last twenty.
#[derive(Default)]
struct Truth(HashMap<(usize, Pattern), f64>);

impl Truth {
    fn of(&mut self, which: usize, pattern: Pattern) -> f64 {
        *self.0.entry((which, pattern)).or_insert_with(|| {
            let config = opened(which, aged("workload"));
            let units = config.logical_pages();
            let programmed = |capacities: f64| {
                amplification(&simulated(&config, &Host::new(pattern, units, capacities, 77), false))
                    * capacities
            };
            (programmed(30.0) - programmed(10.0)) / 20.0
        })
    }
}

/// Wrong answers, each with its case, and how many answers there were.
#[derive(Debug, Default)]
struct Judged {
    wrong: Vec<String>,
    all: usize,
}

impl Judged {
    fn take(&mut self, right: bool, case: impl FnOnce() -> String) {
        self.all += 1;
        if !right {
            self.wrong.push(case());
        }
    }

    fn add(&mut self, other: Judged) {
        self.wrong.extend(other.wrong);
        self.all += other.all;
    }

    /// At most 2 % are wrong; of fewer than fifty, none.
    fn assert(&self, what: &str) {
        assert!(self.wrong.len() * 50 <= self.all, "{what}: {self:#?}");
    }
}

/// Drives that are not in a steady state: new, full, aged by others, or by a host that changes.
fn unsteady(which: usize, pattern: Pattern, round: usize, seed: u64) -> (Value, Host, String) {
    let units = opened(which, json!({})).logical_pages();
    let fill = json!({ "precondition": { "kind": "fill" } });
    let (before, capacities) = match round / 2 % 4 {
        // A part of a new drive has all the rest for spare space, for ever.
        0 if pattern == Pattern::Most => (fill, 0.2),
        0 => (json!({}), [0.4, 1.2, 2.5, 4.0][round / 8 % 4]),
        1 => (fill, [0.25, 0.5, 0.8, 1.1][round / 8 % 4]),
        2 => (aged("sequential"), [0.3, 0.5, 0.7, 0.9][round / 8 % 4]),
        _ => (aged("uniform"), 4.0),
    };
    let mut host = Host::new(pattern, units, capacities, seed);
    if round / 2 % 4 == 3 {
        // Of the two, one has another write amplification than the other.
        let (first, then) = if pattern == Pattern::Most {
            (Pattern::VeryHot, Pattern::Most)
        } else {
            (Pattern::Most, pattern)
        };
        host = Host { pattern: first, then, ..host };
    }
    let case = format!(
        "drive {which}, {:?} to {:?}, {capacities} capacities, {before}, seed {seed}",
        host.pattern, host.then
    );
    (before, host, case)
}

/// False alarms, misses, and how many runs were neither one nor the other.
fn judge_steadiness(set: &Set, seeds: Range<u64>) -> (Judged, Judged, usize) {
    let (mut alarms, mut misses, mut unknown) = (Judged::default(), Judged::default(), 0);
    let mut truths = Truth::default();
    for seed in seeds {
        let round = seed as usize;
        let which = set.drives.start + round % set.drives.len();
        let pattern = set.patterns[round / set.drives.len() % set.patterns.len()];
        let truth = truths.of(which, pattern);
        let config = opened(which, aged("workload"));
        let capacities = [0.7, 1.4, 2.6, 5.0][round / 3 % 4];
        let read_share = if round.is_multiple_of(3) { 0.6 } else { 0.0 };
        let host = Host { read_share, ..Host::new(pattern, config.logical_pages(), capacities, seed) };
        let summary = simulated(&config, &host, false);
        // Aged by its own workload and close to what thirty capacities say: that is what steady means.
        let off = amplification(&summary) / truth - 1.0;
        if off.abs() < 0.05 {
            let case =
                || format!("drive {which}, {pattern:?}, {capacities} capacities, seed {seed}, {off:.3} off");
            let told = |one: &Warning| format!("{}: {}", case(), one.text);
            let warning = summary.warnings.iter().find(|warning| warning.code == "not_steady");
            alarms.take(warning.is_none(), || warning.map_or_else(String::new, told));
        } else {
            unknown += 1;
        }
        let (before, host, case) = unsteady(which, pattern, round, seed);
        let summary = simulated(&opened(which, before.clone()), &host, false);
        let off = if host.pattern == host.then {
            amplification(&summary) / truth - 1.0
        } else {
            // The first half alone tells what the second one did.
            let half = Host { then: host.pattern, count: host.count / 2, ..host };
            let first = amplification(&simulated(&opened(which, before), &half, false));
            let (one, other) = (host.pattern.length(), host.then.length());
            (amplification(&summary) * (one + other) - first * one) / other / first - 1.0
        };
        // Less than a tenth off, by chance or because patterns are alike: neither one nor the other.
        if off.abs() < 0.1 {
            unknown += 1;
            continue;
        }
        misses.take(has(&summary, "not_steady"), || format!("{case}: {off:.2} off"));
    }
    (alarms, misses, unknown)
}

fn judge_loads(set: &Set, seeds: Range<u64>, shares: &[f64]) -> (Judged, Judged) {
    let (mut alarms, mut misses) = (Judged::default(), Judged::default());
    for seed in seeds {
        let round = seed as usize;
        let count = set.drives.len();
        let which = set.drives.start + round % count;
        let pattern = set.patterns[(round + round / count) % set.patterns.len()];
        let before =
            json!({ "precondition": { "kind": "steady", "pattern": "workload", "tolerance": 0.05 } });
        let mut open = opened(which, before);
        open.host = serde_json::from_value(json!({ "arrival": "open" })).unwrap();
        open.validate().unwrap();
        let read_share = [0.0, 0.4, 0.9][round % 3];
        // All at one moment: that takes as long as the busiest die needs, as no other waits for it.
        let able = Host { read_share, ..Host::new(pattern, open.logical_pages(), 1.2, seed) };
        let most = simulated(&open, &able, true).host.iops;
        for (at, share) in shares.iter().enumerate() {
            let mean = 1e9 / (most * share);
            // Bursts fill a queue and leave it: only their average is a load.
            let gaps = if at % 3 == 1 && *share < 0.7 { Gaps::Bursts(mean) } else { Gaps::Poisson(mean) };
            let summary = simulated(&open, &Host { gaps, ..able }, true);
            let told = has(&summary, "overloaded");
            let case = || {
                format!("drive {which}, {pattern:?}, {read_share} reads, load {share}, {gaps:?}, seed {seed}")
            };
            if *share > 1.0 { misses.take(told, case) } else { alarms.take(!told, case) }
        }
    }
    (alarms, misses)
}

/// Each set with a seed of steadiness and one of loads for the short tests.
const SETS: [(&str, &Set, u64, u64); 4] = [
    ("first", &FIRST, 1003, 2003),
    ("second", &SECOND, 5001, 6001),
    ("third", &THIRD, 9001, 9501),
    ("fourth", &FOURTH, 31_001, 30_001),
];

#[test]
#[ignore = "a long test: make test-long"]
#[allow(clippy::print_stdout, reason = "the cases that are wrong are looked at")]
fn steadiness_is_judged_right_where_no_bound_was_chosen() {
    let (mut all_alarms, mut all_misses) = (Judged::default(), Judged::default());
    for (name, set, seed, _) in SETS {
        let seeds = if is_long() { set.steadiness.clone() } else { seed..seed + 1 };
        let (alarms, misses, unknown) = judge_steadiness(set, seeds);
        println!("{name}, not_steady: false alarms {alarms:#?}, misses {misses:#?}, neither {unknown}");
        all_alarms.add(alarms);
        all_misses.add(misses);
    }
    all_alarms.assert("false alarms of not_steady");
    all_misses.assert("misses of not_steady");
}

#[test]
#[allow(clippy::print_stdout, reason = "the cases that are wrong are looked at")]
fn loads_are_judged_right_where_no_bound_was_chosen() {
    let (mut all_alarms, mut all_misses) = (Judged::default(), Judged::default());
    for (name, set, _, seed) in SETS {
        let (seeds, shares) =
            if is_long() { (set.loads.clone(), set.shares) } else { (seed..seed + 1, &[0.6, 1.6][..]) };
        let (alarms, misses) = judge_loads(set, seeds, shares);
        println!("{name}, overloaded: false alarms {alarms:#?}, misses {misses:#?}");
        all_alarms.add(alarms);
        all_misses.add(misses);
    }
    all_alarms.assert("false alarms of overloaded");
    all_misses.assert("misses of overloaded");
}

/// It copies data that never change for half of this run, and catches up after it: only what is too much is too much.
#[test]
fn a_drive_that_stands_still_has_time_for_a_load_that_it_can_do() {
    let (alarms, misses) = judge_loads(&FIRST, 2002..2003, &[0.85, 1.15]);
    alarms.assert("false alarms");
    misses.assert("misses");
}
