//! What `ftlab trace fit` finds in a trace: counts and distributions, and no addresses.
//!
//! It says, phase by phase, how many requests of each kind there were, their sizes, and how their pages stood in the
//! order of last accesses.

use std::collections::BTreeSet;

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::SECTOR_BYTES;
use ftlab_core::time::{LATEST_DAYS, LATEST_NS};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::refusal::refuse;
use crate::regions::{GROUP_RANKS, is_row};
use ftlab_stats::bins::bin_of;

pub(crate) const PAGE_SECTORS: u64 = 8;
/// Pages of a region: 4 MiB, what one translation page of 4 KiB maps.
pub(crate) const REGION_PAGES: u64 = 1024;
pub(crate) const REGION_SECTORS: u64 = REGION_PAGES * PAGE_SECTORS;
/// Distances are kept in 4 bins to the octave.
pub(crate) const DISTANCE_BITS: u32 = 2;
/// Times are kept in 8 bins to the octave.
pub(crate) const GAP_BITS: u32 = 3;
/// Bins of distances below this number; it stands for pages that nothing had touched.
pub(crate) const NEW: usize = 255;
/// What became of a page: it was never written, its data live, or were trimmed.
pub(crate) const UNWRITTEN: usize = 0;
pub(crate) const LIVE: usize = 1;
pub(crate) const DEAD: usize = 2;
/// Accesses of an operation: state of the page, and the bin of the distance.
pub(crate) const OP_CELLS: usize = 3 * 256;
pub(crate) const CELLS: usize = 2 * OP_CELLS;
/// Trims: whether they begin where the trim before on the volume ended, state of the first page, and the bin of its
/// distance.
pub(crate) const TRIM_CELLS: usize = 2 * OP_CELLS;
/// How often a page was accessed before, in 4 bins to the octave.
const CLASS_BITS: u32 = 2;
pub(crate) const CLASSES: usize = 128;

/// Kinds of requests. Reads come first, then writes. Each has four kinds: a jump to new pages, sequential to new pages,
/// a jump to known pages, sequential to known pages. Then come trims that begin with a live page, other trims, and
/// flushes.
pub(crate) const KINDS: usize = 11;
pub(crate) const TRIM: usize = 8;
pub(crate) const FLUSH: usize = 10;
pub(crate) const SEQUENTIAL: usize = 1;
pub(crate) const KNOWN: usize = 2;

pub(crate) fn kind_of(write: bool, sequential: bool, known: bool) -> usize {
    4 * usize::from(write) + SEQUENTIAL * usize::from(sequential) + KNOWN * usize::from(known)
}

/// Whether a trim of a cell begins with a live page.
pub(crate) fn frees(trim: usize) -> bool {
    trim % OP_CELLS / 256 == LIVE && trim % 256 != NEW
}

/// The cell of an access, or of a trim that goes on or not.
pub(crate) fn cell_of(second: bool, state: usize, bin: usize) -> usize {
    usize::from(second) * OP_CELLS + state * 256 + bin
}

pub(crate) fn class_of(count: u32) -> usize {
    bin_of(CLASS_BITS, count.into()).min(CLASSES - 1)
}

/// What `ftlab trace fit` found in a trace.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FittedModel {
    /// Version of this description, 2. What older ones say is not enough.
    ///
    /// Default: 0 stands for descriptions that are too old to have one.
    #[serde(default)]
    pub version: u32,
    /// Whether the address spaces of volumes lie on top of each other, rather than side by side.
    ///
    /// Default: `ftlab trace fit` writes it where volumes lay on top of each other.
    #[serde(default)]
    pub overlay: bool,
    /// Volumes of the trace.
    pub streams: Vec<FittedStream>,
    /// How often a request of one kind follows one of another: a row for each kind, in the order of `kinds` of a phase.
    pub follows: Vec<Vec<u64>>,
    /// Jumps by their place: the rank as phases have it, then how many by step. Less than 16 pages from the last
    /// request in the region, the step is 4 plus (upwards) or minus (downwards) the octave of the distance. Otherwise
    /// it is 19 plus or minus the octave of the distance from where the region was first touched. Where nothing had
    /// touched the region, it is the 32nd of the region in which they begin.
    ///
    /// Default: `ftlab trace fit` writes them; a trace without jumps has none.
    #[serde(default)]
    pub places: Vec<Vec<u64>>,
    /// Equal parts of the trace, by requests.
    pub phases: Vec<FittedPhase>,
}

