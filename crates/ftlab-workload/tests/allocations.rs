//! Generating allocates nothing per request once warm.

#[path = "../../ftlab-trace/tests/counting/mod.rs"]
mod counting;

use counting::allocations;
use ftlab_workload::{CommonKeys, WorkloadConfig, WorkloadKind};

/// One test, because the counter is shared by all threads.
#[test]
fn nothing_is_allocated_per_request_once_warm() {
    const HALF: u64 = 100_000;
    let common = CommonKeys { read_fraction: Some(0.5), requests: Some(2 * HALF), ..CommonKeys::default() };
    let generator = WorkloadConfig::new(WorkloadKind::Zipf, common).factory(1 << 30, None, None).unwrap();
    assert_eq!(allocations(&mut *generator.open(0).unwrap(), HALF), 0);

    // Kind `fitted` has no example, and stands for a trace: tests/fit.rs.
    for (kind, config) in WorkloadKind::ALL.iter().filter_map(|kind| Some((kind, kind.example(2 * HALF)?))) {
        let generator = config.factory(64 << 30, None, None).unwrap();
        let count = allocations(&mut *generator.open(0).unwrap(), HALF);
        // What a mechanism remembers (files, objects) may still grow, by doubling.
        assert!(count <= 40, "{}: {count}", kind.name());
    }
}
