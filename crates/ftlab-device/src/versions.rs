//! Which write each sector holds, as far as it is known, and what reads must have seen.

use std::collections::HashMap;

use ftlab_core::host::request::{Op, Request, SECTOR_BYTES};

use crate::Proofs;
use crate::batch::Span;
use crate::pattern;

/// Sectors whose versions stand together.
const CHUNK: u64 = 2048;

/// Nothing is known of a sector.
const UNKNOWN: u32 = 0;

/// The versions of a chunk. Large writes, with which drives are filled, need no table.
enum Chunk {
    Same(u32),
    Each(Box<[u32]>),
}

/// The version of each sector.
#[derive(Default)]
pub(crate) struct Versions {
    chunks: HashMap<u64, Chunk>,
}

impl Versions {
    fn set(&mut self, lba: u64, sectors: u64, version: u32) {
        let end = lba + sectors;
        let mut from = lba;
        while from < end {
            let (index, to) = (from / CHUNK, end.min((from / CHUNK + 1) * CHUNK));
            if to - from == CHUNK {
                self.chunks.insert(index, Chunk::Same(version));
            } else {
                let chunk = self.chunks.entry(index).or_insert(Chunk::Same(UNKNOWN));
                if let Chunk::Same(before) = *chunk {
                    *chunk = Chunk::Each(vec![before; CHUNK as usize].into());
                }
                let Chunk::Each(versions) = chunk else { unreachable!("made above") };
                versions[(from % CHUNK) as usize..=((to - 1) % CHUNK) as usize].fill(version);
            }
            from = to;
        }
    }

    fn get(&self, lba: u64) -> u32 {
        match self.chunks.get(&(lba / CHUNK)) {
            None => UNKNOWN,
            Some(Chunk::Same(version)) => *version,
            Some(Chunk::Each(versions)) => versions[(lba % CHUNK) as usize],
        }
    }
}

/// One request of a batch that has ended.
pub(crate) struct Ended<'a> {
    pub(crate) request: &'a Request,
    pub(crate) version: u32,
    pub(crate) span: Option<Span>,
    /// What a read brought.
    pub(crate) data: &'a [u8],
}

/// A request between its start and its end.
struct Active {
    index: usize,
    /// Another one at the same time leaves open what it found or what it leaves behind.
    unclear: bool,
}

fn overlap(a: &Request, b: &Request) -> bool {
    a.lba < b.lba + u64::from(b.sectors) && b.lba < a.lba + u64::from(a.sectors)
}

