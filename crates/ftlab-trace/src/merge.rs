//! Several trace files as one, by time; and one as several, by volume.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ftlab_core::host::request::{Remark, Request, RequestSource, SourceError, SourceFactory};

use crate::background::Background;
use crate::failure::Failure;
use crate::input::Epoch;
use crate::open::TraceFile;
use crate::transform::{Step, transformed};
use crate::write::{TraceOutput, create_with};
use crate::writer::Extras;

/// Several traces as one, in the order of arrival; equal arrivals in the order of the files. Traces whose formats
/// count times from their first request are counted from the earliest of those of the same format.
#[derive(Debug, Clone)]
pub struct MergedTraces {
    traces: Vec<TraceFile>,
    /// Those of each trace; none for those behind the end.
    steps: Vec<Vec<Step>>,
    keep_streams: bool,
}

/// A trace whose times are counted from an epoch.
struct CountedFrom(TraceFile, Epoch);

impl SourceFactory for CountedFrom {
    fn open(&self, _pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        self.0.reader_from(self.1.clone())
    }
}

impl MergedTraces {
    /// Merge `traces`. With `keep_streams`, requests keep the numbers of their volumes, so that volumes of the same
    /// number become one. Otherwise each volume of each file gets a number of its own. Those of the first request of
    /// every file come first, in the order of the files, and then others as they appear.
    pub fn new(traces: Vec<TraceFile>, keep_streams: bool) -> Self {
        Self { traces, steps: Vec::new(), keep_streams }
    }

    /// Put `steps` between each trace and what is merged.
    #[must_use]
    pub fn with_steps(self, steps: Vec<Vec<Step>>) -> Self {
        Self { steps, ..self }
    }

    /// Read on the caller's thread.
    ///
    /// # Errors
    /// When a file can no longer be opened, or its begin is malformed.
    pub fn reader(&self) -> Result<Merge, SourceError> {
        // A clock of its own, file by file: the begin of each is read to find where it stands.
        let mut clocks: BTreeMap<&str, u64> = BTreeMap::new();
        for trace in &self.traces {
            let epoch = Epoch::default();
            trace.reader_from(epoch.clone())?.fill(&mut Vec::new(), 1)?;
            if let Some(ticks) = epoch.ticks() {
                let earliest = clocks.entry(trace.format().name).or_insert(ticks);
                *earliest = ticks.min(*earliest);
            }
        }
        let mut inputs = Vec::with_capacity(self.traces.len());
        for (index, trace) in self.traces.iter().enumerate() {
            let epoch =
                clocks.get(trace.format().name).map_or_else(Epoch::default, |ticks| Epoch::at(*ticks));
            let steps = self.steps.get(index).map_or(&[][..], Vec::as_slice);
            let source = transformed(Arc::new(CountedFrom(trace.clone(), epoch)), steps).open(0)?;
            let path = trace.path().to_owned();
            let (batch, contents) = (Vec::new(), Vec::new());
            inputs.push(MergeInput { path, source, batch, contents, next: 0, numbers: BTreeMap::new() });
        }
        let mut merge = Merge {
            inputs,
            heads: BinaryHeap::new(),
            keep_streams: self.keep_streams,
            streams: 0,
            knows_contents: false,
            contents_lost: false,
            latest_ns: 0,
            early: 0,
            failure: Failure::default(),
        };
        for index in 0..merge.inputs.len() {
            if let Some(head) = merge.inputs[index].head()? {
                merge.heads.push(Reverse((head.arrival_ns, index)));
                merge.number(index, head.stream)?;
            }
        }
        merge.knows_contents = merge.inputs.iter().all(|input| input.contents.len() == input.batch.len());
        merge.contents_lost =
            !merge.knows_contents && merge.inputs.iter().any(|input| !input.contents.is_empty());
        Ok(merge)
    }
}

impl SourceFactory for MergedTraces {
    /// Reads the files on one thread. Every pass gives the same requests.
    fn open(&self, _pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let source = self.reader()?;
        Ok(Box::new(Background::spawn("merged traces".into(), Box::new(source), Arc::default())?))
    }
}

struct MergeInput {
    path: PathBuf,
    source: Box<dyn RequestSource>,
    batch: Vec<Request>,
    /// Contents of the requests of the batch, where it has them.
    contents: Vec<u128>,
    next: usize,
    /// New numbers of its volumes.
    numbers: BTreeMap<u16, u16>,
}

impl MergeInput {
    /// Its next request, which stays.
    fn head(&mut self) -> Result<Option<Request>, SourceError> {
        const BATCH: usize = 4096;
        if self.next == self.batch.len() {
            self.batch.clear();
            self.contents.clear();
            self.next = 0;
            self.source.fill_with_contents(&mut self.batch, &mut self.contents, BATCH)?;
        }
        Ok(self.batch.get(self.next).copied())
    }
}

