use ftlab_core::host::request::{Op, Request, RequestSource, SourceError, VecSource};
use proptest::prelude::*;

use super::*;

fn nanos(us: f64) -> u64 {
    (us * 1000.0).round() as u64
}

/// What a step does to all requests at once; `None` where it refuses one. Written without regard to the code under test.
fn naive(step: &Step, requests: &[Request]) -> Option<Vec<Request>> {
    let sized = |r: &Request| r.op != Op::Flush;
    match step {
        Step::ScaleTime(step) => requests
            .iter()
            .map(|r| {
                // Factors of the test are quarters, so that this is exact.
                let quarters = (step.factor * 4.0) as u128;
                let scaled = (u128::from(r.arrival_ns) * quarters + 2) / 4;
                Some(Request { arrival_ns: u64::try_from(scaled).ok()?, ..*r })
            })
            .collect(),
        Step::ShiftTime(step) => {
            let first = requests.first().map_or(0, |r| i128::from(r.arrival_ns));
            let by = match (step.start_us, step.later_us, step.earlier_us) {
                (Some(start), ..) => i128::from(nanos(start)) - first,
                (_, Some(later), _) => i128::from(nanos(later)),
                (.., earlier) => -i128::from(nanos(earlier?)),
            };
            let moved = |r: &Request| u64::try_from(i128::from(r.arrival_ns) + by).ok();
            requests.iter().map(|r| Some(Request { arrival_ns: moved(r)?, ..*r })).collect()
        }
        Step::Slice(Slice { from_us: None, to_us: None, skip, take }) => {
            let after = requests.iter().skip(skip.unwrap_or(0) as usize);
            Some(after.take(take.unwrap_or(u64::MAX) as usize).copied().collect())
        }
        Step::Slice(step) => {
            let (from, to) = (step.from_us.map_or(0, nanos), step.to_us.map(nanos));
            let is_before_end = |r: &Request| to.is_none_or(|to| r.arrival_ns < to);
            Some(requests.iter().filter(|r| r.arrival_ns >= from && is_before_end(r)).copied().collect())
        }
        Step::Filter(step) => {
            let (from, to) =
                (step.from_bytes.unwrap_or(0) / 512, step.to_bytes.map_or(u64::MAX, |to| to / 512));
            let chosen = requests.iter().filter_map(|r| {
                let mut kept = *r;
                let first = r.lba.max(from);
                let last = (r.lba + u64::from(r.sectors)).min(to);
                let meets = step.ops.as_ref().is_none_or(|ops| ops.contains(&r.op))
                    && step.streams.as_ref().is_none_or(|streams| streams.contains(&r.stream))
                    && (!sized(r) || first < last);
                if step.clip && sized(r) && first < last {
                    (kept.lba, kept.sectors) = (first, (last - first) as u32);
                }
                (meets != step.invert).then_some(kept)
            });
            Some(chosen.collect())
        }
        Step::SetOp(step) => {
            let of = step.of.clone().unwrap_or(vec![Op::Read, Op::Write, Op::Trim]);
            let op = |r: &Request| if of.contains(&r.op) { step.op } else { r.op };
            Some(
                requests
                    .iter()
                    .map(|r| Request { op: op(r), fua: r.fua && op(r) == Op::Write, ..*r })
                    .collect(),
            )
        }
        Step::MergeStreams(step) => requests
            .iter()
            .map(|r| {
                let mut merged = Request { stream: step.to, ..*r };
                if let Some(stride) = step.stride_bytes.filter(|_| sized(r)) {
                    let end = r.lba + u64::from(r.sectors);
                    merged.lba = r.lba + u64::from(r.stream) * (stride / 512);
                    return (end <= stride / 512).then_some(merged);
                }
                Some(merged)
            })
            .collect(),
        Step::ShiftAddress(step) => requests
            .iter()
            .map(|r| match step.up_bytes {
                _ if !sized(r) => Some(*r),
                Some(up) => Some(Request { lba: r.lba.checked_add(up / 512)?, ..*r }),
                None => Some(Request { lba: r.lba.checked_sub(step.down_bytes? / 512)?, ..*r }),
            })
            .collect(),
        Step::Wrap(step) => {
            let size = step.bytes / 512;
            sectors_to(requests, |r| u64::from(r.sectors) <= size, |sector| sector % size)
        }
        Step::Remap(step) => {
            let (size, to_size) = (step.size_bytes, step.to_size_bytes.unwrap_or(step.size_bytes));
            let mut mapped = Vec::new();
            for r in requests {
                let begin = u128::from(r.lba) * 512;
                let inside =
                    begin >= step.from_bytes.into() && begin < u128::from(step.from_bytes) + u128::from(size);
                let mut lba = r.lba;
                if sized(r) && inside {
                    let distance = begin - u128::from(step.from_bytes);
                    let align = u128::from(step.align_bytes.unwrap_or(4096));
                    let mut place = distance;
                    if size != to_size {
                        let unit = distance / align * u128::from(to_size / align as u64)
                            / u128::from(size / align as u64);
                        let bytes = u128::from(r.sectors) * 512;
                        place =
                            (unit * align + distance % align).min(u128::from(to_size).checked_sub(bytes)?);
                    }
                    lba = u64::try_from((place + u128::from(step.to_bytes)) / 512).ok()?;
                } else if sized(r) {
                    match step.outside {
                        Outside::Keep => {}
                        Outside::Drop => continue,
                        Outside::Refuse => return None,
                    }
                }
                mapped.push(Request { lba, ..*r });
            }
            Some(mapped)
        }
        Step::Sort(Sort {}) => {
            let mut sorted: Vec<Request> = Vec::new();
            for r in requests {
                let later = sorted.iter().position(|other| other.arrival_ns > r.arrival_ns);
                sorted.insert(later.unwrap_or(sorted.len()), *r);
            }
            Some(sorted)
        }
        Step::Compact(step) => {
            let chunk = step.chunk_bytes / 512;
            let mut used: Vec<u64> = Vec::new();
            let make_use = |used: &mut Vec<u64>, r: &Request| {
                for sector in r.lba..r.lba + u64::from(r.sectors) {
                    if r.op != Op::Trim && !used.contains(&(sector / chunk)) {
                        used.push(sector / chunk);
                    }
                }
            };
            if step.order == Order::Address {
                requests.iter().filter(|r| sized(r)).for_each(|r| make_use(&mut used, r));
                used.sort_unstable();
            }
            let mut kept: Vec<Request> = Vec::new();
            for r in requests {
                let parts = kept.len();
                if !sized(r) {
                    kept.push(*r);
                    continue;
                }
                make_use(&mut used, r);
                for sector in r.lba..r.lba + u64::from(r.sectors) {
                    let Some(place) = used.iter().position(|used| *used == sector / chunk) else { continue };
                    let lba = place as u64 * chunk + sector % chunk;
                    match kept[parts..].last_mut() {
                        Some(piece) if piece.lba + u64::from(piece.sectors) == lba => piece.sectors += 1,
                        _ => kept.push(Request { lba, sectors: 1, ..*r }),
                    }
                }
            }
            Some(kept)
        }
        Step::Align(step) => {
            let unit = step.bytes / 512;
            let mut aligned = Vec::new();
            for r in requests {
                let (mut first, mut last) = (r.lba / unit, (r.lba + u64::from(r.sectors)).div_ceil(unit));
                if step.round == Round::In {
                    (first, last) = (r.lba.div_ceil(unit), (r.lba + u64::from(r.sectors)) / unit);
                }
                if !sized(r) {
                    aligned.push(*r);
                } else if first < last {
                    let sectors = u32::try_from((last - first) * unit).ok()?;
                    aligned.push(Request { lba: first * unit, sectors, ..*r });
                }
            }
            Some(aligned)
        }
        Step::Repeat(step) => {
            let Some(earliest) = requests.iter().map(|r| r.arrival_ns).min() else { return Some(Vec::new()) };
            let span = requests.iter().map(|r| r.arrival_ns).max()? - earliest;
            let gap = step.gap_us.map_or(span / (requests.len() as u64 - 1).max(1), nanos);
            let mut all = requests.to_vec();
            for round in 1..step.times {
                for r in requests {
                    let later = u128::from(round) * u128::from(span + gap);
                    let arrival_ns = u64::try_from(u128::from(r.arrival_ns) + later).ok()?;
                    all.push(Request { arrival_ns, ..*r });
                }
            }
            Some(all)
        }
        Step::CapOutstanding(step) => {
            let mut capped: Vec<Request> = Vec::new();
            for r in requests {
                let mut start = r.arrival_ns.max(capped.last().map_or(0, |before| before.arrival_ns));
                if let Some(place) = capped.len().checked_sub(step.outstanding as usize) {
                    start = start.max(capped[place].arrival_ns.checked_add(nanos(step.service_us))?);
                }
                capped.push(Request { arrival_ns: start, ..*r });
            }
            Some(capped)
        }
    }
}

