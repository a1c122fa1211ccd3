//! No text makes loading panic, and every complaint has a place and a sentence.

use ftlab_config::{Document, Kind, load_device, presets, read_device};
use proptest::prelude::*;

fn check(text: &str) {
    let problems = match Document::parse(Kind::Device, text, "fuzz.toml") {
        Ok(document) => match read_device(&document) {
            Ok(_) => return,
            Err(problems) => problems,
        },
        Err(problems) => problems,
    };
    assert!(!problems.0.is_empty());
    for problem in &problems.0 {
        assert!(!problem.expected.is_empty() && !problem.to_string().contains('\n'), "{problem}");
    }
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn arbitrary_text_never_panics(text in ".{0,200}") {
        check(&text);
    }

    #[test]
    fn a_preset_with_a_changed_value_never_panics(
        which in any::<prop::sample::Index>(),
        line in any::<prop::sample::Index>(),
        value in value(),
    ) {
        let presets = presets(Kind::Device);
        let text = which.get(&presets).text;
        let lines: Vec<&str> = text.lines().collect();
        let at = line.index(lines.len());
        let changed: Vec<String> = lines.iter().enumerate().map(|(index, line)| {
            match line.split_once('=') {
                Some((key, _)) if index == at && !key.trim_start().starts_with('#') => format!("{key}= {value}"),
                _ => (*line).to_owned(),
            }
        }).collect();
        check(&changed.join("\n"));
    }

    #[test]
    fn a_preset_with_a_changed_byte_never_panics(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<char>(),
    ) {
        let presets = presets(Kind::Device);
        let mut text: Vec<char> = which.get(&presets).text.chars().collect();
        let at = at.index(text.len());
        text[at] = byte;
        check(&text.into_iter().collect::<String>());
    }

    #[test]
    fn overrides_never_panic(key in "[a-z_.\" =]{0,24}", value in ".{0,24}") {
        let _ = load_device("ideal-page", &[format!("{key}={value}")]);
    }
}
