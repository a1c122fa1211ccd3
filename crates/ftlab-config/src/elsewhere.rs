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
        // What stand-ins say of themselves is nobody's to set.
        if section == "calibration" || section == "stand_in" {
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

/// Where else a key could stand that a section of a file does not have; the section is empty for the file itself.
pub(crate) fn elsewhere(section: &str, key: &str) -> Option<String> {
    let is_of_workload = section == "workload" || section.starts_with("workload.");
    let (own, other, others) = if is_of_workload {
        (&*OF_WORKLOADS, &*OF_DEVICES, Kind::Device)
    } else {
        (&*OF_DEVICES, &*OF_WORKLOADS, Kind::Workload)
    };
    let same = |names: &Names| -> Vec<String> {
        let same = |name: &&String| name.rsplit('.').next() == Some(key);
        names.keys.iter().filter(same).cloned().collect()
    };
    let here = same(own);
    if (1..=MOST).contains(&here.len()) {
        return Some(format!("here it is {}", here.join(" or ")));
    }
    let there = same(other);
    if here.is_empty() && (1..=MOST).contains(&there.len()) {
        return Some(format!("in the file of a {} it is {}", others.noun(), there.join(" or ")));
    }
    if !section.is_empty() {
        return None;
    }
    if other.sections.iter().any(|name| name == key) {
        return Some(format!("the file of a {} has it", others.noun()));
    }
    OF_STUDIES.contains(&key).then(|| "a study has it, which `ftlab study run` takes".into())
}
