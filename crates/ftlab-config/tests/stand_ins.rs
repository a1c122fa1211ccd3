//! Every workload with a calibration has the statistics that it states.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};

use ftlab_config::{Kind, load_workload, presets};
use ftlab_core::host::request::{Op, Request};
use ftlab_workload::WorkloadFile;
use ftlab_workload::stand_in::{Calibration, Expected, ShapeName, SizeName, Target};

const SECTORS_PER_PAGE: u64 = 8;
/// The file system's journal of kind `phone_sqlite`.
const JOURNAL_SECTORS: u64 = (32 << 20) / 512;
const PAGES_PER_TRANSLATION_PAGE: u64 = 1024;
/// Translation pages that are cached where intra-distances are counted: 4 MiB.
const CACHED: usize = 1024;
/// Larger than every stand-in.
const CAPACITY: u64 = 4 << 40;

/// Pages that are counted side by side: few, because small random requests touch one or two of them.
const CHUNK: usize = 64;

/// Pages of 4 KiB, counted.
#[derive(Default)]
struct Pages {
    chunks: Vec<Option<Box<[u32; CHUNK]>>>,
}

impl Pages {
    fn add(&mut self, page: u64) {
        let chunk = page as usize / CHUNK;
        if chunk >= self.chunks.len() {
            self.chunks.resize_with(chunk + 1, || None);
        }
        self.chunks[chunk].get_or_insert_with(|| Box::new([0; CHUNK]))[page as usize % CHUNK] += 1;
    }

    /// Every touched page with its count, in order.
    fn touched(&self, mut visit: impl FnMut(u64, u32)) {
        self.chunks.iter().zip(0u64..).for_each(|(chunk, index)| {
            let counts = chunk.iter().flat_map(|counts| counts.iter()).zip(index * CHUNK as u64..);
            counts.filter(|(count, _)| **count > 0).for_each(|(count, page)| visit(page, *count));
        });
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.touched(|_, count| {
            counts.pages += 1;
            counts.accesses += u64::from(count);
            *at(&mut counts.accessed, u64::from(count)) += 1;
        });
        counts
    }
}

/// The element at an index, which the vector grows to have. Maps would take most of the time of the longest test: they are
/// slow where little is optimised.
fn at<T: Default + Clone>(of: &mut Vec<T>, index: u64) -> &mut T {
    let index = index as usize;
    if index >= of.len() {
        of.resize(index + 1, T::default());
    }
    &mut of[index]
}

#[derive(Default)]
struct Counts {
    pages: u64,
    accesses: u64,
    /// How many pages are accessed 0, 1, 2 and more times.
    accessed: Vec<u64>,
}

impl Counts {
    /// The share of the accesses that goes to this share of the pages, the hottest.
    fn hottest(&self, share: f64) -> f64 {
        let mut left = (self.pages as f64 * share).round() as u64;
        let mut taken = 0;
        for (times, pages) in self.accessed.iter().enumerate().rev() {
            let pages = left.min(*pages);
            left -= pages;
            taken += pages * times as u64;
        }
        taken as f64 / self.accesses as f64
    }
}

const NONE: u32 = u32::MAX;

/// A translation page that is cached, between those that were used before and after it.
struct Cached {
    unit: u64,
    origin: u64,
    older: u32,
    newer: u32,
}

/// Distances from the page whose miss loaded a translation page to the pages that hit in it later.
struct IntraDistances {
    cached: Vec<Cached>,
    /// For each translation page, one more than its place in `cached`.
    places: Vec<u32>,
    oldest: u32,
    newest: u32,
    below: u64,
    histogram: Vec<u64>,
}

impl IntraDistances {
    fn new() -> Self {
        Self {
            cached: Vec::with_capacity(CACHED),
            places: Vec::new(),
            oldest: NONE,
            newest: NONE,
            below: 0,
            histogram: vec![0; PAGES_PER_TRANSLATION_PAGE as usize],
        }
    }

    fn touch(&mut self, page: u64) {
        let unit = page / PAGES_PER_TRANSLATION_PAGE;
        let place = *at(&mut self.places, unit);
        if place > 0 {
            let origin = self.cached[place as usize - 1].origin;
            if page < origin {
                self.below += 1;
            } else {
                self.histogram[(page - origin) as usize] += 1;
            }
            self.unlink(place - 1);
            self.link(place - 1);
            return;
        }
        let new = Cached { unit, origin: page, older: NONE, newer: NONE };
        let place = if self.cached.len() == CACHED {
            let oldest = self.oldest;
            self.unlink(oldest);
            let before = std::mem::replace(&mut self.cached[oldest as usize], new);
            self.places[before.unit as usize] = 0;
            oldest
        } else {
            self.cached.push(new);
            self.cached.len() as u32 - 1
        };
        self.places[unit as usize] = place + 1;
        self.link(place);
    }

