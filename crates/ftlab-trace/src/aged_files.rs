//! Aged drives in a folder of the user, for the next run.
//!
//! A file has a mark, the whole key of its drive with the engine, the state of the drive, and a checksum of all of it,
//! compressed. Nothing of a file is believed before all of it was read: the core then has a drive, or throws it away. A
//! store never fails a run. What goes wrong is told in one sentence, once.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ftlab_core::host::aged::{AgedStore, Found};
use twox_hash::XxHash64;

const MARK: &[u8; 16] = b"ftlab aged drive";
const ENDING: &str = "aged";
/// Files are written under names with this beginning, and stay there when a process is killed.
const UNFINISHED: &str = "unfinished-";
/// The fastest: a drive is written while somebody waits for its run.
const LEVEL: i32 = 1;

/// Aged drives in a folder.
#[derive(Debug)]
pub struct AgedFiles {
    folder: PathBuf,
    limit_bytes: u64,
    engine: String,
    least: Duration,
    began: Instant,
    trouble: Mutex<Trouble>,
}

#[derive(Debug, Default)]
struct Trouble {
    was_told: bool,
    text: Option<String>,
}

/// A disk may stop for a moment: writing is not given up before this.
const STALL: Duration = Duration::from_secs(1);

impl AgedFiles {
    /// Keep drives of `engine` in `folder`, `limit_bytes` in all at most; those that were used last stay. Drives that took
    /// less than `least` to age are not kept.
    pub fn new(folder: PathBuf, limit_bytes: u64, engine: String, least: Duration) -> Self {
        Self { folder, limit_bytes, engine, least, began: Instant::now(), trouble: Mutex::default() }
    }

    /// What went wrong first, told once: runs went on without it.
    pub fn take_trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).text.take()
    }

    fn tell(&self, path: &Path, what: &str) {
        let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        if !trouble.was_told {
            *trouble = Trouble { was_told: true, text: Some(format!("{}: {what}", path.display())) };
        }
    }

    fn full_key(&self, key: &str) -> String {
        format!("{}\n{key}", self.engine)
    }

    fn path_of(&self, full_key: &str) -> PathBuf {
        let hash = |seed| {
            let mut hash = XxHash64::with_seed(seed);
            hash.write(full_key.as_bytes());
            hash.finish()
        };
        self.folder.join(format!("{:016x}{:016x}.{ENDING}", hash(0), hash(1)))
    }

    /// Write a drive that took `took` to age. Writing takes longer than reading back: one that takes longer than the ageing
    /// is given up, and what it was kept for was not worth it.
    fn write(
        &self,
        path: &Path,
        full_key: &str,
        took: Duration,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        let file = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.folder)?;
        self.pack(file.as_file(), full_key, took, write)?;
        // What is there, of whatever key, is no longer wanted.
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }

    fn pack(
        &self,
        file: &File,
        full_key: &str,
        took: Duration,
        write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let longest = took.max(STALL);
        let bounded = Bounded { file, room: self.limit_bytes, until: Instant::now() + longest };
        let packed = zstd::stream::write::Encoder::new(BufWriter::with_capacity(1 << 20, bounded), LEVEL)?;
        let mut out = Summed { inner: packed, sum: XxHash64::with_seed(0) };
        out.write_all(MARK)?;
        out.write_all(&(full_key.len() as u64).to_le_bytes())?;
        out.write_all(full_key.as_bytes())?;
        write(&mut out)?;
        let sum = out.sum.finish();
        out.write_all(&sum.to_le_bytes())?;
        out.inner.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(())
    }

    /// Remove what was not used for longest, until the rest is within the limit.
    fn make_room(&self) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_ours = name.ends_with(&format!(".{ENDING}")) || name.starts_with(UNFINISHED);
            // Another process may have removed it.
            if let (true, Ok(about)) = (is_ours, entry.metadata()) {
                files.push((about.modified()?, entry.path(), about.len()));
            }
        }
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, _, bytes)| bytes).sum();
        for (_, path, length) in files {
            if bytes <= self.limit_bytes {
                break;
            }
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => bytes -= length,
            }
        }
        Ok(())
    }
}

