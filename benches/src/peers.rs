//! The runs that users of other simulators know, at their shapes.

use ftlab_validation::settings;

use super::{Clock, Scale, best, commands, hash, in_turn, run};

/// Most that a clock may take, as a part of the same run without.
const CLOCKED: f64 = 2.2;
/// Most microseconds that a flash command may take where dies are many and collection goes on.
const COMMAND_US: f64 = 0.25;

pub(super) fn peers(scale: &Scale) {
    many_dies(scale);
    mixed(scale);
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

/// Reads and writes anywhere on 32 dies that collect.
fn mixed(scale: &Scale) {
    let requests = scale.requests / 4;
    let device = settings(&[
        ("geometry.channels", &8),
        ("geometry.ways", &4),
        ("geometry.blocks_per_plane", &(scale.pages / 64 / 32)),
        ("ftl.gc_low_free_blocks", &1),
        ("ftl.striping", &"dynamic"),
        ("precondition.kind", &"steady"),
        ("host.queue_depth", &32),
    ]);
    let keys = settings(&[("requests", &requests), ("read_fraction", &0.5)]);
    let (seconds, outcome) = best(scale, || run("ideal-page", &device, "uniform", &keys, Clock::Chosen));
    println!(
        "(l) reads and writes of a page, depth 32, 32 dies: {:.1} ns a request, {:.3} us a command (asked for: {COMMAND_US}), write \
         amplification {:.2}, hash {:016x}",
        seconds * 1e9 / requests as f64,
        seconds * 1e6 / commands(&outcome) as f64,
        outcome.summary.write_amplification.as_ref().map_or(0.0, |amplification| amplification.total),
        hash(&outcome)
    );
}
