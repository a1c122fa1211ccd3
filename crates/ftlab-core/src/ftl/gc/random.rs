//! Random: any sealed block.

use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;
use crate::scheme::{NoKeys, Scheme};
use crate::tape::{Tape, Taped, taped};

/// The sealed blocks of each plane as a dense list, so that one can be drawn at random in O(1).
#[derive(Debug, Clone)]
pub(super) struct SealedSet {
    geometry: Geometry,
    lists: Vec<Vec<BlockId>>,
    position: Vec<u32>,
}

taped! { SealedSet { lists, position } else { geometry } }

impl SealedSet {
    pub(super) fn new(geometry: &Geometry) -> Self {
        let list = || Vec::with_capacity(geometry.blocks_per_plane() as usize);
        Self {
            lists: (0..geometry.planes()).map(|_| list()).collect(),
            position: vec![0; geometry.blocks() as usize],
            geometry: geometry.clone(),
        }
    }

    pub(super) fn insert(&mut self, block: BlockId) {
        let list = &mut self.lists[self.geometry.plane_of(block).index()];
        self.position[block.index()] = list.len() as u32;
        list.push(block);
    }

    pub(super) fn remove(&mut self, block: BlockId) {
        let list = &mut self.lists[self.geometry.plane_of(block).index()];
        let at = self.position[block.index()];
        list.swap_remove(at as usize);
        if let Some(moved) = list.get(at as usize) {
            self.position[moved.index()] = at;
        }
    }

    pub(super) fn draw(&self, plane: PlaneId, rng: &mut Rng) -> Option<BlockId> {
        let list = &self.lists[plane.index()];
        if list.is_empty() { None } else { Some(list[rng.below(list.len() as u64) as usize]) }
    }

    pub(super) fn table_bytes(&self) -> u64 {
        (self.lists.iter().map(Vec::capacity).sum::<usize>() * 4 + self.position.len() * 4) as u64
    }
}

/// The yardstick of theory, write amplification 1 / (1 - rho) under uniform writes. Blocks that are wholly live are
/// drawn too: the formula counts on them.
#[derive(Debug, Clone)]
pub struct Random {
    sealed: SealedSet,
    rng: Rng,
}

impl Scheme for Random {
    const SUMMARY: &'static str = "Any sealed block, each equally likely.";
    const SOURCE: &'static str = "B. Van Houdt, SIGMETRICS 2013, d = 1";
    type Keys = NoKeys;
}

impl VictimPolicy for Random {
    fn new(geometry: &Geometry, _: &NoKeys, rng: Rng) -> Self {
        Self { sealed: SealedSet::new(geometry), rng }
    }

    fn on_seal(&mut self, block: BlockId, _: u32) {
        self.sealed.insert(block);
    }

    #[inline]
    fn on_invalidate(&mut self, _: BlockId, _: u32) {}

    fn on_revalidate(&mut self, _: BlockId, _: u32) {}

    fn pick(&mut self, plane: PlaneId) -> Option<BlockId> {
        let victim = self.sealed.draw(plane, &mut self.rng)?;
        self.sealed.remove(victim);
        Some(victim)
    }

    fn remove(&mut self, block: BlockId, _: u32) {
        self.sealed.remove(block);
    }

    fn table_bytes(&self) -> u64 {
        self.sealed.table_bytes()
    }

    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { sealed, rng } = self;
        sealed.tape(tape)?;
        rng.tape(tape)
    }
}
