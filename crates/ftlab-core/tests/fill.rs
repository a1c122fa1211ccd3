//! A fill that writes many pages at once leaves the drive that one leaves which writes page after page.

use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_core::host::request::{Request, VecSource};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::drives::{cases, drives, requests};
use crate::common::{device, of_chosen};

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
