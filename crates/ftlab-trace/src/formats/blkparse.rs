//! The text that blkparse prints of a blktrace recording.

use std::io::Write;

use ftlab_core::host::request::{Op, Remark, Request, SourceError};

use crate::events::{EventCounts, Lost};
use crate::format::{Argument, Format, Sample};
use crate::input::{Input, Sink};
use crate::numbering::{Volumes, device_name};
use crate::rwbs::Rwbs;
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, shape_of};
use crate::writer::{Extras, LineWriter, TraceWriter, Unwritable};

/// Which action may be named, for the binary form as well.
pub(super) const ARGUMENT: &str = "the action to take: D dispatched to the driver (the default); Q queued by the file \
     system, before merging and splitting, and all that bio-based devices such as dm and md have; G allocated; I inserted \
     into the scheduler; C completed";

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "blkparse",
    summary: "the default text output of blkparse (Linux blktrace)",
    columns: "major,minor cpu sequence time pid action rwbs sector + sectors [process]",
    units: "time in decimal seconds from the begin of the recording, kept as it is; sectors of 512 bytes; of the events of \
            a request one is taken: D, its dispatch to the driver, which is what the drive sees; rwbs with D = discard, \
            R or W, F alone or without data = flush, F behind W = FUA, F before W = a flush and then the write; the device becomes the stream: of major 259, as ftlab \
            writes them, by its minor number, others numbered in order of appearance; other events, messages, \
            passed-through commands, what has no sectors and the summary at the end are skipped; events from before \
            time 0, which blkparse prints as second 1266874889, arrive with the request ahead of them",
    cannot_say: "response times, unless the C events are compared with the D events",
    argument: Some(Argument { summary: ARGUMENT, example: "Q", required: false, read: read_action }),
    extensions: &["blkparse"],
    example: "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]\n\
              \x20 8,0    3        2     0.000001829   697  G   W 223490 + 8 [kjournald]\n\
              \x20 8,0    3        3     0.000009411   697  D   W 223490 + 8 [kjournald]\n\
              \x20 8,0    0        0     0.000350000   812  Q  RA 64 + 256 [dd]\n\
              \x20 8,0    0        1     0.000350000   812  D  RA 64 + 256 [dd]\n\
              \x20 8,0    3        4     0.004211303     0  C   W 223490 + 8 [0]\n\
              \x20 8,0    0        2     0.005000000   812  D  FN [dd]\n",
    head: "",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, Blkparse::taking(None)).fits(),
    read: |input| Ok(Box::new(TextReader::new(input, Blkparse::taking(Some(b'D'))))),
    files_beside: None,
    write: Some(write),
};

/// The actions that may be taken: those that every request has at most once, and whose lines have its address.
const ACTIONS: &[u8; 5] = b"DQGIC";
/// The same as text.
pub(super) const LETTERS: [(&str, &str); 5] = [("D", "D"), ("Q", "Q"), ("G", "G"), ("I", "I"), ("C", "C")];

/// What blkparse prints for the last seconds before time 0: 2^64 ns less a little, with seconds cut to 32 bits.
const WRAPPED_NS: std::ops::Range<u64> = 1_266_874_885_000_000_000..1_266_874_889_709_551_616;

fn read_action(
    input: Input,
    text: &str,
) -> Result<Box<dyn ftlab_core::host::request::RequestSource>, SourceError> {
    match text.as_bytes() {
        [action] if ACTIONS.contains(action) => {
            Ok(Box::new(TextReader::new(input, Blkparse::taking(Some(*action)))))
        }
        _ => Err(SourceError {
            origin: input.origin().to_owned(),
            found: text.to_owned(),
            expected: "an action to take: D, Q, G, I or C (--format blkparse:ACTION)".into(),
            ..SourceError::default()
        }),
    }
}

