//! Where accesses lie in regions of 4 MiB, what one translation page maps.
//!
//! A jump has a place: how many other regions were touched since its region was, and where in the region it begins. It
//! begins close to the last request there, or at a distance from where the region was entered first. Fitting counts
//! places, and generating draws them.

use std::ops::Range;

use crate::fitted_model::REGION_PAGES;
use ftlab_core::rng::Rng;
use ftlab_stats::access_order::AccessOrder;
use ftlab_stats::pages::{PageMap, scatter};

pub(crate) const RANKS: usize = 32;
const STEPS: usize = 32;
/// Groups of jumps: operation, and whether the first page was known.
const GROUPS: usize = 4;
pub(crate) const GROUP_RANKS: usize = GROUPS * RANKS;
/// Group, rank and step.
pub(crate) const PLACES: usize = GROUP_RANKS * STEPS;
/// Instead of a rank: nothing had touched the region. The step then is its begin in parts of the region.
pub(crate) const OPENED: usize = RANKS - 1;
const PART_PAGES: u64 = REGION_PAGES / STEPS as u64;
/// Steps from the last request, of less than 16 pages, by octaves: 4 downwards, where it was, 4 upwards.
const NEAR: usize = 4;
/// Behind them, steps from where the region was entered first, by octaves: 10 downwards, there, 10 upwards.
const FAR: usize = 2 * NEAR + 1 + FAR_OCTAVES;
const FAR_OCTAVES: usize = 10;
const WORDS: usize = REGION_PAGES as usize / 64;
const SLOTS: usize = 1 << 10;

/// Whole octaves: 0, 1, 2 to 3, 4 to 7, and so on.
fn octave_of(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()) as usize
}

/// The numbers of an octave.
fn octave(bin: usize) -> Range<u64> {
    if bin == 0 { 0..1 } else { 1 << (bin - 1)..1 << bin }
}

/// Where a jump goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) rank: usize,
    pub(crate) step: usize,
}

impl Place {
    /// Its rank among those of all groups.
    pub(crate) fn group_rank(self, write: bool, known: bool) -> usize {
        group_of(write, known) * RANKS + self.rank
    }

    /// Its number among all places of all groups.
    pub(crate) fn number(self, write: bool, known: bool) -> usize {
        self.group_rank(write, known) * STEPS + self.step
    }

    /// Pages of a region that is opened, at which a request may begin.
    pub(crate) fn opening(self) -> Range<u64> {
        let begin = self.step as u64 * PART_PAGES;
        begin..begin + PART_PAGES
    }

    /// How alike two places are, from 0 to 1.
    pub(crate) fn likeness(self, other: Self) -> f64 {
        let ranks = 1.0 - self.rank.abs_diff(other.rank).min(4) as f64 / 4.0;
        let steps = 1.0 - self.step.abs_diff(other.step).min(2) as f64 / 2.0;
        ranks * 0.5 + steps * 0.5
    }
}

/// Whether a row has a rank, and counts of steps that there can be.
pub(crate) fn is_row(row: &[u64]) -> bool {
    let Some((rank, counts)) = row.split_first() else { return false };
    let steps = if *rank as usize % RANKS == OPENED { STEPS } else { FAR + FAR_OCTAVES + 1 };
    *rank < GROUP_RANKS as u64 && counts.len() <= steps
}

/// Rows of counts by place: a rank of a group, then as many counts of steps as are needed.
pub(crate) fn rows(places: &[u64]) -> Vec<Vec<u64>> {
    let row = |(rank, counts): (usize, &[u64])| {
        let last = counts.iter().rposition(|count| *count > 0)?;
        Some([&[rank as u64], &counts[..=last]].concat())
    };
    places.chunks(STEPS).enumerate().filter_map(row).collect()
}

/// The number of a group.
pub(crate) fn group_of(write: bool, known: bool) -> usize {
    2 * usize::from(write) + usize::from(known)
}

/// A set of pages of a region.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pages([u64; WORDS]);

impl Pages {
    pub(crate) fn has(&self, page: u64) -> bool {
        self.0[page as usize / 64] >> (page % 64) & 1 == 1
    }

