//! The mechanisms behind the kinds that are made of them: what a log, a checkpoint or a transaction must look like.

use std::collections::BTreeSet;

use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::quantity;
use ftlab_stats::stats;
use ftlab_workload::WorkloadConfig;
use ftlab_workload::kinds::phone_sqlite::SQLITE_SECTORS;

const SPACE: u64 = 64 << 30;

fn requests_of(json: &str) -> Vec<Request> {
    let config: WorkloadConfig = serde_json::from_str(json).unwrap();
    let mut source = config.factory(SPACE, None, None).unwrap().open(0).unwrap();
    let mut out = Vec::new();
    while source.fill(&mut out, 4096).unwrap() > 0 {}
    assert!(out.is_sorted_by_key(|request| request.arrival_ns), "{json}");
    out
}

fn end(request: &Request) -> u64 {
    request.lba + u64::from(request.sectors)
}

const LOG_SECTORS: u64 = (64 << 20) / 512;

fn is_log(request: &Request) -> bool {
    request.op == Op::Write && request.lba < LOG_SECTORS
}

#[test]
fn the_log_of_a_database_is_sequential_circular_and_flushed() {
    let requests = requests_of(
        r#"{"kind":"db","requests":200000,"db":{"log_bytes":"64MiB","warehouses":4,"warehouse_bytes":"20MiB",
            "commit_bytes":"16KiB","warm":false}}"#,
    );
    let (mut next, mut wraps, mut appends) = (0, 0, 0);
    for pair in requests.windows(2).filter(|pair| is_log(&pair[0])) {
        let request = &pair[0];
        if request.lba == 0 && next != 0 {
            // The rest of a write that meets the end of the log, or the next one.
            assert!(next + 1 >= LOG_SECTORS, "{next}");
            wraps += 1;
        } else {
            // The sector that was not full is written again.
            assert!(request.lba == next || request.lba + 1 == next, "{request:?} after {next}");
            appends += 1;
        }
        next = end(request);
        let splits = is_log(&pair[1]) && pair[1].arrival_ns == request.arrival_ns;
        assert!(splits || pair[1].op == Op::Flush, "{:?} after a commit", pair[1]);
    }
    assert!(wraps >= 2 && appends > 1000, "{wraps} {appends}");
}

#[test]
fn checkpoints_write_dirty_pages_once_in_order_of_address() {
    // The pool holds everything: nothing but checkpoints writes pages.
    let requests = requests_of(
        r#"{"kind":"db","requests":200000,"db":{"log_bytes":"64MiB","warehouses":4,"warehouse_bytes":"20MiB",
            "pool_fraction":1.5,"checkpoint_us":"60s","coalesce_pages":4}}"#,
    );
    let pages: Vec<&Request> =
        requests.iter().filter(|request| request.op == Op::Write && !is_log(request)).collect();
    let mut ascents = vec![1u64];
    for pair in pages.windows(2) {
        if pair[1].lba >= end(pair[0]) { *ascents.last_mut().unwrap() += 1 } else { ascents.push(1) }
    }
    assert!(
        ascents.len() > 2 && ascents[..ascents.len() - 1].iter().all(|length| *length > 500),
        "{ascents:?}"
    );
    assert!(pages.iter().all(|request| request.sectors % 16 == 0 && request.sectors <= 64));
    assert!(pages.iter().any(|request| request.sectors == 64));
    // Each page is read once at most: it never leaves.
    let mut seen = BTreeSet::new();
    assert!(requests.iter().filter(|request| request.op == Op::Read).all(|request| seen.insert(request.lba)));
}