/// Requests of several traces in the order of arrival.
pub struct Merge {
    inputs: Vec<MergeInput>,
    /// Arrival of the next request of each trace that has one.
    heads: BinaryHeap<Reverse<(u64, usize)>>,
    keep_streams: bool,
    /// Numbers given so far.
    streams: u32,
    /// Whether all traces have contents.
    knows_contents: bool,
    /// Whether some of them have contents, and others have not.
    contents_lost: bool,
    /// The latest arrival so far, and how many requests came after a later one.
    latest_ns: u64,
    early: u64,
    failure: Failure,
}

impl Merge {
    /// File, volume in the file, and its stream here, of all volumes so far.
    pub fn streams(&self) -> Vec<(&Path, u16, u16)> {
        let numbers = self.inputs.iter().flat_map(|input| {
            input.numbers.iter().map(|(volume, stream)| (input.path.as_path(), *volume, *stream))
        });
        numbers.collect()
    }

    /// What of the traces is not among the requests so far, in sentences.
    pub fn lost(&self) -> Vec<String> {
        let contents = "the hashes of contents are left out: not all of the traces have them".to_owned();
        let order = format!(
            "the order of time is lost: {} of the requests follow a later one, as in their file; `--transform sort` puts each file in order",
            self.early
        );
        let lost = [(self.contents_lost, contents), (self.early > 0, order)];
        lost.into_iter().filter_map(|(is_lost, text)| is_lost.then_some(text)).collect()
    }

    fn number(&mut self, index: usize, volume: u16) -> Result<u16, SourceError> {
        let input = &mut self.inputs[index];
        if let Some(number) = input.numbers.get(&volume) {
            return Ok(*number);
        }
        let number = if self.keep_streams { Ok(volume) } else { u16::try_from(self.streams) };
        let number = number.map_err(|_| SourceError {
            origin: input.path.display().to_string(),
            expected: "the files have more than 65536 volumes together; keep their numbers".into(),
            ..SourceError::default()
        })?;
        input.numbers.insert(volume, number);
        self.streams += 1;
        Ok(number)
    }

    fn fill_or_fail(
        &mut self,
        out: &mut Vec<Request>,
        mut contents: Option<&mut Vec<u128>>,
        max: usize,
    ) -> Result<(), SourceError> {
        let end = out.len() + max;
        while out.len() < end {
            let Some(Reverse((_, index))) = self.heads.pop() else { return Ok(()) };
            let rival = self.heads.peek().map_or((u64::MAX, usize::MAX), |Reverse(rival)| *rival);
            // Runs of one trace leave together, without passing through the heap.
            let (mut volume, mut stream) = (None, 0);
            while let Some(head) = self.inputs[index].head()? {
                if out.len() == end || (head.arrival_ns, index) > rival {
                    self.heads.push(Reverse((head.arrival_ns, index)));
                    break;
                }
                if volume != Some(head.stream) {
                    (volume, stream) = (Some(head.stream), self.number(index, head.stream)?);
                }
                self.early += u64::from(head.arrival_ns < self.latest_ns);
                self.latest_ns = self.latest_ns.max(head.arrival_ns);
                out.push(Request { stream, ..head });
                let input = &mut self.inputs[index];
                if let Some(contents) = &mut contents {
                    contents.extend(input.contents.get(input.next));
                }
                input.next += 1;
            }
        }
        Ok(())
    }
}

impl RequestSource for Merge {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        self.failure.check()?;
        let before = out.len();
        let filled = self.fill_or_fail(out, None, max);
        self.failure.after(out.len() - before, filled)
    }

    fn fill_with_contents(
        &mut self,
        out: &mut Vec<Request>,
        contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<usize, SourceError> {
        self.failure.check()?;
        let before = out.len();
        let known = self.knows_contents.then_some(contents);
        let filled = self.fill_or_fail(out, known, max);
        self.failure.after(out.len() - before, filled)
    }

    fn total_requests(&self) -> Option<u64> {
        self.inputs.iter().map(|input| input.source.total_requests()).sum()
    }

    fn fraction_done(&self) -> Option<f64> {
        let shares: Option<f64> = self.inputs.iter().map(|input| input.source.fraction_done()).sum();
        shares.map(|sum| sum / self.inputs.len().max(1) as f64)
    }

    fn skipped_records(&self) -> u64 {
        self.inputs.iter().map(|input| input.source.skipped_records()).sum()
    }

    fn remarks(&self) -> Vec<Remark> {
        self.inputs.iter().flat_map(|input| input.source.remarks()).collect()
    }

    fn says_fua(&self) -> bool {
        self.inputs.iter().any(|input| input.source.says_fua())
    }
}

