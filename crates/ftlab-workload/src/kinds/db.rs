//! A database under a TPC-C load, by mechanism.
//!
//! Transactions touch pages of tables in a buffer pool that really is an LRU list. Commits append to a circular log,
//! and checkpoints write what is dirty in order of address.

use ftlab_core::config::ConfigError;
use ftlab_core::quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::CommonKeys;
use crate::key_set::keys;
use crate::kind::{Kind, PLACED, Plan};
use crate::layout::Scatter;
use crate::process::{
    AddressRange, BLOCK, Emitter, NS_PER_S, NS_PER_US, Process, choose, exponential, lognormal,
};
use crate::refusal::refuse;
use ftlab_core::rng::Rng;

/// In which order a checkpoint writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckpointOrder {
    /// In order of address.
    Address,
    /// What was changed first goes first, and its dirty neighbours with it.
    Change,
}

/// Keys of kind `db`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DatabaseConfig {
    /// Bytes of a page of the database. 8 KiB when absent.
    ///
    /// Default: that of PostgreSQL and Oracle; 96 % of the requests of a recorded TPC-C have it.
    #[serde(deserialize_with = "quantity::bytes")]
    pub page_bytes: u64,
    /// Warehouses. 100 when absent.
    ///
    /// Default: assumed: tables of 10 GiB, which a small drive holds.
    pub warehouses: u32,
    /// Bytes of all tables of a warehouse. 100 MiB when absent.
    ///
    /// Default: 70 MB of rows by TPC-C, and what storing them adds (assumed).
    #[serde(deserialize_with = "quantity::bytes")]
    pub warehouse_bytes: u64,
    /// Size of the buffer pool / size of the database. Below 1, reads come from misses and writes from evictions; from
    /// 1 on, everything stays once it was read. 0.1 when absent.
    ///
    /// Default: a pool this small leaves 62 to 66 % reads, as is published of TPC-C.
    pub pool_fraction: f64,
    /// Whether the pool is full when the recording begins. If so, transactions run before it until the pool is full,
    /// but no more of them than it has pages. From a `pool_fraction` of 1 on, the pool then holds everything. When
    /// absent, true where `pool_fraction` is below 1.
    ///
    /// Default: a pool that misses was full long before anyone began to record.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warm: Option<bool>,
    /// Pages that a miss reads. 1 when absent.
    ///
    /// Default: transactions of TPC-C read single pages.
    pub read_ahead_pages: u32,
    /// Bytes of the log, which is circular. 1 GiB when absent.
    ///
    /// Default: as PostgreSQL's `max_wal_size`.
    #[serde(deserialize_with = "quantity::bytes")]
    pub log_bytes: u64,
    /// Median size of a commit's log records, by a lognormal law of sigma 0.5; at most 64 KiB. 4 KiB when absent.
    ///
    /// Default: assumed: a little more than the log of Financial1 appends, 3 to 3.5 KB.
    #[serde(deserialize_with = "quantity::bytes")]
    pub commit_bytes: u64,
    /// A write of the log holds from 1 to so many commits. 8 when absent.
    ///
    /// Default: assumed: commits that come close together share a flush.
    pub group_commits: u32,
    /// The log is written in blocks of this size: what is not full yet is written again. 512 when absent.
    ///
    /// Default: a sector, the block of the logs of Oracle and InnoDB.
    #[serde(deserialize_with = "quantity::bytes")]
    pub log_block_bytes: u64,
    /// Between two writes of the control file, 4 KiB at the begin of the footprint that also say that the database is
    /// open (Oracle: 3 s). Never when 0. 0 when absent.
    ///
    /// Default: off, as only some databases do it.
    #[serde(deserialize_with = "quantity::micros")]
    pub heartbeat_us: f64,
    /// Transactions a second. 200 when absent.
    ///
    /// Default: assumed: published rates are those of their machines.
    pub transactions_per_second: f64,
    /// Between the begins of two checkpoints. The log being full begins one earlier. 300 s when absent.
    ///
    /// Default: as PostgreSQL's `checkpoint_timeout`.
    #[serde(deserialize_with = "quantity::micros")]
    pub checkpoint_us: f64,
    /// Share of that time over which its writes are spread. 0.9 when absent.
    ///
    /// Default: as PostgreSQL's `checkpoint_completion_target`.
    pub checkpoint_spread: f64,
    /// Most neighbouring pages that one write of a checkpoint holds. 8 when absent.
    ///
    /// Default: assumed: up to 64 KiB at once, where means of 37 and 46 KB are published.
    pub coalesce_pages: u32,
    /// In which order a checkpoint writes what is dirty. `address` when absent. With `change`, neighbours within an aligned
    /// group of `coalesce_pages` go together, as with Oracle's checkpoint queue and InnoDB's flush list.
    ///
    /// Default: the order that moves the heads of a disk least; PostgreSQL sorts so since version 9.6.
    pub checkpoint_order: CheckpointOrder,
    /// Dirty pages near eviction that the background writer writes every 200 ms, at most. 100 when absent.
    ///
    /// Default: as PostgreSQL's `bgwriter_lru_maxpages`.
    pub background_pages: u32,
    /// Whether pages go through a double-write area first: those of a checkpoint up to 128 at a time, evicted ones by themselves.
    /// False when absent.
    ///
    /// Default: off, as in PostgreSQL and Oracle; InnoDB does it.
    pub double_write: bool,
    /// Whether the first change of a page after a checkpoint puts the page into the log. False when absent.
    ///
    /// Default: off, as in Oracle, of which most numbers of TPC-C are; PostgreSQL does it.
    pub full_page_images: bool,
    /// Whether flushes are made: after each write of the log, after double writes, and at the end of a checkpoint.
    /// Recordings often lack them. True when absent.
    ///
    /// Default: a commit lasts only once the drive has it.
    pub flushes: bool,
}

