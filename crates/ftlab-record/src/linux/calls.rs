//! What a system call does to files: looked at before it happens, and recorded when it has.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::filter::{RENAMEAT, SYNC_FILE_RANGE};
use super::process::{self, BLOCK_DEVICE, Pattern, Pid, Seen};
use crate::layout::FileId;
use crate::recorder::{Mode, Recorder};

/// A call that has begun, as far as its end has to be seen.
pub(super) struct Pending {
    began_ns: u64,
    what: What,
}

enum What {
    Read {
        fd: u64,
        file: Seen,
        at: At,
    },
    Write {
        fd: u64,
        file: Seen,
        at: At,
        sync: bool,
    },
    Copy {
        from: Option<(u64, Seen, At)>,
        to: Option<(u64, Seen, At)>,
    },
    Sync {
        file: Seen,
    },
    SyncAll,
    WriteOut {
        file: Seen,
        offset: u64,
        bytes: u64,
    },
    Truncate {
        file: Seen,
        bytes: u64,
    },
    Punch {
        file: Seen,
        offset: u64,
        bytes: u64,
    },
    /// A descriptor is given for a file that is emptied.
    Open {
        before: Option<Seen>,
    },
    /// A file without a name is closed.
    Close,
    /// A name is given to a file that may have none.
    Link {
        folder: u64,
        name: u64,
    },
    /// The last name of a file goes.
    Unlink {
        file: Seen,
    },
}

impl Pending {
    /// The descriptors whose positions move.
    fn moving(&self) -> impl Iterator<Item = (u64, FileId)> {
        let ends = match &self.what {
            What::Read { fd, file, at } | What::Write { fd, file, at, .. } => [Some((*fd, *file, *at)), None],
            What::Copy { from, to: to @ Some(_) } => [*from, *to],
            // What is sent elsewhere may wait for its reader; nobody is to wait for it.
            _ => [None, None],
        };
        let moving = |end: (u64, Seen, At)| matches!(end.2, At::Position).then_some((end.0, end.1.file));
        ends.into_iter().flatten().filter_map(moving)
    }

    /// Whether this call of `pid` and another one move the same position.
    pub(super) fn shares_position(&self, pid: Pid, other: &Self, other_pid: Pid) -> bool {
        self.moving().any(|(fd, file)| {
            other
                .moving()
                .any(|(other_fd, same)| file == same && process::same_opening(pid, fd, other_pid, other_fd))
        })
    }
}

/// Where in a file.
#[derive(Clone, Copy)]
enum At {
    /// Where the descriptor stands, which moves.
    Position,
    Offset(u64),
    /// At the end of the file, without moving the position.
    End,
    /// A number in memory, which moves.
    Memory(u64),
}

/// The files of a command, and what happens to them.
pub(super) struct Calls {
    pub(super) recorder: Recorder,
    include: Vec<Pattern>,
    exclude: Vec<Pattern>,
    /// Whether a file counts, by its path when it was first met.
    chosen: HashMap<FileId, bool>,
    /// Files without a name that may still be open.
    orphans: Vec<FileId>,
    pub(super) shared_mappings: u64,
    pub(super) asynchronous_calls: u64,
}

/// Files that are no storage.
const NO_STORAGE: [&str; 4] = ["/proc", "/sys", "/dev", "/memfd:"];

impl Calls {
    pub(super) fn new(cache_bytes: u64, include: Vec<Pattern>, exclude: Vec<Pattern>) -> Self {
        Self {
            recorder: Recorder::new(cache_bytes),
            include,
            exclude,
            chosen: HashMap::new(),
            orphans: Vec::new(),
            shared_mappings: 0,
            asynchronous_calls: 0,
        }
    }

