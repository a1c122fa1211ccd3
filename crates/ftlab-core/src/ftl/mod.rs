//! Flash translation layers.

use crate::schemes::Scheme;

pub mod gc;

/// The translation layers that a device file can name.
pub const SCHEMES: [Scheme; 1] = [Scheme {
    key: "ftl.kind",
    name: "page",
    summary: "Page mapping: any logical page may be anywhere; the whole table is in DRAM.",
    source: "A. Ban, US patent 5,404,485 (1995), with page granularity",
}];
