//! Writing Parquet tables row by row.
//!
//! A thread of its own takes rows apart, encodes and compresses them while more are gathered. A table of a few rows has none.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

/// Rows of a group: most of the memory of a table, and the grain in which others read it.
const ROWS_PER_GROUP: usize = 128 * 1024;

/// Rows that are handed to the thread at once: few enough for a near cache.
const ROWS_AT_ONCE: usize = 1024;

/// How often rows may be handed over before the thread has taken them: it does not while it encodes a group.
const AHEAD: usize = ROWS_PER_GROUP / ROWS_AT_ONCE / 2;

/// What a row `T` has in a column.
type Get<T, V> = Box<dyn Fn(&T) -> V + Send>;

/// What a column holds, and where it is in a row `T`.
pub(crate) enum Cells<T> {
    /// Unsigned, 64 bits.
    U64(Get<T, u64>),
    /// Unsigned, 32 bits.
    U32(Get<T, u32>),
    /// Unsigned, 32 bits, or nothing.
    MaybeU32(Get<T, Option<u32>>),
    /// Unsigned, 16 bits.
    U16(Get<T, u16>),
    /// Floating point.
    F64(Get<T, f64>),
    /// True or false.
    Flag(Get<T, bool>),
    /// One of a few names.
    Name(Get<T, &'static str>),
    /// 128 bits as 32 hexadecimal digits.
    Hash(Get<T, u128>),
}

/// A column of a table of rows `T`: its name and its cells.
pub(crate) type Column<T> = (String, Cells<T>);

macro_rules! columns {
    ($($name:ident $kind:ident $of:ty,)+) => {
        impl<T> Cells<T> {
            $(pub(crate) fn $name(name: &str, get: impl Fn(&T) -> $of + Send + 'static) -> Column<T> {
                (name.to_owned(), Cells::$kind(Box::new(get)))
            })+
        }
    };
}

columns! {
    u64 U64 u64,
    u32 U32 u32,
    maybe_u32 MaybeU32 Option<u32>,
    u16 U16 u16,
    f64 F64 f64,
    flag Flag bool,
    name Name &'static str,
    hash Hash u128,
}

impl<T> Cells<T> {
    /// The line of the schema.
    fn field(&self, name: &str) -> String {
        match self {
            Cells::U64(_) => format!("required int64 {name} (integer(64,false));"),
            Cells::U32(_) => format!("required int32 {name} (integer(32,false));"),
            Cells::MaybeU32(_) => format!("optional int32 {name} (integer(32,false));"),
            Cells::U16(_) => format!("required int32 {name} (integer(16,false));"),
            Cells::F64(_) => format!("required double {name};"),
            Cells::Flag(_) => format!("required boolean {name};"),
            Cells::Name(_) | Cells::Hash(_) => format!("required binary {name} (string);"),
        }
    }

    fn encoding(&self) -> Option<Encoding> {
        match self {
            // Times and addresses rarely repeat, and often grow.
            Cells::U64(_) => Some(Encoding::DELTA_BINARY_PACKED),
            // Most are the same as above or any number: what compresses finds the first, and nothing is gained from the second.
            Cells::F64(_) => Some(Encoding::PLAIN),
            _ => None,
        }
    }

