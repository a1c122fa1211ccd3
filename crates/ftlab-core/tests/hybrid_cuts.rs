//! LSB backup below block-mapped layers: what it saves by hand, and that no cut loses anything.

use ftlab_core::config::DeviceConfig;
use ftlab_core::crash::{CrashOptions, CutAt};
use ftlab_core::flash::cell::CellKind;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::rng::Rng;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::common::drives::{block_drives, cases, is_long, requests_of};
use super::common::{block_mapped, device, ftl_kinds, merged, of_chosen, request, run, small};
use super::crash::{all_cuts, backed_up_keys, examined, promising, recorded, survives, with_backup};

const CELLS: [(&str, &str); 8] = [
    ("mlc", "tiles"),
    ("mlc", "shadow"),
    ("mlc", "shadow_pairs"),
    ("mlc", "adjacent"),
    ("tlc", "tlc_pairs"),
    ("tlc", "shadow"),
    ("tlc", "adjacent"),
    ("qlc", "shadow"),
];

fn layers() -> impl Iterator<Item = &'static str> {
    ftl_kinds().into_iter().filter(|kind| *kind != "page")
}

fn pages(of: &[u64]) -> Vec<Request> {
    of.iter().map(|page| request(0.0, Op::Write, 8 * page, 8)).collect()
}

/// One die of cells of two bits, in the order of the paper, with blocks of 8 pages.
fn by_hand(kind: &str, backup: &Value) -> DeviceConfig {
    let keys = backed_up_keys("mlc", "tiles", 8, backup);
    let layer = json!({ "ftl": { "kind": kind }, "geometry": { "blocks_per_plane": 40 } });
    device(merged(small(), merged(keys, layer)))
}

/// Backups, and pages that the same piece of work had written.
fn backups(config: &DeviceConfig, requests: &[Request]) -> (u64, u64) {
    let summary = serde_json::to_value(&run(config, requests).0.summary).unwrap();
    let of = |key: &str| summary["lsb_backup"][key].as_u64().unwrap();
    (of("pages"), of("skipped_same_request"))
}

#[test]
fn copies_of_a_merge_need_no_backup_until_an_erase() {
    let exempt = json!({});
    // Pages 2, 3, 6 and 7 of a block are the second ones of their word lines.
    let block = [0, 1, 2, 3, 4, 5, 6, 7];
    for kind in layers() {
        assert_eq!(backups(&by_hand(kind, &exempt), &pages(&block)), (4, 0), "{kind}");
    }
    // Page 3 is written to a free block, between copies of the others. It alone endangers what another piece of work has written.
    let overwritten = pages(&[&block[..], &[3]].concat());
    assert_eq!(backups(&by_hand("block", &exempt), &overwritten), (5, 3));
    // A log block of eight pages, each of which is live when it is endangered; then a merge of eight copies.
    let logged = pages(&[&block[..], &[5, 6, 7, 7, 5, 6, 7, 7, 0]].concat());
    assert_eq!(backups(&by_hand("bast", &exempt), &logged), (8, 4));
    assert_eq!(backups(&by_hand("bast", &json!({ "exempt_same_request": false })), &logged), (12, 0));
    // After the erase that ends it, its copies are data like others: page 6 endangers page 4.
    let gone_on = pages(&[0, 1, 2, 3, 4, 5, 5, 6, 7]);
    assert_eq!(backups(&by_hand("block", &exempt), &gone_on), (4, 2));
    for requests in [overwritten, logged, gone_on] {
        for kind in layers() {
            let cuts = all_cuts(&by_hand(kind, &exempt), &requests);
            assert!(cuts.iter().all(|one| one.cut.is_survived()), "{kind}: {cuts:?}");
        }
    }
}

/// With backup off, each layer loses pages that were written long before: the test has teeth.
#[test]
fn without_a_backup_a_torn_program_takes_earlier_pages() {
    for kind in layers() {
        let keys = json!({ "cell": { "kind": "mlc", "page_order": "tiles" }, "ftl": { "kind": kind } });
        let cuts = all_cuts(&device(merged(small(), keys)), &pages(&[0, 1, 2, 3, 4, 5, 6, 7]));
        let lost: Vec<u64> = cuts.iter().filter(|one| one.cut.lost_units > 0).map(|one| one.cut.at).collect();
        assert_eq!(lost, [2, 3, 6, 7], "{kind}");
        let cuts = all_cuts(&by_hand(kind, &json!({})), &pages(&[0, 1, 2, 3, 4, 5, 6, 7]));
        assert_eq!(cuts.len(), 17, "{kind}");
        assert!(cuts.iter().all(|one| one.cut.is_survived()), "{kind}: {cuts:?}");
    }
}

