//! Lines of Linux' tracepoints: what ftrace, trace-cmd and perf print of the block layer and of the NVMe driver.
//!
//! The three print the same fields in a different frame. Commands may have blanks, brackets and colons, so the frame is
//! found from its time on: the first decimal number with a colon behind it. What the kernel prints is in
//! `include/trace/events/block.h` and `drivers/nvme/host/trace.h`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ftlab_core::host::request::{Op, Remark, Request, RequestSource, SourceError};

use crate::clock::Clock;
use crate::events::{EventCounts, Loss, Lost};
use crate::format::Sample;
use crate::input::Input;
use crate::numbering::{Volumes, plain_name};
use crate::rwbs::{Requests, Rwbs};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, shape_of};

/// Whose frame is around a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    Ftrace,
    TraceCmd,
    Perf,
}

impl Tool {
    const ALL: [Tool; 3] = [Tool::Ftrace, Tool::TraceCmd, Tool::Perf];

    /// The name of its format.
    const fn format(self) -> &'static str {
        match self {
            Tool::Ftrace => "ftrace",
            Tool::TraceCmd => "trace_cmd",
            Tool::Perf => "perf_script",
        }
    }

    /// What a line of it looks like.
    const fn line(self) -> &'static str {
        match self {
            Tool::Ftrace => {
                "COMMAND-PID [CPU] FLAGS SECONDS: EVENT: FIELDS, with seconds as a decimal number"
            }
            Tool::TraceCmd => "COMMAND-PID [CPU] SECONDS: EVENT: FIELDS, with seconds as a decimal number",
            Tool::Perf => "COMMAND PID [CPU] SECONDS: SYSTEM:EVENT: FIELDS, with seconds as a decimal number",
        }
    }
}

/// Events that a request has once, and the words that choose them.
const EVENTS: [(&str, &str); 6] = [
    ("block_rq_issue", "issue"),
    ("block_rq_insert", "insert"),
    ("block_io_start", "start"),
    ("block_bio_queue", "queue"),
    ("block_rq_complete", "complete"),
    ("nvme_setup_cmd", "nvme"),
];
const NVME: usize = 5;

/// The columns of all three formats behind their frame, for documentation.
pub(crate) const UNITS: &str = "time in decimal seconds of the machine's clock, counted from the earliest of the first requests; sectors of \
     512 bytes; of the events of a request one is taken: block_rq_issue, its hand-over to the driver, which is what \
     the drive sees; rwbs with D = discard, R or W, F alone or without data = flush, F behind W = FUA, F before W = \
     a flush and then the write; the device (major,minor, or the name of an NVMe disk) becomes the stream, numbered in order \
     of appearance; nvme_setup_cmd counts logical blocks, whose size must be given, and its len is one less than their \
     number; other events, headings and stacks are skipped; lines that say that events were lost are no fault but a \
     warning";
/// What they cannot say.
pub(crate) const CANNOT_SAY: &str = "response times, unless completions are compared with issues; which logical blocks \
     a discard of nvme_setup_cmd has (it prints none); writes of zeroes, commands of zones and passed-through commands are left out; \
     other clocks than of seconds (trace_clock counter, x86-tsc)";
/// What may be said on the command line.
pub(crate) const ARGUMENT: &str = "words with commas between them; the event to take: issue (block_rq_issue, the default), insert (into the scheduler), \
     start (block_io_start), queue, complete or nvme; queue is block_bio_queue, before merging and splitting, and all that \
     bio-based devices such as dm and md have; nvme is nvme_setup_cmd and needs the size of a logical block, as in \
     nvme,lba=512 or nvme,lba=4096; a time stamp as in the file, which becomes time 0: for files that belong together, or \
     whose first lines are not the earliest";

/// What the user chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Choice {
    /// Number of the event in [`EVENTS`].
    event: usize,
    /// Sectors of a logical block of NVMe.
    lba_sectors: u64,
}

