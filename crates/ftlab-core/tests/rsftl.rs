//! Request striping against theory: how many backups uniform random writes need.

use ftlab_core::cause::Command;
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::RunOptions;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::metrics::CommandRecord;
use ftlab_core::rng::Rng;
use serde_json::{Value, json};

use super::common::drives::is_long;
use super::common::{device, merged, request, run, run_with};

/// `lsb-backup`, section 5: between the two requests of a pair, so many others come, for so many of 64 pairs.
fn between(order: &str, pages: u32, group: u32) -> Vec<(f64, f64)> {
    let turns = 2.0 / f64::from(pages);
    let others = |distance: f64| distance * turns * f64::from(group) - 1.0;
    match order {
        "tiles" => vec![(1.0, others(1.0))],
        _ => vec![(60.0 / 64.0, others(3.0)), (4.0 / 64.0, others(2.0))],
    }
}

/// Backups for each page written, by measurement and by the formula.
fn shares(order: &str, pages: u32, group: u32, chunks: u64, requests: u32) -> (f64, f64) {
    let blocks = requests * pages / 128 + 4 * group + 64;
    let config = device(json!({
        "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": blocks, "pages_per_block": 128, "page_bytes": 4096 },
        "cell": { "kind": "mlc", "page_order": order },
        "ftl": { "placement": "rsftl", "group_blocks": group, "logical_pages": chunks * u64::from(pages) },
        "lsb_backup": { "kind": "copy" },
    }));
    let mut rng = Rng::new(u64::from(group) + chunks, "rsftl");
    let sectors = 8 * pages;
    let write = |_| request(0.0, Op::Write, rng.below(chunks) * u64::from(sectors), sectors);
    let requests: Vec<Request> = (0..requests).map(write).collect();
    let options = RunOptions { timing: false, ..RunOptions::default() };
    let (outcome, _) = run_with(&config, &requests, &options);
    let summary = serde_json::to_value(&outcome.summary).unwrap();
    assert_eq!(summary["gc"]["collections"], 0, "the formula has no collection in it");
    let stays = 1.0 - 1.0 / chunks as f64;
    let due =
        between(order, pages, group).iter().map(|(share, others)| 0.5 * share * stays.powf(*others)).sum();
    let counts = |name: &str| summary["lsb_backup"][name].as_f64().unwrap();
    // Half of the pages of full blocks are MSB, and each endangers one other. Blocks that are not full have fewer.
    let endangered: f64 =
        ["pages", "skipped_stale", "skipped_same_request", "skipped_kept"].into_iter().map(counts).sum();
    (0.5 * counts("pages") / endangered, due)
}

#[test]
fn uniform_writes_need_as_many_backups_as_the_formula_says() {
    let long = is_long();
    let requests = if long { 200_000 } else { 40_000 };
    for order in ["tiles", "shadow_pairs"] {
        for (pages, chunks) in [(1, 48), (2, 48), (1, 256), (2, 256), (2, 1024)] {
            for group in [1, 4, 16, 64, 128] {
                let (share, due) = shares(order, pages, group, chunks, requests);
                // A pair needs its backups or not; pages of a request share their fate.
                let pairs = f64::from(requests) / 2.0;
                let error = 0.5 * (due * 2.0 * (1.0 - due * 2.0) / pairs).max(0.0).sqrt();
                let allowed = (0.01 * due).max(3.0 * error);
                assert!(
                    (share - due).abs() <= allowed,
                    "{order}, {pages} pages, {group} blocks, {chunks} chunks: {share} instead of {due} +- {allowed}"
                );
            }
        }
    }
    // Published in the notes to the paper.
    let near = |value: f64, due: f64| assert!((value - due).abs() < 0.00006, "{value} {due}");
    let formula = |order, chunks: f64, group| {
        let of = |(share, others): &(f64, f64)| 0.5 * share * (1.0 - 1.0 / chunks).powf(*others);
        between(order, 2, group).iter().map(of).sum::<f64>()
    };
    near(formula("tiles", 256.0, 64), 0.3907);
    near(formula("shadow_pairs", 48.0, 64), 0.0106);
}

