//! Lines with the operation first, for traces that somebody writes by hand.

use ftlab_core::host::request::{Op, Request};

use crate::format::{Format, Sample};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, checked_sectors, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "op_first",
    summary: "lines with the operation first, for traces that somebody writes by hand",
    columns: "operation,lba,sectors,microseconds",
    units: "operation r, w, d or f for a read, a write, a trim or a flush; lba and sectors of 512 bytes, both 0 for a \
            flush; microseconds decimal, kept as they are",
    cannot_say: "streams and response times",
    argument: None,
    extensions: &["op_first"],
    example: "w,4096,8,0\nr,77,2,12.345\nd,4112,8,500\nf,0,0,500\nr,900,1,2000.5\n",
    head: "",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, OpFirst).fits(),
    read: |input| Ok(Box::new(TextReader::new(input, OpFirst))),
    files_beside: None,
    write: None,
};

struct OpFirst;

impl LineParser for OpFirst {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let op_at = line.position();
        let op = match line.word() {
            b"r" => Op::Read,
            b"w" => Op::Write,
            b"d" => Op::Trim,
            b"f" => Op::Flush,
            _ => return Err(Cursor::shape(op_at, "an operation r, w, d or f")),
        };
        line.comma()?;
        let address_at = line.position();
        let lba = line.integer("an LBA in sectors")?;
        line.comma()?;
        let size_at = line.position();
        let sectors = line.integer("a number of sectors")?;
        line.comma()?;
        let arrival_ns = line.decimal(3, "a time in microseconds")?;
        if op == Op::Flush {
            return Ok(Some(Request { arrival_ns, lba: 0, sectors: 0, op, stream: 0, fua: false }));
        }
        let (lba, sectors) = checked_sectors(lba, sectors, Extent { address_at, size_at })?;
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream: 0, fua: false }))
    }
}
