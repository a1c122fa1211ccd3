//! Block-mapped layers: merges by hand, closed forms, and what must be equal.

use crate::common::{device, latencies, merged, of_chosen, request, run_with};
use ftlab_core::cause::Command;
use ftlab_core::device::RunOptions;
use ftlab_core::ftl::hybrid::merge::MergeCounts;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::metrics::summary::Summary;
use ftlab_core::time::Time;
use serde_json::{Value, json};

/// A drive of `blocks` logical blocks of `pages` pages of 4 KiB, filled in order.
fn drive(kind: &Value, blocks: u32, pages: u32, memories: u32) -> Value {
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
    let (summary, merges) = run(drive(kind, blocks, pages, 1), &writes(stream.iter().copied()), true);
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

/// Full and partial merges, copies, pages programmed and erases of writes and trims of so many pages on an empty drive.
fn after_trims(kind: &Value, pages: u32, deeds: &[(Op, u32, u32)]) -> (u64, u64, u64, u64, u64) {
    let of = |(op, page, count): &(Op, u32, u32)| Request {
        op: *op,
        sectors: count * 8,
        ..writes([*page]).pop().expect("one was asked for")
    };
    let requests: Vec<Request> = deeds.iter().map(of).collect();
    let empty = merged(drive(kind, 4, pages, 1), json!({ "precondition": { "kind": "none" } }));
    let (summary, merges) = run(empty, &requests, true);
    let programs = summary.flash.programs.total + summary.flash.copybacks.total;
    (merges.full, merges.partial, merges.pages_copied, programs, summary.flash.erases.total)
}

#[test]
fn what_trims_leave_by_hand() {
    use Op::{Trim, Write};
    // Pages 4 and 5 end the data block and the log block: one page above those that are copied marks the end of both.
    let bast = json!({ "kind": "bast", "log_blocks": 1 });
    let deeds = [(Write, 0, 5), (Write, 8, 8), (Write, 3, 3), (Trim, 4, 2), (Write, 9, 1)];
    assert_eq!(after_trims(&bast, 8, &deeds), (1, 0, 4, 17 + 4 + 1, 2));
    // A sequence without live pages is erased at once, and then the data block, if it has none. It stays until then.
    let fast = json!({ "kind": "fast", "log_blocks": 2 });
    let sequence = [(Write, 0, 4), (Write, 0, 1)];
    let and = |more: &[(Op, u32, u32)]| after_trims(&fast, 4, &[&sequence, more].concat());
    assert_eq!(and(&[(Trim, 0, 4)]), (0, 0, 0, 5, 2));
    assert_eq!(and(&[(Trim, 1, 3)]), (0, 0, 0, 5, 0));
    assert_eq!(and(&[(Trim, 1, 3), (Trim, 0, 1)]), (0, 0, 0, 5, 2));
    assert_eq!(and(&[(Trim, 0, 1), (Write, 2, 1)]), (0, 0, 0, 6, 1));
}

#[test]
fn two_blocks_in_turn() {
    let stream: Vec<u32> = (0..640).map(|at| 5 + at % 2 * 64).collect();
    let per_write = |kind: Value| {
        let (summary, _) = run(drive(&kind, 4, 64, 1), &writes(stream.iter().copied()), true);
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

/// As many requests as pages, one after the other, from page 0 on, `rounds` times.
fn in_order(pages: u32, rounds: u32) -> Vec<Request> {
    writes((0..rounds).flat_map(|_| 0..pages))
}

fn random(pages: u32, count: u32) -> Vec<Request> {
    let mut state = 7_u64;
    writes((0..count).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32 % pages
    }))
}

fn amplification(summary: &Summary, requests: usize) -> f64 {
    (summary.flash.programs.total + summary.flash.copybacks.total) as f64 / requests as f64
}

#[test]
fn a_drive_that_is_overwritten_in_order_switches_alone() {
    for kind in ["bast", "fast", "mcsplit", "subgroup"] {
        for memories in [1, 4] {
            let requests = in_order(64 * 16, 3);
            if kind == "mcsplit" && memories > 1 {
                continue;
            }
            let layer = json!({ "kind": kind, "log_blocks": 8 * memories });
            let (summary, merges) = run(drive(&layer, 64, 16, memories), &requests, true);
            assert_eq!(amplification(&summary, requests.len()), 1.0, "{kind} on {memories}");
            assert!(merges.switch > 0, "{kind}");
            assert_eq!((merges.partial, merges.full), (0, 0), "{kind} on {memories}");
        }
    }
}

#[test]
fn rows_that_are_written_whole_are_not_filled_up() {
    // Four pages a request, on four memories.
    let rows: Vec<Request> =
        in_order(64 * 16, 3).into_iter().step_by(4).map(|row| Request { sectors: 32, ..row }).collect();
    let layer = json!({ "kind": "mcsplit", "log_blocks": 32 });
    let (summary, merges) = run(drive(&layer, 64, 16, 4), &rows, true);
    assert_eq!((amplification(&summary, rows.len()), merges.pages_padded), (4.0, 0));
    assert!(merges.switch > 0);
    // One by one, each page takes a row of its own.
    let pages = in_order(64 * 16, 1);
    let layer = json!({ "kind": "mcsplit", "log_blocks": 32 });
    let (summary, merges) = run(drive(&layer, 64, 16, 4), &pages, true);
    assert!(merges.pages_padded >= 3 * 64 * 16 - 3 * 64, "{merges:?}");
    assert!(amplification(&summary, pages.len()) > 4.0 && merges.full > 0);
}

#[test]
fn a_row_of_one_request_is_never_divided() {
    // Two memories, blocks of four pages. Page 4 has room in the data block, and page 5 has none: page 7 is above it.
    let spans =
        [(7, 3), (4, 2), (15, 1)].map(|(page, pages)| Request { sectors: 8 * pages, ..writes([page])[0] });
    for kind in ["mcsplit", "subgroup"] {
        let mut layer = json!({ "kind": kind, "log_blocks": 32 });
        if kind == "subgroup" {
            layer["cluster_memories"] = json!(2);
        }
        let config = merged(drive(&layer, 8, 4, 2), json!({ "precondition": { "kind": "none" } }));
        let (summary, merges) = run(config, &spans, true);
        assert_eq!((summary.flash.programs.total, merges.pages_padded), (6, 0), "{kind}");
    }
}

#[test]
fn every_erase_of_last_has_a_victim_or_a_merge() {
    // One page, written again and again: hot log blocks die, or give their last page to a cold one.
    let layer = json!({ "kind": "last", "log_blocks": 3, "sequential_bytes": 1_000_000 });
    let (summary, merges) = run(drive(&layer, 8, 4, 1), &writes([5; 100]), true);
    assert_eq!((merges.switch, merges.partial), (0, 0));
    let expected = merges.victims + merges.full;
    assert_eq!(summary.flash.erases.total, expected, "{merges:?}");
    assert!(merges.victims > merges.dead + merges.full, "{merges:?}");
}

#[test]
fn log_blocks_are_as_many_as_divide_evenly() {
    let cases = [("block", None, 0), ("bast", Some(13), 13), ("fast", Some(13), 12), ("fast", Some(3), 8)];
    let clustered = [("mcsplit", Some(13), 12), ("mcsplit", Some(3), 4), ("last", Some(13), 12)];
    for (kind, asked, expected) in cases.into_iter().chain(clustered) {
        let layer =
            asked.map_or_else(|| json!({ "kind": kind }), |logs| json!({ "kind": kind, "log_blocks": logs }));
        let (_, merges) = run(drive(&layer, 64, 16, 4), &writes([0]), false);
        assert_eq!(merges.log_blocks, expected, "{kind} asked for {asked:?}");
    }
}

#[test]
fn bast_with_a_log_for_every_block_doubles_random_writes() {
    // A block is copied each time its log is full.
    let requests = random(24 * 64, 150_000);
    let (summary, _) =
        run(drive(&json!({ "kind": "bast", "log_blocks": 23 }), 23, 64, 1), &random(23 * 64, 150_000), false);
    let done = amplification(&summary, requests.len());
    assert!((done - 2.0).abs() < 0.02, "{done}");
}

/// What a run does to flash, and its merges, whatever log blocks there are.
fn deeds(layer: &Value, memories: u32, requests: &[Request]) -> (String, MergeCounts) {
    let (summary, merges) = run(drive(layer, 64, 16, memories), requests, true);
    (format!("{:?}", summary.flash), MergeCounts { log_blocks: 0, ..merges })
}

#[test]
fn clusters_of_one_are_bast_and_of_all_are_mcsplit() {
    let (few, many) = (random(64 * 16, 3000), in_order(64 * 16, 2));
    for requests in [&few, &many] {
        let group = |width| json!({ "kind": "subgroup", "log_blocks": 16, "cluster_memories": width });
        let of = |layer: Value| deeds(&layer, 4, requests);
        assert_eq!(of(group(1)), of(json!({ "kind": "bast", "log_blocks": 16 })));
        assert_eq!(of(group(4)), of(json!({ "kind": "mcsplit", "log_blocks": 16 })));
        assert_ne!(of(group(2)), of(group(4)));
    }
}

#[test]
fn layers_fill_a_drive_alike() {
    let fill = in_order(64 * 16, 1);
    let of = |kind: &str| {
        let empty = json!({ "precondition": { "kind": "none" } });
        let (summary, merges) = run(merged(drive(&json!({ "kind": kind }), 64, 16, 4), empty), &fill, true);
        (format!("{:?}", summary.flash), MergeCounts { log_blocks: 0, ..merges })
    };
    let block = of("block");
    for kind in ["bast", "fast", "last"] {
        assert_eq!(of(kind), block, "{kind}");
    }
}

#[test]
fn the_allocator_changes_no_merge() {
    let requests = random(64 * 16, 4000);
    for kind in ["bast", "fast", "last"] {
        let of = |allocator: &str| {
            deeds(&json!({ "kind": kind, "log_blocks": 24, "allocator": allocator }), 4, &requests).1
        };
        assert_eq!(of("static"), of("dynamic"), "{kind}");
    }
}

#[test]
fn all_blocks_of_a_logical_block_are_in_one_memory() {
    let requests = random(64 * 16, 2000);
    for kind in ["block", "bast", "fast", "last"] {
        let config = device(merged(
            drive(&json!({ "kind": kind }), 64, 16, 4),
            json!({ "timing": { "copyback": true } }),
        ));
        let (outcome, log) =
            run_with(&config, &requests, &RunOptions { verify: true, ..RunOptions::default() });
        assert_eq!(outcome.error, None);
        // Every merge is done by copies inside planes.
        let merges = &outcome.summary.flash;
        assert!(merges.copybacks.merge > 0, "{kind}");
        assert_eq!((merges.reads.merge, merges.programs.merge), (0, 0), "{kind}");
        assert!(log.commands.len() as u64 >= merges.copybacks.merge);
    }
}

/// Writes of `(first page, pages)`, far apart in time, on an empty drive of four pages a block: 25, 200 and 1,500 us, and no time on
/// the bus. How long the last one takes in microseconds, and what runs from then on: the command, its die, and its start.
fn last_of(ftl: &Value, channels: u32, deeds: &[(u32, u32)]) -> (f64, Vec<(Command, u32, f64)>) {
    const APART_US: f64 = 100_000.0;
    let config = device(json!({
        "geometry": { "channels": channels, "ways": 1, "page_bytes": 2048, "pages_per_block": 4, "blocks_per_plane": 8 },
        "timing": { "read_us": { "lsb": 25 }, "program_us": { "lsb": 200 }, "erase_us": 1500, "bus_mb_per_s": 0 },
        "ftl": ftl,
    }));
    let write = |(at, (page, count)): (usize, &(u32, u32))| {
        request(at as f64 * APART_US, Op::Write, 4 * u64::from(*page), 4 * count)
    };
    let requests: Vec<Request> = deeds.iter().enumerate().map(write).collect();
    let (outcome, log) = run_with(&config, &requests, &RunOptions { verify: true, ..RunOptions::default() });
    assert_eq!(outcome.error, None);
    let from = (deeds.len() - 1) as f64 * APART_US;
    let us = |time: Time| time.as_ns_f64() / 1000.0 - from;
    let commands = log.commands.iter().filter(|command| us(command.start) >= 0.0);
    let told = commands.map(|command| (command.command, command.die, us(command.start))).collect();
    (*latencies(&log).last().expect("there was a request"), told)
}

/// When the first program begins on each of these dies.
fn first_programs<const DIES: usize>(commands: &[(Command, u32, f64)], dies: [u32; DIES]) -> [f64; DIES] {
    dies.map(|of| {
        let programs = commands.iter().filter(|(command, die, _)| *command == Command::Program && *die == of);
        programs.map(|(.., start)| *start).fold(f64::INFINITY, f64::min)
    })
}

/// The blocks of a request are apart: none waits for the erase of another, however many pages it has.
#[test]
fn blocks_of_a_request_wait_for_no_other() {
    let ftl = json!({ "kind": "block", "logical_pages": 16 });
    for pages in [2, 3, 4] {
        let (us, commands) = last_of(&ftl, 2, &[(0, 16), (3, pages)]);
        // Three copies of 225 us, a program, and the erase of the old block, on each die.
        assert_eq!(us, 3.0 * 225.0 + 200.0 + 1500.0, "{pages} pages: {commands:?}");
    }
}

/// All pages of a row wait for the merge that makes room for it, and none for the padding of another row.
#[test]
fn rows_wait_for_their_room_alone() {
    let ftl = json!({ "kind": "subgroup", "cluster_memories": 2, "logical_pages": 32, "log_blocks": 2 });
    let (_, whole) = last_of(&ftl, 4, &[(0, 16), (2, 2), (8, 2)]);
    let erases = whole.iter().filter(|(command, ..)| *command == Command::Erase);
    let room = erases.map(|(.., start)| start + 1500.0).fold(0.0, f64::max);
    assert!(room > 1500.0, "the other cluster was merged: {whole:?}");
    assert_eq!(first_programs(&whole, [2, 3]), [room, room], "{whole:?}");

    let ftl = json!({ "kind": "mcsplit", "logical_pages": 64, "log_blocks": 8 });
    let (_, crossing) = last_of(&ftl, 4, &[(1, 15), (3, 2)]);
    // The page of the first row is on die 3 and that of the second on die 0; pages 1 and 2 are padded beside them.
    assert_eq!(first_programs(&crossing, [0, 3]), [0.0, 0.0], "{crossing:?}");
}

/// Logs that all blocks share cost less than logs of one block each, when writes are small and random.
#[test]
fn fast_merges_less_than_bast_under_random_writes() {
    let requests = random(256 * 16, 20_000);
    let of = |kind: &str| {
        let (summary, _) =
            run(drive(&json!({ "kind": kind, "log_blocks": 16 }), 256, 16, 1), &requests, false);
        amplification(&summary, requests.len())
    };
    let (bast, fast) = (of("bast"), of("fast"));
    assert!(fast < 0.6 * bast, "{fast} {bast}");
}

/// Long sequences beside hot single pages: LAST keeps them apart.
#[test]
fn last_merges_less_than_fast_on_a_mix() {
    let (pages, hot) = (256 * 16_u64, 24);
    let mut requests = Vec::new();
    let mut draws = random(hot, 40_000).into_iter();
    for round in 0..400_u32 {
        // A whole block, and pages of a few others that come back again and again.
        let block = 8 + round * 7 % 240;
        let mut whole = writes([block * 16]);
        whole[0].sectors = 16 * 8;
        requests.extend(whole);
        requests.extend(draws.by_ref().take(40).map(|row| Request { lba: row.lba * 21, ..row }));
    }
    assert!(requests.iter().all(|row| row.lba / 8 < pages));
    let of = |layer: Value| {
        let (summary, _) = run(drive(&layer, 256, 16, 1), &requests, false);
        summary.flash.programs.merge + summary.flash.copybacks.merge
    };
    let fast = of(json!({ "kind": "fast", "log_blocks": 16 }));
    let last = of(json!({ "kind": "last", "log_blocks": 16, "sequential_bytes": "16KiB" }));
    assert!((last as f64) < 0.8 * fast as f64, "{last} {fast}");
}

#[test]
fn what_does_not_go_with_them_is_refused() {
    let refused = |changes: Value| {
        let value = of_chosen(merged(drive(&json!({ "kind": "bast" }), 64, 16, 4), changes));
        let config: ftlab_core::config::DeviceConfig = serde_json::from_value(value).unwrap();
        let error = config.validate().unwrap_err();
        (error.key.clone(), error.to_string())
    };
    for (changes, key, says) in [
        (json!({ "ftl": { "log_blocks": 200 } }), "ftl.log_blocks", "leaves room for 92"),
        (json!({ "ftl": { "logical_pages": 4 * 39 * 16 } }), "ftl.logical_pages", "at most 2432"),
        (
            json!({ "ftl": { "kind": "subgroup", "cluster_memories": 3 } }),
            "ftl.cluster_memories",
            "divide the 4",
        ),
        (
            json!({ "ftl": { "kind": "subgroup", "cluster_memories": 0 } }),
            "ftl.cluster_memories",
            "at least 1",
        ),
        (json!({ "ftl": { "log_blocks": 5000 } }), "ftl.log_blocks", "no room on this drive at all"),
        (json!({ "ftl": { "kind": "fast", "log_blocks": 1 } }), "ftl.log_blocks", "at least 2"),
        (json!({ "ftl": { "kind": "last", "sequential_share": 1.5 } }), "ftl.sequential_share", "below 1"),
        (json!({ "ftl": { "kind": "last", "sequential_bytes": 0 } }), "ftl.sequential_bytes", "at least"),
        (json!({ "map_cache": { "kind": "dftl", "bytes": 4096 } }), "map_cache.kind", "in memory"),
        (json!({ "geometry": { "mapping_unit_bytes": 2048 } }), "geometry.mapping_unit_bytes", "whole pages"),
        (json!({ "power": { "atomic": "request" } }), "power.atomic", "page"),
        (json!({ "ftl": { "wear_leveling": "static" } }), "ftl.wear_leveling", "dynamic"),
    ] {
        let (found, text) = refused(changes);
        assert!(found == key && text.contains(says), "{key}: {text}");
    }
}
