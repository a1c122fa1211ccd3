//! Large tables that are touched at random.

use crate::interrupt::Interrupt;

/// A table of `len` zeros, on large pages of memory where the system has them. It takes memory only where it is touched.
///
/// A drive's tables are touched at random; with small pages most touches would first miss the processor's table of
/// pages, which costs more than the touch itself.
pub(crate) fn zeros<T: Copy + Default>(len: usize) -> Vec<T> {
    let table = vec![T::default(); len];
    advise_large_pages(&table);
    table
}

/// A table of `len` times `value`, on large pages too. Once the end is asked for it stays zeros: nobody reads it any more.
pub(crate) fn filled(len: usize, value: u32, interrupt: &Interrupt) -> Vec<u32> {
    let mut table = zeros(len);
    for part in table.chunks_mut(1 << 20) {
        if interrupt.is_asked() {
            break;
        }
        part.fill(value);
    }
    table
}

#[cfg(target_os = "linux")]
fn advise_large_pages<T>(table: &Vec<T>) {
    const LARGE: usize = 1 << 21;
    let start = (table.as_ptr() as usize).next_multiple_of(LARGE);
    let end = table.as_ptr() as usize + table.capacity() * size_of::<T>();
    if start + LARGE <= end {
        // SAFETY: the range lies within one allocation of ours; the advice changes how it is paged, not what it holds.
        // It may be refused, and then nothing changes.
        unsafe {
            libc::madvise(start as *mut libc::c_void, (end - start) / LARGE * LARGE, libc::MADV_HUGEPAGE)
        };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise_large_pages<T>(_: &Vec<T>) {}

/// Ask the processor to bring `table[index]` into its cache; nothing else happens, not even for a wrong index.
#[inline(always)]
pub fn prefetch<T>(table: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = table.as_ptr().wrapping_add(index).cast::<i8>();
        // SAFETY: a prefetch never faults, whatever its address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, index);
}
