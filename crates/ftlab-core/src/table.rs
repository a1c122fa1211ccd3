//! Large tables that are touched at random.

use std::collections::VecDeque;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::interrupt::Interrupt;

/// A table of `len` zeros, on large pages of memory where the system has them. It takes memory only where it is touched.
///
/// A drive's tables are touched at random; with small pages most touches would first miss the processor's table of
/// pages, which costs more than the touch itself.
pub(crate) fn zeros<T: Copy + Default>(len: usize) -> Vec<T> {
    let table = vec![T::default(); len];
    advise(&table, Pages::Large);
    table
}

/// Tables of more bytes begin on small pages, where little of them may be touched: a large page is 512 small ones.
const LARGEST_DENSE: usize = 16 << 20;

/// The system may refuse to promise memory for larger ones, though little of them will be touched.
const LARGEST_PROMISED: usize = 1 << 30;

/// The pages of memory that a table is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    Small,
    /// From the first touch on.
    Large,
}

/// The parts of a table that are on small pages, and when to look which of them were touched.
///
/// A small page costs some microseconds when it is touched first, and a large one as much as a hundred small ones. So parts that were
/// touched here and there are brought to large pages soon.
#[derive(Debug)]
struct SmallParts {
    /// By number; those that were looked at last are at the end.
    left: VecDeque<u32>,
    /// Parts that this round has not looked at.
    in_round: usize,
    /// Touches before the next round.
    wait: u32,
}

impl SmallParts {
    /// So many parts are looked at together, and the next ones so many touches later.
    const TOGETHER: usize = 16;
    const TOUCHES_APART: u32 = 256;

    fn of<T>(table: &[T]) -> Option<Self> {
        let parts = paging::parts(table);
        // Scattered touches have come to more than a quarter of the pages then.
        let wait = (parts * paging::SMALL_PAGES / 3) as u32;
        (parts > 0).then(|| Self { left: (0..parts as u32).collect(), in_round: parts, wait })
    }

    /// Bring the next parts of `table` to large pages, as far as they were touched. How many touches later to look again; each
    /// round waits for twice as many as the one before.
    fn look<T>(&mut self, table: &[T]) -> u32 {
        let looks = self.in_round.min(Self::TOGETHER);
        for _ in 0..looks {
            let Some(part) = self.left.pop_front() else { break };
            if !paging::gather(table, part as usize) {
                self.left.push_back(part);
            }
        }
        self.in_round -= looks;
        if self.in_round > 0 {
            return Self::TOUCHES_APART;
        }
        self.in_round = self.left.len();
        self.wait = self.wait.saturating_mul(2);
        self.wait
    }
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
mod paging {
    use super::Pages;

    /// A large page.
    const LARGE: usize = 1 << 21;
    const SMALL: usize = 1 << 12;
    pub(super) const SMALL_PAGES: usize = LARGE / SMALL;
    /// Of Linux 6.1 on; not in the headers of every C library.
    const MADV_COLLAPSE: libc::c_int = 25;

    /// Where the first part of a table starts.
    fn first_part<T>(table: &[T]) -> usize {
        (table.as_ptr() as usize).next_multiple_of(LARGE)
    }

    /// How many large pages lie within a table.
    pub(super) fn parts<T>(table: &[T]) -> usize {
        (table.as_ptr() as usize + size_of_val(table)).saturating_sub(first_part(table)) / LARGE
    }

    pub(super) fn advise<T>(table: &[T], pages: Pages) {
        let advice = if pages == Pages::Small { libc::MADV_NOHUGEPAGE } else { libc::MADV_HUGEPAGE };
        let parts = parts(table);
        if parts > 0 {
            // SAFETY: the range lies within one allocation of ours; the advice changes how it is paged, not what it holds.
            // It may be refused, and then nothing changes.
            unsafe { libc::madvise(first_part(table) as *mut libc::c_void, parts * LARGE, advice) };
        }
    }

    /// Bring a part of a table to a large page, if a quarter of its small ones was touched; whether it was.
    pub(super) fn gather<T>(table: &[T], part: usize) -> bool {
        debug_assert!(part < parts(table));
        let page = (first_part(table) + part * LARGE) as *mut libc::c_void;
        let mut touched = [0_u8; SMALL_PAGES];
        // SAFETY: the range lies within one allocation of ours, and there is a byte for each small page of it. Where pages
        // are larger than that, fewer are written.
        let known = unsafe { libc::mincore(page, LARGE, touched.as_mut_ptr().cast()) } == 0;
        let enough = known && touched.iter().filter(|byte| **byte & 1 == 1).count() >= SMALL_PAGES / 4;
        if enough {
            for advice in [libc::MADV_HUGEPAGE, MADV_COLLAPSE] {
                // SAFETY: as in `advise`.
                unsafe { libc::madvise(page, LARGE, advice) };
            }
        }
        enough
    }
}

#[cfg(not(target_os = "linux"))]
mod paging {
    pub(super) const SMALL_PAGES: usize = 1;

