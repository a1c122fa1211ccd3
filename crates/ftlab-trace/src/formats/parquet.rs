//! Parquet tables with named columns.

use std::hash::Hasher;
use std::io::{self, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use bytes::Bytes;
use ftlab_core::host::request::{Op, Request, RequestSource, SECTOR_BYTES, SourceError};
use parquet::basic::{ConvertedType, LogicalType, Type};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::FileMetaData;
use parquet::file::reader::{ChunkReader, FileReader, Length, SerializedFileReader};
use twox_hash::XxHash64;

use crate::columns::{COLUMNS, Column, FLAG, Fields, UNITS, Units, columns_of, op_of_name};
use crate::failure::Failure;
use crate::format::{Format, Sample};
use crate::input::{BadRecords, Input, RandomAccess, Sink};
use crate::table::{Cells, TableWriter};
use crate::text::{Extent, Hashes};
use crate::writer::{Extras, TraceWriter};

const MAGIC: &[u8] = b"PAR1";

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "parquet",
    summary: "Parquet tables with named columns; pages plain or compressed with zstd, snappy, gzip or lz4",
    columns: COLUMNS,
    units: UNITS,
    cannot_say: "response times",
    argument: None,
    extensions: &["parquet"],
    example: "",
    head: include_str!("examples/parquet.txt"),
    detect: |sample: &Sample<'_>| sample.bytes.starts_with(MAGIC),
    read,
    files_beside: None,
    write: Some(|sink, extras| Ok(Box::new(ParquetWriter::new(sink, extras)?))),
};

fn read(input: Input) -> Result<Box<dyn RequestSource>, SourceError> {
    let (origin, bad) = (input.origin().to_owned(), input.bad_records());
    Ok(match input.into_random_access()? {
        RandomAccess::File(file) => Box::new(Reader::open(origin, bad, Whole(file))?),
        RandomAccess::Memory(bytes) => Box::new(Reader::open(origin, bad, Whole(Bytes::from(bytes)))?),
    })
}

/// A file whose end is an error to whoever reads beyond it. The decoder skips what it does not know. It would skip
/// billions of values that a damaged file says to have behind its end.
struct Whole<R>(R);

impl<R: ChunkReader> Length for Whole<R> {
    fn len(&self) -> u64 {
        self.0.len()
    }
}

impl<R: ChunkReader> ChunkReader for Whole<R> {
    type T = UpToEnd<R::T>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        self.0.get_read(start).map(UpToEnd)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.0.get_bytes(start, length)
    }
}

struct UpToEnd<T>(T);

impl<T: Read> Read for UpToEnd<T> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.0.read(out)? {
            0 if !out.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }
}

/// A sum over the requests of a file that ftlab wrote: Parquet as it is written by libraries has none, and zstd finds
/// only some damage.
#[derive(Debug, Clone)]
struct Checksum(XxHash64);

impl Checksum {
    /// Its key in the footer. Whoever writes a table of ours anew may keep the key, but not the writer's name.
    const KEY: &str = "ftlab.checksum";
    const WRITER: &str = "parquet-rs";

    fn new() -> Self {
        Self(XxHash64::with_seed(0))
    }

    #[inline(always)]
    fn add(&mut self, request: &Request) {
        let Request { arrival_ns, lba, sectors, op, stream, fua } = *request;
        let rest = u64::from(sectors) << 32 | u64::from(stream) << 8 | u64::from(fua) << 7 | op as u64;
        let mut bytes = [0; 24];
        for (part, word) in bytes.chunks_exact_mut(8).zip([arrival_ns, lba, rest]) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        self.0.write(&bytes);
    }

    fn text(&self) -> String {
        format!("{:016x}", self.0.finish())
    }

    /// What the footer of a file says, if ftlab wrote it.
    fn noted(file: &FileMetaData) -> Option<String> {
        file.created_by().filter(|writer| writer.starts_with(Self::WRITER))?;
        file.key_value_metadata()?.iter().find(|note| note.key == Self::KEY)?.value.clone()
    }
}

