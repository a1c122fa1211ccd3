//! Requests to page accesses: the host layer cuts at the boundaries of NAND pages.

use crate::access::{Access, Group};
use crate::cause::Cause;
use crate::geometry::{Geometry, Lpn};
use crate::host::request::Request;

/// Cuts requests for one drive. Sizes are powers of two, so cutting is shifting.
#[derive(Debug, Clone, Copy)]
pub struct Splitter {
    sectors: u64,
    unit_shift: u32,
    page_sectors: u32,
}

impl Splitter {
    /// For drives of shape `geometry`.
    pub fn new(geometry: &Geometry) -> Self {
        Self {
            sectors: u64::from(geometry.logical_units) * u64::from(geometry.sectors_per_unit),
            unit_shift: geometry.sectors_per_unit.trailing_zeros(),
            page_sectors: geometry.sectors_per_unit * geometry.slots_per_page,
        }
    }

    /// Sectors that the host sees.
    pub const fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The first mapping unit of a sector that the host sees.
    #[inline]
    pub const fn unit(&self, lba: u64) -> Lpn {
        Lpn((lba >> self.unit_shift) as u32)
    }

    /// Whether `request` is a single access, as most are where pages are large.
    #[inline(always)]
    pub fn is_single(&self, request: &Request) -> bool {
        let Request { lba, sectors, .. } = *request;
        let within = lba as u32 & (self.page_sectors - 1);
        sectors != 0 && sectors <= self.page_sectors - within && lba + u64::from(sectors) <= self.sectors
    }

    /// The access of a `request` that is a single one, group number `group`: the only item of [`split`](Self::split).
    ///
    /// Built in its place and not returned in an option. A copy would be read whole soon after it was written part by
    /// part, and would wait for every cache miss ahead of it.
    #[inline(always)]
    pub fn single(&self, request: &Request, group: u32) -> Access<'static> {
        let Request { lba, sectors, stream, fua, .. } = *request;
        let unit_mask = (1 << self.unit_shift) - 1;
        let first_sector = lba as u32 & unit_mask;
        let units = (first_sector + sectors + unit_mask) >> self.unit_shift;
        Access {
            lpn: self.unit(lba),
            units,
            first_sector,
            sectors,
            rest: 0,
            group: Group { id: group, units },
            stream,
            cause: Cause::Host,
            fua,
            parts: &[],
            versions: &[],
        }
    }

    /// The accesses of `request`, group number `group`, in ascending order, each with its first sector. A request that reaches the end of
    /// the drive goes on at its start; the host has dealt with it if that is not wanted.
    #[inline(always)]
    pub fn split(&self, request: &Request, group: u32) -> Pages {
        let unit_mask = (1 << self.unit_shift) - 1;
        let units = (request.lba as u32 & unit_mask) + request.sectors;
        Pages {
            splitter: *self,
            lba: request.lba,
            left: request.sectors,
            stream: request.stream,
            fua: request.fua,
            group: Group { id: group, units: units.div_ceil(1 << self.unit_shift) },
        }
    }
}

/// Iterator over the accesses of a request.
#[derive(Debug)]
pub struct Pages {
    splitter: Splitter,
    lba: u64,
    left: u32,
    stream: u16,
    fua: bool,
    group: Group,
}

impl Iterator for Pages {
    type Item = (u64, Access<'static>);

    #[inline]
    fn next(&mut self) -> Option<(u64, Access<'static>)> {
        if self.left == 0 {
            return None;
        }
        let Splitter { sectors: end, unit_shift, page_sectors } = self.splitter;
        let mut sectors = self.left.min(page_sectors - (self.lba as u32 & (page_sectors - 1)));
        if self.lba + u64::from(sectors) > end {
            if self.lba == end {
                self.lba = 0;
            }
            let to_boundary = u64::from(page_sectors - (self.lba as u32 & (page_sectors - 1)));
            sectors = self.left.min(to_boundary.min(end - self.lba) as u32);
        }
        let unit_mask = (1 << unit_shift) - 1;
        let first_sector = self.lba as u32 & unit_mask;
        let access = Access {
            lpn: self.splitter.unit(self.lba),
            units: (first_sector + sectors + unit_mask) >> unit_shift,
            first_sector,
            sectors,
            stream: self.stream,
            rest: (self.left - sectors).div_ceil(1 << unit_shift),
            group: self.group,
            cause: Cause::Host,
            fua: self.fua,
            parts: &[],
            versions: &[],
        };
        let at = self.lba;
        self.lba += u64::from(sectors);
        self.left -= sectors;
        Some((at, access))
    }
}