impl Default for DatabaseConfig {
    fn default() -> Self {
        Self {
            page_bytes: 8192,
            warehouses: 100,
            warehouse_bytes: 100 << 20,
            pool_fraction: 0.1,
            warm: None,
            read_ahead_pages: 1,
            log_bytes: 1 << 30,
            commit_bytes: 4096,
            group_commits: 8,
            log_block_bytes: 512,
            heartbeat_us: 0.0,
            transactions_per_second: 200.0,
            checkpoint_us: 3e8,
            checkpoint_spread: 0.9,
            coalesce_pages: 8,
            checkpoint_order: CheckpointOrder::Address,
            background_pages: 100,
            double_write: false,
            full_page_images: false,
            flushes: true,
        }
    }
}

/// Rows of a warehouse and their bytes (TPC-C): stock, customer, order line, history, orders, new order.
const TABLES: [(u64, u64); 6] =
    [(100_000, 306), (30_000, 655), (300_000, 54), (30_000, 46), (30_000, 24), (9_000, 8)];
const STOCK: usize = 0;
const CUSTOMER: usize = 1;
const ORDER_LINE: usize = 2;
const HISTORY: usize = 3;
const ORDERS: usize = 4;
const NEW_ORDER: usize = 5;
/// Items, which all warehouses share.
const ITEMS: (u64, u64) = (100_000, 82);
/// New-Order, Payment, Order-Status, Delivery, Stock-Level.
const MIX: [f64; 5] = [0.45, 0.88, 0.92, 0.96, 1.0];
/// Share of order lines that another warehouse supplies.
const REMOTE: f64 = 0.01;
/// Orders between the newest and the one that is delivered next.
const UNDELIVERED: u64 = 900;
const COMMIT_SIGMA: f64 = 0.5;
const COMMIT_MOST: f64 = 65_536.0;
const DOUBLE_WRITE_PAGES: u64 = 128;
/// Pages that a write of the log may have more.
const LOG_PADDING: u64 = 8;
const BACKGROUND_NS: f64 = 0.2 * NS_PER_S;
/// The log is full when so much of it was written since the last checkpoint began.
const LOG_FULL: f64 = 0.9;
/// Sectors of an extent of a data file: extents lie apart where there is room.
const EXTENT: u64 = 64 << 11;
/// The pool takes up to 9 bytes for each page, and as much for pages that wait for a checkpoint.
const MAX_PAGES: u64 = 1 << 28;