/// Read a file as it was written; `touched` when `read` has begun.
fn read_file(
    file: &File,
    full_key: &str,
    touched: &mut bool,
    read: &mut dyn FnMut(&mut dyn Read) -> io::Result<()>,
) -> io::Result<()> {
    let packed = zstd::stream::read::Decoder::with_buffer(BufReader::with_capacity(1 << 20, file))?;
    let mut input = Summed { inner: packed, sum: XxHash64::with_seed(0) };
    let mut head = vec![0; MARK.len() + size_of::<u64>() + full_key.len()];
    input.read_exact(&mut head)?;
    let expected = [MARK, &(full_key.len() as u64).to_le_bytes()[..], full_key.as_bytes()].concat();
    if head != expected {
        return Err(io::ErrorKind::InvalidData.into());
    }
    *touched = true;
    read(&mut input)?;
    let (sum, mut end) = (input.sum.finish(), Vec::new());
    input.inner.take(9).read_to_end(&mut end)?;
    if end != sum.to_le_bytes() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(())
}

impl AgedStore for AgedFiles {
    fn find(&self, key: &str, read: &mut dyn FnMut(&mut dyn Read) -> io::Result<()>) -> Found {
        let full_key = self.full_key(key);
        let path = self.path_of(&full_key);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Nothing,
            Err(error) => {
                self.tell(&path, &format!("cannot read this aged drive ({error}): it is aged anew"));
                return Found::Nothing;
            }
        };
        let mut touched = false;
        if read_file(&file, &full_key, &mut touched, read).is_ok() {
            // The order in which files are removed is not worth a sentence.
            let _ = file.set_modified(SystemTime::now());
            return Found::Whole;
        }
        self.tell(&path, "this aged drive is damaged: it is aged anew");
        // Where it cannot be removed, it is written over.
        let _ = fs::remove_file(&path);
        if touched { Found::Spoilt } else { Found::Nothing }
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn keep(&self, key: &str, took: Duration, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>) {
        if took < self.least {
            return;
        }
        let full_key = self.full_key(key);
        let path = self.path_of(&full_key);
        let kept = match self.write(&path, &full_key, took, write) {
            // The limit may have been larger when the others were kept.
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => self.make_room(),
            kept => kept.and_then(|()| self.make_room()),
        };
        match kept {
            Err(error) if !NOT_WORTH_IT.contains(&error.kind()) => {
                let next = "the next run ages it anew, unless FTLAB_CACHE names another folder";
                self.tell(&self.folder, &format!("cannot keep an aged drive here ({error}): {next}"));
            }
            _ => {}
        }
    }
}

/// The errors of writing that are none: a part that is not kept, too little time, too little room.
const NOT_WORTH_IT: [io::ErrorKind; 3] =
    [io::ErrorKind::Unsupported, io::ErrorKind::TimedOut, io::ErrorKind::FileTooLarge];

/// Bytes on their way, and their checksum.
struct Summed<T> {
    inner: T,
    sum: XxHash64,
}

impl<T: Read> Read for Summed<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.sum.write(&buffer[..count]);
        Ok(count)
    }
}

impl<T: Write> Write for Summed<T> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let count = self.inner.write(buffer)?;
        self.sum.write(&buffer[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A file that takes only so many bytes, and only for so long.
struct Bounded<'a> {
    file: &'a File,
    room: u64,
    until: Instant,
}

impl Write for Bounded<'_> {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if Instant::now() > self.until {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.room = self.room.checked_sub(buffer.len() as u64).ok_or(io::ErrorKind::FileTooLarge)?;
        let mut file = self.file;
        file.write_all(buffer)?;
        Ok(buffer.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
