//! Time: sums of parts, what overlaps and what does not, and the physical bounds.
#![allow(clippy::print_stdout, reason = "measured values, shown with --nocapture")]

use crate::common::{device, latencies, merged, request, run, run_with, small};
use ftlab_core::buffer::front::BufferCounts;
use ftlab_core::device::RunOptions;
use ftlab_core::flash::{Cause, Command};
use ftlab_core::ftl::page::GcCounts;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::time::Time;
use serde_json::json;

/// 25 us read, 200 us program, 1.5 ms erase, 100 MB/s (40.96 us a page), 0.5 us commands; 4 dies on 2 channels.
fn four_dies() -> serde_json::Value {
    merged(
        small(),
        json!({
            "geometry": { "channels": 2, "ways": 2 },
            "ftl": { "striping": "static" },
            "timing": { "bus_mb_per_s": 100, "command_us": 0.5 },
        }),
    )
}

fn assert_us(found: &[f64], expected: &[f64]) {
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-6, "request {at}: {found} us instead of {expected}: {found:?}");
    }
}

#[test]
fn alone_on_an_idle_drive_a_request_takes_the_sum_of_its_parts() {
    let config = device(four_dies());
    let rows = [
        request(0.0, Op::Write, 0, 8),     // command + 40.96 + 200
        request(1000.0, Op::Read, 0, 8),   // command + 25 + 40.96
        request(2000.0, Op::Read, 0, 1),   // one sector crosses: 5.12
        request(3000.0, Op::Write, 3, 1),  // seven sectors are read first, then the page is written
        request(4000.0, Op::Read, 800, 8), // never written: zeros, at once
        request(5000.0, Op::Trim, 0, 8),
        request(6000.0, Op::Flush, 0, 0),
    ];
    let (outcome, log) = run(&config, &rows);
    let modify = 0.5 + 25.0 + 35.84 + 0.5 + 40.96 + 200.0;
    assert_us(&latencies(&log), &[241.46, 66.46, 30.62, modify, 0.0, 0.0, 0.0]);
    let host = &outcome.summary.host;
    assert_eq!((host.unmapped_read_pages, host.read_modify_writes), (1, 1));
}

#[test]
fn the_host_link_is_part_of_the_sum() {
    // 500 MB/s: 8.192 us a page. A write crosses before flash works, a read after.
    let config = device(merged(four_dies(), json!({ "host": { "link_mb_per_s": 500 } })));
    let rows = [request(0.0, Op::Write, 0, 8), request(1000.0, Op::Read, 0, 8)];
    assert_us(&latencies(&run(&config, &rows).1), &[241.46 + 8.192, 66.46 + 8.192]);
}

#[test]
fn page_classes_have_their_own_times() {
    let classes = json!({
        "cell": { "kind": "mlc", "page_order": "adjacent" },
        "timing": { "bus_mb_per_s": 0, "command_us": 0, "read_us": { "lsb": 40, "msb": 65 },
            "program_us": { "lsb": 300, "msb": "1.3ms" } },
    });
    let config = device(merged(small(), classes));
    let rows: Vec<Request> = (0..4_u32)
        .map(|i| request(f64::from(i) * 5000.0, Op::Write, u64::from(i) * 8, 8))
        .chain((0..4_u32).map(|i| request(50_000.0 + f64::from(i) * 5000.0, Op::Read, u64::from(i) * 8, 8)))
        .collect();
    assert_us(&latencies(&run(&config, &rows).1), &[300.0, 1300.0, 300.0, 1300.0, 40.0, 65.0, 40.0, 65.0]);
}

#[test]
fn dies_overlap_and_transfers_of_a_channel_do_not() {
    let config = device(four_dies());
    // Pages 0 and 2 share channel 0 on two ways; page 1 is alone on channel 1.
    let write = [0, 8, 16].map(|lba| request(0.0, Op::Write, lba, 8));
    let read = [0, 8, 16].map(|lba| request(1000.0, Op::Read, lba, 8));
    let (_, log) = run(&config, &[write, read].concat());
    // The second write waits for the first one's transfer; the second read's command waits for the first one's
    // command, its array works beside, and its data wait for the first one's data.
    let expected = [241.46, 241.46, 241.46 + 41.46, 66.46, 66.46, 66.46 + 40.96];
    assert_us(&latencies(&log), &expected);
}

