//! Places of trims, and what they free.

use crate::fitted_model::{DEAD, DISTANCE_BITS, LIVE, NEW, OP_CELLS, PAGE_SECTORS, REGION_PAGES};
use ftlab_stats::bins::bin_start;
use ftlab_stats::pages::scatter;

use super::{FittedGenerator, MORE_CANDIDATES};

impl FittedGenerator {
    /// A lane and an address for a trim: where its first page was used so long ago, and where it frees what the trace's did.
    pub(super) fn trim_place(&mut self, kind: usize, sectors: u64, offset: u64) -> (usize, u64) {
        let drawn = self.trims[kind].draw(&mut self.rng);
        let cell = drawn.map_or(NEW, |row| self.model.phases[self.phase].trims[row][0] as usize);
        let (goes_on, state, bin) = (cell >= OP_CELLS, cell % OP_CELLS / 256, cell % 256);
        if goes_on {
            let ends = (0..self.lanes.len()).filter_map(|lane| {
                let end = self.lanes[lane].trim_end?;
                (end + sectors <= self.lanes[lane].behind() * PAGE_SECTORS).then_some((lane, end))
            });
            let ends: Vec<_> = ends.collect();
            if !ends.is_empty() {
                return ends[self.rng.below_unbiased(ends.len() as u64) as usize];
            }
        }
        let live = self.line.live() as u64;
        let whole = ((offset + sectors) / PAGE_SECTORS).saturating_sub(offset.div_ceil(PAGE_SECTORS)).max(1);
        let mut best: Option<(f64, u64)> = None;
        for candidate in 0..MORE_CANDIDATES {
            let start = if bin == NEW || live == 0 {
                let lane = &self.lanes[self.lanes.len() - 1];
                lane.base_page + self.rng.below_unbiased(lane.regions * REGION_PAGES)
            } else {
                let (start, end) = (bin_start(DISTANCE_BITS, bin), bin_start(DISTANCE_BITS, bin + 1));
                let rank = (start + self.rng.below_unbiased(end - start)).min(live - 1);
                let mut page = self.pages[self.at_slot[self.line.select(rank as usize)] as usize];
                if page.state != state {
                    page = self.any_in(state).unwrap_or(page);
                }
                match candidate % 3 {
                    0 => page.number,
                    1 => self.begin_of(true, page.number),
                    _ => self.live_end(page.number).saturating_sub(whole),
                }
            };
            let lane = self.lane_of(start);
            let start =
                start.min(self.lanes[lane].behind().saturating_sub(whole)).max(self.lanes[lane].base_page);
            let freed = self.regions.live(start, start + whole - 1) as f64 / whole as f64;
            let score = if state == LIVE && bin != NEW { freed } else { 1.0 - freed };
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, start));
            }
            if score >= 1.0 {
                break;
            }
        }
        let (_, page) = best.unwrap_or_default();
        // Its first page is the first whole one.
        let before = u64::from(offset > 0 && offset + sectors >= 2 * PAGE_SECTORS);
        let lane = self.lane_of(page);
        let state = &self.lanes[lane];
        let lba = (page.saturating_sub(before) * PAGE_SECTORS + offset)
            .min((state.behind() * PAGE_SECTORS).saturating_sub(sectors));
        (lane, lba.max(state.base_page * PAGE_SECTORS))
    }

    /// Where the live pages begin that end with `page`, or the known pages that are not.
    pub(super) fn begin_of(&self, live: bool, page: u64) -> u64 {
        let mut begin = page;
        while let Some(region) = begin.checked_sub(1).and_then(|before| self.regions.find(before)) {
            let pages = if live { region.live } else { region.known.without(&region.live) };
            let before = region.begin + pages.before(begin - region.begin);
            if before == begin {
                break;
            }
            begin = before;
        }
        begin
    }

    /// The first page from `page` on that is not live.
    pub(super) fn live_end(&self, page: u64) -> u64 {
        let mut end = page;
        while let Some(region) = self.regions.find(end) {
            let next = region.begin + region.live.next(end - region.begin, false);
            if next == end {
                break;
            }
            end = next;
        }
        end
    }

    /// Note which pages a trim frees.
    pub(super) fn trim(&mut self, lane: usize, lba: u64, sectors: u64) {
        self.lanes[lane].trim_end = Some(lba + sectors);
        let (first, behind) = (lba.div_ceil(PAGE_SECTORS), (lba + sectors) / PAGE_SECTORS);
        if first >= behind {
            return;
        }
        for number in self.regions.trim(first, behind - 1) {
            if let Some(index) = self.index.get(scatter(number)) {
                self.pages[index as usize].state = DEAD;
                self.dead.push(index);
                self.dead_pages += 1;
            }
        }
    }
}
