//! The translation layers that a device file can name: page mapping, and the list of block-mapped ones.

pub use crate::ftl::hybrid::{FtlChoice, FtlKind};
