//! What travels through the seam between the parts of a drive: accesses.

use std::ops::Range;

use crate::cause::Cause;
use crate::geometry::{Lpn, Ppn};

/// What is written together: all of it survives a power cut or none, if the device says so. A host request, or one
/// victim of an eviction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Group {
    /// Its number. Groups never interleave in the order of accesses.
    pub id: u32,
    /// Mapping units that its accesses touch in all.
    pub units: u32,
}

/// Sectors of one mapping unit that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The unit.
    pub lpn: Lpn,
    /// First sector, within the unit.
    pub first_sector: u32,
    /// Sectors.
    pub sectors: u32,
}

impl Part {
    /// Its sectors, within the unit.
    #[inline]
    pub const fn range(self) -> Range<u32> {
        self.first_sector..self.first_sector + self.sectors
    }
}

/// An access to what one NAND page can hold, or to a part of it.
///
/// With no `parts` it is a span: `sectors` sectors that follow each other, from sector `first_sector` of unit `lpn` on.
/// A span lies within one aligned group of as many units as a page has slots. With `parts` it is gathered: any sectors
/// of any units, of at most as many units as a page has slots. The parts of a unit stand together, ascending, and do
/// not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access<'a> {
    /// First mapping unit touched.
    pub lpn: Lpn,
    /// Mapping units touched.
    pub units: u32,
    /// First sector touched, within the first unit.
    pub first_sector: u32,
    /// Sectors touched.
    pub sectors: u32,
    /// Mapping units of the same group that follow this access.
    pub rest: u32,
    /// What it belongs to.
    pub group: Group,
    /// Stream of the request.
    pub stream: u16,
    /// Why it is done.
    pub cause: Cause,
    /// Whether a write must be durable before it is acknowledged.
    pub fua: bool,
    /// What is touched of each unit; empty for a span.
    pub parts: &'a [Part],
    /// With verification, the version of each sector written, in the order of the access; otherwise empty.
    pub versions: &'a [u32],
}

impl<'a> Access<'a> {
    /// A span of the host, a group of its own, without versions.
    pub const fn span(lpn: Lpn, units: u32, first_sector: u32, sectors: u32) -> Access<'static> {
        Access {
            lpn,
            units,
            first_sector,
            sectors,
            rest: 0,
            group: Group { id: 0, units },
            stream: 0,
            cause: Cause::Host,
            fua: false,
            parts: &[],
            versions: &[],
        }
    }

    /// The access `context` to other sectors: to `parts`, which write `versions`.
    #[must_use]
    pub fn gathered(parts: &'a [Part], versions: &'a [u32], context: &Access<'_>) -> Self {
        let (lpn, first_sector) = parts.first().map_or((Lpn(0), 0), |part| (part.lpn, part.first_sector));
        Self {
            lpn,
            units: parts.chunk_by(|one, other| one.lpn == other.lpn).count() as u32,
            first_sector,
            sectors: parts.iter().map(|part| part.sectors).sum(),
            rest: context.rest,
            group: context.group,
            stream: context.stream,
            cause: context.cause,
            fua: context.fua,
            parts,
            versions,
        }
    }

    /// The same as a span, where the parts are sectors that follow each other within one aligned group of units; units
    /// have `sectors_per_unit`, and a group `slots` of them.
    #[must_use]
    pub fn spanning(self, sectors_per_unit: u32, slots: u32) -> Self {
        let follow = |pair: &[Part]| {
            let [one, other] = pair else { return true };
            let ends = one.first_sector + one.sectors == sectors_per_unit && other.first_sector == 0;
            ends && one.lpn.0 + 1 == other.lpn.0 && other.lpn.0 / slots == one.lpn.0 / slots
        };
        if self.parts.windows(2).all(follow) { Self { parts: &[], ..self } } else { self }
    }

    /// Its `index`-th unit.
    #[inline]
    pub fn lpn_at(&self, index: u32) -> Lpn {
        if self.parts.is_empty() { Lpn(self.lpn.0 + index) } else { self.parts_of(index).1[0].lpn }
    }

    /// Sectors touched before the `index`-th unit, and the parts of that one.
    fn parts_of(&self, index: u32) -> (u32, &'a [Part]) {
        let mut before = 0;
        for (at, parts) in (0..).zip(self.parts.chunk_by(|one, other| one.lpn == other.lpn)) {
            if at == index {
                return (before, parts);
            }
            before += parts.iter().map(|part| part.sectors).sum::<u32>();
        }
        unreachable!("an access has as many units as it says")
    }

    /// What it touches of its `index`-th unit. A unit has `sectors_per_unit`.
    #[inline(always)]
    pub fn unit(&self, index: u32, sectors_per_unit: u32) -> UnitAccess<'a> {
        if !self.parts.is_empty() {
            return self.unit_of_parts(index);
        }
        let start = if index == 0 { self.first_sector } else { 0 };
        let end = (self.first_sector + self.sectors - index * sectors_per_unit).min(sectors_per_unit);
        let sectors = end - start;
        let versions = if self.versions.is_empty() {
            self.versions
        } else {
            let offset = if index == 0 { 0 } else { index * sectors_per_unit - self.first_sector };
            &self.versions[offset as usize..(offset + sectors) as usize]
        };
        UnitAccess { sectors, span: start..end, parts: self.parts, versions }
    }

    #[inline(never)]
    fn unit_of_parts(&self, index: u32) -> UnitAccess<'a> {
        let (offset, parts) = self.parts_of(index);
        let sectors = parts.iter().map(|part| part.sectors).sum();
        let versions = if self.versions.is_empty() {
            self.versions
        } else {
            &self.versions[offset as usize..(offset + sectors) as usize]
        };
        UnitAccess { sectors, span: 0..sectors, parts, versions }
    }

    /// Sectors that it touches of its `index`-th unit.
    #[inline]
    pub fn sectors_of(&self, index: u32, sectors_per_unit: u32) -> u32 {
        self.unit(index, sectors_per_unit).sectors
    }
}

