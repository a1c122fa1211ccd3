//! The events of the port that keeps time event by event: which comes next.

use crate::time::Time;

/// No source.
const NONE: u32 = u32::MAX;

/// The next event of each source, as a tournament. A source has at most one event at a time, so the winner is found and
/// replaced in log2(sources) steps without moving anything.
#[derive(Debug, Clone)]
pub(super) struct EventTree {
    /// Earlier than all in the tree, or empty. An event that is the next one when it is scheduled never enters the tree.
    front: Key,
    /// `[1]` is the winner, leaves start at `leaves`.
    keys: Vec<Key>,
    leaves: usize,
    /// The source whose event is happening: its key is still in the tree, since it often has the next one at once.
    happening: u32,
}

/// When an event comes. Earlier ones win; of equal times, the one with the lower number; of equal numbers, the lane before
/// its channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    time: u64,
    /// The number, then the source.
    order: u64,
}

impl Key {
    const EMPTY: Key = Key { time: u64::MAX, order: u64::MAX };

    #[inline]
    fn source(self) -> u32 {
        self.order as u32 & ((1 << SOURCE_BITS) - 1)
    }

    #[inline]
    fn rank(self) -> u128 {
        u128::from(self.time) << 64 | u128::from(self.order)
    }
}

const SOURCE_BITS: u32 = 20;

impl EventTree {
    pub(super) fn new(sources: u32) -> Self {
        assert!(sources < 1 << SOURCE_BITS, "validated: fewer lanes and channels");
        let leaves = (sources as usize).next_power_of_two();
        Self { front: Key::EMPTY, keys: vec![Key::EMPTY; 2 * leaves], leaves, happening: NONE }
    }

    #[inline]
    pub(super) fn next(&mut self) -> Option<(Time, u64, u32)> {
        let event = |key: Key| (Time(key.time), key.order >> SOURCE_BITS, key.source());
        if self.front.time != u64::MAX {
            return Some(event(self.front));
        }
        if self.happening != NONE {
            let source = std::mem::replace(&mut self.happening, NONE);
            self.replay(source, Key::EMPTY);
        }
        let first = self.keys[1];
        (first.time != u64::MAX).then(|| event(first))
    }

    /// The event of `source`, which is the next, happens now.
    #[inline]
    pub(super) fn consume(&mut self, source: u32) {
        if self.front.time == u64::MAX {
            self.happening = source;
        } else {
            self.front = Key::EMPTY;
        }
    }

    #[inline]
    pub(super) fn schedule(&mut self, source: u32, at: Time, number: u64) {
        let mut key = Key { time: at.0, order: number << SOURCE_BITS | u64::from(source) };
        if self.happening != NONE {
            if source == self.happening {
                self.happening = NONE;
            }
        } else if self.front.time != u64::MAX {
            if key.rank() < self.front.rank() {
                std::mem::swap(&mut key, &mut self.front);
            }
        } else if key.rank() < self.keys[1].rank() {
            self.front = key;
            return;
        }
        let source = key.source();
        self.replay(source, key);
    }

    #[inline]
    fn replay(&mut self, source: u32, mut winner: Key) {
        let mut at = self.leaves + source as usize;
        self.keys[at] = winner;
        while at > 1 {
            let other = self.keys[at ^ 1];
            if other.rank() < winner.rank() {
                winner = other;
            }
            at /= 2;
            if self.keys[at] == winner {
                break;
            }
            self.keys[at] = winner;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_order_of_time_and_then_of_numbers() {
        for sources in [1, 3, 11, 17, 100] {
            let mut tree = EventTree::new(sources);
            let mut list: Vec<(u64, u64, u32)> = Vec::new();
            let mut rng = crate::rng::Rng::new(sources.into(), "events");
            let (mut now, mut number) = (0, 0);
            for _ in 0..20_000 {
                let source = rng.below(sources.into()) as u32;
                if list.iter().all(|(_, _, other)| *other != source) {
                    // Numbers need not ascend.
                    number += 1 + rng.below(3) * 7;
                    let at = now + rng.below(5);
                    let number = number ^ rng.below(8);
                    tree.schedule(source, Time(at), number);
                    list.push((at, number, source));
                } else {
                    let expected = *list.iter().min().unwrap();
                    assert_eq!(tree.next(), Some((Time(expected.0), expected.1, expected.2)));
                    tree.consume(expected.2);
                    now = expected.0;
                    list.retain(|event| *event != expected);
                }
            }
        }
    }
}