impl DatabaseConfig {
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if !matches!(self.page_bytes, 4096 | 8192 | 16_384 | 32_768 | 65_536) {
            return refuse("db.page_bytes", self.page_bytes, "must be 4, 8, 16, 32 or 64 KiB");
        }
        if self.warehouses == 0 {
            return refuse("db.warehouses", 0, "must be at least 1");
        }
        if self.warehouse_bytes < 1 << 20 {
            return refuse("db.warehouse_bytes", self.warehouse_bytes, "must be at least 1 MiB");
        }
        if u64::from(self.warehouses).saturating_mul(self.warehouse_bytes / self.page_bytes + 16) >= MAX_PAGES
        {
            return refuse("db.warehouses", self.warehouses, "the database must have fewer than 2^28 pages");
        }
        if !(self.pool_fraction >= 0.001 && self.pool_fraction <= 100.0) {
            return refuse("db.pool_fraction", self.pool_fraction, "must be from 0.001 to 100");
        }
        for (key, pages) in
            [("read_ahead_pages", self.read_ahead_pages), ("coalesce_pages", self.coalesce_pages)]
        {
            if pages == 0 || pages > 128 {
                return refuse(&format!("db.{key}"), pages, "must be from 1 to 128");
            }
        }
        if self.log_bytes < 1 << 20 || !self.log_bytes.is_multiple_of(512) || self.log_bytes > 1 << 50 {
            return refuse(
                "db.log_bytes",
                self.log_bytes,
                "must be a multiple of 512 bytes, from 1 MiB to 1 PiB",
            );
        }
        if self.commit_bytes == 0 || self.commit_bytes > COMMIT_MOST as u64 {
            return refuse("db.commit_bytes", self.commit_bytes, "must be from 1 byte to 64 KiB");
        }
        if self.group_commits == 0 || self.group_commits > 1000 {
            return refuse("db.group_commits", self.group_commits, "must be from 1 to 1000");
        }
        if !matches!(self.log_block_bytes, 512 | 1024 | 2048 | 4096 | 8192)
            || !self.log_bytes.is_multiple_of(self.log_block_bytes)
        {
            let expected = "must be 512, 1024, 2048, 4096 or 8192, and log_bytes a multiple of it";
            return refuse("db.log_block_bytes", self.log_block_bytes, expected);
        }
        if self.heartbeat_us != 0.0 && !(self.heartbeat_us >= 1000.0 && self.heartbeat_us <= 1e12) {
            return refuse(
                "db.heartbeat_us",
                self.heartbeat_us,
                "must be 0, or from a millisecond to 11 days",
            );
        }
        let rate = self.transactions_per_second;
        if !(1e-3..=1e8).contains(&rate) {
            return refuse("db.transactions_per_second", rate, "must be from 0.001 to 10^8");
        }
        if !(self.checkpoint_us >= 1000.0 && self.checkpoint_us <= 1e12) {
            return refuse("db.checkpoint_us", self.checkpoint_us, "must be from a millisecond to 11 days");
        }
        if !(self.checkpoint_spread >= 0.0 && self.checkpoint_spread <= 1.0) {
            return refuse("db.checkpoint_spread", self.checkpoint_spread, "must be a fraction from 0 to 1");
        }
        Ok(())
    }

    fn page_sectors(&self) -> u64 {
        self.page_bytes / 512
    }

    fn control_sectors(&self) -> u64 {
        if self.heartbeat_us > 0.0 { self.page_sectors() } else { 0 }
    }

    fn double_write_sectors(&self) -> u64 {
        if self.double_write { DOUBLE_WRITE_PAGES * self.page_sectors() } else { 0 }
    }

    fn tables(&self) -> Tables {
        let raw: u64 = TABLES.iter().map(|(rows, bytes)| rows * bytes).sum();
        let warehouses = u64::from(self.warehouses);
        let item_pages = (ITEMS.0 * ITEMS.1).div_ceil(self.page_bytes);
        let mut next = warehouses + item_pages;
        let tables = TABLES.map(|(rows, bytes)| {
            let share = (rows * bytes) as f64 / raw as f64;
            let pages =
                ((self.warehouse_bytes as f64 * share / self.page_bytes as f64).round() as u64).max(1);
            let table = Table { base: next, pages, rows };
            next += pages * warehouses;
            table
        });
        Tables { warehouses, items: warehouses, item_pages, tables, pages: next }
    }

    pub(crate) fn fits(&self, area: AddressRange) -> Result<(), ConfigError> {
        let tables = (self.tables().pages * self.page_sectors()).next_multiple_of(EXTENT);
        let needs = tables + self.control_sectors() + self.log_bytes / 512 + self.double_write_sectors();
        if area.sectors < needs {
            let expected = format!("log and tables need {} bytes: take fewer warehouses", needs * 512);
            return refuse("footprint_bytes", area.sectors * 512, expected);
        }
        Ok(())
    }
}

/// One table: so many pages and rows for each warehouse, one warehouse after the other.
#[derive(Debug, Clone, Copy)]
struct Table {
    base: u64,
    pages: u64,
    rows: u64,
}

/// All tables, in pages of the database. The first pages hold a warehouse with its districts each.
#[derive(Debug)]
struct Tables {
    warehouses: u64,
    items: u64,
    item_pages: u64,
    tables: [Table; 6],
    pages: u64,
}

impl Tables {
    fn row(&self, table: usize, warehouse: u64, row: u64) -> u32 {
        let Table { base, pages, rows } = self.tables[table];
        (base + warehouse * pages + (row % rows) * pages / rows) as u32
    }

    fn item(&self, item: u64) -> u32 {
        (self.items + item * self.item_pages / ITEMS.0) as u32
    }
}

