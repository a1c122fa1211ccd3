//! How fast workloads are generated on one core: `generate_bench [REQUESTS]`; with a hash of the requests.

use std::time::Instant;

use ftlab_trace::workload::{Access, Interarrival, WorkloadConfig, WorkloadKind};

fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
}

#[expect(clippy::print_stdout, reason = "its output is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let requests = std::env::args().nth(1).map_or(Ok(5_000_000), |text| text.parse())?;
    let of =
        |kind| WorkloadConfig { kind: Some(kind), requests: Some(requests), ..WorkloadConfig::default() };
    let asap = |kind| WorkloadConfig { interarrival: Some(Interarrival::Asap), ..of(kind) };
    let workloads = [
        ("sequential asap", asap(WorkloadKind::Sequential)),
        ("uniform asap", asap(WorkloadKind::Uniform)),
        ("uniform poisson", of(WorkloadKind::Uniform)),
        ("uniform trims", WorkloadConfig { trim_fraction: Some(0.2), ..asap(WorkloadKind::Uniform) }),
        ("zipf asap", asap(WorkloadKind::Zipf)),
        ("hotcold asap", asap(WorkloadKind::Hotcold)),
        ("mix asap", asap(WorkloadKind::Mix)),
        ("disksim random", of(WorkloadKind::Disksim)),
        (
            "disksim sequential",
            WorkloadConfig { access: Some(Access::Sequential), ..of(WorkloadKind::Disksim) },
        ),
    ];
    println!("{:18} {:>12}  hash", "workload", "ns/request");
    for (name, config) in workloads {
        let mut source = config.factory(16 << 30, None, None)?.open(0)?;
        let mut batch = Vec::with_capacity(4096);
        let mut hash = 0;
        let start = Instant::now();
        while source.fill(&mut batch, 4096)? > 0 {
            for request in batch.drain(..) {
                hash = mix(mix(hash, request.arrival_ns), request.lba << 8 | u64::from(request.sectors) << 2);
            }
        }
        let nanoseconds = start.elapsed().as_nanos() as f64;
        println!("{name:18} {:12.1}  {hash:016x}", nanoseconds / requests as f64);
    }
    Ok(())
}
