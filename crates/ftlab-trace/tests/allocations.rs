//! Decoding and generating allocate nothing per request once warm.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use ftlab_core::host::request::{RequestSource, SourceFactory};
use ftlab_trace::workload::{WorkloadConfig, WorkloadKind, Zone};
use ftlab_trace::{FORMATS, Input, OpenOptions, create, open};

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
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

    for kind in WorkloadKind::ALL {
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
}
