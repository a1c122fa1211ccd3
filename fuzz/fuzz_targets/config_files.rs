//! Device and workload files: no text makes loading panic, every complaint has a place and a sentence, and what is accepted
//! is a drive that can be described again and laid out. The first byte chooses between the two kinds of file.
#![no_main]

use ftlab_config::{Document, Kind, Problems, read_device, read_workload, to_toml};
use libfuzzer_sys::fuzz_target;

fn complain(problems: &Problems) {
    assert!(!problems.0.is_empty());
    for problem in &problems.0 {
        assert!(!problem.expected.is_empty() && !problem.to_string().contains('\n'), "{problem}");
    }
}

fn device(text: &str) -> Result<(), Problems> {
    let config = read_device(&Document::parse(Kind::Device, text, "fuzz.toml")?)?;
    let geometry = config.to_geometry();
    assert!(geometry.logical_units > 0 && geometry.logical_units < geometry.physical_units());
    let again = read_device(&Document::parse(Kind::Device, &to_toml(&config)?, "fuzz.toml")?);
    assert_eq!(again.unwrap_or_else(|problems| panic!("{problems}")), config);
    Ok(())
}

fn workload(text: &str) -> Result<(), Problems> {
    read_workload(&Document::parse(Kind::Workload, text, "fuzz.toml")?).map(drop)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((first, rest)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let read = if first % 2 == 0 { device(text) } else { workload(text) };
    if let Err(problems) = read {
        complain(&problems);
    }
});
