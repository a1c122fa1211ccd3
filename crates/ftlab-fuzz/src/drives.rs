//! Random drives against what must hold for every drive that validation accepts.

use std::fmt;

use ftlab_config::{Document, Kind, read_device, to_toml};
use ftlab_core::config::DeviceConfig;
use ftlab_core::host::request::Request;

use crate::campaign::{Most, Target, caught};
use crate::laws::{self, Case, Shown};
use crate::pressure::Lived;
use crate::{drive, pressure, shrink, workload};

/// Put a drive under pressure, and hold it against the laws.
fn press(config: &DeviceConfig, seed: u64) -> Result<(Lived, Shown), String> {
    let lived = caught(|| pressure::press(config, seed))?;
    Ok((lived, hold(config, &workload::random(config, seed), seed)?))
}

/// Hold a drive with its requests against the laws.
fn hold(config: &DeviceConfig, requests: &[Request], seed: u64) -> Result<Shown, String> {
    caught(|| laws::check(&Case { config, requests, seed }))
}

/// The target.
pub struct Drives;

/// What drives have seen.
#[derive(Default)]
pub struct Seen {
    cuts: u64,
    cut_short: u64,
    requests: u64,
    commands: u64,
    share: Most,
    cached_share: Most,
}

impl fmt::Display for Seen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cuts, cut_short, requests, commands, share, cached_share } = self;
        write!(
            out,
            "{cuts} power cuts, {cut_short} drives cut short because they copied too much, {requests} requests, {commands} commands; an access took at most {:.3} of its bound of commands (case {}), \
             {:.3} with a mapping cache (case {})",
            share.0, share.1, cached_share.0, cached_share.1
        )
    }
}

impl Target for Drives {
    const NAME: &'static str = "drives";
    const MOST_SECONDS: u64 = 120;
    type Case = DeviceConfig;
    type Lived = (Lived, Shown);
    type Seen = Seen;

    fn case(&self, seed: u64) -> DeviceConfig {
        drive::random(seed)
    }

    fn run(&self, config: &DeviceConfig, seed: u64) -> Result<(Lived, Shown), String> {
        press(config, seed)
    }

    fn count(&self, seen: &mut Seen, config: &DeviceConfig, (lived, shown): (Lived, Shown), seed: u64) {
        let share = lived.most_commands as f64 / lived.bound as f64;
        let cached = config.map_cache.kind.is_cache();
        if cached { &mut seen.cached_share } else { &mut seen.share }.see(share, seed);
        seen.cuts += u64::from(lived.cuts) + shown.cuts;
        seen.cut_short += u64::from(lived.cut_short || shown.is_cut_short);
        seen.requests += shown.requests;
        seen.commands += shown.commands;
    }

    fn smallest(
        &self,
        config: DeviceConfig,
        text: &str,
        fails: impl Fn(&DeviceConfig) -> Option<String>,
    ) -> (DeviceConfig, String) {
        shrink::smallest(&config, text, fails)
    }

    fn files(&self, config: &DeviceConfig, seed: u64, text: &str) -> Vec<(String, Vec<u8>)> {
        let device = to_toml(config).unwrap_or_default();
        let requests = workload::random(config, seed);
        let fails = |requests: &[Request]| hold(config, requests, seed).err();
        // Where no law fails, it was the pressure: there are no requests to repeat.
        let found = fails(&requests).map(|text| shrink::fewest(&requests, text, fails));
        let Some((requests, text)) = found else {
            return vec![("toml".into(), format!("# ftlab-fuzz, case {seed}: {text}\n{device}").into())];
        };
        let repeat =
            format!("# ftlab run drives-{seed}.toml --trace drives-{seed}.csv --seed {seed} --verify\n");
        let file = format!("# ftlab-fuzz, case {seed}: {text}\n{repeat}{device}");
        vec![("toml".into(), file.into()), ("csv".into(), workload::to_csv(&requests).into())]
    }

    fn case_of(&self, _ending: &str, bytes: Vec<u8>) -> Result<DeviceConfig, String> {
        let text = String::from_utf8(bytes).map_err(|error| error.to_string())?;
        // A drive without a name is called as its file.
        let read = Document::parse(Kind::Device, &text, "").and_then(|document| read_device(&document));
        read.map_err(|problems| problems.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At the largest size that validation accepts, and at others; `make test-long` tries many more.
    #[test]
    fn drives_live_through_ten_drive_writes_and_power_cuts_and_obey_the_laws() {
        crate::campaign::hold(&Drives, 6, 20_000);
    }

    #[test]
    #[ignore = "a long test: make test-long"]
    fn a_finding_is_made_smaller_as_long_as_it_is_one() {
        // Without tables in flash, which would need the room of the other planes in the end.
        let wanted = |config: &DeviceConfig| config.geometry.planes > 2 && !config.map_cache.kind.is_cache();
        let config = (1..1000).map(drive::random).find(wanted).expect("there is one");
        let fails = |config: &DeviceConfig| (config.geometry.planes > 1).then(|| "two planes".to_owned());
        let (small, text) = Drives.smallest(config, "more planes", fails);
        assert_eq!((small.geometry.planes, small.geometry.channels, text.as_str()), (2, 1, "two planes"));
        let (ending, file) = Drives.files(&small, 7, &text).remove(0);
        assert_eq!(Drives.case_of(&ending, file), Ok(small));
    }
}
