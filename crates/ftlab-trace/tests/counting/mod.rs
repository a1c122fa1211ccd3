//! An allocator that counts, for tests of what is allocated.
#![allow(dead_code, reason = "each test uses its part")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use ftlab_core::host::request::RequestSource;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
/// Bytes in use, and the most there were since somebody looked.
pub static BYTES: AtomicU64 = AtomicU64::new(0);
pub static PEAK: AtomicU64 = AtomicU64::new(0);

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
pub fn allocations(source: &mut dyn RequestSource, half: u64) -> u64 {
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
