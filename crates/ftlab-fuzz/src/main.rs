//! `ftlab-fuzz`: random drives against what must hold for every drive that validation accepts.
//!
//! A case is a number: it gives the drive, what happens to it, and where the power goes. What fails is made smaller as long
//! as it still fails, and written as a device file that says so.
#![allow(clippy::print_stdout, reason = "its output is what it is for")]

mod drive;
mod pressure;
mod shrink;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ftlab_config::to_toml;
use ftlab_core::config::DeviceConfig;
use pressure::Lived;

const HELP: &str = "\
Put random drives under pressure, and tell what did not hold.

Usage: ftlab-fuzz [--seed N] [--drives N] [--seconds N] [--out FOLDER] [--show]

  --seed N       the first case (1)
  --drives N     how many (1000; with --seconds, as many as there is time for)
  --seconds N    stop after this time
  --out FOLDER   write a device file for each finding
  --show         print the device file of the first case, and run nothing
";

struct Options {
    seed: u64,
    drives: u64,
    seconds: Option<u64>,
    out: Option<PathBuf>,
    show: bool,
}

impl Options {
    /// `None` when help was asked for.
    fn parse() -> Result<Option<Self>, lexopt::Error> {
        use lexopt::prelude::{Long, ValueExt};
        let (mut options, mut drives) =
            (Self { seed: 1, drives: 0, seconds: None, out: None, show: false }, None);
        let mut arguments = lexopt::Parser::from_env();
        while let Some(argument) = arguments.next()? {
            match argument {
                Long("seed") => options.seed = arguments.value()?.parse()?,
                Long("drives") => drives = Some(arguments.value()?.parse()?),
                Long("seconds") => options.seconds = Some(arguments.value()?.parse()?),
                Long("out") => options.out = Some(arguments.value()?.into()),
                Long("show") => options.show = true,
                Long("help") => return Ok(None),
                other => return Err(other.unexpected()),
            }
        }
        options.drives = drives.unwrap_or(if options.seconds.is_some() { u64::MAX } else { 1000 });
        Ok(Some(options))
    }
}

/// The largest of something, and the case that had it.
#[derive(Default, Clone, Copy)]
struct Most(f64, u64);

impl Most {
    fn see(&mut self, value: f64, seed: u64) {
        if value > self.0 {
            *self = Self(value, seed);
        }
    }
}

#[derive(Default)]
struct Tally {
    drives: u64,
    findings: u64,
    cuts: u64,
    seconds: Most,
    share: Most,
    cached_share: Most,
}

/// Put a drive under pressure; a panic is a finding as any other.
fn press(config: &DeviceConfig, seed: u64) -> Result<Lived, String> {
    catch_unwind(AssertUnwindSafe(|| pressure::press(config, seed)))
        .unwrap_or_else(|_| Err("it panicked".into()))
}

/// What is to be said of a finding, with the smallest drive that has it.
fn tell(seed: u64, config: &DeviceConfig, text: &str, options: &Options) -> std::io::Result<()> {
    println!("case {seed}: {text}");
    let (small, text) = shrink::smallest(config, text, |config| press(config, seed).err());
    let Ok(device) = to_toml(&small) else { return Ok(()) };
    let file = format!("# ftlab-fuzz, case {seed}, made smaller: {text}\n{device}");
    if let Some(folder) = &options.out {
        std::fs::create_dir_all(folder)?;
        return std::fs::write(folder.join(format!("case-{seed}.toml")), file);
    }
    println!("{file}");
    Ok(())
}

fn work(options: &Options, next: &AtomicU64, stop: &AtomicBool, tally: &Mutex<Tally>) -> std::io::Result<()> {
    let until = options.seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    while !stop.load(Ordering::Relaxed) && until.is_none_or(|until| Instant::now() < until) {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= options.drives {
            break;
        }
        let seed = options.seed.wrapping_add(at);
        let config = drive::random(seed);
        let start = Instant::now();
        let result = press(&config, seed);
        let mut tally = tally.lock().expect("nobody panics with it");
        tally.drives += 1;
        tally.seconds.see(start.elapsed().as_secs_f64(), seed);
        match result {
            Ok(lived) => {
                let share = lived.most_commands as f64 / lived.bound as f64;
                let cached = config.map_cache.kind.is_cache();
                if cached { &mut tally.cached_share } else { &mut tally.share }.see(share, seed);
                tally.cuts += u64::from(lived.cuts);
            }
            Err(text) => {
                tally.findings += 1;
                if let Err(error) = tell(seed, &config, &text, options) {
                    stop.store(true, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
    }
    Ok(())
}

fn main() -> ExitCode {
    let options = match Options::parse() {
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
    if options.show {
        print!("{}", to_toml(&drive::random(options.seed)).unwrap_or_default());
        return ExitCode::SUCCESS;
    }
    let (next, stop, tally, start) =
        (AtomicU64::new(0), AtomicBool::new(false), Mutex::new(Tally::default()), Instant::now());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let failed = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| work(&options, &next, &stop, &tally))).collect();
        workers.into_iter().find_map(|worker| worker.join().expect("findings are caught").err())
    });
    if let Some(error) = failed {
        eprintln!("error: {}: {error}", options.out.unwrap_or_default().display());
        return ExitCode::from(2);
    }
    let Tally { drives, findings, cuts, seconds, share, cached_share } =
        tally.into_inner().expect("nobody panics with it");
    println!(
        "{drives} drives from case {}, {cuts} power cuts, {:.0} s: {findings} findings\n\
         slowest {:.2} s (case {}); an access took at most {:.3} of its bound of commands (case {}), {:.3} with a mapping cache \
         (case {})",
        options.seed,
        start.elapsed().as_secs_f64(),
        seconds.0,
        seconds.1,
        share.0,
        share.1,
        cached_share.0,
        cached_share.1
    );
    ExitCode::from(u8::from(findings > 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At the largest size that validation accepts, and at others; `make test-long` tries many more.
    #[test]
    fn drives_live_through_ten_drive_writes_and_power_cuts_within_their_bounds() {
        let count = if std::env::var_os("FTLAB_LONG").is_some() { 20_000 } else { 40 };
        for seed in 1..=count {
            let config = drive::random(seed);
            if let Err(text) = pressure::press(&config, seed) {
                let device = to_toml(&config).unwrap_or_default();
                panic!("ftlab-fuzz --drives 1 --seed {seed}: {text}\n{device}");
            }
        }
    }

    #[test]
    fn a_finding_is_made_smaller_as_long_as_it_is_one() {
        let config =
            (1..1000).map(drive::random).find(|config| config.geometry.planes > 2).expect("there is one");
        let fails = |config: &DeviceConfig| (config.geometry.planes > 1).then(|| "two planes".to_owned());
        let (small, text) = shrink::smallest(&config, "more planes", fails);
        assert_eq!((small.geometry.planes, small.geometry.channels, text.as_str()), (2, 1, "two planes"));
    }
}
