//! Non-volatile caches: page accesses a second over a drive of 32 GiB.

use std::fmt::Display;

use ftlab_core::nvm::NvmKind;
use ftlab_core::nvm::cache::NvmCounts;
use ftlab_validation::settings;

use super::{Clock, Scale, best, hash, run};

/// Page accesses a second that are asked for, without a clock and with one.
const ACCESSES: f64 = 3e6;
const WITH_A_CLOCK: f64 = 1.5e6;

/// Skewed accesses to eight times what the cache holds: 4 GiB over 32 GiB at full scale.
pub(super) fn caches(scale: &Scale) {
    let requests = scale.requests / 5;
    // A hundredth with --smoke, as much as there are fewer pages.
    let pages = (8u64 << 20) * scale.pages as u64 / 6_400_000;
    for kind in [NvmKind::Basic, NvmKind::Cdm] {
        for (name, clock, asked) in
            [("without a clock", Clock::None, ACCESSES), ("with a clock", Clock::Chosen, WITH_A_CLOCK)]
        {
            let keys: [(&str, &dyn Display); 8] = [
                ("geometry.channels", &8),
                ("geometry.blocks_per_plane", &(pages / 64 / 8 * 107 / 100 + 64)),
                ("geometry.pages_per_block", &64),
                ("ftl.logical_pages", &pages),
                ("precondition.kind", &"fill"),
                ("nvm.kind", &kind.name()),
                ("nvm.bytes", &(pages / 8 * 4096)),
                ("host.arrival", &"closed"),
            ];
            let workload: [(&str, &dyn Display); 3] =
                [("requests", &requests), ("theta", &0.9), ("read_fraction", &0.3)];
            let (seconds, outcome) =
                best(scale, || run("ideal-page", &settings(&keys), "zipf", &settings(&workload), clock));
            let counts: NvmCounts = outcome.summary.parts.get().unwrap_or_default();
            println!(
                "(i) non-volatile caches, {}, {name}: {:.2} M page accesses/s (asked for: {:.1}), hits {:.3}, hash {:016x}",
                kind.name(),
                requests as f64 / seconds / 1e6,
                asked / 1e6,
                counts.hit_ratio,
                hash(&outcome),
            );
        }
    }
}
