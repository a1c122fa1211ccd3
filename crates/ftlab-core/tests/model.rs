//! Random drives of every shape against a naive model: what is read is what was written last.
//!
//! The model is a version for each sector, kept apart from the drive. Flash refuses broken rules, and every table is
//! recounted at the end. A failure shrinks, and is replayed from `proptest-regressions`.

use crate::common::{Log, device, run_with};
use ftlab_core::config::AllocationOrder;
use ftlab_core::device::{RunError, RunOptions};
use ftlab_core::ftl::gc::VictimKind;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::mapcache::MapCacheKind;
use proptest::prelude::*;
use serde_json::{Value, json};

/// A drive of any shape that validation accepts: small, and with enough spare space for every policy.
fn drives() -> impl Strategy<Value = Value> {
    let orders: Vec<String> = AllocationOrder::all().iter().map(ToString::to_string).collect();
    let policies: Vec<&str> = VictimKind::ALL.iter().map(|kind| kind.name()).collect();
    let shape = (1..4_u32, 1..3_u32, 1..3_u32, 1..4_u32, 12..20_u32, 2..7_u32, 0..3_u32, any::<bool>());
    let ftl = (
        proptest::sample::select(policies),
        proptest::sample::select(orders),
        proptest::sample::select(vec!["static", "dynamic"]),
        proptest::sample::select(vec!["ordered", "most_free"]),
        proptest::sample::select(vec!["separate", "shared"]),
        proptest::sample::select(vec!["on_write", "on_access"]),
        proptest::sample::select(vec!["fifo", "next_fit"]),
        proptest::sample::select(vec!["none", "dynamic", "static"]),
        (1..3_u32, any::<bool>(), 1..3_u32, 0..3_u32),
    );
    let rest = (
        proptest::sample::select(vec![
            ("slc", "adjacent"),
            ("mlc", "adjacent"),
            ("mlc", "shadow_pairs"),
            ("tlc", "tlc_pairs"),
        ]),
        (any::<bool>(), any::<bool>(), 0..3_u32, any::<bool>()),
        proptest::sample::select(vec!["open", "closed"]),
        (1..9_u32, proptest::sample::select(vec!["half", "full"]), 0..2_u32),
        proptest::sample::select(vec!["none", "fill", "steady"]),
        (any::<bool>(), map_caches()),
    );
    (shape, ftl, rest).prop_map(|(shape, ftl, rest)| {
        let (channels, ways, dies, planes, blocks, pages, slot_shift, summary) = shape;
        let (gc, order, striping, plane_choice, open_block, when, free, wear, numbers) = ftl;
        let (mut streams, high, low, tie) = numbers;
        let (cell, (copyback, independent, command, spare), arrival, (depth, duplex, link), precondition, (blocks_layout, map_cache)) =
            rest;
        // Single units on pages of several leave most of each page empty until collection packs them: that takes
        // space, and blocks of more than a few pages.
        let pages = if slot_shift == 0 { pages } else { pages + 2 };
        let mut open_block = open_block;
        let cached = map_cache["kind"] != "ideal";
        let plane_choice = if cached { "ordered" } else { plane_choice };
        if plane_choice == "most_free" {
            (streams, open_block) = (1, "shared");
        }
        let mut value = json!({
            "geometry": { "channels": channels, "ways": ways, "dies": dies, "planes": planes,
                "blocks_per_plane": blocks + 6, "pages_per_block": pages + u32::from(summary), "page_bytes": 4096,
                "spare_bytes": 128, "mapping_unit_bytes": 4096 >> slot_shift },
            "cell": { "kind": cell.0, "page_order": cell.1 },
            "timing": { "read_us": { "lsb": 20, "csb": 30, "msb": 45 }, "program_us": { "lsb": 100, "csb": 300, "msb": 700 },
                "erase_us": 1000, "bus_mb_per_s": 333, "command_us": f64::from(command) * 0.3, "copyback": copyback,
                "independent_planes": independent, "transfer_spare": spare },
            "ftl": { "gc": gc, "gc_low_free_blocks": low, "gc_high_free_blocks": if high { low + 2 } else { 0 },
                "gc_choices": 3, "gc_window": 4, "gc_tie": if tie == 0 { "highest" } else { "lowest" },
                "gc_open_block": open_block, "gc_when": when, "allocation": order, "striping": striping,
                "plane_choice": plane_choice, "streams": streams, "summary_page": summary,
                "over_provisioning": if slot_shift == 0 { 1.5 } else { 4.0 },
                "free_block": if wear == "none" { free } else { "fifo" }, "wear_leveling": wear,
                "wear_leveling_threshold": 2 },
            "host": { "arrival": arrival, "link_mb_per_s": link * 500, "link_duplex": duplex, "out_of_range": "wrap" },
            "precondition": { "kind": precondition, "max_drive_writes": 8,
                "layout": if blocks_layout && streams == 1 && slot_shift == 0 { "blocks" } else { "written" } },
        });
        if cached {
            // Many translation pages on a small drive: pages of 512 bytes, and blocks for what they take.
            value["geometry"]["page_bytes"] = json!(512 << slot_shift);
            value["geometry"]["mapping_unit_bytes"] = json!(512);
            value["geometry"]["blocks_per_plane"] = json!(blocks + 10);
        }
        value["map_cache"] = map_cache;
        if value["map_cache"]["kind"] == "cftl" {
            // The least that will do, and what the strategy gives beyond that: filters, bits of blocks, entries.
            let blocks = device(value.clone()).logical_pages().div_ceil(value["map_cache"]["cftl_block_pages"].as_u64().unwrap());
            let more = value["map_cache"]["bytes"].as_u64().unwrap() - LARGE;
            value["map_cache"]["bytes"] = json!(2048 + blocks.div_ceil(8) + 38 + more);
        }
        value["host"][if arrival == "open" { "outstanding" } else { "queue_depth" }] = json!(depth);
        value
    })
}