/// Move every sector, and put together again what stays in one piece.
fn sectors_to(
    requests: &[Request],
    fits: impl Fn(&Request) -> bool,
    place: impl Fn(u64) -> u64,
) -> Option<Vec<Request>> {
    let mut moved: Vec<Request> = Vec::new();
    for r in requests {
        if r.op == Op::Flush {
            moved.push(*r);
            continue;
        }
        if !fits(r) {
            return None;
        }
        let begin = moved.len();
        for sector in r.lba..r.lba + u64::from(r.sectors) {
            let lba = place(sector);
            match moved[begin..].last_mut() {
                Some(piece) if piece.lba + u64::from(piece.sectors) == lba => piece.sectors += 1,
                _ => moved.push(Request { lba, sectors: 1, ..*r }),
            }
        }
    }
    Some(moved)
}

fn read(factory: &dyn SourceFactory, pass: u64, batch: usize) -> Result<Vec<Request>, SourceError> {
    let mut source = factory.open(pass)?;
    let total = source.total_requests();
    let mut all = Vec::new();
    loop {
        let count = source.fill(&mut all, batch)?;
        assert!(count <= batch);
        if let Some(share) = source.fraction_done() {
            assert!((0.0..=1.0).contains(&share), "{share}");
        }
        if count == 0 {
            break;
        }
    }
    assert_eq!(source.fill(&mut all, batch), Ok(0), "the end stays the end");
    assert!(total.is_none_or(|total| total == all.len() as u64), "{total:?}, but {}", all.len());
    Ok(all)
}

