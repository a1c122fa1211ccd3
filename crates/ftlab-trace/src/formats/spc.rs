//! SPC traces, as the UMass repository publishes them (Financial, WebSearch).

use ftlab_core::host::request::{Op, Request};

use crate::format::{Format, Sample};
use crate::text::{Cursor, Extent, Fault, LineParser, MAX_SECTORS, TextReader, shape_of};
use crate::units::{InSectors, look_like_bytes};
use ftlab_core::host::request::SECTOR_BYTES;

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "spc",
    summary: "Storage Performance Council traces of the UMass repository (Financial, WebSearch)",
    columns: "ASU,LBA,bytes,opcode,seconds[,...]",
    units: "LBA in 512-byte sectors of its ASU; the end of the request is rounded up to a sector; opcode r or w in \
            any case; seconds decimal, kept as they are; ASU becomes the stream, and the address spaces of ASUs lie \
            on top of each other (choose one with a volume)",
    cannot_say: "trims, flushes and response times",
    argument: None,
    extensions: &["spc"],
    example: "0,4096,8192,w,0.000000\n1,77,1000,R,0.012345\n0,4112,4096,w,1.500000\n\
              0,4120,4096,w,1.500210\n2,900,512,r,2.000000\n",
    head: "",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, Spc).fits() && !in_bytes(sample),
    read: |input| Ok(Box::new(TextReader::new(input, Spc))),
    files_beside: None,
    write: None,
};

/// Whether addresses look like bytes, and the name does not say that they are none.
fn in_bytes(sample: &Sample<'_>) -> bool {
    !sample.extension.is_some_and(|given| FORMAT.extensions.contains(&given))
        && look_like_bytes(sample.lines, Spc, InSectors::Address)
}

/// What to do about such a sample.
pub(super) fn bytes_or_sectors(sample: &Sample<'_>) -> Option<String> {
    (shape_of(sample.lines, Spc).fits() && in_bytes(sample)).then(|| {
        "a known unit: addresses are all multiples of 512, as bytes are. If they are bytes, use --format \
         'columns:stream,offset_bytes,bytes,op,arrival_s'; if they are sectors, --format spc"
            .into()
    })
}

struct Spc;

impl LineParser for Spc {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let stream = line.stream("an ASU number")?;
        line.comma()?;
        let address_at = line.position();
        let lba = line.integer("an LBA in sectors")?;
        line.comma()?;
        let size_at = line.position();
        let bytes = line.integer("a size in bytes")?;
        line.comma()?;
        let op_at = line.position();
        let op = match line.word() {
            b"r" | b"R" => Op::Read,
            b"w" | b"W" => Op::Write,
            _ => return Err(Cursor::shape(op_at, "an opcode r or w")),
        };
        line.comma()?;
        let arrival_ns = line.decimal(9, "a time in seconds")?;
        if line.at_comma() {
            // The specification allows further fields of the publisher's own.
            line.skip_to_line_end();
        }
        if lba >= MAX_SECTORS {
            return Err(Cursor::value(address_at, "a sector number below 2^54"));
        }
        let extent = Extent { address_at, size_at };
        let (lba, sectors) = crate::text::sectors_of_bytes(lba * u64::from(SECTOR_BYTES), bytes, extent)?;
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream, fua: false }))
    }
}
