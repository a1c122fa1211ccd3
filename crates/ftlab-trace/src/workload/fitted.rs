//! Draws requests from a fitted model.
//!
//! The generator keeps a stack of its own pages, least recently used at the bottom, and draws without replacement, so
//! that counts come out exactly.

use std::collections::BTreeSet;

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::{Op, Request, RequestSource, SECTOR_BYTES, SourceError};

use super::fitted_model::{
    CELLS, CLASSES, DISTANCE_BITS, FLUSH, FittedModel, GAP_BITS, KINDS, KNOWN, NEW, PAGE_SECTORS,
    REGION_PAGES, REGION_SECTORS, SEQUENTIAL, TRIM, cell_of, class_of,
};
use super::refuse;
use super::zipf::Permutation;
use crate::rng::Rng;
use crate::stats::bins::{bin_of, bin_start};
use crate::stats::pages::{PageMap, scatter};
use crate::stats::timeline::Timeline;

/// What [`Fitted`] draws, with the place on the drive.
#[derive(Debug, Clone)]
pub(super) struct FittedShape {
    model: std::sync::Arc<FittedModel>,
    offset_sectors: u64,
    /// Regions of each stream.
    regions: Vec<u64>,
}

impl FittedShape {
    /// Lay `model` over the `footprint` bytes from `offset`, or the `room` bytes that the drive has there. A stated
    /// footprint counts even where the drive is smaller, as with the trace itself: then `host.out_of_range` decides.
    pub(super) fn new(
        model: &FittedModel,
        offset: u64,
        room: u64,
        footprint: Option<u64>,
    ) -> Result<Self, ConfigError> {
        let (span, needed) = (model.span_bytes(), model.needed_bytes());
        let available = footprint.unwrap_or(room);
        if available < needed || (footprint.is_none() && available < span) {
            if let Some(footprint) = footprint {
                let expected = format!("the pages of the trace need {needed} bytes");
                return refuse("footprint_bytes", footprint, expected);
            }
            let expected = format!(
                "the trace spans {span} bytes and {room} follow offset_bytes on the drive: state a footprint_bytes of \
                 {span}, or less to move its regions together, down to the {needed} that its pages need"
            );
            return refuse("footprint_bytes", "nothing", expected);
        }
        // Volumes shrink alike, but none below what its pages need.
        let spare = available.min(span) - needed;
        let share = if span > needed { spare as f64 / (span - needed) as f64 } else { 0.0 };
        let available_regions = available / (REGION_SECTORS * u64::from(SECTOR_BYTES));
        let regions = model.streams.iter().map(|stream| {
            let needed = stream.needed_regions();
            if model.overlay {
                return stream.roomy_regions().min(available_regions);
            }
            needed + ((stream.roomy_regions() - needed) as f64 * share) as u64
        });
        Ok(Self {
            regions: regions.collect(),
            model: std::sync::Arc::new(model.clone()),
            offset_sectors: offset / u64::from(SECTOR_BYTES),
        })
    }
}

/// A page that was touched.
#[derive(Debug, Clone, Copy)]
struct Page {
    number: u64,
    slot: u32,
    /// Pages back to where the last request began that touched it.
    back: u32,
    count: u32,
    written: bool,
}

/// A place where new pages may be taken: from `next` to before `end`.
#[derive(Debug, Clone, Copy)]
struct Front {
    next: u64,
    end: u64,
}

/// A volume while it is made.
#[derive(Debug)]
struct Lane {
    stream: u16,
    base_page: u64,
    regions: u64,
    /// Of them, from the first on, those that are entered before any other.
    span_regions: u64,
    order: Permutation,
    drawn: u64,
    taken: BTreeSet<u64>,
    fronts: Vec<Front>,
    wanted_regions: u64,
    jumps: u64,
    jumps_done: u64,
    jumps_left: u64,
    sequential_left: u64,
    /// Where the last request ended.
    end: Option<u64>,
}

/// Counts to be drawn from, without replacement.
#[derive(Debug, Default)]
struct Quota {
    rows: Vec<u64>,
    left: u64,
}

impl Quota {
    fn new(rows: impl Iterator<Item = u64>) -> Self {
        let rows: Vec<u64> = rows.collect();
        Self { left: rows.iter().sum(), rows }
    }

    fn draw(&mut self, rng: &mut Rng) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        let mut place = rng.below(self.left);
        let row = self.rows.iter().position(|count| {
            let found = place < *count;
            place = place.wrapping_sub(if found { 0 } else { *count });
            found
        })?;
        self.rows[row] -= 1;
        self.left -= 1;
        Some(row)
    }
}

