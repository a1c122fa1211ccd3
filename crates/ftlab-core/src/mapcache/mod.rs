//! Mapping caches: which part of a table that lives in flash is in memory.
//!
//! A scheme is one file with one type that implements [`MapCache`](cache::MapCache), and one line in the list at the end of this file
//! (and `mod`, as for every Rust file). From that line come its name in device files, its row in `ftlab schemes`, and
//! its place in every test that loops over the list.
//!
//! The table itself is kept by the translation layer and is the truth. A scheme says what its choices cost
//! ([`MapOp`](cache::MapOp)), and can corrupt nothing: with verification, the translation layer keeps what its translation pages
//! hold in flash, and finds a scheme that loses a change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::DeviceConfig;
use crate::mapcache::cache::MapCache;
use crate::mapcache::layout::TranslationLayout;
use crate::mapcache::superblock_order::SuperblockOrder;
use crate::schemes::Scheme;

mod bsb;
pub mod cache;
mod cdftl;
pub(crate) mod cftl;
mod dftl;
mod full_page;
mod half_page;
pub mod layout;
pub(crate) mod leaftl;
mod lru;
pub(crate) mod sftl;
pub mod superblock_order;
mod tafp;
pub(crate) mod tpftl;
pub mod translation;
mod units;

macro_rules! map_caches {
    ($($(#[doc = $doc:literal])+ $file:ident :: $kind:ident, $source:literal;)+) => {
        /// The mapping caches that a device file can name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum MapCacheKind {
            /// The whole table is in memory and costs nothing.
            #[default]
            Ideal,
            $($(#[doc = $doc])+ $kind,)+
        }

        impl MapCacheKind {
            /// Every kind.
            pub const ALL: &[MapCacheKind] = &[MapCacheKind::Ideal, $(MapCacheKind::$kind),+];

            /// Its name in device files and reports.
            pub const fn name(self) -> &'static str {
                match self {
                    MapCacheKind::Ideal => "ideal",
                    $(MapCacheKind::$kind => stringify!($file),)+
                }
            }

            /// The cache of a validated configuration; `None` for `ideal`.
            pub fn build(config: &DeviceConfig, layout: TranslationLayout) -> Option<Box<dyn MapCache>> {
                let mut cache: Box<dyn MapCache> = match config.map_cache.kind {
                    MapCacheKind::Ideal => return None,
                    $(MapCacheKind::$kind => Box::new($file::$kind::new(&config.map_cache, layout)),)+
                };
                if let Some(wishes) = cache.wishes_mut() {
                    wishes.set_plane_order(SuperblockOrder::new(config));
                }
                Some(cache)
            }
        }

        /// For `ftlab schemes`.
        pub(crate) fn schemes() -> Vec<Scheme> {
            vec![
                Scheme {
                    key: "map_cache.kind",
                    name: "ideal",
                    summary: "The whole table is in memory and costs nothing.",
                    source: "the usual assumption",
                },
                $(Scheme {
                    key: "map_cache.kind",
                    name: stringify!($file),
                    summary: concat!($($doc),+).trim_ascii(),
                    source: $source,
                },)+
            ]
        }
    };
}

map_caches! {
    /// Single entries on demand, in a segmented LRU order.
    dftl::Dftl, "Gupta, Kim, Urgaonkar, ASPLOS 2009";
    /// Whole translation pages.
    full_page::FullPage, "the baseline of the IEEK paper 2012-50-3-10";
    /// Aligned halves of translation pages.
    half_page::HalfPage, "the baseline of the IEEK paper 2012-50-3-10";
    /// The entry and `window_bytes` of the ones that follow, within the translation page.
    tafp::Tafp, "translation-page-aware forward prefetching, IEEK paper 2012-50-3-10";
    /// The window that a balanced score board likes best at each miss.
    bsb::Bsb, "balanced score board, IEEK paper 2012-50-3-10";
    /// Whole translation pages, compressed by runs of consecutive physical addresses; few changes wait in a buffer.
    sftl::Sftl, "Jiang, Zhang, Yuan, Hu, Chen, MSST 2011";
    /// Entries that hang together by translation page; prefetching by request and by what came before, batched updates.
    tpftl::Tpftl, "Zhou, Wu, Huang, He, Zhou, Xie, EuroSys 2015";
    /// Single entries over whole translation pages, which take the changes of entries that leave.
    cdftl::Cdftl, "Qin, Wang, Liu, Shao, RTAS 2011";
    /// Segments learned by linear regression, groups of 256 units in LRU order.
    leaftl::Leaftl, "LeaFTL: Sun et al., ASPLOS 2023";
    /// Entries for runs of units, and for blocks that are read often and written rarely, which collection puts in order.
    cftl::Cftl, "CFTL: Park, Debnath, Du, SIGMETRICS 2010";
}
