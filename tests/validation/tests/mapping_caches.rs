//! Mapping caches in plain LRU order against reuse distances counted here.
#![allow(clippy::print_stdout, reason = "measured values, shown with --nocapture")]

use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_core::host::request::{Op, Request, SourceFactory};
use ftlab_validation::{load, load_source, settings, traces};

const UNIT_SECTORS: u64 = 8;

/// For each distance, in distinct keys, how many accesses re-use a key at it; and the accesses.
fn reuse(keys: &[u64]) -> (Vec<u64>, u64) {
    // A one at the place of each key's last access, summed by a binary indexed tree.
    let mut tree = vec![0_i64; keys.len() + 1];
    let add = |tree: &mut Vec<i64>, at: usize, change: i64| {
        let mut at = at + 1;
        while at < tree.len() {
            tree[at] += change;
            at += at & at.wrapping_neg();
        }
    };
    let before = |tree: &Vec<i64>, end: usize| {
        let (mut at, mut sum) = (end, 0);
        while at > 0 {
            sum += tree[at];
            at &= at - 1;
        }
        sum
    };
    let mut last = std::collections::BTreeMap::new();
    let mut distances = vec![0; keys.len() + 1];
    for (now, key) in keys.iter().enumerate() {
        if let Some(then) = last.insert(*key, now) {
            distances[(before(&tree, now) - before(&tree, then)) as usize] += 1;
            add(&mut tree, then, -1);
        }
        add(&mut tree, now, 1);
    }
    (distances, keys.len() as u64)
}

/// Requests of a source, `limit` at most.
fn requests(source: &dyn SourceFactory, limit: usize) -> Vec<Request> {
    let mut source = source.open(0).unwrap();
    let mut requests = Vec::new();
    while requests.len() < limit {
        let wanted = 4096.min(limit - requests.len());
        if source.fill(&mut requests, wanted).unwrap() == 0 {
            break;
        }
    }
    requests
}

fn units(requests: &[Request]) -> Vec<u64> {
    let touches = |request: &&Request| matches!(request.op, Op::Read | Op::Write) && request.sectors > 0;
    let spans = requests.iter().filter(touches).map(|request| {
        request.lba / UNIT_SECTORS..=(request.lba + u64::from(request.sectors) - 1) / UNIT_SECTORS
    });
    spans.flatten().collect()
}

/// Hit ratios over cache sizes, of the simulator and by reuse distances; `divide` is how many units share a key.
fn compare(name: &str, source: &dyn SourceFactory, kind: &str, divide: u64, entry_bytes: u64) {
    const REQUESTS: u64 = 150_000;
    let keys: Vec<u64> =
        units(&requests(source, REQUESTS as usize)).iter().map(|unit| unit / divide).collect();
    let (distances, accesses) = reuse(&keys);
    let mut previous = 0.0;
    for held in [4, 16, 64, 256, 1024, 4096] {
        let mut keys = settings(&[("map_cache.kind", &kind), ("map_cache.bytes", &(held * entry_bytes))]);
        if kind == "dftl" {
            keys.push("map_cache.protected_fraction=0.0".into());
        }
        keys.push("host.unsorted_times=clamp".into());
        let device = load("map-cache-model", &keys);
        let options = RunOptions { requests: Some(REQUESTS), ..RunOptions::default() };
        let outcome = simulate(&device, source, &options, &RunControl::default(), &mut ()).unwrap();
        assert_eq!(outcome.error, None);
        let cache = outcome.summary.map_cache.unwrap();
        assert_eq!(cache.lookups, accesses);
        let counted = distances.iter().take(held as usize + 1).sum::<u64>() as f64 / accesses as f64;
        println!(
            "{name}, {kind}, {held} held: hit ratio {:.6}, by reuse distance {counted:.6}",
            cache.hit_ratio
        );
        assert!((cache.hit_ratio - counted).abs() < 0.001, "{name}, {kind}, {held} held");
        assert!(cache.hit_ratio >= previous, "{name}, {kind}: a larger cache hits less");
        previous = cache.hit_ratio;
    }
}

fn both(name: &str, source: &dyn SourceFactory) {
    compare(name, source, "dftl", 1, 4);
    compare(name, source, "full_page", 1024, 4096);
}

#[test]
fn plain_lru_hits_as_reuse_distances_say() {
    let device = load("map-cache-model", &settings(&[("map_cache.kind", &"dftl")]));
    let keys = settings(&[("footprint_bytes", &"1GiB"), ("read_fraction", &0.5)]);
    both("zipf", &*load_source(&device, "zipf", &keys));
    both("like-financial", &*load_source(&device, "like-financial", &[]));
}

#[test]
fn and_on_the_real_traces_where_they_are_at_hand() {
    let Some(folder) = traces() else {
        println!("skipped: no folder of traces (FTLAB_TRACES)");
        return;
    };
    for (file, format) in [
        ("Financial_mini.spc", "spc"),
        ("flashsim-fin1.trace.zst", "flashsim"),
        ("flashsim-web1.trace.zst", "flashsim"),
    ] {
        let options = ftlab_trace::OpenOptions { format: Some(format.into()), ..Default::default() };
        let trace = ftlab_trace::open(folder.join("umass-spc").join(file), &options).unwrap();
        both(file, &trace);
    }
}
