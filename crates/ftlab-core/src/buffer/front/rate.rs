//! How much leaves at a time.

use crate::buffer::keys::RateUnit;

/// How much an eviction takes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rate {
    /// So many of `unit`.
    pub(super) count: u32,
    pub(super) unit: RateUnit,
    /// Mapping units of a NAND page.
    pub(super) slots: u32,
}

impl Rate {
    /// Whether `victims`, with `frames` in all, are enough.
    pub(super) fn is_met(self, victims: u32, frames: u32) -> bool {
        match self.unit {
            RateUnit::Victims => victims >= self.count,
            RateUnit::Pages => victims > 0 && frames >= self.count.saturating_mul(self.slots),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_counts_victims_or_pages() {
        let victims = Rate { count: 8, unit: RateUnit::Victims, slots: 4 };
        assert!(!victims.is_met(7, 1000) && victims.is_met(8, 8));
        let pages = Rate { unit: RateUnit::Pages, ..victims };
        assert!(!pages.is_met(7, 31) && pages.is_met(1, 32));
    }
}
