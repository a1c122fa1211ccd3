//! The generator behind every kind of workload that is not a fixed stream.

use ftlab_core::config::ConfigError;
use ftlab_core::host::request::{Op, Request, RequestSource, SourceError};
use ftlab_core::rng::Rng;
use ftlab_core::time::nearest;

use crate::common::{CommonKeys, Interarrival, SECTOR};
use crate::process::{Hyperexponential, Pareto, chance, choose, exponential, normal};
use crate::refusal::refuse;
use crate::size::{RequestBytes, Sizes};
use crate::zipf::{Permutation, Zipf};

const DEFAULT_GAP_CV: f64 = 3.0;

/// Spans between arrivals.
#[derive(Debug, Clone)]
pub(crate) struct Arrivals {
    pub(crate) kind: Interarrival,
    /// Mean span; with `bursts`, within a burst.
    pub(crate) mean_ns: f64,
    pub(crate) bursty: Hyperexponential,
    /// Times with arrivals, and times without.
    pub(crate) bursts: Option<[Pareto; 2]>,
    /// After so many requests, a pause of so many nanoseconds.
    pub(crate) think: Option<(u64, f64)>,
}

impl Arrivals {
    pub(crate) fn new(common: &CommonKeys) -> Self {
        let share_on = common.bursts.map_or(1.0, |bursts| bursts.on_us / (bursts.on_us + bursts.off_us));
        Self {
            kind: common.interarrival.unwrap_or_default(),
            mean_ns: common.mean_interarrival_us() * 1000.0 * share_on,
            bursty: Hyperexponential::new(common.gap_cv.unwrap_or(DEFAULT_GAP_CV)),
            bursts: common.bursts.map(|bursts| {
                let law = |us: f64, alpha| Pareto::new(us * 1e3, alpha);
                [law(bursts.on_us, bursts.on_alpha), law(bursts.off_us, bursts.off_alpha)]
            }),
            think: common.think.map(|think| (think.every_requests, think.pause_us * 1000.0)),
        }
    }

    pub(crate) fn clock(&self, rng: Rng) -> ArrivalClock {
        ArrivalClock { arrivals: self.clone(), rng, now_ns: 0.0, burst_ns: 0.0, made: 0 }
    }
}

/// When requests arrive.
#[derive(Debug)]
pub(crate) struct ArrivalClock {
    arrivals: Arrivals,
    rng: Rng,
    now_ns: f64,
    /// What is left of the burst.
    burst_ns: f64,
    made: u64,
}

impl ArrivalClock {
    /// The next arrival.
    #[inline(always)]
    pub(crate) fn tick(&mut self) -> u64 {
        let mean = self.arrivals.mean_ns;
        self.made += 1;
        let span = match self.arrivals.kind {
            // 0, or what it was when it was stopped.
            Interarrival::Asap => return nearest(self.now_ns),
            Interarrival::Fixed if self.arrivals.bursts.is_none() && self.arrivals.think.is_none() => {
                // A product, not a sum: no error builds up.
                self.now_ns = self.made as f64 * mean;
                return nearest(self.now_ns);
            }
            Interarrival::Fixed => mean,
            Interarrival::Poisson => exponential(&mut self.rng) * mean,
            Interarrival::Uniform => self.rng.unit() * 2.0 * mean,
            Interarrival::Bursty => self.arrivals.bursty.draw(&mut self.rng) * mean,
        };
        self.now_ns += span;
        if let Some([on, off]) = &self.arrivals.bursts {
            let mut span = span;
            while span > self.burst_ns {
                span -= self.burst_ns;
                self.now_ns += off.draw(&mut self.rng);
                self.burst_ns = on.draw(&mut self.rng);
            }
            self.burst_ns -= span;
        }
        if let Some((every, pause_ns)) = self.arrivals.think
            && self.made > 1
            && (self.made - 1).is_multiple_of(every)
        {
            self.now_ns += pause_ns;
        }
        nearest(self.now_ns)
    }

    /// Nobody asks any more: every request arrives with the last one.
    fn stop(&mut self) {
        self.arrivals.kind = Interarrival::Asap;
    }
}

