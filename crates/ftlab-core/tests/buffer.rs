//! Write buffers: every order, rate and shape of drive against a naive model, and what must be equal.

use crate::common::drives::{cases, drives, requests, requests_of};
use crate::common::{device, ftl_kinds, latencies, merged, request, run, run_with, small};
use ftlab_core::buffer::BufferKind;
use ftlab_core::buffer::front::BufferCounts;
use ftlab_core::cause::Memory;
use ftlab_core::config::DeviceConfig;
use ftlab_core::crash::{CrashOptions, Cut, CutAt, record};
use ftlab_core::device::{RunControl, RunError, RunOptions, RunOutcome};
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::metrics::{MemoryEvent, MemoryRecord};
use ftlab_core::rng::Rng;
use ftlab_core::time::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

/// Every order of the list.
fn orders() -> Vec<&'static str> {
    BufferKind::ALL.iter().map(|kind| kind.name()).filter(|name| *name != "none").collect()
}

/// Keys of a buffer that fills no blocks up.
fn plain(kind: &str, keys: Value) -> Value {
    let keys = merged(json!({ "kind": kind }), keys);
    if kind == "bplru" { merged(keys, json!({ "padding": "never" })) } else { keys }
}

fn counts(outcome: &RunOutcome) -> BufferCounts {
    outcome.summary.parts.get().expect("the drive has a buffer")
}

/// `drive` with a buffer of `keys`, as large as its order needs at least; `None` when the drive cannot have it.
fn buffered(mut drive: Value, keys: Value) -> Option<DeviceConfig> {
    drive["buffer"] = keys;
    let config: DeviceConfig = serde_json::from_value(drive).unwrap();
    config.validate().is_ok().then_some(config)
}

/// The keys of a buffer of any kind, small against the drives of these tests.
fn buffers() -> impl Strategy<Value = Value> {
    let rate = prop_oneof![Just(json!("one")), Just(json!("cave")), (1..6_u32).prop_map(|rate| json!(rate))];
    let kind = proptest::sample::select(orders());
    let write = prop_oneof![6 => Just("back"), 1 => Just("through")];
    let select = prop_oneof![3 => Just("order"), 1 => Just("distinct")];
    let names = (kind, write, select, proptest::sample::select(vec!["victims", "pages"]), any::<bool>());
    let sizes = (1..40_u64, prop_oneof![3 => Just(0_u64), 1 => 1..64_u64], 0..3_u32, 0..3_u32, any::<bool>());
    (rate, names, sizes).prop_map(|(rate, names, sizes)| {
        let (kind, write, select, unit, by_event) = names;
        let (frames, bypass, access, prefetch, drains) = sizes;
        json!({ "kind": kind, "bytes": frames * 4096, "write": write, "rate": rate, "rate_unit": unit,
            "select": select, "wait": if by_event { "event" } else { "frame" }, "access_us": f64::from(access) * 0.7,
            "mb_per_s": if access > 1 { 800 } else { 0 },
            "hiding": (access > 0 && prefetch > 0).then_some(f64::from(prefetch) * 0.5), "drain_at_end": drains, "bypass_bytes": bypass * 1024,
            "prefetch_pages": prefetch })
    })
}

/// `requests` that fit the drive, some of them FUA.
fn fitting(config: &DeviceConfig, requests: Vec<Request>) -> Vec<Request> {
    let sectors = config.logical_pages() * config.unit_bytes() / 512;
    let fit = |(at, request): (usize, Request)| Request {
        sectors: request.sectors.min(sectors as u32),
        fua: request.op == Op::Write && at % 7 == 0,
        ..request
    };
    requests.into_iter().enumerate().map(fit).collect()
}

/// What a run has counted, without the times that only a clock knows.
fn without_times(outcome: &RunOutcome) -> String {
    let mut parts = serde_json::to_value(&outcome.summary.parts).unwrap();
    for key in ["drain_ns", "mean_wait_ns"] {
        if let Some(buffer) = parts["buffer"].as_object_mut() {
            buffer.remove(key);
            buffer.remove("table_bytes");
        }
    }
    parts.to_string()
}

/// The first number in which two documents differ.
fn difference(one: &Value, other: &Value) -> Option<String> {
    if let (Value::Object(one), Value::Object(other)) = (one, other) {
        let mut keys = one.keys().chain(other.keys());
        let inside = |key: &String| {
            let (one, other) = (one.get(key).unwrap_or(&Value::Null), other.get(key).unwrap_or(&Value::Null));
            difference(one, other).map(|text| format!("{key}.{text}"))
        };
        return keys.find_map(inside);
    }
    (one != other).then(|| format!(": {one} and {other}"))
}

/// A run with verification, after which everything holds together.
fn checked(
    config: &DeviceConfig,
    requests: &[Request],
    options: &RunOptions,
) -> Result<RunOutcome, TestCaseError> {
    let (outcome, _) = run_with(config, requests, options);
    prop_assert_eq!(&outcome.error, &None::<RunError>);
    let verify = outcome.summary.verify.as_ref().unwrap();
    prop_assert!(verify.tables_agree && verify.mismatches == 0);
    Ok(outcome)
}

proptest! {
    #![proptest_config(cases(70))]

    #[test]
    fn reads_return_the_last_write_through_every_buffer(drive in drives(), keys in buffers(), asked in requests()) {
        let Some(config) = buffered(drive, keys) else { return Ok(()) };
        let requests = fitting(&config, asked);
        let timed = RunOptions { verify: true, ..RunOptions::default() };
        let outcome = checked(&config, &requests, &timed)?;
        let counts = counts(&outcome);
        let host = &outcome.summary.host;
        prop_assert_eq!(counts.read_hits + counts.read_misses, host.read_pages);
        prop_assert_eq!(counts.write_hits + counts.write_misses, host.write_pages);

        // Order and time are two things: the same commands without a clock, and whatever a write waits for.
        let untimed = checked(&config, &requests, &RunOptions { timing: false, ..timed.clone() })?;
        prop_assert_eq!(&untimed.summary.flash, &outcome.summary.flash);
        prop_assert_eq!(without_times(&untimed), without_times(&outcome));

        let mut other = serde_json::to_value(&config).unwrap();
        other["buffer"]["wait"] = json!(if other["buffer"]["wait"] == "event" { "frame" } else { "event" });
        let other = checked(&serde_json::from_value(other).unwrap(), &requests, &timed)?;
        prop_assert_eq!(&other.summary.flash, &outcome.summary.flash);

        // Both ports that keep time tell the same.
        let events = checked(&config, &requests, &RunOptions { event_by_event: true, ..timed })?;
        let text = |outcome: &RunOutcome| {
            let mut summary = serde_json::to_value(&outcome.summary).unwrap();
            summary["memory"] = Value::Null;
            summary["buffer"]["table_bytes"] = Value::Null;
            summary
        };
        prop_assert_eq!(difference(&text(&events), &text(&outcome)), None);
    }
}

