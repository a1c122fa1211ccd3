//! The power is cut everywhere, and what was promised is found.

use ftlab_core::cause::Command;
use ftlab_core::config::{Atomic, DeviceConfig};
use ftlab_core::crash::{CrashOptions, Cut, CutAt, Examined, Recording, record};
use ftlab_core::device::{RunControl, RunOptions};
use ftlab_core::ftl::page::capacity::most_units_at_once;
use ftlab_core::ftl::placement::PlacementKind;
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::metrics::CommandRecord;
use ftlab_core::rng::Rng;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::common::drives::{cases, drives, is_long, page_drives, requests_of};
use super::common::{device, merged, of_chosen, request, run, run_with, small};

pub fn recorded(config: &DeviceConfig, requests: &[Request], options: &CrashOptions) -> Recording {
    record(config, &VecSource::new(requests.to_vec()), options, &RunControl::default()).unwrap()
}

pub fn examined(recording: &Recording, points: impl Iterator<Item = u64>) -> Vec<Examined> {
    let mut all = Vec::new();
    recording.examine(points, &RunControl::default(), &mut |examined| all.push(examined)).unwrap();
    all
}

pub fn all_cuts(config: &DeviceConfig, requests: &[Request]) -> Vec<Examined> {
    let recording = recorded(config, requests, &CrashOptions::default());
    examined(&recording, 0..recording.points())
}

fn of_cells(kind: &str, order: &str, pages: u32) -> DeviceConfig {
    let cells =
        json!({ "cell": { "kind": kind, "page_order": order }, "geometry": { "pages_per_block": pages } });
    device(merged(small(), cells))
}

fn pages(count: u64) -> Vec<Request> {
    (0..count).map(|page| request(0.0, Op::Write, 8 * page, 8)).collect()
}

/// `lsb-backup`, section 10: the commands whose interruption loses something, and how many pages each loses.
#[test]
fn an_interrupted_msb_program_takes_its_lsb_page_with_it() {
    let config = of_cells("mlc", "tiles", 8);
    let cuts = all_cuts(&config, &pages(8));
    assert_eq!(cuts.len(), 9, "during each of 8 commands, and after them");
    let lost: Vec<(u64, u64)> = cuts.iter().map(|one| (one.cut.at, one.cut.lost_sectors / 8)).collect();
    let due = [(0, 0), (1, 0), (2, 1), (3, 1), (4, 0), (5, 0), (6, 1), (7, 1), (8, 0)];
    assert_eq!(lost, due);
    // Which ones: the LSB partners, written by the requests of the same number.
    let told = |at: usize| {
        let losses = cuts[at].losses.iter();
        losses.map(|loss| (loss.sector, loss.sectors, loss.found, loss.request)).collect::<Vec<_>>()
    };
    assert_eq!(told(2), [(0, 8, 0, Some(0))]);
    assert_eq!(told(7), [(40, 8, 0, Some(5))]);
    assert!(
        cuts.iter().all(|one| one.cut.lost_units == one.cut.lost_sectors / 8 && one.cut.foreign_sectors == 0)
    );
    assert!(cuts.iter().all(|one| one.cut.failure.is_none()), "{cuts:?}");
}

#[test]
fn three_bits_lose_one_page_or_two() {
    let cuts = all_cuts(&of_cells("tlc", "tlc_pairs", 48), &pages(24));
    let lost: Vec<u64> = cuts.iter().map(|one| one.cut.lost_sectors / 8).filter(|lost| *lost > 0).collect();
    assert_eq!((cuts.len(), lost.len(), lost.iter().sum::<u64>()), (25, 12, 16));
    // A page of cells of one bit has no partner.
    let slc = all_cuts(&device(small()), &pages(24));
    assert!(slc.iter().all(|one| one.cut.is_survived() && one.losses.is_empty()));
}

/// A trim is known in memory only: what was trimmed comes back, and is counted apart from losses.
#[test]
fn what_was_trimmed_may_come_back_and_is_counted() {
    let of = |op, lba| request(0.0, op, lba, 8);
    let requests = [of(Op::Write, 0), of(Op::Write, 0), of(Op::Trim, 0), of(Op::Write, 8)];
    let cuts = all_cuts(&device(small()), &requests);
    let back: Vec<(u64, u64)> =
        cuts.iter().map(|one| (one.cut.untrimmed_sectors, one.cut.untrimmed_older_sectors)).collect();
    assert_eq!(back, [(0, 0), (0, 0), (8, 0), (8, 0)]);
    assert!(cuts.iter().all(|one| one.cut.is_survived()));
}

