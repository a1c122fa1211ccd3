//! How many different addresses requests begin at.

use ftlab_core::host::request::Request;

use super::has_address;
use super::pages::{GROUP_BITS, PageMap, SAMPLE_BIT, scatter};

/// Addresses that are remembered at most.
const MOST: usize = 1 << 16;

/// Addresses below this number, 512 TiB, have names of their own; others nearly so.
const NEAR_BITS: u32 = 40;
const FAR: u64 = 1 << (NEAR_BITS + u16::BITS);

/// The name of an address, below 2^57. Of 65,536 far ones two have the same with a probability of 3 in 10^8.
#[inline(always)]
fn name_of(volume: u16, lba: u64) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let volume = u64::from(volume);
    if lba >> NEAR_BITS == 0 {
        return volume << NEAR_BITS | lba;
    }
    let mixed = (lba ^ (volume + 1).wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    FAR | (mixed ^ mixed >> 29).wrapping_mul(FACTOR) >> (u64::BITS - NEAR_BITS - u16::BITS)
}

/// Counts distinct addresses: exactly up to 65,536, then by a sample of them (Wegman's adaptive sampling), to about
/// 0.5 %.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    seen: PageMap,
    shift: u32,
}

impl Distinct {
    /// Take requests.
    pub(super) fn add(&mut self, requests: &[Request]) {
        for request in requests.iter().filter(|request| has_address(request)) {
            self.add_one(request.stream, request.lba);
        }
    }

    #[inline(always)]
    fn add_one(&mut self, volume: u16, lba: u64) {
        // Each address is in the sample or not for itself.
        let key = scatter(name_of(volume, lba) << GROUP_BITS);
        if key >> SAMPLE_BIT & ((1 << self.shift) - 1) != 0 {
            return;
        }
        self.seen.entry(key);
        if self.seen.len() > MOST {
            self.shift += 1;
            let mut kept = PageMap::default();
            for (key, _) in
                self.seen.iter().filter(|(key, _)| key >> SAMPLE_BIT & ((1 << self.shift) - 1) == 0)
            {
                kept.entry(key);
            }
            self.seen = kept;
        }
    }

    pub(super) fn count(&self) -> u64 {
        (self.seen.len() as u64) << self.shift
    }

    pub(super) fn is_exact(&self) -> bool {
        self.shift == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_are_exact_and_many_are_near() {
        let mut distinct = Distinct::default();
        (0..60_000).for_each(|lba| distinct.add_one(0, lba % 50_000 * 64));
        assert_eq!((distinct.count(), distinct.is_exact()), (50_000, true));
        (0..3_000_000).for_each(|lba| distinct.add_one(1, lba));
        assert!(!distinct.is_exact());
        assert!((distinct.count() as f64 / 3_050_000.0 - 1.0).abs() < 0.01, "{}", distinct.count());
        // The same addresses on other volumes and far away are others.
        let mut distinct = Distinct::default();
        for (volume, far) in [(0, 0), (1, 0), (77, 0), (0, 1 << 40), (3, 1 << 53), (0, 1 << 63), (1, 1 << 63)]
        {
            (0..9000).for_each(|lba| distinct.add_one(volume, far + lba));
            (0..9000).for_each(|lba| distinct.add_one(volume, far + lba));
        }
        assert_eq!((distinct.count(), distinct.is_exact()), (63_000, true));
    }
}
