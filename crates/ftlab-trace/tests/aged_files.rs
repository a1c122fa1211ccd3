//! Aged drives in a folder: what is read is what was written, or nothing is.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use ftlab_core::host::aged::{AgedStore, Found};
use ftlab_trace::aged_files::AgedFiles;

const LONG: Duration = Duration::from_secs(3600);

fn store(folder: &Path) -> AgedFiles {
    AgedFiles::new(folder.to_owned(), 1 << 20, "engine 1".into(), Duration::from_secs(1))
}

/// Bytes that cannot be compressed.
fn state(seed: u64, length: usize) -> Vec<u8> {
    let mut rng = ftlab_core::rng::Rng::new(seed, "state");
    (0..length).map(|_| rng.next_u64() as u8).collect()
}

fn keep(store: &AgedFiles, key: &str, state: &[u8]) {
    store.keep(key, LONG, &mut |out| out.write_all(state));
}

/// What is found, and the state if it is whole.
fn found(store: &AgedFiles, key: &str, length: usize) -> (Found, Vec<u8>) {
    let mut state = vec![0; length];
    let found = store.find(key, &mut |input| input.read_exact(&mut state));
    (found, state)
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn a_drive_is_found_by_its_whole_key() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder.path().join("new"));
    assert_eq!(found(&store, "a", 5000).0, Found::Nothing);
    let (one, two) = (state(1, 5000), state(2, 5000));
    keep(&store, "a", &one);
    keep(&store, "b", &two);
    assert_eq!(found(&store, "a", 5000), (Found::Whole, one.clone()));
    assert_eq!(found(&store, "b", 5000), (Found::Whole, two.clone()));
    keep(&store, "a", &two);
    assert_eq!(found(&store, "a", 5000), (Found::Whole, two));
    assert_eq!(files(&folder.path().join("new")).len(), 2);
    let folder = folder.path().join("new");
    let other = AgedFiles::new(folder, 1 << 20, "engine 2".into(), Duration::ZERO);
    assert_eq!(found(&other, "a", 5000).0, Found::Nothing);
    assert_eq!((store.take_trouble(), other.take_trouble()), (None, None));
}

#[test]
fn what_was_damaged_is_not_believed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let whole = state(1, 5000);
    keep(&store(folder.path()), "a", &whole);
    let path = files(folder.path()).remove(0);
    let bytes = fs::read(&path).unwrap();
    let mut damaged: Vec<Vec<u8>> =
        [0, 1, 20, 100, bytes.len() / 2, bytes.len() - 1].map(|cut| bytes[..cut].to_vec()).to_vec();
    for at in (0..bytes.len()).step_by(97).chain([bytes.len() - 1]) {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x10;
        damaged.push(wrong);
    }
    damaged.push([&bytes[..], b"more"].concat());
    for wrong in damaged {
        fs::write(&path, &wrong).unwrap();
        let store = store(folder.path());
        let (found, read) = found(&store, "a", 5000);
        // A bit that means nothing to the decompressor changes nothing.
        if found == Found::Whole {
            assert!(read == whole && store.take_trouble().is_none());
            continue;
        }
        let told = store.take_trouble().unwrap();
        assert!(told.contains("damaged") && told.contains(path.to_str().unwrap()), "{told}");
        assert!(!path.exists() && store.take_trouble().is_none());
    }
}

#[test]
fn another_drive_under_this_name_is_not_this_drive() {
    let folder = tempfile::tempdir().unwrap();
    for (engine, key) in [("engine 1", "b"), ("engine 2", "a"), ("engine 1", "longer")] {
        let place = folder.path().join("other");
        let other = AgedFiles::new(place.clone(), 1 << 20, engine.into(), Duration::ZERO);
        keep(&other, key, &state(1, 500));
        keep(&store(folder.path()), "a", &state(2, 500));
        let name = files(folder.path()).into_iter().find(|path| path.is_file()).unwrap();
        fs::rename(files(&place).remove(0), &name).unwrap();
        let store = store(folder.path());
        assert_eq!(found(&store, "a", 500), (Found::Nothing, vec![0; 500]));
        assert!(store.take_trouble().is_some() && !name.exists());
    }
}

