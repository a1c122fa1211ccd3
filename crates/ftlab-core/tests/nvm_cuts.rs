//! Power cuts of drives with a non-volatile cache: what it keeps, and what it must not give up too early.

use ftlab_core::cause::{Cause, Command};
use ftlab_core::config::DeviceConfig;
use ftlab_core::crash::{CrashOptions, CutAt, Examined};
use ftlab_core::ftl::page::GcCounts;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::metrics::CommandRecord;
use ftlab_core::nvm::cache::NvmCounts;
use ftlab_core::rng::Rng;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::common::drives::{cases, drives, is_long, page_drives, requests_of};
use super::common::{device, latencies, merged, of_chosen, request, run, small};
use super::crash::{
    all_cuts, backed_up_keys, examined, of_one_bit, promising, recorded, survives, with_backup,
};
use super::nvm::{cached, caches};

/// What stands above the cache.
fn buffers() -> impl Strategy<Value = Option<(bool, &'static str)>> {
    prop_oneof![
        3 => Just(None),
        1 => Just(Some((false, "back"))),
        1 => Just(Some((true, "back"))),
        1 => Just(Some((true, "through"))),
    ]
}

/// The drive with a cache of as many `pages`, and a buffer above it.
fn with_cache(
    mut drive: Value,
    (mut keys, pages): (Value, u64),
    buffer: Option<(bool, &str)>,
) -> Option<DeviceConfig> {
    keys["bytes"] = json!(pages * drive["geometry"]["page_bytes"].as_u64().unwrap_or(4096));
    if let Some((capacitor, write)) = buffer {
        drive["buffer"] =
            json!({ "kind": "lru", "bytes": 16384, "keep_reads": pages % 2 == 0, "write": write });
        drive["power"]["capacitor"] = json!(capacitor);
    }
    cached(drive, keys)
}

fn fitting(config: &DeviceConfig, requests: Vec<Request>) -> Vec<Request> {
    let sectors = config.logical_pages() * config.unit_bytes() / 512;
    requests.into_iter().filter(|request| u64::from(request.sectors) <= sectors).collect()
}

/// Some of the cuts at commands, with others during the mount, and at instants.
fn cuts(config: &DeviceConfig, requests: &[Request], seed: u64) -> Vec<Examined> {
    let mut all = Vec::new();
    for (at, nested) in [(CutAt::Command, 2), (CutAt::Time, 0), (CutAt::Time, 1)] {
        let options = CrashOptions { seed, at, nested, ..CrashOptions::default() };
        let recording = recorded(config, requests, &options);
        all.extend(examined(&recording, recording.spread(recording.points().min(10))));
    }
    all
}

/// One die with a cache of so many frames of 4 KiB.
fn of_frames(kind: &str, frames: u64, more: Value) -> DeviceConfig {
    let keys = json!({ "cell": { "kind": "slc" }, "nvm": { "kind": kind, "bytes": frames * 4096 } });
    device(merged(merged(small(), keys), more))
}

fn of(op: Op, page: u64) -> Request {
    request(0.0, op, 8 * page, if op == Op::Flush { 0 } else { 8 })
}

const KINDS: [&str; 2] = ["basic", "cdm"];

/// Flash has the first version, the cache had the second: after the trim neither comes back.
#[test]
fn what_was_trimmed_stays_so_though_flash_has_an_older_version() {
    let (write, trim) = (Op::Write, Op::Trim);
    let requests = [
        of(write, 0),
        of(write, 1),
        of(write, 0),
        of(trim, 0),
        of(write, 2),
        of(write, 3),
        // Written again, to flash and in the cache, and trimmed once more.
        of(write, 0),
        of(write, 4),
        of(trim, 0),
        of(write, 5),
        of(write, 6),
    ];
    // Over other layers as well, which find the older version when they are mounted.
    for (kind, layer) in
        [("basic", "page"), ("cdm", "page"), ("basic", "bast"), ("basic", "fast"), ("basic", "block")]
    {
        let config = of_frames(kind, 1, json!({ "ftl": { "kind": layer } }));
        let recording = recorded(&config, &requests, &CrashOptions { nested: 9, ..CrashOptions::default() });
        let summary = serde_json::to_value(recording.summary()).unwrap();
        assert_eq!(summary["nvm"]["tombstones"], 1, "{kind} {layer}");
        let cuts = examined(&recording, 0..recording.points());
        assert!(cuts.iter().all(|one| one.cut.is_survived() && one.cut.untrimmed_sectors == 0), "{cuts:?}");
    }
}