/// Behind a volatile buffer, what was acknowledged is gone until it has left: no promise is broken, but somebody asked.
#[test]
fn what_was_acknowledged_and_not_flushed_is_counted() {
    let of = |power: Value| {
        let buffer = json!({ "buffer": { "kind": "lru", "bytes": 4 * 4096 } });
        let cuts = all_cuts(&device(merged(merged(small(), buffer), power)), &pages(8));
        assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
        cuts.iter().map(|one| one.cut.unflushed_sectors / 8).collect::<Vec<_>>()
    };
    // Four frames hold four pages, the one that leaves among them, until the end leaves nothing.
    assert_eq!(of(json!({})), [4, 4, 4, 4, 4, 3, 2, 1, 0]);
    assert_eq!(of(json!({ "power": { "capacitor": true } })), [0; 9]);
}

/// A flush writes them into a journal; after it, none comes back. A rewrite after the trim is found.
#[test]
fn what_a_flush_has_promised_to_be_trimmed_stays_so() {
    let of = |op, lba| request(0.0, op, lba, if op == Op::Flush { 0 } else { 8 });
    let (write, trim, flush) = (Op::Write, Op::Trim, Op::Flush);
    let requests =
        [of(write, 0), of(write, 0), of(trim, 0), of(flush, 0), of(write, 8), of(trim, 8), of(write, 8)];
    let power = json!({ "power": { "trim": "flush" } });
    let cuts = all_cuts(&device(merged(small(), power)), &requests);
    // Three writes, the page of the journal, and two writes again; the second trim is promised by nobody.
    assert_eq!(cuts.len(), 6);
    let back: Vec<u64> = cuts.iter().map(|one| one.cut.untrimmed_sectors).collect();
    assert_eq!(back, [0, 0, 8, 0, 8, 0]);
    assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
}

/// What was written again after its trim is not in the journal. When it is trimmed once more, its page is all that stands for
/// the promise, and must not be torn as the partner of another.
#[test]
fn what_stands_for_a_promised_trim_is_backed_up() {
    let of = |op, page: u64| request(0.0, op, 8 * page, if op == Op::Flush { 0 } else { 8 });
    let (write, trim) = (Op::Write, Op::Trim);
    let requests =
        [of(write, 0), of(trim, 0), of(write, 0), of(Op::Flush, 0), of(trim, 0), of(write, 1), of(write, 2)];
    let keys = merged(backed_up_keys("mlc", "tiles", 8, &json!({})), json!({ "power": { "trim": "flush" } }));
    let cuts = all_cuts(&device(merged(small(), keys)), &requests);
    assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
}

/// A collection in the middle of a request writes the journal: a snapshot, which leaves out what the request has written so far.
/// That stands for an earlier trim from then on, and a later page of the same request must not tear it.
#[test]
fn what_a_request_has_written_is_backed_up_once_a_snapshot_has_left_it_out() {
    let of = |op, page: u64, count: u32| request(0.0, op, 8 * page, 8 * count);
    let keys = json!({
        "power": { "trim": "flush" },
        "geometry": { "blocks_per_plane": 12 },
        "ftl": { "over_provisioning": null, "logical_pages": 24, "gc_tie": "lowest" },
    });
    let config = device(merged(small(), merged(backed_up_keys("mlc", "tiles", 8, &json!({})), keys)));
    // Wherever in the last request the collection comes.
    for single in 0..8 {
        let mut requests = vec![of(Op::Write, 0, 8), of(Op::Write, 16, 8)];
        // They fill the area of the journal, which has four pages.
        requests.extend((16..20).flat_map(|page| [of(Op::Trim, page, 1), of(Op::Flush, 0, 0)]));
        requests.extend([of(Op::Write, 8, 8); 3]);
        requests.extend(vec![of(Op::Write, 8, 1); single]);
        // The victim holds what was trimmed last: its erase needs the journal.
        requests.extend([of(Op::Trim, 0, 8), of(Op::Write, 16, 8)]);
        let cuts = all_cuts(&config, &requests);
        assert!(cuts.iter().all(|one| one.cut.is_survived()), "{single}: {cuts:?}");
    }
}

