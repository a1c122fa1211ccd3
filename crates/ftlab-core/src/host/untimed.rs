//! Driving without a clock: requests one after the other, as fast as they can be decided.

use crate::config::{DeviceConfig, Stop};
use crate::device::RunOptions;
use crate::error::{FlashResult, RunError};
use crate::flash::port::Count;
use crate::ftl::Ftl;
use crate::host::intake::Intake;
use crate::host::request::{Op, Request};
use crate::host::split::Splitter;
use crate::host::{CONTROL_INTERVAL, Drive};
use crate::metrics::books::Books;
use crate::metrics::{Observer, RequestRecord};
use crate::time::Time;

/// Run all requests of `intake`. What was counted stays in `books` whether or not this ends in an error.
///
/// # Errors
/// When a request, the source or the drive is at fault.
pub(crate) fn run<F: Ftl>(
    config: &DeviceConfig,
    drive: &mut Drive<'_, F, Count>,
    intake: &mut Intake,
    books: &mut Books,
    options: &RunOptions,
    observer: &mut dyn Observer,
) -> Result<(), RunError> {
    let splitter = Splitter::new(drive.flash.geometry());
    let wants_requests = observer.wants_requests();
    let samples = options.series.is_some();
    let last_arrival = config.host.stop() == Stop::LastArrival;
    let mut until_control = CONTROL_INTERVAL;
    loop {
        drive.look_ahead(intake, &splitter);
        if !intake.take()? || (last_arrival && !intake.has_more()?) {
            return Ok(());
        }
        let request = *intake.request();
        if let Some(page) = splitter.single(&request) {
            drive.access(request.op, request.lba, &page, ()).map_err(|error| *error)?;
            books.accessed(request.op, page.units);
        } else {
            several(drive, &request, &splitter, books).map_err(|error| *error)?;
        }
        books.completed(request.op, request.sectors);
        if samples {
            books.sample(&drive.ftl, &drive.flash, Time::ZERO);
        }
        if wants_requests {
            let (index, arrival) = (intake.index(), intake.arrival());
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
            drive.control.report(false, intake.counts().requests, intake.fraction());
            if drive.control.is_cancelled() {
                return Ok(());
            }
        }
    }
}

/// A request that is not one access.
fn several<F: Ftl>(
    drive: &mut Drive<'_, F, Count>,
    request: &Request,
    splitter: &Splitter,
    books: &mut Books,
) -> FlashResult<()> {
    if request.op == Op::Flush {
        drive.ftl.flush(&mut drive.flash, ())?;
    }
    for (lba, page) in splitter.split(request) {
        drive.access(request.op, lba, &page, ())?;
        books.accessed(request.op, page.units);
    }
    Ok(())
}
