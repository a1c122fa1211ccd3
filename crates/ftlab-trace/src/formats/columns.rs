//! Text in lines of fields that the user names, for files that have no format of their own.

use std::borrow::Cow;

use ftlab_core::host::request::{Op, Request, RequestSource, SourceError};

use crate::columns::{Column, FLAG, Fields, Units, complete, flag, op_of_name};
use crate::format::{Argument, Format};
use crate::input::Input;
use crate::naming::{LONGEST_NAME, naming};
use crate::numbering::{Volumes, plain_name};
use crate::text::{Cursor, Extent, Fault, Hashes, LineParser, TextReader};

/// See [`Format::summary`].
pub(crate) static FORMAT: Format = Format {
    name: "columns",
    summary: "lines of fields that the user names, as in --format 'columns:arrival_ms,-,op[read=1 write=0],bytes,offset_bytes'",
    columns: "arrival_ns | arrival_us | arrival_ms | arrival_s, op, lba | offset_bytes, sectors | bytes | pages_4k, stream or \
              volume, fua, content_hash, - for what does not count, =TEXT for a field that a line must have to be taken, ... at the end for \
              any further fields",
    units: "named as in csv; fields are separated by what separates the names: commas, semicolons or blanks; quotes around a \
            text do not count; \
            op[read=A|B write=C trim=D flush=E skip=F] maps values to operations, * stands for all others, and without it \
            values are names or first letters; a volume is any text and becomes a stream, numbered in order of \
            appearance; times are kept as they are; lba and sectors of 512 bytes, bytes rounded out to them, pages_4k of \
            4,096 bytes; a first line without a number where the time belongs is a heading and skipped",
    cannot_say: "what no column says; response times",
    argument: Some(Argument {
        summary: "the columns, in the order of the file; the format cannot be read without",
        example: "arrival_ms,-,op[read=1 write=0],bytes,offset_bytes",
        required: true,
        read: |input, text| match LineFields::of(text) {
            Ok(layout) => Ok(Box::new(TextReader::new(input, Columns::new(layout)))),
            Err(problem) => Err(failed(input.origin(), format!("--format columns:{text}: {problem}"))),
        },
    }),
    extensions: &[],
    example: "time,latency,op,size,offset\n0.000,231,0,4096,23979941888\n8.724,180,1,4096,21511340032\n\
              59.973,75,0,16384,8427704320\n90.076,104,0,4096,36106661888\n",
    head: "",
    detect: |_| false,
    read,
    files_beside: None,
    write: None,
};

fn failed(origin: &str, expected: String) -> SourceError {
    SourceError { origin: origin.to_owned(), expected, ..SourceError::default() }
}

#[expect(clippy::needless_pass_by_value, reason = "the signature of all readers")]
fn read(input: Input) -> Result<Box<dyn RequestSource>, SourceError> {
    let expected = "the columns of the file have to be named, as in --format \
                    'columns:arrival_ms,-,op[read=1 write=0],bytes,offset_bytes'";
    Err(failed(input.origin(), expected.into()))
}

/// How to read the table that `lines` begin, to follow "as in"; `unread` is a value that is no operation.
pub(crate) fn suggested(lines: &[u8], unread: Option<&[u8]>) -> String {
    naming(lines, unread, |argument| tried(argument, lines)).said()
}

/// Why `argument` does not read `lines`, if so.
fn tried(argument: &str, lines: &[u8]) -> Option<String> {
    let layout = match LineFields::of(argument) {
        Ok(layout) => layout,
        Err(problem) => return Some(problem),
    };
    let mut source = TextReader::new(Input::from_bytes("", lines.to_vec()), Columns::new(layout));
    let mut requests = Vec::new();
    loop {
        match source.fill(&mut requests, 1000) {
            Ok(0) => return None,
            Ok(_) => {}
            // Of lines that are all left out, or of a header alone.
            Err(error) if error.line.is_none() || error.found.is_empty() => return None,
            Err(SourceError { line, found, expected, .. }) => {
                let found: String = found.chars().take(LONGEST_NAME).collect();
                return Some(format!(
                    "line {}: found {found:?}, expected {expected}",
                    line.unwrap_or_default()
                ));
            }
        }
    }
}

