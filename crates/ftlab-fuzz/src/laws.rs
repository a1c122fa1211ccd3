//! Laws that every run obeys: random requests on a random drive, run in several ways.
//!
//! | law | what holds |
//! |---|---|
//! | witness | `witness.rs`: flash does only what flash can do, in the time that it takes, and as often as is told |
//! | expectation | `expected.rs`: what the host gets follows from its requests, and is not faster than physics |
//! | decomposition | counts, die time and write amplification by cause sum to the whole |
//! | Little | requests in the drive on average = requests a second x mean latency, by log and by summary |
//! | no clock | without a clock the same commands run |
//! | ports | event by event, and by reservation where no lane shares a channel: the same log |
//! | parts | the parts of each request sum to its time, blame only what was at work, and asking for them changes nothing |
//! | shift | requests that all come later end later by as much, and nothing else changes |
//! | scaling | with all times k-fold, all times of the log are k-fold |
//! | alone | a request on an idle drive takes the sum of its parts |
//! | power cuts | `cuts.rs`: whenever the power goes, the drive comes back, and with what was promised |
//! | more | `more.rs`: more dies are never slower, and more spare space copies less |
//!
//! With a write buffer or a non-volatile cache, expectation and alone are left out.

use ftlab_core::cause::{Cause, Command};
use ftlab_core::config::{DeviceConfig, Stop};
use ftlab_core::device::{RunError, simulate};
use ftlab_core::flash::reservation_port::ReservationPort;
use ftlab_core::ftl::kinds::FtlKind;
use ftlab_core::host::request::{Op, Request, VecSource};
use ftlab_core::metrics::parts::{Part, Parts};
use ftlab_core::metrics::summary::{HostSummary, Summary};
use ftlab_core::metrics::{CommandRecord, Observer, RequestRecord};
use ftlab_core::run::{RunControl, RunOptions, RunOutcome};
use ftlab_core::time::Time;
use serde_json::{Value, json};

use crate::drive::Dice;
use crate::witness::{Log, Times, Witness, hold};
use crate::{clock, cuts, expected, more};

/// Most commands of a run that is made again and again.
const MOST_COMMANDS: u64 = 40_000;

/// Requests that are tried first.
const FEW: usize = 8;

/// Most pages that a drive programs while it is aged, which each run does again.
const MOST_AGING: f64 = 300_000.0;

/// What a case has shown.
#[derive(Debug, Default, Clone, Copy)]
pub struct Shown {
    /// Requests of the run that all others are compared with.
    pub requests: u64,
    /// Its flash commands.
    pub commands: u64,
    /// Power cuts in the middle of it.
    pub cuts: u64,
    /// Whether the laws were left out, because aging the drive takes too long.
    pub is_cut_short: bool,
}

/// A drive, what it is asked, and the seed of its own choices.
pub struct Case<'a> {
    pub config: &'a DeviceConfig,
    pub requests: &'a [Request],
    pub seed: u64,
}

impl Case<'_> {
    /// Run it.
    fn try_run(&self, options: &RunOptions) -> Result<(RunOutcome, Log), RunError> {
        let (mut log, control) = (Log::default(), RunControl::default());
        let source = VecSource::new(self.requests.to_vec());
        let options = RunOptions { seed: self.seed, ..options.clone() };
        let outcome = simulate(self.config, &source, &options, &control, &mut log)?;
        match outcome.error {
            Some(error) => Err(error),
            None => Ok((outcome, log)),
        }
    }

    /// Run it; an error of the run is a finding.
    fn run(&self, options: &RunOptions) -> Result<(RunOutcome, Log), String> {
        self.try_run(options).map_err(|error| error.to_string())
    }
}

/// The requests of a case that a run without a clock gets through in reasonable time, and that run. `None` when these
/// requests cannot age this drive: such a run is refused with a sentence.
fn untimed<'a>(case: &Case<'a>) -> Result<Option<(&'a [Request], RunOutcome)>, String> {
    let options = RunOptions { timing: false, ..RunOptions::default() };
    let (mut requests, mut last) = (case.requests, None);
    // On a full drive the first ones tell how many are enough.
    if let Some(few) = requests.get(..FEW)
        && let Ok((outcome, _)) = (Case { requests: few, ..*case }.try_run(&options))
    {
        let each = commands(&outcome.summary).div_ceil(FEW as u64).max(1);
        requests = &requests[..requests.len().min((2 * MOST_COMMANDS / each).max(FEW as u64) as usize)];
    }
    loop {
        match (Case { requests, ..*case }.try_run(&options)) {
            // Fewer requests may be too few to age the drive, where more were enough.
            Err(RunError::Config(_)) => return Ok(last),
            Err(error) => return Err(format!("without a clock: {error}")),
            Ok((outcome, _)) => {
                // A full drive does a hundred commands for a request.
                let is_long = commands(&outcome.summary) > MOST_COMMANDS && requests.len() > 1;
                last = Some((requests, outcome));
                if !is_long {
                    return Ok(last);
                }
                requests = &requests[..=requests.len() / 4];
            }
        }
    }
}

