//! Workload files and their `[workload]` table: what they may say, and how that is read and written.

use std::fmt;
use std::sync::LazyLock;

use ftlab_trace::keys::optional_micros;
use ftlab_trace::transform::Step;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::common::CommonKeys;
use crate::key_set::KeySet;
use crate::kinds::OwnKeys;
use crate::refusal::as_in_file;
use crate::stand_in::{Calibration, StandIn};
use crate::trace_keys::TraceKeys;

pub use crate::kinds::WorkloadKind;

/// A workload file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkloadFile {
    /// Name in reports; a preset's file name.
    ///
    /// Default: the name of the file, without its ending.
    #[serde(default)]
    pub name: String,
    /// What the workload is, and where its numbers come from.
    ///
    /// Default: empty, as a file that is read once needs none.
    #[serde(default)]
    pub description: String,
    /// The workload.
    pub workload: WorkloadConfig,
    /// What the workload stands for, when it is made to take the place of a recording that not everybody has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stand_in: Option<StandIn>,
    /// Statistics that the workload must have; a test holds the presets to theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Calibration>,
}

impl WorkloadKind {
    /// A workload of this kind with little more than its defaults, for tests and measurements; none where an example would
    /// take a page.
    pub fn example(self, requests: u64) -> Option<WorkloadConfig> {
        let keys = self.info().example;
        if keys.is_empty() {
            return None;
        }
        let mut config: WorkloadConfig =
            serde_json::from_str(keys).unwrap_or_else(|error| panic!("{}: {error}", self.name()));
        config.kind = Some(self);
        config.common.requests = Some(requests);
        Some(config)
    }
}

/// A phase of a workload: keys that hold for a time or for a number of requests. Phases take turns.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Phase {
    /// How many requests it lasts. Either this or `duration_us`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<u64>,
    /// How long it lasts. Either this or `requests`.
    #[serde(deserialize_with = "optional_micros", skip_serializing_if = "Option::is_none")]
    pub duration_us: Option<f64>,
    /// What is different in it: keys of the workload with their values.
    ///
    /// Default: nothing: a phase without changes is as the workload is.
    pub with: Box<WorkloadConfig>,
}

/// A workload: a `kind` of generator with its keys, or a `trace`. A key that the kind does not have is refused.
///
/// The table is flat in files. Here its keys lie in sets: those of traces, those that several kinds share, and those of
/// each kind.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct WorkloadConfig {
    /// How addresses and operations are chosen. Either this or `trace`.
    pub kind: Option<WorkloadKind>,
    /// Keys of recorded traces.
    pub recorded: TraceKeys,
    /// Keys that several kinds share.
    pub common: CommonKeys,
    /// Keys of one kind each.
    pub own: OwnKeys,
    /// Phases that take turns, from the first one on. None when absent.
    pub phases: Option<Vec<Phase>>,
    /// Steps that change the requests, in order.
    pub transform: Vec<Step>,
}

/// Keys that belong to no set, with what they mean.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct OtherKeys {
    /// How addresses and operations are chosen. Either this or `trace`.
    kind: Option<WorkloadKind>,
    /// Phases that take turns, from the first one on. None when absent.
    ///
    /// Default: none, as most workloads stay as they are.
    phases: Option<Vec<Phase>>,
    /// Steps that change the requests, in order: each begins with `step`, its name, and has the keys of that step.
    transform: Option<Vec<Step>>,
}

/// Every key of the table.
static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let sets = [&["kind"], TraceKeys::NAMES, CommonKeys::NAMES, &["phases", "transform"]];
    sets.iter().chain(OwnKeys::NAMES).flat_map(|names| names.iter().copied()).collect()
});

impl WorkloadConfig {
    /// A workload of `kind` with these keys, everything else at its default.
    pub fn new(kind: WorkloadKind, common: CommonKeys) -> Self {
        Self { kind: Some(kind), common, ..Self::default() }
    }

