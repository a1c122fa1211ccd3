//! The volumes of a trace apart, after one pass over it: for many runs that take a volume each.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use ftlab_core::host::request::{Op, Remark, Request, RequestSource, SourceError, SourceFactory};

use crate::ending;
use crate::open::{OpenOptions, TraceFile};
use crate::shared::{CHUNK_REQUESTS, Shelf, Signs, bytes_of, locked};
use crate::volumes::missing;

/// Requests decoded between two looks at interruptions.
const BATCH: usize = 1 << 12;
/// Memory is asked for in steps of this.
const STEP_BYTES: u64 = 4 << 20;
/// Collected in any case, or each request would be written by itself where there is no room at all.
const LEAST_BYTES: u64 = if cfg!(test) { 1 << 20 } else { 16 << 20 };
/// A request in the temporary file.
const RECORD_BYTES: usize = 24;

/// A volume: its number, what the trace calls it, and how many requests it has.
pub type VolumeRow = (u16, String, u64);

/// A trace whose volumes are read apart. The first who needs one reads the trace; the others wait for it.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) path: PathBuf,
    /// How the trace is read, with all of its volumes.
    pub(crate) options: OpenOptions,
    /// When it was opened.
    pub(crate) signs: Option<Signs>,
    pub(crate) trace: TraceFile,
    volumes: Mutex<Option<Arc<Volumes>>>,
    kept_bytes: AtomicU64,
}

/// What one pass has found.
#[derive(Debug)]
pub(crate) struct Volumes {
    /// By number.
    all: Vec<Volume>,
    /// Requests for which there was no memory. The system deletes it when nobody has it open, however that comes.
    file: Option<Mutex<File>>,
    skipped: u64,
    /// What there was to say of the trace.
    remarks: Vec<Remark>,
    /// What ends every volume, as it ended the trace.
    failed: Option<SourceError>,
}

#[derive(Debug, Default)]
struct Volume {
    number: u16,
    name: String,
    requests: u64,
    /// Those before `rest`, in the file.
    pieces: Vec<Piece>,
    rest: Vec<Request>,
    /// Bad records left out by the time that another `CHUNK_REQUESTS` requests were there.
    skipped: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    at: u64,
    requests: u64,
}

impl Fleet {
    pub(crate) fn new(path: PathBuf, options: OpenOptions, trace: TraceFile) -> Self {
        let signs = Signs::of(&trace);
        Self { path, options, signs, trace, volumes: Mutex::default(), kept_bytes: AtomicU64::new(0) }
    }

    /// Bytes of the shelf that it has.
    pub(crate) fn bytes(&self) -> u64 {
        self.kept_bytes.load(Ordering::Relaxed)
    }

    fn origin(&self) -> String {
        self.path.display().to_string()
    }

    pub(crate) fn volumes(&self, shelf: &Shelf) -> Result<Arc<Volumes>, SourceError> {
        let mut known = locked(&self.volumes);
        if let Some(volumes) = &*known {
            return Ok(volumes.clone());
        }
        let mut collector = Collector::new(shelf);
        let (volumes, kept) = match self.read(&mut collector) {
            Ok(pass) => collector.finish(pass),
            // Interrupted, or no room for the file: whoever comes next begins anew.
            Err(error) => {
                shelf.release(collector.reserved);
                return Err(error);
            }
        };
        self.kept_bytes.store(kept, Ordering::Relaxed);
        Ok(known.insert(Arc::new(volumes)).clone())
    }

    fn read(&self, collector: &mut Collector<'_>) -> Result<Pass, SourceError> {
        let origin = self.origin();
        collector.shelf.count_pass();
        let mut reader = self.trace.reader()?;
        let mut batch = Vec::with_capacity(BATCH);
        let failed = loop {
            ending::check(&origin)?;
            batch.clear();
            match reader.fill(&mut batch, BATCH) {
                Ok(0) => break None,
                Ok(_) => {}
                Err(error) => {
                    ending::check(&origin)?;
                    break Some(error);
                }
            }
            collector.add(&batch, reader.skipped_records()).map_err(|error| SourceError {
                origin: origin.clone(),
                expected: format!("its volumes need a temporary file, which cannot be written: {error}"),
                ..SourceError::default()
            })?;
        };
        Ok(Pass {
            skipped: reader.skipped_records(),
            remarks: reader.remarks(),
            names: reader.stream_names(),
            failed,
        })
    }
}

/// How a pass over a trace ended.
struct Pass {
    skipped: u64,
    remarks: Vec<Remark>,
    names: Vec<(u16, String)>,
    failed: Option<SourceError>,
}

