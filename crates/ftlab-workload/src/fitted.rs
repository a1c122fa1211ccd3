//! Draws requests from a fitted model.
//!
//! The generator keeps a stack of its own pages, least recently used at the bottom, and draws without replacement, so
//! that counts come out exactly.

mod known;
mod trims;

use std::cell::Cell;

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::{Op, Request, RequestSource, SECTOR_BYTES, SourceError};

use crate::fitted_model::{
    CELLS, CLASSES, DEAD, DISTANCE_BITS, FLUSH, FittedModel, GAP_BITS, KINDS, KNOWN, LIVE, NEW, OP_CELLS,
    PAGE_SECTORS, REGION_PAGES, REGION_SECTORS, SEQUENTIAL, TRIM, UNWRITTEN, cell_of, class_of, frees,
};
use crate::refusal::refuse;
use crate::regions::{OPENED, Place, Places, Regions};
use crate::zipf::Permutation;
use ftlab_core::rng::Rng;
use ftlab_core::time::nearest;
use ftlab_stats::access_order::AccessOrder;
use ftlab_stats::bins::{bin_of, bin_start};
use ftlab_stats::pages::{PageMap, scatter};

/// What [`FittedGenerator`] draws, with the place on the drive.
#[derive(Debug, Clone)]
pub(crate) struct FittedLayout {
    model: std::sync::Arc<FittedModel>,
    offset_sectors: u64,
    /// Regions of each stream.
    regions: Vec<u64>,
}

