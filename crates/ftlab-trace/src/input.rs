//! Bytes of a trace: a file or memory, decompressed on the way.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ftlab_core::host::request::SourceError;

/// How a file is compressed; told by its first bytes, never by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip, one or more members.
    Gzip,
    /// bzip2, one or more streams.
    Bzip2,
    /// xz, one or more streams.
    Xz,
    /// Zstandard, one or more frames.
    Zstd,
}

impl Compression {
    /// Every kind.
    pub const ALL: [Compression; 5] =
        [Compression::None, Compression::Gzip, Compression::Bzip2, Compression::Xz, Compression::Zstd];

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Bzip2 => "bzip2",
            Compression::Xz => "xz",
            Compression::Zstd => "zstd",
        }
    }

    const fn magic(self) -> &'static [u8] {
        match self {
            Compression::None => b"",
            Compression::Gzip => &[0x1f, 0x8b],
            Compression::Bzip2 => b"BZh",
            Compression::Xz => &[0xfd, b'7', b'z', b'X', b'Z', 0],
            Compression::Zstd => &[0x28, 0xb5, 0x2f, 0xfd],
        }
    }

    /// What the first bytes of a file say.
    pub fn of_first_bytes(bytes: &[u8]) -> Self {
        let packed = Self::ALL.into_iter().skip(1).find(|kind| bytes.starts_with(kind.magic()));
        packed.unwrap_or(Compression::None)
    }

    /// What the extension of a new file asks for: `.gz`, `.bz2`, `.xz` or `.zst`.
    pub fn of_extension(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("gz") => Compression::Gzip,
            Some("bz2") => Compression::Bzip2,
            Some("xz") => Compression::Xz,
            Some("zst") => Compression::Zstd,
            _ => Compression::None,
        }
    }
}

/// How far a file has been read, and whether anybody still wants it.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    consumed: AtomicU64,
    total: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    /// Let the next read fail, so that a decoding thread ends.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn fraction(&self) -> Option<f64> {
        match self.total.load(Ordering::Relaxed) {
            0 => None,
            total => Some((self.consumed.load(Ordering::Relaxed) as f64 / total as f64).min(1.0)),
        }
    }
}

struct Counted<R> {
    inner: R,
    progress: Arc<Progress>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.progress.stopped.load(Ordering::Relaxed) {
            return Err(io::Error::other("reading was stopped"));
        }
        let count = self.inner.read(out)?;
        self.progress.consumed.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// Bad records of a trace: how many may be left out, and how many were.
#[derive(Debug, Clone, Default)]
pub(crate) struct BadRecords {
    allowed: u64,
    /// Counted together by the files of one trace.
    skipped: Arc<AtomicU64>,
}

impl BadRecords {
    /// Leave a bad record out, or give the error back when too many were left out before it.
    #[cold]
    pub(crate) fn leave_out(&self, mut error: SourceError) -> Result<(), SourceError> {
        let skipped = self.skipped();
        if skipped < self.allowed {
            self.skipped.store(skipped + 1, Ordering::Relaxed);
            return Ok(());
        }
        if skipped > 0 {
            let noun = if skipped == 1 { "record was" } else { "records were" };
            error.expected = format!("{} ({skipped} bad {noun} skipped before)", error.expected);
        }
        Err(error)
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.skipped.load(Ordering::Relaxed)
    }
}

/// The time stamp that counts as 0, for formats whose clock is that of a calendar or of a machine. It is that of the
/// first record, unless files that belong together were given a common one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Epoch(Arc<OnceLock<u64>>);

impl Epoch {
    /// `ticks` count as 0.
    pub(crate) fn at(ticks: u64) -> Self {
        Epoch(Arc::new(ticks.into()))
    }

    /// What counts as 0, once a record has been read.
    pub(crate) fn ticks(&self) -> Option<u64> {
        self.0.get().copied()
    }