fn lazy(steps: &[Step], requests: &[Request], batch: usize) -> Result<Vec<Request>, SourceError> {
    let factory = transformed(Arc::new(VecSource::new(requests.to_vec())), steps);
    let first = read(factory.as_ref(), 0, batch)?;
    // Other passes of a recording are the same requests; those that age a drive are opened in any order.
    assert_eq!(read(factory.as_ref(), 1, batch)?, first);
    Ok(first)
}

fn op() -> impl Strategy<Value = Op> {
    prop::sample::select(Op::ALL.to_vec())
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let request = (0..3_000_u64, 0..400_u64, 1..40_u32, op(), 0..4_u16, any::<bool>());
    prop::collection::vec(request, 0..60).prop_map(|requests| {
        let mut now = 0;
        let of = |(span, lba, sectors, op, stream, fua): (u64, u64, u32, Op, u16, bool)| {
            // Now and then a recording is out of order.
            now = if span % 50 == 0 { now / 2 } else { now + span };
            let (lba, sectors) = if op == Op::Flush { (0, 0) } else { (lba, sectors) };
            Request { arrival_ns: now, lba, sectors, op, stream, fua: fua && op == Op::Write }
        };
        requests.into_iter().map(of).collect()
    })
}

fn micros() -> impl Strategy<Value = f64> {
    (0..60_000_u64).prop_map(|ns| ns as f64 / 1000.0)
}

fn bytes(most_sectors: u64) -> impl Strategy<Value = u64> {
    (0..most_sectors).prop_map(|sectors| sectors * 512)
}

