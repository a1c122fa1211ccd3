//! `docs/guides/add-a-victim-policy.md` is true: its policy is this file's module, compiled and driven.

mod common;

// The policy stands in the guide as it would in `src/ftl/gc/`: these are the names that it finds there.
use ftlab_core::ftl::gc::VictimPolicy;
use ftlab_core::{config, geometry, rng};

#[path = "guide/second_chance.rs"]
mod second_chance;

use common::{device, merged, small};
use config::FtlConfig;
use ftlab_core::flash::port::Count;
use ftlab_core::flash::{Command, Flash};
use ftlab_core::ftl::page::PageFtl;
use ftlab_core::ftl::{Ftl, PageOp};
use geometry::{BlockId, Geometry, Lpn, PlaneId};
use rng::Rng;
use second_chance::SecondChance;
use serde_json::json;

#[test]
fn the_guide_shows_the_policy_that_is_tested_here() {
    let guide = include_str!("../../../docs/guides/add-a-victim-policy.md");
    assert!(guide.contains(include_str!("guide/second_chance.rs")), "copy the file into the guide");
}

#[test]
fn it_serves_the_oldest_and_spares_full_blocks_once() {
    let geometry = Geometry::new(&device(small()));
    let mut policy = SecondChance::new(&geometry, &FtlConfig::default(), Rng::new(1, "gc"));
    assert_eq!(policy.pick(PlaneId(0)), None);
    for block in 0..4 {
        policy.on_seal(BlockId(block), 8);
    }
    for valid in (3..8).rev() {
        policy.on_invalidate(BlockId(2), valid);
    }
    policy.remove(BlockId(3), 8);
    let order: Vec<_> = std::iter::from_fn(|| policy.pick(PlaneId(0))).map(|block| block.0).collect();
    assert_eq!(order, [2, 0, 1]);
}

#[test]
fn a_drive_with_it_keeps_its_tables_in_order() {
    for shape in [
        json!({}),
        json!({ "geometry": { "channels": 2, "planes": 2 }, "ftl": { "gc_open_block": "shared" } }),
        json!({ "geometry": { "mapping_unit_bytes": 1024 }, "ftl": { "over_provisioning": 4.0 } }),
        json!({ "ftl": { "wear_leveling": "static", "wear_leveling_threshold": 2 } }),
    ] {
        // A policy that is driven directly has no name in the list. Any name but greedy will do: the translation layer
        // takes greedy's word that a victim without stale units is the best there is.
        let config = device(merged(merged(small(), json!({ "ftl": { "gc": "fifo" } })), shape));
        let geometry = Geometry::new(&config);
        let mut flash = Flash::new(&config, &geometry, false, Count);
        let mut ftl = PageFtl::<SecondChance>::new(&config, &geometry, 1, false);
        let mut rng = Rng::new(1, "guide");
        for step in 0..20_000 {
            let lpn = Lpn(rng.below(u64::from(geometry.logical_units)) as u32);
            let op = PageOp {
                lpn,
                units: 1,
                first_sector: 0,
                sectors: geometry.sectors_per_unit,
                stream: 0,
                rest: 0,
            };
            if rng.below(10) == 0 {
                ftl.trim(&mut flash, &op, ()).unwrap();
            } else {
                ftl.write(&mut flash, &op, ()).unwrap();
            }
            if step % 100 == 0 {
                ftl.verify(&flash.nand).unwrap();
            }
        }
        ftl.verify(&flash.nand).unwrap();
        assert!(flash.counts[Command::Erase as usize].iter().sum::<u64>() > 1000, "it has collected");
    }
}
