//! The floors of the house: who may import whom, read from the sources themselves.
//!
//! A room is a file or a folder of `src`. An arrow that is not in [`ROOMS`] fails here, and so does a circle of more than
//! [`LARGEST_CIRCLE`] files. A new room, or a new arrow, is a decision: it is made by changing the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Files that import each other, at most: a trait and its helpers, never a system.
const LARGEST_CIRCLE: usize = 5;

/// Files of `src` without their tests, and functions, have at most so many lines.
const LONGEST_FILE: usize = 1000;
const LONGEST_FUNCTION: usize = 100;

/// The rooms from the ground up. A room may import those before it that it names.
const ROOMS: &[(&str, &[&str])] = &[
    ("error", &[]),
    ("interrupt", &[]),
    ("cause", &[]),
    ("time", &[]),
    ("table", &["interrupt"]),
    ("tape", &["table"]),
    ("rng", &["tape"]),
    ("quantity", &[]),
    ("scheme", &[]),
    ("geometry", &["tape"]),
    ("access", &["cause", "geometry"]),
    ("plane_order", &["geometry"]),
    ("recency", &["table"]),
    ("host/request", &["error", "geometry"]),
    ("flash/cell", &["scheme"]),
    ("flash/role", &["tape"]),
    ("flash/filled", &["tape", "geometry", "plane_order"]),
    ("flash/history", &["geometry", "flash/role"]),
    ("flash/contents", &["table", "tape", "geometry", "access", "flash/history"]),
    (
        "flash/nand",
        &[
            "error",
            "cause",
            "table",
            "tape",
            "geometry",
            "access",
            "flash/cell",
            "flash/role",
            "flash/filled",
            "flash/history",
            "flash/contents",
        ],
    ),
    ("metrics", &["cause", "time", "table", "tape", "geometry", "host/request"]),
    ("run", &["error", "interrupt", "metrics"]),
    ("mapcache", &["error", "table", "time", "quantity", "scheme", "geometry", "plane_order", "recency"]),
    ("buffer", &["error", "quantity", "table", "scheme", "geometry", "recency"]),
    ("nvm", &["quantity", "scheme", "buffer"]),
    ("ftl/gc", &["error", "table", "tape", "rng", "scheme", "geometry"]),
    ("ftl/hybrid", &["error", "quantity", "scheme", "geometry", "access", "recency", "metrics"]),
    ("ftl/kinds", &["ftl/hybrid"]),
    (
        "ftl/placement",
        &["error", "table", "tape", "quantity", "scheme", "geometry", "access", "plane_order", "flash/nand"],
    ),
    (
        "config",
        &[
            "error",
            "time",
            "quantity",
            "scheme",
            "geometry",
            "plane_order",
            "flash/cell",
            "mapcache",
            "ftl/gc",
            "ftl/kinds",
            "buffer",
            "nvm",
            "ftl/placement",
        ],
    ),
    (
        "flash",
        &[
            "error",
            "interrupt",
            "cause",
            "time",
            "tape",
            "geometry",
            "access",
            "flash/cell",
            "flash/role",
            "flash/filled",
            "flash/history",
            "flash/nand",
            "metrics",
            "config",
        ],
    ),
    ("ftl/page/capacity", &["error", "mapcache", "config"]),
    ("ftl/block_mapped/capacity", &["error", "scheme", "mapcache", "ftl/hybrid", "config"]),
    ("mapcache/translation", &["time", "geometry", "metrics", "mapcache", "config"]),
    (
        "mapcache/alone",
        &["error", "table", "geometry", "access", "metrics", "mapcache", "config", "mapcache/translation"],
    ),
    ("layer", &["error", "cause", "tape", "geometry", "access", "flash/nand", "metrics", "config", "flash"]),
    (
        "buffer/front",
        &[
            "error",
            "table",
            "cause",
            "time",
            "geometry",
            "access",
            "flash/nand",
            "metrics",
            "buffer",
            "config",
            "flash",
            "layer",
        ],
    ),
    (
        "nvm/cache",
        &[
            "error",
            "cause",
            "time",
            "geometry",
            "access",
            "flash/nand",
            "metrics",
            "buffer",
            "nvm",
            "config",
            "flash",
            "layer",
            "buffer/front",
        ],
    ),
    (
        "ftl",
        &[
            "error",
            "interrupt",
            "cause",
            "table",
            "tape",
            "rng",
            "geometry",
            "access",
            "plane_order",
            "flash/role",
            "flash/filled",
            "flash/nand",
            "metrics",
            "mapcache",
            "ftl/gc",
            "ftl/hybrid",
            "ftl/kinds",
            "ftl/placement",
            "config",
            "flash",
            "ftl/page/capacity",
            "ftl/block_mapped/capacity",
            "mapcache/translation",
            "layer",
        ],
    ),
    ("verify", &["tape", "metrics"]),
    ("memory", &["geometry", "mapcache", "config", "ftl/kinds", "ftl/page/capacity", "mapcache/alone"]),
    (
        "summary_schema",
        &["metrics", "flash", "mapcache/translation", "buffer/front", "nvm/cache", "ftl/hybrid", "ftl"],
    ),
    (
        "schemes",
        &[
            "scheme",
            "flash/cell",
            "mapcache",
            "ftl/gc",
            "ftl/kinds",
            "buffer",
            "nvm",
            "ftl/placement",
            "config",
        ],
    ),
    (
        "validate",
        &[
            "error",
            "mapcache",
            "ftl/hybrid",
            "ftl/kinds",
            "config",
            "ftl/page/capacity",
            "ftl/block_mapped/capacity",
            "mapcache/alone",
        ],
    ),
    (
        "host",
        &[
            "error",
            "interrupt",
            "cause",
            "time",
            "tape",
            "rng",
            "geometry",
            "access",
            "host/request",
            "metrics",
            "run",
            "mapcache",
            "ftl/kinds",
            "config",
            "flash",
            "ftl/page/capacity",
            "mapcache/alone",
            "layer",
            "buffer/front",
            "nvm/cache",
            "ftl",
            "verify",
        ],
    ),
    (
        "device",
        &[
            "error",
            "interrupt",
            "time",
            "geometry",
            "host/request",
            "metrics",
            "run",
            "config",
            "flash",
            "layer",
            "ftl",
            "verify",
            "host",
        ],
    ),
    (
        "crash",
        &[
            "error",
            "interrupt",
            "cause",
            "time",
            "rng",
            "geometry",
            "access",
            "host/request",
            "flash/cell",
            "flash/history",
            "flash/nand",
            "metrics",
            "run",
            "config",
            "flash",
            "layer",
            "buffer/front",
            "nvm/cache",
            "ftl",
            "verify",
            "host",
        ],
    ),
];