/// Records decoded at a time.
const CHUNK_RECORDS: usize = 4096;

fn damaged(origin: &str, error: &ParquetError) -> SourceError {
    SourceError {
        origin: origin.to_owned(),
        expected: format!("the Parquet file cannot be read: {error}"),
        ..SourceError::default()
    }
}

thread_local! {
    static GUARDED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// The decoder of Parquet asserts some of what it finds in a file. A damaged file must stay an error, and must not
/// write the message of a panic to the terminal.
fn guarded<T>(work: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, ParquetError> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let others = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !GUARDED.get() {
                others(panic);
            }
        }));
    });
    GUARDED.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    GUARDED.set(false);
    result.unwrap_or_else(|_| Err(ParquetError::General("its content is damaged".into())))
}

struct Typed<T: DataType> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
}

impl<T: DataType> Typed<T> {
    fn new(reader: ColumnReaderImpl<T>) -> Self {
        Self { reader, values: Vec::with_capacity(CHUNK_RECORDS) }
    }

    /// Decode up to `records` records; gives how many there were, and how many of them are null.
    fn load(&mut self, records: usize, levels: &mut Vec<i16>) -> Result<(usize, usize), ParquetError> {
        self.values.clear();
        levels.clear();
        let mut loaded = 0;
        while loaded < records {
            let (more, _, _) =
                self.reader.read_records(records - loaded, Some(levels), None, &mut self.values)?;
            if more == 0 {
                break;
            }
            loaded += more;
        }
        Ok((loaded, loaded.saturating_sub(self.values.len())))
    }
}

enum Values {
    Int32 { typed: Typed<Int32Type>, unsigned: bool },
    Int64 { typed: Typed<Int64Type>, unsigned: bool },
    Float(Typed<FloatType>),
    Double(Typed<DoubleType>),
    Bool(Typed<BoolType>),
    Bytes(Typed<ByteArrayType>),
}

impl Values {
    fn load(&mut self, records: usize, levels: &mut Vec<i16>) -> Result<(usize, usize), ParquetError> {
        match self {
            Values::Int32 { typed, .. } => typed.load(records, levels),
            Values::Int64 { typed, .. } => typed.load(records, levels),
            Values::Float(typed) => typed.load(records, levels),
            Values::Double(typed) => typed.load(records, levels),
            Values::Bool(typed) => typed.load(records, levels),
            Values::Bytes(typed) => typed.load(records, levels),
        }
    }

    /// A value times 10^`scale`, as a whole number; or the text of what is none.
    fn number(&self, index: usize, scale: usize) -> Result<u64, String> {
        let factor = 10u64.pow(scale as u32);
        let natural = |value: u64| value.checked_mul(factor).ok_or_else(|| value.to_string());
        let whole = |value: i64| u64::try_from(value).map_err(|_| value.to_string()).and_then(natural);
        let rounded = |value: f64| {
            let scaled = (value * factor as f64).round();
            if (0.0..1.8e19).contains(&scaled) { Ok(scaled as u64) } else { Err(value.to_string()) }
        };
        match self {
            Values::Int32 { typed, unsigned: true } => whole(i64::from(typed.values[index] as u32)),
            Values::Int32 { typed, .. } => whole(typed.values[index].into()),
            Values::Int64 { typed, unsigned: true } => natural(typed.values[index].cast_unsigned()),
            Values::Int64 { typed, .. } => whole(typed.values[index]),
            Values::Float(typed) => rounded(typed.values[index].into()),
            Values::Double(typed) => rounded(typed.values[index]),
            Values::Bool(typed) => natural(typed.values[index].into()),
            Values::Bytes(typed) => {
                Err(String::from_utf8_lossy(typed.values[index].data()).chars().take(80).collect())
            }
        }
    }

    fn op(&self, index: usize) -> Result<Op, String> {
        match self {
            Values::Bytes(typed) => {
                let name = ByteArray::data(&typed.values[index]);
                op_of_name(name).ok_or_else(|| String::from_utf8_lossy(name).chars().take(80).collect())
            }
            _ => self.number(index, 0).map_or_else(Err, |code| Err(code.to_string())),
        }
    }

