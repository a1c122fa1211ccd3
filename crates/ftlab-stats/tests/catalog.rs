//! Statistics of real traces against figures computed by others. The figures are read from the tables of the folder's
//! CATALOG.md and must be met to their last printed digit. Without the folder these tests say so and pass.

use std::path::Path;

use crate::real::{ROWS, Row, traces};
use ftlab_core::host::request::SourceFactory;
use ftlab_stats::{ReuseMethod, StatsCollector, StatsOptions, TraceStats, collect, stats};
use ftlab_trace::{OpenOptions, open};

/// A printed figure: its value, and half a unit of its last digit.
struct Figure {
    name: &'static str,
    value: f64,
    half_digit: f64,
}

impl Figure {
    /// `text` as printed, in units of `scale`; nothing for `-`.
    fn parse(name: &'static str, text: &str, scale: f64) -> Option<Self> {
        let text = text.trim().trim_end_matches('%').replace(',', "");
        let value: f64 = text.parse().ok()?;
        let decimals = text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        let half_digit = 0.501 * 10f64.powi(-i32::try_from(decimals).unwrap());
        Some(Figure { name, value: value * scale, half_digit: half_digit * scale })
    }
}

/// The table row of `file`.
fn figures(catalogue: &str, file: &str) -> Option<Vec<Figure>> {
    let (folder, name) = file.split_once('/').unwrap();
    let section = catalogue.split("\n## ").find(|section| section.starts_with(&format!("{folder}:")))?;
    let line = section.lines().find(|line| line.starts_with(&format!("| {name} |")))?;
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let [
        _,
        requests,
        reads,
        mean,
        range,
        footprint,
        written,
        overwrites,
        aligned,
        devices,
        discards,
        duration,
    ] = cells[..]
    else {
        panic!("{line}: expected 12 columns")
    };
    // "5.4 (6.1 / 4.9)" and "7,322 (3,734)"
    let parts = |text: &'static str, cell: &str| -> Vec<String> {
        let parts: Vec<String> = cell.split(['(', '/', ')']).map(|part| part.trim().to_owned()).collect();
        assert!(parts.len() > 2, "{cell}: expected {text}");
        parts
    };
    let (mean, footprint) = (parts("all (reads / writes)", mean), parts("all (written)", footprint));
    let (lowest, highest) = range.split_once("..")?;
    let (span, unit) = duration.split_once(' ')?;
    let seconds = match unit {
        "s" => 1.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => panic!("{duration}: expected s, h or d"),
    };
    let figures = [
        Figure::parse("requests", requests, 1.0),
        Figure::parse("read share", reads, 1.0),
        Figure::parse("mean size", &mean[0], 1.0),
        Figure::parse("mean read", &mean[1], 1.0),
        Figure::parse("mean write", &mean[2], 1.0),
        Figure::parse("lowest", lowest, 1.0),
        Figure::parse("highest", highest, 1.0),
        Figure::parse("footprint", &footprint[0], 1.0),
        Figure::parse("written footprint", &footprint[1], 1.0),
        Figure::parse("written", written, 1.0),
        Figure::parse("overwrites", overwrites, 1.0),
        Figure::parse("aligned", aligned, 1.0),
        Figure::parse("devices", devices, 1.0),
        Figure::parse("discards", discards, 1.0),
        Figure::parse("duration", span, seconds),
    ];
    Some(figures.into_iter().flatten().collect())
}

