//! What the time of requests consists of: by hand, and on random drives.

use ftlab_core::buffer::BufferKind;
use ftlab_core::cause::{Cause, Command};
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunControl, RunOptions, simulate};
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::metrics::explain::{Batch, Explanations};
use ftlab_core::metrics::parts::{Part, Parts};
use ftlab_core::metrics::{CommandRecord, Observer, RequestRecord};
use ftlab_core::rng::Rng;
use ftlab_core::time::Time;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::common::drives::{cases, drives, requests};
use crate::common::{device, merged, of_chosen, request, run_with};

#[derive(Default)]
struct Explained {
    requests: Vec<RequestRecord>,
    parts: Vec<Parts>,
    commands: Vec<CommandRecord>,
    /// It hears of no commands, and of requests by itself after the run, from these.
    apart: bool,
    told: Option<Box<Explanations>>,
    batches: Vec<Batch>,
}

impl Observer for Explained {
    fn wants_requests(&self) -> bool {
        true
    }
    fn wants_commands(&self) -> bool {
        !self.apart
    }
    fn wants_parts(&self) -> bool {
        true
    }
    fn take_over(&mut self, explanations: Box<Explanations>) -> Option<Box<Explanations>> {
        if self.apart {
            self.told = Some(explanations);
            return None;
        }
        Some(explanations)
    }
    fn on_told(&mut self, batch: &mut Batch) {
        self.batches.push(std::mem::replace(batch, Batch::with_room()));
    }
    fn on_told_all(&mut self) {
        assert!(self.requests.is_empty() && self.parts.is_empty());
        let mut explanations = self.told.take().unwrap();
        for mut batch in std::mem::take(&mut self.batches) {
            explanations.hear(&mut batch, self);
        }
    }
    fn on_parts(&mut self, parts: &Parts) {
        assert_eq!(self.parts.len(), self.requests.len(), "parts come before their request");
        self.parts.push(*parts);
    }
    fn on_request(&mut self, record: &RequestRecord) {
        self.requests.push(*record);
    }
    fn on_command(&mut self, record: &CommandRecord) {
        self.commands.push(*record);
    }
}

fn explained(config: &DeviceConfig, requests: &[Request]) -> Explained {
    explained_by(Explained::default(), config, requests)
}

/// The same, found out when all is over.
fn explained_apart(config: &DeviceConfig, requests: &[Request]) -> Explained {
    explained_by(Explained { apart: true, ..Explained::default() }, config, requests)
}

fn explained_by(mut explained: Explained, config: &DeviceConfig, requests: &[Request]) -> Explained {
    let (source, options) = (VecSource::new(requests.to_vec()), RunOptions::default());
    simulate(config, &source, &options, &RunControl::default(), &mut explained).unwrap();
    explained
}

#[test]
fn parts_are_the_same_when_they_are_found_out_later() {
    let changes = json!({ "geometry": { "channels": 2, "ways": 2 }, "ftl": { "striping": "dynamic" },
        "host": { "link_mb_per_s": 500, "overhead_us": 1 } });
    let mut rng = Rng::new(3, "apart");
    let requests: Vec<Request> = (0..30_000)
        .map(|at| {
            let op = if rng.below(2) == 0 { Op::Read } else { Op::Write };
            request(at as f64 * 300.0, op, rng.below(600) * 4, 4 + rng.below(12) as u32)
        })
        .collect();
    let (here, apart) =
        (explained(&drive(changes.clone()), &requests), explained_apart(&drive(changes), &requests));
    assert_eq!(here.requests.len(), requests.len());
    // Many times what is told at once.
    assert!(here.commands.len() > 50_000, "{} commands", here.commands.len());
    assert!(here.requests == apart.requests && here.parts == apart.parts);
}

