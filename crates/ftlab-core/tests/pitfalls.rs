//! Mistakes found in published simulators, where no other test holds them: `docs/notes/pitfalls.md` has the whole list.

use crate::common::{device, merged, of_chosen, request, run, run_with, small};
use ftlab_core::access::Access;
use ftlab_core::device::{RunControl, RunError, RunOptions, RunOutcome, simulate};
use ftlab_core::flash::port::CountingPort;
use ftlab_core::flash::{Cause, Flash};
use ftlab_core::ftl::page::GcCounts;
use ftlab_core::geometry::{BlockId, Lpn, PageAt, Ppn};
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::mapcache::translation::MapCacheSummary;
use ftlab_core::verify::ShadowStore;
use serde_json::json;

/// 1: every request that enters a run leaves it, and the summary proves it, also where requests are turned away, wait,
/// or are cut off by the end.
#[test]
fn requests_in_are_requests_out() {
    for (stop, copyback) in [("drained", true), ("drained", false), ("last_arrival", true)] {
        let config = device(merged(
            small(),
            json!({ "geometry": { "channels": 2, "ways": 2, "planes": 2 }, "timing": { "copyback": copyback },
                "host": { "out_of_range": "clip", "outstanding": 3, "stop": stop, "link_mb_per_s": 300 },
                "precondition": { "kind": "fill" } }),
        ));
        let sectors = config.logical_pages() * 8;
        let ops = [Op::Write, Op::Write, Op::Read, Op::Write, Op::Trim, Op::Flush, Op::Write];
        let rows: Vec<Request> = (0..5000_u64)
            .map(|i| request(i as f64 * 90.0, ops[i as usize % 7], i * 7919 * 8 % (sectors + 400), 16))
            .map(|request| if request.op == Op::Flush { Request { sectors: 0, ..request } } else { request })
            .collect();
        for timing in [true, false] {
            let options = RunOptions { timing, verify: true, ..RunOptions::default() };
            let (outcome, log) = run_with(&config, &rows, &options);
            assert_eq!(outcome.error, None);
            let host = &outcome.summary.host;
            assert_eq!(host.requests, 5000);
            assert_eq!(host.requests, host.completed + host.rejected + host.unfinished);
            assert_eq!(host.completed, host.reads + host.writes + host.trims + host.flushes);
            assert_eq!(log.requests.len() as u64, host.completed, "each completes once");
            assert!(host.rejected > 0 && host.out_of_range > host.rejected && host.flushes > 0, "{host:?}");
            assert_eq!(host.unfinished > 0, stop == "last_arrival", "{stop}: {host:?}");
            assert!(
                outcome.summary.parts.get::<GcCounts>().unwrap().collections > 100,
                "erases of delayed collections are in it"
            );
        }
    }
}

/// 2: no rate is faster than the host link, in either direction and in both together.
#[test]
fn the_host_link_bounds_bandwidth() {
    for duplex in ["full", "half"] {
        let config = device(merged(
            small(),
            json!({ "geometry": { "channels": 8, "ways": 4 }, "timing": { "bus_mb_per_s": 4000, "program_us": 20 },
                "host": { "arrival": "closed", "queue_depth": 256, "link_mb_per_s": 333, "link_duplex": duplex } }),
        ));
        let pages = config.logical_pages();
        let mut rows: Vec<Request> = (0..pages).map(|i| request(0.0, Op::Write, i * 8, 8)).collect();
        let rate = |rows: &[Request]| run(&config, rows).0.summary.host.bytes_per_second / 1e6;
        let writes = rate(&rows);
        assert!((0.98 * 333.0..=333.0).contains(&writes), "{duplex}: {writes} MB/s");
        rows.extend((0..pages).map(|i| request(0.0, Op::Read, i * 8, 8)));
        let both = rate(&rows);
        let bound = if duplex == "full" { 666.0 } else { 333.0 };
        assert!((0.95 * 333.0..=bound).contains(&both), "{duplex}: {both} MB/s");
    }
}

