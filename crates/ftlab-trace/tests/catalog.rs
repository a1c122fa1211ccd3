//! Statistics of real traces against figures computed by others. The traces are no part of the project: their folder
//! is named by FTLAB_TRACES or lies beside the checkout as ../shared/traces; without it these tests say so and pass.

use std::path::{Path, PathBuf};

use ftlab_core::host::request::SourceFactory;
use ftlab_trace::stats::{TraceStats, stats};
use ftlab_trace::{OpenOptions, open};

fn traces() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("FTLAB_TRACES").map_or_else(beside, PathBuf::from);
    folder.join("CATALOG.md").is_file().then_some(folder)
}

fn stats_of(path: &Path, format: &str, volume: Option<u16>) -> TraceStats {
    let options = OpenOptions { format: Some(format.into()), volume };
    let mut source = open(path, &options).unwrap().open(0).unwrap();
    stats(&mut *source).unwrap()
}

/// A line of the catalogue: as printed there.
struct Line {
    file: &'static str,
    format: &'static str,
    requests: u64,
    read_percent: f64,
    read_kib: f64,
    write_kib: f64,
    highest_gib: f64,
    pages: (u64, u64),
    written_gib: f64,
    overwrite: f64,
    aligned_percent: f64,
    volumes: u64,
    seconds: f64,
}

#[rustfmt::skip]
const LINES: &[Line] = &[
    Line { file: "msr-cambridge/web_3.csv.zst", format: "msr", requests: 31_380, read_percent: 32.0, read_kib: 74.9, write_kib: 20.8,
        highest_gib: 169.58, pages: (154_720, 110_013), written_gib: 0.42, overwrite: 1.2, aligned_percent: 0.0, volumes: 1, seconds: 6.88 * 86_400.0 },
    Line { file: "msr-cambridge/rsrch_1.csv.zst", format: "msr", requests: 13_780, read_percent: 0.3, read_kib: 13.2, write_kib: 12.2,
        highest_gib: 178.37, pages: (28_775, 28_769), written_gib: 0.16, overwrite: 1.5, aligned_percent: 93.0, volumes: 1, seconds: 6.67 * 86_400.0 },
    Line { file: "msr-cambridge/wdev_1.csv", format: "msr", requests: 1_055, read_percent: 0.0, read_kib: 0.0, write_kib: 5.1,
        highest_gib: 50.87, pages: (369, 369), written_gib: 0.01, overwrite: 3.7, aligned_percent: 100.0, volumes: 1, seconds: 6.89 * 86_400.0 },
    Line { file: "msr-cambridge/prxy_0-sample20k.csv.zst", format: "msr", requests: 20_000, read_percent: 1.7, read_kib: 17.7, write_kib: 2.3,
        highest_gib: 20.48, pages: (2_980, 1_615), written_gib: 0.04, overwrite: 15.1, aligned_percent: 16.0, volumes: 1, seconds: 938.8 },
    Line { file: "microsoft-enterprise/mqsim-tpcc-small.trace", format: "mqsim", requests: 6_999, read_percent: 62.6, read_kib: 8.1, write_kib: 8.7,
        highest_gib: 216.73, pages: (20_470, 7_879), written_gib: 0.02, overwrite: 1.0, aligned_percent: 13.0, volumes: 16, seconds: 0.1 },
    Line { file: "microsoft-enterprise/MSN-FS-30s-ms.trace.zst", format: "disksim", requests: 149_999, read_percent: 87.0, read_kib: 18.2, write_kib: 9.2,
        highest_gib: 169.58, pages: (538_027, 43_513), written_gib: 0.17, overwrite: 1.0, aligned_percent: 100.0, volumes: 1, seconds: 143.1 },
    Line { file: "disksim-ssd-valid/ssd-iozone-aligned2-100K.trace.zst", format: "disksim", requests: 100_000, read_percent: 0.0, read_kib: 0.0, write_kib: 359.9,
        highest_gib: 16.07, pages: (271_320, 271_320), written_gib: 34.32, overwrite: 33.2, aligned_percent: 100.0, volumes: 1, seconds: 936.4 },
    Line { file: "disksim-hp/ascii.trace.zst", format: "disksim", requests: 100_000, read_percent: 79.6, read_kib: 5.1, write_kib: 5.2,
        highest_gib: 1.13, pages: (158_355, 38_533), written_gib: 0.10, overwrite: 1.1, aligned_percent: 1.0, volumes: 14, seconds: 1532.9 },
    Line { file: "umass-spc/Financial_mini.spc", format: "spc", requests: 949, read_percent: 19.3, read_kib: 1.6, write_kib: 2.9,
        highest_gib: 0.48, pages: (491, 437), written_gib: 0.00, overwrite: 2.7, aligned_percent: 0.0, volumes: 16, seconds: 28.4 },
    Line { file: "umass-spc/small_financial.disksim", format: "disksim", requests: 10_000, read_percent: 40.8, read_kib: 9.9, write_kib: 8.4,
        highest_gib: 22.76, pages: (7_320, 3_729), written_gib: 0.05, overwrite: 3.3, aligned_percent: 100.0, volumes: 1, seconds: 259.6 },
    Line { file: "umass-spc/ssdsim-example.ascii", format: "mqsim", requests: 10_000, read_percent: 40.8, read_kib: 6.1, write_kib: 4.9,
        highest_gib: 0.48, pages: (7_322, 3_734), written_gib: 0.03, overwrite: 3.3, aligned_percent: 0.0, volumes: 22, seconds: 259.6 },
];