/// How a stream chooses addresses. Slots are the multiples of the alignment.
#[derive(Debug, Clone)]
pub(crate) enum Picker {
    /// The next address.
    Sequential,
    /// Any address.
    Uniform,
    /// Any address, but trims take one that is in use.
    UniformInUse,
    /// Any address with probability `random`, else the next; the next one follows what went anywhere, if that `jumps`.
    Mix { random: f64, jumps: bool },
    /// By rank.
    Zipf { zipf: Zipf, slots: u64, scramble: bool },
    /// The first `hot_slots` with probability `hot_access`, else the others.
    HotCold { hot_slots: u64, slots: u64, hot_access: f64 },
    /// Rank `slots` * u^`power`, for u uniform in [0, 1).
    Pareto { slots: u64, power: f64, scramble: bool },
    /// Around `mean`, by a bell of this deviation, both in slots; what falls outside is drawn again.
    Normal { slots: u64, mean: f64, deviation: f64 },
    /// Uniform inside zones, which are chosen by their shares of the requests.
    Zoned { zones: Zones, natural: bool },
}

/// Zones of the address space.
#[derive(Debug, Clone)]
pub(crate) struct Zones {
    /// Upper ends of the shares of requests.
    ends: Vec<f64>,
    /// First slot and number of slots.
    slots: Vec<(u64, u64)>,
    /// Where the first zone begins; the last ones wrap around.
    shift: u64,
    total: u64,
}

impl Zones {
    /// `zones` are shares of requests and of space, which add up to 1; the first begins at `shift` of the space.
    pub(crate) fn new(slots: u64, zones: &[(f64, f64)], shift: f64) -> Self {
        let (mut access, mut space, mut start) = (0.0, 0.0, 0);
        let (mut ends, mut parts) = (Vec::new(), Vec::new());
        for ((share, room), after) in zones.iter().zip((0..zones.len() as u64).rev()) {
            access += share;
            space += room;
            // No zone is empty, and none takes the slots of those after it, unless there are fewer slots than zones:
            // then the last ones share a slot.
            let least = (start + 1).min(slots);
            let end =
                ((slots as f64 * space).round() as u64).clamp(least, least.max(slots.saturating_sub(after)));
            ends.push(access);
            parts.push((start.min(slots - 1), (end - start).max(1)));
            start = end;
        }
        let shift = (slots as f64 * shift).round() as u64 % slots;
        Self { ends, slots: parts, shift, total: slots }
    }

    #[inline(always)]
    fn draw(&self, rng: &mut Rng) -> u64 {
        let (start, slots) = self.slots[choose(rng, &self.ends)];
        let slot = start + rng.below_unbiased(slots) + self.shift;
        if slot >= self.total { slot - self.total } else { slot }
    }
}

impl Picker {
    pub(crate) fn zipf(slots: u64, theta: f64, scramble: bool) -> Self {
        Picker::Zipf { zipf: Zipf::new(slots, theta), slots, scramble }
    }

    pub(crate) fn hot_cold(slots: u64, hot_space: f64, hot_access: f64) -> Self {
        // Neither part is empty, unless there is only one slot.
        let hot_slots = ((slots as f64 * hot_space).round() as u64).clamp(1, (slots - 1).max(1));
        Picker::HotCold { hot_slots, slots, hot_access }
    }

    /// A share 1 - `h` of the requests goes to a share `h` of the space.
    pub(crate) fn pareto(slots: u64, h: f64, scramble: bool) -> Self {
        Picker::Pareto { slots, power: libm::log(h) / libm::log(1.0 - h), scramble }
    }

    /// Slots whose ranks are scattered.
    fn scattered(&self) -> Option<u64> {
        match self {
            Picker::Zipf { slots, scramble: true, .. } | Picker::Pareto { slots, scramble: true, .. } => {
                Some(*slots)
            }
            _ => None,
        }
    }
}

/// What a generator draws, with every default filled in.
#[derive(Debug, Clone)]
pub(crate) struct GeneratorConfig {
    pub(crate) offset_sectors: u64,
    /// Length of the part of the footprint that belongs to one stream.
    pub(crate) part_sectors: u64,
    pub(crate) alignment_sectors: u64,
    /// Of reads, writes and trims; 0 of those that are never drawn.
    pub(crate) sizes: [Sizes; 3],
    /// Upper ends of the shares of trims, flushes and reads. Above the last one are writes.
    pub(crate) op_ends: [f64; 3],
    pub(crate) picker: Picker,
    pub(crate) arrivals: Arrivals,
    pub(crate) streams: u16,
}

/// Which slots are in use: the first `used` of `order`. Both directions in constant time.
#[derive(Debug)]
struct InUse {
    order: Vec<u32>,
    place: Vec<u32>,
    used: usize,
}

impl InUse {
    fn all(slots: u64) -> Self {
        let order: Vec<u32> = (0..slots as u32).collect();
        Self { place: order.clone(), used: order.len(), order }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.order.swap(a, b);
        self.place[self.order[a] as usize] = a as u32;
        self.place[self.order[b] as usize] = b as u32;
    }