    /// Hand the values, times 10^`scale`, to `set`; false when one of them, or what `set` makes of it, makes no sense.
    fn spread(
        &self,
        out: &mut [Request],
        scale: usize,
        mut set: impl FnMut(&mut Request, u64) -> bool,
    ) -> bool {
        match self {
            // A loop without branches that leave it, over the columns as ftlab writes them.
            Values::Int64 { typed, unsigned } if scale == 0 => {
                let (mut signs, mut fine) = (0, true);
                for (request, value) in out.iter_mut().zip(&typed.values) {
                    signs |= *value;
                    fine &= set(request, value.cast_unsigned());
                }
                fine && (*unsigned || signs >= 0)
            }
            Values::Int32 { typed, unsigned } if scale == 0 => {
                let (mut signs, mut fine) = (0, true);
                for (request, value) in out.iter_mut().zip(&typed.values) {
                    signs |= *value;
                    fine &= set(request, value.cast_unsigned().into());
                }
                fine && (*unsigned || signs >= 0)
            }
            Values::Bool(typed) if scale == 0 => {
                let pairs = out.iter_mut().zip(&typed.values);
                pairs.fold(true, |fine, (request, value)| fine & set(request, (*value).into()))
            }
            _ => out
                .iter_mut()
                .enumerate()
                .all(|(index, request)| self.number(index, scale).is_ok_and(|value| set(request, value))),
        }
    }

    /// Set the operations; false when one of them is none.
    fn spread_ops(&self, out: &mut [Request]) -> bool {
        let Values::Bytes(typed) = self else { return false };
        // Names come from a dictionary: the same name lies at the same place, and need not be read again.
        let mut known = [(std::ptr::null(), 0, Op::Read); 4];
        let mut next = 0;
        for (request, value) in out.iter_mut().zip(&typed.values) {
            let name = value.data();
            let place = (name.as_ptr(), name.len());
            if let Some((_, _, op)) = known.iter().find(|(at, length, _)| (*at, *length) == place) {
                request.op = *op;
                continue;
            }
            let Some(op) = op_of_name(name) else { return false };
            known[next % known.len()] = (place.0, place.1, op);
            next += 1;
            request.op = op;
        }
        true
    }
}

struct Loaded {
    column: Column,
    leaf: usize,
    name: String,
    values: Option<Values>,
}

struct Reader<R: ChunkReader> {
    origin: String,
    file: SerializedFileReader<R>,
    columns: Vec<Loaded>,
    /// The column of contents, until somebody asks for them.
    contents: Option<Loaded>,
    units: Units,
    levels: Vec<i16>,
    next_group: usize,
    /// Records of the loaded chunk, and the next of them.
    chunk: usize,
    next: usize,
    /// The requests of the chunk; empty when one of them makes no sense.
    ready: Vec<Request>,
    records: u64,
    total: u64,
    /// Of all requests, as the footer says, as long as none is left out; and of those that were read.
    wanted: Option<String>,
    found: Checksum,
    bad: BadRecords,
    failure: Failure,
}

