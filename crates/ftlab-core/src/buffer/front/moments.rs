//! From when on frames may be used: of the few for which that is still to come.

use std::collections::VecDeque;

use crate::buffer::front::frames::FEW;
use crate::buffer::order::FrameId;
use crate::flash::port::{FlashPort, Ticket};

/// Frames whose moment has not passed; some whose moment has are still among them.
///
/// A ticket takes up to 16 bytes. An entry for every frame would be a third of all that is known of one, and nearly all of
/// them would be of the past. Where there are few frames and tickets are small, each has one all the same: nothing is
/// searched for then. So it is from the moment on at which so many have to be waited for that this takes less.
#[derive(Debug, Clone)]
pub(super) struct Moments<T: Ticket> {
    /// A table with open addresses: the number of a frame plus 1, or 0. A power of two of them. Empty where each frame has a moment.
    frames: Vec<u32>,
    /// The moments of those frames, or of all.
    moments: Row<T>,
    /// All frames.
    count: u32,
    /// How many of `frames` are not empty.
    used: usize,
    /// With more than this, those that have passed are looked for. There are not more frames, or a quarter would be empty.
    most: usize,
}

/// Of a number in the table while all of them are put in their places: this one is not yet.
const MOVES: u32 = 1 << 31;

impl<T: Ticket> Moments<T> {
    /// For so many frames, none of which has to be waited for; `ready` is a moment that has passed.
    pub(super) fn new(frames: u32, ready: T) -> Self {
        let (len, moments) = match frames as usize {
            _ if size_of::<T>() == 0 => (0, 0),
            few if frames <= FEW && size_of::<T::Short>() <= 8 => (0, few),
            many => {
                let len = (many / 8).next_power_of_two().clamp(16, 1024);
                (len, len)
            }
        };
        Self {
            frames: vec![0; len],
            moments: Row::new(moments, ready),
            count: frames,
            used: 0,
            most: len / 4 * 3,
        }
    }

    /// Whether each frame has a place of its own.
    #[inline(always)]
    fn is_direct(&self) -> bool {
        self.frames.is_empty()
    }

    /// The first place from the home of a frame on for which `is_it`.
    #[inline(always)]
    fn search(&self, frame: u32, is_it: impl Fn(u32) -> bool) -> usize {
        // The high bits of such a product lie far apart for numbers that follow each other.
        let high = u64::from(frame.wrapping_mul(0x9E37_79B9)) * self.frames.len() as u64;
        let mut at = (high >> 32) as usize;
        while !is_it(self.frames[at]) {
            at = (at + 1) & (self.frames.len() - 1);
        }
        at
    }

    /// Where a frame is in the table, or may be entered.
    #[inline(always)]
    fn place(&self, frame: FrameId) -> usize {
        self.search(frame.0, |of| of == 0 || of == frame.0 + 1)
    }

    #[inline]
    pub(super) fn get<P: FlashPort<Ticket = T>>(&self, port: &P, frame: FrameId) -> T {
        if size_of::<T>() == 0 {
            return port.ready();
        }
        if self.is_direct() {
            return self.moments.get(frame.0 as usize);
        }
        let at = self.place(frame);
        if self.frames[at] == 0 { port.ready() } else { self.moments.get(at) }
    }

    #[inline]
    pub(super) fn set<P: FlashPort<Ticket = T>>(&mut self, port: &P, frame: FrameId, moment: T) {
        if size_of::<T>() == 0 {
            return;
        }
        if self.is_direct() {
            self.moments.set(frame.0 as usize, moment);
            return;
        }
        let at = self.place(frame);
        if self.frames[at] == 0 {
            if port.has_passed(moment) {
                return;
            }
            self.frames[at] = frame.0 + 1;
            self.used += 1;
        }
        self.moments.set(at, moment);
        if self.used > self.most {
            self.forget(port);
        }
    }

    /// Forget those that have passed. Where many have not, make room for more, so that this is not done often.
    #[cold]
    #[inline(never)]
    fn forget<P: FlashPort<Ticket = T>>(&mut self, port: &P) {
        self.used = 0;
        for (at, of) in self.frames.iter_mut().enumerate() {
            if *of != 0 {
                *of = if port.has_passed(self.moments.get(at)) { 0 } else { *of | MOVES };
                self.used += usize::from(*of != 0);
            }
        }
        let len = self.frames.len();
        if self.used > len / 2 {
            if 2 * len * (size_of::<u32>() + self.moments.bytes_each())
                > self.count as usize * self.moments.bytes_each()
            {
                return self.give_each(port.ready());
            }
            self.frames.resize(2 * len, 0);
            self.moments.grow(2 * len, port.ready());
            self.most *= 2;
        }
        for from in 0..self.frames.len() {
            if self.frames[from] & MOVES == 0 {
                continue;
            }
            let (mut of, mut moment) = (std::mem::take(&mut self.frames[from]), self.moments.get(from));
            while of != 0 {
                of &= !MOVES;
                let to = self.search(of - 1, |other| other == 0 || other & MOVES != 0);
                // What is not in its place yet makes way.
                std::mem::swap(&mut self.frames[to], &mut of);
                let other = self.moments.get(to);
                self.moments.set(to, moment);
                moment = other;
            }
        }
    }

