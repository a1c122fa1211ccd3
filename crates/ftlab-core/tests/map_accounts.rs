//! What mapping caches are charged for: what was done, in the summary as in the series, whatever the scheme.

use crate::common::drives::is_long;
use crate::common::{device, request, run_with};
use ftlab_core::config::{DeviceConfig, Model};
use ftlab_core::device::{RunOptions, RunOutcome};
use ftlab_core::host::request::{Op, Request};
use ftlab_core::mapcache::MapCacheKind;
use ftlab_core::mapcache::translation::{MapCacheSummary, MapPenalty};
use ftlab_core::metrics::series::{Series, SeriesEvery};
use ftlab_core::rng::Rng;
use serde_json::{Value, json};

fn schemes() -> impl Iterator<Item = MapCacheKind> {
    MapCacheKind::ALL.iter().copied().filter(|kind| *kind != MapCacheKind::Ideal)
}

/// Pages of 4 KiB, and memory for a small part of the table; data are predicted wrongly where a scheme predicts.
fn config(kind: MapCacheKind, changes: Value) -> DeviceConfig {
    let map_cache = if kind == MapCacheKind::Leaftl {
        json!({ "kind": kind.name(), "bytes": "8KiB", "leaftl_gamma": 4, "leaftl_batch_pages": 64 })
    } else {
        json!({ "kind": kind.name(), "bytes": "10KiB" })
    };
    device(crate::common::merged(
        json!({
            "geometry": { "channels": 2, "ways": 2, "blocks_per_plane": 64, "pages_per_block": 64, "page_bytes": 4096,
                "spare_bytes": 1024 },
            "timing": { "read_us": 200, "program_us": 1600, "bus_mb_per_s": 40 },
            "ftl": { "over_provisioning": 0.5 },
            "map_cache": map_cache,
        }),
        changes,
    ))
}

fn run(config: &DeviceConfig, requests: &[Request]) -> (RunOutcome, MapCacheSummary) {
    let options = RunOptions {
        verify: config.model == Model::Drive,
        timing: false,
        series: Some(SeriesEvery::Requests(700)),
        ..RunOptions::default()
    };
    let (outcome, _) = run_with(config, requests, &options);
    assert_eq!(outcome.error, None);
    let cache = outcome.summary.parts.get::<MapCacheSummary>().unwrap();
    (outcome, cache)
}

/// Upwards with gaps, jumps and overwrites: no exact lines, but some nearby.
fn accesses(units: u64, count: usize, share_of_reads: u64) -> Vec<Request> {
    let (mut rng, mut at) = (Rng::new(1, "accesses"), 0);
    (0..count)
        .map(|_| {
            at = if rng.below(20) == 0 { rng.below(units) } else { (at + 1 + rng.below(3)) % units };
            let op = if rng.below(100) < share_of_reads { Op::Read } else { Op::Write };
            request(0.0, op, at * 8, 8)
        })
        .collect()
}

/// Nothing was ever written: no translation page exists, and nothing is read.
#[test]
fn pages_that_were_never_written_cost_no_fetch() {
    for kind in schemes() {
        let (outcome, cache) = run(&config(kind, json!({})), &accesses(8000, 5000, 100));
        assert_eq!(cache.lookups, 5000);
        assert!(cache.hits < cache.lookups, "{kind:?}");
        assert_eq!((cache.fetches, cache.fetch_bytes, cache.flash_reads), (0, 0, 0), "{kind:?}");
        assert_eq!(cache.penalty_ns, MapPenalty::default(), "{kind:?}");
        assert_eq!(outcome.summary.flash.reads.total, 0, "{kind:?}");
        let (_, cache) = run(&config(kind, json!({ "model": "mapping_cache" })), &accesses(8000, 5000, 100));
        assert!(
            cache.fetches > 0 && cache.penalty_ns.fetch > 0.0,
            "{kind:?}: in the model all of them exist"
        );
    }
}