impl Volumes {
    /// Number, name and requests of each, in the order of numbers.
    pub(crate) fn listed(&self) -> Vec<VolumeRow> {
        self.all.iter().map(|volume| (volume.number, volume.name.clone(), volume.requests)).collect()
    }

    /// Bad records that were left out, or why reading ended.
    pub(crate) fn outcome(&self) -> Result<u64, SourceError> {
        self.failed.clone().map_or(Ok(self.skipped), Err)
    }
}

/// Requests of a pass, by volume.
struct Collector<'a> {
    shelf: &'a Shelf,
    /// Of the shelf.
    reserved: u64,
    held: u64,
    /// By number: where in `all` the volume is.
    places: Vec<Option<u32>>,
    all: Vec<Volume>,
    file: Option<BufWriter<File>>,
    written: u64,
}

impl<'a> Collector<'a> {
    fn new(shelf: &'a Shelf) -> Self {
        let places = vec![None; 1 << 16];
        Self { shelf, reserved: 0, held: 0, places, all: Vec::new(), file: None, written: 0 }
    }

    fn volume(&mut self, number: u16) -> &mut Volume {
        let place = *self.places[usize::from(number)].get_or_insert_with(|| {
            self.all.push(Volume { number, ..Volume::default() });
            self.all.len() as u32 - 1
        });
        &mut self.all[place as usize]
    }

    fn add(&mut self, batch: &[Request], skipped: u64) -> std::io::Result<()> {
        for run in batch.chunk_by(|one, other| one.stream == other.stream) {
            let volume = self.volume(run[0].stream);
            let before = volume.rest.capacity();
            volume.rest.extend_from_slice(run);
            volume.requests += run.len() as u64;
            let chunks = volume.requests / CHUNK_REQUESTS as u64;
            volume.skipped.resize(chunks as usize, skipped);
            let grown = volume.rest.capacity() - before;
            self.held += (grown * size_of::<Request>()) as u64;
        }
        while self.held > self.reserved {
            if self.shelf.reserve(STEP_BYTES) {
                self.reserved += STEP_BYTES;
            } else if self.held > LEAST_BYTES {
                self.spill()?;
            } else {
                break;
            }
        }
        Ok(())
    }

    /// Write all that is in memory.
    fn spill(&mut self) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(BufWriter::with_capacity(1 << 20, tempfile::tempfile()?)),
        };
        for volume in self.all.iter_mut().filter(|volume| !volume.rest.is_empty()) {
            for request in &volume.rest {
                file.write_all(&encoded(request))?;
            }
            let requests = volume.rest.len() as u64;
            volume.pieces.push(Piece { at: self.written, requests });
            self.written += requests * RECORD_BYTES as u64;
            volume.rest = Vec::new();
        }
        self.held = 0;
        file.flush()
    }

    /// What was found, and the bytes of the shelf that it keeps.
    fn finish(mut self, pass: Pass) -> (Volumes, u64) {
        let names: BTreeMap<u16, String> = pass.names.into_iter().collect();
        for volume in &mut self.all {
            let name = names.get(&volume.number);
            volume.name = name.cloned().unwrap_or_else(|| volume.number.to_string());
            volume.rest.shrink_to_fit();
        }
        let kept = self.all.iter().map(|volume| bytes_of(&volume.rest)).sum::<u64>().min(self.reserved);
        self.shelf.release(self.reserved - kept);
        self.all.sort_unstable_by_key(|volume| volume.number);
        let file = self.file.and_then(|file| file.into_inner().ok()).map(Mutex::new);
        let Pass { skipped, remarks, failed, .. } = pass;
        (Volumes { all: self.all, file, skipped, remarks, failed }, kept)
    }
}

fn encoded(request: &Request) -> [u8; RECORD_BYTES] {
    let mut record = [0; RECORD_BYTES];
    record[..8].copy_from_slice(&request.arrival_ns.to_le_bytes());
    record[8..16].copy_from_slice(&request.lba.to_le_bytes());
    record[16..20].copy_from_slice(&request.sectors.to_le_bytes());
    record[20..22].copy_from_slice(&request.stream.to_le_bytes());
    record[22] = request.op as u8;
    record[23] = request.fua.into();
    record
}

fn decoded(record: &[u8]) -> Request {
    let part = |from: usize| record[from..from + 8].try_into().expect("eight bytes");
    let last = u64::from_le_bytes(part(16));
    Request {
        arrival_ns: u64::from_le_bytes(part(0)),
        lba: u64::from_le_bytes(part(8)),
        sectors: last as u32,
        op: Op::ALL[usize::from(record[22])],
        stream: (last >> 32) as u16,
        fua: record[23] != 0,
    }
}