    /// Give each frame a moment: `ready`, where it has none.
    fn give_each(&mut self, ready: T) {
        let mut all = Row::new(self.count as usize, ready);
        for (at, of) in self.frames.drain(..).enumerate() {
            if let Some(frame) = (of & !MOVES).checked_sub(1) {
                all.set(frame as usize, self.moments.get(at));
            }
        }
        self.frames = Vec::new();
        self.moments = all;
    }

    /// Bytes of the table.
    pub(super) fn table_bytes(&self) -> u64 {
        (self.frames.capacity() * 4) as u64 + self.moments.table_bytes()
    }
}

/// Moments in the bytes that they need: from one on that needs more, all of them.
#[derive(Debug, Clone)]
enum Row<T: Ticket> {
    Short(Vec<T::Short>),
    Long(Vec<T>),
}

impl<T: Ticket> Row<T> {
    fn new(len: usize, ready: T) -> Self {
        match ready.short() {
            Some(short) => Row::Short(vec![short; len]),
            None => Row::Long(vec![ready; len]),
        }
    }

    #[inline(always)]
    fn get(&self, at: usize) -> T {
        match self {
            Row::Short(row) => T::long(row[at]),
            Row::Long(row) => row[at],
        }
    }

    #[inline(always)]
    fn set(&mut self, at: usize, moment: T) {
        match (&mut *self, moment.short()) {
            (Row::Short(row), Some(short)) => row[at] = short,
            (Row::Long(row), _) => row[at] = moment,
            (Row::Short(_), None) => {
                self.lengthen();
                self.set(at, moment);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn lengthen(&mut self) {
        if let Row::Short(row) = self {
            *self = Row::Long(row.iter().map(|short| T::long(*short)).collect());
        }
    }

    /// To a length of `len`, with more that are `ready`.
    fn grow(&mut self, len: usize, ready: T) {
        match (&mut *self, ready.short()) {
            (Row::Short(row), Some(short)) => row.resize(len, short),
            (Row::Long(row), _) => row.resize(len, ready),
            (Row::Short(_), None) => {
                self.lengthen();
                self.grow(len, ready);
            }
        }
    }

    const fn bytes_each(&self) -> usize {
        match self {
            Row::Short(_) => size_of::<T::Short>(),
            Row::Long(_) => size_of::<T>(),
        }
    }

    fn table_bytes(&self) -> u64 {
        let len = match self {
            Row::Short(row) => row.capacity(),
            Row::Long(row) => row.capacity(),
        };
        (len * self.bytes_each()) as u64
    }
}

/// Flushes that are on their way at most. Twice as many have numbers.
const MOST_FLUSHES: u16 = u16::MAX / 2;

/// Clean frames whose data still go to flash, as a flush or a write with FUA has written them: when they are there.
///
/// The frames of one flush have one moment. A frame has the number of its flush, of which few are on their way.
#[derive(Debug, Clone)]
pub(super) struct Cleaned<T> {
    /// The flush of each frame, or a lower number. Empty before the first flush.
    numbers: Vec<u16>,
    /// The moments of flushes from the number `first` on.
    moments: VecDeque<T>,
    first: u16,
    /// Frames have the number of the next flush.
    is_begun: bool,
}

impl<T> Default for Cleaned<T> {
    fn default() -> Self {
        Self { numbers: Vec::new(), moments: VecDeque::new(), first: 1, is_begun: false }
    }
}

impl<T: Ticket> Cleaned<T> {
    /// A frame of `count` is of the next flush.
    pub(super) fn add(&mut self, count: u32, frame: FrameId) {
        if size_of::<T>() == 0 {
            return;
        }
        self.numbers.resize(count as usize, 0);
        self.numbers[frame.0 as usize] = self.first + self.moments.len() as u16 - u16::from(self.is_full());
        self.is_begun = true;
    }

    /// Whether too many are on their way: the next one has the number of the last, and they are waited for together.
    fn is_full(&self) -> bool {
        self.moments.len() == usize::from(MOST_FLUSHES)
    }

    /// All frames of the flush are in flash at `moment`.
    pub(super) fn end<P: FlashPort<Ticket = T>>(&mut self, port: &mut P, moment: T) {
        if !std::mem::take(&mut self.is_begun) {
            return;
        }
        let is_full = self.is_full();
        match self.moments.back_mut() {
            Some(last) if is_full => *last = port.join(*last, moment),
            _ => self.moments.push_back(moment),
        }
        while self.moments.front().is_some_and(|moment| port.has_passed(*moment)) {
            self.moments.pop_front();
            self.first += 1;
        }
        if self.first > MOST_FLUSHES {
            let past = self.first - 1;
            self.numbers.iter_mut().for_each(|number| *number = number.saturating_sub(past));
            self.first = 1;
        }
    }

    /// When the data of a frame are in flash, if it was among the last to be cleaned.
    #[inline]
    pub(super) fn of(&self, frame: FrameId) -> Option<T> {
        let number = *self.numbers.get(frame.0 as usize)?;
        self.moments.get(usize::from(number.checked_sub(self.first)?)).copied()
    }

    /// A frame is free.
    #[inline]
    pub(super) fn forget(&mut self, frame: FrameId) {
        if let Some(number) = self.numbers.get_mut(frame.0 as usize) {
            *number = 0;
        }
    }

    pub(super) fn table_bytes(&self) -> u64 {
        (self.numbers.capacity() * 2 + self.moments.capacity() * size_of::<T>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::port::Submission;
    use crate::rng::Rng;

    /// Against a list of all frames: flushes that end in any order, more of them than have numbers, and many at a time.
    #[test]
    fn frames_are_of_the_flush_that_cleaned_them_last() {
        const FRAMES: u32 = 40;
        for lasts in [0, 50, 200_000] {
            let (mut now, mut cleaned) = (Now(0), Cleaned::default());
            let mut list = vec![At(0); FRAMES as usize];
            let mut rng = Rng::new(lasts, "cleaned");
            let mut is_exact = true;
            for step in 0..200_000 {
                now.0 = step;
                let moment = At(step + rng.below(lasts + 1));
                for _ in 0..rng.below(3) {
                    let frame = FrameId(rng.below(FRAMES.into()) as u32);
                    cleaned.add(FRAMES, frame);
                    list[frame.0 as usize] = moment;
                }
                is_exact &= !cleaned.is_full();
                cleaned.end(&mut now, moment);
                let frame = FrameId(rng.below(FRAMES.into()) as u32);
                let (found, right) = (cleaned.of(frame).unwrap_or(At(0)), list[frame.0 as usize]);
                assert!(
                    found == right
                        || now.has_passed(found) && now.has_passed(right)
                        || !is_exact && found.0 >= right.0,
                    "step {step}"
                );
                if rng.below(9) == 0 {
                    cleaned.forget(frame);
                    list[frame.0 as usize] = At(0);
                    assert_eq!(cleaned.of(frame), None);
                }
            }
            assert_eq!(is_exact, lasts < 1000);
            assert!(cleaned.moments.len() <= usize::from(MOST_FLUSHES));
        }
    }

    /// A moment. Those below 2^32 are short.
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct At(u64);

    impl Ticket for At {
        type Short = u32;

        fn short(self) -> Option<u32> {
            u32::try_from(self.0).ok()
        }

        fn long(short: u32) -> Self {
            Self(short.into())
        }
    }

    /// `.0` is now.
    struct Now(u64);

    impl FlashPort for Now {
        type Ticket = At;

        fn ready(&self) -> At {
            At(0)
        }

        fn join(&mut self, first: At, second: At) -> At {
            At(first.0.max(second.0))
        }

        fn submit(&mut self, _: Submission, after: At) -> At {
            after
        }

        fn has_passed(&self, moment: At) -> bool {
            moment.0 < self.0
        }
    }

    /// Against a list of all frames: some access one after the other, some anywhere, and now and then all.
    #[test]
    fn moments_to_come_are_kept_and_others_forgotten() {
        for (frames, most) in [(9_000, 2048), (FEW, 0), (FEW + 1, 2048)] {
            let (mut now, mut moments) = (Now(0), Moments::new(frames, At(0)));
            let mut list = vec![At(0); frames as usize];
            let mut rng = Rng::new(frames.into(), "moments");
            let mut largest = 0;
            for step in 0..200_000_u32 {
                now.0 = step.into();
                let any = rng.below(frames.into()) as u32;
                let frame = if rng.below(2) == 0 { step % frames } else { any };
                // One that is set to a moment that has passed needs no entry.
                let moment = At(if rng.below(9) == 0 { 0 } else { now.0 + rng.below(700) });
                moments.set(&now, FrameId(frame), moment);
                list[frame as usize] = moment;
                let asked = if rng.below(2) == 0 { frame } else { rng.below(frames.into()) as u32 };
                let (found, right) = (moments.get(&now, FrameId(asked)), list[asked as usize]);
                assert!(found == right || (now.has_passed(found) && now.has_passed(right)), "step {step}");
                largest = largest.max(moments.frames.len());
                if step % 1000 == 0 && !moments.is_direct() {
                    assert_eq!(moments.frames.iter().filter(|of| **of != 0).count(), moments.used);
                }
            }
            assert!(largest <= most, "{largest} entries");
            assert!(matches!(moments.moments, Row::Short(_)));
            let moment = |frame: u32| At(u64::MAX - u64::from(frame));
            for frame in 0..frames {
                moments.set(&now, FrameId(frame), moment(frame));
            }
            assert!((0..frames).all(|frame| moments.get(&now, FrameId(frame)) == moment(frame)));
            // All have to be waited for: each has a moment.
            assert_eq!((moments.is_direct(), moments.table_bytes()), (true, u64::from(frames) * 8));
        }
    }
}
