//! A smartphone, by mechanism: a camera, installations and games beside its databases.

use ftlab_core::config::ConfigError;
use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phone_sqlite::{SQLITE_SECTORS, SqliteConfig, Store};
use crate::common::CommonKeys;
use crate::key_set::keys;
use crate::kind::{Kind, PLACED, Plan};
use crate::layout::NextFit;
use crate::process::{AddressRange, BLOCK, Emitter, NS_PER_S, Process, exponential, lognormal};
use crate::refusal::refuse;
use ftlab_core::rng::Rng;

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
    ///
    /// Default: all, as nothing published says which of them is more frequent.
    pub activities: Vec<Activity>,
    /// Mean time between two activities. 60 s when absent.
    ///
    /// Default: assumed: a user who does something each minute.
    #[serde(deserialize_with = "quantity::micros")]
    pub pause_us: f64,
    /// Bytes a second of video. 2,100,000 (1080p at 17 Mbit/s) when absent.
    ///
    /// Default: 17 Mbit/s, Android's media profile for 1080p.
    #[serde(deserialize_with = "quantity::bytes")]
    pub video_bytes: u64,
    /// Share of the space that files may take before the oldest are deleted. 0.8 when absent.
    ///
    /// Default: assumed: a phone that is well used.
    pub fill_fraction: f64,
    /// When the room of deleted files is trimmed. `online` when absent.
    ///
    /// Default: trims are seen at once, and deletions are few.
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
pub(crate) const MEDIA_SECTORS: u64 = SQLITE_SECTORS + (2 << 21);
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
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
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

pub(crate) struct Media {
    table: MediaConfig,
    store: Store,
    files: NextFit,
    deleted: Vec<AddressRange>,
    rng: Rng,
    now_ns: f64,
    next_day_ns: f64,
}

impl Media {
    pub(crate) fn new(table: &MediaConfig, mut area: AddressRange, seed: u64, pass: u64) -> Self {
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

    fn create(&mut self, sectors: u64, emitter: &mut Emitter) -> AddressRange {
        let file = self.files.create(sectors.next_multiple_of(BLOCK), &mut self.deleted);
        while self.files.count() > 1 && self.files.used_fraction() > self.table.fill_fraction {
            self.files.delete(&mut self.deleted);
        }
        match self.table.discard {
            Discard::Online => self.trim(emitter),
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

    fn trim(&mut self, emitter: &mut Emitter) {
        for file in self.deleted.drain(..) {
            emitter.trim(self.now_ns, file.start, file.sectors);
        }
    }

    /// Write a whole file in parts of at most `most` sectors, as fast as the application makes it.
    fn write_file(&mut self, mut file: AddressRange, most: u64, emitter: &mut Emitter) {
        while file.sectors > 0 {
            let part = file.take(most);
            emitter.write(self.now_ns, part.start, part.sectors);
            self.now_ns += (part.sectors * 512) as f64 / WRITE_BYTES_PER_NS;
        }
    }

    fn video(&mut self, emitter: &mut Emitter) {
        let seconds = CLIP_SECONDS + self.rng.below_unbiased(CLIP_SECONDS_MORE);
        let mut file = self.create(seconds * self.table.video_bytes / 512 + 1, emitter);
        let gap_ns = (WRITE_SECTORS * 512) as f64 / self.table.video_bytes as f64 * NS_PER_S;
        let mut next_writeback_ns = self.now_ns + WRITEBACK_NS;
        while file.sectors > 0 {
            self.now_ns += gap_ns;
            let part = file.take(WRITE_SECTORS);
            emitter.write(self.now_ns, part.start, part.sectors);
            if self.now_ns >= next_writeback_ns || file.sectors == 0 {
                next_writeback_ns += WRITEBACK_NS;
                self.store.metadata(&mut self.now_ns, emitter);
            }
        }
    }

    fn photos(&mut self, emitter: &mut Emitter) {
        for _ in 0..=self.rng.below_unbiased(5) {
            let bytes = lognormal(&mut self.rng, PHOTO_BYTES, PHOTO_SIGMA);
            let photo = self.create((bytes / 512.0).ceil() as u64, emitter);
            self.write_file(photo, WRITE_SECTORS, emitter);
            let thumbnail = self.create(THUMBNAIL_SECTORS, emitter);
            self.write_file(thumbnail, WRITE_SECTORS, emitter);
            self.store.transaction(&mut self.now_ns, emitter);
        }
    }

    fn install(&mut self, emitter: &mut Emitter) {
        let bytes = 10_000_000 + self.rng.below_unbiased(40_000_001);
        let mut package = self.create(bytes / 512, emitter);
        while package.sectors > 0 {
            let part = package.take(256 * (1 + self.rng.below_unbiased(4)));
            self.write_file(part, part.sectors, emitter);
        }
        for index in 0..SMALL_FILES {
            let blocks = 1 + self.rng.below_unbiased(16);
            let file = self.create(BLOCK * blocks, emitter);
            self.write_file(file, file.sectors, emitter);
            if index % (SMALL_FILES / INSTALL_TRANSACTIONS) == 0 {
                self.store.transaction(&mut self.now_ns, emitter);
            }
        }
        self.store.metadata(&mut self.now_ns, emitter);
    }

    fn game(&mut self, emitter: &mut Emitter) {
        let save = self.create(4 * BLOCK, emitter);
        for _ in 0..=self.rng.below_unbiased(10) {
            if let Some(mut assets) = self.files.any(&mut self.rng) {
                let mut left = 1 + self.rng.below_unbiased(64);
                while assets.sectors > 0 && left > 0 {
                    let part = assets.take(64 * (1 + self.rng.below_unbiased(4)));
                    emitter.read(self.now_ns, part.start, part.sectors);
                    self.now_ns += (part.sectors * 512) as f64 / WRITE_BYTES_PER_NS;
                    left -= 1;
                }
            }
            self.now_ns += SAVE_NS;
            emitter.write(self.now_ns, save.start, BLOCK * (1 + self.rng.below_unbiased(4)));
            self.store.metadata(&mut self.now_ns, emitter);
        }
    }
}

impl Process for Media {
    fn act(&mut self, emitter: &mut Emitter) {
        self.now_ns += exponential(&mut self.rng) * self.table.pause_us * 1e3;
        if self.now_ns >= self.next_day_ns {
            self.next_day_ns += DAY_NS * ((self.now_ns - self.next_day_ns) / DAY_NS).floor() + DAY_NS;
            self.trim(emitter);
        }
        let index = self.rng.below_unbiased(self.table.activities.len() as u64) as usize;
        match self.table.activities[index] {
            Activity::Video => self.video(emitter),
            Activity::Photos => self.photos(emitter),
            Activity::Install => self.install(emitter),
            Activity::Game => self.game(emitter),
        }
    }
}

keys! {
    /// Keys of kind `phone_media` alone.
    pub struct Keys {
        /// Keys of kind `phone_media`.
        pub phone_media: Option<MediaConfig>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str =
        "Camera, installations and games of a smartphone: see the table `phone_media`.";
    const COMMON: &'static [&'static [&'static str]] = &[PLACED];
    const CHANGES: &'static [&'static str] = &[r#"{"phone_media":{"pause_us":1e6}}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        self.phone_media.as_ref().map_or(Ok(()), MediaConfig::validate)
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let table = self.phone_media.clone().unwrap_or_default();
        let range = common.address_range_of(capacity_bytes, "phone_media", MEDIA_SECTORS)?;
        Ok(Plan::of_process(move |seed, pass| Media::new(&table, range, seed, pass)))
    }
}