/// Channels and ways of one die and one plane; pages of 2 KiB: 51.2 us on the bus, 200 us in the array.
fn chips(channels: u32, ways: u32, buffer: &Value) -> DeviceConfig {
    device(json!({
        "geometry": { "channels": channels, "ways": ways, "dies": 1, "planes": 1, "blocks_per_plane": 16,
            "pages_per_block": 64, "page_bytes": 2048 },
        "timing": { "read_us": { "lsb": 25 }, "program_us": { "lsb": 200 }, "erase_us": 1500, "bus_mb_per_s": 40 },
        "cell": { "kind": "slc" },
        "ftl": { "over_provisioning": 0.5, "striping": "static" },
        "buffer": buffer,
    }))
}

/// Fill the buffer with `pages`, and write another page: how long that waits, and the whole run.
fn event_of(config: &DeviceConfig, pages: &[u64]) -> (f64, RunOutcome) {
    let write = |(at, page): (usize, &u64)| request(at as f64, Op::Write, 4 * page, 4);
    let mut requests: Vec<Request> = pages.iter().enumerate().map(write).collect();
    requests.push(request(1000.0, Op::Write, 4 * 1000, 4));
    let (outcome, log) = run(config, &requests);
    let times = latencies(&log);
    assert!(
        times[1..pages.len()].iter().all(|us| *us == times[0]),
        "what finds a free frame waits for nothing"
    );
    (times[pages.len()], outcome)
}

