//! What `[workload]` tables say, and that their requests are so.

use ftlab_core::host::request::{Op, Request};

use ftlab_workload::{
    DEFAULT_REQUESTS, RequestBytes, SizeClass, TraceKeys, WorkloadConfig, WorkloadError, WorkloadFile,
    WorkloadKind,
};

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
    refused(r#"{"kind":"uniform","theta":1}"#, "theta", "it is a key of zipf");
    refused(r#"{"kind":"uniform","format":"spc"}"#, "format", "it is a key of traces");
    refused(r#"{"kind":"disksim","seed":3}"#, "seed", "has no effect with workload.kind = \"disksim\"");
    refused(r#"{"trace":"x","read_fraction":0.5}"#, "read_fraction", "has no effect with a trace");
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
    refused(r#"{"kind":"uniform","rate_iops":0.001}"#, "requests", "about 9200 arrive within 106 days");
    refused(
        r#"{"kind":"uniform","trim_fraction":0.1,"request_bytes":{"4KiB":1,"8KiB":1}}"#,
        "request_bytes",
        "one size for all requests",
    );
    // The key that is at fault, and no other.
    refused(r#"{"kind":"uniform","trim_fraction":0.1,"trim_bytes":"1MiB"}"#, "trim_bytes", "here 4KiB");
    refused(
        r#"{"kind":"uniform","trim_fraction":0.1,"alignment_bytes":"8KiB"}"#,
        "alignment_bytes",
        "here 4KiB",
    );
    refused(r#"{"kind":"disksim","read_fraction":0.5}"#, "read_fraction", "0 or 1");
    refused(r#"{"kind":"uniform","write_bytes":1000}"#, "write_bytes", "multiple of 512");
    refused(r#"{"kind":"uniform","read_bytes":4096}"#, "read_bytes", "no such requests");
    refused(
        r#"{"kind":"zipf","request_bytes":4096,"read_bytes":512,"write_bytes":512,"trim_bytes":512,"read_fraction":0.5,
            "trim_fraction":0.1}"#,
        "request_bytes",
        "all requests have the sizes of read_bytes and write_bytes and trim_bytes: state one",
    );
    refused(r#"{"kind":"uniform","request_bytes":{"median":"4KiB","sigma":9}}"#, "request_bytes", "sigma");
    refused(
        r#"{"kind":"uniform","request_bytes":{"median":"4KiB","sigma":1,"min":"1KiB","max":"512B"}}"#,
        "request_bytes",
        "not above max",
    );
    refused(r#"{"kind":"uniform","gap_cv":2}"#, "gap_cv", "bursty");
    refused(r#"{"kind":"uniform","interarrival":"bursty","gap_cv":0.5}"#, "gap_cv", "from 1");
    refused(r#"{"kind":"uniform","bursts":{"on_us":0,"off_us":1}}"#, "bursts.on_us", "nanosecond");
    refused(
        r#"{"kind":"uniform","bursts":{"on_us":1,"off_us":1,"off_alpha":1}}"#,
        "bursts.off_alpha",
        "above 1",
    );
    refused(
        r#"{"kind":"uniform","think":{"every_requests":0,"pause_us":1}}"#,
        "think.every_requests",
        "at least 1",
    );
    refused(
        r#"{"kind":"uniform","interarrival":"asap","think":{"every_requests":1,"pause_us":1}}"#,
        "think",
        "does not use",
    );
    refused(r#"{"kind":"pareto","pareto_h":0.5}"#, "pareto_h", "below 0.5");
    refused(r#"{"kind":"normal","deviation_fraction":0}"#, "deviation_fraction", "from 0.000001");
    refused(r#"{"kind":"normal","mean_fraction":2}"#, "mean_fraction", "from 0 to 1");
    refused(r#"{"kind":"zoned"}"#, "zones", "from 1 to 1000 zones");
    refused(
        r#"{"kind":"zoned","zones":[{"access_fraction":1,"space_fraction":0.4}]}"#,
        "zones",
        "space_fraction must add up to 1",
    );
    refused(r#"{"kind":"uniform","phases":[]}"#, "phases", "from 1 to 1000");
    refused(r#"{"kind":"uniform","phases":[{"with":{}}]}"#, "phases[0].requests", "either requests or");
    refused(
        r#"{"kind":"uniform","phases":[{"requests":1,"with":{"seed":1}}]}"#,
        "phases[0].with",
        "whole workload",
    );
    refused(
        r#"{"kind":"uniform","phases":[{"requests":1},{"requests":1,"with":{"theta":1}}]}"#,
        "phases[1].with.theta",
        "it is a key of zipf",
    );
    refused(
        r#"{"kind":"uniform","interarrival":"asap","phases":[{"duration_us":1}]}"#,
        "phases[0].duration_us",
        "at once",
    );
    refused(r#"{"kind":"uniform","phases":[{"duration_us":0.1}]}"#, "phases", "hardly any request");
    refused(r#"{"kind":"merge"}"#, "parts", "from 1 to 1000");
    refused(
        r#"{"kind":"merge","parts":[{"kind":"uniform","requests":1}]}"#,
        "parts[0].requests",
        "of a part",
    );
    refused(r#"{"kind":"merge","parts":[{"kind":"zipf","theta":0}]}"#, "parts[0].theta", "above 0");
    refused(
        r#"{"kind":"merge","parts":[{"kind":"zipf","footprint_bytes":"2GiB"}]}"#,
        "parts[0].footprint_bytes",
        "only",
    );
    refused(r#"{"kind":"uniform","db":{}}"#, "db", "it is a key of db");
    refused(r#"{"kind":"db","read_fraction":0.5}"#, "read_fraction", "has no effect with");
    refused(r#"{"kind":"db","db":{"page_bytes":5000}}"#, "db.page_bytes", "16, 32 or 64 KiB");
    refused(r#"{"kind":"db"}"#, "footprint_bytes", "fewer warehouses");
    refused(r#"{"kind":"db","db":{"log_block_bytes":"3KiB"}}"#, "db.log_block_bytes", "1024");
    refused(r#"{"kind":"jesd219","trim_fraction":0.1}"#, "trim_fraction", "only reads and writes");
    refused(r#"{"kind":"jesd219","jesd219":{"zone_shift":20}}"#, "jesd219.zone_shift", "from 0 to 19");
    refused(
        r#"{"kind":"jesd219","read_fraction":0.1,"jesd219":{"profile":"client"}}"#,
        "read_fraction",
        "no reads",
    );
    refused(
        r#"{"kind":"jesd219","jesd219":{"profile":"client","zone_shift":1}}"#,
        "jesd219.zone_shift",
        "does not use",
    );
    refused(r#"{"kind":"phone_sqlite","phone_sqlite":{"databases":0}}"#, "phone_sqlite.databases", "from 1");
    refused(r#"{"kind":"phone_media"}"#, "footprint_bytes", "needs");
    refused(
        r#"{"kind":"web_cache","web_cache":{"revisit_fraction":2}}"#,
        "web_cache.revisit_fraction",
        "from 0 to 1",
    );
    refused(r#"{"kind":"pc_general"}"#, "footprint_bytes", "what is used needs");
    for (keys, key, expected) in [
        (r#""theta":0"#, "theta", "above 0"),
        (r#""partition":["copies"]"#, "partition", "state partition_sector"),
        (r#""partition":[],"partition_sector":63"#, "partition", "nothing lies on it"),
        (r#""partition":["copies","copies"],"partition_sector":63"#, "partition", "can be named once"),
        (r#""directory_files":0"#, "directory_files", "from 1 to 16"),
        (r#""system_bytes":"128KiB""#, "system_bytes", "at most 64 KiB"),
        (r#""system_bytes":1000"#, "system_bytes", "multiple of 512"),
        (r#""record_bytes":3000"#, "record_bytes", "512, 1024"),
        (r#""transfer_bytes":5000"#, "transfer_bytes", "multiple of 4 KiB"),
        (r#""copy_most_bytes":"100KiB""#, "copy_most_bytes", "multiple of 64 KiB"),
        (r#""copy_space_bytes":"1GiB""#, "copy_space_bytes", "a tenth of active_bytes"),
    ] {
        let json = format!(r#"{{"kind":"pc_general","pc_general":{{{keys}}}}}"#);
        refused(&json, &format!("pc_general.{key}"), expected);
    }
    for (keys, key, expected) in [
        (r#""log_fraction":0.2"#, "log_fraction", "from 0 to 0.14"),
        (r#""counter_fraction":0.2"#, "counter_fraction", "from 0 to 0.14"),
        (r#""table_scan_fraction":0.3"#, "table_scan_fraction", "above read_fraction"),
        (
            r#""scan_fraction":0.5,"table_scan_fraction":0.1,"read_fraction":0.54"#,
            "table_scan_fraction",
            "above read_fraction",
        ),
        (r#""rewrite_fraction":0.7"#, "rewrite_fraction", "together with sequential_fraction"),
        (r#""record_bytes":"256KiB""#, "record_bytes", "at most 128 KiB"),
    ] {
        let json = format!(r#"{{"kind":"oltp_financial","oltp_financial":{{{keys}}}}}"#);
        refused(&json, &format!("oltp_financial.{key}"), expected);
    }
    refused(
        r#"{"kind":"phone_sqlite","phone_sqlite":{"transaction_pages":0.5}}"#,
        "phone_sqlite.transaction_pages",
        "from 1",
    );
    refused(
        r#"{"kind":"web_search","web_search":{"sequential_fraction":0.6}}"#,
        "web_search.sequential_fraction",
        "from 0 to 0.5",
    );
    refused(r#"{"kind":"web_search","web_search":{"devices":0}}"#, "web_search.devices", "from 1");
    refused(
        r#"{"kind":"oltp_financial","oltp_financial":{"read_fraction":0.95}}"#,
        "oltp_financial.read_fraction",
        "log and counter write",
    );
    refused(
        r#"{"kind":"applications","applications":{"applications":[]}}"#,
        "applications.applications",
        "from 1 to 8",
    );
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
    assert_eq!(parsed.common.footprint_bytes, Some(64 << 20));
    let class = |bytes, weight| SizeClass { min_bytes: bytes, max_bytes: bytes, step_bytes: bytes, weight };
    let sizes = vec![class(4096, 3.0), class(65_536, 1.0)];
    assert_eq!(parsed.common.request_bytes, Some(RequestBytes::Weighted(sizes)));
    assert_eq!(parsed.common.mean_interarrival_us, Some(1500.0));
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
        ("mix", "continues", ["\"stream\"", "\"last\""]),
        ("uniform", "write_bytes", ["{\"4KiB-64KiB\":1}", "{\"4KiB-64KiB/512B\":1}"]),
        (
            "uniform",
            "write_bytes",
            ["{\"median\":\"8KiB\",\"sigma\":1}", "{\"median\":\"8KiB\",\"sigma\":1.5}"],
        ),
        (
            "uniform",
            "bursts",
            ["{\"on_us\":100,\"off_us\":100}", "{\"on_us\":100,\"off_us\":100,\"on_alpha\":1.7}"],
        ),
        (
            "uniform",
            "think",
            ["{\"every_requests\":5,\"pause_us\":1}", "{\"every_requests\":6,\"pause_us\":1}"],
        ),
        (
            "uniform",
            "phases",
            [
                r#"[{"requests":10,"with":{"kind":"zipf"}},{"duration_us":1e4}]"#,
                r#"[{"requests":10,"with":{"kind":"zipf"}},{"duration_us":1e5}]"#,
            ],
        ),
        ("pareto", "pareto_h", ["0.2", "0.3"]),
        ("normal", "mean_fraction", ["0.2", "0.3"]),
        ("normal", "deviation_fraction", ["0.2", "0.3"]),
        (
            "zoned",
            "zones",
            [
                r#"[{"access_fraction":0.5,"space_fraction":0.1},{"access_fraction":0.5,"space_fraction":0.9}]"#,
                r#"[{"access_fraction":0.5,"space_fraction":0.2},{"access_fraction":0.5,"space_fraction":0.8}]"#,
            ],
        ),
        (
            "merge",
            "parts",
            [
                r#"[{"kind":"zipf"},{"kind":"uniform","rate_iops":10}]"#,
                r#"[{"kind":"zipf"},{"kind":"uniform","rate_iops":90}]"#,
            ],
        ),
        ("jesd219", "jesd219", [r#"{"zone_shift":1}"#, r#"{"zone_shift":2}"#]),
        ("jesd219", "jesd219", [r#"{"alignment":"4KiB"}"#, r#"{"alignment":"size"}"#]),
        ("jesd219", "jesd219", [r#"{"large_sectors":false}"#, r#"{"large_sectors":true}"#]),
        ("jesd219", "jesd219", [r#"{"profile":"client"}"#, r#"{"profile":"enterprise"}"#]),
        ("phone_sqlite", "phone_sqlite", [r#"{"databases":60}"#, r#"{"databases":50}"#]),
        ("phone_sqlite", "phone_sqlite", [r#"{"wal_fraction":0.3}"#, r#"{"wal_fraction":0.5}"#]),
        (
            "phone_sqlite",
            "phone_sqlite",
            [r#"{"transactions_per_second":2}"#, r#"{"transactions_per_second":3}"#],
        ),
        ("phone_sqlite", "phone_sqlite", [r#"{"read_fraction":0.2}"#, r#"{"read_fraction":0.3}"#]),
        ("phone_sqlite", "phone_sqlite", [r#"{"transaction_pages":2}"#, r#"{"transaction_pages":3}"#]),
        ("phone_sqlite", "phone_sqlite", [r#"{"theta":0.9}"#, r#"{"theta":0.8}"#]),
        ("phone_media", "phone_media", [r#"{"activities":["photos"]}"#, r#"{"activities":["game"]}"#]),
        ("phone_media", "phone_media", [r#"{"pause_us":"60s"}"#, r#"{"pause_us":"30s"}"#]),
        (
            "phone_media",
            "phone_media",
            [
                r#"{"activities":["video"],"video_bytes":2100000}"#,
                r#"{"activities":["video"],"video_bytes":1000000}"#,
            ],
        ),
        ("web_cache", "web_cache", [r#"{"objects":40}"#, r#"{"objects":30}"#]),
        ("web_cache", "web_cache", [r#"{"object_bytes":8192}"#, r#"{"object_bytes":4096}"#]),
        ("web_cache", "web_cache", [r#"{"revisit_fraction":0.6}"#, r#"{"revisit_fraction":0.2}"#]),
        ("web_cache", "web_cache", [r#"{"view_us":"20s"}"#, r#"{"view_us":"10s"}"#]),
        ("web_cache", "web_cache", [r#"{"transactions":5}"#, r#"{"transactions":2}"#]),
        ("web_search", "web_search", [r#"{"devices":6}"#, r#"{"devices":3}"#]),
        ("web_search", "web_search", [r#"{"index_bytes":"2GiB"}"#, r#"{"index_bytes":"1GiB"}"#]),
        ("web_search", "web_search", [r#"{"reads_per_second":413}"#, r#"{"reads_per_second":300}"#]),
        ("web_search", "web_search", [r#"{"sequential_fraction":0.1}"#, r#"{"sequential_fraction":0.5}"#]),
        ("oltp_financial", "oltp_financial", [r#"{"read_fraction":0.2}"#, r#"{"read_fraction":0.3}"#]),
        ("oltp_financial", "oltp_financial", [r#"{"all_writes":false}"#, r#"{"all_writes":true}"#]),
        (
            "oltp_financial",
            "oltp_financial",
            [r#"{"working_set_bytes":"512MiB"}"#, r#"{"working_set_bytes":"1GiB"}"#],
        ),
        ("oltp_financial", "oltp_financial", [r#"{"theta":0.9}"#, r#"{"theta":0.8}"#]),
        (
            "oltp_financial",
            "oltp_financial",
            [r#"{"requests_per_second":122}"#, r#"{"requests_per_second":100}"#],
        ),
        (
            "oltp_financial",
            "oltp_financial",
            [r#"{"record_bytes":4096}"#, r#"{"record_bytes":{"512B":1,"8KiB":1}}"#],
        ),
        ("oltp_financial", "oltp_financial", [r#"{"log_fraction":0.08}"#, r#"{"log_fraction":0.1}"#]),
        ("oltp_financial", "oltp_financial", [r#"{"counter_fraction":0}"#, r#"{"counter_fraction":0.1}"#]),
        (
            "oltp_financial",
            "oltp_financial",
            [r#"{"sequential_fraction":0}"#, r#"{"sequential_fraction":0.4}"#],
        ),
        ("oltp_financial", "oltp_financial", [r#"{"rewrite_fraction":0}"#, r#"{"rewrite_fraction":0.2}"#]),
        (
            "oltp_financial",
            "oltp_financial",
            [r#"{"table_scan_fraction":0}"#, r#"{"table_scan_fraction":0.1}"#],
        ),
        ("oltp_financial", "oltp_financial", [r#"{"place_bytes":"4KiB"}"#, r#"{"place_bytes":"512KiB"}"#]),
        ("oltp_financial", "oltp_financial", [r#"{"gap_cv":3.2}"#, r#"{"gap_cv":2}"#]),
        ("oltp_financial", "oltp_financial", [r#"{"scan_fraction":0}"#, r#"{"scan_fraction":0.1}"#]),
        ("applications", "applications", [r#"{"applications":["word"]}"#, r#"{"applications":["excel"]}"#]),
        ("disksim", "access", ["\"random\"", "\"sequential\""]),
        ("disksim", "read_fraction", ["0", "1"]),
    ] {
        let [first, second] = values.map(|value| {
            let requests = if key == "requests" { "" } else { r#""requests":500,"# };
            requests_of(&format!(r#"{{"kind":"{kind}",{requests}"{key}":{value}}}"#), 4 * GIB, 0)
        });
        assert!(first != second, "{kind} {key}");
    }
    // These show later, on larger drives, or beside other keys.
    const FEW: &str = r#""log_bytes":"16MiB","warehouses":2,"warehouse_bytes":"20MiB","checkpoint_us":"1s","#;
    for (kind, table, requests, values) in [
        ("uniform", r#""interarrival":"bursty","gap_cv":"#, 100, ["2", "3"]),
        ("uniform", r#""read_fraction":0.5,"read_bytes":"#, 100, ["4096", "8192"]),
        ("zipf", r#""trim_fraction":0.5,"trim_bytes":"#, 100, ["4096", "8192"]),
        ("db", r#""db":"#, 3000, [r#"{"page_bytes":8192}"#, r#"{"page_bytes":16384}"#]),
        ("db", r#""db":"#, 3000, [r#"{"warehouses":50}"#, r#"{"warehouses":60}"#]),
        ("db", r#""db":"#, 3000, [r#"{"warehouse_bytes":"80MiB"}"#, r#"{"warehouse_bytes":"90MiB"}"#]),
        ("db", r#""db":"#, 3000, [r#"{"read_ahead_pages":1}"#, r#"{"read_ahead_pages":4}"#]),
        ("db", r#""db":"#, 3000, [r#"{"log_bytes":"1GiB"}"#, r#"{"log_bytes":"2GiB"}"#]),
        ("db", r#""db":"#, 3000, [r#"{"commit_bytes":4096}"#, r#"{"commit_bytes":2048}"#]),
        ("db", r#""db":"#, 3000, [r#"{"group_commits":8}"#, r#"{"group_commits":4}"#]),
        ("db", r#""db":"#, 3000, [r#"{"log_block_bytes":512}"#, r#"{"log_block_bytes":4096}"#]),
        ("db", r#""db":"#, 3000, [r#"{"heartbeat_us":0}"#, r#"{"heartbeat_us":"1s"}"#]),
        (
            "db",
            r#""db":"#,
            3000,
            [r#"{"transactions_per_second":200}"#, r#"{"transactions_per_second":100}"#],
        ),
        ("db", r#""db":"#, 3000, [r#"{"flushes":true}"#, r#"{"flushes":false}"#]),
        ("db", r#""db":"#, 3000, [r#"{"full_page_images":true}"#, r#"{"full_page_images":false}"#]),
        ("db", r#""db":"#, 3000, [r#"{"warm":true}"#, r#"{"warm":false}"#]),
        ("db", r#""db":{"pool_fraction":"#, 40_000, ["0.01}", "0.02}"]),
        ("db", r#""db":{"warehouses":2,"checkpoint_us":"#, 20_000, [r#""1s"}"#, r#""2s"}"#]),
        ("db", &format!(r#""db":{{{FEW}"checkpoint_spread":"#), 20_000, ["0.9}", "0.5}"]),
        ("db", &format!(r#""db":{{{FEW}"pool_fraction":2,"coalesce_pages":"#), 20_000, ["1}", "8}"]),
        (
            "db",
            &format!(r#""db":{{{FEW}"pool_fraction":2,"checkpoint_order":"#),
            20_000,
            [r#""address"}"#, r#""change"}"#],
        ),
        ("db", &format!(r#""db":{{{FEW}"background_pages":"#), 20_000, ["10}", "0}"]),
        ("db", &format!(r#""db":{{{FEW}"double_write":"#), 20_000, ["true}", "false}"]),
        ("applications", r#""applications":{"think_us":"#, 20_000, ["2e6}", "3e6}"]),
        (
            "phone_media",
            r#""footprint_bytes":"4GiB","phone_media":{"fill_fraction":"#,
            40_000,
            ["0.8}", "0.2}"],
        ),
        (
            "phone_media",
            r#""phone_media":{"fill_fraction":0.01,"discard":"#,
            40_000,
            [r#""online"}"#, r#""none"}"#],
        ),
        ("web_cache", r#""web_cache":{"cache_bytes":"#, 60_000, ["20000000}", "30000000}"]),
        ("pc_general", r#""pc_general":{"active_bytes":"#, 2000, [r#""8GiB"}"#, r#""9GiB"}"#]),
        ("pc_general", r#""pc_general":{"partition_sector":"#, 2000, ["0}", "63}"]),
        ("pc_general", r#""pc_general":{"browser":"#, 2000, ["15}", "30}"]),
        ("pc_general", r#""pc_general":{"documents":"#, 2000, ["10}", "30}"]),
        ("pc_general", r#""pc_general":{"system":"#, 2000, ["35}", "10}"]),
        ("pc_general", r#""pc_general":{"copies":"#, 2000, ["40}", "10}"]),
        ("pc_general", r#""pc_general":{"system_read_fraction":"#, 2000, ["0.3}", "0.8}"]),
        ("pc_general", r#""pc_general":{"system_hot_fraction":"#, 2000, ["0.3}", "0.8}"]),
        ("pc_general", r#""pc_general":{"copy_read_fraction":"#, 2000, ["0.3}", "0.8}"]),
        (
            "pc_general",
            r#""pc_general":{"partition_sector":63,"partition":"#,
            2000,
            [r#"["documents"]}"#, r#"["copies"]}"#],
        ),
        ("pc_general", r#""pc_general":{"theta":"#, 2000, ["0.3}", "0.6}"]),
        ("pc_general", r#""pc_general":{"directory_files":"#, 2000, ["1}", "2}"]),
        ("pc_general", r#""pc_general":{"system_bytes":"#, 2000, ["4096}", "8192}"]),
        ("pc_general", r#""pc_general":{"record_bytes":"#, 2000, ["4096}", "1024}"]),
        ("pc_general", r#""pc_general":{"transfer_bytes":"#, 2000, ["65536}", "131072}"]),
        ("pc_general", r#""pc_general":{"copy_most_bytes":"#, 2000, ["65536}", "131072}"]),
        ("pc_general", r#""pc_general":{"copy_space_bytes":"#, 20_000, [r#""200MiB"}"#, r#""300MiB"}"#]),
        ("pc_general", r#""pc_general":{"copy_placement":"#, 2000, [r#""random"}"#, r#""next_fit"}"#]),
        ("pc_general", r#""pc_general":{"pause_us":"#, 2000, ["1e6}", "2e6}"]),
    ] {
        let [first, second] = values.map(|value| {
            requests_of(&format!(r#"{{"kind":"{kind}","requests":{requests},{table}{value}}}"#), 64 * GIB, 0)
        });
        assert!(first != second, "{kind} {table} {values:?}");
    }
}

#[test]
fn sizes_follow_their_laws_for_each_operation() {
    let json = r#"{"kind":"uniform","requests":200000,"read_fraction":0.5,
        "read_bytes":{"4KiB":1,"8KiB-32KiB":1},"write_bytes":{"median":"16KiB","sigma":0.5,"max":"128KiB"}}"#;
    let requests = requests_of(json, GIB, 0);
    let (reads, writes): (Vec<Request>, Vec<Request>) =
        requests.into_iter().partition(|request| request.op == Op::Read);
    for (sectors, expected) in [(8, 0.5), (16, 0.125), (32, 0.125), (48, 0.125), (64, 0.125)] {
        let found = share(&reads, |request| request.sectors == sectors);
        assert!((found - expected).abs() < 0.006, "{sectors}: {found}");
    }
    let half = share(&writes, |request| request.sectors <= 32);
    assert!((half - 0.5).abs() < 0.02, "{half}");
    assert!(writes.iter().all(|request| (1..=256).contains(&request.sectors)));
}

#[test]
fn popularity_follows_paretos_and_the_bells_law_and_zones() {
    let first = |requests: &[Request], part: f64| {
        share(requests, |request| (request.lba as f64) < part * (GIB / 512) as f64)
    };
    let pareto =
        requests_of(r#"{"kind":"pareto","pareto_h":0.2,"scramble":false,"requests":200000}"#, GIB, 0);
    assert!((first(&pareto, 0.2) - 0.8).abs() < 0.005);
    assert!((first(&pareto, 0.04) - 0.64).abs() < 0.01);
    let bell = requests_of(r#"{"kind":"normal","requests":200000,"mean_fraction":0.3}"#, GIB, 0);
    assert!((first(&bell, 0.3) - 0.5).abs() < 0.01 && (first(&bell, 0.4) - 0.841).abs() < 0.01);
    let json = r#"{"kind":"zoned","requests":200000,"zones":[
        {"access_fraction":0.6,"space_fraction":0.1},{"access_fraction":0.3,"space_fraction":0.2},
        {"access_fraction":0.08,"space_fraction":0.3},{"access_fraction":0.02,"space_fraction":0.4}]}"#;
    let zoned = requests_of(json, GIB, 0);
    for (part, expected) in [(0.1, 0.6), (0.3, 0.9), (0.6, 0.98)] {
        assert!((first(&zoned, part) - expected).abs() < 0.005, "{part}");
    }
}

#[test]
fn bursts_keep_the_rate_and_pauses_come_on_top() {
    let gaps = |more: &str| -> Vec<f64> {
        let json = format!(r#"{{"kind":"uniform","requests":400000,"rate_iops":10000,{more}}}"#);
        let requests = requests_of(&json, GIB, 0);
        requests.windows(2).map(|pair| (pair[1].arrival_ns - pair[0].arrival_ns) as f64 / 1e5).collect()
    };
    let moments = |gaps: &[f64]| {
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        (mean, variance.sqrt() / mean)
    };
    let (mean, cv) = moments(&gaps(r#""interarrival":"bursty","gap_cv":3.2"#));
    assert!((mean - 1.0).abs() < 0.02 && (cv / 3.2 - 1.0).abs() < 0.03, "{mean} {cv}");
    let bursts = gaps(r#""bursts":{"on_us":5000,"off_us":5000,"on_alpha":2.5,"off_alpha":2.5}"#);
    let (mean, cv) = moments(&bursts);
    assert!((mean - 1.0).abs() < 0.05 && cv > 2.0, "{mean} {cv}");
    let think = gaps(r#""interarrival":"fixed","think":{"every_requests":4,"pause_us":500}"#);
    let pauses: Vec<usize> = (0..12).filter(|index| think[*index] > 2.0).collect();
    assert_eq!(pauses, [3, 7, 11]);
    assert!((think[3] - 6.0).abs() < 1e-9);
}

#[test]
fn bursts_keep_the_rate_however_much_their_times_differ() {
    const REQUESTS: u64 = 30_000;
    // Exponent, and standard deviation / mean of such times.
    for (alpha, deviation) in [(1.01, 13.7), (1.05, 12.8), (1.2, 9.4), (3.0, 0.58)] {
        for (on_us, off_us, alphas) in [(10.0, 100.0, [100.0, alpha]), (100.0, 100.0, [alpha, 100.0])] {
            let json = format!(
                r#"{{"kind":"uniform","requests":{REQUESTS},"mean_interarrival_us":100,
                    "bursts":{{"on_us":{on_us},"off_us":{off_us},"on_alpha":{},"off_alpha":{}}}}}"#,
                alphas[0], alphas[1]
            );
            let stated_us = REQUESTS as f64 * 100.0;
            let means = (1..=6).map(|seed| {
                let mut source = config(&json).factory(GIB, Some(seed), None).unwrap().open(0).unwrap();
                let mut out = Vec::new();
                while source.fill(&mut out, 4096).unwrap() > 0 {}
                out[out.len() - 1].arrival_ns as f64 / 1e3 / stated_us
            });
            let mean = means.sum::<f64>() / 6.0;
            let cycles = 6.0 * stated_us / (on_us + off_us);
            // Of the times, and of the spans between arrivals.
            let bound = 4.0
                * (deviation * off_us / (on_us + off_us) / cycles.sqrt()
                    + 1.0 / (6.0 * REQUESTS as f64).sqrt());
            assert!((mean - 1.0).abs() < bound, "{json}: {mean}, bound {bound}");
        }
    }
}

#[test]
fn phases_take_turns_by_number_and_by_time() {
    let json = r#"{"kind":"uniform","requests":40000,"interarrival":"fixed","rate_iops":1000,"footprint_bytes":"64MiB",
        "phases":[{"requests":30,"with":{"read_fraction":1}},{"duration_us":"50ms","with":{"kind":"sequential"}}]}"#;
    let requests = requests_of(json, GIB, 0);
    assert!(requests.is_sorted_by_key(|request| request.arrival_ns));
    let runs: Vec<(Op, usize)> =
        requests.chunk_by(|a, b| a.op == b.op).map(|chunk| (chunk[0].op, chunk.len())).collect();
    for (index, (op, length)) in runs[..runs.len() - 1].iter().enumerate() {
        let expected = if index % 2 == 0 { (Op::Read, 30..=30) } else { (Op::Write, 49..=51) };
        assert!(*op == expected.0 && expected.1.contains(length), "{index}: {op:?} {length}");
    }
    let mut next = 0;
    for request in requests.iter().filter(|request| request.op == Op::Write) {
        assert_eq!(request.lba, next, "a phase goes on where it was");
        next = (next + 8) % (64 << 11);
    }
    let rate = requests.len() as f64 / (requests[requests.len() - 1].arrival_ns as f64 / 1e9);
    assert!((rate - 1000.0).abs() < 20.0, "{rate}");
    // What is hot in one phase is hot in the next.
    let json = r#"{"kind":"zipf","theta":2,"requests":20000,"phases":[{"requests":100},{"requests":100,"with":{"read_fraction":1}}]}"#;
    let requests = requests_of(json, GIB, 0);
    let hottest = |op| {
        let mut counts = std::collections::BTreeMap::new();
        for request in requests.iter().filter(|request| request.op == op) {
            *counts.entry(request.lba).or_insert(0) += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count)
    };
    assert_eq!(hottest(Op::Read).map(|(lba, _)| lba), hottest(Op::Write).map(|(lba, _)| lba));
}

#[test]
fn every_kind_is_reproducible_and_makes_other_requests_in_other_passes() {
    // Kind `fitted` has no example, and stands for a trace: tests/fit.rs.
    for example in WorkloadKind::ALL.iter().filter_map(|kind| kind.example(20_000)) {
        let json = serde_json::to_string(&example).unwrap();
        let first = requests_of(&json, 64 * GIB, 0);
        assert_eq!(first.len(), 20_000, "{json}");
        assert_eq!(first, requests_of(&json, 64 * GIB, 0), "{json}");
        let mut other = config(&json).factory(64 * GIB, None, None).unwrap().open(1).unwrap();
        let mut out = Vec::new();
        other.fill(&mut out, 20_000).unwrap();
        assert_ne!(first, out, "{json}");
        assert!(first.is_sorted_by_key(|request| request.arrival_ns), "{json}");
        assert!(first.iter().all(|request| (request.sectors == 0) == (request.op == Op::Flush)), "{json}");
        let end = first.iter().map(|request| request.lba + u64::from(request.sectors)).max().unwrap();
        assert!(end <= 64 * GIB / 512, "{json}: {end}");
        let text = serde_json::to_string(&config(&json)).unwrap();
        assert_eq!(config(&text), config(&json));
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
fn requests_begin_at_multiples_of_the_alignment_in_every_stream() {
    for kind in ["uniform", "zipf", "hotcold", "mix", "sequential", "pareto", "normal"] {
        for (streams, alignment) in [(3, 8), (7, 8), (3, 24), (65_535, 8)] {
            // Counted from the begin of the footprint, as fio does.
            let json = format!(
                r#"{{"kind":"{kind}","requests":2000,"streams":{streams},"offset_bytes":512,
                    "alignment_bytes":{}}}"#,
                alignment * 512
            );
            let requests = requests_of(&json, GIB, 0);
            assert!(requests.iter().all(|request| (request.lba - 1) % alignment == 0), "{json}");
            let parts = (GIB / 512 - 1) / streams / alignment * alignment;
            let in_part = |request: &Request| (request.lba - 1) / parts == u64::from(request.stream);
            assert!(requests.iter().all(in_part), "{json}");
        }
    }
    refused(
        r#"{"kind":"uniform","footprint_bytes":"16KiB","streams":3,"request_bytes":512,"alignment_bytes":"8KiB"}"#,
        "streams",
        "5461 bytes, must have room for alignment_bytes, 8192",
    );
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
    // Runs from random places: their lengths are geometric, with a mean of four requests.
    let json = r#"{"kind":"mix","random_fraction":0.25,"continues":"last","requests":100000}"#;
    let runs = requests_of(json, GIB, 0);
    let follows = runs.windows(2).filter(|pair| pair[1].lba == pair[0].lba + 8).count();
    assert!((follows as f64 / 1e5 - 0.75).abs() < 0.01);
    let begins = runs.windows(2).filter(|pair| pair[1].lba != pair[0].lba + 8).map(|pair| pair[1].lba);
    let in_the_first_half = begins.clone().filter(|lba| *lba < GIB / 1024).count();
    assert!((in_the_first_half as f64 / begins.count() as f64 - 0.5).abs() < 0.02);
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
    let json = r#"{"kind":"uniform","trim_fraction":0.8,"requests":1000,"footprint_bytes":"40KiB"}"#;
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
    let config = WorkloadConfig {
        recorded: TraceKeys { trace: Some(path.display().to_string()), ..TraceKeys::default() },
        ..WorkloadConfig::default()
    };
    for (asked, expected) in [(None, 3), (Some(2), 2), (Some(9), 3)] {
        let mut source = config.factory(GIB, None, asked).unwrap().open(0).unwrap();
        let mut out = Vec::new();
        while source.fill(&mut out, 100).unwrap() > 0 {}
        assert_eq!(out.len(), expected);
    }
}

#[test]
fn sizes_of_operations_that_are_never_made_decide_nothing() {
    let small = |share: &str, key: &str| {
        let json = format!(
            r#"{{"kind":"uniform","requests":2000,"footprint_bytes":"64MiB",{share}"{key}":"64KiB"}}"#
        );
        let requests = requests_of(&json, GIB, 0);
        assert!(requests.iter().all(|request| request.sectors == 128 || request.op == Op::Flush), "{json}");
        share_of_multiples(&requests, 128)
    };
    assert_eq!(small("", "write_bytes"), 1.0);
    assert_eq!(small(r#""read_fraction":1,"#, "read_bytes"), 1.0);
    assert_eq!(small(r#""trim_fraction":1,"#, "trim_bytes"), 1.0);
    // A sum that misses 1 by a rounding leaves no writes.
    assert_eq!(small(r#""read_fraction":0.3,"trim_fraction":0.7,"trim_bytes":"64KiB","#, "read_bytes"), 1.0);
    assert_eq!(small(r#""read_fraction":0.9999999999,"#, "read_bytes"), 1.0);
    let json =
        r#"{"kind":"uniform","requests":2000,"trim_fraction":0.1,"write_bytes":"8KiB","trim_bytes":"8KiB"}"#;
    assert_eq!(share_of_multiples(&requests_of(json, GIB, 0), 16), 1.0);
    // Neither is there room for what is never made.
    let json = r#"{"kind":"uniform","requests":10,"footprint_bytes":512,"write_bytes":512}"#;
    assert_eq!(requests_of(json, GIB, 0).len(), 10);
    refused(
        r#"{"kind":"uniform","footprint_bytes":"64KiB","write_bytes":"1MiB"}"#,
        "write_bytes",
        "must fit the footprint of a stream, which has 65536 bytes",
    );
}

fn share_of_multiples(requests: &[Request], sectors: u64) -> f64 {
    share(requests, |request| request.lba % sectors == 0)
}

#[test]
fn sizes_that_no_request_has_are_refused() {
    let all = "all requests have the sizes of write_bytes: state one or the other";
    let one = r#""request_bytes":"1GiB","write_bytes":"64KiB""#;
    refused(&format!(r#"{{"kind":"uniform",{one}}}"#), "request_bytes", all);
    refused(r#"{"kind":"uniform","flush_fraction":1,"request_bytes":512}"#, "request_bytes", "no size");
    requests_of(
        r#"{"kind":"zipf","requests":9,"read_fraction":0.5,"request_bytes":512,"write_bytes":1024}"#,
        GIB,
        0,
    );
    // What makes no sense is told first: the pages of keys take their limits from there.
    for key in ["read_bytes", "write_bytes", "trim_bytes"] {
        let json = format!(r#"{{"kind":"uniform","request_bytes":"4KiB","{key}":1000}}"#);
        refused(&json, key, "must be a multiple of 512 bytes");
    }
    // What the whole says must serve in a phase, and what a phase says in that phase.
    let phases = |whole: &str, first: &str, second: &str| {
        format!(
            r#"{{"kind":"uniform","requests":9,{whole},"phases":[{{"requests":5,"with":{{{first}}}}},
                {{"requests":5,"with":{{{second}}}}}]}}"#
        )
    };
    let reads = r#""read_fraction":1"#;
    requests_of(&phases(r#""read_bytes":"8KiB""#, reads, ""), GIB, 0);
    requests_of(&phases(r#""request_bytes":"8KiB""#, r#""write_bytes":"64KiB""#, reads), GIB, 0);
    refused(&phases(r#""read_bytes":"8KiB""#, "", ""), "read_bytes", "no such requests");
    refused(&phases(reads, "", r#""write_bytes":"8KiB""#), "phases[1].with.write_bytes", "no such requests");
    refused(&phases(one, "", ""), "request_bytes", all);
    refused(
        &phases(reads, r#""read_bytes":512,"request_bytes":512"#, ""),
        "phases[0].with.request_bytes",
        "all",
    );
}

#[test]
fn the_largest_size_of_a_range_is_one_that_its_steps_reach() {
    let json = r#"{"kind":"uniform","requests":10,"footprint_bytes":"4KiB","request_bytes":{"4KiB-6KiB":1}}"#;
    assert!(requests_of(json, GIB, 0).iter().all(|request| (request.lba, request.sectors) == (0, 8)));
    let json = r#"{"kind":"uniform","footprint_bytes":"4KiB","request_bytes":{"2KiB-6KiB/1536B":1}}"#;
    let error = config(json).factory(GIB, None, None).err().map(|error| error.to_string());
    assert!(error.as_ref().is_some_and(|told| told.contains("5120")), "{error:?}");
}

#[test]
fn ranges_with_other_steps_are_other_ranges() {
    let of = |sizes: &str| format!(r#"{{"kind":"uniform","requests":20000,"request_bytes":{{{sizes}}}}}"#);
    let json = of(r#""4KiB-64KiB/4KiB":1,"4KiB-64KiB/512B":1"#);
    let parsed = config(&json);
    assert_eq!(config(&serde_json::to_string(&parsed).unwrap()), parsed);
    assert_eq!(config(&of(r#""4KiB-64KiB/512B":1,"4KiB-64KiB/4KiB":1"#)), parsed);
    // All of the first range, and 16 of the 121 sizes of the second.
    let pages = share(&requests_of(&json, GIB, 0), |request| request.sectors % 8 == 0);
    assert!((pages - 0.5 * (1.0 + 16.0 / 121.0)).abs() < 0.015, "{pages}");
    for twice in
        [r#""4KiB":1,"4096":1"#, r#""4KiB":1,"4KiB/512B":1"#, r#""4KiB-64KiB":1,"4KiB-64KiB/4KiB":1"#]
    {
        let error = serde_json::from_str::<WorkloadConfig>(&of(twice)).unwrap_err().to_string();
        assert!(error.contains("is given twice"), "{twice}: {error}");
    }
}

#[test]
fn sizes_are_refused_in_words() {
    for (json, found) in [
        (r#"{"kind":"uniform","trim_fraction":0.1,"trim_bytes":"1MiB"}"#, "1MiB"),
        (r#"{"kind":"uniform","trim_fraction":0.1,"alignment_bytes":"8KiB"}"#, "8KiB"),
        (
            r#"{"kind":"uniform","trim_fraction":0.1,"request_bytes":{"4KiB":1,"8KiB":1}}"#,
            "2 sizes from 4KiB to 8KiB",
        ),
    ] {
        let config: WorkloadConfig = serde_json::from_str(json).unwrap();
        assert_eq!(config.validate().unwrap_err().found, found);
    }
}

#[test]
fn what_is_found_is_said_as_a_file_says_it() {
    for (json, found) in [
        (
            r#"{"kind":"pc_general","pc_general":{"partition":["documents","copies"]}}"#,
            r#"["documents", "copies"]"#,
        ),
        (r#"{"kind":"uniform","page_quota":{"requests":5,"pages":6}}"#, "{ pages = 6, requests = 5 }"),
        (r#"{"kind":"disksim","interarrival":"asap"}"#, r#""asap""#),
        (
            r#"{"kind":"uniform","zones":[{"access_fraction":1,"space_fraction":0.5}]}"#,
            "[{ access_fraction = 1.0, space_fraction = 0.5 }]",
        ),
        (r#"{"kind":"uniform","db":{}}"#, "{...}"),
        (r#"{"kind":"uniform","read_bytes":"4KiB"}"#, "4KiB"),
        (r#"{"kind":"uniform","phases":[{"requests":5,"with":{"kind":"db"}}]}"#, "db"),
    ] {
        let config: WorkloadConfig = serde_json::from_str(json).unwrap();
        assert_eq!(config.validate().unwrap_err().found, found);
    }
}

#[test]
fn an_index_that_the_footprint_has_no_room_for_is_refused() {
    let of = |index: &str| {
        let json = format!(r#"{{"kind":"web_search","footprint_bytes":"1GiB","web_search":{{{index}}}}}"#);
        let config: WorkloadConfig = serde_json::from_str(&json).unwrap();
        config.factory(64 << 30, None, None).map(|_| ()).map_err(|error| error.to_string())
    };
    let told = of(r#""index_bytes":"2GiB""#).unwrap_err();
    assert!(told.contains("web_search.index_bytes") && told.contains("1073741824"), "{told}");
    assert!(of(r#""index_bytes":"1GiB""#).is_ok() && of("").is_ok());
}

/// More pages than the pool has, in numbers that do not fit 32 bits when they are multiplied.
#[test]
fn a_background_writer_may_have_no_limit() {
    let of = |pages: u32| {
        let json =
            format!(r#"{{"kind":"db","requests":3000,"db":{{"warehouses":1,"background_pages":{pages}}}}}"#);
        requests_of(&json, 4 * GIB, 0)
    };
    let unlimited = of(1_000_000);
    for pages in [1 << 30, (1 << 30) + 1, u32::MAX] {
        assert_eq!(of(pages), unlimited, "{pages}");
    }
}

#[test]
fn a_phase_drops_the_keys_of_arrivals_that_its_own_do_not_have() {
    let phases = |whole: &str, with: &str| {
        format!(
            r#"{{"kind":"uniform","requests":1000,{whole},"phases":[{{"requests":5}},
                {{"requests":5,"with":{{{with}}}}}]}}"#
        )
    };
    for whole in [
        r#""rate_iops":1000"#,
        r#""mean_interarrival_us":1000"#,
        r#""bursts":{"on_us":1000,"off_us":1000}"#,
        r#""think":{"every_requests":2,"pause_us":5}"#,
        r#""interarrival":"bursty","gap_cv":2"#,
    ] {
        let requests = requests_of(&phases(whole, r#""interarrival":"asap""#), GIB, 0);
        for round in requests.chunks(10) {
            assert!(round[5..].iter().all(|request| request.arrival_ns == round[4].arrival_ns), "{whole}");
        }
    }
    requests_of(&phases(r#""interarrival":"bursty","gap_cv":2"#, r#""interarrival":"fixed""#), GIB, 0);
    let both = r#""interarrival":"asap","rate_iops":5"#;
    refused(&phases(r#""read_fraction":0"#, both), "phases[1].with.rate_iops", "does not use this key");
}

#[test]
fn what_a_phase_refuses_is_told_of_the_key_in_the_file() {
    let phases = |whole: &str, with: &str| {
        format!(
            r#"{{"kind":"uniform",{whole},"phases":[{{"requests":5}},{{"requests":5,"with":{{{with}}}}}]}}"#
        )
    };
    let sizes = phases(r#""request_bytes":{"4KiB":1,"8KiB":1}"#, r#""trim_fraction":0.1"#);
    refused(&sizes, "request_bytes", "is counted in requests (in phases[1])");
    let large = phases(r#""read_fraction":0.5"#, r#""footprint_bytes":"2GiB""#);
    refused(&large, "phases[1].with.footprint_bytes", "on a drive of 1073741824 bytes");
    let small = phases(r#""footprint_bytes":"64KiB""#, r#""request_bytes":"1MiB""#);
    refused(&small, "phases[1].with.request_bytes", "must fit");
    let large = phases(r#""footprint_bytes":"2GiB""#, "");
    refused(&large, "footprint_bytes", "on a drive of 1073741824 bytes (in phases[0])");
}

#[test]
fn requests_may_take_as_long_as_the_longest_run() {
    let hourly = r#"{"kind":"uniform","mean_interarrival_us":3600000000}"#;
    let merged =
        |requests: u32| format!(r#"{{"kind":"merge","requests":{requests},"parts":[{hourly},{hourly}]}}"#);
    let phased = |requests: u32, first: u32| {
        format!(
            r#"{{"kind":"uniform","requests":{requests},"phases":[{{"requests":{first}}},
                {{"requests":1,"with":{{"mean_interarrival_us":3600000000}}}}]}}"#
        )
    };
    let timed = |requests: u32| {
        format!(
            r#"{{"kind":"uniform","requests":{requests},"rate_iops":1,"phases":[{{"duration_us":"1s"}},
                {{"duration_us":3600000000,"with":{{"rate_iops":0.0001}}}}]}}"#
        )
    };
    let alone = |requests: u32| {
        format!(
            r#"{{"kind":"uniform","requests":{requests},"interarrival":"fixed","mean_interarrival_us":1296000000000}}"#
        )
    };
    let paused = |requests: u32| {
        format!(
            r#"{{"kind":"uniform","requests":{requests},"think":{{"every_requests":1,"pause_us":5184000000000}}}}"#
        )
    };
    // 2555.5 hours are the longest run: a round of phases takes an hour and a millisecond for each fast request.
    for (json, taken) in [
        (merged(10), true),
        (merged(5110), true),
        (merged(5120), false),
        (phased(1_000_000, 100_000), true),
        (phased(1_000_000, 1), false),
        (phased(5100, 1), true),
        (phased(5120, 1), false),
        // 1.36 in a round of 3601 s.
        (timed(3470), true),
        (timed(3480), false),
        (alone(7), true),
        (alone(8), false),
        // One pause of 60 days, and two.
        (paused(2), true),
        (paused(3), false),
    ] {
        let told = config(&json).validate();
        assert_eq!(told.is_ok(), taken, "{json}: {told:?}");
        if let Err(error) = told {
            assert_eq!(error.key, "workload.requests", "{json}");
            assert!(error.expected.contains("within 106 days, the longest run"), "{json}: {error}");
        }
    }
    // Parts whose rate is not stated end a run no earlier.
    let json = r#"{"kind":"merge","parts":[{"kind":"phone_sqlite"},{"kind":"uniform","rate_iops":0.001}]}"#;
    assert_eq!(config(json).validate(), Ok(()));
    // Steps may say otherwise.
    let scaled = alone(8).replace('}', r#","transform":[{"step":"scale_time","factor":0.5}]}"#);
    assert_eq!(config(&scaled).validate(), Ok(()));
}

#[test]
fn spans_longer_than_the_longest_run_are_refused() {
    for (keys, key) in [
        (r#""bursts":{"on_us":1000000,"off_us":25920000000000}"#, "bursts.off_us"),
        (r#""bursts":{"on_us":9200000000001,"off_us":1}"#, "bursts.on_us"),
        (r#""think":{"every_requests":1000,"pause_us":9200000000001}"#, "think.pause_us"),
        (r#""mean_interarrival_us":9200000000001"#, "mean_interarrival_us"),
    ] {
        refused(&format!(r#"{{"kind":"uniform","requests":1,{keys}}}"#), key, "106 days, the longest run");
    }
    let longest =
        r#"{"kind":"uniform","requests":1,"interarrival":"fixed","mean_interarrival_us":9200000000000}"#;
    assert_eq!(requests_of(longest, GIB, 0)[0].arrival_ns, ftlab_core::time::LATEST_NS);
}

#[test]
fn trims_without_writes_stay_trims() {
    for (trims, flushes, reads) in [(0.5, 0.5, 0.0), (0.7, 0.0, 0.3)] {
        let json = format!(
            r#"{{"kind":"uniform","requests":40000,"footprint_bytes":"16MiB","trim_fraction":{trims},
                "flush_fraction":{flushes},"read_fraction":{reads}}}"#
        );
        let config: WorkloadConfig = serde_json::from_str(&json).unwrap();
        let mut source = config.factory(64 << 30, None, None).unwrap().open(0).unwrap();
        let mut out = Vec::new();
        while source.fill(&mut out, 4096).unwrap() > 0 {}
        let share = |op| out.iter().filter(|request| request.op == op).count() as f64 / 4e4;
        assert_eq!(share(Op::Write), 0.0);
        assert!((share(Op::Trim) - trims).abs() < 0.01);
    }
}