#[test]
fn planes_work_one_at_a_time_unless_they_are_independent() {
    for (independent, second) in [(false, 2.0 * 241.46), (true, 241.46 + 41.46)] {
        let planes = json!({
            "geometry": { "channels": 1, "ways": 1, "planes": 2 },
            "timing": { "independent_planes": independent },
        });
        let config = device(merged(four_dies(), planes));
        let rows = [request(0.0, Op::Write, 0, 8), request(0.0, Op::Write, 8, 8)];
        assert_us(&latencies(&run(&config, &rows).1), &[241.46, second]);
    }
}

#[test]
fn a_later_transfer_never_blocks_one_that_could_go_now() {
    // Die 0 works for long before its data are ready; die 2 of the same channel reads and is done meanwhile.
    let mut rows = vec![request(0.0, Op::Write, 0, 8), request(0.0, Op::Write, 16, 8)];
    rows.push(request(1000.0, Op::Write, 0, 8));
    rows.push(request(1100.0, Op::Read, 0, 8));
    rows.push(request(1110.0, Op::Read, 16, 8));
    let (_, log) = run(&device(four_dies()), &rows);
    let found = latencies(&log);
    // The read of page 0 waits 141.46 us for the write ahead of it; the one on the other die waits for nothing.
    assert_us(&found[2..], &[241.46, 141.46 + 66.46, 66.46]);
}

#[test]
fn a_die_serves_first_come_first_served() {
    let config = device(small());
    let rows: Vec<Request> = (0..6)
        .map(|i| request(f64::from(i), if i % 2 == 0 { Op::Write } else { Op::Read }, (i as u64 % 3) * 8, 8))
        .collect();
    let (_, log) = run(&config, &rows);
    let ends: Vec<_> = log.requests.iter().map(|record| record.end).collect();
    let mut sorted = ends.clone();
    sorted.sort_unstable();
    // The read of a page that was not written yet ends at once; every other one in order.
    assert!(ends.iter().zip(&sorted).filter(|(a, b)| a != b).count() <= 2, "{ends:?}");
}

#[test]
fn equal_arrivals_keep_their_order() {
    let config = device(small());
    let rows: Vec<Request> = (0..20).map(|i| request(0.0, Op::Write, i * 8, 8)).collect();
    let (_, log) = run(&config, &rows);
    assert!(log.requests.windows(2).all(|pair| pair[0].end < pair[1].end));
}

#[test]
fn outstanding_requests_wait_at_the_host_and_not_in_the_drive() {
    let config =
        device(merged(small(), json!({ "timing": { "bus_mb_per_s": 0 }, "host": { "outstanding": 2 } })));
    let rows: Vec<Request> = (0..5).map(|i| request(0.0, Op::Write, i * 8, 8)).collect();
    let (outcome, log) = run(&config, &rows);
    assert_us(&latencies(&log), &[200.0, 400.0, 400.0, 400.0, 400.0]);
    let wait = outcome.summary.host_wait_ns.unwrap();
    assert_eq!((wait.max, wait.count), (600_000, 5));
}

#[test]
fn closed_loop_keeps_its_queue_depth() {
    let config = json!({ "timing": { "bus_mb_per_s": 0 }, "host": { "arrival": "closed", "queue_depth": 4 },
        "geometry": { "ways": 8 } });
    let config = device(merged(small(), config));
    let rows: Vec<Request> = (0..64).map(|i| request(0.0, Op::Write, i * 8, 8)).collect();
    let (outcome, _) = run(&config, &rows);
    let parallelism = outcome.summary.parallelism.unwrap();
    assert!((parallelism.mean_busy_dies - 4.0).abs() < 1e-9, "{parallelism:?}");
    assert_eq!(outcome.summary.simulated_ns, 64 / 4 * 200_000);
    // 64 writes of 200 us, one after the other to the eight dies.
    assert_eq!(parallelism.die_busy_ns, [64 / 8 * 200_000; 8]);
    assert_eq!(parallelism.span_ns, outcome.summary.simulated_ns);
    assert_eq!(parallelism.channel_busy_ns, [0]);
}