/// `channel-aware-buffer`, section 10.
#[test]
fn events_by_hand() {
    let buffer =
        |frames: u32| json!({ "kind": "lru", "bytes": frames * 2048, "rate": "cave", "drain_at_end": false });
    let eight = chips(4, 2, &buffer(8));
    let (spread, outcome) = event_of(&eight, &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert!((spread - 302.4).abs() < 1e-6, "{spread}");
    let told = outcome.summary.parallelism.unwrap().evictions.unwrap();
    assert_eq!((told.events_timed, told.event_dies_mean, told.event_channels_mean), (1, 8.0, 4.0));
    assert_eq!((told.execution_ns, told.write_ns, told.gc_ns), (302_400, 302_400, 0));
    let (one_chip, _) = event_of(&eight, &[0, 8, 16, 24, 32, 40, 48, 56]);
    assert!((one_chip - 2009.6).abs() < 1e-6, "{one_chip}");
    let (one_channel, _) = event_of(&eight, &[0, 8, 16, 24, 4, 12, 20, 28]);
    assert!((one_channel - 1056.0).abs() < 1e-6, "{one_channel}");
    let (all, _) = event_of(&chips(8, 4, &buffer(32)), &(0..32).collect::<Vec<_>>());
    assert!((all - 404.8).abs() < 1e-6, "{all}");
}

/// The time of each eviction is divided as the work of its own slowest die, and not as that of all together.
#[test]
fn the_time_of_each_eviction_is_divided_for_itself() {
    let config = device(json!({
        "geometry": { "channels": 2, "ways": 1, "page_bytes": 2048, "pages_per_block": 4, "blocks_per_plane": 8 },
        "timing": { "read_us": { "lsb": 25 }, "program_us": { "lsb": 200 }, "erase_us": 1500, "bus_mb_per_s": 0 },
        "ftl": { "kind": "bast", "logical_pages": 32, "log_blocks": 1 },
        "buffer": { "kind": "lru", "bytes": 4 * 2048, "drain_at_end": false },
    }));
    let pages = [0, 1, 2, 3, 4, 5, 6, 7, 1, 12, 13, 14, 15, 5, 20, 21, 22, 23];
    let of = |count: usize, event_by_event: bool| {
        let write = |(at, page): (usize, &u64)| request(at as f64 * 1e5, Op::Write, 4 * page, 4);
        let requests: Vec<Request> = pages[..count].iter().enumerate().map(write).collect();
        let options = RunOptions { event_by_event, ..RunOptions::default() };
        let told = run_with(&config, &requests, &options).0.summary.parallelism.unwrap().evictions.unwrap();
        (told.execution_ns, told.write_ns, told.gc_ns)
    };
    for event_by_event in [false, true] {
        // Thirteen pages are programmed. Page 5 then needs the log block: it is programmed on one die when the other has merged.
        assert_eq!(of(17, event_by_event), (2_600_000, 2_600_000, 0));
        assert_eq!(of(18, event_by_event), (6_700_000, 2_600_000, 4_100_000));
    }
}

/// What an event log is told of memory: each eviction with the dies that work for it, and what moves through the buffer.
#[test]
fn evictions_and_moves_are_told() {
    let buffer =
        json!({ "kind": "lru", "bytes": 8 * 2048, "rate": "cave", "drain_at_end": false, "mb_per_s": 2048 });
    let config = chips(4, 2, &buffer);
    let write = |at: u64| request(at as f64 * 10.0, Op::Write, 4 * at, 4);
    let requests: Vec<Request> = (0..9).map(write).collect();
    for event_by_event in [false, true] {
        let options = RunOptions { event_by_event, ..RunOptions::default() };
        let (_, log) = run_with(&config, &requests, &options);
        let us = |time: Time| time.as_ns_f64() / 1000.0;
        let (evictions, moves): (Vec<MemoryRecord>, Vec<MemoryRecord>) =
            log.memory.iter().partition(|record| matches!(record.what, MemoryEvent::Eviction { .. }));
        let [eviction] = evictions[..] else { panic!("{evictions:?}") };
        assert_eq!(eviction.what, MemoryEvent::Eviction { dies: 8, channels: 4 });
        assert_eq!(us(eviction.start), 80.0);
        assert!((us(eviction.end) - 382.4).abs() < 1e-6, "{eviction:?}");
        // Two KiB at two KiB a microsecond, whatever flash does.
        let spans: Vec<(f64, f64)> = moves.iter().map(|one| (us(one.start), us(one.end))).collect();
        let expected: Vec<(f64, f64)> =
            (0..9).map(|at| (f64::from(at) * 10.0, f64::from(at) * 10.0 + 1.0)).collect();
        assert_eq!(spans, expected);
        assert!(moves.iter().all(|one| one.what == MemoryEvent::Move(Memory::Buffer)));
    }
}

/// A write waits for all that leaves, or for what was in its frame; the paper's rate is one victim for each chip.
#[test]
fn rates_and_waits_by_hand() {
    let with = |keys: Value| {
        let keys = merged(json!({ "kind": "lru", "bytes": 8 * 2048, "drain_at_end": false }), keys);
        let (us, outcome) = event_of(&chips(4, 2, &keys), &[0, 8, 16, 24, 32, 40, 48, 56]);
        ((us * 10.0).round() / 10.0, counts(&outcome))
    };
    let (us, one) = with(json!({}));
    assert_eq!((us, one.events, one.victims, one.pages_evicted), (251.2, 1, 1, 1));
    let (us, frame) = with(json!({ "rate": "cave", "wait": "frame" }));
    assert_eq!((us, frame.victims, frame.victims_per_event), (251.2, 8, 8.0));
    let (us, distinct) = with(json!({ "rate": "cave", "select": "distinct" }));
    assert_eq!((us, distinct.victims), (251.2, 1), "all are on one chip");
    let (us, memory) = with(json!({ "rate": "cave", "access_us": 3 }));
    assert_eq!((us, memory.write_misses), (2012.6, 9));
    // Nine misses, of which the last one waited.
    assert!((memory.mean_wait_ns.unwrap() - 2_009_600.0 / 9.0).abs() < 1e-6);
}

/// What a flush has cleaned stays in its frame, and is read there at once. Another page enters the frame when all of the flush is in
/// flash: four programs of 200 us.
#[test]
fn frames_are_taken_when_what_a_flush_has_cleaned_is_in_flash() {
    for (wait, kind) in [("frame", "lru"), ("event", "lru"), ("frame", "cflru"), ("event", "lru_wsr")] {
        let mut keys = json!({ "kind": kind, "bytes": 4 * 2048, "wait": wait, "drain_at_end": false });
        if kind == "lru" {
            keys["keep_reads"] = json!(true);
        }
        let mut config = chips(1, 1, &keys);
        config.timing.bus_mb_per_s = 0.0;
        let access = |(at, op, page): (u32, Op, u64)| request(f64::from(at) * 10.0, op, 4 * page, 4);
        let mut requests: Vec<Request> = (0..4).map(|at| access((at, Op::Write, at.into()))).collect();
        requests.push(request(40.0, Op::Flush, 0, 0));
        requests.push(access((5, Op::Read, 1)));
        requests.extend((6..9).map(|at| access((at, Op::Write, at.into()))));
        let us = latencies(&run(&config, &requests).1);
        assert_eq!(us[..6], [0.0, 0.0, 0.0, 0.0, 800.0, 0.0], "{kind}, {wait}");
        assert_eq!(us[6..], [780.0, 770.0, 760.0], "{kind}, {wait}");
    }
}

/// When the last of some requests ends, with two frames and two dies that program for 200 us.
#[test]
fn only_frames_that_go_to_flash_are_waited_for() {
    let (write, read) = (
        |us, page: u64| request(us, Op::Write, 4 * page, 4),
        |us, page: u64| request(us, Op::Read, 4 * page, 4),
    );
    let (half, flush) = (|us, page: u64| request(us, Op::Write, 4 * page, 2), request(50.0, Op::Flush, 0, 0));
    let durable = |us, page: u64| Request { fua: true, ..request(us, Op::Write, 4 * page + 2, 2) };
    let trim = request(60.0, Op::Trim, 4, 4);
    let cases = [
        (
            "what was only read leaves at once",
            vec![read(0.0, 2), write(20.0, 1), flush, write(60.0, 4)],
            60.0,
        ),
        ("what the flush writes does not", vec![write(0.0, 1), read(20.0, 2), flush, write(60.0, 4)], 250.0),
        (
            "nor what goes along with FUA",
            vec![half(0.0, 1), read(20.0, 2), durable(50.0, 1), read(55.0, 2), write(60.0, 4)],
            250.0,
        ),
        ("nor before a trim", vec![write(0.0, 1), write(20.0, 2), flush, trim, write(70.0, 4)], 250.0),
        (
            "newer data are not in flight",
            vec![write(0.0, 1), read(20.0, 2), flush, half(55.0, 1), trim, write(70.0, 4)],
            70.0,
        ),
    ];
    for (what, requests, end) in cases {
        for wait in ["frame", "event"] {
            let keys = json!({ "kind": "lru", "bytes": 2 * 2048, "keep_reads": true, "wait": wait, "drain_at_end": false });
            let mut config = chips(1, 2, &keys);
            config.timing.bus_mb_per_s = 0.0;
            let (_, log) = run(&config, &requests);
            let last = log.requests.iter().find(|record| record.request.lba == 16);
            assert_eq!(last.map(|record| record.end.0 as f64 / 1e6), Some(end), "{what}, {wait}");
        }
    }
}

/// Frames are taken in the order in which victims left, those of one victim by page: of clean ones as well. Of two units to a
/// page, 1 was asked for first and is still being read, and 0 was never written.
#[test]
fn frames_of_a_clean_victim_are_taken_by_page() {
    let mut config =
        chips(1, 1, &json!({ "kind": "lru", "bytes": 4096, "keep_reads": true, "wait": "frame" }));
    config.geometry.page_bytes = 4096;
    config.geometry.mapping_unit_bytes = 2048;
    config.timing.bus_mb_per_s = 0.0;
    let access = |us, op, unit: u64| request(us, op, 4 * unit, 4);
    let durable = Request { fua: true, ..access(0.0, Op::Write, 1) };
    let reads =
        [(300.0, 30), (301.0, 31), (302.0, 1), (303.0, 0)].map(|(us, unit)| access(us, Op::Read, unit));
    let mut requests = vec![durable];
    requests.extend(reads);
    requests.extend([304.0, 305.0].map(|us| access(us, Op::Write, 40 + us as u64)));
    let us = latencies(&run(&config, &requests).1);
    let read = us[3];
    assert_eq!(us, [us[0], 0.0, 0.0, read, 0.0, 0.0, read - 3.0]);
}

/// All padding of a block is read before the first of its pages is programmed. Two dies on a bus: 0 and 2 are read on the first,
/// and 3 on the second, where page 1 has been written. Their data cross the bus until 178.6 us.
#[test]
fn padding_is_read_first() {
    let mut config =
        chips(1, 2, &json!({ "kind": "bplru", "bytes": 4 * 2048, "block_pages": 4, "drain_at_end": false }));
    config.precondition = serde_json::from_value(json!({ "kind": "fill" })).unwrap();
    let (us, outcome) = event_of(&config, &[1, 100, 200, 300]);
    assert!((us - 732.2).abs() < 1e-6, "{us}");
    let counts = counts(&outcome);
    assert_eq!((counts.padding_reads, counts.padding_writes, counts.pages_evicted), (3, 3, 1));
}

/// Clean victims cost no flash time; what was read is found again.
#[test]
fn clean_pages_leave_for_nothing() {
    let config = chips(1, 1, &json!({ "kind": "lru", "bytes": 4 * 2048 }));
    let read = |at: u64, page: u64| request(at as f64 * 1000.0, Op::Read, 4 * page, 4);
    let pages = [0, 1, 2, 3, 0, 4, 1, 0];
    let requests: Vec<Request> = (0..).zip(pages).map(|(at, page)| read(at, page)).collect();
    let (outcome, _) = run(&config, &requests);
    let counts = counts(&outcome);
    assert_eq!((counts.read_hits, counts.read_misses), (2, 6));
    assert_eq!((counts.clean_evicted, counts.pages_evicted), (2, 0));
    assert_eq!(outcome.summary.flash.programs.total, 0);
    assert_eq!(outcome.summary.parallelism.unwrap().evictions.unwrap().execution_ns, 0);
}

/// The closed form of section 10: 1 - R / sum over n of 1 / (1 - n / U).
#[test]
#[ignore = "a long test: make test-long"]
fn hit_ratio_under_a_rate() {
    let (frames, pages) = (512_u32, 4096_u32);
    let mut config = json!({
        "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 80, "pages_per_block": 64, "page_bytes": 2048 },
        "ftl": { "over_provisioning": 0.2 },
    });
    let mut rng = Rng::new(5, "uniform");
    let mut access = || request(0.0, Op::Read, 4 * rng.below(pages.into()), 4);
    let requests: Vec<Request> = (0..4_000_000).map(|_| access()).collect();
    for rate in [1, 32] {
        config["buffer"] = json!({ "kind": "lru", "bytes": frames * 2048, "rate": rate });
        let options = RunOptions { timing: false, ..RunOptions::default() };
        let (outcome, _) = run_with(&device(config.clone()), &requests, &options);
        let sum: f64 =
            (frames - rate + 1..=frames).map(|n| 1.0 / (1.0 - f64::from(n) / f64::from(pages))).sum();
        let (due, ratio) = (1.0 - f64::from(rate) / sum, counts(&outcome).hit_ratio);
        assert!((due - if rate == 1 { 0.125 } else { 0.12122 }).abs() < 5e-6);
        assert!((ratio - due).abs() < 0.0005, "{ratio} instead of {due} at rate {rate}");
    }
}

/// Random writes of single pages: the drive, and what was asked.
fn writes_of(count: u64, pages: u64) -> Vec<Request> {
    let mut rng = Rng::new(9, "writes");
    (0..count).map(|at| request(at as f64 * 10.0, Op::Write, 8 * rng.below(pages), 8)).collect()
}

#[test]
fn what_must_be_equal() {
    let of = |keys: Value| run(&device(merged(small(), json!({ "buffer": keys }))), &writes_of(3000, 100)).0;
    let bare = of(json!({ "kind": "none" }));
    for kind in orders() {
        let text = |outcome: &RunOutcome| serde_json::to_string(&outcome.summary).unwrap();
        assert_eq!(text(&of(json!({ "kind": kind, "bytes": 0 }))), text(&bare), "no memory, no buffer");
        let (one, also) =
            (json!({ "kind": kind, "bytes": 131_072 }), json!({ "kind": kind, "bytes": 131_072, "rate": 1 }));
        assert_eq!(text(&of(one)), text(&of(also)), "a rate of 1 is the conventional one");
        let whole = of(plain(kind, json!({ "bytes": 1 << 20 })));
        assert_eq!(whole.summary.flash.programs.total, 100, "each page once");
        assert_eq!(counts(&whole).drained_pages, 100);
        assert!(counts(&whole).drain_ns.unwrap() > 0 && counts(&whole).events > 0);
        let left = of(json!({ "kind": kind, "bytes": 1 << 20, "drain_at_end": false }));
        assert_eq!(left.summary.flash.programs.total, 0);
    }
    let through = of(json!({ "kind": "lru", "bytes": 131_072, "write": "through" }));
    assert_eq!(
        through.summary.flash, bare.summary.flash,
        "what is written through is written as without a buffer"
    );
    assert!(counts(&through).write_hits > 0);
}

/// Single units from anywhere share a page of four: the host's share of write amplification falls from 4 to 1.
#[test]
fn single_units_are_gathered() {
    let config = |buffer: Value| {
        device(json!({
            "geometry": { "channels": 2, "ways": 1, "planes": 2, "blocks_per_plane": 64, "pages_per_block": 16,
                "page_bytes": 16384, "mapping_unit_bytes": 4096 },
            "ftl": { "over_provisioning": 0.5 },
            "buffer": buffer,
        }))
    };
    let requests = writes_of(8000, 4000);
    let (bare, _) = run(&config(json!({})), &requests);
    let (gathered, _) = run(&config(json!({ "kind": "lru", "bytes": "64KiB" })), &requests);
    assert!((bare.summary.write_amplification.unwrap().host - 4.0).abs() < 1e-9);
    let share = gathered.summary.write_amplification.unwrap().cache_flush;
    assert!((0.95..=1.0).contains(&share), "{share}");
}

/// Long sequential writes go past the buffer, and reads that follow each other are read ahead.
#[test]
fn sequences_go_past_and_are_read_ahead() {
    let config = device(merged(
        small(),
        json!({ "buffer": { "kind": "lru", "bytes": 65536, "bypass_bytes": "16KiB", "prefetch_pages": 2 } }),
    ));
    let write = |at: f64, lba, sectors| request(at, Op::Write, lba, sectors);
    let read = |at: f64, page: u64| request(at, Op::Read, 8 * page, 8);
    let requests = [
        write(0.0, 800, 8),
        write(1.0, 0, 64),
        read(50_000.0, 0),
        read(60_000.0, 1),
        read(70_000.0, 2),
        read(80_000.0, 3),
    ];
    let (outcome, _) = run(&config, &requests);
    let counts = counts(&outcome);
    assert_eq!((counts.bypassed_pages, outcome.summary.flash.programs.host), (8, 8));
    assert_eq!((counts.read_misses, counts.read_hits), (2, 2));
    assert_eq!(counts.prefetched_pages, 4);
}

/// Units ahead that one page of flash holds are read with one command.
#[test]
fn pages_are_read_ahead_as_a_whole() {
    let reads = |prefetch_pages: u32| {
        let config = device(json!({
            "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 32, "pages_per_block": 8, "page_bytes": 16384,
                "mapping_unit_bytes": 4096 },
            "ftl": { "over_provisioning": 0.33 }, "precondition": { "kind": "fill" },
            "buffer": { "kind": "lru", "bytes": 1 << 20, "prefetch_pages": prefetch_pages },
        }));
        let requests: Vec<_> = (0..4).map(|page| request(0.0, Op::Read, 32 * page, 32)).collect();
        let (outcome, _) = run(&config, &requests);
        (outcome.summary.flash.reads.host, counts(&outcome).prefetched_pages)
    };
    assert_eq!(reads(0), (4, 0));
    // The second request follows the first. From then on a page is read ahead, or half of one; the request reads the other half.
    assert_eq!(reads(4), (2 + 3, 3 * 4));
    assert_eq!(reads(2), (2 + 3 + 2, 3 * 2));
}

