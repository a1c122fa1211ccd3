//! Driving without a clock: requests one after the other, as fast as they can be decided.

use crate::access::Access;
use crate::config::{DeviceConfig, Stop};
use crate::error::{FlashResult, RunError};
use crate::flash::port::FlashPort;
use crate::host::admission::Admission;
use crate::host::request::{Op, Request};
use crate::host::run_metrics::RunMetrics;
use crate::host::split::Splitter;
use crate::host::{CONTROL_INTERVAL, Drive};
use crate::layer::Layer;
use crate::metrics::series::Totals;
use crate::metrics::{Observer, RequestRecord};
use crate::run::RunControl;
use crate::time::Time;

/// What requests are driven into without a clock: a drive, or a part of one that is modelled alone.
pub(crate) trait Driven {
    /// A workload tells the future: ask the processor for what its next requests will touch.
    fn look_ahead(&self, admission: &Admission, splitter: &Splitter) {
        let _ = (admission, splitter);
    }
    /// Do one access, which starts at sector `lba`.
    fn access(&mut self, op: Op, lba: u64, access: &Access<'_>) -> FlashResult<()>;
    /// Do a flush, which is request `group`.
    fn flush(&mut self, group: u32) -> FlashResult<()>;
    /// The last request has been done: write what is held back.
    fn drain(&mut self) -> FlashResult<()> {
        Ok(())
    }
    /// Add what has come of it until now.
    fn sample(&self, totals: &mut Totals);
    /// The same without the columns of its parts.
    fn sample_flash(&self, totals: &mut Totals) {
        let _ = totals;
    }
}

impl<L: Layer<P>, P: FlashPort<Ticket = ()>> Driven for Drive<L, P> {
    #[inline(always)]
    fn look_ahead(&self, admission: &Admission, splitter: &Splitter) {
        Drive::look_ahead(self, admission, splitter);
    }

    #[inline(always)]
    fn access(&mut self, op: Op, lba: u64, access: &Access<'_>) -> FlashResult<()> {
        Drive::access(self, op, lba, access, ())
    }

    fn flush(&mut self, group: u32) -> FlashResult<()> {
        Drive::flush(self, group, ())
    }

    fn drain(&mut self) -> FlashResult<()> {
        self.top.drain(&mut self.flash)
    }

    fn sample(&self, totals: &mut Totals) {
        Drive::sample(self, totals);
    }

    fn sample_flash(&self, totals: &mut Totals) {
        Drive::sample_flash(self, totals);
    }
}

/// Run all requests of `admission`. What was counted stays in `metrics` whether or not this ends in an error.
///
/// # Errors
/// When a request, the source or the drive is at fault.
pub(crate) fn run<D: Driven>(
    config: &DeviceConfig,
    driven: &mut D,
    splitter: &Splitter,
    admission: &mut Admission,
    metrics: &mut RunMetrics,
    control: &RunControl,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let wants_requests = observer.wants_requests();
    let samples = metrics.has_series();
    let last_arrival = config.host.stop() == Stop::LastArrival;
    let mut until_control = CONTROL_INTERVAL;
    loop {
        driven.look_ahead(admission, splitter);
        if !admission.take()? || (last_arrival && !admission.has_more()?) {
            metrics.close_series(|totals| driven.sample(totals), |totals| driven.sample_flash(totals));
            // A run that ends with an arrival leaves everything as it is then.
            return if last_arrival { Ok(()) } else { driven.drain().map_err(|error| *error) };
        }
        let request = *admission.request();
        let group = admission.index() as u32;
        if splitter.is_single(&request) {
            let access = splitter.single(&request, group);
            driven.access(request.op, request.lba, &access).map_err(|error| *error)?;
            metrics.accessed(request.op, access.units);
        } else {
            several(driven, &request, group, splitter, metrics, control).map_err(|error| *error)?;
        }
        metrics.completed(request.op, request.sectors);
        if metrics.is_coarse_due() {
            metrics.sample_coarse(Time::ZERO, |totals| driven.sample_flash(totals));
        }
        if samples {
            metrics.sample(Time::ZERO, |totals| driven.sample(totals));
        }
        if wants_requests {
            let (index, arrival) = (admission.index(), admission.arrival());
            observer.on_request(&RequestRecord {
                index,
                request,
                arrival,
                start: Time::ZERO,
                end: Time::ZERO,
            });
        }
        until_control -= 1;
        if until_control == 0 {
            until_control = CONTROL_INTERVAL;
            control.report(false, admission.taken(), admission.fraction());
            if control.is_cancelled() {
                return Ok(());
            }
        }
    }
}

/// A request that is not one access.
fn several<D: Driven>(
    driven: &mut D,
    request: &Request,
    group: u32,
    splitter: &Splitter,
    metrics: &mut RunMetrics,
    control: &RunControl,
) -> FlashResult<()> {
    if request.op == Op::Flush {
        driven.flush(group)?;
    }
    for (lba, access) in splitter.split(request, group) {
        if control.is_cancelled() {
            return Err(Box::new(RunError::Interrupted));
        }
        driven.access(request.op, lba, &access)?;
        metrics.accessed(request.op, access.units);
    }
    Ok(())
}
