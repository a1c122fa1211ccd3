//! A drive as characterization needs one: its latencies and what pairs of reads tell, by formulas written by hand.
//!
//! Of a page: R cell read, X transfer, P program, B buffer, h what is hidden. Of a request: H host and firmware. Of a
//! block: E erase.

use crate::common::{device, merged};
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::RunControl;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::host::session::{Session, SessionOptions};
use ftlab_core::time::Time;
use serde_json::{Value, json};

/// Sectors of a page of the white-box drive.
const PAGE: u64 = 4;
/// Pages of a block.
const BLOCK: u64 = 64;

/// Times in picoseconds, and the share that is hidden, in percent.
#[derive(Debug, Clone, Copy)]
struct Times {
    read: u64,
    transfer: u64,
    program: u64,
    erase: u64,
    buffer: u64,
    host: u64,
    hidden: u64,
}

/// The times of the preset.
const PRESET: Times = Times {
    read: 25_000_000,
    transfer: 51_200_000,
    program: 200_100_000,
    erase: 1_500_000_000,
    buffer: 1_440_000,
    host: 10_000_000,
    hidden: 100,
};

/// The preset's, and others: parts of time are hidden or none, and the buffer is the longer one.
fn all_times() -> Vec<Times> {
    let slow_buffer = Times { buffer: 300_000_000, ..PRESET };
    vec![
        PRESET,
        Times { hidden: 0, ..PRESET },
        Times { hidden: 37, host: 0, ..PRESET },
        Times { read: 90_000_000, transfer: 10_240_000, program: 700_000_000, hidden: 80, ..PRESET },
        Times { transfer: 0, program: 100_000, erase: 3_000_000_000, hidden: 50, ..PRESET },
        Times { host: 30_000_000, buffer: 7_000_000, hidden: 25, ..PRESET },
        slow_buffer,
        Times { hidden: 60, ..slow_buffer },
    ]
}

fn us(ps: u64) -> f64 {
    ps as f64 / 1e6
}

/// The white-box drive with few blocks and a free link.
fn white_box(times: Times, changes: Value) -> DeviceConfig {
    let rate = if times.transfer == 0 { 0.0 } else { 2048.0 / us(times.transfer) };
    let preset = json!({
        "geometry": { "channels": 8, "ways": 4, "planes": 2, "blocks_per_plane": 10, "pages_per_block": BLOCK,
            "page_bytes": 2048, "spare_bytes": 64 },
        "timing": { "read_us": us(times.read), "program_us": us(times.program), "erase_us": us(times.erase),
            "bus_mb_per_s": rate, "copyback": true, "program_includes_transfer": true },
        "ftl": { "kind": "bast", "over_provisioning": 0.6 },
        "buffer": { "kind": "lru", "bytes": 2 << 20, "write": "through", "access_us": us(times.buffer),
            "hiding": times.hidden as f64 / 100.0 },
        "host": { "overhead_us": us(times.host) },
    });
    device(merged(preset, changes))
}

fn session(config: &DeviceConfig) -> Session {
    let options = SessionOptions { seed: 1, verify: true };
    Session::new(config, &options, &RunControl::default()).unwrap()
}

fn request(op: Op, lba: u64, sectors: u64) -> Request {
    Request { arrival_ns: 0, lba, sectors: sectors as u32, op, stream: 0, fua: false }
}

/// The latency of one request on an idle drive, in picoseconds.
fn alone(session: &mut Session, op: Op, lba: u64, sectors: u64) -> u64 {
    session.drain().unwrap();
    let id = session.submit_now(request(op, lba, sectors)).unwrap();
    let record = session.wait(id).unwrap();
    record.end.since(record.start).0
}

/// The latency of `pages` pages from the start of logical block `block` on.
fn pages(session: &mut Session, op: Op, block: u64, pages: u64) -> u64 {
    alone(session, op, block * BLOCK * PAGE, pages * PAGE)
}

impl Times {
    /// n pages for which flash works `flash` each, beside the buffer.
    fn beside(self, flash: u64, n: u64) -> u64 {
        let hidden = self.buffer.min(flash) as f64 * self.hidden as f64 / 100.0;
        self.host + n * (self.buffer + flash - hidden.round() as u64)
    }

