//! Runs of entries by the first of them, in chains: most chains have one run or none.
//!
//! Runs have numbers. Whoever keeps them says with which logical unit each begins: `low_of`.

use crate::table;

/// See the module.
#[derive(Debug, Clone)]
pub(super) struct Places {
    /// The first run of each chain plus 1, or 0. A power of two of them, as many as runs at least.
    first: Vec<u32>,
    /// For each run the next one of its chain plus 1, or 0.
    next: Vec<u32>,
    len: usize,
}

impl Places {
    /// None yet, and room for `runs` of them.
    pub(super) fn new(runs: u64) -> Self {
        let chains = (2 * runs.max(8)).next_power_of_two() as usize;
        Self { first: vec![0; chains], next: Vec::new(), len: 0 }
    }

    #[inline]
    fn home(&self, low: u32) -> usize {
        // The high bits of a product depend on all bits of its factor.
        ((u64::from(low.wrapping_mul(0x9e37_79b1)) * self.first.len() as u64) >> 32) as usize
    }

    /// The run that begins with `low`, which is there.
    #[inline]
    pub(super) fn find(&self, low: u32, low_of: impl Fn(u32) -> u32) -> u32 {
        let mut run = self.first[self.home(low)] - 1;
        while low_of(run) != low {
            run = self.next[run as usize] - 1;
        }
        run
    }

    /// Enter `run`, which is not there.
    #[inline]
    pub(super) fn enter(&mut self, run: u32, low_of: impl Fn(u32) -> u32) {
        self.len += 1;
        if self.next.len() <= run as usize {
            self.next.resize(run as usize + 1, 0);
        }
        if self.len > self.first.len() {
            self.grow(&low_of);
        }
        self.put(run, low_of(run));
    }

    #[inline]
    fn put(&mut self, run: u32, low: u32) {
        let home = self.home(low);
        self.next[run as usize] = std::mem::replace(&mut self.first[home], run + 1);
    }

    #[cold]
    fn grow(&mut self, low_of: &impl Fn(u32) -> u32) {
        let twice = vec![0; self.first.len() * 2];
        for mut at in std::mem::replace(&mut self.first, twice) {
            while at != 0 {
                let next = self.next[at as usize - 1];
                self.put(at - 1, low_of(at - 1));
                at = next;
            }
        }
    }

    /// Take out `run`, which begins with `low`.
    #[inline]
    pub(super) fn leave(&mut self, run: u32, low: u32) {
        self.len -= 1;
        let next = self.next[run as usize];
        let home = self.home(low);
        if self.first[home] == run + 1 {
            self.first[home] = next;
            return;
        }
        let mut before = self.first[home] - 1;
        while self.next[before as usize] != run + 1 {
            before = self.next[before as usize] - 1;
        }
        self.next[before as usize] = next;
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
        (self.first.capacity() + self.next.capacity()) as u64 * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// Against a plain list.
    #[test]
    fn runs_are_found_by_their_first_entry() {
        let mut rng = Rng::new(4, "places");
        let mut places = Places::new(1);
        let low_of = |run: u32| run * 7;
        let mut inside: Vec<u32> = Vec::new();
        for run in 0..3000 {
            places.enter(run, low_of);
            inside.push(run);
            if rng.below(4) > 0 && run > 20 {
                let at = rng.below(inside.len() as u64) as usize;
                let run = inside.swap_remove(at);
                places.leave(run, low_of(run));
            }
            assert!(inside.iter().all(|run| places.find(low_of(*run), low_of) == *run));
        }
        assert_eq!(places.len(), inside.len());
    }
}
