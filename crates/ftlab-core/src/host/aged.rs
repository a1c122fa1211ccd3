//! Aged drives that are used again: runs of one process that differ only in what the host does share the ageing.
//!
//! A drive is kept as it was before its first request. A copy of it goes on as the original would, so a run does not tell
//! whether its drive was aged for it. A store may keep drives beyond the process, by the same keys: it holds on to the
//! engine that made them.

use std::any::Any;
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::config::{BufferConfig, DeviceConfig, HostConfig, OutOfRange, PowerConfig, PreconditionPattern};
use crate::error::RunError;
use crate::flash::port::CountingPort;
use crate::ftl::kinds::FtlKind;
use crate::host::request::SourceFactory;
use crate::host::{Drive, precondition};
use crate::layer::Ftl;
use crate::metrics::summary::PreconditionSummary;
use crate::run::RunControl;
use crate::tape::{Tape, Taped};

/// How often a run that waits for another one's drive looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// Drives as they were before their first request, by everything that made them so.
#[derive(Debug)]
pub struct AgedDrives {
    limit_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    entries: BTreeMap<String, Entry>,
    used_bytes: u64,
    /// Counts uses, to know the oldest.
    uses: u64,
    reused: u64,
}

/// A drive, or the promise of one.
#[derive(Debug)]
struct Entry {
    /// `None` while a run makes it.
    kept: Option<Arc<Mutex<Kept>>>,
    bytes: u64,
    last_use: u64,
}

struct Kept {
    /// A `Drive<F, CountingPort>` for the translation layer that the key names.
    drive: Box<dyn Any + Send>,
    precondition: Option<PreconditionSummary>,
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("precondition", &self.precondition).finish_non_exhaustive()
    }
}

/// Where the drive of a run may be found.
#[derive(Debug, Clone, Copy)]
pub struct Aged<'a> {
    /// Those of this process.
    pub drives: Option<&'a AgedDrives>,
    /// Those that outlive it. They are looked for when this process has none.
    pub store: Option<&'a dyn AgedStore>,
    /// What tells the workload from every other one, its seed and its length included. `None`: nothing does, and a drive that
    /// the workload itself ages is not shared.
    pub workload: Option<&'a str>,
}

/// Keeps aged drives beyond the process. It knows files and clocks, which the model does not, and never fails a run.
pub trait AgedStore: std::fmt::Debug + Sync {
    /// Let `read` read what was kept of `key`.
    fn find(&self, key: &str, read: &mut dyn FnMut(&mut dyn Read) -> io::Result<()>) -> Found;

    /// The time since some moment.
    fn now(&self) -> Duration;

    /// Keep what `write` writes, of a drive that took `took` to age, if that is worth it. `write` may say that it has
    /// nothing to keep ([`io::ErrorKind::Unsupported`]).
    fn keep(&self, key: &str, took: Duration, write: &mut dyn FnMut(&mut dyn Write) -> io::Result<()>);
}

/// What there was of a drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// All of it, and it was read.
    Whole,
    /// Nothing, and nothing was read.
    Nothing,
    /// Something was read that is not what was kept.
    Spoilt,
}

impl AgedDrives {
    /// Keep drives of `limit_bytes` in all at most; those that were used last stay.
    pub fn new(limit_bytes: u64) -> Self {
        Self { limit_bytes, state: Mutex::default(), changed: Condvar::new() }
    }

    /// How many runs have begun with a drive that was there.
    pub fn reused(&self) -> u64 {
        self.lock().reused
    }

