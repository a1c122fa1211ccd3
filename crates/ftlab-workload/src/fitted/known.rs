//! Places of pages that were touched before: of several candidates, the one that keeps most of what the model says.

use crate::fitted_model::{
    DEAD, DISTANCE_BITS, LIVE, NEW, OP_CELLS, PAGE_SECTORS, UNWRITTEN, cell_of, class_of,
};
use crate::regions::Place;
use ftlab_stats::bins::{bin_of, bin_start};
use ftlab_stats::pages::scatter;

use super::{
    CANDIDATES, CHANCE_RUN, FEW_REGIONS, FULL_FIT, FittedGenerator, GOOD_FIT, LOCALITY, LOCALITY_FIT, LOOKS,
    LOW_LOCALITY, MORE_CANDIDATES, NEVER, OLDEST, PERFECT_FIT, POPULARITY, TouchedPage, UNDUE, UNWANTED_NEW,
    UNWANTED_REWRITE, UNWANTED_WRITE, VolumeState, WELL_CANDIDATES, rewritten_state,
};

impl FittedGenerator {
    /// A place among known pages whose distances, popularity and history are those that are still wanted.
    pub(super) fn known_place(&mut self, write: bool, sectors: u64, offset: u64) -> (usize, u64) {
        let live = self.line.live();
        // Bins that are wanted, each with how much is wanted up to it.
        let cells = self.cells[cell_of(write, UNWRITTEN, 0)..].iter().take(OP_CELLS).enumerate();
        let mut wanted = 0;
        self.wanted.clear();
        for (bin, left) in cells.filter(|(bin, left)| bin % 256 != NEW && **left > 0) {
            wanted += left;
            self.wanted.push((wanted, bin));
        }
        let aim = self.draw_place(write, true);
        let rewrites = write && self.writes_left[DEAD] > self.writes_left[LIVE];
        // Where nearly any mapping cache holds all regions, it hardly matters how they take turns.
        let few = self.regions.count() < FEW_REGIONS;
        let locality = if rewrites || few { LOW_LOCALITY } else { LOCALITY };
        let mut best: Option<(f64, u64, bool)> = None;
        let mut best_fits = false;
        let pages = (offset + sectors).div_ceil(PAGE_SECTORS);
        // A jump often begins a run: what the run will find counts as much as what the request finds.
        let ahead = (pages as f64 * self.run_requests[usize::from(write)]) as u64;
        for candidate in 0..MORE_CANDIDATES {
            let lies_well = best.is_some_and(|(score, ..)| score > 2.0 * FULL_FIT + 0.75 * LOCALITY);
            if best_fits && (candidate >= WELL_CANDIDATES || candidate >= CANDIDATES && lies_well) {
                break;
            }
            let mut rank = self.rng.below_unbiased(live as u64);
            let (mut state, mut wanted_bin) = (UNWRITTEN, 0);
            if wanted > 0 {
                let place = self.rng.below_unbiased(wanted.cast_unsigned()).cast_signed();
                let (_, bin) = self.wanted[self.wanted.partition_point(|(up_to, _)| *up_to <= place)];
                (state, wanted_bin) = (bin / 256, bin % 256);
                let start = bin_start(DISTANCE_BITS, wanted_bin);
                let end = bin_start(DISTANCE_BITS, wanted_bin + 1);
                // The oldest of them first: pieces that are passed over would sink, and take up the room that distances
                // are measured in.
                let within =
                    if candidate < OLDEST { end - start - 1 } else { self.rng.below_unbiased(end - start) };
                rank = (start + within).min(live as u64 - 1);
            }
            let mut page = self.pages[self.at_slot[self.line.select(rank as usize)] as usize];
            // Where few pages are written, none of them is found by its distance. One at a distance that the trace never
            // has would change the curve of misses, so there are few of those.
            let mut stray = false;
            if state != page.state
                && let Some(other) = self.any_in(state)
            {
                let distance = self.line.after(other.slot as usize) as u64;
                let bin = bin_of(DISTANCE_BITS, distance).min(NEW - 1);
                stray = !self.distances[bin + 256 * usize::from(write)];
                if !stray || self.strays < self.most_strays {
                    page = other;
                }
            }
            // Some candidates begin where the request began that left the page there, some where the neighbours
            // that fit begin: what is taken up whole leaves no pieces that fit nothing.
            let start = match candidate % 4 {
                0 => page.number - u64::from(page.back),
                2 if write && page.state == DEAD => self.begin_of(false, page.number),
                2 if candidate < CANDIDATES => self.first_that_fits(write, page.number, pages),
                1 | 2 => page.number,
                _ => {
                    let found = aim.and_then(|aim| self.known_at(write, aim, pages, wanted_bin));
                    found.unwrap_or(page.number)
                }
            };
            let mut score = self.score(write, start, pages) + self.score(write, start, ahead);
            let lane = self.lane_of(start);
            let is_due = self.is_due(lane, write);
            let fits = is_due && score > 2.0 * FULL_FIT;
            score +=
                locality * if score > LOCALITY_FIT { self.locality(write, aim, start, pages) } else { -1.0 };
            if self.lanes[lane].end == Some(start * PAGE_SECTORS + offset) {
                score -= CHANCE_RUN;
            }
            if !is_due {
                score -= if self.lanes[lane].all[usize::from(write)] == 0 { NEVER } else { UNDUE };
            }
            if best.is_none_or(|(most, ..)| score > most) {
                best = Some((score, start, stray));
                best_fits = fits;
            }
            if score >= 2.0 * PERFECT_FIT + LOCALITY {
                break;
            }
        }
        let (_, start, stray) = best.unwrap_or_default();
        self.strays += u64::from(stray);
        let lane = self.lane_of(start);
        let state = &self.lanes[lane];
        let behind = state.behind();
        let start = start.min(behind.saturating_sub(pages)).max(state.base_page);
        (lane, start * PAGE_SECTORS + offset)
    }

