//! What a format of traces is: a table of what it says, and how it is recognised, read and written.

use std::io;
use std::path::{Path, PathBuf};

use ftlab_core::host::request::{RequestSource, SourceError};

use crate::input::{Input, Sink};
use crate::writer::{Extras, TraceWriter};

type MakeWriter = fn(Box<dyn Sink>, Extras) -> Result<Box<dyn TraceWriter>, String>;

/// A format of traces.
pub struct Format {
    /// What users call it: `--format <name>`.
    pub name: &'static str,
    /// Whose format it is, in a sentence.
    pub summary: &'static str,
    /// The fields of a record.
    pub columns: &'static str,
    /// The units of the fields, and what becomes of them.
    pub units: &'static str,
    /// What it leaves out: what a reader of it must not expect.
    pub cannot_say: &'static str,
    /// What may follow the name and a colon, as in `--format blkparse:Q`.
    pub argument: Option<Argument>,
    /// Extensions that decide when the content fits several formats, without a dot.
    pub extensions: &'static [&'static str],
    /// A few records, for documentation and tests; empty for binary formats.
    pub example: &'static str,
    /// What `ftlab trace head` prints of a small file, for binary formats; empty for others.
    pub head: &'static str,
    /// Whether a sample has this format. Lines whose values make no sense still count, so that they are named later.
    pub(crate) detect: fn(&Sample<'_>) -> bool,
    pub(crate) read: fn(Input) -> Result<Box<dyn RequestSource>, SourceError>,
    /// The files that are read with a file as one trace; absent where that is the file alone.
    pub(crate) files_beside: Option<FilesBeside>,
    /// Makes a writer that keeps the extras that it is asked for and has a place for; absent for formats that are only read.
    pub(crate) write: Option<MakeWriter>,
}

type FilesBeside = fn(&Path) -> io::Result<Vec<PathBuf>>;
type ReadWith = fn(Input, &str) -> Result<Box<dyn RequestSource>, SourceError>;

/// A choice in how a format is read.
pub struct Argument {
    /// What it chooses, with its values.
    pub summary: &'static str,
    /// One with which [`Format::example`] can be read.
    pub example: &'static str,
    /// Whether the format cannot be read without.
    pub required: bool,
    pub(crate) read: ReadWith,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Format").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Format {
    /// What documentation shows of it: [`Format::example`], or of a binary format [`Format::head`].
    pub fn shown(&self) -> &'static str {
        if self.example.is_empty() { self.head } else { self.example }
    }

    /// The files that are read with `path` as one trace.
    pub(crate) fn beside(&self, path: &Path) -> io::Result<Vec<PathBuf>> {
        self.files_beside.map_or(Ok(Vec::new()), |find| find(path))
    }

    /// Whether [`create`](crate::create) can write it.
    pub fn is_writable(&self) -> bool {
        self.write.is_some()
    }

    /// Read `input` with an argument, as in `NAME:ARGUMENT`.
    ///
    /// # Errors
    /// When the argument or the header makes no sense.
    pub fn reader_with(
        &self,
        input: Input,
        argument: Option<&str>,
    ) -> Result<Box<dyn RequestSource>, SourceError> {
        match (argument, &self.argument) {
            (Some(text), Some(argument)) => (argument.read)(input, text),
            _ => self.reader(input),
        }
    }

    /// Read `input`, which is taken to have this format, on the caller's thread.
    ///
    /// # Errors
    /// When its header cannot be read; what is wrong with its records is told by the source.
    pub fn reader(&self, input: Input) -> Result<Box<dyn RequestSource>, SourceError> {
        (self.read)(input)
    }
}

/// The begin of a trace, by which it is recognised.
pub(crate) struct Sample<'a> {
    /// The first bytes, as they are.
    pub(crate) bytes: &'a [u8],
    /// The complete lines among them, with a line feed after the last; at most a few hundred.
    pub(crate) lines: &'a [u8],
    /// The extension of the file, before that of its compression.
    pub(crate) extension: Option<&'a str>,
}
