//! Runs of entries by the first of them, in chains: most chains have one run or none.

use crate::table;

/// A run that may be in a chain.
pub(super) trait Chained {
    /// Its first entry, as a logical unit.
    fn low(&self) -> u32;

    /// The next run of its chain plus 1, or 0.
    fn next(&self) -> u32;

    fn set_next(&mut self, next: u32);
}

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// A run plus 1, or 0. A power of two of them, as many as runs at least.
    first: Vec<u32>,
    len: usize,
}

impl Places {
    pub(super) fn new(runs: u64) -> Self {
        Self { first: vec![0; (2 * runs.max(8)).next_power_of_two() as usize], len: 0 }
    }

    #[inline]
    fn home(&self, low: u32) -> usize {
        // The high bits of a product depend on all bits of its factor.
        ((u64::from(low.wrapping_mul(0x9e37_79b1)) * self.first.len() as u64) >> 32) as usize
    }

    /// The run that begins with `low`, which is there.
    #[inline]
    pub(super) fn find(&self, runs: &[impl Chained], low: u32) -> u32 {
        let mut run = self.first[self.home(low)] - 1;
        while runs[run as usize].low() != low {
            run = runs[run as usize].next() - 1;
        }
        run
    }

    #[inline]
    pub(super) fn enter(&mut self, runs: &mut [impl Chained], run: u32) {
        self.len += 1;
        if self.len > self.first.len() {
            self.grow(runs);
        }
        self.put(runs, run);
    }

    #[inline]
    fn put(&mut self, runs: &mut [impl Chained], run: u32) {
        let home = self.home(runs[run as usize].low());
        let next = std::mem::replace(&mut self.first[home], run + 1);
        runs[run as usize].set_next(next);
    }

    #[cold]
    fn grow(&mut self, runs: &mut [impl Chained]) {
        let twice = vec![0; self.first.len() * 2];
        for mut at in std::mem::replace(&mut self.first, twice) {
            while at != 0 {
                let next = runs[at as usize - 1].next();
                self.put(runs, at - 1);
                at = next;
            }
        }
    }

    #[inline]
    pub(super) fn leave(&mut self, runs: &mut [impl Chained], run: u32) {
        self.len -= 1;
        let next = runs[run as usize].next();
        let home = self.home(runs[run as usize].low());
        if self.first[home] == run + 1 {
            self.first[home] = next;
            return;
        }
        let mut before = self.first[home] - 1;
        while runs[before as usize].next() != run + 1 {
            before = runs[before as usize].next() - 1;
        }
        runs[before as usize].set_next(next);
    }

    /// A run that begins with `low` will come or go: ask the processor for its chain.
    #[inline]
    pub(super) fn prefetch(&self, low: u32) {
        table::prefetch(&self.first, self.home(low));
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn table_bytes(&self) -> u64 {
        self.first.capacity() as u64 * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    struct Node {
        low: u32,
        next: u32,
    }

    impl Chained for Node {
        fn low(&self) -> u32 {
            self.low
        }

        fn next(&self) -> u32 {
            self.next
        }

        fn set_next(&mut self, next: u32) {
            self.next = next;
        }
    }

    /// Places of runs that come and go, against a plain list.
    #[test]
    fn runs_are_found_by_their_first_entry() {
        let mut rng = Rng::new(4, "places");
        let (mut runs, mut places) = (Vec::new(), Places::new(1));
        let mut inside: Vec<u32> = Vec::new();
        for low in 0..3000_u32 {
            let node = runs.len() as u32;
            runs.push(Node { low: low * 7, next: 0 });
            places.enter(&mut runs, node);
            inside.push(node);
            if rng.below(4) > 0 && low > 20 {
                let at = rng.below(inside.len() as u64) as usize;
                let node = inside.swap_remove(at);
                places.leave(&mut runs, node);
            }
            assert!(inside.iter().all(|node| places.find(&runs, runs[*node as usize].low) == *node));
        }
        assert_eq!(places.len(), inside.len());
    }
}
