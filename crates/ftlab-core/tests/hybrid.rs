//! Block-mapped layers: merges by hand, closed forms, and what must be equal.

use crate::common::{device, merged, run_with};
use ftlab_core::device::RunOptions;
use ftlab_core::ftl::hybrid::merge::MergeCounts;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::metrics::summary::Summary;
use serde_json::{Value, json};

/// A drive of `blocks` logical blocks of `pages` pages of 4 KiB, filled in order.
fn drive(kind: Value, blocks: u32, pages: u32, memories: u32) -> Value {
    let spare = 24;
    merged(
        json!({
            "geometry": { "channels": memories, "ways": 1, "blocks_per_plane": blocks.div_ceil(memories) + spare,
                "pages_per_block": pages, "page_bytes": 4096 },
            "ftl": { "logical_pages": blocks * pages },
            "precondition": { "kind": "fill" },
        }),
        json!({ "ftl": kind }),
    )
}

fn writes(pages: impl IntoIterator<Item = u32>) -> Vec<Request> {
    let write = |page: u32| Request {
        arrival_ns: 0,
        lba: u64::from(page) * 8,
        sectors: 8,
        op: Op::Write,
        stream: 0,
        fua: false,
    };
    pages.into_iter().map(write).collect()
}

fn run(config: Value, requests: &[Request], verify: bool) -> (Summary, MergeCounts) {
    let options = RunOptions { verify, timing: false, ..RunOptions::default() };
    let (outcome, _) = run_with(&device(config), requests, &options);
    assert_eq!(outcome.error, None);
    let merges = outcome.summary.parts.get().expect("block-mapped layers count merges");
    (outcome.summary, merges)
}

/// Switch, partial and full merges, copies and erases.
fn counts(kind: &Value, blocks: u32, pages: u32, stream: &[u32]) -> (u64, u64, u64, u64, u64) {
    let (summary, merges) = run(drive(kind.clone(), blocks, pages, 1), &writes(stream.iter().copied()), true);
    let erases = summary.flash.erases.total;
    (merges.switch, merges.partial, merges.full, merges.pages_copied, erases)
}

#[test]
fn merges_of_bast_by_hand() {
    let bast = json!({ "kind": "bast", "log_blocks": 2 });
    assert_eq!(counts(&bast, 4, 4, &[0, 1, 2, 3, 0]), (1, 0, 0, 0, 1));
    assert_eq!(counts(&bast, 4, 4, &[0, 1, 4, 8]), (0, 1, 0, 2, 1));
    assert_eq!(counts(&bast, 4, 4, &[1, 0, 5, 9, 13]), (0, 0, 2, 8, 4));
}

#[test]
fn merges_of_fast_by_hand() {
    let fast = json!({ "kind": "fast", "log_blocks": 3 });
    assert_eq!(counts(&fast, 4, 4, &[0, 1, 2, 3, 4]), (1, 0, 0, 0, 1));
    assert_eq!(counts(&fast, 4, 4, &[0, 1, 3]), (0, 1, 0, 1, 1));
    assert_eq!(counts(&fast, 4, 4, &[0, 1, 1]), (0, 0, 1, 3, 2));
    assert_eq!(counts(&fast, 4, 4, &[1, 5, 9, 13, 2, 6, 10, 14, 3]), (0, 0, 4, 16, 5));
}

#[test]
fn two_blocks_in_turn() {
    let stream: Vec<u32> = (0..640).map(|at| 5 + at % 2 * 64).collect();
    let per_write = |kind: Value| {
        let (summary, _) = run(drive(kind, 4, 64, 1), &writes(stream.iter().copied()), true);
        (summary.flash.programs.total + summary.flash.copybacks.total) as f64 / 640.0
    };
    let bast = per_write(json!({ "kind": "bast", "log_blocks": 1 }));
    assert!((bast - 65.0).abs() < 0.2, "{bast}");
    let fast = per_write(json!({ "kind": "fast", "log_blocks": 2 }));
    assert!((fast - 2.8).abs() < 0.01, "one victim less than writes would fill: {fast}");
}

/// The stream of an independent model: 256 blocks of 64 pages, 16 log blocks, 50,000 uniform writes.
#[test]
fn a_uniform_stream_to_the_last_digit() {
    let mut state = 42_u64;
    let stream: Vec<u32> = (0..50_000)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % 16_384) as u32
        })
        .collect();
    let of = |kind| counts(&json!({ "kind": kind, "log_blocks": 16 }), 256, 64, &stream);
    assert_eq!(of("bast"), (0, 662, 46_177, 2_997_033, 93_016));
    assert_eq!(of("fast"), (0, 764, 10_025, 689_570, 11_541));
}