/// The figure called `name`, in the units of the catalogue.
fn found(stats: &TraceStats, name: &str) -> f64 {
    const KIB: f64 = 1024.0;
    const GIB: f64 = (1u64 << 30) as f64;
    match name {
        "requests" => (stats.reads + stats.writes + stats.trims) as f64,
        "read share" => stats.read_fraction.unwrap() * 100.0,
        "mean size" => {
            (stats.read_bytes + stats.write_bytes) as f64 / (stats.reads + stats.writes) as f64 / KIB
        }
        "mean read" => stats.mean_read_bytes.unwrap_or(0.0) / KIB,
        "mean write" => stats.mean_write_bytes.unwrap_or(0.0) / KIB,
        "lowest" => stats.lowest_byte.unwrap() as f64 / GIB,
        "highest" => stats.highest_byte.unwrap() as f64 / GIB,
        "footprint" => stats.footprint_pages_4k as f64,
        "written footprint" => stats.footprint_written_pages_4k as f64,
        "written" => stats.write_bytes as f64 / GIB,
        "overwrites" => stats.overwrite_factor.unwrap(),
        "aligned" => stats.aligned_4k_fraction.unwrap() * 100.0,
        "devices" => stats.volumes as f64,
        "discards" => stats.trims as f64,
        "duration" => stats.duration_ns as f64 / 1e9,
        _ => panic!("{name:?} is no figure"),
    }
}

fn differences(folder: &Path, catalogue: &str, row: &Row) -> Vec<String> {
    let Some(figures) = figures(catalogue, row.file) else {
        return vec![format!("{}: no such row in the catalogue", row.file)];
    };
    let source = row.open(folder).and_then(|trace| trace.open(0));
    let stats = match source.and_then(|mut source| stats(&mut *source)) {
        Ok(stats) => stats,
        Err(error) => return vec![error.to_string()],
    };
    let mut differences = Vec::new();
    for Figure { name, value, half_digit } in figures {
        let found = found(&stats, name);
        let deviation = row.deviations.iter().find(|deviation| deviation.figure == name);
        let expected = deviation.map_or(value, |deviation| deviation.ours);
        if (found - expected).abs() > half_digit {
            differences.push(format!("{} {name}: found {found}, expected {expected}", row.file));
        }
        if deviation.is_some() && (found - value).abs() <= half_digit {
            differences.push(format!("{} {name}: the deviation is none, {found} is printed", row.file));
        }
    }
    differences
}