/// Hold a case against all laws.
///
/// # Errors
/// Which one does not hold, and where.
pub fn check(case: &Case<'_>) -> Result<Shown, String> {
    let at = |place: &'static str| move |text: String| format!("{place}: {text}");
    let Some((requests, plain)) = untimed(case)? else { return Ok(Shown::default()) };
    let case = Case { requests, ..*case };
    if erased_pages(case.config, &plain.summary) > MOST_AGING {
        return Ok(Shown { is_cut_short: true, ..Shown::default() });
    }
    let verified = RunOptions { verify: true, ..RunOptions::default() };
    let (outcome, log) = case.run(&verified).map_err(at("with a clock"))?;
    let summary = &outcome.summary;
    let times = Times::new(case.config);
    let mut witness = Witness::new(case.config, &times);
    let ends_idle = case.config.host.stop() == Stop::Drained;
    witness.follow(&log.commands, ends_idle).map_err(at("witness"))?;
    witness.check_counts(summary).map_err(at("witness"))?;
    decomposes(&case, summary).map_err(at("decomposition"))?;
    // What a memory above the flash holds, nobody sees from outside.
    let has_memories = case.config.buffer.is_on() || case.config.nvm.is_on();
    if ends_idle && has_memories {
        little(summary, &log.requests).map_err(at("Little's law"))?;
        without_clock(summary, &plain.summary).map_err(at("without a clock"))?;
    } else if ends_idle {
        witness.check(summary).map_err(at("witness"))?;
        expected::check_host(case.config, &times, &log.requests).map_err(at("host"))?;
        let seen = (&witness, summary);
        expected::check(case.config, &times, &log.requests, &log.commands, seen)
            .map_err(at("expectation"))?;
        little(summary, &log.requests).map_err(at("Little's law"))?;
        without_clock(summary, &plain.summary).map_err(at("without a clock"))?;
        alone(&times, &log).map_err(at("alone"))?;
    }
    if ReservationPort::suits(case.config, &case.config.to_geometry()) {
        event_by_event(&case, &log).map_err(at("ports"))?;
    }
    explained(&case, &log).map_err(at("parts"))?;
    if times.are_above_zero() {
        shifted(&case, &log).map_err(at("shift"))?;
    }
    if times.are_exact() {
        scaled(&case, &log).map_err(at("scaling"))?;
    }
    more::check(case.seed)?;
    let is_block_mapped = case.config.ftl.kind.kind() != FtlKind::Page;
    let points = match commands(summary) / case.requests.len().max(1) as u64 {
        // What such a drive does follows from where in a merge it was.
        ..=100 if is_block_mapped => 40,
        ..=100 => 8,
        // A full drive copies for long when it goes on.
        _ => 2,
    };
    let cuts = cuts::check(case.config, case.requests, case.seed, points).map_err(at("power cuts"))?;
    Ok(Shown { requests: summary.host.requests, commands: commands(summary), cuts, is_cut_short: false })
}

/// Pages of blocks that were erased, preconditioning included.
fn erased_pages(config: &DeviceConfig, summary: &Summary) -> f64 {
    let geometry = config.to_geometry();
    summary.wear.erase_mean * f64::from(geometry.blocks() * geometry.pages_per_block())
}

fn commands(summary: &Summary) -> u64 {
    let flash = &summary.flash;
    flash.reads.total + flash.programs.total + flash.erases.total + flash.copybacks.total
}

/// The parts of a count by cause, as the summary document has them.
fn parts(value: &Value) -> impl Iterator<Item = &Value> {
    let parts = value.as_object().into_iter().flatten();
    parts.filter(|(name, _)| *name != "total").map(|(_, value)| value)
}

