//! Mapping caches in plain LRU order against reuse distances counted here.
#![allow(clippy::print_stdout, reason = "measured values, shown with --nocapture")]

use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_core::host::request::{Op, Request, SourceFactory, VecSource};
use ftlab_core::mapcache::translation::MapCacheSummary;
use ftlab_validation::{is_long, load, load_source, settings, traces};

const UNIT_SECTORS: u64 = 8;

/// For each distance, in distinct keys, how many accesses re-use a key at it; and the accesses.
fn reuse(keys: &[u64]) -> (Vec<u64>, u64) {
    // A one at the place of each key's last access, summed by a binary indexed tree.
    let mut tree = vec![0_i64; keys.len() + 1];
    let add = |tree: &mut Vec<i64>, at: usize, change: i64| {
        let mut at = at + 1;
        while at < tree.len() {
            tree[at] += change;
            at += at & at.wrapping_neg();
        }
    };
    let before = |tree: &Vec<i64>, end: usize| {
        let (mut at, mut sum) = (end, 0);
        while at > 0 {
            sum += tree[at];
            at &= at - 1;
        }
        sum
    };
    let mut last = std::collections::BTreeMap::new();
    let mut distances = vec![0; keys.len() + 1];
    for (now, key) in keys.iter().enumerate() {
        if let Some(then) = last.insert(*key, now) {
            distances[(before(&tree, now) - before(&tree, then)) as usize] += 1;
            add(&mut tree, then, -1);
        }
        add(&mut tree, now, 1);
    }
    (distances, keys.len() as u64)
}

/// Requests of a source, `limit` at most.
fn requests(source: &dyn SourceFactory, limit: usize) -> Vec<Request> {
    let mut source = source.open(0).unwrap();
    let mut requests = Vec::new();
    while requests.len() < limit {
        let wanted = 4096.min(limit - requests.len());
        if source.fill(&mut requests, wanted).unwrap() == 0 {
            break;
        }
    }
    requests
}

fn units(requests: &[Request]) -> Vec<u64> {
    let touches = |request: &&Request| matches!(request.op, Op::Read | Op::Write) && request.sectors > 0;
    let spans = requests.iter().filter(touches).map(|request| {
        request.lba / UNIT_SECTORS..=(request.lba + u64::from(request.sectors) - 1) / UNIT_SECTORS
    });
    spans.flatten().collect()
}

/// A scheme in plain LRU order, where a larger memory holds all that a smaller one does.
struct Stack {
    kind: &'static str,
    /// What makes it one.
    key: Option<&'static str>,
    /// Units that come and go together.
    units: u64,
    /// Memory that they take.
    bytes: u64,
}

const STACKS: [Stack; 4] = [
    Stack { kind: "dftl", key: Some("map_cache.protected_fraction=0.0"), units: 1, bytes: 4 },
    Stack { kind: "half_page", key: None, units: 512, bytes: 2048 },
    Stack { kind: "full_page", key: None, units: 1024, bytes: 4096 },
    Stack { kind: "bsb", key: Some("map_cache.candidates=[\"full_page\"]"), units: 1024, bytes: 4096 },
];

/// Hits over memory sizes, of the simulator and by reuse distances: from four of what comes and goes to all of it.
fn compare(name: &str, source: &dyn SourceFactory) {
    // Generated once: they are run some seventy times.
    let requests = requests(source, if is_long() { 150_000 } else { 30_000 });
    let touched = units(&requests);
    let source = VecSource::new(requests);
    for Stack { kind, key, units, bytes } in &STACKS {
        let keys: Vec<u64> = touched.iter().map(|unit| unit / units).collect();
        let (distances, accesses) = reuse(&keys);
        let different = keys.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
        let mut previous = 0;
        for held in (1..).map(|step| 4_u64.pow(step)) {
            let mut changes = settings(&[("map_cache.kind", kind), ("map_cache.bytes", &(held * bytes))]);
            changes.extend(key.map(str::to_owned));
            let device = load("map-cache-model", &changes);
            let run = simulate(&device, &source, &RunOptions::default(), &RunControl::default(), &mut ());
            let outcome = run.unwrap();
            assert_eq!(outcome.error, None);
            let cache = outcome.summary.parts.get::<MapCacheSummary>().unwrap();
            let counted: u64 = distances.iter().take(held as usize + 1).sum();
            println!(
                "{name}, {kind} {}, {held} held: hit ratio {:.6}",
                key.unwrap_or_default(),
                cache.hit_ratio
            );
            assert_eq!((cache.lookups, cache.hits), (accesses, counted), "{name}, {kind}, {held} held");
            assert!(cache.hits >= previous, "{name}, {kind}: a larger memory hits less");
            previous = cache.hits;
            if held >= different {
                assert_eq!(cache.hits, accesses - different, "{name}, {kind}: only the first touch misses");
                break;
            }
        }
    }
}