#[test]
fn checkpoints_by_change_write_what_is_due_once_with_its_neighbours() {
    let keys = r#""log_bytes":"64MiB","warehouses":4,"warehouse_bytes":"20MiB","pool_fraction":1.5,
        "checkpoint_us":"60s","checkpoint_spread":0,"coalesce_pages":4,"warm":true"#;
    let written = |order: &str| -> Vec<(u64, u64)> {
        let requests = requests_of(&format!(
            r#"{{"kind":"db","requests":60000,"db":{{{keys},"checkpoint_order":"{order}"}}}}"#
        ));
        let pages = requests.iter().filter(|request| request.op == Op::Write && !is_log(request));
        pages.map(|request| (request.arrival_ns, request.lba)).collect()
    };
    // With nothing spread, each checkpoint has a moment of its own.
    let checkpoints = |order: &str| -> Vec<Vec<u64>> {
        let written = written(order);
        let by_moment = written.chunk_by(|a, b| a.0 == b.0);
        by_moment.map(|writes| writes.iter().map(|(_, lba)| *lba).collect()).collect()
    };
    let (by_change, by_address) = (checkpoints("change"), checkpoints("address"));
    assert!(by_change.len() > 2 && by_change[0].len() > 500, "{}", by_change.len());
    for (checkpoint, sorted) in by_change.iter().zip(&by_address).take(2) {
        let ascents = checkpoint.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!(ascents * 10 < checkpoint.len() * 7 && sorted.is_sorted(), "{ascents}");
        // Nothing is written twice.
        assert_eq!(checkpoint.iter().collect::<BTreeSet<_>>().len(), checkpoint.len());
    }
}

#[test]
fn double_writes_come_before_the_pages_and_are_flushed() {
    let requests = requests_of(
        r#"{"kind":"db","requests":100000,"db":{"log_bytes":"64MiB","warehouses":4,"warehouse_bytes":"20MiB",
            "pool_fraction":1.5,"checkpoint_us":"60s","double_write":true}}"#,
    );
    let area = LOG_SECTORS..LOG_SECTORS + 128 * 16;
    let mut doubles = 0;
    for (index, request) in requests.iter().enumerate() {
        if request.op != Op::Write || !area.contains(&request.lba) {
            continue;
        }
        doubles += 1;
        assert_eq!((request.lba, requests[index + 1].op), (area.start, Op::Flush));
        let (mut twice, mut at) = (0, index + 2);
        while twice < request.sectors && at < requests.len() {
            twice += requests[at].sectors;
            at += 1;
        }
        assert!(at == requests.len() || twice == request.sectors, "{twice} of {}", request.sectors);
    }
    assert!(doubles > 20, "{doubles}");
}

