//! Block traces of Tencent Cloud Block Storage (SNIA IOTTA).

use ftlab_core::host::request::{Op, Request};

use crate::clock::{self, Clock};
use crate::format::{Argument, Format, Sample};
use crate::numbering::NumberedVolumes;
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, checked_sectors, shape_of};
use crate::units::{InSectors, look_like_bytes};

const HEADER: &[u8] = b"Timestamp,Offset,Size,IOType,VolumeID";

/// Time stamps of real files are later than this second (2001): five small numbers in a line are something else.
const CALENDAR_NS: u64 = 1_000_000_000_000_000_000;

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "tencent",
    summary: "traces of Tencent Cloud Block Storage, 2018 (SNIA IOTTA)",
    columns: "Timestamp,Offset,Size,IOType,VolumeID",
    units: "timestamp in whole or decimal seconds of the calendar, counted from the earliest of the first requests; offset \
            and size in sectors of 512 bytes; IOType 0 = read, 1 = write; the volume becomes the stream: its number below \
            65,536, else a free number from 65535 down, in order of appearance (ftlab trace info --volumes lists them)",
    cannot_say: "when within a second a request came, where times are whole; trims, flushes and response times",
    argument: Some(Argument {
        summary: clock::ARGUMENT,
        example: "1538352000",
        required: false,
        read: |input, text| {
            let clock = Clock::given(text, 9, input.origin())?;
            Ok(Box::new(TextReader::new(input, Tencent { clock, ..Tencent::default() })))
        },
    }),
    extensions: &["tencent"],
    example: "1538400000,12920872,8,1,1063\n1538400000,6338688,8,0,1360\n1538400000,12920880,16,1,1063\n\
              1538400001,904,64,0,25\n1538400003,12920896,8,1,1063\n",
    head: "",
    detect: |sample: &Sample<'_>| {
        shape_of(sample.lines, Calendar(Tencent::default())).fits() && !in_bytes(sample)
    },
    read: |input| {
        let clock = Clock::of(&input);
        Ok(Box::new(TextReader::new(input, Tencent { clock, ..Tencent::default() })))
    },
    files_beside: None,
    write: None,
};

/// Whether addresses or sizes look like bytes, and the name does not say that they are none.
fn in_bytes(sample: &Sample<'_>) -> bool {
    !sample.extension.is_some_and(|given| FORMAT.extensions.contains(&given))
        && look_like_bytes(sample.lines, Calendar(Tencent::default()), InSectors::Both)
}

/// What to do about such a sample.
pub(super) fn bytes_or_sectors(sample: &Sample<'_>) -> Option<String> {
    (shape_of(sample.lines, Calendar(Tencent::default())).fits() && in_bytes(sample)).then(|| {
        "a known unit: addresses or sizes are all multiples of 512, as bytes are. If they are bytes, use --format \
         'columns:arrival_s,offset_bytes,bytes,op[read=0 write=1],volume'; if they are sectors, --format tencent"
            .into()
    })
}

#[derive(Default)]
struct Tencent {
    clock: Clock,
    volumes: NumberedVolumes,
}

impl LineParser for Tencent {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        if line.peek() == HEADER[0] && line.rest_of_line() == HEADER {
            line.skip_to_line_end();
            return Ok(None);
        }
        let time_at = line.position();
        let time_ns = line.decimal(9, "a time stamp in seconds")?;
        line.comma()?;
        let address_at = line.position();
        let lba = line.integer("an offset in sectors")?;
        line.comma()?;
        let size_at = line.position();
        let sectors = line.integer("a size in sectors")?;
        line.comma()?;
        let op_at = line.position();
        let op = match line.word() {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return Err(Cursor::shape(op_at, "an IOType: 0 for a read, 1 for a write")),
        };
        line.comma()?;
        let volume_at = line.position();
        let volume = line.integer("a volume number")?;
        line.end_of_fields()?;
        let (lba, sectors) = checked_sectors(lba, sectors, Extent { address_at, size_at })?;
        let arrival_ns = self.clock.since(time_ns, time_at)?;
        let stream = self.volumes.number(volume, volume_at)?;
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream, fua: false }))
    }

    fn look_ahead(&mut self, lines: &[u8]) {
        self.clock.settle(lines, Tencent { clock: Clock::zero(), ..Tencent::default() });
    }

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.volumes.names()
    }
}

/// The same, of lines whose time is one of the calendar.
struct Calendar(Tencent);

impl LineParser for Calendar {
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let at = line.position();
        self.0.clock = Clock::zero();
        match self.0.parse(line)? {
            Some(request) if request.arrival_ns < CALENDAR_NS => {
                Err(Cursor::shape(at, "a time of the calendar"))
            }
            request => Ok(request),
        }
    }
}
