//! Everything several times.

use std::sync::Arc;

use ftlab_core::host::request::{Remark, Request, RequestSource, SourceError, SourceFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stage::{Fault, Transform, nanoseconds, refuse, refused, some_time};
use crate::keys::{TimeSchema, optional_micros};

/// Repeat the whole sequence N times; time goes on. The source is read anew each time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Repeat {
    /// How often in all, at least 1.
    pub times: u64,
    /// From the latest arrival of one round to the earliest of the next. The mean span between the arrivals of a round when
    /// absent, so that the rate goes on.
    #[serde(default, deserialize_with = "optional_micros", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<TimeSchema>")]
    pub gap_us: Option<f64>,
}

impl Transform for Repeat {
    fn validate(&self) -> Result<(), Fault> {
        if self.times == 0 {
            return refuse("times", 0, "must be at least 1");
        }
        some_time("gap_us", self.gap_us)
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        Arc::new(Again { inner, times: self.times, gap_ns: self.gap_us.map(nanoseconds), origin })
    }
}

#[derive(Clone)]
struct Again {
    inner: Arc<dyn SourceFactory>,
    times: u64,
    gap_ns: Option<u64>,
    origin: String,
}

impl SourceFactory for Again {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let source = self.inner.open(pass)?;
        let total = source.total_requests().and_then(|total| total.checked_mul(self.times));
        Ok(Box::new(Rounds {
            again: self.clone(),
            pass,
            source,
            total,
            rounds: 1,
            begin_ns: None,
            taken: 0,
            of_round: 0,
            earliest_ns: u64::MAX,
            latest_ns: 0,
        }))
    }
}

struct Rounds {
    again: Again,
    pass: u64,
    source: Box<dyn RequestSource>,
    total: Option<u64>,
    /// Rounds begun.
    rounds: u64,
    /// When the earliest request of this round arrives; absent in the first round, whose times stay.
    begin_ns: Option<u64>,
    taken: u64,
    /// Requests of this round.
    of_round: u64,
    /// Earliest and latest time of the first round, which those of the others are too.
    earliest_ns: u64,
    latest_ns: u64,
}

impl Rounds {
    /// Begin the next round, unless there is none or the source is empty.
    fn next_round(&mut self) -> Result<bool, SourceError> {
        if self.of_round == 0 || self.rounds == self.again.times {
            return Ok(false);
        }
        let span = self.latest_ns - self.earliest_ns;
        let gap = self.again.gap_ns.unwrap_or(span / (self.of_round - 1).max(1));
        let begin =
            self.begin_ns.unwrap_or(self.earliest_ns).checked_add(span).and_then(|end| end.checked_add(gap));
        let late =
            || refused(&self.again.origin, self.taken + 1, "would arrive after 2^64 nanoseconds".into());
        self.begin_ns = Some(begin.ok_or_else(late)?);
        self.source = self.again.inner.open(self.pass)?;
        self.rounds += 1;
        self.of_round = 0;
        Ok(true)
    }

    fn fill_by(
        &mut self,
        out: &mut Vec<Request>,
        max: usize,
        mut fill: impl FnMut(&mut dyn RequestSource, &mut Vec<Request>) -> Result<usize, SourceError>,
    ) -> Result<usize, SourceError> {
        let before = out.len();
        let mut count = fill(&mut *self.source, out)?;
        if count == 0 && max > 0 && self.next_round()? {
            count = fill(&mut *self.source, out)?;
        }
        for request in &mut out[before..] {
            let arrival = request.arrival_ns;
            self.of_round += 1;
            self.taken += 1;
            self.earliest_ns = self.earliest_ns.min(arrival);
            self.latest_ns = self.latest_ns.max(arrival);
            if let Some(begin) = self.begin_ns {
                let moved = begin.checked_add(arrival - self.earliest_ns);
                let late =
                    || refused(&self.again.origin, self.taken, "would arrive after 2^64 nanoseconds".into());
                request.arrival_ns = moved.ok_or_else(late)?;
            }
        }
        Ok(count)
    }
}

impl RequestSource for Rounds {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        self.fill_by(out, max, |source, out| source.fill(out, max))
    }

    fn fill_with_contents(
        &mut self,
        out: &mut Vec<Request>,
        contents: &mut Vec<u128>,
        max: usize,
    ) -> Result<usize, SourceError> {
        self.fill_by(out, max, |source, out| source.fill_with_contents(out, contents, max))
    }

    fn total_requests(&self) -> Option<u64> {
        self.total
    }

    fn fraction_done(&self) -> Option<f64> {
        let round = super::stage::share(self.source.as_ref(), self.of_round)?;
        Some(((self.rounds - 1) as f64 + round) / self.again.times as f64)
    }

    fn skipped_records(&self) -> u64 {
        // Those of the first round come again in each of the others.
        self.source.skipped_records()
    }

    fn remarks(&self) -> Vec<Remark> {
        self.source.remarks()
    }

    fn says_fua(&self) -> bool {
        self.source.says_fua()
    }
}