/// What a backup is of was erased, and another page stands there now, which needs none: its request writes its partner, too.
/// When that is torn, what was trimmed and erased does not come back.
#[test]
fn a_backup_does_not_outlive_its_block() {
    let of = |op, page: u64, count: u32| request(0.0, op, 8 * page, 8 * count);
    let keys = json!({
        "geometry": { "blocks_per_plane": 8 },
        "ftl": { "over_provisioning": null, "logical_pages": 16, "gc": "fifo", "gc_open_block": "shared" },
    });
    let config = device(merged(small(), merged(backed_up_keys("mlc", "tiles", 8, &json!({})), keys)));
    let mut requests = writes(&[(0, 1), (1, 1), (2, 2), (4, 4)]);
    requests.push(of(Op::Trim, 0, 8));
    requests.extend((0..14).map(|at| of(Op::Write, 8 + at % 2 * 4, 4)));
    let (outcome, log) = run(&config, &requests);
    let backups = &serde_json::to_value(&outcome.summary).unwrap()["lsb_backup"];
    assert_eq!((backups["pages"].as_u64(), backups["erases"].as_u64()), (Some(2), Some(0)));
    let in_first_block = |record: &&CommandRecord| record.command == Command::Program && record.page < 8;
    assert_eq!(log.commands.iter().filter(in_first_block).count(), 16, "it was erased, and is full again");
    let cuts = all_cuts(&config, &requests);
    assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
    // From the trim until the erase, it may come back.
    let mut states: Vec<bool> = cuts.iter().map(|one| one.cut.untrimmed_sectors > 0).collect();
    states.dedup();
    assert_eq!(states, [false, true, false]);
}

/// Areas of the journal that are full again and again: a snapshot in the other one, and an erase, each of which is cut.
#[test]
fn a_journal_goes_from_area_to_area() {
    let of = |op, page: u64| request(0.0, op, 8 * page, if op == Op::Flush { 0 } else { 8 });
    let requests: Vec<Request> = (0..60)
        .flat_map(|at| {
            [of(Op::Write, at * 7 % 30), of(Op::Trim, at * 7 % 30), of(Op::Write, at % 9), of(Op::Flush, 0)]
        })
        .collect();
    for atomic in ["unit", "request"] {
        let config = device(merged(small(), json!({ "power": { "trim": "flush", "atomic": atomic } })));
        let recording = recorded(&config, &requests, &CrashOptions { nested: 3, ..CrashOptions::default() });
        let summary = serde_json::to_value(recording.summary()).unwrap();
        let count = |name: &str| summary["journal"][name].as_u64().unwrap();
        assert!(count("snapshots") >= 3 && count("erases") == count("snapshots"), "{}", summary["journal"]);
        let cuts = examined(&recording, 0..recording.points());
        assert!(cuts.iter().any(|one| one.cut.nested_at.is_some()));
        assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
    }
}

/// `lsb-backup`, P5: without the exemption of what the same request has written, backups cost more, and save the same.
#[test]
fn pages_of_the_same_request_need_no_backup() {
    let requests: Vec<Request> =
        (0..40).map(|at| request(0.0, Op::Write, 8 * (at * 5 % 23), 8 * (1 + at as u32 % 5))).collect();
    let [with, without] = [true, false].map(|exempt| {
        let config = backed_up("mlc", "shadow_pairs", 16, &json!({ "exempt_same_request": exempt }));
        let recording = recorded(&config, &requests, &CrashOptions { nested: 2, ..CrashOptions::default() });
        let cuts = examined(&recording, 0..recording.points());
        assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
        serde_json::to_value(recording.summary()).unwrap()["lsb_backup"]["pages"].as_u64().unwrap()
    });
    assert!(with < without, "{with} and {without} backups");
}

