//! Frames: which page each has, which of its sectors it holds, and which of them are newer than in flash.

use std::collections::VecDeque;

use crate::buffer::front::directory::{Directory, NONE};
use crate::buffer::front::moments::{Cleaned, Moments};
use crate::buffer::order::{Buffered, FrameId, LOOKED_AT, Pages};
use crate::flash::port::{FlashPort, Ticket};
use crate::geometry::Lpn;
use crate::table;

/// A set of sectors of a unit, for each frame. Units have at most 64 sectors, and most have 8.
#[derive(Debug, Clone)]
struct Masks {
    words: Vec<u64>,
    /// Base-2 logarithm of the sectors of a unit, and the set of all of them.
    shift: u32,
    full: u64,
}

impl Masks {
    fn new(frames: u32, shift: u32) -> Self {
        let bits = u64::from(frames) << shift;
        Self { words: table::zeros(bits.div_ceil(64) as usize), shift, full: u64::MAX >> (64 - (1 << shift)) }
    }

    /// The word of a frame, and where in it its bits begin.
    #[inline]
    fn place(&self, frame: FrameId) -> (usize, u32) {
        let bit = u64::from(frame.0) << self.shift;
        ((bit / 64) as usize, (bit % 64) as u32)
    }

    #[inline]
    fn get(&self, frame: FrameId) -> u64 {
        let (word, bit) = self.place(frame);
        (self.words[word] >> bit) & self.full
    }

    /// Put `mask` into the set.
    #[inline]
    fn add(&mut self, frame: FrameId, mask: u64) {
        let (word, bit) = self.place(frame);
        self.words[word] |= mask << bit;
    }

    /// Empty the set; returns what was in it.
    #[inline]
    fn take(&mut self, frame: FrameId) -> u64 {
        let (word, bit) = self.place(frame);
        let word = &mut self.words[word];
        let mask = (*word >> bit) & self.full;
        *word ^= mask << bit;
        mask
    }

    #[inline]
    fn set(&mut self, frame: FrameId, mask: u64) {
        let (word, bit) = self.place(frame);
        let word = &mut self.words[word];
        *word = (*word & !(self.full << bit)) | (mask << bit);
    }
}

/// The tables of so few frames stay in the cache of a processor without being asked for.
pub(super) const FEW: u32 = 1024;

/// Free frames in a row that became free with one event, and may be written from its end on. Where a frame's own moment is
/// still to come, it is not earlier.
#[derive(Debug, Clone, Copy)]
struct Together<T> {
    /// Free frames ahead of them, behind those of the entry before.
    ahead: u32,
    count: u32,
    from: T,
}

/// Free frames that had a page before: how many, the one that became free first, and the last.
#[derive(Debug, Clone, Copy, Default)]
struct Freed {
    len: u32,
    first: u32,
    last: u32,
}

/// The frames of a buffer. A frame has a page, or is free.
#[derive(Debug, Clone)]
pub(crate) struct Frames<T: Ticket> {
    /// The page of each frame. Of a free one the next that is free, or `NONE`; of one that never had a page `NONE`.
    lpns: Vec<u32>,
    held: Masks,
    dirty: Masks,
    /// When what a frame holds is there; for a free one, when it may be written.
    ready: Moments<T>,
    /// Of frames that were cleaned, when what they hold is in flash.
    cleaned: Cleaned<T>,
    directory: Directory,
    /// Frames from this one on have never had a page.
    fresh: u32,
    /// Other free frames, in the order in which they became free.
    freed: Freed,
    /// Those of them for which an event is to be waited for, too.
    together: VecDeque<Together<T>>,
    /// Free frames behind the last of those.
    alone: u32,
    /// What `freed` was when the event under way began: no frame has been taken since.
    freed_before: Freed,
    /// With verification, versions of the sectors of each frame.
    versions: Vec<u32>,
    /// How many a frame has.
    versions_each: usize,
    /// Frames whose dirty sectors are not empty.
    dirty_frames: u32,
    /// Frames with a page.
    used: u32,
}

