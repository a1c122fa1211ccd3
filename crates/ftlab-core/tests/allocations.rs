//! Nothing is allocated per request once a drive is warm: twice the requests, the same allocations.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{device, merged, small};
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_core::ftl::gc::VictimKind;
use ftlab_core::host::request::{Op, Request, RequestSource, SourceError, SourceFactory};
use serde_json::json;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as our caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as our caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: as our caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Requests of every kind over the whole drive, made without memory.
#[derive(Clone, Copy)]
struct Endless {
    made: u64,
    count: u64,
    sectors: u64,
}

impl RequestSource for Endless {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let count = (self.count - self.made).min(max as u64);
        for _ in 0..count {
            self.made += 1;
            let mixed = self.made.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let sectors = 1 + (mixed >> 50) as u32 % 24;
            let op = match (mixed >> 20) % 8 {
                0..=4 => Op::Write,
                5 | 6 => Op::Read,
                _ => Op::Trim,
            };
            // Bursts, so that queues grow and shrink.
            let arrival_ns = self.made / 50 * 120_000_000;
            out.push(Request { arrival_ns, lba: (mixed >> 8) % (self.sectors - 24), sectors, op, stream: 0 });
        }
        Ok(count as usize)
    }
}

impl SourceFactory for Endless {
    fn open(&self, _: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        Ok(Box::new(*self))
    }
}

fn allocations(config: &DeviceConfig, count: u64, timing: bool) -> u64 {
    let source = Endless { made: 0, count, sectors: config.logical_pages() * 8 };
    let options = RunOptions { timing, ..RunOptions::default() };
    let before = ALLOCATIONS.with(Cell::get);
    let outcome = simulate(config, &source, &options, &RunControl::default(), &mut ()).unwrap();
    assert_eq!((outcome.error, outcome.summary.host.completed), (None, count));
    ALLOCATIONS.with(Cell::get) - before
}

#[test]
fn a_warm_drive_allocates_nothing_for_a_request() {
    for kind in VictimKind::ALL {
        for (ways, timing) in [(1, false), (1, true), (3, true)] {
            let changes = json!({
                "geometry": { "ways": ways, "planes": 2 },
                "ftl": { "gc": kind.name(), "over_provisioning": 0.6, "wear_leveling": "static",
                    "wear_leveling_threshold": 3 },
                "host": { "outstanding": 16, "link_mb_per_s": 500, "link_duplex": "half" },
                "precondition": { "kind": "fill" },
            });
            let config = device(merged(small(), changes));
            let (short, long) = (allocations(&config, 40_000, timing), allocations(&config, 80_000, timing));
            // A queue that grows longer than ever before doubles its room: a handful for 40,000 requests more.
            assert!(
                long <= short + 8,
                "{short}, then {long}: {} on {ways} ways, timing {timing}",
                kind.name()
            );
        }
    }
}
