//! Fitting a workload to a trace.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ftlab_core::host::request::{Op, Request, SourceError, SourceFactory};

use crate::fitted_model::{
    CELLS, CLASSES, DEAD, DISTANCE_BITS, FLUSH, GAP_BITS, KINDS, LIVE, NEW, PAGE_SECTORS, REGION_PAGES, TRIM,
    TRIM_CELLS, UNWRITTEN, VERSION, cell_of, class_of, frees, kind_of,
};
use crate::regions::{self, GROUP_RANKS, PLACES, Regions};
use crate::{FittedModel, FittedPhase, FittedStream};
use ftlab_stats::access_order::AccessOrder;
use ftlab_stats::bins::bin_of;
use ftlab_stats::pages::{PageMap, PageNames, scatter};
use ftlab_stats::{pages_of, whole_pages_of};
use ftlab_trace::ending;

/// Phases at most, and requests of a phase at least.
const PHASES: u64 = 12;
const PHASE_REQUESTS: u64 = 1000;
/// Sizes of a kind in a phase that are kept exactly, and groups of the others: of whole pages, and of others.
const SIZES: usize = 20;
const SIZE_GROUPS: usize = 4;
const SLOTS: usize = 1 << 12;

#[derive(Debug, Default)]
struct Volume {
    end: Option<u64>,
    lowest: Option<u64>,
    highest: u64,
    /// Where the last trim ended.
    trim_end: Option<u64>,
    regions: u64,
    pages: u64,
    jumps: u64,
    sequential: u64,
    reads: u64,
    writes: u64,
}

#[derive(Debug, Clone, Copy)]
struct SeenPage {
    slot: u32,
    count: u32,
    state: usize,
}

#[derive(Debug)]
struct Phase {
    began_ns: u64,
    kinds: [u64; KINDS],
    sizes: Vec<BTreeMap<(u64, u64), u64>>,
    cells: Vec<u64>,
    classes: Vec<u64>,
    ranks: Vec<u64>,
    trims: Vec<u64>,
    gaps: BTreeMap<usize, u64>,
}

impl Phase {
    fn new(began_ns: u64) -> Self {
        Self {
            began_ns,
            kinds: [0; KINDS],
            sizes: vec![BTreeMap::new(); FLUSH],
            cells: vec![0; CELLS],
            classes: vec![0; CLASSES],
            ranks: vec![0; GROUP_RANKS],
            trims: vec![0; TRIM_CELLS],
            gaps: BTreeMap::new(),
        }
    }
}

/// Gathers a model.
struct Fitter {
    every: u64,
    requests: u64,
    names: PageNames,
    index: PageMap,
    pages: Vec<SeenPage>,
    line: AccessOrder,
    volumes: BTreeMap<u16, Volume>,
    regions: Regions,
    places: Vec<u64>,
    follows: Vec<Vec<u64>>,
    previous: usize,
    now_ns: u64,
    phases: Vec<Phase>,
}

impl Fitter {
    fn new(requests: u64) -> Self {
        let phases = (requests / PHASE_REQUESTS).clamp(1, PHASES);
        Self {
            every: requests.div_ceil(phases).max(1),
            requests: 0,
            names: PageNames::default(),
            index: PageMap::default(),
            pages: Vec::new(),
            line: AccessOrder::new(SLOTS),
            volumes: BTreeMap::new(),
            regions: Regions::default(),
            places: vec![0; PLACES],
            follows: vec![vec![0; KINDS]; KINDS],
            previous: FLUSH,
            now_ns: 0,
            phases: Vec::new(),
        }
    }

