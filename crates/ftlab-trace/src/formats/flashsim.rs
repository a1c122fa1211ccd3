//! ASCII traces of FlashSim: DiskSim's five columns, with sizes in pages.

use ftlab_core::host::request::{Op, Request};

use super::disksim::{DiskSim, in_bytes};
use crate::format::{Format, Sample};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, checked_sectors, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "flashsim",
    summary: "ASCII traces that come with FlashSim: DiskSim's columns, but sizes in pages",
    columns: "time device lba pages op",
    units: "time in milliseconds, decimal, exact to the nanosecond and kept as it is; lba in sectors of 512 bytes, pages of \
            4 KiB (FlashSim does not say: its sequential requests go on after 8 sectors for each); op 1 = read, 0 = write; the \
            device becomes the stream; nothing in a line tells the unit of sizes, so disksim fits whatever flashsim fits; one \
            has to be named, by the extension or as the format",
    cannot_say: "trims, flushes, response times, and sizes that are no whole pages",
    argument: None,
    extensions: &["flashsim"],
    example: "640.875000\t0\t522424\t16\t1\n640.875000\t0\t522552\t16\t1\n640.875000\t0\t522680\t8\t1\n\
              641.000000\t0\t522744\t3\t1\n641.250000\t0\t522768\t1\t1\n652.5\t0\t64\t2\t0\n652.5\t0\t80\t2\t0\n",
    head: "",
    detect: |sample: &Sample<'_>| {
        shape_of(sample.lines, FlashSim).fits() && !has_other_flags(sample) && !in_bytes(sample, &FORMAT)
    },
    read: |input| Ok(Box::new(TextReader::new(input, FlashSim))),
    files_beside: None,
    write: None,
};

const SECTORS_PER_PAGE: u64 = 8;

struct FlashSim;

impl LineParser for FlashSim {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let arrival_ns = line.decimal(6, "a time in milliseconds")?;
        line.blanks()?;
        let stream = line.stream("a device number")?;
        line.blanks()?;
        let address_at = line.position();
        let lba = line.integer("a sector number")?;
        line.blanks()?;
        let size_at = line.position();
        let pages = line.integer("a size in pages")?;
        line.blanks()?;
        let op_at = line.position();
        let op = match line.word() {
            b"0" => Op::Write,
            b"1" => Op::Read,
            _ => return Err(Cursor::shape(op_at, "0 (write) or 1 (read)")),
        };
        let sectors = pages.saturating_mul(SECTORS_PER_PAGE);
        let (lba, sectors) = checked_sectors(lba, sectors, Extent { address_at, size_at })?;
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream, fua: false }))
    }
}

/// Lines with flags that only `disksim` has, from which on a trace is none of these.
const ENOUGH: usize = 5;

/// Whether flags say that a trace which both `disksim` and `flashsim` could read is none of these. Sizes and addresses
/// never do: whatever they look like, either unit may have made them.
fn has_other_flags(sample: &Sample<'_>) -> bool {
    let other =
        shape_of(sample.lines, DiskSim).fitting.saturating_sub(shape_of(sample.lines, FlashSim).fitting);
    other >= ENOUGH && !sample.extension.is_some_and(|given| FORMAT.extensions.contains(&given))
}
