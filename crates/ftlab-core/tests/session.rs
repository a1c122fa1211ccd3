//! Sessions: a drive that is fed request by request is the drive of a run.

use crate::common::drives::{cases, drives, requests_of};
use crate::common::{Log, device, merged, of_chosen, small};
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate};
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::host::session::{Session, SessionError, SessionOptions};
use ftlab_core::metrics::RequestRecord;
use ftlab_core::time::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

const OPTIONS: SessionOptions = SessionOptions { seed: 1, verify: true };

fn session(config: &DeviceConfig) -> Session {
    Session::new(config, &OPTIONS, &RunControl::default()).unwrap()
}

/// What a run says: its completions in order, and everything it has measured.
fn run(config: &DeviceConfig, requests: &[Request]) -> (Vec<RequestRecord>, RunOutcome) {
    let (mut log, options) = (Log::default(), RunOptions { verify: true, ..RunOptions::default() });
    let source = VecSource::new(requests.to_vec());
    let outcome = simulate(config, &source, &options, &RunControl::default(), &mut log).unwrap();
    (log.requests, outcome)
}

/// All completions that are left.
fn finish(session: &mut Session, records: &mut Vec<RequestRecord>) {
    while let Some(record) = session.next_event().unwrap() {
        records.push(record);
    }
}

/// How a client with open arrivals feeds a session.
#[derive(Debug, Clone, Copy)]
enum Feeding {
    /// All requests beforehand.
    Beforehand,
    /// Each one when the time of its arrival has come.
    InTime,
    /// Each one when the one before has arrived.
    OneAhead,
}

fn feed(config: &DeviceConfig, requests: &[Request], feeding: Feeding) -> (Vec<RequestRecord>, RunOutcome) {
    let (mut session, mut records) = (session(config), Vec::new());
    let mut before = Time::ZERO;
    for request in requests {
        let at = Time::from_ns(request.arrival_ns);
        match feeding {
            Feeding::Beforehand => {}
            Feeding::InTime => records.extend(session.advance(at).unwrap()),
            Feeding::OneAhead => records.extend(session.advance(before).unwrap()),
        }
        session.submit(*request, at).unwrap();
        before = at;
    }
    finish(&mut session, &mut records);
    (records, session.close().unwrap())
}

/// A closed loop: each completion is answered with the next request.
fn feed_closed(config: &DeviceConfig, requests: &[Request]) -> (Vec<RequestRecord>, RunOutcome) {
    let (mut session, mut records) = (session(config), Vec::new());
    let mut left = requests.iter();
    for request in left.by_ref().take(config.host.depth().unwrap() as usize) {
        session.submit_now(*request).unwrap();
    }
    while let Some(record) = session.next_event().unwrap() {
        records.push(record);
        if let Some(request) = left.next() {
            session.submit_now(*request).unwrap();
        }
    }
    (records, session.close().unwrap())
}

/// The same by one call.
fn send(config: &DeviceConfig, requests: &[Request]) -> (Vec<RequestRecord>, RunOutcome) {
    let (mut session, control) = (session(config), RunControl::default());
    let depth = config.host.depth().unwrap() as usize;
    let records = session.send(requests, depth, Time::ZERO, &control).unwrap();
    (records, session.close().unwrap())
}

fn same(case: &str, session: &(Vec<RequestRecord>, RunOutcome), run: &(Vec<RequestRecord>, RunOutcome)) {
    for (at, (one, other)) in session.0.iter().zip(&run.0).enumerate() {
        assert_eq!(one, other, "{case}: completion {at}");
    }
    assert_eq!(session.0.len(), run.0.len(), "{case}");
    assert_eq!(session.1.error, run.1.error, "{case}");
    let document = |outcome: &RunOutcome| serde_json::to_value(&outcome.summary).unwrap();
    let (one, other) = (document(&session.1), document(&run.1));
    for (key, value) in one.as_object().unwrap() {
        // A copied table has no room to grow.
        if key != "memory" {
            assert_eq!(value, &other[key], "{case}: {key}");
        }
    }
    assert_eq!(one.as_object().unwrap().len(), other.as_object().unwrap().len(), "{case}");
}