    /// The time of `ticks` of `tick_ns` each; nothing when they lie before the epoch, or centuries behind it.
    #[inline(always)]
    pub(crate) fn since(&self, ticks: u64, tick_ns: u64) -> Option<u64> {
        ticks.checked_sub(*self.0.get_or_init(|| ticks))?.checked_mul(tick_ns)
    }
}

enum Body {
    File(File),
    Memory(Vec<u8>),
}

/// A trace before its format is applied.
pub struct Input {
    origin: String,
    path: Option<PathBuf>,
    bad: BadRecords,
    epoch: Epoch,
    body: Body,
    compression: Compression,
    progress: Arc<Progress>,
}

/// Bytes of an [`Input`], decompressed.
pub(crate) struct Stream {
    bytes: Box<dyn Read + Send>,
    compression: Compression,
    progress: Arc<Progress>,
}

/// An [`Input`] that can be read anywhere, as Parquet needs.
pub(crate) enum RandomAccess {
    /// A plain file.
    File(File),
    /// Anything else, in memory.
    Memory(Vec<u8>),
}

fn failed(origin: &str, expected: impl Into<String>) -> SourceError {
    SourceError { origin: origin.to_owned(), expected: expected.into(), ..SourceError::default() }
}

/// The name of the file beside `path` that is most like it.
fn nearest_file(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_string_lossy().into_owned();
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let names = std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    let scored = names.map(|other| (strsim::jaro_winkler(&name, &other), other));
    let (score, other) = scored.max_by(|a, b| a.0.total_cmp(&b.0).then_with(|| b.1.cmp(&a.1)))?;
    (score > 0.85).then_some(other)
}

impl Input {
    /// Open a file.
    ///
    /// # Errors
    /// When it does not exist (with the nearest name beside it), is no regular file, or cannot be read.
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        let origin = path.display().to_string();
        let unopened = |error: io::Error| {
            if error.kind() != io::ErrorKind::NotFound {
                return failed(&origin, format!("cannot be opened: {error}"));
            }
            match nearest_file(path) {
                Some(name) => failed(&origin, format!("no such file; did you mean {name:?}?")),
                None => failed(&origin, "no such file"),
            }
        };
        // Asked before it is opened: that would wait for whoever writes into a pipe.
        let metadata = std::fs::metadata(path).map_err(unopened)?;
        if !metadata.is_file() {
            let kind = if metadata.is_dir() { "a folder" } else { "a pipe or device" };
            return Err(failed(
                &origin,
                format!("is {kind}; a trace is a regular file, which can be read twice"),
            ));
        }
        let file = File::open(path).map_err(unopened)?;
        let metadata =
            file.metadata().map_err(|error| failed(&origin, format!("cannot be read: {error}")))?;
        if metadata.len() == 0 {
            return Err(failed(&origin, "the file is empty"));
        }
        let mut first = [0; 6];
        let count = read_first(&mut &file, &mut first)
            .and_then(|count| io::Seek::rewind(&mut &file).map(|()| count))
            .map_err(|error| failed(&origin, format!("cannot be read: {error}")))?;
        let progress = Progress { total: metadata.len().into(), ..Progress::default() };
        Ok(Self {
            origin,
            path: Some(path.to_owned()),
            bad: BadRecords::default(),
            epoch: Epoch::default(),
            body: Body::File(file),
            compression: Compression::of_first_bytes(&first[..count]),
            progress: Arc::new(progress),
        })
    }

    /// A trace in memory; `origin` names it in messages.
    pub fn from_bytes(origin: &str, bytes: Vec<u8>) -> Self {
        let compression = Compression::of_first_bytes(&bytes);
        let progress = Progress { total: (bytes.len() as u64).into(), ..Progress::default() };
        Self {
            origin: origin.to_owned(),
            path: None,
            bad: BadRecords::default(),
            epoch: Epoch::default(),
            body: Body::Memory(bytes),
            compression,
            progress: Arc::new(progress),
        }
    }

    /// Let its reader leave out that many bad records. The default is none.
    #[must_use]
    pub fn skipping(mut self, records: u64) -> Self {
        self.bad.allowed = records;
        self
    }

    /// Let its reader count times from `epoch`.
    pub(crate) fn counted_from(mut self, epoch: Epoch) -> Self {
        self.epoch = epoch;
        self
    }

    /// Share its bad records with `other`, a file of the same trace.
    pub(crate) fn of_one_trace_with(mut self, other: &Input) -> Self {
        self.bad = other.bad.clone();
        self
    }

    pub(crate) fn bad_records(&self) -> BadRecords {
        self.bad.clone()
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch.clone()
    }

    /// Where it is, unless it is in memory.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Its name in messages.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// How it is compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    pub(crate) fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// The decompressed bytes, from the beginning.
    pub(crate) fn into_stream(self) -> Stream {
        let progress = self.progress;
        let bytes: Box<dyn Read + Send> = match self.body {
            Body::File(file) => {
                decompressed(Counted { inner: file, progress: progress.clone() }, self.compression)
            }
            Body::Memory(bytes) => {
                let bytes = Cursor::new(bytes);
                decompressed(Counted { inner: bytes, progress: progress.clone() }, self.compression)
            }
        };
        Stream { bytes, compression: self.compression, progress }
    }

