//! CSV of Open CAS's iotrace.

use ftlab_core::host::request::{Op, Request};

use crate::clock::{self, Clock};
use crate::format::{Argument, Format, Sample};
use crate::numbering::{Volumes, plain_name};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, checked_sectors, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "opencas",
    summary: "CSV of Open CAS's iotrace (iotrace --trace-parser --io --format csv), and of tools that decode its traces",
    columns: "header.timestamp, io.operation, io.lba, io.len[, io.flush, io.fua, device.id] or ts_ns, op, lba_512, \
              sectors[, flush, fua, device], in any order",
    units: "time in nanoseconds, counted from the earliest of the first requests; lba and length in sectors of 512 bytes; \
            operation Read, Write, Discard or Flush, or its first letter; a write of length 0 is a flush; a write with \
            io.fua is FUA, one with io.flush is a flush and then the write; the device \
            becomes the stream, numbered in order of appearance; rows without an operation and a length (events of the file \
            system) are skipped, other columns are not used",
    cannot_say: "response times, which are there but not used",
    argument: Some(Argument {
        summary: clock::ARGUMENT,
        example: "5082000000",
        required: false,
        read: |input, text| {
            let clock = Clock::given(text, 0, input.origin())?;
            Ok(Box::new(TextReader::new(input, OpenCas { clock, ..OpenCas::default() })))
        },
    }),
    extensions: &["opencas"],
    example: "device.id,device.name,header.sid,header.timestamp,io.flush,io.latency,io.lba,io.len,io.operation\n\
              8388608,sda,48,5082383915,false,145584,193227744,8,Write\n\
              8388608,sda,65,5082575353,true,85643,0,0,Write\n\
              8388608,sda,67,5082674546,false,95763,64,32,Read\n\
              8388608,sda,69,5083009634,false,12146,193227744,8,Discard\n",
    head: "",
    detect: |sample: &Sample<'_>| {
        let mut parser = OpenCas::default();
        shape_of(sample.lines, &mut parser);
        !parser.columns.is_empty()
    },
    read: |input| {
        let clock = Clock::of(&input);
        Ok(Box::new(TextReader::new(input, OpenCas { clock, ..OpenCas::default() })))
    },
    files_beside: None,
    write: None,
};

const OPERATION: &str = "an operation: Read, Write, Discard or Flush";
const ADDRESS: &str = "an LBA in sectors";
const SIZE: &str = "a length in sectors";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IotraceColumn {
    Time,
    Op,
    Lba,
    Sectors,
    Flush,
    Fua,
    Device,
    Ignored,
}

impl IotraceColumn {
    fn named(name: &[u8]) -> Self {
        match name {
            b"header.timestamp" | b"ts_ns" => IotraceColumn::Time,
            b"io.operation" | b"op" => IotraceColumn::Op,
            b"io.lba" | b"lba_512" => IotraceColumn::Lba,
            b"io.len" | b"sectors" => IotraceColumn::Sectors,
            b"io.flush" | b"flush" => IotraceColumn::Flush,
            b"io.fua" | b"fua" => IotraceColumn::Fua,
            b"device.id" | b"device" => IotraceColumn::Device,
            _ => IotraceColumn::Ignored,
        }
    }
}

#[derive(Default)]
struct OpenCas {
    columns: Vec<IotraceColumn>,
    clock: Clock,
    devices: Volumes<Vec<u8>>,
    /// The write of a row that also flushes.
    behind: Option<Request>,
}

impl OpenCas {
    fn header(&mut self, line: &mut Cursor<'_>) -> Result<(), Fault> {
        let at = line.position();
        let names = line.skip_to_line_end().split(|byte| *byte == b',');
        let columns: Vec<IotraceColumn> = names.map(|name| IotraceColumn::named(name.trim_ascii())).collect();
        let count = |column: IotraceColumn| columns.iter().filter(|other| **other == column).count();
        let needed = [IotraceColumn::Time, IotraceColumn::Op, IotraceColumn::Lba, IotraceColumn::Sectors];
        let optional = [IotraceColumn::Device, IotraceColumn::Flush, IotraceColumn::Fua];
        if needed.iter().any(|column| count(*column) != 1) || optional.iter().any(|column| count(*column) > 1)
        {
            return Err(Cursor::header(at, format!("a header with {}", FORMAT.columns)));
        }
        self.columns = columns;
        Ok(())
    }
}

