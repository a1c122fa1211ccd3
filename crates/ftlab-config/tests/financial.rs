//! The stand-in for Financial1 beside the first requests of the trace: hit ratios of an LRU cache of 4 KiB pages. The trace
//! is no part of the project: its folder is named by FTLAB_TRACES or lies beside the checkout as ../shared/traces; without
//! it this test says so and passes. `docs/notes/stand-ins.md` has the table.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use ftlab_config::load_workload;
use ftlab_core::host::request::{Request, RequestSource, SourceFactory};
use ftlab_trace::{OpenOptions, open};

/// Cache sizes in pages.
const SIZES: [usize; 6] = [64, 256, 1024, 4096, 16_384, 65_536];

fn traces() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let folder = std::env::var_os("FTLAB_TRACES").map_or_else(beside, PathBuf::from);
    folder.join("CATALOG.md").is_file().then_some(folder)
}

fn hit_ratio(pages: &[u64], size: usize) -> f64 {
    let (mut cached, mut order) = (HashMap::new(), BTreeMap::new());
    let mut hits = 0;
    for (now, page) in pages.iter().enumerate() {
        if let Some(used) = cached.insert(*page, now) {
            order.remove(&used);
            hits += 1;
        } else if cached.len() > size
            && let Some((_, oldest)) = order.pop_first()
        {
            cached.remove(&oldest);
        }
        order.insert(now, *page);
    }
    f64::from(hits) / pages.len() as f64
}

/// Pages of the first `count` requests; volumes are apart.
fn pages(
    mut source: Box<dyn RequestSource>,
    count: usize,
    sectors_of: fn(&Request) -> (u64, u64),
) -> Vec<u64> {
    let mut requests = Vec::new();
    while requests.len() < count && source.fill(&mut requests, count).unwrap() > 0 {}
    let touched = requests.iter().take(count).flat_map(|request| {
        let (first, sectors) = sectors_of(request);
        let volume = u64::from(request.stream) << 48;
        (first / 8..(first + sectors).div_ceil(8)).map(move |page| volume | page)
    });
    touched.collect()
}

fn whole(request: &Request) -> (u64, u64) {
    (request.lba, request.sectors.into())
}

/// This recording has sizes in pages.
fn in_pages(request: &Request) -> (u64, u64) {
    (request.lba / 8 * 8, u64::from(request.sectors) * 8)
}

fn generated(count: usize) -> Vec<u64> {
    let (_, file) = load_workload("like-financial", &[]).unwrap();
    pages(file.workload.factory(4 << 40, None, None).unwrap().open(0).unwrap(), count, whole)
}

#[test]
#[ignore = "a long test: make test-long"]
fn the_hit_ratios_of_the_stand_in_are_near_those_of_the_trace() {
    let Some(folder) = traces() else {
        eprintln!("skipped: no folder of real traces (set FTLAB_TRACES)");
        return;
    };
    let folder = folder.join("umass-spc");
    for (file, format, count, sectors_of, tolerance) in [
        ("ssdsim-example.ascii", "mqsim", 10_000, whole as fn(&Request) -> (u64, u64), 0.18),
        ("flashsim-fin1.trace.zst", "disksim", 50_000, in_pages, 0.11),
    ] {
        let options = OpenOptions { format: Some(format.into()), ..OpenOptions::default() };
        let source = open(folder.join(file), &options).unwrap().open(0).unwrap();
        let (real, made) = (pages(source, count, sectors_of), generated(count));
        let table: Vec<(usize, f64, f64)> =
            SIZES.map(|size| (size, hit_ratio(&real, size), hit_ratio(&made, size))).to_vec();
        for (size, real, made) in &table {
            eprintln!("{file}: {size} pages: recorded {real:.3}, generated {made:.3}");
        }
        assert!(table.iter().all(|(_, real, made)| (real - made).abs() <= tolerance), "{file}: {table:?}");
    }
}
