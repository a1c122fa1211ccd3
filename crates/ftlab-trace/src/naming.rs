//! Names for the columns of a table that is nobody's format, from its header and its first rows.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use ftlab_core::host::request::{Op, SECTOR_BYTES};

use crate::columns::{Column, op_of_name};
use crate::text::fields_between;

/// Columns that are listed one by one behind the last that counts.
const MOST_IGNORED: usize = 4;
/// Different values that a column of operations may have.
const MOST_OPS: usize = 16;
/// Bytes of what a message repeats of a file: a name, an operation.
pub(crate) const LONGEST_NAME: usize = 48;

/// What is said of an example that is not made of the file.
const STRANGE: &str =
    "no column of this file has a name that is known, so that the columns are those of an example";

/// What is said of fields with blanks between tabs.
const TABS: &str = "blanks between the tabs of a row separate fields as well: commas or semicolons in place of the tabs help";

/// What is guessed of a log of latencies.
const FIO_LOG: &str = "a log of latencies of fio, whose times are those of ends";

/// What such a log lacks.
const NO_OFFSET: &str = "it has no addresses, which fio writes where a job has log_offset=1";

/// What is said of one that has averages.
const AVERAGES: &str = "it has averages and no sizes, as a job with log_avg_msec writes";

/// How a table can be read as `columns:`.
#[derive(Debug)]
pub(crate) struct Naming {
    /// The argument of `--format`.
    pub(crate) format: String,
    /// What the table leaves open, and what was taken, to follow a semicolon.
    guesses: Vec<String>,
    /// Why the argument does not read the table.
    problem: Option<String>,
}

impl Naming {
    /// How to read the table, to follow "as in".
    pub(crate) fn said(&self) -> String {
        let mut text = format!("--format '{}'", self.format);
        if !self.guesses.is_empty() {
            text += &["; guessed: ", &self.guesses.join(", ")].concat();
        }
        if let Some(problem) = &self.problem {
            text += &["; not enough as it is: ", problem].concat();
        }
        text
    }
}

/// Name the columns of the table that `lines` begin.
///
/// `unread` is a value that stands where the operation belongs, and is none. `tried` says why a `columns:` argument does
/// not read the lines, if so.
pub(crate) fn naming(lines: &[u8], unread: Option<&[u8]>, tried: impl Fn(&str) -> Option<String>) -> Naming {
    let text = String::from_utf8_lossy(lines);
    let table = Table::of(&text);
    if let Some(naming) = of_fio_log(&table, &tried) {
        return naming;
    }
    let mut named = Named { columns: vec![Field::Ignored; table.width()], guesses: Vec::new(), by_name: 0 };
    let unread =
        unread.map(String::from_utf8_lossy).filter(|value| can_be_mapped(value) && !is_garbled(value));
    let missing = named.fill(&table, unread.as_deref());
    if named.by_name == 0 && !missing.is_empty() {
        // It is no table, or one without any word that is known.
        let separator = table.mark.map_or(" ".to_owned(), String::from);
        let layout = ["arrival_us", "op[read=R write=W]", "offset_bytes", "bytes", "-"].join(&separator);
        return Naming {
            format: format!("columns:{layout}"),
            guesses: Vec::new(),
            problem: Some(STRANGE.into()),
        };
    }
    let layout = named.layout(&table);
    let problem = match &missing[..] {
        [] if table.has_tabs => Some(TABS.into()),
        [] => tried(&layout),
        _ => Some(format!("no column looks like {}", missing.join(" or "))),
    };
    Naming { format: format!("columns:{layout}"), guesses: named.guesses, problem }
}