/// Go through a batch in the order of its times, and compare each read with what the writes before it left.
///
/// # Errors
/// The first sector that held something else, and what.
pub(crate) fn settle(
    versions: &mut Versions,
    batch: &[Ended<'_>],
    seed: u64,
    proofs: &mut Proofs,
) -> Result<(), (u64, String)> {
    let mut events = Vec::with_capacity(batch.len() * 2);
    for (index, ended) in batch.iter().enumerate() {
        match (ended.request.op, ended.span) {
            // It may have reached the drive or not, and may do so still.
            (Op::Write | Op::Trim, None) => events.push((0, true, index)),
            (Op::Flush, _) | (Op::Read, None) => {}
            (_, Some(span)) => {
                events.push((span.start_ns, true, index));
                // An end at the same moment comes after it.
                events.push((span.end_ns.max(span.start_ns + 1), false, index));
            }
        }
    }
    events.sort_unstable();
    let mut active: Vec<Active> = Vec::new();
    let mut first = Ok(());
    for (_, starts, index) in events {
        let Ended { request, version, data, .. } = batch[index];
        if starts {
            let mut unclear = false;
            for other in &mut active {
                let its = batch[other.index].request;
                if (its.op != Op::Read || request.op != Op::Read) && overlap(its, request) {
                    (unclear, other.unclear) = (true, true);
                }
            }
            active.push(Active { index, unclear });
            continue;
        }
        let place = active.iter().position(|each| each.index == index).expect("it has started");
        let unclear = active.swap_remove(place).unclear;
        if request.op != Op::Read {
            let known = request.op == Op::Write && !unclear;
            versions.set(request.lba, request.sectors.into(), if known { version } else { UNKNOWN });
            continue;
        }
        for (sector, lba) in data.chunks_exact(SECTOR_BYTES as usize).zip(request.lba..) {
            let expected = if unclear { UNKNOWN } else { versions.get(lba) };
            if expected == UNKNOWN {
                proofs.unknown += 1;
                continue;
            }
            match pattern::check(sector, seed, lba, expected) {
                Ok(()) => proofs.verified += 1,
                Err(text) => first = first.and(Err((lba, text))),
            }
        }
    }
    for left in active {
        let request = batch[left.index].request;
        versions.set(request.lba, request.sectors.into(), UNKNOWN);
    }
    first
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn request(op: Op, lba: u64, sectors: u32) -> Request {
        Request { arrival_ns: 0, lba, sectors, op, stream: 0, fua: false }
    }

    fn data(lba: u64, sectors: u32, version: u32) -> Vec<u8> {
        let mut data = vec![0; sectors as usize * 512];
        pattern::fill(&mut data, 1, lba, version);
        data
    }

    const fn span(start_ns: u64, end_ns: u64) -> Span {
        Span { start_ns, end_ns }
    }

    /// A write of version 2 and a read of what version 1 left, at the given times.
    fn read_beside(write: Option<Span>, read: Option<Span>) -> (Result<(), (u64, String)>, Proofs) {
        let (mut versions, mut proofs) = (Versions::default(), Proofs::default());
        versions.set(0, 8, 1);
        let [write_request, read_request] = [request(Op::Write, 0, 4), request(Op::Read, 2, 4)];
        let old = data(2, 4, 1);
        let batch = [
            Ended { request: &write_request, version: 2, span: write, data: &[] },
            Ended { request: &read_request, version: 3, span: read, data: &old },
        ];
        (settle(&mut versions, &batch, 1, &mut proofs), proofs)
    }

    #[test]
    fn a_read_must_see_the_writes_that_ended_before_it_began() {
        let stale = Err((2, "holds write 1: expected write 2, which was acknowledged".into()));
        assert_eq!(read_beside(Some(span(0, 5)), Some(span(5, 9))).0, stale);
        // The write came later, or at the same time.
        assert_eq!(
            read_beside(Some(span(9, 12)), Some(span(5, 9))),
            (Ok(()), Proofs { verified: 4, unknown: 0 })
        );
        assert_eq!(
            read_beside(Some(span(0, 6)), Some(span(5, 9))),
            (Ok(()), Proofs { verified: 0, unknown: 4 })
        );
        assert_eq!(read_beside(None, Some(span(5, 9))), (Ok(()), Proofs { verified: 0, unknown: 4 }));
        assert_eq!(read_beside(Some(span(0, 1)), None), (Ok(()), Proofs::default()));
    }

    #[test]
    fn of_writes_at_the_same_time_nobody_knows_which_one_stays() {
        let (mut versions, mut proofs) = (Versions::default(), Proofs::default());
        let writes = [request(Op::Write, 0, 4), request(Op::Write, 2, 4), request(Op::Write, 8, 2)];
        let spans = [span(0, 9), span(3, 6), span(4, 5)];
        let batch: Vec<_> = (0..3)
            .map(|index| Ended {
                request: &writes[index],
                version: index as u32 + 1,
                span: Some(spans[index]),
                data: &[],
            })
            .collect();
        settle(&mut versions, &batch, 1, &mut proofs).unwrap();
        let known: Vec<_> = (0..10).map(|lba| versions.get(lba)).collect();
        assert_eq!(known, [0, 0, 0, 0, 0, 0, 0, 0, 3, 3]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn versions_are_those_of_a_plain_list(
            steps in proptest::collection::vec((0u64..5000, 1u64..5000, 0u32..9), 1..20),
        ) {
            let (mut versions, mut plain) = (Versions::default(), vec![0; 10_000]);
            for (lba, sectors, version) in steps {
                versions.set(lba, sectors, version);
                plain[lba as usize..(lba + sectors) as usize].fill(version);
            }
            for (lba, version) in plain.iter().enumerate() {
                prop_assert_eq!(versions.get(lba as u64), *version);
            }
        }
    }
}
