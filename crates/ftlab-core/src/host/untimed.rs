//! Driving without a clock: requests one after the other, as fast as they can be decided.

use crate::config::{DeviceConfig, Stop};
use crate::error::{FlashResult, RunError};
use crate::flash::port::CountingPort;
use crate::host::admission::Admission;
use crate::host::request::{Op, Request};
use crate::host::run_metrics::RunMetrics;
use crate::host::split::Splitter;
use crate::host::{CONTROL_INTERVAL, Drive};
use crate::layer::Layer;
use crate::metrics::{Observer, RequestRecord};
use crate::run::{RunControl, RunOptions};
use crate::time::Time;

/// Run all requests of `admission`. What was counted stays in `metrics` whether or not this ends in an error.
///
/// # Errors
/// When a request, the source or the drive is at fault.
pub(crate) fn run<L: Layer<CountingPort>>(
    config: &DeviceConfig,
    drive: &mut Drive<L, CountingPort>,
    admission: &mut Admission,
    metrics: &mut RunMetrics,
    options: &RunOptions,
    control: &RunControl,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let splitter = Splitter::new(drive.flash.geometry());
    let wants_requests = observer.wants_requests();
    let samples = options.series.is_some();
    let last_arrival = config.host.stop() == Stop::LastArrival;
    let mut until_control = CONTROL_INTERVAL;
    loop {
        drive.look_ahead(admission, &splitter);
        if !admission.take()? || (last_arrival && !admission.has_more()?) {
            return Ok(());
        }
        let request = *admission.request();
        let group = admission.index() as u32;
        if splitter.is_single(&request) {
            let access = splitter.single(&request, group);
            drive.access(request.op, request.lba, &access, ()).map_err(|error| *error)?;
            metrics.accessed(request.op, access.units);
        } else {
            several(drive, &request, group, &splitter, metrics).map_err(|error| *error)?;
        }
        metrics.completed(request.op, request.sectors);
        if samples {
            metrics.sample(&drive.top, &drive.flash, Time::ZERO);
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
            control.report(false, admission.counts().requests, admission.fraction());
            if control.is_cancelled() {
                return Ok(());
            }
        }
    }
}

/// A request that is not one access.
fn several<L: Layer<CountingPort>>(
    drive: &mut Drive<L, CountingPort>,
    request: &Request,
    group: u32,
    splitter: &Splitter,
    metrics: &mut RunMetrics,
) -> FlashResult<()> {
    if request.op == Op::Flush {
        drive.top.flush(&mut drive.flash, ())?;
    }
    for (lba, access) in splitter.split(request, group) {
        drive.access(request.op, lba, &access, ())?;
        metrics.accessed(request.op, access.units);
    }
    Ok(())
}