/// A volume of a fitted trace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FittedStream {
    /// Its number.
    pub stream: u16,
    /// Address range in regions of 4 MiB.
    pub span_regions: u64,
    /// Regions that are touched.
    pub touched_regions: u64,
    /// Distinct pages of 4 KiB.
    pub pages: u64,
    /// Requests that jump to new pages.
    pub jumps: u64,
    /// Sequential requests.
    pub sequential: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
}

/// A part of a fitted trace.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FittedPhase {
    /// From the last arrival before it, or its first, to its last arrival.
    pub duration_ns: u64,
    /// Requests by kind. Reads come first, then writes. Each has four kinds: a jump to new pages, sequential to new
    /// pages, a jump to known pages, sequential to known pages. Then come trims that begin with live pages, other
    /// trims, and flushes.
    pub kinds: Vec<u64>,
    /// Sizes by kind (all but flushes): sectors, sectors from the begin of a 4 KiB page, requests.
    pub sizes: Vec<Vec<[u64; 3]>>,
    /// Page accesses by what they find; then how many. What they find is a sum. Writes add 768. A page that was written
    /// before adds 256, one that was trimmed since adds 512. The bin of the reuse distance is added, or 255 for a new
    /// page.
    pub pages: Vec<[u64; 2]>,
    /// Accesses to known pages by earlier accesses to the page, in 4 bins to the octave: bin, how many.
    pub popularity: Vec<[u64; 2]>,
    /// Jumps by the rank of their region: 32 where the first page is known, plus 64 for writes, plus the octave (0, 1, 2 to
    /// 3, 4 to 7, ...) of how many other regions of 4 MiB were touched since, or 31 where nothing had touched it; then how
    /// many.
    ///
    /// Default: `ftlab trace fit` writes them; a phase without jumps has none.
    #[serde(default)]
    pub ranks: Vec<[u64; 2]>,
    /// Trims by their first whole page; then how many. The page gives a sum. Trims that begin at the end of the trim
    /// before add 768. A page that was written adds 256, one that was trimmed since adds 512. The bin of its distance
    /// is added, or 255 where it was not touched.
    pub trims: Vec<[u64; 2]>,
    /// Spans between arrivals by bin; then how many.
    pub gaps: Vec<[u64; 2]>,
}

