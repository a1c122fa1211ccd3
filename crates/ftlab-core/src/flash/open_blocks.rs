//! What is remembered of each page of the blocks that are being filled. They are few, and their memory is used again.

use crate::geometry::{BlockId, Geometry, PageAt};

/// Stands for a block that is not being filled.
const CLOSED: u32 = u32::MAX;

/// An entry for each page of the blocks that are being filled.
#[derive(Debug, Clone)]
pub(super) struct OpenBlocks<E> {
    pages_per_block: usize,
    /// By block: where its entries begin, or `CLOSED`.
    starts: Vec<u32>,
    entries: Vec<E>,
    /// Where entries of blocks begin that are closed by now.
    free: Vec<u32>,
}

impl<E: Copy> OpenBlocks<E> {
    /// No block is being filled.
    pub(super) fn new(geometry: &Geometry) -> Self {
        Self {
            pages_per_block: geometry.pages_per_block() as usize,
            starts: vec![CLOSED; geometry.blocks() as usize],
            entries: Vec::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn is_open(&self, block: BlockId) -> bool {
        self.starts[block.index()] != CLOSED
    }

    /// The entry of a page, if its block is being filled.
    #[inline]
    pub(super) fn get(&self, page: PageAt) -> Option<&E> {
        let start = self.starts[page.block.index()];
        (start != CLOSED).then(|| &self.entries[(start + page.index) as usize])
    }

    /// The same, to be changed.
    #[inline]
    pub(super) fn get_mut(&mut self, page: PageAt) -> Option<&mut E> {
        let start = self.starts[page.block.index()];
        (start != CLOSED).then(|| &mut self.entries[(start + page.index) as usize])
    }

    /// The entry of a page, which is `fresh` if nothing was known of its block.
    #[inline(always)]
    pub(super) fn entry(&mut self, page: PageAt, fresh: E) -> &mut E {
        let mut start = self.starts[page.block.index()];
        if start == CLOSED {
            start = self.begin(page.block, fresh);
        }
        &mut self.entries[(start + page.index) as usize]
    }

    /// The entries of a block, each of them `fresh` if nothing was known of it.
    #[inline(always)]
    pub(super) fn open(&mut self, block: BlockId, fresh: E) -> &mut [E] {
        let mut start = self.starts[block.index()];
        if start == CLOSED {
            start = self.begin(block, fresh);
        }
        &mut self.entries[start as usize..][..self.pages_per_block]
    }

    #[cold]
    #[inline(never)]
    fn begin(&mut self, block: BlockId, fresh: E) -> u32 {
        let start = self.free.pop().unwrap_or_else(|| {
            self.entries.resize(self.entries.len() + self.pages_per_block, fresh);
            (self.entries.len() - self.pages_per_block) as u32
        });
        self.entries[start as usize..][..self.pages_per_block].fill(fresh);
        self.starts[block.index()] = start;
        start
    }

    /// The block is full, or erased.
    #[inline]
    pub(super) fn close(&mut self, block: BlockId) {
        let start = std::mem::replace(&mut self.starts[block.index()], CLOSED);
        if start != CLOSED {
            self.free.push(start);
        }
    }

    /// The same with other entries.
    pub(super) fn map<F>(self, entry: impl Fn(E) -> F) -> OpenBlocks<F> {
        OpenBlocks {
            pages_per_block: self.pages_per_block,
            starts: self.starts,
            entries: self.entries.into_iter().map(entry).collect(),
            free: self.free,
        }
    }

    pub(super) fn table_bytes(&self) -> u64 {
        (size_of_val::<[E]>(&self.entries) + (self.starts.len() + self.free.capacity()) * size_of::<u32>())
            as u64
    }
}
