//! Generating allocates nothing per request once warm.

#[path = "../../ftlab-trace/tests/counting/mod.rs"]
mod counting;

use counting::allocations;
use ftlab_workload::{WorkloadConfig, WorkloadKind, Zone};

/// One test, because the counter is shared by all threads.
#[test]
fn nothing_is_allocated_per_request_once_warm() {
    const HALF: u64 = 100_000;
    let zipf = WorkloadConfig {
        kind: Some(WorkloadKind::Zipf),
        read_fraction: Some(0.5),
        requests: Some(2 * HALF),
        ..WorkloadConfig::default()
    };
    let generator = zipf.factory(1 << 30, None, None).unwrap();
    assert_eq!(allocations(&mut *generator.open(0).unwrap(), HALF), 0);

    // Kind `fitted` needs a model, and stands for a trace: tests/fit.rs.
    for kind in WorkloadKind::ALL.into_iter().filter(|kind| *kind != WorkloadKind::Fitted) {
        let zones = vec![Zone { access_fraction: 1.0, space_fraction: 1.0 }];
        let part = WorkloadConfig { kind: Some(WorkloadKind::PhoneSqlite), ..WorkloadConfig::default() };
        let config = WorkloadConfig {
            kind: Some(kind),
            requests: Some(2 * HALF),
            zones: (kind == WorkloadKind::Zoned).then_some(zones),
            parts: (kind == WorkloadKind::Merge).then(|| vec![part]),
            ..WorkloadConfig::default()
        };
        let generator = config.factory(64 << 30, None, None).unwrap();
        let count = allocations(&mut *generator.open(0).unwrap(), HALF);
        // What a mechanism remembers (files, objects) may still grow, by doubling.
        assert!(count <= 40, "{}: {count}", kind.name());
    }
}
