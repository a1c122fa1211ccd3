//! Traces that are decoded once and kept for every run of the process that reads them.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::SystemTime;

use ftlab_core::host::request::{Remark, Request, RequestSource, SourceError, SourceFactory};

use crate::fleet::{Fleet, FleetVolume, VolumeRow};
use crate::open::{OpenOptions, TraceFile, open};

/// Requests that are decoded together: enough that locks cost nothing, few enough that readers beside each other
/// hardly wait.
pub(crate) const CHUNK_REQUESTS: usize = 1 << 16;

/// Traces in memory, up to a limit. Clones share them.
///
/// Nothing is decoded before somebody reads it. Whoever comes first to requests that nobody has read yet decodes them,
/// on its own thread; the others find them decoded. Where the limit is reached, traces that nobody uses are forgotten.
/// What still does not fit is decoded by each reader for itself, from there on. The limit changes no result.
#[derive(Debug, Clone)]
pub struct TraceCache(Arc<Shelf>);

#[derive(Debug)]
pub(crate) struct Shelf {
    limit_bytes: u64,
    passes: AtomicU64,
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    used_bytes: u64,
    /// In the order of last use.
    traces: Vec<Arc<Shared>>,
    fleets: Vec<Arc<Fleet>>,
}

/// What the files of a trace are known by without reading them.
#[derive(Debug, PartialEq)]
pub(crate) struct Signs(Vec<(Metadata, [i64; 3])>);

/// Bytes, and when the content was changed.
type Metadata = (u64, Option<SystemTime>);

impl Signs {
    /// Those of now; `None` where there is a file no more.
    pub(crate) fn of(trace: &TraceFile) -> Option<Self> {
        let sign = |path: &PathBuf| {
            let found = std::fs::metadata(path).ok()?;
            Some(((found.len(), found.modified().ok()), status_of(&found)))
        };
        trace.files().ok()?.iter().map(sign).collect::<Option<Vec<_>>>().map(Self)
    }
}

/// The inode, and when the system last changed anything of it: nobody can set that.
#[cfg(unix)]
fn status_of(found: &std::fs::Metadata) -> [i64; 3] {
    use std::os::unix::fs::MetadataExt;

    [found.ino().cast_signed(), found.ctime(), found.ctime_nsec()]
}

#[cfg(not(unix))]
fn status_of(_: &std::fs::Metadata) -> [i64; 3] {
    [0; 3]
}

