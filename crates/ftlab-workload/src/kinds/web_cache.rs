//! The disk cache of a web browser, by mechanism.
//!
//! Small objects lie in files of blocks, large ones in files of their own. The least recently used are deleted in
//! batches. SQLite keeps cookies and history.

use ftlab_core::config::ConfigError;
use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::phone_sqlite::{SQLITE_SECTORS, SqliteConfig, Store};
use crate::common::CommonKeys;
use crate::key_set::keys;
use crate::kind::{Kind, PLACED, Plan};
use crate::process::{AddressRange, BLOCK, Emitter, NS_PER_US, Process, chance, exponential, lognormal};
use crate::refusal::refuse;
use crate::zipf::Zipf;
use ftlab_core::rng::Rng;

/// Keys of kind `web_cache`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebCacheConfig {
    /// Size of the cache. 80 MB (a phone) when absent.
    ///
    /// Default: assumed: the cache of a phone.
    #[serde(deserialize_with = "quantity::bytes")]
    pub cache_bytes: u64,
    /// Objects of a page. 40 when absent.
    ///
    /// Default: assumed: a page of text and pictures.
    pub objects: u32,
    /// Median size of an object, by a lognormal law of sigma 1.6. 8 KiB when absent.
    ///
    /// Default: assumed: with its law, a mean of 29 KB.
    #[serde(deserialize_with = "quantity::bytes")]
    pub object_bytes: u64,
    /// Share of objects that were asked for before: those that were not deleted meanwhile are in the cache. 0.81 when
    /// absent, which makes 60 % hits of a cache of 80 MB.
    ///
    /// Default: 60 % of the objects are then found in a cache of 80 MB (assumed).
    pub revisit_fraction: f64,
    /// Mean time between two pages. 20 s when absent.
    ///
    /// Default: assumed: a reader who stays for twenty seconds.
    #[serde(deserialize_with = "quantity::micros")]
    pub view_us: f64,
    /// Most transactions of cookies and history for a page; two fewer at least. 5 when absent.
    ///
    /// Default: assumed: a page leaves three to five records in history and cookies.
    pub transactions: u32,
}

impl Default for WebCacheConfig {
    fn default() -> Self {
        Self {
            cache_bytes: 80_000_000,
            objects: 40,
            object_bytes: 8192,
            revisit_fraction: 0.81,
            view_us: 2e7,
            transactions: 5,
        }
    }
}

const OBJECT_SIGMA: f64 = 1.6;
/// Classes of places: objects of at most 2^(9 + class) bytes. The first ones share files of blocks, which grow by a
/// chunk at a time.
const CLASSES: usize = 15;
const BLOCK_FILE_CLASSES: usize = 6;
const CHUNK: u64 = 256 << 1;
const LARGEST: f64 = 8_388_608.0;
/// Of the cache, deleted at once when it is full.
const BATCH: f64 = 0.05;
const WRITEBACK_NS: f64 = 5e9;
/// Index and headers of the block files: rewritten with every write-back.
const HEADERS: u64 = 5;
const THETA: f64 = 0.9;
const REMEMBERED: usize = 1 << 14;
const NONE: u32 = u32::MAX;

impl WebCacheConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.cache_bytes < 10_000_000 || self.cache_bytes > 1 << 40 {
            return refuse("web_cache.cache_bytes", self.cache_bytes, "must be from 10 MB to 1 TiB");
        }
        if self.objects == 0 || self.objects > 10_000 {
            return refuse("web_cache.objects", self.objects, "must be from 1 to 10000");
        }
        if self.object_bytes < 256 || self.object_bytes > 1 << 20 {
            return refuse("web_cache.object_bytes", self.object_bytes, "must be from 256 bytes to 1 MiB");
        }
        if !(0.0..=1.0).contains(&self.revisit_fraction) {
            return refuse(
                "web_cache.revisit_fraction",
                self.revisit_fraction,
                "must be a fraction from 0 to 1",
            );
        }
        if !(self.view_us >= 1.0 && self.view_us <= 1e12) {
            return refuse("web_cache.view_us", self.view_us, "must be from a microsecond to 11 days");
        }
        if self.transactions > 1000 {
            return refuse("web_cache.transactions", self.transactions, "must be at most 1000");
        }
        Ok(())
    }

    /// What it needs: its databases, the index, and room for places of all classes.
    pub(crate) fn sectors(&self) -> u64 {
        SQLITE_SECTORS + HEADERS * BLOCK + 2 * self.cache_bytes / 512
    }
}

#[derive(Debug, Clone, Copy)]
struct Object {
    class: u8,
    sectors: u32,
    lba: u64,
    bytes: u64,
    older: u32,
    newer: u32,
}

pub(crate) struct WebCache {
    table: WebCacheConfig,
    store: Store,
    rng: Rng,
    now_ns: f64,
    headers: AddressRange,
    room: AddressRange,
    /// Places that are free, by class.
    free: [Vec<u64>; CLASSES],
    objects: Vec<Object>,
    unused: Vec<u32>,
    oldest: u32,
    newest: u32,
    bytes: u64,
    /// Objects in the order in which they came, the newest last, with what they were called then.
    remembered: std::collections::VecDeque<(u32, u64)>,
    popularity: Zipf,
    /// What the page cache has to write, in sectors.
    dirty: Vec<AddressRange>,
    writeback_ns: f64,
}

