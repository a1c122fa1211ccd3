//! Sizes and times in configuration files: numbers in the unit of their key, or strings with a unit.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// Parse a size such as `"64KiB"`, `"16k"`, `"1.5 GB"` or `"4096"` into bytes; a letter alone counts in powers of 1,024.
///
/// # Errors
/// A sentence that names the units understood.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, f64); 16] = [
        ("", 1.0),
        ("B", 1.0),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("TiB", 1_099_511_627_776.0),
        // As fio, dd and block layers have it.
        ("k", 1024.0),
        ("K", 1024.0),
        ("M", 1_048_576.0),
        ("G", 1_073_741_824.0),
        ("T", 1_099_511_627_776.0),
        ("KB", 1e3),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("TB", 1e12),
    ];
    let value = parse_with_units(text, &UNITS, "a size such as 4096, \"64KiB\", \"1.5MiB\" or \"2GB\"")?;
    whole_bytes(value).ok_or_else(|| format!("{text:?} is not a whole number of bytes, at most 9e18"))
}

/// Whole numbers that files can hold.
fn whole_bytes(value: f64) -> Option<u64> {
    (value.fract() == 0.0 && value <= 9.0e18).then_some(value as u64)
}

/// Parse a time such as `"1.5ms"`, `"200us"`, `"75000ns"` or `"25"` (microseconds) into microseconds.
///
/// # Errors
/// A sentence that names the units understood.
pub fn parse_us(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 6] =
        [("", 1.0), ("ns", 1e-3), ("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];
    parse_with_units(text, &UNITS, "a time such as 25 (microseconds), \"25us\", \"1.5ms\" or \"100ns\"")
}

fn parse_with_units(text: &str, units: &[(&str, f64)], expected: &str) -> Result<f64, String> {
    let text = text.trim();
    let split = text.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | '_'))).unwrap_or(text.len());
    let (number, unit) = (text[..split].replace('_', ""), text[split..].trim());
    let factor = units.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    match (number.parse::<f64>(), factor) {
        (Ok(number), Some(factor)) if number.is_finite() => Ok(number * factor),
        _ => Err(format!("{text:?} is not {expected}")),
    }
}

/// What is said of numbers below 0, where there can be none.
pub(crate) const NOT_NEGATIVE: &str = "must be 0 or more";

struct Quantity {
    parse: fn(&str) -> Result<f64, String>,
    expecting: &'static str,
    /// Whether numbers below 0 are left to those who know the limits.
    may_be_negative: bool,
}

impl Visitor<'_> for Quantity {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expecting)
    }
    fn visit_i64<E: de::Error>(self, v: i64) -> Result<f64, E> {
        self.visit_f64(v as f64)
    }
    fn visit_u64<E: de::Error>(self, v: u64) -> Result<f64, E> {
        Ok(v as f64)
    }
    fn visit_f64<E: de::Error>(self, v: f64) -> Result<f64, E> {
        if !v.is_finite() {
            return Err(E::invalid_value(de::Unexpected::Float(v), &self));
        }
        if v < 0.0 && !self.may_be_negative { Err(E::custom(NOT_NEGATIVE)) } else { Ok(v) }
    }
    fn visit_str<E: de::Error>(self, v: &str) -> Result<f64, E> {
        (self.parse)(v).map_err(E::custom)
    }
}

/// serde: bytes as a number or a string with a unit.
///
/// # Errors
/// When the value is neither.
pub fn bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let quantity = Quantity {
        parse: |text| parse_bytes(text).map(|bytes| bytes as f64),
        expecting: "a size in bytes or a string such as \"64KiB\"",
        may_be_negative: false,
    };
    let value = deserializer.deserialize_any(quantity)?;
    whole_bytes(value)
        .ok_or_else(|| de::Error::custom(format!("{value:?} is not a whole number of bytes, at most 9e18")))
}

/// serde: as [`bytes`], for keys of 32 bits.
///
/// # Errors
/// When the value is neither, or larger.
pub fn few_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let value = bytes(deserializer)?;
    u32::try_from(value)
        .map_err(|_| de::Error::custom(format!("{value} bytes are too many: expected at most {}", u32::MAX)))
}

/// serde: as [`bytes`], for keys that may be absent.
///
/// # Errors
/// When the value is there and is no size.
pub fn optional_bytes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    bytes(deserializer).map(Some)
}

/// serde: microseconds as a number or a string with a unit.
///
/// # Errors
/// When the value is neither.
pub fn micros<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_any(Quantity {
        parse: parse_us,
        expecting: "a time in microseconds or a string such as \"1.5ms\"",
        may_be_negative: false,
    })
}

/// Parse per cent such as `"7%"` into a share.
///
/// # Errors
/// A sentence that says what was expected.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let per_cent = text.trim().strip_suffix('%').and_then(|number| number.trim_end().parse::<f64>().ok());
    match per_cent {
        Some(per_cent) if per_cent.is_finite() => Ok(per_cent / 100.0),
        _ => Err(format!("{text:?} is no share: expected a number, or per cent such as \"7%\"")),
    }
}

/// serde: a share as a number or a string in per cent. Only keys of a kind need it: all others are read so anyway.
///
/// # Errors
/// When the value is neither.
pub fn share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    deserializer.deserialize_any(Quantity {
        parse: parse_share,
        expecting: "a number or a string such as \"7%\"",
        may_be_negative: true,
    })
}

/// serde: as [`share`], for keys that may be absent.
///
/// # Errors
/// When the value is there and is no share.
pub fn optional_share<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    #[derive(serde::Deserialize)]
    struct Share(#[serde(deserialize_with = "share")] f64);
    Ok(Option::<Share>::deserialize(deserializer)?.map(|Share(share)| share))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_take_units() {
        assert_eq!(parse_bytes("64KiB"), Ok(65_536));
        assert_eq!(parse_bytes(" 1.5 MiB "), Ok(1_572_864));
        assert_eq!(parse_bytes("2GB"), Ok(2_000_000_000));
        assert_eq!((parse_bytes("16k"), parse_bytes("1M")), (Ok(16_384), Ok(1_048_576)));
        assert_eq!(parse_us("1.5ms"), Ok(1500.0));
        assert_eq!((parse_share("7%"), parse_share(" 12.5 % ")), (Ok(0.07), Ok(0.125)));
        assert!(parse_share("7").is_err() && parse_share("inf%").is_err());
        assert_eq!(parse_us("100ns"), Ok(0.1));
        assert!(parse_bytes("64Kib").unwrap_err().contains("64KiB"));
        assert!(parse_bytes("-1").is_err() && parse_us("1.5 parsecs").is_err() && parse_bytes("").is_err());
        assert!(parse_bytes("0.3B").is_err());
    }
}
