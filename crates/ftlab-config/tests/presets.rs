//! Every preset loads, validates, and says where each of its values comes from.

use ftlab_config::{Document, Kind, load_device, presets, read_device, to_toml};

#[test]
fn every_device_preset_is_valid() {
    for preset in presets(Kind::Device) {
        let (_, config) = load_device(preset.name, &[]).unwrap_or_else(|problems| panic!("{problems}"));
        assert_eq!(config.name, preset.name);
        assert!(config.description.len() > 20, "{}: says too little", preset.name);
        assert!(!preset.text.contains("\nname ="), "{}: presets are called after their file", preset.name);
    }
}

#[test]
fn the_promised_presets_are_there() {
    let names: Vec<&str> = presets(Kind::Device).iter().map(|preset| preset.name).collect();
    for promised in [
        "ideal-page",
        "msr-ssd",
        "msr-ssd-40g",
        "mqsim",
        "nvmevirt-970pro",
        "femu-bb",
        "map-cache-chip",
        "flexonenand",
        "white-box-64g",
        "cave-8x4",
        "tlc-256g",
    ] {
        assert!(names.contains(&promised), "{promised}");
    }
}

#[test]
fn every_value_of_a_device_preset_names_its_source() {
    for preset in presets(Kind::Device) {
        for (number, line) in preset.text.lines().enumerate() {
            let is_value = line.contains('=') && !line.trim_start().starts_with('#');
            if !is_value || line.starts_with("description") || line.starts_with("extends") {
                continue;
            }
            let comment = line.split_once('#').map_or("", |(_, comment)| comment.trim());
            let tagged = ["[P]", "[C]", "[D]", "[A]"].iter().any(|tag| comment.starts_with(tag));
            assert!(tagged && comment.len() > 6, "devices/{}.toml:{}: {line}", preset.name, number + 1);
        }
    }
}

#[test]
fn a_resolved_device_reads_back_as_itself() {
    for preset in presets(Kind::Device) {
        let (_, config) = load_device(preset.name, &[]).unwrap();
        let text = to_toml(&config).unwrap();
        let again = read_device(&Document::parse(Kind::Device, &text, "resolved").unwrap()).unwrap();
        assert_eq!(again, config, "{}", preset.name);
    }
}

#[test]
fn the_reference_drive_has_the_published_size() {
    let (_, config) = load_device("msr-ssd", &[]).unwrap();
    assert_eq!(config.logical_pages(), 8 * 8 * 1741 * 63);
    // As many parts of a hundred are spare in the larger one, and it holds what its traces touch.
    let (_, larger) = load_device("msr-ssd-40g", &[]).unwrap();
    assert_eq!(larger.logical_pages(), 8 * 8 * (2560 - 2560 * 15 / 100) * 63);
    assert!(larger.logical_pages() * 4096 > 31_200_000_000);
}