/// A write that goes past the buffer is no eviction, though it overwrites what was dirty: none waits for it.
#[test]
fn evictions_do_not_wait_for_what_goes_past() {
    let config = device(json!({
        "geometry": { "channels": 1, "ways": 2, "blocks_per_plane": 20, "pages_per_block": 16, "page_bytes": 4096 },
        "ftl": { "logical_pages": 64, "striping": "static" },
        "timing": { "program_us": 200, "bus_mb_per_s": 40 },
        "buffer": { "kind": "lru", "bytes": 8192, "keep_reads": false, "bypass_bytes": 32768 },
        "host": { "arrival": "open" },
    }));
    let write = |us, page: u64, pages: u32| request(us, Op::Write, 8 * page, 8 * pages);
    let requests =
        [write(0.0, 16, 1), write(10.0, 16, 8), write(20.0, 40, 1), write(30.0, 41, 1), write(40.0, 43, 1)];
    let (_, log) = run(&config, &requests);
    // The two dies take four pages each, one after the other. The first is free when its last one is programmed, and the bus too:
    // the page that is evicted goes there at once.
    let [past, .., last] = &latencies(&log)[1..] else { panic!() };
    let (transfer, program) = (4096.0 / 40.0, 200.0);
    let page = transfer + program;
    assert!((past - (transfer + 4.0 * page)).abs() < 0.1, "{past}");
    assert!((last - (5.0 * page + 10.0 - 40.0)).abs() < 0.1, "{last}");
}

