//! serde over a tree of located values, with errors that keep their structure.

use std::fmt;

use ftlab_core::quantity::parse_share;
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeSeed, IntoDeserializer, Visitor};

use crate::node::{Entry, Node, Origin, Table, Value};
use crate::number;

/// A step down the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// What serde found wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    UnknownKey {
        key: String,
        valid: &'static [&'static str],
    },
    UnknownVariant {
        valid: &'static [&'static str],
    },
    Missing(&'static str),
    /// The value is no such thing.
    Expected(String),
    /// A message of the configuration type itself.
    Custom(String),
}

/// An error and the path to the value at fault, innermost step first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Error {
    pub(crate) path: Vec<Step>,
    pub(crate) kind: Kind,
}

impl Error {
    fn below(mut self, step: Step) -> Self {
        self.path.push(step);
        self
    }
}

impl From<Kind> for Error {
    fn from(kind: Kind) -> Self {
        Self { path: Vec::new(), kind }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.kind)
    }
}

impl std::error::Error for Error {}

/// serde's name of a type, in the words of a person who writes TOML.
fn plain(expected: &dyn de::Expected) -> String {
    let text = expected.to_string();
    let whole = |max: u64| format!("a whole number from 0 to {max}");
    match text.as_str() {
        "u8" => whole(u8::MAX.into()),
        "u16" => whole(u16::MAX.into()),
        "u32" => whole(u32::MAX.into()),
        "u64" | "usize" => "a whole number, 0 or more".into(),
        "i32" | "i64" => "a whole number".into(),
        "f32" | "f64" => "a number".into(),
        "a boolean" => "true or false".into(),
        "a string" | "string" => "text in quotes".into(),
        "a sequence" => "a list in brackets".into(),
        _ if text.starts_with("struct ") || text.starts_with("internally tagged enum ") => "a table".into(),
        _ => text,
    }
}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Kind::Custom(message.to_string()).into()
    }
    fn invalid_type(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Kind::Expected(plain(expected)).into()
    }
    fn invalid_value(_: de::Unexpected<'_>, expected: &dyn de::Expected) -> Self {
        Kind::Expected(plain(expected)).into()
    }
    fn invalid_length(_: usize, expected: &dyn de::Expected) -> Self {
        Kind::Expected(plain(expected)).into()
    }
    fn unknown_variant(_: &str, valid: &'static [&'static str]) -> Self {
        Kind::UnknownVariant { valid }.into()
    }
    fn unknown_field(field: &str, valid: &'static [&'static str]) -> Self {
        Kind::UnknownKey { key: field.into(), valid }.into()
    }
    fn missing_field(field: &'static str) -> Self {
        Kind::Missing(field).into()
    }
}

/// Reads one node.
#[derive(Clone, Copy)]
pub(crate) struct NodeDeserializer<'a>(pub(crate) &'a Value);

macro_rules! placeholder_as {
    ($($method:ident => $visit:ident($value:expr)),* $(,)?) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            match self.0 {
                Value::Placeholder => visitor.$visit($value),
                _ => self.deserialize_any(visitor),
            }
        }
    )*};
}

macro_rules! counts {
    ($($method:ident)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            let count = match self.0 {
                Value::String(text) => number::count(text),
                Value::Float(value) => number::whole(*value),
                _ => None,
            };
            match count {
                Some(count) => visitor.visit_u64(count),
                None => self.deserialize_any(visitor),
            }
        }
    )*};
}

impl<'de> de::Deserializer<'de> for NodeDeserializer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::String(text) | Value::Datetime(text) => visitor.visit_str(text),
            Value::Integer(number) => match u64::try_from(*number) {
                Ok(number) => visitor.visit_u64(number),
                Err(_) => visitor.visit_i64(*number),
            },
            Value::Float(number) if number.is_finite() => visitor.visit_f64(*number),
            Value::Float(_) => Err(Kind::Expected("a finite number".into()).into()),
            Value::Bool(truth) => visitor.visit_bool(*truth),
            Value::Array(items) => visitor.visit_seq(Items { items, next: 0 }),
            Value::Table(table) => visitor.visit_map(Entries { table: table.iter(), value: None }),
            Value::Placeholder => visitor.visit_u64(1),
        }
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        let number = match self.0 {
            Value::Placeholder => Some(1.0),
            Value::String(text) => parse_share(text).ok(),
            _ => None,
        };
        match number {
            Some(number) => visitor.visit_f64(number),
            None => self.deserialize_any(visitor),
        }
    }

    counts! { deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 }

    placeholder_as! {
        deserialize_bool => visit_bool(true),
        deserialize_str => visit_str(""),
        deserialize_string => visit_str(""),
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        valid: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::String(text) => {
                visitor.visit_enum(IntoDeserializer::<Error>::into_deserializer(text.as_str()))
            }
            Value::Table(table) if table.len() == 1 => {
                let (name, entry) = table.iter().next().expect("one entry");
                visitor.visit_enum(Variant { name, entry })
            }
            _ => Err(Kind::UnknownVariant { valid }.into()),
        }
    }

    serde::forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u128 char bytes byte_buf unit unit_struct seq tuple tuple_struct map
        struct identifier ignored_any
    }
}

