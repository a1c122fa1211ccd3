//! Requests that begin where the one before them on the same volume ended.

use ftlab_core::host::request::{Op, Request, SECTOR_BYTES};
use serde::Serialize;

use super::bins::{Bins, Spread};
use super::{has_address, ratio};

const BITS: u32 = 3;

#[derive(Debug, Clone, Copy)]
struct Volume {
    seen: bool,
    end: u64,
    /// Where the last request of each operation ended.
    ends: [u64; 3],
    run_requests: u64,
    run_sectors: u64,
}

/// Sequential requests and runs of them, by volume.
#[derive(Debug)]
pub(super) struct Sequence {
    volumes: Vec<Volume>,
    sequential: [u64; 3],
    /// Requests that begin where the last one of their operation ended.
    sequential_by_op: [u64; 3],
    addressed: [u64; 3],
    run_requests: Bins,
    run_bytes: Bins,
    /// Runs of one request by their sectors, those of 0 not being runs: in many traces nearly all.
    alone: [u64; 257],
}

impl Default for Sequence {
    fn default() -> Self {
        Self {
            volumes: Vec::new(),
            sequential: [0; 3],
            sequential_by_op: [0; 3],
            addressed: [0; 3],
            run_requests: Bins::new(BITS),
            run_bytes: Bins::new(BITS),
            alone: [0; 257],
        }
    }
}

impl Sequence {
    /// Take requests.
    pub(super) fn add(&mut self, requests: &[Request]) {
        for request in requests {
            self.see(request.stream);
            if has_address(request) {
                self.add_addressed(request);
            }
        }
    }

    /// Note a volume, whatever is asked of it.
    #[inline(always)]
    fn see(&mut self, volume: u16) {
        let index = usize::from(volume);
        if index >= self.volumes.len() {
            let unseen =
                Volume { seen: false, end: u64::MAX, ends: [u64::MAX; 3], run_requests: 0, run_sectors: 0 };
            self.volumes.resize(index + 1, unseen);
        }
        self.volumes[index].seen = true;
    }

    /// Take a request with an address on a volume that was seen.
    #[inline(always)]
    fn add_addressed(&mut self, request: &Request) {
        let Request { lba, sectors, op, stream, .. } = *request;
        let state = &mut self.volumes[usize::from(stream)];
        let goes_on = state.end == lba;
        self.addressed[op as usize] += 1;
        self.sequential[op as usize] += u64::from(goes_on);
        self.sequential_by_op[op as usize] += u64::from(state.ends[op as usize] == lba);
        if !goes_on {
            match self.alone.get_mut(state.run_sectors as usize) {
                Some(alone) if state.run_requests <= 1 => *alone += 1,
                _ => {
                    self.run_requests.add(state.run_requests, 1);
                    self.run_bytes.add(state.run_sectors * u64::from(SECTOR_BYTES), 1);
                }
            }
            (state.run_requests, state.run_sectors) = (0, 0);
        }
        state.run_requests += 1;
        state.run_sectors += u64::from(sectors);
        state.end = lba + u64::from(sectors);
        state.ends[op as usize] = state.end;
    }

    pub(super) fn volumes(&self) -> u64 {
        self.volumes.iter().filter(|volume| volume.seen).count() as u64
    }

    pub(super) fn fraction(&self) -> Option<f64> {
        ratio(self.sequential.iter().sum(), self.addressed.iter().sum())
    }

    pub(super) fn finish(&self) -> Option<SequenceStats> {
        let (mut requests, mut bytes) = (self.run_requests.clone(), self.run_bytes.clone());
        for (sectors, alone) in (0..).zip(self.alone).skip(1) {
            requests.add(1, alone);
            bytes.add(sectors * u64::from(SECTOR_BYTES), alone);
        }
        for volume in self.volumes.iter().filter(|volume| volume.run_requests > 0) {
            requests.add(volume.run_requests, 1);
            bytes.add(volume.run_sectors * u64::from(SECTOR_BYTES), 1);
        }
        let share = |part: &[u64; 3], op: Op| ratio(part[op as usize], self.addressed[op as usize]);
        Some(SequenceStats {
            read_fraction: share(&self.sequential, Op::Read),
            write_fraction: share(&self.sequential, Op::Write),
            read_after_read_fraction: share(&self.sequential_by_op, Op::Read),
            write_after_write_fraction: share(&self.sequential_by_op, Op::Write),
            run_requests: requests.spread()?,
            run_bytes: bytes.spread()?,
        })
    }
}

/// Sequential requests and the runs that they form. A run is a request and those that follow it sequentially.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SequenceStats {
    /// Share of the reads that begin where the request before them on the volume ended.
    pub read_fraction: Option<f64>,
    /// Share of the writes that do.
    pub write_fraction: Option<f64>,
    /// Share of the reads that begin where the read before them on the volume ended, whatever was written in between.
    pub read_after_read_fraction: Option<f64>,
    /// Share of the writes that begin where the write before them on the volume ended, whatever was read in between.
    pub write_after_write_fraction: Option<f64>,
    /// Requests of a run.
    pub run_requests: Spread,
    /// Bytes of a run.
    pub run_bytes: Spread,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequentiality_is_counted_after_any_request_and_by_operation() {
        let request = |op, lba, stream| Request { arrival_ns: 0, lba, sectors: 8, op, stream, fua: false };
        let mut sequence = Sequence::default();
        sequence.add(&[
            request(Op::Write, 0, 0),
            request(Op::Read, 800, 0),
            request(Op::Write, 8, 0),
            request(Op::Read, 16, 0),
            request(Op::Write, 16, 1),
            request(Op::Read, 24, 0),
        ]);
        let found = sequence.finish().unwrap();
        assert_eq!((found.read_fraction, found.write_fraction), (Some(2.0 / 3.0), Some(0.0)));
        let by_op = (found.read_after_read_fraction, found.write_after_write_fraction);
        assert_eq!(by_op, (Some(1.0 / 3.0), Some(1.0 / 3.0)));
    }
}
