//! The page table: where every logical unit is, and its part in flash when there is a mapping cache.

use super::capacity;
use super::fetches::PendingFetches;
use crate::config::DeviceConfig;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::ftl::blocks::page_map::PageMap;
use crate::geometry::{Geometry, Lpn, Ppn};
use crate::interrupt::Interrupt;
use crate::mapcache::cache::PlacementWishes;
use crate::mapcache::superblock_order::SuperblockOrder;
use crate::mapcache::translation::Translation;

/// The truth about where units are.
#[derive(Debug, Clone)]
pub(super) struct PageTable<T, const CACHED: bool> {
    /// Where each logical unit is, then each unit of a translation page.
    pub(super) map: PageMap<CACHED>,
    /// With a mapping cache.
    pub(super) translation: Option<Translation>,
    /// With a mapping cache and a port that keeps time.
    pub(super) fetches: Option<PendingFetches<T>>,
}

impl<T: Ticket, const CACHED: bool> PageTable<T, CACHED> {
    /// That of an erased drive. Of no use when `interrupt` was asked.
    pub(super) fn new(
        config: &DeviceConfig,
        geometry: &Geometry,
        verify: bool,
        interrupt: &Interrupt,
    ) -> Self {
        let layout = capacity::translation_layout(config);
        let by_turn = config.ftl.placement.goes_by_turn();
        let order = SuperblockOrder::new(geometry, config.ftl.allocation, by_turn);
        let units = u64::from(geometry.logical_units) + capacity::translation_units(config);
        Self {
            map: PageMap::new(units as usize, interrupt),
            translation: Translation::new(config, layout, order, verify),
            fetches: None,
        }
    }

    /// The same behind another port.
    pub(super) fn with_port<Q: FlashPort>(self, port: &Q) -> PageTable<Q::Ticket, CACHED> {
        let layout = self.translation.as_ref().map(|translation| translation.layout);
        let fetches = layout.filter(|_| Q::LISTENS).map(|layout| PendingFetches::new(layout, port.ready()));
        PageTable { map: self.map, translation: self.translation, fetches }
    }

    /// Where a unit is.
    #[inline(always)]
    pub(super) fn lookup(&self, lpn: Lpn) -> Option<Ppn> {
        self.map.get(lpn)
    }

    /// The entries of logical units, for the mapping cache.
    #[inline(always)]
    pub(super) fn logical<'m>(map: &'m PageMap<CACHED>, geometry: &Geometry) -> &'m [u32] {
        &map.plain()[..geometry.logical_units as usize]
    }

    /// What the mapping cache wants of placement, if anything.
    pub(super) fn wishes(&self) -> Option<&dyn PlacementWishes> {
        self.translation.as_ref()?.cache.wishes()
    }

    /// The same, to tell it what became of blocks.
    pub(super) fn wishes_mut(&mut self) -> Option<&mut dyn PlacementWishes> {
        self.translation.as_mut()?.cache.wishes_mut()
    }

    /// The host has changed the entry of `lpn`, which was `old`, in `map`.
    #[inline(always)]
    pub(super) fn entry_changed(
        translation: &mut Option<Translation>,
        map: &PageMap<CACHED>,
        geometry: &Geometry,
        lpn: Lpn,
        old: Option<Ppn>,
    ) {
        if let Some(translation) = translation {
            let old = old.map_or(u32::MAX, |ppn| ppn.0);
            translation.changed(lpn, old, Self::logical(map, geometry));
        }
    }

    /// The unit `lpn`, which was at `old`, holds nothing any more.
    pub(super) fn forget(&mut self, geometry: &Geometry, lpn: Lpn, old: Ppn) {
        self.map.clear(lpn);
        Self::entry_changed(&mut self.translation, &self.map, geometry, lpn, Some(old));
    }

    /// Compare with the array; returns how many units are mapped.
    ///
    /// # Errors
    /// The first entry that leads elsewhere.
    pub(super) fn verify(&self, nand: &NandArray) -> Result<u64, String> {
        let mut mapped = 0;
        for (lpn, ppn) in self.map.iter() {
            mapped += 1;
            let found = nand.lpn(ppn);
            if !nand.is_valid(ppn) || found != Some(lpn) {
                return Err(format!(
                    "logical unit {} maps to physical unit {}, which holds {found:?}",
                    lpn.0, ppn.0
                ));
            }
        }
        Ok(mapped)
    }

    /// Bytes of the tables.
    pub(super) fn table_bytes(&self) -> u64 {
        self.map.table_bytes()
            + self.fetches.as_ref().map_or(0, PendingFetches::table_bytes)
            + self.translation.as_ref().map_or(0, Translation::table_bytes)
    }
}