impl<R: ChunkReader + 'static> Reader<R> {
    fn open(origin: String, bad: BadRecords, source: R) -> Result<Self, SourceError> {
        let file = guarded(|| SerializedFileReader::new(source)).map_err(|error| damaged(&origin, &error))?;
        let schema = file.metadata().file_metadata().schema_descr_ptr();
        let names: Vec<String> = schema.columns().iter().map(|column| column.path().string()).collect();
        let failed =
            |expected: String| SourceError { origin: origin.clone(), expected, ..SourceError::default() };
        let roles = columns_of(names.iter().map(String::as_str))
            .map_err(|missing| failed(format!("expected {missing}")))?;
        let mut columns = Vec::new();
        for (leaf, column) in roles
            .iter()
            .copied()
            .enumerate()
            .filter(|(_, column)| !matches!(column, Column::ContentHash | Column::Ignored))
        {
            let described = schema.column(leaf);
            let kind = described.physical_type();
            let fits = match column {
                Column::Op => kind == Type::BYTE_ARRAY,
                Column::Arrival { .. } => {
                    matches!(kind, Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE)
                }
                Column::Fua => matches!(kind, Type::BOOLEAN | Type::INT32 | Type::INT64),
                _ => matches!(kind, Type::INT32 | Type::INT64),
            };
            // A time stamp or a decimal is stored as a number too, but in another unit than the name of its column says.
            let meaning = match (described.logical_type_ref(), described.converted_type()) {
                (Some(LogicalType::Integer { .. } | LogicalType::String), _)
                | (None, ConvertedType::NONE) => "",
                (None, kind) if kind.to_string().contains("INT") || kind == ConvertedType::UTF8 => "",
                _ => " (a date, a time stamp, a decimal or the like)",
            };
            if !fits || (!meaning.is_empty() && column != Column::Op) || described.max_rep_level() > 0 {
                let wanted = match column {
                    Column::Op => "text: read, write, trim or flush",
                    Column::Arrival { .. } => "plain numbers",
                    Column::Fua => "true and false, or 0 and 1",
                    _ => "plain whole numbers",
                };
                return Err(failed(format!(
                    "column {:?} has type {kind}{meaning}, expected {wanted}",
                    names[leaf]
                )));
            }
            columns.push(Loaded { column, leaf, name: names[leaf].clone(), values: None });
        }
        let contents = roles.iter().position(|column| *column == Column::ContentHash).filter(|leaf| {
            let described = schema.column(*leaf);
            described.physical_type() == Type::BYTE_ARRAY && described.max_rep_level() == 0
        });
        let contents = contents.map(|leaf| {
            let name = names[leaf].clone();
            Loaded { column: Column::ContentHash, leaf, name, values: None }
        });
        let total = u64::try_from(file.metadata().file_metadata().num_rows()).unwrap_or(0);
        Ok(Self {
            origin,
            units: Units::of(&roles),
            wanted: Checksum::noted(file.metadata().file_metadata()),
            found: Checksum::new(),
            file,
            columns,
            contents,
            levels: Vec::with_capacity(CHUNK_RECORDS),
            next_group: 0,
            chunk: 0,
            next: 0,
            ready: Vec::with_capacity(CHUNK_RECORDS),
            records: 0,
            total,
            bad,
            failure: Failure::default(),
        })
    }

    fn open_group(&mut self) -> Result<(), ParquetError> {
        let group = self.file.get_row_group(self.next_group)?;
        for loaded in &mut self.columns {
            let described = group.metadata().column(loaded.leaf).column_descr_ptr();
            let unsigned =
                matches!(described.converted_type(), ConvertedType::UINT_32 | ConvertedType::UINT_64);
            let pages = group.get_column_page_reader(loaded.leaf)?;
            loaded.values = Some(match get_column_reader(described, pages) {
                ColumnReader::Int32ColumnReader(reader) => {
                    Values::Int32 { typed: Typed::new(reader), unsigned }
                }
                ColumnReader::Int64ColumnReader(reader) => {
                    Values::Int64 { typed: Typed::new(reader), unsigned }
                }
                ColumnReader::FloatColumnReader(reader) => Values::Float(Typed::new(reader)),
                ColumnReader::DoubleColumnReader(reader) => Values::Double(Typed::new(reader)),
                ColumnReader::BoolColumnReader(reader) => Values::Bool(Typed::new(reader)),
                ColumnReader::ByteArrayColumnReader(reader) => Values::Bytes(Typed::new(reader)),
                _ => return Err(ParquetError::General(format!("column {:?} changed its type", loaded.name))),
            });
        }
        self.next_group += 1;
        Ok(())
    }

    /// Decode the next records of every column; false at the end of the file.
    fn load_chunk(&mut self) -> Result<bool, SourceError> {
        loop {
            let mut chunk = None;
            for loaded in &mut self.columns {
                let Some(values) = &mut loaded.values else { continue };
                let levels = &mut self.levels;
                let count = guarded(|| values.load(CHUNK_RECORDS, levels));
                let (count, nulls) = count.map_err(|error| damaged(&self.origin, &error))?;
                if nulls > 0 {
                    return Err(SourceError {
                        origin: self.origin.clone(),
                        expected: format!(
                            "column {:?} has nulls in records {} to {}: every request needs a value",
                            loaded.name,
                            self.records + 1,
                            self.records + count as u64
                        ),
                        ..SourceError::default()
                    });
                }
                if *chunk.get_or_insert(count) != count {
                    let error = ParquetError::General("its columns differ in length".into());
                    return Err(damaged(&self.origin, &error));
                }
            }
            if let Some(count @ 1..) = chunk {
                // A few damaged bytes can stand for billions of records.
                if self.records + count as u64 > self.total {
                    let error = ParquetError::General("it has more records than it says".into());
                    return Err(damaged(&self.origin, &error));
                }
                (self.chunk, self.next) = (count, 0);
                if !self.transpose() {
                    self.ready.clear();
                }
                return Ok(true);
            }
            if self.next_group == self.file.metadata().num_row_groups() {
                return Ok(false);
            }
            guarded(|| self.open_group()).map_err(|error| damaged(&self.origin, &error))?;
        }
    }

    /// Turn the columns of the chunk into its requests; false when one of them makes no sense.
    fn transpose(&mut self) -> bool {
        const EMPTY: Request =
            Request { arrival_ns: 0, lba: 0, sectors: 0, op: Op::Read, stream: 0, fua: false };
        self.ready.clear();
        self.ready.resize(self.chunk, EMPTY);
        let ready = &mut self.ready[..];
        for Loaded { column, values, .. } in &self.columns {
            let Some(values) = values else { continue };
            let fine = match *column {
                Column::Arrival { scale } => values.spread(ready, scale, |request, value| {
                    request.arrival_ns = value;
                    true
                }),
                Column::Op => values.spread_ops(ready),
                Column::Lba | Column::OffsetBytes => values.spread(ready, 0, |request, value| {
                    request.lba = value;
                    true
                }),
                Column::Sectors | Column::Bytes | Column::Pages4k => {
                    values.spread(ready, 0, |request, value| {
                        request.sectors = value as u32;
                        value <= u32::MAX.into()
                    })
                }
                Column::Stream => values.spread(ready, 0, |request, value| {
                    request.stream = value as u16;
                    value <= u16::MAX.into()
                }),
                Column::Fua => values.spread(ready, 0, |request, value| {
                    request.fua = value == 1;
                    value <= 1
                }),
                // Record by record, as most of a record with contents is its contents.
                Column::ContentHash => false,
                Column::Ignored => true,
            };
            if !fine {
                return false;
            }
        }
        let units = self.units;
        ready.iter_mut().all(|request| {
            let Request { arrival_ns, lba: address, sectors, op, stream, fua } = *request;
            let fields = Fields { arrival_ns, op, address, size: sectors.into(), units, stream, fua };
            fields.request(Extent { address_at: 0, size_at: 0 }).is_ok_and(|made| {
                *request = made;
                true
            })
        })
    }

    fn record(&self, index: usize) -> Result<Request, SourceError> {
        let failed = |found: String, expected: String| SourceError {
            origin: self.origin.clone(),
            line: Some(self.records + 1),
            found,
            expected,
            ..SourceError::default()
        };
        let mut fields = Fields::of(self.units);
        for loaded in &self.columns {
            let Some(values) = &loaded.values else { continue };
            let number = |scale| {
                let what = || format!("a number in column {:?}, not negative, within 64 bits", loaded.name);
                values.number(index, scale).map_err(|found| failed(found, what()))
            };
            match loaded.column {
                Column::Arrival { scale } => fields.arrival_ns = number(scale)?,
                Column::Op => {
                    let op = values.op(index);
                    fields.op =
                        op.map_err(|found| failed(found, "an operation: read, write, trim or flush".into()))?;
                }
                Column::Lba | Column::OffsetBytes => fields.address = number(0)?,
                Column::Sectors | Column::Bytes | Column::Pages4k => fields.size = number(0)?,
                Column::Stream => {
                    let stream = number(0)?;
                    fields.stream = u16::try_from(stream)
                        .map_err(|_| failed(stream.to_string(), "a stream number, from 0 to 65535".into()))?;
                }
                Column::Fua => {
                    let value = number(0)?;
                    fields.fua = value == 1;
                    if value > 1 {
                        return Err(failed(value.to_string(), FLAG.into()));
                    }
                }
                Column::ContentHash | Column::Ignored => {}
            }
        }
        fields.request(Extent { address_at: 0, size_at: 0 }).map_err(|fault| {
            let found = format!("address {}, size {}", fields.address, fields.size);
            failed(found, fault.into_expected())
        })
    }

    /// The hash of the content of a record; nothing where the file has none, or nobody asked for it.
    fn content(&self, index: usize) -> Result<Option<u128>, SourceError> {
        let loaded = self.columns.iter().find(|loaded| loaded.column == Column::ContentHash);
        let Some(Values::Bytes(typed)) = loaded.and_then(|loaded| loaded.values.as_ref()) else {
            return Ok(None);
        };
        let digits = ByteArray::data(&typed.values[index]);
        let hashes = Hashes::of(digits).ok_or_else(|| SourceError {
            origin: self.origin.clone(),
            line: Some(self.records + 1),
            found: String::from_utf8_lossy(digits).chars().take(80).collect(),
            expected: Hashes::EXPECTED.into(),
            ..SourceError::default()
        })?;
        Ok(Some(hashes.value()))
    }

    fn fill_or_fail(
        &mut self,
        out: &mut Vec<Request>,
        contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<(), SourceError> {
        let end = out.len() + max;
        while out.len() < end {
            if self.next == self.chunk && !self.load_chunk()? {
                if self.records == 0 {
                    let expected = "found no request in the file".into();
                    return Err(SourceError {
                        origin: self.origin.clone(),
                        expected,
                        ..SourceError::default()
                    });
                }
                if self.wanted.as_ref().is_some_and(|wanted| *wanted != self.found.text()) {
                    let error = ParquetError::General(
                        "it is damaged: its requests are not those that were written".into(),
                    );
                    return Err(damaged(&self.origin, &error));
                }
                return Ok(());
            }
            if self.ready.is_empty() {
                let record = self.record(self.next);
                match record.and_then(|request| Ok((request, self.content(self.next)?))) {
                    Ok((request, content)) => {
                        self.found.add(&request);
                        out.push(request);
                        contents.extend(content);
                    }
                    Err(error) => {
                        self.bad.leave_out(error)?;
                        self.wanted = None;
                    }
                }
                self.next += 1;
                self.records += 1;
            } else {
                let count = (end - out.len()).min(self.chunk - self.next);
                let ready = &self.ready[self.next..self.next + count];
                if self.wanted.is_some() {
                    for request in ready {
                        self.found.add(request);
                    }
                }
                out.extend_from_slice(ready);
                self.next += count;
                self.records += count as u64;
            }
        }
        Ok(())
    }
}

