//! How many different addresses requests begin at.

use super::pages::{GROUP_BITS, PageMap, PageNames, scatter};

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
    #[inline(always)]
    pub(super) fn add(&mut self, volume: u16, lba: u64) {
        let mut key = 0;
        self.names.ranges(volume, lba, lba, |first, _| key = scatter(first));
        if key >> GROUP_BITS & ((1 << self.shift) - 1) != 0 {
            return;
        }
        self.seen.entry(key);
        if self.seen.len() > MOST {
            self.shift += 1;
            let mut kept = PageMap::default();
            for (key, _) in
                self.seen.iter().filter(|(key, _)| key >> GROUP_BITS & ((1 << self.shift) - 1) == 0)
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
        (0..60_000).for_each(|lba| distinct.add(0, lba % 50_000 * 64));
        assert_eq!((distinct.count(), distinct.is_exact()), (50_000, true));
        (0..3_000_000).for_each(|lba| distinct.add(1, lba));
        assert!(!distinct.is_exact());
        assert!((distinct.count() as f64 / 3_050_000.0 - 1.0).abs() < 0.015, "{}", distinct.count());
    }
}
