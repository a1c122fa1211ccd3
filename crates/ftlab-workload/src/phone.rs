//! A smartphone, by mechanism: SQLite on a journalling file system, and a camera, installations and games beside it.

use ftlab_core::config::ConfigError;
use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layout::NextFit;
use super::process::{
    Actor, Area, BLOCK, Hyperexponential, NS_PER_S, Script, chance, exponential, geometric, lognormal,
};
use super::refuse;
use super::zipf::{Permutation, Zipf};
use ftlab_core::rng::Rng;

/// Keys of kind `phone_sqlite`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SqliteConfig {
    /// Database files, of lognormal sizes around 256 KiB. 60 when absent.
    pub databases: u32,
    /// Share of the databases that use a write-ahead log; the others use a rollback journal. 0.3 when absent.
    pub wal_fraction: f64,
    /// Transactions a second, on average; never more than 39 a second. 2 when absent.
    pub transactions_per_second: f64,
    /// Pages that a transaction changes, on average: of 3.4, three with a rollback journal or, in two of five, four; with a
    /// write-ahead log by a geometric law. 2 when absent: with a rollback journal, 11 blocks are written for them.
    pub transaction_pages: f64,
    /// Share of all requests that read. 0.2 when absent.
    pub read_fraction: f64,
    /// Exponent of Zipf's law of the popularity of databases, and of pages in each. 0.9 when absent.
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
pub(super) const SQLITE_SECTORS: u64 = JOURNAL + (256 << 11);
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
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
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
    area: Area,
    at: u64,
}

impl Journal {
    /// Descriptor and metadata in one write, then the commit block.
    fn commit(&mut self, at_ns: f64, metadata_blocks: u64, script: &mut Script) {
        for sectors in [metadata_blocks * BLOCK, BLOCK] {
            if self.at + sectors > self.area.sectors {
                self.at = 0;
            }
            script.write(at_ns, self.area.start + self.at, sectors);
            self.at += sectors;
        }
    }
}

#[derive(Debug)]
struct DatabaseFile {
    file: Area,
    /// Of the rollback journal or the write-ahead log.
    journal: Area,
    pages: Zipf,
    order: Permutation,
    wal: bool,
    /// Frames in the write-ahead log, and the pages that they change.
    frames: u64,
    changed: Vec<u64>,
}

/// Databases on a file system.
#[derive(Debug)]
pub(super) struct Store {
    journal: Journal,
    databases: Vec<DatabaseFile>,
    popularity: Zipf,
    transaction_pages: f64,
    rng: Rng,
}