/// Nothing is left half done by a panic: the state is changed at once, and a decoder that panicked is broken.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl TraceCache {
    /// Keep at most `limit_bytes` of decoded requests.
    pub fn new(limit_bytes: u64) -> Self {
        Self(Arc::new(Shelf { limit_bytes, passes: AtomicU64::new(0), state: Mutex::default() }))
    }

    /// The trace `path` as a factory of sources that share what they decode. It is kept at least as long as the factory.
    ///
    /// # Errors
    /// When the trace cannot be opened, or its format is unknown or ambiguous.
    pub fn open(&self, path: &Path, options: &OpenOptions) -> Result<SharedTrace, SourceError> {
        let mut state = locked(&self.0.state);
        // One whose files have changed since stays until its memory is wanted; nobody opens it any more.
        let known = state.traces.iter().position(|known| {
            known.path == path && known.options == *options && known.signs == Signs::of(&known.trace)
        });
        let shared = if let Some(index) = known {
            state.traces.remove(index)
        } else {
            let trace = open(path, options)?;
            Arc::new(Shared {
                path: path.to_owned(),
                options: options.clone(),
                signs: Signs::of(&trace),
                trace,
                frontier: Mutex::new(Frontier::Unread),
                chunks: RwLock::default(),
                total: OnceLock::new(),
            })
        };
        state.traces.push(shared.clone());
        Ok(SharedTrace { shared, shelf: self.0.clone() })
    }

    /// One volume of the trace `path`, whose volumes are all read apart in one pass, for runs that take the others. What
    /// memory does not hold is in a temporary file until nobody uses it.
    ///
    /// # Errors
    /// When the trace cannot be opened, or its format is unknown or ambiguous.
    ///
    /// # Panics
    /// When `options` does not name exactly one volume.
    pub fn open_volume(&self, path: &Path, options: &OpenOptions) -> Result<FleetVolume, SourceError> {
        let [number] = options.volumes[..] else {
            panic!("found {:?}, expected one volume", options.volumes)
        };
        Ok(FleetVolume { fleet: self.fleet(path, options)?, shelf: self.0.clone(), number })
    }

    /// The volumes of the trace `path`, which are kept for [`open_volume`](Self::open_volume): number, name and requests
    /// of each. With them the number of bad records that were left out.
    ///
    /// # Errors
    /// When the trace cannot be read to its end.
    pub fn volumes(&self, path: &Path, options: &OpenOptions) -> Result<(Vec<VolumeRow>, u64), SourceError> {
        let volumes = self.fleet(path, options)?.volumes(&self.0)?;
        volumes.outcome().map(|skipped| (volumes.listed(), skipped))
    }

    fn fleet(&self, path: &Path, options: &OpenOptions) -> Result<Arc<Fleet>, SourceError> {
        let options = OpenOptions { volumes: Vec::new(), ..options.clone() };
        let mut state = locked(&self.0.state);
        let known = state.fleets.iter().position(|known| {
            known.path == path && known.options == options && known.signs == Signs::of(&known.trace)
        });
        let fleet = if let Some(index) = known {
            state.fleets.remove(index)
        } else {
            let trace = open(path, &options)?;
            Arc::new(Fleet::new(path.to_owned(), options, trace))
        };
        state.fleets.push(fleet.clone());
        Ok(fleet)
    }

    /// How many times a trace was read from its beginning.
    pub fn passes(&self) -> u64 {
        self.0.passes.load(Ordering::Relaxed)
    }

    /// Bytes of decoded requests that are kept.
    pub fn used_bytes(&self) -> u64 {
        locked(&self.0.state).used_bytes
    }
}

impl Shelf {
    /// Make room for `bytes`, at the cost of traces that nobody uses. False when there is none.
    pub(crate) fn reserve(&self, bytes: u64) -> bool {
        let mut state = locked(&self.state);
        while state.used_bytes + bytes > self.limit_bytes {
            let unused =
                state.traces.iter().position(|trace| Arc::strong_count(trace) == 1 && trace.bytes() > 0);
            let unused_fleet =
                state.fleets.iter().position(|fleet| Arc::strong_count(fleet) == 1 && fleet.bytes() > 0);
            let gone = match (unused, unused_fleet) {
                (Some(index), _) => state.traces.remove(index).bytes(),
                (None, Some(index)) => state.fleets.remove(index).bytes(),
                (None, None) => return false,
            };
            state.used_bytes -= gone;
        }
        state.used_bytes += bytes;
        true
    }

    pub(crate) fn release(&self, bytes: u64) {
        locked(&self.state).used_bytes -= bytes;
    }

    pub(crate) fn count_pass(&self) {
        self.passes.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    options: OpenOptions,
    /// When it was opened.
    signs: Option<Signs>,
    trace: TraceFile,
    frontier: Mutex<Frontier>,
    chunks: RwLock<Vec<Arc<Chunk>>>,
    /// The number of requests, where the format tells it beforehand.
    total: OnceLock<Option<u64>>,
}

struct Chunk {
    requests: Vec<Request>,
    fraction: Option<f64>,
    skipped: u64,
    remarks: Vec<Remark>,
}

impl std::fmt::Debug for Chunk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Chunk({} requests)", self.requests.len())
    }
}

/// Where decoding stands.
enum Frontier {
    Unread,
    At(Box<dyn RequestSource>),
    /// All is decoded; so many records were left out.
    End(u64, Vec<Remark>),
    Failed(SourceError),
    /// The limit was reached.
    Full,
}

impl std::fmt::Debug for Frontier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Frontier::Unread => "Unread",
            Frontier::At(_) => "At",
            Frontier::End(..) => "End",
            Frontier::Failed(_) => "Failed",
            Frontier::Full => "Full",
        })
    }
}

