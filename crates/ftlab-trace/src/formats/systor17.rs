//! SYSTOR '17 traces of an enterprise VDI (SNIA IOTTA).

use ftlab_core::host::request::{Op, Request};

use crate::clock::{self, Clock};
use crate::format::{Argument, Format, Sample};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, sectors_of_bytes, shape_of};

const HEADER: &[u8] = b"Timestamp,Response,IOType,LUN,Offset,Size";

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "systor17",
    summary: "SYSTOR '17 traces of virtual desktops on enterprise storage, 2016 (SNIA IOTTA)",
    columns: "Timestamp,Response,IOType,LUN,Offset,Size",
    units: "timestamp in decimal seconds of the calendar, counted from the earliest of the first requests; offset and \
            size in bytes, rounded out to sectors of 512 bytes; IOType R or W; the LUN becomes the stream; the response \
            time, in seconds, is not used; lines are in order of completion, so arrivals step back a little",
    cannot_say: "trims and flushes; response times are there but not used",
    argument: Some(Argument {
        summary: clock::ARGUMENT,
        example: "1456100000",
        required: false,
        read: |input, text| {
            let clock = Clock::given(text, 9, input.origin())?;
            Ok(Box::new(TextReader::new(input, Systor17 { clock })))
        },
    }),
    extensions: &["systor17"],
    example: "Timestamp,Response,IOType,LUN,Offset,Size\n\
              1456100000.250000000,0.000806000,R,0,899056128,131072\n\
              1456100000.247500000,0.008044000,R,0,425604096,122880\n\
              1456100000.262000000,0.000111000,W,2,466219008,512\n\
              1456100001.000125000,,W,0,466223104,4096\n",
    head: "",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, Systor17::default()).fits(),
    read: |input| {
        let clock = Clock::of(&input);
        Ok(Box::new(TextReader::new(input, Systor17 { clock })))
    },
    files_beside: None,
    write: None,
};

#[derive(Default)]
struct Systor17 {
    clock: Clock,
}

impl LineParser for Systor17 {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        if line.peek() == HEADER[0] && line.rest_of_line().trim_ascii_end() == HEADER {
            line.skip_to_line_end();
            return Ok(None);
        }
        let time_at = line.position();
        let time_ns = line.decimal(9, "a time stamp in seconds")?;
        line.comma()?;
        if line.peek() != b',' {
            line.decimal(9, "a response time in seconds, or nothing")?;
        }
        line.comma()?;
        let op_at = line.position();
        let op = match line.word() {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(Cursor::shape(op_at, "R or W")),
        };
        line.comma()?;
        let stream = line.stream("a LUN")?;
        line.comma()?;
        let address_at = line.position();
        let offset = line.integer("an offset in bytes")?;
        line.comma()?;
        let size_at = line.position();
        let bytes = line.integer("a size in bytes")?;
        line.end_of_fields()?;
        let (lba, sectors) = sectors_of_bytes(offset, bytes, Extent { address_at, size_at })?;
        let arrival_ns = self.clock.since(time_ns, time_at)?;
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream, fua: false }))
    }

    fn look_ahead(&mut self, lines: &[u8]) {
        self.clock.settle(lines, Systor17 { clock: Clock::zero() });
    }
}
