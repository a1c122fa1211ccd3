//! Whole translation pages: no rest has to be read when one is written back.

use crate::config::MapCacheConfig;
use crate::geometry::Lpn;
use crate::mapcache::units::{Units, Window};
use crate::mapcache::{Insight, Lookup, MapCache, MapOp, Shape};

/// See the module.
#[derive(Debug)]
pub struct FullPage(Units);

impl FullPage {
    /// Empty, for a drive of this shape.
    pub fn new(config: &MapCacheConfig, shape: Shape) -> Self {
        Self(Units::new(config, shape, Vec::new()))
    }
}

impl MapCache for FullPage {
    fn lookup(&mut self, lookup: Lookup, _: &[u32], ops: &mut Vec<MapOp>) -> bool {
        self.0.lookup(lookup, Window::Full, ops)
    }

    fn moved(&mut self, lpn: Lpn, _: &[u32]) -> bool {
        self.0.change(lpn)
    }

    fn rewritten(&mut self, tpn: u32) {
        self.0.rewritten(tpn);
    }

    fn is_dirty(&self, lpn: Lpn) -> bool {
        self.0.is_dirty(lpn)
    }

    fn used_bytes(&self) -> u64 {
        self.0.used_bytes()
    }

    fn insight(&self) -> Insight {
        self.0.insight()
    }

    fn check(&self) -> Result<(), String> {
        self.0.check()
    }

    fn table_bytes(&self) -> u64 {
        self.0.table_bytes()
    }
}
