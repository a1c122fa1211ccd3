//! From a source to requests that the drive can take: range, time and size are checked here.

use crate::config::{Arrival, DeviceConfig, HostConfig, OutOfRange, UnsortedTimes};
use crate::device::RunError;
use crate::host::request::{Op, Request, RequestSource};
use crate::time::Time;

/// Requests fetched from a source at a time.
const BATCH: usize = 4096;

/// Latest arrival, in nanoseconds: half of the range of time is left for the work after it.
const LATEST_NS: u64 = 9_200_000_000_000_000;

/// A request that the drive takes.
#[derive(Debug, Clone, Copy)]
pub struct Admitted {
    /// Its number in the workload, from 0.
    pub index: u64,
    /// As the drive sees it.
    pub request: Request,
    /// When it arrives, scaled.
    pub arrival: Time,
}

/// What the intake has counted.
#[derive(Debug, Clone, Copy, Default)]
pub struct IntakeCounts {
    /// Requests taken from the source.
    pub requests: u64,
    /// Requests wholly beyond the end.
    pub rejected: u64,
    /// Requests cut off or wrapped.
    pub out_of_range: u64,
    /// Requests that were earlier than one before them.
    pub unsorted: u64,
}

/// Takes requests from a source, in batches, and makes them fit the drive.
pub struct Intake {
    source: Box<dyn RequestSource>,
    batch: Vec<Request>,
    at: usize,
    left: u64,
    ended: bool,
    host: HostConfig,
    sectors: u64,
    latest_ns: u64,
    total: Option<u64>,
    counts: IntakeCounts,
}

impl Intake {
    /// Requests of `source` for a drive of `sectors` host sectors, `limit` at most.
    pub fn new(
        source: Box<dyn RequestSource>,
        config: &DeviceConfig,
        sectors: u64,
        limit: Option<u64>,
    ) -> Self {
        let total = match (source.total_requests(), limit) {
            (Some(total), Some(limit)) => Some(total.min(limit)),
            (total, limit) => total.or(limit.filter(|_| source.fraction_done().is_none())),
        };
        Self {
            source,
            batch: Vec::with_capacity(BATCH),
            at: 0,
            left: limit.unwrap_or(u64::MAX),
            ended: false,
            host: config.host.clone(),
            sectors,
            latest_ns: 0,
            total,
            counts: IntakeCounts::default(),
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> IntakeCounts {
        self.counts
    }

    /// Share of the workload taken so far, when it can be told.
    pub fn fraction(&self) -> Option<f64> {
        match self.total {
            Some(total) => Some(self.counts.requests as f64 / total.max(1) as f64),
            None => self.source.fraction_done(),
        }
    }

    /// The request `ahead` places after the next one, unchecked, when it has been fetched already.
    #[inline]
    pub fn peek(&self, ahead: usize) -> Option<&Request> {
        self.batch.get(self.at + ahead)
    }

    /// The next request, or `None` at the end.
    ///
    /// # Errors
    /// When the source cannot go on, or the drive cannot take the request.
    #[inline(always)]
    pub fn take(&mut self) -> Result<Option<Admitted>, RunError> {
        loop {
            if self.at == self.batch.len() && !self.refill()? {
                return Ok(None);
            }
            let mut request = self.batch[self.at];
            self.at += 1;
            let index = self.counts.requests;
            self.counts.requests += 1;
            if request.op == Op::Flush {
                (request.lba, request.sectors) = (0, 0);
            } else if request.sectors == 0 {
                return Err(Self::refuse(
                    index,
                    &request,
                    "it is empty: a read, write or trim needs at least one sector",
                ));
            } else if request.lba.checked_add(request.sectors.into()).is_none_or(|end| end > self.sectors)
                && !self.fit(index, &mut request)?
            {
                continue;
            }
            let arrival = self.arrival(index, &request)?;
            return Ok(Some(Admitted { index, request, arrival }));
        }
    }

    #[cold]
    fn refill(&mut self) -> Result<bool, RunError> {
        self.batch.clear();
        self.at = 0;
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
    fn fit(&mut self, index: u64, request: &mut Request) -> Result<bool, RunError> {
        match self.host.out_of_range {
            OutOfRange::Error => {
                let why = format!(
                    "it reaches beyond the end of the drive, sector {}; choose host.out_of_range = \"wrap\" or \"clip\", or \
                     a larger drive",
                    self.sectors
                );
                Err(Self::refuse(index, request, &why))
            }
            OutOfRange::Wrap if u64::from(request.sectors) > self.sectors => {
                Err(Self::refuse(index, request, "it is larger than the whole drive"))
            }
            OutOfRange::Wrap => {
                self.counts.out_of_range += 1;
                request.lba %= self.sectors;
                Ok(true)
            }
            OutOfRange::Clip => {
                self.counts.out_of_range += 1;
                if request.lba >= self.sectors {
                    self.counts.rejected += 1;
                    return Ok(false);
                }
                request.sectors = (self.sectors - request.lba) as u32;
                Ok(true)
            }
        }
    }

    #[inline(always)]
    fn arrival(&mut self, index: u64, request: &Request) -> Result<Time, RunError> {
        if self.host.arrival == Arrival::Closed {
            return Ok(Time::ZERO);
        }
        let ns = request.arrival_ns;
        if ns < self.latest_ns || self.host.time_scale != 1.0 || ns > LATEST_NS {
            return self.unusual_arrival(index, request);
        }
        self.latest_ns = ns;
        Ok(Time::from_ns(ns))
    }

    #[cold]
    fn unusual_arrival(&mut self, index: u64, request: &Request) -> Result<Time, RunError> {
        let mut ns = request.arrival_ns;
        if ns < self.latest_ns {
            if self.host.unsorted_times == UnsortedTimes::Error {
                let why = format!(
                    "it arrives before the one ahead of it ({} ns); choose host.unsorted_times = \"clamp\" to let it arrive \
                     at the latest time seen",
                    self.latest_ns
                );
                return Err(Self::refuse(index, request, &why));
            }
            self.counts.unsorted += 1;
            ns = self.latest_ns;
        }
        self.latest_ns = ns;
        let scaled =
            if self.host.time_scale == 1.0 { ns } else { (ns as f64 * self.host.time_scale).round() as u64 };
        if scaled > LATEST_NS {
            return Err(Self::refuse(index, request, "it arrives after more than 106 days, the longest run"));
        }
        Ok(Time::from_ns(scaled))
    }

    #[cold]
    fn refuse(index: u64, request: &Request, why: &str) -> RunError {
        RunError::Request(format!(
            "request {} of the workload ({} of {} sectors at sector {}, {} ns): {why}",
            index + 1,
            request.op.name(),
            request.sectors,
            request.lba,
            request.arrival_ns,
        ))
    }
}