    fn use_slot(&mut self, slot: u64) {
        let place = self.place[slot as usize] as usize;
        if place >= self.used {
            self.swap(place, self.used);
            self.used += 1;
        }
    }

    fn trim_any(&mut self, rng: &mut Rng) -> Option<u64> {
        if self.used == 0 {
            return None;
        }
        let place = rng.below_unbiased(self.used as u64) as usize;
        let slot = self.order[place];
        self.used -= 1;
        self.swap(place, self.used);
        Some(slot.into())
    }
}

/// What a stream remembers.
#[derive(Debug)]
struct StreamState {
    rng: Rng,
    /// Where the sequential stream goes on, relative to the lane.
    next: u64,
    in_use: Option<InUse>,
    scatter: Option<Permutation>,
}

/// Makes the requests of a workload.
#[derive(Debug)]
pub(crate) struct Generator {
    config: GeneratorConfig,
    lanes: Vec<StreamState>,
    lane: usize,
    clock: ArrivalClock,
    requests: u64,
    made: u64,
}

impl Generator {
    /// Pass `pass` of `seed`: other passes make other requests, but the same addresses stay hot.
    pub(crate) fn new(config: &GeneratorConfig, seed: u64, pass: u64, requests: u64) -> Self {
        const ARRIVALS: u64 = u64::MAX;
        let lanes = (0..u64::from(config.streams)).map(|lane| StreamState {
            rng: Rng::for_path(seed, &[pass, lane]),
            next: 0,
            in_use: matches!(config.picker, Picker::UniformInUse)
                .then(|| InUse::all(config.part_sectors / config.alignment_sectors)),
            scatter: config.picker.scattered().map(|slots| Permutation::new(slots, seed ^ lane << 32)),
        });
        Self {
            lanes: lanes.collect(),
            lane: 0,
            clock: config.arrivals.clock(Rng::for_path(seed, &[pass, ARRIVALS])),
            requests,
            made: 0,
            config: config.clone(),
        }
    }

    #[inline(always)]
    fn request(&mut self) -> Request {
        let arrival_ns = self.clock.tick();
        let index = self.lane;
        self.lane = if index + 1 == self.lanes.len() { 0 } else { index + 1 };
        let (config, lane) = (&self.config, &mut self.lanes[index]);
        let op = config.op(&mut lane.rng);
        if op == Op::Flush {
            return Request { arrival_ns, lba: 0, sectors: 0, op, stream: index as u16, fua: false };
        }
        let sectors = config.sizes[op as usize].draw(&mut lane.rng);
        let (op, relative) = config.address(lane, op, sectors);
        let lba = config.offset_sectors + index as u64 * config.part_sectors + relative;
        Request { arrival_ns, lba, sectors, op, stream: index as u16, fua: false }
    }
}

impl GeneratorConfig {
    /// With every default filled in, for a drive of `capacity_bytes`. `picker` chooses among so many slots.
    ///
    /// # Errors
    /// When the workload does not fit the drive.
    pub(crate) fn new(
        common: &CommonKeys,
        capacity_bytes: u64,
        picker: impl FnOnce(u64) -> Picker,
    ) -> Result<Self, ConfigError> {
        let (sizes, alignment) = (common.sizes(), common.alignment());
        let streams = u64::from(common.streams.unwrap_or(1));
        let offset = common.offset_bytes.unwrap_or(0);
        let room = capacity_bytes.saturating_sub(offset) / SECTOR * SECTOR;
        if room == 0 {
            return refuse("offset_bytes", offset, format!("the drive has only {capacity_bytes} bytes"));
        }
        if let Some(footprint) = common.footprint_bytes.filter(|footprint| *footprint > room) {
            let expected =
                format!("only {room} bytes follow offset_bytes on a drive of {capacity_bytes} bytes");
            return refuse("footprint_bytes", footprint, expected);
        }
        let footprint = common.footprint_bytes.unwrap_or(room);
        let part = if streams == 1 { footprint } else { footprint / streams / alignment * alignment };
        if part == 0 {
            let own = footprint / streams;
            let expected =
                format!("the part of a stream, {own} bytes, must have room for alignment_bytes, {alignment}");
            return refuse("streams", streams, expected);
        }
        let largest = sizes.iter().flatten().map(|(key, bytes)| (bytes.largest(), *key)).max();
        if let Some((largest, key)) = largest.filter(|(largest, _)| *largest > part) {
            let expected = format!("a request must fit the footprint of a stream, which has {part} bytes");
            return refuse(key, largest, expected);
        }
        let slots = part.div_ceil(alignment).max(1);
        let [reads, trims, flushes] = common.fractions();
        let mut op_ends = [trims, trims + flushes, trims + flushes + reads];
        if !common.has_writes() {
            let sum = op_ends[2];
            op_ends.iter_mut().filter(|end| **end == sum).for_each(|end| *end = 1.0);
        }
        let drawn = |sizes: &Option<(_, RequestBytes)>| {
            sizes.as_ref().map_or(Sizes::Fixed(0), |(_, bytes)| Sizes::new(bytes))
        };
        Ok(Self {
            offset_sectors: offset / SECTOR,
            part_sectors: part / SECTOR,
            alignment_sectors: alignment / SECTOR,
            sizes: sizes.each_ref().map(drawn),
            op_ends,
            picker: picker(slots),
            arrivals: Arrivals::new(common),
            streams: common.streams.unwrap_or(1),
        })
    }