/// Pages that the requests to come will touch, one by one.
#[derive(Debug, Clone, Copy, Default)]
struct Plan {
    /// Of requests to new pages.
    new: i64,
    /// Of them, of those that jump.
    jumps: i64,
    /// Of jumps to known pages, without the first page of each.
    beside_known: i64,
}

impl Plan {
    /// New pages that runs are to enter.
    fn runs(self) -> i64 {
        self.new - self.jumps
    }

    fn add(&mut self, kind: usize, pages: u64, requests: i64) {
        if kind & KNOWN == 0 {
            let pages = pages.cast_signed().saturating_mul(requests);
            self.new = self.new.saturating_add(pages);
            if kind & SEQUENTIAL == 0 {
                self.jumps = self.jumps.saturating_add(pages);
            }
        } else if kind & SEQUENTIAL == 0 {
            let beside = (pages.cast_signed() - 1).saturating_mul(requests);
            self.beside_known = self.beside_known.saturating_add(beside);
        }
    }
}

/// Whether a cell is of writes to pages that were touched and never written.
fn is_first_write(cell: usize) -> bool {
    (cell_of(true, false, 0)..cell_of(true, false, NEW)).contains(&cell)
}

fn middle_of_gap(bin: u64) -> f64 {
    let (start, end) = (bin_start(GAP_BITS, bin as usize), bin_start(GAP_BITS, bin as usize + 1));
    f64::midpoint(start as f64, (end - 1) as f64)
}

/// Draws the requests of a fitted model.
#[derive(Debug)]
pub(super) struct Fitted {
    model: std::sync::Arc<FittedModel>,
    rng: Rng,
    lanes: Vec<Lane>,
    pages: Vec<Page>,
    index: PageMap,
    line: Timeline,
    at_slot: Vec<u32>,
    phase: usize,
    kinds: Vec<u64>,
    kind_totals: Vec<u64>,
    kinds_left: u64,
    sizes: Vec<Quota>,
    trims: Quota,
    gaps: Quota,
    /// Sum of the gaps that are left, at the middle of their bins.
    gaps_ns: f64,
    /// Page accesses still to come, by cell; what a phase leaves is carried into the next.
    cells: Vec<i64>,
    classes: Vec<i64>,
    classes_left: i64,
    /// Bins of distances that reads and then writes have anywhere in the trace.
    distances: Vec<bool>,
    /// Writes still to come to pages that were touched and not written.
    first_writes_left: i64,
    /// Pages that were written.
    written: Vec<u32>,
    /// Pages by class.
    supply: Vec<u64>,
    previous: usize,
    now_ns: f64,
    phase_end_ns: f64,
    /// Requests of a run on known pages, of reads and of writes.
    run_requests: [f64; 2],
    /// Sequential requests that became jumps.
    owed: u64,
    most_owed: u64,
    /// Jumps to written pages at distances that the trace never has.
    strays: u64,
    most_strays: u64,
    /// Of reads and of writes.
    plan: [Plan; 2],
    /// Requests to new pages that came before their time, of reads and of writes.
    exchanged: [u64; 2],
    offset_sectors: u64,
    requests: u64,
    made: u64,
}

const SLOTS: usize = 1 << 12;
/// Known places that are weighed against each other for a jump.
const CANDIDATES: usize = 12;
/// So many where none of those fits.
const MORE_CANDIDATES: usize = 60;
/// Of them, those that are the oldest with a distance that is wanted.
const OLDEST: usize = 3;
/// Scores of places: 1.5 fits in all, -1.5 and less in nothing, far less in what can never be undone.
const POPULARITY: f64 = 0.5;
const PERFECT_FIT: f64 = 1.0 + POPULARITY;
const GOOD_FIT: f64 = 0.4;
const POOR_FIT: f64 = 0.0;
const FULL_FIT: f64 = 0.75;
/// What is taken off for a jump that would be sequential by chance.
const CHANCE_RUN: f64 = 1.0;
/// For new pages that are not wanted, and for first writes of known ones beyond those of the trace.
const UNWANTED_NEW: f64 = -3.0;
const UNWANTED_WRITE: f64 = -10.0;
/// Pages of a request that are looked at to weigh a place.
const LOOKS: u64 = 8;

