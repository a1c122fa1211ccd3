//! The keys that every order of a write buffer shares.

use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::quantity;

/// When written data go to flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WriteMode {
    /// When they leave the buffer, or at a flush.
    #[default]
    Back,
    /// At once, as they come: the buffer keeps a copy for reads.
    Through,
}

/// What the rate of eviction counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RateUnit {
    /// Victims of the order: NAND pages, or buffered blocks.
    #[default]
    Victims,
    /// NAND pages: victims are taken until their frames, clean ones too, would fill as many. Padding does not count.
    Pages,
}

/// Which of the next victims are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Select {
    /// The next ones, as the order has them.
    #[default]
    Order,
    /// At most one for each die (or plane, where planes work independently), out of four times as many as `rate` says. Over
    /// page mapping a block counts for the die of its page that was buffered first. `ref` looks no further than its recent
    /// blocks.
    Distinct,
}

/// What a write waits for that needs a frame when there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    /// All victims of the eviction.
    #[default]
    Event,
    /// The victim whose frame it takes. Frames are taken in the order in which victims left, those of one victim by page.
    Frame,
}

/// How much leaves at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EvictionRate {
    /// One: what buffers did before anyone asked.
    #[default]
    One,
    /// As many as there are units that run commands at the same time.
    Cave,
    /// So many.
    Count(u32),
}

impl EvictionRate {
    /// How much leaves at a time on a drive with `lanes` units that run commands at the same time.
    pub const fn count(self, lanes: u32) -> u32 {
        match self {
            EvictionRate::One => 1,
            EvictionRate::Cave => lanes,
            EvictionRate::Count(count) => count,
        }
    }
}

impl fmt::Display for EvictionRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EvictionRate::One => f.write_str("\"one\""),
            EvictionRate::Cave => f.write_str("\"cave\""),
            EvictionRate::Count(count) => count.fmt(f),
        }
    }
}

impl Serialize for EvictionRate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            EvictionRate::One => serializer.serialize_str("one"),
            EvictionRate::Cave => serializer.serialize_str("cave"),
            EvictionRate::Count(count) => serializer.serialize_u32(*count),
        }
    }
}

struct RateVisitor;

impl Visitor<'_> for RateVisitor {
    type Value = EvictionRate;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"one\", \"cave\" or a whole number from 1")
    }

    fn visit_u64<E: de::Error>(self, count: u64) -> Result<EvictionRate, E> {
        match u32::try_from(count) {
            Ok(count) if count > 0 => Ok(EvictionRate::Count(count)),
            _ => Err(E::invalid_value(de::Unexpected::Unsigned(count), &self)),
        }
    }

    fn visit_i64<E: de::Error>(self, count: i64) -> Result<EvictionRate, E> {
        match u64::try_from(count) {
            Ok(count) => self.visit_u64(count),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(count), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, name: &str) -> Result<EvictionRate, E> {
        match name {
            "one" => Ok(EvictionRate::One),
            "cave" => Ok(EvictionRate::Cave),
            _ => Err(E::invalid_value(de::Unexpected::Str(name), &self)),
        }
    }
}

impl<'de> Deserialize<'de> for EvictionRate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RateVisitor)
    }
}

impl JsonSchema for EvictionRate {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "EvictionRate".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "oneOf": [
            { "const": "one", "description": "One." },
            { "const": "cave", "description": "As many as there are units that run commands at the same time." },
            { "type": "integer", "minimum": 1, "description": "So many." },
        ] })
    }
}

/// The keys that every order shares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CommonKeys {
    /// Memory for data, in bytes: a frame for each mapping unit, rounded down, and no more frames than the drive has logical
    /// units. 0 (the default): there is no buffer.
    ///
    /// Default: no size is right for every drive, so it has to be said.
    #[serde(deserialize_with = "quantity::bytes")]
    pub bytes: u64,
    /// When written data go to flash. `through` is for orders that keep what is read.
    ///
    /// Default: back, since gathering writes is what a write buffer is for.
    pub write: WriteMode,
    /// How much leaves when a page needs a frame and there is none: `"one"`, `"cave"` (as many as there are dies, or
    /// planes that work independently) or a number.
    ///
    /// Default: one, as buffers did before the paper on channel-aware buffers.
    pub rate: EvictionRate,
    /// What `rate` counts.
    ///
    /// Default: victims, as in the abstract of the paper on channel-aware buffers; its slides also speak of pages.
    pub rate_unit: RateUnit,
    /// Which of the next victims are taken.
    ///
    /// Default: the victims of the order itself; others need addresses that decide the die.
    pub select: Select,
    /// What a write waits for that needs a frame when there is none.
    ///
    /// Default: as in the paper on channel-aware buffers: an eviction is waited for as a whole.
    pub wait: Wait,
    /// How long an access to the buffer takes, in microseconds, beside the transfer.
    ///
    /// Default: no time, as the papers on buffers state none and flash takes far longer.
    #[serde(deserialize_with = "quantity::micros")]
    pub access_us: f64,
    /// Rate of the memory in million bytes a second; 0 (the default): transfers take no time. It moves the data of one
    /// host access at a time; what moves between flash and frames is slower on the bus, and is not charged.
    ///
    /// Default: free, as the bus of flash is the slower of the two; a rate has to be known.
    pub mb_per_s: f64,
    /// Which share of the shorter of buffer time and flash time of a page is hidden behind the longer, from 0 to 1. The
    /// buffer moves one page at a time then. Without this key (the default) it moves several at once, and flash hides it.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "quantity::optional_share")]
    pub hiding: Option<f64>,
    /// Whether what is in the buffer is written at the end of a run, at the same rate.
    ///
    /// Default: all that the host has written is then counted in flash, however large the buffer is.
    pub drain_at_end: bool,
    /// Sequential writes of so many bytes and more go past the buffer; 0 (the default): none. A request goes past as a whole or
    /// not at all. What it has on NAND pages after its first one counts in whole mapping units.
    ///
    /// Default: none, as the buffers of the papers take every write.
    #[serde(deserialize_with = "quantity::bytes")]
    pub bypass_bytes: u64,
    /// Mapping units that are read ahead of sequential reads, by orders that keep what is read; 0 (the default): none. A
    /// read is sequential that begins where the last read ended, or has several NAND pages. Writes in between do not matter.
    /// What one NAND page can hold is read with one access.
    ///
    /// Default: none, so that flash reads only what the host asks for.
    pub prefetch_pages: u32,
    /// Mapping units of a block, as orders that take or look at blocks see it; 0 (the default): of the block of the
    /// translation layer, which may be clustered. Other orders refuse it.
    ///
    /// Default: what a layer merges together is best written together.
    pub block_pages: u32,
}

impl Default for CommonKeys {
    fn default() -> Self {
        Self {
            bytes: 0,
            write: WriteMode::Back,
            rate: EvictionRate::One,
            rate_unit: RateUnit::Victims,
            select: Select::Order,
            wait: Wait::Event,
            access_us: 0.0,
            mb_per_s: 0.0,
            hiding: None,
            drain_at_end: true,
            bypass_bytes: 0,
            prefetch_pages: 0,
            block_pages: 0,
        }
    }
}

/// The keys of an order, and those that every order shares.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct BufferKeys<K> {
    /// Those that every order shares.
    #[serde(flatten)]
    pub common: CommonKeys,
    /// Those that only it has.
    #[serde(flatten)]
    pub own: K,
}
