//! The event log of a run, for the Perfetto trace viewer.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use ftlab_core::flash::Command;
use ftlab_core::host::request::SourceError;
use ftlab_core::metrics::parts::Parts;
use ftlab_core::metrics::{CommandRecord, MemoryEvent, MemoryRecord, Observer, RequestRecord};
use ftlab_core::time::Time;

use crate::logs::{created, failed, unwritten};
use crate::slowest::Spans;

/// Every request and flash command, as a file that opens in the Perfetto trace viewer (ui.perfetto.dev) and in
/// `chrome://tracing`.
///
/// A track per channel shows when data cross it, a track per die (or plane, where planes work independently) when it is
/// taken. Requests are on as many tracks as overlap, each with what its latency consists of. Arrows lead from a request to
/// the commands that came with it. Evictions of the write buffer are on as many tracks as overlap, and each memory beside
/// flash has one when data take time in it. Counters have the requests in the drive and the free blocks. Times are microseconds of
/// simulated time, cut off to whole nanoseconds: the viewer does so with starts and lengths, each for itself, and leaves
/// out what seems to overlap then. The file is complete JSON after
/// [`finish`](Self::finish) and after a drop.
pub struct EventLog {
    path: String,
    file: BufWriter<File>,
    channels: BTreeSet<u32>,
    units: BTreeSet<u32>,
    requests: Requests,
    /// When the last eviction on each track ends.
    evictions: Vec<Time>,
    /// Memories that have a track.
    memories: BTreeSet<u32>,
    blocks: FreeBlocks,
    /// When there is something to write; always where this is nothing.
    only: Option<Spans>,
    events: u64,
    error: Option<io::Error>,
    closed: bool,
    unit: &'static str,
}

/// The processes of the viewer under which tracks are gathered.
const CHANNELS: u32 = 1;
const UNITS: u32 = 2;
const REQUESTS: u32 = 3;
const MEMORIES: u32 = 4;

/// Tracks of memories come before those of evictions.
const EVICTIONS: u32 = 100;

/// Requests for which commands may still come; those of older ones have no arrows.
const KEPT: usize = 1 << 16;

/// An arrow to a command: when that begins, and on which unit.
type Arrow = (u64, u32);

/// What is known of requests so far.
#[derive(Default)]
struct Requests {
    /// When the last request on each track ends.
    tracks: Vec<Time>,
    parts: Parts,
    /// Arrows that wait for their request to complete.
    waiting: HashMap<u64, Vec<Arrow>>,
    /// The track, the start and the end of requests that have completed, and in which order they did.
    done: HashMap<u64, (u32, Time, Time)>,
    order: VecDeque<u64>,
    arrows: u64,
    /// Requests that enter the drive and leave it: when, and by how many there are more.
    changes: Vec<(u64, i64)>,
}

/// Blocks in which nothing is programmed.
#[derive(Default)]
struct FreeBlocks {
    at_start: u64,
    pages_per_block: u64,
    /// Of each block whether something is programmed; `None` for those that hold no data.
    used: Vec<Option<bool>>,
    /// When there are more or fewer, and by how many.
    changes: Vec<(u64, i64)>,
}

/// The number of a track: no two have the same, and none that of a process, whose track the viewer would show as its
/// main thread, ahead of the others.
fn track(process: u32, part: u32) -> u64 {
    let first = match process {
        CHANNELS => 1_000,
        REQUESTS => 100_000_000,
        MEMORIES => 200_000_000,
        _ => 10_000,
    };
    u64::from(part) + first
}

/// A track on which nothing goes on at `start`, and whether it is a new one. It is taken until `end`.
fn free_track(tracks: &mut Vec<Time>, start: Time, end: Time) -> (u32, bool) {
    // Rounded as the viewer does, so that nothing overlaps on a track.
    let free = tracks.iter().position(|last| last.0 / 1000 <= start.0 / 1000);
    let lane = free.unwrap_or(tracks.len());
    if free.is_none() {
        tracks.push(end);
    }
    tracks[lane] = end;
    (lane as u32, free.is_none())
}

/// Microseconds with three decimals.
struct Micros(u64);

