//! Write buffers: page accesses a second for each order, and evictions a second.

use std::fmt::Display;
use std::time::Instant;

use ftlab_core::buffer::BufferKind;
use ftlab_core::buffer::front::BufferCounts;
use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate};
use ftlab_validation::{load, load_source, settings};

use super::{Scale, best, hash};

/// Page accesses and evictions a second that are asked for.
const ACCESSES: f64 = 5e6;
const EVENTS: f64 = 1e5;

fn measured(
    scale: &Scale,
    keys: &[(&str, &dyn Display)],
    (requests, timing): (u64, bool),
) -> (f64, RunOutcome) {
    let device = load("ideal-page", &settings(keys));
    let source = load_source(
        &device,
        "zipf",
        &settings(&[("requests", &requests), ("theta", &0.9), ("read_fraction", &0.3)]),
    );
    let options = RunOptions { timing, ..RunOptions::default() };
    best(scale, || {
        let start = Instant::now();
        let outcome = simulate(&device, &*source, &options, &RunControl::default(), &mut ())
            .unwrap_or_else(|error| panic!("{error}"));
        (start.elapsed().as_secs_f64(), outcome)
    })
}

/// Skewed accesses to four times what a buffer holds: hits and evictions, without a clock. Then one that is small, with a clock,
/// at 32 victims a time on 32 dies.
pub(super) fn buffers(scale: &Scale) {
    let requests = scale.requests / 5;
    // A GiB of frames of 4 KiB at full scale.
    let frames = scale.pages as u64 / 24;
    for order in BufferKind::ALL.iter().skip(1) {
        let keys: [(&str, &dyn Display); 7] = [
            ("geometry.blocks_per_plane", &(frames * 4 / 64 + frames / 100 + 64)),
            ("geometry.pages_per_block", &64),
            ("ftl.logical_pages", &(frames * 4)),
            ("precondition.kind", &"none"),
            ("buffer.kind", &order.name()),
            ("buffer.bytes", &(frames * 4096)),
            ("buffer.drain_at_end", &false),
        ];
        let (seconds, outcome) = measured(scale, &keys, (requests, false));
        let counts: BufferCounts = outcome.summary.parts.get().unwrap_or_default();
        println!(
            "(h) buffers, {}: {:.1} M page accesses/s (asked for: {:.0}), hits {:.3}, {} bytes a frame, hash {:016x}",
            order.name(),
            requests as f64 / seconds / 1e6,
            ACCESSES / 1e6,
            counts.hit_ratio,
            counts.table_bytes / counts.frames.max(1),
            hash(&outcome),
        );
    }
    let keys: [(&str, &dyn Display); 10] = [
        ("geometry.channels", &8),
        ("geometry.ways", &4),
        ("geometry.blocks_per_plane", &64),
        ("geometry.pages_per_block", &64),
        ("timing.bus_mb_per_s", &40),
        ("ftl.logical_pages", &100_000),
        ("precondition.kind", &"fill"),
        ("buffer.kind", &"lru"),
        ("buffer.bytes", &(1 << 20)),
        ("buffer.rate", &32),
    ];
    let (seconds, outcome) = measured(scale, &keys, (requests, true));
    let counts: BufferCounts = outcome.summary.parts.get().unwrap_or_default();
    println!(
        "(h) buffers, evictions of 32 on 32 dies, with a clock: {:.0} a second (asked for: {EVENTS:.0}), hash {:016x}",
        counts.events as f64 / seconds,
        hash(&outcome)
    );
}
