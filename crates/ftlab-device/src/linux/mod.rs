//! Targets of Linux: `O_DIRECT`, one `io_uring`, and the monotonic clock.

mod clock;
mod facts;
mod ring;
mod safety;
mod system;

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::AtomicBool;

use ftlab_core::host::request::{Op, Request};
use io_uring::IoUring;

use self::clock::{Clock, ClockSource, monotonic};
use self::facts::{System, same};
use self::ring::{Line, Outcome, Run};
use self::system::Memory;
use crate::batch::{self, Limits, Measured, Pace, SECTOR, Span, bytes_of};
use crate::error::{Cause, DeviceError, Failed, Refusal};
use crate::facts::{DeviceCounts, Facts, Kind};
use crate::versions::{Ended, Versions, settle};
use crate::{Options, Proofs, pattern};

/// How much of a target is looked at for a table of partitions.
const HEAD: usize = 8192;

/// A file or block device whose data may be destroyed.
pub struct Target {
    file: File,
    facts: Facts,
    options: Options,
    limits: Limits,
    clock: Clock,
    /// `None` where the last one was spoilt.
    ring: Option<IoUring>,
    memory: Memory,
    versions: Versions,
    /// The number of the last write.
    version: u32,
    proofs: Proofs,
}

fn cannot_open(path: &Path, error: &io::Error) -> DeviceError {
    let (why, text) = match error.raw_os_error() {
        Some(libc::EBUSY) => (Refusal::InUse, "is in use: another program has it for itself"),
        Some(libc::EROFS | libc::EACCES | libc::EPERM) => (Refusal::ReadOnly, "cannot be written"),
        Some(libc::EINVAL) => {
            (Refusal::NoDirectIo, "lies on a file system without O_DIRECT, which leads past the page cache")
        }
        Some(libc::ELOOP) => (Refusal::Changed, "has become a link while it was looked at"),
        _ => (Refusal::Missing, "cannot be opened"),
    };
    DeviceError::refused(why, format!("{} {text}: {error}", path.display()))
}

impl Target {
    /// Open a target, when nobody needs its data.
    ///
    /// # Errors
    /// When it is refused, see [`Refusal`], or when the system has no `io_uring`.
    pub fn open(path: &Path, options: &Options) -> Result<Self, DeviceError> {
        Self::open_with(path, options, monotonic)
    }