impl std::fmt::Display for Micros {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl EventLog {
    /// Create the file. `planes`: it is planes that are taken, not dies.
    ///
    /// # Errors
    /// When that is not possible.
    pub fn create(path: &Path, planes: bool) -> Result<Self, SourceError> {
        let (path, mut file) = created(path)?;
        let unit = if planes { "plane" } else { "die" };
        let header = format!(
            "{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n\
             {{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{CHANNELS},\"args\":{{\"name\":\"channels\"}}}},\n\
             {{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{UNITS},\"args\":{{\"name\":\"{unit}s\"}}}},\n\
             {{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{REQUESTS},\"args\":{{\"name\":\"requests\"}}}},\n\
             {{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{MEMORIES},\"args\":{{\"name\":\"memories\"}}}}"
        );
        file.write_all(header.as_bytes()).map_err(|error| failed(&path, unwritten(&error)))?;
        let (channels, units) = (BTreeSet::new(), BTreeSet::new());
        let (requests, blocks) = (Requests::default(), FreeBlocks::default());
        let (only, error) = (None, None);
        Ok(Self {
            path,
            file,
            channels,
            units,
            requests,
            evictions: Vec::new(),
            memories: BTreeSet::new(),
            blocks,
            only,
            events: 0,
            error,
            closed: false,
            unit,
        })
    }

    /// The same, but it keeps what goes on while the slowest requests are under way, and nothing else.
    #[must_use]
    pub fn only(mut self, spans: Spans) -> Self {
        self.only = Some(spans);
        self
    }

    fn wants(&self, from: Time, to: Time) -> bool {
        self.only.as_ref().is_none_or(|spans| spans.touch(from, to))
    }

    /// Events of flash written so far: one a command, and one a transfer.
    pub fn events(&self) -> u64 {
        self.events
    }

    fn name_track(&mut self, process: u32, part: u32) -> io::Result<()> {
        let (known, kind) = match process {
            CHANNELS => (&mut self.channels, "channel"),
            _ => (&mut self.units, self.unit),
        };
        if !known.insert(part) {
            return Ok(());
        }
        self.write_name(process, part, &format!("{kind} {part}"))
    }

    fn write_name(&mut self, process: u32, part: u32, name: &str) -> io::Result<()> {
        let track = track(process, part);
        write!(
            self.file,
            ",\n{{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":{process},\"tid\":{track},\"args\":{{\"name\":\"{name}\"}}}},\
             \n{{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"pid\":{process},\"tid\":{track},\"args\":{{\"sort_index\":{part}}}}}"
        )
    }

    fn span(
        &mut self,
        process: u32,
        part: u32,
        record: &CommandRecord,
        from: Time,
        to: Time,
    ) -> io::Result<()> {
        self.name_track(process, part)?;
        self.events += 1;
        let (command, cause, page) = (record.command.name(), record.cause.name(), record.page);
        let (from, to, unit) = (from.0 / 1000, to.0 / 1000, self.unit);
        write!(
            self.file,
            ",\n{{\"ph\":\"X\",\"name\":\"{command}\",\"cat\":\"{cause}\",\"pid\":{process},\"tid\":{},\"ts\":{},\"dur\":{},\
             \"args\":{{\"cause\":\"{cause}\",\"page\":{page},\"{unit}\":{}",
            track(process, part),
            Micros(from),
            Micros(to - from),
            record.die
        )?;
        if let Some(request) = record.request {
            write!(self.file, ",\"request\":{request}")?;
        }
        self.file.write_all(b"}}")
    }

    fn record(&mut self, record: &CommandRecord) -> io::Result<()> {
        self.count_block(record);
        if !self.wants(record.start, record.end) {
            return Ok(());
        }
        self.span(UNITS, record.die, record, record.start, record.end)?;
        if let Some(request) = record.request {
            self.point_at(request, record)?;
        }
        let (from, to) = record.transfer;
        if from < to { self.span(CHANNELS, record.channel, record, from, to) } else { Ok(()) }
    }