    /// Words, and the bits in them of the pages `first..=last`.
    fn masks(first: u64, last: u64) -> impl Iterator<Item = (usize, u64)> {
        (first / 64..=last / 64).map(move |word| {
            let (from, to) = (first.max(word * 64) % 64, last.min(word * 64 + 63) % 64);
            (word as usize, (u64::MAX << from) & (u64::MAX >> (63 - to)))
        })
    }

    /// Add the pages `first..=last`, or take them out.
    fn set(&mut self, first: u64, last: u64, value: bool) {
        for (word, mask) in Self::masks(first, last) {
            self.0[word] = if value { self.0[word] | mask } else { self.0[word] & !mask };
        }
    }

    fn count(&self, first: u64, last: u64) -> u64 {
        Self::masks(first, last).map(|(word, mask)| u64::from((self.0[word] & mask).count_ones())).sum()
    }

    /// The first page from `from` on that is one, or is none, as `wanted`; the end of the region where there is no such.
    pub(crate) fn next(&self, from: u64, wanted: bool) -> u64 {
        let mut page = from;
        while page < REGION_PAGES {
            let word = self.0[page as usize / 64] ^ if wanted { 0 } else { u64::MAX };
            let word = word >> (page % 64);
            if word != 0 {
                return page + u64::from(word.trailing_zeros());
            }
            page = (page / 64 + 1) * 64;
        }
        REGION_PAGES
    }

    /// The page behind the last one before `to` that is none.
    pub(crate) fn before(&self, to: u64) -> u64 {
        let mut page = to;
        while page > 0 {
            let (word, last) = ((page as usize - 1) / 64, (page - 1) % 64);
            let others = !self.0[word] << (63 - last);
            if others != 0 {
                return page - u64::from(others.leading_zeros());
            }
            page -= last + 1;
        }
        0
    }

    /// Those that are none of `others`.
    pub(crate) fn without(&self, others: &Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !others.0[word]))
    }

    /// The place nearest to `target` where `count` pages are none of these.
    pub(crate) fn gap(&self, target: u64, count: u64) -> Option<u64> {
        let mut best: Option<u64> = None;
        let mut begin = self.next(0, false);
        while begin < REGION_PAGES {
            let end = self.next(begin, true);
            if end - begin >= count {
                let start = target.clamp(begin, end - count);
                if best.is_none_or(|best| start.abs_diff(target) < best.abs_diff(target)) {
                    best = Some(start);
                }
                if begin > target {
                    break;
                }
            }
            begin = self.next(end, false);
        }
        best
    }
}

/// A region that was touched.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    /// Its first page.
    pub(crate) begin: u64,
    slot: u32,
    /// Where it was entered first.
    origin: u64,
    /// What the last request touched of it.
    first: u64,
    last: u64,
    /// Pages that were touched, and those of which the newest data were written and not trimmed.
    pub(crate) known: Pages,
    pub(crate) live: Pages,
}

impl Region {
    fn step_to(&self, first: u64, last: u64) -> usize {
        let near = if first > self.last {
            (NEAR + octave_of(first - self.last), octave_of(first - self.last))
        } else {
            let down = octave_of(self.first.saturating_sub(last));
            (NEAR.saturating_sub(down), down)
        };
        if near.1 <= NEAR {
            near.0
        } else if first >= self.origin {
            FAR + octave_of(first - self.origin)
        } else {
            FAR - octave_of(self.origin - first)
        }
    }

    /// The last page of the last request here.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// Where a request of `pages` pages is to begin, if that is inside.
    fn target(&self, step: usize, pages: u64, rng: &mut Rng) -> Option<u64> {
        let last = REGION_PAGES.checked_sub(pages)?;
        let (middle, from) = if step <= 2 * NEAR { (NEAR, self.last) } else { (FAR, self.origin) };
        let among = octave(step.abs_diff(middle));
        let range = if step == NEAR {
            // It began where the last one did, or touched the same pages.
            self.first..self.first + 1
        } else if step >= middle {
            from + among.start..from + among.end
        } else {
            // Near ones end so far below the first page of the last request.
            let from = if middle == NEAR { (self.first + 1).checked_sub(pages)? } else { from };
            (from + 1).saturating_sub(among.end)..(from + 1).checked_sub(among.start)?
        };
        let end = range.end.min(last + 1);
        (range.start < end).then(|| range.start + rng.below_unbiased(end - range.start))
    }
}

