//! The model of a solid-state drive. No files, no wall clock, no printing, no text formats: those are above.

pub mod config;
pub mod device;
pub mod flash;
pub mod ftl;
pub mod geometry;
pub mod host;
pub mod metrics;
pub mod quantity;
pub mod rng;
pub mod schemes;
pub mod time;
pub mod verify;

/// Ask the processor to bring `table[index]` into its cache; nothing else happens, not even for a wrong index.
#[inline(always)]
pub(crate) fn prefetch<T>(table: &[T], index: usize) {
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