impl Store {
    /// `fixed` draws what is the same in every pass.
    pub(super) fn new(table: &SqliteConfig, mut area: Area, seed: u64, pass: u64) -> Self {
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
    pub(super) fn metadata(&mut self, now_ns: &mut f64, script: &mut Script) {
        self.journal.commit(*now_ns, 2, script);
        script.flush(*now_ns);
        *now_ns += FLUSH_NS;
    }

    fn page(&mut self, index: usize) -> u64 {
        let database = &self.databases[index];
        database.order.map(database.pages.draw(&mut self.rng))
    }

    /// A transaction of any database; `now_ns` moves on to its end.
    pub(super) fn transaction(&mut self, now_ns: &mut f64, script: &mut Script) {
        let index = self.popularity.draw(&mut self.rng) as usize;
        if self.databases[index].wal {
            self.append(index, now_ns, script);
        } else {
            self.roll(index, now_ns, script);
        }
    }

    /// What was, then what is, each with a flush: 11 blocks for two pages.
    fn roll(&mut self, index: usize, now_ns: &mut f64, script: &mut Script) {
        let part = self.transaction_pages.fract();
        let more = part > 0.0 && chance(&mut self.rng, part);
        let count = self.transaction_pages as u64 + u64::from(more);
        let mut pages = [0; MOST_PAGES as usize];
        for page in &mut pages[..count as usize] {
            *page = self.page(index);
        }
        let DatabaseFile { file, journal, .. } = self.databases[index];
        script.write(*now_ns, journal.start, (1 + count) * BLOCK);
        self.metadata(now_ns, script);
        for page in &pages[..count as usize] {
            script.write(*now_ns, file.start + page * BLOCK, BLOCK);
        }
        script.write(*now_ns, journal.start, BLOCK);
        self.journal.commit(*now_ns, 1, script);
        script.flush(*now_ns);
        *now_ns += FLUSH_NS;
    }

    /// Frames at the end of the write-ahead log, and a flush.
    fn append(&mut self, index: usize, now_ns: &mut f64, script: &mut Script) {
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
        script.write(*now_ns, database.journal.start + first * BLOCK, (last - first) * BLOCK);
        self.metadata(now_ns, script);
        if self.databases[index].frames >= WAL_FRAMES {
            self.write_back(index, now_ns, script);
        }
    }

    /// The changed pages go to the database, in order of address, between two flushes.
    fn write_back(&mut self, index: usize, now_ns: &mut f64, script: &mut Script) {
        script.flush(*now_ns);
        *now_ns += FLUSH_NS;
        let database = &mut self.databases[index];
        database.changed.sort_unstable();
        database.changed.dedup();
        for page in &database.changed {
            script.write(*now_ns, database.file.start + page * BLOCK, BLOCK);
        }
        database.changed.clear();
        database.frames = 0;
        script.flush(*now_ns);
        *now_ns += FLUSH_NS;
    }

    /// A page, or one with what follows it.
    fn read(&mut self, now_ns: f64, script: &mut Script) {
        let index = self.popularity.draw(&mut self.rng) as usize;
        let page = self.page(index);
        let blocks = if chance(&mut self.rng, 0.5) { 1 } else { 4 + self.rng.below_unbiased(13) };
        let file = self.databases[index].file;
        let sectors = (blocks * BLOCK).min(file.sectors);
        let at = (page * BLOCK).min(file.sectors - sectors);
        script.read(now_ns, file.start + at, sectors);
    }
}

pub(super) struct Sqlite {
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
    pub(super) fn new(table: &SqliteConfig, area: Area, seed: u64, pass: u64) -> Self {
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

impl Actor for Sqlite {
    fn act(&mut self, script: &mut Script) {
        let begin = self.now_ns;
        let before = script.requests.len();
        self.store.transaction(&mut self.now_ns, script);
        self.owed += (script.requests.len() - before) as f64 * self.reads;
        while self.owed >= 1.0 {
            self.owed -= 1.0;
            self.store.read(self.now_ns, script);
        }
        let gap = SHORTEST_GAP_NS + self.gaps.draw(&mut self.rng) * self.mean_ns;
        self.now_ns = self.now_ns.max(begin + gap);
    }
}

/// What a phone does beside its databases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    /// A clip of 10 to 120 s, in writes of 512 KiB.
    Video,
    /// 1 to 5 pictures, each with a thumbnail and a transaction.
    Photos,
    /// An application: 10 to 50 MB in large writes, 200 small files, 20 transactions.
    Install,
    /// Assets are read, and every minute the game is saved.
    Game,
}

/// When the room of deleted files is trimmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Discard {
    /// With the deletion.
    Online,
    /// All at once, once a day.
    Daily,
    /// Never.
    None,
}

/// Keys of kind `phone_media`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MediaConfig {
    /// What is done, each as often; a name may stand several times. All four when absent.
    pub activities: Vec<Activity>,
    /// Mean time between two activities. 60 s when absent.
    #[serde(deserialize_with = "quantity::micros")]
    pub pause_us: f64,
    /// Bytes a second of video. 2,100,000 (1080p at 17 Mbit/s) when absent.
    #[serde(deserialize_with = "quantity::bytes")]
    pub video_bytes: u64,
    /// Share of the space that files may take before the oldest are deleted. 0.8 when absent.
    pub fill_fraction: f64,
    /// When the room of deleted files is trimmed. `online` when absent.
    pub discard: Discard,
}

