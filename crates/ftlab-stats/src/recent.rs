//! Which pages were accessed last, and in which order: exact reuse distances where they are short.

use super::access_order::AccessOrder;
use super::pages::GROUP;

/// Distances below this are exact.
pub(super) const RECENT: u64 = 1 << 12;
/// Accesses between two clean-ups and the pages that are left by them.
const SLOTS: usize = 1 << 14;
/// Places for groups, at least.
const PLACES: usize = 1 << 12;
const ABSENT: u16 = u16::MAX;

/// When the pages of a group were accessed last. 16 bytes, so that all of them stay near the processor.
#[derive(Debug, Clone, Copy)]
struct Group {
    key: u64,
    slots: [u16; GROUP as usize],
}

/// No scattered name is 0.
const EMPTY: Group = Group { key: 0, slots: [ABSENT; GROUP as usize] };

/// At least the [`RECENT`] pages that were accessed last, in order of their last access.
#[derive(Debug)]
pub(super) struct Recent {
    /// A power of two, and at most half of them in use.
    groups: Vec<Group>,
    used: usize,
    spare: Vec<Group>,
    line: AccessOrder,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self { groups: vec![EMPTY; PLACES], used: 0, spare: Vec::new(), line: AccessOrder::new(SLOTS) }
    }

    /// How many pages are known.
    #[inline(always)]
    pub(super) fn pages(&self) -> usize {
        self.line.live()
    }

    /// Forget all.
    pub(super) fn clear(&mut self) {
        self.groups.fill(EMPTY);
        self.used = 0;
        self.line = AccessOrder::new(SLOTS);
    }

    /// Where the group named `key` is: made where it is absent. Good until the next group is asked for.
    #[inline(always)]
    pub(super) fn group(&mut self, key: u64) -> usize {
        if self.line.left() < GROUP as usize {
            self.clean_up();
        }
        let mut place = Self::place(&self.groups, key);
        if self.groups[place].key == 0 {
            if 2 * self.used >= self.groups.len() {
                self.move_groups(2 * self.groups.len(), |slots| slots);
                place = Self::place(&self.groups, key);
            }
            self.groups[place].key = key;
            self.used += 1;
        }
        place
    }

    #[inline(always)]
    fn place(groups: &[Group], key: u64) -> usize {
        let last = groups.len() - 1;
        let mut place = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize & last;
        while groups[place].key != key && groups[place].key != 0 {
            place = (place + 1) & last;
        }
        place
    }

    /// Change all slots, and move the groups that have any left to a table of `places`.
    fn move_groups(
        &mut self,
        places: usize,
        change: impl Fn([u16; GROUP as usize]) -> [u16; GROUP as usize],
    ) {
        std::mem::swap(&mut self.groups, &mut self.spare);
        self.groups.clear();
        self.groups.resize(places, EMPTY);
        self.used = 0;
        for group in self.spare.iter().filter(|group| group.key != 0) {
            let slots = change(group.slots);
            if slots != EMPTY.slots {
                let place = Self::place(&self.groups, group.key);
                self.groups[place] = Group { key: group.key, slots };
                self.used += 1;
            }
        }
    }

    /// Take an access to the pages `from..=to` of the group at `place`, if none of its pages is known. False if some are.
    #[inline(always)]
    pub(super) fn access_new(&mut self, place: usize, from: u64, to: u64) -> bool {
        let slots = &mut self.groups[place].slots;
        if *slots != EMPTY.slots {
            return false;
        }
        let first = self.line.push_all((to - from + 1) as usize) as u16;
        for (slot, number) in slots[from as usize..=to as usize].iter_mut().zip(first..) {
            *slot = number;
        }
        true
    }

    /// Take an access to a page of the group at `place`. How many others were accessed since the last one, if below
    /// [`RECENT`].
    #[inline(always)]
    pub(super) fn access(&mut self, place: usize, page: usize) -> Option<u64> {
        let slot = &mut self.groups[place].slots[page];
        if *slot == ABSENT {
            *slot = self.line.push() as u16;
            return None;
        }
        let before = usize::from(*slot);
        if self.line.is_latest(before) {
            return Some(0);
        }
        let distance = self.line.after(before) as u64;
        self.line.remove(before);
        *slot = self.line.push() as u16;
        (distance < RECENT).then_some(distance)
    }

    /// Forget all but the [`RECENT`] last pages.
    #[cold]
    fn clean_up(&mut self) {
        let kept = self.line.live().min(RECENT as usize);
        let dropped = self.line.live() - kept;
        let rank = self.line.ranks();
        let places = (2 * self.used).next_power_of_two().max(PLACES);
        self.move_groups(places, |slots| {
            slots.map(|slot| {
                let rank = if slot == ABSENT { None } else { rank(slot.into()).checked_sub(dropped) };
                rank.map_or(ABSENT, |rank| rank as u16)
            })
        });
        self.line = AccessOrder::packed(kept, SLOTS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::scatter;
    use ftlab_core::rng::Rng;

    #[test]
    fn short_distances_are_those_of_a_plain_stack() {
        let mut rng = Rng::for_path(5, &[]);
        let (mut recent, mut stack) = (Recent::new(), Vec::new());
        let mut short = 0;
        for step in 0..60_000u64 {
            // Some pages come back soon, some late, and some never.
            let page = match rng.below_unbiased(8) {
                0..4 => rng.below_unbiased(3000),
                4..6 => rng.below_unbiased(40_000),
                6 => step % 9000,
                _ => 1_000_000 + step,
            };
            let place = recent.group(scatter(page & !(GROUP - 1)));
            let found = if recent.access_new(place, page % GROUP, page % GROUP) {
                None
            } else {
                recent.access(place, (page % GROUP) as usize)
            };
            let distance = stack.iter().rev().position(|other| *other == page);
            assert_eq!(found, distance.map(|distance| distance as u64).filter(|distance| *distance < RECENT));
            short += u64::from(found.is_some());
            if let Some(distance) = distance {
                stack.remove(stack.len() - 1 - distance);
            } else if stack.len() > 20_000 {
                stack.remove(0);
            }
            stack.push(page);
        }
        assert!(short > 20_000, "{short}");
    }
}
