//! Collection that is spread over writes.

use std::collections::BTreeMap;

use ftlab_core::cause::{Cause, Command};
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::RunOptions;
use ftlab_core::ftl::page::GcCounts;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::rng::Rng;
use serde_json::{Value, json};

use crate::common::{device, merged, of_chosen, request, run, run_with};

const PAGES: u32 = 64;

/// One plane, and `blocks` blocks of 64 pages.
fn drive(blocks: u32, changes: Value) -> DeviceConfig {
    let base = json!({
        "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": blocks, "pages_per_block": PAGES, "page_bytes": 4096 },
        "ftl": { "over_provisioning": 0.3, "gc_low_free_blocks": 1, "gc_pace": "even" },
        "host": { "arrival": "closed", "queue_depth": 1 },
    });
    device(of_chosen(merged(base, changes)))
}

/// The whole drive in order, and then `count` of its units at random.
fn writes(config: &DeviceConfig, count: u64) -> Vec<Request> {
    let (units, mut rng) = (config.logical_pages(), Rng::new(7, "writes"));
    let random = (0..count).map(|_| rng.below(units));
    (0..units).chain(random).map(|unit| request(0.0, Op::Write, unit * 8, 8)).collect()
}

/// What one write waited for: copies, of one victim, which had so many live units before the first.
#[derive(Debug, Default)]
struct Waited {
    victims: BTreeMap<u32, u32>,
    copies: u32,
    /// Free blocks when the copies began.
    free: u32,
}

/// Follow the commands of a run, and give what each write waited for.
fn followed(config: &DeviceConfig, requests: &[Request]) -> Vec<Waited> {
    let (_, log) = run(config, requests);
    let blocks = config.geometry.blocks_per_plane;
    let mut units = requests.iter().map(|request| request.lba / 8);
    let mut holds: BTreeMap<u64, u64> = BTreeMap::new();
    let mut home: BTreeMap<u64, u64> = BTreeMap::new();
    let mut written = vec![0_u32; blocks as usize];
    let mut of_victim = BTreeMap::new();
    let (mut all, mut now, mut source) = (Vec::new(), Waited::default(), None);
    let block_of = |page: u64| (page / u64::from(PAGES)) as u32;
    for record in &log.commands {
        let block = block_of(record.page);
        match (record.command, record.cause) {
            (Command::Read, Cause::Gc) => {
                let live = home.values().filter(|page| block_of(**page) == block).count() as u32;
                let live = *of_victim.entry(block).or_insert(live);
                now.victims.insert(block, live);
                source = Some(record.page);
            }
            (Command::Program, cause) => {
                let unit = match cause {
                    Cause::Gc => holds[&source.take().unwrap()],
                    _ => units.next().unwrap(),
                };
                written[block as usize] += 1;
                holds.insert(record.page, unit);
                home.insert(unit, record.page);
                if cause == Cause::Gc {
                    now.copies += 1;
                } else {
                    all.push(std::mem::take(&mut now));
                    now.free = written.iter().filter(|pages| **pages == 0).count() as u32;
                }
            }
            (Command::Erase, _) => {
                assert!(home.values().all(|page| block_of(*page) != block));
                written[block as usize] = 0;
                of_victim.remove(&block);
            }
            other => panic!("{other:?}"),
        }
    }
    all
}

#[test]
fn no_write_waits_for_more_than_its_share() {
    for changes in
        [json!({}), json!({ "gc_open_block": "shared" }), json!({ "gc_low_free_blocks": 3, "gc": "fifo" })]
    {
        let config = drive(40, json!({ "ftl": changes }));
        let all = followed(&config, &writes(&config, 20_000));
        assert!(all.iter().filter(|write| write.copies > 0).count() > 8_000, "{changes}");
        for write in &all {
            // Victims of a plane in need are emptied at once, and one after the other.
            if write.free <= config.ftl.gc_low_free_blocks {
                continue;
            }
            // So are those that gain nothing, which policies that choose blindly come to.
            let in_vain = write.victims.values().filter(|live| **live == PAGES).count() as u32;
            assert!(in_vain == 0 || config.ftl.gc.kind().name() == "fifo", "{changes}: {write:?}");
            assert!(write.victims.len() as u32 <= 1 + in_vain, "{changes}: {write:?}");
            let gaining = write.victims.values().filter(|live| **live < PAGES);
            let most: u32 = gaining.map(|live| live.div_ceil(PAGES - live) + 1).sum();
            assert!(write.copies <= most + in_vain * PAGES, "{changes}: {write:?}");
        }
        let steady = &all[config.logical_pages() as usize..];
        let short = steady.iter().filter(|write| write.free <= config.ftl.gc_low_free_blocks).count();
        if config.ftl.gc.kind().name() == "greedy" {
            assert!(short * 1000 <= steady.len(), "{changes}: {short} writes found a plane in need");
        }
    }
}

