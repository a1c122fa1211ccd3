//! ASCII traces of FlashSim: DiskSim's five columns, with sizes in pages.

use std::collections::{BTreeMap, BTreeSet};

use ftlab_core::host::request::{Op, Request};

use super::disksim::{self, DiskSim};
use super::{Format, Sample};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, checked_sectors, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "flashsim",
    summary: "ASCII traces that come with FlashSim: DiskSim's columns, but sizes in pages",
    columns: "time device lba pages op",
    units: "time in milliseconds, decimal, exact to the nanosecond and kept as it is; lba in sectors of 512 bytes, pages of \
            4 KiB (FlashSim does not say; its sequential requests go on after 8 sectors for each); op 1 = read, 0 = write; the \
            device becomes the stream; as a line tells nothing of the unit, a trace is taken for one of these rather than for \
            disksim only where at least five of the first 200 requests, of two sizes or more, go on behind the one before \
            in pages, four times as many as in sectors, and nothing speaks of sectors",
    cannot_say: "trims, flushes, response times, and sizes that are no whole pages",
    argument: None,
    extensions: &["flashsim"],
    example: "640.875000\t0\t522424\t16\t1\n640.875000\t0\t522552\t16\t1\n640.875000\t0\t522680\t8\t1\n\
              641.000000\t0\t522744\t3\t1\n641.250000\t0\t522768\t1\t1\n652.5\t0\t64\t2\t0\n652.5\t0\t80\t2\t0\n",
    detect: |sample: &Sample<'_>| {
        shape_of(sample.lines, FlashSim).fits() && unit_of_sizes(sample) != Some(Unit::Sectors)
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

/// What sizes are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Sectors,
    Pages,
}

/// The unit of the sizes of lines that both `disksim` and `flashsim` can read, if only one is supported by them or the
/// extension says so.
pub(super) fn unit_of_sizes(sample: &Sample<'_>) -> Option<Unit> {
    let named = |format: &Format| sample.extension.is_some_and(|given| format.extensions.contains(&given));
    if named(&disksim::FORMAT) {
        return Some(Unit::Sectors);
    }
    if named(&FORMAT) {
        return Some(Unit::Pages);
    }
    let mut sizes = Sizes::default();
    let fitting = shape_of(sample.lines, &mut sizes).fitting;
    let other_flags = fitting.saturating_sub(shape_of(sample.lines, FlashSim).fitting) >= ENOUGH as usize;
    match (other_flags || sizes.speak_of_sectors(), sizes.speak_of_pages()) {
        (true, false) => Some(Unit::Sectors),
        (false, true) => Some(Unit::Pages),
        _ => None,
    }
}

/// Requests that say the same are no chance.
const ENOUGH: u32 = 5;

/// Evidence for the unit of sizes. One size alone says little: a stride looks like a unit.
#[derive(Default)]
struct Sizes {
    ends: BTreeMap<u16, Request>,
    requests: u32,
    /// Of requests, as they are written.
    distinct: BTreeSet<u32>,
    whole_pages: u32,
    /// Requests that go on where the one before on their device ends, by either unit.
    in_sectors: u32,
    in_pages: u32,
    /// Sizes of those that were gone on from in pages.
    gone_on_from: BTreeSet<u32>,
}

impl Sizes {
    fn speak_of_sectors(&self) -> bool {
        // Nobody's requests are all multiples of 32 KiB, of several sizes.
        let all_pages = self.whole_pages == self.requests && self.requests >= 20 && self.distinct.len() >= 3;
        all_pages || (self.in_sectors >= ENOUGH && self.in_sectors > 4 * self.in_pages)
    }

    fn speak_of_pages(&self) -> bool {
        let sizes = self.gone_on_from.len();
        self.in_pages >= ENOUGH && sizes >= 2 && self.in_pages > 4 * self.in_sectors
    }
}

impl LineParser for &mut Sizes {
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let request = DiskSim.parse(line)?;
        if let Some(request) = request {
            let size = request.sectors;
            self.requests += 1;
            self.distinct.insert(size);
            self.whole_pages += u32::from(u64::from(size).is_multiple_of(SECTORS_PER_PAGE));
            let before = self.ends.insert(request.stream, request);
            // A single page that is gone on from in sectors was less than a page before sizes were rounded up.
            if let Some(before) = before.filter(|before| before.sectors > 1) {
                let (gone, size) = (request.lba.wrapping_sub(before.lba), u64::from(before.sectors));
                self.in_sectors += u32::from(gone == size);
                if gone == size * SECTORS_PER_PAGE {
                    self.in_pages += 1;
                    self.gone_on_from.insert(before.sectors);
                }
            }
        }
        Ok(request)
    }
}