/// What becomes of the lines whose operation has a value: `None` leaves them out.
type Outcome = Option<Op>;

#[derive(Debug, Default)]
struct OpMap {
    values: Vec<(Vec<u8>, Outcome)>,
    others: Option<Outcome>,
}

impl OpMap {
    /// `read=A|B write=C`, separated by blanks or commas.
    fn of(text: &str) -> Result<Self, String> {
        let mut map = OpMap::default();
        for part in text.split([' ', ',']).filter(|part| !part.is_empty()) {
            let (name, values) = part.split_once('=').ok_or_else(|| {
                format!("op[{text}]: {part:?} is no mapping such as read=1 (values are separated by |)")
            })?;
            let outcome = match (name, op_of_name(name.as_bytes())) {
                ("skip", _) => None,
                (_, Some(op)) => Some(op),
                _ => {
                    return Err(format!("op[{text}]: {name:?} is none of read, write, trim, flush and skip"));
                }
            };
            for value in values.split('|') {
                let value =
                    value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value);
                if value == "*" {
                    if map.others.replace(outcome).is_some() {
                        return Err(format!("op[{text}]: * is given twice"));
                    }
                } else if value.is_empty() || map.values.iter().any(|(other, _)| other == value.as_bytes()) {
                    return Err(format!("op[{text}]: the value {value:?} is given twice or empty"));
                } else {
                    map.values.push((value.into(), outcome));
                }
            }
        }
        Ok(map)
    }

    fn outcome(&self, value: &[u8]) -> Option<Outcome> {
        if self.values.is_empty() && self.others.is_none() {
            return op_of_name(value).map(Some);
        }
        let listed = self.values.iter().find(|(other, _)| other == value).map(|(_, outcome)| *outcome);
        listed.or(self.others)
    }

    fn expected(&self) -> Cow<'static, str> {
        if self.values.is_empty() {
            return "an operation: read, write, trim or flush".into();
        }
        let values: Vec<_> = self.values.iter().map(|(value, _)| String::from_utf8_lossy(value)).collect();
        format!("an operation that op[...] maps: {}", values.join(", ")).into()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Separator {
    Blanks,
    Mark(u8),
}

impl Separator {
    /// Between two fields.
    #[inline(always)]
    fn pass(self, line: &mut Cursor<'_>) -> Result<(), Fault> {
        match self {
            Separator::Blanks => line.blanks(),
            Separator::Mark(b',') => line.comma(),
            Separator::Mark(mark) => line.mark(mark, "a semicolon before the next field"),
        }
    }

    /// The field that begins here, without quotes around it and blanks behind it.
    #[inline(always)]
    fn field<'a>(self, line: &mut Cursor<'a>) -> &'a [u8] {
        match self {
            Separator::Blanks => line.token(),
            Separator::Mark(mark) => {
                let rest = line.rest_of_line();
                if let Some(text) = quoted(rest) {
                    line.seek(line.position() + text.len() + 2);
                    return text;
                }
                let length = memchr::memchr(mark, rest).unwrap_or(rest.len());
                line.seek(line.position() + length);
                rest[..length].trim_ascii_end()
            }
        }
    }
}

/// What stands between the quotes with which `text` begins.
fn quoted(text: &[u8]) -> Option<&[u8]> {
    let behind = text.strip_prefix(b"\"")?;
    memchr::memchr(b'"', behind).map(|end| &behind[..end])
}

#[derive(Debug)]
enum Field {
    Of(Column),
    /// A volume by name.
    Volume,
    /// The line counts only if the field has this text.
    Equal(Vec<u8>),
}

