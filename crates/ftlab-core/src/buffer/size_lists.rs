//! Blocks by how many of their pages are buffered, and of each number by recency.

use crate::buffer::block_chains::BlockChains;
use crate::recency::{List, NONE};

/// A list of blocks for each number of pages that some have. Who leaves the largest is found in a few steps.
///
/// Blocks of 1, 2, ... n pages have n (n + 1) / 2 pages together: there are few lists, whatever the size of a block.
#[derive(Debug, Clone)]
pub(super) struct SizeLists {
    /// For each number of pages, from 0, the place of its list, which is nowhere where no block has so many.
    places: Vec<u16>,
    /// Of an empty list the next that is empty, in place of its newest.
    lists: Vec<List>,
    /// The first list that is empty, or `NONE`.
    free: u32,
    /// A bit for each list that has blocks.
    filled: Vec<u64>,
    /// A bit for each word of `filled` that is not 0.
    words: Vec<u64>,
}

const NOWHERE: u16 = u16::MAX;

impl SizeLists {
    /// For blocks of `units_per_block` and `pages` in all.
    pub(super) fn new(units_per_block: u32, pages: u32) -> Self {
        let most = units_per_block.min(pages);
        let lists = u64::from(most).min((2 * u64::from(pages)).isqrt()) as usize + 1;
        let words = most as usize / 64 + 1;
        Self {
            places: vec![NOWHERE; most as usize + 1],
            lists: Vec::with_capacity(lists),
            free: NONE,
            filled: vec![0; words],
            words: vec![0; words.div_ceil(64)],
        }
    }

    /// Enter the block of `head` as the most recent of its size.
    #[inline]
    pub(super) fn enter(&mut self, chains: &mut BlockChains, head: u32) {
        let pages = chains.pages(head);
        if self.places[pages as usize] == NOWHERE {
            self.places[pages as usize] = self.new_list();
            let word = pages as usize / 64;
            self.filled[word] |= 1 << (pages % 64);
            self.words[word / 64] |= 1 << (word % 64);
        }
        self.list(pages).enter(&mut chains.links, head);
    }

    #[inline]
    fn list(&mut self, pages: u32) -> &mut List {
        &mut self.lists[self.places[pages as usize] as usize]
    }

    /// The place of an empty list.
    fn new_list(&mut self) -> u16 {
        let place = if self.free == NONE {
            self.lists.push(List::new());
            self.lists.len() - 1
        } else {
            let place = self.free as usize;
            self.free = std::mem::replace(&mut self.lists[place], List::new()).newest;
            place
        };
        u16::try_from(place).expect("fewer than 2^31 pages are of fewer than 2^16 sizes")
    }

    /// Take out the block of `head`, before its size changes.
    #[inline]
    pub(super) fn remove(&mut self, chains: &mut BlockChains, head: u32) {
        let pages = chains.pages(head);
        let place = self.places[pages as usize];
        let list = &mut self.lists[place as usize];
        list.remove(&mut chains.links, head);
        if list.len == 0 {
            list.newest = std::mem::replace(&mut self.free, place.into());
            self.places[pages as usize] = NOWHERE;
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
        self.list(pages).touch(&mut chains.links, head);
    }

    /// The lists that have blocks, of the largest first.
    #[inline]
    pub(super) fn largest_first(&self) -> impl Iterator<Item = &List> {
        let words = bits(&self.words).map(|word| (word, self.filled[word]));
        let sizes = words.flat_map(|(word, held)| bits_of(held).map(move |bit| word * 64 + bit));
        sizes.map(|size| &self.lists[self.places[size] as usize])
    }

    pub(super) fn table_bytes(&self) -> u64 {
        let words = self.filled.capacity() + self.words.capacity();
        (self.places.capacity() * 2 + self.lists.capacity() * size_of::<List>() + words * 8) as u64
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

    #[test]
    fn the_largest_comes_first_also_over_many_words() {
        let sizes = [1, 5000, 63, 64, 4096, 64, 4095, 900];
        let nodes = sizes.iter().sum();
        let shape = Shape { frames: nodes, logical_units: 8 * 5000, units_per_block: 5000, log_blocks: 0 };
        let (mut chains, mut lists) = (BlockChains::new(&shape, nodes), SizeLists::new(5000, nodes));
        let (mut order, mut node) = (Vec::new(), 0);
        for (block, size) in (0..).zip(sizes) {
            let head = node;
            chains.enter_first(head, block);
            for page in 1..size {
                chains.enter(head + page, head);
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
