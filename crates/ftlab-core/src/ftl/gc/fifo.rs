//! FIFO: the block sealed first.

use std::collections::VecDeque;

use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;
use crate::scheme::{NoKeys, Scheme};
use crate::tape::{Tape, Taped};

/// Also called LRU cleaning: the least recently written block goes first, whatever it holds.
#[derive(Debug, Clone)]
pub struct Fifo {
    geometry: Geometry,
    sealed: Vec<VecDeque<BlockId>>,
}

impl Scheme for Fifo {
    const SUMMARY: &'static str = "The block that was sealed first (LRU cleaning).";
    const SOURCE: &'static str = "P. Desnoyers, SYSTOR 2012, as LRU cleaning";
    type Keys = NoKeys;
}

impl VictimPolicy for Fifo {
    fn new(geometry: &Geometry, _: &NoKeys, _: Rng) -> Self {
        let queue = || VecDeque::with_capacity(geometry.blocks_per_plane() as usize);
        Self { sealed: (0..geometry.planes()).map(|_| queue()).collect(), geometry: geometry.clone() }
    }

    fn on_seal(&mut self, block: BlockId, _: u32) {
        self.sealed[self.geometry.plane_of(block).index()].push_back(block);
    }

    #[inline]
    fn on_invalidate(&mut self, _: BlockId, _: u32) {}

    fn on_revalidate(&mut self, _: BlockId, _: u32) {}

    fn pick(&mut self, plane: PlaneId) -> Option<BlockId> {
        self.sealed[plane.index()].pop_front()
    }

    fn remove(&mut self, block: BlockId, _: u32) {
        let queue = &mut self.sealed[self.geometry.plane_of(block).index()];
        if let Some(at) = queue.iter().position(|sealed| *sealed == block) {
            queue.remove(at);
        }
    }

    fn table_bytes(&self) -> u64 {
        self.sealed.iter().map(|queue| queue.capacity() as u64 * 4).sum()
    }

    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { sealed, geometry: _ } = self;
        sealed.tape(tape)
    }
}
