//! Flash translation layers, and the list of them.
//!
//! A translation layer is one folder or file with a type that implements [`Ftl`], and its arm in [`build`].

use crate::config::DeviceConfig;
use crate::flash::port::CountingPort;
use crate::ftl::block_mapped::BlockFtl;
use crate::ftl::kinds::FtlKind;
use crate::ftl::placement::Placements;
use crate::geometry::Geometry;
use crate::interrupt::Interrupt;
use crate::layer::Ftl;

pub mod block_mapped;
pub mod blocks;
pub mod gc;
pub mod hybrid;
pub mod journal;
pub mod kinds;
pub mod page;
pub mod placement;

/// What is done with a translation layer, whichever it is.
pub trait FtlVisitor {
    /// What comes of it.
    type Output;

    /// Ends what takes long before the visit, which then comes with a translation layer that is of no use. By default
    /// nobody asks.
    fn interrupt(&self) -> Interrupt {
        Interrupt::default()
    }

    /// Called once, with an erased drive behind a port without time.
    fn visit<F: Ftl<CountingPort>>(self, ftl: F) -> Self::Output;
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
    type Page<const CACHED: bool> = page::PageFtl<gc::Victims, Placements, (), CACHED>;
    let interrupt = visitor.interrupt();
    match (config.ftl.kind.kind(), config.map_cache.kind.is_cache()) {
        (FtlKind::Page, false) => {
            visitor.visit(Page::<false>::new(config, geometry, seed, verify, &interrupt))
        }
        (FtlKind::Page, true) => visitor.visit(Page::<true>::new(config, geometry, seed, verify, &interrupt)),
        _ => visitor.visit(BlockFtl::<()>::new(config, geometry, ())),
    }
}
