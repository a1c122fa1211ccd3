//! The formats of traces.
//!
//! A format is one file of this folder with a `pub(crate) static FORMAT: Format`. It has one line in the list below.
//! From that line follow its module, detection, `--format`, the tables of `ftlab trace`, the page of the documentation,
//! the round-trip tests and the fuzz tests.

use ftlab_core::host::request::{Remark, RequestSource, SourceError};
use ftlab_core::host::warnings::ADDRESS_UNIT;

use crate::format::{Format, Sample};
use crate::input::Input;
use crate::text::{begins_with_index, behind_mark};

macro_rules! formats {
    ($($file:ident;)+) => {
        $(pub(crate) mod $file;)+

        /// Every format.
        pub static FORMATS: &[&Format] = &[$(&$file::FORMAT),+];
    };
}

formats! {
    spc;
    msr;
    disksim;
    flashsim;
    mqsim;
    ssdsim;
    blkparse;
    fio_iolog;
    systor17;
    alibaba;
    tencent;
    blkreplay;
    biotracer;
    opencas;
    biosnoop;
    bpftrace;
    perf_script;
    trace_cmd;
    ftrace;
    fiu;
    vscsi;
    blktrace;
    hp_srt;
    jesd219;
    oracle_general;
    columns;
    csv;
    parquet;
}

impl Format {
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
}

/// Names in a sentence.
pub(crate) fn names(formats: &[&Format]) -> String {
    formats.iter().map(|format| format.name).collect::<Vec<_>>().join(", ")
}

/// Bytes that are looked at to recognise a format.
const SAMPLE_BYTES: usize = 64 * 1024;
const SAMPLE_LINES: usize = 200;

/// What to do about a sample that may be bytes where a format has sectors.
fn bytes_or_sectors(sample: &Sample<'_>) -> Option<String> {
    let of_units = [disksim::bytes_or_sectors, spc::bytes_or_sectors, tencent::bytes_or_sectors];
    of_units.into_iter().find_map(|told| told(sample))
}

/// What to say of a sample of `format` that has it by its extension alone, since its numbers look like bytes.
fn trusted(format: &Format, sample: &Sample<'_>) -> Option<Remark> {
    let bare = Sample { extension: None, ..*sample };
    if (format.detect)(&bare) {
        return None;
    }
    let told = bytes_or_sectors(&bare)?;
    let (_, choices) = told.split_once(" If ").unwrap_or_default();
    Some(Remark {
        code: Some(ADDRESS_UNIT),
        text: format!(
            "only its extension says that it is {}, with addresses in sectors of 512 bytes: addresses or sizes are all \
             multiples of 512, as bytes are",
            format.name
        ),
        advice: format!("if {choices}"),
        found: Vec::new(),
    })
}

/// What to say of a sample that no format fits.
fn unknown(sample: &Sample<'_>) -> String {
    if let Some(told) = bytes_or_sectors(sample) {
        return told;
    }
    if is_toml(sample.lines) {
        return "a trace: this looks like TOML, which describes workloads and devices; a workload is given with --workload".into();
    }
    let formats = format!("a trace in one of the formats {} (choose one with --format)", names(FORMATS));
    let is_text =
        !sample.lines.is_empty() && std::str::from_utf8(sample.lines).is_ok_and(|text| !text.contains('\0'));
    if !is_text {
        return formats;
    }
    let index = if begins_with_index(sample.lines) {
        "; its lines begin with a running number, as pandas writes one: it is named -"
    } else {
        ""
    };
    let named = columns::suggested(sample.lines, None);
    format!("{formats}, or text whose columns are named, as in {named}{index}")
}

/// Whether the first line that says something is a section or a key of a TOML file.
fn is_toml(lines: &[u8]) -> bool {
    let text = String::from_utf8_lossy(lines);
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let is_name = |text: &str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.' | '-');
        text.starts_with(|letter: char| letter.is_ascii_alphabetic()) && text.chars().all(is_letter)
    };
    first.is_some_and(|line| match line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
        Some(section) => is_name(section.trim_matches(['[', ']'])),
        None => {
            line.split_once(" = ").is_some_and(|(key, value)| is_name(key) && !value.contains([',', ';']))
        }
    })
}

/// Whether the first line names columns, and the format takes it for a bad record: then the file is a table of somebody else.
fn refuses_header(format: &Format, sample: &Sample<'_>) -> bool {
    let mut lines = sample.lines.split_inclusive(|byte| *byte == b'\n');
    let (Some(first), Some(second)) = (lines.next(), lines.next()) else { return false };
    let is_between = |byte: &u8| matches!(byte, b',' | b';') || byte.is_ascii_whitespace();
    let fields = |line| <[u8]>::split(line, is_between).filter(|field| !field.is_empty());
    let names_columns = fields(first).count() >= 3
        && fields(first).count() == fields(second).count()
        && fields(first).all(|field| !field[0].is_ascii_digit())
        && fields(second).any(|field| field[0].is_ascii_digit());
    let failed = |mut source: Box<dyn RequestSource>| source.fill(&mut Vec::new(), 1).err();
    names_columns
        && (format.reader(Input::from_bytes("", [first, second].concat())).map_or_else(Some, failed))
            .is_some_and(|error| error.line == Some(1))
}

