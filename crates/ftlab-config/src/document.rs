//! Loading: a preset or a file, what it extends, and overrides on top.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ftlab_core::config::{ConfigError, ConfigNote, DeviceConfig};
use ftlab_trace::transform::Step as TransformStep;
use ftlab_workload::WorkloadFile;
use ftlab_workload::stand_in::{Calibration, StandIn};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::de::{Error, Found, Kind as Wrong, NodeDeserializer, Step, at, dotted, path_of, table_at};
use crate::node::{self, Entry, Node, Origin, Table, Value, merge};
use crate::presets::{Kind, presets};
use crate::problem::{MISSING, Problem, Problems, nearest, one_of, unknown_key};
use crate::schemes;

/// Longest chain of `extends`; nobody needs it, and a limit beats a stack overflow.
const DEEPEST_EXTENDS: usize = 16;

/// Largest configuration file that is read: a trace given by mistake should not fill the memory.
const LARGEST_FILE_BYTES: u64 = 4 << 20;

/// A configuration before it is read into a type: values that know where they were written.
#[derive(Debug, Clone)]
pub struct Document {
    root: Table,
    name: Arc<str>,
    folder: Option<PathBuf>,
}

impl Document {
    /// Load a preset by name, or a file by path.
    ///
    /// Anything with a path separator or ending in `.toml` is a path. A top-level `extends = "..."` starts from
    /// that preset or file (relative to the one that says so) and is merged key by key.
    ///
    /// # Errors
    /// When there is no such preset or file, it is no TOML, or what it extends cannot be loaded.
    pub fn load(kind: Kind, source: &str) -> Result<Self, Problems> {
        load(kind, source, None, &mut Vec::new())
    }

