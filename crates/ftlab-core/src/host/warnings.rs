//! What is said beside the numbers of a run: every warning with its rule and the reason for it.
//!
//! A warning is one function and one line in [`WARNINGS`]. From that line come its place in every summary, its row in the
//! documentation, and its place in every test that loops over the list.

use crate::buffer::front::BufferCounts;
use crate::config::{AgedWhen, DeviceConfig, PreconditionPattern};
use crate::ftl::kinds::FtlKind;
use crate::ftl::page::GcCounts;
use crate::ftl::page::capacity::reserved_blocks;
use crate::host::request::{Remark, Request};
use crate::host::run_metrics::Arrivals;
use crate::metrics::drift::drift;
use crate::metrics::series::Totals;
use crate::metrics::spread::LEAST_BEYOND;
use crate::metrics::summary::{LatencySummary, Summary};
use crate::metrics::warning::{STAND_IN, Warning};
use crate::time::Time;

/// A kind of warning.
#[derive(Debug, Clone, Copy)]
pub struct Kind {
    /// Its name in summaries.
    pub code: &'static str,
    /// When it is given.
    pub when: &'static str,
    /// Why the bound is where it is.
    pub why: &'static str,
    /// `None` where only the source of the requests knows, or whoever opened it.
    rule: Option<fn(&Evidence<'_>) -> Option<Said>>,
}

/// What a rule has found: the sentence, the advice, and the numbers.
type Said = (String, String, Vec<(&'static str, f64)>);

/// All warnings, in the order in which they stand in summaries.
pub const WARNINGS: &[Kind] = &[
    Kind {
        code: "not_steady",
        when: "The host wrote, and the drive is not in a steady state: write amplification after some part of the run is unlike \
               that of the whole. Or the host overwrote too little of the drive to know.",
        why: "A difference counts from 2 % on, which shows in two digits, if it is six standard errors of the noise between \
              neighbours. Where a difference of 10 % between the halves of a run could not be told from that noise, nothing is \
              known. A drive that was not aged to a steady state must be overwritten twice, as SNIA's test specification has it \
              (workload-independent preconditioning). One that was aged with other writes than its workload's counts as steady if it \
              goes on as it was aged, within 5 %, over its whole capacity. Over a third, collection still lives on what was written \
              before. One that its own workload has aged counts as steady if its write amplification is as it was aged, within 5 %, \
              or if each plane was collected once on average, and nothing changed. What changes within the run is then the \
              workload's own course, such as a sweep over the drive.",
        rule: Some(not_steady),
    },
    Kind {
        code: "not_aged",
        when: "Preconditioning ended at its bound, before its goal.",
        why: "The state that the device file asks for was not reached.",
        rule: Some(not_aged),
    },
    Kind {
        code: "overloaded",
        when: "Requests arrive at their own times, and more of them wait as time goes on. More than 2 % of all were unserved \
               when the last one arrived, and half as many again as in the second quarter. In the last quarter there were \
               never fewer than in the second on average, nor than a quarter of those at its end. If the drive was aged to a \
               steady state, its busiest die or channel also works longer than requests arrive, or the queue was as long for the \
               whole second half. Or all arrive at one moment.",
        why: "Of a load that is a share x above what the drive can do, the share x / (1 + x) waits at the end. Where only one die \
              has too much to do, it is the part of that die: 2 % are a tenth too much for one of five. A queue that only varies \
              has no larger part of it in the last quarter. A drive that stands still for a while, and catches up, lets the \
              queue run empty, and an overload never does. A run may end while an aged drive stands still: it has time for all \
              that arrives, and the queue was empty for half of the run. What a drive that was not aged does last, it goes on doing.",
        rule: Some(overloaded),
    },
    Kind {
        code: "time_unit",
        when: "Times of arrival look like those of another unit. There are more than ten million requests a second, or less \
               than one a minute. Or the drive takes a hundred times as long as they say.",
        why: "No drive serves ten million requests a second. Nobody records a host that asks once a minute. Units differ by a \
              thousand.",
        rule: Some(time_unit),
    },
    Kind {
        code: "out_of_range",
        when: "More than a tenth of the requests reach beyond the end of the drive, and were wrapped, cut or left out.",
        why: "A percentile may then be one of requests that nobody made.",
        rule: Some(out_of_range),
    },
    Kind {
        code: "unwritten_reads",
        when: "With a clock, more than a tenth of the pages that reads ask for were never written.",
        why: "The drive answers them with zeros and without flash: latencies of reads are then partly those of an empty drive.",
        rule: Some(unwritten_reads),
    },
    Kind {
        code: "moved_in_time",
        when: "More than a tenth of the requests arrive before one ahead of them, and were moved to its time.",
        why: "As for `out_of_range`.",
        rule: Some(moved_in_time),
    },
    Kind {
        code: "few_samples",
        when: "A percentile of reads, writes, trims or flushes has fewer than ten samples beyond it.",
        why: "Of ten samples, a third more or less is chance. 99 % need 1,000 requests, and 99.9 % need 10,000.",
        rule: Some(few_samples),
    },
    Kind {
        code: "little_spare",
        when: "Blocks that are being filled, and those that collection keeps free, take more than half of the spare blocks of a \
               plane.",
        why: "What is left for stale data is then less than half of what `ftl.over_provisioning` promises, and write \
              amplification twice what it suggests or more.",
        rule: Some(little_spare),
    },
    Kind {
        code: "uneven_dies",
        when: "One die (or plane, where they work independently) is busy at least half of the time, and the others on average \
               less than a quarter as long.",
        why: "The drive is as fast as that die. Where requests are few, the busiest die is idle most of the time.",
        rule: Some(uneven_dies),
    },
    Kind {
        code: "not_drained",
        when: "More than a thousandth of the requests had not completed when the run ended.",
        why: "The slowest requests are the ones that are missing, and p99.9 is one of them.",
        rule: Some(not_drained),
    },
    Kind {
        code: ADDRESS_UNIT,
        when: "Addresses or sizes at the beginning of a trace are all multiples of 512, as bytes are. Only its extension says that \
               they are sectors.",
        why: "Sizes in sectors are multiples of 512 if all requests are whole multiples of 256 KiB, which few hosts do. Taken for \
              sectors, bytes are 512 times as far and as much.",
        rule: None,
    },
    Kind {
        code: LOST_EVENTS,
        when: "The tool that recorded the trace says that it lost events.",
        why: "What is missing is missing where the load was highest: that is when buffers of a tracer overflow.",
        rule: None,
    },
    Kind {
        code: UNUSED_EVENTS,
        when: "Of the events of a recording, such as queued and dispatched, another one than the one that was read moves more than \
               four times as much data.",
        why: "Merging and splitting of requests change their number and not their data. Layers of devices show the same data \
              again, as LVM over RAID does: three times, seldom four.",
        rule: None,
    },
    Kind {
        code: STAND_IN,
        when: "The workload stands for a recording, and was generated.",
        why: "It has the statistics that were published, and nothing else of the recording.",
        rule: None,
    },
];

/// Sectors of a trace look like bytes.
pub const ADDRESS_UNIT: &str = "address_unit";
/// The tool that recorded a trace lost events.
pub const LOST_EVENTS: &str = "lost_events";
/// Most of a recording is in events that were not read.
pub const UNUSED_EVENTS: &str = "unused_events";

/// The warnings among what a source says of its input.
pub(crate) fn of_source(remarks: Vec<Remark>) -> Vec<Warning> {
    let warning = |Remark { code, text, advice, found }| Some(Warning::new(code?, text, advice, &found));
    remarks.into_iter().filter_map(warning).collect()
}

/// Capacities that the host must overwrite of a drive that nobody aged (SNIA, Solid State Storage Performance Test
/// Specification, workload-independent preconditioning).
const ENOUGH_OVERWRITTEN: f64 = 2.0;
/// Of a drive that was aged by other writes, this share, and write amplification as it was aged within this share.
const LEAST_OVERWRITTEN: f64 = 1.0;
const AS_AGED: f64 = 0.05;
/// Of all requests, so many wait at the end of an overload, and at least this number.
const BACKLOG: f64 = 0.02;
const LEAST_BACKLOG: u64 = 32;
const GROWTH: f64 = 1.5;
/// Of those that wait at the end, this share waited throughout the last quarter: of a queue that grows evenly, three quarters.
const STANDING: f64 = 0.25;
/// Requests a second, and seconds from one to the next, that no host has.
const MOST_RATE: f64 = 1e7;
const LONGEST_GAP_S: f64 = 60.0;
/// The drive takes so many times as long as the arrivals.
const OTHER_UNIT: f64 = 100.0;
/// Requests that tell anything about the times of a workload.
const ENOUGH_ARRIVALS: u64 = 100;
const MANY: f64 = 0.1;
const UNFINISHED: f64 = 0.001;
const BUSY: f64 = 0.5;
const UNEVEN: f64 = 0.25;

/// What warnings are made from.
pub(crate) struct Evidence<'a> {
    pub(crate) config: &'a DeviceConfig,
    /// Everything but the warnings.
    pub(crate) summary: &'a Summary,
    /// Ends of intervals of the coarse series.
    pub(crate) course: &'a [(Time, &'a Totals)],
    pub(crate) arrivals: Arrivals,
    pub(crate) first_arrival: Time,
}

