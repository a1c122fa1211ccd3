//! Sparse addresses made dense.

use std::sync::OnceLock;

use ftlab_core::quantity;

use std::sync::Arc;

use ftlab_core::host::request::{Op, Request, RequestSource, SourceError, SourceFactory};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::stage::{
    Fault, RequestSplitter, SECTOR, SplitSource, Transform, has_address, refuse, some_sectors,
};
use crate::ending;
use crate::keys::SizeSchema;
use ftlab_stats::pages::{PageMap, PageNames, Place, scatter};

/// In which order chunks are put next to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// As they lie: neighbours stay neighbours, requests stay whole. The source is read twice.
    #[default]
    Address,
    /// As they are first used: what is used together comes together. The source is read once. A request over the border
    /// of two chunks that do not lie next to each other becomes two.
    FirstTouch,
}

/// Close the gaps between the chunks of the address space that are read or written. Addresses within a chunk stay as
/// they lie. A trim does not make use of a chunk. What it says of unused chunks is left out. With `first_touch`, so is
/// what it says of chunks that are only used later. Streams share the address space.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compact {
    /// Size of a chunk, at least 4 KiB. 1 MiB when absent: smaller chunks close more gaps and keep less of what lies near each other.
    #[serde(default = "default_chunk", deserialize_with = "quantity::bytes")]
    #[schemars(with = "SizeSchema")]
    pub chunk_bytes: u64,
    /// In which order chunks are put. `address` when absent.
    #[serde(default)]
    pub order: Order,
}

const SMALLEST_CHUNK: u64 = 4096;

fn default_chunk() -> u64 {
    1 << 20
}

impl Transform for Compact {
    fn validate(&self) -> Result<(), Fault> {
        some_sectors("chunk_bytes", Some(self.chunk_bytes))?;
        if self.chunk_bytes < SMALLEST_CHUNK {
            return refuse("chunk_bytes", self.chunk_bytes, "must be at least 4 KiB");
        }
        Ok(())
    }

    fn onto(&self, inner: Arc<dyn SourceFactory>, origin: String) -> Arc<dyn SourceFactory> {
        let chunk = self.chunk_bytes / SECTOR;
        Arc::new(Dense { inner, chunk, order: self.order, origin, known: Arc::default() })
    }
}

/// Numbers that were seen, in order, in 8 bytes each: those that may be new wait in a list that is sorted in from time
/// to time.
#[derive(Default)]
struct Collected {
    sorted: Vec<u64>,
    waiting: Vec<u64>,
}

impl Collected {
    /// Numbers that wait at least; else a quarter of the sorted ones.
    const WAITING: usize = 1 << 16;

    fn add(&mut self, number: u64) {
        if self.waiting.len() >= Self::WAITING.max(self.sorted.len() / 4) {
            self.sort_in();
        }
        self.waiting.push(number);
    }

    fn sort_in(&mut self) {
        self.waiting.sort_unstable();
        self.waiting.dedup();
        let mut known = self.sorted.iter().peekable();
        self.waiting.retain(|number| {
            while known.next_if(|other| *other < number).is_some() {}
            known.peek() != Some(&number)
        });
        // From the end on, so that nothing is overwritten that is still needed.
        let mut old = self.sorted.len();
        self.sorted.reserve_exact(self.waiting.len());
        self.sorted.resize(old + self.waiting.len(), 0);
        let mut place = self.sorted.len();
        while let Some(new) = self.waiting.pop() {
            while old > 0 && self.sorted[old - 1] > new {
                (old, place) = (old - 1, place - 1);
                self.sorted[place] = self.sorted[old];
            }
            place -= 1;
            self.sorted[place] = new;
        }
    }

    fn finish(mut self) -> Sorted {
        self.sort_in();
        Sorted::new(self.sorted)
    }
}

/// Ascending numbers, with a list of where the parts of their range begin: about 9 bytes for each.
struct Sorted {
    numbers: Vec<u64>,
    first: u64,
    shift: u32,
    starts: Vec<u32>,
}

impl Sorted {
    fn new(mut numbers: Vec<u64>) -> Self {
        numbers.shrink_to_fit();
        let (first, last) = (numbers.first().copied().unwrap_or(0), numbers.last().copied().unwrap_or(0));
        // Some four numbers to a part.
        let most = numbers.len() as u64 / 4;
        let shift = (0..64).find(|shift| (last - first) >> shift <= most).unwrap_or(63);
        let parts = ((last - first) >> shift) + 1;
        let mut starts = Vec::with_capacity(parts as usize + 1);
        for (place, number) in numbers.iter().enumerate() {
            let part = ((number - first) >> shift) as usize;
            while starts.len() <= part {
                starts.push(place as u32);
            }
        }
        starts.resize(parts as usize + 1, numbers.len() as u32);
        Self { numbers, first, shift, starts }
    }