/// What the user says of a file.
#[derive(Debug)]
struct LineFields {
    separator: Separator,
    fields: Vec<Field>,
    ops: OpMap,
    /// Whether further fields may follow.
    open: bool,
    units: Units,
}

const NAMES: [&str; 16] = [
    "arrival_ns",
    "arrival_us",
    "arrival_ms",
    "arrival_s",
    "op",
    "lba",
    "offset_bytes",
    "sectors",
    "bytes",
    "pages_4k",
    "stream",
    "volume",
    "fua",
    "content_hash",
    "-",
    "...",
];

impl LineFields {
    fn of(text: &str) -> Result<Self, String> {
        let (separator, names) = split(text)?;
        let mut layout = LineFields {
            separator,
            fields: Vec::new(),
            ops: OpMap::default(),
            open: false,
            units: Units::of(&[]),
        };
        for name in &names {
            if layout.open {
                return Err("... stands at the end only".into());
            }
            let mapped = name.strip_prefix("op[").and_then(|rest| rest.strip_suffix(']'));
            let field = match *name {
                "-" => Field::Of(Column::Ignored),
                "volume" => Field::Volume,
                "..." => {
                    layout.open = true;
                    continue;
                }
                name if name.starts_with('=') => Field::Equal(name[1..].into()),
                _ if mapped.is_some() => {
                    layout.ops = OpMap::of(mapped.unwrap_or_default())?;
                    Field::Of(Column::Op)
                }
                name => match Column::named(name) {
                    Column::Ignored => return Err(unknown(name)),
                    column => Field::Of(column),
                },
            };
            layout.fields.push(field);
        }
        let columns: Vec<Column> = layout
            .fields
            .iter()
            .map(|field| match field {
                Field::Of(column) => *column,
                Field::Volume => Column::Stream,
                Field::Equal(_) => Column::Ignored,
            })
            .collect();
        complete(&columns).map_err(|expected| format!("expected {expected}"))?;
        layout.units = Units::of(&columns);
        Ok(layout)
    }
}

fn unknown(name: &str) -> String {
    let likeness = |other: &&str| strsim::jaro_winkler(name, other);
    let nearest = NAMES.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    let hint = match nearest {
        Some(nearest) if likeness(nearest) > 0.7 => format!("; did you mean {nearest}?"),
        _ => String::new(),
    };
    format!("{name:?} is no column; there are {} and =TEXT{hint}", NAMES.join(", "))
}

/// The names, and what separates them; brackets hold together.
fn split(text: &str) -> Result<(Separator, Vec<&str>), String> {
    let mut depth = 0i32;
    let mut outside = Vec::new();
    for (at, letter) in text.char_indices() {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' | ';' | ' ' | '\t' if depth == 0 => outside.push((at, letter)),
            _ => {}
        }
        if !(0..=1).contains(&depth) {
            break;
        }
    }
    if depth != 0 {
        return Err("brackets come in pairs, as in op[read=1 write=0]".into());
    }
    let has = |mark: char| outside.iter().any(|(_, letter)| *letter == mark);
    let (separator, mark) = match (has(','), has(';')) {
        (true, true) => return Err("there is one kind of separator: commas, semicolons or blanks".into()),
        (true, false) => (Separator::Mark(b','), Some(',')),
        (false, true) => (Separator::Mark(b';'), Some(';')),
        (false, false) => (Separator::Blanks, None),
    };
    let mut names = Vec::new();
    let mut start = 0;
    for (at, letter) in outside {
        if mark.is_none_or(|mark| letter == mark) {
            names.push(text[start..at].trim());
            start = at + 1;
        }
    }
    names.push(text[start..].trim());
    if mark.is_none() {
        names.retain(|name| !name.is_empty());
    }
    Ok((separator, names))
}

struct Columns {
    layout: LineFields,
    volumes: Volumes<Vec<u8>>,
    begun: bool,
    /// Whether contents are kept, and that of the last request.
    keeps_contents: bool,
    content: Option<u128>,
}