    /// No cells so far.
    fn values(&self) -> Values {
        match self {
            Cells::U64(_) => Values::Int64(Vec::new()),
            Cells::U32(_) | Cells::U16(_) => Values::Int32(Vec::new()),
            Cells::MaybeU32(_) => Values::MaybeInt32(Vec::new(), Vec::new()),
            Cells::F64(_) => Values::Double(Vec::new()),
            Cells::Flag(_) => Values::Bool(Vec::new()),
            Cells::Name(_) | Cells::Hash(_) => Values::Bytes(Vec::new()),
        }
    }
}

enum Values {
    Int64(Vec<i64>),
    Int32(Vec<i32>),
    /// Those that there are, and for each row whether there is one: 1 or 0.
    MaybeInt32(Vec<i32>, Vec<i16>),
    Double(Vec<f64>),
    Bool(Vec<bool>),
    Bytes(Vec<ByteArray>),
}

impl Values {
    fn extend<T>(&mut self, rows: &[T], cells: &Cells<T>) {
        match (self, cells) {
            (Values::Int64(values), Cells::U64(get)) => {
                values.extend(rows.iter().map(|row| get(row).cast_signed()));
            }
            (Values::Int32(values), Cells::U32(get)) => {
                values.extend(rows.iter().map(|row| get(row).cast_signed()));
            }
            (Values::MaybeInt32(values, levels), Cells::MaybeU32(get)) => {
                levels.extend(rows.iter().map(|row| i16::from(get(row).is_some())));
                values.extend(rows.iter().filter_map(|row| Some(get(row)?.cast_signed())));
            }
            (Values::Int32(values), Cells::U16(get)) => {
                values.extend(rows.iter().map(|row| i32::from(get(row))));
            }
            (Values::Double(values), Cells::F64(get)) => values.extend(rows.iter().map(get)),
            (Values::Bool(values), Cells::Flag(get)) => values.extend(rows.iter().map(get)),
            (Values::Bytes(values), Cells::Name(get)) => {
                values
                    .extend(rows.iter().map(|row| ByteArray::from(Bytes::from_static(get(row).as_bytes()))));
            }
            (Values::Bytes(values), Cells::Hash(get)) => {
                values.extend(
                    rows.iter().map(|row| ByteArray::from(format!("{:032x}", get(row)).into_bytes())),
                );
            }
            _ => debug_assert!(false, "values are made of their cells"),
        }
    }
}

fn unwritable(error: &ParquetError) -> String {
    match error {
        // What the system says, without the word that the library puts before it.
        ParquetError::External(reason) => format!("cannot be written: {reason}"),
        error => format!("cannot be written: {error}"),
    }
}

/// Writes a Parquet table of rows `T` in groups of rows.
pub(crate) struct TableWriter<T, W: Write + Send> {
    /// Rows that were not handed over.
    rows: Vec<T>,
    notes: Vec<KeyValue>,
    encoding: Encoded<T, W>,
}

/// Where rows are encoded.
enum Encoded<T, W: Write + Send> {
    /// Here, as long as there are few.
    Here(Encoder<T, W>),
    Beside(Thread<T, W>),
    /// No longer: that failed.
    Failed,
}

impl<T: Send + 'static, W: Write + Send + 'static> TableWriter<T, W> {
    pub(crate) fn new(sink: W, columns: Vec<Column<T>>) -> Result<Self, String> {
        let encoder = Encoder::new(sink, columns).map_err(|error| unwritable(&error))?;
        Ok(Self {
            rows: Vec::with_capacity(ROWS_AT_ONCE),
            notes: Vec::new(),
            encoding: Encoded::Here(encoder),
        })
    }

    /// Put a note into the footer.
    pub(crate) fn note(&mut self, key: &str, value: &str) {
        self.notes.push(KeyValue::new(key.to_owned(), value.to_owned()));
    }

    /// Add a row.
    ///
    /// # Errors
    /// When an earlier one could not be written.
    #[inline]
    pub(crate) fn push(&mut self, row: T) -> Result<(), String> {
        if self.rows.len() == ROWS_AT_ONCE {
            self.hand_over().map_err(|error| unwritable(&error))?;
        }
        self.rows.push(row);
        Ok(())
    }

    #[cold]
    fn hand_over(&mut self) -> Result<(), ParquetError> {
        let thread = match std::mem::replace(&mut self.encoding, Encoded::Failed) {
            Encoded::Here(encoder) => Thread::start(encoder)?,
            Encoded::Beside(thread) => thread,
            Encoded::Failed => return Err(ParquetError::General("rows before it could not be".into())),
        };
        let next = thread.empty.try_recv().unwrap_or_else(|_| Vec::with_capacity(ROWS_AT_ONCE));
        if thread.full.send(std::mem::replace(&mut self.rows, next)).is_err() {
            return thread.end().map(drop);
        }
        self.encoding = Encoded::Beside(thread);
        Ok(())
    }

    /// Write what is gathered and the footer; gives the sink back.
    ///
    /// # Errors
    /// When it, or an earlier row, cannot be written.
    pub(crate) fn finish(self) -> Result<W, String> {
        let Self { rows, notes, encoding } = self;
        let close = || {
            let mut encoder = match encoding {
                Encoded::Here(encoder) => encoder,
                Encoded::Beside(thread) => thread.end()?,
                Encoded::Failed => return Err(ParquetError::General("rows before it could not be".into())),
            };
            encoder.add(&rows)?;
            encoder.finish(notes)
        };
        close().map_err(|error| unwritable(&error))
    }
}

/// Where rows are taken apart and encoded beside the run.
struct Thread<T, W: Write + Send> {
    full: SyncSender<Vec<T>>,
    /// For more rows.
    empty: Receiver<Vec<T>>,
    handle: JoinHandle<Result<Encoder<T, W>, ParquetError>>,
}

impl<T: Send + 'static, W: Write + Send + 'static> Thread<T, W> {
    fn start(mut encoder: Encoder<T, W>) -> Result<Self, ParquetError> {
        let (full, handed_over) = sync_channel::<Vec<T>>(AHEAD);
        let (done, empty) = sync_channel(AHEAD);
        let encode = move || {
            for mut rows in handed_over {
                encoder.add(&rows)?;
                rows.clear();
                // Nobody may want it.
                let _ = done.try_send(rows);
            }
            Ok(encoder)
        };
        let handle = thread::Builder::new().name("ftlab-encode".into()).spawn(encode)?;
        Ok(Self { full, empty, handle })
    }