/// What decomposes by cause sums to the whole: counts exactly, die time to the rounding of each part, write amplification
/// to that of numbers with a point. And write amplification is what the counts say.
fn decomposes(case: &Case<'_>, summary: &Summary) -> Result<(), String> {
    let value = serde_json::to_value(summary).map_err(|error| error.to_string())?;
    let whole = |value: &Value| {
        let sum: f64 = parts(value).filter_map(Value::as_f64).sum();
        (sum, value["total"].as_f64().unwrap_or(f64::NAN))
    };
    for command in ["reads", "programs", "erases", "copybacks"] {
        let (sum, total) = whole(&value["flash"][command]);
        hold!(sum == total, "{command} by cause are {sum}, and {total} in all");
    }
    let (sum, total) = whole(&value["busy_ns"]);
    hold!(
        (sum - total).abs() <= Cause::ALL.len() as f64,
        "die time by cause is {sum} ns, and {total} ns in all"
    );
    let Some(amplification) = &summary.write_amplification else {
        hold!(summary.host.write_pages == 0, "{} units were written", summary.host.write_pages);
        return Ok(());
    };
    let (sum, total) = whole(&value["write_amplification"]);
    hold!((sum - total).abs() <= 1e-9 * total, "write amplification by cause is {sum}, and {total} in all");
    if summary.flash.unfinished > 0 {
        // It counts what was decided, of which not all was done.
        return Ok(());
    }
    let pages = summary.flash.programs.total + summary.flash.copybacks.total;
    let slots = case.config.geometry.slots_per_page();
    let due = (pages * slots) as f64 / summary.host.write_pages as f64;
    hold!((due - amplification.total).abs() <= 1e-9 * due, "write amplification is {due}; told: {total}");
    Ok(())
}

/// Little's law, which holds for every run that ends idle: the integral of the number in the drive over time is the sum
/// of all latencies. The integral is taken over the log, event by event. The summary gives the same by its own numbers:
/// requests a second x time = requests, and requests x mean latency = integral.
fn little(summary: &Summary, log: &[RequestRecord]) -> Result<(), String> {
    let host = &summary.host;
    hold!(
        host.requests == host.completed + host.rejected && host.unfinished == 0,
        "of {} requests {} have completed, {} were rejected and {} are unfinished",
        host.requests,
        host.completed,
        host.rejected,
        host.unfinished
    );
    hold!(host.completed == log.len() as u64, "{} requests are in the log", log.len());
    let mut events: Vec<(u64, i64)> =
        log.iter().flat_map(|record| [(record.start.0, 1), (record.end.0, -1)]).collect();
    events.sort_unstable();
    let (mut area, mut inside, mut now) = (0_i128, 0_i64, 0);
    for (at, change) in events {
        area += i128::from(inside) * i128::from(at - now);
        (inside, now) = (inside + change, at);
    }
    let latency = summary.latency_ns.as_ref().ok_or("no latency is told")?;
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs().max(b.abs()) + 1e-3;
    let told = latency.all.count as f64 * latency.all.mean;
    hold!(close(area as f64 / 1e3, told), "{} request-nanoseconds in the drive; told: {told}", area / 1000);
    let by_op = [
        (&latency.read, host.reads),
        (&latency.write, host.writes),
        (&latency.trim, host.trims),
        (&latency.flush, host.flushes),
    ];
    for (one, completed) in by_op {
        hold!(one.count == completed, "{} latencies of {completed} requests", one.count);
    }
    let told: f64 = by_op.iter().map(|(one, _)| one.count as f64 * one.mean).sum();
    hold!(
        close(area as f64 / 1e3, told),
        "{} request-nanoseconds in the drive; by kind: {told}",
        area / 1000
    );
    let (Some(first), Some(last)) =
        (log.iter().map(|record| record.arrival).min(), log.iter().map(|record| record.end).max())
    else {
        return Ok(());
    };
    let seconds = (last - first).0 as f64 / 1e12;
    if seconds > 0.0 {
        let told = host.iops * seconds;
        hold!(close(told, host.completed as f64), "{} requests completed; told: {told}", host.completed);
        let bytes = (host.read_bytes + host.write_bytes) as f64;
        hold!(close(host.bytes_per_second * seconds, bytes), "{bytes} bytes moved");
        let number = area as f64 / 1e12 / seconds;
        let law = host.iops * latency.all.mean / 1e9;
        hold!((number - law).abs() <= 1e-6 * law + 1e-9, "{number} requests in the drive; by the law {law}");
    }
    wait(summary, log)
}

