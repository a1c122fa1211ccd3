//! Times, host and past of a random drive: what a drive without a clock does not need.
//!
//! They have dice of their own, so that the drive of a case stays what it was.

use ftlab_core::config::DeviceConfig;
use serde_json::{Value, json};

use crate::drive::Dice;

/// Units that aging writes at most after the fill: a full drive moves many for each.
const MOST_AGED: f64 = 1500.0;

/// The drive of case `seed` with times, a host and a past, which validation accepts.
pub fn dressed(config: DeviceConfig, seed: u64) -> DeviceConfig {
    let mut dice = Dice::new(seed, "clock");
    let Ok(plain) = serde_json::to_value(&config) else { return config };
    for _ in 0..50 {
        let mut value = plain.clone();
        draw(&mut dice, &mut value, config.logical_pages() as f64);
        if let Ok(config) = serde_json::from_value::<DeviceConfig>(value)
            && config.validate().is_ok()
        {
            return config;
        }
    }
    config
}

/// A rate at which a byte takes this many picoseconds; 0: no time at all.
pub fn rate(ps_per_byte: f64) -> f64 {
    if ps_per_byte == 0.0 { 0.0 } else { 1e6 / ps_per_byte }
}

/// Some rates give whole picoseconds a byte, as laws of exact times need, and some do not.
fn some_rate(dice: &mut Dice) -> f64 {
    match dice.below(8) {
        0 | 1 => 0.0,
        2 => dice.pick(&[333.0, 166.7, 1200.0, 41.3]),
        _ => rate(dice.pick(&[100.0, 833.0, 2500.0, 3003.0, 10_000.0, 25_000.0])),
    }
}

fn draw(dice: &mut Dice, value: &mut Value, units: f64) {
    if dice.once_in(5) {
        value["cell"] = json!({ "kind": "qlc", "page_order": "adjacent" });
    }
    // Parts that take no time are a case of their own: not everything holds for commands that take none at all.
    let least = if dice.once_in(5) { 0.0 } else { 1.5 };
    let classes = |dice: &mut Dice, of: &[f64]| {
        let of = &of.iter().map(|us: &f64| us.max(least)).collect::<Vec<_>>();
        if dice.once_in(3) {
            return json!(dice.pick(of));
        }
        json!({ "lsb": dice.pick(of), "csb": dice.pick(of), "msb": dice.pick(of), "tsb": dice.pick(of) })
    };
    let timing = &mut value["timing"];
    timing["read_us"] = classes(dice, &[0.0, 5.0, 20.0, 25.0, 25.0, 45.25]);
    timing["program_us"] = classes(dice, &[0.0, 50.0, 100.0, 200.0, 200.0, 700.125]);
    timing["erase_us"] = json!(dice.pick(&[least, 3.0, 1000.0, 1500.0]));
    timing["command_us"] = json!(dice.pick(&[0.0, 0.0, 0.1, 1.0, 7.0]));
    timing["bus_mb_per_s"] = json!(some_rate(dice));
    if dice.once_in(6) {
        timing["transfer_spare"] = json!(true);
        let share = value["geometry"]["page_bytes"].as_u64().unwrap_or(0) / 32;
        value["geometry"]["spare_bytes"] = json!(dice.pick(&[share, share, 7]));
    }
    value["host"] = host(dice);
    value["precondition"] = past(dice, units);
}

fn host(dice: &mut Dice) -> Value {
    let mut host = json!({
        "link_mb_per_s": some_rate(dice),
        "link_duplex": dice.pick(&["full", "half"]),
        "out_of_range": dice.pick(&["wrap", "clip", "error"]),
    });
    if dice.once_in(2) {
        host["arrival"] = json!("closed");
        host["queue_depth"] = json!(dice.pick(&[1, 1, 2, 4, 8, 32]));
    } else {
        host["arrival"] = json!("open");
        host["outstanding"] = json!(dice.pick(&[0, 0, 1, 4, 16]));
        host["time_scale"] = json!(dice.pick(&[1.0, 1.0, 1.0, 0.0, 0.25, 0.5, 3.0]));
        host["unsorted_times"] = json!(dice.pick(&["error", "clamp"]));
        host["stop"] = json!(dice.pick(&["drained", "drained", "drained", "last_arrival"]));
    }
    host
}

fn past(dice: &mut Dice, units: f64) -> Value {
    let kind = dice.pick(&["none", "none", "fill", "free_blocks", "steady"]);
    let mut past = json!({ "kind": kind });
    if kind != "none" {
        past["layout"] = json!(dice.pick(&["written", "written", "blocks"]));
    }
    if ["free_blocks", "steady"].contains(&kind) {
        past["pattern"] = json!(dice.pick(&["uniform", "sequential", "workload"]));
        past["max_drive_writes"] = json!(1.0 + (MOST_AGED / units).min(2.0));
    }
    if kind == "steady" {
        past["tolerance"] = json!(dice.pick(&[0.01, 0.2]));
    }
    past
}
