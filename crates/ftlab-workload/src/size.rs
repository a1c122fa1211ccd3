//! Sizes of requests in workload files.

use std::fmt;

use ftlab_core::host::request::SECTOR_BYTES;
use ftlab_core::quantity::parse_bytes;
use schemars::JsonSchema;
use serde::de::{self, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};

use crate::process::normal;
use ftlab_core::rng::Rng;

const SECTOR: u64 = SECTOR_BYTES as u64;

/// Of a choice with weights: sums of larger ones need not be numbers.
pub(crate) const LARGEST_WEIGHT: f64 = 1e15;

/// Sizes with the same weight: `min_bytes`, and on in steps of `step_bytes` up to `max_bytes`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeClass {
    /// Smallest size.
    pub min_bytes: u64,
    /// No size is larger. The same as `min_bytes` for a single size.
    pub max_bytes: u64,
    /// Distance from one size to the next.
    pub step_bytes: u64,
    /// Weight of the class as a whole.
    pub weight: f64,
}

/// Size of requests: one, several with weights, or a lognormal distribution.
#[derive(Debug, Clone, PartialEq)]
pub enum RequestBytes {
    /// Every request has this size in bytes.
    Fixed(u64),
    /// Sizes and ranges of sizes with weights, in ascending order.
    Weighted(Vec<SizeClass>),
    /// Lognormal, rounded up to a multiple of `step_bytes` and kept from `min_bytes` to `max_bytes`.
    Lognormal {
        /// Half of the requests are smaller.
        median_bytes: u64,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
        /// Smallest size. 512 when absent.
        min_bytes: u64,
        /// Largest size. 1 MiB when absent.
        max_bytes: u64,
        /// Sizes are multiples of this. 512 when absent.
        step_bytes: u64,
    },
}

impl SizeClass {
    fn parse(text: &str, weight: f64) -> Result<Self, String> {
        let (range, step) = text.split_once('/').map_or((text, None), |(range, step)| (range, Some(step)));
        let (min, max) = range.split_once('-').unwrap_or((range, range));
        let (min_bytes, max_bytes) = (parse_bytes(min)?, parse_bytes(max)?);
        let step_bytes = step.map_or(Ok(min_bytes), parse_bytes)?;
        if max_bytes < min_bytes || step_bytes == 0 {
            return Err(format!(
                "{text:?} is no range of sizes such as \"4KiB-64KiB\" or \"4KiB-64KiB/512B\""
            ));
        }
        Ok(Self { min_bytes, max_bytes, step_bytes, weight })
    }

    fn key(&self) -> String {
        if self.min_bytes == self.max_bytes {
            self.min_bytes.to_string()
        } else {
            format!("{}-{}/{}", self.min_bytes, self.max_bytes, self.step_bytes)
        }
    }

    fn steps(&self) -> u64 {
        (self.max_bytes - self.min_bytes) / self.step_bytes + 1
    }

    /// The largest size there is: `max_bytes` need not be a whole number of steps away.
    fn largest(&self) -> u64 {
        self.min_bytes + (self.steps() - 1) * self.step_bytes
    }
}

/// A size in the largest unit of which it is a whole number.
pub(crate) fn size_text(bytes: u64) -> String {
    let units = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = units.into_iter().find(|(_, unit)| bytes >= *unit && bytes.is_multiple_of(*unit));
    unit.map_or_else(|| bytes.to_string(), |(name, unit)| format!("{}{name}", bytes / unit))
}

impl fmt::Display for RequestBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestBytes::Fixed(bytes) => f.write_str(&size_text(*bytes)),
            RequestBytes::Weighted(classes) => {
                let (smallest, largest) = (size_text(self.smallest()), size_text(self.largest()));
                write!(f, "{} sizes from {smallest} to {largest}", classes.len())
            }
            RequestBytes::Lognormal { median_bytes, .. } => {
                write!(f, "a lognormal law around {}", size_text(*median_bytes))
            }
        }
    }
}

impl RequestBytes {
    pub(crate) fn smallest(&self) -> u64 {
        match self {
            RequestBytes::Fixed(bytes) => *bytes,
            RequestBytes::Weighted(classes) => classes.iter().map(|class| class.min_bytes).min().unwrap_or(0),
            RequestBytes::Lognormal { min_bytes, .. } => *min_bytes,
        }
    }

    pub(crate) fn mean(&self) -> f64 {
        match self {
            RequestBytes::Fixed(bytes) => *bytes as f64,
            RequestBytes::Weighted(classes) => {
                let middle = |class: &SizeClass| {
                    class.min_bytes as f64 + (class.steps() - 1) as f64 * class.step_bytes as f64 / 2.0
                };
                let sum: f64 = classes.iter().map(|class| class.weight).sum();
                classes.iter().map(|class| middle(class) * class.weight).sum::<f64>() / sum
            }
            RequestBytes::Lognormal { median_bytes, sigma, min_bytes, max_bytes, .. } => {
                let free = *median_bytes as f64 * libm::exp(sigma * sigma / 2.0);
                free.clamp(*min_bytes as f64, *max_bytes as f64)
            }
        }
    }