/// Pages of 4 KiB that cross the bus in 10 us, are read in 50 and programmed in 200, on a drive that is full.
fn drive(changes: Value) -> DeviceConfig {
    let base = json!({
        "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 32, "pages_per_block": 8, "page_bytes": 4096 },
        "timing": { "read_us": 50, "program_us": 200, "erase_us": 1000, "bus_mb_per_s": 409.6, "command_us": 0,
            "copyback": false },
        "ftl": { "over_provisioning": 0.33, "striping": "static" },
        "precondition": { "kind": "fill" },
    });
    device(merged(base, changes))
}

/// The parts of each request in microseconds, in the order of the requests.
fn parts_of(config: &DeviceConfig, requests: &[Request]) -> Vec<Vec<(&'static str, f64)>> {
    let explained = explained(config, requests);
    assert_eq!(explained.requests.len(), requests.len());
    named(&explained)
}

fn named(explained: &Explained) -> Vec<Vec<(&'static str, f64)>> {
    let mut rows: Vec<_> =
        explained.requests.iter().map(|record| record.index).zip(&explained.parts).collect();
    rows.sort_by_key(|(index, _)| *index);
    let named = |parts: &Parts| {
        let all = Part::ALL.into_iter().map(|part| (part.name(), parts.get(part) as f64 / 1e6));
        all.filter(|(_, us)| *us > 0.0).collect()
    };
    rows.into_iter().map(|(_, parts)| named(parts)).collect()
}

fn page(us: f64, op: Op, page: u64) -> Request {
    request(us, op, page * 8, 8)
}

#[test]
fn a_read_behind_a_program() {
    let told = parts_of(&drive(json!({})), &[page(0.0, Op::Write, 0), page(30.0, Op::Read, 9)]);
    assert_eq!(told[0], [("service_program", 200.0), ("service_transfer", 10.0)]);
    assert_eq!(told[1], [("service_read", 50.0), ("service_transfer", 10.0), ("wait_program", 180.0)]);
}

#[test]
fn a_program_behind_a_read_and_pages_of_one_request() {
    let told = parts_of(&drive(json!({})), &[page(0.0, Op::Read, 9), request(20.0, Op::Read, 80, 16)]);
    assert_eq!(told[0], [("service_read", 50.0), ("service_transfer", 10.0)]);
    // The second page waits for the first one of its request.
    assert_eq!(told[1], [("service_read", 100.0), ("service_transfer", 20.0), ("wait_read", 40.0)]);
}

#[test]
fn the_rest_of_a_page_is_read_first() {
    let told = parts_of(&drive(json!({})), &[request(0.0, Op::Write, 8, 4)]);
    let whole = [("service_read", 50.0), ("service_program", 200.0), ("service_transfer", 15.0)];
    assert_eq!(told[0], whole);
    // Which die has the program makes no difference.
    let apart = drive(json!({ "geometry": { "channels": 2 }, "ftl": { "striping": "dynamic" } }));
    let told = parts_of(&apart, &[request(0.0, Op::Write, 8, 4)]);
    assert_eq!(told[0], whole);
}

/// What a request waited behind others, or behind a command that was held up.
fn behind(parts: &Parts) -> u64 {
    [Part::BehindRead, Part::BehindProgram, Part::Order].map(|part| parts.get(part)).into_iter().sum()
}

/// Of the last request: what it waited behind others in all, of that behind read-modify-writes, and where it waited longest,
/// in microseconds.
fn waits_of_last(config: &DeviceConfig, requests: &[Request]) -> (f64, f64, (u32, f64)) {
    let explained = explained(config, requests);
    let last = explained.requests.iter().position(|record| record.index + 1 == requests.len() as u64);
    let parts = &explained.parts[last.unwrap()];
    let us = |ps: u64| ps as f64 / 1e6;
    let (die, at_die) = parts.longest_wait();
    (us(behind(parts)), us(parts.behind_updates()), (die, us(at_die)))
}