    fn add(&mut self, request: &Request) {
        let Request { arrival_ns, lba, sectors, op, stream, .. } = *request;
        let before = if self.requests == 0 { arrival_ns } else { self.now_ns };
        let gap = arrival_ns.saturating_sub(before);
        self.now_ns = before + gap;
        if self.requests.is_multiple_of(self.every) {
            self.phases.push(Phase::new(before));
        }
        let phase = self.phases.len() - 1;
        if self.requests > 0 {
            *self.phases[phase].gaps.entry(bin_of(GAP_BITS, gap)).or_default() += 1;
        }
        self.requests += 1;
        let kind = match op {
            Op::Flush => FLUSH,
            Op::Trim => TRIM + usize::from(!frees(self.trim(request))),
            Op::Read | Op::Write => self.access(request),
        };
        self.phases[phase].kinds[kind] += 1;
        self.follows[self.previous][kind] += 1;
        self.previous = kind;
        if kind != FLUSH {
            let size = (u64::from(sectors), lba % PAGE_SECTORS);
            *self.phases[phase].sizes[kind].entry(size).or_default() += 1;
            let volume = self.volumes.entry(stream).or_default();
            let end = lba + u64::from(sectors);
            volume.end = Some(end);
            volume.lowest = Some(volume.lowest.map_or(lba, |lowest| lowest.min(lba)));
            volume.highest = volume.highest.max(end);
            volume.reads += u64::from(op == Op::Read);
            volume.writes += u64::from(op == Op::Write);
        }
    }

    fn index_of(&mut self, volume: u16, page: u64) -> Option<usize> {
        let mut key = 0;
        self.names.ranges(volume, page, page, |name, _| key = scatter(name));
        self.index.get(key).map(|index| index as usize)
    }

    /// Count a trim, and note which pages it frees; gives its cell.
    fn trim(&mut self, request: &Request) -> usize {
        let (volume, lba) = (request.stream, request.lba);
        let goes_on = self.volumes.get(&volume).is_some_and(|volume| volume.trim_end == Some(lba));
        self.volumes.entry(volume).or_default().trim_end = Some(lba + u64::from(request.sectors));
        let whole = whole_pages_of(request);
        let (first, last) = whole.unwrap_or_else(|| pages_of(request));
        let cell = self.index_of(volume, first).map_or(cell_of(goes_on, UNWRITTEN, NEW), |index| {
            let page = self.pages[index];
            let bin = bin_of(DISTANCE_BITS, self.line.after(page.slot as usize) as u64).min(NEW - 1);
            cell_of(goes_on, page.state, bin)
        });
        if let Some(phase) = self.phases.last_mut() {
            phase.trims[cell] += 1;
        }
        if whole.is_some() {
            self.names.ranges(volume, first, last, |first, last| {
                for name in self.regions.trim(first, last) {
                    if let Some(index) = self.index.get(scatter(name)) {
                        self.pages[index as usize].state = DEAD;
                    }
                }
            });
        }
        cell
    }

    /// Count the pages of a read or write; gives its kind.
    fn access(&mut self, request: &Request) -> usize {
        let write = request.op == Op::Write;
        let (first, last) = pages_of(request);
        let sequential =
            self.volumes.get(&request.stream).is_some_and(|volume| volume.end == Some(request.lba));
        // What is sequential shares its first page with the request before it.
        let telling = if sequential { last } else { first };
        let known = self.index_of(request.stream, telling).is_some();
        let regions = self.regions.count();
        let mut is_first = true;
        self.names.ranges(request.stream, first, last, |first, last| {
            if is_first
                && !sequential
                && let Some(phase) = self.phases.last_mut()
            {
                let place = self.regions.place(first, last);
                phase.ranks[place.group_rank(write, known)] += 1;
                self.places[place.number(write, known)] += 1;
            }
            self.regions.touch(first, last, write);
            is_first = false;
        });
        let mut names = std::mem::take(&mut self.names);
        let mut new = 0;
        names.ranges(request.stream, first, last, |first, last| {
            for name in first..=last {
                new += u64::from(self.touch(name, write));
            }
        });
        self.names = names;
        let volume = self.volumes.entry(request.stream).or_default();
        volume.pages += new;
        volume.regions += self.regions.count() - regions;
        volume.sequential += u64::from(sequential);
        volume.jumps += u64::from(!sequential && !known);
        kind_of(write, sequential, known)
    }

