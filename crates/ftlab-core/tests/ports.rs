//! The two ports that keep time, where both can: the same times, and the same order of completions.

use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate};
use ftlab_core::flash::reservation_port::ReservationPort;
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::metrics::RequestRecord;
use ftlab_core::rng::Rng;
use ftlab_core::time::Time;
use serde_json::json;

use crate::common::drives::is_long;
use crate::common::{Completions, device, request};

/// A run on the direct port and one on the timeline, each with its completions in their order.
fn on_both(config: &DeviceConfig, requests: &[Request]) -> [(RunOutcome, Vec<RequestRecord>); 2] {
    assert!(ReservationPort::suits(config, &config.to_geometry()), "{config:?}");
    let source = VecSource::new(requests.to_vec());
    [false, true].map(|event_by_event| {
        let options = RunOptions { event_by_event, ..RunOptions::default() };
        let mut completions = Completions::default();
        let outcome = simulate(config, &source, &options, &RunControl::default(), &mut completions).unwrap();
        (outcome, completions.0)
    })
}

/// A drive with one unit on each channel and whole numbers of microseconds: many things happen at equal times.
fn drive_without_sharing(rng: &mut Rng) -> DeviceConfig {
    fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
        of[rng.below(of.len() as u64) as usize]
    }
    let host = match rng.below(3) {
        0 => format!(r#""arrival": "closed", "queue_depth": {}"#, pick(rng, &[1, 3, 8, 32])),
        _ => format!(
            r#""outstanding": {}, "scheduler": "{}", "stop": "{}""#,
            pick(rng, &[0, 1, 4]),
            pick(rng, &["fifo", "c_look"]),
            pick(rng, &["drained", "last_arrival"])
        ),
    };
    let text = format!(
        r#"{{ "geometry": {{ "channels": {channels}, "ways": 1, "planes": {planes}, "blocks_per_plane": 24,
            "pages_per_block": 8, "page_bytes": {page}, "mapping_unit_bytes": 4096 }},
        "timing": {{ "copyback": {copyback}, "read_us": {read}, "program_us": 200, "erase_us": 1000,
            "command_us": {command}, "bus_mb_per_s": {bus} }},
        "ftl": {{ "over_provisioning": 0.6, "summary_page": {summary}, "striping": "{striping}" }},
        "buffer": {{ {buffer} }},
        "host": {{ {host}, "link_mb_per_s": {link}, "link_duplex": "{duplex}", "overhead_us": {overhead} }} }}"#,
        channels = 1 + rng.below(6),
        planes = pick(rng, &[1, 2]),
        page = pick(rng, &[4096, 8192]),
        copyback = rng.below(2) == 0,
        read = pick(rng, &[25, 50, 100]),
        command = pick(rng, &[0.0, 0.1, 1.0]),
        bus = pick(rng, &[0.0, 40.96, 409.6, 100.0]),
        summary = rng.below(2) == 0,
        striping = pick(rng, &["static", "dynamic"]),
        link = pick(rng, &[0.0, 300.0, 409.6]),
        duplex = pick(rng, &["half", "full"]),
        overhead = pick(rng, &[0.0, 0.0, 10.0, 25.0]),
        buffer = pick(
            rng,
            &[
                "",
                "",
                r#""kind": "lru", "bytes": 262144, "write": "through", "access_us": 10, "hiding": 0.5"#,
                r#""kind": "lru", "bytes": 262144, "access_us": 20, "mb_per_s": 409.6, "hiding": 0"#,
            ]
        ),
    );
    let config: DeviceConfig =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
    config.validate().unwrap_or_else(|problems| panic!("{problems:?} in {text}"));
    config
}

