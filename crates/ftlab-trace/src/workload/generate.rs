//! The generator behind every kind of workload that is not a fixed stream.

use ftlab_core::host::request::{Op, Request, RequestSource, SourceError};

use super::Interarrival;
use super::zipf::{Permutation, Zipf};
use crate::rng::Rng;

/// Spans between arrivals.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrivals {
    pub(super) kind: Interarrival,
    pub(super) mean_ns: f64,
}

/// How a stream chooses addresses. Slots are the multiples of the alignment.
#[derive(Debug, Clone)]
pub(super) enum Picker {
    /// The next address.
    Sequential,
    /// Any address.
    Uniform,
    /// Any address, but trims take one that is in use.
    UniformInUse,
    /// Any address with probability `random`, else the next.
    Mix { random: f64 },
    /// By rank.
    Zipf { zipf: Zipf, slots: u64, scramble: bool },
    /// The first `hot_slots` with probability `hot_access`, else the others.
    HotCold { hot_slots: u64, slots: u64, hot_access: f64 },
}

impl Picker {
    pub(super) fn zipf(slots: u64, theta: f64, scramble: bool) -> Self {
        Picker::Zipf { zipf: Zipf::new(slots, theta), slots, scramble }
    }

    pub(super) fn hot_cold(slots: u64, hot_space: f64, hot_access: f64) -> Self {
        // Neither part is empty, unless there is only one slot.
        let hot_slots = ((slots as f64 * hot_space).round() as u64).clamp(1, (slots - 1).max(1));
        Picker::HotCold { hot_slots, slots, hot_access }
    }
}

/// A generator, fully described.
#[derive(Debug, Clone)]
pub(super) struct Shape {
    pub(super) offset_sectors: u64,
    /// Length of the part of the footprint that belongs to one stream.
    pub(super) part_sectors: u64,
    pub(super) alignment_sectors: u64,
    pub(super) sizes: Vec<(u32, f64)>,
    pub(super) reads: f64,
    pub(super) trims: f64,
    pub(super) flushes: f64,
    pub(super) picker: Picker,
    pub(super) arrivals: Arrivals,
    pub(super) streams: u16,
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
        let place = rng.below(self.used as u64) as usize;
        let slot = self.order[place];
        self.used -= 1;
        self.swap(place, self.used);
        Some(slot.into())
    }
}

/// What a stream remembers.
#[derive(Debug)]
struct Lane {
    rng: Rng,
    /// Where the sequential stream goes on, relative to the lane.
    next: u64,
    in_use: Option<InUse>,
    scatter: Option<Permutation>,
}

/// Makes the requests of a workload.
#[derive(Debug)]
pub(super) struct Generator {
    shape: Shape,
    /// Sizes with the upper ends of their shares in [0, 1).
    sizes: Vec<(u32, f64)>,
    lanes: Vec<Lane>,
    lane: usize,
    arrivals: Rng,
    now_ns: f64,
    requests: u64,
    made: u64,
}

impl Generator {
    /// Pass `pass` of `seed`: other passes make other requests, but the same addresses stay hot.
    pub(super) fn new(shape: &Shape, seed: u64, pass: u64, requests: u64) -> Self {
        const ARRIVALS: u64 = u64::MAX;
        let lanes = (0..u64::from(shape.streams)).map(|lane| Lane {
            rng: Rng::new(seed, &[pass, lane]),
            next: 0,
            in_use: matches!(shape.picker, Picker::UniformInUse)
                .then(|| InUse::all(shape.part_sectors / shape.alignment_sectors)),
            scatter: match shape.picker {
                Picker::Zipf { slots, scramble: true, .. } => {
                    Some(Permutation::new(slots, seed ^ lane << 32))
                }
                _ => None,
            },
        });
        let weights: f64 = shape.sizes.iter().map(|(_, weight)| weight).sum();
        let mut share = 0.0;
        let sizes = shape.sizes.iter().map(|(sectors, weight)| {
            share += weight / weights;
            (*sectors, share)
        });
        Self {
            sizes: sizes.collect(),
            lanes: lanes.collect(),
            lane: 0,
            arrivals: Rng::new(seed, &[pass, ARRIVALS]),
            now_ns: 0.0,
            requests,
            made: 0,
            shape: shape.clone(),
        }
    }