#[test]
#[ignore = "a long test: make test-long"]
fn statistics_are_those_of_the_catalogue() {
    let Some(folder) = traces() else {
        eprintln!("skipped: no folder of real traces (set FTLAB_TRACES)");
        return;
    };
    let catalogue = std::fs::read_to_string(folder.join("CATALOG.md")).unwrap();
    let differences: Vec<String> =
        ROWS.iter().flat_map(|row| differences(&folder, &catalogue, row)).collect();
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// What docs/notes/trace-statistics.md says of the default curve, where there are more pages than are looked at one by one:
/// for the first such trace, and for all in `make test-long`.
#[test]
fn sampled_curves_of_real_traces_are_near_the_exact_ones() {
    let Some(folder) = traces() else { return };
    let mut sampled_ones = 0;
    for row in ROWS {
        let factory = row.open(&folder).unwrap();
        let of = |reuse| {
            let options = StatsOptions { reuse, ..StatsOptions::default() };
            let collector = StatsCollector::new(options).unwrap();
            collect(&mut *factory.open(0).unwrap(), collector).unwrap().reuse
        };
        let Some(sampled) = of(ReuseMethod::Sampled).filter(|reuse| reuse.sample_rate < 1.0) else {
            continue;
        };
        let exact = of(ReuseMethod::Exact).unwrap().miss_ratio_curve;
        let off = exact.mean_difference(&sampled.miss_ratio_curve);
        // Where many pages come back at one distance, the step there may be a bin off.
        let sampled_at = |pages: &u64| sampled.miss_ratio_curve.at(*pages);
        let beyond = exact.cache_pages.windows(2).map(|pages| {
            let (smaller, larger) = (exact.at(pages[0]), exact.at(pages[1]));
            (sampled_at(&pages[1]) - smaller).max(larger - sampled_at(&pages[0]))
        });
        let most = beyond.fold(0.0, f64::max);
        let plain = exact.cache_pages.iter().map(|pages| (exact.at(*pages) - sampled_at(pages)).abs());
        let plain = plain.fold(0.0, f64::max);
        let told = format!(
            "{}: rate {}, mean {off:.4}, most {most:.4} beside a step, {plain:.4} on it",
            row.file, sampled.sample_rate
        );
        eprintln!("{told}");
        assert!(off < 0.01 && most < 0.03 && plain < 0.1, "{told}");
        sampled_ones += 1;
        if std::env::var_os("FTLAB_LONG").is_none() {
            break;
        }
    }
    eprintln!("{sampled_ones} traces were sampled");
}

#[test]
fn real_traces_are_recognised_or_said_to_be_ambiguous() {
    let Some(folder) = traces() else {
        eprintln!("skipped: no folder of real traces (set FTLAB_TRACES)");
        return;
    };
    // Named columns are for files that have no format, or one that no content tells.
    for row in ROWS.iter().filter(|row| !row.format.starts_with("columns:")) {
        match open(folder.join(row.file), &OpenOptions::default()) {
            Ok(trace) => {
                assert_eq!((trace.format().name, row.ambiguous), (row.format, false), "{}", row.file);
            }
            Err(error) => {
                assert!(row.ambiguous && error.expected.contains("fits several formats"), "{error}");
                assert!(error.expected.contains(row.format), "{error}");
            }
        }
    }
}

/// Shape of a trace as measured by others: hottest shares in percent, sequential and aligned starts in percent, mean and
/// median gap in milliseconds, coefficient of variation.
struct Shape {
    file: &'static str,
    hottest: [f64; 4],
    sequential: f64,
    aligned: f64,
    gap_ms: (f64, f64),
    variation: f64,
}

#[rustfmt::skip]
const SHAPES: &[Shape] = &[
    Shape { file: "umass-spc/ssdsim-example.ascii", hottest: [11.9, 31.4, 44.9, 58.2], sequential: 45.2, aligned: 7.6,
        gap_ms: (25.96, 6.55), variation: 3.2 },
    Shape { file: "microsoft-enterprise/mqsim-tpcc-small.trace", hottest: [1.9, 5.9, 10.9, 20.8], sequential: 1.2,
        aligned: 13.0, gap_ms: (0.020, 0.013), variation: 1.07 },
];

#[test]
fn shapes_are_those_that_others_measured() {
    let Some(folder) = traces() else {
        eprintln!("skipped: no folder of real traces (set FTLAB_TRACES)");
        return;
    };
    for shape in SHAPES {
        let options = OpenOptions { format: Some("mqsim".into()), ..OpenOptions::default() };
        let mut source = open(folder.join(shape.file), &options).and_then(|trace| trace.open(0)).unwrap();
        let stats = stats(&mut *source).unwrap();
        let close = |what: &str, found: f64, published: f64, unit: f64| {
            assert!(
                (found - published).abs() <= unit,
                "{} {what}: {found}, published {published}",
                shape.file
            );
        };
        let hotness = stats.hotness.unwrap();
        let found =
            [hotness.top_1_percent, hotness.top_5_percent, hotness.top_10_percent, hotness.top_20_percent];
        for (found, published) in found.into_iter().zip(shape.hottest) {
            close("hottest pages", found * 100.0, published, 0.1);
        }
        close("sequential", stats.sequential_fraction.unwrap() * 100.0, shape.sequential, 0.1);
        close("aligned", stats.aligned_start_4k_fraction.unwrap() * 100.0, shape.aligned, 0.1);
        let gaps = stats.interarrival.unwrap();
        let digit = if shape.gap_ms.0 > 1.0 { 0.01 } else { 0.001 };
        close("mean gap", gaps.spread.mean / 1e6, shape.gap_ms.0, digit);
        close("median gap", gaps.spread.p50 / 1e6, shape.gap_ms.1, shape.gap_ms.1 * 0.03);
        close("variation", gaps.coefficient_of_variation.unwrap(), shape.variation, 0.05);
    }
}