/// Cuts at every command of `requests`, and what came of each.
fn cuts(config: &DeviceConfig, requests: &[Request], options: CrashOptions) -> Vec<Cut> {
    let control = RunControl::default();
    let recording = record(config, &VecSource::new(requests.to_vec()), &options, &control).unwrap();
    let mut all = Vec::new();
    let points = recording.points();
    let chosen = if points > 200 { recording.spread(200).collect() } else { (0..points).collect::<Vec<_>>() };
    recording.examine(chosen.into_iter(), &control, &mut |one| all.push(one.cut)).unwrap();
    all
}

/// Writes that a flush has promised, or that were to be durable, survive; a capacitor saves the others as well.
#[test]
fn flushed_data_survive_and_a_capacitor_saves_the_rest() {
    let write = |page: u64, fua| Request { fua, ..request(0.0, Op::Write, 8 * page, 8) };
    let flush = request(0.0, Op::Flush, 0, 0);
    let requests = [write(0, false), write(1, false), flush, write(0, false), write(2, true), write(0, true)];
    for (kind, capacitor) in orders().into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let buffer = plain(kind, json!({ "bytes": 65536, "drain_at_end": false }));
        let keys = json!({ "buffer": buffer, "power": { "capacitor": capacitor } });
        let config = device(merged(small(), keys));
        let all = cuts(&config, &requests, CrashOptions::default());
        // Two programs of the flush and two that were to be durable; a capacitor needs none of them.
        assert_eq!(all.len(), if capacitor { 1 } else { 5 }, "{kind}");
        assert!(all.iter().all(Cut::is_survived), "{kind}: {all:?}");
    }
}

proptest! {
    #![proptest_config(cases(25))]

    #[test]
    fn what_was_promised_survives_a_cut(
        drive in drives(),
        keys in buffers(),
        asked in requests_of(1..60),
        (capacitor, trim, at) in (any::<bool>(), proptest::sample::select(vec!["volatile", "flush"]),
            proptest::sample::select(vec![CutAt::Command, CutAt::Time])),
    ) {
        let mut drive = drive;
        drive["cell"] = json!({ "kind": "slc" });
        drive["timing"]["read_us"] = json!({ "lsb": 20 });
        drive["timing"]["program_us"] = json!({ "lsb": 100 });
        drive["geometry"]["blocks_per_plane"] = json!(drive["geometry"]["blocks_per_plane"].as_u64().unwrap() + 4);
        drive["power"] = json!({ "capacitor": capacitor, "trim": trim });
        let Some(config) = buffered(drive, keys) else { return Ok(()) };
        let requests = fitting(&config, asked);
        let options = CrashOptions { at, nested: 1, ..CrashOptions::default() };
        for cut in cuts(&config, &requests, options) {
            prop_assert!(cut.is_survived() && cut.foreign_sectors == 0, "{cut:?}");
        }
    }
}

/// Writes of single pages anywhere. A buffer of pages costs a merge for nearly each page that leaves. One of blocks (Kim
/// and Ahn, FAST 2008) costs one for all pages of a block, which it fills up. The paper saves more than half of the time.
#[test]
fn blocks_leave_cheaper_than_pages_over_block_mapped_flash() {
    let config = |order: &str| {
        device(json!({
            "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 96, "pages_per_block": 32, "page_bytes": 2048 },
            "cell": { "kind": "slc" },
            "ftl": { "kind": "bast", "log_blocks": 8, "logical_pages": 64 * 32 },
            "precondition": { "kind": "fill" },
            "buffer": { "kind": order, "bytes": 512 * 2048 },
        }))
    };
    let mut rng = Rng::new(9, "anywhere");
    let requests: Vec<Request> =
        (0..30_000).map(|at| request(f64::from(at), Op::Write, 4 * rng.below(64 * 32), 4)).collect();
    let [pages, blocks] = ["lru", "bplru"].map(|order| {
        let (outcome, _) = run(&config(order), &requests);
        let flash = outcome.summary.flash;
        (flash.erases.total as f64, outcome.summary.latency_ns.unwrap().all.mean)
    });
    assert!(blocks.0 < 0.5 * pages.0, "erases: {blocks:?} against {pages:?}");
    assert!(blocks.1 < 0.5 * pages.1, "mean latency: {blocks:?} against {pages:?}");
}