/// All warnings about a run that can be known here.
pub(crate) fn all(evidence: &Evidence<'_>) -> Vec<Warning> {
    let said = |kind: &Kind| {
        let (text, advice, found) = kind.rule?(evidence)?;
        Some(Warning::new(kind.code, text, advice, &found))
    };
    WARNINGS.iter().filter_map(said).collect()
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 10.0 || percent == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.2} %") }
}

fn seconds_text(seconds: f64) -> String {
    match seconds {
        long if long >= 1.0 => format!("{long:.3} s"),
        short if short >= 1e-3 => format!("{:.3} ms", short * 1e3),
        short => format!("{:.3} us", short * 1e6),
    }
}

impl Evidence<'_> {
    /// Capacities that the host has written.
    fn overwritten(&self) -> f64 {
        self.summary.host.write_pages as f64 / self.config.logical_pages().max(1) as f64
    }

    /// From the first arrival to the last, where requests arrive at their own times.
    fn arriving(&self) -> Option<Time> {
        self.config.host.open()?;
        self.summary.latency_ns.as_ref()?;
        (self.first_arrival != Time::NEVER).then(|| self.arrivals.last.since(self.first_arrival))
    }

    fn arrived(&self) -> u64 {
        self.summary.host.completed + self.summary.host.unfinished
    }

    /// How long the busiest die or channel works for `all` requests that arrived, also for those that it has not served.
    fn busiest(&self, all: u64) -> Time {
        let Some(parallelism) = &self.summary.parallelism else { return Time::ZERO };
        let busy = parallelism.die_busy_ns.iter().chain(&parallelism.channel_busy_ns).max();
        let share = all as f64 / self.summary.host.completed.max(1) as f64;
        Time::from_ns((busy.copied().unwrap_or(0) as f64 * share) as u64)
    }

    /// Numbers of requests that wait or are served, between two shares of the arrivals: the mean and the least. What waited
    /// last before that counts as well: a drive that stands still tells nothing meanwhile.
    fn outstanding(&self, arriving: Time, from: f64, to: f64) -> (f64, f64) {
        let of = |(end, totals): &(Time, &Totals)| {
            let at = end.since(self.first_arrival).0 as f64 / arriving.0 as f64;
            (at, (totals.arrived - totals.requests) as f64)
        };
        let course = self.course.iter().filter(|(end, _)| *end >= self.first_arrival).map(of);
        let known: Vec<(f64, f64)> = course.take_while(|(at, _)| *at <= to).collect();
        let begin = known.partition_point(|(at, _)| *at <= from).saturating_sub(1);
        let counts: Vec<f64> = known[begin..].iter().map(|(_, count)| *count).collect();
        let Some(least) = counts.iter().copied().reduce(f64::min) else { return (0.0, 0.0) };
        (counts.iter().sum::<f64>() / counts.len() as f64, least)
    }

    /// The writes that have aged the drive to a steady state.
    fn aged_by(&self) -> Option<PreconditionPattern> {
        let aging = self.config.precondition.aging()?;
        let reached = self.summary.precondition.as_ref().is_some_and(|aged| aged.reached);
        (reached && matches!(aging.until, AgedWhen::Steady(_))).then_some(aging.pattern)
    }

    fn is_aged_by_workload(&self) -> bool {
        self.aged_by() == Some(PreconditionPattern::Workload)
    }

    /// Write amplification when ageing ended.
    fn aged_to(&self) -> Option<f64> {
        self.summary.precondition.as_ref().and_then(|aged| aged.write_amplification)
    }

    /// Whether write amplification is what it was when ageing ended.
    fn is_as_aged(&self) -> bool {
        let now = self.summary.write_amplification.as_ref();
        self.aged_to().zip(now).is_some_and(|(then, now)| (now.total / then - 1.0).abs() <= AS_AGED)
    }

    /// Whether the drive was in the steady state of this workload from the beginning, as far as it is known.
    fn began_steady(&self) -> bool {
        match self.aged_by() {
            Some(PreconditionPattern::Workload) => true,
            Some(_) => self.overwritten() >= LEAST_OVERWRITTEN && self.is_as_aged(),
            None => false,
        }
    }
}

