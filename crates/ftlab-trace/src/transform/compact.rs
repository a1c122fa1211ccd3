//! Sparse addresses made dense.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::OnceLock;

use ftlab_core::quantity;

use super::{
    Arc, Deserialize, Fault, JsonSchema, Request, RequestSource, SECTOR, Serialize, SourceError,
    SourceFactory, SplitSource, Splitter, Transform, has_address, refuse, some_sectors,
};
use crate::workload::SizeSchema;

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

/// Close the gaps between the chunks of the address space that are used. Addresses within a chunk stay as they lie.
/// Streams share the address space.
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

/// Each chunk that is used takes some 20 bytes of memory.
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

/// Chunk numbers are no secret of anybody: one multiplication spreads them.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }
    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// Where each chunk goes.
#[derive(Clone)]
struct Places {
    chunk: u64,
    places: HashMap<u64, u64, BuildHasherDefault<Spread>>,
    /// The chunk looked up last and its place: most requests stay near the one before.
    last: (u64, u64),
}

impl Places {
    fn new(chunk: u64) -> Self {
        Self { chunk, places: HashMap::default(), last: (u64::MAX, 0) }
    }

    /// The place of a chunk: after all others if it was not seen before.
    #[inline]
    fn of(&mut self, chunk: u64) -> u64 {
        if chunk != self.last.0 {
            let next = self.places.len() as u64;
            self.last = (chunk, *self.places.entry(chunk).or_insert(next));
        }
        self.last.1
    }

    /// Learn all chunks of a source, in the order of their first use.
    fn learn(&mut self, source: &mut dyn RequestSource) -> Result<(), SourceError> {
        const BATCH: usize = 4096;
        let mut batch = Vec::with_capacity(BATCH);
        while source.fill(&mut batch, BATCH)? > 0 {
            for request in batch.drain(..).filter(has_address) {
                for chunk in self.chunks(&request) {
                    self.of(chunk);
                }
            }
        }
        Ok(())
    }

    fn chunks(&self, request: &Request) -> std::ops::RangeInclusive<u64> {
        let last = request.lba.saturating_add(u64::from(request.sectors.max(1)) - 1);
        request.lba / self.chunk..=last / self.chunk
    }

    /// Forget the order of use: the chunks seen so far go in the order of their addresses.
    fn sort(&mut self) {
        let mut chunks: Vec<u64> = self.places.keys().copied().collect();
        chunks.sort_unstable();
        self.places = chunks.into_iter().zip(0..).collect();
        self.last = (u64::MAX, 0);
    }
}

impl Splitter for Places {
    #[inline]
    fn split(&mut self, request: Request, out: &mut Vec<Request>) -> Result<(), String> {
        if !has_address(&request) {
            out.push(request);
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
    known: Arc<OnceLock<Places>>,
}

impl SourceFactory for Dense {
    fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        let places = if self.order == Order::FirstTouch && pass == 0 {
            Places::new(self.chunk)
        } else if let Some(known) = self.known.get() {
            known.clone()
        } else {
            let mut places = Places::new(self.chunk);
            places.learn(self.inner.open(0)?.as_mut())?;
            if self.order == Order::Address {
                places.sort();
            }
            self.known.get_or_init(|| places).clone()
        };
        Ok(Box::new(SplitSource::new(self.inner.open(pass)?, places, self.origin.clone())))
    }
}
