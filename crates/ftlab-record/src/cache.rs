//! A small model of the page cache between a command and a device.

use std::collections::{BTreeMap, HashMap};

use crate::layout::{FileId, PAGE};

/// Reading ahead begins with this many pages and doubles up to the other, as long as a file is read in order.
const FIRST_WINDOW: u64 = 4;
const LARGEST_WINDOW: u64 = 32;
/// Most pages that are written with one request: 1 MiB.
const LARGEST_WRITE: u64 = 256;
/// Dirty pages are written after this time at the latest, when something happens after it.
const OLDEST_DIRTY_NS: u64 = 30_000_000_000;
/// Dirty pages are written from the oldest on while they are more than this part of the cache.
const DIRTY_PART: u64 = 5;

/// Pages that go to or come from the device, in pages of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    pub(crate) write: bool,
    pub(crate) file: FileId,
    pub(crate) first: u64,
    pub(crate) pages: u64,
}

type Page = (FileId, u64);

#[derive(Debug)]
struct Cached {
    /// Its place in the order of use.
    used: u64,
    /// Its place in the order of becoming dirty, and when that was.
    dirty: Option<(u64, u64)>,
}

/// Pages in memory. The least recently used leaves first, and reads in order read ahead. What is written stays until it is
/// synchronised, 30 s old, one of too many, or leaves. Pages that leave or are written take their dirty neighbours along.
#[derive(Debug)]
pub struct Cache {
    capacity: u64,
    pages: BTreeMap<Page, Cached>,
    by_use: BTreeMap<u64, Page>,
    by_age: BTreeMap<u64, Page>,
    clock: u64,
    /// For each file the page that would go on in order, and the window.
    ahead: HashMap<FileId, (u64, u64)>,
}

