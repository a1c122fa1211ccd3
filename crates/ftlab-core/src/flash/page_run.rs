//! Many pages of units in order, which a fill writes at once.

use crate::geometry::{Lpn, Ppn};

/// Whole pages in the order of a block: the n-th holds the unit `first + n * stride`, and those after it in its other slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRun {
    /// The first unit of the first page.
    pub first: Lpn,
    /// From the first unit of a page to that of the next.
    pub stride: u32,
    /// How many pages.
    pub pages: u32,
}

impl PageRun {
    /// The first unit of each page.
    pub fn firsts(self) -> impl Iterator<Item = Lpn> {
        (0..self.pages).map(move |page| Lpn(self.first.0 + page * self.stride))
    }

    /// All units of pages of `slots` units, with the places that they have from `start` on.
    pub fn placed(self, slots: u32, start: Ppn) -> impl Iterator<Item = (Lpn, Ppn)> {
        let pages = self.firsts().zip((start.0..).step_by(slots as usize));
        pages.flat_map(move |(lpn, ppn)| (0..slots).map(move |slot| (Lpn(lpn.0 + slot), Ppn(ppn + slot))))
    }

    /// Enter those places into a `table` of all units.
    pub fn enter(self, slots: u32, start: Ppn, table: &mut [u32]) {
        if self.pages == 0 {
            return;
        }
        let end = self.first.0 + (self.pages - 1) * self.stride + slots;
        let table = &mut table[self.first.index()..end as usize];
        if slots == 1 {
            for (entry, ppn) in table.iter_mut().step_by(self.stride as usize).zip(start.0..) {
                *entry = ppn;
            }
            return;
        }
        for (page, first) in table.chunks_mut(self.stride as usize).zip((start.0..).step_by(slots as usize)) {
            for (entry, ppn) in page[..slots as usize].iter_mut().zip(first..) {
                *entry = ppn;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_gets_the_places_of_all_units() {
        for (slots, stride, pages) in [(1, 1, 5), (1, 7, 3), (4, 4, 3), (4, 12, 4), (2, 2, 0)] {
            let run = PageRun { first: Lpn(3), stride, pages };
            let mut table = vec![0; 64];
            run.enter(slots, Ppn(100), &mut table);
            let mut expected = vec![0; 64];
            for page in 0..pages {
                for slot in 0..slots {
                    expected[(3 + page * stride + slot) as usize] = 100 + page * slots + slot;
                }
            }
            assert_eq!(table, expected);
            let placed: Vec<_> = run.placed(slots, Ppn(100)).collect();
            assert_eq!(placed.len() as u32, pages * slots);
            assert!(placed.iter().all(|(lpn, ppn)| expected[lpn.index()] == ppn.0));
        }
    }
}