const RESIDENT: u8 = 1;
const DIRTY: u8 = 2;
/// Changed since the last checkpoint began.
const IMAGED: u8 = 4;
/// Dirty when the last checkpoint began, and not written since.
const DUE: u8 = 8;

/// The buffer pool: states of all pages, and the resident ones in order of use.
#[derive(Debug)]
pub(crate) struct Pool {
    state: Vec<u8>,
    /// Pages that turned dirty since the last checkpoint began, in that order; some may be clean by now. Empty where
    /// checkpoints go by address.
    changed: Vec<u32>,
    /// Neighbours towards older and newer; the last place is the head of both. Empty where nothing is ever evicted: the
    /// order of use would not show.
    older: Vec<u32>,
    newer: Vec<u32>,
    frames: u64,
    resident: u64,
}

impl Pool {
    pub(crate) fn new(pages: u64, fraction: f64) -> Self {
        let head = pages as u32;
        let evicts = fraction < 1.0;
        let list = || if evicts { vec![head; pages as usize + 1] } else { Vec::new() };
        Self {
            state: vec![0; pages as usize],
            changed: Vec::new(),
            older: list(),
            newer: list(),
            frames: ((pages as f64 * fraction) as u64).max(64),
            resident: 0,
        }
    }

    fn unlink(&mut self, page: u32) {
        let (older, newer) = (self.older[page as usize], self.newer[page as usize]);
        self.newer[older as usize] = newer;
        self.older[newer as usize] = older;
    }

    fn push_newest(&mut self, page: u32) {
        let head = self.state.len();
        let newest = self.older[head];
        self.older[page as usize] = newest;
        self.newer[page as usize] = head as u32;
        self.newer[newest as usize] = page;
        self.older[head] = page;
    }

    #[inline(always)]
    pub(crate) fn use_again(&mut self, page: u32) {
        if !self.older.is_empty() && self.older[self.state.len()] != page {
            self.unlink(page);
            self.push_newest(page);
        }
    }

    /// The page that was not used for longest.
    pub(crate) fn oldest(&self) -> u32 {
        self.newer[self.state.len()]
    }

    /// Make a page resident; where another had to leave, which one.
    pub(crate) fn admit(&mut self, page: u32) -> Option<u32> {
        let mut victim = None;
        if !self.older.is_empty() {
            if self.resident >= self.frames {
                let oldest = self.oldest();
                self.unlink(oldest);
                self.state[oldest as usize] &= !RESIDENT;
                self.resident -= 1;
                victim = Some(oldest);
            }
            self.push_newest(page);
        }
        self.state[page as usize] |= RESIDENT;
        self.resident += 1;
        victim
    }
}

/// The checkpoint in progress: pages that were dirty when it began, in the order in which they go.
#[derive(Debug, Default)]
struct Checkpoint {
    pages: Vec<u32>,
    next: usize,
    began_ns: f64,
    spread_ns: f64,
}

pub(crate) struct Database {
    config: DatabaseConfig,
    tables: Tables,
    pool: Pool,
    rng: Rng,
    now_ns: f64,
    /// Constants of NURand for items, customers and last names.
    constants: [u64; 3],
    /// Next row of the appended tables of each warehouse, in orders.
    orders: Vec<u64>,
    payments: Vec<u64>,
    log: AddressRange,
    /// Bytes ever written to the log, and those of commits that wait for their group.
    log_bytes: u64,
    waiting_bytes: u64,
    waiting: u32,
    group: u32,
    log_at_checkpoint: u64,
    checkpoint: Checkpoint,
    last_checkpoint_ns: f64,
    next_background_ns: f64,
    control: AddressRange,
    next_heartbeat_ns: f64,
    double_write: AddressRange,
    data: Scatter,
}

impl Database {
    pub(crate) fn new(config: &DatabaseConfig, area: AddressRange, seed: u64, pass: u64) -> Self {
        let tables = config.tables();
        let mut rest = area;
        let control = rest.take(config.control_sectors());
        let log = rest.take(config.log_bytes / 512);
        let double_write = rest.take(config.double_write_sectors());
        let data = Scatter::new(
            tables.pages * config.page_sectors(),
            EXTENT,
            rest,
            &mut Rng::for_path(seed, &[u64::MAX]),
        );
        let mut constants = Rng::for_path(seed, &[u64::MAX, 1]);
        let warehouses = tables.warehouses as usize;
        let mut database = Self {
            pool: Pool::new(tables.pages, config.pool_fraction),
            rng: Rng::for_path(seed, &[pass]),
            now_ns: 0.0,
            constants: [8191, 1023, 255].map(|most| constants.below_unbiased(most + 1)),
            orders: vec![30_000; warehouses],
            payments: vec![30_000; warehouses],
            log,
            log_bytes: 0,
            waiting_bytes: 0,
            waiting: 0,
            group: 1,
            log_at_checkpoint: 0,
            checkpoint: Checkpoint::default(),
            last_checkpoint_ns: 0.0,
            next_background_ns: BACKGROUND_NS,
            control,
            next_heartbeat_ns: if config.heartbeat_us > 0.0 { 0.0 } else { f64::INFINITY },
            double_write,
            data,
            tables,
            config: config.clone(),
        };
        if config.warm.unwrap_or(config.pool_fraction < 1.0) {
            database.warm_up();
        }
        database
    }

