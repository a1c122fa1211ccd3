//! Random drives that validation accepts, as full as it allows.

use ftlab_core::config::{AllocationOrder, DeviceConfig, GcPace};
use ftlab_core::ftl::kinds::FtlKind;
use ftlab_core::rng::Rng;
use ftlab_core::schemes::axes;
use serde_json::{Map, Value, json};

use crate::clock;

/// Most physical mapping units of a drive: what is tried must be tried often. One in [`LARGE`] has up to the larger number.
const MOST_UNITS: [u64; 2] = [1_500, 12_000];
const LARGE: u64 = 16;

/// One in so many drives maps blocks.
const BLOCK_MAPPED: u64 = 3;

/// Draws of a random generator.
pub struct Dice(Rng);

impl Dice {
    /// The dice of case `seed`.
    pub fn new(seed: u64, what: &str) -> Self {
        Self(Rng::new(seed, what))
    }
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }
    /// True once in `times`.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.0.below(times) == 0
    }
    /// One of several.
    pub fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len() as u64) as usize].clone()
    }
}

/// The drive of case `seed`, which validation accepts. Most have the largest logical size that it accepts.
pub fn random(seed: u64) -> DeviceConfig {
    let mut dice = Dice::new(seed, "drive");
    let draw = if dice.once_in(BLOCK_MAPPED) { draw_block_mapped } else { draw_page_mapped };
    loop {
        let value = draw(&mut dice);
        if let Some(config) = accepted(&mut dice, value) {
            return clock::dressed(paced(config, seed), seed);
        }
    }
}

/// Half of the drives that can spread collection over writes do. Dice of their own: the drive of a case stays what it was.
fn paced(config: DeviceConfig, seed: u64) -> DeviceConfig {
    let mut even = config.clone();
    even.ftl.gc_pace = GcPace::Even;
    let can = even.ftl.kind.kind() == FtlKind::Page && even.validate().is_ok();
    if can && Dice::new(seed, "pace").once_in(2) { even } else { config }
}

/// The drive of a draw; `None` when it is none.
fn accepted(dice: &mut Dice, mut value: Value) -> Option<DeviceConfig> {
    let physical = physical_units(&value);
    if physical > MOST_UNITS[usize::from(dice.once_in(LARGE))] {
        return None;
    }
    let with = |value: &mut Value, logical: u64| {
        value["ftl"]["logical_pages"] = json!(logical);
        let config: DeviceConfig = serde_json::from_value(value.clone()).ok()?;
        config.validate().is_ok().then_some(config)
    };
    let (mut most, mut too_many) = (1, physical);
    with(&mut value, most)?;
    while too_many - most > 1 {
        let middle = u64::midpoint(most, too_many);
        if with(&mut value, middle).is_some() {
            most = middle;
        } else {
            too_many = middle;
        }
    }
    let logical = if dice.once_in(4) { 1 + dice.below(most) } else { most };
    with(&mut value, logical)
}

fn physical_units(value: &Value) -> u64 {
    let geometry = |key: &str| value["geometry"][key].as_u64().unwrap_or(1);
    ["channels", "ways", "dies", "planes", "blocks_per_plane", "pages_per_block"]
        .map(geometry)
        .iter()
        .product::<u64>()
        * (geometry("page_bytes") / geometry("mapping_unit_bytes"))
}

/// Cells, and how many bits they have.
fn cell(dice: &mut Dice) -> (Value, u64) {
    let (kind, order, bits) = dice.pick(&[
        ("slc", "", 1),
        ("slc", "", 1),
        ("mlc", "adjacent", 2),
        ("mlc", "tiles", 2),
        ("mlc", "shadow", 2),
        ("mlc", "shadow_pairs", 2),
        ("tlc", "adjacent", 3),
        ("tlc", "shadow", 3),
        ("tlc", "tlc_pairs", 3),
    ]);
    let value =
        if bits == 1 { json!({ "kind": kind }) } else { json!({ "kind": kind, "page_order": order }) };
    (value, bits)
}

