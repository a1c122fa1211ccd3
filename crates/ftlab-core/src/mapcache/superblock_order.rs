//! Numbers for physical units in the order in which planes are written.

use crate::geometry::{BlockId, Geometry};
use crate::plane_order::{AllocationOrder, PlaneOrder};

/// Numbers for physical units in the order in which planes are written.
///
/// First come the slots of a page, then the pages with the same place in each plane. Then come the places, and then
/// rows of blocks that were opened together. What the host writes in order round the planes has consecutive numbers.
#[derive(Debug, Clone, Default)]
pub struct SuperblockOrder {
    /// Whether writes go to the plane whose turn it is, and not where their address says.
    pub dynamic: bool,
    units_per_block: u32,
    blocks_per_plane: u32,
    slots: u32,
    /// For each plane its turn.
    turns: Vec<u32>,
    /// For each block its row. Those that the host fills have even ones, others odd ones.
    rows: Vec<u32>,
    /// For each plane, the row of the block that was opened last for the host, and for others.
    last: Vec<[u32; 2]>,
    /// The latest of all rows of the host.
    front: u32,
    /// Rows that there are numbers for; they go round, far behind those in use. 0 where numbers are too few for that
    /// (above a thousand million units): each block keeps the row that it has in its plane.
    row_count: u32,
}

impl SuperblockOrder {
    /// Of a drive whose planes are used in the order `allocation`. `dynamic`: by turns, whatever the address.
    pub fn new(geometry: &Geometry, allocation: AllocationOrder, dynamic: bool) -> Self {
        let planes = geometry.planes();
        if planes == 1 {
            return Self::default();
        }
        let order = PlaneOrder::new(geometry, allocation, true);
        let mut turns = vec![0; planes as usize];
        for turn in 0..order.len() {
            turns[order.at(turn).index()] = turn;
        }
        let (units_per_block, blocks_per_plane) = (geometry.units_per_block(), geometry.blocks_per_plane());
        let row_count = u32::MAX / (units_per_block * planes) / 2 * 2;
        let (row_count, step) = if row_count < 4 * blocks_per_plane { (0, 1) } else { (row_count, 2) };
        let last = 2 * (blocks_per_plane - 1);
        Self {
            dynamic,
            units_per_block,
            blocks_per_plane,
            slots: geometry.slots_per_page,
            turns,
            rows: (0..geometry.blocks()).map(|block| step * (block % blocks_per_plane)).collect(),
            last: vec![[last, last + 1]; planes as usize],
            front: last,
            row_count,
        }
    }

    /// Planes that are written in turn; fewer than 2: there is nothing to number anew.
    pub fn planes(&self) -> u32 {
        self.turns.len() as u32
    }

    /// A block was opened, for data of the host or for others.
    pub fn opened(&mut self, block: BlockId, by_host: bool) {
        if self.row_count == 0 {
            return;
        }
        let [host, others] = &mut self.last[(block.0 / self.blocks_per_plane) as usize];
        if by_host {
            if *host == self.front {
                self.front = (self.front + 2) % self.row_count;
            }
            *host = self.front;
            self.rows[block.index()] = *host;
        } else {
            *others = (*others + 2) % self.row_count;
            self.rows[block.index()] = *others;
        }
    }

    /// The number of a physical unit.
    #[inline]
    pub fn number(&self, ppn: u32) -> u32 {
        let (block, unit) = (ppn / self.units_per_block, ppn % self.units_per_block);
        let turn = self.turns[(block / self.blocks_per_plane) as usize];
        let place = (self.rows[block as usize] * self.units_per_block + unit) / self.slots;
        (place * self.planes() + turn) * self.slots + unit % self.slots
    }

    /// The turn of the plane that a unit of this number lies in.
    #[inline]
    pub fn plane(&self, number: u32) -> u32 {
        number / self.slots % self.planes()
    }

    /// Bytes of its tables.
    pub fn table_bytes(&self) -> u64 {
        (self.turns.capacity() + self.rows.capacity()) as u64 * 4 + self.last.capacity() as u64 * 8
    }
}

/// Of the drive that a device file describes.
#[cfg(test)]
pub(super) fn superblock_order(text: &str) -> SuperblockOrder {
    let config: crate::config::DeviceConfig = serde_json::from_str(text).expect("a device file");
    let dynamic = config.ftl.placement.goes_by_turn();
    SuperblockOrder::new(&config.to_geometry(), config.ftl.allocation, dynamic)
}
