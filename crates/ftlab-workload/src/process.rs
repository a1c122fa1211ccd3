//! Random processes that the generators share: gaps, on and off times, sizes of files, and sources made of processes.

use ftlab_core::host::request::{Op, Request, RequestSource, SourceError};

use crate::quota::PageQuotaFilter;
use ftlab_core::rng::Rng;

/// Exponential with mean 1.
#[inline(always)]
pub(crate) fn exponential(rng: &mut Rng) -> f64 {
    -libm::log(1.0 - rng.unit())
}

/// Standard normal (Box and Muller's method, one of the pair).
#[inline(always)]
pub(crate) fn normal(rng: &mut Rng) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(rng));
    radius * libm::cos(std::f64::consts::TAU * rng.unit())
}

/// Lognormal: `median` times e to a normal of deviation `sigma`.
pub(crate) fn lognormal(rng: &mut Rng, median: f64, sigma: f64) -> f64 {
    median * libm::exp(sigma * normal(rng))
}

/// Pareto's law, cut so that no single span is the whole run: spans above 1,000 times the mean count as so long. The
/// others are longer for it, so that the mean is the one that is stated.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pareto {
    smallest: f64,
    alpha: f64,
    largest: f64,
}

impl Pareto {
    /// Largest span / mean span.
    const LARGEST: f64 = 1000.0;

    /// With this mean; `alpha` is above 1.
    pub(crate) fn new(mean: f64, alpha: f64) -> Self {
        // The mean of the spans, which grows with the smallest of them.
        let mean_by = |smallest: f64| {
            let decay = (alpha - 1.0) * libm::log(smallest / Self::LARGEST);
            smallest * (1.0 - libm::expm1(decay) / (alpha - 1.0))
        };
        let (mut low, mut high) = (0.0, 1.0);
        // As many halvings as a number has bits.
        for _ in 0..f64::MANTISSA_DIGITS {
            let middle = f64::midpoint(low, high);
            if mean_by(middle) < 1.0 {
                low = middle;
            } else {
                high = middle;
            }
        }
        Self { smallest: mean * high, alpha, largest: mean * Self::LARGEST }
    }

    #[inline(always)]
    pub(crate) fn draw(&self, rng: &mut Rng) -> f64 {
        let span = self.smallest * libm::exp(-libm::log(1.0 - rng.unit()) / self.alpha);
        span.min(self.largest)
    }
}

/// Geometric from 1 with this mean.
pub(crate) fn geometric(rng: &mut Rng, mean: f64) -> u64 {
    if mean <= 1.0 {
        return 1;
    }
    1 + (libm::log(1.0 - rng.unit()) / libm::log(1.0 - 1.0 / mean)).floor() as u64
}

/// Whether something of probability `share` happens.
#[inline(always)]
pub(crate) fn chance(rng: &mut Rng, share: f64) -> bool {
    rng.unit() < share
}

/// The index of the share of `ends` (upper ends in ascending order, the last 1) that a draw falls into.
#[inline(always)]
pub(crate) fn choose(rng: &mut Rng, ends: &[f64]) -> usize {
    let share = rng.unit();
    ends.iter().position(|end| share < *end).unwrap_or(ends.len() - 1)
}

/// Upper ends of the shares that `weights` give.
pub(crate) fn shares(weights: &[f64]) -> Vec<f64> {
    let sum: f64 = weights.iter().sum();
    let mut end = 0.0;
    weights
        .iter()
        .map(|weight| {
            end += weight / sum;
            end
        })
        .collect()
}

/// Gaps of mean 1 with a coefficient of variation of at least 1: two exponentials with balanced means.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hyperexponential {
    share: f64,
    means: [f64; 2],
}

impl Hyperexponential {
    pub(crate) fn new(cv: f64) -> Self {
        let square = (cv * cv).max(1.0);
        let share = 0.5 * (1.0 + ((square - 1.0) / (square + 1.0)).sqrt());
        Self { share, means: [0.5 / share, 0.5 / (1.0 - share)] }
    }