fn age(kind: &str, pattern: &str, bound: f64, rows: &[Request]) -> RunOutcome {
    age_with(json!({}), kind, pattern, bound, rows)
}

fn age_with(
    changes: serde_json::Value,
    kind: &str,
    pattern: &str,
    bound: f64,
    rows: &[Request],
) -> RunOutcome {
    let wanted = json!({ "precondition": { "kind": kind, "pattern": pattern, "tolerance": 1e-9,
        "max_drive_writes": bound } });
    let config = device(of_chosen(merged(merged(small(), wanted), changes)));
    let source = VecSource::new(rows.to_vec());
    simulate(&config, &source, &RunOptions::default(), &RunControl::default(), &mut ()).unwrap()
}

/// 10: preconditioning ends whatever the workload is like, and says how far it got.
#[test]
fn preconditioning_ends_and_reports() {
    let reads: Vec<Request> = (0..50).map(|i| request(0.0, Op::Read, i * 8, 8)).collect();
    let trims: Vec<Request> = (0..50).map(|i| request(0.0, Op::Trim, i * 8, 8)).collect();
    let one_page = [request(0.0, Op::Write, 0, 8)];
    let one_sector = [request(0.0, Op::Write, 5, 1)];
    let scattered: Vec<Request> = (0..500).map(|i| request(0.0, Op::Write, i * 37 % 190 * 8, 8)).collect();
    let workloads: [&[Request]; 6] = [&[], &reads, &trims, &one_page, &one_sector, &scattered];
    let logical = device(small()).logical_pages();
    for kind in ["fill", "free_blocks", "steady"] {
        for pattern in ["uniform", "sequential", "workload"] {
            for rows in workloads {
                let outcome = age(kind, pattern, 12.0, rows);
                assert_eq!(outcome.error, None, "{kind} {pattern}");
                let told = outcome.summary.precondition.unwrap();
                assert_eq!(told.kind, kind);
                assert!(told.pages_written >= logical, "{kind} {pattern}: the fill is complete");
                let bound = 12 * logical + 100;
                assert!(told.pages_written <= bound, "{kind} {pattern}: {told:?}");
                let writes = pattern != "workload" || rows.iter().any(|row| row.op == Op::Write);
                if !told.reached && writes {
                    assert!(told.pages_written >= 12 * logical, "{kind} {pattern} gave up early: {told:?}");
                }
            }
        }
    }
    let never = age("steady", "uniform", 6.0, &one_page).summary.precondition.unwrap();
    assert!(!never.reached && never.write_amplification.is_some_and(|wa| wa > 1.0), "{never:?}");
    assert!(age("steady", "sequential", 6.0, &one_page).summary.precondition.unwrap().reached);
}

/// A trace of a few writes would have to be read millions of times.
#[test]
fn a_workload_that_writes_too_little_to_age_by_is_refused_after_a_pass() {
    let of = |blocks: u32| json!({ "geometry": { "blocks_per_plane": blocks } });
    let one_page = [request(0.0, Op::Write, 0, 8), request(0.0, Op::Read, 0, 8)];
    let reads = (0..15_000).map(|i| request(0.0, Op::Read, i * 8, 8));
    let few_writes: Vec<Request> = reads.chain((0..10).map(|i| request(0.0, Op::Write, i * 8, 8))).collect();
    for kind in ["free_blocks", "steady"] {
        for rows in [&one_page[..], &few_writes] {
            let Some(RunError::Config(error)) = age_with(of(262_144), kind, "workload", 50.0, rows).error
            else {
                panic!("{kind}: not refused")
            };
            assert_eq!(error.key, "precondition.pattern");
            assert!(error.expected.contains("choose \"uniform\""), "{error}");
        }
        let enough: Vec<Request> = (0..2000).map(|i| request(0.0, Op::Write, i * 8, 8)).collect();
        assert_eq!(age_with(of(16_384), kind, "workload", 10.0, &enough).error, None, "{kind}");
    }
}

