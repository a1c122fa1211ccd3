//! Binary traces of Linux' block layer: what blktrace writes.

use std::path::{Path, PathBuf};

use ftlab_core::host::request::{Op, Remark, Request, RequestSource, SourceError};

use super::blkparse::{ARGUMENT, LETTERS};
use crate::events::EventCounts;
use crate::failure::Failure;
use crate::format::{Argument, Format, Sample};
use crate::input::{BadRecords, Compression, Epoch, Input};
use crate::records::{BadRecord, Record, RecordParser, RecordReader, le16, le32, le64, sectors_from};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "blktrace",
    summary: "Linux blktrace: the files DEVICE.blktrace.CPU, merged by time, or the output of blkparse -d; binary",
    columns: "48 bytes: magic and version u32, sequence u32, time u64, sector u64, bytes u32, action u32, pid u32, device \
              u32, cpu u32, error u16, length u16 of the data behind the record; of either byte order",
    units: "time in nanoseconds, counted from the first event of all files; sectors of 512 bytes; of the \
            events of a request one is taken: D, its dispatch to the driver, which is what the drive sees; reads, \
            writes, discards (trims) and flushes; a write with the FUA bit is FUA, one with the flush bit is a flush and \
            then the write; other events and pass-through commands are left out; devices become \
            streams in the order of their first request; any one of the files of a device stands for all that lie beside it",
    cannot_say: "response times: completions are there but not used",
    argument: Some(Argument { summary: ARGUMENT, example: "Q", required: false, read: read_action }),
    extensions: &["blktrace"],
    example: "",
    head: include_str!("examples/blktrace.txt"),
    detect: |sample: &Sample<'_>| Order::of(sample.bytes).is_some(),
    read: |input| read(input, DISPATCH),
    files_beside: Some(siblings),
    write: None,
};

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const RECORD_BYTES: usize = 48;

/// Categories are in the upper half of an action.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const PASS_THROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;
/// What happened is in its lowest byte; the bit above says that the data begin with a control group.
const DISPATCH: u8 = 7;
/// Events that a request has at most once, by the letter that blkparse prints.
const ACTIONS: [(&str, u8); 5] = [("D", DISPATCH), ("Q", 1), ("G", 4), ("I", 12), ("C", 8)];

/// The byte order of the machine that was traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    /// The order of the record at the begin of `bytes`; nothing when there is none.
    fn of(bytes: &[u8]) -> Option<Order> {
        match bytes {
            [_, 0x74, 0x61, 0x65, ..] => Some(Order::Little),
            [0x65, 0x61, 0x74, _, ..] => Some(Order::Big),
            _ => None,
        }
    }

    #[inline(always)]
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let value = le16(bytes, at);
        if self == Order::Little { value } else { value.swap_bytes() }
    }

    #[inline(always)]
    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let value = le32(bytes, at);
        if self == Order::Little { value } else { value.swap_bytes() }
    }

    #[inline(always)]
    fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let value = le64(bytes, at);
        if self == Order::Little { value } else { value.swap_bytes() }
    }
}

/// An event that is taken; its time is that of the machine.
#[derive(Debug, Clone, Copy)]
struct Taken {
    device: u32,
    /// A write that is to be flushed ahead of.
    preflush: bool,
    request: Request,
}

struct Events {
    /// Which of them are requests.
    action: u8,
    order: Option<Order>,
    /// Earliest time of the events up to the first that was taken.
    earliest: Option<u64>,
    any_taken: bool,
    events: u64,
    /// What there was of [`ACTIONS`].
    counts: EventCounts<5>,
}

impl Events {
    fn taking(action: u8) -> Self {
        let counts = EventCounts::new(LETTERS);
        Self { action, order: None, earliest: None, any_taken: false, events: 0, counts }
    }
}

impl RecordParser for Events {
    type Item = Taken;
    const NAME: &'static str = "event";