/// A drive that maps pages.
fn draw_page_mapped(dice: &mut Dice) -> Value {
    let order = dice.pick(&AllocationOrder::all().iter().map(ToString::to_string).collect::<Vec<_>>());
    let slots = 1 << dice.pick(&[0, 0, 0, 1, 2, 4]);
    let unit = 512 << dice.below(4);
    let (cell, bits) = cell(dice);
    let low = dice.pick(&[1, 1, 1, 2, 3]);
    let mut value = json!({
        "geometry": {
            "channels": 1 + dice.below(3), "ways": dice.pick(&[1, 1, 2, 3]), "dies": 1 + dice.below(2), "planes": 1 + dice.below(4),
            "blocks_per_plane": 3 + dice.below(30), "pages_per_block": dice.pick(&[1, 2, 3, 4, 6, 8, 16, 64]),
            "page_bytes": unit * slots, "mapping_unit_bytes": unit,
        },
        "cell": cell,
        "timing": {
            "read_us": { "lsb": 20, "csb": 30, "msb": 45 }, "program_us": { "lsb": 100, "csb": 300, "msb": 700 },
            "erase_us": 1000, "bus_mb_per_s": 333, "copyback": dice.once_in(2), "independent_planes": dice.once_in(2),
        },
        "ftl": {
            "gc_low_free_blocks": low, "gc_high_free_blocks": if dice.once_in(2) { 0 } else { low + 1 + dice.below(3) },
            "gc_open_block": dice.pick(&["separate", "shared"]), "gc_when": dice.pick(&["on_write", "on_access"]),
            "allocation": order, "summary_page": dice.once_in(4),
        },
        "map_cache": {},
        "host": { "out_of_range": "wrap" },
    });
    if bits > 1 && dice.once_in(2) {
        value["lsb_backup"] = json!({
            "kind": "copy", "read": dice.once_in(2), "area": dice.pick(&["pairs", "pairs", "slc"]),
            "exempt_same_request": !dice.once_in(4),
        });
    }
    for axis in axes() {
        if ["ftl", "map_cache"].contains(&axis.section) {
            let names: Vec<_> = axis.schemes.iter().map(|scheme| scheme.name).collect();
            value[axis.section][axis.key] = json!(dice.pick(&names));
        }
    }
    value["ftl"]["kind"] = json!("page");
    if dice.once_in(2) {
        value["map_cache"]["kind"] = json!("ideal");
    }
    let keys = own_keys(dice);
    put_own(dice, &mut value, keys);
    let pages = value["geometry"]["pages_per_block"].as_u64().unwrap_or(1);
    put_memories(dice, &mut value, unit * slots, pages);
    if dice.once_in(3) {
        value["power"] =
            json!({ "atomic": dice.pick(&["unit", "request"]), "trim": dice.pick(&["volatile", "flush"]) });
    }
    value
}