impl<R: ChunkReader + 'static> Reader<R> {
    fn fill_before_failing(
        &mut self,
        out: &mut Vec<Request>,
        contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<usize, SourceError> {
        self.failure.check()?;
        let before = out.len();
        let filled = self.fill_or_fail(out, contents, max);
        self.failure.after(out.len() - before, filled)
    }
}

impl<R: ChunkReader + 'static> RequestSource for Reader<R> {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        self.fill_before_failing(out, &mut Vec::new(), max)
    }

    fn fill_with_contents(
        &mut self,
        out: &mut Vec<Request>,
        contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<usize, SourceError> {
        self.columns.extend(self.contents.take());
        self.fill_before_failing(out, contents, max)
    }

    fn total_requests(&self) -> Option<u64> {
        Some(self.total)
    }

    fn fraction_done(&self) -> Option<f64> {
        Some(self.records as f64 / self.total.max(1) as f64)
    }

    fn skipped_records(&self) -> u64 {
        self.bad.skipped()
    }

    fn says_fua(&self) -> bool {
        self.columns.iter().any(|loaded| loaded.column == Column::Fua)
    }
}

/// A request, and the hash of its contents where there is one.
type Row = (Request, u128);

struct ParquetWriter {
    table: TableWriter<Row, Box<dyn Sink>>,
    checksum: Checksum,
    keeps: Extras,
}

