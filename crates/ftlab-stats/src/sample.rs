//! Which pages are looked at when there are too many for all (SHARDS: Waldspurger et al., FAST 2015).

use super::pages::SAMPLE_BIT;

/// A spatial sample: a group of pages is in it or not, by its scattered name, so that every access to it is seen. The
/// sample begins with all pages and is halved whenever it holds too many or costs too much.
#[derive(Debug)]
pub(super) struct Sample {
    /// One page in `2^shift`.
    shift: u32,
    most_pages: usize,
    /// So many pages stay in it if there are, whatever they cost.
    least_pages: usize,
    looks: u64,
    window: u64,
}

/// Requests between two looks at what the sample costs.
const WINDOW_REQUESTS: u64 = 1 << 20;

impl Sample {
    /// At most `most_pages` pages; `None` takes all. At least `least_pages`.
    pub(super) fn new(most_pages: Option<usize>, least_pages: usize) -> Self {
        Self { shift: 0, most_pages: most_pages.unwrap_or(usize::MAX), least_pages, looks: 0, window: 0 }
    }

    #[inline(always)]
    pub(super) fn has(&self, key: u64) -> bool {
        key & self.mask() == 0
    }

    /// The bits that are clear in the scattered names of sampled groups.
    #[inline(always)]
    pub(super) fn mask(&self) -> u64 {
        ((1 << self.shift) - 1) << SAMPLE_BIT
    }

    /// Pages that each sampled page stands for.
    #[inline(always)]
    pub(super) fn weight(&self) -> u64 {
        1 << self.shift
    }

    /// Count a look at a sampled page.
    #[inline(always)]
    pub(super) fn look(&mut self) {
        self.looks += 1;
    }

    /// Halve the sample if the `pages` in it are too many, or if it took more than a look for every second request since the
    /// last window of requests. True when it was halved: those that are out must be forgotten.
    #[inline(always)]
    pub(super) fn adapt(&mut self, pages: usize, requests: u64) -> bool {
        let mut halve = pages > self.most_pages;
        if requests >= self.window + WINDOW_REQUESTS {
            let costly = 2 * self.looks > requests - self.window && pages > self.least_pages;
            halve |= costly && self.most_pages < usize::MAX;
            (self.looks, self.window) = (0, requests);
        }
        self.shift += u32::from(halve);
        halve
    }
}
