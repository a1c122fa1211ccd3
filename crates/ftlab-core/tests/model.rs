//! Random drives of every shape against a naive model: what is read is what was written last.
//!
//! The model is a version for each sector, kept apart from the drive. Flash refuses broken rules, and every table is
//! recounted at the end. A failure shrinks, and is replayed from `proptest-regressions`.

use crate::common::drives::{cases, drives, requests};
use crate::common::{Log, device, run_with};
use ftlab_core::device::{RunError, RunOptions};
use proptest::prelude::*;

fn parts_sum_to_the_whole(outcome: &ftlab_core::device::RunOutcome, log: &Log) {
    let summary = &outcome.summary;
    let host = &summary.host;
    assert_eq!(host.requests, host.completed + host.rejected + host.unfinished);
    assert_eq!(host.unfinished, 0);
    assert_eq!(host.completed, host.reads + host.writes + host.trims + host.flushes);
    assert_eq!(host.completed, log.requests.len() as u64);
    let latency = summary.latency_ns.as_ref().unwrap();
    assert_eq!(latency.all.count, host.completed);
    if let Some(wa) = &summary.write_amplification {
        let parts = wa.host
            + wa.gc
            + wa.metadata
            + wa.wear_level
            + wa.map
            + wa.merge
            + wa.cache_flush
            + wa.lsb_backup
            + wa.recovery;
        assert!((parts - wa.total).abs() < 1e-9, "{wa:?}");
    }
    let flash = &summary.flash;
    let commands = [&flash.reads, &flash.programs, &flash.erases, &flash.copybacks];
    assert_eq!(commands.iter().map(|by| by.total).sum::<u64>(), log.commands.len() as u64);
    let busy: u64 = log.commands.iter().map(|command| command.end.since(command.start).0).sum();
    let told = summary.busy_ns.as_ref().unwrap().total as f64;
    assert!(
        (busy as f64 / 1000.0 - told).abs() < 10.0,
        "die time {busy} ps in the log, {told} ns in the summary"
    );
}

/// No unit runs two commands at once, no channel two transfers, and the pages of a block are programmed in order.
fn time_is_physical(log: &Log) {
    let mut by_die: std::collections::BTreeMap<u32, Vec<_>> = std::collections::BTreeMap::new();
    let mut by_channel: std::collections::BTreeMap<u32, Vec<_>> = std::collections::BTreeMap::new();
    for command in &log.commands {
        by_die.entry(command.die).or_default().push((command.start, command.end));
        if command.transfer.1 > command.transfer.0 {
            by_channel.entry(command.channel).or_default().push(command.transfer);
        }
    }
    for (what, spans) in
        by_die.iter_mut().map(|e| ("die", e)).chain(by_channel.iter_mut().map(|e| ("channel", e)))
    {
        spans.1.sort_unstable();
        for pair in spans.1.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{what} {} does two things at once: {pair:?}", spans.0);
        }
    }
}

proptest! {
    #![proptest_config(cases(120))]

    #[test]
    fn reads_return_the_last_write(value in drives(), mut requests in requests()) {
        let config = device(value);
        let sectors = config.logical_pages() * config.unit_bytes() / 512;
        for request in &mut requests {
            request.sectors = request.sectors.min(sectors as u32);
        }
        let timed = RunOptions { verify: true, ..RunOptions::default() };
        let (outcome, log) = run_with(&config, &requests, &timed);
        prop_assert_eq!(&outcome.error, &None::<RunError>);
        let verify = outcome.summary.verify.as_ref().unwrap();
        prop_assert!(verify.tables_agree && verify.mismatches == 0);
        parts_sum_to_the_whole(&outcome, &log);
        time_is_physical(&log);

        // Order and time are two things: the same commands without a clock.
        let untimed = RunOptions { timing: false, ..timed };
        let (without_clock, _) = run_with(&config, &requests, &untimed);
        prop_assert_eq!(&without_clock.error, &None::<RunError>);
        prop_assert_eq!(&without_clock.summary.flash, &outcome.summary.flash);
        prop_assert_eq!(&without_clock.summary.parts, &outcome.summary.parts);
        prop_assert_eq!(&without_clock.summary.wear, &outcome.summary.wear);
    }
}
