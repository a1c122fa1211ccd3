//! Comma-separated values with a header of named columns.

use std::io::Write;

use ftlab_core::host::request::{Op, Request};

use crate::columns::{COLUMNS, Column, Fields, UNITS, Units, columns_of, op_of_name};
use crate::format::{Format, Sample};
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, shape_of};
use crate::writer::{LineWriter, Unwritable};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "csv",
    summary: "comma-separated values under a header of named columns, in any order",
    columns: COLUMNS,
    units: UNITS,
    cannot_say: "response times",
    argument: None,
    extensions: &["csv"],
    example: "arrival_us,op,lba,sectors,stream\n0.5,write,4096,8,0\n100,read,4096,16,1\n\
              100.25,trim,4096,8,0\n250,flush,0,0,0\n",
    head: "",
    detect: |sample: &Sample<'_>| {
        let mut parser = Csv::default();
        shape_of(sample.lines, &mut parser).fitting > 0 || !parser.columns.is_empty()
    },
    read: |input| Ok(Box::new(TextReader::new(input, Csv::default()))),
    files_beside: None,
    write: Some(|sink| Ok(Box::new(LineWriter::new(sink, "arrival_ns,op,lba,sectors,stream\n", write)))),
    write_contents: Some(|sink| {
        let header = "arrival_ns,op,lba,sectors,stream,content_hash\n";
        Ok(Box::new(LineWriter::new(sink, header, write)))
    }),
};

#[derive(Default)]
struct Csv {
    columns: Vec<Column>,
    units: Option<Units>,
    /// Whether contents are kept, and that of the last request.
    keeps_contents: bool,
    content: Option<u128>,
}

impl Csv {
    fn header(&mut self, line: &mut Cursor<'_>) -> Result<(), Fault> {
        let at = line.position();
        let text = String::from_utf8_lossy(line.skip_to_line_end());
        let names = text.split(',').map(|name| name.trim().trim_matches('"'));
        self.columns = columns_of(names).map_err(|expected| Cursor::header(at, expected))?;
        self.units = Some(Units::of(&self.columns));
        Ok(())
    }
}

impl LineParser for Csv {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let Some(units) = self.units else {
            return self.header(line).map(|()| None);
        };
        let mut fields = Fields { arrival_ns: 0, op: Op::Read, address: 0, size: 0, units, stream: 0 };
        // The place of a fault in what these columns do not have.
        let at = line.position();
        let mut extent = Extent { address_at: at, size_at: at };
        for (index, column) in self.columns.iter().enumerate() {
            if index > 0 {
                line.comma()?;
            }
            match *column {
                Column::Arrival { scale } => fields.arrival_ns = line.decimal(scale, "an arrival time")?,
                Column::Op => {
                    let at = line.position();
                    let word = line.word();
                    let quoted = word.strip_prefix(b"\"").and_then(|word| word.strip_suffix(b"\""));
                    fields.op = op_of_name(quoted.unwrap_or(word))
                        .ok_or_else(|| Cursor::shape(at, "an operation: read, write, trim or flush"))?;
                }
                Column::Lba | Column::OffsetBytes => {
                    extent.address_at = line.position();
                    fields.address = line.integer("an address")?;
                }
                Column::Sectors | Column::Bytes | Column::Pages4k => {
                    extent.size_at = line.position();
                    fields.size = line.integer("a size")?;
                }
                Column::Stream => fields.stream = line.stream("a stream number")?,
                Column::ContentHash if self.keeps_contents => self.content = Some(line.hashes()?.value()),
                Column::ContentHash | Column::Ignored => line.skip_field()?,
            }
        }
        fields.request(extent).map(Some)
    }

    fn keep_contents(&mut self) {
        self.keeps_contents = true;
    }

    fn content(&self) -> Option<u128> {
        self.content
    }
}

impl LineParser for &mut Csv {
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        (**self).parse(line)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of all line writers")]
fn write(out: &mut Vec<u8>, request: &Request, content: Option<u128>) -> Result<(), Unwritable> {
    let Request { arrival_ns, lba, sectors, op, stream, .. } = request;
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{arrival_ns},{},{lba},{sectors},{stream}", op.name());
    let _ = match content {
        Some(content) => writeln!(out, ",{content:032x}"),
        None => writeln!(out),
    };
    Ok(())
}
