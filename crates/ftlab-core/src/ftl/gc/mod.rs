//! Garbage collection: which block is the victim.
//!
//! A policy is one file with one type that implements [`VictimPolicy`](policy::VictimPolicy) and
//! [`Scheme`](crate::scheme::Scheme), and one line in the list at the end of this file. From that line come its module, its
//! name and keys in device files, its row in `ftlab schemes`, and its place in every test that loops over the list.

use crate::error::ConfigError;
use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;
use crate::scheme::{Scheme, axis};
use crate::tape::Tape;

pub mod level_index;
pub mod policy;

macro_rules! victim_policies {
    ($($file:ident :: $kind:ident;)+) => {
        $(pub mod $file;)+

        axis! { @
            ["Which full block collection takes next: the victim policy. Default: greedy copies least at the moment, and is what most studies compare with."]
            "gc" in "ftl": VictimKind, VictimChoice {
                $(["See the file of this name."] stringify!($file), $kind(<$file::$kind as Scheme>::Keys),
                    $file::$kind::SUMMARY, $file::$kind::SOURCE, $file::$kind::CONTRASTS;)+
            }
        }

        /// The policy that a device file names: chosen once, at the edge.
        #[derive(Debug, Clone)]
        #[allow(clippy::large_enum_variant, reason = "one exists per drive")]
        pub enum Victims {
            $(#[doc = "See the file of this name."] $kind($file::$kind),)+
        }

        impl VictimPolicy for Victims {
            fn new(geometry: &Geometry, keys: &VictimChoice, rng: Rng) -> Self {
                match keys {
                    $(VictimChoice::$kind(keys) => Victims::$kind($file::$kind::new(geometry, keys, rng)),)+
                }
            }
            fn check_keys(keys: &VictimChoice) -> Result<(), ConfigError> {
                match keys {
                    $(VictimChoice::$kind(keys) => $file::$kind::check_keys(keys),)+
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
            fn on_revalidate(&mut self, block: BlockId, valid: u32) {
                match self { $(Victims::$kind(policy) => policy.on_revalidate(block, valid),)+ }
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
            fn into_copy(self) -> Self {
                match self { $(Victims::$kind(policy) => Victims::$kind(policy.into_copy()),)+ }
            }
            fn table_bytes(&self) -> u64 {
                match self { $(Victims::$kind(policy) => policy.table_bytes(),)+ }
            }
            fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
                match self { $(Victims::$kind(policy) => policy.tape(tape),)+ }
            }
        }

        impl Scheme for Victims {
            const SUMMARY: &'static str = "The policy that a device file names.";
            const SOURCE: &'static str = "";
            type Keys = VictimChoice;
        }
    };
}

impl VictimChoice {
    /// Check its keys.
    ///
    /// # Errors
    /// The first value beyond its limits.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        Victims::check_keys(self).map_err(|error| error.within("ftl"))
    }
}

// In the order in which they are listed everywhere; the first is the default.
victim_policies! {
    greedy::Greedy;
    fifo::Fifo;
    random::Random;
    d_choices::DChoices;
    cost_benefit::CostBenefit;
    windowed_greedy::WindowedGreedy;
}

#[cfg(test)]
mod tests;
