//! Block-mapped translation layers: data in blocks of their own, updates in log blocks, and merges.
//!
//! A layer is one file with one type that implements [`BlockMapped`](scheme::BlockMapped) and
//! [`Scheme`], and one line in the list at the end of this file. From that line come its module, its
//! name and keys in device files, its row in `ftlab schemes`, and its place in every test that loops over the list.

use crate::access::Access;
use crate::error::{ConfigError, FlashResult};
use crate::ftl::hybrid::merge::MergeCounts;
use crate::ftl::hybrid::scheme::{BlockMapped, ClusteredBlock, Found, Layout, Place, Shape, Store, View};
use crate::geometry::Lpn;
use crate::scheme::{NoKeys, Scheme, axis};

pub mod exclusive;
mod logs;
pub mod merge;
pub mod scheme;
mod shared;

macro_rules! block_mapped {
    ($($file:ident :: $kind:ident;)+) => {
        $(pub mod $file;)+

        axis! { @
            ["The kind of flash translation layer. Default: page mapping, as drives of today have it."]
            "kind" in "ftl": FtlKind, FtlChoice {
                ["Page mapping: any logical page may be anywhere. `map_cache.kind` says where the table is."]
                    "page", Page(NoKeys),
                    "Page mapping: any logical page may be anywhere. `map_cache.kind` says where the table is.",
                    "A. Ban, US patent 5,404,485 (1995), with page granularity", &[];
                $(["See the file of this name."] stringify!($file), $kind(<$file::$kind as Scheme>::Keys),
                    $file::$kind::SUMMARY, $file::$kind::SOURCE, $file::$kind::CONTRASTS;)+
            }
        }

        /// The block-mapped layer that a device file names: chosen once, at the edge.
        #[derive(Debug, Clone)]
        #[allow(clippy::large_enum_variant, reason = "one exists per drive")]
        pub enum BlockLayer {
            $(#[doc = "See the file of this name."] $kind($file::$kind),)+
        }

        impl BlockLayer {
            /// The layer that `keys` choose; `None` for page mapping.
            pub fn new(keys: &FtlChoice, shape: &Shape) -> Option<Self> {
                match keys {
                    FtlChoice::Page(_) => None,
                    $(FtlChoice::$kind(keys) => Some(BlockLayer::$kind($file::$kind::new(keys, shape))),)+
                }
            }

            pub(crate) fn write<S: Store>(
                &mut self,
                store: &mut S,
                access: &Access<'_>,
                after: S::Ticket,
            ) -> FlashResult<S::Ticket> {
                match self { $(BlockLayer::$kind(layer) => layer.write(store, access, after),)+ }
            }

            pub(crate) fn trimmed<S: Store>(&mut self, store: &mut S, lpn: Lpn, was: Place) -> FlashResult<()> {
                match self { $(BlockLayer::$kind(layer) => layer.trimmed(store, lpn, was),)+ }
            }

            pub(crate) fn end_group<S: Store>(&mut self, store: &mut S, after: S::Ticket) -> FlashResult<S::Ticket> {
                match self { $(BlockLayer::$kind(layer) => layer.end_group(store, after),)+ }
            }

            pub(crate) fn found<S: Store>(&mut self, store: &mut S, units: &[Found]) -> FlashResult<()> {
                match self { $(BlockLayer::$kind(layer) => layer.found(store, units),)+ }
            }

            pub(crate) fn data_unit<S: Store>(&mut self, store: &mut S, block: u32) -> FlashResult<ClusteredBlock> {
                match self { $(BlockLayer::$kind(layer) => layer.data_unit(store, block),)+ }
            }

            pub(crate) fn cluster_of(&self, lpn: Lpn) -> Option<u32> {
                match self { $(BlockLayer::$kind(layer) => layer.cluster_of(lpn),)+ }
            }

            pub(crate) fn verify<S: View>(
                &self,
                store: &S,
                claims: &mut dyn FnMut(ClusteredBlock),
            ) -> Result<(), String> {
                match self { $(BlockLayer::$kind(layer) => layer.verify(store, claims),)+ }
            }

            pub(crate) fn counts(&self) -> MergeCounts {
                match self { $(BlockLayer::$kind(layer) => layer.counts(),)+ }
            }

            pub(crate) fn reset_counts(&mut self) {
                match self { $(BlockLayer::$kind(layer) => layer.reset_counts(),)+ }
            }

            pub(crate) fn table_bytes(&self) -> u64 {
                match self { $(BlockLayer::$kind(layer) => layer.table_bytes(),)+ }
            }
        }

        impl FtlChoice {
            /// How a block-mapped layer cuts up a drive of so many memories; `None` for page mapping.
            pub fn layout(&self, memories: u32) -> Option<Layout> {
                match self {
                    FtlChoice::Page(_) => None,
                    $(FtlChoice::$kind(keys) => Some($file::$kind::layout(keys, memories)),)+
                }
            }

            /// Check its keys.
            ///
            /// # Errors
            /// The first value beyond its limits.
            pub(crate) fn check(&self) -> Result<(), ConfigError> {
                match self {
                    FtlChoice::Page(_) => Ok(()),
                    $(FtlChoice::$kind(keys) => $file::$kind::check_keys(keys),)+
                }
                .map_err(|error| error.within("ftl"))
            }
        }
    };
}

// In the order in which they are listed everywhere.
block_mapped! {
    block::Block;
    bast::Bast;
    fast::Fast;
    last::Last;
    mcsplit::Mcsplit;
    subgroup::Subgroup;
}