    fn hits(self, n: u64) -> u64 {
        self.host + n * self.buffer
    }
}

const COUNTS: [u64; 4] = [1, 2, 7, 64];

#[test]
fn pages_that_the_buffer_holds() {
    for times in all_times() {
        for (block, n) in (0..).zip(COUNTS) {
            let mut session = session(&white_box(times, json!({})));
            pages(&mut session, Op::Write, block, n);
            assert_eq!(pages(&mut session, Op::Read, block, n), times.hits(n), "{n} pages, {times:?}");
        }
    }
}

#[test]
fn pages_that_come_from_flash() {
    let filled = json!({ "precondition": { "kind": "fill" } });
    for times in all_times() {
        for (block, n) in (0..).zip(COUNTS) {
            for write in ["through", "back"] {
                let config =
                    white_box(times, merged(filled.clone(), json!({ "buffer": { "write": write } })));
                let mut session = session(&config);
                let missed = pages(&mut session, Op::Read, block, n);
                assert_eq!(missed, times.beside(times.read + times.transfer, n), "{n} pages, {times:?}");
                // The buffer has kept them.
                assert_eq!(pages(&mut session, Op::Read, block, n), times.hits(n), "{n} pages, {times:?}");
            }
        }
    }
}

#[test]
fn pages_that_are_written_through() {
    for times in all_times() {
        for kind in ["none", "fill"] {
            let mut session = session(&white_box(times, json!({ "precondition": { "kind": kind } })));
            for (block, n) in (0..).zip(COUNTS) {
                let took = pages(&mut session, Op::Write, block, n);
                assert_eq!(took, times.beside(times.program, n), "{n} pages, {kind}, {times:?}");
            }
        }
    }
}

#[test]
fn pages_that_are_written_back() {
    let back = json!({ "buffer": { "write": "back" } });
    for times in all_times() {
        let mut session = session(&white_box(times, back.clone()));
        for (block, n) in (0..).zip(COUNTS) {
            for round in ["first", "again"] {
                let took = pages(&mut session, Op::Write, block, n);
                assert_eq!(took, times.hits(n), "{n} pages, {round}, {times:?}");
            }
        }
    }
}

/// What the link takes for a page beside all that: the write crosses before, the data of a read after, and with several
/// pages they do so whole.
#[test]
fn what_a_link_adds() {
    let times = Times { hidden: 40, ..PRESET };
    let link = json!({ "host": { "link_mb_per_s": 256, "link_duplex": "half" }, "precondition": { "kind": "fill" } });
    for n in COUNTS {
        let added = n * 8_000_000;
        let mut session = session(&white_box(times, link.clone()));
        let missed = pages(&mut session, Op::Read, 0, n);
        assert_eq!(missed, times.beside(times.read + times.transfer, n) + added);
        assert_eq!(pages(&mut session, Op::Write, 1, n), times.beside(times.program, n) + added);
        assert_eq!(pages(&mut session, Op::Read, 1, n), times.hits(n) + added);
    }
}

/// A block that was written up to page k - 1, and then over until its log is full: the next write copies k pages.
#[test]
fn a_full_merge_takes_a_read_and_a_program_for_each_page() {
    for times in all_times() {
        let mut session = session(&white_box(times, json!({})));
        for (block, valid) in [1, 8, 16, 24, 32, 40, 48, 56].into_iter().enumerate() {
            let start = block as u64 * BLOCK * PAGE;
            let ordinary = times.beside(times.program, 1);
            for at in (0..valid).chain((0..BLOCK).map(|at| at % valid)) {
                assert_eq!(alone(&mut session, Op::Write, start + at * PAGE, PAGE), ordinary, "{times:?}");
            }
            let merge = alone(&mut session, Op::Write, start, PAGE) - ordinary;
            assert_eq!(merge, valid * (times.read + times.program) + 2 * times.erase, "{valid}, {times:?}");
        }
    }
    // 225.1 us for each page.
    assert_eq!(PRESET.read + PRESET.program, 225_100_000);
}

