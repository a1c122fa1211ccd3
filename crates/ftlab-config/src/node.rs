//! Values that know where they were written.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use toml_edit::{Item, TableLike};

use crate::foreign;
use crate::problem::Problem;

/// Where a value was written.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// A file (or preset), with 1-based line and column in characters.
    File {
        /// Its path as given, or the preset's name.
        name: Arc<str>,
        /// Line from 1.
        line: usize,
        /// Column from 1.
        column: usize,
    },
    /// A file as a whole.
    Whole(Arc<str>),
    /// An override: its text, such as `--set ftl.gc=fifo`.
    Override(Arc<str>),
}

impl Origin {
    /// Whether the text of the origin already names `key` and its value.
    pub(crate) fn states(&self, key: &str) -> bool {
        let Origin::Override(text) = self else { return false };
        let assignment = text.strip_prefix("--set ").unwrap_or(text);
        assignment.split_once('=').is_some_and(|(left, _)| {
            let left = left.trim();
            left == key || key.strip_prefix("workload.") == Some(left)
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { name, line, column } => write!(f, "{name}:{line}:{column}"),
            Origin::Whole(text) | Origin::Override(text) => f.write_str(text),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) origin: Origin,
    pub(crate) value: Value,
}

pub(crate) type Table = BTreeMap<String, Entry>;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// Where the key was written: an unknown key is the key's fault, not the value's.
    pub(crate) origin: Origin,
    pub(crate) node: Node,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    String(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    Datetime(String),
    Array(Vec<Node>),
    Table(Table),
    /// Stands for a value already reported as wrong, so that reading can go on to the next mistake.
    Placeholder,
}

impl Node {
    /// The value as TOML, shortened to one readable line.
    pub(crate) fn text(&self) -> String {
        let text = match &self.value {
            Value::String(text) => format!("{text:?}"),
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => format!("{number:?}"),
            Value::Bool(truth) => truth.to_string(),
            Value::Datetime(text) => text.clone(),
            Value::Array(_) => "[...]".into(),
            Value::Table(_) => "{...}".into(),
            Value::Placeholder => String::new(),
        };
        if text.chars().count() > 80 { text.chars().take(77).chain("...".chars()).collect() } else { text }
    }
}

struct Lines<'a> {
    name: Arc<str>,
    text: &'a str,
}

impl Lines<'_> {
    fn origin(&self, offset: Option<usize>) -> Origin {
        let Some(offset) = offset else { return Origin::Whole(self.name.clone()) };
        let mut end = offset.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &self.text[..end];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Origin::File {
            name: self.name.clone(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }

    fn table(&self, table: &dyn TableLike) -> Table {
        let mut out = Table::new();
        for (name, item) in table.iter() {
            let key_span = table.key(name).and_then(toml_edit::Key::span);
            let origin = self.origin(key_span.map(|span| span.start));
            if let Some(value) = self.value(item) {
                out.insert(name.to_owned(), Entry { origin: origin.clone(), node: Node { origin, value } });
            }
        }
        out
    }

    fn value(&self, item: &Item) -> Option<Value> {
        if let Some(table) = item.as_table_like() {
            return Some(Value::Table(self.table(table)));
        }
        if let Some(tables) = item.as_array_of_tables() {
            let node = |table: &toml_edit::Table| Node {
                origin: self.origin(table.span().map(|span| span.start)),
                value: Value::Table(self.table(table)),
            };
            return Some(Value::Array(tables.iter().map(node).collect()));
        }
        item.as_value().map(|value| self.scalar(value))
    }

    fn scalar(&self, value: &toml_edit::Value) -> Value {
        match value {
            toml_edit::Value::String(text) => Value::String(text.value().clone()),
            toml_edit::Value::Integer(number) => Value::Integer(*number.value()),
            toml_edit::Value::Float(number) => Value::Float(*number.value()),
            toml_edit::Value::Boolean(truth) => Value::Bool(*truth.value()),
            toml_edit::Value::Datetime(time) => Value::Datetime(time.value().to_string()),
            toml_edit::Value::InlineTable(table) => Value::Table(self.table(table)),
            toml_edit::Value::Array(items) => {
                let node = |value: &toml_edit::Value| Node {
                    origin: self.origin(value.span().map(|span| span.start)),
                    value: self.scalar(value),
                };
                Value::Array(items.iter().map(node).collect())
            }
        }
    }
}

/// Parse TOML text; `name` is what errors call it.
pub(crate) fn parse(text: &str, name: &str) -> Result<Table, Box<Problem>> {
    let lines = Lines { name: name.into(), text };
    match toml_edit::Document::parse(text) {
        Ok(document) => Ok(lines.table(document.as_table())),
        Err(error) => {
            if let Some(what) = foreign::is_something_else(text) {
                return Err(Box::new(Problem::at(Origin::Whole(name.into()), what)));
            }
            let mut message = error.message().lines().collect::<Vec<_>>().join(", ");
            if message == "duplicate key"
                && let Some(rest) = error.span().and_then(|span| text.get(span.start..))
            {
                let key = rest.split([' ', '=', ']', '\t', '\n']).next().unwrap_or_default();
                message = format!("duplicate key {key}: it is stated above already");
            }
            if message == "integer number overflowed"
                && let Some(line) = error.span().and_then(|span| line_of(text, span.start))
            {
                message = format!("{line}: a whole number is from {} to {}", i64::MIN, i64::MAX);
            }
            Err(Box::new(Problem::at(lines.origin(error.span().map(|span| span.start)), message)))
        }
    }
}

/// The line of a place in a text, without the blanks around it.
fn line_of(text: &str, at: usize) -> Option<&str> {
    let (before, behind) = text.split_at_checked(at)?;
    let start = before.rfind('\n').map_or(0, |end| end + 1);
    let end = at + behind.find('\n').unwrap_or(behind.len());
    Some(text[start..end].trim())
}

/// A value from JSON (a Python dictionary), all of it with one origin. JSON's null is left out.
pub(crate) fn from_json(json: &serde_json::Value, origin: &Origin) -> Option<Node> {
    let value = match json {
        serde_json::Value::Null => return None,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(integer) => Value::Integer(integer),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::String(text.clone()),
        serde_json::Value::Array(items) => {
            Value::Array(items.iter().filter_map(|item| from_json(item, origin)).collect())
        }
        serde_json::Value::Object(entries) => Value::Table(
            entries
                .iter()
                .filter_map(|(key, value)| {
                    let node = from_json(value, origin)?;
                    Some((key.clone(), Entry { origin: origin.clone(), node }))
                })
                .collect(),
        ),
    };
    Some(Node { origin: origin.clone(), value })
}

/// Keys that say one thing in several ways: writing one replaces the others that a lower layer wrote.
const EXCLUSIVE: [&[&str]; 3] = [
    &["over_provisioning", "logical_bytes", "logical_pages"],
    &["kind", "trace"],
    &["mean_interarrival_us", "rate_iops"],
];

/// Lay `over` on top of `base`: tables merge key by key, everything else is replaced.
pub(crate) fn merge(base: &mut Table, over: Table) {
    for group in EXCLUSIVE {
        if group.iter().any(|key| over.contains_key(*key)) {
            base.retain(|key, _| !group.contains(&key.as_str()) || over.contains_key(key));
        }
    }
    for (key, entry) in over {
        match (base.get_mut(&key), entry) {
            (
                Some(Entry { node: Node { value: Value::Table(below), .. }, .. }),
                Entry { node: Node { value: Value::Table(above), .. }, .. },
            ) => merge(below, above),
            (_, entry) => {
                base.insert(key, entry);
            }
        }
    }
}