/// Write amplification of uniform random writes, the first drive writes left out.
fn amplification(config: &DeviceConfig) -> f64 {
    let copied = |count: u64| {
        let (outcome, _) = run(config, &writes(config, count));
        outcome.summary.parts.get::<GcCounts>().unwrap().pages_copied
    };
    let (before, count) = (4 * config.logical_pages(), 4 * config.logical_pages());
    1.0 + (copied(before + count) - copied(before)) as f64 / count as f64
}

#[test]
fn spreading_copies_costs_no_more_than_the_blocks_that_it_keeps() {
    let with = |pace: &str, low: u32| {
        let ftl = json!({ "gc_pace": pace, "gc_low_free_blocks": low });
        amplification(&drive(128, json!({ "ftl": ftl })))
    };
    let even = with("even", 1);
    let block: Vec<f64> = (1..=4).map(|low| with("block", low)).collect();
    // It keeps two or three free blocks.
    assert!(even < block[2] * 1.03, "{even} and {block:?}");
}

/// Policies that choose blindly come to wholly live blocks, and empty them. Cold data would stay where they are otherwise, and
/// the order of blocks would not be that of the policy. 95 % of the writes go to 5 % of the drive, or all of them to half of it.
#[test]
fn how_fast_a_victim_is_emptied_does_not_change_which_it_is() {
    for (gc, hot_share, hot_space) in
        [("fifo", 0.95, 0.05), ("fifo", 1.0, 0.5), ("windowed_greedy", 0.95, 0.05), ("random", 0.0, 0.05)]
    {
        let of = |pace: &str| {
            let ftl = json!({ "gc": gc, "gc_pace": pace, "over_provisioning": 0.1 });
            let config = drive(256, json!({ "ftl": ftl }));
            let (units, mut rng) = (config.logical_pages(), Rng::new(3, "hot"));
            let hot = (units as f64 * hot_space) as u64;
            let unit = |rng: &mut Rng| if rng.unit() < hot_share { rng.below(hot) } else { rng.below(units) };
            let later: Vec<u64> = (0..8 * units).map(|_| unit(&mut rng)).collect();
            let copied = |count: u64| {
                let written = (0..units).chain(later[..count as usize].iter().copied());
                let requests: Vec<Request> =
                    written.map(|unit| request(0.0, Op::Write, unit * 8, 8)).collect();
                let options = RunOptions { timing: false, ..RunOptions::default() };
                let summary = run_with(&config, &requests, &options).0.summary;
                (summary.parts.get::<GcCounts>().unwrap().pages_copied, summary.wear)
            };
            let (before, (after, wear)) = (copied(3 * units).0, copied(8 * units));
            (1.0 + (after - before) as f64 / (5 * units) as f64, wear)
        };
        let ((even, worn), (block, _)) = (of("even"), of("block"));
        // Two more free blocks are kept, of 23 that are spare.
        assert!((block * 0.99..block * 1.12).contains(&even), "{gc}: {even} and {block}");
        if gc == "fifo" {
            assert!(worn.erase_min + 2 >= worn.erase_max, "{gc}: {worn:?}");
        }
    }
}

#[test]
fn planes_that_are_compared_all_gain() {
    let with = |pace: &str| {
        let ftl = json!({ "gc_pace": pace, "gc_open_block": "shared", "plane_choice": "most_free" });
        amplification(&drive(64, json!({ "geometry": { "planes": 2 }, "ftl": ftl })))
    };
    let (even, block) = (with("even"), with("block"));
    assert!(even < block * 1.1, "{even} and {block}");
}

#[test]
fn what_cannot_be_done_in_the_middle_of_a_victim_is_refused() {
    let refused = |changes: Value| {
        let base = merged(
            serde_json::to_value(drive(40, json!({}))).unwrap(),
            json!({ "ftl": { "over_provisioning": 1.5 } }),
        );
        let config: DeviceConfig = serde_json::from_value(of_chosen(merged(base, changes))).unwrap();
        let error = config.validate().unwrap_err();
        assert!(error.to_string().contains("ftl.gc_pace"), "{error}");
        error.to_string()
    };
    let cached = json!({ "map_cache": { "kind": "dftl", "bytes": 4096 } });
    assert!(refused(cached).contains("map_cache.kind"));
    let cooperating = json!({ "nvm": { "kind": "cdm", "bytes": 65536 } });
    assert!(refused(cooperating).contains("nvm.kind"));
    let sorting = json!({ "ftl": { "placement": "sepbit" }, "geometry": { "mapping_unit_bytes": 2048 } });
    assert!(refused(sorting).contains("one mapping unit"));
}

#[test]
fn as_many_blocks_as_are_open_are_kept_beside_those_of_need() {
    let config = drive(40, json!({}));
    assert_eq!((config.ftl.gc_ahead(), config.ftl.kept_free()), (Some(3), 4));
    let config = drive(40, json!({ "ftl": { "gc_open_block": "shared", "streams": 3 } }));
    assert_eq!(config.ftl.gc_ahead(), Some(4));
    let config = drive(40, json!({ "ftl": { "gc_pace": "block" } }));
    assert_eq!((config.ftl.gc_ahead(), config.ftl.kept_free()), (None, 2));
}