/// Every mapping cache, most with little memory.
fn map_caches() -> impl Strategy<Value = Value> {
    let kinds: Vec<&str> = MapCacheKind::ALL.iter().map(|kind| kind.name()).collect();
    (proptest::sample::select(kinds), 0..3_usize, any::<bool>(), 0..18_usize).prop_map(
        |(kind, size, coalesce, shape)| {
            if kind == "ideal" {
                return json!({ "kind": kind });
            }
            let mut map_cache = json!({ "kind": kind, "bytes": ([4096, 5000, 16_000][size]) });
            if !WITHOUT_COALESCING.contains(&kind) {
                map_cache["flush_coalesce"] = json!(coalesce);
            }
            match kind {
                "dftl" | "tpftl" => map_cache["bytes"] = json!(([40, 100, 1000][size])),
                "cftl" => {
                    map_cache["bytes"] = json!(LARGE + ([0, 120, 2000][size]));
                    map_cache["cftl_block_pages"] = json!(([2, 8, 64][shape % 3]));
                }
                "leaftl" => {
                    map_cache["leaftl_gamma"] = json!(([0, 1, 8][shape % 3]));
                    map_cache["leaftl_batch_pages"] = json!(([1, 30, 2048][shape / 3 % 3]));
                    map_cache["leaftl_compaction_writes"] = json!(([10, 1000][shape / 9]));
                }
                _ => {}
            }
            map_cache
        },
    )
}

/// Enough for every mapping cache, on any of the drives.
const LARGE: u64 = 1 << 20;

/// Schemes that always write all that they have changed of a translation page.
const WITHOUT_COALESCING: [&str; 3] = ["full_page", "sftl", "tpftl"];

/// Requests of every kind, size and alignment: most small, some over many pages, some without effect.
fn requests() -> impl Strategy<Value = Vec<Request>> {
    let one = (0..10_u32, any::<u64>(), prop_oneof![4 => 1..20_u32, 1 => 20..100_u32], 0..3_u16, 0..400_u64);
    // Where everything is written, or much is only read and trimmed.
    let written = proptest::sample::select(vec![900, 200]);
    (proptest::collection::vec(one, 1..250), written).prop_map(|(rows, written)| {
        let mut arrival_ns = 0;
        let request = |(kind, lba, sectors, stream, gap)| {
            let op = match kind {
                0..=4 => Op::Write,
                5..=7 => Op::Read,
                8 => Op::Trim,
                _ => Op::Flush,
            };
            arrival_ns += gap * 1000;
            // A few regions, so that writes meet each other.
            let lba = lba % if op == Op::Write { written } else { 900 };
            Request { arrival_ns, lba, sectors, op, stream }
        };
        rows.into_iter().map(request).collect()
    })
}

fn parts_sum_to_the_whole(outcome: &ftlab_core::device::Outcome, log: &Log) {
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

/// This many cases, unless `PROPTEST_CASES` asks for others (`make test-long`).
fn cases(usual: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_some() {
        config
    } else {
        ProptestConfig { cases: usual, ..config }
    }
}

proptest! {
    #![proptest_config(cases(1500))]

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
        prop_assert_eq!(&without_clock.summary.gc, &outcome.summary.gc);
        prop_assert_eq!(&without_clock.summary.wear, &outcome.summary.wear);
    }
}