    /// What happened before the recording, which begins at time 0.
    fn warm_up(&mut self) {
        if self.pool.older.is_empty() {
            self.pool.state.fill(RESIDENT);
            self.pool.resident = self.tables.pages;
            return;
        }
        let mut unrecorded = Emitter::default();
        for _ in 0..self.pool.frames {
            if self.pool.resident >= self.pool.frames {
                break;
            }
            self.act(&mut unrecorded);
            unrecorded.clear();
        }
        let begin_ns = self.now_ns;
        for moment in [
            &mut self.now_ns,
            &mut self.last_checkpoint_ns,
            &mut self.checkpoint.began_ns,
            &mut self.next_background_ns,
        ] {
            *moment -= begin_ns;
        }
        if self.config.heartbeat_us > 0.0 {
            self.next_heartbeat_ns = 0.0;
        }
    }

    /// A non-uniform number from 0 to `most`, as TPC-C draws ids: `which` is 0 for items, 1 for customers.
    #[inline(always)]
    fn nurand(&mut self, which: usize, most: u64) -> u64 {
        let a = [8191, 1023, 255][which];
        let mixed = self.rng.below_unbiased(a + 1) | self.rng.below_unbiased(most + 1);
        (mixed + self.constants[which]) % (most + 1)
    }

    fn place(&self, page: u32, pages: u64) -> (u64, u64) {
        let sectors = self.config.page_sectors();
        (self.data.map(u64::from(page) * sectors, pages * sectors), pages * sectors)
    }

    fn is_dirty(&self, page: u32) -> bool {
        self.pool.state[page as usize] & DIRTY != 0
    }

    /// Whether the checkpoint still has to write the page. What it wrote and what was changed again is no longer due, or
    /// hot pages would be written many times. By address each page comes up once, and need not be remembered.
    fn is_due(&self, page: u32) -> bool {
        let due = if self.config.checkpoint_order == CheckpointOrder::Address { DIRTY } else { DUE };
        self.pool.state[page as usize] & due != 0
    }

    /// Whether the page behind `page` lies right behind it.
    fn follows(&self, page: u32, next: u32) -> bool {
        let sectors = self.config.page_sectors();
        next == page + 1 && !(u64::from(next) * sectors).is_multiple_of(EXTENT)
    }

    fn write_run(&mut self, at_ns: f64, first: u32, pages: u64, emitter: &mut Emitter) {
        for page in first..first + pages as u32 {
            self.pool.state[page as usize] &= !(DIRTY | DUE);
        }
        let (lba, sectors) = self.place(first, pages);
        emitter.write(at_ns, lba, sectors);
    }

    /// Write a page that has to leave, or will have to soon.
    fn clean(&mut self, at_ns: f64, page: u32, emitter: &mut Emitter) {
        if self.config.double_write {
            emitter.write(at_ns, self.double_write.start, self.config.page_sectors());
            self.flush(at_ns, emitter);
        }
        self.write_run(at_ns, page, 1, emitter);
    }

    fn flush(&self, at_ns: f64, emitter: &mut Emitter) {
        if self.config.flushes {
            emitter.flush(at_ns);
        }
    }

    fn admit(&mut self, page: u32, emitter: &mut Emitter) {
        if let Some(victim) = self.pool.admit(page)
            && self.is_dirty(victim)
        {
            self.clean(self.now_ns, victim, emitter);
        }
    }

    #[inline(always)]
    fn read(&mut self, page: u32, emitter: &mut Emitter) {
        if self.pool.state[page as usize] & RESIDENT != 0 {
            self.pool.use_again(page);
        } else {
            self.miss(page, emitter);
        }
    }

    fn miss(&mut self, page: u32, emitter: &mut Emitter) {
        let ahead = self.config.read_ahead_pages;
        let mut last = page;
        let end = (page / ahead + 1) * ahead;
        let mut first = page;
        while !first.is_multiple_of(ahead) && self.follows(first - 1, first) && self.is_out(first - 1) {
            first -= 1;
        }
        while last + 1 < end.min(self.tables.pages as u32)
            && self.follows(last, last + 1)
            && self.is_out(last + 1)
        {
            last += 1;
        }
        let (lba, sectors) = self.place(first, u64::from(last - first) + 1);
        for page in first..=last {
            self.admit(page, emitter);
        }
        emitter.read(self.now_ns, lba, sectors);
        self.pool.use_again(page);
    }

