//! How fast statistics are, and what they remember: `stats_bench [REQUESTS [ROW]]`, with all rows or those that begin
//! with `ROW`.
//!
//! Requests are made before. Prints:
//! - how many are counted in a second of the clock, to the last number of the result;
//! - their ratio to the 5 million that the statistics promise;
//! - the most memory that the allocator gave for each distinct page beyond the 10 MB that every trace costs;
//! - a hash of the result.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use ftlab_stats::StatsCollector;
use ftlab_workload::{CommonKeys, RequestBytes, SizeClass, WorkloadConfig, WorkloadKind};

struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let in_use = IN_USE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MOST.fetch_max(in_use, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PROMISED_RATE: f64 = 5e6;
const BATCH: usize = 4096;
const EVERY_TRACE_BYTES: f64 = 10e6;

fn mix(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
}

#[expect(clippy::print_stdout, reason = "its output is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let requests = std::env::args().nth(1).map_or(Ok(10_000_000), |text| text.parse())?;
    let wanted = std::env::args().nth(2).unwrap_or_default();
    let class = |&(bytes, weight): &(u64, f64)| SizeClass {
        min_bytes: bytes,
        max_bytes: bytes,
        step_bytes: bytes,
        weight,
    };
    let of = |kind, footprint: u64, sizes: &[(u64, f64)]| WorkloadConfig {
        kind: Some(kind),
        common: CommonKeys {
            requests: Some(requests),
            read_fraction: Some(0.5),
            footprint_bytes: Some(footprint),
            alignment_bytes: Some(4096),
            request_bytes: Some(RequestBytes::Weighted(sizes.iter().map(class).collect())),
            ..CommonKeys::default()
        },
        ..WorkloadConfig::default()
    };
    let small = [(4096, 1.0)];
    let mixed = [(4096, 6.0), (8192, 2.0), (16_384, 1.0), (65_536, 1.0)];
    let mut many = of(WorkloadKind::Uniform, 1000 << 40, &small);
    many.common.streams = Some(1000);
    let workloads = [
        ("zipf 16 GiB, 4 KiB", of(WorkloadKind::Zipf, 16 << 30, &small)),
        ("zipf 16 GiB, mixed", of(WorkloadKind::Zipf, 16 << 30, &mixed)),
        ("zipf 128 MiB, mixed", of(WorkloadKind::Zipf, 128 << 20, &mixed)),
        ("uniform 32 GiB, 4 KiB", of(WorkloadKind::Uniform, 32 << 30, &small)),
        ("uniform 8 TiB, 4 KiB", of(WorkloadKind::Uniform, 8 << 40, &small)),
        ("sequential, 64 KiB", of(WorkloadKind::Sequential, 64 << 30, &[(65_536, 1.0)])),
        // Hardly two pages of a translation page, and of as many volumes as streams.
        ("uniform 1 PiB, 4 KiB", of(WorkloadKind::Uniform, 1 << 50, &small)),
        ("1,000 x 1 TiB, 4 KiB", many),
    ];
    println!(
        "{:22} {:>12} {:>8} {:>12} {:>11}  hash",
        "workload", "requests/s", "of 5 M", "pages", "bytes/page"
    );
    for (name, config) in workloads.into_iter().filter(|(name, _)| name.starts_with(&wanted)) {
        let mut source = config.factory(1 << 50, None, None)?.open(0)?;
        let mut all = Vec::with_capacity(usize::try_from(requests)?);
        while source.fill(&mut all, BATCH)? > 0 {}
        drop(source);
        let before = IN_USE.load(Ordering::Relaxed);
        MOST.store(before, Ordering::Relaxed);
        let start = Instant::now();
        let mut collector = StatsCollector::default();
        all.chunks(BATCH).for_each(|batch| collector.add(batch));
        let stats = collector.finish();
        let spent = start.elapsed();
        let memory = MOST.load(Ordering::Relaxed) - before;
        let hash = serde_json::to_vec(&stats)?.into_iter().fold(0, mix);
        let rate = requests as f64 / spent.as_secs_f64();
        let bytes = (memory as f64 - EVERY_TRACE_BYTES).max(0.0) / stats.footprint_pages_4k as f64;
        println!(
            "{name:22} {rate:12.0} {:8.2} {:12} {bytes:11.1}  {hash:016x}",
            rate / PROMISED_RATE,
            stats.footprint_pages_4k
        );
    }
    Ok(())
}
