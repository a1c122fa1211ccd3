//! A smartphone, by mechanism: SQLite on a journalling file system.

use ftlab_core::config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::CommonKeys;
use crate::key_set::keys;
use crate::kind::{Kind, PLACED, Plan};
use crate::process::{
    AddressRange, BLOCK, Emitter, Hyperexponential, NS_PER_S, Process, chance, geometric, lognormal,
};
use crate::refusal::refuse;
use crate::zipf::{Permutation, Zipf};
use ftlab_core::rng::Rng;

/// Keys of kind `phone_sqlite`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SqliteConfig {
    /// Database files, of lognormal sizes around 256 KiB. 60 when absent.
    ///
    /// Default: assumed: some dozens of applications, with a few databases each.
    pub databases: u32,
    /// Share of the databases that use a write-ahead log; the others use a rollback journal. 0.3 when absent.
    ///
    /// Default: assumed of phones of 2012 to 2015, when most applications had rollback journals.
    pub wal_fraction: f64,
    /// Transactions a second, on average; never more than 39 a second. 2 when absent.
    ///
    /// Default: assumed: a phone in use; 39 a second was the most that storage of 2013 did.
    pub transactions_per_second: f64,
    /// Pages that a transaction changes, on average. With a rollback journal, 3.4 are three, or four in two of five; with a
    /// write-ahead log they follow a geometric law. 2 when absent: a rollback journal writes 11 blocks for them.
    ///
    /// Default: 11 blocks are then written with a rollback journal, as was measured on Android.
    pub transaction_pages: f64,
    /// Share of all requests that read. 0.2 when absent.
    ///
    /// Default: assumed: it is published that writes dominate on phones, and not by how much.
    pub read_fraction: f64,
    /// Exponent of Zipf's law of the popularity of databases, and of pages in each. 0.9 when absent.
    ///
    /// Default: 80 % of the accesses go to 20 % of the blocks, as was measured on phones.
    pub theta: f64,
}

impl Default for SqliteConfig {
    fn default() -> Self {
        Self {
            databases: 60,
            wal_fraction: 0.3,
            transactions_per_second: 2.0,
            transaction_pages: 2.0,
            read_fraction: 0.2,
            theta: 0.9,
        }
    }
}

/// Sectors of the file system's journal, which is circular.
const JOURNAL: u64 = 32 << 11;
/// Sectors that kind `phone_sqlite` needs: journal, and room for its files.
pub const SQLITE_SECTORS: u64 = JOURNAL + (256 << 11);
/// Frames after which a write-ahead log is written to its database.
const WAL_FRAMES: u64 = 1000;
const FRAME_BYTES: u64 = 4096 + 24;
const WAL_HEADER_BYTES: u64 = 32;
const WAL_SECTORS: u64 = ((WAL_FRAMES + 64) * FRAME_BYTES).div_ceil(4096) * BLOCK;
const ROLLBACK_SECTORS: u64 = 16 * BLOCK;
/// Pages of a transaction with a rollback journal, which has a header before them.
const MOST_PAGES: u64 = 14;
const DATABASE_BYTES: f64 = 262_144.0;
const DATABASE_SIGMA: f64 = 1.5;
const DATABASE_MOST: u64 = 64 << 11;
/// A flush takes a phone's storage so long; what comes after it waits.
const FLUSH_NS: f64 = 2e6;
/// Shortest time between two transactions.
const SHORTEST_GAP_NS: f64 = NS_PER_S / 39.0;
const GAP_CV: f64 = 2.0;

impl SqliteConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.databases == 0 || self.databases > 1000 {
            return refuse("phone_sqlite.databases", self.databases, "must be from 1 to 1000");
        }
        if !(0.0..=1.0).contains(&self.wal_fraction) {
            return refuse("phone_sqlite.wal_fraction", self.wal_fraction, "must be a fraction from 0 to 1");
        }
        if !(0.0..1.0).contains(&self.read_fraction) {
            let expected = "must be a fraction from 0 to below 1";
            return refuse("phone_sqlite.read_fraction", self.read_fraction, expected);
        }
        let rate = self.transactions_per_second;
        if !(1e-4..=39.0).contains(&rate) {
            return refuse("phone_sqlite.transactions_per_second", rate, "must be from 0.0001 to 39");
        }
        if !(1.0..=MOST_PAGES as f64).contains(&self.transaction_pages) {
            return refuse("phone_sqlite.transaction_pages", self.transaction_pages, "must be from 1 to 14");
        }
        if !(self.theta > 0.0 && self.theta < 10.0) {
            return refuse("phone_sqlite.theta", self.theta, "must be above 0 and below 10");
        }
        Ok(())
    }
}

