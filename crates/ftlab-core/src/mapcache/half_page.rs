//! Aligned halves of translation pages.

use crate::mapcache::units::{Window, fixed_window};

fixed_window!(HalfPage, |_| Window::Half);