fn not_steady(evidence: &Evidence<'_>) -> Option<Said> {
    let whole = evidence.summary.write_amplification.as_ref()?.total;
    // Memory before flash may have taken all that was written: for good, if that was much.
    let has_written = evidence.summary.host.write_pages > 0 && evidence.overwritten() < ENOUGH_OVERWRITTEN;
    if whole == 0.0 && !has_written {
        return None;
    }
    if evidence.is_aged_by_workload() && evidence.is_as_aged() {
        // What changes within the run is the course of the workload, and nothing is left to advise.
        return None;
    }
    let overwritten = evidence.overwritten();
    let mut sums = vec![(0, 0)];
    sums.extend(evidence.course.iter().map(|(_, totals)| (totals.write_units, totals.programmed_units)));
    let moved = drift(&sums);
    // Until planes have been collected, write amplification is anything.
    let collections = evidence.summary.parts.get::<GcCounts>().map_or(u64::MAX, |gc| gc.collections);
    let tells = collections >= evidence.config.geometry.all_planes() || !evidence.is_aged_by_workload();
    let began_steady = evidence.began_steady() && tells;
    let enough = (overwritten >= ENOUGH_OVERWRITTEN && moved.is_ok()) || began_steady;
    let mut found = vec![("write_amplification", whole), ("drive_overwritten", overwritten)];
    let written = format!("the host overwrote {} of the drive", percent(overwritten));
    let text = match moved.ok().flatten() {
        Some(moved) => {
            found.extend([("before", moved.before), ("after", moved.after)]);
            // What a buffer drains at the end comes after the course of the run.
            let (units, programmed) = sums[sums.len() - 1];
            let buffer = &evidence.config.buffer;
            let drains = buffer.writes_back() && buffer.keys().is_some_and(|keys| keys.drain_at_end);
            let whole = if drains {
                format!(
                    "{:.3}, or {whole:.3} with what was drained,",
                    programmed as f64 / units.max(1) as f64
                )
            } else {
                format!("{whole:.3}")
            };
            format!(
                "write amplification was {:.3} at first and {:.3} later, so {whole} describes no state of the drive; {written}",
                moved.before, moved.after
            )
        }
        None if enough => return None,
        None if overwritten >= ENOUGH_OVERWRITTEN => format!(
            "{written}, and write amplification varies too much to know whether it stays at {whole:.3}"
        ),
        None if let Some(then) = evidence.aged_to().filter(|_| evidence.is_aged_by_workload()) => {
            found.push(("write_amplification_aged", then));
            format!(
                "write amplification was {whole:.3}, and {then:.3} when ageing ended: {written}, too little to know which will last"
            )
        }
        None => format!(
            "{written}, too little to know whether write amplification stays at {whole:.3}: expected {} or more",
            percent(if evidence.aged_by().is_some() { LEAST_OVERWRITTEN } else { ENOUGH_OVERWRITTEN })
        ),
    };
    let longer = "or let the host write more and leave the beginning out (`ftlab study steady`)";
    let advice = if evidence.is_aged_by_workload() {
        "let the host write more, as much as the drive holds".into()
    } else {
        format!("set precondition.kind = \"steady\" with precondition.pattern = \"workload\", {longer}")
    };
    Some((text, advice, found))
}

