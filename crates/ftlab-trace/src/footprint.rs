//! Sets of pages, compact for sparse and dense traces alike.

use crate::stats::pages::NumberMap;

/// Pages of a chunk: 256 MiB of 4 KiB pages.
const CHUNK_PAGES: u64 = 1 << 16;
/// An array of 16-bit numbers takes less memory than a bitmap up to here.
const ARRAY_MAX: usize = 4096;
const WORDS: usize = (CHUNK_PAGES / 64) as usize;

/// The pages of one chunk: 2 bytes each while they are few, then a bitmap of 8 KiB.
#[derive(Debug)]
enum Chunk {
    Sorted(Vec<u16>),
    Bitmap(Box<[u64; WORDS]>),
}

impl Chunk {
    /// Add the pages `first..=last`.
    fn insert(&mut self, first: u16, last: u16) {
        match self {
            Chunk::Bitmap(words) => set_bits(words, first, last),
            Chunk::Sorted(pages) => {
                let from = pages.partition_point(|page| *page < first);
                let inside = pages[from..].partition_point(|page| *page <= last);
                let count = usize::from(last - first) + 1;
                if inside == count {
                    return;
                }
                if pages.len() - inside + count <= ARRAY_MAX {
                    pages.splice(from..from + inside, first..=last);
                } else {
                    let mut words = Box::new([0; WORDS]);
                    for page in pages.iter() {
                        set_bits(&mut words, *page, *page);
                    }
                    set_bits(&mut words, first, last);
                    *self = Chunk::Bitmap(words);
                }
            }
        }
    }

    fn len(&self) -> u64 {
        match self {
            Chunk::Sorted(pages) => pages.len() as u64,
            Chunk::Bitmap(words) => words.iter().map(|word| u64::from(word.count_ones())).sum(),
        }
    }
}

fn set_bits(words: &mut [u64; WORDS], first: u16, last: u16) {
    let (first, last) = (usize::from(first), usize::from(last));
    let (head, tail) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
    if first / 64 == last / 64 {
        words[first / 64] |= head & tail;
        return;
    }
    words[first / 64] |= head;
    words[first / 64 + 1..last / 64].fill(u64::MAX);
    words[last / 64] |= tail;
}

/// A set of pages, each of one volume.
#[derive(Debug, Default)]
pub(crate) struct PageSet {
    chunks: NumberMap<(u16, u64), Chunk>,
}

impl PageSet {
    /// Add the pages `first..=last` of `volume`.
    pub(crate) fn insert(&mut self, volume: u16, first: u64, last: u64) {
        for chunk in first / CHUNK_PAGES..=last / CHUNK_PAGES {
            let start = chunk * CHUNK_PAGES;
            let from = first.max(start) - start;
            let to = last.min(start + CHUNK_PAGES - 1) - start;
            let pages = self.chunks.entry((volume, chunk)).or_insert_with(|| Chunk::Sorted(Vec::new()));
            pages.insert(from as u16, to as u16);
        }
    }

    /// How many pages it has.
    pub(crate) fn len(&self) -> u64 {
        self.chunks.values().map(Chunk::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(
            ranges in prop::collection::vec((0..2u16, 0..200_000u64, 1..9000u64), 1..60)
        ) {
            let mut set = PageSet::default();
            let mut plain = BTreeSet::new();
            for (volume, first, count) in ranges {
                set.insert(volume, first, first + count - 1);
                plain.extend((first..first + count).map(|page| (volume, page)));
            }
            prop_assert_eq!(set.len(), plain.len() as u64);
        }

        #[test]
        fn single_pages_agree_too(pages in prop::collection::vec(0..70_000u64, 1..6000)) {
            let mut set = PageSet::default();
            for page in &pages {
                set.insert(0, *page, *page);
            }
            prop_assert_eq!(set.len(), pages.into_iter().collect::<BTreeSet<_>>().len() as u64);
        }
    }
}
