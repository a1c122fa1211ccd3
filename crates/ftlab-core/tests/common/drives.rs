//! Random drives and requests.

use ftlab_core::config::AllocationOrder;
use ftlab_core::ftl::gc::VictimKind;
use ftlab_core::ftl::kinds::FtlKind;
use ftlab_core::ftl::placement::PlacementKind;
use ftlab_core::host::request::{Op, Request};
use ftlab_core::mapcache::MapCacheKind;
use ftlab_core::schemes::axes;
use proptest::collection::SizeRange;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{device, of_chosen};

/// A drive of any shape that validation accepts: small, and with enough spare space for every policy.
pub fn drives() -> impl Strategy<Value = Value> {
    let all = FtlKind::ALL.iter().map(|kind| kind.name());
    // As many of page mapping, with all that goes with it, as of all others together.
    let layers = all.clone().chain(all.map(|_| "page").skip(2));
    drives_with(layers.collect())
}

/// As [`drives`], with block-mapped layers.
pub fn block_drives() -> impl Strategy<Value = Value> {
    drives_with(FtlKind::ALL.iter().map(|kind| kind.name()).filter(|kind| *kind != "page").collect())
}

/// As [`drives`], with page mapping.
pub fn page_drives() -> impl Strategy<Value = Value> {
    drives_with(vec!["page"])
}

