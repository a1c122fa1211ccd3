//! The non-volatile cache of a drive: its kinds and their keys.
//!
//! What it does with pages is in `cache`. Who leaves is said by the page orders of write buffers (`buffer`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::BufferKind;
use crate::quantity;
use crate::scheme::{Contrast, NoKeys, axis};

pub mod cache;

/// Where the cache is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CachePlace {
    /// Inside the drive: the translation layer and the cache know each other's state for nothing.
    #[default]
    Device,
    /// In the host, as its page cache: each change of state is a message over the link, so that `host.link_mb_per_s` is set.
    Host,
}

/// What a flush does to dirty pages of a cache that does not work with the flash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BasicFlush {
    /// Nothing: they are durable where they are.
    #[default]
    Noop,
    /// All of them are programmed, in the order in which they would leave, and stay, clean.
    Writeback,
}

/// How a victim policy sees a page in flash of which the cache has a clean copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Removable {
    /// As live: victims are chosen as without the cache. The paper changed what is copied, and nothing else.
    #[default]
    Counts,
    /// As stale: it costs nothing to collect.
    Free,
}

/// The keys that every kind of cache shares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct CacheKeys {
    /// Memory for data, in bytes: a frame for each mapping unit, and no more frames than the drive has logical units. 0 (the
    /// default): there is no cache.
    ///
    /// Default: no size is right for every drive, so it has to be said.
    #[serde(deserialize_with = "quantity::bytes")]
    pub bytes: u64,
    /// Which page leaves next: `lru`, `cflru` or `lru_wsr`, the orders of write buffers that take pages and keep what is read.
    ///
    /// Default: LRU, as in the paper.
    pub order: BufferKind,
    /// How long a read of a frame takes, in microseconds, beside the transfer.
    ///
    /// Default: none, as the paper states no latency of its memory.
    #[serde(deserialize_with = "quantity::micros")]
    pub read_us: f64,
    /// How long a write to a frame takes, in microseconds, beside the transfer.
    ///
    /// Default: none, as the paper states no latency of its memory.
    #[serde(deserialize_with = "quantity::micros")]
    pub write_us: f64,
    /// Rate of the memory in million bytes a second; 0 (the default): transfers take no time. It moves the data of one
    /// host access at a time; what moves between flash and frames is not charged.
    ///
    /// Default: free, as the paper states no rate of its memory.
    pub mb_per_s: f64,
}

impl Default for CacheKeys {
    fn default() -> Self {
        Self { bytes: 0, order: BufferKind::Lru, read_us: 0.0, write_us: 0.0, mb_per_s: 0.0 }
    }
}

/// The keys of a cache that flash knows nothing of.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct BasicKeys {
    /// Those that every kind shares.
    #[serde(flatten)]
    pub cache: CacheKeys,
    /// What a flush does to dirty pages.
    ///
    /// Default: nothing, so that both kinds of cache promise the same and only cooperation differs.
    #[serde(default)]
    pub basic_flush: BasicFlush,
}

/// The keys of a cache that works with the flash.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct CdmKeys {
    /// Those that every kind shares.
    #[serde(flatten)]
    pub cache: CacheKeys,
    /// How a victim policy sees a page in flash of which the cache has a clean copy.
    ///
    /// Default: as the paper has it: what is copied changes, and which block is chosen does not.
    #[serde(default)]
    pub removable: Removable,
    /// Where the cache is.
    ///
    /// Default: in the drive, as in the paper's measurements; it only discusses the host.
    #[serde(default)]
    pub place: CachePlace,
    /// With `place = "host"`: how long a message of a change of state takes, in microseconds. Messages go one after the other,
    /// beside the data that cross the link.
    ///
    /// Default: no time of its own, as none is published: only the order of messages counts then.
    #[serde(default, deserialize_with = "quantity::micros")]
    pub message_us: f64,
}

const SOURCE: &str =
    "E. Lee, J. Jeong, H. Bahn, JIIBC 16(4), 2016; E. Lee, J. Kim, H. Bahn, S. H. Noh, MSST 2016";

/// A drive on which a key of the `kind` of cache shows.
macro_rules! contrasts {
    ($kind:literal, $($key:literal, $value:literal, [$($with:literal),*];)+) => {
        &[
            Contrast { key: "bytes", value: "262144", with: &[$kind] },
            Contrast { key: "order", value: "\"lru_wsr\"", with: &[$kind, "nvm.bytes=131072"] },
            Contrast { key: "read_us", value: "100", with: &[$kind, "nvm.bytes=131072"] },
            Contrast { key: "write_us", value: "100", with: &[$kind, "nvm.bytes=131072"] },
            Contrast { key: "mb_per_s", value: "20.0", with: &[$kind, "nvm.bytes=131072"] },
            $(Contrast { key: $key, value: $value, with: &[$kind, "nvm.bytes=131072" $(, $with)*] },)+
        ]
    };
}

const BASIC_CONTRASTS: &[Contrast] = contrasts!("nvm.kind=\"basic\"", "basic_flush", "\"writeback\"", [];);
const CDM_CONTRASTS: &[Contrast] = contrasts!(
    "nvm.kind=\"cdm\"",
    "removable", "\"free\"", [];
    "place", "\"host\"", ["nvm.message_us=100", "host.link_mb_per_s=1000.0"];
    "message_us", "1000", ["nvm.place=\"host\"", "host.link_mb_per_s=1000.0"];
);

axis! { @
    ["The kind of non-volatile cache. Default: none, as few drives have one."]
    "kind" in "nvm": NvmKind, NvmChoice {
        ["No non-volatile cache."] "none", None(NoKeys), "No non-volatile cache.", "", &[];
        ["A cache that flash knows nothing of: the page that it has a copy of stays live in flash until it is written back."]
            "basic", Basic(BasicKeys),
            "A cache that flash knows nothing of: the page that it has a copy of stays live in flash until it is written back.",
            SOURCE, BASIC_CONTRASTS;
        ["Cooperative data management: one of two copies may go. Collection need not copy what the cache holds, and what is modified there is stale in flash at once."]
            "cdm", Cdm(CdmKeys),
            "Cooperative data management: one of two copies may go. Collection need not copy what the cache holds, and what is modified there is stale in flash at once.",
            SOURCE, CDM_CONTRASTS;
    }
}

impl NvmChoice {
    /// The keys that every kind shares; `None` for `none`.
    pub const fn cache(&self) -> Option<&CacheKeys> {
        match self {
            NvmChoice::None(_) => None,
            NvmChoice::Basic(keys) => Some(&keys.cache),
            NvmChoice::Cdm(keys) => Some(&keys.cache),
        }
    }

    /// Whether cache and flash agree on who holds the only copy.
    pub const fn cooperates(&self) -> bool {
        matches!(self, NvmChoice::Cdm(_))
    }

    /// Whether victim policies see pages that the cache has copies of as stale.
    pub fn frees_removable(&self) -> bool {
        matches!(self, NvmChoice::Cdm(keys) if keys.removable == Removable::Free)
    }
}