    /// Parse TOML text; `name` is what errors call it. Paths in `extends` are relative to the working directory.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(kind: Kind, text: &str, name: &str) -> Result<Self, Problems> {
        extend(kind, text, name, None, &mut Vec::new())
    }

    /// The preset's name or the file's path, as errors call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Folder of the file; `None` for presets and text.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Override values: `ftl.gc=fifo`. The value is TOML, or a bare string when it is no TOML.
    ///
    /// All of them are one layer, laid on top as a file that extends this one would be: a scheme that they choose drops the
    /// keys of the one below. A key that says the same in another way (`ftl.logical_pages` for `ftl.over_provisioning`)
    /// replaces it. With each goes what is put before its key without showing in errors: `"workload"` for `seed=3` of a
    /// workload file.
    ///
    /// # Errors
    /// When a text is no assignment.
    pub fn set<'a>(
        &mut self,
        assignments: impl IntoIterator<Item = (&'a str, Option<&'a str>)>,
    ) -> Result<(), Problems> {
        let mut layer = Table::new();
        for (assignment, within) in assignments {
            merge(&mut layer, assigned(assignment, within)?);
        }
        schemes::lay_over(&mut self.root, layer);
        Ok(())
    }

    /// Merge a JSON object on top, as a file that extends this one would be; `label` is its place in errors.
    ///
    /// # Errors
    /// When `json` is no object.
    pub fn merge_json(&mut self, label: &str, json: &serde_json::Value) -> Result<(), Problems> {
        self.merge_layer([(label, json)])
    }

    /// Merge several JSON objects on top as one layer, each with its place in errors.
    ///
    /// # Errors
    /// When one is no object.
    pub fn merge_layer<'a>(
        &mut self,
        parts: impl IntoIterator<Item = (&'a str, &'a serde_json::Value)>,
    ) -> Result<(), Problems> {
        let mut layer = Table::new();
        for (label, json) in parts {
            let origin = Origin::Override(label.into());
            match node::from_json(json, &origin) {
                Some(Node { value: Value::Table(table), .. }) => merge(&mut layer, table),
                _ => return Err(Problem::at(origin, "expected a table of keys and values").into()),
            }
        }
        schemes::lay_over(&mut self.root, layer);
        Ok(())
    }

    /// Where a dotted key was written; `None` when it was left at its default.
    pub fn locate(&self, key: &str) -> Option<&Origin> {
        at(&self.root, &path_of(key)).map(|found| &found.node.origin)
    }

    /// The text at a dotted key, when it is a string.
    pub fn string_at(&self, key: &str) -> Option<&str> {
        match &at(&self.root, &path_of(key))?.node.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Read into a configuration type.
    ///
    /// # Errors
    /// Every unknown key, unknown name and wrong type that can be told apart, in the order of the file.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Problems> {
        self.read_rest(self.root.clone(), Vec::new())
    }

    /// Read what is left of the tree, when some of it is wrong already.
    fn read_rest<T: DeserializeOwned>(
        &self,
        mut root: Table,
        mut problems: Vec<Problem>,
    ) -> Result<T, Problems> {
        let mut given_up = BTreeSet::new();
        loop {
            let error = match attempt::<T>(&root) {
                Ok(value) if problems.is_empty() => return Ok(value),
                Ok(_) => break,
                Err(error) => with_names::<T>(&root, blame::<T>(&root, error)),
            };
            let followup = is_consequence(&root, &error, &given_up);
            if !followup {
                problems.push(self.describe(&root, &error));
            }
            if !mend(&mut root, &error, &mut given_up) {
                break;
            }
        }
        // A misspelt key is missing as well, but that is one mistake.
        let meant: BTreeSet<String> = problems.iter().filter_map(Problem::meant_key).collect();
        problems.retain(|problem| !(problem.is_missing() && meant.contains(&problem.key)));
        problems.sort_by(|a, b| (&a.origin, &a.key).cmp(&(&b.origin, &b.key)));
        Err(Problems(problems))
    }

    /// Put the place of a validation error to it.
    pub fn explain(&self, error: &ConfigError) -> Problem {
        Problem {
            origin: self.locate(&error.key).cloned(),
            key: error.key.clone(),
            found: error.found.clone(),
            expected: error.expected.clone(),
            nearest: None,
        }
    }

    /// What was written to no effect, each with its place; what a preset says of itself is left out.
    pub fn notes(&self, config: &DeviceConfig) -> Vec<Problem> {
        let of_preset = |origin: &Origin| matches!(origin, Origin::File { name, .. } if presets(Kind::Device).iter().any(|preset| *preset.name == **name));
        let note = |note: ConfigNote| {
            let found = at(&self.root, &path_of(note.key))?;
            (!of_preset(&found.node.origin)).then(|| Problem {
                origin: Some(found.node.origin.clone()),
                key: note.key.into(),
                found: found.node.text(),
                expected: note.reason.into(),
                nearest: None,
            })
        };
        config.notes().into_iter().filter_map(note).collect()
    }

    fn describe(&self, root: &Table, error: &Error) -> Problem {
        let here = at(root, &error.path);
        let mut problem = Problem {
            origin: Some(
                here.as_ref()
                    .map_or_else(|| Origin::Whole(self.name.clone()), |found| found.node.origin.clone()),
            ),
            key: dotted(&error.path),
            found: here.as_ref().map(|found| found.node.text()).unwrap_or_default(),
            expected: String::new(),
            nearest: None,
        };
        match &error.kind {
            Wrong::UnknownKey { key, valid } => {
                let mut path = error.path.clone();
                path.insert(0, Step::Key(key.clone()));
                problem.key = dotted(&path);
                problem.found.clear();
                if let Some(found) = at(root, &path) {
                    problem.origin = Some(found.origin.clone());
                }
                (problem.expected, problem.nearest) = unknown_key(&dotted(&error.path), key, valid);
            }
            Wrong::UnknownVariant { valid } => {
                problem.expected = format!("expected {}", one_of(valid));
                if let Some(Found { node: Node { value: Value::String(text), .. }, .. }) = here {
                    problem.nearest = nearest(text, valid.iter().copied()).map(Into::into);
                }
            }
            Wrong::Missing(name) => {
                let mut path = error.path.clone();
                path.insert(0, Step::Key((*name).into()));
                problem.key = dotted(&path);
                problem.found.clear();
                problem.expected = MISSING.into();
            }
            Wrong::Expected(text) => problem.expected = format!("expected {text}"),
            Wrong::Custom(text) => problem.expected.clone_from(text),
        }
        problem
    }
}

