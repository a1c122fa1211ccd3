//! Requests that wait at the host for a place in the drive, and which of them is next (`host.scheduler`).

use std::collections::{BTreeSet, VecDeque};

use crate::config::Scheduler;

/// Requests that wait at the host, by slot.
#[derive(Debug, Clone)]
pub(super) enum Waiting {
    /// First come first served.
    Fifo(VecDeque<u32>),
    /// By address, upwards and round.
    Look(Look),
}

/// Those that wait, in the order of their first sectors, and of their numbers where these are equal.
#[derive(Debug, Clone, Default)]
pub(super) struct Look {
    lines: BTreeSet<(u64, u64, u32)>,
    /// The first sector of the request that was handed over last.
    last: u64,
}

impl Waiting {
    pub(super) fn new(scheduler: Scheduler) -> Self {
        match scheduler {
            Scheduler::Fifo => Self::Fifo(VecDeque::new()),
            Scheduler::CLook => Self::Look(Look::default()),
        }
    }

    /// The request in slot `at`, the `index`-th of all, waits from now on.
    pub(super) fn push(&mut self, at: u32, lba: u64, index: u64) {
        match self {
            Self::Fifo(line) => line.push_back(at),
            Self::Look(look) => drop(look.lines.insert((lba, index, at))),
        }
    }

    /// Who is handed over next.
    pub(super) fn pop(&mut self) -> Option<u32> {
        match self {
            Self::Fifo(line) => line.pop_front(),
            Self::Look(Look { lines, last }) => {
                let next = *lines.range((*last, 0, 0)..).next().or_else(|| lines.first())?;
                lines.remove(&next);
                Some(next.2)
            }
        }
    }

    /// A request that begins at `lba` is handed over, whether or not it has waited.
    #[inline(always)]
    pub(super) fn passes(&mut self, lba: u64) {
        if let Self::Look(look) = self {
            look.last = lba;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_go_up_and_round() {
        let addresses = [40, 90, 50, 70, 50, 10];
        let mut waiting = Waiting::new(Scheduler::CLook);
        waiting.passes(50);
        for (index, lba) in (0..).zip(addresses) {
            waiting.push(index as u32, lba, index);
        }
        let mut order = Vec::new();
        while let Some(at) = waiting.pop() {
            waiting.passes(addresses[at as usize]);
            order.push(at);
        }
        // Equal addresses in the order in which they came.
        assert_eq!(order, [2, 4, 3, 1, 5, 0]);
    }
}