/// A frame holds its page until the program that writes it back has ended.
#[test]
fn an_eviction_that_is_torn_has_its_page_in_the_cache() {
    let requests: Vec<Request> = (0..8).map(|page| of(Op::Write, page % 5)).collect();
    for kind in KINDS {
        let cuts = all_cuts(&of_frames(kind, 2, json!({})), &requests);
        assert_eq!((cuts.len(), cuts.iter().filter(|one| one.cut.torn == 1).count()), (7, 6), "{kind}");
        assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
    }
}

/// Cells of two bits without a backup: a torn program takes the page of its word line that was programmed before, unless
/// the cache has a copy of it. That is the only one then.
#[test]
fn a_page_that_a_torn_program_takes_is_in_the_cache() {
    let mut requests: Vec<Request> = (0..5).map(|page| of(Op::Write, page)).collect();
    // Frees the frame into which page 0 comes back, before anything else is programmed.
    requests.extend([of(Op::Trim, 4), of(Op::Read, 0)]);
    requests.extend((5..8).map(|page| of(Op::Write, page)));
    for kind in KINDS {
        let cells = json!({ "cell": { "kind": "mlc", "page_order": "tiles" } });
        let cuts = all_cuts(&of_frames(kind, 4, cells), &requests);
        // Page 0 to flash, and read; 1 beside it; 2 endangers 0, and 3 endangers 1.
        let lost: Vec<u64> = cuts.iter().map(|one| one.cut.lost_sectors).collect();
        assert_eq!(lost, [0, 0, 0, 0, 8, 0], "{kind}");
        assert!(cuts.iter().all(|one| one.cut.failure.is_none()), "{cuts:?}");
        assert_eq!(cuts[4].losses[0].sector, 8);
    }
}

/// The same with a backup. A page that the cache has needs none, and its neighbour does.
#[test]
fn a_page_that_the_cache_has_needs_no_backup() {
    let mut requests: Vec<Request> = (0..5).map(|page| of(Op::Write, page)).collect();
    requests.extend([of(Op::Trim, 4), of(Op::Read, 0)]);
    requests.extend((5..8).map(|page| of(Op::Write, page)));
    // Page 2 of the block endangers page 0, which a cache that works with the flash has; 3 endangers 1, which is in flash only.
    for (kind, backups, cached) in [("cdm", 1, 1), ("basic", 2, 0)] {
        let recording = recorded(&backed_up(kind, 4), &requests, &CrashOptions::default());
        let counts = &serde_json::to_value(recording.summary()).unwrap()["lsb_backup"];
        let of = |key: &str| counts[key].as_u64().unwrap();
        assert_eq!((of("pages"), of("skipped_cached"), of("skipped_stale")), (backups, cached, 0), "{kind}");
        let cuts = examined(&recording, 0..recording.points());
        // Five reads and programs, and two more for each backup.
        assert_eq!(cuts.len() as u64, 6 + 2 * backups, "{kind}");
        assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
    }
}