/// Files that are written at a time; volumes beyond that wait for another pass over the trace.
const OPEN_FILES: usize = 200;

struct SplitOutput {
    path: PathBuf,
    output: TraceOutput,
    batch: Vec<Request>,
    contents: Vec<u128>,
    requests: u64,
}

impl SplitOutput {
    fn write(&mut self) -> Result<(), SourceError> {
        self.output.write_with_contents(&self.batch, &self.contents)?;
        self.batch.clear();
        self.contents.clear();
        Ok(())
    }
}

/// Writes a trace as one file for each volume. Where it has more volumes than files can be open, the trace has to be
/// given again until [`Split::finish_pass`] says that nothing is missing.
pub struct Split {
    folder: PathBuf,
    stem: String,
    suffix: String,
    format: String,
    parts: BTreeMap<u16, SplitOutput>,
    done: BTreeMap<u16, (PathBuf, u64)>,
    waiting: BTreeSet<u16>,
    lost: Vec<String>,
    overwrites: bool,
    keeps_fua: bool,
}

impl Split {
    /// Files `folder/stem-VOLUME` + `suffix` in `format`; the folder is created.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn new(folder: &Path, stem: &str, suffix: &str, format: &str) -> Result<Self, SourceError> {
        std::fs::create_dir_all(folder).map_err(|error| SourceError {
            origin: folder.display().to_string(),
            expected: format!("cannot be created: {error}"),
            ..SourceError::default()
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            stem: stem.into(),
            suffix: suffix.into(),
            format: format.into(),
            parts: BTreeMap::new(),
            done: BTreeMap::new(),
            waiting: BTreeSet::new(),
            lost: Vec::new(),
            overwrites: false,
            keeps_fua: false,
        })
    }

    /// Write over files that are there. Otherwise one of them is an error.
    pub fn overwrite(&mut self) {
        self.overwrites = true;
    }

    /// Keep which writes are FUA, in formats that have a place for it. To be said before the first request.
    pub fn keep_fua(&mut self) {
        self.keeps_fua = true;
    }

    /// What the format could not hold of the files that are written, in sentences.
    pub fn lost(&self) -> &[String] {
        &self.lost
    }

    /// The next requests of the trace, with a hash of the content of each, or without any.
    ///
    /// # Errors
    /// When a file cannot be written, or its format cannot express a request.
    pub fn write(&mut self, requests: &[Request], contents: &[u128]) -> Result<(), SourceError> {
        const BATCH: usize = 1024;
        for (index, request) in requests.iter().enumerate() {
            let volume = request.stream;
            if !self.parts.contains_key(&volume) {
                if self.done.contains_key(&volume) || self.waiting.contains(&volume) {
                    continue;
                }
                if self.parts.len() == OPEN_FILES {
                    self.waiting.insert(volume);
                    continue;
                }
                let path = self.folder.join(format!("{}-{volume}{}", self.stem, self.suffix));
                if !self.overwrites && path.exists() {
                    return Err(SourceError {
                        origin: path.display().to_string(),
                        expected: "is there already: choose another folder, or write over it (--force, overwrite=True)".into(),
                        ..SourceError::default()
                    });
                }
                let extras = Extras { contents: !contents.is_empty(), fua: self.keeps_fua };
                let output = create_with(&path, &self.format, extras)?;
                let (batch, contents) = (Vec::new(), Vec::new());
                self.parts.insert(volume, SplitOutput { path, output, batch, contents, requests: 0 });
            }
            if let Some(part) = self.parts.get_mut(&volume) {
                part.batch.push(*request);
                part.contents.extend(contents.get(index));
                part.requests += 1;
                if part.batch.len() == BATCH {
                    part.write()?;
                }
            }
        }
        Ok(())
    }

    /// At the end of the trace: whether it has to be given again.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn finish_pass(&mut self) -> Result<bool, SourceError> {
        for (volume, mut part) in std::mem::take(&mut self.parts) {
            part.write()?;
            for text in part.output.finish()? {
                self.lost.push(format!("{}: {text}", part.path.display()));
            }
            self.done.insert(volume, (part.path, part.requests));
        }
        Ok(!std::mem::take(&mut self.waiting).is_empty())
    }

    /// Volume, file and number of requests, of all files that are written.
    pub fn files(&self) -> Vec<(u16, &Path, u64)> {
        let files = self.done.iter();
        files.map(|(volume, (path, requests))| (*volume, path.as_path(), *requests)).collect()
    }
}
