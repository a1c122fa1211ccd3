//! Writing traces.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use ftlab_core::host::request::{Op, Request, SourceError};

use crate::format::Format;
use crate::formats::{FORMATS, names};
use crate::input::{self, Compression};
use crate::text::MAX_SECTORS;
use crate::writer::{Extras, TraceWriter};

/// A trace being written. It appears under its name when it is finished, and never in part; so a trace may also be
/// converted onto itself.
pub struct TraceOutput {
    path: PathBuf,
    /// Where it is until it is finished, and where it goes then; absent for what is written directly.
    partial: Option<(PathBuf, PathBuf)>,
    format: &'static str,
    keeps: Extras,
    /// Contents are known and not kept.
    contents_lost: bool,
    /// Writes that are FUA, which is not kept.
    fua_lost: u64,
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
    create_with(path, format, Extras::default())
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

/// As [`create`], for requests with `extras`: `csv` and `parquet` have a column for each, other formats leave out what they
/// have no place for. Requests with contents all go to [`TraceOutput::write_with_contents`].
///
/// # Errors
/// As for [`create`].
pub fn create_with(path: &Path, format: &str, extras: Extras) -> Result<TraceOutput, SourceError> {
    let format = Format::named(format).map_err(|error| failed(path, error))?;
    let Some(make_writer) = format.write else {
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
        keeps: Extras::default(),
        contents_lost: false,
        fua_lost: 0,
        given: 0,
        writer: None,
    };
    let writer = make_writer(sink, extras).map_err(|error| failed(path, error))?;
    output.keeps = writer.keeps();
    output.contents_lost = extras.contents && !output.keeps.contents;
    output.writer = Some(writer);
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
        let contents = if self.keeps.contents { contents } else { &[] };
        if self.keeps.contents && contents.len() != requests.len() {
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
        if !self.keeps.fua {
            self.fua_lost += requests.iter().filter(|request| request.fua).count() as u64;
        }
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
        if self.fua_lost > 0 {
            let writes =
                if self.fua_lost == 1 { "1 write".into() } else { format!("{} writes", self.fua_lost) };
            lost.push(format!("FUA is left out of {writes}: {} has no place for it", self.format));
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