    #[inline(always)]
    pub(crate) fn draw(&self, rng: &mut Rng) -> f64 {
        let mean = self.means[usize::from(!chance(rng, self.share))];
        mean * exponential(rng)
    }
}

pub(crate) const NS_PER_S: f64 = 1e9;
pub(crate) const NS_PER_US: f64 = 1e3;
/// Sectors of a page of 4 KiB: the block of file systems and page caches.
pub(crate) const BLOCK: u64 = 8;

/// MergePart of an address space, in sectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AddressRange {
    pub(crate) start: u64,
    pub(crate) sectors: u64,
}

impl AddressRange {
    pub(crate) fn end(&self) -> u64 {
        self.start + self.sectors
    }

    /// Cut `sectors` off the front.
    pub(crate) fn take(&mut self, sectors: u64) -> AddressRange {
        let taken = AddressRange { start: self.start, sectors: sectors.min(self.sectors) };
        self.start += taken.sectors;
        self.sectors -= taken.sectors;
        taken
    }
}

/// Requests as they are made: helpers that say what is meant.
#[derive(Debug, Default)]
pub(crate) struct Emitter {
    pub(crate) requests: Vec<Request>,
    /// Requests whose length may be another one, in order.
    pub(crate) elastic: Vec<Elastic>,
}

/// A request that could as well be a page shorter, or up to `more` pages longer: for a [`PageQuota`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elastic {
    /// Its place among the requests of the emitter.
    pub(crate) index: usize,
    pub(crate) more: u64,
}

impl Emitter {
    #[inline(always)]
    pub(crate) fn push(&mut self, at_ns: f64, op: Op, lba: u64, sectors: u64) {
        let request =
            Request { arrival_ns: at_ns as u64, lba, sectors: sectors as u32, op, stream: 0, fua: false };
        self.requests.push(request);
    }

    pub(crate) fn read(&mut self, at_ns: f64, lba: u64, sectors: u64) {
        self.push(at_ns, Op::Read, lba, sectors);
    }

    pub(crate) fn write(&mut self, at_ns: f64, lba: u64, sectors: u64) {
        self.push(at_ns, Op::Write, lba, sectors);
    }

    pub(crate) fn trim(&mut self, at_ns: f64, lba: u64, sectors: u64) {
        self.push(at_ns, Op::Trim, lba, sectors);
    }

    pub(crate) fn flush(&mut self, at_ns: f64) {
        self.push(at_ns, Op::Flush, 0, 0);
    }

    /// The request that was pushed last could as well be a page shorter, or up to `more` pages longer.
    pub(crate) fn may_stretch(&mut self, more: u64) {
        self.elastic.push(Elastic { index: self.requests.len() - 1, more });
    }

    pub(crate) fn clear(&mut self) {
        self.requests.clear();
        self.elastic.clear();
    }

    /// Leave out the first `count` requests.
    pub(crate) fn forget(&mut self, count: usize) {
        self.requests.drain(..count);
        let gone = self.elastic.partition_point(|elastic| elastic.index < count);
        self.elastic.drain(..gone);
        for elastic in &mut self.elastic {
            elastic.index -= count;
        }
    }
}

/// Something that does one thing after the other, for ever.
pub(crate) trait Process: Send {
    /// Do the next thing: append what it asks of the drive, nothing earlier than what was asked before. May append
    /// nothing, but not for ever.
    fn act(&mut self, emitter: &mut Emitter);
}

/// The requests of a process.
pub(crate) struct ProcessSource<P> {
    process: P,
    emitter: Emitter,
    next: usize,
    /// So many requests of the emitter are as they will be.
    ready: usize,
    requests: u64,
    made: u64,
    filter: Option<PageQuotaFilter<P>>,
}