/// A volume of a trace whose volumes are read apart. Every pass gives the same requests as reading that volume alone.
#[derive(Debug, Clone)]
pub struct FleetVolume {
    pub(crate) fleet: Arc<Fleet>,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) number: u16,
}

impl SourceFactory for FleetVolume {
    fn open(&self, _pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let volumes = self.fleet.volumes(&self.shelf)?;
        let index = volumes.all.binary_search_by_key(&self.number, |volume| volume.number).ok();
        Ok(Box::new(VolumeSource {
            volume: self.clone(),
            volumes,
            index,
            piece: 0,
            read: 0,
            buffer: Vec::new(),
            next: 0,
            taken: 0,
            skipped: 0,
        }))
    }
}

struct VolumeSource {
    /// Kept, so that the shelf does not give its memory away.
    volume: FleetVolume,
    volumes: Arc<Volumes>,
    /// `None` where the trace has no such volume.
    index: Option<usize>,
    piece: usize,
    /// Requests read of that piece.
    read: u64,
    buffer: Vec<Request>,
    next: usize,
    taken: u64,
    skipped: u64,
}

impl VolumeSource {
    /// The next requests of the file, into the buffer, if there are more.
    fn load(&mut self, volume: usize) -> Result<(), SourceError> {
        let Some(piece) = self.volumes.all[volume].pieces.get(self.piece).copied() else { return Ok(()) };
        let count = (piece.requests - self.read).min(CHUNK_REQUESTS as u64);
        let mut bytes = vec![0; count as usize * RECORD_BYTES];
        if let Some(file) = &self.volumes.file {
            let mut file = locked(file);
            let place = SeekFrom::Start(piece.at + self.read * RECORD_BYTES as u64);
            let read = file.seek(place).and_then(|_| file.read_exact(&mut bytes));
            read.map_err(|error| SourceError {
                origin: self.volume.fleet.origin(),
                expected: format!("the temporary file of its volumes cannot be read: {error}"),
                ..SourceError::default()
            })?;
        }
        self.buffer.extend(bytes.chunks_exact(RECORD_BYTES).map(decoded));
        self.read += count;
        if self.read == piece.requests {
            (self.piece, self.read) = (self.piece + 1, 0);
        }
        Ok(())
    }

    fn ended(&mut self) -> Result<usize, SourceError> {
        self.skipped = self.volumes.skipped;
        if let Some(error) = &self.volumes.failed {
            return Err(error.clone());
        }
        if self.index.is_none() {
            let seen = self.volumes.all.iter().map(|volume| volume.number).collect();
            return Err(missing(&self.volume.fleet.origin(), self.volume.number, seen));
        }
        Ok(0)
    }
}