/// LAST moves what is live of its hot log blocks into a cold one, and erases each. What has come from the first stands nowhere
/// else when the second is moved behind it. Copies as they are, they need a backup then.
#[test]
fn copies_that_an_erase_has_left_alone_have_a_backup() {
    let keys = merged(
        backed_up_keys("mlc", "tiles", 8, &json!({})),
        json!({
            "geometry": { "blocks_per_plane": 24 },
            "ftl": { "kind": "last", "over_provisioning": null, "logical_pages": 64, "log_blocks": 9,
                "sequential_bytes": 65536, "sequential_share": 0.1 },
        }),
    );
    let config = device(merged(small(), keys));
    for seed in 0..4 {
        let mut rng = Rng::new(seed, "hot");
        let mut requests = pages(&(0..64).collect::<Vec<_>>());
        requests.extend((0..200).flat_map(|_| {
            let hot = if rng.below(5) == 0 { 24 } else { 6 };
            pages(&[rng.below(hot) * 2])
        }));
        let recording = recorded(&config, &requests, &CrashOptions::default());
        let cuts = examined(&recording, 0..recording.points());
        let bad = cuts.iter().find(|one| !one.cut.is_survived());
        assert!(bad.is_none(), "{seed}: {bad:?}");
    }
}

/// Requests from words such as `W 0 8`, `T 0 8` and `F`, at once or from a microsecond on, as in `W 0 8 7347`.
fn said(text: &str) -> Vec<Request> {
    let one = |words: &str| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let number = |at: usize| words.get(at).map_or(0, |word| word.parse().unwrap());
        let op = match words[0] {
            "W" => Op::Write,
            "T" => Op::Trim,
            "F" => Op::Flush,
            other => panic!("{other}"),
        };
        request(number(3) as f64, op, number(1), number(2) as u32)
    };
    text.split(';').map(one).collect()
}