/// The mapping cache of the paper with these keys, over a source.
fn run(keys: &[(&str, &dyn std::fmt::Display)], source: &dyn SourceFactory) -> MapCacheSummary {
    let device = load("map-cache-model", &settings(keys));
    let outcome = simulate(&device, source, &RunOptions::default(), &RunControl::default(), &mut ()).unwrap();
    assert_eq!(outcome.error, None);
    outcome.summary.parts.get::<MapCacheSummary>().unwrap()
}

/// The share of the misses at which a window was chosen, by whether it is less than half a page.
fn small_windows(cache: &MapCacheSummary) -> f64 {
    let small = cache.windows.iter().filter(|(name, _)| name.starts_with("tafp_"));
    small.map(|(_, count)| *count as f64).sum::<f64>() / cache.windows.values().sum::<u64>() as f64
}

/// Section 8.4 of the specification: the score board has not locked into whole pages where small windows suit.
#[test]
#[ignore = "a long test: make test-long"]
fn the_board_takes_the_windows_that_suit_a_workload() {
    let limit = if is_long() { usize::MAX } else { 40_000 };
    for (workload, small) in
        [("like-financial", 0.8..=1.0), ("like-tpcc1", 0.0..=0.3), ("like-pc", 0.0..=0.2)]
    {
        let device = load("map-cache-model", &[]);
        let source = VecSource::new(requests(&*load_source(&device, workload, &[]), limit));
        let told = run(&[("map_cache.kind", &"bsb"), ("map_cache.bytes", &"32KiB")], &source);
        println!("{workload}: {:?}", told.windows);
        let found = small_windows(&told);
        assert!(small.contains(&found), "{workload}: {found}");
        let old = [
            ("map_cache.kind", &"bsb" as &dyn std::fmt::Display),
            ("map_cache.bytes", &"32KiB"),
            ("map_cache.board", &"nearest_run"),
        ];
        println!("{workload}, nearest run: {:?}", run(&old, &source).windows);
    }
}

/// What ghosts pay, sampled and charged, beside the best of the windows of the paper in hindsight.
#[test]
#[ignore = "a long test: make test-long"]
fn ghosts_cost_little_more_than_the_best_window() {
    let limit = if is_long() { usize::MAX } else { 100_000 };
    for workload in ["like-financial", "like-tpcc1", "like-pc"] {
        let device = load("map-cache-model", &[]);
        let source = VecSource::new(requests(&*load_source(&device, workload, &[]), limit));
        for kib in [16, 64] {
            print_regret(workload, kib, &source, Some(0.2));
        }
    }
}

