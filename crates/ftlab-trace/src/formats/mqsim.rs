//! MQSim's ASCII traces.

use std::io::Write;

use ftlab_core::host::request::{Op, Request};

use super::disksim::{DiskSim, in_bytes};
use crate::format::{Format, Sample};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, checked_sectors, shape_of};
use crate::writer::{LineWriter, Unwritable};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "mqsim",
    summary: "MQSim ASCII traces",
    columns: "time device lba sectors type",
    units: "time in whole nanoseconds, kept as it is; lba and sectors of 512 bytes; type 0 = write, any other number \
            = read; the device becomes the stream",
    cannot_say: "trims, flushes and response times",
    argument: None,
    extensions: &["mqsim"],
    example: "744525 0 779696 8 0\n1072442 0 492344 16 1\n1500000 1 128 64 1\n\
              2000001 0 779704 8 0\n12250000 1 192 64 1\n",
    head: "",
    detect: |sample: &Sample<'_>| whole_times(sample, MqSim) && !in_bytes(sample, &FORMAT),
    read: |input| Ok(Box::new(TextReader::new(input, MqSim))),
    files_beside: None,
    write: Some(|sink, _| Ok(Box::new(LineWriter::new(sink, "", write)))),
};

/// Whether times are whole nanoseconds. A line with a decimal time speaks for `DiskSim`, however few there are: whole
/// milliseconds are common there.
pub(crate) fn whole_times<P: LineParser>(sample: &Sample<'_>, parser: P) -> bool {
    let shape = shape_of(sample.lines, parser);
    shape.fits() && shape_of(sample.lines, DiskSim).fitting <= shape.fitting
}

/// Time, device, address and size, which `ssdsim` has as well, up to the last field.
#[inline(always)]
pub(super) fn time_and_place(line: &mut Cursor<'_>) -> Result<(u64, u16, u64, u64, Extent), Fault> {
    let arrival_ns = line.integer("a time in whole nanoseconds")?;
    line.blanks()?;
    let stream = line.stream("a device number")?;
    line.blanks()?;
    let (lba, sectors, extent) = line.sectors()?;
    line.blanks()?;
    Ok((arrival_ns, stream, lba, sectors, extent))
}

struct MqSim;

impl LineParser for MqSim {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let (arrival_ns, stream, lba, sectors, extent) = time_and_place(line)?;
        let kind = line.integer("a type: 0 for a write, 1 for a read")?;
        let (lba, sectors) = checked_sectors(lba, sectors, extent)?;
        let op = if kind == 0 { Op::Write } else { Op::Read };
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream, fua: false }))
    }
}

fn write(out: &mut Vec<u8>, request: &Request, _: Option<u128>) -> Result<(), Unwritable> {
    let kind = match request.op {
        Op::Read => 1,
        Op::Write => 0,
        Op::Trim | Op::Flush => {
            return Err(Unwritable("reads and writes only: mqsim has no other operation"));
        }
    };
    // Writing to a Vec cannot fail.
    let _ =
        writeln!(out, "{} {} {} {} {kind}", request.arrival_ns, request.stream, request.lba, request.sectors);
    Ok(())
}
