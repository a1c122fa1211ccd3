//! How fast workloads of every kind are generated on one core: `generate_bench [REQUESTS]`; with a hash of the requests.

use std::time::Instant;

use ftlab_workload::{Access, Interarrival, WorkloadConfig, WorkloadKind, Zone};

fn mix(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23)
}

/// One workload of each kind, and variants that take another way.
fn workloads(requests: u64) -> Vec<(String, WorkloadConfig)> {
    let of =
        |kind| WorkloadConfig { kind: Some(kind), requests: Some(requests), ..WorkloadConfig::default() };
    let asap = |kind| WorkloadConfig { interarrival: Some(Interarrival::Asap), ..of(kind) };
    let mut workloads: Vec<(String, WorkloadConfig)> = WorkloadKind::ALL
        .into_iter()
        // It needs a model, which comes from a trace.
        .filter(|kind| *kind != WorkloadKind::Fitted)
        .map(|kind| {
            let config = match kind {
                WorkloadKind::Merge => WorkloadConfig {
                    parts: Some(
                        [WorkloadKind::PhoneSqlite, WorkloadKind::PhoneMedia, WorkloadKind::WebCache]
                            .map(|kind| WorkloadConfig { kind: Some(kind), ..WorkloadConfig::default() })
                            .to_vec(),
                    ),
                    ..of(kind)
                },
                WorkloadKind::Zoned => WorkloadConfig {
                    zones: Some(vec![
                        Zone { access_fraction: 0.6, space_fraction: 0.1 },
                        Zone { access_fraction: 0.4, space_fraction: 0.9 },
                    ]),
                    ..of(kind)
                },
                _ => of(kind),
            };
            (kind.name().to_owned(), config)
        })
        .collect();
    workloads.extend([
        ("sequential asap".into(), asap(WorkloadKind::Sequential)),
        ("uniform asap".into(), asap(WorkloadKind::Uniform)),
        (
            "uniform asap trims".into(),
            WorkloadConfig { trim_fraction: Some(0.2), ..asap(WorkloadKind::Uniform) },
        ),
        ("zipf asap".into(), asap(WorkloadKind::Zipf)),
        (
            "disksim sequential".into(),
            WorkloadConfig { access: Some(Access::Sequential), ..of(WorkloadKind::Disksim) },
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
