//! Opening trace files.

use std::path::{Path, PathBuf};

use ftlab_core::host::request::{Request, RequestSource, SourceError, SourceFactory};

use crate::background::Background;
use crate::formats::{self, Format};
use crate::input::{Compression, Input};

/// How to read a trace. The default recognises the format and takes all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Name of the format, with a colon and its argument where it takes one (`blkparse:Q`); recognised by content when
    /// absent.
    pub format: Option<String>,
    /// Take only the requests of this volume (ASU, disk or device number, which is the stream of a request).
    pub volume: Option<u16>,
}

/// A trace file, whose format is known. Each [`SourceFactory::open`] reads it from the beginning.
#[derive(Debug, Clone)]
pub struct TraceFile {
    path: PathBuf,
    format: &'static Format,
    argument: Option<String>,
    compression: Compression,
    volume: Option<u16>,
}

/// Open the trace `path` and find out its format.
///
/// # Errors
/// When the file cannot be read, or its format is unknown or ambiguous.
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<TraceFile, SourceError> {
    let path = path.as_ref();
    let input = Input::open(path)?;
    let compression = input.compression();
    let (format, argument) = match &options.format {
        Some(text) => Format::chosen(text).map_err(|expected| SourceError {
            origin: path.display().to_string(),
            expected,
            ..SourceError::default()
        })?,
        None => (formats::detect(input, extension(path))?, None),
    };
    Ok(TraceFile { path: path.to_owned(), format, argument, compression, volume: options.volume })
}

/// The extension of a trace, before that of its compression.
fn extension(path: &Path) -> Option<&str> {
    let name = Path::new(path.file_name()?);
    let inner = match Compression::of_extension(name) {
        Compression::None => name,
        _ => Path::new(name.file_stem()?),
    };
    inner.extension()?.to_str()
}

impl TraceFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its format.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// How it is compressed.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// Read it on the caller's thread.
    ///
    /// # Errors
    /// When it can no longer be opened.
    pub fn reader(&self) -> Result<Box<dyn RequestSource>, SourceError> {
        self.decode(Input::open(&self.path)?)
    }

    fn decode(&self, input: Input) -> Result<Box<dyn RequestSource>, SourceError> {
        let source = self.format.reader_with(input, self.argument.as_deref())?;
        Ok(match self.volume {
            None => source,
            Some(volume) => Box::new(Volume {
                origin: self.path.display().to_string(),
                source,
                volume,
                found: false,
                others: Vec::new(),
            }),
        })
    }
}

impl SourceFactory for TraceFile {
    /// Reads the file on a thread of its own. Every pass gives the same requests.
    fn open(&self, _pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let input = Input::open(&self.path)?;
        let (origin, progress) = (input.origin().to_owned(), input.progress());
        Ok(Box::new(Background::spawn(origin, self.decode(input)?, progress)?))
    }
}

/// The requests of one volume.
struct Volume {
    origin: String,
    source: Box<dyn RequestSource>,
    volume: u16,
    found: bool,
    /// The first few other volumes, for the message when there is nothing to read.
    others: Vec<u16>,
}

impl RequestSource for Volume {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        const NAMED: usize = 16;
        let before = out.len();
        while max > 0 && out.len() == before {
            let count = self.source.fill(out, max)?;
            if count == 0 {
                break;
            }
            let mut kept = before;
            for index in before..out.len() {
                let request = out[index];
                if request.stream == self.volume {
                    out[kept] = request;
                    kept += 1;
                } else if self.others.len() < NAMED && !self.others.contains(&request.stream) {
                    self.others.push(request.stream);
                }
            }
            out.truncate(kept);
        }
        self.found |= out.len() > before;
        if max > 0 && !self.found {
            let others = self.others.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            let more = if self.others.len() == NAMED { ", ..." } else { "" };
            return Err(SourceError {
                origin: self.origin.clone(),
                expected: format!("has no request on volume {}; there are {others}{more}", self.volume),
                ..SourceError::default()
            });
        }
        Ok(out.len() - before)
    }

    fn fraction_done(&self) -> Option<f64> {
        self.source.fraction_done()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_before_compression_counts() {
        assert_eq!(extension(Path::new("a/b.mqsim.zst")), Some("mqsim"));
        assert_eq!(extension(Path::new("b.disksim")), Some("disksim"));
        assert_eq!(extension(Path::new("b.gz")), None);
        assert_eq!(extension(Path::new("b")), None);
    }
}