/// Read `input` as what `tool` prints.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all readers")]
pub(crate) fn read(tool: Tool, input: Input) -> Result<Box<dyn RequestSource>, SourceError> {
    let clock = Clock::of(&input);
    Ok(Box::new(TextReader::new(input, Tracepoints::new(tool, Choice::default(), clock))))
}

/// The same with an [`ARGUMENT`].
pub(crate) fn read_with(tool: Tool, input: Input, text: &str) -> Result<Box<dyn RequestSource>, SourceError> {
    let refused = |found: &str, expected: String| SourceError {
        origin: input.origin().to_owned(),
        found: found.to_owned(),
        expected,
        ..SourceError::default()
    };
    let (mut choice, mut clock, mut lba) = (Choice::default(), Clock::of(&input), None);
    for word in text.split(',') {
        if let Some(event) = EVENTS.iter().position(|(_, name)| *name == word) {
            choice.event = event;
        } else if let Some(bytes) = word.strip_prefix("lba=") {
            let size = bytes
                .parse::<u64>()
                .ok()
                .filter(|bytes| (512..=65536).contains(bytes) && bytes.is_power_of_two());
            let size =
                size.ok_or_else(|| refused(word, "lba=512, lba=4096 or another power of two".into()))?;
            lba = Some(size / 512);
        } else if word.starts_with(|letter: char| letter.is_ascii_digit()) {
            clock = Clock::given(word, 9, input.origin())?;
        } else {
            let words = EVENTS.map(|(_, name)| name);
            let likeness = |name: &&str| strsim::jaro_winkler(word, name);
            let nearest = words.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
            let hint = match nearest {
                Some(nearest) if likeness(nearest) > 0.7 => format!("; did you mean {nearest}?"),
                _ => String::new(),
            };
            let words = words.join(", ");
            let expected = format!(
                "{words}, lba=BYTES or a time in seconds (--format {}:WORD,...){hint}",
                tool.format()
            );
            return Err(refused(word, expected));
        }
    }
    match (choice.event == NVME, lba) {
        (true, Some(sectors)) => choice.lba_sectors = sectors,
        (false, None) => {}
        (true, None) => {
            let name = tool.format();
            let expected = format!(
                "the size of a logical block, as in --format {name}:nvme,lba=512 or {name}:nvme,lba=4096"
            );
            return Err(refused(text, expected));
        }
        (false, Some(_)) => {
            return Err(refused(text, "lba=BYTES beside nvme only: other events count sectors".into()));
        }
    }
    Ok(Box::new(TextReader::new(input, Tracepoints::new(tool, choice, clock))))
}

/// Whether most lines of a sample are such as `tool` prints.
pub(crate) fn detect(tool: Tool, sample: &Sample<'_>) -> bool {
    let mut parser = Tracepoints::new(tool, Choice::default(), Clock::zero());
    let shape = shape_of(sample.lines, &mut parser);
    let said = if sample.bytes.starts_with(b"# tracer:") { Some(Tool::Ftrace) } else { parser.said };
    let lines = |tool: Tool| parser.lines[tool as usize];
    let total: usize = parser.lines.iter().sum();
    let most = Tool::ALL.into_iter().rev().max_by_key(|tool| lines(*tool));
    total > 0 && total >= shape.others && said.or(most) == Some(tool)
}

/// More names of other events than anybody wants to see.
const MOST_NAMES: usize = 100;
const LONGEST_NAME: usize = 100;

struct Tracepoints {
    tool: Tool,
    choice: Choice,
    clock: Clock,
    devices: Volumes<Vec<u8>>,
    counts: EventCounts<6>,
    /// Events that say nothing of requests.
    foreign: BTreeMap<Vec<u8>, u64>,
    lost: Lost,
    /// Writes of zeroes, and discards without addresses.
    left_out: [u64; 2],
    /// Lines in the frame of each tool.
    lines: [usize; 3],
    /// The tool whose heading there was.
    said: Option<Tool>,
    /// The write of a line that also flushes.
    behind: Option<Request>,
}