/// Short cases in which a mount found too few free blocks, took a block for what it was not, or brought back what had been
/// trimmed, before each was mended.
#[test]
fn cases_that_were_lost_before_are_not() {
    let backup = json!({ "cell": { "kind": "mlc" }, "lsb_backup": { "kind": "copy" } });
    let trims = json!({ "power": { "trim": "flush" } });
    let one = |dies: u64, blocks: u64, pages: u64| {
        json!({ "geometry": { "channels": dies, "ways": 1, "blocks_per_plane": blocks, "pages_per_block": pages,
            "page_bytes": 4096 }, "cell": { "kind": "slc" } })
    };
    let mut cases = 0;
    for (drive, more, ftl, precondition, requests) in [
        // An erased block that kept the number of its opening: backups of its earlier life.
        (one(2, 5, 8), &backup, json!({ "kind": "mcsplit", "logical_pages": 16 }), "steady", "W 120 8"),
        // A log block that was begun before a trimmed one was gone in all memories.
        (
            one(4, 6, 8),
            &backup,
            json!({ "kind": "mcsplit", "partial_row": "fill", "logical_pages": 64 }),
            "fill",
            "W 0 24; W 0 16; T 0 24; W 32 24",
        ),
        // A sequence of another memory than the log that is given up.
        (
            one(2, 7, 3),
            &json!({ "host": { "arrival": "closed", "queue_depth": 2 } }),
            json!({ "kind": "fast", "allocator": "dynamic", "logical_pages": 22 }),
            "steady",
            "W 0 8; W 32 8; T 8 16; W 96 48; T 48 24; T 8 24; T 40 8; W 112 8",
        ),
        // A page that was programmed just before its block was erased.
        (
            one(1, 7, 3),
            &json!({ "buffer": { "kind": "clc", "bytes": 12288 } }),
            json!({ "kind": "fast", "logical_pages": 12 }),
            "fill",
            "W 24 24; T 24 16; W 72 16; W 0 8; T 0 48; W 24 16; W 8 24; T 24 16",
        ),
        // What a merge passes over, with an older version in a log block that is shared.
        (
            one(1, 10, 3),
            &trims,
            json!({ "kind": "fast", "logical_pages": 3 }),
            "none",
            "W 8 16; W 8 16; T 8 16; W 0 24; F; T 16 8; W 8 16",
        ),
        (
            one(2, 8, 5),
            &trims,
            json!({ "kind": "last", "sequential_bytes": 8192, "logical_pages": 10 }),
            "fill",
            "W 8 8; W 8 8; T 8 8; W 8 8; F; T 8 8; W 16 16; W 24 8; W 32 8; W 16 8; W 24 8; W 32 8",
        ),
        // A block was begun before another of its cluster was gone in all memories. The log that replaces that waits in one of them
        // for the merge of another cluster.
        (
            merged(one(1, 3, 6), json!({ "geometry": { "ways": 2, "dies": 2 } })),
            &json!({}),
            json!({ "kind": "subgroup", "cluster_memories": 2, "log_blocks": 1, "logical_pages": 24 }),
            "steady",
            "W 8 24 46965; W 144 16 53852; W 0 192 54728; W 80 8 56134",
        ),
        // The same with cells of two bits and without backup, where a torn program takes earlier pages.
        (
            merged(
                one(1, 4, 4),
                json!({ "geometry": { "dies": 2, "planes": 2 }, "cell": { "kind": "mlc" },
                    "timing": { "independent_planes": true } }),
            ),
            &trims,
            json!({ "kind": "subgroup", "cluster_memories": 2, "log_blocks": 2, "logical_pages": 16 }),
            "fill",
            "W 72 8 7347; T 40 24 8864; W 0 128 9778; W 96 8 13369",
        ),
    ] {
        let keys = json!({ "ftl": ftl, "precondition": { "kind": precondition } });
        let config = device(of_chosen(merged(merged(drive, more.clone()), keys)));
        for at in [CutAt::Command, CutAt::Time] {
            let options = CrashOptions { at, nested: 2, ..CrashOptions::default() };
            let recording = recorded(&config, &said(requests), &options);
            for one in examined(&recording, 0..recording.points()) {
                let is_unguarded =
                    config.lsb_backup.copies().is_none() && config.cell.kind.kind() != CellKind::Slc;
                let is_kept = one.cut.is_survived() || is_unguarded && one.cut.failure.is_none();
                assert!(is_kept, "{ftl}, {requests}: {one:?}");
                cases += 1;
            }
        }
    }
    assert!(cases > 300, "{cases}");
}

/// A small drive of four memories.
fn drive(keys: &Value, cell: (&str, &str), (ways, area): (u32, &str), trim: &str) -> DeviceConfig {
    let mut drive = json!({
        "geometry": { "channels": 4 / ways, "ways": ways, "blocks_per_plane": 14, "pages_per_block": 1, "page_bytes": 4096 },
        "timing": { "read_us": { "lsb": 25, "csb": 30, "msb": 40 }, "program_us": { "lsb": 200, "csb": 400, "msb": 900 }, "erase_us": 1500, "bus_mb_per_s": 100,
            "copyback": area == "slc" },
        "host": { "arrival": "closed", "queue_depth": 6, "link_mb_per_s": 0 },
        "map_cache": {},
        "ftl": merged(keys.clone(), json!({ "over_provisioning": 1.9 })),
    });
    promising(&mut drive, ("unit", trim));
    with_backup(drive, cell, json!({ "kind": "copy", "area": area }))
}

fn mixed(config: &DeviceConfig, count: u64, seed: u64) -> Vec<Request> {
    let mut rng = Rng::new(seed, "layers");
    let units = config.logical_pages();
    let one = |_| {
        // Most of them in a part of the drive, so that logs fill and are merged.
        let near = if rng.below(4) == 0 { units } else { units.min(24) };
        let (first, pages) = (rng.below(near), 1 + rng.below(5).saturating_sub(1));
        let op = [Op::Write, Op::Write, Op::Write, Op::Write, Op::Write, Op::Trim][rng.below(6) as usize];
        if rng.below(8) == 0 {
            return request(0.0, Op::Flush, 0, 0);
        }
        request(0.0, op, 8 * first, 8 * pages.min(units - first) as u32)
    };
    (0..count).map(one).collect()
}