#[test]
fn a_read_modify_write_is_told_from_other_programs() {
    let (one, read) = (drive(json!({})), page(30.0, Op::Read, 9));
    // A half page takes 55 us to be read and 210 to be programmed, a whole one is not read.
    let part = request(0.0, Op::Write, 8, 4);
    assert_eq!(waits_of_last(&one, &[part, read]), (235.0, 235.0, (0, 235.0)));
    assert_eq!(waits_of_last(&one, &[page(0.0, Op::Write, 1), read]), (180.0, 0.0, (0, 180.0)));
    // Both in a row, and while the program of the first one is under way.
    let both = [part, page(1.0, Op::Write, 5), page(100.0, Op::Read, 9)];
    assert_eq!(waits_of_last(&one, &both), (375.0, 165.0, (0, 375.0)));
    // A read alone is none, and neither is what the same request has done before.
    assert_eq!(waits_of_last(&one, &[page(0.0, Op::Read, 1), read]), (30.0, 0.0, (0, 30.0)));
    let own = request(0.0, Op::Write, 8, 12);
    assert_eq!(waits_of_last(&one, &[own]).1, 0.0);
    // Its program waits on a free die for its read on another one, which is busy until then.
    let apart = drive(json!({ "geometry": { "channels": 2 }, "ftl": { "striping": "dynamic" } }));
    let rows = [page(0.0, Op::Read, 1), part, page(1.0, Op::Read, 0)];
    // 60 us and 55 us of reads, and 210 us of its own.
    assert_eq!(waits_of_last(&apart, &rows), (324.0, 324.0, (0, 324.0)));
}

#[test]
fn the_die_of_the_longest_wait() {
    let four = drive(json!({ "geometry": { "channels": 2, "ways": 2 } }));
    let two = |at, us| [page(at, Op::Write, us), page(at, Op::Read, us + 4)];
    // Pages go over channels first: page 3 is on the last die.
    for (at, die) in [(0, 0), (1, 2), (2, 1), (3, 3)] {
        assert_eq!(waits_of_last(&four, &two(0.0, at)).2, (die, 210.0), "page {at}");
    }
    // A request waits where it ends last.
    let rows = [page(0.0, Op::Read, 4), page(0.0, Op::Write, 5), request(0.0, Op::Read, 64, 16)];
    assert_eq!(waits_of_last(&four, &rows).2, (2, 210.0));
    assert_eq!(waits_of_last(&four, &[page(0.0, Op::Read, 4)]).2.1, 0.0);
}

#[test]
fn host_queue_and_link() {
    let one = drive(json!({ "host": { "outstanding": 1, "overhead_us": 3 } }));
    let told = parts_of(&one, &[page(0.0, Op::Read, 0), page(20.0, Op::Read, 9)]);
    let alone = [("service_overhead", 3.0), ("service_read", 50.0), ("service_transfer", 10.0)];
    assert_eq!(told[0], alone);
    assert_eq!(told[1][0], ("wait_host_queue", 43.0));
    assert_eq!(told[1][1..], alone);
    let linked = drive(json!({ "geometry": { "channels": 2 }, "host": { "link_mb_per_s": 204.8 } }));
    // Two dies have both read at once; the link takes 20 us for each.
    let told = parts_of(&linked, &[page(0.0, Op::Read, 0), page(0.0, Op::Read, 1)]);
    assert_eq!(told[0], [("service_link", 20.0), ("service_read", 50.0), ("service_transfer", 10.0)]);
    assert_eq!(
        told[1],
        [("wait_link", 20.0), ("service_link", 20.0), ("service_read", 50.0), ("service_transfer", 10.0)]
    );
}

#[test]
fn the_bus_of_a_channel() {
    let told = parts_of(
        &drive(json!({ "geometry": { "ways": 2 } })),
        &[page(0.0, Op::Read, 0), page(0.0, Op::Read, 1)],
    );
    assert_eq!(told[0], [("service_read", 50.0), ("service_transfer", 10.0)]);
    assert_eq!(told[1], [("service_read", 50.0), ("service_transfer", 10.0), ("wait_bus", 10.0)]);
}

