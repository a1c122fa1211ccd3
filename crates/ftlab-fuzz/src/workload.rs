//! Random requests for a random drive, and the file that keeps them.

use std::fmt::Write;

use ftlab_core::config::{Atomic, DeviceConfig, OutOfRange, UnsortedTimes};
use ftlab_core::ftl::page::capacity::most_units_at_once;
use ftlab_core::host::request::{Op, Request};

use crate::drive::Dice;

/// Most requests, and most mapping units that they touch: a case must be cheap.
const MOST_REQUESTS: u64 = 500;
const MOST_UNITS: u64 = 2000;

/// The requests of case `seed` for this drive.
pub fn random(config: &DeviceConfig, seed: u64) -> Vec<Request> {
    let dice = Dice::new(seed, "workload");
    Draw::new(config, dice).requests()
}

/// Where requests go.
#[derive(Clone, Copy)]
enum Addresses {
    Anywhere,
    /// Mostly to one in so many sectors.
    Hot(u64),
    /// Some sequences side by side.
    Sequences,
}

struct Draw {
    dice: Dice,
    sectors: u64,
    unit: u64,
    page: u64,
    /// Of ten requests, those that write, trim and flush; the others read.
    writes: u64,
    trims: u64,
    flushes: u64,
    addresses: Addresses,
    next: Vec<u64>,
    /// Most sectors of a request.
    most: u64,
    aligned: bool,
    /// Nanoseconds; requests come after 0, 1 or 2 of them.
    gap: u64,
    beyond_end: bool,
    unsorted: bool,
}

impl Draw {
    fn new(config: &DeviceConfig, mut dice: Dice) -> Self {
        let unit = config.unit_bytes() / 512;
        let page = config.geometry.page_bytes / 512;
        let sectors = config.logical_pages() * unit;
        let host = &config.host;
        let sequences = 1 + dice.below(4) as usize;
        let most = dice.pick(&[1, unit, unit, page, 4 * page, 16 * page]);
        let most = match config.power.atomic {
            Atomic::Unit => most,
            // Both ends may be parts of units.
            Atomic::Request => most.min((most_units_at_once(config) - 2) * unit).max(1),
        };
        Self {
            sectors,
            unit,
            page,
            writes: dice.pick(&[0, 3, 5, 8, 10]),
            trims: dice.pick(&[0, 0, 1, 3]),
            flushes: dice.below(2),
            addresses: dice.pick(&[
                Addresses::Anywhere,
                Addresses::Hot(10),
                Addresses::Hot(100),
                Addresses::Sequences,
            ]),
            next: (0..sequences).map(|_| dice.below(sectors)).collect(),
            most: most.min(sectors),
            aligned: dice.once_in(2),
            gap: dice.pick(&[0, 0, 4_000, 100_000, 400_000, 400_000_000]),
            beyond_end: host.out_of_range != OutOfRange::Error && dice.once_in(3),
            unsorted: host.open().is_some_and(|open| open.unsorted_times == UnsortedTimes::Clamp)
                && dice.once_in(2),
            dice,
        }
    }

    fn requests(mut self) -> Vec<Request> {
        let count = 1 + self.dice.below(MOST_REQUESTS);
        let (mut requests, mut touched, mut arrival_ns) = (Vec::new(), 0, 0);
        while (requests.len() as u64) < count && touched < MOST_UNITS {
            // Multiples of four: a quarter of them is a whole number too.
            arrival_ns += self.dice.below(3) * self.gap / 4 * 4;
            let mut request = self.request(arrival_ns);
            if self.unsorted && self.dice.once_in(10) {
                request.arrival_ns /= 8;
                request.arrival_ns *= 4;
            }
            touched += u64::from(request.sectors).div_ceil(self.unit);
            requests.push(request);
        }
        requests
    }

    fn request(&mut self, arrival_ns: u64) -> Request {
        let at = self.dice.below(10 + self.trims + self.flushes);
        let op = match at {
            at if at < self.writes => Op::Write,
            at if at < 10 => Op::Read,
            at if at < 10 + self.trims => Op::Trim,
            _ => Op::Flush,
        };
        if op == Op::Flush {
            return Request { arrival_ns, lba: 0, sectors: 0, op, stream: 0, fua: false };
        }
        let mut sectors = 1 + self.dice.below(self.most);
        if self.aligned {
            sectors = sectors.next_multiple_of(self.unit).min(self.sectors);
        }
        let mut lba = match self.addresses {
            Addresses::Hot(share) if !self.dice.once_in(5) => self.dice.below(self.sectors.div_ceil(share)),
            Addresses::Anywhere | Addresses::Hot(_) => self.dice.below(self.sectors),
            Addresses::Sequences => {
                let at = self.dice.below(self.next.len() as u64) as usize;
                let lba = self.next[at];
                self.next[at] = (lba + sectors) % self.sectors;
                lba
            }
        };
        if self.aligned {
            let to = if self.dice.once_in(2) { self.page } else { self.unit };
            lba = lba / to * to;
        }
        if self.beyond_end {
            lba += self.dice.below(2) * self.dice.below(2) * self.sectors;
        } else if lba + sectors > self.sectors {
            lba = self.sectors - sectors;
        }
        let stream = self.dice.below(4) as u16;
        Request { arrival_ns, lba, sectors: sectors as u32, op, stream, fua: false }
    }
}

/// The requests as a trace that `ftlab run --trace` reads.
pub fn to_csv(requests: &[Request]) -> String {
    let mut text = String::from("arrival_ns,op,lba,sectors,stream\n");
    for Request { arrival_ns, lba, sectors, op, stream, .. } in requests {
        let _ = writeln!(text, "{arrival_ns},{},{lba},{sectors},{stream}", op.name());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_a_line_for_each_request() {
        let write = Request { arrival_ns: 5, lba: 8, sectors: 2, op: Op::Write, stream: 3, fua: false };
        let flush = Request { arrival_ns: 7, lba: 0, sectors: 0, op: Op::Flush, stream: 0, fua: false };
        let text = "arrival_ns,op,lba,sectors,stream\n5,write,8,2,3\n7,flush,0,0,0\n";
        assert_eq!(to_csv(&[write, flush]), text);
    }
}
