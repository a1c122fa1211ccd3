//! The referee: what real flash refuses is refused, with the command, the address and the cause; and what a
//! translation layer hands to a port is what physics needs.

use crate::common::drives::is_long;
use crate::common::{device, ftl_kinds, merged, of_chosen, request, run, run_with, small};
use ftlab_core::access::Access;
use ftlab_core::config::DeviceConfig;
use ftlab_core::device::{RunError, RunOptions};
use ftlab_core::flash::port::{CountingPort, FlashPort, PowerCutPort, RecordingPort, Submission};
use ftlab_core::flash::{Cause, Command, Flash};
use ftlab_core::ftl::gc::VictimKind;
use ftlab_core::ftl::{self, FtlVisitor};
use ftlab_core::geometry::{BlockId, Lpn, PageAt, Ppn};
use ftlab_core::host::request::Op;
use ftlab_core::layer::{Ftl, Layer};
use ftlab_core::metrics::CommandRecord;
use serde_json::json;

fn flash<P: FlashPort>(port: P) -> Flash<P> {
    let config = device(small());
    Flash::new(&config, &config.to_geometry(), false, port)
}

const fn at(block: u32, index: u32) -> PageAt {
    PageAt { block: BlockId(block), index }
}

fn why<T: std::fmt::Debug>(refused: Result<T, Box<RunError>>) -> String {
    match *refused.expect_err("refused") {
        RunError::Rule(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn pages_are_programmed_once_and_ascending() {
    let mut flash = flash(CountingPort);
    flash.program(at(3, 0), &[Lpn(7)], Cause::Host, ()).unwrap();
    let twice = why(flash.program(at(3, 0), &[Lpn(7)], Cause::Gc, ()));
    for part in ["program of page 0 of block 3", "for gc", "programmed up to 1"] {
        assert!(twice.contains(part), "{twice}");
    }
    flash.program(at(3, 5), &[Lpn(8)], Cause::Host, ()).unwrap();
    assert!(why(flash.program(at(3, 4), &[Lpn(9)], Cause::Host, ())).contains("up to 6"));
    assert!(why(flash.program(at(3, 8), &[Lpn(9)], Cause::Host, ())).contains("page 8"));
}

#[test]
fn only_written_pages_are_read_also_after_an_erase() {
    let mut flash = flash(CountingPort);
    assert!(why(flash.read(at(0, 0), 8, Cause::Host, ())).contains("never written"));
    flash.program(at(0, 2), &[Lpn(1)], Cause::Host, ()).unwrap();
    flash.read(at(0, 2), 8, Cause::Host, ()).unwrap();
    assert!(why(flash.read(at(0, 1), 8, Cause::Map, ())).contains("read of page 1 of block 0"), "skipped");
    flash.invalidate(Ppn(2)).unwrap();
    flash.erase(BlockId(0), Cause::Gc, ()).unwrap();
    assert!(why(flash.read(at(0, 2), 8, Cause::Host, ())).contains("never written"));
    // What an earlier life left in a page that is skipped now is gone.
    flash.program(at(0, 5), &[Lpn(1)], Cause::Host, ()).unwrap();
    assert!(why(flash.read(at(0, 2), 8, Cause::Host, ())).contains("never written"));
}

#[test]
fn live_data_are_neither_erased_nor_forgotten_twice() {
    let mut flash = flash(CountingPort);
    flash.program(at(1, 0), &[Lpn(4)], Cause::Host, ()).unwrap();
    assert!(why(flash.erase(BlockId(1), Cause::WearLevel, ())).contains("1 live units would be lost"));
    flash.invalidate(Ppn(8)).unwrap();
    assert!(why(flash.invalidate(Ppn(8))).contains("invalidated twice"));
    flash.erase(BlockId(1), Cause::WearLevel, ()).unwrap();
    assert_eq!(flash.nand.erases(BlockId(1)), 1);
}

#[test]
fn copies_stay_in_their_plane_and_move_live_data_only() {
    let config = device(merged(small(), json!({ "geometry": { "planes": 2 } })));
    let mut flash = Flash::new(&config, &config.to_geometry(), false, CountingPort);
    flash.program(at(0, 0), &[Lpn(4)], Cause::Host, ()).unwrap();
    assert!(why(flash.copyback(at(0, 0), at(32, 0), &[Lpn(4)], Cause::Gc, ())).contains("another plane"));
    assert!(
        why(flash.copyback_all(&[Ppn(0)], at(32, 0), Cause::Gc, (), |_, _| {})).contains("another plane")
    );
    let mut moved = Vec::new();
    flash.copyback_all(&[Ppn(0)], at(1, 0), Cause::Gc, (), |lpn, ppn| moved.push((lpn, ppn))).unwrap();
    assert_eq!(moved, [(Lpn(4), Ppn(8))]);
    assert!(
        why(flash.copyback_all(&[Ppn(0)], at(1, 1), Cause::Gc, (), |_, _| {})).contains("0 hold live data")
    );
    flash.erase(BlockId(0), Cause::Gc, ()).unwrap();
}

#[test]
fn a_copy_in_bulk_is_the_same_as_one_by_one() {
    let config = device(small());
    let make = || {
        let mut flash = Flash::new(&config, &config.to_geometry(), true, RecordingPort::default());
        for page in 0..8 {
            flash.program(at(0, page), &[Lpn(page)], Cause::Host, 0).unwrap();
            let versions = [page + 1; 8];
            flash.store(Ppn(page), &Access { versions: &versions, ..whole(page) }, 0, None);
        }
        flash.invalidate(Ppn(3)).unwrap();
        flash
    };
    let from: Vec<Ppn> = [0, 1, 2, 4, 5, 6, 7].map(Ppn).into();
    let (mut bulk, mut single) = (make(), make());
    bulk.copyback_all(&from, at(5, 1), Cause::Gc, 0, |_, _| {}).unwrap();
    for (index, old) in (1..).zip(&from) {
        let page = bulk.geometry().page_of(*old);
        single.copyback(page, at(5, index), &[Lpn(old.0)], Cause::Gc, 0).unwrap();
        single.store_copy(*old, Ppn(40 + index));
        single.invalidate(*old).unwrap();
    }
    assert_eq!(bulk.port.commands, single.port.commands);
    assert_eq!(bulk.counts, single.counts);
    let (mut in_bulk, mut one_by_one) = (Vec::new(), Vec::new());
    for unit in (0..256).map(Ppn) {
        assert_eq!(bulk.nand.is_valid(unit), single.nand.is_valid(unit));
        if bulk.nand.is_valid(unit) {
            bulk.load(Some(unit), &whole(0), 0, &mut in_bulk);
            single.load(Some(unit), &whole(0), 0, &mut one_by_one);
        }
    }
    assert_eq!(in_bulk.len(), 7 * 8);
    assert_eq!(in_bulk, one_by_one);
    bulk.nand.verify().unwrap();
}

/// The whole unit `lpn`.
fn whole(lpn: u32) -> Access<'static> {
    Access::span(Lpn(lpn), 1, 0, 8)
}

/// Random overwrites by a deterministic walk over `pages` logical pages.
fn walk(pages: u32, steps: u32) -> impl Iterator<Item = Access<'static>> {
    (0..steps).map(move |step| whole((step.wrapping_mul(2_654_435_761) >> 7) % pages))
}

/// 1,000 writes, behind a port that remembers what every command waits for.
struct Waits<'a>(&'a DeviceConfig);

