//! The power is cut everywhere, and what was promised is found.

use ftlab_core::config::DeviceConfig;
use ftlab_core::crash::{CrashOptions, Cut, CutAt, Examined, Recording, record};
use ftlab_core::device::RunControl;
use ftlab_core::host::request::{Op, Request, VecSource};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::common::drives::{cases, drives, requests_of};
use super::common::{device, merged, of_chosen, request, small};

fn recorded(config: &DeviceConfig, requests: &[Request], options: &CrashOptions) -> Recording {
    record(config, &VecSource::new(requests.to_vec()), options, &RunControl::default()).unwrap()
}

fn examined(recording: &Recording, points: impl Iterator<Item = u64>) -> Vec<Examined> {
    let mut all = Vec::new();
    recording.examine(points, &RunControl::default(), &mut |examined| all.push(examined)).unwrap();
    all
}

fn all_cuts(config: &DeviceConfig, requests: &[Request]) -> Vec<Examined> {
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
    let told = |at: usize| cuts[at].losses.iter().map(|loss| (loss.sector / 8, loss.found, loss.request));
    assert_eq!(told(2).collect::<Vec<_>>(), vec![(0, 0, Some(0)); 8]);
    assert_eq!(told(7).collect::<Vec<_>>(), vec![(5, 0, Some(5)); 8]);
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

fn of_one_bit(value: Value, more: &Value) -> Value {
    of_chosen(merged(merged(value, json!({ "cell": { "kind": "slc" } })), more.clone()))
}

/// Those that a drive can take.
fn fitting(config: &DeviceConfig, requests: Vec<Request>) -> Vec<Request> {
    let sectors = config.logical_pages() * u64::from(config.to_geometry().sectors_per_unit);
    requests.into_iter().filter(|request| u64::from(request.sectors) <= sectors).collect()
}

fn survives(config: &DeviceConfig, cuts: &[Examined]) -> Result<(), TestCaseError> {
    if let Some(bad) = cuts.iter().find(|one| !one.cut.is_survived()) {
        return Err(TestCaseError::fail(format!("{bad:?} on {}", serde_json::to_string(config).unwrap())));
    }
    Ok(())
}

proptest! {
    #![proptest_config(cases(24))]

    /// Cells of one bit lose nothing that was promised, whatever the drive, at any command; nor in the middle of a recovery.
    #[test]
    fn what_was_promised_survives_a_cut_at_any_command(value in drives(), requests in requests_of(1..60), seed in 0..1000_u64) {
        let config = device(of_one_bit(value, &json!({})));
        let requests = fitting(&config, requests);
        let options = CrashOptions { seed, nested: 2, ..CrashOptions::default() };
        let recording = recorded(&config, &requests, &options);
        let points = recording.points();
        let cuts = examined(&recording, recording.spread(points.min(40)));
        survives(&config, &cuts)?;
        let last: &Cut = &cuts.last().unwrap().cut;
        prop_assert_eq!((last.torn, last.nested_at), (0, None));
    }

    /// Nor at any instant, with several dies at work.
    #[test]
    fn what_was_promised_survives_a_cut_at_any_instant(value in drives(), requests in requests_of(1..60), seed in 0..1000_u64) {
        let config = device(of_one_bit(value, &json!({})));
        let requests = fitting(&config, requests);
        let options = CrashOptions { seed, at: CutAt::Time, ..CrashOptions::default() };
        let recording = recorded(&config, &requests, &options);
        let points = recording.points();
        survives(&config, &examined(&recording, recording.spread(points.min(60))))?;
    }
}
