//! Lists the presets of `devices/` and `workloads/` so that they are compiled in: an installed ftlab needs no data files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap()).join("../..").canonicalize().unwrap();
    let mut code = String::new();
    for (constant, folder) in [("DEVICES", "devices"), ("WORKLOADS", "workloads")] {
        let folder = root.join(folder);
        println!("cargo::rerun-if-changed={}", folder.display());
        writeln!(code, "pub(crate) const {constant}: &[(&str, &str)] = &[").unwrap();
        for file in toml_files(&folder) {
            let name = file.file_stem().unwrap().to_str().unwrap();
            writeln!(code, "    ({name:?}, include_str!({:?})),", file.display().to_string()).unwrap();
        }
        writeln!(code, "];").unwrap();
    }
    fs::write(Path::new(&env::var("OUT_DIR").unwrap()).join("presets.rs"), code).unwrap();
}

fn toml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "toml"));
    files.sort();
    files
}
