//! Batches of requests: what is refused before any of it is sent, and what comes out.

use ftlab_core::host::request::{Op, Request, SECTOR_BYTES};

use crate::error::DeviceError;

/// Bytes of a sector, of which addresses count.
pub(crate) const SECTOR: u64 = SECTOR_BYTES as u64;

/// The most requests that are outstanding at once.
pub const MAX_DEPTH: u32 = 1024;

/// When the requests of a batch are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// At their own times, counted from the start of the batch. Those of one instant go in one call of the system.
    Own,
    /// So that as many are outstanding: each completion brings the next one.
    Closed {
        /// Requests that are outstanding, 1 to [`MAX_DEPTH`].
        queue_depth: u32,
        /// Nanoseconds between a completion and the request that it brings.
        gap_ns: u64,
    },
}

/// When a request was handed to the system, and when its end was seen: nanoseconds since the target was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Before the call that handed it over. Requests of one call have the same.
    pub start_ns: u64,
    /// When its end was seen.
    pub end_ns: u64,
}

/// The spans of a batch in its order; `None` for what did not complete.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measured {
    /// One for each request.
    pub spans: Vec<Option<Span>>,
}

impl Measured {
    /// How many requests completed.
    pub fn done(&self) -> usize {
        self.spans.iter().flatten().count()
    }
}

/// What a target can take.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) sectors: u64,
    /// Addresses and lengths of reads and writes are multiples of it, in sectors.
    pub(crate) unit_sectors: u64,
    pub(crate) buffer_bytes: usize,
    pub(crate) can_trim: bool,
}

pub(crate) fn bytes_of(request: &Request) -> usize {
    match request.op {
        Op::Read | Op::Write => request.sectors as usize * SECTOR as usize,
        Op::Trim | Op::Flush => 0,
    }
}

fn check_request(request: &Request, limits: &Limits) -> Result<(), String> {
    let Request { op, lba, sectors, .. } = *request;
    if op == Op::Flush {
        return Ok(());
    }
    if op == Op::Trim && !limits.can_trim {
        return Err("the target cannot trim: its system offers no discard".into());
    }
    if sectors == 0 {
        return Err(format!("sectors = 0: expected 1 or more for a {}", op.name()));
    }
    if lba.checked_add(sectors.into()).is_none_or(|end| end > limits.sectors) {
        return Err(format!("lba = {lba}, sectors = {sectors}: expected to end by {}", limits.sectors));
    }
    for (key, found) in [("lba", lba), ("sectors", sectors.into())] {
        if found % limits.unit_sectors != 0 {
            let unit = limits.unit_sectors;
            let below = found / unit * unit;
            let nearest = if below == 0 && key == "sectors" { unit } else { below };
            return Err(format!("{key} = {found}: expected a multiple of {unit}, such as {nearest}"));
        }
    }
    if bytes_of(request) > limits.buffer_bytes {
        let most = limits.buffer_bytes as u64 / SECTOR;
        return Err(format!("sectors = {sectors}: expected at most {most}, for which there is memory"));
    }
    Ok(())
}

/// Refuse a batch that cannot be sent as it is.
pub(crate) fn check(requests: &[Request], pace: Pace, limits: &Limits) -> Result<(), DeviceError> {
    let wrong = |text: String| Err(DeviceError::Batch(text));
    for (index, request) in requests.iter().enumerate() {
        if let Err(text) = check_request(request, limits) {
            return wrong(format!("request {index}: {text}"));
        }
    }
    match pace {
        Pace::Closed { queue_depth, .. } if !(1..=MAX_DEPTH).contains(&queue_depth) => {
            wrong(format!("queue_depth = {queue_depth}: expected 1 to {MAX_DEPTH}"))
        }
        Pace::Closed { .. } => Ok(()),
        Pace::Own => {
            for (index, pair) in requests.windows(2).enumerate() {
                let (before, after) = (pair[0].arrival_ns, pair[1].arrival_ns);
                if after < before {
                    return wrong(format!(
                        "request {}: at_ns = {after}: expected {before} or later, as the one before it",
                        index + 1
                    ));
                }
            }
            for group in instants(requests) {
                let (count, bytes) = (group.len(), group.iter().map(bytes_of).sum::<usize>());
                if count > MAX_DEPTH as usize {
                    return wrong(format!("{count} requests of one instant: expected at most {MAX_DEPTH}"));
                }
                if bytes > limits.buffer_bytes {
                    let most = limits.buffer_bytes;
                    return wrong(format!(
                        "{bytes} bytes of one instant: expected at most {most}, for which there is memory"
                    ));
                }
            }
            Ok(())
        }
    }
}