    fn touch(&mut self, name: u64, write: bool) -> bool {
        if self.line.is_full() {
            let (line, moved) = self.line.renumbered(SLOTS);
            for page in &mut self.pages {
                page.slot = moved(page.slot as usize) as u32;
            }
            self.line = line;
        }
        let (place, new) = self.index.entry(scatter(name));
        let phase = self.phases.len() - 1;
        let phase = &mut self.phases[phase];
        let index = if new {
            self.index.set(place, self.pages.len() as u32);
            self.pages.push(SeenPage { slot: 0, count: 0, state: UNWRITTEN });
            phase.cells[cell_of(write, UNWRITTEN, NEW)] += 1;
            self.pages.len() - 1
        } else {
            let index = self.index.value(place) as usize;
            let page = self.pages[index];
            let bin = bin_of(DISTANCE_BITS, self.line.after(page.slot as usize) as u64).min(NEW - 1);
            phase.cells[cell_of(write, page.state, bin)] += 1;
            phase.classes[class_of(page.count)] += 1;
            self.line.remove(page.slot as usize);
            index
        };
        let slot = self.line.push() as u32;
        let page = &mut self.pages[index];
        page.slot = slot;
        page.state = if write { LIVE } else { page.state };
        page.count = page.count.saturating_add(1);
        new
    }

    fn finish(self) -> FittedModel {
        let mut ends: Vec<u64> = self.phases.iter().skip(1).map(|phase| phase.began_ns).collect();
        ends.push(self.now_ns);
        let rows = |counts: &[u64]| {
            let filled = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            filled.map(|(bin, count)| [bin as u64, *count]).collect::<Vec<_>>()
        };
        let phases = self.phases.iter().zip(ends).map(|(phase, end)| FittedPhase {
            duration_ns: end - phase.began_ns,
            kinds: phase.kinds.to_vec(),
            sizes: phase.sizes.iter().map(grouped).collect(),
            pages: rows(&phase.cells),
            popularity: rows(&phase.classes),
            ranks: rows(&phase.ranks),
            trims: rows(&phase.trims),
            gaps: phase.gaps.iter().map(|(bin, count)| [*bin as u64, *count]).collect(),
        });
        let streams = self.volumes.iter().map(|(stream, volume)| FittedStream {
            stream: *stream,
            span_regions: (volume.highest - volume.lowest.unwrap_or(0)).div_ceil(REGION_PAGES * PAGE_SECTORS),
            touched_regions: volume.regions,
            pages: volume.pages,
            jumps: volume.jumps,
            sequential: volume.sequential,
            reads: volume.reads,
            writes: volume.writes,
        });
        let mut streams: Vec<FittedStream> = streams.collect();
        if streams.is_empty() {
            streams.push(FittedStream::default());
        }
        let mut ranges: Vec<(u64, u64)> =
            self.volumes.values().map(|volume| (volume.lowest.unwrap_or(0), volume.highest)).collect();
        ranges.sort_unstable();
        let overlay = ranges.windows(2).any(|pair| pair[1].0 < pair[0].1);
        FittedModel {
            version: VERSION,
            overlay,
            streams,
            follows: self.follows,
            places: regions::rows(&self.places),
            phases: phases.collect(),
        }
    }
}

/// Sizes with their offsets: the most frequent as they are, the others in groups by size that keep the mean. Whole pages
/// stay whole pages, so that what goes on behind them begins with a page.
fn grouped(sizes: &BTreeMap<(u64, u64), u64>) -> Vec<[u64; 3]> {
    let mut rows: Vec<[u64; 3]> =
        sizes.iter().map(|((sectors, offset), count)| [*sectors, *offset, *count]).collect();
    rows.sort_by(|a, b| b[2].cmp(&a[2]).then(a.cmp(b)));
    if rows.len() <= SIZES + SIZE_GROUPS {
        return rows;
    }
    let mut others = rows.split_off(SIZES);
    others.sort_unstable();
    let (pages, sectors): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|row| row[0].is_multiple_of(PAGE_SECTORS));
    for (rows_alike, unit) in [(pages, PAGE_SECTORS), (sectors, 1)] {
        let total: u64 = rows_alike.iter().map(|row| row[2]).sum();
        let (mut before, mut groups, mut begin) = (0, 0, 0);
        for (place, row) in rows_alike.iter().enumerate() {
            before += row[2];
            if before * SIZE_GROUPS as u64 >= total * (groups + 1) || place + 1 == rows_alike.len() {
                rows.extend(mean_rows(&rows_alike[begin..=place], unit));
                groups += 1;
                begin = place + 1;
            }
        }
    }
    rows
}