/// The tree of one override.
fn assigned(assignment: &str, within: Option<&str>) -> Result<Table, Problems> {
    let origin = Origin::Override(format!("--set {assignment}").into());
    let (key, value) = assignment
        .split_once('=')
        .ok_or_else(|| Problem::at(origin.clone(), "expected KEY=VALUE, such as ftl.gc=fifo"))?;
    let keys = toml_edit::Key::parse(key.trim()).map_err(|_| {
        Problem::at(origin.clone(), format!("{:?} is no dotted key such as ftl.gc", key.trim()))
    })?;
    let mut node = Node { origin: origin.clone(), value: parse_value(value.trim(), &origin)? };
    let path: Vec<&str> = within.into_iter().chain(keys.iter().map(toml_edit::Key::get)).collect();
    for key in path.into_iter().rev() {
        let table = Table::from([(key.to_owned(), Entry { origin: origin.clone(), node })]);
        node = Node { origin: origin.clone(), value: Value::Table(table) };
    }
    match node.value {
        Value::Table(table) => Ok(table),
        _ => unreachable!("a dotted key has a part"),
    }
}

fn parse_value(text: &str, origin: &Origin) -> Result<Value, Problems> {
    let parsed = node::parse(&format!("value = {text}"), "--set");
    match parsed {
        Ok(mut table) if table.len() == 1 && !text.contains('\n') => {
            let mut node =
                table.remove("value").map_or_else(|| unreachable!("the text starts with it"), |e| e.node);
            relocate(&mut node, origin);
            Ok(node.value)
        }
        // Quotes and brackets announce TOML: passing such text on as a string would hide a typing mistake.
        Err(problem) if text.starts_with(['"', '\'', '[', '{']) => {
            Err(Problem::at(origin.clone(), problem.expected).into())
        }
        _ => Ok(Value::String(text.to_owned())),
    }
}

fn relocate(node: &mut Node, origin: &Origin) {
    node.origin = origin.clone();
    match &mut node.value {
        Value::Array(items) => items.iter_mut().for_each(|item| relocate(item, origin)),
        Value::Table(table) => {
            for entry in table.values_mut() {
                entry.origin = origin.clone();
                relocate(&mut entry.node, origin);
            }
        }
        _ => {}
    }
}

fn attempt<T: DeserializeOwned>(root: &Table) -> Result<T, Error> {
    T::deserialize(NodeDeserializer(&Value::Table(root.clone())))
}

/// serde loses the path inside a tagged table: the child without which the error changes is the one at fault.
fn blame<T: DeserializeOwned>(root: &Table, error: Error) -> Error {
    if matches!(error.kind, Wrong::UnknownKey { .. } | Wrong::Missing(_)) {
        return error;
    }
    let mut without = root.clone();
    let Some(table) = table_at(&mut without, &error.path) else { return error };
    for (key, entry) in table.clone() {
        if is_tag::<T>(root, &error.path, &key) || chooses(&error.path, &key) {
            continue;
        }
        table_at(&mut without, &error.path).expect("it was there").remove(&key);
        let changed = match attempt::<T>(&without) {
            Ok(_) => true,
            Err(other) => other != error,
        };
        table_at(&mut without, &error.path).expect("it was there").insert(key.clone(), entry);
        if changed {
            let mut path = error.path.clone();
            path.insert(0, Step::Key(key));
            return in_array::<T>(root, &error, path);
        }
    }
    error
}

