//! Writing traces.

use std::io::Write;
use std::path::Path;

use ftlab_core::host::request::{Request, SourceError};

use crate::formats::{FORMATS, Format, names};
use crate::input::{self, Sink};

/// Writes a trace, as far as its format can express it.
pub trait TraceWriter: Send {
    /// Write more requests, in order.
    ///
    /// # Errors
    /// A sentence that names the request (counted from 1) and what the format cannot express, or why the file
    /// cannot be written.
    fn write(&mut self, requests: &[Request]) -> Result<(), String>;

    /// Write what is buffered and close the file. A file that is not finished is not complete.
    ///
    /// # Errors
    /// Why the file cannot be written.
    fn finish(self: Box<Self>) -> Result<(), String>;
}

/// A [`TraceWriter`] whose errors name the file.
pub struct TraceOutput {
    origin: String,
    writer: Box<dyn TraceWriter>,
}

/// Create the trace `path` in the format called `format`. The extensions `.gz`, `.bz2`, `.xz` and `.zst` compress it.
///
/// # Errors
/// When the format does not exist, cannot be written, or the file cannot be created.
pub fn create(path: &Path, format: &str) -> Result<TraceOutput, SourceError> {
    let origin = path.display().to_string();
    let failed =
        |expected: String| SourceError { origin: origin.clone(), expected, ..SourceError::default() };
    let format = Format::named(format).map_err(failed)?;
    let Some(writer) = format.write else {
        let writable: Vec<&Format> = FORMATS.iter().copied().filter(|format| format.is_writable()).collect();
        return Err(failed(format!(
            "{} is read only; traces are written as {}",
            format.name,
            names(&writable)
        )));
    };
    let sink = input::create(path).map_err(|error| failed(format!("cannot be created: {error}")))?;
    let writer = writer(sink).map_err(failed)?;
    Ok(TraceOutput { origin, writer })
}

impl TraceOutput {
    fn failed(origin: &str, expected: String) -> SourceError {
        SourceError { origin: origin.to_owned(), expected, ..SourceError::default() }
    }

    /// As [`TraceWriter::write`].
    ///
    /// # Errors
    /// See there.
    pub fn write(&mut self, requests: &[Request]) -> Result<(), SourceError> {
        self.writer.write(requests).map_err(|expected| Self::failed(&self.origin, expected))
    }

    /// As [`TraceWriter::finish`].
    ///
    /// # Errors
    /// See there.
    pub fn finish(self) -> Result<(), SourceError> {
        self.writer.finish().map_err(|expected| Self::failed(&self.origin, expected))
    }
}

/// What the format of a line cannot express: what it can.
pub(crate) struct Unwritable(pub(crate) &'static str);

type WriteLine = fn(&mut Vec<u8>, &Request) -> Result<(), Unwritable>;

/// Writes text formats line by line.
pub(crate) struct LineWriter {
    sink: Box<dyn Sink>,
    block: Vec<u8>,
    written: u64,
    line: WriteLine,
}

const BLOCK_BYTES: usize = 64 * 1024;

impl LineWriter {
    /// `header` comes first, as it is.
    pub(crate) fn new(sink: Box<dyn Sink>, header: &str, line: WriteLine) -> Self {
        Self { sink, block: header.into(), written: 0, line }
    }

    fn flush(&mut self) -> Result<(), String> {
        let written = self.sink.write_all(&self.block).map_err(|error| format!("cannot be written: {error}"));
        self.block.clear();
        written
    }
}

impl TraceWriter for LineWriter {
    fn write(&mut self, requests: &[Request]) -> Result<(), String> {
        for request in requests {
            self.written += 1;
            (self.line)(&mut self.block, request).map_err(|Unwritable(expected)| {
                format!("request {} is a {}, expected {expected}", self.written, request.op.name())
            })?;
            if self.block.len() >= BLOCK_BYTES {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), String> {
        self.flush()?;
        self.sink.finish().map_err(|error| format!("cannot be written: {error}"))
    }
}