/// What follows in a trace.
enum Next {
    Chunk(Arc<Chunk>),
    End(u64, Vec<Remark>),
    /// Not kept: read on for yourself.
    Beyond,
}

pub(crate) fn bytes_of(requests: &[Request]) -> u64 {
    std::mem::size_of_val(requests) as u64
}

impl Shared {
    fn bytes(&self) -> u64 {
        let chunks = self.chunks.read().unwrap_or_else(PoisonError::into_inner);
        chunks.iter().map(|chunk| bytes_of(&chunk.requests)).sum()
    }

    fn chunk(&self, index: usize) -> Option<Arc<Chunk>> {
        self.chunks.read().unwrap_or_else(PoisonError::into_inner).get(index).cloned()
    }

    /// The trace from its beginning, on the caller's thread.
    fn begin(&self, shelf: &Shelf) -> Result<(), SourceError> {
        let mut frontier = locked(&self.frontier);
        if matches!(*frontier, Frontier::Unread) {
            shelf.count_pass();
            let source = self.trace.reader()?;
            self.total.get_or_init(|| source.total_requests());
            *frontier = Frontier::At(source);
        }
        Ok(())
    }

    /// Chunk `index`, decoded now if nobody has.
    fn next(&self, index: usize, shelf: &Shelf) -> Result<Next, SourceError> {
        if let Some(chunk) = self.chunk(index) {
            return Ok(Next::Chunk(chunk));
        }
        let mut frontier = locked(&self.frontier);
        // Somebody else may have decoded it while this one waited.
        if let Some(chunk) = self.chunk(index) {
            return Ok(Next::Chunk(chunk));
        }
        let damaged = || SourceError {
            origin: self.path.display().to_string(),
            expected: "decoding stopped: the file is damaged in a way that its reader does not understand"
                .into(),
            ..SourceError::default()
        };
        match &*frontier {
            Frontier::At(_) => {}
            Frontier::End(skipped, remarks) => return Ok(Next::End(*skipped, remarks.clone())),
            Frontier::Failed(error) => return Err(error.clone()),
            Frontier::Full => return Ok(Next::Beyond),
            Frontier::Unread => return Err(damaged()),
        }
        // Stands there should the reader panic.
        let Frontier::At(mut source) = std::mem::replace(&mut *frontier, Frontier::Failed(damaged())) else {
            return Err(damaged());
        };
        let mut requests = Vec::with_capacity(CHUNK_REQUESTS);
        while requests.len() < CHUNK_REQUESTS {
            let room = CHUNK_REQUESTS - requests.len();
            match source.fill(&mut requests, room) {
                Ok(0) => {
                    *frontier = Frontier::End(source.skipped_records(), source.remarks());
                    break;
                }
                Ok(_) => {}
                Err(error) => {
                    *frontier = Frontier::Failed(error);
                    break;
                }
            }
        }
        requests.shrink_to_fit();
        if requests.is_empty() {
            return match &*frontier {
                Frontier::Failed(error) => Err(error.clone()),
                _ => Ok(Next::End(source.skipped_records(), source.remarks())),
            };
        }
        if !shelf.reserve(bytes_of(&requests)) {
            *frontier = Frontier::Full;
            return Ok(Next::Beyond);
        }
        let whole = requests.len() == CHUNK_REQUESTS;
        let chunk = Arc::new(Chunk {
            requests,
            fraction: source.fraction_done(),
            skipped: source.skipped_records(),
            remarks: source.remarks(),
        });
        self.chunks.write().unwrap_or_else(PoisonError::into_inner).push(chunk.clone());
        if whole {
            *frontier = Frontier::At(source);
        }
        Ok(Next::Chunk(chunk))
    }
}

/// A trace of a [`TraceCache`]. Every pass gives the same requests as the file does.
#[derive(Debug, Clone)]
pub struct SharedTrace {
    shared: Arc<Shared>,
    shelf: Arc<Shelf>,
}