    /// How many are below `number`.
    fn below(&self, number: u64) -> usize {
        let part = number.saturating_sub(self.first) >> self.shift;
        let Some(from) = self.starts.get(part as usize).map(|start| *start as usize) else {
            return self.numbers.len();
        };
        let to = self.starts.get(part as usize + 1).map_or(self.numbers.len(), |start| *start as usize);
        from + self.numbers[from..to].partition_point(|other| *other < number)
    }

    fn place(&self, number: u64) -> Option<u64> {
        let place = self.below(number);
        (self.numbers.get(place) == Some(&number)).then_some(place as u64)
    }
}

/// Of a place that was used in this pass; the bits below are its number.
const USED: u32 = 1 << 31;

/// Where each chunk goes.
#[derive(Clone)]
struct Places {
    chunk: u64,
    /// Those of the measured run, in the order of their addresses, where that is wanted.
    sorted: Option<Arc<Sorted>>,
    /// All others, in the order of their first use; 16 bytes for each. [`USED`] in this pass, or only known.
    names: PageNames,
    others: PageMap,
    /// The chunk looked up last and its place: most requests stay near the one before.
    last: (u64, u64),
}

impl Places {
    fn new(chunk: u64, sorted: Option<Arc<Sorted>>) -> Self {
        let last = (u64::MAX, 0);
        Self { chunk, sorted, names: PageNames::default(), others: PageMap::default(), last }
    }

    fn key(&mut self, chunk: u64) -> u64 {
        let mut key = 0;
        self.names.ranges(0, chunk, chunk, |name, _| key = scatter(name));
        key
    }

    /// The place of a chunk that a trim may speak of: one of the measured run, or one that was used before.
    #[inline]
    fn find(&mut self, chunk: u64) -> Option<u64> {
        if chunk == self.last.0 {
            return Some(self.last.1);
        }
        if let Some(place) = self.sorted.as_ref().and_then(|sorted| sorted.place(chunk)) {
            return Some(place);
        }
        let key = self.key(chunk);
        let number = self.others.get(key).filter(|number| number & USED != 0)?;
        Some(self.behind() + u64::from(number & !USED))
    }

    /// Where chunks go that are not among the sorted ones.
    fn behind(&self) -> u64 {
        self.sorted.as_ref().map_or(0, |sorted| sorted.numbers.len() as u64)
    }

    /// The place of a chunk: after all others if it was not used before.
    #[inline]
    fn of(&mut self, chunk: u64) -> u64 {
        if chunk == self.last.0 {
            return self.last.1;
        }
        let known = self.sorted.as_ref().and_then(|sorted| sorted.place(chunk));
        let place = known.unwrap_or_else(|| {
            let entry = self.know(chunk);
            let number = self.others.value(entry) & !USED;
            self.others.set(entry, number | USED);
            self.behind() + u64::from(number)
        });
        self.last = (chunk, place);
        place
    }

    /// Give a chunk a place behind the others, if it has none.
    fn know(&mut self, chunk: u64) -> Place {
        let (key, next) = (self.key(chunk), self.others.len() as u32);
        let (entry, new) = self.others.entry(key);
        if new {
            self.others.set(entry, next);
        }
        entry
    }

    fn chunks(&self, request: &Request) -> std::ops::RangeInclusive<u64> {
        let last = request.lba.saturating_add(u64::from(request.sectors.max(1)) - 1);
        request.lba / self.chunk..=last / self.chunk
    }

    /// What a trim says of chunks that are used: these lie together where they are sorted.
    fn trim(&mut self, request: Request, out: &mut Vec<Request>) {
        let (first, last) = (request.lba / self.chunk, *self.chunks(&request).end());
        let end = request.lba.saturating_add(u64::from(request.sectors));
        let (chunk, made) = (self.chunk, out.len());
        let mut piece = |from: u64, to: u64, place: u64, length: u64| {
            // The begin of the first chunk and the end of the last may be spared.
            let begin = place * chunk + if from == first { request.lba % chunk } else { 0 };
            let spared = if to == last { chunk - 1 - (end - 1) % chunk } else { 0 };
            let sectors = ((place + length) * chunk - spared - begin) as u32;
            match out[made..].last_mut().filter(|before| before.lba + u64::from(before.sectors) == begin) {
                Some(before) => before.sectors += sectors,
                None => out.push(Request { lba: begin, sectors, ..request }),
            }
        };
        match &self.sorted {
            Some(sorted) if self.others.is_empty() => {
                let (from, to) = (sorted.below(first), sorted.below(last + 1));
                if from < to {
                    let (first, last) = (sorted.numbers[from], sorted.numbers[to - 1]);
                    piece(first, last, from as u64, (to - from) as u64);
                }
            }
            _ => {
                for number in first..=last {
                    if let Some(place) = self.find(number) {
                        piece(number, number, place, 1);
                    }
                }
            }
        }
    }
}