/// Every layer with each of its variants, at commands and at instants, and again while the drive is mounted.
#[test]
fn no_cut_loses_anything_below_any_layer() {
    let (count, points, rounds) = if is_long() { (200, 1000, 3) } else { (60, 40, 1) };
    let (mut backups, mut journalled, mut cuts, mut several, mut nested) = (0, 0, 0, 0, 0);
    for (at, kind) in layers().enumerate() {
        for (variant, keys) in block_mapped(kind).into_iter().enumerate() {
            for round in 0..rounds {
                let number = at + variant + round;
                let config = drive(
                    &keys,
                    CELLS[number % CELLS.len()],
                    (if number % 2 == 0 { 1 } else { 4 }, if number % 3 == 0 { "slc" } else { "pairs" }),
                    if number % 4 < 2 { "flush" } else { "volatile" },
                );
                let requests = mixed(&config, count, number as u64);
                for (at, second) in [(CutAt::Command, 2), (CutAt::Time, 1)] {
                    let options = CrashOptions { at, nested: second, ..CrashOptions::default() };
                    let recording = recorded(&config, &requests, &options);
                    let summary = serde_json::to_value(recording.summary()).unwrap();
                    backups += summary["lsb_backup"]["pages"].as_u64().unwrap();
                    journalled += summary["journal"]["pages"].as_u64().unwrap_or(0);
                    for one in examined(&recording, recording.spread(recording.points().min(points))) {
                        assert!(one.cut.is_survived(), "{keys} {number} {at:?}: {one:?}");
                        cuts += 1;
                        several += u64::from(at == CutAt::Time && one.cut.torn > 1);
                        nested += u64::from(one.cut.nested_at.is_some());
                    }
                }
            }
        }
    }
    eprintln!(
        "{cuts} cuts, {several} of them with several dies at work, {nested} in a mount; {backups} backups, {journalled} pages of journals"
    );
    assert!(
        backups > 200 && journalled > 40 && several > 100 && nested > 500,
        "{backups} {journalled} {several} {nested}"
    );
}

