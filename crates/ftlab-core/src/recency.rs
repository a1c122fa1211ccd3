//! Orders of recency: doubly linked lists over numbered nodes, every step O(1).

use crate::table;

/// No node.
pub(crate) const NONE: u32 = u32::MAX;

/// The neighbours of every node. Several lists may share them: a node is in one list at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    /// Towards the most recent, towards the least recent.
    of: Vec<(u32, u32)>,
}

impl Links {
    /// Room for `nodes` nodes.
    pub(crate) fn new(nodes: u32) -> Self {
        Self { of: table::zeros(nodes as usize) }
    }

    /// Make room for nodes up to `node`.
    pub(crate) fn reach(&mut self, node: u32) {
        if self.of.len() <= node as usize {
            self.of.resize(node as usize + 1, (NONE, NONE));
        }
    }

    /// Ask the processor for the neighbours of `node`.
    #[inline]
    pub(crate) fn prefetch(&self, node: u32) {
        table::prefetch(&self.of, node as usize);
    }

    /// Ask the processor for what the neighbours of `node` say: they change when it moves.
    #[inline]
    pub(crate) fn prefetch_around(&self, node: u32) {
        if let Some((newer, older)) = self.of.get(node as usize) {
            self.prefetch(*newer);
            self.prefetch(*older);
        }
    }

    /// `key` will be looked up soon, in one of `nodes` where `node_of` has that plus 1: ask the processor for the next of
    /// the stages 0, 1 and 2.
    #[inline]
    pub(crate) fn look_ahead_for<T>(&self, nodes: &[T], node_of: &[u32], key: usize, stage: u32) {
        if stage == 0 {
            table::prefetch(node_of, key);
        } else if let Some(node) = node_of[key].checked_sub(1) {
            table::prefetch(nodes, node as usize);
            self.look_ahead(Some(node), stage);
        }
    }

    /// `node`, if it is known, will move soon: ask the processor for the next of the stages 1 and 2.
    #[inline]
    pub(crate) fn look_ahead(&self, node: Option<u32>, stage: u32) {
        match (node, stage) {
            (Some(node), 1) => self.prefetch(node),
            (Some(node), 2) => self.prefetch_around(node),
            _ => {}
        }
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        self.of.capacity() as u64 * 8
    }
}

/// Nodes from the most to the least recent.
#[derive(Debug, Clone)]
pub(crate) struct List {
    pub(crate) newest: u32,
    pub(crate) oldest: u32,
    pub(crate) len: u32,
}

impl List {
    pub(crate) const fn new() -> Self {
        Self { newest: NONE, oldest: NONE, len: 0 }
    }

    /// Enter `node`, which is in no list, as the most recent.
    #[inline]
    pub(crate) fn enter(&mut self, links: &mut Links, node: u32) {
        links.of[node as usize] = (NONE, self.newest);
        match self.newest {
            NONE => self.oldest = node,
            newest => links.of[newest as usize].0 = node,
        }
        self.newest = node;
        self.len += 1;
    }

    /// Enter `node`, which is in no list, as the least recent.
    #[inline]
    pub(crate) fn enter_oldest(&mut self, links: &mut Links, node: u32) {
        self.enter_below(links, node, self.oldest);
    }

    /// Enter `node`, which is in no list, as the next less recent than `newer`: as the most recent where that is `NONE`.
    #[inline]
    pub(crate) fn enter_below(&mut self, links: &mut Links, node: u32, newer: u32) {
        if newer == NONE {
            return self.enter(links, node);
        }
        let older = std::mem::replace(&mut links.of[newer as usize].1, node);
        links.of[node as usize] = (newer, older);
        match older {
            NONE => self.oldest = node,
            older => links.of[older as usize].0 = node,
        }
        self.len += 1;
    }

    /// Take `node` out.
    #[inline]
    pub(crate) fn remove(&mut self, links: &mut Links, node: u32) {
        let (newer, older) = links.of[node as usize];
        match newer {
            NONE => self.newest = older,
            newer => links.of[newer as usize].1 = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => links.of[older as usize].0 = newer,
        }
        self.len -= 1;
    }