/// What of `requests` the smallest drives can take.
fn bounded(drive: &Value, mut requests: Vec<Request>) -> Vec<Request> {
    let sectors = session(&with_host(drive, &json!({}))).sectors();
    for request in &mut requests {
        request.sectors = request.sectors.min(sectors as u32);
    }
    requests
}

/// The drive with another host: `host` without its limit of requests.
fn with_host(drive: &Value, host: &Value) -> DeviceConfig {
    let mut drive = drive.clone();
    for key in ["arrival", "queue_depth", "outstanding", "scheduler"] {
        drive["host"].as_object_mut().unwrap().remove(key);
    }
    // The host is what this is about: drives need not be aged for long.
    let changes = json!({ "host": host, "precondition": { "max_drive_writes": 2 } });
    device(of_chosen(merged(drive, changes)))
}

proptest! {
    #![proptest_config(cases(25))]

    #[test]
    fn a_session_is_a_run_that_is_fed_by_hand(
        drive in drives(),
        requests in requests_of(500),
        feeding in proptest::sample::select(vec![Feeding::Beforehand, Feeding::InTime, Feeding::OneAhead]),
        sent in any::<bool>(),
        by_address in any::<bool>(),
    ) {
        let requests = bounded(&drive, requests);
        let kind = drive["ftl"]["kind"].as_str().unwrap_or_default().to_owned();
        for depth in [1, 4, 32] {
            let scheduler = if by_address { "c_look" } else { "fifo" };
            let host = json!({ "arrival": "open", "outstanding": depth, "scheduler": scheduler });
            let config = with_host(&drive, &host);
            let expected = run(&config, &requests);
            same(&format!("{kind}, {depth}, {feeding:?}"), &feed(&config, &requests, feeding), &expected);
            let config = with_host(&drive, &json!({ "arrival": "closed", "queue_depth": depth }));
            let expected = run(&config, &requests);
            let fed = if sent { send(&config, &requests) } else { feed_closed(&config, &requests) };
            same(&format!("{kind}, closed, {depth}, sent: {sent}"), &fed, &expected);
        }
    }
}

proptest! {
    #![proptest_config(cases(30))]

    #[test]
    fn forks_go_on_alike_and_apart(drive in drives(), requests in requests_of(120), half in 0..120_usize) {
        let requests = bounded(&drive, requests);
        let kind = drive["ftl"]["kind"].as_str().unwrap_or_default();
        let config = with_host(&drive, &json!({ "arrival": "open", "outstanding": 4 }));
        let mut original = session(&config);
        let mut told = Vec::new();
        for request in &requests[..half] {
            told.extend(original.advance(Time::from_ns(request.arrival_ns)).unwrap());
            original.submit(*request, Time::from_ns(request.arrival_ns)).unwrap();
        }
        let mut forks = [original.fork().unwrap(), original.fork().unwrap()];
        // What happens to the original is nothing to its forks.
        for request in requests[half..].iter().rev() {
            original.submit_now(*request).unwrap();
        }
        original.close().unwrap();
        let mut ends = forks.iter_mut().map(|fork| {
            let mut records = told.clone();
            for request in &requests[half..] {
                records.extend(fork.advance(Time::from_ns(request.arrival_ns)).unwrap());
                fork.submit(*request, Time::from_ns(request.arrival_ns)).unwrap();
            }
            finish(fork, &mut records);
            (records, fork.close().unwrap())
        });
        let expected = run(&config, &requests);
        same(kind, &ends.next().unwrap(), &expected);
        same(kind, &ends.next().unwrap(), &expected);
    }
}

fn write(page: u64) -> Request {
    Request { arrival_ns: 0, lba: page * 8, sectors: 8, op: Op::Write, stream: 0, fua: false }
}

fn at_us(us: u64) -> Time {
    Time::from_ns(us * 1000)
}