/// One die is written more than the other: each has its own books, and together they have all.
#[test]
fn the_time_of_each_die_adds_up_to_the_time_by_cause() {
    for ways in [1, 2] {
        let shape = json!({ "geometry": { "channels": 2, "ways": ways }, "timing": { "bus_mb_per_s": 40 },
            "ftl": { "striping": "static" } });
        let config = device(merged(small(), shape));
        let rows: Vec<Request> = (0..99).map(|i| request(i as f64 * 5.0, Op::Write, i % 8 * 8, 8)).collect();
        let (outcome, _) = run(&config, &rows);
        let (busy, parallelism) = (outcome.summary.busy_ns.unwrap(), outcome.summary.parallelism.unwrap());
        assert_eq!(parallelism.die_busy_ns.iter().sum::<u64>(), busy.total);
        assert_ne!(parallelism.die_busy_ns[0], parallelism.die_busy_ns[parallelism.die_busy_ns.len() - 1]);
        let mean = |ns: &[u64]| ns.iter().sum::<u64>() as f64 / parallelism.span_ns as f64;
        assert!((mean(&parallelism.die_busy_ns) - parallelism.mean_busy_dies).abs() < 1e-6);
        assert!((mean(&parallelism.channel_busy_ns) - parallelism.mean_busy_channels).abs() < 1e-6);
        assert_eq!(parallelism.channel_busy_ns.len(), 2);
        assert_eq!(outcome.summary.wear.die_erase_mean.len(), 2 * ways);
    }
}

/// Commands a second at saturation, against what dies and bus can do.
#[test]
fn saturated_throughput_reaches_the_physical_bound() {
    for op in [Op::Read, Op::Write] {
        for channels in [1, 2, 4] {
            for ways in [1, 2, 3, 4, 8] {
                let shape = json!({
                    "geometry": { "channels": channels, "ways": ways, "blocks_per_plane": 1024 },
                    "timing": { "command_us": 0.3, "bus_mb_per_s": 100 },
                    "host": { "arrival": "closed", "queue_depth": 512 },
                    "precondition": { "kind": if op == Op::Read { "fill" } else { "none" } },
                });
                let config = device(merged(small(), shape));
                let pages = config.logical_pages();
                // Reads of a full drive, or the first writes of a fresh one: nothing is erased.
                let rows: Vec<Request> = (0..20_000.min(pages)).map(|i| request(0.0, op, i * 8, 8)).collect();
                let (outcome, _) = run_with(&config, &rows, &RunOptions::default());
                let summary = &outcome.summary;
                assert_eq!(summary.flash.erases.total, 0);
                let (array, bus) = (if op == Op::Read { 25.0 } else { 200.0 }, 0.3 + 40.96);
                let (dies, channels) = (f64::from(channels * ways), f64::from(channels));
                let bound = (dies / (array + bus)).min(channels / bus) * 1e6;
                let share = summary.host.iops / bound;
                println!("{} {channels}x{ways}: {:.4} of the bound", op.name(), share);
                assert!(share <= 1.0 + 1e-9, "{share}: faster than physics");
                // A queue of 512 spread over at most 32 dies leaves none idle but at the start and the end.
                assert!(share >= 0.98, "{} {channels}x{ways}: {share}", op.name());
            }
        }
    }
}

#[test]
fn a_fast_bus_is_never_free() {
    for (mb_per_s, page_ns) in [(333.0, 12_300), (1200.0, 3413), (2400.0, 1707)] {
        let config = device(merged(small(), json!({ "timing": { "bus_mb_per_s": mb_per_s } })));
        let rows = [request(0.0, Op::Write, 0, 8)];
        let (outcome, _) = run(&config, &rows);
        assert_eq!(outcome.summary.simulated_ns, 200_000 + page_ns);
    }
}

