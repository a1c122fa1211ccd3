//! How much memory a thread has taken: what reads a small file must not take much.
//!
//! What the libraries of compression take is not seen here, because they are written in C.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// Bytes that this thread took and did not give back; below 0 when it gave back those of another.
    static TAKEN: Cell<isize> = const { Cell::new(0) };
    static MOST: Cell<isize> = const { Cell::new(0) };
}

fn grow(bytes: isize) {
    // A thread that ends gives memory back when its variables are gone already.
    let _ = TAKEN.try_with(|taken| {
        taken.set(taken.get() + bytes);
        let _ = MOST.try_with(|most| most.set(most.get().max(taken.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        grow(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        grow(layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        grow(-layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        grow(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Run something, and give the most bytes that its thread took meanwhile.
pub fn most_taken<T>(run: impl FnOnce() -> T) -> (T, u64) {
    let before = TAKEN.get();
    MOST.set(before);
    let result = run();
    (result, MOST.get().saturating_sub(before).max(0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_takes_is_counted() {
        let large = |bytes: usize| vec![1_u8; bytes].len();
        let (length, most) = most_taken(|| large(1 << 20) + large(1 << 19));
        assert_eq!((length, most), (3 << 19, 1 << 20));
    }
}