    /// Slots that are not cut short by the end of a stream's part.
    pub(crate) fn whole_slots(&self) -> u64 {
        self.part_sectors / self.alignment_sectors
    }

    #[inline(always)]
    fn op(&self, rng: &mut Rng) -> Op {
        let [trims, flushes, reads] = self.op_ends;
        if reads == 0.0 {
            return Op::Write;
        }
        let share = rng.unit();
        if share < trims {
            Op::Trim
        } else if share < flushes {
            Op::Flush
        } else if share < reads {
            Op::Read
        } else {
            Op::Write
        }
    }

    /// The first sector of a request, relative to the lane, and its operation: a trim becomes a write when nothing is
    /// in use, unless there are to be no writes.
    #[inline(always)]
    fn address(&self, lane: &mut StreamState, op: Op, sectors: u32) -> (Op, u64) {
        let fitting = (self.part_sectors - u64::from(sectors)) / self.alignment_sectors + 1;
        let slot = match &self.picker {
            Picker::Sequential => return (op, self.next_address(lane, sectors)),
            Picker::Mix { random, .. } if lane.rng.unit() >= *random => {
                return (op, self.next_address(lane, sectors));
            }
            Picker::Mix { jumps: true, .. } => {
                lane.next = lane.rng.below_unbiased(fitting) * self.alignment_sectors;
                return (op, self.next_address(lane, sectors));
            }
            Picker::Mix { .. } | Picker::Uniform => lane.rng.below_unbiased(fitting),
            Picker::UniformInUse => return self.address_in_use(lane, op, fitting),
            Picker::Zipf { zipf, .. } => {
                let rank = zipf.draw(&mut lane.rng);
                lane.scatter.as_ref().map_or(rank, |scatter| scatter.map(rank))
            }
            Picker::HotCold { hot_slots, slots, hot_access } => {
                if chance(&mut lane.rng, *hot_access) || hot_slots == slots {
                    lane.rng.below_unbiased(*hot_slots)
                } else {
                    hot_slots + lane.rng.below_unbiased(slots - hot_slots)
                }
            }
            Picker::Pareto { slots, power, .. } => {
                let place = libm::exp(libm::log(1.0 - lane.rng.unit()) * power);
                let rank = ((place * *slots as f64) as u64).min(slots - 1);
                lane.scatter.as_ref().map_or(rank, |scatter| scatter.map(rank))
            }
            Picker::Normal { slots, mean, deviation } => loop {
                let slot = mean + deviation * normal(&mut lane.rng);
                if slot >= 0.0 && slot < *slots as f64 {
                    break slot as u64;
                }
            },
            Picker::Zoned { zones, natural } => {
                let slot = zones.draw(&mut lane.rng).min(fitting - 1);
                let unit = if *natural { u64::from(sectors.min(8)) } else { 1 };
                let lba = slot * self.alignment_sectors;
                return (op, lba - lba % unit);
            }
        };
        // A large request at the last slots is moved back to where it fits.
        (op, slot.min(fitting - 1) * self.alignment_sectors)
    }

    fn address_in_use(&self, lane: &mut StreamState, op: Op, slots: u64) -> (Op, u64) {
        let Some(in_use) = &mut lane.in_use else { return (op, 0) };
        let trimmed = if op == Op::Trim { in_use.trim_any(&mut lane.rng) } else { None };
        let (op, slot) = match trimmed {
            Some(slot) => (Op::Trim, slot),
            None if op == Op::Trim && self.op_ends[2] >= 1.0 => (Op::Trim, lane.rng.below_unbiased(slots)),
            None => (if op == Op::Trim { Op::Write } else { op }, lane.rng.below_unbiased(slots)),
        };
        if op == Op::Write {
            in_use.use_slot(slot);
        }
        (op, slot * self.alignment_sectors)
    }

