//! The metrics of a run: what completed, how long it took, and the series over time.

use crate::buffer::front::BufferCounts;
use crate::cause::{CAUSES, CommandCounts};
use crate::config::DeviceConfig;
use crate::error::RunError;
use crate::flash::Flash;
use crate::flash::clock::{Clock, EventLedger};
use crate::flash::port::FlashPort;
use crate::geometry::SECTOR_BYTES;
use crate::geometry::{BlockId, Geometry};
use crate::host::Drive;
use crate::host::admission::AdmissionCounts;
use crate::host::model::{Feeder, HostModel};
use crate::host::request::Op;
use crate::host::warnings::{self, Evidence};
use crate::layer::Layer;
use crate::metrics::latency::Latency;
use crate::metrics::report::Report;
use crate::metrics::series::{Recorder, Series, SeriesEvery, Totals};
use crate::metrics::summary::{
    ByCause, EvictionSummary, FlashSummary, HostSummary, LatencyByOp, LatencySummary, MemorySummary,
    ParallelismSummary, PreconditionSummary, SCHEMA, Summary, VerifySummary, WearSummary, WriteAmplification,
};
use crate::nvm::cache::NvmCounts;
use crate::run::{RunControl, RunOutcome};
use crate::time::Time;

/// Busy time of the parts, from a port that keeps time.
#[derive(Debug, Clone)]
pub(crate) struct BusyTimes {
    /// Of each lane by cause.
    pub(crate) lanes_ps: Vec<[u64; CAUSES]>,
    pub(crate) channels_ps: Vec<u64>,
    pub(crate) port_bytes: u64,
    /// Commands that have not ended.
    pub(crate) unfinished: CommandCounts,
    /// When the last command ended: collections may go on after the last completion.
    pub(crate) idle_from: Time,
    /// What evictions of a write buffer have cost.
    pub(crate) events: EventLedger,
    /// How long it took to write what was held back at the end.
    pub(crate) drain_time: Time,
}

impl BusyTimes {
    fn by_cause_ps(&self) -> [u128; CAUSES] {
        std::array::from_fn(|cause| self.lanes_ps.iter().map(|unit| u128::from(unit[cause])).sum())
    }

    /// Over `span`, from the first arrival until the drive is idle.
    fn parallelism(&self, span: Time) -> ParallelismSummary {
        let die_busy_ps: Vec<u64> = self.lanes_ps.iter().map(|unit| unit.iter().sum()).collect();
        let mean = |ps: &[u64]| {
            let total: u128 = ps.iter().map(|&ps| u128::from(ps)).sum();
            if span.0 > 0 { total as f64 / span.0 as f64 } else { 0.0 }
        };
        let rounded = |ps: &[u64]| ps.iter().map(|&ps| Time(ps).as_ns()).collect();
        ParallelismSummary {
            mean_busy_channels: mean(&self.channels_ps),
            mean_busy_dies: mean(&die_busy_ps),
            span_ns: span.as_ns(),
            channel_busy_ns: rounded(&self.channels_ps),
            die_busy_ns: rounded(&die_busy_ps),
            evictions: None,
        }
    }

    /// What evictions have cost, on a drive with a write buffer.
    fn evictions(&self) -> EvictionSummary {
        let EventLedger { events, lanes_used, channels_used, elapsed_ps, gc_ps, .. } = self.events;
        let mean = |sum: u64| if events > 0 { sum as f64 / events as f64 } else { 0.0 };
        EvictionSummary {
            events_timed: events,
            event_dies_mean: mean(lanes_used),
            event_channels_mean: mean(channels_used),
            event_ns_mean: mean(elapsed_ps) / 1000.0,
            execution_ns: Time(elapsed_ps).as_ns(),
            write_ns: Time(elapsed_ps - gc_ps).as_ns(),
            gc_ns: Time(gc_ps).as_ns(),
            gc_share: if elapsed_ps > 0 { gc_ps as f64 / elapsed_ps as f64 } else { 0.0 },
        }
    }

    /// The times that a write buffer cannot see.
    fn add_times(&self, parts: &mut Report) -> Option<EvictionSummary> {
        let mut counts = parts.get::<BufferCounts>()?;
        let waits = counts.write_misses;
        counts.drain_ns = Some(self.drain_time.as_ns());
        counts.mean_wait_ns =
            Some(if waits > 0 { self.events.waited_ps as f64 / 1000.0 / waits as f64 } else { 0.0 });
        parts.add(&counts);
        Some(self.evictions())
    }
}