/// Such a page is all there is while the program goes on that may tear it: it stays in its frame until then.
#[test]
fn a_page_that_a_program_relies_on_stays_in_its_frame() {
    let at = |us, op, page: u64| request(us, op, 8 * page, 8);
    let mut requests: Vec<Request> = (0..4).map(|page| at(page as f64 * 10_000.0, Op::Write, page)).collect();
    // The oldest of two frames is empty, and page 0 comes back into it.
    requests.extend([at(40_000.0, Op::Trim, 2), at(50_000.0, Op::Read, 0)]);
    // It is used, so that page 3 leaves as page 2 of the block. Then it leaves itself, for a write that needs no command.
    requests.extend([at(60_000.0, Op::Write, 4), at(60_010.0, Op::Write, 5)]);
    let drive = |kind: &str| {
        let keys = json!({ "nvm": { "write_us": 2 }, "host": { "arrival": "open", "link_mb_per_s": 0 } });
        let mut value = serde_json::to_value(backed_up(kind, 2)).unwrap();
        value["host"] = json!({});
        device(merged(value, keys))
    };
    let config = drive("cdm");
    let (outcome, log) = run(&config, &requests);
    let backup = &serde_json::to_value(&outcome.summary).unwrap()["lsb_backup"];
    assert_eq!((backup["pages"].as_u64(), backup["skipped_cached"].as_u64()), (Some(0), Some(1)));
    // The program of 994 us begins with the write of page 4, whose own frame waits for it too.
    let last = log.requests.last().unwrap();
    let program = log.commands.last().unwrap();
    assert_eq!((program.start.as_ns(), program.end.as_ns()), (60_000_000, 60_994_000));
    assert_eq!(last.end.as_ns(), 60_996_000);
    let options = CrashOptions { at: CutAt::Time, ..CrashOptions::default() };
    let recording = recorded(&config, &requests, &options);
    let cuts = examined(&recording, 0..recording.points());
    let during = |one: &&Examined| (60_010_000_000..60_994_000_000).contains(&one.cut.at);
    assert!(cuts.iter().any(|one| during(&one) && one.cut.torn == 1), "{cuts:?}");
    assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
}

/// One die of cells of two bits with a backup, and a cache of so many frames.
fn backed_up(kind: &str, frames: u64) -> DeviceConfig {
    of_frames(kind, frames, backed_up_keys("mlc", "tiles", 8, &json!({})))
}

/// Nothing goes to flash: what is found is what had been written to the frame as a whole.
#[test]
fn a_write_to_a_frame_is_there_when_it_has_ended() {
    let config = of_frames("cdm", 2, json!({ "nvm": { "write_us": 1000 } }));
    let at = |us, op, page: u64| request(us, op, 8 * page, 8);
    let requests =
        [at(0.0, Op::Write, 0), at(5000.0, Op::Write, 0), at(9000.0, Op::Trim, 0), at(9500.0, Op::Write, 1)];
    let options = CrashOptions { at: CutAt::Time, ..CrashOptions::default() };
    let recording = recorded(&config, &requests, &options);
    let cuts = examined(&recording, 0..recording.points());
    // Before the end of each write, the first of which the second finds; at the trim; and after all.
    let moments: Vec<u64> = cuts.iter().map(|one| one.cut.at / 1_000_000).collect();
    assert_eq!(moments, [500, 3500, 7500, 9750, 10_500]);
    assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
}

