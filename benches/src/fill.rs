//! Large drives: how long a fill takes, and what memory a drive takes of which little is touched.

use std::time::Instant;

use super::{Clock, Scale, hash, run};
use ftlab_validation::settings;

/// Seconds that a filled drive and a thousand requests may take.
const SECONDS: f64 = 0.3;
/// Megabytes that they may take.
const MEGABYTES: f64 = 200.0;

/// Drives of terabytes, filled, that serve a thousand random requests.
pub(super) fn large_drives(scale: &Scale) {
    for (name, channels, ways) in [("1 TiB", 4, 4), ("8 TiB", 8, 16)] {
        let device = settings(&[
            ("geometry.channels", &channels),
            ("geometry.ways", &ways),
            ("host.arrival", &"closed"),
        ]);
        let keys = settings(&[("requests", &1000), ("read_fraction", &0.5)]);
        for (clock, kept) in [("without a clock", Clock::None), ("with a clock", Clock::Chosen)] {
            let mut best = (f64::INFINITY, 0);
            for _ in 0..scale.repeats {
                let start = Instant::now();
                let (_, outcome) = run("tlc-256g", &device, "uniform", &keys, kept);
                let seconds = start.elapsed().as_secs_f64();
                if seconds < best.0 {
                    best = (seconds, hash(&outcome));
                }
            }
            println!(
                "(j) {name} filled, {clock}, and 1,000 random requests: {:.3} s (asked for: {SECONDS}), hash {:016x}",
                best.0, best.1
            );
        }
        if let Some(megabytes) = most_megabytes() {
            println!("    the process has taken {megabytes:.0} MB at most (asked for: {MEGABYTES:.0})");
        }
    }
}

/// Memory that this process has had at once; `None` where the system does not say.
fn most_megabytes() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes / 1e3)
}
