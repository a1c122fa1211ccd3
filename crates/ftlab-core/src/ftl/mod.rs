//! Flash translation layers, and the list of them.
//!
//! A translation layer is one folder or file with a type that implements [`Ftl`], and its arm in [`build`].

use crate::config::{DeviceConfig, FtlKind};
use crate::flash::port::Count;
use crate::ftl::placement::Stripe;
use crate::geometry::Geometry;
use crate::layer::Ftl;
use crate::mapcache::MapCacheKind;
use crate::schemes::Scheme;

pub mod blocks;
pub mod gc;
pub mod map_only;
pub mod page;
pub mod placement;

/// The translation layers that a device file can name.
pub const SCHEMES: [Scheme; 2] = [
    Scheme {
        key: "ftl.kind",
        name: "page",
        summary: "Page mapping: any logical page may be anywhere. `map_cache.kind` says where the table is.",
        source: "A. Ban, US patent 5,404,485 (1995), with page granularity",
    },
    Scheme {
        key: "ftl.kind",
        name: "map_only",
        summary: "The mapping cache alone: what lookups cost, added up one after the other. No data, no collection, no clock.",
        source: "the model of the IEEK paper 2012-50-3-10",
    },
];

/// What is done with a translation layer, whichever it is.
pub trait FtlVisitor {
    /// What comes of it.
    type Output;

    /// Called once, with an erased drive behind a port without time.
    fn visit<F: Ftl<Count>>(self, ftl: F) -> Self::Output;
}

/// Make the translation layer of a validated configuration, and hand it to `visitor`: the one place that tells them apart.
/// Everything behind it is compiled for that layer.
pub fn build<V: FtlVisitor>(
    config: &DeviceConfig,
    geometry: &Geometry,
    seed: u64,
    verify: bool,
    visitor: V,
) -> V::Output {
    match (config.ftl.kind, config.map_cache.kind) {
        (FtlKind::Page, MapCacheKind::Ideal) => visitor
            .visit(page::PageFtl::<gc::Victims, Stripe, (), false>::new(config, geometry, seed, verify)),
        (FtlKind::Page, _) => {
            visitor.visit(page::PageFtl::<gc::Victims, Stripe, (), true>::new(config, geometry, seed, verify))
        }
        (FtlKind::MapOnly, _) => visitor
            .visit(map_only::MapOnlyFtl::new(config, geometry).expect("validated: there is a mapping cache")),
    }
}
