//! What a placement is.

use crate::access::Access;
use crate::error::ConfigError;
use crate::flash::nand::NandArray;
use crate::geometry::{BlockId, Geometry, Lpn, PlaneId, Ppn};
use crate::plane_order::{AllocationOrder, PlaneOrder};
use crate::scheme::Scheme;
use crate::tape::Tape;

/// Which of a plane's open blocks takes a page, as a number.
pub type OpenSlot = usize;

/// What the keys that all placements share say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// The order in which consecutive pages use channel, way, die and plane.
    pub allocation: AllocationOrder,
    /// Whether copies have an open block of their own in each plane.
    pub copies_apart: bool,
}

/// Decides which plane and which of its open blocks takes a page.
///
/// Order of calls for a page of the host: [`host`](Self::host), then [`plane`](Self::plane) for the planes that come in
/// question, then [`placed`](Self::placed) for the one that takes it. For a block that is collected:
/// [`collected`](Self::collected), then [`copied`](Self::copied) for each unit that moves. [`opened`](Self::opened) and
/// [`pages_taken`](Self::pages_taken) say what became of blocks. A placement keeps its own tables and changes nothing else.
/// Its order of planes, and where copies go, are asked for once. Some calls are left out where it says that it has no use for
/// them. Required: all methods without a default.
pub trait Placement: Scheme + Clone + Send + Sized + 'static {
    /// For drives of shape `geometry`.
    fn new(geometry: &Geometry, keys: &Self::Keys, setting: Setting) -> Self;

    /// Check the limits of its keys; keys in errors are without their section.
    ///
    /// # Errors
    /// The first value beyond them.
    fn check_keys(keys: &Self::Keys) -> Result<(), ConfigError> {
        let _ = keys;
        Ok(())
    }

    /// Open blocks of each plane for the host. Blocks for copies come beside them, or share the first.
    fn host_slots(keys: &Self::Keys) -> u32;

    /// Open blocks of each plane for copies alone. `apart`: whether the drive wants any.
    fn copy_slots(keys: &Self::Keys, apart: bool) -> u32 {
        let _ = keys;
        u32::from(apart)
    }

    /// Whether it tells apart what is copied out of a block: [`copied`](Self::copied) is asked then.
    fn sorts_copies(keys: &Self::Keys) -> bool {
        let _ = keys;
        false
    }

    /// Bytes of its tables on a drive of so many logical units and blocks, what is the same for every drive left out.
    fn table_bytes(keys: &Self::Keys, units: u64, blocks: u64) -> u64 {
        let _ = (keys, units, blocks);
        0
    }

    /// Whether each page takes the turn of its address, and the first open block: nobody asks [`host`](Self::host) then.
    fn goes_by_address(keys: &Self::Keys) -> bool {
        let _ = keys;
        false
    }

    /// Whether pages go to the plane whose turn it is, and not where their address says. Then it hears what was
    /// [`placed`](Self::placed).
    fn goes_by_turn(keys: &Self::Keys) -> bool {
        let _ = keys;
        false
    }

    /// Whether pages of a first, sequential fill take turns over all planes, each in the first open block of its plane.
    fn fills_in_turn(keys: &Self::Keys) -> bool {
        let _ = keys;
        false
    }

    /// Whether it compares the open block of each plane with those of others: there may be only one then. It chooses the
    /// [`plane`](Self::plane) then, and hears of [`pages_taken`](Self::pages_taken).
    fn compares_planes(keys: &Self::Keys) -> bool {
        let _ = keys;
        false
    }

    /// Open blocks of each plane that it uses, those for copies included; they have the lowest numbers.
    fn slots(&self) -> usize;

    /// Whether an open block was opened for the host, and not for copies alone.
    fn is_for_host(&self, slot: OpenSlot) -> bool;

    /// The open block that takes what is copied out of a block. With [`sorts_copies`](Self::sorts_copies), that is what
    /// wear levelling and mounts copy.
    fn copy_slot(&self) -> OpenSlot;

    /// The order in which planes take turns.
    fn order(&self) -> &PlaneOrder;

    /// The turn, and the open block, for what a layer above writes. `current` says where a unit is, if anywhere.
    fn host(&mut self, access: &Access<'_>, current: impl Fn(Lpn) -> Option<Ppn>) -> (u32, OpenSlot);

    /// Whether the next plane may take what this one cannot: where addresses decide, none can.
    fn may_go_on(&self) -> bool;

    /// The plane that takes a page when it is the turn of `plane`. The page's first unit is at `current`.
    fn plane(&mut self, nand: &NandArray, plane: PlaneId, current: impl FnOnce() -> Option<Ppn>) -> PlaneId;

    /// A page was placed in `slot` at `turn`.
    fn placed(&mut self, slot: OpenSlot, turn: u32);

    /// `block` of `plane` was opened in `slot`, which may be one that is none of its own.
    fn opened(&mut self, nand: &NandArray, plane: PlaneId, slot: OpenSlot, block: BlockId);

    /// `victim` is being collected: its live units are copied, and it is erased.
    fn collected(&mut self, victim: BlockId) {
        let _ = victim;
    }

    /// The open block, one for copies alone, that takes the unit `lpn` out of `victim`.
    fn copied(&self, victim: BlockId, lpn: Lpn) -> OpenSlot {
        let _ = (victim, lpn);
        self.copy_slot()
    }

    /// A mount has found `plane` with `free` free blocks, and `block` open in the first slot.
    fn found(&mut self, nand: &NandArray, plane: PlaneId, block: Option<BlockId>, free: u32);

    /// Pages of `plane`, which has `free` free blocks, were taken or became free.
    fn pages_taken(&mut self, nand: &NandArray, plane: PlaneId, free: u32);

    /// Write its tables to a tape, or read them from there into a placement made for the same drive. A placement that leaves
    /// this out works as well; aged drives with it are not kept on disk.
    ///
    /// # Errors
    /// When the tape fails.
    fn tape(&mut self, tape: &mut Tape<'_>) -> std::io::Result<()> {
        tape.refuse()
    }
}
