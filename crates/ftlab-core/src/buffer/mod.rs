//! The write buffer of a drive: which page or block leaves it next.
//!
//! An order is one file with one type that implements [`BufferOrder`](order::BufferOrder) and
//! [`Scheme`](crate::scheme::Scheme), and one line in the list at the end of this file. From that line come its module, its
//! name and keys in device files, its row in `ftlab schemes`, and its place in every test that loops over the list.
//!
//! How much leaves, and when, is no business of an order: that is the buffer's own, in `front`.

use crate::buffer::keys::{BufferKeys, CommonKeys};
use crate::buffer::order::{BufferOrder, Buffered, FrameId, LOOKED_AT, Pages, Shape, VictimUnit};
use crate::error::ConfigError;
use crate::geometry::Lpn;
use crate::scheme::{NoKeys, Scheme, axis};

mod block_chains;
pub mod front;
pub mod keys;
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
            ["The order in which the write buffer gives up what it holds. Default: none, since a buffer hides what the translation layer does."]
            "kind" in "buffer": BufferKind, BufferChoice {
                ["No buffer: a write is acknowledged when its pages are programmed."] "none", None(NoKeys),
                    "No buffer: a write is acknowledged when its pages are programmed.", "", &[];
                $(["See the file of this name."] plain_name(stringify!($file)),
                    $kind(BufferKeys<<$file::$kind as Scheme>::Keys>),
                    $file::$kind::SUMMARY, $file::$kind::SOURCE, $file::$kind::CONTRASTS;)+
            }
        }

        impl BufferChoice {
            /// The keys that every order shares; `None` for `none`.
            pub const fn common(&self) -> Option<&CommonKeys> {
                match self {
                    BufferChoice::None(_) => None,
                    $(BufferChoice::$kind(keys) => Some(&keys.common),)+
                }
            }

            /// What victims are.
            pub const fn victim_unit(&self) -> VictimUnit {
                match self {
                    BufferChoice::None(_) => VictimUnit::Page,
                    $(BufferChoice::$kind(_) => <$file::$kind as BufferOrder>::UNIT,)+
                }
            }

            /// Bytes at most of a frame and its place in the order.
            pub const fn bytes_per_frame(&self) -> u64 {
                match self {
                    BufferChoice::None(_) => 0,
                    $(BufferChoice::$kind(_) => <$file::$kind as BufferOrder>::BYTES_PER_FRAME,)+
                }
            }

            /// Whether it takes blocks, or looks at them.
            pub const fn looks_at_blocks(&self) -> bool {
                matches!(self.victim_unit(), VictimUnit::Block) || matches!(self, BufferChoice::Ref(_))
            }

            /// Whether pages that a read missed are kept.
            pub fn keeps_reads(&self) -> bool {
                match self {
                    BufferChoice::None(_) => false,
                    $(BufferChoice::$kind(keys) => $file::$kind::keeps_reads(&keys.own),)+
                }
            }

            /// Check the limits of the keys that an order has of its own.
            ///
            /// # Errors
            /// The first value beyond them.
            pub fn check_own(&self) -> Result<(), ConfigError> {
                match self {
                    BufferChoice::None(_) => Ok(()),
                    $(BufferChoice::$kind(keys) => $file::$kind::check_keys(&keys.own),)+
                }
                .map_err(|error| error.within("buffer"))
            }

            /// The order of an empty buffer; `None` for `none`.
            pub fn build(&self, shape: &Shape) -> Option<Orders> {
                match self {
                    BufferChoice::None(_) => None,
                    $(BufferChoice::$kind(keys) => {
                        Some(Orders::$kind(<$file::$kind as BufferOrder>::new(&keys.own, shape)))
                    })+
                }
            }
        }

        /// The order that a device file names: chosen once, at the edge.
        #[derive(Debug, Clone)]
        #[allow(clippy::large_enum_variant, reason = "one exists per drive")]
        pub enum Orders {
            $(#[doc = "See the file of this name."] $kind($file::$kind),)+
        }

        /// See [`BufferOrder`], whose methods these are.
        #[allow(missing_docs, reason = "those of the contract")]
        impl Orders {
            #[inline]
            pub fn on_insert(&mut self, page: Buffered, dirty: bool, pages: Pages<'_>) {
                match self { $(Orders::$kind(order) => order.on_insert(page, dirty, pages),)+ }
            }
            #[inline]
            pub fn on_hit(&mut self, page: Buffered, write: bool, pages: Pages<'_>) {
                match self { $(Orders::$kind(order) => order.on_hit(page, write, pages),)+ }
            }
            #[inline]
            pub fn on_clean(&mut self, page: Buffered) {
                match self { $(Orders::$kind(order) => order.on_clean(page),)+ }
            }
            pub fn on_dirty(&mut self, page: Buffered) {
                match self { $(Orders::$kind(order) => order.on_dirty(page),)+ }
            }
            #[inline]
            pub fn on_leave(&mut self, page: Buffered, pages: Pages<'_>) {
                match self { $(Orders::$kind(order) => order.on_leave(page, pages),)+ }
            }
            #[inline]
            pub fn victim(&mut self, protect: Lpn, pages: Pages<'_>, frames: &mut Vec<FrameId>) -> bool {
                match self { $(Orders::$kind(order) => order.victim(protect, pages, frames),)+ }
            }
            pub fn candidates(&self, protect: Lpn, depth: usize, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
                match self { $(Orders::$kind(order) => order.candidates(protect, depth, pages, frames),)+ }
            }
            pub fn take(&mut self, page: Buffered, pages: Pages<'_>, frames: &mut Vec<FrameId>) {
                match self { $(Orders::$kind(order) => order.take(page, pages, frames),)+ }
            }
            pub fn pads(&self, held: u32, of: u32) -> bool {
                match self { $(Orders::$kind(order) => order.pads(held, of),)+ }
            }
            #[inline]
            pub fn prefetch(&self, lpn: Lpn, frame: Option<FrameId>, stage: u32, pages: Pages<'_>) {
                match self { $(Orders::$kind(order) => order.prefetch(lpn, frame, stage, pages),)+ }
            }
            #[inline]
            pub fn likely_next(&self) -> [u32; LOOKED_AT] {
                match self { $(Orders::$kind(order) => order.likely_next(),)+ }
            }
            pub fn table_bytes(&self) -> u64 {
                match self { $(Orders::$kind(order) => order.table_bytes(),)+ }
            }
        }
    };
}

// In the order in which they are listed everywhere.
buffer_orders! {
    lru::Lru;
    cflru::Cflru;
    lru_wsr::LruWsr;
    bplru::Bplru;
    fab::Fab;
    r#ref::Ref;
    clc::Clc;
}
