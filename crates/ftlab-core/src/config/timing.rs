//! `[timing]`: how long commands and transfers take.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::{ConfigError, refuse};
use crate::flash::cell::{CellKind, PageClass};
use crate::quantity;
use crate::time::{Rate, Time};

/// How long commands and transfers take. Times are microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TimingConfig {
    /// Array read (tR): one number, or one for each page class: `{ lsb = 50, msb = 75 }`.
    ///
    /// Default: that of SLC in DiskSim's model of drives, which most published FTL studies assume.
    #[schemars(with = "LatencySchema")]
    pub read_us: ClassTimes,
    /// Array program (tPROG) of one page, as `read_us`.
    ///
    /// Default: that of SLC in DiskSim's model of drives, which most published FTL studies assume.
    #[schemars(with = "LatencySchema")]
    pub program_us: ClassTimes,
    /// Block erase (tBERS).
    ///
    /// Default: that of SLC in DiskSim's model of drives, which most published FTL studies assume.
    #[serde(deserialize_with = "quantity::micros")]
    pub erase_us: f64,
    /// Channel rate in million bytes a second (an 8-bit bus at 333 MT/s moves 333); 0 makes transfers free.
    ///
    /// Default: 25 ns a byte, as data sheets of SLC and DiskSim's model of drives have it.
    pub bus_mb_per_s: f64,
    /// Command and address cycles, on the bus, before each command.
    ///
    /// Default: none: the cycles are short beside the transfer of a page.
    #[serde(deserialize_with = "quantity::micros")]
    pub command_us: f64,
    /// Copy pages inside a plane without crossing the bus.
    ///
    /// Default: off, as data are then checked by error correction on their way.
    pub copyback: bool,
    /// Whether spare bytes cross the bus along with the data bytes they belong to. A part of a page brings its part of them,
    /// rounded up to bytes.
    ///
    /// Default: off, as papers count the bytes of data alone.
    pub transfer_spare: bool,
    /// Whether `program_us` counts from the command on, as some papers have it: the transfer is a part of it. Off (the
    /// default): the array works that long once the data have come. A copy inside a plane takes `read_us` and `program_us`
    /// either way.
    ///
    /// Default: off, as data sheets count tPROG from the end of the transfer.
    pub program_includes_transfer: bool,
    /// Whether the planes of a die work independently. Off (the default): a die runs one command at a time.
    ///
    /// Default: off, as any die runs one command at a time and only some run more.
    pub independent_planes: bool,
}

impl Default for TimingConfig {
    /// SLC of the DiskSim age: the values that most published FTL studies assume.
    fn default() -> Self {
        Self {
            read_us: ClassTimes::uniform(25.0),
            program_us: ClassTimes::uniform(200.0),
            erase_us: 1500.0,
            bus_mb_per_s: 40.0,
            command_us: 0.0,
            copyback: false,
            transfer_spare: false,
            program_includes_transfer: false,
            independent_planes: false,
        }
    }
}

/// A time for each page class, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClassTimes {
    times: [Option<f64>; 4],
}

/// What a latency key may hold, for the schema.
#[derive(JsonSchema)]
#[serde(untagged)]
#[allow(dead_code, reason = "describes the accepted forms to schema readers; never constructed")]
enum LatencySchema {
    /// Microseconds for every class.
    Number(f64),
    /// A string with a unit, for every class.
    Text(String),
    /// Microseconds for each class.
    Classes { lsb: Option<f64>, csb: Option<f64>, msb: Option<f64>, tsb: Option<f64> },
}

const CLASS_KEYS: [&str; 4] = ["lsb", "csb", "msb", "tsb"];

impl ClassTimes {
    /// The same time for every class.
    pub const fn uniform(us: f64) -> Self {
        Self { times: [Some(us); 4] }
    }

    /// Microseconds for `class`, when the table has an entry for it.
    pub fn get(&self, class: PageClass) -> Option<f64> {
        self.times[class as usize]
    }

    /// Whether it is a table, and has entries of classes that these cells do not have.
    pub(crate) fn has_others(&self, cell: CellKind) -> bool {
        let is_of = |at: usize| cell.classes().iter().any(|class| *class as usize == at);
        let has_other = self.times.iter().enumerate().any(|(at, time)| time.is_some() && !is_of(at));
        has_other && self.times.iter().any(|time| *time != self.times[0])
    }
}