/// Reads and programs of translation pages are those that are accounted for, one by one, from the first write on.
#[test]
fn commands_on_translation_pages_are_those_of_the_accounts() {
    for (at, kind) in schemes().enumerate() {
        let all = [
            (json!({}), 1),
            (json!({ "geometry": { "mapping_unit_bytes": 1024 } }), 4),
            (json!({ "geometry": { "mapping_unit_bytes": 512 }, "timing": { "copyback": true } }), 8),
        ];
        // In turn, where there is no time for all.
        let (first, step) = if is_long() { (0, 1) } else { (at % 3, 3) };
        for (changes, units_a_page) in all.into_iter().skip(first).step_by(step) {
            let config = config(kind, changes.clone());
            let pages = config.logical_pages() * config.unit_bytes() / 4096;
            let (outcome, cache) = run(&config, &accesses(pages, 30_000, 30));
            let told = format!("{kind:?}, {changes}: {cache:?}");
            assert!(cache.collections > 0 && cache.pages_copied > 0, "{told}");
            assert_eq!(
                cache.flash_programs,
                cache.write_backs + cache.gc_updates + cache.pages_copied,
                "{told}"
            );
            let flash = &outcome.summary.flash;
            assert_eq!(flash.programs.map + flash.copybacks.map, cache.flash_programs, "{told}");
            // What an update reads may not exist yet.
            let least = cache.fetches + cache.rest_reads + cache.pages_copied;
            assert!((least..=least + cache.gc_updates).contains(&cache.flash_reads), "{told}");
            assert!(cache.flash_reads <= flash.reads.map + flash.copybacks.map, "{told}");
            assert_eq!(
                flash.reads.map + flash.copybacks.map > cache.flash_reads,
                cache.mispredictions > 0,
                "{told}"
            );
            assert_eq!(config.geometry.page_bytes / config.unit_bytes(), units_a_page);
        }
    }
}

fn column<'a>(series: &'a Series, name: &str) -> &'a [f64] {
    let found = series.parts.iter().find(|column| column.0 == name);
    found.map_or(&[], |column| column.1.as_slice())
}

/// The mean of a column over lookups, added up.
fn added_up(series: &Series, name: &str) -> f64 {
    let lookups = column(series, "map_lookups");
    let terms = column(series, name).iter().zip(lookups).filter(|(_, lookups)| **lookups > 0.0);
    terms.map(|(mean, lookups)| mean * lookups).sum()
}

#[test]
fn the_series_adds_up_to_the_summary() {
    let mut probed = 0;
    for kind in schemes() {
        for model in ["drive", "mapping_cache"] {
            let config = config(kind, json!({ "model": model }));
            let (outcome, cache) = run(&config, &accesses(config.logical_pages(), 12_000, 60));
            let series = outcome.series.unwrap();
            let near = |name: &str, right: f64| {
                let found = added_up(&series, name);
                assert!(
                    (found - right).abs() <= 1e-9 * cache.penalty_ns.total,
                    "{kind:?}, {model}, {name}: {found}, {right}"
                );
            };
            assert!(column(&series, "map_lookups").len() > 10);
            assert!((column(&series, "map_lookups").iter().sum::<f64>() - cache.lookups as f64).abs() < 0.5);
            near("map_hit_ratio", cache.hits as f64);
            let penalty = cache.penalty_ns;
            assert!(penalty.total > 0.0);
            near("map_penalty_mean_ns", penalty.total);
            near("map_penalty_fetch_mean_ns", penalty.fetch);
            near("map_penalty_program_mean_ns", penalty.program);
            near("map_penalty_rest_mean_ns", penalty.rest);
            near("map_penalty_probe_mean_ns", penalty.probe);
            assert_eq!(column(&series, "map_penalty_probe_mean_ns").is_empty(), cache.mispredictions == 0);
            probed += cache.mispredictions;
            let parts = penalty.fetch + penalty.program + penalty.rest + penalty.probe;
            assert!((parts - penalty.total).abs() <= 1e-9 * penalty.total);
            if model == "mapping_cache" {
                assert_eq!(cache.flash_reads, cache.fetches + cache.rest_reads, "{kind:?}: {cache:?}");
            }
        }
    }
    assert!(probed > 0);
}

/// The preset has a flash of hardly any blocks and a table of 64 GiB.
#[test]
fn the_model_alone_counts_its_memory_by_logical_pages() {
    let model = config(
        MapCacheKind::FullPage,
        json!({ "model": "mapping_cache", "ftl": { "logical_bytes": "64GiB", "over_provisioning": null } }),
    );
    let (outcome, _) = run(&model, &accesses(8000, 100, 50));
    let memory = outcome.summary.memory;
    assert!((memory.bytes_per_page - memory.table_bytes as f64 / (16 << 20) as f64).abs() < 1e-9);
    let drive = config(MapCacheKind::FullPage, json!({}));
    let (outcome, _) = run(&drive, &accesses(8000, 100, 50));
    let memory = outcome.summary.memory;
    assert!((memory.bytes_per_page - memory.table_bytes as f64 / (4.0 * 64.0 * 64.0)).abs() < 1e-9);
}