impl Fitted {
    pub(super) fn new(shape: &FittedShape, seed: u64, requests: u64) -> Self {
        let mut base_page = 0;
        let lanes = shape.model.streams.iter().zip(&shape.regions).map(|(stream, regions)| {
            let span_regions = stream.span_regions.clamp(1, *regions);
            let lane = Lane {
                stream: stream.stream,
                base_page,
                regions: *regions,
                span_regions,
                order: Permutation::new(span_regions, seed ^ u64::from(stream.stream) << 32),
                drawn: 0,
                taken: BTreeSet::new(),
                fronts: Vec::new(),
                wanted_regions: stream.touched_regions,
                jumps: stream.jumps,
                jumps_done: 0,
                jumps_left: stream.jumps,
                sequential_left: stream.sequential,
                end: None,
            };
            base_page += regions * REGION_PAGES;
            lane
        });
        let mut fitted = Self {
            lanes: lanes.collect(),
            rng: Rng::new(seed, &[0x66_69_74]),
            pages: Vec::new(),
            index: PageMap::default(),
            line: Timeline::new(SLOTS),
            at_slot: vec![0; SLOTS],
            phase: 0,
            kinds: Vec::new(),
            kind_totals: (0..KINDS)
                .map(|kind| shape.model.phases.iter().map(|phase| phase.kinds[kind]).sum())
                .collect(),
            kinds_left: 0,
            sizes: Vec::new(),
            trims: Quota::default(),
            gaps: Quota::default(),
            gaps_ns: 0.0,
            cells: vec![0; CELLS],
            classes: vec![0; CLASSES],
            classes_left: 0,
            distances: shape.model.distances(),
            first_writes_left: 0,
            written: Vec::new(),
            supply: vec![0; CLASSES],
            previous: FLUSH,
            now_ns: 0.0,
            phase_end_ns: 0.0,
            run_requests: [false, true].map(|write| shape.model.run_requests(write)),
            owed: 0,
            most_owed: shape.model.requests() / 40 + 4,
            strays: 0,
            most_strays: shape.model.requests() / 1000,
            plan: [Plan::default(); 2],
            exchanged: [0; 2],
            offset_sectors: shape.offset_sectors,
            requests,
            made: 0,
            model: shape.model.clone(),
        };
        fitted.begin_phase();
        fitted
    }

    fn begin_phase(&mut self) {
        let phase = &self.model.phases[self.phase];
        self.kinds.clone_from(&phase.kinds);
        self.kinds_left = phase.kinds.iter().sum();
        self.sizes = phase.sizes.iter().map(|rows| Quota::new(rows.iter().map(|row| row[2]))).collect();
        self.trims = Quota::new(phase.trims.iter().map(|row| row[1]));
        self.gaps = Quota::new(phase.gaps.iter().map(|row| row[1]));
        for row in &phase.pages {
            self.cells[row[0] as usize] += row[1].cast_signed();
            if is_first_write(row[0] as usize) {
                self.first_writes_left += row[1].cast_signed();
            }
        }
        for row in &phase.popularity {
            self.classes[row[0] as usize] += row[1].cast_signed();
            self.classes_left += row[1].cast_signed();
        }
        self.gaps_ns = phase.gaps.iter().map(|row| middle_of_gap(row[0]) * row[1] as f64).sum();
        self.phase_end_ns += phase.duration_ns as f64;
        self.plan = [Plan::default(); 2];
        for (kind, rows) in phase.sizes.iter().enumerate().take(TRIM) {
            for [sectors, offset, count] in rows {
                self.plan[kind / 4].add(kind, (offset + sectors).div_ceil(PAGE_SECTORS), count.cast_signed());
            }
        }
    }

    fn arrival_ns(&mut self) -> u64 {
        let drawn = if self.made == 0 { None } else { self.gaps.draw(&mut self.rng) };
        if let Some(row) = drawn {
            let bin = self.model.phases[self.phase].gaps[row][0];
            let (start, end) = (bin_start(GAP_BITS, bin as usize), bin_start(GAP_BITS, bin as usize + 1));
            // What is left of the phase is shared out anew each time, so that it ends when it should.
            let scale = if self.gaps_ns > 0.0 {
                (self.phase_end_ns - self.now_ns).max(0.0) / self.gaps_ns
            } else {
                0.0
            };
            self.gaps_ns -= middle_of_gap(bin);
            let spread = if self.gaps.left == 0 { 0.5 } else { self.rng.unit() };
            self.now_ns += (start as f64 + spread * (end - 1 - start) as f64) * scale;
            self.now_ns = self.now_ns.min(self.phase_end_ns);
        }
        self.now_ns.round() as u64
    }