fn uniform(pages: u64, of: u64, count: u32) -> Vec<Request> {
    let mut rng = Rng::new(9, "equal");
    let write = |_| request(0.0, Op::Write, rng.below(of / pages) * 8 * pages, 8 * pages as u32);
    (0..count).map(write).collect()
}

/// One group of one block, into which all requests go, is appending in the order of arrival: command for command.
#[test]
fn a_group_of_one_block_is_appending() {
    let drive = |ftl: Value| {
        device(json!({
            "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 40, "pages_per_block": 16, "page_bytes": 4096 },
            "cell": { "kind": "mlc", "page_order": "tiles" },
            "ftl": merged(json!({ "logical_pages": 420 }), ftl),
            "lsb_backup": { "kind": "copy" },
            "host": { "arrival": "closed", "queue_depth": 1 },
        }))
    };
    let requests: Vec<Request> =
        uniform(1, 420, 2000).into_iter().chain(uniform(3, 420, 800)).chain(uniform(8, 420, 100)).collect();
    let appended = run(&drive(json!({})), &requests);
    let keys = json!({ "placement": "rsftl", "group_blocks": 1, "small_request_bytes": "1TiB" });
    let striped = run(&drive(keys), &requests);
    assert!(appended.0.summary.flash.erases.total > 100);
    assert_eq!(appended.1.commands, striped.1.commands);
    assert_eq!(appended.1.requests, striped.1.requests);
}

/// Aligned requests of two pages fill whole word lines where neighbours are partners: a backup has nothing to do.
#[test]
fn nothing_is_backed_up_where_requests_fill_word_lines() {
    let drive = |blocks: u32, backup: &str| {
        device(json!({
            "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": blocks, "pages_per_block": 16, "page_bytes": 4096 },
            "cell": { "kind": "mlc", "page_order": "adjacent" },
            "ftl": { "logical_pages": 480 },
            "lsb_backup": { "kind": backup },
            "host": { "arrival": "closed", "queue_depth": 1 },
        }))
    };
    let requests: Vec<Request> = (0..240).map(|chunk| request(0.0, Op::Write, 16 * chunk, 16)).collect();
    let without = run(&drive(40, "none"), &requests);
    let with = run(&drive(42, "copy"), &requests);
    assert_eq!(without.1.commands, with.1.commands);
    assert_eq!(without.1.requests, with.1.requests);
}

/// A drive of two channels that has its pages by `precondition` at first.
fn filled_first(group_blocks: u32, precondition: &Value) -> DeviceConfig {
    device(json!({
        "geometry": { "channels": 2, "ways": 1, "blocks_per_plane": 24, "pages_per_block": 16, "page_bytes": 4096 },
        "ftl": { "placement": "rsftl", "group_blocks": group_blocks, "logical_pages": 300 },
        "host": { "arrival": "closed", "queue_depth": 1 },
        "precondition": precondition,
    }))
}

#[test]
fn a_fill_goes_where_requests_would_go() {
    let of_all = |op| (0..300).map(move |page| request(0.0, op, 8 * page, 8));
    let reads: Vec<Request> = of_all(Op::Read).collect();
    let places = |precondition: &Value, requests: &[Request]| -> Vec<u64> {
        let (_, log) = run(&filled_first(3, precondition), requests);
        let is_read = |record: &&CommandRecord| record.command == Command::Read;
        log.commands.iter().filter(is_read).map(|record| record.page).collect()
    };
    let filled = places(&json!({ "kind": "fill" }), &reads);
    let written = places(&json!({}), &of_all(Op::Write).chain(reads.iter().copied()).collect::<Vec<_>>());
    assert_eq!(filled, written);
}

/// A workload of one write, repeated, is a workload of two that is repeated half as often.
#[test]
fn each_pass_of_a_workload_that_ages_a_drive_is_new_requests() {
    let pages_written = |writes: usize| {
        let precondition = json!({ "kind": "free_blocks", "pattern": "workload", "max_drive_writes": 50 });
        let requests = vec![request(0.0, Op::Write, 0, 8); writes];
        let (outcome, _) = run(&filled_first(3, &precondition), &requests);
        serde_json::to_value(&outcome.summary).unwrap()["precondition"]["pages_written"].clone()
    };
    assert_eq!(pages_written(1), pages_written(2));
}
