//! Block traces of Alibaba Cloud.

use ftlab_core::host::request::{Op, Request};

use crate::clock::{self, Clock};
use crate::format::{Argument, Format, Sample};
use crate::numbering::NumberedVolumes;
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, sectors_of_bytes, shape_of};

const HEADER: &[u8] = b"device_id,opcode,offset,length,timestamp";

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "alibaba",
    summary: "block traces of Alibaba Cloud's virtual disks, 2020",
    columns: "device_id,opcode,offset,length,timestamp",
    units: "opcode R or W; offset and length in bytes, rounded out to sectors of 512 bytes; timestamp in microseconds of \
            the calendar, counted from the earliest of the first requests; the device becomes the stream: its number \
            below 65,536, else a free number from 65535 down, in order of appearance (ftlab trace info --volumes lists them)",
    cannot_say: "trims, flushes and response times",
    argument: Some(Argument {
        summary: clock::ARGUMENT,
        example: "1577900000000000",
        required: false,
        read: |input, text| {
            let clock = Clock::given(text, 3, input.origin())?;
            Ok(Box::new(TextReader::new(input, Alibaba { clock, ..Alibaba::default() })))
        },
    }),
    extensions: &["alibaba"],
    example: "144,W,879273164,4096,1577900000360767\n\
              731,R,1048576,16384,1577900000361004\n\
              144,W,879277260,4096,1577900000371655\n\
              731,R,1064960,16384,1577900000384120\n\
              2,W,40960,8192,1577900001000000\n",
    head: "",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, Alibaba::default()).fits(),
    read: |input| {
        let clock = Clock::of(&input);
        Ok(Box::new(TextReader::new(input, Alibaba { clock, ..Alibaba::default() })))
    },
    files_beside: None,
    write: None,
};

#[derive(Default)]
struct Alibaba {
    clock: Clock,
    devices: NumberedVolumes,
}

impl LineParser for Alibaba {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        if line.peek() == HEADER[0] && line.rest_of_line() == HEADER {
            line.skip_to_line_end();
            return Ok(None);
        }
        let device_at = line.position();
        let device = line.integer("a device number")?;
        line.comma()?;
        let op_at = line.position();
        let op = match line.word() {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(Cursor::shape(op_at, "an opcode R or W")),
        };
        line.comma()?;
        let address_at = line.position();
        let offset = line.integer("an offset in bytes")?;
        line.comma()?;
        let size_at = line.position();
        let bytes = line.integer("a length in bytes")?;
        line.comma()?;
        let time_at = line.position();
        let time_ns = line.decimal(3, "a time stamp in microseconds")?;
        line.end_of_fields()?;
        let (lba, sectors) = sectors_of_bytes(offset, bytes, Extent { address_at, size_at })?;
        let arrival_ns = self.clock.since(time_ns, time_at)?;
        let stream = self.devices.number(device, device_at)?;
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream, fua: false }))
    }

    fn look_ahead(&mut self, lines: &[u8]) {
        self.clock.settle(lines, Alibaba { clock: Clock::zero(), ..Alibaba::default() });
    }

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.devices.names()
    }
}