/// The sources of a file without comments, and without what is there for tests only.
fn code(text: &str) -> String {
    let (mut code, mut in_test) = (String::new(), false);
    for line in text.lines() {
        in_test |= line == "#[cfg(test)]";
        if !in_test && !line.trim_start().starts_with("//") {
            code.extend([line, "\n"]);
        }
        in_test &= line != "}" && (line.starts_with(' ') || !line.ends_with(';'));
    }
    code
}

/// Every file below `folder`, by its module path.
fn modules(folder: &Path, path: &[String], found: &mut BTreeMap<Vec<String>, PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = entry.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut path = path.to_vec();
        if entry.is_dir() {
            path.push(name);
            modules(&entry, &path, found);
        } else if entry.extension().is_some_and(|extension| extension == "rs") && name != "lib" {
            // `gc/tests.rs` is a file of tests.
            if name == "tests" {
                continue;
            }
            if name != "mod" {
                path.push(name);
            }
            found.insert(path, entry);
        }
    }
}

/// The paths that a tree of `use` names: `a::{b, c::d}` is `a::b` and `a::c::d`.
fn leaves(tree: &str, prefix: &[String], found: &mut Vec<Vec<String>>) {
    let tree = tree.trim();
    let (head, rest) = match tree.find('{') {
        Some(at) => (&tree[..at], Some(&tree[at + 1..tree.rfind('}').unwrap_or(tree.len())])),
        None => (tree, None),
    };
    let mut path = prefix.to_vec();
    let name = |part: &str| part.split(" as ").next().unwrap_or_default().trim().to_owned();
    path.extend(head.split("::").map(name).filter(|part| !part.is_empty()));
    let Some(rest) = rest else { return found.push(path) };
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in rest.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                leaves(&rest[start..at], &path, found);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !rest[start..].trim().is_empty() {
        leaves(&rest[start..], &path, found);
    }
}

/// The paths that code names, from the root of the crate. `own` is its module path.
fn paths(code: &str, own: &[String], is_folder: bool) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        if code[..at].ends_with(|letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':') {
            continue;
        }
        let statement = code[..at].trim_end().ends_with("use");
        let end = if statement {
            code[at..].find(';').map_or(code.len(), |end| at + end)
        } else {
            let word = |letter: char| !(letter.is_alphanumeric() || letter == '_' || letter == ':');
            code[at..].find(word).map_or(code.len(), |end| at + end)
        };
        let mut tree = &code[at..end];
        // A file's `super` is its folder; that of a folder's own file the folder above.
        let mut from = if is_folder { own.to_vec() } else { own[..own.len() - 1].to_vec() };
        if let Some(rest) = tree.strip_prefix("crate::") {
            (tree, from) = (rest, Vec::new());
        } else {
            if is_folder {
                from.pop();
            }
            tree = &tree["super::".len()..];
            while let Some(rest) = tree.strip_prefix("super::") {
                from.pop();
                tree = rest;
            }
        }
        leaves(tree, &from, &mut found);
    }
    found
}

