//! Driving the mapping cache alone (`model = "mapping_cache"`): requests, cache, summary.

use crate::access::Access;
use crate::config::DeviceConfig;
use crate::error::{FlashResult, RunError, refuse};
use crate::ftl::page::GcCounts;
use crate::host::admission::Admission;
use crate::host::look_ahead;
use crate::host::request::{Op, SourceFactory};
use crate::host::run_metrics::{RunMetrics, warned};
use crate::host::split::Splitter;
use crate::host::untimed::{self, Driven};
use crate::layer::STAGES;
use crate::mapcache::alone::CacheAlone;
use crate::mapcache::cache::Intent;
use crate::metrics::Observer;
use crate::metrics::report::Report;
use crate::metrics::series::Totals;
use crate::metrics::summary::{MemorySummary, WearSummary, WriteAmplification};
use crate::run::{RunControl, RunOptions, RunOutcome};

impl Driven for CacheAlone {
    #[inline(always)]
    fn look_ahead(&self, admission: &Admission, splitter: &Splitter) {
        look_ahead(
            admission,
            splitter,
            || STAGES,
            |lpns, stage| {
                for lpn in lpns {
                    CacheAlone::look_ahead(self, *lpn, stage);
                }
            },
        );
    }

    #[inline]
    fn access(&mut self, op: Op, _: u64, access: &Access<'_>) -> FlashResult<()> {
        match op {
            Op::Read => CacheAlone::access(self, access, Intent::Read),
            Op::Write => CacheAlone::access(self, access, Intent::Write),
            Op::Trim => CacheAlone::access(self, access, Intent::Trim),
            Op::Flush => {}
        }
        Ok(())
    }

    fn flush(&mut self, _: u32) -> FlashResult<()> {
        Ok(())
    }

    fn sample(&self, totals: &mut Totals) {
        CacheAlone::sample(self, &mut totals.parts);
    }
}

/// Run a workload through the mapping cache of a validated configuration, and report. There is no clock.
///
/// # Errors
/// As [`simulate`](crate::device::simulate), and when verification is asked for: there are no data.
pub(crate) fn run(
    config: &DeviceConfig,
    workload: &dyn SourceFactory,
    options: &RunOptions,
    control: &RunControl,
    observer: &mut dyn Observer,
) -> Result<RunOutcome, RunError> {
    if options.verify {
        let expected = "holds no data that could be verified: run it without, or choose \"drive\"";
        return refuse("model", "\"mapping_cache\"", expected).map_err(RunError::Config);
    }
    let geometry = config.to_geometry();
    let mut cache = CacheAlone::new(config, &geometry).expect("validated: there is a mapping cache");
    let splitter = Splitter::new(&geometry);
    let source = workload.open(0).map_err(RunError::Source)?;
    let limit = if control.is_cancelled() { Some(0) } else { options.requests };
    let mut admission = Admission::new(source, config, splitter.sectors(), limit);
    let mut metrics = RunMetrics::new(options.series, None).watched(control);
    let result = untimed::run(config, &mut cache, &splitter, &mut admission, &mut metrics, control, observer);
    let mut parts = Report::default();
    parts.add(&GcCounts::default());
    parts.add(&cache.summary());
    let mut summary = metrics.summary(config, parts, admission.counts(), false);
    summary.seed = options.seed;
    summary.partial = result.is_err() || control.is_cancelled();
    let programs_nothing = || WriteAmplification::new(0.0, |_| 0.0);
    summary.write_amplification = (summary.host.write_pages > 0).then(programs_nothing);
    let table_bytes = cache.table_bytes();
    let bytes_per_page = table_bytes as f64 / f64::from(geometry.logical_units);
    summary.memory = MemorySummary { table_bytes, bytes_per_page };
    let rated = config.cell.rated_pe_cycles > 0;
    summary.wear = WearSummary {
        die_erase_mean: vec![0.0],
        rated_share_used: rated.then_some(0.0),
        ..WearSummary::default()
    };
    let coarse = warned(config, &mut summary, &metrics, |_| {});
    Ok(RunOutcome {
        summary,
        coarse,
        series: metrics.series(|totals| Driven::sample(&cache, totals)),
        error: result.err(),
    })
}
