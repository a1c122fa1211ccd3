//! Workloads fitted to traces resemble them.

use std::path::{Path, PathBuf};

use ftlab_core::host::request::{Op, Request, RequestSource, SourceFactory, VecSource};
use ftlab_trace::fit::{fit, to_toml};
use ftlab_trace::stats::{ReuseMethod, StatsCollector, StatsOptions, TraceStats, collect};
use ftlab_trace::workload::{RequestBytes, WorkloadConfig, WorkloadKind};
use ftlab_trace::{OpenOptions, open};

fn stats(source: &mut dyn RequestSource) -> TraceStats {
    let options = StatsOptions { reuse: ReuseMethod::Exact, ..StatsOptions::default() };
    collect(source, StatsCollector::new(options).unwrap()).unwrap()
}

/// Fit `trace`, generate, compare; gives what is off by too much.
fn misfits(name: &str, trace: &dyn SourceFactory) -> Vec<String> {
    let recorded = stats(&mut *trace.open(0).unwrap());
    let config = fit(trace, u64::MAX >> 1).unwrap();
    let text = to_toml(name, config.fitted.as_ref().unwrap());
    assert!(text.len() < 80_000, "{name}: {} bytes", text.len());
    let factory = config.factory(1 << 50, None, None).unwrap();
    let fitted = stats(&mut *factory.open(0).unwrap());
    let (curve, other) = (recorded.reuse.as_ref(), fitted.reuse.as_ref());
    let off = match curve.zip(other) {
        Some((curve, other)) => curve.miss_ratio_curve.mean_difference(&other.miss_ratio_curve),
        None => 0.0,
    };
    let relative = |a: u64, b: u64| if b == 0 { a as f64 } else { a as f64 / b as f64 - 1.0 };
    let hot = |stats: &TraceStats| stats.hotness.as_ref().map_or(0.0, |hotness| hotness.top_10_percent);
    eprintln!(
        "{name}: file {} misses {off:.4} footprint {:+.3} written {:+.3} mean {:+.4} pages {:+.4} seq {:.3}/{:.3} hot {:.3}/{:.3} \
         duration {:+.4} regions {:+.3} range {:+.3}",
        text.len(),
        relative(fitted.footprint_pages_4k, recorded.footprint_pages_4k),
        relative(fitted.footprint_written_pages_4k, recorded.footprint_written_pages_4k),
        fitted.mean_request_bytes.unwrap() / recorded.mean_request_bytes.unwrap() - 1.0,
        relative(fitted.ftl_requests, recorded.ftl_requests),
        recorded.sequential_fraction.unwrap(),
        fitted.sequential_fraction.unwrap(),
        hot(&recorded),
        hot(&fitted),
        relative(fitted.duration_ns, recorded.duration_ns),
        relative(fitted.footprint_translation_pages, recorded.footprint_translation_pages),
        relative(fitted.address_range_bytes, recorded.address_range_bytes),
    );
    assert_eq!(
        [fitted.requests, fitted.reads, fitted.writes, fitted.trims, fitted.flushes],
        [recorded.requests, recorded.reads, recorded.writes, recorded.trims, recorded.flushes],
        "{name}"
    );
    let mean = fitted.mean_request_bytes.unwrap() / recorded.mean_request_bytes.unwrap();
    let footprint = relative(fitted.footprint_pages_4k, recorded.footprint_pages_4k);
    let duration = relative(fitted.duration_ns, recorded.duration_ns);
    let wrong = [
        ("miss ratios", off, 0.03),
        ("mean size", mean - 1.0, 0.02),
        ("footprint", footprint, 0.05),
        ("duration", duration, 0.01),
    ];
    if off > 0.02 {
        let (a, b) = (
            &recorded.reuse.as_ref().unwrap().miss_ratio_curve,
            &fitted.reuse.as_ref().unwrap().miss_ratio_curve,
        );
        for power in 0..21 {
            eprintln!("DIAG {} {:.3} {:.3}", 1u64 << power, a.at(1 << power), b.at(1 << power));
        }
    }
    let wrong: Vec<_> = wrong.into_iter().filter(|(_, off, most)| off.abs() > *most).collect();
    if wrong.is_empty() { Vec::new() } else { vec![format!("{name}: {wrong:?}")] }
}

