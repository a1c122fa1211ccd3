//! Small valid files of the formats that ftlab reads and does not write, byte by byte, and damage that respects the
//! structure of files. Shared by the tests and by `ftlab-fuzz`, each of which uses a part.
#![allow(dead_code, reason = "the fuzzer and each test use their part")]

use ftlab_core::host::request::{Op, Request};
use ftlab_trace::{Format, create};

/// An event of blktrace, little-endian.
pub struct Event {
    pub magic: u32,
    pub time: u64,
    pub sector: u64,
    pub bytes: u32,
    pub action: u32,
    pub device: u32,
    pub data: &'static [u8],
}

pub const DISPATCH: u32 = 7 | 1 << 22;
pub const READ: u32 = 1 << 16;
pub const WRITE: u32 = 1 << 17;
pub const FLUSH: u32 = 1 << 18;
pub const NOTIFY: u32 = 1 << 26;
pub const DISCARD: u32 = 1 << 29;
pub const FUA: u32 = 1 << 31;

pub const EVENT: Event =
    Event { magic: 0x6561_7407, time: 0, sector: 0, bytes: 0, action: DISPATCH, device: 8 << 20, data: &[] };

impl Event {
    pub fn write(&self, big: bool) -> Vec<u8> {
        let mut out = Vec::new();
        let u32 = |value: u32| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let u64 = |value: u64| if big { value.to_be_bytes() } else { value.to_le_bytes() };
        let length = self.data.len() as u16;
        out.extend(u32(self.magic));
        out.extend(u32(1)); // sequence
        out.extend(u64(self.time));
        out.extend(u64(self.sector));
        out.extend(u32(self.bytes));
        out.extend(u32(self.action));
        out.extend(u32(4711)); // pid
        out.extend(u32(self.device));
        out.extend(u32(0)); // cpu
        out.extend([0, 0]); // error
        out.extend(if big { length.to_be_bytes() } else { length.to_le_bytes() });
        out.extend(self.data);
        out
    }
}

/// A record of HP SRT.
pub fn srt_record(
    kind: u32,
    seconds: u32,
    micros: u32,
    bytes: u32,
    sector: u32,
    device: u32,
    flags: u32,
) -> Vec<u8> {
    let words = [56, 4 << 16 | kind, seconds, micros, 10, 9000, bytes, sector, device, 1, 7, flags, 0, 2];
    words.into_iter().flat_map(u32::to_be_bytes).collect()
}

pub const SRT_HEADER: &str =
    "tracefile\t= \"made up\";\ntracedate\t= \"Mon Jan 6 09:00:00 1992\";\nsector size\t= 1024 bytes;\n\u{c}";

/// A record of oracleGeneral.
pub fn oracle_record(seconds: u32, object: u64, bytes: u32, next: i64) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend(seconds.to_le_bytes());
    out.extend(object.to_le_bytes());
    out.extend(bytes.to_le_bytes());
    out.extend(next.to_le_bytes());
    out
}

/// A record of vSCSI, version 1 or 2.
pub fn vscsi_record(version: u8, command: u8, bytes: u32, lba: u64, micros: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let kind = [command, 0, 3, version];
    if version == 2 {
        out.extend(kind);
    }
    out.extend(17u32.to_le_bytes());
    out.extend(bytes.to_le_bytes());
    out.extend(1u32.to_le_bytes());
    if version == 1 {
        out.extend(kind);
    }
    out.extend(lba.to_le_bytes());
    out.extend(micros.to_le_bytes());
    if version == 2 {
        out.extend(850u64.to_le_bytes());
    }
    out
}

/// A small valid file of any format.
pub fn of(format: &Format) -> Vec<u8> {
    if !format.example.is_empty() {
        return format.example.into();
    }
    binary(format.name).unwrap_or_else(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sample");
        let mut output = create(&path, format.name).unwrap();
        output.write(&some_requests(300)).unwrap();
        output.finish().unwrap();
        std::fs::read(path).unwrap()
    })
}

pub fn some_requests(count: u64) -> Vec<Request> {
    let request = |index: u64| Request {
        arrival_ns: index * 1_000_003,
        lba: index * 7919 % 100_000,
        sectors: (index % 64 + 1) as u32,
        op: if index.is_multiple_of(3) { Op::Read } else { Op::Write },
        stream: (index % 5) as u16,
        fua: false,
    };
    (0..count).map(request).collect()
}