#[test]
fn a_small_pool_reads_and_a_large_one_hardly_does() {
    let share = |pool: &str| {
        let requests = requests_of(&format!(
            r#"{{"kind":"db","requests":600000,"db":{{"warehouses":20,"flushes":false,{pool}}}}}"#
        ));
        let reads = requests.iter().filter(|request| request.op == Op::Read).count();
        reads as f64 / requests.len() as f64
    };
    let small = share(r#""pool_fraction":0.1"#);
    assert!((0.55..=0.68).contains(&small), "{small}");
    assert!(share(r#""pool_fraction":0.4"#) < small);
}

#[test]
fn a_recording_begins_with_a_full_pool_unless_it_is_to_be_filled() {
    let reads = |keys: &str, part: std::ops::Range<usize>| {
        let requests = requests_of(&format!(r#"{{"kind":"db","requests":200000,"db":{{{keys}}}}}"#));
        let part = &requests[part];
        let moved = part.iter().filter(|request| request.op != Op::Flush).count();
        part.iter().filter(|request| request.op == Op::Read).count() as f64 / moved as f64
    };
    for part in [0..50_000, 150_000..200_000] {
        let warm = reads("", part.clone());
        assert!((0.62..=0.67).contains(&warm), "{part:?}: {warm}");
    }
    assert!(reads(r#""warm":false"#, 0..50_000) > 0.85);
    // All pages are there: nothing is read at all.
    assert_eq!(reads(r#""pool_fraction":1.0,"warm":true"#, 0..50_000), 0.0);
    assert!(reads(r#""pool_fraction":1.0"#, 0..50_000) > 0.85);
}

#[test]
fn full_page_images_and_the_control_file_are_written() {
    let table = r#""log_bytes":"64MiB","warehouses":4,"warehouse_bytes":"20MiB""#;
    let log = |more: &str| {
        let requests = requests_of(&format!(r#"{{"kind":"db","requests":50000,"db":{{{table}{more}}}}}"#));
        let bytes = |chosen: &dyn Fn(&&Request) -> bool| {
            requests.iter().filter(chosen).map(|request| u64::from(request.sectors)).sum::<u64>() as f64
        };
        bytes(&|request| is_log(request)) / bytes(&|request| request.op != Op::Flush)
    };
    assert!(log(r#","full_page_images":true"#) > 1.3 * log(""));
    let requests =
        requests_of(&format!(r#"{{"kind":"db","requests":50000,"db":{{{table},"heartbeat_us":"1s"}}}}"#));
    let beats: Vec<&Request> =
        requests.iter().filter(|request| request.lba == 0 && request.sectors == 8).collect();
    assert!(
        beats.windows(2).all(|pair| pair[1].arrival_ns - pair[0].arrival_ns == 1_000_000_000),
        "{}",
        beats.len()
    );
    assert!(beats.len() > 10 && beats[0].arrival_ns == 0);
}

/// Blocks that are written, in order, between flushes.
fn epochs(requests: &[Request]) -> Vec<Vec<u64>> {
    let mut epochs = vec![Vec::new()];
    for request in requests {
        match request.op {
            Op::Flush => epochs.push(Vec::new()),
            Op::Write => {
                epochs.last_mut().unwrap().extend((request.lba / 8..end(request) / 8).collect::<Vec<u64>>());
            }
            _ => {}
        }
    }
    epochs
}

const JOURNAL_BLOCKS: u64 = (32 << 20) / 4096;

#[test]
fn a_rollback_transaction_has_eleven_block_writes_and_two_flushes() {
    let requests = requests_of(
        r#"{"kind":"phone_sqlite","requests":20001,"phone_sqlite":{"wal_fraction":0,"read_fraction":0}}"#,
    );
    let epochs = epochs(&requests);
    let mut journal = 0;
    for transaction in epochs[..epochs.len() - 3].chunks_exact(2) {
        let (before, after) = (&transaction[0], &transaction[1]);
        assert_eq!(before.len() + after.len(), 11, "{before:?} {after:?}");
        // Header and two old pages, side by side; then the file system's journal.
        assert!(before[1] == before[0] + 1 && before[2] == before[0] + 2 && before[0] >= JOURNAL_BLOCKS);
        assert!(before[3..].iter().all(|block| *block < JOURNAL_BLOCKS));
        // Two pages of the database, and the header again.
        assert_eq!(after[2], before[0]);
        for block in before[3..].iter().chain(&after[3..]) {
            assert!(
                *block == journal || *block == 0 && journal + 3 > JOURNAL_BLOCKS,
                "{block} after {journal}"
            );
            journal = block + 1;
        }
    }
}

#[test]
fn a_rollback_transaction_writes_each_page_twice() {
    let blocks = |pages: &str| {
        let requests = requests_of(&format!(
            r#"{{"kind":"phone_sqlite","requests":20001,"phone_sqlite":{{"wal_fraction":0,"read_fraction":0,
                "transaction_pages":{pages}}}}}"#
        ));
        let epochs = epochs(&requests);
        let counts = epochs[..epochs.len() - 3].chunks_exact(2).map(|pair| pair[0].len() + pair[1].len());
        counts.collect::<Vec<usize>>()
    };
    assert!(blocks("5").iter().all(|count| *count == 17));
    let between = blocks("3.4");
    assert!(between.iter().all(|count| [13, 15].contains(count)));
    let more = between.iter().filter(|count| **count == 15).count() as f64 / between.len() as f64;
    assert!((more - 0.4).abs() < 0.03, "{more}");
}

#[test]
fn a_write_ahead_log_is_appended_and_written_back_in_order() {
    let requests = requests_of(
        r#"{"kind":"phone_sqlite","requests":30000,"phone_sqlite":{"wal_fraction":1,"read_fraction":0,"databases":1}}"#,
    );
    let (mut tail, mut written_back, mut appends) = (0, 0, 0);
    for epoch in epochs(&requests) {
        let blocks: Vec<u64> = epoch.into_iter().filter(|block| *block >= JOURNAL_BLOCKS).collect();
        let Some((first, last)) = blocks.first().copied().zip(blocks.last().copied()) else { continue };
        if blocks.len() > 40 {
            assert!(blocks.is_sorted_by(|a, b| a < b), "written back out of order");
            written_back += 1;
            tail = 0;
        } else if tail > 0 {
            assert!(first == tail || first == tail + 1, "{first} after {tail}");
            tail = last;
            appends += 1;
        } else {
            tail = last;
        }
    }
    assert!(written_back >= 5 && appends > 400 * written_back / 2, "{written_back} {appends}");
}

#[test]
fn a_phone_writes_small_and_often() {
    let requests = requests_of(r#"{"kind":"phone_sqlite","requests":200000}"#);
    let share = |part: usize, whole: usize| part as f64 / whole as f64;
    let writes: Vec<&Request> = requests.iter().filter(|request| request.op == Op::Write).collect();
    let small = writes.iter().filter(|request| request.sectors == 8).count();
    assert!((0.6..=0.75).contains(&share(small, writes.len())), "{}", share(small, writes.len()));
    let reads = requests.iter().filter(|request| request.op == Op::Read).count();
    assert!((share(reads, requests.len()) - 0.2).abs() < 0.01);
    let bytes = |chosen: &dyn Fn(&&&Request) -> bool| {
        writes.iter().filter(chosen).map(|request| u64::from(request.sectors)).sum::<u64>() as usize
    };
    let journal = share(bytes(&|request| request.lba < JOURNAL_BLOCKS * 8), bytes(&|_| true));
    assert!((0.3..=0.5).contains(&journal), "{journal}");
}

#[test]
fn clips_are_written_in_order_and_their_deletion_is_trimmed() {
    for (discard, trims) in [("online", true), ("daily", true), ("none", false)] {
        let requests = requests_of(&format!(
            r#"{{"kind":"phone_media","requests":100000,"footprint_bytes":"3GiB",
                "phone_media":{{"activities":["video"],"discard":"{discard}","pause_us":"600s"}}}}"#
        ));
        let clips: Vec<&Request> =
            requests.iter().filter(|request| request.op == Op::Write && request.sectors == 1024).collect();
        let follow = clips.windows(2).filter(|pair| pair[1].lba == end(pair[0])).count();
        assert!(follow as f64 > 0.95 * clips.len() as f64, "{follow} of {}", clips.len());
        assert_eq!(requests.iter().any(|request| request.op == Op::Trim), trims, "{discard}");
        // What is trimmed was written before, and is not trimmed again before it is written.
        let units = |request: &Request| request.lba as usize / 8..end(request) as usize / 8;
        let mut live = vec![false; requests.iter().map(|request| units(request).end).max().unwrap()];
        for request in &requests {
            let live = &mut live[units(request)];
            match request.op {
                Op::Write => live.fill(true),
                Op::Trim => {
                    let but_the_last = &live[..live.len().saturating_sub(1)];
                    assert!(!but_the_last.contains(&false), "{request:?}");
                    live.fill(false);
                }
                _ => {}
            }
        }
    }
}

#[test]
fn a_browser_writes_what_it_downloads_and_trims_what_it_drops() {
    let requests = requests_of(
        r#"{"kind":"web_cache","requests":400000,"web_cache":{"cache_bytes":"20MB","transactions":0}}"#,
    );
    let base = SQLITE_SECTORS;
    let headers = requests.iter().filter(|request| request.lba == base && request.op == Op::Write);
    let beats: Vec<u64> = headers.map(|request| request.arrival_ns).collect();
    assert!(beats.windows(2).all(|pair| pair[1] - pair[0] >= 5_000_000_000), "write-backs are 5 s apart");
    let mut written = BTreeSet::new();
    let (mut reads, mut trims) = (0, 0);
    for request in &requests {
        let blocks = request.lba / 8..end(request).div_ceil(8);
        match request.op {
            Op::Write => written.extend(blocks),
            Op::Trim => trims += 1,
            Op::Read => reads += u64::from(blocks.clone().all(|block| written.contains(&block))),
            Op::Flush => {}
        }
    }
    let all = requests.iter().filter(|request| request.op == Op::Read).count() as u64;
    // Some objects are read again before the page cache has written them.
    assert!(reads * 10 > all * 8 && trims > 1000, "{reads} of {all}, {trims}");
}

#[test]
fn a_search_engine_reads_without_favourites() {
    let requests = requests_of(r#"{"kind":"web_search","requests":200000}"#);
    assert!(requests.iter().all(|request| request.op == Op::Read && request.lba % 16 == 0));
    let mut ends = [0; 6];
    let mut follow = 0;
    let mut lists = std::collections::BTreeMap::new();
    for request in &requests {
        let list = lists.entry(request.lba).or_insert(request.sectors);
        assert_eq!(*list, request.sectors, "a list has one size");
        follow += usize::from(ends[usize::from(request.stream)] == request.lba);
        ends[usize::from(request.stream)] = end(request);
    }
    assert!((follow as f64 / 200_000.0 - 0.096).abs() < 0.005, "{follow}");
    let large = requests.iter().filter(|request| request.sectors == 64).count();
    assert!((large as f64 / 200_000.0 - 0.2).abs() < 0.005);
    let mean = requests.iter().map(|request| u64::from(request.sectors) * 512).sum::<u64>() as f64 / 2e5;
    assert!((mean / 15_060.0 - 1.0).abs() < 0.03, "{mean}");
}

#[test]
fn jesd219_has_its_sizes_and_zones() {
    let requests = requests_of(r#"{"kind":"jesd219","requests":400000,"footprint_bytes":"16GiB"}"#);
    let share = |chosen: &dyn Fn(&&Request) -> bool| requests.iter().filter(chosen).count() as f64 / 4e5;
    for (sectors, expected) in
        [(1, 0.04), (7, 0.01), (8, 0.67), (16, 0.10), (32, 0.07), (64, 0.03), (128, 0.03)]
    {
        let found = share(&|request| request.sectors == sectors);
        assert!((found - expected).abs() < 0.003, "{sectors}: {found}");
    }
    let sectors: u64 = (16 << 30) / 512;
    for (end, expected) in [(0.05, 0.5), (0.2, 0.8), (1.0, 1.0)] {
        let found = share(&|request| (request.lba as f64) < sectors as f64 * end);
        assert!((found - expected).abs() < 0.004, "{end}: {found}");
    }
    assert!((share(&|request| request.op == Op::Read) - 0.4).abs() < 0.004);
    assert!(requests.iter().all(|request| request.lba % 8 == 0));
    let shifted = requests_of(
        r#"{"kind":"jesd219","requests":100000,"footprint_bytes":"16GiB","jesd219":{"zone_shift":19,"alignment":"size"}}"#,
    );
    let hot =
        shifted.iter().filter(|request| request.lba as f64 >= sectors as f64 * 0.95).count() as f64 / 1e5;
    assert!((hot - 0.5).abs() < 0.01, "{hot}");
    assert!(shifted.iter().all(|request| request.lba % u64::from(request.sectors.min(8)) == 0));
    assert!(shifted.iter().any(|request| request.lba % 8 != 0));
    let large = requests_of(r#"{"kind":"jesd219","requests":100000,"jesd219":{"large_sectors":true}}"#);
    let small = large.iter().filter(|request| request.sectors == 8).count() as f64 / 1e5;
    assert!((small - 0.77).abs() < 0.005 && large.iter().all(|request| request.sectors >= 8));
}

#[test]
fn the_client_profile_trims_whole_files_that_it_has_written_or_found() {
    let requests = requests_of(
        r#"{"kind":"jesd219","requests":300000,"footprint_bytes":"4GiB","jesd219":{"profile":"client"}}"#,
    );
    let share = |op| requests.iter().filter(|request| request.op == op).count() as f64 / 3e5;
    assert!((share(Op::Trim) - 0.04).abs() < 0.003 && (share(Op::Flush) - 0.08).abs() < 0.003);
    assert_eq!(share(Op::Read), 0.0);
    let hot = (4u64 << 30) / 512 / 10;
    // Not written since they were trimmed: no room is trimmed twice.
    let mut trimmed = BTreeSet::new();
    for request in requests.iter().filter(|request| request.lba >= hot) {
        for block in request.lba / 8..end(request) / 8 {
            match request.op {
                Op::Trim => assert!(trimmed.insert(block), "{request:?}"),
                _ => drop(trimmed.remove(&block)),
            }
        }
    }
}

/// What the specification of the profile says.
#[test]
fn the_client_profile_goes_on_keeps_to_its_hot_part_and_trims_files() {
    for (footprint, seed) in [("8GiB", 1), ("8GiB", 2), ("64GiB", 3)] {
        let requests = requests_of(&format!(
            r#"{{"kind":"jesd219","requests":400000,"footprint_bytes":"{footprint}","seed":{seed},"jesd219":{{"profile":"client"}}}}"#
        ));
        let bytes = quantity::parse_bytes(footprint).unwrap();
        let addressed: Vec<&Request> = requests.iter().filter(|request| request.op != Op::Flush).collect();
        let goes_on = addressed.windows(2).filter(|pair| pair[1].lba == end(pair[0])).count() as f64
            / addressed.len() as f64;
        assert!((goes_on - 0.4).abs() < 0.01, "{footprint}: {goes_on}");
        let writes: Vec<&Request> = requests.iter().filter(|request| request.op == Op::Write).collect();
        let share = |chosen: &dyn Fn(&Request) -> bool| {
            writes.iter().filter(|request| chosen(request)).count() as f64 / writes.len() as f64
        };
        let hot = share(&|request| request.lba * 512 < bytes / 10);
        assert!((hot - 0.7).abs() < 0.02, "{footprint}: {hot}");
        for (kib, expected) in [(4, 0.55), (16, 0.08), (32, 0.06), (64, 0.13), (128, 0.06)] {
            let found = share(&|request| request.sectors == 2 * kib);
            assert!((found - expected).abs() < 0.01, "{kib} KiB: {found}");
        }
        let mut trims: Vec<u32> =
            requests.iter().filter(|request| request.op == Op::Trim).map(|request| request.sectors).collect();
        trims.sort_unstable();
        let median = f64::from(trims[trims.len() / 2]) / 512.0;
        assert!((median - 1.0).abs() < 0.1, "{footprint}: {median}");
        assert!((trims.len() as f64 / 4e5 - 0.04).abs() < 0.002);
    }
}

#[test]
fn a_personal_computer_by_default_is_like_the_desktop_sample() {
    for seed in 1..=3 {
        let requests = requests_of(&format!(r#"{{"kind":"pc_general","requests":32527,"seed":{seed}}}"#));
        let stats = stats(&mut VecSource::new(requests)).unwrap();
        let within = |name: &str, found: Option<f64>, least: f64, most: f64| {
            let found = found.unwrap();
            assert!((least..=most).contains(&found), "seed {seed}: {name} {found}");
        };
        within("reads", stats.read_fraction, 0.36, 0.68);
        within("mean size", stats.mean_request_bytes, 21.0 * 1024.0, 33.3 * 1.05 * 1024.0);
        within("sequential", stats.sequential_fraction, 0.40, 0.45);
        let moved = (stats.reads + stats.writes) as f64;
        for (kib, expected) in [(64, 0.42), (4, 0.33), (16, 0.12)] {
            let row = stats.common_sizes.iter().find(|row| row.min_bytes == kib << 10);
            let share = row.map(|row| (row.reads + row.writes) as f64 / moved);
            within("size", share, expected - 0.02, expected + 0.02);
        }
        within("hottest fifth", stats.hotness.map(|hotness| hotness.top_20_percent), 0.29, 0.35);
        within("footprint", Some(stats.footprint_bytes as f64), 0.7e9, 12e9);
    }
}

#[test]
fn a_personal_computer_cuts_requests_and_copies_to_free_places() {
    let requests = requests_of(
        r#"{"kind":"pc_general","requests":30000,"pc_general":{"transfer_bytes":"32KiB","copy_space_bytes":"700MiB",
            "partition_sector":63,"partition":["documents"]}}"#,
    );
    assert!(requests.iter().all(|request| request.sectors <= 64));
    // What would run over the end of a region is moved back into it.
    let odd = requests.iter().filter(|request| (request.lba % 8 == 7) != (request.stream == 2)).count();
    assert!(odd < 300, "{odd}");
    let copies = || requests.iter().filter(|request| request.stream == 3 && request.op == Op::Write);
    let places: BTreeSet<u64> = copies().map(|request| request.lba).collect();
    assert_eq!(places.len(), copies().count(), "no place is written twice before the area was gone around");
    let more = requests_of(
        r#"{"kind":"pc_general","requests":30000,"pc_general":{"copy_placement":"random","copy_space_bytes":"100MiB"}}"#,
    );
    let copies = || more.iter().filter(|request| request.stream == 3 && request.op == Op::Write);
    let places: BTreeSet<u64> = copies().map(|request| request.lba).collect();
    assert!(places.len() <= 1600 && copies().count() > 5000);
}

#[test]
fn a_partition_that_begins_at_a_multiple_of_64_moves_requests_by_exactly_that() {
    // 1,800 regions: with shares of 56, 14, 10 and 20 percent, copies reach to the last one.
    const ACTIVE: &str =
        r#""active_bytes":"7200MiB","copy_space_bytes":"720MiB","system_bytes":{"4KiB":1,"64KiB":1}"#;
    for footprint in ["7204MiB", "7206MiB", "16GiB", "16386MiB"] {
        let made = |partition: &str| {
            requests_of(&format!(
                r#"{{"kind":"pc_general","requests":40000,"footprint_bytes":"{footprint}","pc_general":{{{ACTIVE}{partition}}}}}"#
            ))
        };
        let end_of_drive = quantity::parse_bytes(footprint).unwrap() / 512;
        let plain = made("");
        for sector in [64, 2048, 4096, 8128] {
            let moved = made(&format!(r#","partition_sector":{sector}"#));
            for (old, new) in plain.iter().zip(&moved) {
                let by = if old.stream == 3 { 0 } else { sector };
                assert_eq!(*new, Request { lba: old.lba + by, ..*old }, "{footprint} {sector}");
            }
            let all = made(&format!(
                r#","partition_sector":{sector},"partition":["system","browser","documents","copies"]"#
            ));
            assert!(all.iter().all(|request| end(request) <= end_of_drive), "{footprint} {sector}");
            let as_asked = |(old, new): &(&Request, &Request)| new.lba == old.lba + sector;
            let count = plain.iter().zip(&all).filter(as_asked).count();
            // Where the last region would leave the drive, it lies further ahead.
            let least = match end_of_drive % 8192 {
                spare if spare >= sector => 40_000,
                _ if footprint == "16GiB" => 39_800,
                _ => 0,
            };
            assert!(count >= least, "{footprint} {sector}: {count}");
        }
        // What is beyond a multiple of 64 is kept inside the regions, as for 63 itself.
        let (odd, far) = (made(r#","partition_sector":63"#), made(r#","partition_sector":2111"#));
        for (old, new) in odd.iter().zip(&far) {
            assert_eq!(new.lba - old.lba, if old.stream == 3 { 0 } else { 2048 });
        }
    }
}

#[test]
fn copies_read_as_often_as_is_asked() {
    for share in [0.0, 0.1, 0.187, 0.4, 0.5, 0.6, 0.9, 1.0] {
        let requests = requests_of(&format!(
            r#"{{"kind":"pc_general","requests":60000,
                "pc_general":{{"system":0,"browser":0,"documents":0,"copies":1,"copy_read_fraction":{share}}}}}"#
        ));
        let reads = requests.iter().filter(|request| request.op == Op::Read).count() as f64 / 6e4;
        assert!((reads - share).abs() < 0.01, "{share}: {reads}");
    }
}

/// Requests to records alone, of popular ones no more than of others.
fn records(keys: &str) -> Vec<Request> {
    requests_of(&format!(
        r#"{{"kind":"oltp_financial","requests":60000,
            "oltp_financial":{{"log_fraction":0,"counter_fraction":0,"theta":0.01,{keys}}}}}"#
    ))
}

#[test]
fn records_of_every_size_go_on_as_often_as_is_asked() {
    for (size, within) in [
        (r#""4KiB""#, 0.03),
        (r#""6KiB""#, 0.04),
        (r#""8KiB""#, 0.02),
        (r#""16KiB""#, 0.02),
        (r#""32KiB""#, 0.02),
        (r#""64KiB""#, 0.02),
        (r#""128KiB""#, 0.02),
        (r#"{"512B":95,"64KiB":5}"#, 0.04),
    ] {
        let mut ends = [None; 24];
        let mut follow = 0;
        for request in records(&format!(r#""record_bytes":{size},"sequential_fraction":0.4"#)) {
            let before = ends[usize::from(request.stream)].replace(end(&request));
            follow += usize::from(before == Some(request.lba));
        }
        let found = follow as f64 / 6e4;
        assert!((found - 0.4).abs() < within, "{size}: {found}");
    }
}

#[test]
fn of_writes_to_records_as_many_write_back_as_is_asked() {
    for (reads, share) in [(0.2, 0.2), (0.7, 0.2), (0.5, 0.6)] {
        let mut last = [None; 24];
        let (mut writes, mut back) = (0, 0);
        for request in records(&format!(r#""read_fraction":{reads},"rewrite_fraction":{share}"#)) {
            let this = (request.lba, request.sectors);
            let before = last[usize::from(request.stream)].replace(this);
            if request.op == Op::Write {
                writes += 1;
                back += usize::from(before == Some(this));
            }
        }
        let found = f64::from(back as u32) / f64::from(writes);
        assert!((found - share).abs() < 0.015, "{reads} {share}: {found}");
    }
}

#[test]
fn logs_counters_and_scans_of_tables_have_their_shares_of_what_a_backup_leaves() {
    // 0.3 and 0.7 times 0.3: 0.51.
    let requests = requests_of(
        r#"{"kind":"oltp_financial","requests":60000,"footprint_bytes":"8GiB","oltp_financial":{"read_fraction":0.515,
            "scan_fraction":0.3,"table_scan_fraction":0.3,"log_fraction":0.1,"counter_fraction":0.05,"record_bytes":512}}"#,
    );
    for (op, sectors, expected) in
        [(Op::Read, 128, 0.3), (Op::Read, 16, 0.21), (Op::Write, 7, 0.07), (Op::Write, 6, 0.035)]
    {
        let chosen = |request: &&Request| (request.op, request.sectors) == (op, sectors);
        let found = requests.iter().filter(chosen).count() as f64 / 6e4;
        assert!((found - expected).abs() < 0.007, "{sectors}: {found}");
    }
    let reads = requests.iter().filter(|request| request.op == Op::Read).count() as f64 / 6e4;
    assert!((reads - 0.515).abs() < 0.007, "{reads}");
}

fn page_accesses(requests: &[Request]) -> u64 {
    let touched = requests.iter().filter(|request| matches!(request.op, Op::Read | Op::Write));
    touched.map(|request| end(request).div_ceil(8) - request.lba / 8).sum()
}

#[test]
#[ignore = "a long test: make test-long"]
fn a_quota_of_pages_is_met_by_few_changes_everywhere() {
    const COUNT: usize = 200_000;
    for (kind, keys) in [
        ("pc_general", r#""footprint_bytes":"32GiB","#),
        ("oltp_financial", ""),
        ("db", r#""db":{"warehouses":4,"warehouse_bytes":"20MiB","log_block_bytes":"4KiB"},"#),
    ] {
        let begin = format!(r#"{{"kind":"{kind}",{keys}"requests":"#);
        let plain = requests_of(&format!("{begin}{}}}", 2 * COUNT));
        let made = page_accesses(&plain[..COUNT]);
        for pages in [made - made / 200, made, made + made / 100] {
            let quota = format!(r#""page_quota":{{"requests":{COUNT},"pages":{pages}}}"#);
            let all = requests_of(&format!("{begin}{},{quota}}}", 2 * COUNT));
            for (round, requests) in all.chunks(COUNT).enumerate() {
                assert_eq!(page_accesses(requests), pages, "{kind}, round {round}");
            }
            assert_eq!(
                all[..1000],
                requests_of(&format!("{begin}1000,{quota}}}")),
                "{kind}: the first ones do not depend on how many follow"
            );
            let mut changed = [0; 4];
            for (place, (old, new)) in plain.iter().zip(&all).take(COUNT).enumerate() {
                assert_eq!(
                    (old.arrival_ns, old.op, old.lba, old.stream),
                    (new.arrival_ns, new.op, new.lba, new.stream)
                );
                let pages = old.sectors.abs_diff(new.sectors);
                assert!(pages % 8 == 0 && new.sectors >= old.sectors.min(1), "{kind}: {old:?} {new:?}");
                changed[place * 4 / COUNT] += pages / 8;
            }
            let sum: u32 = changed.iter().sum();
            assert!(u64::from(sum) <= pages.abs_diff(made) + made / 50, "{kind}: {changed:?}");
            if pages.abs_diff(made) > 0 {
                assert!(changed.iter().all(|quarter| *quarter > 0), "{kind}: {changed:?}");
            }
        }
    }
}

#[test]
fn a_quota_that_cannot_be_met_names_the_nearest_one() {
    let json = r#"{"kind":"oltp_financial","requests":5000,"page_quota":{"requests":1000,"pages":1000}}"#;
    let config: WorkloadConfig = serde_json::from_str(json).unwrap();
    let mut source = config.factory(SPACE, None, None).unwrap().open(0).unwrap();
    let error = source.fill(&mut Vec::new(), 4096).unwrap_err().to_string();
    assert!(
        error.starts_with("workload.page_quota.pages: found \"1000\", expected a number that each 1000 requests in a row can have: those from"),
        "{error}"
    );
    for (quota, key) in
        [(r#"{"requests":0,"pages":1}"#, "requests"), (r#"{"requests":2,"pages":0}"#, "pages")]
    {
        let json = format!(r#"{{"kind":"db","page_quota":{quota}}}"#);
        let config: WorkloadConfig = serde_json::from_str(&json).unwrap();
        assert_eq!(config.validate().unwrap_err().key, format!("workload.page_quota.{key}"));
    }
}
