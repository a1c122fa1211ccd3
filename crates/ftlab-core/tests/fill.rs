//! A fill that writes many pages at once leaves the drive that one leaves which writes page after page.

use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::rng::Rng;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::drives::{cases, drives, requests};
use crate::common::{device, of_chosen, request};

/// What a run tells, without what verification adds: every write is looked at then.
fn told(config: &Value, requests: &[Request], verify: bool) -> Value {
    let config = device(config.clone());
    let options = RunOptions { verify, ..RunOptions::default() };
    let source = VecSource::new(requests.to_vec());
    let outcome = simulate(&config, &source, &options, &RunControl::default(), &mut ()).unwrap();
    let mut summary = serde_json::to_value(&outcome.summary).unwrap();
    // A small drive refuses large requests, then both do.
    summary["error"] = json!(outcome.error.map(|error| error.to_string()));
    for key in ["verify", "memory"] {
        summary.as_object_mut().unwrap().remove(key);
    }
    summary
}

/// With one plane a die, a fill by blocks leaves the drive of one that is written, and the host goes on with the same die.
#[test]
fn both_layouts_are_one_drive_where_dies_have_one_plane() {
    for units in 61..64 {
        let of = |layout: &str| {
            let config = of_chosen(json!({
                "geometry": { "channels": 4, "ways": 1, "blocks_per_plane": 12, "pages_per_block": 4, "page_bytes": 4096 },
                "ftl": { "logical_pages": units, "striping": "dynamic" },
                "precondition": { "kind": "fill", "layout": layout },
            }));
            let mut rng = Rng::new(units, "layouts");
            let requests: Vec<Request> =
                (0..300).map(|_| request(0.0, Op::Write, 8 * rng.below(units), 8)).collect();
            told(&config, &requests, false)
        };
        assert_eq!(of("written"), of("blocks"), "{units} units");
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    #[ignore = "a long test: make test-long"]
    fn a_drive_filled_at_once_is_that_filled_page_by_page(
        mut config in drives(),
        requests in requests(),
        over_provisioning in proptest::sample::select(vec![0.25, 0.6, 1.5, 4.0]),
        steady in any::<bool>(),
    ) {
        config["precondition"]["kind"] = json!(if steady { "steady" } else { "fill" });
        let mut config = of_chosen(config);
        let roomy = config["ftl"]["over_provisioning"].clone();
        config["ftl"]["over_provisioning"] = json!(over_provisioning);
        if serde_json::from_value::<DeviceConfig>(config.clone()).unwrap().validate().is_err() {
            config["ftl"]["over_provisioning"] = roomy;
        }
        prop_assert_eq!(told(&config, &requests, false), told(&config, &requests, true));
    }
}
