//! Translation-page-aware forward prefetching: the entry asked for, and `window_bytes` of those that follow it in its page.

use crate::config::MapCacheConfig;
use crate::geometry::Lpn;
use crate::mapcache::units::{Units, Window};
use crate::mapcache::{Insight, Lookup, MapCache, MapOp, Shape};

/// See the module.
#[derive(Debug)]
pub struct Tafp {
    units: Units,
    window: Window,
}

impl Tafp {
    /// Empty, for a drive of this shape.
    pub fn new(config: &MapCacheConfig, shape: Shape) -> Self {
        let window = Window::forward(config.window_bytes, config.window_inclusive);
        Self { units: Units::new(config, shape, Vec::new()), window }
    }
}

impl MapCache for Tafp {
    fn lookup(&mut self, lookup: Lookup, _: &[u32], ops: &mut Vec<MapOp>) -> bool {
        self.units.lookup(lookup, self.window, ops)
    }

    fn moved(&mut self, lpn: Lpn, _: &[u32]) -> bool {
        self.units.change(lpn)
    }

    fn rewritten(&mut self, tpn: u32) {
        self.units.rewritten(tpn);
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        self.units.is_dirty(lpn)
    }

    fn used_bytes(&self) -> u64 {
        self.units.used_bytes()
    }

    fn insight(&self) -> Insight {
        self.units.insight()
    }

    fn check(&self) -> Result<(), String> {
        self.units.check()
    }

    fn table_bytes(&self) -> u64 {
        self.units.table_bytes()
    }
}