fn step() -> impl Strategy<Value = Step> {
    let one = |which: u8, value: f64| [0, 1, 2].map(|key| (key == which).then_some(value));
    prop_oneof![
        (1..16_u32).prop_map(|quarters| Step::ScaleTime(ScaleTime { factor: f64::from(quarters) / 4.0 })),
        (0..3_u8, micros()).prop_map(move |(which, span)| {
            let [start_us, later_us, earlier_us] = one(which, span);
            Step::ShiftTime(ShiftTime { start_us, later_us, earlier_us })
        }),
        (prop::option::of(0..50_u64), prop::option::of(1..50_u64))
            .prop_map(|(skip, take)| Step::Slice(Slice { skip, take, ..Slice::default() })),
        (prop::option::of(micros()), prop::option::of(micros()))
            .prop_map(|(from_us, to_us)| Step::Slice(Slice { from_us, to_us, ..Slice::default() })),
        (
            prop::option::of(prop::collection::vec(op(), 1..3)),
            prop::option::of(prop::collection::vec(0..4_u16, 1..3)),
            prop::option::of(bytes(300)),
            prop::option::of(bytes(400)),
            any::<bool>(),
            any::<bool>(),
        )
            .prop_map(|(ops, streams, from_bytes, to_bytes, clip, invert)| {
                Step::Filter(Filter { ops, streams, from_bytes, to_bytes, clip, invert })
            }),
        (op(), prop::option::of(prop::collection::vec(op(), 1..3)))
            .prop_map(|(op, of)| Step::SetOp(SetOp { op, of })),
        (0..3_u16, prop::option::of(bytes(600)))
            .prop_map(|(to, stride_bytes)| Step::MergeStreams(MergeStreams { to, stride_bytes })),
        (any::<bool>(), bytes(100)).prop_map(|(up, by)| {
            Step::ShiftAddress(ShiftAddress { up_bytes: up.then_some(by), down_bytes: (!up).then_some(by) })
        }),
        bytes(300).prop_map(|bytes| Step::Wrap(Wrap { bytes })),
        (
            bytes(100),
            (1..50_u64, 1..50_u64, 1..9_u64, any::<bool>()),
            bytes(100),
            prop::sample::select(vec![Outside::Keep, Outside::Drop, Outside::Refuse]),
        )
            .prop_map(|(from_bytes, (size, to_size, align, stated), to_bytes, outside)| {
                let align = if stated { align * 512 } else { 4096 };
                Step::Remap(Remap {
                    from_bytes,
                    size_bytes: size * align,
                    to_bytes,
                    to_size_bytes: Some(to_size * align),
                    align_bytes: stated.then_some(align),
                    outside,
                })
            }),
        (8..50_u64, any::<bool>()).prop_map(|(sectors, sorted)| {
            let order = if sorted { Order::Address } else { Order::FirstTouch };
            Step::Compact(Compact { chunk_bytes: sectors * 512, order })
        }),
        (1..30_u64, any::<bool>()).prop_map(|(sectors, out)| {
            Step::Align(Align { bytes: sectors * 512, round: if out { Round::Out } else { Round::In } })
        }),
        Just(Step::Sort(Sort {})),
        (1..4_u64, prop::option::of(micros()))
            .prop_map(|(times, gap_us)| Step::Repeat(Repeat { times, gap_us })),
        (1..6_u32, micros()).prop_map(|(outstanding, service_us)| {
            Step::CapOutstanding(CapOutstanding { outstanding, service_us })
        }),
    ]
    .prop_filter("keys that make sense", |step| step.validate("").is_ok())
}

proptest! {
    #[test]
    fn a_pipeline_is_its_steps_one_after_the_other(
        requests in requests(),
        steps in prop::collection::vec(step(), 0..5),
        batch in 1..20_usize,
    ) {
        let mut expected = Some(requests.clone());
        for step in &steps {
            // A step that leaves nothing of something is refused too.
            let left = |requests: Vec<Request>| {
                naive(step, &requests).filter(|left| requests.is_empty() || !left.is_empty())
            };
            expected = expected.and_then(left);
        }
        match (lazy(&steps, &requests, batch), expected) {
            (Ok(found), Some(expected)) => prop_assert_eq!(found, expected),
            (Err(error), None) => {
                let told = error.line > Some(0) || error.expected.contains("leaves none of ");
                prop_assert!(error.origin.starts_with("transform ") && told, "{}", error);
            }
            // A step that takes only the begin never sees what another one refuses behind it.
            (Ok(_), None) => prop_assert!(steps.iter().any(|step| matches!(step, Step::Slice(_)))),
            (Err(error), Some(_)) => prop_assert!(false, "{error}"),
        }
    }

    #[test]
    fn arrivals_in_order_stay_in_order(
        requests in requests(),
        steps in prop::collection::vec(step(), 0..5),
    ) {
        let mut requests = requests;
        requests.sort_by_key(|request| request.arrival_ns);
        if let Ok(found) = lazy(&steps, &requests, 7) {
            prop_assert!(found.is_sorted_by_key(|request| request.arrival_ns));
        }
    }
}

fn at(arrival_ns: u64, lba: u64) -> Request {
    Request {
        arrival_ns,
        lba,
        sectors: 8,
        op: if lba.is_multiple_of(16) { Op::Read } else { Op::Write },
        stream: 0,
        fua: false,
    }
}

fn take(count: u64) -> Step {
    Step::Slice(Slice { take: Some(count), ..Slice::default() })
}

fn reads() -> Step {
    Step::Filter(Filter { ops: Some(vec![Op::Read]), ..Filter::default() })
}

