//! Where the bytes of files lie in one flat address space.

use std::collections::{BTreeMap, HashMap};

/// Bytes of a page: the unit of allocation, and of the page cache.
pub const PAGE: u64 = 4096;

/// A file while it exists: its device and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// Number of the device.
    pub device: u64,
    /// Number of the file on it.
    pub inode: u64,
}

/// Smallest and largest piece that a growing file is given at once, in pages: 64 KiB and 1 MiB.
const SMALLEST_GROWTH: u64 = 16;
const LARGEST_GROWTH: u64 = 256;

/// A run of pages: `pages` from `place` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First page in the flat address space.
    pub place: u64,
    /// How many.
    pub pages: u64,
}

#[derive(Debug, Default)]
struct File {
    /// By first page of the file; never empty, never overlapping.
    extents: BTreeMap<u64, Run>,
    /// Pages from the first to the last one that was used or there at first.
    end: u64,
}

/// The flat address space. A file that exists already lies in one piece. A file that grows gets pieces that double with
/// it, next to what it has where that is free. What is deleted is given again, lowest address first.
#[derive(Debug, Default)]
pub struct Layout {
    files: HashMap<FileId, File>,
    /// Free runs below `end`, by place.
    free: BTreeMap<u64, u64>,
    end: u64,
}

impl Layout {
    /// Pages up to the end of the highest piece ever given.
    pub fn pages(&self) -> u64 {
        self.end
    }

