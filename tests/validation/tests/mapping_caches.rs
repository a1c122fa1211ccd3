//! Mapping caches in plain LRU order against reuse distances counted here.
#![allow(clippy::print_stdout, reason = "measured values, shown with --nocapture")]

use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_core::host::request::{Op, Request, SourceFactory, VecSource};
use ftlab_core::mapcache::translation::MapCacheSummary;
use ftlab_validation::{is_long, load, load_source, settings, traces};

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

/// A scheme in plain LRU order, where a larger memory holds all that a smaller one does.
struct Stack {
    kind: &'static str,
    /// What makes it one.
    key: Option<&'static str>,
    /// Units that come and go together.
    units: u64,
    /// Memory that they take.
    bytes: u64,
}

const STACKS: [Stack; 4] = [
    Stack { kind: "dftl", key: Some("map_cache.protected_fraction=0.0"), units: 1, bytes: 4 },
    Stack { kind: "half_page", key: None, units: 512, bytes: 2048 },
    Stack { kind: "full_page", key: None, units: 1024, bytes: 4096 },
    Stack { kind: "bsb", key: Some("map_cache.candidates=[\"full_page\"]"), units: 1024, bytes: 4096 },
];

/// Hits over memory sizes, of the simulator and by reuse distances: from four of what comes and goes to all of it.
fn compare(name: &str, source: &dyn SourceFactory) {
    // Generated once: they are run some seventy times.
    let requests = requests(source, if is_long() { 150_000 } else { 30_000 });
    let touched = units(&requests);
    let source = VecSource::new(requests);
    for Stack { kind, key, units, bytes } in &STACKS {
        let keys: Vec<u64> = touched.iter().map(|unit| unit / units).collect();
        let (distances, accesses) = reuse(&keys);
        let different = keys.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
        let mut previous = 0;
        for held in (1..).map(|step| 4_u64.pow(step)) {
            let mut changes = settings(&[("map_cache.kind", kind), ("map_cache.bytes", &(held * bytes))]);
            changes.extend(key.map(str::to_owned));
            let device = load("map-cache-model", &changes);
            let run = simulate(&device, &source, &RunOptions::default(), &RunControl::default(), &mut ());
            let outcome = run.unwrap();
            assert_eq!(outcome.error, None);
            let cache = outcome.summary.parts.get::<MapCacheSummary>().unwrap();
            let counted: u64 = distances.iter().take(held as usize + 1).sum();
            println!(
                "{name}, {kind} {}, {held} held: hit ratio {:.6}",
                key.unwrap_or_default(),
                cache.hit_ratio
            );
            assert_eq!((cache.lookups, cache.hits), (accesses, counted), "{name}, {kind}, {held} held");
            assert!(cache.hits >= previous, "{name}, {kind}: a larger memory hits less");
            previous = cache.hits;
            if held >= different {
                assert_eq!(cache.hits, accesses - different, "{name}, {kind}: only the first touch misses");
                break;
            }
        }
    }
}

#[test]
fn plain_lru_hits_as_reuse_distances_say() {
    let device = load("map-cache-model", &settings(&[("map_cache.kind", &"dftl")]));
    let keys = settings(&[("footprint_bytes", &"1GiB"), ("read_fraction", &0.5)]);
    compare("zipf", &*load_source(&device, "zipf", &keys));
    compare("like-financial", &*load_source(&device, "like-financial", &[]));
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
        compare(file, &trace);
    }
}