impl<T: Ticket> Frames<T> {
    /// As many as `frames` for a drive of `pages`, all free. What is held and dirty is known for each of the
    /// `parts` of a page, and as many versions as `versions_each`. `ready` is a moment that has passed. With `is_dense`, pages
    /// are found a little later in less memory.
    pub(crate) fn new(
        frames: u32,
        pages: u32,
        parts: u32,
        versions_each: u32,
        ready: T,
        is_dense: bool,
    ) -> Self {
        let shift = parts.trailing_zeros();
        let mut lpns = table::zeros(frames as usize);
        lpns.fill(NONE);
        Self {
            lpns,
            held: Masks::new(frames, shift),
            dirty: Masks::new(frames, shift),
            ready: Moments::new(frames, ready),
            cleaned: Cleaned::default(),
            directory: Directory::new(frames, pages, is_dense),
            fresh: 0,
            freed: Freed::default(),
            together: VecDeque::new(),
            alone: 0,
            freed_before: Freed::default(),
            versions: vec![0; frames as usize * versions_each as usize],
            versions_each: versions_each as usize,
            dirty_frames: 0,
            used: 0,
        }
    }

    pub(crate) fn count(&self) -> u32 {
        self.lpns.len() as u32
    }

    /// In ascending order of their pages.
    pub(crate) fn sort_by_page(&self, frames: &mut [FrameId]) {
        frames.sort_unstable_by_key(|frame| self.page(*frame).lpn.0);
    }

    pub(crate) fn dirty_frames(&self) -> u32 {
        self.dirty_frames
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        (self.lpns.len() * 4
            + self.held.words.len() * 8
            + self.dirty.words.len() * 8
            + self.together.capacity() * size_of::<Together<T>>()) as u64
            + self.directory.table_bytes()
            + self.ready.table_bytes()
            + self.cleaned.table_bytes()
    }

    /// The frame of a page.
    #[inline]
    pub(crate) fn find(&self, lpn: Lpn) -> Option<FrameId> {
        self.directory.find(lpn, &self.lpns).map(FrameId)
    }

    /// Whether a frame has a page.
    fn is_used(&self, frame: FrameId) -> bool {
        let lpn = self.page(frame).lpn;
        lpn.0 != NONE && self.find(lpn) == Some(frame)
    }

    /// `lpn` will be looked for soon: ask the processor for what that will touch. Gives the frame that likely has it, in the
    /// stages that know one.
    #[inline]
    pub(crate) fn prefetch(&self, lpn: Lpn, stage: u32) -> Option<FrameId> {
        if stage == 0 {
            self.directory.prefetch(lpn);
            return None;
        }
        // Whether it is the one is found out when it is needed: a search would make this jump.
        let frame = self.directory.guess(lpn);
        if let (Some(frame), 1) = (frame, stage) {
            self.prefetch_frame(frame);
        }
        frame.map(FrameId)
    }

    /// Ask the processor for what is known of a frame.
    #[inline]
    pub(crate) fn prefetch_frame(&self, frame: u32) {
        if frame != NONE {
            let word = self.held.place(FrameId(frame)).0;
            table::prefetch(&self.lpns, frame as usize);
            table::prefetch(&self.held.words, word);
            table::prefetch(&self.dirty.words, word);
        }
    }

    /// The next victims are likely those of `frames`, one each: ask the processor for what they will touch, each a stage
    /// further than the one after it. `below` hears of their pages and stages.
    #[inline]
    pub(crate) fn prefetch_victims(&self, frames: [u32; LOOKED_AT], below: impl Fn(Lpn, u32)) {
        let [nearer @ .., last] = frames;
        self.prefetch_frame(last);
        for (stage, frame) in (0..).zip(nearer.into_iter().rev()) {
            if let Some(lpn) = self.lpns.get(frame as usize).filter(|lpn| **lpn != NONE) {
                below(Lpn(*lpn), stage);
            }
        }
    }

    /// How many frames are free.
    pub(crate) fn free(&self) -> usize {
        (self.count() - self.fresh + self.freed.len) as usize
    }