impl ParquetWriter {
    fn new(sink: Box<dyn Sink>, keeps: Extras) -> Result<Self, String> {
        let mut columns = vec![
            Cells::u64("arrival_ns", |(request, _): &Row| request.arrival_ns),
            Cells::name("op", |(request, _): &Row| request.op.name()),
            Cells::u64("lba", |(request, _): &Row| request.lba),
            Cells::u32("sectors", |(request, _): &Row| request.sectors),
            Cells::u16("stream", |(request, _): &Row| request.stream),
        ];
        columns.extend(keeps.fua.then(|| Cells::flag("fua", |(request, _): &Row| request.fua)));
        columns.extend(keeps.contents.then(|| Cells::hash("content_hash", |(_, content): &Row| *content)));
        let mut table = TableWriter::new(sink, columns)?;
        table.note("ftlab.schema", "requests 1");
        table.note("ftlab.version", env!("CARGO_PKG_VERSION"));
        table.note("ftlab.sector_bytes", &SECTOR_BYTES.to_string());
        Ok(Self { table, checksum: Checksum::new(), keeps })
    }
}

impl TraceWriter for ParquetWriter {
    fn keeps(&self) -> Extras {
        self.keeps
    }

    fn note_origin(&mut self, origin: &str) {
        self.table.note("ftlab.origin", origin);
    }