/// A page comes into a frame that is still being emptied on another die. Meanwhile its own die collects: the page need not
/// be copied, and its block must not be erased before it is in the frame.
#[test]
fn a_block_is_not_erased_while_a_page_that_it_gives_up_is_on_its_way() {
    let config = device(json!({
        "geometry": { "channels": 1, "ways": 2, "blocks_per_plane": 12, "pages_per_block": 4, "page_bytes": 4096 },
        "timing": { "read_us": 25, "program_us": 20_000, "erase_us": 1500, "bus_mb_per_s": 0 },
        "cell": { "kind": "slc" },
        "ftl": { "logical_pages": 64, "gc": "fifo", "gc_low_free_blocks": 1, "gc_open_block": "shared" },
        "precondition": { "kind": "fill" },
        "host": { "arrival": "open", "link_mb_per_s": 0 },
        "nvm": { "kind": "cdm", "bytes": 3 * 4096 },
    }));
    let at = |us: f64, op, page: u64| request(us, op, 8 * page, 8);
    let fifth = 5_000_000.0;
    // Even pages are on one die, odd ones on the other. All but page 6 of its block are written; then others, until the die
    // has no page left. In the frames, a page of the other die is the oldest.
    let requests = |more: u64| {
        let pages = [0, 2, 4].into_iter().chain((0..more).map(|at| 8 + 2 * (at % 12))).chain([1, 40, 42]);
        let before = pages.enumerate().map(|(at_, page)| at(50_000.0 * at_ as f64, Op::Write, page));
        let last = [at(fifth, Op::Read, 6), at(fifth + 10.0, Op::Write, 44)];
        before.chain(last).collect::<Vec<_>>()
    };
    let state = |more: u64| {
        let (outcome, log) = run(&config, &requests(more));
        let since = |command: &&CommandRecord| command.start.as_ns() >= fifth as u64 * 1000;
        let find = |kind: Command, die: u32| {
            log.commands
                .iter()
                .filter(since)
                .find(|record| (record.command, record.die) == (kind, die))
                .copied()
        };
        let (read, emptied) = (find(Command::Read, 0)?, find(Command::Program, 1)?);
        let erase = find(Command::Erase, 0)?;
        let is_its_block = read.page / 4 == erase.page / 4;
        let skipped = outcome.summary.parts.get::<GcCounts>()?.pages_skipped;
        (is_its_block && skipped > 0).then_some((more, read, emptied, erase))
    };
    let (more, read, emptied, erase) = (0..60).find_map(state).expect("the state occurs");
    assert!(read.end < emptied.end, "the page has been read, and its frame is not empty");
    assert_eq!(erase.start, emptied.end, "the die has nothing else to do, and waits");
    let options = CrashOptions { at: CutAt::Time, nested: 2, ..CrashOptions::default() };
    let recording = recorded(&config, &requests(more), &options);
    let cuts = examined(&recording, 0..recording.points());
    let picos = |record: CommandRecord| (record.start.as_ns() * 1000, record.end.as_ns() * 1000);
    let within = |(from, to): (u64, u64)| cuts.iter().any(|one| (from..to).contains(&one.cut.at));
    assert!(within((picos(read).1, picos(emptied).1)) && within(picos(erase)), "both are cut");
    assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
}

