//! The client profile of JESD219, by mechanism: a file system.
//!
//! It writes files next-fit, in a part for what is used most and in the rest. It trims those that it deletes, and
//! rewrites parts of others.

use std::collections::VecDeque;

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::Op;

use crate::common::CommonKeys;
use crate::generate::Arrivals;
use crate::layout::NextFit;
use crate::process::{AddressRange, BLOCK, Emitter, Process, chance, lognormal};
use crate::refusal::refuse;
use crate::size::{RequestBytes, SizeClass, Sizes};
use ftlab_core::rng::Rng;

const TRIMS: f64 = 0.04;
const FLUSHES: f64 = 0.08;
/// Bytes and percent of writes: the shape of a desktop's writes.
const SIZES: [(u64, u64, f64); 6] = [
    (4096, 4096, 55.0),
    (8192, 12_288, 12.0),
    (16_384, 16_384, 8.0),
    (32_768, 32_768, 6.0),
    (65_536, 65_536, 13.0),
    (131_072, 131_072, 6.0),
];
/// Share of the footprint that is its hot part, at its begin.
const HOT_SPACE: f64 = 0.1;
/// Share of writes to the hot part, whether to new files or to old ones.
const HOT_ACCESS: f64 = 0.7;
/// Share of requests with an address that go on where the one before ended.
const SEQUENTIAL: f64 = 0.4;
/// Largest median of the sizes of files, which are trimmed as a whole, and the deviation of their logarithm. With a wider
/// law, more would be deleted than is written.
const FILE_BYTES: f64 = 262_144.0;
const FILE_SIGMA: f64 = 0.5;
const LARGEST_FILE: u64 = 1 << 15;
/// No file takes more of a part.
const LARGEST_SHARE: u64 = 8;
/// Most of the writes that make new files; the others rewrite parts of old ones.
const MOST_NEW: f64 = 0.9;
/// Files that there are at the begin, at most.
const MOST_FILES: usize = 1 << 22;
/// How full of files the parts are at the begin.
const FULL: f64 = 0.95;
/// Share of the footprint that is in use when nothing is said.
const ACTIVE: f64 = 0.8;

/// The profile, ready to be started.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    area: AddressRange,
    trims: f64,
    flushes: f64,
    arrivals: Arrivals,
}

impl Client {
    pub(crate) fn new(
        common: &CommonKeys,
        area: AddressRange,
        arrivals: Arrivals,
    ) -> Result<Self, ConfigError> {
        let active = if common.footprint_bytes.is_some() { 1.0 } else { ACTIVE };
        let sectors = (area.sectors as f64 * active) as u64 / BLOCK * BLOCK;
        if sectors < 1 << 17 {
            return refuse("footprint_bytes", area.sectors * 512, "profile \"client\" needs at least 80 MiB");
        }
        Ok(Self {
            area: AddressRange { start: area.start, sectors },
            trims: common.trim_fraction.unwrap_or(TRIMS),
            flushes: common.flush_fraction.unwrap_or(FLUSHES),
            arrivals,
        })
    }

    pub(crate) fn start(&self, seed: u64, pass: u64) -> ClientProcess {
        let mut rest = self.area;
        let hot = rest.take((self.area.sectors as f64 * HOT_SPACE) as u64 / BLOCK * BLOCK);
        let classes = SIZES.map(|(min_bytes, max_bytes, weight)| SizeClass {
            min_bytes,
            max_bytes,
            step_bytes: 4096,
            weight,
        });
        let weights: f64 = SIZES.iter().map(|(.., weight)| weight).sum();
        let mean =
            SIZES.iter().map(|(min, max, weight)| (min + max) as f64 / 2.0 * weight).sum::<f64>() / weights;
        // As much is written to new files as is trimmed, so that the drive stays as full as it is: of each write, or in
        // smaller files where that is too much.
        let writes = (1.0 - self.trims - self.flushes).max(1e-9);
        let spread = libm::exp(FILE_SIGMA * FILE_SIGMA / 2.0);
        let trimmed = self.trims / writes * FILE_BYTES * spread / mean;
        let new = trimmed.min(MOST_NEW);
        let median = if trimmed > new { (FILE_BYTES * new / trimmed).max(4096.0) } else { FILE_BYTES };
        // Jumps to a file that is being written go on too, where that was written last. A trim between parts two writes.
        let apart = 1.0 - self.trims / (self.trims + writes);
        let by_chance = new * new * (HOT_ACCESS * HOT_ACCESS + (1.0 - HOT_ACCESS) * (1.0 - HOT_ACCESS));
        let wanted = SEQUENTIAL / (apart * apart).max(1e-9);
        let goes_on = ((wanted - by_chance) / (1.0 - by_chance)).clamp(0.0, 1.0);
        let mut fixed = Rng::for_path(seed, &[u64::MAX]);
        let mut deleted = Vec::with_capacity(1 << 12);
        // The drive has been used before: it is full of files.
        let parts = [hot, rest].map(|area| {
            let mut files = NextFit::new(area);
            while files.used_fraction() < FULL && deleted.is_empty() && files.count() < MOST_FILES {
                files.create(file_sectors(&mut fixed, median, area), &mut deleted);
            }
            deleted.clear();
            FileArea {
                area,
                files,
                file: AddressRange { start: area.start, sectors: 0 },
                writes: VecDeque::new(),
            }
        });
        ClientProcess {
            median,
            sizes: Sizes::new(&RequestBytes::Weighted(classes.to_vec())),
            rng: Rng::for_path(seed, &[pass]),
            clock: self.arrivals.clock(Rng::for_path(seed, &[pass, 1])),
            parts,
            deleted,
            last: Last::Nothing,
            pending: None,
            new,
            goes_on,
            trims: self.trims,
            flushes: self.flushes,
        }
    }
}

