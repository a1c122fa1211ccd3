//! Workloads fitted to traces resemble them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::real::{ROWS, traces};
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_core::host::request::{Op, Request, RequestSource, SourceFactory, VecSource};
use ftlab_core::mapcache::translation::MapCacheSummary;
use ftlab_core::time::LATEST_NS;
use ftlab_stats::{LifetimeStats, ReuseMethod, StatsCollector, StatsOptions, TraceStats, collect};
use ftlab_workload::fit::{fit, to_toml};
use ftlab_workload::{CommonKeys, FittedModel, RequestBytes, SizeClass, WorkloadConfig, WorkloadKind};

fn stats(source: &mut dyn RequestSource) -> TraceStats {
    let options = StatsOptions { reuse: ReuseMethod::Exact, ..StatsOptions::default() };
    collect(source, StatsCollector::new(options).unwrap()).unwrap()
}

fn workload(model: FittedModel) -> WorkloadConfig {
    let mut config = WorkloadConfig::new(WorkloadKind::Fitted, CommonKeys::default());
    config.own.fitted.fitted = Some(Box::new(model));
    config
}

/// The workload with other shared keys.
fn changed(config: &WorkloadConfig, change: impl FnOnce(&mut CommonKeys)) -> WorkloadConfig {
    let mut config = config.clone();
    change(&mut config.common);
    config
}

/// Fit `trace`, generate with each seed, compare; gives what is off by too much.
fn misfits(name: &str, trace: &dyn SourceFactory, seeds: &[u64]) -> Vec<String> {
    let recorded = stats(&mut *trace.open(0).unwrap());
    let model = fit(trace, recorded.requests).unwrap();
    let text = to_toml(name, &model);
    assert!(text.len() < 80_000, "{name}: {} bytes", text.len());
    let config = workload(model);
    let config = |seed: &u64| changed(&config, |common| common.seed = Some(*seed));
    let misfits = seeds.iter().filter_map(|seed| misfits_of(name, &recorded, &config(seed)));
    let caches = cache_misfits(name, trace, &*config(&seeds[0]).factory(1 << 50, None, None).unwrap());
    misfits.chain(caches).collect()
}

/// Mapping caches of 64 KiB, and by how much the share of lookups that miss may be off.
const CACHES: [(&str, f64); 4] = [("full_page", 0.05), ("tafp", 0.07), ("sftl", 0.05), ("dftl", 0.1)];

fn cache_misfits(name: &str, trace: &dyn SourceFactory, fitted: &dyn SourceFactory) -> Option<String> {
    let [(recorded, first), (fitted, second)] = [trace, fitted].map(by_first_use);
    let regions = first.max(second);
    let off = CACHES.map(|(kind, most)| {
        let [recorded, fitted] = [&recorded, &fitted].map(|source| misses(source, regions, kind));
        (kind, fitted - recorded, most)
    });
    eprintln!("{name:32.32} {}", off.map(|(kind, off, _)| format!("{kind} {off:6.3}")).join("  "));
    let wrong: Vec<_> = off.into_iter().filter(|(_, off, most)| off.abs() > *most).collect();
    (!wrong.is_empty()).then(|| format!("{name}, mapping caches: {wrong:?}"))
}

/// The requests with regions of 4 MiB, which translation pages map, in the order of their first use; and how many
/// regions these are. So a drive need not be as large as their addresses. Trims of other regions are left out.
fn by_first_use(factory: &dyn SourceFactory) -> (VecSource, u64) {
    const REGION_SECTORS: u64 = 8192;
    let mut source = factory.open(0).unwrap();
    let (mut batch, mut requests, mut regions) = (Vec::new(), Vec::new(), HashMap::new());
    while source.fill(&mut batch, 1 << 16).unwrap() > 0 {
        for request in batch.drain(..) {
            let (mut lba, end) = (request.lba, request.lba + u64::from(request.sectors));
            while lba < end {
                let (number, behind) =
                    (lba / REGION_SECTORS, end.min((lba / REGION_SECTORS + 1) * REGION_SECTORS));
                let (key, next) = ((request.stream, number), regions.len() as u64);
                let region = match request.op {
                    Op::Trim => regions.get(&key).copied(),
                    _ => Some(*regions.entry(key).or_insert(next)),
                };
                requests.extend(region.map(|region| Request {
                    lba: region * REGION_SECTORS + lba % REGION_SECTORS,
                    sectors: (behind - lba) as u32,
                    arrival_ns: 0,
                    stream: 0,
                    ..request
                }));
                lba = behind;
            }
        }
    }
    (VecSource::new(requests), regions.len() as u64)
}