    fn write(&mut self, requests: &[Request], contents: &[u128]) -> Result<(), String> {
        for (index, request) in requests.iter().enumerate() {
            // The sum is of what is read back.
            let fua = request.fua && self.keeps.fua && request.op == Op::Write;
            let request = Request { fua, ..*request };
            self.checksum.add(&request);
            self.table.push((request, contents.get(index).copied().unwrap_or_default()))?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<(), String> {
        self.table.note(Checksum::KEY, &self.checksum.text());
        self.table.finish()?.finish().map_err(|error| format!("cannot be written: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::column::writer::ColumnWriter;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    /// A table as other programs write it: columns that may be null, with `sizes` in one of them.
    fn foreign(arrival: &str, sizes: &[Option<i32>]) -> Result<Vec<Request>, SourceError> {
        let schema = format!(
            "message schema {{ optional int64 {arrival}; optional binary op (string); optional int64 lba;
             optional int32 bytes; }}"
        );
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let all = vec![1i16; sizes.len()];
        while let Some(mut column) = group.next_column().unwrap() {
            match column.untyped() {
                ColumnWriter::Int64ColumnWriter(writer) => {
                    let numbers: Vec<i64> = (5..).take(sizes.len()).collect();
                    writer.write_batch(&numbers, Some(&all), None).unwrap();
                }
                ColumnWriter::ByteArrayColumnWriter(writer) => {
                    writer
                        .write_batch(&vec![ByteArray::from("Read"); sizes.len()], Some(&all), None)
                        .unwrap();
                }
                ColumnWriter::Int32ColumnWriter(writer) => {
                    let known: Vec<i32> = sizes.iter().copied().flatten().collect();
                    let levels: Vec<i16> = sizes.iter().map(|size| size.is_some().into()).collect();
                    writer.write_batch(&known, Some(&levels), None).unwrap();
                }
                _ => unreachable!("the schema has no other types"),
            }
            column.close().unwrap();
        }
        group.close().unwrap();
        let mut source = read(Input::from_bytes("t", writer.into_inner().unwrap()))?;
        let mut requests = Vec::new();
        while source.fill(&mut requests, 100)? > 0 {}
        Ok(requests)
    }

    #[test]
    fn tables_of_other_programs_are_read() {
        let requests = foreign("time_us", &[Some(512), Some(513)]).unwrap();
        let request = |arrival_ns, lba, sectors| Request {
            arrival_ns,
            lba,
            sectors,
            op: Op::Read,
            stream: 0,
            fua: false,
        };
        assert_eq!(requests, [request(5000, 5, 1), request(6000, 6, 2)]);
    }

    /// A table whose numbers of 32 bits are 1 and 2.
    fn one_and_two(fua: &str) -> Result<Vec<Request>, SourceError> {
        let schema = format!(
            "message schema {{ required int64 arrival_ns; required binary op (string); required int64 lba;
             required int32 sectors; required {fua}; }}"
        );
        let schema = Arc::new(parse_message_type(&schema).unwrap());
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
        let mut group = writer.next_row_group().unwrap();
        while let Some(mut column) = group.next_column().unwrap() {
            match column.untyped() {
                ColumnWriter::Int64ColumnWriter(writer) => writer.write_batch(&[5, 6], None, None).unwrap(),
                ColumnWriter::Int32ColumnWriter(writer) => writer.write_batch(&[1, 2], None, None).unwrap(),
                ColumnWriter::BoolColumnWriter(writer) => {
                    writer.write_batch(&[false, true], None, None).unwrap()
                }
                ColumnWriter::ByteArrayColumnWriter(writer) => {
                    writer.write_batch(&vec![ByteArray::from("write"); 2], None, None).unwrap()
                }
                _ => unreachable!("the schema has no other types"),
            };
            column.close().unwrap();
        }
        group.close().unwrap();
        let mut source = read(Input::from_bytes("t", writer.into_inner().unwrap()))?;
        let mut requests = Vec::new();
        while source.fill(&mut requests, 100)? > 0 {}
        Ok(requests)
    }

    #[test]
    fn fua_is_a_flag_or_refused() {
        let flags: Vec<bool> =
            one_and_two("boolean fua").unwrap().iter().map(|request| request.fua).collect();
        assert_eq!(flags, [false, true]);
        let error = one_and_two("int32 fua").unwrap_err();
        assert_eq!((error.origin.as_str(), error.line, error.found.as_str()), ("t", Some(2), "2"));
        assert_eq!(error.expected, "0 or 1 in column fua");
        let error = one_and_two("binary fua (string)").unwrap_err();
        assert!(error.expected.contains("column \"fua\" has type BYTE_ARRAY"), "{error}");
        assert!(error.expected.ends_with("expected true and false, or 0 and 1"), "{error}");
    }

    #[test]
    fn nothing_can_be_skipped_behind_the_end() {
        let bytes = Whole(Bytes::from_static(b"0123456789"));
        let mut read = bytes.get_read(4).unwrap();
        assert_eq!(io::copy(&mut read.by_ref().take(6), &mut io::sink()).unwrap(), 6);
        assert!(io::copy(&mut read.by_ref().take(1), &mut io::sink()).is_err());
        assert_eq!(bytes.len(), 10);
    }

    #[test]
    fn nulls_negative_numbers_and_calendars_are_refused() {
        let error = foreign("arrival_ns", &[Some(512), None]).unwrap_err();
        assert!(error.expected.contains("column \"bytes\" has nulls in records 1 to 2"), "{error}");
        let error = foreign("arrival_ns", &[Some(512), Some(-1)]).unwrap_err();
        assert_eq!((error.line, error.found.as_str()), (Some(2), "-1"), "{error}");
        let error = foreign("arrival_ns", &[Some(0)]).unwrap_err();
        assert!(error.line == Some(1) && error.expected.contains("size above 0"), "{error}");
        let error = foreign("arrival_ns (timestamp(micros,true))", &[Some(512)]).unwrap_err();
        assert!(error.expected.contains("time stamp"), "{error}");
    }
}