#[test]
fn what_a_session_cannot_take_is_refused_and_it_goes_on() {
    let mut session = session(&device(small()));
    let sectors = session.sectors();
    let first = session.submit(write(0), at_us(10)).unwrap();
    let unordered = SessionError::Unordered { at: at_us(9), earliest: at_us(10) };
    assert_eq!(session.submit(write(1), at_us(9)), Err(unordered));
    let beyond = Request { sectors: 16, ..write(sectors / 8 - 1) };
    let refused = SessionError::Beyond { lba: sectors - 8, sectors: 16, drive_sectors: sectors };
    assert_eq!(session.submit(beyond, at_us(20)), Err(refused.clone()));
    assert_eq!(session.submit_now(beyond), Err(refused.clone()));
    assert_eq!(
        session.submit_now(Request { lba: u64::MAX, ..write(0) }),
        Err(SessionError::Beyond { lba: u64::MAX, sectors: 8, drive_sectors: sectors })
    );
    assert_eq!(session.submit_now(Request { sectors: 0, ..write(0) }), Err(SessionError::Empty));
    assert_eq!(session.submit(write(1), Time::NEVER), Err(SessionError::TooLate(Time::NEVER)));
    assert_eq!(session.advance(Time::NEVER), Err(SessionError::TooLate(Time::NEVER)));
    assert_eq!(session.wait(1), Err(SessionError::UnknownRequest(1)));
    let control = RunControl::default();
    assert_eq!(session.send(&[write(1), beyond], 2, Time::ZERO, &control), Err(refused));
    assert_eq!(session.outstanding(), 1, "nothing of it was sent");

    assert_eq!(session.advance(at_us(15)).unwrap(), []);
    let backwards = SessionError::Backwards { until: at_us(14), now: at_us(15) };
    assert_eq!(session.advance(at_us(14)), Err(backwards));
    let unordered = SessionError::Unordered { at: at_us(14), earliest: at_us(15) };
    assert_eq!(session.submit(write(1), at_us(14)), Err(unordered));
    let second = session.submit_now(write(1)).unwrap();
    assert_eq!((first, second), (0, 1), "what is refused has no number");
    let record = session.wait(second).unwrap();
    assert_eq!((record.index, record.arrival, record.start), (1, at_us(15), at_us(15)));
    assert_eq!(session.wait(second), Err(SessionError::UnknownRequest(second)));
    assert_eq!(session.next_event().unwrap().unwrap().index, first);
    let now = session.now().unwrap();
    assert_eq!(session.next_event().unwrap(), None);
    assert_eq!(session.now().unwrap(), now, "with nothing outstanding time stands still");

    let outcome = session.close().unwrap();
    assert_eq!((outcome.error, outcome.summary.host.completed), (None, 2));
    assert_eq!(session.submit(write(0), at_us(1_000_000)), Err(SessionError::Closed));
    assert_eq!(session.submit_now(write(0)), Err(SessionError::Closed));
    assert_eq!(session.advance(at_us(1_000_000)), Err(SessionError::Closed));
    assert_eq!(session.next_event(), Err(SessionError::Closed));
    assert_eq!(session.wait(0), Err(SessionError::Closed));
    assert_eq!(session.fork().err(), Some(SessionError::Closed));
    assert_eq!(session.close().err(), Some(SessionError::Closed));
}

#[test]
fn devices_that_cannot_have_a_session_are_refused() {
    let refused = |changes: Value| {
        let config = device(merged(small(), changes));
        match Session::new(&config, &OPTIONS, &RunControl::default()) {
            Err(SessionError::Device(error)) => error.key,
            other => panic!("{other:?}"),
        }
    };
    let map_only = json!({ "model": "mapping_cache", "map_cache": { "kind": "dftl", "bytes": 4096 } });
    assert_eq!(refused(map_only), "model");
    let workload = json!({ "precondition": { "kind": "steady", "pattern": "workload" } });
    assert_eq!(refused(workload), "precondition.pattern");
    let mut config = device(small());
    config.geometry.channels = 0;
    let error = Session::new(&config, &OPTIONS, &RunControl::default()).unwrap_err();
    assert!(matches!(error, SessionError::Device(error) if error.key == "geometry.channels"));
    let control = RunControl::default();
    control.cancel();
    let config = device(merged(small(), json!({ "precondition": { "kind": "fill" } })));
    assert_eq!(Session::new(&config, &OPTIONS, &control).err(), Some(SessionError::Interrupted));
}