struct Items<'a> {
    items: &'a [Node],
    next: usize,
}

impl<'de> de::SeqAccess<'de> for Items<'_> {
    type Error = Error;
    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(item) = self.items.get(self.next) else { return Ok(None) };
        let index = self.next;
        self.next += 1;
        seed.deserialize(NodeDeserializer(&item.value))
            .map(Some)
            .map_err(|error| error.below(Step::Index(index)))
    }
}

struct Entries<'a> {
    table: std::collections::btree_map::Iter<'a, String, Entry>,
    value: Option<(&'a String, &'a Entry)>,
}

impl<'de> de::MapAccess<'de> for Entries<'_> {
    type Error = Error;
    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((key, entry)) = self.table.next() else { return Ok(None) };
        self.value = Some((key, entry));
        let key: StrDeserializer<'_, Error> = key.as_str().into_deserializer();
        seed.deserialize(key).map(Some)
    }
    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        let (key, entry) = self.value.take().expect("serde asks for a value after its key");
        seed.deserialize(NodeDeserializer(&entry.node.value))
            .map_err(|error| error.below(Step::Key(key.clone())))
    }
}

struct Variant<'a> {
    name: &'a str,
    entry: &'a Entry,
}

impl<'de> de::EnumAccess<'de> for Variant<'_> {
    type Error = Error;
    type Variant = Self;
    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        let name: StrDeserializer<'_, Error> = self.name.into_deserializer();
        Ok((seed.deserialize(name)?, self))
    }
}

impl<'de> de::VariantAccess<'de> for Variant<'_> {
    type Error = Error;
    fn unit_variant(self) -> Result<(), Error> {
        Err(Kind::Expected("a name alone".into()).into())
    }
    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        let step = Step::Key(self.name.into());
        seed.deserialize(NodeDeserializer(&self.entry.node.value)).map_err(|error| error.below(step))
    }
    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        let step = Step::Key(self.name.into());
        de::Deserializer::deserialize_any(NodeDeserializer(&self.entry.node.value), visitor)
            .map_err(|error| error.below(step))
    }
    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.tuple_variant(0, visitor)
    }
}

/// A value in the tree, and where its key was written; an element of an array has no key and is its own place.
pub(crate) struct Found<'a> {
    pub(crate) origin: &'a Origin,
    pub(crate) node: &'a Node,
}

/// The value at the end of `path` (innermost step first).
pub(crate) fn at<'a>(root: &'a Table, path: &[Step]) -> Option<Found<'a>> {
    let (first, rest) = path.split_last()?;
    let Step::Key(key) = first else { return None };
    let entry = root.get(key)?;
    let mut found = Found { origin: &entry.origin, node: &entry.node };
    for step in rest.iter().rev() {
        found = match (step, &found.node.value) {
            (Step::Key(key), Value::Table(table)) => {
                let entry = table.get(key)?;
                Found { origin: &entry.origin, node: &entry.node }
            }
            (Step::Index(index), Value::Array(items)) => {
                let node = items.get(*index)?;
                Found { origin: &node.origin, node }
            }
            _ => return None,
        };
    }
    Some(found)
}

/// The table at the end of `path`, for changes.
pub(crate) fn table_at<'a>(root: &'a mut Table, path: &[Step]) -> Option<&'a mut Table> {
    let mut steps = path.iter().rev();
    let Some(first) = steps.next() else { return Some(root) };
    let Step::Key(key) = first else { return None };
    let mut node = &mut root.get_mut(key)?.node;
    for step in steps {
        node = match (step, &mut node.value) {
            (Step::Key(key), Value::Table(table)) => &mut table.get_mut(key)?.node,
            (Step::Index(index), Value::Array(items)) => items.get_mut(*index)?,
            _ => return None,
        };
    }
    match &mut node.value {
        Value::Table(table) => Some(table),
        _ => None,
    }
}

/// `path` as a dotted key.
pub(crate) fn dotted(path: &[Step]) -> String {
    let mut text = String::new();
    for step in path.iter().rev() {
        match step {
            Step::Key(key) if text.is_empty() => text.push_str(key),
            Step::Key(key) => text.extend([".", key]),
            Step::Index(index) => text.extend(["[", index.to_string().as_str(), "]"]),
        }
    }
    text
}

/// The path of a dotted key, such as `workload.transform[0].factor`; innermost step first.
pub(crate) fn path_of(key: &str) -> Vec<Step> {
    let mut path = Vec::new();
    for part in key.split('.') {
        let mut pieces = part.split('[');
        path.extend(pieces.next().map(|name| Step::Key(name.into())));
        let index = |piece: &str| piece.strip_suffix(']')?.parse().ok();
        path.extend(pieces.filter_map(index).map(Step::Index));
    }
    path.reverse();
    path
}
