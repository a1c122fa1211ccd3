//! The page table: where every logical unit is, and its part in flash when there is a mapping cache.

use super::capacity;
use super::fetches::PendingFetches;
use crate::config::DeviceConfig;
use crate::flash::nand::NandArray;
use crate::flash::port::{FlashPort, Ticket};
use crate::geometry::{Geometry, Lpn, Ppn};
use crate::interrupt::Interrupt;
use crate::mapcache::cache::PlacementWishes;
use crate::mapcache::superblock_order::SuperblockOrder;
use crate::mapcache::translation::Translation;
use crate::table::{self, Table};

/// Entry of a unit that holds nothing.
pub(super) const UNMAPPED: u32 = u32::MAX;

/// The truth about where units are.
#[derive(Debug, Clone)]
pub(super) struct PageTable<T> {
    /// Where each logical unit is, then each unit of a translation page.
    pub(super) map: Table<u32>,
    /// With a mapping cache.
    pub(super) translation: Option<Translation>,
    /// With a mapping cache and a port that keeps time.
    pub(super) fetches: Option<PendingFetches<T>>,
}

impl<T: Ticket> PageTable<T> {
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
            map: table::filled(units as usize, UNMAPPED, interrupt).into(),
            translation: Translation::new(config, layout, order, verify),
            fetches: None,
        }
    }

    /// The same behind another port.
    pub(super) fn with_port<Q: FlashPort>(self, port: &Q) -> PageTable<Q::Ticket> {
        let layout = self.translation.as_ref().map(|translation| translation.layout);
        let fetches = layout.filter(|_| Q::LISTENS).map(|layout| PendingFetches::new(layout, port.ready()));
        PageTable { map: self.map, translation: self.translation, fetches }
    }

    /// Where a unit is.
    #[inline(always)]
    pub(super) fn lookup(&self, lpn: Lpn) -> Option<Ppn> {
        let entry = self.map[lpn.index()];
        (entry != UNMAPPED).then_some(Ppn(entry))
    }

    /// Ask the processor for the entry of a unit.
    #[inline]
    pub(super) fn prefetch(&self, lpn: Lpn) {
        table::prefetch(&self.map, lpn.index());
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
        map: &[u32],
        geometry: &Geometry,
        lpn: Lpn,
        old: Option<Ppn>,
    ) {
        if let Some(translation) = translation {
            let old = old.map_or(UNMAPPED, |ppn| ppn.0);
            translation.changed(lpn, old, &map[..geometry.logical_units as usize]);
        }
    }

    /// The unit `lpn`, which was at `old`, holds nothing any more.
    pub(super) fn forget(&mut self, geometry: &Geometry, lpn: Lpn, old: Ppn) {
        self.map[lpn.index()] = UNMAPPED;
        Self::entry_changed(&mut self.translation, &self.map, geometry, lpn, Some(old));
    }

    /// Compare with the array; returns how many units are mapped.
    ///
    /// # Errors
    /// The first entry that leads elsewhere.
    pub(super) fn verify(&self, nand: &NandArray) -> Result<u64, String> {
        let mut mapped = 0;
        for (lpn, entry) in (0..).zip(self.map.iter()) {
            if *entry == UNMAPPED {
                continue;
            }
            mapped += 1;
            let ppn = Ppn(*entry);
            if !nand.is_valid(ppn) || nand.lpn(ppn) != Some(Lpn(lpn)) {
                let found = nand.lpn(ppn);
                return Err(format!(
                    "logical unit {lpn} maps to physical unit {entry}, which holds {found:?}"
                ));
            }
        }
        Ok(mapped)
    }

    /// Bytes of the tables.
    pub(super) fn table_bytes(&self) -> u64 {
        self.map.len() as u64 * 4
            + self.fetches.as_ref().map_or(0, PendingFetches::table_bytes)
            + self.translation.as_ref().map_or(0, Translation::table_bytes)
    }
}
