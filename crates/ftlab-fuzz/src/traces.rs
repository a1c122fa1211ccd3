//! Damaged traces against every reader: whatever is in a file, reading ends, in requests that make sense or in a sentence.
//!
//! A case is a valid file of some format that was damaged, or bytes at random; some are in a compressed container, which
//! may be damaged too.

#[path = "../../ftlab-trace/tests/samples/mod.rs"]
mod samples;

use std::fmt;
use std::io::Write;
use std::sync::OnceLock;

use ftlab_core::host::request::{Op, Request, RequestSource, SourceError, SourceFactory};
use ftlab_trace::{FORMATS, Format, Input, OpenOptions, VolumeLayout, open};
use samples::{Change, damage};

use crate::campaign::{Most, Target};
use crate::drive::Dice;
use crate::{bytes, memory};

/// Most memory that reading takes, without what decompression takes: a few columns of Parquet are the most.
const MOST_BYTES: u64 = 64 << 20;
/// A few bytes of a column can say that it has one value a billion times.
const MOST_BATCHES: usize = 100;
/// Longest message, in bytes.
const LONGEST_MESSAGE: usize = 2048;

/// The target.
pub struct Traces;

/// A file, and the format that it is read as.
pub struct Case {
    format: &'static Format,
    bytes: Vec<u8>,
}

/// What became of it.
pub struct Lived {
    requests: usize,
    refused: bool,
    memory: u64,
}

/// What all have seen.
#[derive(Default)]
pub struct Seen {
    read: u64,
    in_part: u64,
    refused: u64,
    memory: Most,
}

impl fmt::Display for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read, in_part, refused, memory } = self;
        write!(
            out,
            "{read} files read to the end, {in_part} in part, {refused} refused; \
             at most {:.1} MiB of memory (case {})",
            memory.0 / f64::from(1 << 20),
            memory.1
        )
    }
}

/// A valid file of each format, in the order of the list. Made once: writing Parquet takes longer than reading it damaged.
fn samples_of_all() -> &'static [Vec<u8>] {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SAMPLES.get_or_init(|| FORMATS.iter().map(|format| samples::of(format)).collect())
}

fn packed(bytes: &[u8], dice: &mut Dice) -> std::io::Result<Vec<u8>> {
    match dice.below(4) {
        0 => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes)?;
            encoder.finish()
        }
        1 => {
            let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
            encoder.write_all(bytes)?;
            encoder.finish()
        }
        2 => {
            let mut encoder = liblzma::write::XzEncoder::new(Vec::new(), 0);
            encoder.write_all(bytes)?;
            encoder.finish()
        }
        _ => zstd::stream::encode_all(bytes, 3),
    }
}

fn damaged(bytes: &mut Vec<u8>, dice: &mut Dice) {
    for _ in 0..=dice.below(4) {
        if dice.once_in(2) {
            bytes::spoil(bytes, dice);
        } else {
            let [kind, at, from, value] = [0; 4].map(|_: u8| dice.below(u64::MAX) >> 8);
            damage(bytes, Change { kind: kind as u8, at: at as usize, from: from as usize, value });
        }
    }
}

impl Target for Traces {
    const NAME: &'static str = "traces";
    const MOST_SECONDS: u64 = 20;
    type Case = Case;
    type Lived = Lived;
    type Seen = Seen;

    fn case(&self, seed: u64) -> Case {
        let mut dice = Dice::new(seed, "trace");
        let draw = |dice: &mut Dice| dice.below(FORMATS.len() as u64) as usize;
        let which = draw(&mut dice);
        let mut bytes = samples_of_all()[which].clone();
        match dice.below(20) {
            // As another format, behind another file, or nothing at all of a trace.
            0 => bytes.clone_from(&samples_of_all()[draw(&mut dice)]),
            1 => bytes.extend_from_slice(&samples_of_all()[draw(&mut dice)]),
            2 => bytes = (0..dice.below(400)).map(|_| dice.below(256) as u8).collect(),
            _ => {}
        }
        if !dice.once_in(20) {
            damaged(&mut bytes, &mut dice);
        }
        while dice.once_in(6)
            && let Ok(packed) = packed(&bytes, &mut dice)
        {
            bytes = packed;
            if dice.once_in(2) {
                damaged(&mut bytes, &mut dice);
            }
        }
        Case { format: FORMATS[which], bytes }
    }

    fn run(&self, case: &Case, seed: u64) -> Result<Lived, String> {
        let (result, memory) = memory::most_taken(|| read_in_all_ways(case, seed));
        let (requests, refused) = result?;
        let most = MOST_BYTES + 16 * case.bytes.len() as u64;
        if memory > most {
            return Err(format!("reading {} takes {memory} bytes of memory", case.format.name));
        }
        Ok(Lived { requests, refused, memory })
    }

    fn count(&self, seen: &mut Seen, _: &Case, lived: Lived, seed: u64) {
        let Lived { requests, refused, memory } = lived;
        *match (requests, refused) {
            (_, false) => &mut seen.read,
            (1.., true) => &mut seen.in_part,
            (0, true) => &mut seen.refused,
        } += 1;
        seen.memory.see(memory as f64, seed);
    }

    fn smallest(&self, case: Case, text: &str, fails: impl Fn(&Case) -> Option<String>) -> (Case, String) {
        let format = case.format;
        let fails = |bytes: &[u8]| fails(&Case { format, bytes: bytes.to_vec() });
        let (bytes, text) = bytes::smallest(&case.bytes, text, fails);
        (Case { format, bytes }, text)
    }

