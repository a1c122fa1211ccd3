//! Where each logical unit is.

use std::ops::Range;
use std::sync::Arc;

use crate::access;
use crate::flash::filled::Filled;
use crate::geometry::{Geometry, Lpn, Ppn};
use crate::interrupt::Interrupt;
use crate::table::{self, Table};
use crate::tape::{Tape, Taped};

/// Entry of a unit that is nowhere.
const NOWHERE: u32 = u32::MAX;

/// The table of a page-mapping layer.
///
/// `PLAIN`: entries are physical units, and `u32::MAX` where there is none, so that mapping caches can read them. Otherwise
/// they are one more, and 0 stands for what nobody has entered: a unit is where the fill has put it, or nowhere. Memory as
/// the system gives it is the table of an erased drive then, and of a filled one.
#[derive(Debug, Clone)]
pub struct PageMap<const PLAIN: bool> {
    entries: Table<u32>,
    filled: Option<Arc<Filled>>,
    /// So many units, from the first on, are where the fill has put them, if nothing is entered.
    filled_units: u32,
}

impl<const PLAIN: bool> PageMap<PLAIN> {
    /// What is added to a physical unit.
    const BIAS: u32 = !PLAIN as u32;

    /// The table of `units` that are nowhere. Of no use when `interrupt` was asked.
    pub fn new(units: usize, interrupt: &Interrupt) -> Self {
        let entries =
            if PLAIN { table::filled(units, NOWHERE, interrupt).into() } else { Table::sparse_zeros(units) };
        Self { entries, filled: None, filled_units: 0 }
    }

    /// Where a unit is.
    #[inline(always)]
    pub fn get(&self, lpn: Lpn) -> Option<Ppn> {
        let ppn = self.entries[lpn.index()].wrapping_sub(Self::BIAS);
        if ppn < NOWHERE - Self::BIAS { Some(Ppn(ppn)) } else { self.as_filled(lpn) }
    }

    #[cold]
    fn as_filled(&self, lpn: Lpn) -> Option<Ppn> {
        if PLAIN || self.entries[lpn.index()] != 0 || lpn.0 >= self.filled_units {
            return None;
        }
        self.filled.as_ref().map(|filled| filled.place(lpn))
    }

    /// It is there now.
    #[inline(always)]
    pub fn set(&mut self, lpn: Lpn, ppn: Ppn) {
        self.entries[lpn.index()] = ppn.0 + Self::BIAS;
        self.entries.touched(1);
    }

    /// It is nowhere any more.
    pub fn clear(&mut self, lpn: Lpn) {
        self.entries[lpn.index()] = NOWHERE;
        self.entries.touched(1);
    }

    /// Units of pages that fill blocks in turn are there now, `starts` being the first units of the blocks. `scratch` is
    /// overwritten.
    pub fn set_in_turn(&mut self, units: Range<u32>, starts: &[Ppn], slots: u32, scratch: &mut Vec<u32>) {
        let entries = &mut self.entries[units.start as usize..units.end as usize];
        let entry = |start: &Ppn| Ppn(start.0 + Self::BIAS);
        access::enter_in_turn(entries, &starts.iter().map(entry), slots, scratch);
        self.entries.touched(units.len() as u32);
    }

    /// The same of all units below `end` that have no entry, where `filled` says where they are: nothing is entered.
    pub fn set_as_filled(&mut self, end: u32, filled: &Arc<Filled>) {
        debug_assert!(!PLAIN, "an entry of 0 is a physical unit");
        self.filled.get_or_insert_with(|| Arc::clone(filled));
        self.filled_units = end;
    }

    /// Ask the processor for the entry of a unit.
    #[inline]
    pub fn prefetch(&self, lpn: Lpn) {
        table::prefetch(&self.entries, lpn.index());
    }

    /// How many entries it has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// The units that are somewhere, and where, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (Lpn, Ppn)> {
        let lpns = (0..self.entries.len() as u32).map(Lpn);
        lpns.filter_map(|lpn| self.get(lpn).map(|ppn| (lpn, ppn)))
    }

    /// The entries, for a mapping cache.
    ///
    /// # Panics
    /// When they are not plain.
    #[inline(always)]
    pub fn plain(&self) -> &[u32] {
        assert!(PLAIN, "only plain entries are physical units");
        &self.entries
    }

    /// Write it to a tape, or read it from there, for a drive of this shape.
    ///
    /// # Errors
    /// When the tape fails, or has what cannot be.
    pub fn tape(&mut self, geometry: &Geometry, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { entries, filled, filled_units } = self;
        Filled::tape(filled, geometry, tape)?;
        filled_units.tape(tape)?;
        tape.table(entries)
    }

    /// Bytes of the entries.
    pub fn table_bytes(&self) -> u64 {
        self.entries.len() as u64 * 4
    }
}
