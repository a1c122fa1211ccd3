//! Opening trace files.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use ftlab_core::host::request::{Remark, RequestSource, SourceError, SourceFactory};

use crate::background::Background;
use crate::format::Format;
use crate::formats;
use crate::input::{Compression, Epoch, Input};
use crate::remarked::Remarked;
use crate::volumes::{Concat, Regions, Selected, VolumeLayout};

/// How to read a trace. The default recognises the format and takes all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Name of the format, with a colon and its argument where it takes one (`blkparse:Q`); recognised by content when
    /// absent.
    pub format: Option<String>,
    /// Take only the requests of these volumes (ASU, disk or device numbers, which are the streams of requests); of
    /// all when empty.
    pub volumes: Vec<u16>,
    /// Where volumes lie in one address space.
    pub layout: VolumeLayout,
    /// Bad records to leave out; the next one is an error.
    pub skip_bad: u64,
}

/// A trace file, whose format is known. Each [`SourceFactory::open`] reads it from the beginning.
#[derive(Debug, Clone)]
pub struct TraceFile {
    path: PathBuf,
    format: &'static Format,
    argument: Option<String>,
    compression: Compression,
    options: OpenOptions,
    /// What there is to say of how the format was recognised.
    remark: Option<Remark>,
    /// Found by the first pass that needs them.
    regions: Arc<OnceLock<Regions>>,
}

/// Open the trace `path` and find out its format.
///
/// # Errors
/// When the file cannot be read, or its format is unknown or ambiguous.
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<TraceFile, SourceError> {
    let path = path.as_ref();
    let input = Input::open(path)?;
    let compression = input.compression();
    let (format, argument, remark) = if let Some(text) = &options.format {
        let (format, argument) = Format::chosen(text).map_err(|expected| SourceError {
            origin: path.display().to_string(),
            expected,
            ..SourceError::default()
        })?;
        // Whoever names a format has said what its numbers are.
        (format, argument, None)
    } else {
        let (format, remark) = formats::detect(input, extension(path))?;
        (format, None, remark)
    };
    Ok(TraceFile {
        path: path.to_owned(),
        format,
        argument,
        compression,
        options: options.clone(),
        remark,
        regions: Arc::default(),
    })
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

/// A trace that is read on the thread that asks for its requests, with their contents where it has them.
#[derive(Debug, Clone)]
pub struct InLine(pub TraceFile);

impl SourceFactory for InLine {
    fn open(&self, _pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        self.0.reader()
    }
}

impl TraceFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All files that are read: besides its own, those of the other CPUs of a blktrace recording.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn files(&self) -> Result<Vec<PathBuf>, SourceError> {
        let mut files = vec![self.path.clone()];
        let beside = self.format.beside(&self.path).map_err(|error| SourceError {
            origin: self.path.display().to_string(),
            expected: format!("the files that belong to it: {error}"),
            ..SourceError::default()
        })?;
        files.extend(beside);
        files.sort();
        Ok(files)
    }

    /// Its format.
    pub fn format(&self) -> &'static Format {
        self.format
    }

    /// What there is to say of how its format was recognised; its sources say it too.
    pub fn remark(&self) -> Option<&Remark> {
        self.remark.as_ref()
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
        self.reader_from(Epoch::default())
    }

    /// Read it on the caller's thread, with times counted from `epoch` where its format has a clock of its own.
    pub(crate) fn reader_from(&self, epoch: Epoch) -> Result<Box<dyn RequestSource>, SourceError> {
        self.decode(Input::open(&self.path)?.counted_from(epoch))
    }

    fn decode(&self, input: Input) -> Result<Box<dyn RequestSource>, SourceError> {
        let source = self.selected(input)?;
        let VolumeLayout::Concat { volume_bytes } = self.options.layout else { return Ok(source) };
        let origin = self.path.display().to_string();
        let regions = match (self.regions.get(), volume_bytes) {
            (Some(regions), _) => regions.clone(),
            (None, Some(bytes)) => Regions::of_size(&origin, bytes, &self.options.volumes)?,
            (None, None) => {
                let regions = Regions::measured(&origin, &mut *self.selected(Input::open(&self.path)?)?)?;
                self.regions.get_or_init(|| regions).clone()
            }
        };
        Ok(Box::new(Concat::new(origin, source, regions)))
    }

    fn selected(&self, input: Input) -> Result<Box<dyn RequestSource>, SourceError> {
        let input = input.skipping(self.options.skip_bad);
        let mut source = self.format.reader_with(input, self.argument.as_deref())?;
        if let Some(remark) = &self.remark {
            source = Box::new(Remarked { source, remark: remark.clone() });
        }
        if self.options.volumes.is_empty() {
            return Ok(source);
        }
        let origin = self.path.display().to_string();
        Ok(Box::new(Selected::new(origin, source, &self.options.volumes)))
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
