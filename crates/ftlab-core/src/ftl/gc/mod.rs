//! Garbage collection: which block is the victim.
//!
//! A policy is one file with one type that implements [`VictimPolicy`](policy::VictimPolicy), and one line in the list at the end of
//! [`victim_policies`] (and `mod`, as for every Rust file). From that line come its name in device files, its row in `ftlab schemes`, and its place in
//! every test that loops over the list.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::FtlConfig;
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;
use crate::schemes::Scheme;

mod cost_benefit;
mod d_choices;
mod fifo;
mod greedy;
pub mod level_index;
pub mod policy;
mod random;
mod windowed_greedy;

macro_rules! victim_policies {
    ($($(#[doc = $doc:literal])+ $file:ident :: $kind:ident, $source:literal;)+) => {
        /// The victim policies that a device file can name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum VictimKind {
            $($(#[doc = $doc])+ $kind,)+
        }

        impl VictimKind {
            /// Every policy.
            pub const ALL: &[VictimKind] = &[$(VictimKind::$kind),+];

            /// Its name in device files and reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $(VictimKind::$kind => stringify!($file),)+
                }
            }
        }

        /// The policy that a device file names: chosen once, at the edge.
        #[derive(Debug, Clone)]
        #[allow(clippy::large_enum_variant, reason = "one exists per drive")]
        pub enum Victims {
            $($(#[doc = $doc])+ $kind($file::$kind),)+
        }

        impl VictimPolicy for Victims {
            fn new(geometry: &Geometry, config: &FtlConfig, rng: Rng) -> Self {
                match config.gc {
                    $(VictimKind::$kind => Victims::$kind($file::$kind::new(geometry, config, rng)),)+
                }
            }
            #[inline]
            fn on_seal(&mut self, block: BlockId, valid: u32) {
                match self { $(Victims::$kind(policy) => policy.on_seal(block, valid),)+ }
            }
            #[inline]
            fn on_invalidate(&mut self, block: BlockId, valid: u32) {
                match self { $(Victims::$kind(policy) => policy.on_invalidate(block, valid),)+ }
            }
            fn pick(&mut self, plane: PlaneId) -> Option<BlockId> {
                match self { $(Victims::$kind(policy) => policy.pick(plane),)+ }
            }
            fn remove(&mut self, block: BlockId, valid: u32) {
                match self { $(Victims::$kind(policy) => policy.remove(block, valid),)+ }
            }
            #[inline]
            fn prefetch(&self, block: BlockId, valid: u32) {
                match self { $(Victims::$kind(policy) => policy.prefetch(block, valid),)+ }
            }
            fn picks_emptiest(&self) -> bool {
                match self { $(Victims::$kind(policy) => policy.picks_emptiest(),)+ }
            }
            fn likely_next(&self, plane: PlaneId) -> Option<BlockId> {
                match self { $(Victims::$kind(policy) => policy.likely_next(plane),)+ }
            }
            fn table_bytes(&self) -> u64 {
                match self { $(Victims::$kind(policy) => policy.table_bytes(),)+ }
            }
        }

        /// Rows for `ftlab schemes`.
        pub fn schemes() -> Vec<Scheme> {
            vec![$(Scheme {
                key: "ftl.gc",
                name: stringify!($file),
                summary: concat!($($doc),+).trim_ascii(),
                source: $source,
            }),+]
        }
    };
}

victim_policies! {
    /// The sealed block with the fewest live units; ties by `gc_tie`.
    greedy::Greedy, "M. Rosenblum and J. Ousterhout, ACM TOCS 10(1), 1992";
    /// The block that was sealed first (LRU cleaning).
    fifo::Fifo, "P. Desnoyers, SYSTOR 2012, as LRU cleaning";
    /// Any sealed block, each equally likely.
    random::Random, "B. Van Houdt, SIGMETRICS 2013, d = 1";
    /// The best of `gc_choices` sealed blocks drawn at random, with replacement.
    d_choices::DChoices, "B. Van Houdt, SIGMETRICS 2013, doi 10.1145/2494232.2465543";
    /// The block with the largest age x (1 - u) / 2u: u its share of live units, age the writes since a unit of it last became stale.
    cost_benefit::CostBenefit, "A. Kawaguchi, S. Nishioka and H. Motoda, USENIX 1995";
    /// The block with the fewest live units among the `gc_window` that were sealed first.
    windowed_greedy::WindowedGreedy, "X.-Y. Hu et al., SYSTOR 2009";
}

#[cfg(test)]
mod tests;
