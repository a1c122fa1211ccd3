//! The formats of traces: one file each, and one line each in [`FORMATS`].
//!
//! To add a format, write `formats/<name>.rs` with a `pub(crate) static FORMAT: Format` and list it here. Detection,
//! the tables of `ftlab trace`, the round-trip tests and the fuzz tests follow from the list.

pub(crate) mod alibaba;
pub(crate) mod biosnoop;
pub(crate) mod biotracer;
pub(crate) mod blkparse;
pub(crate) mod blkreplay;
pub(crate) mod blktrace;
pub(crate) mod bpftrace;
pub(crate) mod columns;
pub(crate) mod csv;
pub(crate) mod disksim;
pub(crate) mod fio_iolog;
pub(crate) mod fiu;
pub(crate) mod flashsim;
pub(crate) mod hp_srt;
pub(crate) mod jesd219;
pub(crate) mod mqsim;
pub(crate) mod msr;
pub(crate) mod opencas;
pub(crate) mod oracle_general;
pub(crate) mod parquet;
pub(crate) mod spc;
pub(crate) mod ssdsim;
pub(crate) mod systor17;
pub(crate) mod tencent;
pub(crate) mod vscsi;

use ftlab_core::host::request::{RequestSource, SourceError};

use crate::input::{Input, Sink};
use crate::text::behind_mark;
use crate::write::TraceWriter;

/// Every format.
pub static FORMATS: &[&Format] = &[
    &spc::FORMAT,
    &msr::FORMAT,
    &disksim::FORMAT,
    &flashsim::FORMAT,
    &mqsim::FORMAT,
    &ssdsim::FORMAT,
    &blkparse::FORMAT,
    &fio_iolog::FORMAT,
    &systor17::FORMAT,
    &alibaba::FORMAT,
    &tencent::FORMAT,
    &blkreplay::FORMAT,
    &biotracer::FORMAT,
    &opencas::FORMAT,
    &biosnoop::FORMAT,
    &bpftrace::FORMAT,
    &fiu::FORMAT,
    &vscsi::FORMAT,
    &blktrace::FORMAT,
    &hp_srt::FORMAT,
    &jesd219::FORMAT,
    &oracle_general::FORMAT,
    &columns::FORMAT,
    &csv::FORMAT,
    &parquet::FORMAT,
];

type MakeWriter = fn(Box<dyn Sink>) -> Result<Box<dyn TraceWriter>, String>;

/// A format of traces.
pub struct Format {
    /// What users call it: `--format <name>`.
    pub name: &'static str,
    /// Whose format it is, in a sentence.
    pub summary: &'static str,
    /// The fields of a record.
    pub columns: &'static str,
    /// The units of the fields, and what becomes of them.
    pub units: &'static str,
    /// What it leaves out: what a reader of it must not expect.
    pub cannot_say: &'static str,
    /// What may follow the name and a colon, as in `--format blkparse:Q`.
    pub argument: Option<Argument>,
    /// Extensions that decide when the content fits several formats, without a dot.
    pub extensions: &'static [&'static str],
    /// A few records, for documentation and tests; empty for binary formats.
    pub example: &'static str,
    /// Whether a sample has this format. Lines whose values make no sense still count, so that they are named later.
    pub(crate) detect: fn(&Sample<'_>) -> bool,
    pub(crate) read: fn(Input) -> Result<Box<dyn RequestSource>, SourceError>,
    /// Absent for formats that are only read.
    pub(crate) write: Option<MakeWriter>,
    /// The same, with a hash of the content of each request; absent for formats that have no place for it.
    pub(crate) write_contents: Option<MakeWriter>,
}

type ReadWith = fn(Input, &str) -> Result<Box<dyn RequestSource>, SourceError>;

/// A choice in how a format is read.
pub struct Argument {
    /// What it chooses, with its values.
    pub summary: &'static str,
    /// One with which [`Format::example`] can be read.
    pub example: &'static str,
    /// Whether the format cannot be read without.
    pub required: bool,
    pub(crate) read: ReadWith,
}