    /// The frame that has been free for longest, for a page that enters it, and from when on it may be written.
    #[inline]
    pub(crate) fn take_free<P: FlashPort<Ticket = T>>(&mut self, port: &P) -> Option<(FrameId, T)> {
        if self.fresh < self.count() {
            self.fresh += 1;
            return Some((FrameId(self.fresh - 1), port.ready()));
        }
        let frame = self.take_freed()?;
        let own = self.ready.get(port, frame);
        match self.together.front_mut() {
            Some(Together { ahead: 0, count, from }) => {
                *count -= 1;
                let (is_last, from) = (*count == 0, *from);
                if is_last {
                    self.together.pop_front();
                }
                return Some((frame, if port.has_passed(own) { from } else { own }));
            }
            Some(Together { ahead, .. }) => *ahead -= 1,
            None => self.alone -= u32::from(size_of::<T>() > 0),
        }
        Some((frame, own))
    }

    /// Pages have entered frames that were not taken: the others are free, in their order.
    pub(crate) fn find_free(&mut self) {
        self.fresh = self.count();
        self.freed = Freed::default();
        for frame in (0..self.count()).map(FrameId) {
            if !self.is_used(frame) {
                self.add_freed(frame);
            }
        }
        self.together.clear();
        self.alone = if size_of::<T>() > 0 { self.freed.len } else { 0 };
    }

    /// `frame`, which is free, takes a page of which it holds nothing so far.
    pub(crate) fn enter(&mut self, frame: FrameId, lpn: Lpn) {
        self.directory.enter(lpn, frame.0);
        self.lpns[frame.0 as usize] = lpn.0;
        self.used += 1;
        self.held.set(frame, 0);
    }

    /// Pages that leave from now on leave together.
    pub(crate) fn begin_event(&mut self) {
        self.freed_before = self.freed;
    }

    /// All pages of the event have left. Their frames may be written from `from` on, and not before their own moments.
    pub(crate) fn end_event<P: FlashPort<Ticket = T>>(&mut self, port: &mut P, from: T) {
        if size_of::<T>() == 0 || port.has_passed(from) {
            return;
        }
        let Freed { len, last, .. } = self.freed_before;
        let count = self.freed.len - len;
        let mut next = if len == 0 { self.freed.first } else { self.lpns[last as usize] };
        while let Some(last) = self.together.back().filter(|last| port.has_passed(last.from)) {
            self.alone += last.ahead + last.count;
            self.together.pop_back();
        }
        let is_each = self.together.len() >= self.most_together();
        for _ in 0..count {
            let frame = FrameId(next);
            next = self.lpns[frame.0 as usize];
            let own = self.ready.get(port, frame);
            if is_each || !port.has_passed(own) {
                let moment = port.join(from, own);
                self.ready.set(port, frame, moment);
            }
        }
        if count > 0 && !is_each {
            self.together.push_back(Together { ahead: self.alone - count, count, from });
            self.alone = 0;
        }
    }

    /// Entries of `together` at most. More are needed only where many evictions of few frames are on their way.
    fn most_together(&self) -> usize {
        (self.count() as usize / 64).max(4)
    }

    /// What was dirty of `frame` goes to flash now, and stays in the frame.
    pub(crate) fn clean(&mut self, frame: FrameId) {
        self.set_dirty(frame, 0);
        self.cleaned.add(self.count(), frame);
    }

    /// All that was [cleaned](Self::clean) since the last call is in flash at `moment`.
    pub(crate) fn end_cleaning<P: FlashPort<Ticket = T>>(&mut self, port: &mut P, moment: T) {
        self.cleaned.end(port, moment);
    }

    /// `frame` becomes free. If it is clean, nothing else enters it while what was cleaned goes to flash.
    #[inline]
    pub(crate) fn hold<P: FlashPort<Ticket = T>>(&mut self, port: &mut P, frame: FrameId) {
        if let Some(moment) = self.cleaned.of(frame)
            && self.dirty(frame) == 0
            && !port.has_passed(moment)
        {
            let moment = port.join(self.ready.get(port, frame), moment);
            self.ready.set(port, frame, moment);
        }
    }

