//! What makes no physical sense is refused: each section by itself, and then the sections together.

use crate::config::{Atomic, BufferSetting, DeviceConfig, GcPace, Model};
use crate::error::{ConfigError, refuse};
use crate::ftl::block_mapped::capacity as block_capacity;
use crate::ftl::hybrid::scheme::Homes;
use crate::ftl::kinds::FtlKind;
use crate::ftl::page::capacity;
use crate::mapcache::alone;
use crate::mapcache::scheme::PageSizes;

impl DeviceConfig {
    /// Check every value, alone and against the others.
    ///
    /// # Errors
    /// The first key that makes no sense, what it holds, and what would.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let g = &self.geometry;
        g.check()?;
        self.cell.check(g.pages_per_block)?;
        self.lsb_backup.check(self.cell.kind.kind(), g.pages_per_block)?;
        self.timing.check(self.cell.kind.kind(), g.page_bytes, g.spare_bytes)?;
        self.check_table()?;
        self.ftl.check(g.unit_bytes())?;
        if self.ftl.summary_page && g.pages_per_block < 2 {
            return refuse("ftl.summary_page", true, "needs at least 2 pages in a block");
        }
        if self.ftl.placement.compares_planes() && capacity::open_blocks_per_plane(self) > 1 {
            let expected = "compares the one open block of each plane: needs ftl.streams = 1, ftl.gc_open_block = \"shared\" and map_cache.kind = \"ideal\"";
            return refuse("ftl.plane_choice", "\"most_free\"", expected);
        }
        self.check_pace()?;
        self.ftl.kind.check()?;
        match self.model {
            _ if self.ftl.kind.kind() != FtlKind::Page => block_capacity::check(self)?,
            Model::Drive => capacity::check(self)?,
            Model::MappingCache => capacity::check_size(self)?,
        }
        self.check_buffer()?;
        self.check_nvm()?;
        self.host.check()?;
        let plain = self.ftl.placement.host_slots() == 1 && g.unit_bytes() == g.page_bytes;
        self.precondition.check(self.ftl.kept_free(), plain)
    }

    /// What cannot be done in the middle of a victim.
    fn check_pace(&self) -> Result<(), ConfigError> {
        if self.ftl.gc_pace == GcPace::Block {
            return Ok(());
        }
        let expected = if self.map_cache.kind.is_cache() {
            "needs map_cache.kind = \"ideal\": a mapping cache writes what moves out of a victim into its table at once"
        } else if self.nvm.cooperates() {
            "needs another nvm.kind than \"cdm\": what that has the only copy of must leave a victim at once"
        } else if self.ftl.placement.sorts_copies() && self.geometry.slots_per_page() > 1 {
            "needs pages of one mapping unit with this placement: it sorts the units of a whole victim into pages"
        } else {
            return Ok(());
        };
        refuse("ftl.gc_pace", "\"even\"", expected)
    }

    /// The write buffer, and what is promised of it.
    fn check_buffer(&self) -> Result<(), ConfigError> {
        let g = &self.geometry;
        let layout = self.ftl.kind.layout(g.all_planes() as u32);
        self.buffer.check(BufferSetting {
            page_bytes: g.page_bytes,
            unit_bytes: g.unit_bytes(),
            block_units: match layout {
                Some(layout) => g.pages_per_block * layout.width,
                None => (u64::from(g.pages_per_block) * g.slots_per_page()) as u32,
            },
            lanes: self.lanes(),
            lets_addresses_decide: match layout {
                Some(layout) if layout.width > 1 => Some("a layer that keeps a logical block in one memory"),
                Some(layout) if layout.homes == Homes::Dynamic => Some("ftl.allocator = \"static\""),
                None if !self.ftl.placement.goes_by_address() => {
                    Some("ftl.placement = \"stripe\" with ftl.striping = \"static\"")
                }
                _ => None,
            },
        })?;
        if self.power.atomic == Atomic::Request && self.buffer.writes_back() {
            let expected = "needs buffer.write = \"through\" or no buffer: requests leave a buffer in parts, whether or not it has a capacitor";
            return refuse("power.atomic", "\"request\"", expected);
        }
        Ok(())
    }

    /// The non-volatile cache, and what is promised of it.
    fn check_nvm(&self) -> Result<(), ConfigError> {
        let (g, kind) = (&self.geometry, self.ftl.kind.kind());
        let cannot_cooperate = (kind != FtlKind::Page).then(|| kind.name());
        self.nvm.check(g.page_bytes, self.host.link_mb_per_s, cannot_cooperate)?;
        let hiding = self.buffer.keys().and_then(|keys| keys.hiding);
        if let (Some(hiding), true) = (hiding, self.nvm.is_on()) {
            let expected = "is about the time of flash, which a cache between buffer and flash takes away: choose nvm.kind = \"none\", or leave it out";
            return refuse("buffer.hiding", hiding, expected);
        }
        if self.power.atomic == Atomic::Request && self.nvm.is_on() {
            let expected = "needs nvm.kind = \"none\": requests come to a cache in parts";
            return refuse("power.atomic", "\"request\"", expected);
        }
        Ok(())
    }

    /// The mapping cache, and where its table lives.
    fn check_table(&self) -> Result<(), ConfigError> {
        let kind = &self.map_cache.kind;
        let (page_bytes, spare_bytes) = (self.geometry.page_bytes, self.geometry.spare_bytes);
        if kind.is_cache() && page_bytes > 1 << 20 {
            let expected = "translation pages are NAND pages of at most 1 MiB";
            return refuse("geometry.page_bytes", page_bytes, expected);
        }
        let sizes = PageSizes { page_bytes, spare_bytes };
        match self.model {
            Model::MappingCache => alone::check(self, sizes),
            // Over a block-mapped layer there is none, which is said there.
            Model::Drive if self.ftl.kind.kind() != FtlKind::Page => Ok(()),
            Model::Drive if kind.is_cache() => kind.check(sizes, capacity::translation_layout(self)),
            Model::Drive => Ok(()),
        }
    }
}
