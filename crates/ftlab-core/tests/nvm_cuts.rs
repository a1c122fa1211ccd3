//! Power cuts of drives with a non-volatile cache: what it keeps, and what it must not give up too early.

use ftlab_core::config::DeviceConfig;
use ftlab_core::crash::{CrashOptions, CutAt, Examined};
use ftlab_core::host::request::Request;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::common::drives::{cases, drives, page_drives, requests_of};
use super::common::of_chosen;
use super::crash::{examined, of_one_bit, promising, recorded, survives, with_backup};
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
        drive["buffer"] = json!({ "kind": "lru", "bytes": 16384, "keep_reads": pages % 2 == 0, "write": write });
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
        all.extend(examined(&recording, recording.spread(recording.points().min(40))));
    }
    all
}

proptest! {
    #![proptest_config(cases(24))]

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
        early in any::<bool>(),
        seed in 0..1000_u64,
    ) {
        let mut value = of_chosen(value);
        value["cell"] = json!({});
        promising(&mut value, ("unit", if journal { "flush" } else { "volatile" }));
        let _ = early;
        let config = with_backup(value, cell, json!({ "kind": "copy", "area": area }));
        let value = of_chosen(serde_json::to_value(&config).unwrap());
        let Some(config) = with_cache(value, cache, buffer) else { return Ok(()) };
        let requests = fitting(&config, requests);
        survives(&config, &cuts(&config, &requests, seed))?;
    }
}
