//! Whole translation pages: no rest has to be read when one is written back.

use crate::mapcache::units::{Window, fixed_window};

fixed_window!(FullPage, |_| Window::Full);