const GIB: f64 = (1u64 << 30) as f64;

#[test]
fn statistics_are_those_of_the_catalogue() {
    let Some(folder) = traces() else {
        eprintln!("skipped: no folder of real traces (set FTLAB_TRACES)");
        return;
    };
    for line in LINES {
        let stats = stats_of(&folder.join(line.file), line.format, None);
        let close = |what: &str, found: f64, printed: f64, unit: f64| {
            // Printed figures are rounded to their last digit.
            assert!(
                (found - printed).abs() <= unit * 0.501,
                "{} {what}: {found}, printed {printed}",
                line.file
            );
        };
        assert_eq!(stats.requests, line.requests, "{}", line.file);
        assert_eq!(
            (stats.footprint_pages_4k, stats.footprint_written_pages_4k, stats.volumes),
            (line.pages.0, line.pages.1, line.volumes),
            "{}",
            line.file
        );
        close("read share", stats.read_fraction.unwrap() * 100.0, line.read_percent, 0.1);
        close("read size", stats.mean_read_bytes.unwrap_or(0.0) / 1024.0, line.read_kib, 0.1);
        close("write size", stats.mean_write_bytes.unwrap_or(0.0) / 1024.0, line.write_kib, 0.1);
        close("range", stats.highest_byte.unwrap() as f64 / GIB, line.highest_gib, 0.01);
        close("written", stats.write_bytes as f64 / GIB, line.written_gib, 0.01);
        close("overwrites", stats.overwrite_factor.unwrap(), line.overwrite, 0.1);
        close("aligned", stats.aligned_4k_fraction.unwrap() * 100.0, line.aligned_percent, 1.0);
        let unit = if line.seconds > 86_400.0 { 864.0 } else { 0.1 };
        close("duration", stats.duration_ns as f64 / 1e9, line.seconds, unit);
    }
}

#[test]
fn real_traces_are_recognised_or_said_to_be_ambiguous() {
    let Some(folder) = traces() else {
        eprintln!("skipped: no folder of real traces (set FTLAB_TRACES)");
        return;
    };
    for line in LINES {
        match open(folder.join(line.file), &OpenOptions::default()) {
            Ok(trace) => assert_eq!(trace.format().name, line.format, "{}", line.file),
            // Whole numbers in all five columns: DiskSim's milliseconds or MQSim's nanoseconds, nobody can tell.
            Err(error) => {
                assert_eq!(line.format, "mqsim", "{error}");
                assert!(error.expected.contains("disksim, mqsim"), "{error}");
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
        let stats = stats_of(&folder.join(shape.file), "mqsim", None);
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