/// serde loses the names that a value may have where it reads a table piece by piece: it tells them of a wrong name.
fn with_names<T: DeserializeOwned>(root: &Table, error: Error) -> Error {
    let [Step::Key(key), parent @ ..] = &error.path[..] else { return error };
    if error.kind != Wrong::Expected("string or map".into()) {
        return error;
    }
    let mut named = root.clone();
    if let Some(entry) = table_at(&mut named, parent).and_then(|table| table.get_mut(key)) {
        entry.node.value = Value::String(String::new());
    }
    match attempt::<T>(&named) {
        Err(Error { kind: kind @ Wrong::UnknownVariant { .. }, .. }) => Error { kind, ..error },
        _ => error,
    }
}

/// The element at fault of the value at `path`, when it is an array.
fn in_array<T: DeserializeOwned>(root: &Table, error: &Error, path: Vec<Step>) -> Error {
    let items = match at(root, &path).map(|found| &found.node.value) {
        Some(Value::Array(items)) => items.len(),
        _ => 0,
    };
    for index in 0..items {
        let mut without = root.clone();
        let (last, parent) = path.split_first().expect("a key was found");
        let Step::Key(key) = last else { break };
        let entry = table_at(&mut without, parent).and_then(|table| table.get_mut(key));
        if let Some(Entry { node: Node { value: Value::Array(items), .. }, .. }) = entry {
            items.remove(index);
        }
        if attempt::<T>(&without).map_or_else(|other| other != *error, |_| true) {
            let path = std::iter::once(Step::Index(index)).chain(path).collect();
            return Error { path, kind: error.kind.clone() };
        }
    }
    Error { path, kind: error.kind.clone() }
}

/// Whether a key chooses the scheme whose keys stand beside it.
fn chooses(path: &[Step], key: &str) -> bool {
    matches!(path, [Step::Key(section)] if schemes::is_choice(section, key))
}

/// Whether a key says which kind of table this is: without it, everything else there is in question.
fn is_tag<T: DeserializeOwned>(root: &Table, path: &[Step], key: &str) -> bool {
    let mut without = root.clone();
    let Some(entry) = table_at(&mut without, path).and_then(|table| table.get_mut(key)) else { return false };
    entry.node.value = Value::String(String::new());
    attempt::<T>(&without).is_err_and(|error| {
        let here =
            matches!(error.path.split_first(), Some((Step::Key(last), rest)) if last == key && rest == path);
        here && matches!(error.kind, Wrong::UnknownVariant { .. })
    })
}

/// Whether an error only says that a value reported before is not there.
fn is_consequence(root: &Table, error: &Error, given_up: &BTreeSet<String>) -> bool {
    match &error.kind {
        Wrong::Missing(name) => {
            let mut path = error.path.clone();
            path.insert(0, Step::Key((*name).into()));
            given_up.contains(&dotted(&path))
        }
        _ => at(root, &error.path).is_some_and(|found| found.node.value == Value::Placeholder),
    }
}

/// Take the value at fault out of the way of further reading. False when nothing more can be done.
fn mend(root: &mut Table, error: &Error, given_up: &mut BTreeSet<String>) -> bool {
    let mut path = error.path.clone();
    match &error.kind {
        Wrong::UnknownKey { key, .. } => {
            return table_at(root, &path).is_some_and(|t| t.remove(key).is_some());
        }
        Wrong::Missing(name) => path.insert(0, Step::Key((*name).into())),
        _ => {}
    }
    // The elements of an array are mended by giving up the array.
    if let Some(at) = path.iter().rposition(|step| matches!(step, Step::Index(_))) {
        path.drain(..=at);
    }
    let Some((Step::Key(key), parent)) = path.split_first() else { return false };
    let name = dotted(&path);
    if given_up.contains(&name) {
        return false;
    }
    let origin = at(root, &path).map_or_else(|| Origin::Whole("".into()), |found| found.node.origin.clone());
    let Some(table) = table_at(root, parent) else { return false };
    if table.get(key).is_some_and(|entry| entry.node.value == Value::Placeholder) {
        table.remove(key);
        given_up.insert(name);
    } else {
        let node = Node { origin: origin.clone(), value: Value::Placeholder };
        table.insert(key.clone(), Entry { origin, node });
    }
    true
}

