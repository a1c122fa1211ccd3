//! fio's I/O logs, versions 2 and 3.

use std::io::Write;

use ftlab_core::host::request::{Op, Request, RequestSource, SourceError};

use crate::format::{Argument, Format, Sample};
use crate::input::{Input, Sink};
use crate::numbering::{Volumes, plain_name};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, sectors_of_bytes};
use crate::writer::{Extras, LineWriter, TraceWriter};

const VERSION_2: &[u8] = b"fio version 2 iolog";
const VERSION_3: &[u8] = b"fio version 3 iolog";

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "fio_iolog",
    summary: "fio's I/O logs, versions 2 and 3 (write_iolog, read_iolog); written as version 3",
    columns: "version 3: time file action [offset length]; version 2: file action [offset length]",
    units: "first line \"fio version 3 iolog\" or 2; time in whole microseconds, as fio writes and replays it, kept as it is; \
            actions read, write, trim; sync and datasync are flushes; add, open, close name files; offset and length in \
            bytes, rounded out to sectors of 512 bytes; in version 2 wait sets the time to its offset in milliseconds \
            from the start, as fio replays it, and requests before the first wait arrive at 0; each file becomes a \
            stream: volume7, as ftlab writes them, number 7, others numbered in order of appearance",
    cannot_say: "times below a microsecond, and in version 2 any but those of waits; which flush belongs to which write; \
                 response times",
    argument: Some(Argument {
        summary: "the unit of time where it is not fio's: us (version 3's own), ms or ns for time stamps; wait_us for \
                  version 2 logs whose waits are microseconds from the wait before, as fio's manual has it",
        example: "ms",
        required: false,
        read: read_unit,
    }),
    extensions: &["iolog"],
    example: "fio version 3 iolog\n0 /dev/nvme0n1 add\n12 /dev/nvme0n1 open\n40 /dev/nvme0n1 write 1048576 4096\n\
              152 /dev/nvme0n1 read 0 65536\n300 /dev/nvme0n1 sync 0 0\n420 /dev/nvme0n1 trim 1048576 4096\n\
              500 /dev/nvme0n1 close\n",
    head: "",
    detect: |sample: &Sample<'_>| {
        let is_said = |line: &[u8]| !line.is_empty() && !line.starts_with(b"#");
        let lines = sample.lines.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        lines.clone().find(|line| is_said(line)).is_some_and(|line| [VERSION_2, VERSION_3].contains(&line))
    },
    read: |input| Ok(Box::new(TextReader::new(input, Iolog::default()))),
    files_beside: None,
    write: Some(write),
};

fn read_unit(input: Input, text: &str) -> Result<Box<dyn RequestSource>, SourceError> {
    let iolog = match text {
        "us" => Iolog::default(),
        "ms" => Iolog { scale: 6, ..Iolog::default() },
        "ns" => Iolog { scale: 0, ..Iolog::default() },
        "wait_us" => Iolog { relative_waits: true, ..Iolog::default() },
        _ => {
            return Err(SourceError {
                origin: input.origin().to_owned(),
                found: text.to_owned(),
                expected: "a unit of time: us, ms, ns or wait_us (--format fio_iolog:UNIT)".into(),
                ..SourceError::default()
            });
        }
    };
    Ok(Box::new(TextReader::new(input, iolog)))
}

struct Iolog {
    /// 0 until the first line has been read.
    version: u8,
    /// A time stamp is 10^scale nanoseconds.
    scale: usize,
    relative_waits: bool,
    /// Time of the last wait, in version 2.
    now_ns: u64,
    files: Volumes<Vec<u8>>,
}

impl Default for Iolog {
    fn default() -> Self {
        Self { version: 0, scale: 3, relative_waits: false, now_ns: 0, files: Volumes::default() }
    }
}

const ACTIONS: &str = "an action: read, write, trim, sync, datasync, wait, add, open or close";