/// A million distinct cuts in the long tests, a third of them at instants with several dies at work. None loses what was
/// promised, whatever is promised.
#[test]
fn a_million_cuts_lose_nothing() {
    let wanted = if is_long() { 1_000_000 } else { 6_000 };
    let cells = [
        json!({ "cell": { "kind": "slc" } }),
        json!({ "cell": { "kind": "mlc", "page_order": "tiles" }, "lsb_backup": { "kind": "copy" } }),
        json!({ "cell": { "kind": "tlc", "page_order": "tlc_pairs" }, "lsb_backup": { "kind": "copy", "area": "slc" } }),
    ];
    let drive = |round: u64| {
        let placements: Vec<&str> = PlacementKind::ALL.iter().map(|kind| kind.name()).collect();
        let [by_cell, by_power] = [3, 4].map(|kinds| (round / 2 % kinds) as usize);
        let by_placement = (round as usize / 6) % placements.len();
        let promise =
            [("unit", "volatile"), ("unit", "flush"), ("request", "volatile"), ("request", "flush")]
                [by_power];
        let ways = if round.is_multiple_of(2) { 1 } else { 4 };
        device(merged(
            json!({
                "geometry": { "channels": 1, "ways": ways, "blocks_per_plane": 96 / ways + 24, "pages_per_block": 24,
                    "page_bytes": 4096 },
                "timing": { "read_us": 25, "program_us": 200, "erase_us": 1500, "bus_mb_per_s": 100 },
                "ftl": { "logical_pages": 900, "placement": placements[by_placement] },
                "power": { "atomic": promise.0, "trim": promise.1 },
                "host": { "arrival": "closed", "queue_depth": 8 },
            }),
            cells[by_cell].clone(),
        ))
    };
    let (mut cuts, mut with_several, mut round) = (0, 0, 0);
    while cuts < wanted || with_several < wanted / 3 {
        let config = drive(round);
        let mut state = 1 + round;
        let mut next = |bound: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % bound
        };
        let count = if wanted > 100_000 { 4000 } else { 300 };
        let requests: Vec<Request> = (0..count)
            .map(|_| {
                let op =
                    [Op::Write, Op::Write, Op::Write, Op::Write, Op::Write, Op::Write, Op::Trim, Op::Flush];
                let op = op[next(8) as usize];
                let sectors = if op == Op::Flush { 0 } else { 8 * (1 + next(6) as u32) };
                request(0.0, op, 8 * next(890), sectors)
            })
            .collect();
        let at = if round.is_multiple_of(2) { CutAt::Command } else { CutAt::Time };
        let options = CrashOptions { seed: round, at, ..CrashOptions::default() };
        let recording = recorded(&config, &requests, &options);
        let control = RunControl::default();
        let most = if wanted > 100_000 { recording.points() } else { 500 };
        let mut look = |one: Examined| {
            assert!(one.cut.is_survived(), "round {round}: {one:?}");
            cuts += 1;
            with_several += u64::from(at == CutAt::Time && one.cut.torn > 1);
        };
        recording.examine(recording.spread(most.min(recording.points())), &control, &mut look).unwrap();
        round += 1;
    }
    eprintln!("{cuts} cuts in {round} runs, {with_several} of them with several dies at work");
}

/// A request of several pages is there as a whole or not at all, with all its old data.
#[test]
fn a_request_that_is_atomic_is_never_torn() {
    let power = json!({ "power": { "atomic": "request" }, "geometry": { "blocks_per_plane": 16 }, "ftl": { "logical_pages": 48, "over_provisioning": null } });
    let config = device(merged(small(), power));
    let requests: Vec<Request> =
        (0..40).map(|at| request(0.0, Op::Write, 8 * (at * 5 % 11), 8 * (1 + at as u32 % 6))).collect();
    let cuts = all_cuts(&config, &requests);
    assert!(cuts.len() > 100);
    assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
    // What was torn must be made stale: a mount programs then.
    assert!(cuts.iter().any(|one| one.cut.mount.programs > 0));
}

/// Of two torn requests that overlap, each may lack what a mount has written again because of the other.
#[test]
fn a_mount_that_is_cut_short_completes_no_torn_request() {
    let config = |units: u32, precondition: &str| {
        device(json!({
            "geometry": { "channels": 3, "ways": 1, "blocks_per_plane": 8, "pages_per_block": 8, "page_bytes": 2048,
                "mapping_unit_bytes": 2048 / units },
            "ftl": { "logical_pages": 48 * units },
            "power": { "atomic": "request" },
            "precondition": { "kind": precondition },
        }))
    };
    let survive = |config: &DeviceConfig, requests: &[Request], what: &str| {
        let options = CrashOptions { at: CutAt::Time, nested: 8, ..CrashOptions::default() };
        let recording = recorded(config, requests, &options);
        for one in examined(&recording, 0..recording.points()) {
            assert!(one.cut.is_survived(), "{what}: {one:?}");
        }
    };
    let overlapping = [(Op::Read, 8, 8), (Op::Write, 0, 16), (Op::Write, 12, 16)];
    let overlapping = overlapping.map(|(op, lba, sectors)| request(0.0, op, lba, sectors));
    survive(&config(1, "fill"), &overlapping, "two requests");
    let mut rng = ftlab_core::rng::Rng::new(1, "overlaps");
    for round in 0..300 {
        let units = [1, 2, 4][round % 3];
        // Where nothing was there before, it is given up in the journal; else it is written again.
        let config = config(units, if round % 2 == 0 { "fill" } else { "none" });
        let mut some = || {
            let count = 1 + rng.below(4 * u64::from(units)) as u32;
            let first = rng.below(u64::from(8 * units - count));
            let op = if rng.below(6) == 0 { Op::Trim } else { Op::Write };
            request(0.0, op, first * u64::from(4 / units), count * 4 / units)
        };
        let requests: Vec<Request> = (0..3 + round % 4).map(|_| some()).collect();
        survive(&config, &requests, &format!("round {round}"));
    }
}