/// What one kind of request has done.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    completed: u64,
    bytes: u64,
    /// Mapping units touched.
    pages: u64,
}

/// Collects while a run goes on; [`summary`](Self::summary) tells at any time what it knows.
#[derive(Debug, Clone)]
pub(crate) struct RunMetrics {
    /// By operation.
    tallies: [Tally; 4],
    latency: [Latency; 4],
    /// Of requests that waited at all, and how many did not: most, in most runs.
    wait: Latency,
    without_wait: u64,
    recorder: Option<Recorder>,
    coarse: CoarseSeries,
    /// What the drive had lived through.
    precondition: Option<PreconditionSummary>,
    arrivals: Arrivals,
    first_arrival: Time,
    last_completion: Time,
}

/// How requests came, as far as the clock of the host shows it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Arrivals {
    /// Requests that have arrived and not completed.
    outstanding: u64,
    /// The same just after the last arrival.
    pub(crate) outstanding_at_last: u64,
    /// The last arrival.
    pub(crate) last: Time,
}

/// The series that every run keeps, whether or not somebody asked for one. Nothing is added up for it while requests
/// complete: its rows are differences of what is counted anyway.
#[derive(Debug, Clone)]
struct CoarseSeries {
    recorder: Recorder,
    /// Completions until the next row.
    left: u64,
    latency_max: Time,
    /// Sum and number of latencies at the last row.
    before: (u128, u64),
}

impl CoarseSeries {
    fn new() -> Self {
        let recorder = Recorder::coarse();
        Self { left: recorder.interval(), recorder, latency_max: Time::ZERO, before: (0, 0) }
    }

    /// The next row has those since the last one; `all` are the sum and the number of all until now.
    fn latencies(&mut self, all: (u128, u64)) {
        let before = std::mem::replace(&mut self.before, all);
        let max = std::mem::take(&mut self.latency_max);
        self.recorder.latencies(all.0 - before.0, all.1 - before.1, max);
    }

    /// Add a row; `latencies` are the sum and the number of all until now.
    fn row(&mut self, now: Time, totals: Totals, latencies: (u128, u64)) {
        self.latencies(latencies);
        self.recorder.row(now, totals);
        self.left = self.recorder.interval();
    }
}

impl RunMetrics {
    /// For a drive that has lived through `precondition`.
    pub(crate) fn new(series: Option<SeriesEvery>, precondition: Option<PreconditionSummary>) -> Self {
        Self {
            tallies: Default::default(),
            latency: std::array::from_fn(|_| Latency::new()),
            wait: Latency::new(),
            without_wait: 0,
            recorder: series.map(Recorder::new),
            coarse: CoarseSeries::new(),
            precondition,
            arrivals: Arrivals::default(),
            first_arrival: Time::NEVER,
            last_completion: Time::ZERO,
        }
    }

    /// The same, whose rows `control` hands on.
    pub(crate) fn watched(mut self, control: &RunControl) -> Self {
        if let Some(recorder) = &mut self.recorder {
            recorder.feed = control.feed();
        }
        self
    }

    /// A request has arrived.
    #[inline]
    pub(crate) fn arrived(&mut self, at: Time) {
        self.first_arrival = self.first_arrival.min(at);
        let outstanding = self.arrivals.outstanding + 1;
        self.arrivals = Arrivals { outstanding, outstanding_at_last: outstanding, last: at };
    }

    /// A request touches `units` mapping units.
    #[inline]
    pub(crate) fn accessed(&mut self, op: Op, units: u32) {
        self.tallies[op as usize].pages += u64::from(units);
    }

    /// A request has completed.
    #[inline]
    pub(crate) fn completed(&mut self, op: Op, sectors: u32) {
        let tally = &mut self.tallies[op as usize];
        tally.completed += 1;
        tally.bytes += u64::from(sectors) * u64::from(SECTOR_BYTES);
    }

    /// The part of the host's summary that is counted here.
    fn host(&self) -> HostSummary {
        let [reads, writes, trims, flushes] = Op::ALL.map(|op| self.tallies[op as usize]);
        HostSummary {
            completed: reads.completed + writes.completed + trims.completed + flushes.completed,
            reads: reads.completed,
            writes: writes.completed,
            trims: trims.completed,
            flushes: flushes.completed,
            read_bytes: reads.bytes,
            write_bytes: writes.bytes,
            trim_bytes: trims.bytes,
            read_pages: reads.pages,
            write_pages: writes.pages,
            ..HostSummary::default()
        }
    }

