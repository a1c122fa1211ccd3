//! Writing Parquet tables row by row.

use std::io::Write;
use std::sync::Arc;

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

/// Rows gathered before they are written: the memory of a table and the grain in which others read it.
const ROWS_PER_GROUP: usize = 128 * 1024;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ColumnType {
    /// Unsigned, 64 bits.
    U64,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 16 bits.
    U16,
    /// Floating point.
    F64,
    /// True or false.
    Flag,
    /// One of a few names.
    Name,
    /// 128 bits as 32 hexadecimal digits.
    Hash,
}

enum Values {
    Int64(Vec<i64>),
    Int32(Vec<i32>),
    Double(Vec<f64>),
    Bool(Vec<bool>),
    Bytes(Vec<ByteArray>),
}

/// A cell of a row.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell {
    /// For [`ColumnType::U64`], [`ColumnType::U32`] and [`ColumnType::U16`].
    Number(u64),
    /// For [`ColumnType::F64`].
    Float(f64),
    /// For [`ColumnType::Flag`].
    Flag(bool),
    /// For [`ColumnType::Name`].
    Name(&'static str),
    /// For [`ColumnType::Hash`].
    Hash(u128),
}

/// Writes a Parquet table in groups of rows.
pub(crate) struct TableWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    columns: Vec<Values>,
    rows: usize,
}

fn unwritable(error: &ParquetError) -> String {
    format!("cannot be written: {error}")
}

impl<W: Write + Send> TableWriter<W> {
    pub(crate) fn new(sink: W, columns: &[(&str, ColumnType)]) -> Result<Self, String> {
        let fields = columns.iter().map(|(name, kind)| match kind {
            ColumnType::U64 => format!("required int64 {name} (integer(64,false));"),
            ColumnType::U32 => format!("required int32 {name} (integer(32,false));"),
            ColumnType::U16 => format!("required int32 {name} (integer(16,false));"),
            ColumnType::F64 => format!("required double {name};"),
            ColumnType::Flag => format!("required boolean {name};"),
            ColumnType::Name | ColumnType::Hash => format!("required binary {name} (string);"),
        });
        let schema = format!("message schema {{ {} }}", fields.collect::<String>());
        let schema = parse_message_type(&schema).map_err(|error| unwritable(&error))?;
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_dictionary_enabled(true)
            .set_statistics_enabled(EnabledStatistics::Chunk);
        for (name, kind) in columns {
            if *kind == ColumnType::U64 {
                // Times and addresses rarely repeat but often grow.
                let path = ColumnPath::from(*name);
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), false)
                    .set_column_encoding(path, Encoding::DELTA_BINARY_PACKED);
            }
        }
        let writer = SerializedFileWriter::new(sink, Arc::new(schema), Arc::new(properties.build()));
        let values = columns.iter().map(|(_, kind)| match kind {
            ColumnType::U64 => Values::Int64(Vec::with_capacity(ROWS_PER_GROUP)),
            ColumnType::U32 | ColumnType::U16 => Values::Int32(Vec::with_capacity(ROWS_PER_GROUP)),
            ColumnType::F64 => Values::Double(Vec::with_capacity(ROWS_PER_GROUP)),
            ColumnType::Flag => Values::Bool(Vec::with_capacity(ROWS_PER_GROUP)),
            ColumnType::Name | ColumnType::Hash => Values::Bytes(Vec::with_capacity(ROWS_PER_GROUP)),
        });
        Ok(Self { writer: writer.map_err(|error| unwritable(&error))?, columns: values.collect(), rows: 0 })
    }

    /// Put a note into the footer.
    pub(crate) fn note(&mut self, key: &str, value: &str) {
        self.writer.append_key_value_metadata(KeyValue::new(key.to_owned(), value.to_owned()));
    }

    /// Add a row: a cell for each column, of its kind.
    pub(crate) fn push(&mut self, row: impl IntoIterator<Item = Cell>) -> Result<(), String> {
        let mut row = row.into_iter();
        for (column, cell) in self.columns.iter_mut().zip(&mut row) {
            match (column, cell) {
                (Values::Int64(values), Cell::Number(value)) => values.push(value.cast_signed()),
                (Values::Int32(values), Cell::Number(value)) => values.push((value as u32).cast_signed()),
                (Values::Double(values), Cell::Float(value)) => values.push(value),
                (Values::Bool(values), Cell::Flag(value)) => values.push(value),
                (Values::Bytes(values), Cell::Name(value)) => {
                    values.push(Bytes::from_static(value.as_bytes()).into());
                }
                (Values::Bytes(values), Cell::Hash(value)) => {
                    values.push(format!("{value:032x}").into_bytes().into());
                }
                _ => debug_assert!(false, "a cell of another kind than its column"),
            }
        }
        debug_assert!(row.next().is_none(), "more cells than columns");
        self.rows += 1;
        if self.rows == ROWS_PER_GROUP { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), String> {
        if self.rows > 0 {
            self.write_group().map_err(|error| unwritable(&error))?;
            self.rows = 0;
        }
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        for values in &mut self.columns {
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

    /// Write what is gathered and the footer; gives the sink back.
    pub(crate) fn finish(mut self) -> Result<W, String> {
        self.flush()?;
        self.writer.into_inner().map_err(|error| unwritable(&error))
    }
}
