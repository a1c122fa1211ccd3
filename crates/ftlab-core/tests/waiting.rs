//! Requests that wait at the host: a drive whose limit is reached often, against a model with lists.

use ftlab_core::host::request::{Op, Request};
use ftlab_core::rng::Rng;
use ftlab_core::time::Time;
use serde_json::json;

use crate::common::{device, merged, run, small};

const PROGRAM_NS: u64 = 200_000;
const DIES: u64 = 4;

/// When each request is handed over and when it ends. Pages go to dies by address, and a die programs one after the other.
fn expected(requests: &[Request], limit: usize, by_address: bool) -> Vec<(u64, u64)> {
    let mut times = vec![(0, 0); requests.len()];
    let (mut free, mut last) = ([0; DIES as usize], 0);
    let (mut waiting, mut in_drive): (Vec<usize>, Vec<u64>) = (Vec::new(), Vec::new());
    let mut coming = 0;
    let mut hand_over = |at: usize, now: u64, in_drive: &mut Vec<u64>| {
        let lba = requests[at].lba;
        let die = &mut free[(lba / 8 % DIES) as usize];
        *die = now.max(*die) + PROGRAM_NS;
        times[at] = (now, *die);
        in_drive.push(*die);
        lba
    };
    while coming < requests.len() || !in_drive.is_empty() {
        let ends = in_drive.iter().copied().min();
        let arrives = requests.get(coming).map(|request| request.arrival_ns);
        assert_ne!(ends, arrives, "nothing happens at equal times");
        if let (Some(now), true) = (arrives, arrives.is_some_and(|now| ends.is_none_or(|end| now < end))) {
            if in_drive.len() < limit {
                last = hand_over(coming, now, &mut in_drive);
            } else {
                waiting.push(coming);
            }
            coming += 1;
            continue;
        }
        let now = ends.unwrap();
        let ended = in_drive.iter().position(|end| *end == now).unwrap();
        in_drive.swap_remove(ended);
        let lba = |at: &&usize| requests[**at].lba;
        let next = if by_address {
            let higher = waiting.iter().filter(|at| lba(at) >= last).min_by_key(|at| (lba(at), **at));
            higher.or_else(|| waiting.iter().min_by_key(|at| (lba(at), **at)))
        } else {
            waiting.first()
        };
        if let Some(next) = next.copied() {
            waiting.retain(|at| *at != next);
            last = hand_over(next, now, &mut in_drive);
        }
    }
    times
}

#[test]
fn who_waits_is_handed_over_in_the_order_of_the_scheduler() {
    let (mut waited, mut differ) = (0, 0);
    for seed in 0..60 {
        let mut rng = Rng::new(seed, "waiting");
        let limit = 1 + rng.below(20) as usize;
        let mut us = 0;
        let requests: Vec<Request> = (0..300)
            .map(|index| {
                us += rng.below(90);
                // No request arrives when another ends: each, and what follows it, has nanoseconds of its own.
                let arrival_ns = us * 1000 + index;
                Request {
                    arrival_ns,
                    lba: 8 * rng.below(200),
                    sectors: 8,
                    op: Op::Write,
                    stream: 0,
                    fua: false,
                }
            })
            .collect();
        let mut orders = Vec::new();
        for (scheduler, by_address) in [("fifo", false), ("c_look", true)] {
            let config = json!({
                "geometry": { "channels": DIES, "ways": 1, "blocks_per_plane": 64 },
                "timing": { "bus_mb_per_s": 0 },
                "ftl": { "striping": "static" },
                "host": { "outstanding": limit, "scheduler": scheduler },
            });
            let (_, log) = run(&device(merged(small(), config)), &requests);
            let mut found = vec![(0, 0); requests.len()];
            for record in &log.requests {
                found[record.index as usize] = (record.start.as_ns(), record.end.as_ns());
            }
            let expected = expected(&requests, limit, by_address);
            assert_eq!(found, expected, "seed {seed}, {scheduler}, at most {limit}");
            orders.push(found);
        }
        waited +=
            orders[1].iter().zip(&requests).filter(|(time, request)| time.0 > request.arrival_ns).count();
        differ += usize::from(orders[0] != orders[1]);
        assert!(orders[0].iter().all(|(_, end)| Time::from_ns(*end) > Time::ZERO));
    }
    assert!(waited > 60 * 300 / 4 && differ > 40, "{waited} have waited, {differ} orders differ");
}
