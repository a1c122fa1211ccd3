//! What it costs to know what requests wait for.

use ftlab_core::device::{RunControl, simulate};
use ftlab_core::metrics::parts::Parts;
use ftlab_core::metrics::{Observer, RequestRecord};
use ftlab_trace::apart::Apart;
use ftlab_trace::logs::RequestLog;
use ftlab_validation::settings;

use super::{Clock, Scale, hash, in_turn, timed};

/// Most that it may take, as a part of the same run without.
const ASKED: f64 = 1.1;

/// Whether parts are asked for, and where they are found.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parted {
    No,
    Here,
    /// As for the request log of `ftlab run`.
    OnAnotherThread,
}

/// Hears of every request, and of its parts where they are asked for.
struct Listener {
    wants_parts: bool,
}

impl Observer for Listener {
    fn wants_requests(&self) -> bool {
        true
    }

    fn wants_parts(&self) -> bool {
        self.wants_parts
    }

    fn on_parts(&mut self, parts: &Parts) {
        std::hint::black_box(parts);
    }

    fn on_request(&mut self, record: &RequestRecord) {
        std::hint::black_box(record);
    }
}

/// Mixed requests at depth 32, on one die and on 32 dies, event by event.
pub(super) fn parts(scale: &Scale) {
    let folder = tempfile::tempdir().unwrap();
    for (name, channels, ways) in [("one die", 1, 1), ("8 x 4 dies", 8, 4)] {
        let device = settings(&[
            ("geometry.channels", &channels),
            ("geometry.ways", &ways),
            ("geometry.blocks_per_plane", &(scale.pages / 64 / (channels * ways))),
            ("ftl.gc_low_free_blocks", &1),
            ("ftl.striping", &"dynamic"),
            ("precondition.kind", &"fill"),
            ("host.queue_depth", &32),
        ]);
        let workload = settings(&[("requests", &(scale.requests / 4)), ("read_fraction", &0.5)]);
        let run = |parts: Parted| {
            timed("ideal-page", &device, "uniform", &workload, Clock::Events, |device, source, options| {
                let mut listener = Listener { wants_parts: parts != Parted::No };
                if parts == Parted::OnAnotherThread {
                    let mut apart = Apart::new(listener);
                    return simulate(device, source, options, &RunControl::default(), &mut apart);
                }
                simulate(device, source, options, &RunControl::default(), &mut listener)
            })
        };
        for (parts, place) in
            [(Parted::OnAnotherThread, "a thread of their own"), (Parted::Here, "the same thread")]
        {
            let ((without, plain), (_, explained), ratio) = in_turn(scale, || run(Parted::No), || run(parts));
            assert_eq!(plain.summary.flash, explained.summary.flash, "parts change nothing");
            println!(
                "(k) parts of latency on {place}, {name}: {:.1} ns a request without, {ratio:.3} of the time with, by the median of {} \
                 rounds (asked for: {ASKED}), hash {:016x}",
                without * 1e9 / (scale.requests / 4) as f64,
                scale.rounds,
                hash(&plain),
            );
        }
        let log = || {
            timed("ideal-page", &device, "uniform", &workload, Clock::Events, |device, source, options| {
                let mut log = RequestLog::create(&folder.path().join("requests.parquet")).unwrap();
                let outcome = simulate(device, source, options, &RunControl::default(), &mut log);
                log.finish().unwrap();
                outcome
            })
        };
        let ((explained, _), (logged, outcome), ratio) = in_turn(scale, || run(Parted::OnAnotherThread), log);
        println!(
            "(k) requests written with their parts, {name}: {:.1} ns a request more, {ratio:.3} of the time without the file, hash {:016x}",
            (logged - explained) * 1e9 / (scale.requests / 4) as f64,
            hash(&outcome),
        );
    }
}