/// What has gone to the cache holds nothing in flash, and looks like what was trimmed. The journal must not say so before the
/// cache has it.
#[test]
fn a_journal_takes_nothing_for_trimmed_that_is_on_its_way_to_the_cache() {
    let drive = json!({
        "geometry": { "channels": 1, "ways": 2, "blocks_per_plane": 16, "pages_per_block": 12, "page_bytes": 4096 },
        "timing": { "read_us": 25, "program_us": 200, "erase_us": 300 },
        "cell": { "kind": "slc" },
        "ftl": { "logical_pages": 125 },
        "precondition": { "kind": "fill" },
        "power": { "trim": "flush" },
        "nvm": { "kind": "cdm", "bytes": 8192, "write_us": 2500 },
    });
    // The first is trimmed and written again, and pages that were never trimmed are written, when the flush writes the journal.
    let writes = (0..6).map(|page| of(Op::Write, page));
    let requests: Vec<Request> = [of(Op::Trim, 0)]
        .into_iter()
        .chain(writes)
        .chain([of(Op::Write, 0), of(Op::Trim, 9), of(Op::Flush, 0)])
        .collect();
    let recording =
        recorded(&device(drive), &requests, &CrashOptions { at: CutAt::Time, ..CrashOptions::default() });
    let cuts = examined(&recording, 0..recording.points());
    assert!(cuts.len() > 10 && cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
}

/// A flush that writes pages back is torn. After the mount a flush writes them again, and no page counts as one that collection
/// gave up.
#[test]
fn pages_whose_flush_was_torn_are_flushed_again() {
    let config = device(json!({
        "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 16, "pages_per_block": 8, "page_bytes": 4096,
            "mapping_unit_bytes": 1024 },
        "timing": { "read_us": 25, "program_us": 900, "erase_us": 1500 },
        "cell": { "kind": "mlc", "page_order": "shadow_pairs" },
        "lsb_backup": { "kind": "copy", "area": "slc", "read": false, "exempt_same_request": false },
        "ftl": { "logical_pages": 142 },
        "nvm": { "kind": "basic", "bytes": 151_552, "basic_flush": "writeback" },
    }));
    let write = |lba, sectors| request(0.0, Op::Write, lba, sectors);
    let mut requests: Vec<Request> = [(22, 6), (34, 6), (130, 2), (54, 4), (16, 6), (38, 11)]
        .map(|(lba, sectors)| write(lba, sectors))
        .into();
    requests.push(of(Op::Flush, 0));
    for at in [CutAt::Command, CutAt::Time] {
        let recording = recorded(&config, &requests, &CrashOptions { at, ..CrashOptions::default() });
        let cuts = examined(&recording, 0..recording.points());
        assert!(cuts.len() > 3 && cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
    }
}

/// Two units leave as one NAND page, and a clean one of them is given up. The page for the other takes a collection of the very
/// block that has the clean one, which is copied then, and not skipped.
#[test]
fn a_page_that_was_given_up_is_copied_out_of_the_victim() {
    let config = device(json!({
        "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 12, "pages_per_block": 4, "page_bytes": 8192,
            "mapping_unit_bytes": 4096 },
        "cell": { "kind": "slc" },
        "ftl": { "logical_pages": 40, "gc": "fifo", "gc_low_free_blocks": 1, "gc_open_block": "shared" },
        "precondition": { "kind": "fill" },
        "nvm": { "kind": "cdm", "bytes": 8192 },
    }));
    // The neighbour of the clean page is trimmed: what is read of their page is that page alone.
    let requests = |more: u64, clean: u64| {
        let writes = (0..2 * more).map(|at| of(Op::Write, (20 + at * 3) % 40));
        let writes = writes.filter(|write| write.lba / 16 != clean / 2);
        let last = [of(Op::Trim, clean ^ 1), of(Op::Read, clean), of(Op::Write, 38), of(Op::Write, 39)];
        writes.chain(last).collect::<Vec<_>>()
    };
    let state = |(more, clean): (u64, u64)| {
        let all = requests(more, clean);
        let (outcome, log) = run(&config, &all);
        let counts = outcome.summary.parts.get::<NvmCounts>()?;
        let is_read =
            |record: &&CommandRecord| (record.command, record.cause) == (Command::Read, Cause::Host);
        let place = log.commands.iter().rfind(is_read)?.page;
        let gc = |record: &&CommandRecord| (record.command, record.cause) == (Command::Read, Cause::Gc);
        // In the last eviction, after the page was read for the host.
        let at = log.commands.iter().rposition(|record| is_read(&record))?;
        let is_copied = log.commands[at..].iter().filter(gc).any(|record| record.page == place);
        (counts.clean_evicted == 1 && is_copied).then_some(all)
    };
    let all = (0..40).flat_map(|more| (0..20).map(move |clean| (more, clean))).find_map(state);
    let all = all.expect("the state occurs");
    let recording = recorded(&config, &all, &CrashOptions { nested: 2, ..CrashOptions::default() });
    let cuts = examined(&recording, 0..recording.points());
    assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
}