fn not_aged(evidence: &Evidence<'_>) -> Option<Said> {
    let aged = evidence.summary.precondition.as_ref().filter(|aged| !aged.reached)?;
    let written = aged.pages_written as f64 / evidence.config.logical_pages().max(1) as f64;
    let text = format!(
        "preconditioning ({}) did not reach its goal: it ended after writing {} of the drive",
        aged.kind,
        percent(written)
    );
    let advice =
        "make precondition.max_drive_writes larger, or precondition.tolerance or free_blocks easier to reach";
    Some((text, advice.into(), vec![("drive_written", written)]))
}

fn overloaded(evidence: &Evidence<'_>) -> Option<Said> {
    let arriving = evidence.arriving()?;
    let (all, waiting) = (evidence.arrived(), evidence.arrivals.outstanding_at_last);
    if waiting < LEAST_BACKLOG || waiting as f64 <= BACKLOG * all as f64 {
        return None;
    }
    let advice = "spread them (host.time_scale above 1, a smaller rate_iops), or choose host.arrival = \"closed\"; latencies of an \
                  overloaded drive grow with the length of the run";
    let found = vec![("waiting_at_last_arrival", waiting as f64), ("requests", all as f64)];
    if arriving == Time::ZERO {
        let text = format!("all {all} requests arrive at one moment, and wait for each other");
        return Some((text, advice.into(), found));
    }
    let standing = STANDING * waiting as f64;
    let (second, _) = evidence.outstanding(arriving, 0.25, 0.5);
    let (last, least) = evidence.outstanding(arriving, 0.75, 1.0);
    if last.max(waiting as f64) < GROWTH * second.max(1.0) || least < second.max(standing) {
        return None;
    }
    // What an aged drive does last is part of its course: the work of all, or a queue of long standing, is a proof.
    let has_time = evidence.busiest(all) <= arriving;
    if evidence.began_steady() && has_time && evidence.outstanding(arriving, 0.5, 1.0).1 < standing {
        return None;
    }
    let text = format!(
        "requests arrive faster than the drive serves them: {waiting} of {all} ({}) had not been served when the last one arrived",
        percent(waiting as f64 / all as f64)
    );
    Some((text, advice.into(), found))
}