impl Default for MediaConfig {
    fn default() -> Self {
        Self {
            activities: vec![Activity::Video, Activity::Photos, Activity::Install, Activity::Game],
            pause_us: 6e7,
            video_bytes: 2_100_000,
            fill_fraction: 0.8,
            discard: Discard::Online,
        }
    }
}

/// Sectors that kind `phone_media` needs: databases, and room for a few of the largest files.
pub(super) const MEDIA_SECTORS: u64 = SQLITE_SECTORS + (2 << 21);
const WRITE_SECTORS: u64 = 1024;
const CLIP_SECONDS: u64 = 10;
const CLIP_SECONDS_MORE: u64 = 111;
const WRITEBACK_NS: f64 = 5e9;
const DAY_NS: f64 = 86_400.0 * NS_PER_S;
const PHOTO_BYTES: f64 = 2.5e6;
const PHOTO_SIGMA: f64 = 0.3;
const THUMBNAIL_SECTORS: u64 = 5 * BLOCK;
const WRITE_BYTES_PER_NS: f64 = 0.02;
const SMALL_FILES: usize = 200;
const INSTALL_TRANSACTIONS: usize = 20;
const SAVE_NS: f64 = 60.0 * NS_PER_S;

impl MediaConfig {
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.activities.is_empty() || self.activities.len() > 1000 {
            return refuse(
                "phone_media.activities",
                self.activities.len(),
                "must name from 1 to 1000 activities",
            );
        }
        if !(self.pause_us >= 0.0 && self.pause_us <= 1e12) {
            return refuse("phone_media.pause_us", self.pause_us, "must be at most 11 days");
        }
        if self.video_bytes < 1000 || self.video_bytes > 8_000_000 {
            return refuse("phone_media.video_bytes", self.video_bytes, "must be from 1 KB to 8 MB a second");
        }
        if !(self.fill_fraction > 0.0 && self.fill_fraction <= 1.0) {
            let expected = "must be a fraction above 0 and at most 1";
            return refuse("phone_media.fill_fraction", self.fill_fraction, expected);
        }
        Ok(())
    }
}

pub(super) struct Media {
    table: MediaConfig,
    store: Store,
    files: NextFit,
    deleted: Vec<Area>,
    rng: Rng,
    now_ns: f64,
    next_day_ns: f64,
}

impl Media {
    pub(super) fn new(table: &MediaConfig, mut area: Area, seed: u64, pass: u64) -> Self {
        let store = Store::new(&SqliteConfig::default(), area.take(SQLITE_SECTORS), seed, pass);
        Self {
            table: table.clone(),
            store,
            files: NextFit::new(area),
            deleted: Vec::with_capacity(1 << 14),
            rng: Rng::for_path(seed, &[pass]),
            now_ns: 0.0,
            next_day_ns: DAY_NS,
        }
    }

    fn create(&mut self, sectors: u64, script: &mut Script) -> Area {
        let file = self.files.create(sectors.next_multiple_of(BLOCK), &mut self.deleted);
        while self.files.count() > 1 && self.files.used_fraction() > self.table.fill_fraction {
            self.files.delete(&mut self.deleted);
        }
        match self.table.discard {
            Discard::Online => self.trim(script),
            // What the new file takes is in use again and must not be trimmed with the rest.
            Discard::Daily => self.deleted.retain_mut(|area| {
                if file.start < area.end() && area.start < file.end() {
                    let end = area.end();
                    area.start = file.end().min(end);
                    area.sectors = end - area.start;
                }
                area.sectors > 0
            }),
            Discard::None => self.deleted.clear(),
        }
        file
    }

    fn trim(&mut self, script: &mut Script) {
        for file in self.deleted.drain(..) {
            script.trim(self.now_ns, file.start, file.sectors);
        }
    }

