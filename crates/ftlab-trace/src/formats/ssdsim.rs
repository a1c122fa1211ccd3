//! SSDsim's ASCII traces.

use ftlab_core::host::request::{Op, Request};

use super::disksim::in_bytes;
use super::mqsim::{time_and_place, whole_times};
use crate::format::{Format, Sample};
use crate::text::{Cursor, Fault, LineParser, TextReader, checked_sectors};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "ssdsim",
    summary: "ASCII traces of SSDsim (HUST); the same five numbers as mqsim's, so mqsim writes them",
    columns: "time device lba sectors operation",
    units: "time in whole nanoseconds, kept as it is; lba and sectors of 512 bytes; operation 1 = read, 0 = write; the \
            device becomes the stream",
    cannot_say: "trims, flushes and response times",
    argument: None,
    extensions: &["ssdsim"],
    example: "0 0 303568 8 0\n26214000 1 240840 6 0\n78643005 1 55596 6 1\n117963996 0 303576 8 0\n\
              530841004 0 303584 16 1\n",
    head: "",
    detect: |sample: &Sample<'_>| whole_times(sample, SsdSim) && !in_bytes(sample, &FORMAT),
    read: |input| Ok(Box::new(TextReader::new(input, SsdSim))),
    files_beside: None,
    write: None,
};

struct SsdSim;

impl LineParser for SsdSim {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let (arrival_ns, stream, lba, sectors, extent) = time_and_place(line)?;
        let op_at = line.position();
        let op = match line.integer("an operation: 1 for a read, 0 for a write")? {
            0 => Op::Write,
            1 => Op::Read,
            _ => return Err(Cursor::shape(op_at, "an operation: 1 for a read, 0 for a write")),
        };
        let (lba, sectors) = checked_sectors(lba, sectors, extent)?;
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream, fua: false }))
    }
}