/// The journal of the file system.
#[derive(Debug)]
struct Journal {
    area: AddressRange,
    at: u64,
}

impl Journal {
    /// Descriptor and metadata in one write, then the commit block.
    fn commit(&mut self, at_ns: f64, metadata_blocks: u64, emitter: &mut Emitter) {
        for sectors in [metadata_blocks * BLOCK, BLOCK] {
            if self.at + sectors > self.area.sectors {
                self.at = 0;
            }
            emitter.write(at_ns, self.area.start + self.at, sectors);
            self.at += sectors;
        }
    }
}

#[derive(Debug)]
struct DatabaseFile {
    file: AddressRange,
    /// Of the rollback journal or the write-ahead log.
    journal: AddressRange,
    pages: Zipf,
    order: Permutation,
    wal: bool,
    /// Frames in the write-ahead log, and the pages that they change.
    frames: u64,
    changed: Vec<u64>,
}

/// Databases on a file system.
#[derive(Debug)]
pub(crate) struct Store {
    journal: Journal,
    databases: Vec<DatabaseFile>,
    popularity: Zipf,
    transaction_pages: f64,
    rng: Rng,
}

impl Store {
    /// `fixed` draws what is the same in every pass.
    pub(crate) fn new(table: &SqliteConfig, mut area: AddressRange, seed: u64, pass: u64) -> Self {
        let mut fixed = Rng::for_path(seed, &[u64::MAX]);
        let journal = Journal { area: area.take(JOURNAL), at: 0 };
        let count = u64::from(table.databases);
        // Where there is little room, files are smaller rather than on top of each other.
        let most =
            (area.sectors / count).saturating_sub(WAL_SECTORS).clamp(BLOCK, DATABASE_MOST) / BLOCK * BLOCK;
        let databases = (0..count).map(|index| {
            let bytes = lognormal(&mut fixed, DATABASE_BYTES, DATABASE_SIGMA);
            let sectors = ((bytes / 4096.0).ceil() as u64 * BLOCK).clamp(BLOCK.min(most), most);
            // Every third or so: spread over popular and unpopular ones.
            let share = table.wal_fraction;
            let wal = ((index + 1) as f64 * share).floor() > (index as f64 * share).floor();
            DatabaseFile {
                file: area.take(sectors),
                journal: area.take(if wal { WAL_SECTORS } else { ROLLBACK_SECTORS }),
                pages: Zipf::new(sectors / BLOCK, table.theta),
                order: Permutation::new(sectors / BLOCK, seed ^ index << 32),
                wal,
                frames: 0,
                changed: Vec::with_capacity(WAL_FRAMES as usize + 64),
            }
        });
        let databases = databases.collect();
        Self {
            journal,
            databases,
            popularity: Zipf::new(count, table.theta),
            transaction_pages: table.transaction_pages,
            rng: Rng::for_path(seed, &[pass, 7]),
        }
    }

    /// The journal commit of a file that was written.
    pub(crate) fn metadata(&mut self, now_ns: &mut f64, emitter: &mut Emitter) {
        self.journal.commit(*now_ns, 2, emitter);
        emitter.flush(*now_ns);
        *now_ns += FLUSH_NS;
    }

    fn page(&mut self, index: usize) -> u64 {
        let database = &self.databases[index];
        database.order.map(database.pages.draw(&mut self.rng))
    }

    /// A transaction of any database; `now_ns` moves on to its end.
    pub(crate) fn transaction(&mut self, now_ns: &mut f64, emitter: &mut Emitter) {
        let index = self.popularity.draw(&mut self.rng) as usize;
        if self.databases[index].wal {
            self.append(index, now_ns, emitter);
        } else {
            self.roll(index, now_ns, emitter);
        }
    }

    /// What was, then what is, each with a flush: 11 blocks for two pages.
    fn roll(&mut self, index: usize, now_ns: &mut f64, emitter: &mut Emitter) {
        let part = self.transaction_pages.fract();
        let more = part > 0.0 && chance(&mut self.rng, part);
        let count = self.transaction_pages as u64 + u64::from(more);
        let mut pages = [0; MOST_PAGES as usize];
        for page in &mut pages[..count as usize] {
            *page = self.page(index);
        }
        let DatabaseFile { file, journal, .. } = self.databases[index];
        emitter.write(*now_ns, journal.start, (1 + count) * BLOCK);
        self.metadata(now_ns, emitter);
        for page in &pages[..count as usize] {
            emitter.write(*now_ns, file.start + page * BLOCK, BLOCK);
        }
        emitter.write(*now_ns, journal.start, BLOCK);
        self.journal.commit(*now_ns, 1, emitter);
        emitter.flush(*now_ns);
        *now_ns += FLUSH_NS;
    }

