//! Keys and the schemes that they belong to.
//!
//! A layer that chooses another scheme drops the keys of the one below. A key that the chosen scheme does not have is
//! refused. The lists of the core say which is which.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use ftlab_core::config::{DeviceConfig, KEYS_OF_MAPPING_CACHE, Model, serves_page_mapping, takes};
use ftlab_core::ftl::kinds::FtlKind;
use ftlab_core::scheme::AxisInfo;
use ftlab_core::schemes::axes;
use serde_json::Value as Json;

use crate::node::{Entry, Node, Table, Value, merge};
use crate::problem::{Problem, nearest, one_of, unknown_key};
use crate::workload_kinds;

/// The keys of each section whose keys depend on schemes.
static KEYS: LazyLock<BTreeMap<&'static str, Vec<String>>> = LazyLock::new(|| {
    let schema = schemars::schema_for!(DeviceConfig).to_value();
    let keys = |section: &str| -> Vec<String> {
        let name = schema.pointer(&format!("/properties/{section}/$ref")).and_then(Json::as_str);
        let properties = name.and_then(|name| schema.pointer(&format!("{}/properties", &name[1..])));
        properties.and_then(Json::as_object).into_iter().flatten().map(|(key, _)| key.clone()).collect()
    };
    let sections = axes().iter().map(|axis| axis.section).filter(|section| !section.is_empty());
    sections.map(|section| (section, keys(section))).collect()
});

/// Keys with a value that moved elsewhere: section, key, value, and what says it now.
const MOVED: &[(&str, &str, &str, &str)] = &[("ftl", "kind", "map_only", "model = \"mapping_cache\"")];

/// Whether `key` of `section` chooses a scheme.
pub(crate) fn is_choice(section: &str, key: &str) -> bool {
    axes().iter().any(|axis| axis.section == section && axis.key == key)
}

/// Lay the layer `over` on top of `base`. What the schemes that it chooses do not have is dropped from `base`.
pub(crate) fn lay_over(base: &mut Table, mut over: Table) {
    workload_kinds::drop_keys(base, &over);
    for axis in axes() {
        let Some(section) = section_mut(&mut over, axis) else { continue };
        spread(section, axis);
        let chosen = text_of(section, axis.key).and_then(|name| axis.scheme(name));
        let (Some(chosen), Some(below)) = (chosen, section_mut(base, axis)) else { continue };
        below.retain(|key, _| !axis.is_key(key) || chosen.has(key));
    }
    if text_of(&over, "model") == Some(Model::MappingCache.name()) {
        for (section, _) in KEYS_OF_MAPPING_CACHE {
            if let Some(Entry { node: Node { value: Value::Table(keys), .. }, .. }) = base.get_mut(*section) {
                keys.retain(|key, _| takes(Model::MappingCache, section, key));
            }
        }
    }
    if is_block_mapped(&over)
        && let Some(Entry { node: Node { value: Value::Table(keys), .. }, .. }) = base.get_mut("ftl")
    {
        keys.retain(|key, _| !serves_page_mapping(key));
    }
    merge(base, over);
}

/// Whether `root` chooses a block-mapped translation layer.
fn is_block_mapped(root: &Table) -> bool {
    let Some(Entry { node: Node { value: Value::Table(keys), .. }, .. }) = root.get("ftl") else {
        return false;
    };
    text_of(keys, "kind").is_some_and(|kind| FtlKind::ALL.iter().skip(1).any(|layer| layer.name() == kind))
}

/// A scheme with its keys as one value, `gc = { kind = "d_choices", gc_choices = 4 }`, says what the keys beside it would.
fn spread(section: &mut Table, axis: &AxisInfo) {
    let Some(entry) = section.get_mut(axis.key) else { return };
    let Value::Table(keys) = &mut entry.node.value else { return };
    let name = keys.remove("kind").or_else(|| keys.remove(axis.key));
    let rest = std::mem::take(keys);
    match name {
        Some(name) => *entry = name,
        None => drop(section.remove(axis.key)),
    }
    merge(section, rest);
}

fn section_mut<'a>(root: &'a mut Table, axis: &AxisInfo) -> Option<&'a mut Table> {
    if axis.section.is_empty() {
        return Some(root);
    }
    match root.get_mut(axis.section)?.node {
        Node { value: Value::Table(ref mut keys), .. } => Some(keys),
        _ => None,
    }
}

fn text_of<'a>(section: &'a Table, key: &str) -> Option<&'a str> {
    match &section.get(key)?.node.value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

fn dotted(section: &str, key: &str) -> String {
    if section.is_empty() { key.to_owned() } else { format!("{section}.{key}") }
}