impl RequestSource for VolumeSource {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let Some(index) = self.index else { return self.ended() };
        if max == 0 {
            return Ok(0);
        }
        if self.next == self.buffer.len() {
            self.buffer.clear();
            self.next = 0;
            self.load(index)?;
        }
        let volume = &self.volumes.all[index];
        let from_file: u64 = volume.pieces.iter().map(|piece| piece.requests).sum();
        let (source, at) = if self.buffer.is_empty() {
            (&volume.rest, (self.taken - from_file) as usize)
        } else {
            (&self.buffer, self.next)
        };
        let end = source.len().min(at + max);
        let count = end - at;
        if count == 0 {
            return self.ended();
        }
        out.extend_from_slice(&source[at..end]);
        let chunk = (self.taken / CHUNK_REQUESTS as u64) as usize;
        self.skipped = volume.skipped.get(chunk).copied().unwrap_or(self.volumes.skipped);
        self.taken += count as u64;
        if !self.buffer.is_empty() {
            self.next = end;
        }
        Ok(count)
    }

    fn fraction_done(&self) -> Option<f64> {
        let requests = self.index.map_or(0, |index| self.volumes.all[index].requests);
        Some(self.taken as f64 / requests.max(1) as f64)
    }

    fn skipped_records(&self) -> u64 {
        self.skipped
    }

    fn remarks(&self) -> Vec<Remark> {
        self.volumes.remarks.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TraceCache, open};
    use std::fmt::Write;

    const VOLUMES: u64 = 7;
    /// More than a chunk in each volume but one.
    const REQUESTS: u64 = 240_000;

    fn written(folder: &tempfile::TempDir, requests: u64, last: &str) -> PathBuf {
        let mut text = String::from("arrival_ns,op,lba,sectors,stream\n");
        for index in 0..requests {
            let (op, stream) = (["r", "w", "t"][(index % 3) as usize], index * index % VOLUMES);
            writeln!(text, "{index},{op},{},8,{stream}", index * 8).unwrap();
        }
        let path = folder.path().join("fleet.csv");
        std::fs::write(&path, text + last).unwrap();
        path
    }

    fn reading(volume: Option<u16>, skip_bad: u64) -> OpenOptions {
        let volumes = volume.into_iter().collect();
        OpenOptions { format: Some("csv".into()), volumes, skip_bad, ..OpenOptions::default() }
    }

    /// All requests, how many records were left out, and what ended the trace.
    type All = (Vec<Request>, u64, Option<SourceError>);

    fn all(factory: &dyn SourceFactory, max: usize) -> All {
        let mut source = factory.open(0).unwrap();
        let mut requests = Vec::new();
        loop {
            match source.fill(&mut requests, max) {
                Ok(0) => return (requests, source.skipped_records(), None),
                Ok(_) => {}
                Err(error) => return (requests, source.skipped_records(), Some(error)),
            }
        }
    }

    #[test]
    #[ignore = "a long test: make test-long"]
    fn each_volume_is_what_it_is_alone_and_the_trace_is_read_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(&folder, REQUESTS, "nonsense\n");
        let numbers = [0, 1, 2, 4];
        let alone = |number| all(&open(&path, &reading(Some(number), 1)).unwrap(), 4096);
        let expected = numbers.map(alone);
        assert_eq!(expected.iter().map(|(requests, ..)| requests.len()).sum::<usize>(), REQUESTS as usize);
        // All in memory; most of it in the file; and in shares of both.
        for limit in [u64::MAX, 0, 4 << 20] {
            let cache = TraceCache::new(limit);
            std::thread::scope(|scope| {
                for (number, expected) in numbers.into_iter().zip(&expected) {
                    let volume = cache.open_volume(&path, &reading(Some(number), 1)).unwrap();
                    scope.spawn(move || {
                        for max in [4096, 777] {
                            assert_eq!(all(&volume, max), *expected, "limit {limit}, volume {number}");
                        }
                    });
                }
            });
            assert_eq!(cache.passes(), 1, "limit {limit}");
            assert!(cache.used_bytes() <= limit);
            let volume = cache.open_volume(&path, &reading(Some(1), 1)).unwrap();
            let known = volume.fleet.volumes(&volume.shelf).unwrap();
            assert_eq!(known.all.iter().all(|volume| !volume.pieces.is_empty()), limit < u64::MAX);
            let (volumes, skipped) = cache.volumes(&path, &reading(None, 1)).unwrap();
            assert_eq!(volumes.iter().map(|volume| volume.0).collect::<Vec<_>>(), numbers);
            assert_eq!((volumes.iter().map(|volume| volume.2).sum::<u64>(), skipped), (REQUESTS, 1));
            assert_eq!(cache.passes(), 1, "limit {limit}");
        }
    }

    #[test]
    fn a_bad_record_ends_every_volume_and_a_missing_one_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(&folder, 100, "nonsense,w,1,8,0\n");
        let cache = TraceCache::new(u64::MAX);
        for number in [0, 4] {
            let volume = cache.open_volume(&path, &reading(Some(number), 0)).unwrap();
            let alone = all(&open(&path, &reading(Some(number), 0)).unwrap(), 4096);
            assert!(alone.2.is_some());
            assert_eq!(all(&volume, 4096), alone);
        }
        assert!(cache.volumes(&path, &reading(None, 0)).is_err());
        let path = written(&folder, 100, "");
        let cache = TraceCache::new(u64::MAX);
        let volume = cache.open_volume(&path, &reading(Some(3), 0)).unwrap();
        assert_eq!(all(&volume, 4096), all(&open(&path, &reading(Some(3), 0)).unwrap(), 4096));
    }

    #[test]
    fn unused_fleets_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(&folder, 200_000, "");
        let cache = TraceCache::new(8 << 20);
        let volume = cache.open_volume(&path, &reading(Some(0), 0)).unwrap();
        all(&volume, 4096);
        let before = cache.used_bytes();
        assert!(before > 4 << 20);
        drop(volume);
        let other = cache.open(&path, &reading(None, 0)).unwrap();
        all(&other, 4096);
        assert!(cache.used_bytes() <= 8 << 20);
        assert_eq!(cache.passes(), 2);
    }

    #[test]
    fn an_interruption_leaves_nothing_half_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = written(&folder, 10_000, "");
        let cache = TraceCache::new(u64::MAX);
        let volume = cache.open_volume(&path, &reading(Some(0), 0)).unwrap();
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(true));
        assert!(ending::until(stop, || SourceFactory::open(&volume, 0).is_err()));
        assert_eq!(cache.used_bytes(), 0);
        assert_eq!(all(&volume, 4096), all(&open(&path, &reading(Some(0), 0)).unwrap(), 4096));
    }
}