    /// Frames at the end of the write-ahead log, and a flush.
    fn append(&mut self, index: usize, now_ns: &mut f64, emitter: &mut Emitter) {
        let frames = geometric(&mut self.rng, self.transaction_pages).min(32);
        for _ in 0..frames {
            let page = self.page(index);
            self.databases[index].changed.push(page);
        }
        let database = &mut self.databases[index];
        let begin = WAL_HEADER_BYTES + database.frames * FRAME_BYTES;
        database.frames += frames;
        let end = WAL_HEADER_BYTES + database.frames * FRAME_BYTES;
        let (first, last) = (begin / 4096, end.div_ceil(4096));
        emitter.write(*now_ns, database.journal.start + first * BLOCK, (last - first) * BLOCK);
        self.metadata(now_ns, emitter);
        if self.databases[index].frames >= WAL_FRAMES {
            self.write_back(index, now_ns, emitter);
        }
    }

    /// The changed pages go to the database, in order of address, between two flushes.
    fn write_back(&mut self, index: usize, now_ns: &mut f64, emitter: &mut Emitter) {
        emitter.flush(*now_ns);
        *now_ns += FLUSH_NS;
        let database = &mut self.databases[index];
        database.changed.sort_unstable();
        database.changed.dedup();
        for page in &database.changed {
            emitter.write(*now_ns, database.file.start + page * BLOCK, BLOCK);
        }
        database.changed.clear();
        database.frames = 0;
        emitter.flush(*now_ns);
        *now_ns += FLUSH_NS;
    }

    /// A page, or one with what follows it.
    fn read(&mut self, now_ns: f64, emitter: &mut Emitter) {
        let index = self.popularity.draw(&mut self.rng) as usize;
        let page = self.page(index);
        let blocks = if chance(&mut self.rng, 0.5) { 1 } else { 4 + self.rng.below_unbiased(13) };
        let file = self.databases[index].file;
        let sectors = (blocks * BLOCK).min(file.sectors);
        let at = (page * BLOCK).min(file.sectors - sectors);
        emitter.read(now_ns, file.start + at, sectors);
    }
}

pub(crate) struct Sqlite {
    store: Store,
    gaps: Hyperexponential,
    mean_ns: f64,
    rng: Rng,
    now_ns: f64,
    /// Reads for each request that is none.
    reads: f64,
    owed: f64,
}

impl Sqlite {
    pub(crate) fn new(table: &SqliteConfig, area: AddressRange, seed: u64, pass: u64) -> Self {
        Self {
            store: Store::new(table, area, seed, pass),
            gaps: Hyperexponential::new(GAP_CV),
            mean_ns: (NS_PER_S / table.transactions_per_second - SHORTEST_GAP_NS).max(0.0),
            rng: Rng::for_path(seed, &[pass]),
            now_ns: 0.0,
            reads: table.read_fraction / (1.0 - table.read_fraction),
            owed: 0.0,
        }
    }
}

impl Process for Sqlite {
    fn act(&mut self, emitter: &mut Emitter) {
        let begin = self.now_ns;
        let before = emitter.requests.len();
        self.store.transaction(&mut self.now_ns, emitter);
        self.owed += (emitter.requests.len() - before) as f64 * self.reads;
        while self.owed >= 1.0 {
            self.owed -= 1.0;
            self.store.read(self.now_ns, emitter);
        }
        let gap = SHORTEST_GAP_NS + self.gaps.draw(&mut self.rng) * self.mean_ns;
        self.now_ns = self.now_ns.max(begin + gap);
    }
}

keys! {
    /// Keys of kind `phone_sqlite` alone.
    pub struct Keys {
        /// Keys of kind `phone_sqlite`.
        pub phone_sqlite: Option<SqliteConfig>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str =
        "Applications of a smartphone that store in SQLite: see the table `phone_sqlite`.";
    const COMMON: &'static [&'static [&'static str]] = &[PLACED];
    const CHANGES: &'static [&'static str] = &[r#"{"phone_sqlite":{"databases":10}}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        self.phone_sqlite.as_ref().map_or(Ok(()), SqliteConfig::validate)
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let table = self.phone_sqlite.clone().unwrap_or_default();
        let range = common.address_range_of(capacity_bytes, "phone_sqlite", SQLITE_SECTORS)?;
        Ok(Plan::of_process(move |seed, pass| Sqlite::new(&table, range, seed, pass)))
    }
}