    pub(crate) fn largest(&self) -> u64 {
        match self {
            RequestBytes::Fixed(bytes) => *bytes,
            RequestBytes::Weighted(classes) => classes.iter().map(SizeClass::largest).max().unwrap_or(0),
            RequestBytes::Lognormal { max_bytes, .. } => *max_bytes,
        }
    }

    /// What was found and expected where the sizes make no sense.
    pub(crate) fn refusal(&self) -> Option<(String, &'static str)> {
        const SIZE: &str = "must be a multiple of 512 bytes, above 0 and at most 1 TiB";
        let wrong = |bytes: &&u64| **bytes == 0 || !bytes.is_multiple_of(SECTOR) || **bytes > 1 << 40;
        match self {
            RequestBytes::Fixed(bytes) => wrong(&bytes).then(|| (bytes.to_string(), SIZE)),
            RequestBytes::Weighted(classes) => {
                if classes.is_empty() || classes.len() > 1000 {
                    return Some((classes.len().to_string(), "must name from 1 to 1000 sizes"));
                }
                for class in classes {
                    if let Some(bytes) =
                        [class.min_bytes, class.max_bytes, class.step_bytes].iter().find(wrong)
                    {
                        return Some((bytes.to_string(), SIZE));
                    }
                    if !(class.weight > 0.0 && class.weight <= LARGEST_WEIGHT) {
                        return Some((
                            format!("{:?}", class.weight),
                            "weights must be above 0, and at most 1e15",
                        ));
                    }
                }
                None
            }
            RequestBytes::Lognormal { median_bytes, sigma, min_bytes, max_bytes, step_bytes } => {
                if let Some(bytes) = [*median_bytes, *min_bytes, *max_bytes, *step_bytes].iter().find(wrong) {
                    return Some((bytes.to_string(), SIZE));
                }
                if min_bytes > max_bytes || max_bytes % step_bytes != 0 || min_bytes % step_bytes != 0 {
                    return Some((
                        format!("{min_bytes} to {max_bytes} in steps of {step_bytes}"),
                        "min and max must be multiples of step, and min not above max",
                    ));
                }
                (!(*sigma > 0.0 && *sigma <= 5.0))
                    .then(|| (sigma.to_string(), "sigma must be above 0 and at most 5"))
            }
        }
    }
}

/// Draws sizes in sectors.
#[derive(Debug, Clone)]
pub(crate) enum Sizes {
    Fixed(u32),
    /// Smallest size, step, steps, and the upper end of the share in [0, 1).
    Weighted(Vec<(u32, u32, u32, f64)>),
    Lognormal {
        log_median: f64,
        sigma: f64,
        min: u32,
        max: u32,
        step: u32,
    },
}

impl Sizes {
    pub(crate) fn new(bytes: &RequestBytes) -> Self {
        let sectors = |bytes: u64| (bytes / SECTOR) as u32;
        match bytes {
            RequestBytes::Fixed(bytes) => Sizes::Fixed(sectors(*bytes)),
            RequestBytes::Weighted(classes) => match &classes[..] {
                [class] if class.steps() == 1 => Sizes::Fixed(sectors(class.min_bytes)),
                _ => {
                    let weights: f64 = classes.iter().map(|class| class.weight).sum();
                    let mut share = 0.0;
                    let rows = classes.iter().map(|class| {
                        share += class.weight / weights;
                        (sectors(class.min_bytes), sectors(class.step_bytes), class.steps() as u32, share)
                    });
                    Sizes::Weighted(rows.collect())
                }
            },
            RequestBytes::Lognormal { median_bytes, sigma, min_bytes, max_bytes, step_bytes } => {
                Sizes::Lognormal {
                    log_median: libm::log(*median_bytes as f64 / SECTOR as f64),
                    sigma: *sigma,
                    min: sectors(*min_bytes),
                    max: sectors(*max_bytes),
                    step: sectors(*step_bytes),
                }
            }
        }
    }

    #[inline(always)]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u32 {
        match self {
            Sizes::Fixed(sectors) => *sectors,
            Sizes::Weighted(rows) => {
                let share = rng.unit();
                let row = rows.iter().find(|row| share < row.3).or(rows.last());
                row.map_or(0, |(min, step, steps, _)| {
                    if *steps == 1 { *min } else { min + step * rng.below_unbiased(u64::from(*steps)) as u32 }
                })
            }
            Sizes::Lognormal { log_median, sigma, min, max, step } => {
                let sectors = libm::exp(log_median + sigma * normal(rng)).min(f64::from(*max));
                ((sectors.ceil() as u32).div_ceil(*step) * step).clamp(*min, *max)
            }
        }
    }
}

