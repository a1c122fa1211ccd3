//! Drives and requests for tests.

pub mod drives;
pub mod nothing;

use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate};
use ftlab_core::ftl::kinds::FtlKind;
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::metrics::{CommandRecord, MemoryRecord, Observer, RequestRecord};
use serde_json::{Value, json};

/// A device from the sections in `value`.
pub fn device(value: Value) -> DeviceConfig {
    let config: DeviceConfig = serde_json::from_value(value).unwrap();
    config.validate().unwrap();
    config
}

/// `value` without the keys of schemes that it does not choose.
pub fn of_chosen(mut value: Value) -> Value {
    for axis in ftlab_core::schemes::axes() {
        let Some(section) = value.get_mut(axis.section).and_then(Value::as_object_mut) else { continue };
        let name = section.get(axis.key).and_then(Value::as_str).unwrap_or(axis.schemes[0].name);
        let chosen = axis.scheme(name).unwrap();
        section.retain(|key, _| chosen.has(key) || !axis.is_key(key));
    }
    value
}

/// `base` with the keys of `changes` put over it.
pub fn merged(mut base: Value, changes: Value) -> Value {
    merge(&mut base, changes);
    base
}

fn merge(base: &mut Value, changes: Value) {
    match (base, changes) {
        (Value::Object(base), Value::Object(changes)) => {
            for (key, value) in changes {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, changes) => *base = changes,
    }
}

/// One die of one plane: 32 blocks of 8 pages of 4 KiB, a quarter of it spare.
pub fn small() -> Value {
    json!({
        "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 32, "pages_per_block": 8, "page_bytes": 4096 },
        "ftl": { "over_provisioning": 0.33 },
    })
}

/// Every translation layer, as device files name them.
pub fn ftl_kinds() -> Vec<&'static str> {
    FtlKind::ALL.iter().map(|kind| kind.name()).collect()
}

/// Keys of `[ftl]` with which a block-mapped layer is tried, on four memories at least.
pub fn block_mapped(kind: &str) -> Vec<Value> {
    let all = [
        json!({}),
        json!({ "log_blocks": 12 }),
        json!({ "log_blocks": 16, "allocator": "dynamic", "cluster_memories": 2, "wear_leveling": "dynamic" }),
        json!({ "log_blocks": 12, "partial_row": "fill", "cluster_memories": 4, "log_always": true }),
    ];
    let with_kind =
        |keys: Value| of_chosen(json!({ "ftl": merged(json!({ "kind": kind }), keys) }))["ftl"].take();
    let mut variants: Vec<Value> = all.into_iter().map(with_kind).collect();
    variants.dedup();
    variants
}

/// A request of `sectors` at `lba` that arrives at `us`.
pub fn request(us: f64, op: Op, lba: u64, sectors: u32) -> Request {
    Request { arrival_ns: (us * 1000.0).round() as u64, lba, sectors, op, stream: 0, fua: false }
}

/// Collects what a run tells.
#[derive(Default)]
pub struct Log {
    pub requests: Vec<RequestRecord>,
    pub commands: Vec<CommandRecord>,
    pub memory: Vec<MemoryRecord>,
}

impl Observer for Log {
    fn wants_commands(&self) -> bool {
        true
    }
    fn wants_requests(&self) -> bool {
        true
    }
    fn on_request(&mut self, record: &RequestRecord) {
        self.requests.push(*record);
    }
    fn on_command(&mut self, record: &CommandRecord) {
        self.commands.push(*record);
    }
    fn on_memory(&mut self, record: &MemoryRecord) {
        self.memory.push(*record);
    }
}

/// Collects completions in their order, and asks for nothing else.
#[derive(Default)]
pub struct Completions(pub Vec<RequestRecord>);

impl Observer for Completions {
    fn wants_requests(&self) -> bool {
        true
    }
    fn on_request(&mut self, record: &RequestRecord) {
        self.0.push(*record);
    }
}

/// Run `requests` with verification; the run must not fail.
pub fn run(config: &DeviceConfig, requests: &[Request]) -> (RunOutcome, Log) {
    let options = RunOptions { verify: true, ..RunOptions::default() };
    let (outcome, log) = run_with(config, requests, &options);
    assert_eq!(outcome.error, None);
    (outcome, log)
}

/// Run `requests` as `options` say.
pub fn run_with(config: &DeviceConfig, requests: &[Request], options: &RunOptions) -> (RunOutcome, Log) {
    let mut log = Log::default();
    let source = VecSource::new(requests.to_vec());
    let outcome = simulate(config, &source, options, &RunControl::default(), &mut log).unwrap();
    log.requests.sort_unstable_by_key(|record| record.index);
    (outcome, log)
}

/// Latencies in microseconds, in order of arrival.
pub fn latencies(log: &Log) -> Vec<f64> {
    log.requests.iter().map(|record| record.end.since(record.start).as_ns_f64() / 1000.0).collect()
}