impl FtlVisitor for Waits<'_> {
    type Output = Vec<(Submission, Vec<usize>)>;

    fn visit<F: Ftl<CountingPort>>(self, ftl: F) -> Self::Output {
        let geometry = self.0.to_geometry();
        let mut flash = Flash::new(self.0, &geometry, false, RecordingPort::default());
        let mut ftl = ftl.with_port(&flash.port);
        for access in walk(geometry.logical_units, 1000) {
            ftl.write(&mut flash, &access, 0).unwrap();
        }
        flash.port.commands
    }
}

#[test]
fn an_erase_waits_for_every_copy_out_of_its_block() {
    for (kind, copyback) in ftl_kinds().into_iter().flat_map(|kind| [(kind, false), (kind, true)]) {
        let changes = json!({ "ftl": { "kind": kind }, "timing": { "copyback": copyback } });
        let config = device(merged(small(), changes));
        let commands = ftl::build(&config, &config.to_geometry(), 1, false, Waits(&config));
        let mut erases = 0;
        for (index, (erase, waits)) in commands.iter().enumerate() {
            if erase.command() != Command::Erase {
                continue;
            }
            erases += 1;
            // Copies since the erase before are those out of this block: one victim is emptied at a time.
            let start = commands[..index].iter().rposition(|(other, _)| other.command() == Command::Erase);
            let copies = (start.map_or(0, |at| at + 1)..index).filter(|at| {
                commands[*at].0.cause() != Cause::Host && commands[*at].0.command() != Command::Read
            });
            for copy in copies {
                assert!(waits.contains(&copy), "{kind}: erase {index} does not wait for copy {copy}");
            }
        }
        assert!(erases > 50);
        if !copyback {
            // And each copied page is programmed after it was read.
            let programs =
                commands.iter().filter(|(c, _)| c.command() == Command::Program && c.cause() != Cause::Host);
            assert!(
                programs
                    .into_iter()
                    .all(|(_, waits)| { waits.iter().any(|at| commands[*at].0.command() == Command::Read) })
            );
        }
    }
}

