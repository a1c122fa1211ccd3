//! Keys that a device file changes to no effect, because of others.
//!
//! They are no errors: a grid of runs sets them for some of its runs only, and a preset for those who change its
//! schemes. `tests/test_sensitivity.py` holds the table against what the drive does.

use crate::config::{
    Arrival, DeviceConfig, FtlConfig, FtlKind, HostConfig, PreconditionConfig, PreconditionKind,
    TimingConfig, WearLeveling,
};
use crate::flash::cell::{CellKind, PageOrder};
use crate::ftl::gc::VictimKind;

/// A key that changes nothing as things are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConfigNote {
    /// Dotted key.
    pub key: &'static str,
    /// Why, in a sentence without a full stop.
    pub reason: &'static str,
}

/// When some keys change nothing, and why.
struct Rule {
    when: fn(&DeviceConfig) -> bool,
    keys: &'static [&'static str],
    reason: &'static str,
}

/// The first that names a key counts.
const RULES: &[Rule] = &[
    Rule {
        when: |c| c.ftl.kind == FtlKind::MapOnly,
        keys: &[
            "ftl.gc",
            "ftl.gc_low_free_blocks",
            "ftl.gc_high_free_blocks",
            "ftl.gc_choices",
            "ftl.gc_window",
            "ftl.gc_tie",
            "ftl.gc_open_block",
            "ftl.gc_when",
            "ftl.allocation",
            "ftl.striping",
            "ftl.plane_choice",
            "ftl.streams",
            "ftl.free_block",
            "ftl.wear_leveling",
            "ftl.wear_leveling_threshold",
        ],
        reason: "has no effect with ftl.kind = \"map_only\", which places no data",
    },
    Rule {
        when: |c| c.ftl.kind == FtlKind::MapOnly,
        keys: &[
            "timing.erase_us",
            "timing.copyback",
            "timing.transfer_spare",
            "timing.independent_planes",
            "cell.page_order",
        ],
        reason: "has no effect with ftl.kind = \"map_only\", which takes the mean times of reads and programs",
    },
    Rule {
        when: |c| c.ftl.kind == FtlKind::MapOnly,
        keys: &[
            "host.queue_depth",
            "host.time_scale",
            "host.outstanding",
            "host.link_mb_per_s",
            "host.link_duplex",
        ],
        reason: "has no effect with ftl.kind = \"map_only\", which serves one request after the other, without a clock",
    },
    Rule {
        when: |c| c.ftl.gc != VictimKind::DChoices,
        keys: &["ftl.gc_choices"],
        reason: "has no effect: only ftl.gc = \"d_choices\" draws candidates",
    },
    Rule {
        when: |c| c.ftl.gc != VictimKind::WindowedGreedy,
        keys: &["ftl.gc_window"],
        reason: "has no effect: only ftl.gc = \"windowed_greedy\" has a window",
    },
    Rule {
        when: |c| !matches!(c.ftl.gc, VictimKind::Greedy | VictimKind::WindowedGreedy),
        keys: &["ftl.gc_tie"],
        reason: "has no effect: it is a key of ftl.gc = \"greedy\" and \"windowed_greedy\"",
    },
    Rule {
        when: |c| c.ftl.wear_leveling != WearLeveling::Static,
        keys: &["ftl.wear_leveling_threshold"],
        reason: "has no effect: only ftl.wear_leveling = \"static\" moves data",
    },
    Rule {
        when: |c| c.cell.kind == CellKind::Slc,
        keys: &["cell.page_order"],
        reason: "has no effect: all pages of cell.kind = \"slc\" are of one class",
    },
    Rule {
        when: |c| c.timing.bus_mb_per_s == 0.0,
        keys: &["timing.transfer_spare"],
        reason: "has no effect with timing.bus_mb_per_s = 0: transfers take no time",
    },
    Rule {
        when: |c| c.host.arrival == Arrival::Closed,
        keys: &["host.time_scale", "host.unsorted_times"],
        reason: "has no effect with host.arrival = \"closed\": the times of the trace are not used",
    },
    Rule {
        when: |c| c.host.link_mb_per_s == 0.0,
        keys: &["host.link_duplex"],
        reason: "has no effect with host.link_mb_per_s = 0: transfers over the link take no time",
    },
    Rule {
        when: |c| c.precondition.kind == PreconditionKind::None,
        keys: &[
            "precondition.layout",
            "precondition.pattern",
            "precondition.free_blocks",
            "precondition.tolerance",
            "precondition.max_drive_writes",
        ],
        reason: "has no effect with precondition.kind = \"none\"",
    },
    Rule {
        when: |c| c.precondition.kind == PreconditionKind::Fill,
        keys: &[
            "precondition.pattern",
            "precondition.free_blocks",
            "precondition.tolerance",
            "precondition.max_drive_writes",
        ],
        reason: "has no effect with precondition.kind = \"fill\": nothing is written after it",
    },
    Rule {
        when: |c| c.precondition.kind != PreconditionKind::FreeBlocks,
        keys: &["precondition.free_blocks"],
        reason: "has no effect: it is a key of precondition.kind = \"free_blocks\"",
    },
    Rule {
        when: |c| c.precondition.kind != PreconditionKind::Steady,
        keys: &["precondition.tolerance"],
        reason: "has no effect: it is a key of precondition.kind = \"steady\"",
    },
];

