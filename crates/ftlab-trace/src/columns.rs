//! Named columns: what the formats `csv` and `parquet` share.

use ftlab_core::host::request::{Op, Request, SECTOR_BYTES};

use crate::text::{Cursor, Extent, Fault, checked_sectors, sectors_of_bytes};

/// The columns that are understood, for documentation and messages.
pub(crate) const COLUMNS: &str = "arrival_ns | arrival_us | arrival_ms | arrival_s, op, lba | offset_bytes, sectors | bytes | pages_4k[, stream][, fua][, content_hash]";
/// Their units, likewise.
pub(crate) const UNITS: &str = "one arrival column (also called timestamp_ns, ... or time_ns, ...), a number, kept as it is; \
     op = read, write, trim or flush, or their first letters; lba and sectors of 512 bytes, or offset_bytes and bytes, \
     rounded out to sectors, or sizes in pages_4k of 4,096 bytes; stream from 0 to 65535, 0 when absent; fua = 1 for a write that must \
     be durable before it completes (force unit access), else 0, 0 when absent; content_hash in 32 \
     hexadecimal digits, kept by conversions; sizes above 0, but 0 for a flush, whose address does \
     not count; other columns are ignored";

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Column {
    /// A time; its unit is 10^scale nanoseconds.
    Arrival {
        /// Decimal places of the unit above nanoseconds.
        scale: usize,
    },
    /// The operation, by name.
    Op,
    /// The first sector.
    Lba,
    /// The first byte.
    OffsetBytes,
    /// The size in sectors.
    Sectors,
    /// The size in bytes.
    Bytes,
    /// The size in pages of 4,096 bytes.
    Pages4k,
    /// The stream.
    Stream,
    /// Whether a write is FUA.
    Fua,
    /// A hash of what is read or written.
    ContentHash,
    /// Something else.
    Ignored,
}

impl Column {
    pub(crate) fn named(name: &str) -> Self {
        let unit = ["arrival_", "timestamp_", "time_"].iter().find_map(|prefix| name.strip_prefix(prefix));
        match (name, unit) {
            ("op", _) => Column::Op,
            ("lba", _) => Column::Lba,
            ("offset_bytes", _) => Column::OffsetBytes,
            ("sectors", _) => Column::Sectors,
            ("bytes", _) => Column::Bytes,
            ("pages_4k", _) => Column::Pages4k,
            ("stream", _) => Column::Stream,
            ("fua", _) => Column::Fua,
            ("content_hash", _) => Column::ContentHash,
            (_, Some("ns")) => Column::Arrival { scale: 0 },
            (_, Some("us")) => Column::Arrival { scale: 3 },
            (_, Some("ms")) => Column::Arrival { scale: 6 },
            (_, Some("s")) => Column::Arrival { scale: 9 },
            _ => Column::Ignored,
        }
    }

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Column::Arrival { scale: 0 } => "arrival_ns",
            Column::Arrival { scale: 3 } => "arrival_us",
            Column::Arrival { scale: 6 } => "arrival_ms",
            Column::Arrival { .. } => "arrival_s",
            Column::Op => "op",
            Column::Lba => "lba",
            Column::OffsetBytes => "offset_bytes",
            Column::Sectors => "sectors",
            Column::Bytes => "bytes",
            Column::Pages4k => "pages_4k",
            Column::Stream => "stream",
            Column::Fua => "fua",
            Column::ContentHash => "content_hash",
            Column::Ignored => "-",
        }
    }

    /// The question that it answers: two columns must not answer the same one.
    fn role(self) -> &'static str {
        match self {
            Column::Arrival { .. } => "an arrival time (arrival_ns, arrival_us, arrival_ms or arrival_s)",
            Column::Op => "op",
            Column::Lba | Column::OffsetBytes => "an address (lba or offset_bytes)",
            Column::Sectors | Column::Bytes | Column::Pages4k => "a size (sectors, bytes or pages_4k)",
            Column::Stream => "stream",
            Column::Fua => "fua",
            Column::ContentHash => "content_hash",
            Column::Ignored => "",
        }
    }
}

