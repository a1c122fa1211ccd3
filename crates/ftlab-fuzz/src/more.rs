//! Laws of more: more dies, and more spare space, on drives that are made for them.

use ftlab_core::config::DeviceConfig;
use ftlab_core::device::simulate;
use ftlab_core::ftl::page::GcCounts;
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::run::{RunControl, RunOptions};
use ftlab_core::schemes::axes;
use serde_json::{Value, json};

use crate::drive::Dice;
use crate::witness::{Log, hold};

/// Hold a drive of case `seed` against one of these laws.
///
/// # Errors
/// Where it does not hold.
pub fn check(seed: u64) -> Result<(), String> {
    let mut dice = Dice::new(seed, "more");
    match dice.below(4) {
        0 => spare(&mut dice, seed).map_err(|text| format!("spare space: {text}")),
        _ => dies(&mut dice, seed).map_err(|text| format!("more dies: {text}")),
    }
}

fn device(value: &Value) -> Result<DeviceConfig, String> {
    let config: DeviceConfig =
        serde_json::from_value(value.clone()).map_err(|error| format!("{error} in {value}"))?;
    config.validate().map_err(|error| format!("{error} in {value}"))?;
    Ok(config)
}

/// Reads never end later on a drive with twice as many dies.
///
/// This is no law of all drives: a shared bus grants by order of asking, and one request that comes earlier may hold up
/// another. It is one where dies share nothing, so each channel has one die or the bus takes no time. Striping must be
/// static, and twice as many dies divide what each die had: pages by their number modulo dies. A page must take as long
/// on either drive, so cells have one class of pages.
///
/// Then each request ends no later than before. By induction over requests in their order: a request is handed over
/// when enough of those before it have ended, which is no later. Each of its pages waits for fewer others on its die,
/// which end no later. A die serves in order.
fn dies(dice: &mut Dice, seed: u64) -> Result<(), String> {
    let shares_bus = dice.once_in(2);
    let independent = shares_bus && dice.once_in(2);
    let mut more = |most: u64| if shares_bus { 1 + dice.below(most) } else { 1 };
    let (ways, dies, planes) = (more(2), more(2), if independent { more(3) } else { 1 });
    let (channels, pages) = (1 + dice.below(4), dice.pick(&[4, 8]));
    let lanes = channels * ways * dies * planes;
    let bus = if shares_bus { 0.0 } else { dice.pick(&[0.0, 40.0, 333.0]) };
    let command = if shares_bus { 0.0 } else { dice.pick(&[0.0, 0.5]) };
    let host = if dice.once_in(2) {
        json!({ "arrival": "closed", "queue_depth": 1 + dice.below(32) })
    } else {
        json!({ "outstanding": dice.pick(&[0, 1, 5, 16]) })
    };
    let units = lanes * 10 * pages - dice.below(lanes * pages);
    let mut value = json!({
        "geometry": {
            "channels": channels, "ways": ways, "dies": dies, "planes": planes, "blocks_per_plane": 20,
            "pages_per_block": pages, "page_bytes": 4096,
        },
        "timing": {
            "read_us": dice.pick(&[0, 25, 60]), "command_us": command, "bus_mb_per_s": bus, "independent_planes": independent,
        },
        "ftl": { "logical_pages": units, "striping": "static" },
        "host": host,
        "precondition": { "kind": "fill" },
    });
    let mut arrival_ns = 0;
    let gap = dice.pick(&[0, 1000, 20_000]);
    let most = dice.pick(&[8, 8, 40]);
    let requests: Vec<Request> = (0..60)
        .map(|_| {
            arrival_ns += dice.below(3) * gap;
            let sectors = 1 + dice.below(most.min(units * 8));
            let lba = dice.below(units * 8 - sectors + 1);
            Request { arrival_ns, lba, sectors: sectors as u32, op: Op::Read, stream: 0, fua: false }
        })
        .collect();
    let event_by_event = dice.once_in(2);
    let few = ends(&value, &requests, event_by_event, seed)?;
    let mut doubled = vec!["channels"];
    if shares_bus {
        doubled.extend(["ways", "dies"]);
        doubled.extend(independent.then_some("planes"));
    }
    let doubled = dice.pick(&doubled);
    value["geometry"][doubled] = json!(value["geometry"][doubled].as_u64().unwrap_or(1) * 2);
    let many = ends(&value, &requests, event_by_event, seed)?;
    for (index, (few, many)) in few.iter().zip(&many).enumerate() {
        hold!(
            many <= few,
            "request {index} ends at {many} ps, not at {few} ps, with twice the {doubled} of {value}"
        );
    }
    Ok(())
}