    /// `frame` is free: its page has left. From its moment on it may be written.
    pub(crate) fn leave(&mut self, frame: FrameId) {
        self.alone += u32::from(size_of::<T>() > 0);
        self.dirty_frames -= u32::from(self.dirty.take(frame) != 0);
        self.used -= 1;
        self.directory.leave(self.page(frame).lpn, frame.0, &self.lpns);
        self.cleaned.forget(frame);
        self.add_freed(frame);
    }

    /// `frame` is the last that became free.
    #[inline]
    fn add_freed(&mut self, frame: FrameId) {
        let Freed { len, first, last } = &mut self.freed;
        let before = if *len == 0 { first } else { &mut self.lpns[*last as usize] };
        *before = frame.0;
        *last = frame.0;
        self.lpns[frame.0 as usize] = NONE;
        *len += 1;
    }

    /// The first that became free is so no more.
    #[inline]
    fn take_freed(&mut self) -> Option<FrameId> {
        self.freed.len = self.freed.len.checked_sub(1)?;
        let first = self.freed.first;
        self.freed.first = self.lpns[first as usize];
        Some(FrameId(first))
    }

    /// The page of a frame.
    #[inline]
    pub(crate) fn page(&self, frame: FrameId) -> Buffered {
        Buffered { frame, lpn: Lpn(self.lpns[frame.0 as usize]) }
    }

