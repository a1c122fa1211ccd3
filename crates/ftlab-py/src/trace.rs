//! Trace files: what they are, what is in them, and conversion.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ftlab_core::host::request::{Remark, Request, RequestSource, SourceFactory};
use ftlab_core::host::warnings::Times;
use ftlab_core::quantity::parse_bytes;
use ftlab_trace::transform::{Step, transformed};
use ftlab_trace::{
    Extras, FORMATS, InLine, MergedTraces, OpenOptions, Split, TraceFile, TraceOutput, VolumeLayout,
    create_with, open,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::beside::Interruption;
use crate::errors;
use crate::source::steps;

/// Requests between two looks at signals: some milliseconds of decoding.
const BATCH: usize = 1 << 16;

/// A size in bytes, as a number or a string with a unit.
#[derive(FromPyObject)]
pub(crate) enum Size {
    Number(u64),
    Text(String),
}

impl Size {
    pub(crate) fn bytes(self) -> Result<u64, String> {
        match self {
            Size::Number(bytes) => Ok(bytes),
            Size::Text(text) => parse_bytes(&text),
        }
    }
}

/// How a trace is read, and the steps that its requests then go through.
#[pyclass(frozen, module = "ftlab._native")]
#[derive(Clone, Default)]
pub(crate) struct ReadOptions {
    open: OpenOptions,
    steps: Vec<Step>,
}

#[pymethods]
impl ReadOptions {
    /// `format` is recognised by content when `None`. `volume` lists the volumes to take, all when empty. `volumes` says
    /// where they lie, "overlay" or "concat", and `volume_bytes` how large the region of each is. `skip_bad` bad records
    /// are left out. `transform` has the steps of a pipeline.
    #[staticmethod]
    #[pyo3(signature = (format = None, volume = Vec::new(), volumes = "overlay", volume_bytes = None, skip_bad = 0, transform = Vec::new()))]
    fn of(
        format: Option<String>,
        volume: Vec<u16>,
        volumes: &str,
        volume_bytes: Option<Size>,
        skip_bad: u64,
        transform: Vec<String>,
    ) -> PyResult<Self> {
        let refused = |text: String| Err(errors::InputError::new_err(text));
        let volume_bytes = match volume_bytes.map(Size::bytes).transpose() {
            Ok(bytes) => bytes,
            Err(error) => return refused(format!("volume_bytes: {error}")),
        };
        let layout = match (volumes, volume_bytes) {
            ("overlay", None) => VolumeLayout::Overlay,
            ("overlay", Some(_)) => {
                return refused("volume_bytes belongs to volumes = \"concat\"; leave it out".into());
            }
            ("concat", Some(bytes)) if bytes == 0 || bytes % 512 != 0 => {
                return refused(format!("volume_bytes = {bytes}: must be above 0 and a multiple of 512"));
            }
            ("concat", volume_bytes) => VolumeLayout::Concat { volume_bytes },
            _ => return refused(format!("volumes = {volumes:?}, expected \"overlay\" or \"concat\"")),
        };
        let open = OpenOptions { format, volumes: volume, layout, skip_bad };
        Ok(Self { open, steps: steps(&transform)? })
    }
}

/// Open a trace.
pub(crate) fn opened(py: Python<'_>, path: PathBuf, reading: Option<&ReadOptions>) -> PyResult<TraceFile> {
    let options = reading.map(|reading| reading.open.clone()).unwrap_or_default();
    py.detach(|| open(path, &options)).map_err(|error| errors::input(&error))
}

/// The requests of a trace after the steps that `reading` names, on a thread of their own.
pub(crate) fn transformed_trace(trace: TraceFile, reading: Option<&ReadOptions>) -> Arc<dyn SourceFactory> {
    match reading {
        Some(reading) if !reading.steps.is_empty() => transformed(Arc::new(trace), &reading.steps),
        _ => Arc::new(trace),
    }
}

/// The same, read on the caller's thread.
fn in_line(trace: TraceFile, reading: Option<&ReadOptions>) -> Arc<dyn SourceFactory> {
    transformed(Arc::new(InLine(trace)), reading.map_or(&[], |reading| &reading.steps))
}

/// Write all requests of `reader`, or `limit` of them, with their contents and FUA where they are known. Returns how many,
/// and what the format could not hold.
pub(crate) fn write_all(
    interruption: &Interruption<'_>,
    reader: &mut dyn RequestSource,
    target: &Path,
    target_format: &str,
    origin: &str,
    limit: usize,
    progress: Option<&Py<PyAny>>,
) -> PyResult<(usize, Vec<String>)> {
    let made = |extras: Extras| -> PyResult<TraceOutput> {
        let mut output = create_with(target, target_format, extras).map_err(|error| errors::input(&error))?;
        output.note_origin(origin);
        Ok(output)
    };
    let mut output = None;
    let count = each_batch_with_extras(interruption, reader, progress, limit, |requests, contents, fua| {
        if output.is_none() {
            // Only the requests show whether their contents are known.
            output = Some(made(Extras { contents: !contents.is_empty(), fua })?);
        }
        let written = output.as_mut().map_or(Ok(()), |output| output.write_with_contents(requests, contents));
        written.map_err(|error| errors::input(&error))
    })?;
    let output = output.map_or_else(|| made(Extras::default()), Ok)?;
    let lost = output.finish().map_err(|error| errors::input(&error))?;
    Ok((count, lost))
}

/// The trace formats: dictionaries with `name`, `summary`, `columns`, `units`, `cannot_say`, `argument` (`summary`,
/// `example` and `required`, or `None`), `writable` and `example`: of binary formats what `ftlab trace head` prints.
#[pyfunction]
pub(crate) fn formats(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let describe = |format: &&'static ftlab_trace::Format| {
        let dict = PyDict::new(py);
        dict.set_item("name", format.name)?;
        dict.set_item("summary", format.summary)?;
        dict.set_item("columns", format.columns)?;
        dict.set_item("units", format.units)?;
        dict.set_item("cannot_say", format.cannot_say)?;
        let argument = format.argument.as_ref().map(|argument| {
            let dict = PyDict::new(py);
            dict.set_item("summary", argument.summary)?;
            dict.set_item("example", argument.example)?;
            dict.set_item("required", argument.required)?;
            Ok::<_, PyErr>(dict)
        });
        dict.set_item("argument", argument.transpose()?)?;
        dict.set_item("writable", format.is_writable())?;
        dict.set_item("example", format.shown())?;
        Ok(dict)
    };
    FORMATS.iter().map(describe).collect()
}