/// A log block is full after as many writes as it has pages, or fewer where each takes several.
#[test]
fn the_volume_between_merges_tells_block_and_page() {
    let config = white_box(PRESET, json!({ "precondition": { "kind": "fill" } }));
    for (sectors, kib) in [(1, 32), (2, 64), (4, 128), (8, 128), (16, 128)] {
        let mut session = session(&config);
        let updates = vec![request(Op::Write, 3 * BLOCK * PAGE, sectors); 4096 / sectors as usize];
        let records = session.send(&updates, 1, Time::ZERO, &RunControl::default()).unwrap();
        let merges: Vec<u64> = records
            .iter()
            .filter(|record| record.end.since(record.start) > Time::from_ns(5_000_000))
            .map(|record| record.index)
            .collect();
        let volumes: Vec<u64> =
            merges.windows(2).map(|pair| (pair[1] - pair[0]) * sectors * 512 / 1024).collect();
        assert!(volumes.len() > 5 && volumes.iter().all(|volume| *volume == kib), "{sectors}: {volumes:?}");
    }
}

/// A drive of the table of pairs of reads.
struct Pairs {
    drive: Value,
    channels: u64,
    units: u64,
    /// One read alone; a pair on different channels, on one channel, on one unit: in nanoseconds.
    alone: u64,
    different: u64,
    channel: u64,
    unit: u64,
}

fn page_mapped(geometry: Value, timing: &Value, link: f64) -> Value {
    json!({
        "geometry": merged(json!({ "dies": 1, "planes": 1, "blocks_per_plane": 16, "pages_per_block": 16 }), geometry),
        "timing": timing,
        "ftl": { "over_provisioning": 0.6, "striping": "static" },
        "host": { "link_mb_per_s": link },
    })
}

/// The table, row by row.
fn table_of_pairs() -> Vec<Pairs> {
    let six = page_mapped(
        json!({ "channels": 6, "ways": 2, "page_bytes": 8192 }),
        &json!({ "read_us": 60, "bus_mb_per_s": 200 }),
        0.0,
    );
    let five = page_mapped(
        json!({ "channels": 5, "ways": 3, "page_bytes": 4096 }),
        &json!({ "read_us": 40, "bus_mb_per_s": 100 }),
        1000.0,
    );
    let planes = page_mapped(
        json!({ "channels": 4, "ways": 2, "planes": 2, "page_bytes": 4096 }),
        &json!({ "read_us": 50, "bus_mb_per_s": 200 }),
        0.0,
    );
    let white_box = page_mapped(
        json!({ "channels": 8, "ways": 4, "planes": 2, "page_bytes": 2048 }),
        &json!({ "read_us": 25, "bus_mb_per_s": 40 }),
        300.0,
    );
    let tlc = page_mapped(
        json!({ "channels": 4, "ways": 1, "planes": 4, "pages_per_block": 48, "page_bytes": 16384,
            "mapping_unit_bytes": 4096 }),
        &json!({ "read_us": 50, "bus_mb_per_s": 1600, "independent_planes": true }),
        3500.0,
    );
    let femu = page_mapped(
        json!({ "channels": 8, "ways": 8, "page_bytes": 4096 }),
        &json!({ "read_us": 40, "bus_mb_per_s": 0 }),
        0.0,
    );
    let one = page_mapped(
        json!({ "channels": 1, "ways": 1, "page_bytes": 8192, "pages_per_block": 64 }),
        &json!({ "read_us": 50, "bus_mb_per_s": 100 }),
        0.0,
    );
    let row = |drive, (channels, units), alone, different, channel, unit| Pairs {
        drive,
        channels,
        units,
        alone,
        different,
        channel,
        unit,
    };
    vec![
        row(six, (6, 12), 100_960, 100_960, 141_920, 201_920),
        row(five, (5, 15), 85_056, 89_152, 126_016, 166_016),
        row(planes, (4, 8), 70_480, 70_480, 90_960, 140_960),
        row(white_box, (8, 32), 83_027, 89_853, 134_227, 159_227),
        row(tlc, (4, 16), 64_921, 69_602, 75_161, 125_161),
        row(femu, (8, 64), 40_000, 40_000, 40_000, 80_000),
        row(one, (1, 1), 131_920, 0, 0, 263_840),
    ]
}