#[test]
fn rates_count_the_last_partial_second() {
    // Two and a half seconds of work: neither whole seconds nor the time before the first arrival.
    let config = device(merged(small(), json!({ "timing": { "bus_mb_per_s": 0, "program_us": 250_000 } })));
    let rows: Vec<Request> = (0..10).map(|i| request(7e6, Op::Write, i * 8, 8)).collect();
    let (outcome, _) = run(&config, &rows);
    let host = &outcome.summary.host;
    assert!(
        (host.iops - 4.0).abs() < 1e-9 && (host.bytes_per_second - 4.0 * 4096.0).abs() < 1e-6,
        "{host:?}"
    );
    assert_eq!((host.first_arrival_ns, outcome.summary.simulated_ns), (7_000_000_000, 9_500_000_000));
}

#[test]
fn spare_bytes_cross_the_bus_when_told() {
    // 8 sectors written, then one read, in bytes on the bus.
    for (transfer, spare, written, read) in
        [(false, 128, 4096, 512), (true, 128, 4224, 528), (true, 7, 4103, 513), (true, 12, 4108, 514)]
    {
        let spare = json!({ "geometry": { "spare_bytes": spare }, "timing": { "transfer_spare": transfer } });
        let rows = [request(0.0, Op::Write, 0, 8), request(1000.0, Op::Read, 0, 1)];
        let (outcome, _) = run(&device(merged(small(), spare)), &rows);
        let latency = outcome.summary.latency_ns.unwrap();
        let responses = [latency.write.mean, latency.read.mean];
        assert_eq!(responses, [200_000.0 + f64::from(written) * 25.0, 25_000.0 + f64::from(read) * 25.0]);
    }
}

#[test]
fn events_change_nothing_and_tell_everything() {
    let config = device(merged(four_dies(), json!({ "precondition": { "kind": "fill" } })));
    let pages = config.logical_pages();
    let rows: Vec<Request> =
        (0..2000_u64).map(|i| request(i as f64 * 40.0, Op::Write, i * i % pages * 8, 8)).collect();
    let (observed, log) = run(&config, &rows);
    let source = ftlab_core::host::request::VecSource::new(rows);
    let options = RunOptions { verify: true, ..RunOptions::default() };
    let control = ftlab_core::device::RunControl::default();
    let silent = ftlab_core::device::simulate(&config, &source, &options, &control, &mut ()).unwrap();
    let text = |outcome: &ftlab_core::device::RunOutcome| serde_json::to_string(&outcome.summary).unwrap();
    assert_eq!(text(&observed), text(&silent));
    let erases = log.commands.iter().filter(|record| record.command == Command::Erase).count() as u64;
    assert_eq!(erases, silent.summary.flash.erases.total);
}

#[test]
fn a_run_cut_short_counts_only_work_that_was_done() {
    for ways in [1, 2] {
        for stop in ["drained", "last_arrival"] {
            let config = json!({ "geometry": { "ways": ways }, "timing": { "bus_mb_per_s": 0 }, "host": { "stop": stop } });
            let config = device(merged(small(), config));
            let mut rows: Vec<Request> = (0..100).map(|i| request(0.0, Op::Write, i * 8, 8)).collect();
            rows.push(request(500.0, Op::Write, 0, 8));
            let (outcome, log) = run_with(&config, &rows, &RunOptions::default());
            let parallelism = outcome.summary.parallelism.unwrap();
            assert!(parallelism.mean_busy_dies <= ways as f64 + 1e-9, "{stop} {ways}: {parallelism:?}");
            if stop == "last_arrival" {
                assert_eq!(outcome.summary.host.completed, 2 * ways as u64);
                assert_eq!(log.commands.len(), 2 * ways);
                assert_eq!(outcome.summary.flash.programs.total, 2 * ways as u64);
                assert_eq!(outcome.summary.flash.unfinished, 100 - 2 * ways as u64);
            }
        }
    }
}

