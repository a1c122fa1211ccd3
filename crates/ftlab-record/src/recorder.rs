//! From accesses to files to requests.

use ftlab_core::host::request::{Op, Request, SECTOR_BYTES};

use crate::cache::{Cache, Transfer};
use crate::layout::{FileId, Layout, PAGE, Run};

const SECTOR: u64 = SECTOR_BYTES as u64;
const PAGE_SECTORS: u64 = PAGE / SECTOR;
/// Most sectors of a request: 1 GiB, which no call reaches.
const LARGEST: u64 = 1 << 21;

/// How a file was opened, as far as it matters for what reaches the device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mode {
    /// `O_DIRECT`: past the page cache.
    pub direct: bool,
    /// `O_SYNC` or `O_DSYNC`: each write is durable before it returns.
    pub sync: bool,
}

/// What came out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests of each operation.
    pub requests: [u64; 4],
    /// System calls that led to them.
    pub calls: u64,
    /// Files that were accessed.
    pub files: u64,
    /// Bytes of the flat address space, up to the end of the highest piece of a file.
    pub space_bytes: u64,
}

/// Turns accesses to files into requests. Times are nanoseconds and never go back: a call that began before one that
/// was recorded already arrives with it.
#[derive(Debug, Default)]
pub struct Recorder {
    layout: Layout,
    cache: Option<Cache>,
    now: u64,
    counts: Counts,
    requests: Vec<Request>,
    transfers: Vec<Transfer>,
}

impl Recorder {
    /// A recorder with a page cache of this many bytes in between, or none if that is 0.
    pub fn new(cache_bytes: u64) -> Self {
        Self { cache: (cache_bytes > 0).then(|| Cache::new(cache_bytes)), ..Self::default() }
    }

    /// What came out so far.
    pub fn counts(&self) -> Counts {
        Counts { space_bytes: self.layout.pages() * PAGE, ..self.counts }
    }

