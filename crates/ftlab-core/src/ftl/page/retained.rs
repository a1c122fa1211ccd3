//! Old versions that are kept until the request that has overwritten them is complete.

use super::capacity;
use crate::access::Access;
use crate::config::{Atomic, DeviceConfig};
use crate::geometry::{Lpn, Ppn};

/// The old versions of what the request under way has overwritten: live until its last page has been written.
#[derive(Debug, Clone, Default)]
pub(super) struct Retained {
    /// Whether requests survive as a whole.
    pub(super) is_on: bool,
    /// Most units that a request of several pages may write.
    pub(super) most: u64,
    /// Units, and where their old versions are; `None` for those that held nothing.
    pub(super) units: Vec<(Lpn, Option<Ppn>)>,
}

impl Retained {
    pub(super) fn new(config: &DeviceConfig) -> Self {
        let is_on = config.power.atomic == Atomic::Request;
        let most = if is_on { capacity::most_units_at_once(config) } else { 0 };
        Self { is_on, most, units: Vec::new() }
    }

    /// Whether there are none.
    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// Whether an access is not all of its request: what it overwrites stays live.
    #[inline(always)]
    pub(super) fn keeps(&self, access: &Access<'_>) -> bool {
        self.is_on && access.group.units > access.units
    }

    /// How many old versions are live.
    pub(super) fn live(&self) -> u64 {
        self.units.iter().filter(|(_, old)| old.is_some()).count() as u64
    }

    /// What was at `old` was copied, to `first` and the units that follow.
    pub(super) fn moved(&mut self, old: &[Option<Ppn>], first: Ppn) {
        for (new, old) in (first.0..).map(Ppn).zip(old) {
            if let Some(retained) = self.units.iter_mut().find(|(_, place)| *place == *old && old.is_some()) {
                retained.1 = Some(new);
            }
        }
    }
}
