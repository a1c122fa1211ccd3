//! Workloads that take the place of recordings, and the statistics that they must have.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use ftlab_core::config::ConfigError;
use ftlab_core::quantity::parse_bytes;
use schemars::JsonSchema;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{SerializeSeq, Serializer};
use serde::{Deserialize, Serialize};

use crate::size::size_text;
use ftlab_trace::transform::Step;

/// What a workload stands for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StandIn {
    /// The recording, and the paper that used it.
    #[serde(rename = "for")]
    pub stands_for: String,
    /// Files of the recording: the first that is found in the folder of traces runs instead. None when absent.
    ///
    /// Default: where no file is named, none can be looked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traces: Vec<String>,
    /// Format of these files; recognised by content when absent.
    ///
    /// Default: what a file holds is a better witness than its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<String>,
    /// Steps that make of the requests of the recording what the paper made of them, such as all accesses writes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transform: Vec<Step>,
}

impl StandIn {
    /// Check the steps.
    ///
    /// # Errors
    /// What is wrong with which.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let mut steps = self.transform.iter().enumerate();
        steps.try_for_each(|(index, step)| step.validate(&format!("stand_in.transform[{index}]")))
    }
}

/// A number that a statistic must have, to within the tolerance of its kind, or a range in which it must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Expected {
    /// This value.
    Value(f64),
    /// From the first to the second.
    Range(f64, f64),
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Expected::Value(value) => write!(f, "{value}"),
            Expected::Range(low, high) => write!(f, "[{low}, {high}]"),
        }
    }
}

impl Expected {
    fn holds(self, fits: impl Fn(f64) -> bool) -> bool {
        match self {
            Expected::Value(value) => fits(value),
            Expected::Range(low, high) => low <= high && fits(low) && fits(high),
        }
    }
}

struct ExpectedVisitor;

impl<'de> Visitor<'de> for ExpectedVisitor {
    type Value = Expected;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a size such as \"2.6GiB\", or a range of numbers such as [0.4, 0.6]")
    }
    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Expected, E> {
        Ok(Expected::Value(value as f64))
    }
    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Expected, E> {
        Ok(Expected::Value(value as f64))
    }
    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Expected, E> {
        Ok(Expected::Value(value))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Expected, E> {
        parse_bytes(text).map(|bytes| Expected::Value(bytes as f64)).map_err(E::custom)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Expected, A::Error> {
        match (seq.next_element()?, seq.next_element()?, seq.next_element::<f64>()?) {
            (Some(low), Some(high), None) if low <= high => Ok(Expected::Range(low, high)),
            _ => Err(de::Error::custom("a range has two numbers, the smaller one first")),
        }
    }
}

impl<'de> Deserialize<'de> for Expected {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ExpectedVisitor)
    }
}

impl Serialize for Expected {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Expected::Value(value) => serializer.serialize_f64(*value),
            Expected::Range(low, high) => {
                let mut seq = serializer.serialize_seq(Some(2))?;
                seq.serialize_element(low)?;
                seq.serialize_element(high)?;
                seq.end()
            }
        }
    }
}

impl JsonSchema for Expected {
    fn schema_name() -> Cow<'static, str> {
        "Expected".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A number, a size with a unit, or a range: two numbers.",
            "anyOf": [
                { "type": "number" },
                { "type": "string" },
                { "type": "array", "items": { "type": "number" }, "minItems": 2, "maxItems": 2 }
            ]
        })
    }
}

/// A size of requests, as a number of bytes or with a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SizeName(pub u64);

impl SizeName {
    /// The name of its share among statistics: `sizes.64KiB`.
    pub fn statistic(self) -> String {
        format!("sizes.{}", size_text(self.0))
    }
}

impl<'de> Deserialize<'de> for SizeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        parse_bytes(&text).map(SizeName).map_err(de::Error::custom)
    }
}

impl Serialize for SizeName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&size_text(self.0))
    }
}

impl JsonSchema for SizeName {
    fn schema_name() -> Cow<'static, str> {
        "SizeName".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

/// Shares of sizes: a size that is named twice, such as "4KiB" and "4096", is refused.
fn sizes_once<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<SizeName, Expected>, D::Error> {
    struct Sizes;
    impl<'de> Visitor<'de> for Sizes {
        type Value = BTreeMap<SizeName, Expected>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table of sizes with their shares, such as { \"4KiB\" = 0.5 }")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut sizes = BTreeMap::new();
            while let Some((size, share)) = map.next_entry::<SizeName, Expected>()? {
                if sizes.insert(size, share).is_some() {
                    let size = size_text(size.0);
                    return Err(de::Error::custom(format!("the size {size} is named twice: state it once")));
                }
            }
            Ok(sizes)
        }
    }
    deserializer.deserialize_map(Sizes)
}