/// Where a line of the summary says that events are missing: in how many places, and how many.
fn skipped_in(line: &[u8]) -> Option<(u64, u64)> {
    let rest = std::str::from_utf8(line.strip_prefix(b"Skips:")?).ok()?;
    let (places, rest) = rest.split_once("forward (")?;
    let number = |text: &str| text.trim().replace(',', "").parse::<u64>().ok();
    Some((number(places)?, number(rest.split(" -").next()?)?))
}

struct Blkparse {
    /// Every action in [`ACTIONS`] when absent.
    action: Option<u8>,
    devices: Volumes<u64>,
    /// What there was of [`ACTIONS`].
    counts: EventCounts<5>,
    /// Arrival of the request before.
    previous_ns: u64,
    /// The write of a line that also flushes.
    behind: Option<Request>,
    lost: Lost,
}

impl Blkparse {
    fn taking(action: Option<u8>) -> Self {
        let counts = EventCounts::new(LETTERS);
        let lost = Lost::default();
        Self { action, devices: Volumes::default(), counts, previous_ns: 0, behind: None, lost }
    }

    /// The number of the action that is taken.
    fn taken(&self) -> Option<usize> {
        ACTIONS.iter().position(|action| Some(*action) == self.action)
    }

    /// The sectors of an event that is not taken, as far as its line has them.
    #[inline(always)]
    fn sectors_behind(line: &mut Cursor<'_>) -> u64 {
        for _rwbs_and_address in 0..2 {
            line.skip_blanks();
            line.token();
        }
        line.mark(b'+', "").and_then(|()| line.integer("")).unwrap_or(0)
    }

    /// Begins of lines of the summary.
    fn is_summary(line: &[u8]) -> bool {
        const BEGINS: [&[u8]; 11] = [
            b"CPU",
            b"Total (",
            b"Reads ",
            b"Read ",
            b"PC ",
            b"IO unplugs",
            b"Timer unplugs",
            b"Throughput (",
            b"Events (",
            b"Skips:",
            b"Input file ",
        ];
        BEGINS.iter().any(|begin| line.starts_with(begin))
    }
}