/// Recognise the format of a trace by its content; `extension` decides only among formats that fit. With it comes what there
/// is to say of that decision.
///
/// # Errors
/// When no format fits or several do. The message says which and how to choose.
pub(crate) fn detect(
    input: Input,
    extension: Option<&str>,
) -> Result<(&'static Format, Option<Remark>), SourceError> {
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
    let recognised = FORMATS.iter().copied().filter(|format| (format.detect)(&sample));
    let (headed, fitting): (Vec<&'static Format>, Vec<_>) =
        recognised.partition(|format| refuses_header(format, &sample));
    let by_extension = |formats: &[&'static Format]| {
        let decided = |format: &&&Format| extension.is_some_and(|given| format.extensions.contains(&given));
        let mut candidates = formats.iter().filter(decided);
        candidates.next().copied().filter(|_| candidates.next().is_none())
    };
    let found = match fitting[..] {
        [format] => Ok(format),
        [] if !headed.is_empty() => {
            let found = sample.lines.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let found = String::from_utf8_lossy(found).trim_end().chars().take(80).collect();
            let fits = names(&headed);
            let expected = format!(
                "{}; what follows the header fits {fits}: --format {} --skip-bad 1 reads that",
                unknown(&sample),
                headed[0].name
            );
            Err(SourceError { found, ..failed(expected) })
        }
        // The reader of the format that the name promises tells best what is wrong with the content.
        [] => by_extension(FORMATS).ok_or_else(|| {
            let found = String::from_utf8_lossy(sample.bytes);
            let found = found.lines().next().unwrap_or("").chars().take(80).collect();
            SourceError { found, ..failed(unknown(&sample)) }
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
            let units = if fit("disksim") && fit("flashsim") {
                "; disksim has sizes in sectors, flashsim in pages of 4 KiB"
            } else {
                ""
            };
            failed(format!(
                "the content fits several formats ({fits}): choose one with --format{or_name}{units}"
            ))
        }),
    };
    found.map(|format| (format, trusted(format, &sample)))
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
                let found = detect(input(), format.extensions.first().copied()).unwrap().0;
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
            assert_eq!(detect(Input::from_bytes("t", text.clone()), Some(name)).unwrap().0.name, name);
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
                assert_eq!(detect(input(), Some(name)).unwrap().0.name, name);
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

    /// A size of 0 is named as what it is where the line is one of the format, and fits no format where it is not.
    #[test]
    fn a_value_that_makes_no_sense_never_hides_a_wrong_shape() {
        let reads = |format: &Format, text: &str| {
            let mut reader = format.reader(Input::from_bytes("t", text.into())).unwrap();
            reader.fill(&mut Vec::new(), 10).is_ok()
        };
        let mut damaged = 0;
        for format in FORMATS.iter().filter(|format| !format.example.is_empty() && format.name != "columns") {
            // A header says enough by itself.
            let first = format.example.split_inclusive('\n').next().unwrap();
            let headed = format.name != "jesd219" && !reads(format, first);
            let comma = if first.contains(',') { ',' } else { ' ' };
            for line in format.example.lines().skip(usize::from(headed)) {
                let longer = format!("{line}{comma}7{comma}7{comma}7");
                let header = if headed { first } else { "" };
                if reads(format, &format!("{header}{longer}\n"))
                    || !reads(format, &format!("{header}{line}\n"))
                {
                    continue;
                }
                let numbers = longer.match_indices(|letter: char| letter.is_ascii_digit()).map(|(at, _)| at);
                let begins = numbers.filter(|at| *at == 0 || !longer.as_bytes()[at - 1].is_ascii_digit());
                for at in begins {
                    let rest = longer[at..].trim_start_matches(|letter: char| letter.is_ascii_digit());
                    for number in ["0", "99999999999999999"] {
                        let text = format!("{}{number}{rest}\n", &longer[..at]).repeat(10);
                        assert!(
                            headed || !fitting_names(text.as_bytes()).contains(&format.name),
                            "{}: {text}",
                            format.name
                        );
                        damaged += 1;
                    }
                }
            }
        }
        assert!(damaged > 500, "{damaged}");
    }

    /// A recording of reads with flags of 0, whose fourth and fifth columns look like a size of 0 and flags.
    #[test]
    fn columns_of_a_phone_fit_no_simulator() {
        let line = |at: u64| {
            let time = |later: u64| format!("1398396860.{:09}", at * 1000 + later);
            format!("{} 8 4096 0 {} {} {} {}\n", at * 8, time(0), time(1), time(2), time(3))
        };
        let text: String = (1..100).map(line).collect();
        assert_eq!(fitting_names(text.as_bytes()), ["biotracer"]);
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
            let format = detect(input(), None).unwrap().0;
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
