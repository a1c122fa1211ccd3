//! A benchmark of applications: each makes the numbers of operations that were published for it, in phases.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::Op;
use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::CommonKeys;
use crate::key_set::keys;
use crate::kind::{Kind, PLACED, Plan};
use crate::process::{AddressRange, BLOCK, Emitter, NS_PER_US, Process, chance, exponential, geometric};
use crate::refusal::refuse;
use ftlab_core::rng::Rng;

/// Applications of PCMark 8's storage test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "their names say what they are")]
pub enum Application {
    Word,
    Excel,
    Powerpoint,
    PhotoshopLight,
    PhotoshopHeavy,
    Illustrator,
    Indesign,
    AfterEffects,
}

/// Keys of kind `applications`. Requests carry the number of their application as stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ApplicationsConfig {
    /// Which applications run, by turns. A round ends when each has made its published operations; then the next begins.
    /// Word, Excel, PowerPoint, Photoshop (light), Illustrator and InDesign when absent.
    ///
    /// Default: the six of PCMark 8 that come closest to SYSmark's office and graphics work.
    pub applications: Vec<Application>,
    /// Mean time between two phases of work; a third of it at least. 3 s when absent.
    ///
    /// Default: assumed: a user who pauses for one to five seconds.
    #[serde(deserialize_with = "quantity::micros")]
    pub think_us: f64,
}

impl Default for ApplicationsConfig {
    fn default() -> Self {
        use Application::{Excel, Illustrator, Indesign, PhotoshopLight, Powerpoint, Word};
        Self {
            applications: vec![Word, Excel, Powerpoint, PhotoshopLight, Illustrator, Indesign],
            think_us: 3e6,
        }
    }
}

/// Operations: sequential reads, random reads, sequential writes, random writes; megabytes read and written.
type Row = [u32; 6];

impl Application {
    const fn row(self) -> Row {
        match self {
            Application::Word => [152, 4302, 748, 205, 107, 95],
            Application::Excel => [72, 3148, 119, 87, 73, 15],
            Application::Powerpoint => [56, 3441, 147, 107, 83, 21],
            Application::PhotoshopLight => [1508, 17_525, 18_342, 1743, 313, 2336],
            Application::PhotoshopHeavy => [4277, 18_655, 44_742, 2065, 468, 5640],
            Application::Illustrator => [1036, 21_923, 682, 532, 373, 89],
            Application::Indesign => [2359, 22_207, 4874, 927, 401, 624],
            Application::AfterEffects => [1772, 17_793, 86, 500, 311, 16],
        }
    }
}

/// The smallest footprint: 32 MiB for each of eight applications.
pub(crate) const SECTORS: u64 = 8 << 16;
/// Share of a round's operations that belong to the start of the machine, and its share of reads.
const START: f64 = 0.03;
const START_READS: f64 = 0.9;
/// Share of an application's operations that load it, and their share of reads.
const LOAD: f64 = 0.2;
const LOAD_READS: f64 = 0.83;
/// Phases of an application in a round; the first ones load it.
const PHASES: u64 = 10;
const GAP_NS: f64 = 2e6;
/// Share of an application's space that holds what it reads; the rest holds what it writes.
const PROGRAMS: f64 = 0.6;
const LARGEST_BLOCKS: u64 = 1024;

