//! The client profile of JESD219, by mechanism: a file system that writes files next-fit and trims those that it
//! deletes, and rewrites of a hot part.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::Op;

use super::generate::Arrivals;
use super::layout::NextFit;
use super::process::{Actor, Area, BLOCK, Script, chance, lognormal};
use super::size::{RequestBytes, SizeClass, Sizes};
use super::{WorkloadConfig, refuse};
use crate::rng::Rng;

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
/// Share of writes that go on with the file at hand.
const SEQUENTIAL: f64 = 0.4;
/// Share of the other writes that rewrite the hot part; the rest rewrites somewhere in a file.
const HOT_ACCESS: f64 = 0.7;
/// Largest median of the sizes of files, which are trimmed as a whole, and the deviation of their logarithm.
const FILE_BYTES: f64 = 262_144.0;
const FILE_SIGMA: f64 = 1.0;
const LARGEST_FILE: u64 = 1 << 15;
/// Files that there are at the begin, at most.
const MOST_FILES: usize = 1 << 22;
/// How full of files the rest is at the begin.
const FULL: f64 = 0.95;
/// Share of the footprint that is in use when nothing is said.
const ACTIVE: f64 = 0.8;

/// The profile, ready to be started.
#[derive(Debug, Clone)]
pub(super) struct Client {
    area: Area,
    trims: f64,
    flushes: f64,
    arrivals: Arrivals,
}

impl Client {
    pub(super) fn new(
        workload: &WorkloadConfig,
        area: Area,
        arrivals: Arrivals,
    ) -> Result<Self, ConfigError> {
        let active = if workload.footprint_bytes.is_some() { 1.0 } else { ACTIVE };
        let sectors = (area.sectors as f64 * active) as u64 / BLOCK * BLOCK;
        if sectors < 1 << 17 {
            return refuse("footprint_bytes", area.sectors * 512, "profile \"client\" needs at least 80 MiB");
        }
        Ok(Self {
            area: Area { start: area.start, sectors },
            trims: workload.trim_fraction.unwrap_or(TRIMS),
            flushes: workload.flush_fraction.unwrap_or(FLUSHES),
            arrivals,
        })
    }

    pub(super) fn start(&self, seed: u64, pass: u64) -> ClientActor {
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
        // As many files are written as are trimmed, so that the drive stays as full as it is.
        let balanced = SEQUENTIAL * (1.0 - self.trims - self.flushes).max(0.0) * mean / self.trims.max(1e-9);
        let median = FILE_BYTES.min(balanced / libm::exp(FILE_SIGMA * FILE_SIGMA / 2.0)).max(4096.0);
        let mut fixed = Rng::new(seed, &[u64::MAX]);
        let mut files = NextFit::new(rest);
        let mut deleted = Vec::with_capacity(1 << 12);
        // The drive has been used before: it is full of files.
        while files.used_fraction() < FULL && deleted.is_empty() && files.count() < MOST_FILES {
            files.create(file_sectors(&mut fixed, median), &mut deleted);
        }
        deleted.clear();
        ClientActor {
            median,
            sizes: Sizes::new(&RequestBytes::Weighted(classes.to_vec())),
            rng: Rng::new(seed, &[pass]),
            clock: self.arrivals.clock(Rng::new(seed, &[pass, 1])),
            hot,
            files,
            file: Area { start: rest.start, sectors: 0 },
            overwritten: deleted,
            trims: self.trims,
            flushes: self.flushes,
        }
    }
}

fn file_sectors(rng: &mut Rng, median: f64) -> u64 {
    let blocks = lognormal(rng, median, FILE_SIGMA) / 4096.0;
    (blocks.ceil() as u64 * BLOCK).min(LARGEST_FILE)
}

/// The profile at work.
pub(super) struct ClientActor {
    median: f64,
    sizes: Sizes,
    rng: Rng,
    clock: super::generate::Clock,
    hot: Area,
    files: NextFit,
    /// What is left of the file that is being written.
    file: Area,
    overwritten: Vec<Area>,
    trims: f64,
    flushes: f64,
}

impl ClientActor {
    fn within(&mut self, area: Area, sectors: u64) -> u64 {
        let blocks = area.sectors.saturating_sub(sectors) / BLOCK + 1;
        area.start + self.rng.below(blocks) * BLOCK
    }

    fn write(&mut self, at_ns: f64, script: &mut Script) {
        let sectors = u64::from(self.sizes.draw(&mut self.rng));
        if chance(&mut self.rng, SEQUENTIAL) {
            if self.file.sectors == 0 {
                let file = file_sectors(&mut self.rng, self.median);
                // What is in the way is written over, not trimmed.
                self.file = self.files.create(file, &mut self.overwritten);
                self.overwritten.clear();
            }
            let part = self.file.take(sectors);
            script.write(at_ns, part.start, part.sectors);
            return;
        }
        let hot = chance(&mut self.rng, HOT_ACCESS);
        let file = if hot { None } else { self.files.any(&mut self.rng) };
        let area = file.unwrap_or(self.hot);
        let sectors = sectors.min(area.sectors);
        let lba = self.within(area, sectors);
        script.write(at_ns, lba, sectors);
    }
}

impl Actor for ClientActor {
    fn act(&mut self, script: &mut Script) {
        let at_ns = self.clock.tick() as f64;
        let share = self.rng.unit();
        if share < self.flushes {
            script.flush(at_ns);
        } else if share < self.flushes + self.trims {
            self.files.delete(&mut self.overwritten);
            match self.overwritten.pop() {
                Some(file) => script.push(at_ns, Op::Trim, file.start, file.sectors),
                None => self.write(at_ns, script),
            }
        } else {
            self.write(at_ns, script);
        }
    }
}
