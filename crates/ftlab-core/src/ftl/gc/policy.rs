//! The contract of a victim policy.

use crate::error::ConfigError;
use crate::geometry::{BlockId, Geometry, PlaneId};
use crate::rng::Rng;
use crate::scheme::Scheme;
use crate::tape::Tape;

/// Chooses which block of a plane is collected.
///
/// Candidates are the sealed blocks: those that are written full. Order of calls for a block: `on_seal` once, then
/// `on_invalidate` for each unit that becomes stale. Then it leaves by `pick` or `remove`, and may be sealed again in
/// its next life. Below a cache that cooperates, stale units may come back: `on_revalidate`. Required are `new`, `on_seal`,
/// `on_invalidate`, `pick`, `remove` and `table_bytes`. A policy keeps its own tables
/// and never changes anything else. `on_invalidate` runs for every page that the host overwrites: it should be O(1) on
/// average. `pick` runs for every collection.
pub trait VictimPolicy: Scheme + Clone + Send + Sized + 'static {
    /// A policy without candidates for drives of shape `geometry`; `rng` is its own generator.
    fn new(geometry: &Geometry, keys: &Self::Keys, rng: Rng) -> Self;

    /// Check the limits of its keys; keys in errors are without their section.
    ///
    /// # Errors
    /// The first value beyond them.
    fn check_keys(keys: &Self::Keys) -> Result<(), ConfigError> {
        let _ = keys;
        Ok(())
    }

    /// `block` is full now, with `valid` live units.
    fn on_seal(&mut self, block: BlockId, valid: u32);

    /// A unit of the sealed `block` became stale; `valid` live ones remain.
    fn on_invalidate(&mut self, block: BlockId, valid: u32);

    /// A unit of the sealed `block` that had become stale is live again, with which there are `valid`. Of itself the block is
    /// sealed anew; a policy that knows the order in which blocks were sealed keeps its place.
    fn on_revalidate(&mut self, block: BlockId, valid: u32) {
        self.remove(block, valid - 1);
        self.on_seal(block, valid);
    }

    /// Choose a victim among the sealed blocks of `plane` and forget it. `None` when there are none.
    fn pick(&mut self, plane: PlaneId) -> Option<BlockId>;

    /// Forget the sealed `block`, which has `valid` live units: something else empties it.
    fn remove(&mut self, block: BlockId, valid: u32);

    /// A unit of `block`, which has `valid` live ones, will become stale soon: ask the processor for the place.
    #[inline]
    fn prefetch(&self, block: BlockId, valid: u32) {
        let _ = (block, valid);
    }

    /// Whether `pick` always gives the block with the fewest live units: when that one is wholly live, nothing can be
    /// gained, and it is left where it is.
    fn picks_emptiest(&self) -> bool {
        false
    }

    /// The block that `pick` would give now, if that is cheap to tell: what it holds is asked for ahead of time.
    fn likely_next(&self, plane: PlaneId) -> Option<BlockId> {
        let _ = plane;
        None
    }

    /// The policy as a copy of it would be, whose lists have no more room than they need. One whose tables never grow
    /// is its own.
    #[must_use]
    fn into_copy(self) -> Self {
        self.clone()
    }

    /// Bytes of the tables.
    fn table_bytes(&self) -> u64;

    /// Write the tables to a tape, or read them from there into a policy made for the same drive. A policy that leaves this
    /// out works as well; aged drives with it are not kept on disk.
    ///
    /// # Errors
    /// When the tape fails.
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        tape.refuse()
    }
}