/// The same on a drive that asks for it now and then.
#[test]
fn a_clean_page_is_given_up_while_its_block_is_the_victim() {
    let config = smallest(&json!({
        "geometry": { "channels": 1, "ways": 1, "pages_per_block": 4, "page_bytes": 8192, "mapping_unit_bytes": 4096 },
        "cell": { "kind": "slc" },
        "ftl": { "logical_pages": 40, "gc": "fifo" },
        "precondition": { "kind": "fill" },
        "nvm": { "kind": "cdm", "bytes": 6 * 8192 },
    }));
    let mut rng = Rng::new(2, "victim");
    let requests: Vec<Request> =
        (0..240).map(|_| of(if rng.below(2) == 0 { Op::Read } else { Op::Write }, rng.below(40))).collect();
    let recording = recorded(&config, &requests, &CrashOptions::default());
    let summary = serde_json::to_value(recording.summary()).unwrap();
    assert!(summary["gc"]["pages_skipped"].as_u64().unwrap() > 0);
    assert!(summary["nvm"]["clean_evicted"].as_u64().unwrap() > 0);
    let cuts = examined(&recording, 0..recording.points());
    assert!(cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
}

/// A cache in the host says that it gives a clean page up, and uses the frame when the drive has heard of it.
#[test]
fn a_clean_page_is_given_up_before_its_frame_is_used_again() {
    let first_write = |place: Value| {
        let config = of_frames(
            "cdm",
            1,
            json!({ "precondition": { "kind": "fill" }, "host": { "link_mb_per_s": 4096 },
                "nvm": merged(json!({ "write_us": 2 }), place) }),
        );
        let requests = [request(0.0, Op::Read, 8, 8), request(90_000.0, Op::Write, 16, 8)];
        latencies(&run(&config, &requests).1)[1]
    };
    // A microsecond on the link, and two in the frame.
    assert_eq!(first_write(json!({})), 3.0);
    assert_eq!(first_write(json!({ "place": "host", "message_us": 1000 })), 1003.0);
}

/// The drive with as few blocks as it may have, so that collection finds live pages.
fn smallest(drive: &Value) -> DeviceConfig {
    let with = |blocks: u32| {
        let drive = merged(drive.clone(), json!({ "geometry": { "blocks_per_plane": blocks } }));
        let config: DeviceConfig = serde_json::from_value(drive).unwrap();
        config.validate().is_ok().then_some(config)
    };
    (4..60).find_map(with).unwrap()
}

/// A buffer with a capacitor sends several units to the cache, and the cache has to make room between them. What the cache has
/// already is not written over with what had been acknowledged before.
#[test]
fn a_capacitor_saves_what_is_on_its_way_to_the_cache() {
    let config = device(json!({
        "geometry": { "channels": 1, "ways": 1, "planes": 2, "blocks_per_plane": 20, "pages_per_block": 12,
            "page_bytes": 4096, "mapping_unit_bytes": 1024 },
        "cell": { "kind": "slc" },
        "ftl": { "over_provisioning": 4.0, "gc_low_free_blocks": 1 },
        "power": { "capacitor": true },
        "buffer": { "kind": "lru", "bytes": 16384, "keep_reads": false },
        "nvm": { "kind": "basic", "bytes": 12288 },
        "host": { "arrival": "open", "outstanding": 1 },
    }));
    let requests = [(35, 54), (90, 9), (68, 49)].map(|(lba, sectors)| request(0.0, Op::Write, lba, sectors));
    let cuts = all_cuts(&config, &requests);
    assert!(cuts.len() > 4 && cuts.iter().all(|one| one.cut.is_survived()), "{cuts:?}");
}

/// Small drives on which several requests, dies and writes to frames are under way.
fn small_drives() -> Vec<(String, DeviceConfig)> {
    let caches = [
        json!({ "kind": "basic" }),
        json!({ "kind": "basic", "basic_flush": "writeback" }),
        json!({ "kind": "cdm" }),
        json!({ "kind": "cdm", "removable": "free" }),
        json!({ "kind": "cdm", "place": "host", "message_us": 30 }),
    ];
    let cells = [
        json!({ "cell": { "kind": "slc" } }),
        json!({ "cell": { "kind": "mlc", "page_order": "tiles" }, "lsb_backup": { "kind": "copy" } }),
    ];
    let mut all = Vec::new();
    for (cache, cell) in caches.iter().flat_map(|cache| cells.iter().map(move |cell| (cache, cell))) {
        for (at, order) in ["lru", "cflru", "lru_wsr"].into_iter().enumerate() {
            let frames = [3, 9, 20][at];
            let drive = json!({
                "geometry": { "channels": 1, "ways": 2, "pages_per_block": 8, "page_bytes": 4096 },
                "timing": { "read_us": 25, "program_us": 200, "erase_us": 1500, "bus_mb_per_s": 100 },
                "ftl": { "logical_pages": 60, "gc_low_free_blocks": 1, "gc": "fifo" },
                "precondition": { "kind": "fill" },
                "host": { "arrival": "closed", "queue_depth": 6, "link_mb_per_s": if cache["place"] == "host" { 2000 } else { 0 } },
                "nvm": { "bytes": frames * 4096, "order": order, "read_us": 5, "write_us": 90, "mb_per_s": 40 },
            });
            let trim = if at == 1 { "flush" } else { "volatile" };
            let drive =
                merged(merged(drive, cell.clone()), json!({ "nvm": cache, "power": { "trim": trim } }));
            all.push((format!("{order} {cache} {cell}"), smallest(&drive)));
        }
    }
    all
}

fn mixed(count: u64, seed: u64) -> Vec<Request> {
    let mut rng = Rng::new(seed, "mixed");
    let ops = [Op::Write, Op::Write, Op::Write, Op::Write, Op::Read, Op::Read, Op::Read, Op::Trim];
    let one = |_| {
        let (first, pages) = (rng.below(460), 1 + rng.below(3));
        let op = if rng.below(40) == 0 { Op::Flush } else { ops[rng.below(8) as usize] };
        // Some of them write pages in part.
        let (lba, sectors) = if rng.below(4) == 0 { (first, 5) } else { (first / 8 * 8, 8 * pages) };
        request(0.0, op, lba, if op == Op::Flush { 0 } else { sectors as u32 })
    };
    (0..count).map(one).collect()
}

/// Every command and every instant, and at some of them again while the drive is mounted.
#[test]
fn no_cut_loses_a_last_copy() {
    let (requests, second_cuts) = if is_long() { (400, 3) } else { (90, 1) };
    let (mut several, mut skipped, mut nested) = (0, 0, 0);
    for (round, (name, config)) in small_drives().into_iter().enumerate() {
        let requests = mixed(requests, round as u64);
        for at in [CutAt::Command, CutAt::Time] {
            let options = CrashOptions { at, nested: second_cuts, ..CrashOptions::default() };
            let recording = recorded(&config, &requests, &options);
            let summary = serde_json::to_value(recording.summary()).unwrap();
            skipped += summary["gc"]["pages_skipped"].as_u64().unwrap();
            for one in examined(&recording, 0..recording.points()) {
                assert!(one.cut.is_survived(), "{name} {at:?}: {one:?}");
                several += u64::from(at == CutAt::Time && one.cut.torn > 1);
                nested += u64::from(one.cut.nested_at.is_some());
            }
        }
    }
    assert!(several > 1000 && skipped > 30 && nested > 1000, "{several} {skipped} {nested}");
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn what_a_cache_was_given_survives_on_any_drive(
        value in drives(),
        cache in caches(),
        buffer in buffers(),
        journal in any::<bool>(),
        requests in requests_of(1..60),
        seed in 0..1000_u64,
    ) {
        let mut value = of_one_bit(value, &json!({}));
        promising(&mut value, ("unit", if journal { "flush" } else { "volatile" }));
        let Some(config) = with_cache(value, cache, buffer) else { return Ok(()) };
        let requests = fitting(&config, requests);
        survives(&config, &cuts(&config, &requests, seed))?;
    }

    #[test]
    #[ignore = "a long test: make test-long"]
    fn with_a_backup_so_it_does_over_cells_of_several_bits(
        value in page_drives(),
        cache in caches(),
        buffer in buffers(),
        journal in any::<bool>(),
        requests in requests_of(1..60),
        cell in proptest::sample::select(vec![
            ("mlc", "tiles"), ("mlc", "shadow"), ("mlc", "shadow_pairs"), ("mlc", "adjacent"),
            ("tlc", "tlc_pairs"), ("tlc", "shadow"), ("qlc", "shadow"), ("qlc", "adjacent"),
        ]),
        area in proptest::sample::select(vec!["pairs", "slc"]),
        seed in 0..1000_u64,
    ) {
        let mut value = of_chosen(value);
        value["cell"] = json!({});
        promising(&mut value, ("unit", if journal { "flush" } else { "volatile" }));
        let config = with_backup(value, cell, json!({ "kind": "copy", "area": area }));
        let value = of_chosen(serde_json::to_value(&config).unwrap());
        let Some(config) = with_cache(value, cache, buffer) else { return Ok(()) };
        let requests = fitting(&config, requests);
        survives(&config, &cuts(&config, &requests, seed))?;
    }
}