/// The columns of a header.
///
/// # Errors
/// What is missing or given twice, to go on after "expected".
pub(crate) fn columns_of<'a>(names: impl Iterator<Item = &'a str>) -> Result<Vec<Column>, String> {
    let columns: Vec<Column> = names.map(Column::named).collect();
    complete(&columns).map(|()| columns)
}

/// Whether `columns` describe a request.
///
/// # Errors
/// What is missing or given twice, to go on after "expected".
pub(crate) fn complete(columns: &[Column]) -> Result<(), String> {
    let required = [Column::Arrival { scale: 0 }, Column::Op, Column::Lba, Column::Sectors];
    for wanted in required.into_iter().chain([Column::Stream, Column::Fua, Column::ContentHash]) {
        let role = wanted.role();
        match columns.iter().filter(|column| column.role() == role).count() {
            0 if !required.contains(&wanted) => {}
            0 => return Err(format!("a column for {role}; the columns are {COLUMNS}")),
            1 => {}
            _ => return Err(format!("one column for {role}, not several")),
        }
    }
    Ok(())
}

/// The fields of a record, before they are checked together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields {
    pub(crate) arrival_ns: u64,
    pub(crate) op: Op,
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) units: Units,
    pub(crate) stream: u16,
    pub(crate) fua: bool,
}

/// The units of address and size, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Units {
    pub(crate) address: u64,
    pub(crate) size: u64,
}

impl Units {
    pub(crate) fn of(columns: &[Column]) -> Self {
        let sector = u64::from(SECTOR_BYTES);
        let address = if columns.contains(&Column::OffsetBytes) { 1 } else { sector };
        let size = match () {
            () if columns.contains(&Column::Bytes) => 1,
            () if columns.contains(&Column::Pages4k) => 4096,
            () => sector,
        };
        Self { address, size }
    }
}

impl Fields {
    /// What is known of a record before its columns are read.
    pub(crate) const fn of(units: Units) -> Self {
        Self { arrival_ns: 0, op: Op::Read, address: 0, size: 0, units, stream: 0, fua: false }
    }

    /// The request, if it makes sense.
    #[inline(always)]
    pub(crate) fn request(self, extent: Extent) -> Result<Request, Fault> {
        let Fields { arrival_ns, op, address, size, units, stream, fua } = self;
        let (lba, sectors) = if op == Op::Flush {
            if size != 0 {
                return Err(Cursor::value(extent.size_at, "the size 0: a flush has no address"));
            }
            (0, 0)
        } else {
            let sector = u64::from(SECTOR_BYTES);
            if units.address == sector && units.size == sector {
                checked_sectors(address, size, extent)?
            } else {
                let (offset, bytes) =
                    (address.saturating_mul(units.address), size.saturating_mul(units.size));
                sectors_of_bytes(offset, bytes, extent)?
            }
        };
        Ok(Request { arrival_ns, lba, sectors, op, stream, fua: fua && op == Op::Write })
    }
}

/// What [`flag`] expects.
pub(crate) const FLAG: &str = "0 or 1 in column fua";

/// A flag: 0 or 1.
#[inline(always)]
pub(crate) fn flag(text: &[u8]) -> Option<bool> {
    match text {
        b"0" => Some(false),
        b"1" => Some(true),
        _ => None,
    }
}

/// An operation by name, in any case: `read`/`r`, `write`/`w`, `trim`/`t`/`discard`/`d`, `flush`/`f`.
#[inline(always)]
pub(crate) fn op_of_name(name: &[u8]) -> Option<Op> {
    if let [letter] = name {
        return match letter.to_ascii_lowercase() {
            b'r' => Some(Op::Read),
            b'w' => Some(Op::Write),
            b't' | b'd' => Some(Op::Trim),
            b'f' => Some(Op::Flush),
            _ => None,
        };
    }
    let is = |text: &str| name.eq_ignore_ascii_case(text.as_bytes());
    if is("write") {
        Some(Op::Write)
    } else if is("read") {
        Some(Op::Read)
    } else if is("trim") || is("discard") {
        Some(Op::Trim)
    } else if is("flush") {
        Some(Op::Flush)
    } else {
        None
    }
}
