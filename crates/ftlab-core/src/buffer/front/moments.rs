//! From when on frames may be used: of the few for which that is still to come.

use crate::buffer::front::frames::FEW;
use crate::buffer::order::FrameId;
use crate::flash::port::{FlashPort, Ticket};

/// Frames whose moment has not passed; some whose moment has are still among them.
///
/// A ticket takes up to 16 bytes. An entry for every frame would be a third of all that is known of one, and nearly all of
/// them would be of the past. Where there are few frames and tickets are small, each has one all the same: nothing is
/// searched for then. So it is from the moment on at which so many have to be waited for that this takes less.
#[derive(Debug, Clone)]
pub(super) struct Moments<T> {
    /// A table with open addresses: the number of a frame plus 1, or 0. A power of two of them. Empty where each frame has a moment.
    frames: Vec<u32>,
    /// The moments of those frames, or of all.
    moments: Vec<T>,
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
            few if frames <= FEW && size_of::<T>() <= 8 => (0, few),
            many => {
                let len = (many / 8).next_power_of_two().clamp(16, 1024);
                (len, len)
            }
        };
        Self {
            frames: vec![0; len],
            moments: vec![ready; moments],
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
            return self.moments[frame.0 as usize];
        }
        let at = self.place(frame);
        if self.frames[at] == 0 { port.ready() } else { self.moments[at] }
    }

    #[inline]
    pub(super) fn set<P: FlashPort<Ticket = T>>(&mut self, port: &P, frame: FrameId, moment: T) {
        if size_of::<T>() == 0 {
            return;
        }
        if self.is_direct() {
            self.moments[frame.0 as usize] = moment;
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
        self.moments[at] = moment;
        if self.used > self.most {
            self.forget(port);
        }
    }

    /// Forget those that have passed. Where many have not, make room for more, so that this is not done often.
    #[cold]
    #[inline(never)]
    fn forget<P: FlashPort<Ticket = T>>(&mut self, port: &P) {
        self.used = 0;
        for (of, moment) in self.frames.iter_mut().zip(&self.moments) {
            if *of != 0 {
                *of = if port.has_passed(*moment) { 0 } else { *of | MOVES };
                self.used += usize::from(*of != 0);
            }
        }
        let len = self.frames.len();
        if self.used > len / 2 {
            if 2 * len * (size_of::<u32>() + size_of::<T>()) > self.count as usize * size_of::<T>() {
                return self.give_each(port.ready());
            }
            self.frames.resize(2 * len, 0);
            self.moments.resize(2 * len, port.ready());
            self.most *= 2;
        }
        for from in 0..self.frames.len() {
            if self.frames[from] & MOVES == 0 {
                continue;
            }
            let (mut of, mut moment) = (std::mem::take(&mut self.frames[from]), self.moments[from]);
            while of != 0 {
                of &= !MOVES;
                let to = self.search(of - 1, |other| other == 0 || other & MOVES != 0);
                // What is not in its place yet makes way.
                std::mem::swap(&mut self.frames[to], &mut of);
                std::mem::swap(&mut self.moments[to], &mut moment);
            }
        }
    }

    /// Give each frame a moment: `ready`, where it has none.
    fn give_each(&mut self, ready: T) {
        let mut all = vec![ready; self.count as usize];
        for (of, moment) in self.frames.drain(..).zip(&self.moments) {
            if let Some(frame) = (of & !MOVES).checked_sub(1) {
                all[frame as usize] = *moment;
            }
        }
        self.frames = Vec::new();
        self.moments = all;
    }

    /// Bytes of the table.
    pub(super) fn table_bytes(&self) -> u64 {
        (self.frames.capacity() * 4 + self.moments.capacity() * size_of::<T>()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::port::Submission;
    use crate::rng::Rng;

    /// Tickets are moments, and `.0` is now.
    struct Now(u64);

    impl FlashPort for Now {
        type Ticket = u64;

        fn ready(&self) -> u64 {
            0
        }

        fn join(&mut self, first: u64, second: u64) -> u64 {
            first.max(second)
        }

        fn submit(&mut self, _: Submission, after: u64) -> u64 {
            after
        }

        fn has_passed(&self, moment: u64) -> bool {
            moment < self.0
        }
    }

    /// Against a list of all frames: some access one after the other, some anywhere, and now and then all.
    #[test]
    fn moments_to_come_are_kept_and_others_forgotten() {
        for (frames, most) in [(9_000, 2048), (FEW, 0), (FEW + 1, 2048)] {
            let (mut now, mut moments) = (Now(0), Moments::new(frames, 0));
            let mut list = vec![0; frames as usize];
            let mut rng = Rng::new(frames.into(), "moments");
            let mut largest = 0;
            for step in 0..200_000_u32 {
                now.0 = step.into();
                let any = rng.below(frames.into()) as u32;
                let frame = if rng.below(2) == 0 { step % frames } else { any };
                // One that is set to a moment that has passed needs no entry.
                let moment = if rng.below(9) == 0 { 0 } else { now.0 + rng.below(700) };
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
            let moment = |frame: u32| u64::MAX - u64::from(frame);
            for frame in 0..frames {
                moments.set(&now, FrameId(frame), moment(frame));
            }
            assert!((0..frames).all(|frame| moments.get(&now, FrameId(frame)) == moment(frame)));
            // All have to be waited for: each has a moment.
            assert_eq!((moments.is_direct(), moments.table_bytes()), (true, u64::from(frames) * 8));
        }
    }
}