/// The shape of a workload, as its paper describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ShapeName {
    /// Intra-distances (from the page whose miss loaded a translation page to later hits in it; 1,024 translation pages
    /// cached): 0 is the most frequent one.
    IntraDistanceZero,
    /// More intra-distances above 0 than below.
    IntraDistanceForward,
    /// Most of those above 0 are below 128.
    IntraDistanceNear,
    /// Most of those above 0 are 128 and more.
    IntraDistanceFar,
    /// Neither side has more than 65 % of those that are not 0.
    IntraDistanceBothSides,
    /// Most writes are small (8 KiB at most), and 60 % of these and more are random. Of the large ones (128 KiB and
    /// more), 80 % and more are sequential. A thousandth of the pages gets a tenth of the accesses and more.
    SmallHotLargeSequential,
}

/// Statistics that a workload must have. Each states its tolerance, which holds for a number; a range has none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Calibration {
    /// Where the numbers come from.
    ///
    /// Default: empty, as numbers of one's own have no other source.
    pub source: String,
    /// Requests: exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<Expected>,
    /// Share of reads among reads and writes: to 0.01.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_fraction: Option<Expected>,
    /// Share of writes among all requests: to 0.01.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_fraction: Option<Expected>,
    /// Share of trims among all requests: to 0.01.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trim_fraction: Option<Expected>,
    /// Share of flushes among all requests: to 0.01.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_fraction: Option<Expected>,
    /// Share of the bytes that are read: to 0.02.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes_fraction: Option<Expected>,
    /// Mean size of reads and writes: to 2 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_bytes: Option<Expected>,
    /// Mean size of reads: to 2 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_read_bytes: Option<Expected>,
    /// Mean size of writes: to 2 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_write_bytes: Option<Expected>,
    /// Pages of 4 KiB that reads and writes touch, each counted as often as it is touched: exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_accesses: Option<Expected>,
    /// From the lowest byte that is touched to the highest: to 5 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub span_bytes: Option<Expected>,
    /// Bytes that are touched at all, in units of `footprint_unit_bytes`: to 5 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub footprint_bytes: Option<Expected>,
    /// Unit of `footprint_bytes`. 4 KiB when absent.
    ///
    /// Default: 4 KiB, the page that papers count in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub footprint_unit_bytes: Option<Expected>,
    /// Share of requests that begin where the one before of the same stream ended: to 0.02.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequential_fraction: Option<Expected>,
    /// Share of reads that begin where the read before of the same stream ended: to 0.02.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequential_read_fraction: Option<Expected>,
    /// Share of writes that begin where the write before of the same stream ended: to 0.02.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequential_write_fraction: Option<Expected>,
    /// Share of requests that begin at a multiple of 4 KiB: to 0.02.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aligned_fraction: Option<Expected>,
    /// Share of writes of exactly 4 KiB: to 0.02.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_4k_fraction: Option<Expected>,
    /// Share of reads and writes of exactly these sizes: each to 0.02.
    #[serde(deserialize_with = "sizes_once", skip_serializing_if = "BTreeMap::is_empty")]
    pub sizes: BTreeMap<SizeName, Expected>,
    /// Pages of 4 KiB that a read or write touches, on average: to 5 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pages_per_request: Option<Expected>,
    /// Bytes that are written at all, in pages of 4 KiB: to 5 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub footprint_written_bytes: Option<Expected>,
    /// Distinct addresses at which requests begin: to 5 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distinct_starts: Option<Expected>,
    /// Share of reads and writes that begin in the first twentieth of the addresses that are used: to 0.02.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_twentieth: Option<Expected>,
    /// Share of reads and writes that begin in the first fifth of the addresses that are used: to 0.02.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_fifth: Option<Expected>,
    /// Share of the written bytes that go to the file system's journal, the first 32 MiB of kind `phone_sqlite`: to 0.02.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub journal_bytes_fraction: Option<Expected>,
    /// Share of page accesses that go to the most accessed hundredth of the touched pages: to 0.03.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hottest_hundredth: Option<Expected>,
    /// Share of page accesses that go to the most accessed twentieth of the touched pages: to 0.03.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hottest_twentieth: Option<Expected>,
    /// Share of page accesses that go to the most accessed tenth of the touched pages: to 0.03.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hottest_tenth: Option<Expected>,
    /// Share of page accesses that go to the most accessed fifth of the touched pages: to 0.03.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hottest_fifth: Option<Expected>,
    /// Mean gap between requests: to 5 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_gap_us: Option<Expected>,
    /// Standard deviation / mean of the gaps between requests: to 20 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gap_cv: Option<Expected>,
    /// What the paper says of its shape.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub shape: Vec<ShapeName>,
}

/// A statistic, and what it must be.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Its name in [`Calibration`]; `sizes.64KiB` and so on for the shares of sizes.
    pub statistic: Cow<'static, str>,
    /// What is stated.
    pub expected: Expected,
    /// The least and the most that meet it.
    pub bounds: (f64, f64),
}