    fn parse(&mut self, bytes: &[u8]) -> Result<Record<Taken>, BadRecord> {
        if bytes.len() < RECORD_BYTES {
            return Ok(Record::Incomplete);
        }
        let found = || format!("{:02x?}", &bytes[..4]);
        let Some(order) = Order::of(bytes).filter(|order| self.order.is_none_or(|known| known == *order))
        else {
            return Err(BadRecord::new(None, found(), "the mark of an event, 65 61 74 07 or its reverse"));
        };
        let version = order.u32(bytes, 0) - MAGIC;
        if version != VERSION {
            let expected = format!("an event of version {VERSION}");
            return Err(BadRecord::new(None, format!("version {version}"), expected));
        }
        self.order = Some(order);
        let data = usize::from(order.u16(bytes, 46));
        let length = RECORD_BYTES + data;
        // A damaged length would swallow the events behind, or end among them.
        let another = |at: usize| bytes.get(at..at + 4).map(|mark| order.u32(mark, 0) == MAGIC | VERSION);
        if data > 0 && (another(RECORD_BYTES) == Some(true) || another(length) == Some(false)) {
            let whole = (another(RECORD_BYTES) == Some(true)).then_some(RECORD_BYTES);
            let found = format!("{data} bytes of data");
            return Err(BadRecord::new(whole, found, "data up to the mark of the next event"));
        }
        if bytes.len() < length {
            return Ok(Record::Incomplete);
        }
        let (time, action) = (order.u64(bytes, 8), order.u32(bytes, 28));
        if action & NOTIFY != 0 {
            return Ok(Record::Other(length));
        }
        self.events += 1;
        if !self.any_taken {
            self.earliest = Some(self.earliest.map_or(time, |earliest| earliest.min(time)));
        }
        let size = order.u32(bytes, 24);
        if action & PASS_THROUGH == 0
            && let Some(place) = ACTIONS.iter().position(|(_, known)| *known == action as u8)
        {
            self.counts.add(place, u64::from(size / 512));
        }
        if action as u8 != self.action || action & PASS_THROUGH != 0 {
            return Ok(Record::Other(length));
        }
        let op = match (action & DISCARD != 0, action & WRITE != 0, action & READ != 0) {
            _ if size == 0 && action & FLUSH != 0 => Op::Flush,
            _ if size == 0 => return Ok(Record::Other(length)),
            (true, _, _) => Op::Trim,
            (_, true, _) => Op::Write,
            (_, _, true) => Op::Read,
            _ => return Ok(Record::Other(length)),
        };
        let (lba, sectors) = match op {
            Op::Flush => (0, 0),
            _ => sectors_from(order.u64(bytes, 16), size.into(), length)?,
        };
        self.any_taken = true;
        let fua = op == Op::Write && action & FUA != 0;
        let preflush = op == Op::Write && action & FLUSH != 0;
        let request = Request { arrival_ns: time, lba, sectors, op, stream: 0, fua };
        Ok(Record::Request(length, Taken { device: order.u32(bytes, 36), preflush, request }))
    }

    fn resume(&self, bytes: &[u8]) -> Option<usize> {
        (1..bytes.len()).find(|at| {
            Order::of(&bytes[*at..]).is_some_and(|order| {
                let whole = bytes.len() >= at + 4 && order.u32(bytes, *at) == MAGIC | VERSION;
                whole && self.order.is_none_or(|known| known == order)
            })
        })
    }
}

/// `DEVICE.blktrace.CPU[.gz]` without the number, and the number.
fn per_cpu(path: &Path) -> Option<(&str, u32)> {
    let name = path.file_name()?.to_str()?;
    let inner = match Compression::of_extension(path) {
        Compression::None => name,
        _ => name.rsplit_once('.')?.0,
    };
    let (stem, cpu) = inner.rsplit_once('.')?;
    stem.ends_with(".blktrace").then_some(())?;
    Some((stem, cpu.parse().ok()?))
}

/// The other files of the trace that `path` belongs to, by CPU. Two files of a CPU are an error: one of them is a copy.
pub(crate) fn siblings(path: &Path) -> Result<Vec<PathBuf>, std::io::Error> {
    let Some((stem, own)) = per_cpu(path) else { return Ok(Vec::new()) };
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files = vec![(own, folder.join(path.file_name().unwrap_or_default()))];
    for entry in std::fs::read_dir(folder)? {
        let other = entry?.path();
        // An idle CPU leaves an empty file.
        let filled = std::fs::metadata(&other).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
        match per_cpu(&other) {
            Some((other_stem, cpu)) if other_stem == stem && filled && other != files[0].1 => {
                files.push((cpu, other));
            }
            _ => {}
        }
    }
    files.sort();
    if let Some([(cpu, one), (_, other)]) = files.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let (one, other) = (one.display(), other.display());
        return Err(std::io::Error::other(format!("{one} and {other} are both of CPU {cpu}: move one away")));
    }
    Ok(files.into_iter().filter(|(cpu, _)| *cpu != own).map(|(_, path)| path).collect())
}

fn read_action(input: Input, text: &str) -> Result<Box<dyn RequestSource>, SourceError> {
    match ACTIONS.iter().find(|(letter, _)| *letter == text) {
        Some((_, action)) => read(input, *action),
        None => Err(SourceError {
            origin: input.origin().to_owned(),
            found: text.to_owned(),
            expected: "an action to take: D, Q, G, I or C (--format blktrace:ACTION)".into(),
            ..SourceError::default()
        }),
    }
}

fn read(input: Input, action: u8) -> Result<Box<dyn RequestSource>, SourceError> {
    let failed = |expected: String| SourceError {
        origin: input.origin().to_owned(),
        expected,
        ..SourceError::default()
    };
    let others = input
        .path()
        .map_or(Ok(Vec::new()), siblings)
        .map_err(|error| failed(format!("the files of the other CPUs: {error}")))?;
    let mut inputs = Vec::with_capacity(others.len() + 1);
    for other in others {
        let path = input.path().unwrap_or(&other).with_file_name(other.file_name().unwrap_or_default());
        inputs.push(Input::open(&path)?.of_one_trace_with(&input));
    }
    let (origin, bad, epoch) = (input.origin().to_owned(), input.bad_records(), input.epoch());
    inputs.push(input);
    // Whichever file was named, equal times leave in the order of CPUs.
    inputs.sort_by_key(|input| input.path().and_then(per_cpu).map(|(_, cpu)| cpu));
    let files = inputs
        .into_iter()
        .map(|input| File { reader: RecordReader::new(input, Events::taking(action)), head: None });
    Ok(Box::new(Merged {
        origin,
        bad,
        epoch,
        action,
        files: files.collect(),
        devices: Vec::new(),
        started: false,
        behind: None,
        broken: None,
        failure: Failure::default(),
    }))
}

