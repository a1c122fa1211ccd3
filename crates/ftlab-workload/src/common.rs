//! Keys that kinds of workloads share: addresses, operations, sizes, arrivals.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::SECTOR_BYTES;
use ftlab_core::quantity;
use ftlab_core::time::{LATEST_DAYS, LATEST_NS};
use ftlab_trace::keys::{SizeSchema, TimeSchema, optional_micros};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::key_set::keys;
use crate::process::AddressRange;
use crate::quota::PageQuota;
use crate::refusal::{check_fractions, refuse};
use crate::size::RequestBytes;

/// Requests of a workload that says no number.
pub const DEFAULT_REQUESTS: u64 = 1_000_000;
/// Size of a request in a workload that says none.
pub const DEFAULT_REQUEST_BYTES: u64 = 4096;
/// Mean span between arrivals in a workload that says none.
pub const DEFAULT_MEAN_INTERARRIVAL_US: f64 = 1000.0;
/// Seed of a workload that says none.
pub const DEFAULT_SEED: u64 = 1;
/// How long requests may arrive: the longest run.
pub(crate) const LATEST_US: f64 = LATEST_NS as f64 / 1e3;
pub(crate) const SECTOR: u64 = SECTOR_BYTES as u64;

/// Spans between arrivals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Interarrival {
    /// All requests arrive at time 0, for hosts that do not look at arrival times.
    Asap,
    /// Always the mean.
    Fixed,
    /// Exponential: arrivals at random, as of many independent users.
    #[default]
    Poisson,
    /// Uniform from 0 to twice the mean.
    Uniform,
    /// Many short spans and few long ones, with a coefficient of variation of `gap_cv`.
    Bursty,
}

impl Interarrival {
    /// Whether a key of arrivals has an effect.
    pub(crate) fn has(self, key: &str) -> bool {
        match key {
            "gap_cv" => self == Interarrival::Bursty,
            "mean_interarrival_us" | "rate_iops" | "bursts" | "think" => self != Interarrival::Asap,
            _ => true,
        }
    }
}

/// On/off bursts with Pareto-distributed durations. Durations above 1,000 times the mean count as so long; the mean is
/// kept.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// Mean time with arrivals.
    #[serde(deserialize_with = "quantity::micros")]
    pub on_us: f64,
    /// Mean time without.
    #[serde(deserialize_with = "quantity::micros")]
    pub off_us: f64,
    /// Exponent of the times with arrivals, above 1; the smaller, the more they differ. 1.5 when absent.
    ///
    /// Default: assumed: from 1 to 2, where arrivals come in bursts on every scale of time.
    #[serde(default = "default_on_alpha")]
    pub on_alpha: f64,
    /// Exponent of the times without, above 1. 1.2 when absent.
    ///
    /// Default: assumed, as that of `on_alpha`; pauses of users differ more than their work.
    #[serde(default = "default_off_alpha")]
    pub off_alpha: f64,
}

const fn default_on_alpha() -> f64 {
    1.5
}

const fn default_off_alpha() -> f64 {
    1.2
}

/// A key of sizes that no request has.
pub(crate) struct UnusedSizes {
    pub(crate) key: &'static str,
    pub(crate) found: String,
    pub(crate) expected: String,
}

/// A pause after each run of `every_requests` requests.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// Requests between two pauses.
    pub every_requests: u64,
    /// Length of a pause.
    #[serde(deserialize_with = "quantity::micros")]
    pub pause_us: f64,
}