    fn is_out(&self, page: u32) -> bool {
        self.pool.state[page as usize] & RESIDENT == 0
    }

    #[inline(always)]
    fn change(&mut self, page: u32, emitter: &mut Emitter) {
        self.read(page, emitter);
        self.mark(page);
    }

    /// Change a page that is written anew: what it held does not matter.
    fn append(&mut self, page: u32, emitter: &mut Emitter) {
        if self.is_out(page) {
            self.admit(page, emitter);
        } else {
            self.pool.use_again(page);
        }
        self.mark(page);
    }

    #[inline(always)]
    fn mark(&mut self, page: u32) {
        let state = &mut self.pool.state[page as usize];
        if *state & IMAGED == 0 && self.config.full_page_images {
            self.waiting_bytes += self.config.page_bytes;
        }
        let was = *state;
        *state |= DIRTY | IMAGED;
        if was & DIRTY == 0 && self.config.checkpoint_order == CheckpointOrder::Change {
            self.pool.changed.push(page);
        }
    }

    fn new_order(&mut self, warehouse: u64, emitter: &mut Emitter) {
        self.change(warehouse as u32, emitter);
        let customer = self.nurand(1, 29_999);
        self.read(self.tables.row(CUSTOMER, warehouse, customer), emitter);
        let order = self.orders[warehouse as usize];
        self.orders[warehouse as usize] += 1;
        for line in 0..5 + self.rng.below_unbiased(11) {
            let item = self.nurand(0, ITEMS.0 - 1);
            self.read(self.tables.item(item), emitter);
            let remote = self.rng.unit() < REMOTE;
            let from = if remote { self.rng.below_unbiased(self.tables.warehouses) } else { warehouse };
            self.change(self.tables.row(STOCK, from, item), emitter);
            self.append(self.tables.row(ORDER_LINE, warehouse, order * 10 + line), emitter);
        }
        self.append(self.tables.row(ORDERS, warehouse, order), emitter);
        self.append(self.tables.row(NEW_ORDER, warehouse, order), emitter);
        self.commit(emitter);
    }

    fn payment(&mut self, warehouse: u64, emitter: &mut Emitter) {
        self.change(warehouse as u32, emitter);
        let customer = self.nurand(1, 29_999);
        self.change(self.tables.row(CUSTOMER, warehouse, customer), emitter);
        let payment = self.payments[warehouse as usize];
        self.payments[warehouse as usize] += 1;
        self.append(self.tables.row(HISTORY, warehouse, payment), emitter);
        self.commit(emitter);
    }

    fn order_status(&mut self, warehouse: u64, emitter: &mut Emitter) {
        let customer = self.nurand(2, 29_999);
        self.read(self.tables.row(CUSTOMER, warehouse, customer), emitter);
        let order = self.orders[warehouse as usize] - 1 - self.rng.below_unbiased(3000);
        self.read(self.tables.row(ORDERS, warehouse, order), emitter);
        self.read(self.tables.row(ORDER_LINE, warehouse, order * 10), emitter);
    }

    fn delivery(&mut self, warehouse: u64, emitter: &mut Emitter) {
        for district in 0..10 {
            let order = self.orders[warehouse as usize] - UNDELIVERED + district;
            self.change(self.tables.row(NEW_ORDER, warehouse, order), emitter);
            self.change(self.tables.row(ORDERS, warehouse, order), emitter);
            self.change(self.tables.row(ORDER_LINE, warehouse, order * 10), emitter);
            let customer = self.rng.below_unbiased(30_000);
            self.change(self.tables.row(CUSTOMER, warehouse, customer), emitter);
        }
        self.commit(emitter);
    }

    fn stock_level(&mut self, warehouse: u64, emitter: &mut Emitter) {
        self.read(warehouse as u32, emitter);
        let order = self.orders[warehouse as usize];
        for back in 1..=20 {
            self.read(self.tables.row(ORDER_LINE, warehouse, (order - back) * 10), emitter);
            for _ in 0..10 {
                let item = self.nurand(0, ITEMS.0 - 1);
                self.read(self.tables.row(STOCK, warehouse, item), emitter);
            }
        }
    }

    fn commit(&mut self, emitter: &mut Emitter) {
        let bytes = lognormal(&mut self.rng, self.config.commit_bytes as f64, COMMIT_SIGMA);
        self.waiting_bytes += bytes.clamp(1.0, COMMIT_MOST) as u64;
        self.waiting += 1;
        if self.waiting >= self.group {
            self.write_log(emitter);
        }
    }