    /// A block is in use from the start of its first program to the end of its erase.
    fn count_block(&mut self, record: &CommandRecord) {
        let FreeBlocks { pages_per_block, used, changes, .. } = &mut self.blocks;
        let block = record.page.checked_div(*pages_per_block).and_then(|block| usize::try_from(block).ok());
        let Some(Some(is_used)) = block.and_then(|block| used.get_mut(block)) else { return };
        let will_be = match record.command {
            Command::Erase => false,
            Command::Program | Command::Copyback => true,
            Command::Read => return,
        };
        match (std::mem::replace(is_used, will_be), will_be) {
            (true, false) => changes.push((record.end.0 / 1000, 1)),
            (false, true) => changes.push((record.start.0 / 1000, -1)),
            _ => {}
        }
    }

    /// An arrow from a request to a command that came with it, as soon as the request is on a track.
    fn point_at(&mut self, request: u64, record: &CommandRecord) -> io::Result<()> {
        let (from, to) = (record.start.0 / 1000, record.end.0 / 1000);
        if from == to {
            return Ok(());
        }
        if let Some(place) = self.requests.done.get(&request).copied() {
            return self.arrow((from, record.die), place);
        }
        self.requests.waiting.entry(request).or_default().push((from, record.die));
        Ok(())
    }

    fn arrow(&mut self, (at, die): Arrow, (lane, start, end): (u32, Time, Time)) -> io::Result<()> {
        let (start, end) = (start.0 / 1000, end.0 / 1000);
        if start == end {
            return Ok(());
        }
        // Inside the request, which may be shorter than what came with it.
        let from = at.clamp(start, end - 1);
        let number = self.requests.arrows;
        self.requests.arrows += 1;
        let head = format!("\"name\":\"request\",\"cat\":\"request\",\"id\":{number}");
        let ends = [(REQUESTS, lane, from, "\"s\""), (UNITS, die, at, "\"f\",\"bp\":\"e\"")];
        for (process, part, at, phase) in ends {
            let track = track(process, part);
            let at = Micros(at);
            write!(self.file, ",\n{{\"ph\":{phase},{head},\"pid\":{process},\"tid\":{track},\"ts\":{at}}}")?;
        }
        Ok(())
    }

    fn request(&mut self, record: &RequestRecord) -> io::Result<()> {
        let (start, end) = (record.start, record.end);
        let (from, to) = (start.0 / 1000, end.0 / 1000);
        self.requests.changes.extend([(from, 1), (to, -1)]);
        if !self.wants(start, end) {
            self.requests.waiting.remove(&record.index);
            return Ok(());
        }
        let (lane, is_new) = free_track(&mut self.requests.tracks, start, end);
        if is_new {
            self.write_name(REQUESTS, lane, &format!("request {lane}"))?;
        }
        write!(
            self.file,
            ",\n{{\"ph\":\"X\",\"name\":\"{}\",\"cat\":\"request\",\"pid\":{REQUESTS},\"tid\":{},\"ts\":{},\"dur\":{},\
             \"args\":{{\"request\":{},\"lba\":{},\"sectors\":{}",
            record.request.op.name(),
            track(REQUESTS, lane),
            Micros(from),
            Micros(to - from),
            record.index,
            record.request.lba,
            record.request.sectors
        )?;
        if let Some(rank) = self.only.as_ref().and_then(|spans| spans.rank(record.index)) {
            write!(self.file, ",\"slowest\":{rank}")?;
        }
        for (part, ps) in self.requests.parts.latency().filter(|(_, ps)| *ps > 0) {
            write!(self.file, ",\"{}_us\":{}", part.name(), ps as f64 / 1e6)?;
        }
        self.file.write_all(b"}}")?;
        let place = (lane, start, end);
        for arrow in self.requests.waiting.remove(&record.index).unwrap_or_default() {
            self.arrow(arrow, place)?;
        }
        self.requests.done.insert(record.index, place);
        self.requests.order.push_back(record.index);
        if self.requests.order.len() > KEPT
            && let Some(oldest) = self.requests.order.pop_front()
        {
            self.requests.done.remove(&oldest);
        }
        Ok(())
    }