/// Reads and writes that come back, of pages of their own: clean pages first (Park and others, CASES 2006) spares
/// programs, and loses hits of reads.
#[test]
fn clean_first_programs_less_and_hits_less() {
    let mut rng = Rng::new(4, "skew");
    // Each of the two is skewed in a half of the drive of its own.
    let mut page = |first: u64| first + if rng.below(10) < 8 { rng.below(400) } else { rng.below(2000) };
    let requests: Vec<Request> = (0..200_000)
        .map(|at| match at % 3 {
            0 => request(f64::from(at), Op::Write, 4 * page(2000), 4),
            _ => request(f64::from(at), Op::Read, 4 * page(0), 4),
        })
        .collect();
    let run = |order: &str| {
        let config = device(json!({
            "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 80, "pages_per_block": 64, "page_bytes": 2048 },
            "cell": { "kind": "slc" },
            "ftl": { "over_provisioning": 0.2 },
            "precondition": { "kind": "fill" },
            "buffer": { "kind": order, "bytes": 512 * 2048 },
        }));
        let (outcome, _) =
            run_with(&config, &requests, &RunOptions { timing: false, ..RunOptions::default() });
        assert_eq!(outcome.error, None);
        (outcome.summary.flash.programs.total as f64, counts(&outcome).hit_ratio)
    };
    let (lru, cflru) = (run("lru"), run("cflru"));
    assert!(cflru.0 < 0.95 * lru.0, "programs: {cflru:?} against {lru:?}");
    assert!((0.6..1.0).contains(&(cflru.1 / lru.1)), "hits: {cflru:?} against {lru:?}");
}

/// One sentence each, with what would be right.
#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |more: Value| {
        let config: Result<DeviceConfig, _> = serde_json::from_value(merged(small(), more));
        match config {
            Ok(config) => config.validate().unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    };
    let buffer = |keys: Value| json!({ "buffer": merged(json!({ "kind": "lru", "bytes": 65536 }), keys) });
    for (more, expected) in [
        (
            buffer(json!({ "bytes": 2048 })),
            "buffer.bytes = 2048: must hold a NAND page, 4096 bytes, or be 0 for no buffer",
        ),
        (
            buffer(json!({ "rate": 17 })),
            "buffer.rate = 17: takes 17 frames at a time: buffer.bytes must be at least 69632",
        ),
        (
            buffer(json!({ "rate": -1 })),
            "invalid value: integer `-1`, expected \"one\", \"cave\" or a whole number from 1",
        ),
        (
            buffer(json!({ "rate": 0 })),
            "invalid value: integer `0`, expected \"one\", \"cave\" or a whole number from 1",
        ),
        (
            buffer(json!({ "mb_per_s": -1 })),
            "buffer.mb_per_s = -1: must be from 0.001 to 1e7 million bytes a second",
        ),
        (buffer(json!({ "kind": "lur" })), "unknown variant `lur`"),
        (
            buffer(json!({ "keep_reads": false, "write": "through" })),
            "keeps nothing with this order, which does not keep what is read: choose \"back\", or buffer.keep_reads = true",
        ),
        (
            json!({ "buffer": { "kind": "bplru", "bytes": 1 << 20, "write": "through" } }),
            "choose \"back\", or buffer.kind = \"lru\"",
        ),
        (
            buffer(json!({ "prefetch_pages": 16 })),
            "buffer.prefetch_pages = 16: would give up what it has just read: must be below the 16 frames",
        ),
        (
            merged(
                buffer(json!({ "select": "distinct" })),
                json!({ "ftl": { "kind": "bast", "allocator": "dynamic" } }),
            ),
            "choose ftl.allocator = \"static\", or buffer.select = \"order\"",
        ),
        (
            merged(
                buffer(json!({ "select": "distinct" })),
                json!({ "geometry": { "channels": 4 }, "ftl": { "kind": "mcsplit" } }),
            ),
            "choose a layer that keeps a logical block in one memory",
        ),
        (
            json!({ "ftl": { "kind": "fast", "log_blocks": u32::MAX } }),
            "ftl.log_blocks = 4294967295 log blocks: over-provisioning leaves room for",
        ),
        (
            json!({ "ftl": { "kind": "last", "sequential_bytes": 511 } }),
            "ftl.sequential_bytes = 511: must be at least a sector",
        ),
        (
            json!({ "cell": { "kind": "tlc", "page_order": "tiles" } }),
            "cell.page_order = \"tiles\": is not defined for cell.kind = \"tlc\"",
        ),
        (
            buffer(json!({ "keep_reads": false, "prefetch_pages": 1 })),
            "buffer.prefetch_pages = 1: keeps nothing with this order",
        ),
        (
            merged(buffer(json!({ "select": "distinct" })), json!({ "ftl": { "striping": "dynamic" } })),
            "buffer.select = \"distinct\": needs pages whose address decides their die",
        ),
        (
            merged(buffer(json!({})), json!({ "power": { "atomic": "request" } })),
            "power.atomic = \"request\": needs buffer.write = \"through\" or no buffer",
        ),
        (
            merged(
                buffer(json!({})),
                json!({ "geometry": { "page_bytes": 65536 }, "buffer": { "bytes": 1 << 20 } }),
            ),
            "keeps account of at most 64 sectors a page",
        ),
        (json!({ "buffer": { "bytes": 65536 } }), "buffer.bytes has no effect with buffer.kind = \"none\""),
    ] {
        let told = refused(more);
        assert!(told.contains(expected), "{told}");
    }
}

/// Of blocks that go to different memories, no more leave than fill the pages that are asked for.
#[test]
fn a_rate_of_pages_holds_for_distinct_victims() {
    let pages = (0..17_u32).map(|page| request(f64::from(page), Op::Write, u64::from(page) * 8, 8));
    let requests: Vec<Request> = pages.collect();
    for kind in ["bplru", "fab", "clc"] {
        for (unit, victims) in [("victims", 4), ("pages", 1)] {
            let keys = json!({ "bytes": 65536, "rate": 4, "rate_unit": unit, "select": "distinct", "drain_at_end": false });
            let config = device(json!({
                "geometry": { "channels": 4, "ways": 1, "blocks_per_plane": 16, "pages_per_block": 4, "page_bytes": 4096 },
                "ftl": { "kind": "bast", "logical_pages": 64, "log_blocks": 4 },
                "buffer": plain(kind, keys),
            }));
            let (outcome, _) =
                run_with(&config, &requests, &RunOptions { verify: true, ..RunOptions::default() });
            assert_eq!(outcome.error, None);
            let counts = counts(&outcome);
            assert_eq!(
                (counts.events, counts.victims, counts.pages_evicted),
                (1, victims, 4 * victims),
                "{kind}"
            );
        }
    }
}