/// As many requests of as many sectors in all as in `group`, of two sizes that are next to each other in units of `unit`
/// sectors.
fn mean_rows(group: &[[u64; 3]], unit: u64) -> impl Iterator<Item = [u64; 3]> + use<> {
    let count: u64 = group.iter().map(|row| row[2]).sum();
    let units: u64 = group.iter().map(|row| row[0] / unit * row[2]).sum();
    let offset = group.iter().max_by_key(|row| row[2]).map_or(0, |row| row[1]);
    let (size, larger) = (units / count, units % count);
    let rows = [[size * unit, offset, count - larger], [(size + 1) * unit, offset, larger]];
    rows.into_iter().filter(|row| row[2] > 0)
}

/// Describe a trace of `requests` requests so that a workload of kind `fitted` resembles it.
///
/// # Errors
/// Those of the trace. Also when it is empty, or has reads, writes or trims of nothing. Also when it is larger than a
/// workload can be, such as longer than the longest run.
pub fn fit(trace: &dyn SourceFactory, requests: u64) -> Result<FittedModel, SourceError> {
    const BATCH_REQUESTS: usize = 4096;
    let refused = |expected: String| Err(SourceError { expected, ..SourceError::default() });
    let mut fitter = Fitter::new(requests);
    let mut source = trace.open(0)?;
    let mut batch = Vec::with_capacity(BATCH_REQUESTS);
    let mut left = requests;
    while left > 0 && source.fill(&mut batch, BATCH_REQUESTS.min(left as usize))? > 0 {
        ending::check("")?;
        left -= batch.len() as u64;
        for request in batch.drain(..) {
            if request.sectors == 0 && request.op != Op::Flush {
                let (number, op) = (fitter.requests + 1, request.op.name());
                return refused(format!("cannot be fitted: request {number}, a {op}, has no sectors"));
            }
            fitter.add(&request);
        }
    }
    if fitter.requests == 0 {
        return refused("nothing to fit: no request".into());
    }
    let model = fitter.finish();
    match model.validate() {
        Ok(()) => Ok(model),
        Err(error) => refused(format!("cannot be fitted: {error}")),
    }
}

fn list<T>(rows: &[T], text: impl Fn(&T) -> String) -> String {
    format!("[{}]", rows.iter().map(text).collect::<Vec<_>>().join(","))
}

fn numbers(row: &[u64]) -> String {
    list(row, u64::to_string)
}

/// The text of a workload file for `model`, with a line for each table. `description` says what it was fitted to.
pub fn to_toml(description: &str, model: &FittedModel) -> String {
    let quoted =
        description.replace('\\', "\\\\").replace('"', "\\\"").replace(|c: char| c.is_control(), " ");
    let mut text = format!(
        "# Fitted to a trace: counts and distributions only, none of its addresses.\n\ndescription = \"{quoted}\"\n\n\
         [workload]\nkind = \"fitted\"\n# The range of the model: pages have room to spread. Less, down to {} bytes, moves regions together.\n\
         footprint_bytes = {}\n\n[workload.fitted]\nversion = {}\noverlay = {}\nfollows = {}\nplaces = {}\n",
        model.needed_bytes(),
        model.span_bytes(),
        model.version,
        model.overlay,
        list(&model.follows, |row| numbers(row)),
        list(&model.places, |row| numbers(row))
    );
    // Writing to a String cannot fail.
    for stream in &model.streams {
        let FittedStream { stream, span_regions, touched_regions, pages, jumps, sequential, reads, writes } =
            stream;
        let _ = write!(
            text,
            "\n[[workload.fitted.streams]]\nstream = {stream}\nspan_regions = {span_regions}\ntouched_regions = \
             {touched_regions}\npages = {pages}\njumps = {jumps}\nsequential = {sequential}\nreads = {reads}\nwrites = {writes}\n"
        );
    }
    for phase in &model.phases {
        let pairs = |rows: &[[u64; 2]]| list(rows, |row| numbers(row));
        let _ = write!(
            text,
            "\n[[workload.fitted.phases]]\nduration_ns = {}\nkinds = {}\nsizes = {}\npages = {}\npopularity = {}\nranks \
             = {}\ntrims = {}\ngaps = {}\n",
            phase.duration_ns,
            numbers(&phase.kinds),
            list(&phase.sizes, |rows| list(rows, |row| numbers(row))),
            pairs(&phase.pages),
            pairs(&phase.popularity),
            pairs(&phase.ranks),
            pairs(&phase.trims),
            pairs(&phase.gaps)
        );
    }
    text
}