impl SourceFactory for SharedTrace {
    fn open(&self, _pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        self.shared.begin(&self.shelf)?;
        Ok(Box::new(SharedSource {
            trace: self.clone(),
            index: 0,
            current: None,
            next: 0,
            taken: 0,
            fraction: None,
            skipped: 0,
            remarks: Vec::new(),
            own: None,
        }))
    }
}

struct SharedSource {
    trace: SharedTrace,
    /// Number of the next chunk.
    index: usize,
    current: Option<Arc<Chunk>>,
    next: usize,
    taken: u64,
    fraction: Option<f64>,
    skipped: u64,
    remarks: Vec<Remark>,
    /// Reads what is not kept.
    own: Option<Box<dyn RequestSource>>,
}

impl SharedSource {
    /// A reader of its own that stands where this one does.
    fn beyond(&self) -> Result<Box<dyn RequestSource>, SourceError> {
        self.trace.shelf.count_pass();
        let mut own = self.trace.shared.trace.reader()?;
        let (mut left, mut passed) = (self.taken, Vec::new());
        while left > 0 {
            passed.clear();
            let count = own.fill(&mut passed, left.min(CHUNK_REQUESTS as u64) as usize)?;
            if count == 0 {
                break;
            }
            left -= count as u64;
        }
        Ok(own)
    }
}

