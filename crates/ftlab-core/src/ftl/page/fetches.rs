//! When what is fetched of translation pages is in memory: who uses an entry meanwhile waits for it.

use crate::geometry::Lpn;
use crate::mapcache::layout::TranslationLayout;

/// Fetches of one translation page that are kept. With more under way at a time, the oldest is taken for ended.
const KEPT: usize = 4;

/// A fetch: its ticket, and the first and last logical unit of the entries that it brings.
#[derive(Debug, Clone, Copy)]
struct Fetch<T> {
    units: (u32, u32),
    done: T,
}

/// The latest fetches of each translation page of the page table.
#[derive(Debug, Clone)]
pub(super) struct PendingFetches<T> {
    /// Base-2 logarithm of the entries in a translation page.
    shift: u32,
    pages: Vec<[Fetch<T>; KEPT]>,
    /// The place of each page that is written next.
    next: Vec<u8>,
}

impl<T: Copy> PendingFetches<T> {
    /// For the table of a drive; `ready` has passed.
    pub(super) fn new(layout: TranslationLayout, ready: T) -> Self {
        // No unit is in this range.
        let none = Fetch { units: (1, 0), done: ready };
        let pages = layout.pages() as usize;
        Self { shift: layout.shift, pages: vec![[none; KEPT]; pages], next: vec![0; pages] }
    }

    /// A fetch brings the entries of `units`, which are in one translation page, when `done` has ended.
    pub(super) fn fetch_issued(&mut self, units: (Lpn, Lpn), done: T) {
        let page = (units.0.0 >> self.shift) as usize;
        let next = &mut self.next[page];
        self.pages[page][usize::from(*next)] = Fetch { units: (units.0.0, units.1.0), done };
        *next = (*next + 1) % KEPT as u8;
    }

    /// The latest fetches that bring the entry of `lpn`.
    #[inline]
    pub(super) fn of(&self, lpn: Lpn) -> [Option<T>; KEPT] {
        let brings = |fetch: Fetch<T>| (fetch.units.0..=fetch.units.1).contains(&lpn.0).then_some(fetch.done);
        self.pages[(lpn.0 >> self.shift) as usize].map(brings)
    }

    pub(super) fn table_bytes(&self) -> u64 {
        (self.pages.capacity() * size_of::<[Fetch<T>; KEPT]>() + self.next.capacity()) as u64
    }
}