/// How to read a log of latencies of fio, if the table looks like one.
///
/// Its lines have time in ms, latency, direction, block size, and the offset where a job has `log_offset`. Newer versions add
/// priority and time of issue.
fn of_fio_log(table: &Table<'_>, tried: impl Fn(&str) -> Option<String>) -> Option<Naming> {
    let all = |column: usize, is_so: fn(u64) -> bool| {
        table.values(column).all(|value| value.parse().is_ok_and(is_so)) && !table.rows.is_empty()
    };
    // Of a log of averages, nothing is a request.
    let has_averages = table.rows.len() >= 3 && all(3, |bytes| bytes == 0);
    let is_log = table.mark == Some(',')
        && (4..=7).contains(&table.width())
        && table.names.iter().all(|name| name.is_empty())
        && [0, 1].into_iter().all(|column| all(column, |_| true))
        && table.numbers(0).is_sorted()
        && all(2, |direction| direction <= 2)
        && (has_averages || all(3, |bytes| bytes > 0 && bytes % u64::from(SECTOR_BYTES) == 0))
        && !all(1, |latency| latency % u64::from(SECTOR_BYTES) == 0);
    // Where fio writes no offset, a priority follows, and no priority is as large as a time of issue.
    let has_priority = table.width() == 5 || table.numbers(5).iter().any(|number| *number > u16::MAX.into());
    let has_offset = table.width() >= 5
        && all(4, |offset| offset % u64::from(SECTOR_BYTES) == 0)
        && !(table.width() < 7 && has_priority && all(4, |offset| offset == 0));
    let ignored = ",-".repeat(table.width() - table.width().min(if has_offset { 5 } else { 4 }));
    let offset = if has_offset { ",offset_bytes" } else { "" };
    let layout = format!("arrival_ms,-,op[read=0 write=1 trim=2],bytes{offset}{ignored}");
    let problem = match has_offset {
        _ if has_averages => Some(AVERAGES.into()),
        true => tried(&layout),
        false => Some(NO_OFFSET.into()),
    };
    is_log.then(|| Naming { format: format!("columns:{layout}"), guesses: vec![FIO_LOG.into()], problem })
}

/// Fields by row, as far as they are looked at.
struct Table<'a> {
    mark: Option<char>,
    /// A name for each column; empty where there is none.
    names: Vec<Cow<'a, str>>,
    rows: Vec<Vec<Cow<'a, str>>>,
    /// Whether rows have different numbers of fields.
    is_ragged: bool,
    /// Whether tabs separate fields of rows, and blanks do not.
    has_tabs: bool,
}

impl<'a> Table<'a> {
    fn of(text: &'a str) -> Self {
        let lines =
            || text.lines().map(str::trim_end).filter(|line| !line.trim().is_empty() && !is_garbled(line));
        let is_remark = |line: &&str| line.trim_start().starts_with('#');
        let first = lines().find(|line| !is_remark(line)).unwrap_or_default();
        let count = |mark: char| first.matches(mark).count();
        let mark = [';', ','].into_iter().max_by_key(|mark| count(*mark)).filter(|mark| count(*mark) > 0);
        let mut rows: Vec<Vec<Cow<'a, str>>> =
            lines().filter(|line| !is_remark(line)).map(|line| fields(line, mark)).collect();
        let has_header = rows.first().is_some_and(|row| !row.iter().any(|field| is_number(field)));
        let header = if has_header {
            rows.remove(0);
            Some(first)
        } else {
            let above = lines().take_while(is_remark).last();
            above.map(|line| line.trim_start().trim_start_matches('#').trim_start())
        };
        let width = rows.iter().map(Vec::len).max().unwrap_or_default();
        let is_ragged = rows.iter().any(|row| row.len() != width);
        // What most rows have: one may have more, such as a line that is damaged.
        let mut lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
        lengths.sort_unstable();
        let usual = lengths.get(lengths.len() / 2).copied().unwrap_or_default();
        let mut names = header.map(|line| header_fields(line, mark, width)).unwrap_or_default();
        if has_header && rows.is_empty() {
            // Nothing else says how many there are.
        } else if names.len() + 1 == usual && are_numbered(&rows, 0) {
            // R has no name for the names of rows.
            names.insert(0, "".into());
            names.resize(width, "".into());
        } else {
            let is_of_rows = has_header || names.len() == width;
            names = if is_of_rows { names } else { Vec::new() };
            names.resize(width, "".into());
        }
        let has_tabs = mark.is_none()
            && lines()
                .filter(|line| !is_remark(line))
                .skip(usize::from(has_header))
                .any(|line| line.contains('\t') && line.split('\t').any(|field| field.trim().contains(' ')));
        Self { mark, names, rows, is_ragged, has_tabs }
    }

