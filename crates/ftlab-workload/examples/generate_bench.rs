//! How fast workloads of every kind are generated on one core: `generate_bench [REQUESTS]`; with a hash of the requests.

use std::time::Instant;

use ftlab_workload::kinds::disksim::Access;
use ftlab_workload::{CommonKeys, Interarrival, WorkloadConfig, WorkloadKind};

fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
}

/// One workload of each kind, and variants that take another way.
fn workloads(requests: u64) -> Vec<(String, WorkloadConfig)> {
    let of =
        |kind| WorkloadConfig::new(kind, CommonKeys { requests: Some(requests), ..CommonKeys::default() });
    let changed = |kind, change: fn(&mut WorkloadConfig)| {
        let mut config = of(kind);
        change(&mut config);
        config
    };
    let asap = |kind| changed(kind, |config| config.common.interarrival = Some(Interarrival::Asap));
    // An example of each kind; kind `fitted` has none, as it needs a model.
    let mut workloads: Vec<(String, WorkloadConfig)> = WorkloadKind::ALL
        .iter()
        .filter_map(|kind| Some((kind.name().to_owned(), kind.example(requests)?)))
        .collect();
    workloads.extend([
        ("sequential asap".into(), asap(WorkloadKind::Sequential)),
        ("uniform asap".into(), asap(WorkloadKind::Uniform)),
        (
            "uniform asap trims".into(),
            changed(WorkloadKind::Uniform, |config| {
                config.common.interarrival = Some(Interarrival::Asap);
                config.common.trim_fraction = Some(0.2);
            }),
        ),
        ("zipf asap".into(), asap(WorkloadKind::Zipf)),
        (
            "disksim sequential".into(),
            changed(WorkloadKind::Disksim, |config| config.own.disksim.access = Some(Access::Sequential)),
        ),
    ]);
    workloads
}

#[expect(clippy::print_stdout, reason = "its output is what it is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let requests = std::env::args().nth(1).map_or(Ok(2_000_000), |text| text.parse())?;
    println!("{:18} {:>12}  hash", "workload", "ns/request");
    for (name, config) in workloads(requests) {
        let mut source = config.factory(64 << 30, None, None)?.open(0)?;
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