/// Two pages of a request are read on two dies. The second die holds its data until the first has sent its own, and who
/// waits for that die waits for the bus meanwhile.
#[test]
fn a_die_that_holds_data_waits_for_the_bus() {
    let config =
        drive(json!({ "geometry": { "channels": 1, "ways": 2, "blocks_per_plane": 32, "pages_per_block": 8,
        "page_bytes": 4096 }, "timing": { "bus_mb_per_s": 20.48 }, "host": { "arrival": "open" } }));
    let both = request(0.0, Op::Read, 0, 16);
    // In the array until 50 us, for the bus until 250, on it until 450.
    for (at, bus, read) in [(1.0, 200.0, 249.0), (100.0, 150.0, 200.0), (300.0, 0.0, 150.0)] {
        let parts = parts_of(&config, &[both, page(at, Op::Read, 3)]).pop().unwrap();
        let mut expected =
            vec![("service_read", 50.0), ("service_transfer", 200.0), ("wait_bus", bus), ("wait_read", read)];
        expected.retain(|(_, us)| *us > 0.0);
        assert_eq!(parts, expected, "{at}");
    }
}

/// A program on a free die waits for a read on another one, and a read behind it waits too.
#[test]
fn order_on_a_die() {
    let config = drive(json!({ "geometry": { "channels": 2 }, "ftl": { "striping": "dynamic" } }));
    // Unit 0 is on die 0, where the next page goes first; unit 1 is on die 1.
    let requests = [page(0.0, Op::Read, 1), request(0.0, Op::Write, 8, 4), page(1.0, Op::Read, 0)];
    let told = parts_of(&config, &requests);
    assert_eq!(told[1][..2], [("service_read", 50.0), ("service_program", 200.0)]);
    // The rest of unit 1 is read from 60 to 115 on die 1. The program then takes 210 on die 0, where the read comes last.
    let last =
        [("service_read", 50.0), ("service_transfer", 10.0), ("wait_program", 210.0), ("wait_order", 114.0)];
    assert_eq!(told[2], last);
}

/// Copies inside a plane and the erase after them are one event where nobody logs commands: the copies are counted when it begins.
#[test]
fn a_collection_that_has_begun_is_waited_for_from_then_on() {
    let config = drive(json!({ "timing": { "copyback": true }, "host": { "arrival": "open" } }));
    let mut requests = sparse(Op::Write, 300);
    let told = named(&explained_apart(&config, &requests));
    let collection =
        |parts: &Vec<(&str, f64)>| parts.iter().find(|(part, _)| *part == "wait_gc").map(|(_, us)| *us);
    // A single collection, of three copies.
    let at = told.iter().position(|parts| collection(parts) == Some(3.0 * 250.0 + 1000.0)).unwrap();
    requests.truncate(at + 1);
    // In the first copy, between two, in the last one, and in the erase.
    for since in [1.0, 500.0, 749.0, 1500.0] {
        let read = page(at as f64 * 20_000.0 + since, Op::Read, 9);
        let with_read: Vec<Request> = requests.iter().copied().chain([read]).collect();
        let expected = [
            ("service_read", 50.0),
            ("service_transfer", 10.0),
            ("wait_program", 210.0),
            ("wait_gc", 1750.0 - since),
        ];
        let explained = explained_apart(&config, &with_read);
        assert_eq!(named(&explained).pop().unwrap(), expected, "{since} us after the collection has begun");
    }
}

