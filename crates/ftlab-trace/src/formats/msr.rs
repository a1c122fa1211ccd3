//! MSR Cambridge traces (SNIA IOTTA).

use ftlab_core::host::request::{Op, Request};

use crate::clock::{self, Clock};
use crate::format::{Argument, Format, Sample};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, sectors_of_bytes, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "msr",
    summary: "MSR Cambridge block traces of Windows servers, 2007 (SNIA IOTTA)",
    columns: "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
    units: "timestamp in 100 ns (Windows FILETIME), counted from the earliest of the first requests; offset and size in \
            bytes, rounded out to sectors; type Read or Write; the disk number becomes the stream; host name and \
            response time are not used",
    cannot_say: "trims and flushes; response times are there but not used",
    argument: Some(Argument {
        summary: clock::ARGUMENT,
        example: "128166372003000000",
        required: false,
        read: |input, text| {
            let clock = Clock::given(text, 2, input.origin())?;
            Ok(Box::new(TextReader::new(input, Msr { clock })))
        },
    }),
    extensions: &["msr"],
    example: "128166372003061629,srv,0,Write,1048576,4096,1189\n\
              128166372003061702,srv,0,Write,1052672,4096,1203\n\
              128166372016382155,srv,0,Read,7014912,24576,41286\n\
              128166372016401377,srv,1,Read,32256,512,9120\n\
              128166372021117800,srv,0,Write,1056768,8192,1377\n",
    head: "",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, Msr::default()).fits(),
    read: |input| {
        let clock = Clock::of(&input);
        Ok(Box::new(TextReader::new(input, Msr { clock })))
    },
    files_beside: None,
    write: None,
};

#[derive(Default)]
struct Msr {
    clock: Clock,
}

impl LineParser for Msr {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let time_at = line.position();
        let time = line.integer("a time stamp in units of 100 ns")?;
        line.comma()?;
        line.word();
        line.comma()?;
        let stream = line.stream("a disk number")?;
        line.comma()?;
        let op_at = line.position();
        let op = match line.word() {
            b"Write" => Op::Write,
            b"Read" => Op::Read,
            word if word.eq_ignore_ascii_case(b"write") => Op::Write,
            word if word.eq_ignore_ascii_case(b"read") => Op::Read,
            _ => return Err(Cursor::shape(op_at, "Read or Write")),
        };
        line.comma()?;
        let address_at = line.position();
        let offset = line.integer("an offset in bytes")?;
        line.comma()?;
        let size_at = line.position();
        let bytes = line.integer("a size in bytes")?;
        line.comma()?;
        line.integer("a response time in units of 100 ns")?;
        line.end_of_fields()?;
        let (lba, sectors) = sectors_of_bytes(offset, bytes, Extent { address_at, size_at })?;
        let time_ns = time.checked_mul(100).ok_or_else(|| {
            Cursor::value(time_at, "a time stamp in units of 100 ns, below 2^64 nanoseconds")
        })?;
        let arrival_ns = self.clock.since(time_ns, time_at)?;
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream, fua: false }))
    }
    fn look_ahead(&mut self, lines: &[u8]) {
        self.clock.settle(lines, Msr { clock: Clock::zero() });
    }
}
