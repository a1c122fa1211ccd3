//! Decoding and generating allocate nothing per request once warm.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ftlab_core::host::request::{Op, Request, RequestSource, SourceFactory, VecSource};
use ftlab_trace::transform::{Step, transformed};
use ftlab_trace::workload::{WorkloadConfig, WorkloadKind, Zone};
use ftlab_trace::{FORMATS, Format, Input, OpenOptions, create, open};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes in use, and the most there were since somebody looked.
static BYTES: AtomicU64 = AtomicU64::new(0);
static PEAK: AtomicU64 = AtomicU64::new(0);

fn grown(bytes: usize) {
    let now = BYTES.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

fn shrunk(bytes: usize) {
    BYTES.fetch_sub(bytes as u64, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        grown(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        shrunk(layout.size());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        shrunk(layout.size());
        grown(size);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations while the source makes its last requests, after as many to warm up.
fn allocations(source: &mut dyn RequestSource, half: u64) -> u64 {
    let mut batch = Vec::with_capacity(4096);
    let (mut made, mut warm) = (0, None);
    while source.fill(&mut batch, 4096).unwrap() > 0 {
        made += batch.len() as u64;
        batch.clear();
        if made >= half && warm.is_none() {
            warm = Some(ALLOCATIONS.load(Ordering::Relaxed));
        }
        if made >= 2 * half - 4096 {
            break;
        }
    }
    ALLOCATIONS.load(Ordering::Relaxed) - warm.unwrap()
}

/// One test, because the counter is shared by all threads.
#[test]
fn nothing_is_allocated_per_request_once_warm() {
    const HALF: u64 = 100_000;
    let folder = tempfile::tempdir().unwrap();
    let config = WorkloadConfig {
        kind: Some(WorkloadKind::Zipf),
        read_fraction: Some(0.5),
        requests: Some(2 * HALF),
        ..WorkloadConfig::default()
    };
    let generator = config.factory(1 << 30, None, None).unwrap();
    let mut requests = Vec::new();
    let mut source = generator.open(0).unwrap();
    while source.fill(&mut requests, 1 << 16).unwrap() > 0 {}
    assert_eq!(allocations(&mut *generator.open(0).unwrap(), HALF), 0);

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

    // Kind `fitted` needs a model, and stands for a trace: tests/fit.rs.
    for kind in WorkloadKind::ALL.into_iter().filter(|kind| *kind != WorkloadKind::Fitted) {
        let zones = vec![Zone { access_fraction: 1.0, space_fraction: 1.0 }];
        let part = WorkloadConfig { kind: Some(WorkloadKind::PhoneSqlite), ..WorkloadConfig::default() };
        let config = WorkloadConfig {
            kind: Some(kind),
            requests: Some(2 * HALF),
            zones: (kind == WorkloadKind::Zoned).then_some(zones),
            parts: (kind == WorkloadKind::Merge).then(|| vec![part]),
            ..WorkloadConfig::default()
        };
        let generator = config.factory(64 << 30, None, None).unwrap();
        let count = allocations(&mut *generator.open(0).unwrap(), HALF);
        // What a mechanism remembers (files, objects) may still grow, by doubling.
        assert!(count <= 40, "{}: {count}", kind.name());
    }

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

/// Two files, one four times as long: what writing and reading takes beyond a fixed amount is the footer, of which
/// every 131,072 requests have a part of a few kilobytes.
fn columnar_files_stream_through_bounded_memory(folder: &std::path::Path) {
    const SHORT: u64 = 1 << 20;
    const GROUP: u64 = 1 << 17;
    const FOOTER: u64 = 8 << 10;
    let mut peaks = Vec::new();
    for count in [SHORT, 4 * SHORT] {
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
    let footers = 3 * SHORT / GROUP * FOOTER;
    assert!(long.0 <= short.0 + footers && long.1 <= short.1 + footers, "{peaks:?}");
    // The requests themselves would take 128 MiB.
    assert!(long.0 < 32 << 20 && long.1 < 8 << 20, "{peaks:?}");
}