/// What a line is, as far as its begin tells.
enum Begin<'a> {
    Event(Frame<'a>),
    /// A time without an event behind it.
    Time,
    Other,
}

/// What every line of an event begins with.
struct Frame<'a> {
    time_at: usize,
    /// With its system in front of it where perf printed it.
    event: &'a [u8],
    payload_at: usize,
    /// Blanks behind the event.
    blanks: usize,
}

/// Where the decimal number begins that ends at the end of `bytes`.
fn decimal_at_end(bytes: &[u8]) -> Option<usize> {
    let digits =
        |end: usize| bytes[..end].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
    let fraction = digits(bytes.len());
    let point = fraction.checked_sub(1).filter(|at| bytes[*at] == b'.' && fraction < bytes.len())?;
    let whole = digits(point);
    let begins = whole < point && (whole == 0 || matches!(bytes[whole - 1], b' ' | b'\t'));
    begins.then_some(whole)
}

impl<'a> Begin<'a> {
    /// Places count from the begin of the line.
    #[inline(always)]
    fn of(line: &'a [u8]) -> Self {
        let (mut from, mut found) = (0, Begin::Other);
        while let Some(at) = memchr::memchr(b':', &line[from..]) {
            let colon = from + at;
            from = colon + 1;
            if matches!(line.get(from), Some(b' ' | b'\t'))
                && let Some(time_at) = decimal_at_end(&line[..colon])
            {
                // A command may look like a time as well.
                found = Begin::Time;
                if let Some(frame) = Frame::behind_time(line, time_at, from) {
                    return Begin::Event(frame);
                }
            }
        }
        found
    }
}

impl<'a> Frame<'a> {
    #[inline(always)]
    fn behind_time(line: &'a [u8], time_at: usize, mut at: usize) -> Option<Self> {
        let blanks_from =
            |at: usize| line[at..].iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        // Between them, perf may have a period, and trace-cmd the time since the event before.
        for _ in 0..3 {
            at += blanks_from(at);
            let length = memchr::memchr2(b' ', b'\t', &line[at..]).unwrap_or(line.len() - at);
            let word = &line[at..at + length];
            at += length;
            if let Some(event) = word.strip_suffix(b":") {
                let blanks = blanks_from(at);
                return Some(Self { time_at, event, payload_at: at + blanks, blanks });
            }
            let between = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'(' | b')' | b'+' | b'.');
            if word.is_empty() || !word.iter().all(between) {
                return None;
            }
        }
        None
    }

    /// Who prints it so; nothing where long names look alike.
    #[inline(always)]
    fn tool(&self) -> Option<Tool> {
        match (self.event.contains(&b':'), self.blanks) {
            (true, _) => Some(Tool::Perf),
            // trace-cmd makes short names as long as others.
            (false, 2..) => Some(Tool::TraceCmd),
            (false, _) if self.event.len() < 20 => Some(Tool::Ftrace),
            _ => None,
        }
    }
}

/// An event of a request, taken apart.
struct Taken<'a> {
    device: Cow<'a, [u8]>,
    requests: Option<Requests>,
}

impl Tracepoints {
    fn new(tool: Tool, choice: Choice, clock: Clock) -> Self {
        Self {
            tool,
            choice,
            clock,
            devices: Volumes::default(),
            counts: EventCounts::new(EVENTS),
            foreign: BTreeMap::new(),
            lost: Lost::default(),
            left_out: [0; 2],
            lines: [0; 3],
            said: None,
            behind: None,
        }
    }

    /// A line without a time.
    #[cold]
    fn other_line(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let start = line.position();
        let text = line.skip_to_line_end().trim_ascii_end();
        if let Some(events) = lost_in(text) {
            self.lost.add(events);
            return Ok(None);
        }
        let heading = |begin: &str| text.starts_with(begin.as_bytes());
        if heading("cpus=") || heading("version = ") || heading("CPU ") && text.ends_with(b" is empty") {
            self.said = Some(Tool::TraceCmd);
            return Ok(None);
        }
        let is_stack = heading("=> ") || is_call(text);
        // What perf says on standard error.
        let is_talk = heading("Check IO/CPU overload") || heading("Warning:") || heading("CPU:");
        if is_stack || is_talk {
            return Ok(None);
        }
        Err(Cursor::shape(start, self.tool.line()))
    }