/// 12: what is read back is kept by physical place, so a wrong translation shows.
#[test]
fn a_wrong_translation_shows_in_what_is_read() {
    let config = device(small());
    let mut flash = Flash::new(&config, &config.to_geometry(), true, CountingPort);
    let mut shadow = ShadowStore::new(16);
    let whole = |page| Access::span(Lpn(page), 1, 0, 8);
    let (mut versions, mut found) = (Vec::new(), Vec::new());
    for page in 0..2 {
        shadow.write(u64::from(page) * 8..u64::from(page) * 8 + 8, 0, &mut versions);
        let at = PageAt { block: BlockId(0), index: page };
        flash.program(at, &[Lpn(page)], Cause::Host, ()).unwrap();
        flash.store(Ppn(page), &Access { versions: &versions, ..whole(page) }, 0, None);
    }
    for (lpn, ppn) in [(0, Some(Ppn(0))), (1, Some(Ppn(1))), (0, Some(Ppn(1))), (1, Some(Ppn(0))), (0, None)]
    {
        found.clear();
        flash.load(ppn, &whole(0), 0, &mut found);
        let checked = shadow.check(lpn * 8..lpn * 8 + 8, &found);
        assert_eq!(checked.is_ok(), ppn == Some(Ppn(lpn as u32)), "{lpn} from {ppn:?}");
    }
    assert_eq!((shadow.counts().reads_checked, shadow.counts().mismatches), (40, 24));
}

/// 8: victims are blocks with something to gain: where whole blocks are stale, no page is ever copied.
#[test]
fn nothing_is_copied_where_whole_blocks_are_stale() {
    let config = device(merged(small(), json!({ "precondition": { "kind": "fill" } })));
    let pages = config.logical_pages();
    let rows: Vec<Request> = (0..20 * pages).map(|i| request(0.0, Op::Write, i % pages * 8, 8)).collect();
    let options = RunOptions { timing: false, ..RunOptions::default() };
    let (outcome, _) = run_with(&config, &rows, &options);
    assert_eq!(outcome.error, None::<RunError>);
    let summary = &outcome.summary;
    assert_eq!(
        summary.parts.get::<GcCounts>().unwrap().pages_copied,
        0,
        "sequential overwrites leave whole blocks stale"
    );
    assert!(
        summary.parts.get::<GcCounts>().unwrap().collections > 400
            && summary.parts.get::<GcCounts>().unwrap().collections * 8 <= summary.flash.programs.total
    );
}

/// 13: translation pages live in flash like any others. They are programmed, copied, erased, and counted as amplification.
#[test]
fn translation_pages_cost_flash_and_not_time_alone() {
    let config = device(json!({
        "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 64, "pages_per_block": 16, "page_bytes": 512 },
        "ftl": { "over_provisioning": 0.4 },
        "map_cache": { "kind": "dftl", "bytes": 64 },
        "precondition": { "kind": "fill" },
    }));
    let pages = config.logical_pages();
    let rows: Vec<Request> = (0..6000_u64).map(|i| request(0.0, Op::Write, i * 7919 % pages, 1)).collect();
    let options = RunOptions { verify: true, ..RunOptions::default() };
    let (outcome, _) = run_with(&config, &rows, &options);
    assert_eq!(outcome.error, None);
    let summary = &outcome.summary;
    let (cache, flash) = (summary.parts.get::<MapCacheSummary>().unwrap(), &summary.flash);
    assert_eq!(cache.flash_reads, flash.reads.map);
    assert_eq!(cache.flash_programs, flash.programs.map + flash.copybacks.map);
    assert!(flash.erases.map > 0 && cache.collections == flash.erases.map);
    let amplification = summary.write_amplification.as_ref().unwrap();
    let written = rows.len() as f64;
    assert!((amplification.map - cache.flash_programs as f64 / written).abs() < 1e-9, "{amplification:?}");
    assert!(amplification.map > 0.5, "{amplification:?}");
}