/// The same for the wait at the host, which is told apart.
fn wait(summary: &Summary, log: &[RequestRecord]) -> Result<(), String> {
    let Some(told) = &summary.host_wait_ns else { return Ok(()) };
    let waited: u128 = log.iter().map(|record| u128::from((record.start - record.arrival).0)).sum();
    let told = told.count as f64 * told.mean;
    let waited = waited as f64 / 1e3;
    hold!((waited - told).abs() <= 1e-9 * told + 1e-3, "requests waited {waited} ns; told: {told}");
    Ok(())
}

/// A write's fate never depends on time. Without a clock the same commands run for the same causes, the drive wears as
/// much, and every part has counted the same. This holds for runs that are not cut short.
fn without_clock(timed: &Summary, plain: &Summary) -> Result<(), String> {
    hold!(timed.flash == plain.flash, "{:?} with a clock, {:?} without", timed.flash, plain.flash);
    hold!(timed.wear == plain.wear, "{:?} with a clock, {:?} without", timed.wear, plain.wear);
    let parts = |summary: &Summary| {
        let mut value = serde_json::to_value(&summary.parts).unwrap_or_default();
        // What a frame waits for takes memory, and waiting takes time, where there is time.
        for key in ["table_bytes", "drain_ns", "mean_wait_ns"] {
            for memory in ["buffer", "nvm"] {
                value.get_mut(memory).and_then(Value::as_object_mut).map(|counts| counts.remove(key));
            }
        }
        value
    };
    let (with, without) = (parts(timed), parts(plain));
    hold!(with == without, "{with} with a clock, {without} without");
    let of = |host: &HostSummary| HostSummary {
        first_arrival_ns: 0,
        iops: 0.0,
        bytes_per_second: 0.0,
        // Times go back only where there are times.
        unsorted: 0,
        ..host.clone()
    };
    let (with, without) = (of(&timed.host), of(&plain.host));
    hold!(with == without, "{with:?} with a clock, {without:?} without");
    let amplification = (&timed.write_amplification, &plain.write_amplification);
    hold!(amplification.0 == amplification.1, "write amplification differs: {amplification:?}");
    let past = (&timed.precondition, &plain.precondition);
    hold!(past.0 == past.1, "preconditioning differs: {past:?}");
    let verify = timed.verify.as_ref().ok_or("nothing was verified")?;
    hold!(verify.mismatches == 0 && verify.tables_agree, "{verify:?}");
    Ok(())
}

/// A request that finds the drive idle, and for which a single command runs before the next request comes, takes what
/// that command takes and the link. It starts at once: nothing else is in the way.
fn alone(times: &Times, log: &Log) -> Result<(), String> {
    let mut requests = log.requests.clone();
    requests.sort_unstable_by_key(|record| record.index);
    let mut commands = log.commands.clone();
    commands.sort_unstable_by_key(|record| (record.start, record.end));
    let (mut at, mut idle_from) = (0, Time::ZERO);
    for (index, request) in requests.iter().enumerate() {
        let next = requests.get(index + 1).map_or(Time::NEVER, |next| next.start);
        let first = at;
        while commands.get(at).is_some_and(|command| command.start < next) {
            at += 1;
        }
        let was_idle = idle_from < request.start || idle_from == Time::ZERO;
        let mine: &[CommandRecord] = &commands[first..at];
        idle_from = mine.iter().map(|command| command.end).fold(idle_from.max(request.end), Time::max);
        let link = Time(times.link_ps(request.request.sectors));
        let (before, after) = match request.request.op {
            Op::Read => (Time::ZERO, link),
            Op::Write => (link, Time::ZERO),
            Op::Trim | Op::Flush => continue,
        };
        let ([only], true, true) = (mine, was_idle, request.end < next) else { continue };
        if only.cause == Cause::Host && only.command != Command::Erase {
            let due = (request.start + before, only.end + after);
            hold!(
                (only.start, request.end) == due,
                "{request:?} should have begun and ended at {due:?}: {only:?}"
            );
        }
    }
    Ok(())
}

/// Both ports tell the same times and the same order, where the drive allows either.
fn event_by_event(case: &Case<'_>, log: &Log) -> Result<(), String> {
    let options = RunOptions { event_by_event: true, ..RunOptions::default() };
    let (_, other) = case.run(&options)?;
    compare(log, &other, |time| time)
}

/// Listens for parts too.
#[derive(Default)]
struct Explained {
    log: Log,
    parts: Vec<Parts>,
}