/// The events of one CPU.
struct File {
    reader: RecordReader<Events>,
    head: Option<Taken>,
}

/// The events of all CPUs.
struct Merged {
    origin: String,
    bad: BadRecords,
    epoch: Epoch,
    action: u8,
    files: Vec<File>,
    /// Devices by stream.
    devices: Vec<u32>,
    started: bool,
    /// The write of an event that also flushes.
    behind: Option<Request>,
    broken: Option<SourceError>,
    failure: Failure,
}

impl Merged {
    fn error(&self, expected: String) -> SourceError {
        SourceError { origin: self.origin.clone(), expected, ..SourceError::default() }
    }

    /// What there was of all actions in all files, and the number of the one that is taken.
    fn counted(&self) -> (EventCounts<5>, Option<usize>) {
        let mut counts = EventCounts::new(LETTERS);
        for file in &self.files {
            counts.add_all(&file.reader.parser().counts);
        }
        (counts, ACTIONS.iter().position(|(_, action)| *action == self.action))
    }

    fn start(&mut self) -> Result<(), SourceError> {
        self.started = true;
        for file in &mut self.files {
            file.head = file.reader.next_item()?;
        }
        if self.files.iter().all(|file| file.head.is_none()) {
            let (counts, read) = self.counted();
            if let Some(known) = read.and_then(|read| counts.nothing_found(read, FORMAT.name)) {
                return Err(self.error(known));
            }
            let events: u64 = self.files.iter().map(|file| file.reader.parser().events).sum();
            let letter =
                ACTIONS.iter().find(|(_, action)| *action == self.action).map_or("?", |found| found.0);
            return Err(self.error(format!(
                "found no {letter} of a read, write, discard or flush among {events} events"
            )));
        }
        if let Some(earliest) = self.files.iter().filter_map(|file| file.reader.parser().earliest).min() {
            self.epoch.since(earliest, 1);
        }
        Ok(())
    }

    fn stream_of(&mut self, device: u32) -> Result<u16, SourceError> {
        let known = self.devices.iter().position(|known| *known == device);
        let index = known.unwrap_or(self.devices.len());
        let stream = u16::try_from(index).map_err(|_| self.error("more than 65536 devices".into()))?;
        if known.is_none() {
            self.devices.push(device);
        }
        Ok(stream)
    }

    fn next(&mut self) -> Result<Option<Request>, SourceError> {
        if let Some(write) = self.behind.take() {
            return Ok(Some(write));
        }
        loop {
            // The event ahead of a fault is delivered before it.
            if let Some(error) = self.broken.take() {
                return Err(error);
            }
            let heads = self.files.iter().enumerate();
            let heads =
                heads.filter_map(|(index, file)| file.head.map(|head| (head.request.arrival_ns, index)));
            let Some((time, index)) = heads.min() else { return Ok(None) };
            let file = &mut self.files[index];
            let Some(Taken { device, preflush, request }) = file.head else { return Ok(None) };
            match file.reader.next_item() {
                Ok(next) => file.head = next,
                Err(error) => (file.head, self.broken) = (None, Some(error)),
            }
            let Some(arrival_ns) = self.epoch.since(time, 1) else {
                let found = format!("time {time}");
                let expected =
                    "a time not before that of the first event, from which times are counted".into();
                self.bad.leave_out(SourceError { found, ..self.error(expected) })?;
                continue;
            };
            let stream = self.stream_of(device)?;
            let request = Request { arrival_ns, stream, ..request };
            if preflush {
                self.behind = Some(request);
                return Ok(Some(Request { lba: 0, sectors: 0, op: Op::Flush, fua: false, ..request }));
            }
            return Ok(Some(request));
        }
    }
}

impl Merged {
    fn fill_or_fail(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), SourceError> {
        if !self.started {
            self.start()?;
        }
        for _ in 0..max {
            match self.next()? {
                Some(request) => out.push(request),
                None => break,
            }
        }
        Ok(())
    }
}

impl RequestSource for Merged {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        self.failure.check()?;
        let before = out.len();
        let filled = self.fill_or_fail(out, max);
        self.failure.after(out.len() - before, filled)
    }

    fn fraction_done(&self) -> Option<f64> {
        let shares = self.files.iter().filter_map(|file| file.reader.fraction_done());
        Some(shares.sum::<f64>() / self.files.len() as f64)
    }

    fn skipped_records(&self) -> u64 {
        self.bad.skipped()
    }

    fn says_fua(&self) -> bool {
        true
    }

    fn remarks(&self) -> Vec<Remark> {
        let (counts, read) = self.counted();
        read.and_then(|read| counts.remark(read, FORMAT.name)).into_iter().collect()
    }
}
