//! The smallest drive that still fails, and the fewest requests.

use ftlab_core::config::DeviceConfig;
use ftlab_core::host::request::Request;
use serde_json::{Value, json};

/// Change `config`, which fails with `text`, step by step into a smaller or plainer drive that `fails` too.
pub fn smallest(
    config: &DeviceConfig,
    text: &str,
    fails: impl Fn(&DeviceConfig) -> Option<String>,
) -> (DeviceConfig, String) {
    let (mut best, mut text) = (config.clone(), text.to_owned());
    'again: loop {
        for candidate in candidates(&best) {
            if let Some(found) = fails(&candidate) {
                (best, text) = (candidate, found);
                continue 'again;
            }
        }
        return (best, text);
    }
}

/// Leave out of `requests`, which fail with `text`, what they do without: halves first, single ones last.
pub fn fewest(
    requests: &[Request],
    mut text: String,
    fails: impl Fn(&[Request]) -> Option<String>,
) -> (Vec<Request>, String) {
    let mut best = requests.to_vec();
    let mut part = best.len().div_ceil(2);
    while part > 0 {
        let mut at = 0;
        while at < best.len() {
            let mut fewer = best.clone();
            fewer.drain(at..(at + part).min(best.len()));
            match fails(&fewer) {
                Some(found) => (best, text) = (fewer, found),
                None => at += part,
            }
        }
        part /= 2;
    }
    (best, text)
}

/// Drives that are a step smaller, or have one key less; only those that validation accepts.
fn candidates(config: &DeviceConfig) -> impl Iterator<Item = DeviceConfig> + use<> {
    let whole = serde_json::to_value(config).unwrap_or_default();
    let mut values = Vec::new();
    for key in ["channels", "ways", "dies", "planes", "blocks_per_plane", "pages_per_block"] {
        let number = whole["geometry"][key].as_u64().unwrap_or(1);
        for less in [number / 2, number - 1] {
            if (1..number).contains(&less) {
                let mut value = whole.clone();
                value["geometry"][key] = json!(less);
                // As full as before, in the drive that is left.
                let logical = value["ftl"]["logical_pages"].as_u64().unwrap_or(1);
                for share in [logical * less / number, logical * less / number * 9 / 10] {
                    value["ftl"]["logical_pages"] = json!(share.max(1));
                    values.push(value.clone());
                }
            }
        }
    }
    for section in ["ftl", "map_cache", "timing", "cell", "host", "precondition"] {
        let Some(keys) = whole[section].as_object() else { continue };
        for key in keys.keys() {
            if key != "logical_pages" {
                let mut value = whole.clone();
                value[section].as_object_mut().map(|object| object.remove(key));
                values.push(value);
            }
        }
    }
    values.into_iter().filter_map(move |value: Value| {
        let config: DeviceConfig = serde_json::from_value(value).ok()?;
        // A key that had its default stays as it was.
        let changed = serde_json::to_value(&config).ok()? != whole;
        (changed && config.validate().is_ok()).then_some(config)
    })
}

#[cfg(test)]
mod tests {
    use ftlab_core::host::request::Op;

    use super::*;

    #[test]
    fn requests_that_a_finding_does_without_are_left_out() {
        let request = |lba| Request { arrival_ns: 0, lba, sectors: 1, op: Op::Read, stream: 0, fua: false };
        let requests: Vec<Request> = (0..100).map(request).collect();
        let has = |requests: &[Request], lba| requests.iter().any(|request| request.lba == lba);
        let fails = |few: &[Request]| (has(few, 17) && has(few, 80)).then(|| few.len().to_string());
        let (few, text) = fewest(&requests, "100".into(), fails);
        assert_eq!((few, text.as_str()), (vec![request(17), request(80)], "2"));
    }
}
