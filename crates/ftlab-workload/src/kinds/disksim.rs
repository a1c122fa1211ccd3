//! The synthetic request streams of a published validation of DiskSim's solid-state drive model, request by request.
//!
//! A stream is fixed by the standard 48-bit linear congruential generator: seeded with 42 for the first request and
//! with 1000003 for all others. Arrivals are U(0, 1) ms apart; sizes are geometric in pages of 4 KiB; pages are uniform
//! over the first 877,363. A sequential stream goes on where it was, with the size it had, until it meets the end.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::{Op, Request, RequestSource, SourceError};
use ftlab_core::time::nearest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::common::CommonKeys;
use crate::key_set::keys;
use crate::kind::{Kind, Maker, Plan};
use crate::refusal::refuse;

/// Which of the streams of kind `disksim`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Every request anywhere.
    Random,
    /// One sequential stream, which jumps only at the end of the address space.
    Sequential,
}

/// Pages that the streams address.
const PAGES: u64 = 877_363;
/// Bytes that the streams address: a drive must have as many.
const FOOTPRINT_BYTES: u64 = PAGES * 4096;
const SECTORS_PER_PAGE: u64 = 8;
/// Mean of the exponential from which sizes in sectors are drawn.
const MEAN_SECTORS: f64 = 8.0;
/// Sizes that 48 bits can draw: -8 ln(2^-48) is 266 sectors.
const MAX_PAGES: usize = 34;

const SEED_FIRST: u64 = 42;
const SEED_REST: u64 = 1_000_003;

/// Uniform in [0, 1), a multiple of 2^-48.
#[derive(Debug, Clone)]
struct Lcg(u64);

const LCG_BITS: u32 = 48;

fn unit(state: u64) -> f64 {
    state as f64 * (1.0 / (1u64 << LCG_BITS) as f64)
}

impl Lcg {
    fn seeded(seed: u64) -> Self {
        Self(((seed << 16) | 0x330e) & ((1 << LCG_BITS) - 1))
    }

    #[inline(always)]
    fn state(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x0005_DEEC_E66D).wrapping_add(0xb) & ((1 << LCG_BITS) - 1);
        self.0
    }

    #[inline(always)]
    fn unit(&mut self) -> f64 {
        unit(self.state())
    }
}

/// Pages of a request for one draw of the generator: 0 to [`MAX_PAGES`].
fn pages_by_formula(state: u64) -> u64 {
    let sectors = -MEAN_SECTORS * libm::log(1.0 - unit(state));
    (sectors as u64).div_ceil(SECTORS_PER_PAGE)
}

/// The formula as the steps it makes: the smallest state that gives at least 1, 2, ... pages. No logarithm per request.
fn page_steps() -> [u64; MAX_PAGES] {
    std::array::from_fn(|index| {
        let (mut low, mut high) = (0, 1 << LCG_BITS);
        while low < high {
            let middle = low + (high - low) / 2;
            if pages_by_formula(middle) > index as u64 { high = middle } else { low = middle + 1 }
        }
        low
    })
}

/// One of the streams.
#[derive(Debug, Clone)]
struct DiskSimStream {
    sequential: bool,
    op: Op,
    requests: u64,
    made: u64,
    rng: Lcg,
    rest_seed: u64,
    steps: [u64; MAX_PAGES],
    arrival_ms: f64,
    page: u64,
    pages: u64,
}

impl DiskSimStream {
    /// Pass 0 is the published stream; other passes have its statistics.
    fn new(sequential: bool, op: Op, requests: u64, pass: u64) -> Self {
        // Seeds have 32 bits in this generator.
        let shift = pass.wrapping_mul(7919) & 0x0fff_ffff;
        Self {
            sequential,
            op,
            requests,
            made: 0,
            rng: Lcg::seeded(SEED_FIRST + shift),
            rest_seed: SEED_REST + shift,
            steps: page_steps(),
            arrival_ms: 0.0,
            page: 0,
            pages: 0,
        }
    }

    #[inline(always)]
    fn draw_pages(&mut self) -> u64 {
        let state = self.rng.state();
        let mut pages = 0;
        while pages < MAX_PAGES && state >= self.steps[pages] {
            pages += 1;
        }
        pages as u64
    }