    fn unlink(&mut self, place: u32) {
        let Cached { older, newer, .. } = self.cached[place as usize];
        match self.cached.get_mut(older as usize) {
            Some(cached) => cached.newer = newer,
            None => self.oldest = newer,
        }
        match self.cached.get_mut(newer as usize) {
            Some(cached) => cached.older = older,
            None => self.newest = older,
        }
    }

    fn link(&mut self, place: u32) {
        let newest = std::mem::replace(&mut self.newest, place);
        let cached = &mut self.cached[place as usize];
        (cached.older, cached.newer) = (newest, NONE);
        match self.cached.get_mut(newest as usize) {
            Some(cached) => cached.newer = place,
            None => self.oldest = place,
        }
    }

    fn above(&self) -> u64 {
        self.histogram[1..].iter().sum()
    }

    fn above_within(&self, distance: usize) -> u64 {
        self.histogram[1..distance].iter().sum()
    }
}

/// What calibrations speak of.
struct Measured {
    values: HashMap<Cow<'static, str>, f64>,
    distances: Option<IntraDistances>,
    small_writes: f64,
    small_sequential: f64,
    large_sequential: f64,
    hottest_thousandth: f64,
}

/// Where the last request of each stream ended, of two kinds.
#[derive(Default)]
struct Ends(Vec<[Option<u64>; 2]>);

impl Ends {
    fn follows(&mut self, request: &Request, kind: u8) -> bool {
        let end = &mut at(&mut self.0, u64::from(request.stream))[usize::from(kind)];
        end.replace(request.lba + u64::from(request.sectors)) == Some(request.lba)
    }
}