    fn files(&self, case: &Case, _seed: u64, _text: &str) -> Vec<(String, Vec<u8>)> {
        vec![(case.format.name.into(), case.bytes.clone())]
    }

    fn case_of(&self, ending: &str, bytes: Vec<u8>) -> Result<Case, String> {
        Ok(Case { format: Format::named(ending)?, bytes })
    }
}

/// Requests of a source, up to what is enough, and the error at their end.
fn drained(
    reader: Result<Box<dyn RequestSource>, SourceError>,
    batch: usize,
    skipping: u64,
) -> Result<(Vec<Request>, Option<String>), String> {
    let mut requests = Vec::new();
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(error) => return Ok((requests, Some(sentence(&error)?))),
    };
    let mut error = None;
    while requests.len() < MOST_BATCHES * 4096 {
        let before = requests.len();
        match reader.fill(&mut requests, batch) {
            Ok(0) => break,
            Ok(count) if count == requests.len() - before && count <= batch => {}
            Ok(count) => return Err(format!("said {count} requests, gave {}", requests.len() - before)),
            Err(found) => {
                error = Some(sentence(&found)?);
                break;
            }
        }
    }
    for request in &requests {
        let ends = request.lba.checked_add(request.sectors.into()).is_some_and(|end| end <= 1 << 54);
        if !ends || (request.sectors == 0) != (request.op == Op::Flush) {
            return Err(format!("a request makes no sense: {request:?}"));
        }
    }
    if reader.skipped_records() > skipping {
        return Err(format!("skipped {} records, allowed {skipping}", reader.skipped_records()));
    }
    if requests.is_empty() && error.is_none() {
        return Err("it ended without a request or an error".into());
    }
    Ok((requests, error))
}

/// The text of an error, which must be one that a user can be shown.
fn sentence(error: &SourceError) -> Result<String, String> {
    let text = error.to_string();
    if error.expected.is_empty() || text.contains(char::is_control) || text.len() > LONGEST_MESSAGE {
        return Err(format!("a message that nobody wants to read: {text:?}"));
    }
    Ok(text)
}

/// Read a file in all ways that there are; gives its requests, and whether it ended in an error.
fn read_in_all_ways(case: &Case, seed: u64) -> Result<(usize, bool), String> {
    let Case { format, bytes } = case;
    let read = |argument, skipping, batch| {
        let input = Input::from_bytes("fuzz", bytes.clone()).skipping(skipping);
        drained(format.reader_with(input, argument), batch, skipping)
    };
    let (requests, error) = read(None, 0, 4096)?;
    if requests.len() < MOST_BATCHES * 4096 && read(None, 0, 7)? != (requests.clone(), error.clone()) {
        return Err(format!("{} depends on how much is asked for at a time", format.name));
    }
    read(None, 3, 4096)?;
    if let Some(argument) = &format.argument {
        read(Some(argument.example), 3, 4096)?;
    }
    if seed.is_multiple_of(4) {
        from_a_file(case, seed).map_err(|text| format!("from a file: {text}"))?;
    }
    Ok((requests.len(), error.is_some()))
}

/// As commands read it: recognised by its content, with its volumes one behind the other, on a thread of its own.
fn from_a_file(case: &Case, seed: u64) -> Result<(), String> {
    let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    std::fs::write(file.path(), &case.bytes).map_err(|error| error.to_string())?;
    let named = !seed.is_multiple_of(8);
    let options = OpenOptions {
        format: named.then(|| case.format.name.to_owned()),
        volumes: if seed.is_multiple_of(3) { vec![0, 1] } else { Vec::new() },
        layout: match seed % 5 {
            0 => VolumeLayout::Concat { volume_bytes: None },
            1 => VolumeLayout::Concat { volume_bytes: Some(1 << 30) },
            _ => VolumeLayout::default(),
        },
        skip_bad: seed % 3,
    };
    let trace = match open(file.path(), &options) {
        Ok(trace) => trace,
        Err(error) => return sentence(&error).map(drop),
    };
    drained(trace.open(0), 4096, options.skip_bad).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_traces_are_read_or_refused() {
        let Seen { read, in_part, refused, .. } = crate::campaign::hold(&Traces, 300, 500_000);
        // What is always refused would try nothing but the begin of files.
        let all = read + in_part + refused;
        assert!(read > all / 10 && in_part > all / 10 && refused > all / 10, "{read} {in_part} {refused}");
    }

    #[test]
    fn every_format_has_a_sample_that_can_be_read() {
        for (format, bytes) in FORMATS.iter().zip(samples_of_all()) {
            let (requests, refused) =
                read_in_all_ways(&Case { format, bytes: bytes.clone() }, 1).expect(format.name);
            let needs_an_argument = format.argument.as_ref().is_some_and(|argument| argument.required);
            assert_eq!((requests > 0, refused), (!needs_an_argument, needs_an_argument), "{}", format.name);
        }
    }

    #[test]
    fn a_finding_is_cut_down_to_what_it_needs_and_can_be_repeated() {
        let case =
            (1..1000).map(|seed| Traces.case(seed)).find(|case| case.format.name == "spc").expect("one");
        let fails = |case: &Case| case.bytes.contains(&b',').then(|| "a comma".to_owned());
        let (small, text) = Traces.smallest(case, "a comma", fails);
        assert_eq!((small.bytes.as_slice(), text.as_str()), (&b","[..], "a comma"));
        let (ending, file) = Traces.files(&small, 7, &text).remove(0);
        assert_eq!(
            Traces.case_of(&ending, file).map(|case| (case.format.name, case.bytes)),
            Ok(("spc", vec![b',']))
        );
    }
}