/// What an access touches of one unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitAccess<'a> {
    /// How many sectors.
    pub sectors: u32,
    /// Which, where there are no parts.
    span: Range<u32>,
    parts: &'a [Part],
    /// With verification, the version of each sector written; otherwise empty.
    pub versions: &'a [u32],
}

impl UnitAccess<'_> {
    /// The sectors as a set, the first of the unit in its lowest bit. Units have at most 64.
    #[inline(always)]
    pub fn mask(&self) -> u64 {
        if self.parts.is_empty() {
            return bits(&self.span);
        }
        self.parts.iter().fold(0, |mask, part| mask | bits(&part.range()))
    }

    /// The sectors, within the unit, in the order of the access.
    #[inline]
    pub fn ranges(&self) -> impl Iterator<Item = Range<u32>> {
        let span = self.parts.is_empty().then(|| self.span.clone());
        span.into_iter().chain(self.parts.iter().map(|part| part.range()))
    }
}

/// The sectors of `range`, all below 64, as a set.
#[inline]
pub const fn bits(range: &Range<u32>) -> u64 {
    if range.end <= range.start { 0 } else { (u64::MAX >> (64 - (range.end - range.start))) << range.start }
}

/// Whole pages in the order of a block: the n-th holds the unit `first + n * stride`, and those after it in its other slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageRun {
    /// The first unit of the first page.
    pub first: Lpn,
    /// From the first unit of a page to that of the next.
    pub stride: u32,
    /// How many pages.
    pub pages: u32,
}

impl PageRun {
    /// The first unit of each page.
    pub fn firsts(self) -> impl Iterator<Item = Lpn> {
        (0..self.pages).map(move |page| Lpn(self.first.0 + page * self.stride))
    }

    /// All units of pages of `slots` units, with the places that they have from `start` on.
    pub fn placed(self, slots: u32, start: Ppn) -> impl Iterator<Item = (Lpn, Ppn)> {
        let pages = self.firsts().zip((start.0..).step_by(slots as usize));
        pages.flat_map(move |(lpn, ppn)| (0..slots).map(move |slot| (Lpn(lpn.0 + slot), Ppn(ppn + slot))))
    }
}

/// Enter the places of units into their entries of a table: pages of `slots` units fill blocks in turn, whose first units
/// are `starts`. `places` is overwritten; a caller with many such fills keeps its memory.
pub fn enter_in_turn(
    entries: &mut [u32],
    starts: &(impl Iterator<Item = Ppn> + Clone),
    slots: u32,
    places: &mut Vec<u32>,
) {
    /// Rows are entered several at once where they are short: the processor works on many entries then.
    const AT_ONCE: usize = 256;
    places.clear();
    let mut beyond = 0;
    while beyond == 0 || places.len() < AT_ONCE {
        places.extend(starts.clone().flat_map(|start| start.0 + beyond..start.0 + beyond + slots));
        beyond += slots;
        if places.is_empty() {
            return;
        }
    }
    let mut passed = 0;
    for rows in entries.chunks_mut(places.len()) {
        for (entry, place) in rows.iter_mut().zip(&*places) {
            *entry = place.wrapping_add(passed);
        }
        passed += beyond;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_and_its_parts_are_the_same_access() {
        let versions: Vec<u32> = (1..=13).collect();
        let span = Access { versions: &versions, ..Access::span(Lpn(7), 3, 5, 13) };
        let part = |lpn, first_sector, sectors| Part { lpn: Lpn(lpn), first_sector, sectors };
        let parts = [part(7, 5, 3), part(8, 0, 4), part(8, 4, 4), part(9, 0, 2)];
        let gathered = Access::gathered(&parts, &versions, &span);
        assert_eq!((gathered.lpn, gathered.units, gathered.sectors), (Lpn(7), 3, 13));
        for index in 0..3 {
            let (one, other) = (span.unit(index, 8), gathered.unit(index, 8));
            assert_eq!(span.lpn_at(index), gathered.lpn_at(index));
            assert_eq!((one.sectors, one.versions), (other.sectors, other.versions));
            let sectors = |unit: &UnitAccess<'_>| unit.ranges().flatten().collect::<Vec<_>>();
            assert_eq!(sectors(&one), sectors(&other));
        }
        assert_eq!(gathered.unit(1, 8).versions, [4, 5, 6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn a_table_gets_the_places_of_all_units() {
        for (slots, blocks, units) in
            [(1, 1, 5), (1, 7, 16), (4, 1, 12), (4, 3, 44), (2, 2, 0), (1, 3, 1000), (4, 8, 1300)]
        {
            let starts: Vec<Ppn> = (0..blocks).map(|block| Ppn(1000 * block + 100)).collect();
            let mut entries = vec![0; units as usize];
            enter_in_turn(&mut entries, &starts.iter().copied(), slots, &mut vec![9; 3]);
            let mut expected = vec![0; units as usize];
            for block in 0..blocks {
                let pages = (units / slots).saturating_sub(block).div_ceil(blocks);
                let run = PageRun { first: Lpn(block * slots), stride: blocks * slots, pages };
                for (lpn, ppn) in run.placed(slots, starts[block as usize]) {
                    expected[lpn.index()] = ppn.0;
                }
            }
            assert_eq!(entries, expected);
        }
    }
}