    fn width(&self) -> usize {
        self.names.len()
    }

    fn values(&self, column: usize) -> impl Iterator<Item = &str> {
        self.rows.iter().filter_map(move |row| row.get(column)).map(|field| &**field)
    }

    /// Whether nearly all values of a column are so: a line may be damaged.
    fn mostly(&self, column: usize, is_so: impl Fn(&str) -> bool) -> bool {
        let others = self.values(column).filter(|value| !is_so(value)).count();
        others * 10 <= self.rows.len()
    }

    /// The whole numbers of a column.
    fn numbers(&self, column: usize) -> Vec<u64> {
        self.values(column).filter_map(|value| value.parse().ok()).collect()
    }

    /// Whether it numbers the rows.
    fn is_running(&self, column: usize) -> bool {
        self.rows.len() >= 2 && are_numbered(&self.rows, column)
    }

    /// What a message calls it.
    fn called(&self, column: usize) -> String {
        match &self.names[column] {
            name if name.is_empty() || name.len() > LONGEST_NAME || name.contains(char::is_control) => {
                format!("column {}", column + 1)
            }
            name => name.clone().into_owned(),
        }
    }
}

/// Whether a column numbers the rows, from a small number on: nearly all, as a line may be missing or damaged.
fn are_numbered(rows: &[Vec<Cow<'_, str>>], column: usize) -> bool {
    let numbers: Vec<u64> =
        rows.iter().filter_map(|row| row.get(column).and_then(|field| field.parse().ok())).collect();
    let steps = numbers.windows(2).filter(|pair| pair[0].checked_add(1) == Some(pair[1])).count();
    numbers.first().is_some_and(|first| *first <= 2) && (rows.len() - 1 - steps) * 10 <= rows.len()
}

fn fields(line: &str, mark: Option<char>) -> Vec<Cow<'_, str>> {
    let bare = |field: &str| field.trim().trim_matches('"').to_owned();
    match mark {
        Some(mark) => fields_between(line, mark).map(|field| bare(field).into()).collect(),
        None => line.split_ascii_whitespace().map(Cow::from).collect(),
    }
}

/// The names of a header. Those between tabs may have blanks, and the first may be empty.
fn header_fields(line: &str, mark: Option<char>, width: usize) -> Vec<Cow<'_, str>> {
    let by_tabs: Vec<Cow<'_, str>> = line.split('\t').map(|name| name.trim().into()).collect();
    if mark.is_none() && by_tabs.len() == width { by_tabs } else { fields(line, mark) }
}

/// Whether a text has what nobody writes and no terminal shows.
fn is_garbled(text: &str) -> bool {
    text.contains(|letter: char| {
        (letter.is_control() && letter != '\t') || letter == char::REPLACEMENT_CHARACTER
    })
}

fn is_number(field: &str) -> bool {
    let (whole, fraction) = field.split_once('.').unwrap_or((field, ""));
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !whole.is_empty() && is_digits(whole) && is_digits(fraction)
}

fn is_whole(field: &str) -> bool {
    !field.contains('.') && is_number(field)
}

/// What a column of the table is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Field {
    Ignored,
    Of(Column),
    Volume,
    /// As it is written: `op[...]`, or `=TEXT`.
    Written(String),
}

impl Field {
    fn text(&self) -> &str {
        match self {
            Field::Ignored => "-",
            Field::Of(column) => column.name(),
            Field::Volume => "volume",
            Field::Written(text) => text,
        }
    }
}

/// What a request must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Arrival,
    Op,
    Address,
    Size,
}

impl Role {
    const fn text(self) -> &'static str {
        match self {
            Role::Arrival => "an arrival time in numbers",
            Role::Op => "an operation",
            Role::Address => "an address in bytes or sectors",
            Role::Size => "a size in bytes, sectors or pages of 4 KiB",
        }
    }

    const fn of(column: Column) -> Option<Self> {
        match column {
            Column::Arrival { .. } => Some(Role::Arrival),
            Column::Op => Some(Role::Op),
            Column::Lba | Column::OffsetBytes => Some(Role::Address),
            Column::Sectors | Column::Bytes | Column::Pages4k => Some(Role::Size),
            _ => None,
        }
    }
}

