//! Power cuts: how many are examined a second, and what LSB backup costs.

use std::fmt::Write;
use std::time::Instant;

use ftlab_core::crash::{CrashOptions, CutAt, record};
use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_validation::{load, load_source, settings};

use super::{Scale, commands, fnv, hash, in_turn};

/// Cuts a second that are asked for, on one core.
const CUTS: f64 = 1000.0;

/// Share of the commands a second without backups that is asked for.
const WITH_BACKUPS: f64 = 0.8;

/// 64 blocks of 64 pages that have been written over: a cut at commands and at instants, each with a mount from flash alone,
/// an audit of every sector, writes, and another mount and audit.
pub(super) fn cuts(scale: &Scale) {
    let points = scale.requests / 10_000;
    let device = |ways: usize| {
        load(
            "ideal-page",
            &settings(&[
                ("geometry.ways", &ways),
                ("geometry.blocks_per_plane", &(64 / ways)),
                ("ftl.logical_pages", &3200),
                ("ftl.gc_low_free_blocks", &1),
                ("precondition.kind", &"fill"),
                ("host.arrival", &"closed"),
                ("host.queue_depth", &8),
            ]),
        )
    };
    for (name, ways, at) in
        [("one die, at commands", 1, CutAt::Command), ("four dies, at instants", 4, CutAt::Time)]
    {
        let (device, control) = (device(ways), RunControl::default());
        let source = load_source(&device, "uniform", &settings(&[("requests", &5000)]));
        let options = CrashOptions { at, ..CrashOptions::default() };
        let recording =
            record(&device, &*source, &options, &control).unwrap_or_else(|error| panic!("{error}"));
        let (mut text, mut lost, start) = (String::new(), 0, Instant::now());
        recording
            .examine(recording.spread(points), &control, &mut |one| {
                lost += u64::from(!one.cut.is_survived());
                let _ = writeln!(text, "{one:?}");
            })
            .unwrap_or_else(|error| panic!("{error}"));
        let rate = points as f64 / start.elapsed().as_secs_f64();
        println!(
            "(e) power cuts, 64 blocks of 64 pages, {name}: {points} cuts, {rate:.0} a second (asked for: {CUTS:.0}), \
             {lost} with losses, hash {:016x}",
            fnv(&text)
        );
    }
}

/// The same overwrites of cells of two bits with and without a backup of what a program endangers.
pub(super) fn backups(scale: &Scale) {
    // Enough of them that the fill, which programs and backs up as well, is a small part: its commands are not counted.
    let requests = scale.requests / 4;
    for (clock, timing) in [("without a clock", false), ("with a clock", true)] {
        let run = |kind: &str| {
            let device = load(
                "ideal-page",
                &settings(&[
                    ("geometry.blocks_per_plane", &1200),
                    ("ftl.logical_pages", &64_000),
                    ("cell.kind", &"mlc"),
                    ("cell.page_order", &"tiles"),
                    ("lsb_backup.kind", &kind),
                    ("precondition.kind", &"fill"),
                ]),
            );
            let source = load_source(&device, "uniform", &settings(&[("requests", &requests)]));
            let options = RunOptions { timing, ..RunOptions::default() };
            let start = Instant::now();
            let outcome = simulate(&device, &*source, &options, &RunControl::default(), &mut ());
            (start.elapsed().as_secs_f64(), outcome.unwrap_or_else(|error| panic!("{error}")))
        };
        let ((_, without), (seconds, with), ratio) = in_turn(scale, || run("none"), || run("copy"));
        let rate = commands(&with) as f64 / commands(&without) as f64 / ratio;
        println!(
            "(f) LSB backup, {clock}: {:.1} M commands/s, {rate:.2} of those without backups by the median of {} rounds (asked \
             for: {WITH_BACKUPS}), hash {:016x}",
            commands(&with) as f64 / seconds / 1e6,
            scale.rounds,
            hash(&with)
        );
    }
}
