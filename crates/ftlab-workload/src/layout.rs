//! Where things lie: files one after the other, and working sets scattered over a large address space.

use std::collections::VecDeque;

use crate::process::AddressRange;
use ftlab_core::rng::Rng;

/// A compact address space, cut into regions that lie apart from each other, in order, in a large one.
#[derive(Debug, Clone)]
pub(crate) struct Scatter {
    starts: Vec<u64>,
    region: u64,
}

impl Scatter {
    /// Regions of `region` sectors for `compact` sectors, somewhere in `area`; the first lies at its begin and the last
    /// at its end. `area` has room for them.
    pub(crate) fn new(compact: u64, region: u64, area: AddressRange, rng: &mut Rng) -> Self {
        let count = compact.div_ceil(region).max(1);
        let slots = (area.sectors / region).max(count);
        // Free slots go between the regions at random: some lie close together, as directories do.
        let mut gaps: Vec<u64> = (0..count - 1).map(|_| rng.below_unbiased(slots - count + 1)).collect();
        gaps.push(slots - count);
        gaps.sort_unstable();
        let mut starts = vec![area.start];
        starts.extend((1..count).map(|index| area.start + (gaps[index as usize] + index) * region));
        starts.truncate(count as usize);
        Self { starts, region }
    }

    /// Leave `spare` sectors, at most a region, free at the end of `area`, in which one more region has room. As few of
    /// the last ones as must be then lie a region further ahead.
    pub(crate) fn leave_behind(&mut self, spare: u64, area: AddressRange) {
        let mut end = area.end() - spare;
        for start in self.starts.iter_mut().rev() {
            if *start + self.region <= end {
                break;
            }
            *start -= self.region;
            end = *start;
        }
    }

    pub(crate) fn sectors(&self) -> u64 {
        self.starts.len() as u64 * self.region
    }

    /// Where `sectors` sectors from `at` lie; what would run over the end of a region is moved back into it.
    #[inline(always)]
    pub(crate) fn map(&self, at: u64, sectors: u64) -> u64 {
        let index = ((at / self.region) as usize).min(self.starts.len() - 1);
        let inside = (at - index as u64 * self.region).min(self.region.saturating_sub(sectors));
        self.starts[index] + inside
    }
}

/// Files that are written one after the other around an area; the oldest make room for new ones.
#[derive(Debug)]
pub(crate) struct NextFit {
    area: AddressRange,
    next: u64,
    files: VecDeque<AddressRange>,
    used: u64,
}

impl NextFit {
    pub(crate) fn new(area: AddressRange) -> Self {
        Self { area, next: area.start, files: VecDeque::with_capacity(1 << 12), used: 0 }
    }

    /// Room for a file of `sectors`, which must be less than the area has. Files that are in the way go to `deleted`.
    pub(crate) fn create(&mut self, sectors: u64, deleted: &mut Vec<AddressRange>) -> AddressRange {
        if self.next + sectors > self.area.end() {
            // What lies behind belongs to files that are older than all others.
            while self.files.front().is_some_and(|file| file.start >= self.next) {
                self.delete(deleted);
            }
            self.next = self.area.start;
        }
        let file = AddressRange { start: self.next, sectors };
        let in_the_way = |old: &AddressRange| old.start < file.end() && file.start < old.end();
        while self.files.front().is_some_and(in_the_way) {
            self.delete(deleted);
        }
        self.next = file.end();
        self.used += sectors;
        self.files.push_back(file);
        file
    }

    /// Delete the oldest file.
    pub(crate) fn delete(&mut self, deleted: &mut Vec<AddressRange>) {
        if let Some(file) = self.files.pop_front() {
            self.used -= file.sectors;
            deleted.push(file);
        }
    }

    /// Share of the area that files take.
    pub(crate) fn used_fraction(&self) -> f64 {
        self.used as f64 / self.area.sectors as f64
    }

    /// A file at random; none when there is none.
    pub(crate) fn any(&self, rng: &mut Rng) -> Option<AddressRange> {
        (!self.files.is_empty()).then(|| self.files[rng.below_unbiased(self.files.len() as u64) as usize])
    }

    pub(crate) fn count(&self) -> usize {
        self.files.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_keep_their_order_and_reach_both_ends() {
        let area = AddressRange { start: 100, sectors: 8000 };
        let scatter = Scatter::new(800, 80, area, &mut Rng::for_path(1, &[]));
        assert_eq!(scatter.sectors(), 800);
        let places: Vec<u64> = (0..800).map(|at| scatter.map(at, 1)).collect();
        assert!(places.is_sorted_by(|a, b| a < b));
        assert_eq!((places[0], places[799]), (100, 8099));
        assert_eq!(scatter.map(79, 8), 100 + 72);
        let whole = Scatter::new(8000, 80, area, &mut Rng::for_path(1, &[]));
        assert!((0..8000).all(|at| whole.map(at, 1) == 100 + at));
    }

    #[test]
    fn files_never_overlap_and_the_oldest_go_first() {
        let area = AddressRange { start: 1000, sectors: 5000 };
        let mut files = NextFit::new(area);
        let mut rng = Rng::for_path(2, &[]);
        let (mut live, mut deleted): (VecDeque<AddressRange>, Vec<AddressRange>) =
            (VecDeque::new(), Vec::new());
        for _ in 0..20_000 {
            let file = files.create(1 + rng.below_unbiased(900), &mut deleted);
            for gone in deleted.drain(..) {
                assert_eq!(live.pop_front(), Some(gone));
            }
            assert!(file.start >= area.start && file.end() <= area.end());
            assert!(live.iter().all(|other| other.end() <= file.start || file.end() <= other.start));
            live.push_back(file);
        }
        assert_eq!(files.count(), live.len());
        assert!(files.used_fraction() > 0.5);
    }
}