const SPANS: &[&str] = &[
    "latency",
    "lat",
    "response",
    "resp",
    "duration",
    "delay",
    "elapsed",
    "complete",
    "completed",
    "completion",
    "end",
    "finish",
    "service",
    "wait",
    "queue",
    "depth",
    "interval",
    "delta",
    "cache",
    "cpu",
    "pid",
];
const COUNTS: &[&str] = &[
    "size", "len", "length", "bytes", "nbytes", "sectors", "nsectors", "count", "num", "n", "nr", "blocks",
    "nblocks", "nlb", "pages", "npages", "transfer", "xfer", "amount",
];
const PLACES: &[&str] = &[
    "lba", "slba", "sector", "offset", "off", "addr", "address", "lbn", "blkno", "pos", "position", "block",
    "blk", "lsn",
];
const TIMES: &[(&str, usize)] = &[("ns", 0), ("us", 3), ("ms", 6), ("s", 9)];
const TIME_WORDS: &[&[&str]] = &[
    &["ns", "nsec", "nsecs", "nanos", "nanosecond", "nanoseconds"],
    &["us", "usec", "usecs", "micros", "microsecond", "microseconds", "\u{b5}s"],
    &["ms", "msec", "msecs", "millis", "millisecond", "milliseconds"],
    &["s", "sec", "secs", "second", "seconds"],
];
const VOLUMES: &[&str] = &["volume", "vol", "device", "dev", "devid", "disk", "asu", "lun", "drive"];
/// What the layers of a host call the steps of a request: the first of those that are there is when the drive has it. `Q`, `D` and
/// `C` are blktrace's.
const BEGINS: &[&str] = &[
    "d",
    "issue",
    "issued",
    "dispatch",
    "dispatched",
    "submit",
    "submitted",
    "start",
    "started",
    "begin",
    "q",
    "queue",
    "queued",
];
const ENDS: &[&str] =
    &["c", "complete", "completed", "completion", "done", "end", "ended", "finish", "finished"];
/// What may stand beside a word for a volume.
const NUMBERED: &[&str] = &["id", "no", "num", "number", "name"];

/// A name, taken apart: `IOType` and `io_type` are the same.
struct Words(Vec<String>);

impl Words {
    fn of(name: &str) -> Self {
        // No new word begins inside of a unit.
        let name = name.replace("KiB", "kib").replace("MiB", "mib");
        let letters: Vec<char> = name.chars().collect();
        let mut words = vec![String::new()];
        for (at, letter) in letters.iter().enumerate() {
            let before = at.checked_sub(1).map(|at| letters[at]);
            let after = letters.get(at + 1);
            let begins = letter.is_uppercase()
                && before.is_some_and(|before| {
                    before.is_lowercase()
                        || before.is_uppercase() && after.is_some_and(|after| after.is_lowercase())
                });
            if begins || !letter.is_alphanumeric() {
                words.push(String::new());
            }
            if letter.is_alphanumeric() {
                words.last_mut().into_iter().for_each(|word| word.extend(letter.to_lowercase()));
            }
        }
        words.retain(|word| !word.is_empty());
        Self(words)
    }

    fn has(&self, some: &[&str]) -> bool {
        self.0.iter().any(|word| some.contains(&&**word))
    }

    fn is(&self, some: &[&str]) -> bool {
        some.contains(&&*self.0.concat())
    }