/// A drive that maps blocks, with a few small ones for each memory: then merges and cuts meet in every few requests.
fn draw_block_mapped(dice: &mut Dice) -> Value {
    let order = dice.pick(&AllocationOrder::all().iter().map(ToString::to_string).collect::<Vec<_>>());
    let (cell, bits) = cell(dice);
    let (channels, ways, dies, planes) = dice.pick(&[
        (1, 1, 1, 1),
        (2, 1, 1, 1),
        (1, 1, 1, 2),
        (1, 3, 1, 1),
        (4, 1, 1, 1),
        (2, 2, 1, 1),
        (2, 1, 1, 2),
        (1, 1, 2, 2),
    ]);
    let memories: u64 = channels * ways * dies * planes;
    let page_bytes = dice.pick(&[512, 1024, 4096]);
    let mut pages: u64 = dice.pick(&[2, 3, 4, 5, 8]) * bits;
    let mut blocks = 4 + dice.below(7);
    let backup = bits > 1 && dice.once_in(2);
    if backup {
        (pages, blocks) = (4 * bits, blocks + 3);
    }
    let of_memories: Vec<u64> = (1..=memories).filter(|width| memories.is_multiple_of(*width)).collect();
    let kinds: Vec<_> = FtlKind::ALL.iter().map(|kind| kind.name()).filter(|kind| *kind != "page").collect();
    let mut value = json!({
        "geometry": {
            "channels": channels, "ways": ways, "dies": dies, "planes": planes, "blocks_per_plane": blocks,
            "pages_per_block": pages, "page_bytes": page_bytes, "mapping_unit_bytes": page_bytes,
        },
        "cell": cell,
        "timing": { "copyback": dice.once_in(2), "independent_planes": dice.once_in(3) },
        "ftl": { "kind": dice.pick(&kinds), "allocation": order },
        "map_cache": {},
        "host": { "out_of_range": "wrap" },
        "power": { "trim": dice.pick(&["volatile", "flush"]) },
    });
    if backup {
        value["lsb_backup"] = json!({
            "kind": "copy", "read": dice.once_in(2), "area": dice.pick(&["pairs", "pairs", "slc"]),
            "exempt_same_request": !dice.once_in(4),
        });
    }
    let bytes = [512, page_bytes, 2 * page_bytes].map(|bytes| json!(bytes)).to_vec();
    put_own(
        dice,
        &mut value,
        vec![
            (
                "ftl",
                "log_blocks",
                [1, 2, memories, 2 * memories, 3 * memories].map(|logs| json!(logs)).to_vec(),
            ),
            ("ftl", "allocator", vec![json!("dynamic")]),
            ("ftl", "log_always", vec![json!(true)]),
            ("ftl", "partial_row", vec![json!("fill")]),
            ("ftl", "cluster_memories", of_memories.iter().map(|width| json!(width)).collect()),
            ("ftl", "sequential_bytes", bytes),
            ("ftl", "sequential_share", vec![json!(0.25), json!(0.5), json!(0.75)]),
            ("ftl", "free_block", vec![json!("fifo"), json!("next_fit")]),
            ("ftl", "wear_leveling", vec![json!("none"), json!("dynamic")]),
        ],
    );
    put_memories(dice, &mut value, page_bytes, pages);
    value
}

/// Put in most keys of a list that the chosen schemes have.
fn put_own(dice: &mut Dice, value: &mut Value, keys: Vec<(&'static str, &'static str, Vec<Value>)>) {
    for (section, key, choices) in keys {
        let object: &mut Map<String, Value> = value[section].as_object_mut().expect("sections are tables");
        let is_taken = axes().iter().filter(|axis| axis.section == section && axis.is_key(key)).any(|axis| {
            let chosen = object.get(axis.key).and_then(Value::as_str).unwrap_or(axis.schemes[0].name);
            axis.scheme(chosen).is_some_and(|scheme| scheme.has(key))
        });
        if is_taken && !dice.once_in(3) {
            object.insert(key.into(), dice.pick(&choices));
        }
    }
}