keys! {
    /// Keys that kinds share. Each kind says which of them it has.
    pub struct CommonKeys {
        /// How many requests. 1,000,000 when absent; of a trace, all.
        ///
        /// Default: a hundred samples lie beyond p99.99, and a run still takes seconds.
        pub requests: Option<u64>,
        /// Bytes that requests address. The rest of the drive from `offset_bytes` when absent.
        ///
        /// Default: drives are measured full: what is never written is spare space.
        #[serde(deserialize_with = "quantity::optional_bytes")]
        #[schemars(with = "Option<SizeSchema>")]
        pub footprint_bytes: Option<u64>,
        /// Where the footprint begins. 0 when absent.
        ///
        /// Default: the footprint begins where the drive does.
        #[serde(deserialize_with = "quantity::optional_bytes")]
        #[schemars(with = "Option<SizeSchema>")]
        pub offset_bytes: Option<u64>,
        /// Share of requests that read. 0 when absent; what is no read, trim or flush is a write.
        ///
        /// Default: none, as writes are what makes a drive collect and wear.
        pub read_fraction: Option<f64>,
        /// Share of requests that trim. 0 when absent. Their addresses are drawn as those of writes, but see kind
        /// `uniform`. There, a trim becomes a write where nothing is in use, and goes anywhere if there are no writes
        /// at all.
        ///
        /// Default: none, as trims give spare space back and so flatter a drive.
        pub trim_fraction: Option<f64>,
        /// Share of requests that flush. 0 when absent.
        ///
        /// Default: none, as recordings of block devices seldom show flushes.
        pub flush_fraction: Option<f64>,
        /// Size of a request, or a table of sizes with weights: `{ "4KiB" = 3, "64KiB" = 1 }`. 4 KiB when absent.
        ///
        /// Default: 4 KiB, a page of the operating system, in which drives are rated.
        pub request_bytes: Option<RequestBytes>,
        /// Sizes of reads, as `request_bytes`, which they take the place of.
        pub read_bytes: Option<RequestBytes>,
        /// Sizes of writes, as `request_bytes`, which they take the place of.
        pub write_bytes: Option<RequestBytes>,
        /// Sizes of trims, as `request_bytes`, which they take the place of.
        pub trim_bytes: Option<RequestBytes>,
        /// Requests begin at multiples of this, counted from `offset_bytes` on. The smallest size when absent.
        ///
        /// Default: file systems begin requests at multiples of their block.
        #[serde(deserialize_with = "quantity::optional_bytes")]
        #[schemars(with = "Option<SizeSchema>")]
        pub alignment_bytes: Option<u64>,
        /// Spans between arrivals. `poisson` when absent.
        ///
        /// Default: arrivals at random, as of many independent users.
        pub interarrival: Option<Interarrival>,
        /// Mean span between arrivals. 1000 when absent.
        ///
        /// Default: 1,000 requests a second, which most drives keep up with.
        #[serde(deserialize_with = "optional_micros")]
        #[schemars(with = "Option<TimeSchema>")]
        pub mean_interarrival_us: Option<f64>,
        /// Arrivals a second: the other way to say `mean_interarrival_us`.
        pub rate_iops: Option<f64>,
        /// With `interarrival = "bursty"`: standard deviation of spans / mean span, from 1 to 100. 3 when absent.
        ///
        /// Default: close to that of Financial1, 3.2, the largest of the traces that were measured.
        pub gap_cv: Option<f64>,
        /// Arrivals come in bursts; `mean_interarrival_us` and `rate_iops` stay those of the whole.
        pub bursts: Option<Bursts>,
        /// Pauses, on top of the spans between arrivals.
        pub think: Option<Think>,
        /// Streams: the footprint is cut into as many equal parts, whole multiples of `alignment_bytes`. Each has a
        /// generator of its own; they take turns. Their requests carry the number of the stream. 1 when absent.
        ///
        /// Default: one, the plainest host.
        pub streams: Option<u16>,
        /// Seed of all random choices. 1 when absent; the seed of a run replaces it.
        ///
        /// Default: any number serves; a fixed one makes runs repeat.
        pub seed: Option<u64>,
        /// Kind `zipf`: whether ranks are scattered over the footprint rather than lie in order. True when absent.
        ///
        /// Default: popular items do not lie side by side on a real drive; fio scatters them too.
        pub scramble: Option<bool>,
        /// Kinds `db`, `pc_general` and `oltp_financial`: how many page accesses so many requests are, exactly. What the
        /// mechanism makes when absent.
        ///
        /// Default: none, as only stand-ins have published counts to meet.
        pub page_quota: Option<PageQuota>,
    }
}

