//! Runs and sessions that end before their workload: the drive fails, or the user has seen enough.

use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate, simulate_unchecked};
use ftlab_core::error::RunError;
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::host::session::{Session, SessionError, SessionOptions};
use ftlab_core::metrics::{Observer, RequestRecord};

use crate::common::Completions;

/// A drive that validation refuses, as it fills up: one sector to a page of eight, which packing cannot free.
fn too_full(precondition: &str) -> DeviceConfig {
    let text = format!(
        r#"{{ "geometry": {{ "channels": 1, "ways": 1, "blocks_per_plane": 32, "pages_per_block": 2,
            "page_bytes": 4096, "mapping_unit_bytes": 512 }},
        "ftl": {{ "over_provisioning": 0.3 }},
        "host": {{ "arrival": "closed", "queue_depth": 4 }},
        "precondition": {{ "kind": "{precondition}" }} }}"#
    );
    let config: DeviceConfig = serde_json::from_str(&text).unwrap();
    let error = config.validate().unwrap_err();
    assert!(error.expected.starts_with("at most "), "{error}");
    config
}

fn fail(config: &DeviceConfig, requests: &[Request]) -> (RunOutcome, Vec<RequestRecord>) {
    let (mut completions, source) = (Completions::default(), VecSource::new(requests.to_vec()));
    let (options, control) = (RunOptions::default(), RunControl::default());
    let outcome = simulate_unchecked(config, &source, &options, &control, &mut completions);
    (outcome.unwrap(), completions.0)
}

#[test]
fn a_drive_that_fills_up_while_it_is_preconditioned_keeps_its_report() {
    let (outcome, _) = fail(&too_full("steady"), &[]);
    assert!(outcome.error.unwrap().to_string().contains("full"));
    let report = outcome.summary.precondition.unwrap();
    assert!(!report.reached && report.pages_written > 0 && outcome.summary.partial);
}

/// A drive that fails says so after it has told what it had begun; then it takes no more requests.
#[test]
fn a_session_with_a_drive_that_fails_tells_it_at_the_end() {
    let config = too_full("none");
    let sectors = config.logical_pages();
    let sector = |at: u64| Request {
        arrival_ns: 0,
        lba: at * 17 % sectors,
        sectors: 1,
        op: Op::Write,
        stream: 0,
        fua: false,
    };
    let requests: Vec<Request> = (0..4 * sectors).map(sector).collect();
    let (outcome, log) = fail(&config, &requests);
    let expected = outcome.error.unwrap();
    let RunError::Full(text) = &expected else { panic!("{expected:?}") };
    assert!(text.contains("full") && text.contains("plane 0"), "{text}");
    let options = SessionOptions { seed: 1, verify: false };
    let mut session = Session::new_unchecked(&config, &options, &RunControl::default()).unwrap();
    let (mut records, mut left) = (Vec::new(), requests.iter());
    for request in left.by_ref().take(4) {
        session.submit_now(*request).unwrap();
    }
    let failure = loop {
        match session.next_event() {
            Ok(Some(record)) => {
                records.push(record);
                // Refused once the drive has failed.
                let _ = session.submit_now(*left.next().unwrap());
            }
            Ok(None) => panic!("the drive has failed"),
            Err(error) => break error,
        }
    };
    let SessionError::Run(error) = failure else { panic!("{failure}") };
    assert_eq!(error, expected);
    assert_eq!(records, log);
    assert_eq!(session.submit_now(requests[0]), Err(SessionError::Run(error.clone())));
    assert_eq!(session.close().unwrap().error, Some(error));
}

/// An interruption is heard in the middle of a request, and is no error.
#[test]
fn an_interruption_ends_a_long_request_and_keeps_what_was_measured() {
    struct Interrupting<'a>(&'a RunControl);
    impl Observer for Interrupting<'_> {
        fn wants_requests(&self) -> bool {
            true
        }
        fn on_request(&mut self, _: &RequestRecord) {
            self.0.cancel();
        }
    }
    let text = r#"{ "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 64, "pages_per_block": 64,
            "page_bytes": 4096 }, "host": { "arrival": "closed", "queue_depth": 1 } }"#;
    let config: DeviceConfig = serde_json::from_str(text).unwrap();
    let long = Request { arrival_ns: 0, lba: 0, sectors: 8 * 3000, op: Op::Write, stream: 0, fua: false };
    for timing in [false, true] {
        let (control, options) = (RunControl::default(), RunOptions { timing, ..RunOptions::default() });
        let source = VecSource::new(vec![long; 3]);
        let outcome = simulate(&config, &source, &options, &control, &mut Interrupting(&control)).unwrap();
        assert_eq!(outcome.error, None);
        assert!(outcome.summary.partial);
        // The first request ended, and nothing of the second one was done.
        assert_eq!(outcome.summary.host.completed, 1);
        assert_eq!(outcome.summary.flash.programs.total, 3000);
    }
}
