//! The contract of a block-mapped translation layer, and what it may do to flash.

use crate::access::Access;
use crate::error::{ConfigError, FlashResult};
use crate::ftl::hybrid::merge::MergeCounts;
use crate::geometry::Lpn;
use crate::scheme::Scheme;

/// What is written and erased as one, a *unit* of the layer: a block of one memory, or one of each memory of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClusteredBlock(pub u32);

/// A page of a clustered block. Pages are counted over its memories first: page `n` is in memory `n mod width`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The clustered block.
    pub unit: ClusteredBlock,
    /// The page within it, from 0.
    pub page: u32,
}

/// What a clustered block is opened for: flash remembers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Data, each page at its own offset.
    Data,
    /// Updates, in the order in which they come.
    Log,
    /// Updates of one logical block from its first page on.
    Sequential,
}

/// Which memories a new logical block may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Homes {
    /// The block's number modulo the clusters.
    Static,
    /// The cluster with the fewest logical blocks when the block is written first.
    Dynamic,
}

/// How a layer cuts the drive up: what its keys say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Memories of a cluster; 1 for layers that keep a logical block in one memory.
    pub width: u32,
    /// Log units: of the whole drive, or of each cluster that has logs of its own; 0: as many as there is room for.
    pub log_units: u32,
    /// Whether each cluster has logs of its own.
    pub has_logs_in_each: bool,
    /// Log units that each cluster needs at least.
    pub least_logs: u32,
    /// Whether units opened as [`Purpose::Log`] take pages of several logical blocks.
    pub shares_logs: bool,
    /// Who has which logical blocks.
    pub homes: Homes,
    /// Whether a page may be written to another memory than the last time.
    pub pages_move: bool,
}

/// The drive that a layer works for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// How the layer cuts it up, with the number of log units that there are.
    pub layout: Layout,
    /// Clusters.
    pub clusters: u32,
    /// Pages of a clustered block, which are also those of a logical block.
    pub pages: u32,
    /// Clustered blocks of a cluster.
    pub units_per_cluster: u32,
    /// Pages that the host sees.
    pub logical_pages: u32,
    /// Bytes of a page.
    pub page_bytes: u32,
}

impl Shape {
    /// Logical blocks; the last one may be incomplete.
    pub const fn logical_blocks(&self) -> u32 {
        self.logical_pages.div_ceil(self.pages)
    }

    /// Log units of the drive.
    pub const fn log_units(&self) -> u32 {
        let Layout { log_units, has_logs_in_each, .. } = self.layout;
        if has_logs_in_each { log_units * self.clusters } else { log_units }
    }

    /// Clustered blocks of the drive.
    pub const fn units(&self) -> u32 {
        self.clusters * self.units_per_cluster
    }
}

/// What a layer may ask of flash.
pub trait View {
    /// The drive.
    fn shape(&self) -> &Shape;

    /// Where the newest version of a page is; `None` when it was never written, or was trimmed.
    fn place(&self, lpn: Lpn) -> Option<Place>;

    /// The page that `place` was programmed with, whether or not it is the newest version.
    fn page_at(&self, place: Place) -> Option<Lpn>;

    /// Pages of a unit whose data are live.
    fn live(&self, unit: ClusteredBlock) -> u32;

    /// Whether `place` may be programmed: nothing is there, and nothing above it in its memory.
    fn is_free(&self, place: Place) -> bool;

    /// The first page of `unit` above all that is programmed.
    fn next_page(&self, unit: ClusteredBlock) -> u32;

    /// Free units of a cluster.
    fn free_units(&self, cluster: u32) -> u32;
}

/// What a layer may do to flash. Every step is checked against the rules of flash, counted and timed below.
pub trait Store: View {
    /// Stands for the moment when something has ended.
    type Ticket: Copy;

    /// A moment that has passed.
    fn ready(&self) -> Self::Ticket;

    /// The later of two moments.
    fn join(&mut self, first: Self::Ticket, second: Self::Ticket) -> Self::Ticket;

    /// Take a free unit of `cluster`.
    ///
    /// # Errors
    /// When there is none.
    fn open(&mut self, cluster: u32, purpose: Purpose) -> FlashResult<ClusteredBlock>;

    /// Nothing is programmed in `unit` before `until`: what made room for it has ended then. In a memory of its own, all waits
    /// for the first page anyway; this is for clustered blocks.
    fn hold(&mut self, unit: ClusteredBlock, until: Self::Ticket);