/// When each request ends.
fn ends(value: &Value, requests: &[Request], event_by_event: bool, seed: u64) -> Result<Vec<u64>, String> {
    let options = RunOptions { seed, event_by_event, ..RunOptions::default() };
    let (mut log, source) = (Log::default(), VecSource::new(requests.to_vec()));
    let outcome = simulate(&device(value)?, &source, &options, &RunControl::default(), &mut log)
        .map_err(|error| error.to_string())?;
    if let Some(error) = outcome.error {
        return Err(error.to_string());
    }
    log.requests.sort_unstable_by_key(|record| record.index);
    Ok(log.requests.iter().map(|record| record.end.0).collect())
}

/// Collection copies less where there is more spare space.
///
/// Not for every workload: which block is emptied decides what comes next, and one more page may lead to worse victims. It
/// is a law of the mean for uniform writes, where write amplification falls with spare space, whatever the policy. So the
/// step is large (a quarter of the logical space), the writes are three times the space, and a few blocks of copies are
/// left to chance.
///
/// Greedy collection has a bound in each run, however it is written. The emptiest of the full blocks of a plane has no
/// more live pages than they have on average. Full are all but the free and the open ones. The plane has its share of the
/// logical pages.
fn spare(dice: &mut Dice, seed: u64) -> Result<(), String> {
    let (planes, blocks, pages) = (1 + dice.below(2), 16 + dice.below(24), dice.pick(&[8_u64, 16, 32]));
    let axis = axes().iter().find(|axis| (axis.section, axis.key) == ("ftl", "gc"));
    let names: Vec<_> = axis.iter().flat_map(|axis| axis.schemes.iter().map(|scheme| scheme.name)).collect();
    let mut value = json!({
        "geometry": {
            "channels": 1, "ways": 1, "planes": planes, "blocks_per_plane": blocks, "pages_per_block": pages,
            "page_bytes": 4096,
        },
        "ftl": { "gc": dice.pick(&names), "gc_open_block": dice.pick(&["separate", "shared"]) },
        "precondition": { "kind": "fill" },
    });
    if dice.once_in(3) {
        value["ftl"]["gc"] = json!("greedy");
    }
    // Free are at most as many as collection makes, and open one for the host and one for copies.
    let full_blocks = blocks - u64::from(FREE) - 2;
    let units = planes * full_blocks * pages * (60 + dice.below(35)) / 100;
    let writes: Vec<u64> = (0..3 * units).map(|_| dice.below(1 << 40)).collect();
    let mut collected = |units: u64| {
        value["ftl"]["logical_pages"] = json!(units);
        let gc = collections(&value, writes.iter().map(|number| number % units), seed)?;
        let live = units.div_ceil(planes) / full_blocks;
        let is_greedy = value["ftl"]["gc"] == "greedy";
        hold!(
            !is_greedy || gc.pages_copied <= gc.collections * live,
            "the emptiest block has at most {live} live pages, but {gc:?}: {value}"
        );
        Ok(gc.pages_copied)
    };
    let (full, spacious) = (collected(units)?, collected(units * 3 / 4)?);
    hold!(
        spacious <= full + 4 * planes * pages,
        "{spacious} pages were copied with three quarters of the logical space, and {full} with all of it: {value}"
    );
    Ok(())
}

/// Free blocks of a plane at which collection stops, by default.
const FREE: u32 = 3;

/// What collection does when these units are written one by one.
fn collections(value: &Value, units: impl Iterator<Item = u64>, seed: u64) -> Result<GcCounts, String> {
    let write =
        |unit| Request { arrival_ns: 0, lba: unit * 8, sectors: 8, op: Op::Write, stream: 0, fua: false };
    let source = VecSource::new(units.map(write).collect());
    let options = RunOptions { seed, timing: false, ..RunOptions::default() };
    let outcome = simulate(&device(value)?, &source, &options, &RunControl::default(), &mut ())
        .map_err(|error| error.to_string())?;
    match outcome.error {
        Some(error) => Err(error.to_string()),
        None => outcome.summary.parts.get().ok_or_else(|| "no collections are told".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bound_of_greedy_collection_knows_when_it_stops() {
        let value = json!({
            "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 9, "pages_per_block": 4, "page_bytes": 4096 },
            "ftl": { "logical_pages": 20 },
        });
        assert_eq!(device(&value).map(|config| config.ftl.gc_high()), Ok(FREE));
    }
}