fn is_path(source: &str) -> bool {
    source.contains(['/', '\\']) || Path::new(source).extension().is_some_and(|extension| extension == "toml")
}

fn load(
    kind: Kind,
    source: &str,
    folder: Option<&Path>,
    chain: &mut Vec<String>,
) -> Result<Document, Problems> {
    if !is_path(source)
        && let Some(preset) = presets(kind).into_iter().find(|preset| preset.name == source)
    {
        return extend(kind, preset.text, preset.name, None, chain);
    }
    let path = folder.map_or_else(|| PathBuf::from(source), |folder| folder.join(source));
    if !is_path(source) && !path.is_file() {
        let names: Vec<&str> = presets(kind).iter().map(|preset| preset.name).collect();
        let mut problem = Problem::at(
            Origin::Whole(if source.is_empty() { "''".into() } else { source.into() }),
            format!("no {} preset and no file of this name; presets: {}", kind.noun(), names.join(", ")),
        );
        problem.nearest = nearest(source, names).map(Into::into);
        return Err(problem.into());
    }
    let name = path.display().to_string();
    let text =
        read_text(&path).map_err(|message| Problem::at(Origin::Whole(name.as_str().into()), message))?;
    extend(kind, &text, &name, path.parent(), chain)
}

fn read_text(path: &Path) -> Result<String, String> {
    let cannot = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => "no such file".to_owned(),
        _ => format!("cannot read: {error}"),
    };
    let about = fs::metadata(path).map_err(cannot)?;
    if about.is_dir() {
        return Err("is a directory, expected a TOML file".into());
    }
    if about.len() > LARGEST_FILE_BYTES {
        return Err(format!("has {} bytes: too large for a configuration file", about.len()));
    }
    let bytes = fs::read(path).map_err(cannot)?;
    // The mark that programs of Windows begin files with would move the columns of the first line.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    str::from_utf8(bytes).map(Into::into).map_err(|_| "is not UTF-8 text, expected a TOML file".into())
}

fn extend(
    kind: Kind,
    text: &str,
    name: &str,
    folder: Option<&Path>,
    chain: &mut Vec<String>,
) -> Result<Document, Problems> {
    let mut root = node::parse(text, name).map_err(|problem| *problem)?;
    let extends = root.remove("extends");
    chain.push(folder.map_or_else(|| name.to_owned(), |_| canonical(name)));
    let base = match extends {
        None => Table::new(),
        Some(Entry { node: Node { value: Value::String(base), origin }, .. }) => {
            let refuse = |why: String| {
                Err(Problem {
                    origin: Some(origin.clone()),
                    key: "extends".into(),
                    found: format!("{base:?}"),
                    expected: why,
                    nearest: None,
                }
                .into())
            };
            let target = if is_path(&base) {
                canonical(
                    &folder.map_or_else(|| PathBuf::from(&base), |f| f.join(&base)).display().to_string(),
                )
            } else {
                base.clone()
            };
            if chain.contains(&target) {
                return refuse(format!("extends itself: {} -> {base}", chain.join(" -> ")));
            }
            if chain.len() >= DEEPEST_EXTENDS {
                return refuse(format!("more than {DEEPEST_EXTENDS} files extend each other"));
            }
            match load(kind, &base, folder, chain) {
                Ok(document) => document.root,
                Err(problems) if problems.0.iter().any(|p| matches!(p.origin, Some(Origin::Whole(_)))) => {
                    return refuse(problems.to_string());
                }
                Err(problems) => return Err(problems),
            }
        }
        Some(Entry { node, .. }) => {
            return Err(Problem {
                found: node.text(),
                origin: Some(node.origin),
                key: "extends".into(),
                expected: "expected a preset's name or the path of a file".into(),
                nearest: None,
            }
            .into());
        }
    };
    let mut merged = base;
    schemes::lay_over(&mut merged, root);
    chain.pop();
    Ok(Document { root: merged, name: name.into(), folder: folder.map(Into::into) })
}