/// A block over several memories is erased in each at a time of its own. What is left in one, and was trimmed, is not mistaken
/// for something that the next data block should have: that block would be given up.
#[test]
fn a_data_block_is_written_when_the_one_before_is_gone_everywhere() {
    let seeds: Vec<u64> = if is_long() { (0..300).collect() } else { vec![33, 1, 2] };
    for seed in seeds {
        let mut rng = Rng::new(seed, "marks");
        let mut one_of = |values: &[u64]| values[rng.below(values.len() as u64) as usize];
        let (cell, is_mcsplit) = (CELLS[one_of(&[0, 1, 2, 3, 4, 5, 6, 7]) as usize], one_of(&[0, 1]) == 0);
        let logs = 4 * one_of(&[1, 2, 3]);
        let mut keys = json!({ "kind": "mcsplit", "log_blocks": logs, "partial_row": "fill" });
        if !is_mcsplit {
            keys["kind"] = json!("subgroup");
            keys["cluster_memories"] = json!(one_of(&[2, 4]));
        }
        let trim = if seed % 2 == 0 { "flush" } else { "volatile" };
        let mut value =
            serde_json::to_value(drive(&keys, cell, (one_of(&[1, 2, 4]) as u32, "pairs"), trim)).unwrap();
        value["timing"]["erase_us"] = json!(one_of(&[10, 1500]));
        value["timing"]["bus_mb_per_s"] = json!(one_of(&[10, 100]));
        value["timing"]["command_us"] = json!(one_of(&[0, 50, 300]));
        value["timing"]["copyback"] = json!(one_of(&[0, 1]) == 0);
        value["host"]["queue_depth"] = json!(12);
        for has_backup in [true, false] {
            let mut value = value.clone();
            if !has_backup {
                value["cell"] = json!({ "kind": "slc" });
                value["lsb_backup"] = json!({});
            }
            let config = device(of_chosen(value));
            let (units, pages) = (config.logical_pages(), 4 * u64::from(config.geometry.pages_per_block));
            let requests: Vec<Request> = (0..150)
                .map(|_| {
                    let page = rng.below(3) * pages + rng.below(pages) * rng.below(3) / 2;
                    let op = [Op::Trim, Op::Read, Op::Write, Op::Write, Op::Write][rng.below(5) as usize];
                    if seed % 2 == 0 && page.is_multiple_of(9) {
                        return request(0.0, Op::Flush, 0, 0);
                    }
                    request(0.0, op, 8 * (page % units), 8)
                })
                .collect();
            let recording =
                recorded(&config, &requests, &CrashOptions { at: CutAt::Time, ..CrashOptions::default() });
            for one in examined(&recording, 0..recording.points()) {
                assert!(one.cut.is_survived(), "seed {seed}, {keys}, {cell:?}, backup {has_backup}: {one:?}");
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn with_a_backup_no_block_mapped_drive_loses_anything(
        value in block_drives(),
        requests in requests_of(1..80),
        cell in proptest::sample::select(CELLS.to_vec()),
        (area, trim) in (proptest::sample::select(vec!["pairs", "slc"]), proptest::sample::select(vec!["volatile", "flush"])),
        seed in 0..1000_u64,
    ) {
        let mut value = of_chosen(value);
        promising(&mut value, ("unit", trim));
        value["cell"] = json!({});
        let config = with_backup(value, cell, json!({ "kind": "copy", "area": area }));
        let sectors = config.logical_pages() * config.unit_bytes() / 512;
        let requests: Vec<Request> =
            requests.into_iter().filter(|request| u64::from(request.sectors) <= sectors).collect();
        for (at, nested) in [(CutAt::Command, 2), (CutAt::Time, 1)] {
            let options = CrashOptions { seed, at, nested, ..CrashOptions::default() };
            let recording = recorded(&config, &requests, &options);
            survives(&config, &examined(&recording, recording.spread(recording.points().min(20))))?;
        }
    }
}

/// What a flush has promised to be trimmed stays so below every layer, though its block is erased and older data stand
/// elsewhere. The journal is compacted on the way.
#[test]
#[ignore = "a long test: make test-long"]
fn a_flushed_trim_stays_below_every_layer() {
    let rounds = if is_long() { 40 } else { 2 };
    for kind in layers() {
        for (variant, keys) in block_mapped(kind).into_iter().enumerate() {
            let (mut snapshots, mut promised) = (0, 0);
            for round in 0..rounds {
                let mut config = serde_json::to_value(drive(&keys, CELLS[0], (2, "pairs"), "flush")).unwrap();
                config["cell"] = json!({ "kind": "slc" });
                config["lsb_backup"] = json!({});
                let config = device(of_chosen(config));
                let mut rng = Rng::new(round * 31 + variant as u64, "trims");
                // A few pages again and again, and single trims with a flush behind each.
                let requests: Vec<Request> = (0..120)
                    .flat_map(|_| {
                        let page = rng.below(config.logical_pages().min(20));
                        let op = if rng.below(3) == 0 { Op::Trim } else { Op::Write };
                        let flush = (rng.below(4) == 0).then(|| request(0.0, Op::Flush, 0, 0));
                        [request(0.0, op, 8 * page, 8)].into_iter().chain(flush)
                    })
                    .collect();
                for (at, nested) in [(CutAt::Command, 1), (CutAt::Time, 0)] {
                    let options = CrashOptions { at, nested, ..CrashOptions::default() };
                    let recording = recorded(&config, &requests, &options);
                    let summary = serde_json::to_value(recording.summary()).unwrap();
                    snapshots += summary["journal"]["snapshots"].as_u64().unwrap();
                    promised += summary["journal"]["pages"].as_u64().unwrap();
                    for one in examined(&recording, recording.spread(recording.points().min(150))) {
                        assert!(one.cut.is_survived(), "{keys} round {round} {at:?}: {one:?}");
                    }
                }
            }
            assert!(snapshots > 0 && promised > 20, "{keys}: {snapshots} snapshots, {promised} pages");
        }
    }
}

/// A clustered block is erased in each memory at a time of its own, and written again when it is erased in all of them. A mount
/// would find two lives of it.
#[test]
fn a_clustered_block_is_written_when_it_is_erased_everywhere() {
    let config = device(json!({
        "geometry": { "channels": 4, "ways": 2, "blocks_per_plane": 10, "pages_per_block": 2, "page_bytes": 512 },
        "ftl": { "kind": "mcsplit", "logical_pages": 87 },
        "timing": { "erase_us": 10, "program_us": 3000 },
    }));
    let of = [(6, 1), (0, 87), (18, 1), (29, 1), (36, 1), (47, 1), (24, 1), (34, 1)];
    let requests = of.map(|(lba, sectors)| request(0.0, Op::Write, lba, sectors));
    let recording =
        recorded(&config, &requests, &CrashOptions { at: CutAt::Time, ..CrashOptions::default() });
    let cuts = examined(&recording, 0..recording.points());
    let bad = cuts.iter().find(|one| !one.cut.is_survived());
    assert!(bad.is_none(), "{bad:?}");
}
