//! The translation layers that a device file can name.

use crate::scheme::{NoKeys, axis};

axis! {
    /// The kind of flash translation layer.
    "kind" in "ftl": FtlKind, FtlChoice {
        /// Page mapping: any logical page may be anywhere. `map_cache.kind` says where the table is.
        "page" Page(NoKeys), "A. Ban, US patent 5,404,485 (1995), with page granularity";
    }
}