/// Take `key` out of a section, with what is wrong with it.
fn refuse(section: &mut Table, name: &str, key: &str, expected: String) -> Option<Problem> {
    let entry = section.remove(key)?;
    Some(Problem {
        origin: Some(entry.origin),
        key: dotted(name, key),
        found: entry.node.text(),
        expected,
        nearest: None,
    })
}

/// What a device says that its schemes do not have. All of it is taken out of `root`.
pub(crate) fn check(root: &mut Table) -> Vec<Problem> {
    let mut problems = moved(root);
    let model = axes().iter().find(|axis| axis.key == "model").expect("what is modelled is an axis");
    let model = match choose(root, model, &mut problems) {
        Some("mapping_cache") => Model::MappingCache,
        _ => Model::Drive,
    };
    for (name, _) in KEYS_OF_MAPPING_CACHE {
        let Some(Entry { node: Node { value: Value::Table(section), .. }, .. }) = root.get_mut(*name) else {
            continue;
        };
        let idle: Vec<String> = section.keys().filter(|key| !takes(model, name, key)).cloned().collect();
        for key in idle {
            let expected = format!("has no effect with model = {:?}", model.name());
            problems.extend(refuse(section, name, &key, expected));
        }
    }
    if is_block_mapped(root)
        && let Some(Entry { node: Node { value: Value::Table(section), .. }, .. }) = root.get_mut("ftl")
    {
        let kind = text_of(section, "kind").unwrap_or_default().to_owned();
        let idle: Vec<String> = section.keys().filter(|key| serves_page_mapping(key)).cloned().collect();
        for key in idle {
            let expected = format!("has no effect with ftl.kind = {kind:?}: it is about page mapping");
            problems.extend(refuse(section, "ftl", &key, expected));
        }
    }
    for axis in axes().iter().filter(|axis| !axis.section.is_empty()) {
        let Some(section) = section_mut(root, axis) else { continue };
        let chosen = choose(section, axis, &mut problems);
        let scheme = chosen.and_then(|name| axis.scheme(name));
        let others: Vec<String> = section.keys().filter(|key| axis.is_key(key)).cloned().collect();
        for key in others {
            match (chosen, scheme) {
                (Some(chosen), Some(scheme)) if !scheme.has(&key) => {
                    let expected = axis.refusal(&key, chosen);
                    problems.extend(refuse(section, axis.section, &key, expected));
                }
                (None, _) => drop(section.remove(&key)),
                _ => {}
            }
        }
    }
    unknown(root, &mut problems);
    problems
}

/// The scheme that a section chooses; `None` when there is no such scheme, which is said then.
fn choose<'a>(section: &mut Table, axis: &'a AxisInfo, problems: &mut Vec<Problem>) -> Option<&'a str> {
    let names: Vec<&str> = axis.schemes.iter().map(|scheme| scheme.name).collect();
    if !section.contains_key(axis.key) {
        return names.first().copied();
    }
    let text = text_of(section, axis.key).unwrap_or_default().to_owned();
    if let Some(name) = names.iter().find(|name| **name == text) {
        return Some(name);
    }
    let expected = format!("expected {}", one_of(&names));
    problems.extend(refuse(section, axis.section, axis.key, expected).map(|problem| Problem {
        nearest: nearest(&text, names.iter().copied()).map(Into::into),
        ..problem
    }));
    None
}

/// What is said elsewhere now. What else the new words would change is left for when they stand there.
fn moved(root: &mut Table) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, key, value, now) in MOVED {
        if let Some(Entry { node: Node { value: Value::Table(section), .. }, .. }) = root.get_mut(*name)
            && text_of(section, key) == Some(value)
        {
            problems.extend(refuse(section, name, key, format!("is {now} now")));
        }
    }
    problems
}

/// Keys that nothing is called. Other sections need no such look: serde has their keys.
fn unknown(root: &mut Table, problems: &mut Vec<Problem>) {
    for (name, keys) in KEYS.iter() {
        let Some(Entry { node: Node { value: Value::Table(section), .. }, .. }) = root.get_mut(*name) else {
            continue;
        };
        let strange: Vec<String> = section.keys().filter(|key| !keys.contains(key)).cloned().collect();
        for key in strange {
            let names: Vec<&str> = keys.iter().map(String::as_str).collect();
            let (expected, near) = unknown_key(name, &key, &names);
            let problem = refuse(section, name, &key, expected);
            problems.extend(problem.map(|problem| Problem {
                found: String::new(),
                nearest: near,
                ..problem
            }));
        }
    }
}
