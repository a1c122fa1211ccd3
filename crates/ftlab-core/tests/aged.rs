//! Aged drives that are kept beyond the process: a run with one does not tell it from a run that has aged its own.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::Mutex;
use std::time::Duration;

use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, simulate, simulate_aged};
use ftlab_core::ftl::gc::VictimKind;
use ftlab_core::ftl::placement::PlacementKind;
use ftlab_core::host::aged::{Aged, AgedDrives, AgedStore, Found};
use ftlab_core::host::request::{Op, VecSource};
use ftlab_core::rng::Rng;
use serde_json::{Value, json};

use crate::common::{device, merged, request};

/// Keeps drives in memory, and gives only so many bytes of them back.
#[derive(Debug)]
struct Store {
    kept: Mutex<BTreeMap<String, Vec<u8>>>,
    found: Mutex<Vec<Found>>,
    gives: usize,
}

impl Store {
    fn giving(gives: usize) -> Self {
        Self { kept: Mutex::default(), found: Mutex::default(), gives }
    }

    fn found(&self) -> Vec<Found> {
        std::mem::take(&mut self.found.lock().unwrap())
    }
}

impl AgedStore for Store {
    fn find(&self, key: &str, read: &mut dyn FnMut(&mut dyn Read) -> io::Result<()>) -> Found {
        let kept = self.kept.lock().unwrap();
        let found = kept.get(key).map_or(Found::Nothing, |bytes| {
            let mut rest = &bytes[..bytes.len().min(self.gives)];
            match read(&mut rest) {
                Ok(()) if rest.is_empty() => Found::Whole,
                _ => Found::Spoilt,
            }
        });
        self.found.lock().unwrap().push(found);
        found
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn keep(&self, key: &str, _: Duration, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) {
        let mut bytes = Vec::new();
        if write(&mut bytes).is_ok() {
            self.kept.lock().unwrap().insert(key.to_owned(), bytes);
        }
    }
}

/// Four dies of two planes, aged by writes from anywhere, with `changes`.
fn drive(changes: Value) -> DeviceConfig {
    let base = json!({
        "geometry": { "channels": 2, "ways": 2, "planes": 2, "blocks_per_plane": 40, "pages_per_block": 16,
            "page_bytes": 4096 },
        "ftl": { "over_provisioning": 0.3, "gc_low_free_blocks": 1 },
        "host": { "arrival": "closed", "queue_depth": 4 },
        "precondition": { "kind": "steady", "pattern": "uniform", "tolerance": 0.1 },
    });
    device(merged(base, changes))
}

/// Every victim policy, every placement, and every other part of the state of a drive that is kept.
fn drives() -> Vec<DeviceConfig> {
    let ftl = |changes: Value| drive(json!({ "ftl": changes }));
    let policies = VictimKind::ALL.iter().map(|kind| ftl(json!({ "gc": kind.name() })));
    let placements = PlacementKind::ALL.iter().map(|kind| ftl(json!({ "placement": kind.name() })));
    let others = [
        json!({ "ftl": { "striping": "static", "streams": 2 } }),
        json!({ "ftl": { "plane_choice": "most_free", "free_block": "next_fit", "gc_open_block": "shared" } }),
        json!({ "ftl": { "wear_leveling": "static", "wear_leveling_threshold": 4 } }),
        json!({ "ftl": { "gc_open_block": "separate", "gc_tie": "highest" } }),
        json!({ "ftl": { "gc_pace": "even", "gc_low_free_blocks": 1 } }),
        json!({ "geometry": { "page_bytes": 16384, "mapping_unit_bytes": 4096, "pages_per_block": 8 } }),
        json!({ "buffer": { "kind": "lru", "bytes": 65536 } }),
        json!({ "cell": { "kind": "tlc" }, "geometry": { "pages_per_block": 24 } }),
    ];
    policies.chain(placements).chain(others.map(drive)).collect()
}

/// A short run: it must not overwrite what could differ.
fn requests(config: &DeviceConfig) -> VecSource {
    let (units, mut rng) = (config.logical_pages(), Rng::new(3, "host"));
    let sectors = u64::from(config.to_geometry().sectors_per_unit);
    let ops = [Op::Write, Op::Read, Op::Write, Op::Trim];
    let one = |at: usize| request(0.0, ops[at % 4], rng.below(units) * sectors, sectors as u32);
    VecSource::new((0..400).map(one).collect())
}

/// What a run tells, with clocks and without.
fn told(config: &DeviceConfig, options: &RunOptions, aged: Option<Aged<'_>>) -> String {
    let (load, control) = (requests(config), RunControl::default());
    let outcome = match aged {
        Some(_) => simulate_aged(config, &load, options, &control, &mut (), aged),
        None => simulate(config, &load, options, &control, &mut ()),
    };
    let outcome = outcome.unwrap();
    assert_eq!(outcome.error, None);
    // As text: the series has what is no number.
    format!("{:?} {:?}", outcome.summary, outcome.coarse)
}

#[test]
fn a_drive_that_was_kept_goes_on_as_one_that_was_aged() {
    for config in drives() {
        for (timing, verify) in [(true, false), (false, false), (true, true)] {
            let options = RunOptions { timing, verify, seed: 5, ..RunOptions::default() };
            let (store, memory) = (Store::giving(usize::MAX), AgedDrives::new(1 << 30));
            let kept = |drives| Some(Aged { drives, store: Some(&store), workload: None });
            let alone = told(&config, &options, None);
            for (turn, found) in [Found::Nothing, Found::Whole].into_iter().enumerate() {
                assert!(told(&config, &options, kept(None)) == alone, "{turn} {:?}", config.ftl);
                assert_eq!(store.found(), [found], "{:?}", config.ftl);
            }
            // From the store into memory, and from there.
            for found in [&[Found::Whole][..], &[]] {
                assert!(told(&config, &options, kept(Some(&memory))) == alone, "{:?}", config.ftl);
                assert_eq!(store.found(), found);
            }
            let other = RunOptions { seed: 6, ..options };
            told(&config, &other, kept(None));
            assert_eq!(store.found(), [Found::Nothing]);
        }
    }
}

#[test]
fn a_drive_that_is_spoilt_is_aged_anew() {
    let config = drive(json!({ "ftl": { "gc": "random", "placement": "sepbit" } }));
    let options = RunOptions { verify: true, ..RunOptions::default() };
    let alone = told(&config, &options, None);
    for gives in [0, 30, 1000, 20_000] {
        let (store, memory) = (Store::giving(gives), AgedDrives::new(1 << 30));
        for (drives, found) in [(None, Found::Nothing), (None, Found::Spoilt), (Some(&memory), Found::Spoilt)]
        {
            let aged = Aged { drives, store: Some(&store), workload: None };
            assert!(told(&config, &options, Some(aged)) == alone, "{gives} bytes");
            assert_eq!(store.found(), [found], "{gives} bytes");
        }
        assert!(memory.used_bytes() > 0 && memory.reused() == 0);
    }
}

/// What is not kept: drives with parts whose state is not, those that take no time, and those that an unnamed workload ages.
#[test]
fn other_drives_are_not_looked_for() {
    let store = Store::giving(usize::MAX);
    for changes in [
        json!({ "precondition": { "kind": "fill" } }),
        json!({ "precondition": { "pattern": "workload" } }),
        json!({ "map_cache": { "kind": "dftl", "bytes": 16384 } }),
        json!({ "power": { "trim": "flush" } }),
    ] {
        let fills = changes["precondition"]["kind"] == "fill";
        let aging = if fills { json!({}) } else { json!({ "precondition": { "kind": "steady" } }) };
        let geometry = json!({ "geometry": { "channels": 2, "ways": 2, "blocks_per_plane": 64, "pages_per_block": 16,
            "page_bytes": 4096 }, "ftl": { "over_provisioning": 0.3 } });
        let config = device(merged(geometry, merged(aging, changes)));
        let aged = Aged { drives: None, store: Some(&store), workload: None };
        told(&config, &RunOptions::default(), Some(aged));
        assert!(store.found().is_empty() && store.kept.lock().unwrap().is_empty());
    }
}