/// For each file, those that it imports.
fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = BTreeMap::new();
    modules(&root, &[], &mut files);
    let mut arrows = BTreeMap::new();
    for (own, file) in &files {
        let text = code(&fs::read_to_string(file).unwrap());
        let is_folder = file.file_stem().unwrap() == "mod";
        let mut named = paths(&text, own, is_folder);
        // A list of schemes names its files by themselves.
        for line in text.lines().filter_map(|line| line.trim().strip_suffix(';')) {
            let child = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            if let Some(child) = child.strip_prefix("mod ")
                && text.matches(&format!("{child}::")).count() > 0
            {
                named.push([own.clone(), vec![child.to_owned()]].concat());
            }
        }
        let target = |path: Vec<String>| {
            let known = (1..=path.len()).rev().find(|end| files.contains_key(&path[..*end]))?;
            (path[..known] != own[..]).then(|| path[..known].join("/"))
        };
        let targets: BTreeSet<String> = named.into_iter().filter_map(target).collect();
        arrows.insert(own.join("/"), targets);
    }
    arrows
}

/// The room of a file: the one with the longest name that is its path or a folder of it.
fn room(file: &str) -> &'static str {
    let is_in =
        |name: &&str| file.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let rooms = ROOMS.iter().map(|room| room.0).filter(is_in);
    rooms.max_by_key(|name| name.len()).unwrap_or_else(|| panic!("{file} is in no room of the table"))
}

#[test]
fn no_arrow_leads_up() {
    let mut wrong = Vec::new();
    for (file, targets) in imports() {
        let place = ROOMS.iter().position(|(name, _)| *name == room(&file)).unwrap();
        for target in targets.iter().filter(|target| room(target) != room(&file)) {
            let below = ROOMS[..place].iter().any(|(name, _)| *name == room(target));
            if !below || !ROOMS[place].1.contains(&room(target)) {
                wrong.push(format!("{file} imports {target}"));
            }
        }
    }
    assert!(wrong.is_empty(), "arrows that are not in the table:\n{}", wrong.join("\n"));
}

#[test]
fn every_arrow_of_the_table_is_there() {
    let mut there: BTreeSet<(String, String)> = BTreeSet::new();
    for (file, targets) in imports() {
        there.extend(targets.iter().map(|target| (room(&file).to_owned(), room(target).to_owned())));
    }
    for (name, below) in ROOMS {
        for target in *below {
            let arrow = ((*name).to_owned(), (*target).to_owned());
            assert!(
                there.contains(&arrow),
                "{name} does not import {target} any more: take it out of the table"
            );
        }
    }
}

/// Files from which `from` can be reached and that it reaches.
fn circle(arrows: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let reach = |start: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start.to_owned()]);
        while let Some(file) = open.pop() {
            for next in arrows.get(&file).into_iter().flatten() {
                if seen.insert(next.clone()) {
                    open.push(next.clone());
                }
            }
        }
        seen
    };
    let reached = reach(from);
    reached.iter().filter(|file| reach(file).contains(from)).cloned().collect()
}

#[test]
fn circles_are_small() {
    let arrows = imports();
    assert!(arrows.len() > 50, "the sources were found");
    let largest = arrows.keys().map(|file| circle(&arrows, file)).max_by_key(BTreeSet::len).unwrap();
    assert!(largest.len() <= LARGEST_CIRCLE, "these files import each other: {largest:?}");
}

#[test]
fn files_and_functions_are_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = BTreeMap::new();
    modules(&root, &[], &mut files);
    for file in files.values() {
        let text = fs::read_to_string(file).unwrap();
        let body = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
        let lines: Vec<&str> = body.lines().collect();
        assert!(lines.len() <= LONGEST_FILE, "{} has {} lines", file.display(), lines.len());
        for (start, line) in lines.iter().enumerate() {
            let indent = line.len() - line.trim_start().len();
            let words = line.trim_start().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            if !(words.starts_with("fn ")
                || words.starts_with("pub(super) fn ")
                || words.starts_with("const fn "))
            {
                continue;
            }
            // A method that a trait asks for has no body.
            let signature = lines[start..].iter().find(|line| line.ends_with(['{', ';', '}']));
            if signature.is_some_and(|line| line.ends_with(';')) {
                continue;
            }
            let end = lines[start..].iter().position(|line| *line == format!("{}}}", " ".repeat(indent)));
            let length = end.unwrap_or(0);
            assert!(length <= LONGEST_FUNCTION, "{}: {length} lines: {line}", file.display());
        }
    }
}