    /// When that request arrived, was handed to the drive, and ended.
    #[inline]
    pub(crate) fn timed(&mut self, op: Op, arrival: Time, start: Time, end: Time, can_wait: bool) {
        self.latency[op as usize].record(end.since(start));
        if start > arrival {
            self.wait.record(start - arrival);
        } else {
            self.without_wait += u64::from(can_wait);
        }
        self.last_completion = end;
        self.arrivals.outstanding -= 1;
        self.coarse.latency_max = self.coarse.latency_max.max(end.since(start));
        if let Some(recorder) = &mut self.recorder {
            recorder.latency(op, end.since(start));
        }
    }

    /// Whether there is a series.
    pub(crate) fn has_series(&self) -> bool {
        self.recorder.is_some()
    }

    /// Add a row to the series if one is due. `sample` adds what the host does not see.
    #[inline]
    pub(crate) fn sample(&mut self, now: Time, sample: impl FnOnce(&mut Totals)) {
        let Some(recorder) = &self.recorder else { return };
        let completed = self.tallies.iter().map(|tally| tally.completed).sum();
        if recorder.is_due(completed, now) {
            let mut totals = self.totals();
            sample(&mut totals);
            if let Some(recorder) = &mut self.recorder {
                recorder.row(now, totals);
            }
        }
    }

    /// Count a completion for the coarse series. True when that wants a row.
    #[inline(always)]
    pub(crate) fn is_coarse_due(&mut self) -> bool {
        self.coarse.left -= 1;
        self.coarse.left == 0
    }

    /// Add a row to the coarse series.
    #[cold]
    pub(crate) fn sample_coarse(&mut self, now: Time, sample: impl FnOnce(&mut Totals)) {
        let mut totals = self.totals();
        sample(&mut totals);
        let latencies = self.latencies();
        self.coarse.row(now, totals, latencies);
    }

    /// The last request has completed: end the series. What is drained after it is no part of them. `sample` adds what the host
    /// does not see, and for the coarse series `sample_flash` does.
    pub(crate) fn close_series(
        &mut self,
        sample: impl FnOnce(&mut Totals),
        sample_flash: impl FnOnce(&mut Totals),
    ) {
        self.coarse = self.closed_coarse(sample_flash);
        let mut totals = self.totals();
        if let Some(recorder) = &mut self.recorder {
            sample(&mut totals);
            recorder.close(self.last_completion, totals);
        }
    }

    /// The coarse series with its last interval cut short.
    fn closed_coarse(&self, sample: impl FnOnce(&mut Totals)) -> CoarseSeries {
        let mut coarse = self.coarse.clone();
        let mut totals = self.totals();
        sample(&mut totals);
        coarse.latencies(self.latencies());
        coarse.recorder.close(self.last_completion, totals);
        coarse
    }