impl<P: Process> ProcessSource<P> {
    pub(crate) fn new(process: P, requests: u64) -> Self {
        Self { process, emitter: Emitter::default(), next: 0, ready: 0, requests, made: 0, filter: None }
    }

    /// The same, changed by `filter` so that they meet a quota.
    pub(crate) fn with_quota(process: P, requests: u64, filter: PageQuotaFilter<P>) -> Self {
        Self { filter: Some(filter), ..Self::new(process, requests) }
    }

    /// Let the process go on; nothing of the emitter is left.
    fn act(&mut self) -> Result<(), SourceError> {
        let Some(filter) = &mut self.filter else {
            self.emitter.clear();
            self.next = 0;
            self.process.act(&mut self.emitter);
            self.ready = self.emitter.requests.len();
            return Ok(());
        };
        self.emitter.forget(self.ready);
        self.next = 0;
        self.ready = filter.window();
        while self.emitter.requests.len() < self.ready {
            self.process.act(&mut self.emitter);
        }
        filter.settle(&mut self.emitter, self.ready)
    }
}

impl<P: Process> RequestSource for ProcessSource<P> {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let wanted = (self.requests - self.made).min(max as u64) as usize;
        let mut left = wanted;
        while left > 0 {
            if self.next == self.ready {
                self.act()?;
            }
            let count = left.min(self.ready - self.next);
            out.extend_from_slice(&self.emitter.requests[self.next..self.next + count]);
            self.next += count;
            left -= count;
        }
        self.made += wanted as u64;
        Ok(wanted)
    }

    fn total_requests(&self) -> Option<u64> {
        Some(self.requests)
    }
}

/// Requests of a part of [`Merged`] that wait for their turn.
const PART_BATCH: usize = 256;

struct MergePart {
    source: Box<dyn RequestSource>,
    batch: Vec<Request>,
    next: usize,
}

impl MergePart {
    /// Arrival of its next request; never, when it has ended.
    #[inline(always)]
    fn head(&self) -> u64 {
        self.batch.get(self.next).map_or(u64::MAX, |request| request.arrival_ns)
    }

    fn refill(&mut self) -> Result<(), SourceError> {
        if self.next == self.batch.len() {
            self.batch.clear();
            self.next = 0;
            self.source.fill(&mut self.batch, PART_BATCH)?;
        }
        Ok(())
    }
}

/// Several sources by arrival; of equal arrivals the earlier part goes first.
pub(crate) struct Merged {
    parts: Vec<MergePart>,
    /// Whether requests carry the number of their part as stream.
    numbered: bool,
    requests: u64,
    made: u64,
}

impl Merged {
    pub(crate) fn new(sources: Vec<Box<dyn RequestSource>>, numbered: bool, requests: u64) -> Self {
        let parts = sources.into_iter().map(|source| MergePart {
            source,
            batch: Vec::with_capacity(PART_BATCH),
            next: 0,
        });
        Self { parts: parts.collect(), numbered, requests, made: 0 }
    }
}