    /// Wait until all that was handed over is encoded.
    fn end(self) -> Result<Encoder<T, W>, ParquetError> {
        drop(self.full);
        self.handle.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Takes rows apart and encodes them.
struct Encoder<T, W: Write + Send> {
    writer: SerializedFileWriter<W>,
    /// Cells, and what there is of them in the group that is being gathered.
    columns: Vec<(Cells<T>, Values)>,
    rows: usize,
}

impl<T, W: Write + Send> Encoder<T, W> {
    fn new(sink: W, columns: Vec<Column<T>>) -> Result<Self, ParquetError> {
        let fields: String = columns.iter().map(|(name, cells)| cells.field(name)).collect();
        let schema = parse_message_type(&format!("message schema {{ {fields} }}"))?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(true)
            .set_statistics_enabled(EnabledStatistics::Chunk);
        for (name, cells) in &columns {
            if let Some(encoding) = cells.encoding() {
                let path = ColumnPath::from(name.as_str());
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, encoding);
            }
        }
        let writer = SerializedFileWriter::new(sink, Arc::new(schema), Arc::new(properties.build()))?;
        let columns = columns.into_iter().map(|(_, cells)| (cells.values(), cells));
        Ok(Self { writer, columns: columns.map(|(values, cells)| (cells, values)).collect(), rows: 0 })
    }

    fn add(&mut self, rows: &[T]) -> Result<(), ParquetError> {
        for (cells, values) in &mut self.columns {
            values.extend(rows, cells);
        }
        self.rows += rows.len();
        if self.rows >= ROWS_PER_GROUP { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        self.rows = 0;
        let mut group = self.writer.next_row_group()?;
        for (_, values) in &mut self.columns {
            let Some(mut column) = group.next_column()? else { break };
            match (column.untyped(), values) {
                (ColumnWriter::Int64ColumnWriter(writer), Values::Int64(values)) => {
                    writer.write_batch(values, None, None)?;
                    values.clear();
                }
                (ColumnWriter::Int32ColumnWriter(writer), Values::Int32(values)) => {
                    writer.write_batch(values, None, None)?;
                    values.clear();
                }
                (ColumnWriter::Int32ColumnWriter(writer), Values::MaybeInt32(values, levels)) => {
                    writer.write_batch(values, Some(levels), None)?;
                    values.clear();
                    levels.clear();
                }
                (ColumnWriter::DoubleColumnWriter(writer), Values::Double(values)) => {
                    writer.write_batch(values, None, None)?;
                    values.clear();
                }
                (ColumnWriter::BoolColumnWriter(writer), Values::Bool(values)) => {
                    writer.write_batch(values, None, None)?;
                    values.clear();
                }
                (ColumnWriter::ByteArrayColumnWriter(writer), Values::Bytes(values)) => {
                    writer.write_batch(values, None, None)?;
                    values.clear();
                }
                _ => return Err(ParquetError::General("a column of another type than its values".into())),
            }
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    fn finish(mut self, notes: Vec<KeyValue>) -> Result<W, ParquetError> {
        if self.rows > 0 {
            self.write_group()?;
        }
        for note in notes {
            self.writer.append_key_value_metadata(note);
        }
        self.writer.into_inner()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;
    use std::io;

    /// Has room for so many bytes.
    struct Full(usize);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Of numbers that have one.
    fn third(row: u64) -> Option<u32> {
        row.is_multiple_of(3).then_some((row / 3) as u32)
    }

    fn columns() -> Vec<Column<u64>> {
        vec![
            Cells::u64("number", |row| *row),
            Cells::f64("half", |row| *row as f64 / 2.0),
            Cells::maybe_u32("third", |row| third(*row)),
        ]
    }

    #[test]
    fn rows_are_those_that_were_added_in_their_order() {
        for rows in [0, 1, 1024, 1025, 300_000] {
            let mut table = TableWriter::new(Vec::new(), columns()).unwrap();
            table.note("what", "numbers");
            for row in 0..rows {
                table.push(row).unwrap();
            }
            let reader = SerializedFileReader::new(Bytes::from(table.finish().unwrap())).unwrap();
            assert_eq!(reader.num_row_groups(), usize::try_from(rows).unwrap().div_ceil(ROWS_PER_GROUP));
            let notes = reader.metadata().file_metadata().key_value_metadata().unwrap();
            assert!(notes.iter().any(|note| note.key == "what" && note.value.as_deref() == Some("numbers")));
            let mut next = 0;
            for row in reader.get_row_iter(None).unwrap() {
                let row = row.unwrap();
                assert_eq!(
                    (row.get_ulong(0).unwrap(), row.get_double(1).unwrap()),
                    (next, next as f64 / 2.0)
                );
                assert_eq!(row.get_uint(2).ok(), third(next));
                next += 1;
            }
            assert_eq!(next, rows);
        }
    }

    #[test]
    fn a_full_disk_is_heard_of_once_and_at_the_end() {
        for rows in [1000, 2_000_000] {
            let mut table = TableWriter::new(Full(100), columns()).unwrap();
            let failed: Vec<String> =
                (0..rows).filter_map(|row| table.push(row * 7919 % 65537).err()).collect();
            if rows > 1000 {
                assert!(failed[0].contains("no storage space"), "{}", failed[0]);
            }
            assert!(table.finish().is_err());
        }
    }
}