/// A channel with one unit is only a faster case of any channel: every request takes the same time on both ports, and
/// requests complete in the same order.
#[test]
fn the_direct_port_tells_the_same_times_as_the_timeline() {
    let rounds = if is_long() { 20_000 } else { 300 };
    for seed in 0..rounds {
        let mut rng = Rng::new(seed, "ports");
        let config = drive_without_sharing(&mut rng);
        let sectors = config.logical_pages() * 8;
        let (gap_ns, most, aligned) =
            ([0, 25_000, 50_000, 400_000][rng.below(4) as usize], 1 + rng.below(60), rng.below(2) == 0);
        let mut arrival_ns = 0;
        let requests: Vec<Request> = (0..300)
            .map(|_| {
                arrival_ns += rng.below(3) * gap_ns;
                let round = |sectors: u64| if aligned { sectors.next_multiple_of(8) } else { sectors };
                let asked = round(1 + rng.below(most));
                Request {
                    arrival_ns,
                    lba: if aligned {
                        rng.below((sectors - asked) / 8) * 8
                    } else {
                        rng.below(sectors - asked)
                    },
                    sectors: asked as u32,
                    op: [Op::Write, Op::Read, Op::Write, Op::Trim][rng.below(4) as usize],
                    stream: 0,
                    fua: false,
                }
            })
            .collect();
        let [(direct, fast), (timeline, slow)] = on_both(&config, &requests);
        assert_eq!((&direct.error, &timeline.error), (&None, &None), "seed {seed}");
        for (fast, slow) in fast.iter().zip(&slow) {
            assert_eq!(fast, slow, "seed {seed}, {config:?}");
        }
        assert_eq!(direct.summary.busy_ns, timeline.summary.busy_ns, "seed {seed}");
        assert_eq!(direct.summary.parallelism, timeline.summary.parallelism, "seed {seed}");
        assert_eq!(direct.summary.flash, timeline.summary.flash, "seed {seed}");
    }
}

/// Requests that start together at time 0 and end together complete in the order in which they came.
#[test]
fn the_ports_agree_about_equal_times_from_the_start() {
    let text = r#"{ "geometry": { "channels": 5, "ways": 1, "blocks_per_plane": 24, "pages_per_block": 8,
            "page_bytes": 4096 },
        "ftl": { "over_provisioning": 0.6 },
        "host": { "arrival": "closed", "queue_depth": 5 } }"#;
    let config: DeviceConfig = serde_json::from_str(text).unwrap();
    let write = |page: u64| Request {
        arrival_ns: 0,
        lba: page * 8,
        sectors: 8,
        op: Op::Write,
        stream: 0,
        fua: false,
    };
    let requests: Vec<Request> = (0..100).map(write).collect();
    let [(_, direct), (_, timeline)] = on_both(&config, &requests);
    assert_eq!(direct, timeline);
    assert!(direct.is_sorted_by_key(|record| record.index));
}

/// A flush that promises trims waits for all that was programmed before it, and not for the erase that follows.
#[test]
fn a_flush_hears_of_a_program_when_that_ends() {
    let config = device(json!({
        "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 5, "pages_per_block": 5, "page_bytes": 4096 },
        "timing": { "read_us": 25, "program_us": 1.5, "erase_us": 3.0, "bus_mb_per_s": 100, "command_us": 0, "copyback": true,
            "transfer_spare": false },
        "host": { "arrival": "open" },
        "ftl": { "kind": "block", "logical_pages": 10 },
        "power": { "trim": "flush" }, "precondition": { "kind": "fill" },
    }));
    let requests = [
        request(600.0, Op::Trim, 0, 8),
        request(4_100.0, Op::Write, 0, 8),
        request(4_300.0, Op::Read, 0, 8),
        request(4_300.0, Op::Write, 0, 8),
        request(4_500.0, Op::Flush, 0, 0),
    ];
    let [(_, direct), (_, by_events)] = on_both(&config, &requests);
    assert_eq!(direct, by_events);
    let flush = direct.iter().find(|record| record.request.op == Op::Flush).unwrap();
    let write = direct.iter().find(|record| record.index == 3).unwrap();
    assert_eq!(write.end.since(flush.end), Time::from_us(3.0));
}