/// Writes until the power goes after `commands`.
struct CutAfter<'a> {
    config: &'a DeviceConfig,
    commands: u64,
}

impl FtlVisitor for CutAfter<'_> {
    type Output = ();

    fn visit<F: Ftl<CountingPort>>(self, ftl: F) {
        let CutAfter { config, commands: commands_left } = self;
        let geometry = config.to_geometry();
        let mut flash = Flash::new(config, &geometry, false, PowerCutPort { commands_left });
        let mut ftl = ftl.with_port(&flash.port);
        let stopped =
            walk(geometry.logical_units, 4000).find_map(|access| ftl.write(&mut flash, &access, ()).err());
        assert_eq!(stopped.map(|error| *error), Some(RunError::PowerCut));
        assert_eq!(flash.counts.iter().flatten().sum::<u64>(), commands_left);
        // Everything that the array holds is whole, and nothing that was written is lost: every logical unit
        // written so far is live exactly once, but for the one under way, which may be live in both places.
        flash.nand.verify().unwrap();
        let mut live = vec![0; geometry.logical_units as usize];
        for unit in (0..geometry.physical_units()).map(Ppn).filter(|unit| flash.nand.is_valid(*unit)) {
            live[flash.nand.lpn(unit).unwrap().index()] += 1;
        }
        assert!(live.iter().all(|count| *count <= 2));
        let twice = live.iter().filter(|count| **count == 2).count();
        assert!(twice <= 1, "{:?} at {commands_left}", config.ftl);
    }
}

#[test]
fn a_power_cut_stops_at_its_command_and_leaves_the_array_as_it_was() {
    for (kind, gc) in
        ftl_kinds().into_iter().flat_map(|kind| VictimKind::ALL.iter().map(move |gc| (kind, gc)))
    {
        let changes = json!({ "ftl": { "kind": kind, "gc": gc.name() }, "timing": { "copyback": true } });
        let config = device(merged(small(), changes));
        for commands in (0..3000).step_by(if is_long() { 37 } else { 111 }) {
            let visitor = CutAfter { config: &config, commands };
            ftl::build(&config, &config.to_geometry(), 1, false, visitor);
        }
    }
}

/// Writes and trims, and recounts every table after each.
struct Recount<'a>(&'a DeviceConfig);

impl FtlVisitor for Recount<'_> {
    type Output = ();

    fn visit<F: Ftl<CountingPort>>(self, mut ftl: F) {
        let geometry = self.0.to_geometry();
        let mut flash = Flash::new(self.0, &geometry, false, CountingPort);
        for (step, access) in walk(geometry.logical_units, 1500).enumerate() {
            if step % 7 == 3 {
                ftl.trim(&mut flash, &access, ()).unwrap();
            } else {
                ftl.write(&mut flash, &access, ()).unwrap();
            }
            ftl.verify(&flash.nand).unwrap_or_else(|text| panic!("{:?} step {step}: {text}", self.0.ftl));
        }
    }
}

#[test]
fn tables_agree_after_every_step() {
    for kind in ftl_kinds() {
        for gc in VictimKind::ALL {
            for open_block in ["separate", "shared"] {
                let wear = if kind == "page" { "static" } else { "dynamic" };
                let changes = json!({ "ftl": { "kind": kind, "gc": gc.name(), "gc_open_block": open_block,
                    "wear_leveling": wear, "wear_leveling_threshold": 2 } });
                let config = device(of_chosen(merged(small(), changes)));
                ftl::build(&config, &config.to_geometry(), 1, false, Recount(&config));
            }
        }
    }
}