/// Requests that are sent together.
fn instants(requests: &[Request]) -> impl Iterator<Item = &[Request]> {
    requests.chunk_by(|a, b| a.arrival_ns == b.arrival_ns)
}

/// The part of a batch that goes first: as many requests as there is memory for. Those of one instant stay together.
pub(crate) fn first_part(requests: &[Request], pace: Pace, buffer_bytes: usize) -> usize {
    let mut bytes = 0;
    let mut fits = |group: &[Request]| {
        bytes += group.iter().map(bytes_of).sum::<usize>();
        bytes <= buffer_bytes
    };
    match pace {
        Pace::Own => instants(requests).take_while(|group| fits(group)).map(<[_]>::len).sum(),
        Pace::Closed { .. } => requests.chunks(1).take_while(|group| fits(group)).count(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { sectors: 64, unit_sectors: 8, buffer_bytes: 16 << 10, can_trim: false };

    fn request(op: Op, lba: u64, sectors: u32, arrival_ns: u64) -> Request {
        Request { arrival_ns, lba, sectors, op, stream: 0, fua: false }
    }

    fn told(requests: &[Request], pace: Pace) -> String {
        check(requests, pace, &LIMITS).map_or_else(|error| error.to_string(), |()| "fine".into())
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_its_place() {
        let closed = Pace::Closed { queue_depth: 2, gap_ns: 0 };
        let good = request(Op::Read, 8, 16, 0);
        let cases = [
            (request(Op::Read, 4, 8, 0), "request 1: lba = 4: expected a multiple of 8, such as 0"),
            (request(Op::Write, 8, 3, 0), "request 1: sectors = 3: expected a multiple of 8, such as 8"),
            (request(Op::Read, 56, 16, 0), "request 1: lba = 56, sectors = 16: expected to end by 64"),
            (
                request(Op::Read, u64::MAX - 7, 16, 0),
                "request 1: lba = 18446744073709551608, sectors = 16: expected to end by 64",
            ),
            (request(Op::Read, 0, 0, 0), "request 1: sectors = 0: expected 1 or more for a read"),
            (
                request(Op::Read, 0, 40, 0),
                "request 1: sectors = 40: expected at most 32, for which there is memory",
            ),
            (request(Op::Trim, 0, 8, 0), "request 1: the target cannot trim: its system offers no discard"),
            (request(Op::Flush, 1, 0, 0), "fine"),
        ];
        for (bad, text) in cases {
            assert_eq!(told(&[good, bad], closed), text);
        }
        assert_eq!(
            told(&[good], Pace::Closed { queue_depth: 0, gap_ns: 0 }),
            "queue_depth = 0: expected 1 to 1024"
        );
    }

    #[test]
    fn own_times_must_be_in_order_and_fit_into_memory() {
        let [first, second] = [request(Op::Read, 0, 8, 10), request(Op::Read, 8, 8, 9)];
        assert_eq!(
            told(&[first, second], Pace::Own),
            "request 1: at_ns = 9: expected 10 or later, as the one before it"
        );
        let closed = Pace::Closed { queue_depth: 1, gap_ns: 0 };
        let many = vec![request(Op::Read, 0, 16, 0); 3];
        assert!(told(&many, Pace::Own).starts_with("24576 bytes of one instant: expected at most 16384"));
        assert_eq!(told(&many, closed), "fine");
        assert_eq!(first_part(&many, closed, LIMITS.buffer_bytes), 2);
        let pairs = [0, 0, 5, 5].map(|at| request(Op::Read, 0, 8, at));
        assert_eq!(told(&pairs, Pace::Own), "fine");
        assert_eq!(first_part(&pairs, Pace::Own, 3 * 8 * 512), 2);
        assert_eq!(first_part(&pairs, closed, 3 * 8 * 512), 3);
    }
}
