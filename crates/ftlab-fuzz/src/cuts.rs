//! The power is cut in the middle of a random run: at commands and at instants, and again while the drive recovers.
//!
//! On every drive, a mount succeeds after any cut, its tables hold together, and it goes on. On cells of one bit, and with a
//! backup, nothing is lost that was promised; otherwise a torn program takes earlier pages with it.

use ftlab_core::config::DeviceConfig;
use ftlab_core::crash::{CrashOptions, CutAt, Examined, record};
use ftlab_core::device::RunError;
use ftlab_core::host::request::{Request, VecSource};
use ftlab_core::run::RunControl;

/// Hold the requests of a case against power cuts at `points` commands and as many instants; returns how many were made.
///
/// # Errors
/// The first cut that was not survived.
pub fn check(config: &DeviceConfig, requests: &[Request], seed: u64, points: u64) -> Result<u64, String> {
    let is_safe = config.cell.kind.kind().bits() == 1 || config.lsb_backup.copies().is_some();
    let mut made = 0;
    for (at, nested) in [(CutAt::Command, 1), (CutAt::Time, 0)] {
        let options = CrashOptions { seed, at, nested, ..CrashOptions::default() };
        let source = VecSource::new(requests.to_vec());
        let control = RunControl::default();
        let recording = match record(config, &source, &options, &control) {
            Ok(recording) => recording,
            // The drive cannot be aged with these requests.
            Err(RunError::Config(_)) => return Ok(0),
            Err(error) => return Err(format!("recording: {error}")),
        };
        let points = recording.spread(recording.points().min(points));
        let mut bad: Option<Examined> = None;
        let examined = recording.examine(points, &control, &mut |examined| {
            made += 1;
            let cut = &examined.cut;
            if bad.is_none() && (cut.failure.is_some() || (is_safe && !cut.is_survived())) {
                bad = Some(examined);
            }
        });
        examined.map_err(|error| error.to_string())?;
        if let Some(Examined { cut, losses }) = bad {
            return Err(format!("{at:?}, {cut:?}, {losses:?}"));
        }
    }
    Ok(made)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{drive, workload};

    #[test]
    fn cases_have_cuts_of_both_kinds() {
        let made = |seed| {
            let config = crate::clock::dressed(drive::random(seed), seed);
            check(&config, &workload::random(&config, seed)[..20], seed, 8).unwrap()
        };
        assert!((1..10).map(made).sum::<u64>() > 100);
    }
}