impl FittedModel {
    /// Requests in all.
    pub fn requests(&self) -> u64 {
        let counts = self.phases.iter().flat_map(|phase| &phase.kinds);
        counts.fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Mean requests of a run on pages that are known, or new; at most 64.
    pub(crate) fn run_requests(&self, write: bool, known: bool) -> f64 {
        let kind = kind_of(write, true, known);
        let all: u64 = self.follows[kind].iter().sum();
        let stops = all - self.follows[kind][kind].min(all);
        (all as f64 / stops.max(1) as f64).clamp(1.0, 64.0)
    }

    /// Whether a bin of distances, of reads and then of writes, is anywhere in the trace.
    pub(crate) fn distances(&self) -> Vec<bool> {
        let mut found = vec![false; 512];
        for [cell, _] in self.phases.iter().flat_map(|phase| &phase.pages) {
            found[*cell as usize / OP_CELLS * 256 + *cell as usize % 256] = true;
        }
        found
    }

    /// Bytes from the first to the last region of all volumes, as they lie.
    pub fn span_bytes(&self) -> u64 {
        self.bytes_of(FittedStream::roomy_regions)
    }

    /// Bytes that the pages of all volumes need.
    pub(crate) fn needed_bytes(&self) -> u64 {
        self.bytes_of(FittedStream::needed_regions)
    }

    fn bytes_of(&self, regions: impl Fn(&FittedStream) -> u64) -> u64 {
        let regions = self.streams.iter().map(regions);
        let regions: u64 =
            if self.overlay { regions.max().unwrap_or(0) } else { regions.fold(0, u64::saturating_add) };
        regions.saturating_mul(REGION_SECTORS * u64::from(SECTOR_BYTES))
    }

    /// Check that the model can be drawn from.
    ///
    /// # Errors
    /// The first part that makes no sense.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        const MOST_REGIONS: u64 = 1 << 38;
        let wrong = |key: &str, found: u64, expected: &str| refuse(&format!("fitted.{key}"), found, expected);
        if self.version != VERSION {
            let expected = "must be 2: fit the trace again with this version of `ftlab trace fit`";
            return wrong("version", self.version.into(), expected);
        }
        if self.streams.is_empty() || self.streams.len() > 1 << 16 {
            return wrong("streams", self.streams.len() as u64, "must have from 1 to 65,536 rows");
        }
        let mut numbers = BTreeSet::new();
        let mut regions = 0;
        for stream in &self.streams {
            if !numbers.insert(stream.stream) {
                return wrong("streams.stream", stream.stream.into(), "must not be given twice");
            }
            let FittedStream {
                span_regions, touched_regions, pages, jumps, sequential, reads, writes, ..
            } = *stream;
            let counts = [span_regions, touched_regions, pages, jumps, sequential, reads, writes];
            if let Some(count) = counts.into_iter().find(|count| *count > MOST) {
                return wrong("streams", count, "must be at most 2^40");
            }
            regions += stream.roomy_regions();
            if regions > MOST_REGIONS {
                return wrong("streams.span_regions", span_regions, "must be at most 2^38 of all volumes");
            }
        }
        if self.follows.len() != KINDS || self.follows.iter().any(|row| row.len() != KINDS) {
            return wrong("follows", self.follows.len() as u64, "must have 11 rows of 11 counts");
        }
        if let Some(count) = self.follows.iter().flatten().find(|count| **count > MOST) {
            return wrong("follows", *count, "must be at most 2^40");
        }
        if self.phases.is_empty() || self.phases.len() > 1000 {
            return wrong("phases", self.phases.len() as u64, "must be from 1 to 1000");
        }
        let too_many = |row: &&Vec<u64>| !is_row(row) || row.iter().any(|count| *count > MOST);
        if let Some(row) = self.places.iter().find(too_many) {
            let expected = "must be rows of a rank below 128 and up to 30 counts by step, 32 in new regions, of at most 2^40";
            return wrong("places", row.first().copied().unwrap_or_default(), expected);
        }
        for (number, phase) in self.phases.iter().enumerate() {
            phase.validate(&format!("fitted.phases[{number}]"))?;
        }
        let ranks = self
            .phases
            .iter()
            .flat_map(|phase| &phase.ranks)
            .fold(0, |sum: u64, row| sum.saturating_add(row[1]));
        let places = self
            .places
            .iter()
            .flat_map(|row| &row[1..])
            .fold(0, |sum: u64, count| sum.saturating_add(*count));
        if places != ranks {
            return wrong("places", places, "must have as many jumps as ranks of all phases");
        }
        if self.requests() == 0 || self.requests() > MOST {
            return wrong("phases.kinds", self.requests(), "must be from 1 to 2^40 in all");
        }
        let duration = self.phases.iter().map(|phase| phase.duration_ns).sum::<u64>();
        if duration > LATEST_NS {
            return wrong(
                "phases.duration_ns",
                duration,
                &format!("must be at most {LATEST_DAYS} days in all"),
            );
        }
        Ok(())
    }
}

/// Version of descriptions. The first had none, and said nothing of places and of what trims free.
pub(crate) const VERSION: u32 = 2;
/// Counts are at most so large.
const MOST: u64 = 1 << 40;

