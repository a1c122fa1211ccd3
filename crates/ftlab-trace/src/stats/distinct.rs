//! How many different addresses requests begin at.

use ftlab_core::host::request::Request;

use super::has_address;
use super::pages::{PageMap, PageNames, SAMPLE_BIT, scatter};

/// Addresses that are remembered at most.
const MOST: usize = 1 << 16;

/// Counts distinct addresses: exactly up to 65,536, then by a sample of them (Wegman's adaptive sampling), to 1 %.
#[derive(Debug, Default)]
pub(super) struct Distinct {
    names: PageNames,
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
        let mut key = 0;
        self.names.ranges(volume, lba, lba, |first, _| key = scatter(first));
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
        assert!((distinct.count() as f64 / 3_050_000.0 - 1.0).abs() < 0.015, "{}", distinct.count());
    }
}