    /// A line with a time and no event behind it: of another tracer, or what perf says of itself.
    #[cold]
    fn line_without_event(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let text = line.skip_to_line_end();
        if let Some(events) = lost_in(text) {
            self.lost.add(events);
            return Ok(None);
        }
        let known = [" <-", "<stack trace>", " PERF_RECORD_"];
        if known.iter().any(|part| memchr::memmem::find(text, part.as_bytes()).is_some()) {
            return Ok(None);
        }
        Err(Cursor::shape(line.position(), "the name of an event, with a colon behind it"))
    }

    /// An event that is none of [`EVENTS`]. What is no name is none of an event.
    fn count_foreign(&mut self, event: &[u8]) {
        let is_name = event.len() <= LONGEST_NAME && event.iter().all(u8::is_ascii_graphic);
        if !is_name {
            return;
        }
        if let Some(count) = self.foreign.get_mut(event) {
            *count += 1;
        } else if self.foreign.len() < MOST_NAMES {
            self.foreign.insert(event.to_owned(), 1);
        }
    }

    /// Behind the name of a block event: `8,0 WS 4096 () 2048 + 8 none,0,0 [fio]`, of which bytes and parentheses may be
    /// absent. Returns the device, what is asked for, and how many sectors there are.
    #[inline(always)]
    fn block<'a>(line: &mut Cursor<'a>) -> Result<(&'a [u8], Rwbs, u64, u64, Extent), Fault> {
        let device_at = line.position();
        let device = line.token();
        let comma = device.iter().position(|byte| *byte == b',');
        let number = |bytes: &[u8]| !bytes.is_empty() && bytes.iter().all(u8::is_ascii_digit);
        if !comma.is_some_and(|comma| number(&device[..comma]) && number(&device[comma + 1..])) {
            return Err(Cursor::shape(device_at, "a device as major,minor"));
        }
        line.blanks()?;
        let rwbs_at = line.position();
        let rwbs = Rwbs::of(line.token(), rwbs_at)?;
        line.blanks()?;
        let mut address_at = line.position();
        let mut lba = None;
        if line.peek() != b'(' {
            lba = Some(line.integer("a sector number or a size in bytes")?);
            line.skip_blanks();
        }
        if line.peek() == b'(' {
            let command = line.rest_of_line();
            let end = memchr::memchr(b')', command);
            let end = end.ok_or_else(|| Cursor::shape(line.position(), "a command that ends with )"))?;
            line.seek(line.position() + end + 1);
            line.blanks()?;
            address_at = line.position();
            lba = Some(line.integer("a sector number")?);
        }
        line.mark(b'+', "+ and a size in sectors")?;
        let size_at = line.position();
        let sectors = line.integer("a size in sectors")?;
        line.blanks()?;
        if memchr::memchr(b'[', line.rest_of_line()).is_none() {
            return Err(Cursor::shape(line.position(), "a command or an error in brackets"));
        }
        line.skip_to_line_end();
        Ok((device, rwbs, lba.unwrap_or(0), sectors, Extent { address_at, size_at }))
    }

    #[inline(always)]
    fn block_event<'a>(&mut self, event: usize, line: &mut Cursor<'a>) -> Result<Taken<'a>, Fault> {
        let (device, rwbs, lba, sectors, extent) = Self::block(line)?;
        let device = Cow::Borrowed(device);
        let moves = rwbs.op.is_some_and(|op| op != Op::Flush);
        self.counts.add(event, if moves { sectors } else { 0 });
        if event != self.choice.event {
            return Ok(Taken { device, requests: None });
        }
        self.left_out[0] += u64::from(rwbs.op.is_none() && sectors > 0);
        // Commands that are passed through, and ends without data, have an address and nothing there.
        let is_empty = sectors == 0 && matches!(rwbs.op, Some(Op::Read | Op::Trim));
        let requests = if is_empty { None } else { rwbs.requests(lba, sectors, extent)? };
        Ok(Taken { device, requests })
    }

    /// Behind the name of `nvme_setup_cmd`:
    /// `nvme0: disk=nvme0n1, qid=1, cmdid=5, nsid=1, flags=0x0, meta=0x0, cmd=(nvme_cmd_read slba=64, len=7, ctrl=0x0, ...)`.
    fn nvme_event<'a>(&mut self, line: &mut Cursor<'a>) -> Result<Taken<'a>, Fault> {
        const FUA: u64 = 1 << 14;
        let none = Taken { device: Cow::Borrowed(b""), requests: None };
        let chosen = self.choice.event == NVME;
        let start = line.position();
        let text = line.rest_of_line();
        let behind = |key: &[u8]| memchr::memmem::find(text, key).map(|at| start + at + key.len());
        let number = |line: &mut Cursor<'_>, key: &[u8], expected: &'static str| {
            line.seek(behind(key).ok_or_else(|| Cursor::shape(start, expected))?);
            line.integer(expected)
        };
        let queue = number(line, b"qid=", "a queue, qid=")?;
        let namespace = number(line, b"nsid=", "a namespace, nsid=")?;
        let command_at = behind(b"cmd=(").ok_or_else(|| Cursor::shape(start, "a command, cmd=(...)"))?;
        line.seek(command_at);
        let command = line.word();
        if !text.trim_ascii_end().ends_with(b")") {
            line.skip_to_line_end();
            return Err(Cursor::shape(command_at, "a command that ends with )"));
        }
        let op = match command.strip_suffix(b")").unwrap_or(command) {
            // Queue 0 has the commands of the administrator, whose names may be the same.
            _ if queue == 0 => None,
            b"nvme_cmd_read" => Some(Op::Read),
            b"nvme_cmd_write" => Some(Op::Write),
            b"nvme_cmd_flush" => Some(Op::Flush),
            name => {
                self.left_out[0] += u64::from(chosen && name == b"nvme_cmd_write_zeroes");
                self.left_out[1] += u64::from(chosen && name == b"nvme_cmd_dsm");
                None
            }
        };
        let Some(op) = op else {
            line.skip_to_line_end();
            return Ok(none);
        };
        let device = if let Some(at) = behind(b"disk=") {
            line.seek(at);
            Cow::Borrowed(line.word())
        } else {
            // Without a name of its own, the namespace of its controller.
            let controller = &text[..memchr::memchr(b':', text).unwrap_or(0)];
            Cow::Owned([controller, format!("n{namespace}").as_bytes()].concat())
        };
        let (mut lba, mut blocks, mut fua) = (0, 0, false);
        let mut extent = Extent { address_at: start, size_at: start };
        if op != Op::Flush {
            lba = number(line, b"slba=", "a first logical block, slba=")?;
            blocks = number(line, b"len=", "a number of logical blocks less one, len=")?.saturating_add(1);
            extent = Extent {
                address_at: behind(b"slba=").unwrap_or(start),
                size_at: behind(b"len=").unwrap_or(start),
            };
            line.seek(behind(b"ctrl=").ok_or_else(|| Cursor::shape(start, "control bits, ctrl="))?);
            fua = line.hex("control bits, ctrl=")? & FUA != 0;
        }
        line.skip_to_line_end();
        let unit = self.choice.lba_sectors.max(1);
        let (lba, sectors) = (lba.saturating_mul(unit), blocks.saturating_mul(unit));
        self.counts.add(NVME, sectors);
        if !chosen {
            return Ok(none);
        }
        let requests = Requests::of(op, lba, sectors, fua, extent)?;
        Ok(Taken { device, requests: Some(requests) })
    }
}