impl WebCache {
    pub(crate) fn new(table: &WebCacheConfig, mut area: AddressRange, seed: u64, pass: u64) -> Self {
        let databases = SqliteConfig { databases: 3, ..SqliteConfig::default() };
        let store = Store::new(&databases, area.take(SQLITE_SECTORS), seed, pass);
        Self {
            store,
            rng: Rng::for_path(seed, &[pass]),
            now_ns: 0.0,
            headers: area.take(HEADERS * BLOCK),
            room: area,
            free: [const { Vec::new() }; CLASSES],
            objects: Vec::with_capacity(1 << 12),
            unused: Vec::with_capacity(1 << 12),
            oldest: NONE,
            newest: NONE,
            bytes: 0,
            remembered: std::collections::VecDeque::with_capacity(REMEMBERED),
            popularity: Zipf::new(REMEMBERED as u64, THETA),
            dirty: Vec::with_capacity(1 << 10),
            writeback_ns: f64::INFINITY,
            table: table.clone(),
        }
    }

    fn unlink(&mut self, index: u32) {
        let Object { older, newer, .. } = self.objects[index as usize];
        match older {
            NONE => self.oldest = newer,
            _ => self.objects[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            _ => self.objects[newer as usize].older = older,
        }
    }

    fn link_newest(&mut self, index: u32) {
        let newest = self.newest;
        let object = &mut self.objects[index as usize];
        (object.older, object.newer) = (newest, NONE);
        match newest {
            NONE => self.oldest = index,
            _ => self.objects[newest as usize].newer = index,
        }
        self.newest = index;
    }

    /// Delete what was not used for longest, until a batch less than `bytes` is left; files of their own are trimmed.
    fn delete_batch(&mut self, bytes: u64, emitter: &mut Emitter) {
        let keep = (bytes as f64 * (1.0 - BATCH)) as u64;
        while self.bytes > keep && self.oldest != NONE {
            let index = self.oldest;
            self.unlink(index);
            let object = self.objects[index as usize];
            self.bytes -= object.bytes;
            self.free[usize::from(object.class)].push(object.lba);
            // The name tells a deleted object from the one that takes its place.
            self.objects[index as usize].lba = u64::MAX;
            self.unused.push(index);
            if usize::from(object.class) >= BLOCK_FILE_CLASSES {
                self.dirty.retain(|part| {
                    part.start < object.lba || part.start >= object.lba + u64::from(object.sectors)
                });
                emitter.trim(self.now_ns, object.lba, u64::from(object.sectors));
            }
        }
    }

    /// Room for an object of class `class`, 2^`class` sectors long, and the class that it really has.
    fn place(&mut self, class: usize) -> Option<(usize, u64)> {
        if let Some(lba) = self.free[class].pop() {
            return Some((class, lba));
        }
        let sectors = 1 << class;
        let grown = if class < BLOCK_FILE_CLASSES { CHUNK } else { sectors };
        if self.room.sectors < grown {
            return (class + 1..CLASSES).find_map(|larger| Some((larger, self.free[larger].pop()?)));
        }
        let chunk = self.room.take(grown);
        // The next ones come from the same chunk, from its begin on.
        self.free[class].extend((1..grown / sectors).rev().map(|index| chunk.start + index * sectors));
        Some((class, chunk.start))
    }

    fn download(&mut self, emitter: &mut Emitter) {
        let bytes = lognormal(&mut self.rng, self.table.object_bytes as f64, OBJECT_SIGMA)
            .clamp(64.0, LARGEST) as u64;
        let sectors = bytes.div_ceil(512);
        let class = sectors.next_power_of_two().trailing_zeros() as usize;
        if self.bytes + bytes > self.table.cache_bytes {
            self.delete_batch(self.table.cache_bytes, emitter);
        }
        let mut place = self.place(class);
        if place.is_none() {
            self.delete_batch(self.bytes, emitter);
            place = self.place(class);
        }
        // Nothing large enough: the object is not kept.
        let Some((class, lba)) = place else { return };
        let object =
            Object { class: class as u8, sectors: sectors as u32, lba, bytes, older: NONE, newer: NONE };
        let index = self.unused.pop().unwrap_or_else(|| {
            self.objects.push(object);
            self.objects.len() as u32 - 1
        });
        self.objects[index as usize] = object;
        self.link_newest(index);
        self.bytes += bytes;
        if self.remembered.len() == REMEMBERED {
            self.remembered.pop_front();
        }
        self.remembered.push_back((index, lba));
        self.dirty.push(AddressRange { start: lba, sectors });
    }

    /// An object that came some time ago and is still there; recent ones are more likely.
    fn look_up(&mut self) -> Option<u32> {
        let back = self.popularity.draw(&mut self.rng) as usize;
        let at = self.remembered.len().checked_sub(back + 1)?;
        let (index, lba) = self.remembered[at];
        (self.objects[index as usize].lba == lba).then_some(index)
    }

    /// Blocks of 4 KiB that hold these sectors.
    fn blocks(part: AddressRange) -> AddressRange {
        let start = part.start / BLOCK * BLOCK;
        AddressRange { start, sectors: part.end().next_multiple_of(BLOCK) - start }
    }

    fn object(&mut self, emitter: &mut Emitter) {
        let wanted = chance(&mut self.rng, self.table.revisit_fraction);
        match if wanted { self.look_up() } else { None } {
            Some(index) => {
                self.unlink(index);
                self.link_newest(index);
                let Object { lba, sectors, .. } = self.objects[index as usize];
                let mut rest = Self::blocks(AddressRange { start: lba, sectors: sectors.into() });
                // Read-ahead of 128 KiB at most.
                while rest.sectors > 0 {
                    let part = rest.take(256);
                    emitter.read(self.now_ns, part.start, part.sectors);
                }
            }
            None => self.download(emitter),
        }
    }

    /// What the page cache held back: blocks once each, in order of address, neighbours together.
    fn write_back(&mut self, at_ns: f64, emitter: &mut Emitter) {
        self.writeback_ns = f64::INFINITY;
        for part in &mut self.dirty {
            *part = Self::blocks(*part);
        }
        self.dirty.sort_unstable_by_key(|part| (part.start, part.sectors));
        let mut run: Option<AddressRange> = None;
        for index in 0..self.dirty.len() {
            let part = self.dirty[index];
            match &mut run {
                Some(run) if part.start <= run.end() => {
                    run.sectors = run.sectors.max(part.end() - run.start);
                }
                _ => {
                    Self::write_run(at_ns, run, emitter);
                    run = Some(part);
                }
            }
        }
        Self::write_run(at_ns, run, emitter);
        self.dirty.clear();
        for header in 0..HEADERS {
            emitter.write(at_ns, self.headers.start + header * BLOCK, BLOCK);
        }
    }

    fn write_run(at_ns: f64, run: Option<AddressRange>, emitter: &mut Emitter) {
        let Some(mut rest) = run else { return };
        while rest.sectors > 0 {
            let part = rest.take(1024);
            emitter.write(at_ns, part.start, part.sectors);
        }
    }
}

impl Process for WebCache {
    /// One page, and the write-back that was due before.
    fn act(&mut self, emitter: &mut Emitter) {
        let next_ns = self.now_ns + exponential(&mut self.rng) * self.table.view_us * NS_PER_US;
        if self.writeback_ns <= next_ns {
            let at_ns = self.writeback_ns.max(self.now_ns);
            self.write_back(at_ns, emitter);
        }
        self.now_ns = next_ns;
        for _ in 0..self.table.objects {
            self.object(emitter);
            self.now_ns += 5e6;
        }
        if !self.dirty.is_empty() && self.writeback_ns.is_infinite() {
            self.writeback_ns = self.now_ns + WRITEBACK_NS;
        }
        let most = u64::from(self.table.transactions);
        let fewest = most.saturating_sub(2);
        for _ in 0..fewest + self.rng.below_unbiased(most - fewest + 1) {
            self.store.transaction(&mut self.now_ns, emitter);
        }
    }
}

keys! {
    /// Keys of kind `web_cache` alone.
    pub struct Keys {
        /// Keys of kind `web_cache`.
        pub web_cache: Option<WebCacheConfig>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "The disk cache of a web browser: see the table `web_cache`.";
    const COMMON: &'static [&'static [&'static str]] = &[PLACED];
    const CHANGES: &'static [&'static str] = &[r#"{"web_cache":{"view_us":1e6}}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        self.web_cache.as_ref().map_or(Ok(()), WebCacheConfig::validate)
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let table = self.web_cache.clone().unwrap_or_default();
        let range = common.address_range_of(capacity_bytes, "web_cache", table.sectors())?;
        Ok(Plan::of_process(move |seed, pass| WebCache::new(&table, range, seed, pass)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftlab_core::host::request::Op;

    #[test]
    #[ignore = "a long test: make test-long"]
    fn three_of_five_objects_are_in_the_cache() {
        let table = WebCacheConfig { transactions: 0, ..WebCacheConfig::default() };
        for seed in 1..=3 {
            let area = AddressRange { start: 0, sectors: 2 << 21 };
            let mut cache = WebCache::new(&table, area, seed, 0);
            let mut emitter = Emitter::default();
            let (mut hits, mut all) = (0, 0);
            for count in 0..60_000 {
                emitter.clear();
                cache.object(&mut emitter);
                // The first ones fill the cache.
                if count >= 10_000 {
                    all += 1;
                    hits += u32::from(emitter.requests.iter().any(|request| request.op == Op::Read));
                }
            }
            let share = f64::from(hits) / f64::from(all);
            assert!((share - 0.6).abs() < 0.02, "seed {seed}: {share}");
        }
    }
}
