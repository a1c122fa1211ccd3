//! HP SRT traces of HP-UX machines.

use ftlab_core::host::request::{Op, Request};

use crate::format::{Format, Sample};
use crate::records::{BadRecord, Record, RecordParser, RecordReader, be32};
use crate::text::{Extent, sectors_of_bytes};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "hp_srt",
    summary: "HP SRT traces of HP-UX machines, versions 1.1 to 1.6 (HP Labs; DiskSim calls them hpl); binary",
    columns: "a header of text up to a form feed; then records of 13 u32 or more, big-endian: length, version and type, \
              seconds, microseconds, start, stop, bytes, sector, device, driver, cylinder, flags, origin[, ...]",
    units: "time from the begin of the trace; sectors as long as a line of the header with \"sector\" says, a power \
            of two from 128 to 4096; else of 256 bytes; requests are rounded out to sectors of 512; flag bit 0 set = \
            read; bits 8 to 23 of the device (controller and unit, without the partition) become the stream; records \
            of type 1 are requests, those of type 4, whose times are suspect, are left out; start and stop, which \
            give the response time, are not used",
    cannot_say: "trims and flushes; response times are there but not used",
    argument: None,
    extensions: &["srt"],
    example: "",
    head: include_str!("examples/hp_srt.txt"),
    detect: |sample: &Sample<'_>| {
        Header::of(sample.bytes).is_some_and(|header| {
            let records = &sample.bytes[header.length..];
            records.is_empty() || RecordKind::of(records).is_ok()
        })
    },
    read: |input| Ok(Box::new(RecordReader::new(input, HpSrt { sector_bytes: None }))),
    files_beside: None,
    write: None,
};

const FORM_FEED: u8 = 0x0c;
/// Headers are a screenful of text.
const MAX_HEADER_BYTES: usize = 64 * 1024;
const MIN_RECORD_BYTES: usize = 13 * 4;
const MAX_RECORD_BYTES: usize = 4096;
const DEFAULT_SECTOR_BYTES: u64 = 256;

/// The text ahead of the records.
struct Header {
    /// With the form feed at its end.
    length: usize,
    sector_bytes: u64,
}

impl Header {
    /// The header at the begin of `bytes`, if it ends there.
    fn of(bytes: &[u8]) -> Option<Header> {
        let searched = &bytes[..bytes.len().min(MAX_HEADER_BYTES)];
        let end = memchr::memchr(FORM_FEED, searched)?;
        let text = String::from_utf8_lossy(&searched[..end]).to_lowercase();
        text.lines().find(|line| line.trim_start().starts_with("tracedate"))?;
        let numbers = |line: &str| -> Option<u64> {
            let mut words = line.split(|letter: char| !letter.is_ascii_digit());
            words.find_map(|word| {
                word.parse()
                    .ok()
                    .filter(|bytes: &u64| bytes.is_power_of_two() && (128..=4096).contains(bytes))
            })
        };
        let stated = text.lines().filter(|line| line.contains("sector")).find_map(numbers);
        Some(Header { length: end + 1, sector_bytes: stated.unwrap_or(DEFAULT_SECTOR_BYTES) })
    }
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordKind {
    Io,
    Suspect,
}

impl RecordKind {
    /// Kind and length of the record at the begin of `bytes`.
    fn of(bytes: &[u8]) -> Result<Option<(RecordKind, usize)>, BadRecord> {
        if bytes.len() < 8 {
            return Ok(None);
        }
        let (length, id) = (be32(bytes, 0) as usize, be32(bytes, 4));
        if !(MIN_RECORD_BYTES..=MAX_RECORD_BYTES).contains(&length) || !length.is_multiple_of(4) {
            let expected = format!("a length from {MIN_RECORD_BYTES} to {MAX_RECORD_BYTES} bytes, in fours");
            return Err(BadRecord::new(None, length, expected));
        }
        let kind = match (id >> 16, id & 0xffff) {
            (1..=6, 1) => RecordKind::Io,
            (1..=6, 4) => RecordKind::Suspect,
            (1..=6, kind) => {
                let expected = "a record of type 1 (request) or 4 (suspect request)";
                return Err(BadRecord::new(Some(length), format!("type {kind}"), expected));
            }
            (version, _) => {
                let found = format!("version 1.{version}");
                return Err(BadRecord::new(None, found, "a version from 1.1 to 1.6"));
            }
        };
        Ok(Some((kind, length)))
    }
}

struct HpSrt {
    /// Known from the header on.
    sector_bytes: Option<u64>,
}

impl RecordParser for HpSrt {
    type Item = Request;

    fn parse(&mut self, bytes: &[u8]) -> Result<Record, BadRecord> {
        let Some(sector_bytes) = self.sector_bytes else {
            let Some(header) = Header::of(bytes) else {
                let ends = memchr::memchr(FORM_FEED, bytes).is_some() || bytes.len() >= MAX_HEADER_BYTES;
                return if ends {
                    let found = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
                    Err(BadRecord::header(found, "a header of text with a tracedate, up to a form feed"))
                } else {
                    Ok(Record::Incomplete)
                };
            };
            self.sector_bytes = Some(header.sector_bytes);
            return Ok(Record::Other(header.length));
        };
        let Some((kind, length)) = RecordKind::of(bytes)? else { return Ok(Record::Incomplete) };
        if bytes.len() < length {
            return Ok(Record::Incomplete);
        }
        if kind == RecordKind::Suspect {
            return Ok(Record::Other(length));
        }
        let word = |index: usize| be32(bytes, index * 4);
        let (seconds, micros, size, sector) = (word(2), word(3), word(6), word(7));
        if micros >= 1_000_000 {
            return Err(BadRecord::new(Some(length), micros, "microseconds of a second, below 1000000"));
        }
        let offset = u64::from(sector) * sector_bytes;
        let (lba, sectors) = sectors_of_bytes(offset, size.into(), Extent { address_at: 0, size_at: 0 })
            .map_err(|fault| BadRecord::new(Some(length), size, fault.into_expected()))?;
        Ok(Record::Request(
            length,
            Request {
                arrival_ns: u64::from(seconds) * 1_000_000_000 + u64::from(micros) * 1000,
                lba,
                sectors,
                op: if word(11) & 1 == 1 { Op::Read } else { Op::Write },
                stream: (word(8) >> 8) as u16,
                fua: false,
            },
        ))
    }

    fn resume(&self, bytes: &[u8]) -> Option<usize> {
        // A record that is followed by another, or by the end of what is there.
        let is_record = |at: usize| match RecordKind::of(&bytes[at..]) {
            Ok(Some((_, length))) => match bytes.get(at + length..) {
                Some(next) => RecordKind::of(next).is_ok(),
                None => false,
            },
            _ => false,
        };
        (4..bytes.len()).step_by(4).find(|at| is_record(*at))
    }
}
