//! What a placement is.

use crate::access::Access;
use crate::config::FtlConfig;
use crate::flash::nand::NandArray;
use crate::ftl::blocks::OpenSlot;
use crate::geometry::{BlockId, Geometry, PlaneId, Ppn};
use crate::plane_order::PlaneOrder;

/// Decides which plane and which of its open blocks takes a page.
///
/// Order of calls for a page of the host: [`host`](Self::host), then [`plane`](Self::plane) for the planes that come in
/// question, then [`placed`](Self::placed) for the one that takes it. [`opened`](Self::opened) and
/// [`pages_taken`](Self::pages_taken) say what became of blocks. A placement keeps its own tables and changes nothing else.
/// All methods are required.
pub trait Placement: Clone + Send + Sized + 'static {
    /// For drives of shape `geometry`.
    fn new(geometry: &Geometry, config: &FtlConfig) -> Self;

    /// Open blocks of each plane that it uses, those for copies included; they have the lowest numbers.
    fn slots(&self) -> usize;

    /// Whether an open block was opened for the host, and not for copies alone.
    fn is_for_host(&self, slot: OpenSlot) -> bool;

    /// The open block that takes what is copied out of a block.
    fn copy_slot(&self) -> OpenSlot;

    /// The order in which planes take turns.
    fn order(&self) -> &PlaneOrder;

    /// The turn, and the open block, for what a layer above writes.
    fn host(&self, access: &Access<'_>) -> (u32, OpenSlot);

    /// Whether the next plane may take what this one cannot: where addresses decide, none can.
    fn may_go_on(&self) -> bool;

    /// The plane that takes a page when it is the turn of `plane`. The page's first unit is at `current`.
    fn plane(&mut self, nand: &NandArray, plane: PlaneId, current: impl FnOnce() -> Option<Ppn>) -> PlaneId;

    /// A page was placed at `turn`.
    fn placed(&mut self, turn: u32);

    /// `block` of `plane` was opened.
    fn opened(&mut self, nand: &NandArray, plane: PlaneId, block: BlockId);

    /// A mount has found `plane` with `free` free blocks, and `block` open in the first slot.
    fn found(&mut self, nand: &NandArray, plane: PlaneId, block: Option<BlockId>, free: u32);

    /// Pages of `plane`, which has `free` free blocks, were taken or became free.
    fn pages_taken(&mut self, nand: &NandArray, plane: PlaneId, free: u32);
}