impl LineParser for Blkparse {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        if !line.peek().is_ascii_digit() && Self::is_summary(line.rest_of_line()) {
            if let Some((places, events)) = skipped_in(line.rest_of_line()) {
                self.lost.add_counted(places, events);
            }
            line.skip_to_line_end();
            return Ok(None);
        }
        let device_at = line.position();
        let major = line.integer("a device as major,minor")?;
        line.comma()?;
        let minor = line.integer("a minor device number")?;
        line.blanks()?;
        line.integer("a CPU number")?;
        line.blanks()?;
        line.integer("a sequence number")?;
        line.blanks()?;
        let time_ns = line.decimal(9, "a time in seconds")?;
        line.blanks()?;
        line.integer("a process number")?;
        line.blanks()?;
        let action_at = line.position();
        let action = line.token();
        let [action] = *action else {
            // Unplugs by timer (UT) have two letters.
            return match action {
                [b'A'..=b'Z' | b'a'..=b'z', b'A'..=b'Z' | b'a'..=b'z'] => {
                    line.skip_to_line_end();
                    Ok(None)
                }
                _ => Err(Cursor::shape(action_at, "an action, one letter")),
            };
        };
        let place = ACTIONS.iter().position(|other| *other == action);
        let taken = match self.action {
            Some(taken) => action == taken,
            None => place.is_some(),
        };
        if !taken {
            if !action.is_ascii_alphabetic() {
                return Err(Cursor::shape(action_at, "an action, one letter"));
            }
            if let Some(place) = place {
                self.counts.add(place, Self::sectors_behind(line));
            }
            line.skip_to_line_end();
            return Ok(None);
        }
        line.blanks()?;
        let rwbs_at = line.position();
        let rwbs = line.token();
        let rwbs = Rwbs::of(rwbs, rwbs_at)?;
        let op = rwbs.op;
        line.skip_blanks();
        let address_at = line.position();
        let mut size_at = address_at;
        let (mut lba, mut sectors) = (0, 0);
        match line.peek() {
            b'0'..=b'9' => {
                lba = line.integer("a sector number")?;
                line.skip_blanks();
                if matches!(line.peek(), b'(' | b'[') {
                    // The size of a command that is passed through, with its bytes in parentheses if they are known.
                    line.skip_to_line_end();
                    return Ok(None);
                }
                line.mark(b'+', "+ and a size in sectors")?;
                size_at = line.position();
                sectors = line.integer("a size in sectors")?;
                if !matches!(line.peek(), b' ' | b'\t' | b'\r' | b'\n') {
                    return Err(Cursor::shape(size_at, "a size in sectors"));
                }
            }
            // A flush, or what has no data. Reads and trims have some; passed-through ones do not tell when completed.
            b'(' | b'[' if !matches!(op, Some(Op::Read | Op::Trim)) => {}
            b'(' | b'[' if action == b'C' => {
                line.skip_to_line_end();
                return Ok(None);
            }
            b'\r' | b'\n' if matches!(op, None | Some(Op::Flush)) => {}
            _ => return Err(Cursor::shape(address_at, "a sector number")),
        }
        line.skip_to_line_end();
        if let Some(place) = place {
            self.counts.add(place, sectors);
        }
        let Some(requests) = rwbs.requests(lba, sectors, Extent { address_at, size_at })? else {
            return Ok(None);
        };
        let arrival_ns = if WRAPPED_NS.contains(&time_ns) { self.previous_ns } else { time_ns };
        self.previous_ns = arrival_ns;
        let stream = self.devices.number_named(&(major << 32 | minor & 0xffff_ffff), device_at, volume_of)?;
        let request;
        (request, self.behind) = requests.at(arrival_ns, stream);
        Ok(Some(request))
    }

    fn behind(&mut self) -> Option<Request> {
        self.behind.take()
    }

    fn says_fua(&self) -> bool {
        true
    }

    fn nothing_found(&self) -> Option<String> {
        self.counts.nothing_found(self.taken()?, FORMAT.name)
    }

    fn remarks(&self) -> Vec<Remark> {
        let unused = self.taken().and_then(|read| self.counts.remark(read, FORMAT.name));
        self.lost.remark().into_iter().chain(unused).collect()
    }

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.devices.names(device_name)
    }
}

/// The major number that Linux gives to disks without one of their own.
const MAJOR: u64 = 259;

/// The stream that [`write`] made a device of.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "a key, as maps lend it")]
fn volume_of(device: &u64) -> Option<u16> {
    if device >> 32 == MAJOR { u16::try_from(device & 0xffff_ffff).ok() } else { None }
}

/// Streams become minor numbers of [`MAJOR`].
#[expect(clippy::unnecessary_wraps, reason = "the signature of all writers")]
fn write(sink: Box<dyn Sink>, _: Extras) -> Result<Box<dyn TraceWriter>, String> {
    let mut sequence = 0u64;
    let line = move |out: &mut Vec<u8>, request: &Request, _: Option<u128>| {
        let Request { arrival_ns, lba, sectors, op, stream, fua } = *request;
        if WRAPPED_NS.contains(&arrival_ns) {
            return Err(Unwritable(
                "no time from 1266874885 s to 1266874889 s: so blkparse prints what was before time 0",
            ));
        }
        sequence += 1;
        let (seconds, ns) = (arrival_ns / 1_000_000_000, arrival_ns % 1_000_000_000);
        let rwbs = match op {
            Op::Read => "R",
            Op::Write if fua => "WF",
            Op::Write => "W",
            Op::Trim => "D",
            Op::Flush => "FN",
        };
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{MAJOR},{stream:<5} 0 {sequence:>8} {seconds:>5}.{ns:09}     0  D {rwbs:>3} ");
        let _ = if op == Op::Flush {
            writeln!(out, "[ftlab]")
        } else {
            writeln!(out, "{lba} + {sectors} [ftlab]")
        };
        Ok(())
    };
    let keeps = Extras { contents: false, fua: true };
    Ok(Box::new(LineWriter::new(sink, "", line).keeping(keeps)))
}
