//! Damaged device files, workload files, steps and overrides: no text makes loading panic, every complaint has a sentence,
//! and what is accepted can be laid out, described again, and opened.

use std::fmt;

use ftlab_config::{
    Document, Kind, Problems, load_device, load_workload, presets, read_device, read_step, read_workload,
    to_toml,
};
use ftlab_core::config::Model;
use ftlab_trace::transform::STEPS;

use crate::campaign::{Most, Target};
use crate::drive::Dice;
use crate::{bytes, memory};

/// Most memory that reading a text takes, beside a part that grows with the text.
const MOST_BYTES: u64 = 64 << 20;
/// The same with tables of what is drawn, of a workload on 64 GiB that is opened.
const MOST_BYTES_OF_WORKLOADS: u64 = 1 << 30;

/// The target.
pub struct Files;

/// What a text is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    Device,
    Workload,
    Step,
    Override,
}

const ALL: [What; 4] = [What::Device, What::Workload, What::Step, What::Override];

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Device => "device.toml",
            What::Workload => "workload.toml",
            What::Step => "step.txt",
            What::Override => "override.txt",
        }
    }
}

/// A text, and what it is read as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    what: What,
    text: String,
}

/// What became of it.
pub struct Lived {
    accepted: bool,
    memory: u64,
}

/// What all have seen.
#[derive(Default)]
pub struct Seen {
    accepted: u64,
    refused: u64,
    memory: Most,
}

impl fmt::Display for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, refused, memory } = self;
        write!(
            out,
            "{accepted} texts accepted, {refused} refused; at most {:.1} MiB of memory (case {})",
            memory.0 / f64::from(1 << 20),
            memory.1
        )
    }
}

/// Values that have broken parsers before.
const VALUES: [&str; 38] = [
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "255",
    "4096",
    "65536",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775808",
    "99999999999999999999",
    "0x7fff_ffff",
    "1e308",
    "1e-320",
    "0.1",
    "0.9999999",
    "-0.0",
    "inf",
    "-nan",
    "true",
    "\"\"",
    "\"none\"",
    "\"64KiB\"",
    "\"18446744073709551615GiB\"",
    "\"1e9ms\"",
    "\"-1us\"",
    "\"\\u0000\"",
    "\"\\U0001F9E8 ünïcödé\"",
    "'''\n'''",
    "1979-05-27T07:32:00Z",
    "[1, \"a\", {}]",
    "{ kind = \"x\" }",
    "{ lsb = 1, msb = \"2ms\" }",
    "[]",
    "{}",
];

/// Pieces of TOML where nobody expects them.
const PIECES: [&str; 16] = [
    "[",
    "]",
    "=",
    "\"",
    "'''",
    "{",
    "}",
    ".",
    ",",
    "#",
    "\0",
    "\u{feff}",
    "\r",
    "\u{202e}",
    "é",
    "\n[[ftl]]\n",
];

/// A value that is as deep as `depth`.
fn deep(dice: &mut Dice, depth: usize) -> String {
    let (open, close) = dice.pick(&[("[", "]"), ("{ a = ", " }"), ("[{ b = ", " }]")]);
    format!("{}1{}", open.repeat(depth), close.repeat(depth))
}

/// A value for a key that had `old`.
fn value(old: &str, dice: &mut Dice) -> String {
    match dice.below(16) {
        0 => dice.below(u64::MAX).to_string(),
        1 => f64::from_bits(dice.below(u64::MAX)).to_string(),
        2 => {
            let depth = dice.pick(&[2, 50, 100, 1000, 50_000]);
            deep(dice, depth)
        }
        3 => format!("\"{}\"", "x".repeat(dice.pick(&[10, 1000, 100_000]))),
        4..8 => dice.pick(&VALUES).to_owned(),
        _ => {
            let number = old.split('#').next().unwrap_or_default().trim();
            let times = dice.pick(&[0.5, 2.0, 3.0, 1.0 / 3.0, 1000.0]);
            match (number.parse::<u64>(), number.parse::<f64>()) {
                (Ok(number), _) if dice.once_in(2) => {
                    number.saturating_add(dice.below(3)).saturating_sub(1).to_string()
                }
                (Ok(number), _) => ((number as f64 * times) as u64).to_string(),
                (_, Ok(number)) => format!("{:?}", number * times),
                _ => dice.pick(&VALUES).to_owned(),
            }
        }
    }
}