impl Serialize for ClassTimes {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let [Some(first), ..] = self.times
            && self.times.iter().all(|t| *t == Some(first))
        {
            return serializer.serialize_f64(first);
        }
        serializer.collect_map(CLASS_KEYS.iter().zip(self.times).filter_map(|(k, t)| t.map(|t| (*k, t))))
    }
}

impl<'de> Deserialize<'de> for ClassTimes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ClassVisitor;
        impl<'de> de::Visitor<'de> for ClassVisitor {
            type Value = ClassTimes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "microseconds, a string such as \"1.5ms\", or a table such as { lsb = 50, msb = 75 }",
                )
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<ClassTimes, E> {
                self.visit_f64(v as f64)
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<ClassTimes, E> {
                self.visit_f64(v as f64)
            }
            fn visit_f64<E: de::Error>(self, v: f64) -> Result<ClassTimes, E> {
                if !v.is_finite() {
                    return Err(E::invalid_value(de::Unexpected::Float(v), &self));
                }
                if v < 0.0 { Err(E::custom(quantity::NOT_NEGATIVE)) } else { Ok(ClassTimes::uniform(v)) }
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<ClassTimes, E> {
                quantity::parse_us(v).map(ClassTimes::uniform).map_err(E::custom)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<ClassTimes, A::Error> {
                let mut times = [None; 4];
                while let Some(key) = map.next_key::<String>()? {
                    let Some(at) = CLASS_KEYS.iter().position(|k| *k == key) else {
                        return Err(de::Error::unknown_field(&key, &CLASS_KEYS));
                    };
                    times[at] = Some(map.next_value::<Micros>()?.0);
                }
                Ok(ClassTimes { times })
            }
        }
        deserializer.deserialize_any(ClassVisitor)
    }
}

#[derive(Deserialize)]
struct Micros(#[serde(deserialize_with = "quantity::micros")] f64);

impl TimingConfig {
    /// Check its limits, for cells of this kind and pages with so many bytes of data and spare bytes.
    ///
    /// # Errors
    /// The first value beyond them.
    pub(crate) fn check(&self, cell: CellKind, page_bytes: u64, spare_bytes: u64) -> Result<(), ConfigError> {
        let t = self;
        for (key, times) in [("timing.read_us", &t.read_us), ("timing.program_us", &t.program_us)] {
            for class in cell.classes() {
                match times.get(*class) {
                    None => {
                        let expected =
                            format!("needs an entry {} for these cells", CLASS_KEYS[*class as usize]);
                        return refuse(key, "a table", expected);
                    }
                    Some(us) if us > HOUR_US => {
                        return refuse(key, us, "must be at most an hour, in microseconds");
                    }
                    Some(_) => {}
                }
            }
        }
        for (key, us) in [("timing.erase_us", t.erase_us), ("timing.command_us", t.command_us)] {
            if us > HOUR_US {
                return refuse(key, us, "must be at most an hour, in microseconds");
            }
        }
        check_rate("timing.bus_mb_per_s", t.bus_mb_per_s)?;
        if t.transfer_spare && spare_bytes == 0 {
            return refuse("timing.transfer_spare", true, "needs geometry.spare_bytes above 0");
        }
        let bytes = page_bytes + if t.transfer_spare { spare_bytes } else { 0 };
        self.check_included(cell, Rate::from_mb_per_s(t.bus_mb_per_s).span(bytes))
    }

    /// A program that includes its transfer takes as long at least.
    fn check_included(&self, cell: CellKind, transfer: Time) -> Result<(), ConfigError> {
        if !self.program_includes_transfer {
            return Ok(());
        }
        let least = Time::from_us(self.command_us) + transfer;
        for us in cell.classes().iter().filter_map(|class| self.program_us.get(*class)) {
            if Time::from_us(us) < least {
                let expected = format!(
                    "includes the transfer of a page (timing.program_includes_transfer): at least {} microseconds",
                    least.as_ns_f64() / 1000.0
                );
                return refuse("timing.program_us", us, expected);
            }
        }
        Ok(())
    }
}

/// An hour, in microseconds.
pub(super) const HOUR_US: f64 = 3.6e9;

/// Refuse rates that no bus has.
pub(super) fn check_rate(key: &str, mb_per_s: f64) -> Result<(), ConfigError> {
    if mb_per_s == 0.0 || (0.001..=1e7).contains(&mb_per_s) {
        return Ok(());
    }
    refuse(
        key,
        mb_per_s,
        "must be from 0.001 to 1e7 million bytes a second, or 0 for transfers that take no time",
    )
}
