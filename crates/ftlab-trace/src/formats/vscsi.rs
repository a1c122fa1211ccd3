//! VMware vSCSI traces, as CloudPhysics published them.

use ftlab_core::host::request::{Op, Request};

use crate::format::{Format, Sample};
use crate::input::Epoch;
use crate::records::{BadRecord, Record, RecordParser, RecordReader, le16, le32, le64, sectors_from};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "vscsi",
    summary: "VMware vSCSI traces of virtual machines' disks, both versions (CloudPhysics); binary",
    columns: "version 1, 32 bytes: number u32, bytes u32, segments u32, command u16, version u16, lba u64, time u64; \
              version 2, 40 bytes: command u16, version u16, number u32, bytes u32, segments u32, lba u64, time u64, \
              response time u64; little-endian",
    units: "time in microseconds, counted from the first request; lba of 512 bytes; the high byte of the version is 1 or \
            2; SCSI reads and writes of 6 to 16 bytes are requests and SYNCHRONIZE CACHE is a flush; other commands \
            are left out, among them UNMAP and WRITE SAME, whose ranges are not in the trace; no volumes",
    cannot_say: "volumes; the ranges of trims (UNMAP, WRITE SAME); response times are in version 2 and not used",
    argument: None,
    extensions: &["vscsi"],
    example: "",
    head: include_str!("examples/vscsi.txt"),
    detect: |sample: &Sample<'_>| {
        RecordVersion::of(sample.bytes).is_some_and(|layout| layout.fits(sample.bytes))
    },
    read: |input| {
        let parser = Vscsi { epoch: input.epoch(), layout: None };
        Ok(Box::new(RecordReader::new(input, parser)))
    },
    files_beside: None,
    write: None,
};

/// Where the fields of a record are.
#[derive(Debug, Clone, Copy)]
struct RecordVersion {
    record_bytes: usize,
    version: u8,
    command_at: usize,
    size_at: usize,
}

const VERSION_1: RecordVersion = RecordVersion { record_bytes: 32, version: 1, command_at: 12, size_at: 4 };
const VERSION_2: RecordVersion = RecordVersion { record_bytes: 40, version: 2, command_at: 0, size_at: 8 };
const LBA_AT: usize = 16;
const TIME_AT: usize = 24;

impl RecordVersion {
    /// The layout of a file that begins with `bytes`.
    fn of(bytes: &[u8]) -> Option<RecordVersion> {
        [VERSION_1, VERSION_2].into_iter().find(|layout| layout.is_record(bytes))
    }

    /// Whether `bytes` begin with a whole record. Its version follows the command, and commands have 8 of their 16 bits.
    fn is_record(self, bytes: &[u8]) -> bool {
        bytes.len() >= self.record_bytes
            && bytes[self.command_at + 1] == 0
            && bytes[self.command_at + 3] == self.version
    }

    /// Whether most records of a sample are such.
    fn fits(self, bytes: &[u8]) -> bool {
        let records = bytes.chunks_exact(self.record_bytes);
        let (all, good) =
            records.fold((0, 0), |(all, good), record| (all + 1, good + usize::from(self.is_record(record))));
        good * 2 >= all
    }
}

struct Vscsi {
    epoch: Epoch,
    /// Known from the first record on.
    layout: Option<RecordVersion>,
}

impl RecordParser for Vscsi {
    type Item = Request;

    #[inline(always)]
    fn parse(&mut self, bytes: &[u8]) -> Result<Record, BadRecord> {
        let layout = match self.layout {
            Some(layout) => layout,
            None if bytes.len() < VERSION_2.record_bytes => {
                // A file of version 1 may have one record only.
                match RecordVersion::of(bytes) {
                    Some(layout) => layout,
                    None => return Ok(Record::Incomplete),
                }
            }
            None => RecordVersion::of(bytes).ok_or_else(|| {
                let found = format!("versions {} and {}", le16(bytes, 14), le16(bytes, 2));
                BadRecord::header(found, "a first record of version 1 or 2 (times 256)")
            })?,
        };
        self.layout = Some(layout);
        let length = layout.record_bytes;
        if bytes.len() < length {
            return Ok(Record::Incomplete);
        }
        if !layout.is_record(bytes) {
            let version = le16(bytes, layout.command_at + 2);
            let expected = format!(
                "version {0} (from {1} to {2})",
                layout.version,
                layout.version as u32 * 256,
                layout.version as u32 * 256 + 255
            );
            return Err(BadRecord::new(Some(length), version, expected));
        }
        let op = match bytes[layout.command_at] {
            0x08 | 0x28 | 0x88 | 0xa8 => Op::Read,
            0x0a | 0x2a | 0x8a | 0xaa => Op::Write,
            0x35 | 0x91 => Op::Flush,
            _ => return Ok(Record::Other(length)),
        };
        let time = le64(bytes, TIME_AT);
        let (lba, sectors) = match op {
            Op::Flush => (0, 0),
            _ => sectors_from(le64(bytes, LBA_AT), le32(bytes, layout.size_at).into(), length)?,
        };
        let arrival_ns = self.epoch.since(time, 1000).ok_or_else(|| {
            let expected = "a time not before that of the first record, from which times are counted";
            BadRecord::new(Some(length), time, expected)
        })?;
        Ok(Record::Request(length, Request { arrival_ns, lba, sectors, op, stream: 0, fua: false }))
    }
}