/// A request that is sent by a gap after the completion of another.
#[test]
fn a_gap_follows_each_completion() {
    let config = device(small());
    let requests: Vec<Request> = (0..20).map(write).collect();
    let (gap, control) = (at_us(30), RunControl::default());
    let records = session(&config).send(&requests, 2, gap, &control).unwrap();
    for (at, record) in records.iter().enumerate().skip(2) {
        assert_eq!(record.arrival, records[at - 2].end + gap);
    }
    assert_eq!(records.len(), 20);
}

/// Groups arrive whole, a gap after the last request of the one before, whatever else is on its way.
#[test]
fn groups_arrive_at_one_instant() {
    let config = device(small());
    let requests: Vec<Request> = (0..20).map(write).collect();
    let (mut session, gap, control) = (session(&config), at_us(30), RunControl::default());
    let early = session.submit_now(write(30)).unwrap();
    let records = session.send_together(&requests, 3, gap, &control).unwrap();
    assert_eq!(records.len(), 20);
    for (at, group) in records.chunks(3).enumerate() {
        assert!(group.iter().all(|record| record.arrival == group[0].arrival), "{at}");
        let before = if at == 0 { Time::ZERO } else { records[3 * at - 1].end + gap };
        assert_eq!(group[0].arrival, before, "{at}");
    }
    assert_eq!(session.next_event().unwrap().unwrap().index, early, "it was not of a group");
    let now = session.now().unwrap();
    session.submit_now(write(31)).unwrap();
    assert_eq!(session.idle(at_us(5000)).unwrap().len(), 1);
    assert_eq!(session.now().unwrap(), now + at_us(5000));
    let beyond = Request { sectors: 16, ..write(session.sectors() / 8 - 1) };
    assert!(session.send_together(&[write(1), beyond], 2, gap, &control).is_err());
    assert_eq!((session.outstanding(), session.now().unwrap()), (0, now + at_us(5000)));
    control.cancel();
    assert_eq!(session.send_together(&requests, 3, gap, &control).unwrap(), []);
}

#[test]
fn what_takes_no_time_is_told_to_those_who_wait() {
    let mut session = session(&device(small()));
    session.serve(write(0)).unwrap();
    for op in [Op::Flush, Op::Trim, Op::Read] {
        let record = session.serve(Request { op, ..write(0) }).unwrap();
        assert_eq!((record.request.op, record.end), (op, record.arrival));
    }
    assert_eq!(session.outstanding(), 0);
}

#[test]
fn own_times_count_from_the_present() {
    let config = device(merged(small(), json!({ "host": { "time_scale": 2.0 } })));
    let (mut session, control) = (session(&config), RunControl::default());
    session.advance(at_us(1000)).unwrap();
    let requests = [write(0), Request { arrival_ns: 5_000_000, ..write(1) }];
    let records = session.send_timed(&requests, &control).unwrap();
    let arrivals: Vec<Time> = records.iter().map(|record| record.arrival).collect();
    assert_eq!(arrivals, [at_us(1000), at_us(11_000)]);
    let backwards = [requests[1], requests[0]];
    let refused = session.send_timed(&backwards, &control).unwrap_err();
    assert!(matches!(refused, SessionError::Unordered { .. }), "{refused}");
    assert_eq!(session.outstanding(), 0);
}

#[test]
fn what_is_cancelled_stays_usable() {
    let (mut session, control) = (session(&device(small())), RunControl::default());
    control.cancel();
    let requests: Vec<Request> = (0..20).map(write).collect();
    let records = session.send(&requests, 3, Time::ZERO, &control).unwrap();
    assert_eq!(records.len(), 3, "what was sent has completed");
    let timed = session.send_timed(&requests, &control).unwrap();
    assert_eq!((timed.len(), session.outstanding()), (0, 20));
    assert_eq!(session.drain().unwrap().len(), 20);
}