fn measure(file: &WorkloadFile, calibration: &Calibration) -> Measured {
    let mut source = file.workload.factory(CAPACITY, None, None).unwrap().open(0).unwrap();
    let mut batch: Vec<Request> = Vec::with_capacity(4096);
    let (mut ops, mut sectors) = ([0u64; 4], [0u64; 4]);
    let mut pages = Pages::default();
    let (mut low, mut high) = (u64::MAX, 0);
    let (mut any, mut by_op) = (Ends::default(), Ends::default());
    let (mut sequential, mut sequential_by_op) = (0u64, [0u64; 4]);
    let (mut aligned, mut writes_4k) = (0u64, 0u64);
    let (mut small, mut small_follow, mut large, mut large_follow) = (0u64, 0u64, 0u64, 0u64);
    let (mut first, mut last, mut gaps, mut squares) = (None, 0, 0u64, 0.0f64);
    let (mut sizes, mut starts) = (Vec::<u64>::new(), HashSet::new());
    let mut begins = Vec::new();
    let (mut written, mut journal) = (Pages::default(), 0u64);
    let mut distances = (!calibration.shape.is_empty()).then(IntraDistances::new);
    while source.fill(&mut batch, 4096).unwrap() > 0 {
        for request in batch.drain(..) {
            assert!(
                request.arrival_ns >= last || first.is_none(),
                "{}: arrivals are out of order",
                file.name
            );
            let op = request.op as usize;
            ops[op] += 1;
            if first.is_none() {
                first = Some(request.arrival_ns);
            } else {
                gaps += 1;
                squares += ((request.arrival_ns - last) as f64).powi(2);
            }
            last = request.arrival_ns;
            if calibration.distinct_starts.is_some() && request.op != Op::Flush {
                starts.insert((request.stream, request.lba));
            }
            if !matches!(request.op, Op::Read | Op::Write) {
                continue;
            }
            let length = u64::from(request.sectors);
            sectors[op] += length;
            *at(&mut sizes, length) += 1;
            if calibration.first_fifth.is_some() {
                begins.push(request.lba);
            }
            if request.op == Op::Write && request.lba < JOURNAL_SECTORS {
                journal += length;
            }
            (low, high) = (low.min(request.lba), high.max(request.lba + length));
            for page in request.lba / SECTORS_PER_PAGE..(request.lba + length).div_ceil(SECTORS_PER_PAGE) {
                pages.add(page);
                if calibration.footprint_written_bytes.is_some() && request.op == Op::Write {
                    written.add(page);
                }
                if let Some(distances) = &mut distances {
                    distances.touch(page);
                }
            }
            sequential += u64::from(any.follows(&request, 0));
            let follows = by_op.follows(&request, op as u8);
            sequential_by_op[op] += u64::from(follows);
            aligned += u64::from(request.lba % SECTORS_PER_PAGE == 0);
            if request.op == Op::Write {
                writes_4k += u64::from(request.sectors == 8);
                if request.sectors <= 16 {
                    small += 1;
                    small_follow += u64::from(follows);
                } else if request.sectors >= 256 {
                    large += 1;
                    large_follow += u64::from(follows);
                }
            }
        }
    }
    let [reads, writes, trims, flushes] = ops;
    let all = (reads + writes + trims + flushes) as f64;
    let moved = (reads + writes) as f64;
    let bytes = |sectors: u64| sectors as f64 * 512.0;
    let counts = pages.counts();
    let hottest = |share: f64| counts.hottest(share);
    let unit = match calibration.footprint_unit_bytes {
        Some(Expected::Value(bytes)) => bytes as u64 / 4096,
        _ => 1,
    };
    let footprint = if unit == 1 {
        counts.pages as f64
    } else {
        let (mut units, mut next) = (0u64, 0);
        pages.touched(|page, _| {
            units += u64::from(page >= next);
            next = (page / unit + 1) * unit;
        });
        units as f64
    };
    let mean_gap = (last - first.unwrap_or(0)) as f64 / gaps as f64;
    let ratio = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let first = |share: f64| {
        let end = low as f64 + (high - low) as f64 * share;
        ratio(begins.iter().filter(|lba| (**lba as f64) < end).count() as u64, begins.len() as u64)
    };
    let values = [
        ("requests", all),
        ("read_fraction", reads as f64 / moved),
        ("write_fraction", writes as f64 / all),
        ("trim_fraction", trims as f64 / all),
        ("flush_fraction", flushes as f64 / all),
        ("read_bytes_fraction", ratio(sectors[0], sectors[0] + sectors[1])),
        ("mean_bytes", bytes(sectors[0] + sectors[1]) / moved),
        ("mean_read_bytes", bytes(sectors[0]) / reads.max(1) as f64),
        ("mean_write_bytes", bytes(sectors[1]) / writes.max(1) as f64),
        ("page_accesses", counts.accesses as f64),
        ("span_bytes", bytes(high - low)),
        ("footprint_bytes", footprint * unit as f64 * 4096.0),
        ("sequential_fraction", sequential as f64 / moved),
        ("sequential_read_fraction", ratio(sequential_by_op[0], reads)),
        ("sequential_write_fraction", ratio(sequential_by_op[1], writes)),
        ("aligned_fraction", aligned as f64 / moved),
        ("write_4k_fraction", ratio(writes_4k, writes)),
        ("pages_per_request", counts.accesses as f64 / moved),
        ("footprint_written_bytes", written.counts().pages as f64 * 4096.0),
        ("distinct_starts", starts.len() as f64),
        ("first_twentieth", first(0.05)),
        ("first_fifth", first(0.2)),
        ("journal_bytes_fraction", ratio(journal, sectors[1])),
        ("hottest_hundredth", hottest(0.01)),
        ("hottest_twentieth", hottest(0.05)),
        ("hottest_tenth", hottest(0.1)),
        ("hottest_fifth", hottest(0.2)),
        ("mean_gap_us", mean_gap / 1e3),
        ("gap_cv", (squares / gaps as f64 - mean_gap * mean_gap).max(0.0).sqrt() / mean_gap),
    ];
    let of_size = |SizeName(bytes): &SizeName| {
        let count = sizes.get((bytes / 512) as usize).copied().unwrap_or(0);
        (Cow::Owned(SizeName(*bytes).statistic()), count as f64 / moved)
    };
    let values = values.map(|(name, value)| (Cow::Borrowed(name), value));
    Measured {
        values: values.into_iter().chain(calibration.sizes.keys().map(of_size)).collect(),
        distances,
        small_writes: ratio(small, writes),
        small_sequential: ratio(small_follow, small),
        large_sequential: ratio(large_follow, large),
        hottest_thousandth: hottest(0.001),
    }
}

