//! Mapping caches: which part of a table that lives in flash is in memory.
//!
//! A scheme is one file with one type that implements [`MapCache`], [`Scheme`](crate::scheme::Scheme) and
//! [`MapCacheScheme`], and one line in the list at the end of this file. From that line come its module, its name and keys
//! in device files, its row in `ftlab schemes`, and its place in every test that loops over the list.
//!
//! The table itself is kept by the translation layer and is the truth. A scheme says what its choices cost
//! ([`MapOp`](cache::MapOp)), and can corrupt nothing. With verification, the translation layer keeps what its
//! translation pages hold in flash, and finds a scheme that loses a change.

use crate::error::{ConfigError, refuse};
use crate::mapcache::cache::MapCache;
use crate::mapcache::layout::TranslationLayout;
use crate::mapcache::prices::Prices;
use crate::mapcache::scheme::{CacheKeys, MapCacheScheme, PageSizes, TableBytes};
use crate::mapcache::superblock_order::SuperblockOrder;
use crate::scheme::{NoKeys, Scheme, axis};

pub mod alone;
pub mod cache;
pub mod layout;
mod own_origin;
mod places;
pub mod prices;
mod runs;
pub mod scheme;
mod segments;
pub mod superblock_order;
pub mod translation;
pub mod windows;

macro_rules! map_caches {
    ($($file:ident :: $kind:ident;)+) => {
        $(pub mod $file;)+

        axis! { @
            ["Which part of the mapping table is in memory: the mapping cache. Default: the whole table in memory, the usual assumption where mapping is not the question."]
            "kind" in "map_cache": MapCacheKind, MapCacheChoice {
                ["The whole table is in memory and costs nothing."] "ideal", Ideal(NoKeys),
                    "The whole table is in memory and costs nothing.", "the usual assumption", &[];
                $(["See the file of this name."] stringify!($file),
                    $kind(CacheKeys<<$file::$kind as Scheme>::Keys>),
                    $file::$kind::SUMMARY, $file::$kind::SOURCE, $file::$kind::CONTRASTS;)+
            }
        }

        impl MapCacheChoice {
            /// The same with this much memory; `ideal` stays as it is.
            #[must_use]
            pub fn with_bytes(mut self, memory: u64) -> Self {
                match &mut self {
                    MapCacheChoice::Ideal(_) => {}
                    $(MapCacheChoice::$kind(keys) => keys.bytes = memory,)+
                }
                self
            }

            /// Memory for entries; 0 for `ideal`.
            pub const fn bytes(&self) -> u64 {
                match self {
                    MapCacheChoice::Ideal(_) => 0,
                    $(MapCacheChoice::$kind(keys) => keys.bytes,)+
                }
            }

            /// Units of the logical blocks that it wants in order; 0: none.
            pub fn block_units(&self) -> u32 {
                match self {
                    MapCacheChoice::Ideal(_) => 0,
                    $(MapCacheChoice::$kind(keys) => $file::$kind::block_units(&keys.own),)+
                }
            }

            /// Check its keys, for a table in such pages.
            ///
            /// # Errors
            /// The first value beyond its limits.
            pub(crate) fn check(&self, page: PageSizes, layout: TranslationLayout) -> Result<(), ConfigError> {
                match self {
                    MapCacheChoice::Ideal(_) => return Ok(()),
                    $(MapCacheChoice::$kind(keys) => {
                        $file::$kind::check_keys(&keys.own, page).map_err(|error| error.within("map_cache"))?;
                    })+
                }
                let least = self.least_bytes(layout);
                if self.bytes() < least {
                    let expected = format!("must hold {}: at least {least} bytes", self.least());
                    return refuse("map_cache.bytes", self.bytes(), expected);
                }
                Ok(())
            }

            /// What the least memory must hold.
            const fn least(&self) -> &'static str {
                match self {
                    MapCacheChoice::Ideal(_) => "nothing",
                    $(MapCacheChoice::$kind(_) => <$file::$kind as MapCacheScheme>::LEAST,)+
                }
            }

            /// The least memory that holds one fetch, when it has as much as it has; 0 for `ideal`.
            pub fn least_bytes(&self, layout: TranslationLayout) -> u64 {
                match self {
                    MapCacheChoice::Ideal(_) => 0,
                    $(MapCacheChoice::$kind(keys) => {
                        $file::$kind::least_bytes(&keys.own, keys.bytes, layout)
                    })+
                }
            }

            /// Memory that holds the whole table, however it is fragmented; 0 for `ideal`.
            pub fn whole_table_bytes(&self, layout: TranslationLayout) -> u64 {
                match self {
                    MapCacheChoice::Ideal(_) => 0,
                    $(MapCacheChoice::$kind(keys) => $file::$kind::whole_table_bytes(&keys.own, layout),)+
                }
            }

            /// What its tables take in this program, at most; `None` for `ideal`.
            pub(crate) fn table_bytes_at_most(&self, layout: TranslationLayout) -> Option<TableBytes> {
                match self {
                    MapCacheChoice::Ideal(_) => None,
                    $(MapCacheChoice::$kind(keys) => {
                        Some($file::$kind::table_bytes_at_most(&keys.own, layout))
                    })+
                }
            }

            /// The cache, over data that are written in this `order`; `None` for `ideal`.
            pub fn build(
                &self,
                layout: TranslationLayout,
                order: SuperblockOrder,
                prices: Prices,
            ) -> Option<Box<dyn MapCache>> {
                let mut cache: Box<dyn MapCache> = match self {
                    MapCacheChoice::Ideal(_) => return None,
                    $(MapCacheChoice::$kind(keys) => {
                        Box::new(<$file::$kind as MapCacheScheme>::new(&keys.own, keys.bytes, layout))
                    })+
                };
                cache.set_prices(prices);
                if let Some(wishes) = cache.wishes_mut() {
                    wishes.set_plane_order(order);
                }
                Some(cache)
            }
        }
    };
}

impl MapCacheChoice {
    /// Whether the table lives in flash.
    pub const fn is_cache(&self) -> bool {
        !matches!(self, MapCacheChoice::Ideal(_))
    }
}

// In the order in which they are listed everywhere.
map_caches! {
    dftl::Dftl;
    full_page::FullPage;
    half_page::HalfPage;
    tafp::Tafp;
    bsb::Bsb;
    ghosts::Ghosts;
    sftl::Sftl;
    tpftl::Tpftl;
    cdftl::Cdftl;
    leaftl::Leaftl;
    cftl::Cftl;
}