/// The events that a line says are lost, if it says so.
fn lost_in(text: &[u8]) -> Option<Loss> {
    let has = |part: &str| memchr::memmem::find(text, part.as_bytes());
    let number = |from: usize| {
        let digits = text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&text[from..from + digits]).ok()?.parse::<u64>().ok()
    };
    // CPU:3 [LOST 120 EVENTS] of ftrace, and CPU:3 [120 EVENTS DROPPED] of trace-cmd, with the number or without.
    if text.starts_with(b"CPU:") {
        let lost = has("[LOST ").map(|at| at + "[LOST ".len());
        let dropped = has("EVENTS DROPPED]").and(has("[")).map(|at| at + 1);
        return lost.or(dropped).map(|at| Loss(number(at)));
    }
    if let Some(at) = has("PERF_RECORD_LOST") {
        let counted = memchr::memmem::find(&text[at..], b" lost ").map(|of| at + of + " lost ".len());
        return Some(Loss(counted.and_then(number)));
    }
    // What perf says when it has read its file: chunks are of unknown size.
    (text.starts_with(b"Processed ") && has(" lost ").is_some()).then_some(Loss(None))
}

/// Whether a line is one of a stack, as perf prints them: an address and a name, with a file in parentheses or without.
fn is_call(text: &[u8]) -> bool {
    let address = text.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let has_address = matches!(text.get(address), Some(b' ' | b'\t'))
        && (address >= 8 || address >= 4 && text.ends_with(b")"));
    has_address || text.ends_with(b" (inlined)")
}

