//! MSR Cambridge traces (SNIA IOTTA).

use ftlab_core::host::request::{Op, Request};

use super::{Format, Sample};
use crate::input::Epoch;
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, sectors_of_bytes, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "msr",
    summary: "MSR Cambridge block traces of Windows servers, 2007 (SNIA IOTTA)",
    columns: "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime",
    units: "timestamp in 100 ns (Windows FILETIME), counted from the first request of the file; offset and size in \
            bytes, rounded out to sectors; type Read or Write; the disk number becomes the stream; host name and \
            response time are not used",
    extensions: &["msr"],
    example: "128166372003061629,srv,0,Write,1048576,4096,1189\n128166372016382155,srv,0,Read,7014912,24576,41286\n",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, Msr::default()).fits(),
    read: |input| {
        let parser = Msr { epoch: input.epoch() };
        Ok(Box::new(TextReader::new(input, parser)))
    },
    write: None,
};

#[derive(Default)]
struct Msr {
    epoch: Epoch,
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
        let (lba, sectors) = sectors_of_bytes(offset, bytes, Extent { address_at, size_at })?;
        let arrival_ns = self.epoch.since(time, 100).ok_or_else(|| {
            Cursor::value(
                time_at,
                "a time not before that of the first request, from which times are counted",
            )
        })?;
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream }))
    }
}