fn time_unit(evidence: &Evidence<'_>) -> Option<Said> {
    let arriving = evidence.arriving()?;
    let (all, host) = (evidence.arrived(), &evidence.summary.host);
    let scale = evidence.config.host.open().map_or(1.0, |open| open.time_scale);
    if all < ENOUGH_ARRIVALS || arriving == Time::ZERO || scale == 0.0 {
        return None;
    }
    let seconds = arriving.0 as f64 / 1e12;
    let gap = seconds / scale / all as f64;
    let taken = Time::from_ns(evidence.summary.simulated_ns).since(evidence.first_arrival).0 as f64 / 1e12;
    let found = vec![("mean_gap_seconds", gap), ("arriving_seconds", seconds), ("taken_seconds", taken)];
    let text = if let Some(text) = strange_gap(gap) {
        text
    } else if taken > OTHER_UNIT * seconds && host.unfinished == 0 {
        let times = taken / seconds;
        format!(
            "requests arrive within {} and the drive takes {times:.0} times as long: their times look like those of a larger unit",
            seconds_text(seconds)
        )
    } else {
        return None;
    };
    Some((text, UNIT_ADVICE.into(), found))
}

/// What looks like another unit of a mean time from one request to the next.
fn strange_gap(seconds: f64) -> Option<String> {
    if seconds * MOST_RATE < 1.0 {
        let rate = 1.0 / seconds;
        Some(format!("{rate:.0} requests arrive in a second: their times look like those of a larger unit"))
    } else if seconds > LONGEST_GAP_S {
        Some(format!("a request arrives every {seconds:.0} s: their times look like those of a smaller unit"))
    } else {
        None
    }
}