#[test]
fn wear_leveling_narrows_the_spread_of_erases() {
    // A tenth of the pages takes all writes: without levelling the rest never moves.
    let spread = |kind: &str| {
        let changes = json!({
            "geometry": { "blocks_per_plane": 128 },
            "ftl": { "wear_leveling": kind, "wear_leveling_threshold": 4 },
            "precondition": { "kind": "fill" },
        });
        let config = device(of_chosen(merged(small(), changes)));
        let hot = config.logical_pages() / 10;
        let rows: Vec<_> = (0..60_000_u64).map(|i| request(0.0, Op::Write, i * 7919 % hot * 8, 8)).collect();
        let options = RunOptions { timing: false, verify: true, ..RunOptions::default() };
        let (outcome, _) = run_with(&config, &rows, &options);
        assert_eq!(outcome.error, None);
        let by_cause = outcome.summary.flash.erases;
        assert_eq!(by_cause.wear_level > 0, kind == "static", "{kind}");
        let wear = outcome.summary.wear;
        (wear.erase_stdev, f64::from(wear.erase_max) - wear.erase_mean)
    };
    let (none, dynamic, fixed) = (spread("none"), spread("dynamic"), spread("static"));
    assert!(dynamic.0 <= none.0 && fixed.0 < none.0 / 10.0, "{none:?} {dynamic:?} {fixed:?}");
    assert!(fixed.1 <= 4.0 + 4.0, "no block is far ahead of the mean: {fixed:?}");
}

/// Victims at random leave blocks behind of which nothing is live: there is nothing to move out of them.
#[test]
fn wear_leveling_moves_data() {
    let changes = json!({
        "geometry": { "blocks_per_plane": 16 },
        "ftl": { "over_provisioning": null, "logical_pages": 80, "gc": "random", "wear_leveling": "static",
            "wear_leveling_threshold": 2 },
        "precondition": { "kind": "fill" },
    });
    let rows: Vec<_> = (0..5_000_u64).map(|i| request(0.0, Op::Write, i * 7919 % 3 % 2 * 8, 8)).collect();
    let (outcome, log) = run(&device(merged(small(), changes)), &rows);
    assert!(outcome.summary.flash.erases.wear_level > 100);
    let of_levelling: Vec<_> =
        log.commands.iter().filter(|record| record.cause == Cause::WearLevel).collect();
    for commands in of_levelling.split(|record| record.command == Command::Erase).rev().skip(1) {
        let moves = |record: &&CommandRecord| matches!(record.command, Command::Read | Command::Copyback);
        assert!(commands.iter().any(moves), "{commands:?}");
    }
}

#[test]
fn streams_keep_their_pages_apart() {
    let config = device(merged(small(), json!({ "ftl": { "streams": 2 } })));
    let mut rows: Vec<_> = (0..64).map(|i| request(0.0, Op::Write, i * 8, 8)).collect();
    for (at, row) in rows.iter_mut().enumerate() {
        row.stream = (at % 2) as u16;
    }
    let (_, log) = run(&config, &rows);
    let blocks: Vec<u64> = log.commands.iter().map(|record| record.page / 8).collect();
    let (even, odd): (Vec<_>, Vec<_>) = blocks.iter().enumerate().partition(|(at, _)| at % 2 == 0);
    assert!(even.iter().all(|(_, block)| odd.iter().all(|(_, other)| other != block)));
}

#[test]
fn a_drive_with_the_least_spare_space_works() {
    // One block more than the data need: nothing to collect once every page is live.
    let config = device(merged(
        small(),
        json!({ "geometry": { "blocks_per_plane": 32 }, "ftl": { "over_provisioning": null, "logical_pages": 29 * 8,
            "gc_low_free_blocks": 1, "gc_open_block": "shared" } }),
    ));
    let pages = config.logical_pages();
    let rows: Vec<_> = (0..3 * pages).map(|i| request(0.0, Op::Write, i % pages * 8, 8)).collect();
    let (outcome, _) = run_with(&config, &rows, &RunOptions::default());
    // Sequential overwrites free whole blocks: this works to the last page.
    assert_eq!(outcome.error, None);
}
