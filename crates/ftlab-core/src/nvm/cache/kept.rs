//! What the cache keeps when the power is cut, and how a drive starts again with it.
//!
//! The directory is in the cache: which page each frame holds, and which pages were trimmed (tombstones). Each entry has an
//! age, which compares with those in the spare areas of flash. So of any two versions a mount knows which one is newer.
//!
//! Ages are also the order in which pages leave after a mount: those first that were written longest ago. The order of the
//! accesses is in memory, and gone: to keep it, each hit would have to write to the cache.
//!
//! What is written to a frame is there when the write has ended, with its entry. Until then the frame holds what it held.
//! What is given up is in the directory until the moment from which on the frame may be used again.
//!
//! For those who cut the power, a diary has all of this in the order of decisions, with the notes of when each was done.

use std::collections::BTreeMap;

use super::{Cached, Nvm};
use crate::access::Access;
use crate::buffer::order::FrameId;
use crate::cause::Cause;
use crate::config::DeviceConfig;
use crate::error::FlashResult;
use crate::flash::Flash;
use crate::flash::port::{FlashPort, Ticket};
use crate::geometry::{Lpn, Ppn};
use crate::layer::{Ftl, Layer, Newer};

/// How new something is: after how many programs of flash, and after how many changes of the cache. What came from flash
/// is as old as there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Age {
    programs: u32,
    changes: u32,
}

/// What a frame holds.
#[derive(Debug, Clone)]
struct Held {
    lpn: Lpn,
    age: Age,
    versions: Vec<u32>,
}

/// A cache without power.
#[derive(Debug, Clone, Default)]
pub(crate) struct Kept {
    frames: BTreeMap<u32, Held>,
    tombstones: BTreeMap<Lpn, Age>,
}

impl Kept {
    fn ages(&self) -> impl Iterator<Item = Age> {
        self.frames.values().map(|held| held.age).chain(self.tombstones.values().copied())
    }

    /// What a mount of flash needs not find.
    fn newer(&self) -> Vec<Newer> {
        let of_frame = |(_, held): (FrameId, &Held)| {
            let Age { programs, changes } = held.age;
            // Of what came from flash, the version there is as new.
            let stale = if changes == 0 { programs.saturating_sub(1) } else { programs };
            Newer { lpn: held.lpn, stale, cached: programs }
        };
        let trimmed = self.tombstones.iter();
        let trimmed =
            trimmed.map(|(lpn, age)| Newer { lpn: *lpn, stale: age.programs, cached: age.programs });
        self.pages().into_iter().map(of_frame).chain(trimmed).collect()
    }

    /// The frames whose pages were not trimmed since, from the oldest to the newest, each page once.
    fn pages(&self) -> Vec<(FrameId, &Held)> {
        let is_trimmed = |held: &Held| self.tombstones.get(&held.lpn).is_some_and(|trim| *trim > held.age);
        let mut pages: Vec<(FrameId, &Held)> = self
            .frames
            .iter()
            .map(|(frame, held)| (FrameId(*frame), held))
            .filter(|(_, held)| !is_trimmed(held))
            .collect();
        pages.sort_by_key(|(frame, held)| (held.age, frame.0));
        let newest: BTreeMap<Lpn, FrameId> = pages.iter().map(|(frame, held)| (held.lpn, *frame)).collect();
        pages.retain(|(frame, held)| newest[&held.lpn] == *frame);
        pages
    }
}

#[derive(Debug, Clone)]
enum Change {
    /// A frame holds this, or nothing.
    Frame(FrameId, Option<Held>),
    /// A page has been trimmed, or has newer data in flash.
    Tombstone(Lpn, Option<Age>),
}

/// All that happened to a cache.
#[derive(Debug, Clone, Default)]
pub(crate) struct Diary {
    /// What it was at first.
    before: Kept,
    /// Changes in the order of decisions, each with the note of when it was done.
    changes: Vec<(u32, Change)>,
    /// Changes that made something new, in this life and those before.
    count: u32,
}

impl Diary {
    /// The cache when the changes had been done whose notes `is_over` knows: the last of each frame, and of each page.
    pub(crate) fn kept(&self, is_over: impl Fn(u32) -> bool) -> Kept {
        let (mut frames, mut tombstones) = (BTreeMap::new(), BTreeMap::new());
        for (_, change) in self.changes.iter().rev().filter(|(note, _)| is_over(*note)) {
            match change {
                Change::Frame(frame, held) => _ = frames.entry(frame.0).or_insert(held.as_ref()),
                Change::Tombstone(lpn, age) => _ = tombstones.entry(*lpn).or_insert(*age),
            }
        }
        for (frame, held) in &self.before.frames {
            frames.entry(*frame).or_insert(Some(held));
        }
        for (lpn, age) in &self.before.tombstones {
            tombstones.entry(*lpn).or_insert(Some(*age));
        }
        let held = frames.into_iter().filter_map(|(frame, held)| Some((frame, held?.clone())));
        let trimmed = tombstones.into_iter().filter_map(|(lpn, age)| Some((lpn, age?)));
        Kept { frames: held.collect(), tombstones: trimmed.collect() }
    }