/// Every way to send says that the drive has failed, and no completion is lost by that.
/// Of a table, `clip` leaves out what is wholly beyond the drive, as a run does: it takes a number, and is counted.
#[test]
fn tables_are_clipped_as_in_a_run() {
    for arrival in ["closed", "open"] {
        let keys = if arrival == "closed" { json!({ "queue_depth": 2 }) } else { json!({}) };
        let host = merged(json!({ "arrival": arrival, "out_of_range": "clip" }), keys);
        let config = device(merged(small(), json!({ "host": host })));
        let end = config.to_geometry().logical_bytes() / 512;
        let at = |(at, lba): (u64, u64)| Request { arrival_ns: at * 5, lba, ..write(0) };
        let requests: Vec<Request> = [0, end + 8, end - 4, end, 8, end + 80]
            .into_iter()
            .zip(0..)
            .map(|(lba, number)| at((number, lba)))
            .collect();
        let expected = run(&config, &requests);
        assert_eq!((expected.0.len(), expected.1.summary.host.rejected), (3, 3), "{arrival}");
        let mut session = session(&config);
        let control = RunControl::default();
        let records = match arrival {
            "closed" => session.send(&requests, 2, Time::ZERO, &control),
            _ => session.send_timed(&requests, &control),
        };
        same(arrival, &(records.unwrap(), session.close().unwrap()), &expected);
        let together = Session::new(&config, &OPTIONS, &control).unwrap().send_together(
            &requests,
            3,
            Time::ZERO,
            &control,
        );
        assert_eq!(
            together.unwrap().iter().map(|record| record.index).collect::<Vec<_>>(),
            [0, 2, 4],
            "{arrival}"
        );
        let mut one = Session::new(&config, &OPTIONS, &control).unwrap();
        assert!(matches!(one.submit_now(requests[1]), Err(SessionError::Beyond { .. })));
    }
}

/// A drive in which nothing ends any more takes no more requests.
#[test]
fn a_drive_that_would_never_end_has_failed() {
    let timing = json!({ "timing": { "program_us": { "lsb": 3.6e9 } }, "host": { "arrival": "closed" } });
    let mut session = session(&device(merged(small(), timing)));
    for _ in 0..6000 {
        session.submit_now(write(0)).unwrap();
    }
    let told = std::iter::from_fn(|| session.next_event().transpose()).take_while(Result::is_ok).count();
    assert!((5000..6000).contains(&told), "{told}");
    let failed = session.next_event().unwrap_err();
    assert!(matches!(&failed, SessionError::Run(_)), "{failed}");
    assert_eq!(session.submit_now(write(0)), Err(failed.clone()));
    assert_eq!(session.close().unwrap().error.map(SessionError::Run), Some(failed));
}

#[test]
fn completions_before_a_failure_are_told() {
    let slow = json!({ "timing": { "program_us": 3.6e9 } });
    let config = device(merged(small(), slow));
    // 6,000 programs of an hour each on one die: 250 days.
    let requests: Vec<Request> = (0..6000).map(|page| write(page % 100)).collect();
    let control = RunControl::default();
    for way in 0..4 {
        let mut session = session(&config);
        let failed = match way {
            0 => session.send(&requests, 4, Time::ZERO, &control),
            1 => session.send_together(&requests, 4, Time::ZERO, &control),
            2 => session.send_timed(&requests, &control),
            _ => {
                for request in &requests {
                    session.submit_now(*request).unwrap();
                }
                session.drain()
            }
        };
        let mut told = failed.unwrap_or_default();
        told.extend(session.drain().unwrap_or_default());
        assert!(matches!(session.drain(), Err(SessionError::Run(_))), "way {way}");
        let outcome = session.close().unwrap();
        assert_eq!(told.len() as u64, outcome.summary.host.completed, "way {way}");
        assert!(told.len() > 5000 && told.is_sorted_by_key(|record| record.end), "way {way}");
        assert!(outcome.error.is_some() && outcome.summary.partial, "way {way}");
    }
}

/// What somebody gives back is told again, in order.
#[test]
fn completions_given_back_are_told_again() {
    let mut session = session(&device(small()));
    let requests: Vec<Request> = (0..20).map(write).collect();
    let records = session.send(&requests, 4, Time::ZERO, &RunControl::default()).unwrap();
    session.give_back(records.clone());
    assert_eq!(session.next_event().unwrap(), Some(records[0]));
    assert_eq!(session.drain().unwrap(), records[1..]);
}
