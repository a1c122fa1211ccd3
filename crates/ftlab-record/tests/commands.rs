//! Recording of commands: exactly what they did to files. Passes without a word where tracing is forbidden.

#![cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::ffi::OsString;
use std::path::Path;

use ftlab_core::host::request::{Op, Request};
use ftlab_record::{Options, RecordError, Recorded, record};

fn recorded(command: &[&str], options: &Options) -> Option<(Recorded, Vec<Request>)> {
    let command: Vec<OsString> = command.iter().map(OsString::from).collect();
    let options = options.clone();
    // A thread of its own: recording waits for all children of its thread.
    let thread = std::thread::spawn(move || {
        let mut requests = Vec::new();
        let result = record(&command, &options, &mut |batch| {
            requests.extend_from_slice(batch);
            Ok(())
        });
        result.map(|recorded| (recorded, requests))
    });
    match thread.join().unwrap() {
        Ok(done) => Some(done),
        Err(RecordError::Unsupported(why)) => {
            assert!(why.contains("ptrace") || why.contains("filter"), "{why}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn within(folder: &Path) -> Options {
    Options { include: vec![folder.display().to_string()], ..Options::default() }
}

fn access_list(requests: &[Request]) -> Vec<(Op, u64, u32)> {
    requests.iter().map(|request| (request.op, request.lba, request.sectors)).collect()
}

#[test]
fn reads_writes_and_deletions_of_a_shell_script() {
    let folder = tempfile::tempdir().unwrap();
    let old = folder.path().join("old");
    std::fs::write(&old, vec![7; 10_000]).unwrap();
    let script = format!(
        "cd {} && dd if=old of=new bs=4096 count=2 conv=fsync 2>/dev/null && dd if=/dev/zero of=new bs=1000 count=1 seek=8 \
         conv=notrunc 2>/dev/null; (rm old); mv new other; truncate -s 4096 other; exit 3",
        folder.path().display()
    );
    let Some((result, requests)) = recorded(&["sh", "-c", &script], &within(folder.path())) else { return };
    assert_eq!(result.status, 3);
    assert_eq!(
        access_list(&requests),
        [
            (Op::Read, 0, 8),
            (Op::Write, 24, 8),
            (Op::Read, 8, 8),
            (Op::Write, 32, 8),
            (Op::Flush, 0, 0),
            (Op::Write, 39, 3),
            (Op::Trim, 0, 24),
            (Op::Trim, 32, 16),
        ]
    );
    assert!(requests.is_sorted_by_key(|request| request.arrival_ns));
    assert!(result.duration_ns >= requests[7].arrival_ns && requests[7].arrival_ns > 0);
    assert_eq!((result.counts.requests, result.counts.files), ([2, 3, 2, 1], 2));
}

#[test]
fn children_and_threads_are_followed_and_excluded_files_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "cd {}; for i in 1 2 3; do (dd if=/dev/zero of=f$i bs=8192 count=5 2>/dev/null) & done; wait; \
         dd if=/dev/zero of=secret bs=512 count=9 2>/dev/null; echo x >/dev/null",
        folder.path().display()
    );
    let options = Options { exclude: vec!["*/secret".into()], ..within(folder.path()) };
    let Some((result, requests)) = recorded(&["sh", "-c", &script], &options) else { return };
    assert_eq!((result.status, result.counts.files), (0, 3));
    assert_eq!(requests.len(), 15);
    assert!(requests.iter().all(|request| request.op == Op::Write && request.sectors == 16));
    let mut places: Vec<u64> = requests.iter().map(|request| request.lba).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 15, "no two writes go to one place");
}

#[test]
fn processes_that_share_a_position_write_each_its_own_part() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "cd {}; for i in 1 2 3 4 5 6; do dd if=/dev/zero bs=4096 count=150 2>/dev/null & done >log; wait",
        folder.path().display()
    );
    let Some((result, requests)) = recorded(&["sh", "-c", &script], &within(folder.path())) else { return };
    let written = access_list(&requests);
    assert_eq!((result.status, written.len()), (0, 900));
    let expected: Vec<_> = (0..900).map(|page| (Op::Write, page * 8, 8)).collect();
    let mut sorted = written;
    sorted.sort_unstable_by_key(|(_, lba, _)| *lba);
    assert_eq!(sorted, expected);
}

#[test]
fn files_that_were_not_accessed_before_leave_trims_under_any_name() {
    use std::os::unix::ffi::OsStrExt;

    let folder = tempfile::tempdir().unwrap();
    let names: [&[u8]; 6] = [b"cut", b"emptied", b"gone", b"over", b"not\xffutf8", b"secret"];
    for (pages, name) in (1..).zip(names) {
        let path = folder.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::write(path, vec![7; pages * 4096]).unwrap();
    }
    let script = format!(
        "cd {}; truncate -s 100 cut; : >emptied; rm gone; : >new; mv new over; rm not*; rm secret; echo >later; rm later",
        folder.path().display()
    );
    let options = Options { exclude: vec!["*/secret".into()], ..within(folder.path()) };
    let Some((result, requests)) = recorded(&["sh", "-c", &script], &options) else { return };
    assert_eq!(result.status, 0);
    let trims: Vec<(Op, u32)> = requests.iter().map(|request| (request.op, request.sectors)).collect();
    // `truncate` opens the file, asks nothing of it, and cuts it within its only page.
    let expected = [16, 24, 32, 40].map(|sectors| (Op::Trim, sectors));
    assert_eq!(trims[..4], expected);
    assert_eq!(trims[4..], [(Op::Write, 1), (Op::Trim, 8)], "it may have the number of one that is excluded");
}

#[test]
fn a_cache_holds_writes_back_until_they_are_synchronised() {
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "cd {}; dd if=/dev/zero of=f bs=1024 count=64 conv=fsync 2>/dev/null; cat f f >/dev/null",
        folder.path().display()
    );
    let options = Options { cache_bytes: 64 << 20, ..within(folder.path()) };
    let Some((result, requests)) = recorded(&["sh", "-c", &script], &options) else { return };
    assert_eq!(access_list(&requests), [(Op::Write, 0, 128), (Op::Flush, 0, 0)]);
    assert!(result.counts.calls > 64);
}

#[test]
fn what_ends_a_command_and_what_cannot_be_started_is_reported() {
    if let Some((result, _)) = recorded(&["sh", "-c", "kill -TERM $$"], &Options::default()) {
        assert_eq!(result.status, 128 + 15);
    }
    let command = ["/no/such/command".into()];
    let error =
        std::thread::spawn(move || record(&command, &Options::default(), &mut |_| Ok(()))).join().unwrap();
    match error.unwrap_err() {
        RecordError::Command(why) => {
            assert!(why.starts_with("/no/such/command: cannot be executed: No such file"), "{why}");
        }
        RecordError::Unsupported(_) => {}
        RecordError::Output(why) => panic!("{why}"),
    }
}

#[test]
fn when_the_requests_cannot_be_taken_the_command_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("f");
    let command =
        ["dd".into(), "if=/dev/zero".into(), format!("of={}", file.display()).into(), "bs=512".into()];
    let error =
        std::thread::spawn(move || record(&command, &Options::default(), &mut |_| Err("disk full".into())));
    match error.join().unwrap().unwrap_err() {
        RecordError::Output(why) => assert_eq!(why, "disk full"),
        RecordError::Unsupported(_) => {}
        RecordError::Command(why) => panic!("{why}"),
    }
}
