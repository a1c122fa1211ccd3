//! Keys of kinds of workloads, over several layers.

use ftlab_config::{Document, Kind, read_workload, within_workload};
use ftlab_workload::{WorkloadConfig, kinds};

const ZIPF: &str =
    "[workload]\nkind = 'zipf'\ntheta = 0.8\nscramble = false\nread_fraction = 0.5\nrequests = 7\n";

/// The workload of a file with the overrides of one command laid over it.
fn set(text: &str, overrides: &[&str]) -> Result<WorkloadConfig, String> {
    let mut document =
        Document::parse(Kind::Workload, text, "my.toml").map_err(|problems| problems.to_string())?;
    let layer = overrides.iter().map(|text| (*text, within_workload(text)));
    document.set(layer).map_err(|problems| problems.to_string())?;
    let file = read_workload(&document).map_err(|problems| problems.to_string())?;
    Ok(file.workload)
}

#[test]
fn another_kind_drops_the_keys_of_the_layer_below_that_it_does_not_have() {
    let uniform = set(ZIPF, &["kind=uniform"]).unwrap();
    assert_eq!((uniform.own.zipf.theta, uniform.common.scramble), (None, None));
    assert_eq!((uniform.common.read_fraction, uniform.common.requests), (Some(0.5), Some(7)));
    let pareto = set(ZIPF, &["kind=pareto", "pareto_h=0.3"]).unwrap();
    assert_eq!((pareto.common.scramble, pareto.own.pareto.pareto_h), (Some(false), Some(0.3)));
    // A trace has none of the keys of generators but the number of requests, and a kind none of those of traces.
    let trace = set(ZIPF, &["trace=my.spc"]).unwrap();
    assert_eq!((trace.kind, trace.common.read_fraction, trace.common.requests), (None, None, Some(7)));
    let kind = set("[workload]\ntrace = 'my.spc'\nskip_bad = 3\n", &["kind=uniform"]).unwrap();
    assert_eq!(kind.recorded.skip_bad, None);
}

/// Their sum was infinite, and so was the mean size.
#[test]
fn weights_have_a_sum() {
    for weights in ["{ 4KiB = 1e308, 8KiB = 1e308 }", "{ 4KiB = 1e16 }", "{ 4KiB = 0 }"] {
        let refused = set(ZIPF, &[&format!("request_bytes={weights}")]).unwrap_err();
        assert!(refused.contains("weights must be above 0, and at most 1e15"), "{refused}");
    }
    let refused = set("[workload]\nkind = 'pc_general'\n", &["pc_general.system=1e308"]).unwrap_err();
    assert!(refused.contains("must be a weight, from 0 to 1e15"), "{refused}");
}

#[test]
fn keys_of_another_kind_in_the_same_layer_are_refused_with_the_kinds_that_have_them() {
    let refused = set("[workload]\nkind = 'uniform'\ntheta = 1.0\n", &[]).unwrap_err();
    assert!(refused.contains("my.toml:3:"), "{refused}");
    let expected = "has no effect with workload.kind = \"uniform\": it is a key of zipf";
    assert!(refused.contains(expected), "{refused}");
    for overrides in [["kind=uniform", "theta=0.9"], ["theta=0.9", "kind=uniform"]] {
        let refused = set(ZIPF, &overrides).unwrap_err();
        assert!(refused.contains("theta") && refused.contains(expected), "{refused}");
    }
    let refused = set(ZIPF, &["trace=my.spc", "theta=0.9"]).unwrap_err();
    assert!(refused.contains("has no effect with a trace: it is a key of zipf"), "{refused}");
    let refused = set("[workload]\nkind = 'zoned_lgo'\n", &[]).unwrap_err();
    assert!(refused.contains("did you mean \"zoned\"") && refused.contains("my.toml:2:"), "{refused}");
}

#[test]
fn every_kind_may_follow_every_other() {
    for below in kinds().iter().filter(|kind| !kind.example.is_empty()) {
        let mut keys: serde_json::Value = serde_json::from_str(below.example).unwrap();
        keys["kind"] = below.name.into();
        for above in kinds().iter().filter(|kind| !kind.example.is_empty()) {
            let mut document = Document::parse(Kind::Workload, "", "below").unwrap();
            let mut over: serde_json::Value = serde_json::from_str(above.example).unwrap();
            over["kind"] = above.name.into();
            for layer in [&keys, &over] {
                document.merge_json("layer", &serde_json::json!({ "workload": layer })).unwrap();
            }
            let file = read_workload(&document);
            assert!(file.is_ok(), "{} over {}: {}", above.name, below.name, file.unwrap_err());
        }
    }
}