/// Jumps that are still to come, by their places.
#[derive(Debug)]
pub(crate) struct Places {
    /// By group and rank, in this phase; what a phase leaves is carried into the next.
    pub(crate) ranks: Vec<i64>,
    /// By group, rank and step, and how many there are in all.
    steps: Vec<i64>,
    all: Vec<i64>,
}

impl Places {
    pub(crate) fn new(rows: &[Vec<u64>]) -> Self {
        let mut all = vec![0; PLACES];
        for row in rows {
            for (step, count) in row[1..].iter().enumerate() {
                all[row[0] as usize * STEPS + step] += count.cast_signed();
            }
        }
        Self { ranks: vec![0; GROUP_RANKS], steps: all.clone(), all }
    }

    /// Count a jump.
    pub(crate) fn take(&mut self, place: Place, write: bool, known: bool) {
        self.ranks[place.group_rank(write, known)] -= 1;
        self.steps[place.number(write, known)] -= 1;
    }

    /// Whether there are to be more jumps of this rank and to this place.
    pub(crate) fn wants(&self, place: Place, write: bool, known: bool) -> bool {
        self.ranks[place.group_rank(write, known)] > 0 && self.steps[place.number(write, known)] > 0
    }

    /// Draw a place by the counts that are left, where `regions` regions were touched.
    pub(crate) fn draw(&self, regions: u64, write: bool, known: bool, rng: &mut Rng) -> Option<Place> {
        let first = group_of(write, known) * RANKS;
        let ranks = regions.checked_sub(1).map_or(0, |most| octave_of(most) + 1).min(OPENED);
        let rank = draw((0..ranks).chain([OPENED]), |rank| self.ranks[first + rank], rng)?;
        let first = (first + rank) * STEPS;
        let step = draw(0..STEPS, |step| self.steps[first + step], rng);
        // Where all have come, as if anew.
        let step = step.or_else(|| draw(0..STEPS, |step| self.all[first + step], rng))?;
        Some(Place { rank, step })
    }
}

/// Draw one of some numbers by counts.
fn draw(
    among: impl Iterator<Item = usize> + Clone,
    count: impl Fn(usize) -> i64,
    rng: &mut Rng,
) -> Option<usize> {
    let total: i64 = among.clone().map(|number| count(number).max(0)).sum();
    if total <= 0 {
        return None;
    }
    let mut place = rng.below_unbiased(total.cast_unsigned()).cast_signed();
    among.into_iter().find(|number| {
        place -= count(*number).max(0);
        place < 0
    })
}

/// Regions in the order of their last accesses.
#[derive(Debug)]
pub(crate) struct Regions {
    index: PageMap,
    list: Vec<Region>,
    line: AccessOrder,
    at_slot: Vec<u32>,
}

impl Default for Regions {
    fn default() -> Self {
        let (index, line) = (PageMap::default(), AccessOrder::new(SLOTS));
        Self { index, list: Vec::new(), line, at_slot: vec![0; SLOTS] }
    }
}

impl Regions {
    /// The region of a page.
    pub(crate) fn find(&self, page: u64) -> Option<&Region> {
        self.index.get(scatter(page / REGION_PAGES)).map(|index| &self.list[index as usize])
    }

    pub(crate) fn count(&self) -> u64 {
        self.list.len() as u64
    }

    /// Where a request of `pages` pages may begin in a region of the wanted rank: the region, and the page in it.
    pub(crate) fn target(&self, wanted: Place, pages: u64, rng: &mut Rng) -> Option<(&Region, u64)> {
        let region = self.of_rank(wanted.rank, rng)?;
        region.target(wanted.step, pages, rng).map(|page| (region, page))
    }

