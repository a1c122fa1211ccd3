//! Keys of workloads and the kinds that they belong to: a layer that chooses another kind, or a trace, drops what the one
//! below says and it does not have.

use ftlab_workload::{KindInfo, has_trace_key, kinds};

use crate::node::{Entry, Node, Table, Value};

/// Drop from the `[workload]` table of `base` the keys of its kind that the choice of the layer `over` does not have. Keys
/// that nobody has stay, to be refused.
pub(crate) fn drop_keys(base: &mut Table, over: &Table) {
    let Some(chosen) = over.get("workload").and_then(choice) else { return };
    let all = kinds();
    let known = |key: &str| has_trace_key(key) || all.iter().any(|kind| kind.has(key));
    if let Some(Entry { node: Node { value: Value::Table(keys), .. }, .. }) = base.get_mut("workload") {
        keys.retain(|key, _| !known(key) || chosen.has(key));
    }
}

/// What makes the requests.
enum Choice {
    Kind(KindInfo),
    Trace,
}

impl Choice {
    fn has(&self, key: &str) -> bool {
        match self {
            Choice::Kind(kind) => kind.has(key),
            Choice::Trace => has_trace_key(key),
        }
    }
}

/// What a table chooses, if that is anything.
fn choice(entry: &Entry) -> Option<Choice> {
    let Value::Table(keys) = &entry.node.value else { return None };
    match keys.get("kind").map(|entry| &entry.node.value) {
        Some(Value::String(name)) => kinds().into_iter().find(|kind| kind.name == name).map(Choice::Kind),
        _ => keys.contains_key("trace").then_some(Choice::Trace),
    }
}