/// True or false, in the words of iotrace or as a number; nothing is false.
#[inline(always)]
fn bit(line: &mut Cursor<'_>, expected: &'static str) -> Result<bool, Fault> {
    let at = line.position();
    match line.word() {
        b"true" | b"True" | b"1" => Ok(true),
        b"false" | b"False" | b"0" | b"" => Ok(false),
        _ => Err(Cursor::shape(at, expected)),
    }
}

fn flush(arrival_ns: u64, stream: u16) -> Request {
    Request { arrival_ns, lba: 0, sectors: 0, op: Op::Flush, stream, fua: false }
}

impl LineParser for OpenCas {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        if self.columns.is_empty() {
            return self.header(line).map(|()| None);
        }
        // The place of a fault in what these columns do not have.
        let at = line.position();
        let mut extent = Extent { address_at: at, size_at: at };
        let (mut time_ns, mut time_at, mut lba, mut sectors, mut stream) = (0, at, 0, 0, 0);
        let (mut op, mut op_at, mut preflush, mut fua) = (None, at, false, false);
        let (mut has_address, mut has_size) = (false, false);
        for (index, column) in self.columns.iter().enumerate() {
            if index > 0 {
                line.comma()?;
            }
            match column {
                IotraceColumn::Time => {
                    time_at = line.position();
                    time_ns = line.integer("a time in nanoseconds")?;
                }
                IotraceColumn::Op => {
                    op_at = line.position();
                    op = match line.word() {
                        b"Write" | b"W" => Some(Op::Write),
                        b"Read" | b"R" => Some(Op::Read),
                        b"Discard" | b"D" => Some(Op::Trim),
                        b"Flush" | b"F" => Some(Op::Flush),
                        b"" => None,
                        _ => return Err(Cursor::shape(op_at, OPERATION)),
                    };
                }
                // Rows of the file system's events leave them out, and flushes may.
                IotraceColumn::Lba => {
                    extent.address_at = line.position();
                    has_address = line.peek() != b',';
                    if has_address {
                        lba = line.integer(ADDRESS)?;
                    }
                }
                IotraceColumn::Sectors => {
                    extent.size_at = line.position();
                    has_size = line.peek() != b',';
                    if has_size {
                        sectors = line.integer(SIZE)?;
                    }
                }
                IotraceColumn::Flush => preflush = bit(line, "true or false in column io.flush")?,
                IotraceColumn::Fua => fua = bit(line, "true or false in column io.fua")?,
                IotraceColumn::Device => {
                    let at = line.position();
                    stream = self.devices.number(line.word(), at)?;
                }
                IotraceColumn::Ignored => line.skip_field()?,
            }
        }
        let Some(op) = op else {
            let is_request = has_address && has_size && sectors > 0;
            return if is_request { Err(Cursor::shape(op_at, OPERATION)) } else { Ok(None) };
        };
        if op != Op::Flush && !(has_address && has_size) {
            let (at, expected) =
                if has_address { (extent.size_at, SIZE) } else { (extent.address_at, ADDRESS) };
            return Err(Cursor::shape(at, expected));
        }
        let arrival_ns = self.clock.since(time_ns, time_at)?;
        if op == Op::Flush || sectors == 0 && op == Op::Write {
            return Ok(Some(flush(arrival_ns, stream)));
        }
        let (lba, sectors) = checked_sectors(lba, sectors, extent)?;
        let is_write = op == Op::Write;
        let request = Request { arrival_ns, lba, sectors, op, stream, fua: fua && is_write };
        if preflush && is_write {
            self.behind = Some(request);
            return Ok(Some(flush(arrival_ns, stream)));
        }
        Ok(Some(request))
    }

    fn behind(&mut self) -> Option<Request> {
        self.behind.take()
    }

    fn says_fua(&self) -> bool {
        self.columns.contains(&IotraceColumn::Fua)
    }

    fn look_ahead(&mut self, lines: &[u8]) {
        self.clock.settle(lines, OpenCas { clock: Clock::zero(), ..OpenCas::default() });
    }

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.devices.names(plain_name)
    }
}

impl LineParser for &mut OpenCas {
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        (**self).parse(line)
    }
}
