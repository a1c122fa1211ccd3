//! Refusals of keys, and values as files say them.

use ftlab_core::config::ConfigError;
use serde::Serialize;

/// Refuse the value `found` of `workload.<key>`.
pub(crate) fn refuse<T>(
    key: &str,
    found: impl std::fmt::Display,
    expected: impl Into<String>,
) -> Result<T, ConfigError> {
    Err(ConfigError { key: format!("workload.{key}"), found: found.to_string(), expected: expected.into() })
}

/// The same error, of a workload that stands at `place` inside another one.
pub(crate) fn moved(error: ConfigError, place: &str) -> ConfigError {
    let inner = error.key.strip_prefix("workload.").unwrap_or(&error.key).to_owned();
    ConfigError { key: format!("workload.{place}.{inner}"), ..error }
}

/// Refuse shares that are no fraction from 0 to 1.
pub(crate) fn check_fractions(shares: &[(&str, Option<f64>)]) -> Result<(), ConfigError> {
    match shares
        .iter()
        .find_map(|(key, share)| Some((key, share.filter(|share| !(0.0..=1.0).contains(share))?)))
    {
        Some((key, share)) => {
            let is_percent = (2.0..=100.0).contains(&share);
            let question = if is_percent { format!(" (was {share} % meant?)") } else { String::new() };
            refuse(key, share, format!("must be a fraction from 0 to 1{question}"))
        }
        None => Ok(()),
    }
}

/// A value as a workload file says it; tables with more than a few keys are not shown.
pub(crate) fn as_in_file(value: &impl Serialize) -> String {
    fn text(value: &serde_json::Value) -> String {
        match value {
            serde_json::Value::Array(values) => {
                format!("[{}]", values.iter().map(text).collect::<Vec<_>>().join(", "))
            }
            serde_json::Value::Object(table) if table.len() > 4 => "{...}".into(),
            serde_json::Value::Object(table) => {
                let entries: Vec<_> =
                    table.iter().map(|(key, value)| format!("{key} = {}", text(value))).collect();
                format!("{{ {} }}", entries.join(", "))
            }
            scalar => scalar.to_string(),
        }
    }
    serde_json::to_value(value).map_or_else(|error| error.to_string(), |value| text(&value))
}
