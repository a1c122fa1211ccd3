//! The limit kernel: what the machine's memory allows for uniform single-page writes with greedy collection.
//!
//! For each host write it touches what no page-mapping simulator can avoid touching, and decides nothing: one entry of
//! the map at random, the validity bit and the count of the block that the entry points to, and in sequence the page
//! written and its validity bit. For each page that collection copies: in sequence the page it comes from and the
//! page it goes to, and at random the entry of the map. The number of copies is that of the measured run.
//!
//! Two kernels, since "what the machine allows" depends on who programs it: the plain one is the loop as anyone would
//! write it; the prefetching one asks for each random touch ahead of time, on large pages of memory, and is the
//! strictest limit that we know how to state.

use std::time::Instant;

/// Nanoseconds per host write, and a hash of what was touched.
pub struct Limit {
    pub ns_per_write: f64,
    pub hash: u64,
}

struct Tables {
    map: Vec<u32>,
    pages: Vec<u32>,
    valid: Vec<u64>,
    counts: Vec<u16>,
}

fn large<T: Copy>(len: usize, value: T, large_pages: bool) -> Vec<T> {
    let mut table: Vec<T> = Vec::with_capacity(len);
    #[cfg(target_os = "linux")]
    if large_pages {
        const LARGE: usize = 1 << 21;
        let start = (table.as_ptr() as usize).next_multiple_of(LARGE);
        let end = table.as_ptr() as usize + len * size_of::<T>();
        if start + LARGE <= end {
            // SAFETY: within our own allocation; advice changes only how it is paged.
            unsafe {
                libc::madvise(start as *mut libc::c_void, (end - start) / LARGE * LARGE, libc::MADV_HUGEPAGE)
            };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = large_pages;
    table.resize(len, value);
    table
}

#[inline(always)]
fn prefetch<T>(table: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever its address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(table.as_ptr().wrapping_add(index).cast::<i8>()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, index);
}

/// Run the kernel for `writes` host writes over `logical` of `physical` pages, `copies` pages copied for each.
pub fn run<const PREFETCH: bool>(logical: usize, physical: usize, copies: f64, writes: u64) -> Limit {
    const AHEAD: usize = 32;
    let mut tables = Tables {
        map: large(logical, 0, PREFETCH),
        pages: large(physical, 0, PREFETCH),
        valid: large(physical / 64 + 1, u64::MAX, PREFETCH),
        counts: large(physical / 64 + 1, 64, PREFETCH),
    };
    // A drive in use: entries point anywhere.
    let scattered = |at: usize, below: usize| (at as u64 * 2_654_435_761 % below as u64) as u32;
    for (lpn, entry) in tables.map.iter_mut().enumerate() {
        *entry = scattered(lpn, physical);
    }
    for (ppn, page) in tables.pages.iter_mut().enumerate() {
        *page = scattered(ppn, logical);
    }
    let mut state = 1_u64;
    let mut draw = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (((state >> 32) * logical as u64) >> 32) as usize
    };
    let mut ring: [usize; AHEAD] = std::array::from_fn(|_| draw());
    let (mut next, mut source, mut owed, mut at) = (0_usize, physical / 2, 0.0, 0_usize);
    let start = Instant::now();
    for _ in 0..writes {
        let slot = at % AHEAD;
        let lpn = std::mem::replace(&mut ring[slot], draw());
        if PREFETCH {
            prefetch(&tables.map, ring[slot]);
            let old = tables.map[ring[(at + AHEAD / 2) % AHEAD]] as usize;
            prefetch(&tables.valid, old / 64);
            prefetch(&tables.counts, old / 64);
        }
        at += 1;
        let old = tables.map[lpn] as usize;
        tables.valid[old / 64] &= !(1 << (old % 64));
        tables.counts[old / 64] = tables.counts[old / 64].wrapping_sub(1);
        tables.write(lpn, &mut next);
        owed += copies;
        while owed >= 1.0 {
            owed -= 1.0;
            if PREFETCH && source + AHEAD < physical {
                prefetch(&tables.map, tables.pages[source + AHEAD] as usize);
            }
            let moved = tables.pages[source] as usize;
            source = if source + 1 == physical { 0 } else { source + 1 };
            tables.write(moved, &mut next);
        }
    }
    let ns_per_write = start.elapsed().as_nanos() as f64 / writes as f64;
    let hash = tables.map.iter().fold(0_u64, |hash, entry| hash.rotate_left(5) ^ u64::from(*entry));
    Limit { ns_per_write, hash }
}

impl Tables {
    #[inline(always)]
    fn write(&mut self, lpn: usize, next: &mut usize) {
        self.map[lpn] = *next as u32;
        self.pages[*next] = lpn as u32;
        self.valid[*next / 64] |= 1 << (*next % 64);
        *next = if *next + 1 == self.pages.len() { 0 } else { *next + 1 };
    }
}