    /// How well a name fits a role; 0 where it does not.
    fn rank(&self, role: Role) -> u32 {
        let rank = |words: &[&str], rank: u32| if self.has(words) { rank } else { 0 };
        match role {
            Role::Arrival if self.has(SPANS) || self.has(PLACES) || self.has(COUNTS) => 0,
            Role::Arrival => {
                let is_time = self.0.iter().any(|word| word.starts_with("time") || word.ends_with("time"));
                rank(&["ts", "arrival", "timestamp", "tstamp"], 6).max(if is_time { 5 } else { 0 }).max(rank(
                    &["start", "issue", "issued", "submit", "submitted", "when", "clock", "t", "date"],
                    3,
                ))
            }
            Role::Op
                if self.is(&[
                    "op",
                    "rw",
                    "rwbs",
                    "operation",
                    "iotype",
                    "optype",
                    "reqtype",
                    "requesttype",
                ]) =>
            {
                7
            }
            Role::Op if self.is(&["iswrite", "isread", "readwrite", "writeflag", "readflag"]) => 7,
            Role::Op if self.is(&["write", "read"]) => 5,
            Role::Op => rank(&["op", "rw", "opcode", "operation"], 6)
                .max(rank(&["type", "cmd", "command", "direction", "dir"], 4))
                .max(rank(&["action", "access", "mode", "kind", "flag", "flags"], 2)),
            Role::Address
                if self.has(&["size", "len", "length", "count", "num", "n", "nr", "sectors", "blocks"]) =>
            {
                0
            }
            Role::Address => rank(&["lba", "slba", "lbn", "lsn"], 7)
                .max(rank(&["offset", "off", "addr", "address"], 6))
                .max(rank(&["sector", "pos", "position", "blkno"], 4))
                .max(rank(&["block", "blk", "start"], 2)),
            Role::Size if self.has(SPANS) => 0,
            Role::Size
                if self.has(&["lba", "slba", "offset", "off", "addr", "address", "pos", "start", "id"]) =>
            {
                0
            }
            Role::Size => rank(&["size", "len", "length"], 6).max(rank(COUNTS, 5)),
        }
    }

    /// Decimal places of the unit of time above nanoseconds.
    fn scale(&self) -> Option<usize> {
        let found = TIME_WORDS.iter().position(|names| self.has(names));
        let joined = || {
            let rest = self
                .0
                .iter()
                .find_map(|word| ["timestamp", "time", "ts"].iter().find_map(|t| word.strip_prefix(t)));
            rest.and_then(|rest| TIME_WORDS.iter().position(|names| names.contains(&rest)))
        };
        found.or_else(joined).map(|index| TIMES[index].1)
    }
}

struct Named {
    columns: Vec<Field>,
    guesses: Vec<String>,
    /// How many columns have names that say what they are.
    by_name: usize,
}