    /// A known page at a place that is wanted, or behind it: of some, the one whose distance is nearest to a bin.
    pub(super) fn known_at(
        &mut self,
        write: bool,
        wanted: Place,
        pages: u64,
        wanted_bin: usize,
    ) -> Option<u64> {
        const TRIES: usize = 8;
        let mut best: Option<((bool, usize), u64)> = None;
        for _ in 0..TRIES {
            let Some((region, target)) = self.regions.target(wanted, pages, &mut self.rng) else { continue };
            let page = region.begin + region.known.next(target, true);
            let Some(index) = self.index.get(scatter(page)) else { continue };
            let known = &self.pages[index as usize];
            let distance = self.line.after(known.slot as usize) as u64;
            let bin = bin_of(DISTANCE_BITS, distance).min(NEW - 1);
            let unwanted = self.cells[cell_of(write, known.state, bin)] <= 0;
            let off = (unwanted, bin.abs_diff(wanted_bin));
            if best.is_none_or(|(least, _)| off < least) {
                best = Some((off, page));
            }
            if off == (false, 0) {
                break;
            }
        }
        best.map(|(_, page)| page)
    }

    /// How well a known place lies, from -1 to 1.
    pub(super) fn locality(&self, write: bool, aim: Option<Place>, start: u64, pages: u64) -> f64 {
        let Some(aim) = aim else { return 0.0 };
        let place = self.regions.place(start, start + pages - 1);
        if self.places.wants(place, write, true) { place.likeness(aim) } else { -1.0 }
    }

    /// A page that was written, or trimmed since, if any is found.
    pub(super) fn any_in(&mut self, state: usize) -> Option<TouchedPage> {
        const TRIES: usize = 4;
        for _ in 0..TRIES {
            let list = match state {
                LIVE => &mut self.written,
                DEAD => &mut self.dead,
                _ => return None,
            };
            if list.is_empty() {
                return None;
            }
            let place = self.rng.below_unbiased(list.len() as u64) as usize;
            let page = self.pages[list[place] as usize];
            if page.state == state {
                return Some(page);
            }
            if state == DEAD {
                list.swap_remove(place);
            }
        }
        None
    }