/// The share of lookups that miss a mapping cache on a drive of so many regions.
fn misses(source: &VecSource, regions: u64, kind: &str) -> f64 {
    let blocks = 2 * (8 * regions + 64);
    let device = serde_json::json!({
        "geometry": {"channels": 1, "ways": 1, "dies": 1, "planes": 1, "blocks_per_plane": blocks, "pages_per_block": 128,
            "page_bytes": 4096},
        "timing": {"read_us": 200, "program_us": 1600, "erase_us": 3000, "bus_mb_per_s": 40},
        "cell": {"kind": "slc"},
        "model": "mapping_cache",
        "ftl": {"logical_bytes": (regions + 1) * (4 << 20)},
        "map_cache": {"kind": kind, "bytes": "64KiB"},
        "host": {"arrival": "closed"},
    });
    let device: DeviceConfig = serde_json::from_value(device).unwrap();
    let run = simulate(&device, source, &RunOptions::default(), &RunControl::default(), &mut ());
    let outcome = run.unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.error.is_none(), "{:?}", outcome.error);
    1.0 - outcome.summary.parts.get::<MapCacheSummary>().unwrap().hit_ratio
}

fn misfits_of(name: &str, recorded: &TraceStats, config: &WorkloadConfig) -> Option<String> {
    let factory = config.factory(1 << 50, None, None).unwrap();
    let fitted = stats(&mut *factory.open(0).unwrap());
    let (curve, other) = (recorded.reuse.as_ref(), fitted.reuse.as_ref());
    let off = match curve.zip(other) {
        Some((curve, other)) => curve.miss_ratio_curve.mean_difference(&other.miss_ratio_curve),
        None => 0.0,
    };
    let relative = |a: u64, b: u64| if b == 0 { a as f64 } else { a as f64 / b as f64 - 1.0 };
    // Reads and writes are exact, and so is their ratio.
    assert_eq!(
        [fitted.requests, fitted.reads, fitted.writes, fitted.trims, fitted.flushes],
        [recorded.requests, recorded.reads, recorded.writes, recorded.trims, recorded.flushes],
        "{name}"
    );
    let mean = fitted.mean_request_bytes.unwrap() / recorded.mean_request_bytes.unwrap();
    let footprint = relative(fitted.footprint_pages_4k, recorded.footprint_pages_4k);
    let duration = relative(fitted.duration_ns, recorded.duration_ns);
    let written = relative(fitted.footprint_written_pages_4k, recorded.footprint_written_pages_4k);
    // Each volume has a few regions of 4 MiB to spare.
    let spare = recorded.volumes * (36 << 20);
    let off_by = fitted.address_range_bytes.abs_diff(recorded.address_range_bytes).saturating_sub(spare);
    let range = relative(off_by + recorded.address_range_bytes, recorded.address_range_bytes);
    let sequential = [recorded, &fitted].map(|stats| stats.sequential_fraction.unwrap());
    let hottest =
        [recorded, &fitted].map(|stats| stats.hotness.as_ref().map_or(1.0, |hot| hot.top_10_percent));
    let where_they_lie = where_they_lie(recorded, &fitted);
    let lives = lives_off(recorded, &fitted);
    eprintln!(
        "{name:32.32} {:8} {:2} {off:6.3} {:6.3} {footprint:6.3} {written:6.3} {duration:6.3} {range:6.3}  {:5.3} {:5.3}  \
         {:5.3} {:5.3}  {:7.4} {:6.3} {lives:6.3}",
        recorded.requests,
        config.common.seed.unwrap_or_default(),
        mean - 1.0,
        sequential[0],
        sequential[1],
        hottest[0],
        hottest[1],
        where_they_lie[0],
        where_they_lie[1]
    );
    let wrong = [
        ("miss ratios", off, 0.03),
        ("mean size", mean - 1.0, 0.02),
        ("footprint", footprint, 0.05),
        ("written footprint", written, 0.05),
        ("duration", duration, 0.01),
        ("address range", range, 0.25),
        ("sequential requests", sequential[1] - sequential[0], 0.1),
        ("misses of a mapping cache", where_they_lie[0], 0.01),
        ("what became of writes", lives, 0.08),
    ];
    let wrong: Vec<_> = wrong.into_iter().filter(|(_, off, most)| off.abs() > *most).collect();
    (!wrong.is_empty()).then(|| format!("{name}, seed {:?}: {wrong:?}", config.common.seed))
}

