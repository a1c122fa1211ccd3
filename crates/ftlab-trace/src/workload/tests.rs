use super::*;

const GIB: u64 = 1 << 30;

fn config(json: &str) -> WorkloadConfig {
    serde_json::from_str(json).unwrap()
}

fn requests_of(json: &str, capacity: u64, pass: u64) -> Vec<Request> {
    let mut source = config(json).factory(capacity, None, None).unwrap().open(pass).unwrap();
    let mut out = Vec::new();
    while source.fill(&mut out, 4096).unwrap() > 0 {}
    assert_eq!(source.total_requests(), Some(out.len() as u64));
    out
}

fn share(requests: &[Request], chosen: impl Fn(&Request) -> bool) -> f64 {
    requests.iter().filter(|request| chosen(request)).count() as f64 / requests.len() as f64
}

fn refused(json: &str, key: &str, expected: &str) {
    let error = match serde_json::from_str::<WorkloadConfig>(json) {
        Ok(config) => match config.factory(GIB, None, None) {
            Err(WorkloadError::Config(error)) => error,
            Err(error) => panic!("{json}: {error}"),
            Ok(_) => panic!("{json} was taken"),
        },
        Err(error) => panic!("{json}: {error}"),
    };
    assert_eq!(error.key, format!("workload.{key}"), "{json}: {error}");
    assert!(error.expected.contains(expected), "{json}: {error}");
}