    /// Make `node` the most recent.
    #[inline]
    pub(crate) fn touch(&mut self, links: &mut Links, node: u32) {
        if self.newest != node {
            self.remove(links, node);
            self.enter(links, node);
        }
    }

    /// The least recent nodes, and `NONE` where there are no more.
    #[inline]
    pub(crate) fn least_recent<const N: usize>(&self, links: &Links) -> [u32; N] {
        let mut node = self.oldest;
        std::array::from_fn(|_| {
            let newer = if node == NONE { NONE } else { links.of[node as usize].0 };
            std::mem::replace(&mut node, newer)
        })
    }

    /// The least recent of `nodes` leaves next, and the one before it then: ask the processor for what that touches, with
    /// the place in `node_of` of the first one's `key`.
    #[inline]
    pub(crate) fn look_at_victims<T>(
        &self,
        links: &Links,
        nodes: &[T],
        node_of: &[u32],
        key: impl Fn(&T) -> u32,
    ) {
        let [node, next] = self.least_recent(links);
        if next != NONE {
            table::prefetch(node_of, key(&nodes[node as usize]) as usize);
            table::prefetch(nodes, next as usize);
            links.prefetch(next);
        }
    }

    /// From the most to the least recent.
    pub(crate) fn iter(&self, links: &Links) -> impl Iterator<Item = u32> {
        let mut at = self.newest;
        std::iter::from_fn(move || {
            let node = at;
            (node != NONE).then(|| {
                at = links.of[node as usize].1;
                node
            })
        })
    }

    /// From the least to the most recent.
    pub(crate) fn iter_oldest(&self, links: &Links) -> impl Iterator<Item = u32> {
        let mut at = self.oldest;
        std::iter::from_fn(move || {
            let node = at;
            (node != NONE).then(|| {
                at = links.of[node as usize].0;
                node
            })
        })
    }

    /// The one before `node`, more recent.
    #[inline]
    pub(crate) fn newer(links: &Links, node: u32) -> u32 {
        links.of[node as usize].0
    }

    /// The one after `node`, less recent.
    #[inline]
    pub(crate) fn older(links: &Links, node: u32) -> u32 {
        links.of[node as usize].1
    }
}

/// Nodes by the group that each is in, in no order: such as the changed entries of each translation page.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    first: Vec<u32>,
    links: Links,
}

impl Groups {
    pub(crate) fn new(groups: u32) -> Self {
        Self { first: vec![NONE; groups as usize], links: Links::default() }
    }

    /// Make room for nodes up to `node`.
    pub(crate) fn reach(&mut self, node: u32) {
        self.links.reach(node);
    }

    /// One of a group, or `NONE`.
    #[inline]
    pub(crate) fn first(&self, group: u32) -> u32 {
        self.first[group as usize]
    }

    /// Enter `node`, which is in no group.
    #[inline]
    pub(crate) fn enter(&mut self, group: u32, node: u32) {
        let after = std::mem::replace(&mut self.first[group as usize], node);
        self.links.of[node as usize] = (NONE, after);
        if after != NONE {
            self.links.of[after as usize].0 = node;
        }
    }

    /// Take `node` out of its group.
    #[inline]
    pub(crate) fn leave(&mut self, group: u32, node: u32) {
        let (before, after) = self.links.of[node as usize];
        match before {
            NONE => self.first[group as usize] = after,
            before => self.links.of[before as usize].1 = after,
        }
        if after != NONE {
            self.links.of[after as usize].0 = before;
        }
    }

    /// The one after `node` in its group, or `NONE`.
    #[inline]
    pub(crate) fn next(&self, node: u32) -> u32 {
        self.links.of[node as usize].1
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        self.first.capacity() as u64 * 4 + self.links.table_bytes()
    }
}

/// A list that knows for each node between which of a few fixed ranks it stands.
#[derive(Debug, Clone)]
pub(crate) struct RankedList {
    pub(crate) list: List,
    /// Ascending, each at least 1.
    ranks: Vec<u32>,
    /// The last node with a rank below `ranks[i]`, when the list is long enough to have others.
    last: Vec<u32>,
    /// For each node, how many of `ranks` are at most its rank.
    segment: Vec<u8>,
}

