//! Translation-page-aware forward prefetching: the entry asked for, and `window_bytes` of those that follow it in its page.

use crate::mapcache::units::{Window, fixed_window};

fixed_window!(Tafp, |config| Window::forward(config.window_bytes, config.window_inclusive));