/// Later end minus common start, of one read or of two that arrive at one instant.
fn together(session: &Session, requests: &[Request]) -> u64 {
    let mut session = session.fork().unwrap();
    let (control, length) = (RunControl::default(), requests.len());
    let records = session.send_together(requests, length, Time::ZERO, &control).unwrap();
    assert!(records.iter().all(|record| record.arrival == records[0].arrival));
    records.last().unwrap().end.since(records[0].arrival).0
}

/// What pairs of page 0 and every later one tell, for three rounds over the units, against `expected` for a distance.
fn check_pairs(drive: &Value, units: u64, alone: u64, expected: impl Fn(u64) -> u64) {
    let config = device(drive.clone());
    let (mut session, sectors) = (session(&config), config.geometry.page_bytes / 512);
    let of = |page: u64| request(Op::Read, page * sectors, sectors);
    for page in 0..=3 * units {
        session.serve(Request { op: Op::Write, ..of(page) }).unwrap();
        session.idle(Time::from_ns(1_000_000)).unwrap();
    }
    session.serve(request(Op::Flush, 0, 0)).unwrap();
    session.drain().unwrap();
    let near =
        |found: u64, ns: u64| assert!(found.abs_diff(ns * 1000) <= 500, "{found} ps, {ns} ns: {drive}");
    near(together(&session, &[of(0)]), alone);
    for distance in 1..=3 * units {
        near(together(&session, &[of(0), of(distance)]), expected(distance));
    }
}

#[test]
fn pairs_of_reads_tell_channels_and_units() {
    for row in table_of_pairs() {
        // The time of host and firmware is the same for both, and passes at once.
        for host in [0, 10_000] {
            let drive = merged(row.drive.clone(), json!({ "host": { "overhead_us": us(host * 1000) } }));
            check_pairs(&drive, row.units, row.alone + host, |distance| {
                let of = if distance % row.units == 0 {
                    row.unit
                } else if distance % row.channels == 0 {
                    row.channel
                } else {
                    row.different
                };
                of + host
            });
        }
    }
}

/// What the buffer does not hide belongs to one read: neither channel nor die waits for it.
#[test]
fn pairs_of_reads_tell_the_same_beside_a_buffer() {
    let drive = page_mapped(
        json!({ "channels": 6, "ways": 2, "page_bytes": 8192, "blocks_per_plane": 32 }),
        &json!({ "read_us": 60, "bus_mb_per_s": 200 }),
        0.0,
    );
    // The buffer is too small to hold what was written.
    let buffer = json!({ "buffer": { "kind": "lru", "bytes": 8192, "write": "through", "access_us": 5, "hiding": 0.4 } });
    check_pairs(&merged(drive, buffer), 12, 103_960, |distance| {
        100_960
            + 3_000
            + if distance % 12 == 0 {
                100_960
            } else if distance % 6 == 0 {
                40_960
            } else {
                0
            }
    });
}

#[test]
fn a_fork_gives_a_batch_the_same_latencies_again() {
    let mut session = session(&white_box(PRESET, json!({ "precondition": { "kind": "fill" } })));
    let batch: Vec<Request> = (0..600)
        .map(|at: u64| {
            let op = if at.is_multiple_of(3) { Op::Read } else { Op::Write };
            request(op, at * 37 % 512 * PAGE, 1 + at % 9)
        })
        .collect();
    let control = RunControl::default();
    session.send(&batch, 4, Time::ZERO, &control).unwrap();
    let runs = [4, 1, 600].map(|depth| {
        let sends = |mut fork: Session| fork.send(&batch, depth, Time::from_ns(700), &control).unwrap();
        let once = sends(session.fork().unwrap());
        assert_eq!(once, sends(session.fork().unwrap()), "{depth} at a time");
        once
    });
    assert_eq!(runs[2], session.send(&batch, 600, Time::from_ns(700), &control).unwrap());
    assert_ne!(runs[0], runs[1]);
}
