//! Volumes of traces in workload files.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// Volumes of a trace by number: one or several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeList(pub Vec<u16>);

struct VolumeVisitor;

impl<'de> Visitor<'de> for VolumeVisitor {
    type Value = VolumeList;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a volume from 0 to 65535, or a list of them")
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<VolumeList, E> {
        let volume =
            u16::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Unsigned(value), &self))?;
        Ok(VolumeList(vec![volume]))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<VolumeList, E> {
        let volume =
            u16::try_from(value).map_err(|_| E::invalid_value(de::Unexpected::Signed(value), &self))?;
        Ok(VolumeList(vec![volume]))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<VolumeList, A::Error> {
        let mut volumes = Vec::new();
        while let Some(volume) = list.next_element::<u16>()? {
            volumes.push(volume);
        }
        if volumes.is_empty() {
            return Err(de::Error::invalid_length(0, &self));
        }
        Ok(VolumeList(volumes))
    }
}

impl<'de> Deserialize<'de> for VolumeList {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(VolumeVisitor)
    }
}

impl Serialize for VolumeList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0[..] {
            [volume] => serializer.serialize_u16(volume),
            _ => self.0.serialize(serializer),
        }
    }
}

impl JsonSchema for VolumeList {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "VolumeList".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let volume = schemars::json_schema!({ "type": "integer", "minimum": 0, "maximum": 65535 });
        schemars::json_schema!({
            "description": "A volume, or a list of them.",
            "anyOf": [volume, { "type": "array", "items": volume, "minItems": 1 }]
        })
    }
}