impl LineParser for Tracepoints {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let start = line.position();
        let text = line.rest_of_line();
        let frame = match Begin::of(text) {
            Begin::Event(frame) => frame,
            Begin::Time => return self.line_without_event(line),
            Begin::Other => return self.other_line(line),
        };
        if let Some(tool) = frame.tool() {
            self.lines[tool as usize] += 1;
        }
        let name = match memchr::memrchr(b':', frame.event) {
            Some(colon) => &frame.event[colon + 1..],
            None => frame.event,
        };
        let Some(event) = EVENTS.iter().position(|(event, _)| event.as_bytes() == name) else {
            match lost_in(text) {
                Some(events) => self.lost.add(events),
                None => self.count_foreign(name),
            }
            line.skip_to_line_end();
            return Ok(None);
        };
        line.seek(start + frame.payload_at);
        let taken = if event == NVME { self.nvme_event(line) } else { self.block_event(event, line) };
        let Taken { device, requests } = match taken {
            Ok(taken) => taken,
            Err(_) if event != self.choice.event => {
                line.skip_to_line_end();
                return Ok(None);
            }
            Err(fault) => return Err(fault),
        };
        let Some(requests) = requests else { return Ok(None) };
        let end = line.position();
        line.seek(start + frame.time_at);
        let time_ns = line.decimal(9, "a time in seconds")?;
        line.seek(end);
        let arrival_ns = self.clock.since(time_ns, start + frame.time_at)?;
        let stream = self.devices.number(&device[..], start + frame.payload_at)?;
        let request;
        (request, self.behind) = requests.at(arrival_ns, stream);
        Ok(Some(request))
    }

    fn look_ahead(&mut self, lines: &[u8]) {
        let zero = Tracepoints::new(self.tool, self.choice, Clock::zero());
        self.clock.settle(lines, zero);
    }

    fn behind(&mut self) -> Option<Request> {
        self.behind.take()
    }

    fn says_fua(&self) -> bool {
        true
    }

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.devices.names(plain_name)
    }

    fn nothing_found(&self) -> Option<String> {
        let Choice { event, .. } = self.choice;
        let name = self.tool.format();
        let others = self.counts.nothing_found(event, name);
        // Its logical blocks have a size that nobody can guess.
        let others = others.map(|text| match text.strip_suffix(":nvme") {
            Some(_) => format!("{text},lba=512 (or the size of its logical blocks)"),
            None => text,
        });
        others.or_else(|| {
            let found = self.foreign.iter().max_by_key(|(_, count)| **count)?;
            let (found, count) = (String::from_utf8_lossy(found.0), found.1);
            Some(format!(
                "found no request among events such as {found} ({count}): record block_rq_issue, as with perf record -a -e \
                 block:block_rq_issue"
            ))
        })
    }

    fn remarks(&self) -> Vec<Remark> {
        let mut remarks: Vec<Remark> = self.lost.remark().into_iter().collect();
        remarks.extend(self.counts.remark(self.choice.event, self.tool.format()));
        let told = |count: u64, what: &str| {
            let text = format!("left out: {count} {what}");
            let found = vec![("left_out", count as f64)];
            (count > 0).then_some(Remark { code: None, text, advice: String::new(), found })
        };
        remarks.extend(told(self.left_out[0], "writes of zeroes or commands of zones"));
        remarks
            .extend(told(self.left_out[1], "discards, whose logical blocks nvme_setup_cmd does not print"));
        remarks
    }
}

