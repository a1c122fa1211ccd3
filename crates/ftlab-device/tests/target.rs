//! Targets on files and on loop devices. Where the system has none of what a test needs, it passes with a message.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ftlab_core::host::request::{Op, Request};
use ftlab_device::{Cause, DeviceError, Kind, Options, Pace, Refusal, Span, Target, Wait, pattern};

static GO: AtomicBool = AtomicBool::new(false);
const CLOSED: Pace = Pace::Closed { queue_depth: 1, gap_ns: 0 };

/// A folder on the file system of the sources: that of temporary files may lie in memory.
fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("target-").tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn file_of(folder: &Path, bytes: usize) -> PathBuf {
    let path = folder.join("target");
    fs::write(&path, vec![0x11; bytes]).unwrap();
    path
}

fn options(path: &Path) -> Options {
    Options { destroy: Some(path.into()), ..Options::default() }
}

fn opened(path: &Path, options: &Options) -> Option<Target> {
    match Target::open(path, options) {
        Ok(target) => Some(target),
        Err(DeviceError::Unsupported(why)) => {
            eprintln!("passed over: {why}");
            None
        }
        Err(error) if error.refusal() == Some(Refusal::NoDirectIo) => {
            eprintln!("passed over: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn request(op: Op, lba: u64, sectors: u32) -> Request {
    Request { arrival_ns: 0, lba, sectors, op, stream: 0, fua: false }
}

fn refused(path: &Path, options: &Options) -> Option<Refusal> {
    match Target::open(path, options) {
        Ok(_) => None,
        Err(DeviceError::Unsupported(why)) => {
            eprintln!("passed over: {why}");
            None
        }
        Err(error) => Some(error.refusal().unwrap_or_else(|| panic!("{error}"))),
    }
}

fn failed(result: Result<Vec<Span>, DeviceError>) -> (Cause, usize) {
    match result {
        Err(DeviceError::Failed(failed)) => (failed.cause.clone(), failed.measured.done()),
        other => panic!("{other:?}"),
    }
}

/// A loop device over a file, and its end.
struct Loop {
    device: PathBuf,
}

impl Loop {
    fn new(file: &Path) -> Option<Self> {
        Self::with(file, "--direct-io=on")
    }

    fn with(file: &Path, option: &str) -> Option<Self> {
        let made = Command::new("losetup").args(["--find", "--show", option]).arg(file).output();
        match made {
            Ok(made) if made.status.success() => {
                Some(Self { device: String::from_utf8(made.stdout).unwrap().trim().into() })
            }
            Ok(made) => {
                eprintln!("passed over: no loop devices: {}", String::from_utf8_lossy(&made.stderr));
                None
            }
            Err(error) => {
                eprintln!("passed over: no losetup: {error}");
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

#[test]
fn what_is_written_is_read_proven_and_in_its_place_only() {
    let folder = folder();
    let neighbour = folder.path().join("neighbour");
    fs::write(&neighbour, "untouched").unwrap();
    let path = file_of(folder.path(), 4 << 20);
    let options = Options { seed: 9, ..options(&path) };
    let Some(mut target) = opened(&path, &options) else { return };
    let unit = u32::try_from(target.unit_sectors()).unwrap().max(8);
    assert_eq!(target.sectors(), 8192);
    let (first, second) = (u64::from(unit) * 3, u64::from(unit) * 40);
    let batch = [
        request(Op::Write, first, unit),
        request(Op::Write, second, 2 * unit),
        request(Op::Write, first, unit),
        request(Op::Flush, 0, 0),
        request(Op::Read, first, unit),
        request(Op::Read, second, 2 * unit),
        request(Op::Read, 0, unit),
    ];
    let spans = target.send(&batch, CLOSED, &GO).unwrap();
    assert!(spans.iter().all(|span| span.end_ns > span.start_ns), "{spans:?}");
    assert!(spans.windows(2).all(|pair| pair[1].start_ns >= pair[0].end_ns), "{spans:?}");
    let proofs = target.proofs();
    assert_eq!((proofs.verified, proofs.unknown), (u64::from(3 * unit), u64::from(unit)));
    assert_eq!(target.cached_bytes(0, 8192).unwrap(), 0);
    drop(target);
    let data = fs::read(&path).unwrap();
    for (lba, sector) in (0_u64..).zip(data.chunks(512)) {
        let (in_first, in_second) =
            (lba.wrapping_sub(first) < unit.into(), lba.wrapping_sub(second) < (2 * unit).into());
        match (in_first, in_second) {
            (true, _) => pattern::check(sector, 9, lba, 3).unwrap(),
            (_, true) => pattern::check(sector, 9, lba, 2).unwrap(),
            _ => assert!(sector.iter().all(|byte| *byte == 0x11), "sector {lba}"),
        }
    }
    assert_eq!(fs::read(neighbour).unwrap(), b"untouched");
}

#[test]
fn data_that_others_changed_are_found() {
    let folder = folder();
    let path = file_of(folder.path(), 1 << 20);
    let Some(mut target) = opened(&path, &options(&path)) else { return };
    target.send(&[request(Op::Write, 0, 64)], CLOSED, &GO).unwrap();
    let other = OpenOptions::new().write(true).open(&path).unwrap();
    other.write_all_at(&[7], 5 * 512 + 100).unwrap();
    other.sync_all().unwrap();
    let (cause, done) = failed(target.send(&[request(Op::Read, 0, 64)], CLOSED, &GO));
    assert_eq!(cause, Cause::Contents { lba: 5, text: "is damaged from byte 96 on".into() });
    assert_eq!(done, 1);
}

#[test]
fn requests_of_one_instant_start_together_and_at_their_time() {
    let folder = folder();
    let path = file_of(folder.path(), 4 << 20);
    for wait in Wait::ALL {
        let Some(mut target) = opened(&path, &Options { wait, ..options(&path) }) else { return };
        let batch: Vec<_> = (0..20)
            .map(|index| Request { arrival_ns: index / 2 * 2_000_000, ..request(Op::Read, index * 64, 8) })
            .collect();
        let before = target.now_ns().unwrap();
        let spans = target.send(&batch, Pace::Own, &GO).unwrap();
        let begin = spans[0].start_ns;
        assert!(begin >= before);
        for (pair, requests) in spans.chunks(2).zip(batch.chunks(2)) {
            assert_eq!(pair[0].start_ns, pair[1].start_ns);
            assert!(pair[0].start_ns - before >= requests[0].arrival_ns, "{spans:?}");
        }
        // A closed batch keeps its depth: as many begin together.
        let spans = target.send(&batch, Pace::Closed { queue_depth: 5, gap_ns: 0 }, &GO).unwrap();
        let together = spans.iter().filter(|span| span.start_ns == spans[0].start_ns).count();
        assert_eq!(together, 5);
        for (index, span) in spans.iter().enumerate() {
            let outstanding = spans[..index].iter().filter(|other| other.end_ns > span.start_ns).count();
            assert!(outstanding < 5, "{index}: {spans:?}");
        }
    }
}

#[test]
fn a_gap_lies_between_a_completion_and_what_it_brings() {
    let folder = folder();
    let path = file_of(folder.path(), 1 << 20);
    let Some(mut target) = opened(&path, &options(&path)) else { return };
    let mut batch = vec![request(Op::Read, 0, 8); 6];
    batch[3] = request(Op::Flush, 0, 0);
    let spans = target.send(&batch, Pace::Closed { queue_depth: 1, gap_ns: 2_000_000 }, &GO).unwrap();
    let gaps: Vec<u64> = spans.windows(2).map(|pair| pair[1].start_ns - pair[0].end_ns).collect();
    // A busy machine may let any of them wait, and hardly all.
    assert!(gaps.iter().all(|gap| *gap >= 2_000_000), "{gaps:?}");
    assert!(gaps.iter().any(|gap| *gap < 20_000_000), "{gaps:?}");
    // With two outstanding, each of them brings its own.
    let spans = target.send(&batch[..3], Pace::Closed { queue_depth: 2, gap_ns: 2_000_000 }, &GO).unwrap();
    let first_end = spans[0].end_ns.min(spans[1].end_ns);
    assert!(spans[2].start_ns - first_end >= 2_000_000, "{spans:?}");
}

#[test]
fn a_batch_larger_than_memory_goes_in_parts() {
    let folder = folder();
    let path = file_of(folder.path(), 4 << 20);
    let Some(mut target) = opened(&path, &Options { buffer_bytes: 256 << 10, ..options(&path) }) else {
        return;
    };
    let write: Vec<_> = (0..32).map(|index| request(Op::Write, index * 256, 256)).collect();
    let read: Vec<_> = (0..32).map(|index| request(Op::Read, index * 256, 256)).collect();
    let pace = Pace::Closed { queue_depth: 8, gap_ns: 0 };
    assert_eq!(target.send(&write, pace, &GO).unwrap().len(), 32);
    assert_eq!(target.send(&read, pace, &GO).unwrap().len(), 32);
    assert_eq!(target.proofs().verified, 8192);
    // Its own times are kept within a part, and from one to the next.
    let timed: Vec<_> =
        (0..8).map(|index| Request { arrival_ns: 5_000_000 * (index / 2), ..read[0] }).collect();
    let spans = target.send(&timed, Pace::Own, &GO).unwrap();
    assert!(spans.chunks(2).all(|pair| pair[0].start_ns == pair[1].start_ns), "{spans:?}");
    for pair in spans.chunks(2).collect::<Vec<_>>().windows(2) {
        let ended = pair[0].iter().map(|span| span.end_ns).max().unwrap();
        assert!(pair[1][0].start_ns - ended >= 5_000_000, "{spans:?}");
    }
}

#[test]
fn a_trimmed_range_may_hold_anything() {
    let folder = folder();
    let path = file_of(folder.path(), 1 << 20);
    let Some(mut target) = opened(&path, &options(&path)) else { return };
    let batch = [request(Op::Write, 0, 64), request(Op::Trim, 0, 32), request(Op::Read, 0, 64)];
    target.send(&batch, CLOSED, &GO).unwrap();
    assert_eq!((target.proofs().verified, target.proofs().unknown), (32, 32));
    assert_eq!(fs::metadata(&path).unwrap().len(), 1 << 20);
}

#[test]
fn a_file_that_becomes_shorter_ends_the_batch_with_what_was_measured() {
    let folder = folder();
    let path = file_of(folder.path(), 4 << 20);
    let Some(mut target) = opened(&path, &options(&path)) else { return };
    OpenOptions::new().write(true).open(&path).unwrap().set_len(2 << 20).unwrap();
    let batch: Vec<_> = (0..8).map(|index| request(Op::Read, index * 1024, 8)).collect();
    let (cause, done) = failed(target.send(&batch, CLOSED, &GO));
    assert_eq!(cause, Cause::Short { op: Op::Read, lba: 4096, sectors: 8, bytes: 0 });
    assert_eq!(done, 4);
}

#[test]
fn an_interruption_ends_a_batch_and_a_pause() {
    let folder = folder();
    let path = file_of(folder.path(), 1 << 20);
    let Some(mut target) = opened(&path, &options(&path)) else { return };
    let stop = AtomicBool::new(true);
    let batch = [request(Op::Read, 0, 8)];
    assert_eq!(failed(target.send(&batch, CLOSED, &stop)), (Cause::Interrupted, 0));
    assert!(matches!(target.idle(3_600_000_000_000, &stop), Err(DeviceError::Failed(_))));
    let before = target.now_ns().unwrap();
    target.idle(3_000_000, &GO).unwrap();
    assert!(target.now_ns().unwrap() - before >= 3_000_000);
}

#[test]
fn what_is_no_target_is_refused_and_left_as_it_was() {
    let folder = folder();
    let path = file_of(folder.path(), 1 << 20);
    let stamp = || fs::metadata(&path).unwrap().modified().unwrap();
    let before = stamp();
    std::thread::sleep(Duration::from_millis(10));
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    assert_eq!(refused(&path, &options(&link)), Some(Refusal::NotNamed));
    assert_eq!(refused(&path, &Options { destroy: None, ..options(&path) }), Some(Refusal::NotNamed));
    assert_eq!(refused(folder.path(), &options(folder.path())), Some(Refusal::Kind));
    assert_eq!(refused(Path::new("/dev/null"), &options(Path::new("/dev/null"))), Some(Refusal::Kind));
    let nowhere = folder.path().join("nowhere");
    assert_eq!(refused(&nowhere, &options(&nowhere)), Some(Refusal::Missing));
    assert!(!nowhere.exists());
    let small = Options { least_bytes: 1 << 30, ..options(&path) };
    assert_eq!(refused(&path, &small), Some(Refusal::TooSmall));
    assert_eq!(stamp(), before);
    if opened(&path, &options(&path)).is_some() {
        let other = fs::File::open(&path).unwrap();
        assert_eq!(refused(&path, &options(&path)), Some(Refusal::InUse));
        drop(other);
        let first = opened(&path, &options(&path));
        assert_eq!(refused(&path, &options(&path)), Some(Refusal::InUse));
        drop(first);
        assert_eq!(refused(&path, &options(&path)), None);
    }
    assert_eq!(stamp(), before);
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        let folder = tempfile::tempdir_in(memory).unwrap();
        let path = file_of(folder.path(), 1 << 20);
        assert_eq!(refused(&path, &options(&path)), Some(Refusal::NoDirectIo));
    }
}

#[test]
fn a_read_only_file_is_refused() {
    let folder = folder();
    let path = file_of(folder.path(), 1 << 20);
    let set =
        |on: &str| Command::new("chattr").arg(on).arg(&path).status().is_ok_and(|status| status.success());
    // The superuser may write to every file but these.
    if !set("+i") {
        return eprintln!("passed over: no file can be made immutable here");
    }
    let found = refused(&path, &options(&path));
    set("-i");
    assert_eq!(found, Some(Refusal::ReadOnly));
}

#[test]
fn a_loop_device_is_a_target() {
    let folder = folder();
    let path = file_of(folder.path(), 8 << 20);
    let Some(device) = Loop::new(&path) else { return };
    // The file below it is in use now.
    assert_eq!(refused(&path, &options(&path)), Some(Refusal::InUse));
    let path_of_device = device.device.clone();
    let Some(mut target) = opened(&path_of_device, &options(&path_of_device)) else { return };
    let facts = target.facts().clone();
    assert_eq!((facts.kind, facts.bytes), (Kind::Block, 8 << 20));
    assert_eq!(facts.logical_block_bytes, Some(target.unit_sectors() * 512));
    assert!(
        facts.scheduler.is_some() && facts.rotational.is_some() && facts.write_cache.is_some(),
        "{facts:?}"
    );
    assert_eq!(refused(&path_of_device, &options(&path_of_device)), Some(Refusal::InUse));
    // Neighbours of one instant reach the device as they were sent.
    let before = target.device_counts().unwrap();
    let pair = |index: u64| Request { arrival_ns: index / 2 * 100_000, ..request(Op::Read, index * 8, 8) };
    let pairs: Vec<_> = (0..20).map(pair).collect();
    target.send(&pairs, Pace::Own, &GO).unwrap();
    let after = target.device_counts().unwrap();
    assert_eq!((after.reads - before.reads, after.read_sectors - before.read_sectors), (20, 160));
    assert_eq!((after.merged_reads, after.writes), (before.merged_reads, before.writes));
    let mut batch: Vec<_> = (0..16).map(|index| request(Op::Write, index * 1024, 64)).collect();
    batch.push(request(Op::Flush, 0, 0));
    batch.extend((0..16).map(|index| request(Op::Read, index * 1024, 64)));
    if target.can_trim() {
        batch.push(request(Op::Trim, 0, 1024));
    }
    let spans = target.send(&batch, Pace::Closed { queue_depth: 4, gap_ns: 0 }, &GO).unwrap();
    assert!(spans.iter().all(|span| span.end_ns > span.start_ns));
    assert_eq!(target.proofs().verified, 16 * 64);
    assert_eq!(target.cached_bytes(0, target.sectors()).unwrap(), 0);
    // The drive below loses its second half.
    OpenOptions::new().write(true).open(&path).unwrap().set_len(4 << 20).unwrap();
    let batch: Vec<_> = (0..16).map(|index| request(Op::Read, index * 1024, 8)).collect();
    let (cause, done) = failed(target.send(&batch, CLOSED, &GO));
    assert!(matches!(cause, Cause::Io { op: Op::Read, lba: 8192, errno: 5, .. }), "{cause:?}");
    assert_eq!(done, 8);
}

#[test]
fn a_drive_that_somebody_needs_is_refused() {
    let folder = folder();
    let path = file_of(folder.path(), 8 << 20);
    let Some(device) = Loop::new(&path) else { return };
    let device_path = device.device.as_path();
    let holder = OpenOptions::new().write(true).open(device_path).unwrap();
    let mut reader =
        Command::new("sleep").arg("60").stdin(fs::File::open(device_path).unwrap()).spawn().unwrap();
    let found = Target::open(device_path, &options(device_path)).err().map(|error| error.to_string());
    let process = reader.id();
    reader.kill().unwrap();
    reader.wait().unwrap();
    let Some(found) = found.filter(|found| !found.contains("io_uring")) else {
        return eprintln!("passed over");
    };
    assert!(found.ends_with(&format!("is in use: process {process} (sleep) has it open")), "{found}");
    let mut table = [0_u8; 512];
    // Sectors 8 to 1031.
    (table[446 + 4], table[446 + 8], table[446 + 13], table[510], table[511]) = (0x83, 8, 4, 0x55, 0xaa);
    holder.write_all_at(&table, 0).unwrap();
    holder.sync_all().unwrap();
    assert_eq!(refused(device_path, &options(device_path)), Some(Refusal::Partitioned));
    drop(holder);
    for (option, why) in [("--partscan", Refusal::Partitioned), ("--read-only", Refusal::ReadOnly)] {
        let Some(other) = Loop::with(&path, option) else { return };
        assert_eq!(refused(&other.device, &options(&other.device)), Some(why), "{option}");
    }
    let made = Command::new("mkfs.ext4").args(["-q", "-F"]).arg(device_path).status();
    let place = folder.path().join("place with a blank");
    fs::create_dir(&place).unwrap();
    let mounted = made.is_ok_and(|status| status.success())
        && Command::new("mount").arg(device_path).arg(&place).status().is_ok_and(|status| status.success());
    if !mounted {
        return eprintln!("passed over: nothing can be mounted here");
    }
    let found = Target::open(device_path, &options(device_path)).err().map(|error| error.to_string());
    let _ = Command::new("umount").arg(&place).status();
    let expected = format!("{} is mounted at {}: unmount it first", device_path.display(), place.display());
    assert_eq!(found, Some(expected));
}
