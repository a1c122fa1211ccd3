use super::*;
use crate::config::DeviceConfig;

/// Two planes of 16 blocks with 4 pages.
fn shape() -> (Geometry, FtlConfig) {
    let text = r#"{ "geometry": { "channels": 1, "ways": 1, "planes": 2, "blocks_per_plane": 16,
        "pages_per_block": 4, "page_bytes": 4096 }, "ftl": { "over_provisioning": 1.0 } }"#;
    let config: DeviceConfig = serde_json::from_str(text).unwrap();
    config.validate().unwrap();
    (Geometry::new(&config), config.ftl)
}

fn policy(kind: VictimKind, change: impl FnOnce(&mut FtlConfig)) -> Victims {
    let (geometry, mut config) = shape();
    config.gc = kind;
    change(&mut config);
    Victims::new(&geometry, &config, Rng::new(1, "gc"))
}

/// Seal rows 0..valid.len() of plane 1 full and invalidate each down to its count, in row order.
fn with_blocks(victims: &mut Victims, valid: &[u32]) {
    let (geometry, _) = shape();
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
    let (geometry, _) = shape();
    assert_eq!(victims.pick(PlaneId(0)), None, "plane 0 has no candidates");
    std::iter::from_fn(|| victims.pick(PlaneId(1)).map(|block| geometry.row_of(block))).collect()
}

#[test]
fn every_policy_gives_every_block_once() {
    for &kind in VictimKind::ALL {
        let mut victims = policy(kind, |_| {});
        with_blocks(&mut victims, &[4, 0, 2, 3, 1, 2]);
        let (geometry, _) = shape();
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
    let mut victims = policy(VictimKind::Greedy, |_| {});
    with_blocks(&mut victims, &[4, 1, 2, 1, 3, 2]);
    assert_eq!(drain(&mut victims), [1, 3, 2, 5, 4, 0]);
    let mut victims = policy(VictimKind::Greedy, |config| config.gc_tie = crate::config::TieBreak::Highest);
    with_blocks(&mut victims, &[4, 1, 2, 1, 3, 2]);
    assert_eq!(drain(&mut victims), [3, 1, 5, 2, 4, 0]);
}

#[test]
fn fifo_takes_the_oldest() {
    let mut victims = policy(VictimKind::Fifo, |_| {});
    with_blocks(&mut victims, &[4, 1, 2]);
    assert_eq!(drain(&mut victims), [0, 1, 2]);
}

#[test]
fn windowed_greedy_looks_no_further_than_its_window() {
    let mut victims = policy(VictimKind::WindowedGreedy, |config| config.gc_window = 2);
    with_blocks(&mut victims, &[3, 2, 0, 1]);
    // Windows: {0, 1}, {0, 2}, {0, 3}, {0}.
    assert_eq!(drain(&mut victims), [1, 2, 3, 0]);
}

#[test]
fn cost_benefit_prefers_an_old_block_to_a_slightly_emptier_young_one() {
    let mut victims = policy(VictimKind::CostBenefit, |_| {});
    // Row 0 lost its unit 7 events before row 3 lost the last of its two.
    with_blocks(&mut victims, &[3, 4, 4, 2]);
    // Ages 2 and 0: 2 x (1/4) / (3/2) = 1/3 beats 0; then row 3, full ones last.
    assert_eq!(drain(&mut victims)[0], 0);
    let mut victims = policy(VictimKind::CostBenefit, |_| {});
    with_blocks(&mut victims, &[3, 0]);
    assert_eq!(drain(&mut victims), [1, 0], "an empty block costs nothing");
}

#[test]
fn names_are_file_names_and_config_values() {
    for &kind in VictimKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
    }
}
