//! From a source to requests that the drive can take: range, time and size are checked here.

use crate::config::{DeviceConfig, OpenKeys, OutOfRange, UnsortedTimes};
use crate::error::RunError;
use crate::host::request::{Op, Remark, Request, RequestSource};
use crate::time::{LATEST_DAYS, LATEST_NS, Time, nearest};

/// Requests fetched from a source at a time.
const BATCH: usize = 4096;

/// What the admission has counted.
#[derive(Debug, Clone, Default)]
pub struct AdmissionCounts {
    /// Requests taken from the source.
    pub requests: u64,
    /// Requests wholly beyond the end.
    pub rejected: u64,
    /// Requests that reach beyond the end: wrapped, cut off or rejected.
    pub out_of_range: u64,
    /// Requests that were earlier than one before them.
    pub unsorted: u64,
    /// Bad records that the source left out.
    pub skipped_records: u64,
    /// What the source says of its input.
    pub remarks: Vec<Remark>,
}

/// Whether a request that reaches beyond the end of a drive can be made to fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It fits now: it was wrapped or clipped.
    Fits,
    /// It was clipped, and nothing of it is left.
    Nothing,
    /// The device refuses such requests.
    Refused,
    /// It would wrap onto itself.
    LargerThanDrive,
}

/// Make `request`, which reaches beyond the end of a drive of `sectors` sectors, fit as `rule` says.
pub(crate) fn fit(request: &mut Request, sectors: u64, rule: OutOfRange) -> Fit {
    match rule {
        OutOfRange::Error => Fit::Refused,
        OutOfRange::Wrap if u64::from(request.sectors) > sectors => Fit::LargerThanDrive,
        OutOfRange::Wrap => {
            request.lba %= sectors;
            Fit::Fits
        }
        OutOfRange::Clip if request.lba >= sectors => Fit::Nothing,
        OutOfRange::Clip => {
            request.sectors = (sectors - request.lba) as u32;
            Fit::Fits
        }
    }
}

/// Takes requests from a source, in batches, and makes them fit the drive.
pub struct Admission {
    source: Box<dyn RequestSource>,
    batch: Vec<Request>,
    at: usize,
    left: u64,
    ended: bool,
    /// How times are used; `None`: not at all.
    open: Option<OpenKeys>,
    out_of_range: OutOfRange,
    sectors: u64,
    latest_ns: u64,
    total: Option<u64>,
    counts: AdmissionCounts,
    /// Arrival of the request taken last, which is the one before `at` in the batch.
    arrival: Time,
}