#[test]
fn a_request_that_is_too_large_to_be_atomic_is_refused() {
    let power = json!({ "power": { "atomic": "request" } });
    let config = device(merged(small(), power));
    let most = most_units_at_once(&config) as u32;
    assert!(most >= 2);
    let (fits, does_not) = (request(0.0, Op::Write, 0, 8 * most), request(0.0, Op::Write, 0, 8 * (most + 1)));
    assert_eq!(run(&config, &[fits, fits]).0.error, None);
    let error = run_with(&config, &[does_not], &RunOptions::default()).0.error.unwrap();
    assert!(error.is_input(), "{error}");
    let said = error.to_string();
    assert!(said.contains(&format!("writes {} mapping units", most + 1)), "{said}");
    assert!(said.contains(&format!("old data of {most} at most")), "{said}");
}

/// A cut after the last command is a clean restart: the audit finds everything, and the mount reads each page once.
#[test]
fn a_mount_reads_every_programmed_page_once() {
    let timing = json!({ "read_us": 25, "program_us": 200, "erase_us": 1000, "bus_mb_per_s": 100 });
    for (channels, ms) in [(1, 102.4), (4, 25.6)] {
        let blocks = 64 / channels;
        let config = device(json!({
            "geometry": { "channels": channels, "ways": 1, "blocks_per_plane": blocks + 4, "pages_per_block": 64,
                "page_bytes": 4096 },
            "ftl": { "logical_pages": 64 * 64 },
            "timing": timing,
        }));
        let recording = recorded(&config, &pages(64 * 64), &CrashOptions::default());
        let last = recording.points() - 1;
        let one = &examined(&recording, std::iter::once(last))[0].cut;
        assert!(one.is_survived() && one.torn == 0);
        assert_eq!((one.mount.reads, one.mount.programs, one.mount.erases), (4096, 0, 0));
        assert_eq!(recording.mount_ns(last).unwrap(), (ms * 1e6) as u64);
    }
}

#[test]
fn points_are_spread_and_parted_without_remainder() {
    let recording = recorded(&device(small()), &pages(20), &CrashOptions::default());
    assert_eq!(recording.points(), 21);
    assert_eq!(recording.spread(3).collect::<Vec<_>>(), [6, 13, 20]);
    assert_eq!(recording.spread(21).collect::<Vec<_>>(), (0..21).collect::<Vec<_>>());
    let parts: Vec<u64> = (0..4).flat_map(|part| Recording::part(21, part, 4)).collect();
    assert_eq!(parts, (0..21).collect::<Vec<_>>());
    let whole = examined(&recording, 0..21);
    let parted: Vec<Examined> =
        (0..4).flat_map(|part| examined(&recording, Recording::part(21, part, 4))).collect();
    assert_eq!(whole, parted);
}

/// One die with the times of the paper and a backup.
fn backed_up(kind: &str, order: &str, pages: u32, keys: &Value) -> DeviceConfig {
    device(merged(small(), backed_up_keys(kind, order, pages, keys)))
}

pub fn backed_up_keys(kind: &str, order: &str, pages: u32, keys: &Value) -> Value {
    json!({
        "cell": { "kind": kind, "page_order": order },
        "geometry": { "pages_per_block": pages },
        "timing": { "read_us": 403, "program_us": 994, "erase_us": 872, "bus_mb_per_s": 0 },
        "host": { "arrival": "closed", "queue_depth": 1 },
        "lsb_backup": merged(json!({ "kind": "copy" }), keys.clone()),
    })
}

/// Writes of these pages: one request for each run of neighbours.
fn writes(of: &[(u64, u32)]) -> Vec<Request> {
    of.iter().map(|(page, count)| request(0.0, Op::Write, 8 * page, 8 * count)).collect()
}

fn microseconds(config: &DeviceConfig, requests: &[Request]) -> (f64, Value) {
    let outcome = run(config, requests).0;
    let summary = serde_json::to_value(&outcome.summary).unwrap();
    (summary["simulated_ns"].as_f64().unwrap() / 1000.0, summary["lsb_backup"].clone())
}