impl RankedList {
    pub(crate) fn new(mut ranks: Vec<u32>) -> Self {
        ranks.sort_unstable();
        let last = vec![NONE; ranks.len()];
        Self { list: List::new(), ranks, last, segment: Vec::new() }
    }

    pub(crate) fn reach(&mut self, node: u32) {
        if self.segment.len() <= node as usize {
            self.segment.resize(node as usize + 1, 0);
        }
    }

    /// Whether `node` has a rank below `rank`, one of those given at the start.
    #[inline]
    pub(crate) fn is_below(&self, node: u32, rank: u32) -> bool {
        let segment = usize::from(self.segment[node as usize]);
        segment == 0 || self.ranks[segment - 1] < rank
    }

    pub(crate) fn enter(&mut self, links: &mut Links, node: u32) {
        self.list.enter(links, node);
        self.segment[node as usize] = 0;
        for at in 0..self.ranks.len() {
            if self.list.len <= self.ranks[at] {
                // Full now, with its last node at the end of the list.
                if self.list.len == self.ranks[at] {
                    self.last[at] = self.list.oldest;
                }
            } else {
                let pushed = self.last[at];
                self.segment[pushed as usize] += 1;
                self.last[at] = List::newer(links, pushed);
            }
        }
    }

    pub(crate) fn remove(&mut self, links: &mut Links, node: u32) {
        let segment = usize::from(self.segment[node as usize]);
        for at in segment..self.ranks.len() {
            if self.list.len < self.ranks[at] {
                break;
            }
            // What stands behind the boundary moves up over it.
            let next = List::older(links, self.last[at]);
            if next == NONE {
                self.last[at] = NONE;
            } else {
                self.segment[next as usize] -= 1;
                self.last[at] = next;
            }
        }
        self.list.remove(links, node);
    }

    #[inline]
    pub(crate) fn touch(&mut self, links: &mut Links, node: u32) {
        if self.list.newest == node {
            return;
        }
        // Only the boundaries that the node passes change: one node is pushed over each of them, unless it is the node
        // itself that stood last.
        let segment = usize::from(self.segment[node as usize]);
        for at in 0..segment {
            let pushed = self.last[at];
            self.segment[pushed as usize] += 1;
            // With a rank of 1 the newest is pushed, and the node takes its place.
            self.last[at] = if self.ranks[at] == 1 { node } else { List::newer(links, pushed) };
        }
        for at in segment..self.ranks.len() {
            if self.last[at] == node {
                self.last[at] = List::newer(links, node);
            }
        }
        self.segment[node as usize] = 0;
        self.list.touch(links, node);
    }

    /// Recount every node's place.
    pub(crate) fn check(&self, links: &Links) -> Result<(), String> {
        for (rank, node) in (0..).zip(self.list.iter(links)) {
            let right = self.ranks.iter().filter(|bound| **bound <= rank).count();
            let told = usize::from(self.segment[node as usize]);
            if told != right {
                return Err(format!("the node of rank {rank} stands in segment {told} instead of {right}"));
            }
        }
        Ok(())
    }
}

/// A list that knows which nodes are its last few: what would leave if it had to be shorter by that number.
#[derive(Debug, Clone)]
pub(crate) struct TailedList {
    first: List,
    last: List,
    /// The most nodes of `last`; with fewer than that in all, every node is there.
    tail: u32,
    in_last: Vec<bool>,
}

impl TailedList {
    pub(crate) const fn new(tail: u32) -> Self {
        Self { first: List::new(), last: List::new(), tail, in_last: Vec::new() }
    }

