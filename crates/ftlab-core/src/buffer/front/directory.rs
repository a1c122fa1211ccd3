//! Which frame has a page.

use crate::geometry::Lpn;
use crate::table;

/// No page, and no frame.
pub(super) const NONE: u32 = u32::MAX;

/// The frame of each page that has one. Which page a frame has stands in `lpns` of the caller.
///
/// Entries are as long as the numbers of frames need.
#[derive(Debug, Clone)]
pub(super) enum Directory {
    Short(Entries<u16>),
    Long(Entries<u32>),
}

/// A table with open addresses, or an entry for each page where that is smaller.
#[derive(Debug, Clone)]
pub(super) struct Entries<E> {
    table: Vec<E>,
    is_direct: bool,
}

/// The number of a frame. The largest one says that a place is empty.
pub(super) trait Entry: Copy + Default + Eq {
    const EMPTY: Self;
    fn of(frame: u32) -> Self;
    fn frame(self) -> u32;
}

impl Entry for u16 {
    const EMPTY: Self = Self::MAX;

    #[inline(always)]
    fn of(frame: u32) -> Self {
        frame as Self
    }

    #[inline(always)]
    fn frame(self) -> u32 {
        self.into()
    }
}

impl Entry for u32 {
    const EMPTY: Self = Self::MAX;

    #[inline(always)]
    fn of(frame: u32) -> Self {
        frame
    }

    #[inline(always)]
    fn frame(self) -> u32 {
        self
    }
}

impl<E: Entry> Entries<E> {
    /// With so many places for each four frames, or an entry for each page.
    fn new(frames: u32, pages: u32, places_of_four: u64) -> Self {
        let places = u64::from(frames) * places_of_four / 4 + 2;
        let is_direct = u64::from(pages) <= places;
        let mut table = table::zeros(if is_direct { u64::from(pages) } else { places } as usize);
        table.fill(E::EMPTY);
        Self { table, is_direct }
    }

    /// Where the search for a page begins.
    #[inline(always)]
    fn home(&self, lpn: u32) -> usize {
        if self.is_direct {
            return lpn as usize;
        }
        let hash = u64::from(lpn.wrapping_mul(0x9E37_79B1));
        ((hash * self.table.len() as u64) >> 32) as usize
    }

    #[inline(always)]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.table.len() { 0 } else { at + 1 }
    }

    /// The first place from the home of a page on for which `is_it`.
    #[inline(always)]
    fn search(&self, lpn: u32, is_it: impl Fn(E) -> bool) -> usize {
        let mut at = self.home(lpn);
        while !is_it(self.table[at]) {
            at = self.next(at);
        }
        at
    }

    #[inline(always)]
    fn find(&self, lpn: u32, lpns: &[u32]) -> Option<u32> {
        let at = self.search(lpn, |entry| entry == E::EMPTY || lpns[entry.frame() as usize] == lpn);
        (self.table[at] != E::EMPTY).then(|| self.table[at].frame())
    }

    #[inline(always)]
    fn enter(&mut self, lpn: u32, frame: u32) {
        let at = self.search(lpn, |entry| entry == E::EMPTY);
        self.table[at] = E::of(frame);
    }

    fn leave(&mut self, lpn: u32, frame: u32, lpns: &[u32]) {
        let mut hole = self.search(lpn, |entry| entry.frame() == frame);
        if self.is_direct {
            self.table[hole] = E::EMPTY;
            return;
        }
        // What was put behind it for want of its place moves up.
        let mut at = hole;
        loop {
            at = self.next(at);
            let other = self.table[at];
            if other == E::EMPTY {
                break;
            }
            let home = self.home(lpns[other.frame() as usize]);
            let stays = if hole <= at { hole < home && home <= at } else { hole < home || home <= at };
            if !stays {
                self.table[hole] = other;
                hole = at;
            }
        }
        self.table[hole] = E::EMPTY;
    }

    #[inline(always)]
    fn prefetch(&self, lpn: u32) {
        table::prefetch(&self.table, self.home(lpn));
    }

    #[inline(always)]
    fn guess(&self, lpn: u32) -> Option<u32> {
        let entry = self.table[self.home(lpn)];
        (entry != E::EMPTY).then(|| entry.frame())
    }

    fn count(&self) -> usize {
        self.table.iter().filter(|entry| **entry != E::EMPTY).count()
    }

    fn bytes(&self) -> u64 {
        size_of_val(&self.table[..]) as u64
    }
}

/// The same of entries of either length.
macro_rules! of_entries {
    ($directory:expr, $entries:ident => $what:expr) => {
        match $directory {
            Directory::Short($entries) => $what,
            Directory::Long($entries) => $what,
        }
    };
}

impl Directory {
    /// For so many frames of a drive of `pages`; no page has one. A dense one has fewer places, beside large tables of an
    /// order.
    pub(super) fn new(frames: u32, pages: u32, is_dense: bool) -> Self {
        // At least half of the places are empty: a search ends where it begins, mostly.
        match (frames <= u16::EMPTY.into(), is_dense) {
            (true, false) => Self::Short(Entries::new(frames, pages, 16)),
            (true, true) => Self::Short(Entries::new(frames, pages, 8)),
            (false, _) => Self::Long(Entries::new(frames, pages, 9)),
        }
    }

    /// The frame of a page.
    #[inline]
    pub(super) fn find(&self, lpn: Lpn, lpns: &[u32]) -> Option<u32> {
        of_entries!(self, entries => entries.find(lpn.0, lpns))
    }

    /// Enter a page that has no frame so far.
    #[inline]
    pub(super) fn enter(&mut self, lpn: Lpn, frame: u32) {
        of_entries!(self, entries => entries.enter(lpn.0, frame));
    }

    /// Forget that `frame` has `lpn`, as `lpns` still says.
    #[inline]
    pub(super) fn leave(&mut self, lpn: Lpn, frame: u32, lpns: &[u32]) {
        of_entries!(self, entries => entries.leave(lpn.0, frame, lpns));
    }

    /// Ask the processor for where the search for a page begins.
    #[inline]
    pub(super) fn prefetch(&self, lpn: Lpn) {
        of_entries!(self, entries => entries.prefetch(lpn.0));
    }

    /// The frame where the search for a page begins: likely it has the page.
    #[inline]
    pub(super) fn guess(&self, lpn: Lpn) -> Option<u32> {
        of_entries!(self, entries => entries.guess(lpn.0))
    }

    /// Pages that have a frame.
    pub(super) fn count(&self) -> usize {
        of_entries!(self, entries => entries.count())
    }

    /// Bytes of the table.
    pub(super) fn table_bytes(&self) -> u64 {
        of_entries!(self, entries => entries.bytes())
    }
}