    /// A region of a rank.
    pub(crate) fn of_rank(&self, rank: usize, rng: &mut Rng) -> Option<&Region> {
        let ranks = octave(rank);
        let end = ranks.end.min(self.count());
        if rank == OPENED || ranks.start >= end {
            return None;
        }
        let rank = ranks.start + rng.below_unbiased(end - ranks.start);
        Some(&self.list[self.at_slot[self.line.select(rank as usize)] as usize])
    }

    /// Any region.
    pub(crate) fn any(&self, rng: &mut Rng) -> Option<&Region> {
        (!self.list.is_empty()).then(|| &self.list[rng.below_unbiased(self.count()) as usize])
    }

    /// The place of a request that touches `first..=last`.
    pub(crate) fn place(&self, first: u64, last: u64) -> Place {
        let begin = first / REGION_PAGES * REGION_PAGES;
        let (first, last) = (first - begin, (last - begin).min(REGION_PAGES - 1));
        match self.find(begin) {
            None => Place { rank: OPENED, step: (first / PART_PAGES) as usize },
            Some(region) => {
                let rank = self.line.after(region.slot as usize);
                Place { rank: octave_of(rank as u64).min(OPENED - 1), step: region.step_to(first, last) }
            }
        }
    }

    /// The regions among the pages `first..=last` that were touched, with the pages in them.
    fn among(&self, first: u64, last: u64) -> impl Iterator<Item = (usize, u64, u64)> {
        let numbers = first / REGION_PAGES..=last / REGION_PAGES;
        // Many regions are looked up one by one only where there are so many.
        let few = numbers.end() - numbers.start() < self.count();
        let found = few.then(|| numbers.clone().filter_map(|number| self.index.get(scatter(number))));
        let all = (!few).then(|| {
            let inside =
                move |index: &u32| numbers.contains(&(self.list[*index as usize].begin / REGION_PAGES));
            (0..self.list.len() as u32).filter(inside)
        });
        found.into_iter().flatten().chain(all.into_iter().flatten()).map(move |index| {
            let begin = self.list[index as usize].begin;
            (index as usize, first.max(begin) - begin, (last - begin).min(REGION_PAGES - 1))
        })
    }

    /// The pages among `first..=last` whose data lived, which they do no longer.
    pub(crate) fn trim(&mut self, first: u64, last: u64) -> Vec<u64> {
        let mut freed = Vec::new();
        for (index, first, last) in self.among(first, last).collect::<Vec<_>>() {
            let Region { begin, live, .. } = &mut self.list[index];
            freed.extend((first..=last).filter(|page| live.has(*page)).map(|page| *begin + page));
            live.set(first, last, false);
        }
        freed
    }

    /// How many pages among `first..=last` have data that live.
    pub(crate) fn live(&self, first: u64, last: u64) -> u64 {
        self.among(first, last).map(|(index, first, last)| self.list[index].live.count(first, last)).sum()
    }

    /// A request touches the pages `first..=last`.
    pub(crate) fn touch(&mut self, first: u64, last: u64, write: bool) {
        for number in first / REGION_PAGES..=last / REGION_PAGES {
            if self.line.is_full() {
                self.renumber();
            }
            let begin = number * REGION_PAGES;
            let (first, last) = (first.max(begin) - begin, (last - begin).min(REGION_PAGES - 1));
            let (entry, new) = self.index.entry(scatter(number));
            if new {
                self.index.set(entry, self.list.len() as u32);
                let (known, live) = (Pages::default(), Pages::default());
                self.list.push(Region { begin, slot: 0, origin: first, first, last, known, live });
            }
            let index = if new { self.list.len() as u32 - 1 } else { self.index.value(entry) };
            let region = &mut self.list[index as usize];
            if !new {
                self.line.remove(region.slot as usize);
            }
            region.slot = self.line.push() as u32;
            self.at_slot[region.slot as usize] = index;
            (region.first, region.last) = (first, last);
            region.known.set(first, last, true);
            if write {
                region.live.set(first, last, true);
            }
        }
    }