/// The format and the compression of a trace file, by name, and what there is to say of how the format was recognised.
#[pyfunction]
#[pyo3(signature = (path, format = None))]
pub(crate) fn trace_info(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
) -> PyResult<(&'static str, String, Sentences)> {
    let open = OpenOptions { format, ..OpenOptions::default() };
    let trace = opened(py, path, Some(&ReadOptions { open, steps: Vec::new() }))?;
    let said = sentences(trace.remark().cloned().into_iter().collect());
    Ok((trace.format().name, format!("{:?}", trace.compression()).to_lowercase(), said))
}

/// Sentences for whoever reads the numbers.
pub(crate) type Sentences = Vec<String>;

/// What a source says of its input, each in a sentence with what to do about it.
pub(crate) fn remarks(source: &dyn RequestSource) -> Sentences {
    sentences(source.remarks())
}

fn sentences(remarks: Vec<Remark>) -> Sentences {
    let told = |Remark { code, text, advice, .. }| match code {
        Some(_) => format!("warning: {text}; {advice}"),
        None => text,
    };
    remarks.into_iter().map(told).collect()
}

/// What a source says of its input, and what its times tell.
fn remarks_with(source: &dyn RequestSource, times: Times) -> Sentences {
    let mut all = source.remarks();
    all.extend(times.remarks());
    sentences(all)
}

/// A volume: its number, what the trace calls it, and how many requests it has.
pub(crate) type Volume = (u16, String, u64);

/// The volumes of a trace, which is read to its end.
/// With it the number of bad records that were left out, at most `skip_bad`, and what there is to say of the trace.
/// `progress` as for `trace_convert`.
#[pyfunction]
#[pyo3(signature = (path, format = None, skip_bad = 0, progress = None))]
pub(crate) fn trace_volumes(
    py: Python<'_>,
    path: PathBuf,
    format: Option<String>,
    skip_bad: u64,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<Volume>, u64, Sentences)> {
    let open = OpenOptions { format, skip_bad, ..OpenOptions::default() };
    let trace = opened(py, path, Some(&ReadOptions { open, steps: Vec::new() }))?;
    let interruption = Interruption::new(py);
    let mut reader = interruption.watch(|| trace.reader().map_err(|error| errors::input(&error)))?;
    let mut counts: BTreeMap<u16, u64> = BTreeMap::new();
    let mut times = Times::default();
    each_batch(&interruption, reader.as_mut(), progress.as_ref(), usize::MAX, |requests| {
        times.see(requests);
        for run in requests.chunk_by(|one, other| one.stream == other.stream) {
            *counts.entry(run[0].stream).or_default() += run.len() as u64;
        }
        Ok(())
    })?;
    let names: BTreeMap<u16, String> = reader.stream_names().into_iter().collect();
    let named = |(number, count): (u16, u64)| {
        let name = names.get(&number).cloned().unwrap_or_else(|| number.to_string());
        (number, name, count)
    };
    let said = remarks_with(reader.as_ref(), times);
    Ok((counts.into_iter().map(named).collect(), reader.skipped_records(), said))
}

