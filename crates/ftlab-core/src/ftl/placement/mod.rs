//! Placement: which plane and which open block takes a page. The list of placements.
//!
//! A placement is one file with one type that implements [`Placement`], and one line in the list below (and `mod`, as for
//! every Rust file).

mod most_free;
pub mod policy;
mod stripe;

pub use policy::Placement;
pub use stripe::Stripe;