impl std::fmt::Debug for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Format").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Format {
    /// The files that are read with `path` as one trace.
    pub(crate) fn files_beside(&self, path: &std::path::Path) -> std::io::Result<Vec<std::path::PathBuf>> {
        if self.name == blktrace::FORMAT.name { blktrace::siblings(path) } else { Ok(Vec::new()) }
    }

    /// What documentation shows of it: [`Format::example`], or of a binary format what `ftlab trace head` prints of a small
    /// file.
    pub fn shown(&self) -> &'static str {
        match self.name {
            "vscsi" => include_str!("examples/vscsi.txt"),
            "blktrace" => include_str!("examples/blktrace.txt"),
            "hp_srt" => include_str!("examples/hp_srt.txt"),
            "oracle_general" => include_str!("examples/oracle_general.txt"),
            "parquet" => include_str!("examples/parquet.txt"),
            _ => self.example,
        }
    }

    /// The format called `name`.
    ///
    /// # Errors
    /// A sentence with the nearest name and all names.
    pub fn named(name: &str) -> Result<&'static Format, String> {
        if let Some(format) = FORMATS.iter().find(|format| format.name == name) {
            return Ok(format);
        }
        let likeness = |format: &Format| strsim::jaro_winkler(name, format.name);
        let nearest = FORMATS.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
        let hint = match nearest {
            Some(format) if likeness(format) > 0.7 => format!("; did you mean {}?", format.name),
            _ => String::new(),
        };
        Err(format!("{name:?} is no trace format; there are {}{hint}", names(FORMATS)))
    }

    /// Whether [`create`](crate::create) can write it.
    pub fn is_writable(&self) -> bool {
        self.write.is_some()
    }

    /// The format and its argument in `NAME` or `NAME:ARGUMENT`.
    ///
    /// # Errors
    /// As for [`named`](Self::named), and when the format takes no argument or cannot be read without.
    pub fn chosen(text: &str) -> Result<(&'static Format, Option<String>), String> {
        let (name, argument) = match text.split_once(':') {
            Some((name, argument)) => (name, Some(argument)),
            None => (text, None),
        };
        let format = Self::named(name)?;
        match argument {
            Some(argument) if format.argument.is_none() => {
                Err(format!("{name} takes no argument, but {argument:?} follows it"))
            }
            argument => Ok((format, argument.map(str::to_owned))),
        }
    }

    /// Read `input` with an argument, as in `NAME:ARGUMENT`.
    ///
    /// # Errors
    /// When the argument or the header makes no sense.
    pub fn reader_with(
        &self,
        input: Input,
        argument: Option<&str>,
    ) -> Result<Box<dyn RequestSource>, SourceError> {
        match (argument, &self.argument) {
            (Some(text), Some(argument)) => (argument.read)(input, text),
            _ => self.reader(input),
        }
    }

    /// Read `input`, which is taken to have this format, on the caller's thread.
    ///
    /// # Errors
    /// When its header cannot be read; what is wrong with its records is told by the source.
    pub fn reader(&self, input: Input) -> Result<Box<dyn RequestSource>, SourceError> {
        (self.read)(input)
    }
}

/// Names in a sentence.
pub(crate) fn names(formats: &[&Format]) -> String {
    formats.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// The begin of a trace, by which it is recognised.
pub(crate) struct Sample<'a> {
    /// The first bytes, as they are.
    pub(crate) bytes: &'a [u8],
    /// The complete lines among them, with a line feed after the last; at most a few hundred.
    pub(crate) lines: &'a [u8],
    /// The extension of the file, before that of its compression.
    pub(crate) extension: Option<&'a str>,
}

/// Bytes that are looked at to recognise a format.
const SAMPLE_BYTES: usize = 64 * 1024;
const SAMPLE_LINES: usize = 200;

