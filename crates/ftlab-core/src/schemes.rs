//! The list of every scheme that a device file can name.

/// A scheme: one value of a key that chooses an algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scheme {
    /// Dotted key, such as `ftl.gc`.
    pub key: &'static str,
    /// Its value, which is also its file name and its name in reports.
    pub name: &'static str,
    /// What it does, in a sentence or two.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// Every registered scheme.
pub fn all() -> Vec<Scheme> {
    let mut schemes = Vec::new();
    schemes.extend(crate::ftl::SCHEMES);
    schemes.extend(crate::ftl::gc::schemes());
    schemes.extend(crate::mapcache::schemes());
    schemes
}