fn preset(kind: Kind, dice: &mut Dice) -> &'static str {
    dice.pick(&presets(kind)).text
}

/// The lines of some preset, each with its table.
fn keys(text: &str) -> Vec<(&str, &str)> {
    let mut table = "";
    let lines = text.lines().filter_map(|line| {
        if line.starts_with('[') {
            table = line;
        }
        line.contains('=').then_some((table, line))
    });
    lines.filter(|(_, line)| !line.starts_with('#')).collect()
}

/// Change the lines of a file once.
fn change(lines: &mut Vec<String>, kind: Kind, dice: &mut Dice) {
    if lines.is_empty() {
        lines.push(String::new());
    }
    let keyed: Vec<usize> =
        (0..lines.len()).filter(|at| lines[*at].contains('=') && !lines[*at].starts_with('#')).collect();
    let any = dice.below(lines.len() as u64) as usize;
    let at = if keyed.is_empty() { any } else { dice.pick(&keyed) };
    match dice.below(12) {
        0..=3 => {
            if let Some((key, old)) = lines[at].split_once('=') {
                lines[at] = format!("{key}= {}", value(old, dice));
            }
        }
        4 => drop(lines.remove(at)),
        5 => lines.insert(any, lines[at].clone()),
        6 => lines.swap(at, any),
        7 => {
            // A key of another file, in its own table or in a wrong one.
            let keys = keys(preset(kind, dice));
            if let [_, ..] = keys[..] {
                let (table, line) = dice.pick(&keys);
                lines.insert(any, if dice.once_in(2) { format!("{table}\n{line}") } else { line.to_owned() });
            }
        }
        8 => {
            let tables =
                ["ftl", "geometry", "timing", "workload", "map_cache", "cell", "host", "a.b.c", "\"\""];
            let table = dice.pick(&tables);
            lines.insert(any, format!("[{}{table}]", if dice.once_in(3) { "ftl." } else { "" }));
        }
        9 => {
            if let Some((key, rest)) = lines[at].split_once('=') {
                let depth = dice.pick(&[1, 90, 5000]);
                let key = dice.pick(&[
                    format!("{}{}", key.trim(), "x"),
                    format!("{}.a", key.trim()),
                    key.to_uppercase(),
                    String::new(),
                    "a.".repeat(depth) + "a",
                ]);
                lines[at] = format!("{key} ={rest}");
            }
        }
        10 => {
            let names: Vec<&str> = presets(kind).iter().map(|preset| preset.name).collect();
            let preset = dice.pick(&names);
            let name = dice.pick(&[preset, "fuzz.toml", "nothing", "", "../\0"]);
            lines.insert(0, format!("extends = {name:?}"));
        }
        _ => {
            let place = dice.below(lines[any].len() as u64 + 1) as usize;
            let place = (0..=place).rev().find(|at| lines[any].is_char_boundary(*at)).unwrap_or(0);
            lines[any].insert_str(place, dice.pick::<&str>(&PIECES));
        }
    }
}

/// A text of no meaning.
fn noise(dice: &mut Dice) -> String {
    let letter = |dice: &mut Dice| match dice.below(3) {
        0 => dice.pick(&PIECES).to_owned(),
        1 => char::from_u32(dice.below(0x11_0000) as u32).unwrap_or('a').to_string(),
        _ => char::from(b' ' + dice.below(95) as u8).to_string(),
    };
    (0..dice.below(200)).map(|_| letter(dice)).collect()
}

/// A preset with some changes.
fn file(kind: Kind, dice: &mut Dice) -> String {
    if dice.once_in(30) {
        return noise(dice);
    }
    let mut lines: Vec<String> = preset(kind, dice).lines().map(str::to_owned).collect();
    for _ in 0..dice.pick(&[1, 1, 2, 4]) {
        change(&mut lines, kind, dice);
    }
    let text = lines.join(dice.pick(&["\n", "\n", "\n", "\r\n"]));
    if dice.once_in(8) { spoilt(text, dice) } else { text }
}

