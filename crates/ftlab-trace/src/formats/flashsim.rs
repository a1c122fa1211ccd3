//! ASCII traces of FlashSim: DiskSim's five columns, with sizes in pages.

use ftlab_core::host::request::{Op, Request};

use super::{Format, Sample};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, checked_sectors, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "flashsim",
    summary: "ASCII traces that come with FlashSim: DiskSim's columns, but sizes in pages",
    columns: "time device lba pages op",
    units: "time in milliseconds, decimal, exact to the nanosecond and kept as it is; lba in sectors of 512 bytes, pages of \
            4 KiB (FlashSim does not say; its sequential requests go on after 8 sectors for each); op 1 = read, 0 = write; the \
            device becomes the stream; as a line tells nothing of the unit, a trace is taken for one of these as well as for \
            disksim where at least five requests among its first lines go on behind the one before in pages, and not a \
            quarter as many in sectors",
    cannot_say: "trims, flushes, response times, and sizes that are no whole pages",
    argument: None,
    extensions: &["flashsim"],
    example: "640.875000\t0\t522424\t16\t1\n640.875000\t0\t522552\t16\t1\n640.875000\t0\t522680\t8\t1\n\
              641.000000\t0\t522744\t3\t1\n641.250000\t0\t522768\t1\t1\n652.5\t0\t64\t2\t0\n652.5\t0\t80\t2\t0\n",
    detect: |sample: &Sample<'_>| {
        let mut pairs = Pairs::default();
        shape_of(sample.lines, &mut pairs).fits() && pairs.speak_of_pages()
    },
    read: |input| Ok(Box::new(TextReader::new(input, FlashSim))),
    write: None,
    write_contents: None,
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
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream }))
    }
}

/// Counts requests that begin where the one before ends, by either unit of sizes.
#[derive(Default)]
struct Pairs {
    before: Option<Request>,
    in_pages: u32,
    in_sectors: u32,
}

impl Pairs {
    fn speak_of_pages(&self) -> bool {
        self.in_pages >= 5 && self.in_pages > 4 * self.in_sectors
    }
}

impl LineParser for &mut Pairs {
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let request = FlashSim.parse(line)?;
        if let (Some(before), Some(request)) = (self.before, &request) {
            let sectors = u64::from(before.sectors);
            self.in_pages += u32::from(request.lba == before.lba + sectors);
            self.in_sectors += u32::from(request.lba == before.lba + sectors / SECTORS_PER_PAGE);
        }
        self.before = request;
        Ok(request)
    }
}
