//! What biosnoop prints: BCC's tool, its port to libbpf, and scripts of bpftrace with the same columns.

use ftlab_core::host::request::{Op, Request};

use super::bpftrace::is_greeting;
use crate::format::{Format, Sample};
use crate::numbering::{Volumes, plain_name};
use crate::rwbs::Rwbs;
use crate::text::{Cursor, Extent, Fault, LineParser, MAX_SECTORS, TextReader, sectors_of_bytes, shape_of};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "biosnoop",
    summary: "output of biosnoop (BCC and libbpf-tools), and of bpftrace scripts that print its columns",
    columns: "TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms), under that header; TIME(ms) and TIME(us) do as well",
    units: "TIME is the completion, in seconds from the first line; the arrival is TIME - LAT - QUE (0 where that lies \
            before the begin), so arrivals step back a little; SECTOR of 512 bytes; BYTES rounded out to sectors, 0 = \
            flush; T is R or W, D for a discard or F for a flush, and with libbpf's tool an rwbs as blkparse has it: F behind W = \
            FUA, F before W = a flush and then the write; the disk becomes the stream, numbered in order \
            of appearance",
    cannot_say: "times finer than those of LAT (10 us); flushes and discards with most versions; bpftrace's own biosnoop.bt \
                 has neither address nor size and cannot be read (examples/recording/block.bt takes its place); response \
                 times are not used otherwise",
    argument: None,
    extensions: &["biosnoop"],
    example: "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  LAT(ms)\n\
              0.000000    jbd2/sda1-8    1957    sda       W 21896      4096      0.41\n\
              0.000104    jbd2/sda1-8    1957    sda       W 21904      65536     0.62\n\
              0.013842    Web Content    1811    sdb       R 1053184    8192     51.03\n\
              1.000001    cksum          2231    sda       R 64         512       0.12\n",
    head: "",
    detect: |sample: &Sample<'_>| {
        let mut parser = Biosnoop::default();
        shape_of(sample.lines, &mut parser);
        parser.layout.is_some() || parser.lacks_addresses
    },
    read: |input| Ok(Box::new(TextReader::new(input, Biosnoop::default()))),
    files_beside: None,
    write: None,
};

/// More columns than any tool prints, and more words than a line of it has.
const MAX_WORDS: usize = 32;

/// Which word of a line is what. A command may have blanks, so what stands behind it is counted from the end.
#[derive(Debug, Clone, Copy)]
struct HeaderColumns {
    columns: usize,
    time: usize,
    /// Decimal places of the unit of time above nanoseconds.
    scale: usize,
    /// From here on words are counted from the end.
    command: usize,
    disk: Option<usize>,
    kind: usize,
    sector: usize,
    bytes: usize,
    queued: Option<usize>,
    latency: Option<usize>,
}

impl HeaderColumns {
    fn of(header: &[u8]) -> Option<Self> {
        let names: Vec<&[u8]> =
            header.split(u8::is_ascii_whitespace).filter(|name| !name.is_empty()).collect();
        let place = |wanted: &[u8]| names.iter().position(|name| *name == wanted);
        let units: [(&[u8], usize); 3] = [(b"TIME(s)", 9), (b"TIME(ms)", 6), (b"TIME(us)", 3)];
        let (time, scale) = units.iter().find_map(|(name, scale)| Some((place(name)?, *scale)))?;
        Some(Self {
            columns: names.len(),
            time,
            scale,
            command: place(b"COMM").unwrap_or(names.len()),
            disk: place(b"DISK"),
            kind: place(b"T")?,
            sector: place(b"SECTOR")?,
            bytes: place(b"BYTES")?,
            queued: place(b"QUE(ms)"),
            latency: place(b"LAT(ms)"),
        })
        .filter(|layout| layout.columns <= MAX_WORDS)
    }
}

/// Whether this is the header of bpftrace's biosnoop.bt, in any of its versions.
fn lacks_addresses(header: &[u8]) -> bool {
    let has = |wanted: &[u8]| header.split(u8::is_ascii_whitespace).any(|name| name == wanted);
    header.starts_with(b"TIME(") && has(b"COMM") && has(b"PID") && has(b"LAT(ms)") && !has(b"SECTOR")
}