    fn counts(&self, path: &Path, block_device: bool) -> bool {
        let text = path.to_string_lossy();
        let under = |folder: &str| {
            text.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/') || folder.ends_with(':'))
        };
        if !block_device && NO_STORAGE.iter().any(|folder| under(folder)) {
            return false;
        }
        let fits = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.fits(path));
        (self.include.is_empty() || fits(&self.include)) && !fits(&self.exclude)
    }

    /// Whether a file counts, by its path when it is first asked about.
    fn is_chosen(&mut self, now: u64, seen: &Seen, path: impl FnOnce() -> Option<PathBuf>) -> bool {
        self.born_again(now, seen);
        if let Some(chosen) = self.chosen.get(&seen.file) {
            return *chosen;
        }
        let Some(path) = path() else { return false };
        let chosen = self.counts(&path, seen.file.inode == BLOCK_DEVICE);
        if chosen || seen.links > 0 {
            self.chosen.insert(seen.file, chosen);
        }
        if chosen && seen.links == 0 {
            // It never had a name (`O_TMPFILE`), or was without it when the command got it.
            self.orphans.push(seen.file);
        }
        chosen
    }

    /// The file behind a descriptor, met, if it counts.
    fn file(&mut self, pid: Pid, now: u64, fd: u64) -> Option<Seen> {
        let seen = process::of_descriptor(pid, fd)?;
        let chosen = self.is_chosen(now, &seen, || process::path_of(pid, fd, seen.links == 0));
        if chosen {
            self.recorder.meet(seen.file, seen.bytes);
        }
        chosen.then_some(seen)
    }

    /// The file of a path as it is before a call, if it counts. It is met when the call has done something to it.
    fn named(&mut self, pid: Pid, now: u64, folder: Option<u64>, address: u64) -> Option<Seen> {
        let path = process::path_at(pid, folder, address)?;
        let seen = process::seen(&path, true)?;
        self.is_chosen(now, &seen, || fs::canonicalize(path).ok()).then_some(seen)
    }

    /// A call begins. Nothing if its end need not be seen.
    pub(super) fn enter(&mut self, pid: Pid, now: u64, number: i64, args: &[u64]) -> Option<Pending> {
        use libc as sys;
        let [a, b, c, d, e, f] = *args else { return None };
        let positioned = |offset: u64| if offset == u64::MAX { At::Position } else { At::Offset(offset) };
        let pointed = |pointer: u64| if pointer == 0 { At::Position } else { At::Memory(pointer) };
        #[cfg(target_arch = "x86_64")]
        let (number, a, b, c) = match number {
            // The older calls, as their newer selves.
            sys::SYS_unlink => (sys::SYS_unlinkat, sys::AT_FDCWD as u64, a, 0),
            sys::SYS_rename => {
                return self.replaced(pid, now, None, a, None, b);
            }
            sys::SYS_dup2 => (sys::SYS_dup3, a, b, 0),
            sys::SYS_open => (sys::SYS_openat, sys::AT_FDCWD as u64, a, b),
            sys::SYS_creat => (sys::SYS_openat, sys::AT_FDCWD as u64, a, 0),
            _ => (number, a, b, c),
        };
        let dsync = |flags: u64| flags as i32 & (sys::RWF_DSYNC | sys::RWF_SYNC) != 0;
        let what = match number {
            sys::SYS_read | sys::SYS_readv => {
                What::Read { fd: a, file: self.file(pid, now, a)?, at: At::Position }
            }
            sys::SYS_pread64 | sys::SYS_preadv => {
                What::Read { fd: a, file: self.file(pid, now, a)?, at: At::Offset(d) }
            }
            sys::SYS_preadv2 => What::Read { fd: a, file: self.file(pid, now, a)?, at: positioned(d) },
            sys::SYS_write | sys::SYS_writev => {
                What::Write { fd: a, file: self.file(pid, now, a)?, at: At::Position, sync: false }
            }
            sys::SYS_pwrite64 | sys::SYS_pwritev => {
                What::Write { fd: a, file: self.file(pid, now, a)?, at: At::Offset(d), sync: false }
            }
            sys::SYS_pwritev2 => {
                let at = match positioned(d) {
                    At::Offset(_) if f as i32 & sys::RWF_APPEND != 0 => At::End,
                    at => at,
                };
                What::Write { fd: a, file: self.file(pid, now, a)?, at, sync: dsync(f) }
            }
            sys::SYS_sendfile | sys::SYS_copy_file_range => {
                let (from, from_at, to, to_at) = match number {
                    sys::SYS_sendfile => (b, pointed(c), a, At::Position),
                    _ => (a, pointed(b), c, pointed(d)),
                };
                let from = self.file(pid, now, from).map(|file| (from, file, from_at));
                let to = self.file(pid, now, to).map(|file| (to, file, to_at));
                if from.is_none() && to.is_none() {
                    return None;
                }
                What::Copy { from, to }
            }
            sys::SYS_fsync | sys::SYS_fdatasync => What::Sync { file: self.file(pid, now, a)? },
            sys::SYS_sync | sys::SYS_syncfs => What::SyncAll,
            SYNC_FILE_RANGE => {
                let bytes = if c == 0 { u64::MAX - b } else { c };
                What::WriteOut { file: self.file(pid, now, a)?, offset: b, bytes }
            }
            sys::SYS_ftruncate => What::Truncate { file: self.file(pid, now, a)?, bytes: b },
            sys::SYS_truncate => What::Truncate { file: self.named(pid, now, None, a)?, bytes: b },
            sys::SYS_fallocate if b as i32 & (sys::FALLOC_FL_PUNCH_HOLE | sys::FALLOC_FL_ZERO_RANGE) != 0 => {
                What::Punch { file: self.file(pid, now, a)?, offset: c, bytes: d }
            }
            sys::SYS_openat2 if process::number(pid, c)? & sys::O_TRUNC as u64 == 0 => return None,
            sys::SYS_openat | sys::SYS_openat2 => What::Open { before: self.named(pid, now, Some(a), b) },
            sys::SYS_unlinkat if c as i32 & sys::AT_REMOVEDIR == 0 => {
                What::Unlink { file: self.last_name(pid, now, Some(a), b)? }
            }
            sys::SYS_linkat if !self.orphans.is_empty() => What::Link { folder: c, name: d },
            RENAMEAT => return self.replaced(pid, now, Some(a), b, Some(c), d),
            sys::SYS_renameat2 if e as u32 & sys::RENAME_EXCHANGE == 0 => {
                return self.replaced(pid, now, Some(a), b, Some(c), d);
            }
            // Nearly always there is none, and nothing is asked.
            sys::SYS_close | sys::SYS_dup3 if !self.orphans.is_empty() => {
                let closed = if number == sys::SYS_close { a } else { b };
                let seen = process::of_descriptor(pid, closed)?;
                if !self.orphans.contains(&seen.file) {
                    return None;
                }
                What::Close
            }
            sys::SYS_close_range if !self.orphans.is_empty() => What::Close,
            sys::SYS_mmap => {
                self.shared_mappings += u64::from(self.file(pid, now, e).is_some());
                return None;
            }
            sys::SYS_io_submit | sys::SYS_io_uring_enter => {
                self.asynchronous_calls += 1;
                return None;
            }
            _ => return None,
        };
        Some(Pending { began_ns: now, what })
    }

    /// A file gets the name of another one, which loses it.
    fn replaced(
        &mut self,
        pid: Pid,
        now: u64,
        from_folder: Option<u64>,
        from: u64,
        to_folder: Option<u64>,
        to: u64,
    ) -> Option<Pending> {
        let file = self.last_name(pid, now, to_folder, to)?;
        let moved = process::path_at(pid, from_folder, from).and_then(|path| process::seen(path, false));
        if moved.is_some_and(|moved| moved.file == file.file) {
            return None;
        }
        Some(Pending { began_ns: now, what: What::Unlink { file } })
    }

    /// The file that a path is the only name of, if it counts.
    fn last_name(&mut self, pid: Pid, now: u64, folder: Option<u64>, address: u64) -> Option<Seen> {
        let path = process::path_at(pid, folder, address)?;
        let seen =
            process::seen(&path, false).filter(|seen| seen.links == 1 && seen.file.inode != BLOCK_DEVICE)?;
        let chosen = self.is_chosen(now, &seen, || fs::canonicalize(path).ok());
        if !chosen {
            // Another file may get its number.
            self.chosen.remove(&seen.file);
        }
        chosen.then_some(seen)
    }

    /// A call has ended with `result`, which is no error.
    pub(super) fn leave(&mut self, pid: Pid, pending: Pending, result: u64, pids: impl Iterator<Item = Pid>) {
        let Pending { began_ns: now, what } = pending;
        match what {
            What::Read { fd, file, at } => self.moved(pid, now, fd, file, at, result, None),
            What::Write { fd, file, at, sync } => self.moved(pid, now, fd, file, at, result, Some(sync)),
            What::Copy { from, to } => {
                if let Some((fd, file, at)) = from {
                    self.moved(pid, now, fd, file, at, result, None);
                }
                if let Some((fd, file, at)) = to {
                    self.moved(pid, now, fd, file, at, result, Some(false));
                }
            }
            What::Sync { file } => self.recorder.sync(now, file.file),
            What::SyncAll => self.recorder.sync_all(now),
            What::WriteOut { file, offset, bytes } => self.recorder.write_out(now, file.file, offset, bytes),
            What::Truncate { file, bytes } => {
                self.recorder.meet(file.file, file.bytes);
                self.recorder.truncate(now, file.file, bytes);
            }
            What::Punch { file, offset, bytes } => self.recorder.punch(now, file.file, offset, bytes),
            What::Open { before } => {
                let Some(seen) = process::of_descriptor(pid, result) else { return };
                self.born_again(now, &seen);
                // One that was empty is met when something is written.
                if let Some(before) = before.filter(|before| before.file == seen.file && before.bytes > 0) {
                    self.recorder.meet(before.file, before.bytes);
                }
                if seen.bytes == 0 && self.recorder.knows(seen.file) {
                    self.recorder.truncate(now, seen.file, 0);
                }
            }
            What::Close => self.bury(now, pids),
            What::Link { folder, name } => {
                let path = process::path_at(pid, Some(folder), name);
                if let Some(seen) = path.and_then(|path| process::seen(path, false)) {
                    self.orphans.retain(|file| *file != seen.file);
                }
            }
            What::Unlink { file } => {
                self.recorder.meet(file.file, file.bytes);
                self.orphans.push(file.file);
                self.bury(now, pids);
            }
        }
    }

    /// Bytes were read or (`write` says whether durably) written.
    #[expect(clippy::too_many_arguments, reason = "what a call says")]
    fn moved(&mut self, pid: Pid, now: u64, fd: u64, file: Seen, at: At, bytes: u64, write: Option<bool>) {
        if bytes == 0 {
            return;
        }
        let Some((position, mode, append)) = process::position(pid, fd) else { return };
        let at = match at {
            // Linux appends even where an offset is stated.
            At::Offset(_) if append && write.is_some() => At::End,
            at => at,
        };
        let offset = match at {
            At::End => process::of_descriptor(pid, fd).map(|seen| seen.bytes.saturating_sub(bytes)),
            At::Offset(offset) => Some(offset),
            At::Position => Some(position.saturating_sub(bytes)),
            At::Memory(pointer) => process::number(pid, pointer).map(|after| after.saturating_sub(bytes)),
        };
        let Some(offset) = offset else { return };
        match write {
            None => self.recorder.read(now, file.file, offset, bytes, file.bytes, mode),
            Some(durable) => {
                let mode = Mode { sync: mode.sync || durable, ..mode };
                self.recorder.write(now, file.file, offset, bytes, mode);
            }
        }
    }

    /// A file with a name and the number of one that has none any more: that one is gone, and its number used again.
    fn born_again(&mut self, now: u64, seen: &Seen) {
        if seen.links > 0
            && let Some(place) = self.orphans.iter().position(|file| *file == seen.file)
        {
            self.orphans.remove(place);
            self.chosen.remove(&seen.file);
            self.recorder.delete(now, seen.file);
        }
    }

    /// Delete files that lost their names and that nobody has open any more.
    fn bury(&mut self, now: u64, pids: impl Iterator<Item = Pid>) {
        let pids: Vec<Pid> = pids.collect();
        let mut left = std::mem::take(&mut self.orphans);
        left.retain(|file| {
            let open = process::is_open(pids.iter().copied(), *file);
            if !open {
                self.chosen.remove(file);
                self.recorder.delete(now, *file);
            }
            open
        });
        self.orphans = left;
    }

    /// A process has ended or become another program, and closed files.
    pub(super) fn closed(&mut self, now: u64, pids: impl Iterator<Item = Pid>) {
        if !self.orphans.is_empty() {
            self.bury(now, pids);
        }
    }

    /// Everything has ended.
    pub(super) fn finish(&mut self, now: u64) {
        self.bury(now, std::iter::empty());
        self.recorder.finish(now);
    }
}