    pub(super) fn parts<T>(_: &[T]) -> usize {
        0
    }

    pub(super) fn advise<T>(_: &[T], _: super::Pages) {}

    pub(super) fn gather<T>(_: &[T], _: usize) -> bool {
        true
    }
}

use paging::advise;

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

/// Ask the processor for the memory that follows `written`, a list that grows, to write there. Otherwise all that is written later
/// waits for it, and soon what is read, too.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(written: &[T]) {
    /// How far ahead. Memory that another thread has just read takes as long as any other.
    #[cfg(target_arch = "x86_64")]
    const AHEAD_BYTES: usize = 512;
    #[cfg(target_arch = "x86_64")]
    {
        let next = written.as_ptr().wrapping_add(written.len());
        // The intrinsic asks for it to read, and for the right to write one would wait again. Processors of 64 bits that do not
        // have this instruction ignore it.
        // SAFETY: a prefetch never faults, whatever its address, and changes nothing that can be read.
        unsafe {
            std::arch::asm!("prefetchw [{} + {}]", in(reg) next, const AHEAD_BYTES, options(nostack, preserves_flags, readonly));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = written;
}

/// A table that is touched at random, and whose copies share what neither side has changed since.
///
/// A session is copied hundreds of times from one state, and each copy touches little. So the first copy of a large table
/// writes it out, and every copy maps that. The system copies a page of memory when it is changed. Where the system
/// cannot do so, and for small tables, copies are whole.
pub(crate) struct Table<T> {
    start: NonNull<T>,
    len: usize,
    /// Changed since `shared` was written.
    changed: AtomicBool,
    memory: Memory,
    /// Touches until parts of it are looked at.
    until_look: u32,
    small: Option<Box<SmallParts>>,
    shared: Mutex<Option<Arc<Shared>>>,
}

/// Whose memory a table is in.
enum Memory {
    /// That of a vector with room for so many.
    Own(usize),
    /// A mapping.
    Mapped,
}

// SAFETY: a table owns its memory as a vector does. What `clone` changes of one that is shared is behind a lock.
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `start` and `len` are those of the memory that the table holds.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        *self.changed.get_mut() = true;
        // SAFETY: as in `deref`; nobody else has this memory, as mappings are private.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T> From<Vec<T>> for Table<T> {
    fn from(own: Vec<T>) -> Self {
        let mut own = ManuallyDrop::new(own);
        let (len, memory) = (own.len(), Memory::Own(own.capacity()));
        let start = NonNull::new(own.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Self {
            start,
            len,
            changed: AtomicBool::new(true),
            memory,
            until_look: u32::MAX,
            small: None,
            shared: Mutex::new(None),
        }
    }
}

impl<T> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("len", &self.len).finish_non_exhaustive()
    }
}

/// Numbers of which any bits are one.
pub(crate) trait Plain: Copy {}
impl Plain for u32 {}
impl Plain for u64 {}

/// Tables of fewer bytes are copied whole: that is as fast.
const LEAST_SHARED: usize = 1 << 22;

impl<T: Plain + Default> Table<T> {
    /// Zeros of which perhaps little will be touched: a large table takes memory by small pages, as far as few of them are
    /// [touched](Self::touched).
    pub(crate) fn sparse_zeros(len: usize) -> Self {
        let bytes = len * size_of::<T>();
        if bytes <= LARGEST_DENSE {
            return zeros(len).into();
        }
        let mapped = if bytes > LARGEST_PROMISED { Self::unpromised_zeros(len) } else { None };
        let mut table = mapped.unwrap_or_else(|| vec![T::default(); len].into());
        advise(&table, Pages::Small);
        table.small = SmallParts::of(&table).map(Box::new);
        table.until_look = table.small.as_ref().map_or(u32::MAX, |small| small.wait);
        table
    }

    /// Zeros that the system has not promised to have room for; `None` where it knows no such thing.
    #[cfg(target_os = "linux")]
    fn unpromised_zeros(len: usize) -> Option<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), len * size_of::<T>(), access, kind, -1, 0) };
        let start = NonNull::new(start.cast::<T>()).filter(|_| start != libc::MAP_FAILED)?;
        Some(Self {
            start,
            len,
            changed: AtomicBool::new(true),
            memory: Memory::Mapped,
            until_look: u32::MAX,
            small: None,
            shared: Mutex::new(None),
        })
    }

    #[cfg(not(target_os = "linux"))]
    fn unpromised_zeros(_: usize) -> Option<Self> {
        None
    }
}