    fn open_with(path: &Path, options: &Options, source: ClockSource) -> Result<Self, DeviceError> {
        safety::check_named(path, options.destroy.as_deref())?;
        let missing =
            |error: io::Error| DeviceError::refused(Refusal::Missing, format!("{}: {error}", path.display()));
        let real_path = fs::canonicalize(path).map_err(missing)?;
        let metadata = fs::symlink_metadata(&real_path).map_err(missing)?;
        let kind = metadata.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let text = format!("{}: expected a block device or a regular file", path.display());
            return Err(DeviceError::refused(Refusal::Kind, text));
        }
        let mut facts = System::default().facts(path, &real_path, &metadata);
        safety::check_facts(&facts, options.least_bytes)?;
        let ring = ring::open()?;
        let file = system::open_direct(&real_path, &metadata).map_err(|error| cannot_open(path, &error))?;
        check_opened(path, &file, &metadata)?;
        let unit = direct_unit(path, &file, &facts)?;
        facts.logical_block_bytes.get_or_insert(unit);
        look_at_head(path, &file, &facts)?;
        let limits = Limits {
            sectors: facts.bytes / unit * unit / SECTOR,
            unit_sectors: (unit / SECTOR).max(1),
            buffer_bytes: options.buffer_bytes,
            can_trim: facts.kind == Kind::File || facts.discard_bytes.is_some_and(|bytes| bytes > 0),
        };
        Ok(Self {
            file,
            facts,
            options: options.clone(),
            limits,
            clock: Clock::new(source),
            ring: Some(ring),
            memory: Memory::new(options.buffer_bytes),
            versions: Versions::default(),
            version: 0,
            proofs: Proofs::default(),
        })
    }

    /// What the system said of the target when it was opened.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Sectors of 512 bytes that the target has.
    pub fn sectors(&self) -> u64 {
        self.limits.sectors
    }

    /// Addresses and lengths are multiples of this many sectors.
    pub fn unit_sectors(&self) -> u64 {
        self.limits.unit_sectors
    }

    /// Whether the target takes trims.
    pub fn can_trim(&self) -> bool {
        self.limits.can_trim
    }

    /// How many sectors were compared so far.
    pub fn proofs(&self) -> Proofs {
        self.proofs
    }

    /// Nanoseconds since the target was opened.
    ///
    /// # Errors
    /// When the clock went backwards.
    pub fn now_ns(&mut self) -> Result<u64, DeviceError> {
        self.clock.now().map_err(|cause| ended_early(cause, Measured::default()))
    }

    /// How many bytes of these sectors lie in the page cache of the system, in whole pages.
    ///
    /// # Errors
    /// When the system does not say it.
    pub fn cached_bytes(&self, lba: u64, sectors: u64) -> Result<u64, DeviceError> {
        system::cached_bytes(&self.file, lba * SECTOR, sectors * SECTOR)
            .map_err(|error| DeviceError::Unsupported(format!("pages of the page cache: {error}")))
    }

    /// What the system has counted of a block device. Requests that it merged or cut can be seen there, and those of others.
    /// `None` for a file: its device serves others as well.
    pub fn device_counts(&self) -> Option<DeviceCounts> {
        let metadata = self.file.metadata().ok()?;
        if self.facts.kind == Kind::File { None } else { System::default().counts(metadata.rdev()) }
    }

    /// Send requests and wait for their ends. `stop` asks for an early one.
    ///
    /// Trims and flushes are calls of their own: they wait for what is outstanding, and what follows waits for them.
    ///
    /// # Errors
    /// When the batch is wrong, and then nothing was sent; or when it ended early, with what was measured.
    pub fn send(
        &mut self,
        requests: &[Request],
        pace: Pace,
        stop: &AtomicBool,
    ) -> Result<Vec<Span>, DeviceError> {
        batch::check(requests, pace, &self.limits)?;
        let mut spans = Vec::with_capacity(requests.len());
        let (mut left, mut before) = (requests, 0);
        while !left.is_empty() {
            let count = batch::first_part(left, pace, self.limits.buffer_bytes);
            let part;
            (part, left) = left.split_at(count);
            let outcome = self.send_part(part, pace, before, stop)?;
            // The next part is as far behind this one as it would be without the pause between them.
            before = part.last().map_or(before, |request| request.arrival_ns);
            spans.extend(outcome.measured.spans);
            if let Some(cause) = outcome.failed {
                spans.resize(requests.len(), None);
                return Err(ended_early(cause, Measured { spans }));
            }
        }
        Ok(spans.into_iter().map(|span| span.expect("it has not ended early")).collect())
    }

    fn send_part(
        &mut self,
        requests: &[Request],
        pace: Pace,
        before: u64,
        stop: &AtomicBool,
    ) -> Result<Outcome, DeviceError> {
        let mut ring = self.ring.take().map_or_else(ring::open, Ok)?;
        let (places, versions) = self.prepare(requests);
        let line = Line {
            ring: &mut ring,
            clock: &mut self.clock,
            file: &self.file,
            block: self.facts.kind == Kind::Block,
            wait: self.options.wait,
            stop,
            memory: self.memory.bytes_mut().as_mut_ptr(),
        };
        let mut outcome = Run::new(line, requests, &places, pace, before).go();
        self.ring = (!outcome.spoilt).then_some(ring);
        if self.options.verify {
            let data = self.memory.bytes();
            let ended: Vec<Ended<'_>> = (0..requests.len())
                .map(|index| Ended {
                    request: &requests[index],
                    version: versions[index],
                    span: outcome.measured.spans[index],
                    data: &data[places[index]..places[index] + bytes_of(&requests[index])],
                })
                .collect();
            let proven = settle(&mut self.versions, &ended, self.options.seed, &mut self.proofs);
            if let Err((lba, text)) = proven {
                outcome.failed.get_or_insert(Cause::Contents { lba, text });
            }
        }
        Ok(outcome)
    }

    /// Give each request its place in memory, and writes their contents and versions.
    fn prepare(&mut self, requests: &[Request]) -> (Vec<usize>, Vec<u32>) {
        let (mut places, mut versions, mut at) = (Vec::new(), Vec::new(), 0);
        let memory = self.memory.bytes_mut();
        for request in requests {
            places.push(at);
            let data = &mut memory[at..at + bytes_of(request)];
            match request.op {
                Op::Write => {
                    // 0 is no version.
                    self.version = self.version.checked_add(1).unwrap_or(1);
                    pattern::fill(data, self.options.seed, request.lba, self.version);
                }
                Op::Read => pattern::spoil(data),
                Op::Trim | Op::Flush => {}
            }
            versions.push(self.version);
            at += data.len();
        }
        (places, versions)
    }

    /// Send nothing for a while.
    ///
    /// # Errors
    /// When `stop` asks for an early end, or the clock went backwards.
    pub fn idle(&mut self, ns: u64, stop: &AtomicBool) -> Result<(), DeviceError> {
        let ended = |cause| ended_early(cause, Measured::default());
        let due = self.clock.now().map_err(ended)?.saturating_add(ns);
        while !self.clock.sleep_towards(due).map_err(ended)? {
            if stop.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(ended(Cause::Interrupted));
            }
        }
        while self.clock.now().map_err(ended)? < due {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

fn ended_early(cause: Cause, measured: Measured) -> DeviceError {
    DeviceError::Failed(Box::new(Failed { cause, measured }))
}

/// Whether what was opened is what was looked at, and whether nobody else has it.
fn check_opened(path: &Path, file: &File, metadata: &Metadata) -> Result<(), DeviceError> {
    let path = path.display();
    let refused = |why, text: &str| Err(DeviceError::refused(why, format!("{path} {text}")));
    if !file.metadata().is_ok_and(|opened| same(&opened, metadata)) {
        return refused(Refusal::Changed, "is not the file any more that was looked at");
    }
    let taken = || {
        if system::lock(file).is_err() || (metadata.is_file() && system::has_other_users(file)) {
            return Some("another program has it open".into());
        }
        let opener = if metadata.is_file() { None } else { System::default().opener(metadata) };
        opener.map(|process| format!("{process} has it open"))
    };
    // A process that is just being started has copies of everything that is open, for a moment. So has what looks for file
    // systems on new devices.
    let mut found = String::new();
    for _ in 0..15 {
        match taken() {
            None => return Ok(()),
            Some(text) => found = text,
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    refused(Refusal::InUse, &format!("is in use: {found}"))
}

/// The multiple in bytes that requests past the page cache must be.
fn direct_unit(path: &Path, file: &File, facts: &Facts) -> Result<u64, DeviceError> {
    let without = || {
        let text = format!(
            "{} lies on a file system without O_DIRECT, which leads past the page cache",
            path.display()
        );
        DeviceError::refused(Refusal::NoDirectIo, text)
    };
    let alignment = system::direct_alignment(file);
    if alignment == Some(0) {
        return Err(without());
    }
    // A file system that does not say it takes at least its drive's blocks; 4 KiB is right for all of them.
    let from_block = if facts.kind == Kind::Block { facts.logical_block_bytes } else { None };
    let unit = alignment.or(from_block).unwrap_or(4096).max(SECTOR);
    if facts.kind == Kind::File && !proven_direct(file, unit as usize) {
        return Err(without());
    }
    Ok(unit)
}

/// Read something, and see whether the page cache has it then: some file systems take the flag and do not heed it.
fn proven_direct(file: &File, unit: usize) -> bool {
    let mut memory = Memory::new(unit);
    // Pages that wait to be written cannot be forgotten.
    if system::flush(file).is_err() {
        return true;
    }
    system::drop_cached(file);
    let cached = || system::cached_bytes(file, 0, unit as u64).ok();
    if cached() != Some(0) {
        return true;
    }
    // What fails here fails again in the first batch, with its cause.
    let _ = file.read_at(&mut memory.bytes_mut()[..unit], 0);
    cached() == Some(0)
}

/// Refuse a drive that begins with a table of partitions, whether the system has read it or not.
fn look_at_head(path: &Path, file: &File, facts: &Facts) -> Result<(), DeviceError> {
    if facts.kind == Kind::File {
        return Ok(());
    }
    let mut memory = Memory::new(HEAD);
    let read = file.read_at(&mut memory.bytes_mut()[..HEAD], 0).map_err(|error| cannot_open(path, &error))?;
    let block_bytes = facts.logical_block_bytes.unwrap_or(512) as usize;
    match safety::partition_table(&memory.bytes()[..read], block_bytes) {
        None => Ok(()),
        Some(kind) => {
            let text = format!("{} begins with a partition table ({kind}): wipe it first", path.display());
            Err(DeviceError::refused(Refusal::Partitioned, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    static TICKS: AtomicU64 = AtomicU64::new(0);

    /// A clock that is set back once.
    fn set_back() -> u64 {
        let tick = TICKS.fetch_add(1, Ordering::Relaxed);
        if tick == 40 { 1 } else { tick * 1000 + 1_000_000 }
    }

    #[test]
    fn a_clock_that_goes_backwards_ends_the_batch() {
        let folder =
            tempfile::Builder::new().tempdir_in(std::env::current_exe().unwrap().parent().unwrap()).unwrap();
        let path = folder.path().join("file");
        fs::write(&path, vec![0; 1 << 20]).unwrap();
        let options = Options { destroy: Some(path.clone()), ..Options::default() };
        let mut target = match Target::open_with(&path, &options, set_back) {
            Ok(target) => target,
            Err(DeviceError::Unsupported(why)) => return eprintln!("passed over: {why}"),
            Err(error) => return eprintln!("passed over: {error}"),
        };
        let request = Request { arrival_ns: 0, lba: 0, sectors: 8, op: Op::Read, stream: 0, fua: false };
        let error =
            target.send(&[request; 100], Pace::Closed { queue_depth: 4, gap_ns: 0 }, &AtomicBool::new(false));
        let Err(DeviceError::Failed(failed)) = error else { panic!("{error:?}") };
        assert!(matches!(failed.cause, Cause::Clock { after: 1, .. }), "{failed:?}");
        assert!(failed.measured.done() < 100);
        // Nothing is left behind, and the target goes on.
        let again = target
            .send(&[request; 3], Pace::Closed { queue_depth: 4, gap_ns: 0 }, &AtomicBool::new(false))
            .unwrap();
        assert!(again.iter().all(|span| span.end_ns >= span.start_ns));
    }
}