/// A write buffer and a non-volatile cache, on some drives.
fn put_memories(dice: &mut Dice, value: &mut Value, page_bytes: u64, block_pages: u64) {
    let kinds = |section: &str, key: &str| -> Vec<&'static str> {
        let axes = axes();
        let axis = axes.iter().find(|axis| (axis.section, axis.key) == (section, key));
        axis.map_or_else(Vec::new, |axis| axis.schemes.iter().map(|scheme| scheme.name).skip(1).collect())
    };
    if dice.once_in(4) {
        let mut buffer = json!({
            "kind": dice.pick(&kinds("buffer", "kind")), "bytes": page_bytes * dice.pick(&[1, 2, 3, 8, 20, 64, block_pages]),
            "write": dice.pick(&["back", "back", "through"]), "rate": dice.pick(&[json!("one"), json!("cave"), json!(3)]),
            "rate_unit": dice.pick(&["victims", "victims", "pages"]), "select": dice.pick(&["order", "distinct"]),
            "wait": dice.pick(&["event", "frame"]), "access_us": dice.below(3), "mb_per_s": dice.pick(&[0, 400]),
            "drain_at_end": !dice.once_in(4), "bypass_bytes": dice.pick(&[0, 0, 4096]),
            "prefetch_pages": dice.pick(&[0, 0, 2]),
        });
        if dice.once_in(4) {
            buffer["hiding"] = json!(dice.pick(&[0.0, 1.0]));
        }
        value["buffer"] = buffer;
    }
    if dice.once_in(6) {
        value["nvm"] = json!({
            "kind": dice.pick(&kinds("nvm", "kind")), "bytes": page_bytes * dice.pick(&[1, 3, 10, 40]),
            "read_us": dice.below(3), "write_us": dice.below(4), "mb_per_s": dice.pick(&[0, 800]),
        });
        if value["nvm"]["kind"] == "cdm" && dice.once_in(3) {
            value["nvm"]["place"] = json!("host");
            value["host"]["link_mb_per_s"] = json!(2000);
        }
    }
}

/// Values for keys that only some schemes have.
fn own_keys(dice: &mut Dice) -> Vec<(&'static str, &'static str, Vec<Value>)> {
    let bytes =
        [16, 40, 100, 275, 600, 2000, 5000, 20_000].map(|bytes| json!(bytes + dice.below(8))).to_vec();
    vec![
        ("ftl", "gc_choices", vec![json!(1), json!(2), json!(5)]),
        ("ftl", "gc_window", vec![json!(1), json!(4), json!(1000)]),
        ("ftl", "gc_tie", vec![json!("lowest"), json!("highest")]),
        ("ftl", "striping", vec![json!("static"), json!("dynamic")]),
        ("ftl", "plane_choice", vec![json!("ordered"), json!("most_free")]),
        ("ftl", "group_blocks", vec![json!(1), json!(2), json!(7)]),
        ("ftl", "small_request_bytes", vec![json!(0), json!(2048), json!(1_u64 << 40)]),
        ("ftl", "streams", vec![json!(1), json!(2), json!(3)]),
        ("ftl", "free_block", vec![json!("fifo"), json!("next_fit")]),
        ("ftl", "wear_leveling_threshold", vec![json!(1), json!(2), json!(5)]),
        ("map_cache", "bytes", bytes),
        ("map_cache", "window_bytes", vec![json!(16), json!(64), json!(256)]),
        ("map_cache", "charge_headers", vec![json!(false), json!(true)]),
        ("map_cache", "flush_coalesce", vec![json!(false), json!(true)]),
        ("map_cache", "cftl_block_pages", vec![json!(2), json!(8), json!(64)]),
        ("map_cache", "leaftl_gamma", vec![json!(0), json!(1), json!(8)]),
        ("map_cache", "leaftl_batch_pages", vec![json!(1), json!(30), json!(2048)]),
        ("map_cache", "leaftl_compaction_writes", vec![json!(10), json!(1000)]),
        ("map_cache", "sparse_fraction", vec![json!(0.0), json!(0.1)]),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Whatever can be chosen is drawn: a drive that validation refuses would be missing without a word.
    #[test]
    #[ignore = "a long test: make test-long"]
    fn every_scheme_is_drawn() {
        let configs: Vec<Value> = (1..600).map(|seed| serde_json::to_value(random(seed)).unwrap()).collect();
        let mut missing = Vec::new();
        // All of them are drives.
        for axis in axes().iter().filter(|axis| axis.key != "model") {
            let chosen = |config: &Value| config[axis.section][axis.key].as_str().map(str::to_owned);
            let drawn: BTreeSet<String> = configs.iter().filter_map(chosen).collect();
            let names = axis.schemes.iter().map(|scheme| scheme.name);
            missing.extend(
                names.filter(|name| !drawn.contains(*name)).map(|name| (axis.section, axis.key, name)),
            );
        }
        assert_eq!(missing, []);
    }
}