#[test]
fn the_order_of_steps_matters() {
    let requests: Vec<Request> = (0..8).map(|index| at(index, index * 8)).collect();
    let filtered_first = lazy(&[reads(), take(3)], &requests, 4).unwrap();
    let sliced_first = lazy(&[take(3), reads()], &requests, 4).unwrap();
    assert_eq!(filtered_first.iter().map(|r| r.lba).collect::<Vec<_>>(), [0, 16, 32]);
    assert_eq!(sliced_first.iter().map(|r| r.lba).collect::<Vec<_>>(), [0, 16]);
}

#[test]
fn rounds_of_a_trace_out_of_order_are_alike() {
    let requests = [at(100, 8), at(40, 16), at(160, 24)];
    let twice = Step::Repeat(Repeat { times: 2, gap_us: Some(0.01) });
    let arrivals: Vec<u64> = lazy(&[twice], &requests, 2).unwrap().iter().map(|r| r.arrival_ns).collect();
    assert_eq!(arrivals, [100, 40, 160, 230, 170, 290]);
    let start = Step::ShiftTime(ShiftTime { start_us: Some(0.0), ..ShiftTime::default() });
    let error = lazy(&[start], &requests, 2).unwrap_err();
    assert!(error.expected.contains("state earlier_us"), "{error}");
}

#[test]
fn a_step_that_leaves_nothing_is_named() {
    let requests = [at(5, 8), at(6, 24)];
    let error = lazy(&[take(2), reads()], &requests, 4).unwrap_err();
    assert_eq!(
        error.to_string(),
        "transform 2 (filter): expected to leave some request: it leaves none of 2"
    );
    assert_eq!(lazy(&[reads()], &[], 4).unwrap(), []);
}

#[test]
fn a_slice_reads_no_further_than_it_must() {
    struct Counting(Arc<std::sync::atomic::AtomicU64>);
    impl RequestSource for Counting {
        fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<usize, SourceError> {
            self.0.fetch_add(max as u64, std::sync::atomic::Ordering::Relaxed);
            out.extend((0..max as u64).map(|index| at(index, index * 8)));
            Ok(max)
        }
    }
    struct Endless(Arc<std::sync::atomic::AtomicU64>);
    impl SourceFactory for Endless {
        fn open(&self, _: u64) -> Result<Box<dyn RequestSource>, SourceError> {
            Ok(Box::new(Counting(self.0.clone())))
        }
    }
    let asked = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let steps = [Step::Slice(Slice { skip: Some(5), take: Some(10), ..Slice::default() })];
    let found = read(transformed(Arc::new(Endless(asked.clone())), &steps).as_ref(), 0, 4096).unwrap();
    assert_eq!((found.len(), found[0].arrival_ns), (10, 5));
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 15);
}

#[test]
fn a_slice_without_an_end_has_the_last_nanosecond() {
    let requests = [at(0, 0), at(u64::MAX, 8)];
    let slice = |from_us, to_us| [Step::Slice(Slice { from_us, to_us, ..Slice::default() })];
    assert_eq!(lazy(&slice(Some(0.0), None), &requests, 10).unwrap(), requests);
    assert_eq!(lazy(&slice(Some(1.0), None), &requests, 10).unwrap(), requests[1..]);
    assert_eq!(lazy(&slice(None, Some(1.0)), &requests, 10).unwrap(), requests[..1]);
}

#[test]
fn scaling_is_exact_for_times_of_any_size() {
    let far = 1_600_000_000_123_456_789;
    for (factor, expected) in [(1.0, far), (0.5, 800_000_000_061_728_395), (3.0, 3 * far), (1e-300, 0)] {
        let step = [Step::ScaleTime(ScaleTime { factor })];
        assert_eq!(lazy(&step, &[at(far, 0)], 1).unwrap()[0].arrival_ns, expected, "{factor}");
    }
    let error = lazy(&[Step::ScaleTime(ScaleTime { factor: 20.0 })], &[at(0, 0), at(far, 0)], 4).unwrap_err();
    assert_eq!(error.to_string(), "transform 1 (scale_time):2: would arrive after 2^64 nanoseconds");
}

