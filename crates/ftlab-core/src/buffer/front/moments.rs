//! From when on frames may be used: of the few for which that is still to come.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::buffer::order::FrameId;
use crate::flash::port::{FlashPort, Ticket};

/// Frames whose moment has not passed; some whose moment has are still among them.
///
/// A ticket takes up to 16 bytes. An entry for every frame would be a third of all that is known of one, and nearly all of
/// them would be of the past.
#[derive(Debug, Clone)]
pub(super) struct Moments<T> {
    of: HashMap<u32, T, BuildHasherDefault<Spread>>,
    /// With more entries than this, those that have passed are looked for.
    most: usize,
    /// Entries that are not worth looking through.
    few: usize,
}

impl<T: Ticket> Moments<T> {
    /// For so many frames, none of which has to be waited for.
    pub(super) fn new(frames: u32) -> Self {
        let few = (frames as usize / 32).clamp(16, 512);
        let of = HashMap::with_capacity_and_hasher(
            if size_of::<T>() == 0 { 0 } else { 2 * few },
            BuildHasherDefault::default(),
        );
        Self { of, most: few, few }
    }

    #[inline]
    pub(super) fn get<P: FlashPort<Ticket = T>>(&self, port: &P, frame: FrameId) -> T {
        if size_of::<T>() == 0 || self.of.is_empty() {
            return port.ready();
        }
        self.of.get(&frame.0).copied().unwrap_or_else(|| port.ready())
    }

    #[inline]
    pub(super) fn set<P: FlashPort<Ticket = T>>(&mut self, port: &P, frame: FrameId, moment: T) {
        if size_of::<T>() == 0 {
            return;
        }
        if port.has_passed(moment) {
            if !self.of.is_empty() {
                self.of.remove(&frame.0);
            }
            return;
        }
        self.of.insert(frame.0, moment);
        if self.of.len() > self.most {
            self.of.retain(|_, moment| !port.has_passed(*moment));
            self.most = (2 * self.of.len()).max(self.few);
            // A flush of everything may have made it large, once.
            if self.of.capacity() > 8 * self.most {
                self.of.shrink_to(self.most);
            }
        }
    }

    /// About as many bytes as the table takes.
    pub(super) fn table_bytes(&self) -> u64 {
        (self.of.capacity() * (size_of::<(u32, T)>() + 1)) as u64
    }
}

/// Spreads the numbers of frames. Nobody chooses them to collide, so that a product is enough.
#[derive(Debug, Clone, Copy, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32((*byte).into());
        }
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.0 = (self.0 ^ u64::from(number)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flash::port::Submission;

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

    #[test]
    fn moments_to_come_are_kept_and_others_forgotten() {
        let (mut now, mut moments) = (Now(0), Moments::new(9_000));
        for step in 0..100_000_u32 {
            now.0 = step.into();
            moments.set(&now, FrameId(step % 9_000), u64::from(step) + 700);
            let last = step.saturating_sub(700);
            for frame in last..=step {
                if frame % 97 == 0 {
                    assert_eq!(moments.get(&now, FrameId(frame % 9_000)), u64::from(frame) + 700);
                }
            }
        }
        assert!(moments.of.len() <= 2 * 701, "{} entries", moments.of.len());
        moments.set(&now, FrameId(99_999 % 9_000), 5);
        assert_eq!(moments.get(&now, FrameId(99_999 % 9_000)), 0, "it has passed");
    }
}
