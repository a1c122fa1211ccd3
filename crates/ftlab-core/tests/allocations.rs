//! Memory: a run allocates nothing per request once warm, and its tables stay within 12 bytes a page.
#![allow(clippy::print_stdout, reason = "measured values, shown with --nocapture")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use ftlab_core::buffer::BufferKind;
use ftlab_core::buffer::front::BufferCounts;
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_core::ftl::gc::VictimKind;
use ftlab_core::ftl::placement::PlacementKind;
use ftlab_core::host::request::{Op, Request, RequestSource, SourceError, SourceFactory};
use ftlab_core::mapcache::MapCacheKind;
use ftlab_core::memory::{bytes_at_first, bytes_at_most};
use ftlab_core::nvm::cache::NvmCounts;
use serde_json::json;

struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicU64 = AtomicU64::new(0);
static MOST_BYTES: AtomicU64 = AtomicU64::new(0);

fn count(size: usize) {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    let live = LIVE_BYTES.fetch_add(size as u64, Ordering::Relaxed) + size as u64;
    MOST_BYTES.fetch_max(live, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE_BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        count(size);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Reads and writes by a fixed walk; notes the allocations so far when half of them have been asked for, and at the end.
struct Walk {
    left: u64,
    state: u64,
    half: u64,
    flushes: bool,
    in_order: bool,
}

static SEEN_AT_HALF: AtomicU64 = AtomicU64::new(0);
static SEEN_AT_END: AtomicU64 = AtomicU64::new(0);

impl RequestSource for Walk {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let count = self.left.min(max as u64);
        if count == 0 {
            SEEN_AT_END.store(ALLOCATIONS.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        for number in self.left - count..self.left {
            self.state =
                self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let op = match self.state >> 62 {
                _ if self.flushes && (self.state >> 20).is_multiple_of(256) => Op::Flush,
                0 => Op::Read,
                _ => Op::Write,
            };
            let unit = if self.in_order { number * 2 } else { self.state >> 33 };
            let (lba, sectors) = if op == Op::Flush { (0, 0) } else { (unit % 4000 * 8, 16) };
            out.push(Request { arrival_ns: 0, lba, sectors, op, stream: 0, fua: false });
        }
        self.left -= count;
        if self.left <= self.half && SEEN_AT_HALF.load(Ordering::Relaxed) == 0 {
            SEEN_AT_HALF.store(ALLOCATIONS.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        Ok(count as usize)
    }
}

struct Factory {
    requests: u64,
    flushes: bool,
    in_order: bool,
}

impl SourceFactory for Factory {
    fn open(&self, _: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        SEEN_AT_HALF.store(0, Ordering::Relaxed);
        let Self { requests, flushes, in_order } = *self;
        Ok(Box::new(Walk { left: requests, state: 1, half: requests / 2, flushes, in_order }))
    }
}

const FACTORY: Factory = Factory { requests: 60_000, flushes: false, in_order: false };

/// The counters are shared by all threads: one test at a time.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn nothing_is_allocated_per_request_once_warm() {
    let _alone = ALONE.lock().unwrap();
    let placements = PlacementKind::ALL.iter().map(|placement| (VictimKind::ALL[0], *placement));
    let policies = VictimKind::ALL.iter().map(|kind| (*kind, PlacementKind::ALL[0]));
    for (kind, placement) in policies.chain(placements.skip(1)) {
        let stripings = match (kind, placement) {
            _ if placement != PlacementKind::ALL[0] => &[None][..],
            _ if kind == VictimKind::ALL[0] => &[Some("static"), Some("dynamic")],
            _ => &[Some("static")],
        };
        for striping in stripings {
            for (timing, verify, copyback) in [(true, false, false), (true, true, true), (false, false, true)]
            {
                let mut ftl = json!({ "gc": kind.name(), "placement": placement.name(), "over_provisioning": 0.5,
                    "wear_leveling": "static", "wear_leveling_threshold": 3 });
                if let Some(striping) = striping {
                    ftl["striping"] = json!(striping);
                }
                let text = json!({
                    "geometry": { "channels": 2, "ways": 2, "planes": 2, "blocks_per_plane": 32, "pages_per_block": 32,
                        "page_bytes": 4096 },
                    "timing": { "copyback": copyback },
                    "ftl": ftl,
                    "host": { "arrival": "closed", "queue_depth": 16, "link_mb_per_s": 1000 },
                    "precondition": { "kind": "fill" },
                });
                let config: DeviceConfig = serde_json::from_value(text).unwrap();
                let options = RunOptions { timing, verify, ..RunOptions::default() };
                let outcome = simulate(&config, &FACTORY, &options, &RunControl::default(), &mut ()).unwrap();
                assert_eq!(outcome.error, None);
                assert_eq!(outcome.summary.host.completed, 60_000);
                let count = SEEN_AT_END.load(Ordering::Relaxed) - SEEN_AT_HALF.load(Ordering::Relaxed);
                let case = format!(
                    "{}, {}, {striping:?}, clock: {timing}, verification: {verify}",
                    kind.name(),
                    placement.name()
                );
                // How many commands of collection wait behind a row of unlucky victims has no bound that could be reserved
                // for: with a clock their three tables may still double once. Where units move between dies, several
                // wait for one command: their two tables as well.
                let growths = match (timing, striping) {
                    (false, _) => 0,
                    (true, Some("dynamic")) => 5,
                    (true, _) => 3,
                };
                assert!(count <= growths, "{count} allocations for 30,000 requests: {case}");
            }
        }
    }
}

/// All requests come at once, and wait in the drive with all that collection does for them. A command takes a byte. It takes
/// 16 more where the host waits for it, and 32 where it waits for another die. Tables double.
#[test]
fn what_waits_takes_few_bytes_a_command() {
    let _alone = ALONE.lock().unwrap();
    for (striping, limit_of_tables, limit) in [("static", 12.0, 36.0), ("dynamic", 36.0, 60.0)] {
        let run = |arrival: &str| {
            let text = json!({
                "geometry": { "channels": 2, "ways": 2, "blocks_per_plane": 64, "pages_per_block": 32, "page_bytes": 4096 },
                "ftl": { "striping": striping, "over_provisioning": 0.5 },
                "host": { "arrival": arrival },
                "precondition": { "kind": "fill" },
            });
            let config: DeviceConfig = serde_json::from_value(text).unwrap();
            let before = LIVE_BYTES.load(Ordering::Relaxed);
            MOST_BYTES.store(before, Ordering::Relaxed);
            let outcome =
                simulate(&config, &FACTORY, &RunOptions::default(), &RunControl::default(), &mut ()).unwrap();
            assert_eq!((outcome.error, outcome.summary.host.completed), (None, 60_000));
            let flash = outcome.summary.flash;
            let commands =
                [&flash.reads, &flash.programs, &flash.erases].iter().map(|by| by.total).sum::<u64>();
            (MOST_BYTES.load(Ordering::Relaxed) - before, outcome.summary.memory.table_bytes, commands)
        };
        let (least, tables_at_least, _) = run("closed");
        let (most, tables, commands) = run("open");
        let of_tables = (tables - tables_at_least) as f64 / commands as f64;
        let of_all = (most - least) as f64 / commands as f64;
        println!(
            "{striping}: {of_tables:.1} bytes of tables for each of {commands} commands, {of_all:.1} in all"
        );
        assert!(of_tables <= limit_of_tables, "{striping}: {of_tables} bytes of tables a command");
        assert!(of_all >= of_tables && of_all <= limit, "{striping}: {of_all} bytes a command");
    }
}

/// How a write buffer is used.
#[derive(Debug, Clone, Copy)]
struct Use {
    timing: bool,
    slots: u64,
    ways: u64,
    access_us: f64,
    queue_depth: u64,
    in_order: bool,
    is_distinct: bool,
}

/// Every order of a write buffer, which holds less than is asked for, and what a frame takes.
#[test]
fn a_buffer_allocates_nothing_per_request_and_little_per_frame() {
    let _alone = ALONE.lock().unwrap();
    let orders = BufferKind::ALL.iter().map(|kind| kind.name()).filter(|name| *name != "none");
    // Of 48 bytes a frame, and of 72 where all frames are in the window of `ref`.
    let orders = orders.map(|name| (name, false, 48.0)).chain([("ref", true, 72.0)]);
    // Of 4 KiB. There are tables that differ where there are few, and one block may be the whole buffer.
    let frames = [256, 257, 512, 1024, 1025, 2048];
    let plain = Use {
        timing: true,
        slots: 1,
        ways: 1,
        access_us: 1.0,
        queue_depth: 8,
        in_order: false,
        is_distinct: false,
    };
    // Each kind of port, a memory that takes no time, flushes, so many requests that all frames wait, and long lists.
    let uses = [
        plain,
        Use { access_us: 0.0, ..plain },
        Use { ways: 4, ..plain },
        Use { timing: false, ..plain },
        Use { timing: false, slots: 4, ..plain },
        Use { queue_depth: 4000, ..plain },
        Use { queue_depth: 4000, slots: 4, ways: 4, ..plain },
        Use { in_order: true, ..plain },
        Use { in_order: true, queue_depth: 4000, ..plain },
        Use { in_order: true, queue_depth: 4000, is_distinct: true, ..plain },
    ];
    let all = orders.flat_map(|order| uses.map(|used| (order, used)));
    for (((kind, is_wide, limit), used), frames) in all.flat_map(|how| frames.map(|frames| (how, frames))) {
        let Use { timing, slots, ways, access_us, queue_depth, in_order, is_distinct } = used;
        let flushes = ways > 1;
        let mut text = json!({
            "geometry": { "channels": 2, "ways": ways, "planes": 2, "blocks_per_plane": 128, "pages_per_block": 32 / slots,
                "page_bytes": 4096 * slots, "mapping_unit_bytes": 4096 },
            "ftl": { "over_provisioning": 0.5 },
            "host": { "arrival": "closed", "queue_depth": queue_depth },
            "buffer": { "kind": kind, "bytes": frames * 4096, "rate": "cave", "access_us": access_us },
        });
        if ["bplru", "fab", "ref", "clc"].contains(&kind) {
            text["buffer"]["block_pages"] = if is_distinct { 1 } else { 256 }.into();
        }
        if is_wide {
            text["buffer"]["window"] = 1.0.into();
        }
        if is_distinct {
            text["buffer"]["select"] = "distinct".into();
            text["buffer"]["rate"] = (frames / 4 + 1).into();
            text["ftl"]["placement"] = "stripe".into();
            text["ftl"]["striping"] = "static".into();
        }
        let config: DeviceConfig = serde_json::from_value(text).unwrap();
        config.validate().unwrap();
        let options = RunOptions { timing, ..RunOptions::default() };
        let is_calm = queue_depth == plain.queue_depth;
        let source = Factory { requests: if is_calm { 60_000 } else { 8_000 }, flushes, in_order };
        let outcome = simulate(&config, &source, &options, &RunControl::default(), &mut ()).unwrap();
        assert_eq!(outcome.error, None);
        let case = format!("{frames} frames, {kind}, {used:?}");
        let count = SEEN_AT_END.load(Ordering::Relaxed) - SEEN_AT_HALF.load(Ordering::Relaxed);
        // A flush waits for all that is dirty: the more there is, the longer lists grow.
        let growths = match (timing, flushes) {
            (true, true) => 20,
            (true, false) => 3,
            (false, _) => 0,
        };
        assert!(count <= growths || !is_calm, "{count} allocations for 30,000 requests: {case}");
        let counts = outcome.summary.parts.get::<BufferCounts>().unwrap();
        let of_frame = counts.table_bytes as f64 / counts.frames as f64;
        println!("{of_frame:.1} bytes a frame: {case}");
        assert!(of_frame <= limit, "{of_frame} bytes a frame: {case}");
        // Commands that wait come on top: of a block order that flushes, those of whole blocks.
        let waiting = if flushes { 256 << 10 } else { 64 << 10 };
        assert!(!is_calm || outcome.summary.memory.table_bytes <= bytes_at_most(&config, false) + waiting);
    }
}

/// A cache of an eighth of the drive, 4 GiB over 32 GiB in the long tests, and one of 27 GiB. All that the allocator saw is at
/// most 24 bytes a frame beyond 16 bytes a physical page.
#[test]
#[ignore = "a long test: make test-long"]
fn a_frame_of_a_non_volatile_cache_takes_little() {
    let _alone = ALONE.lock().unwrap();
    let scale = if std::env::var_os("FTLAB_LONG").is_some() { 1 } else { 16 };
    let (logical, blocks) = ((8_u64 << 20) / scale, 16_384 / scale * 107 / 100);
    let kinds = [("basic", false), ("basic", true), ("cdm", false), ("cdm", true)];
    let all = [logical / 8, logical / 32 * 27]
        .into_iter()
        .flat_map(|frames| kinds.map(|(kind, timing)| (frames, kind, timing)));
    for (frames, kind, timing) in all {
        let text = json!({
            "geometry": { "channels": 8, "ways": 1, "blocks_per_plane": blocks + 16, "pages_per_block": 64, "page_bytes": 4096 },
            "ftl": { "logical_pages": logical },
            "host": { "arrival": "closed", "queue_depth": 32 },
            "nvm": { "kind": kind, "bytes": frames * 4096 },
        });
        let config: DeviceConfig = serde_json::from_value(text).unwrap();
        config.validate().unwrap();
        let before = LIVE_BYTES.load(Ordering::Relaxed);
        MOST_BYTES.store(before, Ordering::Relaxed);
        let options = RunOptions { timing, ..RunOptions::default() };
        let outcome = simulate(&config, &FACTORY, &options, &RunControl::default(), &mut ()).unwrap();
        assert_eq!(outcome.error, None);
        let (most, pages) = (MOST_BYTES.load(Ordering::Relaxed) - before, config.physical_units());
        let counts = outcome.summary.parts.get::<NvmCounts>().unwrap();
        let of_frame = counts.table_bytes as f64 / counts.frames as f64;
        let told = outcome.summary.memory.table_bytes;
        let beyond = (most as f64 - 16.0 * pages as f64) / frames as f64;
        println!(
            "{frames} frames, {kind}, clock: {timing}: {of_frame:.1} bytes a frame, {:.1} a page without frames; in all {beyond:.1} bytes a frame \
             beyond 16 a page",
            (told - counts.table_bytes) as f64 / pages as f64
        );
        assert!(told <= most && told <= bytes_at_most(&config, false), "{told} of {most} bytes");
        assert!(beyond <= 24.0, "{kind}, clock: {timing}: {beyond} bytes a frame beyond 16 a page");
        assert!(of_frame <= 32.0, "{kind}, clock: {timing}: {of_frame} bytes a frame");
    }
}

/// Writes all over a drive and reads behind them, so that every table of a mapping cache grows as far as it can.
struct Everywhere {
    units: u64,
    next: u64,
}

impl RequestSource for Everywhere {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let count = (6 * self.units - self.next).min(max as u64);
        for _ in 0..count {
            let op = if self.next.is_multiple_of(3) { Op::Read } else { Op::Write };
            // A step that is prime to the size visits every unit; pairs make runs, and the rest scatters.
            let lba = self.next / 2 * 7919 % self.units + self.next % 2;
            out.push(Request {
                arrival_ns: 0,
                lba: lba.min(self.units - 1) * 8,
                sectors: 8,
                op,
                stream: 0,
                fua: false,
            });
            self.next += 1;
        }
        Ok(count as usize)
    }
}

struct OnUnits(u64);

impl SourceFactory for OnUnits {
    fn open(&self, _: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        Ok(Box::new(Everywhere { units: self.0, next: 0 }))
    }
}

/// Whoever asks beforehand whether the memory of a machine will do must not be told too little.
#[test]
#[ignore = "a long test: make test-long"]
fn a_drive_takes_no_more_memory_than_it_announces() {
    let _alone = ALONE.lock().unwrap();
    for kind in MapCacheKind::ALL {
        for model in ["drive", "mapping_cache"] {
            for bytes in [48 << 10, 1 << 20] {
                let cached = *kind != MapCacheKind::Ideal;
                if !cached && (model == "mapping_cache" || bytes > 48 << 10) {
                    continue;
                }
                for placement in PlacementKind::ALL.iter().take(if cached { 1 } else { usize::MAX }) {
                    let text = json!({
                        "geometry": { "channels": 2, "ways": 2, "planes": 2, "blocks_per_plane": 64, "pages_per_block": 128,
                            "page_bytes": 4096 },
                        "model": model,
                        "ftl": { "over_provisioning": 0.3, "placement": placement.name() },
                        "host": { "arrival": "closed" },
                        "map_cache": if cached { json!({ "kind": kind.name(), "bytes": bytes }) } else { json!({}) },
                    });
                    let config: DeviceConfig = serde_json::from_value(text).unwrap();
                    config.validate().unwrap();
                    let options = RunOptions { timing: false, ..RunOptions::default() };
                    let source = OnUnits(config.logical_pages());
                    let outcome =
                        simulate(&config, &source, &options, &RunControl::default(), &mut ()).unwrap();
                    assert_eq!(outcome.error, None);
                    let units = config.physical_units() as f64;
                    // Of tables only: on a drive as small as this, histograms and buffers take more.
                    let taken = outcome.summary.memory.table_bytes as f64 / units;
                    let announced = bytes_at_most(&config, false) as f64 / units;
                    let case = format!("{} of {bytes} bytes, {model}, {}", kind.name(), placement.name());
                    println!("{case}: {taken:.1} of {announced:.1} bytes a unit");
                    assert!(taken <= announced, "{case}: took {taken} of {announced} bytes a unit");
                    assert!(announced < 80.0, "{case}: announced {announced} bytes a unit");
                }
            }
        }
    }
}

/// What the allocator saw, not what the summary says: the tables of a drive of 4 million pages with every policy.
#[test]
fn a_page_takes_at_most_twelve_bytes() {
    let _alone = ALONE.lock().unwrap();
    for kind in VictimKind::ALL {
        let text = json!({
            "geometry": { "channels": 4, "ways": 2, "blocks_per_plane": 4096, "pages_per_block": 128, "page_bytes": 4096 },
            "ftl": { "gc": kind.name() },
            "host": { "arrival": "closed", "queue_depth": 32 },
        });
        let config: DeviceConfig = serde_json::from_value(text).unwrap();
        let before = LIVE_BYTES.load(Ordering::Relaxed);
        MOST_BYTES.store(before, Ordering::Relaxed);
        let outcome =
            simulate(&config, &FACTORY, &RunOptions::default(), &RunControl::default(), &mut ()).unwrap();
        assert_eq!(outcome.error, None);
        let most = (MOST_BYTES.load(Ordering::Relaxed) - before) as f64 / f64::from(8 * 4096 * 128);
        let told = outcome.summary.memory.bytes_per_page;
        println!("{}: {most:.2} bytes a page, {told:.2} of them tables", kind.name());
        assert!(told <= most && most <= 12.0, "{}: {most} bytes a page, {told} of them tables", kind.name());
    }
}

/// A thousand writes all over a drive, and what memory the process has when they have been taken.
#[cfg(target_os = "linux")]
struct Scattered {
    units: u64,
    left: u64,
}

#[cfg(target_os = "linux")]
static RESIDENT_AT_END: AtomicU64 = AtomicU64::new(0);

/// Bytes of memory that this process has.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}

#[cfg(target_os = "linux")]
impl RequestSource for Scattered {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let count = self.left.min(max as u64);
        for _ in 0..count {
            let lba = self.left * 1_234_567_891 % self.units * 8;
            out.push(Request { arrival_ns: 0, lba, sectors: 8, op: Op::Write, stream: 0, fua: false });
            self.left -= 1;
        }
        RESIDENT_AT_END.store(resident(), Ordering::Relaxed);
        Ok(count as usize)
    }
}

#[cfg(target_os = "linux")]
struct ScatteredOn(u64);

#[cfg(target_os = "linux")]
impl SourceFactory for ScatteredOn {
    fn open(&self, _: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        Ok(Box::new(Scattered { units: self.0, left: 1000 }))
    }
}

/// Drives of a terabyte that nobody has written, or a formula has filled. They take what was announced before their first
/// request. A request touches a page of memory or two in each of few tables.
#[test]
#[cfg(target_os = "linux")]
fn a_large_drive_takes_memory_for_what_is_touched() {
    const PAGES_OF_REQUEST: u64 = 8;
    let _alone = ALONE.lock().unwrap();
    for (slots, precondition) in [
        (4, json!({ "kind": "none" })),
        (4, json!({ "kind": "fill" })),
        (1, json!({ "kind": "fill", "layout": "blocks" })),
    ] {
        let text = json!({
            "geometry": { "channels": 8, "ways": 4, "planes": 4, "blocks_per_plane": 512, "pages_per_block": 4096 / slots,
                "page_bytes": 4096 * slots, "mapping_unit_bytes": 4096 },
            "host": { "arrival": "closed", "queue_depth": 32 },
            "precondition": precondition,
        });
        let config: DeviceConfig = serde_json::from_value(text).unwrap();
        config.validate().unwrap();
        let before = resident();
        let source = ScatteredOn(config.logical_pages());
        let outcome =
            simulate(&config, &source, &RunOptions::default(), &RunControl::default(), &mut ()).unwrap();
        assert_eq!((outcome.error, outcome.summary.host.completed), (None, 1000));
        let taken = RESIDENT_AT_END.load(Ordering::Relaxed).saturating_sub(before);
        let first = bytes_at_first(&config, false).unwrap();
        println!("{precondition}: {} MB, {} announced for the start", taken >> 20, first >> 20);
        assert!(
            taken <= first + 1000 * PAGES_OF_REQUEST * 4096,
            "{taken} bytes of {first} and 1,000 requests"
        );
        assert!(taken <= 100 << 20, "{taken} bytes for {} units", config.physical_units());
    }
}