    /// Write a whole file in parts of at most `most` sectors, as fast as the application makes it.
    fn write_file(&mut self, mut file: Area, most: u64, script: &mut Script) {
        while file.sectors > 0 {
            let part = file.take(most);
            script.write(self.now_ns, part.start, part.sectors);
            self.now_ns += (part.sectors * 512) as f64 / WRITE_BYTES_PER_NS;
        }
    }

    fn video(&mut self, script: &mut Script) {
        let seconds = CLIP_SECONDS + self.rng.below_unbiased(CLIP_SECONDS_MORE);
        let mut file = self.create(seconds * self.table.video_bytes / 512 + 1, script);
        let gap_ns = (WRITE_SECTORS * 512) as f64 / self.table.video_bytes as f64 * NS_PER_S;
        let mut next_writeback_ns = self.now_ns + WRITEBACK_NS;
        while file.sectors > 0 {
            self.now_ns += gap_ns;
            let part = file.take(WRITE_SECTORS);
            script.write(self.now_ns, part.start, part.sectors);
            if self.now_ns >= next_writeback_ns || file.sectors == 0 {
                next_writeback_ns += WRITEBACK_NS;
                self.store.metadata(&mut self.now_ns, script);
            }
        }
    }

    fn photos(&mut self, script: &mut Script) {
        for _ in 0..=self.rng.below_unbiased(5) {
            let bytes = lognormal(&mut self.rng, PHOTO_BYTES, PHOTO_SIGMA);
            let photo = self.create((bytes / 512.0).ceil() as u64, script);
            self.write_file(photo, WRITE_SECTORS, script);
            let thumbnail = self.create(THUMBNAIL_SECTORS, script);
            self.write_file(thumbnail, WRITE_SECTORS, script);
            self.store.transaction(&mut self.now_ns, script);
        }
    }

    fn install(&mut self, script: &mut Script) {
        let bytes = 10_000_000 + self.rng.below_unbiased(40_000_001);
        let mut package = self.create(bytes / 512, script);
        while package.sectors > 0 {
            let part = package.take(256 * (1 + self.rng.below_unbiased(4)));
            self.write_file(part, part.sectors, script);
        }
        for index in 0..SMALL_FILES {
            let blocks = 1 + self.rng.below_unbiased(16);
            let file = self.create(BLOCK * blocks, script);
            self.write_file(file, file.sectors, script);
            if index % (SMALL_FILES / INSTALL_TRANSACTIONS) == 0 {
                self.store.transaction(&mut self.now_ns, script);
            }
        }
        self.store.metadata(&mut self.now_ns, script);
    }

    fn game(&mut self, script: &mut Script) {
        let save = self.create(4 * BLOCK, script);
        for _ in 0..=self.rng.below_unbiased(10) {
            if let Some(mut assets) = self.files.any(&mut self.rng) {
                let mut left = 1 + self.rng.below_unbiased(64);
                while assets.sectors > 0 && left > 0 {
                    let part = assets.take(64 * (1 + self.rng.below_unbiased(4)));
                    script.read(self.now_ns, part.start, part.sectors);
                    self.now_ns += (part.sectors * 512) as f64 / WRITE_BYTES_PER_NS;
                    left -= 1;
                }
            }
            self.now_ns += SAVE_NS;
            script.write(self.now_ns, save.start, BLOCK * (1 + self.rng.below_unbiased(4)));
            self.store.metadata(&mut self.now_ns, script);
        }
    }
}

impl Actor for Media {
    fn act(&mut self, script: &mut Script) {
        self.now_ns += exponential(&mut self.rng) * self.table.pause_us * 1e3;
        if self.now_ns >= self.next_day_ns {
            self.next_day_ns += DAY_NS * ((self.now_ns - self.next_day_ns) / DAY_NS).floor() + DAY_NS;
            self.trim(script);
        }
        let index = self.rng.below_unbiased(self.table.activities.len() as u64) as usize;
        match self.table.activities[index] {
            Activity::Video => self.video(script),
            Activity::Photos => self.photos(script),
            Activity::Install => self.install(script),
            Activity::Game => self.game(script),
        }
    }
}