    /// A page and a size at random. The draws for device, direction and class are made and not used.
    #[inline(always)]
    fn anywhere(&mut self) {
        self.arrival_ms += self.rng.unit();
        self.rng.state();
        loop {
            self.page = (PAGES as f64 * self.rng.unit()) as u64;
            self.pages = self.draw_pages();
            if self.pages > 0 && self.page + self.pages < PAGES {
                break;
            }
        }
        self.rng.state();
        self.rng.state();
    }

    #[inline(always)]
    fn advance(&mut self) {
        if self.made == 0 {
            self.anywhere();
            self.rng = Lcg::seeded(self.rest_seed);
            return;
        }
        // The kind of request is drawn even where there is only one kind.
        self.rng.state();
        if self.sequential && self.page + 2 * self.pages < PAGES {
            self.arrival_ms += self.rng.unit();
            self.rng.state();
            self.page += self.pages;
        } else {
            self.anywhere();
        }
    }
}

impl RequestSource for DiskSimStream {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let count = (self.requests - self.made).min(max as u64);
        out.reserve(count as usize);
        for _ in 0..count {
            self.advance();
            self.made += 1;
            out.push(Request {
                arrival_ns: nearest(self.arrival_ms * 1e6),
                lba: self.page * SECTORS_PER_PAGE,
                sectors: (self.pages * SECTORS_PER_PAGE) as u32,
                op: self.op,
                stream: 0,
                fua: false,
            });
        }
        Ok(count as usize)
    }

    fn total_requests(&self) -> Option<u64> {
        Some(self.requests)
    }
}

keys! {
    /// Keys of kind `disksim` alone.
    pub struct Keys {
        /// Kind `disksim`: which stream. `random` when absent.
        ///
        /// Default: as with most kinds, requests go anywhere unless it is said otherwise.
        pub access: Option<Access>,
    }
}

impl Kind for Keys {
    const SUMMARY: &'static str = "The exact request streams of the validation of DiskSim's solid-state drive model. Seeds, \
        sizes (geometric, mean 1.58 pages of 4 KiB), arrivals (uniform, mean 0.5 ms) and addresses (3.6 GB) are fixed.";
    const COMMON: &'static [&'static [&'static str]] = &[&["read_fraction"]];
    const CHANGES: &'static [&'static str] = &[r#"{"access":"sequential"}"#];

    fn validate(&self, common: &CommonKeys) -> Result<(), ConfigError> {
        match common.read_fraction.filter(|share| *share > 0.0 && *share < 1.0) {
            Some(share) => {
                let expected = "must be 0 or 1: the streams of kind \"disksim\" only write or only read";
                refuse("read_fraction", share, expected)
            }
            None => Ok(()),
        }
    }

    fn plan(&self, common: &CommonKeys, capacity_bytes: u64) -> Result<Plan, ConfigError> {
        if capacity_bytes < FOOTPRINT_BYTES {
            let expected =
                format!("kind \"disksim\" addresses {FOOTPRINT_BYTES} bytes; the drive has {capacity_bytes}");
            return refuse("kind", "\"disksim\"", expected);
        }
        let op = if common.fractions()[0] > 0.0 { Op::Read } else { Op::Write };
        Ok(Plan::of(DiskSimMaker { sequential: self.access == Some(Access::Sequential), op }))
    }
}

struct DiskSimMaker {
    sequential: bool,
    op: Op,
}

impl Maker for DiskSimMaker {
    fn open(&self, _seed: u64, pass: u64, requests: u64) -> Box<dyn RequestSource> {
        Box::new(DiskSimStream::new(self.sequential, self.op, requests, pass))
    }

