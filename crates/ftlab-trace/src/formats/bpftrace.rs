//! What our script of bpftrace prints, `examples/recording/block.bt`.

use ftlab_core::host::request::{Remark, Request};

use crate::events::{Loss, Lost};
use crate::format::{Format, Sample};
use crate::numbering::{Volumes, device_name};
use crate::rwbs::Rwbs;
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "bpftrace",
    summary: "what the script examples/recording/block.bt for bpftrace prints of the block tracepoints of Linux",
    columns: "TIME(ns) DEVICE RWBS SECTOR SECTORS COMM, under that header, with DEVICE as major,minor",
    units: "time in nanoseconds from the begin of the script, at the hand-over to the driver, kept as it is; lines of \
            different CPUs step back a little; sectors of 512 bytes; RWBS with D = discard, R or W, F alone or without data = \
            flush; F behind W = FUA, F before W = a flush and then the write; others (passed-through commands) are skipped; \
            the device becomes the stream, numbered in order of appearance; what bpftrace itself says (Attaching 3 probes...) is skipped, and events that it lost are a warning",
    cannot_say: "response times",
    argument: None,
    extensions: &["bpftrace"],
    example: "Attaching 3 probes...\n\
              TIME(ns) DEVICE RWBS SECTOR SECTORS COMM\n\
              2028119 254,0 WS 358151328 32 postgres\n\
              2144789 254,0 DS 366592000 12000 kworker/1:2H\n\
              2188011 259,0 RA 64 256 Web Content\n\
              10556929 254,0 FF 0 0 kworker/0:1H\n",
    head: "",
    detect: |sample: &Sample<'_>| {
        let mut parser = Bpftrace::default();
        shape_of(sample.lines, &mut parser);
        parser.begun
    },
    read: |input| Ok(Box::new(TextReader::new(input, Bpftrace::default()))),
    files_beside: None,
    write: None,
};

const HEADER: [&[u8]; 6] = [b"TIME(ns)", b"DEVICE", b"RWBS", b"SECTOR", b"SECTORS", b"COMM"];

/// Whether bpftrace says this itself, before the first line of a script.
pub(super) fn is_greeting(line: &[u8]) -> bool {
    line.starts_with(b"Attach")
}

#[derive(Default)]
struct Bpftrace {
    /// Whether the header has been seen.
    begun: bool,
    devices: Volumes<u64>,
    lost: Lost,
    /// The write of a line that also flushes.
    behind: Option<Request>,
}

impl LineParser for Bpftrace {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let start = line.position();
        // Greeting and header come again where outputs have been put together.
        if !self.begun || !line.peek().is_ascii_digit() {
            return self.other_line(line, start);
        }
        let arrival_ns = line.integer("a time in nanoseconds")?;
        line.blanks()?;
        let device_at = line.position();
        let major = line.integer("a device as major,minor")?;
        line.comma()?;
        let minor = line.integer("a minor device number")?;
        line.blanks()?;
        let rwbs_at = line.position();
        let rwbs = line.token();
        let rwbs = Rwbs::of(rwbs, rwbs_at)?;
        line.blanks()?;
        let address_at = line.position();
        let lba = line.integer("a sector number")?;
        line.blanks()?;
        let size_at = line.position();
        let sectors = line.integer("a size in sectors")?;
        line.skip_to_line_end();
        let Some(requests) = rwbs.requests(lba, sectors, Extent { address_at, size_at })? else {
            return Ok(None);
        };
        let stream = self.devices.number(&(major << 32 | minor & 0xffff_ffff), device_at)?;
        let request;
        (request, self.behind) = requests.at(arrival_ns, stream);
        Ok(Some(request))
    }

    fn behind(&mut self) -> Option<Request> {
        self.behind.take()
    }

    fn says_fua(&self) -> bool {
        true
    }

    fn remarks(&self) -> Vec<Remark> {
        self.lost.remark().into_iter().collect()
    }

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.devices.names(device_name)
    }
}

impl Bpftrace {
    /// A line that is no request.
    #[cold]
    fn other_line(&mut self, line: &mut Cursor<'_>, start: usize) -> Result<Option<Request>, Fault> {
        let text = line.skip_to_line_end();
        let words = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        if words.eq(HEADER) {
            self.begun = true;
        } else if self.begun && text.starts_with(b"Lost ") {
            let number = text.split(u8::is_ascii_whitespace).nth(1);
            let number = number.and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
            self.lost.add(Loss(number));
        } else if !is_greeting(text) {
            let expected = if self.begun { "a time in nanoseconds" } else { "the header of block.bt" };
            return Err(Cursor::header(start, expected.into()));
        }
        Ok(None)
    }
}

impl LineParser for &mut Bpftrace {
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        (**self).parse(line)
    }
}

#[cfg(test)]
mod tests {
    use super::HEADER;

    #[test]
    fn the_script_prints_what_is_read() {
        let script = include_str!("../../../../examples/recording/block.bt");
        let header = HEADER.map(|name| std::str::from_utf8(name).unwrap()).join(" ");
        assert!(script.contains(&format!(r#"printf("{header}\n")"#)));
        assert!(script.contains(r#"printf("%llu %d,%d %s %llu %u %s\n", nsecs - @begin, args->dev >> 20, "#));
        assert!(script.contains("args->rwbs, args->sector, args->nr_sector, args->comm);"));
    }
}