    /// The next kind: what is left, weighted by how often it follows the last one.
    fn kind(&mut self) -> usize {
        let follows = &self.model.follows[self.previous];
        let weight = |kind: usize| {
            let left = self.kinds[kind] as f64;
            left * follows[kind] as f64 / self.kind_totals[kind].max(1) as f64
        };
        let weights: [f64; KINDS] = std::array::from_fn(weight);
        let sum: f64 = weights.iter().sum();
        let mut kind = None;
        if sum > 0.0 {
            let mut place = self.rng.unit() * sum;
            for (number, weight) in weights.iter().enumerate().filter(|(_, weight)| **weight > 0.0) {
                kind = Some(number);
                place -= weight;
                if place < 0.0 {
                    break;
                }
            }
        }
        let mut place = self.rng.below(self.kinds_left);
        let kind = kind.unwrap_or_else(|| {
            let taken = |count: &u64| {
                let found = place < *count;
                place = place.wrapping_sub(if found { 0 } else { *count });
                found
            };
            self.kinds.iter().position(taken).unwrap_or(FLUSH)
        });
        self.kinds[kind] -= 1;
        self.kinds_left -= 1;
        self.previous = kind;
        kind
    }

    fn request(&mut self) -> Request {
        while self.kinds_left == 0 {
            self.phase += 1;
            self.begin_phase();
        }
        let arrival_ns = self.arrival_ns();
        let kind = self.kind();
        if kind == FLUSH {
            let stream = self.lanes[0].stream;
            return Request { arrival_ns, lba: 0, sectors: 0, op: Op::Flush, stream };
        }
        let drawn = self.sizes[kind].draw(&mut self.rng);
        let [sectors, offset, _] =
            drawn.map_or([1, 0, 0], |row| self.model.phases[self.phase].sizes[kind][row]);
        let op = match kind {
            TRIM => Op::Trim,
            4.. => Op::Write,
            _ => Op::Read,
        };
        let (lane, lba) = if op == Op::Trim {
            self.trim_place(sectors, offset)
        } else {
            let write = op == Op::Write;
            let pages = (offset + sectors).div_ceil(PAGE_SECTORS);
            self.plan[usize::from(write)].add(kind, pages, -1);
            self.place(kind % 4, write, sectors, offset)
        };
        // A volume that was made smaller may be smaller than its largest request.
        let sectors = sectors.min(self.lanes[lane].behind() * PAGE_SECTORS - lba);
        if op != Op::Trim {
            self.touch(op == Op::Write, lba, sectors);
        }
        let stream = self.finish(lane, lba, sectors);
        let begin = if self.model.overlay { self.lanes[lane].base_page * PAGE_SECTORS } else { 0 };
        Request { arrival_ns, lba: self.offset_sectors + lba - begin, sectors: sectors as u32, op, stream }
    }

    fn finish(&mut self, lane: usize, lba: u64, sectors: u64) -> u16 {
        let lane = &mut self.lanes[lane];
        lane.end = Some(lba + sectors);
        let last = (lba + sectors - 1) / PAGE_SECTORS;
        for front in &mut lane.fronts {
            if (front.next..front.end).contains(&last) {
                front.next = last + 1;
            }
        }
        lane.stream
    }

    /// A lane and an address for a request of a kind.
    fn place(&mut self, kind: usize, write: bool, sectors: u64, offset: u64) -> (usize, u64) {
        // While the stack is too small for any distance that is wanted, requests to new pages come first.
        let op = usize::from(write);
        let mut known = kind & KNOWN != 0;
        if known && self.cells[cell_of(write, false, NEW)] > 0 && !self.has_old_enough(write) {
            self.exchanged[op] += 1;
            known = false;
        } else if !known && self.exchanged[op] > 0 && self.has_old_enough(write) {
            self.exchanged[op] -= 1;
            known = true;
        }
        if kind & SEQUENTIAL != 0 {
            // A run on known pages may stop where they do not fit, if another goes on instead of a jump.
            let wanted = if self.owed < self.most_owed { POOR_FIT } else { f64::NEG_INFINITY };
            if let Some(found) = self.sequential_place(write, sectors, known, wanted) {
                return found;
            }
            self.owed += 1;
        } else if self.owed > 0
            && let Some(found) = self.sequential_place(write, sectors, known, GOOD_FIT)
        {
            self.owed -= 1;
            return found;
        }
        let pages = (offset + sectors).div_ceil(PAGE_SECTORS);
        // New pages that are still wanted, beyond those of the requests that are to touch new pages.
        let plan = self.plan[usize::from(write)];
        let new_left = self.cells[cell_of(write, false, NEW)];
        let planned = plan.new + if known { 0 } else { pages.cast_signed() };
        let missing = new_left.saturating_sub(planned);
        let part = |pages: i64, among: i64| (pages as f64 / among.max(1) as f64).min(1.0);
        if self.pages.is_empty() {
            return self.new_place(sectors, offset);
        }
        if known {
            let share = part(missing, plan.beside_known + pages.cast_signed() - 1);
            // Half of the pages of such places are new, unless more are missing.
            if pages > 1
                && missing > 0
                && self.rng.unit() < 2.0 * share
                && let Some(found) = self.edge_place(write, pages, offset, share)
            {
                return found;
            }
            return self.known_place(write, sectors, offset);
        }
        if missing < 0 && self.rng.unit() < part(missing.saturating_neg(), plan.jumps + pages.cast_signed()) {
            return self.known_place(write, sectors, offset);
        }
        self.new_place(sectors, offset)
    }

