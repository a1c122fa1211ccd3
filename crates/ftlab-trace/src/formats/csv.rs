//! Comma-separated values with a header of named columns.

use std::io::Write;

use ftlab_core::host::request::{Op, Request};

use super::SAMPLE_LINES;
use super::columns::suggested;
use crate::columns::{COLUMNS, Column, FLAG, Fields, UNITS, Units, columns_of, flag, op_of_name};
use crate::format::{Format, Sample};
use crate::input::Sink;
use crate::text::{Cursor, Extent, Fault, LineParser, TextReader, begins_with_index, fields_of, shape_of};
use crate::writer::{Extras, LineWriter, TraceWriter};

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
    write: Some(write),
};

/// Advice takes as long as many lines.
const MOST_ADVISED: u32 = 1000;

#[derive(Default)]
struct Csv {
    columns: Vec<Column>,
    /// Whether lines begin with an index that the header has no name for.
    unnamed_index: bool,
    units: Option<Units>,
    /// Whether contents are kept, and that of the last request.
    keeps_contents: bool,
    content: Option<u128>,
    /// The first lines of the file, for advice.
    begin: Vec<u8>,
    /// Lines for which there was advice.
    advised: u32,
}

impl Csv {
    /// What is wrong with the operation `word`, and how its values are mapped.
    #[cold]
    fn unknown_op(&mut self, at: usize, word: &[u8]) -> Fault {
        let expected = "an operation: read, write, trim or flush";
        // A file that is only looked at has no use for advice, nor has one where as many lines may be bad.
        if self.begin.is_empty() || self.advised >= MOST_ADVISED {
            return Cursor::shape(at, expected);
        }
        self.advised += 1;
        let meant = meant(word).map(|op| format!("; did you mean {op}?")).unwrap_or_default();
        let named = suggested(&self.begin, Some(word));
        Cursor::shape(at, format!("{expected}{meant}; other values are mapped, as in {named}"))
    }

    fn header(&mut self, line: &mut Cursor<'_>) -> Result<(), Fault> {
        let at = line.position();
        let text = String::from_utf8_lossy(line.skip_to_line_end());
        let names = fields_of(&text).map(|name| name.trim().trim_matches('"'));
        self.columns = columns_of(names).map_err(|expected| {
            // A file that is only looked at has no use for it.
            let begin = Some(&self.begin).filter(|begin| !begin.is_empty());
            let named = begin.map(|begin| {
                let named = suggested(begin, None);
                format!("; a file with other columns is read by naming them, as in {named}")
            });
            Cursor::header(at, expected + &named.unwrap_or_default())
        })?;
        self.units = Some(Units::of(&self.columns));
        Ok(())
    }
}

/// A word without quotes around it.
fn bare(word: &[u8]) -> &[u8] {
    word.strip_prefix(b"\"").and_then(|word| word.strip_suffix(b"\"")).unwrap_or(word)
}

/// The operation that a word is a slip of, if it looks like one.
fn meant(word: &[u8]) -> Option<&'static str> {
    let word = std::str::from_utf8(word).ok()?;
    let names = Op::ALL.map(Op::name);
    names.into_iter().find(|name| word.len() >= 4 && strsim::osa_distance(word, name) == 1)
}

impl LineParser for Csv {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        let Some(units) = self.units else {
            return self.header(line).map(|()| None);
        };
        let mut fields = Fields::of(units);
        // The place of a fault in what these columns do not have.
        let at = line.position();
        let mut extent = Extent { address_at: at, size_at: at };
        if self.unnamed_index {
            line.skip_field()?;
            line.comma()?;
        }
        for index in 0..self.columns.len() {
            if index > 0 {
                line.comma()?;
            }
            match self.columns[index] {
                Column::Arrival { scale } => {
                    fields.arrival_ns = line.quoted(|line| line.decimal(scale, "an arrival time"))?;
                }
                Column::Op => {
                    let at = line.position();
                    let word = bare(line.word());
                    fields.op = op_of_name(word).ok_or_else(|| self.unknown_op(at, word))?;
                }
                Column::Lba | Column::OffsetBytes => {
                    extent.address_at = line.position();
                    fields.address = line.quoted(|line| line.integer("an address"))?;
                }
                Column::Sectors | Column::Bytes | Column::Pages4k => {
                    extent.size_at = line.position();
                    fields.size = line.quoted(|line| line.integer("a size"))?;
                }
                Column::Stream => fields.stream = line.quoted(|line| line.stream("a stream number"))?,
                Column::Fua => {
                    let at = line.position();
                    fields.fua = flag(bare(line.word())).ok_or_else(|| Cursor::shape(at, FLAG))?;
                }
                Column::ContentHash if self.keeps_contents => self.content = Some(line.hashes()?.value()),
                Column::ContentHash | Column::Ignored => line.skip_field()?,
            }
        }
        fields.request(extent).map(Some)
    }

    fn look_ahead(&mut self, lines: &[u8]) {
        let end = memchr::memchr_iter(b'\n', lines).take(SAMPLE_LINES).last().map_or(0, |at| at + 1);
        self.begin = lines[..end].to_vec();
        // R has no name for the names of rows, where pandas has an empty one.
        let counts = |line: &&[u8]| !line.trim_ascii().is_empty() && !line.starts_with(b"#");
        let mut all = lines.split(|byte| *byte == b'\n').filter(counts);
        let fields = |line: &[u8]| fields_of(&String::from_utf8_lossy(line)).count();
        if let (Some(header), Some(first)) = (all.next(), all.next()) {
            self.unnamed_index = fields(first) == fields(header) + 1 && begins_with_index(lines);
        }
    }

    fn keep_contents(&mut self) {
        self.keeps_contents = true;
    }

    fn content(&self) -> Option<u128> {
        self.content
    }

    fn says_fua(&self) -> bool {
        self.columns.contains(&Column::Fua)
    }
}

impl LineParser for &mut Csv {
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        (**self).parse(line)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "the signature of all writers")]
fn write(sink: Box<dyn Sink>, extras: Extras) -> Result<Box<dyn TraceWriter>, String> {
    let mut header = String::from("arrival_ns,op,lba,sectors,stream");
    header.push_str(if extras.fua { ",fua" } else { "" });
    header.push_str(if extras.contents { ",content_hash\n" } else { "\n" });
    let line = move |out: &mut Vec<u8>, request: &Request, content: Option<u128>| {
        let Request { arrival_ns, lba, sectors, op, stream, fua } = request;
        // Writing to a Vec cannot fail.
        let _ = write!(out, "{arrival_ns},{},{lba},{sectors},{stream}", op.name());
        if extras.fua {
            let _ = write!(out, ",{}", u8::from(*fua));
        }
        let _ = match content {
            Some(content) => writeln!(out, ",{content:032x}"),
            None => writeln!(out),
        };
        Ok(())
    };
    Ok(Box::new(LineWriter::new(sink, &header, line).keeping(extras)))
}