fn file_sectors(rng: &mut Rng, median: f64, part: AddressRange) -> u64 {
    let blocks = lognormal(rng, median, FILE_SIGMA) / 4096.0;
    (blocks.ceil() as u64 * BLOCK).min(LARGEST_FILE).min(part.sectors / LARGEST_SHARE)
}

/// The hot part or the rest.
struct FileArea {
    area: AddressRange,
    files: NextFit,
    /// What is left of the file that is being written, and the sizes of the writes that it takes.
    file: AddressRange,
    writes: VecDeque<u64>,
}

/// What was written last.
#[derive(Debug, Clone, Copy)]
enum Last {
    Nothing,
    /// The new file of a part.
    New(usize),
    /// An old file, or some of the hot part: what follows there.
    Old(AddressRange),
}

/// The profile at work.
pub(crate) struct ClientProcess {
    median: f64,
    sizes: Sizes,
    rng: Rng,
    clock: super::generate::ArrivalClock,
    parts: [FileArea; 2],
    deleted: Vec<AddressRange>,
    last: Last,
    /// A size that was drawn for a file that had enough without it.
    pending: Option<u64>,
    /// Share of jumps to new files.
    new: f64,
    /// Probability that a write goes on with what was written last, whatever that is.
    goes_on: f64,
    trims: f64,
    flushes: f64,
}

impl ClientProcess {
    fn size(&mut self) -> u64 {
        self.pending.take().unwrap_or_else(|| u64::from(self.sizes.draw(&mut self.rng)))
    }

    fn write(&mut self, at_ns: f64, emitter: &mut Emitter) {
        if chance(&mut self.rng, self.goes_on) {
            match self.last {
                Last::New(part) => return self.write_new(at_ns, part, emitter),
                Last::Old(rest) => {
                    let sectors = self.size();
                    if sectors <= rest.sectors {
                        return self.write_old(at_ns, rest, sectors, emitter);
                    }
                    self.pending = Some(sectors);
                }
                Last::Nothing => {}
            }
        }
        let hot = chance(&mut self.rng, HOT_ACCESS);
        if chance(&mut self.rng, self.new) {
            return self.write_new(at_ns, usize::from(!hot), emitter);
        }
        let file = if hot { None } else { self.parts[1].files.any(&mut self.rng) };
        let area = file.unwrap_or(self.parts[0].area);
        let sectors = self.size().min(area.sectors);
        let skipped = self.rng.below_unbiased((area.sectors - sectors) / BLOCK + 1) * BLOCK;
        let rest = AddressRange { start: area.start + skipped, sectors: area.sectors - skipped };
        self.write_old(at_ns, rest, sectors, emitter);
    }

    /// The next write of the file that is being written, or the first one of the next.
    fn write_new(&mut self, at_ns: f64, part: usize, emitter: &mut Emitter) {
        if self.parts[part].writes.is_empty() {
            let wanted = file_sectors(&mut self.rng, self.median, self.parts[part].area);
            let mut all = 0;
            loop {
                let sectors = self.size();
                // Whole writes, about as much as wanted.
                if all > 0 && all + sectors / 2 > wanted {
                    self.pending = Some(sectors);
                    break;
                }
                all += sectors;
                self.parts[part].writes.push_back(sectors);
            }
            // What is in the way is written over, not trimmed.
            self.parts[part].file = self.parts[part].files.create(all, &mut self.deleted);
            self.deleted.clear();
        }
        let FileArea { file, writes, .. } = &mut self.parts[part];
        let written = file.take(writes.pop_front().unwrap_or(BLOCK));
        emitter.write(at_ns, written.start, written.sectors);
        self.last = Last::New(part);
    }

    fn write_old(&mut self, at_ns: f64, mut area: AddressRange, sectors: u64, emitter: &mut Emitter) {
        let written = area.take(sectors);
        emitter.write(at_ns, written.start, written.sectors);
        self.last = Last::Old(area);
    }

    /// Delete the oldest file of the part that is fuller.
    fn delete(&mut self) -> Option<AddressRange> {
        let [hot, rest] = &self.parts;
        let fuller = usize::from(rest.files.used_fraction() > hot.files.used_fraction());
        let part = &mut self.parts[fuller];
        // The last file is being written.
        if part.files.count() < 2 {
            return None;
        }
        part.files.delete(&mut self.deleted);
        self.deleted.pop()
    }
}

impl Process for ClientProcess {
    fn act(&mut self, emitter: &mut Emitter) {
        let at_ns = self.clock.tick() as f64;
        let share = self.rng.unit();
        if share < self.flushes {
            emitter.flush(at_ns);
        } else if share < self.flushes + self.trims {
            match self.delete() {
                Some(file) => emitter.push(at_ns, Op::Trim, file.start, file.sectors),
                None => self.write(at_ns, emitter),
            }
        } else {
            self.write(at_ns, emitter);
        }
    }
}