    /// The decompressed bytes, anywhere; what is compressed as a whole goes to memory.
    pub(crate) fn into_random_access(self) -> Result<RandomAccess, SourceError> {
        if self.compression != Compression::None {
            let origin = self.origin.clone();
            let mut bytes = Vec::new();
            let mut stream = self.into_stream();
            stream.read_to_end(&mut bytes).map_err(|error| failed(&origin, stream.explain(&error)))?;
            return Ok(RandomAccess::Memory(bytes));
        }
        Ok(match self.body {
            Body::File(file) => RandomAccess::File(file),
            Body::Memory(bytes) => RandomAccess::Memory(bytes),
        })
    }
}

fn read_first(reader: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    let mut count = 0;
    while count < out.len() {
        match reader.read(&mut out[count..]) {
            Ok(0) => break,
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

fn decompressed<R: Read + Send + 'static>(raw: R, compression: Compression) -> Box<dyn Read + Send> {
    const PACKED_BLOCK_BYTES: usize = 128 * 1024;
    let buffered = |raw| BufReader::with_capacity(PACKED_BLOCK_BYTES, raw);
    match compression {
        Compression::None => Box::new(raw),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(buffered(raw))),
        Compression::Bzip2 => Box::new(bzip2::bufread::MultiBzDecoder::new(buffered(raw))),
        Compression::Xz => Box::new(liblzma::bufread::XzDecoder::new_multi_decoder(buffered(raw))),
        Compression::Zstd => match zstd::stream::read::Decoder::with_buffer(buffered(raw)) {
            Ok(mut decoder) => {
                // Archives are packed with long windows; the memory is taken only where a file asks for it.
                match decoder.window_log_max(31) {
                    Ok(()) => Box::new(decoder),
                    Err(error) => Box::new(Failing(error.kind())),
                }
            }
            Err(error) => Box::new(Failing(error.kind())),
        },
    }
}

/// A decoder that could not be made.
struct Failing(io::ErrorKind);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(self.0.into())
    }
}

impl Stream {
    /// The first bytes, at most `max`, and whether they are all.
    pub(crate) fn sample(&mut self, max: usize) -> io::Result<(Vec<u8>, bool)> {
        let mut bytes = vec![0; max];
        let count = read_first(self, &mut bytes)?;
        bytes.truncate(count);
        Ok((bytes, count < max))
    }

    /// What a failed read means to the user.
    pub(crate) fn explain(&self, error: &io::Error) -> String {
        match self.compression {
            Compression::None => format!("cannot be read: {error}"),
            packed if error.kind() == io::ErrorKind::UnexpectedEof => {
                format!("the {} file is cut off: its end is missing", packed.name())
            }
            packed => format!("the {} file is damaged: {error}", packed.name()),
        }
    }

    pub(crate) fn fraction_done(&self) -> Option<f64> {
        self.progress.fraction()
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(out)
    }
}

/// A file being written, compressed on the way. Dropped without [`finish`](Sink::finish) its end may be missing.
pub(crate) trait Sink: Write + Send {
    /// Write what is buffered and the end of the compressed stream.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// `Drop` hides what went wrong with the last bytes; this does not.
fn flush_file(mut writer: io::BufWriter<File>) -> io::Result<()> {
    writer.flush()
}

impl Sink for io::BufWriter<File> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        flush_file(*self)
    }
}

impl Sink for flate2::write::GzEncoder<io::BufWriter<File>> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        flush_file((*self).finish()?)
    }
}

impl Sink for bzip2::write::BzEncoder<io::BufWriter<File>> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        flush_file((*self).finish()?)
    }
}

impl Sink for liblzma::write::XzEncoder<io::BufWriter<File>> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        flush_file((*self).finish()?)
    }
}

impl Sink for zstd::stream::write::Encoder<'static, io::BufWriter<File>> {
    fn finish(self: Box<Self>) -> io::Result<()> {
        flush_file((*self).finish()?)
    }
}

/// Write a file, compressed.
pub(crate) fn sink(file: File, compression: Compression) -> io::Result<Box<dyn Sink>> {
    let file = io::BufWriter::with_capacity(256 * 1024, file);
    Ok(match compression {
        Compression::None => Box::new(file),
        Compression::Gzip => Box::new(flate2::write::GzEncoder::new(file, flate2::Compression::default())),
        Compression::Bzip2 => Box::new(bzip2::write::BzEncoder::new(file, bzip2::Compression::best())),
        Compression::Xz => Box::new(liblzma::write::XzEncoder::new(file, 6)),
        Compression::Zstd => Box::new(zstd::stream::write::Encoder::new(file, 3)?),
    })
}
