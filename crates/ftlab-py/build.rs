//! Names the engine by its sources, so that stored results are never taken for those of another engine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What decides what a run measures: the model, the generators and readers, and the libraries that they use.
const SOURCES: [&str; 5] = [
    "../ftlab-core/src",
    "../ftlab-stats/src",
    "../ftlab-trace/src",
    "../ftlab-workload/src",
    "../../Cargo.lock",
];

fn collect(path: PathBuf, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(&path)? {
            collect(entry?.path(), files)?;
        }
    } else if path.exists() {
        files.push(path);
    }
    Ok(())
}

/// FNV-1a of 128 bits: nobody attacks the name of an engine, and a build needs no library for it.
fn fold(hash: u128, bytes: &[u8]) -> u128 {
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(hash, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

fn main() -> io::Result<()> {
    let mut files = Vec::new();
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
        collect(Path::new(source).to_owned(), &mut files)?;
    }
    files.sort();
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for file in files {
        let name = file.to_string_lossy().replace('\\', "/");
        let text = fs::read(&file)?;
        hash = fold(hash, name.as_bytes());
        hash = fold(hash, &(text.len() as u64).to_le_bytes());
        hash = fold(hash, &text);
    }
    println!("cargo:rustc-env=FTLAB_ENGINE={hash:032x}");
    Ok(())
}
