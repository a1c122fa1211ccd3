//! Binary traces: records of bytes, taken apart from blocks.
//!
//! A format is a [`RecordParser`]: it looks at the bytes where a record begins and says what is there. [`RecordReader`]
//! does the rest: blocks, records that cross them, ends in the middle of a record, and the place of a fault.

use std::io::{self, Read};

use ftlab_core::host::request::{Request, RequestSource, SECTOR_BYTES, SourceError};

use crate::input::{BadRecords, Input, Stream};
use crate::text::{Extent, sectors_of_bytes};

/// Bytes read at a time, and the longest record.
const BLOCK_BYTES: usize = 256 * 1024;

/// What the bytes at the begin of a record hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Record<T = Request> {
    /// A request, in a record of this length.
    Request(usize, T),
    /// Something else of this length: a header, or an event that is no request.
    Other(usize),
    /// The record goes on behind the bytes that are there.
    Incomplete,
}

/// What is wrong with a record, before its place in the file is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BadRecord {
    /// How far the next record is, when that can be told.
    length: Option<usize>,
    found: String,
    expected: String,
    /// Without this record nothing of the file can be understood.
    essential: bool,
}

impl BadRecord {
    #[cold]
    pub(crate) fn new(
        length: Option<usize>,
        found: impl std::fmt::Display,
        expected: impl Into<String>,
    ) -> Self {
        Self { length, found: found.to_string(), expected: expected.into(), essential: false }
    }

    /// A header without which nothing can be understood.
    pub(crate) fn header(found: impl std::fmt::Display, expected: impl Into<String>) -> Self {
        Self { essential: true, ..Self::new(None, found, expected) }
    }
}

/// Takes the records of a format apart.
pub(crate) trait RecordParser: Send {
    /// What requests are until the reader is done with them.
    type Item;

    /// What a record is called in messages.
    const NAME: &'static str = "record";

    /// What begins at the begin of `bytes`, which are not empty. Lengths are above 0 and at most those of `bytes`.
    fn parse(&mut self, bytes: &[u8]) -> Result<Record<Self::Item>, BadRecord>;

    /// After a record of unknown length: where in `bytes`, behind their begin, another record may begin.
    fn resume(&self, bytes: &[u8]) -> Option<usize> {
        let _ = bytes;
        None
    }
}

/// Little-endian numbers of a record.
pub(crate) fn le16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

pub(crate) fn le32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

pub(crate) fn le64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// A big-endian number of a record.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

#[inline(always)]
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

/// The sectors of `bytes` bytes from sector `lba`; `length` is that of the record.
#[inline(always)]
pub(crate) fn sectors_from(lba: u64, bytes: u64, length: usize) -> Result<(u64, u32), BadRecord> {
    let offset = lba.saturating_mul(SECTOR_BYTES.into());
    sectors_of_bytes(offset, bytes, Extent { address_at: 0, size_at: 0 }).map_err(|fault| {
        BadRecord::new(Some(length), format!("sector {lba}, {bytes} bytes"), fault.into_expected())
    })
}

/// Reads a binary trace.
pub(crate) struct RecordReader<P> {
    origin: String,
    input: Stream,
    parser: P,
    buffer: Vec<u8>,
    /// What is not yet parsed is `buffer[next..filled]`.
    next: usize,
    filled: usize,
    ended: bool,
    /// Bytes of the input ahead of the buffer.
    ahead: u64,
    records: u64,
    requests: u64,
    bad: BadRecords,
    failed: Option<SourceError>,
}

impl<P: RecordParser> RecordReader<P> {
    pub(crate) fn new(input: Input, parser: P) -> Self {
        Self {
            origin: input.origin().to_owned(),
            bad: input.bad_records(),
            input: input.into_stream(),
            parser,
            buffer: vec![0; BLOCK_BYTES],
            next: 0,
            filled: 0,
            ended: false,
            ahead: 0,
            records: 0,
            requests: 0,
            failed: None,
        }
    }

    fn error(&self, expected: impl Into<String>) -> SourceError {
        SourceError {
            origin: self.origin.clone(),
            line: (self.records > 0).then_some(self.records),
            expected: expected.into(),
            ..SourceError::default()
        }
    }