/// The page of a block that was buffered first is trimmed: the block counts for the die of the next one, not of the last one.
#[test]
fn a_block_counts_for_the_die_of_its_first_page() {
    for kind in ["bplru", "fab", "clc"] {
        let keys = json!({ "bytes": 4 * 4096, "block_pages": 4, "rate": 3, "select": "distinct", "drain_at_end": false });
        let mut keys = plain(kind, keys);
        if kind == "clc" {
            keys["recent"] = json!(0.0);
        }
        // Of the block of pages 1 and 2, page 1 decides. Page 5 is on its die, and page 6 on that of page 2.
        for (page, victims) in [(5, 2), (6, 3)] {
            let config = device(json!({
                "geometry": { "channels": 4, "ways": 1, "blocks_per_plane": 128, "pages_per_block": 8, "page_bytes": 4096 },
                "ftl": { "kind": "page", "over_provisioning": 1.0, "striping": "static" },
                "buffer": keys,
            }));
            let steps = [0, 1, 2]
                .map(|page| (Op::Write, page))
                .into_iter()
                .chain([(Op::Trim, 0)])
                .chain([page, 20, 24].map(|page| (Op::Write, page)));
            let requests: Vec<Request> =
                steps.zip(0..).map(|((op, page), at)| request(f64::from(at), op, page * 8, 8)).collect();
            let (outcome, _) =
                run_with(&config, &requests, &RunOptions { verify: true, ..RunOptions::default() });
            assert_eq!(outcome.error, None);
            let counts = counts(&outcome);
            assert_eq!((counts.events, counts.victims), (1, victims), "{kind}, page {page}");
        }
    }
}

/// A page is on its way to flash a second time, while the first is not over: the row that it was in is still filled up.
#[test]
fn a_capacitor_saves_what_is_on_its_way() {
    let drive = json!({"cell":{"kind":"slc"},"ftl":{"kind":"mcsplit","log_blocks":18,"over_provisioning":1.5,"partial_row":"pad"},
        "geometry":{"blocks_per_plane":22,"channels":3,"dies":2,"page_bytes":4096,"pages_per_block":3,"planes":1,"spare_bytes":128,"ways":1},
        "host":{"arrival":"open","out_of_range":"wrap","outstanding":1},
        "power": {"capacitor": true},
        "timing":{"bus_mb_per_s":333,"copyback":true,"erase_us":1000,"program_us":{"lsb":100},"read_us":{"lsb":20}}});
    let keys = json!({"bytes":16384,"drain_at_end":false,"kind":"lru_wsr","rate":3,"wait":"frame"});
    let config = buffered(drive, keys).unwrap();
    let w = |us: f64, lba, sectors| request(us, Op::Write, lba, sectors);
    let asked = vec![
        w(0., 624, 1),
        w(0., 202, 7),
        w(0., 546, 15),
        w(0., 697, 8),
        w(0., 867, 14),
        w(0., 571, 14),
        w(200., 836, 3),
        Request { op: Op::Read, ..w(288., 719, 80) },
        w(544., 13, 11),
        w(786., 525, 3),
        w(962., 15, 74),
        w(1126., 70, 65),
    ];
    let requests = fitting(&config, asked);
    let options = CrashOptions { at: CutAt::Time, nested: 1, ..CrashOptions::default() };
    let control = RunControl::default();
    let recording = record(&config, &VecSource::new(requests.clone()), &options, &control).unwrap();
    recording
        .examine(0..recording.points(), &control, &mut |one| assert!(one.cut.is_survived(), "{one:?}"))
        .unwrap();
}

/// One of a request's pages goes past the buffer, and the last one is too short for that by itself. It goes past as well: the
/// layer below owes copies or padding until it has seen the end of the request.
#[test]
fn a_request_goes_past_the_buffer_to_its_end() {
    for ftl in [
        json!({ "kind": "block" }),
        json!({ "kind": "bast", "log_blocks": 4, "log_always": true }),
        json!({ "kind": "mcsplit", "log_blocks": 16, "partial_row": "pad" }),
        json!({ "kind": "page" }),
    ] {
        let keys = json!({
            "geometry": { "channels": 4, "pages_per_block": 4 },
            "ftl": merged(ftl.clone(), json!({ "over_provisioning": 0.5 })),
            "buffer": { "kind": "lru", "bytes": 65536, "bypass_bytes": 5120, "drain_at_end": false },
            "power": { "capacitor": true },
            "precondition": { "kind": "fill" },
        });
        let config = device(merged(small(), keys));
        // Seven sectors of a page and one of the next.
        let requests = [request(0.0, Op::Write, 9, 8), request(0.0, Op::Write, 800, 1)];
        let (outcome, _) = run(&config, &requests);
        assert_eq!((outcome.error.as_ref(), counts(&outcome).bypassed_pages), (None, 2), "{ftl}");
        let all = cuts(&config, &requests, CrashOptions { nested: 9, ..CrashOptions::default() });
        assert!(all.len() > 1 && all.iter().all(Cut::is_survived), "{ftl}: {all:?}");
    }
}

/// What was dirty in a frame, and leaves it with a write past the buffer, is what a flush has promised when it completes.
#[test]
fn a_flush_waits_for_what_has_left_frames_past_the_buffer() {
    for (past, fua, bypass) in [((1, 1), true, 0), ((0, 16), false, 8192)] {
        let keys = json!({
            "host": { "arrival": "open", "outstanding": 4 },
            "buffer": { "kind": "lru", "bytes": 65536, "bypass_bytes": bypass, "drain_at_end": false },
        });
        let config = device(merged(small(), keys));
        let write = |(lba, sectors), fua| Request { fua, ..request(0.0, Op::Write, lba, sectors) };
        let requests = [write((0, 1), false), write(past, fua), request(0.0, Op::Flush, 0, 0)];
        let all = cuts(&config, &requests, CrashOptions { at: CutAt::Time, ..CrashOptions::default() });
        assert!(all.len() > 1 && all.iter().all(Cut::is_survived), "{past:?}: {all:?}");
    }
}