    /// Append what waits, beginning with the block that was not full, and flush.
    fn write_log(&mut self, emitter: &mut Emitter) {
        let block = self.config.log_block_bytes;
        let end = (self.log_bytes + self.waiting_bytes).next_multiple_of(block) / 512;
        let mut sector = self.log_bytes / block * block / 512;
        while sector < end {
            let at = sector % self.log.sectors;
            let sectors = (end - sector).min(self.log.sectors - at).min(2048);
            emitter.write(self.now_ns, self.log.start + at, sectors);
            // The log is full of zeros behind its end: padding, or less of it.
            emitter.may_stretch(((self.log.sectors - at - sectors) / BLOCK).min(LOG_PADDING));
            sector += sectors;
        }
        self.flush(self.now_ns, emitter);
        self.log_bytes += self.waiting_bytes;
        self.waiting_bytes = 0;
        self.waiting = 0;
        self.group = 1 + self.rng.below_unbiased(u64::from(self.config.group_commits)) as u32;
    }

    fn begin_checkpoint(&mut self, emitter: &mut Emitter) {
        self.write_checkpoint(f64::INFINITY, emitter);
        let since = self.now_ns - self.last_checkpoint_ns;
        let mut pages = std::mem::take(&mut self.checkpoint.pages);
        pages.clear();
        let by_address = self.config.checkpoint_order == CheckpointOrder::Address;
        for (page, state) in self.pool.state.iter_mut().enumerate() {
            if *state & DIRTY != 0 {
                *state |= DUE;
                if by_address {
                    pages.push(page as u32);
                }
            }
            *state &= !IMAGED;
        }
        if !by_address {
            std::mem::swap(&mut pages, &mut self.pool.changed);
        }
        self.checkpoint = Checkpoint {
            pages,
            next: 0,
            began_ns: self.now_ns,
            // The log fills up as fast as last time: the checkpoint has to be done by then.
            spread_ns: since.min(self.config.checkpoint_us * NS_PER_US) * self.config.checkpoint_spread,
        };
        self.last_checkpoint_ns = self.now_ns;
        self.log_at_checkpoint = self.log_bytes;
    }

    /// The next run of the checkpoint: neighbours that are still dirty.
    fn next_run(&mut self) -> Option<(u32, u64)> {
        let pages = &self.checkpoint.pages;
        while self.checkpoint.next < pages.len() {
            let first = pages[self.checkpoint.next];
            self.checkpoint.next += 1;
            if !self.is_due(first) {
                continue;
            }
            if self.config.checkpoint_order == CheckpointOrder::Change {
                return Some(self.due_around(first));
            }
            let mut run = 1;
            while run < u64::from(self.config.coalesce_pages)
                && let Some(next) = pages.get(self.checkpoint.next).copied()
                && self.follows(first + run as u32 - 1, next)
                && self.is_due(next)
            {
                run += 1;
                self.checkpoint.next += 1;
            }
            return Some((first, run));
        }
        None
    }

    /// A page that is due and its neighbours that are, of a group of `coalesce_pages` pages.
    fn due_around(&self, page: u32) -> (u32, u64) {
        let group = self.config.coalesce_pages;
        let begin = page / group * group;
        let end = (begin + group).min(self.tables.pages as u32);
        let (mut first, mut last) = (page, page);
        while first > begin && self.follows(first - 1, first) && self.is_due(first - 1) {
            first -= 1;
        }
        while last + 1 < end && self.follows(last, last + 1) && self.is_due(last + 1) {
            last += 1;
        }
        (first, u64::from(last - first) + 1)
    }

    /// Write what the checkpoint should have written until `until_ns`.
    fn write_checkpoint(&mut self, until_ns: f64, emitter: &mut Emitter) {
        while self.checkpoint.next < self.checkpoint.pages.len() {
            let done = self.checkpoint.next as f64 / self.checkpoint.pages.len() as f64;
            let due_ns = self.checkpoint.began_ns + self.checkpoint.spread_ns * done;
            if due_ns > until_ns {
                return;
            }
            // A checkpoint that has to end now writes what is left at once.
            let at_ns = if until_ns.is_finite() { due_ns } else { self.now_ns };
            if self.config.double_write {
                self.write_twice(at_ns, emitter);
            } else if let Some((first, pages)) = self.next_run() {
                self.write_run(at_ns, first, pages, emitter);
            }
            if self.checkpoint.next == self.checkpoint.pages.len() {
                self.flush(at_ns, emitter);
            }
        }
    }