    /// Whether a file has a place.
    pub fn knows(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    /// Meet a file that has this many pages already.
    pub fn meet(&mut self, file: FileId, pages: u64) {
        if self.knows(file) {
            return;
        }
        let mut new = File { end: pages, ..File::default() };
        if pages > 0 {
            let place = self.allocate(pages);
            new.extents.insert(0, Run { place, pages });
        }
        self.files.insert(file, new);
    }

    /// The places of `pages` pages of a file from `first` on, in order; they are made if there are none.
    pub fn runs(&mut self, file: FileId, first: u64, pages: u64) -> Vec<Run> {
        self.meet(file, 0);
        let mut runs: Vec<Run> = Vec::new();
        let last = first.saturating_add(pages);
        let mut page = first;
        while page < last {
            let run = match self.find(file, page) {
                Some(run) => run,
                None => self.grow(file, page, last),
            };
            let count = run.pages.min(last - page);
            match runs.last_mut() {
                Some(before) if before.place + before.pages == run.place => before.pages += count,
                _ => runs.push(Run { place: run.place, pages: count }),
            }
            page += count;
        }
        if let Some(known) = self.files.get_mut(&file) {
            known.end = known.end.max(last);
        }
        runs
    }

    /// Whether a page of a file was there at first or has been used.
    pub fn holds(&self, file: FileId, page: u64) -> bool {
        self.files.get(&file).is_some_and(|known| page < known.end) && self.find(file, page).is_some()
    }

    /// Give back `pages` pages of a file from `first` on. Returns what of them was in use.
    pub fn release(&mut self, file: FileId, first: u64, pages: u64) -> Vec<Run> {
        let Some(known) = self.files.get_mut(&file) else { return Vec::new() };
        let last = first.saturating_add(pages);
        let mut touched: Vec<(u64, Run)> = known.extents.range(..last).map(|(at, run)| (*at, *run)).collect();
        touched.retain(|(at, run)| at + run.pages > first);
        let mut used: Vec<Run> = Vec::new();
        for (at, run) in touched {
            known.extents.remove(&at);
            let (from, to) = (first.max(at), last.min(at + run.pages));
            if from > at {
                known.extents.insert(at, Run { place: run.place, pages: from - at });
            }
            if to < at + run.pages {
                known.extents.insert(to, Run { place: run.place + (to - at), pages: at + run.pages - to });
            }
            let place = run.place + (from - at);
            let in_use = to.min(known.end).saturating_sub(from);
            if in_use > 0 {
                match used.last_mut() {
                    Some(before) if before.place + before.pages == place => before.pages += in_use,
                    _ => used.push(Run { place, pages: in_use }),
                }
            }
            give(&mut self.free, Run { place, pages: to - from });
        }
        if last >= known.end {
            known.end = known.end.min(first);
        }
        used
    }

    /// Forget a file that is deleted. Returns what of it was in use.
    pub fn delete(&mut self, file: FileId) -> Vec<Run> {
        let used = self.release(file, 0, u64::MAX);
        self.files.remove(&file);
        used
    }

    fn find(&self, file: FileId, page: u64) -> Option<Run> {
        let (at, run) = self.files.get(&file)?.extents.range(..=page).next_back()?;
        let within = page - at;
        (within < run.pages).then(|| Run { place: run.place + within, pages: run.pages - within })
    }

    /// Make a place for `page` of a file, of which pages up to `last` are wanted.
    fn grow(&mut self, file: FileId, page: u64, last: u64) -> Run {
        let known = &self.files[&file];
        let has: u64 = known.extents.values().map(|run| run.pages).sum();
        let next = known.extents.range(page..).next().map_or(u64::MAX, |(at, _)| *at);
        let before = known.extents.range(..page).next_back().map(|(at, run)| (*at, *run));
        let step = has.next_power_of_two().clamp(SMALLEST_GROWTH, LARGEST_GROWTH);
        let pages = (last - page).max(step).min(next - page);
        if let Some((at, run)) = before.filter(|(at, run)| at + run.pages == page) {
            let added = self.extend(run.place + run.pages, pages);
            if added > 0 {
                let whole = Run { place: run.place, pages: run.pages + added };
                self.files.get_mut(&file).expect("it was met").extents.insert(at, whole);
                return Run { place: run.place + run.pages, pages: added };
            }
        }
        let run = Run { place: self.allocate(pages), pages };
        self.files.get_mut(&file).expect("it was met").extents.insert(page, run);
        run
    }

    /// Take up to `pages` free pages from exactly `place` on; returns how many.
    fn extend(&mut self, place: u64, pages: u64) -> u64 {
        if place == self.end {
            self.end += pages;
            return pages;
        }
        let Some(there) = self.free.remove(&place) else { return 0 };
        let taken = there.min(pages);
        if taken < there {
            self.free.insert(place + taken, there - taken);
        }
        taken
    }

    fn allocate(&mut self, pages: u64) -> u64 {
        let fitting = self.free.iter().find(|(_, free)| **free >= pages).map(|(place, _)| *place);
        let place = fitting.unwrap_or(self.end);
        self.extend(place, pages);
        place
    }
}

/// Put a run among free ones, together with its neighbours.
fn give(free: &mut BTreeMap<u64, u64>, run: Run) {
    let Run { mut place, mut pages } = run;
    if let Some((before, length)) = free.range(..place).next_back().map(|(at, length)| (*at, *length))
        && before + length == place
    {
        free.remove(&before);
        (place, pages) = (before, pages + length);
    }
    if let Some(after) = free.remove(&(place + pages)) {
        pages += after;
    }
    free.insert(place, pages);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn file(inode: u64) -> FileId {
        FileId { device: 1, inode }
    }

    #[test]
    fn files_that_are_written_in_order_lie_in_order() {
        let mut layout = Layout::default();
        let places: Vec<Run> = (0..1000).flat_map(|page| layout.runs(file(1), page, 1)).collect();
        assert!(places.is_sorted_by_key(|run| run.place) && places[999].place == 999);
        assert_eq!(layout.runs(file(1), 0, 1000), [Run { place: 0, pages: 1000 }]);

        // Two that grow together part at pieces of 1 MiB at most, and not at every write.
        let mut layout = Layout::default();
        for page in 0..4096 {
            layout.runs(file(1), page, 1);
            layout.runs(file(2), page, 1);
        }
        assert!(layout.runs(file(1), 0, 4096).len() < 25);
    }

    #[test]
    fn what_is_deleted_is_given_again() {
        let mut layout = Layout::default();
        layout.meet(file(1), 100);
        layout.meet(file(2), 10);
        assert_eq!(layout.delete(file(1)), [Run { place: 0, pages: 100 }]);
        assert_eq!(layout.delete(file(1)), []);
        assert_eq!(layout.runs(file(3), 0, 3), [Run { place: 0, pages: 3 }]);
        // What was set aside for it and never used is given back in silence.
        assert_eq!(layout.delete(file(3)), [Run { place: 0, pages: 3 }]);
        layout.meet(file(4), 100);
        assert_eq!((layout.runs(file(4), 0, 1)[0].place, layout.pages()), (0, 110));
    }

    proptest! {
        /// No two pages share a place, and places stay until they are given back.
        #[test]
        fn places_are_exclusive(
            calls in prop::collection::vec((0..4_u8, 0..5_u64, 0..300_u64, 1..80_u64), 1..60),
        ) {
            let mut layout = Layout::default();
            let mut truth: BTreeMap<(u64, u64), u64> = BTreeMap::new();
            for (what, inode, first, pages) in calls {
                match what {
                    0 => {
                        for run in layout.release(file(inode), first, pages) {
                            prop_assert!(run.pages > 0);
                        }
                        truth.retain(|(of, page), _| *of != inode || !(first..first + pages).contains(page));
                    }
                    1 if pages < 8 => {
                        layout.delete(file(inode));
                        truth.retain(|(of, _), _| *of != inode);
                    }
                    _ => {
                        let runs = layout.runs(file(inode), first, pages);
                        prop_assert_eq!(runs.iter().map(|run| run.pages).sum::<u64>(), pages);
                        let places = runs.iter().flat_map(|run| run.place..run.place + run.pages);
                        for (page, place) in (first..).zip(places) {
                            prop_assert!(place < layout.pages());
                            let known = *truth.entry((inode, page)).or_insert(place);
                            prop_assert_eq!(known, place);
                        }
                    }
                }
                let mut places: Vec<u64> = truth.values().copied().collect();
                places.sort_unstable();
                prop_assert!(places.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
    }
}