    /// A place that begins with known pages and ends with new ones, where a run of new pages stopped. Of the pages
    /// behind its first, `share` are to be new.
    fn edge_place(&mut self, write: bool, pages: u64, offset: u64, share: f64) -> Option<(usize, u64)> {
        let most_known = ((pages - 1) as f64 * 2.0 * (1.0 - share)).clamp(1.0, (pages - 1) as f64) as u64;
        let mut best: Option<(f64, usize, u64)> = None;
        for _ in 0..CANDIDATES {
            let lane = self.rng.below(self.lanes.len() as u64) as usize;
            let state = &self.lanes[lane];
            if state.fronts.is_empty() {
                continue;
            }
            let front = state.fronts[self.rng.below(state.fronts.len() as u64) as usize];
            let known = 1 + self.rng.below(most_known);
            let Some(start) = front.next.checked_sub(known).filter(|start| *start >= state.base_page) else {
                continue;
            };
            if start + pages > front.end || !self.is_known(start) {
                continue;
            }
            let score = self.score(write, start, pages);
            if score >= POOR_FIT && best.is_none_or(|(most, ..)| score > most) {
                best = Some((score, lane, start));
            }
        }
        best.map(|(_, lane, start)| (lane, start * PAGE_SECTORS + offset))
    }

    fn is_known(&self, page: u64) -> bool {
        self.index.get(scatter(page)).is_some()
    }

    /// Whether some known page is as many pages back as some access that is still to come.
    fn has_old_enough(&self, write: bool) -> bool {
        let live = self.line.live() as u64;
        let first = cell_of(write, false, 0);
        (0..NEW)
            .take_while(|bin| bin_start(DISTANCE_BITS, *bin) < live)
            .any(|bin| self.cells[first + bin] > 0 || self.cells[first + 256 + bin] > 0)
    }

    /// Whether nothing has written a known page.
    fn is_unwritten(&self, page: u64) -> bool {
        self.index.get(scatter(page)).is_some_and(|index| !self.pages[index as usize].written)
    }

    /// Where a lane goes on to pages that are known or not, as wanted.
    /// Known pages must fit what is wanted at least so well.
    fn sequential_place(
        &mut self,
        write: bool,
        sectors: u64,
        known: bool,
        wanted: f64,
    ) -> Option<(usize, u64)> {
        // Volumes that can go on as wanted, of which one is drawn by how many sequential requests it is to have.
        let mut fitting: Vec<(usize, u64, u64)> = (0..self.lanes.len())
            .filter_map(|lane| {
                let state = &self.lanes[lane];
                let end = state.end?;
                let last = (end + sectors - 1) / PAGE_SECTORS;
                if last >= state.behind() || self.is_known(last) != known {
                    return None;
                }
                let pages = (end % PAGE_SECTORS + sectors).div_ceil(PAGE_SECTORS);
                let fits = !known || self.score(write, end / PAGE_SECTORS, pages) >= wanted;
                fits.then_some((lane, end, state.sequential_left + 1))
            })
            .collect();
        // A write does not go on within a page that was only read when enough of those were written.
        let enough = write && self.first_writes_left <= 0;
        let harmless =
            |end: u64| !enough || end.is_multiple_of(PAGE_SECTORS) || !self.is_unwritten(end / PAGE_SECTORS);
        if wanted > f64::NEG_INFINITY || fitting.iter().any(|(_, end, _)| harmless(*end)) {
            fitting.retain(|(_, end, _)| harmless(*end));
        }
        let total: u64 = fitting.iter().map(|(.., weight)| weight).sum();
        if total == 0 {
            return None;
        }
        let mut place = self.rng.below(total);
        for (lane, end, weight) in fitting {
            if place >= weight {
                place -= weight;
                continue;
            }
            if !known {
                self.extend(lane, end / PAGE_SECTORS, (end + sectors - 1) / PAGE_SECTORS);
            }
            let left = &mut self.lanes[lane].sequential_left;
            *left = left.saturating_sub(1);
            return Some((lane, end));
        }
        None
    }

