//! The write buffer: which page or block leaves it.
//!
//! An order is one file with one type that implements [`BufferOrder`](order::BufferOrder) and
//! [`Scheme`](crate::scheme::Scheme), and one line in the list at the end of this file. From that line come its module, its
//! name and keys in device files, and its place in every test that loops over the list.

use crate::buffer::order::{BufferOrder, Buffered, FrameId, Shape};
use crate::error::ConfigError;
use crate::geometry::Lpn;
use crate::scheme::{Scheme, axis};

mod block_chains;
pub mod order;
mod size_lists;

/// The name of a file whose name Rust keeps for itself: `r#ref` is `ref`.
const fn plain_name(file: &'static str) -> &'static str {
    match file.as_bytes() {
        [b'r', b'#', ..] => file.split_at(2).1,
        _ => file,
    }
}

macro_rules! buffer_orders {
    ($($file:ident :: $kind:ident;)+) => {
        $(pub mod $file;)+

        axis! { @
            ["The orders in which pages leave a buffer, as a device file can name them."]
            "kind" in "buffer": OrderKind, OrderChoice {
                $(["See the file of this name."] plain_name(stringify!($file)), $kind(<$file::$kind as Scheme>::Keys),
                    $file::$kind::SUMMARY, $file::$kind::SOURCE, $file::$kind::CONTRASTS;)+
            }
        }

        /// The order that a device file names: chosen once, at the edge.
        #[derive(Debug, Clone)]
        #[allow(clippy::large_enum_variant, reason = "one exists per drive")]
        pub enum Orders {
            $(#[doc = "See the file of this name."] $kind($file::$kind),)+
        }

        impl Orders {
            /// An order of an empty buffer.
            pub fn new(keys: &OrderChoice, shape: &Shape) -> Self {
                match keys {
                    $(OrderChoice::$kind(keys) => Orders::$kind($file::$kind::new(keys, shape)),)+
                }
            }
            /// See [`BufferOrder::UNIT`].
            pub const fn unit(&self) -> order::VictimUnit {
                match self { $(Orders::$kind(_) => $file::$kind::UNIT,)+ }
            }
            /// See [`BufferOrder::check_keys`].
            ///
            /// # Errors
            /// The first value beyond its limits.
            pub fn check_keys(keys: &OrderChoice) -> Result<(), ConfigError> {
                match keys { $(OrderChoice::$kind(keys) => $file::$kind::check_keys(keys),)+ }
            }
            /// See [`BufferOrder::keeps_reads`].
            pub fn keeps_reads(keys: &OrderChoice) -> bool {
                match keys { $(OrderChoice::$kind(keys) => $file::$kind::keeps_reads(keys),)+ }
            }
            /// See [`BufferOrder::on_insert`].
            #[inline]
            pub fn on_insert(&mut self, page: Buffered, dirty: bool) {
                match self { $(Orders::$kind(order) => order.on_insert(page, dirty),)+ }
            }
            /// See [`BufferOrder::on_hit`].
            #[inline]
            pub fn on_hit(&mut self, page: Buffered, write: bool) {
                match self { $(Orders::$kind(order) => order.on_hit(page, write),)+ }
            }
            /// See [`BufferOrder::on_clean`].
            #[inline]
            pub fn on_clean(&mut self, page: Buffered) {
                match self { $(Orders::$kind(order) => order.on_clean(page),)+ }
            }
            /// See [`BufferOrder::on_leave`].
            pub fn on_leave(&mut self, page: Buffered) {
                match self { $(Orders::$kind(order) => order.on_leave(page),)+ }
            }
            /// See [`BufferOrder::victim`].
            #[inline]
            pub fn victim(&mut self, protect: Lpn, frames: &mut Vec<FrameId>) -> bool {
                match self { $(Orders::$kind(order) => order.victim(protect, frames),)+ }
            }
            /// See [`BufferOrder::candidates`].
            pub fn candidates(&self, protect: Lpn, depth: usize, pages: &mut Vec<Buffered>) {
                match self { $(Orders::$kind(order) => order.candidates(protect, depth, pages),)+ }
            }
            /// See [`BufferOrder::take`].
            pub fn take(&mut self, page: Buffered, frames: &mut Vec<FrameId>) {
                match self { $(Orders::$kind(order) => order.take(page, frames),)+ }
            }
            /// See [`BufferOrder::pads`].
            pub fn pads(&self, held: u32, of: u32) -> bool {
                match self { $(Orders::$kind(order) => order.pads(held, of),)+ }
            }
            /// See [`BufferOrder::table_bytes`].
            pub fn table_bytes(&self) -> u64 {
                match self { $(Orders::$kind(order) => order.table_bytes(),)+ }
            }
        }
    };
}

// In the order in which they are listed everywhere; the first is the default.
buffer_orders! {
    lru::Lru;
    cflru::Cflru;
    lru_wsr::LruWsr;
    bplru::Bplru;
    fab::Fab;
    r#ref::Ref;
    clc::Clc;
}