/// What a collection waits for is part of it, for those who wait for it.
#[test]
fn a_collection_that_waits_for_the_bus() {
    let config = drive(json!({ "geometry": { "ways": 2 }, "timing": { "bus_mb_per_s": 20.48 },
        "host": { "arrival": "open" } }));
    let is_copied =
        |of: &&CommandRecord| of.die == 0 && of.cause == Cause::Gc && of.command == Command::Program;
    let mut requests = sparse(Op::Write, 300);
    let copied = explained(&config, &requests).commands.iter().find(is_copied).unwrap().start;
    requests.truncate(1 + (copied.0 / 20_000_000_000) as usize);
    // The other die has data for the bus while the page that is copied crosses it, and comes first.
    let since = |us: u64| page((copied - Time::from_us(us as f64)).0 as f64 / 1e6, Op::Read, 30 + us % 2);
    requests.extend([since(151), since(60)]);
    let explained = explained(&config, &requests);
    let of_die = || explained.commands.iter().filter(|of| of.die == 0 && of.cause == Cause::Gc);
    assert_eq!(of_die().find(is_copied).unwrap().start, copied + Time::from_us(200.0));
    let left = of_die().next_back().unwrap().end.since(copied).0 as f64 / 1e6 + 60.0;
    let expected =
        [("service_read", 50.0), ("service_transfer", 200.0), ("wait_program", 400.0), ("wait_gc", left)];
    assert_eq!(named(&explained).pop().unwrap(), expected);
}

/// The same flash under log blocks.
fn block_mapped() -> Value {
    json!({
        "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 32, "pages_per_block": 8, "page_bytes": 4096 },
        "timing": { "read_us": 50, "program_us": 200, "erase_us": 1000, "bus_mb_per_s": 409.6, "copyback": false },
        "ftl": { "kind": "bast", "over_provisioning": 0.33 },
        "precondition": { "kind": "fill" },
    })
}

/// The part that is largest among the slowest of many requests.
fn blamed(config: &DeviceConfig, requests: &[Request]) -> &'static str {
    let told = parts_of(config, requests);
    let sum = |parts: &Vec<(&'static str, f64)>| parts.iter().map(|(_, us)| us).sum::<f64>();
    let slowest = told.iter().max_by(|a, b| sum(a).total_cmp(&sum(b))).unwrap();
    slowest.iter().max_by(|(_, a), (_, b)| a.total_cmp(b)).unwrap().0
}

/// Writes all over the drive, each when the one before has long ended.
fn sparse(op: Op, count: u64) -> Vec<Request> {
    (0..count).map(|at| page(at as f64 * 20_000.0, op, at * 61 % 160)).collect()
}

#[test]
fn planted_causes_are_named() {
    assert_eq!(blamed(&drive(json!({})), &sparse(Op::Write, 300)), "wait_gc");
    let cached = drive(json!({ "map_cache": { "kind": "dftl", "bytes": 256 } }));
    assert_eq!(blamed(&cached, &sparse(Op::Read, 100)), "wait_map");
    assert_eq!(blamed(&device(block_mapped()), &sparse(Op::Write, 300)), "wait_merge");
    let buffered = drive(json!({ "buffer": { "kind": "lru", "bytes": "64KiB", "access_us": 7 } }));
    assert_eq!(parts_of(&buffered, &[page(0.0, Op::Write, 0)])[0], [("service_buffer", 7.0)]);
    // A write waits for the frame of another one, which is written out for it.
    assert_eq!(blamed(&buffered, &sparse(Op::Write, 20)), "wait_cache_flush");
    // Somebody else's data move into a frame first, which is emptied before that.
    let single = json!({ "buffer": { "kind": "lru", "bytes": 4096, "access_us": 7 } });
    let others = [page(0.0, Op::Write, 0), page(10.0, Op::Write, 9), page(20.0, Op::Write, 9)];
    let told = parts_of(&drive(single), &others);
    assert_eq!(told[1], [("service_buffer", 7.0), ("wait_cache_flush", 210.0)]);
    assert_eq!(told[2], [("service_buffer", 7.0), ("wait_buffer", 7.0), ("wait_cache_flush", 200.0)]);
    // A burst: reads wait for reads.
    let burst: Vec<Request> = (0..40).map(|at| page(0.0, Op::Read, at)).collect();
    assert_eq!(blamed(&drive(json!({})), &burst), "wait_read");
}

