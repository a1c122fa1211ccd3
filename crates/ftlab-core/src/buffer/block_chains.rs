//! The buffered pages of each logical block, in tables that grow with the buffer and not with the drive.

use crate::buffer::order::{Pages, Shape};
use crate::geometry::{Divider, Lpn};
use crate::recency::{Links, List, NONE};
use crate::table;

/// Buffered pages by their block. Pages are nodes, such as frames. A block is known by its *head*, the node that was entered first.
///
/// Every node could be the only one of its block, so tables of blocks would be as long as those of nodes. Here a block
/// has no tables: what is known of it stands in its head, and in the first of its other nodes. A node costs 18 bytes.
///
/// Which page a node has, the caller says where it is asked for: `page_of`.
#[derive(Debug, Clone)]
pub(super) struct BlockChains {
    units_per_block: Divider,
    /// Of heads for lists of blocks, which the order has; of other nodes for the chain of their block.
    pub(super) links: Links,
    nodes: Vec<Node>,
    /// The first head of each hash of a block.
    buckets: Vec<u32>,
    /// Blocks with pages.
    pub(super) blocks: u32,
}

#[derive(Debug, Clone, Copy, Default)]
struct Node {
    /// Of a head the next head of its bucket; of the first other node the pages of the block.
    bucket_or_pages: u32,
    /// Of a head the first other node; of that one the mark of the block. Of a head that is alone `ALONE` and the mark.
    other_or_mark: u32,
}

/// Nodes and marks are below.
const ALONE: u32 = 1 << 31;

impl BlockChains {
    /// Room for `nodes` pages, without any.
    pub(super) fn new(shape: &Shape, nodes: u32) -> Self {
        assert!(nodes < ALONE, "a buffer of fewer frames");
        let mut buckets = table::zeros(nodes.div_ceil(2).max(1) as usize);
        buckets.fill(NONE);
        Self {
            units_per_block: Divider::new(shape.units_per_block),
            links: Links::new(nodes),
            nodes: table::zeros(nodes as usize),
            buckets,
            blocks: 0,
        }
    }

    /// The block of a page.
    #[inline]
    pub(super) fn block_of(&self, lpn: Lpn) -> u32 {
        self.units_per_block.quotient(lpn.0)
    }

    /// The place of a page in its block.
    #[inline]
    pub(super) fn offset_of(&self, lpn: Lpn) -> u32 {
        self.units_per_block.remainder(lpn.0)
    }

    /// Pages of a block.
    pub(super) fn units_per_block(&self) -> u32 {
        self.units_per_block.divisor()
    }

    #[inline]
    fn bucket(&self, block: u32) -> usize {
        // Fibonacci hashing, and the high bits of a product instead of a division.
        let hash = u64::from(block.wrapping_mul(0x9E37_79B1));
        ((hash * self.buckets.len() as u64) >> 32) as usize
    }

    /// The head of a block, or `NONE`.
    #[inline]
    pub(super) fn head(&self, block: u32, page_of: impl Fn(u32) -> Lpn) -> u32 {
        let mut head = self.buckets[self.bucket(block)];
        while head != NONE && self.block_of(page_of(head)) != block {
            head = self.nodes[head as usize].bucket_or_pages;
        }
        head
    }

    /// A page of the block of `lpn` will be looked at soon: ask the processor for the next of three stages.
    #[inline]
    pub(super) fn prefetch(&self, lpn: Lpn, stage: u32, pages: Pages<'_>) {
        let bucket = self.bucket(self.block_of(lpn));
        if stage == 0 {
            return table::prefetch(&self.buckets, bucket);
        }
        let head = self.buckets[bucket];
        if head == NONE {
            return;
        }
        if stage == 1 {
            pages.prefetch(head);
            table::prefetch(&self.nodes, head as usize);
            self.links.prefetch(head);
        } else {
            self.links.prefetch_around(head);
            table::prefetch(&self.nodes, self.other(head) as usize);
        }
    }

    /// What points to `head`, of `block`, in its bucket points to `other` now.
    fn relink(&mut self, block: u32, head: u32, other: u32) {
        let bucket = self.bucket(block);
        let mut at = self.buckets[bucket];
        if at == head {
            self.buckets[bucket] = other;
            return;
        }
        while self.nodes[at as usize].bucket_or_pages != head {
            at = self.nodes[at as usize].bucket_or_pages;
        }
        self.nodes[at as usize].bucket_or_pages = other;
    }

    /// The first other node of a block, or `NONE`.
    #[inline]
    fn other(&self, head: u32) -> u32 {
        let other = self.nodes[head as usize].other_or_mark;
        if other & ALONE == 0 { other } else { NONE }
    }

    /// Pages of the block of `head` that are here.
    #[inline]
    pub(super) fn pages(&self, head: u32) -> u32 {
        match self.other(head) {
            NONE => 1,
            other => self.nodes[other as usize].bucket_or_pages,
        }
    }

    /// A number that an order keeps of the block of `head`; 0 at first.
    #[inline]
    pub(super) fn mark(&self, head: u32) -> u32 {
        match self.other(head) {
            NONE => self.nodes[head as usize].other_or_mark & !ALONE,
            other => self.nodes[other as usize].other_or_mark,
        }
    }

    #[inline]
    pub(super) fn set_mark(&mut self, head: u32, mark: u32) {
        match self.other(head) {
            NONE => self.nodes[head as usize].other_or_mark = ALONE | mark,
            other => self.nodes[other as usize].other_or_mark = mark,
        }
    }

