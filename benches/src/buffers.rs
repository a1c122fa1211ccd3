//! Write buffers: page accesses a second for each order, and evictions a second.

use std::fmt::Display;
use std::sync::{Arc, OnceLock};

use ftlab_core::buffer::BufferKind;
use ftlab_core::buffer::front::BufferCounts;
use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate};
use ftlab_core::host::request::{Request, RequestSource, SourceError, SourceFactory};
use ftlab_validation::{load, load_source, settings};

use super::{Noting, Scale, best, hash};

/// Page accesses and evictions a second that are asked for.
const ACCESSES: f64 = 5e6;
const EVENTS: f64 = 1e5;

/// Requests that were drawn before: drawing them is no work of a buffer.
struct Drawn(Arc<Vec<Request>>);

struct DrawnSource {
    requests: Arc<Vec<Request>>,
    next: usize,
}

impl SourceFactory for Drawn {
    fn open(&self, _: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        Ok(Box::new(DrawnSource { requests: self.0.clone(), next: 0 }))
    }
}

impl RequestSource for DrawnSource {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let rest = &self.requests[self.next..];
        let taken = &rest[..rest.len().min(max)];
        out.extend_from_slice(taken);
        self.next += taken.len();
        Ok(taken.len())
    }
}

fn drawn(source: &dyn SourceFactory) -> Drawn {
    let mut requests = Vec::new();
    let mut source = source.open(0).unwrap_or_else(|error| panic!("{error:?}"));
    while source.fill(&mut requests, 4096).unwrap_or_else(|error| panic!("{error:?}")) > 0 {}
    Drawn(Arc::new(requests))
}

/// Seconds that the requests of a workload take, which are drawn before, and what came of them.
fn measured(
    scale: &Scale,
    keys: &[(&str, &dyn Display)],
    (workload, of_workload): (&str, &[(&str, &dyn Display)]),
    timing: bool,
) -> (f64, RunOutcome) {
    let device = load("ideal-page", &settings(keys));
    let requests: Arc<dyn SourceFactory> =
        Arc::new(drawn(&*load_source(&device, workload, &settings(of_workload))));
    let options = RunOptions { timing, ..RunOptions::default() };
    best(scale, || {
        let start = Arc::new(OnceLock::new());
        let source = Noting { inner: requests.clone(), start: start.clone() };
        let outcome = simulate(&device, &source, &options, &RunControl::default(), &mut ())
            .unwrap_or_else(|error| panic!("{error}"));
        (start.get().map_or(0.0, |start| start.elapsed().as_secs_f64()), outcome)
    })
}

/// Skewed accesses to four times what a buffer holds: hits and evictions, without a clock.
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
        let workload: [(&str, &dyn Display); 3] =
            [("requests", &requests), ("theta", &0.9), ("read_fraction", &0.3)];
        let (seconds, outcome) = measured(scale, &keys, ("zipf", &workload), false);
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
}

/// A buffer that is small, with a clock, at 32 victims a time on 32 dies.
pub(super) fn evictions(scale: &Scale) {
    let requests = scale.requests / 5;
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
    // Of the pages that are asked for one by one, some are hits and some are read. A request of 32 pages is an eviction.
    let single: [(&str, &dyn Display); 3] =
        [("requests", &requests), ("theta", &0.9), ("read_fraction", &0.3)];
    let long: [(&str, &dyn Display); 3] =
        [("requests", &(requests / 32)), ("request_bytes", &(32 * 4096)), ("read_fraction", &0.0)];
    for (name, workload) in [
        ("skewed reads and writes of a page", ("zipf", &single)),
        ("writes of 32 pages anywhere", ("uniform", &long)),
    ] {
        let (seconds, outcome) = measured(scale, &keys, (workload.0, workload.1), true);
        let counts: BufferCounts = outcome.summary.parts.get().unwrap_or_default();
        println!(
            "(h) evictions of 32 on 32 dies, with a clock, {name}: {:.0} a second (asked for: {EVENTS:.0}), write amplification \
             {:.2}, hash {:016x}",
            counts.events as f64 / seconds,
            outcome.summary.write_amplification.as_ref().map_or(0.0, |all| all.total),
            hash(&outcome)
        );
    }
}
