//! Driving with a clock: the requests of a workload, at their own times or as completions bring them.

use crate::config::{DeviceConfig, Stop};
use crate::error::RunError;
use crate::flash::clock::Clock;
use crate::host::Drive;
use crate::host::admission::Admission;
use crate::host::model::{Feeder, HostModel};
use crate::host::request::Request;
use crate::host::run_metrics::RunMetrics;
use crate::host::split::Splitter;
use crate::layer::Layer;
use crate::metrics::explain::explainer::Explainer;
use crate::metrics::{Observer, RequestRecord};
use crate::run::{RunControl, RunOptions};
use crate::time::Time;

/// Events of the host between two looks at the control of a run. Then what was told of requests is passed on, too: not much may be told
/// in between, or it leaves the caches of the processor.
const STEPS: u64 = 1024;

/// Feeds the host with a workload.
pub(crate) struct WorkloadFeeder<'r> {
    pub(crate) admission: Admission,
    observer: &'r mut dyn Observer,
    /// Where parts are wanted.
    explainer: Option<Explainer>,
    closed: bool,
    stop: Stop,
}

impl Feeder for WorkloadFeeder<'_> {
    const PAUSES: bool = false;

    fn is_closed(&self) -> bool {
        self.closed
    }

    #[inline(always)]
    fn ends_run(&mut self) -> Result<bool, RunError> {
        Ok(self.stop == Stop::LastArrival && !self.admission.has_more()?)
    }

    #[inline(always)]
    fn take<L: Layer<C>, C: Clock>(
        &mut self,
        drive: &Drive<L, C>,
        splitter: &Splitter,
    ) -> Result<bool, RunError> {
        drive.look_ahead(&self.admission, splitter);
        self.admission.take()
    }

    #[inline(always)]
    fn request(&self) -> &Request {
        self.admission.request()
    }

    #[inline(always)]
    fn index(&self) -> u64 {
        self.admission.index()
    }

    #[inline(always)]
    fn arrival(&self) -> Time {
        self.admission.arrival()
    }

    fn wants_completions(&self) -> bool {
        self.observer.wants_requests()
    }

    #[inline]
    fn completed(&mut self, record: &RequestRecord) {
        self.observer.on_request(record);
    }

    fn wants_parts(&self) -> bool {
        self.explainer.is_some()
    }
}

/// Run all requests of `admission`. Returns the host as it is afterwards, and why it ended early, if it did.
pub(crate) fn run<'r, L: Layer<C>, C: Clock>(
    config: &DeviceConfig,
    drive: Drive<L, C>,
    admission: Admission,
    metrics: RunMetrics,
    options: &RunOptions,
    control: &RunControl,
    (observer, explainer): (&'r mut dyn Observer, Option<Explainer>),
) -> (HostModel<L, C, WorkloadFeeder<'r>>, Result<(), RunError>) {
    let host = &config.host;
    let closed = host.open().is_none();
    let feeder = WorkloadFeeder { admission, observer, explainer, closed, stop: host.stop() };
    let mut model = HostModel::new(host, host.depth(), drive, metrics, options.series.is_some(), feeder);
    run_events(&mut model, control);
    model.drain();
    if model.stopped || model.in_drive > 0 {
        model.unfinished = model.drive.flash.port.cut();
    }
    explain(&mut model);
    flush_command_log(&mut model, true);
    if let Some(explainer) = model.feeder.explainer.take() {
        explainer.heard_all(model.feeder.observer);
    }
    let result = model.error.take().map_or_else(|| model.check_clock_overflow(), Err);
    (model, result)
}

fn run_events<L: Layer<C>, C: Clock>(model: &mut HostModel<L, C, WorkloadFeeder<'_>>, control: &RunControl) {
    model.begin();
    let mut until_control = STEPS;
    while model.step_before(Time::NEVER) {
        until_control -= 1;
        if until_control == 0 || model.stopped {
            until_control = STEPS;
            explain(model);
            flush_command_log(model, false);
            let admission = &model.feeder.admission;
            control.report(false, admission.taken(), admission.fraction());
            model.closing |= control.is_cancelled();
            if model.stopped {
                return;
            }
        }
    }
}

/// Pass on what was told of requests since the last time.
fn explain<L: Layer<C>, C: Clock>(model: &mut HostModel<L, C, WorkloadFeeder<'_>>) {
    let WorkloadFeeder { explainer, observer, .. } = &mut model.feeder;
    if let (Some(explainer), Some(teller)) = (explainer, model.drive.flash.port.teller()) {
        explainer.hear(&mut teller.batch, *observer);
    }
}

fn flush_command_log<L: Layer<C>, C: Clock>(model: &mut HostModel<L, C, WorkloadFeeder<'_>>, all: bool) {
    let ledger = model.drive.flash.port.ledger();
    if let Some(log) = &mut ledger.memory_log {
        log.drain(..).for_each(|record| model.feeder.observer.on_memory(&record));
    }
    if let Some(log) = &mut ledger.log
        && (all || log.len() >= 4096)
    {
        for record in log.drain(..) {
            model.feeder.observer.on_command(&record);
        }
    }
}