    pub(crate) fn reach(&mut self, node: u32) {
        if self.in_last.len() <= node as usize {
            self.in_last.resize(node as usize + 1, false);
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.first.len + self.last.len
    }

    /// The least recent node, or `NONE`.
    #[inline]
    pub(crate) fn oldest(&self) -> u32 {
        self.last.oldest
    }

    /// Enter `node`, which is in no list, as the most recent.
    #[inline]
    pub(crate) fn enter(&mut self, links: &mut Links, node: u32) {
        self.first.enter(links, node);
        self.fill_tail(links);
    }

    /// Take `node` out.
    #[inline]
    pub(crate) fn remove(&mut self, links: &mut Links, node: u32) {
        if std::mem::take(&mut self.in_last[node as usize]) {
            self.last.remove(links, node);
            self.fill_tail(links);
        } else {
            self.first.remove(links, node);
        }
    }

    /// Make `node` the most recent. True when it was among the last few.
    #[inline]
    pub(crate) fn touch(&mut self, links: &mut Links, node: u32) -> bool {
        let was_last = std::mem::take(&mut self.in_last[node as usize]);
        if was_last {
            self.last.remove(links, node);
            self.enter(links, node);
        } else {
            self.first.touch(links, node);
        }
        was_last
    }

    #[inline]
    fn fill_tail(&mut self, links: &mut Links) {
        if self.last.len < self.tail && self.first.len > 0 {
            let node = self.first.oldest;
            self.first.remove(links, node);
            self.last.enter(links, node);
            self.in_last[node as usize] = true;
        }
    }

    /// From the most to the least recent.
    pub(crate) fn iter(&self, links: &Links) -> impl Iterator<Item = u32> {
        self.first.iter(links).chain(self.last.iter(links))
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        self.in_last.capacity() as u64
    }
}

/// The most recent keys, up to a number of them.
///
/// A log of touches instead of a list: a touch writes at its end, and what it has of the key before is void. That takes
/// one random step where a list takes five.
#[derive(Debug, Clone)]
pub(crate) struct Recent {
    capacity: u32,
    len: u32,
    /// For each key the place of its last touch in `log` plus 1, or 0.
    place_of: Vec<u32>,
    /// Empty where there is room for every key.
    log: Vec<u32>,
    /// Before it all is void.
    first: usize,
    /// The next place.
    end: usize,
}

/// How many places ahead a walk over the log asks for keys.
const LOG_AHEAD: usize = 8;

impl Recent {
    /// `capacity` of the keys 0 to `keys` - 1, one at least.
    pub(crate) fn new(capacity: u32, keys: u32) -> Self {
        let capacity = capacity.max(1);
        let log = if capacity < keys { Self::log_len(capacity) } else { 0 };
        // The first place stays void, so that no key has the place before the end at the start.
        Self {
            capacity,
            len: 0,
            place_of: vec![0; keys as usize],
            log: vec![0; log as usize],
            first: 1,
            end: 1,
        }
    }

    /// Places of the log: closed up once in twice as many touches as it keeps.
    const fn log_len(capacity: u32) -> u64 {
        capacity as u64 * 3 + 16
    }

    #[inline]
    pub(crate) fn has(&self, key: u32) -> bool {
        self.place_of[key as usize] != 0
    }

    /// True when it was among them.
    #[inline(always)]
    pub(crate) fn touch(&mut self, key: u32) -> bool {
        let place = &mut self.place_of[key as usize];
        let held = *place != 0;
        if self.log.is_empty() {
            *place = 1;
            return held;
        }
        // The latest key keeps its place: written behind it, it is not there. Cheaper than a guess.
        let end = self.end;
        self.log[end] = key;
        let end = end + usize::from(*place as usize != end);
        *place = end as u32;
        self.end = end;
        if !held {
            self.make_room();
        }
        if end == self.log.len() {
            self.close_up();
        }
        held
    }

    /// A key came.
    #[inline(never)]
    fn make_room(&mut self) {
        if self.len < self.capacity {
            self.len += 1;
            return;
        }
        loop {
            if let Some(next) = self.log.get(self.first + LOG_AHEAD) {
                table::prefetch(&self.place_of, *next as usize);
            }
            let place = &mut self.place_of[self.log[self.first] as usize];
            self.first += 1;
            if *place as usize == self.first {
                *place = 0;
                return;
            }
        }
    }