fn has_shape(measured: &Measured, shape: ShapeName) -> bool {
    let distances = measured.distances.as_ref().expect("a shape is asked for");
    let (zero, above, below) = (distances.histogram[0], distances.above(), distances.below);
    match shape {
        ShapeName::IntraDistanceZero => distances.histogram.iter().all(|count| *count <= zero),
        ShapeName::IntraDistanceForward => above > below,
        ShapeName::IntraDistanceNear => 2 * distances.above_within(128) > above,
        ShapeName::IntraDistanceFar => 2 * distances.above_within(128) < above,
        ShapeName::IntraDistanceBothSides => above.max(below) as f64 <= 0.65 * (above + below) as f64,
        ShapeName::SmallHotLargeSequential => {
            measured.small_writes > 0.5
                && measured.small_sequential < 0.4
                && measured.large_sequential > 0.8
                && measured.hottest_thousandth > 0.1
        }
    }
}

/// What is not as it should be.
fn check(name: &str, seed: u64) -> Option<String> {
    let file = match load_workload(name, &[format!("seed={seed}")]) {
        Ok((_, file)) => file,
        Err(problems) => return Some(problems.to_string()),
    };
    let calibration = file.calibration.clone().expect("a calibration");
    let measured = measure(&file, &calibration);
    let mut wrong = Vec::new();
    let mut report = Vec::new();
    for Target { statistic, expected, bounds: (least, most) } in calibration.targets() {
        let found = measured.values[&statistic];
        report.push(format!("  {statistic} = {found}"));
        if !(least..=most).contains(&found) {
            wrong.push(format!("{statistic}: {found}, expected {expected:?}"));
        }
    }
    for shape in &calibration.shape {
        if !has_shape(&measured, *shape) {
            wrong.push(format!("shape {shape:?}"));
        }
    }
    if let Some(distances) = &measured.distances {
        report.push(format!(
            "  intra-distances: 0 {}, highest other {:?}, below {}, above {}, of them within 128 {}",
            distances.histogram[0],
            distances.histogram.iter().enumerate().skip(1).max_by_key(|(_, count)| **count),
            distances.below,
            distances.above(),
            distances.above_within(128)
        ));
        report.push(format!(
            "  small writes {}, sequential {}; large sequential {}; hottest thousandth {}",
            measured.small_writes,
            measured.small_sequential,
            measured.large_sequential,
            measured.hottest_thousandth
        ));
    }
    (!wrong.is_empty())
        .then(|| format!("{name}, seed {seed}:\n{}\nmeasured:\n{}", wrong.join("\n"), report.join("\n")))
}

fn calibrated() -> Vec<&'static str> {
    let names = presets(Kind::Workload).into_iter().filter(|preset| preset.text.contains("[calibration]"));
    names.map(|preset| preset.name).collect()
}

/// Those of five million requests and more are for `make test-long`.
const HUGE: [&str; 3] = ["like-oltp", "like-jedec", "like-financial"];

/// Those of a million requests and more, for `make test-long` too. They are begun after the former, before all others.
const LARGE: [&str; 6] = [
    "like-gs3",
    "like-websearch",
    "jesd219-enterprise",
    "jesd219-client",
    "tpcc-small-pool",
    "tpcc-large-pool",
];

/// The smaller ones with one seed (all with ten in `make test-long`), two at a time.
#[test]
fn every_calibrated_workload_has_its_statistics() {
    let mut names = calibrated();
    let first: Vec<&str> = HUGE.into_iter().chain(LARGE).collect();
    assert!(names.len() >= 10 && first.iter().all(|large| names.contains(large)), "{names:?}");
    let long = std::env::var_os("FTLAB_LONG").is_some();
    names.retain(|name| long || !first.contains(name));
    let seeds = 1..=if long { 10 } else { 1 };
    let mut all: Vec<(&str, u64)> =
        seeds.flat_map(|seed| names.iter().map(move |name| (*name, seed))).collect();
    all.sort_by_key(|(name, _)| first.iter().position(|large| large == name).unwrap_or(first.len()));
    let next = AtomicUsize::new(0);
    let failures: Vec<String> = std::thread::scope(|scope| {
        let work = || {
            let mine = std::iter::from_fn(|| all.get(next.fetch_add(1, Ordering::Relaxed)));
            mine.filter_map(|(name, seed)| check(name, *seed)).collect::<Vec<String>>()
        };
        let other = scope.spawn(work);
        let mut failures = work();
        failures.extend(other.join().unwrap());
        failures
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn every_stand_in_says_so() {
    for name in calibrated() {
        let (_, file) = load_workload(name, &[]).unwrap();
        assert!(file.calibration.unwrap().source.len() > 20, "{name}");
        let stands_for = file.stand_in.map_or(0, |stand_in| stand_in.stands_for.len());
        assert_eq!(name.starts_with("like-"), stands_for > 10, "{name}");
        assert_eq!(name.starts_with("like-"), file.description.contains("stand-in"), "{name}");
    }
}