    /// The first place in steps of `pages` back from the page `number` from where everything fits.
    pub(super) fn first_that_fits(&self, write: bool, number: u64, pages: u64) -> u64 {
        const STEPS: u64 = 64;
        let base = self.lanes[self.lane_of(number)].base_page;
        let mut start = number;
        for _ in 0..STEPS {
            let before = start.saturating_sub(pages);
            if before < base || self.score(write, before, pages) < GOOD_FIT {
                break;
            }
            start = before;
        }
        start
    }

    /// Whether a volume has not had more than its share of reads or writes so far.
    pub(super) fn is_due(&self, lane: usize, write: bool) -> bool {
        let op = usize::from(write);
        let VolumeState { left, all, .. } = &self.lanes[lane];
        // A few may come before their time.
        let slack = all[op] / 64 + 1;
        left[op] > 0
            && u128::from(left[op] + slack) * u128::from(self.all[op])
                >= u128::from(self.left[op]) * u128::from(all[op])
    }

    pub(super) fn lane_of(&self, page: u64) -> usize {
        self.lanes.partition_point(|lane| lane.base_page <= page) - 1
    }

    /// How well an access to `pages` pages from `start` fits what is still wanted.
    pub(super) fn score(&self, write: bool, start: u64, pages: u64) -> f64 {
        let step = pages.div_ceil(LOOKS).max(1);
        let mut score = 0.0;
        let mut looks = 0.0;
        // Pages before the one that is looked at use up what is wanted too.
        let (mut new, mut writes) = (0, [0; 3]);
        let runs = self.plan[usize::from(write)].runs();
        for page in (start..start + pages).step_by(step as usize) {
            let known = self.index.get(scatter(page)).map(|index| &self.pages[index as usize]);
            let (cell, class) = match known {
                None => (cell_of(write, UNWRITTEN, NEW), None),
                Some(known) => {
                    let distance = self.line.after(known.slot as usize) as u64;
                    let bin = bin_of(DISTANCE_BITS, distance).min(NEW - 1);
                    (cell_of(write, known.state, bin), Some(class_of(known.count)))
                }
            };
            let looked_at = step.cast_signed();
            score += match class {
                // Nothing makes up for new pages that runs are to enter; jumps to new pages can go elsewhere.
                None if self.cells[cell].saturating_sub(runs) - new < looked_at => UNWANTED_NEW,
                Some(_)
                    if let Some(state) = rewritten_state(cell)
                        && self.writes_left[state] - writes[state] < looked_at =>
                {
                    match state {
                        UNWRITTEN => UNWANTED_WRITE,
                        _ if self.has_trims => UNWANTED_REWRITE,
                        _ => -1.0,
                    }
                }
                // That they were trimmed counts for more than when they were used.
                Some(_) if rewritten_state(cell) == Some(DEAD) && self.cells[cell] < looked_at => 0.0,
                _ if self.cells[cell] < looked_at => -1.0,
                _ => 1.0,
            };
            score += class.map_or(0.0, |class| POPULARITY * self.demand(class, step));
            new += if class.is_none() { looked_at } else { 0 };
            if let Some(state) = rewritten_state(cell) {
                writes[state] += looked_at;
            }
            looks += 1.0;
        }
        score / looks
    }

    /// How much accesses to pages of a class are wanted, beside what there is of them, from -1 to 1.
    pub(super) fn demand(&self, class: usize, step: u64) -> f64 {
        let left = self.classes[class];
        if left < step.cast_signed() {
            return -1.0;
        }
        let known = self.demands[class].get();
        if !known.is_nan() {
            return known;
        }
        let share = left as f64 / self.classes_left.max(1) as f64;
        let supply = self.supply[class] as f64 / self.pages.len() as f64;
        let demand = libm::log2(share / supply).clamp(-2.0, 2.0) * 0.25 + 0.5;
        self.demands[class].set(demand);
        demand
    }

    pub(super) fn forget_demands(&self) {
        self.demands.iter().for_each(|demand| demand.set(f64::NAN));
    }
}