    /// The keys that are given, with their values in words, but for `transform`.
    pub(crate) fn given(&self) -> Vec<(&'static str, String)> {
        let mut given = Vec::new();
        given.extend(self.kind.as_ref().map(|kind| ("kind", as_in_file(kind))));
        given.extend(self.recorded.given());
        given.extend(self.common.given());
        given.extend(self.own.given());
        given.extend(self.phases.as_ref().map(|phases| ("phases", as_in_file(phases))));
        let shown = |key: &str, value: String| if key == "fitted" { "a model".into() } else { value };
        given.into_iter().map(|(key, value)| (key, shown(key, value))).collect()
    }

    /// These keys laid over those of `base`, which has phases. Keys of `base` are left out that the kind or the
    /// arrivals do not have, and what says the same in another way.
    pub(crate) fn over(&self, base: &WorkloadConfig) -> WorkloadConfig {
        let kind = self.kind.or(base.kind);
        let common = &self.common;
        let rate = common.rate_iops.is_some() || common.mean_interarrival_us.is_some();
        let keeps = |key: &str| {
            kind.is_none_or(|kind| kind.has(key))
                && common.interarrival.is_none_or(|arrivals| arrivals.has(key))
                && !(rate && matches!(key, "rate_iops" | "mean_interarrival_us"))
                && !(common.request_bytes.is_some()
                    && matches!(key, "read_bytes" | "write_bytes" | "trim_bytes"))
        };
        WorkloadConfig {
            kind,
            recorded: self.recorded.over(&base.recorded, &keeps),
            common: common.over(&base.common, &keeps),
            own: self.own.over(&base.own, &keeps),
            phases: self.phases.clone(),
            transform: Vec::new(),
        }
    }

    /// Take the value of `name`, which is the next one of `map`.
    fn read<'de, M: MapAccess<'de>>(&mut self, name: &str, map: &mut M) -> Result<(), M::Error> {
        match name {
            "kind" => self.kind = map.next_value()?,
            "phases" => self.phases = map.next_value()?,
            "transform" => self.transform = map.next_value()?,
            _ => {
                let known = self.recorded.read(name, map)?
                    || self.common.read(name, map)?
                    || self.own.read(name, map)?;
                if !known {
                    return Err(de::Error::unknown_field(name, &NAMES));
                }
            }
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for WorkloadConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = WorkloadConfig;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("struct WorkloadConfig")
            }
            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<WorkloadConfig, M::Error> {
                let mut config = WorkloadConfig::default();
                while let Some(name) = map.next_key::<String>()? {
                    config.read(&name, &mut map)?;
                }
                Ok(config)
            }
        }
        deserializer.deserialize_struct("WorkloadConfig", &NAMES, Keys)
    }
}

impl Serialize for WorkloadConfig {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some(kind) = self.kind {
            map.serialize_entry("kind", &kind)?;
        }
        self.recorded.write(&mut map)?;
        self.common.write(&mut map)?;
        self.own.write(&mut map)?;
        if let Some(phases) = &self.phases {
            map.serialize_entry("phases", phases)?;
        }
        if !self.transform.is_empty() {
            map.serialize_entry("transform", &self.transform)?;
        }
        map.end()
    }
}

impl JsonSchema for WorkloadConfig {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WorkloadConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut sets = vec![
            OtherKeys::json_schema(generator),
            TraceKeys::json_schema(generator),
            CommonKeys::json_schema(generator),
        ];
        sets.extend(OwnKeys::schemas(generator));
        let mut keys = serde_json::Map::new();
        for set in sets {
            if let Some(serde_json::Value::Object(properties)) = set.get("properties") {
                keys.extend(properties.clone());
            }
        }
        schemars::json_schema!({
            "description": "A workload: a `kind` of generator with its keys, or a `trace`. A key that the kind does not \
                have is refused.",
            "type": "object",
            "properties": keys,
            "additionalProperties": false,
        })
    }
}