/// `lsb-backup`, section 10.
#[test]
fn what_backups_cost_by_hand() {
    let tiles = |keys| backed_up("mlc", "tiles", 8, &keys);
    let two = writes(&[(0, 2), (2, 2)]);
    let (us, counts) = microseconds(&tiles(json!({})), &two);
    assert_eq!((us, counts["pages"].as_u64()), (6770.0, Some(2)));
    assert_eq!(microseconds(&tiles(json!({ "read": false })), &two).0, 5964.0);
    let pages =
        |of: &[(u64, u32)], keys| microseconds(&tiles(keys), &writes(of)).1["pages"].as_u64().unwrap();
    assert_eq!(pages(&[(0, 4)], json!({})), 0);
    assert_eq!(pages(&[(0, 4)], json!({ "exempt_same_request": false })), 2);
    assert_eq!(pages(&[(0, 1), (1, 3)], json!({})), 1);
    // What the request itself overwrites is the only version that was promised.
    assert_eq!(pages(&[(0, 2), (0, 2)], json!({})), 2);
    assert_eq!(pages(&[(0, 2), (0, 2)], json!({ "invalidate_at": "page" })), 0);
    // W1 to W5 of figures 2 and 3: A B, C D E F, A B, G H, C D E F I.
    let figures = writes(&[(0, 2), (2, 4), (0, 2), (6, 2), (2, 4)]);
    let mut figures = figures;
    figures.pop();
    figures.push(request(0.0, Op::Write, 16, 40));
    let (us, counts) = microseconds(&tiles(json!({})), &figures);
    assert_eq!((us, counts["pages"].as_u64()), (23_292.0, Some(6)));
    let striped = json!({
        "ftl": { "placement": "rsftl", "group_blocks": 3, "small_request_bytes": "8KiB" },
        "geometry": { "blocks_per_plane": 64 },
    });
    let base = merged(small(), backed_up_keys("mlc", "tiles", 8, &json!({})));
    let striped = device(merged(base, striped));
    let (us, counts) = microseconds(&striped, &figures);
    assert_eq!((us, counts["pages"].as_u64()), (14_910.0, Some(0)));
    assert_eq!(counts["skipped_same_request"], 4);
}

/// `lsb-backup`, section 4: backups for each page written, by the size of requests that are appended back to back.
#[test]
fn backups_by_the_size_of_requests() {
    let tables: [(&str, &[(u32, f64)]); 4] = [
        (
            "tiles",
            &[
                (1, 0.5),
                (2, 0.5),
                (3, 0.333),
                (4, 0.0),
                (5, 0.2),
                (6, 0.167),
                (7, 0.143),
                (8, 0.0),
                (9, 0.111),
                (10, 0.1),
                (12, 0.0),
                (16, 0.0),
            ],
        ),
        (
            "shadow_pairs",
            &[
                (1, 0.5),
                (2, 0.5),
                (3, 0.5),
                (4, 0.5),
                (5, 0.4938),
                (6, 0.4896),
                (7, 0.4196),
                (8, 0.4688),
                (12, 0.3229),
                (16, 0.2188),
                (32, 0.0938),
            ],
        ),
        (
            "shadow",
            &[
                (1, 0.5),
                (2, 0.5),
                (3, 0.4948),
                (4, 0.4844),
                (5, 0.2969),
                (6, 0.3281),
                (7, 0.2121),
                (8, 0.2344),
                (12, 0.1615),
                (16, 0.1094),
                (32, 0.0469),
            ],
        ),
        (
            "adjacent",
            &[
                (1, 0.5),
                (2, 0.0),
                (3, 0.1667),
                (4, 0.0),
                (5, 0.1),
                (6, 0.0),
                (7, 0.0714),
                (8, 0.0),
                (12, 0.0),
                (16, 0.0),
                (32, 0.0),
            ],
        ),
    ];
    for (order, table) in tables {
        let config = device(merged(
            json!({
                "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 150, "pages_per_block": 128, "page_bytes": 4096 },
                "ftl": { "over_provisioning": 0.1 },
            }),
            json!({ "cell": { "kind": "mlc", "page_order": order }, "lsb_backup": { "kind": "copy" } }),
        ));
        for &(size, due) in table {
            // Whole blocks: as many requests as bring the pattern to its start again.
            let requests: Vec<Request> =
                (0..128).map(|at| request(0.0, Op::Write, 8 * u64::from(at * size), 8 * size)).collect();
            let untimed = RunOptions { timing: false, ..RunOptions::default() };
            let (outcome, _) = run_with(&config, &requests, &untimed);
            let summary = serde_json::to_value(&outcome.summary).unwrap();
            let share = summary["lsb_backup"]["pages"].as_f64().unwrap() / f64::from(128 * size);
            assert!(
                (share - due).abs() < 0.0006,
                "{order}, requests of {size} pages: {share} instead of {due}"
            );
        }
    }
}

#[test]
fn backups_save_what_a_torn_program_takes() {
    let losses = |config: &DeviceConfig, requests: &[Request]| {
        let cuts = all_cuts(config, requests);
        assert!(cuts.iter().all(|one| one.cut.failure.is_none()), "{cuts:?}");
        let lost: Vec<u64> =
            cuts.iter().filter(|one| one.cut.lost_sectors > 0).map(|one| one.cut.at).collect();
        (cuts.len() - 1, lost)
    };
    assert_eq!(losses(&backed_up("mlc", "tiles", 8, &json!({})), &pages(8)), (16, vec![]));
    assert_eq!(losses(&backed_up("tlc", "tlc_pairs", 48, &json!({})), &pages(24)), (48, vec![]));
    let twice = writes(&[(0, 2), (0, 2)]);
    assert_eq!(losses(&backed_up("mlc", "tiles", 8, &json!({})), &twice), (8, vec![]));
    let early = json!({ "invalidate_at": "page" });
    assert_eq!(losses(&backed_up("mlc", "tiles", 8, &early), &twice), (4, vec![2, 3]));
}

