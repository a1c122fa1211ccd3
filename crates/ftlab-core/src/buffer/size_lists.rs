//! Blocks by how many of their pages are buffered, and of each number by recency.

use crate::buffer::block_chains::BlockChains;
use crate::recency::List;

/// A list of blocks for each number of pages. Who leaves the largest is found in a few steps.
#[derive(Debug, Clone)]
pub(super) struct SizeLists {
    /// For each number of pages, from 0.
    lists: Vec<List>,
    /// A bit for each list that has blocks.
    filled: Vec<u64>,
    /// A bit for each word of `filled` that is not 0.
    words: Vec<u64>,
}

impl SizeLists {
    /// For blocks of at most `most` pages.
    pub(super) fn new(most: u32) -> Self {
        let words = most as usize / 64 + 1;
        Self {
            lists: vec![List::new(); most as usize + 1],
            filled: vec![0; words],
            words: vec![0; words.div_ceil(64)],
        }
    }

    /// Enter the block of `head` as the most recent of its size.
    #[inline]
    pub(super) fn enter(&mut self, chains: &mut BlockChains, head: u32) {
        let pages = chains.pages(head);
        self.lists[pages as usize].enter(&mut chains.links, head);
        let word = pages as usize / 64;
        self.filled[word] |= 1 << (pages % 64);
        self.words[word / 64] |= 1 << (word % 64);
    }

    /// Take out the block of `head`, before its size changes.
    #[inline]
    pub(super) fn remove(&mut self, chains: &mut BlockChains, head: u32) {
        let pages = chains.pages(head);
        let list = &mut self.lists[pages as usize];
        list.remove(&mut chains.links, head);
        if list.len == 0 {
            let word = pages as usize / 64;
            self.filled[word] &= !(1 << (pages % 64));
            if self.filled[word] == 0 {
                self.words[word / 64] &= !(1 << (word % 64));
            }
        }
    }

    /// Make the block of `head` the most recent of its size.
    #[inline]
    pub(super) fn touch(&mut self, chains: &mut BlockChains, head: u32) {
        let pages = chains.pages(head);
        self.lists[pages as usize].touch(&mut chains.links, head);
    }

    /// The lists that have blocks, of the largest first.
    #[inline]
    pub(super) fn largest_first(&self) -> impl Iterator<Item = &List> {
        let words = bits(&self.words).map(|word| (word, self.filled[word]));
        let sizes = words.flat_map(|(word, held)| bits_of(held).map(move |bit| word * 64 + bit));
        sizes.map(|size| &self.lists[size])
    }

    pub(super) fn table_bytes(&self) -> u64 {
        let words = self.filled.capacity() + self.words.capacity();
        (self.lists.capacity() * size_of::<List>() + words * 8) as u64
    }
}

/// The bits of a word, from the highest.
#[inline]
fn bits_of(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        (word != 0).then(|| {
            let bit = word.ilog2();
            word ^= 1 << bit;
            bit as usize
        })
    })
}

/// The bits of all words, from the highest.
#[inline]
fn bits(words: &[u64]) -> impl Iterator<Item = usize> {
    let words = words.iter().enumerate().rev();
    words.flat_map(|(at, word)| bits_of(*word).map(move |bit| at * 64 + bit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::order::Shape;
    use crate::geometry::Lpn;

    #[test]
    fn the_largest_comes_first_also_over_many_words() {
        let sizes = [1, 5000, 63, 64, 4096, 64, 4095, 900];
        let nodes = sizes.iter().sum();
        let shape = Shape { frames: nodes, logical_units: 8 * 5000, units_per_block: 5000, log_blocks: 0 };
        let (mut chains, mut lists) = (BlockChains::new(&shape, nodes), SizeLists::new(5000));
        let (mut order, mut node) = (Vec::new(), 0);
        for (block, size) in (0..).zip(sizes) {
            let head = node;
            chains.enter_first(head, Lpn(block * 5000));
            for page in 1..size {
                chains.enter(head + page, Lpn(block * 5000 + page), head);
            }
            node += size;
            lists.enter(&mut chains, head);
            order.push(head);
        }
        while !order.is_empty() {
            order.sort_by_key(|head| std::cmp::Reverse(chains.pages(*head)));
            let found = lists.largest_first().flat_map(|list| list.iter_oldest(&chains.links));
            assert_eq!(found.collect::<Vec<_>>(), order);
            lists.remove(&mut chains, order.remove(order.len() / 2));
        }
    }
}