#[test]
fn nonsense_is_refused_with_its_key() {
    refused("{}", "kind", "state a kind (sequential, uniform");
    refused(r#"{"kind":"uniform","trace":"x"}"#, "trace", "state one");
    refused(r#"{"kind":"uniform","theta":1}"#, "theta", "does not use this key");
    refused(r#"{"kind":"uniform","format":"spc"}"#, "format", "does not use this key");
    refused(r#"{"kind":"disksim","seed":3}"#, "seed", "does not use this key");
    refused(r#"{"trace":"x","read_fraction":0.5}"#, "read_fraction", "a trace does not use");
    refused(r#"{"kind":"zipf","theta":0}"#, "theta", "above 0");
    refused(r#"{"kind":"zipf","theta":10}"#, "theta", "below 10");
    refused(r#"{"kind":"hotcold","hot_space_fraction":1}"#, "hot_space_fraction", "below 1");
    refused(r#"{"kind":"mix","random_fraction":1.5}"#, "random_fraction", "from 0 to 1");
    refused(r#"{"kind":"uniform","read_fraction":0.7,"trim_fraction":0.4}"#, "read_fraction", "together");
    refused(r#"{"kind":"uniform","requests":0}"#, "requests", "at least 1");
    refused(r#"{"kind":"uniform","request_bytes":1000}"#, "request_bytes", "multiple of 512");
    refused(r#"{"kind":"uniform","request_bytes":{"4KiB":0}}"#, "request_bytes", "weights");
    refused(r#"{"kind":"uniform","request_bytes":{}}"#, "request_bytes", "from 1 to 1000");
    refused(r#"{"kind":"uniform","request_bytes":"2GiB"}"#, "request_bytes", "must fit");
    refused(r#"{"kind":"uniform","footprint_bytes":"2GiB"}"#, "footprint_bytes", "on a drive of 1073741824");
    refused(r#"{"kind":"uniform","offset_bytes":"1GiB"}"#, "offset_bytes", "only 1073741824 bytes");
    refused(r#"{"kind":"uniform","alignment_bytes":100}"#, "alignment_bytes", "multiple of 512");
    refused(r#"{"kind":"uniform","streams":0}"#, "streams", "at least 1");
    refused(
        r#"{"kind":"uniform","rate_iops":1,"mean_interarrival_us":1}"#,
        "mean_interarrival_us",
        "state one",
    );
    refused(r#"{"kind":"uniform","interarrival":"asap","rate_iops":1}"#, "rate_iops", "does not use");
    refused(r#"{"kind":"uniform","mean_interarrival_us":0}"#, "mean_interarrival_us", "above 0");
    refused(r#"{"kind":"uniform","rate_iops":0}"#, "rate_iops", "from 0.000001");
    refused(r#"{"kind":"uniform","rate_iops":0.001}"#, "mean_interarrival_us", "simulated time ends");
    refused(
        r#"{"kind":"uniform","trim_fraction":0.1,"request_bytes":{"4KiB":1,"8KiB":1}}"#,
        "request_bytes",
        "one request size",
    );
    refused(r#"{"kind":"disksim","read_fraction":0.5}"#, "read_fraction", "0 or 1");
    refused(r#"{"kind":"disksim"}"#, "kind", "3593678848 bytes; the drive has 1073741824");
    for wrong in [r#"{"knd":"uniform"}"#, r#"{"kind":"unifrm"}"#, r#"{"kind":"uniform","request_bytes":-1}"#]
    {
        assert!(serde_json::from_str::<WorkloadConfig>(wrong).is_err());
    }
    let missing = config(r#"{"trace":"/nowhere/at/all"}"#).factory(GIB, None, None).err().unwrap();
    assert!(matches!(missing, WorkloadError::Source(_)), "{missing}");
}

#[test]
fn the_table_survives_a_round_trip_and_has_a_schema() {
    let text = r#"{"kind":"zipf","footprint_bytes":"64MiB","request_bytes":{"64KiB":1,"4KiB":3},
                   "mean_interarrival_us":"1.5ms","theta":1.2,"scramble":false}"#;
    let parsed = config(text);
    assert_eq!(parsed.footprint_bytes, Some(64 << 20));
    let class = |bytes, weight| SizeClass { min_bytes: bytes, max_bytes: bytes, step_bytes: bytes, weight };
    let sizes = vec![class(4096, 3.0), class(65_536, 1.0)];
    assert_eq!(parsed.request_bytes, Some(RequestBytes::Weighted(sizes)));
    assert_eq!(parsed.mean_interarrival_us, Some(1500.0));
    assert_eq!(config(&serde_json::to_string(&parsed).unwrap()), parsed);
    let schema = serde_json::to_string(&schemars::schema_for!(WorkloadFile)).unwrap();
    assert!(schema.contains("hot_access_fraction") && schema.contains("anyOf"));
}

#[test]
fn the_same_seed_gives_the_same_requests_and_others_do_not() {
    let json = r#"{"kind":"uniform","requests":1000,"read_fraction":0.3}"#;
    assert_eq!(requests_of(json, GIB, 0), requests_of(json, GIB, 0));
    assert_ne!(requests_of(json, GIB, 0), requests_of(json, GIB, 1));
    let seeded = |seed| {
        let mut out = Vec::new();
        config(json)
            .factory(GIB, Some(seed), Some(50))
            .unwrap()
            .open(0)
            .unwrap()
            .fill(&mut out, 100)
            .unwrap();
        out
    };
    assert_eq!(seeded(1).len(), 50);
    assert_ne!(seeded(1), seeded(2));
    assert_eq!(seeded(1), requests_of(json, GIB, 0)[..50]);
    // The bytes are the same on every machine and in every version: this one guards them.
    let first = requests_of(r#"{"kind":"zipf","requests":3}"#, GIB, 0);
    let lbas: Vec<u64> = first.iter().map(|request| request.lba).collect();
    let arrivals: Vec<u64> = first.iter().map(|request| request.arrival_ns).collect();
    assert_eq!((lbas, arrivals), (GOLDEN_LBAS.to_vec(), GOLDEN_ARRIVALS.to_vec()));
}

const GOLDEN_LBAS: [u64; 3] = [65_672, 530_248, 401_416];
const GOLDEN_ARRIVALS: [u64; 3] = [688_445, 2_316_660, 3_719_579];

#[test]
fn every_key_has_an_effect() {
    for (kind, key, values) in [
        ("uniform", "footprint_bytes", ["\"1MiB\"", "\"2MiB\""]),
        ("uniform", "offset_bytes", ["0", "4096"]),
        ("uniform", "read_fraction", ["0", "0.1"]),
        ("sequential", "trim_fraction", ["0", "0.1"]),
        ("uniform", "flush_fraction", ["0", "0.1"]),
        ("uniform", "request_bytes", ["4096", "8192"]),
        ("uniform", "request_bytes", ["{\"4KiB\":1,\"8KiB\":1}", "{\"4KiB\":1,\"8KiB\":2}"]),
        ("uniform", "alignment_bytes", ["4096", "512"]),
        ("uniform", "interarrival", ["\"fixed\"", "\"poisson\""]),
        ("uniform", "mean_interarrival_us", ["10", "\"11us\""]),
        ("uniform", "rate_iops", ["1000", "1001"]),
        ("uniform", "streams", ["1", "2"]),
        ("uniform", "seed", ["1", "2"]),
        ("uniform", "requests", ["100", "101"]),
        ("zipf", "theta", ["0.9", "1"]),
        ("zipf", "scramble", ["true", "false"]),
        ("hotcold", "hot_space_fraction", ["0.1", "0.3"]),
        ("hotcold", "hot_access_fraction", ["0.7", "0.9"]),
        ("mix", "random_fraction", ["0.4", "0.6"]),
        ("disksim", "access", ["\"random\"", "\"sequential\""]),
        ("disksim", "read_fraction", ["0", "1"]),
    ] {
        let [first, second] = values.map(|value| {
            let requests = if key == "requests" { "" } else { r#""requests":500,"# };
            requests_of(&format!(r#"{{"kind":"{kind}",{requests}"{key}":{value}}}"#), 4 * GIB, 0)
        });
        assert!(first != second, "{kind} {key}");
    }
}

#[test]
fn sequential_requests_follow_each_other_and_wrap() {
    let json = r#"{"kind":"sequential","requests":100,"footprint_bytes":"64KiB","offset_bytes":"1MiB"}"#;
    for (index, request) in requests_of(json, GIB, 0).iter().enumerate() {
        assert_eq!((request.lba, request.sectors), (2048 + index as u64 % 16 * 8, 8));
    }
    let json = r#"{"kind":"sequential","requests":8,"footprint_bytes":"64KiB","streams":2}"#;
    let lanes: Vec<(u16, u64)> =
        requests_of(json, GIB, 0).iter().map(|request| (request.stream, request.lba)).collect();
    assert_eq!(lanes, [(0, 0), (1, 64), (0, 8), (1, 72), (0, 16), (1, 80), (0, 24), (1, 88)]);
    let json = r#"{"kind":"sequential","requests":1000,"footprint_bytes":"1MiB","request_bytes":{"4KiB":1,"12KiB":1},
                   "alignment_bytes":"8KiB"}"#;
    assert!(requests_of(json, GIB, 0).iter().all(|request| request.lba % 16 == 0));
}

#[test]
fn addresses_stay_inside_and_follow_their_law() {
    let within = |requests: &[Request], start: u64, end: u64| {
        requests.iter().all(|request| request.lba >= start && request.lba + u64::from(request.sectors) <= end)
    };
    for kind in ["uniform", "zipf", "hotcold", "mix", "sequential"] {
        let json = format!(
            r#"{{"kind":"{kind}","requests":20000,"footprint_bytes":"1000KiB","offset_bytes":"4KiB","streams":3,
               "request_bytes":{{"512B":1,"12KiB":1,"64KiB":1}},"alignment_bytes":"3KiB"}}"#
        );
        let requests = requests_of(&json, GIB, 0);
        assert!(within(&requests, 8, 2008), "{kind}");
        assert!((share(&requests, |request| request.sectors == 24) - 1.0 / 3.0).abs() < 0.015, "{kind}");
    }
    let hot = requests_of(r#"{"kind":"hotcold","hot_space_fraction":0.1,"hot_access_fraction":0.9}"#, GIB, 0);
    assert_eq!(hot.len() as u64, DEFAULT_REQUESTS);
    assert!((share(&hot, |request| request.lba < GIB / 512 / 10) - 0.9).abs() < 0.002);
    let mix = requests_of(r#"{"kind":"mix","random_fraction":0.25,"requests":100000}"#, GIB, 0);
    let mut next = 0;
    let sequential = mix.iter().filter(|request| {
        let follows = request.lba == next;
        next += if follows { 8 } else { 0 };
        follows
    });
    assert!((sequential.count() as f64 / 1e5 - 0.75).abs() < 0.01);
    let ordered = requests_of(r#"{"kind":"zipf","theta":1,"scramble":false,"requests":100000}"#, GIB, 0);
    // The first of 262,144 ranks has 1 / H(262144) of the requests.
    assert!((share(&ordered, |request| request.lba == 0) - 1.0 / 13.054).abs() < 0.004);
}

#[test]
fn operations_have_their_shares_and_arrivals_their_mean() {
    let json = r#"{"kind":"sequential","read_fraction":0.5,"trim_fraction":0.2,"flush_fraction":0.1,
                   "requests":200000,"rate_iops":50000}"#;
    let requests = requests_of(json, GIB, 0);
    for (op, expected) in [(Op::Read, 0.5), (Op::Write, 0.2), (Op::Trim, 0.2), (Op::Flush, 0.1)] {
        assert!((share(&requests, |request| request.op == op) - expected).abs() < 0.005);
    }
    assert!(requests.iter().all(|request| (request.op == Op::Flush) == (request.sectors == 0)));
    for (kind, deviation) in [("poisson", 1.0), ("uniform", 1.0 / 3f64.sqrt()), ("fixed", 0.0)] {
        let json = format!(
            r#"{{"kind":"uniform","requests":200000,"interarrival":"{kind}","mean_interarrival_us":20}}"#
        );
        let requests = requests_of(&json, GIB, 0);
        let spans: Vec<f64> = requests
            .windows(2)
            .map(|pair| (pair[1].arrival_ns - pair[0].arrival_ns) as f64 / 20_000.0)
            .collect();
        let mean = spans.iter().sum::<f64>() / spans.len() as f64;
        let variance = spans.iter().map(|span| (span - mean).powi(2)).sum::<f64>() / spans.len() as f64;
        assert!(
            (mean - 1.0).abs() < 0.01 && (variance.sqrt() - deviation).abs() < 0.02,
            "{kind} {mean} {variance}"
        );
    }
    let asap = requests_of(r#"{"kind":"uniform","requests":10,"interarrival":"asap"}"#, GIB, 0);
    assert!(asap.iter().all(|request| request.arrival_ns == 0));
}

#[test]
fn trims_hit_what_is_in_use_and_the_share_in_use_is_that_of_theory() {
    let q = 0.3;
    let json = r#"{"kind":"uniform","trim_fraction":0.3,"requests":2000000,"footprint_bytes":"40MiB"}"#;
    let slots = 40 << 20 >> 12;
    let mut in_use = vec![true; slots];
    let mut sum = 0.0;
    let requests = requests_of(json, GIB, 0);
    let (settle, mut used) = (requests.len() / 2, slots);
    for (index, request) in requests.iter().enumerate() {
        let slot = (request.lba / 8) as usize;
        if request.op == Op::Trim {
            assert!(in_use[slot], "a trim of what is not in use");
        }
        let now = request.op == Op::Write;
        used = used + usize::from(now) - usize::from(in_use[slot]);
        in_use[slot] = now;
        if index >= settle {
            sum += used as f64 / slots as f64;
        }
    }
    let share_in_use = sum / (requests.len() - settle) as f64;
    let theory = (1.0 - 2.0 * q) / (1.0 - q);
    assert!((share_in_use / theory - 1.0).abs() < 0.005, "{share_in_use} {theory}");
    // More trims than writes: trims become writes when nothing is left.
    let json = r#"{"kind":"uniform","trim_fraction":1,"requests":1000,"footprint_bytes":"40KiB"}"#;
    assert!(share(&requests_of(json, GIB, 0), |request| request.op == Op::Write) > 0.4);
}

#[test]
fn the_streams_of_disksim_have_their_keys() {
    let json = r#"{"kind":"disksim","access":"sequential","read_fraction":1,"requests":5}"#;
    let requests = requests_of(json, 4 * GIB, 0);
    assert!(requests.iter().all(|request| request.op == Op::Read));
    assert_eq!(requests[1].lba, 779_704);
    let requests = requests_of(r#"{"kind":"disksim","requests":5}"#, 4 * GIB, 0);
    assert!(requests.iter().all(|request| request.op == Op::Write));
    assert_eq!(requests[1].lba, 492_344);
}

#[test]
fn the_first_requests_of_a_trace_are_enough_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.mqsim");
    std::fs::write(&path, "1 0 0 8 0\n2 0 8 8 0\n3 0 16 8 1\n").unwrap();
    let config = WorkloadConfig { trace: Some(path.display().to_string()), ..WorkloadConfig::default() };
    for (asked, expected) in [(None, 3), (Some(2), 2), (Some(9), 3)] {
        let mut source = config.factory(GIB, None, asked).unwrap().open(0).unwrap();
        let mut out = Vec::new();
        while source.fill(&mut out, 100).unwrap() > 0 {}
        assert_eq!(out.len(), expected);
    }
}
