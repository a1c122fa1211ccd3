//! How fast requests pass through each step on one core: `transform_bench [REQUESTS]`; with a hash of what comes out.
//!
//! The source gives requests in memory again and again; its own time stands in the first line and is in all others.

use std::sync::Arc;
use std::time::Instant;

use ftlab_core::host::request::{Op, Request, RequestSource, SourceError, SourceFactory};
use ftlab_trace::transform::{STEPS, Step, transformed};

fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
}

const RING: usize = 1 << 14;

#[derive(Clone)]
struct Ring {
    requests: Arc<Vec<Request>>,
    left: u64,
    next: usize,
}

impl RequestSource for Ring {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
        let count = max.min(RING - self.next).min(self.left.min(1 << 20) as usize);
        out.extend_from_slice(&self.requests[self.next..self.next + count]);
        self.next = (self.next + count) % RING;
        self.left -= count as u64;
        Ok(count)
    }
}

impl SourceFactory for Ring {
    fn open(&self, _: u64) -> Result<Box<dyn RequestSource>, SourceError> {
        Ok(Box::new(self.clone()))
    }
}

fn step(example: &str) -> Result<Step, serde_json::Error> {
    let mut words = example.split(' ');
    let mut keys = serde_json::Map::from_iter([("step".into(), words.next().into())]);
    for (key, value) in words.filter_map(|word| word.split_once('=')) {
        let list = |text: &str| text.split(',').map(Into::into).collect::<Vec<serde_json::Value>>().into();
        let number = value.parse::<u64>().map(Into::into).or_else(|_| value.parse::<f64>().map(Into::into));
        keys.insert(
            key.into(),
            number.unwrap_or_else(|_| if value.contains(',') { list(value) } else { value.into() }),
        );
    }
    serde_json::from_value(keys.into())
}

#[expect(clippy::print_stdout, reason = "its output is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let requests: u64 = std::env::args().nth(1).map_or(Ok(30_000_000), |text| text.parse())?;
    let request = |index: u64| {
        let mixed = index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
        Request {
            arrival_ns: index * 1000,
            lba: mixed % (1 << 20) * 8,
            sectors: (mixed % 16 + 1) as u32 * 8,
            op: if mixed.is_multiple_of(3) { Op::Read } else { Op::Write },
            stream: 0,
            fua: false,
        }
    };
    let ring: Ring =
        Ring { requests: Arc::new((0..RING as u64).map(request).collect()), left: requests, next: 0 };
    println!("{:58} {:>10} {:>14}  hash", "step", "ns/request", "M requests/s");
    let examples = std::iter::once("").chain(STEPS.iter().map(|step| step.example));
    let more =
        ["compact order=first_touch", "filter from_bytes=1GiB to_bytes=2GiB", "slice from_us=1ms to_us=9ms"];
    for example in examples.chain(more) {
        let steps = if example.is_empty() { Vec::new() } else { vec![step(example)?] };
        let mut source = transformed(Arc::new(ring.clone()), &steps).open(0)?;
        let mut batch = Vec::with_capacity(4096);
        // What `slice` and `repeat` take or give differs: all is told for a request that was read.
        let (mut count, mut hash) = (0_u64, 0);
        let start = Instant::now();
        while source.fill(&mut batch, 4096)? > 0 {
            count += batch.len() as u64;
            if let Some(last) = batch.last() {
                hash = mix(
                    mix(hash, last.arrival_ns),
                    last.lba << 8 | u64::from(last.sectors) << 2 | last.op as u64,
                );
            }
            batch.clear();
        }
        let nanoseconds = start.elapsed().as_nanos() as f64;
        let through = if example.starts_with("slice skip") { count } else { count.max(requests) };
        let each = nanoseconds / through as f64;
        let name = if example.is_empty() { "(none)" } else { example };
        println!("{name:58} {each:10.2} {:14.0}  {hash:016x}", 1000.0 / each);
    }
    Ok(())
}