impl Observer for Explained {
    fn wants_commands(&self) -> bool {
        true
    }
    fn wants_requests(&self) -> bool {
        true
    }
    fn wants_parts(&self) -> bool {
        true
    }
    fn on_parts(&mut self, parts: &Parts) {
        self.parts.push(*parts);
    }
    fn on_request(&mut self, record: &RequestRecord) {
        self.log.on_request(record);
    }
    fn on_command(&mut self, record: &CommandRecord) {
        self.log.on_command(record);
    }
}

/// The parts of a request sum to its time to the picosecond, and name no cause that was not at work meanwhile. The run is the
/// same without them.
fn explained(case: &Case<'_>, log: &Log) -> Result<(), String> {
    let (mut explained, control) = (Explained::default(), RunControl::default());
    let options = RunOptions { seed: case.seed, verify: true, ..RunOptions::default() };
    simulate(case.config, &VecSource::new(case.requests.to_vec()), &options, &control, &mut explained)
        .map_err(|error| error.to_string())?;
    for (record, parts) in explained.log.requests.iter().zip(&explained.parts) {
        let took = record.end.since(record.arrival).0;
        hold!(parts.sum() == took, "{record:?} took {took} ps, not {} ps: {parts:?}", parts.sum());
        for cause in Cause::ALL {
            let is_of = |part: &Part| part.name().strip_prefix("wait_") == Some(cause.name());
            let Some(part) = Part::ALL.into_iter().find(is_of) else { continue };
            let is_at_work = |command: &CommandRecord| {
                command.cause == cause && command.start <= record.end && command.end >= record.start
            };
            if parts.get(part) > 0 && !explained.log.commands.iter().any(is_at_work) {
                return Err(format!(
                    "{record:?} waited for {}, of which there was none: {parts:?}",
                    cause.name()
                ));
            }
        }
    }
    let indices = 0..case.requests.len() as u64;
    let stray =
        |command: &&mut CommandRecord| command.request.is_some_and(|request| !indices.contains(&request));
    if let Some(command) = explained.log.commands.iter_mut().find(stray) {
        return Err(format!("{command:?} is for no request"));
    }
    explained.log.commands.iter_mut().for_each(|command| command.request = None);
    compare(log, &explained.log, |time| time)
}

/// A trace moved in time changes nothing but times.
///
/// A closed loop does not use the times of the trace, and `time_scale = 0` lets all requests arrive at 0: such runs are
/// moved by nothing. Commands that take no time have an order at time 0 that they have at no other.
fn shifted(case: &Case<'_>, log: &Log) -> Result<(), String> {
    let by_ns = 4 * (1 + Dice::new(case.seed, "shift").below(1_000_000_000));
    let later = |request: &Request| Request { arrival_ns: request.arrival_ns + by_ns, ..*request };
    let requests: Vec<Request> = case.requests.iter().map(later).collect();
    let scale = case.config.host.open().map_or(0.0, |open| open.time_scale);
    let by = Time::from_ns((by_ns as f64 * scale) as u64);
    let (_, moved) = Case { requests: &requests, ..*case }.run(&RunOptions::default())?;
    compare(log, &moved, |time| time + by)
}

/// With all times k-fold, of the drive, the host and the trace, every time of the logs is k-fold. No time is a constant,
/// and none is rounded to a unit. This is exact, since a byte takes whole picoseconds on the drives that this is asked of.
fn scaled(case: &Case<'_>, log: &Log) -> Result<(), String> {
    let k = Dice::new(case.seed, "scaling").pick(&[2_u64, 3, 7]);
    let slower = |request: &Request| Request { arrival_ns: request.arrival_ns * k, ..*request };
    let requests: Vec<Request> = case.requests.iter().map(slower).collect();
    let config = scaled_device(case.config, k as f64)?;
    let (_, slow) = Case { config: &config, requests: &requests, ..*case }.run(&RunOptions::default())?;
    compare(log, &slow, |time| Time(time.0 * k))
}