/// What reads too little or too much has another state in mind.
#[test]
fn a_state_of_another_length_is_spoilt() {
    for length in [499, 501, 507, 508, 509] {
        let folder = tempfile::tempdir().unwrap();
        keep(&store(folder.path()), "a", &state(1, 500));
        assert_eq!(found(&store(folder.path()), "a", length).0, Found::Spoilt, "{length}");
    }
}

#[test]
fn what_was_used_last_stays() {
    let folder = tempfile::tempdir().unwrap();
    let store = AgedFiles::new(folder.path().to_owned(), 35_000, "engine".into(), Duration::ZERO);
    let set = |path: &Path, ago: u64| {
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(ago)).unwrap();
    };
    // What a process left that was killed counts as well; what is not ours is left alone.
    fs::write(folder.path().join("unfinished-1"), [0; 9000]).unwrap();
    fs::write(folder.path().join("mine.txt"), vec![0; 90_000]).unwrap();
    set(&folder.path().join("unfinished-1"), 5000);
    set(&folder.path().join("mine.txt"), 9000);
    for (key, ago) in [("a", 4000), ("b", 3000), ("c", 2000)] {
        let before = files(folder.path());
        keep(&store, key, &state(1, 10_000));
        let new = files(folder.path()).into_iter().find(|path| !before.contains(path)).unwrap();
        set(&new, ago);
    }
    assert_eq!(files(folder.path()).len(), 4, "the unfinished one had to go");
    // Used now: not the oldest any more.
    assert_eq!(found(&store, "a", 10_000).0, Found::Whole);
    keep(&store, "d", &state(2, 10_000));
    let there = ["a", "b", "c", "d"].map(|key| found(&store, key, 10_000).0 == Found::Whole);
    assert_eq!(there, [true, false, true, true]);
    assert!(folder.path().join("mine.txt").exists());
    // Larger than all there may be: not kept, and no trouble.
    keep(&store, "e", &state(3, 40_000));
    assert_eq!(found(&store, "e", 40_000).0, Found::Nothing);
    assert_eq!((files(folder.path()).len(), store.take_trouble()), (4, None));
    // A smaller limit holds for what was kept before, also where it has no room for another drive.
    let smaller = AgedFiles::new(folder.path().to_owned(), 25_000, "engine".into(), Duration::ZERO);
    keep(&smaller, "e", &state(3, 40_000));
    assert_eq!((files(folder.path()).len(), smaller.take_trouble()), (3, None));
}

#[test]
#[ignore = "a long test: make test-long"]
fn what_is_not_worth_it_is_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.keep("short", Duration::from_millis(999), &mut |_| panic!("nobody waits for that"));
    // Writing takes longer than the ageing did.
    store.keep("slow", Duration::from_secs(1), &mut |out| {
        std::thread::sleep(Duration::from_millis(1010));
        (0..40).try_for_each(|seed| out.write_all(&state(seed, 100_000)))
    });
    store.keep("part", LONG, &mut |_| Err(io::ErrorKind::Unsupported.into()));
    assert!(files(folder.path()).is_empty() && store.take_trouble().is_none());
}

#[cfg(unix)]
#[test]
fn folders_that_cannot_be_used_are_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let inside = store(&file.join("folder"));
    for key in ["a", "b"] {
        assert_eq!(found(&inside, key, 10).0, Found::Nothing);
        keep(&inside, key, &state(1, 10));
    }
    assert!(inside.take_trouble().unwrap().contains("aged drive") && inside.take_trouble().is_none());
    // A name that is a folder can be neither read nor written.
    let store = store(folder.path());
    keep(&store, "a", &state(1, 10));
    let name = files(folder.path()).into_iter().find(|path| *path != file).unwrap();
    fs::remove_file(&name).unwrap();
    fs::create_dir(&name).unwrap();
    assert_eq!(found(&store, "a", 10).0, Found::Nothing);
    keep(&store, "a", &state(1, 10));
    assert!(store.take_trouble().is_some());
    assert_eq!(files(folder.path()).len(), 2, "nothing unfinished is left");
}

/// A device that is always full.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_ends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.keep("a", LONG, &mut |out| {
        out.write_all(&state(1, 5000))?;
        fs::OpenOptions::new().write(true).open("/dev/full")?.write_all(&[0; 10])
    });
    assert!(store.take_trouble().unwrap().contains("cannot keep"));
    assert!(files(folder.path()).is_empty());
    assert_eq!(found(&store, "a", 5000).0, Found::Nothing);
}
