//! The order of last accesses: which page was touched when, and how many were touched since.

/// Slots in order of time, some of them occupied. Counts and selects the occupied ones in a few steps: a bit for each
/// slot, and a tree of sums over words of 64 slots (Fenwick). The word of the next slot, where most happens, is not in
/// the tree yet.
#[derive(Debug, Default)]
pub struct AccessOrder {
    words: Vec<u64>,
    tree: Vec<u32>,
    next: usize,
    live: usize,
}

impl AccessOrder {
    /// An order of at least `slots` slots.
    pub fn new(slots: usize) -> Self {
        let words = slots.div_ceil(64).max(1);
        Self { words: vec![0; words], tree: vec![0; words + 1], next: 0, live: 0 }
    }

    /// Slots in all.
    pub fn slots(&self) -> usize {
        self.words.len() * 64
    }

    /// Occupied slots.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Slots that were never occupied.
    #[inline(always)]
    pub fn left(&self) -> usize {
        self.slots() - self.next
    }

    /// Whether no slot is left: [`renumbered`](Self::renumbered) has to make room.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.next == self.slots()
    }

    #[inline(always)]
    fn change(&mut self, word: usize, by: i32) {
        let mut node = word + 1;
        while node < self.tree.len() {
            self.tree[node] = self.tree[node].wrapping_add_signed(by);
            node += node & node.wrapping_neg();
        }
    }

    /// Occupy the next slot.
    #[inline(always)]
    pub fn push(&mut self) -> usize {
        let slot = self.next;
        self.words[slot / 64] |= 1 << (slot % 64);
        self.next += 1;
        self.live += 1;
        if self.next.is_multiple_of(64) {
            self.change(slot / 64, self.words[slot / 64].count_ones().cast_signed());
        }
        slot
    }

    /// Occupy the next `count` slots, fewer than 64.
    #[inline(always)]
    pub fn push_all(&mut self, count: usize) -> usize {
        let slot = self.next;
        if slot % 64 + count >= 64 {
            (0..count).for_each(|_| _ = self.push());
        } else {
            self.words[slot / 64] |= ((1 << count) - 1) << (slot % 64);
            self.next += count;
            self.live += count;
        }
        slot
    }

    /// Free an occupied slot.
    #[inline(always)]
    pub fn remove(&mut self, slot: usize) {
        self.words[slot / 64] &= !(1 << (slot % 64));
        if slot / 64 != self.next / 64 {
            self.change(slot / 64, -1);
        }
        self.live -= 1;
    }

    /// Occupied slots before `slot`.
    #[inline(always)]
    fn before(&self, slot: usize) -> usize {
        let mut node = slot / 64;
        let mut sum = (self.words[node] & ((1 << (slot % 64)) - 1)).count_ones();
        while node > 0 {
            sum += self.tree[node];
            node &= node - 1;
        }
        sum as usize
    }

    /// Occupied slots after the occupied slot `slot`.
    #[inline(always)]
    pub fn after(&self, slot: usize) -> usize {
        self.live - self.before(slot) - 1
    }

    /// Whether `slot` was the last to be occupied.
    #[inline(always)]
    pub fn is_latest(&self, slot: usize) -> bool {
        slot + 1 == self.next
    }

    /// The occupied slot that `rank` others come after; `rank` is below [`live`](Self::live).
    pub fn select(&self, rank: usize) -> usize {
        let mut left = (self.live - 1 - rank) as u32;
        let open = self.next / 64;
        let in_tree = self.live as u32 - self.words.get(open).map_or(0, |word| word.count_ones());
        let mut node = 0;
        let mut step = (self.tree.len() - 1).next_power_of_two();
        if left >= in_tree {
            (left, node, step) = (left - in_tree, open, 0);
        }
        while step > 0 {
            let candidate = node + step;
            if candidate < self.tree.len() && self.tree[candidate] <= left {
                left -= self.tree[candidate];
                node = candidate;
            }
            step /= 2;
        }
        let mut word = self.words[node];
        for _ in 0..left {
            word &= word - 1;
        }
        node * 64 + word.trailing_zeros() as usize
    }

    /// A timeline with the same occupied slots moved together, twice as long as there are of them and at least
    /// `slots`; and where each of them went.
    pub fn renumbered(&self, slots: usize) -> (Self, impl Fn(usize) -> usize + use<>) {
        (Self::packed(self.live, (2 * self.live).max(slots)), self.ranks())
    }

    /// How many occupied slots come before an occupied one.
    pub fn ranks(&self) -> impl Fn(usize) -> usize + use<> {
        let mut sums = Vec::with_capacity(self.words.len());
        let mut sum = 0;
        for word in &self.words {
            sums.push(sum);
            sum += word.count_ones();
        }
        let words = self.words.clone();
        move |slot: usize| {
            (sums[slot / 64] + (words[slot / 64] & ((1 << (slot % 64)) - 1)).count_ones()) as usize
        }
    }

    /// An order of at least `slots` slots, of which the first `live` are occupied.
    pub fn packed(live: usize, slots: usize) -> Self {
        let mut line = Self::new(slots);
        (line.next, line.live) = (live, live);
        for word in 0..live.div_ceil(64) {
            let occupied = (live - word * 64).min(64);
            line.words[word] = u64::MAX >> (64 - occupied);
        }
        for node in 1..line.tree.len() {
            if node - 1 != line.next / 64 {
                line.tree[node] += line.words[node - 1].count_ones();
            }
            let parent = node + (node & node.wrapping_neg());
            if parent < line.tree.len() {
                line.tree[parent] += line.tree[node];
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_a_list(steps in prop::collection::vec(0..1000usize, 1..600)) {
            let mut line = AccessOrder::new(64);
            let mut list: Vec<usize> = Vec::new();
            for step in steps {
                if line.is_full() {
                    let (shorter, moved) = line.renumbered(64);
                    for slot in &mut list {
                        *slot = moved(*slot);
                    }
                    line = shorter;
                }
                if step % 3 == 0 && !list.is_empty() {
                    let at = step % list.len();
                    prop_assert_eq!(line.after(list[at]), list.len() - 1 - at);
                    prop_assert_eq!(line.select(list.len() - 1 - at), list[at]);
                    line.remove(list.remove(at));
                } else {
                    list.push(line.push());
                    prop_assert!(line.is_latest(list[list.len() - 1]));
                }
                prop_assert_eq!(line.live(), list.len());
            }
        }
    }
}