    /// Which page each frame has.
    #[inline]
    pub(crate) fn pages(&self) -> Pages<'_> {
        Pages::new(&self.lpns)
    }

    /// All frames that have a page.
    pub(crate) fn in_use(&self) -> impl Iterator<Item = Buffered> {
        let used = (0..self.count()).map(FrameId).filter(|frame| self.is_used(*frame));
        used.map(|frame| self.page(frame))
    }

    #[inline]
    pub(crate) fn held(&self, frame: FrameId) -> u64 {
        self.held.get(frame)
    }

    #[inline]
    pub(crate) fn set_held(&mut self, frame: FrameId, mask: u64) {
        self.held.set(frame, mask);
    }

    #[inline]
    pub(crate) fn dirty(&self, frame: FrameId) -> u64 {
        self.dirty.get(frame)
    }

    /// The sectors that go to flash with a write of `mask` to the page of a frame. A frame that holds the rest of the unit
    /// gives it, so that nothing is read first.
    #[inline]
    pub(crate) fn completed(&self, frame: FrameId, mask: u64) -> u64 {
        let full = self.held.full;
        if mask != 0 && self.held.get(frame) | mask == full { full } else { mask }
    }

    /// The sectors of a frame that go to flash, if they follow each other.
    #[inline]
    pub(crate) fn leaving_span(&self, frame: FrameId) -> Option<std::ops::Range<u32>> {
        let mask = self.completed(frame, self.dirty.get(frame));
        if mask == 0 {
            return None;
        }
        let start = mask.trailing_zeros();
        let row = mask >> start;
        (row & row.wrapping_add(1) == 0).then(|| start..64 - mask.leading_zeros())
    }

    #[inline]
    pub(crate) fn set_dirty(&mut self, frame: FrameId, mask: u64) {
        let before = self.dirty.get(frame);
        self.dirty_frames += u32::from(mask != 0);
        self.dirty_frames -= u32::from(before != 0);
        self.dirty.set(frame, mask);
    }

    /// A frame holds newer data than flash of these sectors, beside what it held.
    #[inline]
    pub(crate) fn written(&mut self, frame: FrameId, mask: u64) {
        self.dirty_frames += u32::from(self.dirty.get(frame) == 0 && mask != 0);
        self.dirty.add(frame, mask);
        self.held.add(frame, mask);
    }

    #[inline]
    pub(crate) fn ready<P: FlashPort<Ticket = T>>(&self, port: &P, frame: FrameId) -> T {
        self.ready.get(port, frame)
    }

    #[inline]
    pub(crate) fn set_ready<P: FlashPort<Ticket = T>>(&mut self, port: &P, frame: FrameId, ready: T) {
        self.ready.set(port, frame, ready);
    }

    /// The versions of the sectors of a frame; empty without verification.
    pub(crate) fn versions(&self, frame: FrameId) -> &[u32] {
        let start = frame.0 as usize * self.versions_each;
        self.versions.get(start..start + self.versions_each).unwrap_or_default()
    }

    /// The same, to be changed.
    pub(crate) fn versions_mut(&mut self, frame: FrameId) -> &mut [u32] {
        let start = frame.0 as usize * self.versions_each;
        self.versions.get_mut(start..start + self.versions_each).unwrap_or_default()
    }

    /// Recount everything.
    pub(crate) fn verify(&self) -> Result<(), String> {
        let (mut used, mut dirty) = (0, 0);
        for Buffered { frame, .. } in self.in_use() {
            used += 1;
            dirty += u32::from(self.dirty(frame) != 0);
            if self.dirty(frame) & !self.held(frame) != 0 || self.held(frame) == 0 {
                return Err(format!(
                    "frame {} holds {:b}, dirty {:b}",
                    frame.0,
                    self.held(frame),
                    self.dirty(frame)
                ));
            }
        }
        let entries = self.directory.count();
        if used != self.used || entries != used as usize || dirty != self.dirty_frames {
            return Err(format!(
                "{used} frames have pages, {dirty} of them dirty; {} and {} were counted, {entries} are found",
                self.used, self.dirty_frames
            ));
        }
        let mut free = self.count() - self.fresh;
        let mut next = self.freed.first;
        for _ in 0..self.freed.len {
            let is_free = next != NONE && !self.is_used(FrameId(next)) && self.dirty(FrameId(next)) == 0;
            free += u32::from(is_free);
            next = self.lpns.get(next as usize).copied().unwrap_or(NONE);
        }
        if used + free != self.count() {
            return Err(format!("{used} frames have pages and {free} are free, of {}", self.count()));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::port::CountingPort;
    use crate::rng::Rng;

    #[test]
    fn every_page_is_found_where_it_is() {
        // With 77 pages an entry for each page, otherwise a table with open addresses, of longer entries for many frames.
        for (count, pages, parts) in
            [(50, 360, 1), (50, 360, 8), (50, 360, 64), (50, 77, 8), (66_000, 149_000, 8)]
        {
            let mut frames = Frames::<()>::new(count, pages, parts, parts, (), parts == 1);
            let mut free: VecDeque<u32> = (0..count).collect();
            let mut model = std::collections::BTreeMap::new();
            let mut rng = Rng::new(u64::from(parts), "frames");
            for step in 0..20_000.max(4 * u64::from(count)) {
                let lpn = rng.below(pages.into()) as u32;
                match (frames.find(Lpn(lpn)), model.get(&lpn).copied()) {
                    (Some(frame), Some((known, mask))) => {
                        assert_eq!((frame.0, frames.held(frame)), (known, mask));
                        if step % 2 == 0 {
                            frames.leave(frame);
                            model.remove(&lpn);
                            free.push_back(known);
                        }
                    }
                    (None, None) => {
                        let taken = frames.take_free(&CountingPort);
                        assert_eq!(
                            taken.map(|(frame, ())| frame.0),
                            free.pop_front(),
                            "the first that became free"
                        );
                        let Some((frame, ())) = taken else { continue };
                        let mask = (rng.below(u64::MAX) | 1) & (u64::MAX >> (64 - parts));
                        frames.enter(frame, Lpn(lpn));
                        frames.set_held(frame, mask);
                        frames.set_dirty(frame, mask);
                        model.insert(lpn, (frame.0, mask));
                    }
                    other => panic!("page {lpn}: {other:?}"),
                }
                if step % (500 + u64::from(count)) == 0 {
                    frames.verify().unwrap();
                }
            }
        }
    }
}
