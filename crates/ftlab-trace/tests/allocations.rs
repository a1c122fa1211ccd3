//! Decoding and transforming allocate nothing per request once warm.

mod counting;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use counting::{BYTES, PEAK, allocations};
use ftlab_core::host::request::{Op, Request, SourceFactory, VecSource};
use ftlab_trace::transform::{Step, transformed};
use ftlab_trace::{FORMATS, Format, Input, OpenOptions, create, open};
use ftlab_workload::{CommonKeys, WorkloadConfig, WorkloadKind};

/// One test, because the counter is shared by all threads.
#[test]
fn nothing_is_allocated_per_request_once_warm() {
    const HALF: u64 = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let config = WorkloadConfig {
        kind: Some(WorkloadKind::Zipf),
        common: CommonKeys { read_fraction: Some(0.5), requests: Some(2 * HALF), ..CommonKeys::default() },
        ..WorkloadConfig::default()
    };
    let generator = config.factory(1 << 30, None, None).unwrap();
    let mut requests = Vec::new();
    let mut source = generator.open(0).unwrap();
    while source.fill(&mut requests, 1 << 16).unwrap() > 0 {}

    let steps = [
        r#"{"step": "scale_time", "factor": 0.5}"#,
        r#"{"step": "filter", "ops": ["read", "write"], "to_bytes": 1000000512}"#,
        r#"{"step": "wrap", "bytes": 900000256}"#,
        r#"{"step": "compact", "chunk_bytes": 65536, "order": "first_touch"}"#,
        r#"{"step": "align", "bytes": 16384}"#,
        r#"{"step": "cap_outstanding", "outstanding": 8, "service_us": 900}"#,
    ];
    let steps: Vec<Step> = steps.iter().map(|step| serde_json::from_str(step).unwrap()).collect();
    let whole = transformed(Arc::new(VecSource::new(requests.clone())), &steps);
    let mut aging = whole.open(1).unwrap();
    // A pass that ages a drive knows all chunks before it begins.
    assert_eq!(allocations(&mut *aging, HALF / 2), 0);

    for format in FORMATS.iter().filter(|format| format.is_writable()) {
        let path = folder.path().join(format!("trace.{}", format.name));
        let mut output = create(&path, format.name).unwrap();
        output.write(&requests).unwrap();
        output.finish().unwrap();
        // Parquet allocates for each page of a column, of many thousand values.
        let allowed = if format.name == "parquet" { HALF / 50 } else { 0 };
        let mut direct = format.reader(Input::open(&path).unwrap()).unwrap();
        let count = allocations(&mut *direct, HALF);
        assert!(count <= allowed, "{}: {count}", format.name);
        // Threads that wait for each other allocate a little on their first waits.
        let trace = open(&path, &OpenOptions::default()).unwrap();
        let count = allocations(&mut *trace.open(0).unwrap(), HALF);
        assert!(count <= allowed + 8, "{} on its thread: {count}", format.name);
    }

    columnar_files_stream_through_bounded_memory(folder.path());
}

/// The most memory that `work` had in use at a time.
fn peak_of(work: impl FnOnce()) -> u64 {
    let before = BYTES.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    PEAK.load(Ordering::Relaxed) - before
}

/// Two files, one twice as long, or four times in `make test-long`. What writing and reading takes beyond a fixed amount
/// is the footer, of which every 131,072 requests have a part of a few kilobytes. Rows are on their way to the thread that
/// encodes as well.
fn columnar_files_stream_through_bounded_memory(folder: &std::path::Path) {
    const GROUP: u64 = 1 << 17;
    const FOOTER: u64 = 8 << 10;
    /// At most 66 times 1,024 rows of 48 bytes.
    const ON_ITS_WAY: u64 = 66 * 1024 * 48;
    let (short_count, times) =
        if std::env::var_os("FTLAB_LONG").is_some() { (1_u64 << 20, 4) } else { (1 << 17, 2) };
    let mut peaks = Vec::new();
    for count in [short_count, times * short_count] {
        let path = folder.join("long.parquet");
        let mut batch = Vec::with_capacity(4096);
        let writing = peak_of(|| {
            let mut output = create(&path, "parquet").unwrap();
            for begin in (0..count).step_by(4096) {
                batch.clear();
                batch.extend((begin..begin + 4096).map(|index| {
                    let mixed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                    let op = if mixed & 4 == 0 { Op::Read } else { Op::Write };
                    Request {
                        arrival_ns: index * 100,
                        lba: (mixed ^ mixed >> 29) >> 30,
                        sectors: 8,
                        op,
                        stream: 0,
                        fua: false,
                    }
                }));
                output.write(&batch).unwrap();
            }
            output.finish().unwrap();
        });
        let reading = peak_of(|| {
            let mut source = Format::named("parquet").unwrap().reader(Input::open(&path).unwrap()).unwrap();
            let mut seen = 0;
            loop {
                batch.clear();
                let filled = source.fill(&mut batch, 4096).unwrap() as u64;
                if filled == 0 {
                    break;
                }
                seen += filled;
            }
            assert_eq!(seen, count);
        });
        peaks.push((writing, reading));
    }
    let [short, long] = peaks[..] else { unreachable!("there are two files") };
    let footers = (times - 1) * short_count / GROUP * FOOTER;
    assert!(long.0 <= short.0 + footers + ON_ITS_WAY && long.1 <= short.1 + footers, "{peaks:?}");
    // The requests themselves would take 32 MiB, or 128.
    assert!(long.0 < 32 << 20 && long.1 < 8 << 20, "{peaks:?}");
}