    fn may_age_longer(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(sequential: bool, requests: u64) -> Vec<Request> {
        let mut stream = DiskSimStream::new(sequential, Op::Write, requests, 0);
        let mut out = Vec::new();
        while stream.fill(&mut out, 1 << 16).unwrap() > 0 {}
        out
    }

    #[test]
    fn the_first_requests_are_the_published_ones() {
        let rows = |requests: Vec<Request>| -> Vec<(u64, u64, u32)> {
            requests.iter().map(|request| (request.arrival_ns, request.lba, request.sectors)).collect()
        };
        assert_eq!(
            rows(all(false, 8)),
            [
                (744_525, 779_696, 8),
                (1_072_442, 492_344, 8),
                (1_632_493, 2_458_248, 24),
                (1_693_468, 6_924_840, 8),
                (2_132_365, 3_345_016, 8),
                (3_001_463, 3_942_848, 16),
                (3_271_327, 4_732_744, 8),
                (3_864_386, 1_618_824, 8),
            ]
        );
        assert_eq!(
            rows(all(true, 8)),
            [
                (744_525, 779_696, 8),
                (1_072_442, 779_704, 8),
                (1_511_074, 779_712, 8),
                (1_554_861, 779_720, 8),
                (1_905_094, 779_728, 8),
                (2_051_469, 779_736, 8),
                (2_344_298, 779_744, 8),
                (3_330_897, 779_752, 8),
            ]
        );
    }

    #[test]
    fn the_sequential_stream_has_the_published_segments() {
        let requests = all(true, 5_000_000);
        let mut segments = vec![(0, requests[0].lba / 8, requests[0].sectors / 8, 0)];
        let mut pages = 0;
        for (index, request) in requests.iter().enumerate() {
            if index > 0 {
                let before = &requests[index - 1];
                if before.lba + u64::from(before.sectors) != request.lba {
                    segments.push((index, request.lba / 8, request.sectors / 8, 0));
                }
            }
            segments.last_mut().unwrap().3 += 1;
            pages += u64::from(request.sectors / 8);
        }
        assert_eq!(pages, 5_704_305);
        assert_eq!(
            segments,
            [
                (0, 97_462, 1, 779_900),
                (779_900, 808_189, 1, 69_173),
                (849_073, 370_409, 1, 506_953),
                (1_356_026, 459_400, 1, 417_962),
                (1_773_988, 179_148, 1, 698_214),
                (2_472_202, 233_158, 2, 322_102),
                (2_794_304, 271_600, 1, 605_762),
                (3_400_066, 357_453, 2, 259_954),
                (3_660_020, 841_248, 2, 18_057),
                (3_678_077, 172_354, 1, 705_008),
                (4_383_085, 831_703, 1, 45_659),
                (4_428_744, 721_072, 3, 52_096),
                (4_480_840, 642_168, 1, 235_194),
                (4_716_034, 683_734, 1, 193_628),
                (4_909_662, 379_419, 1, 90_338),
            ]
        );
        // The published run ends at the last arrival.
        assert_eq!(requests.last().unwrap().arrival_ns, 2_500_271_147_470);
    }

    #[test]
    fn the_random_stream_has_the_published_totals() {
        let requests = all(false, 5_000_000);
        let pages =
            |requests: &[Request]| requests.iter().map(|request| u64::from(request.sectors / 8)).sum::<u64>();
        assert_eq!(pages(&requests[..4_999_999]), 7_913_348);
        assert_eq!(pages(&requests[..249_999]), 395_130);
        assert_eq!(requests[249_999].arrival_ns, 124_964_081_263);
        assert_eq!(requests[4_999_999].arrival_ns, 2_499_681_729_596);
        assert!(
            requests
                .iter()
                .all(|request| (request.lba + u64::from(request.sectors)) * 512 <= FOOTPRINT_BYTES)
        );
    }

    #[test]
    fn steps_are_the_formula() {
        let steps = page_steps();
        let stream = DiskSimStream::new(false, Op::Read, 1, 0);
        let by_steps = |state| stream.steps.iter().take_while(|step| state >= **step).count() as u64;
        for step in steps {
            for state in [step.wrapping_sub(1), step, step + 1] {
                if state < 1 << LCG_BITS {
                    assert_eq!(by_steps(state), pages_by_formula(state));
                }
            }
        }
        let mut rng = Lcg::seeded(7);
        for _ in 0..100_000 {
            let state = rng.state();
            assert_eq!(by_steps(state), pages_by_formula(state));
        }
        assert_eq!(pages_by_formula((1 << LCG_BITS) - 1), MAX_PAGES as u64);
    }

    #[test]
    fn other_passes_are_other_streams() {
        let mut other = DiskSimStream::new(false, Op::Write, 1000, 1);
        let mut out = Vec::new();
        other.fill(&mut out, 1000).unwrap();
        assert_ne!(out, all(false, 1000));
        assert_ne!(out[0], all(false, 1)[0]);
    }
}
