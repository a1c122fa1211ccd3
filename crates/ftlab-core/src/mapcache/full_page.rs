//! Whole translation pages: no rest has to be read when one is written back.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mapcache::runs::{FixedWindow, Window, fixed_window};
use crate::scheme::{Contrast, Scheme};

/// Its keys.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FullPageKeys {
    /// Whether each run of entries takes 8 bytes more, for its place and state.
    ///
    /// Default: off, as the mapping-cache paper counts entries alone.
    pub charge_headers: bool,
}

impl FixedWindow for FullPageKeys {
    fn window(&self) -> Window {
        Window::Full
    }

    fn charge_headers(&self) -> bool {
        self.charge_headers
    }

    /// A page is written whole anyway.
    fn flush_coalesce(&self) -> bool {
        false
    }
}

impl Scheme for FullPage {
    const SUMMARY: &'static str = "Whole translation pages.";
    const SOURCE: &'static str = "the baseline of the IEEK paper 2012-50-3-10";
    const CONTRASTS: &'static [Contrast] =
        &[Contrast { key: "charge_headers", value: "true", with: &["map_cache.bytes=16384"] }];
    type Keys = FullPageKeys;
}

fixed_window!(FullPage);
