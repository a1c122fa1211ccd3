//! The worked example of a reference simulator's drive, to the tenth of a microsecond.
//!
//! Source: DiskSim 4.0 with the Microsoft SSD extension, validation configuration; per-request times from an
//! instrumented copy.

use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::metrics::{Observer, RequestRecord};

/// The reference's drive, smaller where that makes no difference to a fresh drive.
fn device(blocks_per_plane: u32, logical_pages: u64) -> DeviceConfig {
    let text = format!(
        r#"{{
        "geometry": {{ "channels": 8, "ways": 1, "dies": 1, "planes": 8, "blocks_per_plane": {blocks_per_plane},
            "pages_per_block": 64, "page_bytes": 4096, "spare_bytes": 128 }},
        "timing": {{ "read_us": 25, "program_us": 200, "erase_us": 1500, "bus_mb_per_s": 40, "copyback": true,
            "transfer_spare": true }},
        "ftl": {{ "logical_pages": {logical_pages}, "gc": "greedy", "gc_tie": "highest", "gc_low_free_blocks": 2,
            "gc_open_block": "shared", "gc_when": "on_access", "striping": "static", "plane_choice": "most_free", "free_block": "next_fit",
            "summary_page": true }},
        "host": {{ "outstanding": 20, "link_mb_per_s": 2147.651006711409, "link_duplex": "half" }},
        "precondition": {{ "kind": "fill", "layout": "blocks" }}
    }}"#
    );
    serde_json::from_str(&text).unwrap()
}

#[derive(Default)]
struct Responses(Vec<(u64, f64)>);

impl Observer for Responses {
    fn wants_requests(&self) -> bool {
        true
    }
    fn on_request(&mut self, record: &RequestRecord) {
        self.0.push((record.index, record.end.since(record.start).as_ns_f64() / 1e6));
    }
}

/// Responses in milliseconds, in order of arrival, of (arrival ms, lba, sectors, is read).
fn responses(config: &DeviceConfig, rows: &[(f64, u64, u32, bool)]) -> Vec<f64> {
    let requests = rows.iter().map(|&(ms, lba, sectors, read)| Request {
        arrival_ns: (ms * 1e6).round() as u64,
        lba,
        sectors,
        op: if read { Op::Read } else { Op::Write },
        stream: 0,
        fua: false,
    });
    let source = VecSource::new(requests.collect());
    let mut log = Responses::default();
    let options = RunOptions { verify: true, ..RunOptions::default() };
    let outcome = simulate(config, &source, &options, &RunControl::default(), &mut log).unwrap();
    assert_eq!(outcome.error, None);
    log.0.sort_unstable_by_key(|row| row.0);
    log.0.into_iter().map(|(_, ms)| ms).collect()
}

fn assert_responses(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 0.000_05, "request {}: {found} ms instead of {expected}", at + 1);
    }
}

#[test]
fn single_requests_and_contention() {
    let rows = [
        (1000.0, 0, 8, false),
        (1010.0, 0, 8, true),
        (1020.0, 8, 64, true),
        (1030.0, 0, 128, false),
        (1040.0, 64, 24, true),
        (2000.0, 0, 64, true),
        (2000.0, 64, 64, true),
        (3000.0, 0, 8, false),
        (3000.17, 8, 56, true),
        (4000.0, 0, 64, false),
        (4000.005, 512, 8, true),
        (5000.0, 8, 8, false),
        (5000.1, 8, 8, true),
    ];
    let expected = [
        0.307_507_2,
        0.132_507_2,
        0.145_857_6,
        0.641_715_2,
        0.136_321_6, // alone
        0.145_857_6,
        0.276_457_6, // the second read queues on every element
        0.313_950_4,
        0.143_950_4, // the write finishes only when the link is idle
        0.320_857_6,
        0.448_364_8, // the read waits for the link, then behind the write
        0.307_507_2,
        0.340_014_4, // behind a write on the same element
    ];
    let config = device(32, 8 * 8 * 24 * 63);
    assert_responses(&responses(&config, &rows), &expected);
    // The first five, as the unmodified binary prints them.
    let first = responses(&config, &rows[..5]);
    let mean = first.iter().sum::<f64>() / 5.0;
    let deviation = (first.iter().map(|ms| (ms - mean).powi(2)).sum::<f64>() / 5.0).sqrt();
    assert!((mean - 0.272_782).abs() < 1e-6 && (deviation - 0.195_819).abs() < 1e-6, "{mean} {deviation}");
}

#[test]
fn summary_pages_are_paid_by_the_write_that_fills_a_block() {
    let rows: Vec<_> = (0..505_u32).map(|i| (f64::from(i), 64 * (1000 + u64::from(i)), 8, false)).collect();
    let expected: Vec<_> =
        (1..=505).map(|n| if (497..=504).contains(&n) { 0.520_707_2 } else { 0.307_507_2 }).collect();
    assert_responses(&responses(&device(32, 8 * 8 * 24 * 63), &rows), &expected);
}