impl RequestSource for SharedSource {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        if max == 0 {
            return Ok(0);
        }
        loop {
            if let Some(own) = &mut self.own {
                return own.fill(out, max);
            }
            if let Some(chunk) = &self.current {
                let end = chunk.requests.len().min(self.next + max);
                let count = end - self.next;
                if count > 0 {
                    out.extend_from_slice(&chunk.requests[self.next..end]);
                    self.next = end;
                    self.taken += count as u64;
                    return Ok(count);
                }
            }
            match self.trace.shared.next(self.index, &self.trace.shelf)? {
                Next::Chunk(chunk) => {
                    (self.fraction, self.skipped) = (chunk.fraction, chunk.skipped);
                    self.remarks.clone_from(&chunk.remarks);
                    (self.current, self.next) = (Some(chunk), 0);
                    self.index += 1;
                }
                Next::End(skipped, remarks) => {
                    (self.skipped, self.remarks) = (skipped, remarks);
                    return Ok(0);
                }
                Next::Beyond => self.own = Some(self.beyond()?),
            }
        }
    }

    fn total_requests(&self) -> Option<u64> {
        self.trace.shared.total.get().copied().flatten()
    }

    fn fraction_done(&self) -> Option<f64> {
        self.own.as_ref().map_or(self.fraction, |own| own.fraction_done())
    }

    fn skipped_records(&self) -> u64 {
        self.own.as_ref().map_or(self.skipped, |own| own.skipped_records())
    }

    fn remarks(&self) -> Vec<Remark> {
        self.own.as_ref().map_or_else(|| self.remarks.clone(), |own| own.remarks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    const REQUESTS: u64 = 3 * CHUNK_REQUESTS as u64 + 100;
    const CHUNK_BYTES: u64 = (CHUNK_REQUESTS * size_of::<Request>()) as u64;

    fn written(folder: &tempfile::TempDir, name: &str, requests: u64, last: &str) -> PathBuf {
        let mut text = String::from("arrival_ns,op,lba,sectors,stream\n");
        for index in 0..requests {
            writeln!(text, "{index},w,{},8,0", index * 8).unwrap();
        }
        let path = folder.path().join(name);
        std::fs::write(&path, text + last).unwrap();
        path
    }

    fn all(factory: &dyn SourceFactory, max: usize) -> Result<Vec<Request>, SourceError> {
        let mut source = factory.open(0)?;
        let mut requests = Vec::new();
        while source.fill(&mut requests, max)? > 0 {}
        Ok(requests)
    }

    fn csv() -> OpenOptions {
        OpenOptions { format: Some("csv".into()), ..OpenOptions::default() }
    }

    #[test]
    fn a_trace_that_has_changed_is_read_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(&folder, "a.csv", 100, "");
        let cache = TraceCache::new(u64::MAX);
        let before = cache.open(&path, &csv()).unwrap();
        assert_eq!(all(&before, 64).unwrap().len(), 100);
        assert_eq!(cache.volumes(&path, &csv()).unwrap().0[0].2, 100);
        // As many bytes, and the time of change as it was.
        let changed = std::fs::metadata(&path).unwrap().modified().unwrap();
        let text = std::fs::read_to_string(&path).unwrap().replace(",w,", ",r,");
        std::fs::write(folder.path().join("b.csv"), text).unwrap();
        std::fs::File::options()
            .write(true)
            .open(folder.path().join("b.csv"))
            .unwrap()
            .set_modified(changed)
            .unwrap();
        std::fs::rename(folder.path().join("b.csv"), &path).unwrap();
        let op = |trace: &dyn SourceFactory| all(trace, 64).unwrap()[0].op;
        assert_eq!(op(&before), ftlab_core::host::request::Op::Write, "who has it goes on with it");
        if cfg!(unix) {
            assert_eq!(op(&cache.open(&path, &csv()).unwrap()), ftlab_core::host::request::Op::Read);
        }
        written(&folder, "a.csv", 50, "");
        assert_eq!(all(&cache.open(&path, &csv()).unwrap(), 64).unwrap().len(), 50);
        assert_eq!(cache.volumes(&path, &csv()).unwrap().0[0].2, 50);
    }

    #[test]
    #[ignore = "a long test: make test-long"]
    fn readers_beside_each_other_get_what_the_file_gives() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(&folder, "a.csv", REQUESTS, "");
        let expected = all(&open(&path, &csv()).unwrap(), 4096).unwrap();
        assert_eq!(expected.len() as u64, REQUESTS);
        for limit in [u64::MAX, 2 * CHUNK_BYTES, 0] {
            let cache = TraceCache::new(limit);
            let seen: Vec<_> = std::thread::scope(|scope| {
                let read = |max| {
                    let trace = cache.open(&path, &csv()).unwrap();
                    scope.spawn(move || all(&trace, max).unwrap())
                };
                let threads: Vec<_> = [4096, 777, 1 << 20].into_iter().map(read).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(seen.iter().all(|requests| *requests == expected), "limit {limit}");
            assert!(cache.used_bytes() <= limit);
        }
    }

    #[test]
    fn only_what_is_read_is_decoded_and_unused_traces_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) =
            (written(&folder, "a.csv", REQUESTS, ""), written(&folder, "b.csv", REQUESTS, ""));
        let cache = TraceCache::new(2 * CHUNK_BYTES);
        let trace = cache.open(&first, &csv()).unwrap();
        let mut source = SourceFactory::open(&trace, 0).unwrap();
        source.fill(&mut Vec::new(), 10).unwrap();
        assert_eq!(cache.used_bytes(), CHUNK_BYTES);

        drop(source);
        drop(trace);
        let other = cache.open(&second, &csv()).unwrap();
        let mut source = SourceFactory::open(&other, 0).unwrap();
        let mut seen = Vec::new();
        while seen.len() < 2 * CHUNK_REQUESTS {
            source.fill(&mut seen, CHUNK_REQUESTS).unwrap();
        }
        assert_eq!(cache.used_bytes(), 2 * CHUNK_BYTES);
        assert_eq!(locked(&cache.0.state).traces.len(), 1);
    }

    #[test]
    fn a_bad_line_is_told_to_every_reader_after_the_good_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(&folder, "a.csv", 5, "nonsense,w,1,8,0\n");
        let cache = TraceCache::new(u64::MAX);
        let trace = cache.open(&path, &csv()).unwrap();
        let alone = all(&open(&path, &csv()).unwrap(), 4096).unwrap_err();
        for _ in 0..2 {
            let mut source = SourceFactory::open(&trace, 0).unwrap();
            let mut seen = Vec::new();
            assert_eq!(source.fill(&mut seen, 4096), Ok(5));
            assert_eq!(source.fill(&mut seen, 4096).unwrap_err(), alone);
        }
        assert!(alone.line.is_some());
    }
}