/// Recognise the format of a trace by its content; `extension` decides only among formats that fit.
///
/// # Errors
/// When no format fits or several do. The message says which and how to choose.
pub(crate) fn detect(input: Input, extension: Option<&str>) -> Result<&'static Format, SourceError> {
    let origin = input.origin().to_owned();
    let failed =
        |expected: String| SourceError { origin: origin.clone(), expected, ..SourceError::default() };
    let mut stream = input.into_stream();
    let (mut bytes, whole) = stream.sample(SAMPLE_BYTES).map_err(|error| failed(stream.explain(&error)))?;
    if bytes.is_empty() {
        return Err(failed("the file is empty".into()));
    }
    let end = bytes.len();
    if whole && !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    let lines_end = memchr::memchr_iter(b'\n', &bytes).take(SAMPLE_LINES).last().map_or(0, |at| at + 1);
    let begin = behind_mark(&bytes[..lines_end]);
    let sample = Sample { bytes: &bytes[begin..end], lines: &bytes[begin..lines_end], extension };
    let fitting: Vec<&'static Format> =
        FORMATS.iter().copied().filter(|format| (format.detect)(&sample)).collect();
    let by_extension = |formats: &[&'static Format]| {
        let decided = |format: &&&Format| extension.is_some_and(|given| format.extensions.contains(&given));
        let mut candidates = formats.iter().filter(decided);
        candidates.next().copied().filter(|_| candidates.next().is_none())
    };
    match fitting[..] {
        [format] => Ok(format),
        // The reader of the format that the name promises tells best what is wrong with the content.
        [] => by_extension(FORMATS).ok_or_else(|| SourceError {
            found: String::from_utf8_lossy(sample.bytes)
                .lines()
                .next()
                .unwrap_or("")
                .chars()
                .take(80)
                .collect(),
            ..failed(format!("a trace in one of the formats {} (choose one with --format)", names(FORMATS)))
        }),
        _ => by_extension(&fitting).ok_or_else(|| {
            let fits = names(&fitting);
            let extensions: Vec<String> =
                fitting.iter().flat_map(|format| format.extensions).map(|text| format!(".{text}")).collect();
            let or_name = match extensions[..] {
                [] => String::new(),
                _ => format!(" or by the extension ({})", extensions.join(", ")),
            };
            let fit = |name: &str| fitting.iter().any(|format| format.name == name);
            let units = if fit(disksim::FORMAT.name) && fit(flashsim::FORMAT.name) {
                "; disksim has sizes in sectors, flashsim in pages of 4 KiB"
            } else {
                ""
            };
            failed(format!(
                "the content fits several formats ({fits}): choose one with --format{or_name}{units}"
            ))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_misspellings_are_helped() {
        for (index, format) in FORMATS.iter().enumerate() {
            assert!(FORMATS[..index].iter().all(|other| other.name != format.name));
            assert!(std::ptr::eq(Format::named(format.name).unwrap(), *format));
            assert!(!format.summary.is_empty() && !format.columns.is_empty() && !format.units.is_empty());
            assert!(!format.cannot_say.is_empty(), "{}", format.name);
        }
        assert!(Format::named("diskim").unwrap_err().contains("did you mean disksim?"));
        assert!(Format::named("?").unwrap_err().contains("parquet"));
    }

    #[test]
    fn examples_are_recognised_and_read() {
        for format in FORMATS.iter().filter(|format| !format.example.is_empty()) {
            let input = || Input::from_bytes("example", format.example.into());
            let required = format.argument.as_ref().is_some_and(|argument| argument.required);
            if !required {
                let found = detect(input(), format.extensions.first().copied()).unwrap();
                assert_eq!(found.name, format.name);
            }
            assert_eq!(format.reader(input()).is_err(), required, "{}", format.name);
            let lines = format.example.lines().count();
            assert!((5..=8).contains(&lines), "{}: {lines} lines", format.name);
            for argument in [None, format.argument.as_ref().map(|argument| argument.example)] {
                if required && argument.is_none() {
                    continue;
                }
                let mut requests = Vec::new();
                let mut reader = format.reader_with(input(), argument).unwrap();
                while reader.fill(&mut requests, 3).unwrap() > 0 {}
                assert!(requests.len() >= 2, "{}", format.name);
            }
        }
    }

    #[test]
    fn arguments_follow_a_colon() {
        let (format, argument) = Format::chosen("blkparse:Q").unwrap();
        assert_eq!((format.name, argument.as_deref()), ("blkparse", Some("Q")));
        assert_eq!(Format::chosen("blkparse").unwrap().1, None);
        assert!(Format::chosen("spc:Q").unwrap_err().contains("takes no argument"));
        assert!(Format::chosen("blkprase:Q").unwrap_err().contains("did you mean blkparse?"));
        for format in FORMATS.iter().filter(|format| format.argument.is_some()) {
            let input = Input::from_bytes("example", format.example.into());
            let refused = format.reader_with(input, Some("nonsense")).err();
            assert!(refused.is_some_and(|error| error.to_string().contains("nonsense")), "{}", format.name);
        }
    }

    #[test]
    fn two_formats_that_fit_are_never_guessed_between() {
        let text = b"100 0 8 8 1\n200 0 16 8 0\n".to_vec();
        let error = detect(Input::from_bytes("t.trace", text.clone()), Some("trace")).unwrap_err();
        assert!(error.expected.contains("disksim, flashsim, mqsim, ssdsim"), "{error}");
        assert!(error.expected.contains("--format or by the extension (.disksim, .flashsim, "), "{error}");
        for name in ["disksim", "flashsim", "mqsim", "ssdsim"] {
            assert_eq!(detect(Input::from_bytes("t", text.clone()), Some(name)).unwrap().name, name);
        }
        // A decimal time is not one of nanoseconds.
        let decimal = b"100 0 8 8 1\n200.5 0 16 8 0\n".to_vec();
        let error = detect(Input::from_bytes("t", decimal), None).unwrap_err();
        assert!(error.expected.contains("(disksim, flashsim)"), "{error}");
    }

    /// Sizes and places that look like one of the units may come from the other.
    #[test]
    fn the_unit_of_sizes_is_never_inferred() {
        let either = ["disksim", "flashsim"];
        // Each request goes on behind the one before by its size in units of so many sectors.
        let run = |unit: u64, sizes: &[u64]| {
            let mut lba = 1001;
            let lines = sizes.iter().cycle().take(200).map(|size| {
                lba += size * unit;
                format!("0.5 0 {} {size} 1\n", lba - size * unit)
            });
            lines.collect::<Vec<_>>().concat()
        };
        // No request goes on from another.
        let scattered = |sizes: &[u64]| {
            let lines = sizes.iter().cycle().zip(0..200u64);
            let lines = lines.map(|(size, at)| format!("0.5 0 {} {size} 1\n", at * 7919 % 1000 * 1000));
            lines.collect::<Vec<_>>().concat()
        };
        let flags = |count: usize| "0.5 0 7 8 2\n".repeat(count) + &scattered(&[1, 2]);
        for (text, fitting) in [
            (scattered(&[1, 2, 3]), &either[..]),
            // Whole pages in sectors, or large requests of FlashSim.
            (scattered(&[8, 16, 32, 64]), &either),
            (run(1, &[3, 5]), &either),
            // Pages, or one to three sectors in slots of 4 KiB for each.
            (run(8, &[1, 2, 3]), &either),
            // FlashSim has no other flags than 0 and 1; a few lines may be wrong.
            (flags(4), &either),
            (flags(5), &["disksim"]),
        ] {
            assert_eq!(fitting_names(text.as_bytes()), fitting, "{text}");
            let input = || Input::from_bytes("t", text.clone().into());
            for name in either {
                assert_eq!(detect(input(), Some(name)).unwrap().name, name);
            }
            if let Err(error) = detect(input(), Some("trace")) {
                assert!(error.expected.contains("(disksim, flashsim)"), "{error}");
                assert!(
                    error.expected.contains("disksim has sizes in sectors, flashsim in pages"),
                    "{error}"
                );
            }
        }
    }

    fn fitting_names(bytes: &[u8]) -> Vec<&'static str> {
        let sample = Sample { bytes, lines: bytes, extension: None };
        FORMATS.iter().filter(|format| (format.detect)(&sample)).map(|format| format.name).collect()
    }

    /// Formats that fit each other's traces, and no others do.
    #[test]
    fn examples_fit_no_other_format_than_is_known() {
        let whole_times = &["disksim", "flashsim", "mqsim", "ssdsim"];
        for format in FORMATS.iter().filter(|format| !format.example.is_empty()) {
            let own = [format.name];
            let expected: &[&str] = match format.name {
                "disksim" | "flashsim" => &["disksim", "flashsim"],
                "mqsim" | "ssdsim" => whole_times,
                // Its columns have to be named.
                "columns" => &[],
                _ => &own,
            };
            assert_eq!(fitting_names(format.example.as_bytes()), expected, "{}", format.name);
        }
    }

    #[test]
    fn biosnoop_of_bpftrace_is_told_from_that_of_bcc() {
        for header in [
            "TIME(ms)     COMM             PID    LAT(ms)\n",
            "TIME(ms)     DISK    COMM             PID    LAT(ms)\n",
            "TIME(ms)     DISK ID        COMM             PID    LAT(ms)\n             MAJOR MINOR\n",
        ] {
            let text =
                format!("Attaching 4 probes...\n{header}611          bash             4179        10\n");
            let input = || Input::from_bytes("t.txt", text.clone().into_bytes());
            let format = detect(input(), None).unwrap();
            assert_eq!(format.name, "biosnoop");
            let error = format.reader(input()).unwrap().fill(&mut Vec::new(), 10).unwrap_err();
            assert_eq!((error.line, error.column), (Some(2), Some(1)));
            assert!(error.expected.contains("biosnoop.bt of bpftrace does not print"), "{error}");
        }
    }

    #[test]
    fn what_is_no_trace_is_said_to_be_none() {
        for bytes in [b"hello world\n".to_vec(), vec![0; 1000], b"\n\n\n".to_vec(), vec![0xff; 70_000]] {
            let error = detect(Input::from_bytes("t", bytes), None).unwrap_err();
            assert!(error.expected.contains("one of the formats"), "{error}");
        }
        assert!(detect(Input::from_bytes("t", Vec::new()), None).unwrap_err().expected.contains("empty"));
    }
}
