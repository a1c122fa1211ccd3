//! Loads of blkreplay.

use ftlab_core::host::request::{Op, Request};

use crate::format::{Format, Sample};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, checked_sectors, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "blkreplay",
    summary: "loads of blkreplay, such as the natural loads of 1&1's data centre, 2012",
    columns: "start ; sector ; length ; op ; replay_delay ; replay_duration",
    units: "start in decimal seconds, kept as it is; sector and length in sectors of 512 bytes; op R or W, with letters of \
            blktrace behind it (RA = read ahead, WF = a write that is FUA), or D for a discard; the delays of a replay \
            are not used; lines without a semicolon (licence, notices) and headings are skipped",
    cannot_say: "flushes, volumes; response times only where the load was replayed, and they are not used",
    argument: None,
    extensions: &["load"],
    example: "start ; sector; length ; op ;  replay_delay=0 ; replay_duration=0\n\
              \x20     0.000000000 ;     37766853 ;   64 ; W ; 0.0 ; 0.0\n\
              \x20     0.449518165 ;     37766917 ;   14 ; W ; 0.0 ; 0.0\n\
              \x20     0.466638358 ;        57432 ;    8 ; RA ; 0.0 ; 0.0\n\
              \x20     1.000000021 ;     37766933 ;    8 ; W ; 0.0 ; 0.0\n",
    head: "",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, BlkReplay).fits(),
    read: |input| Ok(Box::new(TextReader::new(input, BlkReplay))),
    files_beside: None,
    write: None,
};

struct BlkReplay;

const SEMICOLON: &str = "a semicolon before the next field";

impl LineParser for BlkReplay {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        if !line.peek().is_ascii_digit() {
            let rest = line.rest_of_line();
            if memchr::memchr(b';', rest).is_none()
                || rest.starts_with(b"start")
                || rest.starts_with(b"orig_start")
            {
                line.skip_to_line_end();
                return Ok(None);
            }
        }
        let arrival_ns = line.decimal(9, "a start in seconds")?;
        line.mark(b';', SEMICOLON)?;
        let address_at = line.position();
        let lba = line.integer("a sector number")?;
        line.mark(b';', SEMICOLON)?;
        let size_at = line.position();
        let sectors = line.integer("a length in sectors")?;
        line.mark(b';', SEMICOLON)?;
        let op_at = line.position();
        let letters = line.letters();
        let op = match letters.first() {
            Some(b'R' | b'r') => Op::Read,
            Some(b'W' | b'w') => Op::Write,
            Some(b'D' | b'd') => Op::Trim,
            _ => return Err(Cursor::shape(op_at, "an operation R, W or D")),
        };
        line.mark(b';', SEMICOLON)?;
        line.decimal(9, "a replay delay in seconds")?;
        line.mark(b';', SEMICOLON)?;
        line.decimal(9, "a replay duration in seconds")?;
        let (lba, sectors) = checked_sectors(lba, sectors, Extent { address_at, size_at })?;
        let fua = op == Op::Write && letters.contains(&b'F');
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream: 0, fua }))
    }

    fn says_fua(&self) -> bool {
        true
    }
}
