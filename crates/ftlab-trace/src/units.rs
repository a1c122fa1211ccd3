//! Numbers that may be bytes where a format has sectors: a factor of 512 that nothing in a line shows.

use crate::text::{LineParser, requests_of};

/// Bytes of a sector, which addresses and sizes in bytes are multiples of.
const SECTOR: u64 = 512;
/// Addresses other than 0, or sizes, that are no chance. Of addresses in sectors that are aligned to 4 KiB, one in 64 is a
/// multiple of 512.
const ENOUGH: usize = 5;

/// What of a line is in sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InSectors {
    /// Address and size.
    Both,
    /// The address; the size is in bytes anyway.
    Address,
}

/// Whether all sizes or all addresses of `lines` are multiples of 512. Those of a drive in sectors never are, unless all
/// requests are whole multiples of 256 KiB, or lie on boundaries of 256 KiB.
pub(crate) fn look_like_bytes<P: LineParser>(lines: &[u8], parser: P, in_sectors: InSectors) -> bool {
    let mut requests = 0;
    let (mut addresses, mut sizes) = (Run::default(), Run::default());
    for request in requests_of(lines, parser).filter(|request| request.sectors > 0) {
        requests += 1;
        addresses.see(request.lba);
        sizes.see(u64::from(request.sectors));
    }
    let both = requests > 0 && addresses.multiples && sizes.multiples && addresses.beyond_zero > 0;
    match in_sectors {
        InSectors::Both => both || addresses.is_no_chance() || sizes.is_no_chance(),
        InSectors::Address => addresses.is_no_chance(),
    }
}

/// Numbers, as far as they are multiples.
struct Run {
    multiples: bool,
    beyond_zero: usize,
}

impl Default for Run {
    fn default() -> Self {
        Self { multiples: true, beyond_zero: 0 }
    }
}

impl Run {
    fn see(&mut self, number: u64) {
        self.multiples &= number.is_multiple_of(SECTOR);
        self.beyond_zero += usize::from(number > 0);
    }

    fn is_no_chance(&self) -> bool {
        self.multiples && self.beyond_zero >= ENOUGH
    }
}
