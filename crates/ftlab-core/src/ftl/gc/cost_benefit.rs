//! Cost-benefit: old and empty.

use crate::ftl::gc::policy::VictimPolicy;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;
use crate::scheme::{NoKeys, Scheme};
use crate::tape::{Tape, Taped, taped};

const NONE: u32 = u32::MAX;

/// Benefit / cost = age x (1 - u) / 2u.
///
/// Age is counted in events of this policy (units that become stale, blocks that are sealed), since the block's own
/// last one. A block that loses a unit moves to the end of the list of its level, so each list is in order of age. Only
/// the heads of the lists compete: as many as a block has units, however many blocks there are.
#[derive(Debug, Clone)]
pub struct CostBenefit {
    geometry: Geometry,
    levels: u32,
    /// Oldest and youngest block of each level of each plane.
    ends: Vec<(u32, u32)>,
    links: Vec<Link>,
    clock: u64,
}

#[derive(Debug, Clone, Copy)]
struct Link {
    changed: u64,
    older: u32,
    younger: u32,
}

taped! { Link { changed, older, younger } else {} }

impl CostBenefit {
    fn level(&self, block: BlockId, valid: u32) -> usize {
        self.geometry.plane_of(block).index() * self.levels as usize + valid as usize
    }

    fn append(&mut self, block: BlockId, valid: u32) {
        self.clock += 1;
        let level = self.level(block, valid);
        let (oldest, youngest) = &mut self.ends[level];
        self.links[block.index()] = Link { changed: self.clock, older: *youngest, younger: NONE };
        if *youngest == NONE {
            *oldest = block.0;
        } else {
            self.links[*youngest as usize].younger = block.0;
        }
        *youngest = block.0;
    }

    fn unlink(&mut self, block: BlockId, valid: u32) {
        let level = self.level(block, valid);
        let Link { older, younger, .. } = self.links[block.index()];
        match older {
            NONE => self.ends[level].0 = younger,
            older => self.links[older as usize].younger = younger,
        }
        match younger {
            NONE => self.ends[level].1 = older,
            younger => self.links[younger as usize].older = older,
        }
    }
}

impl Scheme for CostBenefit {
    const SUMMARY: &'static str = "The block with the largest age x (1 - u) / 2u: u its share of live units, age \
                                   what became stale or full elsewhere since a unit of it last became stale.";
    const SOURCE: &'static str = "A. Kawaguchi, S. Nishioka and H. Motoda, USENIX 1995";
    type Keys = NoKeys;
}

impl VictimPolicy for CostBenefit {
    fn new(geometry: &Geometry, _: &NoKeys, _: Rng) -> Self {
        let levels = geometry.data_units_per_block() + 1;
        Self {
            ends: vec![(NONE, NONE); (geometry.planes() * levels) as usize],
            links: vec![Link { changed: 0, older: NONE, younger: NONE }; geometry.blocks() as usize],
            levels,
            clock: 0,
            geometry: geometry.clone(),
        }
    }

    fn on_seal(&mut self, block: BlockId, valid: u32) {
        self.append(block, valid);
    }

    #[inline]
    fn on_invalidate(&mut self, block: BlockId, valid: u32) {
        self.unlink(block, valid + 1);
        self.append(block, valid);
    }

    fn pick(&mut self, plane: PlaneId) -> Option<BlockId> {
        let base = plane.index() * self.levels as usize;
        let capacity = f64::from(self.levels - 1);
        let mut best = None;
        let mut best_score = f64::NEG_INFINITY;
        for valid in 0..self.levels {
            let (oldest, _) = self.ends[base + valid as usize];
            if oldest == NONE {
                continue;
            }
            let age = (self.clock - self.links[oldest as usize].changed) as f64;
            let u = f64::from(valid) / capacity;
            // An empty block costs nothing to collect: u = 0 gives infinity.
            let score = if valid == 0 { f64::INFINITY } else { age * (1.0 - u) / (2.0 * u) };
            if score > best_score {
                (best, best_score) = (Some((BlockId(oldest), valid)), score);
            }
        }
        let (victim, valid) = best?;
        self.unlink(victim, valid);
        Some(victim)
    }

    fn remove(&mut self, block: BlockId, valid: u32) {
        self.unlink(block, valid);
    }

    fn table_bytes(&self) -> u64 {
        (self.ends.len() * 8 + self.links.len() * size_of::<Link>()) as u64
    }

    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        let Self { ends, links, clock, geometry: _, levels: _ } = self;
        ends.tape(tape)?;
        tape.each(links)?;
        clock.tape(tape)
    }
}