/// The keys that differ from their defaults and change nothing, in the order of the rules.
///
/// Not among them: keys that describe the drive, such as `geometry.spare_bytes`, and what a validated configuration
/// refuses anyway.
pub fn without_effect(config: &DeviceConfig) -> Vec<ConfigNote> {
    let mut notes: Vec<ConfigNote> = Vec::new();
    for rule in RULES.iter().filter(|rule| (rule.when)(config)) {
        for key in rule.keys.iter().filter(|key| is_changed(config, key)) {
            if notes.iter().all(|note| note.key != *key) {
                notes.push(ConfigNote { key, reason: rule.reason });
            }
        }
    }
    notes
}

/// Whether a key of a rule differs from its default.
fn is_changed(config: &DeviceConfig, key: &str) -> bool {
    let (ftl, host) = (FtlConfig::default(), HostConfig::default());
    let (timing, aged) = (TimingConfig::default(), PreconditionConfig::default());
    let DeviceConfig { ftl: f, host: h, timing: t, precondition: p, cell, .. } = config;
    let differs = |one: f64, other: f64| one.to_bits() != other.to_bits();
    match key {
        "ftl.gc" => f.gc != ftl.gc,
        "ftl.gc_low_free_blocks" => f.gc_low_free_blocks != ftl.gc_low_free_blocks,
        "ftl.gc_high_free_blocks" => f.gc_high_free_blocks != ftl.gc_high_free_blocks,
        "ftl.gc_choices" => f.gc_choices != ftl.gc_choices,
        "ftl.gc_window" => f.gc_window != ftl.gc_window,
        "ftl.gc_tie" => f.gc_tie != ftl.gc_tie,
        "ftl.gc_open_block" => f.gc_open_block != ftl.gc_open_block,
        "ftl.gc_when" => f.gc_when != ftl.gc_when,
        "ftl.allocation" => f.allocation != ftl.allocation,
        "ftl.striping" => f.striping != ftl.striping,
        "ftl.plane_choice" => f.plane_choice != ftl.plane_choice,
        "ftl.streams" => f.streams != ftl.streams,
        "ftl.free_block" => f.free_block != ftl.free_block,
        "ftl.wear_leveling" => f.wear_leveling != ftl.wear_leveling,
        "ftl.wear_leveling_threshold" => f.wear_leveling_threshold != ftl.wear_leveling_threshold,
        "timing.erase_us" => differs(t.erase_us, timing.erase_us),
        "timing.copyback" => t.copyback,
        "timing.transfer_spare" => t.transfer_spare,
        "timing.independent_planes" => t.independent_planes,
        "cell.page_order" => cell.page_order != PageOrder::default(),
        "host.queue_depth" => h.queue_depth != host.queue_depth,
        "host.time_scale" => differs(h.time_scale, host.time_scale),
        "host.outstanding" => h.outstanding != host.outstanding,
        "host.link_mb_per_s" => differs(h.link_mb_per_s, host.link_mb_per_s),
        "host.link_duplex" => h.link_duplex != host.link_duplex,
        "host.unsorted_times" => h.unsorted_times != host.unsorted_times,
        "precondition.layout" => p.layout != aged.layout,
        "precondition.pattern" => p.pattern != aged.pattern,
        "precondition.free_blocks" => p.free_blocks != aged.free_blocks,
        "precondition.tolerance" => differs(p.tolerance, aged.tolerance),
        "precondition.max_drive_writes" => differs(p.max_drive_writes, aged.max_drive_writes),
        _ => unreachable!("{key} is in the table and not here"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(more: &str) -> DeviceConfig {
        let geometry = r#""geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 64, "pages_per_block": 16,
            "page_bytes": 4096 }"#;
        serde_json::from_str(&format!("{{ {geometry}, {more} }}")).unwrap()
    }

    #[test]
    fn every_key_of_the_table_can_be_compared() {
        let usual = device(r#""name": "x""#);
        for key in RULES.iter().flat_map(|rule| rule.keys) {
            assert!(!is_changed(&usual, key), "{key}");
        }
        assert!(without_effect(&usual).is_empty());
    }

    #[test]
    fn a_key_is_told_once_with_its_first_reason() {
        let notes =
            without_effect(&device(r#""precondition": { "tolerance": 0.1 }, "ftl": { "gc_window": 3 }"#));
        let keys: Vec<&str> = notes.iter().map(|note| note.key).collect();
        assert_eq!(keys, ["ftl.gc_window", "precondition.tolerance"]);
        assert!(notes[1].reason.contains("\"none\""));
    }
}