/// By how much the share of accesses that miss a mapping cache of 4 MiB is off, and that of hits ahead of what missed.
fn where_they_lie(recorded: &TraceStats, fitted: &TraceStats) -> [f64; 2] {
    let Some((a, b)) = recorded.intra_distance.as_ref().zip(fitted.intra_distance.as_ref()) else {
        return [0.0; 2];
    };
    let missed = |misses: u64, hits: u64| misses as f64 / (misses + hits) as f64;
    let ahead = b.ahead_fraction.unwrap_or_default() - a.ahead_fraction.unwrap_or_default();
    [missed(b.misses, b.hits) - missed(a.misses, a.hits), ahead]
}

/// The largest difference in the shares of page writes that were overwritten, trimmed, or live; 0 without trims.
fn lives_off(recorded: &TraceStats, fitted: &TraceStats) -> f64 {
    let lives = recorded.lifetime.as_ref().zip(fitted.lifetime.as_ref());
    let Some((a, b)) = lives.filter(|_| recorded.trims > 0) else { return 0.0 };
    let shares = |life: &LifetimeStats| {
        [life.overwritten, life.trimmed, life.alive].map(|count| count as f64 / life.page_writes as f64)
    };
    shares(a).iter().zip(shares(b)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

fn weighted(sizes: &[(u64, f64)]) -> RequestBytes {
    let class =
        |&(bytes, weight)| SizeClass { min_bytes: bytes, max_bytes: bytes, step_bytes: bytes, weight };
    RequestBytes::Weighted(sizes.iter().map(class).collect())
}

/// Longer traces are for `make test-long`.
const SHORT: usize = 20_000;

#[test]
#[ignore = "a long test: make test-long"]
fn real_traces_are_fitted() {
    let Some(folder) = traces() else {
        eprintln!("skipped: no folder of real traces (set FTLAB_TRACES)");
        return;
    };
    eprintln!(
        "{:32} {:>8} {:>2} {:>6} {:>6} {:>6} {:>6} {:>6} {:>6}  {:>11}  {:>11}  {:>7} {:>6} {:>6}",
        "",
        "requests",
        "",
        "misses",
        "size",
        "pages",
        "writ.",
        "time",
        "range",
        "sequential",
        "hottest",
        "table",
        "ahead",
        "lives"
    );
    let long = std::env::var_os("FTLAB_LONG").is_some();
    let next = AtomicUsize::new(0);
    let misfits = || -> Vec<String> {
        let mut wrong = Vec::new();
        while let Some(row) = ROWS.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut all = Vec::new();
            let mut source = row.open(&folder).and_then(|trace| trace.open(0)).unwrap();
            while (long || all.len() <= SHORT) && source.fill(&mut all, 1 << 16).unwrap() > 0 {}
            if !long && all.len() > SHORT {
                continue;
            }
            // Time stamps of decades come from a clock that was set or wrapped around.
            all.retain(|request: &Request| request.arrival_ns < LATEST_NS);
            let seeds: &[u64] = if long { &[1, 2, 3] } else { &[1] };
            wrong.extend(misfits(row.file.split_once('/').unwrap().1, &VecSource::new(all), seeds));
        }
        wrong
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let threads = [(); 2].map(|()| scope.spawn(misfits));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Statistics of a trace, and of requests of the workload fitted to it.
fn fitted(requests: Vec<Request>) -> [TraceStats; 2] {
    let trace = VecSource::new(requests);
    let recorded = stats(&mut *trace.open(0).unwrap());
    let config = workload(fit(&trace, recorded.requests).unwrap());
    let generated = stats(&mut *config.factory(1 << 50, None, None).unwrap().open(0).unwrap());
    [recorded, generated]
}

/// In each region, runs that begin in its middle and go downwards by jumps; those of eight regions take turns.
#[test]
fn runs_that_go_downwards_do_so_again() {
    let request = |step: u64| {
        let (group, turn) = (step / 1600, step % 8);
        let (region, page) = (8 * group + turn, 600 - step % 1600 / 8 * 2);
        let lba = (region * 1024 + page) * 8;
        Request { arrival_ns: step * 1000, lba, sectors: 8, op: Op::Write, stream: 0, fua: false }
    };
    let [recorded, generated] = fitted((0..16_000).map(request).collect()).map(|stats| {
        assert_eq!(stats.footprint_pages_4k, 16_000);
        assert_eq!(stats.footprint_translation_pages, 80);
        stats.intra_distance.unwrap()
    });
    assert_eq!(recorded.misses, generated.misses);
    assert_eq!(recorded.behind_fraction, Some(1.0));
    assert!(generated.behind_fraction.unwrap() > 0.9, "{:?}", generated.behind_fraction);
}

/// A file system that trims each file whole and writes the next ones where it lay: nothing is overwritten.
#[test]
fn what_was_trimmed_is_written_again() {
    const FILES: u64 = 40;
    const REQUESTS: u64 = 16;
    let mut requests = Vec::new();
    let mut push = |op, lba, sectors| {
        let arrival_ns = requests.len() as u64 * 1000;
        requests.push(Request { arrival_ns, lba, sectors, op, stream: 0, fua: false });
    };
    for round in 0..400 {
        let begin = round * 7 % FILES * 8192;
        if round >= FILES {
            push(Op::Trim, begin, 2048);
        }
        (0..REQUESTS).for_each(|step| push(Op::Write, begin + step * 128, 128));
    }
    let [recorded, generated] = fitted(requests).map(|stats| stats.lifetime.unwrap());
    assert_eq!((recorded.overwritten, recorded.trimmed), (0, 360 * 256));
    assert_eq!(recorded.page_writes, generated.page_writes);
    let share = |count: u64| count as f64 / generated.page_writes as f64;
    assert!(share(generated.overwritten) < 0.1, "{}", generated.overwritten);
    assert!(share(generated.trimmed.abs_diff(recorded.trimmed)) < 0.05, "{}", generated.trimmed);
}

/// One volume is read, one is written, and one is a log that comes to life late.
#[test]
fn volumes_keep_their_reads_and_writes() {
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let request = |step: u64| {
        let kind = random(100);
        let (stream, op, lba) = match kind {
            0..60 => (0, Op::Read, random(40_000) * 8),
            60..80 => (1, Op::Write, random(20_000) * 8),
            _ if step > 10_000 => (2, Op::Write, step % 4096 * 8),
            _ => (0, Op::Read, random(2000) * 8),
        };
        Request { arrival_ns: step * 1000, lba, sectors: 8, op, stream, fua: false }
    };
    let requests: Vec<Request> = (0..20_000).map(request).collect();
    let trace = VecSource::new(requests.clone());
    let config = workload(fit(&trace, requests.len() as u64).unwrap());
    let mut generated = Vec::new();
    let mut source = config.factory(1 << 50, None, None).unwrap().open(0).unwrap();
    while source.fill(&mut generated, 4096).unwrap() > 0 {}
    for stream in 0..3 {
        for op in [Op::Read, Op::Write] {
            let count = |requests: &[Request]| {
                requests.iter().filter(|request| request.stream == stream && request.op == op).count()
            };
            let (recorded, made) = (count(&requests), count(&generated));
            assert!(made.abs_diff(recorded) <= 200, "volume {stream}, {op:?}: {made}, not {recorded}");
        }
    }
}

#[test]
fn models_whose_counts_disagree_are_refused() {
    let request = |step: u64| Request {
        arrival_ns: step,
        lba: step * 64,
        sectors: 8,
        op: Op::Write,
        stream: 0,
        fua: false,
    };
    let requests: Vec<Request> = (0..40)
        .map(|step| Request { op: if step % 9 == 8 { Op::Trim } else { Op::Write }, ..request(step) })
        .collect();
    let model = serde_json::to_value(fit(&VecSource::new(requests), 40).unwrap()).unwrap();
    assert!(workload(serde_json::from_value(model.clone()).unwrap()).factory(1 << 30, None, None).is_ok());
    for (key, expected) in [("/places", "ranks"), ("/phases/0/ranks", "jump"), ("/phases/0/trims", "trims")] {
        let mut changed = model.clone();
        *changed.pointer_mut(key).unwrap() = serde_json::json!([]);
        let Err(told) = workload(serde_json::from_value(changed).unwrap()).factory(1 << 30, None, None)
        else {
            panic!("{key} is empty")
        };
        let (told, key) = (told.to_string(), key.rsplit('/').next().unwrap());
        assert!(told.contains(key) && told.contains(expected), "{told}");
    }
}

/// Most requests near each other, a few far away, some of them large, and some pages hot: nothing near makes up for what
/// opens regions far away.
#[test]
#[ignore = "a long test: make test-long"]
fn as_many_regions_are_touched_as_were() {
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let request = |step: u64| {
        let sectors = if random(20) == 0 { 2048 } else { 8 };
        let lba = match random(10) {
            0..4 => random(5),
            4..9 => random(125_000),
            _ => random(125_000_000),
        };
        let op = if random(2) == 0 { Op::Read } else { Op::Write };
        Request { arrival_ns: step * 1000, lba: lba * 8, sectors, op, stream: 0, fua: false }
    };
    let [recorded, generated] = fitted((0..30_000).map(request).collect());
    let (was, is) = (recorded.footprint_translation_pages, generated.footprint_translation_pages);
    assert!(is.abs_diff(was) <= was / 50, "{is} translation pages, not {was}");
}

#[test]
fn models_of_older_versions_are_refused() {
    let request = Request { arrival_ns: 0, lba: 0, sectors: 8, op: Op::Write, stream: 0, fua: false };
    let model = fit(&VecSource::new(vec![request]), 1).unwrap();
    let mut old = serde_json::to_value(&model).unwrap();
    for key in ["version", "places"] {
        old.as_object_mut().unwrap().remove(key);
    }
    old.pointer_mut("/phases/0").unwrap().as_object_mut().unwrap().remove("ranks");
    let Err(told) = workload(serde_json::from_value(old).unwrap()).factory(1 << 30, None, None) else {
        panic!("it is old")
    };
    let told = told.to_string();
    assert!(told.contains("fitted.version") && told.contains("fit the trace again"), "{told}");
}

fn requests(config: &WorkloadConfig) -> Vec<Request> {
    let mut source = config.factory(4 << 30, None, None).unwrap().open(0).unwrap();
    let mut requests = Vec::new();
    while source.fill(&mut requests, 4096).unwrap() > 0 {}
    requests
}

#[test]
fn synthetic_workloads_are_fitted() {
    let sizes = weighted(&[(512, 1.0), (4096, 5.0), (65_536, 1.0)]);
    let of = |kind| WorkloadConfig {
        kind: Some(kind),
        common: CommonKeys {
            requests: Some(20_000),
            footprint_bytes: Some(256 << 20),
            request_bytes: Some(sizes.clone()),
            read_fraction: Some(0.6),
            ..CommonKeys::default()
        },
        ..WorkloadConfig::default()
    };
    let mut wrong = Vec::new();
    let kinds = [
        WorkloadKind::Zipf,
        WorkloadKind::Uniform,
        WorkloadKind::Hotcold,
        WorkloadKind::Mix,
        WorkloadKind::Sequential,
    ];
    let kinds_tried = if std::env::var_os("FTLAB_LONG").is_some() { kinds.len() } else { 1 };
    for kind in &kinds[..kinds_tried] {
        wrong.extend(misfits(kind.name(), &VecSource::new(requests(&of(*kind))), &[1]));
    }
    let streams = changed(&of(WorkloadKind::Zipf), |common| {
        common.streams = Some(3);
        common.trim_fraction = Some(0.1);
        common.flush_fraction = Some(0.05);
    });
    wrong.extend(misfits("streams and trims", &VecSource::new(requests(&streams)), &[1]));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn small_and_strange_traces_are_fitted() {
    let request =
        |arrival_ns, op, lba, sectors| Request { arrival_ns, lba, sectors, op, stream: 3, fua: false };
    assert_eq!(
        misfits("one", &VecSource::new(vec![request(5, Op::Write, 1 << 40, 3)]), &[1]),
        Vec::<String>::new()
    );
    let again = (0..50).map(|step| request(step, Op::Read, 77, 1)).collect();
    assert_eq!(misfits("the same again", &VecSource::new(again), &[1]), Vec::<String>::new());
    let large = (0..30).map(|step| request(step * 1000, Op::Write, step * 40_000, 30_000)).collect();
    assert_eq!(misfits("large", &VecSource::new(large), &[1]), Vec::<String>::new());
    // Which pages are only read and what distances are cannot both be kept where all are the same: distances are.
    let circle = (0..2000u64).map(|step| {
        let op = if step % 4 == 0 { Op::Write } else { Op::Read };
        request(step * 1000, op, step % 100 * 8, 8)
    });
    let circles = misfits("in circles", &VecSource::new(circle.collect()), &[1, 2, 3]).concat();
    assert!(!circles.contains("miss ratios"), "{circles}");
    let flushes = VecSource::new(vec![request(0, Op::Flush, 0, 0); 4]);
    let config = workload(fit(&flushes, 100).unwrap());
    let mut source = config.factory(1 << 30, None, None).unwrap().open(0).unwrap();
    assert_eq!(stats(&mut *source).flushes, 4);
    assert!(fit(&VecSource::new(Vec::new()), 100).is_err());
}

/// Models that others wrote are refused or drawn from: they never panic, and requests stay on the drive.
#[test]
#[ignore = "a long test: make test-long"]
fn strange_models_are_refused_or_drawn() {
    let sizes = weighted(&[(512, 1.0), (65_536, 1.0)]);
    let base = WorkloadConfig {
        kind: Some(WorkloadKind::Mix),
        common: CommonKeys {
            requests: Some(300),
            footprint_bytes: Some(32 << 20),
            trim_fraction: Some(0.1),
            request_bytes: Some(sizes),
            ..CommonKeys::default()
        },
        ..WorkloadConfig::default()
    };
    let model = fit(&VecSource::new(requests(&base)), 300).unwrap();
    let plain = serde_json::to_value(&model).unwrap();
    let mut leaves = Vec::new();
    numbers(&plain, &mut String::new(), &mut leaves);
    let (mut refused, mut drawn) = (0, 0);
    for leaf in leaves.iter().step_by(leaves.len() / 150) {
        for value in [0u64, 1, 7, 300, 511, 1 << 33, u64::MAX] {
            let mut strange = plain.clone();
            *strange.pointer_mut(leaf).unwrap() = value.into();
            let Ok(model) = serde_json::from_value::<FittedModel>(strange) else {
                refused += 1;
                continue;
            };
            let capacity = model.span_bytes().min(1 << 50);
            match workload(model).factory(capacity, None, Some(200)) {
                Err(_) => refused += 1,
                Ok(factory) => {
                    let mut source = factory.open(0).unwrap();
                    let mut made = Vec::new();
                    while source.fill(&mut made, 4096).unwrap() > 0 {}
                    let inside = |r: &Request| (r.lba + u64::from(r.sectors)) * 512 <= capacity;
                    assert!(made.iter().all(inside), "{leaf} = {value}");
                    drawn += 1;
                }
            }
        }
    }
    assert!(refused > 100 && drawn > 100, "{refused} {drawn}");
}

fn numbers(value: &serde_json::Value, path: &mut String, found: &mut Vec<String>) {
    let mut inside = |key: String, value: &serde_json::Value| {
        let length = path.len();
        path.push('/');
        path.push_str(&key);
        numbers(value, path, found);
        path.truncate(length);
    };
    match value {
        serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| inside(key.clone(), value)),
        serde_json::Value::Array(rows) => {
            rows.iter().enumerate().for_each(|(index, value)| inside(index.to_string(), value));
        }
        _ => found.push(path.clone()),
    }
}

#[test]
fn models_are_squeezed_on_request_and_not_by_themselves() {
    let wide: Vec<Request> = (0..2000)
        .map(|step| Request {
            arrival_ns: step,
            lba: step * 7919 % 2000 * 100_000,
            sectors: 8,
            op: Op::Write,
            stream: 0,
            fua: false,
        })
        .collect();
    let model = fit(&VecSource::new(wide), 2000).unwrap();
    let span = model.span_bytes();
    assert!(span > 90 << 30);
    let config = workload(model);
    let Err(told) = config.factory(64 << 30, None, None) else { panic!("it does not fit") };
    let told = told.to_string();
    assert!(told.contains("footprint_bytes") && told.contains(&span.to_string()), "{told}");
    // The file says how wide it is, and lies there whatever drive is spoken of.
    let text = to_toml("wide", config.own.fitted.fitted.as_ref().unwrap());
    assert!(text.contains(&format!("\nfootprint_bytes = {span}\n")), "{}", &text[..400]);
    let stated = changed(&config, |common| common.footprint_bytes = Some(span));
    let stats_of = |config: &WorkloadConfig, capacity| {
        stats(&mut *config.factory(capacity, None, None).unwrap().open(0).unwrap())
    };
    assert_eq!(stats_of(&stated, 64 << 30), stats_of(&config, span));
    let squeezed = changed(&config, |common| common.footprint_bytes = Some(32 << 30));
    let stats = stats(&mut *squeezed.factory(64 << 30, None, None).unwrap().open(0).unwrap());
    assert!(stats.highest_byte.unwrap() <= 32 << 30);
    assert_eq!(stats.footprint_pages_4k, 2000);
    assert!(config.factory(span, None, Some(2001)).is_err());
}