    /// The age of what comes after everything so far.
    fn now(&mut self, programs: u32) -> Age {
        self.count += 1;
        Age { programs, changes: self.count }
    }
}

impl<L, T: Ticket> Cached<L, T> {
    /// What was kept of it, for those who cut the power; `None` without a cache.
    pub(crate) fn take_diary(&mut self) -> Option<Diary> {
        self.nvm.as_mut()?.diary.take().map(|diary| *diary)
    }

    /// What it keeps when the power is cut now, and everything has ended.
    pub(crate) fn kept(&self) -> Kept {
        let diary = self.nvm.as_ref().and_then(|nvm| nvm.diary.as_ref());
        diary.map(|diary| diary.kept(|_| true)).unwrap_or_default()
    }

    /// Start again after a power cut, from what flash holds and what the cache has `kept`.
    ///
    /// # Errors
    /// As [`Ftl::mount`].
    pub(crate) fn mounted<P: FlashPort<Ticket = T>>(
        config: &DeviceConfig,
        seed: u64,
        flash: &mut Flash<P>,
        kept: &Kept,
    ) -> FlashResult<Self>
    where
        L: Ftl<P>,
    {
        // What is programmed from now on is newer than what the cache has, whatever never came to flash.
        flash.nand.count_from(kept.ages().map(|age| age.programs).max().unwrap_or(0));
        let below = L::mount(config, seed, flash, &kept.newer())?;
        let mut new = Self::new(config, below, flash);
        if let Some(nvm) = &mut new.nvm {
            nvm.restore(flash, &mut new.below, kept)?;
        }
        Ok(new)
    }
}

impl<T: Ticket> Nvm<T> {
    /// Take over what was `kept`, and tell the layer below, which has found the newest version of each page in flash.
    fn restore<P: FlashPort<Ticket = T>, L: Layer<P>>(
        &mut self,
        flash: &mut Flash<P>,
        below: &mut L,
        kept: &Kept,
    ) -> FlashResult<()> {
        for (lpn, trim) in &kept.tombstones {
            self.tombstones.put(lpn.0, true);
            if age_in_flash(flash, below, *lpn).is_some_and(|age| age < *trim) {
                let whole = Access { cause: Cause::Recovery, ..Access::span(*lpn, 1, 0, self.per_unit) };
                below.trim(flash, &whole, flash.port.ready())?;
            }
        }
        let mut before = Kept { frames: BTreeMap::new(), tombstones: kept.tombstones.clone() };
        let mut clean = Vec::new();
        for (frame, held) in kept.pages() {
            let in_flash = age_in_flash(flash, below, held.lpn);
            if in_flash.is_some_and(|age| age > held.age) {
                continue;
            }
            let is_dirty = in_flash != Some(held.age);
            self.enter(frame, held.lpn, is_dirty);
            self.frames.versions_mut(frame).copy_from_slice(&held.versions);
            before.frames.insert(frame.0, held.clone());
            if !is_dirty {
                clean.push(held.lpn);
                continue;
            }
            // What came from flash, and was given up there.
            self.by_collector.put(frame.0, self.cooperates && held.age.changes == 0);
            if self.cooperates && in_flash.is_some() {
                below.drop_copy(flash, held.lpn, flash.port.ready())?;
            }
        }
        self.frames.find_free();
        if self.cooperates {
            // At last: from here on, collection relies on the cache.
            for lpn in clean {
                below.set_removable(flash, lpn, true, flash.port.ready());
            }
        }
        if let Some(diary) = &mut self.diary {
            diary.count = kept.ages().map(|age| age.changes).max().unwrap_or(0);
            diary.before = before;
        }
        Ok(())
    }