impl RequestSplitter for Places {
    #[inline]
    fn split(&mut self, request: Request, out: &mut Vec<Request>) -> Result<(), String> {
        if !has_address(&request) {
            out.push(request);
            return Ok(());
        }
        if request.op == Op::Trim {
            self.trim(request, out);
            return Ok(());
        }
        let mut chunks = self.chunks(&request);
        let (first, last) = (*chunks.start(), *chunks.end());
        chunks.next();
        let begin = self.of(first) * self.chunk + request.lba % self.chunk;
        let mut piece = Request { lba: begin, ..request };
        if first == last {
            out.push(piece);
            return Ok(());
        }
        let mut left = u64::from(request.sectors);
        let mut length = self.chunk - request.lba % self.chunk;
        for chunk in chunks {
            let begin = self.of(chunk) * self.chunk;
            if begin != piece.lba + length {
                out.push(Request { sectors: length as u32, ..piece });
                left -= length;
                (piece.lba, length) = (begin, 0);
            }
            length += self.chunk;
        }
        out.push(Request { sectors: left as u32, ..piece });
        Ok(())
    }
}

struct Dense {
    inner: Arc<dyn SourceFactory>,
    chunk: u64,
    order: Order,
    origin: String,
    /// What the measured run uses: other passes must put the same chunk into the same place.
    known: Arc<OnceLock<Known>>,
}

/// The chunks of the measured run.
enum Known {
    ByAddress(Arc<Sorted>),
    ByFirstTouch(PageNames, PageMap),
}

impl Dense {
    /// Learn all chunks that the measured run reads or writes.
    fn learn(&self) -> Result<Known, SourceError> {
        const BATCH: usize = 4096;
        let mut source = self.inner.open(0)?;
        let mut batch = Vec::with_capacity(BATCH);
        let (mut collected, mut places) = (Collected::default(), Places::new(self.chunk, None));
        let mut last = u64::MAX;
        while source.fill(&mut batch, BATCH)? > 0 {
            ending::check(&self.origin)?;
            for request in batch.drain(..).filter(|request| has_address(request) && request.op != Op::Trim) {
                for chunk in places.chunks(&request) {
                    if self.order == Order::FirstTouch {
                        places.know(chunk);
                    } else if chunk != last {
                        collected.add(chunk);
                    }
                    last = chunk;
                }
            }
        }
        Ok(match self.order {
            Order::Address => Known::ByAddress(Arc::new(collected.finish())),
            Order::FirstTouch => Known::ByFirstTouch(places.names, places.others),
        })
    }
}

impl SourceFactory for Dense {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let places = if self.order == Order::FirstTouch && pass == 0 {
            Places::new(self.chunk, None)
        } else {
            let known = if let Some(known) = self.known.get() {
                known
            } else {
                let known = self.learn()?;
                self.known.get_or_init(|| known)
            };
            match known {
                Known::ByAddress(sorted) => Places::new(self.chunk, Some(sorted.clone())),
                Known::ByFirstTouch(names, others) => {
                    Places { names: names.clone(), others: others.clone(), ..Places::new(self.chunk, None) }
                }
            }
        };
        Ok(Box::new(SplitSource::new(self.inner.open(pass)?, places, self.origin.clone())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ftlab_core::rng::Rng;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn collected_numbers_are_sorted_and_found(numbers in prop::collection::vec(0..50_000u64, 0..3000), far in 0..40u32) {
            let numbers: Vec<u64> = numbers.iter().map(|number| number << (number % 3) << far).collect();
            let mut collected = Collected::default();
            for (step, number) in numbers.iter().enumerate() {
                collected.add(*number);
                if step % 700 == 0 {
                    collected.sort_in();
                }
            }
            let sorted = collected.finish();
            let plain: Vec<u64> = numbers.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
            prop_assert_eq!(&sorted.numbers, &plain);
            for (place, number) in plain.iter().enumerate() {
                prop_assert_eq!(sorted.place(*number), Some(place as u64));
                prop_assert_eq!(sorted.below(number + 1), place + 1);
            }
        }
    }

    #[test]
    fn chunks_take_few_bytes() {
        const CHUNKS: u64 = 300_000;
        let mut rng = Rng::for_path(1, &[]);
        let mut collected = Collected::default();
        let mut places = Places::new(8, None);
        let mut most = 0;
        for _ in 0..CHUNKS {
            let chunk = rng.below_unbiased(1 << 40);
            collected.add(chunk);
            places.of(chunk);
            most = most.max(collected.sorted.capacity() + collected.waiting.capacity());
        }
        let sorted = collected.finish();
        assert!(sorted.numbers.capacity() as u64 * 8 + sorted.starts.capacity() as u64 * 4 <= 10 * CHUNKS);
        assert!(most as u64 * 8 <= 20 * CHUNKS, "{most}");
        assert!(places.others.bytes() as u64 <= 17 * CHUNKS, "{}", places.others.bytes());
    }
}
