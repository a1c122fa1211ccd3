use super::*;
use crate::config::DeviceConfig;
use crate::ftl::gc::greedy::GreedyKeys;
use crate::ftl::gc::level_index::TieBreak;
use crate::ftl::gc::windowed_greedy::WindowedGreedyKeys;

/// Two planes of 16 blocks with 4 pages.
fn shape() -> Geometry {
    let text = r#"{ "geometry": { "channels": 1, "ways": 1, "planes": 2, "blocks_per_plane": 16,
        "pages_per_block": 4, "page_bytes": 4096 }, "ftl": { "over_provisioning": 1.0 } }"#;
    let config: DeviceConfig = serde_json::from_str(text).unwrap();
    config.validate().unwrap();
    config.to_geometry()
}

fn policy(choice: impl Into<VictimChoice>) -> Victims {
    Victims::new(&shape(), &choice.into(), Rng::new(1, "gc"))
}

/// Seal rows 0..valid.len() of plane 1 full and invalidate each down to its count, in row order.
fn with_blocks(victims: &mut Victims, valid: &[u32]) {
    let geometry = shape();
    for row in 0..valid.len() as u32 {
        victims.on_seal(geometry.block(PlaneId(1), row), 4);
    }
    for (row, valid) in (0..).zip(valid) {
        for left in (*valid..4).rev() {
            victims.on_invalidate(geometry.block(PlaneId(1), row), left);
        }
    }
}

fn drain(victims: &mut Victims) -> Vec<u32> {
    let geometry = shape();
    assert_eq!(victims.pick(PlaneId(0)), None, "plane 0 has no candidates");
    std::iter::from_fn(|| victims.pick(PlaneId(1)).map(|block| geometry.row_of(block))).collect()
}

#[test]
fn every_policy_gives_every_block_once() {
    for &kind in VictimKind::ALL {
        let mut victims = policy(kind);
        with_blocks(&mut victims, &[4, 0, 2, 3, 1, 2]);
        let geometry = shape();
        victims.remove(geometry.block(PlaneId(1), 3), 3);
        let mut rows = drain(&mut victims);
        rows.sort_unstable();
        assert_eq!(rows, [0, 1, 2, 4, 5], "{}", kind.name());
        // A block may come back in its next life.
        victims.on_seal(geometry.block(PlaneId(1), 1), 4);
        assert_eq!(drain(&mut victims), [1], "{}", kind.name());
    }
}

#[test]
fn greedy_takes_the_emptiest_and_breaks_ties_as_told() {
    for (tie, expected) in [
        (TieBreak::Lowest, [1, 3, 2, 5, 4, 0]),
        (TieBreak::Highest, [3, 1, 5, 2, 4, 0]),
        // After row 3 comes row 5, and after row 5 row 2.
        (TieBreak::Next, [1, 3, 5, 2, 4, 0]),
    ] {
        let mut victims = policy(VictimChoice::Greedy(GreedyKeys { gc_tie: tie }));
        with_blocks(&mut victims, &[4, 1, 2, 1, 3, 2]);
        assert_eq!(drain(&mut victims), expected, "{tie:?}");
    }
}

/// The level index against a list, over planes of more than 4096 and of more than 262,144 blocks: every word and its
/// summaries are used.
#[test]
#[ignore = "a long test: make test-long"]
fn ties_are_broken_the_same_way_in_large_planes() {
    for tie in [TieBreak::Lowest, TieBreak::Highest, TieBreak::Next] {
        for stride in [1, 40] {
            check_ties(tie, stride);
        }
    }
}

fn check_ties(tie: TieBreak, stride: u32) {
    const ROWS: u32 = 9000;
    let text = format!(
        r#"{{ "geometry": {{ "channels": 1, "ways": 1, "blocks_per_plane": {}, "pages_per_block": 3,
        "page_bytes": 4096 }} }}"#,
        ROWS * stride
    );
    let geometry = serde_json::from_str::<DeviceConfig>(&text).unwrap().to_geometry();
    let mut index = level_index::LevelIndex::new(&geometry, tie);
    let mut naive: Vec<(u32, u32)> = Vec::new();
    let mut rng = Rng::new(3, "ties");
    let mut last = None;
    let steps = if std::env::var_os("FTLAB_LONG").is_some() { 30_000 } else { 10_000 };
    for _ in 0..steps {
        let row = rng.below(u64::from(ROWS)) as u32 * stride;
        match naive.iter().position(|(other, _)| *other == row) {
            None => {
                let level = rng.below(4) as u32;
                naive.push((row, level));
                index.insert(BlockId(row), level);
            }
            Some(at) if naive[at].1 > 0 => {
                naive[at].1 -= 1;
                index.lower(BlockId(row), naive[at].1);
            }
            Some(_) => {}
        }
        if rng.below(3) == 0 {
            let lowest = naive.iter().map(|(_, level)| *level).min();
            let rows = naive.iter().filter(|(_, level)| Some(*level) == lowest).map(|(row, _)| *row);
            let expected = match tie {
                TieBreak::Lowest => rows.min(),
                TieBreak::Highest => rows.max(),
                TieBreak::Next => {
                    let rows: Vec<u32> = rows.collect();
                    let after = rows.iter().filter(|row| last.is_none_or(|last| **row > last)).min();
                    after.or(rows.iter().min()).copied()
                }
            };
            let found = index.pop(PlaneId(0)).map(|(block, _)| block.0);
            assert_eq!(found, expected, "{tie:?}");
            last = found.or(last);
            naive.retain(|(row, _)| Some(*row) != found);
        }
    }
}

#[test]
fn fifo_takes_the_oldest() {
    let mut victims = policy(VictimKind::Fifo);
    with_blocks(&mut victims, &[4, 1, 2]);
    assert_eq!(drain(&mut victims), [0, 1, 2]);
}

#[test]
fn windowed_greedy_looks_no_further_than_its_window() {
    let mut victims =
        policy(VictimChoice::WindowedGreedy(WindowedGreedyKeys { gc_window: 2, ..Default::default() }));
    with_blocks(&mut victims, &[3, 2, 0, 1]);
    // Windows: {0, 1}, {0, 2}, {0, 3}, {0}.
    assert_eq!(drain(&mut victims), [1, 2, 3, 0]);
}

#[test]
fn cost_benefit_prefers_an_old_block_to_a_slightly_emptier_young_one() {
    let mut victims = policy(VictimKind::CostBenefit);
    // Row 0 lost its unit 7 events before row 3 lost the last of its two.
    with_blocks(&mut victims, &[3, 4, 4, 2]);
    // Ages 2 and 0: 2 x (1/4) / (3/2) = 1/3 beats 0; then row 3, full ones last.
    assert_eq!(drain(&mut victims)[0], 0);
    let mut victims = policy(VictimKind::CostBenefit);
    with_blocks(&mut victims, &[3, 0]);
    assert_eq!(drain(&mut victims), [1, 0], "an empty block costs nothing");
}

#[test]
fn names_are_file_names_and_config_values() {
    for &kind in VictimKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
}