    /// The requests since the last call.
    pub fn take(&mut self) -> std::vec::Drain<'_, Request> {
        self.requests.drain(..)
    }

    /// How many requests wait to be taken.
    pub fn waiting(&self) -> usize {
        self.requests.len()
    }

    /// Whether a file has been met.
    pub fn knows(&self, file: FileId) -> bool {
        self.layout.knows(file)
    }

    /// Meet a file that has this many bytes.
    pub fn meet(&mut self, file: FileId, bytes: u64) {
        if !self.layout.knows(file) {
            self.counts.files += 1;
            self.layout.meet(file, bytes.div_ceil(PAGE));
        }
    }

    fn begin(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.counts.calls += 1;
        if let Some(cache) = &mut self.cache {
            cache.age(self.now, &mut self.transfers);
        }
        self.transfer();
    }

    /// Read `bytes` bytes at `offset` of a file of `size` bytes.
    pub fn read(&mut self, now: u64, file: FileId, offset: u64, bytes: u64, size: u64, mode: Mode) {
        self.begin(now);
        let (first, last) = pages(offset, bytes);
        match &mut self.cache {
            Some(cache) if !mode.direct => {
                let stored = |page| self.layout.holds(file, page);
                cache.read(file, first, last - first, size.div_ceil(PAGE), stored, &mut self.transfers);
            }
            cache => {
                if let Some(cache) = cache {
                    cache.sync(file, first, last, &mut self.transfers);
                }
                self.transfer();
                self.bytes(Op::Read, file, offset, bytes);
            }
        }
        self.transfer();
    }

    /// Write `bytes` bytes at `offset` of a file that had `size` bytes before or since.
    pub fn write(&mut self, now: u64, file: FileId, offset: u64, bytes: u64, mode: Mode) {
        self.begin(now);
        let (first, last) = pages(offset, bytes);
        match &mut self.cache {
            Some(cache) if !mode.direct => {
                let mut partial = Vec::new();
                if !offset.is_multiple_of(PAGE) {
                    partial.push(first);
                }
                if !(offset + bytes).is_multiple_of(PAGE) && partial.last() != Some(&(last - 1)) {
                    partial.push(last - 1);
                }
                partial.retain(|page| self.layout.holds(file, *page));
                cache.write(self.now, file, first, last - first, &partial, &mut self.transfers);
                if mode.sync {
                    cache.sync(file, first, last, &mut self.transfers);
                }
            }
            cache => {
                if let Some(cache) = cache {
                    cache.drop_pages(file, first, last);
                }
                self.bytes(Op::Write, file, offset, bytes);
            }
        }
        self.transfer();
        if mode.sync {
            self.push(Op::Flush, 0, 0);
        }
    }

    /// Make a file durable.
    pub fn sync(&mut self, now: u64, file: FileId) {
        self.begin(now);
        if let Some(cache) = &mut self.cache {
            cache.sync(file, 0, u64::MAX, &mut self.transfers);
        }
        self.transfer();
        self.push(Op::Flush, 0, 0);
    }

    /// Start to write a part of a file, without making it durable.
    pub fn write_out(&mut self, now: u64, file: FileId, offset: u64, bytes: u64) {
        self.begin(now);
        let (first, last) = pages(offset, bytes);
        if let Some(cache) = &mut self.cache {
            cache.sync(file, first, last, &mut self.transfers);
        }
        self.transfer();
    }

    /// Make everything durable.
    pub fn sync_all(&mut self, now: u64) {
        self.begin(now);
        self.write_all();
        self.push(Op::Flush, 0, 0);
    }

    /// Cut a file to `bytes` bytes: what lay behind is trimmed.
    pub fn truncate(&mut self, now: u64, file: FileId, bytes: u64) {
        self.begin(now);
        self.trim(file, bytes.div_ceil(PAGE), u64::MAX);
    }

    /// Trim the pages that lie wholly within a part of a file.
    pub fn punch(&mut self, now: u64, file: FileId, offset: u64, bytes: u64) {
        self.begin(now);
        self.trim(file, offset.div_ceil(PAGE), offset.saturating_add(bytes) / PAGE);
    }

    /// Forget a file that is gone: all of it is trimmed.
    pub fn delete(&mut self, now: u64, file: FileId) {
        self.begin(now);
        if let Some(cache) = &mut self.cache {
            cache.drop_pages(file, 0, u64::MAX);
        }
        for run in self.layout.delete(file) {
            self.run(Op::Trim, run);
        }
    }

    /// The command has ended: what is in the page cache goes to the device.
    pub fn finish(&mut self, now: u64) {
        self.now = self.now.max(now);
        self.write_all();
    }

    fn write_all(&mut self) {
        if let Some(cache) = &mut self.cache {
            cache.sync_all(&mut self.transfers);
        }
        self.transfer();
    }

    fn trim(&mut self, file: FileId, first: u64, last: u64) {
        if first >= last {
            return;
        }
        if let Some(cache) = &mut self.cache {
            cache.drop_pages(file, first, last);
        }
        for run in self.layout.release(file, first, last - first) {
            self.run(Op::Trim, run);
        }
    }

    /// Put what the cache wants moved into requests.
    fn transfer(&mut self) {
        let mut transfers = std::mem::take(&mut self.transfers);
        for Transfer { write, file, first, pages } in transfers.drain(..) {
            let op = if write { Op::Write } else { Op::Read };
            for run in self.layout.runs(file, first, pages) {
                self.run(op, run);
            }
        }
        self.transfers = transfers;
    }

    fn run(&mut self, op: Op, run: Run) {
        self.push(op, run.place * PAGE_SECTORS, run.pages * PAGE_SECTORS);
    }

    /// The sectors that bytes of a file touch.
    fn bytes(&mut self, op: Op, file: FileId, offset: u64, bytes: u64) {
        let (first, last) = pages(offset, bytes);
        let mut skip = offset % PAGE / SECTOR;
        let mut left = (offset + bytes).div_ceil(SECTOR) - offset / SECTOR;
        for run in self.layout.runs(file, first, last - first) {
            let sectors = (run.pages * PAGE_SECTORS - skip).min(left);
            self.push(op, run.place * PAGE_SECTORS + skip, sectors);
            left -= sectors;
            skip = 0;
        }
    }

    fn push(&mut self, op: Op, mut lba: u64, mut sectors: u64) {
        loop {
            let count = sectors.min(LARGEST);
            self.counts.requests[op as usize] += 1;
            self.requests.push(Request {
                arrival_ns: self.now,
                lba,
                sectors: count as u32,
                op,
                stream: 0,
                fua: false,
            });
            lba += count;
            sectors -= count;
            if sectors == 0 {
                break;
            }
        }
    }
}

