//! `ftlab-fuzz`: random cases against what must hold for every one of them.
//!
//! A case is a number: of a drive and what happens to it, of a damaged trace, or of a damaged file. What fails is made
//! smaller as long as it still fails, and written as a file that repeats it.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

mod bytes;
mod campaign;
mod clock;
mod cuts;
mod drive;
mod drives;
mod expected;
mod files;
mod laws;
mod memory;
mod more;
mod pressure;
mod shrink;
mod traces;
mod witness;
mod workload;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use campaign::{Budget, Target};
use drives::Drives;
use files::Files;
use traces::Traces;

const HELP: &str = "\
Try random cases, and tell what did not hold.

Usage: ftlab-fuzz [drives|traces|files] [--seed N] [--cases N | --seconds N] [--out FOLDER] [--show]
       ftlab-fuzz [drives|traces|files] --repeat FILE

  drives         random drives at their limits, power cuts, and random requests against laws
  traces         damaged traces, against every reader
  files          damaged device files, workload files, steps and overrides
                 without any of them: all three, each with a third of the time

  --seed N       the first case (1)
  --cases N      how many (1000; with --seconds, as many as there is time for)
  --seconds N    stop after this time
  --out FOLDER   write files for each finding
  --show         print the first case, and run nothing
  --repeat FILE  try the case of such a file again

Ctrl-C ends it at once, with what it has found so far and status 130.
";

const ALL: [&str; 3] = [Drives::NAME, Traces::NAME, Files::NAME];

struct Options {
    targets: Vec<&'static str>,
    budget: Budget,
    show: bool,
    repeat: Option<PathBuf>,
}

impl Options {
    /// `None` when help was asked for.
    fn parse(mut arguments: lexopt::Parser) -> Result<Option<Self>, lexopt::Error> {
        use lexopt::prelude::{Long, Value, ValueExt};
        let budget = Budget { seed: 1, cases: 0, time: None, out: None };
        let mut options = Self { targets: Vec::new(), budget, show: false, repeat: None };
        let (mut cases, mut seconds) = (None, None::<u64>);
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("seed") => options.budget.seed = arguments.value()?.parse()?,
                Long("cases") => cases = Some(arguments.value()?.parse()?),
                Long("seconds") => seconds = Some(arguments.value()?.parse()?),
                Long("out") => options.budget.out = Some(arguments.value()?.into()),
                Long("show") => options.show = true,
                Long("repeat") => options.repeat = Some(arguments.value()?.into()),
                Long("help") => return Ok(None),
                Value(name) => match ALL.into_iter().find(|target| name == *target) {
                    Some(target) => options.targets.push(target),
                    None => return Err(Value(name).unexpected()),
                },
                other => return Err(other.unexpected()),
            }
        }
        if options.targets.is_empty() {
            options.targets = ALL.into();
            if let Some(name) = options.repeat.as_ref().and_then(|path| path.file_name()) {
                let name = name.to_string_lossy();
                options.targets.retain(|target| {
                    name.starts_with(target) || !ALL.iter().any(|each| name.starts_with(each))
                });
            }
        }
        let share = options.targets.len() as u32;
        options.budget.time = seconds.map(|seconds| Duration::from_secs(seconds) / share);
        options.budget.cases = cases.unwrap_or(if seconds.is_some() { u64::MAX } else { 1000 });
        Ok(Some(options))
    }
}

/// Do what was asked for with a target; gives the number of findings.
fn run<T: Target>(target: &T, options: &Options) -> Result<u64, String> {
    let Options { budget, show, repeat, .. } = options;
    if *show {
        for (_, file) in target.files(&target.case(budget.seed), budget.seed, "shown") {
            std::io::stdout().write_all(&file).map_err(|error| error.to_string())?;
        }
        return Ok(0);
    }
    if let Some(path) = repeat {
        return campaign::repeat(target, path).map_err(|error| format!("{}: {error}", path.display()));
    }
    let out = budget.out.as_deref().unwrap_or("standard output".as_ref()).display();
    campaign::run(target, budget).map_err(|error| format!("{out}: {error}"))
}

fn all(options: &Options) -> Result<u64, String> {
    let mut findings = 0;
    for target in &options.targets {
        findings += match *target {
            Drives::NAME => run(&Drives, options)?,
            Traces::NAME => run(&Traces, options)?,
            _ => run(&Files, options)?,
        };
    }
    Ok(findings)
}

fn main() -> ExitCode {
    let options = match Options::parse(lexopt::Parser::from_env()) {
        Ok(Some(options)) => options,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    match all(&options) {
        Ok(findings) => ExitCode::from(u8::from(findings > 0)),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::Path;

    use super::{Options, all};

    /// `make test` fuzzes in the program of the tests: that is compiled already.
    #[test]
    #[ignore = "takes FTLAB_FUZZ_SECONDS: make test-fuzz"]
    fn a_while_of_fuzzing_finds_nothing() {
        let seconds = std::env::var("FTLAB_FUZZ_SECONDS").expect("FTLAB_FUZZ_SECONDS is set");
        let root =
            Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the folder of the workspace");
        let out = root.join("out").join("fuzz");
        let arguments: [&OsStr; 4] = ["--seconds".as_ref(), seconds.as_ref(), "--out".as_ref(), out.as_ref()];
        let arguments = lexopt::Parser::from_args(arguments);
        let options = Options::parse(arguments).expect("a number of seconds").expect("no question");
        let findings = all(&options).expect("out/fuzz can be written");
        assert_eq!(
            findings, 0,
            "the first file that is named above repeats its finding: \
             cargo run --release --config tests/profile.toml -p ftlab-fuzz -- --repeat FILE"
        );
    }
}