impl Calibration {
    /// Check that each number is one that its statistic can have.
    ///
    /// # Errors
    /// The first that is not, with what was found and what was expected.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let refuse = |statistic: &str, found: String, expected: &str| {
            Err(ConfigError { key: format!("calibration.{statistic}"), found, expected: expected.into() })
        };
        for size in self.sizes.keys() {
            if size.0 == 0 || !size.0.is_multiple_of(512) {
                return refuse("sizes", size_text(size.0), "a size must be a multiple of 512 bytes, above 0");
            }
        }
        for Target { statistic, expected, .. } in self.targets() {
            let is_share = ["sizes.", "first_", "hottest_"].iter().any(|begin| statistic.starts_with(begin))
                || statistic.ends_with("_fraction");
            let (holds, wanted) = if is_share {
                (expected.holds(|share| (0.0..=1.0).contains(&share)), "must be a fraction from 0 to 1")
            } else if ["requests", "page_accesses", "distinct_starts"].contains(&&*statistic) {
                let count = |count: f64| count >= 1.0 && count.fract() == 0.0;
                (expected.holds(count), "must be a whole number, at least 1")
            } else if ["mean_gap_us", "gap_cv"].contains(&&*statistic) {
                (expected.holds(|value| value >= 0.0), "must be a number, 0 or more")
            } else {
                (expected.holds(|value| value > 0.0), "must be a number above 0")
            };
            if !holds {
                return refuse(&statistic, expected.to_string(), wanted);
            }
        }
        let Some(unit) = self.footprint_unit_bytes else { return Ok(()) };
        let pages = |bytes: f64| bytes >= 4096.0 && bytes % 4096.0 == 0.0;
        if !matches!(unit, Expected::Value(bytes) if pages(bytes)) {
            return refuse(
                "footprint_unit_bytes",
                unit.to_string(),
                "must be one multiple of 4 KiB, above 0",
            );
        }
        if self.footprint_bytes.is_none() {
            let expected = "is the unit of footprint_bytes: state that too, or leave this out";
            return refuse("footprint_unit_bytes", unit.to_string(), expected);
        }
        Ok(())
    }

    /// What is stated, with the tolerance of each.
    pub fn targets(&self) -> Vec<Target> {
        let c = self;
        let rows = [
            ("requests", c.requests, 0.0, 0.0),
            ("read_fraction", c.read_fraction, 0.01, 0.0),
            ("write_fraction", c.write_fraction, 0.01, 0.0),
            ("trim_fraction", c.trim_fraction, 0.01, 0.0),
            ("flush_fraction", c.flush_fraction, 0.01, 0.0),
            ("read_bytes_fraction", c.read_bytes_fraction, 0.02, 0.0),
            ("mean_bytes", c.mean_bytes, 0.0, 0.02),
            ("mean_read_bytes", c.mean_read_bytes, 0.0, 0.02),
            ("mean_write_bytes", c.mean_write_bytes, 0.0, 0.02),
            ("page_accesses", c.page_accesses, 0.0, 0.0),
            ("span_bytes", c.span_bytes, 0.0, 0.05),
            ("footprint_bytes", c.footprint_bytes, 0.0, 0.05),
            ("sequential_fraction", c.sequential_fraction, 0.02, 0.0),
            ("sequential_read_fraction", c.sequential_read_fraction, 0.02, 0.0),
            ("sequential_write_fraction", c.sequential_write_fraction, 0.02, 0.0),
            ("aligned_fraction", c.aligned_fraction, 0.02, 0.0),
            ("write_4k_fraction", c.write_4k_fraction, 0.02, 0.0),
            ("pages_per_request", c.pages_per_request, 0.0, 0.05),
            ("footprint_written_bytes", c.footprint_written_bytes, 0.0, 0.05),
            ("distinct_starts", c.distinct_starts, 0.0, 0.05),
            ("first_twentieth", c.first_twentieth, 0.02, 0.0),
            ("first_fifth", c.first_fifth, 0.02, 0.0),
            ("journal_bytes_fraction", c.journal_bytes_fraction, 0.02, 0.0),
            ("hottest_hundredth", c.hottest_hundredth, 0.03, 0.0),
            ("hottest_twentieth", c.hottest_twentieth, 0.03, 0.0),
            ("hottest_tenth", c.hottest_tenth, 0.03, 0.0),
            ("hottest_fifth", c.hottest_fifth, 0.03, 0.0),
            ("mean_gap_us", c.mean_gap_us, 0.0, 0.05),
            ("gap_cv", c.gap_cv, 0.0, 0.2),
        ];
        let rows = rows.map(|(statistic, expected, absolute, relative)| {
            (Cow::Borrowed(statistic), expected, absolute, relative)
        });
        let sizes =
            c.sizes.iter().map(|(size, share)| (Cow::Owned(size.statistic()), Some(*share), 0.02, 0.0));
        let target = |(statistic, expected, absolute, relative): (_, Option<Expected>, f64, f64)| {
            let expected = expected?;
            let bounds = match expected {
                Expected::Range(low, high) => (low, high),
                Expected::Value(value) => {
                    let tolerance = absolute + relative * value.abs();
                    (value - tolerance, value + tolerance)
                }
            };
            Some(Target { statistic, expected, bounds })
        };
        rows.into_iter().chain(sizes).filter_map(target).collect()
    }
}
