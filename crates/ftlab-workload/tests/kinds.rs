//! Contracts of every kind of workload in the list.

use ftlab_workload::WorkloadKind;

#[test]
fn the_page_on_traces_names_every_kind() {
    let page = include_str!("../../../docs/traces.md");
    for name in WorkloadKind::ALL.iter().map(|kind| kind.name()) {
        assert!(page.contains(&format!("\n| `{name}` |")), "{name}");
    }
}