    /// Take the regions that a run enters, so that no other run is placed there.
    fn extend(&mut self, lane: usize, first: u64, last: u64) {
        let lane = &mut self.lanes[lane];
        for region in (first - lane.base_page) / REGION_PAGES..=(last - lane.base_page) / REGION_PAGES {
            if lane.taken.insert(region) {
                let begin = lane.base_page + region * REGION_PAGES;
                lane.fronts.push(Front { next: begin, end: begin + REGION_PAGES });
            }
        }
    }

    fn new_place(&mut self, sectors: u64, offset: u64) -> (usize, u64) {
        let total: u64 = self.lanes.iter().map(|lane| lane.jumps_left).sum();
        let mut place = if total == 0 { 0 } else { self.rng.below(total) };
        let drawn = self.lanes.iter().position(|lane| {
            let found = place < lane.jumps_left;
            place = place.wrapping_sub(if found { 0 } else { lane.jumps_left });
            found
        });
        // A volume whose jumps are used up may still take more, where others had none.
        let lane = drawn.unwrap_or_else(|| {
            let left = |lane: &Lane| lane.regions - lane.taken.len() as u64;
            (0..self.lanes.len()).max_by_key(|lane| left(&self.lanes[*lane])).unwrap_or(0)
        });
        let state = &mut self.lanes[lane];
        state.jumps_left = state.jumps_left.saturating_sub(1);
        state.jumps_done += 1;
        let pages = (offset + sectors).div_ceil(PAGE_SECTORS);
        let page = state.front(pages, &mut self.rng);
        (lane, page * PAGE_SECTORS + offset)
    }

    /// A place among known pages whose distances, popularity and history are those that are still wanted.
    fn known_place(&mut self, write: bool, sectors: u64, offset: u64) -> (usize, u64) {
        let live = self.line.live();
        let first_cell = cell_of(write, false, 0);
        let wanted: i64 =
            (0..512).filter(|bin| bin % 256 != NEW).map(|bin| self.cells[first_cell + bin].max(0)).sum();
        let mut best: Option<(f64, u64, bool)> = None;
        let pages = (offset + sectors).div_ceil(PAGE_SECTORS);
        // A jump often begins a run: what the run will find counts as much as what the request finds.
        let ahead = (pages as f64 * self.run_requests[usize::from(write)]) as u64;
        for candidate in 0..MORE_CANDIDATES {
            if candidate >= CANDIDATES && best.is_some_and(|(score, ..)| score > 2.0 * FULL_FIT) {
                break;
            }
            let mut rank = self.rng.below(live as u64);
            let mut written = false;
            if wanted > 0 {
                let mut place = self.rng.below(wanted.cast_unsigned()).cast_signed();
                for bin in (0..512).filter(|bin| bin % 256 != NEW) {
                    place -= self.cells[first_cell + bin].max(0);
                    if place < 0 {
                        let start = bin_start(DISTANCE_BITS, bin % 256);
                        let end = bin_start(DISTANCE_BITS, bin % 256 + 1);
                        // The oldest of them first: pieces that are passed over would sink, and take up the room that
                        // distances are measured in.
                        let within =
                            if candidate < OLDEST { end - start - 1 } else { self.rng.below(end - start) };
                        rank = (start + within).min(live as u64 - 1);
                        written = bin >= 256;
                        break;
                    }
                }
            }
            let mut page = self.pages[self.at_slot[self.line.select(rank as usize)] as usize];
            // Where few pages are written, none of them is found by its distance. One at a distance that the trace never
            // has would change the curve of misses, so there are few of those.
            let mut stray = false;
            if written && !page.written && !self.written.is_empty() {
                let place = self.rng.below(self.written.len() as u64);
                let other = self.pages[self.written[place as usize] as usize];
                let distance = self.line.after(other.slot as usize) as u64;
                let bin = bin_of(DISTANCE_BITS, distance).min(NEW - 1);
                stray = !self.distances[bin + 256 * usize::from(write)];
                if !stray || self.strays < self.most_strays {
                    page = other;
                }
            }
            // Some candidates begin where the request began that left the page there, some where the neighbours
            // that fit begin: what is taken up whole leaves no pieces that fit nothing.
            let start = match candidate % 3 {
                0 => page.number - u64::from(page.back),
                1 => page.number,
                _ => self.first_that_fits(write, page.number, pages),
            };
            let mut score = self.score(write, start, pages) + self.score(write, start, ahead);
            if self.lanes[self.lane_of(start)].end == Some(start * PAGE_SECTORS + offset) {
                score -= CHANCE_RUN;
            }
            if best.is_none_or(|(most, ..)| score > most) {
                best = Some((score, start, stray));
            }
            if score >= 2.0 * PERFECT_FIT {
                break;
            }
        }
        let (_, start, stray) = best.unwrap_or_default();
        self.strays += u64::from(stray);
        let lane = self.lane_of(start);
        let state = &self.lanes[lane];
        let behind = state.behind();
        let start = start.min(behind.saturating_sub(pages)).max(state.base_page);
        self.extend(lane, start, (start + pages - 1).min(behind - 1));
        (lane, start * PAGE_SECTORS + offset)
    }

