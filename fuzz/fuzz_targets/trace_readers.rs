//! Every reader of the list on one input: the first byte chooses it, so that a corpus covers new formats as they come.
//! `FTLAB_FUZZ_FORMAT=name` keeps to one reader. Half of the inputs are valid files with damaged fields and records,
//! because bytes at random rarely get past the begin of a file.
#![no_main]

#[path = "../../crates/ftlab-trace/tests/samples/mod.rs"]
mod samples;

use std::sync::OnceLock;

use ftlab_core::host::request::{Op, Request};
use ftlab_trace::{FORMATS, Format, Input, create};
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use samples::{Change, damage};

/// The only format, when one was asked for.
fn chosen() -> Option<&'static Format> {
    static CHOSEN: OnceLock<Option<&'static Format>> = OnceLock::new();
    let named =
        |name: String| Format::named(&name).unwrap_or_else(|error| panic!("FTLAB_FUZZ_FORMAT: {error}"));
    *CHOSEN.get_or_init(|| std::env::var("FTLAB_FUZZ_FORMAT").ok().map(named))
}

/// The format of an input, and its file.
fn taken_apart(bytes: &[u8]) -> Option<(&'static Format, &[u8])> {
    match (chosen(), bytes.split_first()) {
        (Some(format), _) => Some((format, bytes)),
        (None, Some((first, rest))) => Some((FORMATS[usize::from(*first) % FORMATS.len()], rest)),
        (None, None) => None,
    }
}

/// A small valid file of each format.
fn samples_of_all() -> &'static [Vec<u8>] {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SAMPLES.get_or_init(|| FORMATS.iter().map(|format| sample(format)).collect())
}

fn sample(format: &Format) -> Vec<u8> {
    if !format.example.is_empty() {
        return format.example.into();
    }
    samples::binary(format.name).unwrap_or_else(|| {
        let path = std::env::temp_dir().join(format!("ftlab-fuzz-{}.{}", std::process::id(), format.name));
        let mut output = create(&path, format.name).expect("the format is written");
        let request = |index: u64| Request {
            arrival_ns: index * 9,
            lba: index * 8,
            sectors: 8,
            op: Op::Write,
            stream: 1,
        };
        let requests: Vec<Request> = (0..50).map(request).collect();
        output.write(&requests).expect("the format is written");
        output.finish().expect("the format is written");
        let bytes = std::fs::read(&path).expect("it was just written");
        std::fs::remove_file(path).expect("it was just written");
        bytes
    })
}

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if seed.is_multiple_of(2) {
        return fuzzer_mutate(data, size, max_size);
    }
    let number = |round: u64| {
        let mixed = (u64::from(seed) + round).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    let Some((format, rest)) = taken_apart(&data[..size]) else { return fuzzer_mutate(data, size, max_size) };
    let index = FORMATS.iter().position(|other| other.name == format.name).unwrap_or(0);
    let mut bytes = if rest.len() < 8 { samples_of_all()[index].clone() } else { rest.to_vec() };
    for round in 0..=number(0) % 3 {
        let [kind, at, from, value] = [1, 2, 3, 4].map(|part| number(round * 4 + part) >> 8);
        damage(&mut bytes, Change { kind: kind as u8, at: at as usize, from: from as usize, value });
    }
    if chosen().is_none() {
        bytes.insert(0, index as u8);
    }
    bytes.truncate(max_size);
    data[..bytes.len()].copy_from_slice(&bytes);
    bytes.len()
});

fuzz_target!(|bytes: &[u8]| {
    let Some((format, bytes)) = taken_apart(bytes) else { return };
    let argument = format.argument.as_ref().map(|argument| argument.example);
    for (skipped, argument) in [(0, None), (3, None), (3, argument)] {
        let input = Input::from_bytes("fuzz", bytes.to_vec()).skipping(skipped);
        let Ok(mut reader) = format.reader_with(input, argument) else { continue };
        let mut requests = Vec::new();
        // A few bytes of a column can say that it has one value a billion times.
        let mut rounds = 0;
        while rounds < 100 && matches!(reader.fill(&mut requests, 4096), Ok(1..)) {
            rounds += 1;
            for request in requests.drain(..) {
                assert_eq!(request.sectors == 0, request.op == Op::Flush);
                assert!(request.lba.checked_add(request.sectors.into()).is_some_and(|end| end <= 1 << 54));
            }
        }
        assert!(reader.skipped_records() <= skipped);
    }
});
