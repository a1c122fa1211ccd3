//! libCacheSim's oracleGeneral traces.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use ftlab_core::host::request::{Op, Request};

use crate::format::{Format, Sample};
use crate::input::Epoch;
use crate::records::{BadRecord, Record, RecordParser, RecordReader, le32, le64};
use crate::text::MAX_SECTORS;

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "oracle_general",
    summary: "libCacheSim oracleGeneral traces of caches (objects, block stores, CDNs); binary",
    columns: "24 bytes: time u32, object u64, bytes u32, next access i64; little-endian",
    units: "time in seconds, counted from the first request; every record is a read, because the format has no \
            operations; objects become addresses in the order of their first access, one behind the other, each in as \
            many whole 4 KiB as its size takes; an object that outgrows its place moves behind the last; records of 0 \
            bytes are left out; the next access is not used; no volumes",
    cannot_say: "operations and addresses; times within a second; trims, flushes and response times",
    argument: None,
    extensions: &["oraclegeneral", "oracleGeneral"],
    example: "",
    head: include_str!("examples/oracle_general.txt"),
    detect: |sample: &Sample<'_>| detect(sample.bytes),
    read: |input| {
        let parser = OracleGeneral { epoch: input.epoch(), places: HashMap::default(), end: 0 };
        Ok(Box::new(RecordReader::new(input, parser)))
    },
    files_beside: None,
    write: None,
};

const RECORD_BYTES: usize = 24;
const PAGE_SECTORS: u64 = 8;
/// A trillion requests are more than any trace has.
const MAX_REQUESTS: i64 = 1 << 40;

/// What a record says about the next access to its object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Never,
    At(u64),
}

impl Next {
    /// Nothing when it makes no sense.
    fn of(record: &[u8]) -> Option<Next> {
        match le64(record, 16).cast_signed() {
            // Writers differ in how they say never.
            ..0 | i64::MAX => Some(Next::Never),
            next @ 0..MAX_REQUESTS => Some(Next::At(next.cast_unsigned())),
            _ => None,
        }
    }
}

/// The format has no mark of its own. But records say where their objects come next. That must be true of nearly all of
/// them, whether records are counted from 0 or from 1.
fn detect(bytes: &[u8]) -> bool {
    let records: Vec<&[u8]> = bytes.chunks_exact(RECORD_BYTES).collect();
    let nearly_all = |count: usize, all: usize| count * 16 >= all * 15;
    let plausible = |index: usize, first: usize| {
        let record = records[index];
        let next_is_true = match Next::of(record) {
            None => false,
            Some(Next::Never) => true,
            Some(Next::At(next)) => {
                next > (index + first) as u64
                    && usize::try_from(next)
                        .ok()
                        .and_then(|next| records.get(next - first))
                        .is_none_or(|other| le64(other, 4) == le64(record, 4))
            }
        };
        // All ones are an erased disk, not a time.
        next_is_true && le32(record, 0) != u32::MAX
    };
    let fits = |first| {
        let count = (0..records.len()).filter(|index| plausible(*index, first)).count();
        nearly_all(count, records.len())
    };
    let ordered = records.windows(2).filter(|pair| le32(pair[0], 0) <= le32(pair[1], 0)).count();
    !records.is_empty() && nearly_all(ordered, records.len() - 1) && (fits(0) || fits(1))
}

/// Where an object is.
#[derive(Debug, Clone, Copy)]
struct ObjectPlace {
    page: u64,
    pages: u32,
}

/// Objects are often hashes already, and otherwise numbers in sequence: one multiplication spreads both.
#[derive(Default)]
struct ObjectHasher(u64);

impl Hasher for ObjectHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64((*byte).into());
        }
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

struct OracleGeneral {
    epoch: Epoch,
    places: HashMap<u64, ObjectPlace, BuildHasherDefault<ObjectHasher>>,
    /// Pages in use.
    end: u64,
}

impl RecordParser for OracleGeneral {
    type Item = Request;

    fn parse(&mut self, bytes: &[u8]) -> Result<Record, BadRecord> {
        if bytes.len() < RECORD_BYTES {
            return Ok(Record::Incomplete);
        }
        let (time, object, size) = (le32(bytes, 0), le64(bytes, 4), le32(bytes, 12));
        if Next::of(bytes).is_none() {
            let expected = "the number of the next access, below 2^40, or none";
            return Err(BadRecord::new(Some(RECORD_BYTES), le64(bytes, 16), expected));
        }
        if size == 0 {
            return Ok(Record::Other(RECORD_BYTES));
        }
        let arrival_ns = self.epoch.since(time.into(), 1_000_000_000).ok_or_else(|| {
            let expected = "a time not before that of the first record, from which times are counted";
            BadRecord::new(Some(RECORD_BYTES), time, expected)
        })?;
        let sectors = size.div_ceil(512);
        let pages = sectors.div_ceil(PAGE_SECTORS as u32);
        let place = self.places.entry(object).or_insert(ObjectPlace { page: 0, pages: 0 });
        if place.pages < pages {
            if (self.end + u64::from(pages)) * PAGE_SECTORS > MAX_SECTORS {
                let expected = "objects of at most 2^63 bytes together";
                return Err(BadRecord::new(Some(RECORD_BYTES), size, expected));
            }
            *place = ObjectPlace { page: self.end, pages };
            self.end += u64::from(pages);
        }
        let lba = place.page * PAGE_SECTORS;
        Ok(Record::Request(
            RECORD_BYTES,
            Request { arrival_ns, lba, sectors, op: Op::Read, stream: 0, fua: false },
        ))
    }
}
