//! FIU's traces with the hashes of contents (SNIA IOTTA).

use ftlab_core::host::request::{Op, Request};

use crate::format::{Format, Sample};
use crate::numbering::{Volumes, device_name};
use crate::text::{Cursor, Fault, LineParser, TextReader, checked_sectors, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "fiu",
    summary: "FIU's traces of home, mail and web servers with content hashes (SNIA IOTTA: I/O deduplication)",
    columns: "time pid process lba sectors op major minor hash[...]",
    units: "time in nanoseconds, kept as it is; lba and sectors of 512 bytes; op R or W; major and minor device become the \
            stream, numbered in order of appearance; hash: MD5 in hexadecimal, one for the request or one for each sector \
            behind each other, which become one (FNV-1a, 128 bits); csv and parquet keep it as content_hash",
    cannot_say: "trims, flushes and response times",
    argument: None,
    extensions: &["fiu"],
    example: "467651 2522 kjournald 644661632 8 W 6 0 98b9cb7e1dd888f9dac2bf08af1c3cb2\n\
              520943 2522 kjournald 644661640 8 W 6 0 c0ac18a3def2e055d9913d0431241ccc\n\
              713646 3101 imapd 91250 8 R 6 0 98b9cb7e1dd888f9dac2bf08af1c3cb2\n\
              1754226 3101 imapd 91258 8 R 6 0 aad461f40ced9c7166a87fca5bc03d1f\n\
              2000000 2522 kjournald 512 8 W 6 1 98b9cb7e1dd888f9dac2bf08af1c3cb2\n",
    head: "",
    detect: |sample: &Sample<'_>| shape_of(sample.lines, Fiu::default()).fits(),
    read: |input| Ok(Box::new(TextReader::new(input, Fiu::default()))),
    files_beside: None,
    write: None,
};

#[derive(Default)]
struct Fiu {
    devices: Volumes<u64>,
    /// Of the last request; absent while nobody asks.
    content: Option<u128>,
}

impl LineParser for Fiu {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let arrival_ns = line.integer("a time in nanoseconds")?;
        line.blanks()?;
        line.integer("a process number")?;
        line.blanks()?;
        line.token();
        line.blanks()?;
        let (lba, sectors, extent) = line.sectors()?;
        line.blanks()?;
        let op_at = line.position();
        let op = match line.token() {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(Cursor::shape(op_at, "R or W")),
        };
        line.blanks()?;
        let device_at = line.position();
        let major = line.integer("a major device number")?;
        line.blanks()?;
        let minor = line.integer("a minor device number")?;
        line.blanks()?;
        let hashes = line.hashes()?;
        if let Some(content) = &mut self.content {
            *content = hashes.value();
        }
        let (lba, sectors) = checked_sectors(lba, sectors, extent)?;
        let stream = self.devices.number(&(major << 32 | minor & 0xffff_ffff), device_at)?;
        Ok(Some(Request { arrival_ns, lba, sectors, op, stream, fua: false }))
    }
    fn keep_contents(&mut self) {
        self.content.get_or_insert(0);
    }

    fn content(&self) -> Option<u128> {
        self.content
    }

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.devices.names(device_name)
    }
}