    /// Something that memory beside flash did.
    fn memory(&mut self, record: &MemoryRecord) -> io::Result<()> {
        let MemoryRecord { what, start, end } = *record;
        if !self.wants(start, end) {
            return Ok(());
        }
        let (part, name) = match what {
            MemoryEvent::Move(memory) => {
                if self.memories.insert(memory as u32) {
                    self.write_name(MEMORIES, memory as u32, memory.name())?;
                }
                (memory as u32, "move")
            }
            MemoryEvent::Eviction { .. } => {
                let (lane, is_new) = free_track(&mut self.evictions, start, end);
                if is_new {
                    self.write_name(MEMORIES, EVICTIONS + lane, &format!("buffer eviction {lane}"))?;
                }
                (EVICTIONS + lane, "eviction")
            }
        };
        let (from, to) = (start.0 / 1000, end.0 / 1000);
        write!(
            self.file,
            ",\n{{\"ph\":\"X\",\"name\":\"{name}\",\"cat\":\"memory\",\"pid\":{MEMORIES},\"tid\":{},\"ts\":{},\"dur\":{},\"args\":{{",
            track(MEMORIES, part),
            Micros(from),
            Micros(to - from),
        )?;
        if let MemoryEvent::Eviction { dies, channels } = what {
            write!(self.file, "\"{}s\":{dies},\"channels\":{channels}", self.unit)?;
        }
        self.file.write_all(b"}}")
    }

    /// A number over time, from what it was at first and when it changed.
    fn counter(
        &mut self,
        (process, name, unit): (u32, &str, &str),
        first: u64,
        mut changes: Vec<(u64, i64)>,
    ) -> io::Result<()> {
        changes.sort_unstable();
        let (mut value, mut is_known) = (first.cast_signed(), false);
        let mut changes = std::iter::once((0, 0)).chain(changes).peekable();
        while let Some((at, by)) = changes.next() {
            let before = value;
            value += by;
            let next = changes.peek().map(|(next, _)| *next);
            if next == Some(at) {
                continue;
            }
            // What it is until the next change matters where something is to be seen then.
            let until = next.map_or(Time::NEVER, |next| Time(next * 1000));
            if !self.wants(Time(at * 1000), until) {
                is_known = false;
            } else if !is_known || value != before || by == 0 {
                is_known = true;
                write!(
                    self.file,
                    ",\n{{\"ph\":\"C\",\"name\":\"{name}\",\"pid\":{process},\"ts\":{},\"args\":{{\"{unit}\":{value}}}}}",
                    Micros(at)
                )?;
            }
        }
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let changes = std::mem::take(&mut self.requests.changes);
        self.counter((REQUESTS, "requests in the drive", "requests"), 0, changes)?;
        if self.blocks.pages_per_block > 0 {
            let changes = std::mem::take(&mut self.blocks.changes);
            self.counter((UNITS, "free blocks", "blocks"), self.blocks.at_start, changes)?;
        }
        self.file.write_all(b"\n]}\n")?;
        self.file.flush()
    }

    /// Close the document and the file.
    ///
    /// # Errors
    /// The first thing that went wrong since it was created.
    pub fn finish(mut self) -> Result<(), SourceError> {
        let closed = match self.error.take() {
            Some(error) => Err(error),
            None => self.close(),
        };
        closed.map_err(|error| failed(&self.path, unwritten(&error)))
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        // Nobody is left to tell; `finish` tells.
        let _ = self.close();
    }
}

impl Observer for EventLog {
    fn wants_commands(&self) -> bool {
        true
    }

    fn wants_requests(&self) -> bool {
        true
    }

    fn wants_parts(&self) -> bool {
        true
    }

    fn on_start(&mut self, blocks: Vec<Option<bool>>, pages_per_block: u32) {
        let at_start = blocks.iter().filter(|used| **used == Some(false)).count() as u64;
        self.blocks = FreeBlocks {
            at_start,
            pages_per_block: pages_per_block.into(),
            used: blocks,
            changes: Vec::new(),
        };
    }

    fn on_parts(&mut self, parts: &Parts) {
        self.requests.parts = *parts;
    }

    fn on_request(&mut self, record: &RequestRecord) {
        if self.error.is_none() {
            self.error = self.request(record).err();
        }
    }

    fn on_command(&mut self, record: &CommandRecord) {
        if self.error.is_none() {
            self.error = self.record(record).err();
        }
    }

    fn on_memory(&mut self, record: &MemoryRecord) {
        if self.error.is_none() {
            self.error = self.memory(record).err();
        }
    }
}