/// Memory beside flash moves one thing at a time.
#[test]
fn memory_that_moves_data_of_others() {
    let buffered =
        drive(json!({ "buffer": { "kind": "lru", "bytes": "64KiB", "access_us": 0, "mb_per_s": 409.6 } }));
    let told =
        parts_of(&buffered, &[page(0.0, Op::Write, 0), page(4.0, Op::Write, 1), page(4.0, Op::Write, 2)]);
    assert_eq!(told[0], [("service_buffer", 10.0)]);
    assert_eq!(told[1], [("service_buffer", 10.0), ("wait_buffer", 6.0)]);
    assert_eq!(told[2], [("service_buffer", 10.0), ("wait_buffer", 16.0)]);
    // Who waits for memory alone waits at no die, whichever worked last.
    let flush = page(0.0, Op::Flush, 0);
    assert_eq!(waits_of_last(&buffered, &[page(0.0, Op::Write, 0), flush]).2, (0, 0.0));
    let reads = [page(0.0, Op::Read, 9), page(100.0, Op::Write, 0), Request { arrival_ns: 100_000, ..flush }];
    assert_eq!(waits_of_last(&buffered, &reads).2, (0, 0.0));
}

/// Who waits for the command of another request waits for what that one waited for.
#[test]
fn waits_of_others_are_divided() {
    let buffered = drive(json!({ "buffer": { "kind": "lru", "bytes": "64KiB", "access_us": 0 } }));
    let programs = (0..4).map(|at| Request { fua: true, ..page(0.0, Op::Write, at) });
    let reads = [0.0, 0.0, 430.0, 870.0].map(|us| page(us, Op::Read, 40));
    let told = parts_of(&buffered, &programs.chain(reads).collect::<Vec<_>>());
    let of_program = 4.0 * 210.0;
    assert_eq!(told[4], [("service_read", 50.0), ("service_transfer", 10.0), ("wait_program", of_program)]);
    assert_eq!(told[5], [("wait_read", 60.0), ("wait_program", of_program)]);
    assert_eq!(told[6], [("wait_read", 60.0), ("wait_program", of_program - 430.0)]);
    // The die reads when this one comes.
    assert_eq!(told[7], [("wait_read", 30.0)]);
}

/// Writes wait for evictions in a row, on one die after the other: each names a die that was at work for it, and not all the same.
#[test]
fn a_row_of_waits_does_not_name_the_die_of_the_first() {
    let config =
        drive(json!({ "geometry": { "channels": 2, "ways": 2 }, "ftl": { "over_provisioning": 1.0 },
        "buffer": { "kind": "lru", "bytes": 64 * 4096 } }));
    let at = |at: u64| if at < 300 { at as f64 * 3000.0 } else { 1e6 };
    let requests: Vec<Request> = (0..400).map(|n| page(at(n), Op::Write, n * 61 % 240)).collect();
    let explained = explained(&config, &requests);
    let mut waited_at = [0; 4];
    for (record, parts) in explained.requests.iter().zip(&explained.parts) {
        let (die, waited) = parts.longest_wait();
        let of_die = explained.commands.iter().filter(|command| command.die == die);
        let at_work =
            of_die.map(|of| of.end.min(record.end).since(of.start.max(record.arrival)).0).sum::<u64>();
        assert!(waited <= at_work, "{record:?}: {waited} ps at die {die}, which worked for {at_work}");
        waited_at[die as usize] += u32::from(waited > 0 && record.index >= 300);
    }
    assert!(waited_at.iter().all(|count| (15..35).contains(count)), "{waited_at:?}");
}