    /// Say that `first` is the first other node of the block of `head`, which has `pages` pages and `mark`.
    #[inline]
    fn set_other(&mut self, head: u32, first: u32, pages: u32, mark: u32) {
        if first == NONE {
            self.nodes[head as usize].other_or_mark = ALONE | mark;
        } else {
            self.nodes[head as usize].other_or_mark = first;
            self.nodes[first as usize].bucket_or_pages = pages;
            self.nodes[first as usize].other_or_mark = mark;
        }
    }

    /// Enter `node` as the first of `block`. It is the head, and in no list of blocks yet.
    #[inline]
    pub(super) fn enter_first(&mut self, node: u32, block: u32) {
        let bucket = self.bucket(block);
        let next = std::mem::replace(&mut self.buckets[bucket], node);
        self.nodes[node as usize] = Node { bucket_or_pages: next, other_or_mark: ALONE };
        self.blocks += 1;
    }

    /// Enter `node` into the block of `head`.
    #[inline]
    pub(super) fn enter(&mut self, node: u32, head: u32) {
        let (pages, mark, first) = (self.pages(head), self.mark(head), self.other(head));
        chain(first).enter(&mut self.links, node);
        self.set_other(head, node, pages + 1, mark);
    }

    /// `node` leaves `block`, of `head`, with which it may be the same; the head is in no list of blocks then. The head
    /// of what is left, or `NONE`.
    pub(super) fn leave(&mut self, node: u32, block: u32, head: u32) -> u32 {
        let first = self.other(head);
        if first == NONE {
            self.relink(block, head, self.nodes[head as usize].bucket_or_pages);
            self.blocks -= 1;
            return NONE;
        }
        let (pages, mark) = (self.pages(head), self.mark(head));
        let mut others = chain(first);
        if node != head {
            others.remove(&mut self.links, node);
            self.set_other(head, others.newest, pages - 1, mark);
            return head;
        }
        let oldest = self.nodes_of(head).last().unwrap_or(first);
        others.remove(&mut self.links, oldest);
        self.relink(block, head, oldest);
        self.nodes[oldest as usize].bucket_or_pages = self.nodes[head as usize].bucket_or_pages;
        self.set_other(oldest, others.newest, pages - 1, mark);
        oldest
    }

    /// The nodes of a block.
    pub(super) fn nodes_of(&self, head: u32) -> impl Iterator<Item = u32> {
        let some = |node: u32| (node != NONE).then_some(node);
        let others =
            std::iter::successors(some(self.other(head)), move |node| some(List::older(&self.links, *node)));
        std::iter::once(head).chain(others)
    }

    /// Forget `block`, of `head`, which is in no list of blocks, and tell its nodes.
    #[inline]
    pub(super) fn forget(&mut self, block: u32, head: u32, mut tell: impl FnMut(u32)) {
        self.relink(block, head, self.nodes[head as usize].bucket_or_pages);
        self.blocks -= 1;
        self.nodes_of(head).for_each(&mut tell);
    }

    pub(super) fn table_bytes(&self) -> u64 {
        let nodes = self.nodes.capacity() * size_of::<Node>() + self.buckets.capacity() * 4;
        self.links.table_bytes() + nodes as u64
    }
}

/// The chain that begins with `first`: neither its end nor its length is kept.
const fn chain(first: u32) -> List {
    List { newest: first, oldest: NONE, len: u32::MAX >> 1 }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::rng::Rng;

    #[test]
    fn blocks_agree_with_sets_of_pages_after_any_steps() {
        for (frames, units_per_block, pages) in
            [(1, 4, 8), (9, 4, 40), (24, 1, 40), (60, 64, 1000), (40, 3, 50)]
        {
            let shape = Shape { frames, logical_units: pages, units_per_block, log_blocks: 0 };
            let (mut chains, mut rng) = (BlockChains::new(&shape, frames), Rng::new(7, "chains"));
            let mut free: Vec<u32> = (0..frames).collect();
            let mut lpns = vec![0; frames as usize];
            // Of each block the pages with their nodes, in the order in which they were entered, and the mark.
            let mut blocks: BTreeMap<u32, (Vec<(u32, u32)>, u32)> = BTreeMap::new();
            for step in 1..3000 {
                let lpn = rng.below(pages.into()) as u32;
                let block = chains.block_of(Lpn(lpn));
                let head = chains.head(block, |node| Lpn(lpns[node as usize]));
                match blocks.get_mut(&block) {
                    Some((held, mark)) if held.iter().any(|(page, _)| *page == lpn) => {
                        assert_eq!((chains.pages(head), chains.mark(head)), (held.len() as u32, *mark));
                        let nodes: Vec<u32> = chains.nodes_of(head).collect();
                        // The first one, and then the last ones first.
                        assert_eq!(nodes[0], held[0].1);
                        assert!(held[1..].iter().rev().map(|(_, node)| node).eq(&nodes[1..]));
                        if rng.below(8) == 0 {
                            let start = free.len();
                            chains.forget(block, head, |node| free.push(node));
                            assert_eq!(free.len() - start, held.len());
                            blocks.remove(&block);
                        } else if rng.below(3) == 0 {
                            chains.set_mark(head, step);
                            *mark = step;
                        } else {
                            let at = held.iter().position(|(page, _)| *page == lpn).unwrap();
                            let (_, node) = held.remove(at);
                            chains.leave(node, block, head);
                            free.push(node);
                            if held.is_empty() {
                                blocks.remove(&block);
                            }
                        }
                    }
                    _ => {
                        let Some(node) = free.pop() else { continue };
                        lpns[node as usize] = lpn;
                        match head {
                            NONE => chains.enter_first(node, block),
                            head => chains.enter(node, head),
                        }
                        blocks.entry(block).or_default().0.push((lpn, node));
                    }
                }
                assert_eq!(chains.blocks as usize, blocks.len());
            }
        }
    }
}