    #[cold]
    fn close_up(&mut self) {
        let mut kept = 0;
        for at in self.first..self.end {
            if let Some(next) = self.log.get(at + LOG_AHEAD) {
                table::prefetch(&self.place_of, *next as usize);
            }
            let key = self.log[at];
            let place = &mut self.place_of[key as usize];
            let is_last = *place as usize == at + 1;
            self.log[kept] = key;
            kept += usize::from(is_last);
            *place = if is_last { kept as u32 } else { *place };
        }
        self.first = 0;
        self.end = kept;
    }

    pub(crate) fn table_bytes(&self) -> u64 {
        (self.log.capacity() + self.place_of.capacity()) as u64 * 4
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    #[test]
    fn nodes_enter_where_they_are_told_to() {
        let (mut links, mut list) = (Links::default(), List::new());
        links.reach(4);
        list.enter_oldest(&mut links, 0);
        list.enter_below(&mut links, 1, NONE);
        list.enter_below(&mut links, 2, 1);
        list.enter_below(&mut links, 3, 0);
        list.enter_oldest(&mut links, 4);
        assert_eq!(list.iter(&links).collect::<Vec<_>>(), [1, 2, 0, 3, 4]);
        list.remove(&mut links, 4);
        assert_eq!(list.iter_oldest(&links).collect::<Vec<_>>(), [3, 0, 2, 1]);
    }

    #[test]
    fn ranks_agree_with_a_walk_after_any_steps() {
        for ranks in [vec![1], vec![1, 2], vec![3, 5, 5, 9], vec![2, 40]] {
            let mut rng = Rng::new(3, "ranks");
            let (mut links, mut list) = (Links::default(), RankedList::new(ranks.clone()));
            links.reach(31);
            list.reach(31);
            let mut inside = [false; 32];
            for _ in 0..4000 {
                let node = rng.below(32) as u32;
                if !inside[node as usize] {
                    list.enter(&mut links, node);
                    inside[node as usize] = true;
                } else if rng.below(3) == 0 {
                    list.remove(&mut links, node);
                    inside[node as usize] = false;
                } else {
                    list.touch(&mut links, node);
                }
                list.check(&links).unwrap();
                for (rank, node) in (0..).zip(list.list.iter(&links)) {
                    for bound in &ranks {
                        assert_eq!(list.is_below(node, *bound), rank < *bound);
                    }
                }
            }
        }
    }

    #[test]
    fn the_last_few_are_known_after_any_steps() {
        for tail in [1, 3, 40] {
            let mut rng = Rng::new(5, "tail");
            let (mut links, mut list) = (Links::default(), TailedList::new(tail));
            links.reach(31);
            list.reach(31);
            let mut order: Vec<u32> = Vec::new();
            for _ in 0..4000 {
                let node = rng.below(32) as u32;
                match order.iter().position(|other| *other == node) {
                    None => list.enter(&mut links, node),
                    Some(rank) => {
                        order.remove(rank);
                        if rng.below(3) == 0 {
                            list.remove(&mut links, node);
                            continue;
                        }
                        let was_last = rank as u32 + tail > order.len() as u32;
                        assert_eq!(list.touch(&mut links, node), was_last);
                    }
                }
                order.insert(0, node);
                assert_eq!(list.iter(&links).collect::<Vec<_>>(), order);
                assert_eq!((list.len(), list.oldest()), (order.len() as u32, order[order.len() - 1]));
            }
        }
    }

    #[test]
    fn the_most_recent_keys_stay() {
        for (capacity, keys) in [(1, 5), (2, 10), (7, 10), (10, 10), (40, 10), (30, 400)] {
            let (mut recent, mut rng) = (Recent::new(capacity, keys), Rng::new(6, "keys"));
            let mut order: Vec<u32> = Vec::new();
            for _ in 0..4000 {
                let among = if rng.below(2) == 0 { 4 } else { u64::from(keys) };
                let key = rng.below(among) as u32;
                let at = order.iter().position(|other| *other == key);
                assert_eq!(recent.touch(key), at.is_some());
                at.map(|at| order.remove(at));
                order.insert(0, key);
                order.truncate(capacity as usize);
                assert!((0..keys).all(|key| recent.has(key) == order.contains(&key)));
            }
        }
    }
}
