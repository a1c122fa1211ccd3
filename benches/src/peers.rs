//! The runs that users of other simulators know, at their shapes.
//!
//! Streams whose traces cannot be had with this project are stand-ins, and their rows say so.

use std::time::Instant;

use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate};
use ftlab_validation::{load, load_source, load_source_in_line, settings};

use super::{Clock, Scale, best, commands, hash, in_turn, run};

/// Most that a clock may take, as a part of the same run without.
const CLOCKED: f64 = 2.2;
/// Most microseconds that a flash command may take where dies are many and collection goes on.
const COMMAND_US: f64 = 0.25;
/// Least that two runs side by side do in the time of one.
const TOGETHER: f64 = 1.9;

pub(super) fn peers(scale: &Scale) {
    many_dies(scale);
    mixed(scale);
    whole_runs(scale);
    side_by_side(scale);
    written_fills(scale);
    overloaded(scale);
}

/// Seconds from building a drive to the end of its run, and what came of it.
fn whole(run: impl FnOnce() -> RunOutcome) -> (f64, RunOutcome) {
    let start = Instant::now();
    let outcome = run();
    (start.elapsed().as_secs_f64(), outcome)
}

/// Random writes of a page at depth 32 on MQSim's drive, which is empty at first: 64 dies of two planes, on 8 channels.
fn many_dies(scale: &Scale) {
    let requests = scale.requests / 2;
    let device =
        settings(&[("precondition.kind", &"none"), ("host.arrival", &"closed"), ("host.queue_depth", &32)]);
    let keys = settings(&[("requests", &requests), ("request_bytes", &8192)]);
    let go = |clock| run("mqsim", &device, "uniform", &keys, clock);
    let ((without, _), (with, timed), ratio) = in_turn(scale, || go(Clock::None), || go(Clock::Chosen));
    println!(
        "(l) random writes of a page, depth 32, 64 dies: {:.1} ns a request with a clock, {:.1} without, {ratio:.2} of the time \
         (asked for: {CLOCKED}), {:.3} us a command, hash {:016x}",
        with * 1e9 / requests as f64,
        without * 1e9 / requests as f64,
        with * 1e6 / commands(&timed) as f64,
        hash(&timed)
    );
}

/// Reads and writes of a page anywhere, on 32 dies that collect: the drive and the workload.
fn mixed_settings(scale: &Scale) -> (Vec<String>, Vec<String>) {
    let device = settings(&[
        ("geometry.channels", &8),
        ("geometry.ways", &4),
        ("geometry.blocks_per_plane", &(scale.pages / 64 / 32)),
        ("ftl.gc_low_free_blocks", &1),
        ("ftl.striping", &"dynamic"),
        ("precondition.kind", &"steady"),
        ("host.queue_depth", &32),
    ]);
    (device, settings(&[("requests", &(scale.requests / 4)), ("read_fraction", &0.5)]))
}

/// A command of many, while collection goes on.
fn mixed(scale: &Scale) {
    let (device, keys) = mixed_settings(scale);
    let (seconds, outcome) = best(scale, || run("ideal-page", &device, "uniform", &keys, Clock::Chosen));
    println!(
        "(l) reads and writes of a page, depth 32, 32 dies: {:.1} ns a request, {:.3} us a command (asked for: {COMMAND_US}), write \
         amplification {:.2}, hash {:016x}",
        seconds * 1e9 / outcome.summary.host.completed as f64,
        seconds * 1e6 / commands(&outcome) as f64,
        outcome.summary.write_amplification.as_ref().map_or(0.0, |amplification| amplification.total),
        hash(&outcome)
    );
}

/// Whole runs, building and filling the drive included: what a user of another simulator times.
fn whole_runs(scale: &Scale) {
    let full = scale.requests as f64 / 20e6;
    let of_full = |requests: f64| (requests * full) as u64;
    for (name, device, changes, workload, keys) in [
        (
            "WebSearch1, a stand-in, on the drive of MQSim",
            "mqsim",
            settings(&[("precondition.kind", &"fill")]),
            "like-websearch",
            settings(&[("requests", &of_full(5e6))]),
        ),
        (
            "like IOzone (writes of 360 KiB in order), on the drive of DiskSim's extension",
            "msr-ssd",
            settings(&[("host.arrival", &"closed"), ("host.queue_depth", &1)]),
            "sequential",
            settings(&[("requests", &of_full(1e5)), ("request_bytes", &(360 << 10))]),
        ),
        (
            "like Postmark (a mix of 4 to 64 KiB), on the drive of DiskSim's extension",
            "msr-ssd",
            settings(&[("host.arrival", &"closed"), ("host.queue_depth", &1)]),
            "mix",
            settings(&[("requests", &of_full(62e3))]),
        ),
    ] {
        let (seconds, outcome) =
            best(scale, || whole(|| run(device, &changes, workload, &keys, Clock::Chosen).1));
        let requests = outcome.summary.host.completed;
        println!(
            "(l) {name}: {requests} requests, {seconds:.3} s in all, {:.0} ns a request, {:.1} M commands/s, hash {:016x}",
            seconds * 1e9 / requests as f64,
            commands(&outcome) as f64 / seconds / 1e6,
            hash(&outcome)
        );
    }
}