impl<T> Table<T> {
    /// So many places of it were changed. Now and then, this brings parts of it to large pages: in steps, for whoever watches
    /// memory to see how it grows. What was hardly touched stays on small pages.
    #[inline(always)]
    pub(crate) fn touched(&mut self, places: u32) {
        let (left, has_passed) = self.until_look.overflowing_sub(places);
        self.until_look = left;
        if has_passed {
            self.look();
        }
    }

    #[cold]
    fn look(&mut self) {
        let mut small = self.small.take();
        self.until_look = small.as_mut().map_or(u32::MAX, |parts| parts.look(self));
        self.small = small.filter(|parts| !parts.left.is_empty());
    }

    /// Parts of it on small pages.
    #[cfg(test)]
    pub(crate) fn small_parts(&self) -> usize {
        self.small.as_ref().map_or(0, |parts| parts.left.len())
    }

    /// All of it is going to be entered now.
    pub(crate) fn make_dense(&mut self) {
        if self.small.take().is_some() {
            advise(self, Pages::Large);
        }
    }
}

impl<T: Plain> Clone for Table<T> {
    fn clone(&self) -> Self {
        self.shared_copy().unwrap_or_else(|| Self::from(self.to_vec()))
    }
}

impl<T: Plain> Table<T> {
    fn shared_copy(&self) -> Option<Self> {
        let bytes = self.len * size_of::<T>();
        if bytes < LEAST_SHARED {
            return None;
        }
        let mut held = self.shared.lock().ok()?;
        if held.is_none() || self.changed.load(Ordering::Relaxed) {
            // SAFETY: the bytes of the table, which are plain numbers.
            let content = unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<u8>(), bytes) };
            *held = Some(Arc::new(Shared::new(content)?));
            self.changed.store(false, Ordering::Relaxed);
        }
        let shared = held.clone()?;
        let start = NonNull::new(shared.map(bytes)?.cast::<T>())?;
        let changed = AtomicBool::new(false);
        Some(Self {
            start,
            len: self.len,
            changed,
            memory: Memory::Mapped,
            until_look: u32::MAX,
            small: None,
            shared: Mutex::new(Some(shared)),
        })
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        match self.memory {
            // SAFETY: these were the parts of a vector, which was not dropped.
            Memory::Own(room) => drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.len, room) }),
            Memory::Mapped => unmap(self.start.as_ptr().cast(), self.len * size_of::<T>()),
        }
    }
}

/// What a table held when it was copied.
struct Shared {
    #[cfg(target_os = "linux")]
    memory: std::os::fd::OwnedFd,
}

/// So many bytes of zeros are left out: they take no memory.
#[cfg(target_os = "linux")]
const HOLE: usize = 1 << 16;

#[cfg(target_os = "linux")]
impl Shared {
    /// `content`, written out; `None` where the system cannot.
    fn new(content: &[u8]) -> Option<Self> {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

        // SAFETY: the name is a string that ends with a zero.
        let memory = unsafe { libc::memfd_create(c"table".as_ptr(), libc::MFD_CLOEXEC) };
        if memory < 0 {
            return None;
        }
        // SAFETY: it was opened just now, and is nobody else's.
        let memory = unsafe { OwnedFd::from_raw_fd(memory) };
        let length = libc::off_t::try_from(content.len()).ok()?;
        // SAFETY: a call without memory of ours.
        if unsafe { libc::ftruncate(memory.as_raw_fd(), length) } != 0 {
            return None;
        }
        for (at, part) in (0..).step_by(HOLE).zip(content.chunks(HOLE)) {
            let mut done = if part.iter().all(|byte| *byte == 0) { part.len() } else { 0 };
            while done < part.len() {
                let (rest, offset) = (&part[done..], libc::off_t::try_from(at + done).ok()?);
                // SAFETY: `rest` is as long as is said.
                let written =
                    unsafe { libc::pwrite(memory.as_raw_fd(), rest.as_ptr().cast(), rest.len(), offset) };
                done += usize::try_from(written).ok().filter(|written| *written > 0)?;
            }
        }
        Some(Self { memory })
    }

    /// A mapping of it that keeps its changes to itself.
    fn map(&self, bytes: usize) -> Option<*mut libc::c_void> {
        use std::os::fd::AsRawFd;

        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, at an address that the system chooses.
        let start = unsafe {
            libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_PRIVATE, self.memory.as_raw_fd(), 0)
        };
        (start != libc::MAP_FAILED).then_some(start)
    }
}

