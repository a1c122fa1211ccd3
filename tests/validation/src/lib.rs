//! Closed forms of write amplification, and runs to hold against them.
//!
//! `alpha` is physical over logical pages, `b` pages per block. Every form is for single-page writes in the limit of
//! many blocks; `physical` counts the blocks that can hold data: without the free one and the one being filled.

use std::sync::Arc;

use ftlab_config::{load_device, load_workload};
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate};
use ftlab_core::host::request::SourceFactory;
use ftlab_workload::GenerateOptions;

/// Run a preset device on a preset workload, each with `key=value` changes; the run must succeed.
///
/// # Panics
/// When anything is wrong with the device, the workload or the run: this is a test's tool.
pub fn run(
    device: &str,
    changes: &[String],
    workload: &str,
    workload_changes: &[String],
    timing: bool,
) -> RunOutcome {
    let device = load(device, changes);
    let (_, workload) =
        load_workload(workload, workload_changes).unwrap_or_else(|problems| panic!("{problems}"));
    let capacity = device.to_geometry().logical_bytes();
    let source = workload.workload.factory(capacity, None, None).unwrap_or_else(|error| panic!("{error}"));
    let options = RunOptions { timing, ..RunOptions::default() };
    let outcome = simulate(&device, &*source, &options, &RunControl::default(), &mut ())
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(outcome.error, None);
    outcome
}

/// A preset workload with changes, for `device`.
///
/// # Panics
/// When the preset or a change makes no sense.
pub fn load_source(device: &DeviceConfig, workload: &str, changes: &[String]) -> Arc<dyn SourceFactory> {
    let (_, workload) = load_workload(workload, changes).unwrap_or_else(|problems| panic!("{problems}"));
    let capacity = device.to_geometry().logical_bytes();
    workload.workload.factory(capacity, None, None).unwrap_or_else(|error| panic!("{error}"))
}

/// The same, but its requests are made on the thread that asks for them, however many there are: so do studies, whose runs use
/// all cores anyway.
///
/// # Panics
/// When the preset or a change makes no sense.
pub fn load_source_in_line(
    device: &DeviceConfig,
    workload: &str,
    changes: &[String],
) -> Arc<dyn SourceFactory> {
    let (_, workload) = load_workload(workload, changes).unwrap_or_else(|problems| panic!("{problems}"));
    let capacity = device.to_geometry().logical_bytes();
    let options = GenerateOptions { on_caller_thread: true, ..GenerateOptions::default() };
    let source = workload.workload.factory_by(capacity, None, None, &options);
    source.unwrap_or_else(|error| panic!("{error}"))
}

/// A preset with changes.
///
/// # Panics
/// When the preset or a change makes no sense.
pub fn load(device: &str, changes: &[String]) -> DeviceConfig {
    load_device(device, changes).unwrap_or_else(|problems| panic!("{problems}")).1
}

/// Whether this is `make test-long`.
pub fn is_long() -> bool {
    std::env::var_os("FTLAB_LONG").is_some()
}

/// `["key=value", ...]` from pairs.
pub fn settings(pairs: &[(&str, &dyn std::fmt::Display)]) -> Vec<String> {
    pairs.iter().map(|(key, value)| format!("{key}={value}")).collect()
}

/// The principal branch of Lambert's W on -1/e..0, by Newton's method.
pub fn lambert_w(x: f64) -> f64 {
    let mut w = if x < -0.25 { -1.0 + (2.0 * (1.0 + std::f64::consts::E * x)).max(0.0).sqrt() } else { x };
    for _ in 0..100 {
        let step = (w * w.exp() - x) / (w.exp() * (w + 1.0));
        if !step.is_finite() || step.abs() < 1e-15 {
            break;
        }
        w -= step;
    }
    w
}

/// FIFO (LRU) cleaning under uniform writes.
pub fn fifo(alpha: f64) -> f64 {
    alpha / (alpha + lambert_w(-alpha * (-alpha).exp()))
}

/// A random victim under uniform writes.
pub fn random(alpha: f64) -> f64 {
    alpha / (alpha - 1.0)
}

/// Greedy under uniform writes: victims have one of two successive numbers of live pages.
///
/// # Panics
/// When no level solves the balance: `alpha` is not above 1.
pub fn greedy(alpha: f64, b: u32) -> f64 {
    let harmonic = |n: u32| (1..=n).map(|i| 1.0 / f64::from(i)).sum::<f64>();
    let size = f64::from(b);
    for k in 1..b {
        let level = f64::from(k);
        let p = (size * (harmonic(b) - harmonic(k)) - alpha * (size - level)) / (alpha - size / level);
        if (0.0..1.0).contains(&p) {
            return size / (size - level + p);
        }
    }
    panic!("no level of live pages balances alpha = {alpha}, b = {b}");
}

/// The best of `d` random blocks under uniform writes: fixed point of the mean-field equations (Van Houdt 2013).
pub fn d_choices(alpha: f64, b: u32, d: i32) -> f64 {
    let (size, rho) = (f64::from(b), 1.0 / alpha);
    let levels = b as usize;
    // w[i]: share of blocks with at least i live pages. Start: every block holds its share.
    let mut w: Vec<f64> =
        (0..=levels + 1).map(|i| if (i as f64) <= size * rho { 1.0 } else { 0.0 }).collect();
    let dt = 0.02;
    let mut sigma = 0.0;
    for _ in 0..60_000 {
        sigma = w[1..=levels].iter().map(|w| w.powi(d)).sum();
        for i in 1..=levels {
            let gain = 1.0 - w[i].powi(d);
            let loss = (size - sigma) * i as f64 * (w[i] - w[i + 1]) / (size * rho);
            w[i] = (w[i] + dt * (gain - loss)).clamp(0.0, 1.0);
        }
        // The invariant: live pages are neither made nor lost.
        let live: f64 = w[1..=levels].iter().sum();
        let scale = size * rho / live;
        w[1..=levels].iter_mut().for_each(|w| *w = (*w * scale).min(1.0));
    }
    size / (size - sigma)
}

/// LRU cleaning of one pool with two classes: `share` of the writes go to `space` of the pages.
pub fn two_class_lru(alpha: f64, share: f64, space: f64) -> f64 {
    let step = |a: f64| -> f64 {
        [(share, space), (1.0 - share, 1.0 - space)]
            .iter()
            .map(|(r, f)| r / (1.0 - (-alpha * r / (f * a)).exp()))
            .sum()
    };
    (0..10_000).fold(2.0, |a, _| step(a))
}

/// Share of the logical pages in use when a share `q` of the requests are trims.
pub fn in_use(q: f64) -> f64 {
    (1.0 - 2.0 * q) / (1.0 - q)
}

/// The folder of real traces: `FTLAB_TRACES`, or `shared/traces` beside the project.
pub fn traces() -> Option<std::path::PathBuf> {
    let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let named = std::env::var_os("FTLAB_TRACES").map(std::path::PathBuf::from);
    named.or(Some(beside)).filter(|folder| folder.is_dir())
}
