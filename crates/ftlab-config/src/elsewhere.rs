//! Keys that were written at the wrong place: where they belong.

use std::sync::LazyLock;

use ftlab_core::config::DeviceConfig;
use ftlab_workload::WorkloadFile;
use serde_json::Value;

use crate::presets::Kind;
use crate::schema::schema;

/// Sections of studies that neither devices nor workloads have.
const OF_STUDIES: &[&str] = &["axes", "repetitions", "seeds", "set", "study", "volumes", "where", "zip"];

/// Keys of the same name that are worth naming: more say nothing.
const MOST: usize = 3;

/// What files of a kind may say: sections, and dotted keys.
struct Names {
    sections: Vec<String>,
    keys: Vec<String>,
}

static OF_DEVICES: LazyLock<Names> = LazyLock::new(|| names(&schema::<DeviceConfig>("")));
static OF_WORKLOADS: LazyLock<Names> = LazyLock::new(|| names(&schema::<WorkloadFile>("")));

fn names(schema: &Value) -> Names {
    let mut names = Names { sections: Vec::new(), keys: Vec::new() };
    for (section, about) in schema["properties"].as_object().into_iter().flatten() {
        // What a file says of itself is nobody's to set.
        if ["calibration", "extends", "stand_in"].contains(&section.as_str()) {
            continue;
        }
        let about = resolved(schema, about);
        let keys = about["properties"].as_object().into_iter().flatten();
        names.keys.extend(keys.map(|(key, _)| format!("{section}.{key}")));
        names.sections.push(section.clone());
    }
    names
}

/// What a schema refers to.
fn resolved<'a>(schema: &'a Value, about: &'a Value) -> &'a Value {
    let referred = ["allOf", "anyOf"].iter().find_map(|way| about[*way].get(0)).unwrap_or(about);
    let name = referred["$ref"].as_str().and_then(|name| name.rsplit('/').next());
    name.map_or(referred, |name| &schema["$defs"][name])
}

/// Where a key could stand that a section of a file does not have; the section is empty for the file itself.
pub(crate) fn elsewhere(section: &str, key: &str) -> Option<String> {
    let kinds = [(Kind::Device, &*OF_DEVICES), (Kind::Workload, &*OF_WORKLOADS)];
    let places = kinds.map(|(kind, names)| {
        let same = |name: &&str| name.rsplit('.').next() == Some(key);
        let same: Vec<&str> = names.keys.iter().map(String::as_str).filter(same).collect();
        (1..=MOST).contains(&same.len()).then(|| format!("a {} has it as {}", kind.noun(), same.join(" or ")))
    });
    let places: Vec<String> = places.into_iter().flatten().collect();
    if !places.is_empty() {
        return Some(places.join(", and "));
    }
    if !section.is_empty() {
        return None;
    }
    let owner = kinds.into_iter().find(|(_, names)| names.sections.iter().any(|name| name == key));
    if let Some((kind, _)) = owner {
        return Some(format!("a {} has it", kind.noun()));
    }
    OF_STUDIES.contains(&key).then(|| "a study has it, which `ftlab study run` takes".into())
}