impl Columns {
    fn new(layout: LineFields) -> Self {
        Self { layout, volumes: Volumes::default(), begun: false, keeps_contents: false, content: None }
    }

    /// Whether the first line has no number where the time belongs.
    fn is_heading(&self, line: &Cursor<'_>) -> bool {
        let mut line = Cursor::new(line.rest_of_line());
        for field in &self.layout.fields {
            line.skip_blanks();
            if matches!(field, Field::Of(Column::Arrival { .. })) {
                return !line.peek().is_ascii_digit();
            }
            self.layout.separator.field(&mut line);
            if self.layout.separator.pass(&mut line).is_err() {
                return false;
            }
        }
        false
    }
}

impl LineParser for Columns {
    #[inline(always)]
    fn parse(&mut self, line: &mut Cursor<'_>) -> Result<Option<Request>, Fault> {
        if !self.begun {
            self.begun = true;
            if self.is_heading(line) {
                line.skip_to_line_end();
                return Ok(None);
            }
        }
        let LineFields { separator, fields, ops, open, units } = &self.layout;
        let mut request = Fields::of(*units);
        let mut volume = None;
        // The place of a fault in what these columns do not have.
        let at = line.position();
        let mut extent = Extent { address_at: at, size_at: at };
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                separator.pass(line)?;
            }
            match field {
                Field::Equal(text) => {
                    if separator.field(line) != &text[..] {
                        line.skip_to_line_end();
                        return Ok(None);
                    }
                }
                Field::Volume => {
                    let at = line.position();
                    volume = Some((separator.field(line), at));
                }
                Field::Of(Column::Arrival { scale }) => {
                    request.arrival_ns = line.decimal(*scale, "an arrival time")?;
                }
                Field::Of(Column::Op) => {
                    let at = line.position();
                    match ops.outcome(separator.field(line)) {
                        Some(Some(op)) => request.op = op,
                        Some(None) => {
                            line.skip_to_line_end();
                            return Ok(None);
                        }
                        None => return Err(Cursor::shape(at, ops.expected())),
                    }
                }
                Field::Of(Column::Lba | Column::OffsetBytes) => {
                    extent.address_at = line.position();
                    request.address = line.integer("an address")?;
                }
                Field::Of(Column::Sectors | Column::Bytes | Column::Pages4k) => {
                    extent.size_at = line.position();
                    request.size = line.integer("a size")?;
                }
                Field::Of(Column::Stream) => request.stream = line.stream("a stream number")?,
                Field::Of(Column::Fua) => {
                    let at = line.position();
                    request.fua = flag(separator.field(line)).ok_or_else(|| Cursor::shape(at, FLAG))?;
                }
                Field::Of(Column::ContentHash) if self.keeps_contents => {
                    let at = line.position();
                    let hashes = Hashes::of(separator.field(line));
                    let hashes = hashes.ok_or_else(|| Cursor::shape(at, Hashes::EXPECTED))?;
                    self.content = Some(hashes.value());
                }
                Field::Of(Column::ContentHash | Column::Ignored) => {
                    separator.field(line);
                }
            }
        }
        let is_at_end = match separator {
            Separator::Blanks => matches!(line.peek(), b'\r' | b'\n'),
            Separator::Mark(_) => line.at_line_end(),
        };
        if *open && !is_at_end {
            separator.pass(line)?;
            line.skip_to_line_end();
        }
        // Only a line that is taken has one.
        if let Some((name, at)) = volume {
            request.stream = self.volumes.number(name, at)?;
        }
        if request.op == Op::Flush {
            request.size = 0;
        }
        request.request(extent).map(Some)
    }

    fn keep_contents(&mut self) {
        self.keeps_contents = true;
    }

    fn content(&self) -> Option<u128> {
        self.content
    }

    fn says_fua(&self) -> bool {
        self.layout.fields.iter().any(|field| matches!(field, Field::Of(Column::Fua)))
    }

    fn stream_names(&self) -> Vec<(u16, String)> {
        self.volumes.names(plain_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(columns: &str, text: &str) -> Result<Vec<Request>, SourceError> {
        let input = Input::from_bytes("t", text.into());
        let mut source = FORMAT.reader_with(input, Some(columns))?;
        let mut requests = Vec::new();
        while source.fill(&mut requests, 100)? > 0 {}
        Ok(requests)
    }

    fn request(arrival_ns: u64, op: Op, lba: u64, sectors: u32, stream: u16) -> Request {
        Request { arrival_ns, lba, sectors, op, stream, fua: false }
    }

    #[test]
    fn columns_are_what_the_user_says() {
        let commas = read(
            "arrival_ms,-,op[read=1 write=0],bytes,offset_bytes,-",
            "0.5,a b,0,4096,8192,7\n1, ,1,512,512,\n",
        );
        assert_eq!(
            commas.unwrap(),
            [request(500_000, Op::Write, 16, 8, 0), request(1_000_000, Op::Read, 1, 1, 0)]
        );
        let open = "arrival_ms,op,lba,sectors,...";
        assert_eq!(read(open, "1,r,2,3,x,y\n2,w,2,3\n").unwrap().len(), 2);
        assert!(read(open, "1,r,2,3x\n").is_err());
        let blanks = read(
            "- =D op offset_bytes bytes arrival_s ...",
            "39 D write 4096 8192 0.25 0 True\n0 C write 4096 8192 0.5 0 True\n9 D discard 0 512 1.0 x\n",
        );
        assert_eq!(
            blanks.unwrap(),
            [request(250_000_000, Op::Write, 8, 16, 0), request(1_000_000_000, Op::Trim, 0, 1, 0)]
        );
        let semicolons = read(
            "volume; arrival_us; op[write=2a read=28 skip=*]; pages_4k; lba",
            "name;time;op;n;a\n\
            sdb; 1 ;2a; 2; 8\nsda;2;28;1;0\nsdb;3;0;0;0\nsdb;4;28;1;64\n",
        );
        assert_eq!(
            semicolons.unwrap(),
            [
                request(1000, Op::Write, 8, 16, 0),
                request(2000, Op::Read, 0, 8, 1),
                request(4000, Op::Read, 64, 8, 0)
            ]
        );
    }

    #[test]
    fn what_cannot_be_columns_is_refused_with_a_sentence() {
        for (columns, expected) in [
            ("arrival_ms,op,lba", "a column for a size"),
            ("arrival_ms,op,lba,sector", "did you mean sectors?"),
            ("arrival_ms,op,lba,sectors,bytes", "not several"),
            ("arrival_ms,op[read,lba,sectors", "brackets"),
            ("arrival_ms,op[raed=1],lba,sectors", "none of read, write"),
            ("arrival_ms,op[read=1 write=1],lba,sectors", "given twice"),
            ("arrival_ms,op[1],lba,sectors", "no mapping"),
            ("arrival_ms,op;lba,sectors", "one kind of separator"),
            ("arrival_ms,op,...,lba,sectors", "at the end"),
            ("arrival_ms,op,,lba,sectors", "is no column"),
            ("", "a column for an arrival time"),
        ] {
            let error = read(columns, "1,2,3,4\n").unwrap_err();
            assert!(error.expected.contains(expected), "{columns}: {error}");
        }
        let error = FORMAT.reader(Input::from_bytes("t", b"1\n".to_vec())).err().unwrap();
        assert!(error.expected.contains("columns:"), "{error}");
        let error = read("arrival_ms op[read=1 write=0] lba sectors", "1 0 8 8\n2 3 8 8\n").unwrap_err();
        assert_eq!((error.line, error.column, error.found.as_str()), (Some(2), Some(3), "3"));
        assert!(error.expected.contains("1, 0"), "{error}");
    }
}