fn drives_with(layers: Vec<&'static str>) -> impl Strategy<Value = Value> {
    let orders: Vec<String> = AllocationOrder::all().iter().map(ToString::to_string).collect();
    let policies: Vec<&str> = VictimKind::ALL.iter().map(|kind| kind.name()).collect();
    let placements: Vec<&str> = PlacementKind::ALL.iter().map(|kind| kind.name()).collect();
    let kinds = (proptest::sample::select(layers), proptest::sample::select(placements));
    let shape = (1..4_u32, 1..3_u32, 1..3_u32, 1..4_u32, 12..20_u32, 2..7_u32, 0..3_u32, any::<bool>());
    let ftl = (
        proptest::sample::select(policies),
        proptest::sample::select(orders),
        proptest::sample::select(vec!["static", "dynamic"]),
        proptest::sample::select(vec!["ordered", "most_free"]),
        proptest::sample::select(vec!["separate", "shared"]),
        (
            proptest::sample::select(vec!["on_write", "on_access"]),
            proptest::sample::select(vec!["block", "even"]),
        ),
        proptest::sample::select(vec!["fifo", "next_fit"]),
        proptest::sample::select(vec!["none", "dynamic", "static"]),
        (1..3_u32, any::<bool>(), 1..3_u32, 0..3_u32, kinds),
    );
    let rest = (
        proptest::sample::select(vec![
            ("slc", "adjacent"),
            ("mlc", "adjacent"),
            ("mlc", "shadow_pairs"),
            ("tlc", "tlc_pairs"),
        ]),
        (any::<bool>(), any::<bool>(), 0..3_u32, any::<bool>()),
        proptest::sample::select(vec!["open", "closed"]),
        (1..9_u32, proptest::sample::select(vec!["half", "full"]), 0..2_u32),
        proptest::sample::select(vec!["none", "fill", "steady"]),
        (any::<bool>(), map_caches()),
    );
    (shape, ftl, rest).prop_map(|(shape, ftl, rest)| {
        let (channels, ways, dies, planes, blocks, pages, slot_shift, summary) = shape;
        let (gc, order, striping, plane_choice, open_block, (when, mut pace), free, wear, numbers) = ftl;
        let (mut streams, high, low, tie, (kind, placement)) = numbers;
        let (cell, (copyback, independent, command, spare), arrival, (depth, duplex, link), precondition, (blocks_layout, map_cache)) =
            rest;
        // Single units on pages of several leave most of each page empty until collection packs them: that takes
        // space, and blocks of more than a few pages.
        let pages = if slot_shift == 0 { pages } else { pages + 2 };
        let mut open_block = open_block;
        let (slot_shift, summary, wear, map_cache) = if kind == "page" {
            (slot_shift, summary, wear, map_cache)
        } else {
            // Block-mapped layers map whole pages, in memory.
            let wear = if wear == "static" { "dynamic" } else { wear };
            (0, false, wear, json!({ "kind": "ideal" }))
        };
        let cached = map_cache["kind"] != "ideal";
        let plane_choice = if cached { "ordered" } else { plane_choice };
        if cached || placement == "sepbit" && slot_shift > 0 {
            pace = "block";
        }
        if plane_choice == "most_free" {
            (streams, open_block) = (1, "shared");
        }
        let mut value = json!({
            "geometry": { "channels": channels, "ways": ways, "dies": dies, "planes": planes,
                "blocks_per_plane": blocks + 6, "pages_per_block": pages + u32::from(summary), "page_bytes": 4096,
                "spare_bytes": 128, "mapping_unit_bytes": 4096 >> slot_shift },
            "cell": { "kind": cell.0, "page_order": cell.1 },
            "timing": { "read_us": { "lsb": 20, "csb": 30, "msb": 45 }, "program_us": { "lsb": 100, "csb": 300, "msb": 700 },
                "erase_us": 1000, "bus_mb_per_s": 333, "command_us": f64::from(command) * 0.3, "copyback": copyback,
                "independent_planes": independent, "transfer_spare": spare },
            "ftl": { "kind": kind, "placement": placement, "gc": gc, "gc_low_free_blocks": low, "gc_high_free_blocks": if high { low + 2 } else { 0 },
                "gc_choices": 3, "gc_window": 4, "gc_tie": if tie == 0 { "highest" } else { "lowest" },
                "gc_open_block": open_block, "gc_when": when, "gc_pace": pace, "allocation": order, "striping": striping,
                "plane_choice": plane_choice, "streams": streams, "summary_page": summary,
                "over_provisioning": if slot_shift == 0 { 1.5 } else { 4.0 },
                "free_block": if wear == "none" { free } else { "fifo" }, "wear_leveling": wear,
                "wear_leveling_threshold": 2 },
            "host": { "arrival": arrival, "link_mb_per_s": link * 500, "link_duplex": duplex, "out_of_range": "wrap",
                "overhead_us": if duplex == "half" { 3.3 } else { 0.0 } },
            "precondition": { "kind": precondition, "max_drive_writes": 8,
                "layout": if blocks_layout && streams == 1 && slot_shift == 0 && placement == "stripe" { "blocks" } else { "written" } },
        });
        if kind != "page" {
            put_logs(&mut value["ftl"], channels * ways * dies * planes, high, tie, streams);
        }
        if cached {
            // Many translation pages on a small drive: pages of 512 bytes, and blocks for what they take.
            value["geometry"]["page_bytes"] = json!(512 << slot_shift);
            value["geometry"]["mapping_unit_bytes"] = json!(512);
            value["geometry"]["blocks_per_plane"] = json!(blocks + 10);
        }
        value["map_cache"] = map_cache;
        keep_own_keys(&mut value);
        if value["map_cache"]["kind"] == "cftl" {
            // The least that will do, and what the strategy gives beyond that: filters, bits of blocks, entries.
            let blocks = device(of_chosen(value.clone())).logical_pages().div_ceil(value["map_cache"]["cftl_block_pages"].as_u64().unwrap());
            let more = value["map_cache"]["bytes"].as_u64().unwrap() - LARGE;
            value["map_cache"]["bytes"] = json!(2048 + blocks.div_ceil(8) + 38 + more);
        }
        value["host"][if arrival == "open" { "outstanding" } else { "queue_depth" }] = json!(depth);
        of_chosen(value)
    })
}

/// Few log blocks, or as many as there is room for, and other keys of block-mapped layers.
fn put_logs(ftl: &mut Value, memories: u32, is_dynamic: bool, number: u32, other: u32) {
    ftl["log_blocks"] = json!([0, memories * 3, memories * 4][number as usize]);
    ftl["allocator"] = json!(if is_dynamic { "dynamic" } else { "static" });
    ftl["log_always"] = json!(other > 1);
    ftl["partial_row"] = json!(if is_dynamic { "fill" } else { "pad" });
    ftl["sequential_bytes"] = json!([512, 4096, 8192][number as usize]);
    ftl["sequential_share"] = json!(0.25 * f64::from(other));
    let divisors: Vec<u32> = (1..=memories).filter(|width| memories.is_multiple_of(*width)).collect();
    ftl["cluster_memories"] = json!(divisors[(number + other) as usize % divisors.len()]);
}