    /// Sum and number of all latencies.
    fn latencies(&self) -> (u128, u64) {
        let sums = self.latency.iter().map(|latency| (latency.sum_ps(), latency.count()));
        sums.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    fn totals(&self) -> Totals {
        let host = self.host();
        Totals {
            requests: host.completed,
            arrived: host.completed + self.arrivals.outstanding,
            reads: host.reads,
            writes: host.writes,
            bytes: host.read_bytes + host.write_bytes,
            write_units: host.write_pages,
            ..Totals::default()
        }
    }

    /// The series, its last interval cut short.
    pub(crate) fn series(&mut self, sample: impl FnOnce(&mut Totals)) -> Option<Series> {
        let recorder = self.recorder.take()?;
        let mut totals = self.totals();
        sample(&mut totals);
        Some(recorder.finish(self.last_completion, totals))
    }

    /// What the host knows so far, and what the `parts` of the drive have counted. Flash, wear and memory stay empty, and
    /// what the caller alone knows is left for it to fill in.
    pub(crate) fn summary(
        &self,
        config: &DeviceConfig,
        parts: Report,
        admission: AdmissionCounts,
        timed: bool,
    ) -> Summary {
        let span = self.last_completion.since(self.first_arrival);
        let seconds = span.0 as f64 / 1e12;
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        let counted = self.host();
        let host = HostSummary {
            requests: admission.requests,
            rejected: admission.rejected,
            out_of_range: admission.out_of_range,
            unsorted: admission.unsorted,
            skipped_records: admission.skipped_records,
            unfinished: admission.requests - admission.rejected - counted.completed,
            unmapped_read_pages: parts.unmapped_reads,
            read_modify_writes: parts.read_modify_writes,
            iops: rate(counted.completed),
            bytes_per_second: rate(counted.read_bytes + counted.write_bytes),
            first_arrival_ns: if timed && self.first_arrival != Time::NEVER {
                self.first_arrival.as_ns()
            } else {
                0
            },
            ..counted
        };
        Summary {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").into(),
            device: config.name.clone(),
            workload: String::new(),
            stand_in: None,
            seed: 0,
            partial: false,
            simulated_ns: self.last_completion.as_ns(),
            wall_seconds: 0.0,
            latency_ns: timed.then(|| self.latency_by_op()),
            host_wait_ns: timed.then(|| self.wait_by_all()).flatten(),
            flash: FlashSummary::default(),
            busy_ns: None,
            write_amplification: None,
            parts,
            wear: WearSummary::default(),
            parallelism: None,
            precondition: self.precondition.clone(),
            verify: None,
            memory: MemorySummary::default(),
            warnings: warnings::of_source(admission.remarks),
            host,
        }
    }

    /// How busy the parts of a drive were.
    fn parallelism(&self, busy: &BusyTimes) -> ParallelismSummary {
        busy.parallelism(busy.idle_from.max(self.last_completion).since(self.first_arrival))
    }

    fn wait_by_all(&self) -> Option<LatencySummary> {
        let mut wait = self.wait.clone();
        wait.record_many(Time::ZERO, self.without_wait);
        (wait.count() > 0).then(|| wait.summary())
    }

    fn latency_by_op(&self) -> LatencyByOp {
        let mut all = Latency::new();
        for latency in &self.latency {
            all.merge(latency);
        }
        let of = |op: Op| self.latency[op as usize].summary();
        LatencyByOp {
            all: all.summary(),
            read: of(Op::Read),
            write: of(Op::Write),
            trim: of(Op::Trim),
            flush: of(Op::Flush),
        }
    }
}

/// What a host with a clock has measured.
pub(crate) fn measured<L: Layer<C>, C: Clock, F: Feeder>(
    config: &DeviceConfig,
    model: &mut HostModel<L, C, F>,
    counts: AdmissionCounts,
    error: Option<RunError>,
) -> RunOutcome {
    let HostModel { drive, metrics, unfinished, drain_time, .. } = model;
    let port = &mut drive.flash.port;
    let (idle_from, port_bytes) = (port.idle_from(), port.table_bytes());
    let ledger = port.ledger();
    let busy = BusyTimes {
        lanes_ps: ledger.busy_ps.clone(),
        channels_ps: ledger.channel_busy_ps.clone(),
        port_bytes,
        unfinished: *unfinished,
        idle_from,
        events: ledger.events.clone(),
        drain_time: *drain_time,
    };
    audited(config, drive, counts, metrics, Some(&busy), error)
}

/// Audit the drive and write its summary.
pub(crate) fn audited<L: Layer<P>, P: FlashPort>(
    config: &DeviceConfig,
    drive: &Drive<L, P>,
    counts: AdmissionCounts,
    metrics: &mut RunMetrics,
    busy: Option<&BusyTimes>,
    mut error: Option<RunError>,
) -> RunOutcome {
    let Drive { top, flash, shadow, .. } = drive;
    let mut parts = Report::default();
    if let Some(counts) = flash.backup_counts() {
        parts.add(&counts);
    }
    top.report(&mut parts);
    let evictions = busy.and_then(|busy| busy.add_times(&mut parts));
    add_primary_amplification(flash, &mut parts);
    let mut summary = metrics.summary(config, parts, counts, busy.is_some());
    let table_bytes = flash.table_bytes() + top.table_bytes() + busy.map_or(0, |busy| busy.port_bytes);
    let bytes_per_page = table_bytes as f64 / flash.geometry().physical_units() as f64;
    let unfinished = busy.map(|busy| busy.unfinished).unwrap_or_default();
    summary.flash = FlashSummary::from_counts(&flash.counts, &unfinished);
    summary.busy_ns =
        busy.map(|busy| ByCause::from_counts(busy.by_cause_ps().map(|ps| ((ps + 500) / 1000) as u64)));
    summary.write_amplification = write_amplification(flash, summary.host.write_pages);
    summary.wear = wear(config, flash);
    summary.parallelism = busy.map(|busy| ParallelismSummary { evictions, ..metrics.parallelism(busy) });
    summary.memory = MemorySummary { table_bytes, bytes_per_page };
    if let Some(shadow) = shadow {
        let audit = top.verify(&flash.nand);
        summary.verify = Some(VerifySummary { tables_agree: audit.is_ok(), ..shadow.counts() });
        error = error.or(audit.err().map(RunError::Mismatch));
    }
    let coarse = warned(config, &mut summary, metrics, |totals| drive.sample_flash(totals));
    RunOutcome { summary, series: metrics.series(|totals| drive.sample(totals)), coarse, error }
}

/// Write the warnings of a run into its summary, when all else is there. Returns the coarse series, which they are about.
pub(crate) fn warned(
    config: &DeviceConfig,
    summary: &mut Summary,
    metrics: &RunMetrics,
    sample: impl FnOnce(&mut Totals),
) -> Series {
    let coarse = metrics.closed_coarse(sample).recorder;
    let course: Vec<(Time, &Totals)> = coarse.ends().collect();
    let (arrivals, first_arrival) = (metrics.arrivals, metrics.first_arrival);
    let mut warnings = warnings::all(&Evidence { config, summary, course: &course, arrivals, first_arrival });
    warnings.append(&mut summary.warnings);
    summary.warnings = warnings;
    // Everything is in its rows.
    coarse.finish(metrics.last_completion, Totals::default())
}

/// What a non-volatile cache cannot see: the programs that its evictions have brought about (NVM-based write amplification
/// reduction, section IV).
fn add_primary_amplification<P: FlashPort>(flash: &Flash<P>, parts: &mut Report) {
    use crate::cause::{Cause, Command};
    let Some(mut counts) = parts.get::<NvmCounts>() else { return };
    let data = [Cause::Host, Cause::CacheFlush, Cause::Gc, Cause::Merge, Cause::WearLevel];
    let pages: u64 = [Command::Program, Command::Copyback]
        .iter()
        .flat_map(|command| data.map(|cause| flash.counts[*command as usize][cause as usize]))
        .sum();
    let units = pages as f64 * f64::from(flash.geometry().slots_per_page);
    let written = counts.evictions_host_dirty + counts.pages_flushed;
    if written > 0 {
        counts.write_amplification_primary = units / written as f64;
    }
    parts.add(&counts);
}

fn write_amplification<P: FlashPort>(flash: &Flash<P>, host_units: u64) -> Option<WriteAmplification> {
    if host_units == 0 {
        return None;
    }
    use crate::cause::{Cause, Command};
    let share = |pages: u64| pages as f64 * f64::from(flash.geometry().slots_per_page) / host_units as f64;
    let of = |cause: Cause| {
        let programs = flash.counts[Command::Program as usize][cause as usize];
        share(programs + flash.counts[Command::Copyback as usize][cause as usize])
    };
    Some(WriteAmplification::new(share(flash.pages_programmed()), of))
}

fn wear<P: FlashPort>(config: &DeviceConfig, flash: &Flash<P>) -> WearSummary {
    let geometry = flash.geometry();
    let erases = || (0..geometry.blocks()).map(|block| flash.nand.erases(BlockId(block)));
    let count = f64::from(geometry.blocks());
    let mean = erases().map(f64::from).sum::<f64>() / count;
    let variance = erases().map(|erases| (f64::from(erases) - mean).powi(2)).sum::<f64>() / count;
    let most = erases().max().unwrap_or(0);
    let rated = config.cell.rated_pe_cycles;
    WearSummary {
        erase_min: erases().min().unwrap_or(0),
        erase_mean: mean,
        erase_max: most,
        erase_stdev: variance.sqrt(),
        die_erase_mean: die_erase_mean(flash, geometry),
        rated_share_used: (rated > 0).then(|| f64::from(most) / f64::from(rated)),
    }
}

fn die_erase_mean<P: FlashPort>(flash: &Flash<P>, geometry: &Geometry) -> Vec<f64> {
    let mut erases = vec![0_u64; geometry.dies() as usize];
    for block in (0..geometry.blocks()).map(BlockId) {
        erases[geometry.die_of(geometry.plane_of(block)).index()] += u64::from(flash.nand.erases(block));
    }
    let blocks = f64::from(geometry.blocks() / geometry.dies());
    erases.into_iter().map(|erases| erases as f64 / blocks).collect()
}