/// A case says where the second cut was: the same cut alone gives the same.
#[test]
fn a_second_cut_can_be_done_alone() {
    // A mount writes translation pages again that were behind.
    let config = device(merged(small(), json!({ "map_cache": { "kind": "dftl", "bytes": 4096 } })));
    let requests: Vec<Request> = (0..120).map(|page| request(0.0, Op::Write, 8 * (page % 7), 8)).collect();
    let recording = recorded(&config, &requests, &CrashOptions { nested: 3, ..CrashOptions::default() });
    let mut nested = 0;
    for point in recording.spread(40) {
        let numbers = recording.second_points(point);
        for one in examined(&recording, std::iter::once(point)) {
            let Some(nested_at) = one.cut.nested_at else { continue };
            nested += 1;
            assert!(numbers.contains(&nested_at));
            let alone = recording.examine_second(point, nested_at, &RunControl::default()).unwrap();
            assert_eq!(alone, Some(one));
        }
        let none = recording.examine_second(point, u64::MAX, &RunControl::default()).unwrap();
        assert_eq!(none, None);
    }
    assert!(nested > 0);
}

/// A large request writes both pages of word lines, without backups, and makes older versions stale on other dies. These are not
/// erased before the last of the two is in flash, which may tear the first.
#[test]
fn old_versions_outlast_the_word_lines_of_what_replaces_them() {
    for (seed, order) in (0..2).flat_map(|seed| ["adjacent", "shadow", "tiles"].map(|order| (seed, order))) {
        let config = device(json!({
            "geometry": { "channels": 3, "ways": 1, "blocks_per_plane": 16, "pages_per_block": 8, "page_bytes": 4096 },
            "cell": { "kind": "mlc", "page_order": order },
            "timing": { "read_us": 20, "program_us": { "lsb": 100, "msb": 700 }, "erase_us": 200, "bus_mb_per_s": 400 },
            "ftl": { "over_provisioning": 0.7, "striping": "dynamic" },
            "lsb_backup": { "kind": "copy" },
            "precondition": { "kind": "steady" },
            "host": { "arrival": "open" },
        }));
        let (units, mut rng) = (config.logical_pages(), Rng::new(seed, "large"));
        let requests: Vec<Request> = (0..40)
            .map(|at| {
                let count = 4 + rng.below(12);
                let first = rng.below(units - count);
                request(f64::from(at) * 300.0, Op::Write, 8 * first, 8 * count as u32)
            })
            .collect();
        let options = CrashOptions { seed, at: CutAt::Time, ..CrashOptions::default() };
        let recording = recorded(&config, &requests, &options);
        for one in examined(&recording, 0..recording.points()) {
            assert!(one.cut.is_survived(), "{order}, seed {seed}: {one:?}");
        }
    }
}

pub fn of_one_bit(value: Value, more: &Value) -> Value {
    of_chosen(merged(merged(value, json!({ "cell": { "kind": "slc" } })), more.clone()))
}

/// Those that a drive can take.
fn fitting(config: &DeviceConfig, requests: Vec<Request>) -> Vec<Request> {
    let per_unit = u64::from(config.to_geometry().sectors_per_unit);
    let mut sectors = config.logical_pages() * per_unit;
    if config.power.atomic == Atomic::Request {
        // Both ends may be parts of units.
        sectors = sectors.min((most_units_at_once(config) - 2) * per_unit);
    }
    requests.into_iter().filter(|request| u64::from(request.sectors) <= sectors).collect()
}

/// What the drive promises for whole requests and for trims, with room for the journal that this may take.
pub fn promising(value: &mut Value, (atomic, trim): (&str, &str)) {
    // Block-mapped layers promise units only.
    let atomic = if value["ftl"]["kind"] == "page" { atomic } else { "unit" };
    if (atomic, trim) != ("unit", "volatile") {
        value["power"] = json!({ "atomic": atomic, "trim": trim });
        let blocks = value["geometry"]["blocks_per_plane"].as_u64().unwrap();
        value["geometry"]["blocks_per_plane"] = json!(blocks + 6);
        if value["map_cache"]["kind"] == "cftl" {
            // More pages than the strategy knows of.
            value["map_cache"]["bytes"] = json!(value["map_cache"]["bytes"].as_u64().unwrap() + 200);
        }
    }
}

