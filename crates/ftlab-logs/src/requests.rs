//! Requests as Parquet.

use std::fs::File;
use std::io;
use std::sync::Arc;

use ftlab_core::host::request::Op;
use ftlab_core::metrics::RequestRecord;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

const SCHEMA: &str = "message requests {
    required int64 index;
    required binary op (string);
    required int64 lba;
    required int32 sectors;
    required int32 stream;
    required int64 arrival_ns;
    required int64 start_ns;
    required int64 end_ns;
}";

/// Rows between two writes: a row group of a few megabytes.
const GROUP_ROWS: usize = 1 << 17;

pub(crate) struct RequestLog {
    writer: SerializedFileWriter<File>,
    rows: Vec<RequestRecord>,
    names: [ByteArray; 4],
}

impl RequestLog {
    pub(crate) fn new(file: File) -> io::Result<Self> {
        let schema = parse_message_type(SCHEMA).map_err(to_io)?;
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1).map_err(to_io)?))
            .build();
        let writer =
            SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties)).map_err(to_io)?;
        Ok(Self { writer, rows: Vec::with_capacity(GROUP_ROWS), names: Op::ALL.map(|op| op.name().into()) })
    }

    pub(crate) fn push(&mut self, record: &RequestRecord) -> io::Result<()> {
        self.rows.push(*record);
        if self.rows.len() == GROUP_ROWS { self.write_group().map_err(to_io) } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), ParquetError> {
        let mut group = self.writer.next_row_group()?;
        let rows = &self.rows;
        let long =
            |value: fn(&RequestRecord) -> u64| rows.iter().map(|row| value(row) as i64).collect::<Vec<_>>();
        let short =
            |value: fn(&RequestRecord) -> u32| rows.iter().map(|row| value(row) as i32).collect::<Vec<_>>();
        macro_rules! column {
            ($kind:ty, $values:expr) => {
                let mut column =
                    group.next_column()?.ok_or_else(|| ParquetError::General("too few columns".into()))?;
                column.typed::<$kind>().write_batch(&$values, None, None)?;
                column.close()?;
            };
        }
        column!(Int64Type, long(|row| row.index));
        let ops: Vec<ByteArray> =
            rows.iter().map(|row| self.names[row.request.op as usize].clone()).collect();
        column!(ByteArrayType, ops);
        column!(Int64Type, long(|row| row.request.lba));
        column!(Int32Type, short(|row| row.request.sectors));
        column!(Int32Type, short(|row| row.request.stream.into()));
        column!(Int64Type, long(|row| row.arrival.as_ns()));
        column!(Int64Type, long(|row| row.start.as_ns()));
        column!(Int64Type, long(|row| row.end.as_ns()));
        group.close()?;
        self.rows.clear();
        Ok(())
    }

    pub(crate) fn finish(mut self) -> io::Result<()> {
        if !self.rows.is_empty() {
            self.write_group().map_err(to_io)?;
        }
        self.writer.close().map_err(to_io)?;
        Ok(())
    }
}

fn to_io(error: ParquetError) -> io::Error {
    io::Error::other(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftlab_core::host::request::Request;
    use ftlab_core::time::Time;
    use parquet::file::reader::{FileReader, SerializedFileReader};

    #[test]
    fn rows_come_back() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut log = RequestLog::new(file.reopen().unwrap()).unwrap();
        for index in 0..3_u64 {
            let request = Request { arrival_ns: index, lba: 8 * index, sectors: 8, op: Op::Write, stream: 2 };
            let (arrival, end) = (Time::from_ns(index), Time::from_ns(index + 100));
            log.push(&RequestRecord { index, request, arrival, start: arrival, end }).unwrap();
        }
        log.finish().unwrap();
        let reader = SerializedFileReader::new(file.reopen().unwrap()).unwrap();
        let rows: Vec<String> =
            reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
        assert_eq!(rows.len(), 3);
        assert!(rows[2].contains("index: 2, op: \"write\", lba: 16, sectors: 8, stream: 2"), "{}", rows[2]);
        assert!(rows[2].contains("end_ns: 102"), "{}", rows[2]);
    }
}