/// A text that has been spoilt byte by byte, made text again.
fn spoilt(text: String, dice: &mut Dice) -> String {
    let mut bytes = text.into_bytes();
    for _ in 0..=dice.below(2) {
        bytes::spoil(&mut bytes, dice);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn step(dice: &mut Dice) -> String {
    if dice.once_in(10) {
        return noise(dice);
    }
    let step = &STEPS[dice.below(STEPS.len() as u64) as usize];
    let mut words: Vec<String> = step.example.split(' ').map(str::to_owned).collect();
    for _ in 0..=dice.below(2) {
        let at = dice.below(words.len() as u64) as usize;
        words[at] = match (dice.below(4), words[at].split_once('=')) {
            (0 | 1, Some((key, old))) => format!("{key}={}", value(old, dice)),
            (2, _) => format!("{} {}", words[at], words[at]),
            (3, _) => String::new(),
            (_, _) => value("", dice),
        };
    }
    words.join(" ")
}

fn assignment(dice: &mut Dice) -> String {
    if dice.once_in(10) {
        return noise(dice);
    }
    let keys = keys(preset(Kind::Device, dice));
    let (table, line) = if keys.is_empty() { ("", "a = 1") } else { dice.pick(&keys) };
    let (key, old) = line.split_once('=').unwrap_or((line, ""));
    let key = format!("{}.{}", table.trim_matches(['[', ']']), key.trim());
    let text = match dice.below(3) {
        0 => format!("{key}={old}"),
        1 => format!("{}={}", dice.pick(&["", ".", "a.b", "\"", " = =", "ftl.", "ftl"]), value(old, dice)),
        _ => format!("{key}={}", value(old, dice)),
    };
    if dice.once_in(3) { spoilt(text, dice) } else { text }
}

impl Target for Files {
    const NAME: &'static str = "files";
    const MOST_SECONDS: u64 = 20;
    type Case = Case;
    type Lived = Lived;
    type Seen = Seen;

    fn case(&self, seed: u64) -> Case {
        let mut dice = Dice::new(seed, "file");
        let what = dice.pick(&[
            What::Device,
            What::Device,
            What::Workload,
            What::Workload,
            What::Step,
            What::Override,
        ]);
        let text = match what {
            What::Device => file(Kind::Device, &mut dice),
            What::Workload => file(Kind::Workload, &mut dice),
            What::Step => step(&mut dice),
            What::Override => assignment(&mut dice),
        };
        Case { what, text }
    }

    fn run(&self, case: &Case, _seed: u64) -> Result<Lived, String> {
        let Case { what, text } = case;
        let (result, memory) = memory::most_taken(|| match what {
            What::Device => device(text),
            What::Workload => workload(text),
            What::Step => Ok(read_step(text).map(drop)),
            What::Override => overridden(text),
        });
        let result = result?;
        let most = if *what == What::Workload { MOST_BYTES_OF_WORKLOADS } else { MOST_BYTES };
        if memory > most + 1000 * text.len() as u64 {
            return Err(format!("reading {} bytes takes {memory} bytes of memory", text.len()));
        }
        if let Err(problems) = &result {
            complaints(problems)?;
        }
        Ok(Lived { accepted: result.is_ok(), memory })
    }

    fn count(&self, seen: &mut Seen, _: &Case, lived: Lived, seed: u64) {
        *if lived.accepted { &mut seen.accepted } else { &mut seen.refused } += 1;
        seen.memory.see(lived.memory as f64, seed);
    }

    fn smallest(&self, case: Case, text: &str, fails: impl Fn(&Case) -> Option<String>) -> (Case, String) {
        let what = case.what;
        let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let fails = |bytes: &[u8]| fails(&Case { what, text: of(bytes) });
        let (bytes, text) = bytes::smallest(case.text.as_bytes(), text, fails);
        (Case { what, text: of(&bytes) }, text)
    }

    fn files(&self, case: &Case, _seed: u64, _text: &str) -> Vec<(String, Vec<u8>)> {
        vec![(case.what.name().into(), case.text.clone().into())]
    }

    fn case_of(&self, ending: &str, bytes: Vec<u8>) -> Result<Case, String> {
        let what = ALL.into_iter().find(|what| what.name() == ending);
        let what = what.ok_or_else(|| format!("expected an ending like {}", What::Device.name()))?;
        Ok(Case { what, text: String::from_utf8(bytes).map_err(|error| error.to_string())? })
    }
}

/// What did not hold; or whether the text was accepted, or why not.
type Read = Result<Result<(), Problems>, String>;

/// Every complaint is a sentence that a user can be shown.
fn complaints(problems: &Problems) -> Result<(), String> {
    // Whoever prints it makes it short.
    let mut all = problems.0.iter();
    let bad =
        all.find(|problem| problem.expected.is_empty() || problem.to_string().contains(char::is_control));
    match bad {
        Some(problem) => Err(format!("a complaint that nobody wants to read: {problem:?}")),
        None if problems.0.is_empty() => Err("refused without a complaint".into()),
        None => Ok(()),
    }
}

fn parsed(kind: Kind, text: &str) -> Result<Document, Problems> {
    Document::parse(kind, text, "fuzz.toml")
}

fn device(text: &str) -> Read {
    let config = match parsed(Kind::Device, text).and_then(|document| read_device(&document)) {
        Ok(config) => config,
        Err(problems) => return Ok(Err(problems)),
    };
    let geometry = config.to_geometry();
    let without_flash = config.model == Model::MappingCache;
    if geometry.logical_units == 0 || (!without_flash && geometry.logical_units >= geometry.physical_units())
    {
        return Err(format!("{} of {} units are logical", geometry.logical_units, geometry.physical_units()));
    }
    let again = to_toml(&config).and_then(|text| read_device(&parsed(Kind::Device, &text)?));
    if again.as_ref() != Ok(&config) {
        return Err(format!("what it is described as is something else: {again:?}"));
    }
    Ok(Ok(()))
}

fn workload(text: &str) -> Read {
    let file = match parsed(Kind::Workload, text).and_then(|document| read_workload(&document)) {
        Ok(file) => file,
        Err(problems) => return Ok(Err(problems)),
    };
    let again = to_toml(&file).and_then(|text| read_workload(&parsed(Kind::Workload, &text)?));
    if again.as_ref() != Ok(&file) {
        return Err(format!("what it is described as is something else: {again:?}"));
    }
    // Whether it fits the drive or not: what can be opened makes requests.
    if file.workload.recorded.trace.is_none()
        && let Ok(factory) = file.workload.factory(64 << 30, None, Some(100))
    {
        let mut out = Vec::new();
        let made = factory.open(0).and_then(|mut source| source.fill(&mut out, 100));
        if !made.as_ref().is_ok_and(|made| (1..=100).contains(made)) {
            return Err(format!("it is opened, and makes no requests: {made:?}"));
        }
    }
    Ok(Ok(()))
}

fn overridden(text: &str) -> Read {
    let device = load_device("tlc-small", &[text.to_owned()]);
    let workload = load_workload("zipf", &[text.to_owned()]);
    for problems in [device.as_ref().err(), workload.as_ref().err()].into_iter().flatten() {
        complaints(problems)?;
    }
    Ok(device.map(drop).or(workload.map(drop)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_read_or_refused() {
        let Seen { accepted, refused, .. } = crate::campaign::hold(&Files, 50, 500_000);
        assert!(accepted > refused / 20 && refused > accepted / 20, "{accepted} {refused}");
    }

    #[test]
    #[ignore = "a long test: make test-long"]
    fn presets_are_accepted_as_they_are() {
        for (kind, what) in [(Kind::Device, What::Device), (Kind::Workload, What::Workload)] {
            for preset in presets(kind) {
                let lived = Files.run(&Case { what, text: preset.text.into() }, 1).expect(preset.name);
                assert!(lived.accepted, "{}", preset.name);
            }
        }
    }

    #[test]
    fn a_finding_is_cut_down_to_what_it_needs_and_can_be_repeated() {
        let case = Case { what: What::Device, text: preset(Kind::Device, &mut Dice::new(1, "any")).into() };
        let fails = |case: &Case| case.text.contains("[ftl]").then(|| "a table".to_owned());
        let (small, text) = Files.smallest(case, "a table", fails);
        assert_eq!((small.text.as_str(), text.as_str()), ("[ftl]", "a table"));
        let (ending, file) = Files.files(&small, 7, &text).remove(0);
        assert_eq!(Files.case_of(&ending, file), Ok(small));
    }
}