/// Times of arrival of a trace as far as it has been read: what they tell of it before any drive has seen them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    requests: u64,
    unsorted: u64,
    first_ns: Option<u64>,
    latest_ns: u64,
}

impl Times {
    /// See the next requests.
    pub fn see(&mut self, requests: &[Request]) {
        self.requests += requests.len() as u64;
        for request in requests {
            self.first_ns.get_or_insert(request.arrival_ns);
            self.unsorted += u64::from(request.arrival_ns < self.latest_ns);
            self.latest_ns = self.latest_ns.max(request.arrival_ns);
        }
    }

    /// What there is to say of them, by the bounds of the warnings of runs.
    pub fn remarks(&self) -> Vec<Remark> {
        let seconds = self.latest_ns.saturating_sub(self.first_ns.unwrap_or(0)) as f64 / 1e9;
        let gap = seconds / self.requests.max(1) as f64;
        let known = self.requests >= ENOUGH_ARRIVALS && seconds > 0.0;
        let unit = strange_gap(gap).filter(|_| known).map(|text| Remark {
            code: Some("time_unit"),
            text,
            advice: UNIT_ADVICE.into(),
            found: vec![("mean_gap_seconds", gap), ("arriving_seconds", seconds)],
        });
        let share = self.unsorted as f64 / self.requests.max(1) as f64;
        let moved = (share > MANY).then(|| Remark {
            code: Some("moved_in_time"),
            text: format!(
                "{} of {} requests ({}) arrive before one ahead of them",
                self.unsorted,
                self.requests,
                percent(share)
            ),
            advice: SORT_ADVICE.into(),
            found: vec![("share", share)],
        });
        unit.into_iter().chain(moved).collect()
    }
}

/// What to do about times of another unit, and about requests out of order.
const UNIT_ADVICE: &str =
    "say the unit where the trace is read, as --format columns:... does, or set host.time_scale";
const SORT_ADVICE: &str = "put the requests in the order of their arrival with `--transform sort`, also where volumes follow each other";

/// `count` of all requests, if they are many.
fn many(evidence: &Evidence<'_>, count: u64) -> Option<(f64, String)> {
    let all = evidence.summary.host.requests;
    let share = count as f64 / all.max(1) as f64;
    (share > MANY).then(|| (share, format!("{count} of {all} requests ({})", percent(share))))
}

fn out_of_range(evidence: &Evidence<'_>) -> Option<Said> {
    let (share, who) = many(evidence, evidence.summary.host.out_of_range)?;
    let text = format!("{who} reach beyond the end of the drive and were moved or cut");
    let advice = "choose a larger drive, or `--transform compact`; if the trace was for a smaller one, its addresses may have \
                  another unit";
    Some((text, advice.into(), vec![("share", share)]))
}

fn unwritten_reads(evidence: &Evidence<'_>) -> Option<Said> {
    let host = &evidence.summary.host;
    evidence.summary.latency_ns.as_ref()?;
    // What a buffer reads ahead, nobody has asked for.
    let ahead = evidence.summary.parts.get::<BufferCounts>().map_or(0, |buffer| buffer.prefetched_pages);
    let unwritten = host.unmapped_read_pages.saturating_sub(ahead);
    let share = unwritten as f64 / host.read_pages.max(1) as f64;
    if share <= MANY {
        return None;
    }
    let text = format!(
        "{unwritten} of {} pages that reads asked for ({}) were never written, and are answered without flash",
        host.read_pages,
        percent(share)
    );
    let advice = "set precondition.kind = \"fill\", so that every page holds data";
    Some((text, advice.into(), vec![("share", share)]))
}

fn moved_in_time(evidence: &Evidence<'_>) -> Option<Said> {
    let (share, who) = many(evidence, evidence.summary.host.unsorted)?;
    let text = format!("{who} arrive before one ahead of them and were moved to its time");
    Some((text, SORT_ADVICE.into(), vec![("share", share)]))
}