const WITHOUT_ADDRESSES: &str = "addresses and sizes, which biosnoop.bt of bpftrace does not print: record with \
                                 examples/recording/block.bt of ftlab, with BCC's biosnoop, or with blktrace";

#[derive(Default)]
struct Biosnoop {
    layout: Option<HeaderColumns>,
    /// Whether a header has been seen that has no place for them.
    lacks_addresses: bool,
    disks: Volumes<Vec<u8>>,
    /// The write of a line that also flushes.
    behind: Option<Request>,
}

impl LineParser for Biosnoop {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let start = line.position();
        // The header comes again where outputs have been put together.
        if self.layout.is_none() || line.peek() == b'T' {
            let header = line.skip_to_line_end();
            if self.layout.is_none() && is_greeting(header) {
                return Ok(None);
            }
            self.lacks_addresses |= lacks_addresses(header);
            self.layout = Some(HeaderColumns::of(header).ok_or_else(|| {
                let wanted = "a header with TIME(s), COMM, T, SECTOR and BYTES";
                Cursor::header(start, if self.lacks_addresses { WITHOUT_ADDRESSES } else { wanted }.into())
            })?);
            return Ok(None);
        }
        let Some(layout) = self.layout else { return Ok(None) };
        let mut places = [0; MAX_WORDS];
        let mut words = 0;
        while !line.at_line_end() {
            if words == MAX_WORDS {
                return Err(Cursor::shape(line.position(), "the end of the line"));
            }
            places[words] = line.position();
            words += 1;
            line.token();
        }
        let end = line.position();
        if words < layout.columns {
            return Err(Cursor::shape(end, "as many fields as the header has"));
        }
        let place = |column: usize| {
            let behind_command = column > layout.command;
            places[if behind_command { words - layout.columns + column } else { column }]
        };
        line.seek(place(layout.time));
        let time_ns = line.decimal(layout.scale, "a time")?;
        line.seek(place(layout.kind));
        let kind_at = line.position();
        let rwbs = Rwbs::of(line.token(), kind_at).ok().filter(|rwbs| rwbs.op.is_some());
        let rwbs = rwbs.ok_or_else(|| Cursor::shape(kind_at, "R, W, D or F"))?;
        let extent = Extent { address_at: place(layout.sector), size_at: place(layout.bytes) };
        line.seek(extent.size_at);
        let bytes = line.integer("a size in bytes")?;
        let rwbs = if bytes == 0 { Rwbs::FLUSH } else { rwbs };
        let is_flush = rwbs.op == Some(Op::Flush);
        let mut lba = 0;
        // A flush has no sector; tools print what they find there, -1 among others.
        if !is_flush {
            line.seek(extent.address_at);
            lba = line.integer("a sector number")?;
        }
        let mut spent_ns = 0u64;
        for column in [layout.queued, layout.latency].into_iter().flatten() {
            line.seek(place(column));
            // An unknown span is printed as a question mark.
            if line.peek() != b'?' {
                spent_ns = spent_ns.saturating_add(line.decimal(6, "a span in milliseconds")?);
            }
        }
        let stream = match layout.disk {
            Some(column) => {
                line.seek(place(column));
                self.disks.number(line.token(), place(column))?
            }
            None => 0,
        };
        line.seek(end);
        let arrival_ns = time_ns.saturating_sub(spent_ns);
        if lba >= MAX_SECTORS {
            return Err(Cursor::value(extent.address_at, "a sector number below 2^54"));
        }
        let (lba, sectors) = if is_flush { (0, 0) } else { sectors_of_bytes(lba * 512, bytes, extent)? };
        let Some(requests) = rwbs.requests(lba, sectors.into(), extent)? else { return Ok(None) };
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

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.disks.names(plain_name)
    }
}

impl LineParser for &mut Biosnoop {
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        (**self).parse(line)
    }
}