    /// Read more bytes behind those that are there.
    fn refill(&mut self) -> Result<(), SourceError> {
        self.buffer.copy_within(self.next..self.filled, 0);
        self.ahead += self.next as u64;
        self.filled -= self.next;
        self.next = 0;
        if self.filled == BLOCK_BYTES {
            return Err(self.error(format!("found a {} longer than {BLOCK_BYTES} bytes", P::NAME)));
        }
        // Records cross blocks, so a block is filled as far as it goes: few of them then begin in two.
        while self.filled < BLOCK_BYTES && !self.ended {
            match self.input.read(&mut self.buffer[self.filled..]) {
                Ok(0) => self.ended = true,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.error(self.input.explain(&error))),
            }
        }
        Ok(())
    }

    /// Go on behind a bad record, if that is allowed and possible.
    #[cold]
    fn leave_out(&mut self, bad: &BadRecord) -> Result<(), SourceError> {
        let at = self.ahead + self.next as u64;
        let error = SourceError {
            found: bad.found.chars().take(80).collect(),
            ..self.error(format!("{} (the {} at byte {at})", bad.expected, P::NAME))
        };
        if bad.essential {
            return Err(error);
        }
        self.bad.leave_out(error)?;
        if let Some(length) = bad.length {
            self.next += length.min(self.filled - self.next);
            return Ok(());
        }
        loop {
            let bytes = &self.buffer[self.next..self.filled];
            if let Some(distance) = self.parser.resume(bytes) {
                self.next += distance.clamp(1, bytes.len());
                return Ok(());
            }
            // The begin of the next record may lie across the end of what is there.
            const KEPT: usize = 16;
            self.next = self.filled - bytes.len().min(KEPT);
            if self.ended {
                self.next = self.filled;
                return Ok(());
            }
            self.refill()?;
        }
    }

    /// The next request; nothing at the end.
    #[inline(always)]
    pub(crate) fn next_item(&mut self) -> Result<Option<P::Item>, SourceError> {
        loop {
            let bytes = &self.buffer[self.next..self.filled];
            let parsed = if bytes.is_empty() { Ok(Record::Incomplete) } else { self.parser.parse(bytes) };
            match parsed {
                Ok(Record::Request(length, request)) => {
                    self.next += length;
                    self.records += 1;
                    return Ok(Some(request));
                }
                Ok(Record::Other(length)) => {
                    self.next += length;
                    self.records += 1;
                }
                Ok(Record::Incomplete) if !self.ended => self.refill()?,
                Ok(Record::Incomplete) if self.next < self.filled => {
                    let rest = self.filled - self.next;
                    self.records += 1;
                    let expected = format!("a whole {}: the file ends within it", P::NAME);
                    self.leave_out(&BadRecord::new(Some(rest), format!("{rest} bytes"), expected))?;
                }
                Ok(Record::Incomplete) => return Ok(None),
                Err(bad) => {
                    self.records += 1;
                    self.leave_out(&bad)?;
                }
            }
        }
    }

    pub(crate) fn parser(&self) -> &P {
        &self.parser
    }

    pub(crate) fn fraction_done(&self) -> Option<f64> {
        self.input.fraction_done()
    }
}

impl<P: RecordParser<Item = Request>> RecordReader<P> {
    fn fill_or_fail(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), SourceError> {
        let before = out.len();
        for _ in 0..max {
            match self.next_item()? {
                Some(request) => out.push(request),
                None if self.requests > 0 || out.len() > before => return Ok(()),
                None => {
                    return Err(SourceError { line: None, ..self.error("found no request in the file") });
                }
            }
        }
        Ok(())
    }
}

impl<P: RecordParser<Item = Request>> RequestSource for RecordReader<P> {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let before = out.len();
        if let Err(error) = self.fill_or_fail(out, max) {
            // The requests before the fault are delivered first.
            self.failed = Some(error.clone());
            if out.len() == before {
                return Err(error);
            }
        }
        self.requests += (out.len() - before) as u64;
        Ok(out.len() - before)
    }

    fn fraction_done(&self) -> Option<f64> {
        self.input.fraction_done()
    }

    fn skipped_records(&self) -> u64 {
        self.bad.skipped()
    }
}