/// The pages that bytes touch: the first, and the one after the last.
fn pages(offset: u64, bytes: u64) -> (u64, u64) {
    (offset / PAGE, offset.saturating_add(bytes).div_ceil(PAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileId = FileId { device: 1, inode: 1 };
    const DIRECT: Mode = Mode { direct: true, sync: false };

    fn drained(recorder: &mut Recorder) -> Vec<(u64, Op, u64, u32)> {
        recorder.take().map(|r| (r.arrival_ns, r.op, r.lba, r.sectors)).collect()
    }

    #[test]
    fn without_a_cache_every_call_is_a_request() {
        let mut recorder = Recorder::new(0);
        recorder.meet(FILE, 10_000);
        recorder.read(5, FILE, 700, 1000, 10_000, Mode::default());
        recorder.write(9, FILE, 9_000, 5_000, Mode { direct: false, sync: true });
        recorder.sync(7, FILE);
        recorder.truncate(20, FILE, 4096);
        recorder.delete(21, FILE);
        recorder.finish(30);
        assert_eq!(
            drained(&mut recorder),
            [
                (5, Op::Read, 1, 3),
                (9, Op::Write, 17, 11),
                (9, Op::Flush, 0, 0),
                (9, Op::Flush, 0, 0),
                (20, Op::Trim, 8, 24),
                (21, Op::Trim, 0, 8),
            ]
        );
        let counts = recorder.counts();
        assert_eq!((counts.requests, counts.calls, counts.files), ([1, 1, 2, 2], 5, 1));
    }

    #[test]
    fn with_a_cache_only_what_misses_or_is_forced_out_is_a_request() {
        let mut recorder = Recorder::new(1 << 20);
        recorder.meet(FILE, 40_960);
        recorder.read(1, FILE, 20_480, 100, 40_960, Mode::default());
        recorder.read(2, FILE, 20_480, 4096, 40_960, Mode::default());
        // A page that is written in part is read first, unless it is new.
        recorder.write(3, FILE, 100, 10, Mode::default());
        recorder.write(4, FILE, 81_920, 10, Mode::default());
        assert_eq!(drained(&mut recorder), [(1, Op::Read, 40, 8), (3, Op::Read, 0, 8)]);
        recorder.sync(5, FILE);
        let forced = drained(&mut recorder);
        assert_eq!(forced[0], (5, Op::Write, 0, 8));
        assert_eq!((forced[1].1, forced[1].3, forced[2]), (Op::Write, 8, (5, Op::Flush, 0, 0)));
        recorder.write(6, FILE, 4096, 4096, DIRECT);
        assert_eq!(drained(&mut recorder), [(6, Op::Write, 8, 8)]);
        recorder.write(7, FILE, 8192, 4096, Mode::default());
        recorder.punch(8, FILE, 8192, 4096);
        recorder.finish(9);
        assert_eq!(drained(&mut recorder), [(8, Op::Trim, 16, 8)]);
    }

    #[test]
    fn holes_of_new_files_are_not_read_through_a_cache_and_not_trimmed() {
        let mut recorder = Recorder::new(128 << 20);
        let size = (64 << 20) + 4096;
        recorder.meet(FILE, 0);
        recorder.write(1, FILE, 64 << 20, 4096, Mode::default());
        recorder.sync(2, FILE);
        assert_eq!(drained(&mut recorder), [(2, Op::Write, 0, 8), (2, Op::Flush, 0, 0)]);
        for offset in (0..size).step_by(1 << 20) {
            recorder.read(3, FILE, offset, (size - offset).min(1 << 20), size, Mode::default());
        }
        assert_eq!(drained(&mut recorder), []);
        recorder.truncate(4, FILE, 0);
        assert_eq!(drained(&mut recorder), [(4, Op::Trim, 0, 8)]);
    }

    #[test]
    fn what_is_deleted_before_it_was_written_never_reaches_the_device() {
        let mut recorder = Recorder::new(1 << 20);
        recorder.meet(FILE, 0);
        recorder.write(1, FILE, 0, 8192, Mode::default());
        recorder.delete(2, FILE);
        recorder.finish(3);
        assert_eq!(drained(&mut recorder), []);
    }
}
