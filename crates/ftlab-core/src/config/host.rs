//! `[host]`: how requests reach the drive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::timing::{HOUR_US, check_rate};
use crate::error::{ConfigError, refuse};
use crate::quantity;
use crate::scheme::axis;

axis! {
    /// How requests arrive.
    ///
    /// Default: recordings have times, and their latencies depend on them.
    "arrival" in "host": Arrival, ArrivalChoice {
        /// At the times of the trace, scaled by `time_scale`.
        "open" Open(OpenKeys);
        /// The next as soon as fewer than `queue_depth` are in the drive; the times of the trace are not used.
        "closed" Closed(ClosedKeys);
    }
}

/// Keys of `open`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct OpenKeys {
    /// Factor on the times of the trace: 0.5 is twice as fast, 0 means that all requests arrive at once.
    ///
    /// Default: the times as they were recorded.
    pub time_scale: f64,
    /// Most requests that the drive holds; the rest wait at the host. 0 (the default): no limit.
    ///
    /// Default: none: requests that arrive at their own times do not ask whether the drive is ready.
    pub outstanding: u32,
    /// Which of the requests that wait at the host is handed over when the drive has room for one. Nobody waits without a clock, or
    /// without a limit on `outstanding`.
    ///
    /// Default: the order in which they came, as for hosts that queue without a scheduler (NVMe with `none`).
    pub scheduler: Scheduler,
    /// What happens when times go backwards.
    ///
    /// Default: times that go backwards may be another unit, or volumes that are not merged.
    pub unsorted_times: UnsortedTimes,
    /// When the run ends.
    ///
    /// Default: every request that enters a run leaves it and is counted.
    pub stop: Stop,
}

impl Default for OpenKeys {
    fn default() -> Self {
        Self {
            time_scale: 1.0,
            outstanding: 0,
            scheduler: Scheduler::Fifo,
            unsorted_times: UnsortedTimes::Error,
            stop: Stop::Drained,
        }
    }
}

/// Keys of `closed`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ClosedKeys {
    /// Requests in the drive at a time.
    ///
    /// Default: one, so that a latency is that of a request alone.
    pub queue_depth: u32,
}

impl Default for ClosedKeys {
    fn default() -> Self {
        Self { queue_depth: 1 }
    }
}

/// Whether data to and from the host share the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkDuplex {
    /// Both directions at once (PCIe).
    #[default]
    Full,
    /// One transfer at a time in either direction (parallel buses, DiskSim).
    Half,
}

/// What happens to a request beyond the end of the drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OutOfRange {
    /// The run ends with an error that names the request.
    #[default]
    Error,
    /// The address is taken modulo the drive's size.
    Wrap,
    /// The part beyond the end is cut off; a request wholly beyond it is rejected and counted.
    Clip,
}

/// What happens when a request arrives before one ahead of it (open arrival only).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnsortedTimes {
    /// The run ends with an error that names the request.
    #[default]
    Error,
    /// It arrives at the latest time seen so far; such requests are counted.
    Clamp,
}

/// In which order requests that wait at the host are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// First come first served.
    #[default]
    Fifo,
    /// The next at or above the address of the one handed over last; when there is none, the lowest (C-LOOK, DiskSim).
    CLook,
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stop {
    /// When every request has completed.
    #[default]
    Drained,
    /// At the instant at which the last request arrives: it and what is in flight stay unfinished (DiskSim).
    LastArrival,
}

/// How requests reach the drive.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// How requests arrive.
    #[serde(flatten)]
    pub arrival: ArrivalChoice,
    /// Rate of the host link in million bytes a second; 0 (the default) makes transfers free.
    ///
    /// Default: free, so that flash alone sets the times; no rate fits every link.
    pub link_mb_per_s: f64,
    /// Whether the link works in both directions at once.
    ///
    /// Default: both directions, as PCIe has them.
    pub link_duplex: LinkDuplex,
    /// Fixed time of each request for host and firmware, in microseconds; 0 (the default): none. It begins when the request
    /// is handed over, before anything else of it, and occupies nothing: neither link nor buffer nor dies wait.
    ///
    /// Default: none, as it depends on host and firmware and is published of few drives.
    #[serde(deserialize_with = "quantity::micros")]
    pub overhead_us: f64,
    /// What happens to a request beyond the end of the drive.
    ///
    /// Default: a trace of a larger drive is noticed, and nothing is moved in silence.
    pub out_of_range: OutOfRange,
}

impl HostConfig {
    /// The keys of open arrival; `None` when the times of the trace are not used.
    pub fn open(&self) -> Option<&OpenKeys> {
        match &self.arrival {
            ArrivalChoice::Open(keys) => Some(keys),
            ArrivalChoice::Closed(_) => None,
        }
    }

    /// Most requests that are in the drive at once; `None` without a limit.
    pub fn depth(&self) -> Option<u32> {
        match &self.arrival {
            ArrivalChoice::Closed(keys) => Some(keys.queue_depth),
            ArrivalChoice::Open(OpenKeys { outstanding: 0, .. }) => None,
            ArrivalChoice::Open(keys) => Some(keys.outstanding),
        }
    }

    /// In which order requests leave the host.
    pub fn scheduler(&self) -> Scheduler {
        self.open().map_or(Scheduler::Fifo, |keys| keys.scheduler)
    }

    /// When the run ends.
    pub fn stop(&self) -> Stop {
        self.open().map_or(Stop::Drained, |keys| keys.stop)
    }

    /// Let the run end when every request has completed.
    pub(crate) fn drain(&mut self) {
        if let ArrivalChoice::Open(keys) = &mut self.arrival {
            keys.stop = Stop::Drained;
        }
    }

    /// Check its limits.
    ///
    /// # Errors
    /// The first value beyond them.
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        match &self.arrival {
            ArrivalChoice::Closed(ClosedKeys { queue_depth }) => {
                if *queue_depth == 0 || *queue_depth > 65_536 {
                    return refuse("host.queue_depth", queue_depth, "must be from 1 to 65536");
                }
            }
            ArrivalChoice::Open(keys) => {
                if keys.outstanding > 65_536 {
                    let expected = "must be at most 65536, or 0 for no limit";
                    return refuse("host.outstanding", keys.outstanding, expected);
                }
                if !(keys.time_scale >= 0.0 && keys.time_scale <= 1e9) {
                    return refuse("host.time_scale", keys.time_scale, "must be from 0 to 1e9");
                }
            }
        }
        if !(self.overhead_us >= 0.0 && self.overhead_us <= HOUR_US) {
            return refuse("host.overhead_us", self.overhead_us, "must be at most an hour, in microseconds");
        }
        check_rate("host.link_mb_per_s", self.link_mb_per_s)
    }
}
