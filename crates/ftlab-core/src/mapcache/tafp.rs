//! Translation-page-aware forward prefetching: the entry asked for, and `window_bytes` of those that follow it in its page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;
use crate::mapcache::runs::{FixedWindow, Window, check_forward, fixed_window};
use crate::mapcache::scheme::PageSizes;
use crate::quantity;
use crate::scheme::{Contrast, Scheme};

/// Its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TafpKeys {
    /// Bytes of further entries that a miss brings, a page at most; the window ends with its translation page.
    ///
    /// Default: in the middle of the paper's windows, which have from 8 to 256 bytes.
    #[serde(deserialize_with = "quantity::few_bytes")]
    pub window_bytes: u32,
    /// Whether the entry asked for counts among the bytes of the window.
    ///
    /// Default: off, as the paper says that these bytes are cached in addition.
    pub window_inclusive: bool,
    /// Whether each run of entries takes 8 bytes more, for its place and state.
    ///
    /// Default: off, as the mapping-cache paper counts entries alone.
    pub charge_headers: bool,
    /// Whether all changed entries of a translation page are written when it is.
    ///
    /// Default: off, as the mapping-cache paper does not mention it.
    pub flush_coalesce: bool,
}

impl Default for TafpKeys {
    fn default() -> Self {
        Self { window_bytes: 64, window_inclusive: false, charge_headers: false, flush_coalesce: false }
    }
}

impl FixedWindow for TafpKeys {
    fn window(&self) -> Window {
        Window::forward(self.window_bytes, self.window_inclusive)
    }

    fn charge_headers(&self) -> bool {
        self.charge_headers
    }

    fn flush_coalesce(&self) -> bool {
        self.flush_coalesce
    }

    fn check(&self, page: PageSizes) -> Result<(), ConfigError> {
        check_forward("window_bytes", self.window_bytes, self.window_bytes, page)
    }
}

impl Scheme for Tafp {
    const SUMMARY: &'static str =
        "The entry and `window_bytes` of the ones that follow, within the translation page.";
    const SOURCE: &'static str = "translation-page-aware forward prefetching, IEEK paper 2012-50-3-10";
    const CONTRASTS: &'static [Contrast] = &[
        Contrast { key: "window_bytes", value: "32", with: &["map_cache.bytes=4096"] },
        Contrast { key: "window_inclusive", value: "true", with: &["map_cache.bytes=4096"] },
        Contrast { key: "charge_headers", value: "true", with: &["map_cache.bytes=4096"] },
        Contrast { key: "flush_coalesce", value: "true", with: &["map_cache.bytes=4096"] },
    ];
    type Keys = TafpKeys;
}

fixed_window!(Tafp);