    /// Program what `access` writes to `to`. The old version is stale then; of a page written in part the rest is read first.
    ///
    /// # Errors
    /// When a rule of flash was broken or the power was cut.
    fn write(&mut self, access: &Access<'_>, to: Place, after: Self::Ticket) -> FlashResult<Self::Ticket>;

    /// Copy the newest version of `lpn` to `to`, where it is the newest then: inside its plane if it can be.
    ///
    /// # Errors
    /// As `write`.
    fn copy(&mut self, lpn: Lpn, to: Place, after: Self::Ticket) -> FlashResult<Self::Ticket>;

    /// The same in place of a write of the host that fills a row: counted with what it serves, and not as a merge.
    ///
    /// # Errors
    /// As `write`.
    fn pad(
        &mut self,
        access: &Access<'_>,
        lpn: Lpn,
        to: Place,
        after: Self::Ticket,
    ) -> FlashResult<Self::Ticket>;

    /// Program `place` without data.
    ///
    /// # Errors
    /// As `write`.
    fn mark(&mut self, place: Place) -> FlashResult<Self::Ticket>;

    /// A merge of what is in `unit` begins, beside logs that may have older versions of it. What was trimmed there is written
    /// first. Otherwise a mount could take the copy for the whole and find an older version.
    ///
    /// # Errors
    /// As `write`.
    fn settle_trims(&mut self, unit: ClusteredBlock) -> FlashResult<()>;

    /// Erase `unit`, of which nothing is live. It is free then.
    ///
    /// # Errors
    /// As `write`.
    fn erase(&mut self, unit: ClusteredBlock, after: Self::Ticket) -> FlashResult<Self::Ticket>;
}

/// A clustered block that a mount has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    /// The unit.
    pub unit: ClusteredBlock,
    /// What it was opened for.
    pub purpose: Purpose,
    /// The one logical block of all its pages, if it has one.
    pub block: Option<u32>,
    /// Pages up to the last that was programmed.
    pub filled: u32,
    /// Whether all that can be read of it stands at its own offset in `block`: it can be the data block.
    pub is_at_home: bool,
    /// Whether besides, no page up to the last one has its newest version elsewhere: it can become the data block in place of
    /// another.
    pub is_in_order: bool,
}

/// A block-mapped translation layer: where pages go, and what is merged when.
///
/// A layer decides; a [`Store`] does it, and checks it. Calls come in the order of accesses. `write` comes for each page that
/// the host writes. `trimmed` comes when a page has become stale by a trim. Accesses of a group follow each other, and
/// `access.rest` is 0 for the last of them: what a layer leaves undone between two pages of a group it ends then.
/// Each cluster keeps one free unit for merges. Required: all but `check_keys` and `end_group`.
pub trait BlockMapped: Scheme + Clone + Send + Sized + 'static {
    /// Check the limits of its keys; keys in errors are without their section.
    ///
    /// # Errors
    /// The first value beyond them.
    fn check_keys(keys: &Self::Keys) -> Result<(), ConfigError> {
        let _ = keys;
        Ok(())
    }

    /// How it cuts up a drive of so many memories.
    fn layout(keys: &Self::Keys, memories: u32) -> Layout;

    /// The layer of an erased drive.
    fn new(keys: &Self::Keys, shape: &Shape) -> Self;

    /// Write a page. Returns when it is durable, together with everything that its group has begun and this call ends.
    ///
    /// # Errors
    /// As those of the store.
    fn write<S: Store>(
        &mut self,
        store: &mut S,
        access: &Access<'_>,
        after: S::Ticket,
    ) -> FlashResult<S::Ticket>;

    /// A page that was in `was` has been trimmed.
    ///
    /// # Errors
    /// As those of the store.
    fn trimmed<S: Store>(&mut self, store: &mut S, lpn: Lpn, was: Place) -> FlashResult<()>;

    /// End what a group has begun: something else comes. By default nothing is left undone.
    ///
    /// # Errors
    /// As those of the store.
    fn end_group<S: Store>(&mut self, store: &mut S, after: S::Ticket) -> FlashResult<S::Ticket> {
        let _ = store;
        Ok(after)
    }

    /// A mount has found these units, of one cluster after the other and in each in the order in which they were opened. Of
    /// several copies of a page the store knows the newest.
    ///
    /// # Errors
    /// As those of the store.
    fn found<S: Store>(&mut self, store: &mut S, units: &[Found]) -> FlashResult<()>;

    /// Write every page of an erased drive, block after block: `each` writes one. Needed are the data units alone.
    ///
    /// # Errors
    /// As those of the store.
    fn data_unit<S: Store>(&mut self, store: &mut S, block: u32) -> FlashResult<ClusteredBlock>;

    /// The cluster that the address of a page decides, if it does before the page is written.
    fn cluster_of(&self, lpn: Lpn) -> Option<u32>;

    /// Check that every unit is where it belongs: `claims` hears of each unit in use.
    ///
    /// # Errors
    /// The first disagreement.
    fn verify<S: View>(&self, store: &S, claims: &mut dyn FnMut(ClusteredBlock)) -> Result<(), String>;

    /// Merges since the last reset.
    fn counts(&self) -> MergeCounts;

    /// Start counting at zero.
    fn reset_counts(&mut self);

    /// Bytes of the tables.
    fn table_bytes(&self) -> u64;
}