/// That drive alone, aged and run, and two of them at a time. A run alone may have its requests made on a thread of its own; the
/// runs of a study make them in line, so that two runs are two threads. Beside it stands what the machine allows two kernels.
fn side_by_side(scale: &Scale) {
    let (device, keys) = mixed_settings(scale);
    let device = load("ideal-page", &device);
    let mut copies = 0.0;
    for (name, source) in [
        ("that make their requests in line", load_source_in_line(&device, "uniform", &keys)),
        ("that have a thread each for their requests", load_source(&device, "uniform", &keys)),
    ] {
        let one = || {
            let options = RunOptions::default();
            let outcome = simulate(&device, &*source, &options, &RunControl::default(), &mut ());
            let outcome = outcome.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(outcome.error, None);
            outcome
        };
        let both = || {
            let (twin, outcome) = twice(one);
            assert_eq!(hash(&twin), hash(&outcome), "neighbours change nothing");
            outcome
        };
        let (_, (seconds, outcome), ratio) = in_turn(scale, || whole(one), || whole(both));
        println!(
            "(l) two runs side by side {name}: {:.2} times the throughput of one (asked for: {TOGETHER}), {seconds:.2} s, hash {:016x}",
            2.0 / ratio,
            hash(&outcome)
        );
        copies = outcome
            .summary
            .write_amplification
            .as_ref()
            .map_or(0.0, |amplification| amplification.total - 1.0);
    }
    let kernel = || super::kernel::<true>(scale, scale.pages / 64, copies).ns_per_write;
    let (one, (first, second)) = (kernel(), twice(kernel));
    println!("    two prefetching kernels: {:.2} times the throughput of one", one / first + one / second);
}

/// The same on two threads at a time.
fn twice<T: Send>(once: impl Fn() -> T + Sync) -> (T, T) {
    std::thread::scope(|scope| {
        let other = scope.spawn(&once);
        let own = once();
        (own, other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Fills that must be written, with pages of one unit and of four.
fn written_fills(scale: &Scale) {
    let fill = |per_page: usize| -> (f64, RunOutcome) {
        let device = settings(&[
            ("geometry.page_bytes", &(4096 * per_page)),
            ("geometry.mapping_unit_bytes", &4096),
            ("geometry.pages_per_block", &(256 / per_page)),
            ("geometry.blocks_per_plane", &(scale.pages / 256)),
            ("ftl.over_provisioning", &0.1),
            ("precondition.kind", &"fill"),
        ]);
        let device = load("ideal-page", &device);
        let source = load_source(&device, "uniform", &settings(&[("requests", &1)]));
        // What is verified is written.
        let options = RunOptions { timing: false, verify: true, ..RunOptions::default() };
        whole(|| {
            simulate(&device, &*source, &options, &RunControl::default(), &mut ())
                .unwrap_or_else(|error| panic!("{error}"))
        })
    };
    let ((small, _), (large, outcome), ratio) = in_turn(scale, || fill(1), || fill(4));
    let units = scale.pages as f64 / 1.1;
    println!(
        "(l) a fill that is written, verified: {:.1} ns a unit with pages of 4 KiB, {:.1} with 16 KiB, {ratio:.2} of the time (asked \
         for: 1.00), hash {:016x}",
        small * 1e9 / units,
        large * 1e9 / units,
        hash(&outcome)
    );
}

/// Random writes of a page that come far faster than a drive takes them: nearly all of them wait, and what collection does for
/// them. MQSim's drive collects die by die; the other moves units between dies, so that erases wait for old programs elsewhere.
fn overloaded(scale: &Scale) {
    for (name, part, changes) in [
        ("mqsim", 40, settings(&[("host.arrival", &"open")])),
        ("tlc-small", 10, settings(&[("host.arrival", &"open"), ("geometry.blocks_per_plane", &100)])),
    ] {
        let go = |gap_us: f64| {
            let keys = settings(&[("requests", &(scale.requests / part)), ("mean_interarrival_us", &gap_us)]);
            run(name, &changes, "uniform", &keys, Clock::Chosen)
        };
        // The same writes, far apart: what the drive takes when nothing waits.
        let (_, idle) = go(1e6);
        let (seconds, outcome) = best(scale, || go(0.5));
        let commands = commands(&outcome) as f64;
        let waiting = outcome.summary.memory.table_bytes.saturating_sub(idle.summary.memory.table_bytes);
        println!(
            "(l) writes of a page that overload {name}: {:.1} bytes a command, {:.3} us a command, hash {:016x}",
            waiting as f64 / commands,
            seconds * 1e6 / commands,
            hash(&outcome)
        );
    }
}