impl LineParser for Iolog {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        if self.version == 0 {
            let at = line.position();
            self.version = match line.skip_to_line_end().trim_ascii_end() {
                VERSION_2 => 2,
                VERSION_3 => 3,
                _ => {
                    let expected = "the first line \"fio version 2 iolog\" or \"fio version 3 iolog\"";
                    return Err(Cursor::header(at, expected.into()));
                }
            };
            return Ok(None);
        }
        let mut arrival_ns = self.now_ns;
        if self.version == 3 {
            arrival_ns = line.decimal(self.scale, "a time stamp")?;
            line.blanks()?;
        }
        let file_at = line.position();
        let file = line.token();
        line.blanks()?;
        let action_at = line.position();
        let action = line.token();
        if line.at_line_end() {
            return match action {
                b"add" | b"open" | b"close" => {
                    self.files.number_named(file, file_at, volume_of).map(|_| None)
                }
                b"read" | b"write" | b"trim" | b"sync" | b"datasync" | b"wait" => {
                    Err(Cursor::shape(line.position(), "an offset and a length"))
                }
                _ => Err(Cursor::shape(action_at, ACTIONS)),
            };
        }
        let op = match action {
            b"read" => Some(Op::Read),
            b"write" => Some(Op::Write),
            b"trim" => Some(Op::Trim),
            b"sync" | b"datasync" | b"sync_file_range" => Some(Op::Flush),
            b"wait" if self.version == 2 => None,
            b"wait" => return Err(Cursor::shape(action_at, "no wait: version 3 has times instead")),
            _ => return Err(Cursor::shape(action_at, ACTIONS)),
        };
        let address_at = line.position();
        let offset = line.integer("an offset in bytes")?;
        let at_end = line.at_line_end();
        let size_at = line.position();
        // Waits need no length.
        let bytes = if op.is_none() && at_end { 0 } else { line.integer("a length in bytes")? };
        let Some(op) = op else {
            return self.wait(offset, address_at).map(|()| None);
        };
        let stream = self.files.number_named(file, file_at, volume_of)?;
        let (lba, sectors) = match op {
            Op::Flush => (0, 0),
            _ => sectors_of_bytes(offset, bytes, Extent { address_at, size_at })?,
        };
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream, fua: false }))
    }

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.files.names(plain_name)
    }
}

impl Iolog {
    fn wait(&mut self, offset: u64, at: usize) -> Result<(), Fault> {
        let until = if self.relative_waits {
            offset.checked_mul(1000).and_then(|ns| self.now_ns.checked_add(ns))
        } else {
            // A wait for a time that has passed is none.
            offset.checked_mul(1_000_000).map(|ns| ns.max(self.now_ns))
        };
        self.now_ns = until.ok_or_else(|| Cursor::value(at, "a time to wait for below 2^64 nanoseconds"))?;
        Ok(())
    }
}

/// The stream that [`write`] made a file of.
fn volume_of(file: &[u8]) -> Option<u16> {
    let digits = std::str::from_utf8(file.strip_prefix(b"volume")?).ok()?;
    let number: u16 = digits.parse().ok()?;
    (number.to_string() == digits).then_some(number)
}

/// Counts the requests whose times a log cannot hold.
struct CutTimes<W> {
    lines: W,
    cut: u64,
}

impl<W: TraceWriter> TraceWriter for CutTimes<W> {
    fn write(&mut self, requests: &[Request], contents: &[u128]) -> Result<(), String> {
        self.cut += requests.iter().map(|request| u64::from(request.arrival_ns % 1000 != 0)).sum::<u64>();
        self.lines.write(requests, contents)
    }

    fn lost(&self) -> Vec<String> {
        let times = match self.cut {
            0 => return Vec::new(),
            1 => "1 time is".to_owned(),
            cut => format!("{cut} times are"),
        };
        vec![format!("{times} cut to whole microseconds, which is all fio has")]
    }

    fn finish(self: Box<Self>) -> Result<(), String> {
        Box::new(self.lines).finish()
    }
}

/// Streams become files called `volume0`, `volume1`, ...: a name that no device has, so that a careless replay
/// overwrites none.
#[expect(clippy::unnecessary_wraps, reason = "the signature of all writers")]
fn write(sink: Box<dyn Sink>, _: Extras) -> Result<Box<dyn TraceWriter>, String> {
    let mut opened = vec![false; 1 << 16];
    let header = [VERSION_3, b"\n"].concat();
    let header = String::from_utf8_lossy(&header).into_owned();
    let lines =
        LineWriter::new(sink, &header, move |out: &mut Vec<u8>, request: &Request, _: Option<u128>| {
            let Request { arrival_ns, lba, sectors, op, stream, .. } = *request;
            let us = arrival_ns / 1000;
            // Writing to a Vec cannot fail.
            if !std::mem::replace(&mut opened[usize::from(stream)], true) {
                let _ = writeln!(out, "{us} volume{stream} add\n{us} volume{stream} open");
            }
            let action = match op {
                Op::Read => "read",
                Op::Write => "write",
                Op::Trim => "trim",
                Op::Flush => "sync",
            };
            let _ = writeln!(out, "{us} volume{stream} {action} {} {}", lba * 512, u64::from(sectors) * 512);
            Ok(())
        });
    Ok(Box::new(CutTimes { lines, cut: 0 }))
}