/// The drive refuses a request while it works for others. What it was given goes on to its end, and is counted with its time.
#[test]
fn a_run_that_fails_has_no_more_work_than_time() {
    // Copies go on behind the write that has paid for them: the drive works on when the last write has ended.
    let config = json!({ "timing": { "bus_mb_per_s": 0 }, "power": { "atomic": "request" },
        "ftl": { "gc_pace": "even" }, "precondition": { "kind": "fill" } });
    let config = device(merged(small(), config));
    let pages = config.logical_pages();
    for writes in 100..160 {
        let mut rows: Vec<Request> =
            (0..writes).map(|i| request(0.0, Op::Write, i * 37 % pages * 8, 8)).collect();
        rows.push(request(1.0, Op::Write, 0, pages as u32 * 8));
        let source = ftlab_core::host::request::VecSource::new(rows);
        let control = ftlab_core::device::RunControl::default();
        let outcome =
            ftlab_core::device::simulate(&config, &source, &RunOptions::default(), &control, &mut ())
                .unwrap();
        assert!(outcome.error.is_some(), "more old data than the drive can keep");
        let (busy, parallelism) = (outcome.summary.busy_ns.unwrap(), outcome.summary.parallelism.unwrap());
        assert_eq!(busy.total, parallelism.span_ns, "{writes}: its one die never pauses");
    }
}

/// Copies inside a plane go in rows that are one event: the end may come in the middle of one.
#[test]
fn what_has_not_ended_at_the_last_arrival_is_not_counted() {
    let times = [json!({}), json!({ "erase_us": 0 }), json!({ "read_us": 0, "program_us": 0 })];
    for (ways, seed) in [1, 2].into_iter().flat_map(|ways| (0..40).map(move |seed| (ways, seed))) {
        let timing = merged(json!({ "copyback": true, "command_us": 0 }), times[seed % times.len()].clone());
        let changes = json!({ "geometry": { "ways": ways }, "timing": timing,
            "host": { "stop": "last_arrival" },
            "precondition": { "kind": "fill" } });
        let config = device(merged(small(), changes));
        let pages = config.logical_pages();
        let mut rows: Vec<Request> =
            (0..400).map(|i| request(0.0, Op::Write, i * 37 % pages * 8, 8)).collect();
        rows.push(request(1000.0 + 997.3 * seed as f64, Op::Write, 0, 8));
        let (outcome, log) = run_with(&config, &rows, &RunOptions::default());
        let summary = &outcome.summary;
        let end = Time::from_us(1000.0 + 997.3 * seed as f64);
        let ended = |command: Command| {
            assert!(log.commands.iter().all(|record| record.end <= end));
            log.commands.iter().filter(|record| record.command == command).count() as u64
        };
        assert_eq!(summary.flash.programs.total, ended(Command::Program), "{ways} {seed}");
        assert_eq!(summary.flash.copybacks.total, ended(Command::Copyback), "{ways} {seed}");
        assert_eq!(summary.flash.erases.total, ended(Command::Erase), "{ways} {seed}");
        let busy: u64 = log.commands.iter().map(|record| record.end.since(record.start).as_ns()).sum();
        assert_eq!(summary.busy_ns.as_ref().unwrap().total, busy, "{ways} {seed}");
        let source = ftlab_core::host::request::VecSource::new(rows);
        let control = ftlab_core::device::RunControl::default();
        let silent =
            ftlab_core::device::simulate(&config, &source, &RunOptions::default(), &control, &mut ())
                .unwrap();
        let text = |summary| serde_json::to_string(summary).unwrap();
        assert_eq!(text(&silent.summary), text(summary), "{ways} {seed}: a log changes nothing");
    }
}

#[test]
fn an_interrupted_run_ends_with_an_idle_drive() {
    struct Cancelling<'a>(&'a ftlab_core::device::RunControl);
    impl ftlab_core::metrics::Observer for Cancelling<'_> {
        fn wants_requests(&self) -> bool {
            true
        }
        fn on_request(&mut self, _: &ftlab_core::metrics::RequestRecord) {
            self.0.cancel();
        }
    }
    for (ways, arrival) in [(1, "open"), (3, "open"), (1, "closed"), (3, "closed")] {
        let host = if arrival == "open" {
            json!({ "outstanding": 8 })
        } else {
            json!({ "arrival": "closed", "queue_depth": 8 })
        };
        let config = device(merged(small(), json!({ "geometry": { "ways": ways }, "host": host })));
        let rows: Vec<Request> = (0..50_000).map(|i| request(i as f64, Op::Write, i % 100 * 8, 8)).collect();
        let source = ftlab_core::host::request::VecSource::new(rows);
        let control = ftlab_core::device::RunControl::default();
        let options = RunOptions { verify: true, ..RunOptions::default() };
        let outcome =
            ftlab_core::device::simulate(&config, &source, &options, &control, &mut Cancelling(&control))
                .unwrap();
        let summary = &outcome.summary;
        assert!(outcome.error.is_none() && summary.partial);
        assert!(summary.host.completed > 0 && summary.host.completed < 40_000, "{:?}", summary.host);
        assert_eq!(summary.host.requests, summary.host.completed + summary.host.unfinished);
        assert!(summary.parallelism.as_ref().unwrap().mean_busy_dies <= f64::from(ways) + 1e-9);
    }
}

