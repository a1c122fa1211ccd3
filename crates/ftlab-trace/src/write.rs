//! Writing traces.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ftlab_core::host::request::{Op, Request, SourceError};

use crate::formats::{FORMATS, Format, names};
use crate::input::{self, Compression, Sink};
use crate::text::MAX_SECTORS;

/// Writes a trace, as far as its format can express it. Errors are sentences without the name of the file.
pub(crate) trait TraceWriter: Send {
    /// Write more requests, in order. `contents` has a hash for each of them if the writer was made to keep them, and is
    /// empty otherwise.
    fn write(&mut self, requests: &[Request], contents: &[u128]) -> Result<(), String>;

    /// Say where the requests come from, in formats that have room for it.
    fn note_origin(&mut self, origin: &str) {
        let _ = origin;
    }

    /// Leave out what the format cannot express, rather than fail.
    fn leave_out(&mut self) {}

    /// What of the requests so far is not in the file, in sentences.
    fn lost(&self) -> Vec<String> {
        Vec::new()
    }

    /// Write what is buffered and close the file.
    fn finish(self: Box<Self>) -> Result<(), String>;
}

/// A trace being written. It appears under its name when it is finished, and never in part; so a trace may also be
/// converted onto itself.
pub struct TraceOutput {
    path: PathBuf,
    /// Where it is until it is finished, and where it goes then; absent for what is written directly.
    partial: Option<(PathBuf, PathBuf)>,
    format: &'static str,
    keeps_contents: bool,
    /// Requests whose contents are known and not kept.
    contents_lost: bool,
    /// Requests that were given.
    given: u64,
    writer: Option<Box<dyn TraceWriter>>,
}

fn failed(path: &Path, expected: impl Into<String>) -> SourceError {
    SourceError { origin: path.display().to_string(), expected: expected.into(), ..SourceError::default() }
}

/// Create the trace `path` in the format called `format`. The extensions `.gz`, `.bz2`, `.xz` and `.zst` compress it.
///
/// # Errors
/// When the format does not exist, cannot be written, or the file cannot be created.
pub fn create(path: &Path, format: &str) -> Result<TraceOutput, SourceError> {
    create_with(path, format, false)
}

/// As [`create`], for requests whose contents are known: `csv` and `parquet` keep a hash of them in a column, other formats
/// leave it out. All requests then go to [`TraceOutput::write_with_contents`].
///
/// # Errors
/// As for [`create`].
pub fn create_with_contents(path: &Path, format: &str) -> Result<TraceOutput, SourceError> {
    create_with(path, format, true)
}

/// The file that a path means once links are followed. Nothing if it is to be written directly: a device, a pipe, or what
/// a link of the system names, such as `/dev/stdout`, which others have open.
fn behind_links(path: &Path) -> io::Result<Option<PathBuf>> {
    // This also refuses links that go in circles.
    match fs::metadata(path) {
        Ok(about) if !about.is_file() => return Ok(None),
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut path = path.to_owned();
    while let Ok(target) = fs::read_link(&path) {
        let folder = fs::canonicalize(match path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        })?;
        if folder == Path::new("/dev") || folder.starts_with("/proc") {
            return Ok(None);
        }
        path = folder.join(target);
    }
    Ok(Some(path))
}

/// Open what a trace is written to, with the names that it has until it is finished and then.
fn open(path: &Path) -> io::Result<(File, Option<(PathBuf, PathBuf)>)> {
    let Some(target) = behind_links(path)? else { return Ok((File::create(path)?, None)) };
    let mut number = 1;
    loop {
        let mut name = target.as_os_str().to_owned();
        name.push(if number == 1 { ".partial".into() } else { format!(".partial-{number}") });
        let partial = PathBuf::from(name);
        // Somebody's file of that name is left alone.
        match File::create_new(&partial) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            file => return Ok((file?, Some((partial, target)))),
        }
    }
}

fn create_with(path: &Path, format: &str, contents: bool) -> Result<TraceOutput, SourceError> {
    let format = Format::named(format).map_err(|error| failed(path, error))?;
    let keeps_contents = contents && format.write_contents.is_some();
    let make_writer = if keeps_contents { format.write_contents } else { format.write };
    let Some(make_writer) = make_writer else {
        let writable: Vec<&Format> = FORMATS.iter().copied().filter(|format| format.is_writable()).collect();
        let expected = format!("{} is read only; traces are written as {}", format.name, names(&writable));
        return Err(failed(path, expected));
    };
    let opened = if path == Path::new("-") {
        Err(io::Error::other("`-` is not taken for standard output, state /dev/stdout (or ./- for a file)"))
    } else {
        open(path)
    };
    let sink =
        opened.and_then(|(file, partial)| Ok((input::sink(file, Compression::of_extension(path))?, partial)));
    let (sink, partial) = sink.map_err(|error| failed(path, format!("cannot be created: {error}")))?;
    let mut output = TraceOutput {
        path: path.to_owned(),
        partial,
        format: format.name,
        keeps_contents,
        contents_lost: contents && !keeps_contents,
        given: 0,
        writer: None,
    };
    output.writer = Some(make_writer(sink).map_err(|error| failed(path, error))?);
    Ok(output)
}

impl TraceOutput {
    /// Write more requests, in order.
    ///
    /// # Errors
    /// Which request (counted from 1) the format cannot express, or why the file cannot be written.
    pub fn write(&mut self, requests: &[Request]) -> Result<(), SourceError> {
        self.write_with_contents(requests, &[])
    }