fn canonical(path: &str) -> String {
    fs::canonicalize(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string())
}

/// Where every value of a TOML text was written, by dotted key; elements of arrays by number (`axes.ftl.gc.0`). `name` is
/// what errors call the text.
///
/// # Errors
/// When the text is no TOML.
pub fn places(text: &str, name: &str) -> Result<Vec<(String, Origin)>, Problems> {
    fn walk(key: String, origin: &Origin, node: &Node, places: &mut Vec<(String, Origin)>) {
        match &node.value {
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    walk(format!("{key}.{index}"), &item.origin, item, places);
                }
            }
            Value::Table(table) => {
                for (name, entry) in table {
                    walk(format!("{key}.{name}"), &entry.origin, &entry.node, places);
                }
            }
            _ => {}
        }
        places.push((key, origin.clone()));
    }
    let mut found = Vec::new();
    for (name, entry) in node::parse(text, name).map_err(|problem| *problem)? {
        walk(name, &entry.origin, &entry.node, &mut found);
    }
    Ok(found)
}

/// Load a device and lay `--set` overrides over it, in order.
///
/// # Errors
/// Every mistake in the file, or the first value that makes no sense.
pub fn load_device(source: &str, overrides: &[String]) -> Result<(Document, DeviceConfig), Problems> {
    let mut document = Document::load(Kind::Device, source)?;
    document.set(overrides.iter().map(|assignment| (assignment.as_str(), None)))?;
    let config = read_device(&document)?;
    Ok((document, config))
}

/// Read a device and validate it. A device without a name is called after its file.
///
/// # Errors
/// As [`load_device`].
pub fn read_device(document: &Document) -> Result<DeviceConfig, Problems> {
    let mut root = document.root.clone();
    let problems = schemes::check(&mut root);
    let mut config: DeviceConfig = document.read_rest(root, problems)?;
    config.validate().map_err(|error| document.explain(&error))?;
    name_after_file(&mut config.name, document);
    Ok(config)
}

/// Load a workload and lay overrides over it, in order. Keys may leave out the section: `requests=10`.
///
/// # Errors
/// Every mistake in the file, or the first value that makes no sense.
pub fn load_workload(source: &str, overrides: &[String]) -> Result<(Document, WorkloadFile), Problems> {
    let mut document = Document::load(Kind::Workload, source)?;
    document.set(overrides.iter().map(|assignment| (assignment.as_str(), within_workload(assignment))))?;
    let file = read_workload(&document)?;
    Ok((document, file))
}

/// What stands before the key of an override of a workload.
pub fn within_workload(assignment: &str) -> Option<&'static str> {
    if assignment.trim_start().starts_with("workload.") { None } else { Some("workload") }
}

/// Read a workload and validate what can be checked without a drive. One without a name is called after its file.
///
/// # Errors
/// As [`load_workload`].
pub fn read_workload(document: &Document) -> Result<WorkloadFile, Problems> {
    let mut file: WorkloadFile = document.read()?;
    file.workload.validate().map_err(|error| document.explain(&error))?;
    file.stand_in.as_ref().map_or(Ok(()), StandIn::validate).map_err(|error| document.explain(&error))?;
    let calibration = file.calibration.as_ref().map_or(Ok(()), Calibration::validate);
    calibration.map_err(|error| document.explain(&error))?;
    name_after_file(&mut file.name, document);
    Ok(file)
}

fn name_after_file(name: &mut String, document: &Document) {
    if name.is_empty() {
        let stem = Path::new(document.name()).file_stem();
        *name = stem.map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    }
}