fn promises() -> impl Strategy<Value = (&'static str, &'static str)> {
    proptest::sample::select(vec![
        ("unit", "volatile"),
        ("unit", "flush"),
        ("request", "volatile"),
        ("request", "flush"),
    ])
}

/// The drive with cells of several bits and a backup.
pub fn with_backup(mut value: Value, cell: (&str, &str), backup: Value) -> DeviceConfig {
    value["cell"] = json!({ "kind": cell.0, "page_order": cell.1 });
    value["lsb_backup"] = backup;
    let pages = value["geometry"]["pages_per_block"].as_u64().unwrap();
    // Whole word lines, and room for the backups of one.
    let whole = match cell.0 {
        "mlc" => 8 + pages / 4 * 4,
        "tlc" => 12 + pages / 3 * 3,
        _ => 16 + pages / 4 * 4,
    };
    value["geometry"]["pages_per_block"] = json!(whole);
    let blocks = value["geometry"]["blocks_per_plane"].as_u64().unwrap();
    value["geometry"]["blocks_per_plane"] = json!(blocks + 2);
    if value["map_cache"]["kind"] == "cftl" {
        // More pages than the strategy knows of.
        value["map_cache"]["bytes"] = json!(value["map_cache"]["bytes"].as_u64().unwrap() + 500);
    }
    for times in ["read_us", "program_us"] {
        value["timing"][times]["tsb"] = json!(900);
    }
    device(value)
}

pub fn survives(config: &DeviceConfig, cuts: &[Examined]) -> Result<(), TestCaseError> {
    if let Some(bad) = cuts.iter().find(|one| !one.cut.is_survived()) {
        return Err(TestCaseError::fail(format!("{bad:?} on {}", serde_json::to_string(config).unwrap())));
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(8))]

    /// Cells of one bit lose nothing that was promised, whatever the drive, at any command; nor in the middle of a recovery.
    #[test]
    fn what_was_promised_survives_a_cut_at_any_command(
        value in drives(),
        power in promises(),
        requests in requests_of(1..60),
        seed in 0..1000_u64,
    ) {
        let mut value = of_one_bit(value, &json!({}));
        promising(&mut value, power);
        let config = device(value);
        let requests = fitting(&config, requests);
        let options = CrashOptions { seed, nested: 2, ..CrashOptions::default() };
        let recording = recorded(&config, &requests, &options);
        let points = recording.points();
        let cuts = examined(&recording, recording.spread(points.min(40)));
        survives(&config, &cuts)?;
        let last: &Cut = &cuts.last().unwrap().cut;
        prop_assert_eq!((last.torn, last.nested_at), (0, None));
    }

    /// Nor do others with a backup, at commands and at instants.
    #[test]
    fn with_a_backup_so_do_cells_of_several_bits(
        value in page_drives(),
        requests in requests_of(1..60),
        cell in proptest::sample::select(vec![
            ("mlc", "tiles"), ("mlc", "shadow"), ("mlc", "shadow_pairs"), ("mlc", "adjacent"),
            ("tlc", "tlc_pairs"), ("tlc", "shadow"), ("qlc", "shadow"), ("qlc", "adjacent"),
        ]),
        area in proptest::sample::select(vec!["pairs", "slc"]),
        read in any::<bool>(),
        power in promises(),
        seed in 0..1000_u64,
    ) {
        let mut value = of_chosen(value);
        value["cell"] = json!({});
        promising(&mut value, power);
        let config = with_backup(value, cell, json!({ "kind": "copy", "area": area, "read": read }));
        let requests = fitting(&config, requests);
        for (at, nested) in [(CutAt::Command, 2), (CutAt::Time, 2)] {
            let options = CrashOptions { seed, at, nested, ..CrashOptions::default() };
            let recording = recorded(&config, &requests, &options);
            let points = recording.points();
            survives(&config, &examined(&recording, recording.spread(points.min(40))))?;
        }
    }

    /// Nor at any instant, with several dies at work.
    #[test]
    fn what_was_promised_survives_a_cut_at_any_instant(
        value in drives(),
        power in promises(),
        requests in requests_of(1..60),
        seed in 0..1000_u64,
    ) {
        let mut value = of_one_bit(value, &json!({}));
        promising(&mut value, power);
        let config = device(value);
        let requests = fitting(&config, requests);
        let options = CrashOptions { seed, at: CutAt::Time, nested: 2, ..CrashOptions::default() };
        let recording = recorded(&config, &requests, &options);
        let points = recording.points();
        survives(&config, &examined(&recording, recording.spread(points.min(60))))?;
    }
}
