//! Write buffers: every order, rate and shape of drive against a naive model, and what must be equal.

use crate::common::drives::{cases, drives, requests};
use crate::common::run_with;
use ftlab_core::buffer::BufferKind;
use ftlab_core::buffer::front::BufferCounts;
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunError, RunOptions, RunOutcome};
use ftlab_core::host::request::{Op, Request};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Every order of the list.
fn orders() -> Vec<&'static str> {
    BufferKind::ALL.iter().map(|kind| kind.name()).filter(|name| *name != "none").collect()
}

fn counts(outcome: &RunOutcome) -> BufferCounts {
    outcome.summary.parts.get().expect("the drive has a buffer")
}

/// `drive` with a buffer of `keys`, as large as its order needs at least; `None` when the drive cannot have it.
fn buffered(mut drive: Value, keys: Value) -> Option<DeviceConfig> {
    drive["buffer"] = keys;
    let config: DeviceConfig = serde_json::from_value(drive).unwrap();
    config.validate().is_ok().then_some(config)
}

/// The keys of a buffer of any kind, small against the drives of these tests.
fn buffers() -> impl Strategy<Value = Value> {
    let rate = prop_oneof![Just(json!("one")), Just(json!("cave")), (1..6_u32).prop_map(|rate| json!(rate))];
    let kind = proptest::sample::select(orders());
    let write = prop_oneof![6 => Just("back"), 1 => Just("through")];
    let select = prop_oneof![3 => Just("order"), 1 => Just("distinct")];
    let names = (kind, write, select, proptest::sample::select(vec!["victims", "pages"]), any::<bool>());
    let sizes = (1..40_u64, prop_oneof![3 => Just(0_u64), 1 => 1..64_u64], 0..3_u32, 0..3_u32, any::<bool>());
    (rate, names, sizes).prop_map(|(rate, names, sizes)| {
        let (kind, write, select, unit, by_event) = names;
        let (frames, bypass, access, prefetch, drains) = sizes;
        json!({ "kind": kind, "bytes": frames * 4096, "write": write, "rate": rate, "rate_unit": unit,
            "select": select, "wait": if by_event { "event" } else { "frame" }, "access_us": f64::from(access) * 0.7,
            "mb_per_s": if access > 1 { 800 } else { 0 }, "drain_at_end": drains, "bypass_bytes": bypass * 1024,
            "prefetch_pages": prefetch })
    })
}

/// `requests` that fit the drive, some of them FUA.
fn fitting(config: &DeviceConfig, requests: Vec<Request>) -> Vec<Request> {
    let sectors = config.logical_pages() * config.unit_bytes() / 512;
    let fit = |(at, request): (usize, Request)| Request {
        sectors: request.sectors.min(sectors as u32),
        fua: request.op == Op::Write && at % 7 == 0,
        ..request
    };
    requests.into_iter().enumerate().map(fit).collect()
}

/// What a run has counted, without the times that only a clock knows.
fn without_times(outcome: &RunOutcome) -> String {
    let mut parts = serde_json::to_value(&outcome.summary.parts).unwrap();
    for key in ["drain_ns", "mean_wait_ns"] {
        if let Some(buffer) = parts["buffer"].as_object_mut() {
            buffer.remove(key);
            buffer.remove("table_bytes");
        }
    }
    parts.to_string()
}

/// The first number in which two documents differ.
fn difference(one: &Value, other: &Value) -> Option<String> {
    if let (Value::Object(one), Value::Object(other)) = (one, other) {
        let keys = one.keys().chain(other.keys());
        let inside = |key: &String| {
            let (one, other) = (one.get(key).unwrap_or(&Value::Null), other.get(key).unwrap_or(&Value::Null));
            difference(one, other).map(|text| format!("{key}.{text}"))
        };
        return keys.filter_map(|key| inside(key)).next();
    }
    (one != other).then(|| format!(": {one} and {other}"))
}

/// A run with verification, after which everything holds together.
fn checked(
    config: &DeviceConfig,
    requests: &[Request],
    options: &RunOptions,
) -> Result<RunOutcome, TestCaseError> {
    let (outcome, _) = run_with(config, requests, options);
    prop_assert_eq!(&outcome.error, &None::<RunError>);
    let verify = outcome.summary.verify.as_ref().unwrap();
    prop_assert!(verify.tables_agree && verify.mismatches == 0);
    Ok(outcome)
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn reads_return_the_last_write_through_every_buffer(drive in drives(), keys in buffers(), asked in requests()) {
        let Some(config) = buffered(drive, keys) else { return Ok(()) };
        let requests = fitting(&config, asked);
        let timed = RunOptions { verify: true, ..RunOptions::default() };
        let outcome = checked(&config, &requests, &timed)?;
        let counts = counts(&outcome);
        let host = &outcome.summary.host;
        prop_assert_eq!(counts.read_hits + counts.read_misses, host.read_pages);
        prop_assert_eq!(counts.write_hits + counts.write_misses, host.write_pages);

        // Order and time are two things: the same commands without a clock, and whatever a write waits for.
        let untimed = checked(&config, &requests, &RunOptions { timing: false, ..timed.clone() })?;
        prop_assert_eq!(&untimed.summary.flash, &outcome.summary.flash);
        prop_assert_eq!(without_times(&untimed), without_times(&outcome));

        // Both ports that keep time tell the same.
        let events = checked(&config, &requests, &RunOptions { event_by_event: true, ..timed })?;
        let text = |outcome: &RunOutcome| {
            let mut summary = serde_json::to_value(&outcome.summary).unwrap();
            summary["memory"] = Value::Null;
            summary["buffer"]["table_bytes"] = Value::Null;
            summary
        };
        prop_assert_eq!(difference(&text(&events), &text(&outcome)), None);
    }
}