/// Penalties of what learns over that of the best window, less 1, for a memory; held to `most` where that is said.
fn print_regret(name: &str, kib: u64, source: &dyn SourceFactory, most: Option<f64>) {
    let bytes = kib << 10;
    let penalty = |keys: &[(&str, &dyn std::fmt::Display)]| {
        let keys: Vec<_> = [("map_cache.bytes", &bytes as &dyn std::fmt::Display)]
            .into_iter()
            .chain(keys.iter().copied())
            .collect();
        run(&keys, source)
    };
    let windows = [8, 16, 32, 64, 128, 256]
        .map(|window| penalty(&[("map_cache.kind", &"tafp"), ("map_cache.window_bytes", &window)]));
    let [half, full] = ["half_page", "full_page"].map(|kind| penalty(&[("map_cache.kind", &kind)]));
    let fixed = windows.iter().chain([&half, &full]).map(|cache| cache.mean_penalty_ns);
    let best = fixed.fold(f64::INFINITY, f64::min);
    let ghosts = penalty(&[("map_cache.kind", &"ghosts")]);
    let requests = penalty(&[
        ("map_cache.kind", &"ghosts"),
        ("map_cache.candidates", &"[\"r16\", \"r64\", \"r256\", \"half_page\", \"full_page\"]"),
    ]);
    let board = penalty(&[("map_cache.kind", &"bsb")]);
    let old = penalty(&[("map_cache.kind", &"bsb"), ("map_cache.board", &"nearest_run")]);
    let regret = |cache: &MapCacheSummary| 100.0 * (cache.mean_penalty_ns / best - 1.0);
    let gain = |other: &MapCacheSummary| 100.0 * (1.0 - board.mean_penalty_ns / other.mean_penalty_ns);
    println!(
        "{name}, {kib} KiB: regret of ghosts {:.1} % (by their own count {:.1} %), with windows of requests {:.1} %, of the board {:.1} %, \
         by the nearest run {:.1} %, of full pages {:.1} %; the board gains {:.1} % over half pages, {:.1} % over full ones",
        regret(&ghosts),
        100.0 * ghosts.scores["regret"],
        regret(&requests),
        regret(&board),
        regret(&old),
        regret(&full),
        gain(&half),
        gain(&full)
    );
    if let Some(most) = most {
        assert!(regret(&ghosts) < 100.0 * most, "{name}, {kib} KiB: {}", regret(&ghosts));
    }
}

/// Requests moved together to the translation pages of 4 MiB that they touch.
fn closed_up(requests: &[Request]) -> Vec<Request> {
    const SECTORS: u64 = 8 << 10;
    let touched = |request: &Request| {
        request.lba / SECTORS..=(request.lba + u64::from(request.sectors).max(1) - 1) / SECTORS
    };
    let pages: std::collections::BTreeSet<u64> = requests.iter().flat_map(touched).collect();
    let place: std::collections::BTreeMap<u64, u64> = pages.into_iter().zip(0..).collect();
    let moved = |request: &Request| Request {
        lba: place[&(request.lba / SECTORS)] * SECTORS + request.lba % SECTORS,
        ..*request
    };
    requests.iter().map(moved).collect()
}

/// The figures of section 8.4 on recordings; printed, as the recordings are not in the project.
#[test]
#[ignore = "a long test: make test-long"]
fn recordings_are_printed_where_they_are_at_hand() {
    let Some(folder) = traces() else {
        println!("skipped: no folder of traces (FTLAB_TRACES)");
        return;
    };
    const COLUMNS: &str = "columns:arrival_ms stream lba pages_4k op[read=1 write=0]";
    for (file, writes) in
        [("desktop-misc/flashsim-desktop.trace.zst", false), ("umass-spc/flashsim-fin1.trace.zst", true)]
    {
        let options = ftlab_trace::OpenOptions { format: Some(COLUMNS.into()), ..Default::default() };
        let trace = ftlab_trace::open(folder.join(file), &options).unwrap();
        let mut requests = closed_up(&requests(&trace, usize::MAX));
        if writes {
            for request in &mut requests {
                request.op = Op::Write;
            }
        }
        let source = VecSource::new(requests);
        for kib in [16, 32, 64] {
            print_regret(file, kib, &source, None);
        }
    }
}

#[test]
#[ignore = "a long test: make test-long"]
fn plain_lru_hits_as_reuse_distances_say() {
    let device = load("map-cache-model", &settings(&[("map_cache.kind", &"dftl")]));
    let keys = settings(&[("footprint_bytes", &"1GiB"), ("read_fraction", &0.5)]);
    compare("zipf", &*load_source(&device, "zipf", &keys));
    compare("like-financial", &*load_source(&device, "like-financial", &[]));
}

#[test]
#[ignore = "a long test: make test-long"]
fn and_on_the_real_traces_where_they_are_at_hand() {
    let Some(folder) = traces() else {
        println!("skipped: no folder of traces (FTLAB_TRACES)");
        return;
    };
    for (file, format) in [
        ("Financial_mini.spc", "spc"),
        ("flashsim-fin1.trace.zst", "flashsim"),
        ("flashsim-web1.trace.zst", "flashsim"),
    ] {
        let options = ftlab_trace::OpenOptions { format: Some(format.into()), ..Default::default() };
        let trace = ftlab_trace::open(folder.join("umass-spc").join(file), &options).unwrap();
        compare(file, &trace);
    }
}
