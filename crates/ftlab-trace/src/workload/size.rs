//! Sizes of requests in workload files.

use std::collections::BTreeMap;
use std::fmt;

use ftlab_core::quantity::parse_bytes;
use schemars::JsonSchema;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

/// Size of requests: one, or several with weights.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestBytes {
    /// Every request has this size in bytes.
    Fixed(u64),
    /// Sizes in bytes with weights, in ascending order.
    Weighted(Vec<(u64, f64)>),
}

struct SizeVisitor;

impl<'de> Visitor<'de> for SizeVisitor {
    type Value = RequestBytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size in bytes, a string such as \"4KiB\", or a table of sizes with weights")
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<RequestBytes, E> {
        Ok(RequestBytes::Fixed(value))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<RequestBytes, E> {
        let bytes =
            u64::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))?;
        Ok(RequestBytes::Fixed(bytes))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<RequestBytes, E> {
        parse_bytes(text).map(RequestBytes::Fixed).map_err(E::custom)
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RequestBytes, A::Error> {
        let mut sizes = BTreeMap::new();
        while let Some((size, weight)) = map.next_entry::<String, f64>()? {
            let bytes = parse_bytes(&size).map_err(de::Error::custom)?;
            if sizes.insert(bytes, weight).is_some() {
                return Err(de::Error::custom(format!("the size of {bytes} bytes is given twice")));
            }
        }
        Ok(RequestBytes::Weighted(sizes.into_iter().collect()))
    }
}

impl<'de> Deserialize<'de> for RequestBytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SizeVisitor)
    }
}

impl Serialize for RequestBytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            RequestBytes::Fixed(bytes) => serializer.serialize_u64(*bytes),
            RequestBytes::Weighted(sizes) => {
                let mut map = serializer.serialize_map(Some(sizes.len()))?;
                for (bytes, weight) in sizes {
                    map.serialize_entry(&bytes.to_string(), weight)?;
                }
                map.end()
            }
        }
    }
}

impl JsonSchema for RequestBytes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RequestBytes".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Bytes, a string with a unit, or a table of sizes with weights.",
            "anyOf": [
                { "type": "integer", "minimum": 512 },
                { "type": "string" },
                { "type": "object", "additionalProperties": { "type": "number", "exclusiveMinimum": 0 } }
            ]
        })
    }
}