/// A configuration as TOML text, defaults included, so that a result can be run again.
///
/// # Errors
/// When a value does not fit TOML (whole numbers above 2^63).
pub fn to_toml<T: Serialize>(config: &T) -> Result<String, Problems> {
    toml_edit::ser::to_string_pretty(config)
        .map_err(|error| Problem::at(Origin::Whole("configuration".into()), error.to_string()).into())
}

/// A step of a pipeline as it is written on a command line: its name and its keys, `scale_time factor=0.5`.
///
/// Values are TOML or bare words; several bare words with commas between them are a list.
///
/// # Errors
/// What is no step, with the text, the key and the nearest name.
pub fn read_step(text: &str) -> Result<TransformStep, Problems> {
    let origin = Origin::Override(format!("--transform {text:?}").into());
    let mut words = words(text).into_iter();
    let Some(name) = words.next() else {
        return Err(
            Problem::at(origin, "expected a step and its keys, such as \"scale_time factor=0.5\"").into()
        );
    };
    let mut table = Table::new();
    let mut insert = |key: &str, value: Value| {
        let node = Node { origin: origin.clone(), value };
        table.insert(key.to_owned(), Entry { origin: origin.clone(), node }).is_none()
    };
    insert("step", Value::String(name.to_owned()));
    for word in words {
        let assignment = word.split_once('=').filter(|(key, value)| !key.is_empty() && !value.is_empty());
        let Some((key, value)) = assignment else {
            return Err(Problem::at(origin, format!("found {word:?}, expected KEY=VALUE")).into());
        };
        let value = if value.contains(',') && !value.starts_with(['"', '\'', '[', '{']) {
            let item =
                |item: &str| Ok(Node { origin: origin.clone(), value: parse_value(item.trim(), &origin)? });
            Value::Array(value.split(',').map(item).collect::<Result<_, Problems>>()?)
        } else {
            parse_value(value, &origin)?
        };
        if !insert(key, value) {
            return Err(Problem::at(origin, format!("{key} is stated twice")).into());
        }
    }
    step_of(table, &origin)
}

/// A step of a pipeline from a JSON object; `label` is its place in errors.
///
/// # Errors
/// As [`read_step`].
pub fn step_from_json(label: &str, json: &serde_json::Value) -> Result<TransformStep, Problems> {
    let origin = Origin::Override(label.into());
    match node::from_json(json, &origin) {
        Some(Node { value: Value::Table(table), .. }) => step_of(table, &origin),
        _ => Err(Problem::at(origin, "expected a table of keys and values").into()),
    }
}

fn step_of(table: Table, origin: &Origin) -> Result<TransformStep, Problems> {
    let Origin::Override(label) = origin else { unreachable!("steps of commands come from no file") };
    let document = Document { root: table, name: label.clone(), folder: None };
    let located = |mut problems: Problems| {
        // Which keys there should be is unknown while the name of the step is.
        if problems.0.iter().any(|problem| problem.key == "step") {
            problems.0.retain(|problem| problem.key == "step");
        }
        problems.0.iter_mut().for_each(|problem| problem.origin = Some(origin.clone()));
        problems
    };
    let step: TransformStep = document.read().map_err(located)?;
    step.validate("").map_err(|error| located(document.explain(&error).into()))?;
    Ok(step)
}

/// The words of a text; blanks within quotes, brackets and braces do not separate.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut start, mut depth, mut quote) = (Vec::new(), None, 0_u32, None);
    for (at, letter) in text.char_indices() {
        match (quote, letter) {
            (Some(open), _) => quote = Some(open).filter(|open| *open != letter),
            (None, '"' | '\'') => quote = Some(letter),
            (None, '[' | '{') => depth += 1,
            (None, ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
        let blank = letter.is_whitespace() && quote.is_none() && depth == 0;
        match start {
            None if !blank => start = Some(at),
            Some(from) if blank => {
                words.push(&text[from..at]);
                start = None;
            }
            _ => {}
        }
    }
    words.extend(start.map(|from| &text[from..]));
    words
}