struct SizeVisitor;

/// A number or a text, as values of a table of sizes may be.
enum Scalar {
    Number(f64),
    Text(String),
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl Visitor<'_> for ScalarVisitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a string with a unit")
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(value as f64))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(value as f64))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Scalar, E> {
                Ok(Scalar::Number(value))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.into()))
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

impl Scalar {
    fn number<E: de::Error>(self) -> Result<f64, E> {
        match self {
            Scalar::Number(number) => Ok(number),
            Scalar::Text(text) => Err(E::custom(format!("{text:?} is not a number"))),
        }
    }

    fn bytes<E: de::Error>(self) -> Result<u64, E> {
        match self {
            Scalar::Number(number) if number >= 0.0 && number.fract() == 0.0 && number < 9e18 => {
                Ok(number as u64)
            }
            Scalar::Number(number) => Err(E::custom(format!("{number} is not a whole number of bytes"))),
            Scalar::Text(text) => parse_bytes(&text).map_err(E::custom),
        }
    }
}

const LOGNORMAL_KEYS: [&str; 5] = ["median", "sigma", "min", "max", "step"];

impl<'de> Visitor<'de> for SizeVisitor {
    type Value = RequestBytes;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a size in bytes, a string such as \"4KiB\", a table of sizes or ranges with weights, or a table with \
             median and sigma",
        )
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
        let mut classes: Vec<SizeClass> = Vec::new();
        let mut law: [Option<Scalar>; 5] = [const { None }; 5];
        while let Some((key, value)) = map.next_entry::<String, Scalar>()? {
            if let Some(index) = LOGNORMAL_KEYS.iter().position(|name| *name == key) {
                law[index] = Some(value);
                continue;
            }
            let class = SizeClass::parse(&key, value.number()?).map_err(de::Error::custom)?;
            if classes.iter().any(|other| other.key() == class.key()) {
                return Err(de::Error::custom(format!("the size {key:?} is given twice")));
            }
            classes.push(class);
        }
        if law.iter().all(Option::is_none) {
            classes.sort_by_key(|class| (class.min_bytes, class.max_bytes, class.step_bytes));
            return Ok(RequestBytes::Weighted(classes));
        }
        let [median, sigma, min, max, step] = law;
        let (Some(median), Some(sigma), true) = (median, sigma, classes.is_empty()) else {
            return Err(de::Error::custom(
                "a lognormal distribution has median and sigma, may have min, max and step, and no other sizes",
            ));
        };
        let bytes = |value: Option<Scalar>, absent| value.map_or(Ok(absent), Scalar::bytes);
        let step_bytes = bytes(step, SECTOR)?;
        Ok(RequestBytes::Lognormal {
            median_bytes: median.bytes()?,
            sigma: sigma.number()?,
            min_bytes: bytes(min, step_bytes)?,
            max_bytes: bytes(max, 1 << 20)?,
            step_bytes,
        })
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
            RequestBytes::Weighted(classes) => {
                let mut map = serializer.serialize_map(Some(classes.len()))?;
                for class in classes {
                    map.serialize_entry(&class.key(), &class.weight)?;
                }
                map.end()
            }
            RequestBytes::Lognormal { median_bytes, sigma, min_bytes, max_bytes, step_bytes } => {
                let mut map = serializer.serialize_map(Some(5))?;
                map.serialize_entry("median", median_bytes)?;
                map.serialize_entry("sigma", sigma)?;
                map.serialize_entry("min", min_bytes)?;
                map.serialize_entry("max", max_bytes)?;
                map.serialize_entry("step", step_bytes)?;
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
        let size = || serde_json_size();
        schemars::json_schema!({
            "description": "Bytes; a string with a unit; a table of sizes (\"4KiB\"), ranges in steps of their lower \
                            end (\"4KiB-64KiB\") or of another step (\"4KiB-64KiB/512B\") with weights; or a lognormal \
                            distribution by median and sigma, with min, max and step.",
            "anyOf": [
                { "type": "integer", "minimum": 512 },
                { "type": "string" },
                {
                    "type": "object",
                    "properties": { "median": size(), "sigma": { "type": "number", "exclusiveMinimum": 0 }, "min": size(),
                                    "max": size(), "step": size() },
                    "required": ["median", "sigma"],
                    "additionalProperties": false
                },
                { "type": "object", "additionalProperties": { "type": "number", "exclusiveMinimum": 0 } }
            ]
        })
    }
}

fn serde_json_size() -> schemars::Schema {
    schemars::json_schema!({ "type": ["integer", "string"] })
}