impl Admission {
    /// Requests of `source` for a drive of `sectors` host sectors, `limit` at most.
    pub fn new(
        mut source: Box<dyn RequestSource>,
        config: &DeviceConfig,
        sectors: u64,
        limit: Option<u64>,
    ) -> Self {
        if config.host.open().is_none() {
            source.ignore_arrivals();
        }
        let total = match (source.total_requests(), limit) {
            (Some(total), Some(limit)) => Some(total.min(limit)),
            (total, limit) => total.or(limit.filter(|_| source.fraction_done().is_none())),
        };
        Self {
            source,
            batch: Vec::with_capacity(BATCH + 1),
            at: 0,
            left: limit.unwrap_or(u64::MAX),
            ended: false,
            open: config.host.open().cloned(),
            out_of_range: config.host.out_of_range,
            sectors,
            latest_ns: 0,
            total,
            counts: AdmissionCounts::default(),
            arrival: Time::ZERO,
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> AdmissionCounts {
        AdmissionCounts {
            skipped_records: self.source.skipped_records(),
            remarks: self.source.remarks(),
            ..self.counts
        }
    }

    /// Requests taken so far.
    pub fn taken(&self) -> u64 {
        self.counts.requests
    }

    /// Share of the workload taken so far, when it can be told.
    pub fn fraction(&self) -> Option<f64> {
        match self.total {
            Some(total) => Some(self.counts.requests as f64 / total.max(1) as f64),
            None => self.source.fraction_done(),
        }
    }

    /// Where the next request stands in its batch.
    #[inline]
    pub fn position(&self) -> usize {
        self.at
    }

    /// `COUNT` requests from `ahead` places after the next one on, unchecked, when they have been fetched already.
    #[inline]
    pub fn peek<const COUNT: usize>(&self, ahead: usize) -> &[Request] {
        self.batch.get(self.at + ahead..self.at + ahead + COUNT).unwrap_or_default()
    }

    /// The request taken last, as the drive sees it.
    #[inline]
    pub fn request(&self) -> &Request {
        &self.batch[self.at - 1]
    }

    /// Its number in the workload, from 0.
    #[inline]
    pub fn index(&self) -> u64 {
        self.counts.requests - 1
    }

    /// When it arrives, scaled.
    #[inline]
    pub fn arrival(&self) -> Time {
        self.arrival
    }

    /// Whether another request will come.
    ///
    /// # Errors
    /// When the source cannot go on.
    pub fn has_more(&mut self) -> Result<bool, RunError> {
        Ok(self.at < self.batch.len() || self.refill()?)
    }

    /// Take the next request. False at the end.
    ///
    /// # Errors
    /// When the source cannot go on, or the drive cannot take the request.
    #[inline(always)]
    pub fn take(&mut self) -> Result<bool, RunError> {
        loop {
            if self.at == self.batch.len() && !self.refill()? {
                return Ok(false);
            }
            let Request { arrival_ns, lba, sectors, op, .. } = self.batch[self.at];
            self.at += 1;
            self.counts.requests += 1;
            if op == Op::Flush || sectors == 0 {
                self.without_sectors()?;
            } else if lba.checked_add(sectors.into()).is_none_or(|end| end > self.sectors) && !self.fit()? {
                continue;
            }
            self.arrival = self.arrives(arrival_ns)?;
            return Ok(true);
        }
    }

    #[cold]
    fn without_sectors(&mut self) -> Result<(), RunError> {
        let request = &mut self.batch[self.at - 1];
        if request.op != Op::Flush {
            return Err(self.refuse("it is empty: a read, write or trim needs at least one sector"));
        }
        (request.lba, request.sectors) = (0, 0);
        Ok(())
    }

    #[cold]
    fn refill(&mut self) -> Result<bool, RunError> {
        // The request taken last stays: it may still be asked for.
        let last = self.batch.last().copied();
        self.batch.clear();
        self.batch.extend(last);
        self.at = self.batch.len();
        if self.left == 0 || self.ended {
            return Ok(false);
        }
        let max = BATCH.min(self.left.min(BATCH as u64) as usize);
        let count = self.source.fill(&mut self.batch, max).map_err(RunError::Source)?;
        self.left -= count as u64;
        self.ended = count == 0;
        Ok(count > 0)
    }

    /// Make a request that reaches beyond the end fit; false when nothing of it is left.
    #[cold]
    fn fit(&mut self) -> Result<bool, RunError> {
        let fit = fit(&mut self.batch[self.at - 1], self.sectors, self.out_of_range);
        self.counts.out_of_range += u64::from(matches!(fit, Fit::Fits | Fit::Nothing));
        self.counts.rejected += u64::from(fit == Fit::Nothing);
        match fit {
            Fit::Fits => Ok(true),
            Fit::Nothing => Ok(false),
            Fit::LargerThanDrive => Err(self.refuse("it is larger than the whole drive")),
            Fit::Refused => {
                let why = format!(
                    "it reaches beyond the end of the drive, sector {}; choose host.out_of_range = \"wrap\" or \"clip\", or \
                     a larger drive",
                    self.sectors
                );
                Err(self.refuse(&why))
            }
        }
    }

    #[inline(always)]
    fn arrives(&mut self, ns: u64) -> Result<Time, RunError> {
        let Some(open) = &self.open else { return Ok(Time::ZERO) };
        if ns < self.latest_ns || open.time_scale != 1.0 || ns > LATEST_NS {
            let (time_scale, unsorted_times) = (open.time_scale, open.unsorted_times);
            return self.unusual_arrival(ns, time_scale, unsorted_times);
        }
        self.latest_ns = ns;
        Ok(Time::from_ns(ns))
    }

    #[cold]
    fn unusual_arrival(
        &mut self,
        mut ns: u64,
        time_scale: f64,
        unsorted_times: UnsortedTimes,
    ) -> Result<Time, RunError> {
        if ns < self.latest_ns {
            if unsorted_times == UnsortedTimes::Error {
                let why = format!(
                    "it arrives before one ahead of it ({} ns); put all in order with `--transform sort`, or choose \
                     host.unsorted_times = \"clamp\" to let it arrive at the latest time seen",
                    self.latest_ns
                );
                return Err(self.refuse(&why));
            }
            self.counts.unsorted += 1;
            ns = self.latest_ns;
        }
        self.latest_ns = ns;
        let scaled = if time_scale == 1.0 { ns } else { nearest(ns as f64 * time_scale) };
        if scaled > LATEST_NS {
            let why = format!("it arrives after more than {LATEST_DAYS} days, the longest run");
            return Err(self.refuse(&why));
        }
        Ok(Time::from_ns(scaled))
    }

    #[cold]
    fn refuse(&self, why: &str) -> RunError {
        let (index, request) = (self.index(), self.request());
        let at = self.open.as_ref().map_or_else(String::new, |_| format!(", {} ns", request.arrival_ns));
        RunError::Request(format!(
            "request {} of the workload ({} of {} sectors at sector {}{at}): {why}",
            index + 1,
            request.op.name(),
            request.sectors,
            request.lba,
        ))
    }
}