/// A layer owes a part of a request until its last page, also if only the first ones take the place of dirty sectors.
#[test]
fn a_flush_waits_for_the_end_of_a_request_that_went_past() {
    for kind in ftl_kinds() {
        for (fua, bypass) in [(true, 0), (false, 12288)] {
            let keys = json!({
                "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 30, "pages_per_block": 4 },
                "host": { "arrival": "open", "outstanding": 4 },
                "ftl": { "kind": kind, "over_provisioning": 0.5 },
                "buffer": { "kind": "lru", "bytes": 53248, "bypass_bytes": bypass, "drain_at_end": false },
                "precondition": { "kind": "fill" },
            });
            let config = device(merged(small(), keys));
            let write = |sectors, fua| Request { fua, ..request(0.0, Op::Write, 160, sectors) };
            let requests = [write(16, false), write(24, fua), request(0.0, Op::Flush, 0, 0)];
            let all = cuts(&config, &requests, CrashOptions { at: CutAt::Time, ..CrashOptions::default() });
            assert!(all.len() > 1 && all.iter().all(Cut::is_survived), "{kind}, {fua}: {all:?}");
        }
    }
}

/// What a frame holds of a unit is not read from flash when the rest of it is written.
#[test]
fn what_a_frame_holds_is_not_read() {
    let flush = request(3000.0, Op::Flush, 0, 0);
    let part = |us: f64, fua| Request { fua, ..request(us, Op::Write, 3, 1) };
    let read = request(0.0, Op::Read, 0, 8);
    let whole = request(0.0, Op::Write, 0, 8);
    for (kind, write, requests, reads) in [
        ("lru", "back", vec![read, part(2000.0, false), flush], 1),
        ("cflru", "back", vec![read, part(2000.0, true)], 1),
        ("lru_wsr", "through", vec![read, part(2000.0, false)], 1),
        ("lru", "back", vec![whole, request(1000.0, Op::Flush, 0, 0), part(2000.0, false), flush], 0),
        // It holds nothing of the rest.
        ("lru", "back", vec![part(0.0, false), flush], 1),
        ("lru", "through", vec![part(0.0, false)], 1),
    ] {
        let keys = json!({
            "precondition": { "kind": "fill" },
            "buffer": { "kind": kind, "bytes": 65536, "write": write, "drain_at_end": false },
        });
        let (outcome, _) = run(&device(merged(small(), keys)), &requests);
        let flash = &outcome.summary.flash;
        let all = flash.reads.host + flash.reads.cache_flush;
        assert_eq!(all, reads, "{kind}, {write}, {requests:?}");
        let rest_read = u64::from(reads == 1 && requests[0].op == Op::Write);
        assert_eq!(outcome.summary.host.read_modify_writes, rest_read, "{kind}, {write}, {requests:?}");
    }
}

/// A write that must be durable takes part in the sequence that it stands in.
#[test]
fn a_durable_write_continues_a_sequence() {
    let keys = json!({ "buffer": { "kind": "lru", "bytes": 65536, "bypass_bytes": 16384 } });
    let config = device(merged(small(), keys));
    for fua in [false, true] {
        let write = |at: u32| Request {
            fua: fua && at == 1,
            ..request(at.into(), Op::Write, u64::from(at) * 16, 16)
        };
        let (outcome, _) = run(&config, &[write(0), write(1), write(2)]);
        assert_eq!(counts(&outcome).bypassed_pages, 4, "{fua}");
    }
}

/// A write-through buffer loses nothing that a capacitor could save, and tears no request.
#[test]
fn a_capacitor_saves_nothing_of_what_is_written_through() {
    let requests = [request(0.0, Op::Write, 0, 16)];
    for at in [CutAt::Command, CutAt::Time] {
        let keys = json!({
            "buffer": { "kind": "lru", "bytes": 32768, "write": "through" },
            "power": { "atomic": "request", "capacitor": true },
        });
        let config = device(merged(small(), keys));
        let all = cuts(&config, &requests, CrashOptions { at, ..CrashOptions::default() });
        assert!(all.len() > 1 && all.iter().all(Cut::is_survived), "{at:?}: {all:?}");
    }
}

/// Parts of units become whole ones where the buffer has the rest. They belong to their request all the same.
#[test]
fn a_request_that_is_written_through_is_never_torn() {
    let mut rng = Rng::new(1, "through");
    for round in 0..60 {
        let (slots, kind) = (1 << (round % 2), ["lru", "cflru", "lru_wsr"][round % 3]);
        let (channels, queue_depth) = [(1, 1), (4, 4)][round / 2 % 2];
        let keys = json!({
            "geometry": { "channels": channels, "blocks_per_plane": 24, "page_bytes": 2048 * slots, "mapping_unit_bytes": 2048 },
            "ftl": { "logical_pages": 48, "over_provisioning": null },
            "buffer": { "kind": kind, "bytes": 32768, "write": "through" },
            "power": { "atomic": "request" },
            "host": { "arrival": "closed", "queue_depth": queue_depth },
        });
        let config = device(merged(small(), keys));
        let requests: Vec<Request> = (0..12)
            .map(|_| {
                let op = if rng.below(3) == 0 { Op::Read } else { Op::Write };
                request(0.0, op, rng.below(40), 1 + rng.below(24) as u32)
            })
            .collect();
        for at in [CutAt::Command, CutAt::Time] {
            let all = cuts(&config, &requests, CrashOptions { at, ..CrashOptions::default() });
            assert!(all.len() > 1);
            let torn = all.iter().find(|cut| !cut.is_survived());
            assert!(torn.is_none(), "round {round}, {at:?}: {torn:?}");
        }
    }
}

/// A flush promises what the drive took up before it, and not what the queue of the host had ahead of it.
#[test]
fn a_flush_that_is_served_first_promises_nothing_of_what_comes_later() {
    let keys = json!({
        "host": { "arrival": "open", "outstanding": 1, "scheduler": "c_look" },
        "buffer": { "kind": "lru", "bytes": 32768, "drain_at_end": false },
    });
    let config = device(merged(small(), keys));
    let first = Request { fua: true, ..request(0.0, Op::Write, 24, 8) };
    let requests = [first, request(0.0, Op::Write, 16, 8), request(0.0, Op::Flush, 0, 0)];
    for at in [CutAt::Command, CutAt::Time] {
        let all = cuts(&config, &requests, CrashOptions { at, ..CrashOptions::default() });
        assert!(all.len() > 1 && all.iter().all(Cut::is_survived), "{at:?}: {all:?}");
    }
}