#[test]
fn other_passes_put_chunks_where_the_measured_one_does() {
    /// Pass 0 uses the chunks 9 and 3, others 3, 5 and 9.
    struct Passes;
    impl SourceFactory for Passes {
        fn open(&self, pass: u64) -> Result<Box<dyn RequestSource>, SourceError> {
            let chunks: &[u64] = if pass == 0 { &[9, 3] } else { &[3, 5, 9] };
            Ok(Box::new(VecSource::new(chunks.iter().map(|chunk| at(0, chunk * 2048)).collect())))
        }
    }
    for (order, measured, aging) in
        [(Order::Address, [1, 0].as_slice(), [0, 2, 1].as_slice()), (Order::FirstTouch, &[0, 1], &[1, 2, 0])]
    {
        let step = [Step::Compact(Compact { chunk_bytes: 1 << 20, order })];
        let factory = transformed(Arc::new(Passes), &step);
        for (pass, expected) in [(1, aging), (0, measured), (2, aging)] {
            let found: Vec<u64> =
                read(factory.as_ref(), pass, 8).unwrap().iter().map(|r| r.lba / 2048).collect();
            assert_eq!(found, expected, "{order:?} pass {pass}");
        }
    }
}

#[test]
#[ignore = "a long test: make test-long"]
fn a_trim_of_the_whole_drive_uses_no_chunk() {
    let trim = Request { op: Op::Trim, lba: 0, sectors: 1 << 31, ..at(0, 0) };
    // More than are decoded at a time take half a minute.
    let trims = if std::env::var_os("FTLAB_LONG").is_some() { 5000 } else { 50 };
    let mut requests = vec![trim; trims];
    requests.extend([at(0, 1 << 30), at(0, 5 << 20), trim, at(0, 1 << 30)]);
    let write = |lba| at(0, lba);
    let both = Request { sectors: 4096, ..trim };
    for (order, expected) in [
        // Two chunks, of which the trims speak.
        (Order::Address, [vec![both; trims], vec![write(2048), write(0), both, write(2048)]].concat()),
        (
            Order::FirstTouch,
            vec![write(0), write(2048), Request { lba: 2048, sectors: 2048, ..trim }, write(0)],
        ),
    ] {
        let step = [Step::Compact(Compact { chunk_bytes: 1 << 20, order })];
        let source = Arc::new(VecSource::new(requests.clone()));
        let found = read(transformed(source, &step).as_ref(), 0, 64).unwrap();
        if order == Order::FirstTouch {
            // In the order of addresses the chunk used second comes first.
            let sectors: u64 = found.iter().map(|r| u64::from(r.sectors)).sum();
            assert_eq!((found.len(), sectors), (5, 3 * 8 + 4096));
            assert_eq!((found[0], found[1], found[4]), (expected[0], expected[1], expected[3]));
        } else {
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_key() {
    let refused = |json: serde_json::Value| {
        let step: Step = serde_json::from_value(json).unwrap();
        let error = step.validate("workload.transform[1]").unwrap_err();
        (error.key, error.expected)
    };
    for (json, key) in [
        (serde_json::json!({"step": "scale_time", "factor": 0}), "workload.transform[1].factor"),
        (serde_json::json!({"step": "slice"}), "workload.transform[1]"),
        (serde_json::json!({"step": "slice", "take": 3, "from_us": 1}), "workload.transform[1]"),
        (serde_json::json!({"step": "slice", "from_us": 3, "to_us": 1}), "workload.transform[1].to_us"),
        (serde_json::json!({"step": "filter"}), "workload.transform[1]"),
        (serde_json::json!({"step": "filter", "ops": []}), "workload.transform[1].ops"),
        (serde_json::json!({"step": "filter", "ops": "read", "clip": true}), "workload.transform[1].clip"),
        (serde_json::json!({"step": "wrap", "bytes": 1000}), "workload.transform[1].bytes"),
        (
            serde_json::json!({"step": "remap", "size_bytes": 6144, "to_size_bytes": 4096}),
            "workload.transform[1].size_bytes",
        ),
        (serde_json::json!({"step": "set_op", "op": "flush"}), "workload.transform[1].op"),
        (serde_json::json!({"step": "repeat", "times": 0}), "workload.transform[1].times"),
        (serde_json::json!({"step": "compact", "chunk_bytes": 512}), "workload.transform[1].chunk_bytes"),
        (
            serde_json::json!({"step": "cap_outstanding", "outstanding": 0, "service_us": 1}),
            "workload.transform[1].outstanding",
        ),
    ] {
        let (found, expected) = refused(json);
        assert_eq!(found, key);
        assert!(!expected.is_empty());
    }
}