    /// The first place in steps of `pages` back from the page `number` from where everything fits.
    fn first_that_fits(&self, write: bool, number: u64, pages: u64) -> u64 {
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

    fn lane_of(&self, page: u64) -> usize {
        self.lanes.partition_point(|lane| lane.base_page <= page) - 1
    }

    /// How well an access to `pages` pages from `start` fits what is still wanted.
    fn score(&self, write: bool, start: u64, pages: u64) -> f64 {
        let step = pages.div_ceil(LOOKS).max(1);
        let mut score = 0.0;
        let mut looks = 0.0;
        // Pages before the one that is looked at use up what is wanted too.
        let (mut new, mut first_writes) = (0, 0);
        let runs = self.plan[usize::from(write)].runs();
        for page in (start..start + pages).step_by(step as usize) {
            let known = self.index.get(scatter(page)).map(|index| &self.pages[index as usize]);
            let (cell, class) = match known {
                None => (cell_of(write, false, NEW), None),
                Some(known) => {
                    let distance = self.line.after(known.slot as usize) as u64;
                    let bin = bin_of(DISTANCE_BITS, distance).min(NEW - 1);
                    (cell_of(write, known.written, bin), Some(class_of(known.count)))
                }
            };
            let looked_at = step.cast_signed();
            score += match class {
                // Nothing makes up for new pages that runs are to enter; jumps to new pages can go elsewhere.
                None if self.cells[cell].saturating_sub(runs) - new < looked_at => UNWANTED_NEW,
                Some(_) if is_first_write(cell) && self.first_writes_left - first_writes < looked_at => {
                    UNWANTED_WRITE
                }
                _ if self.cells[cell] < looked_at => -1.0,
                _ => 1.0,
            };
            score += class.map_or(0.0, |class| POPULARITY * self.demand(class, step));
            new += if class.is_none() { looked_at } else { 0 };
            first_writes += if is_first_write(cell) { looked_at } else { 0 };
            looks += 1.0;
        }
        score / looks
    }

    /// How much accesses to pages of a class are wanted, beside what there is of them, from -1 to 1.
    fn demand(&self, class: usize, step: u64) -> f64 {
        let left = self.classes[class];
        if left < step.cast_signed() {
            return -1.0;
        }
        let share = left as f64 / self.classes_left.max(1) as f64;
        let supply = self.supply[class] as f64 / self.pages.len() as f64;
        libm::log2(share / supply).clamp(-2.0, 2.0) * 0.25 + 0.5
    }

    fn trim_place(&mut self, sectors: u64, offset: u64) -> (usize, u64) {
        let row = self.trims.draw(&mut self.rng);
        let bin = row.map_or(NEW, |row| self.model.phases[self.phase].trims[row][0] as usize);
        let live = self.line.live() as u64;
        let page = if bin == NEW || live == 0 {
            let last = &self.lanes[self.lanes.len() - 1];
            self.rng.below(last.behind())
        } else {
            let (start, end) = (bin_start(DISTANCE_BITS, bin), bin_start(DISTANCE_BITS, bin + 1));
            let rank = (start + self.rng.below(end - start)).min(live - 1);
            self.pages[self.at_slot[self.line.select(rank as usize)] as usize].number
        };
        let lane = self.lane_of(page);
        let state = &self.lanes[lane];
        let behind = state.behind() * PAGE_SECTORS;
        let lba = (page * PAGE_SECTORS + offset).min(behind.saturating_sub(sectors));
        (lane, lba.max(state.base_page * PAGE_SECTORS))
    }

    /// Move the pages of a request to the top of the stack, and count what they were.
    fn touch(&mut self, write: bool, lba: u64, sectors: u64) {
        let (first, last) = (lba / PAGE_SECTORS, (lba + sectors - 1) / PAGE_SECTORS);
        for number in first..=last {
            if self.line.is_full() {
                self.renumber();
            }
            let back = (number - first) as u32;
            let (place, new) = self.index.entry(scatter(number));
            let (index, cell) = if new {
                let index = self.pages.len() as u32;
                self.index.set(place, index);
                self.pages.push(Page { number, slot: 0, back, count: 0, written: false });
                (index, cell_of(write, false, NEW))
            } else {
                let index = self.index.value(place);
                let page = self.pages[index as usize];
                let bin = bin_of(DISTANCE_BITS, self.line.after(page.slot as usize) as u64).min(NEW - 1);
                self.line.remove(page.slot as usize);
                self.classes[class_of(page.count)] -= 1;
                self.classes_left -= 1;
                self.supply[class_of(page.count)] -= 1;
                (index, cell_of(write, page.written, bin))
            };
            self.cells[cell] -= 1;
            self.first_writes_left -= i64::from(is_first_write(cell));
            if write && !self.pages[index as usize].written {
                self.written.push(index);
            }
            let slot = self.line.push() as u32;
            self.at_slot[slot as usize] = index;
            let page = &mut self.pages[index as usize];
            (page.slot, page.back) = (slot, back);
            page.written |= write;
            page.count = page.count.saturating_add(1);
            self.supply[class_of(page.count)] += 1;
        }
    }

    fn renumber(&mut self) {
        let (line, moved) = self.line.renumbered(SLOTS);
        self.at_slot = vec![0; line.slots()];
        for (index, page) in self.pages.iter_mut().enumerate() {
            page.slot = moved(page.slot as usize) as u32;
            self.at_slot[page.slot as usize] = index as u32;
        }
        self.line = line;
    }
}

impl Lane {
    /// The first page that belongs to the next volume.
    fn behind(&self) -> u64 {
        self.base_page + self.regions * REGION_PAGES
    }