    fn note_frame<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        frame: FrameId,
        since: T,
        age: impl FnOnce(&mut Diary, &Flash<P>) -> Age,
    ) {
        let Some(diary) = &mut self.diary else { return };
        let lpn = self.frames.page(frame).lpn;
        let held = Held { lpn, age: age(diary, flash), versions: self.frames.versions(frame).to_vec() };
        let note = flash.port.note_end(since);
        diary.changes.push((note, Change::Frame(frame, Some(held))));
    }

    /// A frame has newer data than flash when it is ready.
    pub(super) fn note_written<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, frame: FrameId) {
        let ready = self.frames.ready(&flash.port, frame);
        self.note_frame(flash, frame, ready, |diary, flash| diary.now(flash.nand.programmed()));
    }

    /// A frame has what flash has at `copy`, from `since` on.
    pub(super) fn note_clean<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        frame: FrameId,
        copy: Option<Ppn>,
        since: T,
    ) {
        let of = |flash: &Flash<P>| copy.map_or(0, |copy| flash.nand.age(copy).0);
        self.note_frame(flash, frame, since, |_, flash| Age { programs: of(flash), changes: 0 });
    }

    /// A frame has no page any more when it is ready.
    pub(super) fn note_free<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, frame: FrameId) {
        let Some(diary) = &mut self.diary else { return };
        let note = flash.port.note_end(self.frames.ready(&flash.port, frame));
        diary.changes.push((note, Change::Frame(frame, None)));
    }

    /// A page is trimmed now.
    pub(super) fn put_tombstone<P: FlashPort<Ticket = T>>(&mut self, flash: &mut Flash<P>, lpn: Lpn) {
        self.tombstones.put(lpn.0, true);
        let Some(diary) = &mut self.diary else { return };
        let age = diary.now(flash.nand.programmed());
        let ready = flash.port.ready();
        diary.changes.push((flash.port.note_end(ready), Change::Tombstone(lpn, Some(age))));
    }

    /// Newer data of a page are in flash from `written` on.
    pub(super) fn end_tombstone<P: FlashPort<Ticket = T>>(
        &mut self,
        flash: &mut Flash<P>,
        lpn: Lpn,
        written: T,
    ) {
        if !self.tombstones.has(lpn.0) {
            return;
        }
        self.tombstones.put(lpn.0, false);
        let Some(diary) = &mut self.diary else { return };
        diary.changes.push((flash.port.note_end(written), Change::Tombstone(lpn, None)));
    }
}

/// How new the version is that the layer below has found in flash.
fn age_in_flash<P: FlashPort, L: Layer<P>>(flash: &Flash<P>, below: &L, lpn: Lpn) -> Option<Age> {
    below.copy_of(lpn).map(|ppn| Age { programs: flash.nand.age(ppn).0, changes: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::port::CountingPort;
    use crate::ftl::{self, FtlVisitor};
    use serde_json::json;

    /// Accesses, and the pages in the order in which they would leave: before the power is cut, and after a mount.
    struct Orders<'a> {
        config: &'a DeviceConfig,
        accesses: &'a [(char, u32)],
    }

    impl FtlVisitor for Orders<'_> {
        type Output = [Vec<u32>; 2];

        fn visit<F: Ftl<CountingPort>>(self, below: F) -> Self::Output {
            let Orders { config, accesses } = self;
            let mut flash = Flash::new(config, &config.to_geometry(), true, CountingPort);
            flash.nand.keep_past();
            let mut drive = Cached::new(config, below, &flash);
            let mut versions = Vec::new();
            for (at, (op, page)) in (1..).zip(accesses) {
                let versions_written = [at; 8];
                let access = Access { versions: &versions_written, ..Access::span(Lpn(*page), 1, 0, 8) };
                match op {
                    'w' => drive.write(&mut flash, &access, ()),
                    _ => drive.read(&mut flash, &Access { versions: &[], ..access }, &mut versions, ()),
                }
                .unwrap();
            }
            let order = |drive: &Cached<F, ()>| {
                let nvm = drive.nvm.as_ref().unwrap();
                let mut frames = Vec::new();
                nvm.order.candidates(crate::buffer::front::NOBODY, 99, nvm.frames.pages(), &mut frames);
                frames.into_iter().map(|frame| nvm.frames.page(frame).lpn.0).collect()
            };
            let before = order(&drive);
            let kept = drive.kept();
            let mounted = Cached::<F, ()>::mounted(config, 1, &mut flash, &kept).unwrap();
            [before, order(&mounted)]
        }
    }

    #[test]
    fn after_a_mount_pages_leave_in_the_order_in_which_they_were_written() {
        let device = json!({
            "geometry": { "channels": 1, "ways": 1, "blocks_per_plane": 32, "pages_per_block": 8, "page_bytes": 4096 },
            "ftl": { "over_provisioning": 0.33 },
            "nvm": { "kind": "cdm", "bytes": 16384 },
        });
        let config: DeviceConfig = serde_json::from_value(device).unwrap();
        let orders = |text: &str| {
            let access = |word: &str| (word.chars().next().unwrap(), word[1..].parse().unwrap());
            let accesses: Vec<(char, u32)> = text.split_whitespace().map(access).collect();
            let orders = Orders { config: &config, accesses: &accesses };
            ftl::build(&config, &config.to_geometry(), 1, true, orders)
        };
        // Hits change the order in memory, which is gone with the power: what was written last stays longest.
        assert_eq!(orders("w3 w1 w2 w0"), [vec![3, 1, 2, 0], vec![3, 1, 2, 0]]);
        assert_eq!(orders("w3 w1 w2 w0 r3 r2"), [vec![1, 0, 3, 2], vec![3, 1, 2, 0]]);
        assert_eq!(orders("w3 w1 w2 w0 w3 r1"), [vec![2, 0, 3, 1], vec![1, 2, 0, 3]]);
        // What came from flash is as old as it is there: page 3 leaves for 4, which is written then, and comes back for 1.
        assert_eq!(orders("w3 w1 w2 w0 w4 r3"), [vec![2, 0, 4, 3], vec![2, 0, 3, 4]]);
    }
}
