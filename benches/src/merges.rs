//! Block-mapped layers: host pages a second, with the merges that they cause.

use std::time::Instant;

use ftlab_core::device::{RunControl, RunOptions, RunOutcome, simulate};
use ftlab_core::ftl::kinds::FtlKind;
use ftlab_validation::{load, load_source, settings};

use super::{Scale, best, hash};

/// Host pages a second that are asked for of BAST.
const PAGES: f64 = 1e6;

/// Uniform writes over 1,000 blocks of 64 pages with a log block for each, so that each page is copied once for each time that
/// it is written: and 256 of them, where almost every write merges a block.
pub(super) fn merges(scale: &Scale) {
    for kind in FtlKind::ALL.iter().filter(|kind| **kind != FtlKind::Page) {
        for (logs, share) in [("a log for each block", 1), ("a log for four", 4)] {
            if *kind == FtlKind::Block && share > 1 {
                continue;
            }
            let requests = scale.requests / if share == 1 && *kind != FtlKind::Block { 10 } else { 100 };
            let mut keys = vec![("ftl.kind", kind.name().to_owned())];
            if *kind != FtlKind::Block {
                keys.push(("ftl.log_blocks", (1000 / share).to_string()));
            }
            let numbers: Vec<(&str, &dyn std::fmt::Display)> = keys
                .iter()
                .map(|(key, value)| (*key, value as &dyn std::fmt::Display))
                .chain([
                    ("geometry.blocks_per_plane", &2010 as &dyn std::fmt::Display),
                    ("geometry.pages_per_block", &64),
                    ("ftl.logical_pages", &64_000),
                    ("precondition.kind", &"fill"),
                ])
                .collect();
            let device = load("ideal-page", &settings(&numbers));
            let source = load_source(&device, "uniform", &settings(&[("requests", &requests)]));
            let options = RunOptions { timing: false, ..RunOptions::default() };
            let (seconds, outcome): (f64, RunOutcome) = best(scale, || {
                let start = Instant::now();
                let outcome = simulate(&device, &*source, &options, &RunControl::default(), &mut ())
                    .unwrap_or_else(|error| panic!("{error}"));
                (start.elapsed().as_secs_f64(), outcome)
            });
            let rate = requests as f64 / seconds;
            let asked = if *kind == FtlKind::Bast && share == 1 {
                format!(" (asked for: {PAGES:.0})")
            } else {
                String::new()
            };
            let flash = outcome.summary.flash.programs.total + outcome.summary.flash.copybacks.total;
            println!(
                "(g) merges, {}, {logs}: {rate:.0} host pages a second{asked}, {:.0} of flash, hash {:016x}",
                kind.name(),
                flash as f64 / seconds,
                hash(&outcome),
            );
        }
    }
}