#[test]
fn runs_beyond_the_longest_time_say_so() {
    for ways in [1, 2] {
        // 6,000 programs of an hour each on one die: 250 days.
        let slow = json!({ "geometry": { "ways": ways }, "timing": { "program_us": 3.6e9 },
            "host": { "arrival": "closed", "queue_depth": 4 } });
        let config = device(merged(small(), slow));
        let rows: Vec<Request> = (0..6000 * ways).map(|i| request(0.0, Op::Write, i % 100 * 8, 8)).collect();
        let (outcome, _) = run_with(&config, &rows, &RunOptions::default());
        let text = outcome.error.expect("it cannot be counted").to_string();
        assert!(text.contains("213 days"), "{text}");
        assert!(outcome.summary.partial && outcome.summary.host.completed > 0);
    }
}

/// Waits for frames add up to more than any time is long.
#[test]
fn waits_add_up_beyond_the_longest_time() {
    for ways in [1, 2] {
        let slow = json!({ "geometry": { "ways": ways }, "timing": { "program_us": 1e9 },
            "buffer": { "kind": "lru", "bytes": 4 * 4096, "drain_at_end": false } });
        let config = device(merged(small(), slow));
        let rows: Vec<Request> = (0..4000).map(|i| request(0.0, Op::Write, i % 100 * 8, 8)).collect();
        let (outcome, _) = run_with(&config, &rows, &RunOptions::default());
        assert!(outcome.error.is_none());
        let counts: BufferCounts = outcome.summary.parts.get().unwrap();
        // At a rate of one, evictions follow each other: the last write waits for all programs, the mean one for half of them.
        let ratio = counts.mean_wait_ns.unwrap() / (1e12 * 2000.0);
        assert!((0.95..1.05).contains(&ratio), "{ways} dies: {ratio}");
    }
}

/// What a buffer holds back at the end of a run would be written after the longest time.
#[test]
fn writes_beyond_the_longest_time_are_not_done_in_silence() {
    for ways in [1, 2] {
        let slow = json!({ "geometry": { "ways": ways }, "timing": { "program_us": 3.6e9, "erase_us": 3.6e9 },
            "buffer": { "kind": "lru", "bytes": "64MiB" } });
        let config = device(merged(large(), slow));
        let rows: Vec<Request> = (0..6000 * ways).map(|i| request(0.0, Op::Write, i * 8, 8)).collect();
        let (outcome, _) = run_with(&config, &rows, &RunOptions::default());
        let text = outcome.error.expect("it cannot be counted").to_string();
        assert!(text.contains("held back") && text.contains("213 days"), "{text}");
        assert!(outcome.summary.partial);
        assert_eq!(outcome.summary.host.completed, 6000 * ways);
    }
}

/// One that holds 12,000 pages and more.
fn large() -> serde_json::Value {
    merged(small(), json!({ "geometry": { "blocks_per_plane": 2048 } }))
}

#[test]
fn a_die_is_held_from_the_first_use_of_the_bus_and_not_before() {
    // Sixteen dies behind one slow bus: it moves one page at a time, and a die works a hundredth of that time.
    let slow = json!({
        "geometry": { "ways": 16 },
        "timing": { "bus_mb_per_s": 4.096, "program_us": 10, "command_us": 0 },
    });
    let config = device(merged(small(), slow));
    let rows: Vec<Request> = (0..200).map(|i| request(0.0, Op::Write, i * 8, 8)).collect();
    let (outcome, log) = run(&config, &rows);
    let parts = (1000.0 + 10.0) * 1000.0;
    assert_eq!(outcome.summary.busy_ns.as_ref().unwrap().total, 200 * 1_010_000);
    let busy = outcome.summary.parallelism.unwrap().mean_busy_dies;
    assert!((1.0..1.02).contains(&busy), "{busy}");
    assert!(log.commands.iter().all(|record| record.end.since(record.start).as_ns_f64() == parts));
    assert!(log.commands.iter().all(|record| record.start == record.transfer.0));
}