    fn renumber(&mut self) {
        let (line, moved) = self.line.renumbered(SLOTS);
        self.at_slot = vec![0; line.slots()];
        for (index, region) in self.list.iter_mut().enumerate() {
            region.slot = moved(region.slot as usize) as u32;
            self.at_slot[region.slot as usize] = index as u32;
        }
        self.line = line;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftlab_core::rng::Rng;
    use proptest::prelude::*;

    proptest! {
        #[test]
        #[ignore = "a long test: make test-long"]
        fn pages_agree_with_a_list(
            changes in prop::collection::vec((0..REGION_PAGES, 1..200u64, any::<bool>()), 0..30),
            asked in prop::collection::vec((0..REGION_PAGES, 1..REGION_PAGES), 1..20),
        ) {
            let (mut pages, mut list) = (Pages::default(), [false; REGION_PAGES as usize]);
            for (first, count, value) in changes {
                let last = (first + count - 1).min(REGION_PAGES - 1);
                pages.set(first, last, value);
                list[first as usize..=last as usize].fill(value);
            }
            let is = |page: u64| list[page as usize];
            for (page, count) in asked {
                prop_assert_eq!(pages.has(page), is(page));
                for wanted in [true, false] {
                    let next = (page..REGION_PAGES).find(|page| is(*page) == wanted);
                    prop_assert_eq!(pages.next(page, wanted), next.unwrap_or(REGION_PAGES));
                }
                prop_assert_eq!(pages.before(page), (0..page).rev().find(|page| !is(*page)).map_or(0, |page| page + 1));
                let last = (page + count - 1).min(REGION_PAGES - 1);
                prop_assert_eq!(pages.count(page, last), (page..=last).filter(|page| is(*page)).count() as u64);
                let fits = |start: &u64| (*start..start + count).all(|page| !is(page));
                let best = (0..=REGION_PAGES - count).filter(fits).map(|start| start.abs_diff(page)).min();
                let gap = pages.gap(page, count);
                prop_assert_eq!(gap.map(|start| start.abs_diff(page)), best);
                prop_assert!(gap.is_none_or(|start| fits(&start)));
            }
        }

        #[test]
        fn a_place_that_is_drawn_is_where_it_was_counted(
            (origin, first) in (0..REGION_PAGES, 0..REGION_PAGES),
            length in 1..64u64,
            pages in 1..64u64,
            seed in any::<u64>(),
        ) {
            let last = (first + length - 1).min(REGION_PAGES - 1);
            let (known, live) = (Pages::default(), Pages::default());
            let region = Region { begin: 0, slot: 0, origin, first, last, known, live };
            let mut rng = Rng::for_path(seed, &[1]);
            for step in 0..=FAR + FAR_OCTAVES {
                let Some(target) = region.target(step, pages, &mut rng) else { continue };
                prop_assert!(target + pages <= REGION_PAGES);
                let found = region.step_to(target, target + pages - 1);
                // What lies far from the first entry may be near the last request.
                prop_assert!(found == step || (step > 2 * NEAR && found <= 2 * NEAR), "{step}: {found} at {target}");
            }
        }

        #[test]
        fn regions_are_in_the_order_of_their_last_accesses(
            touches in prop::collection::vec((0..40u64, 0..3 * REGION_PAGES, 1..40u64, any::<bool>()), 1..900),
        ) {
            let mut regions = Regions::default();
            let mut order: Vec<u64> = Vec::new();
            for (region, within, pages, write) in touches {
                let first = region * REGION_PAGES + within;
                let last = first + pages - 1;
                let rank = order.iter().rev().position(|number| *number == first / REGION_PAGES);
                let expected = rank.map_or(OPENED, |rank| octave_of(rank as u64));
                prop_assert_eq!(regions.place(first, last).rank, expected);
                regions.touch(first, last, write);
                for number in first / REGION_PAGES..=last / REGION_PAGES {
                    order.retain(|other| *other != number);
                    order.push(number);
                }
                prop_assert_eq!(regions.count(), order.len() as u64);
                prop_assert!(!write || regions.live(first, last) == pages);
            }
            let all = (0, 64 * REGION_PAGES);
            let live = regions.live(all.0, all.1);
            prop_assert_eq!(regions.trim(all.0, all.1).len() as u64, live);
            prop_assert_eq!(regions.live(all.0, all.1), 0);
        }
    }
}