impl CommonKeys {
    /// Refuse values that make no sense.
    ///
    /// # Errors
    /// The first of them, with what was found and what was expected.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if self.requests == Some(0) {
            return refuse("requests", 0, "must be at least 1");
        }
        self.validate_fractions()?;
        self.validate_sizes()?;
        self.validate_arrivals()?;
        self.page_quota.as_ref().map_or(Ok(()), PageQuota::validate)
    }

    fn validate_fractions(&self) -> Result<(), ConfigError> {
        check_fractions(&[
            ("read_fraction", self.read_fraction),
            ("trim_fraction", self.trim_fraction),
            ("flush_fraction", self.flush_fraction),
        ])?;
        let sum = self.fractions().iter().sum::<f64>();
        if sum > 1.0 + 1e-9 {
            return refuse("read_fraction", sum, "read, trim and flush fractions must not exceed 1 together");
        }
        Ok(())
    }

    fn validate_sizes(&self) -> Result<(), ConfigError> {
        for (key, sizes) in [
            ("request_bytes", &self.request_bytes),
            ("read_bytes", &self.read_bytes),
            ("write_bytes", &self.write_bytes),
            ("trim_bytes", &self.trim_bytes),
        ] {
            if let Some((found, expected)) = sizes.as_ref().and_then(RequestBytes::refusal) {
                return refuse(key, found, expected);
            }
        }
        for (key, value) in
            [("alignment_bytes", self.alignment_bytes), ("footprint_bytes", self.footprint_bytes)]
        {
            if let Some(bytes) = value.filter(|bytes| *bytes == 0 || bytes % SECTOR != 0) {
                return refuse(key, bytes, "must be a multiple of 512 bytes, above 0");
            }
        }
        if let Some(bytes) = self.offset_bytes.filter(|bytes| bytes % SECTOR != 0) {
            return refuse("offset_bytes", bytes, "must be a multiple of 512 bytes");
        }
        if self.streams == Some(0) {
            return refuse("streams", 0, "must be at least 1");
        }
        Ok(())
    }

    fn validate_arrivals(&self) -> Result<(), ConfigError> {
        if let (Some(mean), Some(_)) = (self.mean_interarrival_us, self.rate_iops) {
            return refuse("mean_interarrival_us", mean, "rate_iops is given too: state one");
        }
        if self.interarrival == Some(Interarrival::Asap) {
            for (key, value) in
                [("mean_interarrival_us", self.mean_interarrival_us), ("rate_iops", self.rate_iops)]
            {
                if let Some(value) = value {
                    return refuse(key, value, "interarrival = \"asap\" does not use this key; leave it out");
                }
            }
        }
        if let Some(mean) = self.mean_interarrival_us.filter(|mean| !(*mean > 0.0 && *mean <= LATEST_US)) {
            let expected = format!("must be above 0 and at most {LATEST_DAYS} days, the longest run");
            return refuse("mean_interarrival_us", mean, expected);
        }
        if let Some(rate) = self.rate_iops.filter(|rate| !(*rate >= 1e-6 && *rate <= 1e12)) {
            return refuse("rate_iops", rate, "must be from 0.000001 to 10^12 requests a second");
        }
        if let Some(cv) = self.gap_cv {
            if self.interarrival != Some(Interarrival::Bursty) {
                return refuse("gap_cv", cv, "needs interarrival = \"bursty\"");
            }
            if !(1.0..=100.0).contains(&cv) {
                return refuse("gap_cv", cv, "must be from 1 to 100");
            }
        }
        if self.interarrival == Some(Interarrival::Asap) && (self.bursts.is_some() || self.think.is_some()) {
            let key = if self.bursts.is_some() { "bursts" } else { "think" };
            return refuse(key, "{...}", "interarrival = \"asap\" does not use this key; leave it out");
        }
        self.validate_pauses()
    }

    fn validate_pauses(&self) -> Result<(), ConfigError> {
        let check_span = |key: &str, us: f64| {
            if (0.001..=LATEST_US).contains(&us) {
                return Ok(());
            }
            refuse(key, us, format!("must be from a nanosecond to {LATEST_DAYS} days, the longest run"))
        };
        if let Some(bursts) = &self.bursts {
            check_span("bursts.on_us", bursts.on_us)?;
            check_span("bursts.off_us", bursts.off_us)?;
            for (key, alpha) in [("bursts.on_alpha", bursts.on_alpha), ("bursts.off_alpha", bursts.off_alpha)]
            {
                if !(alpha > 1.0 && alpha <= 100.0) {
                    return refuse(key, alpha, "must be above 1 and at most 100");
                }
            }
        }
        if let Some(think) = &self.think {
            if think.every_requests == 0 {
                return refuse("think.every_requests", 0, "must be at least 1");
            }
            check_span("think.pause_us", think.pause_us)?;
        }
        Ok(())
    }

    /// Keys of sizes that no request has.
    pub(crate) fn unused_sizes(&self) -> Vec<UnusedSizes> {
        let own = self.own_sizes();
        let mut unused: Vec<_> = own
            .iter()
            .filter(|(.., made)| !made)
            .filter_map(|(key, sizes, _)| {
                let expected = "there are no such requests; leave it out".into();
                Some(UnusedSizes { key, found: sizes.as_ref()?.to_string(), expected })
            })
            .collect();
        if let Some(sizes) = &self.request_bytes
            && own.iter().all(|(_, own, made)| !made || own.is_some())
        {
            let keys: Vec<_> = own.iter().filter(|(.., made)| *made).map(|(key, ..)| *key).collect();
            let expected = match &keys[..] {
                [] => "flushes have no size; leave it out".into(),
                keys => {
                    format!("all requests have the sizes of {}: state one or the other", keys.join(" and "))
                }
            };
            unused.push(UnusedSizes { key: "request_bytes", found: sizes.to_string(), expected });
        }
        unused
    }

    /// Mean span between arrivals, without pauses.
    pub(crate) fn mean_interarrival_us(&self) -> f64 {
        let by_rate = self.rate_iops.map(|rate| 1e6 / rate);
        by_rate.or(self.mean_interarrival_us).unwrap_or(DEFAULT_MEAN_INTERARRIVAL_US)
    }

    /// How many requests arrive within `us`, on average. There is no pause after the last one.
    pub(crate) fn requests_within(&self, us: f64) -> f64 {
        let mean_us = self.mean_interarrival_us();
        let Some(think) = self.think else { return us / mean_us };
        let run = think.every_requests as f64;
        let round_us = run * mean_us + think.pause_us;
        let rounds = (us / round_us).floor();
        rounds * run + ((us - rounds * round_us) / mean_us).min(run)
    }

    /// Mean span between arrivals, pauses included.
    pub(crate) fn mean_us_with_pauses(&self) -> f64 {
        let pauses = self.think.map_or(0.0, |think| think.pause_us / think.every_requests.max(1) as f64);
        self.mean_interarrival_us() + pauses
    }

    /// Shares of reads, trims and flushes.
    pub(crate) fn fractions(&self) -> [f64; 3] {
        [self.read_fraction, self.trim_fraction, self.flush_fraction].map(|share| share.unwrap_or(0.0))
    }

    /// Keys and values of the sizes that reads, writes and trims have for themselves, and whether there are such
    /// requests.
    fn own_sizes(&self) -> [(&'static str, &Option<RequestBytes>, bool); 3] {
        let [reads, trims, _] = self.fractions();
        [
            ("read_bytes", &self.read_bytes, reads > 0.0),
            ("write_bytes", &self.write_bytes, self.has_writes()),
            ("trim_bytes", &self.trim_bytes, trims > 0.0),
        ]
    }

    /// Whether reads, trims and flushes leave anything. Fractions that add up to 1 may miss it by a rounding.
    pub(crate) fn has_writes(&self) -> bool {
        self.fractions().iter().sum::<f64>() < 1.0 - 1e-9
    }

    /// Sizes of reads, writes and trims, each with the key that says them; none of operations that are never made.
    pub(crate) fn sizes(&self) -> [Option<(&'static str, RequestBytes)>; 3] {
        self.own_sizes().map(|(key, own, made)| {
            let shared = || self.request_bytes.clone().unwrap_or(RequestBytes::Fixed(DEFAULT_REQUEST_BYTES));
            made.then(|| own.clone().map_or_else(|| ("request_bytes", shared()), |own| (key, own)))
        })
    }

    /// Requests begin at multiples of this.
    pub(crate) fn alignment(&self) -> u64 {
        let smallest = || self.sizes().iter().flatten().map(|(_, bytes)| bytes.smallest()).min();
        self.alignment_bytes.or_else(smallest).unwrap_or(DEFAULT_REQUEST_BYTES)
    }

    /// Where a kind with a layout of its own may put it. A stated footprint counts even where the drive is smaller, as
    /// with a recording: then `host.out_of_range` decides.
    ///
    /// # Errors
    /// When the drive has no room there.
    pub(crate) fn address_range(&self, capacity_bytes: u64) -> Result<AddressRange, ConfigError> {
        let offset = self.offset_bytes.unwrap_or(0);
        let room = capacity_bytes.saturating_sub(offset);
        let footprint = self.footprint_bytes.unwrap_or(room);
        if footprint < SECTOR {
            return refuse("offset_bytes", offset, format!("the drive has only {capacity_bytes} bytes"));
        }
        if footprint > 1 << 53 {
            return refuse("footprint_bytes", footprint, "must be at most 8 PiB");
        }
        Ok(AddressRange { start: offset / SECTOR, sectors: footprint / SECTOR })
    }

    /// As [`address_range`](Self::address_range), for `kind`, which needs so many sectors.
    ///
    /// # Errors
    /// When the range has fewer.
    pub(crate) fn address_range_of(
        &self,
        capacity_bytes: u64,
        kind: &str,
        needs: u64,
    ) -> Result<AddressRange, ConfigError> {
        let range = self.address_range(capacity_bytes)?;
        if range.sectors < needs {
            let expected = format!("kind {kind:?} needs {} bytes", needs * SECTOR);
            return refuse("footprint_bytes", range.sectors * SECTOR, expected);
        }
        Ok(range)
    }
}
