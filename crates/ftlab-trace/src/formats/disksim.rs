//! DiskSim's ASCII traces.

use std::io::Write;

use ftlab_core::host::request::{Op, Request};

use crate::format::{Format, Sample};
use crate::text::{Cursor, Fault, LineParser, TextReader, checked_sectors, shape_of};
use crate::units::{InSectors, look_like_bytes};
use crate::writer::{LineWriter, Unwritable};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "disksim",
    summary: "DiskSim ASCII traces; simulators that descend from it use the same form",
    columns: "time device lba sectors flags",
    units: "time in milliseconds, decimal, exact to the nanosecond and kept as it is; lba and sectors of 512 bytes; \
            flags hexadecimal, bit 0 set = read; the device becomes the stream; nothing in a line tells the unit of sizes, \
            so flashsim fits as well unless five of the first 200 lines have flags other than 0 and 1; where both fit, one \
            has to be named, by the extension or as the format",
    cannot_say: "trims, flushes and response times",
    argument: None,
    extensions: &["disksim"],
    example: "0.744525 0 779696 8 0\n1.072442 0 492344 16 1\n1.5 1 128 64 1\n\
              2.000001 0 779704 8 0\n12.25 1 192 64 1\n",
    head: "",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, DiskSim).fits() && !in_bytes(sample, &FORMAT),
    read: |input| Ok(Box::new(TextReader::new(input, DiskSim))),
    files_beside: None,
    write: Some(|sink, _| Ok(Box::new(LineWriter::new(sink, "", write)))),
};

/// Whether a sample looks as if its addresses or sizes were bytes, and its name does not say that it has this `format` of
/// five numbers.
pub(super) fn in_bytes(sample: &Sample<'_>, format: &Format) -> bool {
    !sample.extension.is_some_and(|given| format.extensions.contains(&given))
        && look_like_bytes(sample.lines, DiskSim, InSectors::Both)
}

/// What to do about a sample of five numbers whose addresses or sizes look like bytes.
pub(super) fn bytes_or_sectors(sample: &Sample<'_>) -> Option<String> {
    let five =
        shape_of(sample.lines, DiskSim).fits() && look_like_bytes(sample.lines, DiskSim, InSectors::Both);
    five.then(|| {
        "a known unit: addresses or sizes are all multiples of 512, as bytes are. If they are bytes, use --format \
         'columns:arrival_ms stream offset_bytes bytes op[read=1 write=0]' (arrival_ns where times are nanoseconds); if they \
         are sectors, choose disksim, flashsim, mqsim or ssdsim with --format"
            .into()
    })
}

pub(crate) struct DiskSim;

impl LineParser for DiskSim {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let arrival_ns = line.decimal(6, "a time in milliseconds")?;
        line.blanks()?;
        let stream = line.stream("a device number")?;
        line.blanks()?;
        let (lba, sectors, extent) = line.sectors()?;
        line.blanks()?;
        let flags = line.hex("hexadecimal flags")?;
        let (lba, sectors) = checked_sectors(lba, sectors, extent)?;
        let op = if flags & 1 == 1 { Op::Read } else { Op::Write };
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream, fua: false }))
    }
}

fn write(out: &mut Vec<u8>, request: &Request, _: Option<u128>) -> Result<(), Unwritable> {
    let flags = match request.op {
        Op::Read => 1,
        Op::Write => 0,
        Op::Trim | Op::Flush => {
            return Err(Unwritable("reads and writes only: disksim has no other operation"));
        }
    };
    let (ms, ns) = (request.arrival_ns / 1_000_000, request.arrival_ns % 1_000_000);
    // Writing to a Vec cannot fail.
    let _ = writeln!(out, "{ms}.{ns:06} {} {} {} {flags}", request.stream, request.lba, request.sectors);
    Ok(())
}