impl ApplicationsConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.applications.is_empty() || self.applications.len() > 8 {
            let expected = "must name from 1 to 8 applications";
            return refuse("applications.applications", self.applications.len(), expected);
        }
        if !(self.think_us >= 0.0 && self.think_us <= 1e12) {
            return refuse("applications.think_us", self.think_us, "must be at most 11 days");
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Running {
    row: Row,
    /// Operations that are left of the round, as in the row.
    left: [u32; 4],
    programs: AddressRange,
    documents: AddressRange,
    /// Where the last read and the last write ended: sequential ones begin there.
    next: [u64; 2],
}

impl Running {
    fn total(&self) -> u32 {
        self.left.iter().sum()
    }

    fn blocks(&self, write: bool, rng: &mut Rng) -> u64 {
        let ops = if write { self.row[2] + self.row[3] } else { self.row[0] + self.row[1] };
        let mean = f64::from(self.row[if write { 5 } else { 4 }]) * 1e6 / f64::from(ops.max(1)) / 4096.0;
        geometric(rng, mean).min(LARGEST_BLOCKS)
    }

    /// One operation; `reads` is the share of reads as far as there are any left, or what is left decides.
    fn operation(&mut self, at_ns: f64, reads: Option<f64>, rng: &mut Rng, emitter: &mut Emitter) {
        let [sequential_reads, random_reads, sequential_writes, random_writes] = self.left;
        let (left_reads, left_writes) = (sequential_reads + random_reads, sequential_writes + random_writes);
        let write = match reads {
            Some(share) if left_reads > 0 && left_writes > 0 => !chance(rng, share),
            _ => rng.below_unbiased(u64::from(left_reads + left_writes)) >= u64::from(left_reads),
        };
        let pair = if write { 2 } else { 0 };
        let sequential =
            rng.below_unbiased(u64::from(self.left[pair] + self.left[pair + 1])) < u64::from(self.left[pair]);
        self.left[pair + usize::from(!sequential)] -= 1;
        let area = if write { self.documents } else { self.programs };
        let sectors = (self.blocks(write, rng) * BLOCK).min(area.sectors);
        let next = &mut self.next[usize::from(write)];
        if !sequential || *next + sectors > area.end() {
            *next = area.start + rng.below_unbiased((area.sectors - sectors) / BLOCK + 1) * BLOCK;
        }
        let lba = *next;
        *next += sectors;
        emitter.push(at_ns, if write { Op::Write } else { Op::Read }, lba, sectors);
    }
}

pub(crate) struct Applications {
    running: Vec<Running>,
    rng: Rng,
    now_ns: f64,
    think_ns: f64,
    turn: usize,
    phase: u64,
    started: bool,
}

impl Applications {
    pub(crate) fn new(table: &ApplicationsConfig, mut area: AddressRange, seed: u64, pass: u64) -> Self {
        let share = area.sectors / table.applications.len() as u64 / BLOCK * BLOCK;
        let running = table.applications.iter().map(|application| {
            let mut rest = area.take(share);
            let programs = rest.take((share as f64 * PROGRAMS) as u64 / BLOCK * BLOCK);
            let next = [programs.start, rest.start];
            Running { row: application.row(), left: [0; 4], programs, documents: rest, next }
        });
        Self {
            running: running.collect(),
            rng: Rng::for_path(seed, &[pass]),
            now_ns: 0.0,
            think_ns: table.think_us * NS_PER_US,
            turn: 0,
            phase: 0,
            started: false,
        }
    }

    fn operations(&mut self, index: usize, count: u32, reads: Option<f64>, emitter: &mut Emitter) {
        for _ in 0..count.min(self.running[index].total()) {
            self.now_ns += exponential(&mut self.rng) * GAP_NS;
            self.running[index].operation(self.now_ns, reads, &mut self.rng, emitter);
            if let Some(request) = emitter.requests.last_mut() {
                request.stream = index as u16;
            }
        }
    }

    fn begin_round(&mut self, emitter: &mut Emitter) {
        for running in &mut self.running {
            running.left.copy_from_slice(&running.row[..4]);
        }
        (self.turn, self.phase) = (0, 0);
        if !self.started {
            self.started = true;
            for index in 0..self.running.len() {
                let count = (f64::from(self.running[index].total()) * START) as u32;
                self.operations(index, count, Some(START_READS), emitter);
            }
        }
    }
}

impl Process for Applications {
    /// A phase of one application.
    fn act(&mut self, emitter: &mut Emitter) {
        if self.running.iter().all(|running| running.total() == 0) {
            self.begin_round(emitter);
        }
        self.now_ns += self.think_ns * (1.0 / 3.0 + self.rng.unit() * 4.0 / 3.0);
        let (index, phase) = (self.turn, self.phase);
        self.turn += 1;
        if self.turn == self.running.len() {
            (self.turn, self.phase) = (0, self.phase + 1);
        }
        let all: u32 = self.running[index].row[..4].iter().sum();
        let loading = (phase as f64) < PHASES as f64 * LOAD;
        let count = if phase + 1 >= PHASES { u32::MAX } else { all.div_ceil(PHASES as u32) };
        self.operations(index, count, loading.then_some(LOAD_READS), emitter);
    }
}

keys! {
    /// Keys of kind `applications` alone.
    pub struct Keys {
        /// Keys of kind `applications`.
        pub applications: Option<ApplicationsConfig>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str =
        "A benchmark of office and picture applications: see the table `applications`.";
    const COMMON: &'static [&'static [&'static str]] = &[PLACED];
    const CHANGES: &'static [&'static str] = &[r#"{"applications":{"applications":["excel"]}}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        self.applications.as_ref().map_or(Ok(()), ApplicationsConfig::validate)
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let table = self.applications.clone().unwrap_or_default();
        let range = common.address_range_of(capacity_bytes, "applications", SECTORS)?;
        Ok(Plan::of_process(move |seed, pass| Applications::new(&table, range, seed, pass)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcessSource;
    use ftlab_core::host::request::{Request, RequestSource};

    #[test]
    fn a_round_has_the_published_operations_to_the_last_one() {
        let table = ApplicationsConfig::default();
        let rows: Vec<Row> = table.applications.iter().map(|application| application.row()).collect();
        let total: u32 = rows.iter().flat_map(|row| &row[..4]).sum();
        let area = AddressRange { start: 0, sectors: 8 << 21 };
        let mut source = ProcessSource::new(Applications::new(&table, area, 1, 0), 2 * u64::from(total));
        let mut out: Vec<Request> = Vec::new();
        while source.fill(&mut out, 4096).unwrap() > 0 {}
        for round in out.chunks(total as usize) {
            for (index, row) in rows.iter().enumerate() {
                let mine = || round.iter().filter(|request| usize::from(request.stream) == index);
                let reads = mine().filter(|request| request.op == Op::Read).count() as u32;
                assert_eq!((reads, mine().count() as u32 - reads), (row[0] + row[1], row[2] + row[3]));
            }
        }
        let start: Vec<&Request> = out[..(f64::from(total) * START) as usize - 10].iter().collect();
        let reads = start.iter().filter(|request| request.op == Op::Read).count() as f64 / start.len() as f64;
        assert!((reads - START_READS).abs() < 0.03, "{reads}");
        assert!(out.is_sorted_by_key(|request| request.arrival_ns));
    }
}