    /// Bytes of the drives that are kept.
    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A run that has failed has left the table as it was.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The drive of this key, as soon as the run that makes it has. `None` when this run is to make it, or is not wanted any
    /// more.
    fn find(&self, key: &str, control: &RunControl) -> Option<Arc<Mutex<Kept>>> {
        let mut state = self.lock();
        loop {
            state.uses += 1;
            let uses = state.uses;
            match state.entries.get_mut(key) {
                None => {
                    state.entries.insert(key.to_owned(), Entry { kept: None, bytes: 0, last_use: uses });
                    return None;
                }
                Some(Entry { kept: Some(kept), last_use, .. }) => {
                    *last_use = uses;
                    let found = kept.clone();
                    state.reused += 1;
                    return Some(found);
                }
                Some(_) if control.is_cancelled() => return None,
                Some(_) => {
                    let waited = self.changed.wait_timeout(state, LOOK);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    /// Keep a drive, or give up the promise of it.
    fn put(&self, key: &str, made: Option<(Kept, u64)>) {
        let mut state = self.lock();
        let room = made.filter(|(_, bytes)| *bytes <= self.limit_bytes);
        if let Some((kept, bytes)) = room {
            while state.used_bytes + bytes > self.limit_bytes {
                let whole = state.entries.iter().filter(|(_, entry)| entry.kept.is_some());
                let Some(oldest) = whole.min_by_key(|(_, entry)| entry.last_use).map(|(key, _)| key.clone())
                else {
                    break;
                };
                let gone = state.entries.remove(&oldest).map_or(0, |entry| entry.bytes);
                state.used_bytes -= gone;
            }
            let last_use = state.uses;
            let kept = Some(Arc::new(Mutex::new(kept)));
            state.entries.insert(key.to_owned(), Entry { kept, bytes, last_use });
            state.used_bytes += bytes;
        } else {
            state.entries.remove(key);
        }
        self.changed.notify_all();
    }
}

/// Gives up the promise of a drive when a run ends without having made it, in whatever way.
struct Promise<'a> {
    drives: &'a AgedDrives,
    key: &'a str,
    made: Option<(Kept, u64)>,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.drives.put(self.key, self.made.take());
    }
}

/// What the state of a drive before its first request depends on. `None` where it takes no time to make, or depends on a
/// workload that nothing names. `None` also where a copy takes other memory than the drive itself.
fn key_of(config: &DeviceConfig, seed: u64, verify: bool, workload: Option<&str>) -> Option<String> {
    let aging = config.precondition.aging()?;
    let plain = config.ftl.kind.kind() == FtlKind::Page
        && !config.map_cache.kind.is_cache()
        && !config.nvm.is_on()
        && config.lsb_backup.copies().is_none()
        && config.power == PowerConfig::default();
    if !plain {
        return None;
    }
    let by = if aging.pattern == PreconditionPattern::Workload { workload? } else { "" };
    let out_of_range: OutOfRange = config.host.out_of_range;
    let gathers = config.gathers();
    // What the host does comes after the ageing. So does the buffer, but for the pages that it would have filled.
    let config = DeviceConfig {
        name: String::new(),
        description: String::new(),
        host: HostConfig { out_of_range, ..HostConfig::default() },
        buffer: BufferConfig::default(),
        ..config.clone()
    };
    let device = serde_json::to_string(&config).ok()?;
    Some(format!("{seed} {verify} {gathers} {device} {by}"))
}

/// What comes of a drive.
pub(crate) enum Readied {
    /// It is as it should be before the first request, or what is missing says why.
    Ready(Option<PreconditionSummary>, Option<RunError>),
    /// What was kept of it turned out to be damaged while it was read. Begin with another one.
    Spoilt,
}

/// As [`precondition::run`], with a drive that was aged before if there is one. `looks`: whether it is looked for in the store.
pub(crate) fn run<F: Ftl<CountingPort>>(
    config: &DeviceConfig,
    drive: &mut Drive<F, CountingPort>,
    workload: &dyn SourceFactory,
    seed: u64,
    control: &RunControl,
    aged: Option<Aged<'_>>,
    looks: bool,
) -> Readied {
    let age = |drive: &mut _| precondition::run(config, drive, workload, seed, control);
    let verify = drive.shadow.is_some();
    let aged = aged.filter(|aged| aged.drives.is_some() || aged.store.is_some());
    let key = aged.and_then(|aged| Some((aged, key_of(config, seed, verify, aged.workload)?)));
    let Some((Aged { drives, store, .. }, key)) = key else {
        let (precondition, failed) = age(drive);
        return Readied::Ready(precondition, failed);
    };
    if let Some(kept) = drives.and_then(|drives| drives.find(&key, control)) {
        let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = kept.drive.downcast_ref::<Drive<F, CountingPort>>() {
            let interrupt = drive.flash.interrupt.clone();
            drive.clone_from(there);
            drive.flash.interrupt = interrupt;
            return Readied::Ready(kept.precondition.clone(), None);
        }
    }
    let mut promise = drives.map(|drives| Promise { drives, key: &key, made: None });
    let mut precondition = PreconditionSummary::default();
    let found = store.filter(|_| looks).map_or(Found::Nothing, |store| {
        store.find(&key, &mut |input| {
            let mut tape = Tape::from(input);
            precondition.tape(&mut tape)?;
            drive.tape(&mut tape)
        })
    });
    let (precondition, failed) = match found {
        Found::Whole => (Some(precondition), None),
        Found::Spoilt => return Readied::Spoilt,
        Found::Nothing => {
            let began = store.map(AgedStore::now);
            let (mut precondition, failed) = age(drive);
            if let (Some(store), Some(began), Some(summary), None, false) =
                (store, began, &mut precondition, &failed, control.is_cancelled())
            {
                store.keep(&key, store.now().saturating_sub(began), &mut |out| {
                    let mut tape = Tape::to(out);
                    summary.tape(&mut tape)?;
                    drive.tape(&mut tape)
                });
            }
            (precondition, failed)
        }
    };
    if let Some(promise) = &mut promise
        && failed.is_none()
        && !control.is_cancelled()
    {
        let versions = drive.shadow.as_ref().map_or(0, |shadow| 4 * shadow.sectors());
        let bytes = drive.flash.table_bytes() + drive.top.table_bytes() + versions;
        let kept = Kept { drive: Box::new(drive.clone()), precondition: precondition.clone() };
        promise.made = Some((kept, bytes));
    }
    Readied::Ready(precondition, failed)
}