#[test]
fn a_page_of_flash_is_read_once_for_an_access() {
    let slots = json!({ "geometry": { "page_bytes": 16384, "mapping_unit_bytes": 4096 } });
    let config = device(merged(small(), slots));
    // Unit 1 moves away from between units 0, 2 and 3.
    let rows = [
        request(0.0, Op::Write, 0, 32),
        request(5000.0, Op::Write, 8, 8),
        request(10_000.0, Op::Read, 0, 32),
        request(15_000.0, Op::Write, 4, 24),
    ];
    let (outcome, log) = run(&config, &rows);
    assert_eq!(
        outcome.summary.flash.reads.host,
        2 + 1,
        "two pages, and one that has both units that are modified"
    );
    let bytes: Vec<f64> = log
        .commands
        .iter()
        .filter(|record| record.command == Command::Read)
        .map(|record| record.transfer.1.since(record.transfer.0).as_ns_f64())
        .collect();
    let page = bytes[0] + bytes[1];
    assert!((bytes[0] - 3.0 * bytes[1]).abs() < 1e-6 && page > 0.0, "three units of one page: {bytes:?}");
}

#[test]
fn collection_reads_a_page_of_its_victim_once() {
    let slots = json!({
        "geometry": { "page_bytes": 16384, "mapping_unit_bytes": 4096 },
        "timing": { "bus_mb_per_s": 100 },
        "precondition": { "kind": "fill" },
    });
    let config = device(merged(small(), slots));
    let units = config.logical_pages();
    let rows: Vec<Request> = (0..4000).map(|i| request(0.0, Op::Write, i * 7919 % units * 8, 8)).collect();
    let (outcome, log) = run(&config, &rows);
    let flash = &outcome.summary.flash;
    assert!(flash.programs.gc > 500 && flash.reads.gc > 500);
    let mut seen = std::collections::HashSet::new();
    let mut units_read = 0.0;
    for record in log.commands.iter().filter(|record| record.cause == Cause::Gc) {
        match record.command {
            Command::Read => {
                assert!(seen.insert(record.page), "page {} is read twice", record.page);
                units_read += record.transfer.1.since(record.transfer.0).as_ns_f64() / 40960.0;
            }
            Command::Erase => seen.clear(),
            _ => {}
        }
    }
    let copied = outcome.summary.parts.get::<GcCounts>().unwrap().pages_copied as f64;
    assert!((units_read - copied).abs() < 1e-6 * copied, "{units_read} units cross the bus, {copied} move");
}

#[test]
fn a_bad_request_leaves_nobody_else_in_the_drive() {
    for (duplex, depth, link) in
        [("full", 8, 100), ("half", 8, 100), ("half", 1, 50), ("full", 32, 50), ("half", 8, 0)]
    {
        for bad in [0, 1, 7, 20, 39] {
            let config = json!({
                "geometry": { "ways": 2 },
                "host": { "arrival": "closed", "queue_depth": depth, "link_mb_per_s": link, "link_duplex": duplex },
                "precondition": { "kind": "fill" },
            });
            let config = device(merged(small(), config));
            let op = |at| if at % 2 == 0 { Op::Read } else { Op::Write };
            let lba = |at| if at == bad { 1 << 40 } else { at * 64 % 1000 };
            let rows: Vec<Request> = (0..40).map(|at| request(0.0, op(at), lba(at), 64)).collect();
            let (outcome, _) = run_with(&config, &rows, &RunOptions::default());
            assert!(outcome.error.is_some());
            let host = &outcome.summary.host;
            assert_eq!(host.requests, host.completed + host.unfinished + host.rejected);
            assert_eq!(host.completed, bad, "{duplex} {depth} {link}: {host:?}");
        }
    }
}
