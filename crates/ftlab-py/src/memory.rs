//! What happens where memory ends: a sentence and exit status 2, where Rust would abort the process.
//!
//! Tables of drives are checked before they are made. What statistics and readers take depends on the data.

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// The allocator of the system, which ends the process in order when there is no memory left.
struct Told;

#[global_allocator]
static ALLOCATOR: Told = Told;

#[cold]
fn end(bytes: usize) -> ! {
    // No memory may be taken for it, and no other thread may be waited for.
    let mut text = [0_u8; 160];
    let mut rest = &mut text[..];
    let _ = writeln!(
        rest,
        "error: out of memory: {bytes} bytes more were wanted, and the machine or a limit (ulimit -v) gives no more"
    );
    let written = 160 - rest.len();
    // SAFETY: the bytes are there, and what is to be done at exit would want memory too.
    unsafe {
        // Lengths have another type on Windows.
        libc::write(2, text.as_ptr().cast(), written as _);
        libc::_exit(2);
    }
}

// SAFETY: all is left to the allocator of the system; a null pointer is never given out.
unsafe impl GlobalAlloc for Told {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what the caller has promised.
        let taken = unsafe { System.alloc(layout) };
        if taken.is_null() { end(layout.size()) } else { taken }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: what the caller has promised.
        let taken = unsafe { System.alloc_zeroed(layout) };
        if taken.is_null() { end(layout.size()) } else { taken }
    }

    #[inline]
    unsafe fn realloc(&self, old: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: what the caller has promised.
        let taken = unsafe { System.realloc(old, layout, bytes) };
        if taken.is_null() { end(bytes) } else { taken }
    }

    #[inline]
    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: what the caller has promised.
        unsafe { System.dealloc(old, layout) }
    }
}