impl Named {
    /// Find a column for each role; gives what was not found.
    fn fill(&mut self, table: &Table<'_>, unread: Option<&str>) -> Vec<&'static str> {
        let mut missing = Vec::new();
        for role in [Role::Arrival, Role::Op, Role::Address, Role::Size] {
            let by_name = self.free().into_iter().filter(|column| fits(table, *column, role));
            let ranked = by_name
                .map(|column| (rank(&table.names[column], role), column))
                .filter(|(rank, _)| *rank > 0);
            // Of equal ones the first.
            match ranked.max_by_key(|(rank, column)| (*rank, std::cmp::Reverse(*column))) {
                Some((_, column)) => {
                    self.by_name += 1;
                    self.take(table, column, role, unread);
                }
                None => missing.push(role),
            }
        }
        // What no name says, values may.
        missing.sort_by_key(|role| {
            [Role::Op, Role::Arrival, Role::Address, Role::Size].iter().position(|each| each == role)
        });
        missing.retain(|role| match self.by_values(table, *role) {
            // There is one, in a unit that no column has.
            _ if self.free().into_iter().any(|column| is_in_another_unit(table, column, *role)) => true,
            Some(column) => {
                let before = self.guesses.len();
                self.take(table, column, *role, unread);
                if self.guesses.len() == before {
                    self.guesses.push(format!("{} as {}", table.called(column), self.columns[column].text()));
                }
                false
            }
            None => true,
        });
        self.others(table);
        self.steps(table);
        missing.into_iter().map(Role::text).collect()
    }

    fn free(&self) -> Vec<usize> {
        (0..self.columns.len()).filter(|column| self.columns[*column] == Field::Ignored).collect()
    }

    /// The column whose values look like it.
    fn by_values(&self, table: &Table<'_>, role: Role) -> Option<usize> {
        if table.rows.is_empty() {
            return None;
        }
        let free = self.free().into_iter().filter(|column| fits(table, *column, role));
        let plain: Vec<usize> = free.clone().filter(|column| !table.is_running(*column)).collect();
        let largest = |column: &usize| table.numbers(*column).into_iter().max();
        match role {
            // Tools write an action beside it, which may be one letter in all rows.
            Role::Op => {
                let kinds = |column: usize| {
                    let values: BTreeSet<&str> = table.values(column).collect();
                    let is_flag = values.len() == 2 && values.iter().all(|value| matches!(*value, "0" | "1"));
                    let ops: Option<Vec<Op>> = values.iter().map(|value| outcome(value)).collect();
                    let different = |ops: Vec<Op>| Op::ALL.into_iter().filter(|op| ops.contains(op)).count();
                    ops.map(different).or(is_flag.then_some(1))
                };
                // Of equal ones the first.
                let ranked = plain.into_iter().rev().filter_map(|column| Some((kinds(column)?, column)));
                ranked.max_by_key(|(kinds, _)| *kinds).map(|(_, column)| column)
            }
            Role::Arrival => {
                let rises = |column: &usize| {
                    let times: Vec<f64> =
                        table.values(*column).filter_map(|value| value.parse().ok()).collect();
                    times.is_sorted() && times.first() < times.last()
                };
                // A running number is at least an order.
                plain.into_iter().find(rises).or_else(|| free.clone().find(rises))
            }
            Role::Address => plain.into_iter().max_by_key(largest),
            Role::Size => plain.into_iter().find(|column| !table.numbers(*column).contains(&0)),
        }
    }

    fn take(&mut self, table: &Table<'_>, column: usize, role: Role, unread: Option<&str>) {
        let words = Words::of(&table.names[column]);
        let known = Some(Column::named(&table.names[column])).filter(|known| Role::of(*known) == Some(role));
        let called = table.called(column);
        let numbers = table.numbers(column);
        let is_in_bytes = numbers.iter().all(|number| number % u64::from(SECTOR_BYTES) == 0);
        let (found, others): (Column, &[&str]) = match (known, role) {
            (_, Role::Op) => {
                self.columns[column] = self.operations(table, column, unread);
                return;
            }
            (Some(known), _) => (known, &[]),
            (None, Role::Arrival) => match words.scale() {
                Some(scale) => (Column::Arrival { scale }, &[]),
                None => (Column::Arrival { scale: scale_of(table, column) }, ARRIVALS),
            },
            (None, Role::Address) => match () {
                () if words.has(&["byte", "bytes", "b"]) => (Column::OffsetBytes, &[]),
                () if words.has(&["lba", "slba", "lbn", "lsn", "sector", "512"]) => (Column::Lba, &[]),
                () if is_in_bytes => (Column::OffsetBytes, &["lba"]),
                () => (Column::Lba, &["offset_bytes"]),
            },
            (None, Role::Size) => match () {
                () if words.has(&["byte", "bytes", "nbytes", "b"]) => (Column::Bytes, &[]),
                () if words.has(&["sector", "sectors", "nsectors", "512"]) => (Column::Sectors, &[]),
                () if words.has(&["page", "pages", "npages"]) => (Column::Pages4k, &["sectors", "bytes"]),
                () if is_in_bytes => (Column::Bytes, &["sectors", "pages_4k"]),
                () => (Column::Sectors, &["bytes", "pages_4k"]),
            },
        };
        let others: Vec<&str> = others.iter().copied().filter(|name| *name != found.name()).collect();
        if !others.is_empty() {
            self.guesses.push(format!("{called} as {} (or {})", found.name(), others.join(", ")));
        }
        self.columns[column] = Field::Of(found);
    }

    /// The operations of a column, mapped where they have other names.
    fn operations(&mut self, table: &Table<'_>, column: usize, unread: Option<&str>) -> Field {
        let mut values: BTreeMap<&str, Option<Op>> =
            table.values(column).map(|value| (value, outcome(value))).collect();
        values.extend(unread.map(|value| (value, outcome(value))));
        if values.keys().all(|value| op_of_name(value.as_bytes()).is_some()) {
            return Field::Of(Column::Op);
        }
        let called = table.called(column);
        let words = Words::of(&table.names[column]);
        let is_flag =
            values.keys().all(|value| matches!(*value, "0" | "1" | "True" | "False" | "true" | "false"));
        let guessed = if is_flag {
            let (zero, one) =
                if words.is(&["isread", "read", "readflag"]) { ("write", "read") } else { ("read", "write") };
            let (zeros, ones) = if values.keys().any(|value| matches!(*value, "0" | "1")) {
                ("0", "1")
            } else if values.keys().any(|value| value.starts_with(char::is_uppercase)) {
                ("False", "True")
            } else {
                ("false", "true")
            };
            let map = |zero: &str, one: &str| format!("op[{zero}={zeros} {one}={ones}]");
            if !words.has(&["iswrite", "isread", "write", "read", "writeflag", "readflag"])
                || words.is(&["readwrite"])
            {
                self.guesses.push(format!("{called} as {} (or {})", map(zero, one), map(one, zero)));
            }
            return Field::Written(map(zero, one));
        } else if values.values().all(Option::is_none) {
            let names = [Op::Read, Op::Write];
            for (at, outcome) in values.values_mut().enumerate() {
                *outcome = names.get(at).copied();
            }
            true
        } else {
            false
        };
        let mut parts = Vec::new();
        for op in [Some(Op::Read), Some(Op::Write), Some(Op::Trim), Some(Op::Flush), None] {
            let of: Vec<&str> =
                values.iter().filter(|(_, outcome)| **outcome == op).map(|(value, _)| *value).collect();
            if !of.is_empty() {
                parts.push(format!("{}={}", op.map_or("skip", Op::name), of.join("|")));
            }
            if !of.is_empty() && op.is_none() && !guessed {
                self.guesses.push(format!("lines with {} in {called} left out", of.join(", ")));
            }
        }
        let map = format!("op[{}]", parts.join(" "));
        if guessed {
            self.guesses.push(format!("{called} as {map} (the values do not say it)"));
        }
        Field::Written(map)
    }

    /// What a request may have beside.
    fn others(&mut self, table: &Table<'_>) {
        let mut has_stream = false;
        for column in self.free() {
            let name = &*table.names[column];
            let words = Words::of(name);
            let is_volume = words.has(VOLUMES)
                && words.0.iter().all(|word| VOLUMES.contains(&&**word) || NUMBERED.contains(&&**word));
            let found = match Column::named(name) {
                Column::Stream if table.values(column).all(|value| value.parse::<u16>().is_ok()) => {
                    Field::Of(Column::Stream)
                }
                Column::Fua if table.values(column).all(|value| matches!(value, "0" | "1")) => {
                    Field::Of(Column::Fua)
                }
                Column::ContentHash => Field::Of(Column::ContentHash),
                _ if is_volume => Field::Volume,
                _ => continue,
            };
            let is_stream = matches!(found, Field::Volume | Field::Of(Column::Stream));
            if !(is_stream && has_stream) {
                self.columns[column] = found;
            }
            has_stream |= is_stream;
        }
    }

    /// Of tables with a line for each step of a request, take the lines of one step.
    fn steps(&mut self, table: &Table<'_>) {
        for column in self.free() {
            let values: BTreeSet<&str> = table.values(column).collect();
            if values.len() < 2 || !fits(table, column, Role::Op) {
                continue;
            }
            let step = |names: &[&str]| {
                let of = |name: &str| values.iter().find(|value| Words::of(value).has(&[name]));
                names.iter().find_map(|name| of(name)).copied()
            };
            let (Some(begin), Some(_)) = (step(BEGINS), step(ENDS)) else { continue };
            self.columns[column] = Field::Written(format!("={begin}"));
            let called = table.called(column);
            self.guesses.push(format!(
                "lines with {begin} in {called} taken, the others as steps of the same requests"
            ));
            return;
        }
    }

    /// The argument of `columns`.
    fn layout(&self, table: &Table<'_>) -> String {
        let last = self.columns.iter().rposition(|field| *field != Field::Ignored).map_or(0, |last| last + 1);
        let mut names: Vec<&str> = self.columns.iter().map(Field::text).collect();
        if table.is_ragged || names.len() > last + MOST_IGNORED {
            names.truncate(last);
            names.push("...");
        }
        names.join(&table.mark.map_or(" ".to_owned(), String::from))
    }
}

const ARRIVALS: &[&str] = &["arrival_s", "arrival_ms", "arrival_us", "arrival_ns"];

/// The likeliest unit of a time: fractions are of seconds, and a clock that counts from 1970 says it by its length.
fn scale_of(table: &Table<'_>, column: usize) -> usize {
    let largest = table.values(column).filter_map(|value| value.parse::<f64>().ok()).fold(0.0, f64::max);
    match () {
        () if table.values(column).any(|value| value.contains('.')) => 9,
        () if largest >= 1e17 => 0,
        () if largest >= 1e14 => 3,
        () if largest >= 1e11 => 6,
        () if largest >= 1e9 && table.numbers(column).iter().all(|number| *number >= 1_000_000_000) => 9,
        () => 3,
    }
}

/// How well a name fits a role: those of `csv` fit best.
fn rank(name: &str, role: Role) -> u32 {
    if Role::of(Column::named(name)) == Some(role) { 10 } else { Words::of(name).rank(role) }
}

/// Whether a column has a role by its name, in a unit that `columns` does not read.
fn is_in_another_unit(table: &Table<'_>, column: usize, role: Role) -> bool {
    let is_amount = matches!(role, Role::Address | Role::Size);
    is_amount && rank(&table.names[column], role) > 0 && table.mostly(column, is_number)
}

/// Whether a map of operations can name a value, inside the quotes of a shell.
fn can_be_mapped(value: &str) -> bool {
    let ends = |letter: char| letter.is_control() || " ,|]['*=".contains(letter);
    !value.is_empty() && value.len() <= LONGEST_NAME && !value.contains(ends)
}

/// Whether the values of a column may have a role.
fn fits(table: &Table<'_>, column: usize, role: Role) -> bool {
    let words = Words::of(&table.names[column]);
    match role {
        Role::Arrival => table.mostly(column, is_number),
        Role::Op => {
            let mut values: Vec<&str> = table.values(column).collect();
            values.sort_unstable();
            values.dedup();
            values.len() <= MOST_OPS && values.iter().all(|value| can_be_mapped(value))
        }
        // No column has them in these units.
        Role::Address
            if words.has(&["kb", "kib", "mb", "mib", "4k", "4kib", "page", "pages", "lpn", "lpa"]) =>
        {
            false
        }
        Role::Size if words.has(&["kb", "kib", "mb", "mib"]) => false,
        Role::Address | Role::Size => table.mostly(column, is_whole),
    }
}

/// What a value says, as tools write it: in full, by its first letter, or with letters behind that.
fn outcome(value: &str) -> Option<Op> {
    let lower = value.to_ascii_lowercase();
    let is_short = lower.len() <= 4 && lower.bytes().all(|byte| byte.is_ascii_alphabetic());
    let begins = |words: &[&str]| words.iter().any(|word| lower.starts_with(word));
    match () {
        () if op_of_name(value.as_bytes()).is_some() => op_of_name(value.as_bytes()),
        () if begins(&["read", "rd"]) => Some(Op::Read),
        () if begins(&["write", "wr"]) => Some(Op::Write),
        () if begins(&["trim", "discard", "unmap", "dealloc"]) => Some(Op::Trim),
        () if begins(&["flush", "sync", "fsync"]) => Some(Op::Flush),
        // The flags of block requests: readahead, synchronous, metadata.
        () if is_short && begins(&["r"]) && lower[1..].bytes().all(|byte| b"asmf".contains(&byte)) => {
            Some(Op::Read)
        }
        () if is_short && begins(&["w"]) && lower[1..].bytes().all(|byte| b"asmf".contains(&byte)) => {
            Some(Op::Write)
        }
        () if is_short && begins(&["d"]) && lower[1..].bytes().all(|byte| b"asmf".contains(&byte)) => {
            Some(Op::Trim)
        }
        () => None,
    }
}