/// Every mapping cache, most with little memory.
fn map_caches() -> impl Strategy<Value = Value> {
    let kinds: Vec<&str> = MapCacheKind::ALL.iter().map(|kind| kind.name()).collect();
    (proptest::sample::select(kinds), 0..3_usize, any::<bool>(), 0..18_usize).prop_map(
        |(kind, size, coalesce, shape)| {
            if kind == "ideal" {
                return json!({ "kind": kind });
            }
            let bytes = [4096, 5000, 16_000][size];
            let mut map_cache = json!({ "kind": kind, "bytes": bytes, "flush_coalesce": coalesce });
            match kind {
                "dftl" | "tpftl" => map_cache["bytes"] = json!(([40, 100, 1000][size])),
                "cftl" => {
                    map_cache["bytes"] = json!(LARGE + ([0, 120, 2000][size]));
                    map_cache["cftl_block_pages"] = json!(([2, 8, 64][shape % 3]));
                }
                "leaftl" => {
                    map_cache["leaftl_gamma"] = json!(([0, 1, 8][shape % 3]));
                    map_cache["leaftl_batch_pages"] = json!(([1, 30, 2048][shape / 3 % 3]));
                    map_cache["leaftl_compaction_writes"] = json!(([10, 1000][shape / 9]));
                }
                _ => {}
            }
            map_cache
        },
    )
}

/// Enough for every mapping cache, on any of the drives.
const LARGE: u64 = 1 << 20;

/// Take out the keys of schemes that were not chosen.
fn keep_own_keys(value: &mut Value) {
    for axis in axes().iter().filter(|axis| !axis.section.is_empty()) {
        let Some(section) = value.get_mut(axis.section).and_then(Value::as_object_mut) else { continue };
        let name = section.get(axis.key).and_then(Value::as_str).unwrap_or(axis.schemes[0].name);
        let scheme = axis.scheme(name).expect("a scheme of the list");
        section.retain(|key, _| !axis.is_key(key) || scheme.has(key));
    }
}

/// Requests of every kind, size and alignment: most small, some over many pages, some without effect.
pub fn requests() -> impl Strategy<Value = Vec<Request>> {
    requests_of(1..250)
}

/// As [`requests`], as many as `count` says.
pub fn requests_of(count: impl Into<SizeRange>) -> impl Strategy<Value = Vec<Request>> {
    let count = count.into();
    let one = (0..10_u32, any::<u64>(), prop_oneof![4 => 1..20_u32, 1 => 20..100_u32], 0..3_u16, 0..400_u64);
    // Where everything is written, or much is only read and trimmed.
    let written = proptest::sample::select(vec![900, 200]);
    (proptest::collection::vec(one, count), written).prop_map(|(rows, written)| {
        let mut arrival_ns = 0;
        let request = |(kind, lba, sectors, stream, gap)| {
            let op = match kind {
                0..=4 => Op::Write,
                5..=7 => Op::Read,
                8 => Op::Trim,
                _ => Op::Flush,
            };
            arrival_ns += gap * 1000;
            // A few regions, so that writes meet each other.
            let lba = lba % if op == Op::Write { written } else { 900 };
            Request { arrival_ns, lba, sectors, op, stream, fua: false }
        };
        rows.into_iter().map(request).collect()
    })
}

/// Whether there is time for more than what `make test` tries.
pub fn is_long() -> bool {
    std::env::var_os("FTLAB_LONG").is_some()
}

/// This many cases, and a hundred times as many where there is time, unless `PROPTEST_CASES` asks for others.
pub fn cases(usual: u32) -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = if is_long() { 100 * usual } else { usual };
    }
    // A few in a hundred drives have keys that do not go together: many cases may have more than a fixed number of those.
    config.max_global_rejects = config.max_global_rejects.max(config.cases);
    config
}