impl LineParser for &mut Tracepoints {
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        (**self).parse(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_found_behind_any_command() {
        let frame = |line: &'static str| {
            let Begin::Event(frame) = Begin::of(line.as_bytes()) else { return None };
            let payload = &line[frame.payload_at..];
            let time = line[frame.time_at..].split(':').next().unwrap();
            Some((time, std::str::from_utf8(frame.event).unwrap(), payload, frame.tool()))
        };
        let ftrace = Some(Tool::Ftrace);
        for (line, expected) in [
            ("fio-1 [002] d..1. 12.5: block_rq_issue: x", ("12.5", "block_rq_issue", "x", ftrace)),
            ("a [b] 1.5: c-1 [002] 12.5: e: x", ("12.5", "e", "x", ftrace)),
            ("a: b 1.2 [1]-1 [002] 12.5: e: x: y 3.5: z", ("12.5", "e", "x: y 3.5: z", ftrace)),
            ("kworker/1:1H-9 (  9) [002] .... 12.5: e: ", ("12.5", "e", "", ftrace)),
            ("a-1  [002]  12.500000001: e:       x", ("12.500000001", "e", "x", Some(Tool::TraceCmd))),
            ("a-1  [002]  12.5: (+0.25) e:   x", ("12.5", "e", "x", Some(Tool::TraceCmd))),
            ("a b 1/2 [002] 12.5:    1 block:e: x", ("12.5", "block:e", "x", Some(Tool::Perf))),
            ("12.5: xfs_file_buffered_read: x", ("12.5", "xfs_file_buffered_read", "x", None)),
        ] {
            assert_eq!(frame(line), Some(expected), "{line}");
        }
        for line in
            ["", "a-1 [002] 12: e: x", "a-1 [002] .5: e: x", "12.5:e: x", "a-1 12.5: vfs_read <-ksys_read"]
        {
            assert_eq!(frame(line), None, "{line}");
        }
    }

    #[test]
    fn losses_are_heard_of() {
        for (line, expected) in [
            ("CPU:3 [LOST 120 EVENTS]", Some(Some(120))),
            ("CPU:3 [LOST EVENTS]", Some(None)),
            ("CPU:7 [204600 EVENTS DROPPED]", Some(Some(204_600))),
            ("CPU:7 [EVENTS DROPPED]", Some(None)),
            ("CPU:7 [SUBBUFFER START]", None),
            ("swapper 0 [006] 1.000000001: PERF_RECORD_LOST lost 9", Some(Some(9))),
            ("PERF_RECORD_LOST_SAMPLES lost 3", Some(Some(3))),
            ("PERF_RECORD_LOST unexpected", Some(None)),
            ("Processed 388174 events and lost 12 chunks!", Some(None)),
            ("Processed 388174 events", None),
        ] {
            assert_eq!(lost_in(line.as_bytes()), expected.map(Loss), "{line}");
        }
    }
}