/// The files that are read as one trace, in order of name.
#[pyfunction]
#[pyo3(signature = (path, format = None))]
pub(crate) fn trace_files(py: Python<'_>, path: PathBuf, format: Option<String>) -> PyResult<Vec<PathBuf>> {
    let open = OpenOptions { format, ..OpenOptions::default() };
    let trace = opened(py, path, Some(&ReadOptions { open, steps: Vec::new() }))?;
    trace.files().map_err(|error| errors::input(&error))
}

type Row = (u64, &'static str, u64, u32, u16, bool);

/// The first requests of something: tuples of `arrival_ns`, `op`, `lba`, `sectors`, `stream` and `fua`. With them the number of
/// bad records that were left out, and what there is to say of it as far as it was read.
pub(crate) type Head = (Vec<Row>, u64, Sentences);

/// The first `count` requests of `factory`.
pub(crate) fn head(py: Python<'_>, factory: &dyn SourceFactory, count: usize) -> PyResult<Head> {
    let interruption = Interruption::new(py);
    let mut reader = interruption.watch(|| factory.open(0).map_err(|error| errors::input(&error)))?;
    let mut rows = Vec::new();
    let mut times = Times::default();
    each_batch(&interruption, reader.as_mut(), None, count, |requests| {
        times.see(requests);
        rows.extend(requests.iter().map(|r| (r.arrival_ns, r.op.name(), r.lba, r.sectors, r.stream, r.fua)));
        Ok(())
    })?;
    Ok((rows, reader.skipped_records(), remarks_with(reader.as_ref(), times)))
}

/// The first `count` requests of a trace.
#[pyfunction]
#[pyo3(signature = (path, count, reading = None))]
pub(crate) fn trace_head(
    py: Python<'_>,
    path: PathBuf,
    count: usize,
    reading: Option<&ReadOptions>,
) -> PyResult<Head> {
    let trace = in_line(opened(py, path, reading)?, reading);
    head(py, &*trace, count)
}

/// What became of requests that were written: their number, and that of bad records which were left out. Then come
/// sentences: what the format could not hold, and what there is to say of where they come from.
pub(crate) type Written = (usize, u64, Sentences, Sentences);

/// Write a trace in another format; extensions such as `.gz` and `.zst` compress it.
///
/// `progress` is called with the fraction done, or `None`, and the number of requests.
#[pyfunction]
#[pyo3(signature = (path, target, target_format, *, reading = None, requests = None, progress = None))]
pub(crate) fn trace_convert(
    py: Python<'_>,
    path: PathBuf,
    target: PathBuf,
    target_format: &str,
    reading: Option<&ReadOptions>,
    requests: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Written> {
    let trace = opened(py, path, reading)?;
    let origin = file_name(trace.path());
    let interruption = Interruption::new(py);
    let trace = in_line(trace, reading);
    let mut reader = interruption.watch(|| trace.open(0).map_err(|error| errors::input(&error)))?;
    let limit = requests.unwrap_or(usize::MAX);
    let (count, lost) =
        write_all(&interruption, reader.as_mut(), &target, target_format, &origin, limit, progress.as_ref())?;
    Ok((count, reader.skipped_records(), lost, remarks(reader.as_ref())))
}

/// A volume of a file, and the stream that it became.
type Stream = (PathBuf, u16, u16);

/// A volume, its file, and how many requests it has.
type Part = (u16, PathBuf, u64);

/// The name of a file without its folder, which is nobody else's business.
fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Write several traces as one, by time. Returns the number of requests, that of bad records which were left out, and
/// the volumes (file, number there, number in the target). Then come sentences: what the format could not hold, and what
/// there is to say of the traces. `progress` as for `trace_convert`.
#[pyfunction]
#[pyo3(signature = (traces, target, target_format, *, keep_streams = false, progress = None))]
pub(crate) fn trace_merge(
    py: Python<'_>,
    traces: Vec<(PathBuf, Option<PyRef<'_, ReadOptions>>)>,
    target: PathBuf,
    target_format: &str,
    keep_streams: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(usize, u64, Vec<Stream>, Sentences, Sentences)> {
    let steps = traces.iter().map(|(_, reading)| reading.as_ref().map_or(Vec::new(), |r| r.steps.clone()));
    let steps = steps.collect();
    let traces = traces.into_iter().map(|(path, reading)| opened(py, path, reading.as_deref()));
    let traces = traces.collect::<PyResult<Vec<TraceFile>>>()?;
    let origins: Vec<String> = traces.iter().map(|trace| file_name(trace.path())).collect();
    let merged = MergedTraces::new(traces, keep_streams).with_steps(steps);
    let interruption = Interruption::new(py);
    let mut reader = interruption.watch(|| merged.reader().map_err(|error| errors::input(&error)))?;
    let origin = origins.join(", ");
    let (count, mut lost) = write_all(
        &interruption,
        &mut reader,
        &target,
        target_format,
        &origin,
        usize::MAX,
        progress.as_ref(),
    )?;
    lost.extend(reader.lost());
    let streams = reader.streams().into_iter();
    let streams = streams.map(|(path, volume, stream)| (path.to_owned(), volume, stream)).collect();
    Ok((count, reader.skipped_records(), streams, lost, remarks(&reader)))
}

/// Write a trace as one file for each volume, `folder/stem-VOLUME` and `suffix`. Returns volume, file and number of
/// requests of each, and the number of bad records that were left out. Then come sentences: what the format could not hold,
/// and what there is to say of the trace. Files that are there are an error unless `overwrite`. `progress` as for `trace_convert`.
#[pyfunction]
#[pyo3(signature = (path, folder, stem, suffix, target_format, *, reading = None, overwrite = false, progress = None))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub(crate) fn trace_split(
    py: Python<'_>,
    path: PathBuf,
    folder: PathBuf,
    stem: &str,
    suffix: &str,
    target_format: &str,
    reading: Option<&ReadOptions>,
    overwrite: bool,
    progress: Option<Py<PyAny>>,
) -> PyResult<(Vec<Part>, u64, Sentences, Sentences)> {
    let trace = in_line(opened(py, path, reading)?, reading);
    let mut split =
        Split::new(&folder, stem, suffix, target_format).map_err(|error| errors::input(&error))?;
    if overwrite {
        split.overwrite();
    }
    let interruption = Interruption::new(py);
    loop {
        let mut reader = interruption.watch(|| trace.open(0).map_err(|error| errors::input(&error)))?;
        each_batch_with_extras(
            &interruption,
            reader.as_mut(),
            progress.as_ref(),
            usize::MAX,
            |requests, contents, fua| {
                if fua {
                    split.keep_fua();
                }
                split.write(requests, contents).map_err(|error| errors::input(&error))
            },
        )?;
        if !split.finish_pass().map_err(|error| errors::input(&error))? {
            let files = split.files().into_iter();
            let files = files.map(|(volume, path, requests)| (volume, path.to_owned(), requests)).collect();
            let said = remarks(reader.as_ref());
            return Ok((files, reader.skipped_records(), split.lost().to_vec(), said));
        }
    }
}

/// Read a source that was opened under `interruption` to its end, or `limit` requests of it, looking after progress between
/// batches.
pub(crate) fn each_batch(
    interruption: &Interruption<'_>,
    source: &mut dyn RequestSource,
    progress: Option<&Py<PyAny>>,
    limit: usize,
    mut take: impl FnMut(&[Request]) -> PyResult<()> + Send,
) -> PyResult<usize> {
    each_batch_by(interruption, source, progress, limit, |source, batch, max| {
        let filled = source.fill(batch, max).map_err(|error| errors::input(&error))?;
        take(batch)?;
        Ok(filled)
    })
}

/// The same, with the contents of the requests, or without any where they are not known, and whether it is known which of
/// them are FUA.
fn each_batch_with_extras(
    interruption: &Interruption<'_>,
    source: &mut dyn RequestSource,
    progress: Option<&Py<PyAny>>,
    limit: usize,
    mut take: impl FnMut(&[Request], &[u128], bool) -> PyResult<()> + Send,
) -> PyResult<usize> {
    let mut contents = Vec::new();
    each_batch_by(interruption, source, progress, limit, |source, batch, max| {
        contents.clear();
        let filled = source.fill_with_contents(batch, &mut contents, max);
        let filled = filled.map_err(|error| errors::input(&error))?;
        take(batch, &contents, source.says_fua())?;
        Ok(filled)
    })
}

/// The same, where `step` fills each batch and takes it.
fn each_batch_by(
    interruption: &Interruption<'_>,
    source: &mut dyn RequestSource,
    progress: Option<&Py<PyAny>>,
    limit: usize,
    mut step: impl FnMut(&mut dyn RequestSource, &mut Vec<Request>, usize) -> PyResult<usize> + Send,
) -> PyResult<usize> {
    let mut batch = Vec::new();
    let mut count = 0;
    while count < limit {
        batch.clear();
        let filled = interruption.watch(|| step(&mut *source, &mut batch, BATCH.min(limit - count)))?;
        if filled == 0 {
            break;
        }
        count += filled;
        interruption.py.check_signals()?;
        if let Some(progress) = progress {
            progress.call1(interruption.py, (source.fraction_done(), count))?;
        }
    }
    Ok(count)
}