/// Merges, which the request of a block-mapped drive waits for, do not swallow its own programs.
#[test]
fn programs_before_a_merge_are_service() {
    let block = merged(block_mapped(), json!({ "ftl": { "kind": "block" } }));
    let told = parts_of(&device(block), &[request(0.0, Op::Write, 0, 24)]);
    assert_eq!(told[0][0], ("service_program", 3.0 * 200.0));
    assert!(told[0].iter().any(|(part, _)| *part == "wait_merge"), "{:?}", told[0]);
}

/// What may stand above flash, or guard it: nothing, any write buffer, a non-volatile cache, backups.
fn above() -> impl Strategy<Value = Value> {
    let kinds = BufferKind::ALL.iter().map(|kind| kind.name()).filter(|kind| *kind != "none");
    let buffers = kinds.flat_map(|kind| {
        let keys = json!({ "kind": kind, "bytes": 256 << 10, "access_us": 3, "mb_per_s": 300.0 });
        let with = |more: Value| json!({ "buffer": merged(keys.clone(), more) });
        [with(json!({})), with(json!({ "rate": 4 })), with(json!({ "rate": "cave", "wait": "frame" }))]
    });
    let through = ["lru", "cflru"].map(|kind| {
        json!({ "buffer": { "kind": kind, "bytes": 256 << 10, "write": "through", "access_us": 20, "hiding": 0.5 } })
    });
    let caches = ["basic", "cdm"].map(|kind| json!({ "nvm": { "kind": kind, "bytes": 128 << 10 } }));
    let backups =
        json!({ "cell": { "kind": "mlc", "page_order": "tiles" }, "lsb_backup": { "kind": "copy" } });
    proptest::sample::select(
        buffers.chain(through).chain(caches).chain([backups, json!({}), json!({})]).collect::<Vec<Value>>(),
    )
}

proptest! {
    #![proptest_config(cases(60))]

    /// Parts sum to the time of each request to the picosecond, and no cause is blamed that was not at work. The run is the same
    /// without them, whatever port keeps its time.
    #[test]
    fn parts_sum_to_the_time_of_requests(value in drives(), above in above(), requests in requests()) {
        let value = of_chosen(merged(value, above));
        let config: DeviceConfig = serde_json::from_value(value).unwrap();
        prop_assume!(config.validate().is_ok());
        let explained = explained(&config, &requests);
        let (_, log) = run_with(&config, &requests, &RunOptions::default());
        let mut same = explained.requests.clone();
        same.sort_unstable_by_key(|record| record.index);
        prop_assert_eq!(&same, &log.requests);
        prop_assert_eq!(explained.requests.len(), explained.parts.len());
        let apart = explained_apart(&config, &requests);
        prop_assert_eq!((&explained.requests, &explained.parts), (&apart.requests, &apart.parts));
        for (record, parts) in explained.requests.iter().zip(&explained.parts) {
            prop_assert_eq!(parts.sum(), record.end.since(record.arrival).0, "{:?}: {:?}", record, parts);
            prop_assert!(parts.behind_updates() <= behind(parts), "{:?}: {:?}", record, parts);
            let waits = Part::ALL.into_iter().filter(|part| part.name().starts_with("wait_"));
            let waited: u64 = waits.map(|part| parts.get(part)).sum();
            let (die, at_die) = parts.longest_wait();
            prop_assert!(at_die <= waited, "{:?}: {:?}", record, parts);
            let works = explained.commands.iter().any(|command| command.die == die);
            prop_assert!(at_die == 0 || works, "{:?}: {:?}", record, parts);
            for cause in Cause::ALL {
                let part = Part::ALL.into_iter().find(|part| part.name().strip_prefix("wait_") == Some(cause.name()));
                let blamed = part.is_some_and(|part| parts.get(part) > 0);
                let at_work = explained.commands.iter().any(|command| {
                    command.cause == cause && command.start <= record.end && command.end >= record.start
                });
                prop_assert!(!blamed || at_work, "{:?}: {:?}", record, parts);
            }
        }
        for command in &explained.commands {
            prop_assert!(command.request.is_none_or(|index| (index as usize) < requests.len()));
        }
    }
}
