//! Aligned halves of translation pages.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mapcache::runs::{FixedWindow, Window, fixed_window};
use crate::scheme::{Contrast, Scheme};

/// Its keys.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HalfPageKeys {
    /// Whether each run of entries takes 8 bytes more, for its place and state.
    ///
    /// Default: off, as the mapping-cache paper counts entries alone.
    pub charge_headers: bool,
    /// Whether all changed entries of a translation page are written when it is.
    ///
    /// Default: off, as the mapping-cache paper does not mention it.
    pub flush_coalesce: bool,
}

impl FixedWindow for HalfPageKeys {
    fn window(&self) -> Window {
        Window::Half
    }

    fn charge_headers(&self) -> bool {
        self.charge_headers
    }

    fn flush_coalesce(&self) -> bool {
        self.flush_coalesce
    }
}

impl Scheme for HalfPage {
    const SUMMARY: &'static str = "Aligned halves of translation pages.";
    const SOURCE: &'static str = "the baseline of the IEEK paper 2012-50-3-10";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast { key: "charge_headers", value: "true", with: &["map_cache.bytes=16384"] },
        Contrast { key: "flush_coalesce", value: "true", with: &["map_cache.bytes=16384"] },
    ];
    type Keys = HalfPageKeys;
}

fixed_window!(HalfPage);