    #[inline(always)]
    fn arrival_ns(&mut self) -> u64 {
        let mean = self.shape.arrivals.mean_ns;
        match self.shape.arrivals.kind {
            Interarrival::Asap => return 0,
            // A product, not a sum: no error builds up.
            Interarrival::Fixed => self.now_ns = (self.made + 1) as f64 * mean,
            Interarrival::Poisson => self.now_ns += self.arrivals.exponential() * mean,
            Interarrival::Uniform => self.now_ns += self.arrivals.unit() * 2.0 * mean,
        }
        self.now_ns.round() as u64
    }

    #[inline(always)]
    fn request(&mut self) -> Request {
        let arrival_ns = self.arrival_ns();
        let index = self.lane;
        self.lane = if index + 1 == self.lanes.len() { 0 } else { index + 1 };
        let (shape, lane) = (&self.shape, &mut self.lanes[index]);
        let op = shape.op(&mut lane.rng);
        if op == Op::Flush {
            return Request { arrival_ns, lba: 0, sectors: 0, op, stream: index as u16 };
        }
        let sectors = match self.sizes[..] {
            [(sectors, _)] => sectors,
            ref sizes => {
                let share = lane.rng.unit();
                let size = sizes.iter().find(|(_, end)| share < *end).or(sizes.last());
                size.map_or(0, |(sectors, _)| *sectors)
            }
        };
        let (op, relative) = shape.address(lane, op, sectors);
        let lba = shape.offset_sectors + index as u64 * shape.part_sectors + relative;
        Request { arrival_ns, lba, sectors, op, stream: index as u16 }
    }
}

impl Shape {
    #[inline(always)]
    fn op(&self, rng: &mut Rng) -> Op {
        if self.reads + self.trims + self.flushes == 0.0 {
            return Op::Write;
        }
        let share = rng.unit();
        if share < self.trims {
            Op::Trim
        } else if share < self.trims + self.flushes {
            Op::Flush
        } else if share < self.trims + self.flushes + self.reads {
            Op::Read
        } else {
            Op::Write
        }
    }

    /// The first sector of a request, relative to the lane, and its operation: a trim becomes a write when nothing is
    /// in use.
    #[inline(always)]
    fn address(&self, lane: &mut Lane, op: Op, sectors: u32) -> (Op, u64) {
        let fitting = (self.part_sectors - u64::from(sectors)) / self.alignment_sectors + 1;
        let slot = match &self.picker {
            Picker::Sequential => return (op, self.next_address(lane, sectors)),
            Picker::Mix { random } if lane.rng.unit() >= *random => {
                return (op, self.next_address(lane, sectors));
            }
            Picker::Mix { .. } | Picker::Uniform => lane.rng.below(fitting),
            Picker::UniformInUse => return self.address_in_use(lane, op, fitting),
            Picker::Zipf { zipf, .. } => {
                let rank = zipf.draw(&mut lane.rng);
                lane.scatter.as_ref().map_or(rank, |scatter| scatter.map(rank))
            }
            Picker::HotCold { hot_slots, slots, hot_access } => {
                if lane.rng.unit() < *hot_access || hot_slots == slots {
                    lane.rng.below(*hot_slots)
                } else {
                    hot_slots + lane.rng.below(slots - hot_slots)
                }
            }
        };
        // A large request at the last slots is moved back to where it fits.
        (op, slot.min(fitting - 1) * self.alignment_sectors)
    }

    fn address_in_use(&self, lane: &mut Lane, op: Op, slots: u64) -> (Op, u64) {
        let Some(in_use) = &mut lane.in_use else { return (op, 0) };
        let trimmed = if op == Op::Trim { in_use.trim_any(&mut lane.rng) } else { None };
        let (op, slot) = match trimmed {
            Some(slot) => (Op::Trim, slot),
            None => (if op == Op::Trim { Op::Write } else { op }, lane.rng.below(slots)),
        };
        if op == Op::Write {
            in_use.use_slot(slot);
        }
        (op, slot * self.alignment_sectors)
    }

    #[inline(always)]
    fn next_address(&self, lane: &mut Lane, sectors: u32) -> u64 {
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

    fn total_requests(&self) -> Option<u64> {
        Some(self.requests)
    }
}