impl FittedLayout {
    /// Lay `model` over the `footprint` bytes from `offset`, or the `room` bytes that the drive has there. A stated
    /// footprint counts even where the drive is smaller, as with the trace itself: then `host.out_of_range` decides.
    pub(crate) fn new(
        model: &FittedModel,
        offset: u64,
        room: u64,
        footprint: Option<u64>,
    ) -> Result<Self, ConfigError> {
        let (span, needed) = (model.span_bytes(), model.needed_bytes());
        let available = footprint.unwrap_or(room);
        if available < needed || (footprint.is_none() && available < span) {
            if let Some(footprint) = footprint {
                let expected = format!(
                    "the model needs {needed} bytes, in which the pages of the trace have room to spread"
                );
                return refuse("footprint_bytes", footprint, expected);
            }
            let expected = format!(
                "the model spans {span} bytes, in which the pages of the trace have room to spread, and {room} follow \
                 offset_bytes on the drive: state a footprint_bytes of {span}, or less to move its regions together, down to \
                 {needed}"
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
struct TouchedPage {
    number: u64,
    slot: u32,
    /// Pages back to where the last request began that touched it.
    back: u32,
    count: u32,
    state: usize,
}

/// A volume while it is made.
#[derive(Debug)]
struct VolumeState {
    stream: u16,
    base_page: u64,
    regions: u64,
    /// Of them, from the first on, those that are entered before any other.
    span_regions: u64,
    order: Permutation,
    drawn: u64,
    /// Regions that are to be touched beyond those that were.
    regions_left: u64,
    jumps_left: u64,
    sequential_left: u64,
    /// Reads and writes that are still to come, and all.
    left: [u64; 2],
    all: [u64; 2],
    /// Where the last request ended.
    end: Option<u64>,
    /// Where the last trim ended.
    trim_end: Option<u64>,
}

/// Counts to be drawn from, without replacement.
#[derive(Debug, Default)]
struct Urn {
    rows: Vec<u64>,
    left: u64,
}

impl Urn {
    fn new(rows: impl Iterator<Item = u64>) -> Self {
        let rows: Vec<u64> = rows.collect();
        Self { left: rows.iter().sum(), rows }
    }

    fn draw(&mut self, rng: &mut Rng) -> Option<usize> {
        if self.left == 0 {
            return None;
        }
        let mut place = rng.below_unbiased(self.left);
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
struct PendingPages {
    /// Of requests to new pages.
    new: i64,
    /// Of them, of those that jump.
    jumps: i64,
    /// Of jumps to known pages, without the first page of each.
    beside_known: i64,
}

impl PendingPages {
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

/// What became of the known pages that writes of a cell go to; nothing for other cells.
fn rewritten_state(cell: usize) -> Option<usize> {
    (cell >= OP_CELLS && cell % 256 != NEW).then_some(cell % OP_CELLS / 256)
}

fn middle_of_gap(bin: u64) -> f64 {
    let (start, end) = (bin_start(GAP_BITS, bin as usize), bin_start(GAP_BITS, bin as usize + 1));
    f64::midpoint(start as f64, (end - 1) as f64)
}

/// Draws the requests of a fitted model.
#[derive(Debug)]
pub(crate) struct FittedGenerator {
    model: std::sync::Arc<FittedModel>,
    rng: Rng,
    lanes: Vec<VolumeState>,
    /// Reads and writes of all volumes that are still to come, and all.
    left: [u64; 2],
    all: [u64; 2],
    pages: Vec<TouchedPage>,
    index: PageMap,
    line: AccessOrder,
    at_slot: Vec<u32>,
    phase: usize,
    kinds: Vec<u64>,
    kind_totals: Vec<u64>,
    kinds_left: u64,
    sizes: Vec<Urn>,
    /// Those that begin with live pages, and others.
    trims: [Urn; 2],
    gaps: Urn,
    /// Sum of the gaps that are left, at the middle of their bins.
    gaps_ns: f64,
    /// TouchedPage accesses still to come, by cell; what a phase leaves is carried into the next.
    cells: Vec<i64>,
    classes: Vec<i64>,
    classes_left: i64,
    /// [`demand`](Self::demand) of each class, until a request changes it; not a number where it was not asked for.
    demands: Vec<Cell<f64>>,
    /// Bins of distances that are wanted for a jump.
    wanted: Vec<(i64, usize)>,
    /// Bins of distances that reads and then writes have anywhere in the trace.
    distances: Vec<bool>,
    regions: Regions,
    places: Places,
    /// Writes still to come to known pages by what became of these: never written, live, trimmed.
    writes_left: [i64; 3],
    /// Pages that were written, and pages that were trimmed, of which some were written again.
    written: Vec<u32>,
    dead: Vec<u32>,
    /// Whether trims free any pages.
    has_trims: bool,
    /// Pages that are trimmed and not written since, and how many there should be before more are written.
    dead_pages: u64,
    trim_pages: u64,
    /// Pages by class.
    supply: Vec<u64>,
    previous: usize,
    now_ns: f64,
    phase_end_ns: f64,
    /// Requests of a run on known pages, of reads and of writes.
    run_requests: [f64; 2],
    /// And on new ones.
    new_requests: [f64; 2],
    /// Sequential requests that became jumps.
    owed: u64,
    most_owed: u64,
    /// Jumps to written pages at distances that the trace never has.
    strays: u64,
    most_strays: u64,
    /// Of reads and of writes.
    plan: [PendingPages; 2],
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
/// So many where those that fit do not lie where they should.
const WELL_CANDIDATES: usize = 24;
/// Of them, those that are the oldest with a distance that is wanted.
const OLDEST: usize = 3;
/// Scores of places: 1.5 fits in all, -1.5 and less in nothing, far less in what can never be undone.
const POPULARITY: f64 = 0.5;
const PERFECT_FIT: f64 = 1.0 + POPULARITY;
const GOOD_FIT: f64 = 0.4;
const POOR_FIT: f64 = 0.0;
const FULL_FIT: f64 = 0.75;
/// For a known place that lies as it should and fits at least so well, and a part of it where other things matter more.
const LOCALITY: f64 = 2.0;
const LOCALITY_FIT: f64 = 0.5;
const LOW_LOCALITY: f64 = 0.5;
const FEW_REGIONS: u64 = 16;
/// What is taken off for a jump that would be sequential by chance.
const CHANCE_RUN: f64 = 1.0;
/// For a volume that had more than its share.
const UNDUE: f64 = 2.0;
/// For one that has none at all.
const NEVER: f64 = 20.0;
/// For new pages that are not wanted, and for first writes of known ones beyond those of the trace.
const UNWANTED_NEW: f64 = -3.0;
const UNWANTED_WRITE: f64 = -10.0;
/// For writes of live pages, or of trimmed ones, beyond those of a trace with trims.
const UNWANTED_REWRITE: f64 = -3.0;
/// Pages of a request that are looked at to weigh a place.
const LOOKS: u64 = 8;

impl FittedGenerator {
    pub(crate) fn new(layout: &FittedLayout, seed: u64, requests: u64) -> Self {
        let mut base_page = 0;
        let lanes = layout.model.streams.iter().zip(&layout.regions).map(|(stream, regions)| {
            let span_regions = stream.span_regions.clamp(1, *regions);
            let lane = VolumeState {
                stream: stream.stream,
                base_page,
                regions: *regions,
                span_regions,
                order: Permutation::new(span_regions, seed ^ u64::from(stream.stream) << 32),
                drawn: 0,
                regions_left: stream.touched_regions,
                jumps_left: stream.jumps,
                sequential_left: stream.sequential,
                left: [stream.reads, stream.writes],
                all: [stream.reads, stream.writes],
                end: None,
                trim_end: None,
            };
            base_page += regions * REGION_PAGES;
            lane
        });
        let streams = &layout.model.streams;
        let all = [
            streams.iter().map(|stream| stream.reads).sum(),
            streams.iter().map(|stream| stream.writes).sum(),
        ];
        let mut fitted = Self {
            lanes: lanes.collect(),
            left: all,
            all,
            rng: Rng::for_path(seed, &[0x66_69_74]),
            pages: Vec::new(),
            index: PageMap::default(),
            line: AccessOrder::new(SLOTS),
            at_slot: vec![0; SLOTS],
            phase: 0,
            kinds: Vec::new(),
            kind_totals: (0..KINDS)
                .map(|kind| layout.model.phases.iter().map(|phase| phase.kinds[kind]).sum())
                .collect(),
            kinds_left: 0,
            sizes: Vec::new(),
            trims: Default::default(),
            gaps: Urn::default(),
            gaps_ns: 0.0,
            cells: vec![0; CELLS],
            classes: vec![0; CLASSES],
            classes_left: 0,
            demands: vec![Cell::new(f64::NAN); CLASSES],
            wanted: Vec::new(),
            distances: layout.model.distances(),
            regions: Regions::default(),
            places: Places::new(&layout.model.places),
            writes_left: [0; 3],
            written: Vec::new(),
            dead: Vec::new(),
            has_trims: layout.model.phases.iter().any(|phase| phase.kinds[TRIM] > 0),
            dead_pages: 0,
            trim_pages: 0,
            supply: vec![0; CLASSES],
            previous: FLUSH,
            now_ns: 0.0,
            phase_end_ns: 0.0,
            run_requests: [false, true].map(|write| layout.model.run_requests(write, true)),
            new_requests: [false, true].map(|write| layout.model.run_requests(write, false)),
            owed: 0,
            most_owed: layout.model.requests() / 40 + 4,
            strays: 0,
            most_strays: layout.model.requests() / 1000,
            plan: [PendingPages::default(); 2],
            exchanged: [0; 2],
            offset_sectors: layout.offset_sectors,
            requests,
            made: 0,
            model: layout.model.clone(),
        };
        fitted.begin_phase();
        fitted
    }

    fn begin_phase(&mut self) {
        let phase = &self.model.phases[self.phase];
        self.kinds.clone_from(&phase.kinds);
        self.kinds_left = phase.kinds.iter().sum();
        self.sizes = phase.sizes.iter().map(|rows| Urn::new(rows.iter().map(|row| row[2]))).collect();
        self.trims = [true, false].map(|wanted| {
            let of_kind = |row: &[u64; 2]| if frees(row[0] as usize) == wanted { row[1] } else { 0 };
            Urn::new(phase.trims.iter().map(of_kind))
        });
        self.gaps = Urn::new(phase.gaps.iter().map(|row| row[1]));
        for row in &phase.pages {
            self.cells[row[0] as usize] += row[1].cast_signed();
            if let Some(state) = rewritten_state(row[0] as usize) {
                self.writes_left[state] += row[1].cast_signed();
            }
        }
        for row in &phase.ranks {
            self.places.ranks[row[0] as usize] += row[1].cast_signed();
        }
        for row in &phase.popularity {
            self.classes[row[0] as usize] += row[1].cast_signed();
            self.classes_left += row[1].cast_signed();
        }
        self.forget_demands();
        // As many as two trims free on average.
        let pages: u64 = phase.sizes[TRIM].iter().map(|row| row[0] / PAGE_SECTORS * row[2]).sum();
        self.trim_pages = 2 * pages / phase.kinds[TRIM].max(1);
        self.gaps_ns = phase.gaps.iter().map(|row| middle_of_gap(row[0]) * row[1] as f64).sum();
        self.phase_end_ns += phase.duration_ns as f64;
        self.plan = [PendingPages::default(); 2];
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
        nearest(self.now_ns)
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
        let mut place = self.rng.below_unbiased(self.kinds_left);
        let kind = kind.unwrap_or_else(|| {
            let taken = |count: &u64| {
                let found = place < *count;
                place = place.wrapping_sub(if found { 0 } else { *count });
                found
            };
            self.kinds.iter().position(taken).unwrap_or(FLUSH)
        });
        // Pages are trimmed before they are written again.
        let rewrites = (4..TRIM).contains(&kind) && kind & KNOWN != 0 && self.writes_left[DEAD] > 0;
        let kind =
            if rewrites && self.dead_pages < self.trim_pages && self.kinds[TRIM] > 0 { TRIM } else { kind };
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
            return Request { arrival_ns, lba: 0, sectors: 0, op: Op::Flush, stream, fua: false };
        }
        let drawn = self.sizes[kind].draw(&mut self.rng);
        let [sectors, offset, _] =
            drawn.map_or([1, 0, 0], |row| self.model.phases[self.phase].sizes[kind][row]);
        let op = match kind {
            TRIM.. => Op::Trim,
            4.. => Op::Write,
            _ => Op::Read,
        };
        let (lane, lba) = if op == Op::Trim {
            self.trim_place(kind - TRIM, sectors, offset)
        } else {
            let write = op == Op::Write;
            let pages = (offset + sectors).div_ceil(PAGE_SECTORS);
            self.plan[usize::from(write)].add(kind, pages, -1);
            self.place(kind % 4, write, sectors, offset)
        };
        // A volume that was made smaller may be smaller than its largest request.
        let sectors = sectors.min(self.lanes[lane].behind() * PAGE_SECTORS - lba);
        if op == Op::Trim {
            self.trim(lane, lba, sectors);
        } else {
            self.touch(lane, op == Op::Write, lba, sectors);
        }
        let stream = self.finish(lane, lba, sectors);
        let begin = if self.model.overlay { self.lanes[lane].base_page * PAGE_SECTORS } else { 0 };
        Request {
            arrival_ns,
            lba: self.offset_sectors + lba - begin,
            sectors: sectors as u32,
            op,
            stream,
            fua: false,
        }
    }

    fn finish(&mut self, lane: usize, lba: u64, sectors: u64) -> u16 {
        let lane = &mut self.lanes[lane];
        lane.end = Some(lba + sectors);
        lane.stream
    }

    /// A lane and an address for a request of a kind.
    fn place(&mut self, kind: usize, write: bool, sectors: u64, offset: u64) -> (usize, u64) {
        // While the stack is too small for any distance that is wanted, requests to new pages come first.
        let op = usize::from(write);
        let mut known = kind & KNOWN != 0;
        if known && self.cells[cell_of(write, UNWRITTEN, NEW)] > 0 && !self.has_old_enough(write) {
            self.exchanged[op] += 1;
            known = false;
        } else if !known && self.exchanged[op] > 0 && self.has_old_enough(write) {
            self.exchanged[op] -= 1;
            known = true;
        }
        if kind & SEQUENTIAL != 0 {
            // A run on known pages may stop where they do not fit, if another goes on instead of a jump.
            let wanted = if self.owed < self.most_owed {
                POOR_FIT
            } else if write && self.has_trims {
                UNWANTED_REWRITE / 2.0
            } else {
                f64::NEG_INFINITY
            };
            if let Some(found) = self.sequential_place(write, sectors, known, wanted) {
                return found;
            }
            self.owed += 1;
        }
        // Other jumps make up for what is owed and for pages that are known, not those that open regions.
        let jump = if known { None } else { self.draw_place(write, false) };
        let opens = jump.is_some_and(|place| place.rank == OPENED);
        if kind & SEQUENTIAL == 0
            && self.owed > 0
            && !opens
            && let Some(found) = self.sequential_place(write, sectors, known, GOOD_FIT)
        {
            self.owed -= 1;
            self.pass_over(jump, write);
            return found;
        }
        let pages = (offset + sectors).div_ceil(PAGE_SECTORS);
        // New pages that are still wanted, beyond those of the requests that are to touch new pages.
        let plan = self.plan[usize::from(write)];
        let new_left = self.cells[cell_of(write, UNWRITTEN, NEW)];
        let planned = plan.new + if known { 0 } else { pages.cast_signed() };
        let missing = new_left.saturating_sub(planned);
        let part = |pages: i64, among: i64| (pages as f64 / among.max(1) as f64).min(1.0);
        if self.pages.is_empty() {
            return self.new_place(write, sectors, offset, jump);
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
        if missing < 0
            && !opens
            && self.rng.unit() < part(missing.saturating_neg(), plan.jumps + pages.cast_signed())
        {
            self.pass_over(jump, write);
            return self.known_place(write, sectors, offset);
        }
        self.new_place(write, sectors, offset, jump)
    }

    /// A jump to new pages that goes nowhere: its place would be drawn again, instead of others.
    fn pass_over(&mut self, jump: Option<Place>, write: bool) {
        // With trims, pages that should be new are known because they were trimmed in part: others are new instead.
        if let Some(place) = jump.filter(|_| !self.has_trims) {
            self.places.take(place, write, false);
        }
    }

    /// A place that begins with known pages and ends with new ones, where a run of new pages stopped. Of the pages
    /// behind its first, `share` are to be new.
    fn edge_place(&mut self, write: bool, pages: u64, offset: u64, share: f64) -> Option<(usize, u64)> {
        let most_known = ((pages - 1) as f64 * 2.0 * (1.0 - share)).clamp(1.0, (pages - 1) as f64) as u64;
        let mut best: Option<(f64, usize, u64)> = None;
        for _ in 0..CANDIDATES {
            let region = match self.draw_place(write, true) {
                Some(wanted) => self.regions.of_rank(wanted.rank, &mut self.rng),
                None => self.regions.any(&mut self.rng),
            };
            let Some(region) = region else { continue };
            let begin = region.begin;
            let edge = region.known.next(region.last(), false);
            let known = 1 + self.rng.below_unbiased(most_known);
            let lane = self.lane_of(begin);
            let Some(start) = (begin + edge).checked_sub(known) else { continue };
            let inside = start >= begin && start + pages <= begin + REGION_PAGES;
            let new_behind = region.known.next(edge, true) - edge + known >= pages;
            let goes_on = self.lanes[lane].end == Some(start * PAGE_SECTORS + offset);
            if !inside || !new_behind || goes_on || !self.is_due(lane, write) || !self.is_known(start) {
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
        let first = cell_of(write, UNWRITTEN, 0);
        (0..NEW)
            .take_while(|bin| bin_start(DISTANCE_BITS, *bin) < live)
            .any(|bin| (0..OP_CELLS).step_by(256).any(|state| self.cells[first + state + bin] > 0))
    }

    /// Whether nothing has written a known page.
    fn is_unwritten(&self, page: u64) -> bool {
        self.index.get(scatter(page)).is_some_and(|index| self.pages[index as usize].state == UNWRITTEN)
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
                // Nor does a run to new pages go over known ones.
                if !known && self.next_known(end.div_ceil(PAGE_SECTORS)) <= last {
                    return None;
                }
                let pages = (end % PAGE_SECTORS + sectors).div_ceil(PAGE_SECTORS);
                let fits = !known || self.score(write, end / PAGE_SECTORS, pages) >= wanted;
                fits.then_some((lane, end, state.sequential_left + 1))
            })
            .collect();
        // A write does not go on within a page that was only read when enough of those were written.
        let enough = write && self.writes_left[UNWRITTEN] <= 0;
        let harmless =
            |end: u64| !enough || end.is_multiple_of(PAGE_SECTORS) || !self.is_unwritten(end / PAGE_SECTORS);
        if wanted > f64::NEG_INFINITY || fitting.iter().any(|(_, end, _)| harmless(*end)) {
            fitting.retain(|(_, end, _)| harmless(*end));
        }
        if fitting.iter().any(|(lane, ..)| self.is_due(*lane, write)) {
            fitting.retain(|(lane, ..)| self.is_due(*lane, write));
        }
        let total: u64 = fitting.iter().map(|(.., weight)| weight).sum();
        if total == 0 {
            return None;
        }
        let mut place = self.rng.below_unbiased(total);
        for (lane, end, weight) in fitting {
            if place >= weight {
                place -= weight;
                continue;
            }
            let left = &mut self.lanes[lane].sequential_left;
            *left = left.saturating_sub(1);
            return Some((lane, end));
        }
        None
    }

    /// A place among new pages, at `first` if there is room.
    fn new_place(
        &mut self,
        write: bool,
        sectors: u64,
        offset: u64,
        mut first: Option<Place>,
    ) -> (usize, u64) {
        let pages = (offset + sectors).div_ceil(PAGE_SECTORS);
        let mut best: Option<(u32, u64)> = None;
        // Runs are to find room.
        let ahead = (pages as f64 * self.new_requests[usize::from(write)]) as u64;
        for _ in 0..CANDIDATES {
            let wanted = first.take().or_else(|| self.draw_place(write, false));
            let Some(wanted) = wanted else { break };
            if wanted.rank == OPENED {
                let opening = wanted.opening();
                let within = opening.start + self.rng.below_unbiased(opening.end - opening.start);
                if let Some(page) = self.open(write, pages, within) {
                    best = Some((0, page));
                    break;
                }
                continue;
            }
            let Some(page) = self.gap(wanted, pages) else { continue };
            let number = self.lane_of(page);
            let lane = &self.lanes[number];
            if lane.end == Some(page * PAGE_SECTORS + offset) {
                continue;
            }
            let place = self.regions.place(page, page + pages - 1);
            let wants = self.places.wants(place, write, false);
            let room = self.next_known(page) - page >= ahead;
            let score = 16 * u32::from(lane.all[usize::from(write)] > 0)
                + 8 * u32::from(self.is_due(number, write))
                + 4 * u32::from(place == wanted)
                + 2 * u32::from(wants)
                + u32::from(lane.jumps_left > 0)
                + 2 * u32::from(room);
            if best.is_none_or(|(most, _)| score > most) {
                best = Some((score, page));
            }
            if score == 33 {
                break;
            }
        }
        let page = best
            .map(|(_, page)| page)
            .or_else(|| self.any_gap(write, pages))
            .or_else(|| self.open(write, pages, 0));
        let page = page.unwrap_or_else(|| {
            let lane = &self.lanes[self.rng.below_unbiased(self.lanes.len() as u64) as usize];
            lane.base_page + self.rng.below_unbiased((lane.regions * REGION_PAGES).saturating_sub(pages) + 1)
        });
        let lane = self.lane_of(page);
        self.lanes[lane].jumps_left = self.lanes[lane].jumps_left.saturating_sub(1);
        (lane, page * PAGE_SECTORS + offset)
    }

    fn draw_place(&mut self, write: bool, known: bool) -> Option<Place> {
        self.places.draw(self.regions.count(), write, known, &mut self.rng)
    }

    /// New pages at a place that is wanted, or near it.
    fn gap(&mut self, wanted: Place, pages: u64) -> Option<u64> {
        let (region, target) = self.regions.target(wanted, pages, &mut self.rng)?;
        region.known.gap(target, pages).map(|page| region.begin + page)
    }

    /// The first known page from `page` on, or one that is far behind.
    fn next_known(&self, page: u64) -> u64 {
        const REGIONS: u64 = 64;
        let first = page / REGION_PAGES;
        for region in first..first + REGIONS {
            let from = page.max(region * REGION_PAGES);
            if let Some(found) = self.regions.find(from) {
                let next = found.begin + found.known.next(from - found.begin, true);
                if next < found.begin + REGION_PAGES {
                    return next;
                }
            }
        }
        (first + REGIONS) * REGION_PAGES
    }

    fn any_gap(&mut self, write: bool, pages: u64) -> Option<u64> {
        (0..MORE_CANDIDATES).find_map(|_| {
            let begin = self.regions.any(&mut self.rng)?.begin;
            let region = self.regions.find(begin).filter(|_| self.is_due(self.lane_of(begin), write))?;
            region.known.gap(self.rng.below_unbiased(REGION_PAGES), pages).map(|page| region.begin + page)
        })
    }

    /// Pages from the page `within` of a region that nothing has touched.
    fn open(&mut self, write: bool, pages: u64, within: u64) -> Option<u64> {
        let left = |lane: usize, due: bool| {
            if due && !self.is_due(lane, write) { 0 } else { self.lanes[lane].regions_left }
        };
        let count = |due: bool| (0..self.lanes.len()).map(|lane| left(lane, due)).sum::<u64>();
        let (total, due) = match count(true) {
            0 => (count(false), false),
            total => (total, true),
        };
        let mut place = if total == 0 { 0 } else { self.rng.below_unbiased(total) };
        let drawn = (0..self.lanes.len()).position(|lane| {
            let left = if due && !self.is_due(lane, write) { 0 } else { self.lanes[lane].regions_left };
            let found = place < left;
            place = place.wrapping_sub(if found { 0 } else { left });
            found
        });
        // Where all have what they are to have, the widest.
        let widest = || (0..self.lanes.len()).max_by_key(|lane| self.lanes[*lane].regions);
        let lane = drawn.or_else(widest)?;
        self.lanes[lane].open(&self.regions, pages, within)
    }

    /// Move the pages of a request to the top of the stack, and count what they were.
    fn touch(&mut self, lane: usize, write: bool, lba: u64, sectors: u64) {
        let (first, last) = (lba / PAGE_SECTORS, (lba + sectors - 1) / PAGE_SECTORS);
        if self.lanes[lane].end != Some(lba) {
            self.places.take(self.regions.place(first, last), write, self.is_known(first));
        }
        self.forget_demands();
        let op = usize::from(write);
        self.lanes[lane].left[op] = self.lanes[lane].left[op].saturating_sub(1);
        self.left[op] = self.left[op].saturating_sub(1);
        let regions = self.regions.count();
        self.regions.touch(first, last, write);
        let left = &mut self.lanes[lane].regions_left;
        *left = left.saturating_sub(self.regions.count() - regions);
        for number in first..=last {
            if self.line.is_full() {
                self.renumber();
            }
            let back = (number - first) as u32;
            let (place, new) = self.index.entry(scatter(number));
            let (index, cell) = if new {
                let index = self.pages.len() as u32;
                self.index.set(place, index);
                self.pages.push(TouchedPage { number, slot: 0, back, count: 0, state: UNWRITTEN });
                (index, cell_of(write, UNWRITTEN, NEW))
            } else {
                let index = self.index.value(place);
                let page = self.pages[index as usize];
                let bin = bin_of(DISTANCE_BITS, self.line.after(page.slot as usize) as u64).min(NEW - 1);
                self.line.remove(page.slot as usize);
                self.classes[class_of(page.count)] -= 1;
                self.classes_left -= 1;
                self.supply[class_of(page.count)] -= 1;
                (index, cell_of(write, page.state, bin))
            };
            self.cells[cell] -= 1;
            if let Some(state) = rewritten_state(cell) {
                self.writes_left[state] -= 1;
                self.dead_pages -= u64::from(state == DEAD);
            }
            if write && self.pages[index as usize].state == UNWRITTEN {
                self.written.push(index);
            }
            let slot = self.line.push() as u32;
            self.at_slot[slot as usize] = index;
            let page = &mut self.pages[index as usize];
            (page.slot, page.back) = (slot, back);
            page.state = if write { LIVE } else { page.state };
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

impl VolumeState {
    /// The first page that belongs to the next volume.
    fn behind(&self) -> u64 {
        self.base_page + self.regions * REGION_PAGES
    }

    /// The page `within` of a region that is free, or one before where the `pages` would not fit it, with as many regions
    /// behind it as they need.
    fn open(&mut self, touched: &Regions, pages: u64, within: u64) -> Option<u64> {
        let regions = pages.div_ceil(REGION_PAGES);
        let within = within.min((regions * REGION_PAGES) - pages);
        let first = self.base_page / REGION_PAGES;
        // Both ends first, so that the range is that of the trace however few regions are opened.
        while self.drawn < self.regions + 2 {
            let region = match self.drawn {
                0 => 0,
                1 => self.span_regions.saturating_sub(regions),
                drawn if drawn < self.span_regions + 2 => self.order.map(drawn - 2),
                drawn => drawn - 2,
            };
            self.drawn += 1;
            let free =
                |region| region < self.regions && touched.find((first + region) * REGION_PAGES).is_none();
            if (region..region + regions).all(free) {
                return Some(self.base_page + region * REGION_PAGES + within);
            }
        }
        None
    }
}

impl RequestSource for FittedGenerator {
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