impl FittedPhase {
    /// Check the phase that is found at `place`.
    fn validate(&self, place: &str) -> Result<(), ConfigError> {
        let wrong =
            |key: &str, found: u64, expected: &str| refuse(&format!("{place}.{key}"), found, expected);
        let check_rows = |key: &str, rows: &[[u64; 2]], valid: &dyn Fn(u64) -> bool| {
            check_rows(&format!("{place}.{key}"), rows, valid)
        };
        if self.kinds.len() != KINDS {
            return wrong("kinds", self.kinds.len() as u64, "must have 11 counts");
        }
        if let Some(count) = self.kinds.iter().find(|count| **count > MOST) {
            return wrong("kinds", *count, "must be at most 2^40");
        }
        if self.sizes.len() != FLUSH {
            return wrong("sizes", self.sizes.len() as u64, "must have 10 lists");
        }
        if self.duration_ns > LATEST_NS {
            return wrong("duration_ns", self.duration_ns, &format!("must be at most {LATEST_DAYS} days"));
        }
        for (kind, rows) in self.sizes.iter().enumerate() {
            let sum = rows.iter().fold(0u64, |sum, row| sum.saturating_add(row[2]));
            if sum != self.kinds[kind] {
                return wrong("sizes", sum, "must have as many requests as the kind in kinds");
            }
            for row in rows {
                if row[0] == 0 || row[0] > u64::from(u32::MAX) || row[1] >= PAGE_SECTORS {
                    return wrong(
                        "sizes",
                        row[0],
                        "must be rows of sectors, sectors into a page, and requests",
                    );
                }
            }
        }
        const MOST_DISTANCE_BIN: u64 = 160;
        const MOST_GAP_BIN: u64 = 430;
        let distance = |bin: u64| bin <= MOST_DISTANCE_BIN || bin == NEW as u64;
        let cell = |cell: u64| cell < CELLS as u64 && distance(cell % 256);
        let class = |class: u64| class < CLASSES as u64;
        let gap = |bin: u64| bin <= MOST_GAP_BIN;
        check_rows("pages", &self.pages, &cell)?;
        check_rows("popularity", &self.popularity, &class)?;
        check_rows("ranks", &self.ranks, &|rank| rank < GROUP_RANKS as u64)?;
        check_rows("trims", &self.trims, &|trim| trim < TRIM_CELLS as u64 && distance(trim % 256))?;
        let sum = |rows: &[[u64; 2]]| rows.iter().fold(0u64, |sum, row| sum.saturating_add(row[1]));
        let jumps: u64 = self.kinds[..TRIM].iter().step_by(2).sum();
        if sum(&self.ranks) != jumps {
            return wrong("ranks", sum(&self.ranks), "must have as many jumps as the kinds that jump");
        }
        if sum(&self.trims) != self.kinds[TRIM..FLUSH].iter().sum::<u64>() {
            return wrong("trims", sum(&self.trims), "must have as many trims as the kinds");
        }
        check_rows("gaps", &self.gaps, &gap)
    }
}

fn check_rows(key: &str, rows: &[[u64; 2]], valid: &dyn Fn(u64) -> bool) -> Result<(), ConfigError> {
    match rows.iter().find(|row| !valid(row[0]) || row[1] > MOST) {
        None => Ok(()),
        Some([found, count]) => {
            refuse(key, format!("[{found}, {count}]"), "must be rows of a bin and a count of at most 2^40")
        }
    }
}

impl FittedStream {
    /// Regions that hold its pages even where some are left half empty.
    pub(crate) fn needed_regions(&self) -> u64 {
        let pages = self.pages.saturating_add(self.pages / 4);
        pages.div_ceil(REGION_PAGES).max(self.touched_regions).saturating_add(8)
    }

    pub(crate) fn roomy_regions(&self) -> u64 {
        self.needed_regions().max(self.span_regions)
    }
}