    /// The next runs of the checkpoint, first to the double-write area and then in place.
    fn write_twice(&mut self, at_ns: f64, emitter: &mut Emitter) {
        let mut runs = [(0, 0); DOUBLE_WRITE_PAGES as usize];
        let (mut count, mut pages) = (0, 0);
        while pages + u64::from(self.config.coalesce_pages) <= DOUBLE_WRITE_PAGES
            && let Some(run) = self.next_run()
        {
            runs[count] = run;
            count += 1;
            pages += run.1;
        }
        if pages == 0 {
            return;
        }
        emitter.write(at_ns, self.double_write.start, pages * self.config.page_sectors());
        self.flush(at_ns, emitter);
        for (first, pages) in &runs[..count] {
            self.write_run(at_ns, *first, *pages, emitter);
        }
    }

    fn write_background(&mut self, emitter: &mut Emitter) {
        self.next_background_ns += BACKGROUND_NS;
        let limit = self.config.background_pages;
        if self.pool.older.is_empty() || self.pool.resident < self.pool.frames || limit == 0 {
            return;
        }
        let head = self.tables.pages as u32;
        let (mut page, mut written) = (self.pool.oldest(), 0);
        for _ in 0..4 * u64::from(limit) {
            if page == head || written == limit {
                return;
            }
            if self.is_dirty(page) {
                self.clean(self.now_ns, page, emitter);
                written += 1;
            }
            page = self.pool.newer[page as usize];
        }
    }
}

impl Process for Database {
    /// One transaction, and what the database did by itself since the one before.
    fn act(&mut self, emitter: &mut Emitter) {
        let next_ns =
            self.now_ns + exponential(&mut self.rng) * NS_PER_S / self.config.transactions_per_second;
        while self.next_heartbeat_ns <= next_ns {
            let at_ns = self.next_heartbeat_ns;
            self.write_checkpoint(at_ns, emitter);
            emitter.write(at_ns, self.control.start, BLOCK);
            self.next_heartbeat_ns += self.config.heartbeat_us * NS_PER_US;
        }
        self.now_ns = next_ns;
        self.write_checkpoint(next_ns, emitter);
        let log_full = LOG_FULL * self.log.sectors as f64 * 512.0;
        let interval_ns = self.config.checkpoint_us * NS_PER_US;
        if next_ns - self.last_checkpoint_ns >= interval_ns
            || (self.log_bytes - self.log_at_checkpoint) as f64 >= log_full
        {
            self.begin_checkpoint(emitter);
        }
        if next_ns >= self.next_background_ns {
            self.next_background_ns = self.next_background_ns.max(next_ns - BACKGROUND_NS);
            self.write_background(emitter);
        }
        let warehouse = self.rng.below_unbiased(self.tables.warehouses);
        match choose(&mut self.rng, &MIX) {
            0 => self.new_order(warehouse, emitter),
            1 => self.payment(warehouse, emitter),
            2 => self.order_status(warehouse, emitter),
            3 => self.delivery(warehouse, emitter),
            _ => self.stock_level(warehouse, emitter),
        }
    }
}

keys! {
    /// Keys of kind `db` alone.
    pub struct Keys {
        /// Keys of kind `db`.
        pub db: Option<DatabaseConfig>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str =
        "A database under a TPC-C load: log, buffer pool, checkpoints. See the table `db`.";
    const COMMON: &'static [&'static [&'static str]] = &[PLACED, &["page_quota"]];
    const CHANGES: &'static [&'static str] = &[r#"{"db":{"warehouses":20}}"#];

    fn validate(&self, _common: &CommonKeys) -> Result<(), ConfigError> {
        self.db.as_ref().map_or(Ok(()), DatabaseConfig::validate)
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        let table = self.db.clone().unwrap_or_default();
        let range = common.address_range(capacity_bytes)?;
        table.fits(range)?;
        Ok(Plan::with_quota(common.page_quota, (table, range), |(table, range), seed, pass| {
            Database::new(table, *range, seed, pass)
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    #[test]
    fn a_pool_is_an_lru_list() {
        let mut rng = ftlab_core::rng::Rng::for_path(4, &[]);
        let mut pool = Pool::new(1000, 0.1);
        let mut model: VecDeque<u32> = VecDeque::new();
        for _ in 0..50_000 {
            let page = rng.below_unbiased(300) as u32;
            if let Some(at) = model.iter().position(|other| *other == page) {
                model.remove(at);
                pool.use_again(page);
            } else {
                let victim = pool.admit(page);
                assert_eq!(victim, if model.len() == 100 { model.pop_front() } else { None });
            }
            model.push_back(page);
            assert_eq!(pool.oldest(), model[0]);
        }
    }
}