    /// Write more requests, in order, with a hash of the content of each where the format keeps it.
    ///
    /// # Errors
    /// As for [`write`](Self::write), and when a content is missing.
    pub fn write_with_contents(
        &mut self,
        requests: &[Request],
        contents: &[u128],
    ) -> Result<(), SourceError> {
        let contents = if self.keeps_contents { contents } else { &[] };
        if self.keeps_contents && contents.len() != requests.len() {
            return Err(failed(&self.path, "a content for each request, or for none"));
        }
        // What no reader would take is not written.
        let beyond =
            |request: &Request| request.op != Op::Flush && end(request).is_none_or(|end| end > MAX_SECTORS);
        if let Some(index) = requests.iter().position(beyond) {
            let Request { lba, sectors, .. } = requests[index];
            let number = self.given + index as u64 + 1;
            let expected = format!(
                "request {number} has {sectors} sectors from {lba}, expected an end of at most sector 2^54"
            );
            return Err(failed(&self.path, expected));
        }
        self.given += requests.len() as u64;
        let written = self.writer.as_mut().map_or(Ok(()), |writer| writer.write(requests, contents));
        written.map_err(|error| failed(&self.path, error))
    }

    /// Say where the requests come from, such as the name of another trace. Formats without room for it say nothing.
    pub fn note_origin(&mut self, origin: &str) {
        if let Some(writer) = &mut self.writer {
            writer.note_origin(origin);
        }
    }

    /// Leave out requests that the format cannot express, rather than fail; [`finish`](Self::finish) tells how many.
    pub fn leave_out_the_rest(&mut self) {
        if let Some(writer) = &mut self.writer {
            writer.leave_out();
        }
    }

    /// Write what is buffered, close the file and give it its name. Returns what the format could not hold, in sentences.
    ///
    /// # Errors
    /// Why the file cannot be written.
    pub fn finish(mut self) -> Result<Vec<String>, SourceError> {
        let mut lost = self.writer.as_ref().map_or_else(Vec::new, |writer| writer.lost());
        if self.contents_lost {
            lost.push(format!("the hashes of contents are left out: {} has no place for them", self.format));
        }
        let finished = self.writer.take().map_or(Ok(()), TraceWriter::finish);
        finished.map_err(|error| failed(&self.path, error))?;
        if let Some((partial, target)) = &self.partial {
            let named = fs::rename(partial, target);
            named.map_err(|error| failed(&self.path, format!("cannot be given its name: {error}")))?;
            self.partial = None;
        }
        Ok(lost)
    }
}

impl Drop for TraceOutput {
    fn drop(&mut self) {
        if let Some((partial, _)) = self.partial.take() {
            drop(self.writer.take());
            let _ = fs::remove_file(partial);
        }
    }
}

/// The first sector behind a request.
fn end(request: &Request) -> Option<u64> {
    request.lba.checked_add(request.sectors.into())
}

/// What the format of a line cannot express: what it can.
pub(crate) struct Unwritable(pub(crate) &'static str);

/// Writes text formats line by line, with a function that may remember what it wrote.
pub(crate) struct LineWriter<F> {
    sink: Box<dyn Sink>,
    block: Vec<u8>,
    written: u64,
    line: F,
    leaves_out: bool,
    /// Requests that were left out, by operation, and what can be expressed.
    left_out: [u64; 4],
    expected: &'static str,
}

const BLOCK_BYTES: usize = 64 * 1024;

impl<F: FnMut(&mut Vec<u8>, &Request, Option<u128>) -> Result<(), Unwritable>> LineWriter<F> {
    /// `header` comes first, as it is.
    pub(crate) fn new(sink: Box<dyn Sink>, header: &str, line: F) -> Self {
        let block = header.into();
        Self { sink, block, written: 0, line, leaves_out: false, left_out: [0; 4], expected: "" }
    }

    fn flush(&mut self) -> Result<(), String> {
        let written = self.sink.write_all(&self.block).map_err(|error| format!("cannot be written: {error}"));
        self.block.clear();
        written
    }
}

impl<F: FnMut(&mut Vec<u8>, &Request, Option<u128>) -> Result<(), Unwritable> + Send> TraceWriter
    for LineWriter<F>
{
    fn write(&mut self, requests: &[Request], contents: &[u128]) -> Result<(), String> {
        for (index, request) in requests.iter().enumerate() {
            self.written += 1;
            let written = (self.line)(&mut self.block, request, contents.get(index).copied());
            if let Err(Unwritable(expected)) = written {
                if !self.leaves_out {
                    let op = request.op.name();
                    return Err(format!("request {} is a {op}, expected {expected}", self.written));
                }
                self.left_out[request.op as usize] += 1;
                self.expected = expected;
            }
            if self.block.len() >= BLOCK_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn leave_out(&mut self) {
        self.leaves_out = true;
    }

    fn lost(&self) -> Vec<String> {
        let counts = Op::ALL.into_iter().zip(self.left_out).filter(|(_, count)| *count > 0);
        let counts = counts.map(|(op, count)| match (op, count) {
            (Op::Flush, 2..) => format!("{count} flushes"),
            (op, 1) => format!("1 {}", op.name()),
            (op, _) => format!("{count} {}s", op.name()),
        });
        let counts: Vec<String> = counts.collect();
        if counts.is_empty() {
            return Vec::new();
        }
        vec![format!("{} left out: the format has {}", counts.join(" and "), self.expected)]
    }

    fn finish(mut self: Box<Self>) -> Result<(), String> {
        self.flush()?;
        self.sink.finish().map_err(|error| format!("cannot be written: {error}"))
    }
}