fn scaled_device(config: &DeviceConfig, k: f64) -> Result<DeviceConfig, String> {
    let mut value = serde_json::to_value(config).map_err(|error| error.to_string())?;
    for key in ["read_us", "program_us", "erase_us", "command_us"] {
        scale(&mut value["timing"][key], k);
    }
    for (section, key) in
        [("buffer", "access_us"), ("nvm", "read_us"), ("nvm", "write_us"), ("nvm", "message_us")]
    {
        if let Some(time) = value.get_mut(section).and_then(|section| section.get_mut(key)) {
            scale(time, k);
        }
    }
    for (section, key) in
        [("timing", "bus_mb_per_s"), ("host", "link_mb_per_s"), ("buffer", "mb_per_s"), ("nvm", "mb_per_s")]
    {
        let rate = value[section][key].as_f64().unwrap_or(0.0);
        if rate > 0.0 {
            value[section][key] = json!(clock::rate((1e6 / rate).round() * k));
        }
    }
    serde_json::from_value(value).map_err(|error| error.to_string())
}

fn scale(value: &mut Value, k: f64) {
    if let Some(number) = value.as_f64() {
        *value = json!(number * k);
    } else if let Some(classes) = value.as_object_mut() {
        classes.values_mut().for_each(|class| scale(class, k));
    }
}

/// Each record of `found` is that of `log` with other times.
fn compare(log: &Log, found: &Log, time: impl Fn(Time) -> Time) -> Result<(), String> {
    let counts = |log: &Log| (log.requests.len(), log.commands.len());
    hold!(counts(log) == counts(found), "requests and commands: {:?} and {:?}", counts(log), counts(found));
    for (before, after) in log.requests.iter().zip(&found.requests) {
        let due = RequestRecord {
            request: Request { arrival_ns: after.request.arrival_ns, ..before.request },
            arrival: time(before.arrival),
            start: time(before.start),
            end: time(before.end),
            ..*before
        };
        hold!(*after == due, "{after:?} instead of {due:?}");
    }
    // Ports log commands of different dies in different orders.
    let in_order = |log: &Log| {
        let mut commands = log.commands.clone();
        commands.sort_by_key(|record| record.die);
        commands
    };
    for (before, after) in in_order(log).iter().zip(&in_order(found)) {
        let due = CommandRecord {
            start: time(before.start),
            end: time(before.end),
            transfer: (time(before.transfer.0), time(before.transfer.1)),
            ..*before
        };
        hold!(*after == due, "{after:?} instead of {due:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use ftlab_core::flash::cell::CellKind;

    use super::*;
    use crate::{drive, workload};

    #[test]
    #[ignore = "a long test: make test-long"]
    fn a_slower_drive_is_slower_in_everything() {
        let exact = |seed: &u64| Times::new(&drive::random(*seed)).are_exact();
        for seed in (1..200).filter(exact).take(50) {
            let config = drive::random(seed);
            let slow = scaled_device(&config, 3.0).unwrap();
            let (times, thrice) = (Times::new(&config), Times::new(&slow));
            let of = |times: &Times| {
                [times.command_ps, times.least_read_ps(), times.least_program_ps(), times.link_ps(8)]
            };
            assert_eq!(of(&times).map(|ps| 3 * ps), of(&thrice), "case {seed}");
            let spans: Vec<u64> = times.sectors_ps.iter().map(|ps| 3 * ps).collect();
            assert_eq!(spans, thrice.sectors_ps, "case {seed}");
        }
    }

    /// The laws are asked of what they are made for: of many runs each, with and without a past, a cache and a limit.
    #[test]
    #[ignore = "a long test: make test-long"]
    fn cases_are_of_all_kinds() {
        let cases: Vec<_> = (1..=450).map(drive::random).collect();
        let share = |is: &dyn Fn(&DeviceConfig) -> bool| cases.iter().filter(|config| is(config)).count();
        assert!(share(&|config| config.map_cache.kind.is_cache()) > 50);
        assert!(share(&|config| config.ftl.kind.kind() != FtlKind::Page) > 75);
        assert!(share(&|config| config.cell.kind.kind() == CellKind::Slc) > 50);
        assert!(share(&|config| config.precondition.layout().is_some()) > 100);
        assert!(share(&|config| config.precondition.aging().is_some()) > 50);
        assert!(share(&|config| config.host.depth().is_some()) > 150);
        assert!(share(&|config| config.host.stop() == Stop::LastArrival) > 10);
        assert!(share(&|config| Times::new(config).are_exact()) > 150);
        assert!(share(&|config| Times::new(config).are_above_zero()) > 200);
        assert!(share(&|config| ReservationPort::suits(config, &config.to_geometry())) > 30);
    }

    #[test]
    fn a_case_is_its_number() {
        for seed in 1..20 {
            let config = drive::random(seed);
            assert_eq!(config, drive::random(seed));
            assert_eq!(workload::random(&config, seed), workload::random(&config, seed));
        }
    }
}
