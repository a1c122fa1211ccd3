//! The master trace of JESD219A.

use ftlab_core::host::request::{Op, Request};

use crate::format::{Format, Sample};
use crate::text::{Cursor, Fault, LineParser, TextReader, checked_sectors, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "jesd219",
    summary: "the master trace of JEDEC's client workload, JESD219A, 2012, and its test traces",
    columns: "command lba sectors",
    units: "lba and sectors in sectors of 512 bytes; commands Write and Trims (or Trim), upper or lower case, and Flush, which \
            stands alone or with numbers that are not used; known from programs that replay it, not from the standard",
    cannot_say: "times: all requests arrive at once, as the trace is meant to be replayed; reads, volumes and response times",
    argument: None,
    extensions: &["jesd219"],
    example: "Write 4096 8\nWrite 4104 8\nTrims 81920 2048\nFlush\nWrite 1250304 64\nWrite 98312 24\n",
    head: "",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, Jesd219).fits(),
    read: |input| Ok(Box::new(TextReader::new(input, Jesd219))),
    files_beside: None,
    write: None,
};

struct Jesd219;

impl LineParser for Jesd219 {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        line.skip_blanks();
        let op_at = line.position();
        let command = line.letters();
        let op = if command.eq_ignore_ascii_case(b"write") {
            Op::Write
        } else if command.eq_ignore_ascii_case(b"trims") || command.eq_ignore_ascii_case(b"trim") {
            Op::Trim
        } else if command.eq_ignore_ascii_case(b"flush") {
            if !matches!(line.peek(), b'\r' | b'\n') {
                line.blanks()?;
            }
            while !line.at_line_end() {
                line.integer("a number behind Flush, or the end of the line")?;
            }
            line.end_of_fields()?;
            return Ok(Some(Request {
                arrival_ns: 0,
                lba: 0,
                sectors: 0,
                op: Op::Flush,
                stream: 0,
                fua: false,
            }));
        } else {
            return Err(Cursor::shape(op_at, "Write, Trims or Flush"));
        };
        line.blanks()?;
        let (lba, sectors, extent) = line.sectors()?;
        line.end_of_fields()?;
        let (lba, sectors) = checked_sectors(lba, sectors, extent)?;
        Ok(Some(Request { arrival_ns: 0, lba, sectors, op, stream: 0, fua: false }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flushes_and_blanks_may_look_otherwise() {
        let lines = b" Write 8 16\r\n\tTRIM 0  8 \r\n Flush 0 0\nflush\n";
        let mut requests = Vec::new();
        let mut source = (FORMAT.read)(crate::input::Input::from_bytes("t", lines.to_vec())).unwrap();
        while source.fill(&mut requests, 3).unwrap() > 0 {}
        let found: Vec<_> = requests.iter().map(|r| (r.op, r.lba, r.sectors)).collect();
        let flush = (Op::Flush, 0, 0);
        assert_eq!(found, [(Op::Write, 8, 16), (Op::Trim, 0, 8), flush, flush]);
    }
}