    /// The first of `pages` new pages at which nothing goes on sequentially.
    fn front(&mut self, pages: u64, rng: &mut Rng) -> u64 {
        const OPEN: usize = 4;
        self.fronts.retain(|front| front.next < front.end);
        let behind_last =
            |front: &Front| self.end.is_some_and(|end| end.div_ceil(PAGE_SECTORS) == front.next);
        let fitting: Vec<usize> = (0..self.fronts.len())
            .filter(|index| {
                let front = &self.fronts[*index];
                front.next + pages <= front.end && !behind_last(front)
            })
            .collect();
        let enough = self.taken.len() as u64 >= self.wanted_regions;
        let due = self.taken.len() as u64 * self.jumps < self.wanted_regions * self.jumps_done;
        if (due || (fitting.is_empty() && !enough))
            && let Some(page) = self.open(pages)
        {
            return page;
        }
        if fitting.is_empty() {
            // A page is left out, so that the request is a jump.
            let beside = self.fronts.iter().find(|front| front.next + 1 + pages <= front.end);
            if let Some(page) = beside.map(|front| front.next + 1).or_else(|| self.open(pages)) {
                return page;
            }
        }
        // Old fronts are filled up before there are too many of them.
        let among = if fitting.len() > OPEN { OPEN } else { fitting.len() };
        if among > 0 {
            return self.fronts[fitting[rng.below(among as u64) as usize]].next;
        }
        let room = (self.regions * REGION_PAGES).saturating_sub(pages);
        self.base_page + rng.below(room + 1)
    }

    /// Take a region that is free, and as many behind it as `pages` need.
    fn open(&mut self, pages: u64) -> Option<u64> {
        let regions = pages.div_ceil(REGION_PAGES);
        // Both ends first, so that the range is that of the trace however few regions are opened.
        while self.drawn < self.regions + 2 {
            let region = match self.drawn {
                0 => 0,
                1 => self.span_regions.saturating_sub(regions),
                drawn if drawn < self.span_regions + 2 => self.order.map(drawn - 2),
                drawn => drawn - 2,
            };
            self.drawn += 1;
            let free = |region| region < self.regions && !self.taken.contains(&region);
            if (region..region + regions).all(free) {
                let begin = self.base_page + region * REGION_PAGES;
                self.taken.extend(region..region + regions);
                self.fronts.push(Front { next: begin, end: begin + regions * REGION_PAGES });
                return Some(begin);
            }
        }
        None
    }
}

impl RequestSource for Fitted {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let count = (self.requests - self.made).min(max as u64);
        out.reserve(count as usize);
        for _ in 0..count {
            let request = self.request();
            out.push(request);
            self.made += 1;
        }
        Ok(count as usize)
    }

    fn total_requests(&self) -> Option<u64> {
        Some(self.requests)
    }
}