/// A valid file of the binary format called `format`; nothing for others.
pub fn binary(format: &str) -> Option<Vec<u8>> {
    let records: Vec<Vec<u8>> = match format {
        "vscsi" => (0..60)
            .map(|index| {
                let command = [0x28, 0x2a, 0x88, 0x8a, 0x35, 0x12][index as usize % 6];
                vscsi_record(1, command, 4096, index * 64, 5_000_000_000 + index * 700)
            })
            .collect(),
        "blktrace" => (0..60)
            .map(|index| {
                let action = [
                    DISPATCH | READ,
                    DISPATCH | WRITE,
                    DISPATCH | WRITE | DISCARD,
                    DISPATCH | WRITE | FLUSH,
                    1 | 1 << 20 | READ,
                    NOTIFY,
                ][index as usize % 6];
                let bytes = if action & FLUSH == 0 { 8192 } else { 0 };
                let data: &[u8] = if action == NOTIFY { b"systemd\0" } else { b"" };
                Event { time: 9_000 + index * 1000, sector: index * 16, bytes, action, data, ..EVENT }
                    .write(false)
            })
            .collect(),
        "hp_srt" => std::iter::once(SRT_HEADER.into())
            .chain((0..60).map(|index| srt_record(1, index, 250, 8192, index * 32, 0x0700_0100, index % 2)))
            .collect(),
        "oracle_general" => (0..60u32)
            .map(|index| oracle_record(index, u64::from(index % 10) * 77, 4096, next(index)))
            .collect(),
        _ => return None,
    };
    Some(records.concat())
}

/// When object `index % 10` comes again, of 60 in turn.
fn next(index: u32) -> i64 {
    if index + 10 < 60 { i64::from(index) + 10 } else { -1 }
}

/// One change of a file.
#[derive(Debug, Clone, Copy)]
pub struct Change {
    pub kind: u8,
    pub at: usize,
    pub from: usize,
    pub value: u64,
}

/// Change fields as wholes, and move records about, where bytes at random would only break the first of them.
pub fn damage(bytes: &mut Vec<u8>, change: Change) {
    const INTERESTING: [u64; 8] = [0, 1, 0x7f, 0xffff, 0x7fff_ffff, 0xffff_ffff, i64::MAX as u64, u64::MAX];
    const WORDS: [&[u8]; 10] = [
        b"0",
        b"-1",
        b"99999999999999999999",
        b"18446744073709551615",
        b"1e9",
        b"0.5",
        b"x",
        b"",
        b"65536",
        b"W",
    ];
    if bytes.is_empty() {
        return;
    }
    let Change { kind, at, from, value } = change;
    let (at, from) = (at % bytes.len(), from % bytes.len());
    let number = INTERESTING[value as usize % INTERESTING.len()];
    let mut put = |field: &[u8], align: usize| {
        let at = at / align * align;
        let end = bytes.len().min(at + field.len());
        bytes[at..end].copy_from_slice(&field[..end - at]);
    };
    match kind % 10 {
        0 => put(&number.to_le_bytes(), 8),
        1 => put(&(number as u32).to_le_bytes(), 4),
        2 => put(&(number as u32).to_be_bytes(), 4),
        3 => put(&(number as u16).to_le_bytes(), 2),
        4 => put(&[value as u8], 1),
        5 => {
            // Another copy of what is elsewhere, such as a record.
            let copy = bytes[from..bytes.len().min(from + 8 * (1 + value as usize % 16))].to_vec();
            bytes.splice(at..at, copy);
        }
        6 => drop(bytes.drain(at..bytes.len().min(at + 4 * (1 + value as usize % 16)))),
        7 => bytes.truncate(at),
        8 => {
            // A field of a text.
            let separator = |byte: &u8| matches!(byte, b',' | b' ' | b'\t' | b'\n' | b';');
            let begin = bytes[..at].iter().rposition(separator).map_or(0, |place| place + 1);
            let end = bytes[at..].iter().position(separator).map_or(bytes.len(), |place| at + place);
            bytes.splice(begin..end.max(begin), WORDS[value as usize % WORDS.len()].iter().copied());
        }
        _ => bytes.rotate_left(at),
    }
}