fn traces() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("FTLAB_TRACES").map_or_else(beside, PathBuf::from);
    folder.join("CATALOG.md").is_file().then_some(folder)
}

/// Every trace of the folder whose format is known.
#[test]
fn real_traces_are_fitted() {
    let Some(folder) = traces() else {
        eprintln!("skipped: no folder of real traces (set FTLAB_TRACES)");
        return;
    };
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .unwrap()
        .filter_map(|entry| std::fs::read_dir(entry.unwrap().path()).ok())
        .flat_map(|entries| entries.map(|entry| entry.unwrap().path()))
        .collect();
    files.sort();
    let (mut fitted, mut wrong) = (0, Vec::new());
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        // Numbers of HUST's simulator and of MQSim look alike.
        let format = name.contains("ssdsim").then(|| "mqsim".to_owned());
        let Ok(trace) = open(&file, &OpenOptions { format, ..OpenOptions::default() }) else { continue };
        // Columns of another kind, or damage that the catalogue speaks of: not ours to read as it is.
        let mut all = Vec::new();
        let Ok(mut source) = trace.open(0) else { continue };
        while let Ok(1..) = source.fill(&mut all, 1 << 16) {}
        if source.fill(&mut all, 1).is_err() || all.is_empty() {
            continue;
        }
        wrong.extend(misfits(&name, &VecSource::new(all)));
        fitted += 1;
    }
    assert!(fitted >= 9, "{fitted}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn requests(config: &WorkloadConfig) -> Vec<Request> {
    let mut source = config.factory(4 << 30, None, None).unwrap().open(0).unwrap();
    let mut requests = Vec::new();
    while source.fill(&mut requests, 4096).unwrap() > 0 {}
    requests
}

#[test]
fn synthetic_workloads_are_fitted() {
    let sizes = RequestBytes::Weighted(vec![(512, 1.0), (4096, 5.0), (65_536, 1.0)]);
    let of = |kind| WorkloadConfig {
        kind: Some(kind),
        requests: Some(20_000),
        footprint_bytes: Some(256 << 20),
        request_bytes: Some(sizes.clone()),
        read_fraction: Some(0.6),
        ..WorkloadConfig::default()
    };
    let mut wrong = Vec::new();
    for kind in [
        WorkloadKind::Uniform,
        WorkloadKind::Zipf,
        WorkloadKind::Hotcold,
        WorkloadKind::Mix,
        WorkloadKind::Sequential,
    ] {
        wrong.extend(misfits(kind.name(), &VecSource::new(requests(&of(kind)))));
    }
    let streams = WorkloadConfig {
        streams: Some(3),
        trim_fraction: Some(0.1),
        flush_fraction: Some(0.05),
        ..of(WorkloadKind::Zipf)
    };
    wrong.extend(misfits("streams and trims", &VecSource::new(requests(&streams))));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn small_and_strange_traces_are_fitted() {
    let request = |arrival_ns, op, lba, sectors| Request { arrival_ns, lba, sectors, op, stream: 3 };
    assert_eq!(
        misfits("one", &VecSource::new(vec![request(5, Op::Write, 1 << 40, 3)])),
        Vec::<String>::new()
    );
    let again = (0..50).map(|step| request(step, Op::Read, 77, 1)).collect();
    assert_eq!(misfits("the same again", &VecSource::new(again)), Vec::<String>::new());
    let large = (0..30).map(|step| request(step * 1000, Op::Write, step * 40_000, 30_000)).collect();
    assert_eq!(misfits("large", &VecSource::new(large)), Vec::<String>::new());
    let flushes = VecSource::new(vec![request(0, Op::Flush, 0, 0); 4]);
    let config = fit(&flushes, 100).unwrap();
    let mut source = config.factory(1 << 30, None, None).unwrap().open(0).unwrap();
    assert_eq!(stats(&mut *source).flushes, 4);
    assert!(fit(&VecSource::new(Vec::new()), 100).is_err());
}
