//! The windows that a mapping cache may choose from, by their names in device files.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::error::{ConfigError, refuse};
use crate::mapcache::layout::ENTRY_BYTES;
use crate::mapcache::runs::{Window, check_forward};
use crate::mapcache::scheme::PageSizes;

/// A window that may be chosen: `"tafp_8"` and the like, `"half_page"` or `"full_page"`, and `"r16"` and the like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CandidateWindow {
    /// `tafp` with this many bytes.
    Forward(u32),
    /// The same, and at least the entries that the rest of the host request needs (`ghosts`).
    Request(u32),
    /// `half_page`.
    Half,
    /// `full_page`.
    Full,
}

impl CandidateWindow {
    fn parse(text: &str) -> Option<Self> {
        // One name for each: no sign, no leading zero.
        let bytes = |text: &str| {
            let bytes = text.parse().ok().filter(|bytes: &u32| bytes.to_string() == text);
            bytes.filter(|bytes| *bytes > 0 && bytes.is_multiple_of(ENTRY_BYTES))
        };
        match text {
            "half_page" => Some(Self::Half),
            "full_page" => Some(Self::Full),
            _ => match text.strip_prefix("tafp_") {
                Some(text) => bytes(text).map(Self::Forward),
                None => bytes(text.strip_prefix('r')?).map(Self::Request),
            },
        }
    }

    /// What it fetches where the rest of the request needs nothing.
    pub(super) fn window(self, inclusive: bool) -> Window {
        match self {
            Self::Forward(bytes) | Self::Request(bytes) => Window::forward(bytes, inclusive),
            Self::Half => Window::Half,
            Self::Full => Window::Full,
        }
    }
}

impl fmt::Display for CandidateWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward(bytes) => write!(f, "tafp_{bytes}"),
            Self::Request(bytes) => write!(f, "r{bytes}"),
            Self::Half => f.write_str("half_page"),
            Self::Full => f.write_str("full_page"),
        }
    }
}

impl Serialize for CandidateWindow {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for CandidateWindow {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| {
            de::Error::custom(format!(
                "{text:?} is no window: expected \"full_page\", \"half_page\" or \"tafp_N\", and for ghosts \"rN\", with N bytes, a multiple of 4"
            ))
        })
    }
}

impl JsonSchema for CandidateWindow {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "CandidateWindow".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^(full_page|half_page|tafp_[0-9]+|r[0-9]+)$" })
    }
}

/// Check what can be chosen from: something, each once, and nothing that no miss can fetch.
pub(super) fn check_candidates(candidates: &[CandidateWindow], page: PageSizes) -> Result<(), ConfigError> {
    if candidates.is_empty() {
        return refuse("candidates", "[]", "needs a window to choose");
    }
    for (at, candidate) in candidates.iter().enumerate() {
        if let CandidateWindow::Forward(bytes) | CandidateWindow::Request(bytes) = candidate {
            check_forward("candidates", *bytes, format!("\"{candidate}\""), page)?;
        }
        if candidates[..at].contains(candidate) {
            let expected = "is there twice: each window is chosen and counted once";
            return refuse("candidates", format!("\"{candidate}\""), expected);
        }
    }
    Ok(())
}