fn few_samples(evidence: &Evidence<'_>) -> Option<Said> {
    let latency = evidence.summary.latency_ns.as_ref()?;
    let of: [(&'static str, &LatencySummary); 4] = [
        ("read", &latency.read),
        ("write", &latency.write),
        ("trim", &latency.trim),
        ("flush", &latency.flush),
    ];
    let few = |count: u64, beyond: f64| count as f64 * beyond < LEAST_BEYOND as f64;
    let told: Vec<String> = of
        .iter()
        .filter(|(_, summary)| summary.count > 0 && few(summary.count, 0.001))
        .map(|(op, summary)| {
            let named: Vec<&str> = [("p50", 0.5), ("p90", 0.1), ("p99", 0.01), ("p99.9", 0.001)]
                .into_iter()
                .filter(|(_, beyond)| few(summary.count, *beyond))
                .map(|(name, _)| name)
                .collect();
            format!("{} of {} {op} requests", named.join(", "), summary.count)
        })
        .collect();
    if told.is_empty() {
        return None;
    }
    let found =
        of.iter().filter(|(_, summary)| summary.count > 0).map(|(op, summary)| (*op, summary.count as f64));
    let text = format!("percentiles with fewer than ten samples beyond them: {}", told.join("; "));
    Some((text, "run more requests: p99 needs 1000 of a kind, and p99.9 needs 10000".into(), found.collect()))
}

fn little_spare(evidence: &Evidence<'_>) -> Option<Said> {
    let config = evidence.config;
    let is_page = config.ftl.kind.kind() == FtlKind::Page;
    if !is_page || evidence.summary.write_amplification.as_ref().is_none_or(|whole| whole.total == 0.0) {
        return None;
    }
    let blocks = f64::from(config.geometry.blocks_per_plane);
    let spare = blocks * (1.0 - config.logical_pages() as f64 / config.physical_units() as f64);
    // Blocks that are free when a victim is begun ahead of need.
    let ahead = config.ftl.gc_ahead().map_or(0, |most| most - config.ftl.gc_low_free_blocks);
    let taken = reserved_blocks(config) as f64 + f64::from(ahead);
    if taken <= spare / 2.0 {
        return None;
    }
    let text = format!(
        "of {spare:.1} spare blocks in a plane of {blocks:.0}, {taken:.0} are open or kept free: little is left for stale data"
    );
    let advice =
        "make geometry.blocks_per_plane or ftl.over_provisioning larger, or ftl.gc_low_free_blocks smaller";
    let advice = if ahead > 0 { format!("{advice}, or set ftl.gc_pace = \"block\"") } else { advice.into() };
    Some((text, advice, vec![("spare_blocks", spare), ("taken_blocks", taken)]))
}

fn uneven_dies(evidence: &Evidence<'_>) -> Option<Said> {
    let parallelism = evidence.summary.parallelism.as_ref()?;
    let busy = &parallelism.die_busy_ns;
    let (at, most) = busy.iter().enumerate().max_by_key(|(_, ns)| **ns)?;
    let (span, others) =
        (parallelism.span_ns as f64, busy.len().checked_sub(1).filter(|others| *others > 0)?);
    let mean = (busy.iter().sum::<u64>() - most) as f64 / others as f64;
    let most = *most as f64;
    if span == 0.0 || most < BUSY * span || mean >= UNEVEN * most {
        return None;
    }
    let text = format!(
        "die {at} was busy {} of the time, and the others {} on average: the drive is as fast as that one",
        percent(most / span),
        percent(mean / span)
    );
    let spread = "spread what the host reads and writes over more addresses";
    let advice = if evidence.config.ftl.placement.goes_by_address() {
        format!("set ftl.striping = \"dynamic\", or {spread}")
    } else {
        spread.into()
    };
    Some((text, advice, vec![("busiest_share", most / span), ("others_share", mean / span)]))
}

fn not_drained(evidence: &Evidence<'_>) -> Option<Said> {
    let host = &evidence.summary.host;
    if host.unfinished as f64 <= UNFINISHED * host.requests as f64 {
        return None;
    }
    let text =
        format!("{} of {} requests had not completed when the run ended", host.unfinished, host.requests);
    let advice = "set host.stop = \"drained\", or read latencies as those of the requests that did complete";
    Some((text, advice.into(), vec![("unfinished", host.unfinished as f64)]))
}