#[cfg(target_os = "linux")]
fn unmap(start: *mut libc::c_void, bytes: usize) {
    // SAFETY: a mapping of that length, which nobody uses any more.
    unsafe { libc::munmap(start, bytes) };
}

#[cfg(not(target_os = "linux"))]
impl Shared {
    fn new(_: &[u8]) -> Option<Self> {
        None
    }

    fn map(&self, _: usize) -> Option<*mut std::ffi::c_void> {
        None
    }
}

#[cfg(not(target_os = "linux"))]
fn unmap(_: *mut std::ffi::c_void, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_what_neither_has_changed() {
        let count = LEAST_SHARED / 4 + 1000;
        let mut original = Table::from((0..count as u32).map(|at| at / 100_000).collect::<Vec<u32>>());
        let mut one = original.clone();
        let other = original.clone();
        assert!(original[..] == one[..] && one[..] == other[..]);
        one[5] = 7;
        original[count - 1] = 9;
        assert_eq!((original[5], one[5], other[5]), (0, 7, 0));
        assert_eq!((original[count - 1], one[count - 1]), (9, other[count - 1]));
        // Copies of what has changed since, and of copies.
        let (later, of_copy, of_other) = (original.clone(), one.clone(), other.clone());
        drop((original, one));
        assert_eq!((later[count - 1], of_copy[5], of_other[5]), (9, 7, 0));
        assert!(later[..count - 1] == of_other[..count - 1]);
    }

    #[test]
    fn sparse_tables_hold_what_dense_ones_hold() {
        for len in [LARGEST_DENSE / 8 + 1, LARGEST_PROMISED / 8 + 1] {
            let mut sparse = Table::<u64>::sparse_zeros(len);
            let parts = paging::parts(&sparse);
            assert_eq!(sparse.small_parts(), parts);
            let mut dense = Table::<u64>::sparse_zeros(len);
            dense.make_dense();
            assert_eq!((dense.small_parts(), dense[len - 1]), (0, 0));
            for at in (0..len).step_by(len / 3) {
                sparse[at] = at as u64 + 1;
            }
            let pages: Vec<u64> = sparse.iter().step_by(len / 3).copied().collect();
            // At least one part of it is touched everywhere.
            sparse[..1 << 19].fill(7);
            for _ in 0..=2 * parts {
                sparse.look();
            }
            assert!(sparse.small_parts() < parts || parts == 0, "{} of {parts}", sparse.small_parts());
            assert!(sparse[1..1 << 19].iter().all(|value| *value == 7));
            sparse[0] = pages[0];
            assert!(sparse.iter().step_by(len / 3).eq(&pages));
            assert_eq!(pages, (0..len as u64).step_by(len / 3).map(|at| at + 1).collect::<Vec<_>>());
        }
        assert_eq!(Table::<u64>::sparse_zeros(100).small_parts(), 0);
    }

    /// Scattered touches bring a table to large pages before most of its small ones were taken; touches of one place do not.
    #[test]
    #[cfg(target_os = "linux")]
    fn scattered_touches_make_a_table_dense_early() {
        let pages = LARGEST_DENSE / 4096 * 2;
        let mut table = Table::<u32>::sparse_zeros(pages * 1024);
        let mut rng = crate::rng::Rng::new(1, "scattered touches");
        let mut touches = 0;
        while table.small_parts() > 0 {
            table[rng.below(pages as u64) as usize * 1024] += 1;
            table.touched(1);
            touches += 1;
            assert!(touches < pages, "{} parts are left", table.small_parts());
        }
        assert!(touches >= pages / 4, "{touches}");
        let mut table = Table::<u32>::sparse_zeros(pages * 1024);
        for _ in 0..10 * pages {
            table[0] += 1;
            table.touched(1);
        }
        assert!(table.small_parts() > 0);
        let looks_after = table.small.as_ref().unwrap().wait as usize;
        assert!(looks_after > pages, "no look is due for long: {looks_after}");
    }

    #[test]
    fn small_tables_and_zeros() {
        let mut small = Table::from(vec![1_u64, 2, 3]);
        let copy = small.clone();
        small[0] = 5;
        assert_eq!((&copy[..], &small[..]), (&[1, 2, 3][..], &[5, 2, 3][..]));
        let zeros = Table::from(zeros::<u64>(LEAST_SHARED));
        assert!(zeros.clone().iter().all(|value| *value == 0));
        assert!(Table::from(Vec::<u32>::new()).clone().is_empty());
    }
}