    #[inline(always)]
    fn next_address(&self, lane: &mut StreamState, sectors: u32) -> u64 {
        let sectors = u64::from(sectors);
        let start = if lane.next + sectors > self.part_sectors { 0 } else { lane.next };
        lane.next = (start + sectors).next_multiple_of(self.alignment_sectors);
        start
    }
}

impl RequestSource for Generator {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let count = (self.requests - self.made).min(max as u64);
        out.reserve(count as usize);
        for _ in 0..count {
            let request = self.request();
            out.push(request);
            self.made += 1;
        }
        Ok(count as usize)
    }

    fn ignore_arrivals(&mut self) {
        self.clock.stop();
    }

    fn total_requests(&self) -> Option<u64> {
        Some(self.requests)
    }
}

/// How long a phase lasts.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Length {
    Requests(u64),
    Ns(u64),
}

/// Phases that take turns. Each has a generator of its own, whose clock stands still in the phases of the others.
#[derive(Debug)]
pub(crate) struct Phased {
    phases: Vec<(Generator, Length)>,
    current: usize,
    /// The next request of a phase that ended before it came.
    pending: Vec<Option<Request>>,
    /// When the phase began, and what its generator's clock showed then.
    began_ns: u64,
    clocks_ns: Vec<u64>,
    last_ns: u64,
    in_phase: u64,
    requests: u64,
    made: u64,
}

impl Phased {
    pub(crate) fn new(phases: &[(GeneratorConfig, Length)], seed: u64, pass: u64, requests: u64) -> Self {
        let generators = phases.iter().zip(0u64..).map(|((config, length), index)| {
            // As other passes of one seed: other requests, but what is hot stays hot.
            (Generator::new(config, seed, pass | index << 32, u64::MAX), *length)
        });
        Self {
            pending: vec![None; phases.len()],
            clocks_ns: vec![0; phases.len()],
            phases: generators.collect(),
            current: 0,
            began_ns: 0,
            last_ns: 0,
            in_phase: 0,
            requests,
            made: 0,
        }
    }

    fn next_phase(&mut self, ends_ns: u64, elapsed_ns: u64) {
        self.clocks_ns[self.current] += elapsed_ns;
        self.began_ns = ends_ns;
        self.in_phase = 0;
        self.current = (self.current + 1) % self.phases.len();
    }

    fn request(&mut self) -> Request {
        loop {
            let index = self.current;
            let (generator, length) = &mut self.phases[index];
            if let Length::Requests(requests) = *length
                && self.in_phase == requests
            {
                self.next_phase(self.last_ns, self.last_ns - self.began_ns);
                continue;
            }
            let request = self.pending[index].take().unwrap_or_else(|| generator.request());
            let into = request.arrival_ns.saturating_sub(self.clocks_ns[index]);
            if let Length::Ns(ns) = *length
                && into >= ns
            {
                self.pending[index] = Some(request);
                self.next_phase(self.began_ns + ns, ns);
                continue;
            }
            self.in_phase += 1;
            self.last_ns = self.began_ns + into;
            return Request { arrival_ns: self.last_ns, ..request };
        }
    }
}

impl RequestSource for Phased {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let count = (self.requests - self.made).min(max as u64);
        for _ in 0..count {
            let request = self.request();
            out.push(request);
        }
        self.made += count;
        Ok(count as usize)
    }

    fn total_requests(&self) -> Option<u64> {
        Some(self.requests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_slots_of_their_own_as_long_as_there_are_enough() {
        let large_first = [(0.5, 0.9), (0.25, 0.05), (0.25, 0.05)];
        let small_first = [(0.25, 0.05), (0.25, 0.05), (0.5, 0.9)];
        for (slots, zones, expected) in [
            (3, large_first, [(0, 1), (1, 1), (2, 1)]),
            (3, small_first, [(0, 1), (1, 1), (2, 1)]),
            (5, large_first, [(0, 3), (3, 1), (4, 1)]),
            (100, large_first, [(0, 90), (90, 5), (95, 5)]),
            (2, large_first, [(0, 1), (1, 1), (1, 1)]),
            (1, large_first, [(0, 1), (0, 1), (0, 1)]),
        ] {
            assert_eq!(Zones::new(slots, &zones, 0.0).slots, expected, "{slots} slots");
        }
    }
}