impl Cache {
    /// A cache of this many bytes, at least 64 pages.
    pub fn new(bytes: u64) -> Self {
        Self {
            capacity: (bytes / PAGE).max(64),
            pages: BTreeMap::new(),
            by_use: BTreeMap::new(),
            by_age: BTreeMap::new(),
            clock: 0,
            ahead: HashMap::new(),
        }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn touch(&mut self, page: Page, dirty_at: Option<u64>, out: &mut Vec<Transfer>) {
        let used = self.tick();
        let cached = self.pages.entry(page).or_insert(Cached { used, dirty: None });
        self.by_use.remove(&cached.used);
        cached.used = used;
        if let (Some(now), None) = (dirty_at, cached.dirty) {
            cached.dirty = Some((used, now));
            self.by_age.insert(used, page);
        }
        self.by_use.insert(used, page);
        while self.pages.len() as u64 > self.capacity {
            let Some((_, &oldest)) = self.by_use.first_key_value() else { break };
            self.clean(oldest, out);
            self.forget(oldest);
        }
    }

    fn forget(&mut self, page: Page) {
        if let Some(cached) = self.pages.remove(&page) {
            self.by_use.remove(&cached.used);
            if let Some((age, _)) = cached.dirty {
                self.by_age.remove(&age);
            }
        }
    }

    fn is_dirty(&self, page: Page) -> bool {
        self.pages.get(&page).is_some_and(|cached| cached.dirty.is_some())
    }

    /// Write a dirty page, with the dirty pages around it.
    fn clean(&mut self, (file, page): Page, out: &mut Vec<Transfer>) {
        if !self.is_dirty((file, page)) {
            return;
        }
        let (mut first, mut last) = (page, page + 1);
        while first > 0 && last - first < LARGEST_WRITE && self.is_dirty((file, first - 1)) {
            first -= 1;
        }
        while last - first < LARGEST_WRITE && self.is_dirty((file, last)) {
            last += 1;
        }
        for (_, cached) in self.pages.range_mut((file, first)..(file, last)) {
            if let Some((age, _)) = cached.dirty.take() {
                self.by_age.remove(&age);
            }
        }
        out.push(Transfer { write: true, file, first, pages: last - first });
    }

    /// Read pages of a file of `end` pages. Those that are not `stored` are holes: they cost a page of the cache only.
    pub fn read(
        &mut self,
        file: FileId,
        first: u64,
        pages: u64,
        end: u64,
        stored: impl Fn(u64) -> bool,
        out: &mut Vec<Transfer>,
    ) {
        let last = first.saturating_add(pages);
        let (expected, window) = self.ahead.get(&file).copied().unwrap_or((0, 0));
        let in_order = first == expected || (first + 1 == expected && first > 0);
        let missing = (first..last).any(|page| !self.pages.contains_key(&(file, page)));
        let mut window = if in_order { window } else { 0 };
        let mut to = last;
        if missing && in_order {
            window = (window * 2).clamp(FIRST_WINDOW, LARGEST_WINDOW);
            to = last.saturating_add(window).min(end.max(last));
        }
        self.ahead.insert(file, (last, window));
        self.fetch(file, first, to, stored, out);
        for page in first..last {
            self.touch((file, page), None, out);
        }
    }

    /// Bring what is missing of `first..to`, as far as it is `stored`.
    fn fetch(
        &mut self,
        file: FileId,
        first: u64,
        to: u64,
        stored: impl Fn(u64) -> bool,
        out: &mut Vec<Transfer>,
    ) {
        let mut page = first;
        while page < to {
            let comes = |cache: &Self, page| stored(page) && !cache.pages.contains_key(&(file, page));
            if !comes(self, page) {
                page += 1;
                continue;
            }
            let mut last = page + 1;
            while last < to && last - page < LARGEST_WRITE && comes(self, last) {
                last += 1;
            }
            out.push(Transfer { write: false, file, first: page, pages: last - page });
            for page in page..last {
                self.touch((file, page), None, out);
            }
            page = last;
        }
    }

    /// Write pages of a file. `partial` are those of them that are written in part and hold something already: they must
    /// be read first.
    pub fn write(
        &mut self,
        now: u64,
        file: FileId,
        first: u64,
        pages: u64,
        partial: &[u64],
        out: &mut Vec<Transfer>,
    ) {
        for page in partial {
            self.fetch(file, *page, page + 1, |_| true, out);
        }
        for page in first..first.saturating_add(pages) {
            self.touch((file, page), Some(now), out);
        }
        while self.by_age.len() as u64 > self.capacity / DIRTY_PART {
            let Some((_, &oldest)) = self.by_age.first_key_value() else { break };
            self.clean(oldest, out);
        }
    }

    /// Write what has been dirty for too long.
    pub fn age(&mut self, now: u64, out: &mut Vec<Transfer>) {
        while let Some((_, &page)) = self.by_age.first_key_value() {
            let since = self.pages.get(&page).and_then(|cached| cached.dirty).map_or(now, |(_, since)| since);
            if now.saturating_sub(since) < OLDEST_DIRTY_NS {
                break;
            }
            self.clean(page, out);
        }
    }

    /// Write the dirty pages `first..last` of a file.
    pub fn sync(&mut self, file: FileId, first: u64, last: u64, out: &mut Vec<Transfer>) {
        let pages = self.pages.range((file, first)..(file, last));
        let dirty: Vec<Page> =
            pages.filter(|(_, cached)| cached.dirty.is_some()).map(|(page, _)| *page).collect();
        for page in dirty {
            self.clean(page, out);
        }
    }

    /// Write all dirty pages, the oldest first: the numbers of files, by which pages are sorted, differ from run to run.
    pub fn sync_all(&mut self, out: &mut Vec<Transfer>) {
        while let Some((_, &oldest)) = self.by_age.first_key_value() {
            self.clean(oldest, out);
        }
    }

    /// Forget the pages `first..last` of a file, dirty or not.
    pub fn drop_pages(&mut self, file: FileId, first: u64, last: u64) {
        let gone: Vec<Page> = self.pages.range((file, first)..(file, last)).map(|(page, _)| *page).collect();
        for page in gone {
            self.forget(page);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { device: 1, inode: 1 };

    fn moved(out: &mut Vec<Transfer>) -> Vec<(bool, u64, u64)> {
        out.drain(..).map(|transfer| (transfer.write, transfer.first, transfer.pages)).collect()
    }

    #[test]
    fn reading_in_order_reads_ahead_in_growing_windows() {
        let (mut cache, mut out) = (Cache::new(64 << 20), Vec::new());
        for page in 0..100 {
            cache.read(FILE, page, 1, 90, |_| true, &mut out);
        }
        assert_eq!(
            moved(&mut out),
            [(false, 0, 5), (false, 5, 9), (false, 14, 17), (false, 31, 33), (false, 64, 26)]
                .into_iter()
                .chain((90..100).map(|page| (false, page, 1)))
                .collect::<Vec<_>>()
        );
        let other = FileId { device: 1, inode: 2 };
        cache.read(other, 50, 2, 90, |_| true, &mut out);
        cache.read(other, 50, 2, 90, |_| true, &mut out);
        assert_eq!(moved(&mut out), [(false, 50, 2)]);
    }

    #[test]
    fn writes_wait_for_a_sync_and_go_together() {
        let (mut cache, mut out) = (Cache::new(64 << 20), Vec::new());
        for page in [7, 3, 4, 5, 3] {
            cache.write(0, FILE, page, 1, &[], &mut out);
        }
        assert_eq!(moved(&mut out), []);
        cache.sync(FILE, 0, u64::MAX, &mut out);
        assert_eq!(moved(&mut out), [(true, 3, 3), (true, 7, 1)]);
        cache.sync(FILE, 0, u64::MAX, &mut out);
        assert_eq!(moved(&mut out), []);
        cache.write(5, FILE, 9, 1, &[9], &mut out);
        assert_eq!(moved(&mut out), [(false, 9, 1)]);
        cache.age(29_000_000_000, &mut out);
        assert_eq!(moved(&mut out), []);
        cache.age(30_000_000_005, &mut out);
        assert_eq!(moved(&mut out), [(true, 9, 1)]);
        cache.write(5, FILE, 9, 2, &[], &mut out);
        cache.drop_pages(FILE, 10, u64::MAX);
        cache.sync_all(&mut out);
        assert_eq!(moved(&mut out), [(true, 9, 1)]);
    }

    #[test]
    fn a_full_cache_lets_the_least_recently_used_go() {
        let (mut cache, mut out) = (Cache::new(64 * PAGE), Vec::new());
        cache.write(0, FILE, 1000, 1, &[], &mut out);
        for page in 0..64 {
            cache.read(FILE, page * 2, 1, 0, |_| true, &mut out);
        }
        let all = moved(&mut out);
        assert_eq!(all.iter().filter(|(write, ..)| *write).collect::<Vec<_>>(), [&(true, 1000, 1)]);
        cache.read(FILE, 126, 1, 0, |_| true, &mut out);
        assert_eq!(moved(&mut out), []);
        // More than a fifth of it dirty is too much.
        for page in 0..20 {
            cache.write(0, FILE, 500 + 2 * page, 1, &[], &mut out);
        }
        assert_eq!(moved(&mut out).len(), 20 - 64 / 5);
    }
}