impl RequestSource for Merged {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let wanted = (self.requests - self.made).min(max as u64);
        for count in 0..wanted {
            for part in &mut self.parts {
                part.refill()?;
            }
            let first = (0..self.parts.len()).min_by_key(|index| self.parts[*index].head());
            let Some(index) = first.filter(|index| self.parts[*index].head() < u64::MAX) else {
                return Ok(count as usize);
            };
            let part = &mut self.parts[index];
            let mut request = part.batch[part.next];
            part.next += 1;
            if self.numbered {
                request.stream = index as u16;
            }
            out.push(request);
            self.made += 1;
        }
        Ok(wanted as usize)
    }

    fn total_requests(&self) -> Option<u64> {
        Some(self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moments(draws: impl Iterator<Item = f64>) -> (f64, f64) {
        let draws: Vec<f64> = draws.collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|draw| (draw - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn processes_have_their_moments() {
        let mut rng = Rng::for_path(3, &[]);
        let (mean, deviation) = moments((0..200_000).map(|_| normal(&mut rng)));
        assert!(mean.abs() < 0.01 && (deviation - 1.0).abs() < 0.01, "{mean} {deviation}");
        for cv in [1.0, 1.3, 3.2] {
            let gaps = Hyperexponential::new(cv);
            let (mean, deviation) = moments((0..1_000_000).map(|_| gaps.draw(&mut rng)));
            assert!(
                (mean - 1.0).abs() < 0.02 && (deviation / cv - 1.0).abs() < 0.03,
                "{cv}: {mean} {deviation}"
            );
        }
        let (mean, _) = moments((0..400_000).map(|_| geometric(&mut rng, 2.0) as f64));
        assert!((mean - 2.0).abs() < 0.02, "{mean}");
        let mut sizes: Vec<f64> = (0..10_001).map(|_| lognormal(&mut rng, 8.0, 1.6)).collect();
        sizes.sort_by(f64::total_cmp);
        assert!((sizes[5000] / 8.0 - 1.0).abs() < 0.06, "{}", sizes[5000]);
    }

    /// The variance of Pareto's law from `smallest` on, where spans above `largest` count as so long; the mean is 1.
    fn variance_of_pareto(smallest: f64, alpha: f64, largest: f64) -> f64 {
        let beyond = smallest.powf(alpha) * (largest.powf(2.0 - alpha) - smallest.powf(2.0 - alpha));
        smallest.powi(2) + 2.0 * beyond / (2.0 - alpha) - 1.0
    }

    #[test]
    fn spans_by_paretos_law_have_the_mean_that_is_stated() {
        const DRAWS: u32 = 100_000;
        const JUST_ABOVE: f64 = 1.0 + f64::EPSILON;
        for alpha in [1.01, 1.05, 1.2, 1.5, 3.0] {
            let law = Pareto::new(5.0, alpha);
            let variance = variance_of_pareto(law.smallest / 5.0, alpha, law.largest / 5.0);
            let bound = 4.0 * (variance / f64::from(DRAWS)).sqrt();
            for seed in 1..=6 {
                let mut rng = Rng::for_path(seed, &[]);
                let (mean, _) = moments((0..DRAWS).map(|_| law.draw(&mut rng) / 5.0));
                assert!((mean - 1.0).abs() < bound, "alpha {alpha}, seed {seed}: {mean}, bound {bound}");
            }
        }
        let smallest = |alpha| Pareto::new(1.0, alpha).smallest;
        for (alpha, mean) in [
            (JUST_ABOVE, smallest(JUST_ABOVE) * (1.0 + (1000.0 / smallest(JUST_ABOVE)).ln())),
            (2.0, 2.0 * smallest(2.0) - smallest(2.0).powi(2) / 1000.0),
            (3.0, 1.5 * smallest(3.0) - smallest(3.0).powi(3) / 2e6),
        ] {
            assert!((mean - 1.0).abs() < 1e-12, "alpha {alpha}: {mean} by its closed form");
        }
    }

    #[test]
    fn merging_keeps_the_order_of_arrivals_and_ends_with_its_parts() {
        use ftlab_core::host::request::VecSource;
        let part = |times: &[u64]| -> Box<dyn RequestSource> {
            let request = |time: &u64| Request {
                arrival_ns: *time,
                lba: 0,
                sectors: 8,
                op: Op::Read,
                stream: 9,
                fua: false,
            };
            Box::new(VecSource::new(times.iter().map(request).collect()))
        };
        let mut merged = Merged::new(vec![part(&[1, 5, 6]), part(&[0, 5, 9])], true, 100);
        let mut out = Vec::new();
        while merged.fill(&mut out, 4).unwrap() > 0 {}
        let order: Vec<(u64, u16)> = out.iter().map(|request| (request.arrival_ns, request.stream)).collect();
        assert_eq!(order, [(0, 1), (1, 0), (5, 0), (5, 1), (6, 0), (9, 1)]);
    }
}
