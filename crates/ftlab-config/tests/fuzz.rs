//! No text makes loading panic, every complaint has a place and a sentence, and what is accepted can be laid out and
//! described again. The libFuzzer target `config_files` does the same for longer.

use ftlab_config::{
    Document, Kind, Problems, load_device, presets, read_device, read_step, read_workload, to_toml,
};
use ftlab_core::config::Model;
use ftlab_trace::transform::STEPS;
use proptest::prelude::*;

fn device(text: &str) -> Result<(), Problems> {
    let config = read_device(&Document::parse(Kind::Device, text, "fuzz.toml")?)?;
    let geometry = config.to_geometry();
    let without_flash = config.model == Model::MappingCache;
    assert!(geometry.logical_units > 0);
    assert!(without_flash || geometry.logical_units < geometry.physical_units());
    let again = read_device(&Document::parse(Kind::Device, &to_toml(&config)?, "fuzz.toml")?);
    assert_eq!(again.unwrap_or_else(|problems| panic!("{problems}")), config);
    Ok(())
}

fn workload(text: &str) -> Result<(), Problems> {
    let file = read_workload(&Document::parse(Kind::Workload, text, "fuzz.toml")?)?;
    let again = read_workload(&Document::parse(Kind::Workload, &to_toml(&file)?, "fuzz.toml")?);
    assert_eq!(again.unwrap_or_else(|problems| panic!("{problems}")), file);
    // Whether it fits the drive or not: what can be opened makes requests.
    if file.workload.recorded.trace.is_none()
        && let Ok(factory) = file.workload.factory(64 << 30, None, Some(100))
    {
        let mut out = Vec::new();
        assert!((1..=100).contains(&factory.open(0).unwrap().fill(&mut out, 100).unwrap()));
    }
    Ok(())
}

fn check(kind: Kind, text: &str) {
    let read = if kind == Kind::Device { device(text) } else { workload(text) };
    if let Err(problems) = read {
        assert!(!problems.0.is_empty());
        for problem in &problems.0 {
            assert!(!problem.expected.is_empty() && !problem.to_string().contains('\n'), "{problem}");
        }
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![2 => Just(Kind::Device), 1 => Just(Kind::Workload)]
}

/// Values that have broken parsers before.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_map(|n| format!("{n:?}")),
        Just("inf".into()),
        Just("-nan".into()),
        Just("1979-05-27T07:32:00Z".into()),
        Just("[1, \"a\", {}]".into()),
        Just("{ kind = \"x\" }".into()),
        Just("{ lsb = 1, msb = \"2ms\" }".into()),
        Just("true".into()),
        "\"[a-zA-Z0-9. ]{0,12}\"",
    ]
}

/// This many cases, unless `PROPTEST_CASES` asks for others (`make test-long`).
fn cases(usual: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_some() {
        config
    } else {
        ProptestConfig { cases: usual, ..config }
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn arbitrary_text_never_panics(kind in kind(), text in ".{0,200}") {
        check(kind, &text);
    }

    #[test]
    fn a_preset_with_a_changed_value_never_panics(
        kind in kind(),
        which in any::<prop::sample::Index>(),
        line in any::<prop::sample::Index>(),
        value in value(),
    ) {
        let presets = presets(kind);
        let text = which.get(&presets).text;
        let lines: Vec<&str> = text.lines().collect();
        let at = line.index(lines.len());
        let changed: Vec<String> = lines.iter().enumerate().map(|(index, line)| {
            match line.split_once('=') {
                Some((key, _)) if index == at && !key.trim_start().starts_with('#') => format!("{key}= {value}"),
                _ => (*line).to_owned(),
            }
        }).collect();
        check(kind, &changed.join("\n"));
    }

    #[test]
    fn a_preset_with_a_changed_byte_never_panics(
        kind in kind(),
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<char>(),
    ) {
        let presets = presets(kind);
        let mut text: Vec<char> = which.get(&presets).text.chars().collect();
        let at = at.index(text.len());
        text[at] = byte;
        check(kind, &text.into_iter().collect::<String>());
    }

    #[test]
    fn steps_never_panic(which in 0..STEPS.len(), at in any::<prop::sample::Index>(), value in value(), text in ".{0,40}") {
        let example = STEPS[which].example;
        let key = example.split(' ').nth(1).and_then(|word| word.split_once('=')).map_or("step", |(key, _)| key);
        let cut = at.index(example.len());
        for step in [text.clone(), format!("{} {key}={value}", STEPS[which].name), format!("{}{text}", &example[..cut])] {
            if let Err(problems) = read_step(&step) {
                prop_assert!(problems.0.iter().all(|problem| !problem.to_string().contains('\n')), "{problems}");
            }
        }
    }

    #[test]
    fn overrides_never_panic(key in "[a-z_.\" =]{0,24}", value in ".{0,24}") {
        let _ = load_device("ideal-page", &[format!("{key}={value}")]);
    }
}
