//! Contracts of every kind of workload in the list.

use ftlab_core::host::request::Request;
use ftlab_workload::{KindInfo, WorkloadConfig, WorkloadKind, kinds};
use serde_json::{Map, Value};

const REQUESTS: u64 = 3000;
const CAPACITY: u64 = 64 << 30;

/// Keys that kinds share, each with two values that make different requests, and what else they need.
const SHARED: &[(&str, &str, &str, &str)] = &[
    ("seed", "1", "2", "{}"),
    ("footprint_bytes", "\"32GiB\"", "\"16GiB\"", "{}"),
    ("offset_bytes", "0", "\"1MiB\"", "{}"),
    ("read_fraction", "0", "1", "{}"),
    ("trim_fraction", "0", "0.2", "{}"),
    ("flush_fraction", "0", "0.2", "{}"),
    ("request_bytes", "4096", "8192", "{}"),
    ("read_bytes", "4096", "8192", r#"{"read_fraction":0.5}"#),
    ("write_bytes", "4096", "8192", r#"{"read_fraction":0.5}"#),
    ("trim_bytes", "4096", "8192", r#"{"trim_fraction":0.5,"request_bytes":"8KiB"}"#),
    ("alignment_bytes", "4096", "8192", "{}"),
    ("interarrival", "\"fixed\"", "\"poisson\"", "{}"),
    ("mean_interarrival_us", "100", "200", "{}"),
    ("rate_iops", "100", "200", "{}"),
    ("gap_cv", "2", "4", r#"{"interarrival":"bursty"}"#),
    ("bursts", r#"{"on_us":100,"off_us":100}"#, r#"{"on_us":100,"off_us":300}"#, "{}"),
    ("think", r#"{"every_requests":5,"pause_us":1000}"#, r#"{"every_requests":5,"pause_us":9000}"#, "{}"),
    ("streams", "1", "2", "{}"),
    (
        "phases",
        r#"[{"requests":10},{"requests":10,"with":{"read_fraction":1}}]"#,
        r#"[{"requests":20},{"requests":10,"with":{"read_fraction":1}}]"#,
        "{}",
    ),
    ("scramble", "true", "false", "{}"),
    ("page_quota", "", "", "{}"),
];

/// Values for kinds that take no values of [`SHARED`], or make so few requests in so much room that those change none.
const OWN: &[(&str, &str, &str, &str, &str)] = &[
    ("sequential", "footprint_bytes", "\"1MiB\"", "\"2MiB\"", "{}"),
    ("phone_sqlite", "footprint_bytes", "\"290MiB\"", "\"300MiB\"", "{}"),
    ("phone_media", "footprint_bytes", "\"2400MiB\"", "\"2500MiB\"", r#"{"requests":100000}"#),
    ("web_search", "footprint_bytes", "\"1GiB\"", "\"2GiB\"", "{}"),
    ("jesd219", "trim_fraction", "0", "0.2", r#"{"jesd219":{"profile":"client"}}"#),
    ("jesd219", "flush_fraction", "0", "0.2", r#"{"jesd219":{"profile":"client"}}"#),
    ("db", "page_quota", r#"{"requests":3000,"pages":6500}"#, r#"{"requests":3000,"pages":6550}"#, "{}"),
    (
        "pc_general",
        "page_quota",
        r#"{"requests":3000,"pages":25000}"#,
        r#"{"requests":3000,"pages":25600}"#,
        "{}",
    ),
    (
        "oltp_financial",
        "page_quota",
        r#"{"requests":3000,"pages":5200}"#,
        r#"{"requests":3000,"pages":5250}"#,
        "{}",
    ),
];

/// Kind `uniform` takes one size for all requests where it trims, so that this key can only repeat that. The files of kind
/// `web_cache` take as much room as they need; a footprint that has it changes nothing.
const WITHOUT_EFFECT: &[(&str, &str)] = &[("uniform", "trim_bytes"), ("web_cache", "footprint_bytes")];

fn object(json: &str) -> Map<String, Value> {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{json}: {error}"))
}

/// The example of a kind with other keys laid over it.
fn with(kind: &KindInfo, keys: &[&Map<String, Value>]) -> WorkloadConfig {
    let mut all = object(kind.example);
    all.insert("kind".into(), kind.name.into());
    all.insert("requests".into(), REQUESTS.into());
    for keys in keys {
        all.extend((*keys).clone());
    }
    serde_json::from_value(Value::Object(all.clone())).unwrap_or_else(|error| panic!("{all:?}: {error}"))
}

fn requests(config: &WorkloadConfig) -> Result<Vec<Request>, String> {
    let factory = config.factory(CAPACITY, None, None).map_err(|error| error.to_string())?;
    let mut source = factory.open(0).map_err(|error| error.to_string())?;
    let mut requests = Vec::new();
    while source.fill(&mut requests, 1000).map_err(|error| error.to_string())? > 0 {}
    Ok(requests)
}

/// Kinds that have an example: all but those that need a model of a trace.
fn tried() -> Vec<KindInfo> {
    kinds().into_iter().filter(|kind| !kind.example.is_empty()).collect()
}

#[test]
fn names_are_those_of_files_and_keys_belong_to_one_kind() {
    for (kind, info) in WorkloadKind::ALL.iter().zip(kinds()) {
        assert_eq!(serde_json::to_value(kind).unwrap(), info.name);
        assert!(info.summary.ends_with('.') && info.summary.len() > 20, "{}", info.name);
        for key in info.own_keys {
            assert!(SHARED.iter().all(|(shared, ..)| shared != key), "{key}");
            let owners: Vec<_> = kinds().into_iter().filter(|other| other.own_keys.contains(key)).collect();
            assert_eq!(owners.len(), 1, "{key}");
        }
    }
    assert!(tried().len() + 1 >= kinds().len(), "at most one kind needs a model");
}

#[test]
fn every_key_of_every_kind_has_an_effect() {
    for kind in tried() {
        let plain = requests(&with(&kind, &[])).unwrap();
        assert_eq!(plain.len() as u64, REQUESTS, "{}", kind.name);
        let mut changed: Vec<&str> = Vec::new();
        for change in kind.changes {
            let keys = object(change);
            assert!(plain != requests(&with(&kind, &[&keys])).unwrap(), "{}: {change}", kind.name);
            changed.extend(kind.own_keys.iter().filter(|key| keys.contains_key(**key)));
        }
        assert_eq!(changed, kind.own_keys, "{}: a change for each key, in order", kind.name);
    }
}

#[test]
fn every_shared_key_has_an_effect_in_every_kind_that_has_it() {
    let mut without = Vec::new();
    for kind in tried() {
        for key in &kind.common_keys {
            if WITHOUT_EFFECT.contains(&(kind.name, key)) {
                continue;
            }
            let own = OWN.iter().find(|(name, of, ..)| *name == kind.name && of == key);
            let shared = SHARED.iter().find(|(name, ..)| name == key);
            let shared = shared.unwrap_or_else(|| panic!("{key} has no row"));
            let (first, second, more) =
                own.map_or((shared.1, shared.2, shared.3), |own| (own.2, own.3, own.4));
            let [first, second] = [first, second].map(|value| {
                let value = object(&format!("{{\"{key}\":{value}}}"));
                requests(&with(&kind, &[&object(more), &value]))
            });
            if first.is_err() || second.is_err() || first == second {
                let why = first.err().or(second.err()).unwrap_or_else(|| "no effect".into());
                without.push(format!("{} {key}: {why}", kind.name));
            }
        }
    }
    assert!(without.is_empty(), "{without:#?}");
}

#[test]
fn who_needs_no_arrivals_gets_the_same_requests() {
    let mut unmade = 0;
    for kind in tried() {
        for keys in [r#"{"interarrival":"poisson"}"#, r#"{"interarrival":"bursty","requests":300000}"#, "{}"]
        {
            let config = with(&kind, &[&object(keys)]);
            let Ok(factory) = config.factory(CAPACITY, None, None) else { continue };
            let [timed, untimed] = [false, true].map(|ignore| {
                let mut source = factory.open(0).unwrap();
                if ignore {
                    source.ignore_arrivals();
                }
                let mut requests = Vec::new();
                while requests.len() < 40_000 && source.fill(&mut requests, 1000).unwrap() > 0 {}
                requests
            });
            let at = |request: &Request, arrival_ns| Request { arrival_ns, ..*request };
            assert_eq!(timed.len(), untimed.len(), "{} {keys}", kind.name);
            for (one, other) in timed.iter().zip(&untimed) {
                assert_eq!(*one, at(other, one.arrival_ns), "{} {keys}", kind.name);
            }
            let is_timed = timed.last().is_some_and(|request| request.arrival_ns > 0);
            unmade += u32::from(is_timed && untimed.last().is_some_and(|request| request.arrival_ns == 0));
        }
    }
    assert!(unmade > 10, "{unmade} runs have made no arrivals");
}

/// A thread has made some with their arrivals when nobody wants them any more.
#[test]
fn arrivals_stay_in_order_when_nobody_asks_any_more() {
    for keys in [r#"{"interarrival":"poisson"}"#, r#"{"interarrival":"fixed"}"#, "{}"] {
        for kind in tried() {
            let config = with(&kind, &[&object(keys), &object(r#"{"requests":30000}"#)]);
            let Ok(factory) = config.factory(CAPACITY, None, None) else { continue };
            let mut source = factory.open(0).unwrap();
            let mut requests = Vec::new();
            source.fill(&mut requests, 1000).unwrap();
            source.ignore_arrivals();
            while source.fill(&mut requests, 1000).unwrap() > 0 {}
            let times = requests.iter().map(|request| request.arrival_ns);
            assert!(times.is_sorted(), "{} {keys}", kind.name);
        }
    }
}

#[test]
fn a_key_of_another_kind_is_refused_with_the_kinds_that_have_it() {
    for kind in tried() {
        for other in tried() {
            for change in other.changes {
                let keys = object(change);
                let Some(key) = keys.keys().find(|key| !kind.has(key)) else { continue };
                let error = with(&kind, &[&keys]).validate().unwrap_err();
                let expected = format!(
                    "has no effect with workload.kind = {:?}: it is a key of {}",
                    kind.name, other.name
                );
                assert_eq!(error.expected, expected, "{key}");
            }
        }
    }
}

#[test]
fn every_key_is_in_the_schema_and_survives_a_round_trip() {
    let schema = schemars::schema_for!(WorkloadConfig).to_value();
    let properties = schema["properties"].as_object().unwrap();
    for kind in kinds() {
        for key in kind.own_keys.iter().chain(&kind.common_keys) {
            let described = properties.get(*key).unwrap_or_else(|| panic!("{key}"));
            assert!(described["description"].is_string() || described["$ref"].is_string(), "{key}");
        }
    }
    for kind in tried() {
        for change in kind.changes {
            let config = with(&kind, &[&object(change)]);
            let text = serde_json::to_string(&config).unwrap();
            assert_eq!(serde_json::from_str::<WorkloadConfig>(&text).unwrap(), config);
        }
    }
}

#[test]
fn a_misspelt_and_a_doubled_key_are_named() {
    let error = serde_json::from_str::<WorkloadConfig>(r#"{"kind":"zipf","thetta":1}"#).unwrap_err();
    assert!(error.to_string().contains("unknown field `thetta`"), "{error}");
    let error = serde_json::from_str::<WorkloadConfig>(r#"{"theta":1,"theta":1}"#).unwrap_err();
    assert!(error.to_string().contains("duplicate field `theta`"), "{error}");
}
